//! A peer that does not play by the rules.

use proptest::prelude::*;
use taut_core::{Datagram, Ecn, Event, Message, PathId, Transport};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_wire::tcp::{Flags, Options, Repr, SackBlock, Timestamps};

use crate::tcp_model::harness::{Net, at_ms, ms};

#[derive(Clone, Debug)]
enum Attack {
    Bytes(Vec<u8>, u32),
    Segment { repr: Repr, data: Vec<u8>, padding: u32 },
    Wait(u64),
}

/// Segments near the sequence numbers in use, so that they are taken seriously.
fn segment() -> impl Strategy<Value = Attack> {
    let near = |base: u32| (-4000..4000i32).prop_map(move |offset| base.wrapping_add_signed(offset));
    let flags = prop_oneof![6 => Just(0x10u8), 1 => Just(0x11u8), 1 => any::<u8>()];
    let blocks = prop::collection::vec((near(1000), near(1000)), 0..4);
    let stamps = prop::option::of(any::<(u32, u32)>());
    let data = prop::collection::vec(any::<u8>(), 0..40);
    let padding = prop_oneof![4 => Just(0u32), 1 => 0..3000u32, 1 => Just(u32::MAX)];
    (near(2000), near(1000), flags, any::<u16>(), blocks, stamps, data, padding).prop_map(
        |(sequence, acknowledgement, flags, window, blocks, stamps, data, padding)| Attack::Segment {
            repr: Repr {
                sequence,
                acknowledgement,
                flags: Flags(flags),
                window,
                options: Options {
                    sack: blocks.into_iter().map(|(left, right)| SackBlock { left, right }).collect(),
                    timestamps: stamps.map(|(value, echo)| Timestamps { value, echo }),
                    ..Options::default()
                },
                ..Repr::default()
            },
            data,
            padding,
        },
    )
}

fn attack() -> impl Strategy<Value = Attack> {
    let bytes =
        (prop::collection::vec(any::<u8>(), 0..80), 0..2000u32).prop_map(|(b, p)| Attack::Bytes(b, p));
    prop_oneof![1 => bytes, 6 => segment(), 1 => (0..3000u64).prop_map(Attack::Wait)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_input_makes_it_panic(
        attacks in prop::collection::vec(attack(), 1..80),
        sack in any::<bool>(),
        bulk in any::<bool>(),
        connected in any::<bool>(),
        rack in any::<bool>(),
    ) {
        let config = TcpConfig { sack, rack, timestamps: bulk, ..TcpConfig::default() };
        let (client, server) = (Tcp::client(config.clone(), 1000), Tcp::server(config, 2000));
        let (client, server) = if bulk { (client.bulk(None).sink(), server.sink()) } else { (client, server) };
        let mut net = Net::new(client, server);
        if connected {
            net.run_until(at_ms(40));
        }
        let Net { client: mut victim, mut now, .. } = net;
        let mut buffer = Vec::new();
        for (number, attack) in attacks.into_iter().enumerate() {
            let _ = victim.send(now, Message { data: vec![1; number * 50], ..Message::default() });
            let mut give = |data: &[u8], padding| {
                victim.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data, padding });
            };
            match attack {
                Attack::Bytes(bytes, padding) => give(&bytes, padding),
                Attack::Wait(millis) => now += ms(millis),
                Attack::Segment { repr, data, padding } => {
                    let mut bytes = Vec::new();
                    repr.emit(&mut bytes);
                    bytes.extend_from_slice(&data);
                    give(&bytes, padding);
                }
            }
            victim.handle_timeout(now);
            let mut segments = 0;
            while victim.poll_transmit(now, &mut buffer).is_some() {
                buffer.clear();
                segments += 1;
                prop_assert!(segments < 10_000, "it talks without end");
            }
            while victim.poll_event().is_some() {}
        }
    }
}

fn segment_to(victim: &mut Tcp, now: taut_core::Time, repr: Repr) {
    let mut bytes = Vec::new();
    repr.emit(&mut bytes);
    victim.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &bytes, padding: 0 });
}

#[test]
fn only_a_reset_at_the_expected_number_ends_the_connection() {
    // RFC 5961 section 3.2.
    let mut net = Net::bulk(&TcpConfig::default());
    net.run_until(at_ms(40));
    let reset = |sequence| Repr { sequence, flags: Flags::RST, ..Repr::default() };
    let now = net.now;
    segment_to(&mut net.client, now, reset(2000 + 500));
    net.run_until(at_ms(41));
    assert!(!net.client_events.contains(&Event::Closed));
    segment_to(&mut net.client, now, reset(2001));
    net.run_until(at_ms(42));
    assert_eq!(net.client_events.last(), Some(&Event::Closed));
    assert_eq!(net.client.poll_timeout(), None);
}

#[test]
fn closed_window_is_probed_until_it_opens() {
    // RFC 9293 section 3.8.6.1.
    let config = TcpConfig::default();
    let mut net = Net::new(Tcp::client(config.clone(), 1000), Tcp::server(config, 2000));
    net.run_until(at_ms(40));
    let ack =
        |window| Repr { sequence: 2001, acknowledgement: 1001, flags: Flags::ACK, window, ..Repr::default() };
    let now = net.now;
    segment_to(&mut net.client, now, ack(0));
    net.client.send(now, Message { data: vec![3; 100], ..Message::default() }).unwrap();
    net.run_until(at_ms(1000));
    assert_eq!(net.data_records().count(), 0);
    net.run_until(at_ms(1050));
    assert_eq!(net.data_records().next().map(|r| r.len), Some(1));
    // The peer's answer to the probe opens the window.
    net.run_until(at_ms(3000));
    assert_eq!(net.received(), [[3; 100]]);
}
