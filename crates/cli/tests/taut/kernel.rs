//! Scenarios in a kernel of their own.

use serde_json::Value;

use crate::world::World;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/transports.toml");
const VIDEO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/haptic-video.toml");

#[test]
fn a_session_in_a_kernel_of_its_own_takes_as_long_as_the_simulated_one() {
    let world = World::new("kernel-session");
    let ended =
        world.taut(&format!("run {SCENARIO} --only condition=baseline,transport=UDP,transport=TCP --set teleop.messages=200 --kernel --strict"));
    if ended.err.contains("there is no kernel there") {
        println!("skipped: {}", ended.err.trim());
        return;
    }
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains("2 of 2 medians are within"), "{}", ended.out);
}

#[test]
fn video_behind_a_shaper_waits_in_the_kernel_s_codel_as_long_as_in_ours() {
    let world = World::new("kernel-video");
    let short = "--set duration=5s --set warmup=1s --set drain=1s";
    let ended = world
        .command(&format!("run {VIDEO} --kernel --json -q {short}"))
        .args(["--only", "bandwidth=1 Mbit/s,queue=CoDel,gate=no gate"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    if said.contains("there is no kernel there") {
        println!("skipped: {}", said.trim());
        return;
    }
    assert!(ended.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let p50 = |world: &str| {
        let flows = result["runs"][0][world]["cross"].as_array().unwrap();
        let video = flows.iter().find(|flow| flow["name"] == "video").unwrap();
        video["delay_ms"]["p50"].as_f64().unwrap()
    };
    let [ours, linux] = ["simulated", "real"].map(p50);
    assert!((linux / ours - 1.0).abs() < 0.1, "{ours} and {linux} ms");
}

#[test]
fn the_xdp_program_before_the_kernel_s_codel_loses_the_frames_that_the_model_loses() {
    let world = World::new("kernel-gate");
    let short = "--set duration=12s --set warmup=4s --set drain=1s";
    let ended = world
        .command(&format!("run {VIDEO} --kernel --json -q {short}"))
        .args(["--only", "bandwidth=1 Mbit/s,queue=CoDel,gate=aimd3"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    if said.contains("there is no kernel there") {
        println!("skipped: {}", said.trim());
        return;
    }
    assert!(ended.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let lost = |world: &str, what: &str| result["runs"][0][world]["videos"][0][what].as_f64().unwrap();
    for what in ["packet_loss_percent", "frame_loss_percent"] {
        let [ours, linux] = ["simulated", "real"].map(|world| lost(world, what));
        assert!((ours - linux).abs() < 3.0 && linux > 10.0, "{what}: {ours} and {linux}");
    }
}

#[test]
fn what_linux_has_no_qdisc_for_is_refused_by_its_key() {
    let world = World::new("kernel-refused");
    world.write(
        "s.toml",
        "title = \"t\"\nduration = \"1s\"\n[links.wire]\nbetween = [\"a\", \"b\"]\nchain = [{ duplicate = \
                           \"1%\" }]\n[teleop]\noperator = \"a\"\nrobot = \"b\"\n",
    );
    let ended = world.taut("run s.toml --kernel");
    assert_eq!(ended.status, 2);
    assert!(ended.err.contains("links.wire.chain.0.duplicate"), "{}", ended.err);
}
