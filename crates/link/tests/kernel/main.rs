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
    use std::collections::BTreeMap;

    use crate::cases::{CASES, Case};
    use crate::loads::{LOADS, load};
    use crate::server::{Outcome, run};

    const EXPECTED: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../oracle/queues/expected.csv"));

    /// How far a figure may be from Linux's: 1 % of it, but at least so much.
    const FIGURES: [(&str, f64, f64); 4] = [
        ("drops", 0.01, 3.0),
        ("marks", 0.01, 3.0),
        ("mean wait, µs", 0.0, 1_000.0),
        ("longest wait, µs", 0.05, 1_000.0),
    ];

    /// Where a figure is farther from Linux's: queue, load, figure, and by how much at most. The reasons stand in
    /// docs/queues.md.
    const EXCEPTIONS: &[(&str, &str, &str, f64)] = &[
        // A long overload of one flow never forgets a timer that was a microsecond late; Linux differs from itself by more.
        ("cake", "on-off", "drops", 62.0),
        ("cake", "on-off", "mean wait, µs", 6_900.0),
        ("cake-diffserv3", "on-off", "mean wait, µs", 5_300.0),
        ("cake-diffserv4", "on-off", "mean wait, µs", 5_800.0),
        ("cake-diffserv8", "on-off", "mean wait, µs", 4_900.0),
        ("codel-ecn", "flows", "marks", 5.0),
    ];

    /// How many of the first fifty drops are not in the place that they have in Linux.
    const MISPLACED: &[(&str, &str, usize)] = &[
        // A departure that was a microsecond late made room for the next packet.
        ("pfifo", "cbr", 1),
        ("prio", "cbr", 1),
        // What division leaves over of a flow's turn is drawn.
        ("cake", "flows", 1),
        ("cake-diffserv3", "flows", 11),
    ];

    /// One run, there or here.
    #[derive(Debug)]
    struct Run {
        sent: u64,
        figures: [f64; 4],
        first_drops: Vec<u64>,
    }

    impl From<Outcome> for Run {
        fn from(ours: Outcome) -> Self {
            let figures = [ours.dropped.len() as f64, ours.marked as f64, ours.mean_us(), ours.longest_us()];
            Self { sent: ours.sent, figures, first_drops: ours.dropped }
        }
    }

    /// Linux's runs, by queue and load.
    fn expected() -> BTreeMap<(&'static str, &'static str), Vec<Run>> {
        let mut runs: BTreeMap<_, Vec<Run>> = BTreeMap::new();
        for line in EXPECTED.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let figures = [3, 4, 5, 6].map(|i| cells[i].parse().expect(line));
            let first_drops = cells[7].split_whitespace().map(|drop| drop.parse().expect(line)).collect();
            let run = Run { sent: cells[2].parse().expect(line), figures, first_drops };
            runs.entry((cells[0], cells[1])).or_default().push(run);
        }
        runs
    }

    fn check_figures(case: &Case, load: &str, ours: &[Run], linux: &[Run]) -> Vec<String> {
        let mean =
            |runs: &[Run], i: usize| runs.iter().map(|run| run.figures[i]).sum::<f64>() / runs.len() as f64;
        let far = |(i, (figure, part, least)): (usize, (&str, f64, f64))| {
            let (ours, linux) = (mean(ours, i), mean(linux, i));
            let known =
                EXCEPTIONS.iter().find(|known| (known.0, known.1, known.2) == (case.name, load, figure));
            let most = known.map_or((part * linux).max(least), |known| known.3);
            let distance = (ours - linux).abs();
            (distance > most).then(|| {
                format!(
                    "{} under {load}: {ours:.1} {figure}, Linux {linux:.1}: more than {most:.1}",
                    case.name
                )
            })
        };
        FIGURES.into_iter().enumerate().filter_map(far).collect()
    }

    /// The first fifty drops are the very same packets, in the same places.
    fn check_places(case: &Case, load: &str, ours: &Run, linux: &Run) -> Option<String> {
        let pairs = linux.first_drops.iter().zip(&ours.first_drops);
        let same = pairs.filter(|(linux, ours)| linux == ours).count();
        let known =
            MISPLACED.iter().find(|known| (known.0, known.1) == (case.name, load)).map_or(0, |known| known.2);
        let first = &ours.first_drops[..ours.first_drops.len().min(50)];
        (same + known < linux.first_drops.len()).then(|| {
            format!(
                "{} under {load}: {same} drops in place, {first:?}, Linux {:?}",
                case.name, linux.first_drops
            )
        })
    }

    type Counters = &'static [(&'static str, u64)];

    /// `tc -s qdisc` at the end of the guest's run. It rounds delays to three digits.
    const COUNTERS: &[(&str, &str, Counters)] = &[
        (
            "codel-ecn",
            "bursts",
            &[
                ("count", 213),
                ("lastcount", 71),
                ("maxpacket", 1_500),
                ("ecn_mark", 500),
                ("drop_overlimit", 0),
            ],
        ),
        ("fq_codel", "bursts", &[("new_flow_count", 13), ("ecn_mark", 453), ("old_flows_len", 1)]),
        (
            "fq_codel",
            "flows",
            &[("maxpacket", 1_500), ("new_flow_count", 5_741), ("ecn_mark", 2_680), ("drop_overlimit", 0)],
        ),
        (
            "cake",
            "bursts",
            &[
                ("tin0.sent_packets", 10_000),
                ("tin0.sent_bytes", 15_000_000),
                ("tin0.way_misses", 2),
                ("tin0.drops", 1_775),
                ("tin0.ecn_mark", 708),
                ("tin0.peak_delay_us", 156_000),
                ("tin0.avg_delay_us", 76_500),
                ("tin0.base_delay_us", 48_100),
            ],
        ),
        (
            "cake-diffserv4",
            "flows",
            &[
                ("tin0.sent_packets", 2_170),
                ("tin1.sent_packets", 8_957),
                ("tin2.sent_bytes", 1_874_400),
                ("tin3.way_misses", 3),
                ("tin1.drops", 2_778),
                ("tin3.drops", 0),
            ],
        ),
    ];

    #[test]
    fn counters_are_those_that_tc_shows() {
        for (queue, name, counters) in COUNTERS {
            let case = CASES.iter().find(|case| case.name == *queue).expect("a case of this name");
            let ours = run((case.make)(1), case.rate(), &load(name)).counters;
            for (counter, linux) in *counters {
                let (_, ours) = ours.iter().find(|(known, _)| known == counter).expect(counter);
                // Whether a flow is new may depend on the microsecond that a timer is late.
                let about = counter.ends_with("_us") || *counter == "new_flow_count";
                let most = if about { linux / 100 } else { 0 };
                assert!(
                    ours.abs_diff(*linux) <= most,
                    "{queue} under {name}: {counter} {ours}, Linux {linux}"
                );
            }
        }
    }

    /// Those that draw their drops, here and in Linux, are compared in the mean over seeds and over runs.
    #[test]
    fn every_queue_does_to_every_load_what_linux_does() {
        let expected = expected();
        assert_eq!(expected.len(), CASES.len() * LOADS.len(), "every case and load");
        let mut wrong = Vec::new();
        for (case, name) in CASES.iter().flat_map(|case| LOADS.map(|(name, _)| (case, name))) {
            let (linux, load) = (&expected[&(case.name, name)], load(name));
            let ours: Vec<Run> =
                case.seeds().map(|seed| run((case.make)(seed), case.rate(), &load).into()).collect();
            assert!(linux.iter().chain(&ours).all(|run| run.sent == load.len() as u64), "not the same load");
            wrong.extend(check_figures(case, name, &ours, linux));
            if let [ours] = &ours[..] {
                wrong.extend(check_places(case, name, ours, &linux[0]));
            } else {
                assert!(linux.len() >= 5, "{} under {name}: too few runs for a mean", case.name);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
