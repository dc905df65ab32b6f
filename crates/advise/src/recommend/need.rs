//! What a user has and what he needs.

use serde::{Deserialize, Serialize};
use taut_core::Medium;
use taut_qos::limits::Profile;
use taut_qos::touch::Thing;

use crate::evidence::Condition;

/// A network, and what must be met over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The network.
    pub network: Condition,
    /// Force comes back: what is asked of states is asked of feedback too.
    pub haptic: bool,
    /// The 99th percentile of the delay, one way, is at most this, in milliseconds.
    pub budget_ms: f64,
    /// The 99th percentile of the differences of consecutive delays is at most this, in milliseconds.
    pub jitter_ms: f64,
    /// At most so many may be missing, per cent. 0: every state must arrive.
    pub lost_percent: f64,
    /// How the session must be protected.
    pub security: Security,
    /// A network address translator, or an address that changes, is in between.
    pub nat: bool,
    /// Where both ends run.
    pub os: Os,
    /// What is touched, and has to be calm in the operator's hand; absent: nothing has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touch: Option<Thing>,
    /// Networks that the session must be able to use at once.
    pub paths: u32,
    /// What the transport may take of one core at either end, per cent; absent: whatever it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// What it may take of the memory of either end, in kilobytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_kb: Option<f64>,
}

/// How a session must be protected. Nothing that taut ships goes in plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Security {
    /// Authenticated and encrypted, by whatever.
    #[default]
    Any,
    /// TLS 1.3.
    Tls,
    /// Noise.
    Noise,
}

/// Operating systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Os {
    /// Linux 5.11 or newer.
    #[default]
    Linux,
    /// macOS.
    Macos,
    /// Windows.
    Windows,
}

impl Need {
    /// The limits of haptics (Gokhale et al., see [`taut_qos::limits`]) over this network, without further wishes.
    ///
    /// ```
    /// use taut_advise::evidence::Condition;
    /// use taut_advise::recommend::Need;
    /// let network = Condition {
    ///     loss_percent: 1.0,
    ///     burst: 1.0,
    ///     one_way_ms: 20.0,
    ///     jitter_ms: 0.0,
    ///     rate_mbit: 10.0,
    ///     video: false,
    /// };
    /// let need = Need::haptic(network);
    /// assert_eq!((need.budget_ms, need.jitter_ms, need.lost_percent), (30.0, 10.0, 10.0));
    /// ```
    pub fn haptic(network: Condition) -> Self {
        Self::within(Profile::default(), network)
    }

    /// The same by the limits of this profile.
    pub fn within(profile: Profile, network: Condition) -> Self {
        let limits = profile.limits(Medium::Haptic).expect("haptics have limits");
        Self {
            network,
            haptic: true,
            budget_ms: limits.delay.as_millis_f64(),
            jitter_ms: limits.jitter.as_millis_f64(),
            lost_percent: limits.loss.as_fraction() * 100.0,
            security: Security::Any,
            nat: false,
            os: Os::Linux,
            touch: None,
            paths: 1,
            cpu_percent: None,
            memory_kb: None,
        }
    }
}
