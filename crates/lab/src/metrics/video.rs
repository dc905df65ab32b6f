//! One video over RTP: which of its frames arrived whole, when, and how far from the force that belongs to them.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{Duration, FlowId, Packet, Time};
use taut_media::{FrameAssembler, opinion};
use taut_wire::rtp::{Codec, FrameKind, View};

use super::distribution::{Signed, Summary};
use super::observer::Watch;
use super::percent;
use taut_report::result::{FrameRate, Opinion, VideoResult};

/// Which video, and what it is to be seen with.
#[derive(Clone, Debug)]
pub(crate) struct VideoWatch {
    pub(crate) name: String,
    pub(crate) flow: FlowId,
    pub(crate) codec: Codec,
    /// Name and flow of the haptic packets.
    pub(crate) haptic: Option<(String, FlowId)>,
    /// How far apart a frame and its haptic packet may be sent.
    pub(crate) within: Duration,
}

/// What is later than this is lost: nobody waits for it, and nothing is remembered longer.
const WINDOW: Duration = Duration::from_secs(30);

/// Counts of one video.
#[derive(Clone, Debug)]
pub(super) struct VideoMetrics {
    watched: VideoWatch,
    watch: Watch,
    assembler: FrameAssembler,
    /// Sent and not settled yet, in the order of sending.
    frames: VecDeque<Frame>,
    haptics: VecDeque<Haptic>,
    packets: Share,
    settled: Share,
    keys: Share,
    /// No frame was lost since the last key frame.
    unbroken: bool,
    of_use: u64,
    unpaired: u64,
    seconds: Rate,
    scores: Scores,
    packet_delay: Summary,
    frame_delay: Summary,
    haptic: HapticCounts,
    offset: Signed,
}

/// The packets that it is paired with, all of them.
#[derive(Clone, Debug, Default)]
struct HapticCounts {
    share: Share,
    delay: Summary,
    last_delay: Option<Duration>,
    jitter_max: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    sent: u64,
    arrived: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    timestamp: u32,
    key: bool,
    quantizer: Option<f64>,
    sent: Time,
    whole: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Haptic {
    id: u64,
    sent: Time,
    arrived: Option<Time>,
}

impl Share {
    fn count(&mut self, arrived: bool) {
        self.sent += 1;
        self.arrived += u64::from(arrived);
    }

    fn loss_percent(self) -> Option<f64> {
        percent(self.sent - self.arrived.min(self.sent), self.sent)
    }
}

impl HapticCounts {
    fn delivered(&mut self, delay: Duration) {
        self.share.arrived += 1;
        self.delay.record(delay);
        let jitter = self.last_delay.replace(delay).map(|last| delay.saturating_sub(last));
        self.jitter_max = self.jitter_max.max(jitter);
    }
}

impl VideoMetrics {
    pub(super) fn new(watched: VideoWatch, watch: Watch) -> Self {
        Self {
            assembler: FrameAssembler::new(watched.codec),
            watched,
            watch,
            frames: VecDeque::new(),
            haptics: VecDeque::new(),
            packets: Share::default(),
            settled: Share::default(),
            keys: Share::default(),
            unbroken: false,
            of_use: 0,
            unpaired: 0,
            seconds: Rate::default(),
            scores: Scores::default(),
            packet_delay: Summary::default(),
            frame_delay: Summary::default(),
            haptic: HapticCounts::default(),
            offset: Signed::default(),
        }
    }

    pub(super) fn sent(&mut self, now: Time, packet: &Packet) {
        if packet.meta.flow == self.watched.flow {
            self.packets.sent += u64::from(self.watch.counts(now));
            self.begin(now, packet);
        } else if self.is_haptic(packet) {
            self.haptic.share.sent += u64::from(self.watch.counts(now));
            self.haptics.push_back(Haptic { id: packet.meta.id, sent: now, arrived: None });
        }
    }

    fn is_haptic(&self, packet: &Packet) -> bool {
        self.watched.haptic.as_ref().is_some_and(|(_, flow)| *flow == packet.meta.flow)
    }

    /// The first packet of a frame has another timestamp than the last one of the frame before.
    fn begin(&mut self, now: Time, packet: &Packet) {
        let Ok(view) = View::new_checked(&packet.payload) else { return };
        let timestamp = view.repr().timestamp;
        if self.frames.back().is_some_and(|frame| frame.timestamp == timestamp) {
            return;
        }
        self.settle_before(now);
        let key = self.watched.codec.kind(view.payload()) == FrameKind::Key;
        let quantizer = opinion::quantizer(self.watched.codec, view.payload());
        self.frames.push_back(Frame { timestamp, key, quantizer, sent: now, whole: None });
    }

    pub(super) fn delivered(&mut self, now: Time, packet: &Packet) {
        let (meta, delay) = (&packet.meta, now.saturating_since(packet.meta.sent));
        // A copy is no second packet, and a damaged one is dropped by its checksum.
        if meta.copy > 0 || meta.corrupted {
            return;
        }
        let counts = self.watch.counts(meta.sent);
        if meta.flow == self.watched.flow {
            if counts {
                self.packets.arrived += 1;
                self.packet_delay.record(delay);
            }
            if let Ok(view) = View::new_checked(&packet.payload) {
                self.assembler.handle_input(&view);
                while let Some(frame) = self.assembler.poll_frame() {
                    self.whole(now, frame.timestamp);
                }
            }
        } else if self.is_haptic(packet) {
            if counts {
                self.haptic.delivered(delay);
            }
            if let Ok(at) = self.haptics.binary_search_by_key(&meta.id, |haptic| haptic.id) {
                self.haptics[at].arrived = Some(now);
            }
        }
    }

    fn whole(&mut self, now: Time, timestamp: u32) {
        let since = now.saturating_since(Time::ZERO + self.watch.warmup);
        let second = self.watch.counts(now).then_some(since / Duration::from_secs(1));
        second.into_iter().for_each(|second| self.seconds.count(second));
        // Decoding order is not that of timestamps where there are B-frames (RFC 6184 section 5.5).
        if let Some(at) = self.frames.iter().rposition(|frame| frame.timestamp == timestamp) {
            self.frames[at].whole = Some(now);
            let Frame { key, quantizer, .. } = self.frames[at];
            second.into_iter().for_each(|second| self.scores.count(second, key, quantizer));
        }
    }

    fn settle_before(&mut self, now: Time) {
        while self.frames.front().is_some_and(|frame| frame.sent + WINDOW < now) {
            self.settle();
        }
        let needed = self.frames.front().map_or(now, |frame| frame.sent);
        while self.haptics.front().is_some_and(|haptic| haptic.sent + self.watched.within < needed) {
            self.haptics.pop_front();
        }
    }

    /// Nothing changes any more about the oldest frame.
    fn settle(&mut self) {
        let Some(frame) = self.frames.pop_front() else { return };
        self.unbroken = frame.whole.is_some() && (frame.key || self.unbroken);
        if !self.watch.counts(frame.sent) {
            return;
        }
        self.settled.count(frame.whole.is_some());
        if frame.key {
            self.keys.count(frame.whole.is_some());
        }
        self.of_use += u64::from(self.unbroken);
        let Some(whole) = frame.whole else { return };
        self.frame_delay.record(whole.saturating_since(frame.sent));
        if self.watched.haptic.is_none() {
            return;
        }
        match self.nearest(frame.sent).and_then(|haptic| haptic.arrived) {
            Some(arrived) => {
                self.offset.record(whole.saturating_since(Time::ZERO), arrived.saturating_since(Time::ZERO));
            }
            None => self.unpaired += 1,
        }
    }

    /// The haptic packet sent nearest to `sent`; of two as near, the earlier one.
    fn nearest(&self, sent: Time) -> Option<Haptic> {
        let after = self.haptics.partition_point(|haptic| haptic.sent < sent);
        let apart =
            |haptic: &Haptic| haptic.sent.saturating_since(sent).max(sent.saturating_since(haptic.sent));
        let around = self.haptics.range(after.saturating_sub(1)..self.haptics.len().min(after + 1));
        around
            .min_by_key(|haptic| apart(haptic))
            .filter(|haptic| apart(haptic) <= self.watched.within)
            .copied()
    }

    pub(super) fn to_result(&self) -> VideoResult {
        let mut all = self.clone();
        while !all.frames.is_empty() {
            all.settle();
        }
        let counted = self.watch.counted();
        let seconds = counted.as_secs_f64();
        VideoResult {
            name: self.watched.name.clone(),
            haptic: self.watched.haptic.as_ref().map(|(name, _)| name.clone()),
            packets_sent: all.packets.sent,
            packet_loss_percent: all.packets.loss_percent(),
            frames_sent: all.settled.sent,
            frame_loss_percent: all.settled.loss_percent(),
            key_frame_loss_percent: all.keys.loss_percent(),
            of_use_per_s: (seconds > 0.0).then(|| all.of_use as f64 / seconds),
            fps: all.seconds.to_result(counted / Duration::from_secs(1)),
            opinion: all.scores.to_result(counted / Duration::from_secs(1)),
            packet_delay_ms: all.packet_delay.to_result(),
            frame_delay_ms: all.frame_delay.to_result(),
            haptic_delay_ms: all.haptic.delay.to_result(),
            haptic_jitter_max_ms: all.haptic.jitter_max.map(Duration::as_millis_f64),
            haptic_loss_percent: all.haptic.share.loss_percent(),
            offset_ms: all.offset.to_result(),
            unpaired: all.unpaired,
        }
    }
}

/// How often there were so many frames in a second.
#[derive(Clone, Debug, Default)]
struct Rate {
    second: u64,
    in_second: u64,
    seconds: BTreeMap<u64, u64>,
}

impl Rate {
    /// A frame in this second, counted from the end of the warm-up.
    fn count(&mut self, second: u64) {
        self.close_before(second);
        self.in_second += 1;
    }

    fn close_before(&mut self, second: u64) {
        if second <= self.second {
            return;
        }
        *self.seconds.entry(std::mem::take(&mut self.in_second)).or_default() += 1;
        let empty = second - self.second - 1;
        if empty > 0 {
            *self.seconds.entry(0).or_default() += empty;
        }
        self.second = second;
    }

    /// Of the first `seconds`.
    fn to_result(&self, seconds: u64) -> Option<FrameRate> {
        let mut all = self.clone();
        all.close_before(seconds);
        // What is left of the last second, which the run did not finish, does not count.
        if seconds == 0 {
            return None;
        }
        let total: u64 = all.seconds.values().sum();
        let frames: u64 = all.seconds.iter().map(|(frames, seconds)| frames * seconds).sum();
        let mut below = 0;
        let cdf = all.seconds.iter().map(|(frames, seconds)| {
            below += seconds;
            (*frames as f64, below as f64 / total as f64)
        });
        let cdf: Vec<(f64, f64)> = cdf.collect();
        let at = |q: f64| cdf.iter().find(|(_, share)| *share >= q).map_or(0.0, |(frames, _)| *frames);
        let end = |entry: Option<&(f64, f64)>| entry.map_or(0.0, |(frames, _)| *frames);
        let (min, max) = (end(cdf.first()), end(cdf.last()));
        let mean = frames as f64 / total as f64;
        Some(FrameRate { seconds: total, mean, min, p10: at(0.1), p50: at(0.5), p90: at(0.9), max, cdf })
    }
}

/// What viewers would think of each second.
#[derive(Clone, Debug, Default)]
struct Scores {
    /// Which second `whole` and `quantizers` are of, and those before it.
    second: u64,
    whole: u64,
    /// Sum and number, of the second's key frames and of its others.
    quantizers: [(f64, u64); 2],
    all_quantizers: (f64, u64),
    /// How often there was a score, in thousandths.
    scores: BTreeMap<u64, u64>,
}

impl Scores {
    fn count(&mut self, second: u64, key: bool, quantizer: Option<f64>) {
        self.close_before(second);
        self.whole += 1;
        let Some(quantizer) = quantizer else { return };
        for (sum, frames) in [&mut self.quantizers[usize::from(key)], &mut self.all_quantizers] {
            (*sum, *frames) = (*sum + quantizer, *frames + 1);
        }
    }

    fn close_before(&mut self, second: u64) {
        if second <= self.second {
            return;
        }
        // Of key frames the Recommendation knows nothing; there are seconds with nothing else.
        let known = std::mem::take(&mut self.quantizers).into_iter().find(|(_, frames)| *frames > 0);
        let frames = std::mem::take(&mut self.whole);
        let score = known.map_or(1.0, |(sum, of)| opinion::mos(frames as f64, sum / of as f64));
        *self.scores.entry((score * 1_000.0).round() as u64).or_default() += 1;
        let empty = second - self.second - 1;
        if empty > 0 {
            *self.scores.entry(1_000).or_default() += empty;
        }
        self.second = second;
    }

    /// Of the first `seconds`; nothing where no quantiser was told.
    fn to_result(&self, seconds: u64) -> Option<Opinion> {
        let mut all = self.clone();
        all.close_before(seconds);
        let (sum, frames) = all.all_quantizers;
        if seconds == 0 || frames == 0 {
            return None;
        }
        let total: u64 = all.scores.values().sum();
        let scores: u64 = all.scores.iter().map(|(score, seconds)| score * seconds).sum();
        let mut below = 0;
        let tenth = all.scores.iter().find(|(_, seconds)| {
            below += **seconds;
            below * 10 >= total
        });
        let mos = |thousandths: f64| thousandths / 1_000.0;
        Some(Opinion {
            mos: mos(scores as f64 / total as f64),
            mos_p10: mos(tenth.map_or(1_000.0, |(score, _)| *score as f64)),
            quantizer: sum / frames as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use taut_core::{PacketMeta, Rng, Seed};
    use taut_media::Packetizer;
    use taut_wire::rtp::vp8::FrameHeader;

    use super::*;

    const VIDEO: FlowId = FlowId(0);
    const HAPTIC: FlowId = FlowId(1);

    fn ms(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Three seconds, of which the first is a warm-up; frames are paired within 5 ms.
    struct Run {
        metrics: VideoMetrics,
        packetizer: Packetizer,
        packets: u64,
    }

    impl Run {
        fn new() -> Self {
            let watched = VideoWatch {
                name: "video".into(),
                flow: VIDEO,
                codec: Codec::Vp8,
                haptic: Some(("haptic".into(), HAPTIC)),
                within: Duration::from_millis(5),
            };
            let watch = Watch { warmup: Duration::from_secs(1), ..Watch::all_of(Duration::from_secs(3)) };
            let mut rng: Rng = Seed::new(1).stream("rtp");
            Self {
                metrics: VideoMetrics::new(watched, watch),
                packetizer: Packetizer::new(Codec::Vp8, 7, &mut rng),
                packets: 0,
            }
        }

        fn packet(&mut self, flow: FlowId, sent: u64, payload: Vec<u8>) -> Packet {
            self.packets += 1;
            let meta = PacketMeta { id: self.packets, flow, sent: ms(sent), ..PacketMeta::default() };
            let packet = Packet { meta, payload };
            self.metrics.sent(ms(sent), &packet);
            packet
        }

        /// Sends a frame of two packets at this millisecond.
        fn frame(&mut self, sent: u64, key: bool) -> [Packet; 2] {
            self.frame_of(sent, sent, key)
        }

        /// The same of a picture of another millisecond.
        fn frame_of(&mut self, captured: u64, sent: u64, key: bool) -> [Packet; 2] {
            let mut data = Vec::new();
            FrameHeader { key, quantizer_index: if key { 9 } else { 59 } }.emit((480, 360), &mut data);
            data.resize(1_800, 0);
            let mut payloads = Vec::new();
            self.packetizer.packetize(ms(captured), &data, |packet| payloads.push(packet.to_vec()));
            let [first, second] = payloads.try_into().unwrap();
            [self.packet(VIDEO, sent, first), self.packet(VIDEO, sent, second)]
        }

        /// Sends a haptic packet, which arrives one millisecond later.
        fn haptic(&mut self, sent: u64) {
            let packet = self.packet(HAPTIC, sent, Vec::new());
            self.metrics.delivered(ms(sent + 1), &packet);
        }
    }

    #[test]
    fn the_offset_is_between_the_frame_and_the_haptic_packet_sent_nearest_to_it() {
        let mut run = Run::new();
        run.haptic(1_000);
        let [first, second] = run.frame(1_003, true);
        // Sent nearer to the frame than the one before it, though after it.
        run.haptic(1_005);
        run.metrics.delivered(ms(1_020), &first);
        run.metrics.delivered(ms(1_040), &second);
        let result = run.metrics.to_result();
        let offset = result.offset_ms.unwrap();
        // 1040 less 1006: the frame is there when its last packet is. The histogram is exact to a thousandth of its range.
        assert!((offset.mean - 34.0).abs() < 0.01, "{offset:?}");
        assert!((result.frame_delay_ms.unwrap().mean - 37.0).abs() < 0.1);
        assert_eq!(result.unpaired, 0);
    }

    #[test]
    fn a_frame_that_overtakes_its_force_has_a_negative_offset() {
        let mut run = Run::new();
        let packets = run.frame(1_000, true);
        let haptic = run.packet(HAPTIC, 1_000, Vec::new());
        packets.iter().for_each(|packet| run.metrics.delivered(ms(1_002), packet));
        run.metrics.delivered(ms(1_012), &haptic);
        let offset = run.metrics.to_result().offset_ms.unwrap();
        assert!((offset.mean + 10.0).abs() < 0.01, "{offset:?}");
    }

    #[test]
    fn a_frame_is_not_paired_with_what_was_sent_too_long_before_or_after() {
        let mut run = Run::new();
        run.haptic(1_000);
        for packet in run.frame(1_006, true) {
            run.metrics.delivered(ms(1_010), &packet);
        }
        run.haptic(1_012);
        let result = run.metrics.to_result();
        assert_eq!((result.unpaired, result.offset_ms.is_none()), (1, true));
    }

    /// The warm-up is the first of three seconds; in the next there are ten frames, in the last none.
    #[test]
    fn the_opinion_is_of_each_seconds_whole_frames_and_of_their_quantiser() {
        let mut run = Run::new();
        for index in 0..12 {
            let packets = run.frame(1_000 + 20 * index, index == 0);
            let lost = index > 9;
            packets
                .iter()
                .skip(lost.into())
                .for_each(|packet| run.metrics.delivered(packet.meta.sent, packet));
        }
        let opinion = run.metrics.to_result().opinion.unwrap();
        // y_ac_qi 59 is a step of 68, 34 in H.264's transform; a key frame's y_ac_qi 9 is one of 13.
        let (delta, key) = (4.0 + 6.0 * libm::log2(34.0), 4.0 + 6.0 * libm::log2(6.5));
        assert!((opinion.quantizer - (9.0 * delta + key) / 10.0).abs() < 1e-9, "{opinion:?}");
        assert!((opinion.mos - (opinion::mos(10.0, delta) + 1.0) / 2.0).abs() < 1e-3, "{opinion:?}");
        assert!((opinion.mos_p10 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_frame_without_one_of_its_packets_is_lost_and_those_after_it_are_of_no_use_until_a_key_frame() {
        let mut run = Run::new();
        for (index, key) in [true, false, false, false, true, false].into_iter().enumerate() {
            let [first, second] = run.frame(1_000 + 100 * index as u64, key);
            run.metrics.delivered(first.meta.sent, &first);
            if index != 2 {
                run.metrics.delivered(second.meta.sent, &second);
            }
        }
        let result = run.metrics.to_result();
        assert_eq!((result.packets_sent, result.frames_sent), (12, 6));
        assert!((result.packet_loss_percent.unwrap() - 100.0 / 12.0).abs() < 1e-9);
        assert!((result.frame_loss_percent.unwrap() - 100.0 / 6.0).abs() < 1e-9);
        assert_eq!(result.key_frame_loss_percent, Some(0.0));
        // Two before the loss and two from the next key frame on, in two seconds.
        assert_eq!(result.of_use_per_s, Some(2.0));
    }

    /// A picture that others are predicted from is sent before those that are shown before it (RFC 6184 section 5.5).
    #[test]
    fn frames_may_be_sent_in_another_order_than_they_are_shown() {
        let mut run = Run::new();
        for (index, captured) in [1_000, 1_060, 1_020, 1_040, 1_120, 1_080, 1_100].into_iter().enumerate() {
            let sent = 1_100 + 20 * index as u64;
            for packet in run.frame_of(captured, sent, index == 0) {
                run.metrics.delivered(ms(sent + 5), &packet);
            }
        }
        let result = run.metrics.to_result();
        assert_eq!((result.frames_sent, result.frame_loss_percent), (7, Some(0.0)));
        assert_eq!(result.of_use_per_s, Some(3.5));
    }

    #[test]
    fn frames_are_counted_in_whole_seconds_after_the_warm_up() {
        let mut run = Run::new();
        for sent in [500, 1_100, 1_200, 1_300, 2_950] {
            for packet in run.frame(sent, true) {
                run.metrics.delivered(ms(sent + 100), &packet);
            }
        }
        let fps = run.metrics.to_result().fps.unwrap();
        // The first came before the seconds that count, the last after them.
        assert_eq!((fps.seconds, fps.min, fps.max, fps.mean), (2, 0.0, 3.0, 1.5));
    }

    #[test]
    fn a_copy_and_a_damaged_packet_make_no_frame_whole() {
        let mut run = Run::new();
        let [first, mut second] = run.frame(1_000, true);
        run.metrics.delivered(ms(1_001), &first);
        second.meta.corrupted = true;
        run.metrics.delivered(ms(1_001), &second);
        let result = run.metrics.to_result();
        assert_eq!((result.frame_loss_percent, result.packet_loss_percent), (Some(100.0), Some(50.0)));
    }
}
