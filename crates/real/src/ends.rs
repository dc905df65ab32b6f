//! What stands at the two ends: the simulated hand and robot, and who takes notes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use taut_core::{Duration, Time};
use taut_io::Clock;
use taut_io::device::{DeviceFailure, Measured, Plant, SetPoint, Stopper};
use taut_io::session::{Look, Sample, Seen, Witness};
use taut_lab::robot::SimulatedRobot;
use taut_lab::run::{Device, Notes};
use taut_lab::scenario::Teleop;
use taut_session::{OperatorEvent, Priority, StopCause};

use crate::SimulatedDevice;

/// Shared between parts of one end, which run on one thread: nobody waits for a lock while a session runs.
#[derive(Debug)]
pub(crate) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Look + 'static> Shared<T> {
    pub(crate) fn witness(&self) -> Witness {
        Witness::new(Arc::clone(&self.0) as Arc<Mutex<dyn Look>>)
    }
}

/// The device in the operator's hand, as its session asks it.
pub(crate) type Hand = Box<dyn Iterator<Item = Sample> + Send>;

pub(crate) fn hand(device: Shared<Device>) -> Hand {
    Box::new(Sample::counted(std::iter::repeat_with(move || device.lock().step())))
}

/// Takes notes at the operator's end, and lets the hand feel.
pub(crate) struct OperatorsNotes {
    pub(crate) notes: Notes,
    pub(crate) device: Shared<Device>,
    /// States that were made, for whoever wants to know how far it is.
    pub(crate) made: Arc<AtomicU64>,
}

impl Look for OperatorsNotes {
    fn look(&mut self, now: Time, seen: Seen<'_>) {
        let notes = &mut self.notes;
        match seen {
            Seen::Made(state, taken) => {
                notes.made(now, state.priority == Priority::High, self.device.lock().body(), taken);
                self.made.fetch_add(1, Ordering::Relaxed);
            }
            Seen::Sent { tag, stream } => notes.sent(now, tag, stream),
            Seen::Transport(event) => notes.transport(now, event),
            Seen::DeviceDone => notes.finished(now),
            Seen::ResumePressed => notes.resume_pressed(now),
            Seen::StopPressed { waiting } => notes.stop_pressed(now, waiting),
            Seen::Operator(event) => {
                match event {
                    OperatorEvent::Feedback { state, .. } => self.device.lock().feel(state.force),
                    OperatorEvent::FeedbackLost => self.device.lock().feel([0.0; 3]),
                    _ => {}
                }
                notes.operator(now, event);
            }
            Seen::Robot(..) | Seen::Feedback(..) => {}
        }
    }
}

/// Takes notes at the robot's end.
pub(crate) struct RobotsNotes(pub(crate) Notes);

impl Look for RobotsNotes {
    fn look(&mut self, now: Time, seen: Seen<'_>) {
        match seen {
            Seen::Transport(event) => self.0.transport(now, event),
            Seen::Robot(event, clock) => self.0.robot(now, event, clock),
            Seen::Feedback(_, taken) => self.0.measured(now, taken),
            _ => {}
        }
    }
}

/// The robot: the one of the simulations.
pub(crate) struct Arm {
    device: SimulatedDevice,
    notes: Shared<RobotsNotes>,
    clock: Clock,
    /// Between two of feedback; `None`: there is none.
    feedback: Option<Duration>,
    since_feedback: Duration,
}

impl Arm {
    pub(crate) fn new(teleop: &Teleop, notes: Shared<RobotsNotes>, clock: Clock) -> Self {
        let robot = SimulatedRobot::new(&teleop.environment, SimulatedRobot::REST);
        Self {
            device: SimulatedDevice::new(robot, teleop.period),
            notes,
            clock,
            feedback: (teleop.feedback > 0)
                .then(|| Duration::from_nanos(1_000_000_000 / u64::from(teleop.feedback))),
            since_feedback: Duration::ZERO,
        }
    }
}

impl Plant for Arm {
    fn period(&self) -> Duration {
        self.device.period()
    }

    fn enable(&mut self) {
        self.device.enable();
    }

    fn apply(&mut self, point: &SetPoint) {
        self.device.apply(point);
    }

    fn stop(&mut self, cause: StopCause) {
        self.device.stop(cause);
    }

    fn step(&mut self) -> Option<Measured> {
        let measured = self.device.step();
        self.since_feedback += self.device.period();
        let robot = self.device.robot();
        self.notes.lock().0.arm(self.clock.now(), robot.position(), robot.told(), robot.force());
        measured
    }

    fn feeds_back(&mut self) -> bool {
        let due = self.feedback.is_some_and(|every| self.since_feedback >= every);
        if due {
            self.since_feedback = Duration::ZERO;
        }
        due
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        self.device.failure()
    }

    fn stopper(&self) -> Arc<dyn Stopper> {
        self.device.stopper()
    }

    fn lease(&self) -> bool {
        self.device.lease()
    }

    fn stiffness(&self) -> Option<f32> {
        self.device.stiffness()
    }

    fn limit_force(&mut self, newtons: f32) -> bool {
        self.device.limit_force(newtons)
    }

    fn is_real(&self) -> bool {
        self.device.is_real()
    }
}
