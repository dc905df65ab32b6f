//! Several seeds and variants, on all cores, summed up.

use std::sync::Mutex;

use rayon::prelude::*;
use taut_core::Seed;

use crate::metrics::Moments;
use crate::result::{CampaignResult, Measure, RunResult, VariantResult};
use crate::run::{RunError, run};
use crate::scenario::{Scenario, Variant};

/// One run of a campaign: which variant, which seed, and what it found. Its series are left out.
#[derive(Clone, Debug)]
pub struct CampaignRun {
    /// Index of the variant.
    pub variant: usize,
    /// The run.
    pub result: RunResult,
}

/// Runs every variant with every seed; the order of the results does not depend on how many cores there are.
///
/// `progress` is told the share that is done, from 0 to 1, from several threads.
///
/// # Errors
/// The first run's that could not be done, in the order of variants and seeds.
pub fn campaign(
    scenario: &Scenario,
    variants: &[(Variant, Scenario)],
    seeds: &[u64],
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(CampaignResult, Vec<CampaignRun>), RunError> {
    let jobs: Vec<(usize, u64)> =
        (0..variants.len()).flat_map(|variant| seeds.iter().map(move |seed| (variant, *seed))).collect();
    let done = Mutex::new(0.0);
    let run_one = |&(variant, seed): &(usize, u64)| {
        let mut before = 0.0;
        let mut tell = |fraction: f64| {
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *done += (fraction - before) / jobs.len() as f64;
            before = fraction;
            progress(*done);
        };
        let mut result = run(&variants[variant].1, Seed::new(seed), &mut tell)?;
        if !result.conservation.holds {
            let violations = result.conservation.violations.join("; ");
            return Err(RunError::Scenario(format!("seed {seed}: packets do not add up: {violations}")));
        }
        result.series.clear();
        Ok(CampaignRun { variant, result })
    };
    let results: Vec<Result<CampaignRun, RunError>> = jobs.par_iter().map(run_one).collect();
    let runs = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let sum_up = |(i, (variant, _)): (usize, &(Variant, Scenario))| {
        let of: Vec<&RunResult> = runs.iter().filter(|run| run.variant == i).map(|run| &run.result).collect();
        variant_result(variant, seeds, &of)
    };
    let campaign = CampaignResult {
        taut: env!("CARGO_PKG_VERSION").to_owned(),
        title: scenario.title.clone(),
        description: scenario.description.clone(),
        duration_s: scenario.duration.as_secs_f64(),
        variants: variants.iter().enumerate().map(sum_up).collect(),
    };
    Ok((campaign, runs))
}

fn variant_result(variant: &Variant, seeds: &[u64], runs: &[&RunResult]) -> VariantResult {
    let settings = variant.set.iter().map(|(key, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.clone(), text)
    });
    VariantResult {
        name: variant.name.clone(),
        settings: settings.collect(),
        seeds: seeds.to_vec(),
        met: runs.iter().filter(|run| run.verdict.met).count() as u64,
        measures: measures(runs, variant),
    }
}

/// Every measure of the first run, over all runs that have it.
fn measures(runs: &[&RunResult], variant: &Variant) -> Vec<Measure> {
    let all: Vec<Vec<Value>> = runs.iter().map(|run| values(run)).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let measure = |value: &Value| {
        let mut moments = Moments::default();
        for run in &all {
            if let Some(found) = run.iter().find(|v| v.name == value.name) {
                moments.record(found.value);
            }
        }
        Measure {
            name: value.name.clone(),
            unit: value.unit.to_owned(),
            mean: moments.mean,
            ci95: moments.sample_sd().map(|sd| t95(moments.count) * sd / (moments.count as f64).sqrt()),
            min: moments.min,
            max: moments.max,
            predicted: value.predicted,
            reported: variant.reported.get(&value.name).copied(),
        }
    };
    first.iter().map(measure).collect()
}

struct Value {
    name: String,
    unit: &'static str,
    value: f64,
    predicted: Option<f64>,
}

/// What a campaign keeps of a run.
fn values(run: &RunResult) -> Vec<Value> {
    let mut values = Vec::new();
    let mut push = |name: String, unit, value, predicted| values.push(Value { name, unit, value, predicted });
    for medium in &run.media {
        let stream = &medium.stream;
        let predicted = |quantity: &str| {
            let model = run.models.iter().find(|model| model.stream == *stream)?;
            model.rows.iter().find(|row| row.quantity == quantity).map(|row| row.predicted_ms)
        };
        let model = run.models.iter().find(|model| model.stream == *stream);
        let floor = model.and_then(|model| model.rows.iter().find(|row| row.quantity == "d_min"));
        let floor = floor.map_or(medium.delay_ms.min, |row| row.measured_ms);
        push(format!("{stream} d_min"), "ms", floor, predicted("d_min"));
        push(format!("{stream} smallest delay"), "ms", medium.delay_ms.min, None);
        push(format!("{stream} mean delay"), "ms", medium.delay_ms.mean, None);
        push(format!("{stream} p99 delay"), "ms", medium.delay_ms.p99, None);
        push(format!("{stream} d_max"), "ms", medium.delay_ms.max, predicted("d_max"));
        push(format!("{stream} sd of delay"), "ms", medium.delay_ms.sd, None);
        push(format!("{stream} per-second mean of delay, sd"), "ms", medium.delay_buckets_ms.sd, None);
        push(format!("{stream} per-second mean of delay, min"), "ms", medium.delay_buckets_ms.min, None);
        push(format!("{stream} per-second mean of delay, max"), "ms", medium.delay_buckets_ms.max, None);
        push(format!("{stream} jitter"), "ms", medium.jitter_max_ms, predicted("jitter"));
        push(format!("{stream} loss"), "%", medium.loss_percent, None);
        push(format!("{stream} late"), "%", percent(medium.late, medium.delivered), None);
    }
    for flow in &run.flows {
        push(format!("{} rate", flow.name), "Mbit/s", flow.delivered_bps / 1e6, None);
        push(format!("{} packet delay", flow.name), "ms", flow.delay_ms.mean, None);
        push(format!("{} packet delay sd", flow.name), "ms", flow.delay_ms.sd, None);
    }
    for skew in &run.skews {
        push(format!("{} skew", skew.pair), "ms", skew.skew_ms.mean, None);
    }
    values
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// The 97.5 % quantile of Student's t with n − 1 degrees of freedom.
fn t95(n: u64) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    let freedom = n.saturating_sub(1).max(1) as usize;
    T.get(freedom - 1).copied().unwrap_or_else(|| 1.960 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_falls_towards_the_normal_quantile() {
        assert!((t95(2) - 12.706).abs() < 1e-9);
        assert!((t95(20) - 2.093).abs() < 1e-9);
        assert!((t95(61) - 2.000).abs() < 0.001);
        assert!((t95(100_000) - 1.960).abs() < 0.001);
    }
}
