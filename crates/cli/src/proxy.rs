//! `taut proxy`: carries the datagrams of applications that know nothing of it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use clap::Args;
use serde_json::{Value, json};
use taut_agent::Trouble;
use taut_core::{DropCause, Duration, Time};
use taut_io::proxy::{
    ADAPTIVE_POLL, ProxyCommand, ProxyConfig, ProxyLocal, ProxyMachine, ProxyNote, ProxyStats, proxy,
};
use taut_io::session::{Endpoint, Remote, Security, TransportKind};
use taut_io::{Clock, Driver, DriverConfig};
use taut_transport::identity::{Fingerprint, Trust};

use crate::diagnostics::{Log, Traces};
use crate::host::{self, Begun, OnSignal, Scheduling, Session, json_line};
use crate::identity::Plaintext;
use crate::part::PartOf;
use crate::paths::{self, Paths};
use crate::quantity::between;
use crate::streams::print;
use crate::{Ended, last_stop};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to listen: udp:PORT or udp:ADDRESS:PORT for applications (the near end), or ADDRESS:PORT for the other proxy (the
    /// far end)
    #[arg(long, value_name = "[udp:]ADDRESS:PORT")]
    listen: Side,
    /// Where to: of the near end the other proxy, HOST:PORT; of the far end the application, udp:HOST:PORT
    #[arg(long, value_name = "[udp:]HOST:PORT")]
    to: Side,
    /// The fingerprint of the other proxy; `taut identity` shows it
    #[arg(
        long,
        value_name = "FINGERPRINT",
        required_unless_present = "in_the_clear",
        conflicts_with = "in_the_clear"
    )]
    trust: Vec<Fingerprint>,
    /// mtip, mpquic, udp, quic, tcp, sctp, dccp or etp
    #[arg(long, default_value = "mtip")]
    transport: TransportKind,
    /// The age at which a datagram is worthless, counted from when a proxy got it from its application: of what is sent from here, and
    /// of what arrives here
    #[arg(long, value_name = "DURATION", default_value = "200ms")]
    deadline: Duration,
    /// Give applications here what others of its flow have overtaken as well, in whatever order it comes
    #[arg(long)]
    keep_overtaken: bool,
    /// Flows at a time: addresses of applications
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    flows: u16,
    /// A flow ends when nothing was said in it for so long, 1s to a day
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = between(SECOND, DAY))]
    idle: Duration,
    /// The file of this host's identity, as for `taut identity`
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    #[command(flatten)]
    plaintext: Plaintext,
    /// Print what happens as JSON Lines
    #[arg(long)]
    json: bool,
    /// A report so often
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = host::every)]
    every: Duration,
    /// While datagrams come no further apart than this on the average, poll instead of sleeping: quicker, at the cost of a CPU
    /// that nobody else wants; 0s: never [default: 200us; with --fifo 0s]
    #[arg(long, value_name = "GAP")]
    spin: Option<Duration>,
    #[command(flatten)]
    paths: Paths,
    #[command(flatten)]
    log: Log,
    #[command(flatten)]
    traces: Traces,
    #[command(flatten)]
    scheduling: Scheduling,
}

/// Bytes: some thousand small datagrams, where `net.core.rmem_max` allows it.
const RECEIVE_BUFFER: usize = 4 << 20;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Whose side an address is on.
#[derive(Clone, Debug)]
enum Side {
    Application(String),
    Proxy(String),
}

impl FromStr for Side {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text.strip_prefix("udp:") {
            // All addresses of this host that others cannot reach: who wants more says so.
            Some(port) if port.parse::<u16>().is_ok() => Self::Application(format!("127.0.0.1:{port}")),
            Some(address) => Self::Application(address.to_owned()),
            None => Self::Proxy(text.to_owned()),
        })
    }
}

/// What the two addresses make of a proxy.
struct Ends {
    local: ProxyLocal,
    /// Of the near end.
    remote: Option<SocketAddr>,
    /// Of the far end.
    listen: Option<SocketAddr>,
}

impl Arguments {
    fn ends(&self) -> Result<Ends, String> {
        match (&self.listen, &self.to) {
            (Side::Application(at), Side::Proxy(to)) => {
                let address = host::resolve(at)?;
                let socket = UdpSocket::bind(address).map_err(|error| format!("{address}: {error}"))?;
                Ok(Ends { local: ProxyLocal::Near(socket), remote: Some(host::resolve(to)?), listen: None })
            }
            (Side::Proxy(at), Side::Application(to)) => {
                let listen = Some(host::resolve(at)?);
                Ok(Ends { local: ProxyLocal::Far(host::resolve(to)?), remote: None, listen })
            }
            _ => Err("one end faces applications, the other one the other proxy: --listen udp:7000 --to HOST:7001 \
                      at the near end, --listen 0.0.0.0:7001 --to udp:127.0.0.1:7000 at the far end"
                .to_owned()),
        }
    }

    fn driver(&self) -> DriverConfig {
        let spin = if self.scheduling.is_fifo() { Duration::ZERO } else { ADAPTIVE_POLL };
        self.scheduling.driver().adaptive_poll(self.spin.unwrap_or(spin))
    }

    fn security(&self) -> Result<Security, String> {
        let (trust, risk) = (
            Trust::from_iter(self.trust.iter().copied()),
            "whoever is on the way can read and change what passes",
        );
        self.plaintext.or_identity(self.identity.as_deref(), trust, risk)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Ended {
    let clock = Clock::start();
    arguments.log.start(arguments.json, clock)?;
    last_stop::end_on_panic();
    let (ends, security) = (arguments.ends()?, arguments.security()?);
    let fingerprint = security.fingerprint().map(|own| own.to_string());
    let transport = arguments.paths.transport(arguments.transport, arguments.deadline)?;
    let (transport, _traces) = arguments.traces.of(transport, &clock)?;
    let endpoint = match (ends.remote, ends.listen) {
        (Some(remote), _) => Endpoint::connect(transport, remote, security, &clock),
        (_, Some(listen)) => Endpoint::listen(transport, listen, security, &clock),
        _ => unreachable!("it connects or listens"),
    };
    let endpoint = arguments.paths.over(endpoint.map_err(|error| error.to_string())?)?;
    let endpoint = endpoint.receive_buffer(RECEIVE_BUFFER);
    let far = endpoint.remote().is_none();
    let address = if far { endpoint.local_addr().ok() } else { local_address(&ends.local) };
    let config = ProxyConfig::new()
        .flows(arguments.flows.into())
        .idle(arguments.idle)
        .deadline(Some(arguments.deadline))
        .keep_overtaken(arguments.keep_overtaken)
        .strictly_in_time(arguments.paths.strictly_in_time());
    let (driver_config, period, local) = (arguments.driver(), arguments.every, ends.local);
    let kept = endpoint.capabilities();
    let signals = Arc::new(OnSignal::before(&PartOf::default())?);
    let signalled = Arc::clone(&signals);
    let work = move |begun: Begun<Remote<ProxyMachine>>, notes: SyncSender<(Time, ProxyNote)>| {
        let driver = Driver::new(driver_config).map_err(|error| error.to_string())?.with_clock(clock);
        let started = |remote: Remote<ProxyMachine>| {
            let closing = remote.clone();
            signalled.end_by(move || _ = closing.insist(ProxyCommand::Close));
            begun.tell(Ok(remote));
        };
        // Who listens too slowly misses some.
        let tell = &mut |at, note| drop(notes.try_send((at, note)));
        proxy(driver, &endpoint, local, config, Some(period), started, tell)
            .map_err(|error| error.to_string())
    };
    let session = Session::start(arguments.scheduling, kept, work)?;
    let session = session.map_err(|ended| ended.err().unwrap_or_else(|| "it ended at once".to_owned()))?;
    let out = Output { json: arguments.json };
    out.listening(clock.now(), address, arguments.transport, fingerprint, far);
    for (at, note) in &session.notes {
        out.note(at, &note);
    }
    let stats = session.join()?;
    out.tell(clock.now(), "summary", &stats);
    Ok(ExitCode::SUCCESS)
}

fn local_address(local: &ProxyLocal) -> Option<SocketAddr> {
    match local {
        ProxyLocal::Near(socket) => socket.local_addr().ok(),
        ProxyLocal::Far(to) => Some(*to),
    }
}

/// Why there is no session, where there is neither robot nor operator.
fn between_proxies(why: &Trouble) -> String {
    match why {
        Trouble::NoAnswer | Trouble::Unreachable => why.to_string(),
        Trouble::Busy => "the other proxy has a session with another one".to_owned(),
        Trouble::NotTrusted => "the other proxy does not trust this identity".to_owned(),
        Trouble::WrongPeer => "the other end is not the proxy that is trusted here".to_owned(),
        Trouble::SentAway => {
            "the other proxy sent us away: it has a session with another one or does not trust this identity"
                .to_owned()
        }
        Trouble::Ended(why) => why.replace("the robot", "the other proxy"),
    }
}

struct Output {
    json: bool,
}

impl Output {
    fn listening(
        &self,
        at: Time,
        address: Option<SocketAddr>,
        transport: TransportKind,
        identity: Option<String>,
        far: bool,
    ) {
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        if self.json {
            let more = [
                ("address", json!(address)),
                ("transport", json!(transport.name())),
                ("identity", json!(identity)),
            ];
            return print(&json_line("listening", at, more));
        }
        let identity = identity.unwrap_or_else(|| "a proxy without identity".to_owned());
        let whom = if far { "the other proxy" } else { "applications" };
        print(&format!("{identity}\nlistens at {address} for {whom}; {transport} between the two\n"));
    }

    fn note(&self, at: Time, note: &ProxyNote) {
        match note {
            ProxyNote::Path(path) => paths::tell(at, path, self.json),
            ProxyNote::Progress(stats) => self.tell(at, "status", stats),
            ProxyNote::Connected => self.say(at, "connected", "the other proxy answers", Vec::new()),
            ProxyNote::Closed(why) => {
                let why = between_proxies(why);
                self.say(at, "closed", &format!("no session: {why}"), vec![("why", json!(why))])
            }
        }
    }

    fn say(&self, at: Time, event: &'static str, text: &str, more: Vec<(&'static str, Value)>) {
        if self.json {
            return print(&json_line(event, at, more));
        }
        print(&format!("{:>9.3} s  {text}\n", at.as_secs_f64()));
    }

    fn tell(&self, at: Time, event: &'static str, stats: &ProxyStats) {
        if self.json {
            let by_cause = |counts: &BTreeMap<DropCause, u64>| {
                counts.iter().map(|(cause, count)| (cause.name().to_owned(), Value::from(*count))).collect()
            };
            let choices = stats.choices.as_ref().map(paths::choices_as_json);
            let more = [
                ("taken", json!(stats.taken)),
                ("sent", json!(stats.sent)),
                ("arrived", json!(stats.arrived)),
                ("given", json!(stats.given)),
                ("dropped", Value::Object(by_cause(&stats.dropped))),
                ("refused", Value::Object(by_cause(&stats.refused))),
                ("flows", json!(stats.flows)),
                ("flows_idle", json!(stats.flows_idle)),
                ("flows_full", json!(stats.flows_full)),
                ("refused_here", json!(stats.refused_here)),
                ("clock_asked", json!(stats.clock.asked)),
                ("clock_answered", json!(stats.clock.answered)),
                ("clock_steps", json!(stats.clock.steps)),
                ("clock_uncertainty_ms", json!(stats.clock.uncertainty.map(Duration::as_millis_f64))),
                ("choices", json!(choices)),
            ];
            return print(&json_line(event, at, more));
        }
        let causes = |counts: &BTreeMap<DropCause, u64>| match counts.is_empty() {
            true => "none".to_owned(),
            false => {
                let each = counts.iter().map(|(cause, count)| format!("{} {count}", cause.name()));
                each.collect::<Vec<_>>().join(", ")
            }
        };
        let (dropped, refused) = (causes(&stats.dropped), causes(&stats.refused));
        let choices = stats.choices.as_ref().and_then(paths::choices_in_words);
        let choices = choices.map_or_else(String::new, |choices| format!("; {choices}"));
        let clocks = stats.clock.uncertainty.map_or_else(
            || "; clocks not compared".to_owned(),
            |doubt| format!("; clocks compared to ±{:.1} ms", doubt.as_millis_f64()),
        );
        let ProxyStats { taken, sent, arrived, given, flows, flows_idle, .. } = stats;
        print(&format!(
            "{:>9.3} s  taken {taken}, sent {sent}; arrived {arrived}, given {given}; dropped: {dropped}; refused: {refused}; flows {flows}, of which \
             ended {flows_idle}{clocks}{choices}\n",
            at.as_secs_f64()
        ));
    }
}
