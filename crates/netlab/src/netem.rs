//! The kernel's queueing disciplines between the two ends.

use std::net::IpAddr;

use taut_core::DropCause;
use taut_io::Clock;
use taut_lab::run::{Hop, PathEnds, Qdiscs, RunError, Way, qdiscs};
use taut_lab::scenario::Scenario;
use taut_xdp::Status;

use crate::between::{Joined, Middle, Network, Path};
use crate::gate::RunningGate;
use crate::{Dumbbell, Namespace, NamespaceError, RealError, Toward};

const HOPS: [Hop; 3] = [Hop::Host, Hop::Near, Hop::Far];
/// A packet's Ethernet header.
const ETHERNET: u64 = 14;

/// Two hosts, and on each path two routers, whose devices have the qdiscs of the scenario's links.
pub(crate) fn join(scenario: &Scenario) -> Result<Joined, RealError> {
    let ways = qdiscs(scenario)?;
    let PathEnds { of, ends, paths: count } = PathEnds::of(scenario)?;
    let dumbbell = Dumbbell::new(count)?;
    let (mut gates, mut drops) = (Vec::new(), vec![[""; 2]; usize::from(count)]);
    for (toward, from) in [Toward::There, Toward::Back].into_iter().zip(ends) {
        let mut parallel = ways.iter().filter(|way| way.from == from).peekable();
        // Cross traffic that nobody answers needs no way back.
        if (of, toward, parallel.peek()) == ("links", Toward::Back, None) {
            continue;
        }
        for path in 0..count {
            let way = parallel.next().ok_or_else(|| RunError::Key {
                key: "links".to_owned(),
                message: "the kernel needs a link there and one back for every path".to_owned(),
            })?;
            let devices = dumbbell.devices(path, toward);
            let queue = devices[1].1.clone();
            drops[usize::from(path)][toward as usize] = way.drops;
            install(way, devices)?;
            if let Some(gate) = &way.gate {
                gates.push((
                    path,
                    toward,
                    RunningGate::start(gate, dumbbell.entrance(path, toward), &queue)?,
                ));
            }
        }
    }
    let paths = (0..count).map(|path| {
        let [operator, robot] = Dumbbell::addresses(path).map(IpAddr::V4);
        Path { device: Dumbbell::device(path), operator, robot }
    });
    // Namespaces are descriptors: these are the same ones.
    let (operator, robot) = (dumbbell.a().share()?, dumbbell.b().share()?);
    let network = Network { operator, robot, paths: paths.collect(), clock: Clock::start() };
    Ok((network, Box::new(Disciplines { gates, drops, dumbbell })))
}

fn install(way: &Qdiscs, devices: [(&Namespace, String); 3]) -> Result<(), RealError> {
    for (hop, (namespace, device)) in HOPS.into_iter().zip(devices) {
        for arguments in way.commands(hop, &device) {
            namespace.tc(&arguments).map_err(|error| match error {
                NamespaceError::Command { .. } => RealError::Qdisc(error),
                error => error.into(),
            })?;
        }
    }
    Ok(())
}

struct Disciplines {
    /// Of a path, on a way.
    gates: Vec<(u8, Toward, RunningGate)>,
    /// Of each path, why the queue drops there and back.
    drops: Vec<[&'static str; 2]>,
    dumbbell: Dumbbell,
}

impl Middle for Disciplines {
    fn stop(mut self: Box<Self>) -> Result<Vec<[Way; 2]>, RealError> {
        let stop = |(path, toward, gate): (u8, Toward, RunningGate)| Ok((path, toward, gate.stop()?));
        let gates: Vec<(u8, Toward, Status)> =
            std::mem::take(&mut self.gates).into_iter().map(stop).collect::<Result<_, RealError>>()?;
        let mut ways = self.carried()?;
        for (path, toward, status) in gates {
            gated(&mut ways[usize::from(path)][toward as usize], &status);
        }
        Ok(ways)
    }

    fn carried(&self) -> Result<Vec<[Way; 2]>, RealError> {
        let carried = |(path, drops): (u8, &[&str; 2])| {
            let [there, back] =
                [Toward::There, Toward::Back].map(|toward| self.dumbbell.devices(path, toward));
            Ok([carried(&there, &back[0], drops[0])?, carried(&back, &there[0], drops[1])?])
        };
        (0..).zip(&self.drops).map(carried).collect()
    }
}

/// Packets and bytes that entered a way whose first device sent so much, and dropped packets that it never sent: these were as long as the
/// others, in the mean.
fn entered(sent: (u64, u64), before: u64) -> (u64, u64) {
    let (packets, bytes) = (sent.0 + before, ip_bytes(sent));
    let bytes = (u128::from(bytes) * u128::from(packets)).checked_div(u128::from(sent.0)).unwrap_or(0);
    (packets, bytes as u64)
}

/// Without their Ethernet headers.
fn ip_bytes((packets, bytes): (u64, u64)) -> u64 {
    bytes.saturating_sub(ETHERNET * packets)
}

/// What the devices on a way, and the one at which it ends, have counted, the last of them first: what has left had entered.
fn carried(
    way: &[(&Namespace, String); 3],
    end: &(&Namespace, String),
    drops: &str,
) -> Result<Way, RealError> {
    let [received, _] = counters(end.0, &end.1)?;
    let [before, queue, after] = way.each_ref().map(|(namespace, device)| dropped(namespace, device));
    let (before, lost) = (before?, after?);
    let [_, sent] = counters(way[0].0, &way[0].1)?;
    let causes = [(DropCause::Loss.name(), before + lost), (drops, queue?)];
    let (entered, entered_bytes) = entered(sent, before);
    Ok(Way {
        entered,
        entered_bytes,
        left: received.0,
        left_bytes: ip_bytes(received),
        dropped: causes
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(cause, count)| (cause.to_owned(), count))
            .collect(),
        ..Way::default()
    })
}

/// Adds what a gate did on this way.
fn gated(way: &mut Way, status: &Status) {
    let dropped: u64 = status.streams.iter().map(|stream| stream.dropped_packets).sum();
    way.dropped.insert(DropCause::Gated.name().to_owned(), dropped);
    way.counters.insert("gate_untracked".to_owned(), status.untracked_packets);
}

/// (Packets, bytes) that a device has received and sent.
fn counters(namespace: &Namespace, device: &str) -> Result<[(u64, u64); 2], NamespaceError> {
    // RX: and TX: stand above the numbers, bytes first, then packets.
    let text = namespace.ip(&format!("-s link show dev {device}"))?;
    let numbers = |above: &str| {
        let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with(above)).skip(1);
        let mut words =
            lines.next().unwrap_or_default().split_whitespace().map(|word| word.parse().unwrap_or(0));
        let bytes = words.next().unwrap_or(0);
        (words.next().unwrap_or(0), bytes)
    };
    Ok([numbers("RX:"), numbers("TX:")])
}

/// Packets that a device's innermost qdiscs have dropped: each is counted by those around it as well.
fn dropped(namespace: &Namespace, device: &str) -> Result<u64, NamespaceError> {
    let text = namespace.tc(&format!("-s qdisc show dev {device}"))?;
    let counts = text.split("(dropped ").skip(1).map(|rest| {
        rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    });
    Ok(counts.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of ten packets of 100 bytes two are lost before the device counts what it sends.
    #[test]
    fn bytes_of_packets_that_are_lost_before_they_are_counted_have_entered_too() {
        assert_eq!(entered((8, 8 * (100 + ETHERNET)), 2), (10, 1_000));
        assert_eq!(entered((0, 0), 3), (3, 0), "of these nobody knows how long they were");
    }
}
