//! From a message to its copies.

use taut_core::{DropCause, Duration, Event, Message, PathId, Reliability, Time};

use super::choose::{Choice, Places, Reason};
use super::codec::Copy;
use super::path::PathState;
use super::{CHOICES, Mtip, State};

/// Messages of which a copy may be sent again, at most.
const OUTSTANDING: usize = 4_096;
/// Copies of a message with a deadline at most, whatever happens.
const MOST_COPIES: u32 = 8;

/// Copies that may be sent again at once. Each message that is sent adds one, so that where all answers are overdue, because the
/// network or this host is overloaded, copies at most double what is sent.
pub(super) const AGAIN_AT_ONCE: u32 = 64;

/// A message that was sent, until it is acknowledged or worthless.
#[derive(Debug)]
pub(super) struct Outstanding {
    number: u64,
    message: Message,
    /// Places of the paths that it took; they change when a path is removed, and then only cost a choice.
    carried: Places,
    copies: u32,
}

impl Mtip {
    /// The next message gets its paths; false when there is none, or no path.
    pub(super) fn dispatch(&mut self, now: Time) -> bool {
        let (events, stats) = (&mut self.events, &mut self.stats);
        self.waiting.drop_late(now, |gone| {
            stats.too_late += 1;
            events.push_back(Event::Dropped { tag: gone.tag, cause: DropCause::TooLate });
        });
        if self.state != State::Open || !self.paths.iter().any(super::Path::is_linked) {
            return false;
        }
        let Some(message) = self.waiting.pop() else { return false };
        let number = self.next_number;
        self.next_number += 1;
        let budget = self.budget(now, &message);
        let (mut places, probability, mut reason) = self.chooser.choose(number, budget, &self.paths);
        if self.config.emergency.is_some_and(|emergency| message.priority <= emergency) {
            let linked = (0..self.paths.len()).filter(|place| self.paths[*place].is_linked());
            linked.for_each(|place| places.add(place));
            reason = Reason::Emergency;
        }
        self.stats.sent += 1;
        self.may_repeat = (self.may_repeat + 1).min(AGAIN_AT_ONCE);
        self.retire(now);
        self.outstanding.push_back(Outstanding { number, message, carried: Places::default(), copies: 0 });
        for place in places.iter() {
            self.copies.push_back((self.paths[place].id, number));
        }
        self.explain(number, places, probability, reason);
        true
    }

    /// How long until the message is worthless.
    fn budget(&self, now: Time, message: &Message) -> Duration {
        let deadline = message.deadline.unwrap_or(self.config.deadline);
        deadline.saturating_sub(now.saturating_since(message.created))
    }

    fn explain(&mut self, number: u64, places: Places, probability: Option<f64>, reason: Reason) {
        if self.choices.len() == CHOICES {
            self.choices.pop_front();
        }
        let bits =
            places.iter().fold(0, |bits, place| bits | 1u64.wrapping_shl(self.paths[place].id.0.into()));
        self.choices.push_back(Choice { number, paths: bits, probability, reason });
    }

    /// Forgets what is worthless.
    fn retire(&mut self, now: Time) {
        let deadline = self.config.deadline;
        let worthless = |entry: &Outstanding| {
            entry.message.reliability == Reliability::Unreliable
                && now.saturating_since(entry.message.created) >= entry.message.deadline.unwrap_or(deadline)
        };
        while self.outstanding.front().is_some_and(worthless) || self.outstanding.len() >= OUTSTANDING {
            self.outstanding.pop_front();
        }
    }

    /// The next copy; its path.
    pub(super) fn emit_copy(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<PathId> {
        while let Some((id, number)) = self.copies.pop_front() {
            let Some(place) = self.place_of(id) else { continue };
            let Some(entry) = find(&mut self.outstanding, number) else { continue };
            entry.carried.add(place);
            entry.copies += 1;
            let message = &entry.message;
            let deadline = match (message.deadline, message.reliability) {
                (None, Reliability::Unreliable) => Some(self.config.deadline),
                (deadline, _) => deadline,
            };
            let copy = Copy {
                number,
                stream: message.stream.0,
                created: message.created,
                deadline,
                payload: &message.data,
            };
            self.codec.emit_copy(now, copy, buffer);
            self.stats.copies += 1;
            let path = &mut self.paths[place];
            path.sent(now, false, number);
            path.stats.copies += 1;
            // What is used needs no probe.
            path.next_probe = now + self.config.probe_interval;
            return Some(id);
        }
        None
    }

    /// The peer has it: no copy is needed any more.
    pub(super) fn settle(&mut self, number: u64) {
        if let Ok(at) = self.outstanding.binary_search_by_key(&number, |entry| entry.number) {
            self.outstanding.remove(at);
        }
    }

    /// What is overdue counts as lost; where there is time, another copy goes out.
    pub(super) fn overdue(&mut self, now: Time) {
        let mut lost = Vec::new();
        for path in &mut self.paths {
            path.expire(now, |number| lost.push(number));
        }
        self.judge();
        lost.into_iter().for_each(|number| self.send_again(now, number));
    }

    fn send_again(&mut self, now: Time, number: u64) {
        self.chooser.missed(number);
        let Some(entry) = find(&mut self.outstanding, number) else { return };
        let reliable = entry.message.reliability == Reliability::Reliable && entry.message.deadline.is_none();
        if entry.copies >= MOST_COPIES && !reliable {
            return;
        }
        let (carried, message) = (entry.carried, std::mem::take(&mut entry.message));
        let budget = if reliable { Duration::from_secs(1) } else { self.budget(now, &message) };
        let chosen = self.chooser.again(budget, carried, &self.paths);
        // Under the other policies, and when no path promises anything, what is reliable takes any path.
        let any = || {
            let place = self.paths.iter().position(|path| path.state != PathState::Linking)?;
            let mut places = Places::default();
            places.add(place);
            Some((places, 0.0))
        };
        let chosen = if reliable { chosen.or_else(any) } else { chosen };
        find(&mut self.outstanding, number).expect("it was there").message = message;
        if let Some((places, chance)) = chosen {
            for place in places.iter() {
                // What must arrive in the end is paced by its own answers.
                if !reliable && self.may_repeat == 0 {
                    break;
                }
                self.may_repeat = self.may_repeat.saturating_sub(1);
                self.stats.again += 1;
                self.copies.push_back((self.paths[place].id, number));
            }
            self.explain(number, places, Some(chance), Reason::Overdue);
        }
    }

    /// A path is gone: what was on its way there is as good as overdue.
    pub(super) fn forget_path(&mut self, now: Time, place: usize) {
        let mut path = self.paths.remove(place);
        if path.is_linked() && path.state != PathState::Down {
            self.events.push_back(Event::PathDown(path.id));
        }
        let lost: Vec<u64> = path.drain().collect();
        for entry in &mut self.outstanding {
            entry.carried = Places::default();
        }
        lost.into_iter().for_each(|number| self.send_again(now, number));
    }
}

fn find(outstanding: &mut std::collections::VecDeque<Outstanding>, number: u64) -> Option<&mut Outstanding> {
    let at = outstanding.binary_search_by_key(&number, |entry| entry.number).ok()?;
    outstanding.get_mut(at)
}
