//! What became of each sample and frame, by its number: made at one end, delivered at the other, withheld, or dropped at either.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use taut_agent::{Observed, SessionObserver};
use taut_core::{Bytes, DropCause, Event, Medium, NodeEvent, Sample, Time};
use taut_session::{ChannelEvent, ChannelId, OperatorEvent, RobotEvent, SendRefused};
use taut_transport::stack::Side;

use crate::run::agent::Events;
use crate::scenario::{Direction, Session};

/// One thing that an end did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Note {
    /// There is a session.
    Opened,
    /// Something of so many bytes was made; its number in the channel.
    Made(ChannelId, usize, Result<u64, SendRefused>),
    /// Something came.
    Came(ChannelId, u64),
    /// Something is not worth sending.
    Withheld(ChannelId, u64),
    /// Something will not be sent, or came and is of no use.
    Dropped(ChannelId, u64, DropCause),
    /// A datagram was of no use.
    Refused(DropCause),
    /// A number of the transport's moved.
    Gauge(&'static str, f64),
}

/// What is worth a note.
pub(super) fn note(event: Observed<'_>) -> Option<Note> {
    Some(match event {
        Observed::Message { channel, payload, taken } => Note::Made(channel, payload.len(), taken),
        Observed::Operator(OperatorEvent::Channel(event))
        | Observed::Robot(RobotEvent::Channel(event), _) => match *event {
            ChannelEvent::Opened { .. } => Note::Opened,
            ChannelEvent::Received { channel, sequence, .. } => Note::Came(channel, sequence),
            ChannelEvent::Dropped { channel, sequence, cause } => Note::Dropped(channel, sequence, cause),
            ChannelEvent::Withheld { channel, sequence } => Note::Withheld(channel, sequence),
            ChannelEvent::Refused { .. } | ChannelEvent::Arrived { .. } => return None,
        },
        Observed::Operator(OperatorEvent::Refused(cause))
        | Observed::Robot(RobotEvent::Refused(cause), _) => Note::Refused(*cause),
        Observed::Transport(Event::Gauge { name, value }) => Note::Gauge(name, *value),
        _ => return None,
    })
}

/// Shared by both ends.
#[derive(Clone, Debug)]
pub(super) struct Books(Rc<RefCell<Open>>);

#[derive(Debug)]
struct Open {
    media: Vec<(Direction, Medium)>,
    /// Of each channel, what nobody knows the fate of yet; by their numbers, which rise.
    made: Vec<VecDeque<Sample>>,
    /// Was there ever a session? Until then: what was made.
    opened: bool,
    before: Vec<(Time, Direction, Sample)>,
}

/// Samples and frames of a channel that are remembered.
const REMEMBERED: usize = 1 << 17;

impl Books {
    pub(super) fn new(session: &Session) -> Self {
        let media: Vec<_> = session.media().collect();
        let made = media.iter().map(|_| VecDeque::new()).collect();
        Self(Rc::new(RefCell::new(Open { media, made, opened: false, before: Vec::new() })))
    }

    /// Was there ever a session?
    pub(super) fn opened(&self) -> bool {
        self.0.borrow().opened
    }

    /// What was made, and where there never was a session: then it is lost.
    pub(super) fn never_sent(&self) -> Vec<(Time, Direction, Sample)> {
        std::mem::take(&mut self.0.borrow_mut().before)
    }

    /// What an end's note says to the metrics.
    pub(super) fn write(&self, side: Side, now: Time, note: Note) -> [Option<NodeEvent>; 2] {
        self.0.borrow_mut().write(side, now, note)
    }
}

impl Open {
    fn write(&mut self, side: Side, now: Time, note: Note) -> [Option<NodeEvent>; 2] {
        let one = |event| [Some(event), None];
        match note {
            Note::Opened => {
                self.opened = true;
                self.before = Vec::new();
                [None, None]
            }
            Note::Made(channel, bytes, taken) => self.make(now, channel, bytes, taken),
            Note::Came(channel, sequence) => match self.take(channel, sequence) {
                Some(sample) => one(NodeEvent::Delivered(sample)),
                None => one(NodeEvent::Refused(self.medium(channel), DropCause::Duplicate)),
            },
            Note::Withheld(channel, sequence) => {
                let sample = self.take(channel, sequence);
                [sample.map(NodeEvent::Withheld), None]
            }
            Note::Dropped(channel, sequence, cause) => self.drop(side, channel, sequence, cause),
            Note::Refused(cause) => one(NodeEvent::Refused(None, cause)),
            Note::Gauge(name, value) => one(NodeEvent::Gauge { name, value }),
        }
    }

    fn make(
        &mut self,
        created: Time,
        channel: ChannelId,
        bytes: usize,
        taken: Result<u64, SendRefused>,
    ) -> [Option<NodeEvent>; 2] {
        let at = usize::from(channel.0);
        let Some((direction, medium)) = self.media.get(at).copied() else { return [None, None] };
        let size = Bytes::new(bytes as u64);
        let sample = Sample { medium, sequence: taken.unwrap_or(0), created, size };
        // Before there is a session nobody waits for anything.
        if !self.opened {
            if self.before.len() < REMEMBERED {
                self.before.push((created, direction, sample));
            }
            return [None, None];
        }
        let dropped = match taken {
            Ok(_) => {
                self.remember(at, sample);
                None
            }
            Err(refused) => Some(NodeEvent::Dropped(sample, refused.cause())),
        };
        [Some(NodeEvent::Made(sample)), dropped]
    }

    fn remember(&mut self, at: usize, sample: Sample) {
        let made = &mut self.made[at];
        if made.len() == REMEMBERED {
            made.pop_front();
        }
        made.push_back(sample);
    }

    /// At its sender, it will not be sent; at its receiver, it is of no use, or a part or a copy of it is.
    fn drop(
        &mut self,
        side: Side,
        channel: ChannelId,
        sequence: u64,
        cause: DropCause,
    ) -> [Option<NodeEvent>; 2] {
        let Some((direction, medium)) = self.media.get(usize::from(channel.0)).copied() else {
            return [None, None];
        };
        let sends = (direction == Direction::Forward) == (side == Side::Opens);
        let event = match sends {
            // It stays: what its transport gave up may have been heard all the same.
            true => self.open(channel, sequence).map(|(made, at)| NodeEvent::Dropped(made[at], cause)),
            false => Some(NodeEvent::Refused(Some(medium), cause)),
        };
        [event, None]
    }

    fn take(&mut self, channel: ChannelId, sequence: u64) -> Option<Sample> {
        let (made, at) = self.open(channel, sequence)?;
        made.remove(at)
    }

    /// Where it is among those of its channel.
    fn open(&mut self, channel: ChannelId, sequence: u64) -> Option<(&mut VecDeque<Sample>, usize)> {
        let made = self.made.get_mut(usize::from(channel.0))?;
        let at = made.binary_search_by_key(&sequence, |sample| sample.sequence).ok()?;
        Some((made, at))
    }

    fn medium(&self, channel: ChannelId) -> Option<Medium> {
        self.media.get(usize::from(channel.0)).map(|(_, medium)| *medium)
    }
}

/// Writes what an agent shows into the books.
pub(super) struct Onlooker {
    pub(super) side: Side,
    pub(super) books: Books,
    pub(super) events: Events,
}

impl SessionObserver for Onlooker {
    fn on_event(&mut self, now: Time, event: Observed<'_>) {
        if let Some(note) = note(event) {
            let [first, second] = self.books.write(self.side, now, note);
            let mut events = self.events.borrow_mut();
            for event in [first, second].into_iter().flatten() {
                events.push_back(event);
            }
        }
    }
    fn reads_messages(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    const SCENARIO: &str = r#"title = "t"
duration = "1s"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "1ms" }]
[session]
operator = "a"
robot = "b"
[session.forward]
haptic = {}
"#;

    #[test]
    fn what_its_transport_gave_up_and_comes_all_the_same_is_delivered_once() {
        let scenario = Scenario::parse("t.toml", SCENARIO).unwrap();
        let (books, channel) = (Books::new(scenario.session.as_ref().unwrap()), ChannelId(0));
        let write = |side, note| {
            let [event, _] = books.write(side, Time::ZERO, note);
            event
        };
        let given_up = || write(Side::Opens, Note::Dropped(channel, 1, DropCause::Abandoned));
        let comes = || write(Side::Waits, Note::Came(channel, 1));
        write(Side::Opens, Note::Opened);
        write(Side::Opens, Note::Made(channel, 24, Ok(1)));
        assert!(matches!(given_up(), Some(NodeEvent::Dropped(_, DropCause::Abandoned))));
        assert!(matches!(comes(), Some(NodeEvent::Delivered(sample)) if sample.sequence == 1));
        assert!(matches!(comes(), Some(NodeEvent::Refused(_, DropCause::Duplicate))));
        assert!(given_up().is_none(), "it has arrived");
    }
}
