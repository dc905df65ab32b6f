//! All that moves of one robot, as one device, and what keeps it stopped.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use taut_agent::{DeviceFailure, DeviceMessage, Measured, SetPoint};
use taut_core::Time;
use taut_session::motion;
use taut_session::{ChannelId, StopCause};

use crate::device::RobotDevice;
use crate::message::Failure;
use crate::motion::{Motion, State};
use crate::time::{ours, theirs};

/// A user's device of any motion.
pub(crate) trait Moved: Send + Sync {
    fn enable(&self) -> Result<(), Failure>;
    fn apply(&self, motion: &motion::Motion, lease: Duration) -> Result<(), Failure>;
    fn measure(&self) -> Option<motion::Motion>;
    fn stop(&self, cause: StopCause);
    fn keeps_lease(&self) -> bool;
    fn limit_force(&self, newtons: f32) -> bool;
}

pub(crate) struct Typed<M, D> {
    device: D,
    motion: PhantomData<fn(M)>,
}

impl<M: Motion, D: RobotDevice<M>> Typed<M, D> {
    pub(crate) fn new(device: D) -> Arc<Self> {
        Arc::new(Self { device, motion: PhantomData })
    }
}

impl<M: Motion, D: RobotDevice<M>> Moved for Typed<M, D> {
    fn enable(&self) -> Result<(), Failure> {
        self.device.enable()
    }
    fn apply(&self, motion: &motion::Motion, lease: Duration) -> Result<(), Failure> {
        let target = M::of_motion(motion).ok_or("motion of another schema")?;
        self.device.apply(&target, lease)
    }
    fn measure(&self) -> Option<motion::Motion> {
        self.device.measure().map(|measured| measured.to_motion())
    }
    fn stop(&self, cause: StopCause) {
        self.device.stop(cause);
    }
    fn keeps_lease(&self) -> bool {
        self.device.keeps_lease()
    }
    fn limit_force(&self, newtons: f32) -> bool {
        self.device.limit_force(newtons)
    }
}

/// Tells the session where a device of a channel is.
type Tell = Box<dyn Fn(ChannelId, motion::Motion) + Send + Sync>;

/// One of the devices.
pub(crate) struct Part {
    pub(crate) name: String,
    /// `None`: the one that states move.
    pub(crate) channel: Option<ChannelId>,
    pub(crate) device: Arc<dyn Moved>,
}

/// All devices of a robot. While the gate is closed nothing is applied, and what was being applied when it closed is stopped once
/// more when that returns. Only an [`enable`](Body::enable) opens it, and none while an emergency stop waits for the session, after a
/// panic, or when the robot is over.
pub(crate) struct Body {
    parts: Vec<Part>,
    enabled: AtomicBool,
    /// An emergency stop is on its way to the session.
    pressed: AtomicBool,
    over: AtomicBool,
    /// What panicked.
    broken: OnceLock<String>,
    failed: Mutex<Option<DeviceFailure>>,
    tell: OnceLock<Tell>,
}

impl Body {
    pub(crate) fn new(parts: Vec<Part>) -> Arc<Self> {
        Arc::new(Self {
            parts,
            enabled: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            broken: OnceLock::new(),
            failed: Mutex::new(None),
            tell: OnceLock::new(),
        })
    }

    pub(crate) fn tells(&self, tell: Tell) {
        let _ = self.tell.set(tell); // It is started once.
    }

    fn is_open(&self) -> bool {
        self.enabled.load(Ordering::SeqCst) && !self.is_ending() && self.broken.get().is_none()
    }

    /// The session is about to hear why it stops.
    fn is_ending(&self) -> bool {
        self.pressed.load(Ordering::SeqCst) || self.over.load(Ordering::SeqCst)
    }

    /// Calls a method of the user's. A panic stops everything, for good.
    fn call<R>(&self, part: &Part, what: &str, work: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => Some(result),
            Err(panic) => {
                let why = format!("`{what}` of {} panicked: {}", part.name, panic_text(&*panic));
                let _ = self.broken.set(why); // The first one counts.
                if what != "stop" {
                    self.stop_all(StopCause::Device, false);
                }
                None
            }
        }
    }

    /// The gate closes first. `backwards`: the last device first, so that one whose stop hangs on one thread does not keep another
    /// thread from stopping the others.
    fn stop_all(&self, cause: StopCause, backwards: bool) {
        self.enabled.store(false, Ordering::SeqCst);
        let stop = |part: &Part| self.call(part, "stop", || part.device.stop(cause));
        if backwards {
            self.parts.iter().rev().for_each(|part| _ = stop(part));
        } else {
            self.parts.iter().for_each(|part| _ = stop(part));
        }
    }

    /// From another thread than the session's, which may be held up.
    pub(crate) fn stop_beside(&self, cause: StopCause) {
        self.stop_all(cause, true);
    }

    /// The emergency button, on any thread: nothing moves before the session holds it. The session is told first, for the devices' stops may
    /// take their time.
    #[cfg(feature = "sockets")]
    pub(crate) fn press(&self, tell: impl FnOnce()) {
        self.pressed.store(true, Ordering::SeqCst);
        tell();
        self.stop_beside(StopCause::LocalEmergency);
    }

    /// The robot is over: nothing moves any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.stop_beside(StopCause::Host);
    }

    fn fail(&self, failure: DeviceFailure) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    fn lasting(&self) -> Option<DeviceFailure> {
        self.broken.get().map(|why| DeviceFailure::Ended(why.clone()))
    }

    fn enable(&self) -> Result<(), DeviceFailure> {
        if let Some(broken) = self.lasting() {
            return Err(broken);
        }
        if self.is_ending() {
            return Err(DeviceFailure::Stopped("it is being stopped".to_owned()));
        }
        for part in &self.parts {
            let enabled = self.call(part, "enable", || part.device.enable());
            let why = match enabled {
                Some(Ok(())) => continue,
                Some(Err(why)) => DeviceFailure::Stopped(format!("{}: {why}", part.name)),
                None => self.lasting().unwrap_or(DeviceFailure::Closed),
            };
            self.stop_all(StopCause::Device, false);
            return Err(why);
        }
        self.enabled.store(true, Ordering::SeqCst);
        if !self.is_open() {
            // Somebody stopped it meanwhile: what was enabled after that is stopped as well.
            self.stop_all(StopCause::Host, false);
            return Err(DeviceFailure::Stopped("it is being stopped".to_owned()));
        }
        Ok(())
    }

    fn apply(&self, channel: Option<ChannelId>, motion: &motion::Motion, lease: taut_core::Duration) -> bool {
        let Some(part) = self.parts.iter().find(|part| part.channel == channel) else { return false };
        if !self.is_open() {
            return self.is_ending();
        }
        let applied = self.call(part, "apply", || part.device.apply(motion, theirs(lease)));
        if let Some(Err(why)) = &applied {
            self.stop_all(StopCause::Device, false);
            self.fail(DeviceFailure::Stopped(format!("{}: {why}", part.name)));
        }
        let goes_on = self.is_open();
        if !goes_on {
            // Somebody stopped it meanwhile; what was applied may have come after that.
            self.call(part, "stop", || part.device.stop(StopCause::Host));
        }
        self.is_ending() || goes_on && matches!(applied, Some(Ok(())))
    }

    fn measure(&self) -> Option<Measured> {
        let mut hand = None;
        for part in &self.parts {
            let measured = self.call(part, "measure", || part.device.measure()).flatten();
            match (part.channel, measured) {
                (None, Some(motion)) => hand = State::from_motion(&motion),
                (Some(channel), Some(motion)) => {
                    if let Some(tell) = self.tell.get() {
                        tell(channel, motion);
                    }
                }
                (_, None) => {}
            }
        }
        hand.map(|state| Measured {
            state: state.made_at(Time::ZERO),
            controller_force: None,
            feedback: None,
        })
    }
}

impl State {
    fn from_motion(motion: &motion::Motion) -> Option<Self> {
        <Self as crate::motion::sealed::Moves>::of_motion(motion)
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

/// The body as a session's device.
#[derive(Clone)]
pub(crate) struct Plant {
    body: Arc<Body>,
    period: taut_core::Duration,
    has_hand: bool,
}

impl Plant {
    pub(crate) fn new(body: Arc<Body>, period: Duration) -> Self {
        let has_hand = body.parts.iter().any(|part| part.channel.is_none());
        Self { body, period: ours(period), has_hand }
    }
}

impl taut_agent::RobotDevice for Plant {
    fn period(&self) -> taut_core::Duration {
        self.period
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.body.enable()
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        let target = crate::motion::sealed::Moves::to_motion(&State::of_session(&point.state));
        !self.has_hand || self.body.apply(None, &target, point.lease)
    }
    fn drive(&mut self, channel: ChannelId, motion: &motion::Motion, lease: taut_core::Duration) -> bool {
        self.body.apply(Some(channel), motion, lease)
    }
    fn stop(&mut self, cause: StopCause) {
        self.body.stop_all(cause, false);
        // The session knows of the press, and holds it from here on; of an operator's own stop it lets go from afar.
        if matches!(cause, StopCause::LocalEmergency | StopCause::ButtonLost) {
            self.body.pressed.store(false, Ordering::SeqCst);
        }
    }
    fn measure(&mut self) -> Option<Measured> {
        self.body.measure()
    }
    fn feeds_back(&mut self) -> bool {
        self.has_hand
    }
    /// Messages go by [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver).
    fn receive(&mut self, _: ChannelId, _: Option<taut_core::Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        None
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        let failed = self.body.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.body.lasting().or(failed)
    }
    fn lease(&self) -> bool {
        self.body.parts.iter().all(|part| part.device.keeps_lease())
    }
    fn stiffness(&self) -> Option<f32> {
        None
    }
    fn limit_force(&mut self, _: f32) -> bool {
        false
    }
    fn is_real(&self) -> bool {
        true
    }
}

#[cfg(feature = "sockets")]
impl taut_io::device::Stopper for Body {
    fn stop(&self, cause: StopCause) {
        self.stop_beside(cause);
    }
}

#[cfg(feature = "sockets")]
impl taut_io::device::Stoppable for Plant {
    fn stopper(&self) -> Arc<dyn taut_io::device::Stopper> {
        Arc::clone(&self.body) as Arc<dyn taut_io::device::Stopper>
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|part| &part.name)).finish()
    }
}

impl fmt::Debug for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.fmt(f)
    }
}
