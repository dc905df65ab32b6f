//! What stays calm at which round trip.

use serde::{Deserialize, Serialize};
use taut_qos::rendering::Critical;

/// For each control law, loss and round trip, the stiffest wall that stays calm in every grip, and the stiffest that is felt as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapResult {
    /// By what hand and arm are made of, then by law, by loss, and by round trip.
    pub points: Vec<MapPoint>,
    /// The softest and the stiffest wall that there is, N/m.
    pub range_n_m: [f64; 2],
    /// Of all walls, N s/m.
    pub damping_ns_m: f64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapPoint {
    /// What is different of hand, arm or wall, `"device rubs with 1 N"`; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub different: Option<String>,
    /// `"wave"`.
    pub law: String,
    /// Of each message, each way, per cent.
    pub loss_percent: f64,
    /// The network's round trip, in milliseconds.
    pub rtt_ms: f64,
    /// The stiffest wall up to which nothing that was pressed rippled in any grip, N/m, whether or not the hand felt it; absent where even the softest did, or nothing was pressed.
    pub calm_to_n_m: Option<f64>,
    /// The stiffest wall up to which everything that was pressed was calm in every grip, and pushed the hand with half of what the arm met and more, N/m; absent where
    /// not even the softest was, or nothing was pressed.
    pub felt_to_n_m: Option<f64>,
    /// Of the force that the arm met at the stiffest wall that is calm, what the hand was pushed with, per cent, in the grip that felt least.
    pub felt_percent: Option<f64>,
    /// Of simpler worlds.
    pub critical: Critical,
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
    /// The stiffest wall up to which nothing that was pressed rippled, N/m; absent where even the softest did, or nothing was pressed.
    pub calm_to_n_m: Option<f64>,
    /// The softest that was tried and did, N/m; absent where none did.
    pub rattles_from_n_m: Option<f64>,
    /// The softest and the stiffest wall that was tried and that the arm did not press against at rest, N/m; absent where it pressed against all. Such a wall counts as
    /// nothing: neither as calm or felt, nor as not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_pressed_n_m: Option<[f64; 2]>,
    /// The stiffest wall up to which everything that was pressed was calm and felt by half and more, N/m; absent where not even the softest was, or nothing was pressed.
    pub felt_to_n_m: Option<f64>,
    /// Of the force that the arm met at the stiffest wall that is calm, what the hand was pushed with, per cent.
    pub felt_percent: Option<f64>,
    /// From where on the delayed loop is unstable by its margin, N/m: of position–force without loss, where there is such a stiffness.
    pub theory_n_m: Option<f64>,
}

impl MapGrip {
    /// Did the arm press against any wall?
    pub const fn presses(&self) -> bool {
        self.calm_to_n_m.is_some() || self.rattles_from_n_m.is_some()
    }

    /// Between calm and not, N/m, and how far that is from theory, per cent.
    pub fn off_theory_percent(&self) -> Option<f64> {
        let found = (self.calm_to_n_m? + self.rattles_from_n_m?) / 2.0;
        Some(100.0 * (found / self.theory_n_m? - 1.0))
    }
}
