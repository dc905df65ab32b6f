//! Lines out of bytes.

use super::lines::LONGEST;

/// Cuts bytes into lines of bounded length.
#[derive(Debug)]
pub struct Splitter {
    longest: usize,
    line: Vec<u8>,
    /// The present one is too long: its rest is left out.
    overlong: bool,
}

impl Default for Splitter {
    /// Of lines that are no longer than [`LONGEST`].
    fn default() -> Self {
        Self::new(LONGEST)
    }
}

impl Splitter {
    /// Of lines that are no longer than that.
    pub const fn new(longest: usize) -> Self {
        Self { longest, line: Vec::new(), overlong: false }
    }

    /// Takes bytes, and gives every line that they complete: `None` for one that is too long.
    pub fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Option<&[u8]>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end]);
            let line = (!std::mem::take(&mut self.overlong)).then_some(&self.line[..]);
            each(line);
            self.line.clear();
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > self.longest {
            self.overlong = true;
        }
        if self.overlong {
            self.line.clear();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_come_and_a_long_one_is_left_out() {
        let text = format!("one\n{}\n\ntwo\nrest", "x".repeat(LONGEST + 1));
        for piece in [1, 7, 4_096] {
            let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
            for bytes in text.as_bytes().chunks(piece) {
                splitter.take(bytes, |line| lines.push(line.map(<[u8]>::to_vec)));
            }
            let expected = [Some(b"one".to_vec()), None, Some(Vec::new()), Some(b"two".to_vec())];
            assert_eq!(lines, expected, "pieces of {piece}");
        }
    }
}
