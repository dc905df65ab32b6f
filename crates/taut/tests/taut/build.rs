//! Both ends in a loop of the caller's own: no socket, no thread, and a time that is made up.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut::{
    Channel, Identity, OperatorBuilder, OperatorEvent, OperatorMachine, Receiver, RobotBuilder, RobotEvent,
    RobotMachine, RobotState, Sender, StopCause,
};

use crate::world::{Arm, Handed, Still, limits};

const MS: Duration = Duration::from_millis(1);
const UNIX: Duration = Duration::from_secs(1_700_000_000);

struct World {
    now: Duration,
    robot: Option<RobotMachine>,
    operator: OperatorMachine,
    /// When it arrives, whether at the robot, and what.
    wire: VecDeque<(Duration, bool, Vec<u8>)>,
    cut: bool,
    robot_told: Vec<RobotEvent>,
    told: Vec<OperatorEvent>,
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

impl World {
    fn new(arm: &Arc<Arm>, transport: &str, battery: &Sender<Vec<u8>>, charge: &Receiver<Vec<u8>>) -> Self {
        let (robot, operator) = (Identity::generate(), Identity::generate());
        let (trusts_robot, trusts_operator) = (robot.fingerprint(), operator.fingerprint());
        let now = Duration::from_secs(5);
        let robot =
            RobotBuilder::new().identity(robot).trust(trusts_operator).transport(transport).record(None);
        let robot = robot.device(limits(), Handed(Arc::clone(arm))).sends(battery).build(now, UNIX).unwrap();
        let operator =
            OperatorBuilder::new().connect(at(1).to_string()).identity(operator).trust(trusts_robot);
        let operator = operator.transport(transport).device(Still([0.1, 0.0, 0.2])).resumes_at_start();
        let operator = operator.receives(charge).build(now, UNIX).unwrap();
        let (robot_told, told) = (Vec::new(), Vec::new());
        Self { now, robot: Some(robot), operator, wire: VecDeque::new(), cut: false, robot_told, told }
    }

    /// Lets so much time pass, from deadline to deadline.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let robot_due = self.robot.as_ref().and_then(RobotMachine::poll_timeout);
            let arrival = self.wire.front().map(|(due, ..)| *due);
            let dues = [robot_due, self.operator.poll_timeout(), arrival, Some(end)];
            self.now = dues.into_iter().flatten().min().unwrap_or(end).max(self.now + MS / 100).min(end);
            while let Some((_, to_robot, data)) = self.wire.pop_front_if(|(due, ..)| *due <= self.now) {
                match (&mut self.robot, to_robot) {
                    (Some(robot), true) => robot.handle_input(self.now, at(2), &data),
                    (None, true) => {}
                    (_, false) => self.operator.handle_input(self.now, at(1), &data),
                }
                self.settle();
            }
            self.robot.iter_mut().for_each(|robot| robot.handle_timeout(self.now));
            self.operator.handle_timeout(self.now);
            self.settle();
        }
    }

    fn settle(&mut self) {
        let (now, mut data) = (self.now, Vec::new());
        while let Some(to) = self.operator.poll_transmit(now, &mut data) {
            assert_eq!(to, at(1));
            self.carry(true, &data);
        }
        self.told.extend(std::iter::from_fn(|| self.operator.poll_event()));
        let Some(mut robot) = self.robot.take() else { return };
        while let Some(to) = robot.poll_transmit(now, &mut data) {
            assert_eq!(to, at(2));
            self.carry(false, &data);
        }
        while let Some(event) = robot.poll_event() {
            if let RobotEvent::Keep { number, .. } = event {
                robot.kept(now, number, true);
            }
            self.robot_told.push(event);
        }
        self.robot = Some(robot);
    }

    fn carry(&mut self, to_robot: bool, data: &[u8]) {
        if !self.cut {
            self.wire.push_back((self.now + MS * 5, to_robot, data.to_vec()));
        }
    }
}

fn world(arm: &Arc<Arm>, transport: &str) -> (World, Sender<Vec<u8>>, Receiver<Vec<u8>>) {
    let battery = Sender::new(Channel::telemetry("battery"));
    let charge = Receiver::new(Channel::telemetry("battery"));
    (World::new(arm, transport, &battery, &charge), battery, charge)
}

#[test]
fn a_reset_and_a_resume_without_a_session_are_each_told_as_refused() {
    let (mut world, ..) = world(&Arm::with_lease(true), "udp");
    world.operator.reset(world.now);
    world.settle();
    assert!(matches!(&world.told[..], [OperatorEvent::ResetRefused { .. }]), "{:?}", world.told);
    world.operator.resume(world.now);
    world.settle();
    assert!(matches!(&world.told[1..], [OperatorEvent::ResumeRefused { .. }]), "{:?}", world.told);
}

#[test]
fn an_arm_moves_a_message_arrives_and_silence_stops_it_exactly_after_the_watchdogs_time() {
    for transport in ["quic", "udp", "sctp", "dccp", "etp", "mtip", "mpquic"] {
        let arm = Arm::with_lease(true);
        let (mut world, battery, charge) = world(&arm, transport);
        world.run(MS * 1_500);
        assert!(arm.applied() > 500, "{transport}: {} {:?}", arm.applied(), world.told);
        battery.send(&vec![87]).unwrap();
        world.run(MS * 100);
        assert_eq!(charge.try_recv().as_deref(), Ok(&[87][..]), "{transport}");
        let status = world.operator.status();
        assert!(status.connected && status.state == RobotState::Enabled, "{status:?}");

        world.cut = true;
        world.wire.clear();
        world.run(MS * 94);
        assert!(
            arm.stops().is_empty(),
            "{transport}: the last was made 5 ms before it came: {:?}",
            arm.stops()
        );
        world.run(MS * 10);
        assert_eq!(arm.stops(), [StopCause::Watchdog], "{transport}");
    }
}

#[test]
fn a_datagram_from_another_address_than_the_robots_is_counted() {
    let arm = Arm::with_lease(true);
    let (mut world, ..) = world(&arm, "udp");
    world.run(MS * 100);
    assert_eq!(world.operator.status().dropped.get("other_address"), None);
    world.operator.handle_input(world.now, at(9), b"hello");
    assert_eq!(world.operator.status().dropped.get("other_address"), Some(&1));
}

#[test]
fn both_emergency_stops_work_and_a_stop_is_given_out_to_be_kept() {
    let arm = Arm::with_lease(true);
    let (mut world, ..) = world(&arm, "udp");
    world.run(MS * 500);
    world.operator.stop(world.now);
    world.settle();
    world.run(MS * 20);
    assert_eq!(arm.stops(), [StopCause::Emergency]);
    assert!(
        world.told.iter().any(|event| matches!(event, OperatorEvent::StopAcknowledged { kept: true, .. }))
    );
    let keeps = |event: &RobotEvent| matches!(event, RobotEvent::Keep { record, .. } if record.contains("latch emergency"));
    assert!(world.robot_told.iter().any(keeps));
    world.operator.reset(world.now);
    world.run(MS * 20);
    world.operator.resume(world.now);
    let applied = arm.applied();
    world.run(MS * 100);
    assert!(arm.applied() > applied + 50);
    let now = world.now;
    world.robot.as_mut().unwrap().stop(now);
    assert_eq!(arm.stops().last(), Some(&StopCause::LocalEmergency), "within the call");
}

#[test]
fn a_late_loop_applies_nothing_before_it_has_looked_at_the_watchdog() {
    let arm = Arm::with_lease(true);
    let (mut world, ..) = world(&arm, "udp");
    world.run(MS * 500);
    // The loop stands still for a second, and datagrams wait.
    world.operator.handle_timeout(world.now + MS);
    world.settle();
    let applied = arm.applied();
    world.now += Duration::from_secs(1);
    while let Some((_, to_robot, data)) = world.wire.pop_front() {
        if to_robot {
            world.robot.as_mut().unwrap().handle_input(world.now, at(2), &data);
        }
    }
    world.settle();
    assert_eq!((arm.applied(), arm.stops().last()), (applied, Some(&StopCause::Watchdog)));
}

#[test]
fn dropping_the_machine_stops_the_device_and_a_record_that_is_not_of_an_end_in_order_is_a_latched_stop() {
    let arm = Arm::with_lease(true);
    let (mut world, ..) = world(&arm, "udp");
    world.run(MS * 500);
    world.robot = None;
    assert_eq!(arm.stops().last(), Some(&StopCause::Host));

    let robot = |last: Option<String>| {
        let builder =
            RobotBuilder::new().identity(Identity::generate()).trust(Identity::generate().fingerprint());
        builder.record(last).device(limits(), Handed(Arm::with_lease(true))).build(MS, UNIX).unwrap()
    };
    assert_eq!(robot(Some("cut off".to_owned())).status().state, RobotState::Fault);
    let in_order = robot(None).bury();
    assert_eq!(robot(Some(in_order)).status().state, RobotState::Disabled);
}
