//! Waves over a line that stands still for a while and then delivers at once all that it held.

use std::collections::VecDeque;

use taut_control::{Law, Message, Motion, OperatorEnd, RobotEnd, Servo, Surroundings, Wave};
use taut_core::Duration;

const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };
/// Steps of hand and arm, of a tenth of a period each: semi-implicit Euler.
const SUBSTEPS: u32 = 10;
const SECONDS: f64 = 0.001;
const STEP: f64 = SECONDS / SUBSTEPS as f64;
/// When it begins to stand still: the hand is in the middle of its way.
const STANDS: u32 = 10_100;

/// Messages on their way, each with the period in which it is due and in which it was made.
struct Line {
    under_way: VecDeque<(u32, u32, Message)>,
    delay: u32,
    still: u32,
}

impl Line {
    /// And how many periods the newest took that is there now.
    fn pass(&mut self, now: u32, message: Message) -> Option<(u32, Message)> {
        let due = now + self.delay;
        let moves = STANDS + self.still;
        let due = if (STANDS..moves).contains(&due) { moves } else { due };
        self.under_way.push_back((due, now, message));
        let mut newest = None;
        while let Some((_, made, message)) = self.under_way.pop_front_if(|(due, ..)| *due <= now) {
            newest = Some((now - made, message));
        }
        newest
    }
}

/// A mass that is pushed, m and m/s.
#[derive(Clone, Copy, Default)]
struct Body {
    x: f64,
    v: f64,
}

impl Body {
    fn pass(&mut self, force: f64, mass: f64) {
        self.v += force / mass * STEP;
        self.x += self.v * STEP;
    }

    const fn motion(self) -> Motion {
        Motion { position: [self.x, 0.0, 0.0], velocity: [self.v, 0.0, 0.0] }
    }
}

/// How far an arm of 0.3 kg is from a hand that goes to and fro by 60 mm, root mean square in mm, before the line stands still for so many periods and from six seconds after that on.
/// The arm meets a thing of so many N/m halfway; what the hand does before it stands still is the same each time.
fn apart(delay: u32, still: u32, stiffness: f64) -> [f64; 2] {
    let (law, period) = (Law::Wave(Wave::default()), Duration::from_millis(1));
    let mut operator = OperatorEnd::new(law, SERVO, period).limit_force(20.0);
    let mut robot = RobotEnd::new(law, SERVO, period);
    let [mut there, mut back] = [(); 2].map(|()| Line { under_way: VecDeque::new(), delay, still });
    let (mut hand, mut arm, mut aim) = (Body::default(), Body::default(), Body::default());
    let (mut felt, mut met) = (0.0, 0.0);
    let mut squares = [0.0; 2];
    for now in 0..20_000u32 {
        let seconds = f64::from(now) * SECONDS;
        let x = 0.06 * (std::f64::consts::PI * seconds).sin() * seconds.min(1.0);
        aim = Body { x, v: (x - aim.x) / SECONDS };
        for _ in 0..SUBSTEPS {
            hand.pass(800.0 * (aim.x - hand.x) + 18.0 * (aim.v - hand.v) + felt, 0.4);
        }
        let output = operator.step(&hand.motion()).expect("numbers");
        felt = output.force[0];
        if let Some((age, message)) = there.pass(now, output.message) {
            robot.receive(&message, period * u64::from(age));
        }
        let led = robot.step(&Surroundings { arm: arm.motion(), force: [met, 0.0, 0.0] }).expect("numbers");
        if let Some((_, message)) = back.pass(now, led.message) {
            operator.receive(&message);
        }
        let Motion { position: [x, ..], velocity: [v, ..] } = led.reference;
        for _ in 0..SUBSTEPS {
            met = if arm.x > 0.0 { -(stiffness * arm.x + arm.v).max(0.0) } else { 0.0 };
            arm.pass(SERVO.stiffness * (x - arm.x) + SERVO.damping * (v - arm.v) + met, 0.3);
        }
        let square = (hand.x - arm.x).powi(2) / 4_000.0;
        match now {
            6_000..10_000 => squares[0] += square,
            16_000..20_000 => squares[1] += square,
            _ => {}
        }
    }
    squares.map(|mean| 1e3 * mean.sqrt())
}

#[test]
fn waves_leave_no_offset_behind_a_standstill() {
    for stiffness in [0.0, 300.0, 3_000.0] {
        for delay in [2, 20, 50] {
            for still in [120, 220, 450] {
                let [before, after] = apart(delay, still, stiffness);
                println!(
                    "{stiffness} N/m, {delay} ms each way, {still} ms: {before:.2} mm, after it {after:.2} mm"
                );
                assert!(
                    after < before + 0.1,
                    "{stiffness} N/m, {delay} ms, {still} ms: {before} mm, {after} mm"
                );
            }
        }
    }
}
