//! One flow of packets, and one link's queue.

use taut_core::{Backlog, Bytes, DropCause, Packet, Time};

use super::causes::Causes;
use super::close_up::{CloseUp, Focus};
use super::distribution::Summary;
use super::observer::Watch;
use super::percent;
use super::series::Buckets;
use crate::run::FlowInfo;
use taut_report::result::{FlowResult, Series};

/// Packets of one flow, from node to node.
#[derive(Clone, Debug)]
pub(super) struct FlowMetrics {
    sent: u64,
    delivered: u64,
    sent_counted: Bytes,
    delivered_counted: Bytes,
    dropped: Causes,
    delay: Summary,
    rate: Buckets,
    watch: Watch,
}

impl FlowMetrics {
    pub(super) fn new(watch: Watch) -> Self {
        Self {
            sent: 0,
            delivered: 0,
            sent_counted: Bytes::ZERO,
            delivered_counted: Bytes::ZERO,
            dropped: Causes::default(),
            delay: Summary::default(),
            rate: watch.rates(),
            watch,
        }
    }

    pub(super) fn sent(&mut self, now: Time, packet: &Packet) {
        self.sent += 1;
        if self.watch.counts(now) {
            self.sent_counted += packet.meta.size;
        }
    }

    pub(super) fn delivered(&mut self, now: Time, packet: &Packet) {
        self.delivered += 1;
        self.rate.record(now, packet.meta.size.bits() as f64);
        if self.watch.counts(packet.meta.sent) {
            self.delivered_counted += packet.meta.size;
            self.delay.record(now.saturating_since(packet.meta.sent));
        }
    }

    pub(super) fn dropped(&mut self, cause: DropCause) {
        self.dropped.count(cause);
    }

    /// `application_bps`: bits of samples that it delivers per second.
    pub(super) fn to_result(&self, info: &FlowInfo, application_bps: Option<f64>) -> FlowResult {
        let seconds = self.watch.counted().as_secs_f64();
        let lost = self.dropped.total();
        let sent_bps = self.sent_counted.bits() as f64 / seconds;
        FlowResult {
            name: info.name.clone(),
            owner: info.owner.clone(),
            kind: info.kind.to_owned(),
            sent: self.sent,
            delivered: self.delivered,
            dropped: self.dropped.to_result(),
            loss_percent: percent(lost, self.sent),
            sent_bps,
            delivered_bps: self.delivered_counted.bits() as f64 / seconds,
            efficiency: application_bps.filter(|_| sent_bps > 0.0).map(|bps| bps / sent_bps),
            delay_ms: self.delay.to_result(),
            counters: info.counters.take(),
        }
    }

    pub(super) fn series(&self, name: &str) -> Option<Series> {
        self.rate.sums_per_second("rate", name, "bit/s")
    }
}

/// What waits in one link's queues.
#[derive(Clone, Debug)]
pub(super) struct QueueMetrics {
    since: Time,
    bytes: u64,
    pub(super) max: u64,
    area: f64,
    whole: Buckets,
    close: CloseUp,
    end: Time,
}

impl QueueMetrics {
    pub(super) fn new(watch: Watch) -> Self {
        let (whole, close, end) = (watch.whole(), CloseUp::new(watch), watch.end());
        Self { since: Time::ZERO, bytes: 0, max: 0, area: 0.0, whole, close, end }
    }

    pub(super) fn queued(&mut self, now: Time, backlog: Backlog, focus: &Focus) {
        let bytes = backlog.bytes.get();
        if bytes == self.bytes || now > self.end {
            return;
        }
        let seconds = now.saturating_since(self.since).as_secs_f64();
        self.area += self.bytes as f64 * seconds;
        self.whole.record_held(self.since, now, self.bytes as f64);
        self.close.record_held(self.since, now, self.bytes as f64, focus);
        (self.since, self.bytes) = (now, bytes);
        self.max = self.max.max(bytes);
    }

    pub(super) fn mean(&self) -> f64 {
        let rest = self.bytes as f64 * self.end.saturating_since(self.since).as_secs_f64();
        (self.area + rest) / self.end.as_secs_f64()
    }

    pub(super) fn series(&self, name: &str, focus: &Focus) -> Vec<Series> {
        let whole = self.whole.to_result("queue", name, "bytes");
        let close = self.close.to_result(focus, "queue", name, "bytes");
        if self.max == 0 { Vec::new() } else { whole.into_iter().chain(close).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Duration;

    #[test]
    fn a_queue_that_stays_as_it_is_counts_in_every_bucket_of_that_time() {
        let watch = Watch::all_of(Duration::from_secs(10));
        let (mut queue, focus) = (QueueMetrics::new(watch), Focus::new(watch));
        for (ms, bytes) in [(0, 1_000), (9_000, 0), (9_500, 500)] {
            let backlog = Backlog { bytes: Bytes::new(bytes), ..Backlog::default() };
            queue.queued(Time::ZERO + Duration::from_millis(ms), backlog, &focus);
        }
        let series = &queue.series("a", &focus)[0];
        let at = |second: f64| series.mean[(second / series.bucket_s) as usize];
        let shown: Vec<_> = [0.5, 4.0, 8.9, 9.1, 9.4].into_iter().map(at).collect();
        assert_eq!(shown, [Some(1e3), Some(1e3), Some(1e3), Some(0.0), Some(0.0)]);
    }
}
