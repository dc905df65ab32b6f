//! The patterns.

use taut_core::{Bitrate, Bytes, Duration, IPV4_HEADER, Rng, Time, UDP_HEADER};

use super::Pattern;

/// Constant bit rate.
#[derive(Clone, Debug)]
pub struct Cbr {
    rate: Bitrate,
    packet: Bytes,
    at: Time,
    /// What rounding down to nanoseconds has left out of `at` so far, in units of 1 ns divided by the rate: no rounding
    /// adds up.
    rest: u64,
}

impl Cbr {
    /// Packets of `packet` bytes on the wire, together at `rate`, the first at once.
    pub fn new(rate: Bitrate, packet: Bytes) -> Self {
        Self { rate, packet, at: Time::ZERO, rest: 0 }
    }
}

impl Pattern for Cbr {
    fn next_packet(&mut self) -> Option<(Time, Bytes)> {
        if self.rate == Bitrate::ZERO {
            return None;
        }
        let at = self.at;
        let work = self.packet.bits().saturating_mul(1_000_000_000);
        self.at += Duration::from_nanos(work / self.rate.as_bps());
        self.rest += work % self.rate.as_bps();
        if self.rest >= self.rate.as_bps() {
            self.rest -= self.rate.as_bps();
            self.at += Duration::from_nanos(1);
        }
        Some((at, self.packet))
    }
}

/// Poisson arrivals.
#[derive(Clone, Debug)]
pub struct Poisson {
    mean: Duration,
    packet: Bytes,
    at: Time,
    rng: Rng,
}

impl Poisson {
    /// Packets of `packet` bytes on the wire at the mean rate `rate`.
    pub fn new(rate: Bitrate, packet: Bytes, rng: Rng) -> Self {
        Self { mean: packet / rate, packet, at: Time::ZERO, rng }
    }
}

impl Pattern for Poisson {
    fn next_packet(&mut self) -> Option<(Time, Bytes)> {
        if self.mean == Duration::MAX {
            return None;
        }
        self.at += self.rng.exponential_duration(self.mean);
        Some((self.at, self.packet))
    }
}

/// G.711 speech with silence suppression: 160 bytes every 20 ms (64 kbit/s) under RTP, UDP and IP while someone talks.
#[derive(Clone, Debug)]
pub struct Voice {
    talk: Duration,
    pause: Duration,
    frame: Duration,
    at: Time,
    until: Time,
    rng: Rng,
}

/// RTP header without contributing sources (RFC 3550 section 5.1).
const RTP_HEADER: u64 = 12;
/// G.711: 8000 samples of one byte a second.
const G711_BYTES_PER_SECOND: u64 = 8_000;

impl Voice {
    /// Exponential talk spurts of mean 352 ms and pauses of mean 650 ms (Brady's model, as voice simulators have it).
    pub fn g711(rng: Rng) -> Self {
        Self::new(Duration::from_millis(352), Duration::from_millis(650), Duration::from_millis(20), rng)
    }

    /// With other means and another packet interval.
    pub fn new(talk: Duration, pause: Duration, frame: Duration, mut rng: Rng) -> Self {
        // Begins somewhere in a pause, so that many sources do not begin together.
        let at = Time::ZERO + rng.exponential_duration(pause);
        let until = at + rng.exponential_duration(talk);
        Self { talk, pause, frame: frame.max(Duration::from_millis(1)), at, until, rng }
    }
}

impl Pattern for Voice {
    fn next_packet(&mut self) -> Option<(Time, Bytes)> {
        while self.at >= self.until {
            self.at = self.until + self.rng.exponential_duration(self.pause);
            self.until = self.at + self.rng.exponential_duration(self.talk);
        }
        let at = self.at;
        self.at += self.frame;
        let payload = self.frame.as_nanos() * G711_BYTES_PER_SECOND / 1_000_000_000;
        Some((at, Bytes::new(payload + RTP_HEADER + UDP_HEADER + IPV4_HEADER)))
    }
}

/// Video frames of given sizes, over and over.
#[derive(Clone, Debug)]
pub struct Video {
    frames: Vec<Bytes>,
    interval: Duration,
    packet: Bytes,
    frame: u64,
    left: Bytes,
}

impl Video {
    /// Frames of `frames` bytes every `interval`, cut into packets of at most `packet` bytes on the wire.
    pub fn new(frames: Vec<Bytes>, interval: Duration, packet: Bytes) -> Self {
        let left = frames.first().copied().unwrap_or_default();
        Self { frames, interval, packet, frame: 0, left }
    }
}

impl Pattern for Video {
    fn next_packet(&mut self) -> Option<(Time, Bytes)> {
        let header = Bytes::new(RTP_HEADER + UDP_HEADER + IPV4_HEADER);
        let room = self.packet.saturating_sub(header).max(Bytes::new(1));
        let mut skipped = 0;
        while self.left == Bytes::ZERO {
            skipped += 1;
            if skipped > self.frames.len() {
                return None;
            }
            self.frame += 1;
            self.left = self.frames[(self.frame % self.frames.len() as u64) as usize];
        }
        let payload = self.left.min(room);
        self.left = self.left - payload;
        Some((Time::ZERO + self.interval.saturating_mul(self.frame), payload + header))
    }
}

/// Packets as they were recorded.
#[derive(Clone, Debug)]
pub struct Replay {
    packets: Vec<(Duration, Bytes)>,
    repeat: Option<Duration>,
    next: usize,
    base: Time,
}

impl Replay {
    /// Each packet at its time from the beginning (ascending), once; or again every `repeat`.
    pub fn new(packets: Vec<(Duration, Bytes)>, repeat: Option<Duration>) -> Self {
        Self { packets, repeat, next: 0, base: Time::ZERO }
    }
}

impl Pattern for Replay {
    fn next_packet(&mut self) -> Option<(Time, Bytes)> {
        if self.next == self.packets.len() {
            let (last, _) = *self.packets.last()?;
            self.base += self.repeat?.max(last).max(Duration::from_nanos(1));
            self.next = 0;
        }
        let (at, size) = self.packets[self.next];
        self.next += 1;
        Some((self.base + at, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    /// Rate on the wire, from the packets before `seconds`.
    fn rate(pattern: &mut dyn Pattern, seconds: u64) -> f64 {
        let end = Time::ZERO + Duration::from_secs(seconds);
        let mut bits = 0;
        while let Some((at, size)) = pattern.next_packet() {
            if at >= end {
                break;
            }
            bits += size.bits();
        }
        bits as f64 / seconds as f64
    }

    #[test]
    fn cbr_keeps_its_rate_for_ever() {
        let mut cbr = Cbr::new(Bitrate::from_bps(1_904_000), Bytes::new(150));
        assert!((rate(&mut cbr, 1000) - 1_904_000.0).abs() < 2.0);
        assert!(Cbr::new(Bitrate::ZERO, Bytes::new(150)).next_packet().is_none());
    }

    #[test]
    fn poisson_has_its_mean_rate() {
        let mut poisson =
            Poisson::new(Bitrate::from_bps(1_000_000), Bytes::new(125), Seed::new(1).stream("p"));
        assert!((rate(&mut poisson, 200) / 1e6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn voice_talks_352_of_1002_milliseconds_at_80_kilobits() {
        let mut voice = Voice::g711(Seed::new(1).stream("v"));
        // A spurt of mean T sends T/frame packets and, on average, half a frame's more: ceil of an exponential.
        let per_spurt = 1.0 / (1.0 - libm_exp(-20.0 / 352.0));
        let expected = per_spurt * 1600.0 / 1.002;
        let measured = rate(&mut voice, 5000);
        assert!((measured / expected - 1.0).abs() < 0.03, "{measured} against {expected}");
    }

    fn libm_exp(x: f64) -> f64 {
        (0..30)
            .fold((1.0, 1.0), |(sum, term), n| {
                (sum + term * x / f64::from(n + 1), term * x / f64::from(n + 1))
            })
            .0
    }

    #[test]
    fn a_video_frame_leaves_back_to_back_and_whole() {
        let frames = vec![Bytes::new(2_500), Bytes::ZERO, Bytes::new(10)];
        let mut video = Video::new(frames, Duration::from_millis(40), Bytes::new(1_040));
        let packets: Vec<_> = std::iter::from_fn(|| video.next_packet()).take(5).collect();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let expected = [(0, 1040), (0, 1040), (0, 540), (80, 50), (120, 1040)];
        assert_eq!(packets, expected.map(|(ms, size)| (at(ms), Bytes::new(size))));
        assert!(
            Video::new(vec![Bytes::ZERO], Duration::from_millis(40), Bytes::new(100)).next_packet().is_none()
        );
    }

    #[test]
    fn a_replay_repeats_or_ends() {
        let packets = vec![(Duration::ZERO, Bytes::new(60)), (Duration::from_millis(3), Bytes::new(70))];
        let mut once = Replay::new(packets.clone(), None);
        assert_eq!(std::iter::from_fn(|| once.next_packet()).count(), 2);
        let mut again = Replay::new(packets, Some(Duration::from_millis(10)));
        let times: Vec<_> =
            std::iter::from_fn(|| again.next_packet()).take(4).map(|(at, _)| at.as_nanos()).collect();
        assert_eq!(times, [0, 3_000_000, 10_000_000, 13_000_000]);
        assert!(Replay::new(Vec::new(), Some(Duration::from_secs(1))).next_packet().is_none());
    }
}
