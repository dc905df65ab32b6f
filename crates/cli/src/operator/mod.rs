//! `taut operator`: the end with the device.

mod output;
mod tui;
mod view;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use taut_agent::{OperatorCommand, OperatorNote, OperatorSettings, Progress, ResumePolicy, Trouble};
use taut_core::{Duration, Time};
use taut_io::device::{Buttons, Pressed};
use taut_io::lines::{of_flood, of_path};
use taut_io::session::{
    Endpoint, OperateConfig, OperateError, OperatorMachine, OperatorRecord, Remote, Security, Told,
    TransportKind, operate,
};
use taut_io::{Alarm, Clock, Driver};
use taut_session::{Congestion, Direction, OperatorConfig, OperatorEvent, Order, Priority};
use taut_transport::identity::{Fingerprint, Trust};

use self::output::Output;
pub(crate) use self::output::too_slow;
use self::tui::Presses;
use crate::button::{Loss, Press, Word};
use crate::channels::{self, Channels};
use crate::diagnostics::{Log, Traces};
use crate::host::{self, Begun, OnSignal, Scheduling, every};
use crate::identity::Plaintext;
use crate::input::{Device, Input};
use crate::law::LawArguments;
use crate::lines::{Opened, Shown};
use crate::metrics::Metrics;
use crate::part::PartOf;
use crate::paths::{self, Paths};
use crate::record::{Record, Recorded};
use crate::robot::{Coding, parse_codec, parse_congestion};
use crate::sound::{Page, Sound, SoundArguments};
use crate::video::{Screen, ScreenWords};
use crate::{Ended, button, last_stop, state, terminal};

#[derive(Args)]
#[command(after_long_help = channels::HELP)]
pub(crate) struct Arguments {
    /// Where the robot listens
    #[arg(long, value_name = "HOST:PORT")]
    connect: String,
    /// The robot's fingerprint; `taut robot` prints it
    #[arg(
        long,
        value_name = "FINGERPRINT",
        required_unless_present = "in_the_clear",
        conflicts_with = "in_the_clear"
    )]
    robot_id: Option<Fingerprint>,
    /// quic, udp, tcp, sctp, dccp, etp, mtip or mpquic
    #[arg(long, default_value = "quic")]
    transport: TransportKind,
    /// DCCP in IP packets of its own (protocol 33) instead of UDP: with --transport dccp --plaintext, as root
    #[arg(long)]
    raw: bool,
    /// What the device does: trace:FILE (CSV or MCAP); demo or demo:SEED, a simulated hand; keyboard or keyboard:SPEED (m/s), whose
    /// keys are w s forth and back, a d left and right, i k up and down, j l turn, o p open and close the gripper, e, space or
    /// Escape emergency stop, c reset it, r resume, q quit; gamepad or gamepad:FILE.toml, which says what its sticks and buttons do, and spacemouse in the same way; so101:PORT, a
    /// leader arm; exec:PROGRAM ARGUMENTS or
    /// python:MODULE:CLASS, a device that is a program; or lines: JSON Lines on standard input, beside the words of --commands
    #[arg(long, default_value = "demo")]
    input: Input,
    /// The channels of the session beside states, in a file that both ends share; see the end of --help
    #[arg(long, value_name = "FILE")]
    channels: Option<Channels>,
    /// The recording's columns for x, y, z and, it may be, the velocity along them
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    columns: Vec<String>,
    /// Play the recording over and over
    #[arg(long)]
    repeat: bool,
    /// States per second
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// End after so many states
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// How urgent the states are
    #[arg(long, value_enum, default_value_t)]
    priority: Urgency,
    /// Have lost states repeated until their deadline (quic, tcp, sctp, mtip, mpquic)
    #[arg(long)]
    reliable: bool,
    /// The age at which a state is worthless
    #[arg(long, value_name = "DURATION", default_value = "200ms")]
    deadline: Duration,
    /// The largest force at the hand, N, by any --law
    #[arg(long, value_name = "N", default_value = "5", value_parser = host::amount)]
    force_limit: f32,
    /// The most with which the hand is twisted, N·m, with --turns
    #[arg(long, value_name = "N·M", default_value_t = 0.5, requires = "turns", value_parser = torque)]
    hand_torque: f32,
    /// When to let the robot move without being asked; after an emergency stop never
    #[arg(long, value_enum, default_value = "never")]
    resume: Resume,
    /// The bytes of the session: native, or omni71 for peers that know nothing else, its samples padded to LENGTH by omni71:LENGTH
    #[arg(long, default_value = "native", value_parser = parse_codec)]
    codec: Coding,
    /// By which law this end judges how much the path to the robot carries: own_queue, scream:10ms (SCReAM v2, with a queue so long) or gcc
    #[arg(long, value_name = "LAW", default_value = "own_queue", value_parser = parse_congestion)]
    congestion: Congestion,
    /// The file of this host's identity, as for `taut identity`
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Where an emergency stop that was not acknowledged survives this process; by default a file for this robot in
    /// $STATE_DIRECTORY, in taut/ of $XDG_STATE_HOME, or of ~/.local/state
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Decode the pictures of the robot's --video of this name, ask for what is missing, and say at the end how old they were. Repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "tui")]
    video: Vec<String>,
    /// And say so every second
    #[arg(long, requires = "video")]
    measure_video: bool,
    #[command(flatten)]
    law: LawArguments,
    #[command(flatten)]
    sound: SoundArguments,
    #[command(flatten)]
    plaintext: Plaintext,
    /// Answer there over HTTP with the newest report: /metrics for Prometheus, /status.json for any other program
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = host::address, conflicts_with = "tui")]
    metrics: Option<SocketAddr>,
    /// A status line after so many states (10000) or so often (1s), also where --input keyboard has a view [default: 10000; with --json,
    /// --record, --metrics or --input keyboard 1s]
    #[arg(long, value_name = "N|DURATION", conflicts_with = "tui")]
    every: Option<Every>,
    #[command(flatten)]
    record: Record,
    /// Print what happens as JSON Lines
    #[arg(long, conflicts_with = "tui")]
    json: bool,
    /// Show the session on the whole terminal; keys: e, space or Escape emergency stop, c reset it, r resume, q quit. By itself with
    /// --input keyboard, on a terminal of 80 columns and 24 lines or more where nothing else is to be printed
    #[arg(long)]
    tui: bool,
    /// Take the button from standard input, a word a line: e or stop, c or reset, r or resume, q or quit, h (the button is
    /// there). Its end and any other line stop the robot too
    #[arg(long, conflicts_with = "tui")]
    commands: bool,
    /// Stop when the button of --commands has said nothing for so long [default: it need not]
    #[arg(long, value_name = "DURATION", requires = "commands", value_parser = every)]
    button_heartbeat: Option<Duration>,
    /// The enabling input of a robot with --hold-to-run comes by --commands: held for so long after each line d, let go by u
    #[arg(long, value_name = "DURATION", requires = "commands", value_parser = every)]
    hold_to_run: Option<Duration>,
    #[command(flatten)]
    paths: Paths,
    #[command(flatten)]
    log: Log,
    #[command(flatten)]
    traces: Traces,
    #[command(flatten)]
    scheduling: Scheduling,
    #[command(flatten)]
    part: PartOf,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Urgency {
    #[default]
    Normal,
    High,
    Emergency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Resume {
    /// Only a person does
    Never,
    /// Once, when the session begins
    Start,
    /// After every stop: for measurements, not beside people
    Always,
}

#[derive(Clone, Copy, Debug)]
enum Every {
    Messages(u64),
    Time(Duration),
}

impl FromStr for Every {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse::<u64>(), text.parse::<Duration>()) {
            (Ok(messages @ 1..), _) => Ok(Self::Messages(messages)),
            (_, Ok(_)) => every(text).map(Self::Time),
            _ => Err(format!("`{text}` is neither a number of states nor a time; write 10000 or 1s")),
        }
    }
}

/// Argument `--hand-torque`.
fn torque(text: &str) -> Result<f32, String> {
    let torque = host::amount(text)?;
    if (0.0001..=100.0).contains(&torque) { Ok(torque) } else { Err("is 0.0001 to 100 N·m".to_owned()) }
}

type Screens = (Vec<Screen>, Vec<ScreenWords>);
type Machine = OperatorMachine<Device>;
type Note = Told<OperatorNote>;
type Session = host::Session<Remote<Machine>, Note, Result<Progress, OperateError>>;

/// What lines of standard input ask for.
const COMMANDS: [(&str, Word<OperatorCommand>); 11] = [
    ("e", Word::Stop),
    ("stop", Word::Stop),
    ("c", Word::Command(OperatorCommand::Reset)),
    ("reset", Word::Command(OperatorCommand::Reset)),
    ("r", Word::Command(OperatorCommand::Resume)),
    ("resume", Word::Command(OperatorCommand::Resume)),
    ("q", Word::Quit(OperatorCommand::Close)),
    ("quit", Word::Quit(OperatorCommand::Close)),
    ("d", Word::Command(OperatorCommand::Hold)),
    ("u", Word::Command(OperatorCommand::LetGo)),
    ("h", Word::Nothing),
];

/// What steers a session in place of its input, and is shown what happens.
pub(crate) struct Steered {
    pub(crate) device: Device,
    pub(crate) buttons: Buttons,
    /// Where a person finds it.
    pub(crate) place: String,
    /// Begins, on the session's thread.
    pub(crate) serve: Box<dyn FnOnce() -> std::io::Result<()> + Send>,
    /// Takes lines of JSON, on the session's thread: it does not wait.
    pub(crate) show: Box<dyn Fn(&str) + Send>,
    /// Plays sound.
    pub(crate) hear: Page,
}

/// How often the terminal, or a page, is told.
const FRAME: Duration = Duration::from_millis(100);

impl Arguments {
    fn period(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.rate))
    }

    pub(crate) fn priority(&self) -> Priority {
        match self.priority {
            Urgency::Normal => Priority::Normal,
            Urgency::High => Priority::High,
            Urgency::Emergency => Priority::Emergency,
        }
    }

    /// Which session it is.
    pub(crate) fn title(&self) -> String {
        format!("{} over {}", self.connect, self.transport)
    }

    /// What has an input of its own has no other.
    #[cfg(feature = "console")]
    pub(crate) fn check_steered(&self) -> Result<(), String> {
        let plays = !self.input.is_default() || self.repeat || !self.columns.is_empty();
        if plays || self.tui || self.commands || self.measure_video {
            return Err(
                "the page of `taut console` is its input: leave out --input, --repeat, --columns, --tui, --commands and --measure-video".to_owned()
            );
        }
        if self.codec.codec == taut_session::Codec::Omni71 {
            return Err(
                "--codec: by omni71 a robot does not say its --max-age, within which what a page holds has to lapse".to_owned()
            );
        }
        Ok(())
    }

    /// Does its page play sound?
    #[cfg(feature = "console")]
    pub(crate) fn has_sound(&self) -> bool {
        self.sound.has_page()
    }

    #[cfg(feature = "console")]
    pub(crate) fn joints(&self) -> Option<taut_session::ChannelId> {
        self.device_channels().of_joints()
    }

    /// Its channels of pictures.
    #[cfg(feature = "console")]
    pub(crate) fn pictures(&self) -> Result<Vec<taut_console::PictureChannel>, String> {
        Ok(self.channels()?.pictures())
    }

    /// Those of the file, which the device knows.
    fn device_channels(&self) -> Channels {
        self.channels.clone().unwrap_or_default()
    }

    /// All of the session.
    fn channels(&self) -> Result<Channels, String> {
        let mut names = self.video.iter();
        let channels =
            names.try_fold(self.device_channels(), |channels, name| channels.with_picture(name))?;
        self.sound.declare(channels, Direction::ToRobot)
    }

    fn screens(&self, channels: &Channels) -> Result<Screens, String> {
        let screen =
            |name: &String| Screen::new(name, channels.of_picture(name)?, self.measure_video, self.json);
        let screens: Vec<_> = self.video.iter().map(screen).collect::<Result<_, String>>()?;
        Ok(screens.into_iter().unzip())
    }

    /// Is it shown on the whole terminal? Who drives by its keys looks at it, unless lines are asked for.
    fn fills_terminal(&self) -> bool {
        let is_plain = !self.json && self.every.is_none() && !self.log.is_asked() && self.metrics.is_none();
        let has_lines = !self.video.is_empty() || self.sound.is_on() || self.channels.is_some();
        self.tui || (self.input.is_keyboard() && is_plain && !has_lines && terminal::has_room())
    }

    /// The device, and what it has to do with lines.
    fn device(&self, clock: Clock, is_filled: bool) -> Result<Opened, String> {
        if self.tui && self.input.reads_stdin() {
            return Err("--input lines and --tui both need standard input; use --input exec:PROGRAM".into());
        }
        if self.input.is_keyboard() && self.commands {
            return Err(
                "--input keyboard needs standard input for itself: it has the words of --commands as keys"
                    .into(),
            );
        }
        channels::check_codec(self.codec.codec, !self.channels()?.is_empty())?;
        let buttons = Buttons::default();
        let (columns, repeats, turns) = (&self.columns, self.repeat, self.law.turns());
        let device = self.input.open(self.period(), columns, repeats, self.priority(), &buttons, turns)?;
        let shown = match (is_filled, self.json) {
            (true, _) => Shown::Nowhere,
            (_, true) => Shown::Json(clock),
            (_, false) => Shown::Text(clock),
        };
        crate::lines::open(&self.input, device, self.priority(), &self.device_channels(), shown, buttons)
    }

    /// How the session is run.
    fn about_session(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("end", json!("operator")),
            ("transport", json!(self.transport.name())),
            ("secure", json!(self.plaintext.is_off())),
            ("law", json!(self.law.name())),
            ("period_ms", json!(self.period().as_millis_f64())),
            ("rate_hz", json!(self.rate)),
            ("deadline_ms", json!(self.deadline.as_millis_f64())),
            ("reliable", json!(self.reliable)),
            ("turns", json!(self.law.turns())),
            ("settings", json!(self.paths.simulated(self.transport))),
            ("codec", json!(self.codec.codec)),
            ("sample_length", json!(self.codec.length())),
            ("congestion_control", json!(self.congestion)),
        ]
    }

    fn kept(&self, own: Option<&Fingerprint>) -> Result<OperatorRecord, String> {
        let path = match &self.state {
            Some(path) => path.clone(),
            None => state::of_operator(own, self.robot_id.as_ref(), &self.connect)?,
        };
        let record = OperatorRecord::open(&path).map_err(|error| format!("--state: {error}"))?;
        if record.is_unacknowledged() {
            crate::say("an emergency stop of an earlier session was never acknowledged: it is sent first");
        }
        Ok(record)
    }

    /// Which reports of a session are printed: where a page has them, as often as is said, and in JSON once a second.
    fn printed(&self, has_page: bool) -> Option<Every> {
        match (has_page, self.every) {
            (false, _) => Some(Every::Time(Duration::ZERO)),
            (true, None) => self.json.then_some(Every::Time(Duration::from_secs(1))),
            (true, every) => every,
        }
    }

    fn config(&self, own: Option<&Fingerprint>, is_shown: bool) -> Result<OperateConfig, String> {
        // What is to arrive whatever happens does not make way for what is newer.
        let order = if self.reliable { Order::Fifo } else { Order::Newest };
        let session = OperatorConfig::new()
            .codec(self.codec.codec)
            .congestion(self.congestion)
            .sample_length(self.codec.sample_length)
            .rate(self.rate)
            .deadline(self.deadline)
            .reliable(self.reliable)
            .feedback_force(self.force_limit)
            .feedback_torque(self.hand_torque)
            .turns(self.law.turns())
            .control_law(self.law.told())
            .order(order);
        let session = self.channels()?.for_operator(session)?;
        let agent = OperatorSettings::new(self.period()).resumes(match self.resume {
            Resume::Never => ResumePolicy::Never,
            Resume::Start => ResumePolicy::Start,
            Resume::Always => ResumePolicy::Always,
        });
        let agent = match (is_shown, self.every) {
            (true, _) => agent.reports_by_time(FRAME),
            (false, Some(Every::Messages(messages))) => agent.reports_by_number(messages),
            (false, Some(Every::Time(period))) => agent.reports_by_time(period),
            (false, None)
                if self.json || self.record.is_on() || self.metrics.is_some() || self.input.is_keyboard() =>
            {
                agent.reports_by_time(Duration::from_secs(1))
            }
            (false, None) => agent.reports_by_number(10_000),
        };
        let agent = self.messages.map_or(agent, |messages| agent.limit(messages));
        let agent = self.hold_to_run.map_or(agent, |hold| agent.holds_to_run(hold));
        Ok(OperateConfig::new(session, agent).record(self.kept(own)?))
    }

    fn security(&self) -> Result<Security, String> {
        let risk = "whoever is on the way can read and change this session";
        self.plaintext.or_identity(self.identity.as_deref(), Trust::from_iter(self.robot_id), risk)
    }

    /// What starts a robot for this operator there.
    fn robot_command(&self, remote: SocketAddr, own: Option<&Fingerprint>) -> String {
        let any = if remote.is_ipv6() { "[::]" } else { "0.0.0.0" };
        let port = self.connect.rsplit(':').next().unwrap_or_default();
        let known = own.map_or_else(|| self.plaintext.flag().to_owned(), |own| format!("--trust {own}"));
        format!("`taut robot --listen {any}:{port} --transport {} {known}`", self.transport)
    }

    /// Why there is no session, and what to do about it.
    fn advice(&self, error: &OperateError, remotes: &[SocketAddr], own: Option<&Fingerprint>) -> String {
        let (at, transport) = (host::named(&self.connect, remotes), self.transport);
        let trouble = match error {
            OperateError::NotConnected(trouble) => trouble,
            OperateError::Lost(trouble, _) => {
                return format!("the session with {at} was lost and did not come back within 5 s: {trouble}");
            }
            other => return other.to_string(),
        };
        let start = self.robot_command(remotes[0], own);
        match trouble {
            Trouble::NoAnswer => format!(
                "no answer from {at} within 5 s: is {start} running there, and is --robot-id its fingerprint?"
            ),
            Trouble::Unreachable => format!(
                "cannot connect to {at}: nobody listens there, or there is no network; start `taut robot --transport {transport}` first"
            ),
            Trouble::Busy => {
                format!("the robot at {at} has another operator: try again when that one has gone")
            }
            Trouble::NotTrusted => {
                format!("the robot at {at} does not trust this operator: start it there with {start}")
            }
            Trouble::WrongPeer => {
                format!(
                    "who answers at {at} is not the robot of --robot-id: compare it with what `taut robot` prints"
                )
            }
            Trouble::SentAway => format!(
                "the robot at {at} sent us away: it does not trust this operator (start it there with {start}), is not the \
                 one of --robot-id, or strangers crowd it"
            ),
            Trouble::Ended(why) => format!("no session with {at}: {why}"),
        }
    }
}

pub(crate) fn operator(arguments: &Arguments) -> Ended {
    run(arguments, None)
}

/// A session with its input, or what steers it.
pub(crate) fn run(arguments: &Arguments, steered: Option<Steered>) -> Ended {
    let _folder = arguments.part.folder()?;
    let clock = Clock::start();
    arguments.log.start(arguments.json, clock)?;
    last_stop::end_on_panic();
    let security = arguments.security()?;
    let own = security.fingerprint();
    arguments.law.check(arguments.codec.codec)?;
    arguments.law.check_hand(arguments.force_limit)?;
    let is_filled = steered.is_none() && arguments.fills_terminal();
    // Before an input has the terminal's keys, whose modes a signal gives back.
    let signals = Arc::new(OnSignal::before(&arguments.part)?);
    let config = arguments.config(own.as_ref(), is_filled || steered.is_some())?;
    let (opened, page, hear) = match steered {
        None => (arguments.device(clock, is_filled)?, None, None),
        Some(Steered { device, buttons, place, serve, show, hear }) => {
            let opened = Opened { device, lines: None, drops: None, failed: None, buttons };
            (opened, Some((place, (serve, show))), Some(hear))
        }
    };
    let Opened { device, lines: taker, drops, failed: input_failed, buttons: pressed } = opened;
    let device =
        arguments.law.hand(device, arguments.period(), [arguments.force_limit, arguments.hand_torque]);
    let (place, page) = page.unzip();
    let (serve, show) = page.unzip();
    let metrics = arguments.metrics.map(|listen| Metrics::start(listen, clock)).transpose()?;
    let remotes = host::resolve_all(&arguments.connect)?;
    let transport = arguments.paths.of_session(arguments.transport, arguments.deadline)?;
    let (transport, _traces) = arguments.traces.of(transport, &clock)?;
    let endpoint = Endpoint::connect(transport, remotes[0], security, &clock);
    let endpoint = endpoint.and_then(|endpoint| if arguments.raw { endpoint.raw() } else { Ok(endpoint) });
    let endpoint = Arc::new(arguments.paths.over(endpoint.map_err(|error| error.to_string())?)?);
    let switched = Arc::clone(&endpoint);
    let driver_config = arguments.scheduling.driver();
    let kept = endpoint.capabilities();
    let buttons =
        (!arguments.tui && (arguments.commands || taker.is_some())).then_some(arguments.button_heartbeat);
    let presses = is_filled.then(Presses::new);
    let shown = presses.as_ref().map(|presses| presses.tell.clone());
    let channels = arguments.channels()?;
    // A page decodes its pictures itself.
    let (screens, watched) =
        if place.is_some() { Screens::default() } else { arguments.screens(&channels)? };
    let Sound { microphones, speakers, words } =
        arguments.sound.open(&channels, Direction::ToRobot, arguments.json, hear.as_ref())?;
    let speakers: Vec<_> =
        speakers.into_iter().map(|speaker| speaker.start(clock)).collect::<Result<_, String>>()?;
    let recorded = arguments.record.start(clock, &channels, arguments.json, arguments.about_session())?;
    let config = match recorded.observer() {
        Some(observer) => config.observed(observer),
        None => config,
    };
    let (recording, mut events, declared) = (recorded.clone(), Output::new(true), channels.clone());
    let signalled = Arc::clone(&signals);
    let work = move |begun: Begun<Remote<Machine>>, notes: SyncSender<(Time, Note)>| {
        let driver = Driver::new(driver_config)?.with_clock(clock);
        let started = |remote: Remote<Machine>| {
            let closing = remote.clone();
            signalled.end_by(move || _ = closing.insist(OperatorCommand::Close));
            let presser = remote.clone();
            pressed.connect(move |pressed| press(&presser, pressed, shown.as_ref()));
            let button = buttons.map(|heartbeat| button::listen(&COMMANDS, heartbeat, remote.clone(), taker));
            let served = serve.map_or(Ok(()), |serve| serve().map_err(|error| error.to_string()));
            begun.tell(button.unwrap_or(Ok(())).and(served).map(|()| remote));
        };
        // Who listens too slowly misses some. Messages are the device's.
        let tell = &mut |at, note| {
            match &note {
                Told::Note(OperatorNote::Event(OperatorEvent::Channel(event))) => {
                    watched.iter().for_each(|screen| screen.channel(at, event));
                    words.channel(at, event);
                }
                Told::Note(OperatorNote::Event(OperatorEvent::Closed)) => words.closed(),
                _ => {}
            }
            if !matches!(&note, Told::Note(OperatorNote::Event(OperatorEvent::Channel(event))) if !channels::is_told(event))
            {
                let mut line = || match &note {
                    Told::Path(path) => Some(host::shown(at, of_path(path))),
                    Told::Flood(flood) => Some(host::shown(at, of_flood(flood))),
                    Told::Note(OperatorNote::Event(OperatorEvent::Channel(event))) => {
                        channels.line(at, event)
                    }
                    Told::Note(note) => events.line(at, note),
                };
                match &show {
                    None => recording.event(at, line),
                    Some(show) => {
                        let line = line();
                        line.iter().for_each(|line| show(line));
                        recording.event(at, || line);
                    }
                }
                drop(notes.try_send((at, note)));
            }
        };
        operate(driver, &endpoint, config, device, started, tell)
    };
    let session = match Session::start(arguments.scheduling, kept, work)? {
        Ok(session) => session,
        Err(Ok(_)) => return Ok(ExitCode::FAILURE),
        Err(Err(error)) => return failed(arguments, &error, &remotes, own.as_ref()),
    };
    let remote = session.remote.clone();
    let leave = move || remote.insist(OperatorCommand::Reconnect);
    arguments.part.switches(switched, &arguments.paths, arguments.deadline, leave)?;
    let asking = |screen: Screen| {
        let remote = session.remote.clone();
        // One that is not taken is followed by another.
        screen.start(clock, move |channel, payload| {
            _ = remote.send(OperatorCommand::Send { channel, created: None, payload })
        })
    };
    let screens: Vec<_> = screens.into_iter().map(asking).collect::<Result<_, String>>()?;
    for microphone in microphones {
        let remote = session.remote.clone();
        microphone.start(clock, move |channel, created, payload| {
            remote.send(OperatorCommand::Send { channel, created: Some(created), payload })
        })?;
    }
    let ended = if let Some(presses) = presses {
        tui::show(session, arguments, clock, presses)?
    } else {
        if let Some(place) = &place {
            output::tell_place(clock.now(), place, arguments.json);
        }
        let printed = Printed { every: arguments.printed(place.is_some()), last: None };
        lines(session, arguments, &declared, metrics.as_ref().map(|metrics| (metrics, &recorded)), printed)
    };
    // They end with the session, and say what they saw.
    screens.into_iter().chain(speakers).for_each(|each| _ = each.join());
    recorded.event(clock.now(), || match &ended {
        Ok((at, progress)) => Some(output::summary_line(*at, progress)),
        Err(OperateError::Lost(_, progress)) => Some(output::summary_line(clock.now(), progress)),
        Err(_) => None,
    });
    recorded.finish();
    if let Some(drops) = drops {
        channels::tell_drops(clock.now(), &drops.read(), arguments.json);
    }
    match ended {
        Ok((at, progress)) => {
            Output::new(arguments.json).summary(at, &progress);
            let has_failed = input_failed.is_some_and(|failed| failed());
            Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(error) => {
            // What was is known, though the rest is not to be had.
            if let OperateError::Lost(_, progress) = &error {
                Output::new(arguments.json).summary(clock.now(), progress);
            }
            failed(arguments, &error, &remotes, own.as_ref())
        }
    }
}

/// A button of the input, as one of a person's; then it is told, where it is shown.
fn press(remote: &Remote<Machine>, pressed: Pressed, shown: Option<&SyncSender<tui::Pressed>>) {
    let press = match pressed {
        Pressed::Alarm(Alarm::Pressed) => Press::Stop,
        Pressed::Alarm(Alarm::Lost) => Press::Lost(Loss::Ended),
        Pressed::Reset => Press::Command(OperatorCommand::Reset),
        Pressed::Resume => Press::Command(OperatorCommand::Resume),
        // Of an input that is gone, and presses nothing again.
        Pressed::Quit => {
            button::tell(remote, &Press::Command(OperatorCommand::Close));
            return;
        }
    };
    let taken = button::tell(remote, &press);
    match shown {
        Some(shown) => drop(shown.try_send(Ok((press, taken)))),
        None if !taken => crate::say("the session hears no keys any more"),
        None => {}
    }
}

fn failed(
    arguments: &Arguments,
    error: &OperateError,
    remotes: &[SocketAddr],
    own: Option<&Fingerprint>,
) -> Ended {
    crate::say(&arguments.advice(error, remotes, own));
    Ok(ExitCode::FAILURE)
}

/// How a session ended, and when.
type Outcome = Result<(Time, Progress), OperateError>;

/// Which reports are printed, of those that a session makes.
struct Printed {
    /// None, where it is not said.
    every: Option<Every>,
    /// When the last one was, and how many states it told of.
    last: Option<(Time, u64)>,
}

impl Printed {
    /// Is it time for this one? A report is at most half of [`FRAME`] early.
    fn is_due(&mut self, at: Time, messages: u64) -> bool {
        let is_due = match (self.every, self.last) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(Every::Time(period)), Some((last, _))) => at + FRAME / 2 >= last + period,
            (Some(Every::Messages(number)), Some((_, last))) => messages >= last.saturating_add(number),
        };
        if is_due {
            self.last = Some((at, messages));
        }
        is_due
    }
}

/// Prints line by line.
fn lines(
    session: Session,
    arguments: &Arguments,
    channels: &Channels,
    metrics: Option<(&Metrics, &Recorded)>,
    mut printed: Printed,
) -> Outcome {
    let (mut out, mut last, mut connected) = (Output::new(arguments.json), Time::ZERO, false);
    for (at, told) in &session.notes {
        last = at;
        let note = match told {
            Told::Path(path) => {
                paths::tell(at, &path, arguments.json);
                continue;
            }
            Told::Flood(flood) => {
                paths::tell_flood(at, &flood, arguments.json);
                metrics.iter().for_each(|(metrics, _)| metrics.flood(&flood));
                continue;
            }
            Told::Note(note) => note,
        };
        if let (OperatorNote::Progress(progress), Some((metrics, recorded))) = (&note, metrics) {
            metrics.tell(&progress.status, recorded.counts());
        }
        // What was never open is not closed either: why is said at the end.
        connected |= matches!(note, OperatorNote::Event(OperatorEvent::Connected { .. }));
        match &note {
            OperatorNote::Event(OperatorEvent::Channel(event)) => channels.tell(at, event, arguments.json),
            _ if !connected => {}
            OperatorNote::Progress(progress) if !printed.is_due(at, progress.status.messages) => {}
            note => out.note(at, note),
        }
    }
    session.join().map(|progress| (last, progress))
}
