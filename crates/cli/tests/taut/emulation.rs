//! A session between two namespaces, through the emulator.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use taut_netlab::Namespace;

use crate::devices::has_python;
use crate::keyboard::PERSON;
use crate::sessions::{Running, alone, beside_one};
use crate::world::{World, ended};

const TEN_MS: &str = r#"title = "ten milliseconds each way"
duration = "1s"

[links.wire]
between = ["operator", "robot"]
chain = [{ delay = "10ms" }]

[cross.noise]
from = "operator"
to = "robot"
traffic = { cbr = { rate = "1Mbit", packet = "150B" } }
"#;

/// Two namespaces; `None`, with the reason printed, where they cannot be made.
fn namespaces() -> Option<(Namespace, Namespace)> {
    match (Namespace::named("taut-cli-a"), Namespace::named("taut-cli-b")) {
        (Ok(a), Ok(b)) => Some((a, b)),
        (Err(error), _) if error.lacks_means() => {
            println!("skipped: {error}");
            None
        }
        (Err(error), _) | (_, Err(error)) => panic!("{error}"),
    }
}

/// The command, inside a namespace.
fn inside(namespace: &Namespace, command: &Command) -> Command {
    let mut inside = Command::new("ip");
    inside.args(["netns", "exec", namespace.name().unwrap()]);
    inside.arg(command.get_program()).args(command.get_args());
    inside.current_dir(command.get_current_dir().unwrap());
    inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside
}

#[test]
fn ten_milliseconds_each_way_are_a_round_trip_of_twenty() {
    let Some((a, b)) = namespaces() else { return };
    let _alone = alone();
    let world = World::new("emulation");
    world.write("wire.toml", TEN_MS);
    let between = format!("{},{}", a.name().unwrap(), b.name().unwrap());
    let emulate = world.command(&format!("emulate wire.toml --between {between} --json --every 100ms"));
    let mut emulator = Running::start(emulate);
    emulator.wait_for("statistics");

    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, operator_id) = (identity("robot"), identity("operator"));
    let robot = format!("robot --listen 10.77.0.2:4433 --identity robot --trust {operator_id} --json");
    let mut robot = Running::start(inside(&b, &world.command(&robot)));
    robot.wait_for("listening");
    let operator = format!(
        "operator --connect 10.77.0.2:4433 --robot-id {robot_id} --identity operator --messages 2000 --resume start --json"
    );
    let operated = ended(inside(&a, &world.command(&operator)).output().unwrap());
    assert_eq!(operated.status, 0, "{operated:?}");
    let summary: Value = serde_json::from_str(operated.out.lines().last().unwrap()).unwrap();
    let (code, stats) = emulator.end("-TERM");
    println!(
        "RTT p50 {} ms, p99 {} ms; late p50 {} µs, p99 {} µs",
        summary["status"]["rtt"]["p50_ms"],
        summary["status"]["rtt"]["p99_ms"],
        stats["up"]["lateness_p50_us"],
        stats["up"]["lateness_p99_us"]
    );
    assert_eq!((code, stats["event"].as_str()), (0, Some("summary")), "{stats}");
    let rtt = |of: &str| summary["status"]["rtt"][of].as_f64().unwrap();
    assert!((20.0..21.0).contains(&rtt("min_ms")), "{summary}");
    // A busy machine wakes three processes late, and says so by samples that it missed.
    let is_busy = summary["missed"].as_u64().unwrap() > 20;
    let most = if is_busy { 40.0 } else { 21.0 };
    assert!((20.0..most).contains(&rtt("p50_ms")), "{summary}");
    assert!(stats["up"]["left"].as_u64().unwrap() > 1_000, "{stats}");
}

#[test]
fn an_emulator_whose_device_is_gone_ends_with_an_error() {
    let Some((a, b)) = namespaces() else { return };
    let world = World::new("emulator-gone");
    world.write("wire.toml", TEN_MS);
    let between = format!("{},{}", a.name().unwrap(), b.name().unwrap());
    let mut emulator =
        Running::start(world.command(&format!("emulate wire.toml --between {between} --json --every 100ms")));
    emulator.wait_for("statistics");
    a.ip("link del taut0").unwrap();
    assert_eq!(emulator.find(|line| line["event"] == "summary"), None);
    assert_eq!(emulator.end("-TERM").0, 2, "it ended by itself");
}

#[test]
fn without_namespaces_a_line_says_how_to_make_them() {
    let world = World::new("emulation-wrong");
    world.write("wire.toml", TEN_MS);
    let ended = world.taut("emulate wire.toml --between no-such-a,no-such-b");
    assert_eq!((ended.status, ended.err.lines().count()), (2, 1), "{ended:?}");
    assert!(ended.err.contains("`ip netns add no-such-a` makes it"), "{}", ended.err);
    let ended = world.taut("emulate wire.toml --between a,b --link fibre");
    assert!(ended.err.contains("there is no link `fibre`; there are wire"), "{}", ended.err);
}

const NARROW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/narrow.toml");

/// Sends frames of three packets, 60 a second: RTP (RFC 3550) with VP8 (RFC 7741), 1.7 Mbit/s in all.
#[expect(clippy::disallowed_methods, reason = "frames come in real time")]
fn send_frames(socket: &UdpSocket, to: &str, frames: u32) {
    for frame in 0..frames {
        for part in 0..3 {
            let sequence = (frame * 3 + part) as u16;
            let marker = if part == 2 { 0x80 } else { 0 };
            let mut packet = vec![0x80, 96 | marker];
            packet.extend(sequence.to_be_bytes());
            packet.extend((frame * 1_500).to_be_bytes());
            packet.extend(7_u32.to_be_bytes());
            packet.push(if part == 0 { 0x10 } else { 0 });
            packet.resize(1_200, 1);
            socket.send_to(&packet, to).unwrap();
        }
        std::thread::sleep(Duration::from_micros(16_667));
    }
}

#[test]
fn a_queue_and_a_gate_of_the_command_line_drop_whole_frames() {
    let Some((a, b)) = namespaces() else { return };
    let _alone = alone();
    let world = World::new("emulation-gate");
    let between = format!("{},{}", a.name().unwrap(), b.name().unwrap());
    let shaping = "--queue codel --gate aimd3 --video udp:5006";
    let mut emulator = Running::start(
        world.command(&format!("emulate {NARROW} --between {between} {shaping} --json --every 100ms")),
    );
    emulator.wait_for("statistics");
    let sender = a.run(|| UdpSocket::bind("10.77.0.1:0")).unwrap().unwrap();
    send_frames(&sender, "10.77.0.2:5006", 240);
    let (code, stats) = emulator.end("-TERM");
    assert_eq!(code, 0, "{stats}");
    let dropped = |cause: &str| stats["up"]["dropped"][cause].as_u64().unwrap_or(0);
    let left = stats["up"]["left"].as_u64().unwrap();
    println!("of 720 packets {left} left, {} gated, {} dropped by CoDel", dropped("gated"), dropped("aqm"));
    assert!(left > 100 && dropped("aqm") > 0, "{stats}");
    assert_eq!(stats["up"]["queue"]["dropped"].as_u64(), Some(dropped("aqm")), "{stats}");
    assert!(dropped("gated") > 30 && dropped("gated").is_multiple_of(3), "{stats}");
}

#[test]
fn where_no_namespaces_are_named_two_are_there_until_it_ends() {
    let Some(_able) = namespaces() else { return };
    let _beside = beside_one();
    let world = World::new("emulation-own");
    let ended = world.taut(&format!("emulate {NARROW} --queue cake --gate aimd3 --for 300ms"));
    assert_eq!(ended.status, 0, "{ended:?}");
    let own = ended.out.split_whitespace().find(|word| word.starts_with("taut-emulate-")).unwrap();
    assert!(ended.out.contains(&format!("`ip netns exec {own} COMMAND`")), "{}", ended.out);
    assert!(!std::path::Path::new("/run/netns").join(own).exists(), "{own} is left");
}

#[test]
fn a_queue_or_a_gate_that_is_none_is_refused_with_what_there_is() {
    let world = World::new("emulation-queue");
    let refused = |arguments: &str, words: &str| {
        let ended = world.taut(&format!("emulate {NARROW} --between a,b {arguments}"));
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains(words), "{}", ended.err);
    };
    refused("--queue cak", "`cak` is not one of `pfifo`, `codel`, `fq_codel`, `pie`, `red`, `cake`");
    refused("--gate aimd9", "`aimd9` is not one of `step`");
    refused("--gate aimd3 --video 5004", "a port is like udp:5004");
    refused("--video udp:5004", "--gate");
}

#[test]
fn without_root_a_session_goes_through_a_relay() {
    let _beside = beside_one();
    let world = World::new("emulation-relay");
    world.write(
        "wire.toml",
        TEN_MS.replace("{ delay = \"10ms\" }", "{ delay = \"10ms\" }, { loss = { bernoulli = \"5%\" } }"),
    );
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, operator_id) = (identity("robot"), identity("operator"));
    let robot = "robot --listen 127.0.0.1:0 --transport udp --identity robot --watchdog 1s --json --trust";
    let mut robot = Running::start(world.command(&format!("{robot} {operator_id}")));
    let at = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let emulate = format!("emulate wire.toml --relay 127.0.0.1:0={at} --json --every 100ms");
    let mut relay = Running::start(world.command(&emulate));
    let relaying = relay.wait_for("relaying");
    let operator = format!(
        "operator --connect {} --transport udp --robot-id {robot_id} --identity operator --messages 2000 --resume start --json",
        relaying["address"].as_str().unwrap()
    );
    let operated = world.taut(&operator);
    assert_eq!(operated.status, 0, "{operated:?}");
    let summary: Value = serde_json::from_str(operated.out.lines().last().unwrap()).unwrap();
    let (code, stats) = relay.end("-TERM");
    assert_eq!((code, stats["event"].as_str()), (0, Some("summary")), "{stats}");
    let rtt = summary["status"]["rtt"]["min_ms"].as_f64().unwrap();
    assert!((20.0..25.0).contains(&rtt), "{summary}");
    for way in ["up", "down"] {
        let count = |of: &str| stats[way][of].as_f64().unwrap();
        let lost = stats[way]["dropped"]["loss"].as_f64().unwrap_or_else(|| panic!("{stats}"));
        assert!(count("entered") > 1_000.0 && (0.02..0.09).contains(&(lost / count("entered"))), "{stats}");
        assert!(count("refused") + count("malformed") + count("overrun") < 1.0, "{stats}");
        let went = count("left") + lost - count("kept_out") + count("held");
        assert!((count("entered") + count("duplicated") - went).abs() < 0.5, "{stats}");
    }
}

#[test]
fn what_is_no_relay_says_how_it_is_written() {
    let world = World::new("emulation-no-relay");
    world.write("wire.toml", TEN_MS);
    for (relays, says) in [
        ("--relay 127.0.0.1:0", "LISTEN=ROBOT"),
        ("--relay 127.0.0.1:0=[::1]:4433", "both IPv4 or both IPv6"),
        ("--relay 127.0.0.1:0=127.0.0.1:1 --relay 127.0.0.1:0=127.0.0.1:1", "need as many --link"),
        ("--relay 127.0.0.1:0=127.0.0.1:1 --between a,b", "cannot be used with"),
    ] {
        let ended = world.taut(&format!("emulate wire.toml {relays}"));
        assert!(ended.status == 2 && ended.err.contains(says), "{relays}: {ended:?}");
    }
}

#[test]
fn a_demonstration_runs_by_itself_and_says_what_the_network_did() {
    let _beside = beside_one();
    let world = World::new("demo");
    for network in ["lte", "wifi"] {
        let ended = world.taut(&format!("demo --network {network} --script --for 2s --json"));
        assert_eq!(ended.status, 0, "{ended:?}");
        let line = |event: &str| {
            let lines = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines.rev().find(|line| line["event"] == event).unwrap_or_else(|| panic!("{ended:?}"))
        };
        // LTE takes its time to open, and a busy machine too.
        assert!(line("summary")["status"]["messages"].as_u64() > Some(200), "{ended:?}");
        assert!(line("network")["to_robot"]["packets"].as_u64() > Some(200), "{ended:?}");
    }
    for (wrong, says) in [
        ("--network moon", "there are lte, wifi"),
        ("--transport tcp", "TCP"),
        ("--network no.toml", "no.toml: there is no such file"),
    ] {
        let ended = world.taut(&format!("demo {wrong}"));
        assert!(ended.status == 2 && ended.err.contains(says), "{ended:?}");
    }
}

#[test]
fn a_demonstration_is_driven_by_keys_and_ends_by_one() {
    let _beside = beside_one();
    if !has_python() {
        return;
    }
    let world = World::new("demo-keys");
    world.write("person.py", PERSON);
    let mut person = Command::new("python3");
    person.current_dir(world.path("")).args([
        "person.py",
        "q",
        env!("CARGO_BIN_EXE_taut"),
        "demo",
        "--network",
        "wifi",
    ]);
    let person = ended(person.output().unwrap());
    assert_eq!((person.status, person.out.trim()), (0, "as it was"), "{person:?}");
    let said = String::from_utf8(world.read("operator")).unwrap();
    assert!(said.contains("resumed: the robot moves") && said.contains("the network carried"), "{said}");
}
