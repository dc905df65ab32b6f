//! Every multiplexer with every sampler over every transport.

use crate::world::{done, medium, short};

const CHAIN: &str = r#"{ server = { rate = "6Mbit", queue = { bytes = "14kB" } } }, { delay = "8ms" },
    { loss = { bernoulli = "1%" } }"#;

const MULTIPLEXERS: [&str; 4] = [
    r#""separate""#,
    r#"{ fixed_fragment = { fragment = "58B" } }"#,
    r#""visual_haptic""#,
    r#"{ network_aware = { max_samples = 4 } }"#,
];

const SAMPLERS: [&str; 3] =
    [r#""every""#, r#"{ deadband = { k = 0.1, floor = 0.01 } }"#, "{ velocity_deadband = { slope = 0.2 } }"];

const TRANSPORTS: [&str; 12] = [
    r#""udp""#,
    r#""etp""#,
    r#"{ etp = { gap = "2ms" } }"#,
    r#"{ etp = { gap = "2ms", pack = true } }"#,
    r#""tcp""#,
    r#"{ tcp = { sack = true, congestion = "cubic" } }"#,
    r#"{ tcp = { congestion = "reno", sack = false, limited_transmit = false, byte_counting = false, full_ack = "ssthresh" } }"#,
    r#"{ etp = { gap = "1ms", tcp = { sack = false } } }"#,
    r#"{ quic = { congestion = "newreno" } }"#,
    r#""sctp""#,
    r#""dccp""#,
    r#"{ dccp = { ccid = 3 } }"#,
];

/// Every third: each multiplexer with each transport, and each sampler with each of both.
#[test]
fn every_pair_runs_with_closed_books() {
    run_with_closed_books(3);
}

#[test]
#[ignore = "make test-long"]
fn every_combination_runs_with_closed_books_at_length() {
    run_with_closed_books(1);
}

/// One of `step` combinations.
fn run_with_closed_books(step: usize) {
    for (m, multiplexer) in MULTIPLEXERS.into_iter().enumerate() {
        for (s, sampler) in SAMPLERS.into_iter().enumerate() {
            for (t, transport) in TRANSPORTS.into_iter().enumerate() {
                if (m + s + t) % step != 0 {
                    continue;
                }
                let backward = format!(
                    "haptic = {{ source = {{ simulated = {{ device = \"follower\" }} }}, sampler = {sampler} }}\n\
                     audio = {{}}\nvideo = {{ rate = \"400kbit\" }}\nmultiplexer = {multiplexer}"
                );
                let what = format!("{multiplexer} {sampler} {transport}");
                let result = done(&what, &short(CHAIN, &format!("transport = {transport}"), &backward));
                // Frames that ride on samples are superseded with them where a gap makes samples wait, but not when
                // they are packed.
                let rides = multiplexer != MULTIPLEXERS[0];
                let superseded =
                    transport.contains("etp") && !transport.contains("pack") || transport.contains("dccp");
                let frames: &[&str] =
                    if rides && superseded { &[] } else { &["backward audio", "backward video"] };
                for stream in ["forward haptic", "backward haptic"].iter().chain(frames) {
                    assert!(medium(&result, stream).delivered > 0, "{what}: {stream}");
                }
            }
        }
    }
}

#[test]
fn tcp_delivers_every_sample_however_many_are_lost_on_the_way() {
    for sack in [false, true] {
        let chain = r#"{ server = { rate = "20Mbit" } }, { delay = "2ms" }, { loss = { bernoulli = "2%" } }"#;
        let session = format!("transport = {{ tcp = {{ sack = {sack}, min_rto = \"50ms\" }} }}");
        let mut scenario = short(chain, &session, "haptic = {}\naudio = {}");
        scenario.drain = "5s".parse().unwrap();
        let result = done("tcp", &scenario);
        assert!(result.conservation.dropped["loss"] > 20, "{:?}", result.conservation.dropped);
        for medium in &result.media {
            assert_eq!((medium.lost, medium.delivered), (0, medium.made), "{}", medium.stream);
            assert_eq!(medium.reordered, 0, "{}", medium.stream);
        }
    }
}

#[test]
fn frames_wait_for_the_gap_but_are_not_superseded() {
    let chain = r#"{ server = { rate = "20Mbit" } }, { delay = "2ms" }"#;
    for transport in [r#""etp""#, r#"{ etp = { gap = "3ms" } }"#, r#"{ etp = { gap = "3ms", pack = true } }"#]
    {
        let session = format!("transport = {transport}");
        // Frames of two full datagrams and more.
        let result =
            done(transport, &short(chain, &session, "haptic = {}\naudio = {}\nvideo = { source = \"vp8\" }"));
        for stream in ["backward audio", "backward video"] {
            let medium = medium(&result, stream);
            assert_eq!((medium.lost, medium.delivered), (0, medium.made), "{transport}: {stream}");
        }
        let superseded = medium(&result, "backward haptic").dropped.contains_key("superseded");
        assert_eq!(superseded, !transport.contains("pack"), "{transport}");
    }
}

#[test]
fn udp_loses_what_the_link_loses() {
    let result =
        done("udp", &short(r#"{ delay = "2ms" }, { loss = { bernoulli = "10%" } }"#, "", "haptic = {}"));
    let haptic = medium(&result, "backward haptic");
    // Those that were made before there was a session are not counted.
    assert!((800..=1000).contains(&haptic.made), "{}", haptic.made);
    let loss = haptic.loss_percent.unwrap();
    assert!((5.0..15.0).contains(&loss), "{loss}");
    let delay = haptic.delay_ms.as_ref().unwrap();
    assert!((delay.min - 2.0).abs() < 1e-9 && (delay.max - 2.0).abs() < 1e-9);
}

#[test]
fn every_kind_of_cross_traffic_flows() {
    let cross = r#"
[lans.lan]
hosts = 3
chain = [{ delay = "100us" }]

[links.uplink]
between = ["lan", "a"]

[cross.cbr]
from = "lan/*"
to = "b"
traffic = { cbr = { rate = "100kbit", packet = "100B" } }

[cross.poisson]
from = "b"
to = "lan/2"
traffic = { poisson = { rate = "100kbit", packet = "100B" } }

[cross.voice]
from = "lan/1"
to = "lan/3"
count = 5
traffic = "voice"

[cross.video]
from = "a"
to = "b"
start = "100ms"
stop = "500ms"
traffic = "video"

[cross.tcp]
from = "b"
to = "lan/1"
traffic = { tcp = { congestion = "cubic", sack = true } }
"#;
    let base = short(r#"{ server = { rate = "10Mbit" } }, { delay = "2ms" }"#, "", "haptic = {}");
    let text = base.to_toml() + cross;
    // `links` stands before what is added: TOML lets a table be added to.
    let scenario = taut_lab::scenario::Scenario::parse("cross.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let result = done("cross", &scenario);
    let kinds: std::collections::BTreeMap<&str, u64> =
        result.flows.iter().fold(Default::default(), |mut kinds, flow| {
            *kinds.entry(flow.kind.as_str()).or_default() += flow.delivered;
            kinds
        });
    for kind in ["session", "cbr", "poisson", "voice", "video", "tcp", "tcp acks"] {
        assert!(kinds.get(kind).is_some_and(|delivered| *delivered > 0), "{kind}: {kinds:?}");
    }
    assert_eq!(result.flows.iter().filter(|flow| flow.kind == "cbr").count(), 3);
    assert_eq!(result.flows.iter().filter(|flow| flow.kind == "voice").count(), 5);
}
