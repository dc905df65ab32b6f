//! How few messages a control law needs.

use serde::{Deserialize, Serialize};

/// What is saved and what is copied, by law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavingResult {
    /// By law, then by thing, round trip and way of saving.
    pub savings: Vec<SavingPoint>,
    /// By law, then by way of copying.
    pub copies: Vec<CopyPoint>,
}

/// One law on one thing over one line, with one way of saving messages. Each figure is the worst of three grips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavingPoint {
    /// `"wave"`.
    pub law: String,
    /// What is touched: `"wall"`.
    pub thing: String,
    /// The network's round trip, in milliseconds.
    pub rtt_ms: f64,
    /// Weber's fraction; absent where every message is sent, infinite where change alone is never worth a packet.
    pub k: Option<f64>,
    /// The share of the reserve that holding may cost; absent where it is not asked for.
    pub eta: Option<f64>,
    /// Of the messages, both ways, per cent.
    pub sent_percent: f64,
    /// Does the hand's rest stay calm?
    pub calm: bool,
    /// Of the mean force in the rests, per cent; absent where the hand rested on nothing.
    pub ripple_percent: Option<f64>,
    /// Of the force on the hand from what it is when every message is sent, N, root mean square.
    pub felt_apart_n: f64,
    /// Of the arm from where it is then, in millimetres, root mean square.
    pub arm_apart_mm: f64,
}

/// One law on one thing over a line that loses messages in bursts, and a second one alike for copies. Means of seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyPoint {
    /// `"wave"`.
    pub law: String,
    /// What is touched: `"wall"`.
    pub thing: String,
    /// The network's round trip, in milliseconds.
    pub rtt_ms: f64,
    /// Messages are copied whose sender has spent its reserve within this, in milliseconds; absent where they are chosen by chance.
    pub spent_within_ms: Option<f64>,
    /// Of the messages, both ways, per cent.
    pub copied_percent: f64,
    /// Of the force on the hand from what it is when nothing is lost, N, root mean square; and its standard error over the seeds.
    pub felt_apart_n: [f64; 2],
    /// Of the arm from where it is then, in millimetres, root mean square; and its standard error over the seeds.
    pub arm_apart_mm: [f64; 2],
}
