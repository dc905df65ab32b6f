//! An operator and a robot over simulated links: what the session promises, on UDP and on TCP.

#[path = "../harness/mod.rs"]
mod harness;

mod channels;
mod commands;
mod delivery;
mod hostile;
mod laws;
mod motion;
mod mtip;
mod packing;
mod paths;
mod playout;
mod random;
mod repair;
mod safety;
mod stops;
mod turning;

use harness::{Log, MS, World};
use taut_core::{Bitrate, Bytes, Duration, Transport};
use taut_link::{Bottleneck, Chain, Delay, DropTail};
use taut_session::{OperatorConfig, RobotConfig};

/// `delay` each way and nothing else.
fn delays(delay: Duration) -> [Chain; 2] {
    [Delay::new(delay).into(), Delay::new(delay).into()]
}

/// A rate and a delay each way.
fn rated(mbit: u64, delay: Duration) -> [Chain; 2] {
    let way = || {
        let queue = DropTail::default().limit_bytes(Bytes::new(200_000));
        let rate = Bitrate::from_bps(mbit * 1_000_000);
        Chain::new(vec![Bottleneck::new(rate, queue).into(), Delay::new(delay).into()])
    };
    [way(), way()]
}

fn world<T: Transport>(transport: impl Fn(usize) -> T, links: [Chain; 2]) -> World<T, Log> {
    World::new(transport, OperatorConfig::new(), RobotConfig::new(), links, Log::default())
}

/// Milliseconds from `from` to `to`.
fn ms_between(from: taut_core::Time, to: taut_core::Time) -> f64 {
    (to - from).as_secs_f64() / MS.as_secs_f64()
}
