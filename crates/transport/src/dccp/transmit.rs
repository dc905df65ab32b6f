//! What goes next.

use taut_core::{DropCause, Duration, Ecn, Time, Transmit};
use taut_wire::dccp::{AckVector, DccpOption, Packet, Repr, Seq, feature};

use super::config::PREFIX;
use super::features::Place;
use super::half::{Receiver, Sender};
use super::sent::{Fate, Sent};
use super::{Dccp, Reply, State};

/// The longest time between two attempts of a handshake or a goodbye (RFC 4340 sections 8.1.1 and 8.3).
const MAX_RETRY: Duration = Duration::from_secs(64);
/// The first one (section 8.1.1).
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// Bytes that the options beside a message may need: an Ack Vector or a report of TFRC, and negotiations.
const OPTIONS_ROOM: usize = 320;
/// One packet in so long leaves for an emergency without the profile's leave.
const PROBES_APART: Duration = Duration::from_millis(100);
/// The least time held that an acknowledgement mentions when it need not.
const MENTIONED: Duration = Duration::from_millis(1);

impl Dccp {
    /// The next packet.
    pub(super) fn transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(self.transmit_reply(now, reply, buffer));
        }
        match self.state {
            State::Request => {
                let service = self.config.service;
                self.timers.give_up.get_or_insert(now + self.config.connect_timeout);
                self.is_time_to_retry(now, Some(FIRST_REQUEST))
                    .then(|| self.transmit_control(now, Packet::Request { service }, buffer))
            }
            State::CloseReq => self
                .is_time_to_retry(now, None)
                .then(|| self.transmit_control(now, Packet::CloseReq { ack: self.seq.gsr }, buffer)),
            State::Closing => self
                .is_time_to_retry(now, None)
                .then(|| self.transmit_control(now, Packet::Close { ack: self.seq.gsr }, buffer)),
            State::PartOpen | State::Open => {
                if self.state == State::PartOpen && self.is_time_to_retry(now, None) {
                    self.acks.forced = true;
                }
                self.transmit_data(now, buffer).or_else(|| self.transmit_ack(now, buffer))
            }
            State::Listen | State::Respond | State::TimeWait | State::Closed => None,
        }
    }

    /// Is it time to say it again? Then the interval doubles. `first`: begin with that, when nothing was said yet.
    fn is_time_to_retry(&mut self, now: Time, first: Option<Duration>) -> bool {
        let Some((at, interval)) = self.timers.retry.or(first.map(|first| (now, first))) else {
            return false;
        };
        let due = at <= now;
        if due {
            self.timers.retry = Some((now + interval, interval.saturating_mul(2).min(MAX_RETRY)));
        }
        due
    }

    fn transmit_reply(&mut self, now: Time, reply: Reply, buffer: &mut Vec<u8>) -> Transmit {
        let gsr = self.seq.gsr;
        match reply {
            Reply::Response => {
                let service = self.config.service;
                self.transmit_control(now, Packet::Response { ack: gsr, service }, buffer)
            }
            Reply::Sync(ack) => {
                self.stats.syncs_sent += 1;
                self.transmit_control(now, Packet::Sync { ack }, buffer)
            }
            Reply::SyncAck(ack) => self.transmit_control(now, Packet::SyncAck { ack }, buffer),
            Reply::Reset(code, data) => {
                let packet = Packet::Reset { ack: gsr, code: code as u8, data: [data, 0, 0] };
                self.transmit_control(now, packet, buffer)
            }
            Reply::Stray { code, data, seq, ack, port, path } => {
                let packet = Packet::Reset { ack, code: code as u8, data: [data, 0, 0] };
                Repr { destination_port: port, ..self.header(seq, packet) }.emit(&[], &[], buffer);
                Transmit { path, ..Transmit::default() }
            }
        }
    }

    /// A packet without a message; in the handshake with everything that is to be negotiated.
    fn transmit_control(&mut self, now: Time, packet: Packet, buffer: &mut Vec<u8>) -> Transmit {
        self.options.clear();
        let handshake = matches!(packet, Packet::Request { .. } | Packet::Response { .. });
        if handshake || matches!(packet, Packet::Ack { .. }) {
            let seq = self.seq.gss.next();
            self.features.emit(now, seq, handshake, &mut self.options);
        }
        self.finish(now, packet, 0, None, buffer)
    }

    /// A message, when there is one and the profile allows it.
    fn transmit_data(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let allowed = self.sender.as_ref()?.may_send(now);
        if self.queue.is_empty() || (!allowed && self.next_probe().is_none_or(|due| due > now)) {
            return None;
        }
        let (stats, events) = (&mut self.stats, &mut self.events);
        let message = self.queue.peek(now, |tag| {
            stats.too_late += 1;
            events.push_back(taut_core::Event::Dropped { tag, cause: DropCause::TooLate });
        })?;
        let bytes = PREFIX + message.data.len();
        // Section 8.1.4: the cookie is in every packet; what leaves no room for it waits until the connection is open.
        let echoes = self.state == State::PartOpen && !self.cookie.is_empty();
        let room = OPTIONS_ROOM + if echoes { self.cookie.len() } else { 0 };
        let roomy = bytes + room <= self.config.max_datagram.get() as usize;
        if echoes && !roomy {
            return None;
        }
        let message = self.queue.pop()?;
        self.prefixed.clear();
        self.prefixed.extend_from_slice(&u32::from(message.stream.0).to_le_bytes());
        self.prefixed.extend_from_slice(&message.data);
        let ccval = self.sender.as_mut()?.before_sending(now);
        self.options.clear();
        let acks = echoes || (roomy && self.has_to_tell(now));
        let told = if acks { self.write_ack(now) } else { None };
        let must_ack = self.state == State::PartOpen || acks;
        let packet = if must_ack { Packet::DataAck { ack: self.seq.gsr } } else { Packet::Data };
        if allowed {
            self.sender.as_mut()?.on_sent(now, bytes);
        } else {
            self.sender.as_mut()?.on_probe(now);
            self.acks.probed = Some(now);
        }
        self.acks.sent_data = Some(now);
        self.stats.sent += 1;
        Some(self.finish(now, packet, ccval, told, buffer))
    }

    /// When an emergency that waits leaves ahead of what the profile allows. On a path that carried nothing for long the profile lets the next
    /// packet go 4 s later (CCID 3: s/X, as long again as it was silent), and on one that loses much CCID 3 does so every few seconds. Nothing
    /// is repeated, so each is a newer one.
    pub(super) fn next_probe(&self) -> Option<Time> {
        let again = || self.acks.probed.map_or(Time::ZERO, |probed| probed + PROBES_APART);
        self.queue.has_emergency().then(again)
    }

    /// An acknowledgement by itself, when it is due.
    fn transmit_ack(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if !self.is_ack_due(now) {
            return None;
        }
        self.options.clear();
        let told = self.write_ack(now);
        self.stats.acks_sent += 1;
        Some(self.finish(now, Packet::Ack { ack: self.seq.gsr }, 0, told, buffer))
    }

    /// For so many packets the peer wants an acknowledgement.
    pub(super) fn ack_ratio(&self) -> u64 {
        self.features.get(feature::ACK_RATIO, Place::Remote)
    }

    fn is_ack_due(&self, now: Time) -> bool {
        let due = match &self.receiver {
            Some(Receiver::TcpLike(ack)) => ack.is_due(now, self.ack_ratio()),
            Some(Receiver::Tfrc(receiver)) => receiver.is_due(),
            None => false,
        };
        due || self.acks.forced || self.features.is_due(now)
    }

    /// Is there something to tell that a message can take along?
    fn has_to_tell(&self, now: Time) -> bool {
        let pending = matches!(&self.receiver, Some(Receiver::TcpLike(ack)) if ack.is_pending());
        // RFC 4341 section 3.2, RFC 4342 section 6.3: acknowledge acknowledgements once in a round trip.
        let interval = self.rtt().unwrap_or(Duration::from_millis(100));
        let quiet = self.acks.last.is_none_or(|last| now.saturating_since(last) >= interval);
        pending || (self.acks.unanswered && quiet) || self.is_ack_due(now)
    }

    /// Writes what there is to acknowledge and to negotiate; the end of the Ack Vector, if there is one.
    fn write_ack(&mut self, now: Time) -> Option<Seq> {
        let seq = self.seq.gss.next();
        self.features.emit(now, seq, false, &mut self.options);
        (self.acks.forced, self.acks.unanswered) = (false, false);
        self.acks.last = Some(now);
        if self.state == State::PartOpen && !self.cookie.is_empty() {
            DccpOption::InitCookie(&self.cookie).emit(&mut self.options);
        }
        let received = self.received.as_ref()?;
        let (newest, at) = received.newest();
        let elapsed = now.saturating_since(at);
        if let Some((echo, came)) = self.acks.timestamp.take() {
            let elapsed = (now.saturating_since(came).as_nanos() / 10_000) as u32;
            DccpOption::TimestampEcho { echo, elapsed }.emit(&mut self.options);
        }
        match self.receiver.as_mut()? {
            Receiver::TcpLike(ack) => {
                ack.clear();
                if elapsed >= MENTIONED {
                    let units = u32::try_from(elapsed.as_nanos() / 10_000).unwrap_or(u32::MAX);
                    DccpOption::ElapsedTime(units).emit(&mut self.options);
                }
            }
            Receiver::Tfrc(receiver) => {
                if receiver.is_due() {
                    let rate = self.features.get(feature::SEND_LOSS_EVENT_RATE, Place::Local) == 1;
                    receiver.report(now, elapsed, rate, &mut self.options);
                }
            }
        }
        if self.features.get(feature::SEND_ACK_VECTOR, Place::Local) == 0 {
            return None;
        }
        self.cells.clear();
        received.emit_cells(&mut self.cells);
        let vector = AckVector { nonce: false, cells: &self.cells };
        DccpOption::AckVector(vector).emit(&mut self.options);
        Some(newest)
    }

    fn header(&self, sequence: Seq, packet: Packet) -> Repr {
        Repr {
            source_port: self.config.local_port,
            destination_port: self.remote_port,
            sequence,
            packet,
            ..Repr::default()
        }
    }

    /// Numbers the packet, writes it with `self.options` and, when it carries one, the message, and remembers it.
    fn finish(
        &mut self,
        now: Time,
        packet: Packet,
        ccval: u8,
        told: Option<Seq>,
        buffer: &mut Vec<u8>,
    ) -> Transmit {
        let data = matches!(packet, Packet::Data | Packet::DataAck { .. });
        if self.ndp > 0 && self.features.get(feature::SEND_NDP_COUNT, Place::Local) == 1 {
            DccpOption::NdpCount(self.ndp).emit(&mut self.options);
        }
        self.ndp = if packet.is_data() { 0 } else { self.ndp + 1 };
        let seq = self.seq.advance();
        let header = Repr { ccval, ..self.header(seq, packet) };
        let message: &[u8] = if data { &self.prefixed } else { &[] };
        header.emit(&self.options, message, buffer);
        let unlimited = self.sender.as_ref().and_then(Sender::unlimited);
        let sent = Sent { at: now, data, counter: ccval, unlimited, fate: Fate::Flying, told };
        let forgotten = self.sent.push(sent).is_some_and(|packet| packet.data);
        if let (true, Some(Sender::TcpLike(ccid))) = (forgotten, &mut self.sender) {
            ccid.on_forgotten();
        }
        let capable = self.features.get(feature::ECN_INCAPABLE, Place::Remote) == 0 && self.is_connected();
        let ecn = if capable { Ecn::Capable0 } else { Ecn::NotCapable };
        Transmit { path: self.path, ecn, padding: 0 }
    }
}
