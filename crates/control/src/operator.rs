//! The operator's end.

use taut_core::Duration;

use crate::buffer::Buffer;
use crate::model::Model;
use crate::place::Place;
use crate::reserve::Reserve;
use crate::vector::{Vector, dot, plus, shortened, times};
use crate::wave::{affordable, filtered, wave_energy};
use crate::{Law, Message, Motion, Servo, Wave};

/// What the device in the hand is to do, and what is to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatorOutput<P = Vector> {
    /// On the hand, until the next step.
    pub force: Vector,
    /// What the channel's port is to be judged by: the hand's, or the virtual mass's of [`Law::Tdpa`].
    pub port: Port,
    /// What this end may still give, J; 0 where the law is not [passive](Law::is_passive).
    pub reserve: f64,
    /// For the robot.
    pub message: Message<P>,
}

/// Force on what the channel pushes at the operator's end, N, and its velocity, m/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Port {
    /// N.
    pub force: Vector,
    /// m/s.
    pub velocity: Vector,
}

/// Periods that are caught up with one by one, at most; more are taken for as many.
const MOST_MISSED: u64 = 1_000;

/// m/s, at the end of the lever of what turns: how fast a hand may go with a force that is held, if more was given than there was to give.
const FASTEST: f64 = 1.0;

/// A force that is held until the next step.
#[derive(Clone, Copy, Debug)]
struct Held<P> {
    /// m.
    hand: P,
    /// On it, N.
    force: Vector,
}

/// The end of a [`Law`] beside the hand.
#[derive(Clone, Copy, Debug)]
pub struct OperatorEnd<P = Vector> {
    law: Law,
    servo: Servo,
    /// s.
    period: f64,
    /// N.
    limit: f64,
    reserve: Reserve,
    heard: Option<Message<P>>,
    /// What the hand was pushed with since the last step, and where it was then.
    held: Option<Held<P>>,
    /// The wave that arrives, after the filter, √W.
    arriving: Vector,
    /// Of [`Law::Tdpa`], between the channel and the hand.
    buffer: Option<Buffer<P>>,
    /// Of [`Law::Oracle`], beside the hand.
    model: Option<Model>,
}

impl<P: Place> OperatorEnd<P> {
    /// Asked every `period`, above zero, about an arm with this servo.
    pub fn new(law: Law, servo: Servo, period: Duration) -> Self {
        Self {
            law,
            servo,
            period: period.as_secs_f64(),
            limit: f64::INFINITY,
            reserve: Reserve::new(law.reserve()),
            heard: None,
            held: None,
            arriving: [0.0; 3],
            buffer: None,
            model: None,
        }
    }

    /// The device makes no more force than this, N: what is beyond is shortened in its own direction. Below 0 or no number: 0. Default: any.
    ///
    /// By [`Law::Tdpa`] the virtual mass is pulled by the hand with no more either, and the robot hears of what the hand put in against that.
    pub fn limit_force(mut self, newtons: f64) -> Self {
        self.limit = newtons.max(0.0);
        self
    }

    /// By which it goes.
    pub const fn law(&self) -> Law {
        self.law
    }

    /// Messages and steps that were refused, for a number of theirs is not finite.
    pub const fn refused(&self) -> u64 {
        self.reserve.refused()
    }

    /// A message of the robot's end came. One that is no finite number is [refused](Self::refused), and one that is older than another
    /// changes nothing.
    pub fn receive(&mut self, message: &Message<P>) {
        if self.reserve.is_played(message) {
            self.heard = Some(*message);
        }
    }

    /// A message came whose signals are [played](crate::Player) later: its energy counts at once. False, and [refused](Self::refused): it
    /// is no finite number, and not to be played.
    pub fn tell(&mut self, message: &Message<P>) -> bool {
        self.reserve.tell(message)
    }

    /// Motion begins anew, perhaps with another robot: no wave is stored, and the books of energy start from the reserve and from the
    /// first message that is heard. No message from before may come after this.
    pub fn begin_again(&mut self) {
        self.lost();
        self.reserve.begin_again();
    }

    /// Nothing fresh is known of the robot: the hand is let go of, until it is.
    pub fn lost(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.reserve.settle(-buffer.stored());
        }
        (self.heard, self.held) = (None, None);
        (self.arriving, self.model) = ([0.0; 3], None);
    }

    /// So many periods went by in which nobody asked, before the step that follows, which finds the hand here. What the channel's port took in them,
    /// J; below 0: it gave.
    ///
    /// Of [waves](Law::Wave) the last one goes on at both ends meanwhile, and the arm's needs energy: what the hand did against the force that was
    /// held counts as if it had been asked about. By [`Law::Tdpa`] the virtual mass goes on, under the force that was heard of last.
    pub fn missed(&mut self, periods: u64, hand: &Motion<P>) -> f64 {
        let Some(held) = self.held else { return 0.0 };
        match self.law {
            Law::Wave(_) => self.missed_waves(periods, &held, hand),
            Law::Tdpa(_) => {
                let before = *self;
                let taken = self.catch_up(periods.min(MOST_MISSED), &held, hand);
                if !taken.is_finite() {
                    *self = before;
                    return 0.0;
                }
                taken
            }
            Law::PositionForce | Law::PositionPosition | Law::Oracle(_) => 0.0,
        }
    }

    fn missed_waves(&mut self, periods: u64, held: &Held<P>, hand: &Motion<P>) -> f64 {
        let periods = periods as f64;
        let moved = hand.position.way_from(&held.hand);
        let taken = -dot(&held.force, &moved) * periods / (periods + 1.0);
        let given = (wave_energy(&self.arriving, self.period) * periods).min(self.reserve.left());
        if !(given + taken).is_finite() {
            return 0.0;
        }
        self.reserve.give(given);
        self.reserve.owe(-given - taken);
        self.reserve.put(given + taken);
        taken
    }

    /// Each of them as if the hand had been asked, on a straight way from there to here, but pushed with what was held.
    fn catch_up(&mut self, periods: u64, held: &Held<P>, hand: &Motion<P>) -> f64 {
        let Some(heard) = self.heard else { return 0.0 };
        let all = periods as f64 + 1.0;
        let moved = hand.position.way_from(&held.hand);
        let velocity = times((all * self.period).recip(), &moved);
        let mut taken = 0.0;
        for number in 1..=periods {
            let position = held.hand.after(number as f64 / all, &moved);
            let at = Motion { position, velocity };
            let port = self.push(&at, &heard.force);
            if let Some(buffer) = &mut self.buffer {
                buffer.hold(&at, &held.force);
            }
            self.account(&port);
            taken -= dot(&port.force, &port.velocity) * self.period;
        }
        taken
    }

    /// One period passes, at the end of which this is measured of the hand. `None`, and [refused](Self::refused): a number is not finite
    /// or led to one, nothing changes, and the hand is to be let go of.
    pub fn step(&mut self, hand: &Motion<P>) -> Option<OperatorOutput<P>> {
        let before = *self;
        let output = self.advance(hand);
        if output.message.is_finite() {
            return Some(output);
        }
        *self = before;
        self.reserve.refuse();
        None
    }

    fn advance(&mut self, hand: &Motion<P>) -> OperatorOutput<P> {
        let mut pushed = None;
        let asked = match (self.law, self.heard) {
            (Law::Wave(wave), heard) => {
                // Without news no wave arrives, and the line is a damper.
                let arriving = heard.map_or([0.0; 3], |heard| wave.of_robot(&heard));
                self.wave(hand, &wave, &arriving)
            }
            (_, None) => [0.0; 3],
            (Law::PositionForce, Some(heard)) => heard.force,
            (Law::PositionPosition, Some(heard)) => self.spring(hand, &heard),
            (Law::Oracle(truth), Some(_)) => {
                let model = self.model.get_or_insert_with(|| Model::at(hand));
                [model.pass(hand, &self.servo, &truth, self.period), 0.0, 0.0]
            }
            (Law::Tdpa(_), Some(heard)) => {
                pushed = Some(self.push(hand, &heard.force));
                self.buffer.as_ref().map_or([0.0; 3], |buffer| buffer.force(hand))
            }
        };
        let force = shortened(&asked, self.limit);
        if let Some(buffer) = &mut self.buffer {
            buffer.hold(hand, &force);
        }
        self.held = Some(Held { hand: hand.position, force });
        let port = pushed.unwrap_or(Port { force, velocity: hand.velocity });
        if self.law.is_passive() {
            self.account(&port);
        }
        let Motion { position, velocity } = *hand;
        let message = Message { position, velocity, force, energy: self.reserve.put_in() };
        OperatorOutput { force, port, reserve: self.reserve.left(), message }
    }

    fn spring(&self, hand: &Motion<P>, heard: &Message<P>) -> Vector {
        if !heard.position.is_near(&hand.position) {
            return [0.0; 3];
        }
        let Servo { stiffness, damping } = self.servo;
        let apart = heard.position.way_from(&hand.position);
        std::array::from_fn(|axis| {
            stiffness * apart[axis] + damping * (heard.velocity[axis] - hand.velocity[axis])
        })
    }

    /// f = b v − √(2b) w against the hand, of a wave w no larger than what is left allows.
    fn wave(&mut self, hand: &Motion<P>, wave: &Wave, arriving: &Vector) -> Vector {
        let filtered = filtered(&self.arriving, arriving, wave.filter, self.period);
        self.arriving = affordable(&filtered, self.reserve.left(), self.period);
        let b = wave.impedance;
        plus(&times((2.0 * b).sqrt(), &self.arriving), -b, &hand.velocity)
    }

    /// The virtual mass is pushed with as much of this force as what is left allows.
    ///
    /// What came from nowhere while a force was held is owed, and paid of what the damper takes, of what the hand puts in, before the robot is told of it, and of what the robot
    /// puts in. What is stored less what is owed falls by what the hand is given, and by nothing else: with no more force than that and one reserve allow over a period at
    /// [`FASTEST`], no more than one reserve is owed beyond what is stored, however the hand goes.
    fn push(&mut self, hand: &Motion<P>, force: &Vector) -> Port {
        let buffer = self.buffer.get_or_insert_with(|| Buffer::at(hand, self.limit));
        self.reserve.settle(buffer.made(hand));
        let way = FASTEST / P::LEVER_SQUARED.sqrt() * self.period;
        let most = self.reserve.may_hold(buffer.stored()).map_or(f64::INFINITY, |joules| joules / way);
        self.reserve.settle(buffer.limit(self.limit.min(most)));
        buffer.push(hand, force, self.reserve.left(), self.period)
    }

    /// Keeps the books of a passive law's port.
    fn account(&mut self, port: &Port) {
        let taken = -dot(&port.force, &port.velocity) * self.period;
        if let Law::Wave(_) = self.law {
            // What came as a wave was given; what leaves as one is that and what the hand put in.
            let given = wave_energy(&self.arriving, self.period);
            self.reserve.give(given);
            self.reserve.put(given + taken);
        } else {
            self.reserve.give(-taken);
            self.reserve.put(taken);
        }
    }
}
