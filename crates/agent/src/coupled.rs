//! A device under a control law.

use taut_control::{
    Law, Message, OperatorEnd, OperatorOutput, Orientation, Player, PlayerCounts, RobotEnd, RobotOutput,
    Servo, Vector, lasts,
};
use taut_core::{Duration, HoldTarget, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, FEEDBACK_DEADLINE, MotionLimits, Priority, State, StopCause, Turning};

use crate::{
    DeviceFailure, LawFeedback, Lease, Measured, OperatorDevice, Resume, RobotDevice, Sample, SetPoint,
};
use part::{Led, Part};

mod part;

/// A device in the hand, and its end of a law: the robot's must be of the same.
#[derive(Debug)]
pub struct CoupledHand<D> {
    device: D,
    end: OperatorEnd,
    /// Of what it turns, where the law couples that too.
    turn: Option<OperatorEnd<Orientation>>,
    period: Duration,
    /// Periods before this one in which nobody asked, or nothing new was read.
    missed: u64,
    /// What was said of the newest reading.
    last: Option<Sample>,
    /// It was let go of, and has read nothing since.
    is_free: bool,
    player: Player<Said>,
    /// Of what the robot says, when it is played.
    max_age: Duration,
    /// Where it was, as far as anything fresh is known.
    robot: Option<State>,
    lasts: Option<Duration>,
}

/// Of points, and of turns where that is said.
type Said = (Message, Option<Message<Orientation>>);

/// What an arm was told, and how old it was when it came.
#[derive(Clone, Copy, Debug)]
struct Told {
    state: State,
    age: Duration,
    came: Time,
}

impl Told {
    fn age(&self, now: Time) -> Duration {
        self.age + now.saturating_since(self.came)
    }
}

/// An arm and its end of a law: the operator's must be of the same. A [passive](Law::is_passive) one says energy with every state, and is stopped by states that say none.
///
/// Under a [passive](Law::is_passive) law the reference is a sum over time that no guard of the session has seen, and is therefore held
/// within the same limits here. What is measured and is no finite number stops the arm.
#[derive(Debug)]
pub struct CoupledArm<D> {
    device: D,
    point: Led<Vector>,
    /// Where the law couples turns too.
    turn: Option<Led<Orientation>>,
    /// For what is led, and how long what it measured counts.
    limits: (MotionLimits, Duration),
    /// By the count of periods.
    now: Time,
    lease: Lease,
    player: Player<Told>,
    /// Whose signals the law goes by.
    played: Option<Told>,
    failure: Option<DeviceFailure>,
}

impl<D: OperatorDevice> CoupledHand<D> {
    /// Asked every `period`, it pushes with `limit` N at most. `servo`: of the arm.
    pub fn new(device: D, law: Law, servo: Servo, period: Duration, limit: f64) -> Self {
        Self {
            device,
            end: OperatorEnd::new(law, servo, period).limit_force(limit),
            turn: None,
            player: Player::new(AT_ONCE, period),
            max_age: Duration::MAX,
            robot: None,
            lasts: None,
            period,
            missed: 0,
            last: None,
            is_free: true,
        }
    }

    /// What the hand turns is coupled as well, by a law and a servo [of turns](Law::of_turns), and pushed with `limit` N·m at most. The robot's end must do the same: one that
    /// does not turns its arm as the hand is turned, and no torque comes back. Default: the orientation is handed on.
    pub fn turning(mut self, law: Law, servo: Servo, limit: f64) -> Self {
        self.turn = Some(OperatorEnd::new(law, servo, self.period).limit_force(limit));
        self
    }

    /// What the robot says is played out in even time, and not at all from an age of `max_age` on. Default: as it comes.
    pub fn playout(mut self, target: HoldTarget, max_age: Duration) -> Self {
        (self.player, self.max_age) = (Player::new(target, self.period), max_age);
        self
    }

    /// Nothing is known of what came before.
    fn forget(&mut self) {
        self.end.lost();
        self.turn.iter_mut().for_each(OperatorEnd::lost);
        self.lasts = None;
    }

    /// The device has read nothing new, if anything: where it is nobody knows, so that the law is not asked. What it was pushed with last goes on, as where this host was
    /// late; but not for longer than a robot's silence is borne.
    fn read_nothing(&mut self, now: Time, sample: Sample) -> Sample {
        self.missed = self.missed.saturating_add(1);
        self.is_free |= sample.reading == 0 || self.period * self.missed >= FEEDBACK_DEADLINE;
        if self.is_free {
            self.forget();
            self.push(now, &sample.state, &[0.0; 3], None);
        }
        self.last.filter(|last| last.reading == sample.reading).unwrap_or(sample)
    }

    /// The device is pushed with what the law says, and told where the robot is: what moves relative to that begins there. While nobody knows where that is, a
    /// hand that the law pushes all the same, as a line of waves does, is told its own place.
    fn push(&mut self, now: Time, hand: &State, force: &Vector, torque: Option<Vector>) {
        let is_pushed = force.iter().chain(torque.iter().flatten()).any(|part| part.abs() > 0.0);
        let Some(at) = self.robot.or(is_pushed.then_some(*hand)) else { return self.device.lost() };
        // What turns the hand is what the law says, and nothing without one.
        let still = at.turning.map(|turning| Turning { torque: [0.0; 3], ..turning });
        let mut felt = State { turning: still, ..at };
        Vector::push(&mut felt, force);
        torque.iter().for_each(|torque| Orientation::push(&mut felt, torque));
        self.device.feel(now, &felt);
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
    /// It is led by this servo, within these limits, which know of the device's [stiffness](RobotDevice::stiffness); what it measured counts for the watchdog's time.
    pub fn new(device: D, law: Law, servo: Servo, limits: MotionLimits, watchdog: Duration) -> Self {
        let period = device.period();
        // The force of its controller is how far its reference is ahead of it.
        let limits = device.stiffness().map_or(limits, |stiffness| limits.stiffness(stiffness));
        Self {
            device,
            point: Led::new(RobotEnd::new(law, servo, period), &limits, watchdog),
            turn: None,
            limits: (limits, watchdog),
            now: Time::ZERO,
            lease: Lease::default(),
            player: Player::new(AT_ONCE, period),
            played: None,
            failure: None,
        }
    }

    /// What turns is led as well, by a law and a servo [of turns](Law::of_turns), within the same limits. Of a [passive](Law::is_passive) law states that do not say how
    /// the hand turns stop the arm: the operator's end must do the same. Default: the orientation is handed on.
    pub fn turning(mut self, law: Law, servo: Servo) -> Self {
        let (limits, watchdog) = &self.limits;
        self.turn = Some(Led::new(RobotEnd::new(law, servo, self.device.period()), limits, *watchdog));
        self
    }

    /// Set points are played out in even time, and none for longer than it is fresh: how long the arm may move follows from those that came, whether
    /// they were played or not. Locked and urgent ones are played at once. Default: all as they come.
    pub fn playout(mut self, target: HoldTarget) -> Self {
        self.player = Player::new(target, self.device.period());
        self
    }

    /// Motion ends here: nothing that came before leads the arm any more.
    fn begin_again(&mut self) {
        self.point.begin_again();
        self.turn.iter_mut().for_each(Led::begin_again);
        self.player.clear();
        self.played = None;
    }

    /// To the reference, for as long as the newest set point allows.
    fn lead(&mut self) -> Option<Said> {
        if self.lease.expire(self.now) {
            self.begin_again();
        }
        if let Some(told) = self.player.play(self.now) {
            let age = told.age(self.now);
            self.point.receive(&told.state, age);
            self.turn.iter_mut().for_each(|turn| turn.receive(&told.state, age));
            self.played = Some(told);
        }
        // Without a law's own reference the operator's would go to the arm as it came, past reserve and limits.
        if self.turn.as_ref().is_some_and(|turn| !turn.is_measured()) {
            return None;
        }
        let is_locked = self.played.is_some_and(|told| told.state.locked);
        let point = self.point.lead(self.now, is_locked)?;
        let turn = self.turn.as_mut().and_then(|turn| turn.lead(self.now, is_locked)).transpose();
        let (RobotOutput { reference, message, .. }, turn) = match (point, turn) {
            (Ok(point), Ok(turn)) => (point, turn),
            (Err(why), _) | (_, Err(why)) => {
                self.refuse(why);
                return None;
            }
        };
        if let (true, Some(told), Some(due)) = (self.lease.is_enabled(), self.played, self.lease.due()) {
            let (mut state, age) = (told.state, told.age(self.now));
            Part::tell(&mut state, &reference);
            turn.iter().for_each(|turn| Part::tell(&mut state, &turn.reference));
            let lease = due.saturating_since(self.now);
            self.device.apply(&SetPoint { state, age, lease, fresh: lease });
        }
        Some((message, turn.map(|turn| turn.message)))
    }

    /// It stops, until it is enabled once more.
    fn refuse(&mut self, why: DeviceFailure) {
        if self.lease.stop() {
            self.begin_again();
            self.device.stop(why.cause());
            self.failure = Some(why);
        }
    }

    /// What came is of another law.
    fn refuse_law(&mut self, why: &str) {
        self.refuse(DeviceFailure::Stopped(format!("{why}: both ends need the same control law")));
    }

    /// How long this end may go on until its reserve is spent ([`lasts`]), as of the latest period; `None` where the law has none, and while the arm is not led.
    pub fn lasts(&self) -> Option<Duration> {
        let turn = self.turn.as_ref().and_then(|turn| turn.lasts);
        self.point.lasts.into_iter().chain(turn).min()
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }
}

/// Nothing is held.
const AT_ONCE: HoldTarget = HoldTarget::Fixed(Duration::ZERO);

impl<D: OperatorDevice> OperatorDevice for CoupledHand<D> {
    crate::forward_operator_device!(self, self.device => receive limit_bitrate poll_message);
    fn sample(&mut self, now: Time) -> Option<Sample> {
        if let Some((point, turn)) = self.player.play(now) {
            self.end.receive(&point);
            if let Some(end) = &mut self.turn {
                // Of a robot that does not say how it is turned nothing is felt; the last torque would push for as long as it says nothing.
                match &turn {
                    Some(turn) => end.receive(turn),
                    None => end.lost(),
                }
            }
        }
        let sample = self.device.sample(now)?;
        if sample.reading == 0 || self.last.is_some_and(|last| last.reading == sample.reading) {
            return Some(self.read_nothing(now, sample));
        }
        self.is_free = false;
        let Sample { mut state, reading } = sample;
        let missed = std::mem::take(&mut self.missed);
        let point = part::push(&mut self.end, missed, &state)?;
        let turn = self.turn.as_mut().and_then(|turn| part::push(turn, missed, &state)).transpose();
        let (Ok(OperatorOutput { force, message, port, reserve }), Ok(turn)) = (point, turn) else {
            // What is no finite number the session does not send.
            self.lasts = None;
            self.device.lost();
            return Some(Sample { state, reading });
        };
        let is_passive = self.end.law().is_passive();
        let turn_lasts = turn.as_ref().map(|turn| lasts(turn.reserve, &turn.port));
        self.lasts = [lasts(reserve, &port)].into_iter().chain(turn_lasts).min().filter(|_| is_passive);
        Vector::push(&mut state, &force);
        // An arm whose turns are led would take a torque that no law said for a wave, so that it is to miss it.
        if self.turn.is_none() && is_passive {
            state.turning = None;
        }
        if let Some(OperatorOutput { force, message, .. }) = &turn {
            Orientation::push(&mut state, force);
            state.turning_energy = message.energy;
        }
        self.push(now, &state, &force, turn.map(|turn| turn.force));
        let energy = is_passive.then_some(message.energy);
        self.last = Some(Sample { state: State { energy, ..state }, reading });
        self.last
    }
    fn skip(&mut self, periods: u64) -> u64 {
        self.missed = self.missed.saturating_add(periods);
        self.device.skip(periods)
    }
    fn resumed(&mut self, resume: Resume) {
        // What the hand does since that was asked for moves the robot already.
        if resume == Resume::Asked {
            self.end.begin_again();
            self.turn.iter_mut().for_each(OperatorEnd::begin_again);
            self.player.clear();
            self.is_free = true;
        }
        self.device.resumed(resume);
        if self.robot.is_none() {
            // It may have gone on from its own place meanwhile.
            self.device.lost();
        }
    }
    fn feel(&mut self, now: Time, state: &State) {
        // Of another law: what it means nobody knows.
        if self.end.law().is_passive() && state.energy.is_none() {
            return self.lost();
        }
        let Some(point) = Part::message(state) else { return };
        let turn = Part::message(state).filter(|turn| self.turn.as_mut().is_some_and(|end| end.tell(turn)));
        if self.end.tell(&point) {
            self.robot = Some(*state);
            self.player.receive(now, state.created, state.created + self.max_age, (point, turn));
        }
    }
    fn lost(&mut self) {
        self.forget();
        (self.robot, self.is_free) = (None, true);
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
        let is_passive = self.point.end.law().is_passive();
        if is_passive && point.state.energy.is_none() {
            self.refuse_law("what it is told is of another one");
            return false;
        }
        if is_passive && self.turn.is_some() && point.state.turning.is_none() {
            self.refuse_law("what it is told does not say how the hand turns");
            return false;
        }
        let follows = self.lease.grant(self.now, point.lease);
        let state = point.state;
        let is_turn = |turn: &mut Led<_>| turn.tell(&state);
        if follows && self.point.tell(&state) && self.turn.as_mut().is_none_or(is_turn) {
            let expires = self.now + point.fresh;
            let told = Told { state, age: point.age, came: self.now };
            if state.locked || state.priority == Priority::Emergency {
                self.player.receive_at_once(state.created, expires, told);
            } else {
                self.player.receive(self.now, state.created, expires, told);
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
        self.point.measure(&measured.state);
        self.turn.iter_mut().for_each(|turn| turn.measure(&measured.state));
        if self.turn.as_ref().is_some_and(|turn| !turn.is_measured()) {
            self.refuse(DeviceFailure::Stopped("it does not measure how it turns".to_owned()));
        }
        let mut state = measured.state;
        if let Some((point, turn)) = said.filter(|_| self.point.end.law().is_passive()) {
            part::say(&mut state, &point);
            turn.iter().for_each(|turn| part::say(&mut state, turn));
            (state.energy, state.turning_energy) = (Some(point.energy), turn.map_or(0.0, |turn| turn.energy));
        }
        let turn = self.turn.as_ref().map_or([0; 2], |turn| [turn.end.limited(), turn.end.refused()]);
        let [limited, refused] = [self.point.end.limited() + turn[0], self.point.end.refused() + turn[1]];
        let (held, played) = (self.player.hold(), self.player.counts());
        let feedback = LawFeedback { state, limited, refused, held, played };
        Some(Measured { feedback: Some(feedback), ..measured })
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        self.failure.take().or_else(|| self.device.failure())
    }
}

#[cfg(test)]
mod playout_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turning_tests;
