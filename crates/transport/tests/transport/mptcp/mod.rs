//! MPTCP between two endpoints with several paths, in virtual time.

mod kernel;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use taut_core::{
    Bytes, Datagram, DropCause, Duration, Ecn, Event, Message, PathId, Priority, Probability, Reliability,
    Rng, Seed, Time, Transport,
};
use taut_transport::mptcp::{Mptcp, MptcpConfig, Scheduler};
use taut_transport::tcp::{Counting, Tcp, TcpConfig};

use crate::net::{MS, at_ms};

struct Way {
    delay: Duration,
    loss: f64,
    cut: Option<Time>,
    /// When a path that was cut is back.
    until: Option<Time>,
    /// Bits per second; the queue holds 100 ms.
    rate: Option<u64>,
    busy: [Time; 2],
    bytes: [u64; 2],
}

fn way(delay_ms: u64) -> Way {
    let (busy, bytes) = ([Time::ZERO; 2], [0; 2]);
    Way { delay: MS * delay_ms, loss: 0.0, cut: None, until: None, rate: None, busy, bytes }
}

/// When, in which order, at which end, over which path, what, zeros after it.
type Arrival = (Time, u64, usize, u8, Vec<u8>, u32);

struct Net {
    now: Time,
    ends: [Mptcp; 2],
    ways: Vec<Way>,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    offers: Vec<(Time, u64)>,
    events: [Vec<(Time, Event)>; 2],
    count: u64,
    rng: Rng,
}

impl Net {
    fn new(config: MptcpConfig, ways: Vec<Way>) -> Self {
        let seed = Seed::new(5);
        let mut client = Mptcp::client(config.clone(), seed.stream("client"));
        (0..ways.len()).for_each(|path| assert!(client.add_path(Time::ZERO, PathId(path as u8))));
        let server = Mptcp::server(config, seed.stream("server"));
        let (arrivals, offers, events) = (BinaryHeap::new(), Vec::new(), Default::default());
        let (now, ends, rng) = (Time::ZERO, [client, server], seed.stream("net"));
        Self { now, ends, ways, arrivals, offers, events, count: 0, rng }
    }

    /// A command of 120 bytes each `period`.
    fn commands(mut self, period: Duration, count: u64) -> Self {
        self.offers = (0..count).rev().map(|n| (at_ms(500) + period * n, n)).collect();
        self
    }

    fn run_until(&mut self, end: Time) {
        self.pump(0);
        loop {
            let timers = self.ends.iter().filter_map(|end| Some(end.poll_timeout()?.at.max(self.now)));
            let next = self.arrivals.peek().map(|arrival| arrival.0.0).into_iter();
            let next = next.chain(self.offers.last().map(|(at, _)| *at)).chain(timers).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next;
            if let Some((_, n)) = self.offers.pop_if(|(at, _)| *at <= next) {
                let mut data = vec![0; 120];
                data[..8].copy_from_slice(&n.to_le_bytes());
                data[8..16].copy_from_slice(&next.as_nanos().to_le_bytes());
                self.ends[0]
                    .send(next, Message { data, created: next, tag: n, ..Message::default() })
                    .expect("room");
                self.pump(0);
            } else if let Some(Reverse((_, _, to, path, data, padding))) =
                self.arrivals.peek().filter(|arrival| arrival.0.0 <= next).cloned()
            {
                self.arrivals.pop();
                let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data: &data, padding };
                self.ends[to].handle_input(next, input);
                self.pump(to);
            } else {
                for end in 0..2 {
                    self.ends[end].handle_timeout(next);
                    self.pump(end);
                }
            }
        }
        self.now = end;
    }

    fn pump(&mut self, end: usize) {
        loop {
            let mut data = Vec::new();
            let transmit = self.ends[end].poll_transmit(self.now, &mut data);
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push((self.now, event));
            }
            let Some(transmit) = transmit else { return };
            let way = &mut self.ways[usize::from(transmit.path.0)];
            let size = data.len() as u64 + 20;
            way.bytes[end] += size;
            let lost = Probability::from_fraction(way.loss).expect("a share").sample(&mut self.rng);
            let dead =
                way.cut.is_some_and(|cut| self.now >= cut) && way.until.is_none_or(|until| self.now < until);
            if lost || dead {
                continue;
            }
            let mut leaves = self.now;
            if let Some(rate) = way.rate {
                let start = way.busy[end].max(self.now);
                if start.saturating_since(self.now) > MS * 100 {
                    continue;
                }
                leaves = start + Duration::from_nanos(size * 8_000_000_000 / rate);
                way.busy[end] = leaves;
            }
            self.count += 1;
            let arrival = (leaves + way.delay, self.count, 1 - end, transmit.path.0, data, transmit.padding);
            self.arrivals.push(Reverse(arrival));
        }
    }

    /// Which commands arrived, in their order, and how long each took.
    fn received(&self) -> Vec<(u64, Duration)> {
        let number =
            |data: &[u8], at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("8 bytes"));
        let taken = self.events[1].iter().filter_map(|(at, event)| match event {
            Event::Received { data, .. } => {
                Some((number(data, 0), at.saturating_since(Time::from_nanos(number(data, 8)))))
            }
            _ => None,
        });
        taken.collect()
    }
}

/// As Linux sets its timers.
fn config(scheduler: Scheduler) -> MptcpConfig {
    // A held back acknowledgement would count as a longer round trip.
    let subflow = TcpConfig { min_rto: TcpConfig::LINUX_MIN_RTO, ack_every: 1, ..TcpConfig::default() };
    MptcpConfig { subflow, scheduler, uncoupled: false }
}

const ALL: [Scheduler; 4] = [Scheduler::MinRtt, Scheduler::Redundant, Scheduler::Blest, Scheduler::Ecf];

#[test]
fn everything_arrives_once_and_in_order_over_the_quicker_path() {
    for scheduler in ALL {
        let mut net = Net::new(config(scheduler), vec![way(8), way(4)]).commands(MS * 30, 500);
        net.run_until(at_ms(20_000));
        let received = net.received();
        assert_eq!(received.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
        assert!(received[10..].iter().all(|(_, took)| *took == MS * 4), "{scheduler:?}");
        let copies = net.ends[0].stats().pieces;
        assert_eq!(copies, if scheduler == Scheduler::Redundant { 1_000 } else { 500 }, "{scheduler:?}");
    }
}

#[test]
fn a_path_that_dies_costs_a_timeout_and_nothing_else() {
    let mut ways = vec![way(4), way(5)];
    ways[0].cut = Some(at_ms(8_000));
    let mut net = Net::new(config(Scheduler::MinRtt), ways).commands(MS * 30, 500);
    net.run_until(at_ms(20_000));
    let received = net.received();
    assert_eq!(received.len(), 500);
    let worst = received.iter().map(|(_, took)| *took).max().expect("there are some");
    assert!(worst > MS * 150 && worst < MS * 450, "{worst}");
    assert!(net.ends[0].stats().reinjected > 0);
    let late = received.iter().filter(|(_, took)| *took > MS * 15).count();
    assert!(late < 40, "after the timeout the other path carries all: {late}");
}

#[test]
fn two_copies_hide_the_death_of_a_path() {
    let mut ways = vec![way(4), way(5)];
    ways[0].cut = Some(at_ms(8_000));
    let mut net = Net::new(config(Scheduler::Redundant), ways).commands(MS * 30, 500);
    net.run_until(at_ms(20_000));
    assert_eq!(net.received().len(), 500);
    assert!(net.received()[10..].iter().all(|(_, took)| *took <= MS * 5));
}

#[test]
fn a_path_that_is_removed_or_added_moves_the_flow_without_a_timeout() {
    let mut net = Net::new(config(Scheduler::MinRtt), vec![way(4), way(9), way(2)]).commands(MS * 30, 500);
    net.ends[0].remove_path(net.now, PathId(2));
    net.run_until(at_ms(5_000));
    net.ends[0].remove_path(net.now, PathId(0));
    net.pump(0);
    net.run_until(at_ms(10_000));
    assert!(net.ends[0].add_path(net.now, PathId(2)));
    net.pump(0);
    net.run_until(at_ms(20_000));
    let received = net.received();
    assert_eq!(received.len(), 500);
    assert!(received.iter().all(|(_, took)| *took <= MS * 40), "{:?}", received.iter().max_by_key(|r| r.1));
    assert_eq!(received.last().map(|(_, took)| *took), Some(MS * 2));
}

#[test]
fn a_path_that_was_used_is_used_again_once_it_is_added_again() {
    let mut net = Net::new(config(Scheduler::MinRtt), vec![way(4), way(9)]).commands(MS * 30, 500);
    for added_at in [5_000, 10_000] {
        net.run_until(at_ms(added_at));
        net.ends[0].remove_path(net.now, PathId(0));
        assert!(net.ends[0].add_path(net.now, PathId(0)));
        net.pump(0);
    }
    net.run_until(at_ms(20_000));
    let received = net.received();
    assert_eq!(received.len(), 500);
    assert!(received.iter().all(|(_, took)| *took <= MS * 40), "{:?}", received.iter().max_by_key(|r| r.1));
    assert_eq!(received.last().map(|(_, took)| *took), Some(MS * 4));
    for end in &net.ends {
        assert_eq!(end.subflows().count(), 2);
    }
}

#[test]
fn the_only_path_takes_again_what_it_had_when_it_was_removed() {
    // What goes in the last 50 ms before that is lost.
    let cut = Way { cut: Some(at_ms(950)), until: Some(at_ms(1_000)), ..way(4) };
    let mut net = Net::new(config(Scheduler::MinRtt), vec![cut]).commands(MS * 3, 500);
    net.run_until(at_ms(1_000));
    net.ends[0].remove_path(net.now, PathId(0));
    assert!(net.ends[0].add_path(net.now, PathId(0)));
    net.pump(0);
    net.run_until(at_ms(20_000));
    assert_eq!(net.received().len(), 500);
}

/// RFC 6356 section 3: over a bottleneck that its subflows share, a connection takes what one TCP takes.
#[test]
fn coupled_windows_take_less_than_uncoupled_ones_of_lossy_paths() {
    let carried = |uncoupled| {
        let mut ways = vec![way(20), way(20)];
        ways.iter_mut().for_each(|way| (way.loss, way.rate) = (0.01, Some(20_000_000)));
        let subflow = TcpConfig {
            send_buffer: Bytes::new(8 << 20),
            receive_window: Bytes::new(8 << 20),
            ..config(Scheduler::MinRtt).subflow
        };
        let mut net = Net::new(MptcpConfig { subflow, uncoupled, ..config(Scheduler::MinRtt) }, ways);
        let data = vec![0; 1_400];
        let mut offered = 0;
        for tick in 0..3_000 {
            while net.ends[0].send(net.now, Message { data: data.clone(), ..Message::default() }).is_ok() {
                offered += 1;
            }
            net.pump(0);
            net.run_until(at_ms(10 * tick));
        }
        assert!(offered > 0);
        net.ends[1].stats().received
    };
    let (coupled, uncoupled) = (carried(false), carried(true));
    assert!(coupled * 10 < uncoupled * 9, "{coupled} of {uncoupled}");
    assert!(coupled * 10 > uncoupled * 4, "{coupled} of {uncoupled}");
}

#[test]
fn goodbye_comes_after_all_that_was_offered() {
    let mut net = Net::new(config(Scheduler::MinRtt), vec![way(4), way(5)]).commands(MS, 100);
    net.run_until(at_ms(599));
    net.ends[0].close(net.now);
    net.pump(0);
    net.run_until(at_ms(3_000));
    assert_eq!(net.received().len(), 100);
    for end in 0..2 {
        assert!(net.events[end].iter().any(|(_, event)| *event == Event::Closed), "{end}");
    }
}

/// Offers `count` messages of `size` bytes from 500 ms on, each as soon as there is room, and waits for so long.
fn transfer(net: &mut Net, size: usize, count: usize, until_ms: u64) -> usize {
    let mut offered = 0;
    for tick in 500..until_ms {
        net.run_until(at_ms(tick));
        let data = vec![7; size];
        while offered < count
            && net.ends[0].send(net.now, Message { data: data.clone(), ..Message::default() }).is_ok()
        {
            offered += 1;
        }
        net.pump(0);
    }
    offered
}

#[test]
fn messages_longer_than_windows_and_buffers_arrive_whole_and_in_order() {
    for scheduler in ALL {
        for (size, count) in [(900_000, 12), (100_000, 60)] {
            let mut ways = vec![way(20), way(15)];
            ways.iter_mut().for_each(|way| way.rate = Some(20_000_000));
            let mut net = Net::new(config(scheduler), ways);
            let offered = transfer(&mut net, size, count, 12_000);
            let received = net.events[1].iter().filter(|(_, event)| match event {
                Event::Received { data, .. } => data.len() == size && data.iter().all(|byte| *byte == 7),
                _ => false,
            });
            assert_eq!((offered, received.count()), (count, count), "{scheduler:?}, {size} B");
            net.ends[0].close(net.now);
            net.pump(0);
            net.run_until(at_ms(14_000));
            assert!(
                net.events[0].iter().any(|(_, event)| *event == Event::Closed),
                "{scheduler:?}, {size} B"
            );
        }
    }
}

#[test]
fn what_waits_is_sent_before_goodbye() {
    let mut net = Net::new(config(Scheduler::MinRtt), vec![way(20), way(15)]);
    net.run_until(at_ms(500));
    net.ends[0].send(net.now, Message { data: vec![1; 500_000], ..Message::default() }).expect("room");
    net.ends[0].close(net.now);
    net.pump(0);
    net.run_until(at_ms(5_000));
    assert_eq!(net.ends[1].stats().received, 1);
    assert!(net.events[0].iter().any(|(_, event)| *event == Event::Closed));
}

#[test]
fn what_is_more_urgent_overtakes_what_no_subflow_has() {
    for scheduler in ALL {
        let mut ways = vec![way(20), way(15)];
        ways.iter_mut().for_each(|way| way.rate = Some(20_000_000));
        let mut net = Net::new(config(scheduler), ways);
        net.run_until(at_ms(500));
        for (priority, size) in [(6, 200_000), (6, 100_000), (6, 50_000), (0, 100), (2, 200)] {
            let message = Message { data: vec![7; size], priority: Priority(priority), ..Message::default() };
            net.ends[0].send(net.now, message).expect("room");
        }
        net.pump(0);
        net.run_until(at_ms(3_000));
        let events: Vec<_> = net.events[1].iter().map(|(_, event)| event.clone()).collect();
        assert_eq!(lengths(&events), [200_000, 100, 200, 100_000, 50_000], "{scheduler:?}");
    }
}

#[test]
fn a_full_buffer_makes_room_by_dropping_what_is_late() {
    let mut net = Net::new(config(Scheduler::MinRtt), vec![way(20)]);
    let message = |size, deadline| Message { data: vec![7; size], deadline, ..Message::default() };
    net.run_until(at_ms(500));
    net.ends[0].send(net.now, message(1_000_000, None)).expect("room");
    let late = Message { created: net.now, ..message(40_000, Some(MS)) };
    net.ends[0].send(net.now, late).expect("room");
    assert!(net.ends[0].send(net.now, message(40_000, None)).is_err());
    net.ends[0].send(net.now + MS, message(40_000, None)).expect("room");
    assert_eq!(net.ends[0].stats().too_late, 1);
}

/// Over a quick path that is nearly full and a slow one, what minRTT gives the slow one whenever the quick one's window is full.
#[test]
fn with_full_windows_ecf_and_blest_leave_to_the_quick_path_what_minrtt_gives_to_the_slow_one() {
    let slow = |scheduler, receive_window: u64| {
        let mut ways = vec![way(5), way(100)];
        ways[0].rate = Some(20_000_000);
        let subflow = TcpConfig { receive_window: Bytes::new(receive_window), ..config(scheduler).subflow };
        let mut net = Net::new(MptcpConfig { subflow, ..config(scheduler) }, ways);
        transfer(&mut net, 60_000, 1, 4_000);
        assert_eq!(net.ends[1].stats().received, 1, "{scheduler:?}");
        let last = net.events[1].iter().rfind(|(_, event)| matches!(event, Event::Received { .. }));
        (net.ways[1].bytes[0], last.expect("it came").0.saturating_since(at_ms(500)))
    };
    let ample = 1 << 20;
    let (minrtt, ecf) = (slow(Scheduler::MinRtt, ample), slow(Scheduler::Ecf, ample));
    assert!(minrtt.0 > 10_000 && ecf.0 < 2_000, "{minrtt:?} {ecf:?}");
    assert!(ecf.1 < minrtt.1, "it waits for the quick path because that is sooner: {ecf:?}, {minrtt:?}");
    let (wide, narrow) = (slow(Scheduler::Blest, ample), slow(Scheduler::Blest, 64 << 10));
    assert!(
        narrow.0 < wide.0,
        "where the slow path's data would fill the window, BLEST waits: {narrow:?}, {wide:?}"
    );
    assert!(narrow.0 < slow(Scheduler::MinRtt, 64 << 10).0);
}

/// What a server makes of these pieces of a peer, of which each has its number, how much of its message follows, and its length.
fn server_of(pieces: &[(u64, u32, usize)], config: TcpConfig) -> (Mptcp, Vec<Event>) {
    let mut server = Mptcp::server(
        MptcpConfig { subflow: config.clone(), ..MptcpConfig::default() },
        Seed::new(5).stream("server"),
    );
    let (mut peer, mut now, mut events) = (Tcp::client(config, 1), Time::ZERO, Vec::new());
    let mut waiting = pieces.iter().peekable();
    for _ in 0..4_000 {
        now += MS;
        while let Some((number, follows, len)) = waiting.peek() {
            let head = [&number.to_be_bytes()[..], &follows.to_be_bytes(), &[0; 4]].concat();
            let data = [head, vec![7; *len]].concat();
            if peer
                .send(now, Message { data, reliability: Reliability::Reliable, ..Message::default() })
                .is_err()
            {
                break;
            }
            waiting.next();
        }
        peer.handle_timeout(now);
        server.handle_timeout(now);
        let mut data = Vec::new();
        while let Some(sent) = peer.poll_transmit(now, &mut data) {
            let input =
                Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: sent.padding };
            server.handle_input(now, input);
            data.clear();
        }
        while let Some(sent) = server.poll_transmit(now, &mut data) {
            let input =
                Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding: sent.padding };
            peer.handle_input(now, input);
            data.clear();
        }
        events.extend(std::iter::from_fn(|| server.poll_event()));
    }
    (server, events)
}

fn lengths(events: &[Event]) -> Vec<usize> {
    let received = events.iter().filter_map(|event| match event {
        Event::Received { data, .. } => Some(data.len()),
        _ => None,
    });
    received.collect()
}

/// Each of the small ones takes a whole segment of the window.
#[test]
fn where_windows_count_segments_the_next_path_takes_what_finds_no_room_in_the_first() {
    let subflow = TcpConfig { counted: Counting::Segments, ..config(Scheduler::MinRtt).subflow };
    let mut net = Net::new(MptcpConfig { subflow, ..config(Scheduler::MinRtt) }, vec![way(4), way(5)]);
    net.run_until(at_ms(500));
    let before = net.ways[1].bytes[0];
    for tag in 0..12 {
        net.ends[0].send(net.now, Message { data: vec![7; 120], tag, ..Message::default() }).expect("room");
        net.pump(0);
    }
    assert!(net.ways[1].bytes[0] > before + 120);
}

#[test]
fn what_did_not_arrive_is_told_when_the_connection_ends() {
    for scheduler in [&ALL[..], &[Scheduler::Linux]].concat() {
        let mut ways = vec![way(4), way(5)];
        ways.iter_mut().for_each(|way| way.rate = Some(2_000_000));
        let mut net = Net::new(config(scheduler), ways);
        net.run_until(at_ms(500));
        for tag in 0..60_u64 {
            let mut data = vec![0; 5_000];
            data[..8].copy_from_slice(&tag.to_le_bytes());
            net.ends[0].send(net.now, Message { data, tag, ..Message::default() }).expect("room");
        }
        net.pump(0);
        net.run_until(at_ms(700));
        net.ways.iter_mut().for_each(|way| way.cut = Some(at_ms(700)));
        net.run_until(at_ms(10_000_000));
        let arrived: Vec<u64> = net.received().iter().map(|(tag, _)| *tag).collect();
        let told = |tag| {
            let dropped = Event::Dropped { tag, cause: DropCause::Cut };
            net.events[0].iter().filter(|(_, event)| *event == dropped).count()
        };
        // Of what arrived last, no acknowledgement came.
        assert!(arrived.len() > 5 && told(0) == 0, "{scheduler:?}: {arrived:?}");
        let right = |tag: u64| if arrived.contains(&tag) { told(tag) <= 1 } else { told(tag) == 1 };
        assert!(
            (0..60).all(right),
            "{scheduler:?}: {arrived:?}, {:?}",
            (0..60).map(told).collect::<Vec<_>>()
        );
        assert_eq!(net.events[0].last().map(|(_, event)| event), Some(&Event::Closed), "{scheduler:?}");
    }
}

#[test]
fn an_end_that_is_closed_before_anybody_came_says_so() {
    let mut server = Mptcp::server(config(Scheduler::MinRtt), Seed::new(5).stream("server"));
    server.close(Time::ZERO);
    assert_eq!(server.poll_event(), Some(Event::Closed));
}

/// Large buffers, one path of that rate, bit/s, and one that is cut when the transfer begins.
fn wide_and_soon_cut(rate: u64) -> (MptcpConfig, Vec<Way>) {
    let mut ways = vec![way(4), way(50)];
    ways[0].rate = Some(rate);
    ways[1].cut = Some(at_ms(499));
    let config = config(Scheduler::MinRtt);
    let large = Bytes::new(8 << 20);
    let subflow = TcpConfig { send_buffer: large, receive_window: large, ..config.subflow };
    (MptcpConfig { subflow, ..config }, ways)
}

#[test]
fn more_small_messages_than_may_be_early_arrive_when_one_path_is_cut() {
    let (config, ways) = wide_and_soon_cut(100_000_000);
    let mut net = Net::new(config, ways);
    let offered = transfer(&mut net, 10, 40_000, 4_000);
    net.run_until(at_ms(10_000));
    assert_eq!((offered, net.ends[1].stats().received), (40_000, 40_000));
    let full = Event::Refused(DropCause::QueueFullPackets);
    assert!(net.events[1].iter().all(|(_, event)| *event != full));
}

#[test]
fn pieces_fit_the_segments_of_the_end_that_has_the_smaller_ones() {
    let (config, ways) = wide_and_soon_cut(400_000_000);
    let mut net = Net::new(config.clone(), ways);
    let subflow = TcpConfig { mss: 500, ..config.subflow.clone() };
    net.ends[1] = Mptcp::server(MptcpConfig { subflow, ..config }, Seed::new(5).stream("server"));
    let offered = transfer(&mut net, 900_000, 18, 4_000);
    let full = Event::Refused(DropCause::QueueFullPackets);
    assert_eq!(net.events[1].iter().filter(|(_, event)| *event == full).count(), 0);
    assert_eq!((offered, net.ends[1].stats().received), (18, 18));
    assert!(net.ends[0].stats().pieces >= 18 * 900_000 / 480);
}

#[test]
fn nothing_is_heard_of_a_peer_whose_message_was_too_long_whatever_its_numbers() {
    let config = TcpConfig { max_message: Bytes::new(10_000), ..TcpConfig::default() };
    let pieces = [(0, 9_000, 9_000), (1, 9_000, 9_000), (u64::MAX, 0, 10), (u64::MAX, 0, 10)];
    let (_, events) = server_of(&pieces, config);
    assert_eq!(lengths(&events), [0; 0]);
    assert!(events.contains(&Event::Closed), "{events:?}");
}

#[test]
fn pieces_longer_than_segments_take_the_room_of_several() {
    let config = TcpConfig { mss: 500, ..TcpConfig::default() };
    let pieces: Vec<_> = (1..=100).map(|number| (number, 0, 100_000)).chain([(0, 0, 10)]).collect();
    let (_, events) = server_of(&pieces, config);
    assert_eq!(lengths(&events).len(), 1 + 500 * (1 << 14) / 100_016);
}

#[test]
fn the_piece_that_all_wait_for_is_taken_however_many_are_early() {
    let pieces: Vec<_> = (1..=17_000).chain([0]).map(|number| (number, 0, 10)).collect();
    let (_, events) = server_of(&pieces, TcpConfig::default());
    assert!(events.iter().any(|event| matches!(event, Event::Refused(_))));
    assert_eq!(lengths(&events).len(), (1 << 14) + 1);
}

#[test]
fn a_message_that_grows_beyond_its_limit_ends_the_conversation() {
    let config = TcpConfig { max_message: Bytes::new(10_000), ..TcpConfig::default() };
    let (_, events) = server_of(&[(0, 0, 10), (1, 5_000, 5_000), (2, 0, 5_000), (3, 0, 20)], config.clone());
    assert_eq!(lengths(&events), [10, 10_000, 20]);
    let (server, events) = server_of(&[(0, 0, 10), (1, 9_000, 9_000), (2, 9_000, 9_000), (3, 0, 20)], config);
    assert_eq!(lengths(&events), [10]);
    assert!(events.contains(&Event::Closed), "{events:?}");
    assert!(!server.uses_path(PathId(7)));
}
