//! Control laws between a hand and an arm on real sockets.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use taut::{
    Control, Error, Failure, Operator, OperatorDevice, OperatorEvent, Robot, RobotDevice, RobotEvent,
    RobotState, State, StopCause, TwistLimits,
};

use crate::world::{Arm, Base, Handed, Mood, WATCHDOG, limits, operator, robot, until};

/// Where the wall is, and what the arm's controller and the hand do with it, m and N/m.
const WALL: f32 = 0.05;
const STIFFNESS: f32 = 500.0;
/// How far the hand goes.
const REACH: f32 = 0.1;
/// What the hand bears, N.
const MOST: f32 = 3.0;

/// Goes at once where it is told, up to a wall, against which its controller presses.
#[derive(Default)]
struct Pressing {
    told: Mutex<State>,
    all: Mutex<Vec<State>>,
    stops: Mutex<Vec<StopCause>>,
    mood: Mutex<Option<Mood>>,
}

impl Pressing {
    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = Some(mood);
    }
    fn applied(&self) -> usize {
        self.all.lock().unwrap().len()
    }
    fn was_stopped(&self, cause: StopCause) -> bool {
        self.stops.lock().unwrap().contains(&cause)
    }
    fn x(&self) -> f32 {
        self.told.lock().unwrap().position[0]
    }
}

struct Shared(Arc<Pressing>);

impl RobotDevice for Shared {
    fn apply(&self, target: &State, lease: Duration) -> Result<(), Failure> {
        assert!(!lease.is_zero() && lease <= WATCHDOG, "{lease:?}");
        let mood = *self.0.mood.lock().unwrap();
        match mood {
            Some(Mood::Refuses) => return Err("the drive is too hot".into()),
            Some(Mood::Panics) => panic!("a bug of the driver's"),
            _ => {}
        }
        *self.0.told.lock().unwrap() = *target;
        self.0.all.lock().unwrap().push(*target);
        Ok(())
    }
    fn measure(&self) -> Option<State> {
        let State { position: [x, y, z], velocity, .. } = *self.0.told.lock().unwrap();
        let pressed = (x - WALL).max(0.0);
        let velocity = if pressed > 0.0 { [0.0; 3] } else { velocity };
        Some(State::at([x.min(WALL), y, z]).with_velocity(velocity).with_force([
            -STIFFNESS * pressed,
            0.0,
            0.0,
        ]))
    }
    fn stop(&self, cause: StopCause) {
        // It stays where it is, and presses no more.
        let mut told = self.0.told.lock().unwrap();
        told.position[0] = told.position[0].min(WALL);
        told.velocity = [0.0; 3];
        self.0.stops.lock().unwrap().push(cause);
    }
}

/// A hand that goes forward in a second and stays, whatever pushes it; and what it felt last, along x, N, and where the robot is said to be.
struct Slide {
    ticks: u32,
    felt: Arc<Mutex<Option<[f32; 2]>>>,
}

impl OperatorDevice for Slide {
    fn sample(&mut self) -> Option<State> {
        self.ticks += 1;
        let x = REACH * self.ticks as f32 / 200.0;
        let moves = x < REACH;
        let speed = if moves { REACH } else { 0.0 };
        Some(State::at([x.min(REACH), 0.0, 0.0]).with_velocity([speed, 0.0, 0.0]))
    }
    fn feel(&mut self, robot: &State) {
        assert!(robot.force.iter().all(|force| force.abs() <= MOST * 1.001), "{robot:?}");
        *self.felt.lock().unwrap() = Some([robot.force[0], robot.position[0]]);
    }
    fn lost(&mut self) {
        *self.felt.lock().unwrap() = None;
    }
}

fn control(law: &str) -> Control {
    Control::new(law).servo(f64::from(STIFFNESS), 20.0)
}

const LAWS: [&str; 4] = ["position_force", "position_position", "wave", "tdpa"];

type Felt = Arc<Mutex<Option<[f32; 2]>>>;

/// Both ends by a law, the arm moving.
fn coupled(law: &str) -> (Robot, Operator, Arc<Pressing>, Felt) {
    let (arm, felt) = (Arc::<Pressing>::default(), Felt::default());
    let (builder, _, identity) = robot();
    let robot =
        builder.control(control(law)).rate(200).device(limits(), Shared(Arc::clone(&arm))).start().unwrap();
    let hand = Slide { ticks: 0, felt: Arc::clone(&felt) };
    let operator = operator(&robot, identity).control(control(law)).force_limit(MOST).device(hand);
    let operator = operator.resumes_at_start().start().unwrap();
    until("the arm moves", || arm.applied() > 20);
    (robot, operator, arm, felt)
}

#[test]
fn hand_and_arm_meet_a_wall_by_every_law_within_the_limits_of_both_and_a_stop_ends_it() {
    for law in LAWS {
        let (robot, operator, arm, felt) = coupled(law);
        until("it is pressed", || felt.lock().unwrap().is_some_and(|[force, _]| force < -0.5));
        until("the hand is told where the arm is", || {
            felt.lock().unwrap().is_some_and(|[_, x]| (WALL - 0.02..WALL + 1e-4).contains(&x))
        });
        until("it presses from behind the wall", || arm.x() > WALL);
        operator.stop();
        until("it stops", || arm.was_stopped(StopCause::Emergency));
        until("it is told", || robot.status().state == RobotState::Fault);
        let applied = arm.applied();
        // By position–position the hand is drawn to where the arm stands, within its limit; by every other nothing is felt of an arm that rests.
        until("nothing pushes", || {
            law == "position_position" || felt.lock().unwrap().is_none_or(|[force, _]| force.abs() < 0.05)
        });
        assert_eq!(arm.applied(), applied, "{law}: nothing is told after a stop");
        let all = arm.all.lock().unwrap();
        for pair in all.windows(2) {
            let way = (pair[1].position[0] - pair[0].position[0]).abs();
            // 50 ms count of a silence, however long.
            assert!(way <= 0.5 * 0.05 + 1e-4 && pair[1].velocity[0].abs() <= 0.5001, "{law}: {pair:?}");
        }
    }
}

#[test]
fn ends_of_different_laws_servos_or_impedances_have_no_session_and_nothing_moves() {
    let pairs = [
        (Some(control("wave")), Some(control("tdpa")), "`wave` with a servo of 500 N/m"),
        (Some(control("tdpa")), None, "the peer by none"),
        (None, Some(control("position_position")), "`position_position`"),
        (Some(control("wave")), Some(control("wave").impedance(20.0)), "impedance 20 N·s/m"),
        (Some(control("tdpa")), Some(control("tdpa").servo(400.0, 20.0)), "400 N/m"),
    ];
    for (ours, theirs, says) in pairs {
        let arm = Arc::<Pressing>::default();
        let (builder, _, identity) = robot();
        let builder = ours.clone().into_iter().fold(builder, taut::RobotBuilder::control);
        let robot = builder.device(limits(), Shared(Arc::clone(&arm))).start().unwrap();
        let hand = Slide { ticks: 0, felt: Felt::default() };
        let other = operator(&robot, identity.clone()).resumes_at_start().device(hand);
        let other = theirs.into_iter().fold(other, taut::OperatorBuilder::control).start().unwrap();
        let (begun, what) = (Instant::now(), "give both the same control law");
        let why = other.join().unwrap_err();
        assert!(
            matches!(&why, Error::NotConnected(why) if why.contains(what) && why.contains("servo")),
            "{why}"
        );
        let mut told = None;
        until("the robot says it, too", || {
            if let Ok(RobotEvent::Incompatible { why }) = robot.events().try_recv() {
                told = Some(why);
            }
            told.is_some()
        });
        let told = told.unwrap();
        assert!(
            told.contains(what) && (told.contains(says) || why.to_string().contains(says)),
            "{told}; {why}"
        );
        assert!(arm.applied() == 0 && robot.status().state == RobotState::Disabled);
        // Whoever has the robot's law is taken at once.
        let next = operator(&robot, identity).device(Slide { ticks: 0, felt: Felt::default() });
        let next = ours.into_iter().fold(next, taut::OperatorBuilder::control).start().unwrap();
        until("the next one is taken", || {
            next.events().try_recv().is_ok_and(|it| matches!(it, OperatorEvent::Connected { .. }))
        });
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_device_under_a_law_that_refuses_or_panics_is_stopped_and_says_why() {
    for (mood, says) in [(Mood::Refuses, "too hot"), (Mood::Panics, "a bug of the driver's")] {
        let (robot, operator, arm, _) = coupled("tdpa");
        arm.is(mood);
        until("it is stopped", || arm.was_stopped(StopCause::Device));
        let mut told = String::new();
        until("it says why", || {
            if let Ok(RobotEvent::DeviceFailed(why)) = robot.events().try_recv() {
                told = why;
            }
            !told.is_empty()
        });
        assert!(told.contains(says), "{told}");
        let applied = arm.applied();
        std::thread::park_timeout(Duration::from_millis(50));
        assert_eq!(arm.applied(), applied);
        arm.is(Mood::Obeys);
        if mood == Mood::Refuses {
            until("a resume moves it again", || {
                operator.resume();
                arm.applied() > applied + 5
            });
        } else {
            (0..5).for_each(|_| {
                operator.resume();
                std::thread::park_timeout(Duration::from_millis(20));
            });
            assert_eq!(arm.applied(), applied, "never again");
        }
    }
}

#[test]
fn an_arm_under_a_law_stops_by_the_watchdog_when_the_hand_reads_nothing_new_and_when_either_end_goes() {
    struct Once(Slide);
    impl OperatorDevice for Once {
        fn sample(&mut self) -> Option<State> {
            if self.0.ticks < 60 { self.0.sample() } else { None }
        }
        fn feel(&mut self, robot: &State) {
            self.0.feel(robot);
        }
        fn lost(&mut self) {
            self.0.lost();
        }
    }
    for law in LAWS {
        let arm = Arc::<Pressing>::default();
        let (builder, _, identity) = robot();
        let builder = builder.control(control(law)).watchdog(Duration::from_millis(500));
        let robot = builder.device(limits(), Shared(Arc::clone(&arm))).start().unwrap();
        let hand = Once(Slide { ticks: 0, felt: Felt::default() });
        let operator = operator(&robot, identity).control(control(law)).force_limit(MOST).device(hand);
        let operator = operator.resumes_at_start().start().unwrap();
        until("it is stopped", || arm.was_stopped(StopCause::Watchdog));
        let applied = arm.applied();
        std::thread::park_timeout(Duration::from_millis(50));
        assert_eq!(arm.applied(), applied, "{law}");
        drop(operator);
    }
    let (robot, operator, arm, felt) = coupled("wave");
    drop(robot);
    assert!(arm.was_stopped(StopCause::Host));
    until("the hand is let go of", || felt.lock().unwrap().is_none());
    drop(operator);
    let (_robot, operator, arm, felt) = coupled("tdpa");
    drop(operator);
    until("it is stopped", || {
        arm.was_stopped(StopCause::OperatorLeft) || arm.was_stopped(StopCause::LinkClosed)
    });
    assert!(felt.lock().unwrap().is_none(), "the hand is let go of");
}

#[test]
fn a_law_that_cannot_be_is_named_with_what_to_do() {
    let refused = |control: Control| {
        let (builder, ..) = robot();
        let robot = builder.control(control).device(limits(), Shared(Arc::default())).start();
        robot.expect_err("it cannot be").to_string()
    };
    assert!(refused(Control::new("springs")).starts_with("control: `springs` is no control law"));
    assert!(refused(Control::new("tdpa")).contains("by `servo`"));
    assert!(refused(control("tdpa").impedance(30.0)).contains("tdpa has no `impedance`"));
    assert!(refused(control("wave").turning_servo(30.0, 1.0)).contains("set `turns`"));
    let (builder, ..) = robot();
    let why = builder.control(control("tdpa")).moves_nothing().start().expect_err("of what?").to_string();
    assert!(why.contains("by `device(…)`"), "{why}");
    let drive =
        TwistLimits::new().linear(0.5).linear_acceleration(1.0).angular(1.0).angular_acceleration(2.0);
    let (builder, ..) = robot();
    let base = builder.device(limits(), Handed(Arm::new())).motion("base", drive, Base(Arm::new()));
    let why = base.control(control("tdpa")).start().expect_err("the base would not move").to_string();
    assert!(why.contains("leave out `motion(…)`"), "{why}");
    let (builder, _, identity) = robot();
    let robot = builder.device(limits(), Shared(Arc::default())).start().unwrap();
    let why = operator(&robot, identity).control(control("tdpa")).start().expect_err("no hand").to_string();
    assert!(why.contains("control: "), "{why}");
}

#[test]
fn a_loop_of_ones_own_takes_a_law_as_well() {
    let (at, unix) = (Duration::ZERO, Duration::from_secs(1_700_000_000));
    let (builder, ..) = robot();
    let keeps = Handed(Arm::with_lease(true));
    assert!(builder.control(control("tdpa")).device(limits(), keeps).build(at, unix).is_ok());
}
