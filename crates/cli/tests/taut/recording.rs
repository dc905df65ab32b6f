//! Sessions that are recorded: what is in the file, and what is left of it when something goes wrong.

use std::path::Path;

use serde_json::Value;
use taut_core::Duration;
use taut_trace::Data;

use crate::sessions::{Running, beside_others};
use crate::world::{World, ended};

/// A robot that ends with this test, and an operator's session with it.
struct Site {
    world: World,
    robot: Running,
    operator: String,
}

impl Site {
    fn new(name: &str, more: &str) -> Self {
        let world = World::new(&format!("recording-{name}"));
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, own) = (identity("robot"), identity("own"));
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --identity robot --trust {own} --watchdog 3s --state kept --robot sim:wall --json {more}"
        )));
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let operator = format!(
            "operator --connect {address} --robot-id {robot_id} --identity own --resume start --json"
        );
        Self { world, robot, operator }
    }
}

/// Topics with how many messages each has, and the events; of whole chunks, as any reader finds them.
fn read(path: &Path) -> (std::collections::BTreeMap<String, u64>, Vec<Value>) {
    let bytes = std::fs::read(path).unwrap();
    let (mut counts, mut events) = (std::collections::BTreeMap::new(), Vec::new());
    let options = mcap::read::Options::IgnoreEndMagic.into();
    for message in mcap::MessageStream::new_with_options(&bytes, options).unwrap() {
        let Ok(message) = message else { break };
        assert!(message.channel.schema.is_some(), "{}", message.channel.topic);
        assert!(message.publish_time <= message.log_time);
        *counts.entry(message.channel.topic.clone()).or_default() += 1;
        if message.channel.message_encoding == "json" {
            let content: Value = serde_json::from_slice(&message.data).unwrap();
            if message.channel.topic == "taut/events" {
                events.push(content);
            }
        }
    }
    (counts, events)
}

fn of<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn both_ends_record_what_they_say_that_they_sent_and_received() {
    let _beside = beside_others();
    let site = Site::new("both", "--record robot.mcap");
    let told = ended(
        site.world
            .command(&format!("{} --messages 1500 --record operator.mcap", site.operator))
            .output()
            .unwrap(),
    );
    assert_eq!((told.status, told.err.as_str()), (0, ""), "{told:?}");
    let summary: Value = serde_json::from_str(told.out.lines().last().unwrap()).unwrap();
    let (status, robot) = site.robot.end("-TERM");
    assert_eq!((status, &robot["event"]), (0, &"summary".into()));

    let (counts, events) = read(&site.world.path("operator.mcap"));
    let dropped = of(&events, "dropped").len() as u64;
    assert_eq!(counts["operator/state"], summary["made"].as_u64().unwrap() - refused(&events));
    assert!(counts["operator/state"] >= summary["status"]["messages"].as_u64().unwrap());
    assert!(counts["operator/state"] - summary["status"]["messages"].as_u64().unwrap() <= dropped);
    assert_eq!(counts["operator/round_trip"], summary["status"]["rtt"]["count"].as_u64().unwrap());
    assert!(counts["robot/state"] > 100, "{counts:?}");
    // What is printed is recorded, word for word.
    let printed: Vec<Value> = told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &printed {
        assert!(events.contains(line), "{line}");
    }
    let statuses = of(&events, "status");
    assert!(!statuses.is_empty() && statuses.iter().all(|line| line["status"]["clock"].is_object()));

    let (counts, events) = read(&site.world.path("robot.mcap"));
    assert_eq!(counts["operator/state"], robot["status"]["delivered"].as_u64().unwrap());
    assert_eq!(of(&events, "summary").len(), 1);
    assert_eq!(of(&events, "enabled").len(), 1);
    assert!(site.world.good("trace info operator.mcap").contains("operator_state_position_x"));
}

#[test]
fn a_recorded_session_is_an_input() {
    let _beside = beside_others();
    let site = Site::new("again", "");
    let run = |more: &str| {
        let told = ended(site.world.command(&format!("{} {more}", site.operator)).output().unwrap());
        assert_eq!((told.status, told.err.as_str()), (0, ""), "{told:?}");
        let summary: Value = serde_json::from_str(told.out.lines().last().unwrap()).unwrap();
        summary["made"].as_u64().unwrap()
    };
    assert_eq!(run("--messages 500 --record first.mcap"), 500);
    let again = run("--input trace:first.mcap --record second.mcap");
    assert!((300..2_000).contains(&again), "about as many as the first time: {again}");
    let (held, second) = (held(&site.world.path("first.mcap")), positions(&site.world.path("second.mcap")));
    // Nothing but what was held at one of the input's milliseconds, in that order, and most of it.
    let mut from = 0;
    for x in &second {
        let found = held[from..].iter().position(|was| was.to_bits() == x.to_bits());
        from += found.unwrap_or_else(|| panic!("{x} is not in the rest of {held:?}"));
    }
    let different = |positions: &[f64]| {
        positions.iter().map(|x| x.to_bits()).collect::<std::collections::BTreeSet<_>>().len()
    };
    let (was, again) = (different(&held), different(&second));
    assert!(was > 100 && again * 2 > was, "{again} of {was}");
}

/// What an input has of a recording: the operator's position along x each millisecond from its first state on, m.
fn held(path: &Path) -> Vec<f64> {
    let x = |names: &[&str]| {
        vec![names.iter().position(|name| *name == "operator_state_position_x_m").expect("it is recorded")]
    };
    let read = taut_trace::read_columns(path, &x).unwrap();
    let Data::Signals(signals) = read.into_data() else { panic!("no signals") };
    signals.resample(Duration::from_millis(1)).unwrap().channels()[0].values().to_vec()
}

/// Of the operator along x, m.
fn positions(path: &Path) -> Vec<f64> {
    let bytes = std::fs::read(path).unwrap();
    let messages = mcap::MessageStream::new(&bytes).unwrap().map(Result::unwrap);
    let states = messages.filter(|message| message.channel.topic == "operator/state");
    let x = |data: &[u8]| serde_json::from_slice::<Value>(data).unwrap()["position_x_m"].as_f64().unwrap();
    states.map(|message| x(&message.data)).collect()
}

/// Of the states that the device made.
fn refused(events: &[Value]) -> u64 {
    of(events, "dropped").iter().filter(|event| event["sequence"].is_null()).count() as u64
}

#[test]
fn what_was_written_is_read_after_a_kill_and_finished_at_the_next_start() {
    let _beside = beside_others();
    let site = Site::new("killed", "");
    let recorded = format!("{} --record operator.mcap", site.operator);
    let mut operator = Running::start(site.world.command(&recorded));
    let said = operator.wait_for("status");
    let before = said["status"]["messages"].as_u64().unwrap();
    // A second later.
    operator.wait_for("status");
    operator.kill();

    let path = site.world.path("operator.mcap");
    let (counts, events) = read(&path);
    assert!(before > 0 && counts["operator/state"] >= before, "{before} of {counts:?}");
    assert!(events.contains(&said), "what was printed a second before is in it");
    let info = site.world.good("trace info operator.mcap");
    assert!(
        info.contains("the file ends inside a record") && info.contains("operator_state_position_x"),
        "{info}"
    );

    std::fs::copy(&path, site.world.path("copy.mcap")).unwrap();
    let told = ended(site.world.command(&format!("{recorded} --messages 50")).output().unwrap());
    assert_eq!((told.status, told.err.as_str()), (0, ""), "{told:?}");
    let finished = site.world.read("operator.1.mcap");
    assert!(finished.ends_with(mcap::MAGIC), "it has an end");
    assert_eq!(read(&site.world.path("operator.1.mcap")).0, counts, "and all that was in it");
    assert_eq!(read(&path).0["operator/state"], 50);

    // By hand, the same.
    assert!(site.world.good("trace repair copy.mcap").starts_with("copy.mcap finished"));
    assert_eq!(site.world.read("copy.mcap"), finished);
    assert!(site.world.good("trace repair copy.mcap").starts_with("copy.mcap is whole"));
    assert!(!site.world.good("trace info copy.mcap").contains("the file ends inside"));
}

#[test]
fn old_files_make_room_for_new_ones() {
    let _beside = beside_others();
    let site = Site::new("limit", "");
    let command = format!("{} --messages 6000 --rate 2000 --record o.mcap --record-limit 1MB", site.operator);
    let told = ended(site.world.command(&command).output().unwrap());
    assert_eq!((told.status, told.err.as_str()), (0, ""), "{told:?}");
    let mut sizes = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(site.world.path("")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".mcap") {
            assert!(site.world.read(&name).ends_with(mcap::MAGIC), "{name} is whole");
            sizes.insert(name, entry.metadata().unwrap().len());
        }
    }
    assert!(sizes.len() > 1, "{sizes:?}");
    assert!(!sizes.contains_key("o.1.mcap"), "the oldest is gone: {sizes:?}");
    assert!(sizes.values().sum::<u64>() <= 1_000_000, "{sizes:?}");
    assert_eq!(of(&read(&site.world.path("o.mcap")).1, "summary").len(), 1, "the end is in the newest");
}

#[test]
fn a_file_that_may_not_grow_ends_the_recording_and_not_the_session() {
    // Files of 300 kB at most, in blocks of 512 bytes.
    it_ends_and_the_session_does_not("limited", "ulimit -f 600", "o.mcap", "File too large");
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_session() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a file system of its own needs root");
        return;
    }
    // A disk of 300 kB, in a mount namespace that ends with the command.
    let mount = "mkdir disk && mount -t tmpfs -o size=300k none disk";
    it_ends_and_the_session_does_not("full", mount, "disk/o.mcap", "No space left on device");
}

/// Records into `file` after `before` in a shell, until `why`.
fn it_ends_and_the_session_does_not(name: &str, before: &str, file: &str, why: &str) {
    let _beside = beside_others();
    let site = Site::new(name, "");
    let taut = site.world.command(&format!("{} --messages 4000 --record {file}", site.operator));
    let script = format!(
        "{before} && {{ \"$0\" \"$@\"; status=$?; [ {file} = o.mcap ] || cp {file} o.mcap; exit $status; }}"
    );
    let mut limited = std::process::Command::new(if file == "o.mcap" { "sh" } else { "unshare" });
    if file != "o.mcap" {
        limited.args(["--mount", "sh"]);
    }
    limited.arg("-c").arg(script).arg(taut.get_program()).args(taut.get_args());
    limited.current_dir(site.world.path("")).env("XDG_STATE_HOME", site.world.path("state"));
    let told = ended(limited.output().unwrap());
    assert_eq!(told.status, 0, "{told:?}");
    let lines: Vec<Value> = told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(of(&lines, "recording_ended").len(), 1, "{told:?}");
    assert_eq!(lines.last().unwrap()["made"], 4000, "the session went on");
    let said: Vec<&str> = told.err.lines().collect();
    assert!(
        said.len() == 2
            && said[0].contains(&format!("the recording ended, the session goes on: {file}: {why}"))
            && said[1].contains("messages are missing in the recording"),
        "{said:?}"
    );
    let (counts, _) = read(&site.world.path("o.mcap"));
    assert!(counts["operator/state"] > 100, "{counts:?}");
    assert!(site.world.good("trace info o.mcap").contains("operator_state_position_x"));
}

#[test]
fn what_cannot_be_recorded_is_said_before_anything_moves() {
    let world = World::new("recording-wrong");
    let operator = "operator --connect 127.0.0.1:9 --plaintext --transport udp --state kept";
    std::fs::create_dir(world.path("folder.mcap")).unwrap();
    for (more, why) in [
        ("--record here.txt", "--record here.txt: name it .mcap"),
        ("--record nowhere/a.mcap", "--record nowhere/a.mcap: No such file"),
        ("--record folder.mcap", "--record folder.mcap: this is there, and is no file"),
        ("--record a.mcap --record-limit 1kB", "a size from 1MB up"),
    ] {
        let told = world.taut(&format!("{operator} {more}"));
        assert_eq!(told.status, 2, "{told:?}");
        assert!(told.err.contains(why), "{told:?}");
    }
    assert!(!world.path("here.txt").exists());
}

#[test]
fn a_recorded_session_is_replayed_over_another_network() {
    let _beside = beside_others();
    let site = Site::new("elsewhere", "--record robot.mcap");
    let told = ended(
        site.world
            .command(&format!("{} --messages 1000 --record operator.mcap", site.operator))
            .output()
            .unwrap(),
    );
    assert_eq!((told.status, told.err.as_str()), (0, ""), "{told:?}");
    let operator: Value = serde_json::from_str(told.out.lines().last().unwrap()).unwrap();
    assert_eq!(operator["made"], 1_000, "{operator}");
    let (status, robot) = site.robot.end("-TERM");
    assert_eq!(status, 0, "{robot}");
    site.world.write("far.toml", crate::world::SCENARIO);
    for (end, said) in [("operator", &operator), ("robot", &robot)] {
        let out = site.world.good(&format!("replay {end}.mcap --network far.toml --json"));
        let replayed: Value = serde_json::from_str(&out).unwrap();
        let (was, would) = (&replayed["recorded"], &replayed["simulated"]);
        assert_eq!(was["states"], said["status"]["messages"], "{end}: {was}");
        // Every state, but where one was late and a newer one went in its place.
        let dropped = operator["status"]["dropped"].as_object().unwrap().values();
        let dropped: u64 = dropped.map(|count| count.as_u64().unwrap()).sum();
        assert!(was["states"].as_u64().unwrap() + dropped >= 1_000, "{end}: {was}, {operator}");
        assert!(would["states"].as_u64().unwrap() > 300, "{end}: {would}");
        assert!(would["age_ms"]["p50"].as_f64().unwrap() >= 8.0, "{end}: {would}");
        assert!(was["round_trip_ms"]["p50"].as_f64().unwrap() > 0.0, "{end}: {was}");
        assert_eq!(replayed["run"]["teleop"]["transport"], "quic");
    }
    let text = site.world.good("replay operator.mcap --network far.toml");
    assert!(text.contains("age at the robot, ms, p99"), "{text}");
    let told = site.world.taut("replay operator.mcap");
    assert!(told.status == 2 && told.err.contains("over which network?"), "{told:?}");
    let told = site.world.taut("replay far.toml --network far.toml");
    assert_eq!(told.status, 2, "{told:?}");
}
