//! The whole product at work: a telehaptic session beside TCP and CBR on one link, as `taut run` runs it.

use std::path::PathBuf;

use serde::Serialize;
use taut_core::Seed;
use taut_lab::job;
use taut_lab::run::Extras;
use taut_lab::scenario::Scenario;

use crate::process::Measurement;

/// How long a run is: as long as `benches/ns-3/compare` gives other simulators.
pub(crate) const SECONDS: u64 = 500;

/// Samples, frames, transports, the link, every metric and the independent ledger: nothing is left out but the files.
#[derive(Debug, Serialize)]
pub(crate) struct SharedLink {
    simulated_s: u64,
    cpu_s: f64,
    /// That nodes sent, in both directions.
    packets: u64,
    /// Of these, those that the bottleneck carried beside the acknowledgements: the session's backwards, TCP's and CBR's.
    data_packets: u64,
    packets_per_cpu_s: f64,
    data_packets_per_cpu_s: f64,
    peak_memory_mb: f64,
}

impl SharedLink {
    pub(crate) fn new(simulated_s: u64, measured: Measurement) -> Self {
        let cpu_s = measured.cpu_ns as f64 / 1e9;
        Self {
            simulated_s,
            cpu_s,
            packets: measured.count,
            data_packets: measured.data,
            packets_per_cpu_s: measured.count as f64 / cpu_s,
            data_packets_per_cpu_s: measured.data as f64 / cpu_s,
            peak_memory_mb: measured.memory as f64 / 1e6,
        }
    }

    pub(crate) fn print(&self) {
        println!("shared link, R = 3 Mbit/s, {} s", self.simulated_s);
        println!("  CPU time                   {:10.3} s", self.cpu_s);
        println!("  packets                    {:10}", self.packets);
        println!("  packets per CPU-second     {:10.0}", self.packets_per_cpu_s);
        println!("  data through bottleneck    {:10}", self.data_packets);
        println!("  data per CPU-second        {:10.0}", self.data_packets_per_cpu_s);
        println!("  peak memory                {:10.1} MB", self.peak_memory_mb);
    }
}

/// The run, in this process.
pub(crate) fn measure(seconds: u64) -> Result<Measurement, String> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/shared-link.toml"));
    let scenario = Scenario::read(&path).map_err(|e| e.to_string())?;
    let length = format!("duration={seconds}s").parse().map_err(|e: String| e)?;
    let scenario = scenario.with(&[length]).map_err(|e| e.to_string())?;
    let (result, _) = job::single(&scenario, Seed::new(7), Extras::default(), None, &mut |_| ())
        .map_err(|e| e.to_string())?;
    let backwards = |kind: &str, name: &str| match kind {
        "session" => name.ends_with("backward"),
        kind => kind != "tcp acks",
    };
    let data =
        result.flows.iter().filter(|flow| backwards(&flow.kind, &flow.name)).map(|flow| flow.delivered).sum();
    Measurement::since_the_beginning(result.conservation.sent, data)
}
