//! What a gate tells about itself: as JSON, and as Prometheus metrics.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use taut_link::frame_gate::{Stream, StreamKey};

use super::VideoFilter;

/// What an attached gate has done so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The device on which video enters.
    pub device: String,
    /// `native` or `generic`.
    pub mode: String,
    /// The policy's name.
    pub policy: String,
    /// The queue that it reads.
    pub watch: String,
    /// The process that it ends with.
    pub pid: u32,
    /// Have there been drops in the queue, so that the gate limits?
    pub limiting: bool,
    /// k, about 1.
    pub k: f64,
    /// What the channel carries, as far as that is known.
    pub bandwidth_bps: u64,
    /// Bytes that may pass in a reset interval; `null`: no limit, or another policy.
    pub rate_limit_bytes: Option<u64>,
    /// Packets that the queue dropped since the gate was attached.
    pub queue_drops: u64,
    /// Bytes that wait in the queue.
    pub queue_backlog_bytes: u64,
    /// Packets that passed because there were too many streams.
    pub untracked_packets: u64,
    /// Every stream; those that were silent for so long that they are forgotten as one for each video.
    pub streams: Vec<StreamStatus>,
    /// What seems to be wrong with what it was told is video, a line each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What became of one video stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// The filter that took it, as on the command line: `udp:5004`. An SSRC is unique only within its session.
    pub video: String,
    /// Its synchronisation source; `null`: all that are forgotten.
    pub ssrc: Option<u32>,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Bytes that passed.
    pub passed_bytes: u64,
    /// Bytes that were dropped.
    pub dropped_bytes: u64,
    /// Frames that passed.
    pub passed_frames: u64,
    /// Frames that were dropped.
    pub dropped_frames: u64,
}

impl StreamStatus {
    pub(crate) fn new(key: StreamKey, filters: &[VideoFilter], stream: &Stream) -> Self {
        Self {
            video: filters.get(usize::from(key.filter)).map(ToString::to_string).unwrap_or_default(),
            ssrc: Some(key.ssrc),
            passed_packets: stream.passed_packets,
            dropped_packets: stream.dropped_packets,
            passed_bytes: stream.passed_bytes,
            dropped_bytes: stream.dropped_bytes,
            passed_frames: stream.passed_frames,
            dropped_frames: stream.dropped_frames,
        }
    }

    /// Adds it to those of the same video that are `forgotten`.
    pub(crate) fn forget(self, forgotten: &mut Vec<Self>) {
        match forgotten.iter_mut().find(|sum| sum.video == self.video) {
            None => forgotten.push(Self { ssrc: None, ..self }),
            Some(sum) => {
                sum.passed_packets += self.passed_packets;
                sum.dropped_packets += self.dropped_packets;
                sum.passed_bytes += self.passed_bytes;
                sum.dropped_bytes += self.dropped_bytes;
                sum.passed_frames += self.passed_frames;
                sum.dropped_frames += self.dropped_frames;
            }
        }
    }
}

impl Status {
    /// Without what would steer a terminal.
    pub(crate) fn printable(mut self) -> Self {
        let streams = self.streams.iter_mut().map(|stream| &mut stream.video);
        let own = [&mut self.device, &mut self.mode, &mut self.policy, &mut self.watch];
        for text in own.into_iter().chain(streams).chain(&mut self.notes) {
            text.retain(|c| !c.is_control());
        }
        self
    }

    /// As metrics in Prometheus' text format, version 0.0.4.
    pub fn prometheus(statuses: &[Self]) -> String {
        let mut text = String::new();
        type Counts = fn(&StreamStatus) -> [u64; 2];
        let per_stream: [(&str, &str, Counts); 3] = [
            ("packets", "Packets of video", |s| [s.passed_packets, s.dropped_packets]),
            ("bytes", "Bytes of video, IP headers included", |s| [s.passed_bytes, s.dropped_bytes]),
            ("frames", "Frames of video", |s| [s.passed_frames, s.dropped_frames]),
        ];
        for (name, help, counts) in per_stream {
            head(&mut text, &format!("{name}_total"), "counter", help);
            for (status, stream) in statuses.iter().flat_map(|s| s.streams.iter().map(move |t| (s, t))) {
                let (device, video) = (label(&status.device), label(&stream.video));
                let ssrc = stream.ssrc.map_or_else(|| "forgotten".to_owned(), |ssrc| ssrc.to_string());
                for (verdict, count) in ["pass", "drop"].into_iter().zip(counts(stream)) {
                    let labels = format!(
                        "device=\"{device}\",video=\"{video}\",ssrc=\"{ssrc}\",verdict=\"{verdict}\""
                    );
                    let _ = writeln!(text, "taut_gate_{name}_total{{{labels}}} {count}");
                }
            }
        }
        type Value = fn(&Status) -> String;
        let per_gate: [(&str, &str, &str, Value); 7] = [
            ("queue_drops_total", "counter", "Packets that the queue dropped", |s| s.queue_drops.to_string()),
            ("queue_backlog_bytes", "gauge", "Bytes that wait in the queue", |s| {
                s.queue_backlog_bytes.to_string()
            }),
            ("untracked_packets_total", "counter", "Packets of streams beyond the table", |s| {
                s.untracked_packets.to_string()
            }),
            ("limiting", "gauge", "1 once the queue has dropped", |s| u8::from(s.limiting).to_string()),
            ("k_ratio", "gauge", "Share of the measured bandwidth that is admitted", |s| s.k.to_string()),
            ("bandwidth_bits_per_second", "gauge", "What the channel carries", |s| {
                s.bandwidth_bps.to_string()
            }),
            ("rate_limit_bytes", "gauge", "Bytes that may pass in a reset interval", |s| {
                s.rate_limit_bytes.map_or("+Inf".to_owned(), |bytes| bytes.to_string())
            }),
        ];
        for (name, kind, help, value) in per_gate {
            head(&mut text, name, kind, help);
            for status in statuses {
                let (device, policy) = (label(&status.device), label(&status.policy));
                let labels = format!("device=\"{device}\",policy=\"{policy}\"");
                let _ = writeln!(text, "taut_gate_{name}{{{labels}}} {}", value(status));
            }
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP taut_gate_{name} {help}.\n# TYPE taut_gate_{name} {kind}");
}

/// A label's value may hold anything but these as they are.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_steers_no_terminal() {
        let stream = StreamStatus { video: "udp:\x1b[2J5004".to_owned(), ..StreamStatus::default() };
        let device = "\x1b]0;x\x07eth1\n".to_owned();
        let status = Status { device, streams: vec![stream], ..Status::default() }.printable();
        assert_eq!((&*status.device, &*status.streams[0].video), ("]0;xeth1", "udp:[2J5004"));
    }

    #[test]
    fn metrics_are_in_prometheus_text_format() {
        let stream = StreamStatus {
            video: "udp:5004".to_owned(),
            ssrc: Some(7),
            passed_packets: 3,
            dropped_packets: 2,
            ..StreamStatus::default()
        };
        let status = Status {
            device: "a\"b".to_owned(),
            policy: "aimd3".to_owned(),
            k: 0.7,
            streams: vec![stream],
            ..Status::default()
        };
        let mut forgotten = Vec::new();
        (0..2).for_each(|_| status.streams[0].clone().forget(&mut forgotten));
        assert_eq!(forgotten.len(), 1);
        let streams = [status.streams.clone(), forgotten].concat();
        let later = Status::prometheus(&[Status { streams, ..status.clone() }]);
        let counted = "taut_gate_packets_total{device=\"a\\\"b\",video=\"udp:5004\",ssrc=";
        for line in ["\"7\",verdict=\"drop\"} 2\n", "\"forgotten\",verdict=\"drop\"} 4\n"] {
            assert!(later.contains(&format!("{counted}{line}")), "{later}");
        }
        let text = Status::prometheus(&[status.clone(), Status { streams: Vec::new(), ..status }]);
        assert!(text.contains(
            "# TYPE taut_gate_packets_total counter\n\
             taut_gate_packets_total{device=\"a\\\"b\",video=\"udp:5004\",ssrc=\"7\",verdict=\"pass\"} 3\n\
             taut_gate_packets_total{device=\"a\\\"b\",video=\"udp:5004\",ssrc=\"7\",verdict=\"drop\"} 2\n"
        ));
        assert!(text.contains("taut_gate_k_ratio{device=\"a\\\"b\",policy=\"aimd3\"} 0.7\n"));
        assert!(text.contains("taut_gate_rate_limit_bytes{device=\"a\\\"b\",policy=\"aimd3\"} +Inf\n"));
        assert_eq!(text.matches("# TYPE").count(), 10, "each once, however many gates");
    }
}
