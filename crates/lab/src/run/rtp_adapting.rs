//! Video over RTP that adapts its rate to what the receiver reports.

use taut_core::{Bitrate, Deadline, DropCause, Duration, Node, NodeEvent, Packet, Rng, Time, Transmit};
use taut_media::gcc::{Gcc, GccConfig, Reporter};
use taut_sim::Peer;
use taut_wire::rtp::View;
use taut_wire::rtp::ccfb::Report;

use super::encode::Encode;
use crate::scenario::RtpTraffic;

/// Sends the frames of the encode, each scaled to the rate that the controller allows when it is made, its packets paced.
///
/// Nothing is sent again, and no key frame is made out of turn when one is lost.
pub(super) struct AdaptingSource {
    peer: Peer,
    encode: Encode,
    controller: Gcc,
    /// Of what is sent, the share that is video.
    share: f64,
    stop: Time,
    /// When the next packet may leave.
    free: Time,
}

/// Packets leave so much faster than the video's rate (`kDefaultPaceMultiplier` of WebRTC).
const PACE: f64 = 2.5;
/// With more packets waiting than this, no further frame is made.
const WAITING_MAX: usize = 1_000;

impl AdaptingSource {
    /// Begins at the controller's rate.
    pub(super) fn new(spec: &RtpTraffic, peer: Peer, start: Time, stop: Time, rng: &mut Rng) -> Self {
        let encode = Encode::new(spec, start, rng);
        let most = spec.rate.unwrap_or(encode.natural_rate());
        let share = Encode::share(spec.packet);
        // The rate that is asked for is that of the frames.
        let most = Bitrate::from_bps((most.as_bps() as f64 / share) as u64);
        let controller = Gcc::new(GccConfig::new().most(most));
        Self { peer, encode, controller, share, stop, free: Time::ZERO }
    }

    fn scaled(&self, factor: f64) -> Bitrate {
        Bitrate::from_bps((self.controller.target().as_bps() as f64 * factor) as u64)
    }

    fn next_frame(&self) -> Option<Time> {
        Some(self.encode.next_frame()).filter(|at| *at < self.stop)
    }
}

impl Node for AdaptingSource {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        if packet.meta.corrupted {
            return;
        }
        if let Ok(report) = Report::parse(&packet.payload) {
            self.controller.handle_feedback(now, &report);
        }
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        while self.next_frame().is_some_and(|at| at <= now) {
            if self.encode.ready() > WAITING_MAX {
                self.encode.skip_frame();
            } else {
                self.encode.make_frame(self.scaled(self.share));
            }
        }
        if now < self.free {
            return None;
        }
        let packet = self.encode.take_packet(&self.peer)?;
        self.free = now + packet.meta.size / self.scaled(PACE);
        let sequence = View::new_checked(&packet.payload).ok()?.repr().sequence;
        self.controller.handle_sent(now, sequence, packet.meta.size);
        Some(packet)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let paced = (self.encode.ready() > 0).then(|| Deadline::new(self.free, "paced packet"));
        let frame = self.next_frame().map(|at| Deadline::new(at, "next frame"));
        paced.into_iter().chain(frame).min_by_key(|deadline| deadline.at)
    }
}

/// Takes the video's packets and reports on them (RFC 8888).
pub(super) struct ReportingReceiver {
    peer: Peer,
    reporter: Option<Reporter>,
    /// When the next report is due: none before a packet came.
    due: Option<Time>,
    refused: u64,
}

/// How often WebRTC's receiver reports.
const INTERVAL: Duration = Duration::from_millis(100);
/// What the receiver calls itself.
const SSRC: u32 = 1;

impl ReportingReceiver {
    pub(super) const fn new(peer: Peer) -> Self {
        Self { peer, reporter: None, due: None, refused: 0 }
    }
}

impl Node for ReportingReceiver {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        if packet.meta.corrupted {
            self.refused += 1;
            return;
        }
        let Ok(view) = View::new_checked(&packet.payload) else { return };
        let repr = view.repr();
        let reporter = self.reporter.get_or_insert_with(|| Reporter::new(SSRC, repr.ssrc));
        reporter.handle_input(now, repr.sequence, packet.meta.ecn.code_point());
        self.due.get_or_insert(now + INTERVAL);
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let due = self.due.filter(|due| *due <= now)?;
        self.due = Some(due + INTERVAL);
        let report = self.reporter.as_mut()?.poll_report(now)?;
        let mut payload = Vec::new();
        report.emit(&mut payload);
        Some(self.peer.packet(payload, Transmit::default()))
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.refused = self.refused.checked_sub(1)?;
        Some(NodeEvent::Refused(None, DropCause::Corrupted))
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.due.map(|due| Deadline::new(due, "next report"))
    }
}

#[cfg(test)]
mod tests {
    use taut_core::{Bytes, Seed};

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn source(rate: u64) -> AdaptingSource {
        let spec = RtpTraffic { fps: 60, rate: Some(Bitrate::from_bps(rate)), ..RtpTraffic::default() };
        AdaptingSource::new(&spec, Peer::default(), Time::ZERO, Time::MAX, &mut Seed::new(1).stream("rtp"))
    }

    /// Sends for so long, with every packet at the receiver at once, unless `lost`, and reports back 20 ms later.
    fn sent(
        source: &mut AdaptingSource,
        millis: u64,
        mut lost: impl FnMut(u64) -> bool,
    ) -> Vec<(u64, Bytes)> {
        let mut receiver = ReportingReceiver::new(Peer::default());
        let (mut packets, mut reports) = (Vec::new(), Vec::new());
        for ms in 0..millis {
            while let Some(packet) = source.poll_transmit(at(ms)) {
                packets.push((ms, packet.meta.size));
                if !lost(ms) {
                    receiver.handle_input(at(ms), packet);
                }
            }
            reports.extend(receiver.poll_transmit(at(ms)).map(|report| (ms + 20, report)));
            let (due, later): (Vec<_>, Vec<_>) = reports.into_iter().partition(|(due, _)| *due <= ms);
            due.into_iter().for_each(|(_, report)| source.handle_input(at(ms), report));
            reports = later;
        }
        packets
    }

    fn rate(packets: &[(u64, Bytes)], from: u64, to: u64) -> f64 {
        let within = packets.iter().filter(|(at, _)| (from..to).contains(at));
        within.map(|(_, size)| size.bits()).sum::<u64>() as f64 / (to - from) as f64 / 1e3
    }

    #[test]
    fn it_begins_at_300_kilobits_and_grows_to_the_highest_rate_where_nothing_is_in_its_way() {
        let mut source = source(1_600_000);
        let packets = sent(&mut source, 60_000, |_| false);
        assert!((0.2..0.45).contains(&rate(&packets, 0, 2_000)), "{}", rate(&packets, 0, 2_000));
        let last = rate(&packets, 30_000, 60_000);
        assert!((1.5..1.75).contains(&last), "{last}");
    }

    #[test]
    fn losses_slow_it_down() {
        let mut source = source(1_600_000);
        let mut count = 0;
        let packets = sent(&mut source, 60_000, |ms| {
            count += u64::from(ms > 40_000);
            count % 3 == 2
        });
        assert!(rate(&packets, 55_000, 60_000) < 0.6 * rate(&packets, 35_000, 40_000));
    }

    #[test]
    fn packets_of_a_frame_are_paced() {
        let mut source = source(1_600_000);
        let packets = sent(&mut source, 20_000, |_| false);
        for pair in packets.windows(2) {
            let [(before, size), (after, _)] = pair else { unreachable!() };
            // Even at the highest rate, 1.66 Mbit/s times 2.5.
            assert!((after - before) as f64 + 1.0 >= size.bits() as f64 / 4_150.0, "{pair:?}");
        }
    }

    #[test]
    fn what_is_no_report_is_ignored() {
        let mut source = source(1_600_000);
        let target = source.controller.target();
        source.handle_input(at(5), Peer::default().packet(vec![0x80; 30], Transmit::default()));
        assert_eq!(source.controller.target(), target);
    }
}
