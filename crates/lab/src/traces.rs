//! Packets to be replayed: a video's RTP packets, and what the simulated devices find worth sending.
//!
//! How many there are can be asked for, so that a recording that cannot be had has a stand-in of its size: a video is cut into
//! packets of the length that gives as many, a signal has the deadband that does.

use std::net::{Ipv4Addr, SocketAddrV4};

use taut_core::{Bytes, Duration, IPV4_HEADER, Seed, Time, UDP_HEADER};
use taut_media::{DeadbandConfig, Packetizer, Sampler};
use taut_trace::{Datagram, Ivf};
use taut_wire::rtp::Codec;

use crate::demo;
use crate::scenario::Device;

/// Why there is no such trace: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A video of another codec than VP8.
    #[error("holds {0}; VP8 is needed")]
    Codec(String),
    /// The count that was asked for is out of reach.
    #[error("{wanted} packets are asked for; from {least} to {most} can be had")]
    Count {
        /// How many were asked for.
        wanted: usize,
        /// The fewest that can be had.
        least: usize,
        /// The most.
        most: usize,
    },
}

/// The smallest packet on the wire that a video is cut into for the sake of their number.
const SMALL: u64 = 100;
/// The largest: Ethernet's MTU.
const LARGE: u64 = 1_500;

/// The robot, which sends video and force, on the port for them.
const ROBOT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The operator, who sends commands.
const OPERATOR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The first dynamic port (RFC 6335).
const EPHEMERAL: u16 = 49_152;
const VIDEO_PORT: u16 = 5_004;
const FORCE_PORT: u16 = 5_005;
const COMMAND_PORT: u16 = 5_006;

/// The frames of an encode as RTP packets (RFC 7741), each frame's at its time, all at once, to UDP port 5004.
#[derive(Clone, Debug)]
pub struct Video<'a> {
    frames: Vec<(Time, &'a [u8])>,
    packetizer: Packetizer,
}

impl<'a> Video<'a> {
    /// Of the first `duration` of this encode. The seed is for where RTP's counters begin.
    ///
    /// # Errors
    /// When it is not VP8.
    pub fn new(ivf: &Ivf<'a>, duration: Duration, seed: Seed) -> Result<Self, Error> {
        if ivf.fourcc() != *b"VP80" {
            return Err(Error::Codec(ivf.fourcc().escape_ascii().to_string()));
        }
        let mut rng = seed.stream("trace/video");
        let packetizer = Packetizer::new(Codec::Vp8, rng.next_u64() as u32, &mut rng);
        let start = ivf.frames()[0].0;
        let frames = ivf.frames().iter().map(|(at, frame)| (Time::ZERO + at.saturating_since(start), *frame));
        Ok(Self { frames: frames.filter(|(at, _)| *at < Time::ZERO + duration).collect(), packetizer })
    }

    /// How many frames there are.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// In packets of at most `packet` bytes on the wire, 100 to 65535.
    ///
    /// # Panics
    /// When it is out of range.
    pub fn in_packets_of(self, packet: Bytes) -> Vec<Datagram> {
        self.cut(|_| packet.get())
    }

    /// In exactly so many packets: the largest that are enough of them. To meet the number, some frames have packets that are
    /// one byte longer than those of the others.
    ///
    /// # Errors
    /// When that would need packets below 100 bytes or above 1500.
    pub fn in_packets(self, wanted: usize) -> Result<Vec<Datagram>, Error> {
        let count = |packet: u64| self.frames.iter().map(|(_, frame)| self.packets(frame, packet)).sum();
        let (least, most): (usize, usize) = (count(LARGE), count(SMALL));
        let out_of_reach = Error::Count { wanted, least, most };
        if !(least..=most).contains(&wanted) {
            return Err(out_of_reach);
        }
        // Packets of `small` are enough, larger ones are not, or there are none.
        let (mut small, mut large) = (SMALL, LARGE + 1);
        while small + 1 < large {
            let middle = u64::midpoint(small, large);
            if count(middle) >= wanted { small = middle } else { large = middle }
        }
        let mut too_many = count(small) - wanted;
        let larger: Vec<bool> = self
            .frames
            .iter()
            .map(|(_, frame)| {
                let fewer = self.packets(frame, small) - self.packets(frame, small + 1);
                let chosen = (1..=too_many).contains(&fewer);
                too_many -= if chosen { fewer } else { 0 };
                chosen
            })
            .collect();
        if too_many > 0 {
            return Err(out_of_reach);
        }
        Ok(self.cut(|frame| small + u64::from(larger[frame])))
    }

    /// How many packets a frame takes.
    fn packets(&self, frame: &[u8], packet: u64) -> usize {
        let mut count = 0;
        self.packetizer.clone().max_packet(rtp_room(packet)).packetize(Time::ZERO, frame, |_| count += 1);
        count
    }

    fn cut(self, packet: impl Fn(usize) -> u64) -> Vec<Datagram> {
        let mut packetizer = self.packetizer;
        let mut datagrams = Vec::new();
        for (index, (time, frame)) in self.frames.iter().enumerate() {
            packetizer = packetizer.max_packet(rtp_room(packet(index)));
            packetizer.packetize(*time, frame, |rtp| {
                datagrams.push(datagram(*time, ROBOT, (OPERATOR, VIDEO_PORT), rtp.to_vec()));
            });
        }
        datagrams
    }
}

/// Bytes of RTP in a packet on the wire.
const fn rtp_room(packet: u64) -> usize {
    (packet - IPV4_HEADER - UDP_HEADER) as usize
}

/// What one of the simulated devices finds worth sending: the leader its position and velocity, the follower the force, in
/// little-endian `f32`, through a deadband.
#[derive(Clone, Debug)]
pub struct Samples {
    device: Device,
    rows: Vec<demo::Row>,
}

impl Samples {
    /// A sample every millisecond. `device` says whose: the leader's commands go to UDP port 5006 of the robot, the follower's
    /// force goes to port 5005 of the operator.
    pub fn new(device: Device, duration: Duration, seed: Seed) -> Self {
        Self { device, rows: demo::generate(duration, seed).collect() }
    }

    /// What passes a deadband of this Weber fraction.
    pub fn through(&self, k: f64) -> Vec<Datagram> {
        self.sent(k).map(|row| self.datagram(row)).collect()
    }

    /// The first `wanted` packets of those that pass the widest deadband that lets as many through, and its Weber fraction.
    ///
    /// # Errors
    /// When there are not as many without a deadband, or more with one of 1.
    pub fn in_packets(&self, wanted: usize) -> Result<(Vec<Datagram>, f64), Error> {
        let (least, most) = (self.sent(1.0).count(), self.sent(0.0).count());
        if !(least..=most).contains(&wanted) {
            return Err(Error::Count { wanted, least, most });
        }
        let (mut enough, mut wide) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(enough, wide);
            if self.sent(middle).count() >= wanted { enough = middle } else { wide = middle }
        }
        let mut datagrams = self.through(enough);
        datagrams.truncate(wanted);
        Ok((datagrams, enough))
    }

    fn sent(&self, k: f64) -> impl Iterator<Item = &demo::Row> {
        let mut sampler = Sampler::deadband(DeadbandConfig::new().k(k).floor(floor(self.device)));
        self.rows.iter().filter(move |row| {
            let decision = match self.device {
                Device::Leader => sampler.offer(row.time, &row.forward()),
                Device::Follower => sampler.offer(row.time, &row.backward()),
            };
            decision.expect("the simulated devices are where numbers are finite").is_send()
        })
    }

    fn datagram(&self, row: &demo::Row) -> Datagram {
        match self.device {
            Device::Leader => {
                datagram(row.time, OPERATOR, (ROBOT, COMMAND_PORT), row.forward_payload().to_vec())
            }
            Device::Follower => {
                datagram(row.time, ROBOT, (OPERATOR, FORCE_PORT), row.backward_payload().to_vec())
            }
        }
    }
}

/// What is too little to count beside nothing: 1 mN, or 0.1 mm/s.
const fn floor(device: Device) -> f64 {
    match device {
        Device::Leader => 1e-4,
        Device::Follower => 1e-3,
    }
}

/// Weber fractions are found to a part in a million.
const HALVINGS: u32 = 20;

fn datagram(time: Time, from: Ipv4Addr, to: (Ipv4Addr, u16), payload: Vec<u8>) -> Datagram {
    let (source, destination) = (SocketAddrV4::new(from, EPHEMERAL), SocketAddrV4::new(to.0, to.1));
    Datagram { time, source, destination, payload }
}

#[cfg(test)]
mod tests {
    use taut_core::Rng;
    use taut_media::FrameAssembler;
    use taut_wire::rtp::View;

    use super::*;

    /// An encode of frames of random content and length, 60 a second.
    fn clip(frames: usize) -> Vec<u8> {
        let mut rng: Rng = Seed::new(7).stream("clip");
        let mut file = [&b"DKIF\0\0\x20\0VP80"[..], &[0; 20]].concat();
        (file[16], file[20]) = (60, 1);
        for index in 0..frames as u64 {
            let length = 1 + rng.below(6_000);
            file.extend((length as u32).to_le_bytes());
            file.extend(index.to_le_bytes());
            file.extend((0..length).map(|_| rng.next_u64() as u8));
        }
        file
    }

    fn video(file: &[u8]) -> Video<'_> {
        Video::new(&Ivf::parse("clip.ivf", file).unwrap(), Duration::from_secs(3_600), Seed::new(1)).unwrap()
    }

    #[test]
    fn any_number_of_packets_between_the_extremes_is_met_exactly() {
        let file = clip(120);
        let least = video(&file).in_packets_of(Bytes::new(LARGE)).len();
        for wanted in (least..2 * least).step_by(7) {
            let datagrams = video(&file).in_packets(wanted).unwrap();
            assert_eq!(datagrams.len(), wanted);
            let times: Vec<Time> = datagrams.iter().map(|datagram| datagram.time).collect();
            assert!(times.is_sorted() && times.last() == Some(&Time::from_nanos(119 * 1_000_000_000 / 60)));
        }
        let told = video(&file).in_packets(least - 1).unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("{} packets are asked for; from {least} to ", least - 1)),
            "{told}"
        );
    }

    #[test]
    fn packets_give_the_frames_again() {
        let file = clip(60);
        let ivf = Ivf::parse("clip.ivf", &file).unwrap();
        let mut assembler = FrameAssembler::new(Codec::Vp8);
        let mut frames = Vec::new();
        for datagram in video(&file).in_packets(250).unwrap() {
            assembler.handle_input(&View::new_checked(&datagram.payload).unwrap());
            frames.extend(assembler.poll_frame().map(|frame| frame.data));
        }
        let encoded: Vec<&[u8]> = ivf.frames().iter().map(|(_, frame)| *frame).collect();
        assert_eq!(frames, encoded);
    }

    #[test]
    fn no_packet_is_longer_than_is_asked_for() {
        let file = clip(60);
        let datagrams = video(&file).in_packets_of(Bytes::new(500));
        let longest = datagrams.iter().map(Datagram::size).max();
        assert!(longest.is_some_and(|longest| (490..=500).contains(&longest.get())), "{longest:?}");
    }

    #[test]
    fn a_deadband_gives_as_many_packets_as_are_asked_for() {
        for (device, wanted, bytes) in [(Device::Leader, 5_000, 24), (Device::Follower, 3_000, 12)] {
            let samples = Samples::new(device, Duration::from_secs(10), Seed::new(1));
            let (datagrams, k) = samples.in_packets(wanted).unwrap();
            assert_eq!(datagrams.len(), wanted);
            assert!(datagrams.iter().all(|datagram| datagram.payload.len() == bytes));
            assert!(k > 0.0 && samples.through(k + 1e-5).len() <= wanted, "{k}");
            let (least, most) = (samples.through(1.0).len(), samples.through(0.0).len());
            assert_eq!(samples.in_packets(10_001), Err(Error::Count { wanted: 10_001, least, most }));
        }
    }
}
