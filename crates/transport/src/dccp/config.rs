//! What can be chosen, and within which bounds.

use taut_core::{Bytes, Duration};

use crate::udp::MAX_DATAGRAM;

/// Bytes of the longest header in front of data, its acknowledgement and NDP Count included, and of the prefix.
pub(super) const OVERHEAD: u64 = 24 + 8 + PREFIX as u64;
/// Bytes of the stream's number in front of every message.
pub const PREFIX: usize = 4;
/// The longest payload that passes Ethernet unfragmented under IPv4 and UDP: 1500 − 20 − 8 bytes.
const ETHERNET_PAYLOAD: Bytes = Bytes::new(1_472);

/// A congestion control profile (RFC 4340 section 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ccid {
    /// TCP-like (RFC 4341): a window that halves once for each window with a loss. Takes up capacity quickly, in bursts.
    TcpLike = 2,
    /// TFRC (RFC 4342, RFC 5348): a rate from an equation. Smooth, slow to take up capacity.
    Tfrc = 3,
}

/// Settings of a [`Dccp`](super::Dccp).
///
/// ```
/// use taut_core::Duration;
/// use taut_transport::dccp::{Ccid, DccpConfig};
/// let config = DccpConfig::new().ccids(&[Ccid::Tfrc, Ccid::TcpLike])?.min_rto(Duration::from_millis(100));
/// # let _ = config;
/// # Ok::<(), taut_transport::dccp::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DccpConfig {
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    pub(super) service: u32,
    pub(super) ccids: Vec<Ccid>,
    pub(super) sequence_window: u64,
    pub(super) ecn: bool,
    pub(super) max_datagram: Bytes,
    pub(super) queue: usize,
    pub(super) samples: usize,
    pub(super) delayed_ack: Duration,
    pub(super) min_rto: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) time_wait: Duration,
    pub(super) server_keeps_time_wait: bool,
}

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing to choose from, or a profile is named twice.
    #[error("the profiles must be one or two different ones")]
    Ccids,
    /// The window of valid sequence numbers.
    #[error("a sequence window of {0} is not between 32 and 65536")]
    SequenceWindow(u64),
    /// The datagram is too long for UDP, or has no room for a message.
    #[error("a datagram of {0} is not between 576B and {MAX_DATAGRAM}")]
    MaxDatagram(Bytes),
    /// Nothing can wait.
    #[error("the queue holds no message")]
    Queue,
}

impl Default for DccpConfig {
    fn default() -> Self {
        Self {
            local_port: 6511,
            remote_port: 6511,
            service: u32::from_be_bytes(*b"taut"),
            ccids: vec![Ccid::TcpLike, Ccid::Tfrc],
            sequence_window: 10_000,
            ecn: true,
            max_datagram: ETHERNET_PAYLOAD,
            queue: 64,
            samples: 2,
            delayed_ack: Duration::from_millis(20),
            min_rto: Duration::from_millis(200),
            connect_timeout: Duration::from_secs(180),
            time_wait: Duration::from_secs(240),
            server_keeps_time_wait: false,
        }
    }
}

impl DccpConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The DCCP ports of this end and of the other, in the DCCP header; over UDP they have nothing to do with UDP's (RFC
    /// 6773 section 3.8). Default 6511 both. A server takes its client's port from the Request and ignores `remote`.
    pub fn ports(mut self, local: u16, remote: u16) -> Self {
        (self.local_port, self.remote_port) = (local, remote);
        self
    }

    /// Which service is asked for, or offered (RFC 4340 section 8.1.2). Default the bytes `taut`. Both ends must agree.
    pub fn service(mut self, code: u32) -> Self {
        self.service = code;
        self
    }

    /// Which profiles this end accepts for both directions, the preferred one first. Default TCP-like, then TFRC. The
    /// server's preference decides (RFC 4340 section 6.3.1).
    ///
    /// # Errors
    /// [`ConfigError::Ccids`] when there is none, or one is named twice.
    pub fn ccids(mut self, preference: &[Ccid]) -> Result<Self, ConfigError> {
        match preference {
            [_] => {}
            [first, second] if first != second => {}
            _ => return Err(ConfigError::Ccids),
        }
        self.ccids = preference.to_vec();
        Ok(self)
    }

    /// How many sequence numbers are valid at a time for what this end sends (RFC 4340 section 7.5.2). Default 10 000; 32
    /// to 65536. About five times the packets of a round trip; a wider window is easier to hit for whoever guesses.
    ///
    /// # Errors
    /// [`ConfigError::SequenceWindow`] outside the range.
    pub fn sequence_window(mut self, packets: u64) -> Result<Self, ConfigError> {
        if !(32..=65_536).contains(&packets) {
            return Err(ConfigError::SequenceWindow(packets));
        }
        self.sequence_window = packets;
        Ok(self)
    }

    /// Whether this end can read congestion marks, and lets the peer send packets that may be marked. Default on. Off,
    /// queues that mark will drop instead.
    pub fn ecn(mut self, on: bool) -> Self {
        self.ecn = on;
        self
    }

    /// The longest DCCP packet sent and accepted, from the DCCP header on: the payload of a UDP datagram, or of an IP
    /// packet. Default 1472 B, which passes Ethernet over UDP; 576 B to 65479 B. 36 bytes of it are not the message's.
    ///
    /// # Errors
    /// [`ConfigError::MaxDatagram`] outside the range.
    pub fn max_datagram(mut self, bytes: Bytes) -> Result<Self, ConfigError> {
        if !(Bytes::new(576)..=MAX_DATAGRAM).contains(&bytes) {
            return Err(ConfigError::MaxDatagram(bytes));
        }
        self.max_datagram = bytes;
        Ok(self)
    }

    /// How many messages wait at most while congestion control holds them back, and how many of them may be samples of
    /// one stream, series and priority. Parts of something longer (unreliable, of a priority beyond samples', of no series) and emergencies
    /// (priority 0) are no samples here. Default 64 and 2; at least 1 each. Of samples the newest counts: they are as old when they go as so many samples take to be made.
    ///
    /// # Errors
    /// [`ConfigError::Queue`] when one of them is 0.
    pub fn queue(mut self, messages: usize, samples: usize) -> Result<Self, ConfigError> {
        if messages == 0 || samples == 0 {
            return Err(ConfigError::Queue);
        }
        (self.queue, self.samples) = (messages, samples);
        Ok(self)
    }

    /// How long an acknowledgement may wait for more data under the TCP-like profile. Default 20 ms.
    pub fn delayed_ack(mut self, duration: Duration) -> Self {
        self.delayed_ack = duration;
        self
    }

    /// The least time without acknowledgement after which the TCP-like profile starts over. Default 200 ms; RFC 4341
    /// section 5 asks for no minimum. Shorter recovers sooner from a burst of losses and starts over needlessly where
    /// the round trip varies by as much.
    pub fn min_rto(mut self, duration: Duration) -> Self {
        self.min_rto = duration;
        self
    }

    /// How long a client tries to connect, either end waits for a handshake to complete, or for a goodbye to be answered.
    /// Default 3 minutes (RFC 4340 section 8.1.1).
    pub fn connect_timeout(mut self, duration: Duration) -> Self {
        self.connect_timeout = duration;
        self
    }

    /// How long an end that received the Reset answers stray packets of the connection: 2 MSL. Default 4 minutes (RFC
    /// 4340 section 8.3).
    pub fn time_wait(mut self, duration: Duration) -> Self {
        self.time_wait = duration;
        self
    }

    /// A server that closes asks its client to close first (CloseReq), so that the client keeps the state of TIMEWAIT.
    /// On, it closes by itself. Default off.
    pub fn server_keeps_time_wait(mut self, on: bool) -> Self {
        self.server_keeps_time_wait = on;
        self
    }

    /// The longest message.
    pub(super) fn limit(&self) -> usize {
        (self.max_datagram.get() - OVERHEAD) as usize
    }
}
