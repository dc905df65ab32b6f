//! Captures as Wireshark sees them.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::world::World;

/// Lossy both ways, with TCP beside: one bulk transfer with selective acknowledgements, one without. ECN is not used.
const SCENARIO: &str = r#"title = "captured"
duration = "1s"
drain = "300ms"

[links.wire]
between = ["a", "b"]
chain = [
    { server = { rate = "6Mbit", queue = { bytes = "14kB" } } },
    { delay = "8ms" },
    { loss = { bernoulli = "1%" } },
    { corrupt = "1%" },
    { duplicate = "0.5%" },
]

[session]
operator = "a"
robot = "b"

[session.forward]
haptic = { period = "1ms" }
dscp = 46

[session.backward]
haptic = { period = "1ms" }
audio = {}
video = { source = "vp8" }

[cross.sack]
from = "b"
to = "a"
traffic = { tcp = { sack = true } }

[cross.plain]
from = "a"
to = "b"
traffic = { tcp = { congestion = "cubic", sack = false } }

[cross.noise]
from = "a"
to = "b"
traffic = { cbr = { rate = "1Mbit", packet = "150B" } }
"#;

/// Whether there is something to ask; says why not.
fn tshark_is_here() -> bool {
    let found = Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = &found {
        println!("skipped: tshark cannot be run: {error}");
    }
    found.is_ok()
}

/// Frames of the capture that a display filter chooses, checksums checked.
fn frames(world: &World, filter: &str) -> u64 {
    let checks = ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "tcp.check_checksum:TRUE"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(world.path("out/packets.pcapng"));
    checks.iter().for_each(|check| _ = tshark.args(["-o", check]));
    let output = tshark.args(["-Y", filter, "-T", "fields", "-e", "frame.number"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn run(world: &World, transport: &str) -> (Value, Vec<Value>) {
    world.write(
        "s.toml",
        SCENARIO.replace("robot = \"b\"", &format!("robot = \"b\"\ntransport = {transport}")),
    );
    world.good("run s.toml --capture --events --out out");
    let events = String::from_utf8(world.read("out/events.jsonl")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (serde_json::from_slice(&world.read("out/run.json")).unwrap(), events)
}

/// Packets of some flows at their senders and at their receivers: as often each of them is in the capture.
fn seen(run: &Value, chosen: impl Fn(&str) -> bool) -> u64 {
    let flows = run["flows"].as_array().unwrap().iter().filter(|flow| chosen(flow["kind"].as_str().unwrap()));
    flows.map(|flow| flow["sent"].as_u64().unwrap() + flow["delivered"].as_u64().unwrap()).sum()
}

fn check(name: &str, transport: &str, session_is_tcp: bool) {
    if !tshark_is_here() {
        return;
    }
    let world = World::new(name);
    let (run, events) = run(&world, transport);
    assert_eq!(frames(&world, "_ws.malformed && !tcp"), 0);

    let count = |kind: &str| events.iter().filter(|event| event["event"] == kind).count() as u64;
    // A flipped bit may make a header of TCP longer than its packet.
    assert!(frames(&world, "_ws.malformed") <= count("corrupted").min(1));
    let conservation = |what: &str| run["conservation"][what].as_u64().unwrap();
    assert_eq!((count("sent"), count("received")), (conservation("sent"), conservation("delivered")));
    assert_eq!(frames(&world, "ip"), count("sent") + count("received"));
    let is_tcp = |kind: &str| kind.starts_with("tcp") || (kind == "session" && session_is_tcp);
    assert_eq!(frames(&world, "tcp && !icmp"), seen(&run, is_tcp));
    assert_eq!(frames(&world, "udp"), seen(&run, |kind| !is_tcp(kind)));

    assert_eq!(frames(&world, "ip.checksum.status != 1"), 0);
    assert_eq!(frames(&world, "ip.dsfield.ecn != 0"), 0);
    assert!(frames(&world, "tcp.options.sack.count > 0") > 0);
    assert!(frames(&world, "tcp.checksum.status == 1") > 0);
    check_corrupted(&world, &events);
}

/// Checksums are wrong where a bit was flipped, and nowhere else. Those over zeros that nobody stored are not checked.
fn check_corrupted(world: &World, events: &[Value]) {
    let of = |kind: &'static str| {
        let key = |event: &Value| (event["id"].as_u64().unwrap(), event["copy"].as_u64().unwrap());
        events.iter().filter(move |event| event["event"] == kind).map(key).collect::<Vec<_>>()
    };
    let flipped = of("corrupted");
    // A copy of a packet with a flipped bit has it too.
    let arrived =
        of("received").into_iter().filter(|(id, _)| flipped.iter().any(|(flipped, _)| flipped == id));
    let wrong = frames(world, "udp.checksum.status == 0 || tcp.checksum.status == 0");
    assert!(wrong > 0 && wrong <= arrived.count() as u64, "{wrong} wrong checksums");
    let sender_side = frames(
        world,
        "(udp.checksum.status == 0 || tcp.checksum.status == 0) && ip.src == 10.0.0.1 && frame.interface_id == 0",
    );
    assert_eq!(sender_side, 0);
}

#[test]
fn media_over_udp_is_not_malformed() {
    check("wireshark-udp", "\"udp\"", false);
}

#[test]
fn media_over_etp_is_not_malformed() {
    check("wireshark-etp", "\"etp\"", false);
}

#[test]
fn media_over_tcp_is_not_malformed() {
    check("wireshark-tcp", "{ tcp = { sack = true } }", true);
}

#[test]
fn a_bulk_transfer_without_loss_is_clean_tcp() {
    if !tshark_is_here() {
        return;
    }
    let world = World::new("wireshark-clean");
    let clean = "title = 't'\nduration = '1s'\ndrain = '0s'\n[links.wire]\nbetween = ['a', 'b']\n\
        chain = [{ server = { rate = '2Mbit' } }, { delay = '5ms' }]\n\
        [cross.bulk]\nfrom = 'a'\nto = 'b'\ntraffic = { tcp = { sack = true } }\n";
    world.write("s.toml", clean);
    world.good("run s.toml --capture --out out");
    assert_eq!(frames(&world, "_ws.malformed || tcp.checksum.status == 0"), 0);
    assert_eq!(frames(&world, "tcp.flags.syn == 1 && tcp.flags.ack == 0"), 2, "one SYN, at both ends");
    // Each host by itself: together they look like retransmissions.
    assert!(frames(&world, "tcp.len == 0 && tcp.checksum.status == 1") > 100);
    assert_eq!(frames(&world, "tcp.checksum.status == 2"), frames(&world, "tcp.len > 0"));
}
