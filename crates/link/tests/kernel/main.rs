//! Every queue against what Linux 6.1 did with the same packets: `oracle/queues/expected.csv`, written by
//! `oracle/compare --update queues`; and for a few loads that are drawn, `oracle/queues/seeds.csv`.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod drawn;
#[cfg(test)]
mod loads;
#[cfg(test)]
mod server;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use taut_core::Queue;

    use crate::cases::{CASES, Case};
    use crate::drawn::drawn;
    use crate::loads::{Arrival, LOADS, START, load};
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

    /// Of Linux: a mean of so many is compared without an allowance for chance.
    const ENOUGH_RUNS: usize = 5;

    /// How many of the first fifty drops are not in the place that they have in Linux.
    const MISPLACED: &[(&str, &str, usize)] = &[
        // What division leaves over of a flow's turn is drawn: two runs of Linux differ from each other.
        ("cake-diffserv3", "flows", 11),
        ("cake-diffserv4", "flows", 2),
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

    /// Packets sent, four figures, and where they are listed the first drops.
    fn parse(cells: &[&str]) -> Run {
        let number = |cell: &&str| cell.parse().expect("a number");
        let figures: Vec<f64> = cells[1..5].iter().map(number).collect();
        let drops = cells.get(5).into_iter().flat_map(|drops| drops.split_whitespace());
        Run {
            sent: cells[0].parse().expect("a number"),
            figures: figures.try_into().expect("four figures"),
            first_drops: drops.map(|drop| drop.parse().expect("a number")).collect(),
        }
    }

    /// Linux's runs, by queue and load.
    fn expected() -> BTreeMap<(&'static str, &'static str), Vec<Run>> {
        let mut runs: BTreeMap<_, Vec<Run>> = BTreeMap::new();
        for line in EXPECTED.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            runs.entry((cells[0], cells[1])).or_default().push(parse(&cells[2..]));
        }
        runs
    }

    type Chance = fn(&[Run], &[Run], usize) -> f64;

    /// How far two means may be apart by chance, two standard errors: of runs that differ though nothing is drawn on purpose, and of
    /// few runs. Of one run nothing is known but that it has the other side's chance.
    fn chance(ours: &[Run], linux: &[Run], i: usize) -> f64 {
        let variance = |runs: &[Run]| {
            let n = runs.len() as f64;
            let mean = runs.iter().map(|run| run.figures[i]).sum::<f64>() / n;
            runs.iter().map(|run| (run.figures[i] - mean).powi(2)).sum::<f64>() / (n - 1.0)
        };
        let several = [ours, linux].into_iter().filter(|runs| runs.len() > 1);
        let largest = several.map(variance).fold(0.0, f64::max);
        2.0 * (largest * (1.0 / ours.len() as f64 + 1.0 / linux.len() as f64)).sqrt()
    }

    /// Where there are enough runs of both, nothing is left to chance.
    fn chance_of_one(ours: &[Run], linux: &[Run], i: usize) -> f64 {
        if ours.len() > 1 { 0.0 } else { chance(ours, linux, i) }
    }

    /// `figures` are the first of [`FIGURES`].
    fn check_figures(
        case: &Case,
        load: &str,
        ours: &[Run],
        linux: &[Run],
        figures: usize,
        chance: Chance,
    ) -> Vec<String> {
        let mean =
            |runs: &[Run], i: usize| runs.iter().map(|run| run.figures[i]).sum::<f64>() / runs.len() as f64;
        let far = |(i, (figure, part, least)): (usize, (&str, f64, f64))| {
            let by_chance = chance(ours, linux, i);
            let (ours, linux) = (mean(ours, i), mean(linux, i));
            let most = (part * linux).max(least) + by_chance;
            let distance = (ours - linux).abs();
            (distance > most).then(|| {
                format!(
                    "{} under {load}: {ours:.1} {figure}, Linux {linux:.1}: more than {most:.1}",
                    case.name
                )
            })
        };
        FIGURES.into_iter().take(figures).enumerate().filter_map(far).collect()
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

    /// `tc -s -j qdisc` at the end of the guest's runs: queue, load, counter, value.
    const COUNTERS: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../oracle/queues/counters.csv"));

    /// Counters that hang on what was dropped last, where a tick of CoDel's clock more or less dropped another packet.
    const UNEQUAL: &[(&str, &str)] = &[("codel", "flows"), ("prio-codel", "flows")];

    /// By how much a counter may be off, as in `oracle/queues/compare.py`. A moving average of delays is of packets that a timer may
    /// have made a microsecond late; on that hangs whether a flow is new and what waits, and on what Linux draws who is marked.
    fn allowed(load: &str, counter: &str, linux: u64) -> u64 {
        let name = counter.rsplit('.').next().expect("one part");
        match name {
            _ if name == "ldelay" || name.ends_with("_us") => (linux / 100).max(20),
            "new_flow_count" | "memory_used" => linux / 100,
            "overlimits" => 1,
            "ecn_mark" if load == "flows" => linux / 100,
            _ => 0,
        }
    }

    #[test]
    fn counters_are_those_that_tc_shows() {
        let mut linux: BTreeMap<(&str, &str), Vec<(&str, u64)>> = BTreeMap::new();
        for line in COUNTERS.lines().skip(1) {
            let [queue, load, counter, value] = line.split(',').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            linux.entry((queue, load)).or_default().push((counter, value.parse().expect(line)));
        }
        let (mut compared, mut wrong) = (0, Vec::new());
        for ((queue, name), counters) in linux.iter().filter(|(case, _)| !UNEQUAL.contains(case)) {
            let case = CASES.iter().find(|case| case.name == *queue).expect("a case of this name");
            let ours: BTreeMap<_, _> =
                run((case.make)(1), case.rate(), &load(name), 1).counters.into_iter().collect();
            for (counter, linux) in counters {
                let Some(ours) = ours.get(*counter) else { continue };
                compared += 1;
                if ours.abs_diff(*linux) > allowed(name, counter, *linux) {
                    wrong.push(format!("{queue} under {name}: {counter} {ours}, Linux {linux}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(compared > 1_000, "{compared}");
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
                case.seeds().map(|seed| run((case.make)(seed), case.rate(), &load, 1).into()).collect();
            assert!(linux.iter().chain(&ours).all(|run| run.sent == load.len() as u64), "not the same load");
            wrong.extend(check_figures(case, name, &ours, linux, 4, chance_of_one));
            if let [ours] = &ours[..] {
                wrong.extend(check_places(case, name, ours, &linux[0]));
            } else {
                assert!(linux.len() >= ENOUGH_RUNS, "{} under {name}: too few runs for a mean", case.name);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Linux's hash has another seed in each boot; in the guest each flow of a load has a bucket of its own, as it has here.
    #[test]
    fn no_two_flows_of_a_load_share_a_queue() {
        let case = CASES.iter().find(|case| case.name == "fq_codel").expect("a case of this name");
        let (mut queue, load) = ((case.make)(1), load("cbr"));
        for flow in 0..10 {
            queue.enqueue(START, Arrival { flow, ..load[0] }.packet(flow.into()), &mut Vec::new());
        }
        assert!(queue.counters().contains(&("new_flow_count".to_owned(), 10)));
    }

    const SEEDS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../oracle/queues/seeds.csv"));

    /// Two of the seeds that `oracle/compare queues` was run with; the longest wait is that of one packet, where so much is drawn.
    #[test]
    fn loads_that_no_queue_was_built_against_fare_as_in_linux() {
        let mut linux: BTreeMap<(&str, &str, &str), Vec<Run>> = BTreeMap::new();
        for line in SEEDS.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            linux.entry((cells[0], cells[1], cells[2])).or_default().push(parse(&cells[3..]));
        }
        let mut wrong = Vec::new();
        for seed in [0, 1] {
            let (text, loads) = (seed.to_string(), drawn(seed));
            for (case, (name, load)) in
                CASES.iter().flat_map(|case| loads.iter().map(move |load| (case, load)))
            {
                let Some(linux) = linux.get(&(text.as_str(), case.name, name)) else { continue };
                let few = case.seeds_under_drawn(name).take(10);
                let ours: Vec<Run> =
                    few.map(|seed| run((case.make)(seed), case.rate(), load, seed).into()).collect();
                assert!(
                    linux.iter().chain(&ours).all(|run| run.sent == load.len() as u64),
                    "not the same load"
                );
                wrong.extend(check_figures(case, name, &ours, linux, 3, chance));
            }
        }
        assert!(linux.len() > 200, "{} cases", linux.len());
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
