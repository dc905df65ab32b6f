//! Critical numbers of a device that renders a wall, and of two of them over a delay.
//!
//! Each is of a simpler world than [`Touch`]: a wall without an arm in front of it, a device that nobody holds, or a hand of which nothing is known. Hence the
//! damping of the device alone counts, not that of the hand. The margin of the loop says where calm ends with one hand and one arm.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};
use taut_core::Duration;

use crate::touch::{Lags, Mass, Touch};

/// The stiffest wall of which a sampled device is passive, N/m: b > K T/2 + |B|, with its own damping b and the wall's B, N·s/m (Colgate,
/// Schenkel, *Passivity of a class of sampled-data systems: application to haptic interfaces*, J. Robotic Systems 14(1), 1997). 0: none is.
///
/// ```
/// use taut_core::Duration;
/// use taut_qos::rendering::{gil_hulin, passive};
/// let period = Duration::from_millis(1);
/// assert_eq!(passive(2.0, 0.0, period), 4_000.0);
/// assert_eq!(passive(2.0, 10.0, period), 0.0);
/// assert_eq!(gil_hulin(2.0, 0.0, period, Duration::ZERO), 4_000.0);
/// ```
pub fn passive(damping: f64, wall_damping: f64, period: Duration) -> f64 {
    (2.0 * (damping - wall_damping.abs()) / period.as_secs_f64()).max(0.0)
}

/// The stiffest wall with which a device that nobody holds is stable over a delay, N/m: K < (b + B) / (T/2 + t_d), for delays that are short beside the
/// oscillation (Gil, Sánchez, Hulin, Preusche, Hirzinger, *Stability boundary for haptic rendering: influence of damping and delay*, J.
/// Computing and Information Science in Engineering 9(1), 2009).
pub fn gil_hulin(damping: f64, wall_damping: f64, period: Duration, delay: Duration) -> f64 {
    (damping + wall_damping) / (period.as_secs_f64() / 2.0 + delay.as_secs_f64())
}

/// The stiffest wall with which an encoder of this step, m, feeds no oscillation, N/m, where Coulomb friction, N, takes what it gives: K ≤ 2 f/Δ
/// (Abbott, Okamura, *Effects of position quantization and sampling rate on virtual-wall passivity*, IEEE Trans. Robotics 21(5), 2005). `None`: it
/// has no steps.
pub fn quantised(friction: f64, encoder: f64) -> Option<f64> {
    (encoder > 0.0).then(|| 2.0 * friction / encoder)
}

/// The least damping of its own that a device needs, N·s/m, so that position–force control over this round trip is absolutely stable up to 50 Hz: calm there
/// whoever holds it, and whatever passive the arm touches. For all frequencies no damping is enough, since the force of a thing that resounds with the arm above any
/// of them goes back as it is. By Llewellyn's criterion (*Some fundamental properties of transmission systems*, Proc. IRE 40(3), 1952; for
/// teleoperation Hashtrudi-Zaad, Salcudean, Int. J. Robotics Research 20(6), 2001) 2 Re h₁₁ Re h₂₂ ≥ |h₁₂h₂₁| + Re h₁₂h₂₁ at every frequency: h₁₁ is the
/// device, h₂₂ = 1/Z of the arm under its servo, and h₁₂h₂₁ = −e^(−sT) C/Z of the servo's C = b_s + K_s/s.
pub fn llewellyn(arm: &Mass, round_trip: Duration) -> f64 {
    const RATIO: f64 = 1.002;
    /// Hz: to where no loop through a hand follows.
    const RANGE: [f64; 2] = [0.01, 50.0];
    let Mass { mass, damping, stiffness } = *arm;
    let needed = |omega: f64| {
        let servo = [damping, -stiffness / omega];
        let whole = [damping, mass * omega - stiffness / omega];
        let square = whole[0] * whole[0] + whole[1] * whole[1];
        // C/Z, and Re 1/Z.
        let re = (servo[0] * whole[0] + servo[1] * whole[1]) / square;
        let im = (servo[1] * whole[0] - servo[0] * whole[1]) / square;
        let (sin, cos) = libm::sincos(omega * round_trip.as_secs_f64());
        let turned = -(re * cos + im * sin);
        let admittance = whole[0] / square;
        (libm::hypot(re, im) + turned) / (2.0 * admittance)
    };
    let omegas = std::iter::successors(Some(TAU * RANGE[0]), |omega| Some(omega * RATIO));
    omegas.take_while(|omega| *omega < TAU * RANGE[1]).map(needed).fold(0.0, f64::max)
}

/// Of a device by itself, whoever holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Device {
    /// Viscous, N·s/m.
    pub damping: f64,
    /// Coulomb, N.
    pub friction: f64,
    /// From one reading of its encoder to the next, m; 0: exact.
    pub encoder: f64,
}

/// The critical numbers of a device and what is touched with it. Where something lags that is in the world of one, it says nothing.
///
/// ```
/// use taut_core::Duration;
/// use taut_qos::rendering::{Critical, Device};
/// use taut_qos::touch::{Lags, Surface, Touch};
/// let device = Device { damping: 15.0, ..Device::default() };
/// let [period, round_trip] = [1, 10].map(Duration::from_millis);
/// let touch = Touch::of(Surface::WALL);
/// assert_eq!(Critical::new(&device, &touch, period, round_trip).passive_n_m, Some(10_000.0));
/// let touch = Touch { lags: Lags { device: 0.01, ..Lags::NONE }, ..touch };
/// assert_eq!(Critical::new(&device, &touch, period, round_trip).passive_n_m, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Critical {
    /// The stiffest wall that rendered beside the hand is [`passive`], N/m: b > KT/2 + B, b being the damping of the device alone (Colgate, Schenkel 1997); 0 where none is;
    /// absent where amplifier or filter of the device lag.
    pub passive_n_m: Option<f64>,
    /// The stiffest wall of a device that nobody holds, rendered a round trip away, N/m: K < (b + B)/(T/2 + t) ([`gil_hulin`], 2009); absent where amplifier or
    /// filter of the device lag.
    pub gil_hulin_n_m: Option<f64>,
    /// The stiffest wall whose encoder's steps friction makes up for, N/m: 2f/Δ (Abbott, Okamura 2005: [`quantised`]); absent where it has no steps, or its amplifier lags.
    pub quantised_n_m: Option<f64>,
    /// The damping of its own with which the device is calm to 50 Hz by position–force whatever is touched, N s/m ([`llewellyn`], 1952); absent where something lags.
    pub llewellyn_ns_m: Option<f64>,
}

impl Critical {
    /// Of a device that is sampled every `period`, over a network's round trip. Of `touch`, hand and stiffness of the surface do not count.
    pub fn new(device: &Device, touch: &Touch, period: Duration, round_trip: Duration) -> Self {
        let Device { damping, friction, encoder } = *device;
        let Touch { arm, surface, lags, .. } = touch;
        let is_beside_exact = lags.device == 0.0 && lags.velocity == 0.0;
        let beside = |stiffness: f64| is_beside_exact.then_some(stiffness);
        Self {
            passive_n_m: beside(passive(damping, surface.damping, period)),
            gil_hulin_n_m: beside(gil_hulin(damping, surface.damping, period, round_trip)),
            quantised_n_m: quantised(friction, encoder).filter(|_| lags.device == 0.0),
            llewellyn_ns_m: (*lags == Lags::NONE).then(|| llewellyn(arm, round_trip + period)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::touch::Surface;

    #[test]
    fn llewellyns_damping_keeps_every_grip_and_wall_calm_and_a_tenth_of_it_does_not() {
        for ms in [5, 11, 41] {
            let round_trip = Duration::from_millis(ms);
            let needed = llewellyn(&Touch::ARM, round_trip);
            let calm = |damping: f64, grip: &Mass, stiffness: f64, wall: f64| {
                let hand = Mass { damping: grip.damping + damping, ..*grip };
                let surface = Surface { stiffness, damping: wall };
                Touch { hand, ..Touch::of(surface) }.is_stable_across(round_trip)
            };
            let light = Mass { mass: 0.05, damping: 0.1, stiffness: 5.0 };
            let all = |damping: f64| {
                [light].iter().chain(&Touch::GRIPS).all(|grip| {
                    [10.0, 100.0, 1e3, 1e4, 2e4]
                        .iter()
                        .all(|k| [0.0, 10.0, 100.0].iter().all(|b| calm(damping, grip, *k, *b)))
                })
            };
            assert!(all(needed) && !all(needed / 10.0), "{ms} ms: {needed} N·s/m");
        }
    }

    #[test]
    fn the_damping_of_the_hand_is_none_of_the_devices() {
        let [period, round_trip] = [1, 10].map(Duration::from_millis);
        let of = |hand: Mass, damping: f64| {
            let touch = Touch { hand, ..Touch::of(Surface { stiffness: 3_000.0, damping: 10.0 }) };
            Critical::new(&Device { damping, ..Device::default() }, &touch, period, round_trip)
        };
        let [light, _, firm] = Touch::GRIPS.map(|hand| of(hand, 0.0));
        assert_eq!(light, firm);
        assert_eq!((light.passive_n_m, light.gil_hulin_n_m), (Some(0.0), Some(10.0 / 0.0105)));
        let damped = of(Touch::HAND, 15.0);
        assert_eq!((damped.passive_n_m, damped.gil_hulin_n_m), (Some(10_000.0), Some(25.0 / 0.0105)));
        assert_eq!(damped.llewellyn_ns_m, light.llewellyn_ns_m);
    }

    #[test]
    fn a_number_of_a_world_in_which_something_lags_is_not_told() {
        let [period, round_trip] = [1, 10].map(Duration::from_millis);
        let device = Device { friction: 0.2, encoder: 1e-4, ..Device::default() };
        let told = |lags: Lags| {
            let touch = Touch { lags, ..Touch::of(Surface::WALL) };
            let told = Critical::new(&device, &touch, period, round_trip);
            [told.passive_n_m, told.gil_hulin_n_m, told.quantised_n_m, told.llewellyn_ns_m]
                .map(|told| told.is_some())
        };
        assert_eq!(told(Lags::NONE), [true; 4]);
        assert_eq!(told(Lags { device: 0.002, ..Lags::NONE }), [false; 4]);
        assert_eq!(told(Lags { velocity: 0.005, ..Lags::NONE }), [false, false, true, false]);
        assert_eq!(told(Lags { arm: 0.002, ..Lags::NONE }), [true, true, true, false]);
    }

    #[test]
    fn over_a_short_delay_llewellyn_asks_for_what_the_low_frequencies_need() {
        // T² K² / (4 b) as ω → 0; what a resonance needs is beyond.
        let (stiffness, damping) = (Touch::ARM.stiffness, Touch::ARM.damping);
        let least = 0.005f64.powi(2) * stiffness * stiffness / (4.0 * damping);
        let found = llewellyn(&Touch::ARM, Duration::from_millis(5));
        assert!(found >= 0.99 * least, "{found} and {least} N·s/m");
    }
}
