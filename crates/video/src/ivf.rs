//! IVF, the file that libvpx's and FFmpeg's tools keep VP8 frames in: a header of 32 bytes, then 12 bytes before each frame, little-endian.

use crate::VideoError;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 12;
/// The longest frame that is read.
const LONGEST: usize = 16 << 20;

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

    /// The next frame; `None` at the end, and where the file is cut short.
    pub fn next_frame(&mut self) -> Option<&[u8]> {
        let header = self.bytes.get(self.at..self.at + FRAME_HEADER)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let begin = self.at + FRAME_HEADER;
        let frame = self.bytes.get(begin..begin + length).filter(|frame| frame.len() <= LONGEST)?;
        self.at = begin + length;
        Some(frame)
    }

    /// From the first frame again.
    pub fn rewind(&mut self) {
        self.at = usize::from(u16::from_le_bytes([self.bytes[6], self.bytes[7]]));
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
        assert!(Ivf::new(b"DKIF".to_vec()).is_err() && Ivf::new(vec![0; 32]).is_err());
    }
}
