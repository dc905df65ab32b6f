//! A message there and back, then the next.

use std::error::Error;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use taut_core::{Datagram, Deadline, Duration, Event, Message, Time, Transmit, Transport};
use taut_io::{Clock, Driver, DriverConfig, Machine, ThreadOptions, UdpPort, UdpPortConfig};
use taut_transport::udp::{Udp, UdpConfig};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SIZE: usize = 75;
/// Round trips in one turn of one variant.
const TURN: u64 = 2_000;
/// Of these, not counted.
const WARM: u64 = 200;

#[derive(Clone, Copy)]
enum Way {
    Bare,
    Driven,
}

/// Prints percentiles of the round trip and the ratios to bare sockets.
pub(crate) fn measure(turns: u64) -> Outcome<()> {
    println!("closed loop, {SIZE} bytes, loopback: round trip in µs         p50      p90      p99    p99.9");
    for (name, spin) in [("sleeping", false), ("spinning", true)] {
        let mut bare = Histogram::<u64>::new(3)?;
        let mut driven = Histogram::<u64>::new(3)?;
        for _ in 0..turns {
            round_trips(Way::Bare, spin, &mut bare)?;
            round_trips(Way::Driven, spin, &mut driven)?;
        }
        let line = |what: &str, value: &dyn Fn(f64) -> f64| {
            let at = [50.0, 90.0, 99.0, 99.9].map(|percentile| format!("{:8.2}", value(percentile)));
            println!("  {:48} {}", format!("{name}: {what}"), at.join(" "));
        };
        line("bare UDP", &|p| bare.value_at_percentile(p) as f64 / 1e3);
        line("driver and Udp", &|p| driven.value_at_percentile(p) as f64 / 1e3);
        line("ratio", &|p| driven.value_at_percentile(p) as f64 / bare.value_at_percentile(p) as f64);
    }
    Ok(())
}

fn round_trips(way: Way, spin: bool, histogram: &mut Histogram<u64>) -> Outcome<()> {
    let (client, server) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let (here, there) = (client.local_addr()?, server.local_addr()?);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let echo = std::thread::spawn(move || -> Outcome<()> {
        pin(1);
        match way {
            Way::Bare => bare_echo(&server, spin, &stopped),
            Way::Driven => {
                drive(Application::echo(), UdpPort::new(server, config())?.to(here), spin, &|_| {
                    stopped.load(Ordering::Relaxed)
                })
                .map(drop)
            }
        }
    });
    let ping = std::thread::scope(|scope| {
        let ping = scope.spawn(|| -> Outcome<Histogram<u64>> {
            pin(0);
            match way {
                Way::Bare => {
                    client.connect(there)?;
                    bare_ping(&client, spin)
                }
                Way::Driven => {
                    let port = UdpPort::new(client.try_clone()?, config())?.to(there).connected()?;
                    drive(Application::ping(), port, spin, &|application| application.left == 0)
                }
            }
        });
        ping.join().expect("it does not panic")
    });
    stop.store(true, Ordering::Relaxed);
    UdpSocket::bind("127.0.0.1:0")?.send_to(&[0; SIZE], there)?; // Wakes the echo up.
    echo.join().expect("it does not panic")?;
    histogram.add(&ping?)?;
    Ok(())
}

fn config() -> UdpPortConfig {
    UdpPortConfig::new()
}

/// Where there are two CPUs.
fn pin(cpu: usize) {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        // A warning would change nothing in what is compared.
        let _ = ThreadOptions::new().cpu(cpu).apply();
    }
}

fn bare_echo(socket: &UdpSocket, spin: bool, stop: &AtomicBool) -> Outcome<()> {
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

fn bare_ping(socket: &UdpSocket, spin: bool) -> Outcome<Histogram<u64>> {
    socket.set_nonblocking(spin)?;
    let clock = Clock::start();
    let mut histogram = Histogram::new(3)?;
    let mut buffer = [0; 2_000];
    for round in 0..TURN {
        let sent = clock.now();
        socket.send(&[0; SIZE])?;
        while let Err(error) = socket.recv(&mut buffer) {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error.into());
            }
        }
        if round >= WARM {
            histogram.record((clock.now() - sent).as_nanos())?;
        }
    }
    Ok(histogram)
}

fn drive(
    application: Application,
    port: UdpPort,
    spin: bool,
    done: &dyn Fn(&Application) -> bool,
) -> Outcome<Histogram<u64>> {
    let busy = if spin { Duration::MAX } else { Duration::ZERO };
    let mut driver = Driver::new(DriverConfig::new().busy_poll(busy))?;
    let id = driver.add(application, port)?;
    while !driver.machine(id).is_some_and(done) {
        // The echo looks for its end when a datagram wakes it.
        driver.turn(if spin { driver.clock().now() } else { Time::MAX }, &mut |_, ()| ())?;
    }
    let (application, _) = driver.remove(id).ok_or("it was there")?;
    Ok(application.histogram)
}

/// A session as small as can be: sends a message, and the next when the answer is there; or answers.
struct Application {
    transport: Udp,
    /// Round trips to go; an echo has none.
    left: u64,
    echoes: bool,
    sent: Time,
    begun: bool,
    histogram: Histogram<u64>,
    clock: Clock,
}

impl Application {
    fn echo() -> Self {
        Self::new(0, true)
    }

    fn ping() -> Self {
        Self::new(TURN, false)
    }

    fn new(left: u64, echoes: bool) -> Self {
        Self {
            transport: Udp::new(UdpConfig::new()),
            left,
            echoes,
            sent: Time::ZERO,
            begun: false,
            histogram: Histogram::new(3).expect("three digits are possible"),
            clock: Clock::start(),
        }
    }

    fn ask(&mut self, now: Time, mut data: Vec<u8>) {
        data.resize(SIZE, 0);
        // As bare sockets are: read before the message is given away.
        self.sent = self.clock.now();
        self.send(now, data);
    }

    fn send(&mut self, now: Time, data: Vec<u8>) {
        let message = Message { data, created: now, ..Message::default() };
        self.transport.send(now, message).expect("nothing waits");
    }
}

impl Machine for Application {
    type Command = ();
    type Event = ();

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.transport.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        if !self.echoes && !self.begun {
            self.begun = true;
            self.ask(now, Vec::new());
        }
    }

    fn handle_command(&mut self, _: Time, (): ()) {}

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.transport.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, now: Time) -> Option<()> {
        let Event::Received { data, .. } = self.transport.poll_event()? else { return Some(()) };
        if self.echoes {
            self.send(now, data);
            return Some(());
        }
        if self.left <= TURN - WARM {
            self.histogram.record((self.clock.now() - self.sent).as_nanos()).ok()?;
        }
        self.left -= 1;
        if self.left > 0 {
            self.ask(now, data);
        }
        Some(())
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}
