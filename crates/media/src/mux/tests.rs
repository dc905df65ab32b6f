use std::sync::Arc;

use taut_core::Bitrate;
use taut_wire::media::MediaView;

use super::*;
use crate::{Demultiplexer, DemuxConfig, FrameSource, TrendConfig, VideoTable};

const FRAGMENT: Bytes = Bytes::new(58);
const OVERHEAD: u64 = taut_core::IPV4_HEADER + taut_core::UDP_HEADER;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// A sender at 1 kHz with audio and video, and a receiver without a network between them.
struct Session {
    mux: Multiplexer,
    demux: Demultiplexer,
    sources: Vec<FrameSource>,
    payload: u64,
    ticks: u64,
    packets: Vec<(Time, MuxTransmit, u64)>,
    delivered: Vec<(Time, Sample)>,
    lost: Vec<(Sample, DropCause)>,
    withheld: u64,
}

impl Session {
    fn new(config: MuxConfig, payload: u64) -> Self {
        Self {
            mux: Multiplexer::new(config).unwrap(),
            demux: Demultiplexer::new(DemuxConfig::new()),
            sources: vec![FrameSource::audio(Time::ZERO), FrameSource::video(Time::ZERO)],
            payload,
            ticks: 0,
            packets: Vec::new(),
            delivered: Vec::new(),
            lost: Vec::new(),
            withheld: 0,
        }
    }

    fn run(&mut self, ticks: u64, significant: impl Fn(u64) -> bool) {
        for tick in self.ticks..self.ticks + ticks {
            let now = at(tick);
            while let Some(deadline) = self.mux.poll_timeout().filter(|deadline| deadline.at < now) {
                self.mux.handle_timeout(deadline.at);
                self.poll(deadline.at);
            }
            for source in &mut self.sources {
                while let Some(frame) = source.poll_sample(now) {
                    self.mux.handle_sample(now, frame, &[], true);
                }
            }
            let size = Bytes::new(self.payload);
            let sample = Sample { medium: Medium::Haptic, sequence: tick, created: now, size };
            self.mux.handle_sample(now, sample, &[], significant(tick));
            self.poll(now);
        }
        self.ticks += ticks;
    }

    fn poll(&mut self, now: Time) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.mux.poll_transmit(now, &mut buffer) {
            self.packets.push((now, transmit, buffer.len() as u64 + u64::from(transmit.padding) + OVERHEAD));
            self.demux.handle_input(now, &buffer, transmit.padding);
            while let Some(event) = self.demux.poll_event() {
                match event {
                    NodeEvent::Delivered(sample) => self.delivered.push((now, sample)),
                    other => panic!("{other:?}"),
                }
            }
            buffer.clear();
        }
        while let Some(event) = self.mux.poll_event() {
            match event {
                NodeEvent::Withheld(_) => self.withheld += 1,
                NodeEvent::Dropped(sample, cause) => self.lost.push((sample, cause)),
                _ => {}
            }
        }
    }

    fn worst_delay(&self, medium: Medium) -> Duration {
        let delays = self.delivered.iter().filter(|(_, sample)| sample.medium == medium);
        delays.map(|(now, sample)| *now - sample.created).max().unwrap()
    }

    fn count(&self, medium: Medium) -> usize {
        self.delivered.iter().filter(|(_, sample)| sample.medium == medium).count()
    }

    /// IP rate over a span of ticks.
    fn rate(&self, from: u64, to: u64) -> Bitrate {
        let in_span = self.packets.iter().filter(|(now, ..)| (at(from)..at(to)).contains(now));
        Bytes::new(in_span.map(|packet| packet.2).sum()) / (at(to) - at(from))
    }
}

fn fixed_fragment() -> MuxConfig {
    let scheme = Scheme::FixedFragment { fragment: FRAGMENT };
    MuxConfig::new(scheme).datagram(MuxConfig::datagram_of_ipv4(Bytes::new(137)))
}

/// Gokhale et al.: d_aud = d + (s_a/s_m) T_h, d_vid = d + 1/f_v, at a constant 137 bytes every millisecond.
#[test]
fn fixed_fragment_has_the_delays_and_the_rate_of_its_source() {
    for payload in [12, 24] {
        let mut session = Session::new(fixed_fragment(), payload);
        session.run(20_000, |_| true);
        assert!(session.packets.iter().all(|packet| packet.2 == 137), "payload {payload}");
        assert_eq!((session.packets.len(), session.demux.packets_missing()), (20_000, 0));
        assert_eq!(session.rate(0, 20_000), Bitrate::from_bps(1_096_000));
        assert_eq!(session.worst_delay(Medium::Haptic), Duration::ZERO);
        // s_a/s_m = 160/58 = 2.76: three packets, the first of them at once.
        assert!(
            session.worst_delay(Medium::Audio) <= Duration::from_millis(3),
            "{}",
            session.worst_delay(Medium::Audio)
        );
        // A frame of 400 kbit/s video takes its whole period, since s_m carries exactly both media.
        let video = session.worst_delay(Medium::Video);
        assert!((Duration::from_millis(38)..=Duration::from_millis(40)).contains(&video), "{video}");
        assert_eq!((session.count(Medium::Audio), session.count(Medium::Video)), (1_000, 500));
        assert!(session.lost.is_empty());
    }
}

#[test]
fn fixed_fragment_carries_exactly_its_fragment_while_media_wait() {
    let scheme = Scheme::FixedFragment { fragment: FRAGMENT };
    let mut mux = Multiplexer::new(MuxConfig::new(scheme)).unwrap();
    let audio = Sample { medium: Medium::Audio, sequence: 0, created: at(0), size: Bytes::new(160) };
    let video = Sample { medium: Medium::Video, sequence: 0, created: at(0), size: Bytes::new(100) };
    mux.handle_sample(at(0), video, &[], true);
    mux.handle_sample(at(0), audio, &[], true);
    let mut carried = Vec::new();
    for tick in 0..6 {
        let sample =
            Sample { medium: Medium::Haptic, sequence: tick, created: at(tick), size: Bytes::new(24) };
        mux.handle_sample(at(tick), sample, &[], true);
        let mut buffer = Vec::new();
        let transmit = mux.poll_transmit(at(tick), &mut buffer).unwrap();
        let view = MediaView::new_checked(&buffer, transmit.padding).unwrap();
        carried.push(view.fragments().map(|(f, _)| (f.medium, f.length, f.last)).collect::<Vec<_>>());
    }
    let (a, v) = (Medium::Audio, Medium::Video);
    let expected: [&[(Medium, u32, bool)]; 6] = [
        &[(a, 58, false)],
        &[(a, 58, false)],
        &[(a, 44, true), (v, 14, false)],
        &[(v, 58, false)],
        &[(v, 28, true)],
        &[],
    ];
    assert_eq!(carried, expected);
}

#[test]
fn fixed_fragment_goes_on_with_media_while_samples_are_withheld() {
    let mut session = Session::new(fixed_fragment(), 12);
    session.run(2_000, |tick| tick % 10 == 0);
    assert_eq!(session.withheld, 1_800);
    assert_eq!(session.count(Medium::Video), 50);
    assert!(session.worst_delay(Medium::Video) <= Duration::from_millis(40));
}

#[test]
fn real_video_fits_the_fixed_fragment() {
    let mut session = Session::new(fixed_fragment(), 12);
    let table = Arc::new(VideoTable::vp8_25fps_400k());
    session.sources[1] = FrameSource::table(table, Duration::from_millis(40), Time::ZERO);
    session.run(60_000, |_| true);
    assert!(session.lost.is_empty(), "{:?}", session.lost);
    assert!(session.count(Medium::Video) >= 1_490);
    assert!(session.packets.iter().all(|packet| packet.2 == 137));
}

/// The source's rate swings between 613 and 1079 kbit/s.
#[test]
fn visual_haptic_rate_swings_with_significance() {
    let (media_rate, with_sample) = (Bitrate::from_bps(464_000), Duration::from_millis(1));
    let scheme = Scheme::VisualHaptic { media_rate, with_sample, chunk: Duration::from_millis(15) };
    let mut session = Session::new(MuxConfig::new(scheme), 24);
    session.run(20_000, |tick| tick / 2_000 % 2 == 0);
    for period in 0..5 {
        let busy = session.rate(period * 4_000, period * 4_000 + 2_000).as_bps();
        let quiet = session.rate(period * 4_000 + 2_000, period * 4_000 + 4_000).as_bps();
        assert!((1_000_000..1_150_000).contains(&busy), "{busy}");
        assert!((450_000..620_000).contains(&quiet), "{quiet}");
    }
    let largest = session.packets.iter().map(|packet| packet.2).max().unwrap();
    assert!(largest <= 870 + 60, "15 ms' worth and headers: {largest}");
    assert!(session.packets.iter().filter(|packet| packet.1.samples > 0).all(|packet| packet.2 <= 145));
    assert!(
        session.packets.iter().filter(|packet| packet.1.samples == 0).all(|packet| packet.1.fragments == 1)
    );
    assert_eq!(session.worst_delay(Medium::Haptic), Duration::ZERO);
    assert!(
        session.worst_delay(Medium::Video) <= Duration::from_millis(55),
        "{}",
        session.worst_delay(Medium::Video)
    );
    assert!(session.lost.is_empty());
}

#[test]
fn visual_haptic_goes_on_when_the_device_is_silent() {
    let (media_rate, with_sample) = (Bitrate::from_bps(464_000), Duration::from_millis(1));
    let scheme = Scheme::VisualHaptic { media_rate, with_sample, chunk: Duration::from_millis(15) };
    let mut session = Session::new(MuxConfig::new(scheme), 24);
    session.run(1, |_| true);
    let mut last = at(0);
    while let Some(deadline) = session.mux.poll_timeout() {
        assert!(deadline.at > last && deadline.at < at(100), "{deadline:?}");
        last = deadline.at;
        session.mux.handle_timeout(last);
        session.poll(last);
    }
    assert_eq!((session.count(Medium::Audio), session.count(Medium::Video)), (1, 1));
}

#[test]
fn separate_flows_have_packets_of_their_own() {
    let mut session = Session::new(MuxConfig::new(Scheme::Separate), 24);
    session.run(1_000, |_| true);
    let of = |flow| session.packets.iter().filter(move |packet| packet.1.flow == flow);
    assert!(of(Medium::Haptic).all(|packet| (packet.1.samples, packet.1.fragments) == (1, 0)));
    assert!(
        of(Medium::Audio)
            .chain(of(Medium::Video))
            .all(|packet| (packet.1.samples, packet.1.fragments) == (0, 1))
    );
    assert_eq!(of(Medium::Haptic).count(), 1_000);
    assert_eq!(of(Medium::Audio).count(), 50);
    assert_eq!(of(Medium::Video).count(), 50, "2000 bytes are two packets");
    assert!(session.packets.iter().all(|packet| packet.2 <= 1_500));
    assert_eq!(session.worst_delay(Medium::Video), Duration::ZERO);
}

fn network_aware() -> Session {
    let trend = TrendConfig::new().window(8).rise(Duration::from_micros(250));
    let scheme = Scheme::NetworkAware { fragment: FRAGMENT, period: Duration::from_millis(1), trend };
    Session::new(MuxConfig::new(scheme), 12)
}

#[test]
fn network_aware_k_jumps_when_the_delay_rises_and_steps_down_when_not() {
    let mut session = network_aware();
    let samples_per_packet = |session: &mut Session| {
        session.run(12, |_| true);
        session.packets.last().unwrap().1.samples
    };
    let mut delay_us = 10_000;
    let mut feed = |session: &mut Session, slope_us: u64, reports: u64| {
        for _ in 0..reports {
            delay_us += slope_us;
            session.mux.handle_delay(at(0), Duration::from_micros(delay_us));
        }
    };
    feed(&mut session, 0, 9);
    assert_eq!(samples_per_packet(&mut session), 1);
    feed(&mut session, 200, 16);
    assert_eq!(samples_per_packet(&mut session), 4);
    // The smoothed delay still catches up for a while.
    feed(&mut session, 0, 24);
    let mut seen = vec![samples_per_packet(&mut session)];
    for _ in 0..4 {
        feed(&mut session, 0, 8);
        seen.push(samples_per_packet(&mut session));
    }
    seen.dedup();
    assert!(seen.ends_with(&[3, 2, 1]), "{seen:?}");
}

#[test]
fn network_aware_packets_save_headers_and_lose_nothing() {
    let mut session = network_aware();
    for delay in 0..32 {
        session.mux.handle_delay(at(0), Duration::from_millis(delay));
    }
    session.run(4_000, |_| true);
    assert_eq!(session.packets.len(), 1_000);
    assert!(session.packets.iter().all(|packet| packet.1.samples == 4));
    assert_eq!(session.worst_delay(Medium::Haptic), Duration::from_millis(3));
    assert_eq!(session.count(Medium::Haptic), 4_000);
    assert!(session.worst_delay(Medium::Video) <= Duration::from_millis(43));
    assert!(session.packets.iter().all(|packet| packet.1.created == packet.0 - Duration::from_millis(3)));
}

#[test]
fn a_packet_that_does_not_fill_goes_after_its_time() {
    let mut session = network_aware();
    for delay in 0..32 {
        session.mux.handle_delay(at(0), Duration::from_millis(delay));
    }
    session.run(2, |_| true);
    assert_eq!(session.count(Medium::Haptic), 0);
    let deadline = session.mux.poll_timeout().unwrap();
    assert_eq!(deadline.at, at(4));
    session.mux.handle_timeout(deadline.at);
    session.poll(deadline.at);
    assert_eq!(session.count(Medium::Haptic), 2);
    assert_eq!(session.mux.poll_timeout(), None);
}

#[test]
fn what_waits_too_long_or_too_much_is_dropped_the_oldest_first() {
    let config = MuxConfig::new(Scheme::FixedFragment { fragment: FRAGMENT }).frame_limit(2).sample_limit(1);
    let mut mux = Multiplexer::new(config).unwrap();
    let video = |sequence, millis| {
        let size = Bytes::new(1_000);
        Sample { medium: Medium::Video, sequence, created: at(millis), size }
    };
    (0..3).for_each(|i| mux.handle_sample(at(i), video(i, i), &[], true));
    assert_eq!(mux.poll_event(), Some(NodeEvent::Dropped(video(0, 0), DropCause::Superseded)));
    mux.handle_timeout(at(402));
    assert_eq!(mux.poll_event(), Some(NodeEvent::Dropped(video(1, 1), DropCause::TooLate)));
    assert_eq!(mux.poll_event(), None);
    let haptic = |sequence| {
        let size = Bytes::new(8);
        Sample { medium: Medium::Haptic, sequence, created: at(402), size }
    };
    mux.handle_sample(at(402), haptic(0), &[], true);
    mux.handle_sample(at(402), haptic(1), &[], true);
    assert_eq!(mux.poll_event(), Some(NodeEvent::Dropped(haptic(0), DropCause::Superseded)));
    mux.handle_sample(at(402), haptic(2), &[0; 9], true);
    assert_eq!(mux.poll_event(), Some(NodeEvent::Dropped(haptic(2), DropCause::Malformed)));
}

#[test]
fn a_setting_that_cannot_work_is_refused() {
    let fragment = FRAGMENT;
    let fixed = MuxConfig::new(Scheme::FixedFragment { fragment });
    let refused = |config: MuxConfig| Multiplexer::new(config).unwrap_err();
    assert_eq!(refused(fixed.clone().mtu(Bytes::new(63))), MuxConfigError::Mtu(Bytes::new(63)));
    let (datagram, mtu) = (Bytes::new(1473), Bytes::new(1472));
    assert_eq!(refused(fixed.clone().datagram(datagram)), MuxConfigError::Datagram { datagram, mtu });
    assert_eq!(refused(fixed.frame_limit(0)), MuxConfigError::Limit);
    let (period, trend) = (Duration::from_millis(1), TrendConfig::new().k_max(8));
    assert_eq!(
        refused(MuxConfig::new(Scheme::NetworkAware { fragment, period, trend })),
        MuxConfigError::Trend
    );
    let (media_rate, with_sample, chunk) = (Bitrate::from_bps(100), period, Duration::from_millis(15));
    assert_eq!(
        refused(MuxConfig::new(Scheme::VisualHaptic { media_rate, with_sample, chunk })),
        MuxConfigError::Chunk
    );
}

/// For timing from outside: `cargo test --release -p taut-media ten_million -- --ignored`. With `MUX_ONLY` set, without
/// the receiver.
#[test]
#[ignore = "a measurement"]
fn ten_million_packets() {
    let mut mux = Multiplexer::new(fixed_fragment()).unwrap();
    let mut demux = Demultiplexer::new(DemuxConfig::new());
    let mut sources = [FrameSource::audio(Time::ZERO), FrameSource::video(Time::ZERO)];
    let mut buffer = Vec::new();
    let demultiplex = std::env::var_os("MUX_ONLY").is_none();
    for tick in 0..10_000_000 {
        let now = at(tick);
        for source in &mut sources {
            if let Some(frame) = source.poll_sample(now) {
                mux.handle_sample(now, frame, &[], true);
            }
        }
        let sample = Sample { medium: Medium::Haptic, sequence: tick, created: now, size: Bytes::new(24) };
        mux.handle_sample(now, sample, &[1; 24], true);
        buffer.clear();
        while let Some(transmit) = mux.poll_transmit(now, &mut buffer) {
            if demultiplex {
                demux.handle_input(now, &buffer, transmit.padding);
                while demux.poll_event().is_some() {}
            }
            buffer.clear();
        }
    }
    assert!(!demultiplex || demux.stats().samples == 10_000_000);
}
