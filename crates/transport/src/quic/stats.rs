//! What went through a connection, and what was refused.

use std::collections::VecDeque;

use taut_core::{Bitrate, Bytes, DropCause, Duration, Event, Time, Transport};

use super::library::{Connection as _, Library};
use super::{Conversation, LONG_HEADER};

/// What went through a [`Quic`](super::Quic) or [`MpQuic`](super::MpQuic). In messages, where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicStats {
    /// Taken by `send`.
    pub offered: u64,
    /// Given to QUIC.
    pub sent: u64,
    /// Of these, before the handshake was complete.
    pub sent_early: u64,
    /// Copies of what was given to QUIC, the first included: more than that where each path carries one. What QUIC sends again is
    /// not counted.
    pub copies: u64,
    /// Dropped because the queue of samples was full.
    pub superseded: u64,
    /// Dropped because they were older than their deadline when it was their turn.
    pub too_late: u64,
    /// Dropped because the connection ended, or early ones because the server did not take them.
    pub abandoned: u64,
    /// Dropped because QUIC did not take them: the peer accepts no such message.
    pub unsendable: u64,
    /// Received.
    pub received: u64,
    /// Of these, before the handshake was complete.
    pub received_early: u64,
    /// Copies refused because the message was there already.
    pub duplicates: u64,
    /// Datagrams and handshakes of strangers, and packets that failed to authenticate.
    pub refused: u64,
    /// Packets that came a second time.
    pub replayed: u64,
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Packets sent and lost.
    pub packets_lost: u64,
    /// UDP payload sent.
    pub bytes_sent: Bytes,
    /// UDP payload received.
    pub bytes_received: Bytes,
    /// The smoothed round trip; zero while there is no conversation.
    pub rtt: Duration,
    /// What may be under way; zero while there is no conversation.
    pub cwnd: Bytes,
    /// From the first packet to [`Event::Connected`].
    pub handshake: Option<Duration>,
}

/// How often numbers that move are reported at most.
const GAUGE_INTERVAL: Duration = Duration::from_millis(50);
/// How many packets back a replayed one is told from a forged one; both are refused.
const REMEMBERED: usize = 256;

/// What is watched besides messages.
#[derive(Debug)]
pub(super) struct Observed<F> {
    pub(super) handshake: Option<Duration>,
    refused: u64,
    replayed: u64,
    /// The last bytes, which belong to the authentication tag, of the packets that were accepted last.
    accepted: VecDeque<u64>,
    gauged: [f64; 4],
    next_gauge: Time,
    /// Of the conversation.
    pub(super) traffic: Traffic,
    pub(super) counted: Counted<F>,
}

/// Frames received and packets lost in one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted<F> {
    pub(super) frames: F,
    /// ACK frames of these.
    pub(super) acks: u64,
    pub(super) packets_lost: u64,
}

/// UDP payloads of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) datagrams_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
}

impl<F: PartialEq + Default> Observed<F> {
    pub(super) fn new() -> Self {
        Self {
            handshake: None,
            refused: 0,
            replayed: 0,
            accepted: VecDeque::new(),
            gauged: [0.0; 4],
            next_gauge: Time::ZERO,
            traffic: Traffic::default(),
            counted: Counted::default(),
        }
    }

    /// What was counted by now; says whether frames were received since this was called last.
    pub(super) fn count(&mut self, counted: Counted<F>) -> bool {
        let before = std::mem::replace(&mut self.counted, counted);
        before.frames != self.counted.frames
    }

    pub(super) fn refused(&mut self, cause: DropCause) {
        match cause {
            DropCause::Replayed => self.replayed += 1,
            _ => self.refused += 1,
        }
    }

    /// Was the packet of any use? Every packet has a frame, so one that brought none was forged, or seen before.
    pub(super) fn judge(&mut self, counted: Counted<F>, packet: &[u8]) -> Option<DropCause> {
        // Packets of the handshake are sent again as long as their keys may be needed; the keys are gone.
        let handshake = packet.first().is_some_and(|first| first & LONG_HEADER != 0);
        let tag = packet.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if self.count(counted) {
            self.accepted.truncate(REMEMBERED - 1);
            self.accepted.push_front(tag);
            return None;
        }
        let cause =
            if self.accepted.contains(&tag) { DropCause::Replayed } else { DropCause::Unauthenticated };
        (!handshake).then_some(cause)
    }
}

impl<L: Library> Conversation<L> {
    /// What went through it.
    pub fn stats(&self) -> QuicStats {
        let counts = self.carrier.counts;
        let Traffic { datagrams_sent, bytes_sent, bytes_received } = self.observed.traffic;
        let (cwnd, _) = self.open().map_or((0, None), |connection| connection.quic.allowance());
        QuicStats {
            offered: counts.offered,
            sent: counts.sent,
            sent_early: counts.sent_early,
            copies: self.carrier.copies.as_ref().map_or(counts.sent, |copies| copies.sent),
            superseded: counts.superseded,
            too_late: counts.too_late,
            abandoned: counts.abandoned,
            unsendable: counts.unsendable,
            received: counts.received,
            received_early: counts.received_early,
            duplicates: counts.duplicates,
            refused: self.observed.refused,
            replayed: self.observed.replayed,
            packets_sent: datagrams_sent,
            packets_lost: self.observed.counted.packets_lost,
            bytes_sent: Bytes::new(bytes_sent),
            bytes_received: Bytes::new(bytes_received),
            rtt: self.round_trip().unwrap_or_default(),
            cwnd: Bytes::new(cwnd),
            handshake: self.observed.handshake,
        }
    }

    /// Reports numbers that moved: `rtt_ms`, `cwnd_bytes`, `lost_packets`, and `pacing_bps` where there is a rate.
    pub(super) fn gauges(&mut self, now: Time) {
        let Some(connection) = self.open().filter(|_| now >= self.observed.next_gauge) else { return };
        let (cwnd, rate) = connection.quic.allowance();
        let rtt = connection.quic.smoothed_rtt().unwrap_or_default();
        self.observed.next_gauge = now + GAUGE_INTERVAL;
        let values = [
            ("rtt_ms", rtt.as_millis_f64()),
            ("cwnd_bytes", cwnd as f64),
            ("lost_packets", self.observed.counted.packets_lost as f64),
            ("pacing_bps", rate.map_or(0, Bitrate::as_bps) as f64),
        ];
        for ((name, value), last) in values.into_iter().zip(&mut self.observed.gauged) {
            if value.to_bits() != last.to_bits() {
                *last = value;
                self.events.push_back(Event::Gauge { name, value });
            }
        }
    }
}
