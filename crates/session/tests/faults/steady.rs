//! Whether a law does the same when next to nothing changes: other jitter, a path 3 % faster or slower, longer or shorter.
//!
//! ```text
//! cargo test -p taut-session --test faults steady_table -- --ignored --nocapture
//! ```
//! `TAUT_STEADY` names what is wanted of it, by any part of a row's beginning.

use std::sync::Mutex;

use taut_core::Bitrate;
use taut_link::Chain;
use taut_session::Congestion;

use crate::camera::{BURSTS, Camera, ENCODER, Shown, run};
use crate::carriers::Over;
use crate::controllers::{Bend, bent_lte, fixed};
use crate::harness::MS;

/// Seed and bend of each.
const VARIANTS: [(u64, Bend); 8] = [
    (3, Bend { rate: 0, delay: 0 }),
    (4, Bend { rate: 3, delay: 0 }),
    (5, Bend { rate: -3, delay: 0 }),
    (6, Bend { rate: 0, delay: 3 }),
    (7, Bend { rate: 0, delay: -3 }),
    (8, Bend { rate: 3, delay: -3 }),
    (9, Bend { rate: -3, delay: 3 }),
    (10, Bend { rate: -3, delay: -3 }),
];

/// What is measured, some times.
#[derive(Clone)]
struct Case {
    name: String,
    over: Over,
    law: Congestion,
    camera: Option<Camera>,
    /// kbit/s and delay, ms; `None`: LTE.
    path: Option<(u64, u64)>,
}

impl Case {
    fn links(&self, seed: u64, bend: Bend) -> [Chain; 2] {
        let Some((kbit, delay)) = self.path else {
            return ["downlink", "uplink"].map(|link| bent_lte(link, seed, bend));
        };
        let rate = bend.rate(Bitrate::from_bps(kbit * 1_000)).as_bps() / 1_000;
        ["there", "back"].map(|name| fixed(rate, bend.delay(MS * delay), "0%", name))
    }

    fn run(&self, seed: u64, bend: Bend) -> Shown {
        let (seconds, joints) = if self.path.is_some() { (15, true) } else { (57, false) };
        run(self.over, self.links(seed, bend), seconds, self.law, self.camera, joints)
    }
}

/// All of them, on as many threads as there are processors.
fn measured(case: &Case) -> Vec<Shown> {
    let (next, shown) = (Mutex::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = {
                        let mut next = next.lock().expect("no thread panics with it");
                        *next += 1;
                        *next - 1
                    };
                    let Some((seed, bend)) = VARIANTS.get(index) else { break };
                    let one = case.run(*seed, *bend);
                    shown.lock().expect("no thread panics with it").push(one);
                }
            });
        }
    });
    shown.into_inner().expect("no thread panics with it")
}

/// Median and worst of a figure of which more is worse.
fn spread(of: &[Shown], figure: impl Fn(&Shown) -> f64) -> [f64; 2] {
    let mut figures: Vec<f64> = of.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    [figures[figures.len() / 2], figures[figures.len() - 1]]
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let scream = Congestion::Scream { target: MS * 10 };
    let cameras = [("none", None), ("encoder", Some(ENCODER)), ("bursts", Some(BURSTS))];
    let overs = [
        Over::Udp,
        Over::QuicDatagrams,
        Over::MpQuic,
        Over::Sctp,
        Over::Dccp2,
        Over::Dccp3,
        Over::Tcp,
        Over::Mtip,
    ];
    for over in overs {
        for (law_name, law) in [("own queue", Congestion::OwnQueue), ("SCReAM, 10 ms", scream)] {
            for (camera_name, camera) in &cameras[..2] {
                let name = format!("| LTE | {} | {law_name} | {camera_name}", over.name());
                cases.push(Case { name, over, law, camera: *camera, path: None });
            }
        }
    }
    for (kbit, delay) in
        [(1_600, 10), (2_000, 10), (2_000, 50), (5_000, 5), (5_000, 50), (10_000, 8), (20_000, 25)]
    {
        for over in [Over::Udp, Over::QuicDatagrams] {
            for (camera_name, camera) in cameras {
                let name =
                    format!("| {kbit} kbit/s, {delay} ms | {} | own queue | {camera_name}", over.name());
                let (law, path) = (Congestion::OwnQueue, Some((kbit, delay)));
                cases.push(Case { name, over, law, camera, path });
            }
        }
    }
    cases
}

/// A camera that takes what is left of a narrow path costs what is live some milliseconds, whichever way chance falls.
#[test]
fn beside_an_encoder_on_a_narrow_path_the_worst_of_eight_is_no_worse_than_the_rest() {
    for camera in [ENCODER, BURSTS] {
        let (law, path) = (Congestion::OwnQueue, Some((2_000, 10)));
        let case = Case { name: String::new(), over: Over::Udp, law, camera: Some(camera), path };
        let shown = measured(&case);
        let [force, joints] =
            [spread(&shown, |shown| shown.force[1]), spread(&shown, |shown| shown.joints[1])];
        assert!(force[0] < 25.0 && force[1] < 35.0 && joints[1] < 30.0, "{force:?} {joints:?}");
    }
}

/// Of a run, one figure.
type Figure = dyn Fn(&Shown) -> f64;

#[test]
#[ignore = "a table to look at"]
fn steady_table() {
    println!("Median / worst of eight.");
    println!(
        "| network | transport | law | camera | state p99, ms | force p99, ms | joints p99, ms | tracking, mm | states/s missing | forces/s missing | Mbit/s missing | lost, % |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let wanted = std::env::var("TAUT_STEADY").unwrap_or_default();
    for case in cases().into_iter().filter(|case| case.name.contains(&wanted)) {
        let shown = measured(&case);
        let figures: [(usize, &Figure); 8] = [
            (0, &|shown| shown.state[1]),
            (0, &|shown| shown.force[1]),
            (0, &|shown| shown.joints[1]),
            (1, &|shown| shown.tracking_mm),
            (0, &|shown| 1000.0 - shown.hz[0]),
            (0, &|shown| 1000.0 - shown.hz[1]),
            (2, &|shown| 2.0 - shown.video_mbps),
            (0, &|shown| shown.lost_percent),
        ];
        let cells = figures.map(|(digits, figure)| {
            let [median, worst] = spread(&shown, figure);
            format!("{median:.digits$} / {worst:.digits$}")
        });
        println!("{} | {} |", case.name, cells.join(" | "));
    }
}
