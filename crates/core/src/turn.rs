//! How things are turned, and how far hand and arm may be from each other.

/// The most that hand and arm may be turned from each other, rad: a quarter turn. A robot beyond it stops.
///
/// The way from one orientation to another is the shorter one. Where they are half a turn apart that becomes the other one: an arm that follows would go back, and a
/// torque between the two changes its sign. While hand and reference are within a quarter turn of the arm no two of the three are half a turn apart, and between two
/// states that arrive the hand would have to turn by another half to be taken for one that is near from the other side.
pub const FARTHEST_TURN: f64 = std::f64::consts::FRAC_PI_2;

/// An orientation: a unit quaternion, whose negative is the same one.
///
/// ```
/// use taut_core::Orientation;
/// let upright = Orientation::new([2.0, 0.0, 0.0, 0.0]).expect("it is made a unit");
/// let turned = upright.turned([0.0, 0.0, 0.5]);
/// assert!((upright.angle(turned) - 0.5).abs() < 1e-12 && (turned.rotation(upright)[2] + 0.5).abs() < 1e-12);
/// assert!(Orientation::new([0.0; 4]).is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Orientation {
    wxyz: [f64; 4],
}

/// A quaternion shorter than this points nowhere.
const LEAST_NORM: f64 = 1e-3;

impl Orientation {
    /// Of these numbers, w, x, y, z; `None` where they are not finite or hardly longer than 0.
    pub fn new(wxyz: [f32; 4]) -> Option<Self> {
        let exact = wxyz.map(f64::from);
        let norm = magnitude(&exact);
        (norm >= LEAST_NORM && norm.is_finite()).then(|| Self { wxyz: exact.map(|part| part / norm) })
    }

    /// As it is sent: w, x, y, z.
    pub fn wxyz(self) -> [f32; 4] {
        self.wxyz.map(|part| part as f32)
    }

    /// The shorter way to `to`, about the base's axes: the axis, as long as the angle, 0 to π rad.
    pub fn rotation(self, to: Self) -> [f64; 3] {
        let [w, x, y, z] = product(to.wxyz, conjugate(self.wxyz));
        let sign = if w < 0.0 { -1.0 } else { 1.0 };
        let sine = magnitude(&[x, y, z]);
        if sine <= 0.0 {
            return [0.0; 3];
        }
        let angle = 2.0 * sine.atan2(w.abs());
        [x, y, z].map(|part| part * (sign * angle / sine))
    }

    /// How far it is to `other`, 0 to π rad.
    pub fn angle(self, other: Self) -> f64 {
        magnitude(&self.rotation(other))
    }

    /// Turned by `rotation` about the base's axes: the axis, as long as the angle in rad. One that is not finite turns nothing.
    #[must_use]
    pub fn turned(self, rotation: [f64; 3]) -> Self {
        let angle = magnitude(&rotation);
        if angle <= 0.0 || !angle.is_finite() {
            return self;
        }
        let (sine, cosine) = (angle / 2.0).sin_cos();
        let [x, y, z] = rotation.map(|part| part * (sine / angle));
        let turned = product([cosine, x, y, z], self.wxyz);
        // Rounding does not add up.
        let norm = magnitude(&turned);
        Self { wxyz: turned.map(|part| part / norm) }
    }

    /// A vector along the axes of what is turned so, along those of the base.
    pub fn to_base(self, [x, y, z]: [f64; 3]) -> [f64; 3] {
        let [_, x, y, z] = product(product(self.wxyz, [0.0, x, y, z]), conjugate(self.wxyz));
        [x, y, z]
    }
}

fn magnitude(numbers: &[f64]) -> f64 {
    numbers.iter().map(|number| number * number).sum::<f64>().sqrt()
}

fn conjugate([w, x, y, z]: [f64; 4]) -> [f64; 4] {
    [w, -x, -y, -z]
}

fn product(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    [
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ]
}
