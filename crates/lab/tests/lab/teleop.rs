//! Whole sessions of operator and robot over every transport.

use std::path::Path;
use std::sync::LazyLock;

use taut_core::Seed;
use taut_lab::run::run;
use taut_lab::scenario::{Scenario, Setting};
use taut_report::result::{RunResult, StreamResult, TeleopResult};

use crate::world::{done, medium};

const SHORT: &str = r#"title = "session"
duration = "4s"
drain = "4s"

[links.there]
from = "operator"
to = "robot"
chain = [{ server = { rate = "10Mbit" } }, { delay = "10ms" }, { loss = { bernoulli = "1%" } }]

[links.back]
from = "robot"
to = "operator"
chain = [{ server = { rate = "10Mbit" } }, { delay = "10ms" }, { loss = { bernoulli = "1%" } }]

[teleop]
operator = "operator"
robot = "robot"
messages = 3000
"#;

/// Every transport, and whether it repeats states that are lost.
const TRANSPORTS: [(&str, bool); 8] = [
    (r#""udp""#, false),
    (r#""etp""#, false),
    (r#""tcp""#, true),
    (r#""quic""#, false),
    (r#""quic""#, true),
    (r#""sctp""#, true),
    (r#"{ dccp = { ccid = 2 } }"#, false),
    (r#"{ dccp = { ccid = 3 } }"#, false),
];

fn scenario(settings: &[&str]) -> Scenario {
    let scenario = Scenario::parse("session.toml", SHORT).unwrap_or_else(|e| panic!("{e}"));
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    scenario.with(&settings).unwrap_or_else(|e| panic!("{e}"))
}

fn over(transport: &str, reliable: bool, settings: &[&str]) -> Scenario {
    let (transport, reliable) =
        (format!("teleop.transport={transport}"), format!("teleop.reliable={reliable}"));
    scenario(&[&[transport.as_str(), reliable.as_str()], settings].concat())
}

fn shipped(name: &str) -> Vec<(String, Scenario)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    let scenario = Scenario::read(&path).unwrap_or_else(|e| panic!("{e}"));
    let variants = scenario.expand().unwrap_or_else(|e| panic!("{e}"));
    variants.into_iter().map(|(variant, scenario)| (variant.name, scenario)).collect()
}

fn teleop(result: &RunResult) -> &TeleopResult {
    result.teleop.as_ref().expect("there was a session")
}

fn sum(teleop: &TeleopResult, of: fn(&StreamResult) -> u64) -> u64 {
    teleop.streams.iter().map(of).sum()
}

fn refused(teleop: &TeleopResult, cause: &str) -> u64 {
    teleop.streams.iter().filter_map(|stream| stream.refused.get(cause)).sum()
}

#[test]
fn every_transport_carries_a_session_whose_books_close() {
    for secure in [true, false] {
        for (transport, reliable) in TRANSPORTS {
            let what = format!("{transport} reliable {reliable} secure {secure}");
            let result = done(&what, &over(transport, reliable, &[&format!("teleop.secure={secure}")]));
            let teleop = teleop(&result);
            assert_eq!(teleop.made, 3000, "{what}");
            assert_eq!(sum(teleop, |s| s.made), 3000, "{what}");
            assert_eq!(teleop.closed_s, None, "{what}");
            // What TCP lost holds up all that came after it, meanwhile newer states take the place of those that wait, and each stall steps the rate
            // down by an eighth; DCCP sends as much as a congested path would carry.
            let (share, most) = match transport {
                tcp if tcp.contains("tcp") => (50.0, 100.0),
                dccp if dccp.contains("dccp") => (20.0, 250.0),
                _ => (90.0, 30.0),
            };
            assert!(teleop.delivered_percent > Some(share), "{what}: {teleop:?}");
            assert!(sum(teleop, |s| s.applied) > 500, "{what}: {teleop:?}");
            // The handshake takes a round trip at least, and nothing is faster than the network.
            assert!(teleop.handshake_ms.is_some_and(|ms| ms < 2000.0), "{what}: {:?}", teleop.handshake_ms);
            let rtt = teleop.rtt_ms.as_ref().unwrap_or_else(|| panic!("{what}: nothing acknowledged"));
            assert!(rtt.min >= 20.0 && rtt.p50 < most, "{what}: {rtt:?}");
            let forward = medium(&result, "forward haptic").delay_ms.as_ref().unwrap();
            assert!(forward.min >= 10.0 && forward.p50 < most / 2.0, "{what}: {forward:?}");
            // Over ETP, acknowledgements and feedback share one gap of 1 ms.
            let least = if transport.contains("etp") || transport.contains("dccp") { 100 } else { 1000 };
            let felt = medium(&result, "backward haptic").delivered;
            assert!(felt > least, "{what}: {felt}");
            assert!(!result.flows[0].counters.is_empty(), "{what}");
        }
    }
}

/// DCCP's rate lets one go in some ten milliseconds here, and acknowledgements are as seldom, which is no silence of the network: the states that wait
/// are replaced all the time, with the window and without.
#[test]
fn states_over_dccp_are_as_new_with_the_window_as_without() {
    let variants =
        shipped("teleop/mobile.toml").into_iter().filter(|(name, _)| name.starts_with("lossy, DCCP"));
    let delays: Vec<_> = variants
        .flat_map(|(variant, scenario)| {
            let scenario = scenario.with(&["duration=20s".parse().unwrap()]).unwrap();
            let result = done(&variant, &scenario);
            ["forward haptic", "backward haptic"].map(|stream| {
                let delay = medium(&result, stream).delay_ms.as_ref().unwrap();
                (format!("{variant}: {stream}"), delay.p99)
            })
        })
        .collect();
    assert_eq!(delays.len(), 8);
    for (what, p99) in &delays {
        assert!((35.0..41.0).contains(p99), "{what}: {p99} ms of {delays:?}");
    }
}

/// States, feedback, and the acknowledgements of both; under Noise, IP and UDP counted.
#[test]
fn a_kilohertz_both_ways_takes_less_than_two_and_a_half_megabits() {
    let wide = ["there", "back"].map(|way| format!("links.{way}.rate=100Mbit"));
    let clean = ["there", "back"].map(|way| format!("links.{way}.loss.bernoulli=0%"));
    let bytes = |messages: u64| {
        let length = [format!("teleop.messages={messages}"), "duration=8s".to_owned()];
        let settings: Vec<&str> = wide.iter().chain(&clean).chain(&length).map(String::as_str).collect();
        let result = done("bytes", &over(r#""udp""#, false, &settings));
        teleop(&result).wire.iter().map(|way| way.bytes).sum::<u64>()
    };
    // Without what begins and ends a session.
    let rate = (bytes(6_000) - bytes(2_000)) * 8 / 4;
    println!("{rate} bit/s");
    assert!(rate < 2_450_000, "{rate}");
}

#[test]
fn reliable_transports_deliver_every_state_but_those_that_made_way_while_they_waited() {
    for (transport, _) in TRANSPORTS.into_iter().filter(|(_, reliable)| *reliable) {
        for loss in ["1%", "3%"] {
            let loss = format!("links.there.loss.bernoulli={loss}");
            let result =
                done(transport, &over(transport, true, &[&loss, "adaptive=false", "teleop.max_age=60s"]));
            let teleop = teleop(&result);
            let made_way: u64 = teleop
                .streams
                .iter()
                .flat_map(|stream| &stream.dropped)
                .map(|(cause, count)| {
                    assert_eq!(cause, "superseded", "{transport} {loss}");
                    count
                })
                .sum();
            let all = (teleop.arrived + made_way, teleop.made);
            assert_eq!(all, (3000, 3000), "{transport} {loss}: {teleop:?}");
            // TCP waits for a second at a time over 3 %, and newer states take the place of those that wait for its window.
            let most = match (transport.contains("tcp"), loss.contains("=3")) {
                (true, true) => 2_500,
                (true, false) => 600,
                _ => 60,
            };
            assert!(made_way < most, "{transport} {loss}: {made_way}");
            assert!(result.flows[0].dropped["loss"] > 10, "{transport}: the network lost packets");
        }
    }
}

#[test]
fn a_seed_gives_the_same_session_and_another_seed_another() {
    for (transport, reliable) in TRANSPORTS {
        let scenario = over(transport, reliable, &[]);
        let json = |seed| {
            let result = run(&scenario, Seed::new(seed), &mut |_| ()).unwrap();
            result.to_json().unwrap()
        };
        assert!(json(3) == json(3), "{transport}");
        assert!(json(3) != json(4), "{transport}");
    }
}

#[test]
fn an_emergency_stop_takes_a_round_trip_and_a_millisecond_through_full_queues_over_every_transport() {
    for (name, scenario) in shipped("teleop/emergency.toml") {
        let result = run(&scenario, Seed::new(1), &mut |_| ()).unwrap();
        assert_eq!(result.conservation.violations, Vec::<String>::new(), "{name}");
        let presses = &teleop(&result).emergencies;
        assert_eq!(presses.len(), 3, "{name}");
        for press in presses {
            assert!(press.waiting >= 1_990, "{name}: the normal queue is full: {press:?}");
            assert!(press.stopped_ms < press.acknowledged_ms, "{name}: {press:?}");
            assert!(press.added_ms().is_some_and(|ms| ms <= 1.0), "{name}: {press:?}");
        }
        assert!(result.verdict.met && result.verdict.limits.len() == 1, "{name}: {:?}", result.verdict);
        let there = result.links.iter().find(|link| link.name.starts_with("there")).unwrap();
        // A stopped robot is sent nothing, four seconds of fourteen.
        let busy = if name.starts_with("others") { 0.8 } else { 0.5 };
        assert!(there.utilisation > Some(busy), "{name}: {there:?}");
    }
}

#[test]
fn a_stop_that_is_pressed_again_within_a_round_trip_is_acknowledged_for_both_presses() {
    let settings = [r#"teleop.stops=["1s", "1.006s", "1.015s"]"#, "teleop.stop_within=1ms"];
    let scenario = over(r#""udp""#, false, &settings);
    let result = run(&scenario, Seed::new(1), &mut |_| ()).unwrap();
    assert!(result.verdict.met, "{:?}", result.verdict);
    let presses = &teleop(&result).emergencies;
    let [Some(first), Some(second), Some(third)] = [0, 1, 2].map(|at: usize| presses[at].acknowledged_ms)
    else {
        panic!("{presses:?}");
    };
    assert!(first >= 20.0 && (first - second - 6.0).abs() < 1e-6 && (first - third - 15.0).abs() < 1e-6);
    assert!(presses[0].added_ms().is_some_and(|ms| (0.0..1.0).contains(&ms)), "{presses:?}");
    assert!(presses[1..].iter().all(|press| press.added_ms().is_none()), "no packets of their own");
    let stopped = presses.iter().map(|press| press.stopped_ms.unwrap()).collect::<Vec<_>>();
    assert!(stopped[0] >= 10.0 && stopped[1] < 10.0 && stopped[2] == 0.0, "it stood already: {presses:?}");
}

#[test]
fn a_cut_stops_the_robot_after_the_watchdog_and_only_a_resume_moves_it_again() {
    for (name, scenario) in shipped("teleop/cut.toml") {
        let result = done(&name, &scenario);
        let session = teleop(&result);
        let [stop] = &session.watchdogs[..] else { panic!("{name}: {:?}", session.watchdogs) };
        assert!((5.09..5.2).contains(&stop.stopped_s), "{name}: {stop:?}");
        // So long after the last state was made: 5 ms it was on its way.
        assert!((94.5..95.5).contains(&stop.silence_ms), "{name}: {stop:?}");
        assert_eq!(session.resumed, 2, "{name}");
        assert!(refused(session, "stopped") > 100, "{name}: states came and were not applied");
        let never = scenario.with(&["teleop.watchdog=60s".parse().unwrap()]).unwrap();
        assert_eq!(teleop(&done(&name, &never)).watchdogs, [], "{name}");
    }
    let (name, scenario) = shipped("teleop/cut.toml").remove(0);
    let text = scenario.to_toml();
    let alone = text.lines().filter(|line| !line.starts_with("resume_after")).collect::<Vec<_>>().join("\n");
    let result = done(&name, &Scenario::parse("alone.toml", &alone).unwrap());
    assert_eq!(teleop(&result).resumed, 1, "nobody pressed resume");
}

#[test]
fn states_that_are_late_arrive_and_are_not_applied() {
    let jitter =
        r#"links.there.chain.3={ jitter = { distribution = "uniform", mean = "10ms", spread = "10ms" } }"#;
    let result = done("late", &scenario(&[jitter, "teleop.deadline=22ms"]));
    let session = teleop(&result);
    assert!(sum(session, |s| s.late) > 500 && refused(session, "too_late") > 500, "{session:?}");
    assert!(sum(session, |s| s.applied) > 100, "{session:?}");
}

#[test]
fn a_slow_robot_applies_the_newest_and_says_what_it_skipped() {
    let slow = r#"teleop.processing={ least = "4ms", largest = "6ms" }"#;
    let session = done("slow", &scenario(&[slow])).teleop.unwrap();
    let applied = sum(&session, |s| s.applied);
    assert!((400..750).contains(&applied), "{applied} of 3000 at 5 ms each");
    assert!(refused(&session, "superseded") > 2000, "{session:?}");
}

#[test]
fn high_priority_travels_on_its_own_stream() {
    let session = done("high", &scenario(&["teleop.high=20%"])).teleop.unwrap();
    let made = |name: &str| session.streams.iter().find(|s| s.name == name).map_or(0, |s| s.made);
    assert!((500..700).contains(&made("high")), "{session:?}");
    assert!(made("normal, odd") > 1000 && made("normal, even") > 1000, "{session:?}");
}

#[test]
fn the_source_s_samples_carry_a_session_as_well() {
    let scenario =
        scenario(&["teleop.codec=omni71", r#"teleop.stops=["2s"]"#, r#"teleop.resumes=["2500ms"]"#]);
    let result = done("omni71", &scenario);
    let session = teleop(&result);
    assert!(session.delivered_percent > Some(80.0) && session.resumed == 2, "{session:?}");
    assert!(session.emergencies[0].added_ms().is_some_and(|ms| ms <= 1.0), "{:?}", session.emergencies);
}

#[test]
fn clocks_that_are_apart_and_drift_change_nothing() {
    let clocks = [
        r#"teleop.operator_clock={ offset = "7000s", drift_ppm = 100.0 }"#,
        r#"teleop.robot_clock={ offset = "5s", drift_ppm = -100.0 }"#,
    ];
    let result = done("clocks", &scenario(&[&clocks[..], &["teleop.deadline=50ms"]].concat()));
    let session = teleop(&result);
    assert!(sum(session, |s| s.applied) > 2700, "{session:?}");
    let (error, said) = (session.clock_error_ms.unwrap(), session.clock_uncertainty_ms.unwrap());
    assert!(error < said + 0.1 && said < 30.0, "{error} {said}");
}

/// Touching the wall nearby and far away.
static WALLS: LazyLock<[RunResult; 2]> =
    LazyLock::new(|| ["wall, 0.3 ms", "wall, 40 ms"].map(|name| done(name, &touching(name))));

fn touching(name: &str) -> Scenario {
    let variants = shipped("teleop/wall.toml");
    variants.into_iter().find(|(variant, _)| variant == name).unwrap().1
}

#[test]
fn what_theory_says_of_a_touch_is_of_the_round_trip_that_the_run_had_and_stands_wherever_the_run_is_told() {
    let touches = WALLS.each_ref().map(|result| teleop(result).control.as_ref().unwrap().touch.as_ref());
    for (touch, rtt_ms) in touches.map(Option::unwrap).into_iter().zip([0.6, 80.0]) {
        let critical = touch.critical.unwrap();
        // As long each way as the name says.
        assert!((critical.rtt_ms - rtt_ms).abs() < 0.5, "{critical:?}");
        // The wall has 3 kN/m.
        assert_eq!(touch.calm, Some(critical.margin_n_m.is_none_or(|margin| margin > 3_000.0)), "{touch:?}");
        // The wall's damper, for the device has none, over half a period and the round trip.
        let gil_hulin = 10.0 / (0.0005 + critical.rtt_ms / 1e3);
        assert!((critical.simpler.gil_hulin_n_m.unwrap() / gil_hulin - 1.0).abs() < 1e-6, "{critical:?}");
    }
    let [near, far] = &*WALLS;
    let text = taut_report::run_text(far);
    assert!(text.contains("rattles from, by the margin of the delayed loop"), "{text}");
    let compared = taut_report::result::ComparedRun::new("", Some(near), far);
    assert_eq!(compared.real.control.as_ref(), teleop(far).control.as_ref());
}

#[test]
fn the_longer_the_network_and_the_stiffer_the_wall_the_more_energy_and_the_wall_far_away_rattles() {
    let control = |name: &str| done(name, &touching(name)).teleop.unwrap().control.unwrap();
    let [near, far] = ["foam, 0.3 ms", "foam, 40 ms"].map(control);
    let [given, more] = [&near, &far].map(|control| control.touch.clone().unwrap());
    assert_eq!((given.calm, more.calm, more.critical_rtt_ms), (Some(true), Some(true), None));
    assert!(more.drawdown_mj > 50.0 * given.drawdown_mj, "{near:?} {far:?}");
    assert!(far.tracking_rms_mm > 5.0 * near.tracking_rms_mm && near.contact_s > 5.0, "{near:?} {far:?}");
    let [near, far] = WALLS.each_ref().map(|result| teleop(result).control.as_ref().unwrap());
    let calm = [near, far].map(|control| control.touch.as_ref().and_then(|touch| touch.calm));
    assert_eq!(calm, [Some(true), Some(false)], "{near:?} {far:?}");
    let free = control("free, 40 ms");
    assert_eq!((free.touch, free.contacts, free.failure), (None, 0, None));
}

#[test]
fn only_quic_remembers_and_its_handshake_takes_one_round_trip() {
    let lossless = ["links.there.loss.bernoulli=0%", "links.back.loss.bernoulli=0%"];
    let handshake = |transport| {
        let session = done(transport, &over(transport, false, &lossless)).teleop.unwrap();
        (session.handshake_ms.unwrap(), session.resumed_handshake_ms)
    };
    let (quic, resumed) = handshake(r#""quic""#);
    assert!((20.0..25.0).contains(&quic) && resumed.is_some_and(|ms| ms <= quic), "{quic} {resumed:?}");
    let session = done("quic", &over(r#""quic""#, false, &lossless)).teleop.unwrap();
    let [first, again] = [session.first_state_ms, session.resumed_first_state_ms].map(Option::unwrap);
    // The hello travels in the first packet, and a round trip is saved.
    assert!((50.0..55.0).contains(&first) && (30.0..35.0).contains(&again), "{first} {again}");
    let (tcp, none) = handshake(r#""tcp""#);
    // TCP's round trip, then Noise's.
    assert!((40.0..45.0).contains(&tcp) && none.is_none(), "{tcp}");
    assert!((20.0..25.0).contains(&handshake(r#""udp""#).0));
}

#[test]
fn what_is_wrong_in_a_session_is_told_with_key_and_range() {
    let told = |from: &str, to: &str| {
        let text = SHORT.replace(from, to);
        assert!(text != SHORT, "{from}");
        Scenario::parse("session.toml", &text).unwrap_err().to_string()
    };
    let cases = [
        ("messages = 3000", "messages = 0", "teleop.messages: 0 is not within 1 to 1000000000"),
        ("messages = 3000", "period = \"5s\"", "teleop.period: 5s is not within 10us to 1s"),
        ("messages = 3000", "transport = \"spdy\"", "`spdy` is not one of"),
        (
            "messages = 3000",
            "transport = { dccp = { ccid = 4 } }",
            "teleop.transport.dccp.ccid: 4 is not within 2 to 3",
        ),
        ("messages = 3000", "stops = [\"2s\", \"1s\"]", "teleop.stops.1: 1s is not after 2s before it"),
        (
            "messages = 3000",
            "environment = { wall = { stiffness = 1e6 } }",
            "teleop.environment.wall.stiffness",
        ),
        (
            "messages = 3000",
            "environment = { foam = { hysteresis = 1.0 } }",
            "teleop.environment.foam.hysteresis: 1 is not within 0 to 0.9",
        ),
        (
            "messages = 3000",
            "device = { encoder = 0.1 }",
            "teleop.device.encoder: 0.1 is not within 0 to 0.01",
        ),
        ("messages = 3000", "device = { lag = \"2s\" }", "teleop.device.lag: 2s is not within 0ns to 1s"),
        ("messages = 3000", "arm = { force = 0.0 }", "teleop.arm.force: 0 is not within 0.001 to 10000"),
        ("messages = 3000", "arm = { mass = 1.0 }", "unknown key; allowed here: `friction`"),
        ("messages = 3000", "colour = 1", "unknown key; allowed here: `operator`"),
        ("robot = \"robot\"", "robot = \"moon\"", "teleop.robot: no link leads to `moon`"),
        (
            "messages = 3000",
            "[session]\noperator = \"operator\"\nrobot = \"robot\"\nforward = { haptic = {} }",
            "a scenario has one of them",
        ),
    ];
    for (from, to, expected) in cases {
        let told = told(from, to);
        assert!(told.starts_with("session.toml") && told.contains(expected), "{to}: {told}");
    }
}

#[test]
fn what_a_reliable_transport_took_arrives_on_every_network() {
    // What it does not take is refused and counted: where the path carries less than a device makes, nothing else is left.
    for (name, scenario) in shipped("transports.toml") {
        if !scenario.teleop.as_ref().unwrap().reliable {
            continue;
        }
        // Enough for the send buffers of all on the slowest, so that some are refused.
        let messages =
            if ["high", "extreme"].iter().any(|slow| name.contains(slow)) { 14_000 } else { 2_000 };
        let settings = [format!("teleop.messages={messages}"), format!("duration={}ms", messages + 3_000)];
        let settings = settings.map(|text| text.parse::<Setting>().unwrap());
        let teleop = done(&name, &scenario.with(&settings).unwrap()).teleop.unwrap();
        let of = |count: fn(&StreamResult) -> u64| teleop.streams.iter().map(count).sum::<u64>();
        let (lost, waits) = (of(|stream| stream.lost), of(|stream| stream.in_flight));
        assert!(teleop.made > messages / 2, "{name}: {}", teleop.made);
        assert_eq!((lost, waits), (0, 0), "{name}");
        let dropped = teleop.streams.iter().flat_map(|stream| &stream.dropped);
        let refused: u64 = dropped
            .map(|(cause, count)| {
                assert_eq!(cause, "send_buffer_full", "{name}");
                count
            })
            .sum();
        assert_eq!(teleop.arrived + refused, teleop.made, "{name}");
        assert!(
            refused == 0 || ["high", "extreme"].iter().any(|slow| name.contains(slow)),
            "{name}: {refused}"
        );
        assert_eq!(teleop.streams.iter().map(|stream| stream.duplicates).sum::<u64>(), 0, "{name}");
    }
}

/// Beside TCP that fills the queue a session keeps its part: the laws side by side.
///
/// ```text
/// cargo test -p taut-lab --test lab laws_beside -- --ignored --nocapture
/// ```
#[test]
#[ignore = "a table to look at"]
fn laws_beside_tcp_and_at_a_stop() {
    let cross = "\n[cross.tcp]\nfrom = \"operator\"\nto = \"robot\"\ntraffic = { tcp = {} }\n";
    for (name, law) in [
        ("own queue", "\"own_queue\""),
        ("SCReAM, 60 ms", "{ scream = { target = \"60ms\" } }"),
        ("SCReAM, 10 ms", "{ scream = { target = \"10ms\" } }"),
        ("GCC", "\"gcc\""),
    ] {
        let law = format!("teleop.congestion_control={law}");
        let text = format!("{SHORT}{cross}")
            .replace("messages = 3000", "watchdog = \"5s\"\nadaptive = false")
            .replace("duration = \"4s\"", "duration = \"30s\"");
        let scenario = Scenario::parse("beside.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        let clean = ["links.there.loss.bernoulli=0%", "links.back.loss.bernoulli=0%", law.as_str()];
        let settings: Vec<Setting> = clean.iter().map(|text| text.parse().unwrap()).collect();
        let result = done(name, &scenario.with(&settings).unwrap_or_else(|e| panic!("{e}")));
        let session = teleop(&result);
        let hz = sum(session, |s| s.applied) as f64 / 30.0;
        let late = medium(&result, "forward haptic").delay_ms.as_ref().map(|delay| delay.p99);
        let dropped: Vec<_> = session.streams.iter().map(|stream| &stream.dropped).collect();
        println!(
            "| {name} | beside TCP | {hz:.0} states/s of 1000, p99 {late:?} ms | {dropped:?} {:?}",
            session.watchdogs.len()
        );
        for (variant, scenario) in shipped("teleop/emergency.toml") {
            if variant.contains("UDP") || variant.contains("QUIC datagrams") {
                let scenario = scenario.with(&[law.parse().unwrap()]).unwrap_or_else(|e| panic!("{e}"));
                let result = run(&scenario, Seed::new(1), &mut |_| ()).unwrap();
                let presses = &teleop(&result).emergencies;
                let most = presses.iter().filter_map(|press| press.added_ms()).fold(0.0, f64::max);
                println!("| {name} | {variant} | a stop: {most:.2} ms added |");
            }
        }
    }
}
