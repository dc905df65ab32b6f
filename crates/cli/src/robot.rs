//! `taut robot`: beside the robot, real or simulated.

mod output;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use clap::Args;
use serde_json::{Value, json};
use taut_agent::{RobotCommand, RobotDevice, RobotNote};
use taut_core::{Bitrate, Bytes, Duration, Time};
use taut_io::device::Stoppable;
use taut_io::device::frame::DeviceLimits;
use taut_io::lines::{of_flood, of_path};
use taut_io::session::{
    Endpoint, Remote, RobotMachine, RobotRecord, Security, ServeConfig, ServeError, Told, TransportKind,
    serve,
};
use taut_io::{Clock, Driver};
use taut_session::{
    Codec, Congestion, Direction, LimitPolicy, MotionLimits, RobotConfig, RobotEvent, Status, StopCause,
};
use taut_transport::identity::{Fingerprint, Trust};

use self::output::Output;
use crate::button::Word;
use crate::channels::{self, Channels};
use crate::device::{Moved, Ready, Seen};
use crate::diagnostics::{Log, Traces};
use crate::host::{self, Begun, OnSignal, Scheduling, Session, every, json_line};
use crate::identity::Plaintext;
use crate::law::LawArguments;
use crate::metrics::Metrics;
use crate::part::PartOf;
use crate::paths::{self, Paths};
use crate::probe::Beside;
use crate::quantity::duration;
use crate::record::Record;
use crate::sound::{Sound, SoundArguments};
use crate::streams::print;
use crate::video::{Camera, CameraWords, VideoCodec, VideoSpec};
use crate::watchdog::Watchdogs;
use crate::{Ended, button, last_stop, state, watchdog};

#[derive(Args)]
#[command(after_long_help = channels::HELP)]
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
    /// What moves: a simulated robot that touches nothing, foam, a spring or a wall, sim[:free|foam|spring|wall]; an SO-101,
    /// so101:PORT, whose joints and their limits --channels has; or a device that is a program, exec:PROGRAM ARGUMENTS or
    /// python:MODULE:CLASS, which needs --position-limit, --velocity-limit and --force-limit where it has no limits of its own
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
    /// The largest angular speed, rad/s, by the robot's own clock
    #[arg(long, value_name = "RAD/S", value_parser = host::amount)]
    angular_velocity_limit: Option<f32>,
    /// The largest commanded torque, N·m
    #[arg(long, value_name = "N·M", value_parser = host::amount)]
    torque_limit: Option<f32>,
    /// The longest way from one state to the next, m, besides the speed
    #[arg(long, value_name = "M", value_parser = host::amount)]
    step_limit: Option<f32>,
    /// The most states that are taken in a second
    #[arg(long, value_name = "HZ", value_parser = host::amount, default_value = "4000")]
    rate_limit: f32,
    /// Drop states beyond a limit, instead of bringing them within it
    #[arg(long)]
    refuse: bool,
    /// The bytes of the session: native, or omni71 for peers that know nothing else, its samples padded to LENGTH by omni71:LENGTH
    #[arg(long, default_value = "native", value_parser = parse_codec)]
    codec: Coding,
    /// By which law this end judges how much the path to the operator carries: own_queue, scream:10ms (SCReAM v2, with a queue so long) or gcc
    #[arg(long, value_name = "LAW", default_value = "own_queue", value_parser = parse_congestion)]
    congestion: Congestion,
    /// The file of this host's identity, as for `taut identity`
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Where a latched stop survives this process; by default a file for this --listen in $STATE_DIRECTORY, in taut/ of
    /// $XDG_STATE_HOME, or of ~/.local/state
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// The channels of the session beside states, in a file that both ends share; see the end of --help
    #[arg(long, value_name = "FILE")]
    channels: Option<Channels>,
    /// A URDF with limits of the joints of --channels (<limit> of each joint that moves, in the file's order)
    #[arg(long, value_name = "FILE.urdf", requires = "channels")]
    limits: Option<PathBuf>,
    /// Send pictures over a channel of this name: NAME=test, a test picture, or NAME=test:WIDTHxHEIGHT@RATE; NAME=ivf:FILE, a file of VP8; NAME=rtp:ADDRESS:PORT, VP8 that another program sends there; NAME=gst:PIPELINE, of GStreamer, where taut was built with it. Repeatable
    #[arg(long, value_name = "NAME=SOURCE")]
    video: Vec<VideoSpec>,
    /// The most that each camera of --video sends; less where the network carries less
    #[arg(long, value_name = "RATE", default_value = "2Mbit", requires = "video")]
    video_rate: Bitrate,
    /// How pictures of --video are encoded; h264 where taut was built with OpenH264. What an encoder of NAME=gst:PIPELINE made stays as it is
    #[arg(long, value_enum, default_value = "vp8", requires = "video")]
    video_codec: VideoCodec,
    #[command(flatten)]
    law: LawArguments,
    #[command(flatten)]
    sound: SoundArguments,
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
    /// Answer there over HTTP with the newest report: /metrics for Prometheus, /status.json for any other program
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = host::address)]
    metrics: Option<SocketAddr>,
    /// Answer `taut probe` there, over UDP, for the operators of --trust, while nobody has the robot
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = host::address)]
    probe: Option<SocketAddr>,
    /// A report so often while there is an operator [default: 10s; with --record or --metrics 1s]
    #[arg(long, value_name = "DURATION", value_parser = every)]
    every: Option<Duration>,
    #[command(flatten)]
    record: Record,
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

/// Argument `--codec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coding {
    pub(crate) codec: Codec,
    /// Of omni71, padding included.
    pub(crate) sample_length: usize,
}

impl Coding {
    /// Of a sample, where they are samples.
    pub(crate) fn length(self) -> Option<Bytes> {
        (self.codec == Codec::Omni71).then(|| Bytes::new(self.sample_length as u64))
    }
}

/// Argument `--congestion`.
pub(crate) fn parse_congestion(text: &str) -> Result<Congestion, String> {
    const FORMS: &str = "there are own_queue, scream:10ms with any queue of 1ms to 1s, and gcc";
    match text.split_once(':') {
        None if text == "own_queue" => Ok(Congestion::OwnQueue),
        None if text == "gcc" => Ok(Congestion::Gcc),
        Some(("scream", target)) => match target.parse() {
            Ok(target) if (Duration::from_millis(1)..=Duration::from_secs(1)).contains(&target) => {
                Ok(Congestion::Scream { target })
            }
            _ => Err(format!("`{target}` is not the length of a queue; {FORMS}")),
        },
        _ => Err(format!("`{text}` is not a law of congestion control; {FORMS}")),
    }
}

pub(crate) fn parse_codec(text: &str) -> Result<Coding, String> {
    let omni71 = |sample_length| Ok(Coding { codec: Codec::Omni71, sample_length });
    match text.split_once(':') {
        None if text == "native" => Ok(Coding { codec: Codec::Native, sample_length: 0 }),
        None if text == "omni71" => omni71(71),
        Some(("omni71", length)) => match length.parse() {
            Ok(length @ 71..=1_000) => omni71(length),
            _ => Err(format!("`{length}` is not 71 to 1000 bytes of a sample; write omni71:256")),
        },
        _ => Err(format!("`{text}` is not a codec; there are native, omni71, omni71:LENGTH")),
    }
}

/// Arguments `--watchdog` and `--button-heartbeat`.
fn silence(text: &str) -> Result<Duration, String> {
    let silence = duration(text)?;
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
    ("q", Word::Quit(RobotCommand::Close)),
    ("quit", Word::Quit(RobotCommand::Close)),
    ("h", Word::Nothing),
];

impl Arguments {
    /// Of the arguments, and of what the `device` keeps to.
    fn motion_limits(&self, device: DeviceLimits) -> Result<MotionLimits, String> {
        let mut limits = MotionLimits::new().rate(self.rate_limit);
        if let Some([least, largest]) = device.position {
            limits = limits.position(least, largest);
        } else if let [a, b, c, d, e, f] = self.position_limit[..] {
            limits = limits.position([a, b, c], [d, e, f]);
        }
        if !matches!(self.position_limit.len(), 0 | 6)
            || self.position_limit.iter().any(|limit| limit.is_nan())
        {
            return Err("--position-limit is six numbers, separated by commas: x,y,z,x,y,z".into());
        }
        limits = device.velocity.or(self.velocity_limit).map_or(limits, |limit| limits.velocity(limit));
        limits = self.acceleration_limit.map_or(limits, |limit| limits.acceleration(limit));
        limits = device.force.or(self.force_limit).map_or(limits, |limit| limits.force(limit));
        limits = self.angular_velocity_limit.map_or(limits, |limit| limits.angular_velocity(limit));
        limits = self.torque_limit.map_or(limits, |limit| limits.torque(limit));
        limits = self.step_limit.map_or(limits, |limit| limits.step(limit));
        Ok(if self.refuse { limits.policy(LimitPolicy::Refuse) } else { limits })
    }

    /// An option that limits states.
    fn limit_of_states(&self) -> Option<&'static str> {
        let all = [
            ("--position-limit", !self.position_limit.is_empty()),
            ("--velocity-limit", self.velocity_limit.is_some()),
            ("--acceleration-limit", self.acceleration_limit.is_some()),
            ("--force-limit", self.force_limit.is_some()),
            ("--angular-velocity-limit", self.angular_velocity_limit.is_some()),
            ("--torque-limit", self.torque_limit.is_some()),
            ("--step-limit", self.step_limit.is_some()),
            ("--refuse", self.refuse),
        ];
        all.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// What the device keeps to by itself.
    fn device_limits(&self) -> DeviceLimits {
        let position = match self.position_limit[..] {
            [a, b, c, d, e, f] => Some([[a.min(d), b.min(e), c.min(f)], [a.max(d), b.max(e), c.max(f)]]),
            _ => None,
        };
        DeviceLimits {
            position: position.filter(|corners| corners.iter().flatten().all(|part| part.is_finite())),
            velocity: self.velocity_limit,
            force: self.force_limit,
        }
    }

    /// Before there is a device, and of one that is `ready`.
    fn config(&self, ready: Option<&Ready>) -> Result<RobotConfig, String> {
        channels::check_codec(self.codec.codec, !self.channels()?.is_empty())?;
        self.law.check(self.codec.codec)?;
        if self.hold_to_run && self.codec.codec == Codec::Omni71 {
            return Err("--hold-to-run: omni71 cannot say whether an enabling input is held".into());
        }
        let device = ready.map_or_else(|| self.device_limits(), |ready| ready.limits);
        let limits = self.motion_limits(device)?;
        let stiffness = ready.and_then(|ready| ready.device.stiffness());
        let session = RobotConfig::new()
            .codec(self.codec.codec)
            .turns(self.law.turns())
            .control_law(self.law.told())
            .congestion(self.congestion)
            .sample_length(self.codec.sample_length)
            .watchdog(self.watchdog)
            .max_age(self.max_age.unwrap_or(self.watchdog))
            .hold_to_run(self.hold_to_run)
            .limits(stiffness.map_or(limits, |stiffness| limits.stiffness(stiffness)))
            .feedback_deadline(self.feedback_deadline);
        self.channels()?.for_robot(session)
    }

    /// Before anything of the device is started.
    ///
    /// # Errors
    /// One line: what has to be said for it and is not, or what watches over it and is not there.
    fn check_device(&self) -> Result<(), String> {
        self.watchdog_device.as_deref().map_or(Ok(()), watchdog::check)?;
        self.robot.check(&self.device_channels()?)?;
        if self.robot.is_simulated_here() {
            return Ok(());
        }
        if !self.position_limit.is_empty() && self.device_limits().position.is_none() {
            return Err(
                "--position-limit: without end it limits nothing; what is not simulated here needs numbers"
                    .to_owned(),
            );
        }
        let turn_limits = self.angular_velocity_limit.zip(self.torque_limit);
        if self.law.turns() && turn_limits.is_none() {
            return Err("--turns does not turn what is not simulated here without --angular-velocity-limit and --torque-limit".to_owned());
        }
        self.law.check_servos()
    }

    /// Starts the device.
    fn ready(&self, seen: Seen) -> Result<Ready, String> {
        let channels = self.device_channels()?;
        let ready = self.robot.start(self.device_limits(), &channels, seen, self.law.turns())?;
        if let (Some(_), Some(option)) = (&ready.by_channels, self.limit_of_states()) {
            return Err(format!(
                "{option} limits states, and `{}` is moved by channels alone: its limits stand in --channels",
                ready.name
            ));
        }
        let device = self.law.arm(ready.device, self.motion_limits(ready.limits)?, self.watchdog);
        Ok(Ready { device, ..ready })
    }

    /// Those of the file, which the device knows.
    fn device_channels(&self) -> Result<Channels, String> {
        let channels = self.channels.clone().unwrap_or_default();
        let channels = match self.robot.joints() {
            Some(joints) => channels.with_joints(joints),
            None => channels,
        };
        match &self.limits {
            Some(urdf) => channels.with_urdf(urdf),
            None => Ok(channels),
        }
    }

    /// All of the session.
    fn channels(&self) -> Result<Channels, String> {
        let names = self.video.iter().map(|video| &video.name);
        let channels = names.fold(self.device_channels(), |channels, name| channels?.with_picture(name))?;
        self.sound.declare(channels, Direction::ToOperator)
    }

    fn cameras(&self, channels: &Channels, seen: &Seen) -> Result<Cameras, String> {
        let camera = |spec: &VideoSpec| {
            Camera::new(spec, channels.of_picture(&spec.name)?, self.video_codec, self.video_rate, seen)
        };
        let cameras: Vec<_> = self.video.iter().map(camera).collect::<Result<_, String>>()?;
        Ok(cameras.into_iter().unzip())
    }

    /// How the session is run.
    fn about_session(&self) -> Vec<(&'static str, Value)> {
        let ms = Duration::as_millis_f64;
        vec![
            ("end", json!("robot")),
            ("transport", json!(self.transport.name())),
            ("secure", json!(self.plaintext.is_off())),
            ("law", json!(self.law.name())),
            ("turns", json!(self.law.turns())),
            ("settings", json!(self.paths.simulated(self.transport))),
            ("codec", json!(self.codec.codec)),
            ("sample_length", json!(self.codec.length())),
            ("congestion_control", json!(self.congestion)),
            ("watchdog_ms", json!(ms(self.watchdog))),
            ("max_age_ms", json!(ms(self.max_age.unwrap_or(self.watchdog)))),
        ]
    }

    fn every(&self) -> Duration {
        self.every.unwrap_or(Duration::from_secs(if self.record.is_on() || self.metrics.is_some() {
            1
        } else {
            10
        }))
    }

    fn kept(&self) -> Result<RobotRecord, String> {
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

type Cameras = (Vec<Camera>, Vec<CameraWords>);
type Machine = RobotMachine<Box<dyn Stoppable + Send>>;
/// How to reach the session, and the threads that make its pictures.
type Started = (Remote<Machine>, Vec<JoinHandle<()>>);

/// A pipeline may take a second to stop, and a picture is being encoded.
const CAMERAS_END: std::time::Duration = std::time::Duration::from_millis(1_200);

pub(crate) fn robot(arguments: &Arguments) -> Ended {
    let _folder = arguments.part.folder()?;
    let clock = Clock::start();
    arguments.log.start(arguments.json, clock)?;
    last_stop::end_on_panic();
    arguments.config(None)?;
    arguments.check_device()?;
    let metrics = arguments.metrics.map(|listen| Metrics::start(listen, clock)).transpose()?;
    let channels = arguments.channels()?;
    let security = arguments.security()?;
    let has_operator = Arc::new(AtomicBool::new(false));
    let probed =
        arguments.probe.map(|listen| Beside::listen(listen, security.clone(), &clock)).transpose()?;
    let fingerprint = security.fingerprint();
    let transport = arguments.paths.of_session(arguments.transport, arguments.feedback_deadline)?;
    let (transport, _traces) = arguments.traces.of(transport, &clock)?;
    let endpoint = Endpoint::listen(transport, arguments.listen, security, &clock);
    let endpoint = endpoint.and_then(|endpoint| if arguments.raw { endpoint.raw() } else { Ok(endpoint) });
    let endpoint = Arc::new(arguments.paths.over(endpoint.map_err(|error| error.to_string())?)?);
    let address = endpoint.local_addr().map_err(|error| error.to_string())?;
    let driver_config = arguments.scheduling.driver();
    let seen = arguments.robot.seen();
    let (cameras, watched) = arguments.cameras(&channels, &seen)?;
    let Sound { microphones, speakers, words } =
        arguments.sound.open(&channels, Direction::ToOperator, arguments.json, None)?;
    let speakers: Vec<_> =
        speakers.into_iter().map(|speaker| speaker.start(clock)).collect::<Result<_, String>>()?;
    let record = arguments.kept()?;
    // Whoever reads of it may be in another folder.
    let file = std::path::absolute(record.path()).map_err(|error| format!("--state: {error}"))?;
    let kept = record.latch().map(|latch| (latch, file.as_path()));
    let recorded = arguments.record.start(clock, &channels, arguments.json, arguments.about_session())?;
    // An arm may hold itself from here on: what can be wrong without it was found before, all but limits, of which it may have its own.
    let ready = arguments.ready(seen).inspect_err(|_| recorded.finish())?;
    if let Some(warning) = ready.warning() {
        crate::say(&warning);
    }
    let config =
        ServeConfig::new(arguments.config(Some(&ready))?).reports_by_time(arguments.every()).record(record);
    let config = match recorded.observer() {
        Some(observer) => config.observed(observer),
        None => config,
    };
    let (description, about, drops) = (ready.description(), about(&ready, &channels), ready.drops.clone());
    let (stopper, device) = (ready.device.stopper(), ready.device);
    last_stop::arm(move |cause| stopper.stop(cause))?;
    let capabilities = endpoint.capabilities();
    // Armed last: what fails before leaves it alone.
    let watchdogs = arguments.watchdogs()?;
    let buttons = arguments.commands.then_some(arguments.button_heartbeat);
    // Before anybody can move it.
    let signals = Arc::new(OnSignal::before(&arguments.part)?);
    let signalled = Arc::clone(&signals);
    let (busy, recording) = (Arc::clone(&has_operator), recorded.clone());
    let switched = Arc::clone(&endpoint);
    let mut events = Output::new(true, channels.clone());
    let work = move |begun: Begun<Started>, notes: SyncSender<(Time, Told<RobotNote>)>| {
        let driver = Driver::new(driver_config)?.with_clock(clock);
        let mut failed = None;
        let started = |remote: Remote<Machine>| {
            let (closing, ends) = (remote.clone(), remote.clone());
            signalled.end_by(move || _ = closing.insist(RobotCommand::Close));
            let button = buttons.map(|heartbeat| button::listen(&COMMANDS, heartbeat, remote.clone(), None));
            let sender = || {
                let remote = remote.clone();
                move |channel, created, payload| {
                    remote.send(RobotCommand::Send { channel, created: Some(created), payload })
                }
            };
            let cameras = cameras.into_iter().map(|camera| camera.start(clock, sender()));
            let cameras = cameras.collect::<Result<_, String>>();
            let microphones =
                microphones.into_iter().try_for_each(|microphone| microphone.start(clock, sender()));
            match button.unwrap_or(Ok(())).and(microphones).and(cameras) {
                Ok(cameras) => begun.tell(Ok((remote, cameras))),
                Err(why) => {
                    // It ends in order, before anybody could move it.
                    ends.insist(RobotCommand::Close);
                    failed = Some((begun, why));
                }
            }
        };
        // Who listens too slowly misses some. Messages are the device's.
        let tell = &mut |at, note| {
            watched.iter().for_each(|camera| tell_camera(camera, &note));
            if let Some(has) = has_operator_now(&note) {
                busy.store(has, Ordering::Relaxed);
            }
            match &note {
                Told::Note(RobotNote::Event(RobotEvent::Channel(event))) => words.channel(at, event),
                Told::Note(RobotNote::Event(RobotEvent::Closed)) => words.closed(),
                _ => {}
            }
            if !matches!(&note, Told::Note(RobotNote::Event(RobotEvent::Channel(event))) if !channels::is_told(event))
            {
                recording.event(at, || match &note {
                    Told::Path(path) => Some(host::shown(at, of_path(path))),
                    Told::Flood(flood) => Some(host::shown(at, of_flood(flood))),
                    Told::Note(note) => events.line(at, note),
                });
                drop(notes.try_send((at, note)));
            }
        };
        let ended = serve(driver, &endpoint, config, device, started, tell);
        if let Some((begun, why)) = failed {
            begun.tell(Err(why));
        }
        ended
    };
    let mut session = Session::start(arguments.scheduling, capabilities, work)?.map_err(ended_early)?;
    let remote = session.remote.0.clone();
    let leave = move || remote.insist(RobotCommand::Reconnect);
    arguments.part.switches(switched, &arguments.paths, arguments.feedback_deadline, leave)?;
    let remote = session.remote.0.clone();
    let watching = watchdogs.start(move || remote.turns())?;
    let mut out = Output::new(arguments.json, channels);
    out.listening(clock.now(), address, arguments.transport, fingerprint.as_ref(), &about, kept);
    out.moves(&description);
    if let Some(probed) = probed {
        let address = probed.address;
        probed.start(clock, has_operator)?;
        print(&if arguments.json {
            json_line("answers_probes", clock.now(), [("address", json!(address.to_string()))])
        } else {
            format!("answers probes at {address}\n")
        });
    }
    for (at, told) in &session.notes {
        match told {
            Told::Path(path) => paths::tell(at, &path, arguments.json),
            Told::Flood(flood) => {
                paths::tell_flood(at, &flood, arguments.json);
                metrics.iter().for_each(|metrics| metrics.flood(&flood));
            }
            Told::Note(note) => {
                if let (RobotNote::Progress(status), Some(metrics)) = (&note, &metrics) {
                    metrics.tell(status, recorded.counts());
                }
                out.note(at, &note);
            }
        }
    }
    let cameras = std::mem::take(&mut session.remote.1);
    let (ended, at) = (session.join(), clock.now());
    // It ended in order, and the device stands, also where that could not be written.
    let ended = ended.map(|status| (status, None)).or_else(|error| match (error.to_string(), error) {
        (why, ServeError::NotKept(status)) => Ok((*status, Some(why))),
        (why, _) => Err(why),
    });
    if ended.is_ok() {
        watching.end();
    }
    // They end with the session, and say what they played, or dropped.
    speakers.into_iter().for_each(|speaker| _ = speaker.join());
    host::join_within(CAMERAS_END, cameras);
    if let Ok((status, _)) = &ended {
        recorded.event(at, || Some(output::summary_line(at, status)));
    }
    recorded.finish();
    let (status, not_kept) = ended?;
    if let Some(drops) = drops {
        channels::tell_drops(clock.now(), &drops.read(), arguments.json);
    }
    out.summary(at, &status);
    Ok(not_kept.map_or(ExitCode::SUCCESS, |why| {
        crate::say(&why);
        ExitCode::FAILURE
    }))
}

/// Does this say that there is an operator, or that there is none? In the clear no transport closes when one has left or is gone.
fn has_operator_now(note: &Told<RobotNote>) -> Option<bool> {
    match note {
        Told::Note(RobotNote::Event(RobotEvent::Connected { .. } | RobotEvent::Enabled { .. })) => Some(true),
        Told::Note(RobotNote::Event(RobotEvent::Closed)) => Some(false),
        Told::Note(RobotNote::Stopped { why, .. }) => {
            let is_gone =
                matches!(why, StopCause::OperatorLeft | StopCause::Watchdog | StopCause::LinkClosed);
            is_gone.then_some(false)
        }
        _ => None,
    }
}

/// What concerns a camera.
fn tell_camera(camera: &CameraWords, note: &Told<RobotNote>) {
    match note {
        Told::Note(RobotNote::Event(RobotEvent::Channel(event))) => camera.channel(event),
        Told::Note(RobotNote::Event(RobotEvent::Closed)) => camera.closed(),
        Told::Note(RobotNote::Bitrate(rate)) => camera.bitrate(*rate),
        Told::Note(RobotNote::NotSent { channel, why }) => camera.refused(*channel, *why),
        _ => {}
    }
}

fn ended_early(result: Result<Status, ServeError>) -> String {
    result.err().map_or_else(|| "the session ended before it began".to_owned(), |error| error.to_string())
}

/// What is moved, for programs.
fn about(ready: &Ready, channels: &Channels) -> Value {
    let joints = channels.urdf_joints();
    let joints: Vec<Value> =
        joints.iter().map(|(channel, names)| json!({ "channel": channel, "names": names })).collect();
    json!({
        "name": ready.name,
        "real": ready.device.is_real(),
        "lease": ready.device.lease(),
        "stiffness_n_m": ready.device.stiffness(),
        "position_limit_m": ready.limits.position,
        "velocity_limit_mps": ready.limits.velocity,
        "force_limit_n": ready.limits.force,
        "joints": joints,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_of_congestion_control_has_a_name_and_scream_a_queue() {
        let scream = Congestion::Scream { target: Duration::from_millis(10) };
        assert_eq!(parse_congestion("scream:10ms"), Ok(scream));
        assert_eq!(parse_congestion("own_queue"), Ok(Congestion::OwnQueue));
        assert_eq!(parse_congestion("gcc"), Ok(Congestion::Gcc));
        for wrong in ["scream", "scream:", "scream:0s", "scream:2s", "cubic", "gcc:10ms"] {
            assert!(parse_congestion(wrong).unwrap_err().contains("scream:10ms"), "{wrong}");
        }
    }
}
