//! Vectors of as many axes as a guard looks at together.

/// Numbers of one unit on several axes.
pub(super) type Vector<const N: usize> = [f64; N];

pub(super) fn distance<const N: usize>(a: Vector<N>, b: Vector<N>) -> f64 {
    magnitude(&difference(a, b))
}

pub(super) fn difference<const N: usize>(a: Vector<N>, b: Vector<N>) -> Vector<N> {
    std::array::from_fn(|i| a[i] - b[i])
}

/// `to`, or the point `longest` on the way there.
pub(super) fn towards<const N: usize>(from: Vector<N>, to: Vector<N>, longest: f64) -> Vector<N> {
    let length = distance(from, to);
    if length <= longest {
        return to;
    }
    std::array::from_fn(|i| from[i] + (to[i] - from[i]) * (longest / length))
}

/// Makes `vector` no longer than `longest`.
pub(super) fn limit<const N: usize>(vector: &mut Vector<N>, longest: f64) {
    let length = magnitude(vector);
    if length > longest {
        *vector = vector.map(|part| part * (longest / length));
    }
}

/// Makes `vector` no longer than `longest`.
pub(crate) fn shorten(vector: &mut [f32; 3], longest: f32) {
    let mut exact = vector.map(f64::from);
    if magnitude(&exact) > f64::from(longest) {
        limit(&mut exact, f64::from(longest));
        *vector = exact.map(|part| part as f32);
    }
}

pub(super) fn magnitude(vector: &[f64]) -> f64 {
    vector.iter().map(|part| part * part).sum::<f64>().sqrt()
}

/// As it is sent: what is too large for 32 bits is the largest that is not.
pub(super) fn single(number: f64) -> f32 {
    number.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}
