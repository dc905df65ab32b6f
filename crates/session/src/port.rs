//! The way to the transport and back: frames to messages, events to frames. The same at both ends.

use taut_core::{
    Datagram, Deadline, DropCause, Duration, Event, Message, PathId, Priority, Reliability, SendError,
    StreamId, Time, Transmit, Transport,
};
use taut_wire::session::{Body, Error, Frame, Role};

use crate::codec::{Codec, Unreadable};

/// A message of this tag is none of the caller's states.
pub(crate) const NO_TAG: u64 = u64::MAX;
/// Messages' bytes that are kept to be used again.
const SPARE: usize = 8;

#[derive(Debug)]
pub(crate) struct Port<T> {
    pub(crate) transport: T,
    pub(crate) codec: Codec,
    role: Role,
    /// Of this session; 0 before there is one.
    pub(crate) session: u32,
    pub(crate) traffic: Traffic,
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
}

impl Parcel {
    /// Goes first and must arrive.
    pub(crate) const fn urgent(now: Time) -> Self {
        Self { stream: 0, reliability: Reliability::Reliable, created: now, deadline: None, tag: NO_TAG }
    }

    /// Said again soon anyway.
    pub(crate) const fn passing(now: Time, stream: u8) -> Self {
        let deadline = Some(Duration::from_secs(1));
        Self { stream, reliability: Reliability::Unreliable, created: now, deadline, tag: NO_TAG }
    }
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Heard {
    Connected,
    Frame(Frame),
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
        Self { transport, codec, role, session: 0, traffic: Traffic::default(), spare: Vec::new() }
    }

    /// Sends a frame. What the codec has no bytes for is not said.
    pub(crate) fn send(&mut self, now: Time, body: &Body, parcel: Parcel) -> Result<(), SendError> {
        self.send_as(now, self.session, body, parcel)
    }

    /// Sends a frame in the name of another session: to refuse it.
    pub(crate) fn send_as(
        &mut self,
        now: Time,
        session: u32,
        body: &Body,
        parcel: Parcel,
    ) -> Result<(), SendError> {
        if !self.codec.has(body) {
            return Ok(());
        }
        let mut data = self.spare.pop().unwrap_or_default();
        data.clear();
        self.codec.emit(session, body, &mut data);
        let bytes = data.len() as u64;
        let message = Message {
            data,
            created: parcel.created,
            deadline: parcel.deadline,
            // Emergencies, high, then both streams of normal alike.
            priority: Priority(parcel.stream.min(2)),
            stream: StreamId(u16::from(parcel.stream)),
            reliability: parcel.reliability,
            tag: parcel.tag,
        };
        self.transport.send(now, message)?;
        self.traffic.payload += bytes;
        Ok(())
    }

    pub(crate) fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.traffic.datagrams_in += 1;
        self.traffic.bytes_in += input.data.len() as u64 + u64::from(input.padding);
        self.transport.handle_input(now, input);
    }

    pub(crate) fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let before = buffer.len();
        let transmit = self.transport.poll_transmit(now, buffer)?;
        self.traffic.datagrams += 1;
        self.traffic.bytes += (buffer.len() - before) as u64 + u64::from(transmit.padding);
        Some(transmit)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        self.transport.poll_timeout()
    }

    /// The next thing that the transport has to tell.
    pub(crate) fn poll(&mut self) -> Option<Heard> {
        loop {
            return Some(match self.transport.poll_event()? {
                Event::Connected => Heard::Connected,
                Event::Received { data, .. } => self.read(data),
                Event::Dropped { tag, cause } => Heard::Dropped { tag, cause },
                Event::Refused(cause) => Heard::Refused(cause),
                Event::Gauge { .. } => continue,
                Event::PathUp(path) => Heard::PathUp(path),
                Event::PathDown(path) => Heard::PathDown(path),
                Event::Closed => Heard::Closed,
            });
        }
    }

    fn read(&mut self, data: Vec<u8>) -> Heard {
        let heard = match self.codec.parse(self.role, self.session, &data) {
            Ok(frame) => {
                self.traffic.payload_in += data.len() as u64;
                Heard::Frame(frame)
            }
            Err(Unreadable::Version(error)) => Heard::Foreign(error),
            Err(Unreadable::Malformed) => Heard::Refused(DropCause::Malformed),
        };
        // Nobody's message may make this end keep a large buffer.
        if self.spare.len() < SPARE && data.capacity() <= 4 * taut_wire::session::MAX_LEN {
            self.spare.push(data);
        }
        heard
    }
}
