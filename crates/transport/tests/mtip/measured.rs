//! Commands over two 5G paths as they were measured, every 30 ms and worthless after 15.

use taut_core::{Duration, Time};
use taut_transport::mtip::{Adaptive, Clocks, Mode, MtipConfig, Policy, Target};

use crate::harness::{CLIENT, Net, Way, ms};
use crate::recording::{ROW, Recording};

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    in_time: f64,
    copies: f64,
}

fn ours() -> MtipConfig {
    MtipConfig::new()
        .clocks(Clocks::Synchronised)
        .deadline(ms(15))
        .policy(Policy::Deadline(Target::default()))
}

fn run(seed: u64, config: &MtipConfig, paths: [Recording; 2]) -> Outcome {
    let count = paths[0].rows() - 20;
    let ways = paths.map(|path| Way { recorded: Some(path), ..Way::new(0) });
    let mut net = Net::seeded(seed, [config.clone(), config.clone()], ways.into());
    let start = Time::ZERO + ROW * 10;
    net.commands(start, ROW, count, ms(15));
    net.run_until(start + ROW * (count + 60));
    let in_time = net.received().iter().filter(|(_, took)| *took <= ms(15)).count();
    Outcome { in_time: 100.0 * in_time as f64 / count as f64, copies: net.copies() }
}

/// For looking: one line a condition.
#[test]
fn table() {
    let which = std::env::var("POLICY").unwrap_or_else(|_| "ours".into());
    for condition in ["stable", "failure", "jitter", "congestion"] {
        let config = match which.as_str() {
            "all" => ours().policy(Policy::All),
            "published" => {
                let d = condition == "congestion";
                let adaptive = Adaptive {
                    late_threshold: if d { 0.05 } else { 0.2 },
                    window: if d { 10 } else { 5 },
                    ..Adaptive::default()
                };
                MtipConfig::new()
                    .mode(Mode::Compatible(Vec::new()))
                    .latency_weight(0.5)
                    .deadline(ms(if d { 14 } else { 15 }))
                    .policy(Policy::Adaptive(adaptive))
            }
            _ => ours(),
        };
        for (what, change) in VARIANTS {
            let mut all = Vec::new();
            for n in 1..=5 {
                let Some(paths) = Recording::both(&format!("{condition}-0{n}")) else { return };
                for seed in 1..=5 {
                    let mut paths = paths.clone();
                    change(&mut paths);
                    all.push((n, seed, run(seed, &config, paths)));
                }
            }
            let mean =
                |of: fn(&Outcome) -> f64| all.iter().map(|it| of(&it.2)).sum::<f64>() / all.len() as f64;
            let worst = all.iter().min_by(|a, b| a.2.in_time.total_cmp(&b.2.in_time)).unwrap();
            let dear = all.iter().max_by(|a, b| a.2.copies.total_cmp(&b.2.copies)).unwrap();
            println!(
                "{condition:10} {what:14} in time {:.3} copies {:.3}   worst {:.3} ({}/{})   dearest {:.3} ({}/{})",
                mean(|it| it.in_time),
                mean(|it| it.copies),
                worst.2.in_time,
                worst.0,
                worst.1,
                dear.2.copies,
                dear.0,
                dear.1
            );
        }
    }
}

type Change = fn(&mut [Recording; 2]);
const VARIANTS: [(&str, Change); 7] = [
    ("same row", |_| {}),
    ("next row", |paths| paths.iter_mut().for_each(|path| path.next_row = true)),
    ("swapped", |paths| paths.swap(0, 1)),
    ("quick back", |paths| {
        paths.iter_mut().for_each(|path| path.usual_back = Some(Duration::from_micros(2500)))
    }),
    ("even back", |paths| {
        paths.iter_mut().for_each(|path| path.usual_back = Some(Duration::from_micros(5000)))
    }),
    ("shifted", |paths| paths.iter_mut().for_each(|path| path.rotate(1400))),
    ("1 ms more", |paths| paths.iter_mut().for_each(|path| path.more = ms(1))),
];
