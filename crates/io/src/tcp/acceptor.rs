//! Who connects, before it is known who that is.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use taut_core::{
    Bitrate, Datagram, Deadline, DropCause, Duration, Event, LeakyBucket, Message, PathId, SendError, Time,
    Transmit, Transport, Waiting, earliest,
};
use taut_transport::security::{Reception, Sealed};
use taut_transport::stranger::{ShownKey, is_remembered};

use super::{KernelTcp, KernelTcpConfig};
use crate::driver::poller::{Interest, Poller, Ready};

/// The robot's end of sealed TCP: one operator at a time, and any number of strangers.
///
/// Every connection is a guest until its handshake is done; nobody waits for another one's. Of [`GUESTS`] guests at most the
/// oldest of the address that has most of them goes when one more comes. The first whose handshake is done has the robot: from
/// then on others who are trusted are told that it is busy, those who are not are told nothing, and the same identity may
/// begin anew, which ends its earlier connection. While there is an operator, so few strangers are let in that looking at
/// them costs it nothing: the others wait in the kernel.
///
/// After [`Event::Closed`] the next guest may have it.
pub struct Acceptor {
    config: KernelTcpConfig,
    /// `None` when it was closed.
    listener: Option<TcpListener>,
    /// The listener and every connection: one descriptor for the driver.
    poller: Poller,
    ready: Vec<Ready>,
    seal: Box<dyn FnMut(KernelTcp) -> Sealed<KernelTcp> + Send>,
    reception: Reception,
    /// The oldest first.
    guests: Vec<Guest>,
    served: Option<Sealed<KernelTcp>>,
    /// Who may come in while there is an operator, and until when nobody else is let in.
    visits: LeakyBucket,
    resting: Option<Time>,
    events: VecDeque<Event>,
    /// Of the operator's connection, or the last one's.
    bytes: (u64, u64),
    refused: u64,
    busy: u64,
    stranger: Option<(SocketAddr, Option<ShownKey>)>,
}

#[derive(Debug)]
struct Guest {
    sealed: Sealed<KernelTcp>,
    /// Where, and in which network.
    peer: SocketAddr,
    from: IpAddr,
}

/// Connections whose handshake is under way, at most.
pub const GUESTS: usize = 8;
/// How often a guest is let in while there is an operator, after a burst of [`GUESTS`]. Each costs up to a third of a
/// millisecond.
const PER_GUEST: Duration = Duration::from_millis(20);
const LISTENER: u64 = 0;
const GUEST: u64 = 1;
/// Connections that are accepted in one go.
const ACCEPTS: usize = 64;

impl Acceptor {
    /// Accepts what comes to `listener`. `seal` puts a responder around a connection.
    ///
    /// # Errors
    /// When the listener cannot be waited for.
    pub fn new(
        listener: TcpListener,
        config: KernelTcpConfig,
        seal: impl FnMut(KernelTcp) -> Sealed<KernelTcp> + Send + 'static,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(listener.as_fd(), LISTENER, Interest::Readable)?;
        Ok(Self {
            config,
            listener: Some(listener),
            poller,
            ready: Vec::new(),
            seal: Box::new(seal),
            reception: Reception::new(),
            guests: Vec::new(),
            served: None,
            visits: LeakyBucket::new(PER_GUEST, GUESTS as u64),
            resting: None,
            events: VecDeque::new(),
            bytes: (0, 0),
            refused: 0,
            busy: 0,
            stranger: None,
        })
    }

    /// What the driver waits for, as [`KernelTcp::descriptor`].
    ///
    /// # Errors
    /// When the process may open no more descriptors.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.poller.as_fd().try_clone_to_owned()
    }

    /// Does it wait for the next operator? One that was closed does not.
    pub(crate) fn is_listening(&self) -> bool {
        self.listener.is_some()
    }

    /// Bytes sent and received over the operator's connection, or the last one's.
    pub fn stream_bytes(&self) -> (u64, u64) {
        self.served.as_ref().map_or(self.bytes, bytes_of)
    }

    /// Connections that were sent away or did not finish their handshake.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Of these, trusted ones that were told that another one has the robot.
    pub fn busy(&self) -> u64 {
        self.busy
    }

    /// The last who was sent away since this was asked last: its address, and the key that it showed if one did.
    pub fn take_stranger(&mut self) -> Option<(SocketAddr, Option<ShownKey>)> {
        self.stranger.take()
    }

    fn work(&mut self, now: Time) {
        if self.resting.is_some_and(|until| now >= until) {
            self.resting = None;
            self.listen_again(now);
        }
        if self.poller.wait(Some(Duration::ZERO), &mut self.ready).is_err() {
            return; // The connections find out by themselves.
        }
        if self.ready.iter().any(|ready| ready.token == LISTENER) {
            self.accept(now);
        }
        if let Some(served) = &mut self.served {
            served.handle_timeout(now);
        }
        if !self.guests.is_empty() {
            self.guests.iter_mut().for_each(|guest| guest.sealed.handle_timeout(now));
            self.settle(now);
        }
    }

    fn accept(&mut self, now: Time) {
        for _ in 0..ACCEPTS {
            if self.served.is_some() && !self.visits.take(now) {
                return self.rest();
            }
            let Some(Ok((stream, peer))) = self.listener.as_ref().map(TcpListener::accept) else { return };
            if self.welcome(now, stream, peer).is_err() {
                self.refuse(peer);
            }
        }
    }

    /// Who knocks waits for a while.
    fn rest(&mut self) {
        let Some(listener) = &self.listener else { return };
        if self.poller.remove(listener.as_fd()).is_ok() {
            self.resting = Some(self.visits.empty_at());
        }
    }

    fn listen_again(&mut self, now: Time) {
        if let Some(listener) = &self.listener
            && self.poller.add(listener.as_fd(), LISTENER, Interest::Readable).is_err()
        {
            self.resting = Some(now + PER_GUEST); // The kernel has no memory left: it may have some later.
        }
    }

    fn welcome(&mut self, now: Time, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let tcp = KernelTcp::accepted(now, stream, self.config)?;
        self.poller.add(tcp.poller.as_fd(), GUEST, Interest::Readable)?;
        if self.guests.len() == GUESTS {
            self.evict();
        }
        let sealed = (self.seal)(tcp).received_by(&self.reception);
        self.guests.push(Guest { sealed, peer, from: network(peer.ip()) });
        Ok(())
    }

    /// Somebody has to go: who crowds the others out crowds itself out first.
    fn evict(&mut self) {
        let of = |from| self.guests.iter().filter(|guest| guest.from == from).count();
        let most = self.guests.iter().map(|guest| of(guest.from)).max();
        if let Some(place) = self.guests.iter().position(|guest| Some(of(guest.from)) == most) {
            let guest = self.guests.remove(place);
            guest.sealed.inner().reset();
            self.refuse(guest.peer);
        }
    }

    fn refuse(&mut self, peer: SocketAddr) {
        self.refused += 1;
        self.remember(peer, None);
        self.events.push_back(Event::Refused(DropCause::Unauthenticated));
    }

    fn remember(&mut self, peer: SocketAddr, key: Option<ShownKey>) {
        if is_remembered(key, self.stranger.and_then(|(_, key)| key)) {
            self.stranger = Some((peer, key));
        }
    }

    /// Hears what became of the guests.
    fn settle(&mut self, now: Time) {
        let mut place = 0;
        while place < self.guests.len() {
            let Guest { sealed: guest, peer, .. } = &mut self.guests[place];
            let peer = *peer;
            match guest.poll_event() {
                Some(Event::Connected) => {
                    let guest = self.guests.remove(place);
                    self.serve(now, guest);
                }
                // Of its own account: the connection said nothing in time, or something wrong.
                Some(Event::Refused(cause)) => {
                    let key = guest.stranger();
                    self.busy += u64::from(guest.stats().busy > 0);
                    self.refused += 1;
                    self.remember(peer, key);
                    self.events.push_back(Event::Refused(cause));
                }
                Some(_) => {}
                None if guest.is_over() => drop(self.guests.remove(place)),
                None => place += 1,
            }
        }
    }

    /// This one is who it says, and trusted.
    fn serve(&mut self, now: Time, guest: Guest) {
        let Guest { sealed: mut guest, peer, .. } = guest;
        if !guest.serve(now) {
            return self.refuse(peer);
        }
        if let Some(mut old) = self.served.take() {
            old.abandon();
            self.events.extend(std::iter::from_fn(|| old.poll_event()));
        }
        self.served = Some(guest);
        self.events.push_back(Event::Connected);
    }
}

impl Transport for Acceptor {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        self.served.as_mut().map_or(Err(SendError::Closed), |served| served.send(now, message))
    }

    /// Nothing arrives but what the sockets have.
    fn handle_input(&mut self, now: Time, _input: Datagram<'_>) {
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.work(now);
    }

    /// Gives the kernel what it takes; never a datagram.
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for sealed in self.guests.iter_mut().map(|guest| &mut guest.sealed).chain(&mut self.served) {
            sealed.poll_transmit(now, buffer);
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let event = self.served.as_mut()?.poll_event();
        if event == Some(Event::Closed) && self.listener.is_some() {
            self.bytes = self.stream_bytes();
            self.reception.leave();
            // What has not left is told before the end is.
            let mut served = self.served.take()?;
            served.abandon();
            self.events.extend(std::iter::from_fn(|| served.poll_event()));
            self.events.extend(event);
            return self.events.pop_front();
        }
        event
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let connections = self.guests.iter().map(|guest| &guest.sealed).chain(&self.served);
        let rest = self.resting.map(|until| Deadline::new(until, "strangers"));
        connections.fold(rest, |first, sealed| earliest(first, sealed.poll_timeout()))
    }

    fn close(&mut self, now: Time) {
        (self.listener, self.resting) = (None, None);
        self.guests.clear();
        match &mut self.served {
            // It lingers until what was said has left.
            Some(served) => served.close(now),
            None => self.events.push_back(Event::Closed),
        }
    }

    // Its paths are the kernel's.
    taut_core::ignores_paths!();

    fn uses_path(&self, _: PathId) -> bool {
        true
    }

    /// Of the operator's connection.
    fn round_trip(&self) -> Option<Duration> {
        self.served.as_ref()?.round_trip()
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    fn delivered(&self) -> Option<u64> {
        self.served.as_ref()?.delivered()
    }

    fn waiting(&self) -> Waiting {
        self.served.as_ref().map_or(Waiting::Nothing, Transport::waiting)
    }
}

fn bytes_of(sealed: &Sealed<KernelTcp>) -> (u64, u64) {
    let stats = sealed.inner().stats();
    (stats.bytes_sent, stats.bytes_received)
}

/// Whoever has an IPv6 address has at least the 2⁶⁴ of its network (RFC 6177).
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("served", &self.served)
            .field("guests", &self.guests.len())
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}
