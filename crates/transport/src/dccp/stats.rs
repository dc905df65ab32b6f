//! What went through a connection.

use taut_core::{Bitrate, Duration};

use super::config::Ccid;

/// What went through a [`Dccp`](super::Dccp), and what it knows of the path. `offered = sent + superseded + too_late +
/// abandoned +` what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DccpStats {
    /// Messages taken by `send`.
    pub offered: u64,
    /// Messages sent, once each.
    pub sent: u64,
    /// Messages dropped because the queue was full.
    pub superseded: u64,
    /// Messages dropped because they were older than their deadline when it was their turn.
    pub too_late: u64,
    /// Messages dropped because the connection ended.
    pub abandoned: u64,
    /// Messages that wait.
    pub waiting: u64,
    /// Messages received.
    pub received: u64,
    /// Packets sent, of every type.
    pub packets_sent: u64,
    /// Packets without data that were sent to acknowledge or to negotiate.
    pub acks_sent: u64,
    /// Syncs sent, because a packet's number did not fit.
    pub syncs_sent: u64,
    /// Packets refused because they are not DCCP's, or not of this connection.
    pub malformed: u64,
    /// Packets refused because their numbers did not fit, or they came from elsewhere.
    pub invalid: u64,
    /// Packets refused because they had come before.
    pub duplicates: u64,
    /// Packets received with Congestion Experienced.
    pub marked: u64,
    /// Messages that the profile took for lost; the TCP-like one only, which is told of every packet.
    pub lost: u64,
    /// Congestion events: times that the window was halved, or loss events that were reported.
    pub congestion_events: u64,
    /// Times that nothing was heard of the peer for as long as the profile waits.
    pub timeouts: u64,
    /// Data that arrived at the peer and that it says its application did not get.
    pub data_dropped: u64,
    /// The profile that this end's messages go by; `None` before the connection is there.
    pub ccid: Option<Ccid>,
    /// Smoothed round trip; `None` before it was measured.
    pub rtt: Option<Duration>,
    /// The congestion window in packets, of the TCP-like profile.
    pub cwnd: Option<u64>,
    /// The rate allowed to messages with their prefix, of TFRC.
    pub allowed_rate: Option<Bitrate>,
    /// Loss event rate of what arrives here, a fraction in [0, 1], of TFRC.
    pub loss_event_rate: Option<f64>,
}
