//! What `taut robot` moves, and `taut device`, which is such a thing.

mod process;
mod program;
mod seen;

use std::str::FromStr;

use serde_json::json;
use taut_agent::RobotDevice;
use taut_core::Duration;
use taut_io::device::frame::DeviceLimits;
use taut_io::device::{DeviceDrops, InProcess, ProcessDevice, Stoppable};
use taut_lab::robot::{SimulatedArm, SimulatedRobot};
use taut_lab::scenario::{Environment, Surface};

use crate::channels::Channels;

pub(crate) use self::process::{Arguments, device};
pub(crate) use self::program::{FORMS, Group, Program};
use self::seen::Looked;
pub(crate) use self::seen::Seen;

/// A simulated robot, by what it touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated(Environment);

/// What it can touch, by name.
const ENVIRONMENTS: [Environment; 4] = [
    Environment::Free,
    Environment::Foam(Surface::DEFAULT),
    Environment::Spring(Surface::DEFAULT),
    Environment::Wall(Surface::DEFAULT),
];

impl Simulated {
    fn names() -> String {
        format!("sim, sim:{}", ENVIRONMENTS.map(|environment| environment.name()).join(", sim:"))
    }

    fn name(self) -> String {
        format!("sim:{}", self.0.name())
    }

    fn start(self, channels: &Channels, turns: bool) -> SimulatedArm {
        let environment = if turns { self.0.smooth() } else { self.0 };
        let robot = SimulatedRobot::new(&environment, SimulatedRobot::REST);
        let arm = SimulatedArm::new(robot, Duration::from_millis(1));
        let arm = if turns { arm.turning() } else { arm };
        // Of the arm that is drawn: nobody knows of another.
        let joints = |hand| json!({ "position_rad": taut_video::arm_joints(hand) }).to_string().into_bytes();
        match channels.of_joints() {
            Some(channel) => arm.telling(channel, joints),
            None => arm,
        }
    }
}

impl FromStr for Simulated {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let environment = match text.split_once(':') {
            None if text == "sim" => Some(Environment::Spring(Surface::DEFAULT)),
            Some(("sim", name)) => ENVIRONMENTS.into_iter().find(|environment| environment.name() == name),
            _ => None,
        };
        environment.map(Self).ok_or_else(|| format!("`{text}` is not a device; there are {}", Self::names()))
    }
}

/// Argument `--robot`.
#[derive(Clone, Debug)]
pub(crate) enum Moved {
    /// Simulated in this process.
    Simulated(Simulated),
    /// A program.
    Process(Program),
}

impl FromStr for Moved {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match Program::parse(text, Group::Robots) {
            Some(program) => program.map(Self::Process),
            None => text.parse().map(Self::Simulated).map_err(|_: String| {
                format!("`{text}` is not a robot; there are {}, {FORMS}", Simulated::names())
            }),
        }
    }
}

/// A device that is ready to be enabled.
pub(crate) struct Ready {
    pub(crate) device: Box<dyn Stoppable + Send>,
    pub(crate) name: String,
    pub(crate) limits: DeviceLimits,
    /// Of messages, where it is a program.
    pub(crate) drops: Option<DeviceDrops>,
    /// The channels of motion, where they alone move it and states do not.
    pub(crate) by_channels: Option<Vec<String>>,
}

impl Moved {
    /// The names of its joints, in its order, where they are known.
    pub(crate) fn joints(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::Simulated(_) => None,
            Self::Process(program) => program.joints(),
        }
    }

    /// For a camera that draws it.
    pub(crate) fn seen(&self) -> Seen {
        Seen::new(matches!(self, Self::Simulated(Simulated(environment)) if environment.surface().is_some()))
    }

    /// Is it known here what it is and what its controllers do? A program may be anything.
    pub(crate) const fn is_simulated_here(&self) -> bool {
        matches!(self, Self::Simulated(_))
    }

    /// Before it is started.
    ///
    /// # Errors
    /// One line: which channel nobody moves by.
    pub(crate) fn check(&self, channels: &Channels) -> Result<(), String> {
        match (self, &channels.motion()[..]) {
            (Self::Simulated(_), [first, ..]) => Err(format!(
                "--channels: {first:?} is motion, and the simulated robot is moved by states alone; name a device of \
                 your own, --robot exec:PROGRAM, or leave the channel out"
            )),
            _ => Ok(()),
        }
    }

    /// Starts it with its channels, [checked](Self::check), and limits; a simulated one `turns` what it moves along x otherwise. A program that is moved by states, which may be a
    /// real device, is ended again unless all limits are there: those that it is given, and its own where it says some. Channels of motion have limits of their own.
    ///
    /// # Errors
    /// One line: which limit is missing or cannot be kept, or why the device did not start.
    pub(crate) fn start(
        &self,
        mut limits: DeviceLimits,
        channels: &Channels,
        seen: Seen,
        turns: bool,
    ) -> Result<Ready, String> {
        let (mut drops, mut by_channels) = (None, None);
        let (device, name): (Box<dyn Stoppable + Send>, _) = match self {
            Self::Simulated(simulated) => {
                (Box::new(InProcess::new(simulated.start(channels, turns))), simulated.name())
            }
            Self::Process(program) => {
                let device = ProcessDevice::start(program.words(), limits, &channels.lines());
                let device = device.map_err(|error| error.to_string())?;
                limits = device.limits();
                if device.is_moved_by_channels() {
                    by_channels = Some(channels.motion().into_iter().map(str::to_owned).collect());
                } else {
                    all_there(&limits)?;
                }
                let name = device.name();
                drops = Some(device.message_drops());
                (Box::new(device), name)
            }
        };
        let device = Box::new(Looked { device, seen });
        let mut ready = Ready { device, name, limits, drops, by_channels };
        if ready.by_channels.is_some() {
            return Ok(ready);
        }
        if ready.device.is_real() {
            all_there(&limits)?;
        }
        if let Some(newtons) = limits.force
            && !ready.device.limit_force(newtons)
        {
            return Err(format!(
                "the controller of `{}` cannot keep to a limit of {newtons} N: a position out of reach would make it press \
                 with all that it has. Where it can, its program says so (`limits_force = True` of a class of Python): docs/devices.md",
                ready.name
            ));
        }
        Ok(ready)
    }
}

impl Ready {
    /// In words. A device without a lease is told of by [`warning`](Self::warning).
    pub(crate) fn description(&self) -> String {
        let DeviceLimits { position, velocity, force } = self.limits;
        let position = position.map(|[[a, b, c], [d, e, f]]| format!("{a},{b},{c} to {d},{e},{f} m"));
        let velocity = velocity.map(|limit| format!("{limit} m/s"));
        let force = force.map(|limit| format!("{limit} N"));
        let limits: Vec<String> = [position, velocity, force].into_iter().flatten().collect();
        let limits = match &self.by_channels {
            Some(channels) => format!("within the limits that --channels has of {}", channels.join(", ")),
            None if limits.is_empty() => "WITHOUT LIMITS of position, velocity and force".to_owned(),
            None => format!("within {}", limits.join(", ")),
        };
        let kind = if self.device.is_real() { "" } else { ", which is simulated," };
        format!("moves {}{kind} {limits}", self.name)
    }

    pub(crate) fn warning(&self) -> Option<String> {
        (!self.device.lease()).then(|| {
            format!(
                "`{}` keeps no lease: if this process is frozen or killed, nothing here stops it",
                self.name
            )
        })
    }
}

fn all_there(limits: &DeviceLimits) -> Result<(), String> {
    let there = [
        ("--position-limit", limits.position.is_some()),
        ("--velocity-limit", limits.velocity.is_some()),
        ("--force-limit", limits.force.is_some()),
    ];
    let missing: Vec<&str> = there.iter().filter(|(_, there)| !there).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "a device that is not simulated here does not move without limits: {} missing, and it says no such of its own",
        match &missing[..] {
            [one] => format!("{one} is"),
            many => format!("{} are", many.join(", ")),
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_simulated_here_names_the_limits_that_it_lacks() {
        let some = DeviceLimits { velocity: Some(0.5), ..DeviceLimits::default() };
        let error = all_there(&some).unwrap_err();
        assert!(
            error.ends_with("--position-limit, --force-limit are missing, and it says no such of its own"),
            "{error}"
        );
        assert!("exec:".parse::<Moved>().is_err() && "arm".parse::<Moved>().is_err());
    }

    #[test]
    fn a_simulated_arm_says_that_it_has_no_limits_or_which() {
        let ready = "sim"
            .parse::<Moved>()
            .unwrap()
            .start(DeviceLimits::default(), &Channels::default(), Seen::default(), false)
            .unwrap();
        assert!(ready.description().contains("WITHOUT LIMITS"), "{}", ready.description());
        assert_eq!(ready.warning(), None);
        let ready = Ready { by_channels: Some(vec!["arm/servo_jp".to_owned()]), ..ready };
        let limits = "within the limits that --channels has of arm/servo_jp";
        assert!(ready.description().ends_with(limits), "{}", ready.description());
        let limits = DeviceLimits { force: Some(20.0), ..DeviceLimits::default() };
        let ready = "sim:wall"
            .parse::<Moved>()
            .unwrap()
            .start(limits, &Channels::default(), Seen::default(), false)
            .unwrap();
        assert_eq!(ready.description(), "moves sim:wall, which is simulated, within 20 N");
    }
}
