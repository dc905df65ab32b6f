//! The exact motion of a mass on a spring and a damper while the force on it is held.
//!
//! x'' = u − k x − b v with constant u, k and b (all per mass) has the solution [x v u]ᵀ(h) = e^(Mh) [x v u]ᵀ(0). The exponential is that
//! of scaling and squaring (Moler, Van Loan, *Nineteen Dubious Ways to Compute the Exponential of a Matrix*, SIAM Review 45(1),
//! 2003, method 3): + − × ÷ only, hence the same bits on every machine, and no step is so long that it diverges.

use taut_core::Duration;

/// Contacts begin and end between two steps of this length at most.
pub(crate) const LONGEST: Duration = Duration::from_micros(500);

/// Into how many steps of one length, within [`LONGEST`], a time is divided, and that length in seconds.
pub(crate) fn steps(time: Duration) -> (u64, f64) {
    let count = time.as_nanos().div_ceil(LONGEST.as_nanos()).max(1);
    (count, time.as_secs_f64() / count as f64)
}

/// What becomes of position and velocity in one step: rows of e^(Mh). The third row is [0 0 1].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    position: [f64; 3],
    velocity: [f64; 3],
}

impl Transition {
    const IDENTITY: Self = Self { position: [1.0, 0.0, 0.0], velocity: [0.0, 1.0, 0.0] };

    /// For `seconds`, with a stiffness (1/s²) and a damping (1/s) for each unit of mass.
    pub(crate) fn new(stiffness: f64, damping: f64, seconds: f64) -> Self {
        /// Of the series: with a norm of 1/2 what is left out is below a part in 10¹⁵.
        const TERMS: u32 = 14;
        let size = |step: f64| step * (1.0 + stiffness + damping);
        let (mut step, mut halvings) = (seconds, 0);
        while size(step) > 0.5 && halvings < 60 {
            step /= 2.0;
            halvings += 1;
        }
        let matrix =
            Self { position: [0.0, step, 0.0], velocity: [-stiffness * step, -damping * step, step] };
        let (mut sum, mut term) = (Self::IDENTITY.plus(&matrix), matrix);
        for n in 2..=TERMS {
            term = term.followed_by(&matrix, 0.0).map(|part| part / f64::from(n));
            sum = sum.plus(&term);
        }
        (0..halvings).fold(sum, |half, _| half.followed_by(&half, 1.0))
    }

    /// Position and velocity after the step, with the acceleration `u` held.
    pub(crate) fn after(&self, position: f64, velocity: f64, u: f64) -> [f64; 2] {
        [&self.position, &self.velocity].map(|row| row[0] * position + row[1] * velocity + row[2] * u)
    }

    /// What the velocity gains in the step for each unit of acceleration, s.
    pub(crate) const fn per_acceleration(&self) -> f64 {
        self.velocity[2]
    }

    /// `next` times this; `last` is the corner of the third row: 1 of an exponential, 0 of what is summed for one.
    fn followed_by(&self, next: &Self, last: f64) -> Self {
        let row = |of: &[f64; 3]| {
            let column = |i: usize| of[0] * self.position[i] + of[1] * self.velocity[i];
            [column(0), column(1), column(2) + of[2] * last]
        };
        Self { position: row(&next.position), velocity: row(&next.velocity) }
    }

    fn plus(&self, other: &Self) -> Self {
        let row = |a: &[f64; 3], b: &[f64; 3]| std::array::from_fn(|i| a[i] + b[i]);
        Self {
            position: row(&self.position, &other.position),
            velocity: row(&self.velocity, &other.velocity),
        }
    }

    fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        Self { position: self.position.map(&of), velocity: self.velocity.map(&of) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_solution_in_closed_form_however_long_it_is() {
        // Underdamped: x = e^(−αt) (cos ωt + α/ω sin ωt) from 1 at rest.
        let (stiffness, damping) = (20_000.0, 60.0);
        let (alpha, omega) = (30.0f64, (20_000.0f64 - 900.0).sqrt());
        for seconds in [1e-5, 5e-4, 0.012, 0.3] {
            let [x, _] = Transition::new(stiffness, damping, seconds).after(1.0, 0.0, 0.0);
            let (turn, decay) = (omega * seconds, libm::exp(-alpha * seconds));
            let expected = decay * (libm::cos(turn) + alpha / omega * libm::sin(turn));
            assert!((x - expected).abs() < 1e-12, "{seconds} s: {x} for {expected}");
        }
    }

    #[test]
    fn a_free_mass_accelerates_and_a_held_one_comes_to_rest_where_forces_balance() {
        let [x, v] = Transition::new(0.0, 0.0, 0.5).after(1.0, 2.0, 4.0);
        assert!((x - 2.5).abs() < 1e-12 && (v - 4.0).abs() < 1e-12);
        let [x, v] = Transition::new(100.0, 20.0, 10.0).after(1.0, 2.0, 50.0);
        assert!((x - 0.5).abs() < 1e-9 && v.abs() < 1e-9);
    }

    #[test]
    fn many_short_steps_are_one_long_step() {
        let (short, long) =
            (Transition::new(11_000.0, 150.0, 0.0005), Transition::new(11_000.0, 150.0, 0.012));
        let [mut x, mut v] = [0.01, -0.3];
        (0..24).for_each(|_| [x, v] = short.after(x, v, 7.0));
        let [once, speed] = long.after(0.01, -0.3, 7.0);
        assert!((x - once).abs() < 1e-14 && (v - speed).abs() < 1e-12);
    }
}
