//! What can be told of a frame from its first packet, whatever the codec.

use super::{h264, vp8};

taut_core::named! {
    /// How video is put into RTP payloads.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
    #[cfg_attr(feature = "schema", serde(rename_all = "snake_case"), schemars(rename = "VideoCodec"))]
    pub enum Codec {
        /// VP8, RFC 7741.
        #[default]
        Vp8 = "vp8",
        /// H.264, RFC 6184.
        H264 = "h264",
        /// Something that is not looked into: every frame is taken for a delta frame.
        Opaque = "opaque",
    }
}

/// What the loss of a frame means to those after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Nothing refers to it: VP8's N bit, H.264's `nal_ref_idc` 0.
    Disposable = 0,
    /// Decoded with the help of frames before it, and needed by those after it.
    #[default]
    Delta = 1,
    /// Decoded by itself; all others depend on one.
    Key = 2,
}

impl Codec {
    /// Of what kind the frame is whose first packet has this payload. What cannot be read, or tells nothing, is taken for a
    /// delta frame.
    pub fn kind(self, payload: &[u8]) -> FrameKind {
        match self {
            Self::Vp8 => vp8::kind(payload),
            Self::H264 => h264::kind(payload),
            Self::Opaque => FrameKind::Delta,
        }
    }

    /// As [`Codec::kind`], but `None` when another packet of the frame has to tell: one of H.264 without a slice.
    pub fn told(self, payload: &[u8]) -> Option<FrameKind> {
        match self {
            Self::Vp8 => Some(vp8::kind(payload)),
            Self::H264 => h264::told(payload),
            Self::Opaque => Some(FrameKind::Delta),
        }
    }
}
