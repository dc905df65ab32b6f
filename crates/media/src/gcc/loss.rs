//! The rate that losses allow (draft-ietf-rmcat-gcc-02 section 6).

/// Losses since the rate was decided on last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossBased {
    arrived: u64,
    lost: u64,
    decided: Option<f64>,
    rate: Option<f64>,
}

/// How often it decides, as often as RTCP's reports come.
const INTERVAL_MS: f64 = 1_000.0;
/// A share of fewer packets is no share.
const LEAST_PACKETS: u64 = 20;

impl LossBased {
    /// With a report on so many packets while `current` is the rate in effect: the rate, without a bound before the first decision.
    pub(super) fn update(&mut self, now: f64, arrived: u64, lost: u64, current: f64) -> f64 {
        self.arrived += arrived;
        self.lost += lost;
        let decided = *self.decided.get_or_insert(now);
        let all = self.arrived + self.lost;
        if now - decided >= INTERVAL_MS && all >= LEAST_PACKETS {
            self.rate = Some(decide(current, self.lost as f64 / all as f64));
            (self.arrived, self.lost, self.decided) = (0, 0, Some(now));
        }
        self.rate.unwrap_or(f64::INFINITY)
    }
}

/// `As_hat(i)` from the rate before and the share of packets that was lost.
fn decide(rate: f64, lost: f64) -> f64 {
    if lost < 0.02 {
        rate * 1.05
    } else if lost <= 0.1 {
        rate
    } else {
        rate * (1.0 - 0.5 * lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_loss_lets_it_grow_some_keeps_it_and_much_takes_half_as_much_off() {
        let cases = [(0.0, 1.05e6), (0.019, 1.05e6), (0.02, 1e6), (0.1, 1e6), (0.2, 0.9e6), (1.0, 0.5e6)];
        for (lost, expected) in cases {
            assert!((decide(1e6, lost) - expected).abs() < 1e-3, "{lost}");
        }
    }

    #[test]
    fn it_decides_once_a_second_on_all_that_was_reported_since() {
        let mut losses = LossBased::default();
        assert!(losses.update(0.0, 10, 0, 1e6).is_infinite());
        assert!(losses.update(500.0, 5, 20, 1e6).is_infinite());
        // 20 of 40.
        assert!((losses.update(1_000.0, 5, 0, 1e6) - 0.75e6).abs() < 1e-9);
        assert!((losses.update(1_900.0, 0, 100, 0.75e6) - 0.75e6).abs() < 1e-9);
    }
}
