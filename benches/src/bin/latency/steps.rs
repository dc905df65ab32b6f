//! What one message costs where.

use std::net::UdpSocket;

use taut_core::{Datagram, Duration, Ecn, Event, PathId, Time, Transport};
use taut_io::{Clock, Driver, DriverConfig, Plain, UdpPort, UdpPortConfig};
use taut_transport::udp::{Udp, UdpConfig};

use crate::driven::message;
use crate::site::{End, Site};
use crate::way::Way;
use crate::{Outcome, SIZE};

/// Repetitions in one measurement, of which the median counts.
const CHUNK: u32 = 500;

/// Prints nanoseconds per step, on one CPU.
pub(crate) fn measure(ways: &[Way], times: u32) -> Outcome<()> {
    End::Client.pin();
    println!("\none message of {SIZE} bytes, step by step: ns (median of chunks of {CHUNK})");
    let row = |what: &str, nanos: f64| println!("  {what:66} {nanos:8.0}");
    let clock = Clock::start();
    row("reading the clock", each(times, || _ = clock.now()));
    kernel(times, &row)?;
    for (waits, spin) in [("spinning", true), ("sleeping", false)] {
        row(&format!("a turn of a driver that receives it, {waits}"), turn(times, spin)?);
    }
    for way in ways.iter().filter(|way| **way != Way::Tcp) {
        row(&format!("{way}: there and back, both ends, without any socket"), in_memory(*way, times)?);
    }
    Ok(())
}

fn each(times: u32, work: impl FnMut()) -> f64 {
    each_after(times, || (), work)
}

/// The time for `work` alone, less nothing: two readings of the clock are in it. `prepare` is not counted.
fn each_after(times: u32, mut prepare: impl FnMut(), mut work: impl FnMut()) -> f64 {
    let clock = Clock::start();
    let mut chunks: Vec<u64> = (0..(times / CHUNK).max(5))
        .map(|_| {
            (0..CHUNK).fold(0, |sum, _| {
                prepare();
                let begin = clock.now();
                work();
                sum + (clock.now() - begin).as_nanos()
            })
        })
        .collect();
    chunks.sort_unstable();
    chunks[chunks.len() / 2] as f64 / f64::from(CHUNK)
}

fn kernel(times: u32, row: &impl Fn(&str, f64)) -> Outcome<()> {
    let (client, server, remote) = Site::Loopback.sockets()?;
    let connected = UdpSocket::bind("127.0.0.1:0")?;
    connected.connect(remote)?;
    let mut buffer = [0; 200];
    let send = |socket: &UdpSocket, to| match to {
        Some(to) => socket.send_to(&[0; SIZE], to).expect("there is room"),
        None => socket.send(&[0; SIZE]).expect("there is room"),
    };
    let empty = |buffer: &mut [u8]| _ = server.recv(buffer).expect("one is there");
    server.set_nonblocking(true)?;
    send(&client, Some(remote));
    row(
        "sendto, and the kernel's way to the other socket",
        each_after(times, || empty(&mut buffer), || _ = send(&client, Some(remote))),
    );
    row(
        "the same from a connected socket",
        each_after(times, || empty(&mut buffer), || _ = send(&connected, None)),
    );
    let mut into = [0; 200];
    empty(&mut buffer);
    row(
        "recvfrom of a datagram that waits",
        each_after(times, || _ = send(&client, Some(remote)), || _ = server.recv_from(&mut into)),
    );
    row("recvfrom in vain", each(times, || _ = server.recv_from(&mut into)));
    Ok(())
}

fn turn(times: u32, spin: bool) -> Outcome<f64> {
    let (client, server, remote) = Site::Loopback.sockets()?;
    let busy = if spin { Duration::MAX } else { Duration::ZERO };
    let mut driver = Driver::new(DriverConfig::new().busy_poll(busy))?;
    let port = UdpPort::new(server, UdpPortConfig::new())?;
    let id = driver.add(Plain::new(Udp::new(UdpConfig::new())), port)?;
    let now = driver.clock().now();
    driver.turn(now, &mut |_, _| ())?;
    let mut failed = None;
    let nanos = each_after(
        times,
        || _ = client.send_to(&[0; SIZE], remote),
        || failed = driver.turn(Time::MAX, &mut |_, _| ()).err().or(failed.take()),
    );
    let received = driver.port_stats(id).map_or(0, |stats| stats.datagrams_received);
    match failed {
        Some(error) => Err(error.into()),
        None if received < u64::from(times / CHUNK * CHUNK) => Err("a datagram was not there".into()),
        None => Ok(nanos),
    }
}

/// Two ends that hand each other their datagrams.
fn in_memory(way: Way, times: u32) -> Outcome<f64> {
    let mut ends = [way.client(), way.server()];
    let clock = Clock::start();
    let mut data = Vec::new();
    let mut received = [0u32; 2];
    let end = clock.now() + Duration::from_secs(5);
    let mut open = 0;
    while open < 2 && clock.now() < end {
        ends.iter_mut().for_each(|end| end.handle_timeout(clock.now()));
        exchange(&mut ends, &clock, &mut data, &mut |_, event| open += u32::from(event == Event::Connected));
    }
    let nanos = each(times, || {
        for index in 0..2 {
            let now = clock.now();
            if ends[index].poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                ends[index].handle_timeout(now);
            }
            ends[index].send(now, message(now, vec![0; SIZE])).expect("nothing waits");
            exchange(&mut ends, &clock, &mut data, &mut |end, event| {
                received[end] += u32::from(matches!(event, Event::Received { .. }));
            });
        }
    });
    match received {
        [a, b] if a > times / 2 && b > times / 2 => Ok(nanos),
        _ => Err(format!("{way}: only {received:?} of {times} arrived").into()),
    }
}

fn exchange(
    ends: &mut [Box<dyn Transport>; 2],
    clock: &Clock,
    data: &mut Vec<u8>,
    hear: &mut impl FnMut(usize, Event),
) {
    loop {
        let mut idle = true;
        for from in 0..2 {
            data.clear();
            while ends[from].poll_transmit(clock.now(), data).is_some() {
                let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data, padding: 0 };
                ends[1 - from].handle_input(clock.now(), input);
                data.clear();
                idle = false;
            }
        }
        for (index, end) in ends.iter_mut().enumerate() {
            while let Some(event) = end.poll_event() {
                hear(index, event);
                idle = false;
            }
        }
        if idle {
            return;
        }
    }
}
