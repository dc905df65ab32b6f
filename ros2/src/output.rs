//! What moves a robot by a topic: the device of a session. One thread writes, so that a stop never waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taut::{Failure, Joints, RobotDevice, State, StopCause, Twist};

use crate::backend::Publish;
use crate::clock;
use crate::config::{JointRange, MotionLimits, Moving, OnStop};
use crate::motion::Motion;

/// What is measured counts for so long.
const MEASURED_FOR: Duration = Duration::from_millis(200);
/// A stop is told so often: one that is lost is followed by the next.
const STOPS: u32 = 10;
const STOP_PERIOD: Duration = Duration::from_millis(20);

/// What the thread has to write.
enum Order {
    Nothing,
    Move { motion: Motion, until: Instant },
    Stop { left: u32 },
}

struct Written {
    order: Order,
    /// A new order, not yet written.
    is_new: bool,
    /// Told to move since it was stopped last.
    moves: bool,
    measured: Option<(Instant, Motion)>,
    /// What it was told last since it was enabled.
    told: Option<Motion>,
}

struct Shared {
    state: Mutex<Written>,
    changed: Condvar,
    /// A message could not be written.
    failed: AtomicBool,
}

/// A robot that a topic moves.
#[derive(Clone)]
pub(crate) struct Output {
    shared: Arc<Shared>,
    moving: Arc<Moving>,
    subscribers: Arc<AtomicUsize>,
}

impl Written {
    /// Where the robot is, as far as it is known now.
    fn place(&self) -> Option<Motion> {
        let measured = self.measured.as_ref();
        let fresh = measured.filter(|(at, _)| clock::now().duration_since(*at) < MEASURED_FOR);
        fresh.map(|(_, motion)| motion.clone())
    }
}

impl Shared {
    /// Nobody holds it while waiting.
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(moving: Moving, publisher: Box<dyn Publish>) -> Result<Self, String> {
        let state =
            Written { order: Order::Nothing, is_new: false, moves: false, measured: None, told: None };
        let shared =
            Shared { state: Mutex::new(state), changed: Condvar::new(), failed: AtomicBool::new(false) };
        let subscribers = publisher.subscribers();
        let output = Self { shared: Arc::new(shared), moving: Arc::new(moving), subscribers };
        let own = output.clone();
        let write = move || own.write(publisher.as_ref());
        std::thread::Builder::new()
            .name("motion".to_owned())
            .spawn(write)
            .map_err(|error| error.to_string())?;
        Ok(output)
    }

    /// Where the robot is.
    pub(crate) fn measured(&self, motion: Motion) {
        self.shared.lock().measured = Some((clock::now(), motion));
    }

    fn place(&self) -> Option<Motion> {
        self.shared.lock().place()
    }

    fn write(&self, publisher: &dyn Publish) {
        let mut state = self.shared.lock();
        loop {
            let now = clock::now();
            let message = match &state.order {
                Order::Nothing => None,
                // A lease that is over is a stop, whoever is held up.
                Order::Move { until, .. } if *until <= now => {
                    state.order = Order::Stop { left: STOPS };
                    state.is_new = true;
                    continue;
                }
                Order::Move { motion, .. } if state.is_new => Some(motion.clone()),
                Order::Move { .. } => None,
                Order::Stop { left: 0 } => None,
                Order::Stop { .. } => self.rest(&state),
            };
            let stopping = matches!(state.order, Order::Stop { .. });
            if let Order::Stop { left } = &mut state.order {
                *left = left.saturating_sub(1);
            }
            state.is_new = false;
            if stopping {
                state.moves = false;
            }
            if let Some(motion) = message {
                drop(state);
                let message = self.moving.format.write(&motion, clock::since_1970());
                let is_written = publisher.publish(&message).is_ok();
                self.shared.failed.store(!is_written, Ordering::Release);
                state = self.shared.lock();
            }
            if state.is_new {
                continue;
            }
            let wait = match &state.order {
                Order::Move { until, .. } => until.saturating_duration_since(clock::now()),
                Order::Stop { left } if *left > 0 => STOP_PERIOD,
                _ => Duration::from_secs(1),
            };
            let waits = |state: &mut Written| !state.is_new;
            state = self
                .shared
                .changed
                .wait_timeout_while(state, wait, waits)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// What stops it: rest, or the place where it was when it stopped.
    fn rest(&self, state: &Written) -> Option<Motion> {
        match self.moving.on_stop {
            OnStop::Silence => None,
            OnStop::Zero => self.moving.format.rest(),
            // Where it was long ago would be a jump back: where it was told to be is nearer.
            OnStop::Hold => state.place().or_else(|| state.told.clone()),
        }
    }

    fn go(&self, motion: Motion, lease: Duration) -> Result<(), Failure> {
        if self.shared.failed.load(Ordering::Acquire) {
            return Err("the topic does not take messages".into());
        }
        self.is_heard()?;
        let motion = match (motion, &self.moving.limits) {
            (Motion::Joints(joints), MotionLimits::Joints { ranges, .. }) if self.moving.format.velocity => {
                let place = self.place().and_then(|place| Joints::try_from(place).ok());
                let place = place.ok_or("the joints do not measure themselves")?;
                Motion::Joints(within(joints, place.position(), ranges)?)
            }
            // Nobody would know where to hold it.
            _ if self.moving.on_stop == OnStop::Hold && self.place().is_none() => {
                return Err("nothing tells where it is: see that the `measured` topic is published".into());
            }
            (motion, _) => motion,
        };
        let mut state = self.shared.lock();
        state.told = Some(motion.clone());
        state.order = Order::Move { motion, until: clock::now() + lease };
        (state.is_new, state.moves) = (true, true);
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    fn halt(&self) {
        let mut state = self.shared.lock();
        // It may come again, and when nothing moves.
        if !state.moves {
            return;
        }
        state.order = Order::Stop { left: STOPS };
        state.is_new = true;
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Waits until the stop has been told, for twice as long as that takes at most: what ends the process comes after it.
    pub(crate) fn settle(&self) {
        for _ in 0..STOPS * 2 {
            if !matches!(self.shared.lock().order, Order::Move { .. } | Order::Stop { left: 1.. }) {
                return;
            }
            std::thread::park_timeout(STOP_PERIOD);
        }
    }

    fn is_heard(&self) -> Result<(), Failure> {
        match (self.subscribers.load(Ordering::Acquire), self.moving.subscribers) {
            (count, least) if count >= least => Ok(()),
            (0, _) => {
                Err("nobody subscribes to its topic with its type: start the robot's controller".into())
            }
            (count, least) => {
                let why = "subscribe to its topic with its type: start the robot's controller";
                Err(format!("{count} of the route's `subscribers = {least}` {why}").into())
            }
        }
    }
}

/// At an end of its range no velocity leads a joint out of it.
fn within(joints: Joints, place: &[f32], ranges: &[JointRange]) -> Result<Joints, Failure> {
    let bound = |((velocity, place), range): ((&f32, &f32), &JointRange)| {
        let most = if *place >= range.largest { 0.0 } else { f32::INFINITY };
        let least = if *place <= range.least { 0.0 } else { f32::NEG_INFINITY };
        velocity.clamp(least, most)
    };
    let velocity: Vec<f32> = joints.velocity().iter().zip(place).zip(ranges).map(bound).collect();
    Ok(joints.with_velocity(&velocity)?)
}

/// A device of each kind of motion.
macro_rules! device {
    ($($motion:ty, |$output:ident| $measure:expr;)*) => {$(
        impl RobotDevice<$motion> for Output {
            fn enable(&self) -> Result<(), Failure> {
                self.shared.failed.store(false, Ordering::Release);
                self.shared.lock().told = None;
                self.is_heard()
            }
            fn apply(&self, target: &$motion, lease: Duration) -> Result<(), Failure> {
                self.go(target.clone().into(), lease)
            }
            fn measure(&self) -> Option<$motion> {
                let $output = self;
                $measure
            }
            fn stop(&self, _: StopCause) {
                self.halt();
            }
        }
    )*};
}
device! {
    Twist, |_output| None;
    State, |output| output.place().and_then(|place| place.try_into().ok());
    Joints, |output| {
        let place: Joints = output.place()?.try_into().ok()?;
        // What is told of velocities is told beside positions of zero.
        if output.moving.format.velocity { Joints::new(&vec![0.0; place.position().len()]).ok() } else { Some(place) }
    };
}

#[cfg(test)]
mod tests {
    use taut::TwistLimits;

    use super::*;
    use crate::motion::{Format, Type};

    /// A topic with so many subscribers.
    struct Topic(Arc<AtomicUsize>);

    impl Publish for Topic {
        fn publish(&self, _: &[u8]) -> Result<(), String> {
            Ok(())
        }

        fn subscribers(&self) -> Arc<AtomicUsize> {
            Arc::clone(&self.0)
        }
    }

    #[test]
    fn nothing_moves_when_fewer_subscribe_than_the_route_says() {
        let format = Format {
            kind: Type::Twist,
            joints: Vec::new(),
            frame: String::new(),
            velocity: true,
            time_from_start: Duration::ZERO,
        };
        let limits = MotionLimits::Twist(TwistLimits::new());
        let moving = Moving { format, limits, on_stop: OnStop::Zero, measured: None, subscribers: 2 };
        let count = Arc::new(AtomicUsize::new(2));
        let output = Output::start(moving, Box::new(Topic(Arc::clone(&count)))).unwrap();
        let apply = || output.apply(&Twist::default(), Duration::from_secs(1));
        assert!(RobotDevice::<Twist>::enable(&output).is_ok() && apply().is_ok());
        // The controller ends, and whoever records goes on.
        count.store(1, Ordering::Release);
        let why = apply().unwrap_err().to_string();
        assert!(why.contains("1 of the route's `subscribers = 2`"), "{why}");
        assert!(RobotDevice::<Twist>::enable(&output).is_err());
    }

    #[test]
    fn no_velocity_leads_out_of_a_joints_range() {
        let range = JointRange { least: -1.0, largest: 1.0 };
        let joints = Joints::new(&[0.0; 4]).unwrap().with_velocity(&[0.5, -0.5, -0.5, 0.5]).unwrap();
        let bound = within(joints, &[1.0, 1.1, -1.0, 0.0], &[range; 4]).unwrap();
        assert_eq!(bound.velocity(), [0.0, -0.5, 0.0, 0.5]);
    }
}
