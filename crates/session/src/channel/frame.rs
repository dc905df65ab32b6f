//! The next frame: which of what waits is in it, and its bytes.

use taut_core::{DropCause, Duration, Time};
use taut_media::{Order, Waiting};
use taut_wire::session::{DataAck, DataHeader, Part, Piece};

use super::declare::Agreed;
use super::outgoing::{Outgoing, Rest};
use super::pack::{Frame, Next, Taken};
use super::repeat::Fragment;
use super::{COUNTED, Channels, End, FRAGMENT, Outlook, Ready};

impl Channels {
    /// What goes now, the most urgent first; `more`: what can wait, too. A message that cannot arrive in time is not begun. What the frame
    /// is made of is appended to `buffer`.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        session: u32,
        more: bool,
        outlook: Outlook,
        buffer: &mut Vec<u8>,
    ) -> Option<Ready> {
        if now < self.retry {
            return None;
        }
        let mut frame = Frame::new(std::mem::take(&mut self.taken), self.received.rides(now));
        let next = if self.packs.is_separate() {
            Some(Next::One)
        } else {
            for place in 0..self.order.len() {
                self.prepare(now, self.order[place], more, outlook);
            }
            let waiting = self.waiting(more);
            self.packs.next(now, &waiting, self.has_more())
        };
        match next {
            Some(Next::One) => self.take_one(now, more, outlook, &mut frame),
            Some(Next::Some(order)) => self.take(now, more, &order, &mut frame),
            None => {}
        }
        self.taken = frame.taken;
        self.write(now, session, next?, frame.ack, buffer)
    }

    /// Drops what waits in a channel and cannot arrive in time, and says what goes beside what can. Of what may not go now nobody knows yet.
    fn prepare(&mut self, now: Time, at: usize, more: bool, outlook: Outlook) {
        // What is live goes at once.
        let rate = outlook.rate.filter(|_| !self.is_live(at));
        let takes = |bytes: usize| {
            rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate.max(1.0)))
        };
        if (more || self.is_live(at))
            && let End::Sends(out) = &mut self.ends[at]
            && out.has_more()
        {
            out.forget_hopeless(now, takes, outlook.way, &mut self.gone);
            // Only where parts of messages are cut alike there is parity.
            let part = self.packs.is_separate().then_some(FRAGMENT);
            out.plan(now, takes, || self.under_way.way(outlook.timeout), part, &mut self.load);
        }
        self.tell(at);
    }

    /// What waits in the channels that are live, or in the others; the most urgent first.
    fn all_rests(&self, live: bool) -> impl Iterator<Item = (usize, Rest)> {
        let these = self.order.iter().copied().filter(move |at| self.is_live(*at) == live);
        these.flat_map(|at| self.rests(at).map(move |rest| (at, rest)))
    }

    /// What waits in a channel.
    fn rests(&self, at: usize) -> impl Iterator<Item = Rest> {
        let out = match &self.ends[at] {
            End::Sends(out) if out.has_more() => Some(out),
            _ => None,
        };
        out.into_iter().flat_map(Outgoing::rests)
    }

    pub(super) fn waiting(&self, more: bool) -> Waiting {
        let (mut samples, mut media) = (0, None);
        for at in &self.order {
            let End::Sends(out) = &self.ends[*at] else { continue };
            let waiting = out.waiting();
            if self.is_live(*at) {
                samples += waiting.rests;
            } else if more && media.is_none() && waiting.rests > 0 {
                media = Some(waiting.first as u64);
            }
        }
        Waiting { samples, media }
    }

    /// The most urgent that waits.
    fn take_one(&mut self, now: Time, more: bool, outlook: Outlook, frame: &mut Frame) {
        for place in 0..self.order.len() {
            let at = self.order[place];
            self.prepare(now, at, more, outlook);
            if (more || self.is_live(at))
                && let Some(rest) = self.rests(at).next()
            {
                frame.add(now, at, rest, FRAGMENT);
                if let Some(constant) = self.packs.constant(&Next::One, self.is_live(at)) {
                    frame.hold_to(constant);
                }
                return;
            }
        }
    }

    /// What is live, then what travels with it.
    fn take(&self, now: Time, more: bool, order: &Order, frame: &mut Frame) {
        for (at, rest) in self.all_rests(true) {
            let fits = match frame.taken.len() {
                0 => frame.add(now, at, rest, usize::MAX).is_some(),
                taken => taken < order.samples && frame.add_whole(now, at, &rest),
            };
            if !fits {
                break;
            }
        }
        if let Some(constant) = self.packs.constant(&Next::Some(*order), true) {
            frame.hold_to(constant);
        }
        let (mut budget, mut parts) = (order.media.get() as usize, order.parts);
        for (at, rest) in self.all_rests(false) {
            if !more || budget == 0 || parts == 0 {
                break;
            }
            let Some(bytes) = frame.add(now, at, rest, budget) else { break };
            (budget, parts) = (budget - bytes, parts - 1);
        }
    }

    /// Writes the frame that was put together.
    fn write(
        &mut self,
        now: Time,
        session: u32,
        next: Next,
        ack: Option<DataAck>,
        buffer: &mut Vec<u8>,
    ) -> Option<Ready> {
        let first = self.taken.first()?;
        let number = (self.next_number % COUNTED) as u32;
        DataHeader { session, number, sent_us: micros(now) as u32, ack }.emit(buffer);
        self.tells = ack.is_some();
        let (mut live, mut media) = (false, 0);
        for (place, Taken { channel, rest }) in self.taken.iter().enumerate() {
            let length = (place + 1 < self.taken.len()).then_some(rest.range.len());
            piece(now, *channel, rest).emit(length, buffer);
            if let End::Sends(out) = &self.ends[*channel] {
                buffer.extend_from_slice(out.bytes_of(rest.sequence, &rest.range));
            }
            let is_live = self.is_live(*channel);
            live |= is_live;
            media += if is_live { 0 } else { rest.range.len() as u64 };
        }
        let is_sample = self.is_live(first.channel) && first.rest.range.len() == first.rest.total;
        let ready = Ready {
            number: self.next_number,
            priority: self.list[first.channel].priority,
            created: first.rest.created,
            deadline: first.rest.expires.map(|expires| expires.saturating_since(first.rest.created)),
            live,
            series: is_sample.then_some(first.channel as u8),
            media,
        };
        if let Some(constant) = self.packs.constant(&next, live) {
            DataHeader::pad(buffer, constant);
        }
        self.packs.gave(next, media);
        Some(ready)
    }

    /// The transport took it; in its `place` among all that this end sends.
    pub(crate) fn sent(&mut self, now: Time, ready: &Ready, place: (u64, u64)) {
        self.next_number += 1;
        let tells = std::mem::take(&mut self.tells);
        if tells {
            self.received.told();
        }
        let (mut carried, mut repeated) = (self.under_way.spare_fragments(), false);
        for Taken { channel, rest } in &self.taken {
            let End::Sends(out) = &mut self.ends[*channel] else { continue };
            let is_parity = out.sent(now, rest.sequence, &rest.range);
            let tally = &mut self.tallies[*channel];
            *(if is_parity { &mut tally.parity_bytes } else { &mut tally.bytes }) += rest.range.len() as u64;
            repeated |= out.agreed().is_some_and(Agreed::repeats);
            let range = rest.range.clone();
            carried.push(Fragment { channel: *channel, sequence: rest.sequence, range });
        }
        if let Some(forgotten) = self.under_way.sent(now, ready, place, (carried, repeated, tells)) {
            self.lose(now, &forgotten, DropCause::Loss);
        }
        let media_wait = self.has_more();
        self.packs.settle(media_wait);
    }
}

/// What stands before the bytes of a message.
pub(super) fn piece(now: Time, at: usize, rest: &Rest) -> Piece {
    let part = Part { offset: rest.range.start as u32, total: rest.total as u32 };
    Piece {
        channel: at as u8,
        sequence: (rest.sequence % COUNTED) as u32,
        waited_us: u32::try_from(micros(now) - micros(rest.created)).unwrap_or(u32::MAX),
        back: rest.back,
        part: (rest.range.len() < rest.total).then_some(part),
    }
}

pub(super) fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}
