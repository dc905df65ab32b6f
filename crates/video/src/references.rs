//! Which pictures the next frame may refer to, so that a loss costs no key frame.
//!
//! VP8 keeps three pictures (RFC 6386 section 9.7). Every frame refers to the last one. Of the other two one is such that the receiver is known
//! to have it, and stays until the receiver is known to have the other, which is replaced every few frames. After a loss the next frame refers to
//! the known one alone.

use std::collections::VecDeque;

use taut_media::picture::Ask;

use crate::vpx::Buffers;

/// Frames between two that are kept to be referred to.
const APART: u32 = 4;
/// Frames under way whose chain of references is remembered: four seconds at 60/s.
const REMEMBERED: usize = 256;
/// Frames that are under way before anything is known of the round trip.
const FIRST_DEPTH: u32 = 10;
/// A frame may be repeated, and come after the next one; not after the second behind it.
const OVERTAKES: i32 = 2;

/// How the next frame is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// [`Buffers::NONE`]: a key frame.
    pub(crate) refers: Buffers,
    pub(crate) replaces: Buffers,
    pub(crate) number: u32,
    pub(crate) reference: u32,
    /// It needs nothing but what the receiver has.
    pub(crate) recovers: bool,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    buffer: Buffers,
    number: u32,
}

/// What is known of the receiver.
#[derive(Debug)]
pub(crate) struct References {
    next: u32,
    /// Frames and what they refer to, the newest last.
    chain: VecDeque<Link>,
    /// The receiver has it.
    acknowledged: Option<Kept>,
    /// It may have it.
    candidate: Option<Kept>,
    /// The last frame that needed nothing that may be missing.
    recovered: Option<u32>,
    /// Frames under way: sent, and not yet known to be decoded.
    depth: u32,
    missing: bool,
    key: bool,
    /// Nothing is kept to be referred to: a loss is mended by a key frame.
    only_keys: bool,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    number: u32,
    reference: u32,
}

impl References {
    /// The first frame has this number.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            next: first,
            chain: VecDeque::new(),
            acknowledged: None,
            candidate: None,
            recovered: None,
            depth: FIRST_DEPTH,
            missing: false,
            key: true,
            only_keys: false,
        }
    }

    /// Of an encoder that refers to nothing but the last picture.
    pub(crate) fn of_keys(first: u32) -> Self {
        Self { only_keys: true, ..Self::new(first) }
    }

    /// The number of the next frame.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// How the next frame is made. It counts as made by [`made`](Self::made).
    pub(crate) fn plan(&self) -> Plan {
        let (number, last) = (self.next, self.next.wrapping_sub(1));
        let key = Plan {
            refers: Buffers::NONE,
            replaces: Buffers::LAST.and(Buffers::GOLDEN).and(Buffers::ALTERNATIVE),
            number,
            reference: number,
            recovers: true,
        };
        match self.acknowledged {
            _ if self.key => key,
            None if self.missing => key,
            // The receiver has forgotten it.
            Some(known) if self.missing && number.wrapping_sub(known.number) as usize > REMEMBERED => key,
            Some(known) if self.missing => {
                let (refers, reference) = (known.buffer, known.number);
                Plan { refers, replaces: Buffers::LAST, number, reference, recovers: true }
            }
            known => {
                let is_due = known.is_some_and(|known| number.wrapping_sub(known.number) >= APART);
                let replaces = match (known, self.candidate) {
                    (Some(known), None) if is_due => Buffers::LAST.and(known.buffer.other()),
                    _ => Buffers::LAST,
                };
                Plan { refers: Buffers::LAST, replaces, number, reference: last, recovers: false }
            }
        }
    }

    /// It was made so, or as a key frame all the same.
    pub(crate) fn made(&mut self, plan: &Plan) {
        let is_key = plan.number == plan.reference;
        self.next = plan.number.wrapping_add(1);
        if self.chain.len() == REMEMBERED
            && let Some(gone) = self.chain.pop_front()
        {
            // Nobody will know whether it was decoded.
            self.candidate.take_if(|kept| kept.number == gone.number);
        }
        self.chain.push_back(Link { number: plan.number, reference: plan.reference });
        let number = plan.number;
        if is_key {
            // Both pictures are this one.
            self.acknowledged = None;
            self.candidate = Some(Kept { buffer: Buffers::GOLDEN, number });
        } else if plan.recovers {
            // Whether the receiver has the other picture, nobody knows any more.
            self.candidate = None;
        } else if plan.replaces != Buffers::LAST
            && let Some(known) = self.acknowledged
        {
            self.candidate = Some(Kept { buffer: known.buffer.other(), number });
        }
        if plan.recovers {
            self.recovered = Some(number);
            (self.missing, self.key) = (false, false);
        }
    }

    /// The receiver says this.
    pub(crate) fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Decoded { last, .. } => {
                self.acknowledge(last);
                let under_way = self.next.wrapping_sub(1).wrapping_sub(last);
                if (under_way as usize) < REMEMBERED {
                    self.depth = under_way;
                }
            }
            Ask::Missing(last) => {
                self.acknowledge(last);
                self.missing |= !self.is_being_mended();
            }
            Ask::Key(came) => self.key |= self.is_lost(came) || !self.is_being_mended(),
        }
    }

    /// A frame that was made is not sent, or is lost for certain.
    pub(crate) fn lost(&mut self) {
        self.missing = true;
    }

    /// Whoever looks on from now on has nothing.
    pub(crate) fn restart(&mut self) {
        (self.key, self.depth) = (true, FIRST_DEPTH);
    }

    /// The last frame that recovers is lost, or of no use: the receiver has nothing, and this one of those behind it.
    fn is_lost(&self, came: u32) -> bool {
        self.recovered.is_some_and(|recovered| came.wrapping_sub(recovered) as i32 >= OVERTAKES)
    }

    /// The receiver does not know yet of the last frame that recovers: what it lacks, it may have by that.
    fn is_being_mended(&self) -> bool {
        let newest = self.next.wrapping_sub(1);
        // One frame more: the ask was under way while another was made.
        self.recovered.is_some_and(|recovered| newest.wrapping_sub(recovered) <= self.depth + 1)
    }

    /// It decoded this one, and so what that refers to, and so on.
    fn acknowledge(&mut self, last: u32) {
        let Some(candidate) = self.candidate else { return };
        if !self.only_keys && self.is_behind(last, candidate.number) {
            self.acknowledged = Some(candidate);
            self.candidate = None;
        }
    }

    /// Was the other needed for this one, by way of what it refers to, or is it the same?
    pub(crate) fn is_behind(&self, last: u32, other: u32) -> bool {
        let mut at = last;
        for link in self.chain.iter().rev().skip_while(|link| link.number != last) {
            if link.number != at {
                continue;
            }
            if at == other {
                return true;
            }
            at = link.reference;
        }
        false
    }
}

impl Buffers {
    fn other(self) -> Self {
        if self == Self::GOLDEN { Self::ALTERNATIVE } else { Self::GOLDEN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(references: &mut References) -> Plan {
        let plan = references.plan();
        references.made(&plan);
        plan
    }

    /// The receiver decodes each of so many frames and says so at once.
    fn go_on(references: &mut References, frames: u32) -> u32 {
        let mut last = 0;
        for _ in 0..frames {
            last = next(references).number;
            references.ask(Ask::Decoded { last, later: 0 });
        }
        last
    }

    #[test]
    fn the_first_is_a_key_frame_and_the_rest_refer_to_the_one_before() {
        let mut references = References::new(0);
        let first = next(&mut references);
        assert_eq!((first.refers, first.number, first.reference), (Buffers::NONE, 0, 0));
        for number in 1..100 {
            let plan = next(&mut references);
            assert_eq!((plan.refers, plan.number, plan.reference), (Buffers::LAST, number, number - 1));
        }
    }

    #[test]
    fn after_a_loss_one_frame_refers_to_what_the_receiver_has_and_to_nothing_else() {
        let mut references = References::new(0);
        let last = go_on(&mut references, 30);
        // Lost; the two behind it are of no use.
        for _ in 0..3 {
            next(&mut references);
        }
        references.ask(Ask::Missing(last));
        let mended = next(&mut references);
        assert!(mended.recovers && mended.reference <= last && mended.reference != mended.number);
        assert!(last - mended.reference < 2 * APART, "an old picture makes a large frame");
        assert_eq!(mended.replaces, Buffers::LAST);
        let behind = next(&mut references);
        assert_eq!((behind.recovers, behind.reference), (false, mended.number));
        // The receiver said so before it could know.
        references.ask(Ask::Missing(last));
        assert!(!next(&mut references).recovers, "once is enough");
    }

    #[test]
    fn what_may_be_lost_is_never_referred_to() {
        let mut references = References::new(0);
        go_on(&mut references, 10);
        // Frames that were kept, and of which nothing is heard.
        let known = references.acknowledged.map(|kept| kept.number);
        for _ in 0..50 {
            next(&mut references);
        }
        references.lost();
        assert_eq!(Some(next(&mut references).reference), known);
        // A frame decoded after it came by way of the frame that recovered, not of those that were lost.
        let newest = references.next - 1;
        references.ask(Ask::Decoded { last: newest, later: 0 });
        assert_eq!(references.acknowledged.map(|kept| kept.number), known);
    }

    #[test]
    fn what_the_receiver_has_forgotten_is_not_referred_to() {
        for is_heard in [false, true] {
            let mut references = References::new(0);
            go_on(&mut references, 10);
            // Frames arrive, and asks do not.
            for _ in 0..300 {
                next(&mut references);
            }
            if is_heard {
                references.ask(Ask::Decoded { last: 309, later: 0 });
            }
            references.lost();
            let plan = next(&mut references);
            assert!(plan.recovers && plan.number - plan.reference <= REMEMBERED as u32, "{plan:?}");
            assert_eq!(plan.refers != Buffers::NONE, is_heard, "{plan:?}");
        }
    }

    #[test]
    fn without_a_picture_that_the_receiver_has_there_is_one_key_frame_for_many_asks() {
        let mut references = References::new(0);
        for _ in 0..20 {
            next(&mut references);
        }
        references.ask(Ask::Key(0));
        assert_eq!(next(&mut references).refers, Buffers::NONE);
        for _ in 0..=FIRST_DEPTH {
            references.ask(Ask::Key(0));
            assert_ne!(next(&mut references).refers, Buffers::NONE);
        }
        next(&mut references);
        references.ask(Ask::Key(0));
        assert_eq!(next(&mut references).refers, Buffers::NONE, "that one was lost too");
        references.restart();
        assert_eq!(next(&mut references).refers, Buffers::NONE);
    }

    #[test]
    fn a_key_frame_that_is_lost_is_followed_by_another_as_soon_as_that_is_known() {
        let mut references = References::new(0);
        let lost = next(&mut references).number;
        for behind in 1..OVERTAKES as u32 {
            next(&mut references);
            references.ask(Ask::Key(lost + behind));
            assert_ne!(references.plan().refers, Buffers::NONE, "it may still come");
        }
        let behind = next(&mut references).number;
        references.ask(Ask::Key(behind));
        let other = next(&mut references);
        assert_eq!(other.refers, Buffers::NONE);
        // What was under way before the receiver could have it.
        for came in behind..=other.number {
            references.ask(Ask::Key(came));
            assert_ne!(next(&mut references).refers, Buffers::NONE);
        }
    }

    #[test]
    fn numbers_wrap() {
        let mut references = References::new(u32::MAX - 5);
        let last = go_on(&mut references, 20);
        assert_eq!(last, 13);
        references.ask(Ask::Missing(last));
        next(&mut references);
        let known = references.acknowledged.map(|kept| last.wrapping_sub(kept.number));
        assert!(known.is_some_and(|back| back < 2 * APART), "{known:?}");
    }
}
