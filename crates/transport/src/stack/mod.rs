//! The whole of what carries a conversation: one enum of every transport, plain or under Noise, and the one place that builds one.
//!
//! A [`StackSpec`] says which transport and how it is set, a [`Side`] who opens, a [`Protection`] who the two ends are, and a
//! [`Randomness`] where its random numbers come from. The lab makes all four from a scenario and a seed, `taut-io` from its
//! configuration and the operating system; nothing else builds a transport for either.
//!
//! ```
//! use taut_core::{Rng, Seed};
//! use taut_transport::entropy::Entropy;
//! use taut_transport::identity::{Identity, Trust};
//! use taut_transport::stack::{Part, Protection, Randomness, Side, Stack, StackSpec};
//! use taut_transport::udp::UdpConfig;
//!
//! /// Of a lab: the same again for the same seed.
//! struct Seeded(Seed);
//! impl Randomness for Seeded {
//!     fn entropy(&mut self, part: Part) -> Entropy {
//!         Entropy::seeded(self.0, part.name())
//!     }
//!     fn rng(&mut self, part: Part) -> Rng {
//!         self.0.stream(part.name())
//!     }
//! }
//!
//! let (operator, robot) = (Identity::from_bytes([1; 32]), Identity::from_bytes([2; 32]));
//! let protection = Protection::new(operator, Trust::only(robot.fingerprint()));
//! let spec = StackSpec::Udp(UdpConfig::new());
//! let stack = Stack::new(spec, Side::Opens, Some(protection), Seeded(Seed::new(1)))?;
//! assert_eq!(format!("{stack:?}"), "Secured(udp)");
//! # Ok::<(), taut_transport::stack::StackError>(())
//! ```

mod ask;
mod bare;
mod counts;
mod every_path;
mod spec;
mod trouble;

use std::fmt;

use taut_core::{Protocol, Rng, Transport, dispatch_transport};

pub use self::bare::Bare;
pub use self::every_path::EveryPath;
pub use self::spec::{StackSpec, TransportKind};
pub use self::trouble::Trouble;

use crate::entropy::Entropy;
use crate::etp;
use crate::identity::{Fingerprint, Identity, Trust};
use crate::security::{Sealed, Secured, SecurityConfig};

/// One end of whatever carries a conversation.
pub enum Stack {
    /// In the clear, or a transport with a security of its own: QUIC.
    Plain(Box<Bare>),
    /// Each datagram under Noise.
    Secured(Box<Secured<Bare>>),
    /// Each message of a byte stream under Noise.
    Sealed(Box<Sealed<Bare>>),
}

impl Stack {
    /// The transport, whichever it is.
    #[inline]
    pub fn whichever(&self) -> &dyn Transport {
        match self {
            Self::Plain(bare) => bare.whichever(),
            Self::Secured(secured) => &**secured,
            Self::Sealed(sealed) => &**sealed,
        }
    }

    /// The same, to be used.
    #[inline]
    pub fn whichever_mut(&mut self) -> &mut dyn Transport {
        match self {
            Self::Plain(bare) => bare.whichever_mut(),
            Self::Secured(secured) => &mut **secured,
            Self::Sealed(sealed) => &mut **sealed,
        }
    }
}

dispatch_transport!(Stack);

taut_core::named! {
    /// Which of the two ends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Side {
        /// The operator's, which opens the connection where there is one.
        Opens = "operator",
        /// The robot's.
        Waits = "robot",
    }
}

impl Side {
    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Opens => Self::Waits,
            Self::Waits => Self::Opens,
        }
    }
}

/// Who the two ends are, and how what they say is protected: by Noise around a transport, or by QUIC itself.
#[derive(Clone, Debug)]
pub struct Protection {
    identity: Identity,
    trust: Trust,
    config: SecurityConfig,
    instance: u128,
}

impl Protection {
    /// This end is `identity`. At the end that waits, whoever is in `trust` may have it; the end that opens trusts exactly one.
    pub fn new(identity: Identity, trust: Trust) -> Self {
        Self { identity, trust, config: SecurityConfig::new(), instance: 0 }
    }

    /// How patient Noise is, since when it counts, and what the conversation is for: that also over QUIC. Whether there are
    /// several paths is known by the transport. Default [`SecurityConfig::new`].
    pub fn config(mut self, config: SecurityConfig) -> Self {
        self.config = config;
        self
    }

    /// [`QuicConfig::instance`](crate::quic::QuicConfig::instance), at the end that waits. Default 0.
    pub fn instance(mut self, number: u128) -> Self {
        self.instance = number;
        self
    }

    fn peer(&self) -> Result<Fingerprint, StackError> {
        let mut trusted = self.trust.iter();
        trusted.next().filter(|_| self.trust.len() == 1).ok_or(StackError::OnePeer)
    }
}

/// What of a stack wants random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The transport. A robot under Noise has a new one for each conversation, and asks again each time.
    Transport(TransportKind),
    /// Noise around it.
    Security,
}

impl Part {
    /// What to call its stream of random numbers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transport(kind) => kind.name(),
            Self::Security => "security",
        }
    }
}

/// Where a stack's random numbers come from: it has none of its own.
pub trait Randomness: Send {
    /// Secret ones: keys, indices, tags.
    fn entropy(&mut self, part: Part) -> Entropy;
    /// Those that need not be secret: initial sequence numbers.
    fn rng(&mut self, part: Part) -> Rng;
}

/// A stack that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// It cannot be had in the clear.
    #[error("{0} is always encrypted: choose another transport to go without")]
    AlwaysEncrypted(TransportKind),
    /// Whom an operator speaks with is not one robot.
    #[error("an operator needs the fingerprint of one robot")]
    OnePeer,
    /// Settings of ETP out of their range.
    #[error(transparent)]
    Etp(#[from] etp::ConfigError),
}

impl Stack {
    /// The end of `spec` that is at `side`. Without `protection` it is in the clear. Where the end that opens has paths of its
    /// own, they follow by [`Transport::add_path`]; with one path there is no harm in adding that.
    ///
    /// # Errors
    /// See [`StackError`].
    pub fn new(
        spec: StackSpec,
        side: Side,
        protection: Option<Protection>,
        mut randomness: impl Randomness + 'static,
    ) -> Result<Self, StackError> {
        let kind = spec.kind();
        let opened_by = |protection: &Protection| match side {
            Side::Opens => protection.peer().map(Some),
            Side::Waits => Ok(None),
        };
        let peer = protection.as_ref().map_or(Ok(None), opened_by)?;
        let Some(Protection { identity, trust, config, .. }) =
            protection.clone().filter(|_| !kind.is_always_encrypted())
        else {
            return Bare::new(spec, side, protection.as_ref(), &mut randomness).map(Self::from);
        };
        let entropy = randomness.entropy(Part::Security);
        let bare = Bare::new(spec.clone(), side, None, &mut randomness)?;
        if kind.protocol() == Protocol::Tcp {
            return Ok(Self::Sealed(Box::new(match peer {
                Some(peer) => Sealed::initiator(config, &identity, peer, entropy, bare),
                None => Sealed::responder(config, &identity, trust, entropy, bare),
            })));
        }
        let config = config.multipath(kind.is_multipath());
        Ok(Self::Secured(Box::new(match peer {
            Some(peer) => Secured::initiator(config, &identity, peer, entropy, bare),
            None => Secured::responder(config, &identity, trust, entropy, move || {
                Bare::new(spec.clone(), side, None, &mut randomness).expect("it could be made before")
            }),
        })))
    }
}

/// In the clear.
impl From<Bare> for Stack {
    fn from(bare: Bare) -> Self {
        Self::Plain(Box::new(bare))
    }
}

/// How it is protected, and which transport it is.
impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self {
            Self::Plain(_) => "Plain",
            Self::Secured(_) => "Secured",
            Self::Sealed(_) => "Sealed",
        };
        write!(f, "{how}({})", self.bare().name())
    }
}
