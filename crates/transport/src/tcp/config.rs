//! How a [`Tcp`](super::Tcp) behaves.

use taut_core::{Bytes, Duration};

/// Settings of one endpoint. The defaults are what the RFCs recommend.
///
/// ```
/// use taut_transport::tcp::{CongestionControl, TcpConfig};
/// let config = TcpConfig { congestion: CongestionControl::Cubic, mss: 538, ..TcpConfig::default() };
/// assert!(config.sack);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Port in the headers sent. The driver demultiplexes: it is not compared with what arrives. Default 0.
    pub local_port: u16,
    /// The peer's port in the headers sent. Default 0.
    pub remote_port: u16,
    /// How the window grows and shrinks. Default NewReno.
    pub congestion: CongestionControl,
    /// What takes room in the window, and what is counted until an acknowledgement is due. Default bytes.
    pub counted: Counting,
    /// What the window counts while it grows. Default bytes.
    pub counting: AckCounting,
    /// Selective acknowledgements (RFC 2018) and the recovery built on them (RFC 6675), when the peer agrees.
    /// Default on.
    pub sack: bool,
    /// With SACK: losses found by the times of sending, and a probe for a tail that nothing follows (RACK-TLP, RFC 8985),
    /// and a window that falls in proportion during recovery (PRR, RFC 6937), in place of RFC 6675. Duplicates are reported
    /// (RFC 2883), and a recovery that was needless is taken back; with `timestamps` sooner (RFC 3522). A loss halves the
    /// window, not what is under way. As Linux. Not the answer to a loss that the probe itself repaired (RFC 8985 section 7.4).
    /// Default off.
    pub rack: bool,
    /// One new segment for each of the first two duplicate acknowledgements (RFC 3042). Default on.
    pub limited_transmit: bool,
    /// The window after a full acknowledgement ends NewReno's recovery. Default [`FullAck::Flight`].
    pub full_ack: FullAck,
    /// The retransmission timer while NewReno recovers. Default [`PartialAck::Impatient`].
    pub partial_ack: PartialAck,
    /// Duplicates that acknowledge no more than the last recovery did begin another one when the acknowledgement before
    /// them moved by four segments at most (RFC 6582 section 4.1). Default off: a timeout repairs such a loss.
    pub ack_heuristic: bool,
    /// Timestamps, milliseconds (RFC 7323), when the peer agrees, for 12 bytes a segment: the round trip of what went again too, and with
    /// `rack` what was late and not lost (RFC 3522). Not used to reject old duplicates. Default off.
    pub timestamps: bool,
    /// Nagle's algorithm (RFC 9293 section 3.7.4): small segments wait while anything is unacknowledged. Default off,
    /// as with `TCP_NODELAY`.
    pub nagle: bool,
    /// Bytes of data in a segment, at most; 64 to 65 495. The peer may ask for less. Default 1460.
    pub mss: u16,
    /// Initial congestion window in segments (RFC 6928), at least 1. Default 10.
    pub initial_window: u32,
    /// Initial slow start threshold in segments; `None`: as high as can be (RFC 5681 section 3.1). Default `None`.
    pub initial_ssthresh: Option<u32>,
    /// After a silence of one retransmission timeout, fall back to the initial window (RFC 5681 section 4.1).
    /// Default on.
    pub restart_after_idle: bool,
    /// Bytes that may be on their way to here, at most 1 GiB; the window scale follows from it. Also bounds what is
    /// kept out of order. Default 1 MiB.
    pub receive_window: Bytes,
    /// Bytes of messages, each with its prefix, that are neither acknowledged nor dropped. Default 1 MiB.
    pub send_buffer: Bytes,
    /// The longest message, both ways; a peer that announces a longer one is cut off. Default 1 MB.
    pub max_message: Bytes,
    /// Acknowledge every n-th full-sized segment (RFC 5681 section 4.2 wants 2 at most); at least 1. Default 2.
    pub ack_every: u32,
    /// The longest that an acknowledgement is held back; less than 500 ms (RFC 1122 section 4.2.3.2). Default 200 ms.
    pub ack_delay: Duration,
    /// Retransmission timeout before the first measurement (RFC 6298 section 2.1). Default 1 s.
    pub initial_rto: Duration,
    /// Smallest retransmission timeout. Default 1 s (RFC 6298 section 2.4); Linux has [`TcpConfig::LINUX_MIN_RTO`].
    pub min_rto: Duration,
    /// What `min_rto` is the least of. Default the whole timeout.
    pub rto_floor: RtoFloor,
    /// Largest retransmission timeout, at least 60 s (RFC 6298 section 2.5). Default 60 s.
    pub max_rto: Duration,
    /// Timeouts in a row after which the peer is given up (R2 of RFC 9293 section 3.8.3). Default 15, as Linux.
    pub max_timeouts: u32,
    /// Report `cwnd_segments`, `ssthresh_segments`, `in_recovery` and `rtt_ms` as gauges when they change.
    /// Default off; then it costs nothing.
    pub trace: bool,
}

/// How the window grows and shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "lowercase"))]
pub enum CongestionControl {
    /// Fast retransmit and fast recovery that ends with the first new acknowledgement (RFC 5681).
    Reno,
    /// Fast recovery that repairs several losses of a window (RFC 6582).
    #[default]
    NewReno,
    /// Growth that is a cubic function of the time since the last loss (RFC 9438), recovery as NewReno's.
    Cubic,
}

/// What the congestion window and delayed acknowledgements count. It matters to messages shorter than a segment; a bulk flow
/// has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Counting {
    /// Bytes, as RFC 5681 and 6675 have it. After a loss half of the bytes in flight are left, at least two full segments;
    /// an acknowledgement is due after the bytes of so many of the longest segments.
    #[default]
    Bytes,
    /// Segments, as Linux counts: a short one takes as much room as a full one. What waits for the window leaves in longer
    /// segments, so that a flow of short messages carries more bytes through the same window after a loss.
    Segments,
}

/// What the window counts while it grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckCounting {
    /// Bytes acknowledged (RFC 3465, L = 2): one segment per round trip in congestion avoidance, however many segments
    /// an acknowledgement covers.
    #[default]
    Bytes,
    /// Acknowledgements (RFC 5681 equations 2 and 3): 1/n segment per round trip when every n-th segment is
    /// acknowledged.
    Acks,
}

/// The congestion window after a full acknowledgement (RFC 6582 section 3.2 step 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum FullAck {
    /// Option 1, `min(ssthresh, max(FlightSize, SMSS) + SMSS)`: no burst.
    #[default]
    Flight,
    /// Option 2, `ssthresh`.
    Ssthresh,
}

/// What the smallest retransmission timeout is the least of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum RtoFloor {
    /// The whole timeout (RFC 6298 section 2.4).
    #[default]
    Timeout,
    /// What is above the smoothed round trip, four times its variation, as in Linux (`tcp_rtt_estimator`): over 70 ms the
    /// timeout is 270 ms, not 200.
    Variation,
}

/// Which partial acknowledgements restart the retransmission timer (RFC 6582 section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartialAck {
    /// The first of a recovery only: many losses in a window end in a timeout and slow start.
    #[default]
    Impatient,
    /// Every one: a retransmission per round trip for as long as it takes.
    SlowButSteady,
}

impl TcpConfig {
    /// `TCP_RTO_MIN` of Linux.
    pub const LINUX_MIN_RTO: Duration = Duration::from_millis(200);

    pub(super) fn rto_margin(&self) -> Duration {
        match self.rto_floor {
            RtoFloor::Timeout => Duration::ZERO,
            RtoFloor::Variation => self.min_rto,
        }
    }

    /// Panics when a value is out of its range: a broken scenario, not a peer's doing.
    pub(super) fn check(&self) {
        assert!((MIN_MSS..=65_495).contains(&self.mss), "mss {} is not in 64..=65495", self.mss);
        assert!(self.initial_window >= 1, "the initial window holds no segment");
        assert!(self.ack_every >= 1, "ack_every is 0");
        assert!(self.receive_window.get() <= 1 << 30, "receive window beyond 1 GiB (RFC 7323 section 2.3)");
        assert!(self.receive_window.get() >= u64::from(self.mss), "receive window below one segment");
        assert!(self.max_message.get() <= u64::from(u32::MAX), "max_message does not fit its prefix");
        assert!(self.min_rto <= self.max_rto, "min_rto beyond max_rto");
    }
}

/// The least that a segment carries, whatever the peer asks for.
pub(super) const MIN_MSS: u16 = 64;

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            local_port: 0,
            remote_port: 0,
            congestion: CongestionControl::default(),
            counted: Counting::default(),
            counting: AckCounting::default(),
            sack: true,
            rack: false,
            limited_transmit: true,
            full_ack: FullAck::default(),
            partial_ack: PartialAck::default(),
            ack_heuristic: false,
            timestamps: false,
            nagle: false,
            mss: 1460,
            initial_window: 10,
            initial_ssthresh: None,
            restart_after_idle: true,
            receive_window: Bytes::new(1 << 20),
            send_buffer: Bytes::new(1 << 20),
            max_message: Bytes::new(1_000_000),
            ack_every: 2,
            ack_delay: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_secs(1),
            rto_floor: RtoFloor::default(),
            max_rto: Duration::from_secs(60),
            max_timeouts: 15,
            trace: false,
        }
    }
}
