//! `taut device`: the simulated arm in a process of its own, as `taut robot --robot exec:` starts one.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, retry_on_intr, write};
use serde_json::{Value, json};
use taut_agent::{DeviceReport, RobotDevice, SetPoint};
use taut_core::Time;
use taut_io::Clock;
use taut_io::device::lines::{Hello, LONGEST, Measurement, Order, Report, Splitter, line, order};
use taut_lab::robot::SimulatedArm;
use taut_session::StopCause;

use super::Simulated;
use crate::Ended;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A simulated arm that touches nothing, foam, a spring or a wall: sim[:free|foam|spring|wall]
    #[arg(default_value = "sim", value_name = "DEVICE")]
    device: Simulated,
    /// Write what it is told and what it does as JSON Lines
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

pub(crate) fn device(arguments: &Arguments) -> Ended {
    let log = match &arguments.log {
        Some(path) => Some(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => None,
    };
    let began = Clock::since_boot();
    let mut device = Device {
        arm: arguments.device.start(),
        began,
        simulated: began,
        report: DeviceReport::default(),
        unsaid: None,
        log,
    };
    let hello = Hello {
        name: arguments.device.name(),
        stiffness: device.arm.stiffness(),
        lease: true,
        limits_force: true,
        real: false,
    };
    say(&line(&Report::Hello { hello }));
    device.run();
    Ok(ExitCode::SUCCESS)
}

/// An arm that is simulated as time passes. It waits for nobody: neither for what it is told nor for who reads what it says.
struct Device {
    arm: SimulatedArm,
    began: Time,
    /// Until when it was.
    simulated: Time,
    report: DeviceReport,
    /// Why it stopped by itself, until somebody reads that.
    unsaid: Option<&'static str>,
    log: Option<File>,
}

/// Steps at once, when the host was late. Before those the arm stood still.
const MOST_STEPS: u64 = 100;

impl Device {
    fn run(&mut self) {
        let (stdin, mut splitter, mut buffer) = (std::io::stdin(), Splitter::default(), [0; 2 * LONGEST]);
        loop {
            let now = Clock::since_boot();
            self.advance(now);
            let left = (self.simulated + self.arm.period()).saturating_since(now);
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos().min(999_999_999) as _ };
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match retry_on_intr(|| poll(&mut fds, Some(&timeout))) {
                Ok(0) => continue,
                Ok(_) => {}
                Err(_) => return self.end("input"),
            }
            let count = match retry_on_intr(|| read(stdin.as_fd(), &mut buffer[..])) {
                Ok(0) => return self.end("end_of_file"),
                Ok(count) => count,
                Err(_) => return self.end("input"),
            };
            self.advance(Clock::since_boot());
            splitter.take(&buffer[..count], |line| self.obey(line));
        }
    }

    /// Time has passed.
    fn advance(&mut self, now: Time) {
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
            self.unsaid = Some("lease");
            self.note(json!({ "event": "stopped", "why": "lease" }));
        }
        if let Some(why) = self.unsaid
            && say(&line(&Report::Stopped { stopped: why.to_owned() }))
        {
            self.unsaid = None;
        }
        if let Some(measured) = measured {
            say(&line(&Report::Measurement(Measurement::new(measured))));
        }
    }

    fn obey(&mut self, text: Option<&[u8]>) {
        let order = text.and_then(order);
        let told = json!(order);
        match &order {
            Some(Order::Limits(limits)) => {
                if let Some(newtons) = limits.force {
                    self.arm.limit_force(newtons);
                }
                self.note(json!({ "event": "told", "told": told }));
            }
            Some(Order::Enable {}) => {
                // It always can.
                let _ = self.arm.enable();
                self.note(json!({ "event": "told", "told": told }));
            }
            Some(Order::Apply(apply)) if let Some(point) = apply.point() => {
                // Of the millisecond that is being simulated some has passed.
                let lease = point.lease + Clock::since_boot().saturating_since(self.simulated);
                self.arm.apply(&SetPoint { lease, ..point });
                let applied = self.arm.is_enabled() && !point.lease.is_zero();
                self.note(json!({ "event": "told", "told": told, "applied": applied }));
            }
            Some(Order::Stop(_)) => {
                self.note(json!({ "event": "told", "told": told }));
                self.stop("told");
            }
            // It has nothing to do with messages of channels.
            Some(Order::Message(_)) => self.note(json!({ "event": "told", "told": told })),
            // Whoever says what nobody understands may have meant a stop.
            _ => {
                self.note(json!({ "event": "junk" }));
                self.unsaid = Some("junk");
                self.stop("junk");
            }
        }
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

/// Writes a line, unless nobody makes room for it: a pipe with room takes so much without waiting.
fn say(line: &[u8]) -> bool {
    let stdout = std::io::stdout();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
    let ready = retry_on_intr(|| poll(&mut fds, Some(&at_once))).is_ok();
    ready && fds[0].revents().contains(PollFlags::OUT) && write(stdout.as_fd(), line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Duration;

    fn device() -> Device {
        Device {
            arm: "sim:free".parse::<Simulated>().unwrap().start(),
            began: Time::ZERO,
            simulated: Clock::since_boot(),
            report: DeviceReport::default(),
            unsaid: None,
            log: None,
        }
    }

    const APPLY: &[u8] = br#"{"apply":{"position":[0.2,0,0],"orientation_wxyz":[1,0,0,0],"velocity":[0,0,0],"force":[0,0,0],"gripper":0,"lease_ms":50}}"#;

    #[test]
    fn an_arm_that_was_frozen_with_its_host_stops_before_it_obeys() {
        let mut device = device();
        device.obey(Some(br#"{"enable":{}}"#));
        device.obey(Some(APPLY));
        assert!(device.arm.is_enabled());
        let later = device.simulated + Duration::from_secs(10);
        device.advance(later);
        assert!(!device.arm.is_enabled());
        device.obey(Some(APPLY));
        assert!(!device.arm.is_enabled());
        let position = device.arm.robot().position();
        assert!((position[0] + 0.06).abs() < 1e-3, "it stood still while nobody simulated it: {position:?}");
    }

    #[test]
    fn what_is_not_understood_stops() {
        for junk in [Some(&b"resume"[..]), None] {
            let mut device = device();
            device.obey(Some(br#"{"enable":{}}"#));
            device.obey(Some(APPLY));
            device.obey(junk);
            assert!(!device.arm.is_enabled());
        }
    }
}
