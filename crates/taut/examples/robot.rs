//! An arm that an operator moves, a battery that it reports, and a lamp that it switches. `operator` is the other end:
//!
//! ```text
//! robot 127.0.0.1:4433 OPERATOR_FINGERPRINT
//! ```
#![allow(clippy::print_stdout, reason = "its answer")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use taut::{Channel, Identity, Json, Receiver, Robot, Sender, State, StateLimits, robot_device};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let identity = Identity::open("robot.key")?;
    let usage = format!("robot ADDRESS FINGERPRINT; this end's is {}", identity.fingerprint());
    let [listen, operator] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| usage)?;
    // In place of an arm: it is at once where it is told to be.
    let arm = Arc::new(Mutex::new(State::at([0.0, 0.0, 0.2])));
    let (moved, measured) = (Arc::clone(&arm), arm);
    let device = robot_device(
        move |target: &State, _lease| {
            *moved.lock().map_err(|_| "poisoned")? = *target;
            Ok(())
        },
        move || measured.lock().ok().map(|state| *state),
        |cause| println!("stopped: {}", cause.name()),
    );
    let limits = StateLimits::new()
        .position([-0.3; 3], [0.3; 3])
        .velocity(0.25)
        .angular_velocity(0.5)
        .force(20.0)
        .stiffness(500.0);
    let battery = Sender::<Battery>::new(Channel::telemetry("battery"));
    let lamp = Receiver::<Lamp>::new(Channel::command("lamp"));
    let robot = Robot::builder()
        .listen(listen)
        .identity(identity)
        .trust(operator.parse()?)
        .keeps_stops_in("robot.stops")
        .device(limits, device)
        .sends(&battery)
        .receives(&lamp)
        .start()?;
    println!("listening on {}, fingerprint {}", robot.address(), robot.fingerprint());
    while !robot.has_ended() {
        if let Ok(lamp) = lamp.recv_timeout(Duration::from_millis(100)) {
            println!("lamp on: {}", lamp.on);
        }
        let _ = battery.send(&Battery { percent: 87 }); // Nobody may be there.
    }
    Ok(robot.join().map(|_| ())?)
}
