//! What the hand feels of a thing through a control law and a line.

use serde::{Deserialize, Serialize};

/// Every law on every thing over every line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransparencyResult {
    /// At which the hand is moved, Hz.
    pub frequencies_hz: Vec<f64>,
    /// By thing, then by law, loss and round trip.
    pub points: Vec<TransparencyPoint>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransparencyPoint {
    /// What is touched: `"wall"`.
    pub thing: String,
    /// `"wave"`.
    pub law: String,
    /// Of each message, each way, per cent.
    pub loss_percent: f64,
    /// The network's round trip, in milliseconds.
    pub rtt_ms: f64,
    /// The stiffness that arm and thing show without delay, N/m.
    pub truth_n_m: f64,
    /// What the hand feels.
    pub felt: FeltResult,
    /// The same without delay and loss.
    pub twin: FeltResult,
    /// `error_percent` over a network with the same round trip that loses nothing; absent where nothing is lost, and in free motion.
    pub clairvoyant_error_percent: Option<f64>,
    /// The most that waves of this impedance show over this round trip, N/m; absent for other laws, and in free motion.
    pub frontier_n_m: Option<f64>,
    /// Does it stay calm in every grip? Absent in free motion.
    pub calm: Option<bool>,
}

/// What a led hand feels, from 0.5 to 10 Hz.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeltResult {
    /// At the lowest frequency, what is in phase with the motion, N/m.
    pub slow_n_m: f64,
    /// Fitted, N/m.
    pub stiffness_n_m: f64,
    /// Fitted, N s/m.
    pub damping_ns_m: f64,
    /// Fitted, kg.
    pub inertia_kg: f64,
    /// Of the impedance, what no spring, damper and mass explain, per cent.
    pub unfitted_percent: f64,
    /// Of the force's motion around its mean, what is at no frequency at which the hand moves, per cent of its root mean square.
    pub other_percent: f64,
    /// How far the impedance is from that of arm and thing without delay, root mean square over the frequencies, per cent; absent in free motion.
    pub error_percent: Option<f64>,
    /// Of the arm from the hand, around the mean, in millimetres.
    pub tracking_rms_mm: f64,
    /// The mean of that: how far the arm drifted, or was held back, in millimetres.
    pub drift_mm: f64,
    /// Of the force on the hand from that on the arm, N.
    pub force_error_rms_n: f64,
    /// Of the periods, those in which nobody asked the hand, since the host was late, per cent: the one that was asked next stands for them.
    #[serde(default)]
    pub skipped_percent: f64,
}

impl FeltResult {
    /// A fit that leaves more of the impedance unexplained says nothing, per cent.
    const MOST_UNFITTED_PERCENT: f64 = 25.0;
    /// Nor does one of a force that moves more where the hand does not, per cent.
    const MOST_OTHER_PERCENT: f64 = 50.0;

    /// Spring, N/m, damper, N·s/m, and mass, kg, where these explain what is felt.
    pub fn fit(&self) -> Option<[f64; 3]> {
        let explains = self.unfitted_percent <= Self::MOST_UNFITTED_PERCENT
            && self.other_percent <= Self::MOST_OTHER_PERCENT;
        explains.then_some([self.stiffness_n_m, self.damping_ns_m, self.inertia_kg])
    }

    /// By so much they are more than those of another, where both are explained.
    pub fn fit_beyond(&self, other: &Self) -> Option<[f64; 3]> {
        let (own, other) = (self.fit()?, other.fit()?);
        Some(std::array::from_fn(|i| own[i] - other[i]))
    }
}
