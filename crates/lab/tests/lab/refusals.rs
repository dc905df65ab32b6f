//! Scenarios that make no sense, and what is said of them.

use taut_lab::scenario::Scenario;

use crate::world::done;

const HEAD: &str = "title = \"t\"\nduration = \"1s\"\nlans.lan = { hosts = 3, chain = [] }\n";

/// A LAN without delay, a wire of this chain from its switch to `far`, and what else.
fn read(chain: &str, rest: &str) -> Result<Scenario, String> {
    let wire = format!("links.wire = {{ between = [\"lan\", \"far\"], chain = [{chain}] }}\n");
    Scenario::parse("s.toml", &format!("{HEAD}{wire}{rest}")).map_err(|e| e.to_string())
}

fn cross(from: &str, to: &str, traffic: &str) -> String {
    format!("cross.x = {{ from = \"{from}\", to = \"{to}\", traffic = {traffic} }}\n")
}

fn session(operator: &str, robot: &str, transport: &str) -> String {
    format!(
        "session = {{ operator = \"{operator}\", robot = \"{robot}\", transport = {transport}, forward = {{ haptic = {{}} }} }}\n"
    )
}

const VOICE: &str = "\"voice\"";
const TCP: &str = "\"tcp\"";
const TIMED: &str = "{ delay = \"1ms\" }";

#[track_caller]
fn assert_refused(chain: &str, rest: &str, why: &str) {
    let error = read(chain, rest).expect_err(why);
    assert!(error.contains(why), "{error}");
}

#[test]
fn bulk_tcp_over_links_that_take_no_time_is_refused() {
    let tcp = cross("lan/1", "far", TCP);
    let without_time = "{ loss = { bernoulli = \"1%\" } }, { delay = \"0s\" }, { duplicate = \"1%\" }";
    for chain in ["", without_time, "{ server = { rate = \"9000000Gbit\" } }"] {
        assert_refused(chain, &tcp, "cross.x: TCP between `lan/1` and `far` would send without end");
        assert_refused(chain, &tcp, "add one to a chain, such as { delay = \"1ms\" }");
    }
    assert_refused(TIMED, &cross("lan/1", "lan/2", TCP), "TCP between `lan/1` and `lan/2`");
    assert_refused("", &cross("lan/*", "far", TCP), "TCP between `lan/1` and `far`");
}

#[test]
fn bulk_tcp_over_a_link_with_a_delay_or_a_rate_is_taken() {
    let jitter = "{ jitter = { distribution = \"uniform\", spread = \"1ms\" } }";
    for chain in [TIMED, "{ server = { rate = \"1Gbit\" } }", jitter] {
        read(chain, &cross("lan/1", "far", TCP)).unwrap();
    }
    read("", &cross("lan/1", "far", VOICE)).unwrap();
    read("", &session("lan/1", "far", "\"udp\"")).unwrap();
    let one_way = "links.there = { from = \"a\", to = \"b\", chain = [{ delay = \"1ms\" }] }
links.back = { from = \"b\", to = \"a\", chain = [] }\n";
    read("", &format!("{one_way}{}", cross("a", "b", TCP))).unwrap();
    // The way over fewest links is the one that packets go.
    let around = "links.a = { between = [\"far\", \"p\"], chain = [] }
links.b = { between = [\"p\", \"lan\"], chain = [] }\n";
    read(TIMED, &format!("{around}{}", cross("lan", "far", TCP))).unwrap();
}

#[test]
fn a_session_over_tcp_may_take_no_time_and_comes_to_its_end() {
    for transport in [TCP, "{ etp = { gap = \"1ms\", tcp = {} } }"] {
        let scenario = read("", &session("lan/1", "far", transport)).unwrap();
        assert!(done(transport, &scenario).conservation.sent > 0);
    }
}

#[test]
fn settings_of_a_transport_that_would_do_nothing_are_refused() {
    let stream = "{ mpquic = { stream = true } }";
    let commands = |bare: bool| {
        format!("commands = {{ from = \"lan/1\", to = \"far\", bare = {bare}, transport = {stream} }}\n")
    };
    assert_refused(TIMED, &commands(false), "commands.transport.mpquic.stream");
    read(TIMED, &commands(true)).unwrap();
    assert_refused(TIMED, &session("lan/1", "far", stream), "session.transport.mpquic.stream");
    let packed = "{ etp = { gap = \"1ms\", tcp = {}, pack = true } }";
    assert_refused(TIMED, &session("lan/1", "far", packed), "session.transport.etp.pack");
}

#[test]
fn nobody_sends_to_himself() {
    assert_refused(TIMED, &session("far", "far", "\"udp\""), "session.robot: is `far`, as the operator is");
    for end in ["far", "lan/1", "lan/*"] {
        assert_refused(TIMED, &cross(end, end, VOICE), &format!("cross.x.to: is `{end}`, as `from` is"));
    }
    assert_refused(TIMED, &cross("lan/*", "lan/2", VOICE), "would send to itself");
    assert_refused(TIMED, &cross("lan/2", "lan/*", VOICE), "would send to itself");
    read(TIMED, &cross("lan/*", "lan", VOICE)).unwrap();
    read(TIMED, &cross("lan/1", "lan/2", VOICE)).unwrap();
}

#[test]
fn a_rate_that_is_zero_for_ever_is_refused_and_an_outage_is_not() {
    let table = |rows: &[(&str, &str)]| {
        let rows: Vec<String> =
            rows.iter().map(|(at, rate)| format!("{{ at = \"{at}\", rate = \"{rate}\" }}")).collect();
        format!("{{ server = {{ rate_table = [{}] }} }}", rows.join(", "))
    };
    let voice = cross("lan/1", "far", VOICE);
    for rows in [&[("0s", "0bit")][..], &[("0s", "0bit"), ("1s", "0Mbit")]] {
        assert_refused(&table(rows), &voice, "links.wire.chain.0.server.rate_table: is 0 in every row");
    }
    read(&table(&[("0s", "0bit"), ("500ms", "1Mbit")]), &voice).unwrap();
    read(&table(&[("0s", "1Mbit"), ("500ms", "0bit")]), &voice).unwrap();
}

#[test]
fn a_probability_that_would_round_to_zero_is_refused() {
    let voice = cross("lan/1", "far", VOICE);
    let elements = |p: &str| {
        [
            format!("{{ loss = {{ bernoulli = \"{p}\" }} }}"),
            format!("{{ duplicate = \"{p}\" }}"),
            format!("{{ corrupt = \"{p}\" }}"),
            format!("{{ loss = {{ gilbert_elliott = {{ p = \"{p}\", r = \"1%\" }} }} }}"),
            format!("{{ loss = {{ gilbert_elliott = {{ p = \"1%\", r = \"{p}\" }} }} }}"),
            format!("{{ loss = {{ gilbert_elliott = {{ p = \"1%\", r = \"1%\", bad = \"{p}\" }} }} }}"),
            format!("{{ loss = {{ gilbert_elliott = {{ p = \"1%\", r = \"1%\", good = \"{p}\" }} }} }}"),
        ]
    };
    for p in ["1e-400", "1e-10", "0.00000001%", "4e-10", "-1e-400"] {
        for element in elements(p) {
            assert_refused(&element, &voice, &format!("`{p}` is not 0 and would be taken for 0"));
        }
    }
    for p in ["0", "0%", "0.0e5", "1e-9", "0.0000001%", "100%"] {
        elements(p).iter().for_each(|element| _ = read(element, &voice).unwrap());
    }
}

#[test]
fn queues_that_make_no_sense_are_refused_by_their_key() {
    let queue = |queue: &str, why: &str| {
        let server = format!("{{ server = {{ rate = \"9Mbit\", queue = {queue} }} }}");
        assert_refused(&server, &cross("lan/1", "far", VOICE), why);
    };
    queue("{ codel = {}, pie = {} }", "queue: has several kinds, codel, pie; a queue is of one");
    queue("{ codel = {}, packets = 9 }", "queue: `packets` and `bytes` are limits of a drop-tail queue");
    queue("{ codel = { target = \"0s\" } }", "queue.codel.target: 0ns is not within");
    queue("{ codel = { goal = \"5ms\" } }", "goal");
    queue("{ red = { max = \"20kB\", min = \"30kB\" } }", "queue.red.max: 20kB is not within");
    queue(
        "{ prio = { classes = [{ dscp = 46, band = 3 }] } }",
        "queue.prio.classes.0.band: 3 is not within 0 to 2",
    );
    queue("{ red = { avpkt = \"100000001B\" } }", "queue.red.avpkt: 100000.001kB is not within 1B to ");
    queue("{ tbf = { rate = \"1Mbit\" } }", "burst");
    queue(
        "{ tbf = { rate = \"8bit\", burst = \"9223.372036MB\" } }",
        "queue.tbf.burst: 9223372.036kB is not within 1B to 3",
    );
    let slow_peak = "rate = \"8bit\", burst = \"3600B\", peakrate = \"16bit\", minburst = \"7201B\"";
    queue(&format!("{{ tbf = {{ {slow_peak} }} }}"), "queue.tbf.minburst: 7.201kB is not within 1B to 7");
    let deep =
        (0..6).fold("{ packets = 9 }".to_owned(), |inner, _| format!("{{ prio = {{ bands = [{inner}] }} }}"));
    queue(&deep, "is inside more than 4 others");
    queue("{ cake = { bandwidth = \"1bit\" } }", "queue.cake.bandwidth: 1bit is not within");
}

#[test]
fn a_gate_without_a_queue_behind_it_is_refused() {
    let gate = "{ gate = { policy = \"aimd3\" } }";
    assert_refused(gate, "", "links.wire.chain.0.gate: watches the next server of its chain; there is none");
    let server = "{ server = { rate = \"1Mbit\" } }";
    assert_refused(&format!("{server}, {gate}"), "", "links.wire.chain.1.gate");
    read(&format!("{gate}, {TIMED}, {server}"), &cross("lan/1", "far", VOICE)).expect("a queue is behind it");
    let often = "{ gate = { policy = \"aimd3\", reset_interval = \"1us\" } }";
    assert_refused(&format!("{often}, {server}"), "", "links.wire.chain.0.gate.reset_interval");
    let policy = "{ gate = { policy = \"aimd6\" } }";
    assert_refused(&format!("{policy}, {server}"), "", "`deadline`");
}

#[test]
fn packets_that_would_follow_each_other_within_a_nanosecond_are_refused() {
    for kind in ["poisson", "cbr"] {
        let traffic = |rate| format!("{{ {kind} = {{ rate = \"{rate}\", packet = \"28B\" }} }}");
        assert_refused(
            "",
            &cross("lan/1", "far", &traffic("500Gbit")),
            "follow each other within a nanosecond",
        );
        read("", &cross("lan/1", "far", &traffic("200Gbit"))).unwrap();
    }
}

/// A classic capture of raw IP packets (LINKTYPE 101) of 100 bytes, at these times in microseconds.
fn capture(name: &str, times: &[u32]) -> String {
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    put(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101]);
    for time in times {
        put(&[1, *time, 20, 100, 0x6400_0045, 0, 0x1140, 0x0100_000a, 0x0200_000a]);
    }
    let path = std::env::temp_dir().join(format!("taut-lab-{name}-{}.pcap", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

fn replayed(name: &str, times: &[u32]) -> Result<taut_report::result::RunResult, String> {
    let file = capture(name, times);
    let traffic = format!("{{ replay = {{ file = {file:?}, repeat = true }} }}");
    let scenario = read("", &cross("lan/1", "far", &traffic)).unwrap();
    let result = taut_lab::run::run(&scenario, taut_core::Seed::new(1), &mut |_| ());
    std::fs::remove_file(file).unwrap();
    result.map_err(|error| error.to_string())
}

#[test]
fn a_capture_that_lasts_no_time_is_not_repeated() {
    for (name, times) in [("one", &[5][..]), ("at-once", &[5, 5, 5])] {
        let error = replayed(name, times).unwrap_err();
        assert!(error.contains("lasts no time; it cannot be repeated"), "{error}");
    }
}

/// Four packets, one each 10 ms, are so again and again: a hundred in the second.
#[test]
fn a_repeated_capture_keeps_its_rate() {
    let result = replayed("rate", &[0, 10_000, 20_000, 30_000]).unwrap();
    assert!((result.flows[0].sent_bps - 100.0 * 800.0).abs() < 1.0, "{:?}", result.flows[0]);
}
