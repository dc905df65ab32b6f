//! Frames as bytes, and bytes as frames.

use taut_core::{Duration, Time};
use taut_session::ChannelId;
use taut_session::motion::{self, Motion, Schema};

use super::{Button, ChannelInfo, DeviceInfo, DeviceLimits, Frame, FrameError, Role, VERSION};

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const CHANNEL: u8 = 2;
    pub(super) const LIMITS: u8 = 3;
    pub(super) const ENABLE: u8 = 4;
    pub(super) const APPLY: u8 = 5;
    pub(super) const DRIVE: u8 = 6;
    pub(super) const STOP: u8 = 7;
    pub(super) const MESSAGE: u8 = 8;
    pub(super) const TICK: u8 = 9;
    pub(super) const FEEL: u8 = 10;
    pub(super) const LOST: u8 = 11;
    pub(super) const RESUMED: u8 = 12;
    pub(super) const DEVICE: u8 = 65;
    pub(super) const MEASURED: u8 = 66;
    pub(super) const MOTION: u8 = 67;
    pub(super) const STOPPED: u8 = 68;
    pub(super) const SAMPLE: u8 = 69;
    pub(super) const BUTTON: u8 = 70;
}

mod flag {
    pub(super) const MORE: u8 = 1;
    pub(super) const TO_OPERATOR: u8 = 1;
    pub(super) const JSON: u8 = 2;
    pub(super) const LEASE: u8 = 1;
    pub(super) const LIMITS_FORCE: u8 = 2;
    pub(super) const REAL: u8 = 4;
    pub(super) const STIFFNESS: u8 = 8;
    pub(super) const BY_CHANNELS: u8 = 16;
    pub(super) const CONTROLLER_FORCE: u8 = 1;
}

/// Bytes that each frame begins with.
const HEADER: usize = 8;
/// No age is so long: it is not known.
const NO_AGE: u64 = u64::MAX;
/// Bytes of a joint's limits.
const JOINT: usize = 16;

/// What each frame begins with.
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    kind: u8,
    what: u8,
    channel: u8,
    flags: u8,
    number: u32,
}

impl Frame {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = self.header();
        let mut bytes = vec![header.kind, header.what, header.channel, header.flags];
        bytes.extend_from_slice(&header.number.to_le_bytes());
        match self {
            Self::Hello { .. } | Self::Enable | Self::Lost | Self::Resumed | Self::Button(_) => {}
            Self::Channel(info) => {
                bytes.extend_from_slice(&(info.joints.len() as u32).to_le_bytes());
                floats(info.joints.as_flattened(), &mut bytes);
                bytes.extend_from_slice(info.name.as_bytes());
            }
            Self::Limits(limits) => {
                let none = f32::NAN;
                floats(limits.position.unwrap_or([[none; 3]; 2]).as_flattened(), &mut bytes);
                floats(&[limits.velocity.unwrap_or(none), limits.force.unwrap_or(none)], &mut bytes);
            }
            Self::Apply { until, state } => {
                bytes.extend_from_slice(&until.as_nanos().to_le_bytes());
                emit_motion(&Motion::State(*state), &mut bytes);
            }
            Self::Drive { until, motion, .. } => {
                bytes.extend_from_slice(&until.as_nanos().to_le_bytes());
                emit_motion(motion, &mut bytes);
            }
            Self::Stop { cause: text, .. } | Self::Stopped { why: text, .. } => {
                bytes.extend_from_slice(text.as_bytes());
            }
            Self::Message { age, payload, .. } => {
                let age = age.map_or(NO_AGE, Duration::as_nanos);
                bytes.extend_from_slice(&age.to_le_bytes());
                bytes.extend_from_slice(payload);
            }
            Self::Tick { now } => bytes.extend_from_slice(&now.as_nanos().to_le_bytes()),
            Self::Feel(state) | Self::Sample(state) => emit_motion(&Motion::State(*state), &mut bytes),
            Self::Device(info) => {
                floats(&[info.stiffness.unwrap_or(0.0)], &mut bytes);
                bytes.extend_from_slice(info.name.as_bytes());
            }
            Self::Measured { state, controller_force } => {
                floats(&controller_force.unwrap_or_default(), &mut bytes);
                emit_motion(&Motion::State(*state), &mut bytes);
            }
            Self::Motion { motion, .. } => emit_motion(motion, &mut bytes),
        }
        bytes
    }

    fn header(&self) -> Header {
        let of = |kind| Header { kind, ..Header::default() };
        match self {
            Self::Hello { role, channels } => {
                let what = if *role == Role::Robot { 1 } else { 2 };
                Header { what, channel: *channels, number: VERSION, ..of(kind::HELLO) }
            }
            Self::Channel(info) => Header {
                what: info.motion.map_or(0, number_of),
                channel: info.channel.0,
                flags: flags(&[(flag::TO_OPERATOR, info.to_operator), (flag::JSON, info.is_json)]),
                number: info.largest,
                ..of(kind::CHANNEL)
            },
            Self::Limits(_) => of(kind::LIMITS),
            Self::Enable => of(kind::ENABLE),
            Self::Apply { .. } => of(kind::APPLY),
            Self::Drive { channel, motion, .. } => {
                Header { what: number_of(motion.schema()), channel: channel.0, ..of(kind::DRIVE) }
            }
            Self::Stop { number, .. } => Header { number: *number, ..of(kind::STOP) },
            Self::Message { channel, more, .. } => {
                Header { channel: channel.0, flags: flags(&[(flag::MORE, *more)]), ..of(kind::MESSAGE) }
            }
            Self::Tick { .. } => of(kind::TICK),
            Self::Feel(_) => of(kind::FEEL),
            Self::Lost => of(kind::LOST),
            Self::Resumed => of(kind::RESUMED),
            Self::Device(info) => {
                let flags = flags(&[
                    (flag::LEASE, info.lease),
                    (flag::LIMITS_FORCE, info.limits_force),
                    (flag::BY_CHANNELS, info.by_channels),
                    (flag::REAL, info.real),
                    (flag::STIFFNESS, info.stiffness.is_some()),
                ]);
                Header { flags, number: VERSION, ..of(kind::DEVICE) }
            }
            Self::Measured { controller_force, .. } => {
                let flags = flags(&[(flag::CONTROLLER_FORCE, controller_force.is_some())]);
                Header { flags, ..of(kind::MEASURED) }
            }
            Self::Motion { channel, motion } => {
                Header { what: number_of(motion.schema()), channel: channel.0, ..of(kind::MOTION) }
            }
            Self::Stopped { number, .. } => Header { number: *number, ..of(kind::STOPPED) },
            Self::Sample(_) => of(kind::SAMPLE),
            Self::Button(button) => Header { what: *button as u8 + 1, ..of(kind::BUTTON) },
        }
    }

    /// Reads a frame: all of `bytes`.
    ///
    /// # Errors
    /// When they are not exactly a frame, or a number in it is not finite.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrameError> {
        let (first, rest) = split::<HEADER>(bytes)?;
        let [kind, what, channel, flags, ..] = *first;
        let header = Header {
            kind,
            what,
            channel,
            flags,
            number: u32::from_le_bytes([first[4], first[5], first[6], first[7]]),
        };
        let frame = header.frame(rest)?;
        // There is one form of each: what is not looked at above is zero.
        if frame.to_bytes() == bytes { Ok(frame) } else { Err(FrameError::Unused(kind)) }
    }
}

impl Header {
    fn frame(self, rest: &[u8]) -> Result<Frame, FrameError> {
        let channel = ChannelId(self.channel);
        Ok(match self.kind {
            kind::HELLO => {
                let role = self.one_of(&[Role::Robot, Role::Input])?;
                Frame::Hello { role: self.of_version(role)?, channels: self.channel }
            }
            kind::CHANNEL => Frame::Channel(self.channel_info(rest)?),
            kind::LIMITS => Frame::Limits(parse_limits(rest)?),
            kind::ENABLE => Frame::Enable,
            kind::APPLY => {
                let (until, rest) = parse_time(rest)?;
                Frame::Apply { until, state: parse_state(rest)? }
            }
            kind::DRIVE => {
                let (until, rest) = parse_time(rest)?;
                Frame::Drive { channel, until, motion: parse_motion(self.schema()?, rest)? }
            }
            kind::STOP => Frame::Stop { number: self.number, cause: parse_text(rest)? },
            kind::MESSAGE => {
                let (age, payload) = split::<8>(rest)?;
                let age =
                    Some(u64::from_le_bytes(*age)).filter(|age| *age != NO_AGE).map(Duration::from_nanos);
                Frame::Message { channel, age, more: self.has(flag::MORE), payload: payload.to_vec() }
            }
            kind::TICK => Frame::Tick { now: parse_time(rest)?.0 },
            kind::FEEL => Frame::Feel(parse_state(rest)?),
            kind::LOST => Frame::Lost,
            kind::RESUMED => Frame::Resumed,
            kind::DEVICE => {
                let (stiffness, name) = split::<4>(rest)?;
                let stiffness = finite(f32::from_le_bytes(*stiffness))?;
                let info = DeviceInfo {
                    lease: self.has(flag::LEASE),
                    limits_force: self.has(flag::LIMITS_FORCE),
                    by_channels: self.has(flag::BY_CHANNELS),
                    real: self.has(flag::REAL),
                    stiffness: self.has(flag::STIFFNESS).then_some(stiffness),
                    name: parse_text(name)?,
                };
                Frame::Device(self.of_version(info)?)
            }
            kind::MEASURED => {
                let (force, rest) = split::<12>(rest)?;
                let force = parse_floats(force);
                force.iter().try_for_each(|part| finite(*part).map(drop))?;
                let controller_force = self.has(flag::CONTROLLER_FORCE).then_some(force);
                Frame::Measured { state: parse_state(rest)?, controller_force }
            }
            kind::MOTION => Frame::Motion { channel, motion: parse_motion(self.schema()?, rest)? },
            kind::STOPPED => Frame::Stopped { number: self.number, why: parse_text(rest)? },
            kind::SAMPLE => Frame::Sample(parse_state(rest)?),
            kind::BUTTON => Frame::Button(self.one_of(&[Button::Stop, Button::Reset, Button::Resume])?),
            value => return Err(FrameError::Value { at: 0, value }),
        })
    }

    fn channel_info(self, rest: &[u8]) -> Result<ChannelInfo, FrameError> {
        let (joints, rest) = split::<4>(rest)?;
        let needed = (u32::from_le_bytes(*joints) as usize).saturating_mul(JOINT);
        let (limits, name) = rest
            .split_at_checked(needed)
            .ok_or(FrameError::Length { needed: HEADER + 4 + needed, found: HEADER + 4 + rest.len() })?;
        let (limits, _) = limits.as_chunks::<JOINT>();
        Ok(ChannelInfo {
            channel: ChannelId(self.channel),
            motion: if self.what == 0 { None } else { Some(self.schema()?) },
            to_operator: self.has(flag::TO_OPERATOR),
            is_json: self.has(flag::JSON),
            largest: self.number,
            joints: limits.iter().map(|joint| parse_floats(joint)).collect(),
            name: parse_text(name)?,
        })
    }

    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn schema(self) -> Result<Schema, FrameError> {
        self.one_of(&Schema::ALL)
    }

    /// Counted from 1.
    fn one_of<T: Copy>(self, all: &[T]) -> Result<T, FrameError> {
        let place = usize::from(self.what).checked_sub(1);
        place.and_then(|place| all.get(place).copied()).ok_or(FrameError::Value { at: 1, value: self.what })
    }

    fn of_version<T>(self, told: T) -> Result<T, FrameError> {
        if self.number == VERSION { Ok(told) } else { Err(FrameError::Version(self.number)) }
    }
}

fn number_of(schema: Schema) -> u8 {
    let place = Schema::ALL.iter().position(|known| *known == schema);
    place.map_or(0, |place| place as u8 + 1)
}

fn flags(all: &[(u8, bool)]) -> u8 {
    all.iter().filter(|(_, is_set)| *is_set).fold(0, |flags, (flag, _)| flags | flag)
}

fn floats(numbers: &[f32], bytes: &mut Vec<u8>) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn parse_floats<const N: usize>(bytes: &[u8]) -> [f32; N] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|at| words.get(at).map_or(0.0, |word| f32::from_le_bytes(*word)))
}

fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), FrameError> {
    bytes.split_first_chunk().ok_or(FrameError::Length { needed: N, found: bytes.len() })
}

fn finite(number: f32) -> Result<f32, FrameError> {
    if number.is_finite() { Ok(number) } else { Err(FrameError::NotFinite) }
}

fn parse_time(bytes: &[u8]) -> Result<(Time, &[u8]), FrameError> {
    let (time, rest) = split::<8>(bytes)?;
    Ok((Time::from_nanos(u64::from_le_bytes(*time)), rest))
}

fn parse_text(bytes: &[u8]) -> Result<String, FrameError> {
    Ok(std::str::from_utf8(bytes).map_err(|_| FrameError::Text)?.to_owned())
}

fn parse_limits(rest: &[u8]) -> Result<DeviceLimits, FrameError> {
    let (bytes, _) = split::<32>(rest)?;
    let [a, b, c, d, e, f, velocity, force] = parse_floats(bytes);
    let set = |limit: f32| (!limit.is_nan()).then_some(limit);
    let position = [a, b, c, d, e, f].iter().all(|part| !part.is_nan()).then_some([[a, b, c], [d, e, f]]);
    Ok(DeviceLimits { position, velocity: set(velocity), force: set(force) })
}

/// Turns the order of the bytes of a schema's payload: of its numbers of 32 bits, and of a state's gripper, which is of 16.
fn swap(schema: Schema, payload: &mut [u8]) {
    if schema == Schema::State
        && let Some(gripper) = payload.get_mut(2..4)
    {
        gripper.reverse();
    }
    payload
        .get_mut(4..)
        .into_iter()
        .flat_map(|numbers| numbers.chunks_exact_mut(4))
        .for_each(<[u8]>::reverse);
}

fn emit_motion(motion: &Motion, bytes: &mut Vec<u8>) {
    let from = bytes.len();
    motion.emit(bytes);
    swap(motion.schema(), &mut bytes[from..]);
}

fn parse_motion(schema: Schema, bytes: &[u8]) -> Result<Motion, FrameError> {
    let mut payload = bytes.to_vec();
    swap(schema, &mut payload);
    let motion = Motion::parse(schema, &payload)?;
    if motion.is_finite() { Ok(motion) } else { Err(FrameError::NotFinite) }
}

fn parse_state(bytes: &[u8]) -> Result<motion::State, FrameError> {
    match parse_motion(Schema::State, bytes)? {
        Motion::State(state) => Ok(state),
        _ => unreachable!("the schema is that of a state"),
    }
}
