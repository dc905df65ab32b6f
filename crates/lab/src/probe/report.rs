//! What was seen beside what the fitted elements do, for a report.

use taut_core::Seed;
use taut_report::result::{ProbeResult, ProbedWay, Verdict};

use super::scenario::ways;
use super::{Probed, Seen};
use crate::run::{Inputs, RunError, link_pair};
use crate::scenario::Scenario;

/// The report of a probe: what was seen of `paths`, and what as many messages of the same length meet on the links of the `fitted` scenario;
/// `names` are those of the paths, where there are several. The verdicts are of sessions over the recording and over the `fitted` scenario.
///
/// # Errors
/// When the links of the `fitted` scenario are not those of [`scenario`](super::scenario()) for these paths.
pub fn report(
    paths: &[Probed<'_>],
    names: &[String],
    fitted: &Scenario,
    verdicts: [&Verdict; 2],
) -> Result<ProbeResult, RunError> {
    let directions = ["to the other end", "from the other end"];
    let mut shown = Vec::new();
    for (at, (link, way)) in ways(paths).into_iter().enumerate() {
        let direction = directions[at % 2].to_owned();
        let name = names.get(at / 2).filter(|_| paths.len() > 1);
        let name = name.map_or_else(|| direction.clone(), |path| format!("{path}, {direction}"));
        let mut pair = link_pair(fitted, Some(&link), Seed::new(1), &mut Inputs::default())?;
        let twin = Seen::over(&mut pair.up, way.seen.every, way.seen.arrivals.len(), way.message);
        shown.push(ProbedWay {
            name,
            received: way.seen.received() as u64,
            held: way.seen.held() as u64,
            overtaken: way.seen.overtaken(),
            rate_bps: way.trains.and_then(|trains| trains.rate()).map(|rate| rate.as_bps() as f64),
            recorded_loss_percent: way.seen.lost() * 100.0,
            fitted_loss_percent: twin.lost() * 100.0,
            recorded_ms: way.seen.distribution(),
            fitted_ms: twin.distribution(),
        });
    }
    let [recorded, fitted] = verdicts.map(Verdict::clone);
    Ok(ProbeResult { taut: env!("CARGO_PKG_VERSION").to_owned(), ways: shown, recorded, fitted })
}
