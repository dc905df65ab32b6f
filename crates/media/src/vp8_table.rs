//! Sizes of real video frames.

use taut_core::{Bitrate, Bytes, Duration};

/// Frame sizes of a video, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoTable {
    frames: Vec<TableFrame>,
}

/// One frame of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFrame {
    /// Its length, at least 1 byte.
    pub size: Bytes,
    /// Can it be decoded without the frames before it?
    pub key: bool,
}

/// Why a text is not a table of frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A line that is not `size_bytes,key`.
    #[error("line {line}: `{text}`; a frame is `size_bytes,key`, such as 1974,0")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// No frame at all.
    #[error("a table without frames")]
    Empty,
}

const VP8_25FPS_400K: &str = include_str!("../data/vp8_25fps_400k.csv");

impl VideoTable {
    /// VP8 as libvpx encodes it in real time at 400 kbit/s and 25 frames per second: 30 s of a synthetic moving scene, with
    /// a key frame every 10 s. `data/make-vp8-table.sh` makes it again.
    pub fn vp8_25fps_400k() -> Self {
        Self::parse(VP8_25FPS_400K).expect("the table that is built in has been tested")
    }

    /// Reads `size_bytes,key` lines. Lines that begin with `#`, empty lines and the line of column names are skipped.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let frames = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#') && *line != "size_bytes,key")
            .map(|(line, text)| {
                parse_frame(text).ok_or_else(|| TableError::Line { line, text: text.to_owned() })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if frames.is_empty() { Err(TableError::Empty) } else { Ok(Self { frames }) }
    }

    /// The frames, at least one.
    pub fn frames(&self) -> &[TableFrame] {
        &self.frames
    }

    /// The same frames, all longer or shorter by one factor, so that their mean rate is this when a frame lasts `period`; none is shorter
    /// than 1 byte.
    pub fn scaled(mut self, rate: Bitrate, period: Duration) -> Self {
        let scale = rate.as_bps() as f64 / self.mean_rate(period).as_bps().max(1) as f64;
        for frame in &mut self.frames {
            frame.size = Bytes::new(((frame.size.get() as f64 * scale).round() as u64).max(1));
        }
        self
    }

    /// The mean rate when a frame lasts `period`.
    pub fn mean_rate(&self, period: Duration) -> Bitrate {
        let total: u64 = self.frames.iter().map(|frame| frame.size.get()).sum();
        Bytes::new(total) / (period * self.frames.len() as u64)
    }

    /// Which quantiser (`y_ac_qi`, 0 to 127) makes the scene of [`VideoTable::vp8_25fps_400k`] into frames of this mean length:
    /// what a sender chooses that scales the table to a rate.
    ///
    /// Between the points of a measurement the index is linear in the logarithm of the length; beyond them it is that of the end.
    pub fn quantizer_index(mean_frame: Bytes) -> u8 {
        let (bytes, [longest, .., shortest]) = (mean_frame.get() as f64, MEASURED);
        if bytes >= longest.0 {
            return longest.1 as u8;
        }
        let between = MEASURED.windows(2).find(|pair| bytes >= pair[1].0);
        let index = between.map_or(shortest.1, |pair| {
            let share = libm::log(bytes / pair[0].0) / libm::log(pair[1].0 / pair[0].0);
            pair[0].1 + share * (pair[1].1 - pair[0].1)
        });
        libm::round(index) as u8
    }
}

/// Mean bytes of a frame and quantiser index: 12 s of the table's scene as libvpx 1.12 encodes it with one quantiser, `-qmin N -qmax N`
/// at N of 16, 24, … 63 instead of a rate and its bounds, and `-cpu-used -8`.
const MEASURED: [(f64, f64); 7] = [
    (17_469.0, 20.0),
    (13_131.0, 29.0),
    (9_601.0, 43.0),
    (6_844.0, 59.0),
    (3_865.0, 82.0),
    (1_931.0, 106.0),
    (1_107.0, 127.0),
];

fn parse_frame(text: &str) -> Option<TableFrame> {
    let (size, key) = text.split_once(',')?;
    let size = size.parse::<u32>().ok().filter(|&size| size > 0)?;
    let key = match key {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    Some(TableFrame { size: Bytes::new(u64::from(size)), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_thirty_seconds_at_its_nominal_rate() {
        let table = VideoTable::vp8_25fps_400k();
        assert_eq!(table.frames().len(), 750);
        let rate = table.mean_rate(Duration::from_millis(40)).as_bps();
        assert!(
            (392_000..=400_000).contains(&rate),
            "{rate}: within 2 %, and never more than the multiplexer carries"
        );
    }

    #[test]
    fn a_table_is_scaled_to_a_rate_at_any_pace() {
        for (rate, period) in [(2_000_000, Duration::from_millis(40)), (100_000, Duration::from_millis(20))] {
            let scaled = VideoTable::vp8_25fps_400k().scaled(Bitrate::from_bps(rate), period);
            let made = scaled.mean_rate(period).as_bps() as f64;
            assert!((made / rate as f64 - 1.0).abs() < 0.001, "{made} for {rate}");
        }
    }

    #[test]
    fn key_frames_come_every_ten_seconds_and_are_the_large_ones() {
        let table = VideoTable::vp8_25fps_400k();
        let keys: Vec<usize> = (0..750).filter(|&at| table.frames()[at].key).collect();
        assert_eq!(keys, [0, 250, 500]);
        let largest = table.frames().iter().map(|frame| frame.size).max().unwrap();
        assert!(keys.iter().any(|&at| table.frames()[at].size == largest));
    }

    #[test]
    fn shorter_frames_have_a_coarser_quantiser() {
        let of = |bytes| VideoTable::quantizer_index(Bytes::new(bytes));
        assert_eq!([100_000, 17_469, 3_865, 1_107, 1, 0].map(of), [20, 20, 82, 127, 127, 127]);
        // Half way between the lengths of 59 and 82: the root of 6844 times 3865 is 5143.
        assert_eq!(of(5_143), 71);
        let indices: Vec<u8> = (1_000..18_000).map(of).collect();
        assert!(indices.windows(2).all(|pair| pair[0] >= pair[1]));
    }

    #[test]
    fn a_table_with_a_wrong_line_says_which() {
        let error = VideoTable::parse("# note\nsize_bytes,key\n12,1\n0,0\n").unwrap_err();
        assert_eq!(error, TableError::Line { line: 4, text: "0,0".into() });
        assert_eq!(VideoTable::parse("# nothing\n"), Err(TableError::Empty));
    }
}
