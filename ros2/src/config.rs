//! The file of a bridge: which topics pass, and how. Nothing passes that it does not list.

mod limits;
mod route;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::{Spanned, Value};

pub(crate) use self::limits::{JointRange, MotionLimits};
use self::route::RouteSpec;
pub(crate) use self::route::{Direction, Keep, Moving, OnStop, Qos, Route};
use crate::backend::{Backend, Peers};
use crate::rmw_zenoh;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BackendName {
    #[default]
    Dds,
    Zenoh,
}

/// The file as it is written; of `routes`, another one with routes and limits alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    domain: Option<u16>,
    backend: Option<BackendName>,
    interfaces: Option<Vec<IpAddr>>,
    router: Option<String>,
    peers: Option<Peers>,
    routes: Option<PathBuf>,
    robot: Option<RobotSpec>,
    operator: Option<OperatorSpec>,
    #[serde(default)]
    route: Vec<Spanned<RouteSpec>>,
    #[serde(default)]
    limits: BTreeMap<String, Spanned<Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RobotSpec {
    pub(crate) listen: String,
    pub(crate) identity: PathBuf,
    pub(crate) trust: String,
    #[serde(default)]
    pub(crate) transport: Option<String>,
    /// The file in which a latched stop survives.
    pub(crate) stops: PathBuf,
    #[serde(default, deserialize_with = "duration")]
    pub(crate) watchdog: Option<Duration>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperatorSpec {
    pub(crate) connect: String,
    pub(crate) identity: PathBuf,
    pub(crate) trust: String,
    #[serde(default)]
    pub(crate) transport: Option<String>,
    #[serde(default)]
    pub(crate) stops: Option<PathBuf>,
    /// Motion begins with the session, without being asked.
    #[serde(default)]
    pub(crate) resumes_at_start: bool,
}

/// Which end of the session this is.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Robot(RobotSpec),
    Operator(OperatorSpec),
}

/// A bridge, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) domain: u16,
    pub(crate) backend: Backend,
    pub(crate) end: End,
    pub(crate) routes: Vec<Route>,
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let read = Option::<taut_core::Duration>::deserialize(deserializer)?;
    Ok(read.map(Duration::from))
}

/// The largest file that is read.
const LONGEST: u64 = 1 << 20;
/// A session has no more channels.
const MAX_ROUTES: usize = 32;

/// A text, and where it is from.
struct Source<'a> {
    path: &'a Path,
    text: String,
}

impl<'a> Source<'a> {
    fn read(path: &'a Path) -> Result<Self, String> {
        let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
        if std::fs::metadata(path).map_err(cannot)?.len() > LONGEST {
            return Err(format!("{} is longer than 1 MiB", path.display()));
        }
        Ok(Self { path, text: std::fs::read_to_string(path).map_err(cannot)? })
    }

    fn wrong(&self, at: usize, what: &str) -> String {
        let line = self.text[..at.min(self.text.len())].bytes().filter(|byte| *byte == b'\n').count() + 1;
        format!("{}:{line}: {what}", self.path.display())
    }

    fn parse(&self) -> Result<File, String> {
        toml::from_str(&self.text)
            .map_err(|error| self.wrong(error.span().map_or(0, |span| span.start), error.message()))
    }

    /// The routes of this file, with their limits.
    fn routes(&self, file: &mut File, into: &mut Vec<Route>) -> Result<(), String> {
        let mut limits = std::mem::take(&mut file.limits);
        for spec in std::mem::take(&mut file.route) {
            let at = spec.span().start;
            let spec = spec.into_inner();
            let (place, held) = match limits.remove(spec.name()) {
                Some(value) => (value.span().start, Some(value.into_inner())),
                None => (at, None),
            };
            let name = spec.name().to_owned();
            let route = spec.check(held).map_err(|wrong| {
                let at = if wrong.of_limits { place } else { at };
                self.wrong(at, &format!("route {name:?}: {}", wrong.why))
            })?;
            if into.iter().any(|known| known.name == route.name && known.direction == route.direction) {
                return Err(
                    self.wrong(at, &format!("route {name:?} is there twice: give one another `name`"))
                );
            }
            if into.iter().any(|known| known.comes_back_by(&route)) {
                let why = "its topic passes the other way too, and each message would come back for ever: leave one of the routes out";
                return Err(self.wrong(at, &format!("route {name:?}: {why}")));
            }
            let disturbs = |known: &Route| known.is_disturbed_by(&route) || route.is_disturbed_by(known);
            if route.measures_itself() || into.iter().any(disturbs) {
                let why = "its topic moves the robot, or tells where it is, by another route too: nothing else passes to such a topic";
                return Err(self.wrong(at, &format!("route {name:?}: {why}")));
            }
            into.push(route);
        }
        if let Some((name, value)) = limits.first_key_value() {
            let why = format!("limits.{name:?} belong to no route of this file: name one so");
            return Err(self.wrong(value.span().start, &why));
        }
        Ok(())
    }
}

impl Config {
    /// # Errors
    /// One line: the file, the line, what is wrong and what to do.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let source = Source::read(path)?;
        let mut file = source.parse()?;
        let mut routes = Vec::new();
        source.routes(&mut file, &mut routes)?;
        let beside = path.parent().unwrap_or(Path::new("")).to_owned();
        if let Some(others) = &file.routes {
            let others = beside.join(others);
            let other = Source::read(&others)?;
            let mut listed = other.parse()?;
            let has_more = listed.robot.is_some() || listed.operator.is_some() || listed.routes.is_some();
            if has_more
                || listed.domain.is_some()
                || listed.interfaces.is_some()
                || listed.router.is_some()
                || listed.peers.is_some()
                || listed.backend.is_some()
            {
                return Err(other.wrong(0, "a file of routes has [[route]] and [limits] alone"));
            }
            other.routes(&mut listed, &mut routes)?;
        }
        if routes.is_empty() {
            let why = "no topic passes: list each by [[route]], then `topic`, `type` and `direction`";
            return Err(source.wrong(0, why));
        }
        if routes.len() > MAX_ROUTES {
            return Err(source.wrong(0, &format!("{} routes are more than {MAX_ROUTES}", routes.len())));
        }
        // Files are named from the folder of this one.
        let end = match (file.robot, file.operator) {
            (Some(robot), None) => End::Robot(RobotSpec {
                stops: beside.join(&robot.stops),
                identity: beside.join(&robot.identity),
                ..robot
            }),
            (None, Some(operator)) => End::Operator(OperatorSpec {
                stops: operator.stops.as_ref().map(|file| beside.join(file)),
                identity: beside.join(&operator.identity),
                ..operator
            }),
            _ => {
                return Err(
                    source.wrong(0, "say which end this is: one of the tables [robot] and [operator]")
                );
            }
        };
        let backend = backend(file.backend.unwrap_or_default(), file.interfaces, file.router, file.peers)
            .map_err(|why| source.wrong(0, &why))?;
        let is_late = |route: &Route| route.qos.transient_local;
        if let (Backend::Zenoh { .. }, Some(route)) = (&backend, routes.iter().find(|route| is_late(route))) {
            let why =
                "`qos.durability` is volatile over zenoh: publish again what is for those who come later";
            return Err(source.wrong(0, &format!("route {:?}: {why}", route.name)));
        }
        if file.domain.is_some_and(|domain| domain > 232) {
            return Err(source.wrong(0, "`domain` is from 0 to 232"));
        }
        Ok(Self { domain: file.domain.unwrap_or(0), backend, end, routes })
    }
}

fn backend(
    name: BackendName,
    interfaces: Option<Vec<IpAddr>>,
    router: Option<String>,
    peers: Option<Peers>,
) -> Result<Backend, String> {
    match name {
        BackendName::Dds if router.is_some() || peers.is_some() => {
            Err("`router` and `peers` are of zenoh: say `backend = \"zenoh\"`".into())
        }
        BackendName::Dds => match interfaces {
            None => Ok(Backend::Dds(vec![IpAddr::from([127, 0, 0, 1])])),
            Some(interfaces) if !interfaces.is_empty() => Ok(Backend::Dds(interfaces)),
            Some(_) => Err(
                "`interfaces` is empty: list the addresses on which ROS 2 is spoken, such as \"127.0.0.1\""
                    .into(),
            ),
        },
        BackendName::Zenoh if interfaces.is_some() => {
            Err("`interfaces` are DDS's; zenoh is found by its `router`".into())
        }
        BackendName::Zenoh => {
            let router = router.unwrap_or_else(|| "tcp/127.0.0.1:7447".to_owned());
            let peers = peers.unwrap_or_default();
            if peers == Peers::Direct && !rmw_zenoh::is_local(&router) {
                return Err(format!(
                    "`peers = \"direct\"` is for programs of this host: its `router` is at a loopback address, and {router} is not"
                ));
            }
            Ok(Backend::Zenoh { router, peers })
        }
    }
}

#[cfg(test)]
mod tests;
