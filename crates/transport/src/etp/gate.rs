//! Who waits for the gap to open, who goes when it does, and who is superseded meanwhile.

use std::collections::VecDeque;

use taut_core::{
    Bytes, Deadline, DropCause, Duration, Event, Message, Priority, Reliability, SendError, Time, Waiting,
};

use crate::message_queue::alike;

/// How often the rates are reported.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// What the gap cost, in messages. `offered = sent + superseded + too_late + refused_below +` what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Taken by `send`.
    pub offered: u64,
    /// Sent.
    pub sent: u64,
    /// Replaced by a newer one while they waited.
    pub superseded: u64,
    /// Older than their deadline when it was their turn.
    pub too_late: u64,
    /// Not taken by the transport below, over which the gap is kept; and what waited when what is around it ended.
    pub refused_below: u64,
}

/// How a [`Gate`] is built.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateConfig {
    /// Messages that wait at most; of priority 0 a tenth more.
    pub(super) limit: usize,
    /// Bytes that the samples of one priority may take in a packed payload; `None`: only the newest of them waits.
    pub(super) pack: Option<usize>,
    /// Bytes that each message of a packed payload takes beside its own.
    pub(super) overhead: usize,
    /// Messages at least this urgent do not wait.
    pub(super) urgent: Option<Priority>,
    /// How long before the gap's end a message may go.
    pub(super) tolerance: Duration,
}

/// Messages before and behind the gate, in the order in which they came, and when the last packet went.
#[derive(Debug)]
pub(super) struct Gate {
    config: GateConfig,
    waiting: VecDeque<Message>,
    /// Came when the gate was open or were urgent: they go as soon as the driver asks, and nothing supersedes them.
    /// So it makes no difference whether a driver polls after every message or after several.
    through: VecDeque<Message>,
    last: Option<Time>,
    sampling: Sampling,
    reported: Report,
    events: VecDeque<Event>,
}

/// Where the counters stood when the rates were reported last.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    at: Time,
    offered: u64,
    sent: u64,
}

impl Gate {
    pub(super) fn new(config: GateConfig) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            through: VecDeque::new(),
            last: None,
            sampling: Sampling::default(),
            reported: Report::default(),
            events: VecDeque::new(),
        }
    }

    pub(super) fn set_urgent(&mut self, urgent: Option<Priority>) {
        self.config.urgent = urgent;
    }

    pub(super) fn sampling(&self) -> Sampling {
        self.sampling
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes a message in. It goes through if the gate is open and nobody waits; otherwise, a sample supersedes
    /// older ones of its stream, series and priority: without packing all of them, with packing as many of the oldest as do not
    /// fit one payload beside it.
    pub(super) fn offer(&mut self, now: Time, gap: Duration, message: Message) -> Result<(), SendError> {
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        let through = self.goes_through(now, gap, &message);
        if !through && message.is_sample() {
            self.supersede(&message);
        }
        if self.len() >= self.config.limit {
            self.make_room(&message)?;
        }
        if self.sampling.offered == 0 {
            self.reported.at = now;
        }
        self.report_rates(now);
        self.sampling.offered += 1;
        if through {
            let urgent = self.is_urgent(&message);
            self.begin_gap(now, if urgent { Duration::ZERO } else { gap });
            self.through.push_back(message);
        } else {
            self.waiting.push_back(message);
        }
        Ok(())
    }

    fn goes_through(&self, now: Time, gap: Duration, message: &Message) -> bool {
        let nobody = self.waiting.is_empty() && (self.through.is_empty() || gap.is_zero());
        self.is_urgent(message) || (nobody && self.opens(gap) <= now)
    }

    fn is_urgent(&self, message: &Message) -> bool {
        self.config.urgent.is_some_and(|urgent| message.priority <= urgent)
    }

    /// A packet goes; the gap counts from when it ought to have gone, if that is still to come.
    fn begin_gap(&mut self, now: Time, gap: Duration) {
        let due = self.last.map_or(now, |last| last + gap);
        self.last = Some(now.max(due));
    }

    fn opens(&self, gap: Duration) -> Time {
        self.last.map_or(Time::ZERO, |last| last + gap - self.config.tolerance)
    }

    pub(super) fn waiting(&self) -> Waiting {
        let is_urgent = |message: &Message| message.priority.is_sample_or_above() && message.is_sample();
        if self.waiting.iter().any(is_urgent) { Waiting::Samples } else { Waiting::Nothing }
    }

    fn supersede(&mut self, newer: &Message) {
        let same = |m: &Message| alike(m, newer);
        let overhead = self.config.overhead;
        let cost = |m: &Message| m.data.len() + overhead;
        let mut total: usize = self.waiting.iter().filter(|m| same(m)).map(cost).sum();
        let allowed = self.config.pack.map(|capacity| capacity.saturating_sub(cost(newer)));
        while let Some(oldest) = self.waiting.iter().position(same) {
            if allowed.is_some_and(|allowed| total <= allowed) {
                return;
            }
            total -= cost(&self.waiting[oldest]);
            self.drop_at(oldest, DropCause::Superseded);
        }
    }

    /// Drops the oldest of the least urgent samples, unless all that wait is reliable or more urgent than the newcomer. What stops a robot has
    /// room of its own then.
    fn make_room(&mut self, newcomer: &Message) -> Result<(), SendError> {
        let samples = || self.waiting.iter().filter(|m| m.reliability == Reliability::Unreliable);
        let least = samples()
            .map(|m| m.priority)
            .max()
            .filter(|least| newcomer.reliability == Reliability::Reliable || newcomer.priority <= *least);
        let victim = least.and_then(|least| {
            self.waiting.iter().position(|m| m.reliability == Reliability::Unreliable && m.priority == least)
        });
        match victim {
            Some(index) => {
                self.drop_at(index, DropCause::Superseded);
                Ok(())
            }
            None if newcomer.priority == Priority(0) && self.len() < self.limit_of_stops() => Ok(()),
            None => {
                let held = self.waiting.iter().chain(&self.through).map(|m| m.data.len() as u64).sum();
                Err(SendError::BufferFull(Bytes::new(held)))
            }
        }
    }

    fn len(&self) -> usize {
        self.waiting.len() + self.through.len()
    }

    fn limit_of_stops(&self) -> usize {
        self.config.limit + self.config.limit.div_ceil(10)
    }

    fn drop_at(&mut self, index: usize, cause: DropCause) {
        if let Some(message) = self.waiting.remove(index) {
            self.dropped(message.tag, cause);
        }
    }

    fn dropped(&mut self, tag: u64, cause: DropCause) {
        match cause {
            DropCause::Superseded => self.sampling.superseded += 1,
            DropCause::TooLate => self.sampling.too_late += 1,
            _ => self.sampling.refused_below += 1,
        }
        self.events.push_back(Event::Dropped { tag, cause });
    }

    /// When the next message may go; `None` when there is none.
    pub(super) fn poll_timeout(&self, gap: Duration) -> Option<Deadline> {
        if !self.through.is_empty() {
            return Some(Deadline::new(Time::ZERO, "gap"));
        }
        (!self.waiting.is_empty()).then(|| Deadline::new(self.opens(gap), "gap"))
    }

    /// May a packet go now? If so, the gap begins behind it, and [`Gate::next`] gives its messages. Those too late are
    /// dropped here.
    pub(super) fn pass(&mut self, now: Time, gap: Duration) -> bool {
        if self.poll_timeout(gap).is_none_or(|opens| now < opens.at) {
            return false;
        }
        while let Some(index) = self.through.iter().position(|m| m.is_late(now)) {
            let tag = self.through.remove(index).map_or(0, |message| message.tag);
            self.dropped(tag, DropCause::TooLate);
        }
        while let Some(index) = self.waiting.iter().position(|m| m.is_late(now)) {
            self.drop_at(index, DropCause::TooLate);
        }
        // What was entitled to go may just have been dropped.
        let passes = self.poll_timeout(gap).is_some_and(|opens| opens.at <= now);
        if passes {
            // What is through has begun its gap already; it lasts from when it really goes.
            self.begin_gap(now, if self.through.is_empty() { gap } else { Duration::ZERO });
        }
        passes
    }

    /// The message that goes first, if it is no longer than `longest`: those that are through in their order; then the
    /// most urgent; of those the reliable ones before the samples; of those the oldest.
    pub(super) fn next(&mut self, longest: usize) -> Option<Message> {
        if self.next_len()? > longest {
            return None;
        }
        self.sampling.sent += 1;
        self.through.pop_front().or_else(|| self.waiting.remove(self.first()?))
    }

    /// The length of the message that goes first.
    pub(super) fn next_len(&self) -> Option<usize> {
        let first = self.through.front().or_else(|| self.waiting.get(self.first()?))?;
        Some(first.data.len())
    }

    fn first(&self) -> Option<usize> {
        let rank = |m: &Message| (m.priority, m.reliability == Reliability::Unreliable);
        (0..self.waiting.len()).min_by_key(|index| rank(&self.waiting[*index]))
    }

    /// What is around it has ended.
    pub(super) fn abandon(&mut self) {
        let (through, waiting) = (std::mem::take(&mut self.through), std::mem::take(&mut self.waiting));
        let all = through.into_iter().chain(waiting);
        all.for_each(|message| self.dropped(message.tag, DropCause::Abandoned));
    }

    /// A message that was taken here and that the transport below would not take.
    pub(super) fn refused(&mut self, tag: u64, cause: DropCause) {
        self.sampling.sent -= 1;
        self.dropped(tag, cause);
    }

    fn report_rates(&mut self, now: Time) {
        let elapsed = now.saturating_since(self.reported.at);
        if elapsed < RATE_WINDOW {
            return;
        }
        let hz = |count: u64| count as f64 / elapsed.as_secs_f64();
        let offered_hz = hz(self.sampling.offered - self.reported.offered);
        let sent_hz = hz(self.sampling.sent - self.reported.sent);
        self.events.push_back(Event::Gauge { name: "offered_hz", value: offered_hz });
        self.events.push_back(Event::Gauge { name: "sent_hz", value: sent_hz });
        self.reported = Report { at: now, offered: self.sampling.offered, sent: self.sampling.sent };
    }
}
