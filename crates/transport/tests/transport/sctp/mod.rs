//! Two SCTP endpoints over a network in virtual time.

mod emergency;
mod hostile;
mod promises;
mod streams;
mod wireshark;

use crate::net::{MS, Net};
use taut_core::{Duration, Message, Priority, Reliability, Seed, SendError, StreamId, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::sctp::{Sctp, SctpConfig};

pub(crate) fn pair(config: SctpConfig, delay: Duration, seed: u64) -> Net<Sctp> {
    let entropy = |name| Entropy::seeded(Seed::new(seed), name);
    Net::new([Sctp::client(config, entropy("client")), Sctp::server(config, entropy("server"))], delay, seed)
}

/// Connected, 10 ms apart, at one second.
pub(crate) fn connected(config: SctpConfig) -> Net<Sctp> {
    let mut net = pair(config, MS * 10, 1);
    net.run_for(MS * 1_000);
    assert!(net.connected_at(0).is_some() && net.connected_at(1).is_some());
    net
}

/// A message of `size` bytes that begins with the time of its making.
pub(crate) fn stamped(net: &Net<Sctp>, size: usize) -> Message {
    let mut data = net.now.as_nanos().to_be_bytes().to_vec();
    data.resize(size.max(8), 0);
    Message { data, created: net.now, ..Message::default() }
}

/// 75 bytes, unreliable, on stream 2.
pub(crate) fn sample(net: &Net<Sctp>) -> Message {
    Message { stream: StreamId(2), priority: Priority(2), ..stamped(net, 75) }
}

/// Reliable, on that stream.
pub(crate) fn command(net: &Net<Sctp>, stream: u16, size: usize) -> Message {
    let reliability = Reliability::Reliable;
    Message { stream: StreamId(stream), priority: Priority(1), reliability, ..stamped(net, size) }
}

pub(crate) fn offer(net: &mut Net<Sctp>, end: usize, message: Message) -> Result<(), SendError> {
    let result = net.ends[end].send(net.now, message);
    net.drain(end);
    result
}

/// The ages of what arrived, sorted.
pub(crate) fn ages(net: &Net<Sctp>, end: usize) -> Vec<Duration> {
    let made = |data: &[u8]| u64::from_be_bytes(data[..8].try_into().expect("a stamp"));
    let mut ages: Vec<Duration> =
        net.received(end).map(|(at, data)| Duration::from_nanos(at.as_nanos() - made(data))).collect();
    ages.sort_unstable();
    ages
}
