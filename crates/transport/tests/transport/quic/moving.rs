//! The operator's address changes.

use taut_core::{DropCause, Event, PathId, Transport};
use taut_transport::quic::QuicConfig;

use crate::quic::harness::*;

#[test]
fn the_server_follows_a_client_that_moves() {
    let mut net = Net::connected(&QuicConfig::new());
    for tick in 0..600 {
        if tick == 200 {
            net.seen_on = 3;
        }
        net.run_for(ms(1));
        for node in [CLIENT, SERVER] {
            net.send(node, sample(net.now, 75));
        }
        if tick == 300 {
            net.send(CLIENT, command(net.now, 2, 1, 5_000));
        }
    }
    net.run_for(ms(200));
    assert_eq!(net.nodes[SERVER].path(), PathId(3));
    let paths = |(_, event): &(_, Event)| matches!(event, Event::PathUp(_) | Event::PathDown(_));
    let told: Vec<_> =
        net.events[SERVER].iter().filter(|event| paths(event)).map(|(_, event)| event).collect();
    assert_eq!(told, [&Event::PathUp(PathId(3)), &Event::PathDown(PathId(0))], "there is always one");
    for (path, uses) in [(0, true), (3, true), (2, false)] {
        assert_eq!(net.nodes[SERVER].uses_path(PathId(path)), uses, "{path}: it may go back where it was");
    }
    assert_eq!(latencies(&net, SERVER, 1).len(), 600, "not one sample is lost");
    assert_eq!(latencies(&net, CLIENT, 1).len(), 600);
    assert!(quantile(&latencies(&net, CLIENT, 1), 1.0) < ms(45));
    assert_eq!(latencies(&net, SERVER, 2).len(), 1);
    let last = net.records.iter().rfind(|record| record.from == SERVER).unwrap();
    assert_eq!(last.path, PathId(3));
}

#[test]
fn replayed_packets_from_elsewhere_move_nothing() {
    let mut net = Net::connected(&QuicConfig::new());
    for _ in 0..50 {
        net.run_for(ms(1));
        net.send(CLIENT, sample(net.now, 75));
    }
    net.run_for(ms(50));
    let sent: Vec<_> = net.records.iter().filter(|record| record.from == CLIENT).cloned().collect();
    for record in &sent {
        net.inject(SERVER, 9, &record.data);
    }
    net.run_for(ms(500));
    assert_eq!(net.nodes[SERVER].path(), PathId(0));
    assert_eq!(latencies(&net, SERVER, 1).len(), 50, "none is received twice");
    let replayed =
        net.events[SERVER].iter().filter(|(_, event)| *event == Event::Refused(DropCause::Replayed));
    assert!(replayed.count() >= 50);
    assert!(net.nodes[SERVER].stats().replayed >= 50);
    net.send(CLIENT, sample(net.now, 75));
    net.run_for(ms(50));
    assert_eq!(latencies(&net, SERVER, 1).len(), 51, "the session goes on");
}
