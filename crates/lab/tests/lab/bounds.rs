//! The closed-form bounds against the simulation: Gokhale et al., equations (8), (9) and (13).

use std::path::Path;

use taut_core::Seed;
use taut_lab::result::ModelMeasure;
use taut_lab::run::run;
use taut_lab::scenario::{Scenario, Setting};

/// R in Mbit/s without TCP, and the CBR that makes it.
const LOADS: [(&str, &str); 4] = [("1.096", "0bit"), ("2", "904kbit"), ("3", "1904kbit"), ("4", "2904kbit")];

#[test]
fn delay_jitter_and_loss_beside_tcp_are_as_predicted() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/shared-link.toml");
    let base = Scenario::read(&file).unwrap();
    for (load, rate) in LOADS {
        let settings = [format!("cross.constant.rate={rate}"), "duration=100s".to_owned()];
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        let result = run(&base.with(&settings).unwrap(), Seed::new(1), &mut |_| {}).unwrap();
        let row = |measure: ModelMeasure| {
            let row = result.models[0].rows.iter().find(|row| row.measure == measure).unwrap();
            row.measured_ms - row.predicted_ms
        };
        let [d_min, d_max, jitter] =
            [ModelMeasure::DMinOfCycles, ModelMeasure::DMax, ModelMeasure::Jitter].map(row);
        let haptic = result.media.iter().find(|medium| medium.stream == "backward haptic").unwrap();
        assert!(d_max.abs() < 0.6, "R = {load}: d_max off by {d_max}");
        assert!(d_min.abs() < 2.1, "R = {load}: d_min off by {d_min}");
        assert!(jitter.abs() < 0.02, "R = {load}: jitter off by {jitter}");
        // On the way up to its largest value the delay of most cycles gets close.
        assert!(row(ModelMeasure::DMaxOfCycles) < d_max && row(ModelMeasure::DMaxOfCycles).abs() < 1.0);
        let loss = haptic.loss_percent.unwrap();
        assert!(loss < 0.15, "R = {load}: loss {loss} %");
        assert!(result.models[0].cycles.iter().map(|cycle| cycle.cycles).sum::<u64>() > 100, "R = {load}");
    }
}

#[test]
fn without_cycles_of_tcp_no_mean_over_them_is_told() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/shared-link.toml");
    let settings = ["duration=12s", "cross.bulk.start=60s"].map(|text| text.parse().unwrap()).to_vec();
    let scenario = Scenario::read(&file).unwrap().with(&settings).unwrap();
    let result = run(&scenario, Seed::new(1), &mut |_| {}).unwrap();
    let measures: Vec<ModelMeasure> = result.models[0].rows.iter().map(|row| row.measure).collect();
    assert!(measures.contains(&ModelMeasure::DMin) && measures.contains(&ModelMeasure::DMax), "{measures:?}");
    for of_cycles in [ModelMeasure::DMinOfCycles, ModelMeasure::DMaxOfCycles] {
        assert!(!measures.contains(&of_cycles), "{measures:?}");
    }
}

#[test]
fn the_model_says_when_it_does_not_know_the_scenario() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/shared-link.toml");
    let base = Scenario::read(&file).unwrap();
    for (setting, condition) in [
        ("session.transport=tcp", "stream_over_udp"),
        ("cross.constant.traffic=voice", "cross_is_constant_or_tcp"),
        ("links.bottleneck.chain.1={ loss = { bernoulli = \"5%\" } }", "only_rate_queue_and_delay"),
        ("model.cross=[\"bulk\"]", "all_cross_named"),
    ] {
        let settings: Vec<Setting> = [setting, "duration=12s"].map(|text| text.parse().unwrap()).to_vec();
        let result = run(&base.with(&settings).unwrap(), Seed::new(1), &mut |_| {}).unwrap();
        let found = result.models[0].conditions.iter().find(|c| c.name == condition).unwrap();
        assert!(!found.holds, "{setting}");
    }
}
