use proptest::prelude::*;
use taut_core::{Duration, Event, PathId, Probability};
use taut_transport::security::{Secured, SecurityConfig};

use crate::net::{MS, at_ms};
use crate::secured::{heard, pair, say};

#[derive(Clone, Debug)]
enum Step {
    Say(usize, u8),
    Wait(u64),
    Lose(usize, u32),
    Shuffle(usize, u64),
    Duplicate(usize, u32),
    Move(usize, u8),
    Replay(usize),
    Spoil(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let end = 0..2_usize;
    prop_oneof![
        6 => (end.clone(), any::<u8>()).prop_map(|(end, byte)| Step::Say(end, byte)),
        6 => (0..400_u64).prop_map(Step::Wait),
        1 => (end.clone(), 0..60_u32).prop_map(|(end, percent)| Step::Lose(end, percent)),
        1 => (end.clone(), 0..50_u64).prop_map(|(end, ms)| Step::Shuffle(end, ms)),
        1 => (end.clone(), 0..60_u32).prop_map(|(end, percent)| Step::Duplicate(end, percent)),
        1 => (end, 0..4_u8).prop_map(|(end, path)| Step::Move(end, path)),
        2 => any::<prop::sample::Index>().prop_map(|index| Step::Replay(index.index(10_000))),
        2 => (any::<prop::sample::Index>(), 0..2_000_usize).prop_map(|(index, bit)| Step::Spoil(index.index(10_000), bit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the network does, nothing arrives that was not said, nothing twice, and in the end it flows.
    #[test]
    fn what_arrives_was_said_and_arrives_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut net = pair(SecurityConfig::new().rekey_after(Duration::from_secs(2)));
        let mut said = [0_u32; 2];
        for step in steps {
            match step {
                Step::Say(end, byte) => {
                    let text = [&said[end].to_be_bytes()[..], &[byte; 40]].concat();
                    said[end] += 1;
                    say(&mut net, end, &text);
                }
                Step::Wait(wait) => net.run_for(MS * wait),
                Step::Lose(way, percent) => net.ways[way].loss = share(percent),
                Step::Shuffle(way, jitter) => net.ways[way].jitter = MS * jitter,
                Step::Duplicate(way, percent) => net.ways[way].duplicates = share(percent),
                Step::Move(way, path) => net.ways[way].path = PathId(path),
                Step::Replay(index) => if !net.sent.is_empty() {
                    let (_, from, _, data) = net.sent[index % net.sent.len()].clone();
                    net.deliver(1 - from, PathId(9), &data);
                },
                Step::Spoil(index, bit) => if !net.sent.is_empty() {
                    let (_, from, _, mut data) = net.sent[index % net.sent.len()].clone();
                    let bit = bit % (data.len() * 8);
                    data[bit / 8] ^= 1 << (bit % 8);
                    net.deliver(1 - from, PathId(9), &data);
                },
            }
        }
        for end in 0..2 {
            let mut numbers: Vec<&[u8]> = heard(&net, end).iter().map(|data| &data[..4]).collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), count, "one arrived twice");
            prop_assert!(numbers.iter().all(|number| u32::from_be_bytes((*number).try_into().unwrap()) < said[1 - end]));
        }
        net.ways.iter_mut().for_each(|way| (way.loss, way.jitter) = (Probability::NEVER, Duration::ZERO));
        net.run_for(MS * 5_000);
        prop_assert!(net.ends.iter().all(Secured::is_open));
        prop_assert!(net.count(0, &Event::Closed) == 0, "nothing of this ends a conversation");
        say(&mut net, 0, &[&u32::MAX.to_be_bytes()[..], b"end"].concat());
        net.run_for(MS * 100);
        prop_assert!(heard(&net, 1).last().unwrap().ends_with(b"end"));
        prop_assert!(net.now > at_ms(5_000));
    }
}

fn share(percent: u32) -> Probability {
    Probability::from_fraction(f64::from(percent) / 100.0).expect("at most 1")
}
