//! `noq-proto`: several paths (draft-ietf-quic-multipath).

use std::any::Any;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
#[cfg(feature = "qlog")]
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use noq_proto::congestion::Bbr3Config as Bbr;
use noq_proto::crypto::HandshakeTokenKey;
use noq_proto::{FourTuple, FrameStats, PathId, TransportConfig};
use taut_core::{Bitrate, DropCause, Duration, Ecn, Time};

use super::{Connection, Found, Handle, Happened, Keys, Library, SUITE};
use crate::quic::clock;
use crate::quic::congestion::Congestion;
use crate::quic::crypto::{CONNECTION_ID, Lent, RetryTokens, age, random_id};
use crate::quic::frame::FrameError;
#[cfg(feature = "qlog")]
use crate::quic::qlog::Trace;
use crate::quic::server::MAX_HANDSHAKES;
use crate::quic::stats::Counted;
use crate::quic::tls::SERVER_NAME;
use crate::quic::{DATAGRAM_BUFFER, LANES, MAX_PATHS, QuicConfig};

library!(Noq, noq_proto, true, FourTuple::from_remote, Arc::new);

fn tune(transport: &mut TransportConfig, config: &QuicConfig) {
    transport
        .max_concurrent_multipath_paths(MAX_PATHS as u32)
        .default_path_max_idle_timeout(Some(config.path_idle_timeout.into()))
        .default_path_keep_alive_interval(Some(config.path_keep_alive().into()));
}

#[cfg(feature = "qlog")]
fn trace_to(transport: &mut TransportConfig, trace: Box<Trace>, now: Time) {
    transport.qlog_factory(Arc::new(Once(Mutex::new(Some((trace, clock::instant(now)))))));
}

/// For the one connection that is made so.
#[cfg(feature = "qlog")]
struct Once(Mutex<Option<(Box<Trace>, std::time::Instant)>>);

#[cfg(feature = "qlog")]
impl noq_proto::QlogFactory for Once {
    fn for_connection(
        &self,
        _: noq_proto::Side,
        _: SocketAddr,
        _: noq_proto::ConnectionId,
        _: std::time::Instant,
    ) -> Option<noq_proto::QlogConfig> {
        let (trace, began) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut qlog = noq_proto::QlogConfig::new(trace);
        qlog.start_time(began);
        Some(qlog)
    }
}

fn token_key(secret: [u8; 32]) -> Arc<dyn HandshakeTokenKey> {
    Arc::new(RetryTokens::new(secret))
}

fn special(event: noq_proto::Event) -> Happened<noq_proto::StreamId> {
    match event {
        noq_proto::Event::HandshakeConfirmed => Happened::Confirmed,
        noq_proto::Event::Path(event) => Happened::Path(event),
        _ => Happened::Other,
    }
}

impl Connection for noq_proto::Connection {
    connection!(noq_proto, NonZeroUsize::MIN);

    type Frames = FrameStats;

    /// None when its first path has been abandoned.
    fn remote(&self) -> Option<SocketAddr> {
        self.network_path(PathId::ZERO).ok().map(|four| four.remote())
    }

    fn multipath(&mut self) -> Option<&mut noq_proto::Connection> {
        Some(self)
    }

    fn smoothed_rtt(&self) -> Option<Duration> {
        let fastest = self.paths().into_iter().filter_map(|path| self.rtt(path)).min()?;
        u64::try_from(fastest.as_nanos()).ok().map(Duration::from_nanos)
    }

    fn allowance(&self) -> (u64, Option<Bitrate>) {
        let states = self.paths().into_iter().filter_map(|path| self.congestion_state(path));
        let metrics = states.map(|state| state.metrics()).max_by_key(|metrics| metrics.bandwidth_estimate);
        metrics.map_or((0, None), |metrics| {
            (metrics.congestion_window, metrics.bandwidth_estimate.map(Bitrate::from_bps))
        })
    }

    fn counted(&mut self) -> Counted<Self::Frames> {
        let stats = self.stats();
        let frames = stats.frame_rx;
        Counted { acks: frames.acks + frames.path_acks, frames, packets_lost: stats.lost_packets }
    }

    fn write(&mut self, stream: Self::Stream, data: Bytes) -> usize {
        self.send_stream(stream).write_chunks(&mut &mut [data][..]).unwrap_or(0)
    }
}
