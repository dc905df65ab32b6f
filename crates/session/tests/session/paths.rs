//! What an end knows of its path, when it goes on over another transport.

use taut_core::{PathId, Seed};
use taut_link::Chain;
use taut_session::{ChannelError, ChannelId, ChannelKind, Direction, OperatorConfig, RobotConfig};
use taut_transport::entropy::Entropy;
use taut_transport::identity::{Identity, Trust};
use taut_transport::quic::{Quic, QuicConfig};

use crate::channels::{channel, of_operator, payload, received};
use crate::harness::{Log, MS, OPERATOR, ROBOT, World, udp};
use crate::rated;

/// What the operator's channels may send, kbit/s, after each picture from when it went on over another transport with these links; before, 1 Mbit/s and
/// 2 ms were its path.
fn found_after_reconnect(links: [Chain; 2]) -> Result<Vec<u64>, ChannelError> {
    let camera = || channel("camera", Direction::ToRobot, ChannelKind::Video).deadline(MS * 300);
    let operator = OperatorConfig::new().channel(camera())?;
    let robot = RobotConfig::new().channel(camera())?;
    let mut world = World::new(udp, operator, robot, rated(1, MS * 2), Log::default());
    world.start();
    let pictures = |world: &mut World<_, Log>, count: u64| -> Vec<u64> {
        let mut found = Vec::new();
        for number in 0..count {
            let now = world.local(OPERATOR);
            // While it connects, nothing goes.
            let _ = world.operator.send(now, ChannelId(0), now, &payload(number, 20_000));
            world.drain();
            world.run_until(world.now + MS * 33);
            found.push(world.operator.channel_bitrate().map_or(0, |rate| rate.as_bps() / 1_000));
        }
        found
    };
    let before = pictures(&mut world, 150);
    assert!((400..600).contains(&before[149]), "{before:?}");
    world.links = links;
    world.operator.reconnect(world.local(OPERATOR), udp(OPERATOR));
    world.wake();
    Ok(pictures(&mut world, 300))
}

#[test]
fn what_was_found_of_a_path_holds_over_another_transport_until_that_proves_to_have_another_one()
-> Result<(), ChannelError> {
    let same = found_after_reconnect(rated(1, MS * 2))?;
    assert!(same.iter().all(|kbit| (400..600).contains(kbit)), "{same:?}");
    let other = found_after_reconnect(rated(20, MS * 60))?;
    assert!(other[75..].iter().all(|kbit| (10_000..20_000).contains(kbit)), "{other:?}");
    Ok(())
}

fn quic(end: usize) -> Quic {
    let names = if end == OPERATOR { ["operator", "robot"] } else { ["robot", "operator"] };
    let [own, peer] = names.map(|name| Identity::from_seed(Seed::new(1), name));
    let quic = if end == OPERATOR { Quic::client } else { Quic::server };
    quic(QuicConfig::new(), &own, Trust::only(peer.fingerprint()), Entropy::seeded(Seed::new(1), names[0]))
}

/// Its round trip is no queue, though that of the path before was much shorter.
#[test]
fn a_robots_camera_goes_on_over_quic_when_its_operator_roams_to_a_longer_path() -> Result<(), ChannelError> {
    let camera = || channel("camera", Direction::ToOperator, ChannelKind::Video).deadline(MS * 300);
    let (operator, robot) = (OperatorConfig::new().channel(camera())?, RobotConfig::new().channel(camera())?);
    let mut world = World::new(quic, operator, robot, rated(20, MS * 2), Log::default());
    world.start();
    for number in 0..400 {
        if number == 150 {
            (world.links, world.seen_on) = (rated(20, MS * 40), PathId(1));
        }
        let now = world.local(ROBOT);
        let _ = world.robot.send(now, ChannelId(0), now, &payload(number, 20_000));
        world.drain();
        world.run_until(world.now + MS * 33);
    }
    let events = of_operator(&world.observer);
    let came: Vec<u64> = received(&events, ChannelId(0)).iter().map(|(number, ..)| *number).collect();
    let [before, after] = [50..150, 200..400].map(|span| came.iter().filter(|it| span.contains(*it)).count());
    assert!(before >= 95 && after >= 190, "{before} of 100 before, {after} of 200 from 1.7 s after it");
    Ok(())
}
