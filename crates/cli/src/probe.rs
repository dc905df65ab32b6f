//! `taut probe`: measures a network both ways by a session of numbered messages, and writes it as scenarios.

mod answer;
mod answering;
mod asking;
mod ends;
mod receipts;
mod results;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use clap::Args;
use taut_agent::{OperatorCommand, OperatorNote, OperatorSettings};
use taut_core::{Bytes, Duration};
use taut_io::session::{
    Endpoint, OperateConfig, OperatorMachine, PathSpec, Remote, Told, TransportConfig, TransportKind,
    operate, os_seed,
};
use taut_io::{Clock, Driver, DriverConfig};
use taut_lab::probe::{Fit, Probed, Seen, Way, compare};
use taut_session::{ChannelEvent, ChannelRefusal, OperatorConfig, OperatorEvent};
use taut_transport::identity::{Fingerprint, Trust};
use taut_transport::mtip::MAX_PATHS;

pub(crate) use self::answer::Beside;
use self::asking::Asking;
use self::ends::{BothWays, EVERY, Wire};
use self::results::Found;
use crate::host::{self, OnSignal, lock};
use crate::identity::Plaintext;
use crate::progress::Bar;
use crate::quantity::duration;
use crate::{Ended, has_folder};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where the other end of the probe listens; of several paths each its own, one after the other
    #[arg(value_name = "HOST:PORT", required_unless_present = "listen", conflicts_with = "listen")]
    connect: Vec<String>,
    /// Go over this interface or from this address of ours, such as wwan0. Repeatable, a path each: all of them to the one HOST:PORT, or each to its own
    #[arg(long, value_name = "INTERFACE|ADDRESS", conflicts_with = "listen")]
    path: Vec<PathSpec>,
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
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = length, conflicts_with = "listen")]
    duration: Duration,
    /// Write the fitted network to FILE.toml, what plays the recording to FILE-recorded.toml, and the recording to FILE.csv
    #[arg(long, value_name = "FILE.toml", default_value = "probed.toml", value_parser = toml_file, conflicts_with = "listen")]
    out: PathBuf,
    /// The file of this host's identity, as for `taut identity`
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    #[command(flatten)]
    plaintext: Plaintext,
    /// Draw what was recorded beside what was fitted, as a page
    #[arg(long, value_name = "FILE.html", conflicts_with = "listen")]
    report: Option<PathBuf>,
    /// Print what was measured as JSON Lines
    #[arg(long)]
    json: bool,
}

/// What to look at where nobody answers.
const ASK: &str = "is `taut robot --probe` or `taut probe --listen` running there, does it trust this host, and does no other probe have it?";

fn length(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
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
    if let Some(listen) = arguments.listen {
        let endpoint = Endpoint::listen(transport, listen, security, &clock);
        return answer::listening(arguments.json, &clock, &endpoint.map_err(|error| error.to_string())?);
    }
    for file in [Some(&arguments.out), arguments.report.as_ref()].into_iter().flatten() {
        has_folder(file)?;
    }
    let legs = legs(arguments)?;
    let several = legs.len() > 1;
    let (mut names, mut measured) = (Vec::new(), Vec::new());
    // One after the other: none is to see what is sent over another.
    for Leg { name, to, begins } in &legs {
        let endpoint = host::resolve(to).and_then(|to| {
            let endpoint = Endpoint::connect(transport.clone(), to, security.clone(), &clock);
            let endpoint = endpoint.and_then(|endpoint| endpoint.over(begins.as_slice()));
            endpoint.map_err(|error| error.to_string())
        });
        let sealed = security.fingerprint().is_some();
        let found = endpoint
            .map_err(|error| Unmeasured::Path(format!("{name}: {error}")))
            .and_then(|endpoint| asking(arguments, name, &clock, &endpoint, sealed));
        match found {
            Ok(found) => {
                names.push(name.clone());
                measured.push(found);
            }
            // What the others show is worth as much without it.
            Err(Unmeasured::Path(why)) if several => crate::say(&format!("{why}; it is left out")),
            Err(Unmeasured::Path(why) | Unmeasured::All(why)) => return Err(why),
        }
    }
    if measured.is_empty() {
        return Err("no path could be measured: nothing is written".to_owned());
    }
    let paths: Vec<Probed<'_>> = measured.iter().map(Measured::path).collect();
    let ended = Found { paths: &paths, names: &names, several }.tell(arguments, &clock)?;
    Ok(if names.len() == legs.len() { ended } else { ExitCode::FAILURE })
}

/// Why there is no measurement.
enum Unmeasured {
    /// Of this path; another may have one.
    Path(String),
    /// Of any.
    All(String),
}

/// A path to be probed.
struct Leg<'a> {
    name: String,
    to: &'a str,
    /// Where it begins, if that is said.
    begins: Option<PathSpec>,
}

fn legs(arguments: &Arguments) -> Result<Vec<Leg<'_>>, String> {
    let Arguments { connect, path, .. } = arguments;
    let count = connect.len().max(path.len());
    if count > MAX_PATHS {
        return Err(format!("{count} paths: a session has at most {MAX_PATHS}"));
    }
    let to = |at: usize| connect.get(at).or(connect.first().filter(|_| connect.len() == 1));
    let leg = |at: usize| {
        let to = to(at)?;
        let begins = path.get(at).cloned();
        let name = begins.as_ref().map_or_else(|| to.clone(), ToString::to_string);
        Some(Leg { name, to, begins })
    };
    let all: Option<Vec<_>> = (0..count).map(leg).collect();
    let all = all.filter(|_| path.is_empty() || path.len() == count);
    all.ok_or_else(|| {
        format!(
            "{} times HOST:PORT and {} times --path: one HOST:PORT for all, or one each",
            connect.len(),
            path.len()
        )
    })
}

/// What was seen of a path, and what would do the same.
struct Measured {
    seen: BothWays,
    fits: [Fit; 2],
    message: Bytes,
}

impl Measured {
    fn path(&self) -> Probed<'_> {
        let Self { seen, fits, message } = self;
        let way = |seen, fit, trains| Way { seen, message: *message, fit, trains: Some(trains) };
        Probed {
            there: way(&seen.there, &fits[0], &seen.trains_there),
            back: way(&seen.back, &fits[1], &seen.trains_back),
        }
    }
}

fn asking(
    arguments: &Arguments,
    to: &str,
    clock: &Clock,
    endpoint: &Endpoint,
    sealed: bool,
) -> Result<Measured, Unmeasured> {
    let all = |error: &dyn std::fmt::Display| Unmeasured::All(error.to_string());
    let wire = Wire::to(endpoint.remote(), sealed);
    let messages = (arguments.duration.as_nanos() / EVERY.as_nanos()) as usize;
    let seen = Arc::new(Mutex::new(BothWays::new(messages, wire)));
    let session =
        ends::declared().into_iter().try_fold(OperatorConfig::new().window(false), OperatorConfig::channel);
    let agent = OperatorSettings::new(EVERY).reports_by_time(Duration::from_millis(200));
    let config = OperateConfig::new(session.map_err(|error| all(&error))?, agent);
    let driver = Driver::new(DriverConfig::new()).map_err(|error| all(&error))?.with_clock(*clock);
    let (over, is_over) = channel();
    let device = Asking::new(
        *clock,
        os_seed().stream("probe").next_u64() as u32,
        messages,
        Arc::clone(&seen),
        over.clone(),
    );
    let interrupted = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&interrupted);
    let signals = OnSignal::new(move || {
        by_signal.store(true, Ordering::Relaxed);
        let _ = over.send(()); // It may have ended already.
    });
    let _signals = signals.map_err(|error| all(&error))?;
    let bar = Bar::new(&format!("probing {to}"), arguments.json);
    let began = clock.now();
    let whole = (arguments.duration + ends::around(messages)).as_secs_f64();
    let mut is_of_another_release = false;
    let tell = &mut |at: taut_core::Time, told| {
        is_of_another_release |= matches!(
            told,
            Told::Note(OperatorNote::Event(OperatorEvent::Channel(ChannelEvent::Refused {
                why: ChannelRefusal::OtherSchema,
                ..
            })))
        );
        bar.set(at.saturating_since(began).as_secs_f64() / whole);
    };
    let started = |remote: Remote<OperatorMachine<Asking>>| {
        std::thread::spawn(move || {
            if is_over.recv().is_ok() {
                remote.insist(OperatorCommand::Close);
            }
        });
    };
    let ended = operate(driver, endpoint, config, device, started, tell);
    drop(bar);
    ended.map_err(|error| Unmeasured::Path(format!("{to}: {error}; {ASK}")))?;
    let mut seen = lock(&seen);
    if seen.is_busy {
        let why = format!("{to}: the robot there has an operator, who comes first; probe when it is free");
        return Err(Unmeasured::All(why));
    }
    if is_of_another_release {
        let why = "the other end probes in the way of another release: have the same one at both ends";
        return Err(Unmeasured::Path(format!("{to}: {why}")));
    }
    if seen.is_silent {
        let why = format!("{to}: nothing is heard from there any more, or never was; {ASK}");
        return Err(Unmeasured::Path(why));
    }
    if !seen.is_told() {
        let why = "it ended before the other end told what arrived there";
        return Err(if interrupted.load(Ordering::Relaxed) {
            Unmeasured::All(format!("{why}: nothing is written"))
        } else {
            Unmeasured::Path(format!("{to}: {why}"))
        });
    }
    let mut seen = std::mem::replace(&mut *seen, BothWays::new(0, wire));
    compare(&mut seen.there, &mut seen.back);
    let fit = |seen: &Seen, way: &str| {
        seen.fit().map_err(|error| Unmeasured::Path(format!("{to}: {way}: {error}")))
    };
    let fits = [fit(&seen.there, "to the other end")?, fit(&seen.back, "from the other end")?];
    Ok(Measured { seen, fits, message: wire.measured() })
}
