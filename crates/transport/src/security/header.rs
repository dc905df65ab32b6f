//! What is outside of the encryption: a type, a session index, a nonce. All big-endian.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |     type      |            session index (24 bits)            |   1 initiation: the sender's index
//! +---------------+-----------------------------------------------+   2 response:   the receiver's index
//! |        1: Noise message, MAC, proof of the address            |   3 data:       the receiver's index
//! |        2: Noise message, MAC                                  |   5 cookie:     the receiver's index
//! |        3: nonce (64 bits), ciphertext                         |
//! |        5: nonce (192 bits), sealed cookie                     |   6 refusal:    the receiver's index
//! |        6: nonce (192 bits), tag                               |
//! +---------------------------------------------------------------+
//! ```

use taut_core::DropCause;

/// Bytes of type and index.
pub(crate) const WORD: usize = 4;
/// Bytes before the ciphertext of a data datagram: type, index, nonce.
pub(crate) const DATA_HEADER: usize = WORD + 8;
/// Bytes of the authentication tag after a ciphertext.
pub(crate) const TAG: usize = 16;
/// Bytes of the MAC at the end of a handshake message.
pub(crate) const MAC: usize = 16;
/// Bytes of the plaintext in an initiation: timestamp and conversation.
pub(crate) const INITIATION_PAYLOAD: usize = 16;
/// Bytes of the plaintext in a response: verdict and index.
pub(crate) const RESPONSE_PAYLOAD: usize = 4;
/// Bytes of the first message of Noise IK: ephemeral key, sealed static key, sealed payload.
pub(crate) const NOISE_INITIATION: usize = 32 + (32 + TAG) + INITIATION_PAYLOAD + TAG;
/// Bytes of its second one: ephemeral key, sealed payload.
pub(crate) const NOISE_RESPONSE: usize = 32 + RESPONSE_PAYLOAD + TAG;
/// Bytes of an initiation. The last of them are the MAC, and the proof that its sender is where it says, or zeros.
pub const INITIATION: usize = WORD + NOISE_INITIATION + MAC + MAC;
/// Bytes of a response.
pub const RESPONSE: usize = WORD + NOISE_RESPONSE + MAC;

/// Bytes of a cookie.
pub(crate) const COOKIE: usize = 16;
/// Bytes of the nonce of XChaCha20-Poly1305.
pub(crate) const NONCE: usize = 24;
/// Bytes of a cookie and its tag.
pub(crate) const SEALED_COOKIE: usize = COOKIE + TAG;
/// Bytes of a robot's question whether an initiation came from where it says.
pub const COOKIE_REPLY: usize = WORD + NONCE + SEALED_COOKIE;
/// Bytes of the answer to somebody who wants another service.
pub(crate) const REFUSAL: usize = WORD + NONCE + TAG;

const TYPE_INITIATION: u8 = 1;
const TYPE_RESPONSE: u8 = 2;
const TYPE_DATA: u8 = 3;
const TYPE_COOKIE_REPLY: u8 = 5;
const TYPE_REFUSAL: u8 = 6;
/// The first byte of a [`Control::Initiation`].
const INVITED: u8 = 5;

/// In the nonce: this is for the security layer itself, not for the transport inside. Being in the nonce, it cannot be
/// changed without the tag telling.
pub(crate) const CONTROL: u64 = 1 << 63;

/// Names a set of keys at the end that drew it: 24 random bits, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Index(u32);

impl Index {
    /// From 64 random bits; `None` in one case of 2²⁴.
    pub(crate) fn from_random(bits: u64) -> Option<Self> {
        Self::from_u24(bits as u32 & 0x00ff_ffff)
    }

    fn from_u24(value: u32) -> Option<Self> {
        (value != 0).then_some(Self(value))
    }

    /// The word that holds `top` in its first byte and the index in the others.
    fn with(self, top: u8) -> [u8; WORD] {
        (u32::from(top) << 24 | self.0).to_be_bytes()
    }
}

/// A datagram, looked at from outside. The handshake messages have their right length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View<'a> {
    Initiation(Initiation<'a>),
    Response { receiver: Index, noise: &'a [u8], authenticated: &'a [u8], mac: [u8; MAC] },
    Data { receiver: Index, nonce: u64, sealed: &'a [u8] },
    CookieReply { receiver: Index, nonce: [u8; NONCE], sealed: [u8; SEALED_COOKIE] },
    Refusal { receiver: Index, nonce: [u8; NONCE], tag: [u8; TAG] },
}

/// An initiation, looked at from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Initiation<'a> {
    pub(crate) sender: Index,
    pub(crate) noise: &'a [u8],
    /// All before the MAC.
    pub(crate) authenticated: &'a [u8],
    pub(crate) mac: [u8; MAC],
    /// All before the proof: copies of one initiation differ in that alone.
    pub(crate) signed: &'a [u8],
    /// That its sender was given a cookie where it is.
    pub(crate) proof: [u8; MAC],
}

impl<'a> View<'a> {
    /// # Errors
    /// [`DropCause::Malformed`] when the type is unknown, the length wrong or the index 0.
    pub(crate) fn parse(data: &'a [u8]) -> Result<Self, DropCause> {
        let malformed = DropCause::Malformed;
        let (word, rest) = data.split_first_chunk::<WORD>().ok_or(malformed)?;
        let [top, ..] = *word;
        let index = Index::from_u24(u32::from_be_bytes(*word) & 0x00ff_ffff).ok_or(malformed)?;
        match (top, data.len()) {
            (TYPE_INITIATION, INITIATION) => {
                let (signed, proof) = data.split_last_chunk::<MAC>().ok_or(malformed)?;
                let (authenticated, mac) = signed.split_last_chunk::<MAC>().ok_or(malformed)?;
                let noise = &authenticated[WORD..];
                let (sender, mac, proof) = (index, *mac, *proof);
                Ok(Self::Initiation(Initiation { sender, noise, authenticated, mac, signed, proof }))
            }
            (TYPE_RESPONSE, RESPONSE) => {
                let (authenticated, mac) = data.split_last_chunk::<MAC>().ok_or(malformed)?;
                Ok(Self::Response {
                    receiver: index,
                    noise: &authenticated[WORD..],
                    authenticated,
                    mac: *mac,
                })
            }
            (TYPE_COOKIE_REPLY, COOKIE_REPLY) => {
                let (nonce, sealed) = rest.split_first_chunk::<NONCE>().ok_or(malformed)?;
                let sealed = sealed.try_into().map_err(|_| malformed)?;
                Ok(Self::CookieReply { receiver: index, nonce: *nonce, sealed })
            }
            (TYPE_REFUSAL, REFUSAL) => {
                let (nonce, tag) = rest.split_first_chunk::<NONCE>().ok_or(malformed)?;
                let tag = tag.try_into().map_err(|_| malformed)?;
                Ok(Self::Refusal { receiver: index, nonce: *nonce, tag })
            }
            (TYPE_DATA, len) if len >= DATA_HEADER + TAG => {
                let (nonce, sealed) = rest.split_first_chunk::<8>().ok_or(malformed)?;
                Ok(Self::Data { receiver: index, nonce: u64::from_be_bytes(*nonce), sealed })
            }
            _ => Err(malformed),
        }
    }
}

/// Begins an initiation.
pub(crate) fn emit_initiation(sender: Index, out: &mut Vec<u8>) {
    out.extend(sender.with(TYPE_INITIATION));
}

/// Begins a response.
pub(crate) fn emit_response(receiver: Index, out: &mut Vec<u8>) {
    out.extend(receiver.with(TYPE_RESPONSE));
}

/// Begins a robot's question whether an initiation came from where it says.
pub(crate) fn emit_cookie_reply(receiver: Index, out: &mut Vec<u8>) {
    out.extend(receiver.with(TYPE_COOKIE_REPLY));
}

/// Begins the answer to somebody who wants another service.
pub(crate) fn emit_refusal(receiver: Index, out: &mut Vec<u8>) {
    out.extend(receiver.with(TYPE_REFUSAL));
}

/// Begins a data datagram.
pub(crate) fn emit_data(receiver: Index, nonce: u64, out: &mut Vec<u8>) {
    out.extend(receiver.with(TYPE_DATA));
    out.extend(nonce.to_be_bytes());
}

/// The plaintext of an initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Nanoseconds since 1970, or since whatever the initiator counts from; greater in every initiation of one key.
    pub(crate) timestamp: u64,
    /// The same as before: these keys continue it. Another: the initiator begins anew.
    pub(crate) conversation: u64,
}

impl Offer {
    pub(crate) fn emit(self) -> [u8; INITIATION_PAYLOAD] {
        let mut bytes = [0; INITIATION_PAYLOAD];
        bytes[..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.conversation.to_be_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: [u8; INITIATION_PAYLOAD]) -> Self {
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self { timestamp: word(0), conversation: word(8) }
    }
}

/// What the responder makes of an initiation: the first byte of a response's plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// A conversation begins.
    Begun = 0,
    /// The conversation goes on under these keys.
    Continued = 1,
    /// Another operator has the robot.
    Busy = 2,
}

/// The plaintext of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    /// By which the responder knows these keys.
    pub(crate) index: Index,
}

impl Answer {
    pub(crate) fn emit(self) -> [u8; RESPONSE_PAYLOAD] {
        self.index.with(self.verdict as u8)
    }

    /// # Errors
    /// [`DropCause::Malformed`]
    pub(crate) fn parse(bytes: [u8; RESPONSE_PAYLOAD]) -> Result<Self, DropCause> {
        let verdict = match bytes[0] {
            0 => Verdict::Begun,
            1 => Verdict::Continued,
            2 => Verdict::Busy,
            _ => return Err(DropCause::Malformed),
        };
        let index = Index::from_u24(u32::from_be_bytes(bytes) & 0x00ff_ffff);
        Ok(Self { verdict, index: index.ok_or(DropCause::Malformed)? })
    }
}

/// What the security layer says to its peer: the plaintext of a datagram whose nonce has [`CONTROL`]. A byte, and a number
/// of 64 bits or an initiation where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// Are you there? Also the first datagram under new keys, when there is nothing else to send.
    Ping,
    /// I am.
    Pong,
    /// I leave.
    Close,
    /// Are you at this address? Say this number.
    PathChallenge(u64),
    /// The number.
    PathResponse(u64),
    /// New keys, please: an initiation follows.
    Initiation,
}

impl Control {
    /// The longest.
    const MAX: usize = 9;

    /// The plaintext, and how much of it counts.
    pub(crate) fn emit(self) -> ([u8; Self::MAX], usize) {
        let (kind, number) = match self {
            Self::Ping => (0, None),
            Self::Pong => (1, None),
            Self::Close => (2, None),
            Self::PathChallenge(number) => (3, Some(number)),
            Self::PathResponse(number) => (4, Some(number)),
            Self::Initiation => (INVITED, None),
        };
        let mut bytes = [0; Self::MAX];
        bytes[0] = kind;
        bytes[1..].copy_from_slice(&number.unwrap_or(0).to_be_bytes());
        (bytes, if number.is_some() { Self::MAX } else { 1 })
    }

    /// # Errors
    /// [`DropCause::Malformed`]
    pub(crate) fn parse(plain: &[u8]) -> Result<Self, DropCause> {
        let number =
            |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).map_err(|_| DropCause::Malformed);
        match plain {
            [0] => Ok(Self::Ping),
            [1] => Ok(Self::Pong),
            [2] => Ok(Self::Close),
            [3, token @ ..] => Ok(Self::PathChallenge(number(token)?)),
            [4, token @ ..] => Ok(Self::PathResponse(number(token)?)),
            [INVITED, initiation @ ..] if initiation.len() == INITIATION => Ok(Self::Initiation),
            _ => Err(DropCause::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INDEX: Index = Index(0x0a_0b_0c);

    #[test]
    fn data_has_the_golden_header() {
        let mut bytes = Vec::new();
        emit_data(INDEX, CONTROL | 0x0102_0304_0506, &mut bytes);
        assert_eq!(bytes, [3, 0x0a, 0x0b, 0x0c, 0x80, 0, 1, 2, 3, 4, 5, 6]);
        bytes.extend([9; TAG]);
        let expected = View::Data { receiver: INDEX, nonce: CONTROL | 0x0102_0304_0506, sealed: &[9; TAG] };
        assert_eq!(View::parse(&bytes), Ok(expected));
        assert_eq!(View::parse(&bytes[..27]), Err(DropCause::Malformed));
    }

    #[test]
    fn handshake_messages_have_the_golden_layout() {
        assert_eq!((INITIATION, RESPONSE, COOKIE_REPLY), (148, 72, 60));
        let mut bytes = Vec::new();
        emit_initiation(INDEX, &mut bytes);
        assert_eq!(bytes, [1, 0x0a, 0x0b, 0x0c]);
        bytes.extend([7; NOISE_INITIATION]);
        bytes.extend([8; MAC]);
        assert_eq!(View::parse(&bytes), Err(DropCause::Malformed), "one of the first version");
        bytes.extend([9; MAC]);
        let expected = Initiation {
            sender: INDEX,
            noise: &bytes[4..116],
            authenticated: &bytes[..116],
            mac: [8; 16],
            signed: &bytes[..132],
            proof: [9; 16],
        };
        assert_eq!(View::parse(&bytes), Ok(View::Initiation(expected)));
        bytes.truncate(4);
        bytes[0] = 2;
        bytes.extend([7; NOISE_RESPONSE + MAC]);
        assert!(matches!(View::parse(&bytes), Ok(View::Response { receiver: INDEX, .. })));
        bytes.push(0);
        assert_eq!(View::parse(&bytes), Err(DropCause::Malformed));
        let mut bytes = Vec::new();
        emit_cookie_reply(INDEX, &mut bytes);
        assert_eq!(bytes, [5, 0x0a, 0x0b, 0x0c]);
        bytes.extend([[7; NONCE].as_slice(), &[8; SEALED_COOKIE]].concat());
        let expected = View::CookieReply { receiver: INDEX, nonce: [7; NONCE], sealed: [8; SEALED_COOKIE] };
        assert_eq!(View::parse(&bytes), Ok(expected));
        assert_eq!(View::parse(&bytes[..59]), Err(DropCause::Malformed));
        let mut bytes = Vec::new();
        emit_refusal(INDEX, &mut bytes);
        assert_eq!(bytes, [6, 0x0a, 0x0b, 0x0c]);
        bytes.extend([[7; NONCE].as_slice(), &[8; TAG]].concat());
        let expected = View::Refusal { receiver: INDEX, nonce: [7; NONCE], tag: [8; TAG] };
        assert_eq!(View::parse(&bytes), Ok(expected));
    }

    #[test]
    fn payloads_have_the_golden_layout() {
        let offer = Offer { timestamp: 0x0102, conversation: 0x0304_0000_0000_0000 };
        assert_eq!(offer.emit(), [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Offer::parse(offer.emit()), offer);
        let answer = Answer { verdict: Verdict::Busy, index: INDEX };
        assert_eq!(answer.emit(), [2, 0x0a, 0x0b, 0x0c]);
        assert_eq!(Answer::parse(answer.emit()), Ok(answer));
        assert_eq!(Answer::parse([3, 0, 0, 1]), Err(DropCause::Malformed));
        assert_eq!(Answer::parse([0, 0, 0, 0]), Err(DropCause::Malformed));
        assert_eq!(Control::parse(&[2]), Ok(Control::Close));
        assert_eq!(Control::parse(&[2, 2]), Err(DropCause::Malformed));
        let challenge = [3, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Control::parse(&challenge), Ok(Control::PathChallenge(0x0102_0304_0506_0708)));
        assert_eq!(Control::PathChallenge(0x0102_0304_0506_0708).emit(), (challenge, 9));
        assert_eq!(Control::PathResponse(9).emit(), ([4, 0, 0, 0, 0, 0, 0, 0, 9], 9));
        assert_eq!(Control::parse(&challenge[..8]), Err(DropCause::Malformed));
        assert_eq!(Control::Pong.emit().1, 1);
        assert_eq!(Control::Initiation.emit(), ([5, 0, 0, 0, 0, 0, 0, 0, 0], 1));
        assert_eq!(Control::parse(&[&[5][..], &[0; INITIATION]].concat()), Ok(Control::Initiation));
        assert_eq!(Control::parse(&[&[5][..], &[0; INITIATION - 1]].concat()), Err(DropCause::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = View::parse(&data);
        }
    }
}
