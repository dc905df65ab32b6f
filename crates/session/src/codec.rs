//! Which bytes a session is made of.

use taut_wire::omni71;
use taut_wire::session::{
    Ack, Answer, Body, Command, CommandAck, Error, Feedback, Frame, Priority, RobotState, Role, State,
    StopCause, Verdict,
};

/// The bytes of a session. Both ends must use the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"), schemars(rename = "SessionCodec"))]
pub enum Codec {
    /// taut's own frames: everything that a session can do.
    #[default]
    Native,
    /// The source's samples of 71 bytes and their acknowledgement, nothing else, for peers that know nothing else.
    ///
    /// An emergency stop is a sample of priority emergency that is locked; a resume is one that is not. Feedback is a
    /// sample that goes the other way. There is no hello, no session number, no status, no comparison of clocks: whoever
    /// the transport lets in is the operator; a state's age is judged by how much longer it took than the fastest of
    /// the last seconds; a resume names no stop.
    Omni71,
}

/// The sequence of a command sent as a sample has this bit, so that it is never taken for a motion's.
pub(crate) const OMNI71_COMMAND: u64 = 1 << 63;
/// Above this of 65535 a gripper is closed.
const CLOSED: u16 = 1 << 15;

/// Bytes that this codec cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Of another version of the session protocol.
    Version(Error),
    /// Nothing that it knows.
    Malformed,
}

impl Codec {
    /// ns to which an echoed time is exact.
    pub(crate) const fn resolution(self) -> u64 {
        match self {
            Self::Native => 1,
            Self::Omni71 => 1_000,
        }
    }

    /// Can this be said?
    pub(crate) const fn has(self, body: &Body) -> bool {
        match self {
            Self::Native => true,
            Self::Omni71 => matches!(
                body,
                Body::State(_)
                    | Body::Ack(_)
                    | Body::Feedback(_)
                    | Body::EmergencyStop(_)
                    | Body::EmergencyStopAck(_)
                    | Body::Resume(_)
                    | Body::ResumeAck(_)
                    | Body::Reset(_)
                    | Body::ResetAck(_)
            ),
        }
    }

    /// Appends the bytes of something that can be said.
    #[inline]
    pub(crate) fn emit(self, session: u32, body: &Body, buffer: &mut Vec<u8>) {
        match self {
            Self::Native => body.emit(session, buffer),
            Self::Omni71 => emit_omni71(body, buffer),
        }
    }

    /// Reads bytes that came to the end `role`. From `Omni71` every frame is of session `session`.
    pub(crate) fn parse(self, role: Role, session: u32, bytes: &[u8]) -> Result<Frame, Unreadable> {
        if self == Self::Native {
            return Frame::parse(bytes).map_err(|error| match error {
                Error::UnsupportedVersion { .. } => Unreadable::Version(error),
                _ => Unreadable::Malformed,
            });
        }
        let body = if bytes.len() == omni71::ACK_LEN {
            omni71::Ack::parse(bytes).map(|ack| acknowledgement(&ack))
        } else {
            omni71::Repr::parse(bytes).map(|sample| motion(role, &sample))
        };
        body.map(|body| Frame { session, body }).map_err(|_| Unreadable::Malformed)
    }
}

fn emit_omni71(body: &Body, buffer: &mut Vec<u8>) {
    let ack = |sequence: u64, echo_ns: u64| omni71::Ack { sequence, timestamp_us: echo_ns / 1_000 };
    match body {
        Body::State(state) | Body::Feedback(Feedback { state, .. }) => sample(state).emit(buffer),
        Body::EmergencyStop(command) => press(command, true).emit(buffer),
        // A reset is a resume of what is latched: which of the two it is, the robot's state says.
        Body::Resume(command) | Body::Reset(command) => press(command, false).emit(buffer),
        Body::Ack(answer) => ack(answer.sequence, answer.echo_ns).emit(buffer),
        Body::EmergencyStopAck(answer) | Body::ResumeAck(answer) | Body::ResetAck(answer) => {
            ack(answer.command, answer.echo_ns).emit(buffer);
        }
        _ => {}
    }
}

fn sample(state: &State) -> omni71::Repr {
    omni71::Repr {
        sequence: state.sequence,
        timestamp_us: state.created_ns / 1_000,
        position: state.position,
        orientation_wxyz: state.orientation_wxyz,
        velocity: state.velocity,
        force: state.force,
        locked: state.locked,
        close_gripper: state.gripper >= CLOSED,
        priority: state.priority,
    }
}

/// The orientation of a resume: none. No sample of a device has it.
const NOWHERE: [f32; 4] = [0.0; 4];

fn press(command: &Command, locked: bool) -> omni71::Repr {
    let at_rest = omni71::Repr::default();
    omni71::Repr {
        sequence: command.command,
        timestamp_us: command.sent_ns / 1_000,
        locked,
        priority: Priority::Emergency,
        orientation_wxyz: if locked { at_rest.orientation_wxyz } else { NOWHERE },
        ..at_rest
    }
}

/// Is it what `press` makes of a resume, and nothing that a device could have sent?
fn is_resume(sample: &omni71::Repr) -> bool {
    let command = Command { command: sample.sequence, epoch: 0, created_ns: 0, sent_ns: 0 };
    let resume = press(&command, false);
    sample.sequence & OMNI71_COMMAND != 0
        && *sample == omni71::Repr { timestamp_us: sample.timestamp_us, ..resume }
}

fn motion(role: Role, sample: &omni71::Repr) -> Body {
    let created_ns = sample.timestamp_us.saturating_mul(1_000);
    if role == Role::Robot && sample.priority == Priority::Emergency {
        let command = Command { command: sample.sequence, epoch: 0, created_ns, sent_ns: created_ns };
        return if is_resume(sample) { Body::Resume(command) } else { Body::EmergencyStop(command) };
    }
    let state = State {
        sequence: sample.sequence,
        created_ns,
        waited_us: 0,
        deadline_us: 0,
        priority: sample.priority,
        stream: sample.priority.code(),
        locked: sample.locked,
        enabling: false,
        gripper: if sample.close_gripper { u16::MAX } else { 0 },
        position: sample.position,
        orientation_wxyz: sample.orientation_wxyz,
        velocity: sample.velocity,
        force: sample.force,
        energy: None,
        turning: None,
        turning_energy: 0.0,
    };
    // Streams count the other way round: 0 is the emergency, 2 the first of the normal ones.
    let state = State { stream: 2 - state.stream, ..state };
    match role {
        Role::Robot => Body::State(state),
        Role::Operator => Body::Feedback(Feedback { state, applied: 0, ack: None }),
    }
}

/// What an acknowledgement does not say is filled in as for a robot that took the state and moves.
fn acknowledgement(ack: &omni71::Ack) -> Body {
    let echo_ns = ack.timestamp_us.saturating_mul(1_000);
    if ack.sequence & OMNI71_COMMAND != 0 {
        return Body::EmergencyStopAck(CommandAck {
            command: ack.sequence,
            echo_ns,
            received_ns: 0,
            epoch: 0,
            answer: Answer::Done,
            state: RobotState::Fault,
            cause: StopCause::Emergency,
            age_us: 0,
        });
    }
    Body::Ack(Ack {
        sequence: ack.sequence,
        echo_ns,
        received_ns: 0,
        held_us: 0,
        seen: 0,
        epoch: 0,
        verdict: Verdict::Taken,
        state: RobotState::Enabled,
        cause: StopCause::Start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_source_s_bytes() {
        let command = Command { command: OMNI71_COMMAND | 3, epoch: 0, created_ns: 5_000, sent_ns: 5_000 };
        for body in [Body::EmergencyStop(command), Body::Resume(command)] {
            let mut bytes = Vec::new();
            Codec::Omni71.emit(1, &body, &mut bytes);
            assert_eq!(bytes.len(), 71);
            assert_eq!(bytes[68], u8::from(matches!(body, Body::EmergencyStop(_))));
            assert_eq!(bytes[70], 2);
            assert_eq!(Codec::Omni71.parse(Role::Robot, 1, &bytes), Ok(Frame { session: 1, body }));
        }
    }

    #[test]
    fn an_urgent_sample_of_a_device_stops_whatever_else_it_says() {
        let at_rest = omni71::Repr { priority: Priority::Emergency, ..omni71::Repr::default() };
        let numbered = omni71::Repr { sequence: OMNI71_COMMAND | 1, ..at_rest };
        let nowhere = omni71::Repr { orientation_wxyz: NOWHERE, ..at_rest };
        let moving = omni71::Repr {
            velocity: [0.1, 0.0, 0.0],
            ..press(&Command { command: OMNI71_COMMAND | 1, epoch: 0, created_ns: 0, sent_ns: 0 }, false)
        };
        for sample in [at_rest, numbered, nowhere, moving] {
            for locked in [false, true] {
                let body = motion(Role::Robot, &omni71::Repr { locked, ..sample });
                assert!(matches!(body, Body::EmergencyStop(_)), "{sample:?}");
            }
        }
    }

    #[test]
    fn states_survive_both_codecs() {
        let state = State {
            sequence: 9,
            created_ns: 7_000,
            priority: Priority::High,
            stream: 1,
            gripper: u16::MAX,
            position: [1.0, 2.0, 3.0],
            ..State::default()
        };
        for codec in [Codec::Native, Codec::Omni71] {
            let mut bytes = Vec::new();
            codec.emit(4, &Body::State(state), &mut bytes);
            let frame = codec.parse(Role::Robot, 4, &bytes).unwrap();
            assert_eq!(frame, Frame { session: 4, body: Body::State(state) });
        }
    }

    #[test]
    fn an_old_peer_is_told_from_noise() {
        let version = Codec::Native.parse(Role::Robot, 1, b"ts\x02\x01");
        assert!(matches!(
            version,
            Err(Unreadable::Version(Error::UnsupportedVersion { theirs: 2, ours: 7 }))
        ));
        assert_eq!(Codec::Native.parse(Role::Robot, 1, b"noise"), Err(Unreadable::Malformed));
        assert_eq!(Codec::Omni71.parse(Role::Robot, 1, &[9; 71]), Err(Unreadable::Malformed));
    }
}
