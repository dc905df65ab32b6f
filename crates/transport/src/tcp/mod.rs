//! A model of TCP: what a kernel's TCP does to a bulk flow and to messages, with the knobs that experiments turn.
//!
//! [`Tcp`] is one end of one connection, both directions. Its segments are real: twenty bytes of header, the options
//! that a modern sender uses ([`taut_wire::tcp`]), sequence numbers that wrap. Its bulk data is virtual: zeros that are
//! counted on the wire ([`taut_core::Transmit::padding`]) and stored nowhere.
//!
//! | part | what it decides | source |
//! | --- | --- | --- |
//! | `handshake` | SYN, options, the way to Established | RFC 9293 section 3.5, 7323, 2018 |
//! | `sender` | what may go now; the retransmission timer | RFC 9293 section 3.8, 5681, 3042, 6298 section 5 |
//! | `recovery` | what acknowledgements say about losses | RFC 5681 section 3.2, 6582, 6675 |
//! | `congestion` | the congestion window | RFC 5681 section 3.1, 3465, 9438 |
//! | `flight` | what is under way, in bytes or segments, and since when | RFC 5681 section 2, 8985 section 5 |
//! | `rack` | losses by time, a probe for the tail, a window that falls in proportion | RFC 8985, 6937 |
//! | `sack` | the scoreboard | RFC 6675 section 4 |
//! | `undo` | a recovery that was needless is taken back | RFC 2883, 4015 |
//! | `rto` | the round trip and the timeout | RFC 6298 |
//! | `receiver` | the stream in order; when to acknowledge | RFC 5681 section 4.2, 2018 section 4 |
//! | `queue` | messages before the stream, the urgent first | |
//! | `framing` | messages in the stream | a length of four bytes before each |
//!
//! What is more urgent overtakes what is not in the stream yet and was offered not long before ([`OVERTAKES`]); what is in the
//! stream keeps its order, whatever its `Message::priority`. `Message::reliability` changes nothing. A deadline drops a message until its first byte was sent, never after.
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Time, Transport};
//! use taut_transport::tcp::{Tcp, TcpConfig};
//!
//! let mut client = Tcp::client(TcpConfig::default(), 1);
//! let mut server = Tcp::server(TcpConfig::default(), 2);
//! client.send(Time::ZERO, Message { data: b"stop".to_vec(), ..Message::default() })?;
//!
//! // A network without delay: what one has to say, the other hears.
//! let mut carry = |from: &mut Tcp, to: &mut Tcp| {
//!     let mut buffer = Vec::new();
//!     while let Some(transmit) = from.poll_transmit(Time::ZERO, &mut buffer) {
//!         let (path, ecn) = (PathId(0), Ecn::NotCapable);
//!         to.handle_input(Time::ZERO, Datagram { path, ecn, data: &buffer, padding: transmit.padding });
//!         buffer.clear();
//!     }
//! };
//! for _ in 0..2 {
//!     carry(&mut client, &mut server);
//!     carry(&mut server, &mut client);
//! }
//! assert_eq!(server.poll_event(), Some(Event::Connected));
//! assert!(matches!(server.poll_event(), Some(Event::Received { data, .. }) if data == b"stop"));
//! # Ok::<(), taut_core::SendError>(())
//! ```
//!
//! Not modelled: ECN, PAWS, urgent data, path MTU discovery, HyStart, simultaneous open, TIME-WAIT (the object lives for
//! as long as its owner keeps it and goes on answering).

mod config;
mod congestion;
mod flight;
mod framing;
mod handshake;
pub(crate) mod queue;
mod rack;
mod receiver;
mod recovery;
mod sack;
mod sender;
mod undo;

use std::collections::VecDeque;

use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Event, Message, PathId, Rng, SendError, Time,
    Transmit, Transport, Waiting, earliest, nearest,
};
use taut_wire::tcp::{Flags, Options, Repr, Timestamps};

pub use self::config::{AckCounting, CongestionControl, Counting, FullAck, PartialAck, RtoFloor, TcpConfig};
use self::framing::Source;
pub use self::framing::{Deframer, TooLong};
use self::handshake::{Negotiated, State};
pub use self::queue::OVERTAKES;
use self::receiver::{Ack, Piece, Receiver, Verdict};
use self::recovery::Acknowledgement;
use self::sack::Run;
use self::sender::{Segment, Sender};

/// One end of a TCP connection. See the [module](self).
#[derive(Debug)]
pub struct Tcp {
    config: TcpConfig,
    state: State,
    negotiated: Negotiated,
    sender: Sender,
    receiver: Receiver,
    events: VecDeque<Event>,
    /// A SYN, or the answer to one, is due.
    syn_due: bool,
    /// When the SYN went, while it went once.
    syn_sent: Option<Time>,
    /// A reset is due.
    reset_due: bool,
    /// [`Event::Closed`] was reported.
    closed: bool,
    /// What [`Tcp::trace`] told last.
    told: [u64; 4],
}

/// What an endpoint has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStats {
    /// Segments with data or FIN, retransmissions included.
    pub segments_sent: u64,
    /// Of these, those that were sent before.
    pub retransmitted: u64,
    /// Of the retransmissions, those of a recovery: neither after a timeout nor to probe a tail.
    pub fast_retransmits: u64,
    /// Retransmission timeouts of an established connection.
    pub timeouts: u64,
    /// Times that fast recovery, or recovery with SACK, began.
    pub recoveries: u64,
    /// Acknowledgements without data sent.
    pub acks_sent: u64,
    /// Acknowledgements received that count as duplicates.
    pub duplicate_acks: u64,
    /// Segments whose data had all arrived before.
    pub duplicate_segments: u64,
}

impl Tcp {
    /// The end that opens the connection: its first `poll_transmit` gives a SYN. `initial_sequence` is its ISN; see
    /// [`Tcp::initial_sequence`].
    ///
    /// # Panics
    /// When a value of `config` is out of its range.
    pub fn client(config: TcpConfig, initial_sequence: u32) -> Self {
        Self::new(config, initial_sequence, State::Idle)
    }

    /// The end that waits for a SYN.
    ///
    /// # Panics
    /// When a value of `config` is out of its range.
    pub fn server(config: TcpConfig, initial_sequence: u32) -> Self {
        Self::new(config, initial_sequence, State::Listen)
    }

    /// An initial sequence number from a stream of the run's seed.
    pub fn initial_sequence(rng: &mut Rng) -> u32 {
        (rng.next_u64() >> 32) as u32
    }

    /// This end sends so many bytes of zeros that nobody stores, `None` for no end, and takes no messages.
    #[must_use]
    pub fn bulk(mut self, bytes: Option<u64>) -> Self {
        self.sender.source = Source::Bulk(bytes);
        self
    }

    /// This end counts what arrives ([`Tcp::delivered_bytes`]) instead of cutting it into messages. The peer of
    /// [`Tcp::bulk`] must be one.
    #[must_use]
    pub fn sink(mut self) -> Self {
        self.receiver.sink();
        self
    }

    /// Bytes of the stream that arrived in order, prefixes of messages included.
    pub fn delivered_bytes(&self) -> Bytes {
        Bytes::new(self.receiver.delivered())
    }

    /// The congestion window.
    pub fn congestion_window(&self) -> Bytes {
        Bytes::new(self.sender.congestion.cwnd)
    }

    /// The slow start threshold; `None` before the first loss, unless the configuration says otherwise.
    pub fn slow_start_threshold(&self) -> Option<Bytes> {
        let ssthresh = self.sender.congestion.ssthresh;
        (ssthresh < u64::MAX).then_some(Bytes::new(ssthresh))
    }

    /// Bytes sent and not acknowledged.
    pub fn bytes_in_flight(&self) -> Bytes {
        Bytes::new(self.sender.max - self.sender.una)
    }

    /// What these take of the congestion window: more where that counts segments.
    pub(crate) fn window_taken(&self) -> Bytes {
        Bytes::new(self.sender.flight.weigh(self.sender.una, self.sender.max))
    }

    /// Bytes of messages, prefixes included, that the peer has acknowledged in order.
    pub fn acknowledged_bytes(&self) -> Bytes {
        Bytes::new(self.sender.source.acknowledged())
    }

    /// Bytes of messages, prefixes included, that were offered and not sent for the first time yet.
    pub fn unsent_bytes(&self) -> Bytes {
        Bytes::new(self.sender.source.held().saturating_sub(self.sender.max - self.sender.una))
    }

    /// The window grows only by this share, 0 to 1, of what it would in congestion avoidance (RFC 6356 section 3).
    pub fn couple(&mut self, share: f64) {
        self.sender.congestion.couple(share);
    }

    /// The smoothed round trip (RFC 6298), once there was a measurement.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.sender.rto.smoothed()
    }

    /// How far the round trip varies, RTTVAR of RFC 6298; zero before a measurement.
    pub fn rtt_variation(&self) -> Duration {
        self.sender.rto.variation()
    }

    /// The retransmission timeout, with its backoff.
    pub fn retransmission_timeout(&self) -> Duration {
        self.sender.rto.get()
    }

    /// When the retransmission timer, the probe for a tail or RACK's patience expires next.
    pub(crate) fn retransmission_deadline(&self) -> Option<Time> {
        let rto = self.sender.timer.map(|at| Deadline::new(at, "rto"));
        earliest(rto, self.sender.rack_timer()).map(|deadline| deadline.at)
    }

    /// Retransmission timeouts since something was acknowledged.
    pub fn timeouts_in_a_row(&self) -> u32 {
        self.sender.timeouts_in_a_row
    }

    /// Is a loss being repaired without a timeout?
    pub fn in_recovery(&self) -> bool {
        self.sender.in_recovery()
    }

    /// What this end has done so far.
    pub fn stats(&self) -> TcpStats {
        self.sender.stats
    }

    fn new(config: TcpConfig, initial_sequence: u32, state: State) -> Self {
        config.check();
        // The wire shows the low half. The high half begins at 1, so that nothing is ever below zero.
        let initial = 1 << 32 | u64::from(initial_sequence);
        Self {
            state,
            negotiated: Negotiated::default(),
            sender: Sender::new(&config, initial),
            receiver: Receiver::new(&config),
            events: VecDeque::new(),
            syn_due: false,
            syn_sent: None,
            reset_due: false,
            closed: false,
            told: [0; 4],
            config,
        }
    }

    /// A segment of an established connection (RFC 9293 section 3.10.7.4).
    fn handle_segment(&mut self, now: Time, repr: &Repr, data: &[u8], padding: u32) {
        let seq = widen(repr.sequence, self.receiver.next());
        if repr.flags.contains(Flags::RST) {
            self.handle_reset(seq);
            return;
        }
        if repr.flags.contains(Flags::SYN) || !repr.flags.contains(Flags::ACK) {
            self.receiver.ack = Ack::Now; // A challenge (RFC 5961 section 4).
            return;
        }
        if padding > 0 && !self.receiver.counts_only() {
            self.events.push_back(Event::Refused(DropCause::Malformed));
            return;
        }
        if !self.handle_ack(now, repr, data.is_empty() && padding == 0) {
            self.receiver.ack = Ack::Now;
            self.events.push_back(Event::Refused(DropCause::Malformed));
            return;
        }
        if let (Some(recent), Some(stamps)) = (&mut self.negotiated.recent_stamp, repr.options.timestamps)
            && seq <= self.negotiated.last_ack
            && stamps.value.wrapping_sub(*recent) < 1 << 31
        {
            *recent = stamps.value; // RFC 7323 section 4.3
        }
        let fin = repr.flags.contains(Flags::FIN);
        let piece = Piece { start: seq, data, padding: u64::from(padding), fin };
        match self.receiver.take(now, piece, &mut self.events) {
            Ok(Verdict::Useful) => {}
            Ok(Verdict::Duplicate) => {
                self.sender.stats.duplicate_segments += 1;
                self.events.push_back(Event::Refused(DropCause::Duplicate));
            }
            Ok(Verdict::OutOfWindow) => self.events.push_back(Event::Refused(DropCause::Malformed)),
            Err(_) => self.abort(true),
        }
        if self.receiver.is_finished() {
            self.sender.closing = true;
            if self.sender.is_finished() && !self.closed {
                self.closed = true;
                self.events.push_back(Event::Closed);
            }
        }
    }

    fn handle_ack(&mut self, now: Time, repr: &Repr, no_data: bool) -> bool {
        let una = self.sender.una;
        let clock = stamp(now);
        let rtt = match (self.negotiated.recent_stamp, repr.options.timestamps) {
            (Some(_), Some(Timestamps { echo, .. })) if echo != 0 && clock.wrapping_sub(echo) < 1 << 31 => {
                Some(Duration::from_millis(u64::from(clock.wrapping_sub(echo))))
            }
            _ => None,
        };
        let wide = |block: &taut_wire::tcp::SackBlock| Run {
            start: widen(block.left, una),
            end: widen(block.right, una),
        };
        let ack = Acknowledgement {
            number: widen(repr.acknowledgement, una),
            window: u64::from(repr.window) << self.negotiated.peer_shift,
            bare: no_data && !repr.flags.contains(Flags::FIN),
            rtt,
            blocks: repr.options.sack.as_slice().iter().map(wide),
        };
        self.sender.handle_ack(now, ack)
    }

    /// RFC 5961 section 3: only a reset at exactly the expected number counts; one near it is asked to prove itself.
    fn handle_reset(&mut self, seq: u64) {
        let next = self.receiver.next();
        if seq == next {
            self.abort(false);
        } else if seq > next && seq < next + self.receiver.window() {
            self.receiver.ack = Ack::Now;
        }
    }

    /// Nothing flows any more; what was not acknowledged is reported.
    fn abort(&mut self, tell_peer: bool) {
        self.state = State::Closed;
        self.reset_due = tell_peer;
        self.sender.timer = None;
        self.receiver.timer = None;
        self.sender.source.abandon(&mut self.events);
        if !self.closed {
            self.closed = true;
            self.events.push_back(Event::Closed);
        }
    }

    fn transmit_established(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if !self.receiver.acknowledges_alone()
            && let Some(segment) = self.sender.poll(now, &mut self.events)
        {
            let mut flags = Flags::ACK;
            if segment.push {
                flags = flags | Flags::PSH;
            }
            if segment.fin {
                flags = flags | Flags::FIN;
            }
            return Some(self.emit(now, segment, flags, buffer));
        }
        if self.receiver.ack == Ack::NotNow {
            return None;
        }
        self.sender.stats.acks_sent += 1;
        let bare = Segment { seq: self.sender.max, len: 0, fin: false, push: false };
        Some(self.emit(now, bare, Flags::ACK, buffer))
    }

    /// A segment after the handshake. SACK blocks go without data: there is always room for them, and the size of a
    /// data segment does not depend on what the other direction lost.
    fn emit(&mut self, now: Time, segment: Segment, flags: Flags, buffer: &mut Vec<u8>) -> Transmit {
        let mut options = Options::default();
        if let Some(recent) = self.negotiated.recent_stamp {
            options.timestamps = Some(Timestamps { value: stamp(now), echo: recent });
        }
        if self.negotiated.sack && segment.len == 0 {
            options.sack = self.receiver.sack_blocks();
        }
        let window = self.receiver.window() >> self.negotiated.own_shift;
        self.emit_header(segment.seq, flags, window, options, buffer);
        self.receiver.acknowledged();
        self.negotiated.last_ack = self.receiver.next();
        let padding = if segment.len > 0 { self.sender.write(&segment, buffer) } else { 0 };
        Transmit { padding, ..Transmit::default() }
    }

    fn emit_header(&self, seq: u64, flags: Flags, window: u64, options: Options, buffer: &mut Vec<u8>) {
        let acknowledgement = if flags.contains(Flags::ACK) { self.receiver.next() as u32 } else { 0 };
        let repr = Repr {
            source_port: self.config.local_port,
            destination_port: self.config.remote_port,
            sequence: seq as u32,
            acknowledgement,
            flags,
            window: window.min(u64::from(u16::MAX)) as u16,
            urgent: 0,
            options,
        };
        repr.emit(buffer);
    }

    /// Reports what changed, when somebody wants to know.
    fn trace(&mut self) {
        if !self.config.trace {
            return;
        }
        let congestion = &self.sender.congestion;
        let rtt = self.sender.rto.latest();
        let values = [congestion.cwnd, congestion.ssthresh, u64::from(self.in_recovery()), rtt.as_nanos()];
        if values.iter().zip(&self.told).all(|(value, told)| value == told) {
            return;
        }
        let segments = |bytes: u64| bytes as f64 / self.sender.smss as f64;
        let gauges = [
            ("cwnd_segments", segments(congestion.cwnd)),
            ("ssthresh_segments", segments(congestion.ssthresh)),
            ("in_recovery", f64::from(u8::from(self.in_recovery()))),
            ("rtt_ms", rtt.as_millis_f64()),
        ];
        let changed = values.iter().zip(&self.told).map(|(value, told)| value != told);
        let changed = gauges.into_iter().zip(changed).filter(|(_, changed)| *changed);
        self.events.extend(changed.map(|((name, value), _)| Event::Gauge { name, value }));
        self.told = values;
    }
}

impl Transport for Tcp {
    /// A bulk sender's buffer is always full.
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        if self.state == State::Closed || self.sender.closing {
            return Err(SendError::Closed);
        }
        match &mut self.sender.source {
            Source::Messages(outbox) => outbox.push(now, message, &mut self.events),
            Source::Bulk(_) => Err(SendError::BufferFull(Bytes::ZERO)),
        }
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        let Ok((repr, header_len)) = Repr::parse(input.data) else {
            self.events.push_back(Event::Refused(DropCause::Malformed));
            return;
        };
        if self.handle_handshake(now, &repr) {
            self.handle_segment(now, &repr, &input.data[header_len..], input.padding);
        }
        self.trace();
    }

    fn handle_timeout(&mut self, now: Time) {
        match self.state {
            State::Established => {
                self.sender.handle_rack_timers(now);
                self.sender.handle_timeout(now);
                self.receiver.handle_timeout(now);
            }
            State::SynSent | State::SynReceived => self.handle_handshake_timeout(now),
            State::Idle | State::Listen | State::Closed => return,
        }
        if self.sender.timeouts_in_a_row > self.config.max_timeouts {
            self.abort(false);
        }
        self.trace();
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        match self.state {
            State::Established => self.transmit_established(now, buffer),
            State::Listen => None,
            State::Idle | State::SynSent | State::SynReceived => self.transmit_handshake(now, buffer),
            State::Closed if std::mem::take(&mut self.reset_due) => {
                self.emit_header(self.sender.max, Flags::RST | Flags::ACK, 0, Options::default(), buffer);
                Some(Transmit::default())
            }
            State::Closed => None,
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Ends the connection: FIN follows what was offered. The peer does the same, and both report [`Event::Closed`]
    /// when all of it arrived. A server that nobody came to is closed at once.
    fn close(&mut self, _: Time) {
        self.sender.closing = true;
        if self.state == State::Listen {
            self.abort(false);
        }
    }

    fn round_trip(&self) -> Option<Duration> {
        self.sender.flight.round_trip()
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    fn delivered(&self) -> Option<u64> {
        Some(self.sender.flight.delivered())
    }

    fn waiting(&self) -> Waiting {
        Waiting::irreplaceable(self.sender.source.has_urgent())
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.state == State::Idle {
            return Some(Deadline::new(Time::ZERO, "connect"));
        }
        let rto = self.sender.timer.map(|at| Deadline::new(at, "rto"));
        let rto = earliest(rto, self.sender.rack_timer());
        earliest(rto, self.receiver.timer.map(|at| Deadline::new(at, "delayed ack")))
    }

    taut_core::ignores_paths!();

    fn uses_path(&self, _: PathId) -> bool {
        true
    }
}

/// The sequence number nearest to `near` that looks like this on the wire.
fn widen(wire: u32, near: u64) -> u64 {
    nearest(near, wire, 32).unwrap_or(wire.into())
}

/// Nanoseconds of a tick of the timestamps option's clock.
const TICK: u64 = 1_000_000;

fn tick(at: Time) -> u64 {
    at.as_nanos() / TICK
}

/// Is the time that is echoed, a round trip of so many whole ticks ago, before that one?
fn echoes_before(now: Time, rtt: Duration, then: Time) -> bool {
    tick(now).saturating_sub(rtt.as_nanos() / TICK) < tick(then)
}

/// The clock of the timestamps option, as on the wire.
fn stamp(now: Time) -> u32 {
    tick(now) as u32
}

#[cfg(test)]
mod tests {
    use super::widen;

    #[test]
    fn sequence_numbers_widen_to_the_nearest() {
        let near = (5 << 32) + 10;
        assert_eq!(widen(12, near), (5 << 32) + 12);
        assert_eq!(widen(u32::MAX, near), (5 << 32) - 1);
        assert_eq!(widen(0, (5 << 32) - 1), 5 << 32);
    }
}
