//! What a robot lets itself be told.

use taut_wire::session::{Limits as Wire, Verdict};

use crate::state::State;

/// What happens to a state that is out of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitPolicy {
    /// It is brought within them: positions to the nearest face of the box, velocity and force shortened in their own
    /// direction, steps shortened towards their end.
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
///     .force(20.0)
///     .step(0.002)
///     .policy(LimitPolicy::Clamp);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MotionLimits {
    pub(crate) wire: Wire,
    policy: LimitPolicy,
}

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
    /// measured itself last; until it did ([`Robot::measure`](crate::Robot::measure)), every state is refused. Default:
    /// infinite.
    pub fn step(mut self, longest: f32) -> Self {
        self.wire.step = longest.max(0.0);
        self
    }

    /// What happens to states out of the limits. Default: clamp.
    pub fn policy(mut self, policy: LimitPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// `asked`, which is finite, within the limits, with its orientation a unit quaternion; `from` is where the robot is,
    /// where anybody knows. What comes out is finite.
    ///
    /// # Errors
    /// [`Verdict::NotFinite`] where the orientation is none; [`Verdict::OutOfLimits`] under [`LimitPolicy::Refuse`], and
    /// under a limit of steps where nobody knows where they begin.
    pub(crate) fn bound(&self, from: Option<[f32; 3]>, asked: &State) -> Result<State, Verdict> {
        let norm = magnitude(&asked.orientation_wxyz);
        if norm < LEAST_NORM {
            return Err(Verdict::NotFinite);
        }
        let mut state = *asked;
        for i in 0..3 {
            state.position[i] = asked.position[i].clamp(self.wire.position_min[i], self.wire.position_max[i]);
        }
        shorten(&mut state.velocity, self.wire.velocity);
        shorten(&mut state.force, self.wire.force);
        if self.wire.step.is_finite() {
            let from = from.ok_or(Verdict::OutOfLimits)?;
            state.position = towards(from, state.position, self.wire.step);
        }
        if self.policy == LimitPolicy::Refuse && state != *asked {
            return Err(Verdict::OutOfLimits);
        }
        state.orientation_wxyz = asked.orientation_wxyz.map(|part| (f64::from(part) / norm) as f32);
        Ok(state)
    }
}

/// `to`, or the point `longest` on the way there. The way between two numbers of 32 bits may be too long for one of them.
fn towards(from: [f32; 3], to: [f32; 3], longest: f32) -> [f32; 3] {
    let way: [f64; 3] = std::array::from_fn(|i| f64::from(to[i]) - f64::from(from[i]));
    let length = way.iter().map(|part| part * part).sum::<f64>().sqrt();
    let longest = f64::from(longest);
    if length <= longest {
        return to;
    }
    std::array::from_fn(|i| (f64::from(from[i]) + way[i] * (longest / length)) as f32)
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
    use proptest::prelude::*;
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
        let clamped = limits().bound(None, &state()).unwrap();
        assert!(near(&clamped.position, &[0.2, -0.05, 0.1]), "{clamped:?}");
        assert!(near(&clamped.velocity, &[0.6, 0.0, 0.8]), "{clamped:?}");
        assert!(near(&clamped.force, &[0.0, 3.0, 4.0]), "{clamped:?}");
        assert!(near(&clamped.orientation_wxyz, &[0.0, 1.0, 0.0, 0.0]), "{clamped:?}");
    }

    #[test]
    fn a_step_is_shortened_towards_its_end() {
        let clamped = limits().step(0.01).bound(Some([0.1, -0.05, 0.1]), &state()).unwrap();
        assert!(near(&clamped.position, &[0.11, -0.05, 0.1]), "{clamped:?}");
    }

    #[test]
    fn no_step_is_taken_from_where_nobody_knows() {
        assert_eq!(limits().step(0.01).bound(None, &state()), Err(Verdict::OutOfLimits));
    }

    #[test]
    fn refusing_takes_only_what_is_within() {
        let limits = limits().policy(LimitPolicy::Refuse);
        assert_eq!(limits.bound(None, &state()), Err(Verdict::OutOfLimits));
        let within = State { position: [0.1; 3], velocity: [0.5; 3], force: [1.0; 3], ..state() };
        assert!(limits.bound(None, &within).is_ok());
        assert_eq!(limits.step(0.01).bound(Some([0.0; 3]), &within), Err(Verdict::OutOfLimits));
    }

    #[test]
    fn an_orientation_that_is_none_is_refused_whatever_the_policy() {
        let nowhere = State { orientation_wxyz: [0.0; 4], ..State::at(Time::ZERO) };
        assert_eq!(MotionLimits::new().bound(None, &nowhere), Err(Verdict::NotFinite));
    }

    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![
            any::<f32>().prop_filter("finite", |x| x.is_finite()),
            -1.0f32..1.0,
            Just(f32::MAX),
            Just(f32::MIN)
        ]
    }

    proptest! {
        /// Whatever finite state comes, and wherever the robot is: what it is told is finite and within every limit.
        #[test]
        fn what_comes_out_is_finite_and_within(
            numbers in prop::array::uniform13(number()),
            from in prop::array::uniform3(number()),
            largest in prop::array::uniform3(prop_oneof![0.0f32..2.0, Just(f32::MAX), Just(f32::INFINITY)]),
        ) {
            let three = |at: usize| std::array::from_fn(|i| numbers[at + i]);
            let asked = State {
                position: three(0),
                velocity: three(3),
                force: three(6),
                orientation_wxyz: std::array::from_fn(|i| numbers[9 + i]),
                ..State::at(Time::ZERO)
            };
            let [velocity, force, step] = largest;
            let limits = MotionLimits::new().velocity(velocity).force(force).step(step);
            if let Ok(told) = limits.bound(Some(from), &asked) {
                prop_assert!(told.is_finite(), "{told:?}");
                let slack = |limit: f32| f64::from(limit) * (1.0 + 1e-6);
                prop_assert!(magnitude(&told.velocity) <= slack(velocity));
                prop_assert!(magnitude(&told.force) <= slack(force));
                let largest_part = from.iter().chain(&told.position).fold(0.0f64, |most, x| most.max(f64::from(x.abs())));
                let way = (0..3).map(|i| (f64::from(told.position[i]) - f64::from(from[i])).powi(2)).sum::<f64>().sqrt();
                prop_assert!(way <= slack(step) + 1e-6 * largest_part, "{way} {step}");
            }
        }
    }
}
