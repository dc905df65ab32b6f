//! Channels: what both ends declare, messages of any size, one fate each.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use taut_core::{Bitrate, Bytes, DropCause, Duration, PathId, Probability, Seed, Time, Transport};
use taut_link::{Chain, Delay, Distribution, Duplicate, Jitter, JitterConfig, Loss, Schedule};
use taut_session::{
    Channel, ChannelError, ChannelEvent, ChannelId, ChannelKind, ChannelRefusal, Delivery, Direction,
    Encoding, OperatorConfig, OperatorEvent, RobotConfig, RobotEvent, Schema, SendRefused,
};
use taut_wire::session::{DataHeader, Part, Piece};

use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, tcp, udp};
use crate::{delays, rated};

pub(crate) fn channel(name: &str, direction: Direction, kind: ChannelKind) -> Channel {
    Channel::new(name, direction, kind, Schema::new("bytes", Encoding::Raw))
}

fn telemetry() -> Channel {
    channel("battery", Direction::ToOperator, ChannelKind::Telemetry)
}

fn orders() -> Channel {
    channel("orders", Direction::ToRobot, ChannelKind::Command)
}

fn camera() -> Channel {
    channel("camera", Direction::ToOperator, ChannelKind::Video)
}

const BATTERY: ChannelId = ChannelId(0);
const ORDERS: ChannelId = ChannelId(1);
const CAMERA: ChannelId = ChannelId(2);

fn configs() -> (OperatorConfig, RobotConfig) {
    let all = [telemetry(), orders(), camera()];
    let operator = all.iter().cloned().try_fold(OperatorConfig::new(), OperatorConfig::channel);
    let robot = all.iter().cloned().try_fold(RobotConfig::new(), RobotConfig::channel);
    (operator.unwrap(), robot.unwrap())
}

fn world<T: Transport>(transport: impl Fn(usize) -> T, links: [Chain; 2]) -> World<T, Log> {
    let (operator, robot) = configs();
    World::new(transport, operator, robot, links, Log::default())
}

pub(crate) fn of_operator(log: &Log) -> Vec<&ChannelEvent> {
    let events = log.operator.iter().filter_map(|(_, event)| match event {
        OperatorEvent::Channel(event) => Some(event),
        _ => None,
    });
    events.collect()
}

pub(crate) fn of_robot(log: &Log) -> Vec<&ChannelEvent> {
    let events = log.robot.iter().filter_map(|(_, event)| match event {
        RobotEvent::Channel(event) => Some(event),
        _ => None,
    });
    events.collect()
}

/// Sequence, age and payload of what came over a channel.
pub(crate) fn received<'a>(
    events: &[&'a ChannelEvent],
    over: ChannelId,
) -> Vec<(u64, Option<Duration>, &'a [u8])> {
    let came = events.iter().filter_map(|event| match event {
        ChannelEvent::Received { channel, sequence, age, payload } if *channel == over => {
            Some((*sequence, *age, &payload[..]))
        }
        _ => None,
    });
    came.collect()
}

/// Bytes by which every message is told from every other, and its beginning from its end.
pub(crate) fn payload(number: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number.wrapping_mul(0x9e37_79b9).wrapping_add(at as u64 * 7) >> 3) as u8).collect()
}

fn messages_of_any_size_go_both_ways<T: Transport>(transport: impl Fn(usize) -> T) {
    let mut world = world(transport, rated(50, MS * 5));
    world.start();
    let sizes = [0, 1, 999, 1_000, 1_001, 2_000, 40_000];
    for (number, size) in sizes.into_iter().enumerate() {
        let bytes = payload(number as u64, size);
        let now = world.local(OPERATOR);
        world.operator.send(now, ORDERS, now, &bytes).unwrap();
        let now = world.local(ROBOT);
        world.robot.send(now, CAMERA, now, &bytes).unwrap();
        world.robot.send(now, BATTERY, now, &bytes).unwrap();
        world.drain();
        let end = world.now + MS * 100;
        world.run_until(end);
    }
    let (operator, robot) = (of_operator(&world.observer), of_robot(&world.observer));
    for (events, over) in [(&robot, ORDERS), (&operator, CAMERA), (&operator, BATTERY)] {
        let came = received(events, over);
        assert_eq!(came.len(), sizes.len(), "{over:?}");
        for (at, (sequence, age, bytes)) in came.into_iter().enumerate() {
            assert_eq!((sequence, bytes), (at as u64 + 1, &payload(at as u64, sizes[at])[..]));
            // It begins with 4 kB, and twice as much goes each round trip.
            assert!(age.is_some_and(|age| age >= MS * 5 && age < MS * 90), "{age:?}");
        }
    }
    for (events, over) in [(&robot, CAMERA), (&operator, ORDERS)] {
        let arrived = events
            .iter()
            .filter(|event| matches!(event, ChannelEvent::Arrived { channel, .. } if *channel == over));
        assert_eq!(arrived.count(), sizes.len());
    }
    let status = world.operator.status(world.now);
    assert_eq!(status.channels.iter().map(|channel| channel.open).collect::<Vec<_>>(), [true; 3]);
    assert_eq!(
        (status.channels[1].made, status.channels[1].delivered, status.channels[1].repeated),
        (7, 7, 0)
    );
    assert!(world.robot.status(world.now).delivered > 500, "motion goes on beside them");
}

#[test]
fn messages_of_any_size_go_both_ways_over_udp() {
    messages_of_any_size_go_both_ways(udp);
}

#[test]
fn messages_of_any_size_go_both_ways_over_tcp() {
    messages_of_any_size_go_both_ways(tcp);
}

#[test]
fn a_channel_that_the_ends_do_not_agree_on_stays_closed_and_says_why() {
    let schema = |name: &str| Schema::new(name, Encoding::Json);
    let telemetry =
        |name: &str, schema| Channel::new(name, Direction::ToOperator, ChannelKind::Telemetry, schema);
    let own = [
        telemetry("a", schema("x")),
        telemetry("b", schema("x")),
        telemetry("c", schema("x").definition("old")),
        Channel::new("d", Direction::ToOperator, ChannelKind::Audio, schema("x")),
        telemetry("e", schema("x")),
        telemetry("f", schema("x")),
    ];
    let theirs = [
        telemetry("f", schema("x")),
        telemetry("b", schema("y")),
        telemetry("c", schema("x").definition("new")),
        telemetry("d", schema("x")),
        telemetry("e", Schema::new("x", Encoding::Cdr)),
    ];
    let operator = own.into_iter().try_fold(OperatorConfig::new(), OperatorConfig::channel).unwrap();
    let robot = theirs.into_iter().try_fold(RobotConfig::new(), RobotConfig::channel).unwrap();
    let mut world = World::new(udp, operator, robot, delays(MS), Log::default());
    world.run_until(at_ms(500));
    let refused = |at: u8, why| ChannelEvent::Refused { channel: ChannelId(at), why };
    let expected = [
        refused(0, ChannelRefusal::NotDeclared),
        refused(1, ChannelRefusal::OtherSchema),
        refused(2, ChannelRefusal::OtherDefinition),
        refused(3, ChannelRefusal::OtherKind(ChannelKind::Telemetry)),
        refused(4, ChannelRefusal::OtherSchema),
        ChannelEvent::Opened { channel: ChannelId(5) },
    ];
    assert_eq!(of_operator(&world.observer), expected.iter().collect::<Vec<_>>());
    let now = world.local(ROBOT);
    assert_eq!(world.robot.send(now, ChannelId(1), now, &[1]), Err(SendRefused::NotOpen));
    assert_eq!(world.robot.send(now, ChannelId(9), now, &[1]), Err(SendRefused::NotOpen));
    assert!(
        world.robot.send(now, ChannelId(0), now, &[1]).is_ok(),
        "its place here is another one than there"
    );
    world.run_until(at_ms(520));
    assert_eq!(received(&of_operator(&world.observer), ChannelId(5)).len(), 1);
    let now = world.local(OPERATOR);
    assert_eq!(
        world.operator.send(now, ChannelId(5), now, &[1]),
        Err(SendRefused::NotOpen),
        "it goes the other way"
    );
}

#[test]
fn what_cannot_be_declared_is_an_error_that_names_it() {
    let add =
        |channels: &[Channel]| channels.iter().cloned().try_fold(RobotConfig::new(), RobotConfig::channel);
    let error = |channels: &[Channel]| add(channels).unwrap_err();
    let name = |name: &str| channel(name, Direction::ToOperator, ChannelKind::Telemetry);
    assert_eq!(error(&[name("")]), ChannelError::Name(String::new()));
    assert_eq!(error(&[name("a"), name("a")]), ChannelError::Twice("a".into()));
    assert!(add(&[name("a"), channel("a", Direction::ToRobot, ChannelKind::Command)]).is_ok());
    assert_eq!(error(&[name("a").delivery(Delivery::Deadline)]), ChannelError::NoDeadline("a".into()));
    assert_eq!(error(&[name("a").rate(f64::NAN)]), ChannelError::Rate("a".into()));
    let short = |n: u8| {
        Channel::new(n.to_string(), Direction::ToRobot, ChannelKind::Bulk, Schema::new("x", Encoding::Raw))
    };
    let many: Vec<_> = (0..33).map(short).collect();
    assert!(add(&many[..32]).is_ok());
    assert_eq!(error(&many), ChannelError::TooMany("32".into()));
    let long: Vec<_> = (0..20).map(|n| name(&format!("{n:050}"))).collect();
    assert!(matches!(error(&long), ChannelError::HelloFull(_)));
}

/// Loses, reorders and copies.
fn unkind(seed: u64, percent: u64) -> [Chain; 2] {
    let way = |name: &str| {
        let of = |what: &str| Seed::new(seed).stream(&format!("{name}/{what}"));
        let share = |percent: u64| Schedule::constant(format!("{percent}%").parse::<Probability>().unwrap());
        let jitter = JitterConfig::new(MS * 3).mean(MS * 4).reorder(true).distribution(Distribution::Normal);
        Chain::new(vec![
            Loss::bernoulli(share(percent), of("loss")).into(),
            Duplicate::new("3%".parse().unwrap(), of("copies")).into(),
            Delay::new(MS * 10).into(),
            Jitter::new(jitter, of("jitter")).unwrap().into(),
        ])
    };
    [way("there"), way("back")]
}

/// Sent again is what was lost, a second later where that was lost as well: what has come meanwhile waits, and the sender goes on.
#[test]
fn a_thousand_small_messages_a_second_arrive_in_order_over_a_long_way() {
    let orders = orders().largest(Bytes::new(100));
    let operator = OperatorConfig::new().channel(orders.clone()).unwrap();
    let robot = RobotConfig::new().channel(orders).unwrap();
    let way = |name: &str| {
        let loss = Loss::bernoulli(Schedule::constant("1%".parse().unwrap()), Seed::new(3).stream(name));
        Chain::new(vec![loss.into(), Delay::new(MS * 150).into()])
    };
    let mut world = World::new(udp, operator, robot, [way("there"), way("back")], Log::default());
    world.run_until(at_ms(2_000));
    let (mut taken, mut refused) = (Vec::new(), None);
    for number in 0..5_000 {
        let now = world.local(OPERATOR);
        match world.operator.send(now, ChannelId(0), now, &payload(number, 100)) {
            Ok(sequence) => taken.push(sequence),
            Err(error) => refused = Some((number, error)),
        }
        world.drain();
        let next = world.now + MS;
        world.run_until(next);
    }
    let end = world.now + MS * 3_000;
    world.run_until(end);
    let events = of_robot(&world.observer);
    let came: Vec<_> = received(&events, ChannelId(0)).iter().map(|(sequence, _, _)| *sequence).collect();
    assert_eq!(came, taken);
    // It begins with what a path carries of which nothing is known, and takes all as soon as it knows more.
    assert!(refused.is_none_or(|(number, _)| number < 2_000), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_network_does_each_message_has_one_fate(
        seed in any::<u64>(), percent in 0u64..30, sizes in prop::collection::vec(0usize..6_000, 5..40), gap in 1u64..20,
    ) {
        let mut world = world(udp, unkind(seed, percent));
        world.run_until(at_ms(1_000));
        prop_assume!(world.operator.status(world.now).channels[0].open && world.robot.status(world.now).channels[0].open);
        for (number, size) in sizes.iter().enumerate() {
            let bytes = payload(number as u64, *size);
            let now = world.local(OPERATOR);
            prop_assert_eq!(world.operator.send(now, ORDERS, now, &bytes), Ok(number as u64 + 1));
            let now = world.local(ROBOT);
            prop_assert_eq!(world.robot.send(now, BATTERY, now, &bytes), Ok(number as u64 + 1));
            prop_assert_eq!(world.robot.send(now, CAMERA, now, &bytes), Ok(number as u64 + 1));
            world.drain();
            let end = world.now + MS * gap;
            world.run_until(end);
        }
        let end = world.now + MS * 20_000;
        world.run_until(end);
        let (operator, robot) = (of_operator(&world.observer), of_robot(&world.observer));
        // Reliable: all of them, in order, once.
        let orders = received(&robot, ORDERS);
        prop_assert_eq!(orders.len(), sizes.len());
        for (number, (sequence, _, bytes)) in orders.into_iter().enumerate() {
            prop_assert_eq!((sequence, bytes), (number as u64 + 1, &payload(number as u64, sizes[number])[..]));
        }
        // By its deadline: whole, once, never too late.
        let mut seen = std::collections::BTreeSet::new();
        for (sequence, age, bytes) in received(&operator, CAMERA) {
            prop_assert_eq!(bytes, &payload(sequence - 1, sizes[sequence as usize - 1])[..]);
            prop_assert!(age.is_some_and(|age| age < MS * 300) && seen.insert(sequence));
        }
        // The newest: whole, and never back.
        let mut newest = 0;
        for (sequence, _, bytes) in received(&operator, BATTERY) {
            prop_assert_eq!(bytes, &payload(sequence - 1, sizes[sequence as usize - 1])[..]);
            prop_assert!(sequence > newest);
            newest = sequence;
        }
        // What is repeated has arrived or was dropped here, and was told.
        let (mut arrived, mut dropped) = (0, 0);
        for event in &robot {
            match event {
                ChannelEvent::Arrived { channel, .. } if *channel == CAMERA => arrived += 1,
                ChannelEvent::Dropped { channel, .. } if *channel == CAMERA => dropped += 1,
                _ => {}
            }
        }
        prop_assert_eq!(arrived + dropped, sizes.len());
        prop_assert!(world.robot.poll_timeout().is_none_or(|due| !due.why.starts_with("channel")));
    }

    #[test]
    fn no_frame_of_a_channel_breaks_an_end(
        frames in prop::collection::vec((any::<[u32; 3]>(), prop::collection::vec((0u8..4, any::<[u32; 2]>(), 0usize..600, any::<[bool; 2]>()), 1..4)), 1..60),
    ) {
        let mut world = world(udp, delays(MS));
        world.start();
        let session = world.observer.robot.iter().find_map(|(_, event)| match event {
            RobotEvent::Connected { session } => Some(*session),
            _ => None,
        }).unwrap();
        for ([number, sent_us, waited_us], pieces) in frames {
            let mut bytes = Vec::new();
            DataHeader { session, number: number >> 8, sent_us, ack: None }.emit(&mut bytes);
            for (at, (channel, [sequence, offset], length, [whole, repeated])) in pieces.iter().enumerate() {
                let part = Part { offset: offset % 5_000, total: offset % 5_000 + *length as u32 + offset % 7 };
                let part = if offset % 3 == 0 { Part { offset: part.total + offset % 9 * *length as u32, ..part } } else { part };
                let part = (!whole && *length > 0).then_some(part).filter(|part| part.total as usize > *length);
                let piece = Piece { channel: *channel, sequence: sequence % 5_000, waited_us, back: repeated.then_some(3), part };
                piece.emit((at + 1 < pieces.len()).then_some(*length), &mut bytes);
                bytes.resize(bytes.len() + length, 7);
            }
            prop_assert!(DataHeader::parse(&bytes).is_ok());
            world.input(ROBOT, PathId(0), &bytes);
            world.input(OPERATOR, PathId(0), &bytes);
        }
        let end = world.now + MS * 200;
        world.run_until(end);
        prop_assert!(received(&of_robot(&world.observer), ORDERS).iter().all(|(_, _, bytes)| bytes.len() <= 64_000));
    }
}

#[test]
fn a_newer_message_takes_the_place_of_one_that_waits_and_what_is_late_goes_nowhere() {
    let (operator, robot) = configs();
    let robot = robot.channel_rate(Bitrate::from_bps(10_000_000));
    let mut world = World::new(udp, operator, robot, delays(MS), Log::default());
    world.start();
    let now = world.local(ROBOT);
    // A picture is going out: what comes behind it waits.
    world.robot.send(now, CAMERA, now, &payload(1, 100_000)).unwrap();
    for number in 0..3 {
        world.robot.send(now, BATTERY, now, &payload(number, 10)).unwrap();
    }
    let old = Time::from_nanos(now.as_nanos() - 400_000_000);
    assert_eq!(world.robot.send(now, CAMERA, old, &[1]), Err(SendRefused::TooLate));
    let large = vec![0; 1_000_001];
    assert_eq!(world.robot.send(now, CAMERA, now, &large), Err(SendRefused::TooLarge { largest: 1_000_000 }));
    // A megabyte does not arrive within 300 ms at 10 Mbit/s: it is not begun.
    let hopeless = world.robot.send(now, CAMERA, now, &payload(2, 1_000_000)).unwrap();
    world.drain();
    world.run_until(at_ms(3_000));
    let events = of_robot(&world.observer);
    let dropped =
        |channel, sequence, cause| events.contains(&&ChannelEvent::Dropped { channel, sequence, cause });
    assert!(dropped(BATTERY, 1, DropCause::Superseded) && dropped(BATTERY, 2, DropCause::Superseded));
    assert!(dropped(CAMERA, hopeless, DropCause::TooLate));
    let status = world.robot.status(world.now);
    assert!(status.channels[2].bytes < 110_000, "{status:?}");
    let operator = of_operator(&world.observer);
    assert_eq!(received(&operator, BATTERY).iter().map(|message| message.0).collect::<Vec<_>>(), [3]);
    assert_eq!(received(&operator, CAMERA).len(), 1);
    assert_eq!(status.channels[2].dropped.get("too_late"), Some(&2));
}

#[test]
fn a_stop_does_not_wait_behind_pictures() {
    let mut world = world(udp, rated(5, MS * 5));
    world.start();
    for _ in 0..30 {
        let now = world.local(ROBOT);
        let _ = world.robot.send(now, CAMERA, now, &payload(1, 7_000));
        world.drain();
        let end = world.now + MS * 33;
        world.run_until(end);
    }
    let pressed = world.now;
    world.emergency_stop();
    world.run_until(pressed + MS * 100);
    let stopped =
        world.observer.operator_at(|event| matches!(event, OperatorEvent::EmergencyStopped { .. })).unwrap();
    assert!(stopped - pressed < MS * 13, "{}", stopped - pressed);
    assert!(received(&of_operator(&world.observer), CAMERA).len() >= 28);
}

#[test]
fn more_than_the_agreed_rate_is_dropped_and_counted() {
    let (operator, robot) = (OperatorConfig::new(), RobotConfig::new().channel(telemetry()).unwrap());
    let operator = operator.channel(telemetry().rate(50.0).largest(Bytes::new(100))).unwrap();
    let mut world = World::new(udp, operator, robot, delays(MS), Log::default());
    world.start();
    let mut refused = 0;
    for _ in 0..1_000 {
        let now = world.local(ROBOT);
        refused += u64::from(world.robot.send(now, BATTERY, now, &[1]) == Err(SendRefused::RateLimited));
        let end = world.now + MS;
        world.run_until(end);
    }
    let summary = &world.robot.status(world.now).channels[0];
    assert_eq!(summary.dropped.get("rate_limited"), Some(&refused));
    assert!((50..=55).contains(&summary.made), "{summary:?}");
    let now = world.local(ROBOT);
    assert_eq!(world.robot.send(now, BATTERY, now, &[0; 101]), Err(SendRefused::TooLarge { largest: 100 }));
}

#[test]
fn after_a_cut_channels_open_again_and_no_old_message_is_taken_for_a_new_one() {
    let mut world = world(udp, delays(MS));
    world.start();
    for number in 0..5 {
        let now = world.local(OPERATOR);
        world.operator.send(now, ORDERS, now, &payload(number, 100)).unwrap();
        world.drain();
        let end = world.now + MS * 20;
        world.run_until(end);
    }
    let (operator, robot) = (world.local(OPERATOR), world.local(ROBOT));
    let now = operator;
    world.operator.send(now, ORDERS, now, &payload(99, 100)).unwrap();
    world.operator.reconnect(operator, udp(OPERATOR));
    world.robot.reconnect(robot, udp(ROBOT));
    world.drain();
    let end = world.now + MS * 500;
    world.run_until(end);
    let now = world.local(OPERATOR);
    assert_eq!(world.operator.send(now, ORDERS, now, &payload(7, 100)), Ok(7));
    world.drain();
    let end = world.now + MS * 100;
    world.run_until(end);
    let events = of_robot(&world.observer);
    let came: Vec<_> = received(&events, ORDERS).into_iter().map(|message| message.0).collect();
    assert!(came == [1, 2, 3, 4, 5, 7] || came == [1, 2, 3, 4, 5, 6, 7], "{came:?}");
    let opened = events.iter().filter(|event| matches!(event, ChannelEvent::Opened { .. })).count();
    assert_eq!(opened, 6, "three, twice");
}

#[test]
fn the_message_that_all_others_wait_for_always_finds_room() {
    let small = || orders().largest(Bytes::new(1_000));
    let operator = OperatorConfig::new().channel(small()).unwrap();
    let robot = RobotConfig::new().channel(small()).unwrap();
    let mut world = World::new(udp, operator, robot, unkind(5, 30), Log::default());
    world.run_until(at_ms(1_000));
    let (mut made, total) = (0, 300);
    for _ in 0..60_000 {
        let now = world.local(OPERATOR);
        if made < total && world.operator.send(now, ChannelId(0), now, &payload(made, 1_000)).is_ok() {
            made += 1;
        }
        world.drain();
        let end = world.now + MS;
        world.run_until(end);
        if world.robot.status(world.now).channels[0].delivered == total {
            return;
        }
    }
    panic!("{:?}", world.robot.status(world.now).channels);
}

/// Of the pictures that a robot makes from the moment it has an operator, a way off, the first of so many bytes: how old those that came were, and what became of the others.
fn first_pictures(way: Duration, first: usize) -> (Vec<Option<Duration>>, Vec<DropCause>) {
    let mut world = world(udp, delays(way));
    let is_open = |log: &Log| !of_robot(log).is_empty();
    while !is_open(&world.observer) {
        let end = world.now + MS;
        assert!(end < at_ms(10_000), "no session");
        world.run_until(end);
    }
    for number in 0..30 {
        let now = world.local(ROBOT);
        let size = if number == 0 { first } else { 3_000 };
        world.robot.send(now, CAMERA, now, &payload(number, size)).unwrap();
        world.drain();
        let end = world.now + MS * 33;
        world.run_until(end);
    }
    let end = world.now + way + MS * 300;
    world.run_until(end);
    let events = of_operator(&world.observer);
    let dropped = events.iter().filter_map(|event| match event {
        ChannelEvent::Dropped { channel: CAMERA, cause, .. } => Some(*cause),
        _ => None,
    });
    let ages = received(&events, CAMERA).into_iter().map(|(_, age, _)| age);
    (ages.collect(), dropped.collect())
}

#[test]
fn the_first_pictures_are_seen_before_the_clocks_are_compared() {
    let (ages, dropped) = first_pictures(MS * 20, 3_000);
    assert_eq!((ages.len(), dropped), (30, vec![]));
    let unknown = ages.iter().take_while(|age| age.is_none()).count();
    assert!((1..=4).contains(&unknown) && ages[unknown..].iter().all(Option::is_some), "{ages:?}");
}

#[test]
fn a_picture_that_began_before_the_clocks_were_compared_is_as_old_as_they_say() {
    // It takes several round trips, for nobody knows yet how much may be under way.
    let (ages, dropped) = first_pictures(MS * 35, 24_000);
    assert_eq!((ages.len(), dropped), (30, vec![]));
    assert!(ages[0].is_some_and(|age| age > MS * 150), "{ages:?}");
}

#[test]
fn a_picture_that_may_be_past_its_deadline_waits_for_no_clock() {
    // The hello is heard after 160 ms, its answer after 320: nobody knows that the first picture took only half of that.
    let (ages, dropped) = first_pictures(MS * 160, 3_000);
    assert!(ages.iter().all(Option::is_some), "{ages:?}");
    assert!(!dropped.is_empty() && dropped.iter().all(|cause| *cause == DropCause::TooLate), "{dropped:?}");
}

#[test]
fn a_message_of_long_ago_stops_nobody() {
    let mut world = world(udp, delays(MS));
    world.now = at_ms(10_000_000);
    world.start();
    let now = world.local(OPERATOR);
    let created = Time::from_nanos(now.as_nanos() - 50 * 60 * 1_000_000_000);
    world.operator.send(now, ORDERS, created, &[1]).unwrap();
    world.drain();
    let end = world.now + MS * 200;
    world.run_until(end);
    assert_eq!(world.robot.state(), taut_session::RobotState::Enabled, "{:?}", world.robot.cause());
    assert_eq!(received(&of_robot(&world.observer), ORDERS).len(), 1);
}
