//! The rate that the delays allow (draft-ietf-rmcat-gcc-02 section 5.5).

use std::collections::VecDeque;

use taut_core::Bytes;

use super::arrival::Usage;

/// A hat, and what it is made of; bits per second and milliseconds.
#[derive(Clone, Debug)]
pub(super) struct DelayBased {
    state: State,
    rate: f64,
    received: Received,
    updated: Option<f64>,
    decreased: Option<f64>,
    /// What arrived when the link was over-used.
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Increase,
    Hold,
}

/// β
const DECREASE: f64 = 0.85;
/// η in a second.
const INCREASE: f64 = 1.08;
/// No more than this times what arrives.
const AHEAD: f64 = 1.5;

impl DelayBased {
    pub(super) fn new(rate: f64) -> Self {
        Self {
            state: State::Increase,
            rate,
            received: Received::default(),
            updated: None,
            decreased: None,
            limit: Limit::default(),
        }
    }

    /// A packet arrived at this time of the receiver's clock.
    pub(super) fn handle_arrival(&mut self, arrived: f64, size: Bytes) {
        self.received.push(arrived, size);
    }

    /// The rate is in effect, within the sender's bounds.
    pub(super) const fn set(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// The rate after a report.
    pub(super) fn update(&mut self, now: f64, usage: Usage, round_trip: f64) -> f64 {
        let elapsed = now - self.updated.replace(now).unwrap_or(now);
        let Some(received) = self.received.rate() else { return self.rate };
        match (usage, self.state) {
            (Usage::Over, _) => self.decrease(now, received, round_trip),
            (Usage::Under, _) => self.state = State::Hold,
            (Usage::Normal, State::Hold) => self.state = State::Increase,
            (Usage::Normal, State::Increase) => self.increase(elapsed, received, round_trip),
        }
        self.rate
    }

    /// Once in a response time: until then what was sent before still arrives.
    fn decrease(&mut self, now: f64, received: f64, round_trip: f64) {
        self.state = State::Hold;
        if self.decreased.is_some_and(|before| now - before < response(round_trip)) {
            return;
        }
        self.decreased = Some(now);
        if received < self.limit.least() {
            self.limit = Limit::default();
        }
        self.limit.update(received);
        self.rate = self.rate.min(DECREASE * received);
    }

    fn increase(&mut self, elapsed: f64, received: f64, round_trip: f64) {
        if received > self.limit.most() {
            self.limit = Limit::default();
        }
        let faster = if self.limit.is_known() {
            let share = (elapsed / response(round_trip)).min(1.0);
            self.rate + (0.5 * share * packet_bits(self.rate)).max(1_000.0)
        } else {
            self.rate * libm::pow(INCREASE, (elapsed / 1_000.0).min(1.0))
        };
        // Nothing is known of rates that nobody sends at; what was reached before is kept.
        self.rate = faster.min((AHEAD * received).max(self.rate));
    }
}

/// `response_time_ms`
fn response(round_trip: f64) -> f64 {
    100.0 + round_trip
}

/// `expected_packet_size_bits`, of a video of 30 frames a second.
fn packet_bits(rate: f64) -> f64 {
    let frame = rate / 30.0;
    frame / libm::ceil(frame / (1_200.0 * 8.0)).max(1.0)
}

/// R hat: what arrived in the last half second.
#[derive(Clone, Debug, Default)]
struct Received {
    packets: VecDeque<(f64, f64)>,
    bits: f64,
}

/// T
const WINDOW_MS: f64 = 500.0;

impl Received {
    /// Packets that are remembered at most.
    const MOST: usize = 16_384;

    fn push(&mut self, arrived: f64, size: Bytes) {
        self.packets.push_back((arrived, size.bits() as f64));
        self.bits += size.bits() as f64;
        while self.packets.len() > Self::MOST
            || self.packets.front().is_some_and(|(at, _)| *at <= arrived - WINDOW_MS)
        {
            self.bits -= self.packets.pop_front().map_or(0.0, |(_, bits)| bits);
        }
    }

    /// `None` before half a window has been seen.
    fn rate(&self) -> Option<f64> {
        let ((first, _), (last, _)) = (self.packets.front()?, self.packets.back()?);
        (last - first >= WINDOW_MS / 2.0).then(|| self.bits * 1_000.0 / WINDOW_MS)
    }
}

/// Mean and deviation of what arrived at over-use, smoothed exponentially: between the two, the rate is near to what the link
/// carries.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    mean: Option<f64>,
    /// Of its square, relative to the mean.
    variance: f64,
}

/// Of the newest in the mean.
const SMOOTHING: f64 = 0.05;

impl Limit {
    fn update(&mut self, received: f64) {
        let kbps = received / 1_000.0;
        let Some(mean) = self.mean else {
            *self = Self { mean: Some(kbps), variance: 0.4 };
            return;
        };
        let mean = mean + SMOOTHING * (kbps - mean);
        let error = (kbps - mean) * (kbps - mean) / mean.max(1.0);
        // As WebRTC bounds it (`link_capacity_estimator.cc`).
        let variance = ((1.0 - SMOOTHING) * self.variance + SMOOTHING * error).clamp(0.4, 2.5);
        *self = Self { mean: Some(mean), variance };
    }

    const fn is_known(&self) -> bool {
        self.mean.is_some()
    }

    fn spread(&self, mean: f64) -> f64 {
        3.0 * (self.variance * mean).sqrt()
    }

    fn least(&self) -> f64 {
        self.mean.map_or(0.0, |mean| (mean - self.spread(mean)) * 1_000.0)
    }

    fn most(&self) -> f64 {
        self.mean.map_or(f64::INFINITY, |mean| (mean + self.spread(mean)) * 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 1 Mbit/s arriving for a second.
    fn fed(rate: f64) -> DelayBased {
        let mut controller = DelayBased::new(rate);
        (0..100).for_each(|index| controller.handle_arrival(f64::from(index) * 10.0, Bytes::new(1_250)));
        controller.update(1_000.0, Usage::Normal, 50.0);
        controller
    }

    #[test]
    fn far_from_the_limit_it_grows_by_eight_per_cent_a_second_up_to_half_more_than_arrives() {
        let mut controller = fed(1e6);
        assert!((controller.update(2_000.0, Usage::Normal, 50.0) - 1.08e6).abs() < 1.0);
        assert!(
            (controller.update(2_100.0, Usage::Normal, 50.0) - 1.08e6 * libm::pow(1.08, 0.1)).abs() < 1.0
        );
        for step in 0..60 {
            controller.update(3_000.0 + 1_000.0 * f64::from(step), Usage::Normal, 50.0);
        }
        assert!((controller.rate - 1.5e6).abs() < 1.0, "{}", controller.rate);
    }

    #[test]
    fn over_use_takes_it_to_85_per_cent_of_what_arrives_once_in_a_response_time() {
        let mut controller = fed(1.2e6);
        assert!((controller.update(1_100.0, Usage::Over, 50.0) - 0.85e6).abs() < 1.0);
        controller.set(1e6);
        assert!((controller.update(1_200.0, Usage::Over, 50.0) - 1e6).abs() < 1.0, "too early");
        assert!((controller.update(1_260.0, Usage::Over, 50.0) - 0.85e6).abs() < 1.0);
    }

    /// 0.85 Mbit/s of 30 frames/s are 28.3 kbit a frame, 3 packets of 9.4 kbit; half of one in 150 ms.
    #[test]
    fn near_the_limit_it_grows_by_half_a_packet_in_a_response_time() {
        let mut controller = fed(1.2e6);
        let low = controller.update(1_100.0, Usage::Over, 50.0);
        assert!((controller.update(1_200.0, Usage::Normal, 50.0) - low).abs() < 1e-9, "held once");
        let grown = controller.update(1_350.0, Usage::Normal, 50.0);
        assert!((grown - low - 0.5 * low / 30.0 / 3.0).abs() < 1.0, "{low} {grown}");
    }

    #[test]
    fn under_use_holds_it() {
        let mut controller = fed(1e6);
        assert!((controller.update(2_000.0, Usage::Under, 50.0) - 1e6).abs() < 1e-9);
        assert!((controller.update(3_000.0, Usage::Normal, 50.0) - 1e6).abs() < 1e-9);
        assert!(controller.update(4_000.0, Usage::Normal, 50.0) > 1e6);
    }
}
