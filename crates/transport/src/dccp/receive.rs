//! What a packet that arrived does: the steps of RFC 4340 section 8.5.

use taut_core::{Datagram, DropCause, Duration, Ecn, Event, StreamId, Time};
use taut_wire::dccp::{DccpOption, Packet, Repr, ResetCode, Seq, View, feature};

use super::ccid2::{Acked, Ccid2};
use super::ccid3::{Ccid3, Ccid3Receiver, DataPacket};
use super::config::PREFIX;
use super::features::Place;
use super::half::{Came, DelayedAck, Receiver, Sender};
use super::received::{Arrival, Received};
use super::{Ccid, Dccp, Reply, State};
use crate::peer::SILENCE;

/// The least time between two Syncs, and between two answers to packets of no connection (section 7.5.4 asks for a
/// limit): eight in a second.
const SYNC_INTERVAL: Duration = Duration::from_millis(125);
/// The first time between two acknowledgements of a client that does not know yet whether it is connected.
const FIRST_PARTOPEN: Duration = Duration::from_millis(200);

/// What the options of a packet say to the steps after them.
#[derive(Clone, Copy, Debug, Default)]
struct Notes {
    ndp: u64,
    elapsed: Duration,
    told: bool,
}

impl Dccp {
    /// A packet whose header is well-formed (step 1).
    pub(super) fn receive(&mut self, now: Time, input: &Datagram<'_>, view: &View<'_>) {
        let header = view.repr();
        if header.short {
            // Allow Short Seqnos is 0: step 6.
            return self.refuse(DropCause::Malformed);
        }
        let anybody =
            matches!(self.state, State::Listen | State::Respond) || self.is_successor(now, input, &header);
        let foreign = header.destination_port != self.config.local_port
            || (!anybody && header.source_port != self.remote_port);
        if foreign {
            return self.refuse(DropCause::Unauthenticated);
        }
        match self.state {
            State::Listen => self.receive_listening(now, input, view),
            State::Request => self.receive_requesting(now, input, view),
            State::Respond if self.is_new_request(input, &header) => {
                self.listen_again();
                self.receive_listening(now, input, view);
            }
            State::Open if self.is_successor(now, input, &header) => {
                self.abandon_waiting();
                self.listen_again();
                self.receive_listening(now, input, view);
            }
            State::TimeWait | State::Closed => {
                self.answer_stray(now, input, &header, ResetCode::NoConnection);
                self.refuse(DropCause::Unauthenticated);
            }
            _ => self.receive_connected(now, input, view),
        }
    }

    pub(super) fn refuse(&mut self, cause: DropCause) {
        match cause {
            DropCause::Malformed => self.stats.malformed += 1,
            DropCause::Replayed => self.stats.duplicates += 1,
            _ => self.stats.invalid += 1,
        }
        self.events.push_back(Event::Refused(cause));
    }

    /// Until a handshake is complete anybody may begin another one.
    fn is_new_request(&self, input: &Datagram<'_>, header: &Repr) -> bool {
        let other = input.path != self.path || header.source_port != self.remote_port;
        matches!(header.packet, Packet::Request { .. }) && (other || !self.seq.is_valid(header, true))
    }

    /// A client that is killed says no goodbye. Whoever asks from elsewhere, once it has been silent, may have its place.
    fn is_successor(&self, now: Time, input: &Datagram<'_>, header: &Repr) -> bool {
        let asks = matches!(header.packet, Packet::Request { service } if service == self.config.service);
        let other = input.path != self.path || header.source_port != self.remote_port;
        let silent = self.timers.last_valid.is_none_or(|at| now.saturating_since(at) > SILENCE);
        self.server && self.state == State::Open && asks && other && silent
    }

    /// Step 3.
    fn receive_listening(&mut self, now: Time, input: &Datagram<'_>, view: &View<'_>) {
        let header = view.repr();
        let Packet::Request { service } = header.packet else {
            self.answer_stray(now, input, &header, ResetCode::NoConnection);
            return self.refuse(DropCause::Unauthenticated);
        };
        if service != self.config.service {
            self.answer_stray(now, input, &header, ResetCode::BadServiceCode);
            return self.refuse(DropCause::Unauthenticated);
        }
        (self.path, self.remote_port) = (input.path, header.source_port);
        self.state = State::Respond;
        self.timers.give_up = Some(now + self.config.connect_timeout);
        self.meet(now, header.sequence);
        if self.process_options(now, view).is_ok_and(|_| self.state == State::Respond) {
            self.express_wishes();
            self.owe(Reply::Response);
        }
    }

    /// The peer's first packet.
    fn meet(&mut self, now: Time, isr: Seq) {
        self.seq.meet(isr);
        self.received = Some(Received::new(now, self.config.sequence_window / 4, isr));
        self.timers.last_valid = Some(now);
    }

    /// Steps 4, 9 and 10.
    fn receive_requesting(&mut self, now: Time, input: &Datagram<'_>, view: &View<'_>) {
        let header = view.repr();
        let answers = header.packet.ack().is_some_and(|ack| self.seq.is_ack_valid(ack));
        match header.packet {
            Packet::Response { ack, service } if answers => {
                if service != self.config.service {
                    return self.reset(now, ResetCode::BadServiceCode, 0);
                }
                let rtt = self.sent.get(ack).map(|packet| now.saturating_since(packet.at));
                self.path = input.path;
                self.seq.gar = ack;
                self.meet(now, header.sequence);
                if self.process_options(now, view).is_err() {
                    return;
                }
                self.timers.give_up = Some(now + self.config.connect_timeout);
                self.timers.retry = Some((now, FIRST_PARTOPEN));
                self.connect(now, rtt, State::PartOpen);
            }
            Packet::Reset { .. } if answers => self.tear_down(now, State::TimeWait),
            Packet::Reset { .. } => self.refuse(DropCause::Unauthenticated),
            _ => {
                // Section 7.5.4: this cleans up what is left of an earlier connection at the peer.
                self.answer_stray(now, input, &header, ResetCode::PacketError);
                self.refuse(DropCause::Unauthenticated);
            }
        }
    }

    /// Messages may flow: both half-connections begin.
    fn connect(&mut self, now: Time, rtt: Option<Duration>, state: State) {
        let agreed = self.features.ccid(Place::Local).zip(self.features.ccid(Place::Remote));
        let Some((sends, receives)) = agreed else {
            return self.refuse_peer(now, ResetCode::MandatoryError, 0);
        };
        self.express_wishes();
        self.features.fix_ccids();
        let next = self.seq.gss.next();
        self.sender = Some(match sends {
            Ccid::TcpLike => Sender::TcpLike(Box::new(Ccid2::new(&self.config, next, rtt))),
            Ccid::Tfrc => {
                let ccid = Box::new(Ccid3::new(now, self.config.limit(), rtt));
                Sender::Tfrc { ccid, loss: None }
            }
        });
        self.receiver = Some(match receives {
            Ccid::TcpLike => Receiver::TcpLike(DelayedAck::default()),
            Ccid::Tfrc => Receiver::Tfrc(Box::new(Ccid3Receiver::new(self.seq.isr.next(), rtt))),
        });
        self.state = state;
        self.acks.forced = true;
        self.events.push_back(Event::Connected);
    }

    /// Steps 5 to 16.
    fn receive_connected(&mut self, now: Time, input: &Datagram<'_>, view: &View<'_>) {
        let header = view.repr();
        if !self.is_acceptable(now, input, &header) {
            return;
        }
        let advances = header.sequence.is_after(self.seq.gsr);
        let follows = header.sequence == self.seq.gsr.next();
        self.seq.accept(header.sequence);
        let is_sync = matches!(header.packet, Packet::Sync { .. });
        if let Some(ack) = header.packet.ack().filter(|ack| !is_sync && ack.is_after(self.seq.gar)) {
            self.seq.gar = ack;
        }
        let marked = input.ecn == Ecn::CongestionExperienced;
        let received = self.received.as_mut().expect("the peer's first packet was recorded");
        if received.record(now, header.sequence, marked) == Arrival::Seen {
            return self.refuse(DropCause::Replayed);
        }
        if advances {
            self.path = input.path;
        }
        self.timers.last_valid = Some(now);
        self.stats.marked += u64::from(marked);
        // Step 8.
        let Ok(notes) = self.process_options(now, view) else { return };
        if matches!(header.packet, Packet::Reset { .. }) {
            return if self.state == State::Respond {
                self.listen_again()
            } else {
                self.tear_down(now, State::TimeWait)
            };
        }
        if self.state == State::Respond && matches!(header.packet, Packet::Close { .. }) {
            return self.refuse_peer(now, ResetCode::Closed, 0);
        }
        self.process_state(now, &header);
        if !self.is_connected() {
            return;
        }
        self.process_ack(now, view, notes);
        self.process_data(now, input, view, notes, Came { follows, marked });
    }

    /// Steps 5 to 7: the numbers and the type. What does not fit is refused and, on the connection's own path, answered.
    fn is_acceptable(&mut self, now: Time, input: &Datagram<'_>, header: &Repr) -> bool {
        let rtt = self.rtt().unwrap_or(Duration::from_secs(1));
        let active = self.timers.last_valid.is_some_and(|at| now.saturating_since(at) <= rtt * 3);
        let sync = matches!(header.packet, Packet::Sync { .. } | Packet::SyncAck { .. });
        if !self.seq.is_valid(header, active) {
            let old = header.sequence.is_before(self.seq.low());
            if input.path == self.path && !sync {
                let reset = matches!(header.packet, Packet::Reset { .. });
                self.owe_sync(now, if reset { self.seq.gsr } else { header.sequence });
            }
            self.refuse(if old { DropCause::Replayed } else { DropCause::Unauthenticated });
            return false;
        }
        let late = self.seq.osr.is_none_or(|osr| !header.sequence.is_before(osr));
        let open = !matches!(self.state, State::Respond | State::PartOpen);
        let unexpected = match header.packet {
            Packet::CloseReq { .. } => self.server,
            Packet::Response { .. } => self.server || (open && late),
            Packet::Request { .. } => !self.server || (open && late),
            Packet::Data => self.state == State::Respond,
            _ => false,
        };
        if unexpected {
            self.owe_sync(now, header.sequence);
            self.refuse(DropCause::Unauthenticated);
        }
        !unexpected
    }

    fn owe_sync(&mut self, now: Time, ack: Seq) {
        if self.may_answer(now) {
            self.owe(Reply::Sync(ack));
        }
    }

    /// Answers a packet that belongs to no connection here, unless it is a Reset.
    fn answer_stray(&mut self, now: Time, input: &Datagram<'_>, header: &Repr, code: ResetCode) {
        if matches!(header.packet, Packet::Reset { .. }) || !self.may_answer(now) {
            return;
        }
        // Section 8.3.1.
        let seq = header.packet.ack().map_or(Seq::new(0), Seq::next);
        let (ack, port, path) = (header.sequence, header.source_port, input.path);
        self.owe(Reply::Stray { code, data: 0, seq, ack, port, path });
    }

    fn may_answer(&mut self, now: Time) -> bool {
        let may = self.timers.last_sync.is_none_or(|last| now.saturating_since(last) >= SYNC_INTERVAL);
        if may {
            self.timers.last_sync = Some(now);
        }
        may
    }

    /// Step 8. An option that cannot be followed and must be ends the connection.
    fn process_options(&mut self, now: Time, view: &View<'_>) -> Result<Notes, ()> {
        let header = view.repr();
        let mut notes = Notes::default();
        let mut mandatory = false;
        for option in view.options() {
            let must = std::mem::replace(&mut mandatory, false);
            if let DccpOption::Mandatory = option {
                // Table 3 of section 5.8: not in Data packets.
                mandatory = header.packet != Packet::Data;
                if !must {
                    continue;
                }
            }
            if let Err((code, data)) = self.process_option(now, &header, option, must, &mut notes) {
                self.refuse_peer(now, code, data);
                return Err(());
            }
        }
        self.apply_features();
        Ok(notes)
    }

    /// `must`: it is mandatory. An error is the Reset that it makes necessary, with its first byte of data.
    fn process_option(
        &mut self,
        now: Time,
        header: &Repr,
        option: DccpOption<'_>,
        must: bool,
        notes: &mut Notes,
    ) -> Result<(), (ResetCode, u8)> {
        match option {
            // Table 3 of section 5.8: not in Data packets.
            DccpOption::Feature { .. } | DccpOption::ElapsedTime(_) if header.packet == Packet::Data => {}
            DccpOption::Feature { negotiation, feature, value } => {
                let option = (negotiation, feature, value);
                let done = self.features.handle(header.sequence, header.packet.ack(), option, must);
                return done.map_err(|code| (code, feature));
            }
            DccpOption::NdpCount(count) => notes.ndp = count,
            // That of a Timestamp Echo counts from another packet (section 13.3).
            DccpOption::ElapsedTime(elapsed) => {
                notes.elapsed = Duration::from_micros(u64::from(elapsed) * 10);
            }
            DccpOption::Timestamp(clock) => self.acks.timestamp = Some((clock, now)),
            DccpOption::AckVector(_) | DccpOption::LossIntervals(_) => notes.told = true,
            DccpOption::SlowReceiver => {
                self.sender.iter_mut().for_each(|sender| sender.on_slow_receiver(now))
            }
            DccpOption::DataDropped(blocks) => {
                // Blocks with the high bit are drops: a code in 3 bits, a count less one in 4 (section 11.7).
                let drops = blocks.iter().filter(|block| **block & 0x80 != 0);
                self.stats.data_dropped += drops.map(|block| u64::from(block & 0x0f) + 1).sum::<u64>();
            }
            DccpOption::InitCookie(cookie)
                if matches!(self.state, State::Request | State::PartOpen)
                    && matches!(header.packet, Packet::Response { .. }) =>
            {
                self.cookie = cookie.to_vec();
            }
            DccpOption::Mandatory => return Err((ResetCode::MandatoryError, 1)),
            DccpOption::Unknown { kind, .. } | DccpOption::Invalid { kind, .. } if must => {
                return Err((ResetCode::MandatoryError, kind));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes over what was agreed.
    fn apply_features(&mut self) {
        self.seq.peer_window = self.features.get(feature::SEQUENCE_WINDOW, Place::Remote);
        self.seq.own_window = self.features.get(feature::SEQUENCE_WINDOW, Place::Local);
    }

    /// Steps 11 to 15.
    fn process_state(&mut self, now: Time, header: &Repr) {
        match (self.state, header.packet) {
            (State::Respond, Packet::Request { .. }) => self.owe(Reply::Response),
            (State::Respond, packet) => {
                let response = packet.ack().and_then(|ack| self.sent.get(ack).map(|sent| sent.at));
                self.seq.osr = Some(header.sequence);
                self.timers.give_up = None;
                self.connect(now, response.map(|at| now.saturating_since(at)), State::Open);
            }
            (State::PartOpen, Packet::Response { .. }) => self.acks.forced = true,
            (State::PartOpen, packet) if !matches!(packet, Packet::Sync { .. }) => {
                self.seq.osr = Some(header.sequence);
                self.state = State::Open;
                self.cookie.clear();
                (self.timers.retry, self.timers.give_up) = (None, None);
            }
            _ => {}
        }
        if self.state == State::Listen {
            return;
        }
        match header.packet {
            Packet::CloseReq { .. } if self.is_connected() => self.say_goodbye(now, State::Closing),
            Packet::Close { .. } => self.reset(now, ResetCode::Closed, 0),
            Packet::Sync { .. } => self.owe(Reply::SyncAck(header.sequence)),
            _ => {}
        }
    }

    fn process_ack(&mut self, now: Time, view: &View<'_>, notes: Notes) {
        let (Packet::Ack { ack: number } | Packet::DataAck { ack: number }) = view.repr().packet else {
            return;
        };
        self.acks.unanswered |= notes.told;
        let received = self.received.as_mut().expect("the peer's first packet was recorded");
        // It acknowledges an Ack Vector of this end: what that told need not be told again (section 11.4.2).
        if let Some(told) = self.sent.get(number).and_then(|packet| packet.told) {
            received.told(told);
        }
        let Some(sender) = &mut self.sender else { return };
        let ack = Acked { number, options: view.options(), elapsed: notes.elapsed };
        sender.on_ack(now, ack, &mut self.sent, self.seq.gss);
        if let Sender::TcpLike(ccid) = sender {
            ccid.watch_acks(received, !self.acks.peer_sends);
            let ratio = ccid.ack_ratio();
            self.features.want(feature::ACK_RATIO, Place::Local, ratio);
        }
        self.acks.peer_sends = false;
    }

    /// Step 16, and what the profile of the peer's half-connection wants to know.
    fn process_data(&mut self, now: Time, input: &Datagram<'_>, view: &View<'_>, notes: Notes, came: Came) {
        let header = view.repr();
        let data = matches!(header.packet, Packet::Data | Packet::DataAck { .. }).then(|| view.data());
        let (rtt, ratio) = (self.rtt(), self.ack_ratio());
        match &mut self.receiver {
            Some(Receiver::TcpLike(ack)) if data.is_some() => {
                ack.on_data(now, self.config.delayed_ack, came, self.acks.sent_data, rtt, ratio);
            }
            Some(Receiver::Tfrc(receiver)) => receiver.on_packet(
                now,
                DataPacket {
                    seq: header.sequence,
                    counter: header.ccval,
                    marked: came.marked,
                    bytes: data.map(<[u8]>::len),
                    ndp: notes.ndp,
                },
            ),
            _ => {}
        }
        let Some(data) = data else { return };
        self.acks.peer_sends = true;
        let message = data.split_first_chunk::<PREFIX>();
        let message = message
            .and_then(|(stream, message)| Some((u16::try_from(u32::from_le_bytes(*stream)).ok()?, message)));
        let Some((stream, message)) = message else {
            return self.refuse(DropCause::Malformed);
        };
        self.stats.received += 1;
        let (data, stream) = (message.to_vec(), StreamId(stream));
        self.events.push_back(Event::Received { data, path: input.path, stream });
    }
}
