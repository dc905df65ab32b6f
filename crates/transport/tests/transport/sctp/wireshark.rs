//! What Wireshark makes of our packets.

use std::process::{Command, Stdio};

use taut_core::Message;
use taut_transport::sctp::{SctpConfig, UDP_PORT};

use crate::net::{MS, Net};
use crate::sctp::{command, offer, pair, sample};

/// Handshake, data of both kinds, losses, FORWARD TSN, shutdown.
fn conversation(interleaving: bool) -> Net<taut_transport::sctp::Sctp> {
    let mut net =
        pair(SctpConfig::new().interleaving(interleaving).retransmissions(0), MS * 10, 4).lossy(2.0);
    net.run_for(MS * 1_000);
    for tick in 0..1_000 {
        let message = match tick % 10 {
            0 => command(&net, 1, 3_000),
            _ => Message { deadline: Some(MS * 50), ..sample(&net) },
        };
        offer(&mut net, tick % 2, message).expect("there is room");
        net.run_for(MS);
    }
    taut_core::Transport::close(&mut net.ends[0], net.now);
    net.run_for(MS * 5_000);
    net
}

#[test]
fn wireshark_reads_every_packet() {
    if let Err(error) =
        Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status()
    {
        println!("skipped: tshark cannot be run: {error}");
        return;
    }
    for (interleaving, data_chunk) in [(false, "0"), (true, "64")] {
        let net = conversation(interleaving);
        let file = std::env::temp_dir().join(format!("taut-sctp-{}-{interleaving}.pcap", std::process::id()));
        std::fs::write(&file, pcap(&net)).unwrap();
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&file)
            .args([
                "-o",
                "sctp.checksum:CRC 32c",
                "-T",
                "fields",
                "-E",
                "occurrence=a",
                "-e",
                "frame.protocols",
            ])
            .args(["-e", "sctp.chunk_type", "-e", "sctp.checksum.status", "-e", "_ws.malformed"])
            .output()
            .unwrap();
        std::fs::remove_file(&file).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(rows.len(), net.sent.len(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut seen = std::collections::BTreeSet::new();
        for row in &rows {
            assert!(row[0].starts_with("raw:ip:udp:sctp"), "{row:?}");
            assert_eq!((row[2], row[3]), ("1", ""), "checksum right, nothing malformed: {row:?}");
            seen.extend(row[1].split(','));
        }
        // INIT, INIT ACK, SACK, SHUTDOWN, SHUTDOWN ACK, COOKIE ECHO, COOKIE ACK, SHUTDOWN COMPLETE.
        for chunk in ["1", "2", "3", "7", "8", "10", "11", "14", data_chunk] {
            assert!(seen.contains(chunk), "{chunk} is not among {seen:?}");
        }
        assert!(seen.contains("192") || seen.contains("194"), "FORWARD TSN: {seen:?}");
    }
}

/// A capture of raw IPv4 packets (link type 101) with the UDP port of RFC 6951 at both ends.
fn pcap(net: &Net<taut_transport::sctp::Sctp>) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_3c4d_u32.to_be_bytes());
    file.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 101]);
    for (at, from, _, data) in &net.sent {
        let (udp, ip) = (8 + data.len() as u16, 28 + data.len() as u16);
        let nanos = at.as_nanos();
        for word in [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, ip.into(), ip.into()] {
            file.extend(word.to_be_bytes());
        }
        file.extend([0x45, 0]);
        file.extend(ip.to_be_bytes());
        file.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        for host in [*from as u8 + 1, 2 - *from as u8] {
            file.extend([10, 0, 0, host]);
        }
        file.extend([UDP_PORT, UDP_PORT, udp, 0].into_iter().flat_map(u16::to_be_bytes));
        file.extend(data);
    }
    file
}
