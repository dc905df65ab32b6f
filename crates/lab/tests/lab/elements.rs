//! Every element that a link may have.

use crate::world::{done, medium, recordings, short};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

#[test]
fn each_element_does_what_it_says_with_closed_books() {
    let mahimahi =
        format!("{{ server = {{ mahimahi = \"{DATA}/pausing.up\", queue = {{ packets = 20 }} }} }}");
    // What it is, and the cause of drops that it must show; none for those that drop nothing.
    let elements = [
        (r#"{ delay = "5ms" }"#, None),
        (r#"{ server = { rate = "200kbit", queue = { packets = 5 } } }"#, Some("queue_full_packets")),
        (r#"{ server = { rate = "200kbit", queue = { bytes = "1kB" } } }"#, Some("queue_full_bytes")),
        (
            r#"{ server = { rate_table = [{ at = "0s", rate = "9Mbit" }, { at = "400ms", rate = "3Mbit" }] } }"#,
            None,
        ),
        (
            r#"{ server = { rate_table = [{ at = "0s", rate = "9Mbit" }, { at = "400ms", rate = "0Mbit" },
            { at = "600ms", rate = "9Mbit" }], queue = { packets = 50 } } }"#,
            Some("queue_full_packets"),
        ),
        (mahimahi.as_str(), Some("queue_full_packets")),
        (r#"{ server = { rate = "400kbit", queue = { codel = {} } } }"#, Some("aqm")),
        (r#"{ server = { rate = "400kbit", queue = { fq_codel = { quantum = "300B" } } } }"#, Some("aqm")),
        (
            r#"{ server = { rate = "400kbit", queue = { pie = { target = "5ms", tupdate = "5ms" } } } }"#,
            Some("aqm"),
        ),
        (
            r#"{ server = { rate = "400kbit", queue = { red = { limit = "20kB", adaptive = true } } } }"#,
            Some("aqm"),
        ),
        (
            r#"{ server = { rate = "400kbit", queue = { prio = { bands = [{ packets = 5 }, { codel = {} }],
            classes = [{ dscp = 0, band = 0 }] } } } }"#,
            Some("queue_full_packets"),
        ),
        (
            r#"{ server = { rate = "9Mbit", queue = { tbf = { rate = "400kbit", burst = "3kB",
            queue = { codel = {} } } } } }"#,
            Some("aqm"),
        ),
        (
            r#"{ server = { rate = "9Mbit", queue = { cake = { bandwidth = "400kbit", tins = "diffserv4",
            framing = "atm", isolation = "dual-srchost", ack_filter = "on" } } } }"#,
            Some("aqm"),
        ),
        (r#"{ jitter = { distribution = "uniform", mean = "3ms", spread = "2ms" } }"#, None),
        (
            r#"{ jitter = { distribution = "normal", spread = "2ms", correlation = 0.5, reorder = true } }"#,
            None,
        ),
        (r#"{ jitter = { distribution = "pareto", spread = "1ms" } }"#, None),
        (r#"{ loss = { bernoulli = "3%" } }"#, Some("loss")),
        (
            r#"{ loss = { gilbert_elliott = { p = "2%", r = "20%", bad = "80%", good = "1%" } } }"#,
            Some("loss"),
        ),
        (r#"{ duplicate = "5%" }"#, None),
        (r#"{ corrupt = "5%" }"#, None),
        (r#"{ cut = { at = "200ms", until = "300ms" } }"#, Some("cut")),
        (r#"{ cut = { at = "900ms" } }"#, Some("cut")),
    ];
    for (element, cause) in elements {
        let result = done(element, &short(element, "", "haptic = {}\nvideo = { source = \"vp8\" }"));
        let causes: Vec<&str> = result.conservation.dropped.keys().map(String::as_str).collect();
        assert_eq!(causes, Vec::from_iter(cause), "{element}");
        assert!(medium(&result, "backward haptic").delivered > 100, "{element}");
    }
}

#[test]
fn a_link_tells_what_its_queues_counted() {
    let link = |chain: &str| {
        let result = done(chain, &short(chain, "", "haptic = {}\nvideo = { source = \"vp8\" }"));
        result.links.into_iter().find(|link| !link.dropped.is_empty()).expect("a link that drops")
    };
    let slow = |queue: &str| link(&format!("{{ server = {{ rate = \"400kbit\", queue = {queue} }} }}"));
    let codel = slow("{ codel = {} }");
    assert_eq!(codel.counters["dropped"], codel.dropped["aqm"]);
    let prio = slow("{ prio = { bands = [{ packets = 5 }, { codel = {} }], classes = [] } }");
    assert_eq!(prio.counters["band1.dropped"], prio.dropped["aqm"]);
    let fifo = slow("{ packets = 5 }");
    assert_eq!(fifo.counters["drops"], fifo.dropped["queue_full_packets"]);
    let two = link(
        r#"{ server = { rate = "9Mbit", queue = { pie = {} } } }, { server = { rate = "400kbit", queue = { codel = {} } } }"#,
    );
    assert_eq!((two.counters["queue0.dropped"], two.counters["queue1.dropped"]), (0, two.dropped["aqm"]));
}

#[test]
fn all_elements_in_one_chain_keep_the_books() {
    let chain = r#"{ cut = { at = "700ms", until = "750ms" } },
        { loss = { gilbert_elliott = { p = "1%", r = "30%" } } },
        { gate = { policy = "deadline" } },
        { server = { rate = "4Mbit", queue = { bytes = "6kB", packets = 30 } } },
        { duplicate = "2%" }, { delay = "3ms" }, { corrupt = "2%" }, { duplicate = "2%" },
        { jitter = { distribution = "normal", spread = "2ms", reorder = true } },
        { loss = { bernoulli = "1%" } }, { server = { rate = "3Mbit" } }"#;
    for transport in ["udp", "etp", "tcp"] {
        let session = format!("transport = \"{transport}\"");
        let result = done(transport, &short(chain, &session, "haptic = {}\nvideo = { source = \"vp8\" }"));
        assert!(result.conservation.duplicated > 0 && result.links[0].corrupted > 0, "{transport}");
        assert!(medium(&result, "backward haptic").delivered > 0, "{transport}");
    }
}

#[test]
fn a_packet_with_a_flipped_bit_is_not_delivered() {
    let result = done("corrupt", &short(r#"{ corrupt = "100%" }"#, "", "haptic = {}"));
    for medium in &result.media {
        assert_eq!((medium.delivered, medium.lost), (0, medium.made), "{}", medium.stream);
    }
    assert!(!result.verdict.met);
}

#[test]
fn a_duplicate_is_delivered_once() {
    let result = done("duplicate", &short(r#"{ duplicate = "100%" }, { delay = "1ms" }"#, "", "haptic = {}"));
    assert_eq!(result.conservation.duplicated, result.conservation.sent);
    for medium in &result.media {
        assert_eq!((medium.delivered, medium.lost), (medium.made, 0), "{}", medium.stream);
    }
}

#[test]
fn measured_5g_paths_delay_and_lose() {
    let Some(folder) = recordings("multipath-5g") else { return };
    let path = |name: &str| folder.join(name).display().to_string();
    let delays = format!("{{ delay_table = {{ file = \"{}\" }} }}", path("PathA_impairments.csv"));
    let result = done("delay_table", &short(&delays, "", "haptic = {}"));
    let haptic = medium(&result, "backward haptic");
    let delay = haptic.delay_ms.as_ref().unwrap();
    assert!(haptic.lost == 0 && delay.min > 1.0 && delay.max < 1000.0, "{delay:?}");
    let losses = format!(
        "{{ loss_table = {{ file = \"{}\", every = \"5ms\" }} }}",
        path("Path_losses_for_congestion.csv")
    );
    let result = done("loss_table", &short(&losses, "", "haptic = {}"));
    assert!(result.conservation.dropped.keys().eq(["loss"]), "{:?}", result.conservation.dropped);
}
