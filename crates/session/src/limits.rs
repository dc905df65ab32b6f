//! What a robot lets itself be told.

use taut_wire::session::Limits as Wire;

use crate::state::State;

/// What happens to a state that is out of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitPolicy {
    /// It is brought within them: positions to the nearest face of the box, velocity and force shortened in their own
    /// direction, steps shortened towards their end.
    #[default]
    Clamp,
    /// It is dropped ([`NotFinite`](taut_core::DropCause::NotFinite)), and the watchdog goes on waiting.
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
///     .force(20.0)
///     .step(0.002)
///     .policy(LimitPolicy::Clamp);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MotionLimits {
    pub(crate) wire: Wire,
    policy: LimitPolicy,
}

/// A state that is out of the limits, under [`LimitPolicy::Refuse`], or whose orientation is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfLimits;

/// A quaternion shorter than this points nowhere.
const LEAST_NORM: f64 = 1e-3;

impl MotionLimits {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The box that positions stay in, m; on each axis `least` ≤ `largest`, or they change places. Default: everywhere.
    pub fn position(mut self, least: [f32; 3], largest: [f32; 3]) -> Self {
        self.wire.position_min = std::array::from_fn(|i| least[i].min(largest[i]));
        self.wire.position_max = std::array::from_fn(|i| least[i].max(largest[i]));
        self
    }

    /// The largest magnitude of the velocity, m/s; at least 0. Default: infinite.
    pub fn velocity(mut self, largest: f32) -> Self {
        self.wire.velocity = largest.max(0.0);
        self
    }

    /// The largest magnitude of the force, N; at least 0. Default: infinite.
    pub fn force(mut self, largest: f32) -> Self {
        self.wire.force = largest.max(0.0);
        self
    }

    /// The longest way from one applied state to the next, m; at least 0. After a resume it counts from where the robot
    /// measured itself last. Default: infinite.
    pub fn step(mut self, longest: f32) -> Self {
        self.wire.step = longest.max(0.0);
        self
    }

    /// What happens to states out of the limits. Default: clamp.
    pub fn policy(mut self, policy: LimitPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Brings `state`, which is finite, within the limits; `from` is where the robot is. The orientation becomes a unit
    /// quaternion.
    pub(crate) fn apply(&self, from: Option<[f32; 3]>, state: &mut State) -> Result<(), OutOfLimits> {
        let asked = *state;
        let norm = magnitude(&state.orientation_wxyz);
        if norm < LEAST_NORM {
            return Err(OutOfLimits);
        }
        for i in 0..3 {
            state.position[i] = asked.position[i].clamp(self.wire.position_min[i], self.wire.position_max[i]);
        }
        shorten(&mut state.velocity, self.wire.velocity);
        shorten(&mut state.force, self.wire.force);
        if let Some(from) = from {
            let mut step: [f32; 3] = std::array::from_fn(|i| state.position[i] - from[i]);
            if shorten(&mut step, self.wire.step) {
                state.position = std::array::from_fn(|i| from[i] + step[i]);
            }
        }
        if self.policy == LimitPolicy::Refuse && *state != asked {
            return Err(OutOfLimits);
        }
        state.orientation_wxyz = asked.orientation_wxyz.map(|part| (f64::from(part) / norm) as f32);
        Ok(())
    }
}

/// Makes `vector` no longer than `longest`; true when it was.
pub(crate) fn shorten(vector: &mut [f32; 3], longest: f32) -> bool {
    let length = magnitude(vector);
    let longest = f64::from(longest);
    if length <= longest {
        return false;
    }
    *vector = vector.map(|part| (f64::from(part) * (longest / length)) as f32);
    true
}

fn magnitude(vector: &[f32]) -> f64 {
    vector.iter().map(|part| f64::from(*part) * f64::from(*part)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Time;

    fn near(found: &[f32], expected: &[f32]) -> bool {
        found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
    }

    fn state() -> State {
        State {
            position: [0.5, -0.05, 0.1],
            velocity: [3.0, 0.0, 4.0],
            force: [0.0, 6.0, 8.0],
            orientation_wxyz: [0.0, 2.0, 0.0, 0.0],
            ..State::at(Time::ZERO)
        }
    }

    fn limits() -> MotionLimits {
        MotionLimits::new().position([-0.2; 3], [0.2; 3]).velocity(1.0).force(5.0)
    }

    #[test]
    fn clamping_keeps_directions() {
        let mut clamped = state();
        limits().apply(None, &mut clamped).unwrap();
        assert!(near(&clamped.position, &[0.2, -0.05, 0.1]), "{clamped:?}");
        assert!(near(&clamped.velocity, &[0.6, 0.0, 0.8]), "{clamped:?}");
        assert!(near(&clamped.force, &[0.0, 3.0, 4.0]), "{clamped:?}");
        assert!(near(&clamped.orientation_wxyz, &[0.0, 1.0, 0.0, 0.0]), "{clamped:?}");
    }

    #[test]
    fn a_step_is_shortened_towards_its_end() {
        let mut clamped = state();
        limits().step(0.01).apply(Some([0.1, -0.05, 0.1]), &mut clamped).unwrap();
        assert!(near(&clamped.position, &[0.11, -0.05, 0.1]), "{clamped:?}");
        let mut free = state();
        limits().step(0.01).apply(None, &mut free).unwrap();
        assert!(near(&free.position[..1], &[0.2]), "nobody knows where the robot is: {free:?}");
    }

    #[test]
    fn refusing_takes_only_what_is_within() {
        let limits = limits().policy(LimitPolicy::Refuse);
        assert_eq!(limits.apply(None, &mut state()), Err(OutOfLimits));
        let mut within = State { position: [0.1; 3], velocity: [0.5; 3], force: [1.0; 3], ..state() };
        assert_eq!(limits.apply(None, &mut within), Ok(()));
        assert_eq!(limits.step(0.01).apply(Some([0.0; 3]), &mut within), Err(OutOfLimits));
    }

    #[test]
    fn an_orientation_that_is_none_is_refused_whatever_the_policy() {
        let mut nowhere = State { orientation_wxyz: [0.0; 4], ..State::at(Time::ZERO) };
        assert_eq!(MotionLimits::new().apply(None, &mut nowhere), Err(OutOfLimits));
    }
}
