use proptest::prelude::*;

use super::*;

fn emitted(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.emit(&mut bytes);
    bytes
}

fn state() -> State {
    State {
        sequence: 0x0102_0304,
        created_ns: 1_000_000_000,
        waited_us: 256,
        deadline_us: 0,
        priority: Priority::High,
        stream: 1,
        locked: true,
        enabling: false,
        gripper: 0xabcd,
        position: [0.125, -0.25, 0.5],
        orientation_wxyz: [0.0, 1.0, 0.0, -0.0],
        velocity: [1.0, -2.0, 3.0],
        force: [4.0, -5.0, 6.0],
        energy: None,
        turning: None,
        turning_energy: 0.0,
    }
}

fn declaration() -> Declaration {
    Declaration {
        direction: Direction::ToOperator,
        kind: ChannelKind::Video,
        delivery: Delivery::Deadline,
        encoding: Encoding::Raw,
        priority: 3,
        deadline_us: 100_000,
        rate_mhz: 30_000,
        largest: 4096,
        definition: 0x1122_3344_5566_7788,
        name: "cam".to_owned(),
        schema: "h264".to_owned(),
    }
}

/// From hexadecimal digits; everything else separates.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

const STATE: &str = "74 73 07 01 00 00 00 07
    01 02 03 04  00 0f 42 40  00 10  15  ab cd
    3e 00 00 00 be 80 00 00 3f 00 00 00  00 00 00 00 3f 80 00 00 00 00 00 00 80 00 00 00
    3f 80 00 00 c0 00 00 00 40 40 00 00  40 80 00 00 c0 a0 00 00 40 c0 00 00";

/// With the flag of an energy, and 1.5 J.
fn with_energy(frame: &str) -> String {
    frame.replacen("00 10  15", "00 10  55", 1) + " 3f f8 00 00 00 00 00 00"
}

fn charged() -> State {
    State { energy: Some(1.5), ..state() }
}

/// Of the next version, with the flag of a turning, and that; then two energies, where it has them.
fn with_turning(frame: &str) -> String {
    let frame = frame.replacen("74 73 07", "74 73 08", 1);
    let turning = " 3f 80 00 00 00 00 00 00 c0 00 00 00  00 00 00 00 3f 00 00 00 bf 00 00 00";
    let Some(frame) = frame.strip_suffix(" 3f f8 00 00 00 00 00 00") else {
        return frame.replacen("00 10  15", "00 10  95", 1) + turning;
    };
    let frame = frame.replacen("00 10  55", "00 10  d5", 1) + turning;
    frame + " 3f f8 00 00 00 00 00 00  40 04 00 00 00 00 00 00"
}

/// Of the next version.
fn of_turning(frame: &str) -> String {
    frame.replacen("74 73 07", "74 73 08", 1)
}

/// Of the version after that, with flags, and a law before its channels.
fn with_law(hello: &str, flags: &str) -> String {
    let law = "02  00 2d c6 c0 00 00 af c8  00 00 75 30 00 00 01 c2  00 00 75 30";
    let hello = hello.replacen("74 73 07", "74 73 09", 1);
    let hello = hello.replacen("01 02 00 01", &format!("01 02 {flags}"), 1);
    hello.replacen("00 00 01 04  01", &format!("00 00 01 04  01 {law}"), 1)
}

fn law() -> ControlLaw {
    ControlLaw {
        kind: LawKind::Wave,
        servo: [3_000_000, 45_000],
        turning_servo: [30_000, 450],
        impedance: 30_000,
    }
}

fn turning() -> State {
    State { turning: Some(Turning { velocity: [1.0, 0.0, -2.0], torque: [0.0, 0.5, -0.5] }), ..state() }
}

fn golden() -> Vec<(String, Body)> {
    let command = Command { command: 3, epoch: 0x1122_3344, created_ns: 5, sent_ns: 6 };
    let command_hex =
        "00 00 00 00 00 00 00 03  11 22 33 44  00 00 00 00 00 00 00 05  00 00 00 00 00 00 00 06";
    let answer = CommandAck {
        command: 3,
        echo_ns: 6,
        received_ns: 7,
        epoch: 0x1122_3345,
        answer: Answer::HeldLocally,
        state: RobotState::Fault,
        cause: StopCause::LocalEmergency,
        age_us: 0x0102,
    };
    let answer_hex = "00 00 00 00 00 00 00 03  00 00 00 00 00 00 00 06  00 00 00 00 00 00 00 07
        11 22 33 45  02 03 03 00  00 00 01 02";
    let ack = Ack {
        sequence: 9,
        echo_ns: 10_000,
        received_ns: 11_000,
        held_us: 12,
        seen: 0x8000_0001,
        epoch: 0x1122_3344,
        verdict: Verdict::Superseded,
        state: RobotState::Enabled,
        cause: StopCause::Watchdog,
    };
    let ack_hex = "00 00 00 09  00 0a  00 00 00 0b  00 0c  80 00 00 01  11 22 33 44  05 11";
    let limits =
        Limits { position_min: [-1.0; 3], velocity: 0.5, acceleration: 1.0, force: 3.0, ..Limits::default() };
    let hello = Hello {
        role: Role::Robot,
        state: RobotState::Paused,
        cause: StopCause::Start,
        epoch: 0x1122_3344,
        rate_mhz: 1_000_000,
        watchdog_us: 100_000,
        max_age_us: 0x0103,
        deadline_us: 0x0104,
        hold_to_run: true,
        turns: false,
        law: None,
        limits,
        channels: vec![declaration()],
    };
    let hello_hex = "01 02 00 01  11 22 33 44  00 0f 42 40  00 01 86 a0
        bf 80 00 00 bf 80 00 00 bf 80 00 00  7f 80 00 00 7f 80 00 00 7f 80 00 00
        3f 00 00 00  3f 80 00 00  40 40 00 00  7f 80 00 00  7f 80 00 00  00 00 01 03  00 00 01 04  01
        01 02 01 04 03  00 01 86 a0  00 00 75 30  00 00 10 00  11 22 33 44 55 66 77 88  03 04
        63 61 6d  68 32 36 34";
    let status = Status { state: RobotState::Paused, cause: StopCause::Watchdog, epoch: 0x1122_3344 };
    let status_hex = "02 01  11 22 33 44";
    let reply = ClockReply { echo_ns: 1, received_ns: 2, sent_ns: 3 };
    let reply_hex = "00 00 00 00 00 00 00 01  00 00 00 00 00 00 00 02  00 00 00 00 00 00 00 03";
    let feedback = Feedback { state: state(), applied: 12, ack: None };
    let feedback_hex = format!("{} 00 00 00 0c", STATE.split_at(23).1);
    let acknowledging_hex = format!("{feedback_hex} {ack_hex}");
    let arrivals = Arrivals { sequence: 0x0102, received_us: 11, held_us: 12, seen: 0x8000_0001 };
    let arrivals_hex = "01 02  00 00 00 0b  00 0c  80 00 00 01";
    let frame = |kind: u8, body: &str| format!("74 73 07 {kind:02x} 00 00 00 07 {body}");
    vec![
        (STATE.to_owned(), Body::State(state())),
        (frame(2, ack_hex), Body::Ack(ack)),
        (frame(3, command_hex), Body::EmergencyStop(command)),
        (frame(4, answer_hex), Body::EmergencyStopAck(answer)),
        (frame(5, command_hex), Body::Resume(command)),
        (frame(6, answer_hex), Body::ResumeAck(answer)),
        (frame(7, "00 00 00 00 00 00 00 01"), Body::ClockRequest(ClockRequest { sent_ns: 1 })),
        (frame(8, reply_hex), Body::ClockReply(reply)),
        (frame(9, hello_hex), Body::Hello(hello.clone())),
        (frame(10, status_hex), Body::Status(status)),
        (frame(11, &feedback_hex), Body::Feedback(feedback)),
        (frame(12, "01"), Body::Refusal(RefusalReason::UnknownSession)),
        (frame(13, ""), Body::Goodbye),
        (frame(14, command_hex), Body::Reset(command)),
        (frame(15, answer_hex), Body::ResetAck(answer)),
        (frame(17, &acknowledging_hex), Body::Feedback(Feedback { ack: Some(ack), ..feedback })),
        (
            frame(18, &format!("{} {arrivals_hex}", STATE.split_at(23).1)),
            Body::AcknowledgingState(state(), arrivals),
        ),
        (frame(19, arrivals_hex), Body::Arrivals(arrivals)),
        (with_energy(STATE), Body::State(charged())),
        (with_turning(STATE), Body::State(turning())),
        (
            with_turning(&with_energy(STATE)),
            Body::State(State { energy: Some(1.5), turning_energy: 2.5, ..turning() }),
        ),
        (of_turning(&frame(9, hello_hex)), Body::Hello(Hello { turns: true, ..hello.clone() })),
        (with_law(&frame(9, hello_hex), "00 01"), Body::Hello(Hello { law: Some(law()), ..hello.clone() })),
        (
            with_law(&frame(9, hello_hex), "00 03"),
            Body::Hello(Hello { law: Some(law()), turns: true, ..hello }),
        ),
        (of_turning(&frame(12, "03")), Body::Refusal(RefusalReason::Turns)),
        (
            with_energy(&frame(17, &acknowledging_hex)),
            Body::Feedback(Feedback { state: charged(), ack: Some(ack), ..feedback }),
        ),
    ]
}

#[test]
fn golden_bytes_parse() {
    for (bytes, body) in golden() {
        assert_eq!(Frame::parse(&hex(&bytes)), Ok(Frame { session: 7, body }));
    }
}

#[test]
fn golden_bytes_are_emitted() {
    for (bytes, body) in golden() {
        let frame = Frame { session: 7, body };
        assert_eq!(emitted(&frame), hex(&bytes), "{frame:?}");
        assert_eq!(frame.len(), hex(&bytes).len());
        let longest = if matches!(frame.body, Body::Hello(_)) { MAX_HELLO_LEN } else { MAX_LEN };
        assert!(frame.len() <= longest);
    }
}

#[test]
fn another_version_is_a_clear_error_whatever_follows() {
    for theirs in [0, 1, 2, 3, TURNING_VERSION, LAW_VERSION, 255] {
        let error = Error::UnsupportedVersion { theirs, ours: VERSION };
        assert_eq!(Frame::parse(&[b't', b's', theirs]), Err(error));
        assert_eq!(Frame::parse(&[b't', b's', theirs, 200, 1, 2, 3, 4, 5]), Err(error));
        assert!(error.to_string().contains("upgrade the older one"));
    }
}

#[test]
fn what_is_not_understood_is_refused_with_its_reason() {
    let changed = |kind: usize, at: usize, to: u8| {
        let mut bytes = hex(&golden()[kind - 1].0);
        bytes[at] = to;
        Frame::parse(&bytes).unwrap_err()
    };
    assert_eq!(changed(1, 0, b'T'), Error::Magic);
    assert_eq!(changed(1, 3, 0), Error::Kind(0));
    assert_eq!(changed(1, 3, 20), Error::Kind(20));
    assert_eq!(changed(1, 7, 0), Error::Session);
    assert_eq!(changed(1, 18, 3), Error::Value { at: 18, value: 3 });
    assert_eq!(changed(1, 18, 0x80), Error::Value { at: 18, value: 0x80 });
    assert_eq!(changed(1, 18, 0x40), Error::Length { needed: 81, found: 73 });
    assert_eq!(changed(2, 28, 8), Error::Value { at: 28, value: 8 });
    assert_eq!(changed(2, 29, 0x40), Error::Value { at: 29, value: 0x40 });
    assert_eq!(changed(2, 29, 0x0d), Error::Value { at: 29, value: 0x0d });
    assert_eq!(changed(16, 97, 8), Error::Value { at: 97, value: 8 });
    assert_eq!(changed(4, 39, 1), Error::Value { at: 39, value: 1 });
    assert_eq!(changed(9, 11, 2), Error::Value { at: 11, value: 2 });
    assert_eq!(changed(9, 8, 2), Error::Value { at: 8, value: 2 });
    assert_eq!(changed(10, 9, 13), Error::Value { at: 9, value: 13 });
    assert_eq!(changed(12, 8, 3), Error::Value { at: 8, value: 3 });
    assert_eq!(changed(12, 2, TURNING_VERSION), Error::Value { at: 8, value: 1 });
    assert_eq!(changed(13, 2, TURNING_VERSION), Error::UnsupportedVersion { theirs: 8, ours: 7 });
    for (bytes, body) in golden() {
        let (bytes, needed) = (hex(&bytes), emitted(&Frame { session: 7, body }).len());
        for found in HEADER_LEN..needed {
            // What a hello with channels still needs, it says one part at a time.
            let error = Frame::parse(&bytes[..found]);
            let is_short = |least: &usize| *least > found && *least <= needed;
            assert!(
                matches!(error, Err(Error::Length { needed, found: f }) if f == found && is_short(&needed))
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Frame::parse(&longer), Err(Error::Length { needed, found: needed + 1 }));
    }
    assert_eq!(Frame::parse(&[]), Err(Error::Length { needed: HEADER_LEN, found: 0 }));
}

#[test]
fn one_number_that_is_not_finite_is_parsed_and_found() {
    assert!(state().is_finite());
    for at in (21..73).step_by(4) {
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut bytes = hex(STATE);
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
            let Ok(Frame { body: Body::State(state), .. }) = Frame::parse(&bytes) else { panic!("at {at}") };
            assert!(!state.is_finite(), "{number} at {at}");
        }
    }
}

#[test]
fn channels_that_make_no_sense_are_refused_with_their_place() {
    let changed = |at: usize, to: u8| {
        let mut bytes = hex(&golden()[8].0);
        bytes[at] = to;
        Frame::parse(&bytes).unwrap_err()
    };
    for (at, to) in [(76, 33), (77, 2), (78, 7), (79, 4), (80, 5), (81, 8), (102, 0), (102, 65), (103, 0)] {
        assert_eq!(changed(at, to), Error::Value { at, value: to });
    }
    assert_eq!(changed(105, 0xff), Error::Value { at: 105, value: 0xff }, "no UTF-8");
    assert_eq!(changed(76, 0), Error::Length { needed: 77, found: 111 }, "something follows");
    assert_eq!(changed(76, 2), Error::Length { needed: 111 + 27, found: 111 });
}

const DATA: &str = "80 00 00 00 07 00 00 09 00 00 13 88";

fn piece() -> Piece {
    Piece { channel: 2, sequence: 3, waited_us: 64, back: None, part: None }
}

fn data(pieces: &[(Piece, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    DataHeader { session: 7, number: 9, sent_us: 5_000, ack: None }.emit(&mut bytes);
    for (at, (piece, payload)) in pieces.iter().enumerate() {
        let length = (at + 1 < pieces.len()).then_some(payload.len());
        let before = bytes.len();
        piece.emit(length, &mut bytes);
        assert_eq!(bytes.len() - before, piece.len(length));
        bytes.extend_from_slice(payload);
    }
    bytes
}

#[test]
fn data_has_golden_bytes_whole_in_parts_several_and_padded() {
    let part = Piece { part: Some(Part { offset: 1_000, total: 40_000 }), ..piece() };
    let repeated = Piece { channel: 31, back: Some(6), part: Some(Part { offset: 0, total: 9 }), ..piece() };
    let parity = Piece { part: Some(Part { offset: 40_000, total: 40_000 }), ..piece() };
    type Pieces<'a> = &'a [(Piece, &'a [u8])];
    let golden: [(Pieces, &str); 6] = [
        (&[(piece(), &[])], "02 00 00 03 00 04"),
        (&[(piece(), &[1, 2])], "02 00 00 03 00 04 01 02"),
        (&[(part, &[1])], "42 00 00 03 00 04 e8 07 c0 b8 02 01"),
        (&[(parity, &[1])], "42 00 00 03 00 04 c0 b8 02 c0 b8 02 01"),
        (&[(repeated, &[1, 2])], "7f 00 00 03 00 04 00 06 00 09 01 02"),
        (
            &[(piece(), &[]), (repeated, &[3]), (part, &[1])],
            "82 00 00 03 00 04 00  ff 00 00 03 00 04 00 06 00 09 01 03  42 00 00 03 00 04 e8 07 c0 b8 02 01",
        ),
    ];
    for (pieces, text) in golden {
        let mut bytes = data(pieces);
        assert_eq!(bytes, hex(&format!("{DATA} {text}")));
        assert!(DataHeader::is_data(&bytes));
        assert_eq!(Frame::parse(&bytes), Err(Error::Magic), "no other frame begins so");
        for padding in [0, 1, 2, 300] {
            DataHeader::pad(&mut bytes, data(pieces).len() + padding);
            assert_eq!(bytes.len(), data(pieces).len() + padding);
            let (header, read) = DataHeader::parse(&bytes).unwrap();
            assert_eq!(header, DataHeader { session: 7, number: 9, sent_us: 5_000, ack: None });
            assert_eq!(read.collect::<Result<Vec<_>, _>>().unwrap(), pieces);
            bytes.truncate(data(pieces).len());
            bytes[0] = 0x80;
        }
    }
    assert_eq!(DataHeader::LEN + piece().len(None), 18, "of a frame that carries one message");
}

#[test]
fn an_acknowledgement_has_golden_bytes_with_messages_and_alone() {
    let ack = Some(DataAck { largest: 9, seen: 1 << 63 | 1, held_us: 12 });
    let told = "00 00 09  80 00 00 00 00 00 00 01  00 0c";
    for (number, piece) in [(9, "02 00 00 03 00 04 01 02"), (0, "")] {
        let text = format!("82 00 00 00 07 00 00 {number:02x} 00 00 13 88  {told}  {piece}");
        let (header, pieces) =
            DataHeader::parse(&hex(&text)).map(|(header, pieces)| (header, pieces.count())).unwrap();
        assert_eq!(header, DataHeader { session: 7, number, sent_us: 5_000, ack });
        assert_eq!(pieces, usize::from(number != 0));
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        assert_eq!(bytes, hex(&text)[..DataHeader::LEN + DataAck::LEN]);
    }
    let numbered = hex(&format!("82 00 00 00 07 00 00 09 00 00 13 88 {told}"));
    assert_eq!(DataHeader::parse(&numbered).unwrap_err(), Error::Value { at: 7, value: 9 });
    for found in 1..numbered.len() {
        let error = DataHeader::parse(&numbered[..found]).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{found}: {error}");
    }
    let padded = hex(&format!("83 00 00 00 07 00 00 00 00 00 13 88 {told} 80"));
    assert!(DataHeader::parse(&padded).is_err());
    let held = |held_us| DataAck { largest: 0, seen: 0, held_us }.held();
    assert_eq!([held(0), held(65_534), held(65_535)], [Some(0), Some(65_534), None]);
}

#[test]
fn data_that_makes_no_sense_is_refused_with_its_place() {
    assert_eq!(DataHeader::parse(&hex(STATE)).unwrap_err(), Error::Magic);
    let whole = data(&[(piece(), &[])]);
    for found in 1..whole.len() {
        let needed = if found < DataHeader::LEN { DataHeader::LEN } else { whole.len() };
        assert_eq!(DataHeader::parse(&whole[..found]).unwrap_err(), Error::Length { needed, found });
    }
    let changed = |bytes: &[u8], at: usize, to: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = to;
        DataHeader::parse(&bytes).unwrap_err()
    };
    assert_eq!(changed(&whole, 0, 0x84), Error::Value { at: 0, value: 0x84 });
    assert_eq!(changed(&whole, 4, 0), Error::Session);
    assert_eq!(changed(&whole, 0, 0x81), Error::Value { at: 17, value: 4 }, "no padding");
    assert_eq!(changed(&whole, 12, 0x82), Error::Length { needed: 19, found: 18 }, "no length");
    let two = data(&[(piece(), &[1, 2]), (piece(), &[3])]);
    assert_eq!(changed(&two, 18, 9), Error::Length { needed: 34, found: 28 }, "longer than the frame");
    // Offset, total and payload: nothing, beyond the end from before it, all of it, nothing of it, a number with a zero to spare, one too long.
    for tail in
        ["04 09", "08 09 01 02", "01 09 01 02 03 04 05 06 07 08 09", "00 01 01", "00 01", "80 00 09 01"]
    {
        let bytes = hex(&format!("{DATA} 42 00 00 03 00 04 {tail}"));
        let parsed = DataHeader::parse(&bytes).map(|_| ());
        assert!(matches!(parsed, Err(Error::Value { .. })), "{tail}: {parsed:?}");
    }
    let long = hex(&format!("{DATA} 42 00 00 03 00 04 80 80 80 80 01 09 01"));
    assert_eq!(DataHeader::parse(&long).unwrap_err(), Error::Value { at: 21, value: 0x80 });
}

#[test]
fn how_long_a_message_waited_is_told_to_1_in_4096_and_never_too_short() {
    let told = |waited_us| {
        let bytes = data(&[(Piece { waited_us, ..piece() }, &[])]);
        DataHeader::parse(&bytes).unwrap().1.next().unwrap().unwrap().0.waited_us
    };
    for waited in (0..32).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
        let expected = waited.min(2_147_221_504);
        assert!(told(waited) >= expected && told(waited) - expected <= 15 + waited / 4096, "{waited}");
    }
    assert_eq!([told(0), told(16), told(65_520), told(u32::MAX)], [0, 16, 65_520, 2_147_221_504]);
}

proptest! {
    #[test]
    fn data_reads_back(
        mut bytes in prop::collection::vec(any::<u8>(), 0..60), padded in any::<bool>(), acknowledges in any::<bool>(), plain in any::<bool>(),
    ) {
        bytes.iter_mut().take(1).for_each(|first| *first = 0x80 | u8::from(acknowledges) << 1 | u8::from(padded));
        // Most lengths are short: others would hardly ever fit.
        bytes.iter_mut().skip(DataHeader::LEN).filter(|_| plain).for_each(|byte| *byte &= 0x87);
        if let Ok((header, pieces)) = DataHeader::parse(&bytes) {
            let pieces: Vec<_> = pieces.map(|piece| piece.unwrap()).collect();
            let mut again = data(&pieces);
            again.splice(..DataHeader::LEN, { let mut first = Vec::new(); header.emit(&mut first); first });
            prop_assert!(!padded || again.len() < bytes.len());
            DataHeader::pad(&mut again, bytes.len());
            prop_assert_eq!(bytes, again);
        }
    }

    #[test]
    fn channels_read_back(
        codes in any::<[u8; 5]>(), numbers in any::<[u32; 3]>(), definition in any::<u64>(),
        name in "[a-z/]{1,64}", schema in "\\PC{1,16}", count in 0usize..6,
    ) {
        let channel = Declaration {
            direction: Direction::ALL[usize::from(codes[0]) % 2],
            kind: ChannelKind::ALL[usize::from(codes[1]) % 7],
            delivery: Delivery::ALL[usize::from(codes[2]) % 4],
            encoding: Encoding::ALL[usize::from(codes[3]) % 5],
            priority: codes[4] % 8,
            deadline_us: numbers[0],
            rate_mhz: numbers[1],
            largest: numbers[2],
            definition,
            name,
            schema,
        };
        let Body::Hello(hello) = golden()[8].1.clone() else { panic!("kind 9") };
        let law = (codes[0] % 2 == 0).then(law);
        let hello = Hello { channels: vec![channel; count], law, turns: codes[1] % 2 == 0, ..hello };
        let frame = Frame { session: 1, body: Body::Hello(hello) };
        prop_assert_eq!(Frame::parse(&emitted(&frame)), Ok(frame));
    }

    #[test]
    fn garbage_is_refused_or_read_back_the_same(
        kind in 0u8..21,
        mut bytes in prop::collection::vec(any::<u8>(), HEADER_LEN..MAX_LEN + 4),
        small in prop::bool::weighted(0.7),
    ) {
        bytes[..4].copy_from_slice(&[b't', b's', VERSION, kind]);
        if let Some(len) = length_of(kind).filter(|_| small) {
            bytes.resize(len, 0);
            // Codes and reserved bytes are small or zero: random ones would hardly ever parse.
            bytes.iter_mut().skip(HEADER_LEN).filter(|byte| **byte > 40).for_each(|byte| *byte = 0);
        }
        if let Ok(frame) = Frame::parse(&bytes) {
            prop_assert_eq!(frame.len(), bytes.len());
            prop_assert_eq!(emitted(&frame), bytes);
        }
    }

    #[test]
    fn every_state_reads_back(
        numbers in any::<[u32; 2]>(), waited in any::<u16>(), priority in 0u8..3, stream in 0u8..4,
        locked in any::<bool>(), enabling in any::<bool>(), gripper in any::<u16>(), floats in any::<[f32; 13]>(), applied in any::<u32>(),
        energy in any::<Option<f32>>(), turning in any::<Option<[f32; 7]>>(),
    ) {
        let state = State {
            sequence: u64::from(numbers[0]),
            created_ns: u64::from(numbers[1]) * 1_000,
            waited_us: u32::from(waited) * 16,
            deadline_us: 0,
            priority: Priority::from_code(priority).unwrap(),
            stream,
            locked,
            enabling,
            gripper,
            position: floats[..3].try_into().unwrap(),
            orientation_wxyz: floats[3..7].try_into().unwrap(),
            velocity: floats[7..10].try_into().unwrap(),
            force: floats[10..].try_into().unwrap(),
            energy: energy.map(f64::from),
            turning: turning.map(|turning| Turning {
                velocity: turning[..3].try_into().unwrap(),
                torque: turning[3..6].try_into().unwrap(),
            }),
            turning_energy: energy.and(turning).map_or(0.0, |turning| f64::from(turning[6])),
        };
        for body in [Body::State(state), Body::Feedback(Feedback { state, applied: applied.into(), ack: None })] {
            let frame = Frame { session: 1, body };
            prop_assert_eq!(Frame::parse(&emitted(&frame)), Ok(frame));
        }
    }
}

#[test]
fn a_hello_that_is_too_short_for_its_law_or_has_an_unknown_one_is_refused() {
    let whole = hex(&golden().into_iter().find(|(bytes, _)| bytes.starts_with("74 73 09")).expect("a law").0);
    for len in [HEADER_LEN, HELLO_LEN, HELLO_LEN + ControlLaw::LEN - 1, whole.len() - 1] {
        assert!(Frame::parse(&whole[..len]).is_err(), "{len}");
    }
    let mut unknown = whole.clone();
    unknown[HELLO_LEN] = 0;
    assert!(matches!(Frame::parse(&unknown), Err(Error::Value { value: 0, .. })));
    let mut flags = whole;
    flags[11] = 5;
    assert_eq!(Frame::parse(&flags), Err(Error::Value { at: 11, value: 5 }));
}
