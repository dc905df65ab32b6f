//! The schemes: when a packet goes and how much of what is in it.

use taut_core::{Bitrate, Bytes, Deadline, Duration, Medium, Time};
use taut_wire::media::{MAX_FRAGMENTS, MAX_SAMPLES};

use super::pack::{FRAMED, Lanes, Order};
use super::trend::{Trend, TrendConfig};

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

/// A scheme and where it stands.
#[derive(Clone, Debug)]
pub(super) enum Policy {
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
    },
    Separate,
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

impl Policy {
    pub(super) fn new(scheme: Scheme) -> Self {
        match scheme {
            Scheme::FixedFragment { fragment } => {
                Self::Fixed { fragment: fragment.get(), withheld: 0, deficit: 0 }
            }
            Scheme::VisualHaptic { media_rate: rate, with_sample, chunk } => {
                Self::Visual { rate, with_sample, chunk, credit: Duration::ZERO, last: None, silent: true }
            }
            Scheme::Separate => Self::Separate,
            Scheme::NetworkAware { fragment, period, trend } => Self::Aware {
                fragment: fragment.get(),
                period,
                trend: Trend::new(trend),
                ticks: 0,
                first_tick: Time::ZERO,
                due: false,
                deficit: 0,
            },
        }
    }

    /// The haptic device made a sample.
    pub(super) fn tick(&mut self, now: Time, significant: bool) {
        match self {
            Self::Fixed { withheld, .. } if !significant => {
                *withheld = (*withheld + 1).min(MAX_SAMPLES as u32)
            }
            Self::Fixed { .. } | Self::Separate => {}
            Self::Visual { silent, .. } => {
                *silent = !significant;
                self.earn(now);
            }
            Self::Aware { trend, ticks, first_tick, due, .. } => {
                if *ticks == 0 {
                    *first_tick = now;
                }
                *ticks += 1;
                *due |= *ticks >= trend.k();
            }
        }
    }

    /// Time has passed without a sample.
    pub(super) fn time_out(&mut self, now: Time) {
        match self {
            Self::Fixed { .. } | Self::Separate => {}
            Self::Visual { chunk, last, silent, .. } => {
                *silent |= last.is_none_or(|last| now.saturating_since(last) >= *chunk);
                if *silent {
                    self.earn(now);
                }
            }
            Self::Aware { period, trend, ticks, first_tick, due, .. } => {
                *due |= *ticks > 0 && now >= *first_tick + *period * u64::from(trend.k());
            }
        }
    }

    /// The other side says how long a packet took. The new k, if it has changed.
    pub(super) fn delay(&mut self, delay: Duration) -> Option<u32> {
        match self {
            Self::Aware { trend, .. } => trend.push(delay),
            _ => None,
        }
    }

    /// What goes now, if anything does.
    pub(super) fn next(&mut self, lanes: &Lanes, datagram: Option<Bytes>, mtu: Bytes) -> Option<Order> {
        let samples = lanes.haptic.len();
        let order = Order {
            flow: Medium::Haptic,
            samples: 1,
            media: Bytes::ZERO,
            fragments: MAX_FRAGMENTS,
            only: None,
            longest: datagram.unwrap_or(mtu),
            shortest: datagram.unwrap_or(Bytes::ZERO),
        };
        match self {
            Self::Fixed { fragment, withheld, deficit } => {
                let media = Bytes::new(*fragment + *deficit);
                if samples > 0 {
                    return Some(Order { media, ..order });
                }
                let alone = *withheld > 0 && lanes.media_wait();
                *withheld = withheld.saturating_sub(1);
                alone.then_some(Order { media, ..order })
            }
            Self::Visual { rate, with_sample, chunk, credit, silent, .. } => {
                if samples > 0 {
                    return Some(Order { media: *rate * (*credit).min(*with_sample), ..order });
                }
                let media = *rate * (*credit).min(*chunk);
                let enough = *credit >= *chunk || media.get() >= lanes.front_remaining()?;
                let alone = *silent && enough;
                alone.then_some(Order { media, fragments: 1, longest: mtu, shortest: Bytes::ZERO, ..order })
            }
            Self::Separate if samples > 0 => Some(order),
            Self::Separate => {
                let medium = FRAMED.into_iter().zip(&lanes.frames).find(|(_, queue)| !queue.is_empty())?.0;
                let (longest, shortest) = (mtu, Bytes::ZERO);
                Some(Order {
                    flow: medium,
                    samples: 0,
                    media: mtu,
                    fragments: 1,
                    only: Some(medium),
                    longest,
                    shortest,
                })
            }
            Self::Aware { fragment, ticks, due, deficit, .. } => {
                let media = Bytes::new(*fragment * u64::from(*ticks) + *deficit);
                let go = std::mem::take(due);
                *ticks = if go { 0 } else { *ticks };
                // k changes the size, so no constant size: the datagram is as long as what is in it.
                let (longest, shortest) = (mtu, Bytes::ZERO);
                go.then_some(Order { samples: MAX_SAMPLES, media, longest, shortest, ..order })
            }
        }
    }

    /// What `order` asked for has been written, with `taken` bytes of frames.
    pub(super) fn settle(&mut self, order: &Order, taken: Bytes, media_wait: bool) {
        match self {
            Self::Fixed { fragment, deficit, .. } | Self::Aware { fragment, deficit, .. } => {
                let short = order.media.saturating_sub(taken).get();
                *deficit = if media_wait { short.min(*fragment * MAX_DEFICIT) } else { 0 };
            }
            Self::Visual { rate, credit, .. } => *credit = credit.saturating_sub(rate.time_for(taken)),
            Self::Separate => {}
        }
    }

    /// When time alone sends something.
    pub(super) fn poll_timeout(&self, lanes: &Lanes) -> Option<Deadline> {
        match self {
            Self::Fixed { .. } | Self::Separate => None,
            Self::Visual { rate, chunk, credit, last, silent, .. } => {
                let rest = Bytes::new(lanes.front_remaining()?);
                let last = (*last)?;
                let needed = rate.time_for(rest).min(*chunk).saturating_sub(*credit);
                // A nanosecond more, since times and bytes are both rounded down.
                let wait = if *silent { needed + Duration::from_nanos(1) } else { *chunk };
                Some(Deadline::new(last + wait, "chunk"))
            }
            Self::Aware { period, trend, ticks, first_tick, .. } => {
                let full = *first_tick + *period * u64::from(trend.k());
                (*ticks > 0).then_some(Deadline::new(full, "packet not full"))
            }
        }
    }

    /// Time is media: every millisecond earns the right to send a millisecond's worth, up to a chunk.
    fn earn(&mut self, now: Time) {
        if let Self::Visual { chunk, credit, last, with_sample, .. } = self {
            let earned = last.map_or(*with_sample, |last| now.saturating_since(last));
            *credit = (*credit + earned).min(*chunk);
            *last = Some(now);
        }
    }
}

/// How many packets' worth of media may be made up for, so that a long shortage does not become a burst.
const MAX_DEFICIT: u64 = 4;
