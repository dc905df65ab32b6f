//! Sender and receiver over a link in virtual time.

use std::collections::VecDeque;

use proptest::prelude::*;
use taut_core::{Rng, Seed};

use super::*;

/// A FIFO of so many bytes before a link, 20 ms each way; packets of 1200 bytes.
struct World {
    sender: Gcc,
    receiver: Reporter,
    rng: Rng,
    now: u64,
    next: u64,
    free: u64,
    sequence: u16,
    flying: VecDeque<(u64, u16)>,
    reports: VecDeque<(u64, Report)>,
    delays: Vec<u64>,
}

const US: u64 = 1_000_000;

impl World {
    fn new(config: GccConfig) -> Self {
        Self {
            sender: Gcc::new(config),
            receiver: Reporter::new(1, 2),
            rng: Seed::new(3).stream("gcc"),
            now: 0,
            next: 0,
            free: 0,
            sequence: 65_000,
            flying: VecDeque::new(),
            reports: VecDeque::new(),
            delays: Vec::new(),
        }
    }

    /// For so many seconds, with a link of this rate and a FIFO of `queue` bytes that loses one packet in `loses` besides.
    fn run(&mut self, seconds: u64, rate: u64, queue: u64, loses: u64) {
        let at = |us: u64| Time::ZERO + Duration::from_micros(us);
        let end = self.now + seconds * US;
        while self.now < end {
            if self.next <= self.now {
                let size = Bytes::new(1_200);
                self.sender.handle_sent(at(self.now), self.sequence, size);
                let begin = self.free.max(self.now);
                let full = (begin - self.now) * rate / 8 / US > queue;
                if !full && (loses == 0 || self.rng.below(loses) > 0) {
                    self.free = begin + size.bits() * US / rate;
                    self.delays.push(self.free - self.now);
                    self.flying.push_back((self.free + 20_000, self.sequence));
                }
                self.sequence = self.sequence.wrapping_add(1);
                self.next = self.now + size.bits() * US / self.sender.target().as_bps();
            }
            while let Some((_, sequence)) = self.flying.pop_front_if(|(due, _)| *due <= self.now) {
                self.receiver.handle_input(at(self.now), sequence, 0);
            }
            if self.now.is_multiple_of(100_000) {
                self.reports.extend(
                    self.receiver.poll_report(at(self.now)).map(|report| (self.now + 20_000, report)),
                );
            }
            while let Some((_, report)) = self.reports.pop_front_if(|(due, _)| *due <= self.now) {
                self.sender.handle_feedback(at(self.now), &report);
            }
            self.now += 500;
        }
    }

    fn mbps(&self) -> f64 {
        self.sender.target().as_bps() as f64 / 1e6
    }

    /// Mean of what waited since the last call, in milliseconds.
    fn delay(&mut self) -> f64 {
        let delays = std::mem::take(&mut self.delays);
        delays.iter().sum::<u64>() as f64 / delays.len() as f64 / 1e3
    }
}

#[test]
fn it_finds_the_rate_of_a_link_and_keeps_its_queue_short() {
    let mut world = World::new(GccConfig::new());
    world.run(40, 1_000_000, 200_000, 0);
    world.delay();
    let mut rates = Vec::new();
    for _ in 0..40 {
        world.run(1, 1_000_000, 200_000, 0);
        rates.push(world.mbps());
    }
    let mean = rates.iter().sum::<f64>() / 40.0;
    assert!((0.75..1.1).contains(&mean), "{mean} {rates:?}");
    // A FIFO of 200 kB holds 1.6 s.
    let delay = world.delay();
    assert!(delay < 150.0, "{delay}");
}

#[test]
fn it_gives_way_when_the_link_becomes_slower_and_takes_what_is_free_again() {
    let mut world = World::new(GccConfig::new().start(Bitrate::from_bps(1_000_000)));
    world.run(20, 2_000_000, 200_000, 0);
    world.run(10, 500_000, 200_000, 0);
    assert!((0.3..0.6).contains(&world.mbps()), "{}", world.mbps());
    world.run(60, 2_000_000, 200_000, 0);
    assert!(world.mbps() > 1.0, "{}", world.mbps());
}

#[test]
fn loss_without_delay_slows_it_down_only_beyond_a_tenth() {
    let bounds = GccConfig::new().start(Bitrate::from_bps(1_000_000)).most(Bitrate::from_bps(3_000_000));
    let after = |loses| {
        let mut world = World::new(bounds);
        world.run(30, 20_000_000, 200_000, loses);
        world.mbps()
    };
    assert!(after(100) > 2.0, "{}", after(100));
    assert!(after(4) < 0.2, "{}", after(4));
}

#[test]
fn the_target_stays_within_its_bounds() {
    let bounds = GccConfig::new().least(Bitrate::from_bps(200_000)).most(Bitrate::from_bps(700_000));
    let mut world = World::new(bounds);
    world.run(30, 20_000_000, 200_000, 0);
    assert_eq!(world.sender.target().as_bps(), 700_000);
    world.run(30, 100_000, 20_000, 0);
    assert_eq!(world.sender.target().as_bps(), 200_000);
}

proptest! {
    #[test]
    fn no_report_breaks_it(
        reports in prop::collection::vec((any::<u16>(), any::<u32>(), prop::collection::vec(any::<Option<u16>>(), 0..40)), 1..40),
        sent in prop::collection::vec((0u16..3, 0u64..40), 1..200),
    ) {
        let mut sender = Gcc::new(GccConfig::new());
        let mut sequence = 0u16;
        let mut sent = sent.into_iter();
        for (index, (begin, timestamp, packets)) in (0u64..).zip(reports) {
            let now = Time::ZERO + Duration::from_millis(index * 50);
            for (gap, size) in sent.by_ref().take(7) {
                sequence = sequence.wrapping_add(1 + gap / 2);
                sender.handle_sent(now, sequence, Bytes::new(size * 40));
            }
            let arrival = |offset: u16| Arrival { ecn: 0, offset: Some(offset & 0x1fff) };
            let packets = packets.into_iter().map(|packet| packet.map(arrival)).collect();
            sender.handle_feedback(now, &Report { sender: 1, ssrc: 2, begin: begin % 300, timestamp, packets });
            let target = sender.target().as_bps();
            prop_assert!((30_000..=1_000_000_000).contains(&target), "{}", target);
        }
    }
}
