//! What the terminal shows.

mod text;

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};
use taut_agent::{OperatorCommand, OperatorNote, Progress, RoundTrips, Standing};
use taut_core::{Duration, PathEstimate, PathId, Time, printable};
use taut_io::FloodChange;
use taut_io::session::{PathNote, Told};
use taut_session::{LatencySummary, OperatorEvent, RobotState, Status, StopCause};

use self::text::{columns, fitting, ms, row, wrapped};
use super::output::{UNHEARD, told, what_helps};
use crate::button::Press;
use crate::recent::Recent;

/// What is shown.
pub(super) struct View {
    title: String,
    keys: Keys,
    at: Time,
    robot: RobotState,
    /// Why it stopped last.
    cause: StopCause,
    connected: bool,
    emergency: Emergency,
    /// When the robot was heard last, while it does not answer.
    silent: Option<Time>,
    progress: Progress,
    /// The same with the rates of the last second.
    recent: Status,
    rates: Recent,
    /// Longest and mean round trip of each report, ms, the newest last.
    history: VecDeque<RoundTrips>,
    /// Where the paths begin that were named.
    places: Vec<(PathId, String)>,
    /// When what happened, the newest last.
    said: VecDeque<(Time, String)>,
}

/// What the terminal's keys do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Those of a session: to stop it, let it move, end it.
    Buttons,
    /// These, and others move the robot.
    Driving,
}

impl Keys {
    fn help(self) -> &'static [&'static str] {
        const BUTTONS: &str = " e, space or Esc: EMERGENCY STOP    c: reset it    r: resume    q: quit ";
        const DRIVING: &str =
            " hold  w s: forth, back  a d: left, right  i k: up, down  j l: turn  o p: grip ";
        match self {
            Self::Buttons => &[BUTTONS],
            Self::Driving => &[DRIVING, BUTTONS],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Emergency {
    None,
    Pressed,
    Acknowledged,
}

/// Reports in a second.
const SECOND: usize = 10;
/// A minute of reports.
const HISTORY: usize = 60 * SECOND;
const SAID: usize = 50;
/// Lines of figures.
const FIGURES: u16 = 7;

impl View {
    pub(super) fn new(title: String, keys: Keys) -> Self {
        Self {
            title,
            keys,
            at: Time::ZERO,
            robot: RobotState::Disabled,
            cause: StopCause::Start,
            connected: false,
            emergency: Emergency::None,
            silent: None,
            progress: Progress::default(),
            recent: Status::default(),
            rates: Recent::over(SECOND),
            history: VecDeque::new(),
            places: Vec::new(),
            said: VecDeque::new(),
        }
    }

    /// When the last note came.
    pub(super) fn at(&self) -> Time {
        self.at
    }

    pub(super) fn told(&mut self, at: Time, told: Told<OperatorNote>) {
        match told {
            Told::Note(note) => self.note(at, note),
            Told::Path(note) => self.place(at, &note),
            Told::Flood(note) if note.change != FloodChange::GoesOn => self.say(at, note.to_string()),
            Told::Flood(_) => {}
        }
    }

    fn note(&mut self, at: Time, note: OperatorNote) {
        self.at = at;
        if let Some(text) = told(&note) {
            self.say(at, text);
        }
        match note {
            OperatorNote::Progress(progress) => {
                push(&mut self.history, progress.round_trips, HISTORY);
                self.recent = self.rates.of(&progress.status);
                self.progress = *progress;
            }
            OperatorNote::NoAnswer { silence } => {
                self.silent = Some(Time::ZERO + (at - Time::ZERO).saturating_sub(silence));
            }
            OperatorNote::AnswersAgain { .. } => self.silent = None,
            OperatorNote::Event(event) => match event {
                OperatorEvent::Connected { .. } => (self.connected, self.silent) = (true, None),
                OperatorEvent::Closed => (self.connected, self.silent) = (false, None),
                OperatorEvent::Robot { state, cause } => (self.robot, self.cause) = (state, cause),
                OperatorEvent::EmergencyStopped { .. } => self.emergency = Emergency::Acknowledged,
                OperatorEvent::WasReset | OperatorEvent::Resumed => self.emergency = Emergency::None,
                _ => {}
            },
            OperatorNote::Done => self.say(at, "all states were sent".to_owned()),
            OperatorNote::NotResumed(_)
            | OperatorNote::NotReset(_)
            | OperatorNote::Keep { .. }
            | OperatorNote::Reconnect
            | OperatorNote::Ended(_) => {}
        }
    }

    fn place(&mut self, at: Time, note: &PathNote) {
        self.at = at;
        self.places.retain(|(path, _)| *path != note.path);
        self.places.push((note.path, note.spec.to_string()));
        self.say(at, note.to_string());
    }

    /// A key was pressed, and the session was reached or not.
    pub(super) fn press(&mut self, at: Time, press: &Press<OperatorCommand>, taken: bool) {
        let text = match press {
            _ if !taken => "the session does not answer",
            Press::Stop | Press::Lost(_) => {
                self.emergency = Emergency::Pressed;
                "emergency stop pressed"
            }
            Press::Command(OperatorCommand::Reset) => "reset pressed",
            Press::Command(OperatorCommand::Resume) => "resume pressed",
            Press::Command(OperatorCommand::Hold) => "enabling input held",
            Press::Command(OperatorCommand::LetGo) => "enabling input let go",
            Press::Command(OperatorCommand::Close) => "goodbye",
            // No key does these.
            Press::Command(OperatorCommand::Reconnect) => "another conversation",
            Press::Command(OperatorCommand::Send { .. } | OperatorCommand::Move { .. }) => {
                "a message is sent"
            }
        };
        self.say(at, text.to_owned());
    }

    fn say(&mut self, at: Time, text: String) {
        // The peer may have written some of it.
        push(&mut self.said, (at, printable(&text).to_string()), SAID);
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let paths = self.paths();
        let lines = if paths.is_empty() { 0 } else { paths.len() as u16 + 2 };
        let [head, figures, over, plot, said, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(FIGURES + 2),
            Constraint::Length(lines),
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(self.keys.help().len() as u16),
        ])
        .areas(frame.area());
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(figures);
        let pane = |frame: &mut Frame<'_>, area, title, text| {
            frame.render_widget(Paragraph::new(text).block(Block::bordered().title(title)), area);
        };
        frame.render_widget(self.headline(head.width.into()), head);
        pane(frame, left, " time since the start ", self.times(inner(left)));
        pane(frame, right, " states since the start ", self.fates(inner(right)));
        let paths = paths.iter().map(|path| Line::from(self.path(path, inner(over))));
        pane(frame, over, " paths ", paths.collect());
        self.draw_plot(frame, plot);
        pane(frame, said, " events ", self.last_said(said));
        let help: Text<'_> = self.keys.help().iter().map(|line| Line::from(*line)).collect();
        frame.render_widget(Paragraph::new(help).style(Style::new().add_modifier(Modifier::REVERSED)), keys);
    }

    /// The events for which there is room, whole.
    fn last_said(&self, area: Rect) -> Text<'static> {
        let room = usize::from(area.height.saturating_sub(2));
        let mut lines = VecDeque::new();
        for (at, text) in self.said.iter().rev() {
            let said = wrapped(&format!("{:>8.2} s  ", at.as_secs_f64()), text, inner(area));
            if lines.len() + said.len() > room {
                break;
            }
            said.into_iter().rev().for_each(|line| lines.push_front(Line::from(line)));
        }
        lines.into_iter().collect()
    }

    fn headline(&self, width: usize) -> Paragraph<'_> {
        let silence = self.silent.map(|heard| self.at.saturating_since(heard).as_secs_f64());
        let no_answer = silence.map(|silence| format!("{} for {silence:.1} s", Standing::NoAnswer.name()));
        let besides = match (self.connected, &no_answer) {
            (false, _) => format!(", {}", Standing::NoLink.name()),
            (true, Some(no_answer)) => format!(", {no_answer}"),
            (true, None) => String::new(),
        };
        let stopped = Standing::Stopped.name();
        let (text, colour) = match (self.emergency, self.connected, no_answer, self.robot) {
            (Emergency::Pressed, ..) => {
                (format!("EMERGENCY STOP, NOT ACKNOWLEDGED YET{besides}"), Color::Red)
            }
            (Emergency::Acknowledged, ..) => {
                let helps = what_helps(RobotState::Fault, StopCause::Emergency);
                (format!("{stopped}{besides}{helps}"), Color::Red)
            }
            (_, false, ..) => (Standing::NoLink.name().to_owned(), Color::Red),
            (_, _, Some(no_answer), _) => (format!("{no_answer}: {UNHEARD}"), Color::Red),
            (_, _, _, state) => {
                let (helps, colour) = match state {
                    RobotState::Enabled => ("", Color::Green),
                    RobotState::Fault => (what_helps(state, self.cause), Color::Red),
                    RobotState::Paused => (": r lets it move", Color::Yellow),
                    RobotState::Disabled => ("", Color::Yellow),
                };
                (format!("{}{helps}", Standing::from(state).name()), colour)
            }
        };
        let title = format!("  {}", self.title);
        let room = text.chars().count() + 2 + title.chars().count() <= width;
        let state = Span::styled(format!(" {text} "), Style::new().bg(colour).fg(Color::Black).bold());
        Paragraph::new(Line::from(vec![state, Span::raw(if room { title } else { String::new() })]))
    }

    /// Does what is shown speak of now?
    fn is_live(&self) -> bool {
        self.connected && self.silent.is_none()
    }

    fn times(&self, width: usize) -> Text<'static> {
        let status = &self.progress.status;
        let of = |latency: &LatencySummary| {
            [latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.max_ms].map(ms)
        };
        let unknown = || vec!["-".to_owned()];
        let force = self.progress.robot_force.filter(|_| self.is_live());
        let force = force.map_or_else(unknown, |force| {
            let squares: f32 = force.iter().map(|part| part * part).sum();
            vec![format!("{:.2} N", squares.sqrt())]
        });
        let clock = status.clock.map_or_else(
            || vec!["not compared".to_owned()],
            |clock| {
                let [ahead, within] =
                    [clock.offset_ns as f64, clock.uncertainty_ns as f64].map(|ns| ns / 1e6);
                vec![format!("{ahead:+.2} ± {within:.2}")]
            },
        );
        let trips = self.last_second();
        let latest = match trips.count {
            0 => unknown(),
            _ => vec![format!("mean {}", ms(trips.mean_ms)), format!("max {}", ms(trips.max_ms))],
        };
        let heads = ["p50", "p95", "p99", "max"].map(str::to_owned);
        Text::from(vec![
            Line::from(columns("ms", &heads, width)).dim(),
            Line::from(columns("round trip", &of(&status.rtt), width)),
            Line::from(columns("one way", &of(&status.one_way), width)),
            Line::from(row("last 1 s", &latest, width)).bold(),
            Line::from(row("jitter", &[ms(status.jitter_ms)], width)),
            Line::from(row("clock", &clock, width)),
            Line::from(row("force", &force, width)).bold(),
        ])
    }

    /// Of the last second's reports.
    fn last_second(&self) -> RoundTrips {
        let mut all = RoundTrips::default();
        let mut sum = 0.0;
        for trips in self.history.iter().rev().take(SECOND) {
            all.count += trips.count;
            all.max_ms = all.max_ms.max(trips.max_ms);
            sum += trips.mean_ms * trips.count as f64;
        }
        all.mean_ms = if all.count == 0 { 0.0 } else { sum / all.count as f64 };
        all
    }

    fn fates(&self, width: usize) -> Text<'static> {
        let (status, recent) = (&self.progress.status, &self.recent);
        let mut causes: Vec<_> = status.dropped.iter().collect();
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let causes: Vec<_> =
            causes.iter().map(|(cause, count)| format!("{} {count}", cause.replace('_', " "))).collect();
        let dropped = if causes.is_empty() { vec!["nothing".to_owned()] } else { causes };
        let samples = self.progress.made + self.progress.missed;
        let row = |name: &str, values: &[String]| Line::from(row(name, values, width));
        Text::from(vec![
            row(
                "last 1 s",
                &[
                    format!("{:.0}/s of {:.0}", recent.rate_hz, recent.allowed_hz),
                    format!("{:.2} Mbit/s", recent.throughput_bps / 1e6),
                ],
            )
            .bold(),
            row("sent", &[status.messages.to_string()]),
            row("delivered", &[format!("{} ({:.1} %)", status.delivered, status.success * 100.0)]),
            row("lost", &[status.lost.to_string(), format!("late {}", status.late)]),
            row("dropped", &dropped),
            row("missed", &[format!("{} of {samples} samples", self.progress.missed)]),
        ])
    }

    /// What is known of each path, where the transport uses several.
    fn paths(&self) -> Vec<PathEstimate> {
        self.progress.choices.as_ref().map(|choices| choices.paths.clone()).unwrap_or_default()
    }

    fn path(&self, path: &PathEstimate, width: usize) -> String {
        let place = self.places.iter().find(|(id, _)| *id == path.path);
        let name = place.map_or_else(|| format!("path {}", path.path.0), |(_, place)| place.clone());
        let delay = |delay: Option<Duration>| delay.map_or("-".to_owned(), |delay| ms(delay.as_millis_f64()));
        let items = [
            if path.up { "up" } else { "NO ANSWER" }.to_owned(),
            format!("round trip p99 {} ms", delay(path.round_trip_p99)),
            format!("in time {:.1} %", path.in_time * 100.0),
            format!("loss {:.1} %", path.loss * 100.0),
            format!("one way p50 {} ms", delay(path.one_way_p50)),
            format!("p99 {} ms", delay(path.one_way_p99)),
        ];
        let name = format!("{name:<9} ");
        format!("{name}{}", fitting(&items, width.saturating_sub(name.chars().count())))
    }

    fn draw_plot(&self, frame: &mut Frame<'_>, area: Rect) {
        let first = HISTORY - self.history.len();
        let seconds = |index: usize| ((first + index) as f64 - HISTORY as f64) / SECOND as f64;
        let known = || self.history.iter().enumerate().filter(|(_, trips)| trips.count > 0);
        let largest: Vec<_> = known().map(|(index, trips)| (seconds(index), trips.max_ms)).collect();
        let mean: Vec<_> = known().map(|(index, trips)| (seconds(index), trips.mean_ms)).collect();
        let top = ceiling(largest.iter().map(|(_, ms)| *ms).fold(0.1, f64::max));
        let line = |name: &'static str, colour, data| {
            Dataset::default()
                .name(name)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .fg(colour)
                .data(data)
        };
        let datasets =
            vec![line("longest", Color::Yellow, &largest[..]), line("mean", Color::Cyan, &mean[..])];
        let chart = Chart::new(datasets)
            .block(Block::bordered().title(" round trip, ms, mean and longest, the last minute "))
            .x_axis(Axis::default().bounds([-60.0, 0.0]).labels(["-60 s", "-30 s", "now"]))
            .y_axis(Axis::default().bounds([0.0, top]).labels(["0".to_owned(), format!("{top}")]));
        frame.render_widget(chart, area);
    }
}

/// Columns within a pane's border.
fn inner(area: Rect) -> usize {
    usize::from(area.width.saturating_sub(2))
}

/// The next of 1, 2, 5, 10, 20 … tenths that is not less.
fn ceiling(value: f64) -> f64 {
    let mut scale = 0.1;
    loop {
        for step in [1.0, 2.0, 5.0] {
            if value <= scale * step * 1.0001 {
                return (scale * step * 10.0).round() / 10.0;
            }
        }
        scale *= 10.0;
        if scale > 1e6 {
            return value;
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, limit: usize) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests;
