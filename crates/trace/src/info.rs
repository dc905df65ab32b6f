//! What there is to know about a recording at a glance.

use std::fmt;

use serde::Serialize;
use taut_core::{Duration, Time, printable};

use crate::error::Problem;
use crate::file::Limits;
use crate::recording::SIGNALS;
use crate::signals::{RowSink, split_unit};
use crate::{Data, Format, Packets, Recording};

/// A recording in numbers. Displayed as a few lines, serialised as one object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Info {
    /// The format of the file.
    pub format: &'static str,
    /// `signals`, `packets`, `opportunities` or `impairments`.
    pub kind: &'static str,
    /// Rows, packets, opportunities.
    pub rows: u64,
    /// The recorder's own clock at the first row, in nanoseconds.
    pub start_ns: i64,
    /// From the first row to the last, in seconds.
    pub duration_s: f64,
    /// Intervals per second of it; 0 when all rows are at one time.
    pub rate_hz: f64,
    /// Times between rows; `None` with fewer than two rows.
    pub interval: Option<IntervalInfo>,
    /// Channels of numbers.
    pub channels: Vec<ChannelInfo>,
    /// Sizes and flows of packets.
    pub packets: Option<PacketInfo>,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
}

/// Times between one row and the next, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IntervalInfo {
    /// The shortest.
    pub min_s: f64,
    /// The mean.
    pub mean_s: f64,
    /// The one in the middle of their order (of two, the longer).
    pub median_s: f64,
    /// The longest.
    pub max_s: f64,
    /// Intervals that are too long.
    pub gaps: GapInfo,
}

/// Intervals longer than what is normal: one and a half medians between rows of signals, 100 ms between packets and
/// between opportunities, which come in bursts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapInfo {
    /// From where on it is a gap, in seconds.
    pub longer_than_s: f64,
    /// How many there are.
    pub count: u64,
    /// When the longest one begins, in seconds since the first row.
    pub longest_at_s: Option<f64>,
}

/// One channel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelInfo {
    /// Its name without the unit.
    pub name: String,
    /// Its unit, empty when the name tells none.
    pub unit: &'static str,
    /// Its smallest value.
    pub min: f64,
    /// Its mean.
    pub mean: f64,
    /// Its largest value.
    pub max: f64,
}

/// All packets together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacketInfo {
    /// Their lengths together.
    pub bytes: u64,
    /// Bits per second from the first to the last; 0 when all are at one time.
    pub rate_bps: f64,
    /// The shortest, in bytes.
    pub size_min: u64,
    /// The mean, in bytes.
    pub size_mean: f64,
    /// The longest, in bytes.
    pub size_max: u64,
    /// Every flow, the one with the most bytes first.
    pub flows: Vec<FlowInfo>,
}

/// The packets of one flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowInfo {
    /// `udp 10.0.0.1:5000 > 10.0.0.2:6000`, or a topic.
    pub flow: String,
    /// Packets.
    pub packets: u64,
    /// Their lengths together.
    pub bytes: u64,
}

/// Looks at a whole recording once.
pub fn info(recording: &Recording) -> Info {
    let notes = recording.notes().to_vec();
    let mut info = Info::new(recording.format(), recording.data().kind(), notes);
    match recording.data() {
        Data::Signals(signals) => {
            let (limits, notes) = (Limits::default().rows(u64::MAX), std::mem::take(&mut info.notes));
            let mut rows = InfoRows::new(&limits);
            signals.write_to(&mut rows).expect("without limits no row is refused");
            info = rows.finish(recording.format(), notes);
        }
        Data::Packets(packets) => {
            info.start_ns = packets.start_ns();
            let times: Vec<Time> = packets.rows().iter().map(|packet| packet.time).collect();
            info.set_times(&times, Some(BURST_GAP));
            info.packets = Some(packet_info(packets, info.duration_s));
        }
        Data::Opportunities(opportunities) => {
            let times = opportunities.times();
            info.set_times(times, Some(BURST_GAP));
            // Of a lap, as it is played.
            let lap_s = times.last().map_or(0.0, |last| last.as_secs_f64());
            let rate = (times.len() as u64 * OPPORTUNITY_BYTES * 8) as f64 / lap_s / 1e6;
            info.notes.push(format!("{rate:.3} Mbit/s in opportunities of {OPPORTUNITY_BYTES} bytes"));
        }
        Data::Impairments(impairments) => {
            let seconds = 0..impairments.rows().len() as u64;
            let times: Vec<Time> = seconds.map(|second| Time::ZERO + Duration::from_secs(second)).collect();
            info.set_times(&times, None);
            let mut column = |name: &str, unit, value: fn(&crate::Impairment) -> Option<f64>| {
                let mut channel = ChannelInfo { unit, ..ChannelInfo::new(name) };
                for (count, value) in impairments.rows().iter().filter_map(value).enumerate() {
                    channel.add(value, count as f64 + 1.0);
                }
                info.channels.extend((channel.min <= channel.max).then_some(channel));
            };
            column("delay", "ms", |row| row.delay.map(|delay| delay.as_millis_f64()));
            column("jitter", "ms", |row| row.jitter.map(|jitter| jitter.as_millis_f64()));
            column("packet_loss", "%", |row| row.loss.map(|loss| loss.as_fraction() * 100.0));
        }
    }
    info
}

const BURST_GAP: Duration = Duration::from_millis(100);
const OPPORTUNITY_BYTES: u64 = taut_link::MahimahiTrace::OPPORTUNITY_BYTES;
/// Flows that are displayed; all of them are serialised.
const FLOWS_SHOWN: usize = 10;

/// A table in numbers, row by row.
pub(crate) struct InfoRows<'a> {
    limits: &'a Limits,
    start_ns: i64,
    times: Vec<Time>,
    channels: Vec<ChannelInfo>,
}

impl<'a> InfoRows<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self { limits, start_ns: 0, times: Vec::new(), channels: Vec::new() }
    }

    pub(crate) fn finish(self, format: Format, notes: Vec<String>) -> Info {
        let mut info = Info::new(format, SIGNALS, notes);
        info.start_ns = self.start_ns;
        info.set_times(&self.times, None);
        info.channels = self.channels;
        info
    }
}

impl RowSink for InfoRows<'_> {
    fn begin(&mut self, start_ns: i64, columns: Vec<String>) -> Result<(), Problem> {
        self.start_ns = start_ns;
        self.channels = columns.iter().map(|column| ChannelInfo::new(column)).collect();
        Ok(())
    }

    fn row(&mut self, time: Time, values: &[f64]) -> Result<(), Problem> {
        self.times.push(time);
        self.limits.check_rows(self.times.len())?;
        let count = self.times.len() as f64;
        self.channels.iter_mut().zip(values).for_each(|(channel, value)| channel.add(*value, count));
        Ok(())
    }
}

impl ChannelInfo {
    fn new(column: &str) -> Self {
        let (name, unit) = split_unit(column);
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { name: name.to_owned(), unit: unit.unwrap_or(""), min, mean: 0.0, max }
    }

    /// The last of `count` values.
    fn add(&mut self, value: f64, count: f64) {
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        // Divided before the difference: it cannot leave the range of finite numbers.
        self.mean += value / count - self.mean / count;
    }
}

impl Info {
    fn new(format: Format, kind: &'static str, notes: Vec<String>) -> Self {
        Self {
            format: format.name(),
            kind,
            rows: 0,
            start_ns: 0,
            duration_s: 0.0,
            rate_hz: 0.0,
            interval: None,
            channels: Vec::new(),
            packets: None,
            notes,
        }
    }

    /// From the times of rows. `gap` is what makes a gap, one and a half medians when not given.
    fn set_times(&mut self, times: &[Time], gap: Option<Duration>) {
        self.rows = times.len() as u64;
        let mut intervals: Vec<Duration> =
            times.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
        let Some(longest) = (0..intervals.len()).rev().max_by_key(|index| intervals[*index]) else { return };
        let longest_at = times[longest].as_secs_f64();
        let duration = times[times.len() - 1].saturating_since(times[0]);
        self.duration_s = duration.as_secs_f64();
        if !duration.is_zero() {
            self.rate_hz = intervals.len() as f64 / self.duration_s;
        }
        intervals.sort_unstable();
        let median = intervals[intervals.len() / 2];
        let limit = gap.unwrap_or_else(|| median + median / 2);
        let count = intervals.len() - intervals.partition_point(|interval| *interval <= limit);
        self.interval = Some(IntervalInfo {
            min_s: intervals[0].as_secs_f64(),
            mean_s: self.duration_s / intervals.len() as f64,
            median_s: median.as_secs_f64(),
            max_s: intervals[intervals.len() - 1].as_secs_f64(),
            gaps: GapInfo {
                longer_than_s: limit.as_secs_f64(),
                count: count as u64,
                longest_at_s: (count > 0).then_some(longest_at),
            },
        });
    }
}

fn packet_info(packets: &Packets, duration_s: f64) -> PacketInfo {
    let mut flows: Vec<FlowInfo> = packets
        .flows()
        .iter()
        .map(|flow| FlowInfo { flow: flow.to_string(), packets: 0, bytes: 0 })
        .collect();
    for packet in packets.rows() {
        let flow = &mut flows[packet.flow as usize];
        flow.packets += 1;
        flow.bytes += packet.size.get();
    }
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    let bytes = packets.bytes().get();
    let sizes = packets.rows().iter().map(|packet| packet.size.get());
    PacketInfo {
        bytes,
        rate_bps: if duration_s > 0.0 { bytes as f64 * 8.0 / duration_s } else { 0.0 },
        size_min: sizes.clone().min().unwrap_or(0),
        size_mean: bytes as f64 / packets.rows().len().max(1) as f64,
        size_max: sizes.max().unwrap_or(0),
        flows,
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, kind, rows, duration_s, rate_hz, .. } = self;
        writeln!(f, "{format}: {kind}, {rows} rows, {duration_s:.3} s, {rate_hz:.3} Hz")?;
        if let Some(interval) = &self.interval {
            let IntervalInfo { min_s, mean_s, median_s, max_s, gaps } = interval;
            let [min, mean, median, max] = [min_s, mean_s, median_s, max_s].map(|seconds| seconds * 1e3);
            writeln!(
                f,
                "interval: min {min:.3} ms, median {median:.3} ms, mean {mean:.3} ms, max {max:.3} ms"
            )?;
            let limit = gaps.longer_than_s * 1e3;
            match gaps.longest_at_s {
                Some(at) => writeln!(f, "gaps over {limit:.3} ms: {}, the longest at {at:.3} s", gaps.count)?,
                None => writeln!(f, "gaps over {limit:.3} ms: none")?,
            }
        }
        write_channels(f, &self.channels)?;
        if let Some(packets) = &self.packets {
            packets.fmt(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {}", printable(note)))
    }
}

fn write_channels(f: &mut fmt::Formatter<'_>, channels: &[ChannelInfo]) -> fmt::Result {
    // The file named them.
    let shown = |text: &str| printable(text).to_string();
    let lines: Vec<_> =
        channels.iter().map(|channel| (shown(&channel.name), shown(channel.unit), channel)).collect();
    let name_width = lines.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let unit_width = lines.iter().map(|(_, unit, _)| unit.chars().count()).max().unwrap_or(0);
    for (name, unit, ChannelInfo { min, mean, max, .. }) in lines {
        writeln!(
            f,
            "{name:name_width$} {unit:unit_width$}  min {min:>12.6}  mean {mean:>12.6}  max {max:>12.6}"
        )?;
    }
    Ok(())
}

impl fmt::Display for PacketInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, rate_bps, size_min, size_mean, size_max, flows } = self;
        let rate = rate_bps / 1e6;
        writeln!(
            f,
            "{bytes} bytes, {rate:.3} Mbit/s, sizes: min {size_min}, mean {size_mean:.1}, max {size_max}"
        )?;
        for FlowInfo { flow, packets, bytes } in flows.iter().take(FLOWS_SHOWN) {
            writeln!(f, "{packets:>9} packets {bytes:>12} bytes  {flow}")?;
        }
        match flows.len().saturating_sub(FLOWS_SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more flows"),
        }
    }
}
