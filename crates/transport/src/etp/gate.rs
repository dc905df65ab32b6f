//! Who waits for the gap to open, who goes when it does, and who is superseded meanwhile.

use std::collections::VecDeque;

use taut_core::{Bytes, Deadline, DropCause, Duration, Event, Message, Priority, Reliability, SendError, Time};

use crate::udp::is_late;

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
    /// Not taken by the transport below, over which the gap is kept; always 0 over UDP.
    pub refused_below: u64,
    /// When the first one was offered.
    pub since: Option<Time>,
}

impl Sampling {
    /// The fraction of the offered messages that was sent, in [0, 1]; 1 when none was offered.
    pub fn sent_fraction(&self) -> f64 {
        if self.offered == 0 { 1.0 } else { self.sent as f64 / self.offered as f64 }
    }

    /// Messages offered per second from the first one until `now`.
    pub fn offered_hz(&self, now: Time) -> f64 {
        self.rate(now, self.offered)
    }

    /// The effective sampling rate: messages sent per second from the first one offered until `now`.
    pub fn sent_hz(&self, now: Time) -> f64 {
        self.rate(now, self.sent)
    }

    fn rate(&self, now: Time, count: u64) -> f64 {
        let elapsed = self.since.map_or(Duration::ZERO, |since| now.saturating_since(since));
        if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
    }
}

/// How a [`Gate`] is built.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateConfig {
    /// Messages that wait at most.
    pub(super) limit: usize,
    /// Bytes that the samples of one priority may take in a packed payload; `None`: only the newest of them waits.
    pub(super) pack: Option<usize>,
    /// Bytes that each message of a packed payload takes beside its own.
    pub(super) overhead: usize,
    /// Messages at least this urgent do not wait.
    pub(super) urgent: Option<Priority>,
}

/// Messages that wait, in the order in which they came, and when the last packet went.
#[derive(Debug)]
pub(super) struct Gate {
    config: GateConfig,
    waiting: VecDeque<Message>,
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
            last: None,
            sampling: Sampling::default(),
            reported: Report::default(),
            events: VecDeque::new(),
        }
    }

    pub(super) fn sampling(&self) -> Sampling {
        self.sampling
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes a message in. An unreliable one supersedes older unreliable ones of its priority: without packing all of
    /// them, with packing as many of the oldest as do not fit one payload beside it.
    pub(super) fn offer(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        if is_late(now, &message) {
            return Err(SendError::TooLate);
        }
        if message.reliability == Reliability::Unreliable {
            self.supersede(&message);
        }
        if self.waiting.len() >= self.config.limit {
            self.make_room(&message)?;
        }
        if self.sampling.since.is_none() {
            self.sampling.since = Some(now);
            self.reported.at = now;
        }
        self.report_rates(now);
        self.sampling.offered += 1;
        self.waiting.push_back(message);
        Ok(())
    }

    fn supersede(&mut self, newer: &Message) {
        let same = |m: &Message| m.reliability == Reliability::Unreliable && m.priority == newer.priority;
        let cost = |m: &Message| m.data.len() + self.config.overhead;
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

    /// Drops the oldest of the least urgent samples, unless all that wait is reliable or more urgent than the newcomer.
    fn make_room(&mut self, newcomer: &Message) -> Result<(), SendError> {
        let samples = || self.waiting.iter().filter(|m| m.reliability == Reliability::Unreliable);
        let least = samples().map(|m| m.priority).max().filter(|least| {
            newcomer.reliability == Reliability::Reliable || newcomer.priority <= *least
        });
        let victim = least.and_then(|least| {
            self.waiting
                .iter()
                .position(|m| m.reliability == Reliability::Unreliable && m.priority == least)
        });
        match victim {
            Some(index) => {
                self.drop_at(index, DropCause::Superseded);
                Ok(())
            }
            None => {
                let held = self.waiting.iter().map(|m| m.data.len() as u64).sum();
                Err(SendError::BufferFull(Bytes::new(held)))
            }
        }
    }

    fn drop_at(&mut self, index: usize, cause: DropCause) {
        let Some(message) = self.waiting.remove(index) else { return };
        match cause {
            DropCause::TooLate => self.sampling.too_late += 1,
            _ => self.sampling.superseded += 1,
        }
        self.events.push_back(Event::Dropped { tag: message.tag, cause });
    }

    /// When the next message may go; `None` when none waits.
    pub(super) fn poll_timeout(&self, gap: Duration) -> Option<Deadline> {
        if self.waiting.is_empty() {
            return None;
        }
        let opens = match self.last {
            Some(last) if !self.has_urgent() => last + gap,
            _ => Time::ZERO,
        };
        Some(Deadline::new(opens, "gap"))
    }

    fn has_urgent(&self) -> bool {
        self.config.urgent.is_some_and(|urgent| self.waiting.iter().any(|m| m.priority <= urgent))
    }

    /// Closes the gate behind a packet, if it is open and a message in time waits; then [`Gate::next`] gives the
    /// messages of that packet. Those too late are dropped here.
    pub(super) fn pass(&mut self, now: Time, gap: Duration) -> bool {
        if self.poll_timeout(gap).is_none_or(|opens| now < opens.at) {
            return false;
        }
        while let Some(late) = self.waiting.iter().position(|m| is_late(now, m)) {
            self.drop_at(late, DropCause::TooLate);
        }
        // What was urgent may just have been dropped.
        if self.poll_timeout(gap).is_none_or(|opens| now < opens.at) {
            return false;
        }
        self.last = Some(now);
        true
    }

    /// The message that goes first, if it is no longer than `longest`: the most urgent; of those the reliable ones
    /// before the samples; of those the oldest.
    pub(super) fn next(&mut self, longest: usize) -> Option<Message> {
        let first = self.first()?;
        if self.waiting[first].data.len() > longest {
            return None;
        }
        self.sampling.sent += 1;
        self.waiting.remove(first)
    }

    /// The length of the message that goes first.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.first().map(|index| self.waiting[index].data.len())
    }

    fn first(&self) -> Option<usize> {
        let rank = |m: &Message| (m.priority, m.reliability == Reliability::Unreliable);
        (0..self.waiting.len()).min_by_key(|index| rank(&self.waiting[*index]))
    }

    /// A message that was taken here and that the transport below would not take.
    pub(super) fn refused(&mut self, tag: u64, cause: DropCause) {
        self.sampling.sent -= 1;
        match cause {
            DropCause::TooLate => self.sampling.too_late += 1,
            _ => self.sampling.refused_below += 1,
        }
        self.events.push_back(Event::Dropped { tag, cause });
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
