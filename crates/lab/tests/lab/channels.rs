//! A session with channels beside its motion.

use std::path::Path;

use taut_lab::scenario::{Direction, Scenario, Setting};
use taut_report::result::{ChannelResult, TeleopResult};

use crate::world::done;

fn shipped(settings: &[&str]) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/teleop/channels.toml");
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::read(&path)
        .and_then(|scenario| scenario.with(&settings))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn run(settings: &[&str]) -> TeleopResult {
    let what = settings.join(" ");
    done(&what, &shipped(settings)).teleop.expect("there was a session")
}

fn channel<'a>(teleop: &'a TeleopResult, name: &str) -> &'a ChannelResult {
    let channel = teleop.channels.iter().find(|channel| channel.name == name);
    channel.unwrap_or_else(|| panic!("no channel {name}"))
}

#[test]
fn what_is_made_is_delivered_dropped_or_lost_and_what_is_urgent_does_not_wait_behind_what_is_long() {
    let teleop = run(&[]);
    for channel in &teleop.channels {
        let dropped: u64 = channel.dropped.values().sum();
        assert_eq!(channel.made, channel.delivered + dropped + channel.lost, "{channel:?}");
        // The first pictures are made before it is known how fast they may go.
        let share = if channel.name == "camera" { 94 } else { 97 };
        // Of a few messages, one was made before the channel was open, and the path may lose one.
        assert!(
            channel.delivered * 100 >= channel.made * share || channel.delivered + 2 >= channel.made,
            "{channel:?}"
        );
    }
    let age = |name| channel(&teleop, name).age_ms.clone().expect("some came");
    // Nothing is faster than the network; joints wait for a frame of the camera's at most, a camera's frame for its bytes to go.
    assert!(
        age("arm/measured_js").min >= 8.0 && age("arm/measured_js").p99 < 15.0,
        "{:?}",
        age("arm/measured_js")
    );
    assert!(
        age("camera").p50 > 40.0 && age("camera").max < 300.0,
        "frames of 10 to 60 kB at 4 Mbit/s, and their deadline"
    );
    // What is reliable arrives, whatever is lost.
    for name in ["lights", "map"] {
        let reliable = channel(&teleop, name);
        assert_eq!(
            (reliable.delivered, reliable.direction),
            (reliable.made, Direction::Forward),
            "{reliable:?}"
        );
    }
    let camera = channel(&teleop, "camera");
    let megabits = camera.bytes as f64 * 8.0 / 20.0 / 1e6;
    assert!((1.8..2.2).contains(&megabits), "{megabits} Mbit/s");
    assert!(teleop.delivered_percent > Some(99.0), "states do not wait either");
    assert!(teleop.watchdogs.is_empty());
}

#[test]
fn channels_go_over_every_transport_in_the_same_way() {
    for transport in ["quic", "tcp", "sctp", "{ mpquic = {} }"] {
        let teleop = run(&["duration=4s", &format!("teleop.transport={transport}")]);
        for name in ["lights", "map"] {
            let reliable = channel(&teleop, name);
            // The last two may be on their way.
            assert!(reliable.delivered + 2 >= reliable.made, "{transport}: {reliable:?}");
        }
        let joints = channel(&teleop, "arm/measured_js");
        // A congestion control that takes every loss for a full queue holds back what may be lost.
        assert!(joints.delivered * 2 >= joints.made, "{transport}: {} of {}", joints.delivered, joints.made);
    }
}

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    let error = |from: &str, to: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/teleop/channels.toml");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{from}");
        Scenario::parse("t.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    for (error, key) in [
        (error("kind = \"video\"", "kind = \"motion\""), "teleop.channels.1.channel.kind: the simulated arm"),
        (
            error("name = \"battery\"", "name = \"camera\""),
            "teleop.channels.3.channel: channel \"camera\" is declared twice",
        ),
        (error("direction = \"to_robot\"", "priority = 3"), "teleop.channels.4.channel: say direction"),
        (error("rate = 250", "rate = 0"), "teleop.channels.0.makes.rate"),
        (error("largest = \"60kB\"", "largest = \"2MB\""), "teleop.channels.1.makes.sizes.uniform.largest"),
        (error("deadline = \"300ms\"", "deadline = \"90min\""), "teleop.channels.1.channel.deadline: is 0s"),
        (error("transport = \"udp\"", "codec = \"omni71\""), "teleop.channels: omni71 has no channels"),
    ] {
        assert!(error.contains(key), "{error}");
    }
}
