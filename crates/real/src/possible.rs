//! What real sockets cannot do is refused by the name of its key.

use taut_core::Seed;
use taut_io::tcp::KernelTcp;
use taut_lab::run::{Inputs, RunError, path_links};
use taut_lab::scenario::{MptcpScheduler, MptcpSpec, Scenario, TcpSpec, Teleop, TransportSpec};

/// Can this scenario (without variants) run over real sockets?
///
/// # Errors
/// The first key that cannot, and why.
pub fn possible(scenario: &Scenario) -> Result<(), RunError> {
    let refuse =
        |key: &str, message: &str| Err(RunError::Key { key: key.to_owned(), message: message.to_owned() });
    if scenario.session.is_some() {
        return refuse("session", "is simulated only; sessions of [teleop] run over real sockets");
    }
    if let Some((name, _)) = scenario.cross.iter().find(|(_, cross)| !cross.traffic.is_silent()) {
        return refuse(&format!("cross.{name}"), "cross traffic is simulated only");
    }
    if let Some(name) = scenario.lans.keys().next() {
        return refuse(
            &format!("lans.{name}"),
            "over real sockets there is one link, between operator and robot",
        );
    }
    if scenario.commands.is_some() && scenario.teleop.is_some() {
        return refuse("commands", "beside a session they are simulated only");
    }
    path_links(scenario, Seed::new(1), &mut Inputs::default())?;
    let (of, found) = match (&scenario.teleop, &scenario.commands) {
        (Some(teleop), _) => ("teleop", session(teleop)),
        (None, Some(commands)) => ("commands", crate::commands::possible(commands)),
        (None, None) => return Ok(()),
    };
    found.map_or(Ok(()), |(key, message)| refuse(&format!("{of}.{key}"), &message))
}

/// What of Multipath TCP cannot be: the kernel's is all that there is.
pub(crate) fn multipath_tcp(spec: MptcpSpec) -> Option<(&'static str, String)> {
    if !matches!(spec.scheduler, MptcpScheduler::Minrtt | MptcpScheduler::Linux) {
        let message = "the kernel's Multipath TCP has one of its own: name linux, or minrtt";
        return Some(("transport.mptcp.scheduler", message.to_owned()));
    }
    let missing = KernelTcp::has_multipath().err()?;
    Some(("transport.mptcp", format!("this kernel has no Multipath TCP: {missing}")))
}

/// What of a session cannot be.
fn session(teleop: &Teleop) -> Option<(&'static str, String)> {
    if let TransportSpec::Mptcp(spec) = teleop.transport
        && let Some(found) = multipath_tcp(spec)
    {
        return Some(found);
    }
    settings(teleop).map(|(key, message)| (key, message.to_owned()))
}

/// Which of its settings cannot be.
fn settings(teleop: &Teleop) -> Option<(&'static str, &'static str)> {
    let clock =
        "over real sockets both ends read the one clock of this host, so that one-way latency is exact";
    let button = "buttons are pressed by script in simulations only";
    if teleop.operator_clock.is_some() {
        return Some(("operator_clock", clock));
    }
    if teleop.robot_clock.is_some() {
        return Some(("robot_clock", clock));
    }
    if !teleop.stops.is_empty() {
        return Some(("stops", button));
    }
    if !teleop.resumes.is_empty() {
        return Some(("resumes", button));
    }
    if teleop.resume_after.is_some() {
        return Some(("resume_after", button));
    }
    match teleop.transport {
        TransportSpec::Etp(etp) if etp.tcp.is_some() => {
            Some(("transport.etp.tcp", "a gap above the kernel's TCP is simulated only"))
        }
        TransportSpec::Tcp(tcp)
            if ![TcpSpec::default(), TcpSpec::linux()]
                .contains(&TcpSpec { congestion: TcpSpec::default().congestion, ..tcp }) =>
        {
            Some((
                "transport.tcp",
                "the kernel's TCP has settings of its own; leave out the model's, but for `congestion`, or give those of \
                 Linux: counted = \"segments\", rack = true, min_rto = \"200ms\"",
            ))
        }
        _ => None,
    }
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
        for transport in ["udp", "every_path", "{ mtip = {} }", "{ mptcp = {} }", "{ mpquic = {} }"] {
            assert_eq!(told(&[&format!("commands.transport={transport}")]), Ok(()), "{transport}");
        }
        assert_eq!(told(&["commands.paths=1"]), Ok(()), "the first of the links");
        for (setting, key) in [
            (
                "commands.transport={ mptcp = { scheduler = \"redundant\" } }",
                "commands.transport.mptcp.scheduler",
            ),
            ("commands.transport={ quic = {} }", "commands.transport"),
            ("commands.paths=3", "commands.paths"),
            ("cross.video.traffic={ poisson = { rate = \"1Mbit\", packet = \"1200B\" } }", "cross.video"),
        ] {
            let error = told(&[setting]).unwrap_err();
            assert!(error.contains(key), "{setting}: {error}");
        }
    }
}
