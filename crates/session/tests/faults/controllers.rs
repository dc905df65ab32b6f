//! What congestion control is worth: how old the newest state at the robot and the newest force at the hand are, millisecond by millisecond.
//!
//! ```text
//! cargo test -p taut-session --test faults controllers_side -- --ignored --nocapture
//! ```

use taut_core::{Bitrate, Bytes, Duration, Probability, Seed, Time};
use taut_link::{
    Bottleneck, Chain, Delay, Distribution, DropTail, Element, Jitter, JitterConfig, Loss, Schedule,
};
use taut_session::{
    ChannelEvent, ChannelId, Congestion, OperatorConfig, OperatorEvent, RobotConfig, RobotEvent,
};

use crate::carriers::Over;
use crate::harness::{Clock, MS, Observer, World};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Where the hand is: a circle a second and a half long, of 10 cm.
fn hand(at: Time) -> [f32; 3] {
    let turn = at.as_secs_f64() * std::f64::consts::TAU / 1.5;
    [(0.1 * turn.cos()) as f32, (0.1 * turn.sin()) as f32, 0.0]
}

/// When something came, and when that was made.
#[derive(Default)]
pub(crate) struct Seen {
    made: std::collections::BTreeMap<u64, Time>,
    pub(crate) states: Vec<(Time, Time)>,
    pub(crate) forces: Vec<(Time, Time)>,
    /// Messages of channels that reached the operator: which, when, how old, how long.
    pub(crate) messages: Vec<(ChannelId, Time, Duration, usize)>,
}

impl Observer for Seen {
    fn made(&mut self, now: Time, sequence: u64) {
        self.made.insert(sequence, now);
    }

    fn hand(&self, now: Time) -> [f32; 3] {
        hand(now)
    }

    fn robot(&mut self, now: Time, event: &RobotEvent, _clocks: Option<[Duration; 2]>) {
        if let RobotEvent::Apply { sequence, .. } = event {
            self.states.push((now, self.made[sequence]));
        }
    }

    fn operator(&mut self, now: Time, event: &OperatorEvent) {
        if let OperatorEvent::Feedback { age, .. } = event {
            self.forces.push((now, now - *age));
        }
        if let OperatorEvent::Channel(ChannelEvent::Received { channel, age, payload, .. }) = event {
            self.messages.push((*channel, now, age.unwrap_or_default(), payload.len()));
        }
    }
}

/// Percentiles of ages, ms: 50th, 99th, largest.
pub(crate) fn ages(seen: &[(Time, Time)], from: Time, until: Time) -> [f64; 3] {
    let (mut ages, mut at, mut next) = (Vec::new(), from, 0);
    let mut newest = seen.first().map_or(from, |(_, made)| *made);
    while at < until {
        while let Some((_, made)) = seen.get(next).filter(|(came, _)| *came <= at) {
            newest = newest.max(*made);
            next += 1;
        }
        ages.push(at.saturating_since(newest).as_secs_f64() * 1e3);
        at += MS;
    }
    ages.sort_by(f64::total_cmp);
    [0.5, 0.99, 1.0].map(|share| ages[((ages.len() - 1) as f64 * share) as usize])
}

/// How far the arm is from the hand, root mean square, mm.
pub(crate) fn tracking(seen: &[(Time, Time)], from: Time, until: Time) -> f64 {
    let (mut sum, mut count, mut at, mut next, mut newest) = (0.0, 0.0, from, 0, from);
    while at < until {
        while let Some((_, made)) = seen.get(next).filter(|(came, _)| *came <= at) {
            newest = newest.max(*made);
            next += 1;
        }
        let (a, b) = (hand(at), hand(newest));
        sum += a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        count += 1.0;
        at += MS;
    }
    1e3 * f64::sqrt(sum / count)
}

/// The rates of a link of a shipped scenario: rows of ms and kbit/s.
pub(crate) fn lte(link: &str, seed: u64) -> Chain {
    bent_lte(link, seed, Bend::default())
}

/// The same path a little faster or slower, a little longer or shorter, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bend {
    pub(crate) rate: i64,
    pub(crate) delay: i64,
}

impl Bend {
    pub(crate) fn rate(self, rate: Bitrate) -> Bitrate {
        Bitrate::from_bps(rate.as_bps() * (100 + self.rate) as u64 / 100)
    }

    pub(crate) fn delay(self, delay: Duration) -> Duration {
        delay.saturating_mul((100 + self.delay) as u64) / 100
    }
}

pub(crate) fn bent_lte(link: &str, seed: u64, bend: Bend) -> Chain {
    let text = include_str!("../../../../scenarios/lte.toml");
    let text = &text[text.find(&format!("[links.{link}]")).expect("the link")..];
    let table = &text[text.find("rate_table").expect("a table")..text.find("] }").expect("its end")];
    let value = |row: &str, key: &str| {
        let rest = &row[row.find(key)? + key.len()..];
        Some(rest[..rest.find('"')?].to_owned())
    };
    let mut rows = Vec::new();
    for row in table.split('{') {
        let (Some(at), Some(rate)) = (value(row, "at = \""), value(row, "rate = \"")) else { continue };
        rows.push((at.parse::<Duration>().expect("a time"), bend.rate(rate.parse().expect("a rate"))));
    }
    let first = rows[0].1;
    let start = crate::harness::START.saturating_since(Time::ZERO);
    let mut shifted = vec![(Duration::ZERO, first)];
    shifted.extend(rows.into_iter().map(|(at, rate)| (start + SECOND + at, rate)));
    let queue = DropTail::default().limit_bytes(Bytes::new(1_500_000));
    let jitter = JitterConfig::new(MS * 5).mean(MS * 5).distribution(Distribution::Uniform);
    let jitter = Jitter::new(jitter, Seed::new(seed).stream(link)).expect("a jitter");
    let server = Bottleneck::new(Schedule::table(shifted).expect("a table"), queue);
    Chain::new(vec![server.into(), Delay::new(bend.delay(MS * 15)).into(), jitter.into()])
}

pub(crate) fn fixed(kbit: u64, delay: Duration, loss: &str, name: &str) -> Chain {
    let queue = DropTail::default().limit_bytes(Bytes::new(200_000));
    let loss: Probability = loss.parse().expect("a share");
    let loss = Loss::bernoulli(Schedule::constant(loss), Seed::new(5).stream(name));
    let elements: Vec<Element> = vec![
        Bottleneck::new(Bitrate::from_bps(kbit * 1_000), queue).into(),
        Delay::new(delay).into(),
        loss.into(),
    ];
    Chain::new(elements)
}

struct Figures {
    state: [f64; 3],
    force: [f64; 3],
    tracking_mm: f64,
    sent_hz: f64,
}

fn run(over: Over, links: [Chain; 2], seconds: u64, law: Option<Congestion>) -> Figures {
    let operator = OperatorConfig::new()
        .adaptive(false)
        .reliable(over.reliable())
        .no_deadline()
        .window(law.is_some())
        .congestion(law.unwrap_or_default());
    let robot = RobotConfig::new()
        .watchdog(SECOND * 5)
        .max_age(SECOND * 5)
        .feedback_deadline(SECOND * 5)
        .window(law.is_some())
        .congestion(law.unwrap_or_default());
    let mut world = World::new(|end| over.end(end, 1, 0), operator, robot, links, Seen::default());
    world.clocks = [Clock::default(), Clock { offset: SECOND * 100, drift_ppb: 20_000 }];
    world.start();
    let from = world.now + SECOND;
    let until = from + SECOND * seconds;
    world.run_until(until);
    let seen = &world.observer;
    Figures {
        state: ages(&seen.states, from, until),
        force: ages(&seen.forces, from, until),
        tracking_mm: tracking(&seen.states, from, until),
        sent_hz: seen.states.iter().filter(|(at, _)| *at >= from).count() as f64 / seconds as f64,
    }
}

#[test]
#[ignore = "a table to look at"]
fn controllers_side_by_side() {
    println!(
        "| network | transport | law | state p50 / p99 / max, ms | force p50 / p99 / max, ms | tracking, mm | states/s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let scream = |ms| Some(Congestion::Scream { target: MS * ms });
    let laws = [
        ("own queue", Some(Congestion::OwnQueue)),
        ("SCReAM, 60 ms", scream(60)),
        ("SCReAM, 10 ms", scream(10)),
        ("GCC", Some(Congestion::Gcc)),
        ("none", None),
    ];
    for network in ["LTE", "overload 4.8 %", "10 Mbit/s, 1 %"] {
        for over in [Over::Udp, Over::QuicDatagrams, Over::Tcp] {
            for (name, law) in laws {
                let links = match network {
                    "LTE" => [lte("downlink", 3), lte("uplink", 3)],
                    "overload 4.8 %" => {
                        [fixed(1_080, MS * 10, "0%", "there"), fixed(1_170, MS * 10, "0%", "back")]
                    }
                    _ => [fixed(10_000, MS * 10, "1%", "there"), fixed(10_000, MS * 10, "1%", "back")],
                };
                let figures = run(over, links, if network == "LTE" { 57 } else { 20 }, law);
                let three = |[a, b, c]: [f64; 3]| format!("{a:.0} / {b:.0} / {c:.0}");
                let Figures { state, force, tracking_mm, sent_hz } = figures;
                let (state, force) = (three(state), three(force));
                println!(
                    "| {network} | {} | {name} | {state} | {force} | {tracking_mm:.1} | {sent_hz:.0} |",
                    over.name()
                );
            }
        }
    }
}
