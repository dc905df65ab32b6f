//! Every queue against what Linux 6.1 did with the same packets: `oracle/queues/expected.csv`, written by
//! `oracle/compare --update queues`.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod loads;
#[cfg(test)]
mod server;

#[cfg(test)]
mod tests {
    use crate::cases::CASES;
    use crate::loads::load;
    use crate::server::{Outcome, run};

    const EXPECTED: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../oracle/queues/expected.csv"));

    /// One line of the table.
    struct Row<'a> {
        queue: &'a str,
        load: &'a str,
        sent: u64,
        dropped: u64,
        marked: u64,
        mean_us: f64,
        longest_us: f64,
        first_drops: Vec<u64>,
    }

    fn rows() -> impl Iterator<Item = Row<'static>> {
        EXPECTED.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let number = |i: usize| cells[i].parse().unwrap_or_else(|_| panic!("{line}"));
            Row {
                queue: cells[0],
                load: cells[1],
                sent: number(2),
                dropped: number(3),
                marked: number(4),
                mean_us: cells[5].parse().expect(line),
                longest_us: cells[6].parse().expect(line),
                first_drops: cells[7].split_whitespace().map(|drop| drop.parse().expect(line)).collect(),
            }
        })
    }

    /// Drops within 1 % of the packets, as many marks, and a mean wait within a millisecond or 3 %.
    ///
    /// Linux itself differs from run to run: its timers are up to a microsecond late, by which the next packet may be
    /// dropped instead, and a long overload never forgets that.
    fn check_figures(name: &str, row: &Row<'_>, ours: &Outcome) {
        assert_eq!(ours.sent, row.sent, "{name}: not the same load");
        let near = |ours: u64, theirs: u64| ours.abs_diff(theirs) * 100 <= row.sent;
        let dropped = ours.dropped.len() as u64;
        assert!(near(dropped, row.dropped), "{name}: {dropped} drops, Linux {}", row.dropped);
        assert!(near(ours.marked, row.marked), "{name}: {} marks, Linux {}", ours.marked, row.marked);
        // Where the memory is full, BLUE draws who is dropped, and the wait of a run depends on its luck.
        let least = if row.queue == "cake-docsis" { 4_000.0 } else { 1_000.0 };
        let close = |ours: f64, theirs: f64, part: f64| (ours - theirs).abs() <= (part * theirs).max(least);
        let (mean, longest) = (ours.mean_us(), ours.longest_us());
        assert!(close(mean, row.mean_us, 0.03), "{name}: mean {mean} µs, Linux {}", row.mean_us);
        assert!(
            close(longest, row.longest_us, 0.05),
            "{name}: longest {longest} µs, Linux {}",
            row.longest_us
        );
    }

    /// The first fifty drops at the very same packets, but for a few: where many flows share, CAKE's turns are drawn.
    fn check_positions(name: &str, row: &Row<'_>, ours: &Outcome) {
        let same = row.first_drops.iter().filter(|drop| ours.dropped.binary_search(drop).is_ok()).count();
        assert!(
            same * 10 >= row.first_drops.len() * 8,
            "{name}: {same} of the first drops, {:?}, Linux {:?}",
            &ours.dropped[..row.first_drops.len().min(ours.dropped.len())],
            row.first_drops
        );
    }

    #[test]
    fn every_queue_does_to_every_load_what_linux_does() {
        let mut compared = 0;
        for row in rows() {
            let case = CASES.iter().find(|case| case.name == row.queue).expect("a case for every row");
            let name = format!("{} under {}", row.queue, row.load);
            let ours = run((case.make)(), case.rate(), &load(row.load));
            check_figures(&name, &row, &ours);
            // These draw their drops.
            if !row.queue.starts_with("pie") && !row.queue.starts_with("red") {
                check_positions(&name, &row, &ours);
            }
            compared += 1;
        }
        assert_eq!(compared, CASES.len() * crate::loads::LOADS.len(), "a row for every case and load");
    }
}
