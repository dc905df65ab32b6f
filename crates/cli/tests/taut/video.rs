//! Pictures from a robot to an operator, as two processes: over loopback, and through an emulated network that loses some.

use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command};

use serde_json::Value;
use taut_video::{IvfHeader, ivf_frame};

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

/// Its number does not fit into so few pixels.
const TOO_SMALL: &str =
    "robot --listen 127.0.0.1:0 --plaintext --transport udp --state none --video front=test:64x48";

/// Built without libvpx taut says so, and how to get it; else `None`.
fn skipped(world: &World) -> bool {
    let ended = world.taut(TOO_SMALL);
    let is_missing = ended.err.contains("libvpx-dev");
    if is_missing {
        println!("skipped: {}", ended.err.trim());
    }
    is_missing
}

/// What the operator saw within so many states, and its last line; `source` and what is behind it are arguments of the robot's `--video`.
fn watched(name: &str, network: Option<&str>, source: &str) -> Option<(Value, Value)> {
    let _beside = beside_one();
    let world = World::new(name);
    if skipped(&world) {
        return None;
    }
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, operator_id) = (identity("robot"), identity("operator"));
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --identity robot --trust {operator_id} --state kept --watchdog 3s --video front={source} --json"
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
        "operator --connect {address} --robot-id {robot_id} --identity operator --state asked --rate 250 --messages 1500 --resume start \
         --video front --measure-video --json"
    )));
    let is_seen = |line: &Value| line["event"] == "video" && line["frames"].as_u64() > Some(0);
    assert!(operator.find(is_seen).is_some(), "a line each second");
    let seen = operator.wait_for("video_summary");
    let summary = operator.find(|line| line["event"] == "summary");
    let (code, _) = robot.end("-TERM");
    assert_eq!(code, 0);
    emulator.into_iter().for_each(|emulator| _ = emulator.end("-TERM"));
    println!("{seen}");
    Some((seen, summary.unwrap_or_default()))
}

#[test]
fn test_pictures_are_seen_with_their_numbers_and_their_age_is_known() {
    let Some((seen, _)) = watched("video-loopback", None, "test") else { return };
    let count = |key: &str| seen[key].as_u64().unwrap();
    assert!(count("frames") > 60, "{seen}");
    // A picture that is made smaller, because the machine is busy, cannot be read.
    assert!(count("numbers_read") * 2 > count("frames"), "{seen}");
    assert_eq!((count("malformed"), count("keys")), (0, 1), "{seen}");
    let age = |of: &str| seen["age_ms"][of].as_f64().unwrap();
    assert!(age("p50") > 0.0 && age("p50") <= age("p99"), "{seen}");
    // What is held is as old as it was when it came, and grows older.
    assert!(seen["held_age_ms"]["p50"].as_f64().unwrap() > age("p50"), "{seen}");
}

#[test]
fn a_picture_that_stands_still_is_told_every_second_with_its_age() {
    let _beside = beside_one();
    let world = World::new("video-still");
    if skipped(&world) {
        return;
    }
    let mut robot = Running::start(world.command(
        "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --video front=test --json",
    ));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {address} --plaintext --transport udp --state asked --video front --measure-video --json"
    )));
    let is_seen = |line: &Value| line["event"] == "video" && line["held_age_ms"]["p50"].is_number();
    assert!(operator.find(is_seen).is_some());
    signal(robot.pid(), "-STOP");
    let stands = |line: &Value| line["frames"] == 0 && line["held_age_ms"]["p50"].as_f64() > Some(2_500.0);
    assert!(operator.find(stands).is_some(), "a line while nothing comes");
    signal(operator.pid(), "-TERM");
    let summary = operator.wait_for("video_summary");
    assert!(summary["held_age_ms"]["p99"].as_f64() > Some(2_500.0), "to its end: {summary}");
}

/// Built without OpenH264 taut says so, and how to get it.
#[test]
fn test_pictures_are_seen_in_h264_where_taut_has_it() {
    let world = World::new("video-h264-there");
    if skipped(&world) {
        return;
    }
    // A size that H.264 has not.
    let ended = world.taut(&format!("{} --video-codec h264", TOO_SMALL.replace("64x48", "640x481")));
    if ended.err.contains("--features openh264") {
        println!("skipped: {}", ended.err.trim());
        return;
    }
    for (name, network) in [("video-h264", None), ("video-h264-lossy", Some(LOSSY))] {
        let Some((seen, _)) = watched(name, network, "test --video-codec h264") else { return };
        let count = |key: &str| seen[key].as_u64().unwrap();
        assert_eq!((seen["codec"].as_str(), count("malformed")), (Some("h264"), 0), "{seen}");
        assert!(count("frames") > 60 && count("numbers_read") * 2 > count("frames"), "{seen}");
        assert!(count("missing") * 5 < count("frames") && count("keys") <= 3, "{seen}");
    }
}

#[test]
fn losses_are_made_up_for_without_key_frames() {
    let Some((seen, _)) = watched("video-lossy", Some(LOSSY), "test") else { return };
    let count = |key: &str| seen[key].as_u64().unwrap();
    assert!(count("numbers_read") * 2 > count("frames"), "{seen}");
    assert!(count("frames") > 60 && count("missing") * 5 < count("frames"), "{seen}");
    // A busy machine may lose the first one, too.
    assert!(count("keys") <= 2, "{seen}");
    assert!(seen["age_ms"]["p50"].as_f64().unwrap() >= 20.0, "{seen}");
}

/// Another program that makes pictures; `None` where it is not installed.
fn ffmpeg(arguments: &[&str]) -> Option<Child> {
    let began = Command::new("ffmpeg").args(["-v", "error", "-nostdin", "-y", "-re"]).args(arguments).spawn();
    began.inspect_err(|error| println!("skipped: ffmpeg: {error} (apt-get install ffmpeg)")).ok()
}

const PATTERN: [&str; 8] =
    ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=30", "-c:v", "libvpx", "-deadline", "realtime"];

#[test]
fn pictures_of_a_file_are_seen() {
    let file = std::env::temp_dir().join(format!("taut-video-{}.ivf", std::process::id()));
    let path = file.to_str().unwrap();
    let Some(mut made) = ffmpeg(&[&PATTERN[..], &["-t", "1", path]].concat()) else { return };
    assert!(made.wait().unwrap().success());
    let seen = watched("video-file", None, &format!("ivf:{path}"));
    std::fs::remove_file(&file).unwrap();
    let Some((seen, _)) = seen else { return };
    assert!(seen["frames"].as_u64() > Some(60), "{seen}");
    assert_eq!((seen["malformed"].as_u64(), seen["keys"].as_u64()), (Some(0), Some(1)), "{seen}");
}

#[test]
fn pictures_that_another_program_sends_are_seen() {
    // A port that was free a moment ago.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let to = format!("rtp://127.0.0.1:{port}");
    let pattern = [&PATTERN[..], &["-g", "30", "-t", "60", "-f", "rtp", &to]].concat();
    let Some(mut sender) = ffmpeg(&pattern) else { return };
    let seen = watched("video-rtp", None, &format!("rtp:127.0.0.1:{port}"));
    sender.kill().unwrap();
    sender.wait().unwrap();
    let Some((seen, _)) = seen else { return };
    assert!(seen["frames"].as_u64() > Some(30), "{seen}");
    assert_eq!(seen["malformed"].as_u64(), Some(0), "{seen}");
}

#[test]
fn what_is_no_camera_is_refused_in_a_line() {
    let world = World::new("video-wrong");
    for (arguments, why) in [
        ("--video front", "NAME=SOURCE"),
        ("--video front=webcam", "there is test"),
        ("--video front=rtp:5004", "rtp:127.0.0.1:5004"),
        ("--video front=test:640", "640x480@30"),
    ] {
        let ended =
            world.taut(&format!("robot --listen 127.0.0.1:0 --plaintext --transport udp {arguments}"));
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
    if skipped(&world) {
        return;
    }
    let ended = world.taut(TOO_SMALL);
    assert!(ended.status != 0 && ended.err.contains("64×48"), "{ended:?}");
    let header = IvfHeader { width: 64, height: 48, rate: 30, scale: 1 }.emit();
    world.write("headless.ivf", [header, ivf_frame(0, &[1; 16])].concat());
    let ended = world.taut(&TOO_SMALL.replace("test:64x48", "ivf:headless.ivf"));
    assert!(ended.status == 2 && ended.err.contains("begins with a key frame"), "{ended:?}");
}

#[test]
fn pictures_that_their_channel_does_not_take_are_said() {
    let _beside = beside_one();
    let world = World::new("video-refused");
    if skipped(&world) {
        return;
    }
    let channel =
        "[[channel]]\nname = \"front\"\nkind = \"video\"\nschema = \"taut/Picture\"\nlargest = \"2kB\"\n";
    world.write("small.toml", channel);
    let mut robot = Running::start(world.command(
        "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --channels small.toml --video front=test --json",
    ));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {address} --plaintext --transport udp --state asked --channels small.toml --video front --messages 2000 --resume start --json"
    )));
    let seen = operator.wait_for("video_summary");
    assert_eq!((&seen["frames"], &seen["rate_kbps"]), (&0.into(), &Value::Null), "{seen}");
    signal(robot.pid(), "-TERM");
    robot.wait_for("summary");
    let mut said = String::new();
    robot.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("--video front: a picture is not sent: longer than the 2000 B"), "{said}");
}
