//! How coarse a frame of H.264 is made: OpenH264's own rate control makes a key frame as fine as its table says, whatever that takes, and leaves pictures out.
//!
//! A frame's bits times its quantiser's step are taken for what there is to say, as long as pictures resemble each other.

use crate::longterm::Wish;

/// Of a key frame.
const COARSEST: usize = 51;
/// Of others: what is coarser still is no shorter, for the next has to say what it left out.
const COARSEST_OF_OTHERS: usize = 44;
const FINEST: usize = 16;
/// A frame is so much coarser than the one before it at most, or finer.
const COARSER: usize = 8;
const FINER: usize = 2;
/// What was too much is made up for within so many thousandths of a second.
const SETTLES_MS: u64 = 400;
/// More than so many average frames are forgotten, and of what was left, these.
const OWES: i64 = 8;
const SPARES: i64 = 2;

/// The step of a quantiser in sixteenths (ITU-T H.264 section 8.5.9: it doubles every six).
const fn step(quantiser: usize) -> u64 {
    [10, 11, 13, 14, 16, 18][quantiser % 6] << (quantiser / 6)
}

/// The finest whose frame of so much takes no more than that, or the coarsest of all.
fn fitting(content: u64, bits: u64) -> usize {
    (FINEST..COARSEST).find(|&quantiser| content / step(quantiser) <= bits).unwrap_or(COARSEST)
}

#[derive(Clone, Debug)]
pub(crate) struct Quantiser {
    frame_rate: u64,
    /// Bits of an average frame.
    average: u64,
    /// Bits that were too many; below 0, that were left.
    owed: i64,
    /// What there was to say in the last key frame, in one that referred to an older picture, and in those that referred to the last.
    of_key: u64,
    of_older: Option<u64>,
    of_others: Option<u64>,
    last: usize,
}

impl Quantiser {
    /// For pictures of so many pixels.
    pub(crate) fn new(pixels: usize, frame_rate: u32, kbps: u32) -> Self {
        let frame_rate = u64::from(frame_rate.max(1));
        let average = u64::from(kbps) * 1_000 / frame_rate;
        // Four bits for each pixel at a step of 8, until more is known.
        Self {
            frame_rate,
            average,
            owed: 0,
            of_key: pixels as u64 * 512,
            of_older: None,
            of_others: None,
            last: FINEST,
        }
    }

    pub(crate) fn set_bitrate(&mut self, kbps: u32) {
        self.average = u64::from(kbps) * 1_000 / self.frame_rate;
    }

    /// Of a key frame: three average frames, but what goes in 100 ms at most, and one at least.
    fn most_of_key(&self) -> u64 {
        self.average * (self.frame_rate * 10).clamp(100, 300) / 100
    }

    /// Of the next frame.
    pub(crate) fn next(&self, wish: Wish) -> usize {
        let most = self.most_of_key() * 7 / 8;
        match wish {
            Wish::Key => return fitting(self.of_key, most),
            Wish::Recover => return fitting(self.of_older.unwrap_or(self.of_key), most).max(self.last),
            Wish::Next => {}
        }
        let settles = (self.frame_rate * SETTLES_MS / 1_000).max(1) as i64;
        let target = self.average.saturating_add_signed(-self.owed / settles).max(self.average / 4);
        let wanted = self.of_others.map_or(self.last, |content| fitting(content, target));
        let finest = self.last.saturating_sub(FINER).max(FINEST);
        wanted.clamp(finest, self.last + COARSER).min(COARSEST_OF_OTHERS)
    }

    /// Nothing would make a frame shorter that was made so but a smaller picture: the bits that are too many by now.
    pub(crate) fn behind(&self, wish: Wish, quantiser: usize) -> Option<u64> {
        let coarsest = if wish == Wish::Key { COARSEST } else { COARSEST_OF_OTHERS };
        (quantiser >= coarsest).then(|| self.owed.max(0) as u64)
    }

    /// A frame of so many bits was made so. True: in its place is to be made a key frame, which is coarser.
    pub(crate) fn is_too_long(&mut self, wish: Wish, bits: u64, quantiser: usize) -> bool {
        let content = bits * step(quantiser);
        match wish {
            Wish::Key => {
                // A coarser one has less to say.
                self.of_key = content / 8 * 7;
                bits > self.most_of_key() && quantiser < COARSEST
            }
            Wish::Recover => {
                let is_long = bits > self.most_of_key() * 3 / 2;
                if is_long {
                    self.of_older = Some(content);
                }
                is_long
            }
            Wish::Next => false,
        }
    }

    /// This one is sent.
    pub(crate) fn made(&mut self, wish: Wish, bits: u64, quantiser: usize) {
        let content = bits * step(quantiser);
        match wish {
            // What there is to say behind it, nobody knows.
            Wish::Key => (self.of_key, self.of_others) = (content, None),
            Wish::Recover => {
                // Whether its motion is found differs from one to the next.
                self.of_older =
                    Some(self.of_older.map_or(content, |before| content.max(before.midpoint(content))));
            }
            Wish::Next => {
                // More counts at once, less when it stays so.
                let of = |before| {
                    if content > before { before.midpoint(content) } else { (3 * before + content) / 4 }
                };
                self.of_others = Some(self.of_others.map_or(content, of));
            }
        }
        let average = self.average as i64;
        self.owed = (self.owed + bits as i64 - average).clamp(-SPARES * average, OWES * average);
        self.last = quantiser;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many frames of pictures with as much to say, and what they took.
    fn frames(quantiser: &mut Quantiser, content: u64, count: usize) -> Vec<u64> {
        let mut frame = || {
            let at = quantiser.next(Wish::Next);
            let bits = content / step(at);
            quantiser.made(Wish::Next, bits, at);
            bits
        };
        (0..count).map(|_| frame()).collect()
    }

    #[test]
    fn frames_take_what_the_rate_has_for_them_and_what_was_too_much_is_made_up_for() {
        let mut quantiser = Quantiser::new(640 * 480, 30, 1_500);
        let mean = |bits: &[u64]| bits.iter().sum::<u64>() / bits.len() as u64;
        frames(&mut quantiser, 50_000 * 200, 60);
        let settled = mean(&frames(&mut quantiser, 50_000 * 200, 60));
        assert!((40_000..=50_000).contains(&settled), "{settled}");
        // A scene with four times as much in it.
        let second = frames(&mut quantiser, 200_000 * 200, 30);
        assert!(mean(&second) < 56_000, "{second:?}");
        quantiser.set_bitrate(750);
        let second = frames(&mut quantiser, 200_000 * 200, 30);
        assert!(mean(&second) < 28_000 && second[3..].iter().all(|bits| *bits < 30_000), "{second:?}");
    }

    #[test]
    fn a_key_frame_is_made_again_until_it_is_short_enough_or_the_coarsest() {
        for (content, rate) in [(1 << 26, 30), (1 << 32, 30), (1 << 40, 5)] {
            let mut quantiser = Quantiser::new(640 * 480, rate, 1_000);
            let tries = (0..).find(|_| {
                let at = quantiser.next(Wish::Key);
                !quantiser.is_too_long(Wish::Key, content / step(at), at)
            });
            assert!(tries.is_some_and(|tries| tries <= 1), "{tries:?}");
        }
    }

    #[test]
    fn a_frame_that_recovers_and_is_longer_than_a_key_frame_gives_way_to_one() {
        let mut quantiser = Quantiser::new(640 * 480, 30, 1_500);
        assert!(
            !quantiser.is_too_long(Wish::Recover, 225_000, 30)
                && !quantiser.is_too_long(Wish::Next, 1_000_000, 30)
        );
        let before = quantiser.next(Wish::Recover);
        assert!(quantiser.is_too_long(Wish::Recover, 500_000, 38));
        assert!(quantiser.next(Wish::Recover) > before, "the next is coarser");
    }

    #[test]
    fn nothing_to_say_is_no_matter_and_neither_is_a_rate_of_nothing() {
        let mut quantiser = Quantiser::new(0, 0, 0);
        assert_eq!(quantiser.next(Wish::Key), FINEST);
        quantiser.made(Wish::Key, 0, FINEST);
        frames(&mut quantiser, 0, 10);
        assert_eq!(quantiser.next(Wish::Next), FINEST);
        assert_eq!((step(0), step(6), step(COARSEST)), (10, 20, 14 << 8));
    }
}
