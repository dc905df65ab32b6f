//! What the model is asked about.

use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration};

/// A bottleneck and all that crosses it in one direction.
///
/// All sizes are wire lengths: IP packets with their headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    /// μ, > 0.
    pub rate: Bitrate,
    /// τ: propagation one way, the whole path.
    pub delay: Duration,
    /// B: the drop-tail queue, counted in bytes.
    pub buffer: Bytes,
    /// The telehaptic stream.
    pub stream: Stream,
    /// Bulk TCP flows. The model knows those that are alike; of others only what does not need them is predicted.
    #[serde(default)]
    pub tcp: Vec<TcpFlow>,
    /// Flows at a constant rate beside the stream.
    #[serde(default)]
    pub cbr: Vec<Cbr>,
    /// How audio and video travel inside the stream; `None` when they do not.
    pub multiplexer: Option<FixedFragment>,
}

/// The telehaptic stream: one packet every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// R_h T_h, > 0: a haptic sample with its fragment of audio or video and all headers.
    pub packet: Bytes,
    /// T_h, > 0.
    pub period: Duration,
}

/// A bulk TCP flow: NewReno, growing its window by one segment a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpFlow {
    /// S_tcp, > 0: a full segment.
    pub segment: Bytes,
    /// n, > 0: the receiver acknowledges every n-th segment.
    pub ack_every: u32,
}

/// A flow at a constant rate in packets of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cbr {
    /// R_cross.
    pub rate: Bitrate,
    /// S_cross, > 0.
    pub packet: Bytes,
}

/// The fixed-fragment multiplexer (HoIP family): every packet of the stream carries a fragment of audio or video, audio
/// with strict priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedFragment {
    /// s_m, > 0: bytes of audio or video in one packet.
    pub fragment: Bytes,
    /// s_a: bytes of one audio frame; `None` without audio.
    pub audio_frame: Option<Bytes>,
    /// 1/f_v: time between video frames; `None` without video.
    pub video_period: Option<Duration>,
}

/// How much audio and video the fragments have to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaRates {
    /// Rate of the encoded audio; 0 without.
    pub audio: Bitrate,
    /// Mean rate of the encoded video; 0 without.
    pub video: Bitrate,
}

impl MediaRates {
    /// The paper's: 64 kbit/s of audio and 400 kbit/s of video, as far as `multiplexer` carries each.
    pub fn of_source(multiplexer: FixedFragment) -> Self {
        let of = |carried: bool, bps| if carried { Bitrate::from_bps(bps) } else { Bitrate::ZERO };
        Self {
            audio: of(multiplexer.audio_frame.is_some(), 64_000),
            video: of(multiplexer.video_period.is_some(), 400_000),
        }
    }
}

/// A setting that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} must be more than 0")]
pub struct SharedLinkError(&'static str);

impl SharedLink {
    /// R: the rate of everything but TCP.
    pub fn load(&self) -> Bitrate {
        self.cbr.iter().fold(self.stream.rate(), |sum, flow| sum + flow.rate)
    }

    /// Refuses what would divide by zero.
    pub(super) fn check(&self) -> Result<(), SharedLinkError> {
        let refuse = |zero: bool, what| if zero { Err(SharedLinkError(what)) } else { Ok(()) };
        refuse(self.rate == Bitrate::ZERO, "rate")?;
        refuse(self.stream.packet == Bytes::ZERO, "stream.packet")?;
        refuse(self.stream.period.is_zero(), "stream.period")?;
        for flow in &self.tcp {
            refuse(flow.segment == Bytes::ZERO, "tcp.segment")?;
            refuse(flow.ack_every == 0, "tcp.ack_every")?;
        }
        for flow in &self.cbr {
            refuse(flow.packet == Bytes::ZERO, "cbr.packet")?;
        }
        let fragment = self.multiplexer.map(|multiplexer| multiplexer.fragment);
        refuse(fragment == Some(Bytes::ZERO), "multiplexer.fragment")
    }
}

impl Stream {
    /// R_h, in whole bits per second.
    pub fn rate(&self) -> Bitrate {
        self.packet / self.period
    }
}
