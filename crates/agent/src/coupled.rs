//! A device under a control law.

use taut_control::{
    Law, Message, Motion as Moved, OperatorEnd, OperatorOutput, Player, PlayerCounts, RobotEnd, RobotOutput,
    Servo, Surroundings, Vector, lasts,
};
use taut_core::{Duration, HoldTarget, Time};
use taut_session::motion::{self, Guard, Motion};
use taut_session::{ChannelId, MotionLimits, Priority, State, StopCause};

use crate::{DeviceFailure, LawFeedback, Lease, Measured, OperatorDevice, RobotDevice, Sample, SetPoint};

/// A device in the hand, and its end of a law: the robot's must be of the same.
#[derive(Debug)]
pub struct CoupledHand<D> {
    device: D,
    end: OperatorEnd,
    period: Duration,
    /// Periods before this one.
    missed: u64,
    player: Player<Message>,
    /// Of what the robot says, when it is played.
    max_age: Duration,
    lasts: Option<Duration>,
}

/// An arm and its end of a law: the operator's must be of the same. A [passive](Law::is_passive) one says energy with every state, and is stopped by states that say none.
///
/// Under a [passive](Law::is_passive) law the reference is a sum over time that no guard of the session has seen, and is therefore held
/// within the same limits here. What is measured and is no finite number stops the arm.
#[derive(Debug)]
pub struct CoupledArm<D> {
    device: D,
    end: RobotEnd,
    /// Of the reference.
    guard: Guard,
    /// By the count of periods.
    now: Time,
    lease: Lease,
    player: Player<State>,
    /// Whose signals the law goes by.
    played: Option<State>,
    measured: Option<Surroundings>,
    lasts: Option<Duration>,
    failure: Option<DeviceFailure>,
}

impl<D: OperatorDevice> CoupledHand<D> {
    /// Asked every `period`, it pushes with `limit` N at most. `servo`: of the arm.
    pub fn new(device: D, law: Law, servo: Servo, period: Duration, limit: f64) -> Self {
        Self {
            device,
            end: OperatorEnd::new(law, servo, period).limit_force(limit),
            player: Player::new(AT_ONCE, period),
            max_age: Duration::MAX,
            lasts: None,
            period,
            missed: 0,
        }
    }

    /// What the robot says is played out in even time, and not at all from an age of `max_age` on. Default: as it comes.
    pub fn playout(mut self, target: HoldTarget, max_age: Duration) -> Self {
        (self.player, self.max_age) = (Player::new(target, self.period), max_age);
        self
    }
}

impl<D> CoupledHand<D> {
    /// How long this end may go on until its reserve is spent ([`lasts`]), as of the latest period; `None` where the law has none, and while nothing fresh is known
    /// of the robot.
    pub const fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// What became of what the robot said.
    pub const fn counts(&self) -> PlayerCounts {
        self.player.counts()
    }
}

impl<D: RobotDevice> CoupledArm<D> {
    /// It is led by this servo, within these limits; what it measured counts for the watchdog's time.
    pub fn new(device: D, law: Law, servo: Servo, limits: MotionLimits, watchdog: Duration) -> Self {
        let period = device.period();
        Self {
            device,
            end: RobotEnd::new(law, servo, period),
            guard: Guard::new(limits, watchdog),
            now: Time::ZERO,
            lease: Lease::default(),
            player: Player::new(AT_ONCE, period),
            played: None,
            measured: None,
            lasts: None,
            failure: None,
        }
    }

    /// Set points are played out in even time, and none for longer than it is fresh: how long the arm may move follows from those that came, whether
    /// they were played or not. Locked and urgent ones are played at once. Default: all as they come.
    pub fn playout(mut self, target: HoldTarget) -> Self {
        self.player = Player::new(target, self.device.period());
        self
    }

    /// Motion ends here: nothing that came before leads the arm any more.
    fn begin_again(&mut self) {
        self.end.begin_again();
        self.player.clear();
        (self.played, self.lasts) = (None, None);
    }

    /// To the reference, for as long as the newest set point allows.
    fn lead(&mut self) -> Option<Message> {
        if self.lease.expire(self.now) {
            self.begin_again();
        }
        if let Some(state) = self.player.play(self.now) {
            self.end.receive(&message(&state));
            self.played = Some(state);
        }
        let measured = self.measured?;
        let (guard, now) = (&mut self.guard, self.now);
        guard.measure(now, &told(&measured.arm));
        let mut allowed = None;
        let output = self.end.step_within(&measured, |asked| {
            allowed = bound(guard, now, asked);
            allowed
        });
        let Some(output) = output else {
            self.refuse("what it measures is no finite number");
            return None;
        };
        let law = self.end.law();
        self.lasts = (self.end.leads() && law.is_passive()).then(|| lasts(output.reserve, &output.port()));
        let RobotOutput { reference, message, .. } = output;
        if !self.end.leads() {
            self.guard.enable(now);
        } else if allowed.is_some_and(|allowed| allowed != reference) {
            // Energy held it back as well: the set point is where it came to.
            self.guard.measure(now, &told(&reference));
            self.guard.enable(now);
        }
        if let (true, Some(played), Some(due)) = (self.lease.is_enabled(), self.played, self.lease.due()) {
            let Moved { position, velocity } = reference;
            let state = State { position: single(&position), velocity: single(&velocity), ..played };
            let lease = due.saturating_since(self.now);
            self.device.apply(&SetPoint { state, lease, fresh: lease });
        }
        Some(message)
    }

    /// It stops, until it is enabled once more.
    fn refuse(&mut self, why: &str) {
        if self.lease.stop() {
            self.begin_again();
            self.device.stop(StopCause::Device);
            self.failure = Some(DeviceFailure::Stopped(why.to_owned()));
        }
    }

    /// How long this end may go on until its reserve is spent ([`lasts`]), as of the latest period; `None` where the law has none, and while the arm is not led.
    pub const fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }
}

/// Nothing is held.
const AT_ONCE: HoldTarget = HoldTarget::Fixed(Duration::ZERO);

/// Where the reference may be at `now`; `None`: where it is.
fn bound(guard: &mut Guard, now: Time, asked: Moved) -> Option<Moved> {
    let wanted = told(&asked);
    match guard.bound(now, &wanted).ok()? {
        bounded if bounded == wanted => Some(asked),
        Motion::State(state) => {
            Some(Moved { position: wide(&state.position), velocity: wide(&state.velocity) })
        }
        _ => None,
    }
}

fn told(moved: &Moved) -> Motion {
    let Moved { position, velocity } = moved;
    Motion::State(motion::State {
        position: single(position),
        velocity: single(velocity),
        ..motion::State::default()
    })
}

impl<D: OperatorDevice> OperatorDevice for CoupledHand<D> {
    crate::forward_operator_device!(self, self.device => receive limit_bitrate poll_message);
    fn sample(&mut self, now: Time) -> Option<Sample> {
        if let Some(message) = self.player.play(now) {
            self.end.receive(&message);
        }
        let Sample { state, reading } = self.device.sample(now)?;
        let hand = moved(&state);
        self.end.missed(std::mem::take(&mut self.missed), &hand);
        let Some(OperatorOutput { force, message, port, reserve }) = self.end.step(&hand) else {
            // What is no finite number the session does not send.
            self.lasts = None;
            self.device.lost();
            return Some(Sample { state, reading });
        };
        self.lasts = self.end.law().is_passive().then(|| lasts(reserve, &port));
        self.device.feel(now, &State { force: single(&force), ..state });
        let energy = self.end.law().is_passive().then_some(message.energy);
        Some(Sample { state: State { force: single(&force), energy, ..state }, reading })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        self.missed = periods;
        self.device.skip(periods)
    }
    fn resumed(&mut self) {
        self.end.begin_again();
        self.player.clear();
        self.device.resumed();
    }
    fn feel(&mut self, now: Time, state: &State) {
        // Of another law: what it means nobody knows.
        if self.end.law().is_passive() && state.energy.is_none() {
            return self.lost();
        }
        let said = message(state);
        if self.end.tell(&said) {
            self.player.receive(now, state.created, state.created + self.max_age, said);
        }
    }
    fn lost(&mut self) {
        self.end.lost();
        self.lasts = None;
        self.player.clear();
        self.device.lost();
    }
}

impl<D: RobotDevice> RobotDevice for CoupledArm<D> {
    crate::forward_robot_device!(self => self.device);
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.device.enable()?;
        self.begin_again();
        self.lease.enable();
        Ok(())
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        if self.end.law().is_passive() && point.state.energy.is_none() {
            self.refuse("what it is told is of another control law: both ends need the same");
            return false;
        }
        let follows = self.lease.grant(self.now, point.lease);
        let state = point.state;
        if follows && self.end.tell(&message(&state)) {
            let expires = self.now + point.fresh;
            if state.locked || state.priority == Priority::Emergency {
                self.player.receive_at_once(state.created, expires, state);
            } else {
                self.player.receive(self.now, state.created, expires, state);
            }
        }
        follows
    }
    /// States alone move what is under a law.
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, cause: StopCause) {
        self.lease.stop();
        self.begin_again();
        self.device.stop(cause);
    }
    fn measure(&mut self) -> Option<Measured> {
        let said = self.lead();
        self.now += self.device.period();
        let measured = self.device.measure()?;
        self.measured =
            Some(Surroundings { arm: moved(&measured.state), force: wide(&measured.state.force) });
        let said = said.filter(|_| self.end.law().is_passive());
        let state = said.map_or(measured.state, |said| State {
            velocity: single(&said.velocity),
            force: single(&said.force),
            energy: Some(said.energy),
            ..measured.state
        });
        let (limited, refused) = (self.end.limited(), self.end.refused());
        let (held, played) = (self.player.hold(), self.player.counts());
        let feedback = LawFeedback { state, limited, refused, held, played };
        Some(Measured { feedback: Some(feedback), ..measured })
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        self.failure.take().or_else(|| self.device.failure())
    }
}

fn moved(state: &State) -> Moved {
    Moved { position: wide(&state.position), velocity: wide(&state.velocity) }
}

fn message(state: &State) -> Message {
    let Moved { position, velocity } = moved(state);
    Message { position, velocity, force: wide(&state.force), energy: state.energy.unwrap_or_default() }
}

fn wide(vector: &[f32; 3]) -> Vector {
    vector.map(f64::from)
}

fn single(vector: &Vector) -> [f32; 3] {
    vector.map(|part| part as f32)
}

#[cfg(test)]
mod playout_tests;
#[cfg(test)]
mod tests;
