use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect()).collect()
}

fn screen(view: &View) -> Vec<String> {
    drawn(view, 80, 24)
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn moving() -> View {
    let mut view = View::new("robot:4433 over quic".to_owned(), Keys::Buttons);
    let connected = OperatorEvent::Connected {
        limits: Default::default(),
        watchdog: Duration::from_millis(100),
        max_age: Duration::from_millis(100),
        hold_to_run: false,
    };
    view.note(at(1_500), OperatorNote::Event(connected));
    let robot = OperatorEvent::Robot { state: RobotState::Enabled, cause: StopCause::Start };
    view.note(at(1_500), OperatorNote::Event(robot));
    let rtt = LatencySummary { count: 9, p50_ms: 20.25, p99_ms: 21.5, ..LatencySummary::default() };
    let dropped = [("superseded", 668), ("too_late", 2)].into_iter().collect();
    let status = Status {
        messages: 1_234,
        success: 0.995,
        rtt,
        dropped,
        elapsed_s: 1.0,
        rate_hz: 998.0,
        allowed_hz: 1_000.0,
        ..Status::default()
    };
    let round_trips = RoundTrips { count: 100, mean_ms: 20.3, max_ms: 31.0 };
    let robot_force = Some([0.0, 0.0, 1.97]);
    let progress = Progress { status, round_trips, robot_force, ..Progress::default() };
    view.note(at(1_500), OperatorNote::Progress(Box::new(progress)));
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
        "mean 20.30, max 31.00",
        "1234/s of 1000",
        "(99.5 %)",
        "superseded 668, too late 2",
        "1.97 N",
        "e, space or Esc: EMERGENCY STOP",
        "r: resume",
        "connected; the robot stops",
    ] {
        assert!(all.contains(text), "{text} is missing:\n{all}");
    }
    assert!(all.contains("the last minute"), "the plot:\n{all}");
    assert!(all.contains("50"), "the plot's scale reaches above 31 ms:\n{all}");
}

#[test]
fn keys_that_drive_are_named_above_those_that_stop() {
    let view = View { keys: Keys::Driving, ..moving() };
    let screen = screen(&view);
    let [.., driving, buttons] = &screen[..] else { panic!("{screen:?}") };
    assert!(driving.starts_with(" hold  w s: forth, back ") && driving.contains("o p: grip "), "{driving}");
    assert!(buttons.contains("Esc: EMERGENCY STOP") && buttons.contains("q: quit"), "{buttons}");
    assert!(screen.join("\n").contains("connected; the robot stops"), "{screen:?}");
}

#[test]
fn a_robot_that_does_not_answer_is_not_said_to_move_and_its_force_is_blank_until_it_answers() {
    let mut view = moving();
    view.note(at(2_000), OperatorNote::NoAnswer { silence: Duration::from_millis(120) });
    let progress = view.progress.clone();
    view.note(at(2_480), OperatorNote::Progress(Box::new(progress)));
    let all = screen(&view).join("\n");
    assert!(all.starts_with(" NO ANSWER for 0.6 s: a robot that hears nothing stops "), "{all}");
    let first = all.lines().next().unwrap();
    assert!(!first.contains("MOVING") && !all.contains("1.97"), "{all}");
    view.press(at(2_490), &Press::Stop, true);
    let head = &screen(&view)[0];
    assert!(head.starts_with(" EMERGENCY STOP, NOT ACKNOWLEDGED YET, NO ANSWER for 0.6 s "), "{head}");
    view.emergency = Emergency::None;
    view.note(at(2_600), OperatorNote::AnswersAgain { silence: Duration::from_millis(720) });
    let all = screen(&view).join("\n");
    assert!(all.starts_with(" MOVING ") && all.contains("1.97 N"), "{all}");
    assert!(all.contains("2.60 s  the robot answers again, after 0.72 s"), "{all}");
}

#[test]
fn keys_carry_the_moment_at_which_they_were_pressed() {
    let mut view = moving();
    view.press(at(6_078), &Press::Stop, true);
    let after = Duration::from_micros(1_900);
    view.note(at(6_080), OperatorNote::Event(OperatorEvent::EmergencyStopped { after, kept: true }));
    let all = screen(&view).join("\n");
    assert!(all.contains("6.08 s  emergency stop pressed"), "{all}");
    assert!(all.contains("6.08 s  EMERGENCY STOP, acknowledged after 1.9 ms"), "{all}");
}

#[test]
fn the_robot_is_called_the_same_above_and_among_the_events() {
    for (state, cause, word, helps) in [
        (RobotState::Fault, StopCause::Emergency, "STOPPED", ": reset it (c), then resume (r)"),
        (
            RobotState::Fault,
            StopCause::LocalEmergency,
            "STOPPED",
            ": let go of it at the robot (r there), then resume (r)",
        ),
        (RobotState::Paused, StopCause::Watchdog, "PAUSED", ": r lets it move"),
        (RobotState::Enabled, StopCause::Start, "MOVING", ""),
    ] {
        let mut view = moving();
        view.note(at(2_000), OperatorNote::Event(OperatorEvent::Robot { state, cause }));
        let screen = screen(&view);
        assert!(screen[0].starts_with(&format!(" {word}{helps} ")), "{}", screen[0]);
        let all = screen.join("\n");
        let why = if state == RobotState::Enabled { "" } else { "; its last stop:" };
        assert!(all.contains(&format!("2.00 s  the robot is {word}{why}")), "{all}");
        assert!(!all.contains("FAULT") && !all.contains("ENABLED"), "{all}");
    }
    let mut view = moving();
    view.press(at(2_000), &Press::Stop, true);
    let after = Duration::from_millis(2);
    view.note(at(2_010), OperatorNote::Event(OperatorEvent::EmergencyStopped { after, kept: true }));
    assert!(screen(&view)[0].starts_with(" STOPPED: reset it (c), then resume (r) "), "{}", screen(&view)[0]);
}

#[test]
fn rates_are_those_of_the_last_second() {
    let mut view = moving();
    for report in 1..=20_u64 {
        // It was quick for one second, and then stands at 100 states a second.
        let status = Status {
            elapsed_s: 1.0 + report as f64 / 10.0,
            messages: 1_234 + 10 * report,
            allowed_hz: 1_000.0,
            ..Status::default()
        };
        let progress = Progress { status, ..Progress::default() };
        view.note(at(1_500 + 100 * report), OperatorNote::Progress(Box::new(progress)));
    }
    let all = screen(&view).join("\n");
    assert!(all.contains("100/s of 1000"), "{all}");
}

#[test]
fn events_get_more_room_on_a_larger_terminal_and_paths_a_line_each() {
    let mut view = moving();
    let path = |path| PathEstimate {
        path: PathId(path),
        up: path == 0,
        loss: 0.002,
        in_time: 0.9985,
        one_way_p50: Some(Duration::from_millis(20)),
        one_way_p99: Some(Duration::from_millis(31)),
        round_trip_p99: Some(Duration::from_micros(60_250)),
    };
    view.progress.choices = Some(taut_transport::mtip::ChoiceReport {
        stats: Default::default(),
        target: None,
        deadline: Duration::from_millis(15),
        paths: vec![path(0), path(1)],
    });
    for second in 0..20 {
        view.say(at(1_000 * second), format!("event {second} "));
    }
    let all = drawn(&view, 120, 40).join("\n");
    assert!((0..20).filter(|n| all.contains(&format!("event {n} "))).count() >= 8, "{all}");
    for text in ["path 0    up, round trip p99 60.25 ms, in time 99.9 %", "path 1    NO ANSWER, round trip"] {
        assert!(all.contains(text), "{text} is missing:\n{all}");
    }
}

#[test]
fn an_emergency_stop_shows_at_once_and_until_it_is_resumed() {
    let mut view = moving();
    view.press(at(1_600), &Press::Stop, true);
    assert!(screen(&view)[0].contains("NOT ACKNOWLEDGED YET"));
    let after = Duration::from_micros(400);
    view.note(Time::ZERO, OperatorNote::Event(OperatorEvent::EmergencyStopped { after, kept: true }));
    assert!(screen(&view)[0].starts_with(" STOPPED: reset it (c), then resume (r) "));
    view.note(Time::ZERO, OperatorNote::Event(OperatorEvent::Resumed));
    assert!(screen(&view)[0].contains("MOVING"));
}

#[test]
fn a_terminal_that_is_too_small_is_drawn_all_the_same() {
    for (width, height) in [(1, 1), (20, 5), (300, 100)] {
        drawn(&moving(), width, height);
    }
}

#[test]
fn memory_is_bounded() {
    let mut view = moving();
    for _ in 0..10_000 {
        view.note(Time::ZERO, OperatorNote::Progress(Box::default()));
        view.say(Time::ZERO, "again".to_owned());
    }
    assert_eq!((view.history.len(), view.said.len()), (HISTORY, SAID));
}

#[test]
fn scales_end_in_1_2_or_5() {
    for (value, expected) in [(0.1, 0.1), (0.11, 0.2), (3.0, 5.0), (5.0, 5.0), (31.0, 50.0), (120.0, 200.0)] {
        assert!((ceiling(value) - expected).abs() < 1e-9, "{value}: {}", ceiling(value));
    }
}
