//! Opens the window for an emergency that waits for it while nothing is heard.
//!
//! On a path that carried nothing for longer than the retransmission timeout the window is one packet, which is under way until the timer
//! expires again, 4 s later at most; and before anything new leaves, all that was under way is repeated. A stop that is pressed then would
//! wait for all of that after the path is back.
//!
//! So each copy of it that cannot leave, and a tenth of a second without one, sends one packet ahead of the window, as a tail loss probe does (RFC 8985 section 7). It tells the peer to wait
//! for no unreliable message that is under way (FORWARD TSN, RFC 3758 section 3.2; nothing of a whole unordered message is half received, so
//! that no stream has to be named), and has the newest of them with it; or, from the first on that must arrive, as many of those as find room.
//! They ask to be acknowledged at once (I bit, RFC 7053). A round trip after the path is back nothing is under way any more, and the stop leaves. The window stays
//! what the timer made of it.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use super::packet::{self, Chunk, distance};
use super::repeats::JUMP;
use super::tail::HELD;

/// Copies of an emergency come together at first; one in so long is enough to be answered soon after the path is back, and few enough for it.
const APART: Duration = Duration::from_millis(20);
/// Without another copy as well, so long after the last.
const AGAIN: Duration = Duration::from_millis(100);

/// What was sent and not acknowledged, as far as it has to be known for that.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// Bytes of a full packet.
    full: usize,
    header: Vec<u8>,
    /// The first number of `chunks`.
    first: u32,
    /// Those that must arrive; the others may be skipped.
    chunks: VecDeque<Option<Vec<u8>>>,
    newest: Vec<u8>,
    /// The newest emergency.
    urgent: Option<u32>,
    /// Since when the first is under way and all before it acknowledged. What is heard of others opens no window that is full of what is repeated.
    since: Time,
    /// When a packet left ahead of the window.
    probed: Option<Time>,
}

impl Outstanding {
    /// Of an end whose packets are no longer than so many bytes.
    pub(super) const fn new(full: usize) -> Self {
        Self {
            full,
            header: Vec::new(),
            first: 0,
            chunks: VecDeque::new(),
            newest: Vec::new(),
            urgent: None,
            since: Time::ZERO,
            probed: None,
        }
    }

    /// A packet leaves, or would, as far as `dcsctp` knows. `is_urgent` says it of a whole message by its payload protocol identifier.
    pub(super) fn sent(&mut self, now: Time, packet: &[u8], is_urgent: impl Fn(u32) -> bool) {
        for chunk in packet::chunks(packet) {
            let Some(tsn) = chunk.tsn() else { continue };
            if self.chunks.is_empty() || distance(self.first, tsn) >= self.chunks.len() as i64 + JUMP {
                self.chunks.clear();
                (self.first, self.since) = (tsn, now);
            }
            let index = distance(self.first, tsn);
            if index < self.chunks.len() as i64 {
                continue;
            }
            // `dcsctp` skips single numbers.
            self.chunks.resize(index as usize, None);
            let urgent = chunk.whole().map(&is_urgent);
            if urgent == Some(true) {
                self.urgent = Some(tsn);
            }
            let may_be_skipped = urgent == Some(false) && chunk.is_unordered();
            self.chunks.push_back((!may_be_skipped).then(|| chunk.asking()));
            self.newest.clear();
            self.newest.extend_from_slice(chunk.0);
            self.header.clear();
            self.header.extend_from_slice(packet::header(packet));
        }
    }

    /// The peer acknowledged, and `dcsctp` accepted it.
    pub(super) fn acknowledged(&mut self, now: Time, packet: &[u8]) {
        for (cumulative, _) in packet::chunks(packet).filter_map(Chunk::sack) {
            let done = distance(self.first, cumulative) + 1;
            if done > self.chunks.len() as i64 + JUMP {
                // Of what was never sent: `dcsctp` takes no notice of it.
                continue;
            }
            let done = usize::try_from(done).unwrap_or(0).min(self.chunks.len());
            if done > 0 {
                self.since = now;
            }
            self.chunks.drain(..done);
            self.first = self.first.wrapping_add(done as u32);
        }
    }

    /// Another association begins, or this one is over.
    pub(super) fn forget(&mut self) {
        self.chunks.clear();
        (self.probed, self.urgent) = (None, None);
    }

    /// Was all that was sent acknowledged?
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Is an emergency under way?
    pub(super) fn has_urgent(&self) -> bool {
        !self.chunks.is_empty() && self.urgent.is_some_and(|tsn| distance(self.first, tsn) >= 0)
    }

    /// When one leaves ahead of the window for an emergency that waits, whether a copy of it is offered or not.
    pub(super) fn due(&self, rtt: Duration) -> Option<Time> {
        self.after(rtt, AGAIN)
    }

    /// Once nothing was heard for long, and so long after the last.
    fn after(&self, rtt: Duration, apart: Duration) -> Option<Time> {
        let silent = self.since + rtt * 2 + HELD;
        let due = self.probed.map_or(silent, |probed| silent.max(probed + apart));
        (!self.chunks.is_empty()).then_some(due)
    }

    /// The packet that leaves ahead of the window for an emergency that waits; `rtt` is the round trip.
    pub(super) fn probe(&mut self, now: Time, rtt: Duration) -> Option<Vec<u8>> {
        self.after(rtt, APART).filter(|due| *due <= now)?;
        self.probed = Some(now);
        let newest = Chunk(&self.newest).asking();
        let before = self.chunks.iter().take_while(|chunk| chunk.is_none()).count();
        let skipped = before.min(self.chunks.len() - 1) as u32;
        let last_skipped = self.first.wrapping_add(skipped).wrapping_sub(1);
        let forward = (skipped > 0).then(|| Chunk(&self.newest).forward(last_skipped));
        let mut said: Vec<&[u8]> = forward.as_deref().into_iter().collect();
        let mut room = self.full - self.header.len() - said.iter().map(|chunk| chunk.len()).sum::<usize>();
        if before == self.chunks.len() {
            if newest.len().next_multiple_of(4) > room {
                said.clear();
            }
            said.push(&newest);
        }
        for chunk in self.chunks.iter().flatten() {
            let Some(left) = room.checked_sub(chunk.len().next_multiple_of(4)) else { break };
            room = left;
            said.push(chunk);
        }
        Some(packet::build(&self.header, said))
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{data, sack};
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const URGENT: u32 = 0;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Whole and unordered messages of five bytes with those numbers, of that payload protocol identifier.
    fn samples(tsns: &[u32], ppid: u32) -> Vec<u8> {
        marked(&data(tsns), 7, ppid)
    }

    fn marked(packet: &[u8], flags: u8, ppid: u32) -> Vec<u8> {
        let chunks: Vec<Vec<u8>> = packet::chunks(packet)
            .map(|chunk| {
                let mut chunk = chunk.0.to_vec();
                chunk[1] = flags;
                chunk[16..20].copy_from_slice(&ppid.to_be_bytes());
                chunk
            })
            .collect();
        packet::build(packet::header(packet), chunks.iter().map(Vec::as_slice))
    }

    fn asking(packet: &[u8]) -> Vec<Vec<u8>> {
        packet::chunks(packet).map(Chunk::asking).collect()
    }

    fn said(packet: Option<Vec<u8>>) -> Vec<Vec<u8>> {
        packet.iter().flat_map(|packet| packet::chunks(packet).map(|chunk| chunk.0.to_vec())).collect()
    }

    fn forward(tsn: u32) -> Vec<u8> {
        let mut chunk = vec![194, 0, 0, 8];
        chunk.extend_from_slice(&tsn.to_be_bytes());
        chunk
    }

    fn send(outstanding: &mut Outstanding, ms: u64, packet: &[u8]) {
        outstanding.sent(at(ms), packet, |ppid| ppid == URGENT);
    }

    #[test]
    fn samples_are_skipped_and_the_newest_asks_to_be_acknowledged() {
        let mut outstanding = Outstanding::new(1_200);
        send(&mut outstanding, 0, &samples(&[u32::MAX, 0, 1], 9));
        send(&mut outstanding, 100, &samples(&[u32::MAX], 9));
        assert_eq!(outstanding.probe(at(139), RTT), None, "it may be heard of yet");
        let expected = [vec![forward(0)], asking(&samples(&[1], 9))].concat();
        assert_eq!(said(outstanding.probe(at(140), RTT)), expected);
        assert_eq!(outstanding.probe(at(159), RTT), None, "one in 20 ms");
        assert!(outstanding.probe(at(160), RTT).is_some());
        outstanding.acknowledged(at(170), &sack(0, &[]));
        assert_eq!(outstanding.probe(at(309), RTT), None, "something was heard");
        assert_eq!(said(outstanding.probe(at(310), RTT)), asking(&samples(&[1], 9)), "nothing is before it");
        outstanding.acknowledged(at(311), &sack(1, &[]));
        assert_eq!(outstanding.probe(at(9_000), RTT), None);
    }

    #[test]
    fn what_must_arrive_is_said_again_and_never_skipped() {
        let must = [samples(&[12], URGENT), marked(&data(&[12]), 3, 9), marked(&data(&[12]), 6, 9)];
        for must in must {
            let mut outstanding = Outstanding::new(1_200);
            for packet in [&samples(&[10], 9), &must, &samples(&[13, 14], 9), &marked(&data(&[15]), 3, 9)] {
                send(&mut outstanding, 0, packet);
            }
            let expected = [vec![forward(11)], asking(&must), asking(&marked(&data(&[15]), 3, 9))].concat();
            assert_eq!(said(outstanding.probe(at(500), RTT)), expected);
        }
    }

    #[test]
    fn no_more_than_a_full_packet_is_said_again() {
        let length = data(&[1]).len() - 12;
        let mut outstanding = Outstanding::new(12 + 3 * length);
        send(&mut outstanding, 0, &marked(&data(&[1, 2, 3, 4]), 3, 9));
        assert_eq!(said(outstanding.probe(at(500), RTT)).len(), 3);
        let mut outstanding = Outstanding::new(12 + length);
        send(&mut outstanding, 0, &samples(&[1], 9));
        send(&mut outstanding, 0, &marked(&data(&[2]), 3, 9));
        assert_eq!(said(outstanding.probe(at(500), RTT)), [forward(1)], "the other has no room yet");
    }

    #[test]
    fn another_association_counts_from_anywhere() {
        let mut outstanding = Outstanding::new(1_200);
        send(&mut outstanding, 0, &samples(&[1, 2], 9));
        outstanding.acknowledged(at(1), &sack(7_000_000, &[]));
        assert!(outstanding.probe(at(900), RTT).is_some(), "nobody sent what that says");
        send(&mut outstanding, 1_000, &samples(&[7_000_000], 9));
        assert_eq!(said(outstanding.probe(at(1_900), RTT)), asking(&samples(&[7_000_000], 9)));
        send(&mut outstanding, 2_000, &samples(&[7_000_001], 9));
        outstanding.forget();
        assert_eq!(outstanding.probe(at(9_900), RTT), None);
    }
}
