//! What can be had: two sockets, and two loops that do nothing else.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use hdrhistogram::Histogram;
use taut_core::{Duration, Time};
use taut_io::Clock;

use crate::round_trips::Course;
use crate::site::{End, Site};
use crate::{Outcome, SIZE};

/// One block.
pub(crate) fn block(site: &Site, course: Course) -> Outcome<Histogram<u64>> {
    let (client, server, remote) = site.sockets()?;
    client.connect(remote)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&server, course.spin, &stop));
        let ping = scope.spawn(|| ping(&client, course));
        let histogram = ping.join().expect("it does not panic");
        stop.store(true, Ordering::Relaxed);
        client.send(&[0; SIZE])?; // Wakes the echo up.
        echo.join().expect("it does not panic")?;
        histogram
    })
}

fn echo(socket: &UdpSocket, spin: bool, stop: &AtomicBool) -> Outcome<()> {
    End::Server.pin();
    socket.set_nonblocking(spin)?;
    let mut buffer = [0; 2_000];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => drop(socket.send_to(&buffer[..len], from)?),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn ping(socket: &UdpSocket, course: Course) -> Outcome<Histogram<u64>> {
    End::Client.pin();
    socket.set_nonblocking(course.spin)?;
    let clock = Clock::start();
    let mut histogram = Histogram::new(3)?;
    let mut buffer = [0; 2_000];
    let mut due = Time::ZERO;
    for round in 0..course.rounds {
        if let Some(period) = course.period {
            due = (due + period).max(clock.now());
            wait_until(&clock, due, course.spin);
        }
        let sent = clock.now();
        socket.send(&[0; SIZE])?;
        while let Err(error) = socket.recv(&mut buffer) {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error.into());
            }
        }
        if round >= course.warm {
            histogram.record((clock.now() - sent).as_nanos())?;
        }
    }
    Ok(histogram)
}

#[expect(clippy::disallowed_methods, reason = "a loop without a driver waits for itself")]
fn wait_until(clock: &Clock, due: Time, spin: bool) {
    while clock.now() < due {
        let left: Duration = due.saturating_since(clock.now());
        if !spin {
            std::thread::sleep(StdDuration::from_nanos(left.as_nanos()));
        }
    }
}
