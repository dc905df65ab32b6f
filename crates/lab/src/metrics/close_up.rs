//! The part of a run that is shown from close by: the seconds around its worst moment, in memory that does not grow with the run.

use taut_core::{Duration, Time};
use taut_report::result::{Series, Worst};

use super::observer::Watch;
use super::series::{Bucket, EMPTY, parts, to_series};

/// How long the part is, unless the whole run is shorter; and its buckets.
const LENGTH: Duration = Duration::from_secs(5);
const BUCKETS: u64 = PIECES * PER_PIECE;
/// It consists of so many pieces, and begins two before the one with the worst moment where the run lets it.
const PIECES: u64 = 5;
const PER_PIECE: u64 = 200;
const BEFORE: u64 = 2;
/// Where the run begins or ends soon, it reaches so far from that piece.
const REACH: u64 = PIECES - 1;
/// Pieces that each quantity keeps until it is known whether one of them is shown. A sample that comes later than these last shows no
/// worst moment.
const OPEN: u64 = 16;

/// The worst moment so far: when what was made had to wait for the longest, by what its medium allows.
#[derive(Clone, Debug)]
pub(super) struct Focus {
    watch: Watch,
    worst: Option<(f64, Moment)>,
    /// The newest piece in which something came.
    newest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    /// Which medium it is of.
    stream: Stream,
    made: Time,
    waited: Duration,
}

/// A medium of a direction, by its place.
type Stream = (usize, usize);

impl Focus {
    pub(super) const fn new(watch: Watch) -> Self {
        Self { watch, worst: None, newest: 0 }
    }

    /// At `now` a sample came that was `made` then; by then its receiver had waited for so long, of what is `allowed`.
    pub(super) fn saw(&mut self, now: Time, made: Time, stream: Stream, waited: Duration, allowed: Duration) {
        let (Some(piece), Some(at)) = (self.watch.piece(now), self.watch.piece(made)) else { return };
        self.newest = self.newest.max(piece);
        let share = waited.as_nanos() as f64 / allowed.as_nanos().max(1) as f64;
        if self.worst.is_some_and(|(worst, _)| share <= worst) || !self.watch.counts(made) {
            return;
        }
        // What is shown then is still there.
        if at.saturating_sub(REACH) + OPEN > self.newest {
            self.worst = Some((share, Moment { stream, made, waited }));
        }
    }

    /// As plain data; `name` gives that of a medium.
    pub(super) fn worst(&self, name: impl Fn(Stream) -> String) -> Option<Worst> {
        let (_, Moment { stream, made, waited }) = self.worst?;
        Some(Worst { stream: name(stream), at_s: made.as_secs_f64(), waited_ms: waited.as_millis_f64() })
    }

    fn piece(&self) -> u64 {
        self.worst.and_then(|(_, moment)| self.watch.piece(moment.made)).unwrap_or(0)
    }

    /// May this piece be shown?
    fn keeps(&self, piece: u64) -> bool {
        piece.abs_diff(self.piece()) <= REACH
    }

    /// The first piece that is shown.
    fn begin(&self) -> u64 {
        let all = self.watch.counted().as_nanos().div_ceil(self.watch.piece_length().as_nanos().max(1));
        self.piece().saturating_sub(BEFORE).min(all.saturating_sub(PIECES))
    }
}

impl Watch {
    /// Of a bucket of what is shown from close by.
    fn close_width(self) -> Duration {
        Duration::from_nanos(LENGTH.min(self.counted()).as_nanos().div_ceil(BUCKETS).max(1))
    }

    fn piece_length(self) -> Duration {
        self.close_width().saturating_mul(PER_PIECE)
    }

    /// Which piece this is in, counted from the warm-up's end; `None` before it.
    fn piece(self, at: Time) -> Option<u64> {
        let since = at.as_nanos().checked_sub(self.warmup.as_nanos())?;
        Some(since / self.piece_length().as_nanos())
    }
}

/// Buckets of a piece, and which it is.
#[derive(Clone, Debug)]
struct Piece {
    number: u64,
    buckets: Box<[Bucket]>,
}

/// One quantity from close by, around the worst moment.
#[derive(Clone, Debug)]
pub(super) struct CloseUp {
    watch: Watch,
    /// Of one bucket, ns.
    width: u64,
    /// Piece `i` at `i % OPEN`, from its first value on.
    open: [Option<Piece>; OPEN as usize],
    /// Those that have made room, and may be shown.
    kept: Vec<Piece>,
}

impl CloseUp {
    pub(super) fn new(watch: Watch) -> Self {
        let width = watch.close_width().as_nanos();
        Self { watch, width, open: [const { None }; OPEN as usize], kept: Vec::new() }
    }

    /// Adds a value at a time.
    pub(super) fn record(&mut self, at: Time, value: f64, focus: &Focus) {
        self.record_weighted(at, value, 1.0, focus);
    }

    /// Adds a value that held from `since` until `now`: in each bucket it counts for the seconds that it held there.
    pub(super) fn record_held(&mut self, since: Time, now: Time, value: f64, focus: &Focus) {
        let start = Time::ZERO + self.watch.warmup;
        // What is older than all that is open is left out anyway.
        let open = self.watch.piece_length().saturating_mul(OPEN);
        let since = since.max(Time::ZERO + now.saturating_since(Time::ZERO + open));
        for (at, seconds) in parts(since, now, start, Duration::from_nanos(self.width)) {
            self.record_weighted(at, value, seconds, focus);
        }
    }

    /// Adds a value that counts for `weight` in the mean. What is older than all that is open is left out.
    fn record_weighted(&mut self, at: Time, value: f64, weight: f64, focus: &Focus) {
        let Some(since) = at.as_nanos().checked_sub(self.watch.warmup.as_nanos()) else { return };
        if at >= self.watch.end() {
            return;
        }
        let bucket = since / self.width;
        let (number, place) = (bucket / PER_PIECE, (bucket % PER_PIECE) as usize);
        let open = &mut self.open[(number % OPEN) as usize];
        match open {
            Some(piece) if piece.number == number => return piece.buckets[place].add(value, weight),
            Some(piece) if piece.number > number => return,
            _ => {}
        }
        let fresh = Piece { number, buckets: vec![EMPTY; PER_PIECE as usize].into() };
        let before = open.replace(fresh);
        self.kept.retain(|piece| focus.keeps(piece.number));
        self.kept.extend(before.filter(|piece| focus.keeps(piece.number)));
        if let Some(piece) = &mut self.open[(number % OPEN) as usize] {
            piece.buckets[place].add(value, weight);
        }
    }

    /// As plain data; `None` when nothing was recorded.
    pub(super) fn to_result(&self, focus: &Focus, plot: &str, name: &str, unit: &str) -> Option<Series> {
        let begin = focus.begin();
        let mut buckets = Vec::with_capacity(BUCKETS as usize);
        for number in begin..begin + PIECES {
            let mut pieces = self.open.iter().flatten().chain(&self.kept);
            match pieces.find(|piece| piece.number == number) {
                Some(piece) => buckets.extend_from_slice(&piece.buckets),
                None => buckets.extend([EMPTY; PER_PIECE as usize]),
            }
        }
        let width = Duration::from_nanos(self.width);
        let start = Time::ZERO + self.watch.warmup + width.saturating_mul(begin * PER_PIECE);
        to_series(&buckets, start, width, &format!("{plot}_zoom"), name, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HAPTIC: Stream = (1, 0);
    const ALLOWED: Duration = Duration::from_millis(30);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// A run whose samples, one each 10 ms, take as long as `delay_ms` says of when they are made; the first 10 s do not count.
    fn run(seconds: u64, delay_ms: impl Fn(u64) -> u64) -> (Focus, CloseUp) {
        let watch = Watch { warmup: Duration::from_secs(10), ..Watch::all_of(Duration::from_secs(seconds)) };
        let (mut focus, mut close) = (Focus::new(watch), CloseUp::new(watch));
        for made in (0..seconds * 1_000).step_by(10) {
            let delay = delay_ms(made);
            close.record(at(made), delay as f64, &focus);
            focus.saw(at(made + delay), at(made), HAPTIC, Duration::from_millis(delay), ALLOWED);
        }
        (focus, close)
    }

    #[test]
    fn the_seconds_around_the_worst_moment_are_shown_wherever_it_is() {
        for (worst, begin) in [(83_200, 81), (10_400, 10), (11_900, 10), (119_990, 115), (60_000, 58)] {
            let (focus, close) = run(120, |made| if made == worst { 55 } else { 5 + (made / 10) % 7 });
            let series = close.to_result(&focus, "delay", "backward haptic", "ms").unwrap();
            assert_eq!(
                (series.plot.as_str(), series.start_s, series.bucket_s),
                ("delay_zoom", f64::from(begin), 0.005)
            );
            let place = ((worst - 1_000 * u64::from(begin as u32)) / 5) as usize;
            assert_eq!((series.max.len(), series.max[place]), (1_000, Some(55.0)), "{worst}");
            // Nothing of these seconds is missing.
            assert_eq!(series.mean.iter().flatten().count(), 500, "{worst}");
            let told = focus.worst(|stream| format!("{stream:?}")).unwrap();
            assert_eq!((told.stream.as_str(), told.waited_ms), ("(1, 0)", 55.0));
            assert!((told.at_s - worst as f64 / 1e3).abs() < 1e-9, "{}", told.at_s);
        }
    }

    #[test]
    fn a_later_worst_moment_takes_the_place_of_an_earlier_one_and_the_first_of_two_equal_ones_stays() {
        let (focus, close) = run(200, |made| match made {
            0 => 5_000,
            30_000 => 40,
            100_000 | 150_000 => 50,
            _ => 5,
        });
        let series = close.to_result(&focus, "queue", "a", "bytes").unwrap();
        assert_eq!((series.start_s, series.mean.iter().flatten().count()), (98.0, 500));
    }

    #[test]
    fn what_comes_when_its_seconds_are_gone_is_not_shown() {
        let (focus, _) = run(120, |made| if made == 40_000 { 20_000 } else { 5 + made / 100_000 });
        assert_eq!(focus.worst(|_| String::new()).unwrap().at_s.to_bits(), 100.0_f64.to_bits());
    }

    #[test]
    fn a_short_run_is_shown_as_a_whole_and_one_without_samples_from_its_warm_up_on() {
        let (focus, close) = run(12, |made| made / 1_000);
        let series = close.to_result(&focus, "delay", "a", "ms").unwrap();
        assert_eq!(
            (series.start_s, series.bucket_s, series.mean.iter().flatten().count()),
            (10.0, 0.002, 200)
        );
        let watch = Watch { warmup: Duration::from_secs(10), ..Watch::all_of(Duration::from_secs(60)) };
        let (focus, mut close) = (Focus::new(watch), CloseUp::new(watch));
        (0..60_000).for_each(|ms| close.record(at(ms), 1.0, &focus));
        let series = close.to_result(&focus, "queue", "a", "bytes").unwrap();
        assert_eq!(series.start_s.to_bits(), 10.0_f64.to_bits());
        assert_eq!(focus.worst(|_| String::new()), None);
    }
}
