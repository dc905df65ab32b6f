//! What a result says, and what it leaves out because nothing was measured.

use serde_json::Value;
use taut_lab::scenario::Direction;
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
    let result = done("owners", &taut_lab::scenario::Scenario::parse("owners.toml", &text).unwrap());
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
    let beside = done("bulk", &taut_lab::scenario::Scenario::parse("bulk.toml", &text).unwrap());
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
