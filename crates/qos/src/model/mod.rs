//! The closed-form model of a telehaptic stream on a shared link.
//!
//! One bottleneck of rate μ with one-way propagation τ and a drop-tail queue of B bytes carries the stream (packets of
//! one size, one every T_h), CBR flows, and one bulk TCP flow that runs NewReno and acknowledges every n-th segment.
//! R is the rate of everything but TCP, α = R/μ. TCP fills the queue, loses a segment, halves, and fills it again; the
//! stream's delay cycles with it, between d_min and d_max. Several TCP flows alike are taken to lose and halve together, as one whose
//! window grows by a segment of each in a round trip; where they do not, the queue falls less than d_min says.
//!
//! | what | equation | function |
//! | --- | --- | --- |
//! | window after a loss, queue then, slots until the next | (1) (2) (3) | [`Bottleneck::w_min`], [`q_init`](Bottleneck::q_init), [`c`](Bottleneck::c) |
//! | queue in slot *i*, and its least | (6) (7) | [`Bottleneck::q`], [`q_min`](Bottleneck::q_min) |
//! | least and largest delay | (8) (9) | [`Bottleneck::d_min`], [`d_max`](Bottleneck::d_max) |
//! | TCP segments between two packets of the stream | (11) | [`m_tcp`] |
//! | largest jitter | (13) | [`m_cross`], [`delta_max`] |
//! | packets and frames lost beside TCP | ours | [`packet_loss`] |
//! | compliance | (14) | [`Prediction::compliance`] |
//! | audio and video frames, fixed-fragment multiplexer | text | [`audio_delay`], [`video_delay`] |
//!
//! The model has a range; [`Prediction::validity`] holds every condition of it with both numbers, and
//! [`Prediction::compliant`] is `None` where the answer would need the model outside of it. The other multiplexers
//! (visual-haptic, network-aware packetisation) send packets of changing size or period and are outside the model; so
//! are TCP flows that differ, TCP that acknowledges every segment, and audio and video of more than s_m per T_h.
//!
//! Source: Gokhale, Nair, Chaudhuri, Fesl, *On QoS-Compliant Telehaptic Communication over Shared Networks*; the
//! numbers are that paper's. What is ours says so.

mod equations;
mod loss;
mod plan;
mod prediction;
mod setting;
mod validity;

pub use equations::{Acks, Bottleneck, LeastQueue, audio_delay, delta_max, m_cross, m_tcp, video_delay};
pub use loss::{FrameLoss, Frames, PHASES, packet_loss};
pub use plan::{CrossFlow, Plan};
pub use prediction::{
    Condition, MediaDelays, Prediction, TcpCycle, predict, predict_with_media, predict_within,
};
pub use setting::{Cbr, FixedFragment, MediaRates, SharedLink, SharedLinkError, Stream, TcpFlow};
