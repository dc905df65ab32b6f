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
/// What is owed of a stop is told for so long, about the longest lease of a subscriber; after that somebody else may drive the robot.
const OWED_FOR: Duration = Duration::from_secs(60);

/// What the thread has to write.
enum Order {
    Nothing,
    Move {
        motion: Motion,
        until: Instant,
    },
    /// `at`: where it is held, one place for the whole stop. `until`: when it is forgotten.
    Stop {
        left: u32,
        at: Option<Motion>,
        until: Instant,
    },
}

impl Order {
    fn stop() -> Self {
        Self::Stop { left: STOPS, at: None, until: clock::now() + OWED_FOR }
    }
}

struct Written {
    order: Order,
    /// A new order, not yet written.
    is_new: bool,
    /// Told to move since it was stopped last.
    moves: bool,
    measured: Option<(Instant, Motion)>,
    /// What it was told last since it was enabled, and to those who hear it still.
    told: Option<Motion>,
}

struct Shared {
    state: Mutex<Written>,
    changed: Condvar,
    /// A message could not be written.
    failed: AtomicBool,
    /// The thread that writes is no more.
    ended: AtomicBool,
}

/// Notes that the thread that writes ends, as it does by a panic alone.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

/// A robot that a topic moves.
#[derive(Clone)]
pub(crate) struct Output {
    shared: Arc<Shared>,
    moving: Arc<Moving>,
    subscribers: Arc<AtomicUsize>,
}

/// Tells that a stop could not be told, and why.
pub(crate) type Untold = Box<dyn Fn(String) + Send>;

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
    pub(crate) fn start(moving: Moving, publisher: Box<dyn Publish>, untold: Untold) -> Result<Self, String> {
        let state =
            Written { order: Order::Nothing, is_new: false, moves: false, measured: None, told: None };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        let subscribers = publisher.subscribers();
        let output = Self { shared: Arc::new(shared), moving: Arc::new(moving), subscribers };
        let own = output.clone();
        let write = move || {
            let _ends = Ends(Arc::clone(&own.shared));
            own.write(publisher.as_ref(), &untold);
        };
        std::thread::Builder::new()
            .name("motion".to_owned())
            .spawn(write)
            .map_err(|error| error.to_string())?;
        Ok(output)
    }

    /// Where the robot is; a joint that arrives at an end of its range is led no further.
    pub(crate) fn measured(&self, motion: Motion) {
        let mut state = self.shared.lock();
        state.measured = Some((clock::now(), motion));
        let Order::Move { motion, until } = &state.order else { return };
        // What cannot be bound is not known to be within.
        let order = match self.bound(&state, motion.clone()) {
            Ok(bound) if bound == *motion => return,
            Ok(motion) => Order::Move { motion, until: *until },
            Err(_) => Order::stop(),
        };
        (state.order, state.is_new) = (order, true);
        drop(state);
        self.shared.changed.notify_one();
    }

    fn place(&self) -> Option<Motion> {
        self.shared.lock().place()
    }

    /// Joints that velocities move, and which have ranges.
    fn ranges(&self) -> Option<&[JointRange]> {
        match &self.moving.limits {
            MotionLimits::Joints { ranges, .. } if self.moving.format.velocity => Some(ranges),
            _ => None,
        }
    }

    /// What leads no joint out of its range from where it is.
    fn bound(&self, state: &Written, motion: Motion) -> Result<Motion, Failure> {
        match (motion, self.ranges()) {
            (Motion::Joints(joints), Some(ranges)) => {
                let place = state.place().and_then(|place| Joints::try_from(place).ok());
                let place = place.ok_or("the joints do not measure themselves")?;
                Ok(Motion::Joints(within(joints, place.position(), ranges)?))
            }
            (motion, _) => Ok(motion),
        }
    }

    /// When what it was told is over: with its lease, or when it is not known any more where its joints are.
    fn end(&self, state: &Written, until: Instant) -> Instant {
        let measured = state.measured.as_ref().filter(|_| self.ranges().is_some());
        measured.map_or(until, |(at, _)| until.min(*at + MEASURED_FOR))
    }

    fn write(&self, publisher: &dyn Publish, untold: &Untold) {
        let mut state = self.shared.lock();
        // This stop was told of as one that the topic does not take, or that nobody hears.
        let mut is_told = false;
        let mut before = 0;
        loop {
            let count = self.subscribers.load(Ordering::Acquire);
            let somebody_came = count > std::mem::replace(&mut before, count);
            let message = self.message(&mut state, somebody_came);
            let stopping = matches!(state.order, Order::Stop { left: 1.., .. });
            state.is_new = false;
            if stopping {
                state.moves = false;
            }
            // Nobody knows where to hold it until it says so.
            let mut counts = message.is_some() || self.moving.on_stop != OnStop::Hold;
            let says_why = stopping && !is_told && self.moving.on_stop != OnStop::Silence;
            let mut why = says_why.then(|| self.is_heard().err()).flatten().map(|why| why.to_string());
            if let Some(motion) = message {
                drop(state);
                let message = self.moving.format.write(&motion, clock::since_1970());
                let written = if stopping { publisher.stop(&message) } else { publisher.publish(&message) };
                self.shared.failed.store(written.is_err(), Ordering::Release);
                // What the topic did not take was not told, but to nobody.
                counts = written.is_ok() || self.subscribers.load(Ordering::Acquire) == 0;
                why = written.err().filter(|_| !counts).or(why);
                state = self.shared.lock();
            }
            if let (true, Some(why)) = (stopping && !is_told, why) {
                untold(why);
                is_told = true;
            }
            if state.is_new {
                continue;
            }
            if let (Order::Stop { left, .. }, true) = (&mut state.order, counts) {
                *left = left.saturating_sub(1);
            }
            is_told &= matches!(state.order, Order::Stop { left: 1.., .. });
            let wait = match &state.order {
                Order::Nothing => Duration::MAX,
                Order::Move { until, .. } => self.end(&state, *until).saturating_duration_since(clock::now()),
                Order::Stop { .. } => STOP_PERIOD,
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

    /// What is to be written now.
    fn message(&self, state: &mut Written, somebody_came: bool) -> Option<Motion> {
        let now = clock::now();
        let is_over = match &state.order {
            Order::Nothing => false,
            Order::Move { until, .. } => self.end(state, *until) <= now,
            Order::Stop { until, .. } => *until <= now && !state.is_new,
        };
        match &mut state.order {
            // A lease that is over is a stop, whoever is held up.
            Order::Move { .. } if is_over => state.order = Order::stop(),
            Order::Stop { .. } if is_over => state.order = Order::Nothing,
            // Who came may have been away, not have heard the stop, and be where they were told to be, or not.
            Order::Stop { left, at, .. } if somebody_came => {
                if *left == 0 {
                    (*at, state.told) = (None, None);
                }
                *left = STOPS;
            }
            _ => {}
        }
        match &state.order {
            Order::Move { motion, .. } if state.is_new => Some(motion.clone()),
            Order::Stop { left: 1.., .. } => self.rest(state),
            _ => None,
        }
    }

    /// What stops it: rest, or the place where it was when it stopped.
    fn rest(&self, state: &mut Written) -> Option<Motion> {
        match self.moving.on_stop {
            OnStop::Silence => return None,
            OnStop::Zero => return self.moving.format.rest(),
            OnStop::Hold => {}
        }
        let (place, told) = (state.place(), state.told.as_ref());
        let Order::Stop { at, .. } = &mut state.order else { return None };
        // Where it was long ago would be a jump back: where it was told to be is nearer.
        *at = at.take().or(place).or_else(|| told.and_then(at_rest));
        at.clone()
    }

    fn go(&self, motion: Motion, lease: Duration) -> Result<(), Failure> {
        if self.shared.failed.load(Ordering::Acquire) {
            return Err("the topic does not take messages".into());
        }
        self.is_heard()?;
        let mut state = self.shared.lock();
        // Nobody would know what it does, or where to hold it.
        if self.moving.measured.is_some() && state.place().is_none() {
            return Err("nothing tells where it is: see that the `measured` topic is published".into());
        }
        let motion = self.bound(&state, motion)?;
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
        (state.order, state.is_new) = (Order::stop(), true);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Waits until the stop has been told, for twice as long as that takes at most: what ends the process comes after it.
    pub(crate) fn settle(&self) {
        for _ in 0..STOPS * 2 {
            if !matches!(self.shared.lock().order, Order::Move { .. } | Order::Stop { left: 1.., .. }) {
                return;
            }
            std::thread::park_timeout(STOP_PERIOD);
        }
    }

    fn is_heard(&self) -> Result<(), Failure> {
        if self.shared.ended.load(Ordering::Acquire) {
            return Err("nothing writes its topic any more: start the bridge again".into());
        }
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

/// What was told, without what would go on: velocities and efforts.
fn at_rest(told: &Motion) -> Option<Motion> {
    match told {
        Motion::Joints(joints) => Joints::new(joints.position()).ok().map(Motion::Joints),
        motion => Some(motion.clone()),
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
mod tests;
