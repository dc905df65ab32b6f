//! Over which interfaces, and which of them a message takes: for the commands with sessions.

use std::str::FromStr;

use clap::Args;
use taut_core::{Duration, PathId, Priority};
use taut_io::session::{Endpoint, PathNote, PathSpec, TransportConfig, TransportKind};
use taut_transport::mpquic::PathUse;
use taut_transport::mtip::{Adaptive, MAX_PATHS, Policy, Target};

#[derive(Args, Clone, Debug)]
pub(crate) struct Paths {
    /// Go over this interface or from this address of ours, such as wwan0. Repeatable with --transport mtip and mpquic: a path
    /// each; one that is not there or not up is waited for
    #[arg(long, value_name = "INTERFACE|ADDRESS")]
    path: Vec<PathSpec>,
    /// Which paths a message takes. mtip: deadline (default), the fewest that are in time; all; adaptive, one more or fewer by
    /// the recent past; best:N; fixed:N, counted from 0. mpquic: fail-over (default), the next when one falls silent; all
    #[arg(long)]
    policy: Option<PathPolicy>,
}

/// A policy by its name.
#[derive(Clone, Copy, Debug)]
enum PathPolicy {
    /// A copy on each, whatever the transport.
    All,
    Mtip(Policy),
    FailOver,
}

impl FromStr for PathPolicy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u8>().ok().filter(|number| usize::from(*number) <= MAX_PATHS);
        let policy = match text.split_once(':') {
            None if text == "deadline" => Some(Self::Mtip(Policy::Deadline(Target::default()))),
            None if text == "all" => Some(Self::All),
            None if text == "adaptive" => Some(Self::Mtip(Policy::Adaptive(Adaptive::default()))),
            None if text == "fail-over" => Some(Self::FailOver),
            Some(("best", count)) => {
                number(count).filter(|count| *count > 0).map(|count| Self::Mtip(Policy::Best(count)))
            }
            Some(("fixed", path)) => number(path).map(|path| Self::Mtip(Policy::Fixed(PathId(path)))),
            _ => None,
        };
        let wrong = || {
            format!(
                "`{text}` is not a policy; there are deadline, all, adaptive, best:N, fixed:N (mtip), fail-over, all \
                 (mpquic)"
            )
        };
        policy.ok_or_else(wrong)
    }
}

impl Paths {
    /// A transport with its settings; what is older than `deadline` and says nothing else is worthless.
    pub(crate) fn transport(
        &self,
        kind: TransportKind,
        deadline: Duration,
    ) -> Result<TransportConfig, String> {
        use PathPolicy::{All, FailOver, Mtip};
        Ok(match (TransportConfig::from(kind), self.policy) {
            (TransportConfig::Mtip(config), policy) => {
                let policy = match policy {
                    None => Policy::Deadline(Target::default()),
                    Some(All) => Policy::All,
                    Some(Mtip(policy)) => policy,
                    Some(FailOver) => {
                        return Err("--policy fail-over is for mpquic; mtip has deadline".to_owned());
                    }
                };
                TransportConfig::Mtip(config.policy(policy).deadline(deadline).emergency(Priority(0)))
            }
            (TransportConfig::Mpquic(config), policy) => TransportConfig::Mpquic(match policy {
                None | Some(FailOver) => config.path_use(PathUse::FailOver),
                Some(All) => config.path_use(PathUse::Duplicate),
                Some(Mtip(_)) => {
                    return Err("mpquic has --policy fail-over and all; the others are for mtip".to_owned());
                }
            }),
            (_, Some(_)) => {
                return Err(format!("{kind} uses one path at a time: --policy is for mtip and mpquic"));
            }
            (other, None) => other,
        })
    }

    /// The endpoint, bound to the paths.
    pub(crate) fn over(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        endpoint.over(&self.path).map_err(|error| error.to_string())
    }
}

/// What is missing is said on standard error: nobody who reads results expects it there.
pub(crate) fn warn(note: &PathNote) {
    eprintln!("taut: {note}");
}

/// For JSON Lines.
pub(crate) fn as_json(note: &PathNote) -> (&'static str, Vec<(&'static str, serde_json::Value)>) {
    let event = if note.missing.is_none() { "path_there" } else { "path_missing" };
    let mut more = vec![("path", note.path.0.into()), ("at", note.spec.to_string().into())];
    more.extend(note.missing.as_ref().map(|why| ("why", why.to_string().into())));
    (event, more)
}
