//! What keys are when a scenario does not say; each stands in the documentation of its key.

use taut_core::{Bitrate, Bytes, Duration, Probability};

pub(super) const fn one() -> u32 {
    1
}
pub(super) const fn two() -> u32 {
    2
}
pub(super) const fn three() -> u16 {
    3
}
pub(super) const fn ccid() -> u8 {
    2
}
pub(super) const fn five_milliseconds() -> Duration {
    Duration::from_millis(5)
}
pub(super) const fn two_hundred_milliseconds() -> Duration {
    Duration::from_millis(200)
}
pub(super) const fn four_hundred_milliseconds() -> Duration {
    Duration::from_millis(400)
}
pub(super) const fn four() -> u32 {
    4
}
pub(super) const fn ten() -> u32 {
    10
}
pub(super) const fn twenty_five() -> u32 {
    25
}
pub(super) const fn yes() -> bool {
    true
}
pub(super) const fn tenth() -> f64 {
    0.1
}
pub(super) const fn always() -> Probability {
    Probability::ALWAYS
}
pub(super) const fn one_millisecond() -> Duration {
    Duration::from_millis(1)
}
pub(super) const fn twenty_milliseconds() -> Duration {
    Duration::from_millis(20)
}
pub(super) const fn hundred_milliseconds() -> Duration {
    Duration::from_millis(100)
}
pub(super) const fn one_second() -> Duration {
    Duration::from_secs(1)
}
pub(super) const fn two_seconds() -> Duration {
    Duration::from_secs(2)
}
pub(super) const fn g711_rate() -> Bitrate {
    Bitrate::from_bps(64_000)
}
pub(super) const fn haptic_size() -> Bytes {
    Bytes::new(24)
}
pub(super) const fn haptic_packet() -> Bytes {
    Bytes::new(75)
}
pub(super) const fn fifty_eight() -> Bytes {
    Bytes::new(58)
}
pub(super) const fn tcp_segment() -> Bytes {
    Bytes::new(1500)
}
pub(super) const fn mtu() -> Bytes {
    Bytes::new(1200)
}
pub(super) const fn ethernet_frame() -> Bytes {
    Bytes::new(1514)
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(super) const fn is_zero(number: &u8) -> bool {
    *number == 0
}
pub(super) const fn video_port() -> u16 {
    5004
}
pub(super) const fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}
pub(super) const fn hundred_fifty_milliseconds() -> Duration {
    Duration::from_millis(150)
}

// What a deadband sampler sent of the signal in Gokhale et al., Figure 9: 613 kbit/s, and 1079 for 4 of some 20 s.
pub(super) fn contact_share() -> Probability {
    percent(19)
}
pub(super) fn contact_changes() -> Probability {
    Probability::ALWAYS
}
pub(super) fn free_changes() -> Probability {
    percent(12)
}
fn percent(whole: u32) -> Probability {
    Probability::from_fraction(f64::from(whole) / 100.0).expect("a percentage up to 100")
}
