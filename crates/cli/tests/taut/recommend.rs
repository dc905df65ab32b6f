//! `taut recommend` and `taut evidence`.

use serde_json::Value;

use crate::world::World;

/// Two carriers over one network, in a second.
const SCENARIO: &str = r#"title = "small"
duration = "1s"
drain = "500ms"
[links.path]
between = ["operator", "robot"]
chain = [{ server = { rate = "10Mbit" } }, { delay = "20ms" }, { loss = { bernoulli = "1%" } }]
[teleop]
operator = "operator"
robot = "robot"
adaptive = false
environment = "free"
[[axis]]
name = "transport"
[[axis.value]]
name = "UDP"
set = { "teleop.transport" = "udp" }
[[axis.value]]
name = "QUIC streams"
set = { "teleop.transport" = "quic", "teleop.reliable" = true }
"#;

#[test]
fn the_recommendation_comes_first_then_why_then_the_commands_behind_it() {
    let world = World::new("recommend");
    let told = world.good("recommend --loss 1% --rtt 40ms");
    let at = |text: &str| told.find(text).unwrap_or_else(|| panic!("{text} is not in\n{told}"));
    let order = [
        "Take ",
        "taut robot --listen",
        "\nWhy\n",
        "\nInstead\n",
        "\nEvidence",
        "taut run scenarios/recommend/",
    ];
    assert!(order.map(at).is_sorted(), "{told}");
    let json: Value = serde_json::from_str(&world.good("recommend --loss 1% --rtt 40ms --json")).unwrap();
    let name = json["choice"]["name"].as_str().unwrap();
    assert!(told.contains(&format!("Take {name}")), "{told}");
    assert!(json["choice"]["delay_ms"].as_f64().unwrap() <= 30.0);
}

#[test]
fn what_is_touched_has_a_control_law_in_the_commands_and_a_stiffness() {
    let world = World::new("recommend-law");
    let asked = "recommend --touch wall --rtt 40ms";
    let told = world.good(&format!("{asked} --strict"));
    assert_eq!(told.matches(" --law wave").count(), 2, "{told}");
    let json: Value = serde_json::from_str(&world.good(&format!("{asked} --json"))).unwrap();
    let laws = &json["laws"];
    let felt = laws["laws"][1]["felt_n_m"].as_f64().unwrap();
    assert!(laws["taken"] == "wave" && (600.0..800.0).contains(&felt), "{laws}");
    let need = |limits: &str| -> Value {
        serde_json::from_str(&world.good(&format!("recommend --rtt 40ms --limits {limits} --json"))).unwrap()
    };
    assert_eq!(need("tr22847_stationary")["need"]["budget_ms"], 100.0);
}

#[test]
fn between_measured_points_it_says_so_and_measures_this_very_network_when_asked() {
    let world = World::new("recommend-measure");
    let asked = "recommend --rtt 130ms --loss 0.4% --rate 5Mbit --reliable --budget 300ms --jitter-budget 1s";
    let looked_up: Value = serde_json::from_str(&world.good(&format!("{asked} --json"))).unwrap();
    let between = looked_up["between"].as_array().unwrap();
    let of = |quantity: &str| between.iter().find(|b| b["quantity"] == quantity);
    let loss = of("loss").unwrap();
    assert_eq!((&loss["asked"], &loss["below"], &loss["above"]), (&0.4.into(), &0.1.into(), &0.5.into()));
    assert!(of("one way").is_some(), "{between:?}");
    assert!(world.good(asked).contains("Add --measure to simulate exactly this network:"));

    let told = world.good(&format!("{asked} --measure --keep network.toml"));
    assert!(told.contains("Measured over exactly this network.\n\nTake "), "{told}");
    assert!(!told.contains("BETWEEN") && !told.contains("OUTSIDE"), "{told}");
    // The command that it cites makes the same runs.
    let line = told.lines().find(|line| line.trim().starts_with("taut run network.toml --variant")).unwrap();
    let variant = line.split('\'').nth(1).unwrap();
    let kept = String::from_utf8(world.read("network.toml")).unwrap();
    assert!(kept.contains(&format!("name = \"{variant}\"")), "{kept}");
    let measured: Value = serde_json::from_str(&world.good(&format!("{asked} --measure --json"))).unwrap();
    assert_eq!(measured["between"].as_array().map(Vec::len), Some(0));
    assert!(measured["choice"]["delay_ms"].as_f64().unwrap() <= 300.0);
    assert_eq!(measured["citations"][0]["command"], Value::Null);
    // What is there is not written over.
    let again = world.taut(&format!("{asked} --measure --keep network.toml"));
    assert_eq!((again.status, again.err.lines().count()), (2, 1), "{}", again.err);
    assert!(again.err.contains("cannot write network.toml"), "{}", again.err);
}

#[test]
fn what_cannot_be_met_is_an_exit_status_when_asked_for() {
    let world = World::new("recommend-strict");
    let told = world.taut("recommend --rtt 100ms --budget 20ms --strict");
    assert_eq!((told.status, told.err.as_str()), (1, ""));
    assert!(
        told.out.contains("No transport can: the way alone takes 50.0 ms of the 20.0 ms"),
        "{}",
        told.out
    );
    assert_eq!(world.taut("recommend --rtt 100ms --budget 20ms").status, 0);
}

#[test]
fn what_is_missing_or_wrong_is_one_line() {
    let world = World::new("recommend-wrong");
    world.write("no.json", "{}");
    for (arguments, says) in [
        ("recommend --haptic", "--rtt"),
        ("recommend --rtt 40ms --burst 0", "--burst is 1"),
        ("recommend --rtt 40ms --evidence no.json", "no.json is not evidence"),
        ("recommend --rtt 40ms --evidence absent.json", "absent.json"),
        ("recommend --rtt 40ms --keep x.toml", "--measure"),
        ("recommend --rtt 40ms --loss 90% --burst 2 --measure", "90 % is more than a session lives with"),
        ("recommend --rtt 40ms --loss 1", "--loss 1%?"),
        ("recommend --rtt 8ms --paths 2 --measure", "--measure has no effect with --paths"),
        ("recommend --rtt 8ms --paths 2 --os windows", "--os windows and --paths: several networks"),
        ("recommend --rtt 8ms --paths 2 --video", "--video has no effect with --paths"),
        ("recommend --rtt 8ms --paths 2 --reliable", "--reliable has no effect with --paths"),
        ("evidence", "SCENARIO"),
        ("evidence absent.toml -q", "absent.toml"),
    ] {
        let told = world.taut(arguments);
        assert_eq!((told.status, told.err.lines().count()), (2, 1), "{arguments}: {}", told.err);
        assert!(told.err.contains(says), "{arguments}: {}", told.err);
    }
}

#[test]
fn evidence_of_ones_own_is_measured_checked_and_used() {
    let world = World::new("evidence");
    world.write("small.toml", SCENARIO);
    world.write("mine.json", world.good("evidence small.toml --seeds 1,4 -q"));
    let checked = world.good("evidence --check --evidence mine.json");
    assert!(checked.ends_with("2 of 2 points run again, 0 differ\n"), "{checked}");
    let told = world.good("recommend --rtt 40ms --loss 1% --evidence mine.json");
    assert!(told.contains("taut run small.toml --variant 'UDP' --seeds 1,4"), "{told}");
    // Who changes what was measured is told.
    world.write("small.toml", SCENARIO.replace("1%", "2%"));
    let stale = world.taut("evidence --check --evidence mine.json");
    assert_eq!(stale.status, 1);
    assert!(stale.out.contains("another file") && stale.out.contains("2 differ"), "{}", stale.out);
}
