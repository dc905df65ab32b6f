//! The frame gate: before a queue that is too small, it drops whole video frames instead of letting the queue drop packets.
//!
//! A frame is many packets, and the loss of any one makes it useless; a queue that drops blindly loses far more frames than
//! packets and delays the rest. The gate stands before the queue and admits what fits. A frame that was begun is always
//! finished. Source: Yuan, *Real-Time Synchronization of Multimedia Streams for Teleoperation*, TU Dresden, 2024.
//!
//! [`Gate`] is the data path, a pure function of integers that the XDP program of `taut-xdp` repeats step by step and is
//! tested against packet by packet. [`Controller`] is the control loop; it reads a queue and turns the [`Knobs`] of either.
//! [`FrameGate`] is both as an element of a [`Chain`](crate::Chain), and reads the next bottleneck behind it.
//!
//! # What a frame is
//! Packets of one stream ([`StreamKey`]) with one RTP timestamp, up to the one with the marker. The first of them that comes
//! decides; the gate remembers the last [`Stream::FRAMES`] frames of a stream with their verdicts, for packets that are overtaken.
//! Older or newer does not matter: B-frames come in decoding order, with timestamps older than the one before, and a sender
//! that begins anew counts from anywhere. A packet that comes later than that counts as a frame of its own.
//!
//! # The source's gate: `step`, `dyna`, `aimd`
//! For every packet of video ([`Filter`]):
//! 1. While frames are discarded: one that begins is dropped, all of it; when `byte_count + size ≤ rate_limit` for the last
//!    packet of a dropped frame, stop discarding.
//! 2. Otherwise one that begins passes, and adds its packets' sizes to `byte_count`; when `byte_count + size > rate_limit` for its
//!    last packet, discard from the next one on.
//!
//! In order, this is what the source says of packets, one for one. Where packets were overtaken its rule splits frames, for it
//! knows them by their markers only.
//!
//! The control loop sets `byte_count` to 0 every reset interval, and every update interval sets `rate_limit = k · B_max`
//! per reset interval, B_max the largest bandwidth that was measured within `bandwidth_over`. Before the queue's counter of drops
//! has risen for the first time nothing is limited: what is measured then is the source's bandwidth, not the channel's.
//! `k`, in millionths, begins at 1, rises by 0.01 up to 1.05 in an interval without drops, and falls by the [`Policy`]
//! otherwise. The source's Algorithm 2 finds B_max once, in the beginning ([`GateConfig::bandwidth_once`]), and has a threshold for
//! drops ([`GateConfig::loss_threshold`]); it gives no interval. Several streams share one limit, which is the channel's; whether a frame is being discarded, each stream
//! (SSRC) knows for itself.
//!
//! # `deadline`
//! taut's own. It decides when a frame begins, not when the one before it ends, and asks: can all of it leave the queue in time? The gate keeps account of a *level*: what it admitted, less what left since at the
//! measured rate, down to 0, where the shaper behind the queue has rested and lets a burst go at once. A frame begins when
//! the level is `before` or lower, and with the frame `with` or lower.
//!
//! - **How long a frame will be** nobody says at its first packet. The gate remembers for each stream and kind of frame
//!   ([`FrameKind`](taut_wire::rtp::FrameKind)) the length of the largest recent one, which fades by an eighth with every
//!   further frame of that kind. A frame that turns out longer is finished all the same, and counted in full, so that the
//!   next one waits. Frames that are dropped teach the length too: all packets pass by here.
//! - **Key frames are spared**: they may wait until their own, longer deadline. Frames that nothing refers to, and deltas
//!   whose key frame was dropped or has a hole in its sequence numbers, have half the room: they go first. A frame of H.264 may
//!   begin with packets that tell nothing (a delimiter, supplemental or picture parameters by themselves): these pass where a
//!   key frame would, and the frame is judged by its first slice.
//! - **Streams take turns.** A frame that is refused because of what waits leaves a claim; a frame of another stream that had more
//!   of the link stands back for it once (start-time fair queueing, without the queue). Otherwise the first of two cameras in
//!   step would have the link for itself. Key frames do not stand back.
//! - **The shaper** is learned from the queue's counters: its rate from what left between readings at which something
//!   waited, its burst from what does not wait after a pause although more came than the rate explains.
//! - **How much may wait** is the least with which the link is not idle while frames are dropped: `before` rises when the
//!   level reached 0, and falls otherwise, the faster the longer ago that was. Only while the shaper has rested before the next frame comes is anything lost by
//!   dropping this one; so the frames that pass find little or nothing waiting, and as many pass as the link carries.
//! - **Queues differ.** A drop lowers `before` by an eighth. A queue that drops while it is short (CoDel, CAKE) is kept
//!   shorter for a minute, and key frames longer than what it dropped from are not sent into it, but for a try now and then.
//! - **Every update sets the level** to what really waits, unless it agrees with that to a packet, so that errors of the rate do not add
//!   up. A rate that fell by a quarter is tried again after a while.
//! - Until the queue first drops, or makes frames wait for [`GateConfig::wait`], nothing is limited; nor later while less
//!   is offered than the link carries: what a queue drops then is not more than a gate would have to. A sender that adapts
//!   is to feel the queue: only a sixteenth too much makes the gate act.
//!
//! ```
//! use taut_core::{Bitrate, Bytes};
//! use taut_link::frame_gate::{GateConfig, Filter, FrameGate, Policy};
//! use taut_link::{Bottleneck, Chain, DropTail};
//! let gate = FrameGate::new(vec![Filter::port(5004)], GateConfig::new(Policy::Aimd3));
//! let queue = DropTail::default().limit_bytes(Bytes::new(60_000));
//! let chain = Chain::new(vec![gate.into(), Bottleneck::new(Bitrate::from_bps(1_000_000), queue).into()]);
//! ```

mod control;
mod gate;
mod packet;
mod patience;
mod policy;
mod shaper;
mod stream;
mod turns;

use taut_core::{DropCause, Duration, LinkEvent, Packet, PacketMeta, Time};

pub use control::{Controller, GateConfig, QueueReading};
pub use gate::{Account, Gate, Knobs, Room, Settings, Verdict};
pub use packet::{Filter, VideoPacket};
pub use policy::{Policy, UnknownPolicy};
pub use stream::{Stream, StreamKey};

/// How long a stream may be silent before it is forgotten: it makes room for another one.
pub const FORGET_AFTER: Duration = Duration::from_secs(10);

/// Gate and control loop in a chain. Its queue is that of the next [`Bottleneck`](crate::Bottleneck) behind it, of which it
/// reads what became of video packets; without one it never limits.
#[derive(Clone, Debug)]
pub struct FrameGate {
    filters: Vec<Filter>,
    gate: Gate,
    controller: Controller,
    idle: IdleStreams,
}

impl FrameGate {
    /// A gate for the packets that any of `filters` takes.
    pub fn new(filters: Vec<Filter>, config: GateConfig) -> Self {
        Self {
            filters,
            gate: Gate::new(),
            controller: Controller::new(config, Time::ZERO),
            idle: IdleStreams::default(),
        }
    }

    /// What it remembers and counts.
    pub const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Its control loop.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// When the control loop wants to read the queue.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.controller.poll_timeout()
    }

    /// The control loop's turn, as of [`FrameGate::due`].
    pub(crate) fn tick(&mut self, reading: QueueReading) {
        let now = self.due();
        self.controller.handle_timeout(now, || reading, &mut self.gate);
        let streams = self.gate.streams().iter().map(|(key, stream)| (*key, stream));
        for key in self.idle.forgotten(now, streams) {
            self.gate.forget(key);
        }
    }

    /// Drops the packet?
    #[inline]
    pub(crate) fn takes(&mut self, at: Time, packet: &Packet, events: &mut Vec<LinkEvent>) -> bool {
        let taken =
            |(place, filter): (u8, &Filter)| Some(VideoPacket { filter: place, ..filter.video(packet)? });
        let Some(video) = (0..).zip(&self.filters).find_map(taken) else { return false };
        let dropped = self.gate.handle_packet(at.as_nanos(), &video) == Verdict::Drop;
        if dropped {
            events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::Gated });
        }
        dropped
    }
}

/// Finds streams that have been silent for [`FORGET_AFTER`], give or take as much.
#[derive(Clone, Debug, Default)]
pub struct IdleStreams {
    next: Time,
    seen: Vec<(StreamKey, u64)>,
}

impl IdleStreams {
    /// The streams of which nothing came since the last look, when it is time for one.
    pub fn forgotten<'a>(
        &mut self,
        now: Time,
        streams: impl IntoIterator<Item = (StreamKey, &'a Stream)>,
    ) -> Vec<StreamKey> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + FORGET_AFTER;
        let counts = streams.into_iter().map(|(key, s)| (key, s.passed_packets + s.dropped_packets));
        let counts: Vec<(StreamKey, u64)> = counts.collect();
        let before = std::mem::replace(&mut self.seen, counts);
        self.seen.iter().filter(|count| before.contains(count)).map(|(key, _)| *key).collect()
    }
}

/// What a bottleneck tells a gate before it.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    filters: Vec<Filter>,
    reading: QueueReading,
}

impl Watch {
    pub(crate) fn of(gate: &FrameGate) -> Self {
        Self { filters: gate.filters.clone(), reading: QueueReading::default() }
    }

    /// Another gate of the same filters has the same reading.
    pub(crate) fn is_of(&self, gate: &FrameGate) -> bool {
        self.filters == gate.filters
    }

    pub(crate) const fn reading(&self) -> QueueReading {
        self.reading
    }

    fn watches(&self, meta: &PacketMeta) -> bool {
        self.filters.iter().any(|filter| filter.addresses(meta))
    }

    pub(crate) fn entered(&mut self, meta: &PacketMeta) {
        if self.watches(meta) {
            self.reading.backlog += meta.size.get();
        }
    }

    pub(crate) fn left(&mut self, meta: &PacketMeta) {
        if self.watches(meta) {
            self.reading.backlog -= meta.size.get();
            self.reading.sent += meta.size.get();
        }
    }

    /// What the queue said at one call.
    pub(crate) fn heard(&mut self, events: &[LinkEvent]) {
        for event in events {
            if let LinkEvent::Dropped { meta, .. } = event
                && self.watches(meta)
            {
                self.reading.backlog -= meta.size.get();
                self.reading.drops += 1;
            }
        }
    }
}
