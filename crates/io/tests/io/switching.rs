//! Both ends of a session go over one transport after the other, from the sockets that they have.

use std::iter::Repeat;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration as StdDuration;

use taut_agent::{OperatorCommand, OperatorNote, OperatorSettings, Playback, ResumePolicy, RobotCommand};
use taut_core::{Duration, Time};
use taut_io::session::{
    Credentials, Endpoint, EndpointError, OperateConfig, OperatorMachine, Remote, RobotMachine, Told,
    TransportConfig, TransportKind, operate, os_identity, serve,
};
use taut_io::{Alarm, Clock, Driver, DriverConfig};
use taut_session::{OperatorConfig, OperatorEvent, ResumeError, RobotConfig, State};
use taut_transport::identity::Trust;

use crate::machines::Rock;

const PATIENCE: StdDuration = StdDuration::from_secs(20);
/// Longer than a busy machine lets a thread wait.
const WATCHDOG: Duration = Duration::from_secs(2);

/// Does it when it is dropped.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The next note that is so.
fn wait_for(notes: &Receiver<OperatorNote>, what: &str, is_so: impl Fn(&OperatorNote) -> bool) {
    loop {
        let note = notes.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not happen"));
        assert!(!matches!(note, OperatorNote::Ended(_)), "{what}: {note:?}");
        if is_so(&note) {
            return;
        }
    }
}

fn is_event(note: &OperatorNote, is_it: impl Fn(&OperatorEvent) -> bool) -> bool {
    matches!(note, OperatorNote::Event(event) if is_it(event))
}

/// Both ends of a session, and what the operator tells.
struct Ends<'a> {
    here: &'a Endpoint,
    there: &'a Endpoint,
    robot: &'a Remote<RobotMachine<Rock>>,
    operator: &'a Remote<OperatorMachine<Playback<Repeat<State>>>>,
    notes: &'a Receiver<OperatorNote>,
}

/// A robot that has left its conversation twice before anybody came, and an operator then.
fn with_a_session(first: TransportKind, test: impl FnOnce(&Ends<'_>)) {
    let clock = Clock::start();
    let [own, peer] = [os_identity(), os_identity()];
    let [trusts_own, trusts_peer] = [&own, &peer].map(|identity| Trust::only(identity.fingerprint()));
    let (robots, operators) = (
        Credentials { identity: peer, trust: trusts_own },
        Credentials { identity: own, trust: trusts_peer },
    );
    let here = Endpoint::listen(first, "127.0.0.1:0".parse().unwrap(), Some(robots), &clock).unwrap();
    let there = Endpoint::connect(first, here.local_addr().unwrap(), Some(operators), &clock).unwrap();
    let (tell, notes): (Sender<OperatorNote>, _) = channel();
    std::thread::scope(|scope| {
        let ((at_robot, robots), (at_operator, operators)) = (channel(), channel());
        scope.spawn(|| {
            let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
            let started = move |remote| at_robot.send(remote).unwrap();
            serve(
                driver,
                &here,
                RobotConfig::new().watchdog(WATCHDOG).into(),
                Rock::default(),
                started,
                &mut |_, _| {},
            )
            .unwrap();
        });
        let robot = robots.recv().unwrap();
        // Also where something does not happen: the scope waits for both.
        let _robot_ends = AtEnd(|| _ = robot.send(RobotCommand::Close));
        // Also while nobody is there: who comes then is served.
        robot.send(RobotCommand::Reconnect);
        robot.send(RobotCommand::Reconnect);
        std::thread::park_timeout(StdDuration::from_millis(100));
        scope.spawn(|| {
            let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
            let agent = OperatorSettings::new(Duration::from_millis(5)).resumes(ResumePolicy::Never);
            let config = OperateConfig::new(OperatorConfig::new(), agent);
            let hand = Playback::new(std::iter::repeat(State::at(Time::ZERO)));
            let started = move |remote| at_operator.send(remote).unwrap();
            let tell = &mut |_, told| {
                if let Told::Note(note) = told {
                    let _ = tell.send(note);
                }
            };
            operate(driver, &there, config, hand, started, tell).unwrap();
        });
        let operator = operators.recv().unwrap();
        let _operator_ends = AtEnd(|| _ = operator.send(OperatorCommand::Close));
        let (here, there, notes) = (&here, &there, &notes);
        test(&Ends { here, there, robot: &robot, operator: &operator, notes });
    });
}

fn is_connected(note: &OperatorNote) -> bool {
    is_event(note, |event| matches!(event, OperatorEvent::Connected { .. }))
}

#[test]
fn a_session_goes_over_each_transport_in_turn_and_a_stop_stays() {
    let first = TransportKind::Udp;
    with_a_session(first, |ends| {
        let Ends { here, there, robot, operator, notes } = *ends;
        let moves = |over: &str| {
            wait_for(notes, &format!("a session over {over}"), is_connected);
            // The clocks are compared a moment later.
            std::thread::park_timeout(StdDuration::from_millis(100));
            operator.send(OperatorCommand::Resume);
        };
        let is_resumed = |note: &OperatorNote| is_event(note, |event| *event == OperatorEvent::Resumed);
        moves("udp");
        wait_for(notes, "a resume", is_resumed);
        let datagrams = TransportKind::SHIPPED.into_iter().filter(|kind| *kind != TransportKind::Tcp);
        // Over the same one anew, too.
        for kind in datagrams.chain([TransportKind::Quic, TransportKind::Quic, first]) {
            for endpoint in [here, there] {
                endpoint.switch(kind).unwrap();
            }
            robot.send(RobotCommand::Reconnect);
            operator.send(OperatorCommand::Reconnect);
            moves(kind.name());
            wait_for(notes, "a resume", is_resumed);
            assert_eq!((here.kind(), there.kind()), (kind, kind));
        }
        operator.stop(Alarm::Pressed);
        wait_for(notes, "a stop", |note| {
            is_event(note, |event| matches!(event, OperatorEvent::EmergencyStopped { .. }))
        });
        for endpoint in [here, there] {
            endpoint.switch(TransportKind::Sctp).unwrap();
        }
        robot.send(RobotCommand::Reconnect);
        operator.send(OperatorCommand::Reconnect);
        moves("sctp");
        wait_for(notes, "a refusal", |note| matches!(note, OperatorNote::NotResumed(ResumeError::Latched)));
    });
}

#[test]
fn a_robot_that_leaves_its_conversation_over_tcp_serves_whoever_comes_then() {
    with_a_session(TransportKind::Tcp, |ends| {
        wait_for(ends.notes, "a session", is_connected);
        // While the operator is there: it comes again.
        ends.robot.send(RobotCommand::Reconnect);
        wait_for(ends.notes, "a session again", is_connected);
    });
}

#[test]
fn an_endpoint_is_not_switched_to_what_its_socket_or_its_security_is_not_for() {
    let (clock, any) = (Clock::start(), "127.0.0.1:0".parse().unwrap());
    let listen = |kind| Endpoint::listen(kind, any, None, &clock).unwrap();
    let refused =
        |from: &Endpoint, to| from.switch(TransportConfig::from(to)).expect_err("it is not to be had");
    let udp = listen(TransportKind::Udp);
    assert!(matches!(refused(&udp, TransportKind::Tcp), EndpointError::OtherSocket(TransportKind::Tcp)));
    assert!(matches!(refused(&udp, TransportKind::Quic), EndpointError::AlwaysEncrypted));
    let tcp = listen(TransportKind::Tcp);
    assert!(matches!(refused(&tcp, TransportKind::Udp), EndpointError::OtherSocket(TransportKind::Udp)));
    assert_eq!((udp.kind(), tcp.kind()), (TransportKind::Udp, TransportKind::Tcp));
}
