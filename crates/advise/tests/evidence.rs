//! The evidence that recommendations rest on: what is committed is what the runs say today.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use taut_advise::evidence::{Carrier, Evidence, PathEvidence, sha256_of};
use taut_core::Seed;
use taut_lab::scenario::Scenario;

const ANEW: &str = "the evidence is of another taut: run `make evidence`, and look at the difference";

fn scenario_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

#[test]
fn the_scenarios_are_those_that_were_measured() {
    let evidence = Evidence::shipped().unwrap();
    assert!(evidence.sets.len() >= 4);
    for set in &evidence.sets {
        let file = scenario_file(&set.scenario);
        assert_eq!(sha256_of(&file).unwrap(), set.sha256, "{}: {ANEW}", set.scenario);
        let names: Vec<String> =
            Scenario::read(&file).unwrap().all_variants().into_iter().map(|variant| variant.name).collect();
        let measured: Vec<&String> = set.points.iter().map(|point| &point.variant).collect();
        assert!(names.iter().eq(measured), "{}: {ANEW}", set.scenario);
    }
}

#[test]
fn a_handful_of_points_drawn_by_chance_is_measured_again_to_the_last_digit() {
    let evidence = Evidence::shipped().unwrap();
    // Which ones depends on the evidence: after `make evidence` it is others.
    let digests: String =
        evidence.sets.iter().flat_map(|set| &set.points).map(|p| p.digest.as_str()).collect();
    let seed = digests.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut rng = Seed::new(seed).stream("evidence");
    for set in &evidence.sets {
        let scenario = Scenario::read(&scenario_file(&set.scenario)).unwrap();
        for _ in 0..2 {
            let point = &set.points[rng.below(set.points.len() as u64) as usize];
            let now = set.again(point, &scenario).unwrap();
            assert_eq!(now, *point, "{}: {ANEW}", set.command(point).unwrap_or_default());
        }
    }
}

#[test]
fn a_scenario_made_for_a_measured_network_is_the_one_that_was_measured() {
    // Then its runs are the same too, to the last digit.
    for set in &Evidence::shipped().unwrap().sets {
        let scenario = Scenario::read(&scenario_file(&set.scenario)).unwrap();
        let measured = scenario.expand().unwrap();
        for (point, (_, there)) in set.points.iter().zip(&measured).step_by(7) {
            let text = point.condition.scenario().unwrap();
            let made = Scenario::parse("made", &text).unwrap();
            let carrier = |(_, scenario): &&(_, Scenario)| Carrier::of(scenario).unwrap() == point.carrier;
            let here = made.expand().unwrap();
            let here = &here.iter().find(carrier).unwrap().1;
            assert_eq!(here.links, there.links, "{}", point.variant);
            assert_eq!((&here.teleop, &here.cross), (&there.teleop, &there.cross), "{}", point.variant);
            let times = |scenario: &Scenario| (scenario.warmup, scenario.duration, scenario.drain);
            assert_eq!(times(here), times(there), "{}", point.variant);
        }
    }
}

#[test]
fn transports_with_settings_that_do_not_ship_are_no_evidence() {
    let text = std::fs::read_to_string(scenario_file("scenarios/recommend/grid.toml")).unwrap();
    // The transports alone.
    let (text, _) = text.split_once("[[axis]]\nname = \"loss\"").unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence-settings.toml");
    let linux = "{ tcp = { counted = \"segments\", rack = true, timestamps = true, min_rto = \"200ms\" } }";
    for (ships, does_not, name) in [
        (linux, "\"tcp\"", "tcp"),
        ("\"quic\"", "{ quic = { congestion = \"newreno\" } }", "quic"),
        ("\"sctp\"", "{ sctp = { min_window = \"4800B\" } }", "sctp"),
        ("{ etp = { pack = true } }", "{ etp = { gap = \"1ms\" } }", "etp"),
    ] {
        let changed = text.replace(ships, does_not);
        assert_ne!(changed, text);
        std::fs::write(&file, changed).unwrap();
        let told = Evidence::measure(&[&file], &[1], &|_| ()).unwrap_err().to_string();
        assert!(told.contains(&format!("{name} has settings that do not ship")), "{told}");
    }
}

#[test]
fn a_variants_name_finds_that_variant_alone() {
    // `--variant` takes all whose name contains the text: the command that is cited must mean one.
    for set in &Evidence::shipped().unwrap().sets {
        let names: BTreeSet<&str> = set.points.iter().map(|point| point.variant.as_str()).collect();
        assert_eq!(names.len(), set.points.len());
        for name in &names {
            let found = names.iter().filter(|other| other.contains(name)).count();
            assert_eq!(found, 1, "{name}");
        }
    }
}

#[test]
fn evidence_is_written_as_it_is_read() {
    let evidence = Evidence::shipped().unwrap();
    let text = evidence.to_json().unwrap();
    assert_eq!(Evidence::parse("again", &text).unwrap(), evidence);
    let told = Evidence::parse("x.json", "{}").unwrap_err().to_string();
    assert!(told.starts_with("x.json is not evidence") && told.contains("taut evidence"), "{told}");
}

#[test]
fn what_a_condition_cannot_say_is_refused_before_anything_runs() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence-refused.toml");
    let text = std::fs::read_to_string(scenario_file("scenarios/recommend/grid.toml")).unwrap();
    let cut = text.replace("{ delay = \"5ms\" }", "{ delay = \"5ms\" },\n    { cut = { at = \"1s\" } }");
    let cut = cut.replace("chain.2.loss", "chain.3.loss");
    std::fs::write(&file, cut).unwrap();
    let told = Evidence::measure(&[&file], &[1], &|_| ()).unwrap_err().to_string();
    assert!(told.contains("variant `UDP, loss 0 %") && told.contains("not among loss, delay"), "{told}");
}

#[test]
fn the_evidence_of_several_paths_is_what_its_runs_say_today() {
    let shipped = PathEvidence::shipped().unwrap();
    for (evidence, name) in shipped.iter().zip(["paths.json", "paths-measured.json"]) {
        let file = scenario_file(&evidence.scenario);
        assert_eq!(sha256_of(&file).unwrap(), evidence.sha256, "{ANEW}");
        // One whose links read no files; the measured links do.
        if let Some(point) = evidence.points.iter().find(|point| point.variant == "deadline, b link failure")
        {
            let scenario = Scenario::read(&file).unwrap();
            assert_eq!(
                evidence.again(point, &scenario).unwrap(),
                *point,
                "{}: {ANEW}",
                evidence.command(point)
            );
        }
        let kept = scenario_file("crates/advise/evidence").join(name);
        assert_eq!(evidence.to_json().unwrap(), std::fs::read_to_string(kept).unwrap());
    }
}

#[test]
fn the_rate_on_the_wire_does_not_depend_on_how_long_the_session_took_to_open_or_to_end() {
    let text = std::fs::read_to_string(scenario_file("scenarios/recommend/grid.toml")).unwrap();
    let head = text.split_once("[[axis]]").unwrap().0;
    let carriers = r#"
[[axis]]
name = "transport"
[[axis.value]]
name = "UDP"
set = { "teleop.transport" = "udp", "teleop.reliable" = false }
[[axis.value]]
name = "TCP"
set = { "teleop.transport" = { tcp = { counted = "segments", rack = true, timestamps = true, min_rto = "200ms" } }, "teleop.reliable" = true }
[[axis]]
name = "link"
[[axis.value]]
name = "near"
set = { "links.path.chain.1.delay" = "5ms" }
[[axis.value]]
name = "far"
set = { "links.path.chain.1.delay" = "150ms" }
[[axis.value]]
name = "narrow"
set = { "links.path.chain.0.server.rate" = "1Mbit", "links.path.chain.1.delay" = "150ms" }
"#;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence-wire.toml");
    std::fs::write(&file, format!("{head}{carriers}")).unwrap();
    let evidence = Evidence::measure(&[&file], &[1], &|_| ()).unwrap();
    let wire = |name: &str| {
        let point = evidence.sets[0].points.iter().find(|point| point.variant == name).unwrap();
        point.figures.wire_mbit
    };
    let [near, far] = ["UDP, near", "UDP, far"].map(wire);
    assert!((far / near - 1.0).abs() < 0.01, "{near} and {far} Mbit/s");
    // Both directions together, each of which repeats what was lost long after the last state.
    let narrow = wire("TCP, narrow");
    assert!(narrow <= 2.0, "{narrow} Mbit/s over 1 Mbit/s each way");
}
