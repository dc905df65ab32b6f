//! A hand that turns an arm against a stop, and feels the torque.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use taut::{
    Error, Failure, Operator, OperatorDevice, OperatorEvent, RobotDevice, RobotEvent, State, StopCause,
};

use crate::world::{limits, operator, robot, until};

/// About z, rad.
fn turned(angle: f32) -> State {
    let (sine, cosine) = (angle / 2.0).sin_cos();
    State::at([0.0, 0.0, 0.2]).with_orientation_wxyz([cosine, 0.0, 0.0, sine]).with_angular_velocity([0.0; 3])
}

fn angle(state: &State) -> f32 {
    let [w, _, _, z] = state.orientation_wxyz;
    2.0 * z.atan2(w)
}

/// Turns about z as it is told, up to a stop of 10 N·m/rad at 0.3 rad, against which its controller presses with as many.
#[derive(Default)]
struct Wrist {
    told: Mutex<f32>,
    stops: Mutex<Vec<StopCause>>,
}

const STOP: f32 = 0.3;

impl Wrist {
    fn measured(&self) -> State {
        let told = *self.told.lock().unwrap();
        let pressed = (told - STOP).max(0.0) / 2.0;
        turned(told.min(STOP) + pressed).with_torque([0.0, 0.0, -10.0 * pressed])
    }
}

struct Handed(Arc<Wrist>);

impl RobotDevice for Handed {
    fn apply(&self, target: &State, _: Duration) -> Result<(), Failure> {
        let turning = target.turning.ok_or("nobody says how it turns")?;
        assert!(
            turning.velocity[2].abs() <= 0.51 && turning.torque.iter().all(|torque| torque.abs() < 1e-9),
            "{turning:?}"
        );
        *self.0.told.lock().unwrap() = angle(target);
        Ok(())
    }
    fn measure(&self) -> Option<State> {
        Some(self.0.measured())
    }
    fn stop(&self, cause: StopCause) {
        self.0.stops.lock().unwrap().push(cause);
    }
}

/// A hand that turns to there, at 0.4 rad/s, and says that it is twisted with 1 N·m, which no robot of these limits is told.
struct Hand {
    to: Arc<Mutex<f32>>,
    begins: Option<Instant>,
    felt: Arc<Mutex<Vec<State>>>,
}

impl OperatorDevice for Hand {
    fn sample(&mut self) -> Option<State> {
        let to = *self.to.lock().unwrap();
        let at = (0.4 * self.begins.get_or_insert_with(Instant::now).elapsed().as_secs_f32()).min(to);
        Some(turned(if to > 1.0 { to } else { at }).with_torque([0.0, 0.0, 1.0]))
    }
    fn feel(&mut self, robot: &State) {
        self.felt.lock().unwrap().push(*robot);
    }
    fn lost(&mut self) {}
}

#[test]
fn a_hand_that_turns_an_arm_against_a_stop_feels_its_torque_within_the_limit_of_the_hand() {
    let (wrist, to, felt) = (Arc::new(Wrist::default()), Arc::new(Mutex::new(0.36)), Arc::default());
    let (builder, _, identity) = robot();
    let robot = builder.turns().device(limits(), Handed(Arc::clone(&wrist))).start().unwrap();
    let hand = Hand { to: Arc::clone(&to), begins: None, felt: Arc::clone(&felt) };
    let operator = operator(&robot, identity).turns().torque_limit(0.4).device(hand);
    let operator = operator.resumes_at_start().start().unwrap();
    let torque = |state: &State| state.turning.unwrap().torque[2];
    let last = || felt.lock().unwrap().last().map_or(0.0, torque);
    // 0.06 rad into it: half of that times 10 N·m/rad.
    until("it presses", || (last() + 0.3).abs() < 1e-3);
    let all = felt.lock().unwrap().clone();
    let free: Vec<f32> = all.iter().filter(|state| angle(state) < STOP - 1e-3).map(torque).collect();
    assert!(
        free.len() > 20 && free.iter().all(|torque| torque.abs() < 1e-9),
        "on the way there it feels none"
    );
    *to.lock().unwrap() = 0.6;
    until("it presses harder", || angle(felt.lock().unwrap().last().unwrap()) > 0.44);
    assert!((last() + 0.4).abs() < 1e-6, "1.5 N·m, and the hand bears 0.4: {}", last());
    assert!(wrist.stops.lock().unwrap().is_empty());

    // The hand is turned by more than a quarter turn from the arm: the shorter way will be the other one.
    *to.lock().unwrap() = 0.45 + std::f32::consts::FRAC_PI_2 + 0.1;
    until("it stops", || *wrist.stops.lock().unwrap() == [StopCause::TurnedApart]);
    until("the operator is told", || {
        let cause = StopCause::TurnedApart;
        operator
            .events()
            .try_recv()
            .is_ok_and(|it| matches!(it, OperatorEvent::Robot { cause: why, .. } if why == cause))
    });
    *to.lock().unwrap() = 0.3;
    operator.resume();
    until("it moves on", || angle(&wrist.measured()) < 0.31);
}

#[test]
fn ends_of_which_one_turns_have_no_session_and_say_what_to_do_and_the_next_operator_comes_at_once() {
    for turns in [true, false] {
        let (builder, _, identity) = robot();
        let builder = if turns { builder.turns() } else { builder };
        let robot = builder.device(limits(), Handed(Arc::default())).start().unwrap();
        let other = operator(&robot, identity.clone());
        let begun = Instant::now();
        let other: Operator = if turns { other } else { other.turns() }.start().unwrap();
        let why = other.join().unwrap_err();
        let says = "have both ends do so (`turns`), or neither";
        assert!(matches!(&why, Error::NotConnected(why) if why.contains(says)), "{why}");
        until("the robot says it, too", || {
            robot
                .events()
                .try_recv()
                .is_ok_and(|it| matches!(&it, RobotEvent::Incompatible { why } if why.contains(says)))
        });
        let next = operator(&robot, identity);
        let next = if turns { next.turns() } else { next }.start().unwrap();
        until("the next one is taken", || {
            next.events().try_recv().is_ok_and(|it| matches!(it, OperatorEvent::Connected { .. }))
        });
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }
}
