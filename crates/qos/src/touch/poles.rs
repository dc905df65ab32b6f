//! Is the loop stable without delay? By Routh's array of its characteristic polynomial.

use super::{Lags, Mass, Touch};

/// The highest power of s: hand and arm have two each, and each lag has one.
const DEGREE: usize = 7;

/// Coefficients, the constant one first.
type Polynomial = [f64; DEGREE + 1];

/// What does not fit is zero.
fn times(a: &Polynomial, b: &[f64]) -> Polynomial {
    std::array::from_fn(|power| {
        b.iter().enumerate().filter(|(n, _)| *n <= power).map(|(n, b)| a[power - n] * b).sum()
    })
}

fn of(coefficients: &[f64]) -> Polynomial {
    std::array::from_fn(|power| coefficients.get(power).copied().unwrap_or_default())
}

impl Touch {
    /// Has 1 + L = 0 all its roots on the left? With A = 1 + τ s of the device, V of its velocity and R of the arm's controller it is
    /// H A V (m_a s² + b_e s + K_e) R + H A V (K_s + b_s s) + (K_e + b_e s)(K_s V + b_s s) = 0, H = m_h s² + b_h s + K_h.
    pub(super) fn is_stable_without_delay(&self) -> bool {
        let Self { hand, arm, surface, lags: Lags { device, velocity, arm: lag } } = self;
        let spring = |Mass { mass, damping, stiffness }: &Mass| [*stiffness, *damping, *mass];
        let met = [surface.stiffness, surface.damping, arm.mass];
        let servo = [arm.stiffness, arm.damping];
        let own = times(&times(&of(&spring(hand)), &[1.0, *device]), &[1.0, *velocity]);
        let held = times(&of(&met), &[1.0, *lag]);
        let held: Polynomial = std::array::from_fn(|n| held[n] + servo.get(n).copied().unwrap_or_default());
        let led = [arm.stiffness, arm.stiffness * velocity + arm.damping];
        let back = times(&of(&led), &[surface.stiffness, surface.damping]);
        let own = times(&own, &held);
        is_hurwitz(&std::array::from_fn(|n| own[n] + back[n]))
    }
}

/// Are all its roots on the left? All of Routh's first column are above zero then (Hurwitz 1895; Routh 1877).
fn is_hurwitz(polynomial: &Polynomial) -> bool {
    let Some(degree) = polynomial.iter().rposition(|coefficient| *coefficient != 0.0) else { return false };
    let row = |from: usize| -> Vec<f64> { (0..=from).rev().step_by(2).map(|n| polynomial[n]).collect() };
    let (mut upper, mut lower) = (row(degree), if degree > 0 { row(degree - 1) } else { Vec::new() });
    while let Some(first) = lower.first().copied() {
        if upper[0] <= 0.0 || first <= 0.0 {
            return false;
        }
        let ratio = upper[0] / first;
        let next: Vec<f64> =
            (1..upper.len()).map(|n| upper[n] - ratio * lower.get(n).copied().unwrap_or_default()).collect();
        (upper, lower) = (lower, next);
    }
    upper[0] > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_on_the_left_are_told_from_roots_on_the_right() {
        // (s + 1)(s + 2)(s + 3)(s² + 2 s + 5), then with s − 1 for s + 1, then with s² − 0.1 s + 5.
        let product = |factors: &[&[f64]]| factors.iter().fold(of(&[1.0]), |all, factor| times(&all, factor));
        let left = product(&[&[1.0, 1.0], &[2.0, 1.0], &[3.0, 1.0], &[5.0, 2.0, 1.0]]);
        let right = product(&[&[-1.0, 1.0], &[2.0, 1.0], &[3.0, 1.0], &[5.0, 2.0, 1.0]]);
        let swings = product(&[&[1.0, 1.0], &[2.0, 1.0], &[3.0, 1.0], &[5.0, -0.1, 1.0]]);
        assert_eq!([left, right, swings].map(|polynomial| is_hurwitz(&polynomial)), [true, false, false]);
        assert!(is_hurwitz(&of(&[2.0, 1.0])) && !is_hurwitz(&of(&[-2.0, 1.0])));
    }
}
