//! Two ETP endpoints over a bottleneck with delay and loss, in virtual time.

use std::collections::BTreeMap;

use taut_core::{
    Bitrate, Bytes, Datagram, DropCause, Duration, Ecn, Event, Message, PathId, Probability, Rng, Seed, Time,
    Transport, earliest,
};
use taut_transport::etp::{Adaptive, Etp, EtpConfig, MOTION_GAP};

use crate::net::MS;

/// IPv4 and UDP.
const HEADERS: u64 = 28;

fn secs(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

/// One direction: a drop-tail queue in front of a serialiser, then loss, then delay.
struct Path {
    delay: Duration,
    rate: Bitrate,
    longest_wait: Duration,
    loss: Probability,
    rng: Rng,
    idle_at: Time,
}

impl Path {
    fn new(name: &str) -> Self {
        Self {
            delay: MS * 20,
            rate: Bitrate::from_bps(10_000_000),
            longest_wait: MS * 500,
            loss: Probability::NEVER,
            rng: Seed::new(1).stream(name),
            idle_at: Time::ZERO,
        }
    }

    /// When the datagram arrives, if it does.
    fn carry(&mut self, now: Time, len: usize) -> Option<Time> {
        let begins = self.idle_at.max(now);
        if begins - now > self.longest_wait {
            return None;
        }
        self.idle_at = begins + self.rate.time_for(Bytes::new(len as u64 + HEADERS));
        (!self.loss.sample(&mut self.rng)).then_some(self.idle_at + self.delay)
    }
}

/// Endpoints 0 and 1; `paths[0]` leads from 0 to 1.
struct Net {
    ends: [Etp; 2],
    paths: [Path; 2],
    /// How often each end makes a sample: its time of making, 8 bytes, and 92 more.
    periods: [Option<Duration>; 2],
    next_sample: [Time; 2],
    now: Time,
    in_flight: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    carried: u64,
    /// Per end: (arrival, age) of every sample that came.
    arrivals: [Vec<(Time, Duration)>; 2],
    gauges: [Vec<(&'static str, Time, f64)>; 2],
    superseded: [u64; 2],
}

impl Net {
    fn new(configs: [EtpConfig; 2], periods: [Option<Duration>; 2]) -> Self {
        Self {
            ends: configs.map(|config| Etp::new(config).expect("the settings are in range")),
            paths: [Path::new("forward"), Path::new("back")],
            periods,
            next_sample: [Time::ZERO; 2],
            now: Time::ZERO,
            in_flight: BTreeMap::new(),
            carried: 0,
            arrivals: Default::default(),
            gauges: Default::default(),
            superseded: [0; 2],
        }
    }

    fn run_until(&mut self, end: Time) {
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, data) = entry.remove();
                let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: 0 };
                self.ends[to].handle_input(self.now, input);
                self.drain(to);
            }
            for end in 0..2 {
                self.ends[end].handle_timeout(self.now);
                self.drain(end);
                self.make_sample(end);
            }
        }
        self.now = end;
    }

    fn next_time(&self) -> Option<Time> {
        let timeout =
            earliest(self.ends[0].poll_timeout(), self.ends[1].poll_timeout()).map(|deadline| deadline.at);
        let sample = (0..2).filter(|end| self.periods[*end].is_some()).map(|end| self.next_sample[end]).min();
        let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
        [timeout, sample, arrival].into_iter().flatten().min()
    }

    fn make_sample(&mut self, end: usize) {
        let Some(period) = self.periods[end].filter(|_| self.next_sample[end] <= self.now) else { return };
        self.next_sample[end] = self.now + period;
        let mut data = self.now.as_nanos().to_be_bytes().to_vec();
        data.resize(100, 0);
        let message = Message { data, created: self.now, ..Message::default() };
        self.ends[end].send(self.now, message).expect("a sample always finds room");
        self.drain(end);
    }

    fn drain(&mut self, end: usize) {
        let mut buffer = Vec::new();
        while self.ends[end].poll_transmit(self.now, &mut buffer).is_some() {
            self.carried += 1;
            if let Some(arrival) = self.paths[end].carry(self.now, buffer.len()) {
                self.in_flight.insert((arrival, self.carried), (1 - end, std::mem::take(&mut buffer)));
            }
            buffer.clear();
        }
        while let Some(event) = self.ends[end].poll_event() {
            match event {
                Event::Received { data, .. } => {
                    let made =
                        Time::from_nanos(u64::from_be_bytes(data[..8].try_into().expect("eight bytes")));
                    self.arrivals[end].push((self.now, self.now - made));
                }
                Event::Gauge { name, value } => self.gauges[end].push((name, self.now, value)),
                Event::Dropped { cause: DropCause::Superseded, .. } => self.superseded[end] += 1,
                Event::Connected => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn ages_ms(&self, end: usize, from: Time) -> Vec<f64> {
        self.arrivals[end].iter().filter(|(at, _)| *at >= from).map(|(_, age)| age.as_millis_f64()).collect()
    }

    fn gaps_ms(&self, end: usize) -> impl Iterator<Item = f64> {
        self.gauges[end].iter().filter(|(name, ..)| *name == "gap_ms").map(|(.., value)| *value)
    }
}

fn adaptive() -> EtpConfig {
    EtpConfig::adaptive(Adaptive::new())
}

fn one_way(config: EtpConfig) -> Net {
    Net::new([config, adaptive()], [Some(MS), None])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn on_a_free_path_every_sample_arrives_after_the_paths_delay() {
    let mut net = one_way(adaptive());
    net.run_until(secs(5));
    let stats = net.ends[0].stats();
    assert_eq!((stats.gap, stats.sampling.superseded), (MS, 0));
    assert_eq!(stats.min_rtt.map(|rtt| rtt / MS), Some(40));
    let serialised = 140.0 * 8.0 / 10_000.0;
    assert!(net.ages_ms(1, Time::ZERO).iter().all(|age| (age - 20.0 - serialised).abs() < 1e-6));
    assert_eq!(net.arrivals[1].len(), 4980);
}

/// 1000 samples of 140 bytes a second into 300 kbit/s: too much by 3.7.
#[test]
fn the_gap_that_follows_the_path_keeps_a_narrow_link_from_filling() {
    let run = |config| {
        let mut net = one_way(config);
        net.paths[0].rate = Bitrate::from_bps(300_000);
        net.run_until(secs(30));
        let ages = net.ages_ms(1, secs(10));
        (mean(&ages), ages.iter().copied().fold(0.0, f64::max), ages.len() as f64 / 20.0)
    };
    let (mean_fixed, ..) = run(EtpConfig::fixed(MS));
    let (mean, max, hz) = run(adaptive());
    println!("fixed 1 ms: mean {mean_fixed:.1} ms; adaptive: mean {mean:.1} ms, max {max:.1} ms, {hz:.0} Hz");
    assert!(mean_fixed > 500.0, "{mean_fixed}");
    assert!(mean < 50.0 && max < 150.0, "{mean} {max}");
    assert!(hz > 0.6 * 268.0, "{hz} of the 268 Hz that fit");
}

#[test]
fn the_gap_comes_back_when_the_path_is_free_again() {
    let mut net = one_way(adaptive());
    net.paths[0].rate = Bitrate::from_bps(300_000);
    net.run_until(secs(10));
    assert!(net.ends[0].gap() > MS * 2, "{}", net.ends[0].gap());
    net.paths[0].rate = Bitrate::from_bps(10_000_000);
    net.run_until(secs(20));
    assert_eq!(net.ends[0].gap(), MS);
    let superseded = net.superseded[0];
    net.run_until(secs(21));
    assert_eq!(net.superseded[0], superseded);
    let stats = net.ends[0].stats();
    assert_eq!(stats.sampling.superseded, superseded, "every one was told");
}

#[test]
fn loss_widens_the_gap_and_its_end_narrows_it() {
    let mut net = one_way(adaptive());
    net.run_until(secs(2));
    assert_eq!(net.ends[0].gap(), MS);
    net.paths[0].loss = Probability::from_fraction(0.1).unwrap();
    net.run_until(secs(6));
    assert!(net.ends[0].gap() > MS * 15, "{}", net.ends[0].gap());
    assert!(net.ends[0].stats().loss.unwrap() > 0.02);
    net.paths[0].loss = Probability::NEVER;
    net.run_until(secs(15));
    assert_eq!(net.ends[0].gap(), MS);
}

/// The source's IP cloud discards 1 %.
#[test]
fn the_discards_of_a_wide_area_path_are_not_congestion() {
    let mut net = one_way(adaptive());
    net.paths.iter_mut().for_each(|path| path.loss = Probability::from_fraction(0.01).unwrap());
    net.run_until(secs(30));
    assert!(mean(&net.gaps_ms(0).collect::<Vec<_>>()) < 2.0);
    let sampling = net.ends[0].stats().sampling;
    assert!(sampling.sent as f64 > 0.9 * sampling.offered as f64, "{sampling:?}");
}

#[test]
fn the_bound_of_motion_is_never_exceeded_whatever_the_path_does() {
    let mut net = one_way(adaptive());
    net.run_until(secs(1));
    net.paths[0].loss = Probability::ALWAYS;
    net.run_until(secs(11));
    assert_eq!(net.ends[0].gap(), MOTION_GAP);
    let sent_before = net.ends[0].stats().packets_sent;
    net.run_until(secs(12));
    let hz = net.ends[0].stats().packets_sent - sent_before;
    assert!(hz >= 30, "{hz} Hz while nothing arrives");
    assert!(net.gaps_ms(0).all(|gap| (1.0..=33.0).contains(&gap)));
}

#[test]
fn both_ends_send_data_and_feedback_at_once() {
    let mut net = Net::new([adaptive(), adaptive()], [Some(MS), Some(MS * 2)]);
    net.paths[1].loss = Probability::from_fraction(0.2).unwrap();
    net.run_until(secs(5));
    let [a, b] = [0, 1].map(|end| net.ends[end].stats());
    assert_eq!(a.gap, MS, "its own direction is clean");
    assert!(b.gap > MS * 10, "{}", b.gap);
    assert!(a.packets_missing > 0 && b.packets_missing == 0);
    // At most one report each 20 ms, fewer where data comes less often; every fifth from 1 to 0 is lost.
    assert!(a.feedback_sent < b.feedback_sent && (240..=251).contains(&b.feedback_sent));
    assert!((180..=220).contains(&a.feedback_received), "{}", a.feedback_received);
}

#[test]
fn nothing_is_left_to_do_when_nothing_is_sent() {
    let mut net = one_way(adaptive());
    net.run_until(secs(1));
    net.periods = [None; 2];
    net.run_until(secs(10));
    assert_eq!(net.ends[0].poll_timeout().or(net.ends[1].poll_timeout()), None);
    assert!(net.in_flight.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let mut net = Net::new([adaptive().pack(true), adaptive()], [Some(MS), Some(MS)]);
        net.paths.iter_mut().for_each(|path| {
            path.loss = Probability::from_fraction(0.05).unwrap();
            path.rate = Bitrate::from_bps(600_000);
        });
        net.run_until(secs(5));
        (net.arrivals, net.gauges, net.carried)
    };
    assert_eq!(run(), run());
}
