//! Tables of numbers over time.

use std::collections::BTreeSet;

use taut_core::{Duration, Time};

use crate::error::Problem;
use crate::file::Limits;

/// A table of numbers over time: one time per row, one value per channel and row. It has at least one channel, and
/// times never go back.
///
/// A value holds from its row's time until the next row's (zero-order hold).
#[derive(Debug, Clone, PartialEq)]
pub struct Signals {
    start_ns: i64,
    times: Vec<Time>,
    channels: Vec<Channel>,
}

/// One signal.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    column: String,
    values: Vec<f64>,
}

/// One row of a table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    signals: &'a Signals,
    index: usize,
}

/// Why a table has no form at another rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResampleError {
    /// The period is zero.
    #[error("the period must be longer than 0")]
    NoPeriod,
    /// Too many values would come out.
    #[error(
        "more than {limit} values would come out, the most that are made; choose a longer period than {period}"
    )]
    TooMany {
        /// How many are made.
        limit: u64,
        /// What was asked for.
        period: Duration,
    },
}

impl Signals {
    /// Values that [`resample`](Self::resample) makes at most.
    pub const MAX_RESAMPLED: u64 = 256_000_000;

    /// A table without rows. `columns` are the channels' names with their units, such as `leader_position_rad`;
    /// `start_ns` is the recorder's own clock at the first row, in nanoseconds.
    ///
    /// # Panics
    /// When there are no columns, or two of one name.
    pub fn new<Name: Into<String>>(start_ns: i64, columns: impl IntoIterator<Item = Name>) -> Self {
        let channels: Vec<_> =
            columns.into_iter().map(|column| Channel { column: column.into(), values: Vec::new() }).collect();
        assert!(!channels.is_empty(), "a table has at least one channel");
        let names: BTreeSet<_> = channels.iter().map(|channel| &channel.column).collect();
        assert_eq!(names.len(), channels.len(), "channels have different names");
        Self { start_ns, times: Vec::new(), channels }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When `time` is before the last row's, or there is not one finite value per channel.
    pub fn push(&mut self, time: Time, values: &[f64]) {
        assert!(self.times.last().is_none_or(|last| *last <= time), "times do not go back");
        assert_eq!(values.len(), self.channels.len(), "one value per channel");
        assert!(values.iter().all(|value| value.is_finite()), "values are finite");
        self.times.push(time);
        for (channel, value) in self.channels.iter_mut().zip(values) {
            channel.values.push(*value);
        }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The recorder's own clock at time zero here, in nanoseconds.
    pub fn start_ns(&self) -> i64 {
        self.start_ns
    }

    /// Every row's time since the first row.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// From the first row to the last.
    pub fn duration(&self) -> Duration {
        self.times.last().map_or(Duration::ZERO, |last| last.saturating_since(self.times[0]))
    }

    /// Every channel, in the order of the file's columns.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The channel with this name, with its unit (`leader_position_rad`) or without (`leader_position`).
    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.position(name).map(|index| &self.channels[index])
    }

    /// Where among [`channels`](Self::channels) it stands.
    pub fn position(&self, name: &str) -> Option<usize> {
        let exact = self.channels.iter().position(|channel| channel.column == name);
        exact.or_else(|| self.channels.iter().position(|channel| channel.name() == name))
    }

    /// Gives all of it to a sink.
    pub(crate) fn write_to(&self, sink: &mut dyn RowSink) -> Result<(), Problem> {
        sink.begin(self.start_ns, self.channels.iter().map(|channel| channel.column.clone()).collect())?;
        let mut values = Vec::with_capacity(self.channels.len());
        for row in self.rows() {
            values.clear();
            values.extend(row.values());
            sink.row(row.time(), &values)?;
        }
        Ok(())
    }

    /// Row by row.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.len()).map(|index| Row { signals: self, index })
    }

    /// The same signals at times 0, `period`, 2·`period`, … up to the last row, each with the values that hold then
    /// (zero-order hold: nothing is interpolated or smoothed).
    ///
    /// # Errors
    /// When `period` is zero, or so short that more than [`Signals::MAX_RESAMPLED`] values would come out.
    pub fn resample(&self, period: Duration) -> Result<Self, ResampleError> {
        if period.is_zero() {
            return Err(ResampleError::NoPeriod);
        }
        let columns = self.channels.iter().map(|channel| channel.column.as_str());
        let mut resampled = Self::new(self.start_ns, columns);
        let Some(last) = self.times.last().map(|last| *last - Time::ZERO) else { return Ok(resampled) };
        let rows = last / period + 1;
        if rows.saturating_mul(self.channels.len() as u64) > Self::MAX_RESAMPLED {
            return Err(ResampleError::TooMany { limit: Self::MAX_RESAMPLED, period });
        }
        let mut from = 0;
        for step in 0..rows {
            let time = Time::ZERO + period * step;
            while self.times.get(from + 1).is_some_and(|next| *next <= time) {
                from += 1;
            }
            resampled.times.push(time);
            for (out, channel) in resampled.channels.iter_mut().zip(&self.channels) {
                out.values.push(channel.values[from]);
            }
        }
        Ok(resampled)
    }
}

impl Channel {
    /// The column's whole name: `leader_position_rad`.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The name without the unit: `leader_position`.
    pub fn name(&self) -> &str {
        split_unit(&self.column).0
    }

    /// The unit, where the column's name ends in one: `rad`, `N·m`, `s`.
    pub fn unit(&self) -> Option<&'static str> {
        split_unit(&self.column).1
    }

    /// One value per row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

impl<'a> Row<'a> {
    /// Its time since the first row.
    pub fn time(&self) -> Time {
        self.signals.times[self.index]
    }

    /// The value of every channel, in the order of [`Signals::channels`].
    pub fn values(&self) -> impl ExactSizeIterator<Item = f64> + use<'a> {
        let index = self.index;
        self.signals.channels.iter().map(move |channel| channel.values[index])
    }
}

/// Whom the rows of a table are given to, one after the other.
pub(crate) trait RowSink {
    /// Before the first row: its time on the recorder's own clock, and the columns.
    fn begin(&mut self, start_ns: i64, columns: Vec<String>) -> Result<(), Problem>;
    /// A time since the first row, and a finite value for each column.
    fn row(&mut self, time: Time, values: &[f64]) -> Result<(), Problem>;
}

/// A table in memory.
pub(crate) struct Kept<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) signals: Option<Signals>,
}

impl RowSink for Kept<'_> {
    fn begin(&mut self, start_ns: i64, columns: Vec<String>) -> Result<(), Problem> {
        self.signals = Some(Signals::new(start_ns, columns));
        Ok(())
    }

    fn row(&mut self, time: Time, values: &[f64]) -> Result<(), Problem> {
        let Some(signals) = &mut self.signals else { return Ok(()) };
        signals.push(time, values);
        self.limits.check_rows(signals.len())?;
        let count = signals.len().saturating_mul(values.len());
        self.limits.check_values(count).map_err(|problem| match problem {
            Problem::TooLarge { limit, .. } => Problem::LongTable { limit },
            problem => problem,
        })
    }
}

/// Suffixes that are units, longer ones before those that they end in.
const UNITS: [(&str, &str); 28] = [
    ("_rad_per_s", "rad/s"),
    ("_deg_per_s", "deg/s"),
    ("_m_per_s", "m/s"),
    ("_rad_s", "rad/s"),
    ("_m_s", "m/s"),
    ("_m_s2", "m/s²"),
    ("_rad_s2", "rad/s²"),
    ("_rad", "rad"),
    ("_deg", "deg"),
    ("_nm", "N·m"),
    ("_n", "N"),
    ("_mm", "mm"),
    ("_m", "m"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_hz", "Hz"),
    ("_v", "V"),
    ("_a", "A"),
    ("_w", "W"),
    ("_kg", "kg"),
    ("_pa", "Pa"),
    ("_celsius", "°C"),
    ("_bytes", "B"),
    ("_bps", "bit/s"),
    ("_percent", "%"),
    ("_ratio", "1"),
];

pub(crate) fn split_unit(column: &str) -> (&str, Option<&'static str>) {
    let found = UNITS.iter().find_map(|(suffix, unit)| {
        let name = column.strip_suffix(suffix).filter(|name| !name.is_empty())?;
        // Of a quaternion it is a part.
        (!name.ends_with("orientation")).then_some((name, Some(*unit)))
    });
    found.unwrap_or((column, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(times_us: &[u64]) -> Signals {
        let mut signals = Signals::new(0, ["x_rad"]);
        for (row, time) in times_us.iter().enumerate() {
            signals.push(Time::ZERO + Duration::from_micros(*time), &[row as f64]);
        }
        signals
    }

    #[test]
    fn units_come_from_the_longest_suffix() {
        assert_eq!(split_unit("leader_torque_nm"), ("leader_torque", Some("N·m")));
        assert_eq!(split_unit("wrist_velocity_rad_per_s"), ("wrist_velocity", Some("rad/s")));
        assert_eq!(split_unit("velocity_m_s"), ("velocity", Some("m/s")));
        assert_eq!(split_unit("mode"), ("mode", None));
        assert_eq!(split_unit("operator_state_orientation_w"), ("operator_state_orientation_w", None));
        assert_eq!(split_unit("_rad"), ("_rad", None));
    }

    #[test]
    fn resampling_holds_the_last_value() {
        let resampled = table(&[0, 500, 1_000, 1_900, 3_100]).resample(Duration::from_millis(1)).unwrap();
        assert_eq!(resampled.channels()[0].values(), [0.0, 2.0, 3.0, 3.0]);
        assert_eq!(resampled.duration(), Duration::from_millis(3));
    }

    #[test]
    fn resampling_is_bounded() {
        let signals = table(&[0, 1_000_000_000_000]);
        assert_eq!(signals.resample(Duration::ZERO), Err(ResampleError::NoPeriod));
        let error = signals.resample(Duration::from_micros(1)).unwrap_err();
        assert!(error.to_string().contains("longer period than 1us"), "{error}");
    }
}
