use std::sync::mpsc::{Receiver, Sender, channel};

use taut::TwistLimits;

use super::*;
use crate::motion::{Format, Type};

/// A topic with so many subscribers, which refuses so many messages and tells of the others.
struct Topic {
    subscribers: Arc<AtomicUsize>,
    refuses: AtomicUsize,
    taken: Sender<Vec<u8>>,
}

impl Publish for Topic {
    fn publish(&self, message: &[u8]) -> Result<(), String> {
        let refuses = self.refuses.load(Ordering::Acquire);
        if refuses > 0 {
            self.refuses.store(refuses - 1, Ordering::Release);
            return Err("its window is full".into());
        }
        self.taken.send(message.to_vec()).map_err(|error| error.to_string())
    }

    fn subscribers(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.subscribers)
    }
}

/// A robot, its topic, and why stops could not be told.
struct Robot {
    output: Output,
    subscribers: Arc<AtomicUsize>,
    taken: Receiver<Vec<u8>>,
    untold: Receiver<String>,
}

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(10);

fn forward() -> Twist {
    Twist { linear: [0.5, 0.0, 0.0], ..Twist::default() }
}

impl Robot {
    fn start(moving: Moving, refuses: usize) -> Self {
        let ((sender, taken), (tell, untold)) = (channel(), channel());
        let subscribers = Arc::new(AtomicUsize::new(moving.subscribers));
        let topic = Topic { subscribers: Arc::clone(&subscribers), refuses: refuses.into(), taken: sender };
        let told = move |why| drop(tell.send(why));
        let output = Output::start(moving, Box::new(topic), Box::new(told)).unwrap();
        Self { output, subscribers, taken, untold }
    }

    fn told(&self) -> Motion {
        self.output.moving.format.read(&self.taken.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    fn subscribe(&self, count: usize) {
        self.subscribers.store(count, Ordering::Release);
    }

    /// A base is told to rest ten times, and then nothing.
    fn rests(&self) {
        for _ in 0..STOPS {
            assert_eq!(self.told(), Twist::default().into());
        }
        assert_eq!(self.told_until_silence(), 0);
    }

    /// As if its stop were so long ago that it is forgotten.
    fn is_long_ago(&self) {
        if let Order::Stop { until, .. } = &mut self.output.shared.lock().order {
            *until = clock::now();
        }
        let end = clock::now() + PATIENCE;
        while !matches!(self.output.shared.lock().order, Order::Nothing) {
            assert!(clock::now() < end, "it is not forgotten");
            std::thread::yield_now();
        }
    }

    /// Takes what is told until nothing is, and says how much.
    fn told_until_silence(&self) -> usize {
        std::iter::from_fn(|| self.taken.recv_timeout(STOP_PERIOD * 20).ok()).count()
    }

    /// What the elbow is told: where to be, how fast, how hard.
    fn elbow(&self) -> [Vec<f32>; 3] {
        let joints = Joints::try_from(self.told()).unwrap();
        [joints.position(), joints.velocity(), joints.effort()].map(<[f32]>::to_vec)
    }
}

fn base(subscribers: usize) -> Moving {
    let format = Format {
        kind: Type::Twist,
        joints: Vec::new(),
        frame: String::new(),
        velocity: true,
        time_from_start: Duration::ZERO,
        stamps: false,
    };
    let limits = MotionLimits::Twist(TwistLimits::new());
    Moving { format, limits, on_stop: OnStop::Zero, measured: None, subscribers }
}

const RANGE: JointRange = JointRange { least: -1.0, largest: 1.0 };

fn arm(kind: Type, velocity: bool) -> Moving {
    let base = base(1);
    let format = Format { kind, joints: vec!["elbow".to_owned()], velocity, ..base.format };
    let limits = MotionLimits::Joints { limits: Vec::new(), ranges: vec![RANGE] };
    let on_stop = if velocity { OnStop::Zero } else { OnStop::Hold };
    Moving { format, limits, on_stop, measured: Some("/measured".to_owned()), ..base }
}

fn at(position: f32) -> Motion {
    Joints::new(&[position]).expect("it is finite").into()
}

/// An arm that was stopped when nobody heard it, and measures itself no more.
fn held_while_nobody_hears() -> Robot {
    let robot = Robot::start(arm(Type::JointState, false), 0);
    let moves = Joints::new(&[0.3]).expect("it is finite");
    while robot.output.apply(&moves, PATIENCE).is_err() {
        robot.output.measured(at(0.0));
    }
    assert_eq!(robot.elbow()[0], [0.3]);
    robot.subscribe(0);
    RobotDevice::<Joints>::stop(&robot.output, StopCause::Device);
    for _ in 0..STOPS {
        robot.told();
    }
    assert_eq!(robot.told_until_silence(), 0);
    robot.output.shared.lock().measured = None;
    robot
}

#[test]
fn nothing_moves_when_fewer_subscribe_than_the_route_says() {
    let robot = Robot::start(base(2), 0);
    let apply = || robot.output.apply(&Twist::default(), Duration::from_secs(1));
    assert!(RobotDevice::<Twist>::enable(&robot.output).is_ok() && apply().is_ok());
    // The controller ends, and whoever records goes on.
    robot.subscribers.store(1, Ordering::Release);
    let why = apply().unwrap_err().to_string();
    assert!(why.contains("1 of the route's `subscribers = 2`"), "{why}");
    assert!(RobotDevice::<Twist>::enable(&robot.output).is_err());
}

#[test]
fn no_velocity_leads_out_of_a_joints_range() {
    let joints = Joints::new(&[0.0; 4]).unwrap().with_velocity(&[0.5, -0.5, -0.5, 0.5]).unwrap();
    let bound = within(joints, &[1.0, 1.1, -1.0, 0.0], &[RANGE; 4]).unwrap();
    assert_eq!(bound.velocity(), [0.0, -0.5, 0.0, 0.5]);
}

/// Between commands, too: one may last for seconds.
#[test]
fn a_joint_that_arrives_at_the_end_of_its_range_or_is_measured_no_more_is_stopped_while_its_command_lasts() {
    let robot = Robot::start(arm(Type::JointJog, true), 0);
    let fast = Joints::new(&[0.0]).unwrap().with_velocity(&[0.5]).unwrap();
    // On a busy machine what was measured may be old by then.
    let drive = |place| loop {
        robot.output.measured(at(place));
        if robot.output.apply(&fast, PATIENCE * 10).is_ok() && robot.elbow()[1] == [0.5] {
            break;
        }
    };
    drive(0.0);
    robot.output.measured(at(1.0));
    assert_eq!(robot.elbow()[1], [0.0]);
    drive(0.9);
    // Nothing is measured from here on.
    assert_eq!(robot.elbow()[1], [0.0]);
    assert!(robot.output.apply(&fast, PATIENCE).is_err());
}

#[test]
fn an_arm_that_measures_itself_no_more_is_held_without_the_velocity_and_effort_that_it_was_told() {
    let robot = Robot::start(arm(Type::JointState, false), 0);
    let moves = Joints::new(&[0.3]).unwrap().with_velocity(&[0.5]).unwrap().with_effort(&[2.0]).unwrap();
    while robot.output.apply(&moves, PATIENCE).is_err() {
        robot.output.measured(at(0.0));
    }
    assert_eq!(robot.elbow(), [vec![0.3], vec![0.5], vec![2.0]]);
    robot.output.shared.lock().measured = None;
    RobotDevice::<Joints>::stop(&robot.output, StopCause::Device);
    assert_eq!(robot.elbow(), [vec![0.3], vec![], vec![]]);
}

#[test]
fn a_stop_that_its_topic_does_not_take_goes_on_until_it_is_told_and_is_said_once() {
    let robot = Robot::start(base(1), 6);
    robot.output.apply(&forward(), PATIENCE).unwrap();
    // The first of those that are not taken; the other five are stops.
    while !robot.output.shared.failed.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    RobotDevice::<Twist>::stop(&robot.output, StopCause::Device);
    for _ in 0..STOPS {
        assert_eq!(robot.told(), Twist::default().into());
    }
    assert_eq!(robot.untold.try_iter().collect::<Vec<_>>(), ["its window is full"]);
}

#[test]
fn a_stop_that_nobody_heard_is_told_to_whoever_subscribes_again() {
    let robot = Robot::start(base(2), 0);
    robot.output.apply(&forward(), PATIENCE).unwrap();
    assert_eq!(robot.told(), forward().into());
    // A recorder hears it still.
    robot.subscribe(1);
    RobotDevice::<Twist>::stop(&robot.output, StopCause::Device);
    robot.rests();
    let untold = robot.untold.try_iter().collect::<Vec<_>>();
    assert!(untold.len() == 1 && untold[0].contains("1 of the route's"), "{untold:?}");
    robot.subscribe(2);
    robot.rests();
    assert_eq!(robot.untold.try_iter().count(), 0);
}

#[test]
fn a_controller_that_comes_after_a_bystander_is_told_the_stop_too() {
    let robot = Robot::start(base(1), 0);
    robot.output.apply(&forward(), PATIENCE).unwrap();
    assert_eq!(robot.told(), forward().into());
    robot.subscribe(0);
    RobotDevice::<Twist>::stop(&robot.output, StopCause::Device);
    robot.rests();
    for count in 1..=2 {
        robot.subscribe(count);
        robot.rests();
    }
}

#[test]
fn who_subscribes_again_holds_the_robot_where_it_is_then_and_only_when_that_is_known() {
    let robot = held_while_nobody_hears();
    robot.subscribe(1);
    assert_eq!(robot.told_until_silence(), 0);
    robot.output.shared.lock().measured = Some((clock::now() + PATIENCE, at(0.2)));
    for _ in 0..STOPS {
        assert_eq!(robot.elbow()[0], [0.2]);
    }
}

#[test]
fn who_subscribes_long_after_a_stop_is_told_nothing() {
    let robot = held_while_nobody_hears();
    robot.is_long_ago();
    robot.output.shared.lock().measured = Some((clock::now() + PATIENCE, at(0.2)));
    robot.subscribe(1);
    assert_eq!(robot.told_until_silence(), 0);
}

#[test]
fn a_robot_that_measures_itself_long_after_its_stop_is_told_nothing() {
    let robot = held_while_nobody_hears();
    robot.subscribe(1);
    assert_eq!(robot.told_until_silence(), 0);
    robot.is_long_ago();
    robot.output.shared.lock().measured = Some((clock::now() + PATIENCE, at(0.2)));
    assert_eq!(robot.told_until_silence(), 0);
}

#[test]
fn a_stop_holds_one_place_whatever_is_measured_meanwhile() {
    let robot = Robot::start(arm(Type::JointState, false), 0);
    let measured = |place| {
        robot.output.shared.lock().measured = Some((clock::now() + PATIENCE, at(place)));
    };
    measured(0.0);
    robot.output.apply(&Joints::new(&[0.3]).unwrap(), PATIENCE).unwrap();
    assert_eq!(robot.elbow()[0], [0.3]);
    RobotDevice::<Joints>::stop(&robot.output, StopCause::Device);
    for told in 0..STOPS {
        assert_eq!(robot.elbow()[0], [0.0], "stop {told}");
        measured(0.1);
        if told > 4 {
            robot.output.shared.lock().measured = None;
        }
    }
}

#[test]
fn an_arm_that_nothing_measures_moves_no_more_even_where_its_stop_is_silence() {
    let robot = Robot::start(Moving { on_stop: OnStop::Silence, ..arm(Type::JointState, false) }, 0);
    let apply = || robot.output.apply(&Joints::new(&[0.3]).unwrap(), PATIENCE);
    while apply().is_err() {
        robot.output.measured(at(0.0));
    }
    robot.output.shared.lock().measured = None;
    assert!(apply().unwrap_err().to_string().contains("`measured`"));
}

struct Broken;

impl Publish for Broken {
    fn publish(&self, _: &[u8]) -> Result<(), String> {
        panic!("its library is broken")
    }

    fn subscribers(&self) -> Arc<AtomicUsize> {
        Arc::new(1.into())
    }
}

#[test]
fn nothing_moves_any_more_when_the_thread_that_writes_is_gone() {
    let output = Output::start(base(1), Box::new(Broken), Box::new(|_| ())).unwrap();
    let apply = || output.apply(&Twist::default(), PATIENCE);
    apply().unwrap();
    let end = clock::now() + PATIENCE;
    while apply().is_ok() && clock::now() < end {
        std::thread::yield_now();
    }
    let why = RobotDevice::<Twist>::enable(&output).unwrap_err().to_string();
    assert!(why.contains("nothing writes"), "{why}");
}
