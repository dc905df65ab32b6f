//! What the network carried of a session in the time that counts: after the warm-up and before the scenario's end.

use taut_core::{Duration, Time};
use taut_lab::run::Way;
use taut_lab::scenario::Scenario;

use crate::RealError;
use crate::between::Middle;
use crate::cross::Books;

/// Bytes that entered and that left, there and back.
pub(crate) type Carried = [[u64; 2]; 2];

/// Reads what was carried when that time begins and when it ends, where packets are not seen on their way.
pub(crate) struct Window<'a> {
    middle: &'a dyn Middle,
    books: &'a Books,
    sees: bool,
    began: Time,
    /// When it is to be read, since the run began.
    marks: [Duration; 2],
    read: Vec<Result<Carried, RealError>>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(scenario: &Scenario, middle: &'a dyn Middle, books: &'a Books, sees: bool) -> Self {
        let marks = [scenario.warmup, scenario.duration];
        Self { middle, books, sees, began: Time::MAX, marks, read: Vec::new() }
    }

    /// The run begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.books.lock().begin(now);
        self.middle.begin(now);
        self.began = now;
    }

    /// Reads what is due at `now`; how long it is until the next time.
    pub(crate) fn look(&mut self, now: Time) -> Duration {
        while let Some(mark) = self.marks.get(self.read.len()).filter(|_| !self.sees) {
            let due = self.began + *mark;
            if now < due {
                return due - now;
            }
            self.read.push(self.read());
        }
        Duration::MAX
    }

    /// What was carried between the two, or until now where the session has ended before.
    ///
    /// # Errors
    /// When it could not be read.
    pub(crate) fn counted(mut self) -> Result<Carried, RealError> {
        if self.sees {
            return Ok(self.books.lock().others());
        }
        while self.read.len() < self.marks.len() {
            self.read.push(self.read());
        }
        let read: Vec<Carried> = self.read.into_iter().collect::<Result<_, _>>()?;
        let [before, until] = [read[0], read[1]];
        Ok([0, 1].map(|way| [0, 1].map(|end| until[way][end].saturating_sub(before[way][end]))))
    }

    fn read(&self) -> Result<Carried, RealError> {
        let mut sums = Carried::default();
        for path in without(self.middle.carried()?, self.books) {
            for (sum, way) in sums.iter_mut().zip(path) {
                *sum = [sum[0] + way.entered_bytes, sum[1] + way.left_bytes];
            }
        }
        Ok(sums)
    }
}

/// What each path carried of the session alone: the first has carried the cross traffic. What was `counted` is that of all paths.
pub(crate) fn of_session(counted: Carried, paths: Vec<[Way; 2]>, books: &Books) -> Vec<[Way; 2]> {
    let mut paths = without(paths, books);
    for (way, counted) in paths.iter_mut().take(1).flatten().zip(counted) {
        way.counted = Some(counted);
    }
    paths
}

fn without(mut paths: Vec<[Way; 2]>, books: &Books) -> Vec<[Way; 2]> {
    let Some(first) = paths.first_mut() else { return paths };
    let cross = books.lock().ways();
    first.iter_mut().zip(&cross).for_each(|(way, cross)| *way = way.without(cross));
    paths
}
