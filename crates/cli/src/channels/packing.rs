//! What a file of channels says of what an end sends: which messages are worth it, and which travel together.

use serde::Deserialize;
use taut_core::{Bitrate, Bytes, Duration};
use taut_session::{DeadbandConfig, Packing, Sampling, Scheme, TrendConfig};

/// A deadband, as a table `[sampler."name"]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SamplerTable {
    k: f64,
    floor: f64,
    slope: f64,
    keep_alive: Duration,
}

impl Default for SamplerTable {
    fn default() -> Self {
        Self { k: 0.1, floor: 0.001, slope: 0.0, keep_alive: Duration::from_millis(100) }
    }
}

impl SamplerTable {
    pub(super) fn sampling(&self) -> Result<Sampling, String> {
        let Self { k, floor, slope, keep_alive } = *self;
        let ranges = [("k", k, 1.0), ("floor", floor, 1e9), ("slope", slope, 1e6)];
        if let Some((key, _, most)) =
            ranges.into_iter().find(|(_, value, most)| !(0.0..=*most).contains(value))
        {
            return Err(format!("{key}: is 0 to {most}"));
        }
        let deadband = DeadbandConfig::new().k(k).floor(floor).speed_gain(slope).keep_alive(keep_alive);
        Ok(Sampling::deadband(deadband))
    }
}

/// Which messages travel together, as `packing = …`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum PackingSpec {
    Separate,
    FixedFragment {
        fragment: Bytes,
    },
    VisualHaptic {
        media_rate: Bitrate,
    },
    NetworkAware {
        fragment: Bytes,
        #[serde(default = "millisecond")]
        period: Duration,
        #[serde(default = "four")]
        max_samples: u32,
    },
}

fn millisecond() -> Duration {
    Duration::from_millis(1)
}

fn four() -> u32 {
    4
}

/// What both keys say together.
pub(super) fn packing(spec: PackingSpec, packet: Option<Bytes>) -> Result<Packing, String> {
    let packing = Packing::new(match spec {
        PackingSpec::Separate => Scheme::Separate,
        PackingSpec::FixedFragment { fragment } => Scheme::FixedFragment { fragment },
        // As its source has it.
        PackingSpec::VisualHaptic { media_rate } => {
            Scheme::VisualHaptic { media_rate, with_sample: millisecond(), chunk: Duration::from_millis(15) }
        }
        PackingSpec::NetworkAware { fragment, period, max_samples } => {
            Scheme::NetworkAware { fragment, period, trend: TrendConfig::new().k_max(max_samples) }
        }
    });
    let packing = packing.map_err(|error| format!("packing: {error}"))?;
    Ok(packet.map_or(packing, |packet| packing.datagram(packet)))
}
