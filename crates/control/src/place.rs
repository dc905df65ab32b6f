//! Where something is: at a point, or how it is turned.

use std::fmt;

use taut_core::FARTHEST_TURN;

use crate::vector::{Vector, dot, plus, times};

/// What a law couples, by ways from one place to another that are added up as vectors are.
///
/// A law is linear in velocities and forces, and in the way between two places that are near each other, so that it is the same for points, with m, m/s, N, N·s/m, and
/// for [orientations](Orientation), with rad, rad/s, N·m, N·m·s/rad.
pub trait Place: Copy + fmt::Debug + PartialEq {
    /// From where places are told.
    const ORIGIN: Self;
    /// What this is of a point at the end of a lever, m²; 1 of a point: an impedance of N·s/m there is as much in N·m·s/rad times this.
    const LEVER_SQUARED: f64;
    /// The longest way from an arm to what leads it.
    const FARTHEST: f64;

    /// Is the way from there to here none that is too long?
    fn is_near(&self, there: &Self) -> bool {
        let way = self.way_from(there);
        // What is no number is not far: that it is none is found elsewhere.
        let is_far = dot(&way, &way) > Self::FARTHEST * Self::FARTHEST;
        !is_far
    }

    /// The way from there to here.
    fn way_from(&self, there: &Self) -> Vector;

    /// Where a share of this way leads to from here.
    fn after(&self, share: f64, way: &Vector) -> Self;

    /// This place as the way to it by `here`, to which it was `so_far`.
    fn way_by(&self, here: &Self, so_far: &Vector) -> Vector;

    /// Is every number finite, and does it stand for a place?
    fn is_place(&self) -> bool;
}

impl Place for Vector {
    const ORIGIN: Self = [0.0; 3];
    const LEVER_SQUARED: f64 = 1.0;
    const FARTHEST: f64 = f64::INFINITY;

    fn way_from(&self, there: &Self) -> Vector {
        plus(self, -1.0, there)
    }

    fn after(&self, share: f64, way: &Vector) -> Self {
        plus(self, share, way)
    }

    /// Whichever way.
    fn way_by(&self, _: &Self, _: &Vector) -> Vector {
        *self
    }

    fn is_place(&self) -> bool {
        self.iter().all(|number| number.is_finite())
    }
}

/// How something is turned: a unit quaternion w, x, y, z.
///
/// The way from one to another is the rotation vector about the axes that positions have: log(q₂ q₁⁻¹), the axis as long as the angle of the shorter turn in rad (Solà,
/// Deray, Atchuthan, *A micro Lie theory for state estimation in robotics*, arXiv:1812.01537). Angular velocity is about the same axes.
///
/// A spring of stiffness κ along it is one: the gradient of ½κ|log|² is κ log (Bullo, Murray, *Proportional derivative (PD) control on the Euclidean group*, ECC 1995). Turned on
/// by a vector d its energy is no more than ½κ|log + d|², what a spring between points would store: rotations are a space of a curvature that is nowhere below 0
/// (Toponogov; Milnor, *Curvatures of left invariant metrics on Lie groups*, Advances in Mathematics 21, 1976). So what a law books for the springs of points is enough for those of turns.
///
/// Nothing leads an arm that is [further from it](FARTHEST_TURN) ([`RobotEnd::is_near`](crate::RobotEnd::is_near)), and no hand is pulled there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orientation(pub [f64; 4]);

impl Default for Orientation {
    /// Upright.
    fn default() -> Self {
        Self::ORIGIN
    }
}

impl Orientation {
    fn times(&self, other: &Self) -> Self {
        let (Self([aw, ax, ay, az]), Self([bw, bx, by, bz])) = (self, other);
        Self([
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ])
    }

    fn norm(&self) -> f64 {
        self.0.iter().map(|part| part * part).sum::<f64>().sqrt()
    }

    /// exp.
    fn by(way: &Vector) -> Self {
        let angle = dot(way, way).sqrt();
        let (sine, cosine) = libm::sincos(angle / 2.0);
        let [x, y, z] = times(if angle > 0.0 { sine / angle } else { 0.5 }, way);
        Self([cosine, x, y, z])
    }
}

impl Place for Orientation {
    const ORIGIN: Self = Self([1.0, 0.0, 0.0, 0.0]);
    /// A lever of 10 cm.
    const LEVER_SQUARED: f64 = 0.01;
    const FARTHEST: f64 = FARTHEST_TURN;

    fn way_from(&self, there: &Self) -> Vector {
        let Self([w, x, y, z]) = *there;
        let Self([w, x, y, z]) = self.times(&Self([w, -x, -y, -z]));
        // A quaternion and its negative are the same orientation.
        let sign = if w < 0.0 { -1.0 } else { 1.0 };
        let sine = dot(&[x, y, z], &[x, y, z]).sqrt();
        if sine <= 0.0 {
            return [0.0; 3];
        }
        times(sign * 2.0 * libm::atan2(sine, w.abs()) / sine, &[x, y, z])
    }

    fn after(&self, share: f64, way: &Vector) -> Self {
        let turned = Self::by(&times(share, way)).times(self);
        // Rounding does not add up.
        let norm = turned.norm();
        Self(turned.0.map(|part| part / norm))
    }

    /// Turns do not commute: what was turned by so far says no orientation, and the rest of the way to it is short.
    fn way_by(&self, here: &Self, so_far: &Vector) -> Vector {
        plus(so_far, 1.0, &self.way_from(here))
    }

    /// As a sender of single numbers says it.
    fn is_place(&self) -> bool {
        (self.norm() - 1.0).abs() < 1e-3
    }
}

#[cfg(test)]
mod tests {
    use taut_core::{Rng, Seed};

    use super::*;

    fn vector(rng: &mut Rng, size: f64) -> Vector {
        std::array::from_fn(|_| size * rng.normal())
    }

    fn size(vector: &Vector) -> f64 {
        dot(vector, vector).sqrt()
    }

    #[test]
    fn the_way_to_an_orientation_leads_there_the_shorter_way_whatever_its_sign() {
        let mut rng = Seed::new(1).stream("turns");
        for _ in 0..10_000 {
            let from = Orientation::ORIGIN.after(1.0, &vector(&mut rng, 2.0));
            let way = vector(&mut rng, 1.0);
            let to = from.after(1.0, &way);
            let opposite = Orientation(to.0.map(|part| -part));
            for to in [to, opposite] {
                let back = to.way_from(&from);
                let apart = plus(&back, -1.0, &way);
                assert!(size(&apart) < 1e-9 || size(&way) > std::f64::consts::PI, "{back:?}, not {way:?}");
                assert!(size(&back) <= std::f64::consts::PI + 1e-9 && to.is_place());
            }
        }
        let still = Orientation::ORIGIN;
        assert_eq!((still.way_from(&still), still.after(1.0, &[0.0; 3])), ([0.0; 3], still));
        assert!(!Orientation([0.0; 4]).is_place() && !Orientation([f64::NAN, 0.0, 0.0, 1.0]).is_place());
    }

    #[test]
    fn a_spring_between_orientations_stores_no_more_than_one_between_points() {
        let mut rng = Seed::new(1).stream("springs");
        let mut least = f64::INFINITY;
        for _ in 0..100_000 {
            let there = Orientation::ORIGIN.after(1.0, &vector(&mut rng, 2.0));
            let here = there.after(1.0, &vector(&mut rng, 0.8));
            let by = vector(&mut rng, 0.5);
            let linear = plus(&here.way_from(&there), 1.0, &by);
            let turned = here.after(1.0, &by).way_from(&there);
            least = least.min(size(&linear) - size(&turned));
        }
        assert!(least > -1e-9, "{least} rad");
    }
}
