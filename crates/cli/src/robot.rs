//! `taut robot`: beside the robot, real or simulated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use clap::Args;
use serde_json::{Value, json};
use taut_core::{DropCause, Duration, Time};
use taut_io::session::{
    Credentials, Endpoint, Plant, Refused, Remote, RobotCommand, RobotMachine, RobotNote, Standing,
    TransportKind, serve,
};
use taut_io::{Clock, Driver};
use taut_lab::robot::SimulatedRobot;
use taut_lab::scenario::{Environment, Surface};
use taut_session::{Codec, LimitPolicy, MotionLimits, RobotConfig, RobotEvent, State, Status, patience};
use taut_transport::identity::{Fingerprint, Trust};

use crate::button::Word;
use crate::host::{self, OnSignal, Scheduling, Session, every, json_line};
use crate::operator::too_slow;
use crate::paths::{self, Paths};
use crate::recent::{self, Recent};
use crate::streams::{Form, print, say};
use crate::watchdog::Watchdogs;
use crate::{Ended, button, identity, last_stop, streams};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to listen: 0.0.0.0:4433 is port 4433 of every address
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = host::address)]
    listen: SocketAddr,
    /// The fingerprint of an operator that may have the robot; `taut identity` shows it. Repeatable
    #[arg(long, value_name = "FINGERPRINT", required_unless_present = "plaintext")]
    trust: Vec<Fingerprint>,
    /// quic, udp, tcp, sctp, dccp, etp, mtip or mpquic
    #[arg(long, default_value = "quic")]
    transport: TransportKind,
    /// DCCP in IP packets of its own (protocol 33) instead of UDP: with --transport dccp --plaintext, as root
    #[arg(long)]
    raw: bool,
    /// What moves: a simulated robot that touches nothing, foam, a spring or a wall: sim[:free|foam|spring|wall]
    #[arg(long, default_value = "sim", value_name = "ROBOT")]
    robot: Simulated,
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
    /// Without any security: for the lab only
    #[arg(long, conflicts_with = "trust")]
    plaintext: bool,
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

/// A simulated robot, by what it touches.
#[derive(Clone, Copy, Debug)]
struct Simulated(Environment);

/// What it can touch, by name.
const ENVIRONMENTS: [Environment; 4] = [
    Environment::Free,
    Environment::Foam(Surface::DEFAULT),
    Environment::Spring(Surface::DEFAULT),
    Environment::Wall(Surface::DEFAULT),
];

impl FromStr for Simulated {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let environment = match text.split_once(':') {
            None if text == "sim" => Some(Environment::Spring(Surface::DEFAULT)),
            Some(("sim", name)) => ENVIRONMENTS.into_iter().find(|environment| environment.name() == name),
            _ => None,
        };
        let names = ENVIRONMENTS.map(|environment| environment.name()).join(", sim:");
        environment.map(Self).ok_or_else(|| format!("`{text}` is not a robot; there are sim, sim:{names}"))
    }
}

/// The simulated robot beside a session.
struct Device {
    robot: SimulatedRobot,
    /// This process ends: it holds.
    halted: Arc<AtomicBool>,
}

impl Plant for Device {
    fn enable(&mut self) {}

    fn apply(&mut self, state: &State) {
        if !self.halted.load(Ordering::Relaxed) {
            self.robot.follow(state.position.map(f64::from), state.velocity.map(f64::from));
        }
    }

    fn stop(&mut self) {
        self.robot.hold();
    }

    fn step(&mut self) -> State {
        if self.halted.load(Ordering::Relaxed) {
            self.robot.hold();
        }
        self.robot.step(self.period());
        State {
            position: self.robot.position().map(|x| x as f32),
            velocity: self.robot.velocity().map(|v| v as f32),
            force: self.robot.force().map(|f| f as f32),
            ..State::at(Time::ZERO)
        }
    }
}

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

    fn config(&self) -> Result<RobotConfig, String> {
        if self.hold_to_run && self.codec == Codec::Omni71 {
            return Err("--hold-to-run: omni71 cannot say whether an enabling input is held".into());
        }
        Ok(RobotConfig::new()
            .codec(self.codec)
            .watchdog(self.watchdog)
            .max_age(self.max_age.unwrap_or(self.watchdog))
            .hold_to_run(self.hold_to_run)
            .limits(self.limits()?)
            .feedback_deadline(self.feedback_deadline))
    }

    /// What moves; it is stopped also when this process ends in an unforeseen way.
    fn device(&self) -> Result<Device, String> {
        let halted = Arc::new(AtomicBool::new(false));
        let halting = Arc::clone(&halted);
        last_stop::arm(move |_cause| halting.store(true, Ordering::Relaxed))?;
        Ok(Device { robot: SimulatedRobot::new(&self.robot.0, SimulatedRobot::REST), halted })
    }

    fn watchdogs(&self) -> Result<Watchdogs, String> {
        let variable = |name: &str| std::env::var(name).ok();
        Watchdogs::open(variable, std::process::id(), self.watchdog_device.as_deref())
    }

    fn credentials(&self) -> Result<Option<Credentials>, String> {
        if self.plaintext {
            say(&format!("taut: WITHOUT SECURITY: whoever reaches {} can move this robot", self.listen));
            return Ok(None);
        }
        let identity = identity::load(self.identity.as_deref())?;
        Ok(Some(Credentials { identity, trust: Trust::from_iter(self.trust.iter().copied()) }))
    }
}

type Machine = RobotMachine<Device>;

pub(crate) fn robot(arguments: &Arguments) -> Ended {
    let clock = Clock::start();
    streams::start(if arguments.json { Form::Json(clock) } else { Form::Text })?;
    last_stop::end_on_panic();
    let (config, credentials) = (arguments.config()?, arguments.credentials()?);
    let fingerprint = credentials.as_ref().map(|known| known.identity.fingerprint());
    let transport = arguments.paths.transport(arguments.transport, arguments.feedback_deadline)?;
    let endpoint = Endpoint::listen(transport, arguments.listen, credentials, &clock);
    let endpoint = endpoint.and_then(|endpoint| if arguments.raw { endpoint.raw() } else { Ok(endpoint) });
    let endpoint = arguments.paths.over(endpoint.map_err(|error| error.to_string())?)?;
    let address = endpoint.local_addr().map_err(|error| error.to_string())?;
    let watchdogs = arguments.watchdogs()?;
    let (driver_config, period) = (arguments.scheduling.driver(), arguments.every);
    let plant = arguments.device()?;
    let work = move |remotes: SyncSender<Remote<Machine>>, notes: SyncSender<(Time, RobotNote)>| {
        let driver = Driver::new(driver_config).map_err(|error| error.to_string())?.with_clock(clock);
        let started = |remote| drop(remotes.send(remote));
        // Who listens too slowly misses some.
        let tell = &mut |at, note| drop(notes.try_send((at, note)));
        serve(driver, &endpoint, config, plant, Some(period), started, tell)
            .map_err(|error| error.to_string())
    };
    let session = Session::start(arguments.scheduling, work)?.map_err(ended_early)?;
    let remote = session.remote.clone();
    let _signals = OnSignal::new(move || host::insist(|| remote.send(RobotCommand::Close)))?;
    if arguments.commands {
        button::listen(&COMMANDS, arguments.button_heartbeat, session.remote.clone())?;
    }
    let remote = session.remote.clone();
    let watching = watchdogs.start(move || remote.turns())?;
    let mut out = Output { json: arguments.json, recent: Recent::over(1) };
    out.listening(clock.now(), address, arguments.transport, fingerprint.as_ref());
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
    ) {
        let identity = fingerprint.map(ToString::to_string);
        if self.json {
            let more = [
                ("address", json!(address.to_string())),
                ("transport", json!(transport.name())),
                ("identity", json!(identity)),
            ];
            return print(&json_line("listening", at, more));
        }
        let identity = identity.unwrap_or_else(|| "a robot without identity".to_owned());
        print(&format!("{identity}\nlistens at {address} for an operator over {transport}\n"));
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

fn as_json(note: &RobotNote) -> (&'static str, Vec<(&'static str, Value)>) {
    match note {
        RobotNote::Path(note) => paths::as_json(note),
        RobotNote::Progress(status) => ("status", vec![("status", json!(status))]),
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

fn as_text(note: &RobotNote) -> Option<String> {
    Some(match note {
        RobotNote::Path(_) | RobotNote::Progress(_) => return None,
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
