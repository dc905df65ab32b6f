//! What the two ends of a probe have in common: devices that do not move and have messages for channels.

use std::net::SocketAddr;

use taut_agent::DeviceMessage;
use taut_core::{Bytes, Duration, Time};
use taut_io::Clock;
use taut_lab::probe::{Arrival, Seen, Trains};
use taut_session::{Channel, ChannelId, ChannelKind, Delivery, Direction, Encoding, Repair, Schema};

use super::receipts;

/// Between two messages: a session's rate.
pub(super) const EVERY: Duration = Duration::from_millis(1);
/// The number of messages that are not measured. A session refuses what has a deadline until its clocks are compared: the measurement begins
/// when the first of these has come back.
pub(super) const WARM_UP: u32 = u32::MAX;
/// Of messages that say that the measurement is over: trains follow, and then the receipts.
pub(super) const OVER: u32 = u32::MAX - 1;
/// Of messages that answer nothing: the robot there has an operator.
pub(super) const BUSY: u32 = u32::MAX - 2;
/// So long what is on its way is waited for; what is older counts as lost.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Between two messages when nothing is measured.
pub(super) const IDLE: Duration = Duration::from_millis(20);
/// Messages of a train, one right behind the other, and how long each is.
pub(super) const TRAIN: usize = 48;
pub(super) const TRAIN_MESSAGE: usize = 1_000;
/// What a message has around it on the wire: the header of the session and that of UDP, that of IP, and what Noise adds where it is sealed.
const HEADERS: usize = 26;
const IPV4: usize = 20;
const IPV6: usize = 40;
const SEALED: usize = 28;
/// In the mean, what says what came: 13 B in a third of the messages, and now and then a datagram of its own.
const ACKNOWLEDGED: usize = 6;
/// Trains each way.
pub(super) const TRAINS: usize = 10;
/// Between two trains the one way, and half of it to one the other way.
pub(super) const TRAIN_EVERY: Duration = Duration::from_millis(400);
/// Who has said nothing for so long has left; a path may stand still for a while.
pub(super) const LEFT: Duration = Duration::from_secs(30);
/// A host that was not at work for so long, though it is asked for messages every period, held up what came meanwhile.
const HELD: Duration = Duration::from_millis(2);
/// Its number is that of the messages' form: ends of different ones do not agree on their channels, and say so.
const SCHEMA: &str = "taut.Probe.3";
pub(super) const THERE: ChannelId = ChannelId(0);
pub(super) const BACK: ChannelId = ChannelId(1);
pub(super) const RECEIVED: ChannelId = ChannelId(2);

/// The channels, at both ends: messages there and back, of which none is repeated, and the receipts of the end
/// that answers, which are, and go when nothing is measured any more.
pub(super) fn declared() -> [Channel; 3] {
    let schema = || Schema::new(SCHEMA, Encoding::Raw);
    let message = |name, direction| {
        // Not the newest alone: what was overtaken arrived all the same.
        Channel::new(name, direction, ChannelKind::Feedback, schema())
            .delivery(Delivery::Deadline)
            .deadline(LINGER)
            .repair(Repair::None)
    };
    [
        message("probe.there", Direction::ToRobot),
        message("probe.back", Direction::ToOperator),
        Channel::new("probe.received", Direction::ToOperator, ChannelKind::Command, schema()),
    ]
}

/// What was seen of both directions.
pub(super) struct BothWays {
    pub(super) there: Seen,
    pub(super) back: Seen,
    pub(super) trains_there: Trains,
    pub(super) trains_back: Trains,
    /// The robot there has an operator, who comes first.
    pub(super) is_busy: bool,
    /// Nothing was heard of the other end for too long.
    pub(super) is_silent: bool,
    /// Of how many messages the other end has told what became of them.
    pub(super) told: usize,
    messages: usize,
}

impl BothWays {
    /// Of so many messages.
    pub(super) fn new(messages: usize, wire: Wire) -> Self {
        let seen = || Seen::new(EVERY, messages);
        let trains = || Trains::new(TRAINS, TRAIN, wire.with(TRAIN_MESSAGE));
        Self {
            there: seen(),
            back: seen(),
            trains_there: trains(),
            trains_back: trains(),
            is_busy: false,
            is_silent: false,
            told: 0,
            messages,
        }
    }

    /// The other end has told what became of all messages.
    pub(super) fn is_told(&self) -> bool {
        self.told >= counted(self.messages)
    }
}

/// All messages that get a receipt.
pub(super) const fn counted(messages: usize) -> usize {
    messages + TRAINS * TRAIN
}

/// What a probe takes beside its measurement of so many messages.
pub(super) fn around(messages: usize) -> Duration {
    LINGER + trains_take() + receipts::take(counted(messages)) + Duration::from_secs(1)
}

/// The trains, and what of them is still on its way.
pub(super) fn trains_take() -> Duration {
    TRAIN_EVERY * TRAINS as u64 + LINGER
}

/// A message of a probe: which probe it is of, its number in that, when it was made by its sender's clock, how many messages are measured, how many receipts
/// its sender has, and zeros.
pub(super) fn message(channel: ChannelId, head: Head, length: usize) -> DeviceMessage {
    let mut payload = Vec::with_capacity(length);
    payload.extend(head.probe.to_le_bytes());
    payload.extend(head.number.to_le_bytes());
    payload.extend(head.sent_ns.to_le_bytes());
    payload.extend(head.messages.to_le_bytes());
    payload.extend(head.told.to_le_bytes());
    payload.resize(length, 0);
    DeviceMessage::Payload { channel, payload }
}

/// A message that is measured: as many bytes as a session's each millisecond, which over a path that carries little more is what makes it late.
pub(super) const MEASURED: usize = 57;
/// One that is not.
pub(super) const LONG: usize = 24;

/// What a path's packets have around a message.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    around: usize,
}

impl Wire {
    /// Of packets to there, sealed or not.
    pub(super) fn to(there: Option<SocketAddr>, sealed: bool) -> Self {
        let is_v6 = there.is_some_and(|there| there.ip().to_canonical().is_ipv6());
        let ip = if is_v6 { IPV6 } else { IPV4 };
        Self { around: HEADERS + ip + if sealed { SEALED } else { 0 } }
    }

    /// What is measured, with all headers.
    pub(super) fn measured(self) -> Bytes {
        self.with(MEASURED + ACKNOWLEDGED)
    }

    fn with(self, length: usize) -> Bytes {
        Bytes::new((length + self.around) as u64)
    }
}

/// What a message of a probe says at its head.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) probe: u32,
    pub(super) number: u32,
    pub(super) sent_ns: u64,
    pub(super) messages: u32,
    pub(super) told: u32,
}

impl Head {
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(payload.get(at..at + 4)?.try_into().ok()?));
        let sent_ns = u64::from_le_bytes(payload.get(8..16)?.try_into().ok()?);
        let [messages, told] = [16, 20].map(|at| word(at).unwrap_or_default());
        Some(Self { probe: word(0)?, number: word(4)?, sent_ns, messages, told })
    }
}

/// One message each period. A host that was held up makes up for little: a burst would be another load than the one that is measured.
pub(super) struct Pace {
    due: Time,
    sent: u32,
}

impl Pace {
    pub(super) fn new(due: Time) -> Self {
        Self { due, sent: 0 }
    }

    /// The next message's number, if it is due.
    pub(super) fn next(&mut self, now: Time, every: Duration) -> Option<u32> {
        if now < self.due {
            return None;
        }
        self.due = (self.due + every).max(now - HELD);
        self.sent = self.sent.checked_add(1)?;
        Some(self.sent - 1)
    }
}

/// The trains of one end.
pub(super) struct Sending {
    begun: Time,
    sent: usize,
}

impl Sending {
    pub(super) fn new(begun: Time) -> Self {
        Self { begun, sent: 0 }
    }

    /// The number of the next message, counted over all trains, if it is due.
    pub(super) fn next(&mut self, now: Time) -> Option<usize> {
        let is_due =
            self.sent < TRAINS * TRAIN && now >= self.begun + TRAIN_EVERY * (self.sent / TRAIN) as u64;
        is_due.then(|| {
            self.sent += 1;
            self.sent - 1
        })
    }
}

/// An end's clock, and whether its host is at work.
pub(super) struct Watch {
    pub(super) clock: Clock,
    pub(super) last: Time,
    /// What comes until then may have waited for the host.
    held_until: Time,
}

impl Watch {
    pub(super) fn new(clock: Clock) -> Self {
        let now = clock.now();
        Self { clock, last: now, held_until: now }
    }

    /// The host is at work.
    pub(super) fn turn(&mut self) -> Time {
        let now = self.clock.now();
        if now.saturating_since(self.last) > HELD {
            self.held_until = now + EVERY;
        }
        self.last = now;
        now
    }

    pub(super) fn arrival(&mut self, sent_ns: u64) -> Arrival {
        let now = self.turn();
        let transit_ns = now.as_nanos().wrapping_sub(sent_ns) as i64;
        Arrival { transit_ns, held: now < self.held_until, overtaken: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_headers_of_its_path_around_it() {
        let to = |address: &str, sealed| Wire::to(Some(address.parse().unwrap()), sealed).measured().get();
        // 57 B of the message and 6 of acknowledgements in the mean; 18 of the session, 8 of UDP, 20 or 40 of IP; 28 of Noise.
        assert_eq!(to("192.0.2.1:1", false), 109);
        assert_eq!(to("192.0.2.1:1", true), 137);
        assert_eq!(to("[2001:db8::1]:1", true), 157);
        assert_eq!(to("[::ffff:192.0.2.1]:1", true), 137, "IPv4, as a socket for both says it");
    }
}
