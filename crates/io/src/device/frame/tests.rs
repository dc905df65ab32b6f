//! Golden bytes, and that whatever is written is read the same and nothing else is.

use proptest::prelude::*;
use taut_session::motion::{Gripper, Joints, Twist};

use super::*;

fn number() -> impl Strategy<Value = f32> {
    -1e6f32..1e6
}

fn state() -> impl Strategy<Value = motion::State> {
    let parts = (any::<bool>(), any::<bool>(), any::<u16>(), [number(), number(), number()], any::<bool>());
    parts.prop_map(|(locked, enabling, gripper, position, turns)| motion::State {
        locked,
        enabling,
        gripper,
        position,
        force: [position[2], 0.0, -1.0],
        turning: turns.then_some(motion::Turning { velocity: position, torque: [0.5; 3] }),
        ..motion::State::default()
    })
}

fn any_motion() -> impl Strategy<Value = Motion> {
    let joints = prop::collection::vec(number(), 1..=64);
    prop_oneof![
        state().prop_map(Motion::State),
        (joints, any::<bool>()).prop_map(|(joints, moves)| {
            let positions = Joints::new(&joints).unwrap();
            Motion::Joints(if moves { positions.with_velocity(&joints).unwrap() } else { positions })
        }),
        [number(), number(), number()].prop_map(|linear| Motion::Twist(Twist {
            linear,
            enabling: true,
            ..Twist::default()
        })),
        number().prop_map(|position| Motion::Gripper(Gripper { position, ..Gripper::default() })),
    ]
}

fn limits() -> impl Strategy<Value = DeviceLimits> {
    (prop::option::of(number()), prop::option::of(number())).prop_map(|(velocity, force)| DeviceLimits {
        position: velocity.map(|side| [[-side; 3], [side; 3]]),
        velocity,
        force,
    })
}

fn channel() -> impl Strategy<Value = Frame> {
    let joints = prop::collection::vec([number(), number(), number(), number()], 0..=64);
    let parts =
        (any::<u8>(), prop::option::of(0..4usize), any::<(bool, bool)>(), any::<u32>(), joints, ".{0,16}");
    parts.prop_map(|(channel, schema, (to_operator, is_json), largest, joints, name)| {
        Frame::Channel(ChannelInfo {
            channel: ChannelId(channel),
            motion: schema.map(|place| Schema::ALL[place]),
            to_operator,
            is_json,
            largest,
            joints,
            name,
        })
    })
}

fn info() -> impl Strategy<Value = Frame> {
    (any::<(bool, bool, bool, bool)>(), prop::option::of(number()), ".{0,20}").prop_map(
        |((lease, limits_force, real, by_channels), stiffness, name)| {
            Frame::Device(DeviceInfo { lease, limits_force, real, by_channels, stiffness, name })
        },
    )
}

fn frame() -> impl Strategy<Value = Frame> {
    let id = any::<u8>().prop_map(ChannelId);
    let time = any::<u64>().prop_map(Time::from_nanos);
    let age = prop::option::of((0..u64::MAX).prop_map(Duration::from_nanos));
    let payload = prop::collection::vec(any::<u8>(), 0..100);
    let role = prop_oneof![Just(Role::Robot), Just(Role::Input)];
    let button = prop_oneof![Just(Button::Stop), Just(Button::Reset), Just(Button::Resume)];
    prop_oneof![
        (role, any::<u8>()).prop_map(|(role, channels)| Frame::Hello { role, channels }),
        channel(),
        limits().prop_map(Frame::Limits),
        prop_oneof![
            Just(Frame::Enable),
            Just(Frame::Lost),
            Just(Frame::Resumed),
            button.prop_map(Frame::Button)
        ],
        (time.clone(), state()).prop_map(|(until, state)| Frame::Apply { until, state }),
        (id.clone(), time.clone(), any_motion()).prop_map(|(channel, until, motion)| Frame::Drive {
            channel,
            until,
            motion
        }),
        (any::<u32>(), ".{0,20}").prop_map(|(number, cause)| Frame::Stop { number, cause }),
        (id.clone(), age, any::<bool>(), payload).prop_map(|(channel, age, more, payload)| Frame::Message {
            channel,
            age,
            more,
            payload
        }),
        time.prop_map(|now| Frame::Tick { now }),
        prop_oneof![state().prop_map(Frame::Feel), state().prop_map(Frame::Sample)],
        info(),
        (state(), prop::option::of([number(), number(), number()]))
            .prop_map(|(state, controller_force)| Frame::Measured { state, controller_force }),
        (id, any_motion()).prop_map(|(channel, motion)| Frame::Motion { channel, motion }),
        (any::<u32>(), ".{0,20}").prop_map(|(number, why)| Frame::Stopped { number, why }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_the_same(frame in frame()) {
        prop_assert_eq!(Frame::parse(&frame.to_bytes()), Ok(frame));
    }

    #[test]
    fn whatever_bytes_come_are_an_error_or_exactly_one_frame(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        kind in 0..80u8,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Ok(frame) = Frame::parse(&bytes) {
            prop_assert_eq!(frame.to_bytes(), bytes);
        }
    }

    #[test]
    fn a_frame_that_lost_its_end_or_has_one_bit_more_is_never_taken_for_the_same(
        frame in frame(),
        keep in any::<prop::sample::Index>(),
        bit in any::<prop::sample::Index>(),
    ) {
        let bytes = frame.to_bytes();
        let cut = &bytes[..keep.index(bytes.len())];
        prop_assert_ne!(Frame::parse(cut).map(|frame| frame.to_bytes()), Ok(bytes.clone()));
        let mut flipped = bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert_ne!(Frame::parse(&flipped).map(|frame| frame.to_bytes()), Ok(bytes));
    }
}

#[test]
fn frames_have_the_bytes_that_the_page_says() {
    let state = motion::State { position: [1.0, 0.0, -2.0], gripper: 0x1234, ..motion::State::default() };
    let apply = Frame::Apply { until: Time::from_nanos(0x0102_0304_0506), state }.to_bytes();
    assert_eq!(apply.len(), 72);
    assert_eq!(apply[..16], [5, 0, 0, 0, 0, 0, 0, 0, 6, 5, 4, 3, 2, 1, 0, 0]);
    assert_eq!(apply[16..24], [0, 0, 0x34, 0x12, 0, 0, 0x80, 0x3f], "flags, 0, gripper, x = 1.0");
    assert_eq!(apply[32..36], 1.0f32.to_le_bytes(), "w of the orientation");

    let joints = Motion::Joints(Joints::new(&[0.5, -0.5]).unwrap());
    let drive = Frame::Drive { channel: ChannelId(3), until: Time::from_nanos(1), motion: joints }.to_bytes();
    assert_eq!(drive[..20], [6, 2, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0]);
    assert_eq!((drive.len(), &drive[20..24]), (28, &0.5f32.to_le_bytes()[..]));

    let hello = Frame::Hello { role: Role::Input, channels: 3 }.to_bytes();
    assert_eq!(hello, [1, 2, 3, 0, 1, 0, 0, 0]);
    let info = DeviceInfo { lease: true, real: true, name: "arm".to_owned(), ..DeviceInfo::default() };
    assert_eq!(Frame::Device(info).to_bytes(), *b"\x41\0\0\x05\x01\0\0\0\0\0\0\0arm");
    assert_eq!(Frame::Button(Button::Resume).to_bytes(), [70, 3, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Frame::Limits(DeviceLimits::default()).to_bytes().len(), 40);
}

#[test]
fn what_is_no_frame_is_told() {
    let sample = Frame::Sample(motion::State::default()).to_bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = sample.clone();
        bytes[at] = byte;
        Frame::parse(&bytes)
    };
    assert_eq!(with(0, 0), Err(FrameError::Value { at: 0, value: 0 }));
    assert_eq!(with(4, 1), Err(FrameError::Unused(69)));
    // The exponent of a position: infinite.
    let mut infinite = sample.clone();
    infinite[12..16].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert_eq!(Frame::parse(&infinite), Err(FrameError::NotFinite));
    assert!(matches!(Frame::parse(&sample[..30]), Err(FrameError::Motion(_))));
    let other = [65, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(Frame::parse(&other), Err(FrameError::Version(2)));
    assert_eq!(Frame::parse(b"\x44\0\0\0\0\0\0\0\xff"), Err(FrameError::Text));
}
