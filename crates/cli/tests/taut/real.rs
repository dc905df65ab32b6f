//! Scenarios over real sockets.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use taut_netlab::Namespace;

use crate::sessions::{alone, beside_one};
use crate::world::World;

const TRANSPORTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/transports.toml");
const CHANNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/teleop/channels.toml");
const PATHS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/session-paths.toml");

const SHARED_LINK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/shared-link.toml");
const LAWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/teleop/laws.toml");
const COMMANDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/paths-that-fail.toml");

/// Can namespaces be made here? Prints why not.
fn possible() -> bool {
    match Namespace::new() {
        Ok(_) => true,
        Err(error) if error.lacks_means() => {
            println!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// The namespaces of a process that still have names.
fn namespaces_of(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("taut-real-{pid}-"))).collect()
}

#[test]
fn every_transport_carries_a_session_for_real_beside_its_twin() {
    if !possible() {
        return;
    }
    let _beside = beside_one();
    let world = World::new("real");
    let short = "--set messages=400 --set duration=1s --set drain=2s";
    let arguments = format!("run {TRANSPORTS} --real --only condition=baseline {short} --json --out out -q");
    let child = world.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
    let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        let (name, real) = (run["variant"].as_str().unwrap(), &run["real"]);
        assert_eq!((real["ran"].as_str(), real["made"].as_u64()), (Some("real"), Some(400)), "{name}");
        assert_eq!(real["violations"], serde_json::json!([]), "{name}");
        let arrived = real["delivered_percent"].as_f64().unwrap();
        // What a host that is late makes at once, the session's rate lets pass one of: that is dropped before it is sent.
        let lost = 100.0 - arrived - real["dropped_percent"].as_f64().unwrap();
        let reliable = ["TCP", "QUIC streams", "SCTP"].iter().any(|t| name.starts_with(t));
        assert!(
            arrived > 30.0 && (lost.abs() < 1e-9 || !reliable),
            "{name}: {arrived} % arrived, {lost} % lost"
        );
        // The emulator holds every packet for 0.3 ms. How late a host with other work wakes up is not ours to say.
        let p50 = real["one_way_ms"]["p50"].as_f64().unwrap();
        assert!((0.3..100.0).contains(&p50), "{name}: {p50} ms");
        let twin = run["simulated"]["one_way_ms"]["p50"].as_f64().unwrap();
        assert!((0.3..0.4).contains(&twin), "{name}: {twin} ms in the simulation");
        let efficiency = real["efficiency_percent"].as_f64().unwrap();
        assert!((10.0..80.0).contains(&efficiency), "{name}: {efficiency} % payload");
    }
    let report = String::from_utf8(world.read("out/report.html")).unwrap();
    assert!(report.contains("QUIC streams, baseline, seed 1") && report.contains("p99.9"));
    let run: Value =
        serde_json::from_slice(&world.read("out/runs/01-udp-baseline/seed-1-real.json")).unwrap();
    assert_eq!(run["ran"], "real");
    world.read("out/runs/01-udp-baseline/seed-1-simulated.json");
}

#[test]
fn channels_are_counted_for_real_as_they_are_in_a_simulation() {
    if !possible() {
        return;
    }
    let _beside = beside_one();
    let world = World::new("real-channels");
    let ended = world.taut(&format!("run {CHANNELS} --real --json -q --set duration=3s --set drain=2s"));
    assert_eq!(ended.status, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    let run = &result["runs"][0];
    assert_eq!(run["real"]["violations"], serde_json::json!([]));
    let [simulated, real] = ["simulated", "real"].map(|ran| run[ran]["channels"].as_array().unwrap());
    assert_eq!((simulated.len(), real.len()), (5, 5));
    for (simulated, real) in simulated.iter().zip(real) {
        let name = &simulated["name"];
        assert_eq!((name, &simulated["direction"]), (&real["name"], &real["direction"]));
        let [twin, made] = [simulated, real].map(|channel| channel["made"].as_f64().unwrap());
        // A host that is late makes a message less, and its robot learns later that the hand ended.
        assert!((made - twin).abs() <= 2.0 + 0.2 * twin, "{name}: {twin} and {made} were made");
        // Either way takes 8 ms. How late a host with other work wakes up is not ours to say.
        for channel in [simulated, real] {
            let youngest = channel["age_ms"]["min"].as_f64().unwrap();
            assert!((8.0..200.0).contains(&youngest), "{name}: {youngest} ms");
        }
    }
}

#[test]
fn a_session_goes_over_several_paths_for_real_beside_its_twin() {
    if !possible() {
        return;
    }
    let _beside = beside_one();
    let world = World::new("real-paths");
    let short = "--set messages=400 --set duration=1s --set drain=2s";
    let ended = world.taut(&format!(
        "run {PATHS} --real --only condition=two,condition=three {short} --json --out out -q"
    ));
    assert_eq!(ended.status, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    let runs = result["runs"].as_array().unwrap();
    if ended.err.contains("leaves out `MPTCP, two`: teleop.transport.mptcp: this kernel has no") {
        println!("skipped: {}", ended.err);
    } else {
        assert_eq!(runs.len(), 10);
    }
    for run in runs {
        let (name, real) = (run["variant"].as_str().unwrap(), &run["real"]);
        assert_eq!((real["ran"].as_str(), real["made"].as_u64()), (Some("real"), Some(400)), "{name}");
        assert_eq!(real["violations"], serde_json::json!([]), "{name}");
        let arrived = real["delivered_percent"].as_f64().unwrap();
        assert!(arrived > 30.0, "{name}: {arrived} % arrived");
        // The shortest path takes 5 ms. How late a host with other work wakes up is not ours to say.
        let p50 = real["one_way_ms"]["p50"].as_f64().unwrap();
        assert!((5.0..100.0).contains(&p50), "{name}: {p50} ms");
        let twin = run["simulated"]["one_way_ms"]["p50"].as_f64().unwrap();
        assert!((5.0..5.2).contains(&twin), "{name}: {twin} ms in the simulation");
    }
    for (folder, paths) in [("07-every-path-two", 2), ("08-every-path-three", 3)] {
        let run = world.read(&format!("out/runs/{folder}/seed-1-real.json"));
        let run: Value = serde_json::from_slice(&run).unwrap();
        let (sent, arrived) = (&run["flows"][0]["sent"], &run["teleop"]["arrived"]);
        assert!(sent.as_u64().unwrap() >= paths * arrived.as_u64().unwrap(), "{folder}: {sent}, {arrived}");
    }
}

#[test]
fn commands_are_a_session_over_several_paths_for_real_beside_its_twin() {
    if !possible() {
        return;
    }
    let _beside = beside_one();
    let world = World::new("real-commands");
    let protocols = "protocol=every path,protocol=deadline,protocol=MPQUIC copies,condition=comes back";
    let ended = world
        .command(&format!("run {COMMANDS} --real --json -q --set duration=2s --set deadline=200ms"))
        .args(["--only", protocols, "--set", "links.a.chain=[{delay=\"4ms\"}]"])
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let name = run["variant"].as_str().unwrap();
        let in_time = |of: &str| run[of]["in_time_percent"].as_f64().unwrap();
        assert!(in_time("simulated") > 99.9, "{name}");
        assert!(in_time("real") > 30.0, "{name}: {run}");
        let p50 = run["real"]["one_way_ms"]["p50"].as_f64().unwrap();
        assert!((4.0..100.0).contains(&p50), "{name}: {p50} ms");
        assert!(run["real"]["copies"].as_f64().unwrap() >= 1.0, "{name}: {run}");
    }
}

#[test]
fn a_session_of_media_shares_a_link_with_tcp_for_real_and_each_medium_has_its_twin() {
    if !possible() {
        return;
    }
    let _beside = beside_one();
    let world = World::new("real-media");
    let ended = world.taut(&format!(
        "run {SHARED_LINK} --real --json -q --set duration=2s --set warmup=500ms --set drain=500ms"
    ));
    assert_eq!(ended.status, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    let run = &result["runs"][0];
    for medium in run["real"]["media"].as_array().unwrap() {
        let (name, least) = (&medium["name"], 8.0);
        let twin = run["simulated"]["media"].as_array().unwrap().iter().find(|one| one["name"] == *name);
        let twin = twin.unwrap_or_else(|| panic!("{name} has no twin"));
        assert!(twin["delivered_percent"].as_f64().unwrap() > 90.0, "{twin}");
        // The link takes 8 ms. How late a host with other work wakes up is not ours to say.
        let p50 = medium["one_way_ms"]["p50"].as_f64().unwrap();
        assert!((least..1_000.0).contains(&p50), "{name}: {p50} ms");
    }
    // Turns that this host missed are counted beside what was lost.
    assert!(run["real"]["counters"]["device_missed"].is_u64(), "{run}");
    let flows: Vec<_> = run["real"]["cross"].as_array().unwrap().iter().map(|flow| &flow["name"]).collect();
    assert_eq!(flows, ["bulk", "constant"]);
}

#[test]
fn an_interrupted_run_leaves_no_namespace() {
    if !possible() {
        return;
    }
    let _beside = beside_one();
    let world = World::new("real-interrupted");
    let arguments =
        format!("run {TRANSPORTS} --real --only transport=UDP,condition=low --alone --out out -q");
    let child = world.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let made = (0..1_000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        namespaces_of(pid).len() == 2
    });
    assert!(made, "there are namespaces while it runs");
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!((ended.status.code(), namespaces_of(pid)), (Some(130), Vec::new()), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert!(!world.path("out").exists(), "nothing is half written");
}

#[test]
fn what_real_sockets_cannot_do_is_refused_by_its_key() {
    let world = World::new("real-refused");
    let refused = |settings: &str| {
        let ended =
            world.taut(&format!("run {TRANSPORTS} --real --only condition=low,transport=TCP {settings}"));
        assert_eq!(ended.status, 2, "{settings}");
        ended.err
    };
    let clocks = refused("--set teleop.robot_clock={offset=\"1s\"}");
    assert!(
        clocks.contains("teleop.robot_clock: over real sockets both ends read the one clock"),
        "{clocks}"
    );
    let tcp = refused("--set teleop.transport={tcp={sack=false}}");
    assert!(tcp.contains("teleop.transport.tcp: the kernel's TCP has settings of its own"), "{tcp}");
    let files = refused("--capture --out out");
    assert!(files.contains("--capture, --events and --samples are for simulated runs"), "{files}");
    let axis = refused("--only size=9");
    assert!(axis.contains("--only: there is no axis `size`; there are transport, condition"), "{axis}");
}

#[test]
fn a_variant_that_real_sockets_cannot_run_is_left_out_with_a_line() {
    if !possible() {
        return;
    }
    let _beside = beside_one();
    let world = World::new("real-left-out");
    let link =
        |name: &str| format!("[links.{name}]\nbetween = [\"a\", \"b\"]\nchain = [{{ delay = \"4ms\" }}]\n");
    let value = |name: &str, set: &str| format!("[[axis.value]]\nname = \"{name}\"\nset = {{ {set} }}\n");
    let text = format!(
        "title = \"three links\"\nduration = \"300ms\"\n{}{}{}[commands]\nfrom = \"a\"\nto = \"b\"\n\
         [cross.video]\nfrom = \"b\"\nto = \"a\"\ntraffic = {{ poisson = {{ rate = \"0bit\", packet = \"1200B\" }} }}\n\
         [[axis]]\nname = \"protocol\"\n{}{}[[axis]]\nname = \"condition\"\n{}{}",
        link("x"),
        link("y"),
        link("z"),
        value("UDP, one path", "\"commands.transport\" = \"udp\""),
        value("ECF", "\"commands.transport\" = { mptcp = { scheduler = \"ecf\" } }"),
        value("quiet", ""),
        value("video", "\"cross.video.traffic\" = { poisson = { rate = \"1Mbit\", packet = \"1600B\" } }"),
    );
    std::fs::write(world.path("three.toml"), text).unwrap();
    let ended = world.taut("run three.toml --real --alone --json -q");
    assert_eq!(ended.status, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    let runs: Vec<&str> =
        result["runs"].as_array().unwrap().iter().map(|run| run["variant"].as_str().unwrap()).collect();
    assert_eq!(runs, ["UDP, one path, quiet"]);
    let told: Vec<&str> = ended.err.lines().filter(|line| line.contains("leaves out")).collect();
    assert_eq!(told.len(), 3, "{}", ended.err);
    assert!(
        told[0].starts_with("taut: leaves out `UDP, one path, video`: cross.video.traffic.poisson.packet: "),
        "{}",
        told[0]
    );
    assert!(
        told[1].starts_with("taut: leaves out `ECF, quiet`: commands.transport.mptcp.scheduler: "),
        "{}",
        told[1]
    );
    let none = world.taut("run three.toml --real --alone -q --only condition=video");
    assert_eq!(none.status, 2, "{}", none.err);
    assert!(
        none.err.contains("cross.video") && none.err.contains("(variant `UDP, one path, video`)"),
        "{}",
        none.err
    );
}

#[test]
fn an_arm_under_a_law_presses_for_real_as_it_is_simulated() {
    if !possible() {
        return;
    }
    let _alone = alone();
    let world = World::new("real-law");
    let ended = world.taut(&format!("run {LAWS} --real --only law=position–position --out out -q"));
    // How late a host with other work wakes up, and with it the verdict on delay, is not ours to say.
    assert!(ended.status <= 1, "{}", ended.err);
    let [real, simulated] = ["real", "simulated"].map(|ran| {
        let run = world.read(&format!("out/runs/01-position-position/seed-1-{ran}.json"));
        let run: Value = serde_json::from_slice(&run).unwrap();
        let touch = &run["teleop"]["control"]["touch"];
        ["rest_force_n", "rest_felt_n"].map(|key| touch[key].as_f64().unwrap())
    });
    for (real, simulated) in real.into_iter().zip(simulated) {
        assert!(
            simulated > 2.0 && (real / simulated - 1.0).abs() < 0.2,
            "{real} N for real, {simulated} N simulated"
        );
    }
}
