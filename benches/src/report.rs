//! What was measured, as a table or as JSON.

use serde::Serialize;

use crate::process::Measurement;
use crate::shared_link::SharedLink;

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Shorter runs: numbers for a first look.
    pub(crate) quick: bool,
    pub(crate) shared_link: SharedLink,
    pub(crate) scaling: Vec<Scaled>,
    pub(crate) hot_paths: Vec<HotPath>,
}

/// So many TCP flows and as many CBR flows.
#[derive(Debug, Serialize)]
pub(crate) struct Scaled {
    flows: u64,
    packets: u64,
    cpu_ns_per_packet: f64,
    peak_memory_mb: f64,
}

impl Scaled {
    pub(crate) fn new(flows: u64, measured: &Measurement) -> Self {
        Self {
            flows,
            packets: measured.count,
            cpu_ns_per_packet: measured.ns_each(),
            peak_memory_mb: measured.memory as f64 / 1e6,
        }
    }
}

/// One hot path by itself.
#[derive(Debug, Serialize)]
pub(crate) struct HotPath {
    name: &'static str,
    cpu_ns: f64,
    /// As a multiple of the first.
    ratio: f64,
}

impl HotPath {
    pub(crate) fn new(name: &'static str, measured: &Measurement, first: Option<&Self>) -> Self {
        let cpu_ns = measured.ns_each();
        Self { name, cpu_ns, ratio: cpu_ns / first.map_or(cpu_ns, |first| first.cpu_ns) }
    }
}

impl Report {
    pub(crate) fn print(&self, json: bool) -> Result<(), String> {
        if json {
            println!("{}", serde_json::to_string_pretty(self).map_err(|e| e.to_string())?);
            return Ok(());
        }
        self.shared_link.print();
        println!("\nflows of TCP and of CBR    packets   CPU ns per packet   peak memory");
        for row in &self.scaling {
            println!(
                "{:23} {:10} {:19.0} {:10.1} MB",
                row.flows, row.packets, row.cpu_ns_per_packet, row.peak_memory_mb
            );
        }
        println!("\nhot path                             CPU ns   ratio");
        for row in &self.hot_paths {
            println!("{:34} {:8.1} {:7.1}", row.name, row.cpu_ns, row.ratio);
        }
        Ok(())
    }
}
