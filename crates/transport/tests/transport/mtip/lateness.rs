//! What is refused as late, with clocks that are estimated and with one that both ends read.

use proptest::prelude::*;
use taut_core::Duration;
use taut_transport::mtip::{Clocks, Mode, MtipConfig, Policy};

use crate::mtip::harness::{CLIENT, Net, SERVER, Way, at_ms, ms};

const DEADLINE: Duration = Duration::from_millis(15);

fn config(clocks: Clocks, policy: Policy) -> MtipConfig {
    MtipConfig::new().policy(policy).deadline(DEADLINE).clocks(clocks)
}

fn policies() -> [Policy; 3] {
    [Policy::All, Policy::Adaptive(Default::default()), Policy::Deadline(Default::default())]
}

/// Two paths, there and back in ms.
fn ways(there: [f64; 2], back: f64) -> Vec<Way> {
    let us = |ms: f64| (ms * 1e3) as u64;
    let way = |there| Way { delay_back: Some(Duration::from_micros(us(back))), ..Way::new(us(there)) };
    there.map(way).into()
}

/// 500 commands: delivered in time, and late.
fn run(config: MtipConfig, ways: Vec<Way>, offset: Duration) -> (usize, usize) {
    let mut net = Net::new(config, ways);
    net.offset = offset;
    net.run_until(at_ms(1_000));
    net.commands(at_ms(1_000), ms(30), 500, DEADLINE);
    net.run_until(at_ms(17_000));
    let received = net.received();
    let in_time = received.iter().filter(|(_, took)| *took <= DEADLINE).count();
    (in_time, received.len() - in_time)
}

#[test]
fn where_the_way_there_is_the_quicker_one_everything_in_time_is_delivered() {
    for policy in policies() {
        // By half of the round trip each would be 19 ms old.
        let ways = || ways([13.0, 13.5], 25.0);
        assert_eq!(run(config(Clocks::Estimated, policy), ways(), ms(40_000)), (500, 0));
        assert_eq!(run(config(Clocks::Synchronised, policy), ways(), Duration::ZERO), (500, 0));
        // It cannot know, and will not risk it.
        assert_eq!(run(config(Clocks::Strict, policy), ways(), ms(40_000)), (0, 0));
    }
}

#[test]
fn where_the_way_there_is_the_slower_one_the_strict_choice_delivers_nothing_late() {
    for policy in policies() {
        // By half of the round trip each would be 10 ms old.
        let ways = || ways([17.0, 18.0], 3.0);
        assert_eq!(run(config(Clocks::Strict, policy), ways(), ms(40_000)), (0, 0));
        assert_eq!(run(config(Clocks::Synchronised, policy), ways(), Duration::ZERO), (0, 0));
        // It cannot know, and delivers what may be in time.
        assert_eq!(run(config(Clocks::Estimated, policy), ways(), ms(40_000)), (0, 500));
        let published = config(Clocks::Estimated, policy).mode(Mode::Compatible(Vec::new()));
        assert_eq!(run(published, ways(), Duration::ZERO), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever each way takes and the clocks read: `Estimated` refuses nothing in time, and what it delivers is late by less than the
    /// quickest round trip; `Strict` delivers nothing late; with one clock both hold.
    #[test]
    fn each_choice_keeps_what_it_promises(
        seed in any::<u64>(), there in 1u64..25, back in 1u64..25, jitter in 0u64..20, offset in 0u64..100_000,
        which in 0usize..3, policy in 0usize..3,
    ) {
        let clocks = [Clocks::Estimated, Clocks::Strict, Clocks::Synchronised][which];
        let config = config(clocks, policies()[policy]);
        let mut ways = ways([there as f64, there as f64 + 0.5], back as f64);
        ways.iter_mut().for_each(|way| way.jitter = ms(jitter));
        let mut net = Net::seeded(seed, [config.clone(), config], ways);
        net.offset = if clocks == Clocks::Synchronised { Duration::ZERO } else { ms(offset) };
        net.run_until(at_ms(1_000));
        net.commands(at_ms(1_000), ms(30), 200, DEADLINE);
        net.run_until(at_ms(8_000));
        let latest = net.received().iter().map(|(_, took)| *took).max().unwrap_or_default();
        if clocks == Clocks::Estimated {
            // Within the first seconds the quickest round trip was not seen yet.
            prop_assert!(latest <= DEADLINE + ms(there + back + 2 * jitter) + Duration::from_micros(504), "{latest:?}");
        } else {
            prop_assert!(latest <= DEADLINE, "{latest:?}");
        }
        if clocks != Clocks::Strict {
            let in_time = |took: &Duration| *took <= DEADLINE;
            let delivered = net.received().iter().filter(|(_, took)| in_time(took)).count();
            prop_assert_eq!(delivered, net.arrived.values().filter(|took| in_time(took)).count());
        }
        prop_assert!(net.ends[SERVER].stats().late + net.received().len() as u64 <= net.ends[CLIENT].stats().copies);
    }
}
