//! A transparent proxy for datagrams: applications that know nothing of it speak UDP with a proxy beside them, and what they
//! say crosses a session to a proxy at the other end, which says it to an application there.
//!
//! ```text
//! application ──UDP── near proxy ══ one session, any transport ══ far proxy ──UDP── application
//! application ──UDP──┘                                                     └──UDP── (the same one)
//! ```
//!
//! Each address of an application at the near end is a flow. At the far end a flow has a socket of its own, so that
//! the application there tells them apart by their ports, and answers find their way back. Many flows share one session.
//! Datagrams are neither changed nor put together; on the way a number of 16 bits, big-endian, stands before each, its flow's.
//!
//! Everything is bounded: flows ([`ProxyConfig::flows`]), which end when nothing was said for
//! [`ProxyConfig::idle`], and what waits in the transport. What is dropped is in [`ProxyStats`], by cause.

mod local;
mod run;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use taut_core::{
    Datagram, Deadline, DropCause, Duration, Event, Message, PathId, Priority, SendError, StreamId, Time,
    Transmit, Transport, earliest,
};
use taut_transport::mtip::ChoiceReport;

use self::local::Local;
use crate::session::{Carrier, PathNote, Trouble};
use crate::{Alarm, Machine};

pub use self::run::{ProxyError, proxy};

/// How a proxy treats datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    flows: usize,
    idle: Duration,
    deadline: Option<Duration>,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self { flows: 256, idle: Duration::from_secs(60), deadline: None }
    }
}

impl ProxyConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Flows at a time. Default 256; 1 to 4096. At the far end each has a socket. One more takes the place of the quietest if
    /// nothing was said in that for 1 s; otherwise the datagram that would begin it is dropped and counted.
    pub fn flows(mut self, flows: usize) -> Self {
        self.flows = flows.clamp(1, 4_096);
        self
    }

    /// A flow ends when nothing was said in it for so long. Default 60 s; 1 s to a day.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle.clamp(Duration::from_secs(1), Duration::from_secs(86_400));
        self
    }

    /// The age at which a datagram is worthless, counted from when the proxy got it. Default: none, but for transports
    /// that have one of their own.
    pub fn deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }
}

/// What went through a proxy, in datagrams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyStats {
    /// Taken from applications here.
    pub taken: u64,
    /// Of these, given to the transport.
    pub sent: u64,
    /// Arrived from the other end.
    pub arrived: u64,
    /// Of these, given to applications here.
    pub given: u64,
    /// What was not, by cause: refused by the transport at once or later ([`Event::Dropped`]), of a flow too many
    /// ([`DropCause::SendBufferFull`] with [`ProxyStats::flows_full`]), of an unknown flow, refused by the kernel.
    pub dropped: BTreeMap<DropCause, u64>,
    /// Datagrams from the other end, or from whoever pretended to be it, that the transport here refused ([`Event::Refused`]), by
    /// cause: too late, or here already, as one of two copies always is.
    pub refused: BTreeMap<DropCause, u64>,
    /// Of those dropped, for want of room for another flow.
    pub flows_full: u64,
    /// How often the kernel said that nobody listens here: at once, then it is among those dropped, or by an error that came
    /// back, then it was taken for given.
    pub refused_here: u64,
    /// Flows that began.
    pub flows: u64,
    /// Flows that ended because nothing was said, for [`ProxyConfig::idle`] or while another one wanted their place.
    pub flows_idle: u64,
    /// How the datagrams sent were spread over paths, and why: [`Carrier::choices`], when this was reported.
    pub choices: Option<ChoiceReport>,
}

/// Which end of the session a proxy is at, and where its applications are.
#[derive(Debug)]
pub enum ProxyLocal {
    /// Applications send to this socket.
    Near(UdpSocket),
    /// The application listens here.
    Far(SocketAddr),
}

/// What is asked of a proxy from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyCommand {
    /// Say goodbye and end.
    Close,
}

/// What a proxy tells.
#[derive(Clone, Debug)]
pub enum ProxyNote {
    /// The other end is there.
    Connected,
    /// It is not any more, or never was; the near end tries again.
    Closed(Trouble),
    /// An interface of ours came or went, and with it a path.
    Path(PathNote),
    /// It is time for a report.
    Progress(Box<ProxyStats>),
}

/// One end: a transport, and the sockets of applications, which this machine owns.
#[derive(Debug)]
pub struct ProxyMachine {
    carrier: Carrier,
    config: ProxyConfig,
    local: Local,
    stats: ProxyStats,
    report: Option<(Duration, Time)>,
    /// It was told to end.
    closing: bool,
    buffer: Box<[u8]>,
}

/// What suits a proxy's driver ([`DriverConfig::adaptive_poll`](crate::DriverConfig::adaptive_poll)): two wake-ups take as long as
/// everything else that a pair of proxies does. From some 5,000 datagrams or bursts a second on it spins.
pub const ADAPTIVE_POLL: Duration = Duration::from_micros(200);
/// Bytes before a datagram of an application.
const FLOW: usize = 2;
/// Datagrams taken from applications in one go: fewer than a transport lets wait.
const BATCH: usize = 32;

impl ProxyMachine {
    /// A proxy over `carrier`.
    ///
    /// # Errors
    /// When a socket cannot be waited for.
    pub fn new(carrier: Carrier, local: ProxyLocal, config: ProxyConfig) -> io::Result<Self> {
        Ok(Self {
            carrier,
            config,
            local: Local::new(local)?,
            stats: ProxyStats::default(),
            report: None,
            closing: false,
            buffer: vec![0; 65_536].into(),
        })
    }

    /// Reports so often; at least 1 ms. Default: not.
    pub fn reports_by_time(mut self, period: Duration) -> Self {
        self.report = Some((period.max(Duration::from_millis(1)), Time::ZERO));
        self
    }

    /// What wakes its driver: see [`Driver::wake_on`](crate::Driver::wake_on).
    ///
    /// # Errors
    /// When the process may open no more descriptors.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.local.descriptor()
    }

    /// What went through it.
    pub fn stats(&self) -> &ProxyStats {
        &self.stats
    }

    /// The same, and how its transport chose paths.
    pub fn report(&self) -> ProxyStats {
        ProxyStats { choices: self.carrier.choices(), ..self.stats.clone() }
    }

    /// The transport.
    pub fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    fn is_closing(&self) -> bool {
        self.closing
    }

    /// Goes on over another one. At the far end the flows of the one before are over.
    fn reconnect(&mut self, carrier: Carrier) -> Carrier {
        self.local.forget_far();
        std::mem::replace(&mut self.carrier, carrier)
    }

    fn path_changed(&mut self, now: Time, note: &PathNote) {
        match note.missing {
            None => {
                self.carrier.add_path(now, note.path);
            }
            Some(_) => self.carrier.remove_path(now, note.path),
        }
    }

    fn drop_one(&mut self, cause: DropCause) {
        *self.stats.dropped.entry(cause).or_default() += 1;
    }

    /// From applications here to the transport.
    fn take(&mut self, now: Time) {
        for _ in 0..BATCH {
            // In front of the datagram there is room for the number of its flow.
            let (len, flow) = match self.local.receive(now, self.config.flows, &mut self.buffer[FLOW..]) {
                Ok(Some(one)) => one,
                Ok(None) => return,
                Err(local::Unreadable) => {
                    self.stats.refused_here += 1;
                    continue;
                }
            };
            self.stats.taken += 1;
            let Some((flow, is_new)) = flow else {
                self.stats.flows_full += 1;
                self.drop_one(DropCause::SendBufferFull);
                continue;
            };
            self.stats.flows += u64::from(is_new);
            self.buffer[..FLOW].copy_from_slice(&flow.to_be_bytes());
            let message = Message {
                data: self.buffer[..FLOW + len].to_vec(),
                created: now,
                deadline: self.config.deadline,
                priority: Priority(1),
                stream: StreamId(2),
                ..Message::default()
            };
            match self.carrier.send(now, message) {
                Ok(()) => self.stats.sent += 1,
                Err(error) => self.drop_one(cause_of(error)),
            }
        }
    }

    /// From the transport to an application here.
    fn give(&mut self, now: Time, data: &[u8]) {
        self.stats.arrived += 1;
        let Some((flow, payload)) = data.split_first_chunk::<FLOW>() else {
            return self.drop_one(DropCause::Malformed);
        };
        match self.local.send(now, u16::from_be_bytes(*flow), payload, self.config.flows) {
            Ok(is_new) => {
                self.stats.flows += u64::from(is_new);
                self.stats.given += 1;
            }
            Err(local::Undelivered::NoFlow) => self.drop_one(DropCause::Abandoned),
            Err(local::Undelivered::Full) => {
                self.stats.flows_full += 1;
                self.drop_one(DropCause::SendBufferFull);
            }
            Err(local::Undelivered::Refused) => {
                self.stats.refused_here += 1;
                self.drop_one(DropCause::Abandoned);
            }
        }
    }

    fn poll_report(&mut self, now: Time) -> Option<ProxyNote> {
        let (period, due) = self.report.as_mut()?;
        if now < *due {
            return None;
        }
        let first = *due == Time::ZERO;
        *due = now + *period;
        (!first).then(|| ProxyNote::Progress(Box::new(self.report())))
    }
}

fn cause_of(error: SendError) -> DropCause {
    match error {
        SendError::BufferFull(_) => DropCause::SendBufferFull,
        SendError::TooLarge { .. } => DropCause::TooBig,
        SendError::TooLate => DropCause::TooLate,
        SendError::Closed => DropCause::Abandoned,
    }
}

impl Machine for ProxyMachine {
    type Command = ProxyCommand;
    type Event = ProxyNote;

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.carrier.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.carrier.is_stream() || self.carrier.poll_timeout().is_some_and(|due| due.at <= now) {
            self.carrier.handle_timeout(now);
        }
        self.stats.flows_idle += self.local.sweep(now, self.config.idle) + self.local.take_displaced();
        self.take(now);
    }

    fn handle_command(&mut self, now: Time, ProxyCommand::Close: ProxyCommand) {
        self.closing = true;
        self.carrier.close(now);
    }

    /// Nothing moves here.
    fn handle_alarm(&mut self, _: Time, _: Alarm) {}

    fn alarm_voids(_: &ProxyCommand) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.carrier.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, now: Time) -> Option<ProxyNote> {
        while let Some(event) = self.carrier.poll_event() {
            match event {
                Event::Received { data, .. } => self.give(now, &data),
                Event::Dropped { cause, .. } => self.drop_one(cause),
                Event::Refused(cause) => *self.stats.refused.entry(cause).or_default() += 1,
                Event::Connected => return Some(ProxyNote::Connected),
                Event::Closed => return Some(ProxyNote::Closed(self.carrier.trouble())),
                _ => {}
            }
        }
        self.poll_report(now)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let own = earliest(
            self.report.map(|(_, due)| Deadline::new(due, "report")),
            self.local.next_sweep().map(|at| Deadline::new(at, "idle flows")),
        );
        earliest(self.carrier.poll_timeout(), own)
    }

    fn uses_path(&self, path: PathId) -> bool {
        self.carrier.uses_path(path)
    }

    fn remove_path(&mut self, now: Time, path: PathId) {
        self.carrier.remove_path(now, path);
    }
}
