//! Writes one datagram from what waits.

use std::collections::VecDeque;

use taut_core::{Bytes, Duration, Medium, NodeEvent, Sample, Time};
use taut_wire::media::{FragmentRepr, Header, MAX_FRAGMENTS, MAX_SAMPLES, Part, Report, SampleRepr};

use super::MuxTransmit;
use super::queues::{FrameQueue, SampleQueue};
use crate::packing::Waiting;

/// The media with frames, highest priority first. The index of a medium's queue.
pub(super) const FRAMED: [Medium; 3] = [Medium::Audio, Medium::Video, Medium::Data];

/// All that waits, and the numbering of what goes.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    pub(super) haptic: SampleQueue,
    pub(super) frames: [FrameQueue; 3],
    pub(super) events: VecDeque<NodeEvent>,
    pub(super) report: Option<Report>,
    pub(super) packet_number: u32,
}

/// What a scheme wants in the next datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Of which flow it is.
    pub(super) flow: Medium,
    /// At most so many samples.
    pub(super) samples: usize,
    /// At most so many bytes of frames.
    pub(super) media: Bytes,
    /// At most so many fragments.
    pub(super) fragments: usize,
    /// Frames of this medium only.
    pub(super) only: Option<Medium>,
    /// The longest datagram, for as long as fragments can be shortened.
    pub(super) longest: Bytes,
    /// The shortest datagram; zeros fill it.
    pub(super) shortest: Bytes,
}

/// Fragments that were chosen, at most [`MAX_FRAGMENTS`].
struct Plan {
    fragments: [FragmentRepr; MAX_FRAGMENTS],
    count: usize,
    bytes: u64,
    /// Of the bytes and of the fragments' headers.
    length: u64,
    /// Left for more of them.
    room: u64,
    oldest: Option<Time>,
}

impl Plan {
    fn new(room: u64) -> Self {
        let part = Part::Rest { offset: 1 };
        let nothing = FragmentRepr { medium: Medium::Audio, frame: 0, part, length: 0, last: false };
        Self { fragments: [nothing; MAX_FRAGMENTS], count: 0, bytes: 0, length: 0, room, oldest: None }
    }

    /// As much of the rest of a frame as fits. Says whether there may be room for more.
    fn add(&mut self, now: Time, order: &Order, (mut fragment, created): (FragmentRepr, Time)) -> bool {
        let budget = order.media.get() - self.bytes;
        if self.count == order.fragments.min(MAX_FRAGMENTS) || budget == 0 {
            return false;
        }
        let rest = fragment.length;
        fragment.length = rest.min(budget.min(self.room) as u32);
        let header = fragment.header_len(now) as u64;
        fragment.length = fragment.length.min(self.room.saturating_sub(header) as u32);
        fragment.last = fragment.length == rest;
        if header > self.room || (fragment.length == 0 && rest > 0) {
            return false;
        }
        self.room -= header + u64::from(fragment.length);
        self.length += header + u64::from(fragment.length);
        self.bytes += u64::from(fragment.length);
        self.fragments[self.count] = fragment;
        self.count += 1;
        self.oldest = Some(self.oldest.map_or(created, |oldest| oldest.min(created)));
        true
    }
}

impl Lanes {
    /// What waits.
    pub(super) fn waiting(&self) -> Waiting {
        let media = self.frames.iter().find_map(FrameQueue::front_remaining);
        Waiting { samples: self.haptic.len(), media }
    }

    /// What goes where nothing travels with anything else.
    pub(super) fn separate(&self, datagram: Option<Bytes>, mtu: Bytes) -> Option<Order> {
        let (longest, shortest) = (datagram.unwrap_or(mtu), datagram.unwrap_or(Bytes::ZERO));
        let sample = Order {
            flow: Medium::Haptic,
            samples: 1,
            media: Bytes::ZERO,
            fragments: 0,
            only: None,
            longest,
            shortest,
        };
        if self.haptic.len() > 0 {
            return Some(sample);
        }
        let medium = FRAMED.into_iter().zip(&self.frames).find(|(_, queue)| !queue.is_empty())?.0;
        let (media, longest, shortest, only) = (mtu, mtu, Bytes::ZERO, Some(medium));
        Some(Order { flow: medium, samples: 0, media, fragments: 1, only, longest, shortest })
    }

    /// Appends the datagram that `order` asks for to `out`. Also says how many bytes of frames are in it. `None` when there
    /// would be nothing in it.
    pub(super) fn pack(
        &mut self,
        now: Time,
        order: &Order,
        out: &mut Vec<u8>,
    ) -> Option<(MuxTransmit, Bytes)> {
        let start = out.len();
        let samples = order.samples.min(self.haptic.len()).min(MAX_SAMPLES);
        let mut header = Header {
            packet_number: self.packet_number,
            sent: now,
            report: self.report,
            samples: samples as u8,
            fragments: 0,
        };
        let fixed = header.buffer_len() + self.samples_len(now, samples);
        let room = (order.longest.get() as usize).saturating_sub(fixed);
        let plan = self.plan(now, order, room);
        if samples == 0 && plan.count == 0 {
            return None;
        }
        header.fragments = plan.count as u8;
        out.reserve((fixed + plan.length as usize).max(order.shortest.get() as usize));
        header.emit(out);
        self.packet_number = self.packet_number.wrapping_add(1);
        self.report = None;
        let oldest_sample = self.haptic.get(0).filter(|_| samples > 0).map(|slot| slot.sample.created);
        self.write_samples(now, samples, out);
        plan.fragments[..plan.count].iter().for_each(|fragment| fragment.emit(now, out));
        let mut zeros = 0;
        for fragment in &plan.fragments[..plan.count] {
            zeros = self.frames[index_of(fragment.medium)].take(fragment.length, zeros, out);
        }
        let length = (out.len() - start) as u64 + zeros;
        let padding = zeros + order.shortest.get().saturating_sub(length);
        let transmit = MuxTransmit {
            flow: order.flow,
            padding: padding as u32,
            created: oldest_sample.or(plan.oldest).unwrap_or(now),
            samples: header.samples,
            fragments: header.fragments,
        };
        Some((transmit, Bytes::new(plan.bytes)))
    }

    fn samples_len(&self, now: Time, samples: usize) -> usize {
        (0..samples)
            .filter_map(|index| self.haptic.get(index))
            .map(|slot| repr(&slot.sample, &slot.payload).buffer_len(now))
            .sum()
    }

    fn write_samples(&mut self, now: Time, samples: usize, out: &mut Vec<u8>) {
        for _ in 0..samples {
            if let Some(slot) = self.haptic.get(0) {
                repr(&slot.sample, &slot.payload).emit(now, out);
            }
            self.haptic.pop();
        }
    }

    /// Chooses fragments by priority and age, until the order, the room or the frames are exhausted.
    fn plan(&self, now: Time, order: &Order, room: usize) -> Plan {
        let mut plan = Plan::new(room as u64);
        for (queue, medium) in self.frames.iter().zip(&FRAMED) {
            let wanted = order.only.is_none_or(|only| only == *medium);
            if wanted && !(0..queue.len()).all(|index| plan.add(now, order, queue.rest(index))) {
                break;
            }
        }
        plan
    }

    /// Drops what is older than it may be, by medium; says until when nothing more will be.
    pub(super) fn drop_old(&mut self, now: Time, limits: &[Duration; 4]) -> Time {
        use taut_core::DropCause::TooLate;
        let limit = limits[Medium::Haptic as usize];
        while let Some(sample) = self.haptic.pop_older(now, limit) {
            self.events.push_back(NodeEvent::Dropped(sample, TooLate));
        }
        let mut fresh_until = self.haptic.oldest().map_or(Time::MAX, |created| created + limit);
        for (queue, medium) in self.frames.iter_mut().zip(FRAMED) {
            let limit = limits[medium as usize];
            while let Some(frame) = queue.pop_older(now, limit) {
                self.events.push_back(NodeEvent::Dropped(frame, TooLate));
            }
            fresh_until = queue.oldest().map_or(fresh_until, |created| fresh_until.min(created + limit));
        }
        fresh_until
    }
}

/// Which queue a medium with frames has.
pub(super) fn index_of(medium: Medium) -> usize {
    (medium as usize).saturating_sub(1)
}

fn repr<'a>(sample: &Sample, payload: &'a [u8]) -> SampleRepr<'a> {
    SampleRepr { sequence: sample.sequence as u32, created: sample.created, payload }
}
