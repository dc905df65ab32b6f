//! Settings of [`Sctp`](super::Sctp).

use std::time::Duration as StdDuration;

use dcsctp::api::Options;
use taut_core::{Bytes, Duration};

use crate::udp::MAX_DATAGRAM;

/// Ports, verification tag and checksum (RFC 9260 section 3.1).
const COMMON_HEADER: usize = 12;
/// RFC 8260 section 2.1.
const I_DATA_HEADER: usize = 20;

/// How long an acknowledgement waits for a second packet. RFC 9260 section 6.2 says 200 ms; a flow of 1 kHz never waits.
const DELAYED_ACK: Duration = Duration::from_millis(50);
/// RTO.Max of RFC 9260 section 16, which says 60 s: after a gap of the path the association goes on within it. `dcsctp` cuts
/// the timeout itself at it, so it must be longer than any round trip.
const MAX_BACKOFF: Duration = Duration::from_secs(4);
/// Association.Max.Retrans: RFC 9260 section 16 says 10. Reached after about two minutes without an answer.
const MAX_RETRANSMISSIONS: u32 = 30;

/// The longest message, where the send buffer has room for it and 64 B.
const MAX_MESSAGE: Bytes = Bytes::new(262_144);
/// How much may wait for missing parts at the receiver: several of the longest, for `dcsctp` drops what comes when nine tenths are taken.
const RECEIVE_BUFFER: Bytes = Bytes::new(1_048_576);

/// Settings of [`Sctp`](super::Sctp).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SctpConfig {
    local_port: u16,
    remote_port: u16,
    pub(super) packet: u64,
    pub(super) send_buffer: Bytes,
    pub(super) samples: usize,
    pub(super) retransmissions: u16,
    pub(super) copies: u8,
    min_window: u64,
    handshake_timeout: Duration,
    heartbeat: Duration,
    rto_min: Duration,
    interleaving: bool,
}

impl Default for SctpConfig {
    fn default() -> Self {
        Self {
            local_port: 5000,
            remote_port: 5000,
            packet: 1200,
            send_buffer: Bytes::new(262_144),
            samples: 4,
            retransmissions: 3,
            copies: 2,
            min_window: 48_000,
            handshake_timeout: Duration::from_millis(250),
            heartbeat: Duration::from_secs(5),
            rto_min: Duration::from_secs(1),
            interleaving: true,
        }
    }
}

impl SctpConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The SCTP ports, which are not the UDP ports. Default 5000 at both ends.
    pub fn ports(mut self, local: u16, remote: u16) -> Self {
        (self.local_port, self.remote_port) = (local, remote);
        self
    }

    /// The longest SCTP packet, the payload of the UDP datagram. Default 1200 B; from 512 B to 65479 B, rounded down to
    /// a multiple of 4. What passes Ethernet whole when it is sealed has 28 B less than what does otherwise.
    pub fn max_packet(mut self, bytes: Bytes) -> Self {
        self.packet = bytes.get().clamp(512, MAX_DATAGRAM.get()) & !3;
        self
    }

    /// How much may wait to be sent, 64 B counted for every message besides its own. Default 262144 B; at least 4 kB. Messages of
    /// priority 0 may have a tenth more.
    pub fn send_buffer(mut self, bytes: Bytes) -> Self {
        self.send_buffer = bytes.max(Bytes::new(4_000));
        self
    }

    /// How many samples of one stream, series and priority may wait to be sent; the newest do. Default 4, right for a flow of which each
    /// makes those before it worthless; at least 1. What is unreliable and no sample, such as a part of a picture, waits as far as there
    /// is room.
    pub fn samples(mut self, messages: usize) -> Self {
        self.samples = messages.max(1);
        self
    }

    /// How often an unreliable message that was lost is sent again at most (RFC 7496 section 3.1). Default 3.
    ///
    /// Not 0: what is given up leaves a hole, and FORWARD TSN skips one hole each round trip (RFC 3758 section 3.5).
    /// More losses than that, and the association stands still until its timer runs out. A repetition fills its hole
    /// without waiting for the others.
    pub fn retransmissions(mut self, times: u16) -> Self {
        self.retransmissions = times;
        self
    }

    /// How many times a repetition leaves, a few milliseconds apart. Default 2; from 1 to 8. A path that loses a share p
    /// of all packets loses one message and all of its first repetition in p to the power of one more than that: then the
    /// retransmission timer may expire, and the window is one packet. Each costs as many bytes as the path loses.
    pub fn copies(mut self, times: u8) -> Self {
        self.copies = times.clamp(1, 8);
        self
    }

    /// What may be in flight however many packets are lost, until the retransmission timer runs out. Default 48 kB; at
    /// least four packets, which is what RFC 9260 section 7.2.3 says. 1 kHz of 75 B needs 110 B for each
    /// millisecond of round trip, twice that when losses are repaired. It takes this much of a shared link whoever
    /// else is there.
    pub fn min_window(mut self, bytes: Bytes) -> Self {
        self.min_window = bytes.get();
        self
    }

    /// How long INIT and COOKIE ECHO wait for an answer before they are sent again; the wait doubles each time, eight
    /// times at most. Default 250 ms; from 10 ms to 60 s. RFC 9260 section 16 says 1 s.
    pub fn handshake_timeout(mut self, wait: Duration) -> Self {
        self.handshake_timeout = wait.clamp(Duration::from_millis(10), Duration::from_secs(60));
        self
    }

    /// How often an idle path is probed, besides the retransmission timeout. Default 5 s; from 100 ms to 1 h. RFC 9260
    /// section 16 says 30 s.
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.heartbeat = interval.clamp(Duration::from_millis(100), Duration::from_secs(3600));
        self
    }

    /// The shortest retransmission timeout. Default 1 s, which is what RFC 9260 section 16 says; from 50 ms to 4 s, the longest
    /// that it grows to; never less than a round trip and 110 ms.
    ///
    /// When it expires, all that is under way is taken for lost, and the window is one packet. Less makes a path that carries no
    /// acknowledgements for as long, but loses nothing, as radios do, cost states that wait. A lost message with others behind it is
    /// repeated without it, and one that has none is probed for after two round trips and 60 ms.
    pub fn rto_min(mut self, rto: Duration) -> Self {
        self.rto_min = rto.clamp(Duration::from_millis(50), MAX_BACKOFF);
        self
    }

    /// Whether a long message may be interrupted by others (I-DATA, RFC 8260), where the peer can. Default true.
    pub fn interleaving(mut self, on: bool) -> Self {
        self.interleaving = on;
        self
    }

    /// How many messages of that length a packet holds; one at least.
    pub(super) fn per_packet(&self, length: usize) -> usize {
        let room = self.packet as usize - COMMON_HEADER;
        (room / (I_DATA_HEADER + length).next_multiple_of(4)).max(1)
    }

    fn rto_initial(&self) -> Duration {
        self.rto_min.max(Duration::from_millis(500))
    }

    /// How long an acknowledgement may be on its way when the smoothed round trip is `smoothed`: never longer than the
    /// retransmission timeout, which `dcsctp` keeps 110 ms longer than a round trip.
    pub(super) fn patience(&self, smoothed: Duration) -> Duration {
        let patience = |rtt: Duration| rtt + rtt.min(Duration::from_millis(100));
        self.measured(smoothed).map_or(self.rto_initial(), patience)
    }

    /// The smoothed round trip, once it was measured: `dcsctp` begins with the first timeout.
    pub(super) fn measured(&self, smoothed: Duration) -> Option<Duration> {
        Some(smoothed).filter(|smoothed| !smoothed.is_zero() && *smoothed != self.rto_initial())
    }

    pub(super) fn longest(&self) -> Bytes {
        MAX_MESSAGE.min(self.send_buffer.saturating_sub(Bytes::new(crate::message_queue::MessageQueue::COST)))
    }

    pub(super) fn options(&self) -> Options {
        let std = |duration: Duration| StdDuration::from_nanos(duration.as_nanos());
        let min_window = (self.min_window / self.packet).clamp(4, 100_000) as usize;
        let size = |bytes: Bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        Options {
            local_port: self.local_port,
            remote_port: self.remote_port,
            mtu: self.packet as usize,
            max_message_size: size(self.longest()),
            // What waits in front of it, a tenth more of emergencies, what it was given before, and the one message with which that went beyond.
            max_send_buffer_size: size(self.send_buffer).saturating_mul(31) / 10,
            per_stream_send_queue_limit: size(self.send_buffer).saturating_mul(31) / 10,
            max_receiver_window_buffer_size: size(RECEIVE_BUFFER),
            t1_init_timeout: std(self.handshake_timeout),
            t1_cookie_timeout: std(self.handshake_timeout),
            heartbeat_interval: std(self.heartbeat),
            delayed_ack_max_timeout: std(DELAYED_ACK),
            max_timer_backoff_duration: Some(std(MAX_BACKOFF)),
            max_retransmissions: Some(MAX_RETRANSMISSIONS),
            rto_min: std(self.rto_min),
            rto_initial: std(self.rto_initial()),
            cwnd_mtus_min: min_window,
            cwnd_mtus_initial: min_window.max(10),
            enable_message_interleaving: self.interleaving,
            ..Options::default()
        }
    }
}
