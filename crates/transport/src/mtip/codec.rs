//! The two formats of a packet, seen as one.

use taut_core::{DropCause, Duration, Time, nearest};
use taut_wire::mtip::compatible::{self, Sublink};
use taut_wire::mtip::{self, Echo, Hold, Verdict};

use super::config::Mode;

/// A packet that arrived.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Link { conversation: u64 },
    LinkAck { conversation: u64, times: Option<Times> },
    Ack(Acknowledged),
    KeepAlive { low: u32 },
    Data(Arrived<'a>),
    Fin { conversation: u64 },
    FinAck,
}

impl Incoming<'_> {
    /// It says that a LINKACK arrived, or comes from an end that has one.
    pub(super) fn is_third(&self) -> bool {
        match self {
            Self::Ack(ack) => ack.verdict == Verdict::Control,
            Self::KeepAlive { .. } | Self::Data(_) => true,
            Self::Link { .. } | Self::LinkAck { .. } | Self::Fin { .. } | Self::FinAck => false,
        }
    }
}

/// A copy of a message that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub(super) low: u32,
    pub(super) stream: u16,
    /// It is to be acknowledged on every path.
    pub(super) everywhere: bool,
    /// So long its answer may wait for others.
    pub(super) hold: Hold,
    pub(super) age: Age,
    pub(super) deadline: Option<Duration>,
    pub(super) payload: &'a [u8],
}

/// How old a message is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Age {
    /// By synchronised clocks.
    Known(Duration),
    /// It was so old when the peer's clock read that.
    When(Duration, u64),
}

/// T1, T2, T3 of an exchange of four timestamps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) asked: u64,
    pub(super) arrived: u64,
    pub(super) answered: u64,
}

impl Times {
    /// The answer waited for so long.
    pub(super) fn held(self) -> Duration {
        Duration::from_nanos(self.answered.saturating_sub(self.arrived))
    }
}

/// An acknowledgement. `low` has the low bits of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    pub(super) verdict: Verdict,
    pub(super) low: u32,
    /// It came on another path than the acknowledgement.
    pub(super) elsewhere: bool,
    pub(super) before: u64,
    pub(super) times: Option<Times>,
    /// As the peer measured it, by synchronised clocks.
    pub(super) one_way: Option<Duration>,
}

/// A packet to send.
#[derive(Clone, Debug)]
pub(super) enum Outgoing {
    Link,
    LinkAck(Echo),
    Ack(Answer),
    KeepAlive { number: u64 },
    Fin,
    FinAck,
}

/// What is answered to a copy or a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    pub(super) number: u64,
    pub(super) elsewhere: bool,
    pub(super) before: u64,
    pub(super) echo: Echo,
    pub(super) arrived: Time,
    pub(super) one_way: Duration,
}

impl Answer {
    /// To what is no message.
    pub(super) fn control(now: Time, number: u64, echo: Echo) -> Self {
        let (verdict, one_way) = (Verdict::Control, Duration::ZERO);
        Self { verdict, number, elsewhere: false, before: 0, echo, arrived: now, one_way }
    }
}

/// A copy of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy<'a> {
    pub(super) number: u64,
    pub(super) stream: u16,
    pub(super) everywhere: bool,
    pub(super) hold: Hold,
    pub(super) created: Time,
    pub(super) deadline: Option<Duration>,
    pub(super) payload: &'a [u8],
}

#[derive(Clone, Debug)]
pub(super) struct Codec {
    /// `None`: the improved format. Otherwise what LINK and LINKACK announce.
    published: Option<Vec<u8>>,
    pub(super) conversation: u64,
}

impl Codec {
    pub(super) fn new(mode: &Mode, conversation: u64) -> Self {
        match mode {
            Mode::Improved => Self { published: None, conversation },
            // The published protocol does not name conversations.
            Mode::Compatible(sublinks) => Self { published: Some(Sublink::list(sublinks)), conversation: 0 },
        }
    }

    pub(super) fn is_published(&self) -> bool {
        self.published.is_some()
    }

    /// The number whose low bits these are, nearest to `near`.
    pub(super) fn expand(&self, near: u64, low: u32) -> Option<u64> {
        nearest(near, low, if self.is_published() { 16 } else { 32 })
    }

    /// The sender's clock when it sent the packet, and the packet.
    pub(super) fn parse<'a>(&self, now: Time, bytes: &'a [u8]) -> Result<(u64, Incoming<'a>), DropCause> {
        match self.published {
            Some(_) => parse_published(now, bytes),
            None => parse_improved(bytes),
        }
        .ok_or(DropCause::Malformed)
    }

    pub(super) fn emit(&self, now: Time, packet: &Outgoing, buffer: &mut Vec<u8>) {
        let Some(sublinks) = &self.published else { return self.emit_improved(now, packet, buffer) };
        use compatible::{Body, Repr};
        let clock = now.as_nanos();
        let (sequence, timestamp_ns, body) = match packet {
            Outgoing::Link => (0, clock, Body::Link(sublinks)),
            Outgoing::LinkAck(_) => (0, clock, Body::LinkAck(sublinks)),
            Outgoing::Ack(answer) => {
                (answer.number as u16, answer.one_way.as_nanos(), Body::Ack(answer.verdict))
            }
            Outgoing::KeepAlive { number } => (*number as u16, clock, Body::KeepAlive),
            Outgoing::Fin => (0, clock, Body::Fin),
            Outgoing::FinAck => (0, clock, Body::FinAck),
        };
        Repr { sequence, timestamp_ns, body }.emit(buffer);
    }

    fn emit_improved(&self, now: Time, packet: &Outgoing, buffer: &mut Vec<u8>) {
        let conversation = self.conversation;
        let body = match *packet {
            Outgoing::Link => mtip::Body::Link { conversation },
            Outgoing::LinkAck(echo) => mtip::Body::LinkAck { conversation, echo },
            Outgoing::Ack(Answer { verdict, number, elsewhere, before, echo, arrived, .. }) => {
                let hold_ns = now.saturating_since(arrived).as_nanos().min(u64::from(u32::MAX)) as u32;
                let echo = Echo { hold_ns, ..echo };
                mtip::Body::Ack(mtip::Ack { verdict, number: number as u32, echo, elsewhere, before })
            }
            Outgoing::KeepAlive { number } => mtip::Body::KeepAlive { number: number as u32 },
            Outgoing::Fin => mtip::Body::Fin { conversation },
            Outgoing::FinAck => mtip::Body::FinAck { conversation },
        };
        mtip::Repr { clock_ns: now.as_nanos(), body }.emit(buffer);
    }

    pub(super) fn emit_copy(&self, now: Time, copy: Copy<'_>, buffer: &mut Vec<u8>) {
        if self.published.is_some() {
            let (sequence, timestamp_ns) = (copy.number as u16, copy.created.as_nanos());
            let body = compatible::Body::Data(copy.payload);
            return compatible::Repr { sequence, timestamp_ns, body }.emit(buffer);
        }
        // A deadline of more than an hour is none, as far as 32 bits are concerned.
        let micros =
            |duration: Duration| (duration / Duration::from_micros(1)).min(u64::from(u32::MAX) - 1) as u32;
        let body = mtip::Body::Data {
            stream: copy.stream,
            number: copy.number as u32,
            everywhere: copy.everywhere,
            hold: copy.hold,
            // Rounded up: nothing is to look younger than it is.
            age_us: micros(now.saturating_since(copy.created) + Duration::from_nanos(999)),
            deadline_us: copy.deadline.map(micros),
            payload: copy.payload,
        };
        mtip::Repr { clock_ns: now.as_nanos(), body }.emit(buffer);
    }
}

fn parse_published(now: Time, bytes: &[u8]) -> Option<(u64, Incoming<'_>)> {
    use compatible::{Body, Repr};
    let packet = Repr::parse(bytes).ok()?;
    let (low, time) = (u32::from(packet.sequence), packet.timestamp_ns);
    let incoming = match packet.body {
        Body::Link(_) => Incoming::Link { conversation: 0 },
        Body::LinkAck(_) => Incoming::LinkAck { conversation: 0, times: None },
        Body::Ack(verdict) => {
            // A probe's timestamp is not an age.
            let one_way =
                Some(Duration::from_nanos(time)).filter(|one_way| *one_way < Duration::from_secs(60));
            let (elsewhere, before) = (false, 0);
            Incoming::Ack(Acknowledged { verdict, low, elsewhere, before, times: None, one_way })
        }
        Body::KeepAlive => Incoming::KeepAlive { low },
        Body::Data(payload) => {
            let age = Age::Known(now.saturating_since(Time::from_nanos(time)));
            let (stream, everywhere, hold, deadline) = (0, false, Hold::NONE, None);
            Incoming::Data(Arrived { low, stream, everywhere, hold, age, deadline, payload })
        }
        Body::Fin => Incoming::Fin { conversation: 0 },
        Body::FinAck => Incoming::FinAck,
    };
    Some((time, incoming))
}

fn parse_improved(bytes: &[u8]) -> Option<(u64, Incoming<'_>)> {
    use mtip::Body;
    let mtip::Repr { clock_ns, body } = mtip::Repr::parse(bytes).ok()?;
    let times = |echo: Echo| Times {
        asked: echo.clock_ns,
        arrived: clock_ns.saturating_sub(u64::from(echo.hold_ns)),
        answered: clock_ns,
    };
    let incoming = match body {
        Body::Link { conversation } => Incoming::Link { conversation },
        Body::LinkAck { conversation, echo } => Incoming::LinkAck { conversation, times: Some(times(echo)) },
        Body::Ack(ack) => Incoming::Ack(Acknowledged {
            verdict: ack.verdict,
            low: ack.number,
            elsewhere: ack.elsewhere,
            before: ack.before,
            times: Some(times(ack.echo)),
            one_way: None,
        }),
        Body::KeepAlive { number } => Incoming::KeepAlive { low: number },
        Body::Data { stream, number, everywhere, hold, age_us, deadline_us, payload } => {
            Incoming::Data(Arrived {
                low: number,
                stream,
                everywhere,
                hold,
                age: Age::When(Duration::from_micros(age_us.into()), clock_ns),
                deadline: deadline_us.map(|us| Duration::from_micros(us.into())),
                payload,
            })
        }
        Body::Fin { conversation } => Incoming::Fin { conversation },
        Body::FinAck { .. } => Incoming::FinAck,
    };
    Some((clock_ns, incoming))
}
