//! `taut probe`: measures a network both ways by a session of numbered messages, and writes it as scenarios.

mod ends;
mod receipts;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use serde_json::{Value, json};
use taut_advise::evidence::Evidence;
use taut_advise::recommend::{Question, advice_text, recommend};
use taut_agent::{OperatorCommand, OperatorSettings, RobotCommand};
use taut_core::{Duration, Probability, Seed};
use taut_io::session::{
    Endpoint, OperateConfig, OperatorMachine, Remote, RobotMachine, Security, ServeConfig, TransportConfig,
    TransportKind, operate, os_seed, serve,
};
use taut_io::{Clock, Driver, DriverConfig, spawn_unprivileged};
use taut_lab::job;
use taut_lab::probe::{Seen, Way, compare, scenario};
use taut_lab::run::Extras;
use taut_lab::scenario::Scenario;
use taut_report::result::RunResult;
use taut_session::{OperatorConfig, RobotConfig};
use taut_transport::identity::{Fingerprint, Trust};

use self::ends::{Answering, Asking, BothWays, EVERY, MESSAGE};
use crate::host::{self, OnSignal, json_line};
use crate::identity::Plaintext;
use crate::progress::Bar;
use crate::{Ended, print};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where the other end of the probe listens
    #[arg(value_name = "HOST:PORT", required_unless_present = "listen", conflicts_with = "listen")]
    connect: Option<String>,
    /// Be that end, at ADDRESS:PORT: answer one probe after the other, until Ctrl-C. Nothing moves by it
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = host::address)]
    listen: Option<SocketAddr>,
    /// The fingerprint of the other end; `taut identity` shows it
    #[arg(
        long,
        value_name = "FINGERPRINT",
        required_unless_present = "in_the_clear",
        conflicts_with = "in_the_clear"
    )]
    trust: Vec<Fingerprint>,
    /// Measure for so long, 2s to 15min
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = length)]
    duration: Duration,
    /// Write the fitted network to FILE.toml, what plays the recording to FILE-recorded.toml, and the recording to FILE.csv
    #[arg(long, value_name = "FILE.toml", default_value = "probed.toml", value_parser = toml_file)]
    out: PathBuf,
    /// The file of this host's identity, as for `taut identity`
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    #[command(flatten)]
    plaintext: Plaintext,
    /// Print what was measured as JSON Lines
    #[arg(long)]
    json: bool,
}

/// What to look at where nobody answers.
const ASK: &str = "is `taut robot --probe` or `taut probe --listen` running there, does it trust this host, and does no other probe have it?";

fn length(text: &str) -> Result<Duration, String> {
    let length: Duration = text.parse().map_err(|error: taut_core::ParseQuantityError| error.to_string())?;
    let longest = EVERY.saturating_mul(Seen::MOST as u64);
    if !(Duration::from_secs(2)..=longest).contains(&length) {
        return Err("is from 2s to 15min: shorter says too little".to_owned());
    }
    Ok(length)
}

fn toml_file(text: &str) -> Result<PathBuf, String> {
    let named = text.strip_suffix(".toml").is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'));
    if named { Ok(text.into()) } else { Err(format!("`{text}` is not FILE.toml")) }
}

pub(crate) fn probe(arguments: &Arguments) -> Ended {
    let clock = Clock::start();
    let trust = Trust::from_iter(arguments.trust.iter().copied());
    let risk = "whoever is on the way can change what is measured";
    let security = arguments.plaintext.or_identity(arguments.identity.as_deref(), trust, risk)?;
    // As states travel by default, but nothing is repeated, and no window holds messages back: what a path loses and delays is to be seen, not what its
    // sender does about it.
    let transport = TransportConfig::from(TransportKind::Udp);
    match (arguments.listen, &arguments.connect) {
        (Some(listen), _) => {
            let endpoint = Endpoint::listen(transport, listen, security, &clock);
            listening(arguments.json, &clock, &endpoint.map_err(|error| error.to_string())?)
        }
        (None, Some(to)) => {
            let endpoint = Endpoint::connect(transport, host::resolve(to)?, security, &clock);
            asking(arguments, to, &clock, &endpoint.map_err(|error| error.to_string())?)
        }
        (None, None) => Err("where to? `taut probe HOST:PORT`, or --listen ADDRESS:PORT".to_owned()),
    }
}

fn listening(as_json: bool, clock: &Clock, endpoint: &Endpoint) -> Ended {
    let address = endpoint.local_addr().map_err(|error| error.to_string())?;
    print(&if as_json {
        json_line("listening", clock.now(), [("address", json!(address.to_string()))])
    } else {
        format!("answers probes at {address}\n")
    })?;
    let mut signals = Ok(None);
    let started = |remote: Remote<RobotMachine<Answering>>| {
        signals = OnSignal::new(move || host::insist(|| remote.send(RobotCommand::Close))).map(Some);
    };
    answered(clock, endpoint, Arc::default(), started)?;
    signals?;
    Ok(ExitCode::SUCCESS)
}

/// Answers one probe after the other, but while it `is_busy`.
fn answered(
    clock: &Clock,
    endpoint: &Endpoint,
    is_busy: Arc<AtomicBool>,
    started: impl FnOnce(Remote<RobotMachine<Answering>>),
) -> Result<(), String> {
    let session =
        ends::declared().into_iter().try_fold(RobotConfig::new().window(false), RobotConfig::channel);
    let config = ServeConfig::new(session.map_err(|error| error.to_string())?);
    let driver = Driver::new(DriverConfig::new()).map_err(|error| error.to_string())?.with_clock(*clock);
    let served = serve(driver, endpoint, config, Answering::new(*clock, is_busy), started, &mut |_, _| ());
    served.map(|_| ()).map_err(|error| error.to_string())
}

/// The end of probes that is beside a robot.
pub(crate) struct Beside {
    endpoint: Endpoint,
    pub(crate) address: SocketAddr,
}

impl Beside {
    pub(crate) fn listen(listen: SocketAddr, security: Security, clock: &Clock) -> Result<Self, String> {
        let endpoint = Endpoint::listen(TransportConfig::from(TransportKind::Udp), listen, security, clock);
        let endpoint = endpoint.map_err(|error| format!("--probe {listen}: {error}"))?;
        let address = endpoint.local_addr().map_err(|error| error.to_string())?;
        Ok(Self { endpoint, address })
    }

    /// Answers for as long as the process lives; while it `is_busy`, only that it is.
    pub(crate) fn start(self, clock: Clock, is_busy: Arc<AtomicBool>) -> Result<(), String> {
        let work = move || {
            if let Err(error) = answered(&clock, &self.endpoint, is_busy, |_| ()) {
                crate::say(&format!("probes are not answered any more: {error}"));
            }
        };
        let started = spawn_unprivileged("taut probe", || (), work);
        started.map(|_| ()).map_err(|error| error.to_string())
    }
}

fn asking(arguments: &Arguments, to: &str, clock: &Clock, endpoint: &Endpoint) -> Ended {
    let messages = (arguments.duration.as_nanos() / EVERY.as_nanos()) as usize;
    let seen = Arc::new(Mutex::new(BothWays::new(messages)));
    let session =
        ends::declared().into_iter().try_fold(OperatorConfig::new().window(false), OperatorConfig::channel);
    let agent = OperatorSettings::new(EVERY).reports_by_time(Duration::from_millis(200));
    let config = OperateConfig::new(session.map_err(|error| error.to_string())?, agent);
    let driver = Driver::new(DriverConfig::new()).map_err(|error| error.to_string())?.with_clock(*clock);
    let (over, is_over) = channel();
    let device = Asking::new(
        *clock,
        os_seed().stream("probe").next_u64() as u32,
        messages,
        Arc::clone(&seen),
        over.clone(),
    );
    let _signals = OnSignal::new(move || {
        let _ = over.send(()); // It may have ended already.
    })?;
    let bar = Bar::new(&format!("probing {to}"), arguments.json);
    let began = clock.now();
    let whole = (arguments.duration + ends::around(messages)).as_secs_f64();
    let tell = &mut |at: taut_core::Time, _| bar.set(at.saturating_since(began).as_secs_f64() / whole);
    let started = |remote: Remote<OperatorMachine<Asking>>| {
        std::thread::spawn(move || {
            if is_over.recv().is_ok() {
                host::insist(|| remote.send(OperatorCommand::Close));
            }
        });
    };
    let ended = operate(driver, endpoint, config, device, started, tell);
    drop(bar);
    ended.map_err(|error| format!("{to}: {error}; {ASK}"))?;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.is_busy {
        return Err(format!("{to}: the robot there has an operator, who comes first; probe when it is free"));
    }
    if seen.is_silent {
        return Err(format!("{to}: nothing is heard from there any more, or never was; {ASK}"));
    }
    if !seen.is_told() {
        return Err("it ended before the other end told what arrived there: nothing is written".to_owned());
    }
    let BothWays { there, back, .. } = &mut *seen;
    compare(there, back);
    let fit = |seen: &Seen, way: &str| seen.fit().map_err(|error| format!("{way}: {error}"));
    let fits = (fit(&seen.there, "to the other end")?, fit(&seen.back, "from the other end")?);
    let there = Way { seen: &seen.there, fit: &fits.0, carries: Some((&seen.trains_there, MESSAGE)) };
    let back = Way { seen: &seen.back, fit: &fits.1, carries: Some((&seen.trains_back, MESSAGE)) };
    let written = write(&arguments.out, there, back)?;
    for (name, way) in [("there", there), ("back", back)] {
        let figures = figures(way);
        print(&if arguments.json {
            json_line("measured", clock.now(), [("way", json!(name)), ("figures", figures)])
        } else {
            text(name, &figures)
        })?;
    }
    felt(arguments, clock, &written)?;
    advise(arguments, clock, there, back)
}

/// The fitted scenario, and that of the recording.
fn write(out: &Path, there: Way<'_>, back: Way<'_>) -> Result<[PathBuf; 2], String> {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (csv, recorded) = (format!("{stem}.csv"), out.with_file_name(format!("{stem}-recorded.toml")));
    let files = scenario(&csv, there, back);
    for (name, text) in
        [(out, files.fitted), (&recorded, files.recorded), (&out.with_file_name(csv), files.recording)]
    {
        std::fs::write(name, text).map_err(|error| format!("{}: {error}", name.display()))?;
    }
    Ok([out.to_owned(), recorded])
}

/// What sessions over both would be, side by side.
fn felt(arguments: &Arguments, clock: &Clock, written: &[PathBuf; 2]) -> Result<(), String> {
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
        return Ok(());
    }
    print(&side_by_side(&recorded_result, &fitted_result))?;
    print(&format!("{} and {} are those scenarios: `taut run FILE`\n", recorded.display(), fitted.display()))
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

/// By what a session goes best over a network as this one was in the mean.
fn advise(arguments: &Arguments, clock: &Clock, there: Way<'_>, back: Way<'_>) -> Ended {
    let lossy =
        |way: Way<'_>| way.fit.loss.map_or((0.0, 1.0), |loss| (loss.p / (loss.p + loss.r), 1.0 / loss.r));
    let (loss, burst) = if lossy(there).0 > lossy(back).0 { lossy(there) } else { lossy(back) };
    let rate = |way: Way<'_>| way.carries.and_then(|(trains, _)| trains.rate());
    let question = Question {
        haptic: true,
        one_way: there.seen.quantile(0.5).max(back.seen.quantile(0.5)),
        loss: Probability::from_fraction(loss.min(0.49)).map_err(|error| error.to_string())?,
        burst: Some(burst.clamp(1.0, 10_000.0)),
        jitter: there.seen.deviation().max(back.seen.deviation()),
        rate: rate(there).into_iter().chain(rate(back)).min(),
        ..Question::default()
    };
    let need = question.need(str::to_owned)?;
    let evidence = Evidence::shipped().map_err(|error| error.to_string())?;
    let recommendation = recommend(&evidence, &need);
    if arguments.json {
        print(&json_line("recommendation", clock.now(), [("recommendation", json!(recommendation))]))?;
        return Ok(ExitCode::SUCCESS);
    }
    let network = &need.network;
    let rate = question.rate.map_or_else(String::new, |rate| format!(" --rate {}bit", rate.as_bps()));
    let command = format!(
        "taut recommend --haptic --one-way {:.2}ms --loss {:.3}% --burst {:.1} --jitter {:.2}ms{rate}",
        network.one_way_ms, network.loss_percent, network.burst, network.jitter_ms
    );
    print(&format!("{}\nWhy, and what else there is: `{command}`\n", advice_text(&recommendation)))?;
    Ok(ExitCode::SUCCESS)
}

fn figures(way: Way<'_>) -> Value {
    let Way { seen, fit, carries } = way;
    let ms = |share| seen.quantile(share).map(Duration::as_millis_f64);
    json!({
        "received": seen.received(),
        "held": seen.held(),
        "overtaken": seen.overtaken(),
        "delay_min_ms": ms(0.0),
        "delay_p50_ms": ms(0.5),
        "delay_p99_ms": ms(0.99),
        "rate_bps": carries.and_then(|(trains, _)| trains.rate()).map(taut_core::Bitrate::as_bps),
        "train_taken_bytes": carries.map(|(trains, _)| trains.taken().get()),
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
