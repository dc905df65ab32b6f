//! Text that fits: what has no room is left out as a whole, so that no number is ever cut.

/// Columns of a row's name.
const NAME: usize = 10;
/// Columns of a figure, with the space before it.
const COLUMN: usize = 7;

/// Milliseconds in six characters, as exact as they allow.
pub(super) fn ms(ms: f64) -> String {
    match ms.abs() {
        ..999.995 => format!("{ms:.2}"),
        ..9_999.95 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

/// As many of `items` as have room, separated by commas; an ellipsis where some are left out.
pub(super) fn fitting(items: &[String], width: usize) -> String {
    const MORE: &str = " …";
    let mut text = String::new();
    for (place, item) in items.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let reserve = if place + 1 == items.len() { 0 } else { MORE.chars().count() };
        let longer = text.chars().count() + comma.len() + item.chars().count();
        if longer + reserve > width {
            let more = if text.chars().count() + MORE.chars().count() <= width { MORE } else { "" };
            return format!("{text}{more}");
        }
        text = format!("{text}{comma}{item}");
    }
    text
}

/// A name, and as many values as have room.
pub(super) fn row(name: &str, values: &[String], width: usize) -> String {
    format!("{name:<NAME$}{}", fitting(values, width.saturating_sub(NAME)))
}

/// A name, and as many figures below each other as have room.
pub(super) fn columns(name: &str, values: &[String], width: usize) -> String {
    let room = width.saturating_sub(NAME) / COLUMN;
    let mut text = format!("{name:<NAME$}");
    for value in values.iter().take(room) {
        text += &format!("{value:>COLUMN$}");
    }
    text
}

/// Lines no longer than `width`, broken between words, all but the first indented as the first one's `head` is long.
pub(super) fn wrapped(head: &str, text: &str, width: usize) -> Vec<String> {
    let indent = head.chars().count();
    let (mut lines, mut line) = (Vec::new(), head.to_owned());
    for (place, word) in text.split_whitespace().enumerate() {
        let is_empty = place == 0 || line.chars().count() == indent;
        let space = usize::from(!is_empty);
        if !is_empty && line.chars().count() + space + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            line += word;
            continue;
        }
        line += if is_empty { "" } else { " " };
        line += word;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn no_number_is_cut_and_what_has_no_room_is_left_out_as_a_whole() {
        let dropped = items(&["stopped 12345", "superseded 668", "late 2"]);
        assert_eq!(fitting(&dropped, 37), "stopped 12345, superseded 668, late 2");
        assert_eq!(fitting(&dropped, 36), "stopped 12345, superseded 668 …");
        assert_eq!(fitting(&dropped, 30), "stopped 12345 …");
        assert_eq!(fitting(&dropped, 12), " …");
        assert_eq!(fitting(&dropped, 0), "");
        let figures = items(&["1.00", "22.00", "333.00", "4444.0"]);
        assert_eq!(columns("ms", &figures, 38), "ms           1.00  22.00 333.00 4444.0");
        assert_eq!(columns("ms", &figures, 37), "ms           1.00  22.00 333.00");
    }

    #[test]
    fn milliseconds_take_six_characters_at_most_up_to_a_quarter_of_an_hour() {
        for (value, expected) in [
            (0.0, "0.00"),
            (999.99, "999.99"),
            (999.996, "1000.0"),
            (9_999.9, "9999.9"),
            (9_999.96, "10000"),
            (900_000.0, "900000"),
        ] {
            assert_eq!(ms(value), expected);
        }
    }

    #[test]
    fn what_was_said_is_broken_between_words_and_nothing_of_it_is_lost() {
        let lines = wrapped("1.00 s  ", "the robot is PAUSED; its last stop: watchdog", 30);
        assert_eq!(lines, ["1.00 s  the robot is PAUSED;", "        its last stop:", "        watchdog"]);
        assert_eq!(wrapped("", "a-word-without-end", 4), ["a-word-without-end"]);
    }
}
