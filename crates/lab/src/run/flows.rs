//! Flows of packets: whose they are, and what their transports counted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use taut_core::{
    Address, Datagram, Deadline, Duration, Event, Message, SendError, Time, Transmit, Transport,
};
use taut_transport::dccp::DccpStats;
use taut_transport::etp::{EtpStats, Sampling};
use taut_transport::mpquic::MpQuicStats;
use taut_transport::mptcp::MptcpStats;
use taut_transport::mtip::MtipStats;
use taut_transport::quic::QuicStats;
use taut_transport::sctp::SctpStats;
use taut_transport::tcp::{Tcp, TcpStats};
use taut_transport::udp::UdpStats;

use crate::result::FlowOwner;

/// One flow of packets; its number is its place in the list of flows.
#[derive(Clone, Debug)]
pub(crate) struct FlowInfo {
    /// How results call it.
    pub(crate) name: String,
    /// Whose it is.
    pub(crate) owner: FlowOwner,
    /// What kind of traffic.
    pub(crate) kind: &'static str,
    /// The node that sends it.
    pub(crate) sender: Address,
    /// What its transport counted: empty before the run is over, and where there is no transport.
    pub(crate) counters: Counters,
}

/// Counts by name, shared between a transport inside the network and whoever reads them when it is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Rc<RefCell<BTreeMap<String, u64>>>);

impl Counters {
    /// What was counted; empties it.
    pub(crate) fn take(&self) -> BTreeMap<String, u64> {
        self.0.take()
    }
}

/// A transport that counts.
pub(super) trait Counts {
    /// What was counted so far, by name.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// A transport that leaves what it counted behind when it is dropped: the simulator drops its nodes at the end of a run. What one
/// after the other counts is added up.
pub(super) struct Counted<T: Transport + Counts> {
    transport: T,
    counters: Counters,
}

impl<T: Transport + Counts> Counted<T> {
    pub(super) fn new(transport: T, counters: Counters) -> Self {
        Self { transport, counters }
    }

    pub(super) fn inner(&self) -> &T {
        &self.transport
    }

    pub(super) fn inner_mut(&mut self) -> &mut T {
        &mut self.transport
    }
}

impl<T: Transport + Counts> Drop for Counted<T> {
    fn drop(&mut self) {
        let mut counters = self.counters.0.borrow_mut();
        for (name, count) in self.transport.counts() {
            *counters.entry(name.to_owned()).or_default() += count;
        }
    }
}

impl<T: Transport + Counts> Transport for Counted<T> {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        self.transport.send(now, message)
    }
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.transport.handle_input(now, input);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.transport.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.transport.poll_transmit(now, buffer)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.transport.poll_event()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.transport.poll_timeout()
    }
    fn close(&mut self, now: Time) {
        self.transport.close(now);
    }
    fn round_trip(&self) -> Option<Duration> {
        self.transport.round_trip()
    }
}

impl Counts for Tcp {
    fn counts(&self) -> Vec<(&'static str, u64)> {
        tcp(self.stats())
    }
}

pub(super) fn tcp(stats: TcpStats) -> Vec<(&'static str, u64)> {
    vec![
        ("segments_sent", stats.segments_sent),
        ("retransmitted", stats.retransmitted),
        ("fast_retransmits", stats.fast_retransmits),
        ("timeouts", stats.timeouts),
        ("recoveries", stats.recoveries),
        ("acks_sent", stats.acks_sent),
        ("duplicate_acks", stats.duplicate_acks),
        ("duplicate_segments", stats.duplicate_segments),
    ]
}

pub(super) fn udp(stats: UdpStats) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("refused", stats.refused),
    ]
}

pub(super) fn etp(stats: &EtpStats) -> Vec<(&'static str, u64)> {
    let mut counts = sampling(stats.sampling);
    counts.extend([
        ("gap_us", stats.gap.as_nanos() / 1_000),
        ("packets_sent", stats.packets_sent),
        ("packets_received", stats.packets_received),
        ("packets_missing", stats.packets_missing),
        ("feedback_sent", stats.feedback_sent),
        ("feedback_received", stats.feedback_received),
        ("refused", stats.refused),
    ]);
    counts
}

/// What a gap cost, over whatever transport.
pub(super) fn sampling(sampling: Sampling) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", sampling.offered),
        ("sent", sampling.sent),
        ("superseded", sampling.superseded),
        ("too_late", sampling.too_late),
        ("refused_below", sampling.refused_below),
    ]
}

pub(super) fn mtip(stats: &MtipStats) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("copies", stats.copies),
        ("copies_again", stats.again),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("duplicates", stats.duplicates),
        ("late", stats.late),
        ("refused", stats.refused),
    ]
}

pub(super) fn mpquic(stats: &MpQuicStats) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("copies", stats.copies),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("duplicates", stats.duplicates),
        ("refused", stats.refused),
    ]
}

pub(super) fn mptcp(stats: &MptcpStats) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", stats.offered),
        ("too_late", stats.too_late),
        ("pieces", stats.pieces),
        ("reinjected", stats.reinjected),
        ("received", stats.received),
        ("duplicates", stats.duplicates),
    ]
}

pub(super) fn quic(stats: &QuicStats) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("sent_early", stats.sent_early),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("refused", stats.refused),
        ("packets_sent", stats.packets_sent),
        ("packets_lost", stats.packets_lost),
    ]
}

pub(super) fn sctp(stats: &SctpStats) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", stats.offered),
        ("handed", stats.handed),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("abandoned", stats.abandoned),
        ("received", stats.received),
        ("refused", stats.refused),
        ("retransmitted_packets", stats.retransmitted_packets),
    ]
}

pub(super) fn dccp(stats: &DccpStats) -> Vec<(&'static str, u64)> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("packets_sent", stats.packets_sent),
        ("acks_sent", stats.acks_sent),
        ("lost", stats.lost),
        ("congestion_events", stats.congestion_events),
        ("timeouts", stats.timeouts),
    ]
}
