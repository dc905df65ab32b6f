//! The two libraries that QUIC's state machine comes from, behind one contract: what is ours around them is written once.
//!
//! Both descend from one code and have the same names for most things. What is the same is in [`library!`], what is not in
//! [`quinn`] and [`noq`].

/// What is the same in both, with the names of the crate: the endpoint. What is not: whether there are several paths, what an address
/// is wrapped in, and what makes connection IDs, and what there is in more places than in the other, a `None`. The module that calls
/// this has `tune`, `token_key` and, for qlog, `trace_to`.
macro_rules! library {
    ($name:ident, $proto:ident, $multipath:literal, $address:path, $shared:path $(, $none:expr)?) => {
        /// An endpoint, and what a client connects with.
        pub struct $name {
            endpoint: $proto::Endpoint,
            client: Option<$proto::ClientConfig>,
            server: Option<$proto::ServerConfig>,
            config: QuicConfig,
        }

        impl $name {
            fn new(
                config: &QuicConfig,
                keys: &Keys,
                client: Option<$proto::ClientConfig>,
                server: Option<$proto::ServerConfig>,
            ) -> Self {
                let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &keys.reset);
                let mut ours = $proto::EndpointConfig::new(Arc::new(reset_key));
                ours.cid_generator($shared(|| -> Box<dyn $proto::ConnectionIdGenerator> { Box::new(Lent) }))
                    .rng_seed(Some(keys.seed))
                    .supported_versions(vec![1])
                    // RFC 9287 would hide from middleboxes, and from Wireshark, that this is QUIC.
                    .grease_quic_bit(false);
                let endpoint = $proto::Endpoint::new(Arc::new(ours), server.clone().map(Arc::new), false $(, $none)?);
                Self { endpoint, client, server, config: config.clone() }
            }
        }

        impl Library for $name {
            type Connection = $proto::Connection;
            type Event = $proto::ConnectionEvent;
            type Incoming = $proto::Incoming;
            const MULTIPATH: bool = $multipath;

            fn client(config: &QuicConfig, keys: &Keys, tls: rustls::ClientConfig) -> Self {
                let tls = $proto::crypto::rustls::QuicClientConfig::try_from(tls).expect(SUITE);
                let mut client = $proto::ClientConfig::new(Arc::new(tls));
                client.transport_config(Arc::new(transport(config)));
                Self::new(config, keys, Some(client), None)
            }

            fn server(config: &QuicConfig, keys: &Keys, tls: rustls::ServerConfig) -> Self {
                let tls = $proto::crypto::rustls::QuicServerConfig::try_from(tls).expect(SUITE);
                let mut server = $proto::ServerConfig::new(Arc::new(tls), token_key(keys.token));
                let mut tokens = $proto::ValidationTokenConfig::default();
                tokens.sent(0);
                server
                    .transport_config(Arc::new(transport(config)))
                    .time_source(Arc::new(Lent))
                    .validation_token_config(tokens)
                    .max_incoming(MAX_HANDSHAKES)
                    .migration(true);
                Self::new(config, keys, None, Some(server))
            }

            fn connect(&mut self, now: Time, to: SocketAddr) -> (Handle, Self::Connection) {
                let mut config = self.client.clone().expect("a client connects");
                let id = random_id::<20>();
                config.initial_dst_cid_provider(Arc::new(move || $proto::ConnectionId::new(&id)));
                if let Some(traced) = traced(&self.config, now, &id, "client") {
                    config.transport_config(Arc::new(traced));
                }
                let started = self.endpoint.connect(clock::instant(now), config, to, SERVER_NAME);
                let ($proto::ConnectionHandle(handle), connection) =
                    started.expect("a valid name, address and version, and connection IDs in plenty");
                (handle, connection)
            }

            fn handle(
                &mut self,
                now: Time,
                from: SocketAddr,
                ecn: Ecn,
                data: BytesMut,
                answer: &mut Vec<u8>,
            ) -> Found<Self> {
                let mark = $proto::EcnCodepoint::from_bits(ecn.code_point());
                let (now, from) = (clock::instant(now), $address(from));
                match self.endpoint.handle(now, from $(, $none)?, mark, data, answer) {
                    Some($proto::DatagramEvent::ConnectionEvent($proto::ConnectionHandle(handle), event)) => {
                        Found::Connection(handle, event)
                    }
                    Some($proto::DatagramEvent::NewConnection(incoming)) => Found::Hello(incoming),
                    Some($proto::DatagramEvent::Response(_)) => Found::Answer,
                    None => Found::Nothing,
                }
            }

            fn accept(
                &mut self,
                now: Time,
                incoming: Self::Incoming,
                answer: &mut Vec<u8>,
            ) -> Option<(Handle, Self::Connection)> {
                let traced = traced(&self.config, now, &incoming.orig_dst_cid()[..], "server");
                let own = self.server.clone().zip(traced).map(|(mut server, traced)| {
                    server.transport_config(Arc::new(traced));
                    Arc::new(server)
                });
                let accepted = self.endpoint.accept(incoming, clock::instant(now), answer, own);
                accepted.ok().map(|(handle, connection)| (handle.0, connection))
            }

            fn refuse(&mut self, incoming: Self::Incoming, answer: &mut Vec<u8>) {
                let _ = self.endpoint.refuse(incoming, answer);
            }

            fn retry(&mut self, incoming: Self::Incoming, answer: &mut Vec<u8>) {
                // It cannot fail: an address is validated by a Retry only.
                let _ = self.endpoint.retry(incoming, answer);
            }

            fn is_validated(incoming: &Self::Incoming) -> bool {
                incoming.remote_address_validated()
            }

            fn forget(&mut self, handle: Handle) {
                self.endpoint
                    .handle_event($proto::ConnectionHandle(handle), $proto::EndpointEvent::drained());
            }

            fn relay(&mut self, handle: Handle, connection: &mut Self::Connection) -> bool {
                let Some(event) = connection.poll_endpoint_events() else { return false };
                if let Some(event) = self.endpoint.handle_event($proto::ConnectionHandle(handle), event) {
                    connection.handle_event(event);
                }
                true
            }
        }

        impl $proto::TimeSource for Lent {
            fn now(&self) -> std::time::SystemTime {
                std::time::UNIX_EPOCH + age()
            }
        }

        impl $proto::ConnectionIdGenerator for Lent {
            fn generate_cid(&mut self) -> $proto::ConnectionId {
                $proto::ConnectionId::new(&random_id::<CONNECTION_ID>())
            }

            fn cid_len(&self) -> usize {
                CONNECTION_ID
            }

            fn cid_lifetime(&self) -> Option<std::time::Duration> {
                None
            }
        }

        fn transport(config: &QuicConfig) -> $proto::TransportConfig {
            let integer = |value: u64| $proto::VarInt::from_u64(value).expect("within limits");
            let window = config.max_message.get().max(1 << 18);
            let idle = std::time::Duration::from(config.idle_timeout);
            let acks = config.acks.map(|(delay, every)| {
                let mut acks = $proto::AckFrequencyConfig::default();
                acks.max_ack_delay(Some(delay.into()));
                acks.ack_eliciting_threshold((every - 1).into());
                acks.reordering_threshold((config.reordering - 1).into());
                acks
            });
            let mut transport = $proto::TransportConfig::default();
            transport
                .ack_frequency_config(acks)
                .packet_threshold(config.reordering)
                .max_idle_timeout(Some($proto::IdleTimeout::try_from(idle).expect("within limits")))
                .initial_rtt(config.initial_rtt.into())
                .initial_mtu(config.max_datagram.get() as u16)
                .min_mtu(config.max_datagram.get() as u16)
                .mtu_discovery_config(None)
                .enable_segmentation_offload(false)
                .max_concurrent_uni_streams(u32::from(LANES).into())
                .max_concurrent_bidi_streams(0_u32.into())
                .stream_receive_window(integer(window))
                .receive_window(integer(window * 2))
                .send_window(config.send_buffer.get().max(window))
                .datagram_receive_buffer_size(Some(1 << 16))
                .datagram_send_buffer_size(DATAGRAM_BUFFER)
                // The spin bit tells bystanders the round trip, and helps nobody here.
                .allow_spin(false)
                .congestion_controller_factory(match config.congestion {
                    Congestion::Paced(paced) => Arc::new(paced),
                    Congestion::Cubic => Arc::new($proto::congestion::CubicConfig::default()),
                    Congestion::NewReno => Arc::new($proto::congestion::NewRenoConfig::default()),
                    Congestion::Bbr => Arc::new(Bbr::default()),
                });
            tune(&mut transport, config);
            transport
        }

        /// The same for one connection, with a trace of its own; `None`: it has none.
        #[cfg(feature = "qlog")]
        fn traced(
            config: &QuicConfig,
            now: Time,
            connection: &[u8],
            end: &str,
        ) -> Option<$proto::TransportConfig> {
            let trace = config.qlog.as_ref()?.begin(now, connection, end)?;
            let mut transport = transport(config);
            trace_to(&mut transport, trace, now);
            Some(transport)
        }

        #[cfg(not(feature = "qlog"))]
        fn traced(_: &QuicConfig, _: Time, _: &[u8], _: &str) -> Option<$proto::TransportConfig> {
            None
        }
    };
}

/// What is the same in both of a [`Connection`]; `one` is what one packet a call is written as.
macro_rules! connection {
    ($proto:ident, $one:expr) => {
        type Event = $proto::ConnectionEvent;
        type Stream = $proto::StreamId;

        fn on_event(&mut self, event: Self::Event) {
            self.handle_event(event);
        }

        fn on_time(&mut self, now: Time) {
            self.handle_timeout(clock::instant(now));
        }

        fn due(&mut self) -> Option<Time> {
            self.poll_timeout().map(clock::time)
        }

        fn next(&mut self) -> Option<Happened<Self::Stream>> {
            Some(match self.poll()? {
                $proto::Event::Connected => Happened::Connected,
                $proto::Event::ConnectionLost { reason } => Happened::Lost(reason.into()),
                $proto::Event::DatagramReceived => Happened::Samples,
                $proto::Event::Stream($proto::StreamEvent::Opened { .. }) => Happened::Streams(None),
                $proto::Event::Stream($proto::StreamEvent::Readable { id }) => Happened::Streams(Some(id)),
                other => special(other),
            })
        }

        fn packet(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<(SocketAddr, Ecn)> {
            let sent = self.poll_transmit(clock::instant(now), $one, buffer)?;
            Some((sent.destination, Ecn::from_code_point(sent.ecn.map_or(0, |mark| mark as u8))))
        }

        fn end(&mut self, now: Time, code: u32, reason: String) {
            self.close(clock::instant(now), $proto::VarInt::from_u32(code), reason.into());
        }

        fn is_drained(&self) -> bool {
            $proto::Connection::is_drained(self)
        }

        fn is_handshaking(&self) -> bool {
            $proto::Connection::is_handshaking(self)
        }

        fn can_send_early(&self) -> bool {
            self.has_0rtt()
        }

        fn took_early(&self) -> bool {
            self.accepted_0rtt()
        }

        fn identity(&self) -> Option<Box<dyn Any>> {
            self.crypto_session().peer_identity()
        }

        /// What is said to be free in the buffer of datagrams while none is in it.
        fn holds_sample(&mut self) -> bool {
            self.datagrams().send_buffer_space() < DATAGRAM_BUFFER - size_of::<$proto::Datagram>()
        }

        fn send_sample(&mut self, frame: Bytes) -> Result<(), DropCause> {
            self.datagrams().send(frame, false).map_err(|error| match error {
                $proto::SendDatagramError::Blocked(_) => DropCause::SendBufferFull,
                // The peer takes shorter ones than we do, or none.
                _ => DropCause::Abandoned,
            })
        }

        fn receive_sample(&mut self) -> Option<Bytes> {
            self.datagrams().recv()
        }

        fn open_stream(&mut self) -> Option<Self::Stream> {
            self.streams().open($proto::Dir::Uni)
        }

        fn accept_stream(&mut self) -> Option<Self::Stream> {
            self.streams().accept($proto::Dir::Uni)
        }

        fn prioritise(&mut self, stream: Self::Stream, priority: i32) {
            let _ = self.send_stream(stream).set_priority(priority);
        }

        fn read(
            &mut self,
            stream: Self::Stream,
            mut taker: impl FnMut(&[u8]) -> Result<(), FrameError>,
        ) -> Result<bool, FrameError> {
            let mut source = self.recv_stream(stream);
            let Ok(mut chunks) = source.read(true) else { return Ok(false) };
            let result = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        if let Err(error) = taker(&chunk.bytes) {
                            break Err(error);
                        }
                    }
                    Err($proto::ReadError::Blocked) => break Ok(false),
                    Ok(None) | Err($proto::ReadError::Reset(_)) => break Ok(true),
                }
            };
            let _ = chunks.finalize();
            result
        }
    };
}

mod noq;
mod quinn;

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use taut_core::{Bitrate, DropCause, Duration, Ecn, Time};

pub(super) use self::noq::Noq;
pub(super) use self::quinn::Quinn;
use super::frame::FrameError;
use super::stats::Counted;
use super::{CloseReason, QuicConfig};

/// Why a configuration of TLS is one of QUIC.
const SUITE: &str = "AES-128-GCM, which initial packets need, is there";

/// Which of a library's connections it is.
pub(super) type Handle = usize;

/// Keys of an end that outlive it.
#[derive(Debug)]
pub struct Keys {
    /// Of stateless resets (RFC 9000 section 10.3.2).
    pub(super) reset: [u8; 32],
    /// Of Retry tokens (section 8.1.2).
    pub(super) token: [u8; 32],
    /// Of what need not be secret.
    pub(super) seed: [u8; 32],
}

/// One library: its endpoint, which knows whose a datagram is.
pub trait Library: Sized + 'static {
    /// One connection.
    type Connection: Connection<Event = Self::Event>;
    /// What a datagram brings to a connection.
    type Event;
    /// Somebody's first datagram.
    type Incoming;
    /// Does it use several paths at once?
    const MULTIPATH: bool;
    /// An end that connects.
    fn client(config: &QuicConfig, keys: &Keys, tls: rustls::ClientConfig) -> Self;
    /// An end that waits.
    fn server(config: &QuicConfig, keys: &Keys, tls: rustls::ServerConfig) -> Self;
    /// A client's next attempt.
    fn connect(&mut self, now: Time, to: SocketAddr) -> (Handle, Self::Connection);
    /// Takes a datagram; what is said to somebody without a connection is left in `answer`.
    fn handle(
        &mut self,
        now: Time,
        from: SocketAddr,
        ecn: Ecn,
        data: BytesMut,
        answer: &mut Vec<u8>,
    ) -> Found<Self>;
    /// Begins a handshake; `None`: it was refused, and told so in `answer`.
    fn accept(
        &mut self,
        now: Time,
        incoming: Self::Incoming,
        answer: &mut Vec<u8>,
    ) -> Option<(Handle, Self::Connection)>;
    /// Says that there is no room.
    fn refuse(&mut self, incoming: Self::Incoming, answer: &mut Vec<u8>);
    /// Asks whether it is where it says, by a Retry packet.
    fn retry(&mut self, incoming: Self::Incoming, answer: &mut Vec<u8>);
    /// Has it shown that it is where it says?
    fn is_validated(incoming: &Self::Incoming) -> bool;
    /// That connection is no more.
    fn forget(&mut self, handle: Handle);
    /// Passes on one thing that the connection has for its endpoint, and the answer; says whether there was one.
    fn relay(&mut self, handle: Handle, connection: &mut Self::Connection) -> bool;
}

/// Whose a datagram is.
pub enum Found<L: Library> {
    /// A connection's.
    Connection(Handle, L::Event),
    /// Somebody's who says hello.
    Hello(L::Incoming),
    /// Nobody's, and there is an answer.
    Answer,
    /// It is no packet of QUIC.
    Nothing,
}

/// What a connection reports.
pub enum Happened<S> {
    /// The handshake is done, and TLS knows who the peer is.
    Connected,
    /// The server has confirmed it (RFC 9001 section 4.1.2).
    Confirmed,
    /// It ended.
    Lost(CloseReason),
    /// There are samples.
    Samples,
    /// There are new streams, or more on that one.
    Streams(Option<S>),
    /// A path came or went.
    Path(noq_proto::PathEvent),
    /// Something that does not matter here.
    Other,
}

/// One connection.
pub trait Connection {
    /// What a datagram brings.
    type Event;
    /// The number of a stream.
    type Stream: Copy + Ord + Debug;
    /// How many frames were received.
    type Frames: PartialEq + Default + Debug;
    /// A datagram came.
    fn on_event(&mut self, event: Self::Event);
    /// Time has passed.
    fn on_time(&mut self, now: Time);
    /// When it wants to be called.
    fn due(&mut self) -> Option<Time>;
    /// What it reports next.
    fn next(&mut self) -> Option<Happened<Self::Stream>>;
    /// The next packet, its address and mark.
    fn packet(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<(SocketAddr, Ecn)>;
    /// Ends it, and says why.
    fn end(&mut self, now: Time, code: u32, reason: String);
    /// Has it ended, and nothing is left to say?
    fn is_drained(&self) -> bool;
    /// Is the handshake under way?
    fn is_handshaking(&self) -> bool;
    /// May it send before the handshake is done?
    fn can_send_early(&self) -> bool;
    /// Did the server take what was sent early?
    fn took_early(&self) -> bool;
    /// Whose key TLS was shown.
    fn identity(&self) -> Option<Box<dyn Any>>;
    /// The address of its first path.
    fn remote(&self) -> Option<SocketAddr>;
    /// Several paths, if it has such.
    fn multipath(&mut self) -> Option<&mut noq_proto::Connection>;
    /// The smoothed round trip, of the fastest path.
    fn smoothed_rtt(&self) -> Option<Duration>;
    /// What may be under way, and the rate that [`Paced`](super::Paced) keeps; of several paths, of the one with the highest.
    fn allowance(&self) -> (u64, Option<Bitrate>);
    /// Frames received, ACK frames among them, and packets lost.
    fn counted(&mut self) -> Counted<Self::Frames>;
    /// Is there a sample that has not left?
    fn holds_sample(&mut self) -> bool;
    /// Takes a sample, or says why not.
    fn send_sample(&mut self, frame: Bytes) -> Result<(), DropCause>;
    /// The next sample that came.
    fn receive_sample(&mut self) -> Option<Bytes>;
    /// A new stream, if there may be one more.
    fn open_stream(&mut self) -> Option<Self::Stream>;
    /// The next stream of the peer.
    fn accept_stream(&mut self) -> Option<Self::Stream>;
    /// How urgent what is on that stream is.
    fn prioritise(&mut self, stream: Self::Stream, priority: i32);
    /// Takes as much of `data` as there is room for.
    fn write(&mut self, stream: Self::Stream, data: Bytes) -> usize;
    /// Gives what came on that stream to `taker`, in order; says whether it has ended.
    fn read(
        &mut self,
        stream: Self::Stream,
        taker: impl FnMut(&[u8]) -> Result<(), FrameError>,
    ) -> Result<bool, FrameError>;
}
