//! The applications' side of a proxy: sockets, and which of them a flow is.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use taut_core::{Duration, Time};

use super::ProxyLocal;
use super::stamped::{self, Stamped};
use crate::driver::poller::{Interest, Poller, Ready};

/// Sockets of applications and the flows over them.
#[derive(Debug)]
pub(super) struct Local {
    /// One descriptor for the driver, however many sockets there are.
    poller: Poller,
    ready: Vec<Ready>,
    side: Side,
    /// When it is looked for flows in which nothing is said.
    next_sweep: Option<Time>,
    /// Flows that gave way to others.
    displaced: u64,
}

#[derive(Debug)]
enum Side {
    Near(Near),
    Far(Far),
}

/// One socket; a flow is an address that sends there.
#[derive(Debug)]
struct Near {
    socket: UdpSocket,
    by_address: BTreeMap<SocketAddr, u16>,
    flows: BTreeMap<u16, (SocketAddr, Time)>,
    /// The next number that is tried.
    next: u16,
    /// Whose the last datagram was: the next one most likely is too.
    last: Option<(SocketAddr, u16)>,
}

/// A socket for each flow, all connected to one address.
#[derive(Debug)]
struct Far {
    to: SocketAddr,
    flows: BTreeMap<u16, (UdpSocket, Time)>,
    /// Datagrams taken in a row from the flow whose turn it is.
    taken: usize,
}

/// A socket that had an error instead of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Why an application did not get a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undelivered {
    /// There is no such flow any more.
    NoFlow,
    /// There is no room for another one.
    Full,
    /// The kernel refused.
    Refused,
}

/// A flow's number, and whether it is new.
pub(super) type Flow = (u16, bool);

/// A datagram of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) len: usize,
    /// `None`: there is no room for another flow.
    pub(super) flow: Option<Flow>,
    /// For how long it waited in the kernel: as when this thread had no CPU.
    pub(super) waited: Duration,
}

/// How often it is looked for flows in which nothing is said.
const SWEEP: Duration = Duration::from_secs(1);
/// Once nothing was said in it for so long, a flow gives way to another when there is no room: addresses that spoke once, forged
/// ones perhaps, keep nobody out.
const QUIET: Duration = Duration::from_secs(1);
/// So many datagrams of a flow are taken before another has its turn.
const TURN: usize = 8;
/// The token of the near end's socket; those of the far end's are the flows'.
const NEAR: u64 = 1 << 16;

impl Local {
    pub(super) fn new(local: ProxyLocal) -> io::Result<Self> {
        let poller = Poller::new()?;
        let side = match local {
            ProxyLocal::Near(socket) => {
                socket.set_nonblocking(true)?;
                set_up(&socket);
                poller.add(socket.as_fd(), NEAR, Interest::Readable)?;
                Side::Near(Near {
                    socket,
                    by_address: BTreeMap::new(),
                    flows: BTreeMap::new(),
                    // Another life of this proxy hardly ever takes up the flows of the one before.
                    next: crate::session::os_seed().get() as u16,
                    last: None,
                })
            }
            ProxyLocal::Far(to) => Side::Far(Far { to, flows: BTreeMap::new(), taken: 0 }),
        };
        Ok(Self { poller, ready: Vec::new(), side, next_sweep: None, displaced: 0 })
    }

    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.poller.as_fd().try_clone_to_owned()
    }

    pub(super) const fn next_sweep(&self) -> Option<Time> {
        self.next_sweep
    }

    /// The next datagram of an application, into `buffer`.
    pub(super) fn receive(
        &mut self,
        now: Time,
        limit: usize,
        buffer: &mut [u8],
    ) -> Result<Option<Taken>, Unreadable> {
        let got = match &mut self.side {
            Side::Near(near) => {
                stamped::receive(&near.socket, buffer).map(|Stamped { len, from, waited }| {
                    let flow = from.and_then(|from| near.flow_of(now, from, limit, &mut self.displaced));
                    Some(Taken { len, flow, waited })
                })
            }
            Side::Far(far) => {
                if self.ready.is_empty() {
                    let looked = self.poller.wait(Some(Duration::ZERO), &mut self.ready);
                    if looked.is_err() || self.ready.is_empty() {
                        return Ok(None);
                    }
                }
                let flow = self.ready.last().expect("it is not empty").token as u16;
                let got =
                    far.flows.get_mut(&flow).map(|(socket, heard)| (stamped::receive(socket, buffer), heard));
                far.taken += 1;
                if far.taken == TURN || !matches!(got, Some((Ok(_), _))) {
                    far.taken = 0;
                    self.ready.pop();
                }
                match got {
                    Some((Ok(Stamped { len, waited, .. }), heard)) => {
                        *heard = now;
                        Ok(Some(Taken { len, flow: Some((flow, false)), waited }))
                    }
                    // Nobody listens there, an earlier datagram learned.
                    Some((Err(error), _)) if error.kind() != ErrorKind::WouldBlock => return Err(Unreadable),
                    // There is no more, or no such flow any more.
                    _ => return self.receive(now, limit, buffer),
                }
            }
        };
        if self.next_sweep.is_none() && got.is_ok() {
            self.next_sweep = Some(now + SWEEP);
        }
        match got {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(_) => Err(Unreadable),
            Ok(one) => Ok(one),
        }
    }

    /// Gives a datagram to the application of a flow. At the far end a flow begins with its first datagram; then it is
    /// true.
    pub(super) fn send(
        &mut self,
        now: Time,
        flow: u16,
        payload: &[u8],
        limit: usize,
    ) -> Result<bool, Undelivered> {
        let (sent, is_new) = match &mut self.side {
            Side::Near(near) => {
                let (address, heard) = near.flows.get_mut(&flow).ok_or(Undelivered::NoFlow)?;
                *heard = now;
                (near.socket.send_to(payload, *address), false)
            }
            Side::Far(far) => {
                let is_new = !far.flows.contains_key(&flow);
                if is_new {
                    if far.flows.len() >= limit {
                        let heard = far.flows.iter().map(|(flow, (_, heard))| (*flow, *heard));
                        let flow = quietest(now, heard).ok_or(Undelivered::Full)?;
                        // A socket that is closed leaves the poller.
                        far.flows.remove(&flow);
                        self.displaced += 1;
                    }
                    let socket = connected(far.to).map_err(|_| Undelivered::Refused)?;
                    let added = self.poller.add(socket.as_fd(), flow.into(), Interest::Readable);
                    added.map_err(|_| Undelivered::Refused)?;
                    far.flows.insert(flow, (socket, now));
                    self.next_sweep.get_or_insert(now + SWEEP);
                }
                let (socket, heard) = far.flows.get_mut(&flow).expect("it is there");
                *heard = now;
                (socket.send(payload), is_new)
            }
        };
        match sent {
            Ok(_) => Ok(is_new),
            Err(_) => Err(Undelivered::Refused),
        }
    }

    /// Ends the flows in which nothing was said for `idle`; how many.
    pub(super) fn sweep(&mut self, now: Time, idle: Duration) -> u64 {
        if self.next_sweep.is_none_or(|at| now < at) {
            return 0;
        }
        let alive = |heard: &Time| now.saturating_since(*heard) < idle;
        let (before, after) = match &mut self.side {
            Side::Near(near) => {
                let before = near.flows.len();
                near.flows.retain(|_, (_, heard)| alive(heard));
                near.by_address.retain(|_, flow| near.flows.contains_key(flow));
                near.last = None;
                (before, near.flows.len())
            }
            Side::Far(far) => {
                let before = far.flows.len();
                // A socket that is closed leaves the poller.
                far.flows.retain(|_, (_, heard)| alive(heard));
                (before, far.flows.len())
            }
        };
        self.next_sweep = (after > 0).then_some(now + SWEEP);
        (before - after) as u64
    }

    /// How many gave way to others since the last call.
    pub(super) const fn take_displaced(&mut self) -> u64 {
        std::mem::replace(&mut self.displaced, 0)
    }

    /// At the far end: another conversation numbers its flows anew.
    pub(super) fn forget_far(&mut self) {
        if let Side::Far(far) = &mut self.side {
            far.flows.clear();
            self.ready.clear();
        }
    }
}

impl Near {
    fn flow_of(&mut self, now: Time, from: SocketAddr, limit: usize, displaced: &mut u64) -> Option<Flow> {
        let known = match self.last {
            Some((address, flow)) if address == from => Some(flow),
            _ => self.by_address.get(&from).copied(),
        };
        let (flow, is_new) = match known {
            Some(flow) => (flow, false),
            None => {
                if self.flows.len() >= limit {
                    let heard = self.flows.iter().map(|(flow, (_, heard))| (*flow, *heard));
                    let flow = quietest(now, heard)?;
                    let (address, _) = self.flows.remove(&flow).expect("it is one of them");
                    self.by_address.remove(&address);
                    *displaced += 1;
                }
                while self.flows.contains_key(&self.next) {
                    self.next = self.next.wrapping_add(1);
                }
                let flow = self.next;
                self.next = self.next.wrapping_add(1);
                self.by_address.insert(from, flow);
                (flow, true)
            }
        };
        self.flows.insert(flow, (from, now));
        self.last = Some((from, flow));
        Some((flow, is_new))
    }
}

/// The flow in which nothing was said for longest, if that is long enough.
fn quietest(now: Time, flows: impl Iterator<Item = (u16, Time)>) -> Option<u16> {
    let (flow, heard) = flows.min_by_key(|(_, heard)| *heard)?;
    (now.saturating_since(heard) >= QUIET).then_some(flow)
}

/// A socket of which the application there knows a flow.
fn connected(to: SocketAddr) -> io::Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    set_up(&socket);
    Ok(socket)
}

/// Some thousand small datagrams wait in the kernel while this thread is not on a CPU; fewer where the system allows less. They are
/// stamped when they arrive there.
fn set_up(socket: &UdpSocket) {
    stamped::ask(socket);
    let _ = socket2::SockRef::from(socket).set_recv_buffer_size(4 << 20);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_far_end_a_flow_that_says_much_keeps_no_other_one_from_being_heard() {
        let application = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        for loud in [1, 2] {
            let to = application.local_addr().expect("an address");
            let (mut local, now) = (Local::new(ProxyLocal::Far(to)).expect("a poller"), Time::ZERO);
            for flow in [1, 2] {
                assert_eq!(local.send(now, flow, &[flow as u8], 2), Ok(true));
                let (mut hello, count) = ([0], if flow == loud { 100 } else { 1 });
                let (_, from) = application.recv_from(&mut hello).expect("a datagram");
                (0..count).for_each(|_| assert_eq!(application.send_to(b"heard", from).ok(), Some(5)));
            }
            let mut buffer = [0; 16];
            let mut flow = || Some(local.receive(now, 2, &mut buffer).ok()??.flow?.0);
            let heard: Vec<u16> = std::iter::from_fn(&mut flow).collect();
            assert_eq!(heard.len(), 101, "all");
            assert!(heard[..2 * TURN].contains(&(3 - loud)), "{heard:?}");
        }
    }
}
