//! Text that somebody else wrote, for a terminal or a log.

use std::fmt::{self, Write};

/// Characters that are shown of it at most.
const LONGEST: usize = 256;

/// Text from a peer, a file or the network, safe to be shown: what would steer a terminal or change the order of what is
/// read is escaped as in a Rust string, and no more than 256 characters are shown, the last of them `…` where there is more.
///
/// ```
/// use taut_core::printable;
///
/// assert_eq!(printable("no such cart: Änderung").to_string(), "no such cart: Änderung");
/// assert_eq!(printable("\x1b[2Jbye\r\n").to_string(), r"\u{1b}[2Jbye\r\n");
/// ```
pub fn printable(text: &str) -> Printable<'_> {
    Printable { text, longest: LONGEST }
}

/// What [`printable`] shows.
#[derive(Clone, Copy)]
pub struct Printable<'a> {
    text: &'a str,
    longest: usize,
}

impl Printable<'_> {
    /// So many characters at most, instead of 256.
    pub const fn at_most(self, characters: usize) -> Self {
        Self { longest: characters, ..self }
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.longest;
        let mut characters = self.text.chars().peekable();
        while let Some(character) = characters.next() {
            let width = if is_harmless(character) { 1 } else { character.escape_default().count() };
            // The last place is that of the ellipsis, unless nothing follows.
            if width > left || (width == left && characters.peek().is_some()) {
                return f.write_char('…');
            }
            left -= width;
            if is_harmless(character) {
                f.write_char(character)?;
            } else {
                write!(f, "{}", character.escape_default())?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Does [`printable`] show it as it is? Neither a control character (Unicode category Cc) nor one that is not seen but changes what is: line and paragraph
/// separators, the controls of direction (Unicode Standard Annex 9, section 2), characters without width, annotations, tags.
#[inline]
pub fn is_harmless(character: char) -> bool {
    // Most text is of these.
    matches!(character, ' '..='~') || !character.is_control() && !changes_others(character)
}

fn changes_others(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        let shown = printable("a\u{1b}]0;title\u{7}\u{9b}31m\u{7f}\0\r\n\tb").to_string();
        assert_eq!(shown, r"a\u{1b}]0;title\u{7}\u{9b}31m\u{7f}\u{0}\r\n\tb");
    }

    #[test]
    fn what_reorders_or_hides_text_is_escaped() {
        assert_eq!(
            printable("a\u{202e}b\u{2066}c\u{200f}d\u{2028}").to_string(),
            r"a\u{202e}b\u{2066}c\u{200f}d\u{2028}"
        );
        assert_eq!(printable("a\u{200b}b\u{feff}\u{e0041}").to_string(), r"a\u{200b}b\u{feff}\u{e0041}");
    }

    #[test]
    fn ordinary_text_of_any_language_stays_as_it_is() {
        for text in ["", "a \\ 'b' \"c\"", "Straße, déjà vu", "手術ロボット", "робот", "مرحبا", "🤖"]
        {
            assert_eq!(printable(text).to_string(), text);
        }
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        let fits = "x".repeat(LONGEST);
        assert_eq!(printable(&fits).to_string(), fits);
        let cut = printable(&format!("{fits}y")).to_string();
        assert_eq!(cut, "x".repeat(LONGEST - 1) + "…");
        assert_eq!(printable("four").at_most(3).to_string(), "fo…");
    }

    #[test]
    fn whatever_it_is_shows_short_and_harmless() {
        let mut rng = Seed::new(1).stream("text");
        for _ in 0..200 {
            let length = rng.next_u64() % 400;
            let text: String = (0..length)
                .filter_map(|_| char::from_u32((rng.next_u64() % 0x3000) as u32 >> (rng.next_u64() % 6)))
                .collect();
            let shown = printable(&text).to_string();
            assert!(shown.chars().count() <= LONGEST && shown.chars().all(is_harmless), "{shown:?}");
        }
    }
}
