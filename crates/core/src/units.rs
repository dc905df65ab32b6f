//! Integer quantities with dimensional arithmetic and the text forms that scenarios use.
//!
//! A kilobyte is 1000 bytes and a megabit 10⁶ bits throughout.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Duration, Rng};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// Bits per second.
///
/// ```
/// use taut_core::{Bitrate, Bytes, Duration};
/// let mu: Bitrate = "6Mbit".parse()?;
/// assert_eq!(mu.time_for(Bytes::new(750)), Duration::from_millis(1));
/// assert_eq!(mu * Duration::from_millis(8), Bytes::new(6_000));
/// # Ok::<(), taut_core::ParseQuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(u64);

/// A probability in whole parts per thousand million, so that 1 % is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

impl Bytes {
    /// None.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The count in bits.
    pub const fn bits(self) -> u64 {
        self.0 * 8
    }

    /// `self − other`, or none.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Bitrate {
    /// Nothing passes.
    pub const ZERO: Self = Self(0);

    /// Bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded down to a nanosecond; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        match bytes.0.checked_mul(8_000_000_000) {
            Some(bit_nanos) => Duration::from_nanos(bit_nanos / self.0),
            None => {
                let nanos = u128::from(bytes.0) * 8_000_000_000 / u128::from(self.0);
                u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
            }
        }
    }
}

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(Self::ONE);
    const ONE: u32 = 1_000_000_000;

    /// From a fraction in [0, 1], rounded to parts per thousand million.
    ///
    /// # Errors
    /// When `fraction` is outside [0, 1] or not a number.
    pub fn from_fraction(fraction: f64) -> Result<Self, ParseQuantityError> {
        if (0.0..=1.0).contains(&fraction) {
            Ok(Self((fraction * f64::from(Self::ONE) + 0.5) as u32))
        } else {
            Err(ParseQuantityError::new("probability", &fraction.to_string(), PROBABILITY_FORM))
        }
    }

    /// The fraction in [0, 1].
    pub fn as_fraction(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    /// Draws once. Takes exactly one number from `rng`, also at 0 and 1.
    pub fn sample(self, rng: &mut Rng) -> bool {
        rng.below(u64::from(Self::ONE)) < u64::from(self.0)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0 + rhs.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        self.0 += rhs.0;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0 - rhs.0)
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0 * rhs)
    }
}

impl Div<Bitrate> for Bytes {
    type Output = Duration;
    fn div(self, rhs: Bitrate) -> Duration {
        rhs.time_for(self)
    }
}

impl Div<Duration> for Bytes {
    type Output = Bitrate;
    fn div(self, rhs: Duration) -> Bitrate {
        let nanos = u128::from(rhs.as_nanos().max(1));
        Bitrate((u128::from(self.0) * 8_000_000_000 / nanos).min(u128::from(u64::MAX)) as u64)
    }
}

impl Add for Bitrate {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0 + rhs.0)
    }
}

impl Mul<Duration> for Bitrate {
    type Output = Bytes;
    /// What passes in that time, rounded down to whole bytes.
    fn mul(self, rhs: Duration) -> Bytes {
        Bytes((u128::from(self.0) * u128::from(rhs.as_nanos()) / 8_000_000_000) as u64)
    }
}

/// Text that is not the quantity it should be. The message says which forms are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {wrong}")]
pub struct ParseQuantityError {
    text: String,
    wrong: String,
}

impl ParseQuantityError {
    pub(crate) fn new(quantity: &'static str, text: &str, form: &'static str) -> Self {
        Self { text: text.to_owned(), wrong: format!("is not a {quantity}; write {form}") }
    }
}

const BYTES_FORM: &str = "a number of B, kB or MB that is not negative, such as 14kB";
const BITRATE_FORM: &str =
    "a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit";
const DURATION_FORM: &str = "a number of ns, us, ms, s or min that is not negative, such as 8ms";
const PROBABILITY_FORM: &str = "a fraction from 0 to 1 or a percentage from 0% to 100%, such as 1%";

/// Units by suffix, longest first; the scale is into the integer's own unit.
fn parse_scaled(
    quantity: &'static str,
    form: &'static str,
    text: &str,
    units: &[(&str, f64)],
) -> Result<u64, ParseQuantityError> {
    let error = || ParseQuantityError::new(quantity, text, form);
    let trimmed = text.trim();
    let (number, scale) = units
        .iter()
        .find_map(|(suffix, scale)| trimmed.strip_suffix(suffix).map(|number| (number.trim_end(), *scale)))
        .ok_or_else(error)?;
    let plain = !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    let value: f64 = number.parse().map_err(|_| error())?;
    let scaled = (value * scale).round();
    if plain && scaled.is_finite() && (0.0..9.0e18).contains(&scaled) {
        Ok(scaled as u64)
    } else {
        Err(error())
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("MB", 1e6), ("kB", 1e3), ("B", 1.0)];
        parse_scaled("size", BYTES_FORM, text, &units).map(Self)
    }
}

impl FromStr for Bitrate {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text_without_s = text.trim().strip_suffix("/s").unwrap_or(text);
        let units = [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
        parse_scaled("rate", BITRATE_FORM, text_without_s, &units).map(Self)
    }
}

impl FromStr for Duration {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9)];
        parse_scaled("duration", DURATION_FORM, text, &units).map(Self::from_nanos)
    }
}

impl FromStr for Probability {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, divisor) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let error = || ParseQuantityError::new("probability", text, PROBABILITY_FORM);
        let value: f64 = number.parse().map_err(|_| error())?;
        let probability = Self::from_fraction(value / divisor).map_err(|_| error())?;
        // The digits decide, for a number may already be too small to be told from zero; and then it would silently switch off what it is for.
        let digits = number.split(['e', 'E']).next().unwrap_or_default();
        if probability == Self::NEVER && digits.contains(|c: char| ('1'..='9').contains(&c)) {
            let wrong =
                "is not 0 and would be taken for 0; the smallest probability is 0.0000001%".to_owned();
            return Err(ParseQuantityError { text: text.to_owned(), wrong });
        }
        Ok(probability)
    }
}

/// The largest unit that leaves a whole number, or else the largest that leaves at least one.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let smallest = units[units.len() - 1];
    let (suffix, scale) = units
        .iter()
        .find(|(_, scale)| value >= *scale && value.is_multiple_of((*scale / 1000).max(1)))
        .unwrap_or(&smallest);
    if value.is_multiple_of(*scale) {
        write!(f, "{}{suffix}", value / scale)
    } else {
        write!(f, "{}{suffix}", value as f64 / *scale as f64)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &[("MB", 1_000_000), ("kB", 1_000), ("B", 1)])
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &[("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)])
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        write_scaled(f, self.as_nanos(), &units)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 1e7)
    }
}

macro_rules! serde_as_text {
    ($($quantity:ident),*) => {$(
        impl Serialize for $quantity {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $quantity {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $quantity {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($quantity).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    )*};
}
serde_as_text!(Bytes, Bitrate, Duration, Probability);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_round_trip() {
        for text in ["14kB", "578B", "0B", "1.5kB", "3MB"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        for text in ["6Mbit", "1.904Mbit", "688kbit", "45Mbit", "0bit"] {
            assert_eq!(text.parse::<Bitrate>().unwrap().to_string(), text);
        }
        for text in ["8ms", "500s", "250us", "1.5ms", "17ns"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
        for text in ["1%", "0.05%", "100%", "0%"] {
            assert_eq!(text.parse::<Probability>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_allowed_form() {
        for text in ["-6Mbit", "NaNMbit", "infMbit", "6", "Mbit", "", "6 furlong", "1e30Gbit"] {
            let error = text.parse::<Bitrate>().unwrap_err();
            assert!(error.to_string().contains("such as 6Mbit"), "{error}");
        }
        assert!("101%".parse::<Probability>().is_err());
        assert!("NaN".parse::<Probability>().is_err());
        for text in ["1e-400", "0.00000001%", "4e-10", "-1e-400"] {
            let error = text.parse::<Probability>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not 0 and would be taken for 0")), "{error}");
        }
        assert!("-1ms".parse::<Duration>().is_err());
    }

    #[test]
    fn quantities_multiply_and_divide_by_dimension() {
        let mu = Bitrate::from_bps(6_000_000);
        assert_eq!(Bytes::new(578) / mu, Duration::from_nanos(770_666));
        assert_eq!(mu * Duration::from_millis(16), Bytes::new(12_000));
        assert_eq!(Bytes::new(137) / Duration::from_millis(1), Bitrate::from_bps(1_096_000));
        assert_eq!(Bitrate::ZERO.time_for(Bytes::new(1)), Duration::MAX);
    }
}
