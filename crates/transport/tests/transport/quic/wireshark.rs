//! An independent decoder reads what is sent.

use std::process::Command;

use taut_core::Transport;
use taut_transport::quic::QuicConfig;

use crate::quic::harness::*;

/// The records as pcap (LINKTYPE_IPV4, nanoseconds).
fn pcap(records: &[Record]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 228] {
        file.extend(word.to_le_bytes());
    }
    for record in records {
        let length = 28 + record.data.len() as u32;
        let nanos = record.at.as_nanos();
        for word in [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, length, length] {
            file.extend(word.to_le_bytes());
        }
        let (from, to) = if record.from == SERVER { (1, 2) } else { (2, 1) };
        let (from_port, to_port) = if record.from == SERVER { (443_u16, 50_000_u16) } else { (50_000, 443) };
        file.extend([0x45, 0]);
        file.extend((length as u16).to_be_bytes());
        file.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        file.extend(from_port.to_be_bytes());
        file.extend(to_port.to_be_bytes());
        file.extend((length as u16 - 20).to_be_bytes());
        file.extend([0, 0]);
        file.extend(&record.data);
    }
    file
}

#[test]
fn wireshark_decodes_every_packet_and_finds_none_malformed() {
    if Command::new("tshark").arg("-v").output().is_err() {
        return println!("skipped: there is no tshark here");
    }
    let mut net = Net::pair(&QuicConfig::new().key_log(true));
    net.run_until(at_ms(100));
    for _ in 0..50 {
        net.run_for(ms(1));
        net.send(CLIENT, sample(net.now, 75));
        net.send(CLIENT, command(net.now, 2, 1, 2_000));
    }
    net.run_for(ms(200));
    let now = net.now;
    net.nodes[CLIENT].close(now);
    net.run_for(ms(200));

    let folder = std::env::temp_dir().join(format!("taut-quic-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (capture, keys) = (folder.join("quic.pcap"), folder.join("keys.txt"));
    std::fs::write(&capture, pcap(&net.records)).unwrap();
    let lines = net.nodes[CLIENT].take_key_log();
    assert!(lines.iter().any(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")), "{lines:?}");
    std::fs::write(&keys, lines.join("\n")).unwrap();
    let count = |filter: &str| {
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&capture)
            .arg("-o")
            .arg(format!("tls.keylog_file:{}", keys.display()))
            .args(["-d", "udp.port==443,quic", "-Y", filter, "-T", "fields", "-e", "frame.number"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    let all = net.records.len();
    let found =
        [("quic", all), ("_ws.malformed || _ws.expert.severity == error || quic.decryption_failed", 0)];
    for (filter, expected) in found {
        assert_eq!(count(filter), expected, "{filter}");
    }
    let frames = [
        ("quic.frame_type == 0x31", "DATAGRAM"),
        ("quic.stream.stream_id", "STREAM"),
        ("quic.frame_type == 0x1d", "CONNECTION_CLOSE"),
    ];
    let seen: Vec<_> = frames.iter().map(|(filter, name)| (*name, count(filter))).collect();
    println!("{all} packets: {seen:?}");
    assert!(seen[0].1 >= 50 && seen[1].1 >= 50 && seen[2].1 >= 1, "{seen:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
