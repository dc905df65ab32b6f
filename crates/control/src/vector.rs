//! Vectors of three.

/// x, y, z.
pub type Vector = [f64; 3];

pub(crate) fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// a + s b.
pub(crate) fn plus(a: &Vector, s: f64, b: &Vector) -> Vector {
    std::array::from_fn(|axis| a[axis] + s * b[axis])
}

pub(crate) fn times(s: f64, a: &Vector) -> Vector {
    a.map(|part| s * part)
}
