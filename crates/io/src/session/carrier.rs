//! Whatever carries a session: a stack over sockets of ours, or the kernel's TCP.

use std::fmt;

use taut_agent::{Conversation, Refused, Trouble};
use taut_core::{
    Bitrate, Datagram, Deadline, Duration, Event, Message, PathId, SendError, Time, Transmit, Transport,
    Waiting, dispatch_transport,
};
use taut_transport::mtip::ChoiceReport;
use taut_transport::security::Sealed;
use taut_transport::stack::Stack;

use crate::tcp::{Acceptor, KernelTcp};

/// One end of whatever carries a session over real sockets.
pub enum Carrier {
    /// A transport of `taut-transport`.
    Stack(Stack),
    /// The kernel's TCP, its messages under Noise: an operator's.
    Tcp(Box<Sealed<KernelTcp>>),
    /// The same, a robot's.
    TcpAcceptor(Box<Acceptor>),
    /// The kernel's TCP in the clear: for the lab.
    PlainTcp(Box<KernelTcp>),
    /// None, between two conversations.
    Absent(Absent),
}

/// Takes nothing, and has nothing to tell.
#[derive(Debug)]
pub struct Absent;

impl Carrier {
    /// Between two conversations.
    pub(crate) const ABSENT: Self = Self::Absent(Absent);

    #[inline]
    fn whichever(&self) -> &dyn Transport {
        match self {
            Self::Stack(stack) => stack.whichever(),
            Self::Tcp(transport) => &**transport,
            Self::TcpAcceptor(transport) => &**transport,
            Self::PlainTcp(transport) => &**transport,
            Self::Absent(transport) => transport,
        }
    }

    #[inline]
    fn whichever_mut(&mut self) -> &mut dyn Transport {
        match self {
            Self::Stack(stack) => stack.whichever_mut(),
            Self::Tcp(transport) => &mut **transport,
            Self::TcpAcceptor(transport) => &mut **transport,
            Self::PlainTcp(transport) => &mut **transport,
            Self::Absent(transport) => transport,
        }
    }

    /// Does it begin a new connection for each conversation, of which no port remembers anything?
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::TcpAcceptor(_) | Self::PlainTcp(_))
    }

    /// After a conversation has ended, does this very transport wait for the next one? Otherwise it needs a new one.
    pub(crate) fn serves_again(&self) -> bool {
        match self {
            Self::Stack(stack) => stack.serves_again(),
            Self::TcpAcceptor(acceptor) => acceptor.is_listening(),
            Self::PlainTcp(tcp) => tcp.is_listening(),
            Self::Tcp(_) | Self::Absent(_) => false,
        }
    }

    /// Has the next conversation begun already?
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Stack(stack) if stack.is_open())
    }
}

impl Conversation for Carrier {
    fn wakes_early(&self) -> bool {
        true
    }

    fn lingers(&self) -> bool {
        match self {
            Self::Stack(stack) => stack.lingers(),
            other => other.poll_timeout().is_some(),
        }
    }

    fn trouble(&self) -> Trouble {
        match self {
            Self::Stack(stack) => stack.trouble(),
            Self::Tcp(sealed) if sealed.inner().stats().connections == 0 => Trouble::Unreachable,
            Self::Tcp(sealed) => sealed.stats().into(),
            Self::PlainTcp(tcp) if tcp.stats().connections == 0 => Trouble::Unreachable,
            Self::PlainTcp(_) => Trouble::Busy,
            Self::TcpAcceptor(_) | Self::Absent(_) => Trouble::NoAnswer,
        }
    }

    /// QUIC does not ask whether it is trusted.
    fn busy(&self) -> u64 {
        match self {
            Self::Stack(stack) => stack.busy(),
            Self::TcpAcceptor(acceptor) => acceptor.busy(),
            _ => 0,
        }
    }

    fn take_stranger(&mut self) -> Option<Refused> {
        match self {
            Self::TcpAcceptor(acceptor) => {
                let (address, key) = acceptor.take_stranger()?;
                Some(Refused { path: None, address: Some(address), key })
            }
            Self::Stack(stack) => Conversation::take_stranger(stack),
            Self::Tcp(_) | Self::PlainTcp(_) | Self::Absent(_) => None,
        }
    }

    fn choices(&self) -> Option<ChoiceReport> {
        match self {
            Self::Stack(stack) => stack.choices(),
            _ => None,
        }
    }

    fn copies(&self) -> Option<(u64, u64)> {
        match self {
            Self::Stack(stack) => stack.copies(),
            _ => None,
        }
    }

    fn stream_bytes(&self) -> Option<(u64, u64)> {
        // What the kernel's TCP was given and gave, no port counts.
        let stats = match self {
            Self::Tcp(sealed) => sealed.inner().stats(),
            Self::TcpAcceptor(acceptor) => return Some(acceptor.stream_bytes()),
            Self::PlainTcp(tcp) => tcp.stats(),
            _ => return None,
        };
        Some((stats.bytes_sent, stats.bytes_received))
    }
}

dispatch_transport!(Carrier);

impl Transport for Absent {
    fn send(&mut self, _: Time, _: Message) -> Result<(), SendError> {
        Err(SendError::Closed)
    }
    fn handle_input(&mut self, _: Time, _: Datagram<'_>) {}
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, _: &mut Vec<u8>) -> Option<Transmit> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
    fn close(&mut self, _: Time) {}
    taut_core::ignores_paths!();
    fn uses_path(&self, _: PathId) -> bool {
        false
    }
    fn round_trip(&self) -> Option<Duration> {
        None
    }
    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    fn delivered(&self) -> Option<u64> {
        None
    }

    fn waiting(&self) -> Waiting {
        Waiting::Nothing
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stack(stack) => stack.fmt(f),
            Self::Tcp(_) => f.write_str("Tcp"),
            Self::TcpAcceptor(_) => f.write_str("TcpAcceptor"),
            Self::PlainTcp(_) => f.write_str("PlainTcp"),
            Self::Absent(_) => f.write_str("Absent"),
        }
    }
}
