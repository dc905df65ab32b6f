//! Numbers of which the wire has only the low bits.

/// The number nearest to `known` whose low `bits`, 1 to 63 of them, are `low`; `None` where that would be negative (RFC 9000
/// appendix A.3).
///
/// ```
/// use taut_core::nearest;
/// assert_eq!(nearest(0x1_0000_0001, 0xffff_ffff, 32), Some(0xffff_ffff));
/// assert_eq!(nearest(0xff_fffe, 1, 24), Some(0x100_0001));
/// assert_eq!(nearest(3, 0xff_ffff, 24), None);
/// ```
pub const fn nearest(known: u64, low: u32, bits: u32) -> Option<u64> {
    let unused = 64 - bits;
    // The difference of the low bits, with its sign.
    let ahead = ((low as u64).wrapping_sub(known) << unused) as i64 >> unused;
    known.checked_add_signed(ahead)
}
