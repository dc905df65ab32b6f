//! What drivers and their users ask of a stack, whichever transport it is.

use taut_core::{Bytes, Choice, IPV4_HEADER, Protocol, Transport, UDP_HEADER};

use super::{Bare, Stack, Trouble};
use crate::mtip::ChoiceReport;
use crate::security::{Sealed, Secured};
use crate::stranger::Stranger;

impl Stack {
    /// The transport, under whatever protects it.
    pub fn bare(&self) -> &Bare {
        match self {
            Self::Plain(bare) => bare,
            Self::Secured(secured) => secured.inner(),
            Self::Sealed(sealed) => sealed.inner(),
        }
    }

    /// What the IP header names.
    pub fn protocol(&self) -> Protocol {
        self.bare().protocol()
    }

    /// Of the headers that the driver adds to a datagram: a model of TCP writes its own.
    pub fn headers(&self) -> Bytes {
        match self.protocol() {
            Protocol::Udp => Bytes::new(IPV4_HEADER + UDP_HEADER),
            Protocol::Tcp | Protocol::Dccp => Bytes::new(IPV4_HEADER),
        }
    }

    /// Bytes on the wire around a message that travels alone, at most.
    pub fn overhead(&self) -> Bytes {
        let around = match self {
            Self::Plain(_) => Bytes::ZERO,
            Self::Secured(_) => Secured::<Bare>::OVERHEAD,
            Self::Sealed(_) => Sealed::<Bare>::OVERHEAD,
        };
        self.bare().overhead() + around
    }

    /// Does it choose paths by deadlines? Then it is to be told the deadline of each message.
    pub fn keeps_deadlines(&self) -> bool {
        matches!(self.bare(), Bare::Mtip(_))
    }

    /// After a conversation has ended, does this very end wait for the next one? Otherwise it needs a new one.
    pub fn serves_again(&self) -> bool {
        matches!(self, Self::Secured(secured) if secured.serves_again())
    }

    /// Under Noise: are there keys? After a conversation has ended, then the next one has begun already.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Secured(secured) if secured.is_open())
    }

    /// Is a goodbye still on its way? QUIC's has left at once.
    pub fn lingers(&self) -> bool {
        !matches!(self.bare(), Bare::Quic(_) | Bare::Mpquic(_)) && self.poll_timeout().is_some()
    }

    /// What stands in the way. At the operator's end; the robot's looks at its counters.
    pub fn trouble(&self) -> Trouble {
        let reason = match self.bare() {
            Bare::Quic(quic) => quic.close_reason(),
            Bare::Mpquic(quic) => quic.close_reason(),
            _ => None,
        };
        match self {
            Self::Plain(_) => reason.map_or(Trouble::NoAnswer, Trouble::from),
            Self::Secured(secured) if secured.is_turned_away() => Trouble::Busy,
            Self::Secured(secured) => secured.stats().into(),
            Self::Sealed(sealed) => sealed.stats().into(),
        }
    }

    /// At the robot: how often an operator was sent away because there is another one. QUIC does not ask whether it is trusted.
    pub fn busy(&self) -> u64 {
        match self {
            Self::Secured(secured) => secured.stats().busy,
            Self::Sealed(sealed) => sealed.stats().busy,
            Self::Plain(bare) => match &**bare {
                Bare::Quic(quic) => quic.busy(),
                Bare::Mpquic(quic) => quic.busy(),
                _ => 0,
            },
        }
    }

    /// At the robot: the last who was refused since this was asked last. Of a byte stream, whoever accepted it knows.
    pub fn take_stranger(&mut self) -> Option<Stranger> {
        match self {
            Self::Secured(secured) => secured.take_stranger(),
            Self::Sealed(_) => None,
            Self::Plain(bare) => match &mut **bare {
                Bare::Quic(quic) => quic.take_stranger(),
                Bare::Mpquic(quic) => quic.take_stranger(),
                _ => None,
            },
        }
    }

    /// How messages were spread over paths and why, in the conversation at hand; `None` but for MTIP.
    pub fn choices(&self) -> Option<ChoiceReport> {
        match self.bare() {
            Bare::Mtip(mtip) => Some(mtip.choice_report()),
            _ => None,
        }
    }

    /// The oldest choice of paths that was not read yet, where they are kept
    /// ([`MtipConfig::explain`](crate::mtip::MtipConfig::explain)) and in the clear.
    pub fn poll_choice(&mut self) -> Option<Choice> {
        match self {
            Self::Plain(bare) => match &mut **bare {
                Bare::Mtip(mtip) => mtip.poll_choice(),
                _ => None,
            },
            _ => None,
        }
    }
}
