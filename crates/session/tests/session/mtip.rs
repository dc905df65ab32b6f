//! Channels over MTIP, which judges the deadline of each message by itself.
#![allow(clippy::unwrap_used)]

use taut_core::{Bytes, Duration, PathId, Time, Transport};
use taut_session::{ChannelId, ChannelKind, Delivery, Direction, OperatorConfig, RobotConfig};
use taut_transport::mtip::{Mtip, MtipConfig};

use crate::channels::{channel, of_operator, payload, received};
use crate::harness::{Log, MS, ROBOT, World, udp};
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

/// How long three maps of 100 kB take one after the other beside states and feedback at 2 Mbit/s.
fn maps<T: Transport>(
    transport: impl Fn(usize) -> T,
    kind: ChannelKind,
    delivery: Delivery,
) -> Vec<Duration> {
    let map = channel("map", Direction::ToOperator, kind).delivery(delivery).largest(Bytes::new(200_000));
    let operator = OperatorConfig::new().channel(map.clone()).unwrap();
    let robot = RobotConfig::new().channel(map).unwrap();
    let mut world = World::new(transport, operator, robot, rated(2, MS * 10), Log::default());
    world.start();
    let bytes = payload(3, 100_000);
    for number in 1..=3 {
        let now = world.local(ROBOT);
        assert_eq!(world.robot.send(now, ChannelId(0), now, &bytes), Ok(number));
        world.drain();
        let end = world.now + MS * 5_000;
        world.run_until(end);
    }
    let events = of_operator(&world.observer);
    let came = received(&events, ChannelId(0));
    assert_eq!(
        came.iter().map(|it| (it.0, it.2 == bytes)).collect::<Vec<_>>(),
        [(1, true), (2, true), (3, true)]
    );
    assert!(world.robot.status(world.local(ROBOT)).channels[0].dropped.is_empty());
    came.iter().map(|it| it.1.unwrap()).collect()
}

/// 100 kB of a map take longer than MTIP gives a message that says nothing. What is repeated takes less than twice as long as over UDP. Of what is not, states,
/// feedback and an answer to each leave little room, at the pace at which it went at first and for ten seconds, and more after that.
#[test]
fn a_message_without_a_deadline_arrives_over_mtip_however_long_it_takes() {
    for (kind, delivery, times, longest_ms, later_ms) in [
        (ChannelKind::Bulk, Delivery::Reliable, 2, 1_300, 1_300),
        (ChannelKind::Telemetry, Delivery::Newest, 3, 2_300, 1_750),
    ] {
        let [over_mtip, over_udp] = [maps(mtip, kind, delivery), maps(udp, kind, delivery)];
        let longest = |of: &[Duration]| of.iter().copied().max().unwrap();
        let told = format!("{delivery:?}: {over_mtip:?}, over UDP {over_udp:?}");
        assert!(longest(&over_mtip) < longest(&over_udp) * times, "{told}");
        assert!(longest(&over_mtip) <= MS * longest_ms, "{told}");
        assert!(*over_mtip.last().unwrap() <= MS * later_ms, "{told}");
    }
}
