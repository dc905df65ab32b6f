//! Elements one after the other.

use std::collections::VecDeque;

use taut_core::{Backlog, Deadline, Link, LinkEvent, Packet, PacketMeta, Time};

use crate::frame_gate::Watch;
use crate::stage::Stage;
use crate::{Bottleneck, Corrupt, Cut, Delay, Duplicate, FrameGate, Jitter, Loss, Recorded};

/// A link made of elements.
///
/// A packet goes from one element straight to the next: it is moved, never copied or queued between them. The last
/// element is emptied by `poll_transmit` itself. One element alone is a chain of one: `Chain::from(delay)`. A chain
/// without elements gives every packet out at once.
#[derive(Clone, Debug)]
pub struct Chain {
    elements: Vec<Element>,
    sink: Sink,
    /// When the first of the elements but the last is due.
    inner_due: Time,
    /// When the first gate but the last element reads its queue. Nobody need be woken for that: what it reads changes only
    /// when something else is done, before which it catches up.
    gate_due: Time,
    /// When the last one is.
    last_due: Time,
}

/// One part of a [`Chain`].
#[derive(Clone, Debug)]
pub enum Element {
    /// Later, in order.
    Delay(Delay),
    /// Waiting and serialisation.
    Bottleneck(Bottleneck),
    /// Random loss.
    Loss(Loss),
    /// Later by a random length.
    Jitter(Jitter),
    /// Later, or not at all, as recorded.
    Recorded(Recorded),
    /// A second copy.
    Duplicate(Duplicate),
    /// A flipped bit.
    Corrupt(Corrupt),
    /// An outage.
    Cut(Cut),
    /// Whole video frames dropped before a queue.
    FrameGate(Box<FrameGate>),
}

impl Chain {
    /// The chain of `elements`, the first of which takes the packets in.
    pub fn new(mut elements: Vec<Element>) -> Self {
        let duplicates = elements.iter_mut().filter_map(|element| match element {
            Element::Duplicate(duplicate) => Some(duplicate),
            _ => None,
        });
        for (ordinal, duplicate) in duplicates.enumerate() {
            duplicate.set_ordinal(ordinal);
        }
        for index in 0..elements.len() {
            let (before, behind) = elements.split_at_mut(index + 1);
            if let Element::FrameGate(gate) = &before[index]
                && let Some(bottleneck) = behind.iter_mut().find_map(Element::as_bottleneck_mut)
            {
                bottleneck.watch(Watch::of(gate));
            }
        }
        let mut chain = Self {
            elements,
            sink: Sink::default(),
            inner_due: Time::MAX,
            gate_due: Time::MAX,
            last_due: Time::MAX,
        };
        chain.note_due();
        chain
    }

    /// Its bottlenecks, the one that packets reach first before the others.
    pub fn bottlenecks(&self) -> impl Iterator<Item = &Bottleneck> {
        self.elements.iter().filter_map(|element| match element {
            Element::Bottleneck(bottleneck) => Some(bottleneck),
            _ => None,
        })
    }

    /// Hands on what left the elements at or before `now`, but for the last one's, which `poll_transmit` takes.
    fn advance(&mut self, now: Time) {
        let mut rest = self.elements.as_mut_slice();
        while let Some((element, tail)) = rest.split_first_mut() {
            if !tail.is_empty() && element.due() <= now {
                match element {
                    Element::Delay(stage) => drain(stage, tail, &mut self.sink, now),
                    Element::Bottleneck(stage) => drain(stage, tail, &mut self.sink, now),
                    Element::Jitter(stage) => drain(stage, tail, &mut self.sink, now),
                    Element::Recorded(stage) => drain(stage, tail, &mut self.sink, now),
                    Element::Loss(_)
                    | Element::Duplicate(_)
                    | Element::Corrupt(_)
                    | Element::Cut(_)
                    | Element::FrameGate(_) => {}
                }
            }
            if let Element::FrameGate(gate) = element {
                catch_up(gate, tail, &mut self.sink, now);
            }
            rest = tail;
        }
        self.note_due();
    }

    #[inline]
    fn note_due(&mut self) {
        if let Some((last, inner)) = self.elements.split_last() {
            self.inner_due = inner.iter().map(Element::due).min().unwrap_or(Time::MAX);
            self.gate_due = inner.iter().map(Element::reads_at).min().unwrap_or(Time::MAX);
            self.last_due = last.due();
        }
    }
}

impl<E: Into<Element>> From<E> for Chain {
    fn from(element: E) -> Self {
        Self::new(vec![element.into()])
    }
}

impl Link for Chain {
    #[inline]
    fn handle_input(&mut self, now: Time, packet: Packet) {
        push(&mut self.elements, &mut self.sink, now, packet);
        self.note_due();
    }

    #[inline]
    fn handle_timeout(&mut self, now: Time) {
        if self.inner_due <= now || self.gate_due <= now {
            self.advance(now);
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.handle_timeout(now);
        if let Some(packet) = self.sink.out.pop_front() {
            return Some(packet);
        }
        while self.last_due <= now {
            let last = self.elements.last_mut()?;
            let packet = last.step(&mut self.sink.events);
            self.last_due = last.due();
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.sink.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        let at = self.inner_due.min(self.last_due);
        if at == Time::MAX {
            return None;
        }
        let first = self.elements.iter().find(|element| element.due() == at).and_then(Element::stage);
        Some(Deadline::new(at, first.map_or("never", Stage::why)))
    }

    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.elements.iter().filter_map(Element::stage).for_each(|stage| stage.visit_held(visit));
        self.sink.out.iter().for_each(|packet| visit(&packet.meta));
    }

    #[inline]
    fn queued(&self) -> Backlog {
        self.elements.iter().fold(Backlog::default(), |sum, element| sum + element.queued())
    }

    /// [`Discipline::counters`](crate::Discipline::counters) of its queue; of several, `queue0.…` and so on.
    fn counters(&self) -> Vec<(String, u64)> {
        let mut each: Vec<_> = self.bottlenecks().map(|bottleneck| bottleneck.queue().counters()).collect();
        if each.len() > 1 {
            for (i, (name, _)) in
                each.iter_mut().enumerate().flat_map(|(i, all)| all.iter_mut().map(move |one| (i, one)))
            {
                *name = format!("queue{i}.{name}");
            }
        }
        each.concat()
    }
}

impl Element {
    #[inline]
    fn due(&self) -> Time {
        match self {
            Self::Delay(stage) => stage.due(),
            Self::Bottleneck(stage) => stage.due(),
            Self::Jitter(stage) => stage.due(),
            Self::Recorded(stage) => stage.due(),
            Self::Loss(_) | Self::Duplicate(_) | Self::Corrupt(_) | Self::Cut(_) | Self::FrameGate(_) => {
                Time::MAX
            }
        }
    }

    #[inline]
    fn step(&mut self, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        match self {
            Self::Delay(stage) => stage.step(events),
            Self::Bottleneck(stage) => stage.step(events),
            Self::Jitter(stage) => stage.step(events),
            Self::Recorded(stage) => stage.step(events),
            Self::Loss(_) | Self::Duplicate(_) | Self::Corrupt(_) | Self::Cut(_) | Self::FrameGate(_) => None,
        }
    }

    /// As what holds packets, where speed does not matter.
    fn stage(&self) -> Option<&dyn Stage> {
        match self {
            Self::Delay(stage) => Some(stage),
            Self::Bottleneck(stage) => Some(stage),
            Self::Jitter(stage) => Some(stage),
            Self::Recorded(stage) => Some(stage),
            Self::Loss(_) | Self::Duplicate(_) | Self::Corrupt(_) | Self::Cut(_) | Self::FrameGate(_) => None,
        }
    }

    /// When it wants to read the queue behind it.
    #[inline]
    fn reads_at(&self) -> Time {
        match self {
            Self::FrameGate(gate) => gate.due(),
            _ => Time::MAX,
        }
    }

    fn as_bottleneck_mut(&mut self) -> Option<&mut Bottleneck> {
        match self {
            Self::Bottleneck(stage) => Some(stage),
            _ => None,
        }
    }

    /// Only a bottleneck has a queueing discipline.
    #[inline]
    fn queued(&self) -> Backlog {
        match self {
            Self::Bottleneck(stage) => stage.queued(),
            _ => Backlog::default(),
        }
    }
}

macro_rules! element_from {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Element {
            fn from(element: $kind) -> Self {
                Self::$kind(element)
            }
        }
    )*};
}
impl From<FrameGate> for Element {
    fn from(gate: FrameGate) -> Self {
        Self::FrameGate(Box::new(gate))
    }
}
element_from!(Delay, Bottleneck, Loss, Jitter, Recorded, Duplicate, Corrupt, Cut);

/// Where packets and events end up that left the chain.
#[derive(Clone, Debug, Default)]
struct Sink {
    out: VecDeque<Packet>,
    events: Vec<LinkEvent>,
    events_read: usize,
}

impl Sink {
    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        if self.events.is_empty() {
            return None;
        }
        let event = self.events.get(self.events_read).copied();
        self.events_read += 1;
        if event.is_none() {
            self.events.clear();
            self.events_read = 0;
        }
        event
    }
}

/// A packet enters the first of `elements` at `at`.
#[inline]
fn push(elements: &mut [Element], sink: &mut Sink, at: Time, mut packet: Packet) {
    let mut rest = elements;
    while let Some((element, tail)) = rest.split_first_mut() {
        match element {
            Element::Delay(stage) => return enter(stage, tail, sink, at, packet),
            Element::Bottleneck(stage) => return enter(stage, tail, sink, at, packet),
            Element::Jitter(stage) => return enter(stage, tail, sink, at, packet),
            Element::Recorded(stage) => return enter(stage, tail, sink, at, packet),
            Element::Loss(loss) => {
                if loss.takes(at, &packet.meta, &mut sink.events) {
                    return;
                }
            }
            Element::Cut(cut) => {
                if cut.takes(at, &packet.meta, &mut sink.events) {
                    return;
                }
            }
            Element::FrameGate(gate) => {
                catch_up(gate, tail, sink, at);
                if gate.takes(at, &packet, &mut sink.events) {
                    return;
                }
            }
            Element::Corrupt(corrupt) => corrupt.touch(&mut packet, &mut sink.events),
            Element::Duplicate(duplicate) => {
                if let Some(copy) = duplicate.copy_of(&packet, &mut sink.events) {
                    push(tail, sink, at, packet);
                    packet = copy;
                }
            }
        }
        rest = tail;
    }
    sink.out.push_back(packet);
}

/// A packet enters `stage`, after all that left it until then.
#[inline]
fn enter(stage: &mut impl Stage, tail: &mut [Element], sink: &mut Sink, at: Time, packet: Packet) {
    drain(stage, tail, sink, at);
    stage.push(at, packet, &mut sink.events);
}

/// Hands what left `stage` at or before `now` to the elements after it, each packet as of when it left.
#[inline]
fn drain(stage: &mut impl Stage, tail: &mut [Element], sink: &mut Sink, now: Time) {
    while stage.due() <= now {
        let at = stage.due();
        if let Some(packet) = stage.step(&mut sink.events) {
            push(tail, sink, at, packet);
        }
    }
}

/// The readings that `gate` should have taken at or before `now`, each with the elements behind it as they were then.
fn catch_up(gate: &mut FrameGate, tail: &mut [Element], sink: &mut Sink, now: Time) {
    while gate.due() <= now {
        let at = gate.due();
        let mut rest = &mut *tail;
        while let Some((element, behind)) = rest.split_first_mut() {
            match element {
                Element::Delay(stage) => drain(stage, behind, sink, at),
                Element::Bottleneck(stage) => drain(stage, behind, sink, at),
                Element::Jitter(stage) => drain(stage, behind, sink, at),
                Element::Recorded(stage) => drain(stage, behind, sink, at),
                Element::FrameGate(next) => catch_up(next, behind, sink, at),
                Element::Loss(_) | Element::Duplicate(_) | Element::Corrupt(_) | Element::Cut(_) => {}
            }
            rest = behind;
        }
        let reading = tail.iter_mut().find_map(Element::as_bottleneck_mut).map(|stage| stage.reading(gate));
        gate.tick(reading.unwrap_or_default());
    }
}
