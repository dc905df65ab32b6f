//! Who travels with whom: when a packet goes and how much of what is in it.

mod trend;

use taut_core::{Bitrate, Bytes, Deadline, Duration, Time};

use self::trend::Trend;
pub use self::trend::TrendConfig;

/// Most haptic samples in one packet: beyond, they wait for longer than their headers take to send.
pub const MAX_SAMPLES: usize = 7;
/// How many packets' worth of media may be made up for, so that a long shortage does not become a burst.
const MAX_DEFICIT: u64 = 4;

/// Which data travel together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// Every haptic packet carries `fragment` bytes of audio or video, audio first (the HoIP family; Gokhale, Nair,
    /// Chaudhuri, Fesl). A tick whose sample is withheld sends the fragment alone. What a packet had no room for, later ones make up.
    FixedFragment {
        /// Media bytes in a packet, from 1. 58 B carry 64 kbit/s of audio and 400 kbit/s of video at 1 kHz.
        fragment: Bytes,
    },
    /// Significant samples go with a little media; while there are none, larger chunks of frames go alone (visual-haptic
    /// multiplexing: Cizmeci, Xu, Chaudhari, Bachhuber, Alt, Steinbach, *A Multiplexing Scheme for Multimodal
    /// Teleoperation*, ACM TOMM 13(2), 2017).
    VisualHaptic {
        /// Rate of the frames: what "a millisecond's worth" is of.
        media_rate: Bitrate,
        /// Media that go with a sample. 1 ms in the source.
        with_sample: Duration,
        /// The most that goes alone in one packet. 15 ms in the source.
        chunk: Duration,
    },
    /// A flow per medium: a packet per sample, and packets of their own for each frame.
    Separate,
    /// As fixed fragment, but with k samples and k fragments per packet: k jumps to its maximum when the delay fed back
    /// rises and falls by one while it does not (Gokhale, Nair, Chaudhuri, *Congestion Control for Network-Aware
    /// Telehaptic Communication*, ACM TOMM 13(2), 2017).
    NetworkAware {
        /// Media bytes per sample, from 0.
        fragment: Bytes,
        /// Time between samples. 1 ms at 1 kHz. A packet that is not full after k of these goes as it is.
        period: Duration,
        /// How k follows the delay.
        trend: TrendConfig,
    },
}

/// Why a scheme cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// Not a byte of media in a packet.
    #[error("a fragment has a byte or more")]
    Fragment,
    /// Not a byte of media in a chunk.
    #[error("the media rate gives no byte in a chunk's time")]
    Chunk,
    /// The trend's range of k, or its window.
    #[error("k must be from 1 to {MAX_SAMPLES}, the window of reports at least 1")]
    Trend,
}

impl Scheme {
    /// # Errors
    /// See [`SchemeError`].
    pub fn check(&self) -> Result<(), SchemeError> {
        match *self {
            Self::FixedFragment { fragment: Bytes::ZERO } => Err(SchemeError::Fragment),
            Self::NetworkAware { trend, .. } if !trend.is_valid() => Err(SchemeError::Trend),
            Self::VisualHaptic { media_rate, chunk, .. } if media_rate * chunk == Bytes::ZERO => {
                Err(SchemeError::Chunk)
            }
            _ => Ok(()),
        }
    }

    /// Samples that may have to wait for each other.
    pub const fn samples(&self) -> usize {
        match self {
            Self::NetworkAware { trend, .. } => trend.most(),
            _ => 1,
        }
    }
}

/// What waits when a packet may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Samples.
    pub samples: usize,
    /// Bytes left of the frame that goes next, of audio, video or whatever else there is; `None`: no frame waits.
    pub media: Option<u64>,
}

/// What goes into the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// At most so many samples.
    pub samples: usize,
    /// At most so many bytes of frames.
    pub media: Bytes,
    /// At most so many parts of frames.
    pub parts: usize,
    /// It has the constant size, where there is one.
    pub constant: bool,
}

/// A scheme but [`Scheme::Separate`], and where it stands: told of every sample that is made, it says what goes when.
#[derive(Clone, Debug)]
pub struct Packer(Policy);

#[derive(Clone, Debug)]
enum Policy {
    Fixed {
        fragment: u64,
        withheld: u32,
        deficit: u64,
    },
    Visual {
        rate: Bitrate,
        with_sample: Duration,
        chunk: Duration,
        credit: Duration,
        last: Option<Time>,
        silent: bool,
        /// Of a frame, more waits.
        behind: bool,
    },
    Aware {
        fragment: u64,
        period: Duration,
        trend: Trend,
        ticks: u32,
        first_tick: Time,
        due: bool,
        deficit: u64,
    },
}

impl Packer {
    /// `None`: nothing travels with anything else.
    pub fn new(scheme: Scheme) -> Option<Self> {
        Some(Self(match scheme {
            Scheme::Separate => return None,
            Scheme::FixedFragment { fragment } => {
                Policy::Fixed { fragment: fragment.get(), withheld: 0, deficit: 0 }
            }
            Scheme::VisualHaptic { media_rate: rate, with_sample, chunk } => {
                let (credit, last) = (Duration::ZERO, None);
                Policy::Visual { rate, with_sample, chunk, credit, last, silent: true, behind: false }
            }
            Scheme::NetworkAware { fragment, period, trend } => Policy::Aware {
                fragment: fragment.get(),
                period,
                trend: Trend::new(trend),
                ticks: 0,
                first_tick: Time::ZERO,
                due: false,
                deficit: 0,
            },
        }))
    }

    /// The haptic device made a sample, which is worth sending or not.
    pub fn tick(&mut self, now: Time, significant: bool) {
        match &mut self.0 {
            Policy::Fixed { withheld, .. } if !significant => {
                *withheld = (*withheld + 1).min(MAX_SAMPLES as u32)
            }
            Policy::Fixed { .. } => {}
            Policy::Visual { silent, .. } => {
                *silent = !significant;
                self.0.earn(now);
            }
            Policy::Aware { trend, ticks, first_tick, due, .. } => {
                if *ticks == 0 {
                    *first_tick = now;
                }
                *ticks += 1;
                *due |= *ticks >= trend.k();
            }
        }
    }

    /// The device was not asked for so many samples, for whoever asks it was late: what would have gone along with them goes all the same.
    pub fn miss(&mut self, samples: u64) {
        let samples = samples.min(MAX_SAMPLES as u64) as u32;
        match &mut self.0 {
            Policy::Fixed { withheld, .. } => *withheld = (*withheld + samples).min(MAX_SAMPLES as u32),
            Policy::Aware { fragment, deficit, .. } => {
                *deficit = (*deficit + *fragment * u64::from(samples)).min(*fragment * MAX_DEFICIT);
            }
            // It counts time.
            Policy::Visual { .. } => {}
        }
    }

    /// Time has passed without a sample.
    pub fn time_out(&mut self, now: Time) {
        match &mut self.0 {
            Policy::Fixed { .. } => {}
            Policy::Visual { chunk, last, silent, .. } => {
                *silent |= last.is_none_or(|last| now.saturating_since(last) >= *chunk);
                if *silent {
                    self.0.earn(now);
                }
            }
            Policy::Aware { period, trend, ticks, first_tick, due, .. } => {
                *due |= *ticks > 0 && now >= *first_tick + *period * u64::from(trend.k());
            }
        }
    }

    /// The other side says how long a packet took, ns; only changes matter, so that the clocks may differ. The new k, if it has changed.
    pub fn delay(&mut self, delay_ns: i64) -> Option<u32> {
        match &mut self.0 {
            Policy::Aware { trend, .. } => trend.push(delay_ns),
            _ => None,
        }
    }

    /// What goes now, if anything does.
    pub fn next(&mut self, waiting: &Waiting) -> Option<Order> {
        let Waiting { samples, media: front } = *waiting;
        let order = Order { samples: 1, media: Bytes::ZERO, parts: usize::MAX, constant: true };
        match &mut self.0 {
            Policy::Fixed { fragment, withheld, deficit } => {
                let media = Bytes::new(*fragment + *deficit);
                if samples > 0 {
                    return Some(Order { media, ..order });
                }
                let alone = *withheld > 0 && front.is_some();
                *withheld = withheld.saturating_sub(1);
                alone.then_some(Order { media, ..order })
            }
            Policy::Visual { rate, with_sample, chunk, credit, silent, behind, .. } => {
                // What waited may be late by now.
                *behind &= front.is_some();
                if samples > 0 {
                    return Some(Order { media: *rate * (*credit).min(*with_sample), ..order });
                }
                let media = *rate * (*credit).min(*chunk);
                let front = front?;
                let enough = *credit >= *chunk || media.get() >= front;
                (*silent && enough).then_some(Order { media, parts: 1, constant: false, ..order })
            }
            Policy::Aware { fragment, ticks, due, deficit, .. } => {
                let media = Bytes::new(*fragment * u64::from(*ticks) + *deficit);
                let go = std::mem::take(due);
                *ticks = if go { 0 } else { *ticks };
                // k changes the size, so no constant size: the packet is as long as what is in it.
                go.then_some(Order { samples: MAX_SAMPLES, media, constant: false, ..order })
            }
        }
    }

    /// What `order` asked for has gone, with `taken` bytes of frames. Do more of them wait?
    pub fn settle(&mut self, order: &Order, taken: Bytes, media_wait: bool) {
        match &mut self.0 {
            Policy::Fixed { fragment, deficit, .. } | Policy::Aware { fragment, deficit, .. } => {
                let short = order.media.saturating_sub(taken).get();
                *deficit = if media_wait { short.min(*fragment * MAX_DEFICIT) } else { 0 };
            }
            Policy::Visual { rate, credit, behind, .. } => {
                *credit = credit.saturating_sub(rate.time_for(taken));
                *behind = media_wait;
            }
        }
    }

    /// Do frames go without samples, at a rate of their own?
    pub const fn has_own_rate(&self) -> bool {
        matches!(self.0, Policy::Visual { .. })
    }

    /// Does a sample that waits go now, and not with others?
    pub const fn sends_at_once(&self) -> bool {
        !matches!(self.0, Policy::Aware { due: false, .. })
    }

    /// Do frames wait for the next sample, whatever time passes? There was none before it that was withheld.
    pub const fn waits_for_sample(&self) -> bool {
        matches!(self.0, Policy::Fixed { withheld: 0, .. })
    }

    /// When time alone sends something.
    pub fn poll_timeout(&self, waiting: &Waiting) -> Option<Deadline> {
        match &self.0 {
            Policy::Fixed { .. } => None,
            Policy::Visual { rate, chunk, credit, last, silent, .. } => {
                let rest = Bytes::new(waiting.media?);
                let last = (*last)?;
                let needed = rate.time_for(rest).min(*chunk).saturating_sub(*credit);
                // A nanosecond more, since times and bytes are both rounded down.
                let wait = if *silent { needed + Duration::from_nanos(1) } else { *chunk };
                Some(Deadline::new(last + wait, "chunk"))
            }
            Policy::Aware { period, trend, ticks, first_tick, .. } => {
                let full = *first_tick + *period * u64::from(trend.k());
                (*ticks > 0).then_some(Deadline::new(full, "packet not full"))
            }
        }
    }
}

impl Policy {
    /// Time is media: every millisecond earns the right to send a millisecond's worth, up to a chunk. While more waits, up to two: where the media
    /// take all of the rate, each chunk that left late would otherwise be a little more delay for good.
    fn earn(&mut self, now: Time) {
        if let Self::Visual { chunk, credit, last, with_sample, behind, .. } = self {
            let earned = last.map_or(*with_sample, |last| now.saturating_since(last));
            let most = if *behind { *chunk * 2 } else { *chunk };
            *credit = (*credit + earned).min(most);
            *last = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that went in a second of which every packet left that much after it could, when more of a frame always waits.
    fn sent(late: Duration) -> u64 {
        let (media_rate, chunk) = (Bitrate::from_bps(464_000), Duration::from_millis(15));
        let scheme = Scheme::VisualHaptic { media_rate, with_sample: Duration::from_millis(1), chunk };
        let mut packer = Packer::new(scheme).expect("not separate");
        let (mut now, mut bytes) = (Time::ZERO, 0);
        let waiting = Waiting { samples: 0, media: Some(2_000) };
        packer.tick(now, false);
        while now < Time::from_nanos(1_000_000_000) {
            packer.time_out(now);
            while let Some(order) = packer.next(&waiting) {
                assert!(order.media <= media_rate * chunk, "a packet is no longer than a chunk");
                bytes += order.media.get();
                packer.settle(&order, order.media, true);
            }
            now = packer.poll_timeout(&waiting).expect("more waits").at + late;
        }
        bytes
    }

    #[test]
    fn a_fragment_of_nothing_is_refused() {
        let fixed = |bytes| Scheme::FixedFragment { fragment: Bytes::new(bytes) }.check();
        assert_eq!((fixed(0), fixed(1)), (Err(SchemeError::Fragment), Ok(())));
    }

    #[test]
    fn a_host_that_is_late_sends_no_less() {
        for late in [0, 80, 400, 3_000].map(Duration::from_micros) {
            let bytes = sent(late);
            assert!((57_000..=58_000).contains(&bytes), "{bytes} B of 58,000, {late} late");
        }
        assert!(sent(Duration::from_secs(1)) <= 2 * 870, "what is made up for is bounded");
    }
}
