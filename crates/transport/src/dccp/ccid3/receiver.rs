//! The receiver of data: when to report, and what (RFC 4342 sections 6, 8 and 10, RFC 5348 section 6).

use std::collections::VecDeque;

use taut_core::{Duration, Time};
use taut_wire::dccp::{DccpOption, LossIntervals, Seq};

use super::loss::{Arrived, LossHistory};

/// Arrivals that are remembered for the receive rate.
const MAX_ARRIVALS: usize = 16_384;

/// One data packet as it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataPacket {
    pub(crate) seq: Seq,
    /// The window counter.
    pub(crate) counter: u8,
    pub(crate) marked: bool,
    /// Bytes of data; `None` of a packet without.
    pub(crate) bytes: Option<usize>,
    /// Its NDP Count.
    pub(crate) ndp: u64,
}

/// What a receiver keeps.
#[derive(Clone, Debug)]
pub(crate) struct Ccid3Receiver {
    losses: LossHistory,
    clock: WindowClock,
    /// Data packets of late: when, and their bytes.
    arrivals: VecDeque<(Time, u64)>,
    /// The greatest receive rate so far, in packets per second.
    best: f64,
    /// When the last report went, and the steps of the window counter by then.
    reported: Option<(Time, u64)>,
    due: bool,
    scratch: Vec<u8>,
}

impl Ccid3Receiver {
    /// `rtt`: the handshake's, until the window counters tell a better one.
    pub(crate) fn new(first: Seq, rtt: Option<Duration>) -> Self {
        Self {
            losses: LossHistory::new(first),
            clock: WindowClock { newest: None, seen: VecDeque::new(), rtt },
            arrivals: VecDeque::new(),
            best: 0.0,
            reported: None,
            due: false,
            scratch: Vec::new(),
        }
    }

    /// A packet arrived for the first time.
    pub(crate) fn on_packet(&mut self, now: Time, packet: DataPacket) {
        let arrived = Arrived {
            at: now,
            data: packet.bytes.is_some(),
            marked: packet.marked,
            counter: packet.counter,
            ndp: packet.ndp,
        };
        if let Some(bytes) = packet.bytes {
            self.clock.tick(now, packet.seq, packet.counter);
            self.arrivals.push_back((now, bytes as u64));
            if self.arrivals.len() > MAX_ARRIVALS {
                self.arrivals.pop_front();
            }
            // RFC 4342 section 10.3: the first one, and then once four quarters of a round trip have passed.
            // Of a flow slower than that the counters may have gone around a whole circle.
            let slow = self.clock.rtt.unwrap_or(Duration::MAX).saturating_mul(2);
            self.due |= self.reported.is_none_or(|(at, steps)| {
                self.clock.steps() >= steps + 4 || now.saturating_since(at) >= slow
            });
        }
        let rate = self.best.max(self.rate(now).1) * self.clock.rtt.map_or(0.0, Duration::as_secs_f64);
        self.clock.rtt.into_iter().for_each(|rtt| self.losses.round_trip(rtt));
        self.due |= self.losses.record(packet.seq, arrived, rate);
    }

    /// Shall an acknowledgement go now?
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// The loss event rate; 0 before the first loss.
    pub(crate) fn loss_event_rate(&self) -> f64 {
        self.losses.rate()
    }

    /// Writes the options of a report. `elapsed`: since the packet arrived that is acknowledged. `event_rate`: write the
    /// Loss Event Rate, too.
    pub(crate) fn report(&mut self, now: Time, elapsed: Duration, event_rate: bool, options: &mut Vec<u8>) {
        let units = u32::try_from(elapsed.as_nanos() / 10_000).unwrap_or(u32::MAX);
        DccpOption::ElapsedTime(units).emit(options);
        let (bytes_per_s, packets_per_s) = self.rate(now);
        // The first report speaks of no time at all: the rate is not known (RFC 5348 section 6.3).
        let known = self.reported.is_some();
        DccpOption::ReceiveRate(if known { bytes_per_s as u32 } else { 0 }).emit(options);
        self.best = self.best.max(if known { packets_per_s } else { 0.0 });
        let (skip, intervals) = self.losses.report();
        self.scratch.clear();
        self.scratch.push(skip);
        intervals.for_each(|interval| interval.emit(&mut self.scratch));
        let intervals = LossIntervals::parse(&self.scratch).expect("one interval at least");
        DccpOption::LossIntervals(intervals).emit(options);
        if event_rate {
            let rate = self.losses.rate();
            let inverse = if rate > 0.0 { libm::ceil(1.0 / rate) as u32 } else { u32::MAX };
            DccpOption::LossEventRate(inverse).emit(options);
        }
        self.reported = Some((now, self.clock.steps()));
        self.due = false;
        let forget = now - self.clock.rtt.unwrap_or(Duration::ZERO);
        while self.arrivals.front().is_some_and(|(at, _)| *at < forget) {
            self.arrivals.pop_front();
        }
    }

    /// RFC 4342 section 8.3: bytes, and packets, per second over a round trip or the time since the last report, whichever
    /// is longer.
    fn rate(&self, now: Time) -> (f64, f64) {
        let since = self.reported.map_or(Duration::ZERO, |(at, _)| now.saturating_since(at));
        let span = since.max(self.clock.rtt.unwrap_or(Duration::ZERO));
        if span.is_zero() {
            return (0.0, 0.0);
        }
        let from = now - span;
        let late = self.arrivals.iter().rev().take_while(|(at, _)| *at > from);
        let (packets, bytes) = late.fold((0u64, 0), |(n, sum), (_, bytes)| (n + 1, sum + bytes));
        (bytes as f64 / span.as_secs_f64(), packets as f64 / span.as_secs_f64())
    }
}

/// The round trip as the window counters tell it (RFC 4342 section 8.1): four steps are one.
///
/// A packet goes five steps at most beyond the one before it, and four beyond what was acknowledged, so that a slow flow takes nine for each
/// packet: which of two is the later one only their sequence numbers tell.
#[derive(Clone, Debug)]
struct WindowClock {
    /// The newest data packet, and its counter.
    newest: Option<(Seq, u8)>,
    /// Steps since the first packet, with the arrival of the first one there; the newest last.
    seen: VecDeque<(u64, Time)>,
    rtt: Option<Duration>,
}

impl WindowClock {
    fn tick(&mut self, now: Time, seq: Seq, counter: u8) {
        if self.newest.is_some_and(|(newest, _)| !seq.is_after(newest)) {
            return;
        }
        let last = self.newest.replace((seq, counter));
        let ahead = last.map_or(0, |(_, last)| counter.wrapping_sub(last) & 0x0f);
        if last.is_some() && ahead == 0 {
            return;
        }
        let at_step = self.steps() + u64::from(ahead);
        self.seen.push_back((at_step, now));
        if self.seen.len() > 5 {
            self.seen.pop_front();
        }
        let steps = |(first, at): &(u64, Time)| (at_step - first, now.saturating_since(*at));
        // Four steps tell most; five and more may have skipped some.
        let best = self.seen.iter().map(steps).filter(|(n, _)| (2..=4).contains(n)).max_by_key(|(n, _)| *n);
        if let Some((n, time)) = best {
            let sample = time * 4 / n;
            self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
        }
    }

    fn steps(&self) -> u64 {
        self.seen.back().map_or(0, |(steps, _)| *steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_wire::dccp::Options;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// 1 kHz of 100 bytes; the sender's round trip is 20 ms, so its counter steps every 5 ms.
    fn run(receiver: &mut Ccid3Receiver, ms: std::ops::Range<u64>, lost: &[u64]) -> Vec<(u64, u32, f64)> {
        let mut reports = Vec::new();
        for t in ms.filter(|t| !lost.contains(t)) {
            let packet = DataPacket {
                seq: Seq::new(t),
                counter: (t / 5 % 16) as u8,
                marked: false,
                bytes: Some(100),
                ndp: 0,
            };
            receiver.on_packet(at(t), packet);
            if receiver.is_due() {
                let mut options = Vec::new();
                receiver.report(at(t), Duration::ZERO, false, &mut options);
                let rate = Options::new(&options).find_map(|option| match option {
                    DccpOption::ReceiveRate(rate) => Some(rate),
                    _ => None,
                });
                reports.push((t, rate.expect("a receive rate"), receiver.loss_event_rate()));
            }
        }
        reports
    }

    #[test]
    fn a_report_goes_once_in_a_round_trip_with_the_rate_since() {
        let mut receiver = Ccid3Receiver::new(Seq::new(0), None);
        let reports = run(&mut receiver, 0..100, &[]);
        let expected = [(0, 0), (20, 100_000), (40, 100_000), (60, 100_000), (80, 100_000)];
        assert!(reports.iter().map(|(t, rate, _)| (*t, *rate)).eq(expected), "{reports:?}");
        assert_eq!(receiver.clock.rtt, Some(MS * 20));
    }

    /// A packet every 100 ms over a round trip of 20 ms: five steps for the time, four for what was acknowledged (RFC 4342 section 8.1).
    #[test]
    fn every_packet_of_a_slow_flow_is_reported_with_the_rate_since_the_last() {
        let mut receiver = Ccid3Receiver::new(Seq::new(0), Some(MS * 20));
        let mut rates = Vec::new();
        for (n, counter) in [0, 9, 2, 11, 4].into_iter().enumerate() {
            let (seq, now) = (Seq::new(n as u64), at(100 * n as u64));
            receiver.on_packet(now, DataPacket { seq, counter, marked: false, bytes: Some(100), ndp: 0 });
            assert!(receiver.is_due(), "{counter}");
            let mut options = Vec::new();
            receiver.report(now, Duration::ZERO, false, &mut options);
            rates.extend(Options::new(&options).filter_map(|option| match option {
                DccpOption::ReceiveRate(rate) => Some(rate),
                _ => None,
            }));
        }
        assert_eq!((rates, receiver.clock.rtt), (vec![0, 1_000, 1_000, 1_000, 1_000], Some(MS * 20)));
    }

    /// RFC 5348 section 6.3.1: 20 packets arrived in a round trip, and the first interval allows as many: f(p) = 0.05.
    #[test]
    fn a_new_loss_event_is_reported_at_once() {
        let mut receiver = Ccid3Receiver::new(Seq::new(0), None);
        let reports = run(&mut receiver, 0..100, &[50]);
        let (t, rate, p) = reports[3];
        assert_eq!(t, 53);
        assert!((94_000..=100_000).contains(&rate), "{rate}");
        assert!((p - 0.0035).abs() < 0.0005, "{p}");
    }
}
