//! Which samples are worth sending.
//!
//! The deadband sampler sends what a person can feel: a change beyond Weber's law. Sources: Hinterseer, Hirche, Chaudhuri,
//! Steinbach, Buss, *Perception-Based Data Reduction and Transmission of Haptic Data in Telepresence and Teleaction
//! Systems*, IEEE Trans. Signal Processing 56(2), 2008 (the deadband over a vector); Kammerl, Vittorias, Nitsch, Faerber,
//! Steinbach, Hirche, *Perception-Based Data Reduction for Haptic Force-Feedback Signals Using Velocity-Adaptive Deadbands*,
//! Presence 19(5), 2010 (a faster hand feels less).

use taut_core::{Duration, Time};

/// Decides, sample by sample, what is sent and what is withheld.
///
/// A withheld sample is not a loss: the receiver holds the last one.
///
/// ```
/// use taut_core::{Duration, Time};
/// use taut_media::{DeadbandConfig, Decision, Reason, Sampler};
/// let mut sampler = Sampler::deadband(DeadbandConfig::new());
/// let ms = |n| Time::ZERO + Duration::from_millis(n);
/// assert_eq!(sampler.offer(ms(0), &[1.0, 0.0])?, Decision::Send { reason: Reason::First });
/// assert_eq!(sampler.offer(ms(1), &[1.05, 0.0])?, Decision::Withhold);
/// assert_eq!(sampler.offer(ms(2), &[1.1, 0.05])?, Decision::Send { reason: Reason::Change });
/// # Ok::<(), taut_media::SamplerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    /// `None`: every sample goes.
    deadband: Option<DeadbandConfig>,
    last_sent: Vec<f64>,
    last_sent_at: Time,
    /// The sample before, for the speed; kept only when the deadband is adaptive.
    previous: Vec<f64>,
    previous_at: Time,
}

/// How a deadband sampler decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeadbandConfig {
    k: f64,
    floor: f64,
    speed_gain: f64,
    k_max: f64,
    keep_alive: Duration,
}

/// What to do with a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it.
    Send {
        /// Why.
        reason: Reason,
    },
    /// The receiver need not know.
    Withhold,
}

impl Decision {
    /// Is it sent?
    pub const fn is_send(self) -> bool {
        matches!(self, Self::Send { .. })
    }
}

/// Why a sample is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This sampler sends every sample.
    Every,
    /// Nothing was sent before.
    First,
    /// It differs from the last one sent by more than the deadband.
    Change,
    /// Nothing was sent for the keep-alive period.
    KeepAlive,
}

/// Why a sample cannot be judged. The sampler's state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplerError {
    /// A value or the speed is infinite or not a number.
    #[error("value {index} is not finite")]
    NotFinite {
        /// Which value; one past the end for the speed.
        index: usize,
    },
    /// No values, or another number of them than before.
    #[error("a sample of {got} values; {expected} were expected")]
    Dimensions {
        /// As many as the first sample had; 1 when there was none.
        expected: usize,
        /// As many came.
        got: usize,
    },
}

impl Default for DeadbandConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl DeadbandConfig {
    /// Weber fraction 0.1, floor 0.001, not adaptive to speed, keep-alive every 100 ms.
    pub const fn new() -> Self {
        Self { k: 0.1, floor: 1e-3, speed_gain: 0.0, k_max: 1.0, keep_alive: Duration::from_millis(100) }
    }

    /// The Weber fraction, from 0 (every change is sent). Default 0.1; 0.05 to 0.15 in use.
    pub const fn k(mut self, k: f64) -> Self {
        self.k = k;
        self
    }

    /// The smallest change that counts, in the signal's unit, from 0. Default 0.001. Near zero the Weber fraction alone
    /// would send every flicker.
    pub const fn floor(mut self, floor: f64) -> Self {
        self.floor = floor;
        self
    }

    /// By how much the Weber fraction grows per unit of speed, from 0. Default 0: not adaptive (Kammerl 2010, α in
    /// Δ = (p + α|ẋ|)·|h|).
    pub const fn speed_gain(mut self, gain: f64) -> Self {
        self.speed_gain = gain;
        self
    }

    /// What the Weber fraction never grows beyond with speed. Default 1.
    pub const fn k_max(mut self, k_max: f64) -> Self {
        self.k_max = k_max;
        self
    }

    /// The longest silence; [`Duration::MAX`] for no keep-alive. Default 100 ms. A receiver takes more than two of these
    /// without a sample for a loss.
    pub const fn keep_alive(mut self, period: Duration) -> Self {
        self.keep_alive = period;
        self
    }

    /// The change that is felt at this magnitude of the signal, at this speed.
    fn threshold(&self, magnitude: f64, speed: f64) -> f64 {
        let adapted = (self.k + self.speed_gain * speed).min(self.k_max).max(self.k);
        (adapted * magnitude).max(self.floor)
    }
}

impl Sampler {
    /// Sends every sample.
    pub const fn every() -> Self {
        Self::with(None)
    }

    /// Sends what differs enough from the last sample sent.
    pub const fn deadband(config: DeadbandConfig) -> Self {
        Self::with(Some(config))
    }

    const fn with(deadband: Option<DeadbandConfig>) -> Self {
        let (last_sent_at, previous_at) = (Time::ZERO, Time::ZERO);
        Self { deadband, last_sent: Vec::new(), last_sent_at, previous: Vec::new(), previous_at }
    }

    /// Judges a sample, made now, one value per degree of freedom. An adaptive deadband takes the speed from the signal
    /// itself: right for positions; for forces [`judge`](Self::judge) is told it.
    ///
    /// # Errors
    /// See [`SamplerError`].
    pub fn offer(&mut self, now: Time, values: &[f64]) -> Result<Decision, SamplerError> {
        let decision = self.judge(now, values, None)?;
        self.made(now, values, decision.is_send());
        Ok(decision)
    }

    /// What [`offer`](Self::offer) would say, or what is right while the hand moves at `speed` (the unit that [`DeadbandConfig::speed_gain`] is
    /// per): for forces, and for who sends several signals together, when any of them is worth it. [`made`](Self::made) follows.
    ///
    /// # Errors
    /// See [`SamplerError`].
    pub fn judge(&self, now: Time, values: &[f64], speed: Option<f64>) -> Result<Decision, SamplerError> {
        let elapsed = now.saturating_since(self.previous_at);
        let known = self.previous.len() == values.len() && !elapsed.is_zero();
        let own = if known { distance(values, &self.previous) / elapsed.as_secs_f64() } else { 0.0 };
        // Values that are not finite give a speed that is not; blame the values.
        let speed = speed.unwrap_or(if own.is_finite() { own } else { 0.0 });
        self.check(values, speed)?;
        Ok(self.decide(now, values, speed.abs()))
    }

    /// A sample of which all values are finite was made now, and is sent or not.
    pub fn made(&mut self, now: Time, values: &[f64], sent: bool) {
        if sent {
            self.last_sent.clear();
            self.last_sent.extend_from_slice(values);
            self.last_sent_at = now;
        }
        if self.deadband.is_some_and(|config| config.speed_gain > 0.0) {
            self.previous.clear();
            self.previous.extend_from_slice(values);
            self.previous_at = now;
        }
    }

    fn check(&self, values: &[f64], speed: f64) -> Result<(), SamplerError> {
        let expected = if self.last_sent.is_empty() { values.len().max(1) } else { self.last_sent.len() };
        if values.len() != expected {
            return Err(SamplerError::Dimensions { expected, got: values.len() });
        }
        match values.iter().chain([&speed]).position(|value| !value.is_finite()) {
            Some(index) => Err(SamplerError::NotFinite { index }),
            None => Ok(()),
        }
    }

    fn decide(&self, now: Time, values: &[f64], speed: f64) -> Decision {
        let Some(config) = self.deadband else { return Decision::Send { reason: Reason::Every } };
        if self.last_sent.is_empty() {
            return Decision::Send { reason: Reason::First };
        }
        let change = distance(values, &self.last_sent);
        if change > 0.0 && change >= config.threshold(norm(&self.last_sent), speed) {
            return Decision::Send { reason: Reason::Change };
        }
        if now.saturating_since(self.last_sent_at) >= config.keep_alive {
            return Decision::Send { reason: Reason::KeepAlive };
        }
        Decision::Withhold
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Samples sent of ten seconds of a force that swings slowly, at 1 kHz.
    fn sent_of_swing(config: DeadbandConfig, speed: f64) -> usize {
        let mut sampler = Sampler::deadband(config);
        (0..10_000)
            .filter(|&i| {
                let angle = f64::from(i) * 0.004;
                let force = [2.0 * libm::sin(angle), 1.0 + libm::cos(angle * 0.7)];
                let sent = sampler.judge(at(i as u64), &force, Some(speed)).unwrap().is_send();
                sampler.made(at(i as u64), &force, sent);
                sent
            })
            .count()
    }

    #[test]
    fn mean_rate_falls_as_the_weber_fraction_grows() {
        let quiet = DeadbandConfig::new().keep_alive(Duration::MAX);
        let sent = [0.05, 0.1, 0.15].map(|k| sent_of_swing(quiet.k(k), 0.0));
        assert!(sent[0] > sent[1] && sent[1] > sent[2], "{sent:?}");
        assert!(sent[1] < 2_000, "the source finds a reduction by 80 % and more: {sent:?}");
        assert_eq!(sent_of_swing(quiet.k(0.0).floor(0.0), 0.0), 10_000);
    }

    #[test]
    fn a_faster_hand_is_sent_less() {
        let adaptive = DeadbandConfig::new().speed_gain(0.5);
        assert!(sent_of_swing(adaptive, 0.2) < sent_of_swing(adaptive, 0.0));
        assert_eq!(sent_of_swing(DeadbandConfig::new(), 0.2), sent_of_swing(DeadbandConfig::new(), 0.0));
    }

    #[test]
    fn speed_is_taken_from_the_signal_when_none_is_given() {
        let config = DeadbandConfig::new().speed_gain(1.0).k_max(10.0);
        let mut sampler = Sampler::deadband(config);
        assert!(sampler.offer(at(0), &[1.0]).unwrap().is_send());
        // 0.2 in 100 ms is a speed of 2 and a threshold of 2.1: far beyond the change.
        assert_eq!(sampler.offer(at(99), &[1.2]), Ok(Decision::Withhold));
        assert_eq!(Sampler::every().offer(at(0), &[1.2]), Ok(Decision::Send { reason: Reason::Every }));
    }

    #[test]
    fn the_threshold_is_of_the_vector_not_of_its_axes() {
        let mut sampler = Sampler::deadband(DeadbandConfig::new());
        sampler.offer(at(0), &[10.0, 0.1]).unwrap();
        assert_eq!(
            sampler.offer(at(1), &[10.0, 0.5]),
            Ok(Decision::Withhold),
            "four times one axis, 4 % of the vector"
        );
        assert!(sampler.offer(at(2), &[10.0, 1.2]).unwrap().is_send());
    }

    #[test]
    fn near_zero_the_floor_decides() {
        let mut sampler = Sampler::deadband(DeadbandConfig::new().floor(0.01));
        sampler.offer(at(0), &[0.0]).unwrap();
        assert_eq!(sampler.offer(at(1), &[0.009]), Ok(Decision::Withhold));
        assert_eq!(sampler.offer(at(2), &[0.01]), Ok(Decision::Send { reason: Reason::Change }));
    }

    #[test]
    fn silence_is_broken_by_the_keep_alive() {
        let mut sampler = Sampler::deadband(DeadbandConfig::new().keep_alive(Duration::from_millis(10)));
        let sent: Vec<u64> = (0..35).filter(|&i| sampler.offer(at(i), &[3.0]).unwrap().is_send()).collect();
        assert_eq!(sent, [0, 10, 20, 30]);
    }

    #[test]
    fn what_is_no_number_is_refused_and_changes_nothing() {
        let mut sampler = Sampler::deadband(DeadbandConfig::new());
        assert_eq!(sampler.offer(at(0), &[]), Err(SamplerError::Dimensions { expected: 1, got: 0 }));
        sampler.offer(at(0), &[1.0, 2.0]).unwrap();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(sampler.offer(at(1), &[1.0, bad]), Err(SamplerError::NotFinite { index: 1 }));
            assert_eq!(
                sampler.judge(at(1), &[1.0, 2.0], Some(bad)),
                Err(SamplerError::NotFinite { index: 2 })
            );
        }
        assert_eq!(sampler.offer(at(1), &[1.0]), Err(SamplerError::Dimensions { expected: 2, got: 1 }));
        assert_eq!(sampler.offer(at(2), &[1.0, 2.0]), Ok(Decision::Withhold));
    }
}
