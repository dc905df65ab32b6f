//! `taut demo`: a simulated arm behind an emulated network, driven from the keyboard, on one machine and without root.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use taut_core::{Duration, Protocol, Seed};
use taut_io::Clock;
use taut_io::identity::read_or_make;
use taut_io::session::TransportKind;
use taut_lab::run::{Inputs, LinkPair, link_pair};
use taut_lab::scenario::Scenario;
use taut_link::Chain;
use taut_netlab::emulate::{Emulator, RunningEmulator, Switch, Switched, relay};

use crate::host::{OnSignal, json_line, lock};
use crate::part::{Part, SharedFolder};
use crate::{Ended, print};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The network in between: lte, wifi, direct (1 ms there and back), far (150 ms, 0.5 % lost each way), or a scenario's file; the console's page changes it
    #[arg(long, value_name = "NETWORK", default_value = "lte")]
    network: Network,
    /// Which of the file's links, where it has several
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// quic, udp, sctp, dccp, etp, mtip or mpquic; the console's page changes it
    #[arg(long, default_value = "udp", value_parser = over_udp)]
    transport: TransportKind,
    /// What the arm touches: free, foam, spring or wall
    #[arg(long, default_value = "spring", value_parser = ["free", "foam", "spring", "wall"])]
    touches: String,
    /// A hand that finds a surface, presses, slides and lets go by itself, in place of the keyboard; on a terminal with all of it on view
    #[arg(long)]
    script: bool,
    /// The console in a browser in place of the keyboard, with pictures of the arm
    #[cfg(feature = "console")]
    #[arg(long, conflicts_with = "script")]
    console: bool,
    /// Where its page is, on loopback; 0 takes a port that is free
    #[cfg(feature = "console")]
    #[arg(long, value_name = "PORT", default_value_t = crate::console::PORT, requires = "console")]
    port: u16,
    /// End after so long; with --script alone
    #[arg(long = "for", value_name = "DURATION", requires = "script")]
    duration: Option<Duration>,
    /// The seed of what is random in the network
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print what happens as JSON Lines
    #[arg(long, requires = "script")]
    json: bool,
}

impl Arguments {
    /// The port of the page, where there is one.
    fn console(&self) -> Option<u16> {
        #[cfg(feature = "console")]
        return self.console.then_some(self.port);
        #[cfg(not(feature = "console"))]
        None
    }

    fn has_console(&self) -> bool {
        self.console().is_some()
    }
}

/// The camera of the console.
const CAMERA: &str = "front";

/// Of both ends, where there is a console: its arm tells where its joints are, behind all else.
const CHANNELS: &str = r#"[[channel]]
name = "arm/measured_js"
kind = "telemetry"
priority = 7
"#;

/// Those that taut has with it.
const KNOWN: [(&str, &str); 4] = [
    ("lte", include_str!("../../../scenarios/lte.toml")),
    ("wifi", include_str!("../../../scenarios/wifi.toml")),
    ("direct", include_str!("demo/direct.toml")),
    ("far", include_str!("demo/far.toml")),
];

#[derive(Clone, Debug)]
enum Network {
    Known(&'static str, &'static str),
    File(PathBuf),
}

impl std::str::FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((name, scenario)) = KNOWN.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Known(name, scenario));
        }
        Ok(match text {
            file if file.contains(['.', '/']) => Self::File(file.into()),
            _ => {
                return Err(format!(
                    "`{text}` is no network; there are {}, and files such as my-network.toml",
                    KNOWN.map(|(name, _)| name).join(", ")
                ));
            }
        })
    }
}

impl Network {
    fn name(&self) -> String {
        match self {
            Self::Known(name, _) => (*name).to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    fn link(&self, name: Option<&str>, seed: Seed) -> Result<LinkPair, String> {
        let (path, scenario) = match self {
            Self::Known(name, text) => (Path::new(*name), Scenario::parse(name, text)),
            Self::File(path) => (path.as_path(), Scenario::read(path)),
        };
        let scenario = scenario.map_err(|error| error.to_string())?;
        link_pair(&scenario, name, seed, &mut Inputs::default())
            .map_err(|error| error.within(path).to_string())
    }
}

/// Those that the network in between carries: it is a relay of datagrams.
fn carried() -> impl Iterator<Item = TransportKind> {
    TransportKind::SHIPPED.into_iter().filter(|kind| kind.protocol() == Protocol::Udp)
}

fn over_udp(text: &str) -> Result<TransportKind, String> {
    let transport: TransportKind = text.parse()?;
    if !carried().any(|kind| kind == transport) {
        return Err("the network in between is a relay of datagrams, and TCP sends none: take quic, or `taut emulate` as root".into());
    }
    Ok(transport)
}

/// Somebody wants the demonstration to end. Its session ends first, which stops the arm, and all else when that has.
#[derive(Default)]
struct Asked {
    is_asked: bool,
    /// While there is one.
    operator: Option<Pid>,
}

impl Asked {
    fn end(&mut self) {
        self.is_asked = true;
        if let Some(operator) = self.operator {
            let _ = kill_process(operator, Signal::TERM);
        }
    }

    fn begins(&mut self, operator: Pid) {
        self.operator = Some(operator);
        if self.is_asked {
            self.end();
        }
    }
}

/// What the demonstration and its parts have for themselves.
struct Folder(SharedFolder);

impl Folder {
    fn new() -> Result<Self, String> {
        SharedFolder::new(SharedFolder::path(std::process::id())).map(Self)
    }

    fn file(&self, name: &str) -> String {
        self.0.file(name).display().to_string()
    }

    /// One that the parts read.
    fn with(&self, name: &str, content: &str) -> Result<String, String> {
        let path = self.file(name);
        std::fs::write(&path, content).map_err(|error| format!("{path}: {error}"))?;
        Ok(path)
    }

    fn fingerprint(&self, name: &str) -> Result<String, String> {
        let (identity, _) = read_or_make(&self.0.file(name)).map_err(|error| error.to_string())?;
        Ok(identity.fingerprint().to_string())
    }
}

pub(crate) fn demo(arguments: &Arguments) -> Ended {
    let clock = Clock::start();
    let asked = Arc::new(Mutex::new(Asked::default()));
    // Before there are parts: until one can be asked, somebody may have asked.
    let signalled = Arc::clone(&asked);
    let _signals = OnSignal::new(move || lock(&signalled).end())?;
    let offered = Offered::new(arguments)?;
    let folder = Folder::new()?;
    let (one, other) = (folder.fingerprint("robot")?, folder.fingerprint("operator")?);
    let transport = arguments.transport.to_string();
    let (mut robot, at) = robot(arguments, &folder, &transport, &other)?;
    let pair = &offered.networks[0].1;
    let link = pair.name.clone();
    let (network, switches, relay) = emulated(pair, &at)?;
    let (chooser, chosen) = UnixStream::pair().map_err(|error| error.to_string())?;
    let mut operator = operator(arguments, &folder, &transport, &one, &relay, (&offered, chooser))?;
    if let Some(told) = robot.0.stdin.take() {
        std::thread::spawn(move || offered.choose(&chosen, told, &switches));
    }
    lock(&asked).begins(operator.pid());
    let status = operator.0.wait().map_err(|error| error.to_string())?;
    lock(&asked).operator = None;
    robot.end();
    let robots = robot.0.wait().map_err(|error| error.to_string())?;
    let stats = network.stop().map_err(|error| error.to_string())?;
    let lost = |direction: &taut_netlab::emulate::DirectionStats| direction.dropped.values().sum::<u64>();
    if arguments.json {
        let more = [
            ("link", json!(link)),
            ("to_robot", json!({ "packets": stats.up.left, "dropped": lost(&stats.up) })),
            ("to_operator", json!({ "packets": stats.down.left, "dropped": lost(&stats.down) })),
        ];
        print(&json_line("network", clock.now(), more))?;
    } else {
        print(&format!(
            "the network carried {} packets to the robot and {} back, and dropped {} and {}\n",
            stats.up.left,
            stats.down.left,
            lost(&stats.up),
            lost(&stats.down)
        ))?;
    }
    Ok(if status.success() && robots.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The robot, and where it listens.
fn robot(
    arguments: &Arguments,
    folder: &Folder,
    transport: &str,
    trust: &str,
) -> Result<(Part, String), String> {
    let (device, identity, state) =
        (format!("sim:{}", arguments.touches), folder.file("robot"), folder.file("robot.state"));
    let shared = folder.0.argument();
    let camera = format!("{CAMERA}=drawn");
    let mut words = vec![
        "robot",
        "--listen",
        "127.0.0.1:0",
        "--transport",
        transport,
        "--identity",
        &identity,
        "--trust",
        trust,
        "--robot",
        &device,
        "--state",
        &state,
        "--watchdog",
        "300ms",
        "--json",
        "--part-folder",
        &shared,
    ];
    let channels = folder.with("channels.toml", CHANNELS)?;
    let mut stdin = Stdio::null();
    if arguments.has_console() {
        words.extend(["--video", &camera, "--channels", &channels, "--part-switches"]);
        stdin = Stdio::piped();
    }
    let mut part = Part::start(&words, Stdio::piped(), stdin, false)?;
    let mut lines = BufReader::new(part.0.stdout.take().ok_or("the robot says nothing")?).lines();
    let listening = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let line: Value = serde_json::from_str(&line).ok()?;
        Some(line.get("address").filter(|_| line["event"] == "listening")?.as_str()?.to_owned())
    });
    // Whoever reads nothing holds nobody up, but a pipe that is closed would end it.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Ok((part, listening.ok_or("the robot did not start")?))
}

/// Others may take their place, in each direction.
type Switches = [Switch<Chain>; 2];

/// The network, and where it begins.
fn emulated(pair: &LinkPair, robot: &str) -> Result<(RunningEmulator, Switches, String), String> {
    let robot = robot.parse().map_err(|_| format!("`{robot}` is no address"))?;
    let (clients, server) = relay(([127, 0, 0, 1], 0).into(), robot).map_err(|error| error.to_string())?;
    let address = clients.address().to_string();
    let ((up, to_robot), (down, to_operator)) =
        (Switched::new(pair.up.clone()), Switched::new(pair.down.clone()));
    let running = Emulator::new(up, down).spawn(clients, server).map_err(|error| error.to_string())?;
    Ok((running, [to_robot, to_operator], address))
}

/// What was asked for, and, where there is a console, what its page may choose instead.
struct Offered {
    /// Each with its name.
    networks: Vec<(String, LinkPair)>,
    transports: Vec<TransportKind>,
}

impl Offered {
    fn new(arguments: &Arguments) -> Result<Self, String> {
        let (own, transport) = (arguments.network.name(), arguments.transport);
        let others = KNOWN.iter().filter(|(name, _)| arguments.has_console() && *name != own);
        let others = others.map(|(name, text)| (Network::Known(name, text), None));
        let all = [(arguments.network.clone(), arguments.link.as_deref())].into_iter().chain(others);
        let link = |(network, link): (Network, _)| {
            Ok((network.name(), network.link(link, Seed::new(arguments.seed))?))
        };
        let others = carried().filter(|kind| arguments.has_console() && *kind != transport);
        Ok(Self {
            networks: all.map(link).collect::<Result<_, String>>()?,
            transports: std::iter::once(transport).chain(others).collect(),
        })
    }

    /// Puts another network that the page chooses in the place of the one that is, and has both ends go over another transport.
    fn choose(&self, console: &UnixStream, mut robot: ChildStdin, [to_robot, to_operator]: &Switches) {
        for line in BufReader::new(console).lines().map_while(Result::ok) {
            let Some((of, place)) = line.split_once(' ') else { continue };
            let Ok(place) = place.parse::<usize>() else { continue };
            if let ("network", Some((_, pair))) = (of, self.networks.get(place)) {
                to_robot.put(pair.up.clone());
                to_operator.put(pair.down.clone());
            }
            if let ("transport", Some(kind)) = (of, self.transports.get(place)) {
                // The robot first, so that it is there when the operator comes. One that is gone ends all of this.
                let mut console = console;
                let _ = writeln!(robot, "{kind}").and_then(|()| writeln!(console, "{kind}"));
            }
        }
    }
}

fn operator(
    arguments: &Arguments,
    folder: &Folder,
    transport: &str,
    robot: &str,
    connect: &str,
    (offered, chooser): (&Offered, UnixStream),
) -> Result<Part, String> {
    let (identity, state, shared) =
        (folder.file("operator"), folder.file("operator.state"), folder.0.argument());
    let (channels, model) = (folder.file("channels.toml"), folder.with("arm.urdf", taut_video::ARM_URDF)?);
    let mut words = vec![
        if arguments.has_console() { "console" } else { "operator" },
        "--connect",
        connect,
        "--robot-id",
        robot,
        "--transport",
        transport,
        "--identity",
        &identity,
        "--state",
        &state,
        "--deadline",
        "300ms",
        "--part-folder",
        &shared,
    ];
    let port = arguments.console().map(|port| port.to_string());
    let messages = arguments.duration.map(|duration| (duration.as_nanos() / 1_000_000).max(1).to_string());
    if arguments.script {
        words.extend(["--input", "demo", "--resume", "start"]);
        if let Some(messages) = &messages {
            words.extend(["--messages", messages]);
        }
        if arguments.json {
            words.push("--json");
        } else if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            words.push("--tui");
        }
    } else if let Some(port) = &port {
        words.extend([
            "--port",
            port,
            "--video",
            CAMERA,
            "--channels",
            &channels,
            "--model",
            &model,
            "--part-switches",
        ]);
        words.extend(offered.networks.iter().flat_map(|(name, _)| ["--offer-network", name]));
        words.extend(offered.transports.iter().flat_map(|kind| ["--offer-transport", kind.name()]));
        print(
            "an arm behind an emulated network, its camera, and a console in your browser; Ctrl-C here ends it\n",
        )?;
    } else {
        words.extend(["--input", "keyboard"]);
        print(
            "an arm behind an emulated network, and your keyboard: press r, then hold w s a d i k to move it, space or\n\
             Escape to stop it, c and r to go on, q to end\n",
        )?;
    }
    let stdin = if arguments.has_console() { OwnedFd::from(chooser).into() } else { Stdio::inherit() };
    Part::start(&words, Stdio::inherit(), stdin, true)
}
