//! What holds for every discipline and every sequence of packets, and what fairness promises.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use taut_core::{
    Backlog, Bitrate, Bytes, DropCause, Duration, Ecn, FlowId, LinkEvent, Packet, PacketMeta, Queue, Seed,
    Time,
};
use taut_link::{
    Bottleneck, Cake, CakeConfig, Chain, Codel, CodelConfig, Discipline, DropTail, FqCodel, FqCodelConfig,
    Isolation, Pie, PieConfig, Prio, Red, RedConfig, Tins, TokenBucket, TokenBucketConfig,
};

use crate::driver::{Calls, run};

fn rng(seed: u64) -> taut_core::Rng {
    Seed::new(seed).stream("queue")
}

/// Of a packet, so that CoDel acts on a few.
const SHORT: Bytes = Bytes::new(100);

/// Short targets and small limits, so that everything happens within few packets.
fn simple() -> impl Strategy<Value = Discipline> {
    let micros = |range: std::ops::Range<u64>| range.prop_map(Duration::from_micros);
    prop_oneof![
        (1..20u64).prop_map(|limit| DropTail::default().limit_packets(limit).into()),
        (micros(1..500), micros(1..5_000), 1..30u64, any::<bool>()).prop_map(
            |(target, interval, limit, ecn)| {
                let ce_threshold = None;
                Codel::new(CodelConfig { target, interval, limit, ecn, ce_threshold }).mtu(SHORT).into()
            }
        ),
        (micros(1..500), micros(1..5_000), 1..30u64, 1..8u16, 1..4_000u64, 1_000..40_000u64).prop_map(
            |(target, interval, limit, flows, quantum, memory)| {
                let (quantum, memory) = (Bytes::new(quantum), Bytes::new(memory));
                let config = FqCodelConfig {
                    target,
                    interval,
                    limit,
                    flows,
                    quantum,
                    memory,
                    ..FqCodelConfig::default()
                };
                FqCodel::new(FqCodelConfig { drop_batch: 3, ..config }, 7).mtu(SHORT).into()
            }
        ),
        (micros(1..5_000), micros(1_000..20_000), 1..30u64, any::<bool>(), any::<u64>()).prop_map(
            |(target, tupdate, limit, ecn, seed)| {
                let (alpha, beta, bytemode) = (32, 32, false);
                let config = PieConfig { target, tupdate, limit, alpha, beta, ecn, bytemode };
                Pie::new(config, rng(seed)).mtu(SHORT).into()
            }
        ),
        (1_000..20_000u64, any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
            |(limit, ecn, adaptive, seed)| {
                let (limit, burst) = (Bytes::new(limit), Some(3));
                Red::new(RedConfig { limit, burst, ecn, adaptive, ..RedConfig::default() }, rng(seed)).into()
            }
        ),
        cake(),
    ]
}

fn cake() -> impl Strategy<Value = Discipline> {
    let tins = prop_oneof![
        Just(Tins::Besteffort),
        Just(Tins::Diffserv3),
        Just(Tins::Diffserv4),
        Just(Tins::Diffserv8)
    ];
    let isolation = prop_oneof![
        Just(Isolation::Flowblind),
        Just(Isolation::Hosts),
        Just(Isolation::Flows),
        Just(Isolation::DualSrchost),
        Just(Isolation::TripleIsolate)
    ];
    let bandwidth = prop::option::of((10_000..20_000_000u64).prop_map(Bitrate::from_bps));
    (tins, isolation, bandwidth, 20..100_000u64, 1_000..60_000u64, any::<bool>(), any::<u64>()).prop_map(
        |(tins, isolation, bandwidth, rtt, memory, ingress, seed)| {
            let (rtt, memory) = (Duration::from_micros(rtt), Some(Bytes::new(memory)));
            let config =
                CakeConfig { bandwidth, tins, isolation, rtt, memory, ingress, ..CakeConfig::default() };
            Cake::new(config, rng(seed)).into()
        },
    )
}

fn discipline() -> impl Strategy<Value = Discipline> {
    simple().prop_recursive(2, 6, 3, |child| {
        prop_oneof![
            (prop::collection::vec(child.clone(), 1..4), 0..64u8).prop_map(|(bands, dscp)| {
                let last = bands.len() as u8 - 1;
                Prio::new(bands, last).class(dscp, 0).into()
            }),
            (child, 10_000..20_000_000u64, 1_000..9_000u64, any::<bool>()).prop_map(
                |(child, rate, burst, peak)| {
                    let config = TokenBucketConfig::new(Bitrate::from_bps(rate), Bytes::new(burst));
                    let faster = Bitrate::from_bps(rate * 2);
                    let config = if peak { config.peak(faster, Bytes::new(1_600)) } else { config };
                    TokenBucket::new(config, child).into()
                }
            ),
        ]
    })
}

fn arrivals() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    let gap = prop_oneof![5 => 0..50u64, 3 => 100..3_000u64, 1 => 20_000..400_000u64];
    let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable0), Just(Ecn::CongestionExperienced)];
    prop::collection::vec((gap, 20..2_000u64, 0..5u16, 0..64u8, ecn), 0..120).prop_map(|packets| {
        let mut at = Time::ZERO;
        let one = |(id, (gap, size, flow, dscp, ecn))| {
            at += Duration::from_micros(gap);
            let mut packet = packet(id, flow, size);
            (packet.meta.dscp, packet.meta.ecn) = (dscp, ecn);
            (at, packet)
        };
        (0..).zip(packets).map(one).collect()
    })
}

fn packet(id: u64, flow: u16, size: u64) -> Packet {
    let meta = PacketMeta {
        id,
        size: Bytes::new(size),
        flow: FlowId(flow.into()),
        source_port: flow,
        ..PacketMeta::default()
    };
    Packet { meta, payload: Vec::new() }
}

/// A discipline, and what must be inside.
struct Checked {
    queue: Discipline,
    inside: BTreeMap<u64, Bytes>,
    left: Vec<PacketMeta>,
    dropped: Vec<(PacketMeta, DropCause)>,
    events: Vec<LinkEvent>,
}

impl Checked {
    fn new(queue: Discipline) -> Self {
        let inside = BTreeMap::new();
        Self { queue, inside, left: Vec::new(), dropped: Vec::new(), events: Vec::new() }
    }

    fn enqueue(&mut self, now: Time, packet: Packet) {
        self.inside.insert(packet.meta.id, packet.meta.size);
        self.queue.enqueue(now, packet, &mut self.events);
        self.check();
    }

    fn dequeue(&mut self, now: Time) -> Option<PacketMeta> {
        let packet = self.queue.dequeue(now, &mut self.events);
        if let Some(packet) = &packet {
            assert!(self.inside.remove(&packet.meta.id).is_some(), "{packet:?} was not inside");
            self.left.push(packet.meta);
        }
        self.check();
        let waits = self.queue.backlog().packets > 0;
        match self.queue.poll_timeout() {
            Some(deadline) if packet.is_none() => assert!(deadline.at > now, "{deadline:?} at {now}"),
            None if packet.is_none() => assert!(!waits, "it is idle while packets wait"),
            _ => {}
        }
        packet.map(|packet| packet.meta)
    }

    fn check(&mut self) {
        for event in self.events.drain(..) {
            match event {
                LinkEvent::Dropped { meta, cause } => {
                    assert!(self.inside.remove(&meta.id).is_some(), "{meta:?} was not inside");
                    self.dropped.push((meta, cause));
                }
                LinkEvent::Marked { meta } => assert_eq!(meta.ecn, Ecn::CongestionExperienced),
                LinkEvent::Duplicated { .. } | LinkEvent::Corrupted { .. } => unreachable!("{event:?}"),
            }
        }
        let mut seen = (Backlog::default(), BTreeSet::new());
        self.queue.visit(&mut |meta| {
            seen.0.add(meta.size);
            assert!(seen.1.insert(meta.id), "{meta:?} is shown twice");
        });
        assert_eq!(seen.0, self.queue.backlog());
        assert!(seen.1.iter().eq(self.inside.keys()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Every packet leaves or is dropped, once; `backlog` and `visit` agree; who holds packets gives one, or says when.
    #[test]
    fn every_packet_is_accounted_for(queue in discipline(), arrivals in arrivals(), gap in 1..3_000u64) {
        let mut queue = Checked::new(queue);
        let gap = Duration::from_micros(gap);
        let mut next = Time::ZERO;
        for (at, packet) in arrivals {
            while next < at {
                queue.dequeue(next);
                next += gap;
            }
            queue.enqueue(at, packet);
        }
        for _ in 0..100_000 {
            queue.dequeue(next);
            if queue.inside.is_empty() {
                break;
            }
            next = queue.queue.poll_timeout().map_or(next + gap, |deadline| deadline.at.max(next + gap));
        }
        prop_assert!(queue.inside.is_empty(), "{:?} never leaves", queue.inside);
    }

    /// Packets of one flow and class never overtake each other.
    #[test]
    fn a_flow_keeps_its_order(queue in discipline(), arrivals in arrivals()) {
        let mut queue = Checked::new(queue);
        for (at, mut packet) in arrivals {
            packet.meta.dscp = 0;
            queue.enqueue(at, packet);
            if at.as_nanos() % 3 == 0 {
                queue.dequeue(at);
            }
        }
        let mut last = BTreeMap::new();
        for meta in &queue.left {
            prop_assert!(last.insert(meta.flow, meta.id).is_none_or(|before| before < meta.id));
        }
    }

    #[test]
    fn behind_a_server_a_late_driver_changes_neither_order_nor_fate(
        queue in discipline(),
        arrivals in arrivals(),
        rate in 100_000..50_000_000u64,
    ) {
        let chain = Chain::from(Bottleneck::new(Bitrate::from_bps(rate), queue));
        let outcome = |calls| {
            let run = run(&mut chain.clone(), arrivals.clone(), calls);
            let ids: Vec<u64> = run.ids();
            (ids, run.drops())
        };
        let exact = outcome(Calls::Exact);
        prop_assert_eq!(&exact, &outcome(Calls::ExactAfterArrivals));
        prop_assert_eq!(&exact, &outcome(Calls::Lazy));
        prop_assert_eq!(exact.0.len() + exact.1.len(), arrivals.len());
    }
}

/// Bytes of each flow that leave a link of 10 Mbit/s in five seconds, when flow i sends packets of `sizes[i]` at twice
/// the link's rate.
fn shares(mut queue: Discipline, sizes: &[u64]) -> Vec<u64> {
    let rate = Bitrate::from_bps(10_000_000);
    let mut events = Vec::new();
    let mut next: Vec<Duration> = vec![Duration::ZERO; sizes.len()];
    let (mut now, mut id) = (Time::ZERO, 0);
    let mut sent = vec![0; sizes.len()];
    while now < Time::ZERO + Duration::from_secs(5) {
        for (flow, at) in next.iter_mut().enumerate() {
            while Time::ZERO + *at <= now {
                queue.enqueue(now, packet(id, flow as u16, sizes[flow]), &mut events);
                id += 1;
                *at += Bytes::new(sizes[flow]) / rate / 2;
            }
        }
        let size = queue.dequeue(now, &mut events).map(|packet| {
            sent[packet.meta.flow.0 as usize] += packet.meta.size.get();
            packet.meta.size
        });
        now += size.unwrap_or(Bytes::new(100)) / rate;
    }
    sent
}

/// RFC 8290 section 1.3: fair by bytes, whatever the sizes of packets.
#[test]
fn flows_share_by_bytes() {
    let small = |queue: Discipline| shares(queue, &[1_500, 300, 700]);
    let config = FqCodelConfig { limit: 300, ..FqCodelConfig::default() };
    let memory = Some(Bytes::new(300_000));
    let fair = [
        small(FqCodel::new(config, 3).into()),
        small(Cake::new(CakeConfig { memory, ..CakeConfig::default() }, rng(3)).into()),
    ];
    for shares in fair {
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        assert!(most - least <= most / 50, "{shares:?}");
    }
}

/// Where sources share first, a host with three flows has no more than one with a single flow.
#[test]
fn hosts_share_before_flows_do() {
    let (bandwidth, memory) = (Some(Bitrate::from_bps(10_000_000)), Some(Bytes::new(600_000)));
    let config = CakeConfig { bandwidth, memory, tins: Tins::Besteffort, ..CakeConfig::default() };
    let mut queue = Cake::new(config, rng(4));
    let (mut sent, mut now, mut id) = ([0, 0], Time::ZERO, 0);
    while now < Time::ZERO + Duration::from_secs(5) {
        for flow in 0..4 {
            let mut packet = packet(id, flow, 1_000);
            packet.meta.source = taut_core::Address(u16::from(flow > 0));
            packet.meta.destination = taut_core::Address(9 + flow);
            queue.enqueue(now, packet, &mut Vec::new());
            id += 1;
        }
        if let Some(packet) = queue.dequeue(now, &mut Vec::new()) {
            sent[usize::from(packet.meta.source.0)] += packet.meta.size.get();
        }
        now += Duration::from_micros(801);
    }
    let [one, three] = sent;
    assert!(one.abs_diff(three) <= (one + three) / 50, "{sent:?}");
}

/// A flow that sends one small packet now and then goes ahead of three floods (RFC 8290 section 4.2: new flows).
#[test]
fn a_sparse_flow_does_not_wait_for_floods() {
    let quick: [Discipline; 2] =
        [FqCodel::new(FqCodelConfig::default(), 3).into(), Cake::new(CakeConfig::default(), rng(3)).into()];
    for mut queue in quick {
        let rate = Bitrate::from_bps(10_000_000);
        let mut events = Vec::new();
        let (mut now, mut id, mut entered, mut longest) = (Time::ZERO, 0, None, Duration::ZERO);
        for round in 0..4_000 {
            for flow in 0..3 {
                queue.enqueue(now, packet(id, flow, 1_500), &mut events);
                id += 1;
            }
            if round % 10 == 0 {
                queue.enqueue(now, packet(id, 9, 100), &mut events);
                entered = entered.or(Some(now));
                id += 1;
            }
            let meta = queue.dequeue(now, &mut events).expect("a flood").meta;
            if meta.flow == FlowId(9) {
                longest = longest.max(now - entered.take().expect("it entered"));
            }
            now += meta.size / rate;
        }
        // At the very beginning all four are new: a turn of the others is two packets, since 1514 bytes allow a second.
        assert!(longest <= Bytes::new(6 * 1_500) / rate, "{longest}");
    }
}

/// A flow whose packets wait for those of another each time, and which is empty in between: Linux does not forget by that since when it
/// has waited too long, and drops it after an interval.
#[test]
fn a_flow_that_runs_empty_is_still_above_its_target() {
    let rate = Bitrate::from_bps(500_000);
    let mut queue = FqCodel::new(FqCodelConfig::default(), 1);
    let (mut now, mut id, mut events) = (Time::ZERO, 0, Vec::new());
    let mut sparse = Time::ZERO;
    while now < Time::ZERO + Duration::from_secs(10) {
        queue.enqueue(now, packet(id, 0, 1_500), &mut events);
        id += 1;
        while sparse <= now {
            queue.enqueue(sparse, packet(id, 9, 1_000), &mut events);
            (id, sparse) = (id + 1, sparse + Duration::from_millis(50));
        }
        let sent = queue.dequeue(now, &mut events).expect("bulk");
        now += sent.meta.size / rate;
    }
    let by_codel = |event: &&LinkEvent| matches!(event, LinkEvent::Dropped { meta, cause: DropCause::Aqm } if meta.flow == FlowId(9));
    assert!(events.iter().filter(by_codel).count() > 0, "{:?}", queue.stats());
}

/// RFC 3168: who understands marks is not dropped by the algorithm, who does not is not marked.
#[test]
fn marks_go_to_those_who_understand_them() {
    let marking: [Discipline; 3] = [
        Codel::new(CodelConfig { ecn: true, ..CodelConfig::default() }).into(),
        FqCodel::new(FqCodelConfig::default(), 1).into(),
        Cake::new(CakeConfig::default(), rng(1)).into(),
    ];
    for mut queue in marking {
        let (mut now, mut events) = (Time::ZERO, Vec::new());
        for id in 0..2_000 {
            let mut packet = packet(id, (id % 2) as u16, 1_000);
            packet.meta.ecn = if id % 2 == 0 { Ecn::Capable0 } else { Ecn::NotCapable };
            queue.enqueue(now, packet, &mut events);
            if id % 4 > 0 {
                queue.dequeue(now, &mut events);
            }
            now += Duration::from_millis(1);
        }
        let (mut marks, mut drops) = (0, 0);
        for event in events {
            match event {
                LinkEvent::Marked { meta } => marks += u64::from(meta.id % 2 == 0),
                LinkEvent::Dropped { meta, cause: DropCause::Aqm } => {
                    assert_eq!(meta.id % 2, 1, "{meta:?}");
                    drops += 1;
                }
                _ => {}
            }
        }
        assert!(marks > 3 && drops > 3, "{marks} marks, {drops} drops");
    }
}
