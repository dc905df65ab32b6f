//! A robot with something that moves.

use std::collections::VecDeque;

use taut_core::{
    Datagram, Deadline, DropCause, Duration, Origin, PathId, Time, Transmit, Transport, earliest,
};
use taut_session::{Robot, RobotEvent, RobotLife, State, Status, StopCause};
use taut_transport::stranger::is_remembered;

use super::carrier::{Carrier, Refused};
use super::paths::PathNote;
use super::refusals::Refusals;
use super::witness::{Seen, Witness};
use crate::device::{Deadman, DeviceFailure, Kept, Plant, SetPoint};
use crate::{Alarm, Machine, StateWriter};

mod report;

pub use self::report::DeviceReport;

/// What a robot is asked from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotCommand {
    /// The emergency button beside it is released. Pressing it is [`Remote::stop`](super::Remote::stop).
    Release,
    /// What was latched as of this number was written, or could not be.
    Kept {
        /// Of [`RobotEvent::Keep`].
        number: u64,
        /// It is on the disk.
        ok: bool,
    },
    /// Say goodbye.
    Close,
}

/// What a robot tells those around it. What happens a thousand times a second is summed up.
#[derive(Clone, Debug)]
pub enum RobotNote {
    /// Something happened; not [`RobotEvent::Refused`].
    Event(RobotEvent),
    /// Datagrams or connections were refused: so many since this was told last, at most once a second.
    Refused {
        /// Why.
        cause: DropCause,
        /// How many.
        count: u64,
        /// Of these, from operators that are trusted, while another one has the robot; over QUIC from anybody.
        busy: u64,
        /// The last of them, of those that showed a key if one did.
        who: Option<Refused>,
    },
    /// It stopped.
    Stopped {
        /// Why.
        why: StopCause,
        /// How long after the last state that it applied; `None`: it had applied none since it was resumed.
        silence: Option<Duration>,
        /// Where it stands, m.
        position: [f32; 3],
    },
    /// What moves does not do what it is told; a robot that moved has been stopped.
    DeviceFailed(DeviceFailure),
    /// How fast and how hard it moved: with each report, and when it stopped.
    Device(DeviceReport),
    /// What is latched could not be written: it holds, and does not survive this process.
    NotKept,
    /// An interface on which it listens came or went.
    Path(PathNote),
    /// It is time for a report.
    Progress(Box<Status>),
}

/// A robot and what moves, stepped at its rate; what it measures is fed back while there is an operator.
///
/// The device is stopped with its value, whatever ends that.
#[derive(Debug)]
pub struct RobotMachine<P: Plant> {
    robot: Robot<Carrier>,
    plant: Kept<P>,
    deadman: Option<Deadman>,
    keeper: Option<StateWriter>,
    not_kept: Option<u64>,
    device: DeviceReport,
    /// It was told already.
    failed: Option<DeviceFailure>,
    /// Not told yet.
    notes: VecDeque<RobotNote>,
    next_step: Time,
    /// When a state was applied last, since the last resume.
    applied: Option<Time>,
    position: [f32; 3],
    has_operator: bool,
    /// Since when, and how long there were operators before.
    began: Time,
    served: Duration,
    closing: bool,
    report_period: Option<Duration>,
    next_report: Time,
    refusals: Refusals,
    busy: u64,
    stranger: Option<Refused>,
    witness: Option<Witness>,
}

/// Steps at once, when the host was late; those beyond are left out: the plant stood still.
const MOST_STEPS: u32 = 100;

impl<P: Plant> RobotMachine<P> {
    /// A robot around `plant`.
    pub fn new(robot: Robot<Carrier>, plant: P) -> Self {
        Self {
            robot,
            plant: Kept(plant),
            deadman: None,
            keeper: None,
            not_kept: None,
            device: DeviceReport::default(),
            failed: None,
            notes: VecDeque::new(),
            next_step: Time::ZERO,
            applied: None,
            position: [0.0; 3],
            has_operator: false,
            began: Time::ZERO,
            served: Duration::ZERO,
            closing: false,
            report_period: None,
            next_report: Time::ZERO,
            refusals: Refusals::default(),
            busy: 0,
            stranger: None,
            witness: None,
        }
    }

    /// Reports every so often while there is an operator; at least 1 ms. Default: not.
    pub fn reports_by_time(mut self, period: Duration) -> Self {
        self.report_period = Some(period.max(Duration::from_millis(1)));
        self
    }

    /// The device is stopped by `deadman` when this machine is not run. Default: by its own lease alone.
    pub fn kept_by(mut self, deadman: Deadman) -> Self {
        self.deadman = Some(deadman);
        self
    }

    /// What is latched is written by `keeper`, which tells by [`RobotCommand::Kept`].
    pub(super) fn write_by(&mut self, keeper: StateWriter) {
        self.keeper = Some(keeper);
    }

    /// It ended in order: writes what the next life has to know, and waits for that, a second at most. False: it is not written,
    /// and the next life begins with a latched stop.
    pub(super) fn bury(&mut self) -> bool {
        self.plant.0.stop(StopCause::Host);
        let Some(keeper) = self.keeper.take() else { return true };
        let life = RobotLife { ended: true, latch: self.robot.latch() };
        keeper.write(u64::MAX, life.to_string());
        keeper.finish()
    }

    /// Shows everything to `witness`. Default: nobody looks on.
    pub fn witnessed(mut self, witness: Witness) -> Self {
        self.witness = Some(witness);
        self
    }

    fn show(&self, now: Time, seen: Seen<'_>) {
        if let Some(witness) = &self.witness {
            witness.look(now, seen);
        }
    }

    /// The session.
    pub fn robot(&self) -> &Robot<Carrier> {
        &self.robot
    }

    /// Everything of all sessions; time and rates are of that during which there was an operator.
    pub fn status(&self, now: Time) -> Status {
        let mut status = self.robot.status(now);
        let received = match self.robot.transport().stream_bytes() {
            Some((_, received)) => received as f64 * 8.0,
            // The session counts on through the sessions, and the time of the last one.
            None => status.throughput_bps * status.elapsed_s,
        };
        let current = if self.has_operator { now.saturating_since(self.began) } else { Duration::ZERO };
        status.elapsed_s = (self.served + current).as_secs_f64();
        let per_second = |count: f64| if status.elapsed_s > 0.0 { count / status.elapsed_s } else { 0.0 };
        (status.rate_hz, status.throughput_bps) = (per_second(status.messages as f64), per_second(received));
        status
    }

    /// There is an operator, or there is none any more.
    fn serves(&mut self, now: Time, has_operator: bool) {
        if self.has_operator {
            self.served += now.saturating_since(self.began);
        }
        (self.has_operator, self.began) = (has_operator, now);
    }

    /// Waits for the next operator over another carrier. Gives the last one back.
    pub(super) fn reconnect(&mut self, now: Time, carrier: Carrier) -> Carrier {
        // Another port has other numbers for addresses.
        self.stranger = None;
        self.robot.reconnect(now, carrier)
    }

    /// Was it closed here?
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(super) fn lingers(&self) -> bool {
        self.robot.transport().lingers()
    }

    /// How many operators were sent away since this was asked last, because there is another one.
    fn newly_busy(&mut self) -> u64 {
        let all = self.robot.transport().busy();
        let before = std::mem::replace(&mut self.busy, all);
        // Another carrier counts anew.
        if all < before { all } else { all - before }
    }

    fn remember_stranger(&mut self) {
        let Some(stranger) = self.robot.transport_mut().take_stranger() else { return };
        if is_remembered(stranger.key, self.stranger.and_then(|known| known.key)) {
            self.stranger = Some(stranger);
        }
    }

    fn step(&mut self, now: Time) {
        if now < self.next_step {
            return;
        }
        let period = self.plant.0.period().max(Duration::from_micros(1));
        let behind = (now - self.next_step) / period;
        let steps = (behind + 1).min(u64::from(MOST_STEPS));
        let mut newest = None;
        for _ in 0..steps {
            newest = self.plant.0.step().or(newest);
        }
        self.next_step += period * (behind + 1);
        if let Some(measured) = newest {
            self.device.measured(&measured);
            let state = measured.state;
            self.position = state.position;
            self.robot.measure(now, state.position);
            if self.plant.0.feeds_back() && self.has_operator {
                let state = State { created: now, ..state };
                // Why one is refused is in the counters.
                let taken = self.robot.send_feedback(now, state);
                self.show(now, Seen::Feedback(&state, taken));
            }
        }
        self.hear_device(now);
    }

    /// Did it stop, or fail? Then the session stands as well.
    fn hear_device(&mut self, now: Time) {
        if self.deadman.as_ref().is_some_and(Deadman::is_over) {
            self.robot.stop(now, StopCause::Watchdog);
        }
        if let Some(failure) = self.plant.0.failure() {
            self.device_failed(now, failure);
        }
    }

    fn device_failed(&mut self, now: Time, failure: DeviceFailure) {
        let moved = self.robot.stop(now, StopCause::Device);
        let kind = std::mem::discriminant(&failure);
        let known = self.failed.as_ref().is_some_and(|known| std::mem::discriminant(known) == kind);
        // One that stopped because the session did has not failed.
        let idle = !moved && matches!(failure, DeviceFailure::Stopped(_));
        if moved || !(known || idle) {
            self.notes.push_back(RobotNote::DeviceFailed(failure.clone()));
        }
        self.failed = Some(failure);
    }

    /// Somebody resumed: the device may move, unless it cannot, or is being stopped at this moment.
    fn enable(&mut self, now: Time) {
        if self.deadman.as_ref().is_some_and(|deadman| !deadman.rearm()) {
            self.robot.stop(now, StopCause::Watchdog);
        } else if let Some(failure) = self.plant.0.failure().filter(DeviceFailure::is_lasting) {
            self.device_failed(now, failure);
        } else {
            self.failed = None;
            self.plant.0.enable();
        }
    }

    /// The device gets what is left of the watchdog's time, and nothing when that is over or the robot stopped since.
    fn apply(&mut self, now: Time, state: &State) {
        let lease = self.robot.watchdog_due().map_or(Duration::ZERO, |due| due.saturating_since(now));
        if lease.is_zero() || self.deadman.as_ref().is_some_and(|deadman| !deadman.feed(lease)) {
            self.device.not_applied += 1;
            return;
        }
        self.plant.0.apply(&SetPoint { state: *state, lease });
    }

    fn stop(&mut self, why: StopCause) {
        self.plant.0.stop(why);
        if let Some(deadman) = &self.deadman {
            deadman.disarm();
        }
        self.notes.push_back(RobotNote::Device(self.device));
    }

    /// Does what an event says; `None` when nobody else needs to know.
    fn notice(&mut self, now: Time, event: RobotEvent) -> Option<RobotNote> {
        match event {
            RobotEvent::Apply { state, age, .. } => {
                self.apply(now, &state);
                // Then the watchdog was fed; a busy host tells of it later.
                self.applied = Some((state.created + age).min(now));
                return None;
            }
            RobotEvent::Stop { why } => {
                self.stop(why);
                let silence = self.applied.take().map(|applied| now.saturating_since(applied));
                return Some(RobotNote::Stopped { why, silence, position: self.position });
            }
            RobotEvent::Enabled => self.enable(now),
            RobotEvent::Keep { number, latch } => {
                if let Some(keeper) = &self.keeper {
                    keeper.write(number, RobotLife { ended: false, latch }.to_string());
                }
                return None;
            }
            RobotEvent::Connected { .. } => {
                self.serves(now, true);
                self.next_report = self.report_period.map_or(Time::MAX, |period| now + period);
            }
            RobotEvent::Closed => self.serves(now, false),
            RobotEvent::Refused(cause) => {
                self.refusals.count(cause);
                self.remember_stranger();
                return None;
            }
            RobotEvent::Dropped { .. } | RobotEvent::FeedbackDropped { .. } => return None,
            _ => {}
        }
        Some(RobotNote::Event(event))
    }
}

impl<P: Plant> Machine for RobotMachine<P> {
    type Command = RobotCommand;
    type Event = RobotNote;

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.robot.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.robot.handle_timeout(now);
        self.step(now);
    }

    fn handle_command(&mut self, now: Time, command: RobotCommand) {
        match command {
            RobotCommand::Release => self.robot.release(now),
            RobotCommand::Kept { number, ok } => {
                self.robot.kept(now, number, ok);
                // It is tried again, and told once.
                if !ok && self.not_kept.replace(number) != Some(number) {
                    self.notes.push_back(RobotNote::NotKept);
                }
            }
            RobotCommand::Close => {
                self.closing = true;
                self.robot.close(now);
            }
        }
    }

    fn handle_alarm(&mut self, now: Time, alarm: Alarm) {
        let cause = match alarm {
            Alarm::Pressed => StopCause::LocalEmergency,
            Alarm::Lost => StopCause::ButtonLost,
        };
        self.robot.stop(now, cause);
    }

    fn alarm_voids(command: &RobotCommand) -> bool {
        matches!(command, RobotCommand::Release)
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.robot.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, now: Time) -> Option<RobotNote> {
        if let Some(note) = self.notes.pop_front() {
            return Some(note);
        }
        while let Some(event) = self.robot.poll_event() {
            self.show(now, Seen::Robot(&event, self.robot.clock(now)));
            if let Some(note) = self.notice(now, event) {
                return Some(note);
            }
        }
        if let Some((cause, count)) = self.refusals.poll(now) {
            let busy = if cause == DropCause::Unauthenticated { self.newly_busy().min(count) } else { 0 };
            let who = if cause == DropCause::Unauthenticated { self.stranger.take() } else { None };
            return Some(RobotNote::Refused { cause, count, busy, who });
        }
        let period = self.report_period.filter(|_| self.has_operator && now >= self.next_report)?;
        self.next_report = (self.next_report + period).max(now);
        self.notes.push_back(RobotNote::Device(self.device));
        Some(RobotNote::Progress(Box::new(self.status(now))))
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let report = (self.has_operator && self.report_period.is_some())
            .then(|| Deadline::new(self.next_report, "report"));
        let refusals = self.refusals.due().map(|at| Deadline::new(at, "refusals"));
        let own = earliest(Some(Deadline::new(self.next_step, "step")), earliest(report, refusals));
        earliest(self.robot.poll_timeout(), own)
    }

    fn uses_path(&self, path: PathId) -> bool {
        self.robot.transport().uses_path(path)
    }

    fn remove_path(&mut self, now: Time, path: PathId) {
        self.robot.transport_mut().remove_path(now, path);
        self.stranger.take_if(|stranger| stranger.path == Some(path));
    }

    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.robot.transport_mut().set_origin(path, origin);
    }
}
