//! Strict priorities: `tc-prio(8)`.

use taut_core::{Backlog, Deadline, LinkEvent, Packet, PacketMeta, Queue, Time, earliest};

use super::{Discipline, DropTail};

/// Bands by code point; nothing of a band goes while anything of one before it waits.
///
/// ```
/// use taut_core::Bitrate;
/// use taut_link::{Bottleneck, Codel, DropTail, Prio};
/// let queue = Prio::new(vec![DropTail::default().into(), Codel::default().into()], 1).class(46, 0);
/// let link = Bottleneck::new(Bitrate::from_bps(10_000_000), queue);
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct Prio {
    bands: Vec<Discipline>,
    /// The band of each code point.
    classes: [u8; 64],
}

impl Prio {
    /// Everything goes into band `default`, until [`Prio::class`] says otherwise. Panics without bands, with more than
    /// 16, or where there is no such band.
    pub fn new(bands: Vec<Discipline>, default: u8) -> Self {
        assert!((1..=16).contains(&bands.len()) && usize::from(default) < bands.len(), "no such band");
        Self { bands, classes: [default; 64] }
    }

    /// As Linux does it unless told otherwise: three bands of a thousand packets, and the code point read as the type of
    /// service of RFC 1349 (`ip-tos2prio`, `priomap 1 2 2 2 1 2 0 0 …`). Minimise delay is band 0, nothing or both band 1,
    /// maximise throughput band 2. EF is delay and throughput at once: band 1.
    pub fn linux() -> Self {
        let band = || DropTail::default().limit_packets(1_000).into();
        let mut prio = Self::new(vec![band(), band(), band()], 1);
        for dscp in 0..64 {
            let [delay, throughput] = [dscp & 0b100 != 0, dscp & 0b010 != 0];
            let band = match (delay, throughput) {
                (true, false) => 0,
                (false, false) | (true, true) => 1,
                (false, true) => 2,
            };
            prio = prio.class(dscp, band);
        }
        prio
    }

    /// Packets with this code point, 0 to 63, go into `band`. Panics where there is no such band.
    pub fn class(mut self, dscp: u8, band: u8) -> Self {
        assert!(usize::from(band) < self.bands.len(), "no band {band}");
        self.classes[usize::from(dscp & 0x3f)] = band;
        self
    }

    /// The first goes first.
    pub fn bands(&self) -> &[Discipline] {
        &self.bands
    }
}

impl Queue for Prio {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        let band = self.classes[usize::from(packet.meta.dscp & 0x3f)];
        self.bands[usize::from(band)].enqueue(now, packet, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        self.bands.iter_mut().find_map(|band| band.dequeue(now, events))
    }

    fn backlog(&self) -> Backlog {
        self.bands.iter().fold(Backlog::default(), |sum, band| sum + band.backlog())
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.bands.iter().for_each(|band| band.visit(visit));
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.bands.iter().fold(None, |first, band| earliest(first, band.poll_timeout()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_waits_until_those_before_it_are_empty() {
        let mut prio = Prio::linux();
        for (id, dscp) in [(0, 2), (1, 0), (2, 4), (3, 46), (4, 4)] {
            let meta = PacketMeta { id, dscp, ..PacketMeta::default() };
            prio.enqueue(Time::ZERO, Packet { meta, payload: Vec::new() }, &mut Vec::new());
        }
        let next = || prio.dequeue(Time::ZERO, &mut Vec::new());
        let order: Vec<u64> = std::iter::from_fn(next).map(|packet| packet.meta.id).collect();
        assert_eq!(order, [2, 4, 1, 3, 0]);
    }
}
