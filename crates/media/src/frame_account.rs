//! How many frames arrived whole, and how smoothly.

use taut_core::{Duration, Sample, Time};

/// Counts the frames of one medium at the receiver.
///
/// Feed it with what the sender made and what the demultiplexer delivered, in order of time; ask for the
/// [`FrameAccount::summary`] at the end.
#[derive(Clone, Debug)]
pub struct FrameAccount {
    start: Time,
    late_after: Duration,
    freeze_after: Duration,
    counts: FrameSummary,
    second: u64,
    in_second: u64,
    full_seconds: u64,
    in_full_seconds: u64,
    last_complete: Option<Time>,
}

/// What became of the frames of one medium.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameSummary {
    /// Made by the source.
    pub made: u64,
    /// Arrived whole, late ones included.
    pub complete: u64,
    /// Made and not arrived whole.
    pub incomplete: u64,
    /// Arrived whole, but older than the limit.
    pub late: u64,
    /// Frames that arrived whole, per second, over whole seconds. 0 in a shorter run.
    pub fps_mean: f64,
    /// The fewest in a whole second.
    pub fps_min: u64,
    /// How often nothing arrived whole for longer than the limit.
    pub freezes: u64,
    /// How long these lasted together.
    pub frozen: Duration,
}

impl FrameAccount {
    /// Counts from `start`. A frame older than `late_after` on completion is late (the limits of smooth sessions: audio
    /// 150 ms, video 400 ms); more than `freeze_after` without a completed frame is a freeze.
    pub fn new(start: Time, late_after: Duration, freeze_after: Duration) -> Self {
        Self {
            start,
            late_after,
            freeze_after,
            counts: FrameSummary { fps_min: u64::MAX, ..FrameSummary::default() },
            second: 0,
            in_second: 0,
            full_seconds: 0,
            in_full_seconds: 0,
            last_complete: None,
        }
    }

    /// The source made a frame.
    pub const fn made(&mut self) {
        self.counts.made += 1;
    }

    /// A frame arrived whole.
    pub fn complete(&mut self, now: Time, frame: &Sample) {
        self.close_seconds(now);
        self.freeze(now);
        self.in_second += 1;
        self.counts.complete += 1;
        self.counts.late += u64::from(now.saturating_since(frame.created) > self.late_after);
        self.last_complete = Some(now);
    }

    /// The account as it would be closed at `now`: the unfinished second does not count, a freeze that lasts does.
    pub fn summary(&self, now: Time) -> FrameSummary {
        let mut closed = self.clone();
        closed.close_seconds(now);
        closed.freeze(now);
        let FrameSummary { made, complete, fps_min, .. } = closed.counts;
        let seconds = closed.full_seconds;
        FrameSummary {
            incomplete: made.saturating_sub(complete),
            fps_mean: if seconds == 0 { 0.0 } else { closed.in_full_seconds as f64 / seconds as f64 },
            fps_min: if seconds == 0 { 0 } else { fps_min },
            ..closed.counts
        }
    }

    fn close_seconds(&mut self, now: Time) {
        let second = now.saturating_since(self.start) / Duration::from_secs(1);
        if second <= self.second {
            return;
        }
        self.counts.fps_min = self.counts.fps_min.min(self.in_second);
        if second > self.second + 1 {
            self.counts.fps_min = 0;
        }
        self.full_seconds += second - self.second;
        self.in_full_seconds += self.in_second;
        (self.second, self.in_second) = (second, 0);
    }

    fn freeze(&mut self, now: Time) {
        let gap = now.saturating_since(self.last_complete.unwrap_or(self.start));
        if gap > self.freeze_after {
            self.counts.freezes += 1;
            self.counts.frozen += gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_core::{Bytes, Medium};

    use super::*;

    #[test]
    fn a_stall_shows_in_rate_freezes_and_lateness() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut account =
            FrameAccount::new(Time::ZERO, Duration::from_millis(400), Duration::from_millis(200));
        for sequence in 0..100 {
            account.made();
            let created = at(sequence * 40);
            let frame = Sample { medium: Medium::Video, sequence, created, size: Bytes::new(2000) };
            // Between 1 s and 2.5 s nothing arrives; what was made then is lost but for the last, which is late.
            match sequence {
                25..=61 => {}
                62 => account.complete(at(sequence * 40 + 401), &frame),
                63..=72 => {}
                _ => account.complete(at(sequence * 40 + 10), &frame),
            }
        }
        let summary = account.summary(at(4_000));
        assert_eq!((summary.made, summary.complete, summary.incomplete, summary.late), (100, 53, 47, 1));
        assert_eq!((summary.fps_min, summary.freezes), (0, 1));
        assert_eq!(summary.frozen, Duration::from_millis(2_881 - 970));
        assert!((summary.fps_mean - 53.0 / 4.0).abs() < 1e-12);
        assert_eq!(account.summary(at(5_000)).freezes, 2);
    }

    #[test]
    fn an_empty_account_has_nothing_to_tell() {
        let limit = Duration::from_secs(1);
        let summary = FrameAccount::new(Time::ZERO, limit, limit).summary(Time::ZERO);
        assert_eq!(summary, FrameSummary::default());
    }
}
