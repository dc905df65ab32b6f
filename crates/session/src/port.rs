//! The way to the transport and back: frames to messages, events to frames. The same at both ends.

use taut_core::{
    Datagram, Deadline, DropCause, Duration, Event, Message, PathId, Priority, Reliability, SendError,
    StreamId, Time, Transmit, Transport, Waiting,
};
use taut_wire::omni71::STATE_LEN;
use taut_wire::session::{Body, DataHeader, Error, Frame, RefusalReason, Role};

use crate::codec::{Codec, Unreadable};
use crate::diagnostics;

/// A message of this tag is none of the caller's states.
pub(crate) const NO_TAG: u64 = u64::MAX;
/// Messages' bytes that are kept to be used again.
const SPARE: usize = 8;
/// Their longest: what a frame of a channel needs, with room.
const LARGEST_SPARE: usize = 2_048;
/// Channels' frames go on a stream of their own, after all that is the session's.
pub(crate) const CHANNEL_STREAM: u8 = 3;
pub(crate) const CHANNEL_PRIORITY: u8 = 3;
/// Tags of channels' frames have this bit.
const CHANNEL_TAG: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Port<T> {
    pub(crate) transport: T,
    pub(crate) codec: Codec,
    /// Of `omni71`, padding included.
    pub(crate) sample_length: usize,
    role: Role,
    /// Of this session; 0 before there is one.
    pub(crate) session: u32,
    pub(crate) traffic: Traffic,
    /// What waited in the transport when that had last sent what it could, and whether what is irreplaceable went since this was asked last.
    waiting: Waiting,
    is_freed: bool,
    spare: Vec<Vec<u8>>,
}

/// What went through, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Datagrams sent.
    pub(crate) datagrams: u64,
    /// Their bytes, without the headers that the driver adds.
    pub(crate) bytes: u64,
    /// Datagrams received.
    pub(crate) datagrams_in: u64,
    /// Their bytes.
    pub(crate) bytes_in: u64,
    /// Bytes of frames in messages that were sent.
    pub(crate) payload: u64,
    /// Bytes of frames that were received.
    pub(crate) payload_in: u64,
}

/// How a frame travels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel {
    pub(crate) stream: u8,
    pub(crate) reliability: Reliability,
    pub(crate) created: Time,
    pub(crate) deadline: Option<Duration>,
    pub(crate) tag: u64,
    /// Of a channel's samples: see [`Message::series`].
    pub(crate) series: Option<u8>,
}

impl Parcel {
    /// Goes first and must arrive.
    pub(crate) const fn urgent(now: Time) -> Self {
        Self {
            stream: 0,
            reliability: Reliability::Reliable,
            created: now,
            deadline: None,
            tag: NO_TAG,
            series: None,
        }
    }

    /// Said again soon anyway.
    pub(crate) const fn passing(now: Time, stream: u8) -> Self {
        let deadline = Some(Duration::from_secs(1));
        Self {
            stream,
            reliability: Reliability::Unreliable,
            created: now,
            deadline,
            tag: NO_TAG,
            series: None,
        }
    }
}

/// What travels.
enum Content<'a> {
    Body(&'a Body),
    /// A frame of channels, which is written already.
    Bytes(Vec<u8>, Priority),
}

/// The tag of a channel's frame, by its number.
pub(crate) const fn channel_tag(number: u64) -> u64 {
    number | CHANNEL_TAG
}

/// The number of a channel's frame, if it is one of those.
pub(crate) const fn channel_number(tag: u64) -> Option<u64> {
    if tag != NO_TAG && tag & CHANNEL_TAG != 0 { Some(tag & !CHANNEL_TAG) } else { None }
}

/// What came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    Connected,
    Frame(Frame),
    /// One of channels, without its padding: its pieces can be read.
    Data(DataHeader, Vec<u8>),
    /// From a peer of another version.
    Foreign(Error),
    Dropped {
        tag: u64,
        cause: DropCause,
    },
    Refused(DropCause),
    PathUp(PathId),
    PathDown(PathId),
    Closed,
}

impl<T: Transport> Port<T> {
    pub(crate) fn new(transport: T, codec: Codec, role: Role) -> Self {
        Self {
            transport,
            codec,
            sample_length: STATE_LEN,
            role,
            session: 0,
            traffic: Traffic::default(),
            waiting: Waiting::Nothing,
            is_freed: false,
            spare: Vec::new(),
        }
    }

    /// Sends a frame; its bytes. What the codec has no bytes for is not said.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, body: &Body, parcel: Parcel) -> Result<usize, SendError> {
        self.hand_over(now, Content::Body(body), parcel)
    }

    /// Sends what was written into a [`buffer`](Self::buffer).
    #[inline]
    pub(crate) fn send_bytes(
        &mut self,
        now: Time,
        data: Vec<u8>,
        priority: Priority,
        parcel: Parcel,
    ) -> Result<usize, SendError> {
        self.hand_over(now, Content::Bytes(data, priority), parcel)
    }

    fn hand_over(&mut self, now: Time, content: Content<'_>, parcel: Parcel) -> Result<usize, SendError> {
        let (data, priority, series) = match content {
            Content::Body(body) if !self.codec.has(body) => return Ok(0),
            Content::Body(body) => {
                let mut data = self.buffer();
                self.codec.emit(self.session, body, &mut data);
                if self.codec == Codec::Omni71 && data.len() == STATE_LEN {
                    data.resize(self.sample_length, 0);
                }
                // Emergencies, high, then both streams of normal alike. What is no state has a series by its kind.
                let is_state =
                    matches!(body, Body::State(_) | Body::AcknowledgingState(..) | Body::Feedback(_));
                (data, Priority(parcel.stream.min(2)), (!is_state).then(|| body.kind()))
            }
            Content::Bytes(data, priority) => (data, priority, parcel.series),
        };
        let bytes = data.len();
        let message = Message {
            data,
            created: parcel.created,
            deadline: parcel.deadline,
            wanted: None,
            priority,
            stream: StreamId(u16::from(parcel.stream)),
            reliability: parcel.reliability,
            tag: parcel.tag,
            series,
        };
        self.transport.send(now, message)?;
        self.traffic.payload += bytes as u64;
        Ok(bytes)
    }

    /// Refuses another session, in its name.
    pub(crate) fn refuse(&mut self, now: Time, session: u32, reason: RefusalReason) {
        self.answer(now, session, &Body::Refusal(reason));
    }

    /// Says something once in the name of another session.
    pub(crate) fn answer(&mut self, now: Time, session: u32, body: &Body) {
        let own = std::mem::replace(&mut self.session, session);
        let _ = self.send(now, body, Parcel::passing(now, 0));
        self.session = own;
    }

    /// An empty one, for what is sent next.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let mut data = self.spare.pop().unwrap_or_default();
        data.clear();
        data
    }

    /// It was not needed after all.
    pub(crate) fn give_back(&mut self, data: Vec<u8>) {
        // Nobody's message may make this end keep a large buffer.
        if self.spare.len() < SPARE && data.capacity() <= LARGEST_SPARE {
            self.spare.push(data);
        }
    }

    pub(crate) fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.traffic.datagrams_in += 1;
        self.traffic.bytes_in += input.data.len() as u64 + u64::from(input.padding);
        self.transport.handle_input(now, input);
    }

    pub(crate) fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let before = buffer.len();
        let Some(transmit) = self.transport.poll_transmit(now, buffer) else {
            let was_blocked = self.is_blocked();
            self.waiting = self.transport.waiting();
            self.is_freed |= was_blocked && !self.is_blocked();
            return None;
        };
        self.traffic.datagrams += 1;
        self.traffic.bytes += (buffer.len() - before) as u64 + u64::from(transmit.padding);
        Some(transmit)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        self.transport.poll_timeout()
    }

    /// Did an urgent message wait in the transport that no newer one replaces, when that had last sent what it could?
    pub(crate) fn is_blocked(&self) -> bool {
        self.waiting == Waiting::Irreplaceable
    }

    /// What waited there then, as urgent as samples.
    pub(crate) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Has that gone since this was asked last? Then what waited for it may go.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.is_freed)
    }

    /// Goes on over another transport. Gives the one before back.
    pub(crate) fn replace(&mut self, transport: T) -> T {
        (self.waiting, self.is_freed) = (Waiting::Nothing, false);
        std::mem::replace(&mut self.transport, transport)
    }

    /// What the transport's event tells a session, if anything.
    pub(crate) fn hear(&mut self, event: Event) -> Option<Heard> {
        diagnostics::on_event(&event);
        Some(match event {
            Event::Connected => Heard::Connected,
            Event::Received { data, .. } => self.read(data),
            Event::Dropped { tag, cause } => Heard::Dropped { tag, cause },
            Event::Refused(cause) => Heard::Refused(cause),
            Event::Gauge { .. } => return None,
            Event::PathUp(path) => Heard::PathUp(path),
            Event::PathDown(path) => Heard::PathDown(path),
            Event::Closed => Heard::Closed,
        })
    }

    fn read(&mut self, mut data: Vec<u8>) -> Heard {
        if self.codec == Codec::Native && DataHeader::is_data(&data) {
            let Ok((header, pieces)) = DataHeader::parse(&data) else {
                return Heard::Refused(DropCause::Malformed);
            };
            let end = pieces.end();
            self.traffic.payload_in += data.len() as u64;
            data.truncate(end);
            return Heard::Data(header, data);
        }
        let heard = match self.codec.parse(self.role, self.session, &data) {
            Ok(frame) => {
                self.traffic.payload_in += data.len() as u64;
                Heard::Frame(frame)
            }
            Err(Unreadable::Version(error)) => Heard::Foreign(error),
            Err(Unreadable::Malformed) => Heard::Refused(DropCause::Malformed),
        };
        self.give_back(data);
        heard
    }
}
