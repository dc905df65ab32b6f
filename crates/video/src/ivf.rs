//! IVF, the file that libvpx's and FFmpeg's tools keep VP8 frames in: a header of 32 bytes, then 12 bytes before each frame, little-endian.

use crate::VideoError;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 12;
/// The longest frame that is read.
const LONGEST: usize = 16 << 20;

/// From one frame to the next: by so many at the beginning of a file it is known how fast they follow each other.
const STEPS: usize = 30;

/// What a file says of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IvfHeader {
    /// Pixels.
    pub width: u16,
    /// Pixels.
    pub height: u16,
    /// Units of time in a second.
    pub rate: u32,
    /// Seconds in so many units.
    pub scale: u32,
}

impl IvfHeader {
    /// The beginning of a file of VP8 frames.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = b"DKIF\0\0\x20\0VP80".to_vec();
        bytes.extend_from_slice(&self.width.to_le_bytes());
        bytes.extend_from_slice(&self.height.to_le_bytes());
        bytes.extend_from_slice(&self.rate.to_le_bytes());
        bytes.extend_from_slice(&self.scale.to_le_bytes());
        // The number of frames, which nobody knows while they are written, and 4 bytes without a use.
        bytes.extend_from_slice(&[0; 8]);
        bytes
    }
}

/// A frame in a file, at this time in its units.
pub fn ivf_frame(time: u64, frame: &[u8]) -> Vec<u8> {
    let mut bytes = (frame.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&time.to_le_bytes());
    bytes.extend_from_slice(frame);
    bytes
}

/// The frames of a file that was read.
#[derive(Clone, Debug)]
pub struct Ivf {
    header: IvfHeader,
    bytes: Vec<u8>,
    at: usize,
}

impl Ivf {
    /// Of these bytes.
    ///
    /// # Errors
    /// When they do not begin as a file of VP8 frames does, or time has no unit.
    pub fn new(bytes: Vec<u8>) -> Result<Self, VideoError> {
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Err(VideoError::File("too short")) };
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        if &header[..4] != b"DKIF" || &header[8..12] != b"VP80" {
            return Err(VideoError::File("not IVF with VP8"));
        }
        let start = usize::from(u16_at(6));
        let header = IvfHeader { width: u16_at(12), height: u16_at(14), rate: u32_at(16), scale: u32_at(20) };
        if header.rate == 0 || header.scale == 0 || start < HEADER {
            return Err(VideoError::File("without a unit of time"));
        }
        Ok(Self { header, bytes, at: start })
    }

    /// What it says of its frames.
    pub fn header(&self) -> IvfHeader {
        self.header
    }

    /// How many frames there are in a second, 1 to 240, by the times of the first ones: the unit of time is a frame's in files of some writers, and a
    /// millisecond or less in others'. Where times tell nothing it is a frame's.
    pub fn frames_a_second(&self) -> u32 {
        let (mut times, mut at) = (Vec::new(), self.start());
        while let Some((time, end)) = self.frame_at(at).filter(|_| times.len() <= STEPS) {
            times.push(time);
            at = end;
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
        let begin = self.at + FRAME_HEADER;
        (_, self.at) = self.frame_at(self.at)?;
        self.bytes.get(begin..self.at)
    }

    /// The time of the frame that begins there, in the file's units, and where it ends.
    fn frame_at(&self, at: usize) -> Option<(u64, usize)> {
        let (length, rest) = self.bytes.get(at..at + FRAME_HEADER)?.split_first_chunk()?;
        let (time, _) = rest.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let end = at + FRAME_HEADER + length;
        (length <= LONGEST && end <= self.bytes.len()).then_some((u64::from_le_bytes(*time), end))
    }

    fn start(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[6], self.bytes[7]]))
    }

    /// From the first frame again.
    pub fn rewind(&mut self) {
        self.at = self.start();
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
