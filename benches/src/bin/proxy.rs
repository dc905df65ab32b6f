//! What a pair of proxies adds: `cargo run --release -p taut-benches --bin proxy [-- --quick] [--sleep | --fifo]`. As `taut proxy`
//! does, they poll while there is much to do; with `--sleep` they do not, nor with `--fifo`, which is `taut proxy --fifo 40`.
//!
//! Two applications on loopback say 20,000 datagrams of 75 bytes a second to each other, both ways at once, four every 200 µs. By
//! turns they do so directly and through two proxies with a session between them, in blocks of some seconds, so that all
//! meet the same machine. What is printed are medians over a way's blocks, of one-way times of all datagrams of both
//! directions; what a way adds is counted against the direct blocks before and after each of its own.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement, for people to read")]
#![expect(clippy::disallowed_methods, reason = "it waits for real time")]

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use hdrhistogram::Histogram;
use taut_core::{Duration, Time};
use taut_io::proxy::{ADAPTIVE_POLL, ProxyCommand, ProxyConfig, ProxyLocal, ProxyMachine, ProxyStats, proxy};
use taut_io::session::{
    Credentials, Endpoint, PathSpec, Remote, StackSpec, TransportConfig, TransportKind, os_identity,
};
use taut_io::{Clock, Driver, DriverConfig, ThreadOptions};
use taut_transport::identity::Trust;
use taut_transport::mtip::Policy;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Datagrams a second, each way.
const RATE: u64 = 20_000;
/// So many of them at a time: a sender that slept before each would keep the machine busier with its timers than the proxies do
/// with its datagrams.
const BURST: u64 = 4;
/// Of proxies under `SCHED_FIFO`.
const PRIORITY: u8 = 40;
/// Bytes of one: when it was sent, and zeros.
const SIZE: usize = 75;

/// What is between the two applications.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Direct,
    Udp,
    /// With so many paths.
    Mtip(u8, Policy),
}

impl Way {
    fn name(self) -> String {
        match self {
            Self::Direct => "direct".to_owned(),
            Self::Udp => "udp".to_owned(),
            Self::Mtip(paths, Policy::All) => format!("mtip, {paths} paths, all"),
            Self::Mtip(1, _) => "mtip, 1 path".to_owned(),
            Self::Mtip(paths, _) => format!("mtip, {paths} paths, deadline"),
        }
    }
}

fn main() -> ExitCode {
    let given = |name: &str| std::env::args().any(|argument| argument == name);
    let quick = given("--quick");
    let proxies = if given("--fifo") {
        Proxies { driver: DriverConfig::new(), thread: ThreadOptions::new().fifo(PRIORITY) }
    } else {
        let driver = DriverConfig::new();
        let driver = if given("--sleep") { driver } else { driver.adaptive_poll(ADAPTIVE_POLL) };
        Proxies { driver, thread: ThreadOptions::new() }
    };
    match measure(proxies, if quick { 2 } else { 6 }, if quick { 2 } else { 5 }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// How a proxy waits, and how its thread is scheduled.
#[derive(Clone, Copy)]
struct Proxies {
    driver: DriverConfig,
    thread: ThreadOptions,
}

/// One block.
struct Block {
    p50: f64,
    p99: f64,
    lost_percent: f64,
    /// Of one of the directions, the lesser one.
    rate: f64,
}

fn measure(proxies: Proxies, rounds: usize, seconds: u64) -> Outcome<()> {
    let deadline = Policy::Deadline(Default::default());
    let ways = [Way::Udp, Way::Mtip(1, deadline), Way::Mtip(2, deadline), Way::Mtip(2, Policy::All)];
    let mut direct = vec![block(proxies, Way::Direct, seconds)?];
    let mut through: Vec<Vec<Block>> = ways.iter().map(|_| Vec::new()).collect();
    let mut added: Vec<Vec<f64>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (n, way) in ways.into_iter().enumerate() {
            let one = block(proxies, way, seconds)?;
            let before = direct.last().map_or(0.0, |block| block.p50);
            direct.push(block(proxies, Way::Direct, seconds)?);
            let after = direct.last().map_or(0.0, |block| block.p50);
            added[n].push(one.p50 - (before + after) / 2.0);
            through[n].push(one);
        }
    }
    println!("| way | added p50, µs | ratio | p50, µs | p99, µs | lost, % | datagrams/s, each way |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let base = median(direct.iter().map(|block| block.p50));
    row(&Way::Direct.name(), None, base, &direct);
    for ((way, blocks), added) in ways.into_iter().zip(&through).zip(added) {
        row(&way.name(), Some(median(added.into_iter())), base, blocks);
    }
    Ok(())
}

fn row(name: &str, added: Option<f64>, base: f64, blocks: &[Block]) {
    let of = |value: fn(&Block) -> f64| median(blocks.iter().map(value));
    let p50 = of(|block| block.p50);
    let added = added.map_or_else(|| "–".to_owned(), |added| format!("{added:.1}"));
    let ratio = p50 / base;
    let (p99, lost, rate) = (of(|block| block.p99), of(|block| block.lost_percent), of(|block| block.rate));
    println!("| {name} | {added} | {ratio:.1} | {p50:.1} | {p99:.1} | {lost:.3} | {rate:.0} |");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn block(proxies: Proxies, way: Way, seconds: u64) -> Outcome<Block> {
    let (a, b) = (application()?, application()?);
    let (a_address, b_address) = (a.local_addr()?, b.local_addr()?);
    let pair = match way {
        Way::Direct => {
            // As the far proxy's socket does: what is connected costs the kernel less.
            a.connect(b_address)?;
            b.connect(a_address)?;
            None
        }
        way => {
            let pair = Pair::start(proxies, way, b_address)?;
            let near = pair.near_address;
            a.connect(near)?;
            let from = greet(&a, &b)?;
            b.connect(from)?;
            Some(pair)
        }
    };
    let clock = Clock::start();
    let stop = Arc::new(AtomicBool::new(false));
    let ends = [(&a, &b), (&b, &a)];
    let mut receivers = Vec::new();
    for (_, to) in ends {
        let (to, stop) = (to.try_clone()?, Arc::clone(&stop));
        receivers.push(std::thread::spawn(move || receive(&to, clock, &stop)));
    }
    let count = RATE * seconds;
    let mut senders = Vec::new();
    for (n, (from, _)) in ends.into_iter().enumerate() {
        let from = from.try_clone()?;
        // Half a period apart, so that the two directions do not meet.
        let shift = Duration::from_nanos(500_000_000 * BURST / RATE * n as u64);
        senders.push(std::thread::spawn(move || send(&from, clock, count, shift)));
    }
    let taken: Vec<Duration> = senders
        .into_iter()
        .map(join)
        .collect::<Outcome<Vec<std::io::Result<Duration>>>>()?
        .into_iter()
        .collect::<Result<_, _>>()?;
    std::thread::sleep(StdDuration::from_millis(100));
    stop.store(true, Ordering::Release);
    let mut all = histogram()?;
    for receiver in receivers {
        all.add(join(receiver)??)?;
    }
    drop(pair);
    let micros = |quantile: f64| all.value_at_quantile(quantile) as f64 / 1_000.0;
    let slowest = taken.into_iter().max().unwrap_or(Duration::from_secs(1));
    Ok(Block {
        p50: micros(0.5),
        p99: micros(0.99),
        lost_percent: 100.0 * (1.0 - all.len() as f64 / (2 * count) as f64),
        rate: count as f64 / slowest.as_secs_f64(),
    })
}

fn join<T>(thread: JoinHandle<T>) -> Outcome<T> {
    thread.join().map_err(|_| "a thread panicked".into())
}

fn histogram() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 10_000_000_000, 3)?)
}

fn application() -> Outcome<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20)?;
    socket.set_read_timeout(Some(StdDuration::from_millis(20)))?;
    Ok(socket)
}

/// Until the first datagram has crossed; gives where it seems to come from.
fn greet(a: &UdpSocket, b: &UdpSocket) -> Outcome<SocketAddr> {
    let mut buffer = [0; SIZE];
    for _ in 0..250 {
        a.send(&[0; SIZE])?;
        if let Ok((_, from)) = b.recv_from(&mut buffer) {
            // Paths are found and measured meanwhile.
            std::thread::sleep(StdDuration::from_millis(500));
            while b.recv_from(&mut buffer).is_ok() {}
            return Ok(from);
        }
    }
    Err("the proxies do not come together".into())
}

/// Sends at the rate; how long it took.
fn send(socket: &UdpSocket, clock: Clock, count: u64, shift: Duration) -> std::io::Result<Duration> {
    ThreadOptions::new().apply();
    let (start, period) = (clock.now() + Duration::from_millis(10) + shift, 1_000_000_000 / RATE);
    let mut data = [0; SIZE];
    for n in 0..count {
        let due = start + Duration::from_nanos(period * (n - n % BURST));
        let now = clock.now();
        if due > now {
            std::thread::sleep(StdDuration::from_nanos((due - now).as_nanos()));
        }
        data[..8].copy_from_slice(&clock.now().as_nanos().to_be_bytes());
        // What the kernel does not take is lost, and seen as that.
        let _ = socket.send(&data);
    }
    Ok(clock.now() - start)
}

fn receive(socket: &UdpSocket, clock: Clock, stop: &AtomicBool) -> Outcome<Histogram<u64>> {
    ThreadOptions::new().apply();
    let (mut times, mut buffer) = (histogram()?, [0; SIZE]);
    while !stop.load(Ordering::Acquire) {
        let Ok(SIZE) = socket.recv(&mut buffer) else { continue };
        let sent = u64::from_be_bytes(std::array::from_fn(|n| buffer[n]));
        let took = clock.now().saturating_since(Time::from_nanos(sent));
        times.saturating_record(took.as_nanos().max(1));
    }
    Ok(times)
}

/// Two proxies. They end with this.
struct Pair {
    near_address: SocketAddr,
    ends: Vec<(Remote<ProxyMachine>, JoinHandle<Outcome<ProxyStats>>)>,
}

impl Pair {
    fn start(proxies: Proxies, way: Way, application: SocketAddr) -> Outcome<Self> {
        let (near_id, far_id) = (os_identity(), os_identity());
        let trust = |other: &taut_transport::identity::Identity| Trust::only(other.fingerprint());
        let near = Some(Credentials { identity: near_id.clone(), trust: trust(&far_id) });
        let far = Some(Credentials { identity: far_id, trust: trust(&near_id) });
        let clock = Clock::start();
        let endpoint = Endpoint::listen(transport(way), "0.0.0.0:0".parse()?, far, &clock)?;
        let at = SocketAddr::from(([127, 0, 0, 1], endpoint.local_addr()?.port()));
        let endpoint = endpoint.receive_buffer(4 << 20);
        let mut ends = vec![start(proxies, endpoint, ProxyLocal::Far(application))?];
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let near_address = socket.local_addr()?;
        let paths: Vec<PathSpec> = match way {
            Way::Mtip(paths, _) => (1..=paths).map(|n| PathSpec::Address([127, 0, 0, n].into())).collect(),
            _ => Vec::new(),
        };
        let endpoint = Endpoint::connect(transport(way), at, near, &clock)?.over(&paths)?;
        let endpoint = endpoint.receive_buffer(4 << 20);
        ends.push(start(proxies, endpoint, ProxyLocal::Near(socket))?);
        Ok(Self { near_address, ends })
    }
}

fn transport(way: Way) -> TransportConfig {
    match (way, TransportConfig::from(TransportKind::Mtip)) {
        (Way::Mtip(_, policy), TransportConfig::Stack(StackSpec::Mtip(config))) => {
            StackSpec::Mtip(config.policy(policy)).into()
        }
        _ => TransportKind::Udp.into(),
    }
}

type End = (Remote<ProxyMachine>, JoinHandle<Outcome<ProxyStats>>);

fn start(proxies: Proxies, endpoint: Endpoint, local: ProxyLocal) -> Outcome<End> {
    let (sender, remotes) = channel();
    let thread = std::thread::spawn(move || {
        proxies.thread.apply().iter().for_each(|warning| eprintln!("{warning}"));
        let driver = Driver::new(proxies.driver)?;
        let started = |remote| drop(sender.send(remote));
        Ok(proxy(driver, &endpoint, local, ProxyConfig::new(), None, started, &mut |_, _| {})?)
    });
    Ok((remotes.recv()?, thread))
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The near end first: it says goodbye.
        for (remote, thread) in self.ends.drain(..).rev() {
            remote.send(ProxyCommand::Close);
            match thread.join() {
                Ok(Ok(stats)) if std::env::var_os("PROXY_STATS").is_some() => eprintln!("{stats:?}"),
                Ok(Err(error)) => eprintln!("{error}"),
                _ => {}
            }
        }
    }
}
