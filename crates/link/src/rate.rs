//! How fast a bottleneck serialises.

use taut_core::{Bitrate, Bytes, Duration, Time};

use crate::{MahimahiTrace, Schedule};

/// The rate of a [`Bottleneck`](crate::Bottleneck).
///
/// A bit rate, a table of bit rates and a trace all become one by `into()`.
#[derive(Clone, Debug)]
pub enum Rate {
    /// Always the same. Zero: nothing ever leaves.
    Fixed(Bitrate),
    /// The delivery opportunities of a cellular trace.
    Trace(MahimahiTrace),
    /// Changing over time. A packet that is being serialised feels the change at once.
    Table(Schedule<Bitrate>),
}

impl From<Bitrate> for Rate {
    fn from(rate: Bitrate) -> Self {
        Self::Fixed(rate)
    }
}

impl From<MahimahiTrace> for Rate {
    fn from(trace: MahimahiTrace) -> Self {
        Self::Trace(trace)
    }
}

impl From<Schedule<Bitrate>> for Rate {
    fn from(table: Schedule<Bitrate>) -> Self {
        Self::Table(table)
    }
}

/// Computes when packets have been serialised, exactly in the long run.
///
/// Work is counted in bit·ns·/s: a packet of *b* bits is *b*·10⁹ of it, and a nanosecond at *R* bit/s does *R*. A
/// packet's end is rounded down to a nanosecond, and the work that this leaves undone is carried to the next packet.
#[derive(Clone, Debug)]
pub(crate) struct Serializer {
    rate: Schedule<Bitrate>,
    /// For a looping table: a lap's length, and the work it does.
    lap: Option<(u64, u128)>,
    /// When the last packet ended, rounded down, and what was left undone then.
    free: Time,
    undone: u64,
}

/// Work per byte.
const BYTE: u64 = 8_000_000_000;

impl Serializer {
    pub(crate) fn new(rate: Schedule<Bitrate>) -> Self {
        let lap = rate.lap().map(|(segments, period)| {
            let work = |(length, rate): (Duration, Bitrate)| {
                u128::from(length.as_nanos()) * u128::from(rate.as_bps())
            };
            (period.as_nanos(), segments.map(work).sum())
        });
        Self { rate, lap, free: Time::ZERO, undone: 0 }
    }

    /// When a packet of `size` that is begun at `start` has been serialised; [`Time::MAX`] for never.
    #[inline]
    pub(crate) fn finish(&mut self, start: Time, size: Bytes) -> Time {
        if start > self.free {
            self.undone = 0;
        }
        let (rate, until) = self.rate.segment(start);
        let work = size.get().checked_mul(BYTE).and_then(|work| work.checked_add(self.undone));
        if let (Some(work), 1..) = (work, rate.as_bps()) {
            let end = start + Duration::from_nanos(work / rate.as_bps());
            if end < until {
                self.undone = work % rate.as_bps();
                self.free = end;
                return end;
            }
        }
        self.free = self
            .finish_across_rows(start, u128::from(size.get()) * u128::from(BYTE) + u128::from(self.undone));
        self.free
    }

    #[cold]
    fn finish_across_rows(&mut self, start: Time, mut work: u128) -> Time {
        let mut at = u128::from(start.as_nanos());
        if let Some((period, work_per_lap)) = self.lap {
            // Whole laps first, but never all of the work: the end lies inside a lap.
            let Some(laps) = work.saturating_sub(1).checked_div(work_per_lap) else { return Time::MAX };
            at = at.saturating_add(laps.saturating_mul(u128::from(period)));
            work -= laps * work_per_lap;
        }
        loop {
            let Ok(now) = u64::try_from(at) else { return Time::MAX };
            let (rate, until) = self.rate.segment(Time::from_nanos(now));
            let (rate, until_nanos) = (u128::from(rate.as_bps()), u128::from(until.as_nanos()));
            if let Some(length) = work.checked_div(rate)
                && at + length < until_nanos
            {
                self.undone = (work % rate) as u64;
                return Time::from_nanos((at + length) as u64);
            }
            if until == Time::MAX {
                return Time::MAX;
            }
            work -= rate * (until_nanos - at);
            at = until_nanos;
            if work == 0 {
                self.undone = 0;
                return until;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILOBYTE: Bytes = Bytes::new(1_000);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn mbit(megabits: u64) -> Bitrate {
        Bitrate::from_bps(megabits * 1_000_000)
    }

    #[test]
    fn the_remainder_is_carried_so_that_the_rate_is_exact() {
        // 1000 bytes at 3 Mbit/s take 2666666 and two thirds of a nanosecond.
        let mut server = Serializer::new(mbit(3).into());
        let mut at = Time::ZERO;
        let ends: Vec<u64> = (0..3)
            .map(|_| {
                at = server.finish(at, KILOBYTE);
                at.as_nanos()
            })
            .collect();
        assert_eq!(ends, [2_666_666, 5_333_333, 8_000_000]);
        for _ in 3..3_000_000 {
            at = server.finish(at, KILOBYTE);
        }
        assert_eq!(at, Time::ZERO + Duration::from_secs(8_000));
    }

    #[test]
    fn the_remainder_is_gone_after_an_idle_nanosecond() {
        let mut server = Serializer::new(mbit(3).into());
        let end = server.finish(Time::ZERO, KILOBYTE);
        let later = end + Duration::from_nanos(1);
        assert_eq!(server.finish(later, KILOBYTE) - later, Duration::from_nanos(2_666_666));
    }

    #[test]
    fn a_packet_in_service_feels_a_change_of_rate() {
        // 8000 bits: half of them at 8 Mbit/s, then nothing for 1 ms, then the rest at 1 Mbit/s.
        let us = Duration::from_micros;
        let rows = vec![(us(0), mbit(8)), (us(500), mbit(0)), (us(1_500), mbit(1))];
        let mut server = Serializer::new(Schedule::table(rows).unwrap());
        assert_eq!(server.finish(Time::ZERO, KILOBYTE), Time::ZERO + us(5_500));
        assert_eq!(server.finish(Time::ZERO + us(5_500), KILOBYTE), Time::ZERO + us(13_500));
    }

    #[test]
    fn a_looping_rate_is_exact_over_many_laps() {
        // 1 ms at 8 Mbit/s and 1 ms of silence: 1000 bytes a lap.
        let table =
            Schedule::table(vec![(ms(0), mbit(8)), (ms(1), mbit(0))]).unwrap().looping(ms(2)).unwrap();
        let mut server = Serializer::new(table.clone());
        assert_eq!(server.finish(Time::ZERO, KILOBYTE), Time::ZERO + ms(1));
        assert_eq!(
            server.finish(Time::ZERO + ms(1), Bytes::new(500)),
            Time::ZERO + Duration::from_micros(2_500)
        );
        // A thousand million laps in one step.
        let mut server = Serializer::new(table);
        let size = Bytes::new(1_000_000_000_000);
        assert_eq!(server.finish(Time::ZERO, size), Time::ZERO + Duration::from_secs(2_000_000) - ms(1));
    }

    #[test]
    fn without_any_rate_nothing_ever_leaves() {
        assert_eq!(Serializer::new(Bitrate::ZERO.into()).finish(Time::ZERO, KILOBYTE), Time::MAX);
        let ends = Schedule::table(vec![(ms(0), mbit(1)), (ms(1), mbit(0))]).unwrap();
        assert_eq!(Serializer::new(ends).finish(Time::ZERO, KILOBYTE), Time::MAX);
        let silent = Schedule::table(vec![(ms(0), mbit(0))]).unwrap().looping(ms(1)).unwrap();
        assert_eq!(Serializer::new(silent).finish(Time::ZERO, KILOBYTE), Time::MAX);
    }
}
