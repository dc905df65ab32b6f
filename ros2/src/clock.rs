//! The clocks of this program.
#![allow(clippy::disallowed_methods, reason = "it is a host: here time enters")]

use std::time::{Duration, Instant, SystemTime};

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// For stamps.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
