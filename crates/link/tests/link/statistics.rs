//! Random elements have the moments that their parameters promise.

use crate::driver::{Calls, every, ms, rng, run};
use taut_core::{Duration, Probability};
use taut_link::{Chain, Distribution, Duplicate, GilbertElliott, Jitter, JitterConfig, Loss};

const PACKETS: u64 = 200_000;

fn probability(fraction: f64) -> Probability {
    Probability::from_fraction(fraction).unwrap()
}

/// Which packets were lost.
fn losses(loss: Loss) -> Vec<bool> {
    let mut lost = vec![false; PACKETS as usize];
    for (id, _) in run(&mut Chain::from(loss), every(ms(1), PACKETS, 100), Calls::Lazy).drops() {
        lost[id as usize] = true;
    }
    lost
}

fn rate(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

fn mean_burst(lost: &[bool]) -> f64 {
    let bursts = lost.split(|lost| !lost).filter(|burst| !burst.is_empty()).count();
    rate(lost) * lost.len() as f64 / bursts as f64
}

fn assert_near(value: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((value - expected).abs() <= tolerance, "{what}: {value} instead of {expected} ± {tolerance}");
}

#[test]
fn independent_losses_have_their_rate_and_the_bursts_of_chance() {
    let lost = losses(Loss::bernoulli(probability(0.1), rng("loss")));
    assert_near(rate(&lost), 0.1, 0.003, "rate");
    assert_near(mean_burst(&lost), 1.0 / 0.9, 0.02, "mean burst");
}

#[test]
fn simple_gilbert_has_its_rate_and_its_bursts() {
    // tc-netem(8): gemodel 1% 20%. Rate p/(p + r), mean burst 1/r.
    let model = GilbertElliott::simple(probability(0.01), probability(0.2));
    let lost = losses(Loss::gilbert_elliott(model, rng("loss")));
    assert_near(rate(&lost), 0.01 / 0.21, 0.004, "rate");
    assert_near(model.loss_rate(), 0.01 / 0.21, 1e-9, "formula");
    assert_near(mean_burst(&lost), 5.0, 0.3, "mean burst");
}

#[test]
fn gilbert_elliott_loses_in_both_states() {
    let model = GilbertElliott {
        p: probability(0.02),
        r: probability(0.1),
        loss_in_bad: probability(0.5),
        loss_in_good: probability(0.01),
    };
    let lost = losses(Loss::gilbert_elliott(model, rng("loss")));
    let expected = (0.02 * 0.5 + 0.1 * 0.01) / 0.12;
    assert_near(model.loss_rate(), expected, 1e-9, "formula");
    assert_near(rate(&lost), expected, 0.005, "rate");
}

#[test]
fn one_percent_of_the_packets_is_duplicated() {
    let mut link = Chain::from(Duplicate::new(probability(0.01), rng("duplicate")));
    let run = run(&mut link, every(ms(1), PACKETS, 100), Calls::Lazy);
    assert_near((run.out.len() as u64 - PACKETS) as f64 / PACKETS as f64, 0.01, 0.001, "share");
}

/// Delays in milliseconds, in the order in which the packets entered.
fn delays(config: JitterConfig) -> Vec<f64> {
    let mut link = Chain::from(Jitter::new(config.reorder(true), rng("jitter")).unwrap());
    let run = run(&mut link, every(ms(200), 50_000, 100), Calls::Exact);
    run.departures().iter().map(|(id, nanos)| (nanos - id * 200_000_000) as f64 / 1e6).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    autocovariance(values, 0).sqrt()
}

fn autocovariance(values: &[f64], lag: usize) -> f64 {
    let mean = mean(values);
    values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / values.len() as f64
}

fn config() -> JitterConfig {
    JitterConfig::new(ms(10)).mean(ms(100))
}

#[test]
fn uniform_jitter_has_its_range_and_moments() {
    let delays = delays(config());
    assert!(delays.iter().all(|delay| (90.0..=110.0).contains(delay)));
    assert_near(mean(&delays), 100.0, 0.1, "mean");
    assert_near(deviation(&delays), 10.0 / 3f64.sqrt(), 0.05, "deviation");
    assert_near(autocovariance(&delays, 1) / autocovariance(&delays, 0), 0.0, 0.02, "correlation");
}

#[test]
fn normal_jitter_has_its_moments() {
    let delays = delays(config().distribution(Distribution::Normal));
    assert_near(mean(&delays), 100.0, 0.2, "mean");
    assert_near(deviation(&delays), 10.0, 0.15, "deviation");
}

#[test]
fn pareto_jitter_has_netems_bounds_and_mean() {
    // From 100 - 2/3·10 to the cap at 100 + 4·10; the mean -0.033 as in `Distribution::Pareto`.
    let delays = delays(config().distribution(Distribution::Pareto));
    assert_near(mean(&delays), 99.67, 0.15, "mean");
    let (low, high) = delays.iter().fold((f64::MAX, 0f64), |(low, high), d| (low.min(*d), high.max(*d)));
    assert_near(low, 100.0 - 20.0 / 3.0, 0.01, "least");
    assert_near(high, 140.0, 1e-9, "most");
    let capped = delays.iter().filter(|delay| **delay > 139.999_999).count() as f64 / delays.len() as f64;
    assert_near(capped, 4.5f64.powi(-3), 0.002, "share at the cap");
}

#[test]
fn correlation_is_that_of_the_neighbour_and_leaves_the_distribution_as_it_is() {
    let uniform = (Distribution::Uniform, 10.0 / 3f64.sqrt());
    for (distribution, deviation) in [uniform, (Distribution::Normal, 10.0)] {
        for rho in [0.25, 0.5, 0.9] {
            let delays = delays(config().distribution(distribution).correlation(rho));
            let variance = autocovariance(&delays, 0);
            assert_near(autocovariance(&delays, 1) / variance, rho, 0.03, "lag 1");
            assert_near(autocovariance(&delays, 2) / variance, rho * rho, 0.03, "lag 2");
            assert_near(variance.sqrt(), deviation, 0.03 * deviation, "deviation");
            assert_near(mean(&delays), 100.0, 0.5, "mean");
        }
    }
    let pareto = |rho| mean(&delays(config().distribution(Distribution::Pareto).correlation(rho)));
    assert_near(pareto(0.5), pareto(0.0), 0.2, "mean");
}

#[test]
fn full_correlation_is_a_constant_delay() {
    let delays = delays(config().correlation(1.0));
    assert!(delays.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 1e-9));
}

#[test]
fn packets_overtake_only_when_they_may() {
    let ids = |reorder| {
        let config = JitterConfig::new(ms(10)).mean(ms(20)).reorder(reorder);
        let mut link = Chain::from(Jitter::new(config, rng("jitter")).unwrap());
        run(&mut link, every(Duration::from_millis(1), 10_000, 100), Calls::Exact).ids()
    };
    assert!(ids(false).is_sorted());
    let overtaken = ids(true).windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(overtaken > 2_000, "{overtaken}");
}
