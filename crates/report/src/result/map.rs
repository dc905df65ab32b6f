//! What stays calm at which round trip.

use serde::{Deserialize, Serialize};

/// For each control law, loss and round trip, the stiffest wall that stays calm in every grip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapResult {
    /// By law, then by loss, then by round trip.
    pub points: Vec<MapPoint>,
    /// The softest and the stiffest wall that there is, N/m.
    pub range_n_m: [f64; 2],
    /// Of all walls, N s/m.
    pub damping_ns_m: f64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapPoint {
    /// `"wave"`.
    pub law: String,
    /// Of each message, each way, per cent.
    pub loss_percent: f64,
    /// The network's round trip, in milliseconds.
    pub rtt_ms: f64,
    /// The stiffest wall up to which everything tried was calm in every grip, N/m; absent where not even the softest was.
    pub calm_to_n_m: Option<f64>,
    /// The same of each grip by itself.
    pub grips: Vec<MapGrip>,
}

/// In one grip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapGrip {
    /// Of hand and device, kg.
    pub mass_kg: f64,
    /// Of the hand, N s/m.
    pub damping_ns_m: f64,
    /// Of the hand, N/m.
    pub stiffness_n_m: f64,
    /// The stiffest wall up to which everything tried was calm, N/m; absent where not even the softest was.
    pub calm_to_n_m: Option<f64>,
    /// The softest that was tried and was not, N/m; absent where all were calm.
    pub rattles_from_n_m: Option<f64>,
    /// From where on the delayed loop is unstable by its margin, N/m: of position–force without loss, where there is such a stiffness.
    pub theory_n_m: Option<f64>,
}

impl MapGrip {
    /// Between calm and not, N/m, and how far that is from theory, per cent.
    pub fn off_theory_percent(&self) -> Option<f64> {
        let found = (self.calm_to_n_m? + self.rattles_from_n_m?) / 2.0;
        Some(100.0 * (found / self.theory_n_m? - 1.0))
    }
}
