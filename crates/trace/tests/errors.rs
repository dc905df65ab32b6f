//! Every kind of bad file gives one line that names the file, the place and the problem.

mod common;

use common::{ethernet, mcap_of, pcap, pcapng, udp};
use taut_trace::read_bytes;

fn error(name: &str, data: &[u8]) -> String {
    match read_bytes(name, data) {
        Ok(recording) => format!("{name}: read as {}", recording.data().kind()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn bad_text_is_refused_with_its_line() {
    let files: [(&str, &[u8]); 34] = [
        ("empty.csv", b""),
        ("blank.csv", b"\n \n\r\n"),
        ("header_only.csv", b"time_s,x\n"),
        ("no_header.csv", b"0.0,1.5\n0.1,2.5\n"),
        ("no_unit.csv", b"time,x\n0,1\n"),
        ("no_time.csv", b"x,y\n0,1\n"),
        ("semicolons.csv", b"time_s;x\n0;1\n"),
        ("unnamed.csv", b"time_s,,y\n0,1,2\n"),
        ("twice.csv", b"time_s,x,x\n0,1,2\n"),
        ("short_row.csv", b"time_s,x,y\n0,1,2\n1,1\n"),
        ("long_row.csv", b"time_s,x\n0,1\n\n1,1,9\n"),
        ("nan.csv", b"time_s,x\n0,NaN\n"),
        ("inf.csv", b"time_s,x\r\n0,1\r\n1,-inf\r\n"),
        ("huge.csv", b"time_s,x\n0,1e999\n"),
        ("word.csv", b"time_s,x\n0,abc\n"),
        ("empty_cell.csv", b"time_s,x\n0,\n"),
        ("time_word.csv", b"time_s,x\nnow,1\n"),
        ("back.csv", b"time_s,x\n0.0040,1\n\n\n0.0035,2\n"),
        ("far.csv", b"time_s,x\n99999999999999,1\n"),
        ("latin1.csv", b"time_s,x\n0,1\n1,\xe9\n"),
        ("binary.csv", b"\x00\x01\x02\x03"),
        ("terminal.csv", b"time_s,x\n0,\x1b[2J\n"),
        ("negative_size.csv", b"time_s,size_bytes\n0,-5\n"),
        ("part_size.csv", b"time_s,size_bytes,flow\n0,1.5,a\n"),
        ("before.csv", b"time_s\n-1\n"),
        ("impairment_column.csv", b"start_time,stop_time,latency\n0,1,2\n"),
        ("impairment_none.csv", b"start_time,stop_time\n0,1\n"),
        ("negative_delay.csv", b"start_time,stop_time,delay\n0,1,-2\n"),
        ("loss.csv", b"start_time,stop_time,packet_loss\n0,1,101\n"),
        ("lte", b"1\n5\n4\n"),
        ("lte", b"1\n5\nx\n"),
        ("zero", b"0\n0\n"),
        ("notes.txt", b"Dear diary\n"),
        ("a.csv.gz", b"\x1f\x8b\x08\x00\x00"),
    ];
    let lines: Vec<String> = files.iter().map(|(name, data)| error(name, data)).collect();
    assert_eq!(lines.join("\n") + "\n", BAD_TEXT);
}

const BAD_TEXT: &str = r#"empty.csv: the file is empty
blank.csv: the file is empty
header_only.csv: there is a header and no row below it
no_header.csv:1: the first line must name the columns, but `0.0` is a number
no_unit.csv:1: the first column is `time`; it must be time_s, time_ms, time_us or time_ns (or start_time and stop_time before delay, jitter and packet_loss), and commas must separate the columns
no_time.csv:1: the first column is `x`; it must be time_s, time_ms, time_us or time_ns (or start_time and stop_time before delay, jitter and packet_loss), and commas must separate the columns
semicolons.csv:1: the first column is `time_s;x`; it must be time_s, time_ms, time_us or time_ns (or start_time and stop_time before delay, jitter and packet_loss), and commas must separate the columns
unnamed.csv:1: column 2 has no name
twice.csv:1: two columns are named `x`
short_row.csv:3: 2 cells in a row where the header has 3
long_row.csv:4: 3 cells in a row where the header has 2
nan.csv:2: x: `NaN` is not a finite number
inf.csv:3: x: `-inf` is not a finite number
huge.csv:2: x: `1e999` is not a finite number
word.csv:2: x: `abc` is not a finite number
empty_cell.csv:2: x: the cell is empty; it must be a finite number
time_word.csv:2: time_s: `now` is not a time (a number, within 292 years of 0)
back.csv:5: time_s: 0.0035 is before 0.0040 of the line before; times must not go back
far.csv:2: time_s: `99999999999999` is not a time (a number, within 292 years of 0)
latin1.csv:3: not UTF-8 text
binary.csv:1: the first column is `\u{0}\u{1}\u{2}\u{3}`; it must be time_s, time_ms, time_us or time_ns (or start_time and stop_time before delay, jitter and packet_loss), and commas must separate the columns
terminal.csv:2: x: `\u{1b}[2J` is not a finite number
negative_size.csv:2: size_bytes: `-5` is not a whole number of bytes, 0 or more
part_size.csv:2: size_bytes: `1.5` is not a whole number of bytes, 0 or more
before.csv:2: time_s: `-1` is not a time, 0 or more
impairment_column.csv:1: column `latency` is not one of delay, jitter and packet_loss
impairment_none.csv:1: there is no column delay, jitter or packet_loss
negative_delay.csv:2: delay: `-2` is not a number of nanoseconds, 0 or more
loss.csv:2: packet_loss: `101` is not a percentage from 0 to 100
lte:3: 4 ms is before the previous line's 5 ms; times must not decrease
lte:3: not a whole number of milliseconds from 0 to 4294967295
zero:2: the last time is 0 ms; a trace must last longer
notes.txt: this is not CSV, MCAP, pcap, pcapng or mahimahi
a.csv.gz: the file is compressed with gzip; decompress it first
"#;

#[test]
fn bad_captures_are_refused_with_their_byte() {
    let frame = ethernet(&udp(10));
    let capture = pcap(1, &[(0, 0, 52, &frame), (0, 1, 52, &frame)]);
    let packet = udp(10);
    let next = pcapng(&[(0, &packet), (1, &packet)]);
    let mut unknown_interface = next.clone();
    unknown_interface[28 + 40 + 4 + 8 + 3] = 7;
    let files: [(&str, &[u8]); 12] = [
        ("header.pcap", &capture[..20]),
        ("no_packets.pcap", &capture[..24]),
        ("packet_header.pcap", &capture[..30]),
        ("packet.pcap", &capture[..100]),
        ("text.pcap", b"time_s,x\n0,1\n"),
        ("section.pcapng", &next[..20]),
        ("no_packets.pcapng", &next[..28]),
        ("block.pcapng", &next[..100]),
        ("garbage.pcapng", &[&next[..], &[0; 16]].concat()),
        ("interface.pcapng", &unknown_interface),
        ("binary", &[1, 2, 3, 4, 5]),
        ("empty.pcap", b""),
    ];
    let lines: Vec<String> = files.iter().map(|(name, data)| error(name, data)).collect();
    assert_eq!(lines.join("\n") + "\n", BAD_CAPTURES);
}

const BAD_CAPTURES: &str = r#"header.pcap: byte 0: the file ends inside the capture's header; it is cut short
no_packets.pcap: there are no packets in it
packet_header.pcap: byte 24: the file ends inside a packet; it is cut short
packet.pcap: byte 92: the file ends inside a packet; it is cut short
text.pcap: this does not begin like a .pcap file
section.pcapng: byte 0: the file ends inside a block; it is cut short
no_packets.pcapng: there are no packets in it
block.pcapng: byte 72: the file ends inside a block; it is cut short
garbage.pcapng: byte 216: this is not a block
interface.pcapng: byte 72: a packet of interface 7, which no block describes
binary: this is not CSV, MCAP, pcap, pcapng or mahimahi
empty.pcap: the file is empty
"#;

/// An MCAP file of records, without summary.
fn mcap_records(records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut file = mcap::MAGIC.to_vec();
    for (opcode, body) in records {
        file.push(*opcode);
        file.extend((body.len() as u64).to_le_bytes());
        file.extend(*body);
    }
    file.extend(mcap::MAGIC);
    file
}

#[test]
fn bad_mcap_is_refused_with_its_byte() {
    let whole = mcap_of("time_s,x\n0,1\n1,2\n");
    let mut flipped = whole.clone();
    // In the compressed chunk, which begins after the header's record.
    flipped[140] ^= 0x40;
    let message: &[u8] = &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // Channel 7, no schema, topic `/x`, `json`, no metadata.
    let channel: &[u8] =
        &[7, 0, 0, 0, 2, 0, 0, 0, b'/', b'x', 4, 0, 0, 0, b'j', b's', b'o', b'n', 0, 0, 0, 0];
    let footer: (u8, &[u8]) = (2, &[0; 20]);
    let with_data = |data: &[u8]| [message, data].concat();
    let not_json = with_data(b"{\"a\": 1,}");
    let late = [&message[..6], &[0xff; 8], &message[14..], b"{\"a\":1}"].concat();
    let files: [(&str, Vec<u8>); 11] = [
        ("magic.mcap", whole[..8].to_vec()),
        ("half.mcap", whole[..whole.len() / 2].to_vec()),
        ("end.mcap", whole[..whole.len() - 3].to_vec()),
        ("more.mcap", [&whole[..], b"x"].concat()),
        ("flipped.mcap", flipped),
        ("text.mcap", b"hello\n".to_vec()),
        ("nothing.mcap", mcap_records(&[footer])),
        ("unknown_channel.mcap", mcap_records(&[(5, message), footer])),
        ("not_json.mcap", mcap_records(&[(4, channel), (5, &not_json), footer])),
        ("late.mcap", mcap_records(&[(4, channel), (5, &late), footer])),
        ("channel.mcap", mcap_records(&[(4, &channel[..9]), footer])),
    ];
    let lines: Vec<String> = files.iter().map(|(name, data)| error(name, data)).collect();
    assert_eq!(lines.join("\n") + "\n", BAD_MCAP);
}

const BAD_MCAP: &str = r#"magic.mcap: byte 8: the file ends inside a record, as one whose writer was killed: `taut trace repair` finishes it
half.mcap: byte 350: the file ends inside a record, as one whose writer was killed: `taut trace repair` finishes it
end.mcap: byte 801: the file ends inside the magic bytes at its end, as one whose writer was killed: `taut trace repair` finishes it
more.mcap: byte 809: bytes after the end of the MCAP file
flipped.mcap: byte 35: Chunk CRC failed (expected 6AF90539, got FB2A692F)
text.mcap: this does not begin like a .mcap file
nothing.mcap: there are no messages in it
unknown_channel.mcap: byte 8: a message of channel 7, which no record describes
not_json.mcap: read as packets
late.mcap: byte 39: a message's time is beyond the year 2262
channel.mcap: byte 8: a record's fields do not fit into it, or are not UTF-8
"#;

#[test]
fn cutting_a_file_anywhere_never_panics() {
    let frame = ethernet(&udp(10));
    let files = [
        pcap(1, &[(0, 0, 52, &frame), (0, 1, 52, &frame)]),
        pcapng(&[(0, &frame), (1, &frame)]),
        mcap_of("time_s,x\n0,1\n1,2\n"),
        b"time_s,\"a b\",c\n0,1e5,-.5\n1,2,3\n".to_vec(),
    ];
    for file in &files {
        for end in 0..file.len() {
            let _ = read_bytes("cut", &file[..end]);
            let mut flipped = file.clone();
            flipped[end] ^= 0x81;
            let _ = read_bytes("flipped", &flipped);
        }
    }
}
