//! How much a path carries, from messages that were sent one right behind the other.

use taut_core::{Bitrate, Bytes};

/// Arrivals of trains of messages, by which a path's narrowest link spreads them: the more the slower it is (Dovrolis, Ramanathan and Moore,
/// *Packet-dispersion techniques and a capacity-estimation methodology*, 2004).
#[derive(Clone, Debug)]
pub struct Trains {
    /// Of a message, with all its headers.
    size: Bytes,
    length: usize,
    /// Of each train the arrivals, in ns by the receiver's clock, and how many.
    seen: Vec<Option<Train>>,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    first_ns: i64,
    last_ns: i64,
    messages: u64,
    /// Of these, those that the receiving host was not awake for: they came at once.
    held: u64,
}

impl Trains {
    /// Messages of a train that have to arrive, for it to say anything.
    pub const LEAST: u64 = 16;

    /// Of so many `trains`, each of `length` messages of `size` on the wire.
    pub fn new(trains: usize, length: usize, size: Bytes) -> Self {
        Self { size, length, seen: vec![None; trains] }
    }

    /// A message with this number, counted over all trains from 0, arrived at this time, or was read then by a host that had been `held` up.
    pub fn arrived(&mut self, number: usize, at_ns: i64, held: bool) {
        let Some(train) = self.seen.get_mut(number / self.length.max(1)) else { return };
        let train = train.get_or_insert(Train { first_ns: at_ns, last_ns: at_ns, messages: 0, held: 0 });
        train.first_ns = train.first_ns.min(at_ns);
        train.last_ns = train.last_ns.max(at_ns);
        train.messages += 1;
        train.held += u64::from(held);
    }

    /// What the path carries at most: the median of its trains that were not read all at once. `None` where half of all, or more, say nothing. A path that is faster than
    /// either host sends or reads looks as fast as the host.
    pub fn rate(&self) -> Option<Bitrate> {
        let bits = self.size.get() as f64 * 8.0;
        let told = self
            .seen
            .iter()
            .flatten()
            .filter(|train| train.messages >= Self::LEAST && train.held * 2 < train.messages);
        let mut rates: Vec<f64> = told
            .map(|train| (train.messages - 1, train.last_ns.saturating_sub(train.first_ns)))
            .filter(|(_, took_ns)| *took_ns > 0)
            .map(|(messages, took_ns)| messages as f64 * bits * 1e9 / took_ns as f64)
            .collect();
        if rates.len() * 2 <= self.seen.len() {
            return None;
        }
        rates.sort_unstable_by(f64::total_cmp);
        Some(Bitrate::from_bps(rates[rates.len() / 2] as u64))
    }

    /// What arrived of the train that lost least: a queue takes that much at once, and more where it is a whole train.
    pub fn taken(&self) -> Bytes {
        self.size * self.seen.iter().flatten().map(|train| train.messages).max().unwrap_or(0)
    }

    /// A message, with all its headers.
    pub const fn size(&self) -> Bytes {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of 20 messages before 1 Mbit/s.
    #[test]
    fn a_link_spreads_a_train_and_its_queue_cuts_it() {
        let mut trains = Trains::new(5, 48, Bytes::new(1_000));
        for train in 0..5 {
            for message in 0..20 {
                trains.arrived(
                    train * 48 + message,
                    3_000_000_000 * train as i64 + 8_000_000 * message as i64,
                    false,
                );
            }
        }
        assert_eq!(trains.rate(), Some(Bitrate::from_bps(1_000_000)));
        assert_eq!(trains.taken(), Bytes::new(20_000));
    }

    #[test]
    fn of_trains_that_hardly_arrive_no_rate_is_told() {
        let mut trains = Trains::new(5, 48, Bytes::new(1_000));
        for train in 0..5 {
            for message in 0..(Trains::LEAST as usize - 1) {
                trains.arrived(train * 48 + message, message as i64, false);
            }
        }
        assert_eq!(trains.rate(), None);
        trains.arrived(10_000, 0, false);
    }

    /// One message in four is lost on the way, not in the queue; one train is read all at once.
    #[test]
    fn chance_does_not_make_a_queue_shorter_than_the_best_train_nor_a_sleeping_host_a_path_faster() {
        let mut trains = Trains::new(5, 48, Bytes::new(1_000));
        for train in 0..5 {
            for message in (0..48).filter(|message| train == 4 || message % 4 != 1) {
                let at = if train == 3 { 0 } else { 1_000_000 * message };
                trains.arrived(train * 48 + message as usize, at, train == 3);
            }
        }
        let rate = trains.rate().unwrap().as_bps();
        assert!((5_000_000..8_000_000).contains(&rate), "{rate}");
        assert_eq!(trains.taken(), Bytes::new(48_000));
    }
}
