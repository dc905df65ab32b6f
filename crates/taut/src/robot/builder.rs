//! How a robot is set.

use std::sync::Arc;
use std::time::Duration;

use taut_agent::Control;
use taut_session::{
    Channel, ChannelId, ChannelKind, Direction, Encoding, LimitPolicy, MotionLimits, RobotConfig, motion,
};

use super::event::Told;
use crate::body::{Body, Moved, Part, Plant, Typed};
use crate::common::{About, Common, Known, declare, period};
use crate::coupled::{Led, coupling, led};
use crate::device::RobotDevice;
use crate::error::Error;
use crate::handle::{Receiver, Sender};
use crate::identity::{Fingerprint, Identity};
use crate::limits::sealed::{Checked, Held};
use crate::message::Message;
use crate::motion::{Motion, State};
use crate::port::{Port, Ports};
use crate::time::ours;

/// Sets a robot; also by `Robot::builder()`.
///
/// | setting | default |
/// | --- | --- |
/// | [`identity`](Self::identity), [`trust`](Self::trust) | none: have to be set |
/// | [`device`](Self::device), [`motion`](Self::motion) | none: one has to be there, each with its limits, or it [moves nothing](Self::moves_nothing) |
/// | [`listen`](Self::listen), and [`keeps_stops_in`](Self::keeps_stops_in) or [`forgets_stops`](Self::forgets_stops) | none: have to be set for [`start`](Self::start) |
/// | [`transport`](Self::transport) | `"quic"` |
/// | [`watchdog`](Self::watchdog) | 100 ms |
/// | [`rate`](Self::rate) | 1000 Hz |
/// | [`hold_to_run`](Self::hold_to_run) | no |
/// | [`turns`](Self::turns) | no |
/// | [`control`](Self::control) | none: the arm follows the hand |
#[derive(Default)]
#[must_use = "a builder does nothing before `start` or `build`"]
pub struct RobotBuilder {
    pub(super) common: Common,
    pub(super) listen: Option<String>,
    pub(super) forgets_stops: bool,
    pub(super) record: Option<Option<String>>,
    watchdog: Option<Duration>,
    rate: Option<u32>,
    hold_to_run: bool,
    turns: bool,
    control: Option<Control>,
    moves_nothing: bool,
    hands: Vec<Limited>,
    channels: Vec<Declared>,
}

/// A device and what it is held to.
struct Limited {
    name: String,
    held: Result<Held, String>,
    device: Arc<dyn Moved>,
}

enum Declared {
    Port(Arc<Port>),
    Motion(Limited, Box<crate::Channel>, Schema),
}

/// What a device of a channel is moved by, and what its numbers mean.
struct Schema {
    schema: motion::Schema,
    definition: String,
}

/// What a robot is made of.
pub(super) struct Parts {
    pub(super) known: Known,
    pub(super) session: RobotConfig,
    pub(super) body: Arc<Body>,
    pub(super) plant: Led,
    pub(super) told: Arc<Told>,
    #[cfg_attr(not(feature = "sockets"), expect(dead_code, reason = "for a recording"))]
    pub(super) about: About,
}

/// The watchdog's time.
const WATCHDOG: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(5);

impl RobotBuilder {
    /// Nothing is set yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who this robot is.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.common.identity = Some(identity);
        self
    }

    /// An operator that may have the robot; one at a time has it. Repeatable.
    pub fn trust(mut self, operator: Fingerprint) -> Self {
        self.common.trust(operator);
        self
    }

    /// Where to listen: `"0.0.0.0:4433"` is port 4433 of every address, and port 0 any that is free.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// `"quic"`, `"udp"`, `"tcp"`, `"sctp"`, `"dccp"`, `"etp"`, `"mtip"` or `"mpquic"`; the operator's has to be the same. All of them are
    /// encrypted and authenticated. Default: `"quic"`.
    pub fn transport(mut self, name: impl Into<String>) -> Self {
        self.common.transport = Some(name.into());
        self
    }

    /// An interface, such as `"wwan0"`, or an address on which to listen, instead of all. Repeatable with `"mtip"` and `"mpquic"`.
    #[cfg(feature = "sockets")]
    pub fn path(mut self, interface: impl Into<String>) -> Self {
        self.common.paths.push(interface.into());
        self
    }

    /// The file in which a latched stop survives this process, made when there is none. A robot that did not end in order starts with a
    /// latched stop, and the operator [resets](crate::Operator::reset) it.
    #[cfg(feature = "sockets")]
    pub fn keeps_stops_in(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.common.state = Some(path.into());
        self
    }

    /// Records the session into this file, `….mcap`: states, channels and what happens, as `taut robot --record` does. What is there already
    /// becomes `….N.mcap`; all files of the name take 4 GB, and the oldest is removed for more. No session waits for the disk, and one that takes
    /// no more ends the recording alone. Default: nothing is recorded.
    #[cfg(feature = "recording")]
    pub fn record_to(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.common.recording = Some(path.into());
        self
    }

    /// A latched stop does not survive this process: for simulations and tests.
    pub fn forgets_stops(mut self) -> Self {
        self.forgets_stops = true;
        self
    }

    /// For a loop of your own: what [`RobotEvent::Keep`](crate::RobotEvent::Keep) gave last in the life before this one; `None`: there was
    /// none. From then on each change comes as such an event.
    pub fn record(mut self, last: Option<String>) -> Self {
        self.record = Some(last);
        self
    }

    /// So long after the last motion that was applied was *made* the robot stops, until the operator resumes; 10 ms to 5 s. What the
    /// motion takes on its way counts. Default: 100 ms. It cannot be switched off.
    pub fn watchdog(mut self, silence: Duration) -> Self {
        self.watchdog = Some(silence);
        self
    }

    /// The robot moves only while the operator's enabling input is held. Default: no.
    pub fn hold_to_run(mut self) -> Self {
        self.hold_to_run = true;
        self
    }

    /// [Angular velocity and torque](State::turning) of the device's states go both ways, and [the operator's](crate::OperatorBuilder::turns) have to: where one end says so and
    /// the other does not there is no session, and either is told. The robot stops ([`TurnedApart`](taut_session::StopCause::TurnedApart)) when the hand is turned by more
    /// than a quarter turn from how the device measures itself. Default: no.
    pub fn turns(mut self) -> Self {
        self.turns = true;
        self
    }

    /// By which control law the [device](Self::device) is led, [the operator's](crate::OperatorBuilder::control) too: where the two differ there is no session, and either is
    /// told. The device is told where to be once a period then, within the same limits, and for no longer than the newest state allows; it has to measure
    /// velocity and force. Nothing else may move by [`motion`](Self::motion): under a law states alone do.
    ///
    /// ```
    /// use taut::{Control, RobotBuilder};
    /// let robot = RobotBuilder::new().control(Control::new("tdpa").servo(1_000.0, 60.0)); // N/m and N·s/m, of the arm's controller
    /// ```
    pub fn control(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// How often devices are measured, and what they measure is fed back; 1 to 10 000 Hz. Default: 1000.
    pub fn rate(mut self, hz: u32) -> Self {
        self.rate = Some(hz);
        self
    }

    /// What the [operator's device](crate::OperatorBuilder::device) moves; what it measures is what the operator feels.
    pub fn device(mut self, limits: crate::StateLimits, device: impl RobotDevice<State>) -> Self {
        let name = "the device".to_owned();
        self.hands.push(Limited { name, held: limits.checked(), device: Typed::new(device) });
        self
    }

    /// What moves by a [channel of motion](crate::Channel::motion) of this name. A robot stops as a whole, all its devices together.
    pub fn motion<M: Motion>(
        self,
        channel: impl Into<String>,
        limits: M::Limits,
        device: impl RobotDevice<M>,
    ) -> Self {
        self.motion_defined(channel, "", limits, device)
    }

    /// The same with a text that says what the numbers mean, such as the names of joints in their order. The operator's sender has a
    /// [`Schema`](crate::Schema) with the same definition; where the texts differ, the channel stays closed.
    pub fn motion_defined<M: Motion>(
        self,
        channel: impl Into<String>,
        definition: impl Into<String>,
        limits: M::Limits,
        device: impl RobotDevice<M>,
    ) -> Self {
        self.motion_over(crate::Channel::motion(channel), definition, limits, device)
    }

    /// The same over this [channel of motion](crate::Channel::motion): of deadlines, rates and sizes the stricter of both ends counts.
    pub fn motion_over<M: Motion>(
        mut self,
        channel: crate::Channel,
        definition: impl Into<String>,
        limits: M::Limits,
        device: impl RobotDevice<M>,
    ) -> Self {
        let schema = motion::Schema::from_name(M::SCHEMA.name()).expect("every motion has one");
        let name = channel.name.clone();
        let limited = Limited { name, held: limits.checked(), device: Typed::new(device) };
        let schema = Schema { schema, definition: definition.into() };
        self.channels.push(Declared::Motion(limited, Box::new(channel), schema));
        self
    }

    /// Nothing is moved by this robot: it sends and receives messages alone. Default: it has a device.
    pub fn moves_nothing(mut self) -> Self {
        self.moves_nothing = true;
        self
    }

    /// Messages to the operator.
    pub fn sends<M: Message>(mut self, sender: &Sender<M>) -> Self {
        self.channels.push(Declared::Port(Arc::clone(&sender.port)));
        self
    }

    /// Messages from the operator. What you do by them is held to no limits and stopped by no watchdog: motion is for
    /// [`motion`](Self::motion).
    pub fn receives<M: Message>(mut self, receiver: &Receiver<M>) -> Self {
        self.channels.push(Declared::Port(Arc::clone(&receiver.port)));
        self
    }

    /// Checks everything, and puts it together.
    pub(super) fn parts(&mut self) -> Result<Parts, Error> {
        let known = self.common.known()?;
        let watchdog = self.watchdog.unwrap_or(Duration::from_millis(100));
        if !WATCHDOG.contains(&watchdog) {
            return Err(Error::invalid("watchdog", format!("{watchdog:?} is not from 10 ms to 5 s")));
        }
        let period = period(self.rate.unwrap_or(1_000))?;
        let mut session =
            RobotConfig::new().watchdog(ours(watchdog)).hold_to_run(self.hold_to_run).turns(self.turns);
        let (mut parts, mut ports, mut channels) = (Vec::new(), Ports::default(), Vec::new());
        let limits = self.hand(&mut parts)?;
        let coupling = coupling(self.control.as_ref(), self.turns, !parts.is_empty())?;
        let law = coupling.and_then(|coupling| coupling.told());
        session = session.limits(limits).control_law(law);
        for declared in std::mem::take(&mut self.channels) {
            match declared {
                Declared::Port(port) => {
                    session = declare(session, &port, Direction::ToOperator, RobotConfig::channel)?;
                    channels.push(port.declared(Direction::ToOperator));
                    ports.0.push(Some(port));
                }
                Declared::Motion(limited, channel, schema) => {
                    if channel.kind != ChannelKind::Motion {
                        let why = format!(
                            "what moves goes over a channel of motion, and `{}` is none",
                            channel.name
                        );
                        return Err(Error::invalid("channel", why));
                    }
                    let (held, mut part) = limited.checked()?;
                    let channel = schema.channel(&channel);
                    channels.push(channel.clone());
                    let declared = session.motion(channel, held.limits);
                    session = declared.map_err(|error| Error::invalid("channel", error))?;
                    part.channel = Some(ChannelId(ports.0.len() as u8));
                    parts.push(part);
                    ports.0.push(None);
                }
            }
        }
        if parts.is_empty() && !self.moves_nothing {
            let how =
                "name what moves, with its limits, by `device(…)` or `motion(…)`, or say `moves_nothing()`";
            return Err(Error::Missing { what: "a device", how });
        }
        if coupling.is_some() && parts.len() > 1 {
            let why = "under a law states alone move a robot: leave out `motion(…)`, or the law";
            return Err(Error::invalid("control", why));
        }
        let body = Body::new(parts);
        let plant = led(coupling, Plant::new(Arc::clone(&body), period), limits, ours(watchdog));
        let names = channels.iter().map(|channel: &Channel| channel.name().to_owned()).collect();
        let numbers = vec![("watchdog_ms", ours(watchdog).as_millis_f64())];
        let (transport, turns) = (known.kind.name(), self.turns);
        let about = About { end: "robot", transport, law, turns, numbers, channels };
        Ok(Parts { known, session, body, plant, told: Arc::new(Told::new(ports, names)), about })
    }

    /// The device that states move, and its limits. Where there is none, no state is taken.
    fn hand(&mut self, parts: &mut Vec<Part>) -> Result<MotionLimits, Error> {
        let mut hands = std::mem::take(&mut self.hands).into_iter();
        let (first, second) = (hands.next(), hands.next());
        if second.is_some() {
            let why = "there is one already; others move by `motion(…)`";
            return Err(Error::invalid("device", why));
        }
        let nowhere = MotionLimits::new().position([0.0; 3], [0.0; 3]).velocity(0.0).force(0.0);
        let Some(first) = first else { return Ok(nowhere.policy(LimitPolicy::Refuse)) };
        let (held, part) = first.checked()?;
        parts.push(part);
        match held.limits {
            motion::Limits::State(limits) => Ok(limits),
            _ => unreachable!("limits of states are those of states"),
        }
    }
}

impl Schema {
    fn channel(&self, channel: &crate::Channel) -> Channel {
        let schema =
            taut_session::Schema::new(self.schema.name(), Encoding::Taut).definition(&*self.definition);
        channel.of(schema, Direction::ToRobot)
    }
}

impl Limited {
    fn checked(self) -> Result<(Held, Part), Error> {
        let Self { name, held, device } = self;
        let refused = |why| Error::Limits { device: name.clone(), why };
        let held = held.map_err(refused)?;
        if let Some(newtons) = held.own_force
            && !device.limit_force(newtons)
        {
            let why = format!(
                "nothing keeps its controller to {newtons} N when a position is out of reach: set StateLimits::stiffness, or \
                 have RobotDevice::limit_force do it"
            );
            return Err(refused(why));
        }
        Ok((held, Part { name, channel: None, device }))
    }
}

impl std::fmt::Debug for RobotBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RobotBuilder").field("common", &self.common).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, Identity, Joints, StopCause};

    struct Arm;

    impl RobotDevice<Joints> for Arm {
        fn apply(&self, _: &Joints, _: Duration) -> Result<(), Failure> {
            Ok(())
        }
        fn measure(&self) -> Option<Joints> {
            None
        }
        fn stop(&self, _: StopCause) {}
    }

    fn over(channel: crate::Channel) -> Result<Channel, Error> {
        let identity = Identity::generate();
        let trusted = identity.fingerprint();
        let builder = RobotBuilder::new().identity(identity).trust(trusted).transport("udp");
        let limits = vec![crate::JointLimits::new().position(-1.0, 1.0).velocity(1.0).effort(1.0)];
        builder
            .motion_over(channel, "elbow", limits, Arm)
            .parts()
            .map(|mut parts| parts.about.channels.remove(0))
    }

    #[test]
    fn what_moves_a_robot_goes_by_the_channel_that_the_robot_declares() {
        let channel = crate::Channel::motion("arm").deadline(Duration::from_millis(80)).rate(100.0);
        let (declared, by_itself) = (over(channel).unwrap(), over(crate::Channel::motion("arm")).unwrap());
        let deadline = ours(Duration::from_millis(80));
        assert_eq!(declared, by_itself.deadline(deadline).rate(100.0));
        let why = over(crate::Channel::telemetry("arm")).unwrap_err().to_string();
        assert!(why.contains("is none"), "{why}");
    }
}
