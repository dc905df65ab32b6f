//! From what was seen of a path to a scenario of it.
//!
//! A probe sends numbered messages at equal distances. Each end notes when a message left and arrived, by its own clock; [`compare`] finds afterwards
//! what both clocks differ by. What was seen of a direction is a [`Seen`]; [`Seen::fit`] says which of the lab's elements would do the same, [`Trains`] how
//! much the path carries, and [`scenario`] writes all of it as files: one plays what was seen, one has the fitted elements. Nothing here reads a clock or owns a socket.

mod clocks;
mod fit;
mod report;
mod scenario;
mod trains;

use taut_core::{Bytes, Duration, Link, Packet, PacketMeta, Time};

use crate::metrics::Summary;
use taut_report::result::Distribution;

pub use clocks::compare;
pub use fit::{Fit, FitError, FittedJitter, FittedLoss};
pub use report::report;
pub use scenario::{Files, Probed, Way, scenario};
pub use trains::Trains;

/// When a message arrived, and what that says of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// From its sending to its arrival, in ns: by two clocks until they are [compared](compare), and then its delay.
    pub transit_ns: i64,
    /// The receiving host was not awake when it came: it arrived, and its delay says nothing of the path.
    pub held: bool,
    /// One that was sent later came before it. Where arrivals are told in their order, [`Seen::arrived`] finds it.
    pub overtaken: bool,
}

/// What was seen of one direction.
#[derive(Clone, Debug)]
pub struct Seen {
    every: Duration,
    /// By number; `None`: it did not arrive.
    arrivals: Vec<Option<Arrival>>,
    /// The highest number that arrived so far.
    newest: Option<usize>,
    overtaken: u64,
}

impl Seen {
    /// Messages at most: a quarter of an hour at 1 kHz.
    pub const MOST: usize = 900_000;

    /// Of so many messages, at most [`Seen::MOST`], `every` apart, of which none has arrived yet.
    pub fn new(every: Duration, messages: usize) -> Self {
        Self { every, arrivals: vec![None; messages.min(Self::MOST)], newest: None, overtaken: 0 }
    }

    /// What a probe of so many messages of this `size` on the wire would see of a link, in virtual time.
    pub fn over(link: &mut dyn Link, every: Duration, messages: usize, size: Bytes) -> Self {
        let mut seen = Self::new(every, messages);
        for number in 0..seen.arrivals.len() as u64 {
            let now = Time::ZERO + every.saturating_mul(number);
            while let Some(due) = link.poll_timeout().filter(|due| due.at <= now) {
                link.handle_timeout(due.at);
                seen.leave(link, due.at);
            }
            let meta = PacketMeta { id: number, sent: now, size, ..PacketMeta::default() };
            link.handle_input(now, Packet { meta, payload: Vec::new() });
            seen.leave(link, now);
        }
        while let Some(due) = link.poll_timeout() {
            link.handle_timeout(due.at);
            seen.leave(link, due.at);
        }
        seen
    }

    /// What leaves the link arrives.
    fn leave(&mut self, link: &mut dyn Link, now: Time) {
        while let Some(packet) = link.poll_transmit(now) {
            let transit_ns = now.saturating_since(packet.meta.sent).as_nanos() as i64;
            self.arrived(packet.meta.id as usize, Arrival { transit_ns, held: false, overtaken: false });
        }
        while link.poll_event().is_some() {}
    }

    /// The message with this number, from 0, arrived. False when it did so before, or was never sent.
    pub fn arrived(&mut self, number: usize, arrival: Arrival) -> bool {
        let Some(place) = self.arrivals.get_mut(number).filter(|place| place.is_none()) else { return false };
        let overtaken = arrival.overtaken || self.newest.is_some_and(|newest| number < newest);
        *place = Some(Arrival { overtaken, ..arrival });
        self.overtaken += u64::from(overtaken);
        self.newest = self.newest.max(Some(number));
        true
    }

    /// How many arrived.
    pub fn received(&self) -> usize {
        self.arrivals.iter().flatten().count()
    }

    /// Of those, how many the receiving host was not awake for.
    pub fn held(&self) -> usize {
        self.arrivals.iter().flatten().filter(|arrival| arrival.held).count()
    }

    /// Those that arrived after one that was sent later.
    pub const fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// The delay that this share of what arrived and was not held keeps within, from 0 to 1; `None` when nothing arrived.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let sorted = self.sorted();
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(share.clamp(0.0, 1.0) * last as f64).round() as usize])
    }

    /// The standard deviation of the delay of what arrived and was not held.
    pub fn deviation(&self) -> Duration {
        let delays: Vec<f64> = self.sorted().iter().map(|delay| delay.as_nanos() as f64).collect();
        let count = delays.len().max(1) as f64;
        let mean = delays.iter().sum::<f64>() / count;
        let square = delays.iter().map(|delay| (delay - mean) * (delay - mean)).sum::<f64>() / count;
        Duration::from_nanos(square.sqrt().round() as u64)
    }

    /// How long what arrived and was not held took; `None` when nothing arrived.
    pub fn distribution(&self) -> Option<Distribution> {
        let mut summary = Summary::default();
        self.clean().for_each(|delay| summary.record(delay));
        summary.to_result()
    }

    /// Of the messages up to the last one that arrived, the share that did not, 0 to 1.
    pub fn lost(&self) -> f64 {
        let sent = self.newest.map_or(0, |newest| newest + 1);
        (sent - self.received()) as f64 / sent.max(1) as f64
    }

    /// The delays of what arrived and was not held.
    fn clean(&self) -> impl Iterator<Item = Duration> {
        self.arrivals.iter().flatten().filter(|arrival| !arrival.held).map(|arrival| arrival.delay())
    }

    fn sorted(&self) -> Vec<Duration> {
        let mut sorted: Vec<Duration> = self.clean().collect();
        sorted.sort_unstable();
        sorted
    }

    /// By number, `None` for what did not arrive, as a path that no host held up would have done it: what was held takes as long as the last one before that was not.
    pub fn delays(&self) -> impl Iterator<Item = Option<Duration>> {
        let mut last = None;
        self.arrivals.iter().map(move |arrival| {
            let arrival = arrival.as_ref()?;
            if !arrival.held {
                last = Some(arrival.delay());
            }
            last.or(Some(arrival.delay()))
        })
    }
}

impl Arrival {
    /// What is left of an error of the comparison may make it less than nothing.
    fn delay(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.transit_ns).unwrap_or(0))
    }
}
