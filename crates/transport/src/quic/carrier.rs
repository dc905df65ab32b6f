//! Messages into QUIC's streams and datagrams, and out of them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use quinn_proto::{Connection, Datagram, Dir, ReadError, SendDatagramError, StreamId as QuicStream};
use taut_core::{
    Bitrate, DropCause, Event, Message, PathId, Priority, Reliability, SendError, StreamId, Time,
};

use super::congestion::{Bucket, Congestion};
use super::frame::{FrameError, Reassembler, emit_datagram_header, emit_header, parse_datagram};
use super::outgoing::Outgoing;
use super::{DATAGRAM_BUFFER, LANES, QuicConfig};

/// What is urgent: neither rate nor queue holds it back.
const EMERGENCY: Priority = Priority(0);
/// How much of a reliable message is given to QUIC at once where a rate is kept: after each piece, samples may go.
const PIECE: usize = 4_000;
/// What quinn says is free in its buffer of datagrams while none is in it.
const IDLE_SPACE: usize = DATAGRAM_BUFFER - size_of::<Datagram>();

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
pub(super) struct Carrier {
    outgoing: Outgoing,
    lanes: BTreeMap<u16, Lane>,
    incoming: BTreeMap<QuicStream, Reassembler>,
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
    pub(super) unsendable: u64,
    pub(super) abandoned: u64,
    pub(super) received: u64,
    pub(super) received_early: u64,
}

/// A QUIC stream that we send on.
#[derive(Debug)]
struct Lane {
    stream: QuicStream,
    priority: Priority,
    /// What QUIC has not taken yet of the message at work, its header included: the two go in one packet.
    rest: Bytes,
    /// QUIC took nothing more: its buffer, or the peer's, is full.
    blocked: bool,
}

impl Carrier {
    pub(super) fn new(config: &QuicConfig) -> Self {
        // The longest message fits in any case.
        let reliable = config.send_buffer.max(config.max_message + taut_core::Bytes::new(1_000));
        Self {
            outgoing: Outgoing::new(config.queue, reliable),
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
        self.outgoing.push(message, events)?;
        self.counts.offered += 1;
        Ok(())
    }

    pub(super) fn superseded(&self) -> u64 {
        self.outgoing.superseded
    }

    pub(super) fn too_late(&self) -> u64 {
        self.outgoing.too_late
    }

    /// When there will be something to hand over that may not go now.
    pub(super) fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// Gives QUIC what it can send now. Samples one at a time: what QUIC cannot send at once it would keep, and let
    /// grow old, in a queue of its own where the newest does not win.
    pub(super) fn hand_over(
        &mut self,
        now: Time,
        stage: Stage,
        quic: &mut Connection,
        events: &mut VecDeque<Event>,
    ) {
        self.wake = None;
        self.lanes.values_mut().for_each(|lane| lane.blocked = false);
        let early = stage == Stage::Early;
        let rate = Bitrate::from_bps(quic.congestion_state().metrics().pacing_rate.unwrap_or(u64::MAX));
        let mut free = quic.datagrams().send_buffer_space() >= IDLE_SPACE;
        loop {
            let ready = self.bucket.is_none_or(|bucket| bucket.ready_at(rate) <= now);
            let sample = |priority| match early {
                true => priority != EMERGENCY && free && ready,
                false => priority == EMERGENCY || (free && ready),
            };
            let may_go = |priority| stage == Stage::Open && (ready || priority == EMERGENCY);
            let sample_waits = self.outgoing.urgent_sample(sample);
            if let Some(lane) = most_urgent(&mut self.lanes).filter(|lane| {
                may_go(lane.priority) && sample_waits.is_none_or(|other| lane.priority <= other)
            }) {
                let piece = if self.bucket.is_some() { PIECE } else { usize::MAX };
                let written = lane.write(quic, piece);
                charge(&mut self.bucket, now, rate, written);
                continue;
            }
            let lanes = &self.lanes;
            let idle = |stream| lanes.get(&lane_of(stream)).is_none_or(|lane| lane.rest.is_empty());
            let stream = |stream, priority| may_go(priority) && idle(stream);
            let Some(message) = self.outgoing.pop(now, sample, stream, events) else { break };
            match message.reliability {
                Reliability::Reliable => self.write(quic, message, events),
                Reliability::Unreliable => {
                    charge(&mut self.bucket, now, rate, message.data.len());
                    free = false;
                    self.send_sample(quic, message, early, events);
                }
            }
        }
        let waits = !self.outgoing.is_empty() || self.lanes.values().any(|lane| !lane.rest.is_empty());
        let ready_at = self.bucket.filter(|_| waits).map(|bucket| bucket.ready_at(rate));
        self.wake = ready_at.filter(|at| *at > now);
    }

    fn send_sample(
        &mut self,
        quic: &mut Connection,
        message: Message,
        early: bool,
        events: &mut VecDeque<Event>,
    ) {
        let mut frame = Vec::with_capacity(message.data.len() + super::frame::MAX_HEADER);
        emit_datagram_header(message.stream, &mut frame);
        frame.extend_from_slice(&message.data);
        let cause = match quic.datagrams().send(frame.into(), false) {
            Ok(()) => {
                self.counts.sent += 1;
                if early {
                    self.counts.sent_early += 1;
                    self.early.push(message.tag);
                }
                return;
            }
            Err(SendDatagramError::Blocked(_)) => DropCause::SendBufferFull,
            // The peer takes shorter ones than we do, or none.
            Err(_) => DropCause::Abandoned,
        };
        self.counts.unsendable += 1;
        events.push_back(Event::Dropped { tag: message.tag, cause });
    }

    /// Begins to write a message into its lane, which is idle.
    fn write(&mut self, quic: &mut Connection, message: Message, events: &mut VecDeque<Event>) {
        let number = lane_of(message.stream);
        if !self.lanes.contains_key(&number) {
            let Some(stream) = quic.streams().open(Dir::Uni) else {
                self.counts.unsendable += 1;
                let cause = DropCause::Abandoned;
                return events.push_back(Event::Dropped { tag: message.tag, cause });
            };
            let (rest, blocked) = (Bytes::new(), false);
            self.lanes.insert(number, Lane { stream, priority: Priority(u8::MAX), rest, blocked });
        }
        let lane = self.lanes.get_mut(&number).expect("it was inserted if missing");
        if lane.priority != message.priority {
            lane.priority = message.priority;
            let _ = quic.send_stream(lane.stream).set_priority(-i32::from(message.priority.0));
        }
        let mut frame = Vec::with_capacity(super::frame::MAX_HEADER + message.data.len());
        emit_header(message.stream, message.data.len(), &mut frame);
        frame.extend_from_slice(&message.data);
        lane.rest = Bytes::from(frame);
        self.counts.sent += 1;
    }

    /// Tells which samples went in vain before the handshake was complete.
    pub(super) fn settle_early(&mut self, quic: &mut Connection, events: &mut VecDeque<Event>) {
        let mut lost = std::mem::take(&mut self.early);
        if quic.accepted_0rtt() {
            return;
        }
        if quic.datagrams().send_buffer_space() < IDLE_SPACE {
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
        quic: &mut Connection,
        path: PathId,
        events: &mut VecDeque<Event>,
    ) -> Result<(), FrameError> {
        while let Some(datagram) = quic.datagrams().recv() {
            let (stream, data) = parse_datagram(&datagram)?;
            self.counts.received += 1;
            self.counts.received_early += u64::from(quic.is_handshaking());
            events.push_back(Event::Received { data: data.to_vec(), path, stream });
        }
        Ok(())
    }

    /// Takes what arrived on new streams, and on `readable`.
    pub(super) fn receive_streams(
        &mut self,
        quic: &mut Connection,
        readable: Option<QuicStream>,
        path: PathId,
        events: &mut VecDeque<Event>,
    ) -> Result<(), FrameError> {
        while let Some(stream) = quic.streams().accept(Dir::Uni) {
            self.incoming.insert(stream, Reassembler::new(self.max_message));
            self.receive_stream(quic, stream, path, events)?;
        }
        readable.map_or(Ok(()), |stream| self.receive_stream(quic, stream, path, events))
    }

    fn receive_stream(
        &mut self,
        quic: &mut Connection,
        stream: QuicStream,
        path: PathId,
        events: &mut VecDeque<Event>,
    ) -> Result<(), FrameError> {
        let Some(reassembler) = self.incoming.get_mut(&stream) else { return Ok(()) };
        let mut source = quic.recv_stream(stream);
        let Ok(mut chunks) = source.read(true) else { return Ok(()) };
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    reassembler.push(&chunk.bytes);
                    match take_messages(reassembler, path, events) {
                        Ok(count) => self.counts.received += count,
                        Err(error) => break Err(error),
                    }
                }
                Err(ReadError::Blocked) => break Ok(()),
                Ok(None) | Err(ReadError::Reset(_)) => {
                    self.incoming.remove(&stream);
                    break Ok(());
                }
            }
        };
        let _ = chunks.finalize();
        result
    }

    /// Everything that waits is dropped.
    pub(super) fn abandon(&mut self, events: &mut VecDeque<Event>) {
        self.counts.abandoned += self.outgoing.abandon(events);
        self.lanes.clear();
        self.incoming.clear();
        self.wake = None;
    }
}

impl Lane {
    /// Gives QUIC up to `limit` bytes more; says how many it took.
    fn write(&mut self, quic: &mut Connection, limit: usize) -> usize {
        let length = self.rest.len().min(limit);
        let mut piece = [self.rest.slice(..length)];
        let taken = quic.send_stream(self.stream).write_chunks(&mut piece).map_or(0, |done| done.bytes);
        let _ = self.rest.split_to(taken);
        self.blocked = taken < length;
        taken
    }
}

/// Logical streams share QUIC's when there are more of them.
fn lane_of(stream: StreamId) -> u16 {
    stream.0 % LANES
}

fn most_urgent(lanes: &mut BTreeMap<u16, Lane>) -> Option<&mut Lane> {
    lanes.values_mut().filter(|lane| !lane.rest.is_empty() && !lane.blocked).min_by_key(|lane| lane.priority)
}

fn charge(bucket: &mut Option<Bucket>, now: Time, rate: Bitrate, bytes: usize) {
    if let Some(bucket) = bucket {
        bucket.take(now, rate, bytes);
    }
}

fn take_messages(
    reassembler: &mut Reassembler,
    path: PathId,
    events: &mut VecDeque<Event>,
) -> Result<u64, FrameError> {
    let mut count = 0;
    while let Some((stream, data)) = reassembler.next_message()? {
        count += 1;
        events.push_back(Event::Received { data, path, stream });
    }
    Ok(count)
}
