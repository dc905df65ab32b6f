use proptest::prelude::*;

use super::*;

fn emitted(motion: &Motion) -> Vec<u8> {
    let mut bytes = Vec::new();
    motion.emit(&mut bytes);
    bytes
}

/// From hexadecimal digits; everything else separates.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn state() -> State {
    State {
        locked: true,
        enabling: false,
        gripper: 0xabcd,
        position: [0.125, -0.25, 0.5],
        orientation_wxyz: [0.0, 1.0, 0.0, -0.0],
        velocity: [1.0, -2.0, 3.0],
        force: [4.0, -5.0, 6.0],
        turning: None,
    }
}

fn golden() -> Vec<(&'static str, Motion)> {
    let turning = Turning { velocity: [0.5, 1.0, -1.0], torque: [2.0, -2.0, 0.125] };
    let joints = Joints::new(&[0.5, -1.0]).unwrap();
    let full = joints.clone().with_velocity(&[2.0, -2.0]).unwrap().with_effort(&[3.0, -0.25]).unwrap();
    let pushed = joints.clone().with_effort(&[3.0, -0.25]).unwrap();
    vec![
        (
            "01 00 ab cd  3e 00 00 00 be 80 00 00 3f 00 00 00  00 00 00 00 3f 80 00 00 00 00 00 00 80 00 00 00
             3f 80 00 00 c0 00 00 00 40 40 00 00  40 80 00 00 c0 a0 00 00 40 c0 00 00",
            Motion::State(state()),
        ),
        (
            "07 00 ab cd  3e 00 00 00 be 80 00 00 3f 00 00 00  00 00 00 00 3f 80 00 00 00 00 00 00 80 00 00 00
             3f 80 00 00 c0 00 00 00 40 40 00 00  40 80 00 00 c0 a0 00 00 40 c0 00 00
             3f 00 00 00 3f 80 00 00 bf 80 00 00  40 00 00 00 c0 00 00 00 3e 00 00 00",
            Motion::State(State { enabling: true, turning: Some(turning), ..state() }),
        ),
        ("00 02 00 00  3f 00 00 00 bf 80 00 00", Motion::Joints(joints)),
        (
            "0e 02 00 00  3f 00 00 00 bf 80 00 00  40 00 00 00 c0 00 00 00  40 40 00 00 be 80 00 00",
            Motion::Joints(Joints { enabling: true, ..full }),
        ),
        (
            "09 02 00 00  3f 00 00 00 bf 80 00 00  40 40 00 00 be 80 00 00",
            Motion::Joints(Joints { locked: true, ..pushed }),
        ),
        (
            "02 00 00 00  3f 80 00 00 c0 00 00 00 40 40 00 00  3f 00 00 00 00 00 00 00 bf 80 00 00",
            Motion::Twist(Twist {
                locked: false,
                enabling: true,
                linear: [1.0, -2.0, 3.0],
                angular: [0.5, 0.0, -1.0],
            }),
        ),
        (
            "03 00 00 00  3f 00 00 00  42 20 00 00",
            Motion::Gripper(Gripper { locked: true, enabling: true, position: 0.5, max_effort: 40.0 }),
        ),
    ]
}

#[test]
fn golden_bytes_are_read_and_written() {
    for (text, motion) in golden() {
        assert_eq!(emitted(&motion), hex(text), "{motion:?}");
        assert_eq!(Motion::parse(motion.schema(), &hex(text)), Ok(motion.clone()));
        assert_eq!(motion.len(), hex(text).len());
        assert!(motion.is_finite());
    }
}

#[test]
fn any_other_length_is_refused() {
    for (text, motion) in golden() {
        let bytes = [hex(text), vec![0; 4]].concat();
        for length in (0..=bytes.len()).filter(|length| *length != motion.len()) {
            assert!(Motion::parse(motion.schema(), &bytes[..length]).is_err(), "{length} of {motion:?}");
        }
    }
    assert_eq!(Twist::parse(&[]), Err(Error::Empty));
    assert_eq!(Twist::parse(&[0; 27]), Err(Error::Length { needed: 28, found: 27 }));
}

#[test]
fn reserved_bits_are_zero() {
    for (text, motion) in golden() {
        let bytes = hex(text);
        let own = match motion.schema() {
            Schema::State => 0b111,
            Schema::Joints => 0b1111,
            Schema::Twist | Schema::Gripper => 0b11,
        };
        for bit in (0..8).filter(|bit| own >> bit & 1 == 0) {
            let mut bytes = bytes.clone();
            bytes[0] |= 1 << bit;
            let error = Error::Value { at: 0, value: bytes[0] };
            assert_eq!(Motion::parse(motion.schema(), &bytes), Err(error));
        }
        let reserved = match motion.schema() {
            Schema::State => 1..2,
            Schema::Joints => 2..4,
            Schema::Twist | Schema::Gripper => 1..4,
        };
        for at in reserved {
            let mut bytes = bytes.clone();
            bytes[at] = 9;
            assert_eq!(Motion::parse(motion.schema(), &bytes), Err(Error::Value { at, value: 9 }));
        }
    }
}

#[test]
fn there_are_1_to_64_joints_and_as_many_velocities() {
    assert_eq!(Joints::new(&[]), Err(Error::Joints(0)));
    assert_eq!(Joints::new(&[0.0; 65]), Err(Error::Joints(65)));
    assert_eq!(Joints::parse(&[0, 0, 0, 0]), Err(Error::Joints(0)));
    assert_eq!(Joints::parse(&[0, 65, 0, 0]), Err(Error::Joints(65)));
    let most = Joints::new(&[0.0; 64]).unwrap();
    assert_eq!(most.clone().with_velocity(&[0.0; 63]), Err(Error::Joints(63)));
    assert_eq!(most.clone().with_effort(&[]), Err(Error::Joints(0)));
    let most = most.with_velocity(&[0.0; 64]).unwrap().with_effort(&[0.0; 64]).unwrap();
    assert_eq!(most.len(), MAX_LEN);
}

#[test]
fn schemas_are_found_by_their_names_alone() {
    for schema in Schema::ALL {
        assert_eq!(Schema::from_name(schema.name()), Some(schema));
    }
    assert_eq!(Schema::from_name("taut/state"), None);
    assert_eq!(Schema::from_name(""), None);
}

#[test]
fn one_number_that_is_none_is_enough() {
    for (_, motion) in golden() {
        let bytes = emitted(&motion);
        // Past the flags and what is counted, everything is a number of four bytes.
        for at in (4..bytes.len()).step_by(4) {
            for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut bytes = bytes.clone();
                bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
                let read = Motion::parse(motion.schema(), &bytes).unwrap();
                assert!(!read.is_finite(), "{number} at {at} of {motion:?}");
            }
        }
    }
}

proptest! {
    /// Every payload has exactly one form; nothing panics.
    #[test]
    fn what_is_read_is_written_the_same(
        schema in prop::sample::select(&Schema::ALL),
        flags in 0u8..16,
        count in 0u8..70,
        tail in prop::collection::vec(any::<u8>(), 0..900),
        cut in any::<bool>(),
    ) {
        let mut bytes = vec![flags, if schema == Schema::Joints { count } else { 0 }, 0, 0];
        bytes.extend(tail);
        if cut {
            let turning = if flags & 4 == 0 { 56 } else { 80 };
            let rows = 1 + usize::from(flags >> 2 & 1) + usize::from(flags >> 3 & 1);
            bytes.resize(match schema {
                Schema::State => turning,
                Schema::Joints => 4 + 4 * usize::from(count) * rows,
                Schema::Twist => 28,
                Schema::Gripper => 12,
            }, 0x40);
        }
        if let Ok(motion) = Motion::parse(schema, &bytes) {
            prop_assert_eq!(emitted(&motion), bytes.clone());
            prop_assert_eq!(motion.len(), bytes.len());
            prop_assert_eq!(motion.schema(), schema);
            prop_assert_eq!([motion.locked(), motion.enabling()], [flags & 1 != 0, flags & 2 != 0]);
        }
    }

    #[test]
    fn no_bytes_panic(schema in prop::sample::select(&Schema::ALL), bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(motion) = Motion::parse(schema, &bytes) {
            prop_assert_eq!(emitted(&motion), bytes);
        }
    }

    #[test]
    fn what_is_written_is_read_the_same(
        numbers in prop::collection::vec((-1e6f32..1e6, -1e6f32..1e6, -1e6f32..1e6), 1..=MAX_JOINTS),
        locked in any::<bool>(),
        enabling in any::<bool>(),
        has_velocity in any::<bool>(),
        has_effort in any::<bool>(),
    ) {
        let row = |of: fn(&(f32, f32, f32)) -> f32| numbers.iter().map(of).collect::<Vec<_>>();
        let mut joints = Joints { locked, enabling, ..Joints::new(&row(|n| n.0)).unwrap() };
        if has_velocity {
            joints = joints.with_velocity(&row(|n| n.1)).unwrap();
        }
        if has_effort {
            joints = joints.with_effort(&row(|n| n.2)).unwrap();
        }
        let (x, y, z) = numbers[0];
        let turning = has_effort.then_some(Turning { velocity: [x, y, z], torque: [z, x, y] });
        let state = State { locked, enabling, position: [y, z, x], force: [z, y, x], turning, ..state() };
        for motion in [
            Motion::Joints(joints),
            Motion::State(state),
            Motion::Twist(Twist { locked, enabling, linear: [x, y, z], angular: [z, x, y] }),
            Motion::Gripper(Gripper { locked, enabling, position: x, max_effort: y }),
        ] {
            let bytes = emitted(&motion);
            prop_assert_eq!(bytes.len(), motion.len());
            prop_assert_eq!(Motion::parse(motion.schema(), &bytes), Ok(motion));
        }
    }
}
