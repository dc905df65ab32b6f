//! What is connected to what, and which way packets go.

use taut_core::{Address, Bitrate, Bytes, Deadline, Duration, FlowId, Node, NodeEvent, Packet, PathId, Time};
use taut_sim::traffic::{Cbr, Sink, Source};
use taut_sim::{Ledger, Network, NetworkError, NodeClock};

use crate::nodes::{Arrivals, Echo, Script, at, wire};

#[test]
fn the_path_number_chooses_among_ways_of_equal_length() {
    let mut network = Network::new();
    let (a, b) = (network.vertex("a"), network.vertex("b"));
    network.link("fast", a, b, wire(3));
    network.link("slow", a, b, wire(20));
    let sink = network.node("sink", b, Box::new(Sink::default()));
    let packets = [0, 1, 0, 1, 2].map(|path| (Duration::ZERO, PathId(path)));
    let (script, _) = Script::new(sink, packets.to_vec());
    network.node("source", a, Box::new(script));
    let mut simulation = network.build(Arrivals::default()).unwrap();
    simulation.run_until(at(100));
    let (Arrivals(arrivals), _) = simulation.finish();
    // A number beyond the ways there are begins again with the first.
    let expected = [(3, 0), (3, 0), (3, 2), (20, 1), (20, 1)];
    assert_eq!(arrivals, expected.map(|(millis, path)| (at(millis), sink, PathId(path))));
}

#[test]
fn parallel_ways_over_routers_of_their_own_are_chosen_at_the_first_hop() {
    let mut network = Network::new();
    let [a, left, right, b] = ["a", "left", "right", "b"].map(|name| network.vertex(name));
    network.link("a-left", a, left, wire(1));
    network.link("a-right", a, right, wire(10));
    network.link("left-b", left, b, wire(1));
    network.link("right-b", right, b, wire(10));
    let sink = network.node("sink", b, Box::new(Sink::default()));
    let (script, _) = Script::new(sink, vec![(Duration::ZERO, PathId(0)), (Duration::ZERO, PathId(1))]);
    network.node("source", a, Box::new(script));
    let mut simulation = network.build(Arrivals::default()).unwrap();
    simulation.run_until(at(100));
    let (Arrivals(arrivals), _) = simulation.finish();
    assert_eq!(arrivals, [(at(2), sink, PathId(0)), (at(20), sink, PathId(1))]);
}

#[test]
fn a_shorter_way_is_preferred_however_slow() {
    let mut network = Network::new();
    let [a, router, b] = ["a", "router", "b"].map(|name| network.vertex(name));
    network.link("in", a, router, wire(1));
    network.link("out", router, b, wire(1));
    network.link("direct", a, b, wire(50));
    let sink = network.node("sink", b, Box::new(Sink::default()));
    let (script, _) = Script::new(sink, vec![(Duration::ZERO, PathId(1))]);
    network.node("source", a, Box::new(script));
    let mut simulation = network.build(Arrivals::default()).unwrap();
    simulation.run_until(at(100));
    assert_eq!(simulation.finish().0.0, [(at(50), sink, PathId(1))]);
}

/// Two stars of `hosts` each around their switches, joined by a cloud. Host i of one talks to host i of the other.
#[test]
fn star_lans_joined_by_a_cloud_carry_every_pair() {
    const HOSTS: u32 = 20;
    let mut network = Network::new();
    let cloud = network.vertex("cloud");
    let [west, east] = ["west", "east"].map(|lan| {
        let switch = network.vertex(lan);
        network.link(format!("{lan} up"), switch, cloud, wire(8));
        network.link(format!("{lan} down"), cloud, switch, wire(8));
        (0..HOSTS)
            .map(|host| {
                let vertex = network.vertex(format!("{lan}/{host}"));
                network.link(format!("{lan}/{host} up"), vertex, switch, wire(1));
                network.link(format!("{lan}/{host} down"), switch, vertex, wire(1));
                vertex
            })
            .collect::<Vec<_>>()
    });
    for (flow, (from, to)) in west.into_iter().zip(east).enumerate() {
        let sink = network.node(format!("sink {flow}"), to, Box::new(Sink::default()));
        let cbr = Cbr::new(Bitrate::from_bps(80_000), Bytes::new(100));
        let source = Source::new(sink, FlowId(flow as u32), Box::new(cbr));
        let source = network.node(format!("source {flow}"), from, Box::new(source));
        network.flow(source, sink);
    }
    let mut simulation = network.build((Arrivals::default(), Ledger::default())).unwrap();
    simulation.run_until(at(1000));
    let ((Arrivals(arrivals), ledger), held) = simulation.finish();
    let account = ledger.close(&held);
    assert_eq!(account.violations, Vec::<String>::new());
    // A packet every 10 ms; those of the last 18 ms are under way.
    assert_eq!((account.sent, account.held), (u64::from(HOSTS) * 101, u64::from(HOSTS) * 2));
    assert_eq!(arrivals.len() as u64, account.delivered);
    assert_eq!(arrivals[0].0, at(18));
    for host in 0..HOSTS {
        let here = arrivals.iter().filter(|(_, node, _)| *node == Address(2 * host as u16)).count();
        assert_eq!(here, 99, "host {host}");
    }
}

#[test]
fn ends_that_are_not_connected_are_named() {
    let mut network = Network::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| network.vertex(name));
    network.link("one way", a, b, wire(1));
    let at_a = network.node("at a", a, Box::new(Sink::default()));
    let at_b = network.node("at b", b, Box::new(Sink::default()));
    network.node("at c", c, Box::new(Sink::default()));
    network.flow(at_a, at_b);
    network.flow(at_b, at_a);
    let Err(error) = network.build(()) else { panic!("it was built") };
    assert_eq!(error, NetworkError::NotConnected { from: "b".into(), to: "a".into() });
    assert_eq!(error.to_string(), "no path leads from `b` to `a`: connect them by links, in this direction");
}

#[test]
fn each_node_reads_its_own_clock_and_is_woken_by_it() {
    let mut network = Network::new();
    let (a, b) = (network.vertex("a"), network.vertex("b"));
    network.link("wire", a, b, wire(10));
    let late = NodeClock { offset: Duration::from_secs(5), drift_ppb: -100_000_000 };
    let early = NodeClock { offset: Duration::from_millis(1), drift_ppb: 100_000_000 };
    let (receiver, received) = Script::new(Address(0), Vec::new());
    let receiver = network.node_with_clock("receiver", b, Box::new(receiver), late);
    let schedule = [22, 56].map(|millis| (Duration::from_millis(millis), PathId(0)));
    let (sender, sent) = Script::new(receiver, schedule.to_vec());
    network.node_with_clock("sender", a, Box::new(sender), early);
    let mut simulation = network.build(Arrivals::default()).unwrap();
    simulation.run_until(at(100));
    let (Arrivals(arrivals), _) = simulation.finish();
    // The sender's 22 ms are 21/1.1 ms of the simulation, rounded up: its clock then reads that or a nanosecond more.
    let due = [(22 - 1) * 1_000_000u64, (56 - 1) * 1_000_000].map(|nanos| (nanos * 10).div_ceil(11));
    let arrived: Vec<u64> = arrivals.iter().map(|(at, ..)| at.as_nanos()).collect();
    assert_eq!(arrived, due.map(|due| due + 10_000_000));
    let read: Vec<u64> = sent.borrow().iter().map(|time| time.as_nanos()).collect();
    assert_eq!(read, due.map(|due| due * 11 / 10 + 1_000_000));
    assert_eq!(read, [22_000_001, 56_000_000]);
    let own = due.map(|due| 5_000_000_000 + (due + 10_000_000) * 9 / 10);
    let read: Vec<u64> = received.borrow().iter().map(|time| time.as_nanos()).collect();
    assert_eq!(read, own);
}

#[test]
#[should_panic(expected = "nodes answer each other without end")]
fn nodes_that_answer_each_other_without_delay_are_stopped() {
    let mut network = Network::new();
    let a = network.vertex("a");
    network.node("one", a, Box::new(Echo { to: Address(1), waiting: 1 }));
    network.node("other", a, Box::new(Echo { to: Address(0), waiting: 0 }));
    network.build(()).unwrap().run_until(at(1));
}

#[test]
#[should_panic(expected = "nodes answer each other without end; `restless` is due again: pacing")]
fn a_node_that_is_due_again_whenever_it_was_told_the_time_is_named_with_its_reason() {
    struct Restless;
    impl Node for Restless {
        fn handle_input(&mut self, _: Time, _: Packet) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, _: Time) -> Option<Packet> {
            None
        }
        fn poll_event(&mut self) -> Option<NodeEvent> {
            None
        }
        fn poll_timeout(&self) -> Option<Deadline> {
            Some(Deadline::new(at(1), "pacing"))
        }
    }
    let mut network = Network::new();
    let a = network.vertex("a");
    network.node("restless", a, Box::new(Restless));
    network.build(()).unwrap().run_until(at(2));
}

#[test]
#[should_panic(expected = "nodes answer each other without end")]
fn nodes_that_exchange_many_packets_at_one_instant_are_stopped_by_their_packets() {
    let mut network = Network::new();
    let (a, b) = (network.vertex("a"), network.vertex("b"));
    network.link("there", a, b, wire(0));
    network.link("back", b, a, wire(0));
    // Counted by polls alone, this would go on ten thousand times longer.
    network.node("one", a, Box::new(Echo { to: Address(1), waiting: 10_000 }));
    network.node("other", b, Box::new(Echo { to: Address(0), waiting: 0 }));
    network.build(()).unwrap().run_until(at(1));
}
