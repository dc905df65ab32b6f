//! How an operator is set.

use std::sync::Arc;
use std::time::Duration;

use taut_agent::{Control, OperatorSettings, ResumePolicy};
use taut_session::{Direction, OperatorConfig};

use super::event::Told;
use super::hand::Hand;
use crate::common::{About, Common, Known, declare, period};
use crate::coupled::{Felt, coupling, felt};
use crate::device::OperatorDevice;
use crate::error::Error;
use crate::handle::{Receiver, Sender};
use crate::identity::{Fingerprint, Identity};
use crate::message::Message;
use crate::port::{Port, Ports};
use crate::time::ours;

/// Sets an operator; also by `Operator::builder()`.
///
/// | setting | default |
/// | --- | --- |
/// | [`connect`](Self::connect), [`identity`](Self::identity), [`trust`](Self::trust) | none: have to be set |
/// | [`device`](Self::device) | none: messages of [motion](crate::Channel::motion) alone move the robot |
/// | [`transport`](Self::transport) | `"quic"` |
/// | [`rate`](Self::rate) | 1000 Hz |
/// | [`deadline`](Self::deadline) | 200 ms |
/// | [`force_limit`](Self::force_limit) | 5 N |
/// | [`turns`](Self::turns), [`torque_limit`](Self::torque_limit) | no, 0.5 N·m |
/// | [`control`](Self::control) | none: the hand is pushed with what the arm met |
/// | [`resumes_at_start`](Self::resumes_at_start) | no |
#[derive(Default)]
#[must_use = "a builder does nothing before `start` or `build`"]
pub struct OperatorBuilder {
    pub(super) common: Common,
    pub(super) connect: Option<String>,
    pub(super) record: Option<Option<String>>,
    device: Option<Box<dyn OperatorDevice>>,
    rate: Option<u32>,
    deadline: Option<Duration>,
    force_limit: Option<f32>,
    torque_limit: Option<f32>,
    turns: bool,
    control: Option<Control>,
    resumes: bool,
    channels: Vec<Arc<Port>>,
}

/// What an operator is made of.
pub(super) struct Parts {
    pub(super) known: Known,
    pub(super) session: OperatorConfig,
    pub(super) settings: OperatorSettings,
    pub(super) hand: Felt,
    pub(super) told: Arc<Told>,
    #[cfg_attr(not(feature = "sockets"), expect(dead_code, reason = "for a recording"))]
    pub(super) about: About,
}

const DEADLINE: taut_core::Duration = taut_core::Duration::from_millis(200);

impl OperatorBuilder {
    /// Nothing is set yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the robot listens, `HOST:PORT`.
    pub fn connect(mut self, address: impl Into<String>) -> Self {
        self.connect = Some(address.into());
        self
    }

    /// Who this operator is.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.common.identity = Some(identity);
        self
    }

    /// The one robot that it speaks with.
    pub fn trust(mut self, robot: Fingerprint) -> Self {
        self.common.trust(robot);
        self
    }

    /// As [the robot's](crate::RobotBuilder::transport). Default: `"quic"`.
    pub fn transport(mut self, name: impl Into<String>) -> Self {
        self.common.transport = Some(name.into());
        self
    }

    /// An interface, such as `"wwan0"`, or an address from which to connect, instead of wherever the routes lead. Repeatable with `"mtip"` and
    /// `"mpquic"`, which use all of them at once; they may come and go.
    #[cfg(feature = "sockets")]
    pub fn path(mut self, interface: impl Into<String>) -> Self {
        self.common.paths.push(interface.into());
        self
    }

    /// The file in which an emergency stop that was not acknowledged survives this process: it is sent first the next time. Default: it does
    /// not.
    #[cfg(feature = "sockets")]
    pub fn keeps_stops_in(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.common.state = Some(path.into());
        self
    }

    /// Records the session into this file, `….mcap`: states, channels and what happens, as `taut operator --record` does. What is there already
    /// becomes `….N.mcap`; all files of the name take 4 GB, and the oldest is removed for more. No session waits for the disk, and one that takes
    /// no more ends the recording alone. Default: nothing is recorded.
    #[cfg(feature = "recording")]
    pub fn record_to(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.common.recording = Some(path.into());
        self
    }

    /// For a loop of your own: what [`OperatorEvent::Keep`](crate::OperatorEvent::Keep) gave last in the life before this one; `None`: there
    /// was none. From then on each change comes as such an event.
    pub fn record(mut self, last: Option<String>) -> Self {
        self.record = Some(last);
        self
    }

    /// What the hand holds. It is sampled from the first resume on.
    pub fn device(mut self, device: impl OperatorDevice) -> Self {
        self.device = Some(Box::new(device));
        self
    }

    /// How often the device is sampled; 1 to 10 000 Hz. Default: 1000.
    pub fn rate(mut self, hz: u32) -> Self {
        self.rate = Some(hz);
        self
    }

    /// The age at which a state of the device is worthless, wherever it is. Default: 200 ms.
    pub fn deadline(mut self, age: Duration) -> Self {
        self.deadline = Some(age);
        self
    }

    /// The largest force that the hand is given, N: what it and the device bear. Default: 5 N.
    pub fn force_limit(mut self, newtons: f32) -> Self {
        self.force_limit = Some(newtons);
        self
    }

    /// [Angular velocity and torque](crate::State::turning) of the device's states go both ways, as [the robot's](crate::RobotBuilder::turns): where one end says so and the other
    /// does not there is no session, and either is told. Default: no.
    pub fn turns(mut self) -> Self {
        self.turns = true;
        self
    }

    /// The largest torque that the hand is given, N·m: what it and the device bear. Default: 0.5 N·m.
    pub fn torque_limit(mut self, newton_metres: f32) -> Self {
        self.torque_limit = Some(newton_metres);
        self
    }

    /// By which control law the hand is pushed, [the robot's](crate::RobotBuilder::control) too: where the two differ there is no session, and either is told. The
    /// device is pushed anew once a period then, within the [limit](Self::force_limit), and told where the robot is as of the newest that came; what it says has to have its velocity.
    pub fn control(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// Lets the robot move when the session begins, without being asked; once, and never after an emergency stop. Default: only
    /// [`resume`](crate::Operator::resume) does.
    pub fn resumes_at_start(mut self) -> Self {
        self.resumes = true;
        self
    }

    /// Messages to the robot; over a [channel of motion](crate::Channel::motion) they move it.
    pub fn sends<M: Message>(mut self, sender: &Sender<M>) -> Self {
        self.channels.push(Arc::clone(&sender.port));
        self
    }

    /// Messages from the robot.
    pub fn receives<M: Message>(mut self, receiver: &Receiver<M>) -> Self {
        self.channels.push(Arc::clone(&receiver.port));
        self
    }

    /// Checks everything, and puts it together.
    pub(super) fn parts(&mut self) -> Result<Parts, Error> {
        let known = self.common.known()?;
        if known.trust.len() != 1 {
            return Err(Error::invalid("trust", "an operator speaks with one robot: name one fingerprint"));
        }
        let most = |setting: &'static str, value: f32, unit: &str| match value.is_finite() && value >= 0.0 {
            true => Ok(value),
            false => Err(Error::invalid(setting, format!("{value} {unit} is not a finite number from 0 up"))),
        };
        let force = most("force_limit", self.force_limit.unwrap_or(5.0), "N")?;
        let torque = most("torque_limit", self.torque_limit.unwrap_or(0.5), "N·m")?;
        let rate = self.rate.unwrap_or(1_000);
        let period = ours(period(rate)?);
        let settings = OperatorSettings::new(period).reports_by_time(taut_core::Duration::from_millis(100));
        let policy = if self.resumes { ResumePolicy::Start } else { ResumePolicy::Never };
        let session = OperatorConfig::new().rate(rate).feedback_force(force);
        let coupling = coupling(self.control.as_ref(), self.turns, self.device.is_some())?;
        let mut session = session.feedback_torque(torque).turns(self.turns);
        let law = coupling.and_then(|coupling| coupling.told());
        session = session.control_law(law);
        let deadline = self.deadline.map_or(DEADLINE, ours);
        session = session.deadline(deadline);
        let (mut ports, mut channels) = (Ports::default(), Vec::new());
        for port in std::mem::take(&mut self.channels) {
            session = declare(session, &port, Direction::ToRobot, OperatorConfig::channel)?;
            channels.push(port.declared(Direction::ToRobot));
            ports.0.push(Some(port));
        }
        let there = (self.connect.clone().unwrap_or_default(), known.kind.name());
        let told = Arc::new(Told::new(ports, self.record.is_some(), there));
        let settings = settings.resumes(policy);
        let hand = felt(coupling, Hand::new(self.device.take()), period, [force, torque]);
        let (period_ms, deadline_ms) = (period.as_millis_f64(), deadline.as_millis_f64());
        let numbers =
            vec![("period_ms", period_ms), ("rate_hz", f64::from(rate)), ("deadline_ms", deadline_ms)];
        let (transport, turns) = (known.kind.name(), self.turns);
        let about = About { end: "operator", transport, law, turns, numbers, channels };
        Ok(Parts { known, session, settings, hand, told, about })
    }

    pub(super) fn address(&self) -> Result<&str, Error> {
        let how = "say where the robot listens by `connect(\"host:port\")`";
        self.connect.as_deref().ok_or(Error::Missing { what: "the address", how })
    }
}

impl std::fmt::Debug for OperatorBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperatorBuilder").field("common", &self.common).finish_non_exhaustive()
    }
}
