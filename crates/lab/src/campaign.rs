//! Several seeds and variants, on all cores, summed up.

use std::collections::BTreeSet;
use std::sync::Mutex;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use taut_core::Seed;

use crate::metrics::Moments;
use crate::run::{RunError, run};
use crate::scenario::{Scenario, Variant};
use taut_report::measures::{CausesOfStreams, Measured, of_campaign};
use taut_report::result::{
    CampaignResult, Distribution, LimitTally, Measure, RunResult, Series, Spread, Trend, VariantResult,
    VideoResult,
};

/// One run of a campaign: which variant, which seed, and what it found. Its series are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignRun {
    /// Index of the variant.
    pub variant: usize,
    /// The run.
    pub result: RunResult,
    /// How the delays of its streams went over time.
    pub trends: Vec<Trend>,
}

/// Points of a trend at most: enough for a slope and a picture.
const TREND_POINTS: usize = 50;

/// Every variant with every seed. The runs know nothing of each other: they may be made in any order and anywhere, and are summed up
/// in their own.
#[derive(Clone, Copy, Debug)]
pub struct Campaign<'a> {
    scenario: &'a Scenario,
    variants: &'a [(Variant, Scenario)],
    seeds: &'a [u64],
}

impl<'a> Campaign<'a> {
    /// `variants`: those of the scenario that are to be run.
    ///
    /// # Errors
    /// A seed that is given twice.
    pub fn new(
        scenario: &'a Scenario,
        variants: &'a [(Variant, Scenario)],
        seeds: &'a [u64],
    ) -> Result<Self, RunError> {
        check_seeds(seeds).map_err(RunError::Scenario)?;
        Ok(Self { scenario, variants, seeds })
    }

    /// How many runs there are, variant by variant.
    pub fn runs(&self) -> usize {
        self.variants.len() * self.seeds.len()
    }

    fn job(&self, number: usize) -> (usize, u64) {
        (number / self.seeds.len(), self.seeds[number % self.seeds.len()])
    }

    /// Makes the run of this number. `progress` is told the share of it that is done.
    ///
    /// # Errors
    /// See [`RunError`].
    ///
    /// # Panics
    /// When there are not so many [`runs`](Self::runs).
    pub fn run(&self, number: usize, progress: &mut dyn FnMut(f64)) -> Result<CampaignRun, RunError> {
        let (variant, seed) = self.job(number);
        let mut result = run(&self.variants[variant].1, Seed::new(seed), progress)?;
        if !result.conservation.holds {
            let violations = result.conservation.violations.join("; ");
            return Err(RunError::Conservation(format!("seed {seed}: packets do not add up: {violations}")));
        }
        let trends = trends(&result);
        result.series.clear();
        Ok(CampaignRun { variant, result, trends })
    }

    /// Makes all of them on all cores. `progress` is told the share that is done, from 0 to 1, from several threads.
    ///
    /// # Errors
    /// The first run's that could not be made, in their order.
    pub fn run_all(&self, progress: &(dyn Fn(f64) + Sync)) -> Result<Vec<CampaignRun>, RunError> {
        let done = Mutex::new(0.0);
        let run_one = |number: usize| {
            let mut before = 0.0;
            self.run(number, &mut |fraction: f64| {
                let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *done += (fraction - before) / self.runs() as f64;
                before = fraction;
                progress(*done);
            })
        };
        let results: Vec<_> = (0..self.runs()).into_par_iter().map(run_one).collect();
        results.into_iter().collect()
    }

    /// What they found together.
    ///
    /// # Errors
    /// When these are not all of its runs in their order.
    pub fn sum_up(&self, runs: &[CampaignRun]) -> Result<CampaignResult, RunError> {
        let same = |(number, run): (usize, &CampaignRun)| (run.variant, run.result.seed) == self.job(number);
        if runs.len() != self.runs() || !runs.iter().enumerate().all(same) {
            return Err(RunError::Scenario("these are not the runs of this campaign".to_owned()));
        }
        let sum_up = |(i, (variant, _)): (usize, &(Variant, Scenario))| {
            let of = || runs.iter().filter(|run| run.variant == i);
            let results: Vec<&RunResult> = of().map(|run| &run.result).collect();
            let trends = of().flat_map(|run| run.trends.iter().cloned()).collect();
            variant_result(variant, self.seeds, &results, trends)
        };
        let axes = self.scenario.axes.iter().filter(|_| self.scenario.variants.is_empty());
        Ok(CampaignResult {
            taut: env!("CARGO_PKG_VERSION").to_owned(),
            title: self.scenario.title.clone(),
            description: self.scenario.description.clone(),
            duration_s: self.scenario.duration.as_secs_f64(),
            axes: axes.map(|axis| axis.name.clone()).collect(),
            variants: self.variants.iter().enumerate().map(sum_up).collect(),
        })
    }
}

/// Every seed once: a copy of a run is no other run, and would make an interval look narrower than it is.
///
/// # Errors
/// A seed that is given twice.
pub fn check_seeds(seeds: &[u64]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match seeds.iter().find(|seed| !seen.insert(**seed)) {
        Some(seed) => {
            Err(format!("seed {seed} is given twice: its runs would be copies; give every seed once"))
        }
        None => Ok(()),
    }
}

/// Delay over time, in fewer and longer buckets than a single run keeps.
fn trends(run: &RunResult) -> Vec<Trend> {
    let trend = |series: &Series| {
        let each = series.mean.len().div_ceil(TREND_POINTS).max(1);
        let mean = |part: &[Option<f64>]| {
            let mut moments = Moments::default();
            part.iter().flatten().for_each(|value| moments.record(*value));
            moments.mean()
        };
        Trend {
            stream: series.name.clone(),
            seed: run.seed,
            start_s: series.start_s,
            bucket_s: series.bucket_s * each as f64,
            mean_ms: series.mean.chunks(each).map(mean).collect(),
        }
    };
    run.series.iter().filter(|series| series.plot == "delay").map(trend).collect()
}

fn variant_result(
    variant: &Variant,
    seeds: &[u64],
    runs: &[&RunResult],
    trends: Vec<Trend>,
) -> VariantResult {
    let settings = variant.set.iter().map(|(key, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.clone(), text)
    });
    let (measures, not_measured) = measures(runs, variant);
    VariantResult {
        name: variant.name.clone(),
        overridden: variant.overridden.clone(),
        settings: settings.collect(),
        seeds: seeds.to_vec(),
        met: runs.iter().filter(|run| run.verdict.met).count() as u64,
        limits: limits(runs),
        measures,
        not_measured,
        trends,
        spreads: spreads(runs),
    }
}

/// Every limit that any run was held against, in the order in which they first appear.
fn limits(runs: &[&RunResult]) -> Vec<LimitTally> {
    let mut tallies: Vec<LimitTally> = Vec::new();
    for run in runs {
        for limit in &run.verdict.limits {
            let same = |t: &&mut LimitTally| t.stream == limit.stream && t.quantity == limit.quantity;
            match tallies.iter_mut().find(same) {
                Some(tally) => tally.add(run.seed, limit),
                None => tallies.push(LimitTally::of(run.seed, limit)),
            }
        }
    }
    tallies
}

/// Every measure of any run, in the order in which they first appear, over the runs that have it; and what is reported of none.
fn measures(runs: &[&RunResult], variant: &Variant) -> (Vec<Measure>, Vec<String>) {
    let causes = causes(runs);
    let mut found: Vec<(Measured, Vec<Option<f64>>)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        for value in of_campaign(run, &causes) {
            let known = found.iter().position(|(first, _)| first.name == value.name);
            let number = value.value;
            let at = known.unwrap_or_else(|| {
                found.push((value, vec![None; runs.len()]));
                found.len() - 1
            });
            found[at].1[i] = number;
        }
    }
    let is_found = |name: &String| {
        found.iter().any(|(value, _)| value.name == *name || value.source_name.as_ref() == Some(name))
    };
    let not_measured = variant.reported.keys().filter(|name| !is_found(name)).cloned().collect();
    let measure = |(value, values): (Measured, Vec<Option<f64>>)| {
        let mut moments = Moments::default();
        values.iter().flatten().for_each(|number| moments.record(*number));
        let reported = |name: &str| variant.reported.get(name).copied();
        Some(Measure {
            reported: reported(&value.name).or_else(|| value.source_name.as_deref().and_then(reported)),
            name: value.name,
            unit: value.unit.to_owned(),
            runs: moments.count,
            mean: moments.mean()?,
            ci95: moments.sample_sd().map(|sd| t95(moments.count) * sd / (moments.count as f64).sqrt()),
            min: moments.min,
            max: moments.max,
            predicted: value.predicted,
            values,
        })
    };
    (found.into_iter().filter_map(measure).collect(), not_measured)
}

fn causes<'a>(runs: &[&'a RunResult]) -> CausesOfStreams<'a> {
    let mut causes = CausesOfStreams::new();
    for medium in runs.iter().flat_map(|run| &run.media).filter(|medium| !medium.dropped.is_empty()) {
        causes.entry(&medium.stream).or_default().extend(medium.dropped.keys().map(String::as_str));
    }
    causes
}

/// How frame rates, latencies and offsets of videos are spread, over all runs.
fn spreads(runs: &[&RunResult]) -> Vec<Spread> {
    let mut spreads = Vec::new();
    for (place, video) in runs.first().iter().flat_map(|run| run.videos.iter().enumerate()) {
        let videos = || runs.iter().filter_map(move |run| run.videos.get(place));
        let of = |name: &str, of: fn(&VideoResult) -> Option<&Distribution>| {
            let parts = videos().filter_map(of).map(|times| (times.count, &times.cdf[..]));
            Spread::pooled(name, "ms", parts)
        };
        let (name, seconds) = (&video.name, videos().filter_map(|video| video.fps.as_ref()));
        let seconds = seconds.map(|fps| (fps.seconds, &fps.cdf[..]));
        spreads.extend(Spread::pooled(&format!("{name} frame rate"), "1/s", seconds));
        spreads.extend(of(&format!("{name} frame latency"), |video| video.frame_delay_ms.as_ref()));
        if let Some(haptic) = &video.haptic {
            spreads.extend(of(&format!("{haptic}–{name} offset"), |video| video.offset_ms.as_ref()));
            spreads.extend(of(&format!("{haptic} latency"), |video| video.haptic_delay_ms.as_ref()));
        }
    }
    spreads
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
