//! What is written is read back the same, and the same recording is written as the same bytes.

mod common;

use common::{ethernet, mcap_of, pcap, pcapng, pcapng_of, udp};
use taut_core::{Bytes, Time};
use taut_trace::{
    Data, Flow, Format, Limits, Recording, info, read_bytes, read_bytes_within, write_csv, write_mcap,
};

/// CSV → MCAP → CSV.
fn assert_round_trip(recording: &Recording) -> Vec<u8> {
    let csv = write_csv(recording);
    let from_csv = read_bytes("a.csv", &csv).expect("what is written is read");
    assert_eq!(from_csv.data(), recording.data(), "{}", String::from_utf8_lossy(&csv));
    let mcap = write_mcap(&from_csv).expect("what is written is read");
    assert_eq!(mcap, write_mcap(recording).expect("what is written is read"), "the same bytes");
    let from_mcap = read_bytes("a.mcap", &mcap).expect("what is written is read");
    assert_eq!(from_mcap.data(), recording.data());
    assert_eq!(write_csv(&from_mcap), csv);
    csv
}

#[test]
fn signals_survive_with_names_units_order_and_every_bit() {
    let text = "\
time_ms,leader_position_rad,mode,follower_position_rad,leader_torque_nm,signals_x,\"odd, \"\"name\"\"\",_y,z_\n\
1700000000000.000001,0.1,1,-0,5e-324,1.7976931348623157e308,0.30000000000000004,1e-7,123456789012345680\n\
1700000000000.000001,0.2,1,0,2.2250738585072014e-308,-1e300,9007199254740993,1,2\n\
1700000000001.5,-0.1,2,1,0.000001,1e21,1e22,1e23,4.35\n";
    let recording = read_bytes("a.csv", text.as_bytes()).unwrap();
    let csv = String::from_utf8(assert_round_trip(&recording)).unwrap();
    assert_eq!(
        csv.lines().nth(1).unwrap(),
        "1700000000.000000001,0.1,1,-0,5e-324,1.7976931348623157e308,0.30000000000000004,1e-7,1.2345678901234568e17"
    );
    let Data::Signals(signals) = recording.data() else { panic!("signals") };
    assert_eq!(signals.start_ns(), 1_700_000_000_000_000_001);
    assert_eq!(signals.times()[1], Time::ZERO, "two rows at one time stay two");
    assert_eq!(
        signals.channel("odd, \"name\"").unwrap().values()[0].to_bits(),
        0.300_000_000_000_000_04f64.to_bits()
    );
}

#[test]
fn topics_are_devices_and_schemas_tell_units() {
    let mcap = mcap_of("time_s,leader_position_rad,follower_force_n,mode\n0,1,2,3\n");
    let mut messages = Vec::new();
    for message in mcap::MessageStream::new(&mcap).unwrap() {
        let message = message.unwrap();
        let schema: serde_json::Value =
            serde_json::from_slice(&message.channel.schema.as_ref().unwrap().data).unwrap();
        let unit = schema["properties"].as_object().unwrap().values().next().unwrap()["unit"].clone();
        messages.push(format!("{} {} {unit}", message.channel.topic, String::from_utf8_lossy(&message.data)));
    }
    let expected = [
        r#"/leader {"position_rad":1} "rad""#,
        r#"/follower {"force_n":2} "N""#,
        r#"/signals {"mode":3} null"#,
    ];
    assert_eq!(messages, expected);
    let summary = mcap::Summary::read(&mcap).unwrap().unwrap();
    assert_eq!(summary.stats.unwrap().message_count, 3);
}

#[test]
fn packets_of_a_capture_survive() {
    let (short, long) = (ethernet(&udp(10)), ethernet(&udp(1000)));
    let arp = [&[0xff; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
    // The second is cut to 60 bytes, the last is earlier than the one before.
    let packets: [(u32, u32, u32, &[u8]); 4] = [
        (10, 0, 52, &short),
        (10, 1_000, 1_042, &long[..60]),
        (10, 3_000, 42, &arp),
        (10, 2_000, 52, &short),
    ];
    let recording = read_bytes("a.pcap", &pcap(1, &packets)).unwrap();
    assert_eq!(recording.format(), Format::Pcap);
    assert_eq!(recording.notes(), ["packets that were not in the order of time, put in order: 1"]);
    let csv = String::from_utf8(assert_round_trip(&recording)).unwrap();
    let expected = "\
time_s,size_bytes,flow
10,38,udp 10.0.0.1:5000 > 10.0.0.2:6000
10.001,1028,udp 10.0.0.1:5000 > 10.0.0.2:6000
10.002,38,udp 10.0.0.1:5000 > 10.0.0.2:6000
10.003,28,arp
";
    assert_eq!(csv, expected);
    let expected = "\
pcap: packets, 4 rows, 0.003 s, 1000.000 Hz
interval: min 1.000 ms, median 1.000 ms, mean 1.000 ms, max 1.000 ms
gaps over 100.000 ms: none
1132 bytes, 3.019 Mbit/s, sizes: min 28, mean 283.0, max 1028
        3 packets         1104 bytes  udp 10.0.0.1:5000 > 10.0.0.2:6000
        1 packets           28 bytes  arp
note: packets that were not in the order of time, put in order: 1
";
    assert_eq!(info(&recording).to_string(), expected);
}

/// Whatever link it was captured on, a packet is as long as it is without the link's header, and the least frame of Ethernet without padding.
#[test]
fn packets_are_as_long_as_they_are_without_their_link() {
    let packet = udp(10);
    let behind = |header: &[u8]| [header, &packet].concat();
    let frame = ethernet(&packet);
    let padded = [&frame[..], &[0; 8]].concat();
    let tagged = [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
    let cooked = behind(&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0]);
    let mut cooked2 = vec![8, 0];
    cooked2.resize(20, 0);
    let cooked2 = behind(&cooked2);
    let null = behind(&[2, 0, 0, 0]);
    let links = [
        (1, &frame),
        (1, &padded),
        (1, &tagged),
        (113, &cooked),
        (276, &cooked2),
        (0, &null),
        (228, &packet),
    ];
    for (linktype, bytes) in links {
        let capture = pcap(linktype, &[(0, 0, bytes.len() as u32, bytes)]);
        let recording = read_bytes("a.pcap", &capture).unwrap();
        let Data::Packets(packets) = recording.data() else { panic!("packets") };
        assert_eq!(packets.rows()[0].size, Bytes::new(38), "link {linktype}");
    }
    // No packet is longer than what was on the wire.
    let mut damaged = padded;
    damaged[14 + 2..14 + 4].fill(0xff);
    let capture = pcap(1, &[(0, 0, 60, &damaged)]);
    let recording = read_bytes("a.pcap", &capture).unwrap();
    let Data::Packets(packets) = recording.data() else { panic!("packets") };
    assert_eq!(packets.rows()[0].size, Bytes::new(46));
}

#[test]
fn pcapng_clocks_have_their_own_resolution_and_offset() {
    let packet = udp(5);
    let half_second = 1u64 << 31;
    let recording = read_bytes("a", &pcapng(&[(half_second, &packet), (3 * half_second, &packet)])).unwrap();
    let Data::Packets(packets) = recording.data() else { panic!("packets") };
    assert_eq!(packets.start_ns(), 100_500_000_000);
    assert_eq!(packets.rows()[1].time, Time::from_nanos(1_000_000_000));
    assert_eq!(packets.rows()[0].size, Bytes::new(33));
    assert_eq!(packets.flows(), [Flow::from("udp 10.0.0.1:5000 > 10.0.0.2:6000")]);
    assert_round_trip(&recording);
}

/// Both ends of one path in one capture, as a simulated run or a router has it.
#[test]
fn a_packet_that_was_captured_at_two_interfaces_counts_once() {
    let identified = |identification: u16, payload: usize| {
        let mut packet = udp(payload);
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        packet
    };
    let (one, two, zero) = (identified(1, 72), identified(2, 72), identified(0, 72));
    let longer = identified(1, 172);
    const SECOND: u64 = 1 << 32;
    let recording = read_bytes(
        "a.pcapng",
        &pcapng_of(
            2,
            &[
                (0, 0, &one),
                (0, 1, &two),
                (1, SECOND, &one),
                (1, SECOND, &two),
                // The link made a copy of it.
                (1, SECOND, &two),
                // Another packet: longer; the identification used again; none.
                (1, SECOND, &longer),
                (0, 2 * SECOND, &one),
                (1, 3 * SECOND, &one),
                (0, 4 * SECOND, &zero),
                (1, 4 * SECOND, &zero),
                // Too late to be the same.
                (1, 200 * SECOND, &one),
            ],
        ),
    );
    let info = info(&recording.unwrap());
    assert_eq!((info.rows, info.packets.unwrap().bytes), (7, 6 * 100 + 200));
    assert_eq!(info.notes, ["packets seen at another interface before, counted where they were first: 4"]);
    // One interface sees a packet twice when it was sent twice.
    let twice = read_bytes("a.pcapng", &pcapng(&[(0, &one), (1, &one)])).unwrap();
    assert_eq!(taut_trace::info(&twice).rows, 2);
}

#[test]
fn opportunities_and_impairments_survive() {
    let trace = read_bytes("lte", b"0\n0\n2\n5\n").unwrap();
    assert_eq!(trace.format(), Format::Mahimahi);
    assert_eq!(assert_round_trip(&trace), b"time_s\n0\n0\n0.002\n0.005\n");
    assert_eq!(info(&trace).notes, ["9.600 Mbit/s in opportunities of 1500 bytes"]);
    let table = b"start_time,stop_time,delay,packet_loss\na,b,2500.4,0.1\nb,c,100,0\n";
    let impairments = read_bytes("a.csv", table).unwrap();
    let csv = assert_round_trip(&impairments);
    assert_eq!(csv, b"start_time,stop_time,delay,packet_loss\n0,1,2500,0.1\n1,2,100,0\n");
}

/// Three topics of other programs: numbers in JSON at two rates, and something else.
fn foreign_mcap() -> Vec<u8> {
    let mut out = mcap::Writer::new(std::io::Cursor::new(Vec::new())).expect("memory takes it");
    let mut topic = |name: &str, encoding: &str| {
        out.add_channel(0, name, encoding, &Default::default()).expect("memory takes it")
    };
    let (fast, slow, camera) =
        (topic("/arm/joint", "json"), topic("/gripper", "json"), topic("/camera", "cdr"));
    // A scan of 65 ranges is not 65 signals.
    let first = format!(r#"{{"p": [0.5, 1], "name": "elbow", "scan": {:?}}}"#, [0; 65]);
    let messages: [(u16, u64, &str); 6] = [
        (fast, 1_000, &first),
        (slow, 2_000, r#"{"force": {"z": 7}}"#),
        (fast, 2_000, r#"{"p": [0.75, 2]}"#),
        (camera, 2_500, "\u{0}\u{1}..."),
        (fast, 3_000, r#"{"p": [1, 3]}"#),
        (slow, 4_000, r#"{"force": {"z": 8}}"#),
    ];
    for (channel_id, log_time, data) in messages {
        let header =
            mcap::records::MessageHeader { channel_id, sequence: 0, log_time, publish_time: log_time };
        out.write_to_known_channel(&header, data.as_bytes()).expect("memory takes it");
    }
    out.finish().expect("memory takes it");
    out.into_inner().into_inner()
}

#[test]
fn numbers_of_other_programs_become_one_table() {
    let recording = read_bytes("robot.mcap", &foreign_mcap()).unwrap();
    let expected = "\
time_s,arm_joint_p_0,arm_joint_p_1,gripper_force_z
0.000002,0.75,2,7
0.000003,1,3,7
0.000004,1,3,8
";
    assert_eq!(String::from_utf8(write_csv(&recording)).unwrap(), expected);
    let notes = [
        "rows left out before every channel had a value: 1",
        "messages left out because they are not JSON with numbers: 1, on /camera (cdr)",
    ];
    assert_eq!(recording.notes(), notes);
}

/// JSON messages on one topic, a nanosecond apart.
fn messages(texts: &[&str]) -> Vec<u8> {
    let mut out = mcap::Writer::new(std::io::Cursor::new(Vec::new())).expect("memory takes it");
    let channel_id = out.add_channel(0, "/arm", "json", &Default::default()).expect("memory takes it");
    for (log_time, text) in texts.iter().enumerate() {
        let log_time = log_time as u64;
        let header =
            mcap::records::MessageHeader { channel_id, sequence: 0, log_time, publish_time: log_time };
        out.write_to_known_channel(&header, text.as_bytes()).expect("memory takes it");
    }
    out.finish().expect("memory takes it");
    out.into_inner().into_inner()
}

#[test]
fn a_message_that_is_no_json_is_left_out_with_a_note() {
    let recording = read_bytes("robot.mcap", &messages(&[r#"{"x":1}"#, "?", r#"{"x":2}"#])).unwrap();
    let table = "time_s,arm_x\n0,1\n0.000000002,2\n";
    assert_eq!(String::from_utf8(write_csv(&recording)).unwrap(), table);
    let notes = ["messages left out because they are not JSON with numbers: 1, on /arm (json)"];
    assert_eq!(recording.notes(), notes);
}

#[test]
fn a_number_that_is_null_is_what_it_was_and_that_is_said() {
    let texts = [r#"{"x":1,"y":null}"#, r#"{"x":null,"y":3}"#, r#"{"x":2,"y":4}"#];
    let recording = read_bytes("robot.mcap", &messages(&texts)).unwrap();
    let table = "time_s,arm_x,arm_y\n0.000000001,1,3\n0.000000002,2,4\n";
    assert_eq!(String::from_utf8(write_csv(&recording)).unwrap(), table);
    let notes = [
        "rows left out before every channel had a value: 1",
        "numbers that are null, for which the value before stands: 1",
    ];
    assert_eq!(recording.notes(), notes);
}

#[test]
fn two_numbers_of_a_message_are_two_columns_also_where_their_names_are_alike() {
    let text = r#"{"a":{"b":1},"a_b":2,"c":[3],"c_0":4,"":{"d":5},"d":6}"#;
    let recording = read_bytes("robot.mcap", &messages(&[text])).unwrap();
    let table = "time_s,arm_d,arm_a_b,arm_a_b_2,arm_c_0,arm_c_0_2,arm_d_2\n0,5,1,2,3,4,6\n";
    assert_eq!(String::from_utf8(write_csv(&recording)).unwrap(), table);
}

#[test]
fn messages_without_numbers_are_told_by_time_size_and_topic() {
    let mut out = mcap::Writer::new(std::io::Cursor::new(Vec::new())).unwrap();
    let channel_id = out.add_channel(0, "/camera", "cdr", &Default::default()).unwrap();
    for log_time in [5, 9] {
        let header =
            mcap::records::MessageHeader { channel_id, sequence: 0, log_time, publish_time: log_time };
        out.write_to_known_channel(&header, &[0; 100]).unwrap();
    }
    out.finish().unwrap();
    let recording = read_bytes("robot.mcap", &out.into_inner().into_inner()).unwrap();
    let expected = "time_s,size_bytes,flow\n0.000000005,100,/camera (cdr)\n0.000000009,100,/camera (cdr)\n";
    assert_eq!(String::from_utf8(assert_round_trip(&recording)).unwrap(), expected);
    assert!(recording.notes()[0].contains("no message is JSON"));
}

#[test]
fn every_compression_is_read() {
    let recording = read_bytes("a.csv", b"time_s,x\n0,1\n1,2\n").unwrap();
    for compression in [None, Some(mcap::Compression::Lz4), Some(mcap::Compression::Zstd)] {
        let options = mcap::WriteOptions::new().compression(compression);
        let mut out = options.create(std::io::Cursor::new(Vec::new())).unwrap();
        for message in mcap::MessageStream::new(&write_mcap(&recording).unwrap()).unwrap() {
            out.write(&message.unwrap()).unwrap();
        }
        out.finish().unwrap();
        let back = read_bytes("a.mcap", &out.into_inner().into_inner()).unwrap();
        assert_eq!(back.data(), recording.data(), "{compression:?}");
    }
}

#[test]
fn limits_are_told() {
    let refused = |name: &str, data: &[u8], limits: Limits| {
        read_bytes_within(name, data, &limits).unwrap_err().to_string()
    };
    let (table, limits) = (b"time_s,x,y\n0,1,2\n1,3,4\n", Limits::default());
    assert_eq!(
        refused("a.csv", table, limits.bytes(Bytes::new(10))),
        "a.csv: more than 10 bytes, the most that are read"
    );
    assert_eq!(refused("a.csv", table, limits.rows(1)), "a.csv:3: more than 1 rows, the most that are read");
    assert_eq!(
        refused("a.csv", table, limits.values(5)),
        "a.csv:3: more than 5 values, the most that are read"
    );
    assert_eq!(
        refused("a.csv", table, limits.columns(2)),
        "a.csv:1: more than 2 columns, the most that are read"
    );
    assert_eq!(refused("lte", b"1\n2\n", limits.rows(1)), "lte: more than 1 rows, the most that are read");
    let mcap = mcap_of("time_s,x,y\n0,1,2\n1,3,4\n");
    assert!(refused("a.mcap", &mcap, limits.rows(1)).ends_with("more than 1 rows, the most that are read"));
    let packet = udp(1);
    let capture = pcap(101, &[(0, 0, 29, &packet), (0, 1, 29, &packet)]);
    assert_eq!(
        refused("a.pcap", &capture, limits.rows(1)),
        "a.pcap: byte 69: more than 1 rows, the most that are read"
    );
}
