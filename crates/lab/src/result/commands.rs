//! What became of a flow of commands.

use serde::{Deserialize, Serialize};

use super::Distribution;

/// A flow of commands. `sent ≥ received = in_time + late`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandsResult {
    /// What carried them: `"mtip"`.
    pub transport: String,
    /// The age at which a command is worse than none, in milliseconds.
    pub deadline_ms: f64,
    /// Commands made after the warm-up.
    pub sent: u64,
    /// Of these, given to the application.
    pub received: u64,
    /// Of these, not later than the deadline.
    pub in_time: u64,
    /// Of these, later.
    pub late: u64,
    /// Given to the application once more than once.
    pub delivered_again: u64,
    /// In the whole run, not taken by the transport.
    pub refused: u64,
    /// in_time / sent, per cent; absent when none was sent.
    pub in_time_percent: Option<f64>,
    /// The share that somebody who knows the future could have had in time over these links, per cent, whenever and over
    /// whatever paths he sent, with one copy each: what else was sent, and waiting for it, left out. Absent where the paths are
    /// not single links, and in a run over real sockets.
    #[serde(default)]
    pub bound_percent: Option<f64>,
    /// bound_percent less in_time_percent, in points. At least 0.
    #[serde(default)]
    pub below_bound_points: Option<f64>,
    /// received / sent, per cent; absent when none was sent.
    pub received_percent: Option<f64>,
    /// From making to the first delivery, in milliseconds; absent when none arrived.
    pub latency_ms: Option<Distribution>,
    /// The longest time without a command: between the first deliveries of two, or from the last one to when the last command
    /// was made, in milliseconds; absent when none arrived.
    #[serde(default)]
    pub gap_ms: Option<f64>,
    /// In the whole run, copies sent of a message: the first one, those on other paths and those sent again. Absent where
    /// the transport does not count messages.
    pub copies: Option<f64>,
    /// What left on each path towards the receiver in the whole run, in the order of paths.
    pub there: Vec<PathResult>,
    /// What left on each path towards the sender.
    pub back: Vec<PathResult>,
}

/// What left on one path in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathResult {
    /// Packets.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
}

/// What a radio spends on a megabit sent and on one received, beside what being awake costs, J (LTE: Huang, Qian, Gerber, Mao,
/// Sen, Spatscheck, *A Close Examination of Performance and Power Characteristics of 4G LTE Networks*, MobiSys 2012, table 4).
const JOULES_PER_MBIT: (f64, f64) = (0.43839, 0.05197);

/// What the sender's radio spends on what left there and came back, mJ.
pub(crate) fn radio_mj(there: PathResult, back: PathResult) -> f64 {
    let mbit = |path: PathResult| path.bytes as f64 * 8.0 / 1e6;
    (mbit(there) * JOULES_PER_MBIT.0 + mbit(back) * JOULES_PER_MBIT.1) * 1e3
}
