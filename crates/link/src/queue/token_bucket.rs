//! Token bucket filter: `tc-tbf(8)`.

use taut_core::{
    Backlog, Bitrate, Bytes, Deadline, DropCause, Duration, LinkEvent, Packet, PacketMeta, Queue, Time,
};

use super::{Discipline, DropTail};

/// How [`TokenBucket`] behaves.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucketConfig {
    rate: Bitrate,
    burst: Bytes,
    peak: Option<(Bitrate, Bytes)>,
}

impl TokenBucketConfig {
    /// So many bits a second in the long run, and `burst` at once after a pause. A packet larger than `burst` is never
    /// sent ([`DropCause::TooBig`]). `rate`: from 8 bit/s; `burst`: from one packet to what lasts a year.
    pub fn new(rate: Bitrate, burst: Bytes) -> Self {
        Self { rate, burst, peak: None }
    }

    /// The burst itself passes at no more than `rate`, with `mtu` at once. Default: at once. From one packet to what lasts
    /// a year.
    pub fn peak(mut self, rate: Bitrate, mtu: Bytes) -> Self {
        self.peak = Some((rate, mtu));
        self
    }
}

/// Lets packets go at a rate, and more after a pause: tokens are saved up to a depth.
///
/// ```
/// use taut_core::{Bitrate, Bytes};
/// use taut_link::{Bottleneck, Codel, TokenBucket, TokenBucketConfig};
/// let config = TokenBucketConfig::new(Bitrate::from_bps(5_000_000), Bytes::new(10_000));
/// let link = Bottleneck::new(Bitrate::from_bps(100_000_000), TokenBucket::new(config, Codel::default()));
/// # let _ = link;
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    config: TokenBucketConfig,
    child: Box<Discipline>,
    /// Taken out of the child, and waiting for tokens.
    head: Option<Packet>,
    /// Tokens as the time that they last, at `filled`.
    tokens: i64,
    peak_tokens: i64,
    filled: Time,
    /// When the tokens suffice, or the child may have something.
    opens: Option<Deadline>,
    overlimits: u64,
}

/// What `tc -s qdisc` shows of a `tbf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucketStats {
    /// How often a packet had to wait for tokens.
    pub overlimits: u64,
}

impl TokenBucket {
    /// Full of tokens, before `child`.
    pub fn new(config: TokenBucketConfig, child: impl Into<Discipline>) -> Self {
        Self {
            config,
            child: Box::new(child.into()),
            head: None,
            tokens: lasting(config.burst, config.rate),
            peak_tokens: config.peak.map_or(0, |(rate, mtu)| lasting(mtu, rate)),
            filled: Time::ZERO,
            opens: None,
            overlimits: 0,
        }
    }

    /// A FIFO behind it that holds what passes in `latency`, and a burst: the `latency` of `tc`.
    pub fn with_latency(config: TokenBucketConfig, latency: Duration) -> Self {
        let mut limit = (config.rate * latency) + config.burst;
        if let Some((peak, mtu)) = config.peak {
            limit = limit.min((peak * latency) + mtu);
        }
        Self::new(config, DropTail::default().limit_bytes(limit))
    }

    /// What happened until now.
    pub fn stats(&self) -> TokenBucketStats {
        TokenBucketStats { overlimits: self.overlimits }
    }

    /// What is behind it.
    pub fn child(&self) -> &Discipline {
        &self.child
    }

    fn largest(&self) -> Bytes {
        self.config.peak.map_or(self.config.burst, |(_, mtu)| self.config.burst.min(mtu))
    }

    /// What both buckets hold after a packet of so many bytes; less than nothing where it must wait.
    fn after(&self, now: Time, size: Bytes) -> (i64, i64) {
        let depth = lasting(self.config.burst, self.config.rate);
        let passed = (now.saturating_since(self.filled).as_nanos()).min(depth as u64) as i64;
        let peak = self.config.peak.map_or(0, |(rate, mtu)| {
            (self.peak_tokens + passed).min(lasting(mtu, rate)) - lasting(size, rate)
        });
        ((self.tokens + passed).min(depth) - lasting(size, self.config.rate), peak)
    }
}

/// How long so many bytes take, in nanoseconds; a year at most.
fn lasting(bytes: Bytes, rate: Bitrate) -> i64 {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    (bytes / rate).min(YEAR).as_nanos() as i64
}

impl Queue for TokenBucket {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        if packet.meta.size > self.largest() {
            events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::TooBig });
        } else {
            self.child.enqueue(now, packet, events);
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        // In a FIFO it stays where it is while it waits, and counts for the limit.
        if self.head.is_none() && self.child.front().is_none() {
            self.head = self.child.dequeue(now, events);
        }
        let head = self.head.as_ref().map(|head| head.meta.size);
        let Some(size) = head.or_else(|| self.child.front()) else {
            self.opens = self.child.poll_timeout();
            return None;
        };
        let (tokens, peak_tokens) = self.after(now, size);
        if tokens.min(peak_tokens) < 0 {
            self.overlimits += 1;
            let wait = Duration::from_nanos(tokens.min(peak_tokens).unsigned_abs());
            self.opens = Some(Deadline::new(now + wait, "tokens"));
            return None;
        }
        (self.tokens, self.peak_tokens, self.filled, self.opens) = (tokens, peak_tokens, now, None);
        self.head.take().or_else(|| self.child.dequeue(now, events))
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        let mut backlog = self.child.backlog();
        if let Some(head) = &self.head {
            backlog.add(head.meta.size);
        }
        backlog
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.child.visit(visit);
        self.head.iter().for_each(|head| visit(&head.meta));
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.opens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(config: TokenBucketConfig, sizes: &[u64]) -> TokenBucket {
        let mut bucket = TokenBucket::new(config, DropTail::default());
        for (id, size) in (0..).zip(sizes) {
            let meta = PacketMeta { id, size: Bytes::new(*size), ..PacketMeta::default() };
            bucket.enqueue(Time::ZERO, Packet { meta, payload: Vec::new() }, &mut Vec::new());
        }
        bucket
    }

    /// Microseconds at which packets leave when it is asked whenever it says so.
    fn departures(mut bucket: TokenBucket) -> Vec<u64> {
        let (mut now, mut left) = (Time::ZERO, Vec::new());
        loop {
            while bucket.dequeue(now, &mut Vec::new()).is_some() {
                left.push(now.as_nanos() / 1_000);
            }
            match bucket.poll_timeout() {
                Some(deadline) => now = deadline.at,
                None => return left,
            }
        }
    }

    #[test]
    fn a_full_bucket_gives_its_depth_at_once_and_then_the_rate() {
        let config = TokenBucketConfig::new(Bitrate::from_bps(8_000_000), Bytes::new(3_000));
        assert_eq!(departures(bucket(config, &[1_000; 6])), [0, 0, 0, 1_000, 2_000, 3_000]);
    }

    #[test]
    fn a_peak_rate_spreads_the_burst() {
        let config = TokenBucketConfig::new(Bitrate::from_bps(8_000_000), Bytes::new(3_000))
            .peak(Bitrate::from_bps(16_000_000), Bytes::new(1_000));
        assert_eq!(departures(bucket(config, &[1_000; 6])), [0, 500, 1_000, 1_500, 2_000, 3_000]);
    }

    /// 8 bit/s take 292 years for 9.2 GB, more nanoseconds than 63 bits hold.
    #[test]
    fn a_bucket_for_ages_gives_all_that_it_has_at_once() {
        let slow = Bitrate::from_bps(8);
        for burst in [Bytes::new(9_223_372_036), Bytes::new(1 << 40), Bytes::new(u64::MAX)] {
            let config = TokenBucketConfig::new(slow, burst).peak(slow, burst);
            let mut bucket = bucket(config, &[1_000; 6]);
            let now = Time::from_nanos(1 << 60);
            assert!((0..6).all(|_| bucket.dequeue(now, &mut Vec::new()).is_some()), "{burst}");
        }
    }

    #[test]
    fn a_packet_that_no_bucket_holds_is_dropped_at_once() {
        let config = TokenBucketConfig::new(Bitrate::from_bps(8_000_000), Bytes::new(999));
        let mut bucket = bucket(config, &[]);
        let mut events = Vec::new();
        let meta = PacketMeta { size: Bytes::new(1_000), ..PacketMeta::default() };
        bucket.enqueue(Time::ZERO, Packet { meta, payload: Vec::new() }, &mut events);
        assert_eq!(events, [LinkEvent::Dropped { meta, cause: DropCause::TooBig }]);
        assert_eq!(bucket.backlog(), Backlog::default());
    }
}
