//! What the hand and the environment get out of the teleoperator between them.
//!
//! Its two physical ports are where the device pushes the hand and where the environment pushes the arm; between them are the
//! network, the arm's mass and its servo. Work done on them there sums up to
//!
//! ```text
//! E(t) = ∫ (−f_h · v_h + f_e · v_e) dτ,   f_h, v_h = force on the hand, velocity of the device,
//!                                         f_e, v_e = force of the environment on the arm, velocity of the arm
//! ```
//!
//! What falls by more than mass and servo hold was made by the delay (the passivity observer of Hannaford and Ryu, *Time-Domain
//! Passivity Control of Haptic Interfaces*, IEEE Transactions on Robotics and Automation 18(1), 2002). E counts whether the arm
//! moves by command or stands: whoever pushes does work. Where hand and arm are is what device and robot tell: through an encoder, its steps, which are the
//! motion that the law hears of, not that of the bodies.

use crate::demo::Vector;
use crate::hand::dot;

/// A contact is over when nothing was felt at either port for so long, s: what bounces is one contact.
const APART: f64 = 0.25;

/// The energy at both ports.
#[derive(Debug, Default)]
pub(super) struct Ports {
    device: Option<Vector>,
    arm: Option<[Vector; 2]>,
    /// In all, J.
    pub(super) energy: f64,
    /// The most that it was during this contact.
    peak: f64,
    /// By how much it fell below such a peak, at most.
    pub(super) drawdown: f64,
    /// Since something was felt, s.
    apart: f64,
    /// How many there were.
    pub(super) contacts: u64,
}

impl Ports {
    /// The device is here, and pushed the hand with this force since it was asked last.
    pub(super) fn device(&mut self, position: Vector, force: Vector, felt: bool) {
        if let Some(before) = self.device.replace(position) {
            self.energy -= dot(&force, &difference(&position, &before));
        }
        self.count(felt, 0.0);
    }

    /// The arm is here so many seconds later, and the environment pushes it so.
    pub(super) fn arm(&mut self, position: Vector, force: Vector, felt: bool, seconds: f64) {
        if let Some([before, pushed]) = self.arm.replace([position, force]) {
            let mean = std::array::from_fn(|axis| (force[axis] + pushed[axis]) / 2.0);
            self.energy += dot(&mean, &difference(&position, &before));
        }
        self.count(felt, seconds);
    }

    fn count(&mut self, felt: bool, seconds: f64) {
        let was_over = self.contacts == 0 || self.apart >= APART;
        self.apart = if felt { 0.0 } else { self.apart + seconds };
        if felt && was_over {
            self.contacts += 1;
            self.peak = self.energy;
        }
        self.peak = self.peak.max(self.energy);
        self.drawdown = self.drawdown.max(self.peak - self.energy);
    }
}

fn difference(a: &Vector, b: &Vector) -> Vector {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hand that goes to and fro by 10 mm at 1 Hz, and an arm that is `late` ms behind on a spring of 500 N/m.
    fn to_and_fro(late: usize) -> Ports {
        let mut ports = Ports::default();
        let at = |ms: usize| 0.01 * libm::sin(std::f64::consts::TAU * ms as f64 / 1e3);
        for ms in 2 * late..10_000 {
            let force = |ms| [-500.0 * at(ms), 0.0, 0.0];
            ports.device([at(ms), 0.0, 0.0], force(ms - 2 * late), true);
            ports.arm([at(ms - late), 0.0, 0.0], force(ms - late), true, 0.001);
        }
        ports
    }

    #[test]
    fn without_delay_the_ports_give_back_nothing_and_with_delay_more_and_more() {
        let [ideal, late, later] = [0, 20, 60].map(|late| to_and_fro(late).drawdown);
        assert!(ideal < 1e-3 && late > 0.03 && later > 2.0 * late, "{ideal} {late} {later} J");
    }

    #[test]
    fn what_bounces_is_one_contact_and_each_contact_has_its_own_account() {
        let mut ports = Ports::default();
        let mut pass = |ms: usize, force: f64, speed: f64| {
            for _ in 0..ms {
                let before = ports.arm.map_or(0.0, |[position, _]| position[0]);
                ports.arm([before + speed / 1e3, 0.0, 0.0], [force, 0.0, 0.0], force.abs() > 0.0, 0.001);
            }
        };
        for _ in 0..3 {
            // Bounces, and takes 10 N times 10 mm each time.
            for _ in 0..2 {
                pass(100, -10.0, 0.1);
                pass(100, 0.0, -0.1);
            }
            pass(400, 0.0, 0.0);
        }
        assert_eq!(ports.contacts, 3);
        assert!((ports.drawdown - 0.2).abs() < 0.02, "{} J of {} in all", ports.drawdown, ports.energy);
        assert!((ports.energy + 0.6).abs() < 0.05);
    }
}
