//! No application gets what is stale: two proxies in virtual time, whose applications alone have real sockets.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration as StdDuration;

use taut_core::{Datagram, DropCause, Duration, Ecn, PathId, Time, Transport};
use taut_io::Machine;
use taut_io::proxy::{ProxyConfig, ProxyLocal, ProxyMachine, ProxyStats};
use taut_io::session::Carrier;
use taut_transport::mtip::{Mode, Mtip, MtipConfig};
use taut_transport::stack::Bare;
use taut_transport::udp::{Udp, UdpConfig};

const MS: Duration = Duration::from_millis(1);
const DEADLINE: Duration = Duration::from_millis(200);

/// Between the two.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Udp,
    Mtip,
    /// The published protocol, which wants synchronised clocks.
    CompatibleMtip,
}

/// An end, and how far its clock is ahead of the world's.
struct End {
    machine: ProxyMachine,
    ahead: Duration,
}

/// What one end sent: when it is at the other one, and the bytes.
type Wire = VecDeque<(Time, PathId, Vec<u8>)>;

struct World {
    now: Time,
    ends: [End; 2],
    delay: [Duration; 2],
    wires: [Wire; 2],
    /// The network delivers nothing and loses nothing.
    is_cut: bool,
    operator: UdpSocket,
    near_address: SocketAddr,
    robot: UdpSocket,
    /// When what the robot got was said, and when it got it.
    got: Vec<(Time, Time)>,
}

pub(crate) fn application() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn carrier(way: Way, is_near: bool) -> Carrier {
    let mtip = |config: MtipConfig| {
        let config = config.deadline(DEADLINE);
        if is_near {
            let mut mtip = Mtip::client(config, 7);
            mtip.add_path(Time::ZERO, PathId(0));
            Bare::Mtip(mtip)
        } else {
            Bare::Mtip(Mtip::server(config))
        }
    };
    let bare = match way {
        Way::Udp => Bare::Udp(Udp::new(UdpConfig::new())),
        Way::Mtip => mtip(MtipConfig::new()),
        Way::CompatibleMtip => mtip(MtipConfig::new().mode(Mode::Compatible(Vec::new()))),
    };
    Carrier::Stack(bare.into())
}

impl World {
    fn new(way: Way, config: ProxyConfig) -> Self {
        let (robot, applications) = (application(), application());
        let near_address = applications.local_addr().unwrap();
        let locals = [ProxyLocal::Near(applications), ProxyLocal::Far(robot.local_addr().unwrap())];
        let mut is_near = true;
        let ends = locals.map(|local| {
            let carrier = carrier(way, std::mem::take(&mut is_near));
            End {
                machine: ProxyMachine::new(carrier, local, config).unwrap(),
                ahead: Duration::from_secs(100),
            }
        });
        Self {
            now: Time::ZERO,
            ends,
            delay: [MS * 10; 2],
            wires: Default::default(),
            is_cut: false,
            operator: application(),
            near_address,
            robot,
            got: Vec::new(),
        }
    }

    fn says(&self) {
        let text = self.now.as_nanos().to_be_bytes();
        self.operator.send_to(&text, self.near_address).unwrap();
    }

    /// So many milliseconds in which the operator says something every 10.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            if self.now.as_nanos().is_multiple_of(10_000_000) {
                self.says();
            }
            self.pass();
        }
    }

    /// A millisecond.
    fn pass(&mut self) {
        for (to, wire) in self.wires.iter_mut().enumerate() {
            let End { machine, ahead } = &mut self.ends[to];
            let now = self.now + *ahead;
            while !self.is_cut && wire.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, path, data) = wire.pop_front().unwrap();
                machine.handle_input(now, Datagram { path, ecn: Ecn::NotCapable, data: &data, padding: 0 });
                while machine.poll_event(now).is_some() {}
            }
        }
        for from in 0..2 {
            let End { machine, ahead } = &mut self.ends[from];
            let now = self.now + *ahead;
            machine.handle_timeout(now);
            while machine.poll_event(now).is_some() {}
            let mut data = Vec::new();
            while let Some(transmit) = machine.poll_transmit(now, &mut data) {
                let data = std::mem::take(&mut data);
                self.wires[1 - from].push_back((self.now + self.delay[from], transmit.path, data));
            }
        }
        let mut said = [0; 8];
        while self.robot.recv(&mut said).is_ok() {
            self.got.push((Time::from_nanos(u64::from_be_bytes(said)), self.now));
        }
        self.now += MS;
    }

    /// A new process in the place of one end. The applications of the near end speak to another port.
    fn restart(&mut self, end: usize, config: ProxyConfig) {
        let local = if end == 0 {
            let applications = application();
            self.near_address = applications.local_addr().unwrap();
            ProxyLocal::Near(applications)
        } else {
            ProxyLocal::Far(self.robot.local_addr().unwrap())
        };
        self.ends[end].machine = ProxyMachine::new(carrier(Way::Udp, end == 0), local, config).unwrap();
    }

    fn stats(&self, end: usize) -> ProxyStats {
        let End { machine, ahead } = &self.ends[end];
        machine.report(self.now + *ahead)
    }

    fn oldest(&self) -> Duration {
        self.got.iter().map(|(said, got)| *got - *said).max().unwrap_or_default()
    }

    /// How many the robot got of what was said since then.
    fn since(&self, ms: u64) -> usize {
        self.got.iter().filter(|(said, _)| *said >= Time::ZERO + MS * ms).count()
    }
}

pub(crate) fn dropped(stats: &ProxyStats, cause: DropCause) -> u64 {
    stats.dropped.get(&cause).copied().unwrap_or(0)
}

#[test]
fn after_a_cut_nothing_past_its_deadline_is_given_and_what_is_fresh_is() {
    for way in [Way::Udp, Way::Mtip, Way::CompatibleMtip] {
        for delay in [[10, 10], [90, 5], [5, 90]] {
            let mut world = World::new(way, ProxyConfig::new().deadline(Some(DEADLINE)));
            world.delay = delay.map(|ms| MS * ms);
            world.run(1_500);
            assert!(world.since(500) >= 80, "{way:?} {delay:?}: {}", world.got.len());
            // Shorter than the silence after which MTIP ends a conversation.
            world.is_cut = true;
            world.run(4_000);
            let during = world.got.len();
            world.is_cut = false;
            world.run(1_500);
            assert!(world.oldest() < DEADLINE, "{way:?} {delay:?}: {}", world.oldest());
            assert!(world.since(6_500) >= 35, "{way:?} {delay:?}: what is fresh comes again");
            let late = dropped(&world.stats(1), DropCause::TooLate);
            // MTIP refuses by itself what is certainly late.
            assert!(late >= if way == Way::Udp { 300 } else { 0 }, "{way:?}: {late} of {during}");
        }
    }
}

#[test]
fn what_comes_before_the_clocks_were_compared_is_held_until_its_age_is_known() {
    let mut world = World::new(Way::Udp, ProxyConfig::new());
    world.delay = [MS * 20; 2];
    world.ends[1].ahead = Duration::from_secs(3_600);
    world.says();
    (0..200).for_each(|_| world.pass());
    assert_eq!(world.got.len(), 1, "the only one, the first");
    assert!(world.oldest() >= MS * 20 && world.oldest() < MS * 80, "{}", world.oldest());
    let clock = world.stats(1).clock;
    assert!(clock.uncertainty.is_some_and(|doubt| doubt < MS * 25) && clock.steps == 0, "{clock:?}");
}

#[test]
fn what_waited_in_the_network_before_the_clocks_were_compared_is_dropped_when_its_age_is_known() {
    let mut world = World::new(Way::Udp, ProxyConfig::new());
    world.is_cut = true;
    // The far end begins after what is on its way to it was said.
    world.run(1_000);
    world.restart(1, ProxyConfig::new());
    world.ends[1].ahead = Duration::ZERO;
    world.is_cut = false;
    world.run(500);
    assert!(world.oldest() < DEADLINE, "{}", world.oldest());
    assert!(world.since(1_000) >= 45, "{}", world.got.len());
    assert!(dropped(&world.stats(1), DropCause::TooLate) >= 80);
}

#[test]
fn what_stays_of_unknown_age_is_never_given() {
    let mut world = World::new(Way::Udp, ProxyConfig::new());
    world.run(50);
    // No answer comes back.
    world.restart(1, ProxyConfig::new());
    for _ in 0..2_000 {
        world.wires[0].clear();
        world.run(1);
    }
    let (got, stats) = (world.since(50), world.stats(1));
    assert_eq!((got, stats.clock.uncertainty), (0, None));
    assert!(dropped(&stats, DropCause::TooLate) >= 150, "{stats:?}");
    world.run(500);
    assert!(world.since(2_050) >= 40 && world.oldest() < DEADLINE);
}

#[test]
fn a_clock_that_is_set_lets_nothing_stale_through() {
    for (end, forward) in [(0, true), (0, false), (1, true), (1, false)] {
        let mut world = World::new(Way::Udp, ProxyConfig::new());
        world.run(1_000);
        world.is_cut = true;
        world.run(4_000);
        let ahead = &mut world.ends[end].ahead;
        let step = Duration::from_secs(10);
        *ahead = if forward { *ahead + step } else { *ahead - step };
        world.is_cut = false;
        world.run(1_500);
        assert!(world.oldest() < DEADLINE, "{end} {forward}: {}", world.oldest());
        assert!(world.since(5_700) >= 60, "{end} {forward}: {}", world.since(5_700));
        assert!(world.stats(1).clock.steps >= 1);
    }
}

#[test]
fn of_a_flow_what_was_overtaken_is_dropped_and_kept_where_that_is_wanted() {
    for keep in [false, true] {
        let mut world = World::new(Way::Udp, ProxyConfig::new().keep_overtaken(keep));
        world.run(200);
        let before = world.got.len();
        // Three frames at once, the first last, and the third twice.
        world.is_cut = true;
        (0..3).for_each(|_| {
            world.says();
            world.pass();
        });
        let datagrams =
            |wire: &Wire| wire.iter().filter(|(.., data)| data[0] == 0x21).cloned().collect::<Vec<_>>();
        let all = datagrams(&world.wires[1]);
        let [.., first, second, third] = &all[..] else { panic!("three") };
        world.wires[1].retain(|(.., data)| data[0] != 0x21);
        world.wires[1].extend([third, second, third, first].map(Clone::clone));
        world.is_cut = false;
        (0..20).for_each(|_| world.pass());
        let stats = world.stats(1);
        let drops = [DropCause::Superseded, DropCause::Duplicate].map(|cause| dropped(&stats, cause));
        assert_eq!(world.got.len() - before, if keep { 3 } else { 1 }, "{stats:?}");
        assert_eq!(drops, if keep { [0, 1] } else { [2, 1] });
        assert_eq!(stats.arrived, stats.given + stats.dropped.values().sum::<u64>());
    }
}

#[test]
fn an_end_that_was_started_again_has_overtaken_nothing() {
    for end in [0, 1] {
        let config = ProxyConfig::new();
        let mut world = World::new(Way::Udp, config);
        world.run(1_000);
        world.ends[end].ahead = Duration::from_secs(7);
        world.restart(end, config);
        world.run(500);
        assert!(world.since(1_000) >= 40 && world.oldest() < DEADLINE, "{end}: {}", world.since(1_000));
        assert_eq!(dropped(&world.stats(1), DropCause::Superseded), 0);
    }
}

#[test]
fn where_a_round_trip_is_as_long_as_the_deadline_strictness_gives_nothing_and_the_default_what_is_probably_in_time()
 {
    for strict in [false, true] {
        let mut world = World::new(Way::Udp, ProxyConfig::new().strictly_in_time(strict));
        world.delay = [MS * 110; 2];
        world.run(2_000);
        assert_eq!(world.since(500) >= 130, !strict, "{} {:?}", world.got.len(), world.stats(1));
        assert!(world.oldest() < DEADLINE);
    }
}

#[test]
fn the_shorter_deadline_of_the_two_ends_counts() {
    for [near, far] in [[50, 1_000], [1_000, 50]] {
        let config = |ms| ProxyConfig::new().deadline(Some(MS * ms));
        let mut world = World::new(Way::Udp, config(near));
        world.restart(1, config(far));
        world.run(500);
        world.is_cut = true;
        world.run(60);
        world.is_cut = false;
        world.run(500);
        assert!(world.oldest() < MS * 50 && world.got.len() >= 90, "{}", world.oldest());
    }
}

#[test]
fn what_waited_for_its_own_proxy_is_as_much_older() {
    for [near, far] in [[50, 10_000], [10_000, 50]] {
        let config = |ms| ProxyConfig::new().deadline(Some(MS * ms));
        let mut world = World::new(Way::Udp, config(near));
        world.restart(1, config(far));
        world.run(300);
        (0..40).for_each(|_| world.pass());
        let before = world.got.len();
        // In real time: the near end's thread has no CPU.
        world.says();
        std::thread::sleep(StdDuration::from_millis(80));
        (0..40).for_each(|_| world.pass());
        assert_eq!(world.got.len(), before, "{near} {far}");
        let late = [0, 1].map(|end| dropped(&world.stats(end), DropCause::TooLate));
        assert!(late[usize::from(far < near)] >= 1, "{near} {far}: {late:?}");
    }
}
