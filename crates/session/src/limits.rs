//! What a robot lets itself be told.

use taut_wire::session::Limits as Wire;

/// What happens to a state that is out of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitPolicy {
    /// It is brought within them: positions to the nearest face of the box, ways shortened towards their end, velocity and
    /// force in their own direction.
    #[default]
    Clamp,
    /// It is dropped ([`OutOfLimits`](taut_core::DropCause::OutOfLimits)), and the watchdog goes on waiting.
    Refuse,
}

/// Limits on motion and force, applied beside the robot whatever the operator sends. All are off by default: they belong
/// to the robot, and nobody else can know them.
///
/// ```
/// use taut_session::{LimitPolicy, MotionLimits};
/// let limits = MotionLimits::new()
///     .position([-0.2, -0.2, 0.0], [0.2, 0.2, 0.3])
///     .velocity(0.5)
///     .acceleration(5.0)
///     .force(20.0)
///     .stiffness(3000.0)
///     .policy(LimitPolicy::Clamp);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionLimits {
    pub(crate) wire: Wire,
    pub(crate) stiffness: Option<f32>,
    pub(crate) policy: LimitPolicy,
}

/// States in a second that every robot takes: a device at 1 kHz, and urgent ones beside it, with room.
const RATE: f32 = 4_000.0;

impl Default for MotionLimits {
    fn default() -> Self {
        Self { wire: Wire { rate: RATE, ..Wire::default() }, stiffness: None, policy: LimitPolicy::default() }
    }
}

impl MotionLimits {
    /// None, but of the rate.
    pub fn new() -> Self {
        Self::default()
    }

    /// The box that positions stay in, m; on each axis `least` ≤ `largest`, or they change places. Default: everywhere.
    pub fn position(mut self, least: [f32; 3], largest: [f32; 3]) -> Self {
        // What is no number limits nothing.
        let or = |number: f32, other: f32| if number.is_nan() { other } else { number };
        self.wire.position_min = std::array::from_fn(|i| or(least[i].min(largest[i]), f32::NEG_INFINITY));
        self.wire.position_max = std::array::from_fn(|i| or(least[i].max(largest[i]), f32::INFINITY));
        self
    }

    /// The largest speed, m/s, at least 0: the commanded position moves no further than this times the time that has passed on
    /// the robot's own clock, from where the robot was when it was resumed, and the commanded velocity is no larger. Default:
    /// infinite.
    pub fn velocity(mut self, largest: f32) -> Self {
        self.wire.velocity = largest.max(0.0);
        self
    }

    /// The largest change of the commanded position's velocity, m/s², at least 0. A target that jumps is approached so that the
    /// way is left to brake; one that moves is followed without lag when its velocity is sent too. The box and the largest speed
    /// hold even where it would need a larger change. Default: infinite.
    pub fn acceleration(mut self, largest: f32) -> Self {
        self.wire.acceleration = largest.max(0.0);
        self
    }

    /// The largest force that the arm's controller may make, N, at least 0; the commanded force is no larger. With a
    /// [`stiffness`](Self::stiffness), the commanded position stays within force / stiffness of the measured one; of an arm that was
    /// pushed away it comes back no faster than the largest speed. Only the device itself can limit all of the force: this is the
    /// guard's part. Default: infinite.
    pub fn force(mut self, largest: f32) -> Self {
        self.wire.force = largest.max(0.0);
        self
    }

    /// The stiffness with which the arm's controller pulls towards the commanded position, N/m, more than 0. Default: unknown.
    pub fn stiffness(mut self, stiffness: f32) -> Self {
        self.stiffness = (stiffness > 0.0).then_some(stiffness);
        self
    }

    /// The longest way from one applied state to the next, m; at least 0: with a known rate of states, besides the speed.
    /// Default: infinite.
    pub fn step(mut self, longest: f32) -> Self {
        self.wire.step = longest.max(0.0);
        self
    }

    /// States that are taken in a second, at most, whatever the operator's rate; a tenth of a second's may come at once, as
    /// jitter brings them. Those beyond are dropped ([`RateLimited`](taut_core::DropCause::RateLimited)). Default: 4000.
    pub fn rate(mut self, hz: f32) -> Self {
        self.wire.rate = hz.max(1.0);
        self
    }

    /// What happens to states out of the limits. Default: clamp.
    pub fn policy(mut self, policy: LimitPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Must somebody know where the robot is before it may be told to move?
    pub(crate) fn needs_place(&self) -> bool {
        let Wire { velocity, acceleration, force, step, .. } = self.wire;
        [velocity, acceleration, step].iter().any(|limit| limit.is_finite())
            || force.is_finite() && self.stiffness.is_some()
    }
}
