//! How much of the congestion window a range of the stream takes.

use std::collections::VecDeque;

use super::WindowUnit;

/// Measures ranges of sequence numbers in what the window counts. The window itself is in bytes either way: where it counts
/// segments, each takes a whole SMSS, however short it is.
#[derive(Clone, Debug)]
pub(super) struct Ruler {
    unit: WindowUnit,
    smss: u64,
    /// The ends of the segments that are not acknowledged, ascending. Empty where bytes are counted.
    ends: VecDeque<u64>,
}

impl Ruler {
    pub(super) fn new(unit: WindowUnit, smss: u64) -> Self {
        Self { unit, smss, ends: VecDeque::new() }
    }

    /// What the bytes from `from` up to `to` take. A segment of which a part lies there is there.
    pub(super) fn weigh(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        match self.unit {
            WindowUnit::Bytes => to - from,
            WindowUnit::Segments => {
                let first = self.ends.partition_point(|end| *end <= from);
                let last = self.ends.partition_point(|end| *end < to) + 1;
                (last.min(self.ends.len()) - first) as u64 * self.smss
            }
        }
    }

    /// What one segment of `len` bytes takes.
    pub(super) fn segment(&self, len: u64) -> u64 {
        match self.unit {
            WindowUnit::Bytes => len,
            WindowUnit::Segments => self.smss,
        }
    }

    /// The bytes that one segment may have where so much of the window is free.
    pub(super) fn fits(&self, room: u64) -> u64 {
        match self.unit {
            WindowUnit::Segments if room < self.smss => 0,
            _ => room,
        }
    }

    /// A segment goes, for the first time or again. What goes again in one piece is one segment from now on.
    pub(super) fn sent(&mut self, seq: u64, end: u64) {
        if self.unit == WindowUnit::Bytes {
            return;
        }
        if self.ends.back().is_none_or(|last| *last < end) {
            self.ends.push_back(end);
        } else {
            let within = |number: u64| self.ends.partition_point(|end| *end <= number);
            self.ends.drain(within(seq)..within(end - 1));
            // The cut may be a new one: the rest of a segment is a segment.
            let at = self.ends.partition_point(|known| *known < end);
            if self.ends.get(at) != Some(&end) {
                self.ends.insert(at, end);
            }
        }
    }

    /// Everything below `una` is acknowledged.
    pub(super) fn acknowledge(&mut self, una: u64) {
        while self.ends.front().is_some_and(|end| *end <= una) {
            self.ends.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_segment_takes_as_much_as_a_long_one_where_segments_count() {
        let (mut bytes, mut segments) =
            (Ruler::new(WindowUnit::Bytes, 1000), Ruler::new(WindowUnit::Segments, 1000));
        for ruler in [&mut bytes, &mut segments] {
            (0..5).for_each(|n| ruler.sent(100 * n, 100 * (n + 1)));
        }
        assert_eq!((bytes.weigh(0, 500), segments.weigh(0, 500)), (500, 5000));
        assert_eq!((bytes.weigh(100, 300), segments.weigh(100, 300)), (200, 2000));
        assert_eq!((bytes.weigh(150, 250), segments.weigh(150, 250)), (100, 2000));
        assert_eq!((bytes.weigh(300, 300), segments.weigh(300, 300)), (0, 0));
        assert_eq!((bytes.fits(999), segments.fits(999), segments.fits(1000)), (999, 0, 1000));
        segments.acknowledge(250);
        assert_eq!(segments.weigh(250, 500), 3000);
    }

    #[test]
    fn what_goes_again_in_one_piece_is_one_segment() {
        let mut ruler = Ruler::new(WindowUnit::Segments, 1000);
        (0..5).for_each(|n| ruler.sent(100 * n, 100 * (n + 1)));
        ruler.sent(0, 300);
        assert_eq!((ruler.weigh(0, 300), ruler.weigh(0, 500)), (1000, 3000));
        ruler.sent(300, 450);
        assert_eq!((ruler.weigh(300, 450), ruler.weigh(450, 500), ruler.weigh(0, 500)), (1000, 1000, 3000));
    }
}
