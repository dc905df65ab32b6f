//! Sound between a robot and an operator, as two processes, both ways: over loopback, and through an emulated network that loses some.

use std::io::Read;

use serde_json::Value;

use crate::sessions::{Running, beside_one, signal};
use crate::world::World;

const LOSSY: &str = r#"title = "twenty milliseconds each way, and one percent lost"
duration = "1s"

[links.wire]
between = ["operator", "robot"]
chain = [{ delay = "20ms" }, { loss = { bernoulli = "1%" } }]

[cross.noise]
from = "operator"
to = "robot"
traffic = { cbr = { rate = "1Mbit", packet = "150B" } }
"#;

/// Built without libopus taut says so, and how to get it.
fn skipped(world: &World) -> bool {
    let tried =
        "robot --listen 127.0.0.1:0 --plaintext --transport udp --state none --microphone cell=wav:missing";
    let ended = world.taut(tried);
    let is_missing = ended.err.contains("libopus-dev");
    if is_missing {
        println!("skipped: {}", ended.err.trim());
    }
    is_missing
}

/// What was heard, at the operator and at the robot, and both ends' words on standard error.
struct Heard {
    world: World,
    operator: Value,
    robot: Value,
    summary: Value,
    err: String,
}

/// Six seconds of a session in which the robot has these arguments, and the operator those.
fn heard(name: &str, network: Option<&str>, robot: &str, operator: &str) -> Option<Heard> {
    let _beside = beside_one();
    let world = World::new(name);
    if skipped(&world) {
        return None;
    }
    let [robot_says, operator_says] = [robot, operator].map(|arguments| arguments.contains("--speaker"));
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, operator_id) = (identity("robot"), identity("operator"));
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --identity robot --trust {operator_id} --state kept --watchdog 3s {robot} --json"
    )));
    let mut address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let emulator = network.map(|scenario| {
        world.write("lossy.toml", scenario);
        let relay = format!("emulate lossy.toml --relay 127.0.0.1:0={address} --json");
        let mut emulator = Running::start(world.command(&relay));
        address = emulator.wait_for("relaying")["address"].as_str().unwrap().to_owned();
        emulator
    });
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {address} --robot-id {robot_id} --identity operator --state asked --rate 250 --messages 1500 --resume start {operator} --json"
    )));
    let at_operator = if operator_says { operator.wait_for("sound_summary") } else { Value::Null };
    let summary = operator.wait_for("summary");
    signal(robot.pid(), "-TERM");
    let at_robot = if robot_says { robot.wait_for("sound_summary") } else { Value::Null };
    robot.wait_for("summary");
    let mut err = String::new();
    for end in [&mut operator, &mut robot] {
        end.child.wait().unwrap();
        end.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    }
    emulator.into_iter().for_each(|emulator| _ = emulator.end("-TERM"));
    println!("{at_operator}\n{at_robot}\n{err}");
    Some(Heard { world, operator: at_operator, robot: at_robot, summary, err })
}

fn count(heard: &Value, key: &str) -> u64 {
    heard[key].as_u64().unwrap_or_else(|| panic!("no {key} in {heard}"))
}

#[test]
fn clicks_are_heard_with_their_age_and_a_tone_goes_the_other_way() {
    let (robot, operator) = (
        "--microphone cell=click --speaker voice=wav:heard.wav",
        "--speaker cell=null --microphone voice=tone:1000",
    );
    let Some(heard) = heard("sound-loopback", None, robot, operator) else { return };
    // On a busy machine some are late.
    assert!(count(&heard.operator, "frames") > 300, "{}", heard.operator);
    assert!(count(&heard.operator, "clicks") >= 5, "{}", heard.operator);
    assert_eq!(count(&heard.operator, "malformed"), 0);
    let ms = |key: &str| heard.operator[key]["p50"].as_f64().unwrap();
    // 10 ms until a frame is heard, 15 that it is held, 10 that it waits to be played; and what the encoder looks ahead.
    assert!(ms("mouth_to_ear_ms") >= 34.0, "{}", heard.operator);
    assert!(ms("click_ms") > ms("mouth_to_ear_ms") + 2.0 && ms("click_ms") < ms("mouth_to_ear_ms") + 6.0);
    assert!(count(&heard.robot, "frames") > 300, "{}", heard.robot);
    let file = std::fs::read(heard.world.path("heard.wav")).unwrap();
    assert_eq!((&file[..4], &file[8..12]), (&b"RIFF"[..], &b"WAVE"[..]));
    let loud = file[44..].chunks_exact(2).filter(|pair| i16::from_le_bytes([pair[0], pair[1]]).abs() > 4_000);
    assert!(
        loud.count() * 2 > file.len() / 2 / 3,
        "a sine is above half of its height for two thirds of the time"
    );
}

#[test]
fn most_of_what_is_lost_comes_with_a_copy() {
    let arguments = ("--microphone cell=click", "--speaker cell=null");
    let Some(heard) = heard("sound-lossy", Some(LOSSY), arguments.0, arguments.1) else { return };
    assert!(count(&heard.operator, "frames") > 300, "{}", heard.operator);
    assert!(count(&heard.operator, "made_up") * 20 < count(&heard.operator, "frames"), "{}", heard.operator);
    assert!(heard.operator["mouth_to_ear_ms"]["p50"].as_f64().unwrap() >= 54.0, "{}", heard.operator);
    // Of each there is one: nearly all come twice.
    let cell = &heard.summary["status"]["channels"][0];
    assert!(count(&cell["dropped"], "duplicate") * 10 > count(cell, "delivered") * 9, "{cell}");
}

#[test]
fn a_session_goes_on_when_its_sound_fails() {
    let (robot, operator) = (
        "--microphone cell=click --microphone other=exec:false --speaker voice=wav:/dev/full",
        "--speaker cell=exec:false --microphone voice=click",
    );
    let Some(heard) = heard("sound-fails", None, robot, operator) else { return };
    for words in [
        "--microphone other is silent: the program ended: exit status: 1",
        "--speaker voice is silent: No space left on device",
        "--speaker cell is silent: the program ended",
    ] {
        assert!(heard.err.contains(words), "{words}");
    }
    assert!(count(&heard.summary["status"], "delivered") > 750, "{}", heard.summary);
    // What is played nowhere is measured all the same.
    assert!(count(&heard.operator, "frames") > 300, "{}", heard.operator);
}

#[test]
fn sound_that_does_not_fit_is_refused_with_what_to_do() {
    let world = World::new("sound-refused");
    if skipped(&world) {
        return;
    }
    let refused = |argument: &str| {
        let robot = "robot --listen 127.0.0.1:0 --plaintext --transport udp --state none";
        let ended = world.taut(&format!("{robot} {argument}"));
        assert_ne!(ended.status, 0, "{argument}");
        ended.err
    };
    let header = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x44\xac\x00\x00\x88\x58\x01\x00\x02\x00\x10\x00data\x00\x00\x00\x00";
    std::fs::write(world.path("cd.wav"), header).unwrap();
    let told = refused("--microphone cell=wav:cd.wav");
    assert!(
        told.contains("44100 Hz, 1 channels, 16 bits") && told.contains("ffmpeg -i cd.wav -ar 48000"),
        "{told}"
    );
    assert!(refused("--microphone cell=wav:missing.wav").contains("missing.wav"));
    assert!(refused("--speaker cell=exec:/nowhere/player").contains("/nowhere/player"));
    assert!(refused("--microphone cell=radio").contains("there is click, tone:HERTZ"));
    assert!(refused("--microphone cell=click --codec omni71").contains("omni71 has none"));
}
