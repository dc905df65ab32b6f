//! Over which interfaces, which of them a message takes, and how far apart: for the commands with sessions.

use std::str::FromStr;

use clap::Args;
use serde_json::{Value, json};
use taut_core::{Duration, PathEstimate, PathId, Priority, Probability, Time};
use taut_io::session::{Endpoint, PathNote, PathSpec, StackSpec, TransportConfig, TransportKind};
use taut_io::{FloodChange, FloodNote, lines};
use taut_lab::scenario::{EtpSpec, MpquicSpec, MtipPolicy, MtipSpec, TransportSpec};
use taut_report::result::ChoicesResult;
use taut_transport::etp::GapChoice;
use taut_transport::mtip::{Adaptive, ChoiceReport, Clocks, MAX_PATHS, MtipConfig, Policy, Target};
use taut_transport::quic::PathUse;

use crate::host::shown;
use crate::streams::print;

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
    /// Policy deadline: the probability with which a message is to be in time [default: 99.85%]
    #[arg(long, value_name = "PROBABILITY")]
    target: Option<Probability>,
    /// Policy deadline: copies of a message; more are for what is rare [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    copies: Option<u8>,
    /// Policy adaptive: more duplicates than this share of the window, one path fewer [default: 50%]
    #[arg(long, value_name = "SHARE")]
    duplicate_threshold: Option<Probability>,
    /// Policy adaptive: more late or missing than this share of the window, one path more [default: 20%]
    #[arg(long, value_name = "SHARE")]
    late_threshold: Option<Probability>,
    /// Policies adaptive and best: what latency counts beside reliability when paths are ranked [default: 50%]
    #[arg(long, value_name = "SHARE")]
    latency_weight: Option<Probability>,
    /// Policy adaptive: messages that count [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    window: Option<u16>,
    /// Refuse what may be late, not only what certainly is: half of a round trip is in doubt (mtip; a proxy
    /// over any transport)
    #[arg(long)]
    strictly_in_time: bool,
    /// With --transport etp: how far apart this end's datagrams are at least, such as 4ms; or adaptive (default), as the path
    /// allows. Stops, and states of priority emergency, do not wait for it
    #[arg(long, value_name = "DURATION|adaptive")]
    gap: Option<GapChoice>,
}

/// A policy by its name.
#[derive(Clone, Copy, Debug)]
enum PathPolicy {
    /// A copy on each, whatever the transport.
    All,
    Mtip(Policy),
    FailOver,
}

impl PathPolicy {
    /// Unless another one is named.
    fn of_mtip() -> Self {
        Self::Mtip(Policy::Deadline(Target::default()))
    }
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
            Some(("fixed", path)) => number(path)
                .filter(|path| usize::from(*path) < MAX_PATHS)
                .map(|path| Self::Mtip(Policy::Fixed(PathId(path)))),
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
    /// Is what may be late to be refused?
    pub(crate) fn strictly_in_time(&self) -> bool {
        self.strictly_in_time
    }

    /// The transport of a session, which judges by no age but its own.
    pub(crate) fn of_session(
        &self,
        kind: TransportKind,
        deadline: Duration,
    ) -> Result<TransportConfig, String> {
        if self.strictly_in_time && kind != TransportKind::Mtip {
            return Err(format!(
                "--strictly-in-time does nothing here: it is for --transport mtip, not for {kind}"
            ));
        }
        self.transport(kind, deadline)
    }

    /// A transport with its settings; what has no deadline of its own is to arrive within `deadline`, if it can.
    pub(crate) fn transport(
        &self,
        kind: TransportKind,
        deadline: Duration,
    ) -> Result<TransportConfig, String> {
        use PathPolicy::{All, FailOver, Mtip};
        if deadline.is_zero() {
            return Err("a deadline of 0: everything would be worthless at once".to_owned());
        }
        if self.gap.is_some() && kind != TransportKind::Etp {
            return Err(format!("{kind} keeps no gap: --gap is for --transport etp, at both ends"));
        }
        let is_mtip = kind == TransportKind::Mtip;
        self.refuse_options_of_others(is_mtip.then(|| self.policy.unwrap_or_else(PathPolicy::of_mtip)))?;
        Ok(match (TransportConfig::from(kind), self.policy) {
            (TransportConfig::Stack(StackSpec::Mtip(config)), policy) => {
                let policy = match policy.unwrap_or_else(PathPolicy::of_mtip) {
                    All => Policy::All,
                    Mtip(policy) => policy,
                    FailOver => {
                        return Err("--policy fail-over is for mpquic; mtip has deadline".to_owned());
                    }
                };
                StackSpec::Mtip(self.mtip(config, policy, deadline)).into()
            }
            (TransportConfig::Stack(StackSpec::Mpquic(config)), policy) => StackSpec::Mpquic(match policy {
                None | Some(FailOver) => config.path_use(PathUse::FailOver),
                Some(All) => config.path_use(PathUse::Duplicate),
                Some(Mtip(_)) => {
                    return Err("mpquic has --policy fail-over and all; the others are for mtip".to_owned());
                }
            })
            .into(),
            (_, Some(_)) => {
                return Err(format!("{kind} uses one path at a time: --policy is for mtip and mpquic"));
            }
            (TransportConfig::Stack(StackSpec::Etp(config)), None) => {
                StackSpec::Etp(self.gap.map_or(config, |gap| config.gap(gap))).into()
            }
            (other, None) => other,
        })
    }

    /// The same, as a simulation has it; `None` where it has none.
    pub(crate) fn simulated(&self, kind: TransportKind) -> Option<TransportSpec> {
        Some(match TransportSpec::shipped(kind.name())? {
            TransportSpec::Etp(etp) => {
                let gap = match self.gap {
                    Some(GapChoice::Fixed(gap)) => Some(gap),
                    Some(GapChoice::Adaptive) | None => None,
                };
                TransportSpec::Etp(EtpSpec { gap, ..etp })
            }
            TransportSpec::Mtip(mtip) => TransportSpec::Mtip(MtipSpec {
                policy: match self.policy {
                    Some(PathPolicy::All | PathPolicy::Mtip(Policy::All)) => MtipPolicy::All,
                    Some(PathPolicy::Mtip(Policy::Adaptive(_))) => MtipPolicy::Adaptive,
                    Some(PathPolicy::Mtip(Policy::Best(count))) => MtipPolicy::Best(count),
                    Some(PathPolicy::Mtip(Policy::Fixed(PathId(path)))) => MtipPolicy::Fixed(path),
                    _ => MtipPolicy::Deadline,
                },
                clocks: if self.strictly_in_time { Clocks::Strict } else { Clocks::Estimated },
                target: self.target.unwrap_or(mtip.target),
                copies: self.copies.unwrap_or(mtip.copies),
                duplicate_threshold: self.duplicate_threshold.unwrap_or(mtip.duplicate_threshold),
                late_threshold: self.late_threshold.unwrap_or(mtip.late_threshold),
                latency_weight: self.latency_weight.unwrap_or(mtip.latency_weight),
                window: self.window.map_or(mtip.window, Into::into),
                ..mtip
            }),
            TransportSpec::Mpquic(mpquic) => {
                let all = matches!(self.policy, Some(PathPolicy::All));
                let paths = if all { PathUse::Duplicate } else { PathUse::FailOver };
                TransportSpec::Mpquic(MpquicSpec { paths, ..mpquic })
            }
            other => other,
        })
    }

    /// What is of another policy than mtip's, or of another transport, would do nothing.
    fn refuse_options_of_others(&self, policy: Option<PathPolicy>) -> Result<(), String> {
        let (deadline, adaptive, best) = match policy {
            Some(PathPolicy::Mtip(policy)) => (
                matches!(policy, Policy::Deadline(_)),
                matches!(policy, Policy::Adaptive(_)),
                matches!(policy, Policy::Best(_)),
            ),
            _ => (false, false, false),
        };
        let options = [
            ("--target", self.target.is_some(), deadline, "deadline"),
            ("--copies", self.copies.is_some(), deadline, "deadline"),
            ("--duplicate-threshold", self.duplicate_threshold.is_some(), adaptive, "adaptive"),
            ("--late-threshold", self.late_threshold.is_some(), adaptive, "adaptive"),
            ("--window", self.window.is_some(), adaptive, "adaptive"),
            ("--latency-weight", self.latency_weight.is_some(), adaptive || best, "adaptive or best:N"),
        ];
        match options.iter().find(|(_, is_given, is_used, _)| *is_given && !is_used) {
            None => Ok(()),
            Some((option, .., of)) => {
                Err(format!("{option} does nothing here: it is for --transport mtip with --policy {of}"))
            }
        }
    }

    fn mtip(&self, config: MtipConfig, policy: Policy, deadline: Duration) -> MtipConfig {
        let share = |given: Option<Probability>, default| given.map_or(default, Probability::as_fraction);
        let policy = match policy {
            Policy::Deadline(target) => Policy::Deadline(Target {
                probability: share(self.target, target.probability),
                copies: self.copies.unwrap_or(target.copies),
            }),
            Policy::Adaptive(adaptive) => Policy::Adaptive(Adaptive {
                duplicate_threshold: share(self.duplicate_threshold, adaptive.duplicate_threshold),
                // As in scenarios: what its authors used on two of three links.
                late_threshold: share(self.late_threshold, 0.2),
                window: self.window.map_or(adaptive.window, Into::into),
            }),
            policy => policy,
        };
        let clocks = if self.strictly_in_time { Clocks::Strict } else { Clocks::Estimated };
        let config = config.policy(policy).latency_weight(share(self.latency_weight, 0.5)).clocks(clocks);
        config.deadline(deadline).emergency(Priority(0))
    }

    /// The endpoint, bound to the paths.
    pub(crate) fn over(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        // Without --path who connects has one, and who listens those over which its peer comes.
        let count = if self.path.is_empty() && endpoint.remote().is_none() {
            MAX_PATHS
        } else {
            self.path.len().max(1)
        };
        if let Some(PathPolicy::Mtip(Policy::Fixed(PathId(path)))) = self.policy
            && usize::from(path) >= count
        {
            let needed = path + 1;
            return Err(format!("--policy fixed:{path} needs {needed} --path, which are counted from 0"));
        }
        endpoint.over(&self.path).map_err(|error| error.to_string())
    }
}

/// What came or went is said on standard error, where nobody who reads results expects it, and as a line of JSON.
pub(crate) fn tell(at: Time, note: &PathNote, json: bool) {
    crate::say(&note.to_string());
    if json {
        print(&shown(at, lines::of_path(note)));
    }
}

/// What strangers do to a socket. That they go on with it is for counts alone.
pub(crate) fn tell_flood(at: Time, note: &FloodNote, json: bool) {
    if note.change != FloodChange::GoesOn {
        crate::say(&note.to_string());
    }
    if json {
        print(&shown(at, lines::of_flood(note)));
    }
}

/// How messages were spread over paths, and what is known of them: for JSON Lines.
pub(crate) fn choices_as_json(report: &ChoiceReport) -> Value {
    let ms = |delay: Option<Duration>| delay.map(Duration::as_millis_f64);
    let path = |path: &PathEstimate| {
        json!({
            "path": path.path.0,
            "up": path.up,
            "loss": path.loss,
            "in_time": path.in_time,
            "one_way_p50_ms": ms(path.one_way_p50),
            "one_way_p99_ms": ms(path.one_way_p99),
            "round_trip_p99_ms": ms(path.round_trip_p99),
        })
    };
    let stats = ChoicesResult::from(report.stats);
    json!({
        "at_once": stats.at_once,
        "reasons": stats.reasons,
        "margin_ms": stats.margin_ms,
        "target": report.target,
        "deadline_ms": report.deadline.as_millis_f64(),
        "paths": report.paths.iter().map(path).collect::<Vec<_>>(),
    })
}

/// In words: `12 on one path, 3 on 2; 2 copies more on silence`. `None`: nothing was sent.
pub(crate) fn choices_in_words(report: &ChoiceReport) -> Option<String> {
    let choices = ChoicesResult::from(report.stats);
    (!choices.at_once.is_empty()).then(|| choices.in_words())
}
