//! One bottleneck and ever more flows: CPU time per packet that stays the same is cost that is linear in packets.

use taut_core::Seed;
use taut_lab::job;
use taut_lab::run::Extras;
use taut_lab::scenario::Scenario;

use crate::process::Measurement;

/// How many TCP flows, and as many CBR flows beside them.
pub(crate) const FLOWS: [u64; 4] = [1, 10, 30, 100];

/// The run, in this process. Rate and buffer grow with the flows; the duration shrinks, but not so far that slow start
/// would be most of it.
pub(crate) fn measure(flows: u64, seconds_of_one: u64) -> Result<Measurement, String> {
    let scenario = Scenario::parse("scaling", &toml(flows, seconds_of_one)).map_err(|e| e.to_string())?;
    let (result, _) = job::single(&scenario, Seed::new(7), Extras::default(), None, &mut |_| ())
        .map_err(|e| e.to_string())?;
    Measurement::since_the_beginning(result.conservation.sent, 0)
}

/// The shared link without its session.
fn toml(flows: u64, seconds_of_one: u64) -> String {
    format!(
        r#"
title = "{flows} TCP and {flows} CBR flows"
duration = "{duration}ms"
warmup = "0s"

[links.bottleneck]
between = ["left", "right"]
chain = [{{ server = {{ rate = "{rate}Mbit", queue = {{ bytes = "{buffer}kB" }} }} }}, {{ delay = "8ms" }}]

[cross.bulk]
from = "left"
to = "right"
count = {flows}
traffic = {{ tcp = {{ segment = "578B", sack = false, limited_transmit = false }} }}

[cross.constant]
from = "left"
to = "right"
count = {flows}
traffic = {{ cbr = {{ rate = "1.904Mbit", packet = "150B" }} }}
"#,
        duration = seconds_of_one * 1_000 / flows.min(10),
        rate = 6 * flows,
        buffer = 14 * flows,
    )
}
