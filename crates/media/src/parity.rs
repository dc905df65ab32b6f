//! Parity over the parts of a message: any so many of all of them, parity or not, are the message.

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::repair::{MOST_PARTS, most_parity};

/// Parity of a message that is cut into parts of one length, the last of which zeros fill up: Reed–Solomon over GF(2¹⁶) as Leopard has it.
///
/// The code is the one for [`most_parity`] of as many parts, whichever of it is sent: so a receiver needs to know nothing but the length of a part,
/// and the first parts of parity are the same however many there are.
///
/// ```
/// use taut_media::Parity;
/// let message = b"whatever is lost comes back";
/// let parity = Parity::new(message.len(), 10).expect("parts of an even length");
/// let sent = parity.of(message, 1);
/// let mut received = message.to_vec();
/// received[10..20].fill(0);
/// assert!(parity.restore(&mut received, |part| part != 1, &[(0, sent)]));
/// assert_eq!(received, message);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity {
    length: usize,
    part: usize,
}

impl Parity {
    /// For a message of `length` bytes in parts of `part`, an even number. `None`: it has a single part, or more than [`MOST_PARTS`].
    pub fn new(length: usize, part: usize) -> Option<Self> {
        let fits = part > 0 && part.is_multiple_of(2) && (2..=MOST_PARTS).contains(&length.div_ceil(part));
        fits.then_some(Self { length, part })
    }

    /// Parts of the message.
    pub const fn parts(&self) -> usize {
        self.length.div_ceil(self.part)
    }

    /// The first `count` parts of parity, one behind the other; no more than [`most_parity`].
    ///
    /// # Panics
    /// When the message is shorter than was said.
    pub fn of(&self, message: &[u8], count: usize) -> Vec<u8> {
        let mut encoder = ReedSolomonEncoder::new(self.parts(), most_parity(self.parts()), self.part)
            .expect("an even length and at most 1536 parts in all");
        for part in message[..self.length].chunks(self.part) {
            encoder.add_original_shard(self.filled(part)).expect("as many as announced, and as long");
        }
        let encoded = encoder.encode().expect("all parts are there");
        encoded.recovery_iter().take(count).flatten().copied().collect()
    }

    /// Puts what is missing in its place. `has`: the parts that are there. `parity`: which parts of parity are there, each once, and their bytes.
    /// False: they are too few, or are none of this message.
    pub fn restore<P: AsRef<[u8]>>(
        &self,
        message: &mut [u8],
        has: impl Fn(usize) -> bool,
        parity: &[(usize, P)],
    ) -> bool {
        let missing = (0..self.parts()).filter(|part| !has(*part)).count();
        if missing == 0 || missing > parity.len() || message.len() != self.length {
            return missing == 0 && message.len() == self.length;
        }
        self.decode(message, has, parity).is_ok()
    }

    fn decode<P: AsRef<[u8]>>(
        &self,
        message: &mut [u8],
        has: impl Fn(usize) -> bool,
        parity: &[(usize, P)],
    ) -> Result<(), reed_solomon_simd::Error> {
        let mut decoder = ReedSolomonDecoder::new(self.parts(), most_parity(self.parts()), self.part)?;
        for (at, part) in message.chunks(self.part).enumerate().filter(|(at, _)| has(*at)) {
            decoder.add_original_shard(at, self.filled(part))?;
        }
        for (at, bytes) in parity {
            decoder.add_recovery_shard(*at, bytes)?;
        }
        let decoded = decoder.decode()?;
        for (at, bytes) in decoded.restored_original_iter() {
            let end = self.length.min((at + 1) * self.part);
            message[at * self.part..end].copy_from_slice(&bytes[..end - at * self.part]);
        }
        Ok(())
    }

    /// A part with the zeros that the last one lacks.
    fn filled<'a>(&self, part: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if part.len() == self.part {
            return part.into();
        }
        let mut filled = part.to_vec();
        filled.resize(self.part, 0);
        filled.into()
    }

    /// Makes the tables that the code needs, 8 MB in some 10 ms, once in the life of a process: before anything is in a hurry.
    pub fn prepare() {
        let pair = Self { length: 4, part: 2 };
        let sent = pair.of(&[1, 2, 3, 4], 1);
        pair.restore(&mut [0, 0, 3, 4], |part| part == 1, &[(0, sent)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * at / 7 + at * 31) as u8).collect()
    }

    /// What is on the wire: another version of the code must not change it.
    #[test]
    fn parity_has_these_bytes() {
        let parity = Parity::new(11, 4).unwrap();
        let sent = parity.of(&message(11), 2);
        assert_eq!(sent, [207, 92, 243, 170, 176, 255, 54, 20]);
    }

    #[test]
    fn a_message_of_one_part_or_of_far_too_many_has_no_parity() {
        assert_eq!(Parity::new(1_000, 1_000), None);
        assert_eq!(Parity::new(0, 1_000), None);
        assert_eq!(Parity::new(10, 3), None, "an odd length");
        assert!(Parity::new(1_001, 1_000).is_some() && Parity::new(MOST_PARTS * 2, 2).is_some());
        assert_eq!(Parity::new(MOST_PARTS * 2 + 1, 2), None);
    }

    #[test]
    fn what_is_none_of_this_message_restores_nothing() {
        let parity = Parity::new(30, 10).unwrap();
        let (whole, sent) = (message(30), parity.of(&message(30), 1));
        let mut bytes = whole.clone();
        assert!(parity.restore::<Vec<u8>>(&mut bytes, |_| true, &[]), "nothing is missing");
        assert!(!parity.restore::<Vec<u8>>(&mut bytes, |part| part > 0, &[]));
        assert!(!parity.restore(&mut bytes, |part| part > 1, &[(0, sent.clone())]), "two are missing");
        assert!(!parity.restore(&mut bytes, |part| part > 0, &[(9, sent.clone())]), "there is no tenth");
        assert!(!parity.restore(&mut bytes, |part| part > 0, &[(0, vec![1; 8])]), "of another length");
        assert!(
            !parity.restore(&mut bytes, |part| part > 1, &[(0, sent.clone()), (0, sent)]),
            "twice the same"
        );
        assert_eq!(bytes, whole);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn any_so_many_of_all_parts_are_the_message(length in 1usize..6_000, half in 1usize..300, seed in any::<u64>()) {
            let part = half * 2;
            prop_assume!(Parity::new(length, part).is_some());
            let parity = Parity::new(length, part).unwrap();
            let (whole, parts) = (message(length), parity.parts());
            let most = most_parity(parts);
            let sent = parity.of(&whole, most);
            prop_assert_eq!(sent.len(), most * part);
            let pick = |at: usize| seed.wrapping_mul(at as u64 * 2 + 1) >> 32;
            let mut order: Vec<usize> = (0..parts + most).collect();
            order.sort_by_key(|at| pick(*at));
            let has = &order[..parts];
            let mut bytes = vec![0; length];
            for at in has.iter().filter(|at| **at < parts) {
                let end = length.min((at + 1) * part);
                bytes[at * part..end].copy_from_slice(&whole[at * part..end]);
            }
            let came: Vec<_> = has.iter().filter(|at| **at >= parts).map(|at| at - parts).collect();
            let came: Vec<_> = came.into_iter().map(|at| (at, &sent[at * part..(at + 1) * part])).collect();
            prop_assert!(parity.restore(&mut bytes, |at| has.contains(&at), &came));
            prop_assert_eq!(bytes, whole);
        }
    }
}
