//! What could have been in time.

use taut_core::{Bytes, Duration, Link, Packet, PacketMeta, Seed, Time};
use taut_link::Chain;

use super::slot;
use crate::run::inputs::{Inputs, RunError};
use crate::run::links::{build_chain, directions};
use crate::scenario::{Commands, Scenario};

/// Knows what the links will do to a packet that is sent at any time over any of them, and could therefore choose path and
/// moment of a command's only copy.
///
/// He has links of his own, with the luck of the run's and nothing else on them. The run's may be as good and not better: what
/// was sent before makes a packet wait, and it is only burst losses (Gilbert–Elliott) and correlated jitter that depend on
/// the packets before; these he meets in their first state.
pub(super) struct Clairvoyant {
    paths: Vec<Chain>,
    slot: Duration,
    size: Bytes,
    deadline: Duration,
}

/// IPv4 and UDP: nothing sends a command in fewer bytes.
const HEADERS: u64 = 28;

impl Clairvoyant {
    /// `None` where the paths are not single links from the sender to the receiver.
    pub(super) fn new(
        scenario: &Scenario,
        commands: &Commands,
        seed: Seed,
        inputs: &mut Inputs,
    ) -> Result<Option<Self>, RunError> {
        let Some(slot) = slot(scenario) else { return Ok(None) };
        let mut paths = Vec::new();
        for (name, link) in &scenario.links {
            for way in directions(name, link) {
                if way.leads(&commands.from, &commands.to) {
                    let key = format!("links.{name}");
                    paths.push(build_chain(&link.chain, &way, &key, seed, Some(slot), inputs)?);
                }
            }
        }
        let count = usize::from(commands.paths);
        paths.truncate(count);
        let size = Bytes::new(HEADERS + commands.size.get());
        Ok((paths.len() == count).then_some(Self { paths, slot, size, deadline: commands.deadline }))
    }

    /// Is there a path and a moment at which a packet with the command leaves and is there before the command is worthless?
    /// Within a slot the first moment is the best: those are what it takes.
    pub(super) fn could_deliver(&self, created: Time) -> bool {
        let last = created + self.deadline;
        let length = self.slot.as_nanos();
        let next = created.as_nanos() / length + 1;
        let slots = (next..=last.as_nanos() / length).map(|slot| Time::from_nanos(slot * length));
        std::iter::once(created)
            .chain(slots)
            .any(|at| self.paths.iter().any(|path| arrives(path.clone(), at, self.size, last)))
    }
}

fn arrives(mut link: Chain, at: Time, size: Bytes, last: Time) -> bool {
    let meta = PacketMeta { sent: at, size, ..PacketMeta::default() };
    link.handle_input(at, Packet { meta, payload: Vec::new() });
    let mut now = at;
    loop {
        if let Some(packet) = link.poll_transmit(now) {
            return !packet.meta.corrupted;
        }
        match link.poll_timeout() {
            Some(deadline) if deadline.at <= last => now = deadline.at,
            _ => return false,
        }
        link.handle_timeout(now);
    }
}
