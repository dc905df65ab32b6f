//! MCAP files are read a record at a time, whatever their length.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mcap::records::MessageHeader;
use mcap::{WriteOptions, Writer};
use taut_trace::{Data, Problem, convert, info, info_of, read, read_columns, read_session, write_csv};

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder of the test's own");
    folder
}

/// JSON messages, by topic and log time.
fn recording(path: &Path, messages: &[(&str, u64, &str)]) {
    let mut out = WriteOptions::new()
        .compression(None)
        .create(File::create(path).expect("a folder of the test's own"))
        .expect("a folder of the test's own");
    put(&mut out, messages);
    out.finish().expect("a folder of the test's own");
}

fn put(out: &mut Writer<File>, messages: &[(&str, u64, &str)]) {
    for (topic, log_time, text) in messages {
        let channel_id =
            out.add_channel(0, topic, "json", &BTreeMap::new()).expect("a folder of the test's own");
        let header = MessageHeader { channel_id, sequence: 0, log_time: *log_time, publish_time: *log_time };
        out.write_to_known_channel(&header, text.as_bytes()).expect("a folder of the test's own");
    }
}

const MESSAGES: [(&str, u64, &str); 6] = [
    ("/arm", 10, r#"{"x_m":1}"#),
    ("/arm", 20, r#"{"x_m":2}"#),
    ("/late", 30, r#"{"y_m":5,"z_m":6}"#),
    ("/arm", 40, r#"{"x_m":3}"#),
    ("/late", 50, r#"{"y_m":7,"z_m":8}"#),
    ("/events", 60, r#"{"event":"stopped"}"#),
];

#[test]
fn a_file_longer_than_what_memory_is_to_hold_is_described_and_becomes_a_table() {
    let folder = folder("long");
    let file = folder.join("long.mcap");
    let mut out = WriteOptions::new().compression(None).create(File::create(&file).unwrap()).unwrap();
    put(&mut out, &MESSAGES[..3]);
    out.flush().unwrap();
    let mut raw = out.into_inner();
    // An attachment of zeros: a hole of the file.
    let end = raw.seek(SeekFrom::End(0)).unwrap();
    raw.write_all(&[9]).unwrap();
    raw.write_all(&600_000_000u64.to_le_bytes()).unwrap();
    raw.set_len(end + 9 + 600_000_000).unwrap();
    raw.seek(SeekFrom::End(0)).unwrap();
    // Another file's records, without its magic bytes.
    let more = [("/arm", 70, r#"{"x_m":1}"#), ("/late", 80, r#"{"y_m":5,"z_m":6}"#)];
    recording(&folder.join("end.mcap"), &more);
    raw.write_all(&fs::read(folder.join("end.mcap")).unwrap()[8..]).unwrap();
    drop(raw);
    let told = info_of(&file).unwrap();
    let columns: Vec<&str> = told.channels.iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!((told.rows, columns), (3, vec!["arm_x", "late_y", "late_z"]));
    convert(&file, &folder.join("long.csv")).unwrap();
    assert_eq!(fs::read_to_string(folder.join("long.csv")).unwrap().lines().count(), 4);
    fs::remove_file(file).unwrap();
}

#[test]
fn a_file_row_by_row_is_what_it_is_in_memory_in_whatever_order_its_messages_are() {
    let folder = folder("order");
    let mut turned = MESSAGES;
    turned.reverse();
    let mut swapped = MESSAGES;
    swapped.swap(0, 3);
    for messages in [MESSAGES, turned, swapped] {
        let file = folder.join("a.mcap");
        recording(&file, &messages);
        let kept = read(&file).unwrap();
        let Data::Signals(signals) = kept.data() else { panic!("signals") };
        let values = ["arm_x", "late_y"].map(|name| signals.channel(name).unwrap().values());
        assert_eq!(values, [[2.0, 3.0, 3.0], [5.0, 5.0, 7.0]]);
        assert_eq!(info_of(&file).unwrap(), info(&kept));
        let notes = convert(&file, &folder.join("a.csv")).unwrap();
        assert_eq!(fs::read(folder.join("a.csv")).unwrap(), write_csv(&kept));
        let left_out = [
            "rows left out before every channel had a value: 2",
            "messages left out because they are not JSON with numbers: 1, on /events (json)",
        ];
        assert_eq!((&notes[..], kept.notes()), (&left_out.map(str::to_owned)[..], &notes[..]));
    }
}

#[test]
fn of_columns_that_are_asked_for_nothing_else_is_held() {
    let file = folder("columns").join("a.mcap");
    recording(&file, &MESSAGES);
    let one = read_columns(&file, &|names| {
        assert_eq!(names, ["arm_x_m", "late_y_m", "late_z_m"]);
        vec![0]
    });
    let Data::Signals(signals) = one.unwrap().into_data() else { panic!("signals") };
    assert_eq!(signals.channels().len(), 1);
    // Every row of its own topic, none of another's.
    assert_eq!(signals.channel("arm_x").unwrap().values(), [1.0, 2.0, 3.0]);
}

/// Two chunks, the last damaged, without an end.
fn damaged(path: &Path) {
    let mut out = WriteOptions::new()
        .compression(None)
        .create(File::create(path).expect("a folder of the test's own"))
        .expect("a folder of the test's own");
    put(&mut out, &MESSAGES[..3]);
    out.flush().expect("a folder of the test's own");
    put(&mut out, &MESSAGES[3..]);
    out.finish().expect("a folder of the test's own");
    drop(out);
    let mut bytes = fs::read(path).expect("a folder of the test's own");
    let last = bytes.windows(9).position(|text| text == br#"{"x_m":3}"#).expect("it was written");
    bytes[last + 7] = b'4';
    let events =
        bytes.windows(19).position(|text| text == br#"{"event":"stopped"}"#).expect("it was written");
    bytes.truncate(events + 19);
    fs::write(path, bytes).expect("a folder of the test's own");
}

#[test]
fn of_a_file_whose_last_chunk_is_damaged_what_is_before_it_is_read() {
    let folder = folder("damaged");
    let (file, table) = (folder.join("a.mcap"), folder.join("a.csv"));
    damaged(&file);
    let told = info_of(&file).unwrap();
    assert_eq!(told.rows, 1);
    assert!(told.notes.iter().any(|note| note.contains("Chunk CRC failed")), "{:?}", told.notes);
    assert_eq!(convert(&file, &table).unwrap(), told.notes);
    assert_eq!(fs::read_to_string(table).unwrap().lines().count(), 2);
    let made = convert(&file, &folder.join("again.mcap")).unwrap();
    assert_eq!(made, told.notes);
    assert!(read(&file).unwrap_err().to_string().contains("Chunk CRC failed"));
}

const STATE: &str = r#"{"position_x_m":0,"position_y_m":0,"position_z_m":0,"orientation_w":1,"orientation_x":0,
    "orientation_y":0,"orientation_z":0,"velocity_x_m_s":0,"velocity_y_m_s":0,"velocity_z_m_s":0,"gripper":0,
    "enabling":true}"#;

/// Three chunks of a state each, of which one is damaged, and an end. Where the damaged one begins, and where it and its index end.
fn one_damaged(path: &Path, which: usize) -> (usize, usize) {
    let mut out = WriteOptions::new()
        .compression(None)
        .create(File::create(path).expect("a folder of the test's own"))
        .expect("a folder of the test's own");
    let mut ends = vec![0];
    for time in 1..=3 {
        put(&mut out, &[("operator/state", time, STATE)]);
        out.flush().expect("a folder of the test's own");
        ends.push(fs::metadata(path).expect("a folder of the test's own").len() as usize);
    }
    out.finish().expect("a folder of the test's own");
    let mut bytes = fs::read(path).expect("a folder of the test's own");
    let at =
        bytes[ends[which]..].windows(9).position(|text| text == br#"gripper":"#).expect("it was written");
    bytes[ends[which] + at + 9] = b'1';
    fs::write(path, bytes).expect("a folder of the test's own");
    (ends[which], ends[which + 1])
}

#[test]
fn damage_that_something_follows_is_no_end() {
    let file = folder("middle").join("a.mcap");
    let refused = |error: taut_trace::TraceError| {
        assert!(error.to_string().contains("Chunk CRC failed"), "{error}");
    };
    for which in 0..3 {
        one_damaged(&file, which);
        refused(read_session(&file).unwrap_err());
        refused(info_of(&file).unwrap_err());
        refused(convert(&file, &file.with_extension("csv")).unwrap_err());
    }
    let (_, end) = one_damaged(&file, 2);
    let bytes = fs::read(&file).unwrap();
    // Its index, or the end behind it, is not all there.
    for kept in [end - 5, end, end + 5, bytes.len() - 1] {
        fs::write(&file, &bytes[..kept]).unwrap();
        let read = read_session(&file).unwrap();
        assert_eq!((read.states.len(), read.notes.len()), (2, 1), "{kept}");
        assert!(read.notes[0].contains("Chunk CRC failed"), "{:?}", read.notes);
        assert_eq!(info_of(&file).unwrap().notes.last(), read.notes.last());
    }
    let (begin, end) = one_damaged(&file, 0);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..end]).unwrap();
    refused(read_session(&file).unwrap_err());
    assert_eq!(begin, 0);
}

#[test]
fn of_a_damaged_chunk_without_a_checksum_nothing_counts() {
    let folder = folder("unchecked");
    let file = folder.join("a.mcap");
    let mut out = WriteOptions::new()
        .compression(Some(mcap::Compression::Zstd))
        .calculate_chunk_crcs(false)
        .chunk_size(None)
        .create(File::create(&file).unwrap())
        .unwrap();
    put(&mut out, &MESSAGES[..2]);
    out.flush().unwrap();
    // Longer than a block of the compression, and by chance.
    let mut digit = 1_u32;
    for time in 30..30_000 {
        digit = digit.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        put(&mut out, &[("/late", time, &format!(r#"{{"y_m":{digit}}}"#))]);
    }
    out.flush().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    drop(out);
    // Where the last chunk ends (MCAP specification, Records and Chunk).
    let (mut at, mut end) = (8, 0);
    while at < bytes.len() {
        let length = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap()) as usize;
        end = if bytes[at] == 6 { at + 9 + length } else { end };
        at += 9 + length;
    }
    bytes[end - 1_000..end].fill(0);
    fs::write(&file, &bytes).unwrap();
    let told = info_of(&file).unwrap();
    let columns: Vec<&str> = told.channels.iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!((told.rows, columns), (2, vec!["arm_x"]), "{:?}", told.notes);
    convert(&file, &folder.join("a.csv")).unwrap();
}

#[test]
fn a_file_that_was_cut_short_is_converted_as_far_as_it_is_whole_and_otherwise_its_repair_is_named() {
    let folder = folder("cut");
    let (file, table) = (folder.join("a.mcap"), folder.join("a.csv"));
    recording(&file, &MESSAGES);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 3]).unwrap();
    let notes = convert(&file, &table).unwrap();
    assert!(notes.last().unwrap().contains("the file ends inside the magic bytes"), "{notes:?}");
    assert_eq!(fs::read_to_string(table).unwrap().lines().count(), 4);
    assert!(read(&file).unwrap_err().to_string().ends_with("`taut trace repair` finishes it"));
}

/// A megabyte.
const LONG: usize = 1_000_000;

/// A file of seventy messages, each on a channel of its own: its topic, schema and text.
fn long_names(path: &Path, schema_name: &str, named: impl Fn(usize) -> (String, Vec<u8>, String)) {
    let mut out = WriteOptions::new()
        .use_chunks(false)
        .create(File::create(path).expect("a folder of the test's own"))
        .expect("a folder of the test's own");
    for number in 0..70 {
        let (topic, schema, text) = named(number);
        let schema = out.add_schema(schema_name, "jsonschema", &schema).expect("memory takes it");
        let channel_id = out.add_channel(schema, &topic, "json", &BTreeMap::new()).expect("memory takes it");
        let header = MessageHeader { channel_id, sequence: 0, log_time: 1, publish_time: 1 };
        out.write_to_known_channel(&header, text.as_bytes()).expect("a folder of the test's own");
    }
    out.finish().expect("a folder of the test's own");
}

#[test]
fn names_and_schemas_take_no_more_memory_than_they_may() {
    let file = folder("names").join("a.mcap");
    let long = |number: usize| format!("{number}{}", "x".repeat(LONG));
    let refused = |error: taut_trace::TraceError| match error.problem() {
        Problem::TooLarge { what, .. } => assert_eq!(*what, "bytes of names and schemas"),
        problem => panic!("{problem}"),
    };
    long_names(&file, "a", |number| (number.to_string(), long(number).into_bytes(), "{}".to_owned()));
    refused(read(&file).unwrap_err());
    long_names(&file, "a", |number| (long(number), Vec::new(), "{}".to_owned()));
    refused(read(&file).unwrap_err());
    refused(read_session(&file).unwrap_err());
    long_names(&file, "taut.Packet", |number| {
        let text = format!(r#"{{"size_bytes":1,"flow":"{}"}}"#, long(number));
        (number.to_string(), Vec::new(), text)
    });
    refused(read(&file).unwrap_err());
    fs::remove_file(file).unwrap();
}

#[test]
fn of_a_session_s_events_those_are_held_that_say_how_it_was_run_and_how_it_went() {
    let file = folder("events").join("a.mcap");
    let events = [
        r#"{"event":"recording","rate_hz":1}"#,
        r#"{"event":"status","at":1}"#,
        r#"{"event":"dropped","sequence":7}"#,
        r#"{"event":"stopped","why":"watchdog"}"#,
        r#"{"event":"status","at":2}"#,
        r#"{"event":"stopped","why":"button"}"#,
        r#"{"event":"stopped","why":"watchdog"}"#,
    ];
    let of = |events: &[&str]| {
        let mut messages = vec![("operator/state", 1, STATE)];
        messages.extend(events.iter().map(|text| ("taut/events", 2, *text)));
        recording(&file, &messages);
        read_session(&file)
    };
    let held: Vec<String> = of(&events).unwrap().events.iter().map(ToString::to_string).collect();
    let kept = [3, 5, 6, 0, 4].map(|at| events[at]);
    let value = |text: &&str| serde_json::from_str::<serde_json::Value>(text).unwrap().to_string();
    assert_eq!(held, kept.iter().map(value).collect::<Vec<_>>());
    let long = format!(r#"{{"event":"stopped","why":"{}"}}"#, "x".repeat(LONG + 100_000));
    assert!(matches!(of(&[&long]).unwrap_err().problem(), Problem::TooLarge { .. }));
}
