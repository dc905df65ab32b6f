//! Video over RTP from a capture: each packet at its recorded time, with its recorded header.

use std::collections::BTreeMap;

use taut_core::{Deadline, Duration, Node, NodeEvent, Packet, Time, Transmit};
use taut_sim::Peer;
use taut_trace::CapturedDatagram;
use taut_wire::rtp::{HEADER_LEN, VERSION};

/// Sends the packets of one stream once.
pub(super) struct RtpReplay {
    peer: Peer,
    packets: std::vec::IntoIter<Recorded>,
    /// When the capture's first packet is.
    start: Time,
    stop: Time,
}

/// A packet of the stream.
pub(super) struct Recorded {
    at: Duration,
    /// Its beginning, with all that gates and receivers read.
    stored: Vec<u8>,
    /// The zeros on the wire in place of the rest.
    padding: u32,
}

/// Room for an RTP header with extensions, the payload's descriptor and a frame's header.
const STORED: usize = 128;
/// UDP.
const PROTOCOL: u8 = 17;
/// RTCP's packet types look like these payload types, which no stream has (RFC 5761 section 4).
const RTCP: std::ops::RangeInclusive<u8> = 64..=95;

impl RtpReplay {
    pub(super) fn new(packets: Vec<Recorded>, peer: Peer, start: Time, stop: Time) -> Self {
        Self { peer, packets: packets.into_iter(), start, stop }
    }

    fn next_at(&self) -> Option<Time> {
        let next = self.packets.as_slice().first()?;
        Some(self.start + next.at).filter(|at| *at < self.stop)
    }
}

/// The RTP packets to a UDP port of the stream (SSRC) that has the most bytes there; empty when there is none. Times are since the
/// capture's first packet.
pub(super) fn video_of(datagrams: Vec<CapturedDatagram>, port: u16) -> Vec<Recorded> {
    let mut streams: BTreeMap<[u8; 4], (u64, Vec<Recorded>)> = BTreeMap::new();
    for CapturedDatagram { time, flow, length, mut payload } in datagrams {
        if flow.protocol != PROTOCOL || flow.destination.port() != port {
            continue;
        }
        let Some(ssrc) = ssrc(&payload) else { continue };
        // The last byte tells how much padding there is, if there is.
        let padded = payload[0] & 0x20 != 0;
        payload.truncate(if padded { payload.len() } else { STORED });
        let padding = (length.get() as usize - payload.len()) as u32;
        let (bytes, packets) = streams.entry(ssrc).or_default();
        *bytes += length.get();
        packets.push(Recorded { at: time.saturating_since(Time::ZERO), stored: payload, padding });
    }
    streams.into_values().max_by_key(|(bytes, _)| *bytes).map(|(_, packets)| packets).unwrap_or_default()
}

/// The stream's name, if this is RTP (RFC 3550 section 5.1).
fn ssrc(payload: &[u8]) -> Option<[u8; 4]> {
    let header: &[u8; HEADER_LEN] = payload.first_chunk()?;
    let is_rtp = header[0] >> 6 == VERSION && !RTCP.contains(&(header[1] & 0x7f));
    is_rtp.then(|| [header[8], header[9], header[10], header[11]])
}

impl Node for RtpReplay {
    fn handle_input(&mut self, _now: Time, _packet: Packet) {}

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.next_at().filter(|at| *at <= now)?;
        let Recorded { stored, padding, .. } = self.packets.next()?;
        Some(self.peer.packet(stored, Transmit { padding, ..Transmit::default() }))
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.next_at().map(|at| Deadline::new(at, "next recorded packet"))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use taut_core::{Rng, Seed};
    use taut_media::Packetizer;
    use taut_trace::{Datagram, datagrams, write_pcap};
    use taut_wire::rtp::Codec;

    use super::*;

    fn to(port: u16, nanos: u64, payload: Vec<u8>) -> Datagram {
        let source: SocketAddrV4 = "10.0.0.1:4000".parse().unwrap();
        let destination = SocketAddrV4::new([10, 0, 0, 2].into(), port);
        Datagram { time: Time::from_nanos(nanos), source, destination, payload }
    }

    fn found(file: &[Datagram]) -> Vec<Recorded> {
        video_of(datagrams("a.pcap", &write_pcap(file)).unwrap(), 5004)
    }

    /// Frames of these lengths, a packet every 1234567 ns, of this stream.
    fn stream(ssrc: u32, frames: &[usize]) -> Vec<Datagram> {
        let mut rng: Rng = Seed::new(1).stream("rtp");
        let mut packetizer = Packetizer::new(Codec::Vp8, ssrc, &mut rng);
        let mut packets = Vec::new();
        for frame in frames {
            packetizer.packetize(Time::ZERO, &vec![1; *frame], |packet| {
                packets.push(to(5004, 10_000 + 1_234_567 * packets.len() as u64, packet.to_vec()));
            });
        }
        packets
    }

    #[test]
    fn packets_leave_at_their_recorded_times_to_the_nanosecond_with_their_lengths_and_headers() {
        let recorded = stream(7, &[3_000, 40, 2_500]);
        let start = Time::from_nanos(1_000_000_000);
        let mut replay = RtpReplay::new(found(&recorded), Peer::default(), start, Time::MAX);
        for packet in &recorded {
            let at = start + packet.time.saturating_since(recorded[0].time);
            assert_eq!(replay.poll_timeout().map(|deadline| deadline.at), Some(at));
            assert!(replay.poll_transmit(Time::from_nanos(at.as_nanos() - 1)).is_none());
            let sent = replay.poll_transmit(at).unwrap();
            assert_eq!(sent.meta.size, packet.size());
            assert_eq!(sent.payload, packet.payload[..packet.payload.len().min(STORED)]);
        }
        assert!(replay.poll_timeout().is_none() && replay.poll_transmit(Time::MAX).is_none());
    }

    #[test]
    fn what_comes_after_the_stop_is_not_sent() {
        let recorded = stream(7, &[30, 30, 30]);
        let stop = Time::from_nanos(2 * 1_234_567);
        let mut replay = RtpReplay::new(found(&recorded), Peer::default(), Time::ZERO, stop);
        assert_eq!(std::iter::from_fn(|| replay.poll_transmit(Time::MAX)).count(), 2);
    }

    #[test]
    fn the_largest_stream_to_the_port_is_the_video() {
        let mut file = vec![to(5005, 0, vec![0x80; 1_400]), to(5004, 1, vec![0; 1_400])];
        // A receiver report, 201 (RFC 3550 section 6.4.2).
        file.push(to(5004, 2, [&[0x80, 201][..], &[0; 1_300]].concat()));
        file.extend(stream(8, &[900, 900]));
        let video = stream(7, &[1_100, 1_000]);
        file.extend(video.clone());
        let found = found(&file);
        assert_eq!(found.len(), video.len());
        assert!(found.iter().all(|packet| packet.stored[8..12] == 7u32.to_be_bytes()));
        assert_eq!(found[1].at, Duration::from_nanos(10_000 + 1_234_567));
    }

    #[test]
    fn padding_stays_readable() {
        let mut packet = stream(7, &[600]).remove(0);
        packet.payload[0] |= 0x20;
        *packet.payload.last_mut().unwrap() = 4;
        let found = found(&[packet.clone()]);
        assert_eq!((&found[0].stored, found[0].padding), (&packet.payload, 0));
    }
}
