//! Which messages travel together: the four ways to pack force, sound and picture of one robot.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use taut_core::{Bitrate, Bytes, Duration, Time};
use taut_link::{Bottleneck, Chain, Delay, DropTail};
use taut_session::{
    Channel, ChannelEvent, ChannelId, ChannelKind, DeadbandConfig, Direction, Encoding, OperatorConfig,
    OperatorEvent, Packing, RobotConfig, RobotEvent, Sampling, Schema, Scheme, TrendConfig,
};
use taut_transport::udp::Udp;
use taut_wire::session::DataHeader;

use crate::delays;
use crate::harness::{MS, Observer, ROBOT, World, at_ms, udp};

/// IPv4 and UDP.
const HEADERS: u64 = 28;
const FRAGMENT: Bytes = Bytes::new(58);
const PERIOD: Duration = MS;
const HAPTIC: ChannelId = ChannelId(0);
const AUDIO: ChannelId = ChannelId(1);
const VIDEO: ChannelId = ChannelId(2);

/// What a packet from the robot carries: of each piece its channel, its bytes, and whether they are all that is left of its message.
struct Packet {
    at: Time,
    bytes: u64,
    pieces: Vec<(ChannelId, usize)>,
}

impl Packet {
    fn count(&self, of: ChannelId) -> usize {
        self.pieces.iter().filter(|(channel, _)| *channel == of).count()
    }
}

#[derive(Default)]
struct Wire {
    packets: Vec<Packet>,
    received: Vec<(Time, ChannelId, u64)>,
    lost: usize,
    withheld: usize,
}

impl Observer for Wire {
    fn transmitted(&mut self, now: Time, from: usize, _id: u64, bytes: &[u8]) {
        if from != ROBOT || !DataHeader::is_data(bytes) {
            return;
        }
        let (_, pieces) = DataHeader::parse(bytes).unwrap();
        let pieces = pieces.map(|piece| piece.unwrap());
        let pieces = pieces.map(|(piece, payload)| (ChannelId(piece.channel), payload.len())).collect();
        self.packets.push(Packet { at: now, bytes: bytes.len() as u64 + HEADERS, pieces });
    }

    fn robot(&mut self, _now: Time, event: &RobotEvent, _clocks: Option<[Duration; 2]>) {
        let withheld = matches!(event, RobotEvent::Channel(ChannelEvent::Withheld { .. }));
        self.withheld += usize::from(withheld);
    }

    fn operator(&mut self, now: Time, event: &OperatorEvent) {
        match event {
            OperatorEvent::Channel(ChannelEvent::Received { channel, sequence, .. }) => {
                self.received.push((now, *channel, *sequence));
            }
            OperatorEvent::Channel(ChannelEvent::Dropped { .. }) => self.lost += 1,
            _ => {}
        }
    }
}

fn channels() -> [Channel; 3] {
    let channel = |name: &str, kind| {
        Channel::new(name, Direction::ToOperator, kind, Schema::new("floats", Encoding::Raw))
    };
    let media = |name: &str, kind| channel(name, kind).deadline(MS * 1_000);
    let felt = Sampling::deadband(DeadbandConfig::new().keep_alive(Duration::MAX));
    [
        channel("force", ChannelKind::Feedback).sampler(felt),
        media("mic", ChannelKind::Audio),
        media("cam", ChannelKind::Video),
    ]
}

/// A robot that says a sample of `payload` bytes each millisecond, 160 B of audio each 20 ms, 2000 B of video each 40 ms, unless said
/// otherwise.
struct Robot {
    world: World<Udp, Wire>,
    payload: usize,
    media: (usize, usize),
    made: BTreeMap<(ChannelId, u64), Time>,
    refused: usize,
    /// What a sample says.
    force: f32,
    began: Time,
    ticks: u64,
}

impl Robot {
    fn new(packing: Packing, payload: usize, links: [Chain; 2]) -> Self {
        let operator =
            channels().into_iter().try_fold(OperatorConfig::new(), OperatorConfig::channel).unwrap();
        let robot = RobotConfig::new().packing(packing).window(false);
        let robot = channels().into_iter().try_fold(robot, RobotConfig::channel).unwrap();
        let mut world = World::new(udp, operator, robot, links, Wire::default());
        world.run_until(at_ms(500));
        let began = world.now;
        Self {
            world,
            payload,
            media: (160, 2_000),
            made: BTreeMap::new(),
            refused: 0,
            force: 1.0,
            began,
            ticks: 0,
        }
    }

    /// The same, whose hand feels something already.
    fn felt(packing: Packing, payload: usize, links: [Chain; 2]) -> Self {
        let mut robot = Self::new(packing, payload, links);
        robot.feel();
        (0..20).for_each(|_| robot.pass());
        (robot.began, robot.ticks) = (robot.world.now, 0);
        robot.world.observer = Wire::default();
        robot
    }

    fn send(&mut self, channel: ChannelId, bytes: usize) {
        let now = self.world.local(ROBOT);
        let payload: Vec<u8> = self.force.to_be_bytes().into_iter().cycle().take(bytes).collect();
        match self.world.robot.send(now, channel, now, &payload) {
            Ok(sequence) => drop(self.made.insert((channel, sequence), self.world.now)),
            Err(_) => self.refused += 1,
        }
    }

    fn media(&mut self) {
        if self.ticks.is_multiple_of(20) {
            self.send(AUDIO, self.media.0);
        }
        if self.ticks.is_multiple_of(40) {
            self.send(VIDEO, self.media.1);
        }
    }

    /// The next tick is a period after this one.
    fn pass(&mut self) {
        self.world.drain();
        let end = self.world.now + PERIOD;
        self.world.run_until(end);
        self.ticks += 1;
    }

    /// A sample, which is worth sending.
    fn feel(&mut self) {
        self.force = 3.0 - self.force;
        self.send(HAPTIC, self.payload);
    }

    fn run(&mut self, ticks: u64) {
        self.run_where(ticks, |_| true);
    }

    /// Of which only some ticks have a sample that is worth sending.
    fn run_where(&mut self, ticks: u64, significant: impl Fn(u64) -> bool) {
        for _ in 0..ticks {
            self.media();
            match significant(self.ticks) {
                true => self.feel(),
                false => self.send(HAPTIC, self.payload),
            }
            self.pass();
        }
    }

    fn settle(&mut self) {
        let end = self.world.now + MS * 200;
        self.world.run_until(end);
    }

    fn packets(&self) -> &[Packet] {
        &self.world.observer.packets
    }

    fn count(&self, of: ChannelId) -> usize {
        self.world.observer.received.iter().filter(|(_, channel, _)| *channel == of).count()
    }

    /// The longest from the making of a message to its arrival, without the path's own millisecond.
    fn worst_delay(&self, of: ChannelId) -> Duration {
        let delays = self.world.observer.received.iter().filter(|(_, channel, _)| *channel == of);
        delays.map(|(at, channel, sequence)| *at - self.made[&(*channel, *sequence)] - MS).max().unwrap()
    }

    /// Of IP packets, over some of the ticks.
    fn rate(&self, from: u64, to: u64) -> Bitrate {
        let (from, to) = (self.began + PERIOD * from, self.began + PERIOD * to);
        let bytes =
            self.packets().iter().filter(|packet| (from..to).contains(&packet.at)).map(|packet| packet.bytes);
        Bytes::new(bytes.sum()) / (to - from)
    }
}

fn fixed_fragment() -> Packing {
    Packing::new(Scheme::FixedFragment { fragment: FRAGMENT }).unwrap().datagram(Bytes::new(137))
}

/// Gokhale et al.: d_aud = d + (s_a/s_m) T_h, d_vid = d + 1/f_v, at a constant 137 bytes every millisecond.
#[test]
fn fixed_fragment_has_the_delays_and_the_rate_of_its_source() {
    // As the source has it, and with twenty points of contact, 128 kbit/s of audio and 2 Mbit/s of video.
    for (packet, payload, fragment, media) in [(137, 12, 58, (160, 2_000)), (566, 240, 266, (320, 10_000))] {
        let scheme = Scheme::FixedFragment { fragment: Bytes::new(fragment) };
        let packing = Packing::new(scheme).unwrap().datagram(Bytes::new(packet));
        let mut robot = Robot { media, ..Robot::felt(packing, payload, delays(MS)) };
        robot.run(20_000);
        let is_whole = |sent: &Packet| sent.bytes == packet && sent.count(HAPTIC) == 1;
        assert!(robot.packets().iter().all(is_whole));
        assert_eq!(robot.rate(0, 20_000), Bitrate::from_bps(packet * 8_000));
        robot.settle();
        assert_eq!((robot.count(HAPTIC), robot.count(AUDIO), robot.count(VIDEO)), (20_000, 1_000, 500));
        assert_eq!(robot.worst_delay(HAPTIC), Duration::ZERO);
        // s_a/s_m = 160/58 = 2.76: three packets, the first of them at once.
        assert!(robot.worst_delay(AUDIO) <= MS * 3, "{}", robot.worst_delay(AUDIO));
        // A frame of video takes its whole period, since s_m carries exactly both media.
        let video = robot.worst_delay(VIDEO);
        assert!((MS * 38..=MS * 40).contains(&video), "{video}");
        assert_eq!((robot.world.observer.lost, robot.refused), (0, 0));
    }
}

#[test]
fn fixed_fragment_carries_exactly_its_fragment_while_media_wait() {
    let packing = Packing::new(Scheme::FixedFragment { fragment: FRAGMENT }).unwrap();
    let mut robot = Robot::felt(packing, 24, delays(MS));
    robot.send(VIDEO, 100);
    robot.send(AUDIO, 160);
    for _ in 0..6 {
        robot.feel();
        robot.pass();
    }
    let media: Vec<_> = robot.packets().iter().map(|packet| packet.pieces[1..].to_vec()).collect();
    let expected: [&[(ChannelId, usize)]; 6] =
        [&[(AUDIO, 58)], &[(AUDIO, 58)], &[(AUDIO, 44), (VIDEO, 14)], &[(VIDEO, 58)], &[(VIDEO, 28)], &[]];
    assert_eq!(media, expected);
}

#[test]
fn fixed_fragment_goes_on_with_media_while_samples_are_withheld() {
    let mut robot = Robot::felt(fixed_fragment(), 12, delays(MS));
    robot.run_where(2_000, |tick| tick % 10 == 0);
    assert_eq!(robot.world.observer.withheld, 1_800);
    let summary = robot.world.robot.status(robot.world.now).channels[0].clone();
    assert_eq!((summary.made, summary.withheld), (2_001, 1_800));
    assert!(robot.packets().iter().all(|packet| packet.bytes == 137));
    robot.settle();
    assert_eq!((robot.count(HAPTIC), robot.count(VIDEO), robot.world.observer.lost), (200, 50, 0));
    assert!(robot.worst_delay(VIDEO) <= MS * 40, "{}", robot.worst_delay(VIDEO));
}

/// Sound and pictures take all the bytes that go along with samples: what one that is missing would have taken is made up for.
#[test]
fn samples_that_a_late_host_missed_delay_neither_sound_nor_pictures() {
    let trend = TrendConfig::new();
    let aware = Scheme::NetworkAware { fragment: FRAGMENT, period: PERIOD, trend };
    for packing in [fixed_fragment(), Packing::new(aware).unwrap()] {
        let mut robot = Robot::new(packing, 12, delays(MS));
        robot.media = (160, 2_000);
        for tick in 0..4_000 {
            robot.media();
            match tick % 50 {
                9 | 10 => {}
                11 => {
                    robot.world.robot.miss(2);
                    robot.feel();
                }
                _ => robot.feel(),
            }
            robot.pass();
        }
        robot.settle();
        assert_eq!((robot.count(VIDEO), robot.world.observer.lost), (100, 0));
        assert!(robot.worst_delay(VIDEO) <= MS * 48, "{}", robot.worst_delay(VIDEO));
    }
}

/// The source's rate swings between 613 and 1079 kbit/s.
#[test]
fn visual_haptic_rate_swings_with_significance() {
    let scheme =
        Scheme::VisualHaptic { media_rate: Bitrate::from_bps(464_000), with_sample: MS, chunk: MS * 15 };
    let mut robot = Robot::felt(Packing::new(scheme).unwrap(), 24, delays(MS));
    robot.run_where(20_000, |tick| tick / 2_000 % 2 == 0);
    for period in 0..5 {
        let busy = robot.rate(period * 4_000, period * 4_000 + 2_000).as_bps();
        let quiet = robot.rate(period * 4_000 + 2_000, period * 4_000 + 4_000).as_bps();
        assert!((1_000_000..1_150_000).contains(&busy), "{busy}");
        assert!((450_000..620_000).contains(&quiet), "{quiet}");
    }
    robot.settle();
    let samples = |packet: &&Packet| packet.count(HAPTIC) > 0;
    assert!(robot.packets().iter().all(|packet| packet.bytes <= 870 + 60), "15 ms' worth and headers");
    assert!(robot.packets().iter().filter(samples).all(|packet| packet.bytes <= 165));
    assert!(robot.packets().iter().filter(|packet| !samples(packet)).all(|packet| packet.pieces.len() == 1));
    assert_eq!((robot.worst_delay(HAPTIC), robot.world.observer.lost), (Duration::ZERO, 0));
    assert!(robot.worst_delay(VIDEO) <= MS * 55, "{}", robot.worst_delay(VIDEO));
}

#[test]
fn a_sample_that_is_longer_than_the_constant_size_goes_all_the_same_and_alone() {
    let mut robot = Robot::felt(fixed_fragment(), 200, delays(MS));
    robot.run(10);
    assert!(robot.packets().iter().all(|packet| packet.pieces == [(HAPTIC, 200)]));
    assert_eq!(robot.packets()[0].bytes, HEADERS + 18 + 200);
}

#[test]
fn media_go_by_themselves_where_nothing_live_is_made() {
    let trend = TrendConfig::new();
    let aware = Scheme::NetworkAware { fragment: FRAGMENT, period: PERIOD, trend };
    for scheme in [Scheme::FixedFragment { fragment: FRAGMENT }, aware] {
        let mut robot = Robot::new(Packing::new(scheme).unwrap(), 12, delays(MS));
        for _ in 0..100 {
            robot.media();
            robot.pass();
        }
        assert_eq!((robot.count(AUDIO), robot.count(VIDEO)), (5, 3), "{scheme:?}");
        // The hand that felt something, and is silent: they wait for it for a tenth of a second.
        robot.feel();
        robot.media();
        robot.pass();
        let made = robot.world.now;
        robot.settle();
        let last = robot.world.observer.received.iter().map(|(at, ..)| *at).max().unwrap();
        assert!(last > made + MS * 90 && last <= made + MS * 101, "{scheme:?}: {}", last - made);
        assert_eq!((robot.count(AUDIO), robot.count(VIDEO)), (6, 3), "{scheme:?}");
        assert_eq!(robot.world.observer.lost, 0);
    }
}

#[test]
fn separate_messages_have_packets_of_their_own_and_live_ones_a_constant_size() {
    let packing = Packing::new(Scheme::Separate).unwrap().datagram(Bytes::new(86));
    let mut robot = Robot::felt(packing, 24, delays(MS));
    robot.run(1_000);
    robot.settle();
    assert!(robot.packets().iter().all(|packet| packet.pieces.len() == 1));
    assert!(robot.packets().iter().all(|packet| packet.count(HAPTIC) == 0 || packet.bytes == 86));
    let packets = |of| robot.packets().iter().filter(|packet| packet.count(of) > 0).count();
    assert_eq!([packets(HAPTIC), packets(AUDIO)], [1_000, 50]);
    assert_eq!(packets(VIDEO), 50, "2000 bytes are two packets");
    assert_eq!(robot.worst_delay(VIDEO), Duration::ZERO);
}

fn network_aware() -> Packing {
    let trend = TrendConfig::new().window(8).rise(Duration::from_micros(250));
    Packing::new(Scheme::NetworkAware { fragment: FRAGMENT, period: PERIOD, trend }).unwrap()
}

/// A millisecond away, and so fast from the robot.
fn narrow(kbit: u64) -> [Chain; 2] {
    let queue = DropTail::default().limit_bytes(Bytes::new(200_000));
    let server = Bottleneck::new(Bitrate::from_bps(kbit * 1_000), queue);
    [Delay::new(MS).into(), Chain::new(vec![server.into(), Delay::new(MS).into()])]
}

/// Chunks of a picture wait for a pause of the samples, and go alone: a path that they fill for milliseconds holds none of them back.
#[test]
fn without_a_window_chunks_go_as_they_are_made_on_a_path_that_is_nearly_full() {
    let scheme =
        Scheme::VisualHaptic { media_rate: Bitrate::from_bps(464_000), with_sample: MS, chunk: MS * 15 };
    let mut robot = Robot::felt(Packing::new(scheme).unwrap(), 12, narrow(800));
    robot.run_where(10_000, |tick| tick % 5 == 0);
    robot.settle();
    assert_eq!((robot.count(VIDEO), robot.count(AUDIO)), (250, 500));
    assert!(robot.worst_delay(VIDEO) < MS * 100, "{}", robot.worst_delay(VIDEO));
}

#[test]
fn network_aware_packs_more_samples_while_the_delay_rises_and_fewer_again_when_it_does_not() {
    // A sample a packet takes 464 kbit/s with all headers, four together 240.
    let mut robot = Robot::felt(network_aware(), 12, narrow(400));
    for _ in 0..4_000 {
        robot.feel();
        robot.pass();
    }
    robot.settle();
    let ks: Vec<_> = robot.packets().iter().map(|packet| packet.count(HAPTIC)).collect();
    assert_eq!(ks[..8], [1; 8], "nothing is known yet");
    let up = ks.windows(2).position(|pair| pair == [1, 4]).expect("it jumps to the most");
    assert!(up < 200, "{up}");
    let steps: Vec<_> = ks[up..].chunk_by(|a, b| a == b).map(|run| run[0]).collect();
    assert!(steps.windows(4).any(|steps| steps == [4, 3, 2, 1]), "it steps down: {steps:?}");
    assert_eq!(robot.count(HAPTIC), 4_000);
    assert!(robot.worst_delay(HAPTIC) < MS * 30, "{}", robot.worst_delay(HAPTIC));
}

#[test]
fn network_aware_packets_save_headers_and_lose_nothing() {
    // One a packet, beside audio and video, takes 1016 kbit/s, and four together 740.
    let mut robot = Robot::felt(network_aware(), 12, narrow(800));
    robot.run(4_000);
    robot.settle();
    let ks: Vec<_> = robot.packets().iter().map(|packet| packet.count(HAPTIC)).collect();
    assert!(ks.len() < 2_400, "{}", ks.len());
    assert_eq!((robot.count(HAPTIC), robot.count(AUDIO), robot.count(VIDEO)), (4_000, 200, 100));
    assert_eq!((robot.world.observer.lost, robot.refused), (0, 0));
}

#[test]
fn a_packet_that_does_not_fill_goes_after_its_time() {
    let mut robot = Robot::felt(network_aware(), 12, narrow(400));
    while robot.packets().last().is_none_or(|packet| packet.count(HAPTIC) < 4) {
        robot.feel();
        robot.pass();
    }
    let packets = robot.packets().len();
    robot.feel();
    let made = robot.world.now;
    robot.settle();
    assert_eq!(robot.packets().len(), packets + 1);
    let last = robot.packets().last().unwrap();
    assert_eq!((last.count(HAPTIC), last.at - made), (1, PERIOD * 4));
}

#[test]
fn visual_haptic_goes_on_when_the_device_is_silent() {
    let (media_rate, with_sample) = (Bitrate::from_bps(464_000), MS);
    let scheme = Scheme::VisualHaptic { media_rate, with_sample, chunk: MS * 15 };
    let mut robot = Robot::felt(Packing::new(scheme).unwrap(), 24, delays(MS));
    robot.run(1);
    robot.settle();
    assert_eq!((robot.count(AUDIO), robot.count(VIDEO)), (1, 1));
    let chunks: Vec<_> = robot.packets().iter().filter(|packet| packet.count(HAPTIC) == 0).collect();
    assert!(
        chunks.iter().all(|packet| packet.pieces.len() == 1 && packet.pieces[0].1 <= 870),
        "15 ms' worth"
    );
    let span = chunks.last().unwrap().at - chunks[0].at;
    assert!((MS * 20..=MS * 50).contains(&span), "2 kB at 464 kbit/s: {span}");
}

/// 80 B each millisecond in packets of 137: the header of a part of a command does not fit beside.
#[test]
fn what_finds_no_room_beside_what_is_live_goes_alone_after_a_while() {
    let channel = |name: &str, kind| {
        Channel::new(name, Direction::ToOperator, kind, Schema::new("bytes", Encoding::Raw))
    };
    let list = [channel("force", ChannelKind::Feedback), channel("order", ChannelKind::Command)];
    let operator = list.iter().cloned().try_fold(OperatorConfig::new(), OperatorConfig::channel).unwrap();
    let robot = RobotConfig::new().packing(fixed_fragment()).window(false);
    let robot = list.iter().cloned().try_fold(robot, RobotConfig::channel).unwrap();
    let mut world = World::new(udp, operator, robot, delays(MS), Wire::default());
    world.run_until(at_ms(500));
    for ms in 0..400 {
        let now = world.local(ROBOT);
        world.robot.send(now, ChannelId(0), now, &[ms as u8; 80]).unwrap();
        if ms == 100 {
            world.robot.send(now, ChannelId(1), now, &[1; 20]).unwrap();
        }
        world.drain();
        let end = world.now + MS;
        world.run_until(end);
    }
    let arrived = world.observer.received.iter().find(|(_, channel, _)| *channel == ChannelId(1));
    let after = arrived.expect("it goes").0 - at_ms(600);
    assert!(after < MS * 200, "{after}");
    let live = world.observer.received.iter().filter(|(_, channel, _)| *channel == ChannelId(0)).count();
    assert!(live >= 398, "{live}");
}
