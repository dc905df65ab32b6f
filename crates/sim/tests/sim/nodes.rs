//! Nodes and observers that the tests are made of.

use std::cell::RefCell;
use std::rc::Rc;

use taut_core::{Address, Bytes, Deadline, Duration, Node, NodeEvent, Packet, PacketMeta, PathId, Time};
use taut_link::{Chain, Delay, Element};
use taut_sim::Observer;

/// Sends these packets, each at its own clock's time, and writes down its clock whenever it is called.
pub(crate) struct Script {
    pub(crate) to: Address,
    pub(crate) packets: Vec<(Duration, PathId)>,
    pub(crate) next: usize,
    pub(crate) readings: Readings,
}

/// What a node's own clock read: at each packet sent and received.
pub(crate) type Readings = Rc<RefCell<Vec<Time>>>;

impl Script {
    pub(crate) fn new(to: Address, packets: Vec<(Duration, PathId)>) -> (Self, Readings) {
        let readings = Readings::default();
        (Self { to, packets, next: 0, readings: readings.clone() }, readings)
    }
}

impl Node for Script {
    fn handle_input(&mut self, now: Time, _packet: Packet) {
        self.readings.borrow_mut().push(now);
    }
    fn handle_timeout(&mut self, _now: Time) {}
    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let (at, path) = *self.packets.get(self.next)?;
        if Time::ZERO + at > now {
            return None;
        }
        self.next += 1;
        self.readings.borrow_mut().push(now);
        let meta = PacketMeta { size: Bytes::new(100), destination: self.to, path, ..PacketMeta::default() };
        Some(Packet { meta, payload: vec![7; 20] })
    }
    fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.packets.get(self.next).map(|(at, _)| Deadline::new(Time::ZERO + *at, "script"))
    }
}

/// Answers every packet at once.
pub(crate) struct Echo {
    pub(crate) to: Address,
    pub(crate) waiting: u64,
}

impl Node for Echo {
    fn handle_input(&mut self, _now: Time, _packet: Packet) {
        self.waiting += 1;
    }
    fn handle_timeout(&mut self, _now: Time) {}
    fn poll_transmit(&mut self, _now: Time) -> Option<Packet> {
        self.waiting = self.waiting.checked_sub(1)?;
        let meta = PacketMeta { size: Bytes::new(100), destination: self.to, ..PacketMeta::default() };
        Some(Packet { meta, payload: Vec::new() })
    }
    fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// When each packet arrived, where, and by which of the paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals(pub(crate) Vec<(Time, Address, PathId)>);

impl Observer for Arrivals {
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        self.0.push((now, node, packet.meta.path));
    }
}

/// Nothing but propagation.
pub(crate) fn wire(millis: u64) -> Box<Chain> {
    Box::new(Chain::new(vec![Element::from(Delay::new(Duration::from_millis(millis)))]))
}

pub(crate) fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}
