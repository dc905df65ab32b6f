//! What can be chosen about a multipath QUIC connection.

use std::sync::Arc;

use noq_proto::congestion::NewRenoConfig;
use noq_proto::{IdleTimeout, TransportConfig, VarInt};
use taut_core::{Bytes, Duration};

use super::{DATAGRAM_BUFFER, LANES, MAX_DATAGRAM, MAX_PATHS};
use crate::quic::clock::std_duration;
use crate::service::Service;

/// What the paths are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathUse {
    /// The first one carries everything, the others wait: what the protocol has by itself (PATH_STATUS_AVAILABLE and
    /// PATH_STATUS_BACKUP).
    #[default]
    FailOver,
    /// Every sample goes over every path, and the receiver takes the first copy. Reliable messages go once.
    Duplicate,
}

/// Choices for an [`MpQuic`](super::MpQuic). Both sides may choose differently but for `max_message`.
#[derive(Clone, Copy, Debug)]
pub struct MpQuicConfig {
    pub(super) path_use: PathUse,
    pub(super) max_message: Bytes,
    pub(super) queue: usize,
    pub(super) send_buffer: Bytes,
    pub(super) idle_timeout: Duration,
    pub(super) path_idle_timeout: Duration,
    pub(super) keep_alive: Duration,
    pub(super) reopen: Duration,
    pub(super) initial_rtt: Duration,
    pub(super) service: Service,
    pub(super) instance: u128,
}

impl Default for MpQuicConfig {
    fn default() -> Self {
        Self {
            path_use: PathUse::FailOver,
            max_message: Bytes::new(1 << 18),
            queue: 64,
            send_buffer: Bytes::new(1 << 19),
            idle_timeout: Duration::from_secs(5),
            path_idle_timeout: Duration::from_millis(500),
            keep_alive: Duration::from_millis(100),
            reopen: Duration::from_secs(1),
            initial_rtt: Duration::from_millis(100),
            service: Service::Session,
            instance: 0,
        }
    }
}

impl MpQuicConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the paths are for. Default [`PathUse::FailOver`].
    pub fn path_use(mut self, path_use: PathUse) -> Self {
        self.path_use = path_use;
        self
    }

    /// The longest reliable message, sent or accepted. Default 256 KiB; from 1 B to 16 MiB. An unreliable one has to
    /// fit into a datagram, see [`MpQuic::max_unreliable`](super::MpQuic::max_unreliable).
    pub fn max_message(mut self, bytes: Bytes) -> Self {
        self.max_message = bytes.clamp(Bytes::new(1), Bytes::new(1 << 24));
        self
    }

    /// How many unreliable messages wait at most; the oldest of the least urgent is superseded. Default 64; at least 1.
    pub fn queue(mut self, messages: usize) -> Self {
        self.queue = messages.max(1);
        self
    }

    /// After how long a silence on every path the connection is given up. Default 5 s; from 100 ms to 10 min.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout.clamp(Duration::from_millis(100), Duration::from_secs(600));
        self
    }

    /// After how long a silence on one path it is abandoned, and another one takes over. Default 500 ms; from 20 ms to
    /// 1 min. It is at least three probe timeouts (RFC 9000 section 10.1), and should be several keep-alive intervals.
    pub fn path_idle_timeout(mut self, timeout: Duration) -> Self {
        self.path_idle_timeout = timeout.clamp(Duration::from_millis(20), Duration::from_secs(60));
        self
    }

    /// How often each path is pinged, by both sides: a path that only one of them pings dies of silence. Default 100 ms;
    /// from 5 ms to 1 min.
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval.clamp(Duration::from_millis(5), Duration::from_secs(60));
        self
    }

    /// Client: how long after a path was abandoned it is opened anew. Default 1 s; from 10 ms to 1 min.
    pub fn reopen(mut self, after: Duration) -> Self {
        self.reopen = after.clamp(Duration::from_millis(10), Duration::from_secs(60));
        self
    }

    /// The round trip that is assumed before one was measured. Default 100 ms; from 1 ms to 5 s.
    pub fn initial_rtt(mut self, rtt: Duration) -> Self {
        self.initial_rtt = rtt.clamp(Duration::from_millis(1), Duration::from_secs(5));
        self
    }

    /// As [`QuicConfig::service`](crate::quic::QuicConfig::service).
    pub fn service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// As [`QuicConfig::instance`](crate::quic::QuicConfig::instance).
    pub fn instance(mut self, number: u128) -> Self {
        self.instance = number;
        self
    }

    /// noq's half of it.
    pub(super) fn transport(&self) -> Arc<TransportConfig> {
        let integer = |value: u64| VarInt::from_u64(value).expect("within limits");
        let window = self.max_message.get().max(1 << 18);
        let idle = IdleTimeout::try_from(std_duration(self.idle_timeout)).expect("within limits");
        let mut transport = TransportConfig::default();
        transport
            // CUBIC computes with the system's `cbrt`; for small messages at a steady pace the two are alike.
            .congestion_controller_factory(Arc::new(NewRenoConfig::default()))
            .max_concurrent_multipath_paths(MAX_PATHS as u32)
            .default_path_max_idle_timeout(Some(std_duration(self.path_idle_timeout)))
            .default_path_keep_alive_interval(Some(std_duration(self.keep_alive)))
            .max_idle_timeout(Some(idle))
            .initial_rtt(std_duration(self.initial_rtt))
            .initial_mtu(MAX_DATAGRAM)
            .min_mtu(MAX_DATAGRAM)
            .mtu_discovery_config(None)
            .enable_segmentation_offload(false)
            .max_concurrent_uni_streams(u32::from(LANES).into())
            .max_concurrent_bidi_streams(0_u32.into())
            .stream_receive_window(integer(window))
            .receive_window(integer(window * 2))
            .send_window(self.send_buffer.get().max(window))
            .datagram_receive_buffer_size(Some(1 << 16))
            .datagram_send_buffer_size(DATAGRAM_BUFFER)
            .allow_spin(false);
        Arc::new(transport)
    }
}
