//! The robot's end.

use taut_core::Duration;

use crate::drift::Drift;
use crate::place::Place;
use crate::reserve::Reserve;
use crate::vector::{Vector, dot, plus, times};
use crate::wave::{affordable, filtered, wave_energy};
use crate::{Law, Message, Motion, Port, Servo, Tdpa, Wave};

/// N·s/m, of a hand at a point whose energy is needed: [`RobotEnd::drag`].
const DRAG: f64 = 4.0;

/// Periods that what is left has to last for by time-domain passivity, at the least: energy that comes in bursts, since either host or the network was
/// late, would otherwise be spent on one jerk, and the arm would stand between two.
const SPENT_OVER: f64 = 4.0;

/// What is measured beside the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Surroundings<P = Vector> {
    /// Of the arm.
    pub arm: Motion<P>,
    /// Of what it touches on it, N.
    pub force: Vector,
}

/// What the arm is to do, and what is to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobotOutput<P = Vector> {
    /// Where the arm's servo is to lead it.
    pub reference: Motion<P>,
    /// Of that servo on the arm by this end's account, N: what the channel's port is to be judged by.
    pub servo_force: Vector,
    /// What this end may still give, J; 0 where the law is not [passive](Law::is_passive).
    pub reserve: f64,
    /// For the operator.
    pub message: Message<P>,
}

impl<P: Place> RobotOutput<P> {
    /// Force and velocity at the channel's port.
    pub const fn port(&self) -> Port {
        Port { force: self.servo_force, velocity: self.reference.velocity }
    }
}

/// The end of a [`Law`] beside the arm.
#[derive(Clone, Copy, Debug)]
pub struct RobotEnd<P = Vector> {
    law: Law,
    servo: Servo,
    /// s.
    period: f64,
    reserve: Reserve,
    heard: Option<Message<P>>,
    /// Of the servo; none before the first step since it began.
    reference: Option<P>,
    /// The wave that arrives, after the filter, √W.
    arriving: Vector,
    /// Of waves.
    drift: Drift,
    limited: u64,
}

impl<P: Place> RobotEnd<P> {
    /// Asked every `period`, above zero, about an arm with this servo.
    pub fn new(law: Law, servo: Servo, period: Duration) -> Self {
        Self {
            law,
            servo,
            period: period.as_secs_f64(),
            reserve: Reserve::new(law.reserve()),
            heard: None,
            reference: None,
            arriving: [0.0; 3],
            drift: Drift::NONE,
            limited: 0,
        }
    }

    /// By which it goes.
    pub const fn law(&self) -> Law {
        self.law
    }

    /// Is there a reference that the law carries on from? Never of a law that is not [passive](Law::is_passive).
    pub const fn leads(&self) -> bool {
        self.reference.is_some()
    }

    /// Are the hand that was heard of and the reference [near](Place::is_near) enough to an arm that is there? Where they are not it is to be stopped.
    pub fn is_near(&self, arm: &P) -> bool {
        let hand = self.heard.map(|heard| heard.position);
        hand.iter().chain(&self.reference).all(|leads| leads.is_near(arm))
    }

    /// Steps in which the reference was held back by the caller's limits.
    pub const fn limited(&self) -> u64 {
        self.limited
    }

    /// Messages and steps that were refused, for a number of theirs is not finite.
    pub const fn refused(&self) -> u64 {
        self.reserve.refused()
    }

    /// A message of the operator's end came, of this age. One that is no finite number is [refused](Self::refused), and one that is older than another
    /// changes nothing.
    ///
    /// By [`Law::Wave`] as much is on its way as two such ages say: where they are too short a thing is felt the stiffer, as k / (1 + kT/(2b)) says of the T that was told, as far as energy allows.
    pub fn receive(&mut self, message: &Message<P>, age: Duration) {
        if self.reserve.is_played(message) {
            self.heard = Some(*message);
            self.drift.hear(age);
        }
    }

    /// A message came whose signals are [played](crate::Player) later: its energy counts at once. False, and [refused](Self::refused): it
    /// is no finite number, and not to be played.
    pub fn tell(&mut self, message: &Message<P>) -> bool {
        self.reserve.tell(message)
    }

    /// The arm stopped by itself, or motion begins anew, perhaps with another operator: no wave is stored, the next reference begins
    /// where the arm will be then, and the books of energy start from the reserve and from the first message that is heard. No message
    /// from before may come after this.
    pub const fn begin_again(&mut self) {
        (self.heard, self.reference) = (None, None);
        (self.arriving, self.drift) = ([0.0; 3], Drift::NONE);
        self.reserve.begin_again();
    }

    /// As [`step_within`](Self::step_within), without limits.
    pub fn step(&mut self, measured: &Surroundings<P>) -> Option<RobotOutput<P>> {
        self.step_within(measured, Some)
    }

    /// One period passes, at the end of which this is measured. Before anything was heard the arm is to stay.
    ///
    /// The reference of a [passive](Law::is_passive) law is a sum over time that nobody sent, so that no limits on what is heard hold for
    /// it. `limits` brings the next one to where it may be, or says that it is to stay; the law goes on from there, and neither energy nor drift counts what it wanted
    /// beyond: there is nothing to unwind. Held back by energy as well, the reference ends between the last one and that. The books go by its place: a velocity that `limits` say
    /// beside it is handed on as it is, and is to be that with which it gets there.
    ///
    /// `None`, and [refused](Self::refused): a number is not finite or led to one, nothing changes, and the arm is to be stopped.
    pub fn step_within(
        &mut self,
        measured: &Surroundings<P>,
        limits: impl FnOnce(Motion<P>) -> Option<Motion<P>>,
    ) -> Option<RobotOutput<P>> {
        self.take_step(measured, false, limits)
    }

    /// As [`step_within`](Self::step_within), while the hand is locked: the reference of a passive law stays where it is, and `limits` alone move it.
    pub fn hold_within(
        &mut self,
        measured: &Surroundings<P>,
        limits: impl FnOnce(Motion<P>) -> Option<Motion<P>>,
    ) -> Option<RobotOutput<P>> {
        self.take_step(measured, true, limits)
    }

    fn take_step(
        &mut self,
        measured: &Surroundings<P>,
        is_held: bool,
        limits: impl FnOnce(Motion<P>) -> Option<Motion<P>>,
    ) -> Option<RobotOutput<P>> {
        let before = *self;
        let output = self.advance(measured, is_held, limits);
        if output.is_finite() {
            return Some(output);
        }
        *self = before;
        self.reserve.refuse();
        None
    }

    fn advance(
        &mut self,
        measured: &Surroundings<P>,
        is_held: bool,
        limits: impl FnOnce(Motion<P>) -> Option<Motion<P>>,
    ) -> RobotOutput<P> {
        let Surroundings { arm, force } = measured;
        let coupling = Coupling::new(self.reference.unwrap_or(arm.position), arm, &self.servo, self.period);
        let Some(heard) = self.heard else { return self.stay(arm, force) };
        let wanted = match self.law {
            Law::PositionForce | Law::PositionPosition | Law::Oracle(_) => {
                let Message { position, velocity, .. } = heard;
                let reference = Motion { position, velocity };
                let message =
                    Message { position: arm.position, velocity: arm.velocity, force: *force, energy: 0.0 };
                let servo_force = self.servo.force(&reference, arm);
                return RobotOutput { reference, servo_force, reserve: 0.0, message };
            }
            Law::Wave(wave) => self.wave(&wave, &heard, &coupling),
            Law::Tdpa(tdpa) => self.damped(&tdpa, &heard, &coupling),
        };
        let wanted = if is_held { [0.0; 3] } else { wanted };
        let asked = Motion { position: coupling.reference.after(self.period, &wanted), velocity: wanted };
        let reference = self.limit(&asked, &coupling, limits);
        let velocity = if reference == asked { wanted } else { coupling.velocity_to(&reference.position) };
        let servo_force = coupling.force(&velocity);
        self.account(&velocity, &servo_force);
        self.reference = Some(reference.position);
        let force = plus(&times(-1.0, &servo_force), -self.drag(), &heard.velocity);
        let message = Message { position: arm.position, velocity, force, energy: self.reserve.put_in() };
        if let Law::Wave(wave) = self.law {
            self.drift.send(&wave.of_robot(&message), self.period);
        }
        RobotOutput { reference, servo_force, reserve: self.reserve.left(), message }
    }

    /// The reference that `limits` allow, and that costs no more than what there is.
    fn limit(
        &mut self,
        asked: &Motion<P>,
        coupling: &Coupling<P>,
        limits: impl FnOnce(Motion<P>) -> Option<Motion<P>>,
    ) -> Motion<P> {
        let stays = Motion { position: coupling.reference, velocity: [0.0; 3] };
        let allowed = limits(*asked).unwrap_or(stays);
        if allowed == *asked {
            return allowed;
        }
        self.limited += 1;
        let joules = match self.law {
            Law::Wave(_) => wave_energy(&self.arriving, self.period),
            _ => self.reserve.left() / SPENT_OVER,
        };
        let velocity = coupling.velocity_to(&allowed.position);
        let share = coupling.affordable(&velocity, joules / self.period);
        if share >= 1.0 {
            return allowed;
        }
        let velocity = times(share, &velocity);
        Motion { position: coupling.reference.after(self.period, &velocity), velocity }
    }

    fn stay(&self, arm: &Motion<P>, force: &Vector) -> RobotOutput<P> {
        let reference = Motion { position: arm.position, velocity: [0.0; 3] };
        // Of a passive law a force is a wave, or costs energy: nobody was there to move.
        let force = if self.law.is_passive() { [0.0; 3] } else { *force };
        let message =
            Message { position: arm.position, velocity: [0.0; 3], force, energy: self.reserve.put_in() };
        RobotOutput { reference, servo_force: [0.0; 3], reserve: self.reserve.left(), message }
    }

    /// The velocity v of the reference of which b v + f = √(2b) u, u being no larger than what is left allows.
    fn wave(&mut self, wave: &Wave, heard: &Message<P>, coupling: &Coupling<P>) -> Vector {
        let (b, correction) = (wave.impedance, wave.correction.as_secs_f64());
        self.drift.measure(b, &heard.position.way_from(&coupling.reference), self.period);
        let filtered = filtered(&self.arriving, &wave.of_operator(heard), wave.filter, self.period);
        let wanted = self.drift.make_up(&filtered, correction, &self.reserve, self.period);
        self.arriving = affordable(&wanted, self.reserve.left(), self.period);
        let root = (2.0 * b).sqrt();
        times((b + coupling.slope).recip(), &plus(&times(root, &self.arriving), -1.0, &coupling.at_rest))
    }

    /// v − βf, β ≥ 0 as small as what is left allows: Ryu, Artigas, Preusche 2010, section 3; v leads back to where the hand is
    /// (after Coelho 2019: whatever the passivity controller then lets pass).
    fn damped(&self, tdpa: &Tdpa, heard: &Message<P>, coupling: &Coupling<P>) -> Vector {
        let drift = heard.position.way_from(&coupling.reference);
        let wanted = plus(&heard.velocity, tdpa.correction.as_secs_f64().recip(), &drift);
        let force = coupling.force(&wanted);
        let power = self.reserve.left() / (SPENT_OVER * self.period);
        if dot(&force, &wanted) <= power {
            return wanted;
        }
        // With F the force at v and c its slope, v − βf makes f = sF of s = 1/(1 + βc), and the power
        // s² F²/c − s F·a/c, a being the force at rest: it is what is left for the larger root s, which is between 0 and 1.
        let (square, lean) = (dot(&force, &force), dot(&force, &coupling.at_rest));
        let share = (lean + (lean * lean + 4.0 * square * coupling.slope * power).sqrt()) / (2.0 * square);
        plus(&wanted, -(1.0 - share.clamp(0.0, 1.0)) / coupling.slope, &force)
    }

    /// N·s/m that the moving hand is braked with by time-domain passivity, the more the less is left here: that fills the reserve.
    ///
    /// Without it a reserve that is spent stays so: the servo makes no force then, the hand feels none, and puts no energy in. (As the level of a tank
    /// is kept by damping the master: Franken, Stramigioli, Misra, Secchi, Macchelli, *Bilateral telemanipulation with time delays: a two-layer
    /// approach combining passivity and transparency*, IEEE Trans. Robotics 27(4), 2011. There the master damps its own velocity; here it is that
    /// which was heard of, a round trip old when the hand feels it: whoever turns back within that is pushed on by as much, at the expense of the hand's
    /// own reserve, as by any force of the arm's.)
    fn drag(&self) -> f64 {
        match self.law {
            Law::Tdpa(Tdpa { reserve, .. }) if self.reserve.left() < reserve => {
                DRAG * P::LEVER_SQUARED * (1.0 - self.reserve.left() / reserve)
            }
            _ => 0.0,
        }
    }

    /// Keeps the books of a passive law's port.
    fn account(&mut self, velocity: &Vector, force: &Vector) {
        let given = dot(velocity, force) * self.period;
        if let Law::Wave(_) = self.law {
            // What came as a wave was given; what leaves as one is that without what the arm took.
            let arrived = wave_energy(&self.arriving, self.period);
            self.reserve.give(arrived);
            self.reserve.put(arrived - given);
        } else {
            self.reserve.give(given);
            self.reserve.put(-given);
        }
    }
}

impl<P: Place> RobotOutput<P> {
    fn is_finite(&self) -> bool {
        let Motion { position, velocity } = &self.reference;
        let numbers = velocity.iter().chain(&self.servo_force);
        self.message.is_finite() && position.is_place() && numbers.copied().all(f64::is_finite)
    }
}

impl Servo {
    fn force<P: Place>(&self, reference: &Motion<P>, arm: &Motion<P>) -> Vector {
        let apart = reference.position.way_from(&arm.position);
        std::array::from_fn(|axis| {
            self.stiffness * apart[axis] + self.damping * (reference.velocity[axis] - arm.velocity[axis])
        })
    }
}

/// What the servo makes of a velocity of its reference over the next period: a force `at_rest + slope · v`, by the reference's place
/// at the end of it, so that the spring's energy is never less than the port was told.
struct Coupling<P> {
    reference: P,
    at_rest: Vector,
    /// N·s/m.
    slope: f64,
    /// s.
    period: f64,
}

impl<P: Place> Coupling<P> {
    fn new(reference: P, arm: &Motion<P>, servo: &Servo, period: f64) -> Self {
        let at_rest = servo.force(&Motion { position: reference, velocity: [0.0; 3] }, arm);
        Self { reference, at_rest, slope: servo.damping + servo.stiffness * period, period }
    }

    fn force(&self, velocity: &Vector) -> Vector {
        plus(&self.at_rest, self.slope, velocity)
    }

    /// With which the reference is there at the end of the period.
    fn velocity_to(&self, position: &P) -> Vector {
        times(self.period.recip(), &position.way_from(&self.reference))
    }

    /// The share of this velocity, 0 to 1, that gives no more than so many watts, at least 0.
    fn affordable(&self, velocity: &Vector, watts: f64) -> f64 {
        if dot(&self.force(velocity), velocity) <= watts {
            return 1.0;
        }
        // Of the share s the power is s a·v + s² c v².
        let (lean, square) = (dot(&self.at_rest, velocity), self.slope * dot(velocity, velocity));
        let share = ((lean * lean + 4.0 * square * watts).sqrt() - lean) / (2.0 * square);
        share.clamp(0.0, 1.0)
    }
}
