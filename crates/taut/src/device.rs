//! Devices of the user's own.

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use taut_session::StopCause;

use crate::message::Failure;
use crate::motion::{Motion, State};

/// Something that moves. Three methods are enough.
///
/// A session asks it on a thread of its own; [`stop`](Self::stop) may come from any thread at any moment, also while another method
/// waits. So all take `&self`: what changes is in atomics, in a mutex, or behind a channel to the controller.
///
/// What stops it, each without the others:
/// - the session: its watchdog, an emergency stop at either end, a link that is lost, an error or a panic of a method here;
/// - a thread beside it, when the session's is held up, in a method of this trait for instance;
/// - the device itself, when it [keeps the lease](Self::keeps_lease): nothing else remains when the process is killed or frozen.
///
/// After a panic it is stopped, and not enabled again before the process starts anew.
pub trait RobotDevice<M: Motion = State>: Send + Sync + 'static {
    /// Move so, for `lease` and no longer without hearing more: fresh, finite, and within the limits. Called up to some thousand times a
    /// second; it does not wait for the motion.
    ///
    /// # Errors
    /// When it cannot. The robot stops, and the operator is told.
    fn apply(&self, target: &M, lease: Duration) -> Result<(), Failure>;

    /// Where it is and, of a [`State`], what it feels; `None` while that is not known. Motion begins there: what does not measure itself
    /// is not moved (only a [`Twist`](crate::Twist) needs no place).
    fn measure(&self) -> Option<M>;

    /// Stop, and stay, whatever is being applied at this moment. Whether it holds, brakes or cuts the power (categories 2, 1 and 0 of
    /// IEC 60204-1) is the device's choice. It must not wait, for a lock neither that another method holds while it waits; it may come
    /// again, and when nothing moves.
    fn stop(&self, cause: StopCause);

    /// The operator resumed: motion follows. Default: nothing to do.
    ///
    /// # Errors
    /// When it cannot move; then nothing does.
    fn enable(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Does it stop by itself when a lease is over? A robot whose loop is [your own](crate::RobotBuilder::build) needs it. Default: no.
    fn keeps_lease(&self) -> bool {
        false
    }

    /// Its controller makes no more force than this, N, whatever position it is told. False when it cannot keep to that: then
    /// [`StateLimits::stiffness`](crate::StateLimits::stiffness) has to be known. Asked once, at the start. Default: no.
    fn limit_force(&self, _newtons: f32) -> bool {
        false
    }
}

/// What a hand holds: a haptic device, a joystick, a recording. A session asks it on a thread of its own.
///
/// ```
/// use taut::{OperatorDevice, State};
///
/// struct Stick;
///
/// impl OperatorDevice for Stick {
///     fn sample(&mut self) -> Option<State> {
///         Some(State::at([0.1, 0.0, 0.2]))
///     }
///     fn feel(&mut self, robot: &State) {
///         println!("push with {:?} N", robot.force);
///     }
///     fn lost(&mut self) {
///         println!("no force");
///     }
/// }
/// ```
pub trait OperatorDevice: Send + 'static {
    /// Where it is now; asked [so often](crate::OperatorBuilder::rate). `None`: it has read nothing new. Nothing is sent then, and the
    /// robot's watchdog stops the robot: never give an old reading again.
    fn sample(&mut self) -> Option<State>;

    /// Where the robot is and what it feels: push the hand with that force, which is within
    /// [`OperatorBuilder::force_limit`](crate::OperatorBuilder::force_limit), and where both ends [turn](crate::OperatorBuilder::turns) with that torque.
    fn feel(&mut self, robot: &State);

    /// Nothing fresh is known of the robot: let go of the last force. It may come again, and when nothing was felt.
    fn lost(&mut self);

    /// The robot is resumed, at the start or after a stop or a lost connection: what moves it relative to where it is begins anew. It comes when
    /// that is asked for, and once more before the first [`sample`](Self::sample). Default: nothing to do.
    fn resumed(&mut self) {}
}

/// Made by [`robot_device`].
#[derive(Debug)]
pub struct FnDevice<M, A, Q, S> {
    apply: Mutex<A>,
    measure: Mutex<Q>,
    stop: S,
    keeps_lease: bool,
    motion: PhantomData<fn(M)>,
}

/// A device of three closures: see the methods of [`RobotDevice`]. `stop` is called from any thread, also while another one waits.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use taut::{State, robot_device};
///
/// let arm = Arc::new(Mutex::new(State::default()));
/// let (moved, measured) = (Arc::clone(&arm), arm);
/// let device = robot_device(
///     move |target: &State, _lease| {
///         *moved.lock().unwrap() = *target;
///         Ok(())
///     },
///     move || Some(*measured.lock().unwrap()),
///     |cause| println!("stopped: {}", cause.name()),
/// );
/// ```
pub fn robot_device<M, A, Q, S>(apply: A, measure: Q, stop: S) -> FnDevice<M, A, Q, S>
where
    M: Motion,
    A: FnMut(&M, Duration) -> Result<(), Failure> + Send + 'static,
    Q: FnMut() -> Option<M> + Send + 'static,
    S: Fn(StopCause) + Send + Sync + 'static,
{
    FnDevice {
        apply: Mutex::new(apply),
        measure: Mutex::new(measure),
        stop,
        keeps_lease: false,
        motion: PhantomData,
    }
}

impl<M, A, Q, S> FnDevice<M, A, Q, S> {
    /// What is behind the closures stops by itself when a lease is over: see [`RobotDevice::keeps_lease`].
    pub fn with_lease(mut self) -> Self {
        self.keeps_lease = true;
        self
    }
}

impl<M, A, Q, S> RobotDevice<M> for FnDevice<M, A, Q, S>
where
    M: Motion,
    A: FnMut(&M, Duration) -> Result<(), Failure> + Send + 'static,
    Q: FnMut() -> Option<M> + Send + 'static,
    S: Fn(StopCause) + Send + Sync + 'static,
{
    fn apply(&self, target: &M, lease: Duration) -> Result<(), Failure> {
        (self.apply.lock().unwrap_or_else(PoisonError::into_inner))(target, lease)
    }

    fn measure(&self) -> Option<M> {
        (self.measure.lock().unwrap_or_else(PoisonError::into_inner))()
    }

    // No lock: an `apply` that waits must not hold it up.
    fn stop(&self, cause: StopCause) {
        (self.stop)(cause);
    }

    fn keeps_lease(&self) -> bool {
        self.keeps_lease
    }
}
