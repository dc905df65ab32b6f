//! How large pictures are made: a frame that takes too long at the rate comes too late, and where even the coarsest does, none ever comes.

use taut_core::{Bitrate, Bytes, Duration};

/// A frame that takes longer than this, and than three come apart, is made again, of a smaller picture.
const LONGEST: Duration = Duration::from_millis(200);
/// So often a picture is halved, each way; it keeps so many columns and rows.
const HALVES: usize = 2;
const FEWEST: usize = 48;
/// It is doubled again when for a second what was too long would take half of that time; or at so many times that rate, for pictures change, and
/// nobody knows what others take.
const WIDER: u32 = 4;
/// What was too long, but not of the coarsest quality, was one frame, as of a scene that changed: the next would have been coarser. It is doubled again after
/// a second at the same rate; after twice as long each time that it did not last a minute, and so many seconds at most.
const PATIENCE: u32 = 32;
const LASTS: u32 = 60;

#[derive(Clone, Debug)]
pub(crate) struct Halving {
    frame_rate: u32,
    longest: Duration,
    most: usize,
    /// Once for each time that it is halved.
    halved: Vec<Halved>,
    /// Frames in a row at a rate at which twice as large a picture would fit.
    fits: u32,
    /// Seconds for which that has to be so, and frames since it was doubled.
    patience: u32,
    lasted: u32,
}

/// What was too long, and at which rate.
#[derive(Clone, Copy, Debug)]
struct Halved {
    bytes: usize,
    kbps: u32,
    coarsest: bool,
}

impl Halving {
    pub(crate) fn new(width: usize, height: usize, frame_rate: u32) -> Self {
        let fits = |halves: &usize| width.min(height) >> halves >= FEWEST;
        let most = (0..=HALVES).rev().find(fits).unwrap_or(0);
        let longest = LONGEST.max(Duration::from_secs(3) / u64::from(frame_rate.max(1)));
        Self { frame_rate, longest, most, halved: Vec::new(), fits: 0, patience: 1, lasted: u32::MAX }
    }

    /// No further than columns and rows of this size stay even.
    pub(crate) fn even(mut self, width: usize, height: usize) -> Self {
        let stays = |halves: &usize| (width | height).is_multiple_of(2 << halves);
        self.most = (0..=self.most).rev().find(stays).unwrap_or(0);
        self
    }

    /// How often pictures are halved.
    pub(crate) fn times(&self) -> usize {
        self.halved.len()
    }

    /// A frame of so many bytes was made at this rate, of the coarsest quality or a finer one. True: it is to be made again, of a picture of half the size.
    pub(crate) fn shrinks(&mut self, bytes: usize, kbps: u32, coarsest: bool) -> bool {
        let shrinks = takes(bytes, kbps) > self.longest && self.times() < self.most;
        if shrinks {
            // Halved twice at once it did not last once.
            if self.lasted < u32::MAX {
                let soon = self.lasted < LASTS.saturating_mul(self.frame_rate);
                self.patience = if soon { (self.patience * 2).min(PATIENCE) } else { 1 };
                self.lasted = u32::MAX;
            }
            self.halved.push(Halved { bytes, kbps, coarsest });
            self.fits = 0;
        }
        shrinks
    }

    /// Another frame is about to be made. True: of a picture of twice the size from now on.
    pub(crate) fn grows(&mut self, kbps: u32) -> bool {
        self.lasted = self.lasted.saturating_add(1);
        let Some(last) = self.halved.last() else { return false };
        let known = takes(last.bytes, kbps) <= self.longest / 2 || kbps / WIDER >= last.kbps;
        self.fits = if known || !last.coarsest { self.fits + 1 } else { 0 };
        let seconds = if known { 1 } else { self.patience };
        let grows = self.fits >= self.frame_rate.saturating_mul(seconds);
        if grows {
            self.halved.pop();
            (self.fits, self.lasted) = (0, 0);
        }
        grows
    }
}

fn takes(bytes: usize, kbps: u32) -> Duration {
    Bitrate::from_bps(u64::from(kbps) * 1_000).time_for(Bytes::new(bytes as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_halved_until_it_is_small() {
        let mut halving = Halving::new(640, 480, 30);
        assert!(!halving.shrinks(25_000, 1_000, true), "200 ms");
        assert!(halving.shrinks(25_001, 1_000, true) && halving.shrinks(25_001, 1_000, true));
        assert!(!halving.shrinks(25_001, 1_000, true), "a quarter of each side is the least");
        assert_eq!(halving.times(), 2);
        assert!(!Halving::new(95, 480, 30).shrinks(1_000_000, 50, true), "it is small");
    }

    #[test]
    fn where_sizes_are_even_they_stay_so() {
        let most = |width, height| Halving::new(width, height, 30).even(width, height).most;
        assert_eq!([most(640, 480), most(642, 480), most(640, 484)], [2, 0, 1]);
    }

    #[test]
    fn it_grows_again_after_a_second_at_a_rate_at_which_it_fits() {
        let mut halving = Halving::new(640, 480, 30);
        halving.shrinks(5_000, 100, true);
        assert!((0..300).all(|_| !halving.grows(399)), "it would take longer than 100 ms");
        assert!((0..29).all(|_| !halving.grows(400)) && !halving.grows(399), "not for a second");
        assert!((0..29).all(|_| !halving.grows(400)) && halving.grows(400));
        assert_eq!(halving.times(), 0);
        // Nobody knows what a large one takes by now.
        halving.shrinks(1_000_000, 100, true);
        assert!((0..29).all(|_| !halving.grows(400)) && halving.grows(400));
    }

    #[test]
    fn what_was_too_long_once_but_not_the_coarsest_is_tried_anew_less_and_less_often() {
        let mut halving = Halving::new(640, 480, 30);
        let mut waits = Vec::new();
        for _ in 0..7 {
            assert!(halving.shrinks(25_001, 1_000, false));
            waits.push((1..).find(|_| halving.grows(1_000)).unwrap());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 32].map(|seconds| 30 * seconds));
        assert!((0..30 * 60).all(|_| !halving.grows(1_000)));
        assert!(halving.shrinks(25_001, 1_000, false), "it lasted a minute");
        assert_eq!((1..).find(|_| halving.grows(1_000)), Some(30));
        assert!(halving.shrinks(25_001, 1_000, true));
        assert!((0..30 * 60).all(|_| !halving.grows(1_000)), "the coarsest is no shorter the next time");
        assert_eq!((1..).find(|_| halving.grows(2_001)), Some(30), "it would take half as long as it may");
    }
}
