//! How far away an arm may touch a thing before the loop through hand and arm rattles.
//!
//! Position goes there and force comes back (position–force control). A hand that holds a device, an arm whose servo follows
//! the device, and what the arm touches, a spring and a damper, are linear while they touch. Opened where the force arrives, the
//! loop is
//!
//! ```text
//! L(s) = (K_e + b_e s) (b_s s + K_s) / [(m_a s² + (b_s + b_e) s + K_s + K_e) (m_h s² + b_h s + K_h)]
//! ```
//!
//! with the environment's K_e and b_e, the servo's K_s and b_s, the arm's mass m_a, and the hand's m_h, b_h and K_h. A round trip T
//! makes it L(s) e^(−sT), and 1 + L e^(−sT) = 0 has no root on the right until T reaches the phase margin divided by the
//! frequency, at one of the frequencies where |L| is 1 (Nyquist's criterion: Åström, Murray, *Feedback Systems*, 2008, section 9.3).
//! Where |L| never reaches 1, no delay makes it rattle. [`Lags`] of filters and amplifiers are in it where they are given.

mod frequency;
mod poles;

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use taut_core::Duration;

use self::frequency::{Crossover, Frequency, product};

/// A mass on a spring and a damper, such as a hand and the device in it: from where it is to where it is meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Grip"))]
pub struct Mass {
    /// kg. Of a hand 0.01 to 10.
    pub mass: f64,
    /// N s/m. Of a hand 0.1 to 1000.
    pub damping: f64,
    /// N/m. Of a hand 1 to 10000.
    pub stiffness: f64,
}

impl Default for Mass {
    /// [`Touch::HAND`].
    fn default() -> Self {
        Touch::HAND
    }
}

/// What is touched: it pushes back as a spring and a damper (Kelvin–Voigt).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surface {
    /// N/m.
    pub stiffness: f64,
    /// N·s/m.
    pub damping: f64,
}

impl Surface {
    /// 150 N/m, 6 N·s/m.
    pub const FOAM: Self = Self { stiffness: 150.0, damping: 6.0 };
    /// 400 N/m, undamped.
    pub const SPRING: Self = Self { stiffness: 400.0, damping: 0.0 };
    /// 3 kN/m, 10 N·s/m.
    pub const WALL: Self = Self { stiffness: 3_000.0, damping: 10.0 };
}

taut_core::named! {
    /// Things to touch that have a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Thing {
        /// [`Surface::FOAM`].
        Foam = "foam",
        /// [`Surface::SPRING`].
        Spring = "spring",
        /// [`Surface::WALL`].
        Wall = "wall",
    }
}

impl Thing {
    /// How it pushes back.
    pub const fn surface(self) -> Surface {
        match self {
            Self::Foam => Surface::FOAM,
            Self::Spring => Surface::SPRING,
            Self::Wall => Surface::WALL,
        }
    }
}

impl FromStr for Thing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|thing| thing.name() == text);
        known.ok_or_else(|| format!("`{text}` is nothing to touch; there are foam, spring and wall"))
    }
}

/// What a round trip makes of touching a thing, by the margin of [`Touch`].
///
/// ```
/// use taut_core::Duration;
/// use taut_qos::touch::{Felt, Thing};
/// let felt = |thing, rtt_ms| Felt::new(thing, rtt_ms, Duration::from_millis(1));
/// assert!(!felt(Thing::Wall, 9.5).calm && felt(Thing::Spring, 9.5).calm);
/// assert_eq!(felt(Thing::Foam, 160.0).to_string(), "foam: calm; no round trip makes it rattle");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Felt {
    /// What is touched.
    pub thing: Thing,
    /// The network's round trip, in milliseconds.
    pub rtt_ms: f64,
    /// The network's round trip from which on it rattles, in milliseconds: [`Touch::critical_round_trip`] less the period, for each end
    /// samples and holds, which takes half of one on average. 0 where nothing is left; absent where no round trip makes it rattle.
    pub critical_rtt_ms: Option<f64>,
    /// The round trip is shorter than that.
    pub calm: bool,
}

impl Felt {
    /// Of touching this across a round trip of so many milliseconds, with a state and a force every `period`.
    pub fn new(thing: Thing, rtt_ms: f64, period: Duration) -> Self {
        let critical = Touch::of(thing.surface()).critical_round_trip();
        let critical = critical.map(|critical| critical.saturating_sub(period));
        let critical_rtt_ms = critical.map(Duration::as_millis_f64);
        Self {
            thing,
            rtt_ms,
            critical_rtt_ms,
            calm: critical_rtt_ms.is_none_or(|critical| rtt_ms < critical),
        }
    }

    /// Of all things that have a name.
    pub fn all(rtt_ms: f64, period: Duration) -> [Self; 3] {
        Thing::ALL.map(|thing| Self::new(thing, rtt_ms, period))
    }
}

impl fmt::Display for Felt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.calm { "calm" } else { "RATTLES" };
        write!(f, "{}: {verdict}; ", self.thing.name())?;
        match self.critical_rtt_ms {
            Some(critical) => {
                write!(
                    f,
                    "it rattles from a round trip of {critical:.2} ms on, and this is {:.2}",
                    self.rtt_ms
                )
            }
            None => write!(f, "no round trip makes it rattle"),
        }
    }
}

/// Hand, arm and what the arm touches.
///
/// ```
/// use taut_qos::touch::{Surface, Touch};
/// let of = |surface| Touch::of(surface).critical_round_trip().map(|round_trip| round_trip.as_millis_f64());
/// assert!((of(Surface::WALL).unwrap() - 10.06).abs() < 0.01);
/// assert_eq!(of(Surface::FOAM), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    /// The hand and the device in it.
    pub hand: Mass,
    /// The arm, held by its servo.
    pub arm: Mass,
    /// What it touches.
    pub surface: Surface,
    /// What comes late by itself; none by default.
    pub lags: Lags,
}

/// Time constants of first-order lags in the loop, s; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lags {
    /// Of the force on the hand: amplifier and motor of its device.
    pub device: f64,
    /// Of the low-pass on the velocity that the device tells.
    pub velocity: f64,
    /// Of the force of the arm's controller.
    pub arm: f64,
}

impl Lags {
    /// None.
    pub const NONE: Self = Self { device: 0.0, velocity: 0.0, arm: 0.0 };
}

impl Touch {
    /// The hand of the lab: 0.4 kg with the device, 350 N/m, 14 N·s/m.
    pub const HAND: Mass = Mass { mass: 0.4, damping: 14.0, stiffness: 350.0 };
    /// From light to firm, with the device: 0.15 kg, 2 N·s/m, 70 N/m; [`HAND`](Self::HAND); 0.8 kg, 20 N·s/m, 1 kN/m.
    pub const GRIPS: [Mass; 3] = [
        Mass { mass: 0.15, damping: 2.0, stiffness: 70.0 },
        Self::HAND,
        Mass { mass: 0.8, damping: 20.0, stiffness: 1_000.0 },
    ];
    /// The arm of the lab: 0.3 kg, 3 kN/m, 45 N·s/m.
    pub const ARM: Mass = Mass { mass: 0.3, damping: 45.0, stiffness: 3_000.0 };

    /// Hand and arm of the lab on this.
    pub const fn of(surface: Surface) -> Self {
        Self { hand: Self::HAND, arm: Self::ARM, surface, lags: Lags::NONE }
    }

    /// The shortest round trip with which the loop rattles ([across a longer one](Self::is_stable_across) it may be calm again): from the making of a position until the force that it met is on the hand.
    /// What sampling and holding take at the two ends is not in it, half a period each. Zero where it rattles without delay; `None`
    /// where it never does.
    pub fn critical_round_trip(&self) -> Option<Duration> {
        if !self.is_stable_without_delay() {
            return Some(Duration::ZERO);
        }
        let delay = |Crossover { omega, .. }| self.margin(omega) / omega;
        let least = self.crossovers(&self.sweep()).map(delay).fold(f64::INFINITY, f64::min);
        least.is_finite().then(|| Duration::from_secs_f64(least))
    }

    /// The least stiffness with which the loop rattles across one of the round trips from the first to the second, N/m, to a part in a
    /// million, with the surface's damping; `None` where none up to `most`, N/m, does. It is looked for in steps of a fiftieth.
    pub fn critical_stiffness(&self, round_trips: [Duration; 2], most: f64) -> Option<f64> {
        const RATIO: f64 = 1.02;
        let sweep = self.sweep();
        let rattles = |stiffness: f64| {
            let surface = Surface { stiffness, ..self.surface };
            !Self { surface, ..*self }.is_stable_by(&sweep, round_trips)
        };
        let tried = std::iter::successors(Some(1.0), |stiffness| Some(stiffness * RATIO));
        let mut high =
            tried.take_while(|stiffness| *stiffness < most).chain([most]).find(|it| rattles(*it))?;
        let mut low = if high > 1.0 { high / RATIO } else { 0.0 };
        while high - low > 1e-6 * high {
            let middle = f64::midpoint(low, high);
            *(if rattles(middle) { &mut high } else { &mut low }) = middle;
        }
        Some(high)
    }

    /// Has 1 + L e^(−sT) = 0 all its roots on the left, for each T from the first round trip to the second? Then it has for the first, and no
    /// root crosses to the right until the second.
    pub fn is_stable_within(&self, round_trips: [Duration; 2]) -> bool {
        self.is_stable_by(&self.sweep(), round_trips)
    }

    fn is_stable_by(&self, sweep: &[Frequency], [shortest, longest]: [Duration; 2]) -> bool {
        if !self.is_stable_without_delay() {
            return false;
        }
        let crossovers: Vec<Crossover> = self.crossovers(sweep).collect();
        // Pairs of roots that are on the right with the first and were not without.
        let crossed = |crossover: &Crossover| {
            let times = self.crossings(crossover, shortest);
            if crossover.falls { times } else { -times }
        };
        crossovers.iter().map(crossed).sum::<f64>() < 0.5
            && crossovers.iter().filter(|crossover| crossover.falls).all(|crossover| {
                let [before, after] =
                    [shortest, longest].map(|round_trip| self.crossings(crossover, round_trip));
                after <= before
            })
    }

    /// Has 1 + L e^(−sT) = 0 all its roots on the left? A loop that a short round trip makes rattle may be calm across a longer one, where
    /// |L| is above 1 near a resonance alone. As T grows, roots cross the imaginary axis at the frequencies where |L| is 1, whenever the
    /// phase is −π once more: to the right where |L| falls with the frequency, to the left where it rises (Walton, Marshall, *Direct
    /// method for TDS stability analysis*, IEE Proceedings D 134(2), 1987).
    pub fn is_stable_across(&self, round_trip: Duration) -> bool {
        self.is_stable_within([round_trip; 2])
    }

    /// So many times roots crossed the imaginary axis there, as the round trip grew from nothing to this.
    fn crossings(&self, &Crossover { omega, .. }: &Crossover, round_trip: Duration) -> f64 {
        let times = (omega * round_trip.as_secs_f64() - self.margin(omega)) / TAU;
        if times < 0.0 { 0.0 } else { times.floor() + 1.0 }
    }

    /// The phase that is left until −π, from 0 to a turn.
    fn margin(&self, omega: f64) -> f64 {
        let [re, im] = self.open_loop(&self.at(omega));
        // At −π the margin is a whole turn or none, which are both on the border.
        libm::atan2(im, re) + std::f64::consts::PI
    }

    /// What a hand would feel through arm and servo without delay, at ω rad/s: force by motion, N/m, real and imaginary part. It is
    /// (K_e + jωb_e)(K_s + jωb_s) / (K_s + K_e − ω²m_a + jω(b_s + b_e)), the numerator of L over what the arm is held by.
    pub fn shown(&self, omega: f64) -> [f64; 2] {
        let Self { arm, surface, .. } = self;
        let numerator =
            product([surface.stiffness, surface.damping * omega], [arm.stiffness, arm.damping * omega]);
        let held = [
            arm.stiffness + surface.stiffness - arm.mass * omega * omega,
            (arm.damping + surface.damping) * omega,
        ];
        let norm = held[0] * held[0] + held[1] * held[1];
        product(numerator, [held[0] / norm, -held[1] / norm])
    }
}

/// What a line of waves of impedance b, N·s/m, makes of a stiffness k, N/m, over a round trip T: k / (1 + kT/(2b)) (Niemeyer, Slotine, *Stable
/// Adaptive Teleoperation*, IEEE J. Oceanic Engineering 16(1), 1991).
///
/// ```
/// use taut_core::Duration;
/// use taut_qos::touch::shown_by_waves;
/// assert_eq!(shown_by_waves(1_500.0, Duration::from_millis(40), 30.0), 750.0);
/// ```
pub fn shown_by_waves(stiffness: f64, round_trip: Duration, impedance: f64) -> f64 {
    stiffness / (1.0 + stiffness * round_trip.as_secs_f64() / (2.0 * impedance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn critical_ms(surface: Surface) -> Option<f64> {
        Touch::of(surface).critical_round_trip().map(|round_trip| round_trip.as_millis_f64())
    }

    #[test]
    fn the_wall_rattles_from_10_ms_the_spring_from_66_and_foam_never() {
        let near = |surface, expected: f64| {
            let found = critical_ms(surface).expect("it rattles somewhere");
            assert!((found - expected).abs() < 0.1, "{surface:?}: {found} ms");
        };
        near(Surface::WALL, 10.06);
        near(Surface { damping: 0.0, ..Surface::WALL }, 7.16);
        near(Surface::SPRING, 65.9);
        assert_eq!(critical_ms(Surface::FOAM), None);
        assert_eq!(
            critical_ms(Surface { stiffness: 0.0, damping: 0.0 }),
            None,
            "nothing comes back from nothing"
        );
    }

    #[test]
    fn the_stiffer_the_thing_the_nearer_it_has_to_be() {
        let all = [400.0, 1_000.0, 3_000.0, 10_000.0].map(|stiffness| {
            critical_ms(Surface { stiffness, damping: 0.0 }).expect("an undamped spring rattles somewhere")
        });
        assert!(all.is_sorted_by(|a, b| a > b), "{all:?}");
    }

    #[test]
    fn the_critical_stiffness_is_that_of_which_the_round_trip_is_critical() {
        let touch = Touch::of(Surface::WALL);
        let round_trip = touch.critical_round_trip().expect("it rattles somewhere");
        let found = touch.critical_stiffness([round_trip; 2], 20_000.0).expect("it rattles there");
        assert!((found / 3_000.0 - 1.0).abs() < 1e-4, "{found} N/m");
        assert_eq!(touch.critical_stiffness([Duration::from_millis(1); 2], 20_000.0), None);
    }

    #[test]
    fn a_firm_hand_that_rattles_nearby_is_calm_again_further_away() {
        let surface = Surface { stiffness: 720.0, damping: 10.0 };
        let touch = Touch { hand: Touch::GRIPS[2], ..Touch::of(surface) };
        let critical = touch.critical_round_trip().expect("it rattles somewhere");
        let ms = Duration::from_millis(1);
        assert!(critical < ms * 101, "{critical}");
        let stable =
            [critical.saturating_sub(ms), critical + ms, ms * 101].map(|delay| touch.is_stable_across(delay));
        assert_eq!(stable, [true, false, true]);
    }

    #[test]
    fn a_servo_without_damping_rattles_without_any_delay() {
        let arm = Mass { damping: 0.0, ..Touch::ARM };
        assert_eq!(Touch { arm, ..Touch::of(Surface::SPRING) }.critical_round_trip(), Some(Duration::ZERO));
    }

    #[test]
    fn between_two_round_trips_that_are_calm_a_firm_hand_may_rattle() {
        let ms = Duration::from_millis(1);
        let touch = Touch { hand: Touch::GRIPS[2], ..Touch::of(Surface { stiffness: 700.0, damping: 10.0 }) };
        let calm = |round_trip: Duration| touch.is_stable_across(round_trip);
        let mut round_trips = (1..=300).map(|n| ms * n).skip_while(|n| calm(*n)).skip_while(|n| !calm(*n));
        let again = round_trips.next().expect("further away it is calm again");
        assert!(calm(ms) && calm(again) && !touch.is_stable_within([ms, again]));
        assert!(touch.is_stable_within([again; 2]) && !touch.is_stable_within([again - ms; 2]));
    }

    #[test]
    fn lags_bring_the_border_nearer_and_a_slow_controller_rattles_without_delay() {
        let critical = |lags: Lags| {
            let touch = Touch { lags, ..Touch::of(Surface::WALL) };
            touch.critical_round_trip().unwrap().as_millis_f64()
        };
        let plain = critical(Lags::NONE);
        // At the crossover a short lag is a delay.
        let amplifier = critical(Lags { device: 0.001, ..Lags::NONE });
        assert!((plain - amplifier - 1.0).abs() < 0.1, "{plain} {amplifier} ms");
        for lags in [
            Lags { device: 0.002, ..Lags::NONE },
            Lags { velocity: 0.005, ..Lags::NONE },
            Lags { arm: 0.002, ..Lags::NONE },
        ] {
            assert!(critical(lags) < plain, "{lags:?}");
        }
        // Nearly free, an arm swings by itself once its controller lags by more than b_s/K_s.
        let slow = Lags { arm: 0.1, ..Lags::NONE };
        let touch = Touch { lags: slow, ..Touch::of(Surface::FOAM) };
        assert_eq!(touch.critical_round_trip(), Some(Duration::ZERO));
    }

    /// At the critical round trip the delayed loop has a root on the imaginary axis: 1 + L e^(−jωT) = 0.
    #[test]
    fn at_the_critical_round_trip_the_loop_oscillates() {
        let touch = Touch::of(Surface::SPRING);
        let delay = touch.critical_round_trip().expect("the spring rattles somewhere").as_secs_f64();
        let sweep = touch.sweep();
        let away = touch.crossovers(&sweep).map(|Crossover { omega, .. }| {
            let turned = [libm::cos(omega * delay), -libm::sin(omega * delay)];
            let [re, im] = product(touch.open_loop(&touch.at(omega)), turned);
            libm::hypot(1.0 + re, im)
        });
        assert!(away.fold(f64::INFINITY, f64::min) < 1e-6);
    }
}
