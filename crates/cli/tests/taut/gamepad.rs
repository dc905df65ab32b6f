//! `--input gamepad` by recorded events: a pipe stands where the gamepad would be.

use std::fs::File;
use std::io::Write;
use std::process::Command;

use crate::sessions::{Running, beside_others, for_a_while};
use crate::world::World;

/// A report of one change, as a gamepad's driver writes it.
fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
    let one = |kind: u16, code: u16, value: i32| {
        let time = [0; 2 * size_of::<usize>()];
        [&time[..], &kind.to_ne_bytes(), &code.to_ne_bytes(), &value.to_ne_bytes()].concat()
    };
    [one(kind, code, value), one(0, 0, 0)].concat()
}

const CLUTCH: u16 = 0x136;
const START: u16 = 0x13b;
const KEY: u16 = 1;
const STICK: u16 = 3;

#[test]
fn a_gamepad_moves_a_robot_that_runs_while_its_clutch_is_held_and_stops_it_when_it_is_lost() {
    let _beside = beside_others();
    let world = World::new("gamepad");
    if !Command::new("mkfifo").arg(world.path("pad")).status().is_ok_and(|status| status.success()) {
        return println!("skipped: there is no mkfifo");
    }
    let default = include_str!("../../src/gamepad.toml");
    world.write("pad.toml", default.replace("# device = \"/dev/input/event7\"", "device = \"pad\""));
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, one) = (identity("robot"), identity("one"));
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 2s --hold-to-run --robot sim:free \
         --every 50ms --json"
    )));
    let listening = robot.wait_for("listening");
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {} --robot-id {robot_id} --transport udp --identity one --input gamepad:pad.toml --json",
        listening["address"].as_str().unwrap()
    )));
    let mut pad = File::create(world.path("pad")).unwrap();
    let mut write = |kind, code, value| pad.write_all(&event(kind, code, value)).unwrap();
    operator.wait_for("connected");
    write(KEY, CLUTCH, 1);
    // The clocks have to be compared before.
    for _ in 0..20 {
        write(KEY, START, 1);
        write(KEY, START, 0);
        for_a_while(50);
    }
    robot.wait_for("enabled");
    write(STICK, 1, -32_768);
    let moves =
        |line: &serde_json::Value| line["event"] == "device" && line["speed_max_mps"].as_f64() > Some(0.05);
    let moved = robot.find(moves).expect("it moves");
    println!("moved with {} m/s at most", moved["speed_max_mps"]);
    assert!(moved["speed_max_mps"].as_f64() < Some(0.3), "a jump would be faster: {moved}");
    write(KEY, CLUTCH, 0);
    assert_eq!(robot.wait_for("stopped")["why"], "released");
    // Held again it stands, until it is resumed.
    write(KEY, CLUTCH, 1);
    write(STICK, 1, 0);
    for_a_while(100);
    write(KEY, START, 1);
    robot.wait_for("enabled");
    drop(pad);
    assert_eq!(robot.wait_for("stopped")["why"], "emergency");
    let refused =
        world.taut("operator --connect 127.0.0.1:1 --transport udp --plaintext --input gamepad:nowhere.toml");
    assert!(refused.status == 2 && refused.err.contains("nowhere.toml: No such file"), "{refused:?}");
}

#[test]
fn a_spacemouse_moves_a_robot_while_its_left_button_is_held_and_stops_it_with_the_right_one() {
    let _beside = beside_others();
    let world = World::new("spacemouse");
    if !Command::new("mkfifo").arg(world.path("cap")).status().is_ok_and(|status| status.success()) {
        return println!("skipped: there is no mkfifo");
    }
    let default = include_str!("../../src/spacemouse.toml");
    let default = default.replace("# device = \"/dev/hidraw3\"", "device = \"cap\"");
    world.write("cap.toml", default.replace("[buttons]", "[buttons]\nresume = \"2\""));
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, one) = (identity("robot"), identity("one"));
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 2s --robot sim:free --every 50ms --json"
    )));
    let listening = robot.wait_for("listening");
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {} --robot-id {robot_id} --transport udp --identity one --input spacemouse:cap.toml --json",
        listening["address"].as_str().unwrap()
    )));
    let mut cap = File::create(world.path("cap")).unwrap();
    operator.wait_for("connected");
    // A read of hidraw is one report; here a pause keeps two apart, and where it did not, the next one says the same.
    let mut report = |bytes: &[u8]| {
        for _ in 0..10 {
            cap.write_all(bytes).unwrap();
            for_a_while(10);
        }
    };
    report(&[3, 0b001, 0]);
    for _ in 0..5 {
        report(&[3, 0b101, 0]);
        report(&[3, 0b001, 0]);
    }
    robot.wait_for("enabled");
    report(&[1, 0, 0, 0xa2, 0xfe, 0, 0]);
    let moves =
        |line: &serde_json::Value| line["event"] == "device" && line["speed_max_mps"].as_f64() > Some(0.05);
    let moved = robot.find(moves).expect("it moves");
    assert!(moved["speed_max_mps"].as_f64() < Some(0.3), "a jump would be faster: {moved}");
    report(&[3, 0b011, 0]);
    assert_eq!(robot.wait_for("stopped")["why"], "emergency");
}
