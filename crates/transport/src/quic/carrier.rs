//! Messages into QUIC's streams and datagrams, and out of them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use noq_proto::PathId as QuicPath;
use taut_core::{
    Bitrate, DropCause, Event, Message, PathId, Priority, Reliability, SendError, StreamId, Time,
};

use super::congestion::{Bucket, Congestion};
use super::copies::Copies;
use super::frame::{FrameError, MAX_HEADER, Reassembler, emit_datagram_header, emit_header, parse_datagram};
use super::library::Connection;
use super::lines::Lines;
use super::{LANES, QuicConfig};
use crate::message_queue::MessageQueue;

/// What is urgent: neither rate nor queue holds it back.
const EMERGENCY: Priority = Priority(0);
/// Bytes of a sample's number, by which its copies are known where there are several paths.
pub(super) const NUMBER: usize = 8;
/// How much of a reliable message is given to QUIC at once where a rate is kept: after each piece, samples may go.
const PIECE: usize = 4_000;

/// How far a handshake is, and so what may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client's first flight. A command must not be done twice, so nothing urgent and nothing reliable goes.
    Early,
    /// The server's answer to it, before the client has proven that it is there: nothing that has to arrive.
    Answering,
    /// All.
    Open,
}

/// The messages of one conversation.
#[derive(Debug)]
pub(super) struct Carrier<C: Connection> {
    /// Unreliable messages that wait to be given to QUIC.
    samples: MessageQueue,
    /// Reliable ones.
    reliable: Lines,
    /// Where there are several paths.
    pub(super) copies: Option<Copies>,
    lanes: BTreeMap<u16, Lane<C::Stream>>,
    incoming: BTreeMap<C::Stream, Reassembler>,
    max_message: usize,
    /// Where messages are held to a rate.
    bucket: Option<Bucket>,
    /// When the bucket has something for what waits.
    wake: Option<Time>,
    /// Of what was given to QUIC before the handshake was complete: it may turn out to be lost.
    early: Vec<u64>,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) sent_early: u64,
    pub(super) superseded: u64,
    pub(super) too_late: u64,
    pub(super) unsendable: u64,
    pub(super) abandoned: u64,
    pub(super) received: u64,
    pub(super) received_early: u64,
    pub(super) duplicates: u64,
}

/// A QUIC stream that we send on.
#[derive(Debug)]
struct Lane<S> {
    stream: S,
    priority: Priority,
    /// The message at work, or the last one.
    tag: u64,
    /// What QUIC has not taken yet of the message at work, its header included: the two go in one packet.
    rest: Bytes,
    /// QUIC took nothing more: its buffer, or the peer's, is full.
    blocked: bool,
}

impl<C: Connection> Carrier<C> {
    pub(super) fn new(config: &QuicConfig, multipath: bool) -> Self {
        // The longest message fits in any case.
        let reliable = config.send_buffer.max(config.max_message + taut_core::Bytes::new(1_000));
        let longest = config.max_datagram.get() + MessageQueue::COST;
        let samples = taut_core::Bytes::new(longest.saturating_mul(config.queue as u64));
        Self {
            samples: MessageQueue::new(samples, config.queue),
            reliable: Lines::new(reliable),
            copies: multipath.then(|| Copies::new(config.path_use, config.emergency)),
            lanes: BTreeMap::new(),
            incoming: BTreeMap::new(),
            max_message: config.max_message.get() as usize,
            bucket: matches!(config.congestion, Congestion::Paced(_)).then(Bucket::default),
            wake: None,
            early: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn offer(&mut self, message: Message, events: &mut VecDeque<Event>) -> Result<(), SendError> {
        let counts = &mut self.counts;
        match message.reliability {
            Reliability::Reliable => self.reliable.push(message)?,
            Reliability::Unreliable => self.samples.push(message, |gone| {
                counts.superseded += 1;
                events.push_back(Event::Dropped { tag: gone.tag, cause: DropCause::Superseded });
            })?,
        }
        counts.offered += 1;
        Ok(())
    }

    /// Does one as urgent as samples wait that no newer one will replace? What QUIC took waits in its own buffer, of which it does not tell.
    pub(super) fn has_irreplaceable(&self) -> bool {
        self.reliable.urgencies().any(|(_, priority)| priority.is_sample_or_above())
    }

    /// What messages are held to.
    pub(super) fn rate(&self, quic: &C) -> Option<Bitrate> {
        self.bucket.and_then(|_| quic.allowance().1)
    }

    /// When there will be something to hand over that may not go now.
    pub(super) fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// Gives QUIC what it can send now. Samples one at a time: what QUIC cannot send at once it would keep, and let
    /// grow old, in a queue of its own where the newest does not win. `open` are the paths that a copy may take.
    pub(super) fn hand_over(
        &mut self,
        now: Time,
        stage: Stage,
        quic: &mut C,
        open: &[QuicPath],
        events: &mut VecDeque<Event>,
    ) {
        self.wake = None;
        self.lanes.values_mut().for_each(|lane| lane.blocked = false);
        self.hurry(quic);
        let early = stage == Stage::Early;
        if let (Some(rate), Some(bucket)) = (self.rate(quic), &mut self.bucket) {
            bucket.set_rate(now, rate);
        }
        let (mut free, waits_for_copies) = match &mut self.copies {
            Some(copies) => copies.go_on(quic, open),
            None => (!quic.holds_sample(), false),
        };
        loop {
            let ready = self.bucket.is_none_or(|bucket| bucket.ready_at() <= now);
            let sample = |priority| match early {
                true => priority != EMERGENCY && free && ready,
                false if priority == EMERGENCY => free || !waits_for_copies,
                false => free && ready,
            };
            let may_go = |priority| stage == Stage::Open && (ready || priority == EMERGENCY);
            let sample_waits = self.samples.urgency(|message| sample(message.priority));
            if let Some(lane) = most_urgent(&mut self.lanes).filter(|lane| {
                may_go(lane.priority) && sample_waits.is_none_or(|other| lane.priority <= other)
            }) {
                let piece = if self.bucket.is_some() { PIECE } else { usize::MAX };
                let written = lane.write(quic, piece);
                charge(&mut self.bucket, now, written);
                continue;
            }
            let lanes = &self.lanes;
            let idle = |stream| lanes.get(&lane_of(stream)).is_none_or(|lane| lane.rest.is_empty());
            let first = self.reliable.first(|stream, priority| may_go(priority) && idle(stream));
            // Of equally urgent ones the reliable goes first: in the packet there is room for a sample beside it.
            let first = first.filter(|(priority, _)| sample_waits.is_none_or(|other| *priority <= other));
            let message = match first {
                Some((priority, stream)) => self.reliable.pop(stream).map(|it| Message { priority, ..it }),
                None => self.samples.pop_if(|message| sample(message.priority)),
            };
            let Some(message) = message else { break };
            if message.is_late(now) {
                self.counts.too_late += 1;
                events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::TooLate });
            } else if first.is_some() {
                self.write(quic, message, events);
            } else {
                charge(&mut self.bucket, now, message.data.len());
                free = false;
                self.send_sample(quic, message, early, open, events);
            }
        }
        let waits = !self.samples.is_empty()
            || !self.reliable.is_empty()
            || self.lanes.values().any(|lane| !lane.rest.is_empty());
        let ready_at = self.bucket.filter(|_| waits).map(|bucket| bucket.ready_at());
        self.wake = ready_at.filter(|at| *at > now);
    }

    /// What was begun goes as urgently as what waits for its lane.
    fn hurry(&mut self, quic: &mut C) {
        for (stream, priority) in self.reliable.urgencies() {
            let lane = self.lanes.get_mut(&lane_of(stream));
            if let Some(lane) = lane.filter(|lane| !lane.rest.is_empty() && priority < lane.priority) {
                lane.prioritise(quic, priority);
            }
        }
    }

    fn send_sample(
        &mut self,
        quic: &mut C,
        message: Message,
        early: bool,
        open: &[QuicPath],
        events: &mut VecDeque<Event>,
    ) {
        let mut frame = Vec::with_capacity(NUMBER + MAX_HEADER + message.data.len());
        if let Some(copies) = &mut self.copies {
            frame.extend_from_slice(&copies.next_number().to_be_bytes());
        }
        emit_datagram_header(message.stream, &mut frame);
        frame.extend_from_slice(&message.data);
        let sent = match &mut self.copies {
            Some(copies) => copies.send(quic, frame.into(), message.priority, open),
            None => quic.send_sample(frame.into()),
        };
        if let Err(cause) = sent {
            self.counts.unsendable += 1;
            return events.push_back(Event::Dropped { tag: message.tag, cause });
        }
        self.counts.sent += 1;
        if early {
            self.counts.sent_early += 1;
            self.early.push(message.tag);
        }
    }

    /// Begins to write a message into its lane, which is idle.
    fn write(&mut self, quic: &mut C, message: Message, events: &mut VecDeque<Event>) {
        let number = lane_of(message.stream);
        if !self.lanes.contains_key(&number) {
            let Some(stream) = quic.open_stream() else {
                self.counts.unsendable += 1;
                let cause = DropCause::Abandoned;
                return events.push_back(Event::Dropped { tag: message.tag, cause });
            };
            let (priority, rest) = (Priority(u8::MAX), Bytes::new());
            self.lanes.insert(number, Lane { stream, priority, tag: message.tag, rest, blocked: false });
        }
        let lane = self.lanes.get_mut(&number).expect("it was inserted if missing");
        if lane.priority != message.priority {
            lane.prioritise(quic, message.priority);
        }
        let mut frame = Vec::with_capacity(MAX_HEADER + message.data.len());
        emit_header(message.stream, message.data.len(), &mut frame);
        frame.extend_from_slice(&message.data);
        (lane.tag, lane.rest) = (message.tag, Bytes::from(frame));
        self.counts.sent += 1;
        self.copies.iter_mut().for_each(|copies| copies.sent += 1);
    }

    /// Tells which samples went in vain before the handshake was complete.
    pub(super) fn settle_early(&mut self, quic: &mut C, events: &mut VecDeque<Event>) {
        let mut lost = std::mem::take(&mut self.early);
        if quic.took_early() {
            return;
        }
        if quic.holds_sample() {
            lost.pop(); // It did not go yet.
        }
        self.early = lost;
        self.lose_early(events);
    }

    /// The attempt to connect that they went in was ended.
    pub(super) fn lose_early(&mut self, events: &mut VecDeque<Event>) {
        let lost = std::mem::take(&mut self.early);
        self.counts.abandoned += lost.len() as u64;
        events.extend(lost.into_iter().map(|tag| Event::Dropped { tag, cause: DropCause::Abandoned }));
    }

    /// Takes samples that arrived.
    pub(super) fn receive_datagrams(
        &mut self,
        quic: &mut C,
        path: PathId,
        events: &mut VecDeque<Event>,
    ) -> Result<(), FrameError> {
        while let Some(frame) = quic.receive_sample() {
            let rest = match &mut self.copies {
                None => &frame[..],
                Some(copies) => {
                    let (number, rest) = frame.split_first_chunk::<NUMBER>().ok_or(FrameError::Truncated)?;
                    if !copies.is_first(u64::from_be_bytes(*number)) {
                        self.counts.duplicates += 1;
                        events.push_back(Event::Refused(DropCause::Duplicate));
                        continue;
                    }
                    rest
                }
            };
            let (stream, data) = parse_datagram(rest)?;
            self.counts.received += 1;
            self.counts.received_early += u64::from(quic.is_handshaking());
            events.push_back(Event::Received { data: data.to_vec(), path, stream });
        }
        Ok(())
    }

    /// Takes what arrived on new streams, and on `readable`.
    pub(super) fn receive_streams(
        &mut self,
        quic: &mut C,
        readable: Option<C::Stream>,
        path: PathId,
        events: &mut VecDeque<Event>,
    ) -> Result<(), FrameError> {
        while let Some(stream) = quic.accept_stream() {
            self.incoming.insert(stream, Reassembler::new(self.max_message));
            self.receive_stream(quic, stream, path, events)?;
        }
        readable.map_or(Ok(()), |stream| self.receive_stream(quic, stream, path, events))
    }

    fn receive_stream(
        &mut self,
        quic: &mut C,
        stream: C::Stream,
        path: PathId,
        events: &mut VecDeque<Event>,
    ) -> Result<(), FrameError> {
        let Some(reassembler) = self.incoming.get_mut(&stream) else { return Ok(()) };
        let counts = &mut self.counts;
        let ended = quic.read(stream, |bytes| {
            reassembler.push(bytes);
            while let Some((stream, data)) = reassembler.next_message()? {
                counts.received += 1;
                events.push_back(Event::Received { data, path, stream });
            }
            Ok(())
        })?;
        if ended {
            self.incoming.remove(&stream);
        }
        Ok(())
    }

    /// Everything that waits is dropped. Of a message that QUIC took whole it does not tell whether it arrived.
    pub(super) fn abandon(&mut self, events: &mut VecDeque<Event>) {
        let waiting = self.reliable.take_all().chain(self.samples.take_all());
        for message in waiting {
            self.counts.abandoned += 1;
            events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::Abandoned });
        }
        self.copies.iter_mut().for_each(Copies::abandon);
        let begun = std::mem::take(&mut self.lanes).into_values().filter(|lane| !lane.rest.is_empty());
        events.extend(begun.map(|lane| Event::Dropped { tag: lane.tag, cause: DropCause::Cut }));
        self.incoming.clear();
        self.wake = None;
    }
}

impl<S: Copy> Lane<S> {
    fn prioritise<C: Connection<Stream = S>>(&mut self, quic: &mut C, priority: Priority) {
        self.priority = priority;
        quic.prioritise(self.stream, -i32::from(priority.0));
    }

    /// Gives QUIC up to `limit` bytes more; says how many it took.
    fn write<C: Connection<Stream = S>>(&mut self, quic: &mut C, limit: usize) -> usize {
        let length = self.rest.len().min(limit);
        let taken = quic.write(self.stream, self.rest.slice(..length));
        let _ = self.rest.split_to(taken);
        self.blocked = taken < length;
        taken
    }
}

/// Logical streams share QUIC's when there are more of them.
fn lane_of(stream: StreamId) -> u16 {
    stream.0 % LANES
}

fn most_urgent<S>(lanes: &mut BTreeMap<u16, Lane<S>>) -> Option<&mut Lane<S>> {
    lanes.values_mut().filter(|lane| !lane.rest.is_empty() && !lane.blocked).min_by_key(|lane| lane.priority)
}

fn charge(bucket: &mut Option<Bucket>, now: Time, bytes: usize) {
    if let Some(bucket) = bucket {
        bucket.take(now, bytes);
    }
}
