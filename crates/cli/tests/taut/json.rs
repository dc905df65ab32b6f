//! `docs/json.md` and `docs/results.md` explain every key that a command prints with `--json`.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sessions::{Running, beside_others};
use crate::world::{SCENARIO, World};

const PAGES: &str =
    concat!(include_str!("../../../../docs/json.md"), include_str!("../../../../docs/results.md"));

/// Where the keys of results and of reports come from.
const SOURCES: [(&str, &[&str]); 8] = [
    (include_str!("../../../report/src/result.rs"), &RUN),
    (include_str!("../../../report/src/result/commands.rs"), &RUN),
    (include_str!("../../../report/src/result/comparison.rs"), &RUN),
    (include_str!("../../../report/src/result/teleop.rs"), &RUN),
    (include_str!("../../../report/src/result/video.rs"), &RUN),
    (include_str!("../../../session/src/status.rs"), &LINES),
    (include_str!("../../../session/src/counters.rs"), &LINES),
    (include_str!("../../../session/src/latency.rs"), &LINES),
];

/// The sections about results, and about the reports of both ends of a session.
const RUN: [&str; 3] = ["taut run", "Campaigns", "Real runs beside their twins"];
const LINES: [&str; 4] = ["Lines", "taut operator", "taut robot", REPORTS];
const REPORTS: &str = "Reports of a session";

/// Objects whose keys are names of causes, counters and reasons.
const BY_NAME: [&str; 5] = ["dropped", "refused", "counters", "reasons", "queue"];

/// Is it there as code, alone or as a key?
fn explains(sections: &[&str], key: &str) -> bool {
    let title = |section: &str| section.lines().next().unwrap_or_default().to_owned();
    let known = PAGES.split("\n## ").filter(|section| sections.contains(&title(section).as_str()));
    let mut known = known.flat_map(|section| section.split(['`', '"']));
    known.any(|word| word == key)
}

#[track_caller]
fn assert_explained<'a>(sections: &[&str], keys: impl IntoIterator<Item = &'a str>) {
    let missing: BTreeSet<_> = keys.into_iter().filter(|key| !explains(sections, key)).collect();
    assert!(missing.is_empty(), "docs/json.md and results.md, {sections:?}, do not explain {missing:?}");
}

/// Every key of an object and of those in it.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                found.insert(key.clone());
                match value {
                    Value::Object(named) if BY_NAME.contains(&key.as_str()) => {
                        named.values().for_each(|value| keys(value, found));
                    }
                    value => keys(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

fn assert_object_is_explained(sections: &[&str], object: &Value) {
    let mut found = BTreeSet::new();
    keys(object, &mut found);
    assert_explained(sections, found.iter().map(String::as_str));
}

/// A line, its event too.
fn assert_line_is_explained(section: &str, line: &Value) {
    // Reports of the two ends have the same parts.
    let sections = ["Lines", section, "taut operator", "taut robot", REPORTS];
    assert_object_is_explained(&sections, line);
    assert_explained(&["Lines", section], line["event"].as_str());
}

/// Every `run.json` below a folder, and every run of a campaign.
fn runs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            runs(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "json") {
            found.push(entry);
        }
    }
}

#[test]
fn every_field_of_a_result_is_explained() {
    for (source, sections) in SOURCES {
        let (mut serialized, mut fields) = (false, BTreeSet::new());
        for line in source.lines() {
            match line.trim_start() {
                derive if derive.starts_with("#[derive(") => serialized = derive.contains("Serialize"),
                field
                    if serialized
                        && line.starts_with("    pub ")
                        && !field.contains("fn ")
                        && field.contains(": ") =>
                {
                    fields.extend(field.trim_start_matches("pub ").split(':').next());
                }
                _ => {}
            }
        }
        assert!(!fields.is_empty());
        assert_explained(sections, fields);
    }
}

#[test]
fn every_cause_is_explained() {
    assert_explained(&["Causes"], taut_core::DropCause::ALL.map(taut_core::DropCause::name));
}

#[test]
fn every_key_of_a_run_and_of_a_campaign_is_explained() {
    let world = World::new("json-run");
    world.write("own.toml", SCENARIO);
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let ours = |name: &str| ours.join(name).display().to_string();
    let runs_of: [(String, &[&str]); 7] = [
        ("own.toml".to_owned(), &["--seed=3"]),
        ("own.toml".to_owned(), &["--seeds=1..2"]),
        (ours("demo.toml"), &["--set=duration=3s", "--set=warmup=500ms"]),
        (ours("teleop/cut.toml"), &["--variant=UDP"]),
        (ours("teleop/emergency.toml"), &["--variant=itself, UDP"]),
        (ours("haptic-video-fifo.toml"), &["--variant=0.5", "--set=duration=8s"]),
        (ours("paths-that-fail.toml"), &["--variant=deadline, dies"]),
    ];
    for (place, (scenario, more)) in runs_of.iter().enumerate() {
        let mut command = world.command(&format!("run --json --quiet --out out-{place}"));
        let told = command.arg(scenario).args(*more).output().unwrap();
        assert_eq!(told.status.code(), Some(0), "{scenario}: {}", String::from_utf8_lossy(&told.stderr));
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_object_is_explained(&RUN, &told);
        let mut files = Vec::new();
        runs(&world.path(&format!("out-{place}")), &mut files);
        assert!(!files.is_empty());
        for file in files {
            let run: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            assert_object_is_explained(&RUN, &run);
        }
    }
}

#[test]
fn every_line_of_operator_and_robot_is_explained() {
    let _beside = beside_others();
    let world = World::new("json-session");
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, one) = (identity("robot"), identity("one"));
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --transport mtip --identity robot --trust {one} --commands --every 50ms --json"
    )));
    let listening = robot.wait_for("listening");
    assert_line_is_explained("taut robot", &listening);
    let at = listening["address"].as_str().unwrap();
    let operator = |who: &str, more: &str| {
        Running::start(world.command(&format!(
            "operator --connect {at} --robot-id {robot_id} --transport mtip --identity {who} --every 50ms --resume start --json {more}"
        )))
    };
    let stranger = operator("stranger", "");
    assert_line_is_explained("taut robot", &robot.wait_for("refused"));
    drop(stranger);
    let mut one = operator("one", "--commands --path lo --path none0");
    for event in ["path_missing", "connected", "robot", "resumed", "status"] {
        assert_line_is_explained("taut operator", &one.wait_for(event));
    }
    for event in ["connected", "enabled", "status", "device"] {
        assert_line_is_explained("taut robot", &robot.wait_for(event));
    }
    one.say("e");
    assert_line_is_explained("taut operator", &one.wait_for("emergency_stopped"));
    assert_line_is_explained("taut robot", &robot.wait_for("stopped"));
    one.say("r");
    assert_line_is_explained("taut operator", &one.wait_for("not_done"));
    one.say("c");
    assert_line_is_explained("taut operator", &one.wait_for("reset"));
    one.say("r");
    one.wait_for("resumed");
    robot.wait_for("enabled");
    robot.say("e");
    robot.wait_for("stopped");
    one.find(|line| line["cause"] == "local_emergency").expect("it is told");
    one.say("c");
    assert_line_is_explained("taut operator", &one.wait_for("reset_refused"));
    one.say("q");
    assert_line_is_explained("taut operator", &one.wait_for("summary"));
    assert_line_is_explained("taut robot", &robot.wait_for("closed"));
    assert_line_is_explained("taut robot", &robot.end("-TERM").1);
}

#[test]
fn a_console_reports_as_often_as_it_is_told_and_in_json_once_a_second() {
    let _beside = beside_others();
    let world = World::new("json-console");
    let robot = "robot --listen 127.0.0.1:0 --transport udp --plaintext --json";
    let mut robot = Running::start(world.command(robot));
    let at = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    for (every, period) in [("", 1.0), ("--every 500ms", 0.5)] {
        let console = format!("console --connect {at} --transport udp --plaintext --port 0 --json {every}");
        let mut console = Running::start(world.command(&console));
        let mut time = || console.wait_for("status")["t_s"].as_f64().unwrap();
        let first = time();
        for number in 1..=2 {
            let since = time() - first;
            let due = f64::from(number) * period;
            let in_time = since > due - 0.15 && since < due * 1.8;
            assert!(in_time, "{every}: report {number} after {since} s");
        }
        assert_eq!(console.end("-TERM").0, 0);
    }
}

#[test]
fn every_line_of_a_proxy_is_explained() {
    let world = World::new("json-proxy");
    let id = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (near_id, far_id) = (id("near"), id("far"));
    let application = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = application.local_addr().unwrap();
    let mut far = Running::start(world.command(&format!(
        "proxy --listen 127.0.0.1:0 --to udp:{to} --identity far --trust {near_id} --json"
    )));
    let at = far.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut near = Running::start(world.command(&format!(
        "proxy --listen udp:127.0.0.1:0 --to {at} --identity near --trust {far_id} --path lo --path none0 --every 50ms --json"
    )));
    for event in ["listening", "path_missing", "connected", "status"] {
        assert_line_is_explained("taut proxy", &near.wait_for(event));
    }
    assert_line_is_explained("taut proxy", &near.end("-TERM").1);
    assert_line_is_explained("taut proxy", &far.wait_for("closed"));
}

#[test]
fn every_line_of_an_emulator_is_explained() {
    let world = World::new("json-emulate");
    world.write("wire.toml", SCENARIO);
    let command = world.command("emulate wire.toml --for 300ms --every 100ms --json");
    let ended = crate::world::ended({ command }.output().unwrap());
    if ended.status != 0 {
        assert!(!ended.err.contains("argument"), "{}", ended.err);
        println!("skipped: {}", ended.err.trim());
        return;
    }
    for line in ended.out.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_object_is_explained(&["Lines", "taut emulate"], &line);
        assert_explained(&["taut emulate"], line["event"].as_str());
    }
    assert!(ended.out.contains("lateness_p99_us"), "{}", ended.out);
}
