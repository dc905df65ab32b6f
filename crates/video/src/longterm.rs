//! What the next H.264 frame refers to, so that a loss costs no key frame, where the encoder is OpenH264: it keeps two pictures besides the last (long-term
//! references, ITU-T H.264 section 8.2.5), chooses by itself which, and refers to one when it is asked to, if it was told that the receiver has it.

use taut_media::picture::Ask;

use crate::references::{Plan, References};
use crate::slice::{FRAME_NUM_BITS, Refers, SliceHeader};
use crate::vpx::Buffers;

/// A picture is kept so many frames after the one before it was confirmed, at the earliest.
pub(crate) const PERIOD: u32 = 4;
/// OpenH264 loses a confirmation that comes sooner after the frame that keeps a picture, and then keeps no other.
const SETTLES: u32 = 2;
/// After so many frames in a row that should have recovered and did not there is a key frame.
const TRIES: u32 = 3;

/// How the next frame is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Key,
    /// Refer to what the receiver has.
    Recover,
    /// Refer to the last.
    Next,
}

/// What OpenH264 is told before it makes a frame: of the picture with this `frame_num`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Kept(u16),
    Lost(u16),
}

/// A picture that is kept, of which OpenH264 does not know yet whether the receiver has it.
#[derive(Clone, Copy, Debug)]
struct Mark {
    frame_num: u16,
    /// The frame that said so.
    by: u32,
    confirmed: bool,
}

#[derive(Debug)]
pub(crate) struct LongTerm {
    references: References,
    /// The number of the last key frame.
    key: u32,
    /// Numbers of the pictures that the receiver keeps.
    places: [Option<u32>; 2],
    mark: Option<Mark>,
    tries: u32,
}

impl LongTerm {
    /// The first frame has this number.
    pub(crate) fn new(first: u32) -> Self {
        Self { references: References::new(first), key: first, places: [None; 2], mark: None, tries: 0 }
    }

    pub(crate) fn wish(&self) -> Wish {
        match self.references.plan().refers {
            Buffers::NONE => Wish::Key,
            Buffers::LAST => Wish::Next,
            _ if self.tries >= TRIES => Wish::Key,
            _ => Wish::Recover,
        }
    }

    /// What is to be told now, once.
    pub(crate) fn tell(&mut self) -> Option<Tell> {
        let mark = self.mark?;
        let tells = if mark.confirmed {
            (self.references.plan().number.wrapping_sub(mark.by) >= SETTLES)
                .then_some(Tell::Kept(mark.frame_num))
        } else {
            // What it is in came behind what is missing.
            (self.wish() == Wish::Recover).then_some(Tell::Lost(mark.frame_num))
        };
        if tells.is_some() {
            self.mark = None;
        }
        tells
    }

    /// The plan of the frame that was made by this wish: what its header says.
    pub(crate) fn plan(&self, wish: Wish, header: &SliceHeader) -> Plan {
        let plan = Plan { replaces: Buffers::LAST, ..self.references.plan() };
        let number = plan.number;
        if header.idr.is_some() {
            return Plan { refers: Buffers::NONE, reference: number, recovers: true, ..plan };
        }
        let reference = match header.refers {
            Refers::Back(back) => number.wrapping_sub(back),
            // What is in no place that is known is said to be the last: the receiver asks for another.
            Refers::Kept(place) => self.place(place).unwrap_or(number.wrapping_sub(1)),
        };
        let recovers = wish == Wish::Recover && matches!(header.refers, Refers::Kept(_));
        Plan { refers: Buffers::LAST, reference, recovers, ..plan }
    }

    /// It was made so, and is sent.
    pub(crate) fn made(&mut self, plan: &Plan, header: &SliceHeader) {
        let number = plan.number;
        let should_recover = self.wish() == Wish::Recover;
        self.references.made(plan);
        if header.idr.is_some() {
            (self.key, self.places, self.mark, self.tries) = (number, [None; 2], None, 0);
        } else if should_recover {
            self.tries += 1;
        }
        if let Some(marks) = header.marks {
            let kept = number.wrapping_sub(marks.back);
            if let Some(place) = self.places.get_mut(marks.place as usize) {
                *place = Some(kept);
            }
            // Of a key frame OpenH264 takes it for granted.
            if header.idr.is_none() {
                let frame_num = (kept.wrapping_sub(self.key) & ((1 << FRAME_NUM_BITS) - 1)) as u16;
                self.mark = Some(Mark { frame_num, by: number, confirmed: false });
            }
        }
    }

    pub(crate) fn ask(&mut self, ask: Ask) {
        if let Ask::Decoded { last, .. } | Ask::Missing(last) = ask
            && let Some(mark) = self.mark.as_mut()
        {
            mark.confirmed |= self.references.is_behind(last, mark.by);
        }
        if let Ask::Decoded { .. } = ask {
            self.tries = 0;
        }
        self.references.ask(ask);
    }

    pub(crate) fn lost(&mut self) {
        self.references.lost();
    }

    pub(crate) fn restart(&mut self) {
        self.references.restart();
    }

    /// The number of the next frame.
    pub(crate) fn next(&self) -> u32 {
        self.references.next()
    }

    fn place(&self, place: u32) -> Option<u32> {
        self.places.get(place as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::Marks;

    /// As OpenH264 makes one: by this wish, of this number since the key frame.
    fn header(wish: Wish, frame_num: u16, marks: Option<Marks>) -> SliceHeader {
        let idr = (wish == Wish::Key).then_some(1);
        let refers = if wish == Wish::Recover { Refers::Kept(0) } else { Refers::Back(1) };
        let of_key = Some(Marks { back: 0, place: 0 });
        SliceHeader { frame_num, idr, refers, marks: if idr.is_some() { of_key } else { marks } }
    }

    fn next(long: &mut LongTerm, marks: Option<Marks>) -> Plan {
        let wish = long.wish();
        let header = header(wish, 0, marks);
        let plan = long.plan(wish, &header);
        long.made(&plan, &header);
        plan
    }

    fn decoded(long: &mut LongTerm, last: u32) {
        long.ask(Ask::Decoded { last, later: 0 });
    }

    #[test]
    fn a_loss_is_mended_by_what_is_kept_and_a_receiver_that_has_nothing_by_a_key_frame() {
        let mut long = LongTerm::new(0);
        assert_eq!((next(&mut long, None).refers, long.wish()), (Buffers::NONE, Wish::Next));
        long.lost();
        assert_eq!(long.wish(), Wish::Key, "nobody knows whether it has the first");
        next(&mut long, None);
        decoded(&mut long, 1);
        next(&mut long, None);
        long.lost();
        let plan = next(&mut long, None);
        assert_eq!((plan.recovers, plan.reference, plan.number), (true, 1, 3));
        assert_eq!(long.wish(), Wish::Next);
        // It never comes to anything.
        for number in 4..4 + TRIES - 1 {
            long.lost();
            assert_eq!(next(&mut long, None).reference, 1, "{number}");
        }
        long.lost();
        assert_eq!(long.wish(), Wish::Key);
    }

    #[test]
    fn an_encoder_that_does_not_recover_is_asked_for_a_key_frame() {
        let mut long = LongTerm::new(0);
        next(&mut long, None);
        decoded(&mut long, 0);
        next(&mut long, None);
        long.lost();
        for _ in 0..TRIES {
            assert_eq!(long.wish(), Wish::Recover);
            // It refers to the last all the same.
            let header = header(Wish::Next, 0, None);
            let plan = long.plan(Wish::Recover, &header);
            assert!(!plan.recovers);
            long.made(&plan, &header);
        }
        assert_eq!(long.wish(), Wish::Key);
    }

    #[test]
    fn what_is_kept_is_confirmed_once_it_settled_and_given_up_where_it_was_lost() {
        let mut long = LongTerm::new(0);
        next(&mut long, None);
        decoded(&mut long, 0);
        (1..5).for_each(|_| _ = next(&mut long, None));
        let marks = Some(Marks { back: 1, place: 1 });
        next(&mut long, marks);
        decoded(&mut long, 4);
        assert_eq!((long.tell(), long.places[1]), (None, Some(4)), "the frame that says so is not there yet");
        decoded(&mut long, 5);
        assert_eq!(long.tell(), None, "it has not settled");
        next(&mut long, None);
        assert_eq!((long.tell(), long.tell()), (Some(Tell::Kept(4)), None));
        next(&mut long, marks);
        long.ask(Ask::Missing(6));
        assert_eq!((long.wish(), long.tell()), (Wish::Recover, Some(Tell::Lost(6))));
    }
}
