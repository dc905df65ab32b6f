//! What happens to a session, as JSON: what hosts print as JSON Lines and write into recordings (docs/json.md).

use serde_json::{Map, Value, json};
use taut_agent::control::PlayerCounts;
use taut_agent::{OperatorNote, Progress, Refused, RobotNote};
use taut_core::{Duration, Time};
use taut_session::{Answer, ChannelEvent, OperatorEvent, RobotEvent, Status, patience};

use crate::FloodNote;
use crate::session::PathNote;

/// Something that happened: its name, and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    event: &'static str,
    fields: Vec<(&'static str, Value)>,
}

impl Line {
    /// With these fields, in their order.
    pub fn new(event: &'static str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self { event, fields: fields.into_iter().collect() }
    }

    /// And one more, at its end.
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.fields.push((name, value));
        self
    }

    /// As text, without a line's end: `{"event":…,"t_s":…,…}`.
    pub fn at(self, at: Time) -> String {
        let mut line = Map::new();
        line.insert("event".to_owned(), self.event.into());
        line.insert("t_s".to_owned(), at.as_secs_f64().into());
        line.extend(self.fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(line).to_string()
    }
}

/// What a robot's session tells; `None`: it is for the host alone, or about a [channel](of_channel).
pub fn of_robot(note: &RobotNote) -> Option<Line> {
    let (event, fields) = robot(note)?;
    Some(Line { event, fields })
}

/// What an operator's session tells; `None`: it is for the host alone, or about a [channel](of_channel).
pub fn of_operator(note: &OperatorNote) -> Option<Line> {
    let (event, fields) = operator(note)?;
    Some(Line { event, fields })
}

/// A path that is there, or is not.
pub fn of_path(note: &PathNote) -> Line {
    let event = if note.missing.is_none() { "path_there" } else { "path_missing" };
    let line = Line::new(event, [("path", note.path.0.into()), ("at", note.spec.to_string().into())]);
    match &note.missing {
        Some(why) => line.with("why", why.to_string().into()),
        None => line,
    }
}

/// Strangers flood a socket, or do no more.
pub fn of_flood(note: &FloodNote) -> Line {
    let FloodNote { socket, change, peers, dropped } = note;
    let more = [("state", json!(change.name())), ("peers", json!(peers)), ("dropped", json!(dropped))];
    Line::new("flood", [("at", json!(socket.to_string()))].into_iter().chain(more))
}

/// That a channel of this name is open, or why not; `None`: it is about its messages.
pub fn of_channel(name: &str, event: &ChannelEvent) -> Option<Line> {
    let why = match event {
        ChannelEvent::Opened { .. } => None,
        ChannelEvent::Refused { why, .. } => Some(why.to_string()),
        _ => return None,
    };
    let open = why.is_none();
    Some(Line::new("channel", [("channel", json!(name)), ("open", json!(open)), ("why", json!(why))]))
}

/// Everything that a robot measured, at its end.
pub fn robot_summary(status: &Status) -> Line {
    Line::new("summary", [("status", json!(status))])
}

/// Everything that an operator measured, at its end.
pub fn operator_summary(progress: &Progress) -> Line {
    Line::new("summary", of_progress(progress))
}

/// The fingerprints of who was refused: only one of them is theirs.
pub fn identities(who: Option<&Refused>) -> Vec<String> {
    let keys = who.and_then(|who| who.key).map(|key| key.fingerprints()).unwrap_or_default();
    keys.iter().map(ToString::to_string).collect()
}

type Told = (&'static str, Vec<(&'static str, Value)>);

/// How long a control law holds states, and what became of them.
fn law_played((held, counts): (Duration, PlayerCounts)) -> Value {
    let PlayerCounts { played, late, superseded, duplicate, expired, overflow, cleared } = counts;
    json!({
        "held_ms": held.as_millis_f64(), "played": played, "late": late, "superseded": superseded,
        "duplicate": duplicate, "expired": expired, "overflow": overflow, "cleared": cleared,
    })
}

fn robot(note: &RobotNote) -> Option<Told> {
    Some(match note {
        RobotNote::Bitrate(_)
        | RobotNote::NotSent { .. }
        | RobotNote::Keep { .. }
        | RobotNote::Reconnect
        | RobotNote::Ended => return None,
        RobotNote::Progress(status) => ("status", vec![("status", json!(status))]),
        RobotNote::NotKept => ("not_kept", Vec::new()),
        RobotNote::DeviceFailed(failure) => ("device_failed", vec![("why", json!(failure.to_string()))]),
        RobotNote::Device(report) => {
            let more = vec![
                ("speed_mps", json!(report.speed)),
                ("speed_max_mps", json!(report.speed_max)),
                ("controller_force_n", json!(report.controller_force)),
                ("controller_force_max_n", json!(report.controller_force_max)),
                ("not_applied", json!(report.not_applied)),
                ("law_limited", json!(report.law_limited)),
                ("law_refused", json!(report.law_refused)),
                ("law_played", json!(report.law_played.map(law_played))),
            ];
            ("device", more)
        }
        RobotNote::Refused { cause, count, busy, who } => {
            let address = who.and_then(|who| who.address).map(|address| address.to_string());
            let more = vec![
                ("cause", json!(cause.name())),
                ("count", json!(count)),
                ("busy", json!(busy)),
                ("address", json!(address)),
                ("identities", json!(identities(who.as_ref()))),
            ];
            ("refused", more)
        }
        RobotNote::Stopped { why, silence, position } => {
            let silence_ms = silence.map(Duration::as_millis_f64);
            let more = vec![
                ("why", json!(why.name())),
                ("silence_ms", json!(silence_ms)),
                ("position_m", json!(position)),
            ];
            ("stopped", more)
        }
        RobotNote::Event(event) => match event {
            RobotEvent::Connected { session } => ("connected", vec![("session", json!(session))]),
            RobotEvent::Enabled { .. } => ("enabled", Vec::new()),
            RobotEvent::LetGo { here } => ("let_go", vec![("here", json!(here))]),
            RobotEvent::PathTooSlow { age } => {
                let needed_ms = patience(*age).as_millis_f64();
                (
                    "path_too_slow",
                    vec![("age_ms", json!(age.as_millis_f64())), ("needed_ms", json!(needed_ms))],
                )
            }
            RobotEvent::Incompatible(error) => ("incompatible", vec![("error", json!(error.to_string()))]),
            RobotEvent::PathUp(path) => ("path_up", vec![("path", json!(path.0))]),
            RobotEvent::PathDown(path) => ("path_down", vec![("path", json!(path.0))]),
            RobotEvent::Channel(_) => return None,
            RobotEvent::Closed => ("closed", Vec::new()),
            _ => ("other", Vec::new()),
        },
    })
}

fn operator(note: &OperatorNote) -> Option<Told> {
    Some(match note {
        OperatorNote::Progress(progress) => ("status", of_progress(progress)),
        OperatorNote::Done => ("done", Vec::new()),
        OperatorNote::NotResumed(error) | OperatorNote::NotReset(error) => {
            ("not_done", vec![("error", json!(error.to_string()))])
        }
        OperatorNote::NoAnswer { silence } => ("no_answer", vec![("silence_ms", ms(Some(*silence)))]),
        OperatorNote::AnswersAgain { silence } => ("answers_again", vec![("silence_ms", ms(Some(*silence)))]),
        OperatorNote::Keep { .. } | OperatorNote::Reconnect | OperatorNote::Ended(_) => return None,
        OperatorNote::Event(event) => match event {
            OperatorEvent::Connected { watchdog, max_age, hold_to_run, .. } => {
                let more = vec![
                    ("watchdog_ms", json!(watchdog.as_millis_f64())),
                    ("max_age_ms", json!(max_age.as_millis_f64())),
                    ("hold_to_run", json!(hold_to_run)),
                ];
                ("connected", more)
            }
            OperatorEvent::Robot { state, cause } => {
                ("robot", vec![("state", json!(state.name())), ("cause", json!(cause.name()))])
            }
            OperatorEvent::EmergencyStopped { after, kept } => {
                let more = vec![("after_ms", json!(after.as_millis_f64())), ("kept", json!(kept))];
                ("emergency_stopped", more)
            }
            OperatorEvent::EmergencyStopUnanswered => ("emergency_stop_unanswered", Vec::new()),
            OperatorEvent::Resumed => ("resumed", Vec::new()),
            OperatorEvent::WasReset => ("reset", Vec::new()),
            OperatorEvent::ResetRefused { answer } => {
                ("reset_refused", vec![("answer", json!(answer.map(Answer::name)))])
            }
            OperatorEvent::ResumeRefused { answer, age } => {
                let more =
                    vec![("answer", json!(answer.map(Answer::name))), ("age_ms", json!(age.as_millis_f64()))];
                ("resume_refused", more)
            }
            OperatorEvent::FeedbackLost => ("feedback_lost", Vec::new()),
            OperatorEvent::Rate { hz } => ("rate", vec![("hz", json!(hz))]),
            OperatorEvent::RefusedByRobot(reason) => ("refused", vec![("reason", json!(reason.name()))]),
            OperatorEvent::Incompatible(error) => ("incompatible", vec![("error", json!(error.to_string()))]),
            OperatorEvent::PathUp(path) => ("path_up", vec![("path", json!(path.0))]),
            OperatorEvent::PathDown(path) => ("path_down", vec![("path", json!(path.0))]),
            OperatorEvent::RobotLeft => ("robot_left", Vec::new()),
            OperatorEvent::Closed => ("closed", Vec::new()),
            _ => return None,
        },
    })
}

fn ms(duration: Option<Duration>) -> Value {
    json!(duration.map(Duration::as_millis_f64))
}

fn of_progress(progress: &Progress) -> Vec<(&'static str, Value)> {
    let torque = progress.robot_torque.map(|torque| ("robot_torque_nm", json!(torque)));
    let all = vec![
        ("status", json!(progress.status)),
        ("standing", json!(progress.standing.name())),
        ("silence_ms", ms(progress.silence)),
        ("made", json!(progress.made)),
        ("missed", json!(progress.missed)),
        ("stale", json!(progress.stale)),
        ("robot_position_m", json!(progress.robot_position)),
        ("robot_force_n", json!(progress.robot_force)),
    ];
    all.into_iter().chain(torque).collect()
}
