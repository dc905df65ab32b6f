//! Channels beside motion and feedback: what both ends declare, in one session, behind one header, by priority.
//!
//! | part | what it does |
//! | --- | --- |
//! | `declare` | what a channel is; what two ends that declare it agree on |
//! | `event` | what channels tell |
//! | `outgoing` | messages that wait, whose parts have one fate: superseded, too late, or arrived |
//! | `incoming` | messages put together again, judged by age, in order where that was promised |
//! | `mend` | parity and copies, and the losses that they make up for |
//! | `playout` | messages that are given on in even time |
//! | `pack`, `frame` | which of them travel together, and how that is written |
//! | `sampler` | which are worth sending |
//! | `repeat` | which frames are under way, which are lost and go again |
//! | `acks` | which frames of the peer arrived, and when it is told |
//! | `spans` | which bytes of a message |
//!
//! A message longer than [`FRAGMENT`] goes in parts, when the session's congestion control lets them.

mod acks;
mod declare;
mod event;
mod frame;
mod incoming;
mod mend;
mod outgoing;
mod pack;
mod playout;
mod repeat;
mod sampler;
mod spans;

use std::collections::VecDeque;

use taut_core::{Bytes, Deadline, DropCause, Duration, LeakyBucket, PeerTime, Time};
use taut_media::{Parity, Waiting};
use taut_wire::session::{
    ChannelKind, DataAck, DataHeader, Declaration, Delivery, Direction, Piece, Pieces, Role,
};

use self::acks::{LAZY, PROMPT, Received};
pub(crate) use self::declare::declare;
use self::declare::{Agreed, agree};
pub use self::declare::{Channel, ChannelError, ChannelRefusal, Schema};
pub use self::event::{ChannelEvent, ChannelSummary, SendRefused};
use self::incoming::{Incoming, Outcome, Whole, is_parity};
use self::mend::Load;
use self::outgoing::{Gone, Outgoing, sooner};
pub use self::pack::Packing;
use self::pack::{Packs, Taken};
pub use self::playout::Playout;
pub(crate) use self::repeat::Sent;
use self::repeat::{Fragment, UnderWay};
use self::sampler::Gate;
pub use self::sampler::{Quantity, Sampling};
use crate::counters::Drops;
use crate::motion;
use crate::sync::Stamp;

/// Bytes of a payload that travel in one frame: what every transport carries in one datagram, whatever seals it.
pub(crate) const FRAGMENT: usize = 1000;

/// Frames and messages are counted modulo this on the wire.
const COUNTED: u64 = 1 << 24;

/// A channel, by its place among those that this end declared, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u8);

/// Counts of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    made: u64,
    withheld: u64,
    delivered: u64,
    bytes: u64,
    repeated: u64,
    copies: u64,
    parity_bytes: u64,
    repaired: u64,
    played_late: u64,
    dropped: Drops,
}

/// A meter of this rate, messages in 1000 s, that takes so many milliseconds' at once; `None`: there is no limit.
fn meter(rate_mhz: u32, at_once_ms: u64) -> Option<LeakyBucket> {
    (rate_mhz > 0).then(|| {
        let rate = u64::from(rate_mhz);
        LeakyBucket::new(
            Duration::from_nanos(1_000_000_000_000 / rate),
            (rate * at_once_ms / 1_000_000).max(1),
        )
    })
}

/// A frame that the session gives to its transport; what is in it, the channels know until they hear what became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) number: u64,
    pub(crate) priority: u8,
    pub(crate) created: Time,
    pub(crate) deadline: Option<Duration>,
    /// Motion or feedback is in it.
    pub(crate) live: bool,
    /// It brings whole samples, which newer ones supersede wherever it waits.
    pub(crate) series: Option<u8>,
    /// Bytes in it that are neither.
    pub(crate) media: u64,
}

/// How channels may go now, and what the way is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// Bytes per second of what can wait, once they are known.
    pub(crate) rate: Option<f64>,
    /// To the peer.
    pub(crate) way: Duration,
    /// A loss is noticed after this or later.
    pub(crate) timeout: Duration,
}

/// All channels of one end.
#[derive(Debug)]
pub(crate) struct Channels {
    list: Vec<Channel>,
    ends: Vec<End>,
    tallies: Vec<Tally>,
    gates: Vec<Option<Gate>>,
    /// Own places by the peer's.
    by_peer: Vec<Option<usize>>,
    /// Own places of those that this end sends, the most urgent first.
    order: Vec<usize>,
    /// A transport that was full is asked again then.
    retry: Time,
    next_number: u64,
    packs: Packs,
    /// What is in the frame that was given out last.
    taken: Vec<Taken>,
    /// It tells what arrived.
    tells: bool,
    under_way: UnderWay,
    load: Load,
    received: Received,
    /// What came of a frame, and what became of messages: empty between calls, but for their room.
    outcome: Outcome,
    gone: Vec<Gone>,
    /// Motion that came and was not judged yet.
    arrived: VecDeque<Arrival>,
    events: VecDeque<ChannelEvent>,
}

/// Motion that came: nobody but a guard may let it through.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) channel: ChannelId,
    pub(crate) schema: motion::Schema,
    pub(crate) sequence: u64,
    pub(crate) stamp: Option<Stamp>,
    pub(crate) payload: Vec<u8>,
}

#[derive(Debug)]
enum End {
    Sends(Outgoing),
    Takes(Incoming),
}

/// A message is told to be no older than this when it is taken.
const OLDEST: Duration = Duration::from_secs(30 * 60);
/// Where the transport is full, it is asked again.
const TRANSPORT_FULL: Duration = Duration::from_millis(1);

impl Channels {
    /// Of this end, which packs what it sends so and to whose frames a driver adds such headers.
    pub(crate) fn new(role: Role, list: &[Channel], packing: &Packing, headers: Bytes) -> Self {
        let away = match role {
            Role::Operator => Direction::ToRobot,
            Role::Robot => Direction::ToOperator,
        };
        let end = |channel: &Channel| match channel.direction == away {
            true => End::Sends(Outgoing::new()),
            false => End::Takes(Incoming::new()),
        };
        let mut order: Vec<usize> = (0..list.len()).filter(|at| list[*at].direction == away).collect();
        order.sort_by_key(|at| list[*at].priority);
        if list.iter().any(Channel::may_have_parity) {
            Parity::prepare();
        }
        Self {
            ends: list.iter().map(end).collect(),
            tallies: vec![Tally::default(); list.len()],
            gates: list.iter().map(Gate::new).collect(),
            list: list.to_vec(),
            by_peer: Vec::new(),
            order,
            retry: Time::ZERO,
            next_number: 1,
            packs: Packs::new(packing, headers),
            taken: Vec::new(),
            tells: false,
            under_way: UnderWay::default(),
            load: Load::default(),
            received: Received::default(),
            outcome: Outcome::default(),
            gone: Vec::new(),
            arrived: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// As they stand in the hello.
    pub(crate) fn declarations(&self) -> Vec<Declaration> {
        self.list.iter().map(Channel::declaration).collect()
    }

    /// There is a session with a peer that declares these.
    pub(crate) fn open(&mut self, theirs: &[Declaration]) {
        self.close();
        for at in 0..self.list.len() {
            let channel = ChannelId(at as u8);
            self.gates[at].iter_mut().for_each(Gate::restart);
            let sends = matches!(self.ends[at], End::Sends(_));
            let agreed = agree(&self.list[at], sends, theirs);
            self.events.push_back(match agreed {
                Ok(_) => ChannelEvent::Opened { channel },
                Err(why) => ChannelEvent::Refused { channel, why },
            });
            match (&mut self.ends[at], agreed.ok()) {
                (End::Sends(out), agreed) => out.open(agreed, &mut self.gone),
                (End::Takes(incoming), agreed) => {
                    // Nothing is held of a session that was closed.
                    incoming.open(agreed);
                    if let Some(agreed) = agreed {
                        self.by_peer.resize(self.by_peer.len().max(usize::from(agreed.peer) + 1), None);
                        self.by_peer[usize::from(agreed.peer)] = Some(at);
                    }
                }
            }
        }
    }

    /// There is no session (any more). What waits is dropped.
    pub(crate) fn close(&mut self) {
        for at in 0..self.list.len() {
            match &mut self.ends[at] {
                End::Sends(out) => out.open(None, &mut self.gone),
                End::Takes(incoming) => {
                    let mut outcome = incoming.open(None);
                    self.tell_of(at, &mut outcome);
                }
            }
            self.tell(at);
        }
        self.arrived.clear();
        self.by_peer.clear();
        self.packs.restart();
        self.under_way = UnderWay::default();
        self.received = Received::default();
    }

    /// Takes a message that was made at `created`; one that is urgent counts against no rate.
    pub(crate) fn send(
        &mut self,
        now: Time,
        channel: ChannelId,
        created: Time,
        payload: &[u8],
        urgent: bool,
    ) -> Result<u64, SendRefused> {
        let at = usize::from(channel.0);
        let Some(End::Sends(out)) = self.ends.get_mut(at) else { return Err(SendRefused::NotOpen) };
        // On the wire a time is told from others of the same half hour.
        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(OLDEST.as_nanos()));
        let created = created.clamp(oldest, now);
        let samples = out.agreed().is_some_and(|agreed| agreed.delivery != Delivery::Reliable);
        let mut gate = self.gates[at].as_mut().filter(|_| samples);
        let reading = gate.as_ref().and_then(|gate| gate.read(payload));
        let is_worth =
            |gate: &&mut Gate| reading.as_ref().is_none_or(|reading| gate.lets_through(now, reading));
        let goes = urgent || gate.as_ref().is_none_or(is_worth);
        let together = self.packs.together;
        let sent = match goes {
            true => out.send(now, created, payload, (urgent, together), &mut self.gone),
            false => out.withhold(now, created, payload.len()),
        };
        if let Some((gate, reading)) = gate.as_mut().zip(reading) {
            gate.made(now, reading, goes && sent.is_ok());
        }
        self.tell(at);
        let live = self.is_live(at);
        let tally = &mut self.tallies[at];
        match sent {
            Ok(sequence) => {
                tally.made += 1;
                if live {
                    self.packs.tick(now, goes);
                }
                if !goes {
                    tally.withheld += 1;
                    self.events.push_back(ChannelEvent::Withheld { channel, sequence });
                }
            }
            Err(refused) => tally.dropped.add(refused.cause()),
        }
        sent
    }

    /// A message was refused before it came here.
    pub(crate) fn refuse(&mut self, channel: ChannelId, refused: SendRefused) -> SendRefused {
        if let Some(tally) = self.tallies.get_mut(usize::from(channel.0)) {
            tally.dropped.add(refused.cause());
        }
        refused
    }

    /// Does this end send over any of them?
    pub(crate) fn sends(&self) -> bool {
        !self.order.is_empty()
    }

    /// Is there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes of frames that could have waited and whose fate is not known.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.bytes()
    }

    /// The share that messages have of what goes: parity and copies have the rest.
    pub(crate) fn share(&self) -> f64 {
        self.load.share()
    }

    /// The next frame that is lost; what is worth it goes again.
    pub(crate) fn poll_lost(&mut self, now: Time, timeout: Duration) -> Option<Sent> {
        let lost = self.under_way.poll_lost(now, timeout)?;
        self.lose(now, &lost);
        Some(lost)
    }

    /// Forgets what is too late to be sent; copies whose time has come go.
    pub(crate) fn forget_late(&mut self, now: Time) {
        for place in 0..self.order.len() {
            let at = self.order[place];
            if let End::Sends(out) = &mut self.ends[at]
                && !out.is_empty()
            {
                out.forget_late(now, &mut self.gone);
                self.tallies[at].copies += out.copy(now);
            }
            self.tell(at);
        }
    }

    /// Motion and feedback are made at a rate, as states are; everything else can wait.
    fn is_live(&self, at: usize) -> bool {
        matches!(self.list[at].kind, ChannelKind::Motion | ChannelKind::Feedback)
    }

    /// Does anything wait that can?
    pub(crate) fn has_more(&self) -> bool {
        self.order.iter().any(|at| !self.is_live(*at) && self.waits(*at))
    }

    fn waits(&self, at: usize) -> bool {
        matches!(&self.ends[at], End::Sends(out) if out.has_more())
    }

    /// Can a frame go now? On most turns nothing waits, or what waits has nothing live to travel with.
    pub(crate) fn may_go(&self, now: Time, more: bool) -> bool {
        let along = self.packs.goes_along(now);
        // Whoever packs by time has to be asked.
        !along && !self.packs.is_separate()
            || self.order.iter().any(|at| (self.is_live(*at) || more && !along) && self.waits(*at))
    }

    /// The transport did not take it: never will it, or not now.
    pub(crate) fn refused(&mut self, now: Time, cause: DropCause) {
        if cause == DropCause::SendBufferFull {
            self.retry = now + TRANSPORT_FULL;
            return;
        }
        for Taken { channel, rest } in std::mem::take(&mut self.taken) {
            if let End::Sends(out) = &mut self.ends[channel] {
                out.refuse(rest.sequence, cause, &mut self.gone);
            }
            self.tell(channel);
        }
    }

    /// The transport dropped a frame that it had taken.
    pub(crate) fn dropped(&mut self, now: Time, number: u64, cause: DropCause) -> Option<Sent> {
        let dropped = self.under_way.take(number)?;
        if dropped.tells {
            self.received.tell_again(now);
        }
        // A sample that a newer one took the place of says nothing of whether there is room.
        if cause != DropCause::Superseded {
            self.retry = now + TRANSPORT_FULL;
        }
        self.lose(now, &dropped);
        for Fragment { channel: at, sequence, .. } in &dropped.fragments {
            let Some(End::Sends(out)) = self.ends.get_mut(*at) else { continue };
            if !out.agreed().is_some_and(Agreed::repeats) && out.lost_for_good(*sequence) {
                self.gone.push(Gone::Dropped(*sequence, cause));
                self.tell(*at);
            }
        }
        Some(dropped)
    }

    fn lose(&mut self, now: Time, frame: &Sent) {
        for Fragment { channel, sequence, range } in &frame.fragments {
            if let Some(End::Sends(out)) = self.ends.get_mut(*channel) {
                self.tallies[*channel].repeated += u64::from(out.lost(now, *sequence, range, &mut self.gone));
            }
            self.tell(*channel);
        }
    }

    /// A frame came, with these pieces. `stamp` judges a message by when its frame was sent, µs modulo 2³² of the peer's
    /// clock, and how long it waited before.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        header: &DataHeader,
        pieces: Pieces<'_>,
        mut stamp: impl FnMut(u32, Duration) -> Option<Stamp>,
    ) -> Result<(), DropCause> {
        let pieces = || pieces.clone().map_while(Result::ok);
        // Nobody asks what became of an acknowledgement alone.
        let (mut has_room, mut repeats) = (false, false);
        for (piece, _) in pieces() {
            self.own(&piece).ok_or(DropCause::Malformed)?;
            has_room = true;
        }
        let fresh = self.received.is_new(header.number);
        let mut outcome = std::mem::take(&mut self.outcome);
        for (piece, payload) in pieces() {
            let at = self.own(&piece).ok_or(DropCause::Malformed)?;
            let End::Takes(incoming) = &mut self.ends[at] else { return Err(DropCause::Malformed) };
            repeats |= incoming.agreed().is_some_and(Agreed::repeats);
            incoming.forget_late(now, &mut outcome);
            if !incoming.has_room(&piece, payload) {
                has_room = false;
                self.tallies[at].dropped.add(DropCause::QueueFullPackets);
            } else if !fresh {
                outcome.dropped.push((incoming.number_of(&piece), DropCause::Duplicate));
            } else {
                let stamp = stamp(header.sent_us, Duration::from_micros(u64::from(piece.waited_us)));
                let tally = &mut self.tallies[at];
                let bytes = if is_parity(&piece) { &mut tally.parity_bytes } else { &mut tally.bytes };
                *bytes += payload.len() as u64;
                incoming.handle(now, &piece, payload, stamp, &mut outcome);
            }
            self.tell_of(at, &mut outcome);
        }
        self.outcome = outcome;
        if has_room {
            let patience = if repeats { PROMPT } else { LAZY };
            self.received.record(now, header.number, patience, !fresh && repeats);
        }
        Ok(())
    }

    /// The own place of the channel of a piece that came.
    fn own(&self, piece: &Piece) -> Option<usize> {
        *self.by_peer.get(usize::from(piece.channel))?
    }

    /// Counts and tells what came of a frame.
    fn tell_of(&mut self, at: usize, outcome: &mut Outcome) {
        let (channel, tally) = (ChannelId(at as u8), &mut self.tallies[at]);
        tally.repaired += std::mem::take(&mut outcome.repaired);
        tally.played_late += std::mem::take(&mut outcome.late);
        for (sequence, cause) in outcome.dropped.drain(..) {
            tally.dropped.add(cause);
            self.events.push_back(ChannelEvent::Dropped { channel, sequence, cause });
        }
        for whole in outcome.whole.drain(..) {
            tally.delivered += 1;
            let Whole { sequence, stamp, payload } = whole;
            if let Some(schema) = self.list[at].motion() {
                self.arrived.push_back(Arrival { channel, schema, sequence, stamp, payload });
                continue;
            }
            let age = stamp.map(|stamp| stamp.age.likely);
            self.events.push_back(ChannelEvent::Received { channel, sequence, age, payload });
        }
    }

    /// The peer tells which frames arrived, and when the highest did by its clock; `each` hears of those that are new, and of the highest
    /// how long it took.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        ack: DataAck,
        arrived: Option<PeerTime>,
        mut each: impl FnMut(&Sent, Option<Duration>),
    ) {
        let largest = incoming::unwrapped(self.next_number, ack.largest);
        // Nobody has seen what was not sent yet.
        if largest >= self.next_number {
            return;
        }
        let seen = (0..64).filter(|i| ack.seen >> i & 1 != 0).filter_map(|i| largest.checked_sub(1 + i));
        let (mut there, mut frames) = (None, 0);
        for number in std::iter::once(largest).chain(seen) {
            let Some(sent) = self.under_way.arrived(number) else { continue };
            frames += 1;
            if let Some(arrived) = arrived.filter(|_| number == largest) {
                there = Some(arrived.0.wrapping_sub(sent.at.as_nanos()) as i64);
            }
            let held = ack.held().map(|us| Duration::from_micros(us.into()));
            let held = held.filter(|_| number == largest);
            let rtt = held.map(|held| now.saturating_since(sent.at).saturating_sub(held));
            rtt.iter().for_each(|rtt| self.under_way.took(*rtt));
            each(&sent, rtt);
            for Fragment { channel, sequence, range } in &sent.fragments {
                if let Some(End::Sends(out)) = self.ends.get_mut(*channel) {
                    out.arrived(*sequence, range, &mut self.gone);
                }
                self.tell(*channel);
            }
            self.under_way.give_back(sent.fragments);
        }
        self.under_way.acknowledged(largest);
        if let Some(there) = there {
            self.packs.delay(there, frames);
        }
    }

    /// Gives on what was held and whose time has come.
    pub(crate) fn play(&mut self, now: Time) {
        for at in 0..self.list.len() {
            if let End::Takes(incoming) = &mut self.ends[at]
                && incoming.due().is_some_and(|due| due <= now)
            {
                let mut outcome = std::mem::take(&mut self.outcome);
                incoming.play(now, &mut outcome);
                self.tell_of(at, &mut outcome);
                self.outcome = outcome;
            }
        }
    }

    /// The frame of an acknowledgement that is due, and with which nothing went.
    pub(crate) fn poll_ack(&mut self, now: Time, session: u32) -> Option<DataHeader> {
        self.received.due().filter(|due| now >= *due)?;
        let ack = self.received.rides(now);
        self.received.told();
        Some(DataHeader { session, number: 0, sent_us: frame::micros(now) as u32, ack })
    }

    /// The next motion that came.
    pub(crate) fn poll_motion(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    /// Motion that came is not used.
    pub(crate) fn discard(&mut self, channel: ChannelId, sequence: u64, cause: DropCause) {
        let tally = &mut self.tallies[usize::from(channel.0)];
        tally.delivered -= 1;
        tally.dropped.add(cause);
        self.events.push_back(ChannelEvent::Dropped { channel, sequence, cause });
    }

    /// What would move, by a whole message of the peer's; `None`: nothing.
    pub(crate) fn moves(&self, piece: &Piece) -> Option<motion::Schema> {
        let at = self.own(piece).filter(|_| piece.part.is_none())?;
        self.list[at].motion()
    }

    /// What would move, of a channel of this end; `None`: nothing.
    pub(crate) fn motion(&self, channel: ChannelId) -> Option<motion::Schema> {
        self.list.get(usize::from(channel.0)).and_then(Channel::motion)
    }

    /// Motion that waits to be sent is not sent any more.
    pub(crate) fn flush_motion(&mut self, cause: DropCause) {
        for at in 0..self.list.len() {
            if self.list[at].motion().is_some()
                && let End::Sends(out) = &mut self.ends[at]
            {
                out.flush(cause, &mut self.gone);
            }
            self.tell(at);
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<ChannelEvent> {
        self.events.pop_front()
    }

    /// When there is something to do. What is live goes when states do (`opens`), what can wait at `opens_for_more`; `None`: an
    /// acknowledgement has to come first.
    pub(crate) fn poll_timeout(
        &self,
        timeout: Duration,
        opens: Option<Deadline>,
        opens_for_more: impl Fn() -> Option<Time>,
    ) -> Option<Deadline> {
        let opens = opens.map_or(Time::ZERO, |opens| opens.at);
        let [mut sending, mut expires, mut copies] = [None; 3];
        for at in &self.order {
            let End::Sends(out) = &self.ends[*at] else { continue };
            let waiting = out.waiting();
            expires = sooner(expires, waiting.expires);
            if waiting.rests > 0 && self.packs.is_separate() {
                let opens = if self.is_live(*at) { Some(opens) } else { opens_for_more() };
                sending = sooner(sending, opens);
            }
            copies = sooner(copies, waiting.copy);
        }
        if !self.packs.is_separate() {
            let waiting = self.waiting(true);
            let due = |waiting| self.packs.poll_timeout(&waiting).map(|due| due.at);
            let live = due(Waiting { media: None, ..waiting }).map(|at| at.max(opens));
            let media = waiting.media.and_then(|_| due(Waiting { samples: 0, ..waiting }));
            let media = media.and_then(|at| opens_for_more().map(|opens| at.max(opens)));
            sending = sooner(live, media);
        }
        let played = self.ends.iter().fold(None, |played, end| match end {
            End::Sends(_) => played,
            End::Takes(incoming) => sooner(played, incoming.due()),
        });
        let all = [
            (sending.map(|at| at.max(self.retry)), "channel"),
            (expires, "channel deadline"),
            (self.under_way.due(timeout), "channel repeat"),
            (self.received.due(), "channel acknowledgement"),
            (copies, "channel copy"),
            (played, "play-out"),
        ];
        let due = all.into_iter().filter_map(|(at, why)| Some((at?, why))).min_by_key(|(at, _)| *at);
        due.map(|(at, why)| Deadline::new(at, why))
    }

    /// What each did.
    pub(crate) fn summaries(&self) -> Vec<ChannelSummary> {
        let summary = |(at, channel): (usize, &Channel)| {
            let tally = self.tallies[at];
            let open = match &self.ends[at] {
                End::Sends(out) => out.agreed().is_some(),
                End::Takes(incoming) => incoming.agreed().is_some(),
            };
            ChannelSummary {
                name: channel.name.clone(),
                direction: channel.direction.name(),
                open,
                made: tally.made,
                withheld: tally.withheld,
                delivered: tally.delivered,
                bytes: tally.bytes,
                repeated: tally.repeated,
                copies: tally.copies,
                parity_bytes: tally.parity_bytes,
                repaired: tally.repaired,
                played_late: tally.played_late,
                dropped: tally.dropped.by_name(),
            }
        };
        self.list.iter().enumerate().map(summary).collect()
    }

    /// Counts and tells what became of messages of a channel.
    fn tell(&mut self, at: usize) {
        if self.gone.is_empty() {
            return;
        }
        let channel = ChannelId(at as u8);
        for gone in self.gone.drain(..) {
            let tally = &mut self.tallies[at];
            self.events.push_back(match gone {
                Gone::Dropped(sequence, cause) => {
                    tally.dropped.add(cause);
                    ChannelEvent::Dropped { channel, sequence, cause }
                }
                Gone::Arrived(sequence) => {
                    tally.delivered += 1;
                    ChannelEvent::Arrived { channel, sequence }
                }
            });
        }
    }
}
