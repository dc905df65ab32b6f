//! A way that does to packets what a recorded one did.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{DropCause, Duration, LinkEvent, Packet, PacketMeta, Time};

use crate::Luck;
use crate::jitter::AnyOrder;
use crate::stage::Stage;

/// What became of messages sent at equal distances over a path, and of their answers; a row each.
///
/// As CSV: a header, and for a path `a` the columns `a_one_way_ms` (empty: it never arrived) and, where the way back is wanted,
/// `a_acknowledged_after`, the number of later messages that had been sent when its answer was there (empty: none came).
///
/// ```
/// use taut_core::Duration;
/// use taut_link::PathRecording;
/// let text = "command,a_one_way_ms,a_acknowledged_after\n1,4.5,0\n2,,\n3,5,33\n";
/// let path = PathRecording::parse(text, "a")?;
/// assert_eq!(path.there(0), Some(Duration::from_micros(4_500)));
/// assert_eq!(path.there(1), None);
/// # Ok::<(), taut_link::RecordedError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRecording {
    /// Shared by the two ways.
    rows: Arc<[Row]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    there: Option<Duration>,
    acknowledged_after: Option<u32>,
}

/// Text that is not a recording of this path. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// A column is not there.
    #[error("has no column {0}")]
    NoColumn(String),
    /// A cell is not what its column has.
    #[error("line {line}: `{cell}` in column {column} is not {what}")]
    Cell {
        /// Which line.
        line: usize,
        /// The cell.
        cell: String,
        /// Its column.
        column: String,
        /// What it must be.
        what: &'static str,
    },
    /// There is no row, or there are too many.
    #[error("has {0} rows; 1 to {max} are allowed", max = PathRecording::MAX_ROWS)]
    Rows(usize),
}

impl PathRecording {
    /// Rows at most: over eight hours of a message every 30 ms.
    pub const MAX_ROWS: usize = 1_000_000;
    /// Nothing takes longer: ten minutes.
    const LONGEST_MS: f64 = 600_000.0;

    /// Reads the columns of one path.
    ///
    /// # Errors
    /// See [`RecordedError`].
    pub fn parse(text: &str, path: &str) -> Result<Self, RecordedError> {
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
        let column = |name: &str| head.iter().position(|other| *other == name);
        let (one_way, after) = (format!("{path}_one_way_ms"), format!("{path}_acknowledged_after"));
        let there_at = column(&one_way).ok_or(RecordedError::NoColumn(one_way.clone()))?;
        let after_at = column(&after).ok_or(RecordedError::NoColumn(after.clone()))?;
        let mut rows = Vec::new();
        for (line, text) in (2..).zip(lines).filter(|(_, text)| !text.trim().is_empty()) {
            let cell = |at: usize| text.split(',').nth(at).map(str::trim).filter(|cell| !cell.is_empty());
            let fault = |cell: &str, column: &str, what| RecordedError::Cell {
                line,
                cell: cell.chars().take(40).collect(),
                column: column.to_owned(),
                what,
            };
            let there = cell(there_at).map(|cell| {
                let ms: Option<f64> = cell.parse().ok().filter(|ms| (0.0..=Self::LONGEST_MS).contains(ms));
                let ms = ms.ok_or_else(|| fault(cell, &one_way, "a number of ms from 0 to 600000"))?;
                Ok(Duration::from_nanos((ms * 1e6).round() as u64))
            });
            let acknowledged_after = cell(after_at)
                .map(|cell| cell.parse().map_err(|_| fault(cell, &after, "a whole number of messages")));
            rows.push(Row { there: there.transpose()?, acknowledged_after: acknowledged_after.transpose()? });
        }
        match rows.len() {
            1..=Self::MAX_ROWS => Ok(Self { rows: rows.into() }),
            count => Err(RecordedError::Rows(count)),
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// One way of the message of this row, from 0, again from the top at the end; `None` if it never arrived.
    pub fn there(&self, row: usize) -> Option<Duration> {
        self.rows[row % self.rows.len()].there
    }

    /// How long the answer to it took, when a row lasts `every`. A recording says only how many rows later it was there: within these a
    /// `share` (0 to 1) of `every` decides. One of the same row took as long as the message, as far as the row leaves room.
    /// `None` if it never came, or there was none to come.
    pub fn back(&self, row: usize, every: Duration, share: f64) -> Option<Duration> {
        let row = self.rows[row % self.rows.len()];
        let (there, after) = (row.there?, row.acknowledged_after?);
        if after == 0 {
            return Some(there.min(every.saturating_sub(there)));
        }
        let round = every.saturating_mul(u64::from(after));
        let round = round + Duration::from_nanos((share * every.as_nanos() as f64) as u64);
        Some(round.saturating_sub(there))
    }
}

/// What a packet meets that is not the first of its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RecordedLater")]
pub enum Later {
    /// The same as the first.
    #[default]
    SameRow,
    /// What the first one of the next row will meet.
    NextRow,
}

/// The parameters of [`Recorded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedConfig {
    every: Duration,
    back: bool,
    later: Later,
    skip: usize,
}

/// So long a packet is the first one of its row.
const FIRST: Duration = Duration::from_millis(1);

impl RecordedConfig {
    /// The way there, a row each `every` (at least 1 µs).
    pub fn new(every: Duration) -> Self {
        let every = every.max(Duration::from_micros(1));
        Self { every, back: false, later: Later::default(), skip: 0 }
    }

    /// The way back instead, which the answers took. What is sent in a row whose message never arrived is lost: of the way back nothing
    /// is known then.
    pub fn back(mut self, back: bool) -> Self {
        self.back = back;
        self
    }

    /// On the way there: does what is sent later than the first millisecond of a row share its luck? A recording has one
    /// sample a row and cannot say. Default: it does.
    pub fn later(mut self, later: Later) -> Self {
        self.later = later;
        self
    }

    /// Begins with this row, from 0; what is before it comes at the end.
    pub fn skip(mut self, rows: usize) -> Self {
        self.skip = rows;
        self
    }
}

/// Delays or drops each packet as the recording's row did that belongs to the moment at which it enters. Packets may overtake each other.
/// Rows begin at time zero, each lasts as long as the next; at the end they begin again.
///
/// Draws one number for every packet.
#[derive(Clone, Debug)]
pub struct Recorded {
    path: PathRecording,
    config: RecordedConfig,
    luck: Luck,
    inside: AnyOrder,
}

impl Recorded {
    /// Packets held at most; one that enters while as many are inside is dropped ([`DropCause::DelayFull`]).
    pub const LIMIT: usize = crate::Delay::DEFAULT_LIMIT;

    /// Plays `path`.
    pub fn new(path: PathRecording, config: RecordedConfig, luck: impl Into<Luck>) -> Self {
        Self { path, config, luck: luck.into(), inside: AnyOrder::new(Self::LIMIT) }
    }

    /// What a packet meets that enters at `at`.
    fn fate(&mut self, at: Time, sent: Time) -> Option<Duration> {
        let RecordedConfig { every, back, later, skip } = self.config;
        let since = at - Time::ZERO;
        let row = (since / every) as usize % self.path.rows() + skip % self.path.rows();
        let share = (self.luck.of(sent).next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if back {
            return self.path.back(row, every, share);
        }
        let is_later = later == Later::NextRow && since % every >= FIRST;
        self.path.there(row + usize::from(is_later))
    }
}

impl Stage for Recorded {
    fn push(&mut self, at: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        match self.fate(at, packet.meta.sent) {
            Some(delay) => self.inside.push(at + delay, packet, events),
            None => events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::Loss }),
        }
    }

    #[inline]
    fn due(&self) -> Time {
        self.inside.due()
    }

    #[inline]
    fn step(&mut self, _: &mut Vec<LinkEvent>) -> Option<Packet> {
        self.inside.pop()
    }

    fn why(&self) -> &'static str {
        "as recorded"
    }

    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.inside.visit(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    const TEXT: &str = "command,a_one_way_ms,a_acknowledged_after,b_one_way_ms,b_acknowledged_after\n\
                        1,4,0,5,0\n2,25,0,5,33\n3,,,6,\n";

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn play(path: &str, config: RecordedConfig) -> Recorded {
        let path = PathRecording::parse(TEXT, path).expect("a recording");
        Recorded::new(path, config, Seed::new(1).stream("recorded"))
    }

    #[test]
    fn each_row_lasts_as_long_and_after_the_last_comes_the_first() {
        let mut link = play("a", RecordedConfig::new(ms(30)));
        let mut met = |at: u64| link.fate(Time::ZERO + ms(at), Time::ZERO + ms(at));
        assert_eq!(
            [0, 29, 30, 60, 89, 90].map(&mut met),
            [4, 4, 25, 0, 0, 4].map(|it| (it > 0).then_some(ms(it)))
        );
    }

    #[test]
    fn a_later_packet_meets_its_own_row_or_the_next_one_as_is_asked() {
        let mut next = play("a", RecordedConfig::new(ms(30)).later(Later::NextRow));
        let mut met = |at: u64| next.fate(Time::ZERO + ms(at), Time::ZERO + ms(at));
        assert_eq!(
            [0, 10, 30, 40, 70].map(&mut met),
            [Some(ms(4)), Some(ms(25)), Some(ms(25)), None, Some(ms(4))]
        );
        let mut skipped = play("a", RecordedConfig::new(ms(30)).skip(1));
        assert_eq!(skipped.fate(Time::ZERO, Time::ZERO), Some(ms(25)));
    }

    #[test]
    fn an_answer_comes_so_many_rows_later_or_never_and_the_same_row_leaves_it_what_is_left() {
        let a = PathRecording::parse(TEXT, "a").expect("a recording");
        assert_eq!([0, 1, 2].map(|row| a.back(row, ms(30), 0.5)), [Some(ms(4)), Some(ms(5)), None]);
        let b = PathRecording::parse(TEXT, "b").expect("a recording");
        assert_eq!([1, 2].map(|row| b.back(row, ms(30), 0.5)), [Some(ms(33 * 30 + 15 - 5)), None]);
        let mut back = play("b", RecordedConfig::new(ms(30)).back(true));
        assert_eq!(back.fate(Time::ZERO + ms(65), Time::ZERO + ms(65)), None);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_line_and_column() {
        let said = |text: &str| PathRecording::parse(text, "a").expect_err("no recording").to_string();
        assert_eq!(said("command,b_one_way_ms\n"), "has no column a_one_way_ms");
        assert_eq!(said("a_one_way_ms\n1\n"), "has no column a_acknowledged_after");
        assert_eq!(said("a_one_way_ms,a_acknowledged_after\n"), "has 0 rows; 1 to 1000000 are allowed");
        let negative = said("a_one_way_ms,a_acknowledged_after\n4,0\n-4,0\n");
        assert_eq!(negative, "line 3: `-4` in column a_one_way_ms is not a number of ms from 0 to 600000");
        let part = said("a_one_way_ms,a_acknowledged_after\n4,0.5\n");
        assert_eq!(part, "line 2: `0.5` in column a_acknowledged_after is not a whole number of messages");
    }
}
