//! Who travels with whom: decides what goes into which packet.

mod pack;
mod queues;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use taut_core::{Bytes, Deadline, DropCause, Duration, Medium, NodeEvent, Sample, Time};
use taut_wire::media::{MAX_PAYLOAD, Report};

use self::pack::{FRAMED, Lanes, Order, index_of};
use self::queues::{FrameQueue, SampleQueue};
use crate::packing::{Packer, Scheme, SchemeError};

/// Takes haptic samples and frames, gives datagrams.
///
/// The haptic device is the clock of most schemes: it calls for every sample it makes, also for those that its sampler
/// withholds. Frames wait for their turn; what waits too long, or in too long a queue, is dropped, the oldest first, with
/// its cause.
///
/// ```
/// use taut_core::{Bytes, Medium, Sample, Time};
/// use taut_media::{MuxConfig, Multiplexer, Scheme};
/// let fragment = Bytes::new(58);
/// let config = MuxConfig::new(Scheme::FixedFragment { fragment }).datagram(MuxConfig::datagram_of_ipv4(Bytes::new(137)));
/// let mut mux = Multiplexer::new(config)?;
/// let created = Time::ZERO;
/// let size = Bytes::new(160);
/// mux.handle_sample(created, Sample { medium: Medium::Audio, sequence: 0, created, size }, &[], true);
/// let size = Bytes::new(12);
/// mux.handle_sample(created, Sample { medium: Medium::Haptic, sequence: 0, created, size }, &[0; 12], true);
/// let mut buffer = Vec::new();
/// let transmit = mux.poll_transmit(created, &mut buffer).expect("a packet is due");
/// assert_eq!(buffer.len() as u64 + u64::from(transmit.padding) + 28, 137);
/// # Ok::<(), taut_media::MuxConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Multiplexer {
    lanes: Lanes,
    packer: Option<Packer>,
    datagram: Option<Bytes>,
    mtu: Bytes,
    age_limits: [Duration; 4],
    /// Nothing that waits is too old until then.
    fresh_until: Time,
}

/// How a multiplexer works.
#[derive(Clone, Debug, PartialEq)]
pub struct MuxConfig {
    scheme: Scheme,
    datagram: Option<Bytes>,
    mtu: Bytes,
    age_limits: [Duration; 4],
    sample_limit: usize,
    frame_limit: usize,
}

/// 0 and 1 are versions of QUIC where the packet number stands: Wireshark would take the whole flow for it.
const FIRST_PACKET: u32 = 2;

/// A datagram to send: its bytes are in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MuxTransmit {
    /// Its flow: [`Medium::Haptic`], but for [`Scheme::Separate`], which has one flow per medium.
    pub flow: Medium,
    /// Zeros that follow the bytes: frame bytes that nobody stored, and filling up to [`MuxConfig::datagram`].
    pub padding: u32,
    /// When the oldest sample in it was made, or the oldest frame if it carries no sample.
    pub created: Time,
    /// Haptic samples in it.
    pub samples: u8,
    /// Fragments of frames in it.
    pub fragments: u8,
}

/// Why a multiplexer cannot work so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MuxConfigError {
    /// The constant size is longer than the longest.
    #[error("datagrams of {datagram} do not fit {mtu}")]
    Datagram {
        /// The constant size asked for.
        datagram: Bytes,
        /// The longest.
        mtu: Bytes,
    },
    /// So short that not one byte of a frame fits beside the headers.
    #[error("the longest datagram of {0} has no room for media; at least 64B are needed")]
    Mtu(Bytes),
    /// A queue that holds nothing.
    #[error("a queue limit is 0")]
    Limit,
    /// Not a byte of media in a chunk.
    #[error("the media rate gives no byte in a chunk's time")]
    Chunk,
    /// The trend's range of k, or its window.
    #[error("k must be from 1 to 7, the window of reports at least 1")]
    Trend,
}

impl MuxConfig {
    const MTU_MIN: Bytes = Bytes::new(64);

    /// This scheme; datagrams as long as they need be, at most 1472 B; the limits of smooth sessions as age limits (haptic
    /// 30 ms, audio 150 ms, video 400 ms; data 1 s); 8 samples and 16 frames of each medium may wait.
    pub const fn new(scheme: Scheme) -> Self {
        let age_limits = [
            Duration::from_millis(30),
            Duration::from_millis(150),
            Duration::from_millis(400),
            Duration::from_millis(1_000),
        ];
        Self { scheme, datagram: None, mtu: Bytes::new(1472), age_limits, sample_limit: 8, frame_limit: 16 }
    }

    /// Constant size of every datagram of the haptic flow (the UDP payload): zeros fill it, and fragments shrink when
    /// headers leave less room. Default: none. A datagram whose samples alone are longer is sent longer. Network-aware
    /// packetisation and visual-haptic chunks change sizes by nature and ignore it.
    pub const fn datagram(mut self, size: Bytes) -> Self {
        self.datagram = Some(size);
        self
    }

    /// The UDP payload of an IPv4 packet of this length.
    pub const fn datagram_of_ipv4(packet: Bytes) -> Bytes {
        packet.saturating_sub(Bytes::new(taut_core::IPV4_HEADER + taut_core::UDP_HEADER))
    }

    /// The longest datagram (the UDP payload), from 64 B. Default 1472 B: Ethernet's 1500 without IPv4 and UDP headers.
    pub const fn mtu(mut self, mtu: Bytes) -> Self {
        self.mtu = mtu;
        self
    }

    /// The age beyond which a sample or frame of this medium is not worth sending.
    pub const fn age_limit(mut self, medium: Medium, limit: Duration) -> Self {
        self.age_limits[medium as usize] = limit;
        self
    }

    /// How many haptic samples may wait, from 1. Default 8; network-aware packetisation needs as many as its largest k.
    pub const fn sample_limit(mut self, limit: usize) -> Self {
        self.sample_limit = limit;
        self
    }

    /// How many frames of each medium may wait, from 1. Default 16.
    pub const fn frame_limit(mut self, limit: usize) -> Self {
        self.frame_limit = limit;
        self
    }

    fn check(&self) -> Result<(), MuxConfigError> {
        self.scheme.check().map_err(|error| match error {
            SchemeError::Chunk => MuxConfigError::Chunk,
            SchemeError::Trend => MuxConfigError::Trend,
        })?;
        if self.sample_limit < self.scheme.samples() || self.frame_limit == 0 {
            return Err(MuxConfigError::Limit);
        }
        if self.mtu < Self::MTU_MIN || self.mtu > Bytes::new(u16::MAX as u64) {
            return Err(MuxConfigError::Mtu(self.mtu));
        }
        match self.datagram {
            Some(datagram) if datagram > self.mtu => {
                Err(MuxConfigError::Datagram { datagram, mtu: self.mtu })
            }
            _ => Ok(()),
        }
    }
}

impl Multiplexer {
    /// An empty multiplexer.
    ///
    /// # Errors
    /// See [`MuxConfigError`].
    pub fn new(config: MuxConfig) -> Result<Self, MuxConfigError> {
        config.check()?;
        let lanes = Lanes {
            haptic: SampleQueue::new(config.sample_limit),
            frames: [(); FRAMED.len()].map(|()| FrameQueue::new(config.frame_limit)),
            events: VecDeque::new(),
            report: None,
            packet_number: FIRST_PACKET,
        };
        let MuxConfig { scheme, datagram, mtu, age_limits, .. } = config;
        Ok(Self { lanes, packer: Packer::new(scheme), datagram, mtu, age_limits, fresh_until: Time::MAX })
    }

    /// A haptic sample or a frame was made. `payload`: its first bytes; zeros follow up to `sample.size`, so that a
    /// simulation may give none. `significant`: false for a haptic sample that the sampler withholds; it is a tick of the
    /// clock nevertheless. Of no meaning for frames.
    ///
    /// A haptic sample beyond [`MAX_PAYLOAD`], a frame beyond 4 GiB or a payload longer than its sample is dropped as
    /// malformed.
    pub fn handle_sample(&mut self, now: Time, sample: Sample, payload: &[u8], significant: bool) {
        let longest = if sample.medium == Medium::Haptic { MAX_PAYLOAD as u64 } else { u64::from(u32::MAX) };
        if sample.size.get() > longest || payload.len() as u64 > sample.size.get() {
            return self.lanes.events.push_back(NodeEvent::Dropped(sample, DropCause::Malformed));
        }
        let limit = self.age_limits[sample.medium as usize];
        self.fresh_until = self.fresh_until.min(sample.created + limit);
        let superseded = match sample.medium {
            Medium::Haptic => {
                self.packer.iter_mut().for_each(|packer| packer.tick(now, significant));
                if significant {
                    self.lanes.haptic.push(sample, payload)
                } else {
                    self.lanes.events.push_back(NodeEvent::Withheld(sample));
                    None
                }
            }
            framed => self.lanes.frames[index_of(framed)].push(sample, payload),
        };
        self.lanes.events.extend(superseded.map(|old| NodeEvent::Dropped(old, DropCause::Superseded)));
    }

    /// The deadline has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.packer.iter_mut().for_each(|packer| packer.time_out(now));
        self.drop_old(now);
    }

    /// The receiver says how long a packet took; only changes matter, so a constant clock offset does no harm.
    pub fn handle_delay(&mut self, _now: Time, delay: Duration) {
        if let Some(k) = self.packer.as_mut().and_then(|packer| packer.delay(delay.as_nanos() as i64)) {
            self.lanes.events.push_back(NodeEvent::Gauge { name: "samples_per_packet", value: f64::from(k) });
        }
    }

    /// The next datagram carries this back to the peer. A newer report replaces an older one.
    pub fn send_report(&mut self, report: Report) {
        self.lanes.report = Some(report);
    }

    /// The next datagram; its bytes are appended to `buffer`, which the caller has cleared.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<MuxTransmit> {
        self.drop_old(now);
        let Some(packer) = &mut self.packer else {
            let order = self.lanes.separate(self.datagram, self.mtu)?;
            return self.lanes.pack(now, &order, buffer).map(|packed| packed.0);
        };
        let order = packer.next(&self.lanes.waiting())?;
        let constant = self.datagram.filter(|_| order.constant);
        let asked = Order {
            flow: Medium::Haptic,
            samples: order.samples,
            media: order.media,
            fragments: order.parts,
            only: None,
            longest: constant.unwrap_or(self.mtu),
            shortest: constant.unwrap_or(Bytes::ZERO),
        };
        let (transmit, taken) = self.lanes.pack(now, &asked, buffer)?;
        packer.settle(&order, taken, self.lanes.waiting().media.is_some());
        Some(transmit)
    }

    /// What was withheld or dropped here, and how k moves.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.lanes.events.pop_front()
    }

    /// When `handle_timeout` has something to do. Frames that grow too old have no deadline: they are dropped at the next
    /// call.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.packer.as_ref()?.poll_timeout(&self.lanes.waiting())
    }

    /// Looks only when something may have become too old.
    fn drop_old(&mut self, now: Time) {
        if now > self.fresh_until {
            self.fresh_until = self.lanes.drop_old(now, &self.age_limits);
        }
    }
}
