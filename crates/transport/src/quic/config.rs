//! What can be chosen about a QUIC connection.

use std::sync::Arc;

use quinn_proto::{AckFrequencyConfig, IdleTimeout, TransportConfig, VarInt};
use taut_core::{Bytes, Duration};

use super::LANES;
use super::clock::std_duration;
use super::congestion::Congestion;
use super::tls::Resumption;
use crate::service::Service;

/// Choices for a [`Quic`](super::Quic). Both sides may choose differently but for `max_message`.
#[derive(Clone, Debug)]
pub struct QuicConfig {
    pub(super) congestion: Congestion,
    pub(super) max_datagram: Bytes,
    pub(super) max_message: Bytes,
    pub(super) queue: usize,
    pub(super) send_buffer: Bytes,
    pub(super) idle_timeout: Duration,
    pub(super) keep_alive: Duration,
    pub(super) ack_delay: Duration,
    pub(super) ack_every: u32,
    pub(super) reordering: u32,
    pub(super) initial_rtt: Duration,
    pub(super) retry: bool,
    pub(super) resumption: Option<Resumption>,
    pub(super) early_data: bool,
    pub(super) certificates: bool,
    pub(super) key_log: bool,
    pub(super) service: Service,
    pub(super) instance: u128,
}

impl Default for QuicConfig {
    fn default() -> Self {
        Self {
            congestion: Congestion::default(),
            max_datagram: Bytes::new(1_200),
            max_message: Bytes::new(1 << 18),
            queue: 64,
            send_buffer: Bytes::new(1 << 19),
            idle_timeout: Duration::from_secs(5),
            keep_alive: Duration::from_secs(1),
            ack_delay: Duration::from_millis(5),
            ack_every: 2,
            reordering: 16,
            initial_rtt: Duration::from_millis(100),
            retry: false,
            resumption: None,
            early_data: true,
            certificates: false,
            key_log: false,
            service: Service::Session,
            instance: 0,
        }
    }
}

impl QuicConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who decides how much is sent. Default [`Congestion::Paced`].
    pub fn congestion(mut self, congestion: Congestion) -> Self {
        self.congestion = congestion;
        self
    }

    /// What it is for. Default [`Service::Session`]. With a peer that has another nothing comes about, and a client is told so.
    pub fn service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// A number of the address that a server listens at, the same after a restart. Default 0. Servers of one identity must have
    /// different ones: each gives out the token of a stateless reset to whoever asks with a connection ID of another (RFC 9000
    /// section 21.11).
    pub fn instance(mut self, number: u128) -> Self {
        self.instance = number;
        self
    }

    /// The longest UDP payload. Default 1200 B, which every path that QUIC works on carries; up to 1452 B, the most
    /// that IPv6 over Ethernet does. It is not probed for (RFC 8899): a probe that is lost looks like congestion, and
    /// samples are small. Above what the path carries, no handshake completes.
    pub fn max_datagram(mut self, bytes: Bytes) -> Self {
        self.max_datagram = bytes.clamp(Bytes::new(1_200), Bytes::new(1_452));
        self
    }

    /// The longest reliable message, sent or accepted. Default 256 KiB; from 1 B to 16 MiB. An unreliable one has to
    /// fit into a datagram, see [`Quic::max_unreliable`](super::Quic::max_unreliable).
    pub fn max_message(mut self, bytes: Bytes) -> Self {
        self.max_message = bytes.clamp(Bytes::new(1), Bytes::new(1 << 24));
        self
    }

    /// How many unreliable messages wait at most. When more do, the oldest of the least urgent is superseded.
    /// Default 64; at least 1.
    pub fn queue(mut self, messages: usize) -> Self {
        self.queue = messages.max(1);
        self
    }

    /// How many bytes of reliable messages wait at most before they are given to QUIC, which keeps as much again until
    /// it is acknowledged. Default 512 KiB; at least the longest message.
    pub fn send_buffer(mut self, bytes: Bytes) -> Self {
        self.send_buffer = bytes;
        self
    }

    /// After how long a silence the connection is given up; the shorter one of both sides' counts (RFC 9000 section
    /// 10.1). Default 5 s; from 100 ms to 10 min. Meanwhile a new operator, or the old one anew, is refused.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout.clamp(Duration::from_millis(100), Duration::from_secs(600));
        self
    }

    /// After how long without anything to say a PING keeps the connection alive. Default 1 s; at least 10 ms. Chosen
    /// above the idle timeout it does not.
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval.max(Duration::from_millis(10));
        self
    }

    /// How long the peer may withhold an acknowledgement (draft-ietf-quic-ack-frequency-11). Default 5 ms; from 1 ms
    /// to 25 ms. Shorter finds losses sooner, longer saves packets on the way back.
    pub fn ack_delay(mut self, delay: Duration) -> Self {
        self.ack_delay = delay.clamp(Duration::from_millis(1), Duration::from_millis(25));
        self
    }

    /// At the latest how many packets the peer acknowledges together. Default 2, as RFC 9000 section 13.2.2 has it;
    /// from 1 to 100.
    pub fn ack_every(mut self, packets: u32) -> Self {
        self.ack_every = packets.clamp(1, 100);
        self
    }

    /// How many packets later one may arrive before those after it say that it is lost (RFC 9002 section 6.1.1, which
    /// suggests 3). Default 16; from 3 to 1000. At 1 kHz, jitter of a few milliseconds reorders by as many packets,
    /// and taking that for loss slows down for nothing. What is missing for 9/8 of a round trip is lost in any case.
    pub fn reordering(mut self, packets: u32) -> Self {
        self.reordering = packets.clamp(3, 1_000);
        self
    }

    /// The round trip that is assumed before one was measured: a lost first packet is sent again after thrice as long.
    /// Default 100 ms (RFC 9002 section 6.2.2 suggests 333 ms); from 1 ms to 5 s.
    pub fn initial_rtt(mut self, rtt: Duration) -> Self {
        self.initial_rtt = rtt.clamp(Duration::from_millis(1), Duration::from_secs(5));
        self
    }

    /// Server: makes every client prove its address first, by a Retry packet without state (RFC 9000 section 8.1.2).
    /// Default: only while three handshakes are under way. Costs a round trip; with it, the server computes nothing for
    /// strangers who forge addresses.
    pub fn retry(mut self, retry: bool) -> Self {
        self.retry = retry;
        self
    }

    /// Remembers sessions, for short handshakes. Default: none.
    pub fn resumption(mut self, resumption: Resumption) -> Self {
        self.resumption = Some(resumption);
        self
    }

    /// The same, unless there is one already.
    pub fn or_resumption(mut self, resumption: Resumption) -> Self {
        self.resumption.get_or_insert(resumption);
        self
    }

    /// Lets samples travel in the first packet of a resumed session (0-RTT, RFC 9001 section 4.6). Default on, of no
    /// effect without [`Self::resumption`]. See the [module](super#early-data) for what may go and what cannot happen.
    pub fn early_data(mut self, early_data: bool) -> Self {
        self.early_data = early_data;
        self
    }

    /// Shows identities as X.509 certificates, see [`certificate`](crate::certificate), instead of as raw public keys, for
    /// peers whose TLS lacks RFC 7250. Both sides must choose the same. Default off. Who is trusted does not change:
    /// the key in the peer's certificate counts, whoever signed it. Costs 200 B each way in a handshake.
    pub fn certificates(mut self, certificates: bool) -> Self {
        self.certificates = certificates;
        self
    }

    /// Keeps the secrets of the connection for [`Quic::take_key_log`](super::Quic::take_key_log). Default off.
    /// **For the lab**: whoever has them reads everything.
    pub fn key_log(mut self, key_log: bool) -> Self {
        self.key_log = key_log;
        self
    }

    /// Quinn's half of it.
    pub(super) fn transport(&self) -> Arc<TransportConfig> {
        let integer = |value: u64| VarInt::from_u64(value).expect("within limits");
        let mut acks = AckFrequencyConfig::default();
        acks.max_ack_delay(Some(std_duration(self.ack_delay)));
        acks.ack_eliciting_threshold((self.ack_every - 1).into());
        acks.reordering_threshold((self.reordering - 1).into());
        let window = self.max_message.get().max(1 << 18);
        let idle = IdleTimeout::try_from(std_duration(self.idle_timeout)).expect("within limits");
        let mut transport = TransportConfig::default();
        transport
            .congestion_controller_factory(self.congestion.factory())
            .ack_frequency_config(Some(acks))
            .packet_threshold(self.reordering)
            .max_idle_timeout(Some(idle))
            .keep_alive_interval(Some(std_duration(self.keep_alive)))
            .initial_rtt(std_duration(self.initial_rtt))
            .initial_mtu(self.max_datagram.get() as u16)
            .min_mtu(self.max_datagram.get() as u16)
            .mtu_discovery_config(None)
            .enable_segmentation_offload(false)
            .max_concurrent_uni_streams(u32::from(LANES).into())
            .max_concurrent_bidi_streams(0_u32.into())
            .stream_receive_window(integer(window))
            .receive_window(integer(window * 2))
            .send_window(self.send_buffer.get().max(window))
            .datagram_receive_buffer_size(Some(1 << 16))
            .datagram_send_buffer_size(super::DATAGRAM_BUFFER)
            // The spin bit tells bystanders the round trip, and helps nobody here.
            .allow_spin(false);
        Arc::new(transport)
    }
}
