//! What an operator's session prints: text, or JSON Lines.

use serde_json::json;
use taut_agent::{OperatorNote, Progress, RoundTrips, Standing};
use taut_core::{Duration, Time};
use taut_io::lines::{self, Line};
use taut_session::{Answer, LatencySummary, OperatorEvent, RefusalReason, RobotState, StopCause, patience};

use crate::host::{json_line, shown};
use crate::paths;
use crate::recent::{self, Recent, status_line};
use crate::streams::print;
use crate::terminal;

pub(super) struct Output {
    json: bool,
    recent: Recent,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self { json, recent: Recent::over(1) }
    }

    pub(super) fn note(&mut self, at: Time, note: &OperatorNote) {
        if self.json {
            return self.line(at, note).iter().for_each(|line| print(line));
        }
        match (note, told(note)) {
            (OperatorNote::Progress(progress), _) => {
                let line =
                    status_line(&standing(progress), &self.recent.of(&progress.status), terminal::columns());
                print(&format!("{line}\n"));
            }
            (_, Some(text)) => print(&format!("{:>9.3} s  {text}\n", at.as_secs_f64())),
            (_, None) => {}
        }
    }

    /// What happened, as a line of JSON.
    pub(super) fn line(&mut self, at: Time, note: &OperatorNote) -> Option<String> {
        let line = lines::of_operator(note)?;
        Some(shown(
            at,
            match note {
                OperatorNote::Progress(progress) => {
                    let mut recent = recent::as_json(&self.recent.of(&progress.status));
                    let RoundTrips { count, mean_ms, max_ms } = progress.round_trips;
                    recent["round_trip_mean_ms"] = json!((count > 0).then_some(mean_ms));
                    recent["round_trip_max_ms"] = json!((count > 0).then_some(max_ms));
                    with_choices(line, progress).with("recent", recent)
                }
                _ => line,
            },
        ))
    }

    pub(super) fn summary(&self, at: Time, progress: &Progress) {
        if self.json {
            return print(&summary_line(at, progress));
        }
        print(&format!("{}\n{}", progress.status, summary(progress)));
    }
}

/// Where a person finds what steers the session.
pub(super) fn tell_place(at: Time, place: &str, json: bool) {
    if json {
        return print(&json_line("console", at, [("url", json!(place))]));
    }
    print(&format!("open {place}\n"));
}

/// Everything that was measured, as a line of JSON.
pub(super) fn summary_line(at: Time, progress: &Progress) -> String {
    shown(at, with_choices(lines::operator_summary(progress), progress))
}

/// And how messages were spread over paths.
fn with_choices(line: Line, progress: &Progress) -> Line {
    line.with("choices", json!(progress.choices.as_ref().map(paths::choices_as_json)))
}

/// The beginning of a status line: how the robot is, and how long nothing was heard of it.
fn standing(progress: &Progress) -> String {
    let name = progress.standing.name();
    match (progress.standing, progress.silence) {
        (Standing::NoAnswer, Some(silence)) => format!("{name} for {:.1} s", silence.as_secs_f64()),
        _ => name.to_owned(),
    }
}

/// What happened, in words; `None` when it is not worth a line.
pub(super) fn told(note: &OperatorNote) -> Option<String> {
    Some(match note {
        OperatorNote::Event(event) => return told_by_session(event),
        OperatorNote::NoAnswer { silence } => {
            format!("NO ANSWER for {:.2} s: {UNHEARD}", silence.as_secs_f64())
        }
        OperatorNote::AnswersAgain { silence } => {
            format!("the robot answers again, after {:.2} s", silence.as_secs_f64())
        }
        OperatorNote::NotResumed(error) | OperatorNote::NotReset(error) => error.to_string(),
        OperatorNote::Done
        | OperatorNote::Progress(_)
        | OperatorNote::Keep { .. }
        | OperatorNote::Reconnect
        | OperatorNote::Ended(_) => return None,
    })
}

/// What a robot does that does not answer. It may still hear, where only one direction is cut.
pub(super) const UNHEARD: &str = "a robot that hears nothing stops";

/// What lets a robot move again that stands for this.
pub(super) fn what_helps(state: RobotState, cause: StopCause) -> &'static str {
    match (state, cause) {
        (RobotState::Fault, StopCause::LocalEmergency | StopCause::ButtonLost) => {
            ": let go of it at the robot (r there), then resume (r)"
        }
        (RobotState::Fault, _) => ": reset it (c), then resume (r)",
        (RobotState::Paused, StopCause::TurnedApart) => {
            ": hand and arm are more than a quarter turn apart; turn the hand to how the arm is turned, then resume (r)"
        }
        (RobotState::Paused, StopCause::Device) => ": see what the robot's own output says of its device",
        _ => "",
    }
}

fn refused(answer: Option<Answer>) -> String {
    match answer {
        None => "not answered".to_owned(),
        Some(Answer::HeldLocally) => {
            "refused: the stop at the robot itself is pressed; let go of it there".to_owned()
        }
        Some(answer) => format!("refused: {}", answer.name()),
    }
}

/// What a robot would have to be started with for a path on which motion takes so long.
pub(crate) fn too_slow(age: Duration) -> String {
    let needed = patience(age);
    format!(
        "motion takes up to {:.0} ms to the robot, and is too old there; `taut robot --watchdog {needed} --max-age {needed}` \
         takes it",
        age.as_millis_f64()
    )
}

fn told_by_session(event: &OperatorEvent) -> Option<String> {
    Some(match event {
        OperatorEvent::Connected { watchdog, .. } if watchdog.is_zero() => "connected".to_owned(),
        OperatorEvent::Connected { watchdog, hold_to_run, .. } => {
            let held = if *hold_to_run {
                ", and moves only while the enabling input is held: hold it (--hold-to-run, d), then resume"
            } else {
                ""
            };
            format!("connected; the robot stops {watchdog} after the last state was made{held}")
        }
        OperatorEvent::Robot { state, cause } => {
            let name = Standing::from(*state).name();
            let why = match state {
                RobotState::Enabled => String::new(),
                _ => format!("; its last stop: {}{}", cause.name(), what_helps(*state, *cause)),
            };
            format!("the robot is {name}{why}")
        }
        OperatorEvent::EmergencyStopped { after, kept } => {
            let lost =
                if *kept { "" } else { "; it is NOT KEPT there: it does not survive a restart of the robot" };
            format!("EMERGENCY STOP, acknowledged after {:.1} ms{lost}", after.as_millis_f64())
        }
        OperatorEvent::EmergencyStopUnanswered => "EMERGENCY STOP: NO ANSWER, goes on being sent".to_owned(),
        OperatorEvent::Resumed => "resumed: the robot moves".to_owned(),
        OperatorEvent::WasReset => "the stop is reset; the robot stands until it is resumed".to_owned(),
        OperatorEvent::ResetRefused { answer } => format!("reset {}", refused(*answer)),
        OperatorEvent::ResumeRefused { answer: Some(Answer::PathTooSlow), age } => {
            format!("resume refused: {}", too_slow(*age))
        }
        OperatorEvent::ResumeRefused { answer, .. } => format!("resume {}", refused(*answer)),
        OperatorEvent::FeedbackLost => "no fresh force from the robot: let go".to_owned(),
        OperatorEvent::Rate { hz } => format!("the rate is {hz:.0}/s now"),
        OperatorEvent::RefusedByRobot(RefusalReason::Busy) => "the robot has another operator".to_owned(),
        OperatorEvent::RefusedByRobot(reason) => format!("refused by the robot: {}", reason.name()),
        OperatorEvent::Incompatible(error) => format!("no session with what answers there: {error}"),
        OperatorEvent::PathUp(path) => format!("path {} can be used", path.0),
        OperatorEvent::PathDown(path) => format!("path {} cannot be used", path.0),
        OperatorEvent::RobotLeft => "the robot ended the session".to_owned(),
        OperatorEvent::Closed => "closed".to_owned(),
        _ => return None,
    })
}

/// The table at the end.
fn summary(progress: &Progress) -> String {
    let status = &progress.status;
    let row = |name: &str, latency: &LatencySummary| {
        let LatencySummary { p50_ms, p95_ms, p99_ms, max_ms, .. } = latency;
        format!("  {name:<22}{p50_ms:>10.3}{p95_ms:>10.3}{p99_ms:>10.3}{max_ms:>10.3}\n")
    };
    let measured = [("round trip", &status.rtt), ("one way, by the clocks", &status.one_way)];
    let measured: Vec<_> = measured.into_iter().filter(|(_, latency)| latency.count > 0).collect();
    let mut text = match &measured[..] {
        [] => "  no round trip was measured\n".to_owned(),
        _ => format!("  {:<22}{:>10}{:>10}{:>10}{:>10}\n", "ms", "p50", "p95", "p99", "max"),
    };
    text.extend(measured.iter().map(|(name, latency)| row(name, latency)));
    let fates = format!(
        "  {} sent, {} delivered, {} lost, {} late; {} dropped here{}\n",
        status.messages,
        status.delivered,
        status.lost,
        status.late,
        status.dropped.values().sum::<u64>(),
        causes(progress)
    );
    let missed = match progress.missed {
        0 => String::new(),
        missed => format!("  {missed} samples were missed: this host was too late\n"),
    };
    let stale = match progress.stale {
        0 => String::new(),
        stale => format!("  {stale} samples were not sent: the device had read nothing new\n"),
    };
    let choices = progress.choices.as_ref().and_then(paths::choices_in_words);
    let choices = choices.map_or_else(String::new, |choices| format!("  {choices}\n"));
    format!("{text}{fates}{missed}{stale}{choices}")
}

fn causes(progress: &Progress) -> String {
    let causes: Vec<_> =
        progress.status.dropped.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_begins_with_how_the_robot_is_and_how_long_it_was_silent() {
        let silence = Some(Duration::from_millis(640));
        let mut progress = Progress { standing: Standing::Moving, silence, ..Progress::default() };
        assert_eq!(standing(&progress), "MOVING");
        progress.standing = Standing::NoAnswer;
        assert_eq!(standing(&progress), "NO ANSWER for 0.6 s");
    }
}
