//! The bytes between page and gateway, numbers big-endian: one message of a WebSocket or datagram each; on a stream of WebTransport each stands behind
//! its length (u32).
//!
//! | first byte, from the page | then |
//! | --- | --- |
//! | 1 input | flags (u8: bit 0 something is held, bit 1 axes of the hand), two bytes 0, then f32: m/s along x, y, z, rad/s about x, y, z, 1/s of the gripper; when that was so, ms by the gateway's clock (f64) |
//! | 2 button | u8: 0 stop, 1 reset, 2 resume, 3 take control; f64, ms by the gateway's clock: when it was pressed; of a stop any number, which comes back |
//! | 3 taken | number of the picture channel (u8): a picture was decoded or dropped, the next may come |
//! | 4 ask | number of the picture channel (u8), then what goes to the encoder |
//! | 6 choose | number of the offer (u8), and of what is chosen of it (u8) |
//! | 7 way | pictures that are under way there and back meanwhile (u8): so many more may come before one is taken |
//! | 5 ping | 8 bytes, which come back |
//! | 8 play | u8: 1 the page plays sound, 0 it does not: it comes only to those that do |
//!
//! | first byte, to the page | then |
//! | --- | --- |
//! | 1 event | a line of JSON |
//! | 2 states | records of [`STATE`] bytes: seconds (f64), position in m (3 f32), force in N (3 f32) |
//! | 3 picture | number of the picture channel (u8), two bytes 0, when it was made, ms by the gateway's clock (f64; no number: not known), then the payload |
//! | 4 sound | three bytes 0, when its first sample was heard, ms by the gateway's clock (f64; no number: it was made up), then samples of 48 kHz (i16) |
//! | 6 joints | three bytes 0, when they were there as of a picture, then where each was, rad or m (f32) |
//! | 5 pong | eight bytes that the ping had, then the gateway's clock, ms (f64) |
//! | 7 stop taken | eight bytes that the stop had: it goes to the robot |
//!
//! A page knows the gateway's clock by pongs: what that said is at least as old when it gets there. So what a page says of a time is never later
//! than it was, however long the way or the page itself takes.

use std::sync::Arc;

use serde_json::Value;
use taut_agent::Rate;
use taut_core::Time;
use taut_session::State;
use taut_session::motion::MAX_JOINTS;

/// Bytes of a record of states.
pub const STATE: usize = 32;
/// Bytes of a page's message at most.
pub const LONGEST: usize = 64;
/// Bytes of what a robot tells of its joints at most: it is read on the session's thread.
pub const LONGEST_JOINTS: usize = 4_096;
const INPUT: usize = 40;

/// What a page says.
#[derive(Clone, Debug, PartialEq)]
pub enum FromPage {
    /// This was held, or nothing, at that time by the gateway's clock.
    Input(Time, Option<Rate>),
    /// Stop the robot; this is to be sent back.
    Stop([u8; 8]),
    /// Let go of the stop.
    Reset(Time),
    /// Let the robot move.
    Resume(Time),
    /// This page wants to be the one in control.
    TakeControl,
    /// The next picture of this channel may come.
    Taken(u8),
    /// To the encoder of this channel.
    Ask(u8, Vec<u8>),
    /// Of this offer, this one.
    Choose(u8, u8),
    /// So many pictures are under way meanwhile.
    Way(u8),
    /// It plays sound, or does not.
    Play(bool),
    /// To be sent back.
    Ping([u8; 8]),
}

impl FromPage {
    /// What a message says; `None`: nothing that there is.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let (kind, rest) = message.split_first()?;
        Some(match (kind, rest) {
            (1, [flags @ 0..=3, 0, 0, ..]) if message.len() == INPUT => {
                let number = |place: usize| {
                    let at = 4 + 4 * place;
                    f32::from_be_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]])
                };
                let rate = Rate {
                    linear: std::array::from_fn(number),
                    angular: std::array::from_fn(|axis| number(3 + axis)),
                    gripper: number(6),
                    in_hand: flags & 2 != 0,
                };
                let made = f64::from_be_bytes(rest[INPUT - 9..].try_into().ok()?);
                if !(0..7).all(|place| number(place).is_finite()) || !made.is_finite() {
                    return None;
                }
                Self::Input(time(made), (flags & 1 != 0).then_some(rate))
            }
            (2, [button, made @ ..]) => {
                let bytes = made.try_into().ok()?;
                let made = f64::from_be_bytes(bytes);
                let made = time(made.is_finite().then_some(made)?);
                match button {
                    0 => Self::Stop(bytes),
                    1 => Self::Reset(made),
                    2 => Self::Resume(made),
                    3 => Self::TakeControl,
                    _ => return None,
                }
            }
            (3, [channel]) => Self::Taken(*channel),
            (4, [channel, ask @ ..]) if ask.len() <= LONGEST => Self::Ask(*channel, ask.to_vec()),
            (6, [offer, place]) => Self::Choose(*offer, *place),
            (7, [pictures]) => Self::Way(*pictures),
            (8, [plays @ 0..=1]) => Self::Play(*plays == 1),
            (5, bytes) => Self::Ping(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

/// An event, a line of JSON.
pub fn event(line: &str) -> Arc<[u8]> {
    [&[1], line.as_bytes()].concat().into()
}

/// What the robot felt and where it was at `now`, as a record of states.
pub fn state(now: Time, state: &State) -> [u8; STATE] {
    let mut record = [0; STATE];
    record[..8].copy_from_slice(&now.as_secs_f64().to_be_bytes());
    for (place, value) in state.position.iter().chain(&state.force).enumerate() {
        record[8 + 4 * place..12 + 4 * place].copy_from_slice(&value.to_be_bytes());
    }
    record
}

/// A picture that was made then.
pub fn picture(channel: u8, made: Option<Time>, payload: &[u8]) -> Arc<[u8]> {
    let made = made.map_or(f64::NAN, millis);
    [&[3, channel, 0, 0], &made.to_be_bytes()[..], payload].concat().into()
}

/// Sound that was heard from then on; `None`: made up.
pub fn sound(heard: Option<Time>, samples: &[i16]) -> Arc<[u8]> {
    let heard = heard.map_or(f64::NAN, millis).to_be_bytes();
    [4, 0, 0, 0]
        .into_iter()
        .chain(heard)
        .chain(samples.iter().flat_map(|sample| sample.to_be_bytes()))
        .collect()
}

/// Where joints were at that time that a message of the robot tells; `None`: it tells none, or too many.
pub fn joints(made: Option<Time>, payload: &[u8]) -> Option<Arc<[u8]>> {
    if payload.len() > LONGEST_JOINTS {
        return None;
    }
    let told: Value = serde_json::from_slice(payload).ok()?;
    let told = told["position_rad"].as_array().filter(|told| told.len() <= MAX_JOINTS)?;
    let mut message = vec![6, 0, 0, 0];
    message.extend(made.map_or(f64::NAN, millis).to_be_bytes());
    for angle in told {
        let angle = angle.as_f64().map(|angle| angle as f32).filter(|angle| angle.is_finite())?;
        message.extend(angle.to_be_bytes());
    }
    Some(message.into())
}

/// A message to a page, for whoever carries it.
#[cfg(feature = "webtransport")]
pub(crate) enum Kind {
    /// It has to get there: an event, a pong, what became of a stop.
    Told,
    States,
    /// Of the channel at that place.
    Picture(u8),
    /// What is late is worth nothing.
    Sound,
    /// The same.
    Joints,
}

#[cfg(feature = "webtransport")]
impl Kind {
    pub(crate) fn of(message: &[u8]) -> Self {
        match message {
            [2, ..] => Self::States,
            [3, channel, ..] => Self::Picture(*channel),
            [4, ..] => Self::Sound,
            [6, ..] => Self::Joints,
            _ => Self::Told,
        }
    }
}

/// The answer to a ping.
pub fn pong(bytes: &[u8; 8], now: Time) -> Arc<[u8]> {
    [&[5], &bytes[..], &millis(now).to_be_bytes()[..]].concat().into()
}

/// The answer to a stop.
pub fn stop_taken(bytes: &[u8; 8]) -> Arc<[u8]> {
    [&[7], &bytes[..]].concat().into()
}

fn millis(time: Time) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Of what is before the clock's beginning, that.
fn time(millis: f64) -> Time {
    Time::from_nanos((millis * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use taut_core::Duration;

    use super::*;

    fn input(flags: u8, numbers: [f32; 7]) -> Vec<u8> {
        let mut bytes = vec![1, flags, 0, 0];
        numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes.extend(1_500.0_f64.to_be_bytes());
        bytes
    }

    #[test]
    fn an_input_is_what_its_bytes_say_and_one_that_is_no_number_is_none() {
        let numbers = [0.1, -0.2, 0.3, 0.4, 0.5, 0.6, -1.0];
        let rate = Rate { linear: [0.1, -0.2, 0.3], angular: [0.4, 0.5, 0.6], gripper: -1.0, in_hand: true };
        let made = Time::ZERO + Duration::from_millis(1_500);
        assert_eq!(FromPage::parse(&input(3, numbers)), Some(FromPage::Input(made, Some(rate))));
        assert_eq!(FromPage::parse(&input(0, numbers)), Some(FromPage::Input(made, None)));
        for (never, is_said) in [(f64::NAN, false), (f64::INFINITY, false), (-1e300, true), (1e300, true)] {
            let mut bytes = input(0, numbers);
            bytes.truncate(INPUT - 8);
            bytes.extend(never.to_be_bytes());
            assert_eq!(FromPage::parse(&bytes).is_some(), is_said);
        }
        for wrong in [f32::NAN, f32::INFINITY] {
            assert_eq!(FromPage::parse(&input(1, [0.0, wrong, 0.0, 0.0, 0.0, 0.0, 0.0])), None);
        }
        let whole = input(1, numbers);
        assert!((0..whole.len()).all(|length| FromPage::parse(&whole[..length]).is_none()));
        assert_eq!(FromPage::parse(&input(4, numbers)), None);
    }

    #[test]
    fn joints_are_what_the_robot_says_unless_one_of_them_is_no_number_or_there_are_too_many() {
        let angles =
            |count: usize| format!(r#"{{"position_rad":[{}],"lamp":1}}"#, vec!["-0.5"; count].join(","));
        let joints = |told: &[u8]| joints(Some(Time::ZERO + Duration::from_millis(1_500)), told);
        let one = [&[6, 0, 0, 0][..], &1_500f64.to_be_bytes(), &[0xbf, 0, 0, 0]].concat();
        assert_eq!(joints(angles(1).as_bytes()).as_deref(), Some(&one[..]));
        assert_eq!(joints(angles(MAX_JOINTS).as_bytes()).map(|told| told.len()), Some(12 + 4 * MAX_JOINTS));
        assert_eq!(joints(angles(MAX_JOINTS + 1).as_bytes()), None);
        let long = format!("{}{}", angles(1), " ".repeat(LONGEST_JOINTS));
        for none in [r#"{"position_rad":[null]}"#, r#"{"position_rad":[1e99]}"#, "{}", "[", "", &long] {
            assert_eq!(joints(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn buttons_and_whatever_else_a_page_says_are_told_apart() {
        let button = |code, made: f64| [&[2, code][..], &made.to_be_bytes()].concat();
        let at = Time::ZERO + Duration::from_millis(1_500);
        assert_eq!(FromPage::parse(&button(0, 1_500.0)), Some(FromPage::Stop(1_500f64.to_be_bytes())));
        assert_eq!(FromPage::parse(&button(2, 1_500.0)), Some(FromPage::Resume(at)));
        assert_eq!(FromPage::parse(&button(2, f64::NAN)), None);
        assert_eq!(FromPage::parse(&button(4, 0.0)), None);
        assert_eq!(FromPage::parse(&[4, 1, 7, 8]), Some(FromPage::Ask(1, vec![7, 8])));
        assert_eq!(FromPage::parse(&[6, 1, 2]), Some(FromPage::Choose(1, 2)));
        assert_eq!(FromPage::parse(&[7, 2]), Some(FromPage::Way(2)));
        assert_eq!(FromPage::parse(&[5; 9]), Some(FromPage::Ping([5; 8])));
        assert_eq!(FromPage::parse(&[8, 1]), Some(FromPage::Play(true)));
        for none in [&[][..], &[2], &[2, 4], &[2, 0, 0], &[6, 1], &[9], &[5; 10], &[8, 2]] {
            assert_eq!(FromPage::parse(none), None);
        }
    }
}
