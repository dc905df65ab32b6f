//! What went through a connection, and what was refused.

use std::collections::VecDeque;

use quinn_proto::{ConnectionStats, FrameStats};
use taut_core::{Bytes, DropCause, Duration, Event, Time};

use super::{Quic, State};

/// What went through a [`Quic`]. In messages, where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicStats {
    /// Taken by `send`.
    pub offered: u64,
    /// Given to QUIC.
    pub sent: u64,
    /// Of these, before the handshake was complete.
    pub sent_early: u64,
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
    /// Datagrams and handshakes of strangers, and packets that failed to authenticate.
    pub refused: u64,
    /// Packets that came a second time.
    pub replayed: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets sent and lost.
    pub packets_lost: u64,
    /// UDP payload sent.
    pub bytes_sent: Bytes,
    /// UDP payload received.
    pub bytes_received: Bytes,
    /// The smoothed round trip; zero before it was measured.
    pub rtt: Duration,
    /// What may be under way.
    pub cwnd: Bytes,
    /// From the first packet to [`Event::Connected`].
    pub handshake: Option<Duration>,
}

/// How often numbers that move are reported at most.
const GAUGE_INTERVAL: Duration = Duration::from_millis(50);
/// How many packets back a replayed one is told from a forged one; both are refused.
const REMEMBERED: usize = 256;

/// What is watched besides what quinn counts.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) handshake: Option<Duration>,
    refused: u64,
    replayed: u64,
    /// The last bytes, which belong to the authentication tag, of the packets that were accepted last.
    accepted: VecDeque<u64>,
    gauged: [f64; 4],
    next_gauge: Time,
    /// Of the connection that ended.
    pub(super) last: ConnectionStats,
}

impl Observed {
    pub(super) fn refused(&mut self, cause: DropCause) {
        match cause {
            DropCause::Replayed => self.replayed += 1,
            _ => self.refused += 1,
        }
    }

    /// Was the packet of any use? Every packet has a frame, so one that brought none was forged, or seen before.
    pub(super) fn judge(
        &mut self,
        before: &ConnectionStats,
        after: &ConnectionStats,
        packet: &[u8],
    ) -> Option<DropCause> {
        // Packets of the handshake are sent again as long as their keys may be needed; the keys are gone.
        let handshake = packet.first().is_some_and(|first| first & 0x80 != 0);
        let tag = packet.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if frames(&after.frame_rx) != frames(&before.frame_rx) {
            self.accepted.truncate(REMEMBERED - 1);
            self.accepted.push_front(tag);
            return None;
        }
        let cause =
            if self.accepted.contains(&tag) { DropCause::Replayed } else { DropCause::Unauthenticated };
        (!handshake).then_some(cause)
    }
}

impl Quic {
    /// What went through it.
    pub fn stats(&self) -> QuicStats {
        let counts = self.carrier.counts;
        let quic = self.quic_stats();
        QuicStats {
            offered: counts.offered,
            sent: counts.sent,
            sent_early: counts.sent_early,
            superseded: self.carrier.superseded(),
            too_late: self.carrier.too_late(),
            abandoned: counts.abandoned,
            unsendable: counts.unsendable,
            received: counts.received,
            received_early: counts.received_early,
            refused: self.observed.refused,
            replayed: self.observed.replayed,
            packets_sent: quic.path.sent_packets,
            packets_lost: quic.path.lost_packets,
            bytes_sent: Bytes::new(quic.udp_tx.bytes),
            bytes_received: Bytes::new(quic.udp_rx.bytes),
            rtt: Duration::from_nanos(quic.path.rtt.as_nanos() as u64),
            cwnd: Bytes::new(quic.path.cwnd),
            handshake: self.observed.handshake,
        }
    }

    pub(super) fn quic_stats(&self) -> ConnectionStats {
        let open = self.connections.iter().find(|connection| self.state == State::Open(connection.handle));
        open.map_or(self.observed.last, |connection| connection.quic.stats())
    }

    /// Reports numbers that moved: `rtt_ms`, `cwnd_bytes`, `lost_packets`, and `pacing_bps` where there is a rate.
    pub(super) fn gauges(&mut self, now: Time) {
        let State::Open(handle) = self.state else { return };
        if now < self.observed.next_gauge {
            return;
        }
        let Some(index) = self.index(handle) else { return };
        self.observed.next_gauge = now + GAUGE_INTERVAL;
        let quic = &self.connections[index].quic;
        let stats = quic.stats();
        let pacing = quic.congestion_state().metrics().pacing_rate.unwrap_or(0);
        let values = [
            ("rtt_ms", stats.path.rtt.as_secs_f64() * 1e3),
            ("cwnd_bytes", stats.path.cwnd as f64),
            ("lost_packets", stats.path.lost_packets as f64),
            ("pacing_bps", pacing as f64),
        ];
        for ((name, value), last) in values.into_iter().zip(&mut self.observed.gauged) {
            if value.to_bits() != last.to_bits() {
                *last = value;
                self.events.push_back(Event::Gauge { name, value });
            }
        }
    }
}

fn frames(stats: &FrameStats) -> u64 {
    let FrameStats { acks, ack_frequency, crypto, connection_close, data_blocked, datagram, .. } = *stats;
    let rest = stats.immediate_ack
        + stats.max_data
        + stats.max_stream_data
        + stats.max_streams_bidi
        + stats.max_streams_uni
        + stats.new_connection_id
        + stats.new_token
        + stats.path_challenge
        + stats.path_response
        + stats.ping
        + stats.reset_stream
        + stats.retire_connection_id
        + stats.stream_data_blocked
        + stats.streams_blocked_bidi
        + stats.streams_blocked_uni
        + stats.stop_sending
        + stats.stream;
    acks + ack_frequency
        + crypto
        + connection_close
        + data_blocked
        + datagram
        + rest
        + u64::from(stats.handshake_done)
}
