//! Nothing that goes wrong in a user's program leaves a device moving.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use taut::{
    Channel, Error, Failure, OperatorDevice, OperatorEvent, RobotDevice, RobotEvent, RobotState, SendError,
    Sender, State, StopCause, TwistLimits,
};

use crate::world::{
    Arm, Base, Handed, Mood, PATIENCE, Still, WATCHDOG, limits, moving, operator, robot, until,
};

/// Waits for such an event.
fn told<E: std::fmt::Debug>(events: &taut::Events<E>, is: impl Fn(&E) -> bool) -> E {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE);
        let event = events.recv_timeout(PATIENCE).expect("it comes");
        if is(&event) {
            return event;
        }
    }
}

#[test]
fn the_emergency_stop_at_the_robot_stops_at_once_and_holds_until_it_is_released_and_resumed() {
    let arm = Arm::new();
    let (robot, operator) = moving(&arm);
    robot.stop();
    // On the thread that presses: nothing is waited for.
    assert!(arm.was_stopped(StopCause::LocalEmergency));
    let applied = arm.applied();
    told(robot.events(), |event| *event == RobotEvent::Stopped { cause: StopCause::LocalEmergency });
    operator.resume();
    told(operator.events(), |event| matches!(event, OperatorEvent::ResumeRefused { .. }));
    assert!(arm.applied() <= applied + 1, "one may have been under way");
    robot.release();
    told(robot.events(), |event| matches!(event, RobotEvent::LetGo { here: true }));
    until("the operator knows", || operator.status().state == RobotState::Paused);
    until("it is resumed", || {
        operator.resume();
        arm.applied() > applied + 10
    });
}

#[test]
fn a_press_beside_the_robot_holds_while_its_stop_is_carried_out_whatever_the_operator_does() {
    /// Its stop hangs on the thread that presses.
    struct Hangs(Arc<Arm>);
    impl RobotDevice for Hangs {
        fn apply(&self, target: &State, lease: Duration) -> Result<(), Failure> {
            Handed(Arc::clone(&self.0)).apply(target, lease)
        }
        fn measure(&self) -> Option<State> {
            Handed(Arc::clone(&self.0)).measure()
        }
        fn stop(&self, cause: StopCause) {
            if std::thread::current().name() == Some("presses") {
                self.0.wait();
            }
            Handed(Arc::clone(&self.0)).stop(cause);
        }
    }
    let (builder, _, identity) = robot();
    let arm = Arm::new();
    let robot = builder.device(limits(), Hangs(Arc::clone(&arm))).start().unwrap();
    let operator = operator(&robot, identity).device(Still([0.1, 0.0, 0.2])).resumes_at_start();
    let operator = operator.start().unwrap();
    until("the arm moves", || arm.applied() > 20);
    let moved = std::thread::scope(|threads| {
        let press = std::thread::Builder::new().name("presses".to_owned());
        press.spawn_scoped(threads, || robot.stop()).unwrap();
        until("it hangs", || arm.blocked.load(Ordering::SeqCst));
        operator.stop();
        until("the operator's stop is there", || arm.was_stopped(StopCause::Emergency));
        let applied = arm.applied();
        for _ in 0..50 {
            operator.reset();
            std::thread::park_timeout(Duration::from_millis(10));
            operator.resume();
        }
        let moved = arm.applied() - applied;
        arm.let_go();
        moved
    });
    assert_eq!(moved, 0);
    assert!(arm.was_stopped(StopCause::LocalEmergency));
}

#[test]
fn the_operators_emergency_stop_is_latched_until_reset_and_resume() {
    let arm = Arm::new();
    let (robot, operator) = moving(&arm);
    operator.stop();
    told(operator.events(), |event| matches!(event, OperatorEvent::StopAcknowledged { .. }));
    assert!(arm.was_stopped(StopCause::Emergency));
    assert_eq!(robot.status().state, RobotState::Fault);
    operator.resume();
    told(
        operator.events(),
        |event| matches!(event, OperatorEvent::ResumeRefused { why } if why.contains("reset")),
    );
    operator.reset();
    told(operator.events(), |event| *event == OperatorEvent::WasReset);
    let applied = arm.applied();
    operator.resume();
    until("it moves again", || arm.applied() > applied + 10);
}

#[test]
fn a_device_that_panics_is_stopped_and_never_enabled_again() {
    let arm = Arm::new();
    let (robot, operator) = moving(&arm);
    arm.is(Mood::Panics);
    until("it is stopped", || arm.was_stopped(StopCause::Device));
    let RobotEvent::DeviceFailed(why) =
        told(robot.events(), |event| matches!(event, RobotEvent::DeviceFailed(_)))
    else {
        unreachable!()
    };
    assert!(why.contains("a bug of the driver's"), "{why}");
    arm.is(Mood::Obeys);
    let applied = arm.applied();
    for _ in 0..10 {
        operator.resume();
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_eq!(arm.applied(), applied);
    assert!(!robot.has_ended(), "the operator can be told why");
}

#[test]
fn a_device_that_refuses_is_stopped_and_says_why_and_a_resume_may_move_it_again() {
    let arm = Arm::new();
    let (robot, operator) = moving(&arm);
    arm.is(Mood::Refuses);
    until("it is stopped", || arm.was_stopped(StopCause::Device));
    let failed = told(robot.events(), |event| matches!(event, RobotEvent::DeviceFailed(_)));
    assert!(matches!(failed, RobotEvent::DeviceFailed(why) if why.contains("too hot")));
    arm.is(Mood::Obeys);
    let applied = arm.applied();
    until("it moves again", || {
        operator.resume();
        arm.applied() > applied + 10
    });
}

#[test]
fn a_device_that_blocks_is_stopped_by_the_thread_beside_and_once_more_when_it_returns() {
    let arm = Arm::new();
    let (_robot, _operator) = moving(&arm);
    arm.is(Mood::Blocks);
    until("it blocks", || arm.blocked.load(Ordering::SeqCst));
    until("it is stopped while it blocks", || arm.was_stopped(StopCause::Watchdog));
    assert!(arm.blocked.load(Ordering::SeqCst));
    // What was being applied comes to an end, after the stop: it is stopped once more.
    let (applied, stops) = (arm.applied(), arm.stops().len());
    arm.is(Mood::Obeys);
    arm.let_go();
    until("it is stopped again", || arm.stops().len() > stops);
    assert_eq!(arm.applied(), applied + 1);
}

#[test]
fn the_emergency_stop_does_not_wait_for_a_device_that_blocks() {
    let arm = Arm::new();
    let (robot, _operator) = moving(&arm);
    arm.is(Mood::Blocks);
    until("it blocks", || arm.blocked.load(Ordering::SeqCst));
    robot.stop();
    assert!(arm.was_stopped(StopCause::LocalEmergency) && arm.blocked.load(Ordering::SeqCst));
    let stops = arm.stops().len();
    arm.is(Mood::Obeys);
    arm.let_go();
    until("it is stopped once more", || arm.stops().len() > stops);
}

#[test]
fn a_robot_that_is_closed_or_pressed_while_it_moves_does_not_say_that_its_device_failed() {
    for closes in [true, false].repeat(20) {
        let arm = Arm::new();
        let (robot, _operator) = moving(&arm);
        if closes {
            robot.close();
        } else {
            robot.stop();
        }
        let stopped = told(robot.events(), |event| matches!(event, RobotEvent::Stopped { .. }));
        let by_device = RobotEvent::Stopped { cause: StopCause::Device };
        assert!(stopped != by_device && !arm.was_stopped(StopCause::Device), "closed: {closes}: {stopped:?}");
    }
}

#[test]
fn dropping_the_handle_stops_the_device_also_while_it_blocks() {
    let arm = Arm::new();
    let (robot, _operator) = moving(&arm);
    drop(robot);
    assert!(arm.was_stopped(StopCause::Host));
    let applied = arm.applied();
    std::thread::park_timeout(Duration::from_millis(50));
    assert_eq!(arm.applied(), applied);

    let arm = Arm::new();
    let (robot, _operator) = moving(&arm);
    arm.is(Mood::Blocks);
    until("it blocks", || arm.blocked.load(Ordering::SeqCst));
    let begin = Instant::now();
    drop(robot);
    assert!(begin.elapsed() < PATIENCE, "nobody waits for ever");
    assert!(arm.was_stopped(StopCause::Host) && arm.blocked.load(Ordering::SeqCst));
    arm.is(Mood::Obeys);
    arm.let_go();
    until("what blocked has returned", || !arm.blocked.load(Ordering::SeqCst));
    let applied = arm.applied();
    std::thread::park_timeout(Duration::from_millis(50));
    assert!(arm.applied() <= applied + 1, "nothing follows");
}

#[test]
fn dropping_the_operator_stops_the_device() {
    let arm = Arm::new();
    let (robot, operator) = moving(&arm);
    drop(operator);
    until("it is stopped", || {
        arm.was_stopped(StopCause::OperatorLeft) || arm.was_stopped(StopCause::LinkClosed)
    });
    until("it is told", || !robot.status().connected);
}

#[test]
fn dropping_the_operator_stops_the_device_also_while_messages_fill_its_mailbox_and_its_hand_blocks() {
    use std::sync::atomic::AtomicU8;

    /// Blocks once, when it is told to.
    struct Slow(Arc<AtomicU8>);
    impl OperatorDevice for Slow {
        fn sample(&mut self) -> Option<State> {
            Some(State::at([0.1, 0.0, 0.2]))
        }
        fn feel(&mut self, _: &State) {
            if self.0.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                std::thread::park_timeout(Duration::from_millis(600));
            }
        }
        fn lost(&mut self) {}
    }
    let (builder, _, identity) = robot();
    let (arm, blocks, jobs) = (Arm::new(), Arc::default(), Sender::<Vec<u8>>::new(Channel::command("jobs")));
    let received = taut::Receiver::<Vec<u8>>::new(Channel::command("jobs"));
    let robot = builder.device(limits(), Handed(Arc::clone(&arm))).receives(&received).start().unwrap();
    let hand = Slow(Arc::clone(&blocks));
    let operator = operator(&robot, identity).device(hand).sends(&jobs).resumes_at_start().start().unwrap();
    until("the arm moves", || arm.applied() > 20 && jobs.send(&vec![0]).is_ok());
    blocks.store(1, Ordering::SeqCst);
    until("the hand blocks", || blocks.load(Ordering::SeqCst) == 2);
    let full = std::iter::repeat_with(|| jobs.send(&vec![0])).find_map(Result::err);
    assert_eq!(full, Some(SendError::Full));
    drop(operator);
    told(robot.events(), |event| *event == RobotEvent::Disconnected);
}

#[test]
fn a_hand_whose_lost_panics_ends_the_session_and_says_so() {
    struct Fails;
    impl OperatorDevice for Fails {
        fn sample(&mut self) -> Option<State> {
            Some(State::at([0.1, 0.0, 0.2]))
        }
        fn feel(&mut self, _: &State) {}
        fn lost(&mut self) {
            panic!("a bug of the hand's");
        }
    }
    let (builder, _, identity) = robot();
    let arm = Arm::new();
    let robot = builder.device(limits(), Handed(Arc::clone(&arm))).start().unwrap();
    let operator = operator(&robot, identity).device(Fails).resumes_at_start().start().unwrap();
    until("the arm moves", || arm.applied() > 20);
    drop(robot);
    until("it ends", || operator.has_ended());
    assert!(matches!(operator.join(), Err(Error::Panicked(why)) if why.contains("the hand's")));
}

#[test]
fn a_robot_without_an_operator_says_how_it_is() {
    let folder = std::env::temp_dir().join(format!("taut-status-{}", std::process::id()));
    let is = |robot: &taut::Robot, state, cause| {
        until("it says how it is", || {
            let status = robot.status();
            (status.state, status.cause, status.connected) == (state, cause, false)
        });
    };
    // It holds what was pressed, in its next life too.
    let start = || {
        let (builder, _, identity) = robot();
        let arm = Arm::new();
        let builder = builder.keeps_stops_in(folder.join("robot.state"));
        (builder.device(limits(), Handed(Arc::clone(&arm))).start().unwrap(), arm, identity)
    };
    let (robot, ..) = start();
    is(&robot, RobotState::Disabled, StopCause::Start);
    robot.stop();
    is(&robot, RobotState::Fault, StopCause::LocalEmergency);
    told(robot.events(), |event| matches!(event, RobotEvent::Stopped { .. }));
    drop(robot);
    let (robot, arm, identity) = start();
    is(&robot, RobotState::Fault, StopCause::LocalEmergency);
    robot.release();
    is(&robot, RobotState::Disabled, StopCause::LocalEmergency);
    let operator = operator(&robot, identity).device(Still([0.1, 0.0, 0.2])).start().unwrap();
    until("the arm moves", || {
        operator.resume();
        arm.applied() > 20
    });
    drop(operator);
    until("the operator has gone", || !robot.status().connected);
    until("it is disabled", || robot.status().state == RobotState::Disabled);
    drop(robot);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_hand_that_reads_nothing_new_panics_or_blocks_stops_the_robot() {
    use std::sync::atomic::AtomicU64;

    struct Fails(Arc<AtomicU64>, fn());
    impl OperatorDevice for Fails {
        fn sample(&mut self) -> Option<State> {
            if self.0.fetch_add(1, Ordering::SeqCst) > 100 {
                (self.1)();
                return None;
            }
            Some(State::at([0.1, 0.0, 0.2]))
        }
        fn feel(&mut self, _: &State) {}
        fn lost(&mut self) {
            panic!("at the worst moment, too");
        }
    }
    let blocks = || std::thread::park_timeout(PATIENCE);
    for fails in [|| {}, || panic!("a bug of the hand's"), blocks] {
        let (builder, _, identity) = robot();
        let arm = Arm::new();
        let robot = builder.device(limits(), Handed(Arc::clone(&arm))).start().unwrap();
        let hand = Fails(Arc::default(), fails);
        let operator = operator(&robot, identity).device(hand).resumes_at_start().start().unwrap();
        until("the arm moves", || arm.applied() > 5);
        until("it is stopped", || robot.status().state != RobotState::Enabled);
        let applied = arm.applied();
        std::thread::park_timeout(Duration::from_millis(50));
        assert_eq!(arm.applied(), applied);
        // A thread that is held up is left to itself.
        drop(operator);
    }
}

#[test]
fn one_stop_that_panics_or_hangs_does_not_keep_other_devices_from_being_stopped() {
    let (builder, _, identity) = robot();
    let (arm, base) = (Arm::new(), Arm::new());
    let drive =
        TwistLimits::new().linear(0.5).linear_acceleration(1.0).angular(1.0).angular_acceleration(2.0);
    let robot =
        builder.device(limits(), Handed(Arc::clone(&arm))).motion("base", drive, Base(Arc::clone(&base)));
    let robot = robot.start().unwrap();
    let hand = Still([0.1, 0.0, 0.2]);
    let operator = operator(&robot, identity).device(hand).resumes_at_start().start().unwrap();
    until("the arm moves", || arm.applied() > 20);
    arm.stop_panics.store(true, Ordering::SeqCst);
    operator.stop();
    until("both are stopped", || {
        arm.was_stopped(StopCause::Emergency) && base.was_stopped(StopCause::Emergency)
    });
    told(robot.events(), |event| matches!(event, RobotEvent::DeviceFailed(why) if why.contains("`stop` of")));

    let (builder, _, identity) = crate::world::robot();
    let (arm, base) = (Arm::new(), Arm::new());
    let robot =
        builder.device(limits(), Handed(Arc::clone(&arm))).motion("base", drive, Base(Arc::clone(&base)));
    let robot = robot.start().unwrap();
    let hand = Still([0.1, 0.0, 0.2]);
    let operator = crate::world::operator(&robot, identity).device(hand).resumes_at_start().start().unwrap();
    until("the arm moves", || arm.applied() > 20);
    arm.stop_blocks.store(true, Ordering::SeqCst);
    operator.stop();
    until("the first hangs", || arm.blocked.load(Ordering::SeqCst));
    // Within the watchdog's time the thread beside stops the second.
    until("the second is stopped", || base.was_stopped(StopCause::Watchdog));
    arm.stop_blocks.store(false, Ordering::SeqCst);
    arm.let_go();
    drop((operator, robot));
}

#[test]
fn a_robot_stops_within_the_watchdogs_time_when_its_operator_is_silent() {
    struct Once(u32);
    impl OperatorDevice for Once {
        fn sample(&mut self) -> Option<State> {
            self.0 += 1;
            (self.0 < 50).then_some(State::at([0.1, 0.0, 0.2]))
        }
        fn feel(&mut self, _: &State) {}
        fn lost(&mut self) {}
    }
    let (builder, _, identity) = robot();
    let arm = Arm::new();
    let robot = builder.watchdog(WATCHDOG).device(limits(), Handed(Arc::clone(&arm))).start().unwrap();
    let _operator = operator(&robot, identity).device(Once(0)).resumes_at_start().start().unwrap();
    told(robot.events(), |event| matches!(event, RobotEvent::Stopped { cause: StopCause::Watchdog }));
    assert!(arm.was_stopped(StopCause::Watchdog));
    let [x, ..] = arm.position();
    assert!((0.0..=0.1).contains(&x), "never beyond what was asked: {x}");
}

#[test]
fn a_waker_that_panics_ends_the_session_and_stops_the_device() {
    use std::future::Future;
    use std::task::{Context, Wake, Waker};

    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a bug of the runtime's");
        }
    }
    let arm = Arm::new();
    let (robot, operator) = moving(&arm);
    while robot.events().try_recv().is_ok() {}
    {
        let mut next = std::pin::pin!(robot.events().next());
        assert!(next.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    }
    operator.stop();
    until("it ends", || robot.has_ended());
    assert!(arm.was_stopped(StopCause::Emergency) && arm.was_stopped(StopCause::Host));
    assert!(matches!(robot.join(), Err(taut::Error::Panicked(why)) if why.contains("the runtime's")));
}

#[test]
fn whatever_the_hand_asks_the_device_is_told_no_more_than_its_limits_allow() {
    use std::sync::Mutex;
    use taut::robot_device;

    struct Wild(u32);
    impl OperatorDevice for Wild {
        fn sample(&mut self) -> Option<State> {
            self.0 += 1;
            let far = if self.0.is_multiple_of(2) { 1e9 } else { -1e9 };
            let turned = if self.0.is_multiple_of(3) { [0.0, 1.0, 0.0, 0.0] } else { [1.0, 0.0, 0.0, 0.0] };
            Some(
                State::at([far; 3])
                    .with_orientation_wxyz(turned)
                    .with_velocity([far; 3])
                    .with_force([far; 3]),
            )
        }
        fn feel(&mut self, _: &State) {}
        fn lost(&mut self) {}
    }
    let told = Arc::new(Mutex::new(vec![State::at([0.0, 0.0, 0.2])]));
    let (moved, measured) = (Arc::clone(&told), Arc::clone(&told));
    let device = robot_device(
        move |target: &State, _| {
            moved.lock().unwrap().push(*target);
            Ok(())
        },
        move || measured.lock().unwrap().last().copied(),
        |_| (),
    );
    let (builder, _, identity) = robot();
    let robot = builder.device(limits(), device).start().unwrap();
    let operator = operator(&robot, identity).device(Wild(0)).resumes_at_start().start().unwrap();
    until("it moves", || told.lock().unwrap().len() > 300);
    drop((operator, robot));
    let told = told.lock().unwrap();
    let length = |vector: [f32; 3]| vector.iter().map(|part| part * part).sum::<f32>().sqrt();
    for pair in told.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        assert!(to.position.iter().all(|part| part.abs() <= 0.3), "{to:?}");
        assert!(length(to.velocity) <= 0.5001 && length(to.force) <= 20.01, "{to:?}");
        // 50 ms count of a silence, however long.
        let way: [f32; 3] = std::array::from_fn(|i| to.position[i] - from.position[i]);
        assert!(length(way) <= 0.5 * 0.05 + 1e-4, "{from:?} {to:?}");
        let same: f32 = (0..4).map(|i| from.orientation_wxyz[i] * to.orientation_wxyz[i]).sum();
        let turn = 2.0 * same.abs().min(1.0).acos();
        assert!(turn <= 0.5 * 0.05 + 2e-3, "{turn} rad: {from:?} {to:?}");
    }
}
