//! What a result says, and what it leaves out because nothing was measured.

use serde_json::Value;
use taut_lab::scenario::{Direction, Scenario};
use taut_report::measures::of_campaign;
use taut_report::result::{FlowOwner, FlowPart, FlowResult, RunResult};
use taut_report::{run_html, run_text};

use crate::world::{done, medium, short};

const WIRE: &str = r#"{ server = { rate = "6Mbit" } }, { delay = "8ms" }"#;

fn flow<'a>(result: &'a RunResult, name: &str) -> &'a FlowResult {
    result.flows.iter().find(|flow| flow.name == name).unwrap()
}

#[test]
fn where_nothing_arrived_nothing_is_measured_and_no_limit_is_met() {
    let result = done("cut", &short(r#"{ cut = { at = "0s" } }"#, "", "haptic = {}"));
    let haptic = medium(&result, "backward haptic");
    assert_eq!((haptic.delivered, haptic.lost), (0, haptic.made));
    assert_eq!((&haptic.delay_ms, &haptic.jitter_ms, haptic.jitter_max_ms), (&None, &None, None));
    assert_eq!((haptic.delay_buckets_ms, haptic.loss_percent), (None, Some(100.0)));
    assert!(!result.verdict.met);
    for limit in &result.verdict.limits {
        assert!(!limit.met, "{limit:?}");
        assert_eq!(limit.reason.as_deref(), Some("nothing arrived"), "{limit:?}");
        assert_eq!(limit.value.is_some(), limit.quantity == "loss", "{limit:?}");
    }
    assert_eq!(flow(&result, "session backward").delay_ms, None);
    let json: Value = serde_json::from_slice(&result.to_json().unwrap()).unwrap();
    assert!(json["media"][0]["delay_ms"].is_null() && json["verdict"]["limits"][0]["value"].is_null());
    let text = run_text(&result);
    let line = text.lines().find(|line| line.contains("backward haptic delay")).unwrap();
    assert!(line.contains("–") && line.ends_with("NOT MET: nothing arrived"), "{line}");
    assert!(run_html(&result).contains("Delay of backward haptic: nothing arrived; the limit is 30 ms."));
}

#[test]
fn jitter_of_a_single_delivery_cannot_be_judged() {
    let result = done("one", &short(WIRE, "", "haptic = { period = \"900ms\" }\naudio = { frame = \"1s\" }"));
    let haptic = medium(&result, "backward haptic");
    assert!(haptic.delivered <= 2, "{}", haptic.delivered);
    let judged = |stream: &str, quantity: &str| {
        let limits = &result.verdict.limits;
        limits.iter().find(|limit| limit.stream == stream && limit.quantity == quantity).unwrap()
    };
    assert_eq!(medium(&result, "backward audio").delivered, 1);
    let jitter = judged("backward audio", "jitter");
    assert_eq!((jitter.value, jitter.met, jitter.reason.as_deref()), (None, false, Some("only one arrived")));
    assert!(judged("backward audio", "delay").met && !result.verdict.met);
}

#[test]
fn every_cause_of_refusal_reaches_the_result() {
    let chain = r#"{ corrupt = "20%" }, { duplicate = "20%" }"#;
    let udp = done("udp", &short(chain, "", "haptic = {}\naudio = {}"));
    for node in ["operator", "robot"] {
        let refused = &udp.refusals.iter().find(|refusals| refusals.node == node).unwrap().refused;
        assert!(refused["corrupted"] > 100, "{node}: {refused:?}");
    }
    assert!(medium(&udp, "backward haptic").duplicates > 100);
    assert!(run_html(&udp).contains("packets at robot") && run_text(&udp).contains("packets at robot"));
    let tcp = done("tcp", &short(chain, "transport = \"tcp\"", "haptic = {}"));
    let twice = tcp.refusals.iter().filter_map(|refusals| refusals.refused.get("duplicate")).sum::<u64>();
    assert!(twice > 10, "{:?}", tcp.refusals);
}

#[test]
fn flows_say_whose_they_are() {
    let cross = r#"
[cross."session x"]
from = "a"
to = "b"
count = 2
traffic = { tcp = {} }

[cross."operator sender"]
from = "b"
to = "a"
traffic = "voice"
"#;
    let text = short(WIRE, "", "haptic = {}").to_toml() + cross;
    let result = done("owners", &Scenario::parse("owners.toml", &text).unwrap());
    let owners: Vec<(&str, &FlowOwner, bool)> = result
        .flows
        .iter()
        .map(|flow| (flow.name.as_str(), &flow.owner, flow.efficiency.is_some()))
        .collect();
    let of = |entry: &str, index, part| FlowOwner::Cross { entry: entry.to_owned(), index, part };
    assert_eq!(
        owners,
        [
            ("session forward", &FlowOwner::Session(Direction::Forward), true),
            ("session backward", &FlowOwner::Session(Direction::Backward), true),
            ("operator sender", &of("operator sender", 0, FlowPart::Data), false),
            ("session x/1", &of("session x", 0, FlowPart::Data), false),
            ("session x/1 acks", &of("session x", 0, FlowPart::Acks), false),
            ("session x/2", &of("session x", 1, FlowPart::Data), false),
            ("session x/2 acks", &of("session x", 1, FlowPart::Acks), false),
        ]
    );
}

#[test]
fn transports_tell_what_they_counted() {
    let lossy = r#"{ server = { rate = "600kbit", queue = { bytes = "10kB" } } }, { delay = "8ms" }"#;
    let run =
        |transport: &str| done(transport, &short(lossy, &format!("transport = {transport}"), "haptic = {}"));
    let udp = run("\"udp\"");
    let counted = &flow(&udp, "session backward").counters;
    assert_eq!((counted["sent"], counted["superseded"]), (flow(&udp, "session backward").sent, 0));
    let etp = run("{ etp = { gap = \"4ms\" } }");
    let counted = &flow(&etp, "session backward").counters;
    assert_eq!(counted["gap_us"], 4_000);
    let dropped = medium(&etp, "backward haptic").dropped["superseded"];
    // Those of the drain are in the transport's count, and in no statistic.
    assert!(counted["superseded"] >= dropped && dropped > 700, "{counted:?} {dropped}");
    let tcp = run("\"tcp\"");
    let counted = &flow(&tcp, "session backward").counters;
    assert!(counted["segments_sent"] > 100, "{counted:?}");
    let bulk = "\n[cross.bulk]\nfrom = \"a\"\nto = \"b\"\ntraffic = { tcp = {} }\n";
    let text = short(lossy, "", "haptic = {}").to_toml() + bulk;
    let beside = done("bulk", &Scenario::parse("bulk.toml", &text).unwrap());
    let (data, acks) = (flow(&beside, "bulk"), flow(&beside, "bulk acks"));
    assert!(data.counters["retransmitted"] > 0 && data.counters["segments_sent"] <= data.sent, "{data:?}");
    // All but the SYN's answer.
    assert!(acks.sent - acks.counters["acks_sent"] <= 1, "{acks:?}");
}

#[test]
fn lost_samples_are_told_apart_by_where_they_were_lost() {
    let chain = r#"{ delay = "2ms" }, { loss = { bernoulli = "10%" } }"#;
    let etp = "transport = { etp = { gap = \"4ms\" } }";
    let sampler = "haptic = { source = { simulated = { device = \"follower\" } }, sampler = \"deadband\" }";
    // What a sampler lets through is superseded only while a gap is longer than its keep-alive.
    for (backward, gap) in [("haptic = {}", "4ms"), (sampler, "250ms")] {
        let etp = etp.replace("4ms", gap);
        let result = done(backward, &short(chain, &etp, backward));
        let haptic = medium(&result, "backward haptic");
        assert!(haptic.dropped["superseded"] > 0, "{haptic:?}");
        let text = run_text(&result);
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with("backward haptic") && line.contains("lost "));
        let line = line.unwrap();
        for part in [
            format!("lost {} of {}", haptic.lost, haptic.made),
            format!("in the network {}", haptic.lost_in_network),
            format!("superseded {}", haptic.dropped["superseded"]),
        ] {
            assert!(line.contains(&part), "{part}: {line}");
        }
        assert_eq!(line.contains("withheld"), haptic.withheld > 0);
    }
    let result = done("loss", &short(chain, etp, "haptic = {}"));
    let html = run_html(&result).replace("<i class=\"k\"></i>", "");
    let superseded = medium(&result, "backward haptic").dropped["superseded"];
    assert!(html.contains(&format!("Of it: superseded {superseded}, lost in the network")), "{html}");
}

#[test]
fn frames_that_are_superseded_with_samples_count_once_each_and_as_superseded() {
    let backward = "haptic = {}\naudio = {}\nvideo = { source = \"vp8\" }\n\
                    multiplexer = { fixed_fragment = { fragment = \"58B\" } }";
    let result = done("frames", &short(WIRE, "transport = { etp = { gap = \"4ms\" } }", backward));
    for stream in ["backward audio", "backward video"] {
        let medium = medium(&result, stream);
        assert!(medium.lost > 0, "{stream}");
        assert_eq!((medium.dropped["superseded"], medium.lost_in_network), (medium.lost, 0), "{stream}");
    }
}

/// A session of states over this transport, on a link of this chain.
fn states(transport: &str, seconds: u64, chain: &str, more: &str) -> RunResult {
    let text = format!(
        "title = \"states\"\nduration = \"{seconds}s\"\ndrain = \"1s\"\n[links.wire]\nbetween = [\"a\", \"b\"]\nchain = [{chain}]\n\
         [teleop]\noperator = \"a\"\nrobot = \"b\"\nenvironment = \"free\"\nfeedback = 0\nadaptive = false\ntransport = {transport}\n{more}"
    );
    let scenario = Scenario::parse("states.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    done(transport, &scenario)
}

/// What a campaign keeps of it.
fn measure(run: &RunResult, name: &str) -> Option<f64> {
    of_campaign(run, &Default::default()).into_iter().find(|one| one.name == name)?.value
}

#[test]
fn a_session_of_states_that_never_opened_meets_no_limit_and_brought_nothing_of_what_was_to_be_made() {
    for transport in ["\"udp\"", "\"quic\""] {
        let result = states(transport, 6, r#"{ cut = { at = "0s" } }"#, "");
        let teleop = result.teleop.as_ref().unwrap();
        assert_eq!((teleop.opened_ms, teleop.made, teleop.delivered_percent), (None, 6_000, Some(0.0)));
        let haptic = medium(&result, "forward haptic");
        assert_eq!((haptic.made, haptic.lost, haptic.loss_percent), (6_000, 6_000, Some(100.0)));
        assert!(
            !result.verdict.met && !result.verdict.limits.is_empty(),
            "{transport}: {:?}",
            result.verdict
        );
        assert_eq!(measure(&result, "session arrived"), Some(0.0), "in a campaign's mean, too");
    }
}

#[test]
fn a_session_that_gives_up_is_held_against_as_many_states_as_one_that_does_not() {
    let made = |transport, more: &str| {
        let result = states(transport, 26, r#"{ delay = "5ms" }, { cut = { at = "8s" } }"#, more);
        let teleop = result.teleop.unwrap();
        let abandoned = teleop.streams.iter().filter_map(|stream| stream.dropped.get("abandoned"));
        (abandoned.sum::<u64>(), teleop.made, teleop.delivered_percent.unwrap())
    };
    let (kept, udp, arrived) = made("\"udp\"", "messages = 24000\n");
    let (given_up, quic, over_quic) = made("\"quic\"", "messages = 24000\n");
    assert!(
        kept == 0 && given_up > 5_000,
        "QUIC closes what has been silent for long: {kept} and {given_up}"
    );
    assert_eq!((udp, quic), (24_000, 24_000));
    assert!((arrived - over_quic).abs() < 1.0, "{arrived} % and {over_quic} % arrived");
    // To the scenario's end: from where each opened.
    let (_, until_the_end, _) = made("\"quic\"", "");
    assert!((25_900..=26_000).contains(&until_the_end), "{until_the_end}");
}

#[test]
fn rates_of_a_session_are_of_the_time_in_which_states_were_made() {
    let result = states("\"udp\"", 5, r#"{ delay = "8ms" }"#, "messages = 3000\n");
    let teleop = result.teleop.as_ref().unwrap();
    let there = teleop.wire[0];
    let frame = there.payload as f64 / teleop.arrived as f64;
    let payload = measure(&result, "session payload there").unwrap();
    assert!(
        (payload / (frame * 8.0 * 1_000.0 / 1e6) - 1.0).abs() < 1e-3,
        "{payload} Mbit/s of {frame} bytes"
    );
    let wire = measure(&result, "session wire there").unwrap();
    // Of the whole run, its beginning and its end included, it is about the same.
    let whole = there.efficiency_percent.unwrap();
    assert!((payload / wire * 100.0 - whole).abs() < 3.0, "{payload} of {wire} Mbit/s, {whole} % in all");
    assert_eq!(flow(&result, "session forward").efficiency, there.efficiency());
    // A result of before has no such rates: they are what they were then, of the whole duration.
    let mut json: Value = serde_json::from_slice(&result.to_json().unwrap()).unwrap();
    for way in json["teleop"]["wire"].as_array_mut().unwrap() {
        for rate in ["sent_bps", "payload_bps"] {
            way.as_object_mut().unwrap().remove(rate).expect("it is told");
        }
    }
    let old = RunResult::from_json(&serde_json::to_vec(&json).unwrap()).unwrap();
    let told = measure(&old, "session payload there").unwrap();
    assert!((told - there.payload as f64 * 8.0 / 5e6).abs() < 1e-9, "{told}");
}

#[test]
fn what_is_repeated_when_no_more_states_are_made_is_in_no_rate() {
    let narrow = r#"{ server = { rate = "400kbit", queue = { packets = 50 } } }, { delay = "20ms" }"#;
    let result = states(
        "\"tcp\"",
        4,
        narrow,
        "reliable = true\nwindow = false\nmax_age = \"60min\"\nwatchdog = \"60s\"\n",
    );
    let teleop = result.teleop.as_ref().unwrap();
    let wire = measure(&result, "session wire there").unwrap();
    let whole = teleop.wire[0].bytes as f64 * 8.0 / 4e6;
    assert!(wire < 0.99 * whole, "{wire} Mbit/s, and {whole} with what was sent after the last state");
}

#[test]
fn efficiency_of_a_session_counts_messages_of_channels() {
    let channel = "[[teleop.channels]]\nchannel = { name = \"camera\", kind = \"video\" }\nmakes = { rate = 25, sizes = { constant = \"1000B\" } }\n";
    let alone = states("\"udp\"", 3, r#"{ delay = "8ms" }"#, "");
    let beside = states("\"udp\"", 3, r#"{ delay = "8ms" }"#, channel);
    let efficiency = |run: &RunResult| flow(run, "session backward").efficiency.unwrap();
    assert!(efficiency(&alone) < 0.1, "nothing but acknowledgements comes back: {}", efficiency(&alone));
    assert!(efficiency(&beside) > 0.15, "{}", efficiency(&beside));
    let teleop = beside.teleop.as_ref().unwrap();
    let megabits = measure(&beside, "session channel camera backward: rate").unwrap();
    assert!((megabits - 0.2).abs() < 0.02, "25 messages of 1000 bytes a second are {megabits} Mbit/s");
    assert!(teleop.wire[1].payload_bps.unwrap() >= megabits * 1e6 - 1.0);
}

#[test]
fn flows_of_one_entry_send_signals_and_pictures_of_their_own() {
    let leader = r#"{ haptic = { packet = "75B", source = { simulated = { device = "leader" } }, sampler = { deadband = { k = 0.05 } } } }"#;
    let contacts = r#"{ haptic = { packet = "75B", source = { contacts = { share = "20%", length = "50ms" } }, sampler = "deadband" } }"#;
    let run = |traffic: &str, count: u32| {
        let cross =
            format!("\n[cross.many]\nfrom = \"a\"\nto = \"b\"\ncount = {count}\ntraffic = {traffic}\n");
        let text = short(WIRE, "", "haptic = {}").to_toml().replace("duration = \"1s\"", "duration = \"3s\"")
            + &cross;
        done(traffic, &Scenario::parse("many.toml", &text).unwrap_or_else(|e| panic!("{e}")))
    };
    for traffic in [leader, contacts, "{ video = {} }"] {
        let result = run(traffic, 4);
        let sent = (1..=4).map(|n| flow(&result, &format!("many/{n}")).sent);
        let sent: std::collections::BTreeSet<u64> = sent.collect();
        // Two of four may send as many by chance.
        assert!(sent.len() >= 3, "{traffic}: {sent:?}");
    }
    // The first has the signal that it has alone.
    let (alone, first) = (run(leader, 1), run(leader, 4));
    let [alone, first] = [flow(&alone, "many").sent, flow(&first, "many/1").sent];
    assert!(alone.abs_diff(first) <= 2, "{alone} and {first}");
}
