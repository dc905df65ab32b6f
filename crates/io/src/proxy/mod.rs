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
//! Datagrams are neither changed nor put together; on the way [27 bytes](taut_wire::proxy) stand before each.
//!
//! No application gets what is older than its deadline, counted from when it reached the first proxy, or was overtaken by what
//! was said later in its flow ([`ProxyConfig::deadline`], [`ProxyConfig::keep_overtaken`]). What a transport or a network has taken nobody can take
//! back, so the end that gives a datagram judges it: both ends compare their clocks from the start of each conversation on. What comes before the
//! first answer is held, for a deadline at most.
//!
//! Everything is bounded: flows ([`ProxyConfig::flows`]), which end when nothing was said for
//! [`ProxyConfig::idle`], and what waits in the transport. What is dropped is in [`ProxyStats`], by cause.

mod clocks;
mod config;
mod judge;
mod local;
mod run;
mod stamped;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use taut_agent::{Conversation, Trouble};
use taut_core::{
    Datagram, Deadline, DropCause, Duration, Event, Message, Origin, PathId, Priority, StreamId, Time,
    Transmit, Transport, earliest,
};
use taut_session::diagnostics;
use taut_wire::proxy::{Body, Frame, HEADER_LEN, Header};

use self::judge::{Arrived, Judge, Rules};
use self::local::{Local, Taken};
use crate::session::{Carrier, PathNote, os_seed};
use crate::{Alarm, Machine, clock};

pub use self::clocks::ClockCounts;
pub use self::config::{ProxyConfig, ProxyStats};
pub use self::run::{ProxyError, proxy};

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
    judge: Judge,
    /// Drawn at the start: what is numbered from here is of this life.
    life: u32,
    /// The last datagram's number.
    number: u32,
    /// For how long this machine was suspended, when that was looked at last.
    suspended: Duration,
    stats: ProxyStats,
    report: Option<(Duration, Time)>,
    /// It was told to end.
    closing: bool,
    buffer: Box<[u8]>,
}

/// What suits a proxy's driver ([`DriverConfig::adaptive_poll`](crate::DriverConfig::adaptive_poll)): two wake-ups take as long as
/// everything else that a pair of proxies does. From some 5,000 datagrams or bursts a second on it spins.
pub const ADAPTIVE_POLL: Duration = Duration::from_micros(200);
/// The stream of datagrams, and that of clocks.
const DATAGRAMS: StreamId = StreamId(2);
const CLOCKS: StreamId = StreamId(1);
/// The tag of what is no datagram: nothing is lost with it, it is asked again.
const CLOCK_TAG: u64 = 1;
/// A question or an answer that waited for longer would say little.
const CLOCK_DEADLINE: Duration = Duration::from_secs(1);
/// A suspension that is shorter is none.
const SUSPENSION: Duration = Duration::from_millis(1);
/// Datagrams taken from applications in one go: fewer than a transport lets wait.
const BATCH: usize = 32;

impl ProxyMachine {
    /// A proxy over `carrier`.
    ///
    /// # Errors
    /// When a socket cannot be waited for.
    pub fn new(carrier: Carrier, local: ProxyLocal, config: ProxyConfig) -> io::Result<Self> {
        let rules = Rules {
            deadline: config.deadline,
            keep_overtaken: config.keep_overtaken,
            strict: config.strictly_in_time,
        };
        Ok(Self {
            carrier,
            config,
            local: Local::new(local)?,
            judge: Judge::new(rules),
            life: os_seed().get() as u32,
            number: 0,
            suspended: clock::time_suspended(),
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

    /// The same, with how its transport chose paths and what is known of the other end's clock.
    pub fn report(&self, now: Time) -> ProxyStats {
        ProxyStats {
            choices: self.carrier.choices(),
            clock: self.judge.clocks.counts(now),
            ..self.stats.clone()
        }
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
        self.drop_some(cause, 1);
    }

    fn drop_some(&mut self, cause: DropCause, count: u64) {
        if count > 0 {
            *self.stats.dropped.entry(cause).or_default() += count;
        }
    }

    /// From applications here to the transport.
    fn take(&mut self, now: Time) {
        for _ in 0..BATCH {
            match self.local.receive(now, self.config.flows, &mut self.buffer) {
                Ok(Some(taken)) => self.send(now, taken),
                Ok(None) => return,
                Err(local::Unreadable) => self.stats.refused_here += 1,
            }
        }
    }

    fn send(&mut self, now: Time, Taken { len, flow, waited }: Taken) {
        self.stats.taken += 1;
        let Some((flow, is_new)) = flow else {
            self.stats.flows_full += 1;
            return self.drop_one(DropCause::SendBufferFull);
        };
        self.stats.flows += u64::from(is_new);
        let deadline = self.config.deadline;
        if deadline.is_some_and(|deadline| waited >= deadline) {
            return self.drop_one(DropCause::TooLate);
        }
        self.number = self.number.wrapping_add(1);
        let header = Header {
            flow,
            number: self.number,
            clock_ns: now.as_nanos(),
            age_us: (waited + Duration::from_nanos(999)).as_micros_u32(),
            deadline_us: deadline.map_or(0, |deadline| deadline.as_micros_u32().max(1)),
        };
        let frame = Frame { life: self.life, body: Body::Datagram(header, &self.buffer[..len]) };
        let mut data = Vec::with_capacity(frame.len());
        frame.emit(&mut data);
        let message = Message {
            data,
            created: now - waited,
            deadline,
            priority: Priority(1),
            stream: DATAGRAMS,
            ..Message::default()
        };
        match self.carrier.send(now, message) {
            Ok(()) => self.stats.sent += 1,
            Err(error) => self.drop_one(error.cause()),
        }
    }

    /// Asks for the other end's clock, and answers what it asks.
    fn compare_clocks(&mut self, now: Time) {
        let suspended = clock::time_suspended();
        if suspended > self.suspended + SUSPENSION {
            self.suspended = suspended;
            self.judge.clocks.was_set(now);
        }
        while let Some(body) = self.judge.clocks.poll(now) {
            let mut data = Vec::new();
            Frame { life: self.life, body }.emit(&mut data);
            let message = Message {
                data,
                created: now,
                deadline: Some(CLOCK_DEADLINE),
                priority: Priority(1),
                stream: CLOCKS,
                tag: CLOCK_TAG,
                ..Message::default()
            };
            // What is not taken stays without an answer.
            let _ = self.carrier.send(now, message);
        }
    }

    /// The transport has something from the other end.
    fn hear(&mut self, now: Time, data: Vec<u8>) {
        let Ok(Frame { life, body }) = Frame::parse(&data) else {
            self.stats.arrived += 1;
            return self.drop_one(DropCause::Malformed);
        };
        let of_another_life = self.judge.meet(now, life);
        self.drop_some(DropCause::Abandoned, of_another_life);
        match body {
            Body::ClockRequest(request) => self.judge.clocks.asked(now, request),
            Body::ClockReply(reply) => self.judge.clocks.answered(now, &reply),
            Body::Datagram(header, _) => {
                self.stats.arrived += 1;
                self.judge.take(now, header, data);
            }
        }
    }

    /// To applications here, what may still be given.
    fn give(&mut self, now: Time) {
        while let Some((Arrived { header, frame, .. }, cause)) = self.judge.poll(now) {
            if let Some(cause) = cause {
                self.drop_one(cause);
                continue;
            }
            match self.local.send(now, header.flow, &frame[HEADER_LEN..], self.config.flows) {
                Ok(is_new) => {
                    self.judge.was_given(&header);
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
    }

    fn disconnected(&mut self) {
        let unjudged = self.judge.disconnected();
        self.drop_some(DropCause::Abandoned, unjudged);
    }

    fn poll_report(&mut self, now: Time) -> Option<ProxyNote> {
        let (period, due) = self.report.as_mut()?;
        if now < *due {
            return None;
        }
        let first = *due == Time::ZERO;
        *due = now + *period;
        (!first).then(|| ProxyNote::Progress(Box::new(self.report(now))))
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
        self.compare_clocks(now);
    }

    fn handle_command(&mut self, now: Time, ProxyCommand::Close: ProxyCommand) {
        self.closing = true;
        self.stats.clock = self.judge.clocks.counts(now);
        self.disconnected();
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
            diagnostics::on_event(&event);
            match event {
                Event::Received { data, .. } => {
                    self.hear(now, data);
                    self.give(now);
                }
                Event::Dropped { tag: CLOCK_TAG, .. } => {}
                Event::Dropped { cause, .. } => self.drop_one(cause),
                Event::Refused(cause) => *self.stats.refused.entry(cause).or_default() += 1,
                Event::Connected => {
                    if !self.closing {
                        self.judge.clocks.begin(now);
                    }
                    return Some(ProxyNote::Connected);
                }
                Event::Closed => {
                    self.disconnected();
                    return Some(ProxyNote::Closed(self.carrier.trouble()));
                }
                _ => {}
            }
        }
        self.give(now);
        self.poll_report(now)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let own = earliest(
            self.report.map(|(_, due)| Deadline::new(due, "report")),
            self.local.next_sweep().map(|at| Deadline::new(at, "idle flows")),
        );
        earliest(earliest(self.carrier.poll_timeout(), self.judge.poll_timeout()), own)
    }

    fn uses_path(&self, path: PathId) -> bool {
        self.carrier.uses_path(path)
    }

    fn remove_path(&mut self, now: Time, path: PathId) {
        self.carrier.remove_path(now, path);
    }

    fn set_origin(&mut self, path: PathId, origin: Origin) {
        self.carrier.set_origin(path, origin);
    }
}
