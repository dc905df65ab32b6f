//! The gap that follows the path.
//!
//! A decision falls at most once per smoothed RTT, when a report arrives, so that its effect is seen before the next:
//! the gap widens by a factor when the least RTT of late is above the least of long by more than a threshold, or when the
//! smoothed loss is above its own; otherwise it narrows by a step. It is AIMD with the gap in the place of the window. The
//! least, as in CoDel (RFC 8289 section 3.2), for jitter is no queue. Both values lag, so the gap stays as it is while the
//! RTT is above half the threshold, and while the latest values say that the queue drains already, or that nothing more is
//! lost.

use taut_core::{Duration, Time};
use taut_wire::etp::Feedback;

use super::config::Adaptive;
use super::rtt::Rtt;

/// No more than one decision in this time, also where the RTT is shorter.
const DECISION_INTERVAL: Duration = Duration::from_millis(20);
/// So far back goes the least RTT of late, and through four samples at least: jitter seldom stays that long above its own.
const RECENT: Duration = Duration::from_millis(75);
/// Loss is smoothed over about so many packets, whatever their rate: enough to tell 1 % from 5 %.
const LOSS_PACKETS: f64 = 100.0;

/// Keeps the gap, and what it knows of the path.
#[derive(Debug)]
pub(super) struct Control {
    config: Adaptive,
    gap: Duration,
    rtt: Rtt,
    loss: f64,
    /// Packets that the receiver knows of since the last decision, and how many of them are missing. Late packets make
    /// up for what was taken as lost.
    expected: i64,
    missing: i64,
    last: Option<Feedback>,
    next_decision: Time,
    /// When the absence of reports counts as loss.
    silent_at: Option<Time>,
}

impl Control {
    pub(super) fn new(config: Adaptive) -> Self {
        Self {
            config,
            gap: config.min_gap,
            rtt: Rtt::new(RECENT, config.rtt_window),
            loss: 0.0,
            expected: 0,
            missing: 0,
            last: None,
            next_decision: Time::ZERO,
            silent_at: None,
        }
    }

    pub(super) fn gap(&self) -> Duration {
        self.gap
    }

    pub(super) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The smoothed loss, a fraction.
    pub(super) fn loss(&self) -> f64 {
        self.loss
    }

    /// A data packet went out.
    pub(super) fn on_sent(&mut self, now: Time) {
        if self.silent_at.is_none() {
            self.silent_at = Some(now + self.patience());
        }
    }

    /// A report that is not older than the last one. `all_arrived`: it covers the last packet sent.
    pub(super) fn on_feedback(&mut self, now: Time, clock_us: u32, feedback: Feedback, all_arrived: bool) {
        let elapsed_us = clock_us.wrapping_sub(feedback.echo_us);
        // A clock field that was never ours, or a hold that is longer than the round trip.
        if let Some(rtt_us) = elapsed_us.checked_sub(feedback.hold_us).filter(|_| elapsed_us < u32::MAX / 2) {
            self.rtt.sample(now, Duration::from_micros(u64::from(rtt_us)));
        }
        self.count(feedback);
        self.silent_at = if all_arrived { None } else { Some(now + self.patience()) };
        if now >= self.next_decision {
            self.decide();
            let rtt = self.rtt.smoothed().unwrap_or(Duration::ZERO);
            self.next_decision = now + rtt.max(DECISION_INTERVAL);
        }
    }

    /// RFC 3550 section A.3: differences of the cumulative counters, so that a lost report costs nothing.
    fn count(&mut self, feedback: Feedback) {
        let last = self.last.replace(feedback).unwrap_or_default();
        let received = feedback.received.wrapping_sub(last.received) as i32;
        let missing = feedback.lost.wrapping_sub(last.lost) as i32;
        // Fewer received than before: the receiver began anew. Its counters are the new base.
        if received >= 0 {
            self.expected += i64::from(received) + i64::from(missing);
            self.missing += i64::from(missing);
        }
    }

    fn decide(&mut self) {
        let loss_now = self.smooth_loss();
        // The wider the gap, the less stands that is its own, and the more of what varies is jitter.
        let wide = self.gap.as_secs_f64() / self.config.max_gap.as_secs_f64();
        let jitter = Duration::from_secs_f64(self.rtt.variation().as_secs_f64() * wide);
        let rise = self.rtt.rise().saturating_sub(jitter);
        let slow = rise > self.config.rtt_rise;
        let limit = self.config.loss.as_fraction();
        let lossy = self.loss > limit;
        if slow && !self.rtt.is_falling() || lossy && loss_now > limit {
            self.widen();
        } else if rise <= self.config.rtt_rise / 2 && !lossy {
            self.gap = self.gap.saturating_sub(self.config.step).max(self.config.min_gap);
        }
    }

    /// The loss since the last decision, which enters the smoothed one by its number of packets.
    fn smooth_loss(&mut self) -> f64 {
        if self.expected <= 0 {
            return 0.0;
        }
        let fraction = self.missing.clamp(0, self.expected) as f64 / self.expected as f64;
        let gain = (self.expected as f64 / LOSS_PACKETS).min(1.0);
        self.loss += gain * (fraction - self.loss);
        (self.expected, self.missing) = (0, 0);
        fraction
    }

    fn widen(&mut self) {
        let more = self.gap.saturating_mul(u64::from(self.config.widen_percent)) / 100;
        self.gap = (self.gap + more.max(self.config.step)).min(self.config.max_gap);
    }

    /// When [`Control::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.silent_at
    }

    /// Data went out and no report came back: the path loses everything, this way or that.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.silent_at.is_some_and(|at| now >= at) {
            self.silent_at = None;
            self.widen();
        }
    }

    fn patience(&self) -> Duration {
        let rtt = self.rtt.smoothed().unwrap_or(Duration::ZERO);
        self.config.silence.max(rtt.saturating_mul(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    /// A path that reports every 20 ms, 20 packets each, with the given RTT and losses.
    struct Path {
        control: Control,
        now: Time,
        feedback: Feedback,
    }

    impl Path {
        fn new(config: Adaptive) -> Self {
            let now = Time::ZERO + Duration::from_secs(1);
            Self { control: Control::new(config), now, feedback: Feedback::default() }
        }

        fn report(&mut self, times: usize, rtt: Duration, lost: u32) -> Duration {
            for _ in 0..times {
                self.now += MS * 20;
                let clock_us = (self.now.as_nanos() / 1_000) as u32;
                self.feedback.received += 20 - lost;
                self.feedback.lost += lost;
                self.feedback.echo_us = clock_us.wrapping_sub((rtt.as_nanos() / 1_000) as u32);
                self.control.on_feedback(self.now, clock_us, self.feedback, false);
            }
            self.control.gap()
        }
    }

    #[test]
    fn the_gap_widens_while_the_rtt_is_up_and_comes_back_after() {
        let mut path = Path::new(Adaptive::new());
        assert_eq!(path.report(20, MS * 10, 0), MS);
        assert_eq!(path.report(50, MS * 40, 0), MS * 33);
        assert_eq!(path.report(200, MS * 10, 0), MS);
    }

    #[test]
    fn jitter_is_no_queue_however_wide_the_gap() {
        for every in [20, 100] {
            let mut path = Path::new(Adaptive::new());
            path.report(20, MS * 10, 0);
            assert_eq!(path.report(60, MS * 60, 0), MS * 33);
            let mut rng = taut_core::Seed::new(1).stream("jitter");
            for _ in 0..2_000 {
                let rtt = MS * 10 + Duration::from_micros(rng.below(12_000) + rng.below(12_000));
                path.now += MS * (every - 20);
                path.report(1, rtt, 0);
            }
            assert!(path.control.gap() < MS * 2, "{} with reports every {every} ms", path.control.gap());
        }
    }

    #[test]
    fn a_rise_within_the_threshold_changes_nothing() {
        let mut path = Path::new(Adaptive::new());
        path.report(20, MS * 10, 0);
        assert_eq!(path.report(200, MS * 20, 0), MS);
    }

    #[test]
    fn the_gap_widens_under_loss_and_comes_back_after() {
        let mut path = Path::new(Adaptive::new());
        assert_eq!(path.report(20, MS * 10, 0), MS);
        let widened = path.report(12, MS * 10, 2);
        assert!(widened >= MS * 5, "{widened}");
        assert_eq!(path.report(200, MS * 10, 0), MS);
    }

    #[test]
    fn loss_below_the_threshold_is_not_congestion_but_with_threshold_0_every_loss_is() {
        let one_percent = |config| {
            let mut path = Path::new(config);
            (0..40).fold(Duration::ZERO, |_, _| {
                path.report(4, MS * 10, 0);
                path.report(1, MS * 10, 1)
            })
        };
        assert_eq!(one_percent(Adaptive::new()), MS);
        assert!(one_percent(Adaptive::new().loss(taut_core::Probability::NEVER)) > MS * 10);
    }

    #[test]
    fn a_gap_of_zero_can_widen() {
        let mut path = Path::new(Adaptive::new().min_gap(Duration::ZERO));
        path.report(20, MS * 10, 0);
        assert!(path.report(20, MS * 40, 0) > MS);
    }

    #[test]
    fn silence_after_data_widens_the_gap_once_for_each_wait() {
        let mut control = Control::new(Adaptive::new());
        assert_eq!(control.poll_timeout(), None);
        control.on_sent(Time::ZERO);
        control.on_sent(Time::ZERO + MS * 100);
        assert_eq!(control.poll_timeout(), Some(Time::ZERO + MS * 200));
        control.handle_timeout(Time::ZERO + MS * 199);
        assert_eq!(control.gap(), MS);
        control.handle_timeout(Time::ZERO + MS * 200);
        assert_eq!((control.gap(), control.poll_timeout()), (Duration::from_micros(1_250), None));
    }

    #[test]
    fn packets_that_were_only_late_do_not_count_as_lost() {
        let mut path = Path::new(Adaptive::new());
        for _ in 0..100 {
            path.report(1, MS * 10, 4);
            // The four arrive after all.
            path.feedback.lost -= 4;
            path.feedback.received += 4;
        }
        assert!(path.control.loss() < 0.02, "{}", path.control.loss());
    }

    proptest! {
        #[test]
        fn the_gap_stays_between_its_bounds_whatever_is_reported(
            min_us in 0u64..5_000, width_us in 0u64..60_000, step_us in 1u64..5_000, percent in 1u32..1_000,
            reports in prop::collection::vec((any::<u64>(), any::<[u32; 5]>(), any::<bool>()), 0..100),
        ) {
            let (min, max) = (Duration::from_micros(min_us), Duration::from_micros(min_us + width_us));
            let config = Adaptive::new()
                .min_gap(min)
                .max_gap(max)
                .step(Duration::from_micros(step_us))
                .widen_percent(percent);
            let mut control = Control::new(config);
            let mut now = Time::ZERO;
            for (wait, [echo_us, hold_us, received, lost, clock_us], silent) in reports {
                now += Duration::from_nanos(wait >> 30);
                control.on_sent(now);
                if silent {
                    control.handle_timeout(now);
                } else {
                    let feedback = Feedback { highest: 0, echo_us, hold_us, received, lost };
                    control.on_feedback(now, clock_us, feedback, false);
                }
                prop_assert!((min..=max).contains(&control.gap()));
                prop_assert!((0.0..=1.0).contains(&control.loss()));
            }
        }
    }
}
