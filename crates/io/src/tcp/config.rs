//! How kernel TCP is used.

use taut_core::{Bytes, Duration};

/// Settings of a [`KernelTcp`](super::KernelTcp). `TCP_NODELAY` is always on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTcpConfig {
    pub(super) queue: Bytes,
    pub(super) max_message: Bytes,
    pub(super) not_sent: Bytes,
    pub(super) send_buffer: Bytes,
    pub(super) user_timeout: Duration,
    pub(super) first_message: Duration,
    pub(super) quick_ack: bool,
    pub(super) dscp: u8,
    pub(super) congestion: Option<&'static str>,
    pub(super) multipath: bool,
}

impl Default for KernelTcpConfig {
    fn default() -> Self {
        Self {
            queue: Bytes::new(1_000_000),
            max_message: Bytes::new(1_000_000),
            not_sent: Bytes::new(1),
            send_buffer: Bytes::new(262_144),
            user_timeout: Duration::from_secs(5),
            first_message: Duration::from_secs(2),
            quick_ack: false,
            dscp: 0,
            congestion: None,
            multipath: false,
        }
    }
}

impl KernelTcpConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of messages, their length prefixes included, that wait here for the kernel. Default 1 MB. Messages of
    /// priority 0 may have a tenth more.
    pub fn queue(mut self, bytes: Bytes) -> Self {
        self.queue = bytes;
        self
    }

    /// The longest message, both ways. Default 1 MB; a [sealed](taut_transport::security::Sealed) one has 65519 B at most. A peer that announces a longer one is cut off. A message is never
    /// interrupted by a more urgent one: who wants urgent messages fast keeps all of them short.
    pub fn max_message(mut self, bytes: Bytes) -> Self {
        self.max_message = bytes;
        self
    }

    /// The kernel takes more only while less than this waits in it unsent (`TCP_NOTSENT_LOWAT`, tcp(7), and `SIOCOUTQNSD`); at least 1 B. Default
    /// 1 B: a message goes when it can be sent, and an emergency at once. What the kernel has, no urgent message overtakes, and no newer one replaces. It
    /// costs a bulk flow a wake-up for each packet or two. Before Linux 5.18 the kernel may tell of room with the next acknowledgement only. Multipath TCP has 4096 B at
    /// least.
    pub fn not_sent(mut self, bytes: Bytes) -> Self {
        self.not_sent = bytes.max(Bytes::new(1));
        self
    }

    /// `SO_SNDBUF`: bytes that may be on their way, sent or not, as the kernel counts (twice, with its own overhead).
    /// Default 256 KiB: at 100 ms round trip some 10 Mbit/s.
    pub fn send_buffer(mut self, bytes: Bytes) -> Self {
        self.send_buffer = bytes;
        self
    }

    /// `TCP_USER_TIMEOUT` (RFC 5482): the connection ends when what was sent stays unacknowledged for so long. Default
    /// 5 s; whole milliseconds; zero: the system's, some 15 minutes.
    pub fn user_timeout(mut self, duration: Duration) -> Self {
        self.user_timeout = duration;
        self
    }

    /// A server sends a peer away whose first message is not there after so long. Default 2 s.
    pub fn first_message(mut self, duration: Duration) -> Self {
        self.first_message = duration;
        self
    }

    /// `TCP_QUICKACK` (tcp(7)): acknowledge at once, not up to 40 ms later. Default off. Costs a system call for every
    /// time that something was read, since the kernel forgets it, and a packet for every segment. It helps a peer that
    /// waits for acknowledgements: one with a small window.
    pub fn quick_ack(mut self, on: bool) -> Self {
        self.quick_ack = on;
        self
    }

    /// Differentiated services code point of what is sent (RFC 2474), 0 to 63. Default 0.
    pub fn dscp(mut self, code_point: u8) -> Self {
        self.dscp = code_point & 0x3f;
        self
    }

    /// `TCP_CONGESTION` (tcp(7)): `"reno"`, `"cubic"`, `"bbr"`, as `net.ipv4.tcp_available_congestion_control` lists
    /// them; those that `net.ipv4.tcp_allowed_congestion_control` does not list need `CAP_NET_ADMIN`. Default: the host's,
    /// `net.ipv4.tcp_congestion_control`.
    pub fn congestion(mut self, name: &'static str) -> Self {
        self.congestion = Some(name);
        self
    }

    /// Multipath TCP (RFC 8684) in place of TCP: `IPPROTO_MPTCP`. Which addresses have subflows is the host's business
    /// (`ip mptcp`, ip-mptcp(8)). Options that the kernel has for plain TCP only are left out. Default off.
    pub fn multipath(mut self, on: bool) -> Self {
        self.multipath = on;
        self
    }
}
