//! Links of known laws, probed in virtual time.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use taut_core::{Bytes, Duration, Seed};
use taut_lab::probe::{Arrival, Fit, Probed, Seen, Way, compare, report, scenario};
use taut_lab::run::{Inputs, link_pair, run};
use taut_lab::scenario::{Distribution, Scenario};
use taut_report::result::{MediumResult, RunResult};

use crate::world::medium;

const EVERY: Duration = Duration::from_millis(1);
/// As `taut probe` sends them.
const MESSAGE: Bytes = Bytes::new(137);
const MINUTE: usize = 60_000;
const SEEDS: [u64; 4] = [1, 2, 3, 4];

/// The session of a probe's scenarios over this chain, both ways.
fn known(chain: &str) -> Scenario {
    let text = format!(
        r#"title = "known"
duration = "60s"

[links.wire]
between = ["operator", "robot"]
chain = {chain}

[session]
operator = "operator"
robot = "robot"
transport = "udp"

[session.forward]
haptic = {{ period = "1ms", size = "24B", source = {{ simulated = {{ device = "leader" }} }} }}

[session.backward]
haptic = {{ period = "1ms", size = "12B", source = {{ simulated = {{ device = "follower" }} }} }}
"#
    );
    Scenario::parse("known.toml", &text).unwrap()
}

fn took(delay: Duration) -> Arrival {
    Arrival { transit_ns: delay.as_nanos() as i64, held: false, overtaken: false }
}

/// Both directions of a link, probed for a minute.
fn probed(scenario: &Scenario, seed: u64) -> [Seen; 2] {
    let mut pair = link_pair(scenario, None, Seed::new(seed), &mut Inputs::default()).unwrap();
    [&mut pair.up, &mut pair.down].map(|link| Seen::over(link, EVERY, MINUTE, MESSAGE))
}

fn within(what: &str, value: f64, truth: f64, share: f64) {
    assert!((value - truth).abs() <= truth * share, "{what}: {value}, in truth {truth}");
}

#[test]
fn jitter_of_every_shape_is_recovered_within_a_tenth_also_where_nothing_overtakes() {
    jitter_of_every_shape(1..=2);
}

#[test]
#[ignore = "make test-long"]
fn jitter_of_every_shape_is_recovered_within_a_tenth_at_length() {
    jitter_of_every_shape(1..=10);
}

fn jitter_of_every_shape(seeds: RangeInclusive<u64>) {
    for (shape, name) in [
        (Distribution::Uniform, "uniform"),
        (Distribution::Normal, "normal"),
        (Distribution::Pareto, "pareto"),
    ] {
        for (mean, spread, reorder) in [(20.0, 5.0, false), (20.0, 5.0, true), (9.0, 0.4, false)] {
            let chain = format!(
                "[{{ jitter = {{ distribution = \"{name}\", mean = \"{mean}ms\", spread = \"{spread}ms\", \
                 reorder = {reorder} }} }}]"
            );
            for seed in seeds.clone() {
                for seen in probed(&known(&chain), seed) {
                    let jitter = seen.fit().unwrap().jitter;
                    println!("{name} {mean} ± {spread} ms, {reorder}, seed {seed}: {jitter:?}");
                    assert_eq!((jitter.distribution, jitter.reorder), (shape, reorder));
                    within("mean", jitter.mean.as_millis_f64(), mean, 0.1);
                    within("spread", jitter.spread.as_millis_f64(), spread, 0.1);
                }
            }
        }
    }
}

#[test]
fn the_jitter_of_shipped_networks_is_recovered_within_a_tenth() {
    jitter_of_shipped_networks(1..=2);
}

#[test]
#[ignore = "make test-long"]
fn the_jitter_of_shipped_networks_is_recovered_within_a_tenth_at_length() {
    jitter_of_shipped_networks(1..=10);
}

/// Their rates change, and they stand still: of the law alone, what varies is to be found.
fn jitter_of_shipped_networks(seeds: RangeInclusive<u64>) {
    for (file, link, shape, mean, spread) in [
        ("lte.toml", "uplink", Distribution::Uniform, 20.0, 5.0),
        ("lte.toml", "downlink", Distribution::Uniform, 20.0, 5.0),
        ("wifi.toml", "air", Distribution::Pareto, 2.3, 1.0),
        ("internet.toml", "internet", Distribution::Pareto, 10.7, 1.0),
    ] {
        let scenarios = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
        let scenario = Scenario::read(&scenarios.join(file)).unwrap();
        for seed in seeds.clone() {
            let mut inputs = Inputs::default();
            let mut pair = link_pair(&scenario, Some(link), Seed::new(seed), &mut inputs).unwrap();
            let jitter = Seen::over(&mut pair.up, EVERY, MINUTE, MESSAGE).fit().unwrap().jitter;
            println!("{file} {link}, seed {seed}: {jitter:?}");
            assert_eq!((jitter.distribution, jitter.reorder), (shape, false));
            within("mean", jitter.mean.as_millis_f64(), mean, 0.1);
            within("spread", jitter.spread.as_millis_f64(), spread, 0.1);
        }
    }
}

#[test]
fn losses_in_bursts_are_recovered_within_a_tenth() {
    for seed in SEEDS {
        let chain = "[{ loss = { gilbert_elliott = { p = \"2%\", r = \"30%\" } } }, { delay = \"8ms\" }]";
        for seen in probed(&known(chain), seed) {
            let fit = seen.fit().unwrap();
            let loss = fit.loss.unwrap();
            println!("seed {seed}: {loss:?}");
            within("p", loss.p, 0.02, 0.1);
            within("r", loss.r, 0.3, 0.1);
            assert_eq!((fit.jitter.mean, fit.jitter.spread), (Duration::from_millis(8), Duration::ZERO));
        }
    }
}

fn path<'a>(seen: [&'a Seen; 2], fits: &'a [Fit; 2]) -> Probed<'a> {
    let way = |at: usize| Way { seen: seen[at], message: MESSAGE, fit: &fits[at], trains: None };
    Probed { there: way(0), back: way(1) }
}

/// How samples fared in sessions, on the average.
#[derive(Debug)]
struct Fared {
    p50: f64,
    p99: f64,
    /// Of those sent, within their limit.
    in_time_percent: f64,
}

fn fared(results: &[RunResult], stream: &str) -> Fared {
    let mean = |of: fn(&MediumResult) -> f64| {
        results.iter().map(|result| of(medium(result, stream))).sum::<f64>() / results.len() as f64
    };
    Fared {
        p50: mean(|medium| medium.delay_ms.as_ref().unwrap().p50),
        p99: mean(|medium| medium.delay_ms.as_ref().unwrap().p99),
        in_time_percent: mean(|medium| {
            (medium.delivered - medium.late) as f64 * 100.0 / (medium.made - medium.withheld) as f64
        }),
    }
}

fn simulated(scenario: &Scenario, seed: u64) -> RunResult {
    run(scenario, Seed::new(seed), &mut |_| ()).unwrap()
}

const STEADY: &str =
    "[{ delay = \"15ms\" }, { jitter = { distribution = \"uniform\", mean = \"5ms\", spread = \"5ms\" } }]";
const IN_BURSTS: &str = "[{ loss = { gilbert_elliott = { p = \"0.5%\", r = \"25%\" } } }, \
                          { jitter = { distribution = \"normal\", mean = \"12ms\", spread = \"2ms\" } }]";

#[test]
fn a_session_over_what_was_probed_fares_as_over_the_link() {
    session_over_what_was_probed("probe", &[IN_BURSTS], &SEEDS[..2]);
}

#[test]
#[ignore = "make test-long"]
fn a_session_over_what_was_probed_fares_as_over_the_link_at_length() {
    session_over_what_was_probed("probe-at-length", &[STEADY, IN_BURSTS], &SEEDS);
}

fn session_over_what_was_probed(folder: &str, chains: &[&str], seeds: &[u64]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).unwrap();
    for chain in chains {
        let link = known(chain);
        // Where losses come in bursts, a minute of any of them has more or fewer by chance.
        let truths: Vec<RunResult> = seeds.iter().map(|&seed| simulated(&link, seed)).collect();
        let mut runs: [Vec<RunResult>; 2] = Default::default();
        for &seed in seeds {
            let [there, back] = probed(&link, seed + 100);
            let fits = [there.fit().unwrap(), back.fit().unwrap()];
            let files = scenario("probed.csv", &[path([&there, &back], &fits)]);
            fs::write(folder.join("probed.csv"), files.recording).unwrap();
            for (runs, text) in runs.iter_mut().zip([files.recorded, files.fitted]) {
                fs::write(folder.join("probed.toml"), text).unwrap();
                let probed = Scenario::read(&folder.join("probed.toml")).unwrap();
                runs.push(simulated(&probed, seed + 200));
            }
        }
        for (runs, name) in runs.iter().zip(["recorded", "fitted"]) {
            for stream in ["forward haptic", "backward haptic"] {
                let truth = fared(&truths, stream);
                for run in runs {
                    let probed = fared(std::slice::from_ref(run), stream);
                    println!("{name}, {stream}: {probed:.2?}, the link's own: {truth:.2?}");
                    within("p50", probed.p50, truth.p50, 0.1);
                    within("p99", probed.p99, truth.p99, 0.2);
                }
                let in_time = fared(runs, stream).in_time_percent;
                assert!((in_time - truth.in_time_percent).abs() <= 0.3, "{in_time}: {truth:?}");
            }
        }
    }
}

/// The chain of a shipped network's link, and what a probe sees of it.
fn shipped(file: &str, link: &str, seed: u64) -> (toml::Value, Seen) {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios")).join(file);
    let text: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
    let scenario = Scenario::read(&path).unwrap();
    let mut pair = link_pair(&scenario, Some(link), Seed::new(seed), &mut Inputs::default()).unwrap();
    (text["links"][link]["chain"].clone(), Seen::over(&mut pair.up, EVERY, MINUTE, MESSAGE))
}

/// A scenario with these chains in place of its own, in the order of its links.
fn over(scenario: &str, chains: &[toml::Value]) -> Scenario {
    let mut text: toml::Table = scenario.parse().unwrap();
    let links = text["links"].as_table_mut().unwrap();
    assert_eq!(links.len(), chains.len());
    for (at, chain) in chains.iter().enumerate() {
        let path = if chains.len() > 2 { format!("path{}-", at / 2 + 1) } else { String::new() };
        links[&format!("{path}{}", ["there", "back"][at % 2])]["chain"] = chain.clone();
    }
    Scenario::parse("over.toml", &text.to_string()).unwrap()
}

#[test]
fn sessions_over_a_probe_of_shipped_networks_fare_as_over_the_networks_themselves() {
    sessions_over_a_probe_of("probe-shipped", &["lte"]);
}

#[test]
#[ignore = "make test-long"]
fn sessions_over_a_probe_of_shipped_networks_fare_as_over_the_networks_at_length() {
    sessions_over_a_probe_of("probe-shipped-at-length", &["lte", "wifi", "internet", "lte and wifi"]);
}

/// Rates that change and standstills are in a recording, and not in what is fitted to it.
fn sessions_over_a_probe_of(folder: &str, networks: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let (lte, wifi) = ([("lte.toml", "downlink"), ("lte.toml", "uplink")], [("wifi.toml", "air"); 2]);
    let internet = [("internet.toml", "internet"); 2];
    for (name, links, is_steady) in [
        ("lte", lte.to_vec(), false),
        ("wifi", wifi.to_vec(), false),
        ("internet", internet.to_vec(), true),
        ("lte and wifi", [lte, wifi].concat(), false),
    ] {
        if !networks.contains(&name) {
            continue;
        }
        // Over the links themselves, over what was recorded and over what was fitted.
        let of_seed = |seed: u64| {
            let folder = folder.join(seed.to_string());
            fs::create_dir_all(&folder).unwrap();
            let probes =
                links.iter().zip(10 * seed..).map(|((file, link), number)| shipped(file, link, number));
            let (chains, seen): (Vec<_>, Vec<_>) = probes.unzip();
            let fit = |seen: &Seen| seen.fit().unwrap();
            let fits: Vec<[Fit; 2]> = seen.chunks(2).map(|way| [fit(&way[0]), fit(&way[1])]).collect();
            let ways = seen.chunks(2).zip(&fits);
            let paths: Vec<_> = ways.map(|(way, fits)| path([&way[0], &way[1]], fits)).collect();
            let files = scenario("probed.csv", &paths);
            fs::write(folder.join("probed.csv"), &files.recording).unwrap();
            fs::write(folder.join("probed.toml"), &files.recorded).unwrap();
            let recorded = Scenario::read(&folder.join("probed.toml")).unwrap();
            let fitted = is_steady.then(|| Scenario::parse("fitted.toml", &files.fitted).unwrap());
            let link = simulated(&over(&files.fitted, &chains), seed + 300);
            (link, simulated(&recorded, seed + 200), fitted.map(|fitted| simulated(&fitted, seed + 200)))
        };
        let runs = std::thread::scope(|scope| {
            [1, 2]
                .map(|seed| {
                    scope.spawn({
                        let of_seed = &of_seed;
                        move || of_seed(seed)
                    })
                })
                .map(|run| run.join().unwrap())
        });
        let [mut truths, mut recorded, mut fitted] = [(); 3].map(|()| Vec::new());
        for (link, played, steady) in runs {
            truths.push(link);
            recorded.push(played);
            fitted.extend(steady);
        }
        for (kind, runs) in [("recorded", recorded), ("fitted", fitted)] {
            for stream in ["forward haptic", "backward haptic"].iter().filter(|_| !runs.is_empty()) {
                let (truth, probed) = (fared(&truths, stream), fared(&runs, stream));
                println!("{name}, {kind}, {stream}: {probed:.3?}, the link's own: {truth:.3?}");
                within("p50", probed.p50, truth.p50, 0.1);
                within("p99", probed.p99, truth.p99, 0.2);
                let off = (probed.in_time_percent - truth.in_time_percent).abs();
                assert!(off <= 0.3, "{name}, {kind}, {stream}: {probed:?}, {truth:?}");
            }
        }
    }
}

#[test]
fn two_paths_are_one_scenario_of_two_paths_and_each_is_drawn_beside_what_was_fitted() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe-paths");
    fs::create_dir_all(&folder).unwrap();
    let near = probed(&known("[{ delay = \"5ms\" }, { loss = { bernoulli = \"2%\" } }]"), 1);
    let far =
        probed(&known("[{ jitter = { distribution = \"uniform\", mean = \"12ms\", spread = \"2ms\" } }]"), 2);
    let fits = [&near, &far].map(|seen| [seen[0].fit().unwrap(), seen[1].fit().unwrap()]);
    let paths = [path([&near[0], &near[1]], &fits[0]), path([&far[0], &far[1]], &fits[1])];
    let files = scenario("probed.csv", &paths);
    fs::write(folder.join("probed.csv"), files.recording).unwrap();
    let [recorded, fitted] = [files.recorded, files.fitted].map(|text| {
        fs::write(folder.join("probed.toml"), text).unwrap();
        let scenario = Scenario::read(&folder.join("probed.toml")).unwrap();
        scenario.with(&["duration=4s".parse().unwrap()]).unwrap()
    });
    for scenario in [&recorded, &fitted] {
        let result = simulated(scenario, 1);
        for stream in ["forward haptic", "backward haptic"] {
            let fared = fared(std::slice::from_ref(&result), stream);
            // By the near path, which loses, or by the far one.
            assert!((4.9..14.0).contains(&fared.p50) && fared.in_time_percent > 99.0, "{stream}: {fared:?}");
        }
    }
    let verdict = simulated(&fitted, 1).verdict;
    let names = ["wwan0".to_owned(), "wlan0".to_owned()];
    let drawn = report(&paths, &names, &fitted, [&verdict, &verdict]).unwrap();
    let shown: Vec<&str> = drawn.ways.iter().map(|way| way.name.as_str()).collect();
    assert_eq!(
        shown,
        [
            "wwan0, to the other end",
            "wwan0, from the other end",
            "wlan0, to the other end",
            "wlan0, from the other end"
        ]
    );
    for way in &drawn.ways {
        let [recorded, fitted] = [&way.recorded_ms, &way.fitted_ms].map(|delays| delays.as_ref().unwrap());
        within(&way.name, fitted.p50, recorded.p50, 0.05);
        within(&way.name, way.fitted_loss_percent, way.recorded_loss_percent, 0.2);
    }
    let page = taut_report::probe_html(&drawn);
    assert!(page.matches("<figure>").count() == 8 && page.contains("wlan0, from the other end"), "{page}");
}

#[test]
fn clocks_that_were_never_set_and_run_apart_are_compared_by_the_fastest_messages() {
    let chain =
        "[{ jitter = { distribution = \"uniform\", mean = \"12ms\", spread = \"4ms\", reorder = true } }]";
    for seed in SEEDS {
        let truth = probed(&known(chain), seed);
        // The other end's clock is 3 h behind, and 40 ppm too fast.
        let error = |number: usize| -10_800_000_000_000 + 40 * number as i64;
        let mut wrong = [1, -1].map(|_: i64| Seen::new(EVERY, MINUTE));
        for (way, sign) in [(0, 1), (1, -1)] {
            for (number, delay) in truth[way].delays().enumerate() {
                let transit_ns = delay.unwrap().as_nanos() as i64 + sign * error(number);
                wrong[way].arrived(number, Arrival { transit_ns, held: false, overtaken: false });
            }
        }
        let [there, back] = &mut wrong;
        compare(there, back);
        for (seen, truth) in wrong.iter().zip(&truth) {
            let off = |(seen, truth): (Option<Duration>, Option<Duration>)| {
                (seen.unwrap().as_millis_f64() - truth.unwrap().as_millis_f64()).abs()
            };
            let most = seen.delays().zip(truth.delays()).map(off).fold(0.0, f64::max);
            println!("seed {seed}: off by {most} ms at most");
            assert!(most < 0.1);
        }
    }
}

#[test]
fn a_delay_of_one_direction_that_changes_for_good_is_no_difference_of_the_clocks() {
    for ppm in [0, 40] {
        let mut wrong = [1, -1].map(|_: i64| Seen::new(EVERY, MINUTE));
        let delay = |way: usize, number: usize| if way == 0 && number >= 25_000 { 12 } else { 2 };
        for (way, sign) in [(0, 1), (1, -1)] {
            for number in 0..MINUTE {
                let transit_ns =
                    delay(way, number) * 1_000_000 + sign * (7_000_000_000 + ppm * number as i64);
                wrong[way].arrived(number, Arrival { transit_ns, held: false, overtaken: false });
            }
        }
        let [there, back] = &mut wrong;
        compare(there, back);
        for (way, seen) in wrong.iter().enumerate() {
            for (number, told) in seen.delays().enumerate() {
                let off = told.unwrap().as_millis_f64() - delay(way, number) as f64;
                // Half of the shortest round trip.
                assert!(off.abs() <= 2.0, "{ppm} ppm, {number}: off by {off} ms");
            }
        }
    }
}

#[test]
fn what_happened_after_the_first_minute_is_played_and_judged() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe-long");
    fs::create_dir_all(&folder).unwrap();
    let mut seen = Seen::new(EVERY, 2 * MINUTE);
    // Nothing gets through for ten seconds.
    for number in (0..2 * MINUTE).filter(|number| !(80_000..90_000).contains(number)) {
        seen.arrived(number, took(Duration::from_millis(5)));
    }
    let fits = [seen.fit().unwrap(), seen.fit().unwrap()];
    let files = scenario("probed.csv", &[path([&seen, &seen], &fits)]);
    fs::write(folder.join("probed.csv"), files.recording).unwrap();
    fs::write(folder.join("probed.toml"), files.recorded).unwrap();
    let recorded = Scenario::read(&folder.join("probed.toml")).unwrap();
    assert_eq!(recorded.duration, Duration::from_secs(120));
    let result = simulated(&recorded, 1);
    let lost = medium(&result, "forward haptic").loss_percent.unwrap();
    assert!((lost - 100.0 / 12.0).abs() < 0.1, "{lost} %");
}

#[test]
fn what_the_receiving_host_held_up_is_no_loss_and_no_delay_of_the_path() {
    let mut seen = Seen::new(EVERY, 2_000);
    for number in 0..2_000 {
        let held = number % 10 == 9;
        let delay = Duration::from_millis(if held { 50 } else { 8 });
        seen.arrived(number, Arrival { held, ..took(delay) });
    }
    let fit = seen.fit().unwrap();
    assert_eq!((seen.received(), seen.held(), fit.loss), (2_000, 200, None));
    assert_eq!(
        (fit.jitter.mean, seen.quantile(1.0)),
        (Duration::from_millis(8), Some(Duration::from_millis(8)))
    );
    assert!(seen.delays().all(|delay| delay == Some(Duration::from_millis(8))));
}

#[test]
fn too_little_says_so() {
    let mut seen = Seen::new(EVERY, 2_000);
    assert!((0..999).all(|number| seen.arrived(number, took(EVERY))));
    let error = seen.fit().unwrap_err();
    assert!(error.to_string().starts_with("999 messages arrived, and 1000 are needed"), "{error}");
    assert!(!seen.arrived(5, took(EVERY)), "a copy");
    let mut busy = Seen::new(EVERY, 2_000);
    assert!((0..2_000).all(|number| busy.arrived(number, Arrival { held: true, ..took(EVERY) })));
    let error = busy.fit().unwrap_err().to_string();
    assert!(error.starts_with("2000 messages arrived, of which 2000 do not count"), "{error}");
    assert!(!seen.arrived(2_000, took(EVERY)), "never sent");
    assert!(seen.arrived(1_000, took(EVERY)) && seen.fit().is_ok());
    assert_eq!((seen.overtaken(), seen.arrived(999, took(EVERY)), seen.overtaken()), (0, true, 1));
}
