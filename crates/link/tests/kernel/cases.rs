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
    pub(crate) make: fn() -> Discipline,
    /// Does it stand before a server of [`RATE`]? Else it is its own.
    pub(crate) served: bool,
}

const fn served(name: &'static str, make: fn() -> Discipline) -> Case {
    Case { name, make, served: true }
}

const fn shapes(name: &'static str, make: fn() -> Discipline) -> Case {
    Case { name, make, served: false }
}

pub(crate) const CASES: &[Case] = &[
    served("pfifo", || DropTail::default().limit_packets(100).into()),
    served("codel", || Codel::default().into()),
    served("codel-ecn", || Codel::new(CodelConfig::new().ecn(true)).into()),
    served("fq_codel", || FqCodel::new(FqCodelConfig::new(), 1).into()),
    served("fq_codel-small", || FqCodel::new(FqCodelConfig::new().limit(300).ecn(false), 1).into()),
    served("pie", || pie(PieConfig::new())),
    served("pie-ecn", || pie(PieConfig::new().ecn(true))),
    served("red", || red(red_config())),
    served("red-ecn", || red(red_config().ecn(true))),
    served("prio", || Prio::linux().class(46, 0).class(44, 0).into()),
    served("prio-codel", || {
        let mut prio =
            Prio::new(vec![Codel::default().into(), Codel::default().into(), Codel::default().into()], 1);
        for (dscp, band) in [(46, 0), (34, 2)] {
            prio = prio.class(dscp, band);
        }
        prio.into()
    }),
    shapes("tbf", || {
        TokenBucket::with_latency(TokenBucketConfig::new(RATE, Bytes::new(15_000)), Duration::from_millis(50))
            .into()
    }),
    shapes("tbf-peak", || {
        let config = TokenBucketConfig::new(RATE, Bytes::new(30_000));
        let config = config.peak(Bitrate::from_bps(16_000_000), Bytes::new(1_514));
        TokenBucket::with_latency(config, Duration::from_millis(50)).into()
    }),
    shapes("cake", || cake(CakeConfig::new().tins(Tins::Besteffort))),
    shapes("cake-diffserv3", || cake(CakeConfig::new())),
    shapes("cake-diffserv4", || cake(CakeConfig::new().tins(Tins::Diffserv4))),
    shapes("cake-diffserv8", || cake(CakeConfig::new().tins(Tins::Diffserv8))),
    shapes("cake-docsis", || {
        let config = CakeConfig::new().tins(Tins::Besteffort).rtt(Duration::from_millis(30));
        cake(config.overhead(18).mpu(Bytes::new(64)).memory_limit(Bytes::new(200_000)))
    }),
];

fn pie(config: PieConfig) -> Discipline {
    // The guest's clock ticks every 10 ms: Linux makes 2 ticks of `tupdate 20ms`, and its timer wheel 3 of these.
    Pie::new(config.update(Duration::from_millis(30)), Seed::new(1).stream("pie")).into()
}

fn red_config() -> RedConfig {
    let (limit, min, max) = (Bytes::new(200_000), Bytes::new(30_000), Bytes::new(90_000));
    RedConfig::new().limit(limit).min(min).max(max).burst(55)
}

fn red(config: RedConfig) -> Discipline {
    Red::new(config, Seed::new(1).stream("red")).into()
}

fn cake(config: CakeConfig) -> Discipline {
    Cake::new(config.bandwidth(RATE), Seed::new(1).stream("cake")).into()
}

impl Case {
    pub(crate) fn rate(&self) -> Option<Bitrate> {
        self.served.then_some(RATE)
    }
}
