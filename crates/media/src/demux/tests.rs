use std::collections::BTreeSet;

use proptest::prelude::*;
use taut_wire::media::{Header, Part};

use super::*;
use crate::{Multiplexer, MuxConfig, Scheme};

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Datagrams of a session with real bytes in its frames, and all that was made.
fn session(ticks: u64, scheme: Scheme) -> (Vec<(Vec<u8>, u32)>, Vec<Sample>) {
    let mut mux = Multiplexer::new(MuxConfig::new(scheme)).unwrap();
    let (mut datagrams, mut made) = (Vec::new(), Vec::new());
    for tick in 0..ticks {
        let now = at(tick);
        let mut offer = |medium, sequence, length: u64, stored: usize| {
            let sample = Sample { medium, sequence, created: now, size: Bytes::new(length) };
            made.push(sample);
            mux.handle_sample(now, sample, &vec![sequence as u8; stored], true);
        };
        if tick % 4 == 0 && tick + 8 < ticks {
            // Of every second frame only the first part is stored, the rest are virtual zeros.
            offer(Medium::Audio, tick / 4, 70 + tick % 3, if tick % 8 == 0 { 70 } else { 33 });
            offer(Medium::Video, tick / 4, 90, if tick % 8 == 0 { 0 } else { 90 });
        }
        offer(Medium::Haptic, tick, 12, 12);
        let mut buffer = Vec::new();
        while let Some(transmit) = mux.poll_transmit(now, &mut buffer) {
            datagrams.push((std::mem::take(&mut buffer), transmit.padding));
        }
    }
    (datagrams, made)
}

fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::FixedFragment { fragment: Bytes::new(58) }),
        Just(Scheme::Separate),
        Just(Scheme::VisualHaptic {
            media_rate: taut_core::Bitrate::from_bps(400_000),
            with_sample: Duration::from_millis(1),
            chunk: Duration::from_millis(15),
        }),
        Just(Scheme::NetworkAware {
            fragment: Bytes::new(58),
            period: Duration::from_millis(1),
            trend: crate::TrendConfig::new(),
        }),
    ]
}

fn deliveries(demux: &mut Demultiplexer) -> Vec<Sample> {
    let events = std::iter::from_fn(|| demux.poll_event());
    events
        .filter_map(|event| if let NodeEvent::Delivered(sample) = event { Some(sample) } else { None })
        .collect()
}

fn key(sample: &Sample) -> (Medium, u64) {
    (sample.medium, sample.sequence)
}

proptest! {
    #[test]
    fn whatever_the_order_and_duplication_everything_is_delivered_once(
        scheme in schemes(),
        shuffle in proptest::collection::vec(any::<u32>(), 160),
    ) {
        let (datagrams, made) = session(80, scheme);
        // Each datagram twice, in an order made by sorting random keys.
        let mut order: Vec<(u32, usize)> =
            (0..2 * datagrams.len()).map(|i| (shuffle[i % shuffle.len()].wrapping_mul(i as u32 + 1), i / 2)).collect();
        order.sort_unstable();
        let mut demux = Demultiplexer::new(DemuxConfig::new());
        order.iter().for_each(|&(_, i)| demux.handle_input(at(100), &datagrams[i].0, datagrams[i].1));
        let delivered = deliveries(&mut demux);
        let unique: BTreeSet<_> = delivered.iter().map(key).collect();
        prop_assert_eq!(unique.len(), delivered.len());
        for sample in &made {
            prop_assert!(delivered.contains(sample), "{:?} is missing", sample);
        }
        prop_assert_eq!(delivered.len(), made.len());
        prop_assert_eq!(demux.stats().packets_duplicate, datagrams.len() as u64);
        prop_assert_eq!(demux.packets_missing(), 0);
    }

    #[test]
    fn with_loss_nothing_is_delivered_twice_or_altered(
        scheme in schemes(),
        fates in proptest::collection::vec((0u8..4, any::<u16>()), 80..160),
    ) {
        let (datagrams, made) = session(80, scheme);
        let mut order = Vec::new();
        for (i, (copies, place)) in (0..datagrams.len()).zip(fates.iter().cycle()) {
            (0..*copies).for_each(|copy| order.push((place.wrapping_mul(u16::from(copy) + 1), i)));
        }
        order.sort_unstable();
        let mut demux = Demultiplexer::new(DemuxConfig::new());
        order.iter().for_each(|&(_, i)| demux.handle_input(at(100), &datagrams[i].0, datagrams[i].1));
        let delivered = deliveries(&mut demux);
        let unique: BTreeSet<_> = delivered.iter().map(key).collect();
        prop_assert_eq!(unique.len(), delivered.len());
        prop_assert!(delivered.iter().all(|sample| made.contains(sample)));
    }

    #[test]
    fn no_bytes_panic(inputs in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..80), any::<u32>()), 0..20)) {
        let mut demux = Demultiplexer::new(DemuxConfig::new());
        for (mut bytes, padding) in inputs {
            if let Some(first) = bytes.first_mut() {
                *first |= 0x80;
            }
            demux.handle_input(at(1), &bytes, padding);
            while demux.poll_event().is_some() {}
        }
    }

    #[test]
    fn fragments_of_any_kind_keep_the_accounts_straight(
        fragments in proptest::collection::vec((0u32..200, 0u32..300, 0u32..100, any::<bool>()), 0..300),
    ) {
        let mut assembler = Assembler::new(8, Bytes::new(350));
        let mut complete = BTreeSet::new();
        for (frame, offset, length, last) in fragments {
            let part = if offset == 0 { Part::First { created: at(0) } } else { Part::Rest { offset } };
            let fragment = FragmentRepr { medium: Medium::Video, frame, part, length, last };
            if let Outcome::Complete { sequence, .. } = assembler.insert(&fragment, &[7; 3][..length.min(3) as usize]) {
                prop_assert!(complete.insert(sequence), "{} twice", sequence);
            }
            prop_assert_eq!(assembler.stats().complete, complete.len() as u64);
            prop_assert!(assembler.stats().pending <= 8);
        }
    }
}

#[test]
fn stored_bytes_come_out_as_they_went_in() {
    let (datagrams, _) = session(40, Scheme::FixedFragment { fragment: Bytes::new(58) });
    let mut demux = Demultiplexer::new(DemuxConfig::new());
    datagrams.iter().for_each(|(bytes, padding)| demux.handle_input(at(100), bytes, *padding));
    assert_eq!(demux.payload(39), Some(&[39; 12][..]));
    assert_eq!(demux.payload(3), None, "long overwritten");
    let padded = |medium, sequence, size: usize| {
        let mut bytes = demux.frame(medium, sequence).unwrap().to_vec();
        bytes.resize(size, 0);
        bytes
    };
    for frame in 0..8 {
        let stored = if frame % 2 == 0 { 70 } else { 33 };
        let mut audio = vec![frame as u8; stored];
        audio.resize(72, 0);
        assert_eq!(padded(Medium::Audio, frame, 72), audio);
        let video = if frame % 2 == 0 { 0 } else { frame as u8 };
        assert_eq!(padded(Medium::Video, frame, 90), vec![video; 90]);
    }
}

fn datagram(packet_number: u32, sent: Time, fragment: FragmentRepr) -> Vec<u8> {
    let mut bytes = Vec::new();
    Header { packet_number, sent, report: None, samples: 0, fragments: 1 }.emit(&mut bytes);
    fragment.emit(sent, &mut bytes);
    bytes
}

#[test]
fn an_incomplete_frame_is_given_up_after_the_window_and_counted() {
    let mut demux = Demultiplexer::new(DemuxConfig::new().frame_window(4));
    let begin = |frame| FragmentRepr {
        medium: Medium::Audio,
        frame,
        part: Part::First { created: at(0) },
        length: 10,
        last: frame != 5,
    };
    // Frame 5 never ends, 6 never comes.
    for (number, frame) in [5, 7, 8, 9, 10].into_iter().enumerate() {
        demux.handle_input(at(0), &datagram(number as u32, at(0), begin(frame)), 10);
    }
    let stats = FrameStats { complete: 4, incomplete: 1, missing: 1, pending: 0 };
    assert_eq!(demux.frame_stats(Medium::Audio), stats);
    assert_eq!(deliveries(&mut demux).len(), 4);
    let rest = FragmentRepr {
        medium: Medium::Audio,
        frame: 5,
        part: Part::Rest { offset: 10 },
        length: 1,
        last: true,
    };
    demux.handle_input(at(0), &datagram(9, at(0), rest), 1);
    assert_eq!(demux.poll_event(), Some(NodeEvent::Refused(Some(Medium::Audio), DropCause::TooLate)));
}

#[test]
fn fragments_that_contradict_each_other_are_refused() {
    let mut demux = Demultiplexer::new(DemuxConfig::new());
    let fragment = |offset, length, last| FragmentRepr {
        medium: Medium::Video,
        frame: 0,
        part: Part::Rest { offset },
        length,
        last,
    };
    demux.handle_input(at(0), &datagram(0, at(0), fragment(10, 10, true)), 10);
    demux.handle_input(at(0), &datagram(1, at(0), fragment(15, 10, false)), 10);
    assert_eq!(demux.poll_event(), Some(NodeEvent::Refused(Some(Medium::Video), DropCause::Malformed)));
    demux.handle_input(at(0), &datagram(2, at(0), fragment(5, 10, true)), 10);
    assert_eq!(demux.poll_event(), Some(NodeEvent::Refused(Some(Medium::Video), DropCause::Malformed)));
    demux.handle_input(at(0), &datagram(3, at(0), fragment(12, 3, false)), 3);
    assert_eq!(demux.poll_event(), Some(NodeEvent::Refused(Some(Medium::Video), DropCause::Duplicate)));
    assert_eq!(demux.stats().malformed, 2);
}

#[test]
fn reports_go_both_ways() {
    let mut mux = Multiplexer::new(MuxConfig::new(Scheme::Separate)).unwrap();
    let mut demux = Demultiplexer::new(DemuxConfig::new());
    // The peer's clock is ahead, so the transit is negative.
    let report = Report { packet_number: 4, transit_ns: -5_000_000 };
    mux.send_report(report);
    let sample = Sample { medium: Medium::Haptic, sequence: 0, created: at(20), size: Bytes::new(8) };
    mux.handle_sample(at(20), sample, &[], true);
    let mut buffer = Vec::new();
    mux.poll_transmit(at(20), &mut buffer).unwrap();
    demux.handle_input(at(28), &buffer, 0);
    assert_eq!(demux.take_report(), Some(report));
    assert_eq!(demux.take_report(), None);
    assert_eq!(demux.report(), Some(Report { packet_number: 2, transit_ns: 8_000_000 }));
}
