//! Bad input: one clear line with file and place, exit status 2, nothing half written.

use crate::world::{SCENARIO, World, assert_lines};

/// What is wrong, and the edit of the scenario that makes it so.
const EDITS: &[(&str, &str, &str)] = &[
    ("unknown_key", r#"duration = "1s""#, r#"durration = "1s""#),
    ("unknown_key_of_a_link", "between", "latency = \"3ms\"\nbetween"),
    ("unknown_key_of_a_server", r#"rate = "6Mbit""#, r#"rate = "6Mbit", speed = 1"#),
    ("unknown_element", r#"{ delay = "8ms" }"#, r#"{ latency = "8ms" }"#),
    ("two_kinds", r#"{ delay = "8ms" }"#, r#"{ delay = "8ms", duplicate = "1%" }"#),
    ("no_kind", r#"{ delay = "8ms" }"#, "{ }"),
    ("missing_title", "title = \"t\"\n", ""),
    ("missing_traffic", r#"traffic = { cbr = { rate = "1Mbit", packet = "150B" } }"#, ""),
    ("missing_packet", r#", packet = "150B""#, ""),
    ("kind_without_settings", r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#, r#""cbr""#),
    ("unknown_traffic", "cbr =", "cbrr ="),
    ("unknown_transport", r#"robot = "b""#, "robot = \"b\"\ntransport = \"udpp\""),
    ("unknown_congestion", r#"robot = "b""#, "robot = \"b\"\ntransport = { tcp = { congestion = \"bbr\" } }"),
    ("transport_is_a_number", r#"robot = "b""#, "robot = \"b\"\ntransport = 3"),
    (
        "unknown_distribution",
        r#"{ delay = "8ms" }"#,
        r#"{ jitter = { distribution = "gauss", spread = "1ms" } }"#,
    ),
    ("unknown_device", r#"{ period = "1ms" }"#, r#"{ source = { simulated = { device = "master" } } }"#),
    ("link_is_text", "[links.wire]\n", "[links]\nshort = \"a to b\"\n[links.wire]\n"),
    ("negative_rate", r#""6Mbit""#, r#""-6Mbit""#),
    ("rate_without_unit", r#""6Mbit""#, "6"),
    ("rate_without_unit_in_quotes", r#""6Mbit""#, r#""6""#),
    ("rate_is_nan", r#""6Mbit""#, "nan"),
    ("rate_is_nan_with_unit", r#""6Mbit""#, r#""NaNMbit""#),
    ("rate_is_zero", r#""6Mbit""#, r#""0Mbit""#),
    ("negative_rate_of_traffic", r#""1Mbit""#, r#""-1Mbit""#),
    ("negative_delay", r#""8ms""#, r#""-8ms""#),
    ("delay_is_true", r#""8ms""#, "true"),
    ("loss_beyond_one", r#"{ delay = "8ms" }"#, r#"{ loss = { bernoulli = "101%" } }"#),
    ("loss_is_nan", r#"{ delay = "8ms" }"#, "{ loss = { bernoulli = nan } }"),
    ("unknown_policy", r#"{ delay = "8ms" }"#, r#"{ gate = { policy = "aimd9" } }"#),
    (
        "gate_of_rtcp",
        r#"{ delay = "8ms" }"#,
        r#"{ gate = { policy = "aimd3", payload_type = 72 } }, { server = { rate = "9Mbit" } }"#,
    ),
    ("unknown_queue", r#"queue = { bytes"#, "queue = { cakes"),
    (
        "code_point_twice",
        r#"{ delay = "8ms" }"#,
        r#"{ server = { rate = "9Mbit", queue = { prio = { classes = [{ dscp = 46, band = 0 }, { dscp = 46, band = 1 }] } } } }"#,
    ),
    ("interval_of_codel", r#"{ bytes = "14kB" }"#, r#"{ codel = { interval = "5s" } }"#),
    ("rate_of_tbf", r#"{ bytes = "14kB" }"#, r#"{ tbf = { rate = "0bit" } }"#),
    (
        "delays_of_nowhere",
        r#"{ delay = "8ms" }"#,
        r#"{ jitter_table = { file = "none.csv", distribution = "normal" } }"#,
    ),
    (
        "delays_that_are_not_part_of_the_project",
        r#"{ delay = "8ms" }"#,
        r#"{ jitter_table = { file = "../shared/data/multipath-5g/none.csv", distribution = "normal" } }"#,
    ),
    ("frames_beyond_240", r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#, "{ rtp = { fps = 241 } }"),
    (
        "video_with_nobody",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ rtp = { with = "nobody" } }"#,
    ),
    (
        "touch_without_period",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ haptic = { period = "0s" } }"#,
    ),
    ("commands_to_nobody", "[session]\n", "[commands]\nfrom = \"a\"\nto = \"z\"\n\n[session]\n"),
    (
        "commands_without_paths",
        "[session]\n",
        "[commands]\nfrom = \"a\"\nto = \"b\"\npaths = 0\n\n[session]\n",
    ),
    (
        "command_too_long",
        "[session]\n",
        "[commands]\nfrom = \"a\"\nto = \"b\"\nsize = \"1MB\"\n\n[session]\n",
    ),
    (
        "correlation_is_nan",
        r#"{ delay = "8ms" }"#,
        r#"{ jitter = { distribution = "normal", spread = "1ms", correlation = nan } }"#,
    ),
    (
        "deadband_is_nan",
        r#"{ period = "1ms" }"#,
        r#"{ sampler = { deadband = { k = nan } }, source = { simulated = { device = "leader" } } }"#,
    ),
    ("title_is_a_number", r#""t""#, "7"),
    ("duration_zero", r#""1s""#, r#""0s""#),
    ("duration_too_long", r#""1s""#, r#""100000s""#),
    ("warmup_too_long", r#"duration = "1s""#, "duration = \"1s\"\nwarmup = \"2s\""),
    ("period_zero", r#""1ms""#, r#""0ms""#),
    ("frames_zero", r#"haptic = { period = "1ms" }"#, r#"video = { rate = "400kbit", fps = 0 }"#),
    ("frames_negative", r#"haptic = { period = "1ms" }"#, r#"video = { rate = "400kbit", fps = -1 }"#),
    ("frames_in_part", r#"haptic = { period = "1ms" }"#, r#"video = { rate = "400kbit", fps = 2.5 }"#),
    ("dscp_64", r#"haptic = { period = "1ms" }"#, "haptic = { period = \"1ms\" }\ndscp = 64"),
    ("count_zero", r#"from = "a""#, "from = \"a\"\ncount = 0"),
    (
        "stop_of_a_bulk_transfer",
        r#"traffic = { cbr = { rate = "1Mbit", packet = "150B" } }"#,
        "traffic = \"tcp\"\nstop = \"500ms\"",
    ),
    ("packet_too_small", r#""150B""#, r#""5B""#),
    (
        "packet_without_room",
        r#"haptic = { period = "1ms" }"#,
        "haptic = { period = \"1ms\" }\npacket = \"20B\"",
    ),
    ("gap_too_long", r#"robot = "b""#, "robot = \"b\"\ntransport = { etp = { gap = \"900s\" } }"),
    ("gap_missing", r#"robot = "b""#, "robot = \"b\"\ntransport = { etp = { tcp = {} } }"),
    ("timeout_zero", r#"robot = "b""#, "robot = \"b\"\ntransport = { tcp = { min_rto = \"0s\" } }"),
    ("queue_of_none", r#"bytes = "14kB""#, "packets = 0"),
    ("queue_of_no_bytes", r#""14kB""#, r#""0B""#),
    (
        "fragment_zero",
        r#"haptic = { period = "1ms" }"#,
        "haptic = { period = \"1ms\" }\nmultiplexer = { fixed_fragment = { fragment = \"0B\" } }",
    ),
    ("cut_ends_before_it_begins", r#"{ delay = "8ms" }"#, r#"{ cut = { at = "2s", until = "1s" } }"#),
    ("table_every_zero", r#"{ delay = "8ms" }"#, r#"{ delay_table = { file = "x.csv", every = "0s" } }"#),
    (
        "rates_unsorted",
        r#"rate = "6Mbit""#,
        r#"rate_table = [{ at = "0s", rate = "1Mbit" }, { at = "2s", rate = "2Mbit" }, { at = "1s", rate = "2Mbit" }]"#,
    ),
    ("rates_negative", r#"rate = "6Mbit""#, r#"rate_table = [{ at = "0s", rate = "-1Mbit" }]"#),
    ("two_rates", r#"rate = "6Mbit""#, r#"rate = "6Mbit", mahimahi = "none.up""#),
    ("no_rate", r#"rate = "6Mbit", "#, ""),
    ("sampler_without_signal", r#"{ period = "1ms" }"#, r#"{ sampler = "deadband" }"#),
    ("nothing_to_ride_on", r#"haptic = { period = "1ms" }"#, "audio = { }\nmultiplexer = \"visual_haptic\""),
    ("silent_stream", r#"haptic = { period = "1ms" }"#, ""),
    ("escape_in_title", r#""t""#, "\"\\u001b[2J\""),
    ("operator_nowhere", r#"operator = "a""#, r#"operator = "x""#),
    ("sender_nowhere", r#"from = "a""#, r#"from = "x""#),
    ("no_such_lan", r#"from = "a""#, r#"from = "lan/*""#),
    ("link_to_itself", r#"["a", "b"]"#, r#"["a", "a"]"#),
    ("link_of_three", r#"["a", "b"]"#, r#"["a", "b", "c"]"#),
    ("link_of_one", r#"["a", "b"]"#, r#"["a"]"#),
    ("link_without_ends", "between = [\"a\", \"b\"]\n", ""),
    ("one_way_session", r#"between = ["a", "b"]"#, "from = \"a\"\nto = \"b\""),
    (
        "unconnected",
        "[cross.noise]",
        "[links.far]\nbetween = [\"c\", \"d\"]\n\n[cross.lost]\nfrom = \"a\"\nto = \"d\"\ntraffic = \"voice\"\n\n[cross.noise]",
    ),
    (
        "unknown_model_link",
        "[cross.noise]",
        "[model]\nlink = \"x\"\ndirection = \"backward\"\ncross = []\n\n[cross.noise]",
    ),
    (
        "variant_of_no_key",
        "[cross.noise]",
        "[[variant]]\nname = \"x\"\nset = { \"nothing.here\" = 1 }\n\n[cross.noise]",
    ),
    (
        "variant_of_bad_value",
        "[cross.noise]",
        "[[variant]]\nname = \"x\"\nset = { \"cross.rate\" = \"-3Mbit\" }\n\n[cross.noise]",
    ),
    (
        "variant_out_of_range",
        "[cross.noise]",
        "[[variant]]\nname = \"x\"\nset = { \"noise.count\" = 0 }\n\n[cross.noise]",
    ),
    (
        "variant_ambiguous",
        "[cross.noise]",
        "[[variant]]\nname = \"x\"\nset = { \"rate\" = \"3Mbit\" }\n\n[cross.noise]",
    ),
    (
        "axis_of_bad_value",
        "[cross.noise]",
        "[[axis]]\nname = \"rate\"\n[[axis.value]]\nname = \"low\"\nset = { \"cross.rate\" = \"1Mbit\" }\n\n\
         [[axis.value]]\nname = \"x\"\nset = { \"cross.rate\" = \"nonsense\" }\n\n[cross.noise]",
    ),
    (
        "axis_out_of_range",
        "[cross.noise]",
        "[[axis]]\nname = \"one\"\n[[axis.value]]\nname = \"x\"\n[axis.value.set]\n\"cross.packet\" = \"100B\"\n\
         \"noise.count\" = 0\n\n[[axis]]\nname = \"two\"\n[[axis.value]]\nname = \"y\"\n\n[cross.noise]",
    ),
    (
        "variant_unknown_key",
        "[cross.noise]",
        "[[variant]]\nname = \"x\"\nsets = { \"cross.rate\" = \"3Mbit\" }\n\n[cross.noise]",
    ),
    (
        "recording_absent",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "none.csv", channels = ["x"] } } }"#,
    ),
    (
        "recording_empty",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "empty.csv", channels = ["x"] } } }"#,
    ),
    (
        "recording_with_nan",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "nan.csv", channels = ["x"] } } }"#,
    ),
    (
        "recording_unsorted",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "unsorted.csv", channels = ["x"] } } }"#,
    ),
    (
        "recording_truncated",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "truncated.mcap", channels = ["x"] } } }"#,
    ),
    (
        "recording_of_no_such_channel",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "good.csv", channels = ["z"] } } }"#,
    ),
    (
        "recording_of_no_channel",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "good.csv", channels = [] } } }"#,
    ),
    (
        "recording_is_a_capture",
        r#"{ period = "1ms" }"#,
        r#"{ source = { recording = { file = "good.pcap", channels = ["x"] } } }"#,
    ),
    (
        "replay_absent",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ replay = { file = "none.pcap" } }"#,
    ),
    (
        "replay_truncated",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ replay = { file = "truncated.pcap" } }"#,
    ),
    (
        "replay_empty",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ replay = { file = "empty.csv" } }"#,
    ),
    (
        "replay_of_signals",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ replay = { file = "good.csv" } }"#,
    ),
    (
        "video_absent",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ rtp = { file = "none.pcap" } }"#,
    ),
    (
        "video_truncated",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ rtp = { file = "truncated.pcap" } }"#,
    ),
    (
        "video_without_rtp",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ rtp = { file = "good.pcap" } }"#,
    ),
    (
        "video_of_signals",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ rtp = { file = "good.csv" } }"#,
    ),
    (
        "video_scaled",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ rtp = { file = "good.pcap", rate = "1Mbit" } }"#,
    ),
    (
        "video_adapted",
        r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#,
        r#"{ rtp = { file = "good.pcap", sender = "gcc" } }"#,
    ),
    ("mahimahi_absent", r#"rate = "6Mbit""#, r#"mahimahi = "none.up""#),
    ("mahimahi_unsorted", r#"rate = "6Mbit""#, r#"mahimahi = "unsorted.up""#),
    ("mahimahi_empty", r#"rate = "6Mbit""#, r#"mahimahi = "empty.csv""#),
    ("delays_of_signals", r#"{ delay = "8ms" }"#, r#"{ delay_table = { file = "good.csv" } }"#),
    ("losses_without_column", r#"{ delay = "8ms" }"#, r#"{ loss_table = { file = "delays.csv" } }"#),
];

/// Whole files that are no scenario.
const FILES: &[(&str, &[u8])] = &[
    ("empty", b""),
    ("blank", b"\n \n"),
    ("prose", b"hello world\n"),
    ("value_missing", b"title = \n"),
    ("key_twice", b"title = \"t\"\ntitle = \"u\"\n"),
    ("latin1", b"title = \"t\"\ndescription = \"\xe9\"\n"),
    ("nothing_sent", b"title = \"t\"\nduration = \"1s\"\n[links]\n"),
    ("escape_in_key", b"\"\\u001b[2J\" = 3\n"),
];

/// One packet of 60 bytes (Ethernet) in a capture, and the same file cut off in the middle of it.
fn pcap() -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    file.extend([0, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
    file.extend([0; 60]);
    file
}

/// The recordings that the edits name.
fn recordings(world: &World) {
    world.write("empty.csv", "");
    world.write("nan.csv", "time_s,x\n0,1\n0.001,NaN\n");
    world.write("unsorted.csv", "time_s,x\n0.0040,1\n0.0035,2\n");
    world.write("unsorted.up", "1\n5\n4\n");
    world.write("good.csv", "time_s,x,y\n0,1,2\n0.001,2,3\n");
    world.write("delays.csv", "start_time,stop_time,delay\n0,1,20\n1,2,30\n");
    world.write("good.pcap", pcap());
    world.write("truncated.pcap", &pcap()[..70]);
    world.good("trace convert good.csv good.mcap");
    let mcap = world.read("good.mcap");
    world.write("truncated.mcap", &mcap[..mcap.len() / 2]);
}

#[test]
fn bad_input_gives_one_line_and_leaves_nothing_behind() {
    let world = World::new("bad-input");
    recordings(&world);
    let mut told = String::new();
    let edits = EDITS.iter().map(|(name, old, new)| {
        assert!(SCENARIO.contains(old), "{name}: {old}");
        (*name, SCENARIO.replacen(old, new, 1).into_bytes())
    });
    let files = FILES.iter().map(|(name, bytes)| (*name, bytes.to_vec()));
    for (name, scenario) in edits.chain(files) {
        world.write(&format!("{name}.toml"), scenario);
        let ended = world.taut(&format!("run {name}.toml --out new/out --capture --events --samples"));
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{name}: {}", ended.err);
        assert!(!world.path("new").exists(), "{name}");
        let many = world.taut(&format!("run {name}.toml --out new --seeds 1..2"));
        assert_eq!((many.status, many.err.as_str()), (2, ended.err.as_str()), "{name}");
        assert!(!world.path("new").exists(), "{name}");
        told += &ended.err;
    }
    assert_lines(&told, EXPECTED);
}

#[test]
fn pictures_or_sound_of_one_name_and_way_are_refused() {
    let world = World::new("bad-names");
    world.write("front.toml", "[[channel]]\nname = \"front\"\nkind = \"video\"\nschema = \"taut/Picture\"\n");
    let robot = "robot --listen 127.0.0.1:0 --plaintext --transport udp --state none";
    let operator = "operator --connect 127.0.0.1:9 --plaintext --transport udp --state none";
    for (arguments, what) in [
        (format!("{robot} --video front=test --video front=test:320x240"), "--video front"),
        (format!("{robot} --channels front.toml --video front=test --video front=test"), "--video front"),
        (format!("{robot} --microphone cell=click --microphone cell=tone"), "sound \"cell\""),
        (format!("{robot} --video cell=test --microphone cell=tone"), "sound \"cell\""),
        (format!("{robot} --speaker voice=null --speaker voice=null"), "sound \"voice\""),
        (format!("{operator} --video front --video front"), "--video front"),
        (format!("{operator} --microphone voice=click --microphone voice=click"), "sound \"voice\""),
    ] {
        let ended = world.taut(&arguments);
        assert_eq!(ended.status, 2, "taut {arguments}: {}", ended.err);
        assert!(ended.err.contains("is there already"), "taut {arguments}: {}", ended.err);
        assert!(ended.err.contains(what), "taut {arguments}: {}", ended.err);
    }
    // One of each way is another channel; without libopus that is what is said.
    let both = world.taut(&format!("{robot} --microphone cell=wav:missing --speaker cell=null"));
    assert!(both.status == 2 && !both.err.contains("is there already"), "{}", both.err);
}

#[test]
fn an_older_report_is_left_as_it_was() {
    let world = World::new("older-report");
    recordings(&world);
    world.write("good.toml", SCENARIO);
    world.good("run good.toml --out out --capture --events --samples");
    world.write("out/notes.txt", "mine");
    let before = world.hashes("out");
    for (name, old, new) in
        EDITS.iter().filter(|(name, ..)| name.starts_with("re") || name.starts_with("unc"))
    {
        world.write(&format!("{name}.toml"), SCENARIO.replacen(old, new, 1));
        assert_eq!(
            world.taut(&format!("run {name}.toml --out out --capture --events --samples")).status,
            2,
            "{name}"
        );
        assert_eq!(world.hashes("out"), before, "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let world = World::new("bad-output");
    world.write("s.toml", SCENARIO);
    world.write("file", "x");
    let told = |arguments: &str| {
        let ended = world.taut(arguments);
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{arguments}");
        ended.err
    };
    let line = told("run s.toml --out file");
    assert!(line.starts_with("taut: file: cannot be made: ") && line.lines().count() == 1, "{line}");
    std::fs::create_dir_all(world.path("out/report.html")).unwrap();
    std::fs::write(world.path("out/run.json"), "older").unwrap();
    let line = told("run s.toml --out out --events");
    assert_eq!(line, "taut: out/report.html: cannot be written: this is a folder\n");
    assert_eq!(world.hashes("out").len(), 1);
    assert_eq!(world.read("out/run.json"), b"older");
}

#[test]
fn a_trace_that_cannot_be_read_is_told_and_not_converted() {
    let world = World::new("bad-traces");
    recordings(&world);
    let mut told = String::new();
    for file in ["empty.csv", "nan.csv", "unsorted.csv", "unsorted.up", "truncated.pcap", "none.csv"] {
        let ended = world.taut(&format!("trace convert {file} converted.csv"));
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{file}");
        assert!(!world.path("converted.csv").exists(), "{file}");
        let info = world.taut(&format!("trace info {file}"));
        assert_eq!((info.status, info.err.as_str()), (2, ended.err.as_str()), "{file}");
        told += &ended.err;
    }
    assert_lines(&told, TRACES_TOLD);
    // What is whole of it is looked at and converted, with a note.
    let note = "byte 372, after which the file ends inside a record";
    assert!(world.good("trace info truncated.mcap").contains(note));
    let converted = world.taut("trace convert truncated.mcap converted.csv");
    assert!(converted.status == 0 && converted.err.contains(note), "{converted:?}");
}

#[test]
fn a_run_json_that_is_none_is_told() {
    let world = World::new("bad-replay");
    world.write("s.toml", SCENARIO);
    world.good("run s.toml --out out");
    let run = String::from_utf8(world.read("out/run.json")).unwrap();
    world.write("empty.json", "");
    world.write("truncated.json", &run[..run.len() / 2]);
    world.write("other.json", "{}");
    world.write("edited.json", run.replace("rate = \\\"6Mbit\\\"", "rate = \\\"-6Mbit\\\""));
    let told = ["empty.json", "other.json", "edited.json", "truncated.json"].map(|file| {
        let ended = world.taut(&format!("replay {file} --out again"));
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{file}");
        assert!(!world.path("again").exists(), "{file}");
        ended.err
    });
    assert_lines(&told[..3].concat(), REPLAYS_TOLD);
    assert!(
        told[3].starts_with("taut: truncated.json: is not the run.json of a run: EOF while "),
        "{}",
        told[3]
    );
}

const EXPECTED: &str = r#"taut: unknown_key.toml:2: durration: unknown key; allowed here: `title`, `description`, `duration`, `warmup`, `limits`, `drain`, `lans`, `links`, `session`, `teleop`, `commands`, `cross`, `model`, `variant`, `axis`
taut: unknown_key_of_a_link.toml:6: links.wire.latency: unknown key; allowed here: `between`, `from`, `to`, `chain`
taut: unknown_key_of_a_server.toml:8: links.wire.chain.0.server.speed: unknown key; allowed here: `rate`, `mahimahi`, `rate_table`, `queue`
taut: unknown_element.toml:9: links.wire.chain.1.latency: `latency` is not one of `server`, `delay`, `delay_table`, `jitter`, `jitter_table`, `loss`, `loss_table`, `recorded`, `duplicate`, `corrupt`, `cut`, `gate`
taut: two_kinds.toml:9: links.wire.chain.1: exactly one kind is needed, of `server`, `delay`, `delay_table`, `jitter`, `jitter_table`, `loss`, `loss_table`, `recorded`, `duplicate`, `corrupt`, `cut`, `gate`
taut: no_kind.toml:9: links.wire.chain.1: exactly one kind is needed, of `server`, `delay`, `delay_table`, `jitter`, `jitter_table`, `loss`, `loss_table`, `recorded`, `duplicate`, `corrupt`, `cut`, `gate`
taut: missing_title.toml: the key `title` is missing
taut: missing_traffic.toml:19: cross.noise: the key `traffic` is missing
taut: missing_packet.toml:22: cross.noise.traffic.cbr: the key `packet` is missing
taut: kind_without_settings.toml:22: cross.noise.traffic.cbr: the key `rate` is missing
taut: unknown_traffic.toml:22: cross.noise.traffic.cbrr: `cbrr` is not one of `cbr`, `poisson`, `voice`, `video`, `rtp`, `haptic`, `replay`, `tcp`
taut: unknown_transport.toml:15: session.transport: `udpp` is not one of `udp`, `etp`, `tcp`, `quic`, `sctp`, `dccp`, `mtip`, `mptcp`, `mpquic`, `every_path`
taut: unknown_congestion.toml:15: session.transport.tcp.congestion: `bbr` is not one of `reno`, `newreno`, `cubic`
taut: transport_is_a_number.toml:15: session.transport: exactly one kind is needed, of `udp`, `etp`, `tcp`, `quic`, `sctp`, `dccp`, `mtip`, `mptcp`, `mpquic`, `every_path`
taut: unknown_distribution.toml:9: links.wire.chain.1.jitter.distribution: `gauss` is not one of `uniform`, `normal`, `pareto`
taut: unknown_device.toml:17: session.backward.haptic.source.simulated.device: `master` is not one of `leader` or `follower`
taut: link_is_text.toml:6: links.short: `"a to b"` is not a table, `{ … }`
taut: negative_rate.toml:8: links.wire.chain.0.server.rate: `-6Mbit` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: rate_without_unit.toml:8: links.wire.chain.0.server.rate: `6` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: rate_without_unit_in_quotes.toml:8: links.wire.chain.0.server.rate: `6` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: rate_is_nan.toml:8: links.wire.chain.0.server.rate: `nan` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: rate_is_nan_with_unit.toml:8: links.wire.chain.0.server.rate: `NaNMbit` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: rate_is_zero.toml:8: links.wire.chain.0.server.rate: must be more than 0; use `cut` for a link that passes nothing
taut: negative_rate_of_traffic.toml:22: cross.noise.traffic.cbr.rate: `-1Mbit` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: negative_delay.toml:9: links.wire.chain.1.delay: `-8ms` is not a duration; write a number of ns, us, ms, s or min that is not negative, such as 8ms
taut: delay_is_true.toml:9: links.wire.chain.1.delay: `true` is not a duration; write a number of ns, us, ms, s or min that is not negative, such as 8ms
taut: loss_beyond_one.toml:9: links.wire.chain.1.loss.bernoulli: `101%` is not a probability; write a fraction from 0 to 1 or a percentage from 0% to 100%, such as 1%
taut: loss_is_nan.toml:9: links.wire.chain.1.loss.bernoulli: `nan` is not a probability; write a fraction from 0 to 1 or a percentage from 0% to 100%, such as 1%
taut: unknown_policy.toml:9: links.wire.chain.1.gate.policy: `aimd9` is not one of `step`, `dyna1`, `dyna2`, `dyna3`, `dyna4`, `dyna5`, `aimd1`, `aimd2`, `aimd3`, `aimd4`, `aimd5`, `deadline`
taut: gate_of_rtcp.toml:9: links.wire.chain.1.gate.payload_type: 72 is none of video: 0 to 63, 96 to 127
taut: unknown_queue.toml:8: links.wire.chain.0.server.queue.cakes: unknown key; allowed here: `bytes`, `packets`, `codel`, `fq_codel`, `pie`, `red`, `prio`, `tbf`, `cake`; there is `lans.NAME.chain.0.server.queue.cake`, `links.NAME.chain.0.server.queue.cake`
taut: code_point_twice.toml:9: links.wire.chain.1.server.queue.prio.classes.1.dscp: 46 has a band before
taut: interval_of_codel.toml:8: links.wire.chain.0.server.queue.codel.interval: 5s is not within 1us to 4s
taut: rate_of_tbf.toml:8: links.wire.chain.0.server.queue.tbf: the key `burst` is missing
taut: delays_of_nowhere.toml:9: links.wire.chain.1.jitter_table.file: none.csv: there is no such file
taut: delays_that_are_not_part_of_the_project.toml:9: links.wire.chain.1.jitter_table.file: ../shared/data/multipath-5g/none.csv: is a recording that is not part of this project (delay, jitter and loss of two 5G links, from github.com/deliarico/MTIP), and it is not there; all scenarios but two-5g-links.toml, two-5g-links-perturbed.toml, two-measured-5g-links.toml, link-failure.toml, telehaptic-qos/adaptive-sampling.toml, telehaptic-qos/recordings.toml and telehaptic-qos/reductions.toml run without recordings, and so do --variant "a stable" and "b link failure" of the first
taut: frames_beyond_240.toml:22: cross.noise.traffic.rtp.fps: 241 is not within 1 to 240
taut: video_with_nobody.toml:22: cross.noise.traffic.rtp.with: `nobody` is no single cross traffic of type haptic or replay
taut: touch_without_period.toml:22: cross.noise.traffic.haptic.period: 0ns is not within 10us to 1s
taut: commands_to_nobody.toml:14: commands.to: no link leads to `z`; there are a, b
taut: commands_without_paths.toml:15: commands.paths: 0 is not within 1 to 8
taut: command_too_long.toml:15: commands.size: 1MB is not within 16B to 1.2kB
taut: correlation_is_nan.toml:9: links.wire.chain.1.jitter.correlation: NaN is not within 0 to 1
taut: deadband_is_nan.toml:17: session.backward.haptic.sampler.deadband.k: NaN is not within 0 to 1
taut: title_is_a_number.toml:1: title: `7` is not text; write it in quotes
taut: duration_zero.toml:2: duration: 0ns is not within 1ns to 86400s
taut: duration_too_long.toml:2: duration: 100000s is not within 1ns to 86400s
taut: warmup_too_long.toml:3: warmup: 2s is not less than the duration 1s
taut: period_zero.toml:17: session.backward.haptic.period: 0ns is not within 10us to 60s
taut: frames_zero.toml:17: session.backward.video.fps: 0 is not within 1 to 240
taut: frames_negative.toml:17: session.backward.video.fps: `-1` is not a whole number, 0 or more
taut: frames_in_part.toml:17: session.backward.video.fps: `2.5` is not a whole number, 0 or more
taut: dscp_64.toml:18: session.backward.dscp: 64 is not within 0 to 63
taut: count_zero.toml:21: cross.noise.count: 0 is not within 1 to 1000
taut: stop_of_a_bulk_transfer.toml:23: cross.noise.stop: is for other traffic: a bulk transfer over TCP never ends
taut: packet_too_small.toml:22: cross.noise.traffic.cbr.packet: 5B is not within 28B to 65.535kB
taut: packet_without_room.toml:18: session.backward.packet: 20B is not within 64B to 1.5kB
taut: gap_too_long.toml:15: session.transport.etp.gap: 900s is not within 0ns to 655.35ms
taut: gap_missing.toml:15: session.transport.etp.gap: is needed with `tcp`: only over UDP does the gap adapt
taut: timeout_zero.toml:15: session.transport.tcp.min_rto: 0ns is not within 1ms to 60s
taut: queue_of_none.toml:8: links.wire.chain.0.server.queue.packets: must be at least 1
taut: queue_of_no_bytes.toml:8: links.wire.chain.0.server.queue.bytes: must be at least 1B
taut: fragment_zero.toml:18: session.backward.multiplexer.fixed_fragment.fragment: 0B is not within 1B to 1.2kB
taut: cut_ends_before_it_begins.toml:9: links.wire.chain.1.cut.until: 1s is not after 2s
taut: table_every_zero.toml:9: links.wire.chain.1.delay_table.every: 0ns is not within 1us to 86400s
taut: rates_unsorted.toml:8: links.wire.chain.0.server.rate_table.2.at: 1s is not after 2s of the row before
taut: rates_negative.toml:8: links.wire.chain.0.server.rate_table.0.rate: `-1Mbit` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: two_rates.toml:8: links.wire.chain.0.server: needs exactly one of `rate`, `mahimahi` and `rate_table`
taut: no_rate.toml:8: links.wire.chain.0.server: needs exactly one of `rate`, `mahimahi` and `rate_table`
taut: sampler_without_signal.toml:17: session.backward.haptic.sampler: needs a signal: set `source` to `simulated`, `recording` or `contacts`
taut: nothing_to_ride_on.toml:18: session.backward.multiplexer: visual_haptic needs `haptic` samples to ride on
taut: silent_stream.toml:16: session.backward: needs at least one of `haptic`, `audio` and `video`
taut: escape_in_title.toml:1: title: has a control character in it
taut: operator_nowhere.toml:13: session.operator: no link leads to `x`; there are a, b
taut: sender_nowhere.toml:20: cross.noise.from: no link leads to `x`; there are a, b
taut: no_such_lan.toml:20: cross.noise.from: there is no LAN `lan`
taut: link_to_itself.toml:5: links.wire: connects a vertex with itself
taut: link_of_three.toml:6: links.wire.between: names 3 vertices; a link is between two, ["a", "b"]
taut: link_of_one.toml:6: links.wire.between: names 1 vertices; a link is between two, ["a", "b"]
taut: link_without_ends.toml:5: links.wire: needs either `between = ["a", "b"]` or both `from` and `to`
taut: one_way_session.toml:13: session: no links lead from `b` to `a`
taut: unconnected.toml:22: cross.lost: no links lead from `a` to `d`
taut: unknown_model_link.toml:20: model.link: no link `x`; there are wire
taut: variant_of_no_key.toml:21: variant "x": nothing.here=1: no key `nothing.here` in this scenario; `--print` shows all that there are
taut: variant_of_bad_value.toml:21: variant "x": cross.rate=-3Mbit: `-3Mbit` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: variant_out_of_range.toml:21: variant "x": noise.count=0: cross.noise.count: 0 is not within 1 to 1000
taut: variant_ambiguous.toml:21: variant "x": rate=3Mbit: `rate` may be any of cross.noise.traffic.cbr.rate, links.wire.chain.0.server.rate; write more of the key, such as cross.rate=3Mbit
taut: axis_of_bad_value.toml:27: variant "x": cross.rate=nonsense: `nonsense` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
taut: axis_out_of_range.toml:25: variant "x, y": cross.packet=100B noise.count=0: cross.noise.count: 0 is not within 1 to 1000
taut: variant_unknown_key.toml:21: variant.0.sets: unknown key; allowed here: `name`, `set`, `reported`; there is `variant.0.set`
taut: recording_absent.toml:17: session.backward.haptic.source.recording.file: none.csv: there is no such file
taut: recording_empty.toml:17: session.backward.haptic.source.recording.file: empty.csv: the file is empty
taut: recording_with_nan.toml:17: session.backward.haptic.source.recording.file: nan.csv:3: x: `NaN` is not a finite number
taut: recording_unsorted.toml:17: session.backward.haptic.source.recording.file: unsorted.csv:3: time_s: 0.0035 is before 0.0040 of the line before; times must not go back
taut: recording_truncated.toml:17: session.backward.haptic.source.recording.file: truncated.mcap: byte 372: the file ends inside a record, as one whose writer was killed: `taut trace repair` finishes it
taut: recording_of_no_such_channel.toml:17: session.backward.haptic.source.recording.channels: good.csv has no channel `z`; there are x, y
taut: recording_of_no_channel.toml:17: session.backward.haptic.source.recording.channels: names none; there are x, y
taut: recording_is_a_capture.toml:17: session.backward.haptic.source.recording.file: good.pcap: holds packets; a CSV or MCAP recording of signals is needed
taut: replay_absent.toml:22: cross.noise.traffic.replay.file: none.pcap: there is no such file
taut: replay_truncated.toml:22: cross.noise.traffic.replay.file: truncated.pcap: byte 24: the file ends inside a packet; it is cut short
taut: replay_empty.toml:22: cross.noise.traffic.replay.file: empty.csv: the file is empty
taut: replay_of_signals.toml:22: cross.noise.traffic.replay.file: good.csv: holds signals; a pcap or pcapng file of packets is needed
taut: video_absent.toml:22: cross.noise.traffic.rtp.file: none.pcap: there is no such file
taut: video_truncated.toml:22: cross.noise.traffic.rtp.file: truncated.pcap: byte 24: the file ends inside a packet; it is cut short
taut: video_without_rtp.toml:22: cross.noise.traffic.rtp.file: good.pcap: has no RTP packets to UDP port 5004
taut: video_of_signals.toml:22: cross.noise.traffic.rtp.file: good.csv: a pcap or pcapng file of packets is needed
taut: video_scaled.toml:22: cross.noise.traffic.rtp.rate: is for the encode: a `file` has times and packets of its own
taut: video_adapted.toml:22: cross.noise.traffic.rtp.sender: is for the encode: a `file` has times and packets of its own
taut: mahimahi_absent.toml:8: links.wire.chain.0.server.mahimahi: none.up: there is no such file
taut: mahimahi_unsorted.toml:8: links.wire.chain.0.server.mahimahi: unsorted.up: line 3: 4 ms is before the previous line's 5 ms; times must not decrease
taut: mahimahi_empty.toml:8: links.wire.chain.0.server.mahimahi: empty.csv: the trace is empty; it needs at least one line with a time in milliseconds
taut: delays_of_signals.toml:9: links.wire.chain.1.delay_table.file: good.csv: holds signals; a table with start_time, stop_time and delay is needed
taut: losses_without_column.toml:9: links.wire.chain.1.loss_table.file: delays.csv: has no column packet_loss
taut: empty.toml: is empty; a scenario has at least title, duration and links
taut: blank.toml: is empty; a scenario has at least title, duration and links
taut: prose.toml:1: this is not TOML: key with no value, expected `=`, in `hello world`
taut: value_missing.toml:1: this is not TOML: string values must be quoted, expected literal string, in `title =`
taut: key_twice.toml:2: this is not TOML: duplicate key, in `title = "u"`
taut: latin1.toml:2: this is not UTF-8 text
taut: nothing_sent.toml: has neither `session`, `teleop`, `commands` nor `cross`: nothing would be sent
taut: escape_in_key.toml:1: \u{1b}[2J: unknown key; allowed here: `title`, `description`, `duration`, `warmup`, `limits`, `drain`, `lans`, `links`, `session`, `teleop`, `commands`, `cross`, `model`, `variant`, `axis`
"#;

const TRACES_TOLD: &str = r#"taut: empty.csv: the file is empty
taut: nan.csv:3: x: `NaN` is not a finite number
taut: unsorted.csv:3: time_s: 0.0035 is before 0.0040 of the line before; times must not go back
taut: unsorted.up:3: 4 ms is before the previous line's 5 ms; times must not decrease
taut: truncated.pcap: byte 24: the file ends inside a packet; it is cut short
taut: none.csv: No such file or directory (os error 2)
"#;

const REPLAYS_TOLD: &str = r#"taut: empty.json: is not the run.json of a run: EOF while parsing a value at line 1 column 0
taut: other.json: is not the run.json of a run: missing field `taut` at line 1 column 2
taut: edited.json (scenario):13: links.wire.chain.0.server.rate: `-6Mbit` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
"#;
