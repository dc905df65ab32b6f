//! The emulator between two namespaces.

use std::error::Error;
use std::net::UdpSocket;

use taut_core::{Duration, Time};
use taut_io::{Clock, ThreadOptions};
use taut_link::{Chain, Delay};
use taut_netlab::emulate::{DirectionStats, Emulator, RunningEmulator, Tun};
use taut_netlab::{Namespace, NamespaceError};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Clone, Copy)]
enum Wait {
    Sleeps,
    /// Under `SCHED_FIFO`, before all that is not.
    SleepsFirst,
    Spins,
}

/// Prints lateness at 1 kHz, and under load how many packets pass and what each costs.
pub(crate) fn measure(seconds: u64) -> Outcome<()> {
    println!(
        "\nemulator, 10 ms, 103-byte packets   offered/s carried/s lost before  late µs: p50      p99    p99.9  CPU µs each"
    );
    for (per_tick, wait) in [
        (1, Wait::Sleeps),
        (1, Wait::SleepsFirst),
        (1, Wait::Spins),
        (200, Wait::Sleeps),
        (200, Wait::SleepsFirst),
        (400, Wait::SleepsFirst),
    ] {
        match run(per_tick, wait, seconds) {
            Err(error) if is_missing_right(&*error) => {
                println!("skipped: {error}");
                return Ok(());
            }
            other => other?,
        }
    }
    Ok(())
}

fn is_missing_right(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref().is_some_and(NamespaceError::lacks_means)
}

fn run(per_tick: u64, wait: Wait, seconds: u64) -> Outcome<()> {
    let (a, b) = (Namespace::new()?, Namespace::new()?);
    let emulator = between(&a, &b, wait)?;
    let sender = a.run(|| UdpSocket::bind("10.94.0.1:0"))??;
    sender.connect("10.94.0.2:7")?;
    let receiver = b.run(|| UdpSocket::bind("10.94.0.2:7"))??;
    let sink = std::thread::spawn(move || {
        let _ = socket2::SockRef::from(&receiver).set_recv_buffer_size(4_000_000);
        let _ = receiver.set_read_timeout(Some(std::time::Duration::from_millis(300)));
        (0u64..).find(|_| receiver.recv(&mut [0; 200]).is_err())
    });
    let offered = offer(&sender, per_tick, seconds)?;
    let received = sink.join().ok().flatten().unwrap_or(0);
    let stats = emulator.stop()?;
    let DirectionStats { left, overrun, lateness, .. } = stats.up;
    let late = [50.0, 99.0, 99.9].map(|p| format!("{:8.1}", lateness.value_at_percentile(p) as f64 / 1e3));
    let name = match wait {
        Wait::Sleeps => "sleeps until 100 µs before",
        Wait::SleepsFirst => "sleeps until 20 µs, SCHED_FIFO",
        Wait::Spins => "never sleeps",
    };
    println!(
        "  {name:34} {:9} {:9} {overrun:11}     {} {:9.2}   (the receiver took {received})",
        offered / seconds,
        left / seconds,
        late.join(" "),
        stats.cpu.as_nanos() as f64 / 1e3 / left.max(1) as f64,
    );
    Ok(())
}

fn between(a: &Namespace, b: &Namespace, wait: Wait) -> Outcome<RunningEmulator> {
    let a = Tun::new(a, "t0", "10.94.0.1".parse()?, 24)?;
    let b = Tun::new(b, "t0", "10.94.0.2".parse()?, 24)?;
    let link = || Chain::from(Delay::new(Duration::from_millis(10)));
    let emulator = Emulator::new(link(), link());
    let emulator = match wait {
        Wait::Sleeps => emulator,
        Wait::SleepsFirst => emulator.early(Duration::from_micros(20)).thread(ThreadOptions::new().fifo(10)),
        Wait::Spins => emulator.early(Duration::MAX),
    };
    Ok(emulator.spawn(a, b)?)
}

/// So many packets every millisecond; gives how many.
fn offer(socket: &UdpSocket, per_tick: u64, seconds: u64) -> Outcome<u64> {
    let (clock, tick) = (Clock::start(), Duration::from_millis(1));
    let mut ticks: u64 = 0;
    while ticks < seconds * 1_000 {
        let due = Time::ZERO + tick * ticks;
        let now = clock.now();
        if now < due {
            std::thread::park_timeout(std::time::Duration::from_nanos((due - now).as_nanos()));
            continue;
        }
        for _ in 0..per_tick {
            socket.send(&[0; 75])?;
        }
        ticks += 1;
    }
    Ok(ticks * per_tick)
}
