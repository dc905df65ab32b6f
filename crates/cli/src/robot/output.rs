//! What a robot's session prints: text, or JSON Lines.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use taut_agent::{DeviceReport, Refused, RobotNote, Standing};
use taut_core::{DropCause, Time};
use taut_io::lines::{self, identities};
use taut_io::session::TransportKind;
use taut_session::{Latch, RobotEvent, Status};
use taut_transport::identity::Fingerprint;

use crate::channels::Channels;
use crate::host::{json_line, quoted, shown};
use crate::operator::too_slow;
use crate::recent::{self, Recent, status_line};
use crate::state::kept as in_words;
use crate::streams::print;
use crate::terminal;

pub(super) struct Output {
    json: bool,
    channels: Channels,
    recent: Recent,
}

impl Output {
    pub(super) fn new(json: bool, channels: Channels) -> Self {
        Self { json, channels, recent: Recent::over(1) }
    }

    pub(super) fn listening(
        &self,
        at: Time,
        address: SocketAddr,
        transport: TransportKind,
        fingerprint: Option<&Fingerprint>,
        device: &Value,
        kept: Option<(Latch, &Path)>,
    ) {
        let identity = fingerprint.map(ToString::to_string);
        if self.json {
            let more = [
                ("address", json!(address.to_string())),
                ("transport", json!(transport.name())),
                ("identity", json!(identity)),
                ("device", device.clone()),
                ("latched", json!(kept.map(|(latch, _)| latch.cause.name()))),
            ];
            return print(&json_line("listening", at, more));
        }
        let identity = identity.unwrap_or_else(|| "a robot without identity".to_owned());
        let latched = kept.map_or_else(String::new, |(latch, path)| {
            let who = if latch.held_locally { "r here (--commands)" } else { "the operator's c" };
            format!(
                "A STOP IS LATCHED, from before this start: {}; {who} lets go of it, or, when this robot has ended: taut reset --state {}\n",
                in_words(&latch),
                quoted(path)
            )
        });
        print(&format!("{identity}\nlistens at {address} for an operator over {transport}\n{latched}"));
    }

    /// What it moves, in words, and which joint of a URDF is which.
    pub(super) fn moves(&self, description: &str) {
        if self.json {
            return;
        }
        print(&format!("{description}\n"));
        for (channel, joints) in self.channels.urdf_joints() {
            let joints: Vec<String> = (1..).zip(joints).map(|(at, name)| format!("{at} {name}")).collect();
            print(&format!("joints of {channel:?}, by its URDF: {}\n", joints.join(", ")));
        }
    }

    pub(super) fn note(&mut self, at: Time, note: &RobotNote) {
        if let RobotNote::Event(RobotEvent::Channel(event)) = note {
            return self.channels.tell(at, event, self.json);
        }
        if self.json {
            return self.line(at, note).iter().for_each(|line| print(line));
        }
        let text = match note {
            RobotNote::Progress(status) => {
                let recent = self.recent.of(status);
                return print(&format!("{}\n", status_line(standing(&recent), &recent, terminal::columns())));
            }
            _ => as_text(note),
        };
        if let Some(text) = text {
            print(&format!("{:>9.3} s  {text}\n", at.as_secs_f64()));
        }
    }

    /// What happened, as a line of JSON.
    pub(super) fn line(&mut self, at: Time, note: &RobotNote) -> Option<String> {
        if let RobotNote::Event(RobotEvent::Channel(event)) = note {
            return self.channels.line(at, event);
        }
        let line = lines::of_robot(note)?;
        Some(shown(
            at,
            match note {
                RobotNote::Progress(status) => line.with("recent", recent::as_json(&self.recent.of(status))),
                _ => line,
            },
        ))
    }

    pub(super) fn summary(&self, at: Time, status: &Status) {
        if self.json {
            return print(&summary_line(at, status));
        }
        if status.messages == 0 {
            return print("ended; no state came\n");
        }
        print(&format!("ended\n{status}\n"));
    }
}

/// Everything that was measured, as a line of JSON.
pub(super) fn summary_line(at: Time, status: &Status) -> String {
    shown(at, lines::robot_summary(status))
}

/// How it is, in the operator's words.
fn standing(status: &Status) -> &str {
    match status.state {
        "ENABLED" => Standing::Moving.name(),
        "FAULT" => Standing::Stopped.name(),
        other => other,
    }
}

/// What was refused, and what that usually is: who is not authentic cannot be asked.
fn refused(cause: DropCause, count: u64, busy: u64, who: Option<&Refused>) -> String {
    let times = |count| if count == 1 { String::new() } else { format!("{count} times ") };
    let why = match cause {
        DropCause::Unauthenticated => ": of nobody who is trusted here, or meant for another robot",
        DropCause::Malformed => ": of another transport, or of none",
        DropCause::Replayed => ": seen before, or too old to tell",
        _ => "",
    };
    let others = format!("{}{}{why}", times(count - busy), cause.name());
    let busy_too = format!("{}busy: another operator asks, and one has the robot", times(busy));
    let what = match (busy, count - busy) {
        (0, _) => others,
        (_, 0) => busy_too,
        _ => format!("{busy_too}; {others}"),
    };
    let last = who.and_then(|who| who.address).map_or_else(String::new, |address| {
        let the_last = if count == 1 { "" } else { "the last " };
        format!("; {the_last}from {address}")
    });
    format!("refused: {what}{last}{}", how_to_trust(who))
}

/// Whose key it is that was shown, and how to let them in.
fn how_to_trust(who: Option<&Refused>) -> String {
    match &identities(who)[..] {
        [] => String::new(),
        [one] => format!("; with --trust {one} this robot would let it in"),
        // Noise does not tell one bit of the key; the other fingerprint is nobody's.
        [one, others @ ..] => {
            let others = others.join(" or ");
            format!(
                "; with --trust {one} or {others} (the one that `taut identity` shows there) this robot would let it in"
            )
        }
    }
}

/// How the device moved.
fn motion(report: &DeviceReport) -> String {
    let DeviceReport { speed, speed_max, .. } = report;
    let force = match (report.controller_force, report.controller_force_max) {
        (Some(force), Some(largest)) => {
            format!(", its controller pushes {force:.1} N (at most {largest:.1} N)")
        }
        _ => String::new(),
    };
    format!("the device moves at {speed:.3} m/s (at most {speed_max:.3} m/s){force}")
}

fn as_text(note: &RobotNote) -> Option<String> {
    Some(match note {
        RobotNote::Progress(_) | RobotNote::Bitrate(_) | RobotNote::NotSent { .. } | RobotNote::Keep { .. } | RobotNote::Reconnect | RobotNote::Ended => return None,
        RobotNote::NotKept => {
            "WHAT IS LATCHED COULD NOT BE WRITTEN: it holds, and does not survive this process".to_owned()
        }
        RobotNote::DeviceFailed(failure) => format!("DEVICE FAILED: {failure}"),
        RobotNote::Device(report) => motion(report),
        RobotNote::Refused { cause, count, busy, who } => refused(*cause, *count, *busy, who.as_ref()),
        RobotNote::Stopped { why, silence: Some(silence), .. } => {
            format!("STOPPED: {}, {:.1} ms after the last state", why.name(), silence.as_millis_f64())
        }
        RobotNote::Stopped { why, .. } => format!("STOPPED: {}", why.name()),
        RobotNote::Event(event) => match event {
            RobotEvent::Connected { .. } => "an operator is there; the robot waits for its resume, and before that for the reset of what is latched".to_owned(),
            RobotEvent::LetGo { here: true } => "the stop is let go of here; the robot stands until it is resumed".to_owned(),
            RobotEvent::LetGo { here: false } => "the operator reset the stop; the robot stands until it is resumed".to_owned(),
            RobotEvent::Enabled { .. } => "resumed: the robot moves".to_owned(),
            RobotEvent::PathTooSlow { age } => format!("refused to move: {}", too_slow(*age)),
            RobotEvent::Incompatible(error) => format!("refused: {error}"),
            RobotEvent::Closed => "the link is closed".to_owned(),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_the_robot_is_taken_or_who_asks_is_not_known() {
        let busy = "busy: another operator asks, and one has the robot";
        assert_eq!(refused(DropCause::Unauthenticated, 1, 1, None), format!("refused: {busy}"));
        let unknown = "unauthenticated: of nobody who is trusted here, or meant for another robot";
        assert_eq!(refused(DropCause::Unauthenticated, 3, 0, None), format!("refused: 3 times {unknown}"));
        let both = format!("refused: 2 times {busy}; {unknown}");
        assert_eq!(refused(DropCause::Unauthenticated, 3, 2, None), both);
        assert_eq!(
            refused(DropCause::Malformed, 1, 0, None),
            "refused: malformed: of another transport, or of none"
        );
    }
}
