//! Parameters that change over time.

use taut_core::{Duration, Time};

/// A value over time: constant, or a table of steps, played once or over and over.
///
/// Times count from the driver's epoch. A row holds from its own time until the next row's; the last row holds for
/// ever, or until the table begins again ([`Schedule::looping`]). Any value makes a constant schedule by `into()`.
///
/// ```
/// use taut_core::{Duration, Time};
/// use taut_link::Schedule;
/// let ms = Duration::from_millis;
/// let mut delay = Schedule::table(vec![(ms(0), ms(8)), (ms(500), ms(20))])?.looping(ms(1_000))?;
/// assert_eq!(delay.at(Time::ZERO + ms(499)), ms(8));
/// assert_eq!(delay.at(Time::ZERO + ms(500)), ms(20));
/// assert_eq!(delay.at(Time::ZERO + ms(1_000)), ms(8));
/// # Ok::<(), taut_link::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule<T> {
    /// What holds from `from` to before `until`, so that most lookups are two comparisons.
    current: T,
    from: Time,
    until: Time,
    row: usize,
    /// Empty for a constant.
    rows: Vec<(Duration, T)>,
    period: Option<Duration>,
}

/// A table that is not a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There is no row.
    #[error("a schedule needs at least one row")]
    Empty,
    /// Nothing is known about the time before the first row.
    #[error("the first row is at {0}; it must be at 0s")]
    DoesNotBeginAtZero(Duration),
    /// A row is not later than the one before it.
    #[error("row {row} (counted from 0) is at {at}; each row must be later than the one before it")]
    NotIncreasing {
        /// Which row, from 0.
        row: usize,
        /// Its time.
        at: Duration,
    },
    /// The table would begin again before its last row.
    #[error("a period of {period} is too short; it must be longer than the time of the last row, {last}")]
    PeriodTooShort {
        /// The period.
        period: Duration,
        /// When the last row begins.
        last: Duration,
    },
}

impl<T: Copy> Schedule<T> {
    /// Always `value`.
    pub const fn constant(value: T) -> Self {
        Self { current: value, from: Time::ZERO, until: Time::MAX, row: 0, rows: Vec::new(), period: None }
    }

    /// The steps in `rows`: a time since the epoch and what holds from then on.
    ///
    /// # Errors
    /// When there is no row, when the first is not at 0, or when the times do not increase.
    pub fn table(rows: Vec<(Duration, T)>) -> Result<Self, ScheduleError> {
        let &(first, current) = rows.first().ok_or(ScheduleError::Empty)?;
        if !first.is_zero() {
            return Err(ScheduleError::DoesNotBeginAtZero(first));
        }
        if let Some(row) = (1..rows.len()).find(|&row| rows[row].0 <= rows[row - 1].0) {
            return Err(ScheduleError::NotIncreasing { row, at: rows[row].0 });
        }
        let until = rows.get(1).map_or(Time::MAX, |(next, _)| Time::ZERO + *next);
        Ok(Self { current, from: Time::ZERO, until, row: 0, rows, period: None })
    }

    /// One column of a table whose cells may be missing: a missing cell changes nothing, and `initial` holds until the
    /// first that is there.
    ///
    /// # Errors
    /// When the times of the cells that are there do not increase.
    pub fn column(
        initial: T,
        cells: impl IntoIterator<Item = (Duration, Option<T>)>,
    ) -> Result<Self, ScheduleError> {
        let mut rows: Vec<_> = cells.into_iter().filter_map(|(at, cell)| Some((at, cell?))).collect();
        if rows.first().is_none_or(|(at, _)| !at.is_zero()) {
            rows.insert(0, (Duration::ZERO, initial));
        }
        Self::table(rows)
    }

    /// One value after the other, each for `step` (> 0).
    ///
    /// # Errors
    /// When there is no value, or `step` is 0 and there are several.
    pub fn steps(step: Duration, values: impl IntoIterator<Item = T>) -> Result<Self, ScheduleError> {
        Self::table((0..).map(|row| step.saturating_mul(row)).zip(values).collect())
    }

    /// Begins again every `period`, which must be longer than the time of the last row. A constant stays as it is.
    ///
    /// # Errors
    /// When the period is too short.
    pub fn looping(mut self, period: Duration) -> Result<Self, ScheduleError> {
        let Some(&(last, _)) = self.rows.last() else { return Ok(self) };
        if period <= last {
            return Err(ScheduleError::PeriodTooShort { period, last });
        }
        self.period = Some(period);
        self.seek(Time::ZERO);
        Ok(self)
    }

    /// What holds at `now`. Fast while `now` stays in one row or moves to the next; any other move is a binary search.
    #[inline]
    pub fn at(&mut self, now: Time) -> T {
        self.segment(now).0
    }

    /// What holds at `now`, and until when (exclusive, but for [`Time::MAX`], which means for ever).
    #[inline]
    pub(crate) fn segment(&mut self, now: Time) -> (T, Time) {
        if (now < self.from || now >= self.until) && !self.rows.is_empty() {
            self.seek(now);
        }
        (self.current, self.until)
    }

    /// The rows of one lap, each with its length, and the length of the lap. `None` unless the table loops.
    pub(crate) fn lap(&self) -> Option<(impl Iterator<Item = (Duration, T)>, Duration)> {
        let period = self.period?;
        let ends = self.rows.iter().skip(1).map(|(at, _)| *at).chain([period]);
        let segments = self.rows.iter().zip(ends).map(|((at, value), end)| (end - *at, *value));
        Some((segments, period))
    }

    fn seek(&mut self, now: Time) {
        let since_epoch = now - Time::ZERO;
        let offset = self.period.map_or(since_epoch, |period| since_epoch % period);
        let lap = now - offset;
        let end_of = |row: usize| self.rows.get(row + 1).map(|(at, _)| *at).or(self.period);
        let next = (self.row + 1) % self.rows.len();
        let is_in_next = self.rows[next].0 <= offset && end_of(next).is_none_or(|end| offset < end);
        let row = if is_in_next { next } else { self.rows.partition_point(|(at, _)| *at <= offset) - 1 };
        self.until = end_of(row).map_or(Time::MAX, |end| lap + end);
        self.from = lap + self.rows[row].0;
        self.current = self.rows[row].1;
        self.row = row;
    }
}

impl<T: Copy> From<T> for Schedule<T> {
    fn from(value: T) -> Self {
        Self::constant(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn at(t: u64) -> Time {
        Time::ZERO + secs(t)
    }

    #[test]
    fn a_row_holds_until_the_next_and_the_last_for_ever() {
        let mut schedule = Schedule::table(vec![(secs(0), 'a'), (secs(2), 'b'), (secs(3), 'c')]).unwrap();
        let nano = Duration::from_nanos(1);
        assert_eq!(schedule.at(at(2) - nano), 'a');
        assert_eq!(schedule.at(at(2)), 'b');
        assert_eq!(schedule.at(at(3) - nano), 'b');
        assert_eq!(schedule.at(at(1_000_000)), 'c');
        assert_eq!(schedule.at(Time::MAX), 'c');
        assert_eq!(schedule.at(Time::ZERO), 'a', "looking back works too");
    }

    #[test]
    fn a_looping_table_agrees_with_a_plain_search_at_every_step() {
        let rows = vec![(secs(0), 0), (secs(1), 1), (secs(4), 2), (secs(6), 3)];
        let mut schedule = Schedule::table(rows.clone()).unwrap().looping(secs(7)).unwrap();
        for stride in [1, 2, 3, 5, 7, 20] {
            for step in 0..50 {
                let t = step * stride;
                let expected = rows.iter().rfind(|(from, _)| *from <= secs(t % 7)).unwrap().1;
                assert_eq!(schedule.at(at(t)), expected, "at {t}s by strides of {stride}");
            }
        }
    }

    #[test]
    fn missing_cells_change_nothing() {
        let cells = [(secs(0), None), (secs(1), Some(1)), (secs(2), None), (secs(3), Some(3))];
        let mut schedule = Schedule::column(9, cells).unwrap();
        let seen: Vec<i32> = (0..5).map(|t| schedule.at(at(t))).collect();
        assert_eq!(seen, [9, 1, 1, 3, 3]);
        assert_eq!(Schedule::column(9, []).unwrap().at(at(5)), 9);
    }

    #[test]
    fn tables_out_of_order_are_refused_and_say_what_is_allowed() {
        assert_eq!(Schedule::<u8>::table(vec![]).unwrap_err(), ScheduleError::Empty);
        let late = Schedule::table(vec![(secs(1), 0)]).unwrap_err();
        assert_eq!(late.to_string(), "the first row is at 1s; it must be at 0s");
        let twice = Schedule::table(vec![(secs(0), 0), (secs(1), 0), (secs(1), 0)]).unwrap_err();
        assert_eq!(twice, ScheduleError::NotIncreasing { row: 2, at: secs(1) });
        let short = Schedule::steps(secs(1), [1, 2]).unwrap().looping(secs(1)).unwrap_err();
        assert_eq!(short, ScheduleError::PeriodTooShort { period: secs(1), last: secs(1) });
        assert!(Schedule::steps(secs(0), [1, 2]).is_err());
    }
}
