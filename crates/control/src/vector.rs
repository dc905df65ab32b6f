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

pub(crate) fn size(a: &Vector) -> f64 {
    dot(a, a).sqrt()
}

/// In its own direction, where it is longer than this.
pub(crate) fn shortened(a: &Vector, limit: f64) -> Vector {
    let size = size(a);
    if size > limit { times(limit / size, a) } else { *a }
}
