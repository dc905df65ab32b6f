//! Losses of channels' messages, and what mends them: repetition, parity, copies.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use taut_core::{Bitrate, Bytes, DropCause, Duration, Probability, Seed};
use taut_link::{Chain, Delay, Loss, Schedule};
use taut_session::{
    Channel, ChannelEvent, ChannelId, ChannelKind, ChannelSummary, Delivery, Direction, OperatorConfig,
    Repair, RobotConfig,
};

use crate::channels::{channel, of_operator, of_robot, payload, received};
use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, udp};

const CAMERA: ChannelId = ChannelId(0);

/// So much of a round trip, of which this share is lost each way.
fn lossy(round_trip: Duration, percent: u64, seed: u64) -> [Chain; 2] {
    let share = Schedule::constant(format!("{percent}%").parse::<Probability>().unwrap());
    let way = |name: &str| {
        let loss = Loss::bernoulli(share.clone(), Seed::new(seed).stream(name));
        Chain::new(vec![loss.into(), Delay::new(round_trip / 2).into()])
    };
    [way("there"), way("back")]
}

/// What a channel from the robot did at both ends.
struct Outcome {
    robot: ChannelSummary,
    operator: ChannelSummary,
    /// Bytes of payloads that were made.
    made: u64,
}

impl Outcome {
    fn delivered(&self) -> f64 {
        self.operator.delivered as f64 / self.robot.made as f64
    }

    /// What was sent beside each message once.
    fn overhead(&self) -> f64 {
        (self.robot.bytes + self.robot.parity_bytes) as f64 / self.made as f64 - 1.0
    }
}

/// Thirty seconds of messages of `size` bytes every 20 ms.
fn stream(
    channel: Channel,
    links: [Chain; 2],
    size: usize,
) -> (World<taut_transport::udp::Udp, Log>, Outcome) {
    stream_every(MS * 20, channel, links, size)
}

/// The same, one every so often.
fn stream_every(
    period: Duration,
    channel: Channel,
    links: [Chain; 2],
    size: usize,
) -> (World<taut_transport::udp::Udp, Log>, Outcome) {
    let operator = OperatorConfig::new().channel(channel.clone()).unwrap();
    let robot = RobotConfig::new().channel(channel).unwrap();
    let mut world = World::new(udp, operator, robot, links, Log::default());
    world.run_until(at_ms(2_000));
    let mut made = 0;
    for number in 0..1_500 {
        let now = world.local(ROBOT);
        world.robot.send(now, CAMERA, now, &payload(number, size)).unwrap();
        made += size as u64;
        world.drain();
        let end = world.now + period;
        world.run_until(end);
    }
    let end = world.now + MS * 2_000;
    world.run_until(end);
    let robot = world.robot.status(world.local(ROBOT)).channels[0].clone();
    let operator = world.operator.status(world.local(OPERATOR)).channels[0].clone();
    (world, Outcome { robot, operator, made })
}

/// Of a kind that goes at once: how much else may go is for congestion control to say.
fn camera(delivery: Delivery, deadline: Duration, repair: Repair) -> Channel {
    let camera = channel("camera", Direction::ToOperator, ChannelKind::Feedback).largest(Bytes::new(100_000));
    camera.delivery(delivery).deadline(deadline).repair(repair)
}

fn run(round_trip: u64, deadline: u64, size: usize, repair: Repair) -> Outcome {
    let camera = camera(Delivery::Deadline, MS * deadline, repair);
    let (world, outcome) = stream(camera, lossy(MS * round_trip, 5, 7), size);
    let events = of_operator(&world.observer);
    for (sequence, age, bytes) in received(&events, CAMERA) {
        assert_eq!(bytes, payload(sequence - 1, size), "{repair:?}");
        assert!(age.unwrap() < MS * deadline);
    }
    println!(
        "round trip {round_trip} ms, deadline {deadline} ms, {size} B, {repair:?}: {:.2} % delivered, {:.1} % more sent; {} repeated, {} repaired, {} copies, {} B of parity",
        outcome.delivered() * 100.0,
        outcome.overhead() * 100.0,
        outcome.robot.repeated,
        outcome.operator.repaired,
        outcome.robot.copies,
        outcome.robot.parity_bytes,
    );
    outcome
}

#[test]
fn where_there_is_time_losses_are_repeated() {
    let none = run(40, 100, 8_000, Repair::None);
    let auto = run(40, 100, 8_000, Repair::Auto);
    assert!((0.60..0.72).contains(&none.delivered()), "0.95 to the eighth power");
    assert_eq!((none.robot.repeated, none.robot.parity_bytes, none.robot.copies), (0, 0, 0));
    assert!(auto.delivered() > 0.97, "{}", auto.delivered());
    // Until the round trip was measured a few times it may vary by half.
    assert!(auto.robot.parity_bytes < 5_000 && auto.robot.copies == 0);
    assert!(auto.overhead() < 0.07, "{}", auto.overhead());
}

#[test]
fn where_there_is_none_frames_are_mended_by_parity() {
    let none = run(200, 150, 8_000, Repair::None);
    let repeat = run(200, 150, 8_000, Repair::Repeat);
    let auto = run(200, 150, 8_000, Repair::Auto);
    assert!((0.60..0.72).contains(&none.delivered()) && repeat.delivered() < 0.72);
    assert!(auto.delivered() > 0.985, "{}", auto.delivered());
    assert!(auto.operator.repaired > 300 && auto.robot.copies == 0);
    assert!(auto.overhead() < 0.5, "{}", auto.overhead());
    assert!(auto.operator.parity_bytes < auto.robot.parity_bytes);
}

#[test]
fn where_there_is_none_a_single_frame_of_sound_goes_twice() {
    let none = run(200, 150, 160, Repair::None);
    let auto = run(200, 150, 160, Repair::Auto);
    assert!((0.92..0.97).contains(&none.delivered()));
    assert!(auto.delivered() > 0.99, "{}", auto.delivered());
    assert!(auto.robot.copies > 1_300 && auto.robot.parity_bytes == 0);
    assert!(auto.overhead() <= 1.0);
}

#[test]
fn without_losses_nothing_goes_beside() {
    let camera = camera(Delivery::Deadline, MS * 150, Repair::Auto);
    let (_, outcome) = stream(camera, lossy(MS * 200, 0, 7), 8_000);
    assert_eq!(outcome.robot.delivered, 1_500);
    assert_eq!((outcome.robot.copies, outcome.robot.parity_bytes, outcome.robot.repeated), (0, 0, 0));
}

/// What was asked for by name, on the way that is lossless and on that which is not.
#[test]
fn copies_and_parity_that_are_asked_for_go_whatever_is_lost() {
    for (delivery, repair) in [
        (Delivery::Deadline, Repair::Copy),
        (Delivery::Deadline, Repair::Parity),
        (Delivery::Newest, Repair::Copy),
        (Delivery::Newest, Repair::Parity),
        (Delivery::Reliable, Repair::Parity),
    ] {
        let channel = camera(delivery, MS * 150, repair);
        let (_, clean) = stream(channel.clone(), lossy(MS * 200, 0, 7), 3_500);
        assert_eq!(clean.operator.delivered, 1_500, "{delivery:?} {repair:?}");
        let beside = if repair == Repair::Copy { (1_500, 0) } else { (0, 1_500 * 1_000) };
        assert_eq!((clean.robot.copies, clean.robot.parity_bytes), beside, "{delivery:?}");
        let dropped: u64 = clean.robot.dropped.values().sum();
        assert_eq!(dropped, 0, "{delivery:?} {:?}", clean.robot.dropped);
        let (_, lossy) = stream(channel, lossy(MS * 200, 5, 7), 3_500);
        assert!(lossy.delivered() > 0.95, "{delivery:?} {repair:?}: {}", lossy.delivered());
    }
}

/// A picture takes half a second at the cap, and what is lost in its first tenths is known long before its end.
#[test]
fn of_a_frame_whose_part_is_lost_for_good_the_rest_does_not_go() {
    let sent = |repair, deadline_ms| {
        let camera = channel("camera", Direction::ToOperator, ChannelKind::Video).deadline(MS * deadline_ms);
        let operator = OperatorConfig::new().channel(camera.clone()).unwrap();
        let robot = RobotConfig::new().channel(camera.repair(repair)).unwrap();
        let robot = robot.channel_rate(Bitrate::from_bps(1_000_000));
        let mut world = World::new(udp, operator, robot, lossy(MS * 40, 0, 7), Log::default());
        world.run_until(at_ms(2_000));
        let begun = world.now;
        let now = world.local(ROBOT);
        let picture = world.robot.send(now, CAMERA, now, &payload(1, 60_000)).unwrap();
        world.drain();
        world.run_until(begun + MS * 100);
        // What is on its way now is lost.
        let [_, back] = lossy(MS * 40, 100, 7);
        let clean = std::mem::replace(&mut world.links[1], back);
        world.run_until(begun + MS * 120);
        world.links[1] = clean;
        world.run_until(begun + MS * 2_000);
        let status = world.robot.status(world.local(ROBOT)).channels[0].clone();
        let events = of_robot(&world.observer);
        let fate = events.iter().find_map(|event| match event {
            ChannelEvent::Dropped { sequence, cause, .. } if *sequence == picture => Some(*cause),
            _ => None,
        });
        (status.bytes, fate)
    };
    let (bytes, fate) = sent(Repair::None, 2_000);
    assert!(bytes < 30_000, "{bytes} of 60000 went");
    assert_eq!(fate, Some(DropCause::Loss));
    // There is time for all of it once, and for hardly more.
    let (bytes, fate) = sent(Repair::Repeat, 530);
    assert!(bytes < 45_000, "{bytes} of 60000 went");
    assert_eq!(fate, Some(DropCause::TooLate));
    let (bytes, fate) = sent(Repair::Repeat, 2_000);
    assert!(bytes > 60_000 && fate.is_none());
}

/// How old messages were that came, ms, sorted.
fn ages(log: &Log) -> Vec<f64> {
    let age = |event: &&ChannelEvent| match event {
        ChannelEvent::Received { age: Some(age), .. } => Some(age.as_millis_f64()),
        _ => None,
    };
    let mut ages: Vec<f64> = of_operator(log).iter().filter_map(age).collect();
    ages.sort_by(f64::total_cmp);
    ages
}

#[test]
fn pictures_are_not_held_up_by_repetition_where_that_takes_longer_than_a_person_overlooks() {
    let run = |round_trip: u64, percent: u64| {
        let schema = taut_session::Schema::new("taut/Picture", taut_session::Encoding::Raw);
        let camera = Channel::new("front", Direction::ToOperator, ChannelKind::Video, schema);
        let (world, outcome) = stream_every(MS * 33, camera, lossy(MS * round_trip, percent, 7), 6_000);
        let ages = ages(&world.observer);
        let at = |share: f64| ages[((ages.len() - 1) as f64 * share) as usize];
        let line = format!(
            "{round_trip} ms, {percent} %: p50 {:.1}, p95 {:.1}, p99 {:.1} ms; {:.2} % came, {:.1} % beside",
            at(0.5),
            at(0.95),
            at(0.99),
            100.0 * outcome.delivered(),
            100.0 * outcome.overhead()
        );
        println!("{line}");
        (at(0.95), at(0.99), outcome)
    };
    let (_, _, lossless) = run(40, 0);
    assert_eq!(lossless.robot.parity_bytes, 0, "without losses nothing goes beside pictures");
    let (p95, p99, far) = run(40, 1);
    assert!(far.robot.parity_bytes > 0 && far.delivered() > 0.99, "{:?}", far.robot);
    assert!(p95 < 45.0 && p99 < 75.0, "{p95} {p99}");
    let (_, p99, near) = run(8, 1);
    assert!(near.robot.parity_bytes == 0 && near.robot.repeated > 0, "{:?}", near.robot);
    assert!(near.delivered() > 0.99 && p99 < 50.0, "{p99}");
}
