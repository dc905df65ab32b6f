//! The independent checker of conservation: no packet vanishes, none appears from nowhere.
//!
//! It shares no counter with the links or nodes that it checks. Besides counting, it adds up a hash of every packet's
//! identity at each place, so that one packet lost and another delivered twice do not cancel out. The identities are
//! compared where nothing is held at the end: what a link still holds it tells in numbers only.

use std::collections::BTreeMap;

use taut_core::{Address, Backlog, DropCause, LinkEvent, Packet, PacketMeta, Time};

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
    /// Closes the books, given what each link says that it holds.
    pub fn close(mut self, held: &[Backlog]) -> Account {
        self.links.resize(self.links.len().max(held.len()), LinkTally::default());
        let mut account = Account {
            sent: self.sent.packets,
            delivered: self.delivered.packets,
            held: held.iter().map(|backlog| backlog.packets).sum(),
            ..Account::default()
        };
        if self.backwards > 0 {
            account.violations.push(format!("time went backwards {} times", self.backwards));
        }
        for (number, (link, held)) in self.links.iter().zip(held).enumerate() {
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
        self.check_ends(&account.dropped, account.held, account.duplicated, &mut account.violations);
        account
    }

    /// sent + duplicated = delivered + dropped + held, over the whole network.
    fn check_ends(
        &self,
        dropped: &BTreeMap<String, u64>,
        held: u64,
        duplicated: u64,
        violations: &mut Vec<String>,
    ) {
        let dropped: u64 = dropped.values().sum();
        let (came, went) = (self.sent.packets + duplicated, self.delivered.packets + dropped + held);
        if came != went {
            violations.push(format!(
                "network: {} sent + {duplicated} duplicated is not {} delivered + {dropped} dropped + {held} held",
                self.sent.packets, self.delivered.packets
            ));
        }
        if held == 0 {
            let sum = |part: fn(&LinkTally) -> Tally| {
                self.links.iter().fold(0u64, |sum, link| sum.wrapping_add(part(link).identities))
            };
            let came = self.sent.identities.wrapping_add(sum(|link| link.duplicated));
            let went = self.delivered.identities.wrapping_add(sum(|link| link.dropped));
            if came != went {
                violations.push("network: the packets that ended are not the packets that began".to_owned());
            }
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

/// entered + duplicated = left + dropped + held: packets and bytes; identities too when nothing is held.
fn check_link(number: usize, link: &LinkTally, held: &Backlog, violations: &mut Vec<String>) {
    let (entered, left, dropped) = (link.entered, link.left, link.dropped);
    if entered.packets + link.duplicated.packets != left.packets + dropped.packets + held.packets {
        violations.push(format!(
            "link {number}: {} entered + {} duplicated is not {} left + {} dropped + {} held",
            entered.packets, link.duplicated.packets, left.packets, dropped.packets, held.packets
        ));
    }
    if entered.bytes + link.duplicated.bytes != left.bytes + dropped.bytes + held.bytes.get() {
        violations.push(format!("link {number}: the bytes do not add up"));
    }
    let came = entered.identities.wrapping_add(link.duplicated.identities);
    let went = left.identities.wrapping_add(dropped.identities);
    if held.packets == 0 && came != went {
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
        assert!(ledger.close(&[Backlog::default()]).violations.is_empty());
    }

    #[test]
    fn a_packet_that_vanishes_is_found() {
        let mut ledger = Ledger::default();
        ledger.sent(Time::ZERO, &packet(1));
        ledger.entered(Time::ZERO, LinkId(0), &packet(1));
        let violations = ledger.close(&[Backlog::default()]).violations;
        assert!(violations.iter().any(|v| v.contains("link 0: 1 entered")), "{violations:?}");
        assert!(violations.iter().any(|v| v.contains("network: 1 sent")), "{violations:?}");
    }

    #[test]
    fn one_lost_and_another_twice_do_not_cancel_out() {
        let mut ledger = Ledger::default();
        pass(&mut ledger, 1, 2);
        pass(&mut ledger, 2, 2);
        let violations = ledger.close(&[Backlog::default()]).violations;
        assert_eq!(violations.len(), 2, "{violations:?}");
    }

    #[test]
    fn time_that_goes_back_is_found() {
        let mut ledger = Ledger::default();
        ledger.sent(Time::from_nanos(5), &packet(1));
        ledger.delivered(Time::from_nanos(4), Address(1), &packet(1));
        assert!(ledger.close(&[]).violations[0].contains("backwards"));
    }
}
