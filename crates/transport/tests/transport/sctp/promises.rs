use proptest::prelude::*;
use std::collections::BTreeMap;
use taut_core::{
    DropCause, Duration, Event, Message, PathId, Priority, Probability, Reliability, StreamId, Transport,
};
use taut_transport::sctp::SctpConfig;

use crate::net::MS;
use crate::sctp::{offer, pair};

#[derive(Clone, Debug)]
enum Step {
    Send { end: usize, stream: u16, priority: u8, reliable: bool, deadline: Option<u64>, size: usize },
    Wait(u64),
    Network { way: usize, loss: u32, duplicates: u32, jitter: u64 },
    Replay(usize),
    Spoil(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let send = (0..2_usize, 0..4_u16, 0..3_u8, any::<bool>(), prop::option::of(5..500_u64), 0..3_000_usize)
        .prop_map(|(end, stream, priority, reliable, deadline, size)| Step::Send {
            end,
            stream,
            priority,
            reliable,
            deadline,
            size,
        });
    let network = (0..2_usize, 0..30_u32, 0..30_u32, 0..30_u64)
        .prop_map(|(way, loss, duplicates, jitter)| Step::Network { way, loss, duplicates, jitter });
    let pick = || any::<prop::sample::Index>().prop_map(|index| index.index(10_000));
    prop_oneof![
        8 => send,
        4 => (0..300_u64).prop_map(Step::Wait),
        1 => network,
        1 => pick().prop_map(Step::Replay),
        1 => (pick(), 0..20_000_usize).prop_map(|(index, bit)| Step::Spoil(index, bit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Each message arrives at most once, unchanged; reliable ones without a deadline exactly once and in order in
    /// their stream; and what is reliable and does not arrive was told.
    #[test]
    fn messages_arrive_as_they_were_promised_to(steps in prop::collection::vec(step(), 1..120)) {
        let mut net = pair(SctpConfig::new(), MS * 10, 1);
        let mut sent: BTreeMap<u64, (usize, Message)> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send { end, stream, priority, reliable, deadline, size } => {
                    let tag = number as u64;
                    let mut data = tag.to_be_bytes().to_vec();
                    data.resize(8 + size, tag as u8);
                    let message = Message {
                        data, tag, created: net.now, deadline: deadline.map(|deadline| MS * deadline),
                        priority: Priority(priority), stream: StreamId(stream),
                        reliability: if reliable { Reliability::Reliable } else { Reliability::Unreliable },
                        wanted: None, series: None,
                    };
                    if offer(&mut net, end, message.clone()).is_ok() {
                        sent.insert(tag, (end, message));
                    }
                }
                Step::Wait(wait) => net.run_for(MS * wait),
                Step::Network { way, loss, duplicates, jitter } => {
                    let share = |percent: u32| Probability::from_fraction(f64::from(percent) / 100.0).unwrap();
                    let way = &mut net.ways[way];
                    (way.loss, way.duplicates, way.jitter) = (share(loss), share(duplicates), MS * jitter);
                }
                Step::Replay(index) => if !net.sent.is_empty() {
                    let (_, from, _, data) = net.sent[index % net.sent.len()].clone();
                    net.deliver(1 - from, PathId(0), &data);
                },
                Step::Spoil(index, bit) => if !net.sent.is_empty() {
                    let (_, from, _, mut data) = net.sent[index % net.sent.len()].clone();
                    let bit = bit % (data.len() * 8);
                    data[bit / 8] ^= 1 << (bit % 8);
                    net.deliver(1 - from, PathId(0), &data);
                },
            }
        }
        net.ways.iter_mut().for_each(|way| (way.loss, way.jitter) = (Probability::NEVER, Duration::ZERO));
        net.run_for(Duration::from_secs(120));
        for end in 0..2 {
            let mut last: BTreeMap<(u16, bool), u64> = BTreeMap::new();
            let mut arrived = Vec::new();
            for (_, event) in &net.events[1 - end] {
                let Event::Received { data, stream, .. } = event else { continue };
                let tag = u64::from_be_bytes(data[..8].try_into().unwrap());
                let (from, message) = &sent[&tag];
                prop_assert_eq!((*from, &message.data, message.stream), (end, data, *stream));
                if message.reliability == Reliability::Reliable && message.priority == Priority(1) {
                    let before = last.insert((stream.0, true), tag);
                    prop_assert!(before.is_none_or(|before| before < tag), "out of order in its stream");
                }
                arrived.push(tag);
            }
            let count = arrived.len();
            arrived.sort_unstable();
            arrived.dedup();
            prop_assert_eq!(arrived.len(), count, "one arrived twice");
            for (tag, (from, message)) in sent.iter().filter(|(_, (from, _))| *from == end) {
                let must = message.reliability == Reliability::Reliable && message.deadline.is_none();
                prop_assert!(!must || arrived.binary_search(tag).is_ok(), "{} was lost", tag);
                let told = net.events[*from].iter().filter(|(_, event)| {
                    matches!(event, Event::Dropped { tag: dropped, .. } if dropped == tag)
                }).count();
                let refused = net.count(*from, &Event::Dropped { tag: *tag, cause: DropCause::SendBufferFull });
                prop_assert!(told <= 1 && refused == 0);
                let unreliable = message.reliability == Reliability::Unreliable;
                prop_assert!(unreliable || told == 1 || arrived.binary_search(tag).is_ok(), "{} vanished", tag);
            }
        }
        prop_assert!(net.ends.iter().all(|end| end.poll_timeout().is_some()), "still connected");
    }
}
