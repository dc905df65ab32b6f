//! Who floods a socket does not fill its buffer: while that goes on, few datagrams of strangers come so far.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use nix::libc;
use socket2::{SockFilter, SockRef};
use taut_core::{Duration, Time};

/// The guard of one socket. While strangers flood it, all that comes from those whom the machine knows to be its peers passes, and of anything else one
/// datagram in [`SHARE`]: little beside what peers say, and enough to hear one whose address has changed. The kernel decides, by a filter
/// (`SO_ATTACH_FILTER`, socket(7)), before it puts a datagram into the buffer that all share. Where it takes none, nothing is guarded.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Datagrams of strangers that came in this period.
    strangers: u64,
    ends: Time,
    /// Those who pass; empty: everybody does, and there is no filter.
    known: Vec<SocketAddr>,
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

impl Guard {
    pub(super) fn heard(&mut self, strangers: u64) {
        self.strangers += strangers;
    }

    /// Once a period: is it a flood? `known` are the peers that have come here.
    pub(super) fn look(&mut self, now: Time, socket: &UdpSocket, known: impl FnOnce() -> Vec<SocketAddr>) {
        if now < self.ends {
            return;
        }
        let is_on = !self.known.is_empty();
        let (each, limit) = if is_on { (SHARE.into(), CALM) } else { (1, FLOOD) };
        let strangers = std::mem::take(&mut self.strangers) * each;
        self.ends = now + PERIOD;
        let mut known = if strangers >= limit { known() } else { Vec::new() };
        if known.len() > MOST_KNOWN {
            known.clear();
        }
        if known == self.known {
            return;
        }
        tracing::info!(
            strangers,
            peers = known.len(),
            "strangers flood a socket, or do no more: who passes while they do is set anew"
        );
        let socket = SockRef::from(socket);
        // Where another one is not taken, the one before goes as well.
        if known.is_empty() || socket.attach_filter(&filter(&known)).is_err() {
            let _ = socket.detach_filter(); // There may be none.
            known.clear();
        }
        self.known = known;
    }
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
    fn a_flood_begins_a_filter_and_its_end_takes_it_away() {
        let (socket, peer, stranger) =
            (guarded("127.0.0.1:0"), guarded("127.0.0.1:0"), guarded("127.0.0.1:0"));
        let known = || vec![peer.local_addr().unwrap()];
        let (mut guard, mut now) = (Guard::default(), Time::ZERO);
        let mut look = |strangers, known: Vec<SocketAddr>| {
            now += PERIOD;
            guard.heard(strangers);
            guard.look(now, &socket, || known);
            passes(&stranger, &socket, 1_600)
        };
        assert_eq!(look(FLOOD - 1, known()), 1_600, "no flood");
        assert_eq!(look(FLOOD, Vec::new()), 1_600, "nobody is there who could be kept out");
        assert!(look(FLOOD, known()) < 300);
        assert!(look(FLOOD / u64::from(SHARE), known()) < 300, "few come, of many");
        assert_eq!(look(FLOOD, Vec::new()), 1_600, "the peer is gone: anybody may be the next");
        assert!(look(FLOOD, known()) < 300);
        assert_eq!(look(CALM / u64::from(SHARE), known()), 1_600, "it is over");
    }
}
