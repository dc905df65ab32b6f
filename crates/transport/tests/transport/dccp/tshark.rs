//! What Wireshark's dissector makes of the packets.

use std::net::Ipv4Addr;
use std::process::Command;

use taut_transport::dccp::Ccid;
use taut_wire::dccp::{Addresses, PROTOCOL, UDP_PORT, fill_checksum, verify_checksum};

use super::harness::{CLIENT, Net, Record, SERVER, at_ms, ms};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

/// A connection with losses, marks, data both ways, a Sync and an end: every type of packet.
fn conversation(ccid: Ccid) -> Vec<Record> {
    let mut net = Net::with(ccid).links(|link| (link.loss, link.mark) = (0.02, 0.01));
    net.samples(CLIENT, at_ms(4_000), ms(1), 300);
    net.samples(SERVER, at_ms(4_000), ms(3), 100);
    net.run_until(at_ms(6_000));
    let last = net.records.iter().rfind(|record| record.from == CLIENT).expect("a packet").repr;
    let mut bytes = Vec::new();
    let jump = taut_wire::dccp::Repr { sequence: last.sequence.plus(100_000), ..last };
    jump.emit(&[], &[], &mut bytes);
    net.deliver(SERVER, 0, &bytes, false);
    net.close(SERVER);
    net.run_until(at_ms(30_000));
    net.records
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The IP packet around a DCCP packet: protocol 33, or UDP with the server at port 6511.
fn ip_packet(record: &Record, udp: bool) -> Vec<u8> {
    let [source, destination] = [ADDRESSES[record.from], ADDRESSES[1 - record.from]];
    let mut payload = record.bytes.clone();
    if udp {
        let ports = if record.from == CLIENT { [50_000, UDP_PORT] } else { [UDP_PORT, 50_000] };
        let mut header: Vec<u8> = ports.iter().flat_map(|port: &u16| port.to_be_bytes()).collect();
        header.extend_from_slice(&(payload.len() as u16 + 8).to_be_bytes());
        header.extend_from_slice(&[0, 0]);
        payload.splice(0..0, header);
        let pseudo = sum(&source.octets()) + sum(&destination.octets()) + 17 + payload.len() as u32;
        let checksum = folded(pseudo + sum(&payload));
        payload[6..8].copy_from_slice(&checksum.to_be_bytes());
    } else {
        let addresses = Addresses::V4 { source, destination };
        assert!(fill_checksum(addresses, &mut payload, 0) && verify_checksum(addresses, &payload, 0));
    }
    around(record, if udp { 17 } else { PROTOCOL }, &payload)
}

fn around(record: &Record, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 2, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&(payload.len() as u16 + 20).to_be_bytes());
    packet.extend_from_slice(&ADDRESSES[record.from].octets());
    packet.extend_from_slice(&ADDRESSES[1 - record.from].octets());
    let checksum = folded(sum(&packet));
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

/// A capture file of packets as `write` makes them, with this link type.
fn capture(records: &[Record], link: u32, write: impl Fn(&Record) -> Vec<u8>) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, link] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for record in records {
        let packet = write(record);
        let micros = record.at.as_nanos() / 1_000;
        for word in [micros / 1_000_000, micros % 1_000_000, packet.len() as u64, packet.len() as u64] {
            file.extend_from_slice(&(word as u32).to_le_bytes());
        }
        file.extend_from_slice(&packet);
    }
    file
}

/// IP packets.
const LINKTYPE_RAW: u32 = 101;

/// The fields of every packet as tshark reads them; the error says why there is no tshark.
fn dissect(
    name: &str,
    file: &[u8],
    preferences: &[&str],
    fields: &[&str],
) -> Result<Vec<Vec<String>>, std::io::Error> {
    let path = std::env::temp_dir().join(format!("taut-dccp-{}-{name}.pcap", std::process::id()));
    std::fs::write(&path, file).expect("a file");
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-o", "dccp.relative_sequence_numbers:FALSE", "-r"]).arg(&path);
    for preference in preferences {
        command.args(["-o", preference]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output();
    std::fs::remove_file(&path).expect("the file was written");
    let output = output?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

const FIELDS: [&str; 5] =
    ["dccp.type", "dccp.seq_raw", "dccp.checksum.status", "_ws.malformed", "_ws.expert.severity"];

/// Every row is the record's packet, well-formed and without a complaint.
fn check(rows: &[Vec<String>], records: &[Record], checksums: bool) {
    assert_eq!(rows.len(), records.len());
    let mut types = [0; 10];
    for (row, record) in rows.iter().zip(records) {
        let kind: usize = row[0].parse().unwrap_or_else(|_| panic!("{row:?} of {record:?}"));
        types[kind] += 1;
        assert_eq!(row[1], record.repr.sequence.get().to_string(), "{row:?}");
        assert_eq!(row[3], "", "malformed: {row:?} of {record:?}");
        assert!(!checksums || row[2] == "1", "checksum: {row:?}");
        // Severity 0x00600000 is a warning, 0x00800000 an error.
        let severe = |level: &str| level.parse::<u32>().is_ok_and(|level| level >= 0x0060_0000);
        assert!(!row[4].split(',').any(severe), "{row:?} of {record:?}");
    }
    for kind in [0, 1, 3, 4, 5, 6, 7, 8] {
        assert!(types[kind] > 0, "no packet of type {kind}: {types:?}");
    }
}

#[test]
fn tshark_reads_every_packet_over_ip_and_its_checksum() {
    for ccid in [Ccid::TcpLike, Ccid::Tfrc] {
        let records = conversation(ccid);
        let file = capture(&records, LINKTYPE_RAW, |record| ip_packet(record, false));
        let checked = ["dccp.check_checksum:TRUE"];
        let rows = match dissect(&format!("ip-{ccid:?}"), &file, &checked, &FIELDS) {
            Ok(rows) => rows,
            Err(error) => return println!("skipped: tshark does not run here: {error}"),
        };
        check(&rows, &records, true);
    }
}

/// tshark 4.0 cannot be told that DCCP follows UDP. So it reads the UDP packets, whose payload must be the DCCP packet as
/// it was emitted, and then the same bytes behind an IP header.
#[test]
fn tshark_reads_every_packet_over_udp() {
    let records = conversation(Ccid::Tfrc);
    let file = capture(&records, LINKTYPE_RAW, |record| ip_packet(record, true));
    let fields = ["udp.port", "udp.checksum.status", "udp.payload", "_ws.malformed"];
    let rows = match dissect("udp", &file, &["udp.check_checksum:TRUE"], &fields) {
        Ok(rows) => rows,
        Err(error) => return println!("skipped: tshark does not run here: {error}"),
    };
    assert_eq!(rows.len(), records.len());
    for (row, record) in rows.iter().zip(&records) {
        assert!(row[0].split(',').any(|port| port == "6511"), "{row:?}");
        assert_eq!((&*row[1], &*row[3]), ("1", ""), "{row:?}");
        let payload: String = record.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(row[2].replace(':', ""), payload);
        assert_eq!(record.bytes[6..8], [0, 0], "RFC 6773 section 3.3");
    }
    let file = capture(&records, LINKTYPE_RAW, |record| around(record, PROTOCOL, &record.bytes));
    let unchecked = ["dccp.check_checksum:FALSE"];
    let rows = dissect("bare", &file, &unchecked, &FIELDS).expect("it ran before");
    check(&rows, &records, false);
}
