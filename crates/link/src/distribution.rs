//! The shapes of jitter, as quantile functions.

/// The shape of [`Jitter`](crate::Jitter): a random *x* of zero mean (nearly, for Pareto), to be scaled by the spread.
///
/// All three come by inversion from one uniform number *u* in (0, 1), as in netem, whose tables are quantile functions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Distribution {
    /// *x* = 2*u* − 1: from −1 to 1, standard deviation 1/√3. What netem does without a table.
    #[default]
    Uniform,
    /// Standard normal, from −8.3 to 8.3. `distribution normal`, whose table ends at ±4.
    Normal,
    /// *x* = 4/3·((1 − *u*)^(−1/3) − 3/2), at most 4. netem's `distribution pareto`, of shape 3: from −2/3, and the cap at 4 (1.1 %
    /// of the packets) takes the mean from 0 to −0.033.
    Pareto,
}

impl Distribution {
    /// The value below which a share `u` in (0, 1) of all values lie.
    pub fn quantile(self, u: f64) -> f64 {
        match self {
            Self::Uniform => 2.0 * u - 1.0,
            Self::Normal => normal_quantile(u),
            // `netem/pareto.c` of iproute2: scaled by 4/3, cut where its 16-bit table ends.
            Self::Pareto => (4.0 / 3.0 * (libm::exp(-libm::log(1.0 - u) / 3.0) - 1.5)).min(4.0),
        }
    }
}

/// Acklam's rational approximation of the standard normal quantile, relative error below 1.15·10⁻⁹.
pub(crate) fn normal_quantile(u: f64) -> f64 {
    const TAIL: f64 = 0.02425;
    if u < TAIL {
        normal_tail(u)
    } else if u > 1.0 - TAIL {
        -normal_tail(1.0 - u)
    } else {
        let q = u - 0.5;
        let square = q * q;
        q * polynomial(&CENTRE_NUMERATOR, square) / polynomial(&CENTRE_DENOMINATOR, square)
    }
}

/// Φ, kept within (0, 1), because quantiles may be infinite at the ends.
pub(crate) fn normal_fraction(x: f64) -> f64 {
    let fraction = 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    fraction.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON / 2.0)
}

fn normal_tail(u: f64) -> f64 {
    let q = (-2.0 * libm::log(u)).sqrt();
    polynomial(&TAIL_NUMERATOR, q) / polynomial(&TAIL_DENOMINATOR, q)
}

/// By Horner's rule, the highest power first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

const CENTRE_NUMERATOR: [f64; 6] = [
    -3.969683028665376e1,
    2.209460984245205e2,
    -2.759285104469687e2,
    1.383_577_518_672_69e2,
    -3.066479806614716e1,
    2.506628277459239,
];
const CENTRE_DENOMINATOR: [f64; 6] = [
    -5.447609879822406e1,
    1.615858368580409e2,
    -1.556989798598866e2,
    6.680131188771972e1,
    -1.328068155288572e1,
    1.0,
];
const TAIL_NUMERATOR: [f64; 6] = [
    -7.784894002430293e-3,
    -3.223964580411365e-1,
    -2.400758277161838,
    -2.549732539343734,
    4.374664141464968,
    2.938163982698783,
];
const TAIL_DENOMINATOR: [f64; 5] =
    [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_quantile_inverts_the_normal_distribution_function() {
        for step in 1..20_000 {
            let u = f64::from(step) / 20_000.0;
            let x = Distribution::Normal.quantile(u);
            let back = normal_fraction(x);
            assert!((back - u).abs() < 1e-8 * u.min(1.0 - u).max(1e-3), "{u} -> {x} -> {back}");
        }
        assert!(Distribution::Normal.quantile(1e-16).abs() < 8.3);
    }

    #[test]
    fn pareto_is_netems_table() {
        // `netem/pareto.c`: entry 16384 i of the table is (4/3)(u^(-1/3) - 1.5) at u = 1 - i, times 8192.
        for (u, expected) in [(0.0, -2.0 / 3.0), (0.5, -0.320_105_270), (0.875, 2.0 / 3.0), (0.9999, 4.0)] {
            assert!((Distribution::Pareto.quantile(u) - expected).abs() < 1e-8, "at {u}");
        }
    }
}
