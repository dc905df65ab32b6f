//! Tables of delay, jitter and loss measured on 5G paths, played at one row a second.

use std::path::PathBuf;

use crate::driver::{Calls, every, ms, rng, run};
use taut_core::{Duration, Probability};
use taut_link::{Chain, Distribution, Jitter, JitterConfig, Loss, Schedule};

/// The columns of a file after the two with times, or `None`, with a word about it, where the data are not installed.
fn columns(file: &str) -> Option<Vec<Vec<f64>>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = std::env::var_os("TAUT_DATA").map_or_else(beside, PathBuf::from);
    let path = root.join("multipath-5g").join(file);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            println!("skipped: {}: {error}", path.display());
            return None;
        }
    };
    let row = |line: &str| line.split(',').skip(2).map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>();
    let rows: Vec<_> = text.lines().skip(1).map(row).collect();
    Some((0..rows[0].len()).map(|column| rows.iter().map(|row| row[column]).collect()).collect())
}

fn per_second<T: Copy>(cells: &[f64], value: impl Fn(f64) -> T) -> Schedule<T> {
    Schedule::steps(Duration::from_secs(1), cells.iter().map(|cell| value(*cell))).unwrap()
}

#[test]
fn packets_meet_the_delay_and_jitter_of_their_second() {
    for file in ["PathA_impairments.csv", "PathB_impairments.csv"] {
        let Some(columns) = columns(file) else { return };
        let [delay, jitter] = columns.as_slice() else { panic!("{file} has other columns") };
        let nanos = |nanos: f64| Duration::from_nanos(nanos as u64);
        let config = JitterConfig::new(per_second(jitter, nanos)).mean(per_second(delay, nanos));
        let config = config.distribution(Distribution::Normal).reorder(true);
        let mut link = Chain::from(Jitter::new(config, rng("path")).unwrap());
        let out = run(&mut link, every(ms(1), 1_000 * delay.len() as u64, 100), Calls::Exact);
        let mut sums = vec![0.0; delay.len()];
        for (id, nanos) in out.departures() {
            sums[(id / 1_000) as usize] += (nanos - id * 1_000_000) as f64;
        }
        for (second, sum) in sums.iter().enumerate() {
            let expected = clamped_normal_mean(delay[second], jitter[second]);
            let tolerance = 5.0 * jitter[second] / 1_000f64.sqrt();
            let mean = sum / 1_000.0;
            assert!((mean - expected).abs() < tolerance, "{file}, second {second}: {mean}, not {expected}");
        }
    }
}

/// The mean of max(0, N(μ, σ²)): μ·Φ(μ/σ) + σ·φ(μ/σ).
fn clamped_normal_mean(mu: f64, sigma: f64) -> f64 {
    let z = mu / sigma;
    let below = 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    mu * below + sigma * libm::exp(-z * z / 2.0) / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn packets_meet_the_loss_of_their_second() {
    let Some(columns) = columns("Path_losses_for_congestion.csv") else { return };
    let percent = |percent: f64| Probability::from_fraction(percent / 100.0).unwrap();
    let rows = columns[0].len();
    let mut link = Chain::from(Loss::bernoulli(per_second(&columns[0], percent), rng("loss")));
    let per_row = 5_000;
    let packets = every(Duration::from_micros(200), per_row * rows as u64, 100);
    let mut lost = vec![0u32; rows];
    for (id, _) in run(&mut link, packets, Calls::Lazy).drops() {
        lost[(id / per_row) as usize] += 1;
    }
    for (second, lost) in lost.iter().enumerate() {
        let (p, n) = (columns[0][second] / 100.0, per_row as f64);
        let tolerance = 5.0 * (p * (1.0 - p) / n).sqrt() + 1.0 / n;
        assert!((f64::from(*lost) / n - p).abs() < tolerance, "second {second}: {lost} lost, not {p} of {n}");
    }
}
