//! The arithmetic of TFRC (RFC 5348).

/// Weights of the loss intervals, the newest first (RFC 5348 section 5.4, n = 8).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Loss intervals that count, and the one before them.
pub(super) const INTERVALS: usize = WEIGHTS.len() + 1;

/// Packets in a round trip, inverted: f(p) of RFC 5348 section 8.1, with t_RTO = 4 R and b = 1.
fn f(p: f64) -> f64 {
    (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)
}

/// The TCP throughput equation, RFC 5348 section 3.1: X_Bps in bytes per second for packets of `s` bytes, a round trip of
/// `r` seconds and the loss event rate `p`, above 0.
pub(super) fn throughput(s: f64, r: f64, p: f64) -> f64 {
    s / (r * f(p))
}

/// The loss event rate at which the equation allows `packets` in a round trip: its inverse, by bisection, for RFC 5348
/// section 6.3.1. Between 10⁻⁸ and 1.
pub(super) fn loss_event_rate(packets: f64) -> f64 {
    let (mut low, mut high) = (1e-8_f64, 1.0_f64);
    // f rises with p. On a scale of ratios, 60 halvings of eight decades are far within the 5 % that are asked for.
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if f(middle) * packets < 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

/// The average loss interval in packets, RFC 5348 section 5.4, of intervals with the newest first, which is not over yet;
/// `None` unless there are two.
pub(super) fn mean_interval(intervals: &[u32]) -> Option<f64> {
    let closed = intervals.len().checked_sub(1).filter(|closed| *closed > 0)?.min(WEIGHTS.len());
    let weights = &WEIGHTS[..closed];
    let total = |intervals: &[u32]| -> f64 {
        weights.iter().zip(intervals).map(|(weight, interval)| weight * f64::from(*interval)).sum()
    };
    // The open interval counts only when that makes the average longer.
    let longest = total(intervals).max(total(&intervals[1..]));
    Some((longest / weights.iter().sum::<f64>()).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-4
    }

    /// RFC 5348 section 3.1, by hand:
    /// p = 0.01: √(0.02/3) = 0.0816497; 12·√0.00375·0.01·1.0032 = 12·0.0612372·0.010032 = 0.0073720; f = 0.0890217.
    /// p = 0.1: √(0.2/3) = 0.2581989; 12·√0.0375·0.1·1.32 = 12·0.1936492·0.132 = 0.3067403; f = 0.5649392.
    #[test]
    fn throughput_is_what_the_equation_gives_by_hand() {
        assert!(close(throughput(1460.0, 0.1, 0.01), 164_005.0)); // 1460 / 0.00890217
        assert!(close(throughput(79.0, 0.02, 0.01), 44_371.2)); // 79 / 0.001780434
        assert!(close(throughput(1460.0, 0.1, 0.1), 25_843.5)); // 1460 / 0.05649392
        assert!(close(throughput(1000.0, 1.0, 1.0), 4.109882)); // 1000 / (0.8164966 + 12·0.6123724·33)
    }

    #[test]
    fn the_inverse_gives_the_rate_back() {
        for p in [1e-6, 1e-3, 0.01, 0.1, 0.5] {
            assert!(close(loss_event_rate(1.0 / f(p)), p), "{p}");
        }
    }

    /// RFC 5348 section 5.4 by hand. W_tot of eight intervals is 6.0.
    #[test]
    fn old_intervals_weigh_less_and_the_open_one_only_when_it_is_long() {
        // Closed: 100 200 300 400 (weight 1), 500·0.8, 600·0.6, 700·0.4, 800·0.2 = 1000 + 1200 = 2200; /6 = 366.67.
        let closed = [100, 200, 300, 400, 500, 600, 700, 800];
        let with_open = |open| [&[open][..], &closed].concat();
        assert!(close(mean_interval(&with_open(1)).unwrap(), 2200.0 / 6.0));
        // The open one of 2000 displaces: 2000 + 100 + 200 + 300 + 400·0.8 + 500·0.6 + 600·0.4 + 700·0.2 = 3600; /6.
        assert!(close(mean_interval(&with_open(2000)).unwrap(), 600.0));
        // A ninth closed interval does not count.
        let long = [with_open(1), vec![1_000_000]].concat();
        assert!(close(mean_interval(&long).unwrap(), 2200.0 / 6.0));
        // Two intervals: the closed one alone, or the open one alone when it is longer.
        assert_eq!(mean_interval(&[10, 50]), Some(50.0));
        assert_eq!(mean_interval(&[80, 50]), Some(80.0));
        assert_eq!(mean_interval(&[80]), None);
        assert_eq!(mean_interval(&[0, 0]), Some(1.0));
    }
}
