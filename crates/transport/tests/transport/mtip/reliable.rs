//! What must arrive: how often it is sent again, and that it does not vanish.

use taut_core::{DropCause, Event, Message, PathId, Priority, Reliability, SendError, Transport};
use taut_transport::mtip::{Adaptive, MtipConfig, Policy, Target};

use crate::mtip::harness::{CLIENT, Net, Way, at_ms, ms};

fn net(config: MtipConfig) -> Net {
    let mut net = Net::new(config.idle_timeout(ms(30_000)), vec![Way::new(5_000), Way::new(5_000)]);
    net.run_until(at_ms(1_000));
    net
}

fn reliable(net: &Net, tag: u64) -> Message {
    let data = [tag.to_le_bytes(), net.now.as_nanos().to_le_bytes()].concat();
    Message { data, created: net.now, reliability: Reliability::Reliable, tag, ..Message::default() }
}

fn offer(net: &mut Net, count: u64, period: u64) {
    for tag in 0..count {
        net.run_until(at_ms(1_000 + period * tag));
        net.send(reliable(net, tag));
    }
}

#[test]
fn answers_that_take_a_hundred_times_as_long_are_waited_for() {
    let mut net = net(MtipConfig::new());
    net.ways.iter_mut().for_each(|way| way.slow = Some((at_ms(1_000), at_ms(3_000), ms(500))));
    offer(&mut net, 40, 50);
    net.run_until(at_ms(6_000));
    assert_eq!(net.received().len(), 40);
    let copies = net.ends[CLIENT].stats().copies;
    // Each on both paths while none seems to be alive, and about as often again as there are doublings of 10 ms in a second.
    assert!(copies <= 3 * 40, "{copies} copies of 40 messages");
}

#[test]
fn one_emergency_is_not_a_hundred_packets() {
    let mut net = net(MtipConfig::new().emergency(Priority(0)));
    net.ways.iter_mut().for_each(|way| way.slow = Some((at_ms(1_000), at_ms(3_000), ms(300))));
    net.send(Message { priority: Priority(0), ..reliable(&net, 0) });
    net.run_until(at_ms(5_000));
    let copies = net.ends[CLIENT].stats().copies;
    assert!(net.received().len() == 1 && copies <= 9, "{copies}");
}

#[test]
fn an_outage_is_not_answered_with_a_flood_and_what_waited_arrives_soon_after() {
    let mut net = net(MtipConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_000), at_ms(11_000))));
    offer(&mut net, 40, 10);
    net.run_until(at_ms(11_000));
    let copies = net.ends[CLIENT].stats().copies;
    // On both paths when none is known to be alive; 64 repetitions at once, one for each message sent, and then one a second.
    assert!(copies <= 2 * 40 + 64 + 40 + 15, "{copies}");
    net.run_until(at_ms(11_500));
    assert_eq!(net.received().len(), 40);
    assert!(net.ends[CLIENT].stats().copies <= copies + 80);
}

#[test]
fn a_loss_of_a_third_at_a_kilohertz_is_mended_at_once() {
    let mut net = net(MtipConfig::new().policy(Policy::Deadline(Target { copies: 1, ..Target::default() })));
    net.ways.iter_mut().for_each(|way| way.loss = 0.3);
    offer(&mut net, 3_000, 1);
    net.run_until(at_ms(4_200));
    let mut took: Vec<_> = net.received().iter().map(|(_, took)| *took).collect();
    took.sort_unstable();
    assert_eq!(took.len(), 3_000);
    assert!(took[2_700] < ms(60), "{}", took[2_700]);
}

#[test]
fn what_is_reliable_arrives_or_is_refused_or_reported() {
    let mut net = net(MtipConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_000), at_ms(7_000))));
    let mut taken = 0;
    for tag in 0..20_000_u64 {
        net.run_until(at_ms(1_000) + ms(tag) / 4);
        let message =
            Message { data: [reliable(&net, tag).data, vec![0; 100]].concat(), ..reliable(&net, tag) };
        match net.ends[CLIENT].send(net.now, message) {
            Ok(()) => taken += 1,
            Err(error) => assert!(matches!(error, SendError::BufferFull(_)), "{error}"),
        }
        net.pump(CLIENT);
        // What is not reliable goes on meanwhile.
        let data = vec![0; 16];
        if tag % 10 == 0 {
            net.ends[CLIENT]
                .send(net.now, Message { data, created: net.now, ..Message::default() })
                .expect("room");
            net.pump(CLIENT);
        }
    }
    assert!(taken > 5_000 && taken < 10_000, "a bounded memory: {taken}");
    let dropped = net.count(CLIENT, |event| matches!(event, Event::Dropped { .. }));
    assert_eq!(dropped, 0);
    net.run_until(at_ms(25_000));
    assert_eq!(net.received().iter().filter(|(_, took)| !took.is_zero()).count(), taken);
}

#[test]
fn what_was_not_acknowledged_when_it_ends_is_reported() {
    let mut net = net(MtipConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_000), at_ms(90_000))));
    offer(&mut net, 10, 10);
    net.run_until(at_ms(60_000));
    let cut = |event: &Event| matches!(event, Event::Dropped { cause: DropCause::Cut, .. });
    assert_eq!((net.count(CLIENT, cut), net.count(CLIENT, |event| *event == Event::Closed)), (10, 1));
}

#[test]
fn what_is_reliable_arrives_though_thousands_of_samples_have_overtaken_it() {
    let mut net = net(MtipConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_000), at_ms(11_000))));
    net.send(reliable(&net, 7));
    net.commands(at_ms(1_001), ms(1), 12_000, ms(15));
    net.run_until(at_ms(14_000));
    let reported = net.count(CLIENT, |event| matches!(event, Event::Dropped { tag: 7, .. }));
    let arrived = net.received().iter().filter(|(number, took)| *number == 7 && *took > ms(9_000)).count();
    assert_eq!((arrived, reported), (1, 0));
}

#[test]
fn what_is_reliable_and_has_a_deadline_is_sent_again_until_then_and_not_after() {
    let policies = [
        Policy::All,
        Policy::Best(1),
        Policy::Fixed(PathId(0)),
        Policy::Adaptive(Adaptive::default()),
        Policy::Deadline(Target::default()),
    ];
    for policy in policies {
        let deadline = Some(ms(300));
        let mut net = net(MtipConfig::new().policy(policy));
        net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_000), at_ms(1_150))));
        net.send(Message { deadline, ..reliable(&net, 1) });
        net.run_until(at_ms(1_400));
        assert!(net.received().iter().any(|(tag, took)| *tag == 1 && *took < ms(300)), "{policy:?}");

        net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_400), at_ms(2_000))));
        net.send(Message { deadline, ..reliable(&net, 2) });
        net.run_until(at_ms(1_701));
        let copies = net.ends[CLIENT].stats().copies;
        net.run_until(at_ms(4_000));
        assert_eq!(net.ends[CLIENT].stats().copies, copies, "{policy:?}");
        assert!(net.received().iter().all(|(tag, _)| *tag == 1), "{policy:?}");
        let dropped = |event: &Event| matches!(event, Event::Dropped { .. });
        let late = |event: &Event| *event == Event::Dropped { tag: 2, cause: DropCause::TooLate };
        assert_eq!([net.count(CLIENT, dropped), net.count(CLIENT, late)], [1, 1], "{policy:?}");
        assert_eq!(net.ends[CLIENT].stats().given_up, 1, "{policy:?}");
    }
}

#[test]
fn a_short_outage_costs_a_reliable_message_no_more_than_itself_however_long_its_deadline_is() {
    let mut net = net(MtipConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_000), at_ms(1_100))));
    net.send(Message { deadline: Some(ms(5_000)), ..reliable(&net, 1) });
    net.run_until(at_ms(8_000));
    let took: Vec<_> = net.received().iter().map(|(_, took)| *took).collect();
    assert!(matches!(took[..], [took] if took < ms(300)), "{took:?}");
    assert_eq!(net.count(CLIENT, |event| matches!(event, Event::Dropped { .. })), 0);
}

#[test]
fn a_stop_finds_room_behind_reliable_states_and_so_does_anything_once_those_are_late() {
    let mut net = net(MtipConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(1_000), at_ms(9_000))));
    let state = |net: &Net, tag: u64| {
        let (deadline, data) = (Some(ms(300)), [reliable(net, tag).data, vec![0; 1_000]].concat());
        Message { deadline, data, priority: Priority(1), ..reliable(net, tag) }
    };
    let mut taken = 0;
    loop {
        let message = state(&net, taken);
        match net.ends[CLIENT].send(net.now, message) {
            Ok(()) => taken += 1,
            Err(error) => break assert!(matches!(error, SendError::BufferFull(_)), "{error}"),
        }
        net.pump(CLIENT);
    }
    assert!((900..1_000).contains(&taken), "{taken}");
    net.send(Message { priority: Priority(0), deadline: None, ..state(&net, taken) });
    net.run_until(at_ms(1_300));
    let late = |event: &Event| matches!(event, Event::Dropped { cause: DropCause::TooLate, .. });
    net.send(state(&net, taken + 1));
    assert_eq!((net.count(CLIENT, late) as u64, net.ends[CLIENT].stats().given_up), (taken, taken));
}
