//! What real sockets cannot do is refused by the name of its key.

use taut_core::{Bytes, Seed};
use taut_io::tcp::KernelTcp;
use taut_lab::run::{Inputs, RunError, cross_flows, path_links};
use taut_lab::scenario::{
    CongestionControl, Scenario, Scheduler, Session, Stream, TcpSpec, Teleop, Traffic, TransportSpec,
};

use crate::NamespaceError;
use crate::between::Network;

/// Can this scenario (without variants) run over real sockets?
///
/// # Errors
/// The first key that cannot, and why.
pub fn possible(scenario: &Scenario) -> Result<(), RunError> {
    let refuse =
        |key: &str, message: &str| Err(RunError::Key { key: key.to_owned(), message: message.to_owned() });
    if let Some(name) = scenario.lans.keys().next() {
        return refuse(
            &format!("lans.{name}"),
            "over real sockets there is one link, between operator and robot",
        );
    }
    let sessions = [scenario.session.is_some(), scenario.teleop.is_some(), scenario.commands.is_some()];
    if sessions.iter().filter(|is| **is).count() > 1 {
        let key = if scenario.commands.is_some() { "commands" } else { "session" };
        return refuse(key, "beside another session it is simulated only");
    }
    path_links(scenario, Seed::new(1), &mut Inputs::default())?;
    cross_flows(scenario, Seed::new(1), &mut Inputs::default())?;
    for (name, entry) in scenario.cross.iter().filter(|(_, entry)| !entry.traffic.is_silent()) {
        if let Some((key, message)) = cross(&entry.traffic, sack(scenario)) {
            return refuse(&format!("cross.{name}.traffic.{key}"), &message);
        }
    }
    let (of, found) = match (&scenario.teleop, &scenario.commands) {
        (Some(teleop), _) => ("teleop", settings(teleop).or_else(|| transport(&teleop.transport))),
        (None, Some(commands)) if commands.bare => ("commands", Some(("bare", BARE.to_owned()))),
        (None, Some(commands)) => ("commands", transport(&commands.transport)),
        (None, None) => ("session", scenario.session.as_ref().and_then(media)),
    };
    found.map_or(Ok(()), |(key, message)| refuse(&format!("{of}.{key}"), &message))
}

const BARE: &str = "without a session they are simulated only: set it to false";

/// Which of a session's settings cannot be.
fn settings(teleop: &Teleop) -> Option<(&'static str, String)> {
    let clock =
        "over real sockets both ends read the one clock of this host, so that one-way latency is exact";
    let button = "buttons are pressed by script in simulations only";
    let (key, message) = match teleop {
        Teleop { operator_clock: Some(_), .. } => ("operator_clock", clock),
        Teleop { robot_clock: Some(_), .. } => ("robot_clock", clock),
        Teleop { stops, .. } if !stops.is_empty() => ("stops", button),
        Teleop { stop_within: Some(_), .. } => ("stop_within", button),
        Teleop { resumes, .. } if !resumes.is_empty() => ("resumes", button),
        Teleop { resume_after: Some(_), .. } => ("resume_after", button),
        Teleop { wanted: Some(_), .. } => ("wanted", "is of simulations only"),
        _ => return None,
    };
    Some((key, message.to_owned()))
}

/// Which of a session's settings cannot be.
fn media(session: &Session) -> Option<(&'static str, String)> {
    let marked = |stream: &Option<Stream>| stream.as_ref().is_some_and(|stream| stream.dscp != 0);
    let message = || "packets are marked in simulations only".to_owned();
    match [&session.forward, &session.backward].map(marked) {
        [true, _] => Some(("forward.dscp", message())),
        [_, true] => Some(("backward.dscp", message())),
        _ => transport(&session.transport),
    }
}

/// What the devices between the namespaces carry.
const MTU: Bytes = Bytes::new(1_500);
/// The shortest segment that Linux can be told of (`TCP_MIN_MSS`), its headers included.
const SHORTEST_SEGMENT: Bytes = Bytes::new(128);

/// What of cross traffic cannot be, where TCP uses selective acknowledgements or not.
fn cross(traffic: &Traffic, sack: Option<bool>) -> Option<(&'static str, String)> {
    let (key, packet) = match traffic {
        Traffic::Tcp(tcp) => return bulk(tcp, sack),
        Traffic::Cbr(traffic) => ("cbr.packet", traffic.packet),
        Traffic::Poisson(traffic) => ("poisson.packet", traffic.packet),
        Traffic::Video(video) => ("video.packet", video.packet),
        Traffic::Rtp(rtp) => ("rtp.packet", rtp.packet),
        Traffic::Haptic(haptic) => ("haptic.packet", haptic.packet),
        Traffic::Voice | Traffic::Replay(_) => return None,
    };
    (packet > MTU).then(|| (key, format!("over real sockets packets have at most {MTU}")))
}

/// What of a bulk transfer cannot be. The window when recovery ends is ssthresh in Linux, whatever `full_ack` says.
fn bulk(spec: &TcpSpec, sack: Option<bool>) -> Option<(&'static str, String)> {
    let name = congestion(spec.congestion);
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if known.is_ok_and(|known| !known.split_whitespace().any(|one| one == name)) {
        return Some((
            "tcp.congestion",
            format!("this kernel has no {name}: `modprobe tcp_{name}` loads it"),
        ));
    }
    if spec.segment < SHORTEST_SEGMENT || spec.segment > MTU {
        return Some(("tcp.segment", format!("over real sockets {SHORTEST_SEGMENT} to {MTU}")));
    }
    if sack.is_none() {
        let message = "a kernel has one setting for all connections: give all of them the same, those of the session as well";
        return Some(("tcp.sack", message.to_owned()));
    }
    let TcpSpec { segment, sack, full_ack, .. } = TcpSpec::default();
    (!is_kernels(TcpSpec { segment, sack, full_ack, ..*spec })).then(|| {
        let message = "the kernel's TCP has settings of its own; leave out the model's, but for `congestion`, `segment`, `sack` and \
                       `full_ack`, or give those of Linux: counted = \"segments\", rack = true, timestamps = true, min_rto = \"200ms\"";
        ("tcp", message.to_owned())
    })
}

/// The RFCs' settings or those of Linux; the kernel decides on timestamps by itself.
fn is_kernels(tcp: TcpSpec) -> bool {
    let TcpSpec { congestion, timestamps, .. } = tcp;
    [TcpSpec::default(), TcpSpec::linux()].map(|own| TcpSpec { congestion, timestamps, ..own }).contains(&tcp)
}

/// Does TCP use selective acknowledgements (RFC 2018)? `None` where not all of a scenario's connections say the same.
fn sack(scenario: &Scenario) -> Option<bool> {
    let session = [
        scenario.teleop.as_ref().map(|teleop| teleop.transport),
        scenario.commands.as_ref().map(|commands| commands.transport),
    ];
    let session = session.into_iter().flatten().filter_map(|transport| match transport {
        TransportSpec::Tcp(tcp) => Some(tcp.sack),
        TransportSpec::Mptcp(mptcp) => Some(mptcp.subflow.sack),
        _ => None,
    });
    let cross = scenario.cross.values().filter_map(|cross| match &cross.traffic {
        Traffic::Tcp(tcp) => Some(tcp.sack),
        _ => None,
    });
    let mut all = session.chain(cross);
    let first = all.next().unwrap_or(true);
    all.all(|sack| sack == first).then_some(first)
}

/// What Linux's TCP has beside RFC 6582 (ip-sysctl.rst): a scenario without selective acknowledgements asks for none of it.
const BEYOND_NEWRENO: [&str; 5] =
    ["tcp_sack", "tcp_timestamps", "tcp_recovery", "tcp_early_retrans", "tcp_frto"];

/// Sets in the namespaces what connections cannot be told each by itself.
pub(crate) fn prepare(scenario: &Scenario, network: &Network) -> Result<(), NamespaceError> {
    if sack(scenario) == Some(false) {
        for end in [&network.operator, &network.robot] {
            BEYOND_NEWRENO.iter().try_for_each(|key| end.set_ipv4(key, "0"))?;
        }
    }
    Ok(())
}

/// What the kernel calls it. Its Reno recovers as RFC 6582 says.
pub(crate) const fn congestion(congestion: CongestionControl) -> &'static str {
    match congestion {
        CongestionControl::Reno | CongestionControl::NewReno => "reno",
        CongestionControl::Cubic => "cubic",
    }
}

/// What of a transport cannot be.
fn transport(spec: &TransportSpec) -> Option<(&'static str, String)> {
    let (key, message) = match *spec {
        TransportSpec::Mptcp(spec) if !matches!(spec.scheduler, Scheduler::MinRtt | Scheduler::Linux) => {
            let message = "the kernel's Multipath TCP has one of its own: name linux, or minrtt";
            ("transport.mptcp.scheduler", message.to_owned())
        }
        TransportSpec::Mptcp(_) => {
            let missing = KernelTcp::has_multipath().err()?;
            ("transport.mptcp", format!("this kernel has no Multipath TCP: {missing}"))
        }
        TransportSpec::Etp(etp) if etp.tcp.is_some() => {
            ("transport.etp.tcp", "a gap above the kernel's TCP is simulated only".to_owned())
        }
        TransportSpec::Tcp(tcp) if !is_kernels(tcp) => {
            let message = "the kernel's TCP has settings of its own; leave out the model's, but for `congestion`, or give \
                           those of Linux: counted = \"segments\", rack = true, timestamps = true, min_rto = \"200ms\"";
            ("transport.tcp", message.to_owned())
        }
        _ => return None,
    };
    Some((key, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_lab::scenario::Setting;

    const COMMANDS: &str = r#"title = "t"
duration = "1s"
[links.a]
between = ["from", "to"]
chain = [{ delay = "1ms" }]
[links.b]
between = ["to", "from"]
chain = [{ delay = "2ms" }]
[commands]
from = "from"
to = "to"
[cross.video]
from = "to"
to = "from"
traffic = { poisson = { rate = "0bit", packet = "1200B" } }
"#;

    fn told(settings: &[&str]) -> Result<(), String> {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        let scenario = Scenario::parse("t.toml", COMMANDS).unwrap().with(&settings).unwrap();
        possible(&scenario).map_err(|error| error.to_string())
    }

    #[test]
    fn commands_over_parallel_links_are_possible_and_what_is_not_is_named() {
        for transport in ["udp", "every_path", "tcp", "quic", "{ mtip = {} }", "{ mpquic = {} }"] {
            assert_eq!(told(&[&format!("commands.transport={transport}")]), Ok(()), "{transport}");
        }
        assert_eq!(told(&["commands.paths=1"]), Ok(()), "the first of the links");
        for (setting, key) in [
            (
                "commands.transport={ mptcp = { scheduler = \"redundant\" } }",
                "commands.transport.mptcp.scheduler",
            ),
            ("commands.bare=true", "commands.bare"),
            ("commands.paths=3", "commands.paths"),
            (
                "cross.video.traffic={ poisson = { rate = \"1Mbit\", packet = \"1501B\" } }",
                "cross.video.traffic.poisson.packet: over real sockets packets have at most 1.5kB",
            ),
            ("cross.video.traffic={ tcp = { segment = \"9kB\" } }", "cross.video.traffic.tcp.segment"),
            ("cross.video.traffic={ tcp = { ack_every = 1 } }", "cross.video.traffic.tcp: the kernel's TCP"),
        ] {
            let error = told(&[setting]).unwrap_err();
            assert!(error.contains(key), "{setting}: {error}");
        }
    }

    #[test]
    fn cross_traffic_is_possible_and_tcp_says_the_same_of_sack_everywhere() {
        for traffic in [
            "{ cbr = { rate = \"1Mbit\", packet = \"150B\" } }",
            "{ poisson = { rate = \"1Mbit\", packet = \"1500B\" } }",
            "\"voice\"",
            "{ video = {} }",
            "{ rtp = { sender = \"gcc\" } }",
            "{ tcp = {} }",
            "{ tcp = { counted = \"segments\", rack = true, timestamps = true, min_rto = \"200ms\" } }",
            "{ tcp = { segment = \"578B\", sack = false, full_ack = \"ssthresh\" } }",
            "{ tcp = { counted = \"segments\", rack = true, min_rto = \"200ms\", sack = false } }",
        ] {
            assert_eq!(told(&[&format!("cross.video.traffic={traffic}")]), Ok(()), "{traffic}");
        }
        let apart = ["cross.video.traffic={ tcp = { sack = false } }", "commands.transport=\"tcp\""];
        let error = told(&apart).unwrap_err();
        assert!(error.contains("cross.video.traffic.tcp.sack: a kernel has one setting"), "{error}");
    }

    #[test]
    fn cross_traffic_needs_the_session_s_ends_and_is_possible_alone() {
        let elsewhere = COMMANDS.replace("[cross.video]\nfrom = \"to\"", "[cross.video]\nfrom = \"aside\"");
        let elsewhere =
            elsewhere + "[links.c]\nbetween = [\"aside\", \"from\"]\nchain = [{ delay = \"1ms\" }]\n";
        let scenario = Scenario::parse("t.toml", &elsewhere).unwrap();
        assert!(possible(&scenario).unwrap_err().to_string().contains("links.c"));
        let alone = COMMANDS.replace("[commands]\nfrom = \"from\"\nto = \"to\"\n", "");
        assert_eq!(possible(&Scenario::parse("t.toml", &alone).unwrap()), Ok(()));
    }
}
