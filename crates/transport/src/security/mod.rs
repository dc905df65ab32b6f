//! Authenticated encryption for every transport but QUIC, which has its own.
//!
//! [`Secured`] seals each datagram of UDP, ETP, SCTP, DCCP and MTIP; [`Sealed`] each message of a byte stream such as TCP. Both
//! run one handshake, Noise IK, between identities that know each other by [`Fingerprint`](crate::identity::Fingerprint).
//! The shape of it follows WireGuard (Donenfeld, *WireGuard: Next Generation Kernel Network Tunnel*, NDSS 2017): keys are
//! named by indices, nonces are explicit, an initiation carries a time that only grows, and new keys take over with the
//! first authentic datagram under them.
//!
//! # On the wire
//!
//! | datagram | bytes | what is in it |
//! | --- | --- | --- |
//! | initiation | 132 | type 1, sender's index 3, ephemeral key 32, static key 32 + 16, time 8 and conversation 8 + 16, MAC 16 |
//! | response | 72 | type 1, receiver's index 3, ephemeral key 32, verdict 1 and index 3 + 16, MAC 16 |
//! | data | 28 + n | type 1, receiver's index 3, nonce 8, ciphertext n, tag 16 |
//! | request for new keys | 161 | data that holds a byte and an initiation |
//! | message of a stream | 19 + n | type 1, low bits of the nonce 2, ciphertext n, tag 16 |
//!
//! All big-endian. Noise seals with no associated data; the index and the type choose the keys and the nonce, which the
//! tag covers, and whether a datagram is the layer's own is a bit of the nonce. The cipher is ChaCha20-Poly1305: on a
//! processor with AES instructions AES-256-GCM is 8 % faster for 75 bytes, on one without it is several times slower.
//!
//! # What is promised
//!
//! - Whoever is not trusted learns nothing and changes nothing. What they send costs the robot a MAC, or, from who
//!   knows the robot's public key, two operations on the curve, at most
//!   [`handshakes_per_second`](SecurityConfig::handshakes_per_second) times a second. There is no defence against a
//!   flood by those that starves the handshakes of newcomers; a session in progress does not notice one, because it asks for new
//!   keys under those that it has.
//! - A datagram is taken once, up to [`REPLAY_WINDOW`] behind the newest.
//! - A replayed initiation changes nothing: the robot remembers each operator's greatest time. After a restart it has
//!   forgotten, answers a replay once, and no keys come of it.
//! - Keys are replaced after [`rekey_after`](SecurityConfig::rekey_after), used for thirty times as long at most, and
//!   forgotten one handshake later, so that a stolen secret does not open what was recorded (forward secrecy; for an
//!   initiation itself, only against the theft of the operator's secret, as with every IK).
//! - The robot serves one operator at a time. Another, though trusted, is told that the robot is busy until the first
//!   closes or says nothing for [`silence`](SecurityConfig::silence). The same operator may begin anew after
//!   [half of that](SecurityConfig::returns_after): one that is started twice does not oust itself.
//! - An authentic datagram from another path, the newest so far, is taken, and the peer asked whether it is there. It is sent
//!   to there when it has answered there (as RFC 9000 section 8.2, but that nothing goes before): someone on the way who
//!   forwards datagrams faster than the path itself attracts no answers.
//! - With [`multipath`](SecurityConfig::multipath) nothing is even taken from an address before that.

mod config;
mod cookie;
mod header;
mod noise;
mod sealed;
mod secured;

pub use crate::window::REPLAY_WINDOW;
pub use config::SecurityConfig;
pub use header::{
    COOKIE_REPLY as COOKIE_REPLY_BYTES, INITIATION as INITIATION_BYTES, RESPONSE as RESPONSE_BYTES,
};
pub use sealed::{Reception, Sealed, SealedStats};
pub use secured::{Secured, SecuredStats};
