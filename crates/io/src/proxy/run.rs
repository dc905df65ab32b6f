//! The loop around a proxy: connecting, beginning anew, interfaces that come and go, saying goodbye.

use std::io;
use std::os::fd::AsFd;

use taut_agent::Conversation;
use taut_core::{Duration, Time};
use taut_transport::service::Service;

use super::{ProxyConfig, ProxyLocal, ProxyMachine, ProxyNote};
use crate::session::{Carrier, Endpoint, EndpointError, PathWatch, Remote};
use crate::{Driver, DriverError, MachineId};

/// A proxy that could not be run any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// An endpoint refused.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The driver cannot go on.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The sockets of applications cannot be waited for.
    #[error("the applications' sockets: {0}")]
    Local(#[from] io::Error),
}

/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(200);
/// The most of it: it doubles for as long as the other end is there and refuses.
const LONGEST: Duration = Duration::from_millis(6_400);
/// A goodbye that takes longer does not arrive any more.
const GOODBYE: Duration = Duration::from_millis(1_500);

/// Runs a proxy on this thread until it is closed through the [`Remote`] that `started` is given. An endpoint that
/// connects tries to for as long as it runs; one that listens serves one peer after the other.
///
/// # Errors
/// See [`ProxyError`].
pub fn proxy(
    mut driver: Driver<ProxyMachine>,
    endpoint: &Endpoint,
    local: ProxyLocal,
    config: ProxyConfig,
    report_period: Option<Duration>,
    started: impl FnOnce(Remote<ProxyMachine>),
    tell: &mut dyn FnMut(Time, ProxyNote),
) -> Result<super::ProxyStats, ProxyError> {
    let _span = tracing::info_span!("proxy", transport = endpoint.kind().name()).entered();
    let (carrier, port) = endpoint.open_for(Service::Proxy)?;
    let mut machine = ProxyMachine::new(carrier, local, config)?;
    if let Some(period) = report_period {
        machine = machine.reports_by_time(period);
    }
    let descriptor = machine.descriptor()?;
    let id = driver.add(machine, port)?;
    driver.wake_on(id, descriptor.as_fd())?;
    let paths = endpoint.watch();
    if let Some(changes) = paths.as_ref().and_then(PathWatch::descriptor) {
        driver.watch(changes)?;
    }
    started(Remote::new(driver.mailbox(), id));
    let mut this = Loop { driver, id, endpoint, paths, again: AGAIN, tell };
    while !this.machine().is_closing() {
        if this.turn(Time::MAX)? {
            this.begin_anew()?;
        }
    }
    // A conversation that is over has no paths.
    let choices = this.machine().carrier().choices();
    let until = this.driver.clock().now() + GOODBYE;
    while this.machine().carrier().lingers() && this.driver.clock().now() < until {
        this.turn(until)?;
    }
    Ok(super::ProxyStats { choices, ..this.machine().stats().clone() })
}

struct Loop<'a> {
    driver: Driver<ProxyMachine>,
    id: MachineId,
    endpoint: &'a Endpoint,
    paths: Option<PathWatch>,
    again: Duration,
    tell: &'a mut dyn FnMut(Time, ProxyNote),
}

impl Loop<'_> {
    fn machine(&self) -> &ProxyMachine {
        self.driver.machine(self.id).expect("it is there until it is replaced")
    }

    /// Has the conversation ended?
    fn turn(&mut self, until: Time) -> Result<bool, DriverError> {
        let (clock, tell) = (self.driver.clock(), &mut self.tell);
        let (mut closed, mut until) = (false, until);
        if let Some(paths) = &mut self.paths {
            let now = clock.now();
            paths.look(now, &mut self.driver, self.id, &mut |machine, note| {
                machine.path_changed(now, &note);
                tell(now, ProxyNote::Path(note));
            });
            until = until.min(paths.due());
        }
        let again = &mut self.again;
        self.driver.turn(until, &mut |_, note| {
            if let ProxyNote::Closed(why) = &note {
                closed = true;
                *again = if why.is_refusal() { (*again * 2).min(LONGEST) } else { AGAIN };
            }
            tell(clock.now(), note);
        })?;
        Ok(closed)
    }

    /// The conversation is over: gets ready for the next one. A transport that waits for it by itself stays.
    fn begin_anew(&mut self) -> Result<(), ProxyError> {
        if self.endpoint.remote().is_some() {
            let until = self.driver.clock().now() + self.again;
            while self.driver.clock().now() < until && !self.machine().is_closing() {
                self.turn(until)?;
            }
            if self.machine().is_closing() {
                return Ok(());
            }
        }
        let (mut machine, mut port) = self.driver.remove(self.id).expect("it is there");
        let old = machine.reconnect(Carrier::ABSENT);
        let serves = self.endpoint.remote().is_none() && old.serves_again();
        let carrier = if serves {
            // Its peers' addresses would fill the table of paths; unless one of them speaks, forget them.
            if !old.is_open() && !old.is_stream() {
                port = self.endpoint.port()?;
                self.forget_paths();
            }
            old
        } else {
            drop(old);
            let (carrier, new) = self.endpoint.open_for(Service::Proxy)?;
            port = new;
            self.forget_paths();
            carrier
        };
        machine.reconnect(carrier);
        let again = self.driver.add(machine, port)?;
        assert_eq!(again, self.id, "the only machine gets the number that has become free");
        Ok(())
    }

    fn forget_paths(&mut self) {
        if let Some(paths) = &mut self.paths {
            paths.forget();
        }
    }
}
