//! Several seeds and variants, summed up.

use std::path::Path;

use taut_lab::campaign::{Campaign, CampaignRun};
use taut_lab::job::campaign_json;
use taut_lab::scenario::{Scenario, Setting, Variant};
use taut_report::result::CampaignResult;
use taut_report::{campaign_html, campaign_table_text, campaign_text};

use crate::world::short;

fn run(scenario: &Scenario, seeds: &[u64]) -> CampaignResult {
    of_variants(scenario, &scenario.expand().unwrap(), seeds)
}

fn of_variants(scenario: &Scenario, variants: &[(Variant, Scenario)], seeds: &[u64]) -> CampaignResult {
    let campaign = Campaign::new(scenario, variants, seeds).unwrap();
    campaign.sum_up(&campaign.run_all(&|_| ()).unwrap()).unwrap()
}

fn shipped(name: &str, settings: &[&str]) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::read(&file).unwrap().with(&settings).unwrap()
}

#[test]
fn each_variant_says_which_limit_failed_in_how_many_seeds() {
    let variants = r#"
[[variant]]
name = "near"

[[variant]]
name = "far"
set = { "links.wire.chain" = [{ delay = "40ms" }] }

[[variant]]
name = "cut"
set = { "links.wire.chain" = [{ cut = { at = "0s" } }] }
"#;
    let text = short(r#"{ delay = "8ms" }"#, "", "haptic = {}").to_toml() + variants;
    let result = run(&Scenario::parse("variants.toml", &text).unwrap(), &[1, 2, 3]);
    let tally = |variant: usize, quantity: &str| {
        let limits = &result.variants[variant].limits;
        limits.iter().find(|t| t.stream == "backward haptic" && t.quantity == quantity).unwrap()
    };
    assert_eq!((tally(0, "delay").failed, tally(0, "delay").worst), (0, Some(8.0)));
    assert_eq!(
        (tally(1, "delay").failed, tally(1, "loss").failed, tally(1, "delay").worst),
        (3, 0, Some(40.0))
    );
    assert_eq!(
        (tally(2, "delay").failed, tally(2, "delay").not_judged, tally(2, "delay").worst),
        (3, 3, None)
    );
    let text = campaign_text(&result);
    for line in [
        "near: PASS: every limit is met in all of 3 runs",
        "far: FAIL: every limit is met in 0 of 3 runs",
        "  backward haptic delay: in 3 of 3 seeds, at worst 40 ms (seed 1); limit 30 ms",
        "  backward haptic delay: in 3 of 3 seeds, in 3 of them it cannot be judged, for too little arrived (seed 1); limit 30 ms",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let html = campaign_html(&result);
    assert!(html.contains(">PASS<") && html.contains(">FAIL<"));
    assert!(html.contains("backward haptic delay: in 3 of 3 seeds, at worst 40 ms (seed 1); limit 30 ms"));
    // Of the variant where nothing arrived there is no delay: no zero.
    assert!(!result.variants[2].measures.iter().any(|measure| measure.name.contains("delay")));
}

#[test]
fn a_measure_has_its_mean_its_interval_and_its_worst_seed() {
    let chain = r#"{ delay = "8ms" }, { loss = { bernoulli = "5%" } }"#;
    let result = run(&short(chain, "", "haptic = {}"), &[1, 2, 3, 4]);
    let loss = result.variants[0].measures.iter().find(|m| m.name == "backward haptic loss").unwrap();
    assert!(
        loss.runs == 4 && loss.min < loss.mean && loss.mean < loss.max && loss.ci95.is_some(),
        "{loss:?}"
    );
    let text = campaign_text(&result);
    let line = text.lines().find(|line| line.trim_start().starts_with("backward haptic loss")).unwrap();
    let ends = format!("{:.3} – {:.3}", loss.min, loss.max);
    assert!(line.contains(" ± ") && line.contains(&ends), "{line}");
    assert!(campaign_html(&result).contains("min – max"));
}

#[test]
fn measures_that_only_some_runs_have_are_summed_up_over_those() {
    // A single packet that is lost or not: where it is, there is no delay.
    let chain = r#"{ delay = "8ms" }, { loss = { bernoulli = "50%" } }"#;
    let mut scenario = short(chain, "", "haptic = { period = \"1s\" }");
    scenario.duration = "2s".parse().unwrap();
    let result = run(&scenario, &(1..=12).collect::<Vec<_>>());
    let of = |name: &str| result.variants[0].measures.iter().find(|m| m.name == name).unwrap();
    let (delay, loss) = (of("backward haptic mean delay"), of("backward haptic loss"));
    assert!(delay.runs < 12 && delay.runs > 0 && loss.runs == 12, "{delay:?} {loss:?}");
    assert!(delay.min > 8.0 - 1e-9, "no zero for a run without any: {delay:?}");
    assert!(campaign_text(&result).contains(&format!("in {} of 12 runs", delay.runs)));
    // A mean over those alone is said to be one.
    let of = format!("({} of 12)", delay.runs);
    assert!(campaign_html(&result).contains(&of) && campaign_table_text(&result).contains(&of));
}

#[test]
fn delay_ends_are_told_of_tcps_cycles_and_of_the_whole_run() {
    let scenario = shipped("telehaptic-qos/load.toml", &["duration=20s", "warmup=5s"]);
    let scenario = Scenario { variants: scenario.variants[1..3].to_vec(), ..scenario };
    let result = run(&scenario, &[1, 2]);
    for variant in &result.variants {
        let of = |name: &str| variant.measures.iter().find(|m| m.name == name).unwrap();
        for (end, reported) in [("d_min", 9.21), ("d_max", 26.4)] {
            let cycles = of(&format!("backward haptic {end}, mean over TCP's cycles"));
            let whole = of(&format!("backward haptic {end}, whole run"));
            assert!(cycles.predicted.is_some() && whole.predicted == cycles.predicted);
            assert_eq!(whole.reported, None, "{end}");
            let source = (variant.name == "R = 2 Mbit/s").then_some(reported);
            assert!(source.is_none() || cycles.reported == source, "{end}: {:?}", cycles.reported);
        }
        let mean = |name: &str| of(name).mean;
        let (least, most) =
            (mean("backward haptic d_min, whole run"), mean("backward haptic d_max, whole run"));
        assert!(least < mean("backward haptic d_min, mean over TCP's cycles"));
        assert!(most > mean("backward haptic d_max, mean over TCP's cycles"));
        assert!(!variant.measures.iter().any(|m| m.name == "forward haptic d_min, mean over TCP's cycles"));
    }
}

/// Whether TCP has cycles in it or not.
#[test]
fn what_a_source_reports_stands_beside_a_measure() {
    for (name, duration) in [
        ("telehaptic-qos/load.toml", "duration=1s"),
        ("telehaptic-qos/load.toml", "duration=12s"),
        ("etp/wide-area.toml", "duration=5s"),
    ] {
        let scenario = shipped(name, &["warmup=0s", duration]);
        for (variant, expanded) in scenario.expand().unwrap() {
            let alone = [(variant.clone(), expanded)];
            let result = of_variants(&scenario, &alone, &[1]);
            let mut found: Vec<f64> = result.variants[0].measures.iter().filter_map(|m| m.reported).collect();
            let mut wanted: Vec<f64> = variant.reported.values().copied().collect();
            found.sort_by(f64::total_cmp);
            wanted.sort_by(f64::total_cmp);
            assert_eq!(found, wanted, "{name} {duration} {}", variant.name);
        }
    }
}

#[test]
fn what_is_reported_of_no_measure_is_named() {
    let variant = "[[variant]]\nname = \"near\"\nreported = { \"backward haptic los\" = 0.0, \"backward haptic loss\" = 0.0 }\n";
    let text = short(r#"{ delay = "8ms" }"#, "", "haptic = {}").to_toml() + variant;
    let result = run(&Scenario::parse("reported.toml", &text).unwrap(), &[1]);
    assert_eq!(result.variants[0].not_measured, ["backward haptic los"]);
    let line = "near: reported, but not measured: backward haptic los";
    for text in [campaign_text(&result), campaign_table_text(&result), campaign_html(&result)] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_variant_of_which_a_key_is_set_otherwise_says_so_and_has_no_source() {
    let variants = r#"
[[variant]]
name = "8 ms"
set = { "links.wire.chain" = [{ delay = "8ms" }] }
reported = { "backward haptic loss" = 0.0 }

[[variant]]
name = "as it is"
reported = { "backward haptic loss" = 0.0 }
"#;
    let text = short(r#"{ delay = "2ms" }"#, "", "haptic = {}").to_toml() + variants;
    let scenario = Scenario::parse("variants.toml", &text).unwrap();
    let of = |setting: &str, chosen: fn(usize) -> bool| {
        let made = scenario.expand_with(&[setting.parse().unwrap()], |number, _| chosen(number)).unwrap();
        let told = |(variant, _): (Variant, Scenario)| {
            (variant.name, variant.overridden, variant.set.len(), variant.reported.len())
        };
        made.into_iter().map(told).collect::<Vec<_>>()
    };
    let changed = |key: &str, set| ("8 ms".to_owned(), vec![key.to_owned()], set, 0);
    let (whole, part) = ("links.wire.chain", "wire.delay");
    let itself = || ("as it is".to_owned(), vec![], 0, 1);
    let unchanged = || ("8 ms".to_owned(), vec![], 1, 1);
    assert_eq!(of("links.wire.chain=[]", |_| true), [changed(whole, 0), itself()]);
    assert_eq!(of("wire.delay=9ms", |_| true), [changed(part, 1), itself()]);
    assert_eq!(of("duration=2s", |_| true), [unchanged(), itself()]);
    assert_eq!(of("wire.delay=8ms", |_| true), [unchanged(), itself()], "what it sets itself is no change");
    assert_eq!(of("wire.delay=9ms", |number| number == 1), [itself()]);
}

#[test]
fn a_campaign_keeps_every_seeds_value_and_how_delay_went_over_time() {
    let chain = r#"{ delay = "8ms" }, { loss = { bernoulli = "5%" } }"#;
    let result = run(&short(chain, "", "haptic = {}"), &[7, 3]);
    let variant = &result.variants[0];
    let loss = variant.measures.iter().find(|measure| measure.name == "backward haptic loss").unwrap();
    let each: Vec<f64> = loss.values.iter().flatten().copied().collect();
    assert_eq!(each.len(), 2);
    assert!((each.iter().sum::<f64>() / 2.0 - loss.mean).abs() < 1e-12);
    // In the order of the seeds, not in that of their values.
    let alone = run(&short(chain, "", "haptic = {}"), &[3]);
    let of_three = alone.variants[0].measures.iter().find(|measure| measure.name == loss.name).unwrap();
    assert_eq!(of_three.values, [loss.values[1]]);
    let trend = variant.trends.iter().find(|t| t.stream == "backward haptic" && t.seed == 7).unwrap();
    assert!(trend.mean_ms.len() <= 50 && trend.mean_ms.iter().flatten().all(|ms| (ms - 8.0).abs() < 1e-6));
    assert!((trend.bucket_s * trend.mean_ms.len() as f64 - 1.0).abs() < 0.05, "{trend:?}");
}

/// Workers elsewhere send their runs as JSON.
#[test]
fn runs_made_in_any_order_and_sent_as_text_sum_up_to_the_same_bytes() {
    let scenario = shipped("telehaptic-qos/load.toml", &["warmup=0s", "duration=1s"]);
    let (variants, seeds) = (scenario.expand().unwrap(), [5, 2]);
    let campaign = Campaign::new(&scenario, &variants[..2], &seeds).unwrap();
    let mut runs: Vec<(usize, String)> = (0..campaign.runs())
        .rev()
        .map(|number| (number, serde_json::to_string(&campaign.run(number, &mut |_| ()).unwrap()).unwrap()))
        .collect();
    runs.sort();
    let mut runs: Vec<CampaignRun> =
        runs.iter().map(|(_, text)| serde_json::from_str(text).unwrap()).collect();
    let local = campaign.run_all(&|_| ()).unwrap();
    assert_eq!(runs, local);
    let bytes = |runs: &[CampaignRun]| campaign_json(&campaign.sum_up(runs).unwrap()).unwrap();
    assert_eq!(bytes(&runs), bytes(&local));
    runs.swap(0, 1);
    assert!(campaign.sum_up(&runs).is_err() && campaign.sum_up(&local[1..]).is_err());
}
