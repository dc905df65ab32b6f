//! A series as it is drawn: a stretch of it, with no more points than a figure can show.

use crate::result::Series;

/// Points of a line in a figure; more than a screen's columns under one.
const POINTS: usize = 600;
/// Buckets of the whole run's series that a close-up shows, when it has none of its own.
const CLOSE: usize = 60;

/// Points of a line that cannot follow its values.
const MEANS: usize = 40;

/// Times the usual distance of samples, beyond which there is a silence.
const LONG: f64 = 1.6;

/// Some neighbouring buckets, together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) max: f64,
}

impl Bucket {
    /// Several neighbours as one.
    pub(super) fn together(some: &[Self]) -> Self {
        let (first, last) = (some[0], some[some.len() - 1]);
        let of = |value: fn(&Self) -> f64| some.iter().map(value);
        Self {
            from_s: first.from_s,
            to_s: last.to_s,
            min: of(|bucket| bucket.min).fold(first.min, f64::min),
            mean: of(|bucket| bucket.mean).sum::<f64>() / some.len() as f64,
            max: of(|bucket| bucket.max).fold(first.max, f64::max),
        }
    }

    /// Where its mean is drawn.
    pub(super) fn middle_s(&self) -> f64 {
        (self.from_s + self.to_s) / 2.0
    }
}

/// A stretch of a series.
pub(super) struct Timeline<'a> {
    pub(super) series: &'a Series,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Buckets of the series in each of ours.
    merged: usize,
    /// In order; nothing where nothing happened.
    buckets: Vec<Option<Bucket>>,
}

impl<'a> Timeline<'a> {
    /// All of it.
    pub(super) fn whole(series: &'a Series) -> Self {
        Self::stretch(series, 0, series.mean.len())
    }

    /// A stretch from close by: the close-up's own series where there is one, otherwise of a run whose buckets were merged some around
    /// this moment, or else after the warm-up.
    pub(super) fn close_up(
        whole: &'a Series,
        close: Option<&'a Series>,
        warmup_s: f64,
        around_s: Option<f64>,
    ) -> Option<Self> {
        if let Some(series) = close {
            return Some(Self::whole(series));
        }
        // What was drawn bucket by bucket looks no different from close by.
        if Self::whole(whole).merged == 1 {
            return None;
        }
        let counts = |i: &usize| start(whole, *i) >= warmup_s && at(&whole.mean, *i).is_some();
        let end = whole.mean.len();
        let first = (0..end).find(counts)?;
        let begin = around_s.map_or(first, |at_s| {
            let at = ((at_s - whole.start_s) / whole.bucket_s).max(0.0) as usize;
            at.saturating_sub(CLOSE / 2).min(end.saturating_sub(CLOSE)).max(first)
        });
        Some(Self::stretch(whole, begin, end.min(begin + CLOSE)))
    }

    fn stretch(series: &'a Series, first: usize, end: usize) -> Self {
        let merged = (end - first).div_ceil(POINTS).max(1);
        let merge = |i: usize| merge(series, i, end.min(i + merged));
        let mut buckets: Vec<Option<Bucket>> = (first..end).step_by(merged).map(merge).collect();
        if is_state(series) {
            hold(&mut buckets, series.bucket_s * merged as f64);
        }
        Self { series, from_s: start(series, first), to_s: start(series, end), merged, buckets }
    }

    /// Length of one bucket as drawn.
    pub(super) fn step_s(&self) -> f64 {
        self.series.bucket_s * self.merged as f64
    }

    /// Of how many buckets a point of the line is the mean. One, where the line follows the values. Where they swing faster
    /// than buckets follow each other, as beside TCP's window in a long run, the means of single buckets would show a beat of
    /// the two that is not there; means of many buckets, each of several swings, do not.
    pub(super) fn line_step(&self) -> usize {
        let filled: Vec<&Bucket> = self.buckets.iter().flatten().collect();
        if filled.len() <= MEANS || !self.varies_inside() || self.follows(&filled) {
            return 1;
        }
        filled.len().div_ceil(MEANS)
    }

    /// Whether the means go up and down as the values do: then they reach far, and inside of a bucket little happens.
    fn follows(&self, filled: &[&Bucket]) -> bool {
        let inside = quantile(0.5, filled.iter().map(|bucket| bucket.max - bucket.min));
        let means = || filled.iter().map(|bucket| bucket.mean);
        inside < 0.3 * (quantile(0.95, means()) - quantile(0.05, means()))
    }

    /// Whether any bucket held different values.
    pub(super) fn varies_inside(&self) -> bool {
        self.buckets.iter().flatten().any(|bucket| bucket.min < bucket.max)
    }

    /// Whether there is anything to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.iter().all(Option::is_none)
    }

    /// Uninterrupted sequences of buckets. A stream with less than one sample a bucket is not interrupted by the empty
    /// ones between them, only by a silence that is long for it.
    pub(super) fn stretches(&self) -> Vec<Vec<Bucket>> {
        let filled: Vec<Bucket> = self.buckets.iter().flatten().copied().collect();
        let distance = |pair: &[Bucket]| pair[1].from_s - pair[0].from_s;
        let usual = quantile(0.5, filled.windows(2).map(distance));
        filled.chunk_by(|a, b| b.from_s - a.from_s <= LONG * usual).map(<[Bucket]>::to_vec).collect()
    }

    /// Smallest and largest value of several; what happens in the warm-up does not stretch the scale, unless there is
    /// nothing else.
    pub(super) fn range(timelines: &[Self], warmup_s: f64) -> Option<(f64, f64)> {
        let of = |from_s: f64| {
            let buckets = timelines.iter().flat_map(|timeline| timeline.buckets.iter().flatten());
            let counted = buckets.filter(|bucket| bucket.from_s >= from_s);
            counted.fold((f64::MAX, f64::MIN), |(lo, hi), bucket| (lo.min(bucket.min), hi.max(bucket.max)))
        };
        let warm = of(warmup_s);
        let (lo, hi) = if warm.0 <= warm.1 { warm } else { of(f64::MIN) };
        (lo <= hi).then_some((lo, hi))
    }
}

/// Whether the values are a state, which lasts until the next one; a delay belongs to one delivery and says nothing of
/// the time after it.
fn is_state(series: &Series) -> bool {
    !["delay", "gap"].iter().any(|event| series.plot.starts_with(event))
}

/// Lets the last mean stand where nothing changed, up to the last change.
fn hold(buckets: &mut [Option<Bucket>], step_s: f64) {
    let Some(last) = buckets.iter().rposition(Option::is_some) else { return };
    let mut before: Option<Bucket> = None;
    for bucket in &mut buckets[..last] {
        if let (None, Some(b)) = (*bucket, before) {
            let (from_s, to_s) = (b.from_s + step_s, b.to_s + step_s);
            *bucket = Some(Bucket { from_s, to_s, min: b.mean, max: b.mean, mean: b.mean });
        }
        before = *bucket;
    }
}

/// The value that this share of all is not above; 0 of none.
fn quantile(share: f64, values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let place = (share * sorted.len() as f64) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Where bucket `i` begins.
fn start(series: &Series, i: usize) -> f64 {
    series.start_s + i as f64 * series.bucket_s
}

fn at(values: &[Option<f64>], i: usize) -> Option<f64> {
    values.get(i).copied().flatten().filter(|value| value.is_finite())
}

fn merge(series: &Series, from: usize, to: usize) -> Option<Bucket> {
    let means: Vec<f64> = (from..to).filter_map(|i| at(&series.mean, i)).collect();
    if means.is_empty() {
        return None;
    }
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    Some(Bucket {
        from_s: start(series, from),
        to_s: start(series, to),
        min: (from..to).filter_map(|i| at(&series.min, i)).fold(mean, f64::min),
        mean,
        max: (from..to).filter_map(|i| at(&series.max, i)).fold(mean, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(mean: Vec<Option<f64>>) -> Series {
        let text = String::new;
        let (min, max) = (mean.clone(), mean.clone());
        Series { plot: text(), name: text(), unit: text(), start_s: 0.0, bucket_s: 0.25, min, mean, max }
    }

    #[test]
    fn long_series_are_merged_and_keep_their_extremes() {
        let mut values = vec![Some(5.0); 2000];
        values[777] = Some(99.0);
        let series = series(values);
        let timeline = Timeline::whole(&series);
        assert!(timeline.stretches()[0].len() <= POINTS);
        assert_eq!(Timeline::range(&[timeline], 0.0), Some((5.0, 99.0)));
    }

    /// Buckets over a sawtooth from 10 to 26 with so many of them in a cycle.
    fn sawtooth(per_cycle: f64) -> Series {
        let bucket = |i: usize| {
            let at = |j: usize| {
                let phase = (i as f64 + j as f64 / 50.0) / per_cycle;
                10.0 + 16.0 * (phase - phase.floor())
            };
            let values: Vec<f64> = (0..50).map(at).collect();
            let mean = values.iter().sum::<f64>() / 50.0;
            (
                values.iter().copied().fold(f64::MAX, f64::min),
                mean,
                values.iter().copied().fold(0.0, f64::max),
            )
        };
        let buckets: Vec<_> = (0..500).map(bucket).collect();
        let column = |of: fn(&(f64, f64, f64)) -> f64| buckets.iter().map(|b| Some(of(b))).collect();
        Series { min: column(|b| b.0), mean: column(|b| b.1), max: column(|b| b.2), ..series(Vec::new()) }
    }

    #[test]
    fn a_line_that_cannot_follow_a_sawtooth_shows_its_mean_and_no_beat() {
        for per_cycle in [0.13, 0.411, 0.495, 0.7, 1.01, 1.9, 2.6] {
            let series = sawtooth(per_cycle);
            let timeline = Timeline::whole(&series);
            let step = timeline.line_step();
            assert!(step > 1, "{per_cycle} buckets a cycle");
            for point in timeline.stretches()[0].chunks(step).filter(|chunk| chunk.len() == step) {
                let mean = Bucket::together(point).mean;
                assert!((mean - 18.0).abs() < 2.0, "{per_cycle} buckets a cycle: {mean}");
            }
        }
        for per_cycle in [6.0, 12.0, 25.0, 400.0] {
            assert_eq!(Timeline::whole(&sawtooth(per_cycle)).line_step(), 1, "{per_cycle} buckets a cycle");
        }
    }

    #[test]
    fn silence_interrupts_a_line() {
        let of = |kind: &str, values: &str| {
            let value = |c: char| if c == '#' { Some(1.0) } else { Some(f64::NAN).filter(|_| c == '?') };
            let series = Series { plot: kind.to_owned(), ..series(values.chars().map(value).collect()) };
            Timeline::whole(&series).stretches().iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(of("delay", "###?##.#"), [3, 2, 1]);
        assert_eq!(of("delay", "#.#.#..#.......#.#"), [4, 2]);
        assert_eq!(of("queue", "..#.#...#.."), [7]);
        assert_eq!(of("delay", "#"), [1]);
    }

    #[test]
    fn the_warm_up_does_not_set_the_scale() {
        let series = series(vec![Some(500.0), Some(400.0), Some(10.0), Some(20.0)]);
        assert_eq!(Timeline::range(&[Timeline::whole(&series)], 0.5), Some((10.0, 20.0)));
        assert_eq!(Timeline::range(&[Timeline::whole(&series)], 60.0), Some((10.0, 500.0)));
    }

    #[test]
    fn a_close_up_starts_after_the_warm_up_and_only_in_a_long_run() {
        let long = series(vec![Some(1.0); 2000]);
        let close = |around| {
            let timeline = Timeline::close_up(&long, None, 10.0, around);
            timeline.map(|timeline| (timeline.from_s, timeline.to_s))
        };
        assert_eq!(close(None), Some((10.0, 25.0)));
        assert_eq!(close(Some(100.0)), Some((92.5, 107.5)));
        assert_eq!((close(Some(11.0)), close(Some(499.0))), (Some((10.0, 25.0)), Some((485.0, 500.0))));
        assert!(Timeline::close_up(&series(vec![Some(1.0); 100]), None, 10.0, None).is_none());
        assert!(Timeline::close_up(&series(vec![None; 2000]), None, 10.0, None).is_none());
    }
}
