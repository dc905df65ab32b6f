//! The receiver's half: which packets arrived, and when.

use std::collections::BTreeMap;

use taut_core::Time;
use taut_wire::rtp::ccfb::{Arrival, Report};

/// Notes the packets of one stream and makes reports on them (RFC 8888).
#[derive(Clone, Debug)]
pub struct Reporter {
    sender: u32,
    ssrc: u32,
    /// By sequence numbers that do not wrap: those of the next report.
    packets: BTreeMap<u64, (Time, u8)>,
    /// The first number of the next report.
    begin: Option<u64>,
    newest: u64,
}

impl Reporter {
    /// One who calls itself `sender`, on the stream `ssrc`.
    pub const fn new(sender: u32, ssrc: u32) -> Self {
        Self { sender, ssrc, packets: BTreeMap::new(), begin: None, newest: 0 }
    }

    /// A packet arrived, with these ECN bits, of which two count. One that comes after it was reported as missing is not reported again, nor is a copy.
    pub fn handle_input(&mut self, now: Time, sequence: u16, ecn: u8) {
        // Counted on across wraps, from a number that one may lie before.
        let newest = if self.begin.is_some() { self.newest } else { 1 << 16 | u64::from(sequence) };
        let ahead = sequence.wrapping_sub(newest as u16) as i16;
        let number = newest.saturating_add_signed(i64::from(ahead));
        let begin = *self.begin.get_or_insert(number);
        if number >= begin {
            self.newest = newest.max(number);
            self.packets.entry(number).or_insert((now, ecn & 3));
        }
    }

    /// A report on all packets from those of the report before to the newest that arrived; `None` when none did. Of more than a report holds the
    /// oldest are left out.
    pub fn poll_report(&mut self, now: Time) -> Option<Report> {
        let (newest, _) = self.packets.last_key_value()?;
        let (begin, end) = (self.begin?, newest + 1);
        let begin = begin.max(end.saturating_sub(Report::PACKETS_MAX as u64));
        let arrival = |number| {
            let (at, ecn) = *self.packets.get(&number)?;
            let ticks = now.saturating_since(at).as_nanos() as u128 * 1_024 / 1_000_000_000;
            Some(Arrival { ecn, offset: Some(ticks.min(Arrival::OFFSET_MAX.into()) as u16) })
        };
        let packets = (begin..end).map(arrival).collect();
        let timestamp = (u128::from(now.as_nanos()) * 65_536 / 1_000_000_000) as u32;
        let report = Report { sender: self.sender, ssrc: self.ssrc, begin: begin as u16, timestamp, packets };
        self.packets.clear();
        self.begin = Some(end);
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use taut_core::Duration;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_report_tells_of_every_packet_since_the_one_before_also_across_a_wrap() {
        let mut reporter = Reporter::new(1, 2);
        assert_eq!(reporter.poll_report(at(0)), None);
        reporter.handle_input(at(0), 65_534, 0);
        reporter.handle_input(at(125), 0, 3);
        let report = reporter.poll_report(at(250)).unwrap();
        let arrival = |ecn, offset| Some(Arrival { ecn, offset: Some(offset) });
        assert_eq!((report.begin, report.timestamp), (65_534, 16_384));
        assert_eq!(report.packets, [arrival(0, 256), None, arrival(3, 128)]);
        // Reported as missing; and a copy.
        reporter.handle_input(at(260), 65_535, 0);
        reporter.handle_input(at(260), 0, 0);
        assert_eq!(reporter.poll_report(at(300)), None);
        reporter.handle_input(at(310), 2, 0);
        let report = reporter.poll_report(at(310)).unwrap();
        assert_eq!((report.begin, report.packets), (1, vec![None, arrival(0, 0)]));
    }

    #[test]
    fn what_is_too_old_for_the_field_is_told_as_too_old() {
        let mut reporter = Reporter::new(1, 2);
        reporter.handle_input(at(0), 7, 0);
        let report = reporter.poll_report(at(60_000)).unwrap();
        assert_eq!(report.packets, [Some(Arrival { ecn: 0, offset: Some(Arrival::OFFSET_MAX) })]);
    }
}
