//! MTIP: one message over several paths, on as few as it takes (Rico, Luque-Schempp, Merino, *Evaluation of MTIP, MPTCP and
//! MPQUIC for a Time-Sensitive Application*).
//!
//! Two endpoints have several paths between them, each acknowledged by itself. A message goes out on one or on several;
//! the receiver gives the first copy on, and refuses what is there already or past its deadline. Latency comes before
//! reliability: what cannot be in time is not sent again.
//!
//! [`Policy`] says which paths a message takes. [`Policy::All`] is the source's MTIP-A, [`Policy::Adaptive`] its MTIP-B.
//! [`Policy::Deadline`] is ours: it keeps each path's delay distribution and losses, sends each message on the fewest paths that
//! meet its deadline with the asked probability, and sends another copy at the last moment at which that is in time when no
//! answer has come, less what this host wakes up late by; a path whose newest packet is overdue is left at once. [`Choice`] tells for each
//! message what was chosen, and why, where [`MtipConfig::explain`] asks for it.
//!
//! The published protocol is spoken too ([`Mode::Compatible`]). What it lacks, [`Mode::Improved`] has:
//!
//! | the published protocol | the improved one |
//! | --- | --- |
//! | numbers of 16 bits, which wrap after 65 s at 1 kHz | of 32 on the wire, 64 in memory |
//! | clocks must be synchronised | they may be ([`Clocks`]); else the age of a message, and exchanges of four timestamps on every path |
//! | what is on its way counts as missing | what is overdue does |
//! | a lost acknowledgement is charged to the way there | the next one repeats it |
//! | reliability is a ratio that never forgets | an exponential average, and runs of losses |
//! | anybody can speak | [`Secured`](crate::security::Secured) around it |
//!
//! A message without a deadline is never too late; its copies are sent as if it had the one of [`MtipConfig::deadline`], counted from when
//! it leaves. A reliable one is sent again until it is acknowledged, ever more slowly while nothing is heard; order is
//! not kept. One with a deadline is sent again until that has passed, and then dropped as [`DropCause::TooLate`]; under
//! [`Policy::Deadline`] it gets the copies of a sample at its last moments, too. One that is not acknowledged when the conversation ends is dropped as [`DropCause::Cut`].
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Time, Transport};
//! use taut_transport::mtip::{Mtip, MtipConfig, Policy};
//!
//! let config = MtipConfig::new().policy(Policy::All);
//! let mut operator = Mtip::client(config.clone(), 7);
//! let mut robot = Mtip::server(config);
//! let now = Time::ZERO;
//! operator.add_path(now, PathId(0));
//! operator.add_path(now, PathId(1));
//! operator.send(now, Message { data: b"walk".to_vec(), ..Message::default() })?;
//! operator.handle_timeout(now);
//! let mut received = Vec::new();
//! for turn in 0..6 {
//!     let (from, to) = if turn % 2 == 0 { (&mut operator, &mut robot) } else { (&mut robot, &mut operator) };
//!     let mut data = Vec::new();
//!     while let Some(transmit) = from.poll_transmit(now, &mut data) {
//!         to.handle_input(now, Datagram { path: transmit.path, ecn: Ecn::NotCapable, data: &data, padding: 0 });
//!         data.clear();
//!     }
//!     received.extend(std::iter::from_fn(|| robot.poll_event()));
//! }
//! assert!(received.iter().any(|event| matches!(event, Event::Received { data, .. } if data == b"walk")));
//! assert_eq!(robot.stats().duplicates, 1);
//! # Ok::<(), taut_core::SendError>(())
//! ```

mod choose;
mod codec;
mod config;
mod deadline;
mod estimate;
mod explain;
mod held;
mod outstanding;
mod path;
mod published;
mod receive;
mod reliable;
mod send;
mod wakes;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use taut_core::{
    Bitrate, Bytes, Choice, ClockEstimate, ClockEstimator, Datagram, Deadline, DropCause, Duration, Ecn,
    Event, Message, Origin, PathId, Reliability, SendError, Time, Transmit, Transport, Waiting,
};

use taut_wire::mtip::Echo;

pub use config::{Adaptive, Clocks, Mode, MtipConfig, Policy, Target};
pub use explain::{ChoiceReport, ChoiceStats, Chosen};
pub use path::{PathState, PathStats};

use choose::Chooser;
use codec::{Codec, Outgoing};
use outstanding::{AllOutstanding, RELIABLE};
use path::Path;
use receive::Receiver;
use reliable::Pace;
use wakes::Wakes;

use crate::message_queue::MessageQueue;

/// Paths of one conversation at most.
pub const MAX_PATHS: usize = 8;
/// Messages that wait for the driver, and before there is a path.
const WAITING: Bytes = Bytes::new(64 * 1024);
/// Unreliable messages of one stream that wait at most.
const SAMPLES: usize = 64;
/// Packets that wait for the driver; when there are more, the oldest go.
const OUTBOX: usize = 1_024;
/// Between two LINKs on a path that does not answer.
const LINK_INTERVAL: Duration = Duration::from_millis(100);
/// On a path that is down every so many probes one is a LINK.
const LINK_AGAIN: u64 = 5;
/// In the published protocol a LINKACK that is not answered is repeated so often: its address may be forged, and gets no more than three packets
/// for each that came from it (RFC 9000 section 8.1 counts bytes). A client that heard none of them asks again.
const LINKACKS: u64 = 2;
/// In the published protocol a path is idle after so many messages on others.
const UNUSED: u64 = 90;
/// How long a goodbye is said.
const GOODBYE: Duration = Duration::from_millis(300);

/// What went through an [`Mtip`], in messages. `offered = sent + superseded + too_late + abandoned +` what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MtipStats {
    /// Taken by `send`.
    pub offered: u64,
    /// Sent, on one path or more.
    pub sent: u64,
    /// Copies of them, the first included.
    pub copies: u64,
    /// Of the copies, those that were sent because no answer had come.
    pub again: u64,
    /// Dropped because the queue was full.
    pub superseded: u64,
    /// Dropped because they were past their deadline before they could be sent.
    pub too_late: u64,
    /// Dropped because the conversation ended.
    pub abandoned: u64,
    /// Of the reliable ones that were sent, those that were given up past their deadline, because no answer had come.
    pub given_up: u64,
    /// Delivered here.
    pub received: u64,
    /// Copies refused because the message was there already.
    pub duplicates: u64,
    /// Copies refused because they were past their deadline.
    pub late: u64,
    /// Datagrams refused: malformed, of another conversation, or acknowledging what was never sent.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No path is linked yet.
    Linking,
    Open,
    /// Goodbye is being said, until then.
    Closing(Time),
    Closed,
}

/// One end of an MTIP conversation.
#[derive(Debug)]
pub struct Mtip {
    config: MtipConfig,
    client: bool,
    state: State,
    codec: Codec,
    paths: Vec<Path>,
    clock: ClockEstimator,
    chooser: Chooser,
    waiting: MessageQueue,
    next_number: u64,
    pace: Pace,
    outstanding: AllOutstanding,
    receiver: Receiver,
    outbox: VecDeque<(PathId, Outgoing)>,
    /// Copies of outstanding messages that are to leave: over which path, which message.
    copies: VecDeque<(PathId, u64)>,
    /// Last moments for another copy: when, of which message, over which path.
    last_moments: BinaryHeap<Reverse<(Time, u64, PathId)>>,
    events: VecDeque<Event>,
    choices: VecDeque<Choice>,
    chosen: ChoiceStats,
    wakes: Wakes,
    /// When a packet of the conversation arrived last.
    heard: Time,
    stats: MtipStats,
}

impl Mtip {
    /// The end that links the paths; they are added by [`Transport::add_path`]. `conversation` is chosen at random.
    pub fn client(config: MtipConfig, conversation: u64) -> Self {
        Self::new(config, true, conversation)
    }

    /// The end that waits for them.
    pub fn server(config: MtipConfig) -> Self {
        Self::new(config, false, 0)
    }

    fn new(config: MtipConfig, client: bool, conversation: u64) -> Self {
        let codec = Codec::new(&config.mode, conversation);
        Self {
            outstanding: AllOutstanding::default(),
            chooser: Chooser::new(config.policy, config.latency_weight, codec.is_published()),
            codec,
            config,
            client,
            state: State::Linking,
            paths: Vec::new(),
            clock: ClockEstimator::new(),
            waiting: MessageQueue::new(WAITING, SAMPLES),
            next_number: 0,
            pace: Pace::default(),
            receiver: Receiver::default(),
            outbox: VecDeque::new(),
            copies: VecDeque::new(),
            last_moments: BinaryHeap::new(),
            events: VecDeque::new(),
            choices: VecDeque::new(),
            chosen: ChoiceStats::default(),
            wakes: Wakes::default(),
            heard: Time::ZERO,
            stats: MtipStats::default(),
        }
    }

    /// The paths, with how they stand and what they carried.
    pub fn paths(&self) -> impl Iterator<Item = (PathId, PathState, PathStats)> {
        self.paths.iter().map(|path| (path.id, path.state, path.stats))
    }

    /// What went through it.
    pub fn stats(&self) -> MtipStats {
        self.stats
    }

    /// What the peer's clock reads, once there was an exchange. The published protocol has none.
    pub fn clock(&self, now: Time) -> Option<ClockEstimate> {
        self.clock.estimate(now)
    }

    fn place_of(&self, id: PathId) -> Option<usize> {
        self.paths.iter().position(|path| path.id == id)
    }

    fn post(&mut self, path: PathId, packet: Outgoing) {
        if self.outbox.len() == OUTBOX {
            self.outbox.pop_front();
        }
        self.outbox.push_back((path, packet));
    }

    fn refuse(&mut self, cause: DropCause) {
        self.stats.refused += 1;
        self.events.push_back(Event::Refused(cause));
    }

    /// LINKs and probes that are due.
    fn probe(&mut self, now: Time) {
        for place in 0..self.paths.len() {
            let path = &mut self.paths[place];
            if path.next_probe > now {
                continue;
            }
            let id = path.id;
            // The published protocol leaves a path alone until so many messages took others.
            if self.codec.is_published() && path.is_linked() && self.stats.sent < path.published.used + UNUSED
            {
                path.next_probe = now + self.config.probe_interval;
                continue;
            }
            // The peer may know this path by another address now, as when a NAT has forgotten it.
            let again = self.client && path.state == PathState::Down && !self.codec.is_published();
            if path.is_linked() {
                path.next_probe = now + self.config.probe_interval;
                path.probes += 1;
                let number = path.probes;
                if again && number.is_multiple_of(LINK_AGAIN) {
                    self.post(id, Outgoing::Link);
                    continue;
                }
                self.post(id, Outgoing::KeepAlive { number });
            } else if self.client {
                path.next_probe = now + LINK_INTERVAL;
                self.post(id, Outgoing::Link);
            } else if path.probes < LINKACKS {
                // Only in the published protocol does this end wait for an answer to its LINKACK.
                path.next_probe = now + LINK_INTERVAL;
                path.probes += 1;
                self.post(id, Outgoing::LinkAck(Echo::default()));
            } else {
                path.next_probe = Time::MAX;
            }
        }
    }

    /// How each path stands now, and what changes with it.
    fn judge(&mut self, now: Time) {
        for path in &mut self.paths {
            let before = path.state;
            match (before == PathState::Down, path.judge(now) == PathState::Down) {
                (false, true) => {
                    path.stats.downs += 1;
                    self.events.push_back(Event::PathDown(path.id));
                }
                (true, false) => self.events.push_back(Event::PathUp(path.id)),
                _ => {}
            }
        }
    }

    fn end(&mut self) {
        while let Some(message) = self.waiting.pop() {
            self.stats.abandoned += 1;
            self.events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::Abandoned });
        }
        for message in self.outstanding.take_reliable() {
            self.events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::Cut });
        }
        self.copies.clear();
        self.last_moments.clear();
        self.paths.clear();
        self.state = State::Closed;
        self.events.push_back(Event::Closed);
    }

    fn idle_at(&self) -> Option<Deadline> {
        let at = match self.state {
            State::Open => self.heard + self.config.idle_timeout,
            State::Closing(until) => until,
            _ => return None,
        };
        Some(Deadline::new(at, "idle"))
    }
}

impl Transport for Mtip {
    fn send(&mut self, now: Time, mut message: Message) -> Result<(), SendError> {
        if matches!(self.state, State::Closing(_) | State::Closed) {
            return Err(SendError::Closed);
        }
        let (size, limit) = (Bytes::new(message.data.len() as u64), self.config.max_message);
        if size > limit {
            return Err(SendError::TooLarge { size, limit });
        }
        // The published format has no room for a deadline: the receiver judges by its own.
        if self.codec.is_published() && message.reliability == Reliability::Unreliable {
            message.deadline.get_or_insert(self.config.deadline);
        }
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        if self.outstanding.is_full_for(&message) {
            self.give_up_late(now);
        }
        if self.outstanding.is_full_for(&message) {
            return Err(SendError::BufferFull(RELIABLE));
        }
        let (events, stats) = (&mut self.events, &mut self.stats);
        self.waiting.push(message, |gone| {
            stats.superseded += 1;
            events.push_back(Event::Dropped { tag: gone.tag, cause: DropCause::Superseded });
        })?;
        self.stats.offered += 1;
        Ok(())
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        if self.state == State::Closed {
            return;
        }
        self.moves_deadline(now);
        let parsed =
            if input.padding == 0 { self.codec.parse(now, input.data) } else { Err(DropCause::Malformed) };
        if let Err(cause) = parsed.and_then(|(clock, packet)| self.receive(now, input.path, clock, packet)) {
            self.refuse(cause);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.measure_lateness(now);
        if self.idle_at().is_some_and(|deadline| deadline.at <= now) {
            return self.end();
        }
        if matches!(self.state, State::Linking | State::Open) {
            self.rescue(now);
            self.answer_held(now, false);
            self.overdue(now);
            self.repeat(now);
            self.forget_what_is_long_down(now);
            self.probe(now);
        }
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let before = buffer.len();
        let path = loop {
            if let Some(path) = self.emit_copy(now, buffer) {
                break path;
            }
            if let Some((path, packet)) = self.outbox.pop_front() {
                // Answers name the moment at which a probe leaves, and a driver's clock went on since it was due.
                if let (Outgoing::KeepAlive { number }, Some(place)) = (&packet, self.place_of(path)) {
                    self.paths[place].sent_probe(now, *number);
                }
                self.codec.emit(now, &packet, buffer);
                break path;
            }
            if !self.dispatch(now) {
                return None;
            }
        };
        if let Some(place) = self.place_of(path) {
            let path = &mut self.paths[place];
            path.stats.packets += 1;
            path.stats.bytes += (buffer.len() - before) as u64;
        }
        Some(Transmit { path, ecn: Ecn::NotCapable, padding: 0 })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.state == State::Closed {
            return None;
        }
        let closing = matches!(self.state, State::Closing(_));
        let probe =
            self.paths.iter().filter(|_| !closing).map(|path| Deadline::new(path.next_probe, "probe"));
        let answers = self.paths.iter().filter(|_| !closing).filter_map(Path::overdue_at);
        let answers = answers.map(|at| Deadline::new(at, "answer overdue"));
        let held = self.paths.iter().filter(|_| !closing).filter_map(|path| path.held.poll_timeout());
        let last_moment = self.last_moments.peek().filter(|_| !closing);
        let last_moment = last_moment.map(|Reverse((at, ..))| Deadline::new(*at, "last moment"));
        let repeats = self.repeats_at().filter(|_| !closing && self.state != State::Linking);
        let repeats = repeats.map(|at| Deadline::new(at, "sent again"));
        probe
            .chain(answers)
            .chain(held)
            .chain(last_moment)
            .chain(repeats)
            .chain(self.idle_at())
            .min_by_key(|deadline| deadline.at)
    }

    fn abandon(&mut self) {
        if self.state != State::Closed {
            self.end();
        }
    }

    fn close(&mut self, now: Time) {
        match self.state {
            State::Linking => self.end(),
            State::Open => {
                self.answer_held(now, true);
                // What was accepted leaves before the FINs.
                while self.dispatch(now) {}
                self.state = State::Closing(now + GOODBYE);
                let ids: Vec<PathId> = self.paths.iter().map(|path| path.id).collect();
                ids.into_iter().for_each(|id| self.post(id, Outgoing::Fin));
            }
            State::Closing(_) | State::Closed => {}
        }
    }

    /// It is linked, and used once the peer answers. There are [`MAX_PATHS`] at most.
    fn add_path(&mut self, now: Time, id: PathId) -> bool {
        self.moves_deadline(now);
        let room = self.paths.len() < MAX_PATHS && self.place_of(id).is_none();
        if room {
            self.paths.push(Path::new(now, id));
        }
        room
    }

    /// What was on its way there is sent over another one where there is time.
    fn remove_path(&mut self, now: Time, id: PathId) {
        self.moves_deadline(now);
        if let Some(place) = self.place_of(id) {
            self.forget_path(now, place);
        }
    }

    /// It proves no addresses: Noise around it does.
    fn set_origin(&mut self, _: PathId, _: Origin) {}

    fn uses_path(&self, path: PathId) -> bool {
        self.place_of(path).is_some()
    }

    /// Messages go at once: they tell by themselves.
    fn round_trip(&self) -> Option<Duration> {
        None
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    fn delivered(&self) -> Option<u64> {
        None
    }

    fn waiting(&self) -> Waiting {
        Waiting::Nothing
    }
}
