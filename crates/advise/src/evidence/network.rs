//! A scenario for one network, made for it: what to run when nothing that was measured is quite the user's.

use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{Condition, Evidence, EvidenceError, EvidenceSet, hex, points};
use taut_lab::scenario::Scenario;

/// What the shipped evidence is made with: the session and its carriers are taken from here.
const GRID: &str = include_str!("../../../../scenarios/recommend/grid.toml");

/// How errors call the scenario.
const ORIGIN: &str = "the network that is asked for";

/// A loss is written to parts per thousand million.
const DECIMALS: usize = 7;

impl Condition {
    /// A scenario whose variants are every carrier over this network: the same session, queue and way of counting as those of
    /// `scenarios/recommend/*.toml`, so that what it measures at one of their points is the same to the last digit. Over a
    /// round trip of more than a third of a second it runs for longer.
    ///
    /// ```
    /// use taut_advise::evidence::Condition;
    /// use taut_lab::scenario::Scenario;
    /// let network = Condition {
    ///     loss_percent: 0.4,
    ///     burst: 1.0,
    ///     one_way_ms: 65.0,
    ///     jitter_ms: 0.0,
    ///     rate_mbit: 5.0,
    ///     video: false,
    /// };
    /// let scenario = Scenario::parse("network.toml", &network.scenario()?)?;
    /// assert_eq!(scenario.all_variants().len(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When so much cannot be lost in bursts so short.
    pub fn scenario(&self) -> Result<String, EvidenceError> {
        let (warmup, duration, drain) = times_ms(self.one_way_ms);
        // The delay of a jitter is never below zero: three standard deviations above, where there is room for them.
        let jitter_mean = (3.0 * self.jitter_ms).min(self.one_way_ms);
        let loss = self.loss()?;
        let mut text = format!(
            "title = \"One network\"\ndescription = \"\"\"\nNine ways to carry a session with feedback at 1 kHz both ways over \
             one network, as scenarios/recommend/grid.toml \\\nhas them over many.\"\"\"\nduration = \"{duration}ms\"\n\
             drain = \"{drain}ms\"\nwarmup = \"{warmup}ms\"\n\n[links.path]\nbetween = [\"operator\", \"robot\"]\nchain = [\n    \
             {{ server = {{ rate = \"{}Mbit\", queue = {{ packets = 100 }} }} }},\n    {{ delay = \"{}ms\" }},\n    \
             {{ loss = {loss} }},\n",
            self.rate_mbit,
            self.one_way_ms - jitter_mean,
        );
        if self.jitter_ms > 0.0 {
            let _ = writeln!(
                text,
                "    {{ jitter = {{ distribution = \"normal\", mean = \"{jitter_mean}ms\", spread = \"{}ms\", correlation = 0.5, \
                 reorder = true }} }},",
                self.jitter_ms
            );
        }
        text += "]\n\n";
        if self.video {
            text += "[cross.cameras]\nfrom = \"robot\"\nto = \"operator\"\ncount = 5\ntraffic = { video = { fps = 25, packet = \
                     \"1200B\" } }\n\n";
        }
        Ok(text + session_and_carriers())
    }

    fn loss(&self) -> Result<String, EvidenceError> {
        let (loss, burst) = (self.loss_percent / 100.0, self.burst);
        if burst <= 1.0 {
            return Ok(format!("{{ bernoulli = \"{}%\" }}", decimals(self.loss_percent)));
        }
        // In the bad state all is lost: loss = p / (p + r), and a burst is 1/r long in the mean.
        let r = 1.0 / burst;
        let p = loss * r / (1.0 - loss);
        if !(0.0..=1.0).contains(&p) {
            let lost = self.loss_percent;
            return Err(EvidenceError(format!("{lost} % cannot be lost in bursts of {burst} packets")));
        }
        // As many digits as the scenarios of the evidence have.
        let percent = |share: f64| format!("{:.6}%", 100.0 * share);
        Ok(format!("{{ gilbert_elliott = {{ p = \"{}\", r = \"{}\" }} }}", percent(p), percent(r)))
    }
}

fn decimals(value: f64) -> String {
    let text = format!("{value:.DECIMALS$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Warm-up, duration and drain: the handshake, three seconds that count, and until repetitions are done.
fn times_ms(one_way_ms: f64) -> (u64, u64, u64) {
    let round_trip = (2.0 * one_way_ms).ceil() as u64;
    let warmup = (3 * round_trip).max(1_000);
    (warmup, warmup + 3_000, (12 * round_trip).max(4_000))
}

/// From `[teleop]` to the end of the first axis, which is that of the carriers.
fn session_and_carriers() -> &'static str {
    let from = GRID.find("[teleop]").expect("the grid has a session");
    let mut axes = GRID[from..].match_indices("[[axis]]\n").map(|(at, _)| from + at);
    &GRID[from..axes.nth(1).expect("the grid varies more than the carrier")]
}

impl Evidence {
    /// Runs every carrier over one network, with every seed; the points are of exactly this network. `kept` names the file
    /// in which [`Condition::scenario`] was kept, where it was.
    ///
    /// # Errors
    /// A network that no scenario can be made for, or that cannot be run.
    pub fn of_network(
        network: &Condition,
        kept: Option<&Path>,
        seeds: &[u64],
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, EvidenceError> {
        let text = network.scenario()?;
        let scenario = Scenario::parse(ORIGIN, &text).map_err(|e| EvidenceError(e.to_string()))?;
        let mut points =
            points(&scenario, seeds, progress).map_err(|e| EvidenceError(format!("{ORIGIN}: {e}")))?;
        // Not rounded to the digits of a file.
        points.iter_mut().for_each(|point| point.condition = *network);
        let set = EvidenceSet {
            scenario: kept.map_or_else(String::new, |file| file.display().to_string()),
            sha256: hex(&Sha256::digest(&text)),
            title: scenario.title,
            seeds: seeds.to_vec(),
            points,
        };
        Ok(Self { taut: env!("CARGO_PKG_VERSION").to_owned(), sets: vec![set] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(one_way_ms: f64) -> Condition {
        Condition { loss_percent: 0.0, burst: 1.0, one_way_ms, jitter_ms: 0.0, rate_mbit: 10.0, video: false }
    }

    fn read_back(network: &Condition) -> Condition {
        let scenario = Scenario::parse("network.toml", &network.scenario().unwrap()).unwrap();
        Condition::of(&scenario.expand().unwrap()[0].1).unwrap()
    }

    #[test]
    fn a_networks_scenario_is_of_that_network() {
        let plain = network(65.0);
        for asked in [
            plain,
            Condition { loss_percent: 0.4, rate_mbit: 4.5, ..plain },
            Condition { loss_percent: 0.4, burst: 2.5, jitter_ms: 4.5, video: true, ..plain },
            // No room for three standard deviations.
            Condition { one_way_ms: 0.3, jitter_ms: 7.0, ..plain },
            Condition { loss_percent: 0.000_001, ..plain },
        ] {
            assert_eq!(read_back(&asked), asked);
        }
    }

    #[test]
    fn bursts_too_short_for_so_much_loss_are_refused() {
        let told = Condition { loss_percent: 90.0, burst: 2.0, ..network(5.0) }.scenario().unwrap_err();
        assert_eq!(told.to_string(), "90 % cannot be lost in bursts of 2 packets");
    }

    #[test]
    fn long_ways_are_given_the_time_of_their_handshakes() {
        assert_eq!(times_ms(5.0), (1_000, 4_000, 4_000));
        assert_eq!(times_ms(150.0), (1_000, 4_000, 4_000));
        assert_eq!(times_ms(500.0), (3_000, 6_000, 12_000));
    }
}
