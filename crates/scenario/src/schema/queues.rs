//! The queue before a server. Unless set, each discipline is as Linux 6.1 comes.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use taut_core::{Bitrate, Bytes, Duration, Probability};

/// A drop-tail queue with limits in bytes, in packets, or both; without any, 1000 packets. Or one of the disciplines of
/// `tc`, which are named.
///
/// One with its defaults may be just its name, one of [`QueueSpec::NAMES`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct QueueSpec {
    /// At most this many bytes wait. From 1B.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bytes: Option<Bytes>,
    /// At most this many packets wait. From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Controlled delay (RFC 8289).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codel: Option<CodelSpec>,
    /// Flow queues with controlled delay (RFC 8290).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fq_codel: Option<FqCodelSpec>,
    /// Proportional integral controller enhanced (RFC 8033).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pie: Option<PieSpec>,
    /// Random early detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red: Option<RedSpec>,
    /// Strict priorities by code point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prio: Option<PrioSpec>,
    /// Token bucket filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tbf: Option<TbfSpec>,
    /// Common applications kept enhanced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cake: Option<CakeSpec>,
}

impl QueueSpec {
    /// Names of queues that need no settings. `pfifo`, drop-tail, is [`QueueSpec::default`].
    pub const NAMES: [&str; 6] = ["pfifo", "codel", "fq_codel", "pie", "red", "cake"];

    /// By its name, with its defaults.
    fn named(name: &str) -> Option<Self> {
        let queue = Self::default();
        Some(match name {
            "pfifo" => queue,
            "codel" => Self { codel: Some(CodelSpec::default()), ..queue },
            "fq_codel" => Self { fq_codel: Some(FqCodelSpec::default()), ..queue },
            "pie" => Self { pie: Some(PieSpec::default()), ..queue },
            "red" => Self { red: Some(RedSpec::default()), ..queue },
            "cake" => Self { cake: Some(CakeSpec::default()), ..queue },
            _ => return None,
        })
    }
}

impl Serialize for QueueSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for QueueSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrTable)
    }
}

struct NameOrTable;

impl<'de> Visitor<'de> for NameOrTable {
    type Value = QueueSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct QueueSpec")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<QueueSpec, E> {
        QueueSpec::named(name).ok_or_else(|| E::unknown_variant(name, &QueueSpec::NAMES))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QueueSpec, A::Error> {
        QueueSpec::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Controlled delay: drops from the head while the time in the queue stays above a target, ever more often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodelSpec {
    /// The time in the queue that is accepted for good. 1us to 4s.
    #[schemars(with = "String")]
    pub target: Duration,
    /// For how long it may be exceeded before the first drop. 1us to 4s.
    #[schemars(with = "String")]
    pub interval: Duration,
    /// At most this many packets wait. From 1.
    pub limit: u64,
    /// Mark packets that can be marked, rather than drop them.
    pub ecn: bool,
    /// Mark every packet that waited longer than this. 1us to 4s; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ce_threshold: Option<Duration>,
}

impl Default for CodelSpec {
    fn default() -> Self {
        let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
        Self { target, interval, limit: 1_000, ecn: false, ce_threshold: None }
    }
}

/// A queue for each flow, served in turn, flows that send little first; each under CoDel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodelSpec {
    /// The time in the queue that is accepted for good. 1us to 4s.
    #[schemars(with = "String")]
    pub target: Duration,
    /// For how long it may be exceeded before the first drop. 1us to 4s.
    #[schemars(with = "String")]
    pub interval: Duration,
    /// At most this many packets wait, in all queues. From 1.
    pub limit: u64,
    /// Queues that flows are hashed to. 1 to 65535.
    pub flows: u16,
    /// Bytes of a flow's turn. From 1B.
    #[schemars(with = "String")]
    pub quantum: Bytes,
    /// At most this much of Linux's memory, which is more than the packets' lengths. From 1B.
    #[schemars(with = "String")]
    pub memory: Bytes,
    /// At most this many packets are dropped at once from the longest queue when a limit is reached. From 1.
    pub drop_batch: u64,
    /// Mark packets that can be marked, rather than drop them.
    pub ecn: bool,
    /// Mark every packet that waited longer than this. 1us to 4s; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ce_threshold: Option<Duration>,
}

impl Default for FqCodelSpec {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit: 10_240,
            flows: 1_024,
            quantum: Bytes::new(1_514),
            memory: Bytes::new(32 << 20),
            drop_batch: 64,
            ecn: true,
            ce_threshold: None,
        }
    }
}

/// Drops at the tail with a probability that follows the delay and its change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PieSpec {
    /// The delay that is aimed at. 1us to 4s.
    #[schemars(with = "String")]
    pub target: Duration,
    /// How often the probability is updated. 1ms to 4s.
    #[schemars(with = "String")]
    pub tupdate: Duration,
    /// At most this many packets wait. From 1.
    pub limit: u64,
    /// How much the distance to the target changes the probability, in sixteenths a second of delay. 0 to 32.
    pub alpha: u32,
    /// How much a change of the delay does. 0 to 32.
    pub beta: u32,
    /// Mark packets that can be marked while the probability is at most a tenth, rather than drop them.
    pub ecn: bool,
    /// Small packets are dropped less often, in proportion to their size.
    pub bytemode: bool,
}

impl Default for PieSpec {
    fn default() -> Self {
        let period = Duration::from_millis(15);
        Self {
            target: period,
            tupdate: period,
            limit: 1_000,
            alpha: 2,
            beta: 20,
            ecn: false,
            bytemode: false,
        }
    }
}

/// Drops at the tail with a probability that grows with the average length of the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedSpec {
    /// At most so many bytes wait. 1B to 100MB.
    #[schemars(with = "String")]
    pub limit: Bytes,
    /// Nothing is dropped below this average. 1B to 100MB; a third of `max` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub min: Option<Bytes>,
    /// Everything is dropped from this average on. From `min` to 100MB; a quarter of `limit` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub max: Option<Bytes>,
    /// The size of packets for `burst`, and for the time while nothing waits. 1B to 100MB.
    #[schemars(with = "String")]
    pub avpkt: Bytes,
    /// Packets at once that are let through. More than `min / avpkt`; (2·min + max) / 3 average packets by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Of a drop just below `max`. More than 0.
    #[serde(deserialize_with = "super::links::probability")]
    #[schemars(with = "String")]
    pub probability: Probability,
    /// At which rate the average falls while nothing waits.
    #[schemars(with = "String")]
    pub bandwidth: Bitrate,
    /// Mark packets that can be marked, rather than drop them.
    pub ecn: bool,
    /// With `ecn`, drop all the same from `max` on.
    pub harddrop: bool,
    /// Moves the probability so that the average stays halfway between `min` and `max`.
    pub adaptive: bool,
}

impl Default for RedSpec {
    fn default() -> Self {
        Self {
            limit: Bytes::new(400_000),
            min: None,
            max: None,
            avpkt: Bytes::new(1_000),
            burst: None,
            probability: Probability::from_fraction(0.02).unwrap_or(Probability::NEVER),
            bandwidth: Bitrate::from_bps(10_000_000),
            ecn: false,
            harddrop: false,
            adaptive: false,
        }
    }
}

/// Bands; nothing of a band goes while anything of one before it waits.
///
/// With neither `bands` nor `classes`: Linux's three bands of 1000 packets, by the bits of the code point that once were the
/// type of service; EF is then in band 1, among everything else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrioSpec {
    /// The queue of each band, the first of which goes first. 1 to 16; three of 1000 packets by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<QueueSpec>,
    /// Which packets go into which band. Everything else goes into the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassSpec>,
}

/// A code point's band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Differentiated services code point, 0 to 63, as in a stream's `dscp`.
    pub dscp: u8,
    /// The number of a band, from 0.
    pub band: u8,
}

/// Lets packets go at a rate, and more after a pause: tokens are saved up to a depth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TbfSpec {
    /// In the long run. From 8bit.
    #[schemars(with = "String")]
    pub rate: Bitrate,
    /// At once, after a pause. At least the largest packet: larger ones are dropped. From 1B to what takes an hour at `rate`.
    #[schemars(with = "String")]
    pub burst: Bytes,
    /// The burst itself passes at no more than this; at once by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub peakrate: Option<Bitrate>,
    /// With `peakrate`, so much at once. At least the largest packet, at most what takes an hour at `peakrate`.
    #[serde(default = "super::defaults::ethernet_frame")]
    #[schemars(with = "String")]
    pub minburst: Bytes,
    /// What waits behind it; by default a FIFO that holds what passes in 50 ms, and a burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Box<QueueSpec>>,
}

/// A shaper, classes, fair flows and short queues in one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CakeSpec {
    /// Its own shaper. From 512bit; none by default, the server sets the pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bandwidth: Option<Bitrate>,
    /// Classes by code point.
    pub tins: TinsSpec,
    /// What is kept apart.
    pub isolation: IsolationSpec,
    /// A round-trip time of the slowest flows; the target delay is a twentieth of it. 20us to 4s.
    #[schemars(with = "String")]
    pub rtt: Duration,
    /// Bytes that the link adds to a packet. -64 to 256.
    pub overhead: i16,
    /// The smallest packet of the link, overhead included. 0B to 256B.
    #[schemars(with = "String")]
    pub mpu: Bytes,
    /// Cells or words that packets are cut into.
    pub framing: FramingSpec,
    /// At most this much of Linux's memory. From 1B; four times `rtt` at the bandwidth and at least 4 MiB by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub memory: Option<Bytes>,
    /// Which TCP acknowledgements are dropped because later ones say the same.
    pub ack_filter: AckFilterSpec,
    /// Charges what it drops to the shaper as well, for the receiving end of a slow link.
    pub ingress: bool,
}

impl Default for CakeSpec {
    fn default() -> Self {
        Self {
            bandwidth: None,
            tins: TinsSpec::default(),
            isolation: IsolationSpec::default(),
            rtt: Duration::from_millis(100),
            overhead: 0,
            mpu: Bytes::ZERO,
            framing: FramingSpec::default(),
            memory: None,
            ack_filter: AckFilterSpec::default(),
            ingress: false,
        }
    }
}

/// Classes of `cake`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TinsSpec {
    /// One for everything.
    Besteffort,
    /// Bulk, best effort, voice.
    #[default]
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
    /// Eight, from background to network control.
    Diffserv8,
}

/// What `cake` keeps apart; the words of `tc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationSpec {
    /// Nothing: one queue.
    Flowblind,
    /// Sources.
    Srchost,
    /// Destinations.
    Dsthost,
    /// Pairs of hosts.
    Hosts,
    /// Flows.
    Flows,
    /// Flows; sources share first.
    DualSrchost,
    /// Flows; destinations share first.
    DualDsthost,
    /// Flows; sources and destinations share first.
    #[default]
    TripleIsolate,
}

/// What the link makes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FramingSpec {
    /// Nothing.
    #[default]
    Noatm,
    /// Cells of 53 bytes that carry 48 each.
    Atm,
    /// One byte more for every 64.
    Ptm,
}

/// Which acknowledgements `cake` drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckFilterSpec {
    /// None.
    #[default]
    Off,
    /// One for each that enters, while two superfluous ones wait.
    On,
    /// One for each that enters, also the last superfluous one.
    Aggressive,
}

impl QueueSpec {
    /// The kinds that are named, in the words of the scenario.
    pub fn kinds(&self) -> Vec<&'static str> {
        let named = [
            ("codel", self.codel.is_some()),
            ("fq_codel", self.fq_codel.is_some()),
            ("pie", self.pie.is_some()),
            ("red", self.red.is_some()),
            ("prio", self.prio.is_some()),
            ("tbf", self.tbf.is_some()),
            ("cake", self.cake.is_some()),
        ];
        named.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }
}
