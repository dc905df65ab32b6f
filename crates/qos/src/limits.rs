//! The largest delay, jitter and loss with which a session still feels smooth.
//!
//! Delay is of *frames*: it includes packetisation and multiplexing. Jitter is the largest positive difference of
//! consecutive delays.
//!
//! | medium | delay | jitter | loss |
//! | --- | --- | --- | --- |
//! | haptic | 30 ms | 10 ms | 10 % |
//! | audio | 150 ms | 30 ms | 1 % |
//! | video | 400 ms | 30 ms | 1 % |
//!
//! Source: Gokhale, Nair, Chaudhuri, Fesl, *On QoS-Compliant Telehaptic Communication over Shared Networks*. That is the [`Profile`] where
//! nobody says otherwise; the others have another delay of haptics, and all else from this table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use taut_core::{Duration, Medium, Probability};

/// The limits of one medium.
///
/// ```
/// use taut_core::{Duration, Medium, Probability};
/// use taut_qos::limits::{Profile, check};
/// let haptic = Profile::default().limits(Medium::Haptic).expect("haptic has limits");
/// let verdict = check(haptic, Duration::from_millis(27), Duration::from_millis(12), Probability::NEVER);
/// assert!(verdict.delay_s.met && !verdict.jitter_s.met && !verdict.met());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The delay of every frame stays below this.
    pub delay: Duration,
    /// The largest positive difference of consecutive delays stays below this.
    pub jitter: Duration,
    /// The fraction of frames lost is at most this.
    pub loss: Probability,
}

/// Whose limits. A threshold of noticing is of force behind motion, a round trip: each way has half of it.
///
/// ```
/// use taut_core::Medium;
/// use taut_qos::limits::Profile;
/// let delay = |name: &str| name.parse::<Profile>().unwrap().limits(Medium::Haptic).unwrap().delay.to_string();
/// assert_eq!([delay("telehaptic"), delay("jnd_spring")], ["30ms", "18ms"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Profile {
    /// The table of [`limits`](self).
    #[default]
    Telehaptic,
    /// 3GPP TR 22.847, remote control of robots with high dynamics: 1 to 20 ms from end to end, of which this is the longest.
    Dynamic,
    /// 3GPP TR 22.847, stationary: 20 to 100 ms.
    Stationary,
    /// 15 ms: from here on delay was noticed at a damper. This and the next two: Rank, Shi, Müller, Hirche, *The Influence of Different
    /// Haptic Environments on Time Delay Discrimination in Force Feedback*, EuroHaptics 2010.
    NoticedDamper,
    /// 36 ms, at a spring.
    NoticedSpring,
    /// 72 ms, at a damped inertia.
    NoticedInertia,
}

impl Profile {
    /// Name, and delay of haptics one way, in milliseconds.
    const TABLE: [(Self, &'static str, f64); 6] = [
        (Self::Telehaptic, "telehaptic", 30.0),
        (Self::Dynamic, "tr22847_dynamic", 20.0),
        (Self::Stationary, "tr22847_stationary", 100.0),
        (Self::NoticedDamper, "jnd_damper", 15.0 / 2.0),
        (Self::NoticedSpring, "jnd_spring", 36.0 / 2.0),
        (Self::NoticedInertia, "jnd_inertia", 72.0 / 2.0),
    ];

    /// The names of all.
    pub const NAMES: [&'static str; Self::TABLE.len()] = {
        let mut names = [""; Self::TABLE.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::TABLE[at].1;
            at += 1;
        }
        names
    };

    /// Its name, as in a scenario: `"tr22847_dynamic"`.
    pub const fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// The limits of `medium`; `None` for data, which has none.
    pub fn limits(self, medium: Medium) -> Option<Limits> {
        let (delay_ms, jitter_ms, loss_percent) = match medium {
            Medium::Haptic => (Self::TABLE[self as usize].2, 10, 10),
            Medium::Audio => (150.0, 30, 1),
            Medium::Video => (400.0, 30, 1),
            Medium::Data => return None,
        };
        Some(Limits {
            delay: Duration::from_secs_f64(delay_ms / 1e3),
            jitter: Duration::from_millis(jitter_ms),
            loss: percent(loss_percent),
        })
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::TABLE.into_iter().find(|(_, name, _)| *name == text);
        let names = || Self::NAMES.join(", ");
        known.map(|known| known.0).ok_or_else(|| format!("`{text}` are no limits; there are {}", names()))
    }
}

impl TryFrom<String> for Profile {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Profile> for &'static str {
    fn from(profile: Profile) -> Self {
        profile.name()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Video that is seen with force, beyond what each needs by itself.
///
/// Source: Yuan, *Real-Time Synchronization of Multimedia Streams for Teleoperation*, TU Dresden, 2024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The jitter of force stays below this: stricter than the table of [`limits`](self).
    pub haptic_jitter: Duration,
    /// The latency of video stays below this.
    pub latency: Duration,
    /// Video comes less than this behind the force that it was sent with.
    pub behind: Duration,
    /// And less than this ahead of it.
    pub ahead: Duration,
}

impl Beside {
    /// 5 ms, 400 ms, 125 ms, 87 ms.
    pub const LIMITS: Self = Self {
        haptic_jitter: Duration::from_millis(5),
        latency: Duration::from_millis(400),
        behind: Duration::from_millis(125),
        ahead: Duration::from_millis(87),
    };
}

fn percent(whole: u32) -> Probability {
    Probability::from_fraction(f64::from(whole) / 100.0)
        .expect("a whole percentage up to 100 is a probability")
}

/// One value against its limit, in the unit that its place in [`Verdict`] names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What was measured or predicted.
    pub value: f64,
    /// What is allowed.
    pub limit: f64,
    /// Is it within the limit?
    pub met: bool,
    /// `limit − value`: negative by how much it is missed.
    pub margin: f64,
}

/// The three checks of one medium.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Largest delay, in seconds.
    pub delay_s: Check,
    /// Largest jitter, in seconds.
    pub jitter_s: Check,
    /// Loss, as a fraction in [0, 1].
    pub loss: Check,
}

impl Verdict {
    /// Are all three within their limits?
    pub fn met(&self) -> bool {
        self.delay_s.met && self.jitter_s.met && self.loss.met
    }
}

/// Holds what was measured or predicted against the limits. Delay and jitter must stay below theirs, as in (14); loss
/// may reach its own.
pub fn check(limits: Limits, delay_max: Duration, jitter_max: Duration, loss: Probability) -> Verdict {
    let below = |value: Duration, limit: Duration| {
        Check::new(value.as_secs_f64(), limit.as_secs_f64(), value < limit)
    };
    Verdict {
        delay_s: below(delay_max, limits.delay),
        jitter_s: below(jitter_max, limits.jitter),
        loss: Check::new(loss.as_fraction(), limits.loss.as_fraction(), loss <= limits.loss),
    }
}

impl Check {
    fn new(value: f64, limit: f64, met: bool) -> Self {
        Self { value, limit, met, margin: limit - value }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, name: &str, scale: f64, unit: &str) -> fmt::Result {
        let verdict = if self.met { "met" } else { "MISSED" };
        let [value, limit, margin] = [self.value, self.limit, self.margin].map(|x| x * scale);
        writeln!(f, "{name:<8}{value:>10.3} {unit:<2}  limit {limit:>7.3}  margin {margin:>+9.3}  {verdict}")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.delay_s.write(f, "delay", 1e3, "ms")?;
        self.jitter_s.write(f, "jitter", 1e3, "ms")?;
        self.loss.write(f, "loss", 1e2, "%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_papers() {
        let rows: Vec<String> = Medium::ALL
            .into_iter()
            .filter_map(|medium| Profile::default().limits(medium).map(|limits| (medium, limits)))
            .map(|(medium, l)| format!("{} {} {} {}", medium.name(), l.delay, l.jitter, l.loss))
            .collect();
        assert_eq!(rows, ["haptic 30ms 10ms 10%", "audio 150ms 30ms 1%", "video 400ms 30ms 1%"]);
    }

    #[test]
    fn a_profile_changes_the_delay_of_haptics_alone() {
        let delays = Profile::NAMES.map(|name| {
            let profile: Profile = name.parse().unwrap();
            assert_eq!(profile.name(), name);
            let [usual, limits] =
                [Profile::default(), profile].map(|it| Medium::ALL.map(|medium| it.limits(medium)));
            let (haptic, other) = (limits[0].unwrap(), &limits[1..]);
            assert_eq!(
                (other, Some(Limits { delay: usual[0].unwrap().delay, ..haptic })),
                (&usual[1..], usual[0])
            );
            haptic.delay.to_string()
        });
        assert_eq!(delays, ["30ms", "20ms", "100ms", "7.5ms", "18ms", "36ms"]);
    }

    #[test]
    fn delay_and_jitter_stay_below_and_loss_may_reach_its_limit() {
        let limits = Profile::default().limits(Medium::Haptic).unwrap();
        let at_limit = check(limits, limits.delay, limits.jitter, limits.loss);
        assert_eq!([at_limit.delay_s.met, at_limit.jitter_s.met, at_limit.loss.met], [false, false, true]);
        let nanosecond = Duration::from_nanos(1);
        assert!(check(limits, limits.delay - nanosecond, limits.jitter - nanosecond, limits.loss).met());
    }

    #[test]
    fn the_margin_says_by_how_much() {
        let limits = Profile::default().limits(Medium::Audio).unwrap();
        let verdict = check(limits, Duration::from_millis(100), Duration::from_millis(45), percent(3));
        assert!((verdict.delay_s.margin - 0.050).abs() < 1e-12);
        assert!((verdict.jitter_s.margin + 0.015).abs() < 1e-12);
        assert!((verdict.loss.margin + 0.02).abs() < 1e-12);
        assert!(verdict.to_string().contains("MISSED"), "{verdict}");
    }
}
