//! What somebody says of a network, and wants of a session over it.

use serde::Deserialize;
use taut_core::{Bitrate, Bytes, Duration, Probability};
use taut_qos::limits::Profile;
use taut_qos::touch::Thing;

use super::{Need, Os, Security};
use crate::evidence::Condition;

/// Where nobody says what the rate is: more than any session here sends.
const ASSUMED_RATE: Bitrate = Bitrate::from_bps(10_000_000);

/// The same over several networks: what the video leaves there, in what was measured.
const ASSUMED_OVER_PATHS: Bitrate = Bitrate::from_bps(15_000_000);

/// A network, and wishes. What is left out is not asked for, or usual.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// Force comes back: delay, jitter and loss hold both ways.
    pub haptic: bool,
    /// Round trip of the network when it is idle.
    pub rtt: Option<Duration>,
    /// One way instead, where the two differ: the longer.
    pub one_way: Option<Duration>,
    /// Packets lost, less than half.
    pub loss: Probability,
    /// How many are lost one after the other, in the mean. Default: 1.
    pub burst: Option<f64>,
    /// Standard deviation of the delay.
    pub jitter: Duration,
    /// What the narrowest link has to spare for the session. Default: 10 Mbit/s, over several networks 15.
    pub rate: Option<Bitrate>,
    /// Video goes beside the session: 2 Mbit/s from the robot.
    pub video: bool,
    /// Whose limits budgets and tolerance are taken from where they are not given. Default: those of the source.
    pub limits: Option<Profile>,
    /// By when 99 of 100 must be there, one way. Default: 30 ms.
    pub budget: Option<Duration>,
    /// The most by which 99 of 100 consecutive delays may differ. Default: 10 ms.
    pub jitter_budget: Option<Duration>,
    /// What may be lost of the states. Default: 10 %.
    pub tolerate: Option<Probability>,
    /// Every state must arrive.
    pub reliable: bool,
    /// What the transport may take of one core at either end.
    pub cpu: Option<Probability>,
    /// What it may take of memory at either end.
    pub memory: Option<Bytes>,
    /// How it must be protected.
    pub security: Security,
    /// There is a NAT in between, or an address that changes.
    pub nat: bool,
    /// Where both ends run.
    pub os: Os,
    /// The arm touches this, and it has to be calm in the operator's hand.
    pub touch: Option<Thing>,
    /// Networks to be used at once, 1 to 8. Default: one.
    pub paths: Option<u32>,
}

impl Question {
    /// What is needed, in numbers. `name` writes an option as who asks knows it: `"jitter_budget"` becomes `"--jitter-budget"`.
    ///
    /// # Errors
    /// What is missing, out of range or without effect.
    pub fn need(&self, name: impl Fn(&str) -> String) -> Result<Need, String> {
        let burst = self.burst.unwrap_or(1.0);
        if !(1.0..=10_000.0).contains(&burst) {
            return Err(format!("{} is 1 (each by itself) to 10000 packets", name("burst")));
        }
        if self.loss.as_fraction() >= 0.5 {
            let share = 100.0 * self.loss.as_fraction();
            return Err(format!("{share} % is more than a session lives with, less than 50%"));
        }
        for (both, one, other) in [
            (self.rtt.is_some() && self.one_way.is_some(), "rtt", "one_way"),
            (self.reliable && self.tolerate.is_some(), "reliable", "tolerate"),
        ] {
            if both {
                return Err(format!("{} and {} are both given: one of them", name(one), name(other)));
            }
        }
        let paths = self.paths.unwrap_or(1);
        if !(1..=8).contains(&paths) {
            return Err(format!("{} is 1 to 8", name("paths")));
        }
        if paths > 1 {
            self.without_effect(name)?;
        } else if self.rtt.is_none() && self.one_way.is_none() {
            return Err(format!("{} is missing, or {}", name("rtt"), name("one_way")));
        }
        let one_way_ms = match (self.one_way, self.rtt) {
            (Some(one_way), _) => one_way.as_millis_f64(),
            (None, rtt) => rtt.unwrap_or_default().as_millis_f64() / 2.0,
        };
        let assumed = if paths > 1 { ASSUMED_OVER_PATHS } else { ASSUMED_RATE };
        let network = Condition {
            // Parts per thousand million: 7 %, not 7.000000000000001.
            loss_percent: (self.loss.as_fraction() * 1e9).round() / 1e7,
            burst,
            one_way_ms,
            jitter_ms: self.jitter.as_millis_f64(),
            rate_mbit: self.rate.unwrap_or(assumed).as_bps() as f64 / 1e6,
            video: self.video,
        };
        Ok(self.wishes(Need::within(self.limits.unwrap_or_default(), network), paths))
    }

    fn wishes(&self, limits: Need, paths: u32) -> Need {
        let tolerated = self.tolerate.map_or(limits.lost_percent, |share| share.as_fraction() * 100.0);
        Need {
            // What is felt comes back.
            haptic: self.haptic || self.touch.is_some(),
            budget_ms: self.budget.map_or(limits.budget_ms, Duration::as_millis_f64),
            jitter_ms: self.jitter_budget.map_or(limits.jitter_ms, Duration::as_millis_f64),
            lost_percent: if self.reliable { 0.0 } else { tolerated },
            security: self.security,
            nat: self.nat,
            os: self.os,
            paths,
            touch: self.touch,
            cpu_percent: self.cpu.map(|share| share.as_fraction() * 100.0),
            memory_kb: self.memory.map(|bytes| bytes.get() as f64 / 1e3),
            ..limits
        }
    }

    /// Over several networks the evidence is of commands in time, and of nothing else.
    fn without_effect(&self, name: impl Fn(&str) -> String) -> Result<(), String> {
        let os = match self.os {
            Os::Linux => None,
            Os::Macos => Some("macos"),
            Os::Windows => Some("windows"),
        };
        if let Some(os) = os {
            return Err(format!(
                "{} {os} and {}: several networks are used by taut's own driver alone, which needs Linux 5.11 or newer on both ends; \
                 without {0} this says what there would be",
                name("os"),
                name("paths")
            ));
        }
        let given = [
            ("burst", self.burst.is_some()),
            ("video", self.video),
            ("jitter_budget", self.jitter_budget.is_some()),
            ("tolerate", self.tolerate.is_some()),
            ("reliable", self.reliable),
            ("cpu", self.cpu.is_some()),
            ("memory", self.memory.is_some()),
            ("nat", self.nat),
            ("touch", self.touch.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Self::no_effect(&name(option), &name("paths"))),
            None => Ok(()),
        }
    }

    /// Why `option` is not taken with several networks.
    pub fn no_effect(option: &str, paths: &str) -> String {
        format!(
            "{option} has no effect with {paths}: over several networks 99 of 100 commands in time is all that was measured"
        )
    }
}
