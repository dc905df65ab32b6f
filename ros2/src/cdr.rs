//! Messages of ROS 2 as they are on the wire: CDR version 1, little endian (OMG DDS-XTypes 1.3, section 7.4.1.1), behind the four bytes that
//! name the encoding (DDSI-RTPS 2.5, section 10.2). Whatever the bytes are, reading ends with a value or an error.

use std::fmt;

/// What stands before every message: `CDR_LE`, and no options.
pub(crate) const HEADER: [u8; 4] = [0, 1, 0, 0];

/// The longest name, bytes.
const MAX_TEXT: usize = 256;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// It ends before its last field.
    Short,
    /// The encoding is another one: its first two bytes.
    Encoding([u8; 2]),
    /// A text is not UTF-8, is not terminated, or is longer than 256 bytes.
    Text,
    /// Bytes are left that are no padding.
    Long(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "it ends before its last field"),
            Self::Encoding([a, b]) => {
                write!(f, "its encoding is {a:02x}{b:02x}, not CDR little endian (0001)")
            }
            Self::Text => write!(f, "a text is longer than {MAX_TEXT} bytes, or is none"),
            Self::Long(bytes) => write!(f, "{bytes} bytes are left after its last field"),
        }
    }
}

/// Reads fields in their order. Nothing is allocated beyond the length of the message.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// # Errors
    /// When the message is encoded otherwise.
    pub(crate) fn new(message: &'a [u8]) -> Result<Self, Error> {
        let (header, body) = message.split_at_checked(HEADER.len()).ok_or(Error::Short)?;
        if header[..2] != HEADER[..2] {
            return Err(Error::Encoding([header[0], header[1]]));
        }
        Ok(Self { body, at: 0 })
    }

    /// The next bytes, at a multiple of their number from the beginning of the body.
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.at = self.at.next_multiple_of(N);
        let bytes = self.body.get(self.at..).and_then(<[u8]>::first_chunk).ok_or(Error::Short)?;
        self.at += N;
        Ok(*bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Error> {
        self.take().map(i32::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Error> {
        self.take().map(f64::from_le_bytes)
    }

    pub(crate) fn three(&mut self) -> Result<[f64; 3], Error> {
        Ok([self.f64()?, self.f64()?, self.f64()?])
    }

    /// A text, without its terminating zero.
    pub(crate) fn text(&mut self) -> Result<&'a str, Error> {
        let length = self.u32()? as usize;
        let bytes = self.body.get(self.at..).and_then(|rest| rest.get(..length)).ok_or(Error::Short)?;
        self.at += length;
        // Some write an empty text without its zero.
        let (text, end) = bytes.split_at(length.saturating_sub(1));
        if end.iter().any(|byte| *byte != 0) || text.len() > MAX_TEXT {
            return Err(Error::Text);
        }
        std::str::from_utf8(text).map_err(|_| Error::Text)
    }

    /// So many elements follow. Each has a byte at least, so that more than are left is an error at once.
    pub(crate) fn count(&mut self) -> Result<usize, Error> {
        let count = self.u32()? as usize;
        if count > self.body.len().saturating_sub(self.at) { Err(Error::Short) } else { Ok(count) }
    }

    /// A sequence.
    pub(crate) fn each<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        (0..self.count()?).map(|_| read(self)).collect()
    }

    pub(crate) fn f64s(&mut self) -> Result<Vec<f64>, Error> {
        self.each(Self::f64)
    }

    pub(crate) fn texts(&mut self) -> Result<Vec<&'a str>, Error> {
        self.each(Self::text)
    }

    /// Nothing follows but padding.
    pub(crate) fn end(self) -> Result<(), Error> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        if rest.len() < 4 { Ok(()) } else { Err(Error::Long(rest.len())) }
    }
}

/// Writes fields in their order.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Self {
        Self(HEADER.to_vec())
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        let body = (self.0.len() - HEADER.len()).next_multiple_of(N);
        self.0.resize(HEADER.len() + body, 0);
        self.0.extend_from_slice(&bytes);
    }

    pub(crate) fn i32(&mut self, number: i32) {
        self.put(number.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.put(number.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, number: f64) {
        self.put(number.to_le_bytes());
    }

    pub(crate) fn three(&mut self, numbers: [f32; 3]) {
        numbers.into_iter().for_each(|number| self.f64(number.into()));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u32(text.len() as u32 + 1);
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    pub(crate) fn texts(&mut self, texts: &[String]) {
        self.u32(texts.len() as u32);
        texts.iter().for_each(|text| self.text(text));
    }

    pub(crate) fn f64s(&mut self, numbers: &[f32]) {
        self.u32(numbers.len() as u32);
        numbers.iter().for_each(|number| self.f64(f64::from(*number)));
    }

    pub(crate) fn message(self) -> Vec<u8> {
        self.0
    }
}

/// Puts this time into the header with which the message begins: `sec` and `nanosec`, the first eight bytes of the body. False, when it is too
/// short to have one.
pub(crate) fn stamp(message: &mut [u8], since_1970: std::time::Duration) -> bool {
    let Some(stamp) = message.get_mut(4..12) else { return false };
    // Seconds of `builtin_interfaces/Time` end in 2038.
    let seconds = i32::try_from(since_1970.as_secs()).unwrap_or(i32::MAX);
    stamp[..4].copy_from_slice(&seconds.to_le_bytes());
    stamp[4..].copy_from_slice(&since_1970.subsec_nanos().to_le_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_at_its_alignment() {
        let mut writer = Writer::new();
        writer.i32(-1);
        writer.text("ab");
        writer.f64s(&[0.5, -2.0]);
        writer.texts(&["elbow".to_owned(), String::new()]);
        let message = writer.message();
        // 4 number, 4 length, 3 text, 1 padding, 4 count, 16 numbers.
        assert_eq!(&message[..16], &[0, 1, 0, 0, 255, 255, 255, 255, 3, 0, 0, 0, b'a', b'b', 0, 0]);
        let mut reader = Reader::new(&message).unwrap();
        assert_eq!((reader.i32(), reader.text()), (Ok(-1), Ok("ab")));
        assert_eq!((reader.f64s(), reader.texts()), (Ok(vec![0.5, -2.0]), Ok(vec!["elbow", ""])));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn whatever_the_bytes_are_reading_ends() {
        let mut writer = Writer::new();
        writer.text("base");
        writer.f64s(&[1.0; 4]);
        writer.texts(&["a".to_owned(), "b".to_owned()]);
        let message = writer.message();
        let read = |bytes: &[u8]| -> Result<(), Error> {
            let mut reader = Reader::new(bytes)?;
            reader.text()?;
            reader.f64s()?;
            reader.texts()?;
            reader.end()
        };
        assert_eq!(read(&message), Ok(()));
        for length in 0..message.len() {
            assert!(read(&message[..length]).is_err(), "{length} bytes");
        }
        // Every byte in turn with every value: no length leads out of the message.
        for at in 0..message.len() {
            for value in 0..=u8::MAX {
                let mut other = message.clone();
                other[at] = value;
                let _ = read(&other);
            }
        }
        assert_eq!(Reader::new(&[0, 0, 0, 0]).map(|_| ()), Err(Error::Encoding([0, 0])));
        let endless = [0, 1, 0, 0, 255, 255, 255, 255];
        assert_eq!(Reader::new(&endless).unwrap().f64s(), Err(Error::Short));
    }

    #[test]
    fn a_stamp_is_the_first_eight_bytes_of_the_body() {
        let mut message = Writer::new();
        message.u32(7);
        message.u32(8);
        message.u32(9);
        let mut message = message.message();
        assert!(stamp(&mut message, std::time::Duration::new(1, 2)));
        assert_eq!(message[4..], [1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0]);
        assert!(!stamp(&mut message[..11], std::time::Duration::ZERO));
    }
}
