//! What arrives, over which paths, and what happens when one dies.

use proptest::prelude::*;
use taut_core::{Bytes, Duration, Event, Message, PathId, Priority, Probability, SendError, Time, Transport};
use taut_transport::quic::{CloseReason, MAX_PATHS, PathUse, QuicConfig};

use super::harness::{CLIENT, Net, SERVER, Way, at_ms, latency, ms};

fn fail_over() -> QuicConfig {
    QuicConfig::multipath(PathUse::FailOver)
}

fn duplicate() -> QuicConfig {
    QuicConfig::multipath(PathUse::Duplicate)
}

fn share(of: f64) -> Probability {
    Probability::from_fraction(of).expect("a share")
}

/// With both paths open.
fn open(config: QuicConfig, seed: u64) -> Net {
    let mut net = Net::new(config, seed);
    net.run_until(at_ms(1_000));
    for end in [CLIENT, SERVER] {
        assert_eq!(net.count(end, |event| *event == Event::Connected), 1);
        assert_eq!(net.ends[end].paths().collect::<Vec<_>>(), [PathId(0), PathId(1)]);
    }
    net
}

#[test]
fn by_default_the_first_path_carries_everything_and_the_other_stands_by() {
    let mut net = open(fail_over(), 1);
    let before = net.ways[1].carried;
    let sent = net.samples(CLIENT, ms(30), at_ms(11_000));
    net.run_until(at_ms(12_000));
    let received = net.received(SERVER);
    assert_eq!(received.len() as u64, sent);
    assert!(received.iter().all(|sample| latency(sample) == ms(4)));
    // Pings, and their answers: ten a second from either end.
    assert!(net.ways[1].carried.iter().zip(before).all(|(after, before)| after - before < 500));
    assert_eq!(net.ends[CLIENT].stats().copies, sent);
}

#[test]
fn over_paths_of_a_microsecond_an_end_that_paces_is_called_when_some_time_has_passed() {
    for config in [fail_over(), duplicate()] {
        let mut net = Net::new(config, 1);
        net.ways.iter_mut().for_each(|way| way.delay = Duration::from_micros(1));
        net.run_until(at_ms(1_000));
        for _ in 0..100 {
            for _ in 0..4 {
                let data = vec![0; 1_100];
                net.send(CLIENT, Message { data, created: net.now, ..Message::default() });
            }
            net.run_until(net.now + ms(1));
        }
        assert!(!net.received(SERVER).is_empty());
    }
}

#[test]
fn a_path_that_falls_silent_is_left_after_its_idle_timeout_and_opened_again_when_it_is_back() {
    let mut net = open(fail_over(), 1);
    net.ways[0].cut = Some((at_ms(5_000), at_ms(9_000)));
    let sent = net.samples(CLIENT, ms(30), at_ms(14_000));
    net.run_until(at_ms(15_000));
    let lost = sent - net.received(SERVER).len() as u64;
    // Half a second of 30 ms, and what was under way.
    assert!((10..=25).contains(&lost), "{lost}");
    for end in [CLIENT, SERVER] {
        assert_eq!(net.count(end, |event| *event == Event::PathDown(PathId(0))), 1, "{end}");
        assert_eq!(net.ends[end].paths().count(), 2, "{end}");
    }
    assert_eq!(net.ends[CLIENT].close_reason(), None);
}

#[test]
fn with_copies_on_every_path_neither_a_dead_path_nor_loss_on_both_is_felt() {
    let mut net = open(duplicate(), 1);
    net.ways[0].cut = Some((at_ms(5_000), Time::MAX));
    let sent = net.samples(CLIENT, ms(30), at_ms(14_000));
    net.run_until(at_ms(15_000));
    let received = net.received(SERVER);
    assert_eq!(received.len() as u64, sent);
    assert!(received.iter().all(|sample| latency(sample) <= ms(5)));

    let mut net = open(duplicate(), 1);
    net.ways.iter_mut().for_each(|way| way.loss = share(0.1));
    let sent = net.samples(CLIENT, ms(30), at_ms(60_000));
    net.run_until(at_ms(61_000));
    let received = net.received(SERVER).len() as f64 / sent as f64;
    assert!((received - 0.99).abs() < 0.006, "{received}");
    let stats = net.ends[CLIENT].stats();
    assert!(stats.copies > 2 * stats.sent - 10 && stats.copies <= 2 * stats.sent, "{stats:?}");
    assert!(net.ends[SERVER].stats().duplicates > sent / 2);
}

#[test]
fn copies_go_over_different_paths() {
    let mut net = open(duplicate(), 1);
    let before = [net.ways[0].carried[CLIENT], net.ways[1].carried[CLIENT]];
    let sent = net.samples(CLIENT, ms(30), at_ms(4_000));
    for (way, before) in net.ways.iter().zip(before) {
        assert!(way.carried[CLIENT] - before >= sent, "{:?}", way.carried);
    }
    assert_eq!(net.ends[SERVER].stats().duplicates, sent);
}

fn lost_at_1_khz(dead: usize, delay: Duration, from: usize) -> u64 {
    let mut net = open(duplicate(), 1);
    net.ways.iter_mut().for_each(|way| way.delay = delay);
    net.ways[dead].cut = Some((at_ms(3_000), Time::MAX));
    let sent = net.samples(from, ms(1), at_ms(8_000));
    net.run_until(at_ms(9_000));
    sent - net.received(1 - from).len() as u64
}

/// One with which it is noticed at most, when the last copy's path is the dead one.
#[test]
fn at_1_khz_copies_survive_a_dead_path_whoever_sends_them() {
    for (dead, from) in [(0, CLIENT), (0, SERVER), (1, CLIENT), (1, SERVER)] {
        for delay in [Duration::from_micros(50), ms(1), ms(4), ms(10)] {
            let lost = lost_at_1_khz(dead, delay, from);
            assert!(lost <= 1, "{lost}: path {dead}, from {from}, {delay} one way");
        }
    }
}

/// The first path dies for a second and is opened again; then the other one dies. A robot answers at 1 kHz what comes at 500 Hz:
/// what did not arrive at each end, and the longest silence there.
fn lost_of_both(config: QuicConfig, seed: u64) -> [(usize, Duration); 2] {
    let mut net = open(config, seed);
    net.ways.iter_mut().for_each(|way| way.delay = Duration::from_micros(50));
    let first = at_ms(3_000 + seed * 7);
    net.ways[0].cut = Some((first, first + ms(1_000)));
    net.ways[1].cut = Some((first + ms(2_500), Time::MAX));
    let mut sent = [0; 2];
    for turn in 0..first.as_nanos() / 1_000_000 + 4_000 {
        for from in [CLIENT, SERVER].into_iter().skip((turn % 2) as usize) {
            let data = [net.now.as_nanos().to_le_bytes(); 12].concat();
            net.send(from, Message { data, created: net.now, ..Message::default() });
            sent[from] += 1;
        }
        net.run_until(net.now + ms(1));
    }
    [SERVER, CLIENT].map(|end| {
        let received = net.received(end);
        let silences = received.windows(2).map(|pair| pair[1].0 - pair[0].0);
        (sent[1 - end] - received.len(), silences.max().expect("something arrives"))
    })
}

#[test]
fn copies_of_both_ends_survive_each_path_in_its_turn() {
    for seed in 0..6 {
        for (lost, silence) in lost_of_both(duplicate(), seed) {
            assert!(lost <= 2 && silence < ms(5), "{seed}: {lost} lost, {silence}");
        }
    }
}

#[test]
fn each_fail_over_takes_an_idle_timeout_and_no_longer_the_second_time_as_the_first() {
    for seed in 0..6 {
        let [(lost, silence), (lost_back, silence_back)] = lost_of_both(fail_over(), seed);
        assert!(lost <= 2 * 255 && silence < ms(520), "{seed}: {lost} of the client, {silence}");
        assert!(
            lost_back <= 2 * 510 && silence_back < ms(520),
            "{seed}: {lost_back} of the server, {silence_back}"
        );
    }
}

#[test]
fn answers_take_the_way_that_the_client_chose() {
    let mut net = open(fail_over(), 1);
    let before = net.ways[1].carried[SERVER];
    let sent = net.samples(SERVER, ms(30), at_ms(6_000));
    net.run_until(at_ms(7_000));
    assert_eq!(net.received(CLIENT).len() as u64, sent);
    assert!(net.ways[1].carried[SERVER] - before < 300);
}

#[test]
fn what_is_reliable_arrives_whole_though_a_path_dies_under_it() {
    for config in [fail_over(), duplicate()] {
        let mut net = open(config, 2);
        net.ways.iter_mut().for_each(|way| way.loss = share(0.05));
        net.ways[0].cut = Some((at_ms(1_030), at_ms(4_000)));
        let messages: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; 2_000 + 100 * usize::from(n)]).collect();
        for message in &messages {
            net.reliable(CLIENT, message.clone());
        }
        net.run_until(at_ms(20_000));
        let received: Vec<_> = net.received(SERVER).iter().map(|(_, data)| data.to_vec()).collect();
        assert_eq!(received, messages);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let run = |seed| {
        let mut net = Net::new(duplicate(), seed);
        net.ways.iter_mut().for_each(|way| way.loss = share(0.02));
        net.run_until(at_ms(500));
        net.samples(CLIENT, ms(10), at_ms(3_000));
        net.sent
    };
    let first = run(1);
    assert!(first == run(1));
    assert!(first != run(2));
}

#[test]
fn paths_are_bounded_and_a_server_opens_none() {
    let mut net = open(fail_over(), 1);
    for id in 2..40 {
        let added = net.ends[CLIENT].add_path(net.now, PathId(id));
        assert_eq!(added, usize::from(id) < MAX_PATHS);
    }
    assert!(!net.ends[CLIENT].add_path(net.now, PathId(0)) && !net.ends[SERVER].add_path(net.now, PathId(9)));
}

#[test]
fn a_message_that_fits_in_no_datagram_is_refused_and_the_longest_that_does_arrives() {
    let mut net = open(duplicate(), 1);
    let limit = net.ends[CLIENT].max_unreliable();
    let message = |size: u64| Message { data: vec![7; size as usize], ..Message::default() };
    let size = limit + Bytes::new(1);
    let refused = net.ends[CLIENT].send(net.now, message(size.get()));
    assert_eq!(refused, Err(SendError::TooLarge { size, limit }));
    net.send(CLIENT, message(limit.get()));
    net.run_until(at_ms(1_100));
    assert_eq!(net.received(SERVER).len(), 1);
}

#[test]
fn goodbye_ends_both_and_silence_does_too() {
    let mut net = open(fail_over(), 1);
    net.ends[CLIENT].close(net.now);
    net.drain(CLIENT);
    net.run_until(at_ms(5_000));
    assert_eq!(net.ends[CLIENT].close_reason(), Some(&CloseReason::Local));
    assert_eq!(net.ends[SERVER].close_reason(), Some(&CloseReason::Peer));
    assert!((0..2).all(|end| net.ends[end].poll_timeout().is_none()));

    let mut net = open(fail_over(), 1);
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(2_000), Time::MAX)));
    net.run_until(at_ms(20_000));
    assert!((0..2).all(|end| net.count(end, |event| *event == Event::Closed) == 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever happens on the way: each sample is delivered once at most, what was offered is accounted for.
    #[test]
    fn the_books_close_after_any_luck(
        seed in any::<u64>(), copies in any::<bool>(), loss in 0u32..40, doubled in 0u32..30, jitter in 0u64..30,
        cut in prop::option::of((0u64..4_000, 0u64..4_000)), waits in prop::collection::vec(0u64..60, 1..120),
    ) {
        let mut net = Net::new(if copies { duplicate() } else { fail_over() }, seed);
        for way in &mut net.ways {
            (way.loss, way.duplicate) = (share(f64::from(loss) / 100.0), share(f64::from(doubled) / 100.0));
            way.jitter = ms(jitter);
        }
        net.ways[0].cut = cut.map(|(from, len)| (at_ms(from), at_ms(from + len)));
        for (tag, wait) in waits.iter().enumerate() {
            net.run_until(net.now + ms(*wait));
            let data = [(tag as u64).to_le_bytes(), net.now.as_nanos().to_le_bytes()].concat();
            let message = Message { data, created: net.now, tag: tag as u64, ..Message::default() };
            if net.ends[CLIENT].send(net.now, message).is_ok() {
                net.drain(CLIENT);
            }
        }
        net.run_until(net.now + ms(1_000));
        net.ends[CLIENT].close(net.now);
        net.drain(CLIENT);
        net.run_until(net.now + ms(30_000));
        let stats = net.ends[CLIENT].stats();
        let gone = stats.superseded + stats.too_late + stats.abandoned + stats.unsendable;
        prop_assert_eq!(stats.offered, stats.sent + gone, "{:?}", stats);
        let mut tags: Vec<&[u8]> = net.received(SERVER).iter().map(|(_, data)| &data[..8]).collect();
        let count = tags.len();
        tags.sort_unstable();
        tags.dedup();
        prop_assert_eq!(tags.len(), count);
        prop_assert!(count as u64 <= stats.sent && stats.copies <= 2 * stats.sent);
    }
}

#[test]
fn an_emergency_goes_over_every_path_and_what_follows_over_the_first_again() {
    for (end, at) in [(CLIENT, 5_001), (CLIENT, 5_250), (SERVER, 5_001), (SERVER, 5_250)] {
        let mut net = open(fail_over().emergency(Priority(0)), 1);
        let sent = net.plain(end, ms(30), at_ms(4_900));
        net.ways[0].cut = Some((at_ms(5_000), at_ms(5_300)));
        net.plain(end, ms(10), at_ms(at));
        let data = [u64::MAX.to_le_bytes(), net.now.as_nanos().to_le_bytes()].concat();
        let (created, priority) = (net.now, Priority(0));
        net.send(end, Message { data, created, priority, ..Message::default() });
        net.plain(end, ms(10), at_ms(5_290));
        net.run_until(at_ms(5_500));
        let received = net.received(1 - end);
        let stop = received.iter().find(|(_, data)| data[..8] == u64::MAX.to_le_bytes()).expect("it arrives");
        assert!(latency(stop) <= ms(7), "{end}, {at}: {}", latency(stop));
        assert!(sent < received.len() as u64);
        let before = [net.ways[0].carried[end], net.ways[1].carried[end]];
        net.plain(end, ms(10), at_ms(7_500));
        let carried = [net.ways[0].carried[end] - before[0], net.ways[1].carried[end] - before[1]];
        assert!(carried[0] >= 200 && carried[1] < 120, "{end}, {at}: {carried:?}");
    }
}

#[test]
fn copies_for_paths_that_are_gone_hold_up_no_other() {
    let mut net = open(duplicate(), 1);
    for id in 2..8 {
        net.ways.push(Way::new(ms(4)));
        assert!(net.ends[CLIENT].add_path(net.now, PathId(id)));
    }
    net.run_until(at_ms(2_000));
    assert_eq!(net.ends[CLIENT].paths().count(), 8);
    net.samples(CLIENT, ms(30), at_ms(2_100));
    let before: Vec<u64> = net.ways.iter().map(|way| way.carried[CLIENT]).collect();
    let now = net.now;
    let message = Message { data: vec![1; 100], created: now, priority: Priority(0), ..Message::default() };
    net.ends[CLIENT].send(now, message).expect("there is room");
    let first = net.ends[CLIENT].poll_transmit(now, &mut Vec::new()).expect("the first copy").path;
    let others: Vec<PathId> = (0..8).map(PathId).filter(|path| *path != first).collect();
    others[..5].iter().for_each(|path| net.ends[CLIENT].remove_path(now, *path));
    net.drain(CLIENT);
    for path in &others[5..] {
        let place = usize::from(path.0);
        assert!(net.ways[place].carried[CLIENT] > before[place], "{path:?}: {before:?}");
    }
}

/// Both ends speak of the paths for each emergency, and the words of one cross those of the other.
#[test]
fn words_about_paths_that_cross_come_to_rest() {
    for offset in 0..20 {
        let mut net = open(fail_over().emergency(Priority(0)), 1);
        for turn in 0..200 {
            for end in [CLIENT, SERVER] {
                net.samples(end, ms(1 + (offset + turn) % 5), net.now + ms(1));
            }
        }
        net.run_until(net.now + ms(500));
        let before: Vec<[u64; 2]> = net.ways.iter().map(|way| way.carried).collect();
        net.run_until(net.now + ms(2_000));
        for (way, before) in net.ways.iter().zip(before) {
            let carried = way.carried[CLIENT] - before[CLIENT] + way.carried[SERVER] - before[SERVER];
            // Pings and their answers.
            assert!(carried < 170, "{offset}: {carried} in two seconds of silence");
        }
    }
}
