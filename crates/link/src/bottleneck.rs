//! A queue and the server that empties it.

use taut_core::{Backlog, Duration, LinkEvent, Packet, PacketMeta, Queue, Time};

use crate::frame_gate::{QueueReading, Watch};
use crate::mahimahi::{MahimahiTrace, Opportunities};
use crate::rate::Serializer;
use crate::stage::Stage;
use crate::{Discipline, FrameGate, Rate, Schedule};

/// A network device: packets wait in a [`Discipline`] and are serialised one after the other at a [`Rate`].
///
/// The packet in service is not in the queue, as in ns-3's `PointToPointNetDevice` and in Linux: a queue with a limit
/// of ten holds ten besides it. Every packet passes through the queue, even when the server is idle.
///
/// With a fixed rate or a table, a packet leaves when its last bit has been sent. With a trace ([`MahimahiTrace`]) it
/// leaves at the opportunity that takes its last byte, as in mahimahi's `mm-link`: several packets may share an
/// opportunity, a packet that is larger than what is left goes on with the next one, and what is left when nothing
/// waits is wasted. A packet that arrives at the very time of an opportunity has missed it.
///
/// ```
/// use taut_core::{Bitrate, Bytes};
/// use taut_link::{Bottleneck, DropTail, MahimahiTrace};
/// let fixed = Bottleneck::new("6Mbit".parse::<Bitrate>()?, DropTail::default().limit_bytes(Bytes::new(14_000)));
/// let cellular = Bottleneck::new(MahimahiTrace::parse("1\n3\n3\n8\n")?, DropTail::default());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bottleneck {
    queue: Discipline,
    server: Server,
    in_service: Option<Packet>,
    /// When the packet in service ends, when the next opportunity is, or when the queue may give out a packet.
    due: Time,
    /// For the gates before it.
    watches: Vec<Watch>,
}

#[derive(Clone, Debug)]
enum Server {
    Serial(Serializer),
    Trace {
        opportunities: Opportunities,
        /// Bytes left of the opportunity at `due`; 0 before it is begun.
        credit: u64,
        /// Bytes left of the packet in service.
        left: u64,
    },
}

impl Bottleneck {
    /// `queue`, emptied at `rate`.
    pub fn new(rate: impl Into<Rate>, queue: impl Into<Discipline>) -> Self {
        let server = match rate.into() {
            Rate::Fixed(rate) => Server::Serial(Serializer::new(Schedule::constant(rate))),
            Rate::Table(table) => Server::Serial(Serializer::new(table)),
            Rate::Trace(trace) => {
                Server::Trace { opportunities: Opportunities::new(trace), credit: 0, left: 0 }
            }
        };
        Self { queue: queue.into(), server, in_service: None, due: Time::MAX, watches: Vec::new() }
    }

    /// What decides who waits, goes next and is dropped.
    pub const fn queue(&self) -> &Discipline {
        &self.queue
    }

    /// What waits: the packet in service does not.
    #[inline]
    pub(crate) fn queued(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Keeps account for a gate.
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.watches.push(watch);
    }

    /// What became of the packets that `gate` watches.
    pub(crate) fn reading(&self, gate: &FrameGate) -> QueueReading {
        let watch = self.watches.iter().find(|watch| watch.is_of(gate));
        watch.map(Watch::reading).unwrap_or_default()
    }

    /// Begins the packet in service at `at`, or finds out when to ask the queue again.
    #[inline]
    fn serve(&mut self, at: Time) {
        let Server::Serial(serializer) = &mut self.server else { return };
        self.due = match &self.in_service {
            Some(packet) => serializer.finish(at, packet.meta.size),
            // A shaping discipline may refuse for a while. Asking it again at the same time would never end.
            None => self
                .queue
                .poll_timeout()
                .map_or(Time::MAX, |deadline| deadline.at.max(at + Duration::from_nanos(1))),
        };
    }

    /// Goes on with the opportunity at `at` until one packet is finished or the opportunity is used up.
    fn use_opportunity(&mut self, at: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        let Server::Trace { opportunities, credit, left } = &mut self.server else { return None };
        if *credit == 0 {
            *credit = MahimahiTrace::OPPORTUNITY_BYTES;
            opportunities.advance();
        }
        if self.in_service.is_none() {
            self.in_service = self.queue.dequeue(at, events);
            *left = self.in_service.as_ref().map_or(*credit, |packet| packet.meta.size.get());
        }
        let used = (*left).min(*credit);
        *left -= used;
        *credit -= used;
        let finished = if *left == 0 { self.in_service.take() } else { None };
        if self.in_service.is_none() && self.queue.backlog().packets == 0 {
            *credit = 0;
            self.due = Time::MAX;
        } else if *credit == 0 {
            self.due = opportunities.next_at();
        }
        finished
    }
}

impl Stage for Bottleneck {
    #[inline]
    fn push(&mut self, at: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        let told = events.len();
        self.watches.iter_mut().for_each(|watch| watch.entered(&packet.meta));
        match &mut self.server {
            _ if self.in_service.is_some() => self.queue.enqueue(at, packet, events),
            Server::Serial(_) => {
                self.in_service = self.queue.pass(at, packet, events);
                self.serve(at);
            }
            Server::Trace { opportunities, .. } => {
                if self.queue.backlog().packets == 0 {
                    opportunities.skip_until(at);
                }
                self.queue.enqueue(at, packet, events);
                let waits = self.queue.backlog().packets > 0;
                self.due = if waits { opportunities.next_at() } else { Time::MAX };
            }
        }
        self.watches.iter_mut().for_each(|watch| watch.heard(&events[told..]));
    }

    #[inline]
    fn due(&self) -> Time {
        self.due
    }

    #[inline]
    fn step(&mut self, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        let (at, told) = (self.due, events.len());
        let finished = match &self.server {
            Server::Serial(_) => {
                let finished = std::mem::replace(&mut self.in_service, self.queue.dequeue(at, events));
                self.serve(at);
                finished
            }
            Server::Trace { .. } => self.use_opportunity(at, events),
        };
        for watch in &mut self.watches {
            watch.heard(&events[told..]);
            finished.iter().for_each(|packet| watch.left(&packet.meta));
        }
        finished
    }

    fn why(&self) -> &'static str {
        match &self.server {
            Server::Trace { .. } => "delivery opportunity",
            Server::Serial(_) if self.in_service.is_some() => "serialised",
            Server::Serial(_) => self.queue.poll_timeout().map_or("never", |deadline| deadline.why),
        }
    }

    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.queue.visit(visit);
        self.in_service.iter().for_each(|packet| visit(&packet.meta));
    }
}
