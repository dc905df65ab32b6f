//! A sender, a router with the gate and a slow link behind it, a receiver: three network namespaces, real packets, real time.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use taut_core::{Seed, Time};
use taut_link::frame_gate::{self, Filter, Policy};
use taut_media::{Packetizer, VideoTable};
use taut_netlab::{Namespace, NamespaceError};
use taut_wire::rtp::{Codec, View};
use taut_xdp::{
    AttachedGate, GateConfig, GateError, Mode, QueueReader, Request, Status, VideoFilter, Watch, ask,
    attached_devices,
};

const VIDEO: u16 = 5004;
const HAPTIC: u16 = 5005;
const FRAMES_PER_SECOND: u64 = 60;
const WARM_UP_FRAMES: usize = 255;
const FRAMES: usize = 735;
/// Of IP, at 60 frames per second of the table, and room for two thirds of it.
const RATE: &str = "700kbit";

struct Rig {
    sender: Namespace,
    router: Namespace,
    receiver: Namespace,
}

impl Rig {
    /// `None`, with the reason printed, where it cannot be made.
    fn new() -> Option<Self> {
        let make = || -> Result<Self, NamespaceError> {
            let rig =
                Self { sender: Namespace::new()?, router: Namespace::new()?, receiver: Namespace::new()? };
            let Self { sender, router, receiver } = &rig;
            Namespace::join((sender, "out", "10.71.0.1/24"), (router, "in", "10.71.0.2/24"))?;
            Namespace::join((router, "out", "10.72.0.1/24"), (receiver, "in", "10.72.0.2/24"))?;
            sender.ip("route add default via 10.71.0.2")?;
            receiver.ip("route add default via 10.72.0.1")?;
            router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?.expect("it forwards");
            Ok(rig)
        };
        let rig = match make() {
            Ok(rig) => rig,
            Err(error) if error.lacks_means() => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        // Video has a class of its own with a slow link; all else passes at once.
        rig.tc("qdisc add dev out root handle 1: htb")?;
        rig.tc("class add dev out parent 1: classid 1:2 htb rate 100mbit")?;
        rig.tc(&format!("qdisc add dev out parent 1:2 handle 20: tbf rate {RATE} burst 3000 latency 200ms"))?;
        let video = format!("u32 match ip dport {VIDEO} 0xffff flowid 1:2");
        rig.tc(&format!("filter add dev out parent 1: protocol ip prio 1 {video}"))?;
        Some(rig)
    }

    /// `None`, with the reason printed, where there is no such queueing discipline.
    fn tc(&self, arguments: &str) -> Option<()> {
        let run = || Command::new("tc").args(arguments.split_whitespace()).output();
        let said = match self.router.run(run).expect("the router is there") {
            Ok(output) if output.status.success() => return Some(()),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("skipped: tc {arguments}: {said}");
        None
    }

    fn bind(&self, namespace: &Namespace, address: &str) -> UdpSocket {
        namespace.run(|| UdpSocket::bind(address)).expect("it is there").expect("a socket")
    }

    fn config(&self, policy: Policy, mode: Mode) -> GateConfig {
        let filters = vec![VideoFilter::new(Filter::port(VIDEO)).to([10, 72, 0, 2].into())];
        let watch = "qdisc:out/20:".parse().expect("a name");
        GateConfig::new("in", filters, watch, frame_gate::GateConfig::new(policy)).mode(mode)
    }
}

/// What arrived.
#[derive(Debug)]
struct Outcome {
    packet_loss: f64,
    frame_loss: f64,
    haptic: (u64, u64),
    status: Option<Status>,
}

/// Sends video and force through the router for some seconds.
fn session(rig: &Rig, gate: Option<(Policy, Mode)>) -> Result<Outcome, GateError> {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(2));
    let (video_in, haptic_in) = (
        rig.bind(&rig.receiver, &format!("0.0.0.0:{VIDEO}")),
        rig.bind(&rig.receiver, &format!("0.0.0.0:{HAPTIC}")),
    );
    std::thread::scope(|scope| {
        let running = gate.map(|(policy, mode)| {
            let (config, stop, ready) = (rig.config(policy, mode), &stop, &ready);
            scope.spawn(move || {
                let run = || {
                    let attached = AttachedGate::attach(config);
                    ready.wait();
                    let mut gate = attached?;
                    while !stop.load(Ordering::Relaxed) && gate.turn()? {}
                    gate.status()
                };
                rig.router.run(run).expect("the router is there")
            })
        });
        if running.is_some() {
            ready.wait();
        }
        let video = scope.spawn(|| received(&video_in));
        let haptic = scope.spawn(|| received(&haptic_in));
        let (sent, haptic_sent) = send(rig);
        let (video, haptic) = (video.join().expect("no panic"), haptic.join().expect("no panic"));
        stop.store(true, Ordering::Relaxed);
        let status = running.map(|gate| gate.join().expect("no panic")).transpose()?;
        let (packet_loss, frame_loss) = losses(&sent, &video);
        Ok(Outcome { packet_loss, frame_loss, haptic: (haptic_sent, haptic.len() as u64), status })
    })
}

/// Until nothing comes any more. The first packet may take seconds: the kernel lets a new device send up to a second after it is up.
fn received(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 2_000];
    let within = |time| socket.set_read_timeout(Some(time)).expect("a socket has one");
    within(Duration::from_secs(10));
    let packets = std::iter::from_fn(|| {
        let length = socket.recv(&mut buffer).ok()?;
        within(Duration::from_millis(800));
        Some(buffer[..length].to_vec())
    });
    packets.collect()
}

/// Frames of the table in real time, and a packet of force every 2 ms. Gives the video packets.
fn send(rig: &Rig) -> (Vec<Vec<u8>>, u64) {
    let socket = rig.bind(&rig.sender, "10.71.0.1:0");
    let urgent = rig.bind(&rig.sender, "10.71.0.1:0");
    let table = VideoTable::vp8_25fps_400k();
    let mut packetizer = Packetizer::new(Codec::Vp8, 7, &mut Seed::new(1).stream("rtp")).max_packet(500);
    let (mut sent, mut haptic) = (Vec::new(), 0);
    let start = Instant::now();
    for (index, frame) in (0..).zip(table.frames().iter().cycle().take(FRAMES)) {
        let due = Duration::from_nanos(index * 1_000_000_000 / FRAMES_PER_SECOND);
        while start.elapsed() < due {
            if start.elapsed().as_millis() as u64 / 2 >= haptic {
                urgent.send_to(&[0; 64], ("10.72.0.2", HAPTIC)).expect("sent");
                haptic += 1;
            }
            sleep(Duration::from_micros(500));
        }
        let bytes = vec![u8::from(!frame.key); frame.size.get() as usize];
        packetizer.packetize(Time::from_nanos(due.as_nanos() as u64), &bytes, |packet| {
            socket.send_to(packet, ("10.72.0.2", VIDEO)).expect("sent");
            sent.push(packet.to_vec());
        });
    }
    (sent, haptic)
}

/// Of packets and of frames, after the time to warm up.
fn losses(sent: &[Vec<u8>], received: &[Vec<u8>]) -> (f64, f64) {
    let timestamp = |packet: &Vec<u8>| View::new_checked(packet).expect("RTP").repr().timestamp;
    let mut order: Vec<u32> = sent.iter().map(timestamp).collect();
    order.dedup();
    let counted: Vec<u32> = order.split_off(WARM_UP_FRAMES);
    let mut frames: BTreeMap<u32, (u32, u32)> = counted.iter().map(|frame| (*frame, (0, 0))).collect();
    for packet in sent {
        frames.entry(timestamp(packet)).and_modify(|frame| frame.0 += 1);
    }
    for packet in received {
        frames.entry(timestamp(packet)).and_modify(|frame| frame.1 += 1);
    }
    let packets: u32 = frames.values().map(|frame| frame.0).sum();
    let arrived: u32 = frames.values().map(|frame| frame.1).sum();
    let whole = frames.values().filter(|frame| frame.0 == frame.1).count();
    (1.0 - f64::from(arrived) / f64::from(packets), 1.0 - whole as f64 / frames.len() as f64)
}

/// `None`, with the reason printed, where gates cannot be attached.
fn available<T>(outcome: Result<T, GateError>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error @ (GateError::NotBuilt | GateError::NotPermitted | GateError::NoXdp)) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn no_program_is_left(rig: &Rig) {
    let link = rig.router.ip("link show dev in").expect("the device is there");
    assert!(!link.contains("xdp"), "{link}");
}

fn frames_are_lost_as_packets_are(policy: Policy, mode: Mode, within: f64) {
    let Some(rig) = Rig::new() else { return };
    let Some(with) = available(session(&rig, Some((policy, mode)))) else { return };
    println!("{policy}, {mode}: {with:?}");
    assert!(with.packet_loss > 0.1, "the link is too slow for all: {with:?}");
    assert!((with.frame_loss - with.packet_loss).abs() < within, "{with:?}");
    assert_eq!(with.haptic.0, with.haptic.1, "force is not touched");
    let status = with.status.expect("a gate was there");
    assert_eq!(status.mode, mode.to_string());
    let [stream] = &status.streams[..] else { panic!("one stream: {status:?}") };
    assert!(stream.dropped_frames > 50 && stream.passed_frames > 200, "{status:?}");
    no_program_is_left(&rig);
}

#[test]
fn natively_by_deadline_frames_are_lost_as_packets_are() {
    frames_are_lost_as_packets_are(Policy::Deadline, Mode::Native, 0.01);
}

#[test]
fn generically_by_deadline_frames_are_lost_as_packets_are() {
    frames_are_lost_as_packets_are(Policy::Deadline, Mode::Generic, 0.01);
}

/// It learns the limit from packets that the queue drops, some 25 here, and each breaks a frame: 0.8 to 1.3 points.
#[test]
fn by_the_policy_of_the_source_frames_are_lost_as_packets_are() {
    frames_are_lost_as_packets_are(Policy::Aimd3, Mode::Native, 0.02);
}

#[test]
fn without_the_gate_more_frames_are_lost_than_packets() {
    let Some(rig) = Rig::new() else { return };
    let without = session(&rig, None).expect("nothing to attach");
    println!("without: {without:?}");
    assert!(without.frame_loss > without.packet_loss + 0.5, "{without:?}");
}

#[test]
fn a_gate_answers_and_is_taken_off_by_who_asks_and_by_a_panic() {
    let Some(rig) = Rig::new() else { return };
    let attach = || AttachedGate::attach(rig.config(Policy::Aimd3, Mode::Auto));
    let Some(()) = available(rig.router.run(|| attach().map(drop)).unwrap()) else { return };
    no_program_is_left(&rig);
    std::thread::scope(|scope| {
        let (ready, run) = std::sync::mpsc::channel();
        let (rig, attach) = (&rig, &attach);
        let attached = scope.spawn(move || {
            let run = || {
                let mut gate = attach().unwrap();
                assert!(matches!(attach(), Err(GateError::Attached(device)) if device == "in"));
                ready.send(()).unwrap();
                while gate.turn().unwrap() {}
                // The value is still there, the program is not.
                no_program_is_left(rig);
            };
            rig.router.run(run).unwrap();
        });
        run.recv().unwrap();
        assert!(rig.router.ip("link show dev in").unwrap().contains("xdp"));
        rig.router
            .run(|| {
                assert_eq!(attached_devices().unwrap(), ["in"]);
                let status = ask("in", Request::Status).unwrap();
                assert_eq!((status.device.as_str(), status.watch.as_str()), ("in", "qdisc:out/20:"));
                assert!(!status.limiting && status.rate_limit_bytes.is_none());
                assert!(Status::prometheus(&[status]).contains("taut_gate_limiting{device=\"in\""));
                ask("in", Request::Detach).unwrap();
            })
            .unwrap();
        attached.join().unwrap();
    });
    let unanswered = rig.router.run(|| ask("in", Request::Status)).unwrap();
    assert!(matches!(unanswered, Err(GateError::NotAttached(_))), "{unanswered:?}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        rig.router.run(|| -> () {
            let _gate = attach().unwrap();
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    }));
    assert!(panicked.is_err());
    no_program_is_left(&rig);
}

#[test]
fn what_is_gone_is_one_line_and_leaves_nothing_behind() {
    let Some(rig) = Rig::new() else { return };
    let inside = |device: &str, watch: &str| {
        let filters = vec![VideoFilter::new(Filter::port(VIDEO))];
        let config = GateConfig::new(
            device,
            filters,
            watch.parse().unwrap(),
            frame_gate::GateConfig::new(Policy::Step),
        );
        rig.router.run(|| AttachedGate::attach(config).map(drop).map_err(|error| error.to_string())).unwrap()
    };
    if let Err(error) = inside("in", "qdisc:out")
        && ["sudo", "clang", "kernel"].iter().any(|word| error.contains(word))
    {
        println!("skipped: {error}");
        return;
    }
    let cases = [
        ("eth9", "qdisc:out", "there is no network device eth9; `ip link` lists them"),
        ("in", "qdisc:eth9", "there is no network device eth9; `ip link` lists them"),
        ("in", "qdisc:out/99:", "there is no qdisc:out/99:; `tc qdisc` lists them"),
    ];
    for (device, watch, message) in cases {
        assert_eq!(inside(device, watch).unwrap_err(), message);
    }
    assert!(inside("in", "qdisc:in").unwrap_err().starts_with("qdisc:in is `noqueue`"));
    no_program_is_left(&rig);
    // The device goes while the gate is there.
    let gone = rig.router.run(|| {
        let mut gate = AttachedGate::attach(rig.config(Policy::Step, Mode::Auto)).unwrap();
        rig.router.ip("link del in").unwrap();
        loop {
            match gate.turn() {
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        }
    });
    assert_eq!(gone.unwrap(), "the network device in is gone, and the gate with it");
}

#[test]
fn counters_are_those_that_tc_shows() {
    let Some(rig) = Rig::new() else { return };
    let reader = |watch: &str| rig.router.run(|| QueueReader::new(watch.parse::<Watch>().unwrap())).unwrap();
    let (mut root, mut class, mut handle) =
        (reader("qdisc:out").unwrap(), reader("qdisc:out/1:2").unwrap(), reader("qdisc:out/20:").unwrap());
    let socket = rig.bind(&rig.sender, "10.71.0.1:0");
    for _ in 0..60 {
        socket.send_to(&[0; 972], ("10.72.0.2", VIDEO)).unwrap();
    }
    sleep(Duration::from_millis(900));
    let (root, class, handle) = (root.read().unwrap(), class.read().unwrap(), handle.read().unwrap());
    assert_eq!(class, handle);
    assert_eq!(root.drops, handle.drops);
    assert!(handle.drops > 20 && handle.backlog == 0, "{handle:?}");
    // Packets count as IP counts them.
    assert_eq!(handle.sent % 1_000, 0, "{handle:?}");
    assert_eq!(handle.sent / 1_000 + handle.drops, 60);
}
