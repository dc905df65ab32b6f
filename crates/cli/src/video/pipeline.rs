//! Pictures of a GStreamer pipeline, where taut was built with it.

use taut_core::Duration;
use taut_media::picture::Codec;
use taut_video::Image;

/// What a pipeline made.
pub(super) struct Came {
    pub(super) content: Content,
    /// Since its picture was taken, as far as the pipeline knows.
    pub(super) age: Duration,
}

/// As the last element gives it.
#[cfg_attr(not(feature = "gstreamer"), allow(dead_code))]
pub(super) enum Content {
    Image(Image),
    /// What an encoder made of it.
    Frame(Frame),
    /// Frames are missing: what is to come refers to them.
    Gap,
}

/// Of an encoder that is not ours.
#[cfg_attr(not(feature = "gstreamer"), allow(dead_code))]
pub(super) struct Frame {
    pub(super) codec: Codec,
    /// Pixels.
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) bytes: Vec<u8>,
}

#[cfg(feature = "gstreamer")]
mod element;
#[cfg(feature = "gstreamer")]
mod rate;
#[cfg(feature = "gstreamer")]
pub(super) use element::Pipeline;

#[cfg(not(feature = "gstreamer"))]
mod absent {
    use taut_core::Bitrate;

    use super::Came;
    use crate::video::Format;

    /// There is none.
    pub(in crate::video) enum Pipeline {}

    impl Pipeline {
        pub(in crate::video) fn open(_: &str) -> Result<(Self, Format), String> {
            Err("this taut was built without GStreamer: build it again with --features gstreamer".to_owned())
        }

        pub(in crate::video) fn receive(&mut self, _: std::time::Duration) -> Option<Came> {
            match *self {}
        }

        pub(in crate::video) fn is_encoded(&self) -> bool {
            match *self {}
        }

        pub(in crate::video) fn force_key(&mut self) {
            match *self {}
        }

        pub(in crate::video) fn set_bitrate(&mut self, _: Bitrate) {
            match *self {}
        }

        pub(in crate::video) fn said(&mut self) -> Option<String> {
            match *self {}
        }
    }
}

#[cfg(not(feature = "gstreamer"))]
pub(super) use absent::Pipeline;
