//! Cross traffic over real sockets, beside its simulated twin. How late a host with other work wakes up is not judged.

use taut_core::Seed;
use taut_lab::scenario::Scenario;
use taut_netlab::{Cancel, Namespace, Options, RealError, run};
use taut_report::result::{FlowResult, RunResult};

const SCENARIO: &str = r#"
title = "beside commands"
duration = "3s"
warmup = "500ms"
drain = "1s"
[links.bottleneck]
between = ["operator", "robot"]
chain = [{ server = { rate = "4Mbit", queue = { bytes = "14kB" } } }, { delay = "5ms" }]
[commands]
from = "operator"
to = "robot"
transport = "udp"
paths = 1
period = "20ms"
deadline = "200ms"
[cross.bulk]
from = "robot"
to = "operator"
traffic = { tcp = { congestion = "newreno", segment = "578B", sack = false, full_ack = "ssthresh" } }
[cross.steady]
from = "robot"
to = "operator"
dscp = 10
traffic = { cbr = { rate = "500kbit", packet = "150B" } }
[cross.some]
from = "operator"
to = "robot"
count = 2
traffic = { poisson = { rate = "300kbit", packet = "300B" } }
[cross.video]
from = "operator"
to = "robot"
traffic = { rtp = { sender = "gcc", rate = "1Mbit" } }
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse("t.toml", text).unwrap()
}

/// The real run, and the simulated one; `None`, with the reason printed, where namespaces cannot be made.
fn both(text: &str) -> Option<[RunResult; 2]> {
    if let Err(error) = Namespace::new() {
        assert!(error.lacks_means(), "{error}");
        println!("skipped: {error}");
        return None;
    }
    let (scenario, seed) = (scenario(text), Seed::new(1));
    let real = run(&scenario, seed, &Options::new(), &Cancel::default(), &mut |_| {}).unwrap();
    Some([real, taut_lab::run::run(&scenario, seed, &mut |_| {}).unwrap()])
}

fn flow<'a>(run: &'a RunResult, name: &str) -> &'a FlowResult {
    run.flows.iter().find(|flow| flow.name == name).unwrap_or_else(|| panic!("no flow {name}"))
}

#[test]
fn every_flow_is_in_the_result_as_in_a_simulated_run() {
    let Some([real, twin]) = both(SCENARIO) else { return };
    let names = |run: &RunResult| {
        run.flows
            .iter()
            .map(|flow| (flow.name.clone(), flow.owner.clone(), flow.kind.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&real), names(&twin));
    // What does not react sends the same packets at the same times; those that a busy host sends late may miss the end.
    for name in ["steady", "some/1", "some/2"] {
        let (one, other) = (flow(&real, name), flow(&twin, name));
        assert!((one.sent_bps / other.sent_bps - 1.0).abs() < 0.1, "{name}: {one:?} {other:?}");
        assert!(one.delivered + one.dropped.values().sum::<u64>() <= one.sent, "{one:?}");
        let delay = one.delay_ms.as_ref().unwrap();
        assert!(delay.min >= 5.0, "{name}: {delay:?}");
    }
    let (bulk, acks) = (flow(&real, "bulk"), flow(&real, "bulk acks"));
    assert!(bulk.delivered > 100 && acks.delivered > 50, "{bulk:?} {acks:?}");
    assert!(bulk.counters.contains_key("retransmitted"), "{bulk:?}");
    // Full segments are as long on the wire as the scenario has them, IP and TCP headers counted.
    assert!(bulk.sent_bps * 2.5 / 8.0 <= bulk.sent as f64 * 578.0, "{bulk:?}");
    assert!(flow(&real, "video reports").delivered > 5);
    assert!(real.videos[0].frames_sent > 10, "{:?}", real.videos);
    // The session's own is what is left.
    assert!(flow(&real, "commands").sent < 1_000, "{:?}", flow(&real, "commands"));
    let books = &real.conservation;
    let dropped: u64 = books.dropped.values().sum();
    assert_eq!(books.sent + books.duplicated, books.delivered + dropped + books.held, "{books:?}");
    assert_eq!(books.sent, real.flows.iter().map(|flow| flow.sent).sum::<u64>());
}

#[test]
fn cross_traffic_runs_by_itself_between_the_ends_of_its_link() {
    let alone = r#"
title = "alone"
duration = "1s"
drain = "0s"
[links.one]
between = ["a", "b"]
chain = [{ delay = "2ms" }]
[cross.voice]
from = "b"
to = "a"
traffic = "voice"
[cross.steady]
from = "b"
to = "a"
traffic = { cbr = { rate = "100kbit", packet = "28B" } }
"#;
    let Some([real, twin]) = both(alone) else { return };
    assert_eq!(real.flows.len(), 2);
    let (one, other) = (flow(&real, "steady"), flow(&twin, "steady"));
    assert!(one.sent > 300 && one.sent <= other.sent + 30, "{one:?} {other:?}");
    assert!(real.conservation.holds && real.conservation.violations.is_empty());
    assert!(real.flows[0].counters.contains_key("emulator_late_p99_us"), "{:?}", real.flows[0]);
}

#[test]
fn a_link_one_way_is_enough_for_cross_traffic_that_nobody_answers() {
    let one_way = r#"
title = "one way"
duration = "1s"
drain = "0s"
[links.one]
from = "a"
to = "b"
chain = [{ delay = "2ms" }]
[cross.steady]
from = "a"
to = "b"
traffic = { cbr = { rate = "100kbit", packet = "75B" } }
"#;
    let Some([real, _]) = both(one_way) else { return };
    let steady = flow(&real, "steady");
    assert!(steady.delivered > 50 && steady.delay_ms.as_ref().is_some_and(|d| d.min >= 2.0), "{steady:?}");
}

/// The devices go on through the drain, so that what waits then may still travel; rates are of what was sent before.
#[test]
fn rates_of_a_session_are_those_of_the_time_that_counts() {
    let session = r#"
title = "media"
duration = "2s"
warmup = "500ms"
drain = "2s"
[links.bottleneck]
between = ["operator", "robot"]
chain = [{ server = { rate = "10Mbit", queue = { bytes = "50kB" } } }, { delay = "5ms" }]
[session]
operator = "operator"
robot = "robot"
transport = "udp"
[session.forward]
haptic = {}
[session.backward]
haptic = {}
[cross.steady]
from = "operator"
to = "robot"
traffic = { cbr = { rate = "2Mbit", packet = "500B" } }
"#;
    let Some([real, twin]) = both(session) else { return };
    for name in ["session forward", "session backward"] {
        let (one, other) = (flow(&real, name), flow(&twin, name));
        for (one, other) in [
            (one.sent_bps, other.sent_bps),
            (one.delivered_bps, other.delivered_bps),
            (one.efficiency.unwrap(), other.efficiency.unwrap()),
        ] {
            assert!((one / other - 1.0).abs() < 0.1, "{name}: {one} {other}");
        }
    }
}

#[test]
fn a_run_that_is_cancelled_ends_long_before_its_cross_traffic() {
    let long = SCENARIO.replace("duration = \"3s\"", "duration = \"3000s\"");
    if Namespace::new().is_err() {
        return println!("skipped: no namespaces");
    }
    let cancel = Cancel::default();
    let other = cancel.clone();
    let mut cancelled = move |_| other.cancel();
    let ended = run(&scenario(&long), Seed::new(1), &Options::new(), &cancel, &mut cancelled);
    assert!(matches!(ended, Err(RealError::Interrupted)), "{ended:?}");
}
