//! Numbers, names and markup as a reader sees them: the only place where a report turns a float into text.

use crate::result::MOST_LOSSES;
use crate::result::{CycleResult, MediumResult};

/// What stands for a quantity that is absent, or that is not a number.
pub(super) const ABSENT: &str = "–";

/// `value` with at most `digits` significant digits (never fewer than its whole part has), without trailing zeros.
/// Beyond what a reader can take in, below 10⁻⁶ or from 10¹², with an exponent; a dash for NaN and infinities.
pub(super) fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let magnitude = value.abs();
    if value != 0.0 && !(1e-6..1e12).contains(&magnitude) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let mut decimals = digits.saturating_sub(1);
    let mut bound = 10.0;
    while magnitude >= bound && decimals > 0 {
        bound *= 10.0;
        decimals -= 1;
    }
    let mut unit = 1.0;
    while magnitude < unit && value != 0.0 {
        unit /= 10.0;
        decimals += 1;
    }
    trimmed(format!("{value:.decimals$}"))
}

/// `number`, or a dash where there is none.
pub(super) fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| ABSENT.to_owned(), |value| number(value, digits))
}

/// A difference: with its sign, and at most `decimals` digits after the point, because a difference of two rounded
/// numbers is no more precise than they are.
pub(super) fn difference(value: f64, decimals: usize) -> String {
    if !value.is_finite() || value.abs() >= 1e12 {
        return number(value, 4);
    }
    let text = trimmed(format!("{value:+.decimals$}"));
    if text == "+0" { "0".to_owned() } else { text }
}

/// A control law as people write it, and what its line loses: `"position–force, 5 % lost"`.
pub(super) fn law(name: &str, loss_percent: f64) -> String {
    let law = name.replace('_', "–");
    if loss_percent > 0.0 { format!("{law}, {} % lost", number(loss_percent, 3)) } else { law }
}

/// A coordinate in a figure: a tenth of a unit is finer than any screen shows.
pub(super) fn coordinate(value: f64) -> String {
    let bounded = if value.is_nan() { 0.0 } else { value.clamp(-1e5, 1e5) };
    trimmed(format!("{bounded:.1}"))
}

fn trimmed(text: String) -> String {
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// A count as markup: thousands are set apart by style, so that the text that is copied stays a plain number.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let head = digits.len() % 3;
    let mut groups: Vec<&str> = Vec::new();
    if head > 0 {
        groups.push(&digits[..head]);
    }
    groups.extend((head..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    groups.join("<i class=\"k\"></i>")
}

/// Text made safe between tags and inside quoted attributes. What XML forbids even escaped becomes U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(character),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            control if control.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// A name as HTML: escaped, and `d_max` with a subscript wherever a word has that shape.
pub(super) fn symbol_html(name: &str) -> String {
    let word = |word: &str| match subscripted(word) {
        Some((base, index, rest)) => {
            format!("{}<sub>{}</sub>{}", escape(base), escape(index), escape(rest))
        }
        None => escape(word),
    };
    name.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A name as the content of an SVG text, like [`symbol_html`].
pub(super) fn symbol_svg(name: &str) -> String {
    let mut svg = String::new();
    let mut lowered = false;
    for (i, word) in name.split(' ').enumerate() {
        let space = if i > 0 { " " } else { "" };
        let (base, index, rest) = subscripted(word).unwrap_or((word, "", ""));
        raised(&mut svg, &mut lowered, &format!("{space}{}", escape(base)));
        if !index.is_empty() {
            svg.push_str(&format!("<tspan dy=\"3\" class=\"sub\">{}</tspan>", escape(index)));
            lowered = true;
        }
        raised(&mut svg, &mut lowered, &escape(rest));
    }
    svg
}

/// Text on the line again after an index.
fn raised(svg: &mut String, lowered: &mut bool, text: &str) {
    if *lowered && !text.is_empty() {
        svg.push_str(&format!("<tspan dy=\"-3\">{text}</tspan>"));
        *lowered = false;
    } else {
        svg.push_str(text);
    }
}

/// `d_max,` as `("d", "max", ",")`. Longer words with an underscore are identifiers, not symbols.
fn subscripted(word: &str) -> Option<(&str, &str, &str)> {
    let (base, index) = word.split_once('_')?;
    let (index, rest) = index.split_at(index.trim_end_matches([',', ';', ':']).len());
    let short = (1..=2).contains(&base.chars().count()) && (1..=6).contains(&index.chars().count());
    (short && !index.contains('_')).then_some((base, index, rest))
}

/// A name fit for a file: lower case letters, digits and single hyphens.
pub(super) fn slug(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
    let slug = plain.split_whitespace().collect::<Vec<_>>().join("-");
    if slug.is_empty() { "unnamed".to_owned() } else { slug }
}

/// The first letter in upper case, for the beginning of a sentence or a heading.
pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// A name of a cause or a counter in words: `"queue full bytes"`.
pub(super) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// `"queue full 12, expired 3"` as markup: counts by cause or by name, without those that are zero.
pub(super) fn causes(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let each = counts
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(why, n)| format!("{} {}", escape(&spaced(why)), count(*n)));
    each.collect::<Vec<_>>().join(", ")
}

/// [`causes`], or a dash where there are none.
pub(super) fn causes_or_none(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let text = causes(counts);
    if text.is_empty() { ABSENT.to_owned() } else { text }
}

/// How many segments each of these cycles lost; the last row stands for more as well.
pub(super) fn cycle_losses(cycle: &CycleResult) -> String {
    if cycle.losses < MOST_LOSSES { count(cycle.losses) } else { format!("{} or more", count(MOST_LOSSES)) }
}

/// Where the lost samples of a medium were lost, as `"superseded 14 990, lost in the network 12"`; `None` where all were lost
/// in the network, or none was.
pub(super) fn loss_split(medium: &MediumResult) -> Option<String> {
    if medium.dropped.is_empty() {
        return None;
    }
    let network = format!("lost in the network {}", count(medium.lost_in_network));
    Some(format!("{}, {network}", causes(&medium.dropped)))
}

/// The factor and the unit in which quantities of `unit` up to `largest` read well; `bytes` become `B` or `kB` (1000 B).
pub(super) fn scaled_unit(unit: &str, largest: f64) -> (f64, String) {
    let prefixes = |base: &str| {
        if largest >= 2e6 {
            (1e-6, format!("M{base}"))
        } else if largest >= 2e3 {
            (1e-3, format!("k{base}"))
        } else {
            (1.0, base.to_owned())
        }
    };
    match unit {
        "bytes" | "B" => prefixes("B"),
        "bps" | "bit/s" => prefixes("bit/s"),
        other => (1.0, other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_significant_digits_and_whole_parts() {
        let cases = [
            (26.666_666, "26.67"),
            (9.91, "9.91"),
            (30.0, "30"),
            (0.000_123_456, "0.0001235"),
            (123_456.7, "123457"),
            (0.0, "0"),
            (-0.000_000_01, "-1.000e-8"),
            (1e300, "1.000e300"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value, 4), text);
        }
        assert_eq!(number(-0.0, 4), "0");
        let differences = [0.25, -0.25, 0.0, -0.001, 0.001].map(|value| difference(value, 2));
        assert_eq!(differences, ["+0.25", "-0.25", "0", "0", "0"]);
    }

    #[test]
    fn what_is_not_a_number_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(number(value, 4), ABSENT);
            assert_eq!(difference(value, 2), ABSENT);
            assert!(coordinate(value).parse::<f64>().is_ok_and(f64::is_finite));
        }
    }

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(escape("<b a='\"'>&\u{0}\u{1b}\n"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}\u{fffd}\n");
        assert_eq!(symbol_html("backward <i> d_max"), "backward &lt;i&gt; d<sub>max</sub>");
        assert_eq!(
            symbol_svg("d_max of"),
            "d<tspan dy=\"3\" class=\"sub\">max</tspan><tspan dy=\"-3\"> of</tspan>"
        );
        assert_eq!(symbol_html("queue_max_bytes"), "queue_max_bytes");
        assert_eq!(symbol_html("d_min, whole run"), "d<sub>min</sub>, whole run");
        assert_eq!(
            symbol_svg("d_min, whole"),
            "d<tspan dy=\"3\" class=\"sub\">min</tspan><tspan dy=\"-3\">,</tspan> whole"
        );
    }

    #[test]
    fn counts_are_grouped_by_style_and_copied_plain() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1234), "1<i class=\"k\"></i>234");
        assert_eq!(count(500_000).replace("<i class=\"k\"></i>", ""), "500000");
    }

    #[test]
    fn slugs_are_safe_file_names() {
        assert_eq!(slug("router → robot"), "router-robot");
        assert_eq!(slug("../../etc"), "etc");
        assert_eq!(slug("→"), "unnamed");
    }
}
