//! Channels over MTIP, which judges the deadline of each message by itself.
#![allow(clippy::unwrap_used)]

use taut_core::{Bytes, PathId, Time, Transport};
use taut_session::{ChannelId, ChannelKind, Delivery, Direction, OperatorConfig, RobotConfig};
use taut_transport::mtip::{Mtip, MtipConfig};

use crate::channels::{channel, of_operator, payload, received};
use crate::harness::{Log, MS, ROBOT, World};
use crate::rated;

fn mtip(end: usize) -> Mtip {
    let config = MtipConfig::new().deadline(MS * 200);
    if end == ROBOT {
        return Mtip::server(config);
    }
    let mut mtip = Mtip::client(config, 1);
    mtip.add_path(Time::ZERO, PathId(0));
    mtip
}

/// 100 kB of a map at 2 Mbit/s take 400 ms, twice as long as MTIP gives a message that says nothing.
#[test]
fn a_message_without_a_deadline_arrives_over_mtip_however_long_it_takes() {
    for (kind, delivery) in
        [(ChannelKind::Bulk, Delivery::Reliable), (ChannelKind::Telemetry, Delivery::Newest)]
    {
        let map = channel("map", Direction::ToOperator, kind).delivery(delivery).largest(Bytes::new(200_000));
        let operator = OperatorConfig::new().channel(map.clone()).unwrap();
        let robot = RobotConfig::new().channel(map).unwrap();
        let mut world = World::new(mtip, operator, robot, rated(2, MS * 10), Log::default());
        world.start();
        let bytes = payload(3, 100_000);
        for number in 1..=3 {
            let now = world.local(ROBOT);
            assert_eq!(world.robot.send(now, ChannelId(0), now, &bytes), Ok(number));
            world.drain();
            let end = world.now + MS * 15_000;
            world.run_until(end);
        }
        let events = of_operator(&world.observer);
        let came: Vec<_> =
            received(&events, ChannelId(0)).into_iter().map(|it| (it.0, it.2 == bytes)).collect();
        assert_eq!(came, [(1, true), (2, true), (3, true)], "{delivery:?}");
        assert!(world.robot.status(world.local(ROBOT)).channels[0].dropped.is_empty());
    }
}
