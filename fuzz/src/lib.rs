//! What the fuzz targets do, as plain functions, so that the corpus is replayed by `cargo test` on stable too.
//!
//! Each takes any bytes. None may panic; what was read must survive being written and read again.
//!
//! ```text
//! cargo +nightly fuzz run --features targets csv -- -max_total_time=150 -max_len=4096
//! cargo test -p taut-fuzz         # replays corpus/
//! ```

pub mod live;

use std::net::Ipv4Addr;

use taut_core::{Bytes, Duration};
use taut_io::device::frame as device_frame;
use taut_lab::scenario::{Scenario, ScenarioError, Setting};
use taut_trace::{Data, Ivf, Limits, Recording, info, read_bytes, read_bytes_within, write_csv, write_mcap};
use taut_transport::quic::frame as quic_frame;
use taut_wire::{
    dccp as dccp_wire, etp as etp_wire, mtip as mtip_wire, omni71 as omni71_wire, rtp as rtp_wire,
    session as session_wire, tcp as tcp_wire,
};

/// A target's body.
pub type Body = fn(&[u8]);

/// Every target by name; its corpus is the folder of that name.
pub const TARGETS: [(&str, Body); 20] = [
    ("csv", csv),
    ("mcap", mcap),
    ("pcap", pcap),
    ("mahimahi", mahimahi),
    ("tcp", tcp),
    ("etp", etp),
    ("mtip", mtip),
    ("dccp", dccp),
    ("rtp", rtp),
    ("omni71", omni71),
    ("session", session),
    ("scenario", scenario),
    ("quic_frames", quic_frames),
    ("secured", live::secured),
    ("sctp", live::sctp),
    ("mpquic", live::mpquic),
    ("proxy", live::proxy),
    ("ivf", ivf),
    ("device", device),
    ("picture", picture),
];

/// Tables.
pub fn csv(data: &[u8]) {
    recording("fuzz.csv", data);
}

/// MCAP files.
pub fn mcap(data: &[u8]) {
    recording("fuzz.mcap", data);
}

/// Captures, pcap and pcapng.
pub fn pcap(data: &[u8]) {
    recording("fuzz.pcap", data);
}

/// Recorded video. Frames are parts of the file, in the order of their times.
pub fn ivf(data: &[u8]) {
    match Ivf::parse("fuzz.ivf", data) {
        Ok(ivf) => {
            assert!(ivf.frames().is_sorted_by_key(|(time, _)| *time) && !ivf.frames().is_empty());
            assert!(ivf.frames().iter().map(|(_, frame)| frame.len()).sum::<usize>() < data.len());
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(char::is_control) && text.len() < 2_000, "not one line: {text:?}");
        }
    }
}

/// Delivery traces.
pub fn mahimahi(data: &[u8]) {
    // Anything else is another format's business.
    if data.first().is_some_and(u8::is_ascii_digit) {
        recording("fuzz.up", data);
    }
}

fn recording(name: &str, data: &[u8]) {
    // Small enough that one input takes milliseconds.
    let limits = Limits::default().bytes(Bytes::new(1_000_000)).rows(2_000).values(20_000).columns(64);
    match read_bytes_within(name, data, &limits) {
        Ok(recording) => written_and_read(&recording),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(char::is_control) && text.len() < 2_000, "not one line: {text:?}");
        }
    }
}

fn written_and_read(recording: &Recording) {
    assert!(!info(recording).to_string().is_empty());
    if let Data::Signals(signals) = recording.data() {
        let period = Duration::from_nanos((signals.duration().as_nanos() / 50).max(1));
        assert!(!signals.resample(period).expect("some fifty rows").is_empty());
    }
    let text = write_csv(recording);
    let again = read_bytes("again.csv", &text).expect("what was written is read");
    assert!(again.data() == recording.data(), "{}", String::from_utf8_lossy(&text));
    assert!(write_csv(&again) == text);
    // Times before 0 have no form in MCAP.
    if let Ok(file) = write_mcap(recording) {
        assert!(
            read_bytes("again.mcap", &file).expect("what was written is read").data() == recording.data()
        );
    }
}

/// TCP headers. Unknown options, and selective acknowledgements that do not fit beside the others, are not emitted:
/// what was emitted once stays the same.
pub fn tcp(data: &[u8]) {
    let Ok((header, length)) = tcp_wire::Repr::parse(data) else { return };
    assert!(length <= data.len());
    let mut bytes = Vec::new();
    header.emit(&mut bytes);
    assert_eq!(bytes.len(), header.len());
    let (again, length) = tcp_wire::Repr::parse(&bytes).expect("what was emitted parses");
    assert_eq!(length, bytes.len());
    let mut emitted_again = Vec::new();
    again.emit(&mut emitted_again);
    assert_eq!(emitted_again, bytes);
}

/// Packets of the event-based transport. Every packet has one form.
pub fn etp(data: &[u8]) {
    let mut bytes = Vec::new();
    match etp_wire::Packet::parse(data) {
        Ok(etp_wire::Packet::Data(packet)) => {
            assert!(packet.messages().all(|message| message.is_ok()));
            packet.emit(&mut bytes);
        }
        Ok(etp_wire::Packet::Feedback(packet)) => packet.emit(&mut bytes),
        Err(_) => return,
    }
    assert_eq!(bytes, data);
}

/// Packets of MTIP, both formats. What is written again is read as the same.
pub fn mtip(data: &[u8]) {
    let mut bytes = Vec::new();
    if let Ok(packet) = mtip_wire::Repr::parse(data) {
        packet.emit(&mut bytes);
        assert_eq!(mtip_wire::Repr::parse(&bytes), Ok(packet));
    }
    bytes.clear();
    if let Ok(packet) = mtip_wire::compatible::Repr::parse(data) {
        packet.emit(&mut bytes);
        assert_eq!(mtip_wire::compatible::Repr::parse(&bytes), Ok(packet));
    }
}

/// DCCP packets. Reserved bits, padding and options after one of a nonsensical length are not emitted.
pub fn dccp(data: &[u8]) {
    let addresses =
        dccp_wire::Addresses::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::BROADCAST };
    let _ = dccp_wire::checksum(addresses, data, 0);
    let Ok(view) = dccp_wire::View::new_checked(data) else { return };
    let mut options = Vec::new();
    for option in view.options() {
        match option {
            dccp_wire::DccpOption::AckVector(vector) => {
                let runs = vector.runs(view.repr().sequence);
                assert!(runs.map(|run| run.count).sum::<u64>() <= 253 * dccp_wire::MAX_RUN);
            }
            dccp_wire::DccpOption::LossIntervals(intervals) => assert!(intervals.iter().count() <= 28),
            _ => {}
        }
        option.emit(&mut options);
    }
    let mut bytes = Vec::new();
    view.repr().emit(&options, view.data(), &mut bytes);
    let again = dccp_wire::View::new_checked(&bytes).expect("what was emitted parses");
    assert_eq!(again.repr(), view.repr());
    assert!(again.options().eq(view.options()) && again.data() == view.data());
}

/// Frames of devices that are programs. Every one has one form.
pub fn device(data: &[u8]) {
    if let Ok(frame) = device_frame::Frame::parse(data) {
        assert_eq!(frame.to_bytes(), data);
    }
}

/// State samples of a haptic device, and their acknowledgements. Every one has one form, but for a sample's padding.
pub fn omni71(data: &[u8]) {
    let mut bytes = Vec::new();
    match (omni71_wire::Repr::parse(data), omni71_wire::Ack::parse(data)) {
        (Ok(sample), _) => {
            assert_eq!(sample.is_finite(), !bytes_hold_a_number_that_is_not_finite(&data[16..68]));
            sample.emit(&mut bytes);
            assert_eq!(data.get(..bytes.len()), Some(&bytes[..]));
            return;
        }
        (_, Ok(ack)) => ack.emit(&mut bytes),
        _ => return,
    }
    assert_eq!(bytes, data);
}

fn bytes_hold_a_number_that_is_not_finite(data: &[u8]) -> bool {
    data.chunks_exact(4).any(|number| number[3] & 0x7f == 0x7f && number[2] & 0x80 != 0)
}

/// Frames of a session. Every frame has one form.
pub fn session(data: &[u8]) {
    if let Ok((header, pieces)) = session_wire::DataHeader::parse(data) {
        let pieces: Vec<_> = pieces.map(|piece| piece.expect("all were looked at")).collect();
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        for (at, (piece, payload)) in pieces.iter().enumerate() {
            piece.emit((at + 1 < pieces.len()).then_some(payload.len()), &mut bytes);
            bytes.extend_from_slice(payload);
        }
        session_wire::DataHeader::pad(&mut bytes, data.len());
        return assert_eq!(data, bytes);
    }
    let Ok(frame) = session_wire::Frame::parse(data) else { return };
    assert_eq!(frame.len(), data.len());
    let mut bytes = Vec::new();
    frame.emit(&mut bytes);
    assert_eq!(bytes, data);
}

/// RTP packets, what VP8 and H.264 put into them, and the assembler of frames.
pub fn rtp(data: &[u8]) {
    use rtp_wire::{Codec, ccfb, h264, vp8};
    if let Ok(report) = ccfb::Report::parse(data) {
        let mut bytes = Vec::new();
        report.emit(&mut bytes);
        assert_eq!(ccfb::Report::parse(&bytes), Ok(report));
    }
    let Ok(view) = rtp_wire::View::new_checked(data) else { return };
    let mut bytes = Vec::new();
    view.repr().emit(&mut bytes);
    bytes.extend_from_slice(view.payload());
    // The padding.
    bytes.extend_from_slice(&data[bytes.len()..]);
    let again = rtp_wire::View::new_checked(&bytes).expect("what was written is read");
    assert_eq!((again.repr(), again.payload()), (view.repr(), view.payload()));
    if let Ok((descriptor, at)) = vp8::Descriptor::parse(view.payload()) {
        let mut bytes = Vec::new();
        descriptor.emit(&mut bytes);
        bytes.push(view.payload()[at]);
        assert_eq!(vp8::Descriptor::parse(&bytes), Ok((descriptor, bytes.len() - 1)));
    }
    if let Some(header) = vp8::FrameHeader::parse(view.payload()) {
        let mut bytes = Vec::new();
        header.emit((480, 360), &mut bytes);
        assert_eq!(vp8::FrameHeader::parse(&bytes), Some(header));
    }
    if let Ok(h264::Payload::StapA(units)) = h264::Payload::parse(view.payload()) {
        let units: Vec<&[u8]> = units.collect();
        let mut bytes = Vec::new();
        h264::NalUnits::emit(&units, &mut bytes);
        assert_eq!(bytes[1..], view.payload()[1..]);
    }
    for codec in Codec::ALL {
        let mut assembler = taut_media::FrameAssembler::new(codec);
        assembler.handle_input(&view);
        assert!(assembler.poll_frame().is_none_or(|frame| frame.kind == codec.kind(view.payload())));
    }
}

/// Messages of a channel of pictures, one after the other, each behind two bytes that say how long it is: through a decoder, where there is one, and, as
/// frames that another encoder made, on to another. Small pictures alone: libvpx takes memory for what a header says.
pub fn picture(data: &[u8]) {
    use taut_media::picture::{Ask, Picture};
    let (mut decoder, mut other) = (taut_video::Decoder::new().ok(), taut_video::Decoder::new().ok());
    let mut passing = taut_video::Passing::new(0);
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (payload, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)).min(behind.len()));
        rest = behind;
        let Ok((header, frame)) = Picture::parse(payload) else {
            assert!(decoder.as_mut().is_none_or(|decoder| decoder.take(payload).is_err()));
            continue;
        };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        bytes.extend_from_slice(frame);
        assert_eq!(bytes, payload);
        if is_large(frame) {
            continue;
        }
        decoder.as_mut().and_then(|decoder| take(decoder, payload));
        let Some(passed) = passing.pass(header.codec, (header.width, header.height), frame) else { continue };
        assert_eq!(Picture::parse(&passed.payload).map(|(header, _)| header), Ok(passed.picture));
        assert!(passed.frame().ends_with(frame));
        match other.as_mut().and_then(|other| take(other, &passed.payload)) {
            Some(ask) => passing.ask(ask),
            None => passing.lost(),
        }
    }
    fn take(decoder: &mut taut_video::Decoder, payload: &[u8]) -> Option<Ask> {
        let before = decoder.counts();
        let taken = decoder.take(payload);
        let after = decoder.counts();
        let taken = taken.inspect_err(|_| assert_eq!(after.malformed, before.malformed + 1)).ok()?;
        assert_eq!(after.decoded - before.decoded, taken.decoded.len() as u64);
        if let Some(ask) = taken.ask {
            assert_eq!(Ask::parse(&ask.emit()), Ok(ask));
        }
        taken.ask
    }
    /// Does it begin a stream of VP8 with pictures of more than 128 columns or rows (RFC 6386 section 9.1)?
    fn is_large(frame: &[u8]) -> bool {
        let side = |low: u8, high: u8| u16::from_le_bytes([low, high & 0x3f]) > 128;
        matches!(*frame, [tag, _, _, 0x9d, 1, 0x2a, w0, w1, h0, h1, ..] if tag & 1 == 0 && (side(w0, w1) || side(h0, h1)))
    }
}

/// What lies inside QUIC's datagrams and streams. The first byte says where the stream is cut in two. Every message has
/// one form.
pub fn quic_frames(data: &[u8]) {
    let Some((cut, data)) = data.split_first() else { return };
    let mut bytes = Vec::new();
    if let Ok((stream, message)) = quic_frame::parse_datagram(data) {
        quic_frame::emit_datagram_header(stream, &mut bytes);
        bytes.extend(message);
        assert_eq!(bytes, data);
        bytes.clear();
    }
    let mut reassembler = quic_frame::Reassembler::new(1_000);
    let (first, second) = data.split_at(usize::from(*cut).min(data.len()));
    for piece in [first, second] {
        reassembler.push(piece);
        loop {
            match reassembler.next_message() {
                Ok(Some((stream, message))) => {
                    quic_frame::emit_header(stream, message.len(), &mut bytes);
                    bytes.extend(message);
                }
                Ok(None) => break,
                Err(_) => return assert!(data.starts_with(&bytes)),
            }
        }
    }
    assert_eq!(bytes, data[..data.len() - reassembler.pending()]);
}

/// Scenarios, and `--set` on them: each NUL in the text begins a setting.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = text.split('\0');
    let mut scenario = match Scenario::parse("fuzz.toml", parts.next().unwrap_or_default()) {
        Ok(scenario) => scenario,
        Err(error) => return one_line(&error),
    };
    for setting in parts.filter_map(|part| part.parse::<Setting>().ok()) {
        match scenario.with(&[setting]) {
            Ok(changed) => scenario = changed,
            Err(error) => one_line(&error),
        }
    }
    if let Err(error) = scenario.expand() {
        one_line(&error);
    }
    let text = scenario.to_toml();
    let again = Scenario::parse("again.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again.to_toml(), text);
}

fn one_line(error: &ScenarioError) {
    let text = error.to_string();
    assert!(!text.contains(char::is_control), "not one line: {text:?}");
}
