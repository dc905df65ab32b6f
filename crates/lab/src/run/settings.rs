//! From the scenario's words to the specification of a stack, and to the settings of sessions that run on real sockets too.

use taut_agent::{Coupling, OperatorSettings, ResumePolicy, SampleFrom};
use taut_core::{Bytes, Duration, Medium, PathId, Priority, Seed};
use taut_session::{
    Channel, ChannelKind, Delivery, Direction, Encoding, MotionLimits, OperatorConfig, Packing, Processing,
    RobotConfig, Sampling, Schema,
};
use taut_transport::dccp::{Ccid, DccpConfig};
use taut_transport::etp::{Adaptive, EtpConfig};
use taut_transport::mptcp::MptcpConfig;
use taut_transport::mtip::{self, Mode, MtipConfig, Policy, Target};
use taut_transport::quic::{Congestion, Paced, QuicConfig};
use taut_transport::sctp::SctpConfig;
use taut_transport::stack::{Side, StackSpec};
use taut_transport::tcp::TcpConfig;
use taut_transport::udp::UdpConfig;

use super::still;
use super::transports::{Carries, End, tcp_config};
use crate::lever::LEVER;
use crate::robot::SimulatedRobot;
use crate::scenario::Direction as Way;
use crate::scenario::{
    Commands, DccpSpec, EtpSpec, MpquicSpec, MptcpSpec, MtipMode, MtipPolicy, MtipSpec, QuicCongestion,
    QuicSpec, SctpSpec, Session, TcpSpec, Teleop, TransportSpec,
};

/// What carries a session of operator and robot.
pub fn session(teleop: &Teleop) -> StackSpec {
    stack(
        &teleop.transport,
        Needs { period: Some(period(teleop)), deadline: teleop.deadline, explain: false },
    )
}

/// What carries commands. `explain`: each choice of paths is kept until it is read.
pub fn commands(commands: &Commands, explain: bool) -> StackSpec {
    // There is no stop in such a session that would go ahead of all.
    stack(&commands.transport, Needs { period: None, deadline: Some(commands.deadline), explain })
}

/// What a transport is to know of what it carries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// Of the states of operator and robot, whose emergency stop waits for nothing.
    pub(super) period: Option<Duration>,
    /// The age at which a message is worthless; without it, 200 ms.
    pub(super) deadline: Option<Duration>,
    /// Is each choice of paths to be kept until it is read?
    pub(super) explain: bool,
}

pub(super) fn stack(spec: &TransportSpec, needs: Needs) -> StackSpec {
    match spec {
        TransportSpec::Udp => StackSpec::Udp(UdpConfig::new()),
        TransportSpec::Tcp(tcp) => StackSpec::Tcp(traced(tcp)),
        TransportSpec::Quic(spec) => StackSpec::Quic(quic(spec)),
        TransportSpec::Sctp(spec) => StackSpec::Sctp(sctp(spec)),
        TransportSpec::Dccp(spec) => StackSpec::Dccp(dccp(spec)),
        TransportSpec::Etp(etp) => match &etp.tcp {
            Some(tcp) => StackSpec::SpacedTcp {
                tcp: traced(tcp),
                gap: etp.gap.unwrap_or_default(),
                urgent: urgent(needs.period),
            },
            None => StackSpec::Etp(self::etp(etp, needs.period)),
        },
        TransportSpec::Mtip(spec) => StackSpec::Mtip(mtip_config(spec, needs)),
        TransportSpec::Mptcp(spec) => StackSpec::Mptcp(mptcp_config(spec)),
        TransportSpec::Mpquic(spec) => StackSpec::Mpquic(mpquic_config(spec, needs)),
        TransportSpec::EveryPath => StackSpec::EveryPath(UdpConfig::new()),
    }
}

fn traced(spec: &TcpSpec) -> TcpConfig {
    TcpConfig { trace: true, ..tcp_config(spec) }
}

fn etp(spec: &EtpSpec, period: Option<Duration>) -> EtpConfig {
    let config = match (spec.gap, period) {
        (Some(gap), _) => EtpConfig::fixed(gap),
        (None, Some(period)) => EtpConfig::session(period),
        (None, None) => EtpConfig::adaptive(Adaptive::default()),
    };
    config.pack(spec.pack).urgent(urgent(period))
}

/// Of a session: an emergency stop waits for no gap.
fn urgent(period: Option<Duration>) -> Option<Priority> {
    period.map(|_| Priority(0))
}

/// The period of a session's states: whichever is slower, the device or the session, sets the pace.
pub fn period(teleop: &Teleop) -> Duration {
    teleop.period.max(Duration::from_nanos(1_000_000_000 / u64::from(teleop.rate)))
}

fn quic(spec: &QuicSpec) -> QuicConfig {
    let congestion = match spec.congestion {
        QuicCongestion::Paced => {
            let paced = Paced::new();
            Congestion::Paced(spec.floor.map_or(paced, |floor| paced.floor(floor)))
        }
        QuicCongestion::Cubic => Congestion::Cubic,
        QuicCongestion::Newreno => Congestion::NewReno,
        QuicCongestion::Bbr => Congestion::Bbr,
    };
    QuicConfig::new().congestion(congestion).ack_every(spec.ack_every).ack_delay(spec.ack_delay)
}

fn sctp(spec: &SctpSpec) -> SctpConfig {
    let config = SctpConfig::new().retransmissions(spec.retransmissions).rto_min(spec.rto_min);
    spec.min_window.map_or(config, |bytes| config.min_window(bytes))
}

fn dccp(spec: &DccpSpec) -> DccpConfig {
    let ccid = if spec.ccid == 3 { Ccid::Tfrc } else { Ccid::TcpLike };
    DccpConfig::new().ccids(&[ccid]).expect("one profile")
}

fn mpquic_config(spec: &MpquicSpec, needs: Needs) -> QuicConfig {
    let config = QuicConfig::multipath(spec.paths)
        .path_idle_timeout(spec.path_idle_timeout)
        .keep_alive(spec.keep_alive);
    match needs.period {
        Some(_) => config.emergency(Priority(0)),
        None => config,
    }
}

fn mtip_config(spec: &MtipSpec, needs: Needs) -> MtipConfig {
    let mode = match spec.mode {
        MtipMode::Improved => Mode::Improved,
        // In the simulator there are no addresses to announce.
        MtipMode::Compatible => Mode::Compatible(Vec::new()),
    };
    let policy = match spec.policy {
        MtipPolicy::Deadline => {
            Policy::Deadline(Target { probability: spec.target.as_fraction(), copies: spec.copies })
        }
        MtipPolicy::All => Policy::All,
        MtipPolicy::Adaptive => Policy::Adaptive(mtip::Adaptive {
            duplicate_threshold: spec.duplicate_threshold.as_fraction(),
            late_threshold: spec.late_threshold.as_fraction(),
            window: spec.window as usize,
        }),
        MtipPolicy::Fixed(path) => Policy::Fixed(PathId(path)),
        MtipPolicy::Best(count) => Policy::Best(count),
    };
    let config = MtipConfig::new()
        .mode(mode)
        .clocks(spec.clocks)
        .policy(policy)
        .deadline(spec.deadline.or(needs.deadline).unwrap_or(Duration::from_millis(200)))
        .explain(needs.explain)
        .latency_weight(spec.latency_weight.as_fraction())
        .probe_interval(spec.probe_interval);
    match needs.period {
        Some(_) => config.emergency(Priority(0)),
        None => config,
    }
}

fn mptcp_config(spec: &MptcpSpec) -> MptcpConfig {
    MptcpConfig { subflow: tcp_config(&spec.subflow), scheduler: spec.scheduler, uncoupled: false }
}

/// The operator's session.
pub fn operator(teleop: &Teleop) -> OperatorConfig {
    let config = OperatorConfig::new()
        .codec(teleop.codec)
        .sample_length(teleop.sample_length.get() as usize)
        .rate(teleop.rate)
        .adaptive(teleop.adaptive)
        .queue(teleop.queue)
        .order(teleop.order)
        .reliable(teleop.reliable)
        .window(teleop.window)
        .congestion(teleop.congestion_control)
        .feedback_force(teleop.device_force as f32)
        .feedback_torque((teleop.device_force * LEVER) as f32)
        .turns(teleop.turns);
    let config = match teleop.deadline {
        Some(deadline) => config.deadline(deadline),
        None => config.no_deadline(),
    };
    let config = teleop.channel_rate.into_iter().fold(config, OperatorConfig::channel_rate);
    channels(teleop).fold(config, |config, channel| config.channel(channel).expect(CHECKED))
}

const CHECKED: &str = "a scenario's channels are declared once when it is read";

fn channels(teleop: &Teleop) -> impl Iterator<Item = Channel> {
    teleop.channels.iter().map(|channel| channel.channel.channel().expect(CHECKED))
}

/// The only channel of a session that carries commands.
fn channel(commands: &Commands) -> Channel {
    let schema = Schema::new("command", Encoding::Raw);
    let channel = Channel::new("commands", Direction::ToRobot, ChannelKind::Command, schema);
    channel.delivery(Delivery::Deadline).deadline(commands.deadline).largest(commands.size)
}

/// The session of the end that sends commands.
pub fn commander(commands: &Commands) -> OperatorConfig {
    OperatorConfig::new().channel(channel(commands)).expect("it has a name and a deadline")
}

/// The session of the end that takes them.
pub fn commanded(commands: &Commands) -> RobotConfig {
    RobotConfig::new().channel(channel(commands)).expect("it has a name and a deadline")
}

/// What stands around the session of the end that sends commands.
pub fn commanding(commands: &Commands, drain: Duration) -> OperatorSettings {
    OperatorSettings::new(commands.period).samples_from(SampleFrom::Connected).drains(drain)
}

/// What carries the media of a `[session]`.
pub fn media(session: &Session) -> StackSpec {
    stack(&session.transport, Needs::default())
}

/// One of its ends.
pub(super) fn media_end(side: Side) -> End {
    End { carries: Carries::Session, side, secure: false, life: String::new(), paths: 1 }
}

/// That of one end of a `[session]`.
fn media_packing(session: &Session, direction: Way) -> Packing {
    let Some(stream) = session.stream(direction) else { return Packing::default() };
    stream.packing(added(session)).expect("a scenario's multiplexers are tried when it is read")
}

/// What the transport of a `[session]` adds to each message beside the headers below it.
fn added(session: &Session) -> Bytes {
    let stack = media_end(Side::Opens).stack(media(session), Seed::new(0));
    stack.map_or(Bytes::ZERO, |stack| stack.overhead().saturating_sub(stack.headers()))
}

/// The operator's end of a `[session]`.
pub fn media_operator(session: &Session) -> OperatorConfig {
    let packing = media_packing(session, Way::Forward);
    let config = OperatorConfig::new().window(session.window).clock_interval(MEDIA_INTERVAL).packing(packing);
    media_channels(session).fold(config, |config, channel| config.channel(channel).expect(MEDIA))
}

/// The robot's end of a `[session]`.
pub fn media_robot(session: &Session) -> RobotConfig {
    let config = RobotConfig::new()
        .window(session.window)
        .packing(media_packing(session, Way::Backward))
        .clock_interval(MEDIA_INTERVAL)
        .status_interval(MEDIA_INTERVAL);
    media_channels(session).fold(config, |config, channel| config.channel(channel).expect(MEDIA))
}

const MEDIA: &str = "channels of media differ in name or direction, and have deadlines";
/// Nothing moves in a session of media alone, nothing has a deadline, and a change of the robot's state is told at once. Clocks drift apart by 5 ms
/// at most in this time.
const MEDIA_INTERVAL: Duration = Duration::from_secs(10);
/// Of all media alike: those that are declared first go first, and where a transport makes them wait, samples do not make frames wait
/// for ever.
const MEDIA_PRIORITY: u8 = 1;
/// Of what waits to be sent, a few of the largest are kept.
const LARGEST_FRAME: Bytes = Bytes::new(64_000);

/// A channel for each medium.
fn media_channels(session: &Session) -> impl Iterator<Item = Channel> {
    session.media().map(|(direction, medium)| {
        let stream = session.stream(direction).expect("a medium is of a stream");
        let [audio, video] = still::largest_frames(stream);
        let haptic = stream.haptic.as_ref().map_or(Bytes::ZERO, |haptic| haptic.size);
        let (name, kind, largest) = match (medium, direction) {
            // It moves nothing: it is looked at, as what a robot feels is.
            (Medium::Haptic, Way::Forward) => ("haptic", ChannelKind::Feedback, haptic),
            (Medium::Haptic, Way::Backward) => ("feedback", ChannelKind::Feedback, haptic),
            (Medium::Audio, _) => ("audio", ChannelKind::Audio, audio),
            _ => ("video", ChannelKind::Video, video),
        };
        let sampler = stream.haptic.as_ref().filter(|_| medium == Medium::Haptic);
        let deadband = sampler.and_then(|haptic| super::video::deadband(&haptic.sampler));
        let sampling = deadband.map_or(Sampling::every(), Sampling::deadband);
        let way = match direction {
            Way::Forward => Direction::ToRobot,
            Way::Backward => Direction::ToOperator,
        };
        Channel::new(name, way, kind, Schema::new(medium.name(), Encoding::Raw))
            .delivery(Delivery::Once)
            .no_deadline()
            .priority(MEDIA_PRIORITY)
            .sampler(sampling)
            .largest(largest.max(LARGEST_FRAME))
    })
}

/// What stands around the operator's end of a `[session]`.
pub fn media_agent(session: &Session, drain: Duration) -> OperatorSettings {
    let period = still::period(session.forward.as_ref());
    OperatorSettings::new(period).samples_from(SampleFrom::Connected).drains(drain)
}

/// What stands around the operator's session.
pub fn agent(teleop: &Teleop, drain: Duration) -> OperatorSettings {
    // Also what a robot refuses is to be measured.
    let settings = OperatorSettings::new(teleop.period).samples_from(SampleFrom::Connected).drains(drain);
    match teleop.resume_after {
        Some(after) => settings.resumes(ResumePolicy::Always).resumes_after(after),
        None => settings.resumes(ResumePolicy::Start),
    }
}

/// By the law of a session over the simulated arm's controller, where that is not of the devices themselves.
pub fn coupling(teleop: &Teleop) -> Option<Coupling> {
    let servo = SimulatedRobot::SERVO;
    let coupling = Coupling::new(teleop.coupling()?, servo).playout(teleop.hold());
    Some(if teleop.turns { coupling.turning(servo.of_turns()) } else { coupling })
}

/// The most with which a device pushes the hand, N, and turns it, N·m.
pub fn most(teleop: &Teleop) -> [f64; 2] {
    [teleop.device_force, teleop.device_force * LEVER]
}

/// The robot's session.
pub fn robot(teleop: &Teleop) -> RobotConfig {
    let processing = match teleop.processing {
        None => Processing::Immediate,
        Some(spec) if spec.least == spec.largest => Processing::Fixed(spec.least),
        Some(spec) => Processing::Uniform { least: spec.least, largest: spec.largest },
    };
    let config = RobotConfig::new()
        .codec(teleop.codec)
        .sample_length(teleop.sample_length.get() as usize)
        .watchdog(teleop.watchdog)
        .max_age(teleop.oldest())
        // The scenario's own rate is what is studied.
        .limits(MotionLimits::new().rate(f32::INFINITY))
        .processing(processing)
        .queue(teleop.queue)
        .order(teleop.order)
        .feedback_rate(teleop.feedback.max(1))
        .turns(teleop.turns)
        .window(teleop.window)
        .congestion(teleop.congestion_control);
    let config = teleop.channel_rate.into_iter().fold(config, RobotConfig::channel_rate);
    channels(teleop).fold(config, |config, channel| config.channel(channel).expect(CHECKED))
}
