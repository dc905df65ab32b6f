//! From a message to its copies.

use std::cmp::Reverse;

use taut_core::{DropCause, Duration, Event, Message, PathId, Reason, Time};
use taut_wire::mtip::Hold;

use super::choose::Places;
use super::codec::Copy;
use super::deadline::Copies;
use super::explain::Subject;
use super::outstanding::{Outstanding, Repeat};
use super::path::PathState;
use super::{Mtip, State};

/// Last moments that are waited for at most.
const LAST_MOMENTS: usize = 16_384;
/// After so long down the end that did not link a path forgets it.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

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
        let is_emergency =
            |message: &Message| self.config.emergency.is_some_and(|emergency| message.priority <= emergency);
        if self.chooser.waits_for_its_path(&self.paths) && !self.waiting.peek().is_some_and(is_emergency) {
            return false;
        }
        let Some(message) = self.waiting.pop() else { return false };
        let is_emergency = is_emergency(&message);
        let number = self.next_number;
        self.next_number += 1;
        let budget = self.budget(now, &message);
        let (subject, estimates) =
            (Subject { number, tag: message.tag, budget }, self.estimates(now, budget));
        let (mut places, probability, mut reason) = self.chooser.choose(now, number, budget, &self.paths);
        if is_emergency {
            let linked = (0..self.paths.len()).filter(|place| self.paths[*place].is_linked());
            linked.for_each(|place| places.add(place));
            reason = Reason::Emergency;
        }
        self.stats.sent += 1;
        self.pace.earn(1);
        let (due, mut copies) = (now + budget, Copies::new());
        if let Some(scheduler) = self.chooser.deadline {
            scheduler.begin(now, &mut copies, places, &self.paths);
            copies.everywhere &= !self.codec.is_published();
        }
        self.outstanding.push(now, Outstanding { number, message, due, copies, last_moments: 0 });
        places.iter().for_each(|place| self.queue_copy(now, place, number));
        self.await_answer(now, number, places);
        self.await_last_moments(now, number, due);
        self.explain(subject, places, probability, reason, estimates);
        true
    }

    fn queue_copy(&mut self, now: Time, place: usize, number: u64) {
        let id = self.paths[place].id;
        if let Some(entry) = self.outstanding.find(number) {
            entry.copies.add(now, id);
            self.copies.push_back((id, number));
        }
    }

    /// Notes when another copy over each path must leave at the latest.
    fn await_last_moments(&mut self, now: Time, number: u64, due: Time) {
        let Some(scheduler) = self.chooser.deadline else { return };
        let Some(entry) = self.outstanding.find(number) else { return };
        for path in &self.paths {
            let Some(lead) = scheduler.lead(path) else { continue };
            let at = Time::ZERO + due.saturating_since(Time::ZERO + lead);
            if at > now && self.last_moments.len() < LAST_MOMENTS {
                self.last_moments.push(Reverse((at, number, path.id)));
                entry.last_moments += 1;
            }
        }
    }

    /// Last moments that have come: messages that nothing was heard of get another copy.
    pub(super) fn rescue(&mut self, now: Time) {
        while let Some(Reverse((at, number, id))) = self.last_moments.peek().copied() {
            let entry = self.outstanding.find(number);
            if entry.is_some() && at > now {
                break;
            }
            self.last_moments.pop();
            if let Some(entry) = entry {
                entry.last_moments -= 1;
                self.rescue_over(now, number, id);
            }
        }
    }

    fn rescue_over(&mut self, now: Time, number: u64, id: PathId) {
        let place = self.place_of(id);
        let Some(entry) = self.outstanding.find(number) else { return };
        if entry.last_moments == 0 {
            return self.rescue_now(now, number, Reason::Silence);
        }
        let (Some(place), Some(scheduler)) = (place, self.chooser.deadline) else { return };
        if entry.copies.are_many() {
            return;
        }
        if let Some(chance) = scheduler.rescue(now, &entry.copies, entry.due, place, &self.paths) {
            self.copy_again(now, number, Places::of([place]), chance, Reason::Silence);
        }
    }

    /// Waiting would tell nothing more.
    fn rescue_now(&mut self, now: Time, number: u64, reason: Reason) {
        let Some(scheduler) = self.chooser.deadline else { return };
        let Some(entry) = self.outstanding.find(number) else { return };
        if entry.copies.are_many() {
            return;
        }
        if let Some((places, chance)) = scheduler.rescue_now(now, &entry.copies, entry.due, &self.paths) {
            self.copy_again(now, number, places, chance, reason);
        }
    }

    pub(super) fn copy_again(&mut self, now: Time, number: u64, places: Places, chance: f64, reason: Reason) {
        let Some(entry) = self.outstanding.find(number) else { return };
        entry.copies.again = true;
        // What must arrive has a pace of its own.
        let is_paced = entry.must_arrive();
        let budget = entry.due.saturating_since(now);
        let subject = Subject { number, tag: entry.message.tag, budget };
        let estimates = self.estimates(now, budget);
        let mut queued = Places::default();
        for place in places.iter() {
            if !is_paced && self.pace.credit == 0 {
                break;
            }
            self.pace.credit = self.pace.credit.saturating_sub(1);
            self.stats.again += 1;
            self.queue_copy(now, place, number);
            queued.add(place);
        }
        if queued != Places::default() {
            self.explain(subject, queued, Some(chance), reason, estimates);
        }
    }

    /// How long until the message is worthless, or until it is wanted there. One without a deadline never is, however old it was when it came here: it is to be as
    /// quick from now on as one that has the conversation's.
    fn budget(&self, now: Time, message: &Message) -> Duration {
        let left = |deadline: Duration| deadline.saturating_sub(now.saturating_since(message.created));
        message.wanted.or(message.deadline).map_or(self.config.deadline, left)
    }

    /// The next copy; its path.
    pub(super) fn emit_copy(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<PathId> {
        let emergency = self.config.emergency;
        while let Some((id, number)) = self.copies.pop_front() {
            let Some(place) = self.place_of(id) else { continue };
            let Some(entry) = self.outstanding.find(number) else { continue };
            let path = &mut self.paths[place];
            let (message, everywhere) = (&entry.message, entry.copies.everywhere);
            // The published protocol answers each, and a stop waits for nobody.
            let is_emergency = emergency.is_some_and(|emergency| message.priority <= emergency);
            let at_once = everywhere || is_emergency || self.codec.is_published();
            let hold = match at_once {
                true => Hold::NONE,
                false => path.hold(now),
            };
            entry.copies.may_wait(id, hold.duration());
            let copy = Copy {
                number,
                stream: message.stream.0,
                everywhere,
                hold,
                created: message.created,
                deadline: message.deadline,
                payload: &message.data,
            };
            self.codec.emit_copy(now, copy, buffer);
            self.stats.copies += 1;
            path.sent_copy(now, number, everywhere, hold.duration());
            path.stats.copies += 1;
            path.published.used = self.stats.sent;
            // What is used needs no probe. One that is down gets them: they link it again when the peer knows it no more.
            if path.state != PathState::Down {
                path.next_probe = now + self.config.probe_interval;
            }
            return Some(id);
        }
        None
    }

    /// The peer has it: no copy is needed any more.
    pub(super) fn settle(&mut self, number: u64) {
        if self.outstanding.remove(number).is_some() {
            self.pace.earn(2);
        }
        // What is settled needs no waking up.
        while let Some(Reverse((_, number, _))) = self.last_moments.peek().copied() {
            if self.outstanding.find(number).is_some() {
                break;
            }
            self.last_moments.pop();
        }
    }

    /// What is overdue counts as lost. Another copy goes out at once where there is time: later silence would say no more, and
    /// a message with a long deadline would wait for its end.
    pub(super) fn overdue(&mut self, now: Time) {
        let mut lost = Vec::new();
        for path in &mut self.paths {
            path.expire(now, |number| lost.push(number));
        }
        self.judge(now);
        lost.into_iter().for_each(|number| self.send_again(now, number));
    }

    pub(super) fn send_again(&mut self, now: Time, number: u64) {
        self.chooser.missed(number);
        let Some(entry) = self.outstanding.find(number) else { return };
        if !entry.must_arrive() && !entry.copies.again {
            self.rescue_now(now, number, Reason::Overdue);
        }
    }

    /// A path is gone: what was on its way there is as good as overdue.
    pub(super) fn forget_path(&mut self, now: Time, place: usize) {
        let mut path = self.paths.remove(place);
        if path.is_linked() && path.state != PathState::Down {
            self.events.push_back(Event::PathDown(path.id));
        }
        let lost: Vec<u64> = path.drain().collect();
        for number in lost {
            self.outstanding.repeat(number, |repeat| Repeat { at: now, ..repeat });
            self.send_again(now, number);
        }
    }

    /// The end that did not link them lets go of paths that are long down while another is not: the peer may have removed
    /// them, and links them again otherwise.
    pub(super) fn forget_what_is_long_down(&mut self, now: Time) {
        if self.client
            || self.codec.is_published()
            || self.paths.iter().all(|path| path.state == PathState::Down)
        {
            return;
        }
        while let Some(place) = self.paths.iter().position(|path| path.is_down_for(now, FORGOTTEN_AFTER)) {
            self.forget_path(now, place);
        }
    }
}
