//! Channels over every transport, as it is shipped.
#![allow(clippy::unwrap_used)]

use taut_link::Delay;
use taut_session::{
    Channel, ChannelEvent, ChannelId, ChannelKind, Direction, Encoding, OperatorConfig, OperatorEvent,
    RobotConfig, RobotEvent, Schema,
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
