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
}

impl Trains {
    /// Messages of a train that have to arrive, for it to say anything.
    pub const LEAST: u64 = 16;

    /// Of so many `trains`, each of `length` messages of `size` on the wire.
    pub fn new(trains: usize, length: usize, size: Bytes) -> Self {
        Self { size, length, seen: vec![None; trains] }
    }

    /// A message with this number, counted over all trains from 0, arrived at this time.
    pub fn arrived(&mut self, number: usize, at_ns: i64) {
        let Some(train) = self.seen.get_mut(number / self.length.max(1)) else { return };
        let train = train.get_or_insert(Train { first_ns: at_ns, last_ns: at_ns, messages: 0 });
        train.first_ns = train.first_ns.min(at_ns);
        train.last_ns = train.last_ns.max(at_ns);
        train.messages += 1;
    }

    /// What the path carries: the median of its trains. `None` where fewer than half of them arrived well enough. A path that is faster than either host sends
    /// or reads looks as fast as the host.
    pub fn rate(&self) -> Option<Bitrate> {
        let bits = self.size.get() as f64 * 8.0;
        let told = self.seen.iter().flatten().filter(|train| train.messages >= Self::LEAST);
        let mut rates: Vec<f64> = told
            .filter(|train| train.last_ns > train.first_ns)
            .map(|train| (train.messages - 1) as f64 * bits * 1e9 / (train.last_ns - train.first_ns) as f64)
            .collect();
        if rates.len() * 2 <= self.seen.len() {
            return None;
        }
        rates.sort_unstable_by(f64::total_cmp);
        Some(Bitrate::from_bps(rates[rates.len() / 2] as u64))
    }

    /// What a queue took of a train: what arrived of the median one. All of it, and the queue holds more than that.
    pub fn taken(&self) -> Bytes {
        let mut messages: Vec<u64> =
            self.seen.iter().map(|train| train.map_or(0, |train| train.messages)).collect();
        messages.sort_unstable();
        self.size * messages.get(messages.len() / 2).copied().unwrap_or(0)
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
                trains
                    .arrived(train * 48 + message, 3_000_000_000 * train as i64 + 8_000_000 * message as i64);
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
                trains.arrived(train * 48 + message, message as i64);
            }
        }
        assert_eq!(trains.rate(), None);
        trains.arrived(10_000, 0);
    }
}
