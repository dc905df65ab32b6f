//! The session on the whole terminal.

use std::collections::VecDeque;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};
use taut_core::Time;
use taut_io::session::{OperatorCommand, OperatorNote, Progress, RoundTrips};
use taut_session::{LatencySummary, OperatorEvent, RobotState};

use super::output::told;
use super::{Arguments, Outcome, Session};

/// Shows `session` until it ends. The terminal is as it was before, whatever ends it.
pub(super) fn show(session: Session, arguments: &Arguments) -> Result<Outcome, String> {
    // Restores it also when something panics.
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("the terminal: {error}; go without --tui"))?;
    let mut view = View::new(format!("{} over {}", arguments.connect, arguments.transport));
    let shown = loop {
        match take(&session, &mut view) {
            Taken::Ended => break Ok(()),
            Taken::All => {}
        }
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        match next_key() {
            Err(error) => break Err(error),
            Ok(Some(command)) => view.press(command, session.remote.send(command)),
            Ok(None) => {}
        }
    };
    ratatui::restore();
    if shown.is_err() {
        // Nobody sees or steers the robot any more.
        session.remote.send(OperatorCommand::Close);
    }
    let at = view.at;
    let outcome = session.join().map(|progress| (at, progress));
    shown.map_err(|error| format!("the terminal: {error}")).map(|()| outcome)
}

enum Taken {
    All,
    Ended,
}

fn take(session: &Session, view: &mut View) -> Taken {
    loop {
        match session.notes.try_recv() {
            Ok((at, note)) => view.note(at, note),
            Err(TryRecvError::Empty) => return Taken::All,
            Err(TryRecvError::Disconnected) => return Taken::Ended,
        }
    }
}

/// Waits for a key, for a frame's time at most.
fn next_key() -> std::io::Result<Option<OperatorCommand>> {
    if !event::poll(Duration::from_millis(50))? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => command_of(key),
        _ => None,
    })
}

/// In raw mode Ctrl-C is a key.
fn command_of(key: KeyEvent) -> Option<OperatorCommand> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(OperatorCommand::Close),
        KeyCode::Char('e' | 'E' | ' ') => Some(OperatorCommand::EmergencyStop),
        KeyCode::Char('r' | 'R') => Some(OperatorCommand::Resume),
        KeyCode::Char('q' | 'Q') => Some(OperatorCommand::Close),
        _ => None,
    }
}

/// What is shown.
struct View {
    title: String,
    at: Time,
    robot: RobotState,
    connected: bool,
    emergency: Emergency,
    progress: Progress,
    /// Longest and mean round trip of each report, ms, the newest last.
    history: VecDeque<RoundTrips>,
    /// What happened, the newest last.
    said: VecDeque<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Emergency {
    None,
    Pressed,
    Acknowledged,
}

/// A minute of reports, ten a second.
const HISTORY: usize = 600;
const SAID: usize = 50;

impl View {
    fn new(title: String) -> Self {
        Self {
            title,
            at: Time::ZERO,
            robot: RobotState::Disabled,
            connected: false,
            emergency: Emergency::None,
            progress: Progress::default(),
            history: VecDeque::new(),
            said: VecDeque::new(),
        }
    }

    fn note(&mut self, at: Time, note: OperatorNote) {
        self.at = at;
        match note {
            OperatorNote::Progress(progress) => {
                push(&mut self.history, progress.round_trips, HISTORY);
                self.progress = *progress;
            }
            OperatorNote::Event(event) => {
                match event {
                    OperatorEvent::Connected { .. } => self.connected = true,
                    OperatorEvent::Closed => self.connected = false,
                    OperatorEvent::Robot { state, .. } => self.robot = state,
                    OperatorEvent::EmergencyStopped { .. } => self.emergency = Emergency::Acknowledged,
                    OperatorEvent::Resumed => self.emergency = Emergency::None,
                    _ => {}
                }
                if let Some(text) = told(&event) {
                    self.say(&text);
                }
            }
            OperatorNote::Path(note) => self.say(&note.to_string()),
            OperatorNote::Done => self.say("all states were sent"),
        }
    }

    fn press(&mut self, command: OperatorCommand, taken: bool) {
        match command {
            _ if !taken => self.say("the session does not answer"),
            OperatorCommand::EmergencyStop => {
                self.emergency = Emergency::Pressed;
                self.say("emergency stop pressed");
            }
            OperatorCommand::Resume => self.say("resume pressed"),
            OperatorCommand::Close => self.say("goodbye"),
        }
    }

    fn say(&mut self, text: &str) {
        let line = format!("{:>8.2} s  {text}", self.at.as_secs_f64());
        push(&mut self.said, line, SAID);
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, figures, plot, said, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(8),
            Constraint::Min(6),
            Constraint::Length(5),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(figures);
        frame.render_widget(self.headline(), head);
        frame.render_widget(Paragraph::new(self.times()).block(Block::bordered().title(" time ")), left);
        frame.render_widget(Paragraph::new(self.fates()).block(Block::bordered().title(" states ")), right);
        self.draw_plot(frame, plot);
        let lines: Vec<Line<'_>> = self.last_said(said).map(|line| Line::from(line.as_str())).collect();
        frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" events ")), said);
        let help = " e or space: EMERGENCY STOP    r: resume    q: quit ";
        frame.render_widget(Paragraph::new(help).style(Style::new().add_modifier(Modifier::REVERSED)), keys);
    }

    fn last_said(&self, area: Rect) -> impl Iterator<Item = &String> {
        let room = usize::from(area.height.saturating_sub(2));
        self.said.iter().skip(self.said.len().saturating_sub(room))
    }

    fn headline(&self) -> Paragraph<'_> {
        let (text, colour) = match (self.emergency, self.connected, self.robot) {
            (Emergency::Pressed, ..) => ("EMERGENCY STOP, NOT ACKNOWLEDGED YET", Color::Red),
            (Emergency::Acknowledged, ..) => ("EMERGENCY STOP", Color::Red),
            (_, false, _) => ("NO LINK", Color::Red),
            (_, _, RobotState::Enabled) => ("MOVING", Color::Green),
            (_, _, RobotState::Fault) => ("EMERGENCY STOP", Color::Red),
            (_, _, RobotState::Paused) => ("PAUSED: r lets it move", Color::Yellow),
            (_, _, RobotState::Disabled) => ("DISABLED", Color::Yellow),
        };
        let state = Span::styled(format!(" {text} "), Style::new().bg(colour).fg(Color::Black).bold());
        Paragraph::new(Line::from(vec![state, Span::raw(format!("  {}", self.title))]))
    }

    fn times(&self) -> Text<'static> {
        let status = &self.progress.status;
        let row = |name: &str, values: [f64; 4]| {
            let [a, b, c, d] = values;
            Line::from(format!("{name:<10}{a:>6.2} {b:>6.2} {c:>6.2} {d:>6.2}"))
        };
        let of = |latency: &LatencySummary| [latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.max_ms];
        let [x, y, z] = self.progress.robot_force;
        let force = (x * x + y * y + z * z).sqrt();
        let clock = status.clock.map_or_else(
            || "not compared".to_owned(),
            |clock| {
                format!("{:+.2} ± {:.2}", clock.offset_ns as f64 / 1e6, clock.uncertainty_ns as f64 / 1e6)
            },
        );
        Text::from(vec![
            Line::from(format!("{:<10}{:>6} {:>6} {:>6} {:>6}", "ms", "p50", "p95", "p99", "max")).dim(),
            row("round trip", of(&status.rtt)),
            row("one way", of(&status.one_way)),
            Line::from(format!("{:<10}{:>6.2}", "jitter", status.jitter_ms)),
            Line::from(format!("{:<10}{clock}", "clock")),
            Line::from(format!("{:<10}{force:>6.2} N", "force")),
        ])
    }

    fn fates(&self) -> Text<'static> {
        let status = &self.progress.status;
        let (success, mbps) = (status.success * 100.0, status.throughput_bps / 1e6);
        let mut causes: Vec<_> = status.dropped.iter().collect();
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let causes: Vec<_> = causes
            .iter()
            .take(2)
            .map(|(cause, count)| format!("{} {count}", cause.replace('_', " ")))
            .collect();
        let dropped = if causes.is_empty() { "nothing".to_owned() } else { causes.join(", ") };
        let row = |name: &str, value: String| Line::from(format!("{name:<10}{value}"));
        Text::from(vec![
            row("sent", format!("{} @ {:.0}/s of {:.0}", status.messages, status.rate_hz, status.allowed_hz)),
            row("delivered", format!("{} ({success:.1} %)", status.delivered)),
            row("lost", format!("{}, late {}", status.lost, status.late)),
            row("dropped", dropped),
            row("rate", format!("{mbps:.2} Mbit/s")),
            row(
                "missed",
                format!("{} of {} samples", self.progress.missed, self.progress.made + self.progress.missed),
            ),
        ])
    }

    fn draw_plot(&self, frame: &mut Frame<'_>, area: Rect) {
        let first = HISTORY - self.history.len();
        let seconds = |index: usize| ((first + index) as f64 - HISTORY as f64) / 10.0;
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
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use taut_core::Duration;
    use taut_session::{Status, StopCause};

    fn screen(view: &View) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        (0..24).map(|y| (0..80).map(|x| buffer[(x, y)].symbol().to_owned()).collect()).collect()
    }

    fn moving() -> View {
        let mut view = View::new("robot:4433 over quic".to_owned());
        let at = Time::ZERO + Duration::from_millis(1_500);
        let connected =
            OperatorEvent::Connected { limits: Default::default(), watchdog: Duration::from_millis(100) };
        view.note(at, OperatorNote::Event(connected));
        let robot = OperatorEvent::Robot { state: RobotState::Enabled, cause: StopCause::Start };
        view.note(at, OperatorNote::Event(robot));
        let rtt = LatencySummary { count: 9, p50_ms: 20.25, p99_ms: 21.5, ..LatencySummary::default() };
        let dropped = [("superseded", 7), ("too_late", 2)].into_iter().collect();
        let status =
            Status { messages: 1_234, success: 0.995, rtt, dropped, rate_hz: 998.0, ..Status::default() };
        let round_trips = RoundTrips { count: 100, mean_ms: 20.3, max_ms: 31.0 };
        let progress = Progress { status, round_trips, ..Progress::default() };
        view.note(at, OperatorNote::Progress(Box::new(progress)));
        view
    }

    #[test]
    fn everything_is_readable_on_80_by_24() {
        let screen = screen(&moving());
        let all = screen.join("\n");
        for text in [
            "MOVING",
            "robot:4433 over quic",
            "round trip",
            "20.25",
            "21.50",
            "1234 @ 998/s",
            "(99.5 %)",
            "superseded 7, too late 2",
            "e or space: EMERGENCY STOP",
            "r: resume",
            "connected; the robot stops",
        ] {
            assert!(all.contains(text), "{text} is missing:\n{all}");
        }
        assert!(all.contains("the last minute"), "the plot:\n{all}");
        assert!(all.contains("50"), "the plot's scale reaches above 31 ms:\n{all}");
    }

    #[test]
    fn an_emergency_stop_shows_at_once_and_until_it_is_resumed() {
        let mut view = moving();
        view.press(OperatorCommand::EmergencyStop, true);
        assert!(screen(&view)[0].contains("NOT ACKNOWLEDGED YET"));
        let after = Duration::from_micros(400);
        view.note(Time::ZERO, OperatorNote::Event(OperatorEvent::EmergencyStopped { after }));
        assert!(screen(&view)[0].contains(" EMERGENCY STOP  "));
        view.note(Time::ZERO, OperatorNote::Event(OperatorEvent::Resumed));
        assert!(screen(&view)[0].contains("MOVING"));
    }

    #[test]
    fn a_terminal_that_is_too_small_is_drawn_all_the_same() {
        for (width, height) in [(1, 1), (20, 5), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| moving().draw(frame)).unwrap();
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut view = moving();
        for _ in 0..10_000 {
            view.note(Time::ZERO, OperatorNote::Progress(Box::default()));
            view.say("again");
        }
        assert_eq!((view.history.len(), view.said.len()), (HISTORY, SAID));
    }

    #[test]
    fn scales_end_in_1_2_or_5() {
        for (value, expected) in
            [(0.1, 0.1), (0.11, 0.2), (3.0, 5.0), (5.0, 5.0), (31.0, 50.0), (120.0, 200.0)]
        {
            assert!((ceiling(value) - expected).abs() < 1e-9, "{value}: {}", ceiling(value));
        }
    }

    #[test]
    fn keys_are_commands() {
        let key = |c| command_of(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        assert_eq!(key('e'), Some(OperatorCommand::EmergencyStop));
        assert_eq!(key(' '), Some(OperatorCommand::EmergencyStop));
        assert_eq!(key('r'), Some(OperatorCommand::Resume));
        assert_eq!(key('q'), Some(OperatorCommand::Close));
        assert_eq!(key('c'), None);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(command_of(ctrl_c), Some(OperatorCommand::Close));
    }
}
