//! How far hand and arm may be turned from each other.

/// The most that hand and arm may be turned from each other, rad: a quarter turn. A robot beyond it stops.
///
/// The way from one orientation to another is the shorter one. Where they are half a turn apart that becomes the other one: an arm that follows would go back, and a
/// torque between the two changes its sign. While hand and reference are within a quarter turn of the arm no two of the three are half a turn apart, and between two
/// states that arrive the hand would have to turn by another half to be taken for one that is near from the other side.
pub const FARTHEST_TURN: f64 = std::f64::consts::FRAC_PI_2;
