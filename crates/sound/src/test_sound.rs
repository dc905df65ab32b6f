//! Sounds whose way can be measured.

use std::f64::consts::TAU;

use crate::{FRAME, RATE, Samples};

/// A quarter of the loudest.
const LOUDNESS: f64 = 8_192.0;

/// A sine.
#[derive(Clone, Debug)]
pub struct Tone {
    hertz: f64,
    sample: usize,
}

impl Tone {
    /// So high, Hz.
    pub const fn new(hertz: f64) -> Self {
        Self { hertz, sample: 0 }
    }

    /// The next 10 ms.
    pub fn next_frame(&mut self) -> Samples {
        std::array::from_fn(|_| {
            let at = self.sample as f64 / RATE as f64;
            // The same after a second: whole oscillations, and no number that grows.
            self.sample = (self.sample + 1) % RATE;
            (LOUDNESS * libm::sin(TAU * self.hertz * at)) as i16
        })
    }
}

/// Silence, and at the begin of each half second 5 ms of a sine of 1 kHz.
#[derive(Clone, Debug, Default)]
pub struct Clicks {
    frame: usize,
}

impl Clicks {
    /// Frames from one click to the next.
    pub const FRAMES: usize = 50;

    /// The next 10 ms. Of each fiftieth the first sample is a click's.
    pub fn next_frame(&mut self) -> Samples {
        let clicks = self.frame == 0;
        self.frame = (self.frame + 1) % Self::FRAMES;
        let mut tone = Tone::new(1_000.0).next_frame();
        tone[if clicks { FRAME / 2 } else { 0 }..].fill(0);
        tone
    }
}

/// Finds clicks: where it becomes loud after silence.
#[derive(Clone, Debug)]
pub struct Onsets {
    /// Samples since it was loud.
    silent: usize,
}

impl Onsets {
    /// An eighth of a click's: neither what an encoder adds before a click nor what a decoder makes up.
    const LOUD: u16 = LOUDNESS as u16 / 8;
    /// 100 ms.
    const SILENCE: usize = RATE / 10;

    /// At which sample of this frame a click begins.
    pub fn find(&mut self, frame: &Samples) -> Option<usize> {
        let mut found = None;
        for (at, sample) in frame.iter().enumerate() {
            if sample.unsigned_abs() <= Self::LOUD {
                self.silent = self.silent.saturating_add(1);
                continue;
            }
            if self.silent >= Self::SILENCE {
                found.get_or_insert(at);
            }
            self.silent = 0;
        }
        found
    }
}

impl Default for Onsets {
    /// After silence.
    fn default() -> Self {
        Self { silent: Self::SILENCE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clicks_are_found_where_they_are() {
        let (mut clicks, mut onsets) = (Clicks::default(), Onsets::default());
        let found: Vec<_> = (0..200).filter_map(|_| onsets.find(&clicks.next_frame())).collect();
        // The sine is over the threshold after its first samples.
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|at| (1..4).contains(at)), "{found:?}");
        let mut onsets = Onsets::default();
        let mut tone = Tone::new(440.0);
        let of_a_tone = (0..100).filter_map(|_| onsets.find(&tone.next_frame())).count();
        assert_eq!(of_a_tone, 1, "a sound that goes on begins once");
    }
}
