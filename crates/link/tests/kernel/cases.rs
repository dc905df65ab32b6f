//! Which disciplines are compared, by the names that `oracle/queues/compare.py` has for them.

use taut_core::{Bitrate, Bytes, Duration, Seed};
use taut_link::{
    Cake, CakeConfig, Codel, CodelConfig, Discipline, DropTail, FqCodel, FqCodelConfig, Pie, PieConfig, Prio,
    Red, RedConfig, Tins, TokenBucket, TokenBucketConfig,
};

/// Of the link, and of the disciplines that shape by themselves.
pub(crate) const RATE: Bitrate = Bitrate::from_bps(10_000_000);

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// From the seed of what it draws.
    pub(crate) make: fn(u64) -> Discipline,
    /// Does it stand before a server of [`RATE`]? Else it is its own.
    pub(crate) served: bool,
}

/// Over so many seeds a queue that draws its drops is compared in the mean.
pub(crate) const SEEDS: u64 = 50;

const fn served(name: &'static str, make: fn(u64) -> Discipline) -> Case {
    Case { name, make, served: true }
}

const fn shapes(name: &'static str, make: fn(u64) -> Discipline) -> Case {
    Case { name, make, served: false }
}

pub(crate) const CASES: &[Case] = &[
    served("pfifo", |_| DropTail::default().limit_packets(100).into()),
    served("codel", |_| Codel::default().into()),
    served("codel-ecn", |_| Codel::new(CodelConfig { ecn: true, ..CodelConfig::default() }).into()),
    served("fq_codel", |_| FqCodel::new(FqCodelConfig::default(), 1).into()),
    served("fq_codel-small", |_| {
        FqCodel::new(FqCodelConfig { limit: 300, ecn: false, ..FqCodelConfig::default() }, 1).into()
    }),
    served("pie", |seed| pie(seed, PieConfig::default())),
    served("pie-ecn", |seed| pie(seed, PieConfig { ecn: true, ..PieConfig::default() })),
    served("red", |seed| red(seed, red_config())),
    served("red-ecn", |seed| red(seed, RedConfig { ecn: true, ..red_config() })),
    served("prio", |_| Prio::linux().class(46, 0).class(44, 0).into()),
    served("prio-codel", |_| {
        let mut prio =
            Prio::new(vec![Codel::default().into(), Codel::default().into(), Codel::default().into()], 1);
        for (dscp, band) in [(46, 0), (18, 2), (34, 2)] {
            prio = prio.class(dscp, band);
        }
        prio.into()
    }),
    shapes("tbf", |_| {
        TokenBucket::with_latency(TokenBucketConfig::new(RATE, Bytes::new(15_000)), Duration::from_millis(50))
            .into()
    }),
    shapes("tbf-peak", |_| {
        let config = TokenBucketConfig::new(RATE, Bytes::new(30_000));
        let config = config.peak(Bitrate::from_bps(16_000_000), Bytes::new(1_514));
        TokenBucket::with_latency(config, Duration::from_millis(50)).into()
    }),
    shapes("cake", |seed| cake(seed, tins(Tins::Besteffort))),
    shapes("cake-diffserv3", |seed| cake(seed, CakeConfig::default())),
    shapes("cake-diffserv4", |seed| cake(seed, tins(Tins::Diffserv4))),
    shapes("cake-diffserv8", |seed| cake(seed, tins(Tins::Diffserv8))),
    shapes("cake-docsis", |seed| {
        let (rtt, memory) = (Duration::from_millis(30), Some(Bytes::new(200_000)));
        cake(seed, CakeConfig { rtt, overhead: 18, mpu: Bytes::new(64), memory, ..tins(Tins::Besteffort) })
    }),
];

fn pie(seed: u64, config: PieConfig) -> Discipline {
    // The guest's clock ticks every 10 ms: Linux makes 2 ticks of `tupdate 20ms`, and its timer wheel 3 of these.
    Pie::new(PieConfig { tupdate: Duration::from_millis(30), ..config }, Seed::new(seed).stream("pie")).into()
}

fn red_config() -> RedConfig {
    let (min, max) = (Some(Bytes::new(30_000)), Some(Bytes::new(90_000)));
    RedConfig { limit: Bytes::new(200_000), min, max, burst: Some(55), ..RedConfig::default() }
}

fn red(seed: u64, config: RedConfig) -> Discipline {
    Red::new(config, Seed::new(seed).stream("red")).into()
}

fn tins(tins: Tins) -> CakeConfig {
    CakeConfig { tins, ..CakeConfig::default() }
}

fn cake(seed: u64, config: CakeConfig) -> Discipline {
    Cake::new(CakeConfig { bandwidth: Some(RATE), ..config }, Seed::new(seed).stream("cake")).into()
}

impl Case {
    /// One seed for what draws nothing that decides who is dropped, or next to nothing.
    pub(crate) fn seeds(&self) -> std::ops::RangeInclusive<u64> {
        let drawn = ["pie", "red", "cake-docsis"].iter().any(|name| self.name.starts_with(name));
        1..=if drawn { SEEDS } else { 1 }
    }

    /// The same for a load that is drawn. Those fill CAKE's memory, and from then on its BLUE draws who is dropped; and CoDel under
    /// unequal flows never forgets a tick of its clock.
    pub(crate) fn seeds_under_drawn(&self, load: &str) -> std::ops::RangeInclusive<u64> {
        let clocked = ["codel", "codel-ecn", "prio-codel"].contains(&self.name) && load == "flows";
        let drawn = self.name.starts_with("cake") || self.name == "pie" || clocked;
        if drawn { 1..=20 } else { self.seeds() }
    }

    pub(crate) fn rate(&self) -> Option<Bitrate> {
        self.served.then_some(RATE)
    }
}
