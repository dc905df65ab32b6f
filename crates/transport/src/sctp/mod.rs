//! SCTP (RFC 9260) over UDP (RFC 6951): streams that do not wait for each other, each message as reliable as it wants.
//!
//! The protocol is `dcsctp`, a state machine without input or output of its own; here it gets its clock, its randomness,
//! a bounded buffer, and the shape of a [`Transport`]. The payload of a UDP datagram is a whole SCTP packet with its
//! CRC32c; the UDP port is [`UDP_PORT`] unless both ends agree otherwise.
//!
//! | message | sent as |
//! | --- | --- |
//! | [`Reliability::Reliable`] | ordered in its stream, sent again until it arrives |
//! | [`Reliability::Unreliable`] | unordered (U bit), sent again [`SctpConfig::retransmissions`] times at most |
//!
//! The priority is the last byte of the payload protocol identifier. Priority 0 overtakes everything that waits here;
//! once given to SCTP, streams share the path by weight, and where both ends know RFC 8260 a long message does not hold
//! up another stream's.
//!
//! A deadline holds until a message is given to SCTP: what is late by then is dropped and told. After that it is
//! repeated although it is late, for two reasons. What SCTP gives up leaves a hole, and FORWARD TSN (RFC 3758) skips one
//! hole each round trip: 1 kHz over 200 ms stands still at 1 % loss. And `dcsctp` 0.1.16 forgets the rest of a message
//! whose lifetime ends when a part of it was sent, after which its stream waits for ever.
//!
//! Acknowledgements of what is shorter than two full packets wait up to 12 ms for a message to travel with, and the last message before a
//! silence leaves once more when nothing is heard of it. Priority 0 that the window holds up while nothing is heard sends one packet
//! ahead of it, 20 ms apart at least, which skips the unreliable messages under way and is acknowledged at once.
//!
//! `dcsctp` buffers without end. So messages wait in front of it, and it gets the next one when it has sent all of the
//! last; of samples that wait, the newest count.
//!
//! **Not available: multi-homing** (RFC 9260 section 6.4, RFC 5061). No Rust implementation has it: one address pair at
//! a time, no failover, no heartbeats to a second address. The peer may move: answers go to where its last valid
//! packet came from (RFC 6951 section 5.4). Nobody begins anew from another address while the peer was heard within a second. For several
//! paths use MTIP or multipath QUIC.
//!
//! The association's cookie carries no MAC, unlike RFC 9260 section 5.1.3 wants: on a network with strangers, put it
//! inside [`Secured`](crate::security::Secured).
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Seed, StreamId, Time, Transport};
//! use taut_transport::entropy::Entropy;
//! use taut_transport::sctp::{Sctp, SctpConfig};
//!
//! let entropy = |name| Entropy::seeded(Seed::new(1), name);
//! let mut operator = Sctp::client(SctpConfig::new(), entropy("operator"));
//! let mut robot = Sctp::server(SctpConfig::new(), entropy("robot"));
//! let now = Time::ZERO;
//! operator.send(now, Message { data: b"pose".to_vec(), stream: StreamId(2), ..Message::default() })?;
//! operator.handle_timeout(now); // INIT
//! let mut received = Vec::new();
//! for _ in 0..3 {
//!     for turn in 0..2 {
//!         let (from, to) = if turn == 0 { (&mut operator, &mut robot) } else { (&mut robot, &mut operator) };
//!         let mut packet = Vec::new();
//!         while from.poll_transmit(now, &mut packet).is_some() {
//!             to.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &packet, padding: 0 });
//!             packet.clear();
//!         }
//!     }
//!     received.extend(std::iter::from_fn(|| robot.poll_event()));
//! }
//! assert!(received.contains(&Event::Connected));
//! let pose = Event::Received { data: b"pose".to_vec(), path: PathId(0), stream: StreamId(2) };
//! assert!(received.contains(&pose));
//! # Ok::<(), taut_core::SendError>(())
//! ```

mod acks;
mod config;
mod outstanding;
mod packet;
mod repeats;
mod socket;
mod stats;
mod tail;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use dcsctp::api::{ErrorKind, SendOptions, SocketEvent};
use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Ecn, Event, Message, PathId, Priority,
    Reliability, SendError, StreamId, Time, Transmit, Transport, Waiting, earliest,
};

use crate::entropy::Entropy;
use crate::message_queue::MessageQueue;
use crate::peer::SILENCE;
use crate::udp;
use acks::Acks;
pub use config::SctpConfig;
use outstanding::Outstanding;
use repeats::Repeats;
use socket::Association;
pub use stats::SctpStats;
use tail::Tail;

/// The UDP port of SCTP over UDP (RFC 6951 section 5.1, IANA).
pub const UDP_PORT: u16 = 9899;
/// That of an emergency.
const URGENT: Priority = Priority(0);
/// How many emergencies that SCTP has not sent another one does not wait for.
const EMERGENCIES: usize = 16;
/// The payload protocol identifier: "tau" in ASCII, which IANA has given to nobody, and the priority.
const PPID: u32 = u32::from_be_bytes(*b"tau\0");
/// The same, when the message was empty and its one byte stands for none. SCTP carries no empty messages (RFC 9260
/// section 3.3.1).
const PPID_EMPTY: u32 = u32::from_be_bytes(*b"tav\0");

/// Is that the payload protocol identifier of an emergency?
const fn is_urgent(ppid: u32) -> bool {
    ppid & 0xff == URGENT.0 as u32
}

/// One end of an SCTP association. Not [`Send`]: it stays on the thread that made it.
pub struct Sctp {
    config: SctpConfig,
    association: Association,
    repeats: Repeats,
    acks: Acks,
    tail: Tail,
    outstanding: Outstanding,
    phase: Phase,
    waiting: MessageQueue,
    /// What SCTP has and did not finish, by the number that it knows it by.
    handed: BTreeMap<u64, Handed>,
    next_id: u64,
    /// How many of those it has not sent whole, and their bytes.
    unsent: usize,
    unsent_bytes: u64,
    /// How many emergencies are among those, and how many that are as urgent as samples and will not be replaced.
    unsent_urgent: usize,
    unsent_irreplaceable: usize,
    path: PathId,
    /// When the peer was heard last.
    heard: Option<Time>,
    outgoing: VecDeque<(PathId, Vec<u8>)>,
    events: VecDeque<Event>,
    stats: SctpStats,
    gauges: (u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A client that has not begun.
    Idle,
    Connecting,
    Connected,
    Closing,
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct Handed {
    tag: u64,
    stream: StreamId,
    bytes: u64,
    unreliable: bool,
    urgent: bool,
    irreplaceable: bool,
    sent: bool,
}

impl Sctp {
    /// Bytes around a message in a packet of its own: common header 12, DATA chunk 16 (I-DATA 20), padded to 4.
    pub const OVERHEAD: Bytes = Bytes::new(12 + 20);

    /// The end that opens the association, with its first `handle_timeout`.
    pub fn client(config: SctpConfig, entropy: Entropy) -> Self {
        Self::new(config, entropy, Phase::Idle)
    }

    /// The end that waits for it.
    pub fn server(config: SctpConfig, entropy: Entropy) -> Self {
        Self::new(config, entropy, Phase::Connecting)
    }

    fn new(config: SctpConfig, entropy: Entropy, phase: Phase) -> Self {
        Self {
            config,
            association: Association::new(&config.options(), entropy),
            repeats: Repeats::new(config.copies),
            acks: Acks::new(config.packet as usize),
            tail: Tail::default(),
            outstanding: Outstanding::new(config.packet as usize),
            phase,
            waiting: MessageQueue::new(config.send_buffer, config.samples),
            handed: BTreeMap::new(),
            next_id: 1,
            unsent: 0,
            unsent_bytes: 0,
            unsent_urgent: 0,
            unsent_irreplaceable: 0,
            path: PathId(0),
            heard: None,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            stats: SctpStats::default(),
            gauges: (0, 0),
        }
    }

    /// What went through it.
    pub fn stats(&self) -> SctpStats {
        SctpStats { retransmitted_packets: self.repeats.packets, held_back: self.repeats.held, ..self.stats }
    }

    fn dropped(&mut self, tag: u64, cause: DropCause) {
        match cause {
            DropCause::Superseded => self.stats.superseded += 1,
            DropCause::TooLate => self.stats.too_late += 1,
            _ => self.stats.abandoned += 1,
        }
        self.events.push_back(Event::Dropped { tag, cause });
    }

    /// Takes in what the association did, and gives it what may go next.
    fn pump(&mut self, now: Time) {
        self.take_events(now, self.path);
        self.feed(now);
        self.shut_down(now);
        self.outgoing.extend(self.acks.poll(now));
        // What was acknowledged just now is nobody's tail.
        self.observe();
        if self.next_probe().is_some_and(|due| due <= now) {
            self.open_window(now);
        }
        if let Some(packet) = self.tail.poll(now) {
            self.repeats.packets += 1;
            self.outgoing.push_back((self.path, packet));
        }
    }

    /// `dcsctp` takes all for said once nothing is in flight, which what waits for its turn in it is not. It asks for it once; asked again it
    /// does nothing.
    fn shut_down(&mut self, now: Time) {
        if self.phase == Phase::Closing && self.handed.values().all(|handed| handed.unreliable) {
            self.association.shutdown();
            self.take_events(now, self.path);
        }
    }

    fn feed(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Connected | Phase::Closing) {
            return;
        }
        let mut late = Vec::new();
        self.waiting.drop_late(now, |message| late.push(message.tag));
        late.into_iter().for_each(|tag| self.dropped(tag, DropCause::TooLate));
        while let Some(next) = self.waiting.peek() {
            // Without the second, a few long ones would fill SCTP's own buffer, and what it refuses is lost.
            let before_it = if next.priority == URGENT { self.unsent_urgent } else { self.unsent };
            if before_it >= self.turn(next) || self.unsent_bytes >= self.config.send_buffer.get() {
                return;
            }
            let Some(message) = self.waiting.pop() else { return };
            self.hand_over(now, message);
            self.take_events(now, self.path);
        }
    }

    /// Of how many messages that SCTP has not sent this one may be the last.
    fn turn(&self, message: &Message) -> usize {
        match message.reliability {
            _ if message.priority == URGENT => EMERGENCIES,
            Reliability::Unreliable => 1,
            // Nobody supersedes them, and what waits together leaves together: as many as a packet holds.
            Reliability::Reliable => self.config.per_packet(message.data.len()),
        }
    }

    fn hand_over(&mut self, now: Time, message: Message) {
        let (id, tag) = (self.next_id, message.tag);
        self.next_id += 1;
        let unreliable = message.reliability == Reliability::Unreliable;
        let options = SendOptions {
            unordered: unreliable,
            // Not the deadline: see the module's documentation.
            lifetime: None,
            max_retransmissions: unreliable.then(|| self.times_to_ask()),
            lifecycle_id: dcsctp::api::LifecycleId::new(id),
        };
        let (urgent, irreplaceable) = (message.priority == URGENT, message.is_irreplaceable());
        let priority = u32::from(message.priority.0);
        let (ppid, payload) = match message.data {
            data if data.is_empty() => (PPID_EMPTY | priority, vec![0]),
            data => (PPID | priority, data),
        };
        let bytes = payload.len() as u64;
        let stream = message.stream;
        self.handed.insert(id, Handed { tag, stream, bytes, unreliable, urgent, irreplaceable, sent: false });
        self.unsent += 1;
        self.unsent_bytes += bytes;
        self.unsent_urgent += usize::from(urgent);
        self.unsent_irreplaceable += usize::from(irreplaceable);
        self.stats.handed += 1;
        let taken = self.association.send(now, message.stream, message.priority, ppid, payload, &options);
        if !taken {
            // Its own buffer has room for all that waits here and for what it has: only an association that ends refuses.
            self.finished(id);
            self.dropped(tag, DropCause::Abandoned);
        }
    }

    /// The limit of repetitions, as `dcsctp` counts them: one for every three acknowledgements from a repetition to its own,
    /// of which [`Repeats`] holds back all but the last.
    fn times_to_ask(&self) -> u16 {
        let in_flight = self.association.metrics().map_or(0, |metrics| metrics.unack_data_count);
        let each = u16::try_from(1 + in_flight / 3).unwrap_or(u16::MAX);
        // The greatest number means without limit.
        self.config.retransmissions.saturating_mul(each).min(u16::MAX - 1)
    }

    fn finished(&mut self, id: u64) -> Option<Handed> {
        let handed = self.handed.remove(&id)?;
        if !handed.sent {
            self.sent_whole(handed);
        }
        Some(handed)
    }

    fn sent_whole(&mut self, handed: Handed) {
        self.unsent -= 1;
        self.unsent_bytes -= handed.bytes;
        self.unsent_urgent -= usize::from(handed.urgent);
        self.unsent_irreplaceable -= usize::from(handed.irreplaceable);
    }

    /// Another association begins, or this one is over: what it had under way says nothing any more.
    fn forget(&mut self) {
        self.acks.forget();
        self.tail.forget();
        self.outstanding.forget();
    }

    /// Does an emergency wait, or is one under way?
    fn has_urgent(&self) -> bool {
        let waits = self.unsent_urgent > 0 || self.waiting.peek().is_some_and(|next| next.priority == URGENT);
        (waits || self.outstanding.has_urgent()) && self.phase == Phase::Connected
    }

    /// When a packet leaves ahead of the window for an emergency that waits, or is under way and not heard of.
    fn next_probe(&self) -> Option<Time> {
        self.outstanding.due(Duration::from_nanos(self.gauges.0)).filter(|_| self.has_urgent())
    }

    /// When the window holds an emergency up, or one is under way, and nothing is heard, one packet leaves ahead of it that opens it.
    fn open_window(&mut self, now: Time) {
        if !self.has_urgent() {
            return;
        }
        if let Some(packet) = self.outstanding.probe(now, Duration::from_nanos(self.gauges.0)) {
            self.repeats.packets += 1;
            self.outgoing.push_back((self.path, packet));
        }
    }

    /// Has a part of what is reliable been sent? When the peer begins anew `dcsctp` 0.1.16 sends the rest of it with the numbers of before,
    /// and its stream waits for ever.
    fn is_amid_a_message(&self) -> bool {
        let unsent = || self.handed.values().filter(|handed| !handed.sent);
        let whole = |on| unsent().filter(|handed| handed.stream == on).map(|handed| handed.bytes).sum();
        let streams = unsent().filter(|handed| !handed.unreliable).map(|handed| handed.stream);
        streams.into_iter().any(|on| self.association.unsent(on) < whole(on))
    }

    fn given_up(&mut self, handed: Handed) {
        if handed.unreliable {
            self.stats.let_go += 1;
        } else {
            self.dropped(handed.tag, DropCause::Abandoned);
        }
    }

    /// `path` is where packets go that answer what just came.
    fn take_events(&mut self, now: Time, path: PathId) {
        let rtt = Duration::from_nanos(self.gauges.0);
        let patience = self.config.patience(rtt);
        while let Some(event) = self.association.poll_event() {
            match event {
                SocketEvent::SendPacket(packet) => {
                    self.outstanding.sent(now, &packet, is_urgent);
                    let packet = self.repeats.filter(now, patience, packet);
                    let packet = packet.and_then(|packet| self.acks.filter(now, rtt, path, packet));
                    if let Some(packet) = packet {
                        self.tail.sent(now, rtt, &packet);
                        self.outgoing.push_back((path, packet));
                    }
                }
                // `OnConnected` follows. What was under way is forgotten there, and what waits is sent to the new association.
                SocketEvent::OnConnectionRestarted() => {
                    let (lost, kept) =
                        std::mem::take(&mut self.handed).into_iter().partition(|(_, handed)| handed.sent);
                    self.handed = kept;
                    let lost: BTreeMap<u64, Handed> = lost;
                    lost.into_values().for_each(|handed| self.given_up(handed));
                }
                SocketEvent::OnConnected() => {
                    if self.phase != Phase::Closing {
                        self.phase = Phase::Connected;
                    }
                    self.forget();
                    self.events.push_back(Event::Connected);
                }
                SocketEvent::OnClosed() | SocketEvent::OnAborted(..) => self.ended(),
                SocketEvent::OnLifecycleMessageFullySent(id) => {
                    if let Some(handed) = self.handed.get_mut(&id.value()).filter(|handed| !handed.sent) {
                        handed.sent = true;
                        let handed = *handed;
                        self.sent_whole(handed);
                    }
                }
                SocketEvent::OnLifecycleMessageExpired(id) => {
                    if let Some(handed) = self.finished(id.value()) {
                        self.dropped(handed.tag, DropCause::TooLate);
                    }
                }
                SocketEvent::OnLifecycleMessageMaybeExpired(id) => {
                    if let Some(handed) = self.finished(id.value()) {
                        self.given_up(handed);
                    }
                }
                SocketEvent::OnLifecycleEnd(id) => drop(self.finished(id.value())),
                _ => {}
            }
        }
        while let Some(message) = self.association.receive() {
            let data = if message.ppid.0 & !0xff == PPID_EMPTY { Vec::new() } else { message.payload };
            self.stats.received += 1;
            let stream = StreamId(message.stream_id.0);
            self.events.push_back(Event::Received { data, path, stream });
        }
    }

    fn ended(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.forget();
        let handed = std::mem::take(&mut self.handed);
        (self.unsent, self.unsent_bytes, self.unsent_urgent, self.unsent_irreplaceable) = (0, 0, 0, 0);
        for handed in handed.into_values() {
            match handed.sent {
                true => self.given_up(handed),
                false => self.dropped(handed.tag, DropCause::Abandoned),
            }
        }
        self.abandon_waiting();
        self.events.push_back(Event::Closed);
    }

    /// It is over, and the last packet to say so may have been lost: the peer asks until it is answered (RFC 9260 section 8.4).
    fn answer_goodbye(&mut self, path: PathId, packet: &[u8]) {
        if !packet::is_shutdown_ack(packet) {
            return;
        }
        self.association.handle_input(packet);
        while let Some(event) = self.association.poll_event() {
            if let SocketEvent::SendPacket(answer) = event {
                self.outgoing.push_back((path, answer));
            }
        }
    }

    fn abandon_waiting(&mut self) {
        while let Some(message) = self.waiting.pop() {
            self.dropped(message.tag, DropCause::Abandoned);
        }
    }

    fn observe(&mut self) {
        let Some(metrics) = self.association.metrics() else { return };
        if self.outstanding.is_empty() {
            self.tail.acknowledged();
        }
        let (srtt, cwnd) = (metrics.srtt.as_nanos() as u64, metrics.cwnd_bytes as u64);
        if srtt != self.gauges.0 {
            self.events.push_back(Event::Gauge { name: "srtt_ms", value: srtt as f64 / 1e6 });
        }
        if cwnd != self.gauges.1 {
            self.events.push_back(Event::Gauge { name: "cwnd_bytes", value: cwnd as f64 });
        }
        self.gauges = (srtt, cwnd);
    }

    /// A valid packet came from there.
    fn moved_to(&mut self, path: PathId) {
        if path != self.path {
            if self.phase == Phase::Connected {
                self.events.extend([Event::PathUp(path), Event::PathDown(self.path)]);
            }
            self.path = path;
        }
    }

    /// Is it of somebody else, while the peer talks? Anybody may begin an association, and so would take over the one that there is (RFC 9260
    /// section 5.2.4).
    fn is_intruder(&self, now: Time, path: PathId, packet: &[u8]) -> bool {
        let talks = self.heard.is_some_and(|heard| now.saturating_since(heard) <= SILENCE);
        self.phase == Phase::Connected && path != self.path && talks && packet::echoes_cookie(packet)
    }

    /// `dcsctp` obeys all that follows a COOKIE ECHO without a look at the verification tag, though it refused the cookie. So the rest is a
    /// packet of its own.
    fn take_packet(&mut self, now: Time, path: PathId, packet: &[u8]) {
        if self.is_intruder(now, path, packet) {
            return self.refuse(DropCause::Unauthenticated);
        }
        match packet::split_cookie(packet) {
            Some((first, rest)) => {
                self.take_chunks(now, path, &first);
                self.take_chunks(now, path, &rest);
            }
            None => self.take_chunks(now, path, packet),
        }
    }

    fn take_chunks(&mut self, now: Time, path: PathId, packet: &[u8]) {
        let initiates = packet.get(4..8) == Some(&[0; 4]);
        let is_amid = packet::echoes_cookie(packet) && self.is_amid_a_message();
        let complaint = self.association.handle_input(packet);
        let is_torn = is_amid && self.association.began_anew();
        match complaint {
            // An INIT is nobody's proof of anything: its answer goes back, the association stays where it is.
            None if initiates => {}
            None => {
                self.repeats.acknowledged(packet);
                self.outstanding.acknowledged(now, packet);
                self.acks.arrived(packet);
                self.heard = Some(now);
                self.moved_to(path);
            }
            Some(ErrorKind::PeerReported) => {}
            Some(_) => self.refuse(DropCause::Malformed),
        }
        if is_torn {
            self.association.abort();
        }
        self.take_events(now, path);
        if is_torn {
            self.ended();
        }
    }

    fn refuse(&mut self, cause: DropCause) {
        self.stats.refused += 1;
        self.events.push_back(Event::Refused(cause));
    }
}

impl Transport for Sctp {
    /// The stream is the stream of SCTP. [`SendError::BufferFull`] comes only when reliable or more urgent messages fill
    /// the buffer.
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        let (size, limit) = (Bytes::new(message.data.len() as u64), self.config.longest());
        if matches!(self.phase, Phase::Closing | Phase::Closed) {
            return Err(SendError::Closed);
        }
        if size > limit {
            return Err(SendError::TooLarge { size, limit });
        }
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        let urgent = message.priority == URGENT;
        let mut superseded = Vec::new();
        self.waiting.push(message, |message| superseded.push(message.tag))?;
        self.stats.offered += 1;
        superseded.into_iter().for_each(|tag| self.dropped(tag, DropCause::Superseded));
        self.association.advance(now);
        self.pump(now);
        if urgent {
            self.open_window(now);
        }
        Ok(())
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        let whole = (input.padding > 0).then(|| udp::whole(&input, udp::MAX_PAYLOAD).unwrap_or_default());
        let packet = whole.as_deref().unwrap_or(input.data);
        self.association.advance(now);
        if self.phase == Phase::Closed {
            return self.answer_goodbye(input.path, packet);
        }
        // What the clock made leave answers nothing that came from there.
        self.take_events(now, self.path);
        self.take_packet(now, input.path, packet);
        self.pump(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.association.advance(now);
        if self.phase == Phase::Idle {
            self.phase = Phase::Connecting;
            self.association.connect();
        }
        self.pump(now);
    }

    fn poll_transmit(&mut self, _now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let (path, packet) = self.outgoing.pop_front()?;
        if buffer.is_empty() {
            *buffer = packet;
        } else {
            buffer.extend_from_slice(&packet);
        }
        Some(Transmit { path, ecn: Ecn::NotCapable, padding: 0 })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let reason = match self.phase {
            Phase::Idle => return Some(Deadline::new(Time::ZERO, "handshake")),
            Phase::Connecting => "handshake",
            Phase::Connected => "sctp timer",
            Phase::Closing => "shutdown",
            Phase::Closed => return None,
        };
        let timer = self.association.timeout().map(|at| Deadline::new(at, reason));
        let sack = self.acks.poll_timeout().map(|at| Deadline::new(at, "sack"));
        let probe = self.tail.poll_timeout().map(|at| Deadline::new(at, "tail loss probe"));
        let urgent = self.next_probe().map(|at| Deadline::new(at, "emergency"));
        earliest(earliest(timer, urgent), earliest(sack, probe))
    }

    /// Smoothed (RFC 9260 section 6.3.1), over the acknowledgements of what was sent once.
    fn round_trip(&self) -> Option<Duration> {
        self.config.measured(Duration::from_nanos(self.gauges.0))
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    fn delivered(&self) -> Option<u64> {
        Some(self.repeats.delivered())
    }

    fn waiting(&self) -> Waiting {
        Waiting::irreplaceable(self.unsent_irreplaceable > 0 || self.waiting.has_irreplaceable())
    }

    fn abandon(&mut self) {
        self.ended();
    }

    /// Sends what is reliable, and SHUTDOWN once that has arrived; closed when the peer agreed, or after about two minutes without an answer.
    /// A second call sends ABORT, and it is closed at once.
    fn close(&mut self, now: Time) {
        self.association.advance(now);
        match self.phase {
            Phase::Connected => {
                while let Some(message) = self.waiting.pop() {
                    if message.reliability == Reliability::Reliable && !message.is_late(now) {
                        self.hand_over(now, message);
                    } else {
                        self.dropped(message.tag, DropCause::Abandoned);
                    }
                }
                self.phase = Phase::Closing;
                self.pump(now);
            }
            Phase::Closed => {}
            Phase::Idle | Phase::Connecting | Phase::Closing => {
                self.association.abort();
                self.take_events(now, self.path);
                self.ended();
            }
        }
    }

    fn uses_path(&self, path: PathId) -> bool {
        path == self.path
    }

    taut_core::ignores_paths!();
}

impl fmt::Debug for Sctp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sctp").field("phase", &self.phase).field("stats", &self.stats).finish_non_exhaustive()
    }
}
