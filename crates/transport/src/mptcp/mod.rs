//! A model of Multipath TCP (RFC 8684) on the model of TCP: what a kernel's MPTCP does to messages over several paths.
//!
//! Each path is a subflow: a [`Tcp`] connection of its own, with its own sequence numbers, window and timers. Above them
//! is one sequence of data. A [`Scheduler`] gives each piece of it to a subflow that has room; windows grow together
//! (LIA, RFC 6356), so that all subflows of a connection take what one TCP would take of a shared bottleneck; what a
//! subflow that runs into a timeout has on its way goes over another one as well (reinjection, RFC 8684 section 3.3.6).
//! The receiver puts the pieces in order: a late one holds up what comes after it, on whichever path. What is more urgent
//! overtakes, as in [`crate::tcp`], what no subflow has yet.
//!
//! | on the wire | here |
//! | --- | --- |
//! | MP_CAPABLE, MP_JOIN with an HMAC | the first subflow opens, the others after it; no keys |
//! | a DSS option of 20 bytes beside each segment's data | 16 bytes of data sequence and the framing's 4 before each piece |
//! | DATA_ACK in the options of each acknowledgement | what a subflow acknowledged is acknowledged |
//! | ADD_ADDR, REMOVE_ADDR | [`Mptcp::add_path`], [`Mptcp::remove_path`]; a new SYN over a path ends the subflow that was there |
//!
//! Not modelled: the shared receive window, DATA_FIN (each subflow ends with its FIN), checksums, fall-back to TCP.
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Seed, Time, Transport};
//! use taut_transport::mptcp::{Mptcp, MptcpConfig};
//!
//! let rng = |name| Seed::new(1).stream(name);
//! let mut client = Mptcp::client(MptcpConfig::default(), rng("client"));
//! let mut server = Mptcp::server(MptcpConfig::default(), rng("server"));
//! [PathId(0), PathId(1)].map(|path| client.add_path(Time::ZERO, path));
//! client.send(Time::ZERO, Message { data: b"walk".to_vec(), ..Message::default() })?;
//! for turn in 0..12 {
//!     let (from, to) = if turn % 2 == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
//!     let mut data = Vec::new();
//!     while let Some(transmit) = from.poll_transmit(Time::ZERO, &mut data) {
//!         let (path, ecn) = (transmit.path, Ecn::NotCapable);
//!         to.handle_input(Time::ZERO, Datagram { path, ecn, data: &data, padding: transmit.padding });
//!         data.clear();
//!     }
//! }
//! assert_eq!(server.subflows().count(), 2);
//! assert!(std::iter::from_fn(|| server.poll_event()).any(|event| matches!(event, Event::Received { .. })));
//! # Ok::<(), taut_core::SendError>(())
//! ```

mod linux;
mod scheduler;

use std::collections::{BTreeMap, VecDeque};

use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Event, Message, Origin, PathId, Rng, SendError,
    Time, Transmit, Transport, Waiting, earliest,
};

pub use scheduler::Scheduler;

use crate::tcp::queue::StreamQueue;
use crate::tcp::{Tcp, TcpConfig, TcpStats};
use linux::{Again, Linux};
use scheduler::View;

/// Subflows of a connection at most (Linux allows eight more).
pub const MAX_SUBFLOWS: usize = 8;
/// Data sequence, message length left, reserved: as long as a DSS option with the framing of a subflow.
pub(crate) const HEADER: usize = 16;
/// Pieces that are kept out of order, at most, each of a segment. No newer one goes while the oldest that is under way is so far behind:
/// what a subflow has acknowledged nobody sends again.
const OUT_OF_ORDER: usize = 1 << 14;

/// Settings of one end.
#[derive(Clone, Debug, Default)]
pub struct MptcpConfig {
    /// Of every subflow.
    pub subflow: TcpConfig,
    /// Default [`Scheduler::MinRtt`].
    pub scheduler: Scheduler,
    /// Windows grow as if there were one subflow each: no LIA. Default off.
    pub uncoupled: bool,
}

/// What one end did, in messages and pieces. A message of up to a segment is one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MptcpStats {
    /// Messages taken by `send`.
    pub offered: u64,
    /// Messages dropped because they were past their deadline before a subflow had them.
    pub too_late: u64,
    /// Pieces given to subflows, copies included.
    pub pieces: u64,
    /// Of these, pieces that another subflow had before.
    pub reinjected: u64,
    /// Pieces that arrived and were there already.
    pub duplicates: u64,
    /// Messages delivered.
    pub received: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Mptcp {
    config: MptcpConfig,
    rng: Rng,
    client: bool,
    connected: bool,
    closing: bool,
    closed: bool,
    subflows: Vec<Subflow>,
    /// Messages that no subflow has yet.
    waiting: StreamQueue,
    begun: Option<Begun>,
    next_dsn: u64,
    /// Pieces that subflows were given, from the first one on that the peer has not acknowledged.
    under_way: VecDeque<Given>,
    /// Pieces that a timeout found, to go over another subflow than this one, or over any.
    again: VecDeque<(Option<usize>, u64, Vec<u8>)>,
    /// Under [`Scheduler::Linux`].
    linux: Option<Linux>,
    /// Of the peer's data: what comes next, and what came too early.
    expected: u64,
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
    /// Nothing of it is heard any more.
    deaf: bool,
    message: Vec<u8>,
    events: VecDeque<Event>,
    stats: MptcpStats,
}

/// The message of which subflows have some bytes.
#[derive(Debug)]
struct Begun {
    message: Message,
    /// Bytes that were given to subflows.
    sent: usize,
    /// The number of its first piece.
    first: u64,
}

#[derive(Debug)]
struct Given {
    /// Its message: the number of the first piece, and the tag.
    message: (u64, u64),
    arrived: bool,
}

#[derive(Debug)]
struct Subflow {
    path: PathId,
    tcp: Tcp,
    connected: bool,
    /// It ended, or its path is no more.
    gone: bool,
    /// Its path is no more: nothing is sent there.
    removed: bool,
    /// Pieces on their way: where each ends among the bytes offered to the subflow, its number, and its bytes; none when
    /// another subflow's copy is acknowledged.
    pieces: VecDeque<(u64, u64, Vec<u8>)>,
    offered: u64,
    timeouts: u64,
    /// When something came from it last.
    heard: Time,
}

/// A subflow, for those who look.
#[derive(Clone, Copy, Debug)]
pub struct SubflowView {
    /// Over which path.
    pub path: PathId,
    /// The congestion window.
    pub window: Bytes,
    /// The smoothed round trip, once there was one.
    pub rtt: Option<Duration>,
    /// What it did.
    pub stats: TcpStats,
}

impl Mptcp {
    /// The end that opens subflows, on the paths that [`Mptcp::add_path`] adds; the first of them opens the connection.
    pub fn client(config: MptcpConfig, rng: Rng) -> Self {
        Self::new(config, rng, true)
    }

    /// The end that waits for them.
    pub fn server(config: MptcpConfig, rng: Rng) -> Self {
        Self::new(config, rng, false)
    }

    fn new(config: MptcpConfig, rng: Rng, client: bool) -> Self {
        let linux = (config.scheduler == Scheduler::Linux).then(Linux::default);
        let waiting = StreamQueue::new(config.subflow.send_buffer, config.subflow.max_message);
        Self {
            config,
            rng,
            client,
            connected: false,
            closing: false,
            closed: false,
            subflows: Vec::new(),
            waiting,
            begun: None,
            next_dsn: 0,
            under_way: VecDeque::new(),
            again: VecDeque::new(),
            linux,
            expected: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            deaf: false,
            message: Vec::new(),
            events: VecDeque::new(),
            stats: MptcpStats::default(),
        }
    }

    /// What this end did.
    pub fn stats(&self) -> MptcpStats {
        MptcpStats { too_late: self.waiting.too_late(), ..self.stats }
    }

    /// The subflows that are connected.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowView> {
        self.subflows.iter().filter(|subflow| subflow.connected && !subflow.gone).map(|subflow| SubflowView {
            path: subflow.path,
            window: subflow.tcp.congestion_window(),
            rtt: subflow.tcp.smoothed_rtt(),
            stats: subflow.tcp.stats(),
        })
    }

    /// The subflow of this path, or what is left of one that ended.
    fn place_of(&self, path: PathId) -> Option<usize> {
        self.subflows.iter().position(|subflow| subflow.path == path && !subflow.removed)
    }

    fn lose(&mut self, place: usize) {
        let subflow = &mut self.subflows[place];
        subflow.gone = true;
        if subflow.connected {
            self.events.push_back(Event::PathDown(subflow.path));
        }
        self.reinject(place);
    }

    /// What a subflow has on its way goes over another one too, the oldest first.
    fn reinject(&mut self, place: usize) {
        let pieces = &self.subflows[place].pieces;
        let known: Vec<u64> = self.again.iter().map(|(_, dsn, _)| *dsn).collect();
        let missing = pieces.iter().filter(|(_, dsn, piece)| !piece.is_empty() && !known.contains(dsn));
        let missing = missing.map(|(_, dsn, piece)| (Some(place), *dsn, piece.clone()));
        self.again.extend(missing);
        self.again.make_contiguous().sort_by_key(|(_, dsn, _)| *dsn);
    }

    /// After anything that happened to subflows: what they acknowledged, lost, received.
    fn settle(&mut self, now: Time) {
        let mut acknowledged_here = Vec::new();
        for place in 0..self.subflows.len() {
            self.take_events(place);
            let subflow = &mut self.subflows[place];
            let acknowledged = subflow.tcp.acknowledged_bytes().get();
            while subflow.pieces.front().is_some_and(|(end, _, _)| *end <= acknowledged) {
                let (_, dsn, _) = subflow.pieces.pop_front().expect("it was there");
                acknowledged_here.push(dsn);
            }
            let timeouts = self.subflows[place].tcp.stats().timeouts;
            if timeouts > self.subflows[place].timeouts {
                self.subflows[place].timeouts = timeouts;
                if self.linux.is_none() {
                    self.reinject(place);
                }
            }
        }
        self.arrived(now, &acknowledged_here);
        self.couple();
        self.schedule(now);
        self.finish(now);
        let finished = |subflow: &Subflow| subflow.gone;
        if self.closing && !self.closed && self.subflows.iter().all(finished) {
            self.closed = true;
            self.report();
            self.events.push_back(Event::Closed);
        }
    }

    /// Nothing flows any more: reports every message of which the peer has not acknowledged all.
    fn report(&mut self) {
        let mut begun: Vec<(u64, u64)> = self.under_way.drain(..).map(|given| given.message).collect();
        begun.extend(self.begun.take().map(|begun| (begun.first, begun.message.tag)));
        begun.dedup();
        let waiting = std::iter::from_fn(|| self.waiting.pop()).map(|message| message.tag);
        let tags = begun.into_iter().map(|(_, tag)| tag).chain(waiting);
        self.events.extend(tags.map(|tag| Event::Dropped { tag, cause: DropCause::Cut }));
    }

    /// The first piece that the peer has not acknowledged.
    fn oldest(&self) -> u64 {
        self.next_dsn - self.under_way.len() as u64
    }

    /// The peer has these pieces: no other subflow needs to repeat them.
    fn arrived(&mut self, now: Time, dsns: &[u64]) {
        if dsns.is_empty() {
            return;
        }
        self.linux.iter_mut().for_each(|linux| linux.acknowledged(now, dsns));
        self.again.retain(|(_, dsn, _)| !dsns.contains(dsn));
        let oldest = self.oldest();
        for dsn in dsns.iter().filter(|dsn| **dsn >= oldest) {
            self.under_way[(dsn - oldest) as usize].arrived = true;
        }
        while self.under_way.pop_front_if(|given| given.arrived).is_some() {}
        for (_, dsn, piece) in self.subflows.iter_mut().flat_map(|subflow| &mut subflow.pieces) {
            if dsns.contains(dsn) {
                piece.clear();
            }
        }
    }

    fn take_events(&mut self, place: usize) {
        while let Some(event) = self.subflows[place].tcp.poll_event() {
            match event {
                Event::Connected => {
                    self.subflows[place].connected = true;
                    self.events.push_back(Event::PathUp(self.subflows[place].path));
                    if !std::mem::replace(&mut self.connected, true) {
                        self.events.push_back(Event::Connected);
                    }
                }
                Event::Received { data, path, .. } => self.take_piece(data, path),
                Event::Closed if !self.subflows[place].gone => {
                    self.lose(place);
                    self.closing |= self.subflows.iter().all(|subflow| subflow.gone);
                }
                // Pieces are told of by what their messages become.
                Event::Dropped { .. } | Event::Closed => {}
                event => self.events.push_back(event),
            }
        }
    }

    /// A piece of the peer's data.
    fn take_piece(&mut self, data: Vec<u8>, path: PathId) {
        if self.deaf {
            return;
        }
        let Some((dsn, _)) = data.split_first_chunk::<8>() else {
            return self.events.push_back(Event::Refused(DropCause::Malformed));
        };
        let dsn = u64::from_be_bytes(*dsn);
        if data.len() < HEADER {
            return self.events.push_back(Event::Refused(DropCause::Malformed));
        }
        if dsn < self.expected || self.early.contains_key(&dsn) {
            self.stats.duplicates += 1;
            return;
        }
        // The one that all wait for always has room.
        let is_full = self.early.len() >= OUT_OF_ORDER
            || self.early_bytes + data.len() > OUT_OF_ORDER * usize::from(self.config.subflow.mss);
        if is_full && dsn != self.expected {
            return self.events.push_back(Event::Refused(DropCause::QueueFullPackets));
        }
        self.early_bytes += data.len();
        self.early.insert(dsn, data);
        while let Some(piece) = self.early.remove(&self.expected) {
            self.expected += 1;
            self.early_bytes -= piece.len();
            let size = self.message.len() + piece.len() - HEADER;
            if size as u64 > self.config.subflow.max_message.get() {
                return self.cut_off();
            }
            self.message.extend_from_slice(&piece[HEADER..]);
            if piece[8..12] == [0; 4] {
                self.stats.received += 1;
                let data = std::mem::take(&mut self.message);
                self.events.push_back(Event::Received { data, path, stream: Default::default() });
            }
        }
    }

    /// The peer's message is longer than any may be: nothing more is heard of it.
    fn cut_off(&mut self) {
        self.events.push_back(Event::Refused(DropCause::Malformed));
        (self.message, self.early) = Default::default();
        self.deaf = true;
        self.again.clear();
        self.closing = true;
    }

    /// LIA (RFC 6356 section 3): on subflow i the window grows by min(α/cwnd_total, 1/cwnd_i) a byte.
    fn couple(&mut self) {
        if self.config.uncoupled || self.linux.is_some() {
            return;
        }
        let part = |subflow: &Subflow| {
            let rtt = subflow.tcp.smoothed_rtt()?.as_secs_f64().max(1e-6);
            Some((subflow.tcp.congestion_window().get() as f64, rtt))
        };
        let active = || self.subflows.iter().filter(|subflow| subflow.connected && !subflow.gone);
        let parts: Vec<(f64, f64)> = active().filter_map(part).collect();
        let total: f64 = parts.iter().map(|(window, _)| window).sum();
        let best = parts.iter().map(|(window, rtt)| window / (rtt * rtt)).fold(0.0, f64::max);
        let sum: f64 = parts.iter().map(|(window, rtt)| window / rtt).sum();
        if parts.len() < 2 || sum <= 0.0 {
            return self.subflows.iter_mut().for_each(|subflow| subflow.tcp.couple(1.0));
        }
        let alpha = total * best / (sum * sum);
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.connected && !subflow.gone) {
            let window = subflow.tcp.congestion_window().get() as f64;
            subflow.tcp.couple((alpha * window / total).min(1.0));
        }
    }

    fn views(&self) -> Vec<View> {
        let view = |subflow: &Subflow| {
            let tcp = &subflow.tcp;
            let rtt = tcp.smoothed_rtt().unwrap_or(Duration::from_secs(1));
            let (cwnd, in_flight) = (tcp.congestion_window().get(), tcp.window_taken().get());
            View {
                room: cwnd.saturating_sub(in_flight + tcp.unsent_bytes().get()),
                cwnd,
                in_flight,
                rtt,
                variation: tcp.rtt_variation(),
                mss: u64::from(self.config.subflow.mss),
                // What runs from timeout to timeout has potentially failed (RFC 6182 section 5.1).
                usable: subflow.connected && !subflow.gone && tcp.timeouts_in_a_row() == 0,
            }
        };
        self.subflows.iter().map(view).collect()
    }

    /// As Linux's rules see the subflows.
    fn paths(&self) -> Vec<linux::Path> {
        let path = |subflow: &Subflow| {
            let tcp = &subflow.tcp;
            let rtt = tcp.smoothed_rtt().unwrap_or(Duration::from_secs(1)).as_secs_f64().max(1e-6);
            linux::Path {
                open: subflow.connected && !subflow.gone,
                queued: tcp.bytes_in_flight().get() + tcp.unsent_bytes().get(),
                pace: tcp.congestion_window().get() as f64 / rtt,
                expires: tcp.retransmission_deadline(),
                heard: subflow.heard,
            }
        };
        self.subflows.iter().map(path).collect()
    }

    /// The subflow for the next piece.
    fn choose(&mut self, now: Time, bytes: u64) -> Option<usize> {
        if self.linux.is_some() {
            return self.choose_again(now, None, bytes);
        }
        let window = self.config.subflow.receive_window.get();
        let waiting = self.rest() + self.waiting.bytes();
        self.config.scheduler.choose(&self.views(), bytes, waiting, window)
    }

    /// The subflow for a piece that another one had.
    fn choose_again(&mut self, now: Time, from: Option<usize>, bytes: u64) -> Option<usize> {
        if self.linux.is_some() {
            let paths = self.paths();
            return self.linux.as_mut()?.choose(now, &paths);
        }
        let mut views = self.views();
        from.iter().for_each(|from| views[*from].usable = false);
        Scheduler::MinRtt.choose(&views, bytes, bytes, u64::MAX)
    }

    fn own_timer(&self) -> Option<Time> {
        self.linux.as_ref().filter(|_| !self.closed)?.timer
    }

    /// The connection's own timer, which Linux has.
    fn handle_own_timer(&mut self, now: Time) {
        if self.own_timer().is_none_or(|at| at > now) {
            return;
        }
        let paths = self.paths();
        let Some(linux) = &mut self.linux else { return };
        let pieces = |kept: &(u64, Vec<u8>, bool)| (None, kept.0, kept.1.clone());
        match linux.expired(now, &paths) {
            Again::Nothing => {}
            Again::Everything => self.again = linux.kept.iter().map(pieces).collect(),
            Again::Oldest(place) => {
                if let Some((dsn, piece, _)) = linux.kept.front().cloned() {
                    self.stats.reinjected += u64::from(self.offer(now, place, dsn, &piece));
                }
            }
        }
    }

    /// Gives pieces to subflows for as long as they have room.
    fn schedule(&mut self, now: Time) {
        while let Some((from, dsn, piece)) = self.again.pop_front() {
            let place = self.choose_again(now, from, piece.len() as u64);
            if !place.is_some_and(|place| self.offer(now, place, dsn, &piece)) {
                self.again.push_front((from, dsn, piece));
                break;
            }
            self.linux.iter_mut().for_each(|linux| linux.took((piece.len() - HEADER) as u64));
            self.stats.reinjected += 1;
        }
        while self.give_next(now) {}
    }

    /// Bytes that no subflow has of the message of which some have a part.
    fn rest(&self) -> u64 {
        self.begun.as_ref().map_or(0, |begun| (begun.message.data.len() - begun.sent) as u64)
    }

    /// Of a piece with its header: with its framing it fills a segment, and the peer has room for [`OUT_OF_ORDER`] of those.
    fn longest_piece(&self) -> usize {
        let agreed = self.subflows.iter().filter_map(|subflow| subflow.tcp.longest_segment()).min();
        usize::from(agreed.unwrap_or(self.config.subflow.mss)) - 4
    }

    /// Gives the next piece of the message that has begun, or of the next one, to a subflow, or to all of them; false when there is
    /// none, or none takes it now. Of a message of which a part is under way all arrives, late or not.
    fn give_next(&mut self, now: Time) -> bool {
        if self.deaf || self.under_way.len() >= OUT_OF_ORDER {
            return false;
        }
        let most = self.longest_piece() - HEADER;
        let next = match &self.begun {
            Some(begun) => Some(&begun.message.data[begun.sent..]),
            None => self.waiting.at(now, 0, &mut self.events).map(|message| &message.data[..]),
        };
        let Some(rest) = next else { return false };
        let len = rest.len().min(most);
        let left = (rest.len() - len).div_ceil(most) as u32;
        let dsn = self.next_dsn;
        let piece = [&dsn.to_be_bytes()[..], &left.to_be_bytes(), &[0; 4], &rest[..len]].concat();
        let Some(place) = self.choose(now, (piece.len() + 4) as u64) else { return false };
        let mut taken = self.offer(now, place, dsn, &piece);
        if self.config.scheduler == Scheduler::Redundant {
            let views = self.views();
            let others = (0..views.len()).filter(|other| views[*other].usable && *other != place);
            others.for_each(|other| taken |= self.offer(now, other, dsn, &piece));
        }
        if taken {
            if let Some(linux) = &mut self.linux {
                linux.took(len as u64);
                linux.sent(now, dsn, piece);
            }
            let begin = || Some(Begun { message: self.waiting.pop()?, sent: 0, first: dsn });
            if let Some(mut begun) = self.begun.take().or_else(begin) {
                let message = (begun.first, begun.message.tag);
                self.under_way.push_back(Given { message, arrived: false });
                begun.sent += len;
                self.begun = (left > 0).then_some(begun);
            }
            self.next_dsn += 1;
        }
        taken
    }

    /// Does the subflow take it? One whose buffer is full does not.
    fn offer(&mut self, now: Time, place: usize, dsn: u64, piece: &[u8]) -> bool {
        let subflow = &mut self.subflows[place];
        let message = Message { data: piece.to_vec(), created: now, ..Message::default() };
        let taken = subflow.tcp.send(now, message).is_ok();
        if taken {
            self.stats.pieces += 1;
            subflow.offered += piece.len() as u64 + 4;
            subflow.pieces.push_back((subflow.offered, dsn, piece.to_vec()));
        }
        taken
    }

    /// Subflows end once they have all that was offered, of which a peer that is cut off gets no more.
    fn finish(&mut self, now: Time) {
        let has_all = self.waiting.is_empty() && self.begun.is_none() && self.again.is_empty();
        if self.closing && (has_all || self.deaf) {
            self.subflows.iter_mut().for_each(|subflow| subflow.tcp.close(now));
        }
    }

    /// MP_JOIN needs a connection to join.
    fn may_send(&self, place: usize) -> bool {
        place == 0 || self.connected || !self.client
    }
}

impl Transport for Mptcp {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        if self.closing || self.closed {
            return Err(SendError::Closed);
        }
        let held = self.rest();
        self.waiting.push(now, message, held, &mut self.events)?;
        self.stats.offered += 1;
        self.schedule(now);
        Ok(())
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        if !self.client && !self.closed {
            let begins = |place: usize| self.subflows[place].tcp.is_other_syn(input.data);
            if self.place_of(input.path).is_some_and(begins) {
                self.remove_path(now, input.path);
            }
            if self.place_of(input.path).is_none() {
                self.add_path(now, input.path);
            }
        }
        match self.place_of(input.path) {
            Some(place) => {
                self.subflows[place].heard = now;
                self.subflows[place].tcp.handle_input(now, input);
            }
            None => self.events.push_back(Event::Refused(DropCause::Unauthenticated)),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        for subflow in self.subflows.iter_mut().filter(|subflow| !subflow.removed) {
            if subflow.tcp.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                subflow.tcp.handle_timeout(now);
            }
        }
        self.handle_own_timer(now);
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for place in 0..self.subflows.len() {
            let may_send = self.may_send(place);
            let subflow = &mut self.subflows[place];
            if subflow.removed || !may_send {
                continue;
            }
            if let Some(transmit) = subflow.tcp.poll_transmit(now, buffer) {
                return Some(Transmit { path: subflow.path, ..transmit });
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let subflows = self.subflows.iter().enumerate();
        let open = subflows.filter(|(place, subflow)| !subflow.gone && self.may_send(*place));
        let own = self.own_timer().map(|at| Deadline::new(at, "reinjection"));
        open.map(|(_, subflow)| subflow.tcp.poll_timeout()).fold(own, earliest)
    }

    /// What was offered is sent first.
    fn close(&mut self, now: Time) {
        self.closing = true;
        self.finish(now);
        self.settle(now);
    }

    /// Another path; false when it is known, or there are [`MAX_SUBFLOWS`].
    fn add_path(&mut self, _: Time, path: PathId) -> bool {
        let is_known = self.place_of(path).is_some_and(|place| !self.subflows[place].gone);
        if is_known || self.subflows.iter().filter(|subflow| !subflow.gone).count() >= MAX_SUBFLOWS {
            return false;
        }
        let sequence = Tcp::initial_sequence(&mut self.rng);
        let tcp = match self.client {
            true => Tcp::client(self.config.subflow.clone(), sequence),
            false => Tcp::server(self.config.subflow.clone(), sequence),
        };
        let (pieces, offered, timeouts, heard) = (VecDeque::new(), 0, 0, Time::ZERO);
        let (connected, gone, removed) = (false, false, false);
        let subflow = Subflow { path, tcp, connected, gone, removed, pieces, offered, timeouts, heard };
        // A subflow that is gone makes room, that of this path first, so that a path has one and may come and go.
        match self.place_of(path).or_else(|| self.subflows.iter().position(|subflow| subflow.gone)) {
            Some(place) => {
                self.subflows[place] = subflow;
                self.linux.iter_mut().for_each(|linux| linux.forget(place));
                // It is another subflow than the one that had these.
                let of_before = self.again.iter_mut().filter(|(from, ..)| *from == Some(place));
                of_before.for_each(|(from, ..)| *from = None);
            }
            None => self.subflows.push(subflow),
        }
        true
    }

    /// What was on its way there goes over the others.
    fn remove_path(&mut self, _: Time, path: PathId) {
        if let Some(place) = self.place_of(path) {
            self.subflows[place].removed = true;
            if !self.subflows[place].gone {
                self.lose(place);
            }
        }
    }

    fn set_origin(&mut self, _: PathId, _: Origin) {}

    fn uses_path(&self, path: PathId) -> bool {
        self.subflows.iter().any(|subflow| subflow.path == path && subflow.connected && !subflow.gone)
    }

    /// Of the fastest subflow.
    fn round_trip(&self) -> Option<Duration> {
        let connected = self.subflows.iter().filter(|subflow| subflow.connected && !subflow.gone);
        connected.filter_map(|subflow| subflow.tcp.round_trip()).min()
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    /// Over all subflows.
    fn delivered(&self) -> Option<u64> {
        self.subflows.iter().map(|subflow| subflow.tcp.delivered()).sum()
    }

    fn waiting(&self) -> Waiting {
        // What Linux's scheduler takes beyond a window waits in a subflow.
        let own = self.waiting.has_urgent();
        let subflows = self.subflows.iter().map(|subflow| subflow.tcp.waiting());
        subflows.chain([Waiting::irreplaceable(own)]).max().unwrap_or_default()
    }
}
