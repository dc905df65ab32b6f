//! Who floods a socket does not fill its buffer: while that goes on, few datagrams of strangers come so far.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::libc;
use socket2::{SockFilter, SockRef};
use taut_core::{Duration, Time};

/// The guard of one socket. While strangers flood it, all that comes from those whom the machine knows to be its peers passes, and of anything else one
/// datagram in [`SHARE`]: little beside what peers say, and enough to hear one whose address has changed. The kernel decides, by a filter
/// (`SO_ATTACH_FILTER`, socket(7)), before it puts a datagram into the buffer that all share. Where it takes none, nothing is guarded.
///
/// What the kernel dropped it counts for each socket (`SO_MEMINFO`), whether the filter did it or the buffer was full.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Datagrams of strangers that came in this period.
    strangers: u64,
    ends: Time,
    /// Those who pass; empty: everybody does, and there is no filter.
    known: Vec<SocketAddr>,
    /// The kernel's count, as it was last looked at.
    dropped: u32,
    /// Of this flood.
    flooded: u64,
    /// Not told yet.
    note: Option<FloodNote>,
    next_note: Time,
}

/// Strangers flood a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloodNote {
    /// Where it is reached.
    pub socket: SocketAddr,
    /// Since what was told before.
    pub change: FloodChange,
    /// Those of whom everything passes, while it goes on.
    pub peers: usize,
    /// Datagrams that the kernel has dropped there since this flood was noticed: of strangers, and of anybody where the buffer was full all the same.
    pub dropped: u64,
}

taut_core::named! {
    /// What there is to tell about a flood.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FloodChange {
        /// It was noticed: of strangers one datagram in 16 passes from now on.
        Began = "began",
        /// It goes on, and others are the peers.
        Peers = "peers",
        /// It goes on; told once a second, for the count.
        GoesOn = "goes_on",
        /// It is over, or nobody is left whom the others could crowd out: everybody passes.
        Ended = "ended",
        /// It goes on, and the kernel did not take the filter for the peers that there are now: everybody passes.
        NotTaken = "not_taken",
    }
}

impl fmt::Display for FloodNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, peers, dropped, .. } = self;
        match self.change {
            FloodChange::Began => {
                write!(
                    f,
                    "strangers flood {socket}: {peers} peers pass, and of anybody else one datagram in {SHARE}"
                )
            }
            FloodChange::Peers => {
                write!(
                    f,
                    "strangers flood {socket} still, and its peers changed: {peers} pass now; {dropped} datagrams dropped so far"
                )
            }
            FloodChange::GoesOn => {
                write!(f, "strangers flood {socket} still: {dropped} datagrams dropped so far")
            }
            FloodChange::Ended => {
                write!(f, "the flood of {socket} is over: everybody passes; {dropped} datagrams were dropped")
            }
            FloodChange::NotTaken => {
                write!(
                    f,
                    "strangers flood {socket} still, but the kernel takes no filter: everybody passes; {dropped} datagrams were dropped"
                )
            }
        }
    }
}

/// What a look finds that the kernel dropped since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelDrops {
    /// While strangers were kept out.
    pub(super) flooded: u64,
    /// While everybody passed: the buffer was full.
    pub(super) full: u64,
}

/// So long they are counted.
const PERIOD: Duration = Duration::from_millis(100);
/// It is a flood when more come in a period, about as many as twice the buffer holds, and over when fewer do.
const FLOOD: u64 = 500;
const CALM: u64 = 125;
/// A power of two.
const SHARE: u32 = 16;
/// With more peers than that there is no filter.
const MOST_KNOWN: usize = 8;
/// How often the count of a flood is told while it goes on.
const NOTES: Duration = Duration::from_secs(1);

impl Guard {
    /// Of a socket that may have had another one: everybody passes, and what was dropped before is that one's.
    pub(super) fn new(socket: &UdpSocket) -> Self {
        let _ = SockRef::from(socket).detach_filter(); // There may be none.
        Self { dropped: kernel_drops(socket).unwrap_or_default(), ..Self::default() }
    }

    pub(super) fn heard(&mut self, strangers: u64) {
        self.strangers += strangers;
    }

    /// What is to be told, once.
    pub(super) fn poll_note(&mut self) -> Option<FloodNote> {
        self.note.take()
    }

    /// Once a period: is it a flood? `known` are the peers that have come here. What the kernel dropped since the last time.
    pub(super) fn look(
        &mut self,
        now: Time,
        socket: &UdpSocket,
        known: impl FnOnce() -> Vec<SocketAddr>,
    ) -> KernelDrops {
        if now < self.ends {
            return KernelDrops::default();
        }
        self.ends = now + PERIOD;
        let drops = self.count(socket);
        let strangers = std::mem::take(&mut self.strangers);
        if let Some(change) = self.decide(strangers, socket, known) {
            self.tell(now, socket, change);
        }
        drops
    }

    fn count(&mut self, socket: &UdpSocket) -> KernelDrops {
        let all = kernel_drops(socket).unwrap_or(self.dropped);
        // It wraps, as the kernel's does.
        let new = all.wrapping_sub(std::mem::replace(&mut self.dropped, all)).into();
        if self.known.is_empty() {
            return KernelDrops { full: new, flooded: 0 };
        }
        self.flooded += new;
        KernelDrops { full: 0, flooded: new }
    }

    fn decide(
        &mut self,
        strangers: u64,
        socket: &UdpSocket,
        known: impl FnOnce() -> Vec<SocketAddr>,
    ) -> Option<FloodChange> {
        let was_on = !self.known.is_empty();
        let (each, limit) = if was_on { (SHARE.into(), CALM) } else { (1, FLOOD) };
        let mut known = if strangers * each >= limit { known() } else { Vec::new() };
        if known.len() > MOST_KNOWN {
            known.clear();
        }
        if known == self.known {
            return was_on.then_some(FloodChange::GoesOn);
        }
        let socket = SockRef::from(socket);
        let is_taken = known.is_empty() || socket.attach_filter(&filter(&known)).is_ok();
        // Where another one is not taken, the one before goes as well.
        if known.is_empty() || !is_taken {
            let _ = socket.detach_filter(); // There may be none.
            known.clear();
        }
        self.known = known;
        match (was_on, self.known.is_empty()) {
            (false, false) => {
                self.flooded = 0;
                Some(FloodChange::Began)
            }
            (true, false) => Some(FloodChange::Peers),
            (true, true) if is_taken => Some(FloodChange::Ended),
            (true, true) => Some(FloodChange::NotTaken),
            (false, true) => None,
        }
    }

    fn tell(&mut self, now: Time, socket: &UdpSocket, change: FloodChange) {
        if change == FloodChange::GoesOn && now < self.next_note {
            return;
        }
        self.next_note = now + NOTES;
        let (peers, dropped) = (self.known.len(), self.flooded);
        self.note = socket.local_addr().ok().map(|socket| FloodNote { socket, change, peers, dropped });
        if let Some(note) = &self.note {
            match change {
                FloodChange::GoesOn => tracing::debug!("{note}"),
                FloodChange::NotTaken => tracing::warn!("{note}"),
                FloodChange::Began | FloodChange::Peers | FloodChange::Ended => tracing::info!("{note}"),
            }
        }
    }
}

/// How many datagrams the kernel has dropped at this socket since it was made, modulo 2³²: their checksum was wrong, or the buffer was full.
pub fn kernel_drops(socket: &UdpSocket) -> Option<u32> {
    /// `SK_MEMINFO_DROPS` of linux/sock_diag.h, the last of as many.
    const DROPS: usize = 8;
    let mut info = [0u32; DROPS + 1];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes to `info`, which has as many and lives until it returns. No crate of this workspace wraps it.
    #[allow(unsafe_code)]
    let status = unsafe {
        let to = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, to, &raw mut length)
    };
    (status == 0 && length as usize == size_of_val(&info)).then_some(info[DROPS])
}

const ALL: u32 = u32::MAX;
const NONE: u32 = 0;

/// Classic BPF (`linux/filter.h`). It begins at the UDP header; the IP header is reached by [`libc::SKF_NET_OFF`].
fn filter(known: &[SocketAddr]) -> Vec<SockFilter> {
    let mut program = Vec::new();
    for peer in known {
        let (source, words) = match peer.ip().to_canonical() {
            IpAddr::V4(ip) => (12, vec![u32::from(ip)]),
            IpAddr::V6(ip) => {
                let word = |at| (u128::from(ip) >> (96 - 32 * at)) as u32;
                (8, (0..4).map(word).collect())
            }
        };
        // To the next peer, where one comparison fails.
        let mut left = 2 * words.len() as u8 + 3;
        for (word, at) in words.into_iter().zip((source..).step_by(4)) {
            left -= 2;
            program.extend([load(libc::BPF_W, libc::SKF_NET_OFF + at), unless(word, left)]);
        }
        program.extend([load(libc::BPF_H, 0), unless(peer.port().into(), 1), end(ALL)]);
    }
    let lot = SockFilter::new((libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16, 0, 0, SHARE - 1);
    program.extend([load(libc::BPF_W, libc::SKF_AD_OFF + libc::SKF_AD_RANDOM), lot, unless(0, 1), end(ALL)]);
    program.push(end(NONE));
    program
}

const fn load(width: u32, offset: i32) -> SockFilter {
    SockFilter::new((libc::BPF_LD | width | libc::BPF_ABS) as u16, 0, 0, offset.cast_unsigned())
}

/// Skips so many instructions, unless what was loaded is this.
const fn unless(value: u32, skips: u8) -> SockFilter {
    SockFilter::new((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, skips, value)
}

/// So many bytes of the datagram are let in.
const fn end(bytes: u32) -> SockFilter {
    SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many datagrams come, a few at a time, for a buffer holds no more.
    fn passes(from: &UdpSocket, to: &UdpSocket, count: u32) -> u32 {
        let (mut buffer, address) = ([0; 64], to.local_addr().unwrap());
        let address = match from.local_addr().unwrap() {
            SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], address.port())),
            SocketAddr::V6(_) => SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), address.port()),
        };
        let some = |_| {
            (0..50).for_each(|_| assert_eq!(from.send_to(&[7; 40], address).unwrap(), 40));
            std::iter::from_fn(|| to.recv(&mut buffer).ok()).inspect(|length| assert_eq!(*length, 40)).count()
                as u32
        };
        (0..count / 50).map(some).sum()
    }

    fn guarded(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    #[test]
    fn all_of_a_peer_passes_and_a_share_of_anybody_else() {
        for (at, one, other) in
            [("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"), ("[::]:0", "127.0.0.1:0", "[::1]:0")]
        {
            let (socket, one, other) =
                (guarded(at), UdpSocket::bind(one).unwrap(), UdpSocket::bind(other).unwrap());
            let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
            let known = [one.local_addr().unwrap(), other.local_addr().unwrap()];
            SockRef::from(&socket).attach_filter(&filter(&known)).unwrap();
            assert_eq!((passes(&one, &socket, 200), passes(&other, &socket, 200)), (200, 200), "{at}");
            let share = passes(&stranger, &socket, 3_200);
            // 200, with a standard deviation of 14.
            assert!((100..300).contains(&share), "{at}: {share}");
        }
    }

    #[test]
    fn a_flood_begins_a_filter_and_its_end_takes_it_away_and_what_was_dropped_is_told() {
        let (socket, peer, stranger) =
            (guarded("127.0.0.1:0"), guarded("127.0.0.1:0"), guarded("127.0.0.1:0"));
        let known = || vec![peer.local_addr().unwrap()];
        let (mut guard, mut now) = (Guard::new(&socket), Time::ZERO);
        // What passes after a look, which tells what was dropped before it, and how it was told.
        let mut look = |strangers, known: Vec<SocketAddr>| {
            now += PERIOD;
            guard.heard(strangers);
            let drops = guard.look(now, &socket, || known);
            let note = guard.poll_note();
            let told = note.map(|note| (note.change, note.peers, note.dropped));
            assert!(note.is_none_or(|note| note.socket == socket.local_addr().unwrap()));
            (passes(&stranger, &socket, 1_600), drops, told)
        };
        let none = KernelDrops::default();
        let flooded = |passed: u32| KernelDrops { flooded: u64::from(1_600 - passed), full: 0 };
        assert_eq!(look(FLOOD - 1, known()), (1_600, none, None), "no flood");
        assert_eq!(look(FLOOD, Vec::new()), (1_600, none, None), "nobody is there who could be kept out");
        let (first, drops, told) = look(FLOOD, known());
        assert!(first < 300 && drops == none, "{first}");
        assert_eq!(told, Some((FloodChange::Began, 1, 0)));
        let (second, drops, told) = look(FLOOD / u64::from(SHARE), known());
        assert!(second < 300, "few come, of many");
        assert_eq!((drops, told), (flooded(first), None), "not once a period");
        let both = flooded(first).flooded + flooded(second).flooded;
        let (passed, drops, told) = look(FLOOD, Vec::new());
        assert_eq!((passed, drops), (1_600, flooded(second)), "the peer is gone: anybody may be the next");
        assert_eq!(told, Some((FloodChange::Ended, 0, both)));
        let (third, ..) = look(FLOOD, known());
        let other = vec![known()[0], stranger.local_addr().unwrap()];
        let (passed, _, told) = look(FLOOD, other.clone());
        assert_eq!(
            (passed, told),
            (1_600, Some((FloodChange::Peers, 2, flooded(third).flooded))),
            "it is one of them"
        );
        let told: Vec<_> =
            (0..21).filter_map(|_| look(FLOOD, other.clone()).2).map(|(change, ..)| change).collect();
        assert_eq!(told, [FloodChange::GoesOn; 2], "once a second");
        assert!(look(FLOOD, known()).0 < 300);
        assert_eq!(look(CALM / u64::from(SHARE), known()).0, 1_600, "it is over");
    }

    #[test]
    fn the_next_guard_of_a_socket_lets_everybody_in_and_counts_from_there() {
        let (socket, peer, stranger) =
            (guarded("127.0.0.1:0"), guarded("127.0.0.1:0"), guarded("127.0.0.1:0"));
        let mut guard = Guard::new(&socket);
        guard.heard(FLOOD);
        guard.look(Time::ZERO + PERIOD, &socket, || vec![peer.local_addr().unwrap()]);
        assert!(passes(&stranger, &socket, 1_600) < 300);
        // Its conversation is over, and the socket is the next one's.
        let next = socket.try_clone().unwrap();
        drop((guard, socket));
        let mut guard = Guard::new(&next);
        assert_eq!(passes(&stranger, &next, 1_600), 1_600);
        assert_eq!(guard.look(Time::ZERO + PERIOD * 2, &next, Vec::new), KernelDrops::default());
    }

    #[test]
    fn a_filter_that_is_not_taken_is_no_end_of_a_flood() {
        let socket = guarded("127.0.0.1:0");
        let peer = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (mut guard, mut now) = (Guard::new(&socket), Time::ZERO);
        let mut look = |known: Vec<SocketAddr>| {
            now += PERIOD;
            guard.heard(FLOOD);
            guard.look(now, &socket, || known);
            guard.poll_note().map(|note| (note.change, note.peers))
        };
        assert_eq!(look(vec![peer(1)]), Some((FloodChange::Began, 1)));
        // One whose filter is locked takes no other (socket(7)).
        let (yes, length) = (1i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: the call reads `length` bytes of `yes`, which has as many and lives until it returns.
        #[allow(unsafe_code)]
        let status = unsafe {
            let from = (&raw const yes).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LOCK_FILTER, from, length)
        };
        assert_eq!(status, 0);
        assert_eq!(look(vec![peer(2)]), Some((FloodChange::NotTaken, 0)));
        assert_eq!(look(vec![peer(2)]), None, "there is nothing new");
    }

    #[test]
    fn a_buffer_that_was_full_counts_as_that() {
        let (socket, stranger) = (guarded("127.0.0.1:0"), guarded("127.0.0.1:0"));
        let mut guard = Guard::new(&socket);
        // Nobody reads, and it holds no more than that.
        SockRef::from(&socket).set_recv_buffer_size(100_000).unwrap();
        (0..2_000).for_each(|_| _ = stranger.send_to(&[7; 1_000], socket.local_addr().unwrap()).unwrap());
        let drops = guard.look(Time::ZERO + PERIOD, &socket, Vec::new);
        assert!(drops.full > 500 && drops.flooded == 0, "{drops:?}");
        assert_eq!(guard.look(Time::ZERO + PERIOD * 2, &socket, Vec::new), KernelDrops::default());
    }
}
