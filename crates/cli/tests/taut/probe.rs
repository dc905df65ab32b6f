//! `taut probe` between two processes, through an emulated link, and beside a robot.

use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::sessions::{Running, beside_one};
use crate::world::{World, ended};

/// 8 Mbit/s, losses in bursts of 4 messages, 2 % of all, and 12 ms each way.
const LOSSY: &str = r#"title = "a link"
duration = "10s"
[links.wire]
between = ["a", "b"]
chain = [
    { server = { rate = "8Mbit", queue = { bytes = "200kB" } } },
    { loss = { gilbert_elliott = { p = "0.5%", r = "25%" } } },
    { jitter = { distribution = "uniform", mean = "12ms", spread = "4ms", reorder = true } },
]
[cross.noise]
from = "a"
to = "b"
traffic = { cbr = { rate = "1Mbit", packet = "150B" } }
"#;

#[test]
fn a_link_is_measured_through_a_relay_and_what_is_written_can_be_simulated() {
    let _beside = beside_one();
    let world = World::new("probe");
    world.write("wire.toml", LOSSY);
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (there, here) = (identity("there"), identity("here"));
    let mut far = Running::start(
        world.command(&format!("probe --listen 127.0.0.1:0 --identity there --trust {here} --json")),
    );
    let at = far.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut relay =
        Running::start(world.command(&format!("emulate wire.toml --relay 127.0.0.1:0={at} --json")));
    let relaying = relay.wait_for("relaying");
    let between = relaying["address"].as_str().unwrap();
    // Of three paths, of which the last leads nowhere.
    let nowhere = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let probed = world.taut(&format!(
        "probe {between} {at} {nowhere} --identity here --trust {there} --for 4s --out office.toml --report office.html --json"
    ));
    assert_eq!(probed.status, 1, "{probed:?}");
    assert!(
        probed.err.contains(&format!("{nowhere}: ")) && probed.err.contains("it is left out"),
        "{probed:?}"
    );
    let measured: Vec<Value> = probed.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for way in ["there", "back"] {
        let line = measured
            .iter()
            .find(|line| line["event"] == "measured" && line["path"] == between && line["way"] == way);
        assert!(measured.iter().any(|line| line["path"] == at.as_str() && line["way"] == way), "{probed:?}");
        let figures = &line.unwrap_or_else(|| panic!("{probed:?}"))["figures"];
        println!("{way}: {figures}");
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{figures}"));
        // A busy machine is late now and then, and sends fewer messages; the shortest delay, the median and what is lost are the link's.
        assert!((7.5..9.0).contains(&number(&figures["delay_min_ms"])), "{figures}");
        assert!((10.5..14.5).contains(&number(&figures["delay_p50_ms"])), "{figures}");
        assert!((0.5..1.0).contains(&(number(&figures["received"]) / 4_000.0)), "{figures}");
        assert!(number(&figures["overtaken"]) > 0.0, "{figures}");
        assert!((7e6..9e6).contains(&number(&figures["rate_bps"])), "{figures}");
        assert!((40_000.0..=51_552.0).contains(&number(&figures["train_taken_bytes"])), "{figures}");
        let (p, r) = (number(&figures["fit"]["p"]), number(&figures["fit"]["r"]));
        assert!((0.002..0.01).contains(&p) && (0.1..0.5).contains(&r), "{figures}");
    }
    let sessions: Vec<&Value> = measured.iter().filter(|line| line["event"] == "session").collect();
    assert_eq!(sessions.len(), 2, "{probed:?}");
    let advice = measured.iter().find(|line| line["event"] == "recommendation");
    let advice = advice.unwrap_or_else(|| panic!("{probed:?}"));
    // Where the host is held up now and then, the path without a link in between need not be the better one.
    assert!([at.as_str(), between].contains(&advice["path"].as_str().unwrap()), "{advice}");
    let answer = &advice["recommendation"];
    let laws = if answer["nearest"].is_null() { &answer["laws"] } else { &answer["nearest"]["laws"] };
    assert!(laws["taken"].is_string(), "{advice}");
    let page = std::fs::read_to_string(world.path("office.html")).unwrap();
    assert_eq!(page.matches("<figure>").count(), 8, "of two paths, both ways, distribution and tail");
    for scenario in ["office.toml", "office-recorded.toml"] {
        let text = std::fs::read_to_string(world.path(scenario)).unwrap();
        assert!(text.contains("[links.path2-back]") && text.contains("paths = 2"), "{text}");
        world.good(&format!("run {scenario} --set duration=2s -q"));
    }
    assert_eq!(relay.end("-TERM").0, 0);
    assert_eq!(far.end("-TERM").0, 0);
    let uneven = world.taut(&format!("probe {at} {at} {at} --path lo --path 127.0.0.1 --trust {there}"));
    assert!(uneven.status != 0 && uneven.err.contains("one HOST:PORT for all"), "{uneven:?}");
    let stranger = identity("stranger");
    let nobody = world.taut(&format!("probe {at} --identity here --trust {stranger} --for 2s --out x.toml"));
    assert!(nobody.status != 0 && nobody.err.contains("taut probe --listen"), "{nobody:?}");
    assert!(!world.path("x.toml").exists());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a probe measures in real time")]
fn a_robot_answers_probes_while_nobody_has_it() {
    let _beside = beside_one();
    let world = World::new("probe-robot");
    let mut robot = Running::start(
        world.command("robot --listen 127.0.0.1:0 --probe 127.0.0.1:0 --transport udp --plaintext --json"),
    );
    let at = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let probes = robot.wait_for("answers_probes")["address"].as_str().unwrap().to_owned();
    let probe = format!("probe {probes} --plaintext --for 2s --out office.toml --json");
    let operator = format!("operator --connect {at} --transport udp --plaintext --resume start --json");
    let mut first = Running::start(world.command(&operator));
    first.wait_for("resumed");
    let refused = world.taut(&probe);
    assert!(refused.status != 0 && refused.err.contains("has an operator"), "{refused:?}");
    // It leaves, and the robot is free.
    assert_eq!(first.end("-TERM").0, 0);
    let probed = world.taut(&probe);
    assert_eq!(probed.status, 0, "{probed:?}");
    // What follows a measurement, the simulations, is ended by a signal too.
    let mut ended_later = Running::start(world.command(&probe));
    ended_later.wait_for("measured");
    assert_eq!(ended_later.end("-INT").0, 130);
    // One that is under way is broken off.
    let mut broken = world.command(&format!("probe {probes} --plaintext --for 10s --json"));
    let broken = broken.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let mut second = Running::start(world.command(&operator));
    second.wait_for("resumed");
    let broken = ended(broken.wait_with_output().unwrap());
    assert!(broken.status != 0 && broken.err.contains("has an operator"), "{broken:?}");
    assert_eq!(second.end("-TERM").0, 0);
    assert_eq!(robot.end("-TERM").0, 0);
}
