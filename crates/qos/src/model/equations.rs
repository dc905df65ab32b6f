//! The equations, one function each. Sizes are in bytes, times in seconds, rates in bytes per second, unless a type
//! says otherwise.

use taut_core::{Bitrate, Bytes, Duration};

/// What (1) to (9) are functions of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// μ in bytes per second, > 0.
    pub mu: f64,
    /// τ, the one-way propagation, in seconds, ≥ 0.
    pub tau: f64,
    /// B, the drop-tail buffer, in bytes, ≥ 0.
    pub buffer: f64,
    /// α = R/μ, the fraction of μ that everything but TCP takes, ≥ 0.
    pub alpha: f64,
}

/// The least of (6), and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeastQueue {
    /// Q_min in bytes.
    pub bytes: f64,
    /// The slot *i* in which it is reached, counted from 1.
    pub slot: u64,
}

impl Bottleneck {
    /// 2μτ: what is in flight on an idle path, in bytes.
    pub fn pipe(&self) -> f64 {
        2.0 * self.mu * self.tau
    }

    /// (1) W_min = (B + 2μτ)(1 − α) / (2 S_tcp): TCP's window after a loss, in segments, not rounded.
    pub fn w_min(&self, segment: f64) -> f64 {
        (self.buffer + self.pipe()) * (1.0 - self.alpha) / (2.0 * segment)
    }

    /// (2) Q_init = (B + 2μτ)(1 + α)/2 − 2μτ: the queue when congestion avoidance begins, in bytes.
    pub fn q_init(&self) -> f64 {
        (self.buffer + self.pipe()) * (1.0 + self.alpha) / 2.0 - self.pipe()
    }

    /// (3) c = W_min + 1: how many slots (round trips) congestion avoidance lasts, not rounded. Of `flows` that halve together each
    /// has its part of W_min to grow by: c = W_min/flows + 1 (ours).
    pub fn c(&self, segment: f64, flows: u32) -> f64 {
        self.w_min(segment) / f64::from(flows) + 1.0
    }

    /// (6) Q(i), the queue at the start of slots *i* = 1, 2, … in bytes:
    /// Q_init α^(i−1) + (B − 2μτ)(1 − α^(i−1))/2 + S_tcp Σ_{j=0}^{i−3} (i − 2 − j) α^j.
    ///
    /// S_tcp is what TCP's window `grows` by in a round trip: of N flows that grow together N segments (ours). Powers and sums are
    /// carried from slot to slot, so that a slot costs a few multiplications.
    pub fn q(&self, grows: f64) -> impl Iterator<Item = f64> {
        let (this, q_init) = (*self, self.q_init());
        // α^(i−1); Σ_{j=0}^{i−2} α^j, which is what the double sum grows by; the double sum itself.
        let (mut power, mut geometric, mut sum) = (1.0, 0.0, 0.0);
        std::iter::from_fn(move || {
            let rest = (this.buffer - this.pipe()) * (1.0 - power) / 2.0;
            let queue = q_init * power + rest + grows * sum;
            sum += geometric;
            geometric += power;
            power *= this.alpha;
            Some(queue)
        })
    }

    /// (7) Q_min: the least Q(i) over whole *i* in [1, c].
    ///
    /// Q is convex: by (6), Q(i + 1) − Q(i) = S_tcp (1 − α^(i−1))/(1 − α) − α^i (1 − α)(B + 2μτ)/2, and both terms
    /// grow with *i*. So the search ends at the first rise, however large *c* is.
    pub fn q_min(&self, segment: f64, flows: u32) -> LeastQueue {
        let last = self.c(segment, flows).max(1.0) as u64;
        let mut least = LeastQueue { bytes: f64::INFINITY, slot: 0 };
        for (slot, bytes) in (1..=last).zip(self.q(segment * f64::from(flows))) {
            if bytes > least.bytes {
                break;
            }
            least = LeastQueue { bytes, slot };
        }
        least
    }

    /// (8) d_min = τ + Q_min/μ, in seconds. A negative Q_min, possible only where B ≤ 2μτ, is an empty queue.
    pub fn d_min(&self, q_min: f64) -> f64 {
        self.tau + q_min.max(0.0) / self.mu
    }

    /// (9) d_max = τ + B/μ, in seconds.
    pub fn d_max(&self) -> f64 {
        self.tau + self.buffer / self.mu
    }
}

/// What (11) is a function of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acks {
    /// S_tcp, > 0.
    pub segment: Bytes,
    /// n, > 0.
    pub every: u32,
    /// TCP flows, > 0.
    pub flows: u32,
}

/// (11) m_tcp = n + 1 + n (1 + ⌊(T_h − n S_tcp/μ) / (n S_tcp/(μ − R))⌋) · [T_h > n S_tcp/μ]: how many TCP segments can
/// arrive between two packets of the stream. Exact, in integers. `None` when R ≥ μ, or something of `acks` is 0.
///
/// Of several flows (ours): a segment that leaves the link is what an ACK follows, so that the first ACKs of two flows are S_tcp/μ apart at
/// least; those whose first falls within T_h add up, and what R leaves is shared by all.
pub fn m_tcp(rate: Bitrate, load: Bitrate, period: Duration, acks: Acks) -> Option<u64> {
    const NANOS: u128 = 1_000_000_000;
    let (mu, n, flows) = (u128::from(rate.as_bps()), u128::from(acks.every), u128::from(acks.flows));
    let spare = mu.checked_sub(u128::from(load.as_bps())).filter(|spare| *spare > 0)?;
    // All in bits times 10⁹: what μ carries in T_h, a segment, and the n segments that one ACK releases.
    let carried = mu * u128::from(period.as_nanos());
    let segment = u128::from(acks.segment.get()).checked_mul(8)?.checked_mul(NANOS)?;
    let released = n.checked_mul(segment)?;
    if released == 0 || flows == 0 {
        return None;
    }
    let mut all = n + 1;
    for flow in 0..flows {
        let after = carried.checked_sub(flow.checked_mul(segment)?).filter(|after| flow == 0 || *after > 0);
        let Some(after) = after else { break };
        let whole = match after.checked_sub(released) {
            Some(excess) if excess > 0 => {
                1 + excess.checked_mul(spare)?.checked_div(mu.checked_mul(released)?.checked_mul(flows)?)?
            }
            _ => 0,
        };
        let first = if flow == 0 { 0 } else { n + 1 };
        all = all.checked_add(first)?.checked_add(n.checked_mul(whole)?)?;
    }
    u64::try_from(all).ok()
}

/// m_cross = ⌈R_cross T_h / S_cross⌉ in (13): how many packets of one CBR flow can arrive between two packets of the
/// stream. Exact, in integers. `None` when `packet` is 0.
pub fn m_cross(rate: Bitrate, period: Duration, packet: Bytes) -> Option<u64> {
    let arrived = u128::from(rate.as_bps()) * u128::from(period.as_nanos());
    let each = u128::from(packet.get()).checked_mul(8 * 1_000_000_000)?;
    if each == 0 { None } else { u64::try_from(arrived.div_ceil(each)).ok() }
}

/// (13) δ_max = (m_tcp S_tcp + m_cross S_cross + R_h T_h)/μ − T_h, in seconds: the largest jitter of the stream while
/// TCP keeps the queue from running empty. `arrivals` is the numerator in bytes.
pub fn delta_max(arrivals: f64, mu: f64, period: f64) -> f64 {
    arrivals / mu - period
}

/// Delay of an audio frame under the fixed-fragment multiplexer, in seconds: d_aud = `network` + (s_a/s_m) T_h. Holds while
/// audio and video together are at most s_m per T_h.
///
/// The paper puts the haptic limit, 30 ms, for `network`; a tighter bound gives a tighter result.
pub fn audio_delay(network: f64, frame: Bytes, fragment: Bytes, period: Duration) -> f64 {
    network + frame.get() as f64 / fragment.get() as f64 * period.as_secs_f64()
}

/// Delay of a video frame under the fixed-fragment multiplexer, in seconds: d_vid = `network` + 1/f_v. Holds while audio
/// and video together are at most s_m per T_h: a frame is then gone before the next comes.
///
/// The paper puts the haptic limit, 30 ms, for `network`; a tighter bound gives a tighter result.
pub fn video_delay(network: f64, frame_period: Duration) -> f64 {
    network + frame_period.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MU: Bitrate = Bitrate::from_bps(6_000_000);
    const SEGMENT: Bytes = Bytes::new(578);
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn acks(every: u32, flows: u32) -> Acks {
        Acks { segment: SEGMENT, every, flows }
    }

    /// (6) as it is printed: for every slot, the sum written out.
    fn q_as_printed(link: &Bottleneck, segment: f64, slot: u64) -> f64 {
        let power = |exponent: u64| (0..exponent).fold(1.0, |product, _| product * link.alpha);
        let sum: f64 = (0..slot.saturating_sub(2)).map(|j| (slot - 2 - j) as f64 * power(j)).sum();
        let alpha_i = power(slot - 1);
        link.q_init() * alpha_i + (link.buffer - link.pipe()) * (1.0 - alpha_i) / 2.0 + segment * sum
    }

    fn any_bottleneck() -> impl Strategy<Value = Bottleneck> {
        (1e4..1e8f64, 0.0..0.2f64, 1e3..1e6f64, 0.0..0.999f64)
            .prop_map(|(mu, tau, buffer, alpha)| Bottleneck { mu, tau, buffer, alpha })
    }

    #[test]
    fn jitter_with_every_second_packet_acknowledged() {
        // T_h = 1 ms is shorter than n S/μ = 1.541 ms: the bracket of (11) is 0.
        let m = m_tcp(MU, Bitrate::from_bps(1_096_000), MILLISECOND, acks(2, 1)).unwrap();
        assert_eq!(m, 3);
        let delta = delta_max((m * 578 + 137) as f64, 750_000.0, 1e-3);
        assert!((delta - 0.001_494_666_667).abs() < 1e-12, "{delta}");
    }

    #[test]
    fn jitter_grows_with_a_longer_period() {
        let m = |period, n| m_tcp(MU, Bitrate::from_bps(1_096_000), period, acks(n, 1)).unwrap();
        // n = 1: S/μ = 0.771 ms < 1 ms, and (1 − 0.771) / 0.943 = 0.24.
        assert_eq!(m(MILLISECOND, 1), 3);
        // n = 2, 4 ms: (4 − 1.541) / 1.886 = 1.30, so 3 + 2 · 2.
        assert_eq!(m(Duration::from_millis(4), 2), 7);
    }

    /// S/μ = 0.771 ms: in 1 ms two flows' first ACKs fall, in 2 ms three's, and each flow's second after n S/μ = 1.541 ms.
    #[test]
    fn acks_of_several_flows_come_a_segment_apart() {
        let m = |period, flows| m_tcp(MU, Bitrate::from_bps(1_096_000), period, acks(2, flows)).unwrap();
        assert_eq!([1, 2, 4].map(|flows| m(MILLISECOND, flows)), [3, 6, 6]);
        assert_eq!(m(MILLISECOND * 2, 4), 3 * 3 + 2);
    }

    #[test]
    fn the_bracket_is_open_where_the_period_equals_what_an_ack_releases() {
        let mu = Bitrate::from_bps(8_000_000);
        let acks = Acks { segment: Bytes::new(500), every: 2, flows: 1 };
        let m = |nanos| m_tcp(mu, Bitrate::ZERO, Duration::from_nanos(nanos), acks).unwrap();
        assert_eq!([m(1_000_000), m(1_000_001), m(2_000_000)], [3, 5, 7]);
    }

    #[test]
    fn cross_packets_round_up_exactly() {
        let m = |bps| m_cross(Bitrate::from_bps(bps), MILLISECOND, Bytes::new(150)).unwrap();
        assert_eq!([m(0), m(1_200_000), m(1_200_001), m(1_904_000), m(3_904_000)], [0, 1, 2, 2, 4]);
    }

    #[test]
    fn audio_and_video_wait_for_their_fragments() {
        let audio = audio_delay(0.030, Bytes::new(160), Bytes::new(58), MILLISECOND);
        assert!((audio - 0.032_758_621).abs() < 1e-9, "{audio}");
        let video = video_delay(0.030, Duration::from_millis(40));
        assert!((video - 0.070).abs() < 1e-12, "{video}");
    }

    proptest! {
        #[test]
        fn the_running_form_of_the_queue_is_the_printed_one(link in any_bottleneck(), segment in 40.0..1500.0f64) {
            let scale = link.buffer + link.pipe() + segment * 40.0 * 40.0;
            for (slot, queue) in (1..40).zip(link.q(segment)) {
                prop_assert!((queue - q_as_printed(&link, segment, slot)).abs() <= 1e-9 * scale);
            }
        }

        #[test]
        fn the_search_that_stops_at_the_first_rise_finds_the_least(link in any_bottleneck(), segment in 40.0..1500.0f64) {
            let slots = link.c(segment, 1).max(1.0) as usize;
            let all = link.q(segment).take(slots).fold(f64::INFINITY, f64::min);
            let found = link.q_min(segment, 1);
            prop_assert!((found.bytes - all).abs() <= 1e-9 * (link.buffer + link.pipe()));
            prop_assert!(found.slot >= 1 && found.slot as usize <= slots);
        }

        #[test]
        fn jitter_exceeds_one_segment_whenever_tcp_is_there(
            rate in 100_000u64..1_000_000_000, load in 0.0..0.99f64, period_us in 100u64..50_000,
            segment in 40u64..1500, n in 1u32..5,
        ) {
            let mu = Bitrate::from_bps(rate);
            let load = Bitrate::from_bps((rate as f64 * load) as u64);
            let period = Duration::from_micros(period_us);
            let acks = Acks { segment: Bytes::new(segment), every: n, flows: 1 };
            let m = m_tcp(mu, load, period, acks).unwrap();
            let two = m_tcp(mu, load, period, Acks { flows: 2, ..acks }).unwrap();
            prop_assert!(two >= m, "{two} of two flows");
            let bytes_per_s = rate as f64 / 8.0;
            let others = load.as_bps() as f64 / 8.0 * period.as_secs_f64();
            let delta = delta_max(m as f64 * segment as f64 + others, bytes_per_s, period.as_secs_f64());
            prop_assert!(delta >= segment as f64 / bytes_per_s * 0.999_999, "{delta}");
        }
    }
}
