//! One seed gives one result, down to the bytes of every file.

use crate::world::{SCENARIO, World, ended};

/// Everything random at once: loss, jitter that reorders, duplicates, flipped bits, Poisson, speech, TCP.
fn everything() -> String {
    let random = r#"    { delay = "8ms" },
    { jitter = { distribution = "normal", spread = "2ms", reorder = true } },
    { loss = { gilbert_elliott = { p = "1%", r = "30%" } } },
    { duplicate = "1%" },
    { corrupt = "1%" },"#;
    let more = r#"
[cross.poisson]
from = "a"
to = "b"
traffic = { poisson = { rate = "500kbit", packet = "400B" } }

[cross.speech]
from = "b"
to = "a"
count = 3
traffic = "voice"

[cross.bulk]
from = "b"
to = "a"
traffic = { tcp = { sack = true } }
"#;
    let signal = r#"haptic = { source = { simulated = { device = "follower" } }, sampler = "deadband" }
video = { source = "vp8" }
multiplexer = "visual_haptic""#;
    SCENARIO.replace(r#"    { delay = "8ms" },"#, random).replace(r#"haptic = { period = "1ms" }"#, signal)
        + more
}

#[test]
fn two_runs_with_one_seed_write_identical_files() {
    let world = World::new("identical");
    world.write("s.toml", everything());
    let options = "--seed 7 --capture --events --samples";
    let said = world.good(&format!("run s.toml {options} --out one"));
    assert_eq!(world.good(&format!("run s.toml {options} --out two")).replace("two/", "one/"), said);
    let (one, two) = (world.hashes("one"), world.hashes("two"));
    assert_eq!(one, two);
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    for expected in ["run.json", "report.html", "packets.pcapng", "events.jsonl", "samples.parquet"] {
        assert!(names.contains(&expected), "{expected} is not among {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("figures/")), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");
}

#[test]
fn another_seed_gives_another_result_and_extras_do_not_change_it() {
    let world = World::new("seeds");
    world.write("s.toml", everything());
    world.good("run s.toml --seed 1 --out one");
    world.good("run s.toml --seed 2 --out two");
    world.good("run s.toml --seed 1 --capture --events --samples --out extras");
    assert_ne!(world.read("one/run.json"), world.read("two/run.json"));
    assert_eq!(world.read("one/run.json"), world.read("extras/run.json"));
}

#[test]
fn a_campaign_does_not_depend_on_the_number_of_threads() {
    let world = World::new("threads");
    let variants = r#"
[[variant]]
name = "slow"
set = { "links.rate" = "3Mbit" }

[[variant]]
name = "fast"
set = { "links.rate" = "12Mbit" }
"#;
    world.write("s.toml", everything() + variants);
    for threads in ["1", "2"] {
        let arguments = format!("run s.toml --set duration=400ms --seeds 1..4 --out with-{threads}");
        let ended = ended(world.command(&arguments).env("RAYON_NUM_THREADS", threads).output().unwrap());
        assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    }
    let files = world.hashes("with-1");
    assert_eq!(files, world.hashes("with-2"));
    assert_eq!(files.iter().filter(|(name, _)| name.starts_with("runs/")).count(), 8, "{files:?}");
}

#[test]
fn a_replay_is_the_same_run_byte_for_byte() {
    let world = World::new("replay");
    world.write("s.toml", everything());
    world.good("run s.toml --set links.delay=5ms --seed 9 --out out");
    let said = world.good("replay out/run.json --out again");
    assert!(said.ends_with("replay of out/run.json: identical, byte for byte\n"), "{said}");
    assert_eq!(world.hashes("out"), world.hashes("again"));
    let json = world.good("replay out/run.json --json");
    assert_eq!(json.into_bytes(), world.read("out/run.json"));
}

#[test]
fn a_run_of_a_campaign_can_be_replayed_alone() {
    let world = World::new("replay-campaign");
    world.write("s.toml", everything());
    world.good("run s.toml --set duration=300ms --seeds 3,4 --out out");
    let run = world.hashes("out").into_iter().find(|(name, _)| name.ends_with("seed-4.json")).unwrap().0;
    let said = world.good(&format!("replay out/{run}"));
    assert!(said.ends_with("identical, byte for byte\n"), "{said}");
}

#[test]
fn a_replay_where_nothing_arrived_is_identical_too() {
    let world = World::new("replay-nothing");
    world.write("s.toml", SCENARIO.replace(r#"{ delay = "8ms" }"#, r#"{ cut = { at = "0s" } }"#));
    world.good("run s.toml --out out");
    let said = world.good("replay out/run.json");
    assert!(said.ends_with("identical, byte for byte\n"), "{said}");
}

#[test]
fn a_changed_result_is_told() {
    let world = World::new("replay-changed");
    world.write("s.toml", SCENARIO);
    world.good("run s.toml --out out");
    let text = String::from_utf8(world.read("out/run.json")).unwrap();
    world.write("out/run.json", text.replacen("\"sent\": ", "\"sent\": 1", 1));
    let ended = world.taut("replay out/run.json");
    assert_eq!(ended.status, 1);
    assert!(ended.out.ends_with("replay of out/run.json: DIFFERENT\n"), "{}", ended.out);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    let own = format!("\"taut\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&own), "{text}");
    world.write("out/run.json", text.replacen(&own, "\"taut\": \"0.0.1\"", 1));
    let ended = world.taut("replay out/run.json");
    assert!(ended.err.contains("made by taut 0.0.1,"), "{}", ended.err);
    world.write("out/run.json", text.replacen("\"seed\":", "\"ran\": \"real\", \"seed\":", 1));
    let ended = world.taut("replay out/run.json");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("was run over real sockets"), "{}", ended.err);
}

#[test]
fn a_replay_whose_recording_has_changed_stops_before_it_writes() {
    let world = World::new("replay-input");
    let haptic = r#"haptic = { source = { recording = { file = "r.csv", channels = ["x"] } } }"#;
    world.write("s.toml", SCENARIO.replace(r#"haptic = { period = "1ms" }"#, haptic));
    world.write("r.csv", "time_s,x\n0,1\n0.5,2\n1,3\n");
    world.good("run s.toml --out out");
    world.write("r.csv", "time_s,x\n0,1\n0.5,2\n1,4\n");
    let ended = world.taut("replay out/run.json --out again");
    assert_eq!(ended.status, 2);
    assert_eq!(
        ended.err,
        "taut: out/run.json: r.csv is not the file that the run read: its SHA-256 differs\n"
    );
    assert!(!world.path("again").exists());
}

/// A scenario in a folder of its own that names a recording beside it, and a run of it.
fn recorded(name: &str) -> World {
    let world = World::new(name);
    for folder in ["scenarios", "elsewhere"] {
        std::fs::create_dir(world.path(folder)).unwrap();
    }
    let haptic = r#"haptic = { source = { recording = { file = "r.csv", channels = ["x"] } } }"#;
    world.write("scenarios/s.toml", SCENARIO.replace(r#"haptic = { period = "1ms" }"#, haptic));
    world.write("scenarios/r.csv", "time_s,x\n0,1\n0.5,2\n1,3\n");
    world.good("run scenarios/s.toml --out out/deep");
    world
}

#[test]
fn a_replay_finds_its_files_from_any_folder() {
    let world = recorded("replay-anywhere");
    let replay = |folder: &str, run: &str, more: &str| {
        let mut command = world.command(&format!("replay {run} {more}"));
        ended(command.current_dir(world.path(folder)).output().unwrap())
    };
    for (folder, run) in
        [("out/deep", "run.json"), ("elsewhere", "../out/deep/run.json"), (".", "out/deep/run.json")]
    {
        let ended = replay(folder, run, "");
        assert_eq!((ended.status, ended.err.as_str()), (0, ""), "from {folder}");
        assert!(ended.out.ends_with("identical, byte for byte\n"), "{}", ended.out);
    }
    // Another file of that name in the way is not taken for it.
    std::fs::create_dir(world.path("elsewhere/scenarios")).unwrap();
    world.write("elsewhere/scenarios/r.csv", "time_s,x\n0,1\n");
    assert_eq!(replay("elsewhere", "../out/deep/run.json", "").status, 0);
    // A result that was taken away from its files needs to be told where they are.
    let away = World::new("replay-away");
    away.write("run.json", world.read("out/deep/run.json"));
    let ended = away.taut("replay run.json");
    assert_eq!(ended.status, 2);
    assert_eq!(
        ended.err,
        "taut: run.json: cannot find scenarios/r.csv, which the run read; name the folder where the run was started: --from DIR\n"
    );
    let from = format!("replay run.json --from {}", world.path("").display());
    assert!(away.good(&from).ends_with("identical, byte for byte\n"));
}

#[test]
fn files_that_a_variant_names_are_relative_to_the_scenario_too() {
    let world = World::new("variant-files");
    std::fs::create_dir(world.path("scenarios")).unwrap();
    let variants = r#"
[[variant]]
name = "whole"
set = { "session.backward.haptic.source" = { recording = { file = "r.csv", channels = ["x"] } } }

[[variant]]
name = "trace"
set = { "links.wire.chain.0.server" = { mahimahi = "t.up" } }
"#;
    world.write("scenarios/s.toml", SCENARIO.to_owned() + variants);
    world.write("scenarios/r.csv", "time_s,x\n0,1\n0.5,2\n1,3\n");
    world.write("scenarios/t.up", "1\n2\n");
    world.good("run scenarios/s.toml --out out");
    for run in world.hashes("out/runs") {
        let run: serde_json::Value =
            serde_json::from_slice(&world.read(&format!("out/runs/{}", run.0))).unwrap();
        assert_eq!(run["inputs"].as_array().unwrap().len(), 1);
    }
}
