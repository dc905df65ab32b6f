//! `taut emulate`: a scenario's link between two namespaces, or for the datagrams of a relay, in real time.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};

use clap::Args;
use serde_json::{Value, json};
use taut_core::{Bytes, DropCause, Duration, Seed};
use taut_io::{CapabilitySet, Clock, drop_privileges};
use taut_lab::run::{Inputs, LinkPair, RunError, link_name, link_pair};
use taut_lab::scenario::{GateConfig, QueueSpec, Scenario, Setting, Shaping, parse_gate};
use taut_netlab::Namespace;
use taut_netlab::emulate::{DirectionStats, Emulator, EmulatorStats, RunningEmulator, Tun, relay};

use crate::diagnostics::Log;
use crate::host::{OnSignal, Scheduling, address, every, json_line, privileges, resolve};
use crate::{Ended, print};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The scenario that has the link, a TOML file
    scenario: PathBuf,
    /// Two network namespaces; `ip netns add NAME` makes one. The link leads from the first to the second. Without this, two are made
    /// for as long as it runs
    #[arg(long, value_name = "NS_A,NS_B", value_delimiter = ',')]
    between: Vec<String>,
    /// Without root: what is sent to LISTEN goes over the link and on to ROBOT, and what is answered comes back over it. UDP alone.
    /// Repeatable, a --link each: a scenario's paths
    #[arg(long, value_name = "LISTEN=ROBOT", conflicts_with_all = ["between", "addresses", "device"], value_parser = relay_of)]
    relay: Vec<(SocketAddr, SocketAddr)>,
    /// Which of the scenario's links, where it has several; of relays one each, in their order
    #[arg(long, value_name = "NAME")]
    link: Vec<String>,
    /// Another queue at the link's servers: pfifo, codel, fq_codel, pie, red, cake, or '{ cake = { rtt = "50ms" } }'
    #[arg(long, value_name = "QUEUE", value_parser = QueueSpec::parse)]
    queue: Option<QueueSpec>,
    /// A frame gate before that queue: deadline, aimd1 … aimd5, dyna1 … dyna5, step
    #[arg(long, value_name = "POLICY", value_parser = parse_gate)]
    gate: Option<GateConfig>,
    /// What is video for the gate: udp:PORT of its destination
    #[arg(long, value_name = "udp:PORT", requires = "gate", value_parser = video_port)]
    video: Option<u16>,
    /// Set a key of the scenario: wire.delay=15ms. Repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<Setting>,
    /// The seed of what is random in the link
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The addresses of the two ends
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "10.77.0.1,10.77.0.2")]
    addresses: Vec<IpAddr>,
    /// The name of the device in both namespaces
    #[arg(long, default_value = "taut0")]
    device: String,
    /// End after so long; otherwise at Ctrl-C
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<Duration>,
    /// A line of statistics so often
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = every)]
    every: Duration,
    /// Print statistics as JSON Lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: Log,
    #[command(flatten)]
    scheduling: Scheduling,
}

pub(crate) fn emulate(arguments: &Arguments) -> Ended {
    let clock = Clock::start();
    if arguments.log.is_asked() {
        arguments.log.start(arguments.json, clock)?;
    }
    let file = arguments.scenario.display();
    let scenario = Scenario::read(&arguments.scenario).map_err(|error| error.to_string())?;
    let scenario = scenario.with(&arguments.settings).map_err(|error| format!("{file}: {error}"))?;
    let links = links(arguments)?;
    let seed = Seed::new(arguments.seed);
    let pair = |link: Option<&str>| {
        let scenario = shaped(&scenario, arguments, link)?;
        let pair = link_pair(&scenario, link, seed, &mut Inputs::default());
        pair.map_err(|error| error.within(&arguments.scenario).to_string())
    };
    let pairs = links.into_iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    if !arguments.relay.is_empty() {
        return relays(arguments, &clock, pairs);
    }
    let pair = pairs.into_iter().next().ok_or("the scenario has no link")?;
    Namespace::remove_stale(OWN);
    // They are removed when this ends.
    let own = namespaces(arguments)?;
    let between = if own.is_empty() { arguments.between.clone() } else { named(&own) };
    let [a, b] = &between[..] else { return Err("--between takes two namespaces: a,b".into()) };
    let [at_a, at_b] = arguments.addresses[..] else { return Err("--addresses takes two addresses".into()) };
    let tun = |namespace: &str, address: IpAddr| {
        let namespace = Namespace::open(namespace).map_err(|error| error.to_string())?;
        let prefix = if address.is_ipv4() { 24 } else { 64 };
        Tun::new(&namespace, &arguments.device, address, prefix).map_err(|error| error.to_string())
    };
    let (first, second) = (tun(a, at_a)?, tun(b, at_b)?);
    let emulator = Emulator::new(pair.up, pair.down).early(arguments.scheduling.early_or_default());
    let emulator = emulator.thread(arguments.scheduling.thread());
    let running = emulator.spawn(first, second).map_err(|error| error.to_string())?;
    warn(&running);
    // The devices are open and their thread is scheduled. To remove one's own namespaces at the end is for CAP_SYS_ADMIN.
    let kept = if own.is_empty() { CapabilitySet::empty() } else { CapabilitySet::SYS_ADMIN };
    drop_privileges(kept).map_err(privileges)?;
    if !arguments.json {
        let ends = format!("{a} ({at_a}, `{}` of the scenario) ⇄ {b} ({at_b}, `{}`)", pair.a, pair.b);
        print(&format!("link `{}`: {ends}\n", pair.name))?;
        if !own.is_empty() {
            print(&format!(
                "`ip netns exec {a} COMMAND` runs a command at the first end, until this ends\n"
            ))?;
        }
    }
    watch(arguments, &clock, vec![(pair.name, running)])
}

/// Without root: a relay for each link.
fn relays(arguments: &Arguments, clock: &Clock, pairs: Vec<LinkPair>) -> Ended {
    let mut all = Vec::new();
    for (&(listen, robot), pair) in arguments.relay.iter().zip(pairs) {
        let ends = relay(listen, robot).map_err(|error| format!("--relay {listen}={robot}: {error}"))?;
        let (clients, server) = ends;
        let listens = clients.address();
        let emulator = Emulator::new(pair.up, pair.down).early(arguments.scheduling.early_or_default());
        let emulator = emulator.thread(arguments.scheduling.thread());
        let running = emulator.spawn(clients, server).map_err(|error| error.to_string())?;
        warn(&running);
        if arguments.json {
            let more = [
                ("link", json!(pair.name)),
                ("address", json!(listens.to_string())),
                ("robot", json!(robot.to_string())),
            ];
            print(&json_line("relaying", clock.now(), more))?;
        } else {
            let ends = format!("{listens} (`{}` of the scenario) ⇄ {robot} (`{}`)", pair.a, pair.b);
            print(&format!("link `{}`: {ends}\n", pair.name))?;
        }
        all.push((pair.name, running));
    }
    watch(arguments, clock, all)
}

fn warn(running: &RunningEmulator) {
    for warning in running.warnings() {
        crate::say(&format!("goes on without {warning}"));
    }
}

/// So soon it is noticed that one has ended by itself.
const LOOK: Duration = Duration::from_millis(100);

/// Tells what they do until they are to end.
fn watch(arguments: &Arguments, clock: &Clock, all: Vec<(String, RunningEmulator)>) -> Ended {
    let (stop, stopped) = channel();
    let _signals = OnSignal::new(move || {
        let _ = stop.send(()); // Whoever does not listen any more has ended.
    })?;
    let several = all.len() > 1;
    let end = arguments.duration.map(|duration| clock.now() + duration);
    let mut next = clock.now() + arguments.every;
    loop {
        let until = end.map_or(next, |end| end.min(next));
        let wait = until.saturating_since(clock.now()).min(LOOK);
        let interrupted = !matches!(stopped.recv_timeout(wait.into()), Err(RecvTimeoutError::Timeout));
        let has_ended = all.iter().any(|(_, running)| running.has_ended());
        if interrupted || has_ended || end.is_some_and(|end| clock.now() >= end) {
            break;
        }
        if clock.now() < next {
            continue;
        }
        next += arguments.every;
        for (link, running) in &all {
            if let Some(stats) = running.stats() {
                tell(arguments.json, "statistics", clock, several.then_some(link), &stats)?;
            }
        }
    }
    for (link, running) in all {
        let stats =
            running.stop().map_err(|error| format!("the link `{link}` carries nothing more: {error}"))?;
        tell(arguments.json, "summary", clock, several.then_some(&link), &stats)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One for each emulator; `None`: the only one that there is.
fn links(arguments: &Arguments) -> Result<Vec<Option<&str>>, String> {
    let named: Vec<Option<&str>> = arguments.link.iter().map(|link| Some(link.as_str())).collect();
    match (arguments.relay.len().max(1), named.len()) {
        (1, 0) => Ok(vec![None]),
        (wanted, found) if wanted == found => Ok(named),
        (1, _) => Err("--link names one link; of several, each needs a --relay".to_owned()),
        (wanted, found) => Err(format!("{wanted} times --relay need as many --link, and there are {found}")),
    }
}

fn relay_of(text: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let (listen, robot) = text.split_once('=').ok_or("is written LISTEN=ROBOT: 127.0.0.1:7000=robot:4433")?;
    Ok((address(listen)?, resolve(robot)?))
}

/// How the names of one's own namespaces begin. What a `SIGKILL` left of them, the next start removes.
const OWN: &str = "taut-emulate";

/// Two new ones where none are named.
fn namespaces(arguments: &Arguments) -> Result<Vec<Namespace>, String> {
    let count = if arguments.between.is_empty() { 2 } else { 0 };
    let made: Result<Vec<Namespace>, _> = (0..count).map(|_| Namespace::named(OWN)).collect();
    made.map_err(|error| error.to_string())
}

fn named(namespaces: &[Namespace]) -> Vec<String> {
    namespaces.iter().filter_map(|namespace| namespace.name().map(ToOwned::to_owned)).collect()
}

/// With the queue and the gate of the command line.
fn shaped(scenario: &Scenario, arguments: &Arguments, link: Option<&str>) -> Result<Scenario, String> {
    let mut shaping = Shaping { queue: arguments.queue.clone(), gate: arguments.gate };
    if shaping == Shaping::default() {
        return Ok(scenario.clone());
    }
    if let (Some(gate), Some(port)) = (&mut shaping.gate, arguments.video) {
        gate.port = port;
    }
    let within = |error: RunError| error.within(&arguments.scenario).to_string();
    let link = link_name(scenario, link).map_err(within)?;
    scenario.shaped(link, &shaping).map_err(|error| error.to_string())
}

fn video_port(text: &str) -> Result<u16, String> {
    let port = text.strip_prefix("udp:").and_then(|port| port.parse().ok());
    port.filter(|port| *port > 0).ok_or_else(|| "a port is like udp:5004".to_owned())
}

/// `link`: of several.
fn tell(
    json: bool,
    event: &'static str,
    clock: &Clock,
    link: Option<&String>,
    stats: &EmulatorStats,
) -> Result<(), String> {
    if json {
        let link = link.map(|link| ("link", json!(link)));
        let more = [
            ("up", direction_json(&stats.up)),
            ("down", direction_json(&stats.down)),
            ("cpu_s", json!(stats.cpu.as_secs_f64())),
        ];
        return print(&json_line(event, clock.now(), link.into_iter().chain(more)));
    }
    let link = link.map_or_else(String::new, |link| format!(" {link}"));
    let seconds = stats.elapsed.as_secs_f64();
    let (up, down) = (direction_text(&stats.up), direction_text(&stats.down));
    let cpu = stats.cpu.as_secs_f64() / seconds.max(1e-9) * 100.0;
    print(&format!("{seconds:>7.1} s{link}  → {up}  ← {down}  CPU {cpu:.0}%\n"))
}

/// By percentiles, in µs.
fn lateness_us(stats: &DirectionStats) -> [f64; 2] {
    [50.0, 99.0].map(|percentile| stats.lateness_at(percentile).as_nanos() as f64 / 1e3)
}

fn direction_text(stats: &DirectionStats) -> String {
    let dropped = dropped_text(&stats.dropped, stats.overrun);
    let bytes = Bytes::new(stats.left_bytes).get() as f64 / 1e6;
    let [p50, p99] = lateness_us(stats);
    format!("{} packets, {bytes:.1} MB, {dropped}, late p50 {p50:.0} p99 {p99:.0} µs", stats.left)
}

/// `"12 dropped (gated 9, aqm 3)"`: all of them, and by cause. The device dropped `overrun` before the emulator saw them.
fn dropped_text(by_cause: &BTreeMap<DropCause, u64>, overrun: u64) -> String {
    let named = by_cause.iter().map(|(cause, count)| (cause.name().replace('_', " "), *count));
    let all: Vec<(String, u64)> =
        named.chain([("overrun".to_owned(), overrun)]).filter(|(_, count)| *count > 0).collect();
    let total: u64 = all.iter().map(|(_, count)| count).sum();
    let split: Vec<String> = all.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    if total == 0 { "0 dropped".to_owned() } else { format!("{total} dropped ({})", split.join(", ")) }
}

fn direction_json(stats: &DirectionStats) -> Value {
    let dropped: serde_json::Map<String, Value> = stats
        .dropped
        .iter()
        .map(|(cause, count): (&DropCause, _)| (cause.name().to_owned(), json!(count)))
        .collect();
    let [p50, p99] = lateness_us(stats);
    json!({
        "entered": stats.entered,
        "left": stats.left,
        "left_bytes": stats.left_bytes,
        "dropped": dropped,
        "kept_out": stats.kept_out,
        "held": stats.held,
        "duplicated": stats.duplicated,
        "corrupted": stats.corrupted,
        "marked": stats.marked,
        "refused": stats.refused,
        "errors": stats.errors,
        "malformed": stats.malformed,
        "overrun": stats.overrun,
        "queue": stats.queue.iter().cloned().collect::<std::collections::BTreeMap<String, u64>>(),
        "lateness_p50_us": p50,
        "lateness_p99_us": p99,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gate_dropped_stands_apart_from_what_the_queue_dropped() {
        let by_cause =
            BTreeMap::from([(DropCause::Gated, 9), (DropCause::QueueFullPackets, 3), (DropCause::Aqm, 0)]);
        assert_eq!(dropped_text(&by_cause, 0), "12 dropped (queue full packets 3, gated 9)");
        assert_eq!(dropped_text(&by_cause, 2), "14 dropped (queue full packets 3, gated 9, overrun 2)");
        assert_eq!(dropped_text(&BTreeMap::new(), 0), "0 dropped");
    }
}
