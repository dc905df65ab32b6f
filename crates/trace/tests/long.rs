//! MCAP files are read a record at a time, whatever their length.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mcap::records::MessageHeader;
use mcap::{WriteOptions, Writer};
use taut_trace::{Data, convert, info, info_of, read, read_columns, write_csv};

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
