//! What is around a transport hands every call on, and a transport asked through the contract alone does what it can.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use taut_core::{
    Bitrate, Datagram, Deadline, DropCause, Duration, Ecn, Event, Message, Origin, PathId, Reliability, Seed,
    SendError, Time, Transmit, Transport, Waiting,
};
use taut_transport::entropy::Entropy;
use taut_transport::etp::Gap;
use taut_transport::identity::{Identity, Trust};
use taut_transport::mptcp::{Mptcp, MptcpConfig};
use taut_transport::mtip::{Mtip, MtipConfig};
use taut_transport::security::{Sealed, SecurityConfig};
use taut_transport::tcp::{Tcp, TcpConfig};

use crate::net::MS;

/// Remembers which of its methods were called.
#[derive(Clone, Default)]
struct Probe(Rc<RefCell<BTreeSet<&'static str>>>);

impl Probe {
    fn on(&self, call: &'static str) {
        self.0.borrow_mut().insert(call);
    }
}

impl Transport for Probe {
    fn send(&mut self, _: Time, _: Message) -> Result<(), SendError> {
        self.on("send");
        Ok(())
    }
    fn handle_input(&mut self, _: Time, _: Datagram<'_>) {
        self.on("handle_input");
    }
    fn handle_timeout(&mut self, _: Time) {
        self.on("handle_timeout");
    }
    fn poll_transmit(&mut self, _: Time, _: &mut Vec<u8>) -> Option<Transmit> {
        self.on("poll_transmit");
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.on("poll_event");
        None
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.on("poll_timeout");
        None
    }
    fn close(&mut self, _: Time) {
        self.on("close");
    }
    fn add_path(&mut self, _: Time, _: PathId) -> bool {
        self.on("add_path");
        true
    }
    fn remove_path(&mut self, _: Time, _: PathId) {
        self.on("remove_path");
    }
    fn set_origin(&mut self, _: PathId, _: Origin) {
        self.on("set_origin");
    }
    fn uses_path(&self, _: PathId) -> bool {
        self.on("uses_path");
        false
    }
    fn round_trip(&self) -> Option<Duration> {
        self.on("round_trip");
        Some(MS)
    }

    fn send_rate(&self) -> Option<Bitrate> {
        self.on("send_rate");
        Some(Bitrate::from_bps(1_000_000))
    }

    fn delivered(&self) -> Option<u64> {
        self.on("delivered");
        Some(7)
    }

    fn waiting(&self) -> Waiting {
        self.on("waiting");
        Waiting::Irreplaceable
    }
}

/// Calls everything but `send`, which may have to wait, and compares the answers.
fn hands_everything_on(mut wrapper: impl Transport, probe: &Probe) {
    let (now, path) = (Time::ZERO, PathId(3));
    let origin = Origin::new(([192, 0, 2, 1], 1).into(), None, 0);
    assert!(wrapper.add_path(now, path) && !wrapper.uses_path(path));
    assert_eq!(wrapper.round_trip(), Some(MS));
    assert_eq!(wrapper.send_rate(), Some(Bitrate::from_bps(1_000_000)));
    assert_eq!(wrapper.delivered(), Some(7));
    assert_eq!(wrapper.waiting(), Waiting::Irreplaceable);
    wrapper.set_origin(path, origin);
    wrapper.remove_path(now, path);
    wrapper.handle_input(now, Datagram { path, ecn: Ecn::NotCapable, data: &[], padding: 0 });
    wrapper.handle_timeout(now);
    assert!(wrapper.poll_transmit(now, &mut Vec::new()).is_none() && wrapper.poll_timeout().is_none());
    let _ = wrapper.poll_event();
    wrapper.close(now);
    let called = probe.0.take();
    let all = [
        "add_path",
        "close",
        "delivered",
        "handle_input",
        "handle_timeout",
        "poll_event",
        "poll_timeout",
        "poll_transmit",
        "remove_path",
        "round_trip",
        "send_rate",
        "set_origin",
        "uses_path",
        "waiting",
    ];
    assert_eq!(called.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn a_gap_hands_every_call_on() {
    let probe = Probe::default();
    hands_everything_on(Gap::new(probe.clone(), MS).unwrap(), &probe);
}

#[test]
fn a_seal_hands_every_call_on() {
    let probe = Probe::default();
    let [own, peer] = [1, 2].map(|byte| Identity::from_bytes([byte; 32]));
    let entropy = || Entropy::seeded(Seed::new(1), "seal");
    let config = SecurityConfig::new();
    let operator = Sealed::initiator(config, &own, peer.fingerprint(), entropy(), probe.clone());
    hands_everything_on(operator, &probe);
    let trust = Trust::only(peer.fingerprint());
    hands_everything_on(Sealed::responder(config, &own, trust, entropy(), probe.clone()), &probe);
}

/// Everything that moves without time passing.
fn pump(ends: &mut [Gap<Tcp>; 2], now: Time, events: &mut [Vec<Event>; 2]) {
    for _ in 0..20 {
        for from in 0..2 {
            let mut data = Vec::new();
            while let Some(sent) = ends[from].poll_transmit(now, &mut data) {
                let (path, ecn, padding) = (sent.path, sent.ecn, sent.padding);
                ends[1 - from].handle_input(now, Datagram { path, ecn, data: &data, padding });
                data.clear();
            }
            events[from].extend(std::iter::from_fn(|| ends[from].poll_event()));
        }
    }
}

#[test]
fn spaced_tcp_says_goodbye_after_what_waits_for_the_gap() {
    let gap = |tcp| Gap::new(tcp, MS * 50).unwrap();
    let mut ends = [Tcp::client(TcpConfig::default(), 1), Tcp::server(TcpConfig::default(), 2)].map(gap);
    let mut events: [Vec<Event>; 2] = Default::default();
    ends[0].handle_timeout(Time::ZERO);
    pump(&mut ends, Time::ZERO, &mut events);
    let now = Time::ZERO + MS;
    for byte in [1, 2] {
        let (data, reliability) = (vec![byte], Reliability::Reliable);
        ends[0].send(now, Message { data, created: now, reliability, ..Message::default() }).unwrap();
    }
    ends.iter_mut().for_each(|end| end.close(now));
    pump(&mut ends, now, &mut events);
    let received = events[1].iter().filter(|event| matches!(event, Event::Received { .. })).count();
    assert_eq!(received, 2, "{events:?}");
    assert!(events.iter().all(|events| events.contains(&Event::Closed)), "{events:?}");
    ends[0].send(now, Message { tag: 9, ..Message::default() }).unwrap();
    ends[0].handle_timeout(now + MS * 200);
    let dropped = Event::Dropped { tag: 9, cause: DropCause::Abandoned };
    assert_eq!(ends[0].poll_event(), Some(dropped), "nothing goes after it");
}

#[test]
fn multipath_tcp_has_the_paths_that_the_contract_gives_it() {
    let mut ends: [Box<dyn Transport>; 2] = [
        Box::new(Mptcp::client(MptcpConfig::default(), Seed::new(1).stream("client"))),
        Box::new(Mptcp::server(MptcpConfig::default(), Seed::new(1).stream("server"))),
    ];
    let path = PathId(2);
    assert!(ends[0].add_path(Time::ZERO, path) && !ends[0].add_path(Time::ZERO, path));
    let send =
        |end: &mut Box<dyn Transport>| end.send(Time::ZERO, Message { data: vec![1], ..Message::default() });
    ends.iter_mut().for_each(|end| send(end).unwrap());
    for turn in 0..600 {
        let (now, from) = (Time::ZERO + MS * turn, turn as usize % 2);
        if ends[from].poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            ends[from].handle_timeout(now);
        }
        let mut data = Vec::new();
        while let Some(sent) = ends[from].poll_transmit(now, &mut data) {
            assert_eq!(sent.path, path);
            let (ecn, padding) = (Ecn::NotCapable, sent.padding);
            ends[1 - from].handle_input(now, Datagram { path, ecn, data: &data, padding });
            data.clear();
        }
    }
    assert!(ends.iter().all(|end| end.uses_path(path) && end.round_trip().is_some()));
    ends[0].remove_path(Time::ZERO + MS * 600, path);
    assert!(!ends[0].uses_path(path) && !ends[0].uses_path(PathId(0)));
}

#[test]
fn mtip_uses_the_paths_that_it_has() {
    let mut mtip = Mtip::client(MtipConfig::new(), 1);
    assert!(mtip.add_path(Time::ZERO, PathId(1)));
    assert!(mtip.uses_path(PathId(1)) && !mtip.uses_path(PathId(0)));
}
