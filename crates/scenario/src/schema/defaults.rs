//! What keys are when a scenario does not say: each where its key stands, as `ms::<100>`, and in the documentation of its key.

use taut_core::{Bitrate, Bytes, Duration, Probability};

macro_rules! numbers {
    ($($number:ident),*) => {$(
        pub(crate) const fn $number<const N: $number>() -> $number {
            N
        }
    )*};
}
numbers!(u8, u16, u32, usize);

pub(crate) const fn ms<const N: u64>() -> Duration {
    Duration::from_millis(N)
}
pub(crate) const fn bytes<const N: u64>() -> Bytes {
    Bytes::new(N)
}
pub(crate) const fn kbit<const N: u64>() -> Bitrate {
    Bitrate::from_bps(N * 1000)
}
pub(crate) fn tenths<const N: u32>() -> f64 {
    f64::from(N) / 10.0
}
pub(crate) fn ten_thousandths<const N: u32>() -> Probability {
    Probability::from_fraction(f64::from(N) / 10_000.0).expect("at most 10 000 of them")
}
pub(crate) const fn yes() -> bool {
    true
}
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
