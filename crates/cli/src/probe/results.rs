//! What came of a probe: files, figures, sessions over it, a report, advice.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use taut_advise::evidence::Evidence;
use taut_advise::recommend::{Question, advice_text, recommend};
use taut_core::{Duration, Probability, Seed, printable};
use taut_io::Clock;
use taut_lab::job;
use taut_lab::probe::{Probed, Trains, Way, report, scenario};
use taut_lab::run::Extras;
use taut_lab::scenario::Scenario;
use taut_report::probe_html;
use taut_report::result::RunResult;

use super::Arguments;
use crate::host::json_line;
use crate::progress::Bar;
use crate::{Ended, print};

/// What is known of all paths, and what they are called.
pub(super) struct Found<'a> {
    pub(super) paths: &'a [Probed<'a>],
    pub(super) names: &'a [String],
    /// More were asked for than one.
    pub(super) several: bool,
}

impl Found<'_> {
    /// Writes it, says it, simulates over it, and draws it.
    pub(super) fn tell(&self, arguments: &Arguments, clock: &Clock) -> Ended {
        let written = self.write(&arguments.out)?;
        for (path, name) in self.paths.iter().zip(self.names) {
            if self.several && !arguments.json {
                print(&format!("{name}\n"))?;
            }
            for (direction, way) in [("there", path.there), ("back", path.back)] {
                let figures = figures(way);
                print(&if arguments.json {
                    let named = self.several.then(|| ("path", json!(name)));
                    let line = [("way", json!(direction)), ("figures", figures)];
                    json_line("measured", clock.now(), named.into_iter().chain(line))
                } else {
                    text(direction, &figures)
                })?;
            }
        }
        let [recorded, fitted] = felt(arguments, clock, &written)?;
        if let Some(file) = &arguments.report {
            let scenario = Scenario::read(&written[0]).map_err(|error| error.to_string())?;
            let drawn = report(self.paths, self.names, &scenario, [&recorded.verdict, &fitted.verdict]);
            let drawn = drawn.map_err(|error| error.within(&written[0]).to_string())?;
            std::fs::write(file, probe_html(&drawn))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        advise(self, arguments, clock)
    }

    /// The fitted scenario, and that of the recording. Of several paths they say first which is which.
    fn write(&self, out: &Path) -> Result<[PathBuf; 2], String> {
        let stem = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (csv, recorded) = (format!("{stem}.csv"), out.with_file_name(format!("{stem}-recorded.toml")));
        let files = scenario(&csv, self.paths);
        let lines = (1..).zip(self.names).filter(|_| self.several);
        let which: String =
            lines.map(|(number, name)| format!("# path {number}: {}\n", printable(name))).collect();
        for (name, text) in [
            (out, which.clone() + &files.fitted),
            (&recorded, which + &files.recorded),
            (&out.with_file_name(csv), files.recording),
        ] {
            std::fs::write(name, text).map_err(|error| format!("{}: {error}", name.display()))?;
        }
        Ok([out.to_owned(), recorded])
    }
}

/// What sessions over the recording and over what was fitted would be, side by side.
fn felt(arguments: &Arguments, clock: &Clock, written: &[PathBuf; 2]) -> Result<[RunResult; 2], String> {
    let [fitted, recorded] = written;
    let bar = Bar::new("simulating a session over it", arguments.json);
    let simulate = |file: &PathBuf, from: f64| {
        let scenario = Scenario::read(file).map_err(|error| error.to_string())?;
        let done = job::single(&scenario, Seed::new(1), Extras::default(), None, &mut |fraction| {
            bar.set(from + fraction / 2.0);
        });
        done.map(|(result, _)| result).map_err(|error| error.within(file).to_string())
    };
    let (recorded_result, fitted_result) = (simulate(recorded, 0.0)?, simulate(fitted, 0.5)?);
    drop(bar);
    if arguments.json {
        for (of, file, result) in
            [("recorded", recorded, &recorded_result), ("fitted", fitted, &fitted_result)]
        {
            let line = [
                ("of", json!(of)),
                ("file", json!(file)),
                ("met", json!(result.verdict.met)),
                ("limits", json!(result.verdict.limits)),
            ];
            print(&json_line("session", clock.now(), line))?;
        }
    } else {
        print(&side_by_side(&recorded_result, &fitted_result))?;
        print(&format!(
            "{} and {} are those scenarios: `taut run FILE`\n",
            recorded.display(),
            fitted.display()
        ))?;
    }
    Ok([recorded_result, fitted_result])
}

fn side_by_side(recorded: &RunResult, fitted: &RunResult) -> String {
    let mut text =
        format!("\n{:<32}{:>12}{:>12}{:>12}\n", "a session over it", "recorded", "fitted", "allowed");
    for (recorded, fitted) in recorded.verdict.limits.iter().zip(&fitted.verdict.limits) {
        let name = format!("{}, {}", recorded.stream, recorded.quantity);
        let value = |limit: Option<f64>| limit.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let allowed = format!("{} {}", recorded.limit, recorded.unit);
        text += &format!("{name:<32}{:>12}{:>12}{allowed:>12}\n", value(recorded.value), value(fitted.value));
    }
    let felt = |result: &RunResult| if result.verdict.met { "met" } else { "not met" };
    text + &format!("{:<32}{:>12}{:>12}\n\n", "all limits", felt(recorded), felt(fitted))
}

/// By what a session goes best over a network as this one was in the mean, of each figure the worse direction's. Of several paths the one is
/// looked at that is alone the best: what was measured of several holds where each has the same network.
fn advise(found: &Found<'_>, arguments: &Arguments, clock: &Clock) -> Ended {
    let lossy =
        |way: Way<'_>| way.fit.loss.map_or((0.0, 1.0), |loss| (loss.p / (loss.p + loss.r), 1.0 / loss.r));
    // What is lost is never there. Where that is more than one in a hundred, fewer losses are better.
    let late = |way: Way<'_>| {
        let (came, ppm) = (1.0 - way.seen.lost(), (way.seen.lost() * 1e6) as u64);
        let by = if came < 0.99 { None } else { way.seen.quantile(0.99 / came) };
        by.map_or((Duration::MAX, ppm), |by| (by, 0))
    };
    let best = found.paths.iter().zip(found.names);
    let best = best.min_by_key(|(path, _)| late(path.there).max(late(path.back)));
    let Some((best, name)) = best else { return Ok(ExitCode::SUCCESS) };
    let [there, back] = [best.there, best.back];
    let (loss, burst) = if lossy(there).0 > lossy(back).0 { lossy(there) } else { lossy(back) };
    if loss >= 0.5 {
        if !arguments.json {
            print(&format!(
                "No advice: {:.0} % is lost, and nothing was measured with half and more.\n",
                loss * 100.0
            ))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let rate = |way: Way<'_>| way.trains.and_then(Trains::rate);
    let question = Question {
        haptic: true,
        one_way: there.seen.quantile(0.5).max(back.seen.quantile(0.5)),
        loss: Probability::from_fraction(loss).map_err(|error| error.to_string())?,
        burst: Some(burst.clamp(1.0, 10_000.0)),
        jitter: there.seen.deviation().max(back.seen.deviation()),
        rate: rate(there).into_iter().chain(rate(back)).min(),
        ..Question::default()
    };
    let need = question.need(str::to_owned)?;
    let evidence = Evidence::shipped().map_err(|error| error.to_string())?;
    let bar = Bar::new("pressing a wall by each control law", arguments.json);
    let recommendation = recommend(&evidence, &need).with_laws();
    drop(bar);
    if arguments.json {
        let named = found.several.then(|| ("path", json!(name)));
        let line = [("recommendation", json!(recommendation))];
        print(&json_line("recommendation", clock.now(), named.into_iter().chain(line)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.several {
        print(&format!("Over {name} alone, of the paths the one over which 99 % are there first:\n"))?;
    }
    let network = &need.network;
    if question.rate.is_none() {
        print(&format!(
            "How much it carries was not found, and is taken to be {} Mbit/s: of a narrow network this is no advice.\n",
            network.rate_mbit
        ))?;
    }
    let rate = question.rate.map_or_else(String::new, |rate| format!(" --rate {rate}"));
    let command = format!(
        "taut recommend --haptic --one-way {:.2}ms --loss {:.3}% --jitter {:.2}ms --burst {:.1}{rate}",
        network.one_way_ms, network.loss_percent, network.jitter_ms, network.burst
    );
    print(&format!("{}\nWhy, and what else there is: `{command}`\n", advice_text(&recommendation)))?;
    Ok(ExitCode::SUCCESS)
}

fn figures(way: Way<'_>) -> Value {
    let Way { seen, fit, trains, .. } = way;
    let ms = |share| seen.quantile(share).map(Duration::as_millis_f64);
    json!({
        "received": seen.received(),
        "held": seen.held(),
        "overtaken": seen.overtaken(),
        "delay_min_ms": ms(0.0),
        "delay_p50_ms": ms(0.5),
        "delay_p99_ms": ms(0.99),
        "rate_bps": trains.and_then(Trains::rate).map(taut_core::Bitrate::as_bps),
        "train_taken_bytes": trains.map(|trains| trains.taken().get()),
        "fit": {
            "distribution": fit.jitter.distribution,
            "mean_ms": fit.jitter.mean.as_millis_f64(),
            "spread_ms": fit.jitter.spread.as_millis_f64(),
            "error_ms": fit.jitter.error.as_millis_f64(),
            "p": fit.loss.map(|loss| loss.p),
            "r": fit.loss.map(|loss| loss.r),
        },
    })
}

fn text(name: &str, figures: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let fit = &figures["fit"];
    let loss = match (fit["p"].as_f64(), fit["r"].as_f64()) {
        (Some(p), Some(r)) => {
            format!("losses begin at {:.3} % of messages and last {:.1}", p * 100.0, 1.0 / r)
        }
        _ => "nothing is lost".to_owned(),
    };
    let rate = match figures["rate_bps"].as_f64() {
        Some(rate) => format!("carries {:.2} Mbit/s", rate / 1e6),
        None => "how much it carries was not found".to_owned(),
    };
    format!(
        "{name:<5} delay {:.2} ms, p50 {:.2}, p99 {:.2}; {} overtaken; {loss}; {rate}\n      fitted: {} {:.2} ± {:.2} ms, off by {:.2}\n",
        number(&figures["delay_min_ms"]),
        number(&figures["delay_p50_ms"]),
        number(&figures["delay_p99_ms"]),
        figures["overtaken"],
        fit["distribution"].as_str().unwrap_or_default(),
        number(&fit["mean_ms"]),
        number(&fit["spread_ms"]),
        number(&fit["error_ms"]),
    )
}
