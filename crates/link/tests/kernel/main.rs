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
                first_drops: cells[7].split_whitespace().map(|drop| drop.parse().expect(line)).collect(),
            }
        })
    }

    fn check(case: &Case, row: &Row<'_>, ours: &Outcome) {
        let name = format!("{} under {}", row.queue, row.load);
        assert_eq!(ours.sent, row.sent, "{name}: not the same load");
        let near = |ours: u64, theirs: u64| ours.abs_diff(theirs) * 100 <= row.sent;
        let dropped = ours.dropped.len() as u64;
        assert!(near(dropped, row.dropped), "{name}: {dropped} drops, Linux {}", row.dropped);
        assert!(near(ours.marked, row.marked), "{name}: {} marks, Linux {}", ours.marked, row.marked);
        let mean = ours.mean_us();
        assert!((mean - row.mean_us).abs() <= 1_000.0, "{name}: mean {mean} µs, Linux {}", row.mean_us);
        if case.agreement == Agreement::ByPosition {
            let first: Vec<u64> = ours.dropped.iter().copied().take(row.first_drops.len()).collect();
            assert_eq!(first, row.first_drops, "{name}: positions of the first drops");
        }
    }

    #[test]
    fn every_queue_does_to_every_load_what_linux_does() {
        let mut compared = 0;
        for row in rows() {
            let case = CASES.iter().find(|case| case.name == row.queue).expect("a case for every row");
            check(case, &row, &run((case.make)(), case.rate(), &load(row.load)));
            compared += 1;
        }
        assert_eq!(compared, CASES.len() * crate::loads::LOADS.len(), "a row for every case and load");
    }
}
