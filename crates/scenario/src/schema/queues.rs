//! The queue before a server. Unless set, each discipline is as Linux 6.1 comes.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use taut_core::{Bitrate, Bytes};
use taut_link::{CakeConfig, CodelConfig, FqCodelConfig, PieConfig, RedConfig};

use super::defaults::bytes;

/// A drop-tail queue with limits in bytes, in packets, or both; without any, 1000 packets. Or one of the disciplines of
/// `tc`, which are named.
///
/// One with its defaults may be just its name, one of [`QueueSpec::NAMES`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct QueueSpec {
    /// At most this many bytes wait. From 1B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// At most this many packets wait. From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Controlled delay (RFC 8289).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codel: Option<CodelConfig>,
    /// Flow queues with controlled delay (RFC 8290).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fq_codel: Option<FqCodelConfig>,
    /// Proportional integral controller enhanced (RFC 8033).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pie: Option<PieConfig>,
    /// Random early detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red: Option<RedConfig>,
    /// Strict priorities by code point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prio: Option<PrioSpec>,
    /// Token bucket filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tbf: Option<TbfSpec>,
    /// Common applications kept enhanced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cake: Option<CakeConfig>,
}

impl QueueSpec {
    /// Names of queues that need no settings. `pfifo`, drop-tail, is [`QueueSpec::default`].
    pub const NAMES: [&str; 6] = ["pfifo", "codel", "fq_codel", "pie", "red", "cake"];

    /// By its name, with its defaults.
    fn named(name: &str) -> Option<Self> {
        let queue = Self::default();
        Some(match name {
            "pfifo" => queue,
            "codel" => Self { codel: Some(CodelConfig::default()), ..queue },
            "fq_codel" => Self { fq_codel: Some(FqCodelConfig::default()), ..queue },
            "pie" => Self { pie: Some(PieConfig::default()), ..queue },
            "red" => Self { red: Some(RedConfig::default()), ..queue },
            "cake" => Self { cake: Some(CakeConfig::default()), ..queue },
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
    pub rate: Bitrate,
    /// At once, after a pause. At least the largest packet: larger ones are dropped. From 1B to what takes an hour at `rate`.
    pub burst: Bytes,
    /// The burst itself passes at no more than this; at once by default.
    pub peakrate: Option<Bitrate>,
    /// With `peakrate`, so much at once. At least the largest packet, at most what takes an hour at `peakrate`.
    #[serde(default = "bytes::<1514>")]
    pub minburst: Bytes,
    /// What waits behind it; by default a FIFO that holds what passes in 50 ms, and a burst.
    pub queue: Option<Box<QueueSpec>>,
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
