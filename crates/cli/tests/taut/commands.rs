//! The other commands: schema, plan, trace; and what `run` prints.

use std::process::Command;

use serde_json::Value;

use crate::world::{SCENARIO, World, ended};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"))
}

#[test]
fn run_prints_json_that_is_the_run_json() {
    let world = World::new("json");
    world.write("s.toml", SCENARIO);
    let printed = world.good("run s.toml --json --out out");
    assert_eq!(printed.as_bytes(), world.read("out/run.json"));
    assert_eq!(json(&printed)["conservation"]["holds"], true);
    let campaign = world.good("run s.toml --seeds 1..2 --json --out many");
    assert_eq!(campaign.as_bytes(), world.read("many/campaign.json"));
    assert_eq!(json(&campaign)["variants"][0]["seeds"], serde_json::json!([1, 2]));
}

#[test]
fn strict_makes_a_missed_limit_an_exit_status() {
    let world = World::new("strict");
    world.write("s.toml", SCENARIO);
    assert!(world.good("run s.toml --strict").ends_with("\nPASS: every limit is met\n"));
    let late = world.taut("run s.toml --strict --set links.delay=80ms");
    assert_eq!((late.status, late.err.as_str()), (1, ""));
    assert!(late.out.ends_with("\nFAIL: a limit is not met\n"), "{}", late.out);
    assert!(world.good("run s.toml --set links.delay=80ms").ends_with("\nFAIL: a limit is not met\n"));
}

#[test]
fn what_print_shows_is_a_scenario_that_gives_the_same_run() {
    let world = World::new("print");
    world.write("s.toml", SCENARIO);
    world.write("printed.toml", world.good("run s.toml --set links.rate=5Mbit --print"));
    assert_eq!(world.good("run printed.toml --json"), world.good("run s.toml --set links.rate=5Mbit --json"));
}

/// Follows a `$ref`.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

/// Every scenario that is shipped.
fn shipped() -> Vec<std::path::PathBuf> {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty());
    files
}

#[test]
fn the_schema_knows_every_key_of_the_scenarios() {
    let world = World::new("schema");
    let schema = json(&world.good("schema"));
    assert_eq!(schema["title"], "Scenario");
    assert_eq!(schema["additionalProperties"], false);
    for path in shipped() {
        let table: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        let value = serde_json::to_value(&table).unwrap();
        check(&value, &schema, &schema).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// Another reader of TOML and another validator.
const VALIDATE: &str = "
import json, sys, tomllib, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for name in sys.argv[2:]:
    for error in validator.iter_errors(tomllib.load(open(name, 'rb'))):
        print(name, list(error.absolute_path), error.message)
";

#[test]
fn another_validator_accepts_the_scenarios_by_the_schema() {
    let world = World::new("schema-python");
    world.write("schema.json", world.good("schema"));
    let mut python = std::process::Command::new("python3");
    python.args(["-c", "import tomllib, jsonschema; jsonschema.Draft202012Validator"]);
    if !python.output().is_ok_and(|ended| ended.status.success()) {
        println!("skipped: there is no Python 3.11 with jsonschema 4 here");
        return;
    }
    let validate = |files: &[std::path::PathBuf]| {
        let mut python = std::process::Command::new("python3");
        let ended =
            ended(python.args(["-c", VALIDATE]).arg(world.path("schema.json")).args(files).output().unwrap());
        assert_eq!((ended.status, ended.err.as_str()), (0, ""));
        ended.out
    };
    world.write("bare.toml", bare());
    assert_eq!(validate(&[shipped(), vec![world.path("bare.toml")]].concat()), "");
    world.write("wrong.toml", SCENARIO.replace("[session]", "[session]\ntransport = \"udpp\""));
    assert_eq!(validate(&[world.path("wrong.toml")]).lines().count(), 1);
}

/// Kinds without settings, by their names.
fn bare() -> String {
    SCENARIO
        .replace("[session]", "[session]\ntransport = \"etp\"")
        .replace(r#"{ cbr = { rate = "1Mbit", packet = "150B" } }"#, "\"tcp\"")
        .replace(
            r#"{ period = "1ms" }"#,
            r#"{ source = { simulated = { device = "leader" } }, sampler = "deadband" }"#,
        )
}

#[test]
fn the_schema_accepts_kinds_by_their_names_as_the_command_does() {
    let world = World::new("schema-bare");
    let schema = json(&world.good("schema"));
    world.write("s.toml", bare());
    world.good("run s.toml --print");
    let accepted = |text: String| {
        let value = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
        check(&value, &schema, &schema)
    };
    assert_eq!(accepted(bare()), Ok(()));
    // Kinds that need settings cannot do without.
    assert_eq!(
        accepted(bare().replace("\"tcp\"", "\"cbr\"")),
        Err("cross: noise: traffic: no kind fits".into())
    );
    let two = bare().replace(r#"rate = "6Mbit""#, r#"rate = "6Mbit", mahimahi = "a.up""#);
    assert!(accepted(two).is_err());
}

#[test]
fn the_schema_refuses_what_the_command_refuses() {
    let world = World::new("schema-refuses");
    let schema = json(&world.good("schema"));
    let refused = |text: String| {
        let value = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
        check(&value, &schema, &schema).unwrap_err()
    };
    assert!(
        check(&serde_json::to_value(SCENARIO.parse::<toml::Table>().unwrap()).unwrap(), &schema, &schema)
            .is_ok()
    );
    assert_eq!(refused(SCENARIO.replace("drain", "drainn")), "unknown key drainn");
    assert_eq!(refused(SCENARIO.replace("title = \"t\"\n", "")), "title is missing");
    assert_eq!(refused(SCENARIO.replace("\"6Mbit\"", "6")), "links: wire: chain: 0: no kind fits");
}

/// As much of JSON Schema as the schema uses.
fn check(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let schema = resolved(schema, root);
    for kinds in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[kinds].as_array() {
            match choices.iter().filter(|kind| check(value, kind, root).is_ok()).count() {
                0 => return Err("no kind fits".to_owned()),
                1 => {}
                _ if kinds == "anyOf" => {}
                _ => return Err("more than one kind fits".to_owned()),
            }
        }
    }
    if let Some(constant) = schema.get("const") {
        return if constant == value { Ok(()) } else { Err(format!("{value} is not {constant}")) };
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Err(format!("{value} is not one of {values:?}"));
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let fits = types.is_empty()
        || types.iter().any(|kind| match *kind {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => other == "null" && value.is_null(),
        });
    if !fits {
        return Err(format!("{value} is not {types:?}"));
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], root).map_err(|e| format!("{i}: {e}"))?;
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(required) {
            return Err(format!("{required} is missing"));
        }
    }
    for (key, inner) in object {
        let property = &schema["properties"][key];
        let property = if property.is_null() { &schema["additionalProperties"] } else { property };
        if property == &Value::Bool(false) {
            return Err(format!("unknown key {key}"));
        }
        check(inner, property, root).map_err(|e| format!("{key}: {e}"))?;
    }
    Ok(())
}

#[test]
fn plan_answers_from_the_model() {
    let world = World::new("plan");
    let link = "plan --rate 6Mbit --delay 8ms --buffer 14kB --cross tcp,cbr:1.904Mbit";
    let text = world.good(link);
    assert!(text.contains("26.6"), "{text}");
    let prediction = json(&world.good(&format!("{link} --json")));
    assert!(prediction["compliant"].is_null(), "of a frame's 40 packets each has to arrive: {prediction}");
    assert!(text.contains("NO  video_loss"), "{text}");
    assert_eq!(world.taut(&format!("{link} --strict")).status, 1);
    assert!(text.contains("  wall: RATTLES; it rattles from a round trip of 9.06 ms on"), "{text}");
    let samples = format!("{link} --fragment 0B");
    assert_eq!(world.taut(&format!("{samples} --strict")).status, 0);
    let strict = |profile: &str| world.taut(&format!("{samples} --limits {profile} --strict")).status;
    assert_eq!(["tr22847_stationary", "tr22847_dynamic", "jnd_inertia"].map(strict), [0, 1, 0]);
    let far = "plan --rate 6Mbit --delay 15ms --buffer 45kB --cross tcp,cbr:1.904Mbit";
    assert_eq!(world.taut(&format!("{far} --strict")).status, 1);
    assert_eq!(world.taut(far).status, 0);
}

/// Twenty milliseconds each way, with nothing beside the stream.
#[test]
fn a_plan_says_by_which_control_law_a_wall_is_touched_and_how_stiff_it_is_felt() {
    let world = World::new("plan-law");
    let link = "plan --rate 10Mbit --delay 20ms --buffer 14kB --fragment 0B --touch wall";
    let told = world.good(&format!("{link} --strict"));
    assert!(told.contains("\n  Take wave: ") && told.contains("yes calm_touch"), "{told}");
    let laws = json(&world.good(&format!("{link} --json")))["laws"].clone();
    let of = |law: &str| laws["laws"].as_array().unwrap().iter().find(|told| told["law"] == law).unwrap();
    assert_eq!((&laws["taken"], &of("position_force")["calm"]), (&"wave".into(), &false.into()), "{laws}");
    // k / (1 + kT/(2b)), with a period for sampling and holding.
    let seconds = (laws["rtt_ms"][1].as_f64().unwrap() + 1.0) / 1e3;
    let expected = 1_500.0 / (1.0 + 1_500.0 * seconds / 60.0);
    let wave = of("wave");
    assert!((wave["felt_n_m"].as_f64().unwrap() - expected).abs() < 0.5, "{laws}");
    assert_eq!((&wave["by"], &of("tdpa")["by"]), (&"theory".into(), &"simulation".into()));
}

/// The model has no jitter of TCP flows that are not alike, and no loss where one packet of each flow is more than the buffer holds.
#[test]
fn a_plan_chooses_no_control_law_where_it_does_not_know_what_is_lost_or_late() {
    let world = World::new("plan-unknown");
    for (buffer, cross, unknown) in
        [("60kB", "tcp:578B,tcp:1448B", "the jitter"), ("1kB", "cbr:1Mbit:1400B", "how much is lost")]
    {
        let link = format!("plan --rate 10Mbit --delay 20ms --buffer {buffer} --fragment 0B --cross {cross}");
        let asked = format!("{link} --touch wall");
        let told = world.good(&asked);
        let said = told.lines().find(|line| line.contains("calm_touch")).unwrap_or_else(|| panic!("{told}"));
        assert!(said.contains("NO") && said.contains(unknown) && !told.contains("Take "), "{told}");
        assert_eq!(world.taut(&format!("{asked} --strict")).status, 1, "{told}");
    }
}

#[test]
fn a_scenario_chooses_whose_limits_it_is_held_against() {
    let world = World::new("limits");
    world.write("s.toml", SESSION);
    let delay = |profile: &str| {
        let result = json(&world.good(&format!("run s.toml --variant UDP --set limits={profile} --json -q")));
        let limits = result["verdict"]["limits"].as_array().unwrap().clone();
        let delay = limits.iter().find(|limit| limit["quantity"] == "delay").unwrap();
        delay["limit"].to_string()
    };
    assert_eq!(["telehaptic", "tr22847_dynamic", "jnd_spring"].map(delay), ["30.0", "20.0", "18.0"]);
    let wrong = world.taut("run s.toml --set limits=strict");
    assert!(wrong.status == 2 && wrong.err.contains("jnd_inertia"), "{}", wrong.err);
}

#[test]
fn a_link_that_cannot_carry_the_load_meets_no_need() {
    let world = World::new("plan-overload");
    let told = world.good("plan --rate 6Mbit --delay 8ms --buffer 14kB --cross tcp,cbr:19Mbit");
    assert!(told.contains("NO  rate") && told.ends_with("not compliant\n"), "{told}");
    assert!(!told.contains("yes haptic_delay"), "{told}");
}

#[test]
fn a_campaign_is_a_line_for_each_variant_and_all_of_it_when_asked() {
    let world = World::new("campaign-table");
    world.write("s.toml", SESSION);
    let told = world.good("run s.toml --seeds 1..2");
    let of = |told: &str, name: &str| told.lines().filter(|line| line.trim_start().starts_with(name)).count();
    assert_eq!((of(&told, "UDP"), of(&told, "QUIC")), (1, 1), "{told}");
    assert!(told.contains("p99 ms  arrived %") && told.lines().count() < 16, "{told}");
    let limit = "\nlimits that are not met\n  forward haptic loss: not met in 4 of 4 runs, at worst ";
    assert!(told.contains(limit) && told.lines().all(|line| line.chars().count() <= 110), "{told}");
    let verbose = world.good("run s.toml --seeds 1..2 --verbose");
    assert!(verbose.contains("session handshake") && verbose.lines().count() > 40, "{verbose}");
}

#[test]
fn traces_are_shown_and_converted_there_and_back() {
    let world = World::new("trace");
    world.write("r.csv", "time_s,position_m,force_n\n0,0.5,1\n0.001,0.25,2\n0.002,0.125,3\n");
    assert!(world.good("trace info r.csv").contains("position"));
    let info = json(&world.good("trace info r.csv --json"));
    assert!(info.is_object(), "{info}");
    assert_eq!(world.good("trace convert r.csv r.mcap"), "r.mcap written\n");
    assert_eq!(world.good("trace convert r.mcap again.csv"), "again.csv written\n");
    world.good("trace convert again.csv again.mcap");
    assert_eq!(world.read("r.mcap"), world.read("again.mcap"));
}

/// An encode of `fourcc`: 30 frames of 3000 bytes, 60 a second.
fn ivf(fourcc: &str) -> Vec<u8> {
    let mut file = [b"DKIF\0\0\x20\0", fourcc.as_bytes(), &[0; 20]].concat();
    (file[16], file[20]) = (60, 1);
    for tick in 0..30u64 {
        file.extend([&3_000u32.to_le_bytes()[..], &tick.to_le_bytes(), &[9; 3_000]].concat());
    }
    file
}

#[test]
fn packets_are_made_of_an_encode_and_of_devices() {
    let world = World::new("trace-packets");
    world.write("clip.ivf", ivf("VP80"));
    world.write("cut.ivf", &ivf("VP80")[..9_000]);
    world.write("vp9.ivf", ivf("VP90"));
    assert_eq!(
        world.good("trace video clip.ivf video.pcap --packets 100"),
        "video.pcap: 100 packets of up to 1.044kB, 30 frames, in 0.483 s\n"
    );
    let info = json(&world.good("trace info video.pcap --json"));
    let flow = &info["packets"]["flows"][0];
    assert_eq!((flow["packets"].as_u64(), info["rows"].as_u64()), (Some(100), Some(100)), "{info}");
    assert_eq!(flow["flow"], "udp 10.0.0.1:49152 > 10.0.0.2:5004");
    let haptic = world.good("trace device follower haptic.pcap --packets 3000 --duration 10s");
    assert!(haptic.starts_with("haptic.pcap: 3000 packets of up to 40B, a deadband of "), "{haptic}");
    world.good("trace device follower again.pcap --packets 3000 --duration 10s");
    assert_eq!(world.read("haptic.pcap"), world.read("again.pcap"));
    for (arguments, told) in [
        ("video cut.ivf x.pcap", "cut.ivf: byte 6056: the file ends inside a frame; it is cut short"),
        ("video vp9.ivf x.pcap", "vp9.ivf: holds VP90; VP8 is needed"),
        ("video video.pcap x.pcap", "video.pcap: byte 0: this does not begin like an IVF file"),
        (
            "video clip.ivf x.pcap --packets 9",
            "clip.ivf: 9 packets are asked for; from 90 to 1680 can be had",
        ),
        ("video none.ivf x.pcap", "none.ivf: No such file or directory (os error 2)"),
    ] {
        let ended = world.taut(&format!("trace {arguments}"));
        assert_eq!((ended.status, ended.err), (2, format!("taut: {told}\n")), "{arguments}");
        assert!(!world.path("x.pcap").exists());
    }
    let ended = world.taut("trace video clip.ivf clip.ivf");
    let told = "taut: clip.ivf: this is the file that is read; give the output another name\n";
    assert_eq!((ended.status, ended.err.as_str()), (2, told));
    assert_eq!(world.read("clip.ivf"), ivf("VP80"));
}

#[test]
fn a_made_trace_is_replayed_through_a_gate_beside_force() {
    let world = World::new("trace-replay");
    world.write("clip.ivf", ivf("VP80"));
    world.good("trace video clip.ivf video.pcap --packets 100");
    world.good("trace device follower haptic.pcap --deadband 0 --duration 1s");
    let noise = SCENARIO.find("[cross.noise]").unwrap();
    let cross = r#"[cross.haptic]
from = "a"
to = "b"
traffic = { replay = { file = "haptic.pcap" } }

[cross.video]
from = "a"
to = "b"
traffic = { rtp = { file = "video.pcap", with = "haptic", within = "100ms" } }
"#;
    world.write("s.toml", format!("{}{cross}", &SCENARIO[..noise]));
    let video = json(&world.good("run s.toml --json"))["videos"][0].clone();
    assert_eq!(
        (video["packets_sent"].as_u64(), video["frames_sent"].as_u64()),
        (Some(100), Some(30)),
        "{video}"
    );
    assert_eq!(video["frame_loss_percent"], 0.0, "{video}");
    assert_eq!(video["offset_ms"]["count"], 30, "{video}");
    let narrow = SCENARIO[..noise].replace("6Mbit", "500kbit");
    let gated = narrow.replace("chain = [", r#"chain = [{ gate = { policy = "deadline" } }, "#);
    world.write("gated.toml", format!("{gated}{cross}"));
    let run = json(&world.good("run gated.toml --json"));
    let video = run["flows"].as_array().unwrap().iter().find(|flow| flow["name"] == "video").unwrap();
    assert!(video["dropped"]["gated"].as_u64().is_some_and(|gated| gated > 20), "{video}");
    let again = json(&world.good("run gated.toml --json --seed 2"))["videos"][0].clone();
    for what in ["packets_sent", "frames_sent"] {
        assert_eq!(again[what], run["videos"][0][what], "a recording has nothing random in it");
    }
}

#[test]
fn a_capture_read_back_has_every_packet_once() {
    let world = World::new("trace-capture");
    let lossy = r#"{ delay = "8ms" }, { loss = { bernoulli = "5%" } }, { duplicate = "5%" }"#;
    world.write("s.toml", SCENARIO.replace(r#"{ delay = "8ms" }"#, lossy));
    world.good("run s.toml --capture --out out");
    let run = json(std::str::from_utf8(&world.read("out/run.json")).unwrap());
    let info = json(&world.good("trace info out/packets.pcapng --json"));
    assert_eq!(info["rows"], run["conservation"]["sent"]);
    let arrived = run["conservation"]["delivered"].as_u64().unwrap();
    assert_eq!(
        info["notes"],
        serde_json::json!([format!(
            "packets seen at another interface before, counted where they were first: {arrived}"
        )])
    );
    // The cross traffic, and both ways of the session: what arrives is acknowledged.
    assert_eq!(info["packets"]["flows"].as_array().unwrap().len(), 3);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    use std::io::{BufRead, BufReader};
    let world = World::new("pipe");
    let mut child = world.command("schema").stdout(std::process::Stdio::piped()).spawn().unwrap();
    // The pipe is closed after one line of many.
    let mut line = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "{\n");
    let ended = ended(child.wait_with_output().unwrap());
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
}

/// A session of operator and robot, in two variants by an axis.
const SESSION: &str = r#"title = "session"
duration = "3s"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "8ms" }]
[teleop]
operator = "a"
robot = "b"
stops = ["1s"]
resumes = ["1500ms"]
[[axis]]
name = "transport"
[[axis.value]]
name = "UDP"
[[axis.value]]
name = "QUIC"
set = { "teleop.transport" = "quic" }
"#;

#[test]
fn run_tells_what_became_of_a_session() {
    let world = World::new("session");
    world.write("s.toml", SESSION);
    let told = world.good("run s.toml --variant QUIC --out out");
    for words in [
        "session over quic",
        "handshake, resumed",
        "states by stream",
        "normal, odd",
        "emergency stops",
        "hand and arm, foam: calm; no round trip makes it rattle",
    ] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let run = json(&String::from_utf8(world.read("out/run.json")).unwrap());
    let press = &run["teleop"]["emergencies"][0];
    assert!(press["acknowledged_ms"].as_f64().unwrap() < 17.0, "{press}");
    let report = String::from_utf8(world.read("out/report.html")).unwrap();
    for words in [
        "Emergency stops",
        "One-way latency of the operator&#39;s states",
        "Distribution of delay",
        "Tracking error",
    ] {
        assert!(report.contains(words) || report.contains(&words.replace("&#39;", "'")), "{words}");
    }
}

#[test]
fn an_axis_makes_a_variant_of_each_of_its_values() {
    let world = World::new("axis");
    world.write("s.toml", SESSION);
    let campaign = json(&world.good("run s.toml --json --seeds 1..2"));
    let variants = campaign["variants"].as_array().unwrap();
    let names: Vec<&str> = variants.iter().map(|variant| variant["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["UDP", "QUIC"]);
    let measure = |name: &str| {
        let measures = variants[1]["measures"].as_array().unwrap();
        measures.iter().find(|measure| measure["name"] == name).unwrap_or_else(|| panic!("{name}"))["runs"]
            .clone()
    };
    assert_eq!(measure("session one way p99"), 2);
    assert_eq!(measure("session emergency stop, most added to the round trip"), 2);
    let none = world.taut("run s.toml --variant TCP");
    assert!(none.err.contains("`UDP`, `QUIC`"), "{}", none.err);
}

#[test]
fn a_bridge_to_ros_2_is_a_program_of_its_own_and_where_it_is_missing_that_is_said() {
    let world = World::new("ros2");
    let mut command = world.command("ros2 bridge.toml --json");
    // A folder of its own, in which nothing else is. What this process wrote itself would be busy as long as a child of another test has it open.
    let alone = world.path("taut");
    std::fs::hard_link(command.get_program(), &alone).unwrap();
    let mut missing = Command::new(&alone);
    missing.args(command.get_args()).env("PATH", world.path("")).current_dir(world.path(""));
    let missing = ended(missing.output().unwrap());
    assert!(missing.status == 2 && missing.err.contains("make ros2"), "{missing:?}");
    let made = "printf '#!/bin/sh\necho \"$@\"; exit 7\n' > taut-ros2; chmod 755 taut-ros2";
    assert!(Command::new("sh").args(["-c", made]).current_dir(world.path("")).status().unwrap().success());
    command = Command::new(&alone);
    let there = ended(command.args(["ros2", "bridge.toml", "--json"]).output().unwrap());
    assert_eq!((there.status, there.out.trim()), (7, "bridge.toml --json"), "{there:?}");
}
