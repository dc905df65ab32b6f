//! Inputs that say how fast to move, and not where to be: keys, sticks. Their motion begins where the robot is.

use taut_core::{Bitrate, Duration, Orientation, Time};
use taut_session::{ChannelId, Priority, State, Turning};

use crate::{DeviceMessage, OperatorDevice, Resume, Sample};

/// How fast the robot's hand is to move.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Along x, y, z, m/s.
    pub linear: [f32; 3],
    /// About x, y, z, rad/s.
    pub angular: [f32; 3],
    /// Of the gripper, 1/s: 1 closes it in a second.
    pub gripper: f32,
    /// The axes are those of the hand, and not of the robot's base.
    pub in_hand: bool,
}

/// Makes a rate into where to be: from where the robot is when it is gripped, so that motion is relative and never a jump. Sans-IO.
///
/// ```
/// use taut_agent::{Clutch, Rate};
/// use taut_core::{Duration, Time};
/// use taut_session::State;
/// let (mut clutch, rate) = (Clutch::default(), Rate { linear: [0.1, 0.0, 0.0], ..Rate::default() });
/// assert_eq!(clutch.grip(&rate, Duration::from_millis(10)), None, "nobody knows where the robot is");
/// clutch.feel(&State { position: [0.5, 0.0, 0.0], ..State::at(Time::ZERO) });
/// let state = clutch.grip(&rate, Duration::from_millis(10)).expect("it is known");
/// assert!(state.enabling && (state.position[0] - 0.501).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clutch {
    /// Where the robot is, while that is known.
    robot: Option<State>,
    /// It says how it is turned. One that does not is told to turn as far as is asked for.
    tells_turn: bool,
    /// Where it is told to be.
    target: Option<State>,
    /// Of the gripper, in steps of a state, and finer than these.
    gripper: f32,
    gripped: bool,
    /// A resume was asked for and is not done: what is gripped stays where it is.
    waits: bool,
}

/// Where the robot is told to be is no further than this ahead of where it is, m: a wall, or a limit of its speed, winds nothing up.
pub const LEASH: f32 = 0.05;
/// Nor is it told to be turned further than this from how it is turned, rad, where it says that.
const TURN_LEASH: f32 = 0.3;
/// One that was turned by more than this, rad, says how it is turned; one that does not is told apart by never having been.
const TURNED: f32 = 0.01;
/// A step is no longer than this: what a late host missed is not made up for.
const LONGEST_STEP: Duration = Duration::from_millis(20);

impl Clutch {
    /// This is where the robot is.
    pub fn feel(&mut self, robot: &State) {
        let unturned = State::at(Time::ZERO).orientation_wxyz;
        self.tells_turn |= robot.turning.is_some() || angle(robot.orientation_wxyz, unturned) > TURNED;
        self.robot = Some(*robot);
    }

    /// Nobody knows any more where the robot is: what is gripped goes on, and a new grip waits.
    pub fn lost(&mut self) {
        self.robot = None;
    }

    /// Whatever was gripped before, motion begins where the robot is when a resume was asked for, and not before that is [done](Resume::Done).
    pub fn resumed(&mut self, resume: Resume) {
        self.waits = resume == Resume::Asked;
        if self.waits {
            (self.target, self.gripped) = (None, false);
        }
    }

    /// It is held and moves so for `step`: where the robot is to be. `None`: it is not known where that begins.
    pub fn grip(&mut self, rate: &Rate, step: Duration) -> Option<State> {
        let rate = if self.waits { Rate::default() } else { *rate };
        let from = self.target.filter(|_| self.gripped).or_else(|| self.begin())?;
        self.gripped = true;
        let seconds = step.min(LONGEST_STEP).as_secs_f64() as f32;
        let orientation = Orientation::new(from.orientation_wxyz);
        let in_base = |vector: [f32; 3]| match orientation.filter(|_| rate.in_hand) {
            Some(orientation) => orientation.to_base(vector.map(f64::from)).map(|part| part as f32),
            None => vector,
        };
        let (linear, angular) = (in_base(rate.linear), in_base(rate.angular));
        let turn = |orientation: Orientation| {
            orientation.turned(angular.map(|part| f64::from(part) * f64::from(seconds))).wxyz()
        };
        let gripper = self.gripper + rate.gripper * seconds * f32::from(u16::MAX);
        self.gripper = gripper.clamp(0.0, f32::from(u16::MAX));
        let mut state = State {
            position: along(from.position, linear, seconds),
            velocity: linear,
            orientation_wxyz: orientation.map_or(from.orientation_wxyz, turn),
            turning: from.turning.map(|turning| Turning { velocity: angular, ..turning }),
            gripper: self.gripper.round() as u16,
            enabling: true,
            ..from
        };
        if self.robot.is_some_and(|robot| {
            let lead = |at: [f32; 3]| length(along(at, robot.position, -1.0));
            lead(state.position) > LEASH && lead(state.position) > lead(from.position)
        }) {
            (state.position, state.velocity) = (from.position, [0.0; 3]);
        }
        if self.robot.is_some_and(|robot| {
            let lead = |at: [f32; 4]| angle(at, robot.orientation_wxyz);
            self.tells_turn
                && lead(state.orientation_wxyz) > TURN_LEASH
                && lead(state.orientation_wxyz) > lead(from.orientation_wxyz)
        }) {
            state.orientation_wxyz = from.orientation_wxyz;
            state.turning = from.turning.map(|turning| Turning { velocity: [0.0; 3], ..turning });
        }
        self.target = Some(state);
        Some(state)
    }

    /// It is let go: the robot stays where it is at this moment, not enabled; or where it was told to be last, while nobody knows where it is.
    pub fn release(&mut self) -> Option<State> {
        let told = self.target.filter(|_| !self.gripped);
        self.gripped = false;
        let target = at_rest(told.or_else(|| self.begin()).or(self.target)?);
        let target = State { enabling: false, ..target };
        self.target = Some(target);
        Some(target)
    }

    /// Where the robot is. What it was told of its gripper since the resume goes on, for what holds something is not where it was told to be; and how it was told
    /// to be turned, where it does not say that.
    fn begin(&mut self) -> Option<State> {
        let robot = self.robot?;
        let told = self.target.unwrap_or(robot);
        if self.target.is_none() {
            self.gripper = f32::from(robot.gripper);
        }
        let turned = if self.tells_turn { robot } else { told };
        let (gripper, orientation_wxyz) = (told.gripper, turned.orientation_wxyz);
        Some(State { force: [0.0; 3], gripper, orientation_wxyz, ..at_rest(robot) })
    }
}

/// Of a robot that says how it turns, that it does not.
fn at_rest(state: State) -> State {
    State { velocity: [0.0; 3], turning: state.turning.map(|_| Turning::default()), ..state }
}

fn along(from: [f32; 3], by: [f32; 3], times: f32) -> [f32; 3] {
    std::array::from_fn(|axis| from[axis] + by[axis] * times)
}

fn length(vector: [f32; 3]) -> f32 {
    vector.iter().map(|part| part * part).sum::<f32>().sqrt()
}

/// Between two orientations, rad: of the shorter way. 0 where one is none.
fn angle(a: [f32; 4], b: [f32; 4]) -> f32 {
    Orientation::new(a).zip(Orientation::new(b)).map_or(0.0, |(a, b)| a.angle(b) as f32)
}

/// What an input with a [`Clutch`] does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Grip {
    /// It is held, and moves so.
    Held(Rate),
    /// It is there, and not held.
    Released,
    /// It is gone: nothing is sent, so that the robot's watchdog stops it.
    Lost,
    /// There is nothing more of it.
    Ended,
}

/// An input that says how fast to move.
pub trait RateInput {
    /// What it does now.
    fn grip(&mut self) -> Grip;
}

/// An input that says how fast to move, as a device: motion is relative to where the robot is at each resume and each new grip.
#[derive(Clone, Debug)]
pub struct Relative<I> {
    input: I,
    clutch: Clutch,
    priority: Priority,
    last: Option<Time>,
    readings: u64,
}

impl<I> Relative<I> {
    /// Of this input; its states are that urgent.
    pub fn new(input: I, priority: Priority) -> Self {
        Self { input, clutch: Clutch::default(), priority, last: None, readings: 0 }
    }
}

impl<I: RateInput> OperatorDevice for Relative<I> {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        let step = self.last.replace(now).map_or(Duration::ZERO, |last| now.saturating_since(last));
        let state = match self.input.grip() {
            Grip::Held(rate) => self.clutch.grip(&rate, step),
            Grip::Released => self.clutch.release(),
            Grip::Lost => {
                self.clutch.release();
                None
            }
            Grip::Ended => return None,
        };
        self.readings += u64::from(state.is_some());
        let state = State { created: now, priority: self.priority, ..state.unwrap_or(State::at(now)) };
        Some(Sample { state, reading: self.readings })
    }
    fn skip(&mut self, _: u64) -> u64 {
        0
    }
    fn resumed(&mut self, resume: Resume) {
        self.clutch.resumed(resume);
    }
    fn feel(&mut self, _: Time, state: &State) {
        self.clutch.feel(state);
    }
    fn lost(&mut self) {
        self.clutch.lost();
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FORWARD: Rate = Rate { linear: [0.1, 0.0, 0.0], angular: [0.0; 3], gripper: 0.0, in_hand: false };

    fn robot(x: f32) -> State {
        State { position: [x, 0.0, 0.0], velocity: [9.0; 3], force: [9.0; 3], ..State::at(Time::ZERO) }
    }

    fn close(a: f32, b: f32) -> bool {
        (a - b).abs() < 1e-5
    }

    fn is_zero(vector: [f32; 3]) -> bool {
        vector.iter().all(|part| close(*part, 0.0))
    }

    #[test]
    fn each_grip_begins_where_the_robot_is_and_letting_go_holds_it_there() {
        let mut clutch = Clutch::default();
        assert_eq!((clutch.grip(&FORWARD, MS), clutch.release()), (None, None), "nobody knows where it is");
        clutch.feel(&robot(0.3));
        let state = (0..100).filter_map(|_| clutch.grip(&FORWARD, MS)).last().unwrap();
        assert!(
            state.enabling && close(state.position[0], 0.31) && close(state.velocity[0], 0.1),
            "{state:?}"
        );
        // The robot did not come so far.
        clutch.feel(&robot(0.305));
        let state = clutch.release().unwrap();
        assert!(!state.enabling && close(state.position[0], 0.305) && is_zero(state.velocity), "{state:?}");
        // It is moved while nobody holds it: what is told does not follow, and a new grip begins there.
        clutch.feel(&robot(-0.2));
        assert!(close(clutch.release().unwrap().position[0], 0.305));
        let state = clutch.grip(&FORWARD, Duration::ZERO).unwrap();
        assert!(close(state.position[0], -0.2) && is_zero(state.force), "{state:?}");
    }

    #[test]
    fn a_resume_while_it_is_held_begins_where_the_robot_is() {
        let mut clutch = Clutch::default();
        clutch.feel(&robot(0.0));
        for _ in 0..100 {
            clutch.grip(&FORWARD, MS);
        }
        clutch.feel(&robot(0.4));
        clutch.resumed(Resume::Asked);
        let state = (0..100).filter_map(|_| clutch.grip(&FORWARD, MS)).last().unwrap();
        assert!(close(state.position[0], 0.4) && is_zero(state.velocity), "it does not move yet: {state:?}");
        clutch.resumed(Resume::Done);
        let state = (0..100).filter_map(|_| clutch.grip(&FORWARD, MS)).last().unwrap();
        assert!(close(state.position[0], 0.41), "{state:?}");
        // It was resumed once more, and moved all the time.
        clutch.resumed(Resume::Done);
        assert!(close(clutch.grip(&FORWARD, Duration::ZERO).unwrap().position[0], 0.41));
        clutch.lost();
        assert!(clutch.grip(&FORWARD, MS).is_some(), "what is gripped goes on");
        clutch.resumed(Resume::Asked);
        assert_eq!(clutch.grip(&FORWARD, MS), None, "a new grip waits until it is known where the robot is");
    }

    #[test]
    fn what_holds_the_robot_up_winds_nothing_up_and_a_late_host_makes_up_for_nothing() {
        let mut clutch = Clutch::default();
        clutch.feel(&robot(0.0));
        let state = (0..10_000).filter_map(|_| clutch.grip(&FORWARD, MS)).last().unwrap();
        assert!(state.position[0] <= LEASH + 1e-5 && is_zero(state.velocity), "{state:?}");
        let back = Rate { linear: [-0.1, 0.0, 0.0], ..FORWARD };
        let state = clutch.grip(&back, Duration::from_secs(60)).unwrap();
        assert!((state.position[0] - (LEASH - 0.002)).abs() < 2e-4, "{state:?}");
    }

    #[test]
    fn what_holds_a_turn_up_winds_nothing_up_where_the_robot_says_how_it_is_turned() {
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let left = Rate { angular: [0.0, 0.0, 0.5], ..Rate::default() };
        let right = Rate { angular: [0.0, 0.0, -0.5], ..Rate::default() };
        for turning in [None, Some(Turning::default())] {
            let held_up = State { orientation_wxyz: [half, 0.0, 0.0, half], turning, ..robot(0.0) };
            let lead = |state: &State| angle(state.orientation_wxyz, held_up.orientation_wxyz);
            let mut clutch = Clutch::default();
            clutch.feel(&held_up);
            let state = (0..10_000).filter_map(|_| clutch.grip(&left, MS)).last().unwrap();
            assert!((TURN_LEASH - 1e-3..=TURN_LEASH + 1e-4).contains(&lead(&state)), "{}", lead(&state));
            assert_eq!(state.turning, turning);
            let state = (0..100).filter_map(|_| clutch.grip(&right, MS)).last().unwrap();
            assert!((lead(&state) - (TURN_LEASH - 0.05)).abs() < 2e-3, "{}", lead(&state));
            assert_eq!(state.turning.map(|turning| turning.velocity), turning.map(|_| right.angular));
        }
        // Of one that does not say it nobody knows what holds it up.
        let mut clutch = Clutch::default();
        clutch.feel(&robot(0.0));
        let state = (0..2_000).filter_map(|_| clutch.grip(&left, MS)).last().unwrap();
        assert!((angle(state.orientation_wxyz, [1.0, 0.0, 0.0, 0.0]) - 1.0).abs() < 1e-2, "{state:?}");
    }

    #[test]
    fn a_robot_that_says_how_it_turns_is_told_how_fast_it_is_to_turn_and_any_other_is_not() {
        for turning in [None, Some(Turning { velocity: [1.0; 3], torque: [2.0; 3] })] {
            let mut clutch = Clutch::default();
            clutch.feel(&State { turning, ..robot(0.0) });
            let rate = Rate { angular: [0.0, 0.5, 0.0], ..Rate::default() };
            let told = Turning { velocity: rate.angular, torque: [0.0; 3] };
            assert_eq!(clutch.grip(&rate, MS).unwrap().turning, turning.map(|_| told));
            assert_eq!(clutch.release().unwrap().turning, turning.map(|_| Turning::default()));
        }
    }

    #[test]
    fn axes_are_those_of_the_base_or_of_the_hand_and_orientations_stay_units() {
        // A quarter turn about z: the hand's x is the base's y.
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let turned = State { orientation_wxyz: [half, 0.0, 0.0, half], ..robot(0.0) };
        let mut clutch = Clutch::default();
        clutch.feel(&turned);
        let state = clutch.grip(&Rate { in_hand: true, ..FORWARD }, MS * 10).unwrap();
        assert!(close(state.position[0], 0.0) && close(state.position[1], 0.001), "{state:?}");
        let turns =
            Rate { angular: [0.0, 0.0, std::f32::consts::FRAC_PI_2], gripper: 0.5, ..Rate::default() };
        let mut clutch = Clutch::default();
        clutch.feel(&robot(0.0));
        let state = (0..1_000).filter_map(|_| clutch.grip(&turns, MS)).last().unwrap();
        let [w, x, y, z] = state.orientation_wxyz;
        assert!(
            (w - half).abs() < 1e-4 && (z - half).abs() < 1e-4 && close(x, 0.0) && close(y, 0.0),
            "{state:?}"
        );
        assert!((32_000..=33_500).contains(&state.gripper), "{}", state.gripper);
    }

    #[test]
    fn letting_go_neither_opens_the_gripper_nor_turns_the_hand_of_one_that_does_not_say_how_it_is_turned() {
        let rate = Rate { angular: [0.0, 0.0, 0.5], gripper: 0.5, ..FORWARD };
        // Of its gripper the first says nothing; the second holds something.
        for measured in [0, 30_000] {
            let mut clutch = Clutch::default();
            clutch.feel(&robot(0.0));
            let told = (0..4_000).filter_map(|_| clutch.grip(&rate, MS)).last().unwrap();
            assert!(told.gripper == u16::MAX && angle(told.orientation_wxyz, [1.0, 0.0, 0.0, 0.0]) > 1.0);
            clutch.feel(&State { gripper: measured, ..robot(0.04) });
            let still = |state: State| {
                assert!(close(state.position[0], 0.04), "{state:?}");
                assert_eq!((state.gripper, state.orientation_wxyz), (u16::MAX, told.orientation_wxyz));
            };
            still(clutch.release().unwrap());
            still(clutch.release().unwrap());
            still(clutch.grip(&Rate::default(), MS).unwrap());
            // A resume begins where the robot is.
            clutch.resumed(Resume::Asked);
            let state = clutch.grip(&rate, MS).unwrap();
            assert_eq!((state.gripper, state.orientation_wxyz), (measured, [1.0, 0.0, 0.0, 0.0]));
        }
        // One that says how it is turned stays so.
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let mut clutch = Clutch::default();
        clutch.feel(&State { orientation_wxyz: [half, 0.0, 0.0, half], ..robot(0.0) });
        (0..100).for_each(|_| _ = clutch.grip(&rate, MS));
        assert!(angle(clutch.release().unwrap().orientation_wxyz, [half, 0.0, 0.0, half]) < 1e-6);
    }

    #[test]
    fn a_gripper_that_is_slower_than_a_step_in_a_period_closes_all_the_same() {
        let mut clutch = Clutch::default();
        clutch.feel(&robot(0.0));
        let slow = Rate { gripper: 0.005, ..Rate::default() };
        let state = (0..10_000).filter_map(|_| clutch.grip(&slow, MS)).last().unwrap();
        assert!((3_200..=3_350).contains(&state.gripper), "{}", state.gripper);
    }

    struct Played(Vec<Grip>);

    impl RateInput for Played {
        fn grip(&mut self) -> Grip {
            self.0.pop().unwrap_or(Grip::Ended)
        }
    }

    #[test]
    fn an_input_that_is_lost_reads_nothing_new_and_one_that_ends_is_over() {
        let grips =
            [Grip::Held(FORWARD), Grip::Lost, Grip::Released, Grip::Held(FORWARD), Grip::Held(FORWARD)];
        let mut input = Relative::new(Played(grips.into_iter().rev().collect()), Priority::High);
        let mut sample = |ms: u64| input.sample(Time::ZERO + MS * ms);
        assert_eq!(sample(0).map(|sample| sample.reading), Some(0), "nobody knows where the robot is");
        input.feel(Time::ZERO, &robot(0.1));
        let mut sample = |ms: u64| input.sample(Time::ZERO + MS * ms);
        assert_eq!(sample(1).map(|sample| sample.reading), Some(0));
        let released = sample(2).unwrap();
        assert!(
            released.reading == 1 && !released.state.enabling && released.state.priority == Priority::High
        );
        let held = sample(3).unwrap();
        assert!(
            held.reading == 2 && held.state.enabling && close(held.state.position[0], 0.1001),
            "{held:?}"
        );
        assert_eq!(sample(4).map(|sample| sample.reading), Some(3));
        assert_eq!(sample(5), None);
    }
}
