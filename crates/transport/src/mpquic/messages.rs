//! Messages into the connection's streams and datagrams, and out of them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use noq_proto::{
    Connection, Datagram, Dir, PathId as QuicPath, PathStatus, ReadError, StreamId as QuicStream,
};
use taut_core::{DropCause, Event, Message, PathId, Priority, Reliability, SendError, StreamId, Time};

use super::config::{MpQuicConfig, PathUse};
use super::{DATAGRAM_BUFFER, LANES};
use crate::quic::frame::{
    FrameError, MAX_HEADER, Reassembler, emit_datagram_header, emit_header, parse_datagram,
};
use crate::quic::outgoing::Outgoing;
use crate::window::Window;

/// What noq says is free in its buffer of datagrams while none is in it.
const IDLE_SPACE: usize = DATAGRAM_BUFFER - size_of::<Datagram>();
/// Bytes of a sample's number, by which its copies are known.
pub(super) const NUMBER: usize = 8;

/// The messages of one conversation.
#[derive(Debug)]
pub(super) struct Messages {
    outgoing: Outgoing,
    path_use: PathUse,
    max_message: usize,
    next_number: u64,
    /// Copies that are to go over other paths than the one at work.
    copies: VecDeque<(QuicPath, Bytes)>,
    /// The path that the sample in noq's buffer is for.
    steered: Option<QuicPath>,
    /// The path on which the peer was heard last.
    heard: Option<QuicPath>,
    lanes: BTreeMap<u16, Lane>,
    incoming: BTreeMap<QuicStream, Reassembler>,
    seen: Window,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) copies: u64,
    pub(super) unsendable: u64,
    pub(super) abandoned: u64,
    pub(super) received: u64,
    pub(super) duplicates: u64,
}

/// A QUIC stream that we send on.
#[derive(Debug)]
struct Lane {
    stream: QuicStream,
    /// What QUIC has not taken yet of the message at work.
    rest: VecDeque<Bytes>,
}

impl Messages {
    pub(super) fn new(config: &MpQuicConfig) -> Self {
        let reliable = config.send_buffer.max(config.max_message + taut_core::Bytes::new(1_000));
        Self {
            outgoing: Outgoing::new(config.queue, reliable),
            path_use: config.path_use,
            max_message: config.max_message.get() as usize,
            next_number: 0,
            copies: VecDeque::new(),
            steered: None,
            heard: None,
            lanes: BTreeMap::new(),
            incoming: BTreeMap::new(),
            seen: Window::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn offer(&mut self, message: Message, events: &mut VecDeque<Event>) -> Result<(), SendError> {
        self.outgoing.push(message, events)?;
        self.counts.offered += 1;
        Ok(())
    }

    /// The peer was heard on this path.
    pub(super) fn hear(&mut self, path: Option<QuicPath>) {
        self.heard = path.or(self.heard);
    }

    /// Did it ever choose the path of a copy?
    pub(super) const fn steers(&self) -> bool {
        self.steered.is_some()
    }

    pub(super) fn superseded(&self) -> u64 {
        self.outgoing.superseded
    }

    pub(super) fn too_late(&self) -> u64 {
        self.outgoing.too_late
    }

    /// Is there a sample in noq's buffer that has not left?
    pub(super) fn holds_sample(quic: &mut Connection) -> bool {
        quic.datagrams().send_buffer_space() < IDLE_SPACE
    }

    /// Gives QUIC what it can send now. Samples one at a time, so that none grows old inside it; `open` are the paths that
    /// a copy may take.
    pub(super) fn hand_over(
        &mut self,
        now: Time,
        quic: &mut Connection,
        open: &[QuicPath],
        events: &mut VecDeque<Event>,
    ) {
        self.lanes.values_mut().for_each(|lane| lane.write(quic));
        if let Some((path, frame)) = self.copies.front().cloned().filter(|_| !Self::holds_sample(quic)) {
            self.copies.pop_front();
            self.send_copy(quic, path, frame, open);
        }
        loop {
            let free = self.copies.is_empty() && !Self::holds_sample(quic);
            let idle = |stream: StreamId| {
                self.lanes.get(&(stream.0 % LANES)).is_none_or(|lane| lane.rest.is_empty())
            };
            let message = self.outgoing.pop(now, |_| free, |stream, _| idle(stream), events);
            let Some(message) = message else { break };
            match message.reliability {
                Reliability::Reliable => self.write(quic, message, events),
                Reliability::Unreliable => self.send_sample(quic, message, open, events),
            }
        }
    }

    fn send_sample(
        &mut self,
        quic: &mut Connection,
        message: Message,
        open: &[QuicPath],
        events: &mut VecDeque<Event>,
    ) {
        let frame = emit_sample(self.next_number, message.stream, &message.data);
        let fits = quic.datagrams().max_size().is_some_and(|most| frame.len() <= most);
        if !fits {
            // The peer takes shorter ones than we do, or none.
            self.counts.unsendable += 1;
            let cause = DropCause::Abandoned;
            return events.push_back(Event::Dropped { tag: message.tag, cause });
        }
        self.next_number += 1;
        self.counts.sent += 1;
        let frame = Bytes::from(frame);
        match (self.path_use, open) {
            (PathUse::Duplicate, [_, _, ..]) => {
                // Acknowledgements leave where the last copy did: that is where the peer was heard last, and no path that died.
                let last = self.heard.filter(|heard| open.contains(heard)).unwrap_or(open[open.len() - 1]);
                let others = open.iter().filter(|path| **path != last);
                self.copies.extend(others.chain([&last]).map(|path| (*path, frame.clone())));
                if let Some((first, frame)) = self.copies.pop_front() {
                    self.send_copy(quic, first, frame, open);
                }
            }
            (PathUse::Duplicate, [only]) if self.steered.is_some_and(|steered| steered != *only) => {
                // The one that was available last is no more.
                self.send_copy(quic, *only, frame, open);
            }
            _ => {
                self.counts.copies += 1;
                let _ = quic.datagrams().send(frame, false);
            }
        }
    }

    /// noq sends over the paths that are available, and has no choice for each datagram (draft-ietf-quic-multipath section
    /// 3.3): so for the time of one copy its path is the only one that is.
    fn send_copy(&mut self, quic: &mut Connection, path: QuicPath, frame: Bytes, open: &[QuicPath]) {
        if !open.contains(&path) {
            return;
        }
        self.steer(quic, path, open);
        self.counts.copies += 1;
        let _ = quic.datagrams().send(frame, false);
    }

    fn steer(&mut self, quic: &mut Connection, path: QuicPath, open: &[QuicPath]) {
        self.steered = Some(path);
        for other in open {
            let status = if *other == path { PathStatus::Available } else { PathStatus::Backup };
            let _ = quic.set_path_status(*other, status);
        }
    }

    /// A copy does not leave over its path, whose window is full: another one takes it. What the peer hears last is then that
    /// one's status, so that its answers come that way.
    pub(super) fn release(&mut self, quic: &mut Connection, open: &[QuicPath]) -> bool {
        if self.path_use != PathUse::Duplicate || !Self::holds_sample(quic) {
            return false;
        }
        let at = open.iter().position(|path| Some(*path) == self.steered).unwrap_or(0);
        let Some(other) = open.get((at + 1) % open.len().max(1)).filter(|_| open.len() > 1) else {
            return false;
        };
        self.steer(quic, *other, open);
        true
    }

    /// Begins to write a message into its lane, which is idle.
    fn write(&mut self, quic: &mut Connection, message: Message, events: &mut VecDeque<Event>) {
        let number = message.stream.0 % LANES;
        if !self.lanes.contains_key(&number) {
            let Some(stream) = quic.streams().open(Dir::Uni) else {
                self.counts.unsendable += 1;
                let cause = DropCause::Abandoned;
                return events.push_back(Event::Dropped { tag: message.tag, cause });
            };
            self.lanes.insert(number, Lane { stream, rest: VecDeque::new() });
        }
        let lane = self.lanes.get_mut(&number).expect("it was inserted if missing");
        let Priority(priority) = message.priority;
        let _ = quic.send_stream(lane.stream).set_priority(-i32::from(priority));
        let mut header = Vec::with_capacity(MAX_HEADER);
        emit_header(message.stream, message.data.len(), &mut header);
        lane.rest
            .extend([Bytes::from(header), Bytes::from(message.data)].into_iter().filter(|b| !b.is_empty()));
        lane.write(quic);
        self.counts.sent += 1;
        self.counts.copies += 1;
    }

    /// Takes samples that arrived, each once.
    pub(super) fn receive_samples(
        &mut self,
        quic: &mut Connection,
        path: PathId,
        events: &mut VecDeque<Event>,
    ) -> Result<(), FrameError> {
        while let Some(datagram) = quic.datagrams().recv() {
            let (number, stream, data) = parse_sample(&datagram)?;
            if number > u64::MAX / 2 || !self.seen.is_new(number) {
                self.counts.duplicates += 1;
                events.push_back(Event::Refused(DropCause::Duplicate));
                continue;
            }
            self.seen.record(number);
            self.counts.received += 1;
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
        self.copies.clear();
        self.lanes.clear();
        self.incoming.clear();
    }
}

impl Lane {
    /// Gives QUIC as much as it takes.
    fn write(&mut self, quic: &mut Connection) {
        while let Some(front) = self.rest.front_mut() {
            let Ok(written) = quic.send_stream(self.stream).write(front) else { return };
            let _ = front.split_to(written);
            if !front.is_empty() {
                return;
            }
            self.rest.pop_front();
        }
    }
}

/// What a DATAGRAM frame holds: number, stream, message.
fn emit_sample(number: u64, stream: StreamId, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(NUMBER + data.len() + MAX_HEADER);
    frame.extend_from_slice(&number.to_be_bytes());
    emit_datagram_header(stream, &mut frame);
    frame.extend_from_slice(data);
    frame
}

fn parse_sample(frame: &[u8]) -> Result<(u64, StreamId, &[u8]), FrameError> {
    let (number, rest) = frame.split_first_chunk::<NUMBER>().ok_or(FrameError::Truncated)?;
    let (stream, data) = parse_datagram(rest)?;
    Ok((u64::from_be_bytes(*number), stream, data))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes_parse_and_are_emitted() {
        let golden = [&[0, 0, 0, 0, 0, 0, 1, 2, 3][..], b"walk"].concat();
        assert_eq!(emit_sample(0x0102, StreamId(3), b"walk"), golden);
        assert_eq!(parse_sample(&golden), Ok((0x0102, StreamId(3), &b"walk"[..])));
        for length in 0..=NUMBER {
            assert_eq!(parse_sample(&golden[..length]), Err(FrameError::Truncated), "{length}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_is_emitted_again(frame in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((number, stream, data)) = parse_sample(&frame) {
                prop_assert_eq!(emit_sample(number, stream, data), frame);
            }
        }
    }
}
