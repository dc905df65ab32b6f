//! What goes beside a message so that it arrives though parts of it are lost, and which losses that makes up for.

use std::ops::Range;

use taut_core::{Duration, Time};
use taut_media::{Ahead, Parity, most_parity};

use super::spans::Spans;

/// What goes beside a message.
#[derive(Debug, Default)]
pub(super) enum Redundancy {
    #[default]
    Nothing,
    Copy(Copy),
    Parity(Shield),
}

/// The message once more.
#[derive(Debug)]
pub(super) struct Copy {
    after: Duration,
    /// When it goes: known when all of the message has gone once.
    due: Option<Time>,
    has_gone: bool,
    /// What was lost once: the copy makes up for it.
    lost: Spans,
}

/// Parity of a message. On the wire it stands behind the message's bytes, as if they went on.
#[derive(Debug)]
pub(super) struct Shield {
    total: usize,
    part: usize,
    bytes: Vec<u8>,
    /// Parts of parity that arrived, and those that are lost.
    arrived: usize,
    lost: usize,
    /// Bytes of the message that are lost and need not come again.
    holes: Spans,
}

impl Redundancy {
    /// As it was chosen for a message that goes in parts of so many bytes. There is no parity where these cannot be told.
    pub(super) fn new(ahead: Ahead, message: &[u8], part: Option<usize>) -> Self {
        match ahead {
            Ahead::Nothing => Self::Nothing,
            Ahead::Copy { after } => {
                Self::Copy(Copy { after, due: None, has_gone: false, lost: Spans::default() })
            }
            Ahead::Parity(count) => {
                part.and_then(|part| Shield::new(message, part, count)).map_or(Self::Nothing, Self::Parity)
            }
        }
    }

    /// Bytes of parity.
    pub(super) fn len(&self) -> usize {
        if let Self::Parity(shield) = self { shield.bytes.len() } else { 0 }
    }

    /// These bytes of parity, as they count behind the message's.
    pub(super) fn get(&self, range: &Range<usize>) -> Option<&[u8]> {
        let Self::Parity(shield) = self else { return None };
        let behind = |at: usize| at.checked_sub(shield.total);
        shield.bytes.get(behind(range.start)?..behind(range.end)?)
    }

    /// All of the message has gone.
    pub(super) fn all_went(&mut self, now: Time) {
        if let Self::Copy(copy) = self {
            copy.due.get_or_insert(now + copy.after);
        }
    }

    /// Does a copy still have to go?
    pub(super) fn waits(&self) -> bool {
        matches!(self, Self::Copy(copy) if !copy.has_gone)
    }

    /// When the copy goes.
    pub(super) fn due(&self) -> Option<Time> {
        let Self::Copy(copy) = self else { return None };
        copy.due.filter(|_| !copy.has_gone)
    }

    /// The copy goes now, if it is due.
    pub(super) fn poll_copy(&mut self, now: Time) -> bool {
        let is_due = self.due().is_some_and(|due| due <= now);
        if let Self::Copy(copy) = self {
            copy.has_gone |= is_due;
        }
        is_due
    }

    /// A part of parity arrived.
    pub(super) fn arrived(&mut self) {
        if let Self::Parity(shield) = self {
            shield.arrived += 1;
        }
    }

    /// Can the message be restored, when these of its bytes arrived?
    pub(super) fn restores(&self, arrived: &Spans) -> bool {
        let Self::Parity(shield) = self else { return false };
        shield.arrived > 0 && missing(arrived, shield.total, shield.part) <= shield.arrived
    }

    /// These bytes are lost: what has to go again. Nothing, while what arrived or is under way is enough.
    pub(super) fn lost(&mut self, range: &Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Nothing => Some(range.clone()),
            Self::Copy(copy) => (copy.lost.insert(range.clone()) == 0).then(|| range.clone()),
            Self::Parity(shield) => shield.lost(range),
        }
    }
}

/// How much goes beside messages.
#[derive(Debug, Default)]
pub(super) struct Load {
    messages: f64,
    beside: f64,
}

impl Load {
    /// Of each message: what goes beside changes with the losses, and those are of half a second of pictures.
    const WEIGHT: f64 = 1.0 / 16.0;

    /// A message of so many bytes begins, and this goes beside it.
    pub(super) fn record(&mut self, bytes: usize, beside: &Redundancy) {
        let extra = if matches!(beside, Redundancy::Copy(_)) { bytes } else { beside.len() };
        self.messages += (bytes as f64 - self.messages) * Self::WEIGHT;
        self.beside += (extra as f64 - self.beside) * Self::WEIGHT;
    }

    /// The share that messages themselves have of what goes.
    pub(super) fn share(&self) -> f64 {
        if self.beside > 0.0 { self.messages / (self.messages + self.beside) } else { 1.0 }
    }
}

impl Shield {
    fn new(message: &[u8], part: usize, count: usize) -> Option<Self> {
        let bytes = Parity::new(message.len(), part)?.of(message, count);
        Some(Self { total: message.len(), part, bytes, arrived: 0, lost: 0, holes: Spans::default() })
    }

    fn lost(&mut self, range: &Range<usize>) -> Option<Range<usize>> {
        if range.start < self.total {
            self.holes.insert(range.clone());
        } else {
            self.lost += 1;
        }
        if self.holes.bytes().div_ceil(self.part) + self.lost <= self.bytes.len() / self.part {
            return None;
        }
        let first = self.holes.iter().next()?;
        let again = first.start..first.end.min((first.start / self.part + 1) * self.part);
        self.holes.remove(&again);
        Some(again)
    }
}

/// Parts of a message of which not all bytes are there.
fn missing(has: &Spans, total: usize, part: usize) -> usize {
    let is_there = |at: &usize| has.contain(&(at * part..total.min((at + 1) * part)));
    let parts = total.div_ceil(part);
    parts - (0..parts).filter(is_there).count()
}

/// Parity that came of a message.
#[derive(Debug, Default)]
pub(super) struct Spare {
    part: usize,
    parts: Vec<(usize, Vec<u8>)>,
}

impl Spare {
    /// Bytes that it takes: half of its message's and a part, at most.
    pub(super) fn bytes(&self) -> usize {
        self.part * self.parts.len()
    }

    /// A part of parity of a message of `total` bytes came, so far `behind` its end. False: it is none, or is here already.
    pub(super) fn insert(&mut self, total: usize, behind: usize, bytes: &[u8]) -> bool {
        let Some(parity) = Parity::new(total, bytes.len()) else { return false };
        let (part, at) = (bytes.len(), behind / bytes.len());
        let is_alike = self.parts.is_empty() || self.part == part;
        let is_new = self.parts.iter().all(|(other, _)| *other != at);
        if !is_alike || !is_new || !behind.is_multiple_of(part) || at >= most_parity(parity.parts()) {
            return false;
        }
        self.part = part;
        self.parts.push((at, bytes.to_vec()));
        true
    }

    /// Puts what is missing of the message in its place, if that can be done. `has`: the bytes that are there.
    pub(super) fn restore(&self, message: &mut [u8], has: &Spans) -> bool {
        let total = message.len();
        if self.parts.is_empty() || missing(has, total, self.part) > self.parts.len() {
            return false;
        }
        let is_there = |at| has.contain(&(at * self.part..total.min((at + 1) * self.part)));
        Parity::new(total, self.part).is_some_and(|parity| parity.restore(message, is_there, &self.parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans<const N: usize>(ranges: [(usize, usize); N]) -> Spans {
        let mut spans = Spans::default();
        for (start, end) in ranges {
            spans.insert(start..end);
        }
        spans
    }

    fn message(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 256) as u8).collect()
    }

    #[test]
    fn parity_makes_up_for_as_many_losses_as_it_has_parts_and_then_one_goes_again_for_each() {
        let bytes = message(950);
        let mut beside = Redundancy::new(Ahead::Parity(2), &bytes, Some(100));
        assert_eq!(beside.len(), 200);
        assert_eq!(beside.lost(&(100..200)), None);
        assert_eq!(beside.lost(&(950..1_050)), None, "a part of parity");
        assert_eq!(beside.lost(&(900..950)), Some(100..200));
        assert_eq!(beside.lost(&(100..200)), Some(100..200), "again, and it goes again");
        let most = spans([(0, 900)]);
        assert!(!beside.restores(&most), "parity has not arrived yet");
        beside.arrived();
        assert!(beside.restores(&most) && !beside.restores(&spans([(0, 800)])));
    }

    #[test]
    fn a_copy_goes_once_in_its_time_and_makes_up_for_each_loss_once() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut beside =
            Redundancy::new(Ahead::Copy { after: Duration::from_millis(10) }, &message(10), None);
        assert!(beside.waits() && beside.due().is_none());
        beside.all_went(at(5));
        beside.all_went(at(9));
        assert_eq!((beside.due(), beside.poll_copy(at(14))), (Some(at(15)), false));
        assert!(beside.poll_copy(at(15)) && !beside.poll_copy(at(16)) && !beside.waits());
        assert_eq!((beside.lost(&(0..10)), beside.lost(&(0..10))), (None, Some(0..10)));
    }

    #[test]
    fn the_share_of_messages_follows_what_goes_beside_them() {
        let mut load = Load::default();
        let nothing = || (0..100).map(|_| Redundancy::Nothing);
        nothing().for_each(|none| load.record(1_000, &none));
        assert!((load.share() - 1.0).abs() < 1e-9);
        let parity = Redundancy::new(Ahead::Parity(2), &message(1_000), Some(100));
        (0..100).for_each(|_| load.record(1_000, &parity));
        assert!((load.share() - 1.0 / 1.2).abs() < 0.01, "{}", load.share());
        nothing().for_each(|none| load.record(1_000, &none));
        assert!(load.share() > 0.99);
    }

    #[test]
    fn a_receiver_restores_what_is_missing_and_takes_no_parity_that_is_none() {
        let whole = message(950);
        let beside = Redundancy::new(Ahead::Parity(3), &whole, Some(100));
        let part = |at: usize| beside.get(&(950 + at * 100..1_050 + at * 100)).unwrap();
        let mut spare = Spare::default();
        assert!(!spare.insert(950, 50, part(0)), "parity begins at the multiples of its parts");
        assert!(!spare.insert(950, 500, part(0)), "five at most");
        assert!(!spare.insert(950, 0, &[1; 99]), "of an odd length");
        assert!(spare.insert(950, 200, part(2)) && !spare.insert(950, 200, part(2)));
        assert!(!spare.insert(950, 0, &part(0)[..50]), "of another length");
        assert!(spare.insert(950, 0, part(0)));
        assert_eq!(spare.bytes(), 200);
        let mut broken = whole.clone();
        broken[300..400].fill(0);
        broken[910..950].fill(0);
        let has = spans([(0, 300), (400, 910)]);
        assert!(spare.restore(&mut broken, &has));
        assert_eq!(broken, whole);
        assert!(!spare.restore(&mut broken, &spans([(0, 250), (400, 910)])), "three are missing");
    }
}
