//! The end that answers probes: `taut probe --listen`, and `taut robot --probe` beside a robot.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use taut_agent::RobotCommand;
use taut_io::session::{
    Endpoint, Remote, RobotMachine, Security, ServeConfig, TransportConfig, TransportKind, serve,
};
use taut_io::{Clock, Driver, DriverConfig, spawn_unprivileged};
use taut_session::RobotConfig;

use super::answering::Answering;
use super::ends;
use crate::host::{OnSignal, json_line};
use crate::{Ended, print};

pub(super) fn listening(as_json: bool, clock: &Clock, endpoint: &Endpoint) -> Ended {
    let address = endpoint.local_addr().map_err(|error| error.to_string())?;
    print(&if as_json {
        json_line("listening", clock.now(), [("address", json!(address.to_string()))])
    } else {
        format!("answers probes at {address}\n")
    })?;
    let mut signals = Ok(None);
    let started = |remote: Remote<RobotMachine<Answering>>| {
        signals = OnSignal::new(move || _ = remote.insist(RobotCommand::Close)).map(Some);
    };
    answered(clock, endpoint, Arc::default(), started)?;
    signals?;
    Ok(ExitCode::SUCCESS)
}

/// Answers one probe after the other, but while it `is_busy`.
fn answered(
    clock: &Clock,
    endpoint: &Endpoint,
    is_busy: Arc<AtomicBool>,
    started: impl FnOnce(Remote<RobotMachine<Answering>>),
) -> Result<(), String> {
    let session =
        ends::declared().into_iter().try_fold(RobotConfig::new().window(false), RobotConfig::channel);
    let config = ServeConfig::new(session.map_err(|error| error.to_string())?);
    let driver = Driver::new(DriverConfig::new()).map_err(|error| error.to_string())?.with_clock(*clock);
    let served = serve(driver, endpoint, config, Answering::new(*clock, is_busy), started, &mut |_, _| ());
    served.map(|_| ()).map_err(|error| error.to_string())
}

/// The end of probes that is beside a robot.
pub(crate) struct Beside {
    endpoint: Endpoint,
    pub(crate) address: SocketAddr,
}

impl Beside {
    pub(crate) fn listen(listen: SocketAddr, security: Security, clock: &Clock) -> Result<Self, String> {
        let endpoint = Endpoint::listen(TransportConfig::from(TransportKind::Udp), listen, security, clock);
        let endpoint = endpoint.map_err(|error| format!("--probe {listen}: {error}"))?;
        let address = endpoint.local_addr().map_err(|error| error.to_string())?;
        Ok(Self { endpoint, address })
    }

    /// Answers for as long as the process lives; while it `is_busy`, only that it is.
    pub(crate) fn start(self, clock: Clock, is_busy: Arc<AtomicBool>) -> Result<(), String> {
        let work = move || {
            if let Err(error) = answered(&clock, &self.endpoint, is_busy, |_| ()) {
                crate::say(&format!("probes are not answered any more: {error}"));
            }
        };
        let started = spawn_unprivileged("taut probe", || (), work);
        started.map(|_| ()).map_err(|error| error.to_string())
    }
}
