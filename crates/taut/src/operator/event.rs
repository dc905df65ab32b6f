//! What an operator is told.

use std::time::Duration;

use taut_agent::{EndedBy, Ending, OperatorNote, Trouble};
use taut_session::{Answer, ResumeError, RobotState, StopCause};

use crate::error::Error;
use crate::handle::Events;
use crate::port::Ports;
use crate::status::Board;
use crate::time::theirs;

/// What happens to an operator.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OperatorEvent {
    /// The robot answered. It does not move yet: resume.
    Connected {
        /// So long after the last motion that reached it was made it stops; zero: it did not say.
        watchdog: Duration,
        /// It moves only while the enabling input is held.
        hold_to_run: bool,
    },
    /// The robot's state changed.
    Robot {
        /// How it is.
        state: RobotState,
        /// Why it stopped last.
        cause: StopCause,
    },
    /// The robot moves from now on.
    Moving,
    /// The robot does not resume.
    ResumeRefused {
        /// Why, and what to do.
        why: String,
    },
    /// The latched stop is let go. The robot does not move by that: resume.
    WasReset,
    /// The robot does not let go of its latched stop.
    ResetRefused {
        /// Why, and what to do.
        why: String,
    },
    /// The emergency stop was acknowledged: the robot stands.
    StopAcknowledged {
        /// Since it was pressed.
        after: Duration,
        /// It is written down beside the robot, and survives a restart there.
        kept: bool,
    },
    /// The emergency stop was sent many times, and nobody answered. It goes on being sent. Use the one at the robot.
    StopUnanswered,
    /// The robot has said nothing for so long. If it hears as little, it stops.
    NoAnswer {
        /// So long.
        silence: Duration,
    },
    /// The robot answers again.
    AnswersAgain,
    /// The robot ended the session in order; [`Disconnected`](Self::Disconnected) follows.
    RobotLeft,
    /// The session is lost. For five seconds it is connected again.
    Disconnected,
    /// A channel stays closed: both ends have to declare it alike.
    ChannelClosed {
        /// Which.
        channel: String,
        /// What differs.
        why: String,
    },
    /// Write this where it survives the process. Only of a machine of your own loop, [with a record](crate::OperatorBuilder::record).
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
    Ended {
        /// Why; `None`: it was closed here.
        why: Option<Error>,
    },
}

/// What an operator's loop and its handle share.
pub(crate) struct Told {
    pub(crate) events: Events<OperatorEvent>,
    pub(crate) board: Board,
    pub(crate) ports: Ports,
    pub(crate) keeps: bool,
    /// The robot's address and the transport, for advice.
    pub(crate) there: (String, &'static str),
}

impl Told {
    pub(crate) fn new(ports: Ports, keeps: bool, there: (String, &'static str)) -> Self {
        Self { events: Events::new(), board: Board::default(), ports, keeps, there }
    }

    /// Passes on what concerns the user.
    pub(crate) fn note(&self, note: OperatorNote) {
        if let Some(event) = self.event(note) {
            self.events.queue.push(event);
        }
    }

    /// Only the first counts.
    pub(crate) fn end(&self, why: Option<Error>) {
        if self.events.queue.has_ended() {
            return;
        }
        self.ports.end();
        self.board.update(|status| status.connected = false);
        self.events.queue.push(OperatorEvent::Ended { why });
        self.events.queue.end();
    }

    /// Why it ended, with what to do.
    pub(crate) fn why(&self, ending: &Ending) -> Option<Error> {
        self.board.count(&ending.progress.status);
        match &ending.why {
            EndedBy::Goodbye => None,
            EndedBy::NotConnected(trouble) => Some(self.not_connected(trouble)),
            EndedBy::Lost(trouble) => Some(Error::Lost(trouble.to_string())),
        }
    }

    pub(crate) fn not_connected(&self, trouble: &Trouble) -> Error {
        let (there, transport) = &self.there;
        let same =
            format!("listen there with transport `{transport}`, and trust this operator's fingerprint?");
        Error::NotConnected(match trouble {
            Trouble::NoAnswer => {
                format!("no answer from {there} within 5 s: does the robot that is trusted here run, {same}")
            }
            Trouble::Unreachable => {
                format!("nobody listens at {there}: start the robot first, with transport `{transport}`")
            }
            Trouble::Busy => {
                format!("the robot at {there} has another operator: try again when that one has gone")
            }
            Trouble::NotTrusted => {
                format!(
                    "the robot at {there} does not trust this operator: give it this end's fingerprint by `trust`"
                )
            }
            Trouble::WrongPeer => {
                format!(
                    "who answers at {there} is not the robot that is trusted here: compare its fingerprint"
                )
            }
            Trouble::SentAway => {
                format!("the robot at {there} sent us away: does it {same}")
            }
            Trouble::Ended(why) => format!("no session with {there}: {why}"),
        })
    }

    fn event(&self, note: OperatorNote) -> Option<OperatorEvent> {
        Some(match note {
            OperatorNote::Event(event) => return self.of_session(event),
            OperatorNote::NoAnswer { silence } => OperatorEvent::NoAnswer { silence: theirs(silence) },
            OperatorNote::AnswersAgain { .. } => OperatorEvent::AnswersAgain,
            OperatorNote::Progress(progress) => {
                self.board.count(&progress.status);
                return None;
            }
            OperatorNote::NotResumed(error) => OperatorEvent::ResumeRefused { why: what_helps(error) },
            OperatorNote::NotReset(error) => OperatorEvent::ResetRefused { why: what_helps(error) },
            OperatorNote::Keep { number, life } if self.keeps => {
                OperatorEvent::Keep { number, record: life.to_string() }
            }
            OperatorNote::Ended(ending) => {
                self.end(self.why(&ending));
                return None;
            }
            OperatorNote::Keep { .. } | OperatorNote::Reconnect | OperatorNote::Done => return None,
        })
    }

    fn of_session(&self, event: taut_session::OperatorEvent) -> Option<OperatorEvent> {
        use taut_session::OperatorEvent as Session;
        Some(match event {
            Session::Connected { watchdog, hold_to_run, .. } => {
                self.board.update(|status| status.connected = true);
                OperatorEvent::Connected { watchdog: theirs(watchdog), hold_to_run }
            }
            Session::Robot { state, cause } => {
                self.board.update(|status| (status.state, status.cause) = (state, cause));
                OperatorEvent::Robot { state, cause }
            }
            Session::Resumed => OperatorEvent::Moving,
            Session::ResumeRefused { answer, age } => {
                OperatorEvent::ResumeRefused { why: refused(answer, age) }
            }
            Session::WasReset => OperatorEvent::WasReset,
            Session::ResetRefused { answer } => {
                OperatorEvent::ResetRefused { why: refused(answer, taut_core::Duration::ZERO) }
            }
            Session::EmergencyStopped { after, kept } => {
                OperatorEvent::StopAcknowledged { after: theirs(after), kept }
            }
            Session::EmergencyStopUnanswered => OperatorEvent::StopUnanswered,
            Session::RobotLeft => OperatorEvent::RobotLeft,
            Session::Closed => {
                self.ports.disconnected();
                self.board.update(|status| status.connected = false);
                OperatorEvent::Disconnected
            }
            Session::Channel(event) => {
                let (channel, why) = self.ports.notice(&event, &[])?;
                OperatorEvent::ChannelClosed { channel, why }
            }
            _ => return None,
        })
    }
}

fn what_helps(error: ResumeError) -> String {
    match error {
        ResumeError::NotConnected => "there is no session: wait for `Connected`".to_owned(),
        other => other.to_string(),
    }
}

fn refused(answer: Option<Answer>, age: taut_core::Duration) -> String {
    match answer {
        None => "the robot did not answer: is the link up? Then ask again".to_owned(),
        Some(Answer::HeldLocally) => {
            "the emergency stop at the robot itself is pressed: only there it is let go".to_owned()
        }
        Some(Answer::Latched) => "an emergency stop is latched: `reset` first, then `resume`".to_owned(),
        Some(Answer::PathTooSlow) => {
            let needed = taut_session::patience(age);
            format!(
                "motion takes {age} to the robot, and is too old there: set its watchdog to {needed} or more"
            )
        }
        Some(Answer::ClockUnknown | Answer::TooLate | Answer::Superseded) => {
            "the robot stopped once more, or could not tell how old that was: ask again".to_owned()
        }
        Some(other) => other.name().to_owned(),
    }
}
