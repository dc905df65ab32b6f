//! What must arrive is sent again until it is acknowledged, and the more slowly the longer nothing is heard.
//!
//! A copy's answer is awaited as long as answers take on its path, the newest one included, and twice as long after each
//! repetition, up to a second (RFC 8085 section 3.1.1, RFC 6298 section 5.5). Repetitions spend a credit that what is sent and what is
//! acknowledged brings; without it there is one at a time. So an outage or a full queue is not answered with more of the same.
//!
//! The peer remembers the newest numbers only, and takes what is older for a duplicate: what many others have overtaken is sent again
//! under a number of its own time. Should the peer have it all the same, and only all answers be lost, it arrives twice.

use taut_core::{DropCause, Duration, Event, Reason, Time};

use super::choose::Places;
use super::outstanding::Repeat;
use super::{Mtip, deadline};
use crate::window::REPLAY_WINDOW;

/// Copies that may be sent again at once. Each message that is sent adds one, so that where all answers are overdue, because the
/// network or this host is overloaded, copies at most double what is sent.
pub(super) const AGAIN_AT_ONCE: u32 = 64;
/// What is reliable is to arrive within this, if it can.
const PATIENCE: Duration = Duration::from_secs(1);
/// So far behind the newest a number is soon one that the peer remembers no more.
const OVERTAKEN: u64 = REPLAY_WINDOW / 2;
/// An answer is awaited no longer than this, or a round trip.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How long nothing was heard, and what may be sent meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Copies that may be sent again at once.
    pub(super) credit: u32,
    /// How often the wait has doubled since something was heard.
    quiet: u32,
    /// When it doubles next.
    doubles: Time,
    /// Without credit nothing is repeated before.
    next: Time,
}

impl Default for Pace {
    fn default() -> Self {
        Self { credit: AGAIN_AT_ONCE, quiet: 0, doubles: Time::ZERO, next: Time::ZERO }
    }
}

impl Pace {
    pub(super) fn earn(&mut self, copies: u32) {
        self.credit = (self.credit + copies).min(AGAIN_AT_ONCE);
    }
}

impl Mtip {
    /// A message that must arrive left over these paths.
    pub(super) fn await_answer(&mut self, now: Time, number: u64, places: Places) {
        let usual = places.iter().map(|place| self.paths[place].newest_or_usual()).max();
        let quiet = self.pace.quiet;
        self.outstanding.repeat(number, |repeat| Repeat {
            sent: now,
            at: now + wait(usual.unwrap_or(LONGEST_WAIT), quiet.max(repeat.times)),
            ..repeat
        });
    }

    /// When something may be repeated next.
    pub(super) fn repeats_at(&self) -> Option<Time> {
        let due = self.outstanding.first_repeat()?;
        Some(if self.pace.credit > 0 { due } else { due.max(self.pace.next) })
    }

    /// Repeats what is due.
    pub(super) fn repeat(&mut self, now: Time) {
        while self.repeats_at().is_some_and(|at| at <= now) {
            let has_credit = self.pace.credit > 0;
            let Some(number) = self.outstanding.due_for_repeat(now, has_credit) else { return };
            if self.outstanding.find(number).is_some_and(|entry| entry.message.is_late(now)) {
                self.give_up(number);
                continue;
            }
            let Some((place, chance)) = self.best_for_repeat(now, number) else {
                self.outstanding.repeat(number, |repeat| Repeat { at: now + LONGEST_WAIT, ..repeat });
                continue;
            };
            let (number, places) = (self.renumber(number), Places::of([place]));
            self.outstanding.repeat(number, |repeat| Repeat { times: repeat.times + 1, ..repeat });
            self.await_answer(now, number, places);
            let wait = wait(self.paths[place].newest_or_usual(), self.pace.quiet);
            if now >= self.pace.doubles {
                self.pace.quiet = (self.pace.quiet + 1).min(16);
                self.pace.doubles = now + wait;
            }
            if !has_credit {
                self.pace.next = now + wait;
            }
            self.copy_again(now, number, places, chance, Reason::Overdue);
        }
    }

    /// What is past its deadline makes room.
    pub(super) fn give_up_late(&mut self, now: Time) {
        while let Some(number) = self.outstanding.first_late(now) {
            self.give_up(number);
        }
    }

    fn give_up(&mut self, number: u64) {
        if let Some(late) = self.outstanding.remove(number) {
            self.stats.given_up += 1;
            self.events.push_back(Event::Dropped { tag: late.tag, cause: DropCause::TooLate });
        }
    }

    /// The number under which it is sent again.
    fn renumber(&mut self, number: u64) -> u64 {
        if self.next_number - number < OVERTAKEN {
            return number;
        }
        let fresh = self.next_number;
        self.next_number += 1;
        self.outstanding.renumber(number, fresh);
        fresh
    }

    /// The path that did not carry it yet, or the one with the best chance, and that chance.
    fn best_for_repeat(&mut self, now: Time, number: u64) -> Option<(usize, f64)> {
        let entry = self.outstanding.find(number)?;
        let linked = (0..self.paths.len()).filter(|place| self.paths[*place].is_linked());
        let rank = |place: usize| {
            let path = &self.paths[place];
            (!entry.copies.took(path.id), deadline::in_time(path, now, PATIENCE), place)
        };
        let best = linked.map(rank).max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
        Some((best.2, best.1))
    }

    /// Something was acknowledged: what waited because nothing was heard waits no longer than an answer takes.
    pub(super) fn heard_again(&mut self, now: Time) {
        if self.pace.quiet == 0 {
            return;
        }
        (self.pace.quiet, self.pace.doubles, self.pace.next) = (0, now, now);
        let paths = self.paths.iter().filter(|path| path.is_linked());
        let usual = paths.map(super::Path::newest_or_usual).max().unwrap_or(LONGEST_WAIT);
        self.outstanding.repeat_all(|repeat| Repeat {
            times: 0,
            at: repeat.at.min(now.max(repeat.sent + usual)),
            ..repeat
        });
    }
}

/// So long after `doubled` doublings of the usual.
fn wait(usual: Duration, doubled: u32) -> Duration {
    usual.saturating_mul(1 << doubled.min(16)).min(LONGEST_WAIT.max(usual))
}
