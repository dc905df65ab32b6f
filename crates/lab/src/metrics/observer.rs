//! The observer that measures a run.

use std::collections::BTreeMap;

use taut_core::{Address, Backlog, DropCause, Duration, LinkEvent, Medium, NodeEvent, Packet, Sample, Time};
use taut_qos::limits::Profile;
use taut_sim::{LinkId, Observer};

use super::causes::Causes;
use super::close_up::{CloseUp, Focus};
use super::cycles::{CycleSummary, CycleWatch, Cycles};
use super::flow::{FlowMetrics, QueueMetrics};
use super::medium::MediumMetrics;
use super::seconds::Seconds;
use super::series::Buckets;
use super::skew::Skews;
use super::video::{VideoMetrics, VideoWatch};
use crate::run::FlowInfo;
use crate::scenario::{Direction, Scenario};
use taut_report::result::{FlowResult, MediumResult, Refusals, Series, SkewResult, VideoResult, Worst};

/// Which part of a run counts, and how finely its course is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    /// What was made before this is not counted.
    pub(crate) warmup: Duration,
    /// What was made at or after this is not counted.
    pub(crate) duration: Duration,
    /// What comes later than these allow is late.
    pub(crate) limits: Profile,
}

/// Buckets of a series over the whole run.
const WHOLE_BUCKETS: usize = 1_000;

impl Watch {
    pub(crate) const fn of(scenario: &Scenario) -> Self {
        let Scenario { warmup, duration, limits, .. } = scenario;
        Self { warmup: *warmup, duration: *duration, limits: *limits }
    }
    /// From the beginning, against the usual limits.
    pub(crate) const fn all_of(duration: Duration) -> Self {
        Self { warmup: Duration::ZERO, duration, limits: Profile::Telehaptic }
    }
    pub(crate) fn counts(self, made: Time) -> bool {
        made >= Time::ZERO + self.warmup && made < self.end()
    }
    pub(crate) fn counted(self) -> Duration {
        self.duration.saturating_sub(self.warmup)
    }
    pub(super) fn end(self) -> Time {
        Time::ZERO + self.duration
    }
    pub(crate) fn whole(self) -> Buckets {
        Buckets::new(Time::ZERO, self.duration, WHOLE_BUCKETS)
    }
    pub(super) fn seconds(self) -> Seconds {
        Seconds::new(Time::ZERO + self.warmup)
    }
    pub(super) fn rates(self) -> Buckets {
        Buckets::new(Time::ZERO, self.duration, WHOLE_BUCKETS / 4)
    }
}

/// Which direction a node's deliveries belong to: samples of the forward direction are delivered at the robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamKey {
    /// The node that makes the samples.
    pub(crate) from: Address,
    /// The node that they are delivered to.
    pub(crate) to: Address,
    /// Which way that is.
    pub(crate) direction: Direction,
}

/// What is measured of one direction.
struct Way {
    key: StreamKey,
    media: [MediumMetrics; Medium::ALL.len()],
    skews: Skews,
}

/// Measures everything that a result holds.
pub(crate) struct Metrics {
    watch: Watch,
    ways: Vec<Way>,
    refusals: BTreeMap<u16, Causes>,
    flows: Vec<FlowMetrics>,
    queues: Vec<QueueMetrics>,
    videos: Vec<VideoMetrics>,
    gauges: BTreeMap<(u16, &'static str), (Buckets, CloseUp)>,
    focus: Focus,
    cycles: Option<Cycles>,
}

impl Metrics {
    /// Measures these directions, flows and links.
    pub(crate) fn new(
        watch: Watch,
        directions: &[StreamKey],
        flows: usize,
        links: usize,
        cycles: Option<CycleWatch>,
    ) -> Self {
        let way = |key: &StreamKey| Way {
            key: *key,
            media: Medium::ALL.map(|medium| MediumMetrics::new(medium, watch)),
            skews: Skews::default(),
        };
        Self {
            watch,
            ways: directions.iter().map(way).collect(),
            refusals: BTreeMap::new(),
            flows: vec![FlowMetrics::new(watch); flows],
            queues: vec![QueueMetrics::new(watch); links],
            videos: Vec::new(),
            gauges: BTreeMap::new(),
            focus: Focus::new(watch),
            cycles: cycles.map(|watched| Cycles::new(watched, watch)),
        }
    }

    /// Puts the frames of these together, too.
    pub(crate) fn with_videos(mut self, videos: Vec<VideoWatch>) -> Self {
        let watch = self.watch;
        self.videos = videos.into_iter().map(|video| VideoMetrics::new(video, watch)).collect();
        self
    }

    /// Per video over RTP.
    pub(crate) fn videos(&self) -> Vec<VideoResult> {
        self.videos.iter().map(VideoMetrics::to_result).collect()
    }

    /// Per direction and medium, those that had any samples.
    pub(crate) fn media(&self) -> Vec<MediumResult> {
        let of = |way: &Way| -> Vec<MediumResult> {
            way.media.iter().filter(|m| m.anything()).map(|m| m.to_result(way.key.direction)).collect()
        };
        self.ways.iter().flat_map(of).collect()
    }

    /// Between media.
    pub(crate) fn skews(&self) -> Vec<SkewResult> {
        self.ways.iter().flat_map(|way| way.skews.to_results(way.key.direction.name())).collect()
    }

    /// What nodes could not use, where its medium is not known; of nodes with any.
    pub(crate) fn refusals(&self, nodes: &[String]) -> Vec<Refusals> {
        let one = |(node, causes): (&u16, &Causes)| Refusals {
            node: nodes.get(usize::from(*node)).cloned().unwrap_or_default(),
            refused: causes.to_result(),
        };
        self.refusals.iter().map(one).collect()
    }

    /// One flow's result.
    pub(crate) fn flow(&self, index: usize, info: &FlowInfo, application_bps: Option<f64>) -> FlowResult {
        self.flows[index].to_result(info, application_bps)
    }

    /// The haptic delay in the cycles of TCP's window.
    pub(crate) fn cycles(&self) -> CycleSummary {
        self.cycles.as_ref().map_or_else(Default::default, Cycles::to_result)
    }

    /// The largest queue of a link, and its mean over time, in bytes.
    pub(crate) fn queue(&self, link: usize) -> (u64, f64) {
        (self.queues[link].max, self.queues[link].mean())
    }

    /// When a receiver waited for the longest, by what its medium allows: what is shown from close by is around that.
    pub(crate) fn worst(&self) -> Option<Worst> {
        self.focus.worst(|(way, medium)| {
            let way = &self.ways[way];
            way.media[medium].stream(way.key.direction)
        })
    }

    /// Everything over time.
    pub(crate) fn series(&self, nodes: &[String], flows: &[String], links: &[String]) -> Vec<Series> {
        let of = |way: &Way| -> Vec<Series> {
            way.media.iter().flat_map(|medium| medium.series(way.key.direction, &self.focus)).collect()
        };
        let media = self.ways.iter().flat_map(of);
        let queues = self.queues.iter().zip(links).flat_map(|(queue, name)| queue.series(name, &self.focus));
        let rates = self.flows.iter().zip(flows).filter_map(|(flow, name)| flow.series(name));
        // Whether TCP recovers is for the cycles; its steps make no plot.
        let plotted = self.gauges.iter().filter(|((_, gauge), _)| *gauge != "in_recovery");
        let gauges = plotted.flat_map(|((node, gauge), (whole, close))| {
            let (plot, unit) = gauge.rsplit_once('_').unwrap_or((gauge, ""));
            let name = &nodes[usize::from(*node)];
            [whole.to_result(plot, name, unit), close.to_result(&self.focus, plot, name, unit)]
        });
        media.chain(queues).chain(rates.take(MOST_RATES)).chain(gauges.flatten().take(MOST_GAUGES)).collect()
    }

    /// Keeps the gauges that come first, as many as are shown.
    fn gauge(&mut self, now: Time, key: (u16, &'static str), value: f64) {
        let full = self.gauges.len() >= MOST_GAUGES;
        if full && self.gauges.last_key_value().is_some_and(|(last, _)| key > *last) {
            return;
        }
        let watch = self.watch;
        let fresh = || (watch.whole(), CloseUp::new(watch));
        let (whole, close) = self.gauges.entry(key).or_insert_with(fresh);
        whole.record(now, value);
        close.record(now, value, &self.focus);
        if self.gauges.len() > MOST_GAUGES {
            self.gauges.pop_last();
        }
    }

    /// Whose samples this node makes.
    fn from(&mut self, node: Address) -> Option<&mut Way> {
        self.ways.iter_mut().find(|way| way.key.from == node)
    }

    fn sample_delivered(&mut self, now: Time, node: Address, sample: &Sample) {
        let mut ways = self.ways.iter_mut().enumerate();
        let Some((place, way)) = ways.find(|(_, way)| way.key.to == node) else { return };
        let stream = (place, sample.medium as usize);
        let delay = way.media[stream.1].delivered(now, sample, stream, &mut self.focus);
        let Some(delay) = delay else { return };
        way.skews.delivered(sample.medium, delay);
        if let (Medium::Haptic, Some(cycles)) = (sample.medium, &mut self.cycles) {
            cycles.delivered(way.key.direction, delay);
        }
    }

    fn refused(&mut self, node: Address, medium: Option<Medium>, cause: DropCause) {
        match (medium, self.ways.iter_mut().find(|way| way.key.to == node)) {
            (Some(medium), Some(way)) => way.media[medium as usize].refused(cause),
            _ => self.refusals.entry(node.0).or_default().count(cause),
        }
    }
}

/// No window of TCP is larger than 2³⁰ bytes (RFC 7323, section 2.3), so that a slow-start threshold beyond has not been set
/// yet: it begins arbitrarily high (RFC 5681, section 3.1).
fn is_set(gauge: &str, value: f64) -> bool {
    value.is_finite() && !(gauge.starts_with("ssthresh") && value > f64::from(1u32 << 30))
}

/// A hundred flows make no readable plot.
const MOST_RATES: usize = 12;
const MOST_GAUGES: usize = 24;

impl Observer for Metrics {
    fn sent(&mut self, now: Time, packet: &Packet) {
        if let Some(flow) = self.flows.get_mut(packet.meta.flow.0 as usize) {
            flow.sent(now, packet);
        }
        self.videos.iter_mut().for_each(|video| video.sent(now, packet));
    }

    fn delivered(&mut self, now: Time, _node: Address, packet: &Packet) {
        if let Some(flow) = self.flows.get_mut(packet.meta.flow.0 as usize) {
            flow.delivered(now, packet);
        }
        self.videos.iter_mut().for_each(|video| video.delivered(now, packet));
    }

    fn queued(&mut self, now: Time, link: LinkId, queued: Backlog) {
        self.queues[link.0 as usize].queued(now, queued, &self.focus);
    }

    fn link_event(&mut self, _now: Time, _link: LinkId, event: &LinkEvent) {
        if let LinkEvent::Dropped { meta, cause } = event
            && let Some(flow) = self.flows.get_mut(meta.flow.0 as usize)
        {
            flow.dropped(*cause);
            if let Some(cycles) = &mut self.cycles {
                cycles.dropped(meta.flow);
            }
        }
    }

    fn node_event(&mut self, now: Time, node: Address, event: &NodeEvent) {
        match *event {
            NodeEvent::Made(sample) => {
                if let Some(way) = self.from(node) {
                    way.media[sample.medium as usize].made(&sample);
                }
            }
            NodeEvent::Withheld(sample) => {
                if let Some(way) = self.from(node) {
                    way.media[sample.medium as usize].withheld(&sample);
                }
            }
            NodeEvent::Dropped(sample, cause) => {
                if let Some(way) = self.from(node) {
                    way.media[sample.medium as usize].dropped(&sample, cause);
                }
            }
            NodeEvent::Delivered(sample) => self.sample_delivered(now, node, &sample),
            NodeEvent::Refused(medium, cause) => self.refused(node, medium, cause),
            NodeEvent::Gauge { name, value } => {
                if let Some(cycles) = &mut self.cycles {
                    cycles.gauge(now, node, name, value);
                }
                if is_set(name, value) {
                    self.gauge(now, (node.0, name), value);
                }
            }
            // The sender counts its choices itself.
            NodeEvent::Chosen(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_set;

    #[test]
    fn a_slow_start_threshold_that_was_never_set_is_no_value() {
        assert!(!is_set("ssthresh_segments", u64::MAX as f64 / 1460.0));
        assert!(is_set("ssthresh_segments", 35.0));
        assert!(is_set("rate_bps", 1e12) && !is_set("rate_bps", f64::INFINITY));
    }
}
