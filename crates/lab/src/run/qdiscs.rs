//! A scenario's link as queueing disciplines of Linux (tc(8)), for whoever wants the kernel's instead of ours.

mod waiting;

use taut_core::{Bitrate, DropCause, Duration};
use taut_link::frame_gate::GateConfig;

use self::waiting::{class_of, waiting};
use super::inputs::RunError;
use super::links::directions;
use crate::scenario::{
    Cross, Distribution, ElementSpec, JitterSpec, LinkSpec, LossSpec, QueueSpec, Scenario, ServerSpec,
    Traffic,
};

/// One direction of a link as Linux has it: the qdiscs of three Ethernet devices that its packets leave through one after the
/// other, those of the sending host, of a router before the bottleneck, and of a router behind it.
///
/// A server is HTB with a bucket of one byte, which lets a packet go when the one before it has been sent, and a FIFO behind
/// it; the packet in service is not in the queue, as with ours. netem behind the bottleneck takes the time of service and
/// of propagation, and loses packets. `stab overhead -14` takes off the Ethernet header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdiscs {
    /// The name of the direction: `there: operator → robot`.
    pub label: String,
    /// Where it leads away from.
    pub from: String,
    /// Where it leads to.
    pub to: String,
    /// A frame gate, which is no qdisc: it stands where packets enter the first router.
    pub gate: Option<QdiscGate>,
    /// Why the server's queue drops, as the simulator calls it; `"queue"` where its rule and its limit are not told apart.
    pub drops: &'static str,
    host: Vec<String>,
    near: Vec<String>,
    far: Vec<String>,
}

/// A frame gate before a queue of [`Hop::Near`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QdiscGate {
    /// What is video, and how it is steered.
    pub config: GateConfig,
    /// The class at which the queue hangs that it reads: that in which its video waits (`"2:2"`).
    pub class: String,
}

/// One of the three devices of [`Qdiscs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// The sending host's: what stands before the server.
    Host,
    /// The first router's: the server.
    Near,
    /// The second router's: the time of service, and what stands behind the server.
    Far,
}

/// No queue of netem's is ever full: what can be full is the server's.
const ROOM: u64 = 1_000_000;
/// Takes 0.1 µs for 1250 B. netem keeps packets in order only where it has a rate.
const IN_ORDER: &str = "rate 100gbit";

/// Every direction of every link of a scenario.
///
/// # Errors
/// When a link is made of something for which Linux has no qdisc; the error names the key.
pub fn qdiscs(scenario: &Scenario) -> Result<Vec<Qdiscs>, RunError> {
    if let Some(name) = scenario.lans.keys().next() {
        return Err(RunError::key(format!("lans.{name}"), "the kernel's network has links alone"));
    }
    let ways = scenario.links.iter().flat_map(|(name, link)| {
        directions(name, link).into_iter().map(move |way| {
            one_way(name, link, scenario).map(|found| Qdiscs {
                label: way.label,
                from: way.from.to_owned(),
                to: way.to.to_owned(),
                ..found
            })
        })
    });
    ways.collect()
}

impl Qdiscs {
    /// The arguments of `tc`, a call each, that give `device` its part.
    pub fn commands(&self, hop: Hop, device: &str) -> Vec<String> {
        let parts = match hop {
            Hop::Host => &self.host,
            Hop::Near => &self.near,
            Hop::Far => &self.far,
        };
        parts
            .iter()
            .map(|part| match part.split_once(' ') {
                Some((object @ ("class" | "filter"), rest)) => format!("{object} add dev {device} {rest}"),
                _ => format!("qdisc add dev {device} {part}"),
            })
            .collect()
    }
}

fn one_way(name: &str, link: &LinkSpec, scenario: &Scenario) -> Result<Qdiscs, RunError> {
    let (mut before, mut after) = (Stage::default(), Stage::default());
    let (mut server, mut gate): (Option<&ServerSpec>, _) = (None, None);
    for (i, element) in link.chain.iter().enumerate() {
        let fault = |kind: &str, message: &str| {
            RunError::key(
                format!("links.{name}.chain.{i}.{kind}"),
                format!("Linux's qdiscs cannot: {message}"),
            )
        };
        let stage = if server.is_some() { &mut after } else { &mut before };
        match element {
            ElementSpec::Server(_) if server.is_some() => {
                return Err(fault("server", "a link has one server"));
            }
            ElementSpec::Server(found) => server = Some(found),
            ElementSpec::Delay(delay) => stage.delay += *delay,
            ElementSpec::Loss(_) if stage.loss.is_some() => {
                return Err(fault("loss", "netem has one loss before the server and one behind it"));
            }
            ElementSpec::Loss(loss) => stage.loss = Some(*loss),
            ElementSpec::Jitter(_) if stage.jitter.is_some() => {
                return Err(fault("jitter", "netem has one jitter before the server and one behind it"));
            }
            ElementSpec::Jitter(jitter) if jitter.correlation > 0.0 => {
                return Err(fault(
                    "jitter.correlation",
                    "netem takes the low bits of what it correlates: it must be 0",
                ));
            }
            ElementSpec::Jitter(jitter) => stage.jitter = Some(*jitter),
            ElementSpec::Duplicate(_) => {
                return Err(fault("duplicate", "a copy of netem's takes the time of service again"));
            }
            ElementSpec::Corrupt(_) => {
                return Err(fault("corrupt", "netem's kernel repairs or drops what it has corrupted itself"));
            }
            ElementSpec::Gate(spec) => match (link.chain.get(i + 1), server) {
                (Some(ElementSpec::Server(next)), None) => {
                    let class = class_of_video(spec.port, &next.queue, scenario).ok_or_else(|| {
                        fault("gate", "it reads one class, and the video waits in several, or beside others in a divided one")
                    })?;
                    gate = Some(QdiscGate { config: *spec, class });
                }
                _ => {
                    return Err(fault(
                        "gate",
                        "it stands at the router whose queue it reads, before the server",
                    ));
                }
            },
            ElementSpec::Cut(_) => return Err(fault("cut", "they do not change over time")),
            ElementSpec::DelayTable(_) => return Err(fault("delay_table", "they do not change over time")),
            ElementSpec::JitterTable(_) => return Err(fault("jitter_table", "they do not change over time")),
            ElementSpec::Recorded(_) => return Err(fault("recorded", "they do not change over time")),
            ElementSpec::LossTable(_) => return Err(fault("loss_table", "they do not change over time")),
        }
    }
    let (rate, near) = match server {
        Some(server) => {
            let at = link.chain.iter().position(|element| matches!(element, ElementSpec::Server(_)));
            let key = format!("links.{name}.chain.{}.server", at.unwrap_or_default());
            let rate = constant(server, &key)?;
            (Some(rate), bottleneck(rate, &server.queue, &key)?)
        }
        None => (None, Vec::new()),
    };
    let drops = server.map_or("", |server| dropped_as(&server.queue));
    Ok(Qdiscs { gate, drops, host: before.netem(None), near, far: after.netem(rate), ..Qdiscs::default() })
}

/// The class below a server in which all video to this port waits; that of packets without a code point, where the scenario has none.
fn class_of_video(port: u16, queue: &QueueSpec, scenario: &Scenario) -> Option<String> {
    let is_video = |cross: &&Cross| matches!(&cross.traffic, Traffic::Rtp(rtp) if rtp.port == port);
    let mut classes = scenario.cross.values().filter(is_video).map(|cross| class_of(cross.dscp, queue));
    let first = classes.next().unwrap_or_else(|| class_of(0, queue))?;
    classes.all(|class| class.as_ref() == Some(&first)).then_some(first)
}

fn constant(server: &ServerSpec, key: &str) -> Result<Bitrate, RunError> {
    let message = "Linux's qdiscs cannot: they do not change over time";
    match server {
        ServerSpec { mahimahi: Some(_), .. } => Err(RunError::key(format!("{key}.mahimahi"), message)),
        ServerSpec { rate_table: Some(_), .. } => Err(RunError::key(format!("{key}.rate_table"), message)),
        server => Ok(server.rate.unwrap_or_default()),
    }
}

fn dropped_as(queue: &QueueSpec) -> &'static str {
    let QueueSpec { bytes, packets, .. } = *queue;
    match bytes {
        _ if *queue != (QueueSpec { bytes, packets, ..QueueSpec::default() }) => "queue",
        Some(_) => DropCause::QueueFullBytes.name(),
        None => DropCause::QueueFullPackets.name(),
    }
}

/// HTB, which serves, and behind it the queue.
fn bottleneck(rate: Bitrate, queue: &QueueSpec, key: &str) -> Result<Vec<String>, RunError> {
    let mut parts = vec![
        "root handle 1: stab overhead -14 htb default 1".to_owned(),
        format!("class parent 1: classid 1:1 htb rate {}bit burst 1 cburst 1", rate.as_bps()),
    ];
    waiting(queue, "1:1", &format!("{key}.queue"), &mut parts)?;
    Ok(parts)
}

/// What stands on one side of the server.
#[derive(Default)]
struct Stage {
    delay: Duration,
    loss: Option<LossSpec>,
    jitter: Option<JitterSpec>,
}

impl Stage {
    /// netem for loss, service at `rate` and propagation; inside it another one for jitter, which is clipped at zero by itself.
    fn netem(&self, rate: Option<Bitrate>) -> Vec<String> {
        let mut parts = Vec::new();
        if rate.is_none() && self.loss.is_none() && self.delay == Duration::ZERO && self.jitter.is_none() {
            return parts;
        }
        let mut netem = format!("root handle 1: stab overhead -14 netem limit {ROOM}");
        if let Some(rate) = rate {
            netem += &format!(" rate {}bit", rate.as_bps());
        }
        if self.delay > Duration::ZERO {
            netem += &format!(" delay {}", micros(self.delay));
        }
        match self.loss {
            Some(LossSpec::Bernoulli(p)) => netem += &format!(" loss random {p}"),
            Some(LossSpec::GilbertElliott(ge)) => {
                netem += &format!(" loss gemodel {} {} {} {}", ge.p, ge.r, ge.bad, ge.good);
            }
            None => {}
        }
        parts.push(netem);
        parts.extend(self.jitter.map(|jitter| format!("parent 1: handle 2: {}", varied(jitter))));
        parts
    }
}

fn varied(jitter: JitterSpec) -> String {
    const LEAST: Duration = Duration::from_micros(1);
    let JitterSpec { distribution, mean, spread, reorder, .. } = jitter;
    let order = if reorder { "" } else { IN_ORDER };
    // Without a table netem is uniform, and knows no word for it; tc takes one only beside a mean and a spread of a microsecond.
    let (mean, shape) = match distribution {
        Distribution::Normal | Distribution::Pareto if spread >= LEAST => {
            (mean.max(LEAST), format!(" distribution {distribution}"))
        }
        _ => (mean, String::new()),
    };
    let delay = format!("delay {} {}{shape}", micros(mean), micros(spread));
    format!("netem limit {ROOM} {delay} {order}").trim_end().to_owned()
}

/// tc reads fractions, and knows no unit below this one.
fn micros(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    format!("{}.{:03}us", nanos / 1_000, nanos % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_link::frame_gate::Policy;

    fn scenario(chain: &str) -> Scenario {
        let text = format!(
            "title = \"t\"\nduration = \"1s\"\n[links.wire]\nfrom = \"a\"\nto = \"b\"\nchain = [{chain}]\n\
             [cross.x]\nfrom = \"a\"\nto = \"b\"\ntraffic = \"voice\"\n"
        );
        Scenario::parse("t.toml", &text).expect("it is well formed")
    }

    fn of(chain: &str) -> Qdiscs {
        qdiscs(&scenario(chain)).expect("Linux has it").remove(0)
    }

    #[test]
    fn a_server_its_queue_and_what_stands_behind_it_are_three_qdiscs_on_two_devices() {
        let found =
            of("{ server = { rate = \"6Mbit\", queue = { bytes = \"14kB\" } } }, { delay = \"8ms\" }, \
                        { loss = { bernoulli = \"0.1%\" } }");
        assert_eq!((found.from.as_str(), found.to.as_str()), ("a", "b"));
        assert_eq!(found.commands(Hop::Host, "x"), [""; 0]);
        assert_eq!(
            found.commands(Hop::Near, "x"),
            [
                "qdisc add dev x root handle 1: stab overhead -14 htb default 1",
                "class add dev x parent 1: classid 1:1 htb rate 6000000bit burst 1 cburst 1",
                "qdisc add dev x parent 1:1 bfifo limit 14000",
            ]
        );
        assert_eq!(
            found.commands(Hop::Far, "y"),
            [
                "qdisc add dev y root handle 1: stab overhead -14 netem limit 1000000 rate 6000000bit delay 8000.000us loss \
              random 0.1%"
            ]
        );
    }

    fn gated(queue: &str) -> String {
        format!(
            "{{ gate = {{ policy = \"aimd3\" }} }}, {{ server = {{ rate = \"1Mbit\", queue = {queue} }} }}"
        )
    }

    #[test]
    fn a_gate_reads_the_class_in_which_its_video_waits() {
        let three =
            "bands = [{ packets = 9 }, { tbf = { rate = \"1Mbit\", burst = \"3kB\" } }, { packets = 9 }]";
        let class = |queue: &str, dscps: &[u8]| {
            let mut scenario = scenario(&gated(queue));
            for dscp in dscps {
                let video = toml::from_str(&format!(
                    "from = \"a\"\nto = \"b\"\ndscp = {dscp}\ntraffic = {{ rtp = {{}} }}"
                ));
                scenario.cross.insert(format!("video {dscp}"), video.unwrap());
            }
            qdiscs(&scenario)
                .map(|ways| ways[0].gate.clone().unwrap().class)
                .map_err(|error| error.to_string())
        };
        let classes = format!(
            "{{ prio = {{ {three}, classes = [{{ dscp = 46, band = 0 }}, {{ dscp = 34, band = 1 }}] }} }}"
        );
        let others = format!("{{ prio = {{ {three}, classes = [{{ dscp = 0, band = 0 }}] }} }}");
        for (queue, dscps, expected) in [
            (&*classes, &[34][..], "2:2"),
            (&classes, &[0], "2:3"),
            (&classes, &[], "2:3"),
            (&classes, &[0, 10], "2:3"),
            (&others, &[0], "2:1"),
            ("\"codel\"", &[0, 34], "1:1"),
        ] {
            assert_eq!(class(queue, dscps).as_deref(), Ok(expected), "{queue} {dscps:?}");
        }
        let nested = "{ tbf = { rate = \"1Mbit\", burst = \"3kB\", queue = { prio = { bands = [{ packets = 9 }, { packets = 9 }] } } } }";
        for (queue, dscps) in [(&*classes, &[0, 34][..]), (nested, &[0])] {
            let error = class(queue, dscps).unwrap_err();
            assert!(error.contains("links.wire.chain.0.gate") && error.contains("one class"), "{error}");
        }
    }

    #[test]
    fn a_gate_stands_right_before_the_server() {
        let gate = |queue: &str| of(&gated(queue)).gate.expect("it has one");
        assert_eq!(gate("\"codel\"").config, GateConfig::new(Policy::Aimd3));
        let apart =
            "{ gate = { policy = \"aimd3\" } }, { delay = \"1ms\" }, { server = { rate = \"1Mbit\" } }";
        let error = qdiscs(&scenario(apart)).unwrap_err().to_string();
        assert!(error.contains("links.wire.chain.0.gate"), "{error}");
    }

    #[test]
    fn what_stands_before_the_server_is_the_hosts() {
        let found = of("{ loss = { gilbert_elliott = { p = \"1%\", r = \"20%\", bad = \"60%\" } } }, \
                        { server = { rate = \"1Mbit\" } }");
        let host = found.commands(Hop::Host, "x");
        assert!(host[0].ends_with("loss gemodel 1% 20% 60% 0%"), "{host:?}");
        assert!(found.commands(Hop::Near, "x")[2].ends_with("pfifo limit 1000"));
    }

    #[test]
    fn what_a_queue_drops_has_the_simulators_name_where_the_kernel_tells_why() {
        let drops = |queue| of(&format!("{{ server = {{ rate = \"1Mbit\", queue = {queue} }} }}")).drops;
        assert_eq!(drops("{ packets = 5 }"), "queue_full_packets");
        assert_eq!(drops("{ bytes = \"9kB\" }"), "queue_full_bytes");
        assert_eq!([drops("\"codel\""), drops("\"cake\"")], ["queue"; 2]);
    }

    #[test]
    fn jitter_is_a_netem_inside_a_netem_and_keeps_the_order_where_it_is_to() {
        let jitter = |more| {
            let chain =
                format!("{{ delay = \"5ms\" }}, {{ jitter = {{ distribution = \"normal\", {more} }} }}");
            of(&chain).commands(Hop::Host, "x").remove(1)
        };
        let netem = |words: &str| format!("qdisc add dev x parent 1: handle 2: netem limit 1000000 {words}");
        let normal = netem("delay 5000.000us 2000.000us distribution normal");
        assert_eq!(jitter("mean = \"5ms\", spread = \"2ms\", reorder = true"), normal);
        assert_eq!(jitter("mean = \"5ms\", spread = \"2ms\""), format!("{normal} rate 100gbit"));
        let around_nothing = netem("delay 1.000us 2000.000us distribution normal");
        assert_eq!(
            jitter("spread = \"2ms\", reorder = true"),
            around_nothing,
            "tc has no table without a mean"
        );
        let constant = netem("delay 5000.000us 0.000us");
        assert_eq!(
            jitter("mean = \"5ms\", spread = \"0ms\", reorder = true"),
            constant,
            "nor without a spread"
        );
    }

    #[test]
    fn what_linux_has_no_qdisc_for_is_refused_by_its_key() {
        for (chain, key) in [
            ("{ duplicate = \"1%\" }", "links.wire.chain.0.duplicate"),
            ("{ delay = \"1ms\" }, { corrupt = \"1%\" }", "links.wire.chain.1.corrupt"),
            ("{ cut = { at = \"1s\" } }", "links.wire.chain.0.cut"),
            (
                "{ jitter = { distribution = \"normal\", spread = \"1ms\", correlation = 0.5 } }",
                "links.wire.chain.0.jitter.correlation",
            ),
            (
                "{ server = { rate_table = [{ at = \"0s\", rate = \"1Mbit\" }] } }",
                "links.wire.chain.0.server.rate_table",
            ),
            (
                "{ server = { rate = \"1Mbit\", queue = { bytes = \"9kB\", packets = 5 } } }",
                "chain.0.server.queue.packets",
            ),
        ] {
            let error = qdiscs(&scenario(chain)).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("Linux's qdiscs cannot"), "{chain}: {error}");
        }
    }
}
