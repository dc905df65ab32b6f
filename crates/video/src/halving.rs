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

#[derive(Clone, Debug)]
pub(crate) struct Halving {
    frame_rate: u32,
    longest: Duration,
    most: usize,
    /// Once for each time that it is halved.
    halved: Vec<Halved>,
    /// Frames in a row at a rate at which twice as large a picture would fit.
    fits: u32,
}

/// What was too long, and at which rate.
#[derive(Clone, Copy, Debug)]
struct Halved {
    bytes: usize,
    kbps: u32,
}

impl Halving {
    pub(crate) fn new(width: usize, height: usize, frame_rate: u32) -> Self {
        let fits = |halves: &usize| width.min(height) >> halves >= FEWEST;
        let most = (0..=HALVES).rev().find(fits).unwrap_or(0);
        let longest = LONGEST.max(Duration::from_secs(3) / u64::from(frame_rate.max(1)));
        Self { frame_rate, longest, most, halved: Vec::new(), fits: 0 }
    }

    /// How often pictures are halved.
    pub(crate) fn times(&self) -> usize {
        self.halved.len()
    }

    /// A frame of so many bytes was made at this rate. True: it is to be made again, of a picture of half the size.
    pub(crate) fn shrinks(&mut self, bytes: usize, kbps: u32) -> bool {
        let shrinks = takes(bytes, kbps) > self.longest && self.times() < self.most;
        if shrinks {
            self.halved.push(Halved { bytes, kbps });
            self.fits = 0;
        }
        shrinks
    }

    /// Another frame is about to be made. True: of a picture of twice the size from now on.
    pub(crate) fn grows(&mut self, kbps: u32) -> bool {
        let Some(last) = self.halved.last() else { return false };
        let fits = takes(last.bytes, kbps) <= self.longest / 2 || kbps / WIDER >= last.kbps;
        self.fits = if fits { self.fits + 1 } else { 0 };
        let grows = self.fits >= self.frame_rate;
        if grows {
            self.halved.pop();
            self.fits = 0;
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
        assert!(!halving.shrinks(25_000, 1_000), "200 ms");
        assert!(halving.shrinks(25_001, 1_000) && halving.shrinks(25_001, 1_000));
        assert!(!halving.shrinks(25_001, 1_000), "a quarter of each side is the least");
        assert_eq!(halving.times(), 2);
        assert!(!Halving::new(95, 480, 30).shrinks(1_000_000, 50), "it is small");
    }

    #[test]
    fn it_grows_again_after_a_second_at_a_rate_at_which_it_fits() {
        let mut halving = Halving::new(640, 480, 30);
        halving.shrinks(5_000, 100);
        assert!((0..300).all(|_| !halving.grows(399)), "it would take longer than 100 ms");
        assert!((0..29).all(|_| !halving.grows(400)) && !halving.grows(399), "not for a second");
        assert!((0..29).all(|_| !halving.grows(400)) && halving.grows(400));
        assert_eq!(halving.times(), 0);
        // Nobody knows what a large one takes by now.
        halving.shrinks(1_000_000, 100);
        assert!((0..29).all(|_| !halving.grows(400)) && halving.grows(400));
    }
}
