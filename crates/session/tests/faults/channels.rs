//! Channels over every transport, as it is shipped.
#![allow(clippy::unwrap_used)]

use taut_core::{Bitrate, Bytes, Duration};
use taut_link::{Bottleneck, Chain, Delay, DropTail};
use taut_session::{
    Channel, ChannelEvent, ChannelId, ChannelKind, Direction, Encoding, OperatorConfig, OperatorEvent,
    RobotConfig, RobotEvent, Schema, StopCause,
};

use crate::carriers::Over;
use crate::harness::{Log, MS, OPERATOR, ROBOT, World};

/// A message longer than any datagram, both ways, as every transport is shipped: whole, and soon.
#[test]
fn a_channel_carries_messages_of_any_size_over_every_transport() {
    let channel =
        |direction| Channel::new("parts", direction, ChannelKind::Command, Schema::new("x", Encoding::Raw));
    let [there, back] = [channel(Direction::ToRobot), channel(Direction::ToOperator)];
    for over in Over::ALL {
        let operator = OperatorConfig::new().channel(there.clone()).unwrap().channel(back.clone()).unwrap();
        let robot = RobotConfig::new().channel(there.clone()).unwrap().channel(back.clone()).unwrap();
        let links = [Delay::new(MS * 5).into(), Delay::new(MS * 5).into()];
        let mut world = World::new(|end| over.end(end, 1, 0), operator, robot, links, Log::default());
        world.start();
        if over == Over::Etp {
            // A datagram every 0.9 ms is all that ETP lets go: feedback and acknowledgements at 1 kHz would take them.
            (world.sampling, world.measuring) = (Some(MS * 4), Some(MS * 4));
        }
        let sizes = [0usize, 1_000, 30_000];
        for size in sizes {
            let (operator, robot) = (world.local(OPERATOR), world.local(ROBOT));
            world.operator.send(operator, ChannelId(0), operator, &vec![size as u8; size]).unwrap();
            world.robot.send(robot, ChannelId(1), robot, &vec![size as u8; size]).unwrap();
            world.drain();
        }
        let end = world.now + MS * 3_000;
        world.run_until(end);
        let lengths = |event: &ChannelEvent| match event {
            ChannelEvent::Received { payload, .. } => Some(payload.len()),
            _ => None,
        };
        let at_robot = world.observer.robot.iter().filter_map(|(_, event)| match event {
            RobotEvent::Channel(event) => lengths(event),
            _ => None,
        });
        let at_operator = world.observer.operator.iter().filter_map(|(_, event)| match event {
            OperatorEvent::Channel(event) => lengths(event),
            _ => None,
        });
        assert_eq!(at_robot.collect::<Vec<_>>(), sizes, "to the robot over {}", over.name());
        assert_eq!(at_operator.collect::<Vec<_>>(), sizes, "to the operator over {}", over.name());
    }
}

/// A file over a path of 1 Mbit/s, of which states take half: a stop waits for the frame that is being sent, and for nothing else.
#[test]
fn a_stop_overtakes_ten_megabytes_over_a_narrow_path() {
    for over in [Over::Udp, Over::QuicDatagrams, Over::QuicStreams] {
        let bulk =
            Channel::new("file", Direction::ToRobot, ChannelKind::Bulk, Schema::new("x", Encoding::Raw));
        let operator = OperatorConfig::new().channel(bulk.clone().largest(Bytes::new(2_500_000))).unwrap();
        let robot = RobotConfig::new().channel(bulk.largest(Bytes::new(2_500_000))).unwrap();
        let way = || {
            let queue = DropTail::default().limit_bytes(Bytes::new(200_000));
            Chain::new(vec![Bottleneck::new(RATE, queue).into(), Delay::new(MS * 10).into()])
        };
        let wide = [way(), Delay::new(MS * 10).into()];
        let mut world = World::new(|end| over.end(end, 1, 0), operator, robot, wide, Log::default());
        world.start();
        (world.sampling, world.measuring) = (Some(MS * 2), Some(MS * 2));
        for _ in 0..4 {
            let now = world.local(OPERATOR);
            world.operator.send(now, ChannelId(0), now, &vec![7; 2_500_000]).unwrap();
        }
        let mut longest = Duration::ZERO;
        for press in 0..12 {
            // It has found what the path carries by then.
            let pressed = world.now + MS * if press == 0 { 3_000 } else { 1_500 } + MS / 10 * (7 * press);
            world.run_until(pressed);
            world.emergency_stop();
            world.run_until(pressed + MS * 300);
            let stop = |event: &&(taut_core::Time, RobotEvent)| {
                event.0 >= pressed && matches!(event.1, RobotEvent::Stop { why: StopCause::Emergency })
            };
            let stopped = world.observer.robot.iter().find(stop).expect("it stops").0;
            longest = longest.max(stopped - pressed);
            world.reset();
            world.run_until(pressed + MS * 500);
            world.resume();
        }
        // Of a frame and of the stop: with headers and whatever seals them.
        let serialised = RATE.time_for(Bytes::new(1_120)) + RATE.time_for(Bytes::new(120));
        assert!(longest <= MS * 10 + serialised, "{longest} over {}", over.name());
        let status = world.robot.status(world.local(ROBOT));
        assert!(status.channels[0].bytes > 1_000_000, "{} over {}", status.channels[0].bytes, over.name());
        // While a frame of 8 ms goes, the newest of four states waits.
        assert!(status.messages > 3_000, "{} states over {}", status.messages, over.name());
    }
}

const RATE: Bitrate = Bitrate::from_bps(1_000_000);
