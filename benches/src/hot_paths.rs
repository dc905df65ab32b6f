//! What a packet costs on its way through a link, and a segment through both ends of a TCP connection, driven by hand.

use std::collections::VecDeque;
use std::hint::black_box;

use taut_core::{
    Bitrate, Bytes, Datagram, Duration, Ecn, FlowId, Link, Packet, PacketMeta, PathId, Queue, Rng, Seed,
    Time, Transport,
};
use taut_link::{
    Bottleneck, Cake, CakeConfig, Chain, Codel, Delay, Discipline, DropTail, Element, FqCodel, FqCodelConfig,
    Pie, PieConfig, Prio, Red, RedConfig, TokenBucket, TokenBucketConfig,
};
use taut_transport::tcp::{CongestionControl, Tcp, TcpConfig};

use crate::process::Measurement;

/// Takes so many rounds and says how many packets or segments that were.
type Path = fn(u64) -> u64;

/// By name. The first is what the others are compared with, so that machines can be.
pub(crate) const PATHS: [(&str, Path); 13] = [
    ("a packet into a queue and out", through_a_queue),
    ("link: delay", |rounds| through(Chain::from(Delay::new(Duration::from_millis(8))), rounds)),
    ("link: bottleneck, delay", |rounds| {
        let server = Bottleneck::new(Bitrate::from_bps(1_000_000_000), DropTail::default());
        let delay = Delay::new(Duration::from_millis(8));
        through(Chain::new(vec![Element::from(server), Element::from(delay)]), rounds)
    }),
    ("queue: pfifo", |rounds| queued(DropTail::default(), rounds)),
    ("queue: codel", |rounds| queued(Codel::default(), rounds)),
    ("queue: fq_codel", |rounds| queued(FqCodel::new(FqCodelConfig::default(), 1), rounds)),
    ("queue: pie", |rounds| queued(Pie::new(PieConfig::default(), chance()), rounds)),
    ("queue: red", |rounds| queued(Red::new(RedConfig::default(), chance()), rounds)),
    ("queue: prio", |rounds| queued(Prio::linux(), rounds)),
    ("queue: tbf", |rounds| {
        let config = TokenBucketConfig::new(Bitrate::from_bps(10_000_000_000), Bytes::new(100_000));
        queued(TokenBucket::new(config, DropTail::default()), rounds)
    }),
    ("queue: cake", |rounds| queued(Cake::new(CakeConfig::default(), chance()), rounds)),
    ("TCP segment, NewReno", |rounds| segments(CongestionControl::NewReno, rounds)),
    ("TCP segment, CUBIC", |rounds| segments(CongestionControl::Cubic, rounds)),
];

pub(crate) fn measure(index: usize, rounds: u64) -> Result<Measurement, String> {
    let (_, path) = PATHS.get(index).ok_or_else(|| format!("there is no path {index}"))?;
    path(rounds / 10); // Warms caches and buffers.
    Measurement::of(|| path(rounds))
}

fn packet(id: u64) -> Packet {
    Packet { meta: PacketMeta { id, size: Bytes::new(1_250), ..PacketMeta::default() }, payload: Vec::new() }
}

/// The least that a link could do.
fn through_a_queue(rounds: u64) -> u64 {
    let mut queue: VecDeque<Packet> = (0..100).map(packet).collect();
    for id in 0..rounds {
        queue.push_back(black_box(packet(id)));
        black_box(queue.pop_front());
    }
    rounds
}

fn chance() -> Rng {
    Seed::new(3).stream("queue")
}

/// A packet into a discipline and one out, of eight flows in turn, with some ten waiting.
fn queued(queue: impl Into<Discipline>, rounds: u64) -> u64 {
    let (mut queue, mut events, mut now) = (queue.into(), Vec::new(), Time::ZERO);
    for id in 0..rounds {
        let mut packet = packet(id);
        packet.meta.flow = FlowId((id % 8) as u32);
        queue.enqueue(now, packet, &mut events);
        if id >= 10 {
            black_box(queue.dequeue(now, &mut events));
        }
        black_box(&events);
        events.clear();
        now += Duration::from_micros(10);
    }
    rounds
}

/// A packet of 1250 bytes every 10.1 to 11.3 µs: 1 Gbit/s is just enough.
fn through(mut link: Chain, rounds: u64) -> u64 {
    let mut rng = Seed::new(2).stream("gaps");
    let gaps: Vec<Duration> = (0..1_024).map(|_| Duration::from_nanos(10_100 + rng.below(1_200))).collect();
    let mut arrival = Time::ZERO;
    for id in 0..rounds {
        while let Some(deadline) = link.poll_timeout().filter(|deadline| deadline.at <= arrival) {
            link.handle_timeout(deadline.at);
            drain(&mut link, deadline.at);
        }
        link.handle_input(arrival, packet(id));
        drain(&mut link, arrival);
        arrival += gaps[(id % 1_024) as usize];
    }
    rounds
}

fn drain(link: &mut Chain, now: Time) {
    while let Some(packet) = link.poll_transmit(now) {
        black_box(packet);
    }
    while let Some(event) = link.poll_event() {
        black_box(event);
    }
}

/// Both ends of a bulk flow with a window of 45 segments, with its acknowledgements, on a network that costs nothing.
fn segments(congestion: CongestionControl, rounds: u64) -> u64 {
    let receive_window = Bytes::new(45 * 538);
    let config = TcpConfig { congestion, receive_window, mss: 538, ..TcpConfig::default() };
    let mut client = Tcp::client(config.clone(), 1).bulk(None);
    let mut server = Tcp::server(config, 2).sink();
    let (mut now, mut buffer, mut sent) = (Time::ZERO, Vec::new(), 0);
    while sent < rounds {
        now += Duration::from_millis(20);
        client.handle_timeout(now);
        sent += carry(now, &mut client, &mut server, &mut buffer);
        carry(now, &mut server, &mut client, &mut buffer);
    }
    sent
}

fn carry(now: Time, from: &mut Tcp, to: &mut Tcp, buffer: &mut Vec<u8>) -> u64 {
    let mut carried = 0;
    while let Some(transmit) = from.poll_transmit(now, buffer) {
        let (path, ecn) = (PathId(0), Ecn::NotCapable);
        to.handle_input(now, Datagram { path, ecn, data: buffer, padding: transmit.padding });
        while let Some(event) = to.poll_event() {
            black_box(event);
        }
        buffer.clear();
        carried += 1;
    }
    carried
}
