//! What a robot tells whoever runs it.

use std::time::Duration;

use taut_agent::{Refused, RobotNote};
use taut_session::{RobotState, StopCause};

use crate::handle::Events;
use crate::identity::Fingerprint;
use crate::port::Ports;
use crate::status::Board;
use crate::time::theirs;

/// What happens to a robot.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RobotEvent {
    /// An operator is there. Nothing moves yet.
    Connected,
    /// The operator resumed: motion follows.
    Moving,
    /// It stopped, and stays.
    Stopped {
        /// Why. After an emergency stop it is latched: the operator resets it first, or what was pressed here is
        /// [released](crate::Robot::release).
        cause: StopCause,
    },
    /// A latched stop was let go. Nothing moves by that.
    LetGo {
        /// By [`Robot::release`](crate::Robot::release); else by the operator.
        here: bool,
    },
    /// The operator has gone. The next one may come.
    Disconnected,
    /// A device does not do what it is told; it is stopped.
    DeviceFailed(String),
    /// A resume was refused, for motion takes so long to here that it would be too old: a [watchdog](crate::RobotBuilder::watchdog) of half
    /// as much again takes it.
    PathTooSlow {
        /// How long.
        age: Duration,
    },
    /// Somebody was refused, so many times since this was told last.
    Refused {
        /// How often.
        count: u64,
        /// From where the last one came.
        from: Option<std::net::SocketAddr>,
        /// Who showed a key: trust the fingerprint that is theirs, and they are let in.
        fingerprints: Vec<Fingerprint>,
    },
    /// An operator was refused with which no session can be: it is of another version, or one of both ends [turns](crate::RobotBuilder::turns) and the other does not.
    Incompatible {
        /// What differs, and what to do.
        why: String,
    },
    /// A channel stays closed: both ends have to declare it alike.
    ChannelClosed {
        /// Which.
        channel: String,
        /// What differs.
        why: String,
    },
    /// What is latched could not be written: it holds, and does not survive this process.
    StopNotKept,
    /// Write this where it survives the process, then call [`RobotMachine::kept`](crate::RobotMachine::kept). Only of a machine of your own
    /// loop, [with a record](crate::RobotBuilder::record).
    Keep {
        /// Counts up.
        number: u64,
        /// A short text.
        record: String,
    },
    /// The recording takes no more; the session goes on.
    RecordingEnded {
        /// Why.
        why: String,
    },
    /// It has ended: nothing more is to come.
    Ended,
}

/// What a robot's loop and its handle share.
pub(crate) struct Told {
    pub(crate) events: Events<RobotEvent>,
    pub(crate) board: Board,
    pub(crate) ports: Ports,
    /// Names of all channels by their numbers.
    pub(crate) names: Vec<String>,
}

impl Told {
    pub(crate) fn new(ports: Ports, names: Vec<String>) -> Self {
        Self { events: Events::new(), board: Board::default(), ports, names }
    }

    /// Passes on what concerns the user.
    pub(crate) fn note(&self, note: RobotNote) {
        if let Some(event) = self.event(note) {
            self.events.queue.push(event);
        }
    }

    /// Only the first counts.
    pub(crate) fn end(&self) {
        if self.events.queue.has_ended() {
            return;
        }
        self.ports.end();
        self.board.update(|status| status.connected = false);
        self.events.queue.push(RobotEvent::Ended);
        self.events.queue.end();
    }

    fn event(&self, note: RobotNote) -> Option<RobotEvent> {
        Some(match note {
            RobotNote::Event(event) => return self.of_session(event),
            RobotNote::Stopped { why, .. } => {
                self.board.update(|status| {
                    status.cause = why;
                    status.state = if why.is_emergency() { RobotState::Fault } else { RobotState::Paused };
                });
                RobotEvent::Stopped { cause: why }
            }
            RobotNote::DeviceFailed(failure) => RobotEvent::DeviceFailed(failure.to_string()),
            RobotNote::NotKept => RobotEvent::StopNotKept,
            RobotNote::Refused { count, who, .. } => refused(count, who.as_ref()),
            RobotNote::Progress(status) => {
                self.board.count(&status);
                return None;
            }
            RobotNote::Keep { number, life } => RobotEvent::Keep { number, record: life.to_string() },
            RobotNote::Device(_)
            | RobotNote::Bitrate(_)
            | RobotNote::NotSent { .. }
            | RobotNote::Reconnect
            | RobotNote::Ended => return None,
        })
    }

    fn of_session(&self, event: taut_session::RobotEvent) -> Option<RobotEvent> {
        use taut_session::RobotEvent as Session;
        Some(match event {
            Session::Connected { .. } => {
                self.board.update(|status| status.connected = true);
                RobotEvent::Connected
            }
            Session::Enabled { .. } => {
                self.board.update(|status| status.state = RobotState::Enabled);
                RobotEvent::Moving
            }
            Session::LetGo { here } => RobotEvent::LetGo { here },
            Session::Closed => {
                self.ports.disconnected();
                self.board.update(|status| status.connected = false);
                RobotEvent::Disconnected
            }
            Session::Incompatible(error) => RobotEvent::Incompatible { why: error.to_string() },
            Session::PathTooSlow { age } => RobotEvent::PathTooSlow { age: theirs(age) },
            Session::Channel(event) => {
                let (channel, why) = self.ports.notice(&event, &self.names)?;
                RobotEvent::ChannelClosed { channel, why }
            }
            _ => return None,
        })
    }
}

fn refused(count: u64, who: Option<&Refused>) -> RobotEvent {
    let fingerprints = who.and_then(|who| who.key).map(|key| key.fingerprints()).unwrap_or_default();
    RobotEvent::Refused { count, from: who.and_then(|who| who.address), fingerprints: fingerprints.to_vec() }
}
