//! What became of messages, as the end that answers a probe tells the other one when nothing is measured any more.

use taut_core::{Duration, Time};
use taut_lab::probe::Arrival;

/// Between two messages of receipts.
pub(super) const EVERY: Duration = Duration::from_millis(8);
/// Receipts in one message.
const BATCH: usize = 250;
/// Messages that are sent before the other end says that it has them, far fewer than a channel keeps.
const WINDOW: usize = 48;
/// They are sent again when it has said nothing new for so long.
const AGAIN: Duration = Duration::from_secs(2);
/// A transit is told by how much it is more than the first one less this.
const ORIGIN_NS: i64 = 100_000_000_000;
/// In units of so many ns: 100 s either way of the first.
const UNIT_NS: i64 = 200;

/// How long receipts of so many messages take, at the least.
pub(super) fn take(messages: usize) -> Duration {
    EVERY * messages.div_ceil(BATCH) as u64
}

/// A word for each message, by their numbers: its transit, whether it was overtaken, and whether it was held; 0 did not arrive. Bytes of a message of receipts, little-endian: the
/// probe (4), the first number (4), the transit that words count from (8), and words of 4.
pub(super) struct Receipts {
    probe: u32,
    origin_ns: Option<i64>,
    words: Vec<u32>,
    /// The highest number that arrived, and one more.
    newest: usize,
    sent: usize,
    /// What the other end has, and when it said so.
    had: (usize, Time),
}

impl Receipts {
    /// Of a probe of so many messages.
    pub(super) fn new(probe: u32, messages: usize, now: Time) -> Self {
        Self { probe, origin_ns: None, words: vec![0; messages], newest: 0, sent: 0, had: (0, now) }
    }

    /// Numbers beyond those of the probe are none.
    pub(super) fn arrived(&mut self, number: usize, arrival: Arrival) {
        let Some(word) = self.words.get_mut(number) else { return };
        let origin = *self.origin_ns.get_or_insert(arrival.transit_ns.saturating_sub(ORIGIN_NS));
        let units = arrival.transit_ns.saturating_sub(origin) / UNIT_NS;
        let units = units.clamp(1, i64::from(u32::MAX >> 2)) as u32;
        let overtaken = number + 1 < self.newest;
        *word = units << 2 | u32::from(overtaken) << 1 | u32::from(arrival.held);
        self.newest = self.newest.max(number + 1);
    }

    /// The other end has those of so many numbers.
    pub(super) fn has(&mut self, numbers: usize, now: Time) {
        if numbers > self.had.0 && numbers <= self.sent {
            self.had = (numbers, now);
        }
    }

    /// The next message, if one may go.
    pub(super) fn next(&mut self, now: Time) -> Option<Vec<u8>> {
        let (had, at) = self.had;
        if self.sent == 0 {
            self.had.1 = now;
        } else if self.sent > had && now.saturating_since(at) > AGAIN {
            (self.sent, self.had.1) = (had, now);
        }
        let batch = self.words.get(self.sent..).filter(|rest| !rest.is_empty())?;
        if self.sent >= had + WINDOW * BATCH {
            return None;
        }
        let batch = &batch[..batch.len().min(BATCH)];
        let mut payload = Vec::with_capacity(16 + 4 * batch.len());
        payload.extend(self.probe.to_le_bytes());
        payload.extend((self.sent as u32).to_le_bytes());
        payload.extend(self.origin_ns.unwrap_or(0).to_le_bytes());
        payload.extend(batch.iter().flat_map(|word| word.to_le_bytes()));
        self.sent += batch.len();
        Some(payload)
    }
}

/// The first number of a message of receipts, and what became of each.
pub(super) fn parse(payload: &[u8]) -> Option<(usize, impl Iterator<Item = Option<Arrival>>)> {
    let first = u32::from_le_bytes(payload.get(4..8)?.try_into().ok()?) as usize;
    let origin_ns = i64::from_le_bytes(payload.get(8..16)?.try_into().ok()?);
    let words = payload[16..].as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let arrivals = words.map(move |word| {
        let transit_ns = origin_ns.saturating_add(i64::from(word >> 2) * UNIT_NS);
        (word != 0).then_some(Arrival { transit_ns, held: word & 1 != 0, overtaken: word & 2 != 0 })
    });
    Some((first, arrivals))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(transit_ns: i64) -> Arrival {
        Arrival { transit_ns, held: false, overtaken: false }
    }

    #[test]
    fn what_arrived_is_told_and_told_again_until_the_other_end_has_it() {
        let mut receipts = Receipts::new(7, 600, Time::ZERO);
        for number in (0..600).rev().filter(|number| number % 3 != 0) {
            receipts.arrived(number, arrival(-5_000_000_000 + 1_000 * number as i64));
        }
        receipts.arrived(600, arrival(0)); // Not one of the probe.
        let mut told = Vec::new();
        for _ in 0..2 {
            // Nobody says that it has them: the same once more.
            let now = Time::ZERO + AGAIN.saturating_mul(2) * (told.len() as u64);
            let all: Vec<_> = std::iter::from_fn(|| receipts.next(now)).collect();
            told.push(all);
        }
        assert_eq!(told[0], told[1]);
        let mut number = 0;
        for payload in &told[0] {
            let (first, arrivals) = parse(payload).unwrap();
            assert_eq!(first, number);
            for told in arrivals {
                let truth = (number % 3 != 0).then(|| -5_000_000_000 + 1_000 * number as i64);
                assert_eq!(told.map(|told| told.transit_ns), truth);
                assert!(told.is_none_or(|told| told.overtaken == (number < 599)));
                number += 1;
            }
        }
        assert_eq!(number, 600);
        receipts.has(600, Time::ZERO);
        assert_eq!(receipts.next(Time::MAX), None, "it has all");
    }

    #[test]
    fn no_more_goes_than_the_other_end_can_be_behind() {
        let mut receipts = Receipts::new(7, 100_000, Time::ZERO);
        assert_eq!(std::iter::from_fn(|| receipts.next(Time::ZERO)).count(), WINDOW);
        receipts.has(BATCH, Time::ZERO);
        assert_eq!(std::iter::from_fn(|| receipts.next(Time::ZERO)).count(), 1);
    }
}
