//! Packets over time, each belonging to a flow.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use taut_core::{Bytes, Time};

use crate::CapturedDatagram;
use crate::error::Problem;
use crate::file::Names;

/// Packets or messages over time. Times never go back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packets {
    start_ns: i64,
    rows: Vec<PacketRow>,
    flows: Vec<Flow>,
}

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRow {
    /// When it was captured, since the first packet.
    pub time: Time,
    /// Its length. From a capture: the IP packet without its link's header, also where less of it was captured. From MCAP:
    /// the message.
    pub size: Bytes,
    /// Index into [`Packets::flows`].
    pub flow: u32,
}

/// What packets have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// Protocol, addresses and ports.
    Tuple(FiveTuple),
    /// A topic, or what there is to say about packets that are not IP.
    Named(String),
}

/// Protocol, addresses and ports, displayed as `udp 10.0.0.1:5000 > 10.0.0.2:6000`. Ports are 0 where the protocol has
/// none, and in fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FiveTuple {
    /// IP protocol number (IANA).
    pub protocol: u8,
    /// Where it comes from.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
}

impl Packets {
    /// The packets in the order of their times. At one and the same time the order stays.
    pub(crate) fn new(captured: Captured) -> Self {
        let Captured { mut packets, flows: found, .. } = captured;
        packets.sort_by_key(|(time_ns, ..)| *time_ns);
        let start_ns = packets.first().map_or(0, |(time_ns, ..)| *time_ns);
        let mut flows = Vec::with_capacity(found.len());
        let mut numbers = vec![None; found.len()];
        let row = |(time_ns, size, flow): (i64, Bytes, u32)| {
            let flow = *numbers[flow as usize].get_or_insert_with(|| {
                flows.push(found[flow as usize].clone());
                flows.len() as u32 - 1
            });
            PacketRow { time: Time::from_nanos(time_ns.abs_diff(start_ns)), size, flow }
        };
        let rows = packets.into_iter().map(row).collect();
        Self { start_ns, rows, flows }
    }

    /// Every packet, in the order of time.
    pub fn rows(&self) -> &[PacketRow] {
        &self.rows
    }

    /// Every flow, in the order of its first packet.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The recorder's own clock at time zero here, in nanoseconds.
    pub fn start_ns(&self) -> i64 {
        self.start_ns
    }

    /// All lengths together.
    pub fn bytes(&self) -> Bytes {
        self.rows.iter().fold(Bytes::ZERO, |sum, row| sum + row.size)
    }
}

/// Packets as a reader finds them: times on the recorder's clock, maybe not in order.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    packets: Vec<(i64, Bytes, u32)>,
    flows: Vec<Flow>,
    known: BTreeMap<Flow, u32>,
    names: Names,
    out_of_order: u64,
    sightings: Sightings,
    /// Where these are asked for; times as of `packets`.
    datagrams: Option<Vec<(i64, CapturedDatagram)>>,
}

/// Which IPv4 packets were captured where, so that one that passed several interfaces counts once.
#[derive(Debug, Default)]
struct Sightings {
    /// Of each identity, the interface and the time (ns) where it was seen first.
    first: BTreeMap<Identity, (u32, i64)>,
    again: u64,
}

/// What tells an IPv4 packet from the others that its sender has under way (RFC 6864 section 4): addresses, protocol and
/// identification; its length, too, because a sender of atomic datagrams need not keep the identification unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
    pub(crate) protocol: u8,
    pub(crate) identification: u16,
    pub(crate) length: u16,
}

/// How long a packet may be under way, in nanoseconds: the maximum datagram lifetime of RFC 6864 section 3.
const LIFETIME_NS: u64 = 120_000_000_000;

/// Bytes of a UDP header (RFC 768).
const UDP_HEADER: usize = 8;

impl Captured {
    pub(crate) fn with_datagrams() -> Self {
        Self { datagrams: Some(Vec::new()), ..Self::default() }
    }

    /// `length` is what the header says, with the header; 0 where the sender left it to its network card.
    pub(crate) fn push_datagram(&mut self, time_ns: i64, flow: FiveTuple, length: usize, payload: &[u8]) {
        if let Some(datagrams) = &mut self.datagrams {
            let length = Bytes::new(length.saturating_sub(UDP_HEADER).max(payload.len()) as u64);
            datagrams.push((
                time_ns,
                CapturedDatagram { time: Time::ZERO, flow, length, payload: payload.to_vec() },
            ));
        }
    }

    /// In the order of time, which begins with the capture's first packet.
    pub(crate) fn into_datagrams(self) -> Vec<CapturedDatagram> {
        let start_ns = self.packets.iter().map(|(time_ns, ..)| *time_ns).min().unwrap_or(0);
        let mut datagrams = self.datagrams.unwrap_or_default();
        datagrams.sort_by_key(|(time_ns, _)| *time_ns);
        let timed = |(time_ns, datagram): (i64, CapturedDatagram)| CapturedDatagram {
            time: Time::from_nanos(time_ns.abs_diff(start_ns)),
            ..datagram
        };
        datagrams.into_iter().map(timed).collect()
    }

    /// # Errors
    /// When the names of flows take too much.
    pub(crate) fn push(&mut self, time_ns: i64, size: u64, flow: Flow) -> Result<(), Problem> {
        let next = self.flows.len() as u32;
        let index = match self.known.get(&flow) {
            Some(index) => *index,
            None => {
                if let Flow::Named(name) = &flow {
                    self.names.keep(name.len())?;
                }
                self.flows.push(flow.clone());
                self.known.insert(flow, next);
                next
            }
        };
        self.out_of_order += u64::from(self.last_ns().is_some_and(|last| time_ns < last));
        self.packets.push((time_ns, Bytes::new(size), index));
        Ok(())
    }

    /// Whether this packet was captured at another interface already; then it is noted, and not to be pushed.
    pub(crate) fn seen_elsewhere(&mut self, identity: Identity, interface: u32, time_ns: i64) -> bool {
        let first = self.sightings.first.entry(identity).or_insert((interface, time_ns));
        let elsewhere = first.0 != interface && time_ns.abs_diff(first.1) <= LIFETIME_NS;
        if elsewhere {
            self.sightings.again += 1;
        } else {
            *first = (interface, time_ns);
        }
        elsewhere
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn last_ns(&self) -> Option<i64> {
        self.packets.last().map(|(time_ns, ..)| *time_ns)
    }

    /// A sentence when packets were not in the order of time, and one when some were seen at several interfaces.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let (count, again) = (self.out_of_order, self.sightings.again);
        let order =
            (count > 0).then(|| format!("packets that were not in the order of time, put in order: {count}"));
        let places = (again > 0).then(|| {
            format!("packets seen at another interface before, counted where they were first: {again}")
        });
        order.into_iter().chain(places)
    }
}

/// Protocol numbers with names (IANA, *Assigned Internet Protocol Numbers*).
const PROTOCOLS: [(u8, &str); 8] = [
    (1, "icmp"),
    (2, "igmp"),
    (6, "tcp"),
    (17, "udp"),
    (33, "dccp"),
    (50, "esp"),
    (58, "icmpv6"),
    (132, "sctp"),
];

impl fmt::Display for FiveTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(number, _)| *number == self.protocol) {
            Some((_, name)) => f.write_str(name)?,
            None => write!(f, "ip-{}", self.protocol)?,
        }
        write!(f, " {} > {}", self.source, self.destination)
    }
}

impl FiveTuple {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let protocol = words.next()?;
        let named = PROTOCOLS.iter().find(|(_, name)| *name == protocol).map(|(number, _)| *number);
        let protocol = named.or_else(|| protocol.strip_prefix("ip-")?.parse().ok())?;
        let source = words.next()?.parse().ok()?;
        let destination =
            words.next().filter(|word| *word == ">").and_then(|_| words.next())?.parse().ok()?;
        Some(Self { protocol, source, destination })
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tuple(tuple) => tuple.fmt(f),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl From<&str> for Flow {
    /// The flow that is displayed as `text`, without blanks around it.
    fn from(text: &str) -> Self {
        // Only the text that it is displayed as: whatever else is a name must stay as it is.
        match FiveTuple::parse(text) {
            Some(tuple) if tuple.to_string() == text => Self::Tuple(tuple),
            _ => Self::Named(text.trim().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_as_they_are_displayed() {
        for text in
            ["udp 10.0.0.1:5000 > 10.0.0.2:6000", "ip-47 [fe80::1]:0 > [::1]:0", "arp", "/camera (cdr)"]
        {
            assert_eq!(Flow::from(text).to_string(), text);
        }
        assert!(
            matches!(Flow::from("tcp 1.2.3.4:5 > 6.7.8.9:10"), Flow::Tuple(tuple) if tuple.protocol == 6)
        );
        assert!(matches!(Flow::from("ip-6 1.2.3.4:5 > 6.7.8.9:10"), Flow::Named(_)));
    }
}
