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
//! | `fates` | what became of frames that went, and of the messages in them |
//! | `arrivals` | what is done with a frame that comes |
//! | `acks` | which frames of the peer arrived, and when it is told |
//! | `spans` | which bytes of a message |
//!
//! A message longer than [`FRAGMENT`] goes in parts, when the session's congestion control lets them.

mod acks;
mod arrivals;
mod declare;
mod event;
mod fates;
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

use taut_core::{Bytes, Deadline, DropCause, Duration, LeakyBucket, Time};
use taut_media::{Parity, Waiting};
use taut_wire::session::{ChannelKind, Declaration, Delivery, Direction, Role};

use self::acks::{LAZY, PROMPT, Patience, Received};
pub(crate) use self::arrivals::Arrival;
use self::declare::agree;
pub(crate) use self::declare::declare;
pub use self::declare::{Channel, ChannelDefaults, ChannelError, ChannelRefusal, Schema};
pub use self::event::{ChannelEvent, ChannelSummary, SendRefused};
use self::incoming::{Incoming, Outcome};
use self::mend::Load;
use self::outgoing::{Gone, Outgoing, sooner};
pub use self::pack::Packing;
use self::pack::{Packs, Taken};
pub use self::playout::Playout;
use self::repeat::UnderWay;
use self::sampler::Gate;
pub use self::sampler::{Quantity, Sampling};
use crate::congestion::Untold;
use crate::counters::Drops;
use crate::motion;

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
    /// How long the peer waits, at most, until it tells that a frame arrived that could have waited.
    told: Patience,
    load: Load,
    received: Received,
    /// What came of a frame, and what became of messages: empty between calls, but for their room.
    outcome: Outcome,
    gone: Vec<Gone>,
    /// Motion that came and was not judged yet.
    arrived: VecDeque<Arrival>,
    events: VecDeque<ChannelEvent>,
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
            told: PROMPT,
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

    /// There is a session with a peer that declares these, and that sent nothing of it before `since`, where that is known.
    pub(crate) fn open(&mut self, theirs: &[Declaration], since: Option<Time>) {
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
                    incoming.open(agreed, since);
                    if let Some(agreed) = agreed {
                        self.by_peer.resize(self.by_peer.len().max(usize::from(agreed.peer) + 1), None);
                        self.by_peer[usize::from(agreed.peer)] = Some(at);
                    }
                }
            }
        }
        let is_told_late = |at: &usize| match &self.ends[*at] {
            End::Sends(out) => !self.is_live(*at) && out.agreed().is_some_and(|agreed| !agreed.repeats()),
            End::Takes(_) => false,
        };
        self.told = if self.order.iter().any(is_told_late) { LAZY } else { PROMPT };
    }

    /// There is no session (any more). What waits is dropped.
    pub(crate) fn close(&mut self) {
        for at in 0..self.list.len() {
            match &mut self.ends[at] {
                End::Sends(out) => out.open(None, &mut self.gone),
                End::Takes(incoming) => {
                    let mut outcome = incoming.open(None, None);
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

    /// So many live messages were not made, for the device was asked too late.
    pub(crate) fn miss(&mut self, messages: u64) {
        self.packs.miss(messages);
    }

    /// A message was refused before it came here.
    pub(crate) fn refuse(&mut self, channel: ChannelId, refused: SendRefused) -> SendRefused {
        if let Some(tally) = self.tallies.get_mut(usize::from(channel.0)) {
            tally.dropped.add(refused.cause());
        }
        refused
    }

    /// Are there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Does this end send over any of them?
    pub(crate) fn sends(&self) -> bool {
        !self.order.is_empty()
    }

    /// Bytes of frames that could have waited and whose fate is not known.
    pub(crate) fn untold(&self) -> Untold {
        let Patience { delay, frames } = self.told;
        Untold {
            bytes: self.under_way.bytes(),
            told_after: delay,
            told_bytes: u64::from(frames) * FRAGMENT as u64,
        }
    }

    /// The share of frames that is lost on the way, of those that follow one another the first alone.
    pub(crate) fn loss(&self) -> f64 {
        self.under_way.loss_events()
    }

    /// The share that messages have of what goes: parity and copies have the rest.
    pub(crate) fn share(&self) -> f64 {
        self.load.share()
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
}
