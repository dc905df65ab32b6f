//! Which messages travel together, and how long a frame is.

use taut_core::{Bytes, Deadline, Duration, Time, earliest};
use taut_media::{Order, Packer, Scheme, SchemeError, Waiting};
use taut_wire::session::{DataAck, DataHeader};

use super::FRAGMENT;
use super::frame::piece;
use super::outgoing::Rest;

/// How messages of channels share frames: what an end does with all that it sends. *Live* messages, of motion and feedback, are what a
/// [`Scheme`] calls samples; those of all other channels are its media, audio before video by their priorities.
///
/// Where no live message was made for 100 ms, and where nothing else found room beside them for so long, everything goes as by [`Scheme::Separate`], but by [`Scheme::VisualHaptic`], which has a rate
/// of its own. What goes along with a live message is held back by the session's congestion control, and is then not in the frame.
///
/// ```
/// use taut_core::Bytes;
/// use taut_session::{OperatorConfig, Packing, Scheme};
/// let packing = Packing::new(Scheme::FixedFragment { fragment: Bytes::new(58) })?.datagram(Bytes::new(137));
/// let config = OperatorConfig::new().packing(packing);
/// # Ok::<(), taut_session::SchemeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packing {
    scheme: Scheme,
    datagram: Option<Bytes>,
}

impl Default for Packing {
    fn default() -> Self {
        Self { scheme: Scheme::Separate, datagram: None }
    }
}

impl Packing {
    /// By this scheme, in frames as long as need be.
    ///
    /// # Errors
    /// When the scheme cannot work: see [`SchemeError`].
    pub fn new(scheme: Scheme) -> Result<Self, SchemeError> {
        scheme.check()?;
        Ok(Self { scheme, datagram: None })
    }

    /// The constant size of packets with a live message, with the headers that the config counts
    /// ([`headers`](crate::OperatorConfig::headers), 28 B unless set) and without what the transport adds: zeros fill a frame up, and less of
    /// others goes along where headers leave less room. A frame of 1028 B is the longest. One whose live messages alone are longer goes
    /// as it is; chunks of [`Scheme::VisualHaptic`] and packets of [`Scheme::NetworkAware`] have sizes of their own. Default: none.
    pub const fn datagram(mut self, size: Bytes) -> Self {
        self.datagram = Some(size);
        self
    }
}

/// Bytes of the longest frame: of one part, with all that can stand before it but an acknowledgement.
const LONGEST: usize = FRAGMENT + 28;
/// After such a silence of all that is live, nobody waits for it.
const IDLE: Duration = Duration::from_millis(100);

/// Says what goes next.
#[derive(Debug)]
pub(super) struct Packs {
    packer: Option<Packer>,
    /// Live messages of a channel that may wait for each other.
    pub(super) together: usize,
    /// Bytes of a frame with something live.
    constant: Option<usize>,
    /// When something live was made last, or was waited for at first.
    ticked: Option<Time>,
    /// Since when something waits that is not live and might go, and nothing of that went.
    starves: Option<Time>,
    /// What the frame that was given out last is.
    given: Option<(Order, u64)>,
}

/// What the next frame is to be made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// The most urgent that waits, alone.
    One,
    Some(Order),
}

impl Packs {
    pub(super) fn new(packing: &Packing, headers: Bytes) -> Self {
        let frame = |size: Bytes| (size.saturating_sub(headers).get() as usize).min(LONGEST);
        Self {
            packer: Packer::new(packing.scheme),
            together: packing.scheme.samples(),
            constant: packing.datagram.map(frame),
            ticked: None,
            starves: None,
            given: None,
        }
    }

    /// There is another session: nobody waits for anything yet.
    pub(super) fn restart(&mut self) {
        (self.ticked, self.starves, self.given) = (None, None, None);
    }

    /// Something live was made, and is worth sending or not.
    pub(super) fn tick(&mut self, now: Time, significant: bool) {
        self.ticked = Some(now);
        self.packer.iter_mut().for_each(|packer| packer.tick(now, significant));
    }

    /// So many live messages were not made, for the device was asked too late.
    pub(super) fn miss(&mut self, messages: u64) {
        self.packer.iter_mut().for_each(|packer| packer.miss(messages));
    }

    /// So many frames took so long to the peer, ns; the clocks may differ.
    pub(super) fn delay(&mut self, delay_ns: i64, frames: u32) {
        let Some(packer) = &mut self.packer else { return };
        for _ in 0..frames {
            packer.delay(delay_ns);
        }
    }

    /// Does everything go by itself?
    pub(super) fn is_separate(&self) -> bool {
        self.packer.is_none()
    }

    /// Does nothing go by itself now, but along with what is live?
    pub(super) fn goes_along(&self, now: Time) -> bool {
        self.packer.as_ref().is_some_and(Packer::waits_for_sample)
            && self.ticked.is_some_and(|ticked| now < ticked + IDLE)
            && !self.is_starved(now)
    }

    /// What goes next, if anything does; `media_wait`: something that is not live, though it may not go now.
    pub(super) fn next(&mut self, now: Time, waiting: &Waiting, media_wait: bool) -> Option<Next> {
        self.given = None;
        let Some(packer) = &mut self.packer else { return Some(Next::One) };
        self.ticked.get_or_insert(now);
        packer.time_out(now);
        self.starves = self.starves.or(waiting.media.map(|_| now)).filter(|_| media_wait);
        if let Some(order) = packer.next(waiting) {
            return Some(Next::Some(order));
        }
        let is_idle = self.idle_until().is_some_and(|until| now >= until);
        (is_idle || self.is_starved(now)).then_some(Next::One)
    }

    /// Has what waits found no room beside what is live for so long?
    fn is_starved(&self, now: Time) -> bool {
        let waits_for_ticks = self.packer.as_ref().is_some_and(|packer| !packer.has_own_rate());
        waits_for_ticks && self.starves.is_some_and(|since| now >= since + IDLE)
    }

    /// Until then what waits may go along with something live.
    fn idle_until(&self) -> Option<Time> {
        let waits_for_ticks = self.packer.as_ref().is_some_and(|packer| !packer.has_own_rate());
        waits_for_ticks.then(|| self.ticked.map_or(Time::ZERO, |ticked| ticked + IDLE))
    }

    /// How long such a frame is, of which something is live or not, if that is constant.
    pub(super) fn constant(&self, next: &Next, live: bool) -> Option<usize> {
        let is_constant = match next {
            Next::One => live,
            Next::Some(order) => order.constant,
        };
        self.constant.filter(|_| is_constant)
    }

    /// A frame was given out, with so many bytes that are not live.
    pub(super) fn gave(&mut self, next: Next, media: u64) {
        self.starves.take_if(|_| media > 0);
        self.given = match next {
            Next::Some(order) => Some((order, media)),
            Next::One => None,
        };
    }

    /// It has gone. Does more wait that is not live?
    pub(super) fn settle(&mut self, media_wait: bool) {
        if let Some((packer, (order, media))) = self.packer.as_mut().zip(self.given.take()) {
            packer.settle(&order, Bytes::new(media), media_wait);
        }
    }

    /// When something of what waits may go by time alone, what is live and what is not.
    pub(super) fn poll_timeout(&self, waiting: &Waiting) -> Option<Deadline> {
        let packer = self.packer.as_ref()?;
        let waits = waiting.samples > 0 || waiting.media.is_some();
        let idle = self.idle_until().filter(|_| waits).map(|at| Deadline::new(at, "nothing live"));
        let at_once = waiting.samples > 0 && packer.sends_at_once();
        let at_once = at_once.then(|| Deadline::new(Time::ZERO, "channel"));
        earliest(at_once, earliest(idle, packer.poll_timeout(waiting)))
    }
}

/// Bytes of a message that are in a frame.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) channel: usize,
    pub(super) rest: Rest,
}

/// A frame as it is put together: what is in it, and how long that makes it.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) taken: Vec<Taken>,
    length: usize,
    /// Without what it tells.
    longest: usize,
    /// Which frames arrived.
    pub(super) ack: Option<DataAck>,
}

impl Frame {
    /// An empty one, as long as can be; with room in `taken`.
    pub(super) fn new(mut taken: Vec<Taken>, ack: Option<DataAck>) -> Self {
        taken.clear();
        Self { taken, length: DataHeader::LEN, longest: LONGEST, ack }
    }

    /// No longer than this from now on, if it is not already: what it tells has to find room.
    pub(super) fn hold_to(&mut self, longest: usize) {
        self.ack.take_if(|_| self.length + DataAck::LEN > longest);
        self.longest = longest - if self.ack.is_some() { DataAck::LEN } else { 0 };
    }

    /// Adds as much of what waits as there is room for, `most` at most; how many bytes, or `None`.
    pub(super) fn add(&mut self, now: Time, channel: usize, mut rest: Rest, most: usize) -> Option<usize> {
        // The one before has to say where it ends.
        let before = self.taken.last().map_or(0, |last| {
            let head = piece(now, last.channel, &last.rest);
            head.len(Some(last.rest.range.len())) - head.len(None)
        });
        let room = self.longest.checked_sub(self.length + before)?;
        let (waits, begins) = (rest.range.len(), rest.range.start);
        rest.range.end = begins + waits.min(most);
        let head = |rest: &Rest| piece(now, channel, rest).len(None);
        if head(&rest) + rest.range.len() > room {
            // A part has the longer header, whatever is cut off.
            rest.range.end = begins + (rest.total - begins).min(1);
            let left = room.checked_sub(head(&rest))?;
            rest.range.end = begins + left.min(waits).min(most);
        }
        let bytes = rest.range.len();
        if bytes == 0 && waits > 0 || head(&rest) + bytes > room {
            return None;
        }
        self.length += before + head(&rest) + bytes;
        self.taken.push(Taken { channel, rest });
        Some(bytes)
    }

    /// The same, of a message that goes whole or not at all.
    pub(super) fn add_whole(&mut self, now: Time, channel: usize, rest: &Rest) -> bool {
        let before = (self.taken.len(), self.length);
        let added = self.add(now, channel, rest.clone(), usize::MAX);
        let whole = added == Some(rest.range.len());
        if !whole {
            self.taken.truncate(before.0);
            self.length = before.1;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use taut_core::Time;

    /// As if nothing found room beside what is live each millisecond, while congestion control lets nothing else go for one of 50.
    #[test]
    fn what_starves_does_so_however_often_congestion_control_holds_it_back() {
        let packing = Packing::new(Scheme::FixedFragment { fragment: Bytes::new(58) }).unwrap();
        let mut packs = Packs::new(&packing, Bytes::new(28));
        let alone = |packs: &mut Packs, ms: u64, media_wait: bool| {
            let now = Time::ZERO + Duration::from_millis(ms);
            packs.tick(now, true);
            let media = (media_wait && ms % 50 != 49).then_some(20);
            let next = packs.next(now, &Waiting { samples: 1, media }, media_wait).expect("a sample goes");
            packs.gave(next, 0);
            packs.settle(media_wait);
            packs.next(now, &Waiting { samples: 0, media }, media_wait).is_some()
        };
        let first = (0..400).find(|ms| alone(&mut packs, *ms, true));
        assert_eq!(first, Some(100));
        packs.restart();
        assert!((400..550).all(|ms| !alone(&mut packs, ms, ms != 450)), "nothing waited meanwhile");
    }

    proptest! {
        #[test]
        fn a_frame_is_as_long_as_was_said_and_not_longer_than_it_may_be(
            rests in prop::collection::vec((0usize..20_000, 0usize..3_000, any::<bool>(), 1usize..700), 1..6), longest in 13usize..1_100,
        ) {
            let mut frame = Frame { longest, ..Frame::new(Vec::new(), None) };
            for (offset, length, whole, most) in rests {
                let (range, total) = match whole {
                    true => (0..length, length),
                    false => (offset..offset + length.max(1), offset + length + 100),
                };
                let rest = Rest { sequence: 9, range: range.clone(), total, created: Time::ZERO, expires: None, back: None };
                let was = (frame.taken.len(), frame.length);
                match frame.add(Time::ZERO, 3, rest, most) {
                    Some(bytes) => {
                        prop_assert!(bytes <= range.len().min(most) && (bytes > 0 || range.is_empty()));
                        // Nothing that would fit is left out.
                        prop_assert!(bytes == range.len().min(most) || frame.length + 3 > longest);
                    }
                    None => prop_assert_eq!((frame.taken.len(), frame.length), was),
                }
                prop_assert!(frame.length <= longest);
            }
            let last = frame.taken.len().saturating_sub(1);
            let length = |(at, taken): (usize, &Taken)| {
                let bytes = taken.rest.range.len();
                piece(Time::ZERO, taken.channel, &taken.rest).len((at < last).then_some(bytes)) + bytes
            };
            prop_assert_eq!(frame.length, DataHeader::LEN + frame.taken.iter().enumerate().map(length).sum::<usize>());
        }
    }
}
