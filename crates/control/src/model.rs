//! A model of the arm and of what it touches, beside the hand.

use crate::place::Place;
use crate::{Motion, Oracle, Servo};

/// Of a period: semi-implicit Euler, far above what servo and surface resound with.
const SUBSTEPS: u32 = 20;

/// The arm of the model along x: where it is and how fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    position: f64,
    velocity: f64,
}

impl Model {
    /// At rest where the hand is.
    pub(crate) fn at<P: Place>(hand: &Motion<P>) -> Self {
        Self { position: along(hand), velocity: 0.0 }
    }

    /// One period passes while the servo leads the arm to the hand; what it meets at the end of it, N.
    pub(crate) fn pass<P: Place>(
        &mut self,
        hand: &Motion<P>,
        servo: &Servo,
        truth: &Oracle,
        period: f64,
    ) -> f64 {
        let seconds = period / f64::from(SUBSTEPS);
        for _ in 0..SUBSTEPS {
            let pull = servo.stiffness * (along(hand) - self.position)
                + servo.damping * (hand.velocity[0] - self.velocity);
            self.velocity += seconds * (pull + self.met(truth)) / truth.mass;
            self.position += seconds * self.velocity;
        }
        self.met(truth)
    }

    /// The surface fills x > 0, and never pulls.
    fn met(&self, truth: &Oracle) -> f64 {
        if self.position <= 0.0 {
            return 0.0;
        }
        -(truth.stiffness * self.position + truth.damping * self.velocity).max(0.0)
    }
}

/// Along x, or turned about it.
fn along<P: Place>(hand: &Motion<P>) -> f64 {
    hand.position.way_from(&P::ORIGIN)[0]
}
