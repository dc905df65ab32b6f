//! Pages whose browser is elsewhere: WebTransport, which is HTTP/3 over QUIC, straight to this host, where a tunnel would hold up all that is behind
//! a packet that was lost.
//!
//! | what | goes by | for |
//! | --- | --- | --- |
//! | buttons and whatever else the page says, events, pongs | the one stream that the page opens, ahead of all others | it gets there, in order |
//! | what is held | datagrams, each behind its number (u32); one that is behind a newer one does not count | it is said again 20 ms later, and does not wait for what was lost |
//! | a picture | a stream of its own, reset when it is not known to be there after [`FRESH`] and a round trip | what was lost of it holds up nothing but those that need it |
//! | states | one stream | a plot lacks none, and the stop does not wait for them |
//! | sound, joints | datagrams | it is played in time or not at all, and newer ones follow |
//!
//! On streams a message stands behind its length (u32). Who is let in, what a page may say and what waits for it is as over a WebSocket.
//!
//! All pages share one thread, for they share a socket, and so do strangers: it goes behind all that is under `--fifo`, as whoever is let in by nothing does. An address gets no more than a Retry
//! before it has shown that it is its own (RFC 9000 section 8.1.2).

use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;
use taut_io::{spawn_unprivileged, stand_back};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::timeout;
use wtransport::endpoint::IncomingSession;
use wtransport::endpoint::endpoint_side::Server;
use wtransport::quinn::{IdleTimeout, TransportConfig};
use wtransport::{Connection, Endpoint, Identity, RecvStream, SendStream, ServerConfig, VarInt};

use crate::frame::{Kind, LONGEST, STATE};
use crate::outbox::{Closed, Due, Mailbox, SOUND};
use crate::page::{Carrier, Conversation, write_to};
use crate::serve::{CONNECTIONS, Open, PATIENCE, SILENCE};
use crate::{Elsewhere, Shared};

/// A picture that is not there by then is worth nothing any more: the page takes what is older for stale, and nothing moves.
const FRESH: Duration = Duration::from_millis(300);
/// A browser takes a certificate that it knows by its hash for two weeks at most. It counts from the day before, for a clock that is behind.
const VALID_DAYS: u32 = 13;
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Whoever connects has so long to show the token: round trips, and a packet that is lost among the first is sent again after a second.
const STRANGER: Duration = Duration::from_secs(5);
/// Messages of states that wait for their stream: a fifth of a second.
const STATES: usize = 10;
/// What a page may have under way to here, bytes, of a stream and together; and back.
const STREAM: u32 = 16_384;
const RECEIVED: u32 = 4 * STREAM;
const SENT: u64 = 2_000_000;
/// Bytes of the session's number at most, behind which a datagram stands (RFC 9297 section 2.1).
const SESSION: usize = 8;

/// Where pages may speak with the session besides.
pub(crate) fn listen(address: SocketAddrV4) -> io::Result<Elsewhere> {
    if address.ip().is_unspecified() {
        let why = "has to be the address that browsers reach this host by";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let socket = UdpSocket::bind(address)?;
    let origin = format!("https://{}", socket.local_addr()?);
    #[expect(clippy::disallowed_methods, reason = "a certificate is for a time of the world")]
    let since = SystemTime::now() - DAY;
    let identity = Identity::self_signed_builder()
        .subject_alt_names([address.ip().to_string()])
        .not_before(since.into())
        .validity_days(VALID_DAYS)
        .build()
        .map_err(io::Error::other)?;
    let hash = identity.certificate_chain().as_slice()[0].hash();
    let about =
        json!({ "url": format!("{origin}/session/"), "certificate_sha256": hash.as_ref() }).to_string();
    let serve = Box::new(move |shared| serve(socket, identity, shared));
    Ok(Elsewhere { about, origin, serve })
}

fn serve(socket: UdpSocket, identity: Identity, shared: Arc<Shared>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let endpoint = {
        let _runtime = runtime.enter();
        Endpoint::server(config(socket, identity))?
    };
    let work = move || runtime.block_on(accept(&endpoint, &shared));
    spawn_unprivileged("taut webtransport", stand_back, work).map(drop)
}

fn config(socket: UdpSocket, identity: Identity) -> ServerConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(4u8.into())
        .max_concurrent_uni_streams(8u8.into())
        .stream_receive_window(STREAM.into())
        .receive_window(RECEIVED.into())
        .datagram_receive_buffer_size(Some(STREAM as usize))
        .datagram_send_buffer_size(SOUND * 1_024)
        .send_window(SENT)
        // Of two pictures the older one goes first.
        .send_fairness(false)
        .max_idle_timeout(IdleTimeout::try_from(Duration::from(SILENCE)).ok())
        // Browsers answer by themselves.
        .keep_alive_interval(Some((SILENCE / 5).into()));
    let mut config =
        ServerConfig::builder().with_bind_socket(socket).with_custom_transport(identity, transport).build();
    config
        .quic_config_mut()
        .max_incoming(CONNECTIONS)
        .incoming_buffer_size(u64::from(STREAM))
        .incoming_buffer_size_total(u64::from(RECEIVED));
    config
}

async fn accept(endpoint: &Endpoint<Server>, shared: &Arc<Shared>) {
    let strangers = Arc::new(AtomicUsize::new(0));
    loop {
        let incoming = endpoint.accept().await;
        if !incoming.remote_address_validated() {
            incoming.retry();
            continue;
        }
        if strangers.load(Ordering::Relaxed) == CONNECTIONS {
            incoming.refuse();
            continue;
        }
        let (shared, one) = (shared.clone(), Open::new(&strangers));
        tokio::spawn(async move {
            let session = timeout(STRANGER, admit(incoming, &shared)).await;
            drop(one);
            if let Ok(Some(session)) = session {
                converse(session, &shared).await;
            }
        });
    }
}

/// A page that knows the token, and the stream that it opened.
struct Session {
    connection: Arc<Connection>,
    to_page: SendStream,
    from_page: RecvStream,
}

async fn admit(incoming: IncomingSession, shared: &Shared) -> Option<Session> {
    let request = incoming.await.ok()?;
    // A browser lets a page set no header here. This is encrypted to whoever has the certificate, that is to this process.
    let token = request.path().strip_prefix("/session/").unwrap_or_default();
    if shared.gate.admit(request.origin(), token).is_err() {
        request.forbidden().await;
        return None;
    }
    let connection = Arc::new(request.accept().await.ok()?);
    let (to_page, from_page) = connection.accept_bi().await.ok()?;
    Some(Session { connection, to_page, from_page })
}

async fn converse(Session { connection, to_page, from_page }: Session, shared: &Arc<Shared>) {
    let mailbox = Mailbox::default();
    let Some(page) = Conversation::enter(shared, &mailbox, false) else { return };
    let streams = Streams::new(connection.clone(), to_page, &mailbox);
    let sent = mailbox.clone();
    if spawn_unprivileged("taut to page", || (), move || write_to(streams, &sent)).is_ok() {
        // Whichever ends, also by a message that is none.
        tokio::select! {
            _ = hear(from_page, &page) => {}
            _ = hear_held(&connection, &page) => {}
        }
    }
    drop(page);
    mailbox.close();
}

/// Until the stream ends, or something comes over it that is no message.
async fn hear(mut stream: RecvStream, page: &Conversation) -> Option<()> {
    let (mut length, mut room) = ([0; 4], [0; LONGEST]);
    loop {
        stream.read_exact(&mut length).await.ok()?;
        let message = room.get_mut(..u32::from_be_bytes(length) as usize)?;
        stream.read_exact(message).await.ok()?;
        page.says(message).ok()?;
    }
}

async fn hear_held(connection: &Connection, page: &Conversation) -> Option<()> {
    let mut newest = None;
    loop {
        let datagram = connection.receive_datagram().await.ok()?;
        let (number, message) = datagram.split_first_chunk::<4>()?;
        let number = u32::from_be_bytes(*number);
        if newest.is_none_or(|newest| number > newest) {
            newest = Some(number);
            page.says(message).ok()?;
        }
    }
}

/// What goes to a page.
struct Streams {
    runtime: Handle,
    connection: Arc<Connection>,
    mailbox: Mailbox,
    told: SendStream,
    states: mpsc::Sender<Arc<[u8]>>,
}

impl Streams {
    fn new(connection: Arc<Connection>, told: SendStream, mailbox: &Mailbox) -> Self {
        told.set_priority(2);
        let (states, waiting) = mpsc::channel(STATES);
        tokio::spawn(send_states(connection.clone(), waiting));
        Self { runtime: Handle::current(), connection, mailbox: mailbox.clone(), told, states }
    }

    /// Does this push out no other datagram that waits?
    fn has_room(&self, message: &[u8]) -> bool {
        self.connection.quic_connection().datagram_send_buffer_space() >= SESSION + message.len()
    }
}

impl Carrier for Streams {
    fn carry(&mut self, due: Due) -> Result<(), Closed> {
        let Some(message) = due.message else { return Ok(()) };
        match Kind::of(&message) {
            Kind::Told => {
                let told = write(&mut self.told, &message);
                let in_time = async { timeout(PATIENCE.into(), told).await.ok().flatten() };
                return self.runtime.block_on(in_time).ok_or(Closed);
            }
            Kind::Picture(channel) => {
                let picture = send_picture(self.connection.clone(), message, self.mailbox.clone(), channel);
                self.runtime.spawn(picture);
            }
            // A page that is further behind lacks some, and one that is gone is heard no more.
            Kind::States => {
                if let Err(TrySendError::Full(message) | TrySendError::Closed(message)) =
                    self.states.try_send(message)
                {
                    self.mailbox.lost_states(message.len() / STATE);
                }
            }
            Kind::Sound => {
                // Where there is no room for it the oldest makes way.
                let has_room = self.has_room(&message);
                if self.connection.send_datagram(message).is_err() || !has_room {
                    self.mailbox.lost_sound();
                }
            }
            // They push out no sound: newer ones follow.
            Kind::Joints if self.has_room(&message) => drop(self.connection.send_datagram(message)),
            Kind::Joints => {}
        }
        Ok(())
    }
    fn close(&mut self) {
        // Its reader ends by that.
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

async fn write(stream: &mut SendStream, message: &[u8]) -> Option<()> {
    let length = u32::try_from(message.len()).ok()?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await.ok()
}

async fn send_states(connection: Arc<Connection>, mut waiting: mpsc::Receiver<Arc<[u8]>>) -> Option<()> {
    let mut message = waiting.recv().await?;
    let mut stream = connection.open_uni().await.ok()?.await.ok()?;
    stream.set_priority(1);
    loop {
        write(&mut stream, &message).await?;
        message = waiting.recv().await?;
    }
}

/// On a stream of its own. What the page has not in time is taken back; that it has it is known here a round trip after it was sent, at the soonest.
async fn send_picture(connection: Arc<Connection>, message: Arc<[u8]>, mailbox: Mailbox, channel: u8) {
    let patience = FRESH + connection.rtt();
    let sent = async {
        let mut stream = Resets(connection.open_uni().await.ok()?.await.ok()?);
        write(&mut stream.0, &message).await?;
        stream.0.finish().await.ok()
    };
    if !matches!(timeout(patience, sent).await, Ok(Some(()))) {
        mailbox.taken_back(channel);
    }
}

/// A stream of which nothing is sent any more once this is dropped.
struct Resets(SendStream);

impl Drop for Resets {
    fn drop(&mut self) {
        // Nor of one that the page has: then this does nothing.
        let _ = self.0.reset(VarInt::from_u32(0));
    }
}
