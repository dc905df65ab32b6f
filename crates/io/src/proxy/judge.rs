//! What of that which arrives may still be given to an application: what is neither too old nor overtaken.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{Deadline, DropCause, Duration, Time, earliest};
use taut_transport::window::{REPLAY_WINDOW, Window};
use taut_wire::proxy::Header;

use super::clocks::{Clocks, Way};

/// What an end asks of datagrams from the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The age at which one is worthless, counted from when the other proxy got it. `None`: what the other end says alone.
    pub(super) deadline: Option<Duration>,
    /// One may be given after another that was said later in its flow.
    pub(super) keep_overtaken: bool,
    /// All of what the clocks leave open counts against a datagram.
    pub(super) strict: bool,
}

/// Judges what arrives, in order, and holds what it cannot judge yet: of unknown age, for the time of an exchange of clocks.
#[derive(Debug)]
pub(super) struct Judge {
    rules: Rules,
    pub(super) clocks: Clocks,
    /// Which life of the other end its numbers and its clock are of.
    life: Option<u32>,
    /// What was given, by flow.
    given: BTreeMap<u16, Window>,
    waiting: VecDeque<Arrived>,
    /// Bytes of these, each with [`COST`] more.
    bytes: usize,
}

/// A datagram of the other end, in its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) at: Time,
    pub(super) header: Header,
    pub(super) frame: Vec<u8>,
}

/// Of what waits for clocks to be compared, bytes at most.
const WAITING: usize = 256 * 1024;
const COST: usize = 64;
/// Flows of which it is known what was given: as many as there can be.
const FLOWS: usize = 4_096;
/// So much of a deadline may be in doubt, and counts against a datagram: on a round trip of up to half a deadline nothing late is given,
/// on a longer one what may be in time still is.
const DOUBTED: u64 = 4;

impl Judge {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            clocks: Clocks::default(),
            life: None,
            given: BTreeMap::new(),
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The other end says which life it is in; another one numbers anew, by another clock. How many datagrams of the one before were
    /// still waiting: they are dropped.
    pub(super) fn meet(&mut self, now: Time, life: u32) -> u64 {
        if self.life.replace(life).is_none_or(|before| before == life) {
            return 0;
        }
        self.given.clear();
        self.clocks.begin_anew(now);
        self.drop_waiting()
    }

    /// The conversation is over. How many datagrams were still waiting: they are dropped.
    pub(super) fn disconnected(&mut self) -> u64 {
        self.clocks.end();
        self.drop_waiting()
    }

    /// A datagram arrived.
    pub(super) fn take(&mut self, now: Time, header: Header, frame: Vec<u8>) {
        self.bytes += frame.len() + COST;
        self.waiting.push_back(Arrived { at: now, header, frame });
    }

    /// The next datagram that can be judged, and why it is not to be given.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Arrived, Option<DropCause>)> {
        let header = self.waiting.front()?.header;
        let cause = match self.is_late(now, &header) {
            Some(true) => Some(DropCause::TooLate),
            Some(false) => self.out_of_order(&header),
            None if self.is_worthless(now) || self.bytes > WAITING => Some(DropCause::TooLate),
            None => return None,
        };
        let arrived = self.waiting.pop_front()?;
        self.bytes -= arrived.frame.len() + COST;
        Some((arrived, cause))
    }

    /// The application got it.
    pub(super) fn was_given(&mut self, header: &Header) {
        let number = self.number(header);
        if self.given.len() >= FLOWS && !self.given.contains_key(&header.flow) {
            // Numbers are of all flows together: the least is of the flow that was silent for longest.
            let quietest = self.given.iter().min_by_key(|(_, window)| window.next()).map(|(flow, _)| *flow);
            quietest.and_then(|flow| self.given.remove(&flow));
        }
        self.given.entry(header.flow).or_default().mark(number);
    }

    /// When there is something to do though nothing arrives.
    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        let held = self.waiting.front().and_then(|first| Some(first.at + self.deadline(&first.header)?));
        let held = held.map(|at| Deadline::new(at, "unknown age"));
        earliest(held, self.clocks.due().map(|at| Deadline::new(at, "clock")))
    }

    fn drop_waiting(&mut self) -> u64 {
        self.bytes = 0;
        self.waiting.drain(..).count() as u64
    }

    /// The age at which it is worthless, to either end.
    fn deadline(&self, header: &Header) -> Option<Duration> {
        let theirs = (header.deadline_us > 0).then(|| Duration::from_micros(header.deadline_us.into()));
        self.rules.deadline.into_iter().chain(theirs).min()
    }

    /// Is it past its deadline, as far as that can be said? `None`: nobody knows how old it is.
    fn is_late(&mut self, now: Time, header: &Header) -> Option<bool> {
        let Some(deadline) = self.deadline(header) else { return Some(false) };
        let waited = Duration::from_micros(header.age_us.into());
        if header.age_us == u32::MAX || waited >= deadline {
            return Some(true);
        }
        let Way { took, doubt } = self.clocks.way(now, header.clock_ns)?;
        let doubted = if self.rules.strict { doubt } else { doubt.min(deadline / DOUBTED) };
        // So much in doubt, an age says nothing.
        Some(doubt >= deadline || waited + took + doubted >= deadline)
    }

    /// The first one waited here for so long that it is worthless whatever its age was.
    fn is_worthless(&self, now: Time) -> bool {
        let held = |first: &Arrived| Some(now.saturating_since(first.at) >= self.deadline(&first.header)?);
        self.waiting.front().and_then(held).unwrap_or(false)
    }

    fn out_of_order(&self, header: &Header) -> Option<DropCause> {
        let (window, number) = (self.given.get(&header.flow)?, self.number(header));
        let behind = window.next().saturating_sub(number);
        match window.is_new(number) {
            false if behind <= REPLAY_WINDOW => Some(DropCause::Duplicate),
            // Too far behind to tell.
            false => Some(DropCause::Superseded),
            true => (behind > 0 && !self.rules.keep_overtaken).then_some(DropCause::Superseded),
        }
    }

    /// The number whose low half this is, nearest to the newest of its flow.
    fn number(&self, header: &Header) -> u64 {
        let first = 1 << 32 | u64::from(header.number);
        let near = self.given.get(&header.flow).map_or(first, Window::next);
        near.wrapping_add_signed(i64::from(header.number.wrapping_sub(near as u32) as i32))
    }
}
