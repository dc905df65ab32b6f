//! What real sockets cannot do is refused by the name of its key.

use taut_core::Seed;
use taut_io::tcp::KernelTcp;
use taut_lab::run::{Inputs, RunError, path_links};
use taut_lab::scenario::{MptcpScheduler, Scenario, Session, Stream, TcpSpec, Teleop, TransportSpec};

/// Can this scenario (without variants) run over real sockets?
///
/// # Errors
/// The first key that cannot, and why.
pub fn possible(scenario: &Scenario) -> Result<(), RunError> {
    let refuse =
        |key: &str, message: &str| Err(RunError::Key { key: key.to_owned(), message: message.to_owned() });
    if let Some((name, _)) = scenario.cross.iter().find(|(_, cross)| !cross.traffic.is_silent()) {
        return refuse(&format!("cross.{name}"), "cross traffic is simulated only");
    }
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
        Teleop { resumes, .. } if !resumes.is_empty() => ("resumes", button),
        Teleop { resume_after: Some(_), .. } => ("resume_after", button),
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

/// What of a transport cannot be.
fn transport(spec: &TransportSpec) -> Option<(&'static str, String)> {
    let (key, message) = match *spec {
        TransportSpec::Mptcp(spec)
            if !matches!(spec.scheduler, MptcpScheduler::Minrtt | MptcpScheduler::Linux) =>
        {
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
        TransportSpec::Tcp(tcp)
            if ![TcpSpec::default(), TcpSpec::linux()]
                .contains(&TcpSpec { congestion: TcpSpec::default().congestion, ..tcp }) =>
        {
            let message = "the kernel's TCP has settings of its own; leave out the model's, but for `congestion`, or give \
                           those of Linux: counted = \"segments\", rack = true, min_rto = \"200ms\"";
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
            ("cross.video.traffic={ poisson = { rate = \"1Mbit\", packet = \"1200B\" } }", "cross.video"),
        ] {
            let error = told(&[setting]).unwrap_err();
            assert!(error.contains(key), "{setting}: {error}");
        }
    }
}
