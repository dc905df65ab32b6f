//! Google Congestion Control (draft-ietf-rmcat-gcc-02): a rate that falls while delays grow.

use taut_core::{Bitrate, Bytes, Deadline, Duration, Time};
use taut_media::gcc::{GccConfig, Rate};

use super::Arrived;
use super::flight::Claim;

/// The rate of `taut_media`'s controller, fed with acknowledgements in place of reports by RFC 8888: everything goes evenly at it, states
/// first, and what can wait gets what they leave. It has no window (section 4: a pacer), and no state's loss is told.
#[derive(Debug)]
pub(crate) struct Gcc {
    rate: Rate,
    sent: u64,
    /// Bytes that arrived since the last time of arrival, and packets since the last decision.
    bytes: u64,
    packets: u64,
    rtt: Duration,
    decided: Time,
    last: Time,
    last_bytes: u64,
    more: Time,
    more_bytes: u64,
    claim: Claim,
}

/// What a device at 1 kHz takes: from the 300 kbit/s of a video it would be reached after 20 s.
const START: Bitrate = Bitrate::from_bps(1_500_000);
/// It is decided this often, as on reports of WebRTC's transport-wide feedback (50 to 100 ms).
const INTERVAL: Duration = Duration::from_millis(50);

impl Gcc {
    pub(super) fn new() -> Self {
        Self {
            rate: Rate::new(GccConfig::new().start(START)),
            sent: 0,
            bytes: 0,
            packets: 0,
            rtt: Duration::ZERO,
            decided: Time::ZERO,
            last: Time::ZERO,
            last_bytes: 0,
            more: Time::ZERO,
            more_bytes: 0,
            claim: Claim::default(),
        }
    }

    pub(super) fn sent(&mut self, now: Time, bytes: u64, can_wait: bool) -> u64 {
        let apart = self.opens().saturating_since(self.last);
        self.last = (self.last + apart).max(now - apart / 2).min(now);
        self.last_bytes = bytes;
        if can_wait {
            (self.more, self.more_bytes) = (now, bytes);
        }
        self.sent += bytes;
        self.sent
    }

    pub(super) fn made(&mut self, now: Time, bytes: u64) {
        self.claim.record(now, bytes);
    }

    fn opens(&self) -> Time {
        self.last + self.rate.target().time_for(Bytes::new(self.last_bytes))
    }

    pub(super) fn admits(&self, now: Time) -> bool {
        now >= self.opens()
    }

    pub(super) fn admits_more(&self, now: Time) -> bool {
        self.opens_for_more().is_some_and(|opens| now >= opens)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        Some(Deadline::new(self.opens(), "rate"))
    }

    pub(super) fn opens_for_more(&self) -> Option<Time> {
        let takes = self.more_bytes as f64 / self.left();
        Some(self.opens().max(self.more + Duration::from_secs_f64(takes)))
    }

    fn left(&self) -> f64 {
        self.claim.leaves_of(self.rate.target().as_bps() as f64 / 8.0)
    }

    pub(super) fn rate_left(&self) -> Option<f64> {
        (self.decided > Time::ZERO).then(|| self.left())
    }

    pub(super) fn seen(&mut self, _place: u64, bytes: u64) {
        self.bytes += bytes;
        self.packets += 1;
    }

    pub(super) fn lost(&mut self, _place: u64) {
        self.rate.handle_counts(0, 1);
    }

    pub(super) fn acknowledged(&mut self, now: Time, frame: &Arrived) {
        self.seen(frame.place, frame.bytes);
        self.rtt = frame.rtt;
        let way = frame.there.unwrap_or(frame.rtt.as_nanos() as i64);
        let arrived = way.saturating_add(frame.sent.as_nanos() as i64);
        let bytes = Bytes::new(std::mem::take(&mut self.bytes));
        self.rate.handle_arrival(frame.sent, arrived as f64 / 1e6, bytes);
        if now.saturating_since(self.decided) >= INTERVAL {
            self.decided = now;
            self.rate.handle_counts(std::mem::take(&mut self.packets), 0);
            self.rate.update(now, self.rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{self, MS, Verbs};
    use super::*;

    fn run(gcc: &mut Gcc, service: Duration, from: Time, length: Duration) -> (u64, Duration) {
        let verbs = Verbs { admits: Gcc::admits, sent: Gcc::sent, acknowledged: Gcc::acknowledged };
        tests::run(gcc, &verbs, service, from, length)
    }

    #[test]
    fn it_finds_the_rate_of_a_path_and_gives_way_when_that_falls() {
        let mut gcc = Gcc::new();
        run(&mut gcc, MS * 2, Time::ZERO + MS, MS * 40_000);
        let (count, longest) = run(&mut gcc, MS * 2, Time::ZERO + MS * 40_100, MS * 10_000);
        assert!((3_500..=5_050).contains(&count), "{count} of 5000 that fit");
        assert!(longest < MS * 150, "{longest}");
        run(&mut gcc, MS * 8, Time::ZERO + MS * 50_200, MS * 10_000);
        let (count, _) = run(&mut gcc, MS * 8, Time::ZERO + MS * 60_300, MS * 10_000);
        assert!((750..=1_300).contains(&count), "{count} of 1250 that fit");
    }
}
