//! `quinn-proto`: one path, acknowledgements in every packet.

use std::any::Any;
use std::convert::identity;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quinn_proto::TransportConfig;
use quinn_proto::congestion::BbrConfig as Bbr;
use quinn_proto::crypto::HandshakeTokenKey;
use ring::hkdf;
use taut_core::{Bitrate, DropCause, Duration, Ecn, Time};

use super::{Connection, Found, Handle, Happened, Keys, Library, SUITE};
use crate::quic::clock;
use crate::quic::congestion::Congestion;
use crate::quic::crypto::{CONNECTION_ID, Lent, age, random_id};
use crate::quic::frame::FrameError;
#[cfg(feature = "qlog")]
use crate::quic::qlog::Trace;
use crate::quic::server::MAX_HANDSHAKES;
use crate::quic::stats::Counted;
use crate::quic::tls::SERVER_NAME;
use crate::quic::{DATAGRAM_BUFFER, LANES, QuicConfig};

library!(Quinn, quinn_proto, false, identity, identity, None);

fn tune(transport: &mut TransportConfig, config: &QuicConfig) {
    transport.keep_alive_interval(Some(config.keep_alive.into()));
}

#[cfg(feature = "qlog")]
fn trace_to(transport: &mut TransportConfig, trace: Box<Trace>, now: Time) {
    let mut qlog = quinn_proto::QlogConfig::default();
    qlog.writer(trace).start_time(clock::instant(now));
    transport.qlog_stream(qlog.into_stream());
}

fn token_key(secret: [u8; 32]) -> Arc<dyn HandshakeTokenKey> {
    Arc::new(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&secret))
}

fn special(_: quinn_proto::Event) -> Happened<quinn_proto::StreamId> {
    Happened::Other
}

impl Connection for quinn_proto::Connection {
    connection!(quinn_proto, 1);

    type Frames = u64;

    fn remote(&self) -> Option<SocketAddr> {
        Some(self.remote_address())
    }

    fn multipath(&mut self) -> Option<&mut noq_proto::Connection> {
        None
    }

    fn smoothed_rtt(&self) -> Option<Duration> {
        u64::try_from(self.rtt().as_nanos()).ok().map(Duration::from_nanos)
    }

    fn allowance(&self) -> (u64, Option<Bitrate>) {
        let metrics = self.congestion_state().metrics();
        (metrics.congestion_window, metrics.pacing_rate.map(Bitrate::from_bps))
    }

    fn counted(&mut self) -> Counted<Self::Frames> {
        let stats = self.stats();
        let rx = stats.frame_rx;
        let acknowledging = rx.acks + rx.ack_frequency + rx.immediate_ack;
        let data = rx.crypto + rx.datagram + rx.stream + rx.reset_stream + rx.stop_sending;
        let limits = rx.max_data + rx.max_stream_data + rx.max_streams_bidi + rx.max_streams_uni;
        let blocked =
            rx.data_blocked + rx.stream_data_blocked + rx.streams_blocked_bidi + rx.streams_blocked_uni;
        let paths =
            rx.new_connection_id + rx.retire_connection_id + rx.path_challenge + rx.path_response + rx.ping;
        let rest = rx.connection_close + rx.new_token + u64::from(rx.handshake_done);
        let frames = acknowledging + data + limits + blocked + paths + rest;
        Counted { frames, acks: rx.acks, packets_lost: stats.path.lost_packets }
    }

    fn write(&mut self, stream: Self::Stream, data: Bytes) -> usize {
        self.send_stream(stream).write_chunks(&mut [data]).map_or(0, |done| done.bytes)
    }
}
