//! `taut robot`: beside the robot, real or simulated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::SyncSender;

use clap::Args;
use serde_json::{Value, json};
use taut_core::{DropCause, Duration, Time};
use taut_io::device::Plant;
use taut_io::device::lines::DeviceLimits;
use taut_io::session::{
    DeviceReport, Endpoint, Refused, Remote, RobotCommand, RobotMachine, RobotNote, RobotRecord, Security,
    ServeConfig, Standing, TransportKind, serve,
};
use taut_io::{Clock, Driver};
use taut_session::{Codec, Latch, LimitPolicy, MotionLimits, RobotConfig, RobotEvent, Status, patience};
use taut_transport::identity::{Fingerprint, Trust};

use crate::button::Word;
use crate::device::{Moved, Ready};
use crate::host::{self, OnSignal, Scheduling, Session, every, json_line};
use crate::identity::Plaintext;
use crate::operator::too_slow;
use crate::paths::{self, Paths};
use crate::recent::{self, Recent};
use crate::state::{self, kept};
use crate::streams::{Form, print, say};
use crate::watchdog::Watchdogs;
use crate::{Ended, button, last_stop, streams};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to listen: 0.0.0.0:4433 is port 4433 of every address
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = host::address)]
    listen: SocketAddr,
    /// The fingerprint of an operator that may have the robot; `taut identity` shows it. Repeatable
    #[arg(
        long,
        value_name = "FINGERPRINT",
        required_unless_present = "in_the_clear",
        conflicts_with = "in_the_clear"
    )]
    trust: Vec<Fingerprint>,
    /// quic, udp, tcp, sctp, dccp, etp, mtip or mpquic
    #[arg(long, default_value = "quic")]
    transport: TransportKind,
    /// DCCP in IP packets of its own (protocol 33) instead of UDP: with --transport dccp --plaintext, as root
    #[arg(long)]
    raw: bool,
    /// What moves: a simulated robot that touches nothing, foam, a spring or a wall, sim[:free|foam|spring|wall], or a device
    /// that is a command, exec:COMMAND, which needs --position-limit, --velocity-limit and --force-limit
    #[arg(long, default_value = "sim", value_name = "ROBOT")]
    robot: Moved,
    /// Stop so long after the last state that was applied was made; what it takes on its way counts
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = silence)]
    watchdog: Duration,
    /// The age at which no state is applied, whatever the operator allows; how unsure the clocks are counts as age [default: the
    /// watchdog's time]
    #[arg(long, value_name = "DURATION", value_parser = silence)]
    max_age: Option<Duration>,
    /// Move only while the operator's enabling input is held
    #[arg(long)]
    hold_to_run: bool,
    /// The age at which what the robot feels is worthless to the operator
    #[arg(long, value_name = "DURATION", default_value = "200ms")]
    feedback_deadline: Duration,
    /// Keep the position within this box, m: x,y,z,x,y,z, the least corner first
    #[arg(long, value_name = "BOX", value_delimiter = ',', allow_hyphen_values = true)]
    position_limit: Vec<f32>,
    /// The largest speed, m/s, by the robot's own clock: however the commanded position jumps
    #[arg(long, value_name = "M/S", value_parser = host::amount)]
    velocity_limit: Option<f32>,
    /// The largest acceleration of the commanded position, m/s²
    #[arg(long, value_name = "M/S²", value_parser = host::amount)]
    acceleration_limit: Option<f32>,
    /// The largest force that the arm's controller may make, N
    #[arg(long, value_name = "N", value_parser = host::amount)]
    force_limit: Option<f32>,
    /// The longest way from one state to the next, m, besides the speed
    #[arg(long, value_name = "M", value_parser = host::amount)]
    step_limit: Option<f32>,
    /// The most states that are taken in a second
    #[arg(long, value_name = "HZ", value_parser = host::amount, default_value = "4000")]
    rate_limit: f32,
    /// Drop states beyond a limit, instead of bringing them within it
    #[arg(long)]
    refuse: bool,
    /// The bytes of the session: native, or omni71 for peers that know nothing else
    #[arg(long, default_value = "native", value_parser = parse_codec)]
    codec: Codec,
    /// The file of this host's identity, as for `taut identity`
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Where a latched stop survives this process; by default a file for this --listen in $STATE_DIRECTORY, in taut/ of
    /// $XDG_STATE_HOME, or of ~/.local/state
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    #[command(flatten)]
    plaintext: Plaintext,
    /// Print what happens as JSON Lines
    #[arg(long)]
    json: bool,
    /// Take the button from standard input, a word a line: e or stop, r or release, q or quit, h (the button is there). Its end
    /// and any other line stop the robot too
    #[arg(long)]
    commands: bool,
    /// Stop when the button of --commands has said nothing for so long [default: it need not]
    #[arg(long, value_name = "DURATION", requires = "commands", value_parser = silence)]
    button_heartbeat: Option<Duration>,
    /// Feed this watchdog, such as /dev/watchdog, while the session runs: the machine starts anew when it hangs
    #[arg(long, value_name = "PATH")]
    watchdog_device: Option<PathBuf>,
    /// A report so often while there is an operator
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = every)]
    every: Duration,
    #[command(flatten)]
    paths: Paths,
    #[command(flatten)]
    scheduling: Scheduling,
}

pub(crate) fn parse_codec(text: &str) -> Result<Codec, String> {
    match text {
        "native" => Ok(Codec::Native),
        "omni71" => Ok(Codec::Omni71),
        _ => Err(format!("`{text}` is not a codec; there are native, omni71")),
    }
}

/// Arguments `--watchdog` and `--button-heartbeat`.
fn silence(text: &str) -> Result<Duration, String> {
    let silence: Duration = text.parse().map_err(|error: taut_core::ParseQuantityError| error.to_string())?;
    if silence < Duration::from_millis(1) {
        return Err("is from 1ms up: nothing comes more often".to_owned());
    }
    Ok(silence)
}

/// What lines of standard input ask for.
const COMMANDS: [(&str, Word<RobotCommand>); 7] = [
    ("e", Word::Stop),
    ("stop", Word::Stop),
    ("r", Word::Command(RobotCommand::Release)),
    ("release", Word::Command(RobotCommand::Release)),
    ("q", Word::Command(RobotCommand::Close)),
    ("quit", Word::Command(RobotCommand::Close)),
    ("h", Word::Nothing),
];

impl Arguments {
    fn limits(&self) -> Result<MotionLimits, String> {
        let mut limits = MotionLimits::new().rate(self.rate_limit);
        if let [a, b, c, d, e, f] = self.position_limit[..] {
            limits = limits.position([a, b, c], [d, e, f]);
        }
        if !matches!(self.position_limit.len(), 0 | 6)
            || self.position_limit.iter().any(|limit| limit.is_nan())
        {
            return Err("--position-limit is six numbers, separated by commas: x,y,z,x,y,z".into());
        }
        limits = self.velocity_limit.map_or(limits, |limit| limits.velocity(limit));
        limits = self.acceleration_limit.map_or(limits, |limit| limits.acceleration(limit));
        limits = self.force_limit.map_or(limits, |limit| limits.force(limit));
        limits = self.step_limit.map_or(limits, |limit| limits.step(limit));
        Ok(if self.refuse { limits.policy(LimitPolicy::Refuse) } else { limits })
    }

    /// What the device keeps to by itself.
    fn device_limits(&self) -> DeviceLimits {
        let finite = |limit: Option<f32>| limit.filter(|limit| limit.is_finite());
        let position = match self.position_limit[..] {
            [a, b, c, d, e, f] => Some([[a.min(d), b.min(e), c.min(f)], [a.max(d), b.max(e), c.max(f)]]),
            _ => None,
        };
        DeviceLimits {
            position: position.filter(|corners| corners.iter().flatten().all(|part| part.is_finite())),
            velocity: finite(self.velocity_limit),
            force: finite(self.force_limit),
        }
    }

    /// `stiffness` is that of the device.
    fn config(&self, stiffness: Option<f32>) -> Result<RobotConfig, String> {
        if self.hold_to_run && self.codec == Codec::Omni71 {
            return Err("--hold-to-run: omni71 cannot say whether an enabling input is held".into());
        }
        let limits = self.limits()?;
        Ok(RobotConfig::new()
            .codec(self.codec)
            .watchdog(self.watchdog)
            .max_age(self.max_age.unwrap_or(self.watchdog))
            .hold_to_run(self.hold_to_run)
            .limits(stiffness.map_or(limits, |stiffness| limits.stiffness(stiffness)))
            .feedback_deadline(self.feedback_deadline))
    }

    fn record(&self) -> Result<RobotRecord, String> {
        let path = self.state.clone().map_or_else(|| state::of_robot(self.listen), Ok)?;
        RobotRecord::open(&path).map_err(|error| format!("--state: {error}"))
    }

    fn security(&self) -> Result<Security, String> {
        let (trust, risk) = (
            Trust::from_iter(self.trust.iter().copied()),
            &format!("whoever reaches {} can move this robot", self.listen),
        );
        self.plaintext.or_identity(self.identity.as_deref(), trust, risk)
    }

    fn watchdogs(&self) -> Result<Watchdogs, String> {
        let variable = |name: &str| std::env::var(name).ok();
        Watchdogs::open(variable, std::process::id(), self.watchdog_device.as_deref())
    }
}

type Machine = RobotMachine<Box<dyn Plant + Send>>;

pub(crate) fn robot(arguments: &Arguments) -> Ended {
    let clock = Clock::start();
    streams::start(if arguments.json { Form::Json(clock) } else { Form::Text })?;
    last_stop::end_on_panic();
    arguments.limits()?;
    let security = arguments.security()?;
    let fingerprint = security.fingerprint();
    let transport = arguments.paths.transport(arguments.transport, arguments.feedback_deadline)?;
    let endpoint = Endpoint::listen(transport, arguments.listen, security, &clock);
    let endpoint = endpoint.and_then(|endpoint| if arguments.raw { endpoint.raw() } else { Ok(endpoint) });
    let endpoint = arguments.paths.over(endpoint.map_err(|error| error.to_string())?)?;
    let address = endpoint.local_addr().map_err(|error| error.to_string())?;
    let watchdogs = arguments.watchdogs()?;
    let driver_config = arguments.scheduling.driver();
    let ready = arguments.robot.start(arguments.device_limits())?;
    if let Some(warning) = ready.warning() {
        say(&format!("taut: {warning}"));
    }
    let record = arguments.record()?;
    let latch = record.latch();
    let config = ServeConfig {
        session: arguments.config(ready.plant.stiffness())?,
        report_period: Some(arguments.every),
        record: Some(record),
    };
    let (description, about) = (ready.description(), about(&ready));
    let (stopper, plant) = (ready.plant.stopper(), ready.plant);
    last_stop::arm(move |cause| stopper.stop(cause))?;
    let capabilities = endpoint.capabilities();
    let work = move |remotes: SyncSender<Remote<Machine>>, notes: SyncSender<(Time, RobotNote)>| {
        let driver = Driver::new(driver_config).map_err(|error| error.to_string())?.with_clock(clock);
        let started = |remote| drop(remotes.send(remote));
        // Who listens too slowly misses some.
        let tell = &mut |at, note| drop(notes.try_send((at, note)));
        serve(driver, &endpoint, config, plant, started, tell).map_err(|error| error.to_string())
    };
    let session = Session::start(arguments.scheduling, capabilities, work)?.map_err(ended_early)?;
    let remote = session.remote.clone();
    let _signals = OnSignal::new(move || host::insist(|| remote.send(RobotCommand::Close)))?;
    if arguments.commands {
        button::listen(&COMMANDS, arguments.button_heartbeat, session.remote.clone())?;
    }
    let remote = session.remote.clone();
    let watching = watchdogs.start(move || remote.turns())?;
    let mut out = Output { json: arguments.json, recent: Recent::over(1) };
    out.listening(clock.now(), address, arguments.transport, fingerprint.as_ref(), &about, latch);
    if !out.json {
        print(&format!("{description}\n"));
    }
    for (at, note) in &session.notes {
        if let RobotNote::Path(path) = &note {
            paths::warn(path);
        }
        out.note(at, &note);
    }
    let status = session.join()?;
    watching.end();
    out.summary(clock.now(), &status);
    Ok(ExitCode::SUCCESS)
}

fn ended_early(result: Result<Status, String>) -> String {
    result.err().unwrap_or_else(|| "the session ended before it began".to_owned())
}

struct Output {
    json: bool,
    recent: Recent,
}

impl Output {
    fn listening(
        &self,
        at: Time,
        address: SocketAddr,
        transport: TransportKind,
        fingerprint: Option<&Fingerprint>,
        device: &Value,
        latch: Option<Latch>,
    ) {
        let identity = fingerprint.map(ToString::to_string);
        if self.json {
            let more = [
                ("address", json!(address.to_string())),
                ("transport", json!(transport.name())),
                ("identity", json!(identity)),
                ("device", device.clone()),
                ("latched", json!(latch.map(|latch| latch.cause.name()))),
            ];
            return print(&json_line("listening", at, more));
        }
        let identity = identity.unwrap_or_else(|| "a robot without identity".to_owned());
        let latched = latch.map_or_else(String::new, |latch| {
            let who = if latch.held_locally { "r here (--commands)" } else { "the operator's c" };
            format!(
                "A STOP IS LATCHED, from before this start: {}; {who} or `taut reset` lets go of it\n",
                kept(&latch)
            )
        });
        print(&format!("{identity}\nlistens at {address} for an operator over {transport}\n{latched}"));
    }

    fn note(&mut self, at: Time, note: &RobotNote) {
        let recent = match note {
            RobotNote::Progress(status) => Some(self.recent.of(status)),
            _ => None,
        };
        if self.json {
            let (event, mut more) = as_json(note);
            more.extend(recent.map(|recent| ("recent", recent::as_json(&recent))));
            return print(&json_line(event, at, more));
        }
        let text = recent.map(|recent| format!("{recent} | {}", standing(&recent)));
        if let Some(text) = text.or_else(|| as_text(note)) {
            print(&format!("{:>9.3} s  {text}\n", at.as_secs_f64()));
        }
    }

    fn summary(&self, at: Time, status: &Status) {
        if self.json {
            return print(&json_line("summary", at, [("status", json!(status))]));
        }
        if status.messages == 0 {
            return print("ended; no state came\n");
        }
        print(&format!("ended\n{status}\n"));
    }
}

/// What is moved, for programs.
fn about(ready: &Ready) -> Value {
    json!({
        "name": ready.name,
        "real": ready.plant.is_real(),
        "lease": ready.plant.lease(),
        "stiffness_n_m": ready.plant.stiffness(),
        "position_limit_m": ready.limits.position,
        "velocity_limit_mps": ready.limits.velocity,
        "force_limit_n": ready.limits.force,
    })
}

fn as_json(note: &RobotNote) -> (&'static str, Vec<(&'static str, Value)>) {
    match note {
        RobotNote::Path(note) => paths::as_json(note),
        RobotNote::Progress(status) => ("status", vec![("status", json!(status))]),
        RobotNote::NotKept => ("not_kept", Vec::new()),
        RobotNote::DeviceFailed(failure) => ("device_failed", vec![("why", json!(failure.to_string()))]),
        RobotNote::Device(report) => {
            let more = vec![
                ("speed_mps", json!(report.speed)),
                ("speed_max_mps", json!(report.speed_max)),
                ("controller_force_n", json!(report.controller_force)),
                ("controller_force_max_n", json!(report.controller_force_max)),
                ("not_applied", json!(report.not_applied)),
            ];
            ("device", more)
        }
        RobotNote::Refused { cause, count, busy, who } => {
            let address = who.and_then(|who| who.address).map(|address| address.to_string());
            let more = vec![
                ("cause", json!(cause.name())),
                ("count", json!(count)),
                ("busy", json!(busy)),
                ("address", json!(address)),
                ("identities", json!(identities(who.as_ref()))),
            ];
            ("refused", more)
        }
        RobotNote::Stopped { why, silence, position } => {
            let silence_ms = silence.map(Duration::as_millis_f64);
            let more = vec![
                ("why", json!(why.name())),
                ("silence_ms", json!(silence_ms)),
                ("position_m", json!(position)),
            ];
            ("stopped", more)
        }
        RobotNote::Event(event) => match event {
            RobotEvent::Connected { session } => ("connected", vec![("session", json!(session))]),
            RobotEvent::Enabled => ("enabled", Vec::new()),
            RobotEvent::PathTooSlow { age } => {
                let needed_ms = patience(*age).as_millis_f64();
                (
                    "path_too_slow",
                    vec![("age_ms", json!(age.as_millis_f64())), ("needed_ms", json!(needed_ms))],
                )
            }
            RobotEvent::Incompatible(error) => ("incompatible", vec![("error", json!(error.to_string()))]),
            RobotEvent::PathUp(path) => ("path_up", vec![("path", json!(path.0))]),
            RobotEvent::PathDown(path) => ("path_down", vec![("path", json!(path.0))]),
            RobotEvent::Closed => ("closed", Vec::new()),
            _ => ("other", Vec::new()),
        },
    }
}

/// How it is, in the operator's words.
fn standing(status: &Status) -> &str {
    match status.state {
        "ENABLED" => Standing::Moving.name(),
        "FAULT" => Standing::Stopped.name(),
        other => other,
    }
}

/// What was refused, and what that usually is: who is not authentic cannot be asked.
fn refused(cause: DropCause, count: u64, busy: u64, who: Option<&Refused>) -> String {
    let times = |count| if count == 1 { String::new() } else { format!("{count} times ") };
    let why = match cause {
        DropCause::Unauthenticated => ": of nobody who is trusted here, or meant for another robot",
        DropCause::Malformed => ": of another transport, or of none",
        DropCause::Replayed => ": seen before, or too old to tell",
        _ => "",
    };
    let others = format!("{}{}{why}", times(count - busy), cause.name());
    let busy_too = format!("{}busy: another operator asks, and one has the robot", times(busy));
    let what = match (busy, count - busy) {
        (0, _) => others,
        (_, 0) => busy_too,
        _ => format!("{busy_too}; {others}"),
    };
    let last = who.and_then(|who| who.address).map_or_else(String::new, |address| {
        let the_last = if count == 1 { "" } else { "the last " };
        format!("; {the_last}from {address}")
    });
    format!("refused: {what}{last}{}", how_to_trust(who))
}

/// Whose key it is that was shown, and how to let them in.
fn how_to_trust(who: Option<&Refused>) -> String {
    match &identities(who)[..] {
        [] => String::new(),
        [one] => format!("; with --trust {one} this robot would let it in"),
        // Noise does not tell one bit of the key; the other fingerprint is nobody's.
        [one, others @ ..] => {
            let others = others.join(" or ");
            format!(
                "; with --trust {one} or {others} (the one that `taut identity` shows there) this robot would let it in"
            )
        }
    }
}

fn identities(who: Option<&Refused>) -> Vec<String> {
    let keys = who.and_then(|who| who.key).map(|key| key.fingerprints()).unwrap_or_default();
    keys.iter().map(ToString::to_string).collect()
}

/// How the device moved.
fn motion(report: &DeviceReport) -> String {
    let DeviceReport { speed, speed_max, .. } = report;
    let force = match (report.controller_force, report.controller_force_max) {
        (Some(force), Some(largest)) => {
            format!(", its controller pushes {force:.1} N (at most {largest:.1} N)")
        }
        _ => String::new(),
    };
    format!("the device moves at {speed:.3} m/s (at most {speed_max:.3} m/s){force}")
}

fn as_text(note: &RobotNote) -> Option<String> {
    Some(match note {
        RobotNote::Path(_) | RobotNote::Progress(_) => return None,
        RobotNote::NotKept => {
            "WHAT IS LATCHED COULD NOT BE WRITTEN: it holds, and does not survive this process".to_owned()
        }
        RobotNote::DeviceFailed(failure) => format!("DEVICE FAILED: {failure}"),
        RobotNote::Device(report) => motion(report),
        RobotNote::Refused { cause, count, busy, who } => refused(*cause, *count, *busy, who.as_ref()),
        RobotNote::Stopped { why, silence: Some(silence), .. } => {
            format!("STOPPED: {}, {:.1} ms after the last state", why.name(), silence.as_millis_f64())
        }
        RobotNote::Stopped { why, .. } => format!("STOPPED: {}", why.name()),
        RobotNote::Event(event) => match event {
            RobotEvent::Connected { .. } => "an operator is there; the robot waits for its resume".to_owned(),
            RobotEvent::Enabled => "resumed: the robot moves".to_owned(),
            RobotEvent::PathTooSlow { age } => format!("refused to move: {}", too_slow(*age)),
            RobotEvent::Incompatible(error) => format!("refused: {error}"),
            RobotEvent::Closed => "the link is closed".to_owned(),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_the_robot_is_taken_or_who_asks_is_not_known() {
        let busy = "busy: another operator asks, and one has the robot";
        assert_eq!(refused(DropCause::Unauthenticated, 1, 1, None), format!("refused: {busy}"));
        let unknown = "unauthenticated: of nobody who is trusted here, or meant for another robot";
        assert_eq!(refused(DropCause::Unauthenticated, 3, 0, None), format!("refused: 3 times {unknown}"));
        let both = format!("refused: 2 times {busy}; {unknown}");
        assert_eq!(refused(DropCause::Unauthenticated, 3, 2, None), both);
        assert_eq!(
            refused(DropCause::Malformed, 1, 0, None),
            "refused: malformed: of another transport, or of none"
        );
    }
}
