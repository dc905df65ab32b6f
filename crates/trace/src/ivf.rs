//! Encoded video in IVF, the container of libvpx's tools.

use taut_core::Time;
use taut_wire::ivf::{Error, frame_at};

use crate::TraceError;
use crate::error::{Fault, Problem};

/// The frames of an IVF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ivf<'a> {
    fourcc: [u8; 4],
    frames: Vec<(Time, &'a [u8])>,
}

impl<'a> Ivf<'a> {
    /// Reads a file; `name` is for errors. Times are as in the file.
    ///
    /// ```
    /// use taut_core::Time;
    /// use taut_trace::Ivf;
    /// let mut file = [&b"DKIF\0\0\x20\0VP80"[..], &[0; 20]].concat();
    /// file[16] = 60; // ticks a second, over
    /// file[20] = 1;
    /// file.extend([3, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9]); // 3 bytes at tick 30
    /// let ivf = Ivf::parse("clip.ivf", &file)?;
    /// assert_eq!((ivf.fourcc(), ivf.frames()), (*b"VP80", &[(Time::from_nanos(500_000_000), &[7, 8, 9][..])][..]));
    /// # Ok::<(), taut_trace::TraceError>(())
    /// ```
    ///
    /// # Errors
    /// When it is not an IVF file, is cut short or has no frames, and when times go back.
    pub fn parse(name: &str, data: &'a [u8]) -> Result<Self, TraceError> {
        parse(data).map_err(|fault| TraceError::new(name, fault))
    }

    /// The codec: `VP80` for VP8.
    pub const fn fourcc(&self) -> [u8; 4] {
        self.fourcc
    }

    /// When each frame is shown, and its bytes.
    pub fn frames(&self) -> &[(Time, &'a [u8])] {
        &self.frames
    }
}

fn parse(data: &[u8]) -> Result<Ivf<'_>, Fault> {
    let malformed = |at, what: &str| Fault::byte(at, Problem::Malformed(what.to_owned()));
    let (header, fourcc, mut at) = taut_wire::ivf::parse(data).map_err(|error| match error {
        Error::Truncated => Fault::byte(0, Problem::Truncated("the file's header")),
        Error::Magic => malformed(0, &error.to_string()),
        Error::Clock => malformed(16, &error.to_string()),
    })?;
    let mut frames: Vec<(Time, &[u8])> = Vec::new();
    while at < data.len() {
        let cut = Fault::byte(at, Problem::Truncated("a frame"));
        let (ticks, frame) = frame_at(data, at).ok_or(cut)?;
        let nanos = u128::from(ticks) * u128::from(header.scale) * 1_000_000_000 / u128::from(header.rate);
        let time = u64::try_from(nanos).map_err(|_| malformed(at, "a time beyond 584 years"))?;
        let time = Time::from_nanos(time);
        if frames.last().is_some_and(|(before, _)| time < *before) {
            return Err(malformed(at, "a frame that is earlier than the one before"));
        }
        at = frame.end;
        frames.push((time, &data[frame]));
    }
    if frames.is_empty() {
        return Err(Fault::file(Problem::Nothing("frames")));
    }
    Ok(Ivf { fourcc, frames })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of these ticks, 60 a second.
    fn file(ticks: &[u8]) -> Vec<u8> {
        let mut file = [&b"DKIF\0\0\x20\0VP80"[..], &[0; 20]].concat();
        (file[16], file[20]) = (60, 1);
        for tick in ticks {
            file.extend([2, 0, 0, 0, *tick, 0, 0, 0, 0, 0, 0, 0, 0xaa, *tick]);
        }
        file
    }

    #[test]
    fn frames_have_their_times() {
        let bytes = file(&[0, 1, 60]);
        let ivf = Ivf::parse("a.ivf", &bytes).unwrap();
        let times: Vec<u64> = ivf.frames().iter().map(|(time, _)| time.as_nanos()).collect();
        assert_eq!(times, [0, 16_666_666, 1_000_000_000]);
        assert_eq!(ivf.frames()[2].1, [0xaa, 60]);
    }

    #[test]
    fn a_bad_file_is_told_in_one_line() {
        let told = |bytes: &[u8]| Ivf::parse("a.ivf", bytes).unwrap_err().to_string();
        let whole = file(&[0, 1]);
        assert_eq!(told(b"RIFF"), "a.ivf: byte 0: this does not begin like an IVF file");
        assert_eq!(
            told(&whole[..20]),
            "a.ivf: byte 0: the file ends inside the file's header; it is cut short"
        );
        assert_eq!(told(&whole[..50]), "a.ivf: byte 46: the file ends inside a frame; it is cut short");
        assert_eq!(told(&whole[..59]), "a.ivf: byte 46: the file ends inside a frame; it is cut short");
        assert_eq!(told(&whole[..32]), "a.ivf: there are no frames in it");
        assert_eq!(told(&file(&[1, 0])), "a.ivf: byte 46: a frame that is earlier than the one before");
        let mut still = whole.clone();
        still[16] = 0;
        assert_eq!(told(&still), "a.ivf: byte 16: a clock that does not tick");
    }
}
