//! The loop at a frequency: where |L| passes 1. Where many stiffnesses are tried, what does not depend on them is computed once.

use super::Touch;

/// A frequency at which |L| is 1, rad/s, and whether it falls there.
#[derive(Clone, Copy)]
pub(super) struct Crossover {
    pub(super) omega: f64,
    pub(super) falls: bool,
}

/// What goes into L(jω) whatever the stiffness of what is touched: of complex numbers real and imaginary part.
#[derive(Clone, Copy)]
pub(super) struct Frequency {
    omega: f64,
    servo: [f64; 2],
    /// m_a ω².
    inertia: f64,
    /// b_e ω.
    met: f64,
    led: [f64; 2],
    own: [f64; 2],
    device: f64,
    /// |led|², and |own|² with the lag of the device.
    squares: [f64; 2],
}

impl Touch {
    /// The frequencies at which it is looked whether |L| exceeds 1.
    pub(super) fn sweep(&self) -> Vec<Frequency> {
        /// Beyond every resonance of what is held in a hand.
        const RANGE: [f64; 2] = [0.01, 1e5];
        const RATIO: f64 = 1.001;
        let below = |omega: &f64| (*omega < RANGE[1]).then(|| omega * RATIO);
        std::iter::successors(Some(RANGE[0]), below).map(|omega| self.at(omega)).collect()
    }

    /// Frequencies where |L| passes 1, rad/s, each to a part in 10¹².
    pub(super) fn crossovers<'a>(&'a self, sweep: &'a [Frequency]) -> impl Iterator<Item = Crossover> + 'a {
        let mut at_high = sweep.first().is_some_and(|lowest| self.exceeds(lowest));
        sweep.windows(2).filter_map(move |pair| {
            let [mut low, mut high] = [pair[0].omega, pair[1].omega];
            let at_low = std::mem::replace(&mut at_high, self.exceeds(&pair[1]));
            if at_low == at_high {
                return None;
            }
            while high / low > 1.0 + 1e-12 {
                let middle = (low * high).sqrt();
                *(if self.exceeds(&self.at(middle)) == at_low { &mut low } else { &mut high }) = middle;
            }
            Some(Crossover { omega: low, falls: at_low })
        })
    }

    /// Is |L| above 1? Its square is known from squares without that of L itself, but for the last digits.
    fn exceeds(&self, frequency: &Frequency) -> bool {
        const NEAR: f64 = 1e-9;
        let Frequency { servo, inertia, met, squares, .. } = *frequency;
        let stiffness = self.surface.stiffness;
        let held = [servo[0] + stiffness - inertia, servo[1] + met];
        let square = (stiffness * stiffness + met * met) * squares[0]
            / ((held[0] * held[0] + held[1] * held[1]) * squares[1]);
        if square.is_finite() && (square - 1.0).abs() > NEAR {
            return square > 1.0;
        }
        let [re, im] = self.open_loop(frequency);
        re * re + im * im > 1.0
    }

    /// What of L(jω) does not depend on the stiffness of what is touched.
    pub(super) fn at(&self, omega: f64) -> Frequency {
        let Self { hand, arm, surface, lags } = self;
        // The arm is led by the velocity that is told, and damped by its own.
        let filtered = over([0.0, arm.damping * omega], [1.0, lags.velocity * omega]);
        let lag = [1.0, lags.arm * omega];
        let led = over([arm.stiffness + filtered[0], filtered[1]], lag);
        let square = omega * omega;
        let own = [hand.stiffness - hand.mass * square, hand.damping * omega];
        let device = lags.device * omega;
        let norm = |[re, im]: [f64; 2]| re * re + im * im;
        Frequency {
            omega,
            servo: over([arm.stiffness, arm.damping * omega], lag),
            inertia: arm.mass * square,
            met: surface.damping * omega,
            led,
            own,
            device,
            squares: [norm(led), norm(own) * norm([1.0, device])],
        }
    }

    /// L(jω): real and imaginary part.
    pub(super) fn open_loop(&self, frequency: &Frequency) -> [f64; 2] {
        let Frequency { servo, inertia, met, led, own, device, .. } = *frequency;
        let met = [self.surface.stiffness, met];
        let held = [servo[0] + met[0] - inertia, servo[1] + met[1]];
        over(product(met, led), product(product(held, own), [1.0, device]))
    }
}

/// Of two complex numbers.
fn over(a: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    let norm = c * c + d * d;
    product(a, [c / norm, -d / norm])
}

/// Of two complex numbers.
pub(super) fn product([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    [a * c - b * d, a * d + b * c]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::touch::{Lags, Surface};

    #[test]
    fn whether_the_loop_exceeds_1_is_known_from_squares_as_from_the_loop_itself() {
        let lags = Lags { device: 0.002, velocity: 0.003, arm: 0.001 };
        let (mut near, mut all) = (0, 0);
        for (hand, lags) in Touch::GRIPS.into_iter().flat_map(|hand| [(hand, Lags::NONE), (hand, lags)]) {
            for damping in [0.0, 10.0] {
                let touch = Touch { hand, lags, ..Touch::of(Surface { stiffness: 0.0, damping }) };
                let sweep = touch.sweep();
                for stiffness in (0..8).map(|power| 1.5 * f64::from(4_i32.pow(power))) {
                    let touch = Touch { surface: Surface { stiffness, damping }, ..touch };
                    let crossovers = touch.crossovers(&sweep).map(|crossover| touch.at(crossover.omega));
                    for frequency in sweep.iter().copied().chain(crossovers) {
                        let [re, im] = touch.open_loop(&frequency);
                        let square = re * re + im * im;
                        assert_eq!(touch.exceeds(&frequency), square > 1.0, "{touch:?}");
                        near += u32::from((square - 1.0).abs() < 1e-8);
                        all += 1;
                    }
                }
            }
        }
        assert!(near > 50 && all > 1_000_000, "{near} of {all}");
    }
}
