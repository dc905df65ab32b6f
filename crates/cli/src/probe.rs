//! `taut probe`: measures a network both ways by a session of numbered messages, and writes it as scenarios.

mod ends;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use serde_json::{Value, json};
use taut_agent::{OperatorCommand, OperatorSettings, RobotCommand};
use taut_core::Duration;
use taut_io::session::{
    Endpoint, OperateConfig, OperatorMachine, Remote, RobotMachine, ServeConfig, TransportConfig,
    TransportKind, operate, os_seed, serve,
};
use taut_io::{Clock, Driver, DriverConfig};
use taut_lab::probe::{Fit, Seen, compare, scenario};
use taut_session::{OperatorConfig, RobotConfig};
use taut_transport::identity::{Fingerprint, Trust};

use self::ends::{Answering, Asking, BothWays, EVERY};
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
    let session =
        ends::declared().into_iter().try_fold(RobotConfig::new().window(false), RobotConfig::channel);
    let config = ServeConfig::new(session.map_err(|error| error.to_string())?);
    let driver = Driver::new(DriverConfig::new()).map_err(|error| error.to_string())?.with_clock(*clock);
    print(&if as_json {
        json_line("listening", clock.now(), [("address", json!(address.to_string()))])
    } else {
        format!("answers probes at {address}\n")
    })?;
    let mut signals = Ok(None);
    let started = |remote: Remote<RobotMachine<Answering>>| {
        signals = OnSignal::new(move || host::insist(|| remote.send(RobotCommand::Close))).map(Some);
    };
    let served = serve(driver, endpoint, config, Answering::new(*clock), started, &mut |_, _| ());
    signals?;
    served.map(|_| ExitCode::SUCCESS).map_err(|error| error.to_string())
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
    // Ctrl-C ends it too: what was seen by then is told.
    let _signals = OnSignal::new(move || {
        let _ = over.send(()); // It may have ended already.
    })?;
    let bar = Bar::new(&format!("probing {to}"), arguments.json);
    let began = clock.now();
    let whole = (arguments.duration + ends::AROUND).as_secs_f64();
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
    ended.map_err(|error| {
        format!("{to}: {error}; is `taut probe --listen` running there, does it trust this host, and does no other probe have it?")
    })?;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let BothWays { there, back } = &mut *seen;
    compare(there, back);
    let fit = |seen: &Seen, way: &str| seen.fit().map_err(|error| format!("{way}: {error}"));
    let (there, back) = (fit(&seen.there, "to the other end")?, fit(&seen.back, "from the other end")?);
    write(&arguments.out, (&seen.there, &there), (&seen.back, &back))?;
    for (name, seen, fit) in [("there", &seen.there, &there), ("back", &seen.back, &back)] {
        let figures = figures(seen, fit);
        print(&if arguments.json {
            json_line("measured", clock.now(), [("way", json!(name)), ("figures", figures)])
        } else {
            text(name, &figures)
        })?;
    }
    if !arguments.json {
        print(&format!("`taut run {}` simulates a session over it\n", arguments.out.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(out: &Path, there: (&Seen, &Fit), back: (&Seen, &Fit)) -> Result<(), String> {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let csv = format!("{stem}.csv");
    let files = scenario(&csv, there, back);
    for (name, text) in [
        (out.to_owned(), files.fitted),
        (out.with_file_name(format!("{stem}-recorded.toml")), files.recorded),
        (out.with_file_name(csv), files.recording),
    ] {
        std::fs::write(&name, text).map_err(|error| format!("{}: {error}", name.display()))?;
    }
    Ok(())
}

fn figures(seen: &Seen, fit: &Fit) -> Value {
    let ms = |share| seen.quantile(share).map(Duration::as_millis_f64);
    json!({
        "received": seen.received(),
        "held": seen.held(),
        "overtaken": seen.overtaken(),
        "delay_min_ms": ms(0.0),
        "delay_p50_ms": ms(0.5),
        "delay_p99_ms": ms(0.99),
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
    let ms = |value: &Value| value.as_f64().unwrap_or_default();
    let fit = &figures["fit"];
    let loss = match (fit["p"].as_f64(), fit["r"].as_f64()) {
        (Some(p), Some(r)) => {
            format!("losses begin at {:.3} % of messages and last {:.1}", p * 100.0, 1.0 / r)
        }
        _ => "nothing is lost".to_owned(),
    };
    format!(
        "{name:<5} delay {:.2} ms, p50 {:.2}, p99 {:.2}; {} overtaken; {loss}\n      fitted: {} {:.2} ± {:.2} ms, off by {:.2}\n",
        ms(&figures["delay_min_ms"]),
        ms(&figures["delay_p50_ms"]),
        ms(&figures["delay_p99_ms"]),
        figures["overtaken"],
        fit["distribution"].as_str().unwrap_or_default(),
        ms(&fit["mean_ms"]),
        ms(&fit["spread_ms"]),
        ms(&fit["error_ms"]),
    )
}
