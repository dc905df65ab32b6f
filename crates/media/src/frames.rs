//! Where audio and video frames come from.

use std::sync::Arc;

use taut_core::{Bitrate, Bytes, Deadline, Duration, Medium, Sample, Time};

use crate::VideoTable;

/// Makes frames of one medium at a constant pace.
///
/// ```
/// use taut_core::{Bytes, Duration, Time};
/// use taut_media::FrameSource;
/// let mut audio = FrameSource::audio(Time::ZERO);
/// let frame = audio.poll_sample(Time::ZERO).expect("the first one is made at once");
/// assert_eq!(frame.size, Bytes::new(160));
/// assert_eq!(audio.poll_sample(Time::ZERO), None);
/// assert_eq!(audio.poll_timeout().at, Time::ZERO + Duration::from_millis(20));
/// ```
#[derive(Clone, Debug)]
pub struct FrameSource {
    medium: Medium,
    sizes: Sizes,
    start: Time,
    period: Duration,
    next: u64,
    next_at: Time,
}

#[derive(Clone, Debug)]
enum Sizes {
    Constant(Bytes),
    Table(Arc<VideoTable>),
}

impl FrameSource {
    /// G.711 (RFC 3551 section 4.5.14): 64 kbit/s, a frame of 160 B every 20 ms, the first at `start`.
    pub fn audio(start: Time) -> Self {
        Self::constant(Medium::Audio, Bitrate::from_bps(64_000), Duration::from_millis(20), start)
    }

    /// 400 kbit/s at 25 frames per second: 2000 B every 40 ms, the first at `start`.
    pub fn video(start: Time) -> Self {
        Self::constant(Medium::Video, Bitrate::from_bps(400_000), Duration::from_millis(40), start)
    }

    /// Frames of equal length (rate times period, rounded down to bytes), the first at `start`. Panics on period zero.
    pub fn constant(medium: Medium, rate: Bitrate, period: Duration, start: Time) -> Self {
        Self::with(medium, Sizes::Constant(rate * period), period, start)
    }

    /// Video frames with the sizes of a table, over and over, the first at `start`. Panics on period zero.
    pub fn table(table: Arc<VideoTable>, period: Duration, start: Time) -> Self {
        Self::with(Medium::Video, Sizes::Table(table), period, start)
    }

    fn with(medium: Medium, sizes: Sizes, period: Duration, start: Time) -> Self {
        assert!(!period.is_zero(), "a frame every 0 ns");
        Self { medium, sizes, start, period, next: 0, next_at: start }
    }

    /// The next frame, if it is made by `now`. Its creation time is exact even when the call is late.
    pub fn poll_sample(&mut self, now: Time) -> Option<Sample> {
        let created = self.next_at;
        if created > now {
            return None;
        }
        let (medium, sequence) = (self.medium, self.next);
        self.next += 1;
        self.next_at = self.start + self.period.saturating_mul(self.next);
        let size = match &self.sizes {
            Sizes::Constant(size) => *size,
            Sizes::Table(table) => table.frames()[(sequence % table.frames().len() as u64) as usize].size,
        };
        Some(Sample { medium, sequence, created, size })
    }

    /// When the next frame is made.
    pub fn poll_timeout(&self) -> Deadline {
        Deadline::new(self.next_at, "frame")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_source_keeps_its_rate_and_its_times() {
        let start = Time::from_nanos(7);
        let mut video = FrameSource::video(start);
        let late = start + Duration::from_secs(1);
        let frames: Vec<Sample> = std::iter::from_fn(|| video.poll_sample(late)).collect();
        assert_eq!(frames.len(), 26);
        assert!(frames.iter().all(|frame| frame.size == Bytes::new(2000) && frame.medium == Medium::Video));
        assert_eq!(frames[25].created, late);
        assert_eq!(frames[25].sequence, 25);
    }

    #[test]
    fn a_table_is_played_over_and_over() {
        let table = Arc::new(VideoTable::parse("10,1\n20,0\n30,0").unwrap());
        let mut video = FrameSource::table(table, Duration::from_millis(40), Time::ZERO);
        let sizes: Vec<u64> =
            std::iter::from_fn(|| video.poll_sample(Time::MAX)).take(5).map(|f| f.size.get()).collect();
        assert_eq!(sizes, [10, 20, 30, 10, 20]);
    }
}
