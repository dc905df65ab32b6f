//! A surface that pushes more on the way in than on the way out, however slowly.
//!
//! Beside its spring K stands a stop (Prandtl): as stiff a spring that slips where its force reaches a share h of the spring's, K x. Pressed to the depth X and let
//! go of, it keeps h(1 − h)/(1 + h) K X², 2h(1 − h)/(1 + h)² of what was put in. Who turns back within the stop meets 2 K, without loss.

/// Of one surface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hysteresis {
    /// N/m.
    stiffness: f64,
    /// Of the spring's force.
    share: f64,
    depth: f64,
    /// Of the stop, against the way in, N.
    stop: f64,
}

impl Hysteresis {
    pub(super) const fn new(stiffness: f64, share: f64) -> Self {
        Self { stiffness, share, depth: 0.0, stop: 0.0 }
    }

    /// The arm is here now.
    pub(super) fn follow(&mut self, position: f64) {
        let depth = position.max(0.0);
        let most = self.share * self.stiffness * depth;
        self.stop = (self.stop + self.stiffness * (depth - self.depth)).clamp(-most, most);
        self.depth = depth;
    }

    /// On the arm along x, N, where spring and damper push it out with `normal`: it never pulls.
    pub(super) fn force(&self, normal: f64) -> f64 {
        // Adding zero turns a negative zero into zero.
        -self.stop.max(-normal.max(0.0)) + 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pressed_and_let_go_of_keeps_its_share_of_the_energy() {
        let (stiffness, share, deepest) = (150.0, 0.3, 0.02);
        let mut foam = Hysteresis::new(stiffness, share);
        let (mut taken, mut force, mut last) = (0.0, 0.0, 0.0);
        let steps = 20_000;
        for step in 1..=2 * steps {
            let part = f64::from(if step <= steps { step } else { 2 * steps - step }) / f64::from(steps);
            let depth = deepest * part;
            foam.follow(depth);
            let now = stiffness * depth - foam.force(stiffness * depth);
            taken += (force + now) / 2.0 * (depth - last);
            (force, last) = (now, depth);
            assert!(now >= 0.0);
        }
        let expected = share * (1.0 - share) / (1.0 + share) * stiffness * deepest * deepest;
        assert!((taken / expected - 1.0).abs() < 1e-3, "{taken} for {expected} J");
        assert!(force.abs() < 1e-9);
    }

    #[test]
    fn a_small_motion_meets_twice_the_stiffness_and_loses_nothing() {
        let mut foam = Hysteresis::new(150.0, 0.3);
        (0..=1_000).for_each(|step| foam.follow(f64::from(step) * 1e-5));
        let force = |foam: &Hysteresis| 150.0 * foam.depth - foam.force(150.0 * foam.depth);
        let deep = force(&foam);
        foam.follow(0.009_9);
        assert!((deep - force(&foam) - 2.0 * 150.0 * 1e-4).abs() < 1e-9);
        foam.follow(0.01);
        assert!((force(&foam) - deep).abs() < 1e-9);
    }
}
