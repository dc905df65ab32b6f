//! What holds for every chain and every sequence of arrivals.

use crate::driver::{Calls, packet, run};
use proptest::prelude::*;
use taut_core::{Bitrate, Bytes, Duration, LinkEvent, Packet, Probability, Seed, Time};
use taut_link::frame_gate::{Filter, GateConfig, Policy};
use taut_link::{
    Bottleneck, Chain, Corrupt, Cut, Delay, Distribution, DropTail, Duplicate, Element, FrameGate,
    GilbertElliott, Jitter, JitterConfig, Loss, MahimahiTrace, Rate, Schedule,
};

fn duration(max_micros: u64) -> impl Strategy<Value = Duration> {
    (0..=max_micros).prop_map(Duration::from_micros)
}

fn probability() -> impl Strategy<Value = Probability> {
    (0.0..=1.0).prop_map(|fraction| Probability::from_fraction(fraction).unwrap())
}

fn rng() -> impl Strategy<Value = taut_core::Rng> {
    any::<u64>().prop_map(|seed| Seed::new(seed).stream("element"))
}

/// A constant or a table, looping or not.
fn schedule<T: Copy + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Schedule<T>> {
    (prop::collection::vec(value, 1..5), 1..3_000u64, any::<bool>()).prop_map(|(values, micros, looping)| {
        let (step, count) = (Duration::from_micros(micros), values.len() as u64);
        let table = Schedule::steps(step, values).unwrap();
        if looping { table.looping(step * count).unwrap() } else { table }
    })
}

fn rate() -> impl Strategy<Value = Rate> {
    let bitrate =
        prop_oneof![1 => Just(Bitrate::ZERO), 9 => (1_000..50_000_000u64).prop_map(Bitrate::from_bps)];
    let trace = prop::collection::vec(0..4u32, 1..8).prop_map(|mut steps| {
        steps.push(1);
        let millis = steps.iter().scan(0, |sum, step| {
            *sum += step;
            Some(sum.to_string())
        });
        MahimahiTrace::parse(&millis.collect::<Vec<_>>().join("\n")).unwrap()
    });
    prop_oneof![
        bitrate.clone().prop_map(Rate::Fixed),
        schedule(bitrate).prop_map(Rate::Table),
        trace.prop_map(Rate::Trace)
    ]
}

fn jitter(reorder: impl Strategy<Value = bool>) -> impl Strategy<Value = Element> {
    let shape =
        prop_oneof![Just(Distribution::Uniform), Just(Distribution::Normal), Just(Distribution::Pareto)];
    let parameters = (schedule(duration(5_000)), schedule(duration(5_000)), shape, 0.0..=1.0, reorder);
    (parameters, 1..40usize, rng()).prop_map(|((mean, spread, shape, rho, reorder), limit, rng)| {
        let config = JitterConfig::new(spread).mean(mean).distribution(shape).correlation(rho);
        Jitter::new(config.reorder(reorder).limit(limit), rng).unwrap().into()
    })
}

fn element(reorder: impl Strategy<Value = bool>) -> impl Strategy<Value = Element> {
    let model = [(); 4].map(|()| probability());
    let loss = prop_oneof![
        (schedule((0.0..0.5).prop_map(|p| Probability::from_fraction(p).unwrap())), rng())
            .prop_map(|(p, rng)| Loss::bernoulli(p, rng)),
        (model, rng()).prop_map(|([p, r, loss_in_bad, loss_in_good], rng)| {
            Loss::gilbert_elliott(GilbertElliott { p, r, loss_in_bad, loss_in_good }, rng)
        })
    ];
    prop_oneof![
        (schedule(duration(20_000)), 1..40usize)
            .prop_map(|(delay, limit)| Delay::new(delay).limit(limit).into()),
        (rate(), 0..20u64, 0..20_000u64).prop_map(|(rate, packets, bytes)| {
            let queue = DropTail::default().limit_packets(packets).limit_bytes(Bytes::new(bytes));
            Bottleneck::new(rate, queue).into()
        }),
        loss.prop_map(Element::from),
        jitter(reorder),
        (probability(), rng()).prop_map(|(p, rng)| Duplicate::new(p, rng).into()),
        (probability(), rng()).prop_map(|(p, rng)| Corrupt::new(p, rng).into()),
        (duration(50_000), duration(20_000))
            .prop_map(|(at, length)| Cut::at(Time::ZERO + at).lasting(length).into()),
        (prop::sample::select(Policy::ALL.to_vec()), 30..200u64, 30..200u64).prop_map(
            |(policy, update, reset)| {
                let [update, reset] = [update, reset].map(Duration::from_millis);
                let config =
                    GateConfig { update_interval: update, reset_interval: reset, ..GateConfig::new(policy) };
                FrameGate::new(vec![Filter::port(5004)], config).into()
            }
        ),
    ]
}

/// An RTP packet of VP8, or one of something else.
fn content(video: Option<(bool, u8, bool)>, packet: &mut Packet) {
    let Some((marker, frame, key)) = video else { return };
    packet.meta.destination_port = 5004;
    packet.payload = vec![0x80, u8::from(marker) << 7 | 96, 0, 0, 0, 0, 0, frame, 0, 0, 0, 1];
    packet.payload.extend([0x10, u8::from(!key)]);
}

/// Bursts, ties on whole microseconds, and gaps. Half of them are video.
fn arrivals() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    let gap = prop_oneof![3 => Just(0), 3 => 1..100u64, 3 => 100..5_000u64, 1 => 5_000..100_000u64];
    let video = prop::option::of(any::<(bool, u8, bool)>());
    prop::collection::vec((gap, 0..3_000u64, video), 0..60).prop_map(|packets| {
        let mut at = Time::ZERO;
        let entered = (0..).zip(packets).map(|(id, (gap, size, video))| {
            at += Duration::from_micros(gap);
            let mut packet = packet(id, size);
            content(video, &mut packet);
            (at, packet)
        });
        entered.collect()
    })
}

fn chain(reorder: impl Strategy<Value = bool> + Clone) -> impl Strategy<Value = Chain> {
    prop::collection::vec(element(reorder), 0..6).prop_map(Chain::new)
}

/// Events in an order that does not depend on when the driver called.
fn sorted(events: &[LinkEvent]) -> Vec<String> {
    let mut sorted: Vec<_> = events.iter().map(|event| format!("{event:?}")).collect();
    sorted.sort();
    sorted
}

proptest! {
    /// The driver checks after every call that in + duplicated = out + dropped + held, packet by packet.
    #[test]
    fn every_packet_is_accounted_for(mut chain in chain(any::<bool>()), arrivals in arrivals()) {
        run(&mut chain, arrivals, Calls::Exact);
    }

    #[test]
    fn a_chain_without_reordering_keeps_the_order(mut chain in chain(Just(false)), arrivals in arrivals()) {
        let ids = run(&mut chain, arrivals, Calls::Exact).ids();
        prop_assert!(ids.is_sorted(), "{ids:?}");
    }

    #[test]
    fn the_same_chain_and_arrivals_give_the_same_run(chain in chain(any::<bool>()), arrivals in arrivals()) {
        let (mut first, mut second) = (chain.clone(), chain);
        let first = run(&mut first, arrivals.clone(), Calls::Exact);
        prop_assert_eq!(first, run(&mut second, arrivals, Calls::Exact));
    }

    #[test]
    fn at_one_time_it_does_not_matter_whether_deadline_or_arrival_is_handled_first(
        chain in chain(any::<bool>()),
        arrivals in arrivals(),
    ) {
        let (mut first, mut second) = (chain.clone(), chain);
        let first = run(&mut first, arrivals.clone(), Calls::Exact);
        let second = run(&mut second, arrivals, Calls::ExactAfterArrivals);
        prop_assert_eq!(&first.out, &second.out);
        prop_assert_eq!(sorted(&first.events), sorted(&second.events));
    }

    #[test]
    fn a_late_driver_changes_neither_order_nor_fate(chain in chain(any::<bool>()), arrivals in arrivals()) {
        let (mut exact, mut lazy) = (chain.clone(), chain);
        let exact = run(&mut exact, arrivals.clone(), Calls::Exact);
        let lazy = run(&mut lazy, arrivals, Calls::Lazy);
        let packets = |run: &crate::driver::Run| run.out.iter().map(|(_, packet)| packet.clone()).collect::<Vec<_>>();
        prop_assert_eq!(packets(&exact), packets(&lazy));
        prop_assert_eq!(sorted(&exact.events), sorted(&lazy.events));
        prop_assert!(exact.out.iter().zip(&lazy.out).all(|((exact, _), (lazy, _))| exact <= lazy));
    }
}
