//! What the media of a stream come to.

use taut_core::{Bitrate, Bytes, Duration};
use taut_media::VideoTable;
use taut_session::{Packing, Scheme, SchemeError, TrendConfig};

use crate::{MultiplexerSpec, Stream, Video, VideoSource};

impl Video {
    /// From one frame to the next.
    pub fn frame_period(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.fps))
    }

    /// The frames of a [real encode](VideoSource::Vp8), scaled to its rate where it has one; `None` where all are equal.
    pub fn table(&self) -> Option<VideoTable> {
        let table = (self.source == VideoSource::Vp8).then(VideoTable::vp8_25fps_400k)?;
        Some(match self.rate {
            Some(rate) => table.scaled(rate, self.frame_period()),
            None => table,
        })
    }

    /// The mean rate of its frames.
    pub fn mean_rate(&self) -> Bitrate {
        let table = self.table().map(|table| table.mean_rate(self.frame_period()));
        table.or(self.rate).unwrap_or_default()
    }
}

impl Stream {
    /// The mean rate of audio and video together.
    pub fn frame_rate(&self) -> Bitrate {
        let audio = self.audio.map(|audio| audio.rate).unwrap_or_default();
        audio + self.video.as_ref().map(Video::mean_rate).unwrap_or_default()
    }

    /// How its media share packets, where the transport adds so much to each beside the headers below it.
    ///
    /// # Errors
    /// Where the multiplexer cannot be one.
    pub fn packing(&self, added: Bytes) -> Result<Packing, SchemeError> {
        let packing = Packing::new(match self.multiplexer {
            MultiplexerSpec::Separate => Scheme::Separate,
            MultiplexerSpec::FixedFragment(fixed) => Scheme::FixedFragment { fragment: fixed.fragment },
            MultiplexerSpec::VisualHaptic => Scheme::VisualHaptic {
                media_rate: self.frame_rate(),
                with_sample: Duration::from_millis(1),
                chunk: Duration::from_millis(15),
            },
            MultiplexerSpec::NetworkAware(aware) => {
                let period = self.haptic.as_ref().map_or(Duration::from_millis(1), |haptic| haptic.period);
                let fragment = self.frame_rate() * period;
                Scheme::NetworkAware { fragment, period, trend: TrendConfig::new().k_max(aware.max_samples) }
            }
        })?;
        Ok(self.packet.map_or(packing, |packet| packing.datagram(packet.saturating_sub(added))))
    }
}
