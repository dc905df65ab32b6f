//! The independent checker of conservation: no packet vanishes, none appears from nowhere.
//!
//! It shares no counter with the links or nodes that it checks. Besides counting, it adds up a hash of every packet's
//! identity at each place, so that one packet lost and another delivered twice do not cancel out. What is still inside
//! at the end it counts itself, packet by packet.

use std::collections::BTreeMap;

use taut_core::{Address, DropCause, LinkEvent, Packet, PacketMeta, Time};

use crate::observer::{LinkId, Observer};

/// Counts packets and sums their identities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    packets: u64,
    bytes: u64,
    identities: u64,
}

impl Tally {
    fn add(&mut self, meta: &PacketMeta) {
        self.packets += 1;
        self.bytes = self.bytes.wrapping_add(meta.size.get());
        self.identities = self.identities.wrapping_add(identity(meta));
    }

    fn of(metas: &[PacketMeta]) -> Self {
        let mut tally = Self::default();
        metas.iter().for_each(|meta| tally.add(meta));
        tally
    }

    fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes.wrapping_add(other.bytes),
            identities: self.identities.wrapping_add(other.identities),
        }
    }
}

/// A hash of (id, copy): the finaliser of SplitMix64.
fn identity(meta: &PacketMeta) -> u64 {
    let mut z = meta.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(meta.copy) << 56);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Debug, Default)]
struct LinkTally {
    entered: Tally,
    left: Tally,
    duplicated: Tally,
    dropped: Tally,
    corrupted: u64,
    by_cause: [u64; DropCause::ALL.len()],
}

/// Watches a run and closes its books at the end.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    sent: Tally,
    delivered: Tally,
    links: Vec<LinkTally>,
    /// The latest time seen.
    latest: Time,
    backwards: u64,
}

/// What the books say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that nodes sent.
    pub sent: u64,
    /// Packets that nodes received.
    pub delivered: u64,
    /// Copies that links made.
    pub duplicated: u64,
    /// Inside links at the end.
    pub held: u64,
    /// Dropped in links, by the name of the cause.
    pub dropped: BTreeMap<String, u64>,
    /// Link by link, in the order of their numbers.
    pub links: Vec<LinkAccount>,
    /// What does not add up, in words; empty when all is well.
    pub violations: Vec<String>,
}

/// One link's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkAccount {
    /// Packets that entered.
    pub entered: u64,
    /// Packets that left.
    pub left: u64,
    /// Bytes that left.
    pub bytes_left: u64,
    /// Copies made inside.
    pub duplicated: u64,
    /// Packets in which a bit was flipped.
    pub corrupted: u64,
    /// Inside at the end.
    pub held: u64,
    /// Dropped inside, by the name of the cause.
    pub dropped: BTreeMap<String, u64>,
}

impl Ledger {
    /// Closes the books, given the packets that each link still holds, in the order of the links.
    pub fn close(mut self, held: &[Vec<PacketMeta>]) -> Account {
        self.links.resize(self.links.len().max(held.len()), LinkTally::default());
        let mut tallies: Vec<Tally> = held.iter().map(|metas| Tally::of(metas)).collect();
        tallies.resize(self.links.len(), Tally::default());
        let mut account = Account {
            sent: self.sent.packets,
            delivered: self.delivered.packets,
            held: tallies.iter().map(|tally| tally.packets).sum(),
            ..Account::default()
        };
        if self.backwards > 0 {
            account.violations.push(format!("time went backwards {} times", self.backwards));
        }
        for (number, (link, held)) in self.links.iter().zip(&tallies).enumerate() {
            check_link(number, link, held, &mut account.violations);
            let dropped = named(&link.by_cause);
            for (cause, count) in &dropped {
                *account.dropped.entry(cause.clone()).or_default() += count;
            }
            account.duplicated += link.duplicated.packets;
            account.links.push(LinkAccount {
                entered: link.entered.packets,
                left: link.left.packets,
                bytes_left: link.left.bytes,
                duplicated: link.duplicated.packets,
                corrupted: link.corrupted,
                held: held.packets,
                dropped,
            });
        }
        self.check_ends(&tallies, &mut account.violations);
        account
    }

    /// sent + duplicated = delivered + dropped + held, over the whole network.
    fn check_ends(&self, held: &[Tally], violations: &mut Vec<String>) {
        let sum =
            |part: fn(&LinkTally) -> Tally| self.links.iter().map(part).fold(Tally::default(), Tally::plus);
        let (duplicated, dropped) = (sum(|link| link.duplicated), sum(|link| link.dropped));
        let held = held.iter().copied().fold(Tally::default(), Tally::plus);
        let (came, went) = (self.sent.plus(duplicated), self.delivered.plus(dropped).plus(held));
        if came.packets != went.packets {
            violations.push(format!(
                "network: {} sent + {} duplicated is not {} delivered + {} dropped + {} held",
                self.sent.packets, duplicated.packets, self.delivered.packets, dropped.packets, held.packets
            ));
        } else if came != went {
            violations.push("network: the packets that ended are not the packets that began".to_owned());
        }
    }

    fn link(&mut self, link: LinkId) -> &mut LinkTally {
        let index = link.0 as usize;
        if index >= self.links.len() {
            self.links.resize(index + 1, LinkTally::default());
        }
        &mut self.links[index]
    }

    fn clock(&mut self, now: Time) {
        self.backwards += u64::from(now < self.latest);
        self.latest = self.latest.max(now);
    }
}

/// entered + duplicated = left + dropped + held: packets, bytes, identities.
fn check_link(number: usize, link: &LinkTally, held: &Tally, violations: &mut Vec<String>) {
    let (entered, left, dropped) = (link.entered, link.left, link.dropped);
    let (came, went) = (entered.plus(link.duplicated), left.plus(dropped).plus(*held));
    if came.packets != went.packets {
        violations.push(format!(
            "link {number}: {} entered + {} duplicated is not {} left + {} dropped + {} held",
            entered.packets, link.duplicated.packets, left.packets, dropped.packets, held.packets
        ));
    }
    if came.bytes != went.bytes {
        violations.push(format!("link {number}: the bytes do not add up"));
    }
    if came.packets == went.packets && came.identities != went.identities {
        violations.push(format!("link {number}: the packets that left are not the packets that entered"));
    }
}

fn named(by_cause: &[u64]) -> BTreeMap<String, u64> {
    let counted = DropCause::ALL.iter().zip(by_cause).filter(|(_, count)| **count > 0);
    counted.map(|(cause, count)| (cause.name().to_owned(), *count)).collect()
}

impl Observer for Ledger {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.clock(now);
        self.sent.add(&packet.meta);
    }
    fn entered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.clock(now);
        self.link(link).entered.add(&packet.meta);
    }
    fn left(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.clock(now);
        self.link(link).left.add(&packet.meta);
    }
    fn link_event(&mut self, now: Time, link: LinkId, event: &LinkEvent) {
        self.clock(now);
        let tally = self.link(link);
        match event {
            LinkEvent::Dropped { meta, cause } => {
                tally.dropped.add(meta);
                tally.by_cause[*cause as usize] += 1;
            }
            LinkEvent::Duplicated { meta } => tally.duplicated.add(meta),
            LinkEvent::Corrupted { .. } => tally.corrupted += 1,
            LinkEvent::Marked { .. } => {}
        }
    }
    fn delivered(&mut self, now: Time, _node: Address, packet: &Packet) {
        self.clock(now);
        self.delivered.add(&packet.meta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Bytes;

    fn packet(id: u64) -> Packet {
        Packet {
            meta: PacketMeta { id, size: Bytes::new(100), ..PacketMeta::default() },
            payload: Vec::new(),
        }
    }

    fn pass(ledger: &mut Ledger, entered: u64, left: u64) {
        ledger.sent(Time::ZERO, &packet(entered));
        ledger.entered(Time::ZERO, LinkId(0), &packet(entered));
        ledger.left(Time::ZERO, LinkId(0), &packet(left));
        ledger.delivered(Time::ZERO, Address(1), &packet(left));
    }

    #[test]
    fn clean_books_have_no_violations() {
        let mut ledger = Ledger::default();
        pass(&mut ledger, 1, 1);
        pass(&mut ledger, 2, 2);
        assert!(ledger.close(&[Vec::new()]).violations.is_empty());
    }

    #[test]
    fn a_packet_that_vanishes_is_found() {
        let mut ledger = Ledger::default();
        ledger.sent(Time::ZERO, &packet(1));
        ledger.entered(Time::ZERO, LinkId(0), &packet(1));
        let violations = ledger.close(&[Vec::new()]).violations;
        assert!(violations.iter().any(|v| v.contains("link 0: 1 entered")), "{violations:?}");
        assert!(violations.iter().any(|v| v.contains("network: 1 sent")), "{violations:?}");
    }

    #[test]
    fn one_lost_and_another_twice_do_not_cancel_out() {
        let mut ledger = Ledger::default();
        pass(&mut ledger, 1, 2);
        pass(&mut ledger, 2, 2);
        let violations = ledger.close(&[Vec::new()]).violations;
        assert_eq!(violations.len(), 2, "{violations:?}");
    }

    #[test]
    fn what_is_held_must_be_what_came_in_and_did_not_leave() {
        let entered = |ids: &[u64]| {
            let mut ledger = Ledger::default();
            for id in ids {
                ledger.sent(Time::ZERO, &packet(*id));
                ledger.entered(Time::ZERO, LinkId(0), &packet(*id));
            }
            ledger
        };
        let holds = |id| [vec![packet(id).meta]];
        assert_eq!(entered(&[1]).close(&holds(1)).violations, Vec::<String>::new());
        assert_eq!(entered(&[1]).close(&holds(2)).violations.len(), 2);
        assert_eq!(entered(&[1]).close(&holds(1)).held, 1);
    }

    #[test]
    fn time_that_goes_back_is_found() {
        let mut ledger = Ledger::default();
        ledger.sent(Time::from_nanos(5), &packet(1));
        ledger.delivered(Time::from_nanos(4), Address(1), &packet(1));
        assert!(ledger.close(&[]).violations[0].contains("backwards"));
    }
}
