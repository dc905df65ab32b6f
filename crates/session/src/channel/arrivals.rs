//! What comes: frames of the peer, the messages that are whole with them, and motion, which waits to be judged.

use taut_core::{DropCause, Duration, Time};
use taut_wire::session::{DataHeader, Piece, Pieces};

use super::acks::{LAZY, PROMPT};
use super::declare::Agreed;
use super::incoming::{Outcome, Whole, is_parity};
use super::{ChannelEvent, ChannelId, Channels, End, frame};
use crate::motion;
use crate::sync::Stamp;

/// Motion that came: nobody but a guard may let it through.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) channel: ChannelId,
    pub(crate) schema: motion::Schema,
    pub(crate) sequence: u64,
    pub(crate) stamp: Option<Stamp>,
    pub(crate) payload: Vec<u8>,
}

impl Channels {
    /// A frame came, with these pieces. `stamp` judges a message by when its frame was sent, µs modulo 2³² of the peer's
    /// clock, and how long it waited before.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        header: &DataHeader,
        pieces: Pieces<'_>,
        mut stamp: impl FnMut(u32, Duration) -> Option<Stamp>,
    ) -> Result<(), DropCause> {
        let pieces = || pieces.clone().map_while(Result::ok);
        // Nobody asks what became of an acknowledgement alone.
        let (mut has_room, mut repeats) = (false, false);
        for (piece, _) in pieces() {
            self.own(&piece).ok_or(DropCause::Malformed)?;
            has_room = true;
        }
        let fresh = self.received.is_new(header.number);
        let mut outcome = std::mem::take(&mut self.outcome);
        for (piece, payload) in pieces() {
            let at = self.own(&piece).ok_or(DropCause::Malformed)?;
            let End::Takes(incoming) = &mut self.ends[at] else { return Err(DropCause::Malformed) };
            repeats |= incoming.agreed().is_some_and(Agreed::repeats);
            incoming.forget_late(now, &mut outcome);
            if !incoming.has_room(&piece, payload) {
                has_room = false;
                self.tallies[at].dropped.add(DropCause::QueueFullPackets);
            } else if !fresh {
                outcome.dropped.push((incoming.number_of(&piece), DropCause::Duplicate));
            } else {
                let stamp = stamp(header.sent_us, Duration::from_micros(u64::from(piece.waited_us)));
                let tally = &mut self.tallies[at];
                let bytes = if is_parity(&piece) { &mut tally.parity_bytes } else { &mut tally.bytes };
                *bytes += payload.len() as u64;
                incoming.handle(now, &piece, payload, stamp, &mut outcome);
            }
            self.tell_of(at, &mut outcome);
        }
        self.outcome = outcome;
        if has_room {
            let patience = if repeats { PROMPT } else { LAZY };
            self.received.record(now, header.number, patience, !fresh && repeats);
        }
        Ok(())
    }

    /// The own place of the channel of a piece that came.
    fn own(&self, piece: &Piece) -> Option<usize> {
        *self.by_peer.get(usize::from(piece.channel))?
    }

    /// Counts and tells what came of a frame.
    pub(super) fn tell_of(&mut self, at: usize, outcome: &mut Outcome) {
        let (channel, tally) = (ChannelId(at as u8), &mut self.tallies[at]);
        tally.repaired += std::mem::take(&mut outcome.repaired);
        tally.played_late += std::mem::take(&mut outcome.late);
        for (sequence, cause) in outcome.dropped.drain(..) {
            tally.dropped.add(cause);
            self.events.push_back(ChannelEvent::Dropped { channel, sequence, cause });
        }
        for whole in outcome.whole.drain(..) {
            tally.delivered += 1;
            let Whole { sequence, stamp, payload } = whole;
            if let Some(schema) = self.list[at].motion() {
                self.arrived.push_back(Arrival { channel, schema, sequence, stamp, payload });
                continue;
            }
            let age = stamp.map(|stamp| stamp.age.likely);
            self.events.push_back(ChannelEvent::Received { channel, sequence, age, payload });
        }
    }

    /// Gives on what was held and whose time has come.
    pub(crate) fn play(&mut self, now: Time) {
        for at in 0..self.list.len() {
            if let End::Takes(incoming) = &mut self.ends[at]
                && incoming.due().is_some_and(|due| due <= now)
            {
                let mut outcome = std::mem::take(&mut self.outcome);
                incoming.play(now, &mut outcome);
                self.tell_of(at, &mut outcome);
                self.outcome = outcome;
            }
        }
    }

    /// The frame of an acknowledgement that is due, and with which nothing went.
    pub(crate) fn poll_ack(&mut self, now: Time, session: u32) -> Option<DataHeader> {
        self.received.due().filter(|due| now >= *due)?;
        let ack = self.received.rides(now);
        self.received.told();
        Some(DataHeader { session, number: 0, sent_us: frame::micros(now) as u32, ack })
    }

    /// The next motion that came.
    pub(crate) fn poll_motion(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    /// Motion that came is not used.
    pub(crate) fn discard(&mut self, channel: ChannelId, sequence: u64, cause: DropCause) {
        let tally = &mut self.tallies[usize::from(channel.0)];
        tally.delivered -= 1;
        tally.dropped.add(cause);
        self.events.push_back(ChannelEvent::Dropped { channel, sequence, cause });
    }

    /// What would move, by a whole message of the peer's; `None`: nothing.
    pub(crate) fn moves(&self, piece: &Piece) -> Option<motion::Schema> {
        let at = self.own(piece).filter(|_| piece.part.is_none())?;
        self.list[at].motion()
    }
}
