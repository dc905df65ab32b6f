//! `taut device`: the simulated arm in a process of its own, as `taut robot --robot exec:` starts one.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use serde_json::{Value, json};
use taut_agent::{DeviceReport, RobotDevice, SetPoint};
use taut_core::{Duration, Time};
use taut_io::Clock;
use taut_io::device::frame::{DeviceInfo, Frame};
use taut_io::device::{DeviceSocket, Told};
use taut_lab::robot::SimulatedArm;
use taut_session::{State, StopCause, motion};

use super::Simulated;
use crate::channels::Channels;
use crate::{Ended, so101};

#[derive(Args)]
pub(crate) struct Arguments {
    /// A simulated arm that touches nothing, foam, a spring or a wall, sim[:free|foam|spring|wall], or an SO-101, so101:PORT
    #[arg(default_value = "sim", value_name = "DEVICE")]
    device: Device,
    /// Write what it is told and what it does as JSON Lines, if it is simulated
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

pub(crate) fn device(arguments: &Arguments) -> Ended {
    let simulated = match &arguments.device {
        Device::So101(port) => return so101::run(port).map(|()| ExitCode::SUCCESS),
        Device::Simulated(simulated) => *simulated,
    };
    let log = match &arguments.log {
        Some(path) => Some(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => None,
    };
    let socket = DeviceSocket::of_process().map_err(|error| error.to_string())?;
    let mut device = Moving::new(simulated, log);
    let info = DeviceInfo {
        name: simulated.name(),
        stiffness: device.arm.stiffness(),
        lease: true,
        limits_force: true,
        ..DeviceInfo::default()
    };
    socket.send(&Frame::Device(info));
    device.note(json!({ "event": "started", "pid": std::process::id() }));
    device.run(&socket);
    Ok(ExitCode::SUCCESS)
}

#[derive(Clone, Debug)]
enum Device {
    Simulated(Simulated),
    So101(PathBuf),
}

impl FromStr for Device {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        so101::port(text).map_or_else(|| text.parse().map(Self::Simulated), |port| Ok(Self::So101(port)))
    }
}

/// An arm that is simulated as time passes. It waits for nobody: neither for what it is told nor for who reads what it says.
struct Moving {
    arm: SimulatedArm,
    began: Time,
    /// Until when it was.
    simulated: Time,
    report: DeviceReport,
    /// That it stopped, until somebody reads that: the number of the stop, or 0, and why.
    unsaid: Option<(u32, &'static str)>,
    log: Option<File>,
}

/// Steps at once, when the host was late. Before those the arm stood still.
const MOST_STEPS: u64 = 100;

impl Moving {
    fn new(simulated: Simulated, log: Option<File>) -> Self {
        let began = Clock::since_boot();
        Self {
            arm: simulated.start(&Channels::default(), false),
            began,
            simulated: began,
            report: DeviceReport::default(),
            unsaid: None,
            log,
        }
    }

    fn run(&mut self, socket: &DeviceSocket) {
        loop {
            let now = Clock::since_boot();
            if let Some(state) = self.advance(now) {
                socket.send(&state);
            }
            if let Some((number, why)) = self.unsaid
                && socket.send(&Frame::Stopped { number, why: why.to_owned() })
            {
                self.unsaid = None;
            }
            let left = (self.simulated + self.arm.period()).saturating_since(now);
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos().min(999_999_999) as _ };
            let mut fds = [PollFd::new(socket, PollFlags::IN)];
            if retry_on_intr(|| poll(&mut fds, Some(&timeout))).is_err() {
                return self.end("input");
            }
            loop {
                match socket.recv() {
                    Told::Frame(frame) => {
                        self.advance(Clock::since_boot());
                        self.obey(frame.ok());
                    }
                    Told::Nothing => break,
                    Told::Ended => return self.end("end_of_file"),
                }
            }
        }
    }

    /// Time has passed; where it is now.
    fn advance(&mut self, now: Time) -> Option<Frame> {
        let period = self.arm.period();
        let behind = now.saturating_since(self.simulated) / period;
        let steps = behind.min(MOST_STEPS);
        let moved = self.arm.is_enabled();
        self.arm.skip(period * (behind - steps));
        self.simulated += period * behind;
        let mut measured = None;
        for _ in 0..steps {
            measured = self.arm.measure();
            measured.iter().for_each(|measured| self.report.measured(measured));
        }
        if moved && !self.arm.is_enabled() {
            self.unsaid.get_or_insert((0, "lease"));
            self.note(json!({ "event": "stopped", "why": "lease" }));
        }
        let measured = measured?;
        let state = motion::State::from(&measured.state);
        Some(Frame::Measured { state, controller_force: measured.controller_force })
    }

    fn obey(&mut self, frame: Option<Frame>) {
        match frame {
            Some(Frame::Limits(limits)) => {
                if let Some(newtons) = limits.force {
                    self.arm.limit_force(newtons);
                }
                self.note(json!({ "event": "told", "told": { "limits": { "force": limits.force } } }));
            }
            Some(Frame::Enable) => {
                // It always can.
                let _ = self.arm.enable();
                self.note(json!({ "event": "told", "told": { "enable": {} } }));
            }
            Some(Frame::Apply { until, state }) => self.apply(until, &state),
            Some(Frame::Stop { number, cause }) => {
                self.note(json!({ "event": "told", "told": { "stop": cause } }));
                self.stop("told");
                self.unsaid = Some((number, "told"));
            }
            // It has nothing to do with channels and their messages.
            Some(Frame::Hello { .. } | Frame::Channel(_) | Frame::Message { .. }) => {}
            // Whoever says what nobody understands may have meant a stop.
            _ => {
                self.note(json!({ "event": "junk" }));
                self.unsaid = Some((0, "junk"));
                self.stop("junk");
            }
        }
    }

    fn apply(&mut self, until: Time, state: &motion::State) {
        // Of the millisecond that is being simulated some has passed.
        let left = until.saturating_since(Clock::since_boot());
        let lease = until.saturating_since(self.simulated);
        let state = State {
            position: state.position,
            orientation_wxyz: state.orientation_wxyz,
            velocity: state.velocity,
            force: state.force,
            gripper: state.gripper,
            ..State::at(Time::ZERO)
        };
        if !left.is_zero() {
            self.arm.apply(&SetPoint { state, age: Duration::ZERO, lease, fresh: lease });
        }
        let applied = self.arm.is_enabled() && !left.is_zero();
        let told = json!({ "apply": { "position": state.position, "lease_ms": left.as_millis_f64() } });
        self.note(json!({ "event": "told", "told": told, "applied": applied }));
    }

    fn stop(&mut self, why: &str) {
        let moved = self.arm.is_enabled();
        self.arm.stop(StopCause::Host);
        if moved {
            self.note(json!({ "event": "stopped", "why": why }));
        }
    }

    /// Nobody is there any more: it stops, and comes to rest.
    fn end(&mut self, why: &str) {
        self.stop(why);
        for _ in 0..MOST_STEPS * 10 {
            let measured = self.arm.measure();
            measured.iter().for_each(|measured| self.report.measured(measured));
        }
        self.note(json!({ "event": "ended", "why": why }));
    }

    /// A log that cannot be written stops nothing.
    fn note(&mut self, mut line: Value) {
        let Some(log) = &mut self.log else { return };
        line["t_s"] = json!((Clock::since_boot() - self.began).as_secs_f64());
        line["enabled"] = json!(self.arm.is_enabled());
        line["position_m"] = json!(self.arm.robot().position());
        line["speed_mps"] = json!(self.report.speed);
        line["speed_max_mps"] = json!(self.report.speed_max);
        line["controller_force_max_n"] = json!(self.report.controller_force_max);
        let _ = log.write_all(format!("{line}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Duration;

    fn device() -> Moving {
        Moving::new("sim:free".parse().unwrap(), None)
    }

    fn apply(device: &Moving) -> Option<Frame> {
        let state = motion::State { position: [0.2, 0.0, 0.0], ..motion::State::default() };
        Some(Frame::Apply { until: device.simulated + Duration::from_secs(5), state })
    }

    #[test]
    fn an_arm_that_was_frozen_with_its_host_stops_before_it_obeys() {
        let mut device = device();
        device.obey(Some(Frame::Enable));
        device.obey(apply(&device));
        assert!(device.arm.is_enabled());
        let later = device.simulated + Duration::from_secs(10);
        device.advance(later);
        assert!(!device.arm.is_enabled() && device.unsaid == Some((0, "lease")));
        device.obey(apply(&device));
        assert!(!device.arm.is_enabled());
        let position = device.arm.robot().position();
        assert!((position[0] + 0.06).abs() < 1e-3, "it stood still while nobody simulated it: {position:?}");
    }

    #[test]
    fn a_set_point_whose_lease_is_over_moves_nothing() {
        let mut device = device();
        device.obey(Some(Frame::Enable));
        let state = motion::State::default();
        device.obey(Some(Frame::Apply { until: Time::from_nanos(1), state }));
        device.advance(device.simulated + Duration::from_millis(50));
        assert!(device.arm.is_enabled(), "its lease has not begun");
    }

    #[test]
    fn what_is_not_understood_stops_and_a_stop_is_answered_by_its_number() {
        for junk in [Some(Frame::Lost), None] {
            let mut device = device();
            device.obey(Some(Frame::Enable));
            device.obey(apply(&device));
            device.obey(junk);
            assert!(!device.arm.is_enabled() && device.unsaid == Some((0, "junk")));
            device.obey(Some(Frame::Stop { number: 7, cause: "host".to_owned() }));
            assert_eq!(device.unsaid, Some((7, "told")));
        }
    }
}
