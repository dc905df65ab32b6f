//! What arrived of a video over RTP.

use serde::{Deserialize, Serialize};

use super::{Distribution, FrameRate};

/// One video over RTP, and the force that it is to be seen with. Packets and frames count that were sent after the warm-up and
/// before the end; seconds count that lie wholly between the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoResult {
    /// Its flow: `"video"`.
    pub name: String,
    /// The flow that it is paired with: `"haptic"`.
    pub haptic: Option<String>,
    /// Packets sent.
    pub packets_sent: u64,
    /// Of these, that did not arrive, per cent; absent when none was sent.
    pub packet_loss_percent: Option<f64>,
    /// Frames sent.
    pub frames_sent: u64,
    /// Of these, that any packet of was missing, per cent; absent when none was sent.
    pub frame_loss_percent: Option<f64>,
    /// The same of key frames only.
    pub key_frame_loss_percent: Option<f64>,
    /// Whole frames since whose key frame none was lost, per second: what a decoder without concealment shows.
    pub of_use_per_s: Option<f64>,
    /// Frames that became whole in each second; absent in a run of less than one.
    pub fps: Option<FrameRate>,
    /// What viewers would think of them; absent where the quantiser cannot be told.
    pub opinion: Option<Opinion>,
    /// One way, of packets, in milliseconds.
    pub packet_delay_ms: Option<Distribution>,
    /// From when a frame was sent until its last packet arrived, in milliseconds.
    pub frame_delay_ms: Option<Distribution>,
    /// One way, of the packets that it is paired with, in milliseconds.
    pub haptic_delay_ms: Option<Distribution>,
    /// Of these, the largest positive difference of consecutive ones, in milliseconds: their jitter.
    pub haptic_jitter_max_ms: Option<f64>,
    /// Of the packets that it is paired with, that did not arrive, per cent; absent when none was sent.
    pub haptic_loss_percent: Option<f64>,
    /// Arrival of a frame less arrival of the haptic packet that was sent nearest to it, in milliseconds.
    pub offset_ms: Option<Distribution>,
    /// Whole frames near which no haptic packet was sent, or whose packet was lost.
    pub unpaired: u64,
}

/// A mean opinion score estimated from the frame rate and the quantiser of each second: ITU-T P.1203.1, see
/// [`taut_media::opinion`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opinion {
    /// Mean of the seconds' scores, 1 (bad) to 4.9 (excellent).
    pub mos: f64,
    /// What a tenth of the seconds do not exceed.
    pub mos_p10: f64,
    /// Mean quantiser of the whole frames, as a parameter of H.264, 0 to 51.
    pub quantizer: f64,
}
