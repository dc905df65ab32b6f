//! Both ends: a robot whose device is topics, and an operator whose hand is.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, SyncSender as Outbox, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut::{Identity, Operator, OperatorEvent, Receiver, RecvError, Robot, RobotEvent, Sender, Status};
use taut_io::{Slice, set_slice};

use crate::backend::{Participant, Publish, Sink, Tell};
use crate::config::{Config, Direction, End, Keep, MotionLimits, OperatorSpec, RobotSpec, Route};
use crate::output::Output;
use crate::report::Report;
use crate::{cdr, clock};

/// What concerns the whole bridge.
enum Event {
    Line(String),
    Ended,
    /// Of a topic; `stops`: of one that moves the robot, or by which it measures itself.
    Wrong {
        topic: String,
        why: String,
        stops: bool,
    },
    /// A message that moves nothing.
    Refused {
        route: String,
        cause: &'static str,
        why: String,
    },
    /// A topic does not take a stop.
    Untold {
        topic: String,
        why: String,
    },
}

/// What became of messages, by route and fate.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, BTreeMap<&'static str, u64>>>>);

impl Counts {
    fn count(&self, route: &str, fate: &'static str) {
        self.add(route, fate, 1);
    }

    fn add(&self, route: &str, fate: &'static str, count: u64) {
        if count == 0 {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(route) {
            Some(fates) => *fates.entry(fate).or_default() += count,
            None => _ = counts.insert(route.to_owned(), BTreeMap::from([(fate, count)])),
        }
    }

    /// And what the session dropped or refused of each route.
    fn tell(&self, report: &Report, status: &Status) {
        for channel in status.channels.iter().filter(|channel| !channel.dropped.is_empty()) {
            let dropped = serde_json::json!(channel.dropped);
            report.tell("dropped", &[("name", channel.name.clone().into()), ("messages", dropped)]);
        }
        for (route, fates) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            report.tell("route", &[("name", route.clone().into()), ("messages", serde_json::json!(fates))]);
        }
    }
}

/// The participants of an end: one for all small messages, one for those that would hold them up, one for each route of its own.
struct Domain<'a> {
    config: &'a Config,
    shared: Box<dyn Participant>,
    patient: Option<Box<dyn Participant>>,
    alone: Vec<Box<dyn Participant>>,
    counts: Counts,
    outbox: Outbox<Event>,
}

impl<'a> Domain<'a> {
    fn new(config: &'a Config, outbox: Outbox<Event>) -> Result<Self, String> {
        let shared = config.backend.join(config.domain)?;
        let (alone, counts) = (Vec::new(), Counts::default());
        Ok(Self { config, shared, patient: None, alone, counts, outbox })
    }

    fn participant(&mut self, route: &Route) -> Result<&mut dyn Participant, String> {
        if route.alone {
            self.alone.push(unhurried(|| self.config.backend.join(self.config.domain))?);
        }
        let alone = self.alone.last_mut().filter(|_| route.alone);
        Ok(alone.unwrap_or(&mut self.shared).as_mut())
    }

    fn publish(&mut self, route: &Route) -> Result<Box<dyn Publish>, String> {
        if self.config.backend.holds_up(route.qos) && !route.alone {
            let join = || self.config.backend.join(self.config.domain);
            let patient = self.patient.take().map_or_else(join, Ok)?;
            return self.patient.insert(patient).publish(&route.topic, &route.kind, route.qos);
        }
        self.participant(route)?.publish(&route.topic, &route.kind, route.qos)
    }

    fn subscribe(&mut self, route: &Route, sink: Sink) -> Result<(), String> {
        self.participant(route)?.subscribe(&route.topic, &route.kind, route.qos, sink)
    }

    /// From a topic here to the other end.
    fn sends(&mut self, route: &Route) -> Result<Sender<Vec<u8>>, String> {
        let sender = Sender::<Vec<u8>>::of_schema(route.channel(), route.schema());
        let (own, counts, outbox) = (sender.clone(), self.counts.clone(), self.outbox.clone());
        let (name, moving) = (route.name.clone(), route.moving.clone());
        let sink = move |message: Option<&[u8]>| {
            let Some(message) = message else {
                if moving.is_some() {
                    let why = "a message in another encoding, of another definition, or of another bridge"
                        .to_owned();
                    let _ = outbox.try_send(Event::Refused { route: name.clone(), cause: UNREADABLE, why });
                }
                return counts.count(&name, UNREADABLE);
            };
            let payload = match moving.as_ref().map(|moving| moving.format.read(message)) {
                None => Ok(message.to_vec()),
                Some(Ok(motion)) => {
                    let mut payload = Vec::new();
                    motion.encode(&mut payload).map(|()| payload).map_err(|_| "malformed")
                }
                Some(Err(refusal)) => {
                    let (cause, why) = (refusal.name(), refusal.to_string());
                    // Where many are refused some are told; all are counted.
                    let _ = outbox.try_send(Event::Refused { route: name.clone(), cause, why });
                    Err(cause)
                }
            };
            let fate = match payload.map(|payload| own.send(&payload)) {
                Ok(Ok(())) => "sent",
                Ok(Err(taut::SendError::TooLarge { .. })) => "too_large",
                Ok(Err(taut::SendError::Full)) => "full",
                Ok(Err(_)) => "not_connected",
                Err(cause) => cause,
            };
            counts.count(&name, fate);
        };
        self.subscribe(route, Box::new(sink))?;
        Ok(sender)
    }

    /// From the other end to a topic here, on a thread of its own; of no lower priority than others, for it shares locks with the session's
    /// thread, which would wait for it with a stop.
    fn receives(&mut self, route: &Route) -> Result<Arc<Receiver<Vec<u8>>>, String> {
        let receiver = Arc::new(Receiver::<Vec<u8>>::of_schema(route.channel(), route.schema()));
        let publisher = self.publish(route)?;
        let (own, counts, passed) = (Arc::clone(&receiver), self.counts.clone(), route.clone());
        let pass = move || pass(&passed, &own, publisher.as_ref(), &counts);
        let thread = std::thread::Builder::new().name("route".to_owned());
        let started = if route.alone { unhurried(|| thread.spawn(pass)) } else { thread.spawn(pass) };
        started.map_err(|error| error.to_string())?;
        Ok(receiver)
    }

    /// Where the robot measures itself.
    fn measures(&mut self, route: &Route, output: &Output) -> Result<(), String> {
        let Some((moving, topic)) =
            route.moving.as_ref().and_then(|moving| Some((moving, moving.measured.as_ref()?)))
        else {
            return Ok(());
        };
        let Some(kind) = moving.format.kind.measured_by() else { return Ok(()) };
        let (format, output, counts) = (moving.format.clone(), output.clone(), self.counts.clone());
        let name = topic.clone();
        // Others may say there where other joints are: what is refused says nothing, and what is old does not count.
        let sink = move |message: Option<&[u8]>| match message.map(|message| format.read_measured(message)) {
            Some(Ok(motion)) => output.measured(motion),
            Some(Err(refusal)) => counts.count(&name, refusal.name()),
            None => counts.count(&name, UNREADABLE),
        };
        let qos = crate::config::Qos { reliable: None, transient_local: false, depth: 1, moves: false };
        self.shared.subscribe(topic, kind, qos, Box::new(sink))
    }

    fn start(self) -> Result<Counts, String> {
        let start = |participant: Box<dyn Participant>| {
            let outbox = Mutex::new(self.outbox.clone());
            let routes = self.config.routes.clone();
            let tell: Tell = Arc::new(move |topic, why| {
                let stops = routes.iter().any(|route| route.moves_by(topic));
                let outbox = outbox.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = outbox.send(Event::Wrong { topic: topic.to_owned(), why, stops });
            });
            participant.start(tell)
        };
        unhurried(|| self.alone.into_iter().try_for_each(start))?;
        [self.shared].into_iter().chain(self.patient).try_for_each(start)?;
        Ok(self.counts)
    }
}

/// Threads that this starts do large messages, and wait for those that have small ones.
fn unhurried<R>(start: impl FnOnce() -> R) -> R {
    let _ = set_slice(Slice::Usual);
    let started = start();
    let _ = set_slice(Slice::Short);
    started
}

fn pass(route: &Route, receiver: &Receiver<Vec<u8>>, publisher: &dyn Publish, counts: &Counts) {
    let mut missed = 0;
    loop {
        let mut message = match receiver.recv() {
            Ok(message) => message,
            Err(RecvError::Ended) => return,
            Err(_) => continue,
        };
        let before = std::mem::replace(&mut missed, receiver.missed());
        counts.add(&route.name, "missed", missed - before);
        if route.keep == Keep::Newest {
            while let Ok(newer) = receiver.try_recv() {
                message = newer;
                counts.count(&route.name, "superseded");
            }
        }
        if route.rewrites_stamp && !cdr::stamp(&mut message, clock::since_1970()) {
            counts.count(&route.name, "no_stamp");
            continue;
        }
        let is_written = publisher.publish(&message).is_ok();
        counts.count(&route.name, if is_written { "published" } else { "not_published" });
    }
}

/// Of a message in another encoding than CDR little endian.
const UNREADABLE: &str = "unreadable";
/// Events that wait for the session at most.
const MOST_EVENTS: usize = 256;

/// Lines of standard input, and signals that end the program.
fn listen(outbox: &Outbox<Event>) -> Result<(), String> {
    let lines = outbox.clone();
    std::thread::spawn(move || {
        let line = |bytes: Vec<u8>| Event::Line(String::from_utf8_lossy(&bytes).into_owned());
        let read = std::io::stdin().lock().split(b'\n').map_while(Result::ok);
        read.map(line).try_for_each(|line| lines.send(line))
    });
    taut_io::ignore_signals_of_io().map_err(|error| format!("signals: {error}"))?;
    let signals = signal_hook::iterator::Signals::new(taut_io::signals_that_end());
    let mut signals = signals.map_err(|error| format!("signals: {error}"))?;
    let ended = outbox.clone();
    std::thread::spawn(move || signals.forever().try_for_each(|_| ended.send(Event::Ended)));
    Ok(())
}

/// # Errors
/// One line that says what is wrong.
pub(crate) fn run(config: &Config, report: &Report) -> Result<(), String> {
    let (outbox, inbox) = sync_channel(MOST_EVENTS);
    listen(&outbox)?;
    let domain = Domain::new(config, outbox)?;
    match &config.end {
        End::Robot(spec) => robot(spec, domain, &inbox, report),
        End::Operator(spec) => operator(spec, domain, &inbox, report),
    }
}

fn robot(
    spec: &RobotSpec,
    mut domain: Domain<'_>,
    inbox: &Inbox<Event>,
    report: &Report,
) -> Result<(), String> {
    let told = |error: taut::Error| error.to_string();
    let identity = Identity::open(&spec.identity).map_err(told)?;
    let trust = spec.trust.parse().map_err(|error| format!("trust: {error}"))?;
    let mut builder =
        Robot::builder().listen(&*spec.listen).identity(identity).trust(trust).keeps_stops_in(&spec.stops);
    builder = builder.transport(spec.transport.as_deref().unwrap_or("udp"));
    if let Some(watchdog) = spec.watchdog {
        builder = builder.watchdog(watchdog);
    }
    let mut outputs = Vec::new();
    for route in &domain.config.routes {
        builder = match (&route.moving, route.direction) {
            (Some(moving), _) => {
                let (outbox, topic) = (domain.outbox.clone(), route.topic.clone());
                // On the thread that tells stops, which waits for nobody.
                let untold = move |why| _ = outbox.try_send(Event::Untold { topic: topic.clone(), why });
                let output = Output::start(moving.clone(), domain.publish(route)?, Box::new(untold))?;
                domain.measures(route, &output)?;
                outputs.push(output.clone());
                let (channel, defined) = (route.channel(), moving.format.definition());
                match &moving.limits {
                    MotionLimits::Twist(limits) => {
                        builder.motion_over::<taut::Twist>(channel, defined, *limits, output)
                    }
                    MotionLimits::Pose(limits) => {
                        builder.motion_over::<taut::State>(channel, defined, *limits, output)
                    }
                    MotionLimits::Joints { limits, .. } => {
                        builder.motion_over::<taut::Joints>(channel, defined, limits.clone(), output)
                    }
                }
            }
            (None, Direction::ToOperator) => builder.sends(&domain.sends(route)?),
            (None, Direction::ToRobot) => builder.receives(domain.receives(route)?.as_ref()),
        };
    }
    let robot = if outputs.is_empty() { builder.moves_nothing() } else { builder }.start().map_err(told)?;
    let address = robot.address().to_string();
    report.tell(
        "listening",
        &[("address", address.into()), ("fingerprint", robot.fingerprint().to_string().into())],
    );
    let counts = domain.start()?;
    let mut refusals = Refusals::new();
    while !robot.has_ended() {
        while let Ok(event) = robot.events().try_recv() {
            match event {
                RobotEvent::Stopped { cause } => report.tell("stopped", &[("cause", cause.name().into())]),
                RobotEvent::ChannelClosed { channel, why } => closed(report, channel, why),
                RobotEvent::Connected => report.tell("connected", &[]),
                RobotEvent::Moving => report.tell("moving", &[]),
                other => report.tell("session", &[("what", format!("{other:?}").into())]),
            }
        }
        match next(inbox, &mut refusals, report) {
            Some(Said::Stop) => robot.stop(),
            Some(Said::Reset) => robot.release(),
            Some(Said::Quit) => robot.close(),
            Some(Said::Status) => counts.tell(report, &robot.status()),
            Some(Said::Resume) | None => {}
        }
    }
    outputs.iter().for_each(Output::settle);
    counts.tell(report, &robot.status());
    robot.join().map(|_| ()).map_err(told)
}

fn operator(
    spec: &OperatorSpec,
    mut domain: Domain<'_>,
    inbox: &Inbox<Event>,
    report: &Report,
) -> Result<(), String> {
    let told = |error: taut::Error| error.to_string();
    let identity = Identity::open(&spec.identity).map_err(told)?;
    let trust = spec.trust.parse().map_err(|error| format!("trust: {error}"))?;
    let mut builder = Operator::builder().connect(&*spec.connect).identity(identity).trust(trust);
    builder = builder.transport(spec.transport.as_deref().unwrap_or("udp"));
    if let Some(stops) = &spec.stops {
        builder = builder.keeps_stops_in(stops);
    }
    if spec.resumes_at_start {
        builder = builder.resumes_at_start();
    }
    for route in &domain.config.routes {
        builder = match route.direction {
            Direction::ToRobot => builder.sends(&domain.sends(route)?),
            Direction::ToOperator => builder.receives(domain.receives(route)?.as_ref()),
        };
    }
    let operator = builder.start().map_err(told)?;
    report.tell("connecting", &[("fingerprint", operator.fingerprint().to_string().into())]);
    let counts = domain.start()?;
    let mut refusals = Refusals::new();
    while !operator.has_ended() {
        while let Ok(event) = operator.events().try_recv() {
            match event {
                OperatorEvent::ChannelClosed { channel, why } => closed(report, channel, why),
                OperatorEvent::Connected { .. } => report.tell("connected", &[]),
                OperatorEvent::Moving => report.tell("moving", &[]),
                OperatorEvent::Robot { state, cause } => {
                    report.tell("robot", &[("state", state.name().into()), ("cause", cause.name().into())]);
                }
                OperatorEvent::NoAnswer { .. } => report.tell("no answer", &[]),
                OperatorEvent::RobotLeft => report.tell("robot left", &[]),
                OperatorEvent::Disconnected => report.tell("disconnected", &[]),
                OperatorEvent::ResumeRefused { why } => report.tell("not resumed", &[("why", why.into())]),
                other => report.tell("session", &[("what", format!("{other:?}").into())]),
            }
        }
        match next(inbox, &mut refusals, report) {
            Some(Said::Stop) => operator.stop(),
            Some(Said::Reset) => operator.reset(),
            Some(Said::Resume) => operator.resume(),
            Some(Said::Quit) => operator.close(),
            Some(Said::Status) => counts.tell(report, &operator.status()),
            None => {}
        }
    }
    counts.tell(report, &operator.status());
    operator.join().map(|_| ()).map_err(told)
}

fn closed(report: &Report, channel: String, why: String) {
    report.tell("channel closed", &[("name", channel.into()), ("why", why.into())]);
}

/// What a person, or a message that must not pass, asks for.
enum Said {
    Stop,
    Reset,
    Resume,
    Quit,
    Status,
}

/// Refused messages by route and cause: when one was told last, and how many came since.
type Refusals = BTreeMap<(String, &'static str), (Instant, u64)>;

/// A stream of them is told of once a second.
fn tell_refused(refusals: &mut Refusals, report: &Report, route: String, cause: &'static str, why: String) {
    let now = clock::now();
    let before = match refusals.get_mut(&(route.clone(), cause)) {
        Some((told, untold)) if now.duration_since(*told) < Duration::from_secs(1) => return *untold += 1,
        Some((told, untold)) => {
            *told = now;
            std::mem::take(untold)
        }
        None => {
            refusals.insert((route.clone(), cause), (now, 0));
            0
        }
    };
    report.tell("refused", &[("route", route.into()), ("why", why.into()), ("before", before.into())]);
}

fn next(inbox: &Inbox<Event>, refusals: &mut Refusals, report: &Report) -> Option<Said> {
    match inbox.recv_timeout(Duration::from_millis(20)) {
        Ok(Event::Line(line)) => match line.trim() {
            "stop" => Some(Said::Stop),
            "reset" | "release" => Some(Said::Reset),
            "resume" => Some(Said::Resume),
            "quit" => Some(Said::Quit),
            "status" => Some(Said::Status),
            other => {
                let why = format!("`{other}` is none of stop, reset, resume, status, quit");
                report.tell("error", &[("why", why.into())]);
                None
            }
        },
        Ok(Event::Ended) => Some(Said::Quit),
        Ok(Event::Wrong { topic, why, stops }) => {
            report.tell(
                "wrong topic",
                &[("topic", topic.into()), ("why", why.into()), ("stops", stops.into())],
            );
            stops.then_some(Said::Stop)
        }
        Ok(Event::Refused { route, cause, why }) => {
            tell_refused(refusals, report, route, cause, why);
            Some(Said::Stop)
        }
        Ok(Event::Untold { topic, why }) => {
            report.tell("stop not told", &[("topic", topic.into()), ("why", why.into())]);
            None
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
    }
}
