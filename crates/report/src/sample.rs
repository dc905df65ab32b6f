//! A result as a run of 500 s might find it, and degenerate ones, for tests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::result::Direction;
use crate::result::*;

const DURATION_S: f64 = 500.0;

/// Noise between 0 and 1; any will do.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }
}

/// Values at a constant rate, in milliseconds.
struct Samples {
    per_s: f64,
    values: Vec<f64>,
}

impl Samples {
    /// A sawtooth like the queue of a drop-tail bottleneck under one TCP flow, plus `extra` ms and noise.
    fn sawtooth(per_s: f64, low: f64, high: f64, extra: f64, noise_ms: f64) -> Self {
        let mut noise = Noise(7);
        let (mut phase, mut cycle, mut depth) = (0.0, 1.15, 0.0);
        let mut value = |_| {
            phase += 1.0 / per_s / cycle;
            if phase >= 1.0 {
                phase -= 1.0;
                cycle = 1.0 + 0.3 * noise.next();
                depth = 2.0 * noise.next();
            }
            // Concave, as a window that grows by one segment a round trip makes the round trips longer.
            let rise = phase * (1.6 - 0.6 * phase);
            low + depth + (high - low - depth) * rise + extra + noise_ms * noise.next()
        };
        Self { per_s, values: (0..(per_s * DURATION_S) as usize).map(&mut value).collect() }
    }

    fn series(&self, plot: &str, name: &str, unit: &str, bucket_s: f64, from_s: f64, to_s: f64) -> Series {
        let (mut min, mut mean, mut max) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..((to_s - from_s) / bucket_s).round() as usize {
            let at = |i: usize| {
                (((from_s + i as f64 * bucket_s) * self.per_s).round() as usize).min(self.values.len())
            };
            let bucket = &self.values[at(i)..at(i + 1)];
            let filled = !bucket.is_empty();
            let sum: f64 = bucket.iter().sum();
            min.push(filled.then(|| bucket.iter().copied().fold(f64::MAX, f64::min)));
            mean.push(filled.then(|| sum / bucket.len() as f64));
            max.push(filled.then(|| bucket.iter().copied().fold(f64::MIN, f64::max)));
        }
        let [plot, name, unit] = [plot, name, unit].map(str::to_owned);
        Series { plot, name, unit, start_s: from_s, bucket_s, min, mean, max }
    }

    fn distribution(&self) -> Distribution {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let quantile = |q: f64| sorted[((q * n as f64) as usize).min(n - 1)];
        let mean = sorted.iter().sum::<f64>() / n as f64;
        let variance = sorted.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
        let fine = [0.992, 0.995, 0.998, 0.999, 0.9995, 0.9999, 1.0];
        let shares = (0..=180).map(|i| f64::from(i) * 0.0055).chain(fine);
        Distribution {
            count: n as u64,
            mean,
            sd: variance.sqrt(),
            min: sorted[0],
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: sorted[n - 1],
            cdf: shares.map(|share| (quantile(share), share)).collect(),
        }
    }
}

fn drops(causes: &[(&str, u64)]) -> BTreeMap<String, u64> {
    causes.iter().map(|(why, n)| ((*why).to_owned(), *n)).collect()
}

fn medium(stream: &str, samples: &Samples, rate_hz: f64, goodput_bps: f64, jitter_ms: f64) -> MediumResult {
    let differences =
        samples.values.windows(2).map(|pair| (pair[1] - pair[0]).abs().min(jitter_ms)).collect();
    let made = (rate_hz * DURATION_S) as u64;
    let direction = if stream.starts_with("forward") { Direction::Forward } else { Direction::Backward };
    let delay = samples.distribution();
    let Distribution { count, mean, sd, min, max, .. } = delay;
    MediumResult {
        stream: stream.to_owned(),
        direction,
        medium: stream.rsplit(' ').next().unwrap_or_default().to_owned(),
        made,
        withheld: 0,
        delivered: made - 9,
        lost: 9,
        lost_in_network: 9,
        dropped: BTreeMap::new(),
        late: 0,
        reordered: 0,
        duplicates: 0,
        refused: BTreeMap::new(),
        loss_percent: Some(900.0 / made as f64),
        delay_ms: Some(delay),
        delay_buckets_ms: Some(BucketMeans { count, mean, sd, min, max, left_out: 0 }),
        jitter_max_ms: Some(jitter_ms),
        jitter_ms: Some(Samples { per_s: samples.per_s, values: differences }.distribution()),
        goodput_bps,
        rate_hz,
    }
}

fn limit(stream: &str, quantity: &str, unit: &str, value: f64, limit: f64) -> LimitResult {
    let [stream, quantity, unit] = [stream, quantity, unit].map(str::to_owned);
    LimitResult { stream, quantity, unit, value: Some(value), limit, met: value <= limit, reason: None }
}

fn flow(
    name: &str,
    owner: FlowOwner,
    kind: &str,
    sent: u64,
    lost: u64,
    bps: f64,
    samples: &Samples,
) -> FlowResult {
    let counters =
        if kind == "tcp" { drops(&[("fast_retransmits", 431), ("timeouts", 0)]) } else { BTreeMap::new() };
    FlowResult {
        name: name.to_owned(),
        owner,
        kind: kind.to_owned(),
        sent,
        delivered: sent - lost,
        dropped: if lost > 0 { drops(&[("queue full", lost)]) } else { BTreeMap::new() },
        loss_percent: Some(lost as f64 / sent as f64 * 100.0),
        sent_bps: bps,
        delivered_bps: bps,
        efficiency: (kind == "session").then_some(0.584),
        delay_ms: Some(samples.distribution()),
        counters,
    }
}

fn session(direction: Direction) -> FlowOwner {
    FlowOwner::Session(direction)
}

fn tcp(part: FlowPart) -> FlowOwner {
    FlowOwner::Cross { entry: "cross tcp".to_owned(), index: 0, part }
}

fn link(
    name: &str,
    entered: u64,
    dropped: u64,
    queue_max_bytes: u64,
    utilisation: Option<f64>,
) -> LinkResult {
    LinkResult {
        name: name.to_owned(),
        entered,
        left: entered - dropped - 3,
        dropped: if dropped > 0 { drops(&[("queue full", dropped)]) } else { BTreeMap::new() },
        duplicated: 0,
        corrupted: 0,
        held: 3,
        queue_max_bytes,
        queue_mean_bytes: queue_max_bytes as f64 * 0.62,
        queue_limit_bytes: (queue_max_bytes > 0).then_some(queue_max_bytes),
        utilisation,
        counters: BTreeMap::new(),
    }
}

fn model() -> ModelResult {
    let row = |measure, quantity: &str, equation: &str, predicted_ms, measured_ms| ModelRow {
        stream: "backward haptic".to_owned(),
        measure,
        quantity: quantity.to_owned(),
        equation: equation.to_owned(),
        predicted_ms,
        measured_ms,
    };
    let condition = |name: &str, explanation: &str| ModelCondition {
        name: name.to_owned(),
        holds: true,
        explanation: explanation.to_owned(),
    };
    ModelResult {
        stream: "backward haptic".to_owned(),
        rows: vec![
            row(ModelMeasure::DMinOfCycles, "d_min, mean over TCP's cycles", "(8)", 9.9065, 9.6123),
            row(ModelMeasure::DMin, "d_min, whole run", "(8)", 9.9065, 8.91),
            row(ModelMeasure::DMax, "d_max, whole run", "(9)", 26.666_67, 26.5833),
            row(ModelMeasure::Jitter, "δ_max", "(13)", 1.5773, 1.577_33),
        ],
        conditions: vec![
            condition("B > 2μτ", "14 kB > 12 kB"),
            condition("R ≤ 0.65 μ", "1.096 Mbit/s ≤ 3.9 Mbit/s"),
            condition("one_loss_a_cycle", "431 losses in 431 cycles"),
        ],
        cycles: Vec::new(),
    }
}

const SCENARIO: &str = "title = \"Telehaptic stream beside one TCP flow\"\nseed = 7\nduration = \"500s\"\nwarmup = \"10s\"\n\n\
    [bottleneck]\nrate = \"6Mbit\"\ndelay = \"8ms\"\nqueue = { kind = \"bfifo\", limit = \"14kB\" }\n\n\
    [cross.tcp]\nsegment = 578\nack_every = 2\n";

/// A run that meets its limits, with everything that a report can show.
pub(super) fn run() -> RunResult {
    static RUN: LazyLock<RunResult> = LazyLock::new(make_run);
    RUN.clone()
}

/// The streams: name, delays, samples a second, goodput, jitter.
type Streams = [(&'static str, Samples, f64, f64, f64); 4];

fn streams() -> Streams {
    let backward = |per_s, extra, noise| Samples::sawtooth(per_s, 8.8, 26.3, extra, noise);
    [
        ("forward haptic", Samples::sawtooth(1000.0, 8.1, 8.3, 0.0, 0.1), 1000.0, 480e3, 0.12),
        ("backward haptic", backward(1000.0, 0.0, 0.28), 1000.0, 632e3, 1.5773),
        ("backward audio", backward(50.0, 2.8, 0.4), 50.0, 64e3, 3.2),
        ("backward video", backward(25.0, 39.0, 1.4), 25.0, 400e3, 4.1),
    ]
}

fn make_series(streams: &Streams) -> Vec<Series> {
    let coarse =
        |samples: &Samples, plot, name, unit| samples.series(plot, name, unit, 0.25, 0.0, DURATION_S);
    let fine = |samples: &Samples, plot, name, unit| samples.series(plot, name, unit, 0.01, 10.0, 16.0);
    let delays = &streams[1].1.values;
    let queue = Samples { per_s: 1000.0, values: delays.iter().map(|d| (d - 8.6) * 775.0).collect() };
    let window = Samples::sawtooth(50.0, 19.0, 38.0, 0.0, 0.3);
    let mut series: Vec<Series> = streams.iter().map(|s| coarse(&s.1, "delay", s.0, "ms")).collect();
    series.extend(streams.iter().map(|s| fine(&s.1, "delay_zoom", s.0, "ms")));
    series.push(coarse(&queue, "queue", "router → operator", "bytes"));
    series.push(fine(&queue, "queue_zoom", "router → operator", "bytes"));
    series.push(coarse(&window, "cwnd", "cross tcp", "segments"));
    series.push(fine(&window, "cwnd_zoom", "cross tcp", "segments"));
    let idle = Samples::sawtooth(100.0, 0.0, 137.0, 0.0, 0.0);
    series.push(coarse(&idle, "queue", "robot → router", "bytes"));
    let rate = Samples::sawtooth(100.0, 4.6e6, 5.0e6, 0.0, 1e5);
    series.push(coarse(&rate, "rate", "cross tcp", "bps"));
    let constant = Samples::sawtooth(100.0, 1.05e6, 1.1e6, 0.0, 6e4);
    series.push(coarse(&constant, "rate", "session backward", "bps"));
    series
}

fn make_flows(forward: &Samples, haptic: &Samples) -> Vec<FlowResult> {
    vec![
        flow("session forward", session(Direction::Forward), "session", 500_000, 0, 688e3, forward),
        flow("session backward", session(Direction::Backward), "session", 500_000, 0, 1.096e6, haptic),
        flow("cross tcp", tcp(FlowPart::Data), "tcp", 530_312, 431, 4.878e6, haptic),
        flow("cross tcp acks", tcp(FlowPart::Acks), "tcp acks", 264_940, 0, 85e3, forward),
    ]
}

fn skew(pair: &str, samples: &Samples) -> SkewResult {
    SkewResult { pair: pair.to_owned(), skew_ms: samples.distribution() }
}

fn make_run() -> RunResult {
    let streams = streams();
    let [forward, haptic, audio, video] = streams.each_ref().map(|stream| &stream.1);
    RunResult {
        taut: "0.1.0".to_owned(),
        title: "Telehaptic stream beside one TCP flow".to_owned(),
        description:
            "A telehaptic session shares a bottleneck of 6 Mbit/s with one bulk TCP flow; the closed-form \
                      bounds say whether it can."
                .to_owned(),
        seed: 7,
        ran: crate::result::Ran::default(),
        duration_s: DURATION_S,
        warmup_s: 10.0,
        scenario: SCENARIO.to_owned(),
        inputs: vec![Input {
            path: "traces/needle-insertion.csv".to_owned(),
            sha256: "9f86d081884c7d65".repeat(4),
        }],
        verdict: Verdict { met: true, limits: run_limits(haptic, audio, video, forward) },
        media: streams.iter().map(|s| medium(s.0, &s.1, s.2, s.3, s.4)).collect(),
        teleop: None,
        commands: None,
        skews: vec![
            skew("backward haptic–video", &Samples::sawtooth(25.0, 30.0, 44.0, 0.0, 4.0)),
            skew("backward haptic–audio", &Samples::sawtooth(50.0, -1.0, 4.0, 0.0, 1.0)),
        ],
        videos: Vec::new(),
        refusals: vec![Refusals { node: "operator".to_owned(), refused: drops(&[("corrupted", 3)]) }],
        flows: make_flows(forward, haptic),
        links: vec![
            link("robot → router", 500_000, 0, 137, Some(0.011)),
            link("tcp source → router", 530_312, 0, 1156, Some(0.048)),
            link("router → operator", 1_030_312, 431, 14_000, Some(0.9961)),
            link("operator → robot", 764_940, 0, 86, None),
        ],
        models: vec![model()],
        conservation: run_conservation(),
        worst: Some(crate::result::Worst {
            stream: "backward haptic".to_owned(),
            at_s: 12.5,
            waited_ms: 26.6,
        }),
        series: make_series(&streams),
    }
}

fn run_conservation() -> Conservation {
    Conservation {
        holds: true,
        sent: 1_795_252,
        duplicated: 0,
        delivered: 1_794_818,
        dropped: drops(&[("queue full", 431)]),
        held: 3,
        violations: Vec::new(),
    }
}

fn run_limits(haptic: &Samples, audio: &Samples, video: &Samples, forward: &Samples) -> Vec<LimitResult> {
    let largest = |samples: &Samples| samples.values.iter().copied().fold(0.0, f64::max);
    vec![
        limit("forward haptic", "delay", "ms", largest(forward), 30.0),
        limit("forward haptic", "jitter", "ms", 0.12, 10.0),
        limit("forward haptic", "loss", "%", 0.0, 10.0),
        limit("backward haptic", "delay", "ms", largest(haptic), 30.0),
        limit("backward haptic", "jitter", "ms", 1.5773, 10.0),
        limit("backward haptic", "loss", "%", 0.0, 10.0),
        limit("backward audio", "delay", "ms", largest(audio), 150.0),
        limit("backward audio", "jitter", "ms", 3.2, 30.0),
        limit("backward audio", "loss", "%", 0.0, 1.0),
        limit("backward video", "delay", "ms", largest(video), 400.0),
        limit("backward video", "jitter", "ms", 4.1, 30.0),
        limit("backward video", "loss", "%", 0.0, 1.0),
    ]
}

/// A run that fails two limits, outside the model, whose packets do not add up.
pub(super) fn failing_run() -> RunResult {
    let mut run = run();
    run.verdict.met = false;
    for at in [3, 8] {
        let limit = &mut run.verdict.limits[at];
        limit.value = Some(limit.limit * 1.07);
        limit.met = false;
    }
    run.models[0].conditions[1].holds = false;
    run.models[0].conditions[1].explanation = "5.5 Mbit/s > 3.9 Mbit/s".to_owned();
    run.conservation.holds = false;
    run.conservation.violations = vec!["router → operator: 12 packets entered and never left".to_owned()];
    run
}

/// A run about which nothing is known.
pub(super) fn empty_run() -> RunResult {
    RunResult {
        taut: String::new(),
        title: String::new(),
        description: String::new(),
        seed: 0,
        ran: crate::result::Ran::default(),
        duration_s: 0.0,
        warmup_s: 0.0,
        scenario: String::new(),
        inputs: Vec::new(),
        verdict: Verdict::default(),
        media: Vec::new(),
        teleop: None,
        commands: None,
        skews: Vec::new(),
        videos: Vec::new(),
        refusals: Vec::new(),
        flows: Vec::new(),
        links: Vec::new(),
        models: Vec::new(),
        conservation: Conservation {
            holds: true,
            sent: 0,
            duplicated: 0,
            delivered: 0,
            dropped: BTreeMap::new(),
            held: 0,
            violations: Vec::new(),
        },
        worst: None,
        series: Vec::new(),
    }
}

/// The variants of the sweep that the paper reports: R, d_min by the model and by the paper's simulation.
pub(super) fn campaign() -> CampaignResult {
    let points = [
        ("R = 1.096 Mbit/s", 9.907, 8.89, 26.47),
        ("R = 2 Mbit/s", 10.744, 9.21, 26.40),
        ("R = 3 Mbit/s", 12.267, 11.71, 26.62),
        ("R = 4 Mbit/s", 14.806, 12.95, 26.45),
        ("R = 5 Mbit/s", 19.873, 16.95, 26.55),
    ];
    let measure = |name: &str, mean: f64, half: f64, predicted: Option<f64>, reported: Option<f64>| Measure {
        name: name.to_owned(),
        unit: if name.ends_with("loss") { "%".to_owned() } else { "ms".to_owned() },
        runs: 20,
        mean,
        ci95: Some(half),
        min: mean - 2.0 * half,
        max: mean + 2.0 * half,
        predicted,
        reported,
        values: Vec::new(),
    };
    let variant = |(i, (name, model, d_min, d_max)): (usize, &(&str, f64, f64, f64))| VariantResult {
        name: (*name).to_owned(),
        overridden: Vec::new(),
        settings: vec![("cross.cbr.rate".to_owned(), format!("{i}Mbit"))],
        seeds: (1..=20).collect(),
        met: if i == 4 { 17 } else { 20 },
        limits: vec![LimitTally {
            stream: "backward haptic".to_owned(),
            quantity: "delay".to_owned(),
            unit: "ms".to_owned(),
            limit: 30.0,
            failed: if i == 4 { 3 } else { 0 },
            not_judged: 0,
            worst: Some(26.6 + i as f64),
            worst_seed: 12,
        }],
        measures: vec![
            measure("backward haptic d_min", model - 0.3, 0.11 + 0.05 * i as f64, Some(*model), Some(*d_min)),
            measure("backward haptic d_max", 26.6, 0.02, Some(26.6667), Some(*d_max)),
            measure("backward haptic δ_max", 1.55 + 0.1 * i as f64, 0.01, Some(1.577 + 0.1 * i as f64), None),
            measure("backward haptic loss", 0.0, 0.0, None, None),
            measure("backward video d_max", 66.0 + 2.0 * i as f64, 0.6, None, None),
        ],
        not_measured: Vec::new(),
        trends: Vec::new(),
        spreads: Vec::new(),
    };
    CampaignResult {
        taut: "0.1.0".to_owned(),
        title: "Delay bounds over the rate of cross traffic".to_owned(),
        description: "The minimum and maximum delay of a telehaptic stream as constant-rate cross traffic takes more of \
                      the bottleneck."
            .to_owned(),
        duration_s: DURATION_S,
        axes: Vec::new(),
        variants: points.iter().enumerate().map(variant).collect(),
    }
}
