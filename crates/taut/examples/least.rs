//! The least that a robot is.

use taut::{Identity, Robot, StateLimits, robot_device};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = StateLimits::new()
        .position([-0.3; 3], [0.3; 3])
        .velocity(0.25)
        .angular_velocity(0.5)
        .force(20.0)
        .stiffness(2_000.0);
    let robot = Robot::builder()
        .listen("0.0.0.0:4433")
        .identity(Identity::open("robot.key")?)
        .trust(std::env::args().nth(1).ok_or("whom?")?.parse()?)
        .keeps_stops_in("robot.stops")
        .device(limits, robot_device(arm::go, arm::measure, arm::brake))
        .start()?;
    robot.join()?;
    Ok(())
}

/// The way to your controller.
mod arm {
    /// Go there, and stop when `lease` is over and nothing more was said.
    pub(crate) fn go(_target: &taut::State, _lease: std::time::Duration) -> Result<(), taut::Failure> {
        Ok(())
    }
    /// Where it is, and what it feels.
    pub(crate) fn measure() -> Option<taut::State> {
        Some(taut::State::at([0.0, 0.0, 0.2]))
    }
    /// Stop now: from any thread, at any moment.
    pub(crate) fn brake(_cause: taut::StopCause) {}
}
