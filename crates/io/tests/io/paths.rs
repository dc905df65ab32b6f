//! Sessions over interfaces that come and go, in namespaces of their own.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration as StdDuration, Instant};

use taut_agent::{OperatorNote, OperatorSettings, Playback, Progress, ResumePolicy, RobotCommand};
use taut_core::{Duration, PathId, Transmit};
use taut_io::session::{
    Credentials, Endpoint, EndpointError, OperateConfig, OperateError, PathMissing, PathSpec, Remote,
    RobotMachine, StackSpec, Told, TransportConfig, TransportKind, operate, os_identity, serve,
};
use taut_io::{Clock, Driver, DriverConfig, Port, UdpPort, UdpPortConfig};
use taut_netlab::Namespace;
use taut_session::{OperatorConfig, OperatorEvent, RobotConfig, State};
use taut_transport::identity::Trust;
use taut_transport::mtip::{MtipConfig, Policy};
use taut_transport::quic::{PathUse, QuicConfig};

use crate::machines::{Mirror, Rock, namespaces, turn_until};

/// An operator's host with the interfaces wwan0, wwan1, …, each of which leads to a robot's host of one address.
struct Hosts {
    operator: Namespace,
    robot: Namespace,
}

const ROBOT: &str = "10.91.0.2:4433";

impl Hosts {
    fn new(paths: u8) -> Option<Self> {
        let [operator, robot] = namespaces()?;
        robot.ip("addr add 10.91.0.2/32 dev lo").unwrap();
        let hosts = Self { operator, robot };
        (0..paths).for_each(|path| hosts.add(path));
        Some(hosts)
    }

    fn add(&self, path: u8) {
        let (near, far) = (format!("wwan{path}"), format!("up{path}"));
        let address = |end: u8| format!("10.9{}.0.{end}/24", 2 + path);
        Namespace::join((&self.operator, &near, &address(1)), (&self.robot, &far, &address(2))).unwrap();
        self.route(path);
    }

    /// Both ends send to an Ethernet address that nobody has: the interfaces stay up, and nothing arrives.
    fn silence(&self, path: u8) {
        for (end, device, peer) in [(&self.operator, "wwan", 2), (&self.robot, "up", 1)] {
            let to = format!("10.9{}.0.{peer} dev {device}{path}", 2 + path);
            end.ip(&format!("neigh replace {to} lladdr 02:00:00:00:00:99 nud permanent")).unwrap();
        }
    }

    fn speak(&self, path: u8) {
        for (end, device, peer) in [(&self.operator, "wwan", 2), (&self.robot, "up", 1)] {
            end.ip(&format!("neigh del 10.9{}.0.{peer} dev {device}{path}", 2 + path)).unwrap();
        }
    }

    fn route(&self, path: u8) {
        let via = format!("10.9{}.0.2 dev wwan{path} metric {}", 2 + path, 100 + u32::from(path));
        self.operator.ip(&format!("route add 10.91.0.2 via {via}")).unwrap();
    }
}

impl From<Policy> for Over {
    fn from(policy: Policy) -> Self {
        let deadline = Duration::from_millis(200);
        let config = MtipConfig::new().policy(policy).deadline(deadline).idle_timeout(deadline * 10);
        Self(StackSpec::Mtip(config).into())
    }
}

impl From<PathUse> for Over {
    fn from(path_use: PathUse) -> Self {
        let config = QuicConfig::multipath(path_use).idle_timeout(Duration::from_secs(2));
        Self(StackSpec::Mpquic(config).into())
    }
}

/// What carries a session.
struct Over(TransportConfig);

type Note = Told<OperatorNote>;

/// Runs `meanwhile` while an operator sends 500 states a second over `paths`. Gives what became of them, and the notes that nobody
/// waited for.
fn session(
    hosts: &Hosts,
    over: impl Into<Over>,
    paths: &[&str],
    meanwhile: impl FnOnce(&Receiver<Note>),
) -> (Result<Progress, OperateError>, Vec<Note>) {
    let Over(transport) = over.into();
    let transport = &transport;
    let (me, them) = (os_identity(), os_identity());
    let clock = Clock::start();
    let trust = |fingerprint| Trust::only(fingerprint);
    let robots = Credentials { identity: them.clone(), trust: trust(me.fingerprint()) };
    let operators = Credentials { identity: me, trust: trust(them.fingerprint()) };
    let remote: SocketAddr = ROBOT.parse().unwrap();
    let specs: Vec<PathSpec> = paths.iter().map(|path| path.parse().unwrap()).collect();
    let (note_sender, notes) = channel();
    let over = AtomicBool::new(false);
    let ended = &over;
    std::thread::scope(|scope| {
        let (sender, remotes) = channel::<Remote<RobotMachine<Rock>>>();
        let robot = scope.spawn(move || {
            let run = || {
                let at = "0.0.0.0:4433".parse().unwrap();
                let endpoint = Endpoint::listen(transport.clone(), at, Some(robots), &clock).unwrap();
                let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
                let started = |remote| sender.send(remote).unwrap();
                serve(driver, &endpoint, RobotConfig::new().into(), Rock::default(), started, &mut |_, _| {})
                    .unwrap();
            };
            hosts.robot.run(run).unwrap();
        });
        let robot_remote = remotes.recv().unwrap();
        let operator = scope.spawn(move || {
            hosts
                .operator
                .run(|| {
                    let endpoint =
                        Endpoint::connect(transport.clone(), remote, Some(operators), &clock).unwrap();
                    let endpoint = endpoint.over(&specs).unwrap();
                    let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
                    let session = OperatorConfig::new().rate(500).deadline(Duration::from_millis(200));
                    let agent = OperatorSettings::new(Duration::from_millis(2))
                        .resumes(ResumePolicy::Always)
                        .reports_by_time(Duration::from_millis(20));
                    let config = OperateConfig::new(session, agent);
                    let state = || (!ended.load(Ordering::Relaxed)).then(|| State::at(taut_core::Time::ZERO));
                    let device = Playback::new(std::iter::from_fn(state));
                    operate(driver, &endpoint, config, device, |_| {}, &mut |_, note| {
                        let _ = note_sender.send(note); // Nobody has to listen.
                    })
                })
                .unwrap()
        });
        meanwhile(&notes);
        over.store(true, Ordering::Relaxed);
        let outcome = operator.join().unwrap();
        robot_remote.send(RobotCommand::Close);
        robot.join().unwrap();
        (outcome, notes.try_iter().collect())
    })
}

/// Waits until a note is such; 10 s at most.
fn wait(notes: &Receiver<Note>, is_it: impl Fn(&Note) -> bool) {
    let end = Instant::now() + StdDuration::from_secs(10);
    while let Ok(note) = notes.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if is_it(&note) {
            return;
        }
    }
    panic!("it was not told");
}

fn there(path: u8) -> impl Fn(&Note) -> bool {
    move |note| matches!(note, Told::Path(note) if note.path.0 == path && note.missing.is_none())
}

fn gone(path: u8, why: PathMissing) -> impl Fn(&Note) -> bool {
    move |note| matches!(note, Told::Path(note) if note.path.0 == path && note.missing.as_ref() == Some(&why))
}

/// The transport has the path. That takes longer than the interface where the first packet found no route yet.
fn up(path: u8) -> impl Fn(&Note) -> bool {
    move |note| matches!(note, Told::Note(OperatorNote::Event(OperatorEvent::PathUp(PathId(up)))) if *up == path)
}

/// So many states have arrived.
fn delivered(count: u64) -> impl Fn(&Note) -> bool {
    move |note| matches!(note, Told::Note(OperatorNote::Progress(progress)) if progress.status.delivered >= count)
}

fn pause() {
    std::thread::sleep(StdDuration::from_millis(500));
}

/// A session that goes on to its end loses no more than `most`. A busy machine may leave either end without its turn for longer
/// than a conversation lasts, and only the operator knows of its own: there are three sessions at most, and the best is judged.
fn loses_at_most(most: u64, session: impl Fn() -> Option<Result<Progress, OperateError>>) {
    for attempt in 1.. {
        let Some(outcome) = session() else { return };
        let Progress { status, missed, .. } = outcome.expect("it goes on to the end");
        let lost = status.messages - status.delivered;
        println!("{lost} of {} were lost, {missed} missed", status.messages);
        if lost <= most && status.messages > 500 {
            return;
        }
        assert!(attempt < 3, "{status:?}");
    }
}

#[test]
fn a_session_outlives_every_interface_but_one_at_a_time() {
    loses_at_most(10, || {
        let hosts = Hosts::new(2)?;
        let (outcome, _) = session(&hosts, Policy::All, &["wwan0", "wwan1", "wwan2"], |notes| {
            wait(notes, gone(2, PathMissing::NoInterface));
            wait(notes, up(1));
            pause();
            hosts.operator.ip("link set wwan0 down").unwrap();
            wait(notes, gone(0, PathMissing::Down));
            pause();
            // Another one comes into being, and the first comes back.
            hosts.add(2);
            wait(notes, up(2));
            hosts.operator.ip("link set wwan0 up").unwrap();
            hosts.route(0);
            wait(notes, up(0));
            pause();
            hosts.operator.ip("link del wwan1").unwrap();
            wait(notes, gone(1, PathMissing::NoInterface));
            pause();
            hosts.operator.ip("addr del 10.94.0.1/24 dev wwan2").unwrap();
            wait(notes, gone(2, PathMissing::NoAddress));
            pause();
        });
        Some(outcome)
    });
}

#[test]
fn what_waits_for_neighbours_that_are_gone_holds_up_no_other_path_of_a_robot() {
    let Some([robot, operator]) = namespaces() else { return };
    Namespace::join((&robot, "v0", "10.96.0.1/24"), (&operator, "v0", "10.96.0.2/24")).unwrap();
    let server = operator.run(|| UdpSocket::bind("10.96.0.2:7")).unwrap().unwrap();
    let Over(transport) = Policy::All.into();
    let at = "10.96.0.1:4433".parse().unwrap();
    let identity = os_identity();
    let known = Credentials { trust: Trust::only(identity.fingerprint()), identity };
    let open = || Endpoint::listen(transport, at, Some(known), &Clock::start()).unwrap().open().unwrap().1;
    let Port::Udp(mut port) = robot.run(open).unwrap() else { panic!("it speaks over UDP") };
    let paths =
        ["10.96.0.77:7", "10.96.0.78:7", "10.96.0.2:7"].map(|to| port.add_path(0, to.parse().unwrap()));
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let from = driver.add(Mirror::default(), port).unwrap();
    // As many as a second of a session has. The last path is there.
    for path in paths {
        let transmit = Transmit { path: path.unwrap(), ..Transmit::default() };
        (0..500).for_each(|n| driver.command(from, (transmit, vec![0; 64 + n % 2])));
    }
    let to = driver.add(Mirror::default(), UdpPort::new(server, UdpPortConfig::new()).unwrap()).unwrap();
    turn_until(&mut driver, |events| events.iter().filter(|(machine, _)| *machine == to).count() >= 100);
    assert_eq!(driver.port_stats(from).unwrap().blocked, 0);
}

fn comes_back_with_the_first_path(over: impl Into<Over>) {
    let Some(hosts) = Hosts::new(1) else { return };
    let (outcome, _) = session(&hosts, over, &["wwan0"], |notes| {
        wait(notes, delivered(250));
        hosts.operator.ip("link del wwan0").unwrap();
        wait(notes, gone(0, PathMissing::NoInterface));
        std::thread::sleep(StdDuration::from_millis(1_000));
        let counts = notes.try_iter().filter_map(|note| match note {
            Told::Note(OperatorNote::Progress(progress)) => Some(progress.status.delivered),
            _ => None,
        });
        let before = counts.last().expect("it reports also without a path");
        hosts.add(0);
        wait(notes, delivered(before + 250));
    });
    outcome.expect("it comes back");
}

#[test]
fn a_session_that_has_lost_every_path_comes_back_with_the_first_one() {
    comes_back_with_the_first_path(Policy::Deadline(Default::default()));
}

#[test]
fn paths_that_never_come_up_end_in_an_error_and_not_before() {
    let Some(hosts) = Hosts::new(0) else { return };
    let began = Instant::now();
    let (outcome, notes) = session(&hosts, Policy::All, &["wwan7", "10.99.0.1"], |_| {});
    assert!(matches!(outcome, Err(OperateError::NotConnected(_))), "{outcome:?}");
    assert!(began.elapsed() >= StdDuration::from_secs(4));
    let notes: Vec<_> = notes.into_iter().filter(|note| matches!(note, Told::Path(_))).collect();
    assert_eq!(notes.len(), 2, "each is told once: {notes:?}");
    assert!(notes.iter().any(gone(0, PathMissing::NoInterface)));
    assert!(notes.iter().any(gone(1, PathMissing::NotOurs)));
}

#[test]
fn an_address_that_vanishes_costs_a_path_and_nothing_else() {
    loses_at_most(10, || {
        let hosts = Hosts::new(2)?;
        let (outcome, _) = session(&hosts, Policy::All, &["10.92.0.1", "10.93.0.1"], |notes| {
            wait(notes, up(1));
            pause();
            hosts.operator.ip("addr del 10.92.0.1/24 dev wwan0").unwrap();
            wait(notes, gone(0, PathMissing::NotOurs));
            pause();
            hosts.operator.ip("addr add 10.92.0.1/24 dev wwan0").unwrap();
            hosts.route(0);
            wait(notes, there(0));
            pause();
        });
        Some(outcome)
    });
}

#[test]
fn multipath_quic_leaves_a_path_that_falls_silent_and_takes_it_back() {
    // Until it is abandoned, after half a second, what is sent there is lost, and the session lowers its rate; of copies only what
    // waits for acknowledgements that left there.
    for (path_use, most_lost) in [(PathUse::FailOver, 2 * 250 + 100), (PathUse::Duplicate, 100)] {
        loses_at_most(most_lost, || {
            let hosts = Hosts::new(2)?;
            let (outcome, _) = session(&hosts, path_use, &["wwan0", "wwan1"], |notes| {
                wait(notes, up(1));
                pause();
                hosts.silence(0);
                std::thread::sleep(StdDuration::from_millis(1_000));
                hosts.speak(0);
                std::thread::sleep(StdDuration::from_millis(1_500));
                // By now it is open again, and has to carry everything.
                hosts.silence(1);
                std::thread::sleep(StdDuration::from_millis(1_000));
            });
            Some(outcome)
        });
    }
}

#[test]
fn multipath_quic_follows_interfaces_that_come_and_go() {
    for path_use in [PathUse::FailOver, PathUse::Duplicate] {
        loses_at_most(20, || {
            let hosts = Hosts::new(2)?;
            let (outcome, _) = session(&hosts, path_use, &["wwan0", "wwan1", "wwan2"], |notes| {
                wait(notes, gone(2, PathMissing::NoInterface));
                wait(notes, up(1));
                pause();
                hosts.operator.ip("link set wwan0 down").unwrap();
                wait(notes, gone(0, PathMissing::Down));
                pause();
                hosts.add(2);
                wait(notes, up(2));
                pause();
                hosts.operator.ip("link del wwan1").unwrap();
                wait(notes, gone(1, PathMissing::NoInterface));
                pause();
                hosts.operator.ip("link set wwan0 up").unwrap();
                hosts.route(0);
                wait(notes, up(0));
                pause();
                hosts.operator.ip("addr del 10.94.0.1/24 dev wwan2").unwrap();
                wait(notes, gone(2, PathMissing::NoAddress));
                pause();
            });
            Some(outcome)
        });
    }
}

#[test]
fn multipath_quic_that_has_lost_every_path_goes_on_over_the_first_that_comes_back() {
    comes_back_with_the_first_path(PathUse::FailOver);
}

#[test]
fn what_cannot_be_bound_to_paths_says_so() {
    let remote = "127.0.0.1:9".parse().unwrap();
    let over = |kind: TransportKind, paths: &[&str]| {
        let paths: Vec<PathSpec> = paths.iter().map(|path| path.parse().unwrap()).collect();
        let me = os_identity();
        let trust = Trust::only(me.fingerprint());
        let credentials = Some(Credentials { identity: me, trust });
        let endpoint = Endpoint::connect(kind, remote, credentials, &Clock::start()).unwrap();
        endpoint.over(&paths).map(drop)
    };
    assert!(over(TransportKind::Mtip, &["lo", "127.0.0.1"]).is_ok());
    assert!(over(TransportKind::Mpquic, &["lo", "127.0.0.1"]).is_ok());
    assert!(over(TransportKind::Udp, &["lo"]).is_ok() && over(TransportKind::Tcp, &[]).is_ok());
    assert!(matches!(over(TransportKind::Quic, &["lo", "eth0"]), Err(EndpointError::OnePath(_))));
    assert!(matches!(over(TransportKind::Tcp, &["lo"]), Err(EndpointError::NoPaths(_))));
    assert!(matches!(over(TransportKind::Mtip, &["lo", "lo"]), Err(EndpointError::SamePath(_))));
    let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    assert!(matches!(over(TransportKind::Mtip, &nine), Err(EndpointError::TooManyPaths(9))));
}
