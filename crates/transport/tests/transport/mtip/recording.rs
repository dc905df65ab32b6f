//! Paths as they were recorded: a row for each 30 ms.

use std::fs;
use std::path::PathBuf;

use taut_core::{Duration, Rng, Time};

use crate::mtip::harness::{CLIENT, ms};

/// How long a row lasts.
pub(crate) const ROW: Duration = Duration::from_millis(30);

/// One path of a recording, and what is asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// One way of the message of a row, and so many rows later its answer was there.
    rows: Vec<(Option<Duration>, Option<u64>)>,
    /// What is sent later in a row meets the next one.
    pub(crate) next_row: bool,
    /// So much more there.
    pub(crate) more: Duration,
    /// Answers of the same row take so long, and not as long as the message.
    pub(crate) usual_back: Option<Duration>,
}

impl Recording {
    /// Both paths of `name`; `None`, and said, where the recordings are not there.
    pub(crate) fn both(name: &str) -> Option<[Self; 2]> {
        let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
        let folder = std::env::var_os("TAUT_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
        let file = folder.join("multipath-5g-measured").join(format!("{name}.csv"));
        let Ok(text) = fs::read_to_string(&file) else {
            println!("skipped: {} is not there", file.display());
            return None;
        };
        let path = |first: usize| {
            let row = |line: &str| {
                let cells: Vec<&str> = line.split(',').collect();
                let there = cells[first].parse().ok().map(|ms: f64| Duration::from_nanos((ms * 1e6) as u64));
                (there, cells[first + 1].trim().parse().ok())
            };
            let rows = text.lines().skip(1).map(row).collect();
            Self { rows, next_row: false, more: Duration::ZERO, usual_back: None }
        };
        Some([path(1), path(3)])
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Begins with another row.
    pub(crate) fn rotate(&mut self, rows: usize) {
        self.rows.rotate_left(rows);
    }

    /// Messages of the rows that `which` says take so much longer.
    pub(crate) fn delay_some(&mut self, more: Duration, mut which: impl FnMut() -> bool) {
        for (there, _) in &mut self.rows {
            if which() {
                *there = there.map(|there| there + more);
            }
        }
    }

    /// What one path lost is lost on the other one.
    pub(crate) fn swap_losses(&mut self, other: &mut Self) {
        for (one, other) in self.rows.iter_mut().zip(&mut other.rows) {
            if one.0.is_none() != other.0.is_none() {
                std::mem::swap(one, other);
            }
        }
    }

    /// How long a packet takes that is sent now; `None` if it is lost.
    pub(crate) fn delay(&self, now: Time, from: usize, rng: &mut Rng) -> Option<Duration> {
        let since = now - Time::ZERO;
        let later = self.next_row && from == CLIENT && since % ROW >= ms(1);
        let (there, after) = self.rows[((since / ROW) as usize + usize::from(later)) % self.rows.len()];
        let there = there?;
        if from == CLIENT {
            return Some(there + self.more);
        }
        let round = ROW * after? + Duration::from_nanos(rng.below(ROW.as_nanos()));
        let usual = self.usual_back.unwrap_or(there).min(ROW.saturating_sub(there));
        Some(if after == Some(0) { usual } else { round.saturating_sub(there) })
    }
}
