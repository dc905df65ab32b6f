//! An emergency stop over a link that the session's own states saturate, over every transport.

#[path = "../faults/carriers.rs"]
mod carriers;
#[path = "../harness/mod.rs"]
mod harness;

use std::collections::VecDeque;

use carriers::Over;
use harness::{MS, OPERATOR, Observer, START, World};
use taut_core::{Bitrate, Bytes, Duration, Seed, Time};
use taut_link::{Bottleneck, Chain, Delay, DropTail};
use taut_session::{OperatorConfig, OperatorEvent, Order, RobotConfig};

const PRESSES: [u64; 3] = [4_000, 8_000, 12_000];
const HEADERS: u64 = 28;

/// The queue that the operator's packets make, as a server of the link's rate has it.
struct Queue {
    rate: Bitrate,
    done: VecDeque<Time>,
    pressed: Option<Time>,
    /// What the first packet after the press took there, but for what waited before it, except for the one in service.
    least: Duration,
    added: Vec<Duration>,
    sent: u64,
}

impl Observer for Queue {
    fn transmitted(&mut self, now: Time, from: usize, _id: u64, bytes: &[u8]) {
        if from != OPERATOR {
            return;
        }
        while self.done.front().is_some_and(|done| *done <= now) {
            self.done.pop_front();
        }
        let service = self.rate.time_for(Bytes::new(bytes.len() as u64 + HEADERS));
        if self.pressed == Some(now) && self.least.is_zero() {
            self.least = self.done.front().map_or(Duration::ZERO, |done| *done - now) + service + MS * 20;
        }
        if self.done.len() < 400 {
            self.done.push_back(self.done.back().copied().unwrap_or(now) + service);
        }
        self.sent += 1;
    }

    fn operator(&mut self, now: Time, event: &OperatorEvent) {
        if let (OperatorEvent::EmergencyStopped { .. }, Some(pressed)) = (event, self.pressed) {
            self.added.push((now - pressed).saturating_sub(self.least));
            self.pressed = None;
        }
    }
}

fn press(over: Over, mbit: u64, seed: u64) -> (Vec<Duration>, u64) {
    let rate = Bitrate::from_bps(mbit * 1_000_000);
    let way = |rate| {
        let queue = DropTail::default().limit_packets(400);
        Chain::new(vec![Bottleneck::new(rate, queue).into(), Delay::new(MS * 10).into()])
    };
    let hz = mbit as u32 * 1_500;
    let operator =
        OperatorConfig::new().no_deadline().rate(hz).order(Order::Fifo).adaptive(false).reliable(over.reliable());
    let robot = RobotConfig::new().max_age(MS * 60_000).watchdog(MS * 5_000);
    let queue = Queue { rate, done: VecDeque::new(), pressed: None, least: MS, added: Vec::new(), sent: 0 };
    let links = [way(rate), way(Bitrate::from_bps(10_000_000))];
    let mut world = World::new(|end| over.end(end, seed, 0), operator, robot, links, queue);
    let mut rng = Seed::new(seed).stream("press");
    while world.now < START + MS * 600 && !world.resume() {
        world.run_until(world.now + MS * 20);
    }
    world.sampling = Some(Duration::from_nanos(1_000_000_000 / u64::from(hz) / 2));
    for press in PRESSES {
        world.run_until(START + MS * press + Duration::from_micros(rng.below(5_000)));
        (world.observer.pressed, world.observer.least) = (Some(world.now), Duration::ZERO);
        world.emergency_stop();
        world.run_until(world.now + MS * 1_000);
        world.resume();
    }
    let sent = world.operator.status(world.local(OPERATOR)).delivered;
    (world.observer.added.clone(), sent)
}

#[test]
fn a_stop_waits_for_no_queue_of_the_sessions_own() {
    let list = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let seeds: u64 = list("SEEDS", "1").parse().unwrap();
    let (mut all, mut bad) = (0, 0);
    for over in Over::ALL.into_iter().filter(|over| *over != Over::Plain) {
        if !list("OVER", over.name()).split(',').any(|name| name == over.name()) {
            continue;
        }
        print!("{:15}", over.name());
        for mbit in list("RATES", "2,3,4,6,8").split(',').map(|mbit| mbit.parse().unwrap()) {
            let (mut most, mut late, mut states) = (Duration::ZERO, 0, 0);
            for seed in 1..=seeds {
                let (added, sent) = press(over, mbit, seed);
                late += PRESSES.len() - added.iter().filter(|added| **added <= MS).count();
                most = added.iter().copied().fold(most, Duration::max);
                states += sent / seeds;
                all += PRESSES.len();
            }
            bad += late;
            print!("  {late:2} ({:7.2}) [{states}]", most.as_millis_f64());
        }
        println!();
    }
    println!("{bad} of {all}");
}
