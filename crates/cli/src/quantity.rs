//! Quantities in the arguments of commands.

use taut_core::Duration;

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// A duration, with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    text.parse().map_err(|error: taut_core::ParseQuantityError| error.to_string())
}

/// A duration of a range.
pub(crate) fn between(
    least: Duration,
    most: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let told = duration(text)?;
        if (least..=most).contains(&told) { Ok(told) } else { Err(format!("is {least} to {most}")) }
    }
}
