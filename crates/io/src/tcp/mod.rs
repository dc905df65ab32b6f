//! The kernel's TCP (RFC 9293) as a [`Transport`] that owns its socket.
//!
//! The kernel's congestion control and retransmissions, and our framing, priorities and deadlines: a message waits in a
//! bounded queue here, the most urgent first, until the kernel can send it: it is given nothing while it has bytes that it has not sent
//! (`SIOCOUTQNSD`, `TCP_NOTSENT_LOWAT`). From then on it arrives or the connection ends. Messages are framed as the
//! [model](taut_transport::tcp) frames them, a length of four bytes before each.
//!
//! An [`Acceptor`] is the robot's end when connections are sealed: it lets nobody in the way who is not the operator.
//!
//! [`KernelTcp::poll_transmit`](Transport::poll_transmit) never has a datagram: it hands the queue to the kernel. What
//! the kernel has for us is read by [`handle_timeout`](Transport::handle_timeout), which the driver calls when
//! [`KernelTcp::descriptor`] is readable. Whoever wraps this transport passes that call on at all times.
//!
//! ```
//! use std::net::TcpListener;
//! use taut_core::{Event, Message, Time, Transport};
//! use taut_io::tcp::{KernelTcp, KernelTcpConfig};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let mut client = KernelTcp::client(listener.local_addr()?, KernelTcpConfig::new())?;
//! let mut server = KernelTcp::server(listener, KernelTcpConfig::new())?;
//! client.send(Time::ZERO, Message { data: b"stop".to_vec(), ..Message::default() })?;
//! let received = (0..).find_map(|_| {
//!     for end in [&mut client, &mut server] {
//!         end.handle_timeout(Time::ZERO);
//!         end.poll_transmit(Time::ZERO, &mut Vec::new());
//!     }
//!     std::iter::from_fn(|| server.poll_event()).find_map(|event| match event {
//!         Event::Received { data, .. } => Some(data),
//!         _ => None,
//!     })
//! });
//! assert_eq!(received.as_deref(), Some(&b"stop"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acceptor;
mod bulk;
mod config;
mod outbox;
mod socket;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use taut_core::{
    Bitrate, Datagram, Deadline, DropCause, Duration, Event, Message, PathId, Priority, SendError, Time,
    Transmit, Transport, Waiting,
};
use taut_transport::tcp::Deframer;

pub use self::acceptor::{Acceptor, GUESTS};
pub use self::bulk::{Bulk, BulkConfig, BulkStats};
pub use self::config::KernelTcpConfig;
use self::outbox::Outbox;
use self::socket::Known;
use crate::driver::poller::{Interest, Poller, Ready};

/// One end of a conversation over the kernel's TCP. See the [module](self).
///
/// A client connects once: when that fails or the connection ends, [`Event::Closed`] is the last of it. A server talks to
/// one peer at a time, whoever that is (an [`Acceptor`] asks): who connects meanwhile is sent away ([`Event::Refused`] as
/// unauthenticated), and so is who does not send a first whole message in time. It is connected when that message is there, and waits for the next peer after
/// [`Event::Closed`].
#[derive(Debug)]
pub struct KernelTcp {
    config: KernelTcpConfig,
    state: State,
    listener: Option<TcpListener>,
    /// The listener and the stream, whichever there is: one descriptor for the driver for as long as this lives.
    poller: Poller,
    ready: Vec<Ready>,
    outbox: Outbox,
    deframer: Deframer,
    events: VecDeque<Event>,
    buffer: Box<[u8]>,
    stats: KernelTcpStats,
    /// As of the latest call.
    now: Time,
}

/// What went through a [`KernelTcp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTcpStats {
    /// Connections that came about, whatever became of them.
    pub connections: u64,
    /// Bytes that the kernel took, length prefixes included.
    pub bytes_sent: u64,
    /// Bytes that the kernel gave.
    pub bytes_received: u64,
    /// How often the kernel took no more, or had bytes that it had not sent.
    pub blocked: u64,
    /// Peers that were sent away.
    pub refused: u64,
}

#[derive(Debug)]
enum State {
    /// A server without a peer.
    Listening,
    /// A client before its connection is there.
    Connecting(TcpStream),
    Open(Connection),
    /// A client after its only connection.
    Closed,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// The kernel takes no more for now.
    blocked: bool,
    /// A server's peer, until its first message is there.
    first_message_by: Option<Time>,
    /// Nothing more will be sent; the peer has until then to say the same.
    closing: Option<Time>,
    /// The end of our direction has been sent.
    shut: bool,
    /// What the kernel said last, and when.
    known: Cell<Option<(Time, Option<Known>)>>,
}

const LISTENER: u64 = 0;
const STREAM: u64 = 1;
/// The kernel is asked about a connection so often at most, whoever wants to know how often: it costs a system call.
const ASKED: Duration = Duration::from_millis(1);
/// How long a peer may take to close its side.
const LINGER: Duration = Duration::from_secs(1);
/// Reads in one go, of [`BUFFER`] bytes each: more waits for the next call, as other machines do.
const READS: usize = 16;
const BUFFER: usize = 65_536;
/// The kernel is asked what has arrived when so many messages are unaccounted for.
const UNKNOWN: usize = 1_024;

impl KernelTcp {
    /// The end that connects. Returns at once; messages may be sent at once, and wait. Where no network is there it is closed at once, as when nobody
    /// answers: one may be there later.
    ///
    /// # Errors
    /// When there is no descriptor, or the kernel does not take the configuration.
    pub fn client(remote: SocketAddr, config: KernelTcpConfig) -> io::Result<Self> {
        let mut this = Self::new(State::Closed, None, config)?;
        match socket::connect(remote, &this.config) {
            Ok(stream) => {
                this.poller.add(stream.as_fd(), STREAM, Interest::ReadableOrWritable)?;
                this.state = State::Connecting(stream);
            }
            Err(error) if is_without_network(&error) => this.events.push_back(Event::Closed),
            Err(error) => return Err(error),
        }
        Ok(this)
    }

    /// Does it wait for its next peer?
    pub(crate) fn is_listening(&self) -> bool {
        self.listener.is_some()
    }

    /// Does the kernel have Multipath TCP?
    ///
    /// # Errors
    /// When it has none, or none is allowed (`net.mptcp.enabled`).
    pub fn has_multipath() -> io::Result<()> {
        socket::multipath()
    }

    /// A socket for [`KernelTcp::server`] at an address. For plain TCP any listener will do.
    ///
    /// # Errors
    /// When the address cannot be had, or the kernel has no Multipath TCP.
    pub fn listener(local: SocketAddr, config: &KernelTcpConfig) -> io::Result<TcpListener> {
        socket::listen(local, config)
    }

    /// The end that is connected to.
    ///
    /// # Errors
    /// When the listener cannot be waited for.
    pub fn server(listener: TcpListener, config: KernelTcpConfig) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let this = Self::new(State::Listening, Some(listener), config)?;
        if let Some(listener) = &this.listener {
            this.poller.add(listener.as_fd(), LISTENER, Interest::Readable)?;
        }
        Ok(this)
    }

    /// A connection that somebody else accepted; a client's, but that the first whole message is waited for.
    pub(super) fn accepted(now: Time, stream: TcpStream, config: KernelTcpConfig) -> io::Result<Self> {
        socket::set_up(&stream, &config)?;
        let mut this = Self::new(State::Closed, None, config)?;
        this.poller.add(stream.as_fd(), STREAM, Interest::Readable)?;
        this.stats.connections += 1;
        let first_message_by = Some(now + config.first_message);
        this.state = State::Open(Connection::new(stream, first_message_by));
        Ok(this)
    }

    /// When it ends now, the peer gets a reset, and the kernel keeps nothing of it.
    fn reset(&self) {
        if let State::Open(connection) = &self.state {
            socket::reset_on_close(&connection.stream);
        }
    }

    fn new(state: State, listener: Option<TcpListener>, config: KernelTcpConfig) -> io::Result<Self> {
        Ok(Self {
            state,
            listener,
            poller: Poller::new()?,
            ready: Vec::new(),
            outbox: Outbox::new(config.queue, config.max_message),
            deframer: Deframer::new(config.max_message),
            events: VecDeque::new(),
            buffer: vec![0; BUFFER].into(),
            stats: KernelTcpStats::default(),
            now: Time::ZERO,
            config,
        })
    }

    /// What the driver waits for: readable when there is something to do. A [`Port`](crate::Port) by `into()`. It is a
    /// copy that stays good while this lives, also when this has moved into something else.
    ///
    /// # Errors
    /// When the process may open no more descriptors.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.poller.as_fd().try_clone_to_owned()
    }

    /// The peer's address, while there is a connection, or a client's attempt at one.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        match &self.state {
            State::Connecting(stream) | State::Open(Connection { stream, .. }) => stream.peer_addr().ok(),
            State::Listening | State::Closed => None,
        }
    }

    /// What went through it.
    pub fn stats(&self) -> KernelTcpStats {
        self.stats
    }

    /// What the kernel knows of the connection, a millisecond ago at most.
    fn known(&self) -> Option<Known> {
        let State::Open(Connection { stream, known, .. }) = &self.state else { return None };
        if let Some((at, known)) = known.get()
            && self.now < at + ASKED
        {
            return known;
        }
        let new = socket::known(stream);
        known.set(Some((self.now, new)));
        new
    }

    fn work(&mut self, now: Time) {
        self.now = now;
        if self.poller.wait(Some(Duration::ZERO), &mut self.ready).is_err() {
            return self.end(); // Nothing can be known about the connection any more.
        }
        for index in 0..self.ready.len() {
            let Ready { token, readable, writable } = self.ready[index];
            if token == LISTENER {
                self.accept(now);
                continue;
            }
            if writable {
                self.writable();
            }
            if readable {
                self.read();
            }
        }
        let Some(due) = self.due() else { return };
        if now >= due {
            self.time_out();
        }
    }

    fn accept(&mut self, now: Time) {
        let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) else { return };
        let taken = matches!(self.state, State::Listening)
            && socket::set_up(&stream, &self.config).is_ok()
            && self.poller.add(stream.as_fd(), STREAM, Interest::Readable).is_ok();
        if !taken {
            return self.refuse();
        }
        self.stats.connections += 1;
        let first_message_by = Some(now + self.config.first_message);
        self.state = State::Open(Connection::new(stream, first_message_by));
    }

    fn refuse(&mut self) {
        self.stats.refused += 1;
        self.events.push_back(Event::Refused(DropCause::Unauthenticated));
    }

    /// The connection is there, or the kernel takes more, or there is an error that the next call will tell.
    fn writable(&mut self) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Connecting(stream) => match stream.take_error() {
                Ok(None) => {
                    self.stats.connections += 1;
                    let quiet = self.poller.change(stream.as_fd(), STREAM, Interest::Readable);
                    self.state = State::Open(Connection::new(stream, None));
                    match quiet {
                        Ok(()) => self.events.push_back(Event::Connected),
                        Err(_) => self.end(),
                    }
                }
                Ok(Some(_)) | Err(_) => {
                    self.outbox.abandon(&mut self.events);
                    self.events.push_back(Event::Closed);
                }
            },
            State::Open(mut connection) => {
                connection.blocked = false;
                let quiet = self.poller.change(connection.stream.as_fd(), STREAM, Interest::Readable);
                self.state = State::Open(connection);
                if quiet.is_err() {
                    self.end();
                }
            }
            other => self.state = other,
        }
    }

    fn read(&mut self) {
        for _ in 0..READS {
            let State::Open(connection) = &mut self.state else { return };
            let len = match connection.stream.read(&mut self.buffer) {
                Ok(0) => return self.end(),
                Ok(len) => len,
                Err(error) if is_passing(&error) => return,
                Err(_) => return self.end(),
            };
            if self.config.quick_ack {
                let _ = socket::acknowledge_at_once(&connection.stream); // A hint.
            }
            self.stats.bytes_received += len as u64;
            let known = self.events.len();
            let whole = self.deframer.push(&self.buffer[..len], &mut self.events);
            if self.events.len() > known && connection.first_message_by.take().is_some() {
                self.events.insert(known, Event::Connected);
            }
            if whole.is_err() {
                self.events.push_back(Event::Refused(DropCause::Malformed));
                return self.end();
            }
            if len < self.buffer.len() {
                return;
            }
        }
    }

    fn write(&mut self, now: Time) {
        self.now = now;
        let State::Open(connection) = &mut self.state else { return };
        while connection.first_message_by.is_none() {
            // An emergency does not wait for what the kernel has not sent: it leaves in the same segment.
            let hurries = self.outbox.urgency() == Some(Priority(0));
            if connection.blocked && !hurries {
                break;
            }
            let bytes = self.outbox.next(now, &mut self.events);
            if bytes.is_empty() {
                break;
            }
            // Asked, for the kernel would append what is small to a segment that waits. The one of several paths counts what is on its way as well.
            let asks = !hurries && !self.config.multipath;
            let is_full = asks && socket::unsent(&connection.stream) >= self.config.not_sent.get();
            let taken = match is_full {
                true => 0,
                false => match connection.stream.write(bytes) {
                    Ok(taken) => taken,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    Err(error) if is_passing(&error) => continue,
                    Err(_) => return self.end(),
                },
            };
            if taken == 0 {
                self.stats.blocked += 1;
                connection.blocked = true;
                let stream = connection.stream.as_fd();
                if self.poller.change(stream, STREAM, Interest::ReadableOrWritable).is_err() {
                    return self.end();
                }
                break;
            }
            self.outbox.took(taken);
            self.stats.bytes_sent += taken as u64;
        }
        if self.outbox.unknown() > UNKNOWN {
            self.outbox.acknowledged_but(socket::unacknowledged(&connection.stream));
        }
        if connection.closing.is_some() && !connection.shut && self.outbox.is_empty() {
            connection.shut = true;
            let _ = connection.stream.shutdown(Shutdown::Write); // It may be over already.
        }
    }

    /// The connection is over.
    fn end(&mut self) {
        let after = if self.listener.is_some() { State::Listening } else { State::Closed };
        match std::mem::replace(&mut self.state, after) {
            State::Open(connection) if connection.first_message_by.is_some() => {
                self.refuse();
                if self.listener.is_none() {
                    self.events.push_back(Event::Closed);
                }
            }
            State::Open(connection) => {
                self.outbox.acknowledged_but(socket::unacknowledged(&connection.stream));
                self.outbox.abandon(&mut self.events);
                self.events.push_back(Event::Closed);
            }
            State::Connecting(_) => {
                self.outbox.abandon(&mut self.events);
                self.events.push_back(Event::Closed);
            }
            State::Listening | State::Closed => {}
        }
        self.deframer = Deframer::new(self.config.max_message);
    }

    fn due(&self) -> Option<Time> {
        match &self.state {
            State::Open(connection) => connection.first_message_by.or(connection.closing),
            _ => None,
        }
    }

    /// A peer that says nothing, or does not say goodbye.
    fn time_out(&mut self) {
        self.reset();
        self.end();
    }
}

impl Connection {
    fn new(stream: TcpStream, first_message_by: Option<Time>) -> Self {
        Self { stream, blocked: false, first_message_by, closing: None, shut: false, known: Cell::new(None) }
    }
}

impl Transport for KernelTcp {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        self.now = now;
        let open = match &self.state {
            State::Connecting(_) => true,
            State::Open(connection) => connection.closing.is_none() && connection.first_message_by.is_none(),
            State::Listening | State::Closed => false,
        };
        if !open {
            return Err(SendError::Closed);
        }
        self.outbox.push(now, message, &mut self.events)
    }

    /// Nothing arrives but what the socket has.
    fn handle_input(&mut self, now: Time, _input: Datagram<'_>) {
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.work(now);
    }

    /// Gives the kernel what it takes; never a datagram.
    fn poll_transmit(&mut self, now: Time, _buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.write(now);
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match &self.state {
            State::Open(Connection { first_message_by: Some(at), .. }) => {
                Some(Deadline::new(*at, "first message"))
            }
            State::Open(Connection { closing: Some(at), .. }) => Some(Deadline::new(*at, "linger")),
            _ => None,
        }
    }

    /// The kernel's smoothed one.
    fn round_trip(&self) -> Option<Duration> {
        self.known()?.smoothed_rtt
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    /// By the kernel.
    fn delivered(&self) -> Option<u64> {
        self.known().map(|known| known.delivered)
    }

    fn waiting(&self) -> Waiting {
        Waiting::irreplaceable(self.outbox.urgency().is_some_and(Priority::is_sample_or_above))
    }

    fn close(&mut self, now: Time) {
        match &mut self.state {
            State::Open(connection) if connection.closing.is_none() => {
                connection.closing = Some(now + LINGER);
            }
            State::Connecting(_) => self.end(),
            _ => {}
        }
    }

    fn abandon(&mut self) {
        self.end();
    }

    // Its paths are the kernel's.
    taut_core::ignores_paths!();

    fn uses_path(&self, _: PathId) -> bool {
        true
    }
}

/// Wi-Fi that is away, an address that it took with it, or nobody at the other end of this host's own network.
fn is_without_network(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable,
    };
    let kinds = [AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable];
    kinds.contains(&error.kind())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
