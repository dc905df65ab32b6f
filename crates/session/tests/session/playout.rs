//! Messages that came unevenly are given on in even time.
#![allow(clippy::unwrap_used)]

use taut_core::{DropCause, Duration, Seed, Time};
use taut_link::{Chain, Delay, Distribution, Jitter, JitterConfig};
use taut_session::{
    Channel, ChannelEvent, ChannelId, ChannelKind, ChannelSummary, Direction, OperatorConfig, OperatorEvent,
    Playout, RobotConfig,
};

use crate::channels::{channel, payload};
use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, udp};

const SOUND: ChannelId = ChannelId(0);
const MESSAGES: u64 = 500;

/// 20 ms and up to 30 more, each packet for itself, so that they overtake each other.
fn uneven() -> [Chain; 2] {
    let jitter = JitterConfig::new(MS * 10).mean(MS * 15).reorder(true).distribution(Distribution::Uniform);
    let jitter = Jitter::new(jitter, Seed::new(3).stream("jitter")).unwrap();
    [Delay::new(MS * 20).into(), Chain::new(vec![Delay::new(MS * 20).into(), jitter.into()])]
}

/// When each message that the robot made every 10 ms was given on at the operator and how old it was said to be, and what was counted there.
fn heard(playout: Playout, deadline: Duration) -> (Vec<(u64, Time, Duration)>, ChannelSummary) {
    heard_of(channel("sound", Direction::ToOperator, ChannelKind::Audio).deadline(deadline), playout)
}

fn heard_of(sound: Channel, playout: Playout) -> (Vec<(u64, Time, Duration)>, ChannelSummary) {
    let operator = OperatorConfig::new().channel(sound.clone().playout(playout)).unwrap();
    let robot = RobotConfig::new().channel(sound).unwrap();
    let mut world = World::new(udp, operator, robot, uneven(), Log::default());
    // Long enough for the clocks to be known well.
    world.run_until(at_ms(3_000));
    for number in 0..MESSAGES {
        let now = world.local(ROBOT);
        world.robot.send(now, SOUND, now, &payload(number, 100)).unwrap();
        world.drain();
        let end = world.now + MS * 10;
        world.run_until(end);
    }
    let end = world.now + MS * 1_000;
    world.run_until(end);
    let heard = world.observer.operator.iter().filter_map(|(at, event)| match event {
        OperatorEvent::Channel(ChannelEvent::Received { sequence, age, payload: bytes, .. }) => {
            assert_eq!(bytes, &payload(sequence - 1, 100));
            Some((*sequence, *at, age.unwrap()))
        }
        _ => None,
    });
    (heard.collect(), world.operator.status(world.local(OPERATOR)).channels[0].clone())
}

/// The greatest difference of two neighbours' spacing from 10 ms.
fn uneven_by(heard: &[(u64, Time, Duration)]) -> Duration {
    let apart = |pair: &[(u64, Time, Duration)]| {
        assert!(pair[0].0 < pair[1].0, "in order");
        (pair[1].1 - pair[0].1).abs_diff(MS * 10 * (pair[1].0 - pair[0].0))
    };
    heard.windows(2).map(apart).max().unwrap()
}

#[test]
fn sound_that_comes_unevenly_is_given_on_evenly_after_a_fixed_delay() {
    let (at_once, _) = heard(Playout::AtOnce, MS * 200);
    assert!(at_once.windows(2).any(|pair| pair[0].0 > pair[1].0), "they overtake each other");
    let (even, summary) = heard(Playout::Fixed(MS * 40), MS * 200);
    let (begun, even) = even.split_at(50);
    assert!(begun.len() + even.len() > 490 && summary.played_late < 5, "{summary:?}");
    assert!(uneven_by(even) < MS, "{}", uneven_by(even));
    assert!(
        even.iter().all(|(.., age)| age.abs_diff(MS * 60) < MS * 10),
        "an age is that of when it is given on"
    );
}

#[test]
fn what_comes_too_late_to_be_given_on_evenly_is_counted() {
    let (heard, summary) = heard(Playout::Fixed(MS * 15), MS * 200);
    assert!(summary.played_late > 100, "half of them take longer: {summary:?}");
    assert_eq!(heard.len() as u64 + summary.played_late, MESSAGES);
    assert_eq!(summary.dropped[DropCause::TooLate.name()], summary.played_late);
    uneven_by(&heard);
}

#[test]
fn an_adaptive_delay_lets_nearly_all_through() {
    let (heard, summary) = heard(Playout::Adaptive { min: MS * 5, max: MS * 80 }, MS * 200);
    assert!(heard.len() > 480, "{summary:?}");
    assert!(heard[100..].iter().all(|(.., age)| *age < MS * 110));
}

#[test]
fn what_is_held_past_its_deadline_is_not_given_on() {
    let (heard, summary) = heard(Playout::Fixed(MS * 40), MS * 50);
    assert!(heard.iter().all(|(.., age)| *age < MS * 50), "{summary:?}");
    assert!(summary.played_late > 400, "{summary:?}");
}

#[test]
fn what_arrives_in_any_case_is_given_on_as_it_comes_in_its_order() {
    let log = channel("log", Direction::ToOperator, ChannelKind::Bulk);
    let (all, counted) = heard_of(log, Playout::Fixed(MS * 5));
    assert_eq!((all.len() as u64, counted.delivered, counted.played_late), (MESSAGES, MESSAGES, 0));
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
}
