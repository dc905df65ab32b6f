//! Times as decimal text, exact to the nanosecond also where seconds since 1970 exceed what an `f64` resolves.

/// What a column of times counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Decimal digits between this unit and a nanosecond.
    digits: u32,
}

impl Unit {
    /// From the column's suffix: `_s`, `_ms`, `_us`, `_ns`.
    pub(crate) fn of_column(column: &str) -> Option<Self> {
        let (name, suffix) = column.rsplit_once('_')?;
        let digits = [("s", 9), ("ms", 6), ("us", 3), ("ns", 0)].iter().find(|(unit, _)| *unit == suffix)?.1;
        (!name.is_empty()).then_some(Self { digits })
    }

    /// Nanoseconds, halves of one rounded away from zero. `None` when `text` is not a number or beyond ±292 years.
    pub(crate) fn parse(self, text: &str) -> Option<i64> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(whole) || !plain(fraction) || whole.len() + fraction.len() == 0 {
            return self.parse_float(text);
        }
        let scale = 10u64.pow(self.digits);
        let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.checked_mul(scale)? };
        let kept = fraction.bytes().take(self.digits as usize);
        let part = kept.chain(std::iter::repeat(b'0')).take(self.digits as usize);
        let part = part.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        let up = fraction.as_bytes().get(self.digits as usize).is_some_and(|digit| *digit >= b'5');
        let nanos = i64::try_from(whole.checked_add(part)?.checked_add(u64::from(up))?).ok()?;
        Some(if negative { -nanos } else { nanos })
    }

    /// Numbers with an exponent.
    fn parse_float(self, text: &str) -> Option<i64> {
        let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
        let nanos = (value * 10u64.pow(self.digits) as f64).round();
        (nanos.abs() < 9.0e18).then_some(nanos as i64)
    }
}

/// Seconds, with as many digits as it takes.
pub(crate) fn seconds(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let text = format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds_of(text: &str) -> Option<i64> {
        Unit::of_column("time_s").and_then(|unit| unit.parse(text))
    }

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(seconds_of("0.0005"), Some(500_000));
        assert_eq!(seconds_of("1700000000.123456789"), Some(1_700_000_000_123_456_789));
        assert_eq!(seconds_of("-.5"), Some(-500_000_000));
        assert_eq!(seconds_of("0.00000000049"), Some(0));
        assert_eq!(seconds_of("0.9999999995"), Some(1_000_000_000));
        assert_eq!(seconds_of("5e-4"), Some(500_000));
        assert_eq!(Unit::of_column("t_ms").unwrap().parse("2.5"), Some(2_500_000));
        assert_eq!(Unit::of_column("stamp_ns").unwrap().parse("7.5"), Some(8));
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in ["", ".", "-", "--1", "1.2.3", "NaN", "inf", "1e300", "99999999999999", "x", "0x1"] {
            assert_eq!(seconds_of(text), None, "{text}");
        }
        assert_eq!(Unit::of_column("time"), None);
        assert_eq!(Unit::of_column("_s"), None);
    }

    #[test]
    fn seconds_are_read_as_they_are_written() {
        for nanos in [0, 1, 500_000, 1_700_000_000_123_456_789, -250_000_000, i64::MAX, i64::MIN + 1] {
            assert_eq!(seconds_of(&seconds(i128::from(nanos))), Some(nanos));
        }
        assert_eq!(seconds(500_000), "0.0005");
        assert_eq!(seconds(20_000_000_000), "20");
    }
}
