//! Moves the arm of `robot`, switches its lamp, and shows its battery. Lines of standard input: stop, reset, resume, quit.
//!
//! ```text
//! operator 127.0.0.1:4433 ROBOT_FINGERPRINT
//! ```
#![allow(clippy::print_stdout, reason = "its answer")]

use taut::{Channel, Identity, Json, Operator, OperatorDevice, Receiver, Sender, State};

#[derive(serde::Serialize, serde::Deserialize)]
struct Battery {
    percent: u8,
}
impl Json for Battery {
    const NAME: &'static str = "example.Battery";
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Lamp {
    on: bool,
}
impl Json for Lamp {
    const NAME: &'static str = "example.Lamp";
}

/// In place of a haptic device: a hand that goes to and fro, and says where it feels the robot.
struct Hand(f32);

impl OperatorDevice for Hand {
    fn sample(&mut self) -> Option<State> {
        self.0 += 0.001;
        Some(State::at([0.1 * self.0.sin(), 0.0, 0.2]))
    }
    fn feel(&mut self, robot: &State) {
        if robot.position[0] > 0.05 {
            println!("the arm is at {:?}", robot.position);
        }
    }
    fn lost(&mut self) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let identity = Identity::open("operator.key")?;
    let usage = format!("operator ADDRESS FINGERPRINT; this end's is {}", identity.fingerprint());
    let [robot, fingerprint] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| usage)?;
    let battery = Receiver::<Battery>::new(Channel::telemetry("battery"));
    let lamp = Sender::<Lamp>::new(Channel::command("lamp"));
    let operator = Operator::builder()
        .connect(robot)
        .identity(identity)
        .trust(fingerprint.parse()?)
        .resumes_at_start()
        .device(Hand(0.0))
        .receives(&battery)
        .sends(&lamp)
        .start()?;
    println!("battery: {} %", battery.recv()?.percent);
    lamp.send(&Lamp { on: true })?;
    for line in std::io::stdin().lines() {
        match line?.trim() {
            "stop" => operator.stop(),
            "reset" => operator.reset(),
            "resume" => operator.resume(),
            _ => break,
        }
    }
    operator.close();
    Ok(operator.join().map(|_| ())?)
}
