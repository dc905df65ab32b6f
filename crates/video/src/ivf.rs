//! VP8 frames in IVF files.

use taut_wire::ivf::{Error, frame_at, parse};
pub use taut_wire::ivf::{Header as IvfHeader, frame as ivf_frame};

use crate::VideoError;

/// From one frame to the next: by so many at the beginning of a file it is known how fast they follow each other.
const STEPS: usize = 30;

/// The frames of a file that was read.
#[derive(Clone, Debug)]
pub struct Ivf {
    header: IvfHeader,
    bytes: Vec<u8>,
    /// Where the first frame is.
    start: usize,
    at: usize,
}

impl Ivf {
    /// Of these bytes.
    ///
    /// # Errors
    /// When they do not begin as a file of VP8 frames does, or time has no unit.
    pub fn new(bytes: Vec<u8>) -> Result<Self, VideoError> {
        match parse(&bytes) {
            Ok((header, fourcc, start)) if fourcc == *b"VP80" => Ok(Self { header, bytes, start, at: start }),
            Ok(_) | Err(Error::Magic) => Err(VideoError::File("not IVF with VP8")),
            Err(Error::Truncated) => Err(VideoError::File("too short")),
            Err(Error::Clock) => Err(VideoError::File("without a unit of time")),
        }
    }

    /// What it says of its frames.
    pub fn header(&self) -> IvfHeader {
        self.header
    }

    /// How many frames there are in a second, 1 to 240, by the times of the first ones: the unit of time is a frame's in files of some writers, and a
    /// millisecond or less in others'. Where times tell nothing it is a frame's.
    pub fn frames_a_second(&self) -> u32 {
        let (mut times, mut at) = (Vec::new(), self.start);
        while let Some((time, frame)) = frame_at(&self.bytes, at).filter(|_| times.len() <= STEPS) {
            times.push(time);
            at = frame.end;
        }
        let mut steps: Vec<u64> = times.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
        steps.retain(|step| *step > 0);
        steps.sort_unstable();
        let step = steps.get(steps.len() / 2).copied().unwrap_or(1).saturating_mul(self.header.scale.into());
        let rate = (u64::from(self.header.rate) + step / 2) / step;
        rate.clamp(1, 240) as u32
    }

    /// The next frame; `None` at the end, and where the file is cut short.
    pub fn next_frame(&mut self) -> Option<&[u8]> {
        let (_, frame) = frame_at(&self.bytes, self.at)?;
        self.at = frame.end;
        self.bytes.get(frame)
    }

    /// From the first frame again.
    pub fn rewind(&mut self) {
        self.at = self.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_also_when_the_last_is_cut_short() {
        let header = IvfHeader { width: 640, height: 480, rate: 30, scale: 1 };
        let mut file = header.emit();
        file.extend(ivf_frame(0, b"first"));
        file.extend(ivf_frame(1, b"second"));
        file.pop();
        let mut ivf = Ivf::new(file).unwrap();
        assert_eq!(ivf.header(), header);
        assert_eq!(ivf.next_frame(), Some(&b"first"[..]));
        assert_eq!(ivf.next_frame(), None);
        ivf.rewind();
        assert_eq!(ivf.next_frame(), Some(&b"first"[..]));
        assert_eq!(ivf.frames_a_second(), 30);
        assert!(Ivf::new(b"DKIF".to_vec()).is_err() && Ivf::new(vec![0; 32]).is_err());
    }
    #[test]
    fn frames_follow_each_other_as_their_times_say_whatever_their_unit_is() {
        let of = |rate, scale, times: &[u64]| {
            let mut file = IvfHeader { width: 640, height: 480, rate, scale }.emit();
            times.iter().for_each(|time| file.extend(ivf_frame(*time, b"frame")));
            Ivf::new(file).unwrap().frames_a_second()
        };
        assert_eq!(of(30, 1, &[0, 1, 2, 3]), 30);
        assert_eq!(of(1_000, 1, &[0, 33, 67, 100, 133]), 30, "FFmpeg's of a copied stream");
        assert_eq!(of(90_000, 1, &[7, 3_007, 6_007, 15_007]), 30, "WebRTC's, of which one is missing");
        assert_eq!((of(30_000, 1_001, &[0, 1, 2]), of(24_000, 1_001, &[0, 1])), (30, 24));
        // Of one frame, or of frames that are all of one time or go back, times tell nothing.
        assert_eq!([&[5][..], &[], &[4, 4], &[9, 2]].map(|times| of(25, 1, times)), [25; 4]);
        assert_eq!((of(1, 9, &[0, 1]), of(u32::MAX, 1, &[0, 1]), of(1, 1, &[0, u64::MAX])), (1, 240, 1));
    }
}
