//! One medium in one direction: what a person would feel.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use taut_core::{Bytes, DropCause, Duration, Medium, Sample, Time};

use super::causes::Causes;
use super::close_up::{CloseUp, Focus};
use super::distribution::Summary;
use super::observer::Watch;
use super::percent;
use super::seconds::Seconds;
use super::series::Buckets;
use crate::scenario::Direction;
use taut_report::result::{MediumResult, Series};

/// A medium without a limit has the worst moment of a run where no other has one.
const UNLIMITED: Duration = Duration::from_secs(3_600);

/// Samples on their way that are remembered.
const REMEMBERED: usize = 1 << 17;

/// Counts, delays and jitter of one medium.
#[derive(Clone, Debug)]
pub(super) struct MediumMetrics {
    pub(super) medium: Medium,
    watch: Watch,
    delay_limit: Option<Duration>,
    made: u64,
    withheld: u64,
    delivered: u64,
    late: u64,
    reordered: u64,
    duplicates: u64,
    dropped: Causes,
    /// Why those that were dropped last were, by when they were made and their numbers: a transport that gave up may have been heard all the same.
    given_up: BTreeMap<(Time, u64), DropCause>,
    refused: Causes,
    bytes: Bytes,
    newest: Option<u64>,
    /// When those samples were made that are newer than all that came; in order, so that the first says how long the receiver waits.
    unseen: VecDeque<Time>,
    /// Of the sample delivered before: its delay.
    before: Option<Duration>,
    delay: Summary,
    jitter: Summary,
    jitter_max: Duration,
    seconds: Seconds,
    whole: Buckets,
    close: CloseUp,
}

impl MediumMetrics {
    pub(super) fn new(medium: Medium, watch: Watch) -> Self {
        Self {
            medium,
            watch,
            delay_limit: watch.limits.limits(medium).map(|limits| limits.delay),
            made: 0,
            withheld: 0,
            delivered: 0,
            late: 0,
            reordered: 0,
            duplicates: 0,
            dropped: Causes::default(),
            given_up: BTreeMap::new(),
            refused: Causes::default(),
            bytes: Bytes::ZERO,
            newest: None,
            before: None,
            delay: Summary::default(),
            jitter: Summary::default(),
            jitter_max: Duration::ZERO,
            seconds: watch.seconds(),
            whole: watch.whole(),
            close: CloseUp::new(watch),
            unseen: VecDeque::new(),
        }
    }

    pub(super) fn made(&mut self, sample: &Sample) {
        if self.unseen.len() < REMEMBERED {
            self.unseen.push_back(sample.created);
        }
        self.made += u64::from(self.watch.counts(sample.created));
    }

    pub(super) fn withheld(&mut self, sample: &Sample) {
        // Nobody waits for it.
        self.unseen.pop_back_if(|made| *made == sample.created);
        self.withheld += u64::from(self.watch.counts(sample.created));
    }

    pub(super) fn dropped(&mut self, sample: &Sample, cause: DropCause) {
        if !self.watch.counts(sample.created) {
            return;
        }
        // What its session did not take has no number, and never comes.
        if sample.sequence > 0 {
            let Entry::Vacant(place) = self.given_up.entry((sample.created, sample.sequence)) else { return };
            place.insert(cause);
            if self.given_up.len() > REMEMBERED {
                self.given_up.pop_first();
            }
        }
        self.dropped.count(cause);
    }

    /// Something of this medium arrived that was of no use.
    pub(super) fn refused(&mut self, cause: DropCause) {
        match cause {
            DropCause::Duplicate => self.duplicates += 1,
            other => self.refused.count(other),
        }
    }

    /// A sample was delivered, at `now`, to the receiver of this stream. Returns the delay when the sample counts.
    pub(super) fn delivered(
        &mut self,
        now: Time,
        sample: &Sample,
        stream: (usize, usize),
        focus: &mut Focus,
    ) -> Option<Duration> {
        let delay = now.saturating_since(sample.created);
        let ms = delay.as_millis_f64();
        self.whole.record(sample.created, ms);
        self.close.record(sample.created, ms, focus);
        let overtaken = self.unseen.partition_point(|made| *made <= sample.created);
        let since = self.unseen.drain(..overtaken).next().unwrap_or(sample.created);
        let allowed = self.delay_limit.unwrap_or(UNLIMITED);
        focus.saw(now, sample.created, stream, now.saturating_since(since), allowed);
        if !self.watch.counts(sample.created) {
            return None;
        }
        if let Some(cause) = self.given_up.remove(&(sample.created, sample.sequence)) {
            self.dropped.undo(cause);
        }
        self.delivered += 1;
        self.bytes += sample.size;
        self.late += u64::from(self.delay_limit.is_some_and(|limit| delay > limit));
        if self.newest.is_some_and(|newest| sample.sequence < newest) {
            self.reordered += 1;
        } else {
            self.newest = Some(sample.sequence);
        }
        self.delay.record(delay);
        self.seconds.record(sample.created, ms);
        if let Some(before) = self.before.replace(delay) {
            self.jitter.record(delay.abs_diff(before));
            self.jitter_max = self.jitter_max.max(delay.saturating_sub(before));
        }
        Some(delay)
    }

    pub(super) fn anything(&self) -> bool {
        self.made > 0 || self.delivered > 0 || self.duplicates > 0 || self.refused.total() > 0
    }

    pub(super) fn to_result(&self, direction: Direction) -> MediumResult {
        let due = self.made - self.withheld.min(self.made);
        let lost = due.saturating_sub(self.delivered);
        let seconds = self.watch.counted().as_secs_f64();
        let jitter_ms = self.jitter.to_result();
        MediumResult {
            stream: self.stream(direction),
            direction,
            medium: self.medium.name().to_owned(),
            made: self.made,
            withheld: self.withheld,
            delivered: self.delivered,
            lost,
            lost_in_network: lost.saturating_sub(self.dropped.total()),
            dropped: self.dropped.to_result(),
            late: self.late,
            reordered: self.reordered,
            duplicates: self.duplicates,
            refused: self.refused.to_result(),
            loss_percent: percent(lost, due),
            delay_ms: self.delay.to_result(),
            delay_buckets_ms: self.seconds.to_result(),
            jitter_max_ms: jitter_ms.is_some().then(|| self.jitter_max.as_millis_f64()),
            jitter_ms,
            goodput_bps: self.bytes.bits() as f64 / seconds,
            rate_hz: self.delivered as f64 / seconds,
        }
    }

    pub(super) fn series(&self, direction: Direction, focus: &Focus) -> Vec<Series> {
        let name = self.stream(direction);
        let whole = self.whole.to_result("delay", &name, "ms");
        let close = self.close.to_result(focus, "delay", &name, "ms");
        whole.into_iter().chain(close).collect()
    }

    /// Its name in results.
    pub(super) fn stream(&self, direction: Direction) -> String {
        format!("{} {}", direction.name(), self.medium.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample each millisecond, so long on its way.
    const WAY_MS: u64 = 100;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn sample(ms: u64) -> Sample {
        Sample { medium: Medium::Haptic, sequence: ms, created: at(ms), size: Bytes::new(1) }
    }

    /// When the sample was made that ended the longest wait, and how long that was, in ms.
    fn worst(lost: impl Fn(u64) -> bool, withheld: impl Fn(u64) -> bool) -> (u64, u64) {
        let watch = Watch::all_of(Duration::from_secs(2));
        let (mut metrics, mut focus) = (MediumMetrics::new(Medium::Haptic, watch), Focus::new(watch));
        for now in 0..2_000 {
            metrics.made(&sample(now));
            if withheld(now) {
                metrics.withheld(&sample(now));
            }
            let comes = now.checked_sub(WAY_MS).filter(|&made| !lost(made) && !withheld(made));
            if let Some(made) = comes {
                metrics.delivered(at(now), &sample(made), (0, 0), &mut focus);
            }
        }
        let worst = focus.worst(|_| String::new()).unwrap();
        ((worst.at_s * 1e3).round() as u64, worst.waited_ms.round() as u64)
    }

    #[test]
    fn an_outage_is_waited_for_since_its_first_sample_was_made_whatever_is_on_its_way_by_then() {
        for first in [500, 507, 515, 523, 529] {
            let outage = first..first + 50;
            assert_eq!(worst(|made| outage.contains(&made), |_| false), (first + 50, 50 + WAY_MS), "{first}");
        }
    }

    #[test]
    fn what_arrives_after_its_transport_gave_it_up_is_delivered_and_not_dropped() {
        let watch = Watch::all_of(Duration::from_secs(2));
        let (mut metrics, mut focus) = (MediumMetrics::new(Medium::Haptic, watch), Focus::new(watch));
        (1..=3).for_each(|ms| metrics.made(&sample(ms)));
        for ms in [1, 2, 2] {
            metrics.dropped(&sample(ms), DropCause::Abandoned);
        }
        metrics.delivered(at(10), &sample(1), (0, 0), &mut focus);
        // Two that were not taken have one time, and no number.
        for _ in 0..2 {
            let not_taken = Sample { sequence: 0, ..sample(4) };
            metrics.made(&not_taken);
            metrics.dropped(&not_taken, DropCause::Stopped);
        }
        let result = metrics.to_result(Direction::Forward);
        assert_eq!((result.made, result.delivered, result.lost, result.lost_in_network), (5, 1, 4, 1));
        assert_eq!(result.dropped, [("abandoned".to_owned(), 1), ("stopped".to_owned(), 2)].into());
    }

    #[test]
    fn nobody_waits_for_what_is_withheld() {
        assert_eq!(worst(|_| false, |made| made % 100 > 0), (0, WAY_MS));
    }
}
