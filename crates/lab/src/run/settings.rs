//! From the scenario's words to the settings of transports that run on real sockets too.

use taut_agent::{OperatorSettings, ResumePolicy, SampleFrom};
use taut_core::{Duration, Priority};
use taut_session::{Codec, MotionLimits, OperatorConfig, Order, Processing, RobotConfig};
use taut_transport::dccp::{Ccid, DccpConfig};
use taut_transport::etp::{Adaptive, EtpConfig};
use taut_transport::quic::{Congestion, Paced, QuicConfig};
use taut_transport::sctp::SctpConfig;

use crate::scenario::{CodecSpec, DccpSpec, EtpSpec, OrderSpec, QuicCongestion, QuicSpec, SctpSpec, Teleop};

/// ETP's, over UDP; for a session of operator and robot, with the period of its states.
pub fn etp(spec: &EtpSpec, period: Option<Duration>) -> EtpConfig {
    let config = match (spec.gap, period) {
        (Some(gap), _) => EtpConfig::fixed(gap),
        (None, Some(period)) => EtpConfig::session(period),
        (None, None) => EtpConfig::adaptive(Adaptive::default()),
    };
    // An emergency stop waits for no gap.
    config.pack(spec.pack).urgent(period.map(|_| Priority(0)))
}

/// The period of a session's states: whichever is slower, the device or the session, sets the pace.
pub fn period(teleop: &Teleop) -> Duration {
    teleop.period.max(Duration::from_nanos(1_000_000_000 / u64::from(teleop.rate)))
}

/// QUIC's.
pub fn quic(spec: &QuicSpec) -> QuicConfig {
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

/// SCTP's.
pub fn sctp(spec: &SctpSpec) -> SctpConfig {
    let config = SctpConfig::new().retransmissions(spec.retransmissions).rto_min(spec.rto_min);
    spec.min_window.map_or(config, |bytes| config.min_window(bytes))
}

/// DCCP's.
pub fn dccp(spec: &DccpSpec) -> DccpConfig {
    let ccid = if spec.ccid == 3 { Ccid::Tfrc } else { Ccid::TcpLike };
    DccpConfig::new().ccids(&[ccid]).expect("one profile")
}

/// The bytes of a session.
pub fn codec(teleop: &Teleop) -> Codec {
    match teleop.codec {
        CodecSpec::Native => Codec::Native,
        CodecSpec::Omni71 => Codec::Omni71,
    }
}

fn order(teleop: &Teleop) -> Order {
    match teleop.order {
        OrderSpec::Newest => Order::Newest,
        OrderSpec::Fifo => Order::Fifo,
    }
}

/// The operator's session.
pub fn operator(teleop: &Teleop) -> OperatorConfig {
    let config = OperatorConfig::new()
        .codec(codec(teleop))
        .rate(teleop.rate)
        .adaptive(teleop.adaptive)
        .queue(teleop.queue)
        .order(order(teleop))
        .reliable(teleop.reliable)
        .window(teleop.window)
        .feedback_force(teleop.device_force as f32);
    match teleop.deadline {
        Some(deadline) => config.deadline(deadline),
        None => config.no_deadline(),
    }
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

/// The robot's session.
pub fn robot(teleop: &Teleop) -> RobotConfig {
    let processing = match teleop.processing {
        None => Processing::Immediate,
        Some(spec) if spec.least == spec.largest => Processing::Fixed(spec.least),
        Some(spec) => Processing::Uniform { least: spec.least, largest: spec.largest },
    };
    RobotConfig::new()
        .codec(codec(teleop))
        .watchdog(teleop.watchdog)
        .max_age(teleop.oldest())
        // The scenario's own rate is what is studied.
        .limits(MotionLimits::new().rate(f32::INFINITY))
        .processing(processing)
        .queue(teleop.queue)
        .order(order(teleop))
        .feedback_rate(teleop.feedback.max(1))
}
