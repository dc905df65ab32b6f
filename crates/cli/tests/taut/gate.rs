//! The frame gate from the command line.
#![expect(clippy::disallowed_methods, reason = "tests wait for real time")]

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use taut_netlab::Namespace;

use crate::world::{World, ended};

#[test]
fn what_cannot_be_attached_is_one_line() {
    let world = World::new("gate-wrong");
    let cases = [
        ("gate attach nosuch9 --video udp:5004 --watch qdisc:nosuch9", "there is no network device nosuch9"),
        ("gate attach lo --video udp:5004 --watch qdisc:lo/99:", "there is no qdisc:lo/99:"),
        ("gate attach lo --video udp:5004 --watch eth0", "`eth0` names no queue: qdisc:DEVICE"),
        ("gate attach lo --video 5004 --watch qdisc:lo", "`5004` names no video: udp:5004"),
        ("gate attach lo --video udp:x:5 --watch qdisc:lo", "`udp:x:5` names no video"),
        ("gate attach lo --video udp:5004 --watch qdisc:lo --policy aimd9", "aimd1 to aimd5"),
        ("gate attach lo --video udp:5004 --watch qdisc:lo --codec av1", "vp8, h264, opaque"),
        ("gate attach lo --video udp:5004,codec=av1 --watch qdisc:lo", "vp8, h264, opaque"),
        ("gate attach lo --video udp:5004,fps=9 --watch qdisc:lo", "`fps=9` is nothing that video has"),
        ("gate attach lo --video udp:5004 --watch qdisc:lo --payload-type 72", "0 to 63, 96 to 127"),
        (
            "gate attach lo --video udp:5004 --watch qdisc:lo --bandwidth-once",
            "--bandwidth-once does nothing here",
        ),
        ("gate attach lo --video udp:5004 --watch qdisc:lo --loss-threshold 0", "aimd1 to aimd5"),
        (
            "gate attach lo --video udp:5004 --watch qdisc:lo --reset-interval 1s",
            "--reset-interval does nothing here",
        ),
        (
            "gate attach lo --video udp:5004 --watch qdisc:lo --policy aimd3 --wait 1s",
            "--wait does nothing here",
        ),
        ("gate attach lo --video udp:5004 --watch qdisc:lo --policy step --deadline 1s", "--policy deadline"),
        (
            "gate attach lo --video udp:5004 --watch qdisc:lo --policy dyna1 --key-deadline 1s",
            "--key-deadline",
        ),
        ("gate status nosuch9", "nosuch9 has no gate in this network namespace"),
        ("gate detach nosuch9", "nosuch9 has no gate in this network namespace"),
    ];
    for (arguments, message) in cases {
        let ended = world.taut(arguments);
        assert_eq!((ended.status, ended.err.lines().count()), (2, 1), "{arguments}: {ended:?}");
        assert!(ended.err.contains(message), "{arguments}: {}", ended.err);
    }
}

/// A router between two devices, `in` and `out`, with a queue at the latter; `None`, with the reason printed, without root.
fn router() -> Option<(Namespace, Namespace)> {
    let made = Namespace::named("taut-cli-gate").and_then(|router| Ok((router, Namespace::new()?)));
    let (router, other) = match made {
        Ok(made) => made,
        Err(error) if error.lacks_means() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    Namespace::join((&router, "in", "10.73.0.1/24"), (&other, "in", "10.73.0.2/24")).unwrap();
    Namespace::join((&router, "out", "10.74.0.1/24"), (&other, "out", "10.74.0.2/24")).unwrap();
    let tc =
        || Command::new("tc").args(["qdisc", "add", "dev", "out", "root", "handle", "7:", "bfifo"]).status();
    if !router.run(tc).unwrap().is_ok_and(|status| status.success()) {
        println!("skipped: tc has no bfifo");
        return None;
    }
    Some((router, other))
}

/// The command, inside the namespace.
fn inside(router: &Namespace, world: &World, arguments: &str) -> Command {
    let command = world.command(arguments);
    let mut inside = Command::new("ip");
    inside.args(["netns", "exec", router.name().unwrap()]);
    inside.arg(command.get_program()).args(command.get_args());
    inside
}

/// Attaches a gate and waits until it answers. `None`, with the reason printed, where that cannot be.
fn attached(router: &Namespace, world: &World) -> Option<Child> {
    let attach = "gate attach in --video udp:5004 --policy aimd3 --watch qdisc:out/7:";
    let mut attach = inside(router, world, attach);
    let mut gate = attach.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..100 {
        if let Some(status) = gate.try_wait().unwrap() {
            let said = ended(gate.wait_with_output().unwrap()).err;
            assert!(["clang", "sudo", "kernel"].iter().any(|word| said.contains(word)), "{status}: {said}");
            println!("skipped: {said}");
            return None;
        }
        if ended(inside(router, world, "gate status in").output().unwrap()).status == 0 {
            return Some(gate);
        }
        sleep(Duration::from_millis(50));
    }
    panic!("no gate after 5 s");
}

fn is_attached(router: &Namespace) -> bool {
    router.ip("link show dev in").unwrap().contains("xdp")
}

#[test]
fn a_gate_is_attached_asked_and_detached() {
    let Some((router, _other)) = router() else { return };
    let world = World::new("gate");
    let Some(gate) = attached(&router, &world) else { return };
    assert!(is_attached(&router));
    let threads: Vec<_> = std::fs::read_dir(format!("/proc/{}/task", gate.id())).unwrap().collect();
    assert_eq!(threads.len(), 2, "the loop and the signals");
    for thread in threads {
        let told = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        for none in ["CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "NoNewPrivs:\t1\n"] {
            assert!(told.contains(none), "{told}");
        }
    }
    let status = ended(inside(&router, &world, "gate status --json").output().unwrap());
    let status: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!((&status[0]["device"], &status[0]["policy"]), (&"in".into(), &"aimd3".into()), "{status}");
    assert_eq!((&status[0]["watch"], &status[0]["rate_limit_bytes"]), (&"qdisc:out/7:".into(), &Value::Null));
    let metrics = ended(inside(&router, &world, "gate status --prometheus").output().unwrap()).out;
    assert!(metrics.contains("taut_gate_k_ratio{device=\"in\",policy=\"aimd3\"} 1\n"), "{metrics}");
    let again = "gate attach in --video udp:5004 --watch qdisc:out/7:";
    let again = ended(inside(&router, &world, again).output().unwrap());
    assert!(again.err.contains("in has a gate already; `taut gate detach in`"), "{}", again.err);
    assert_eq!(ended(inside(&router, &world, "gate detach in").output().unwrap()).status, 0);
    assert!(!is_attached(&router));
    let ended = ended(gate.wait_with_output().unwrap());
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    assert!(ended.out.starts_with("in (native): aimd3, reading qdisc:out/7:\n"), "{}", ended.out);
}

#[test]
fn a_gate_that_takes_nothing_says_so_once_and_whenever_it_is_asked() {
    let Some((router, _other)) = router() else { return };
    let world = World::new("gate-takes-nothing");
    let Some(gate) = attached(&router, &world) else { return };
    let asked = || ended(inside(&router, &world, "gate status in").output().unwrap()).out;
    let doubt = "no RTP to udp:5004 has come in at in yet; is it another device or port, or not RTP?\n";
    assert!(!asked().contains(doubt), "it has just begun");
    sleep(Duration::from_secs(6));
    assert!(asked().ends_with(&format!("\n  {doubt}")), "{}", asked());
    assert_eq!(ended(inside(&router, &world, "gate detach in").output().unwrap()).status, 0);
    assert_eq!(ended(gate.wait_with_output().unwrap()).err, format!("taut: {doubt}"));
}

#[test]
fn nothing_stays_attached_whatever_ends_the_command() {
    let Some((router, _other)) = router() else { return };
    let world = World::new("gate-ends");
    for signal in ["-INT", "-TERM", "-KILL"] {
        let Some(gate) = attached(&router, &world) else { return };
        assert!(is_attached(&router));
        // `ip netns exec` becomes the command.
        let kill = Command::new("kill").args([signal, &gate.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let ended = gate.wait_with_output().unwrap();
        assert_eq!(ended.status.success(), signal != "-KILL", "{signal}: {ended:?}");
        // What a killed process leaves, the kernel takes away a moment later.
        sleep(Duration::from_millis(200));
        assert!(!is_attached(&router), "{signal}");
    }
}
