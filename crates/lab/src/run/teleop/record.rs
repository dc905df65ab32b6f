//! What both ends tell: shared by their nodes, and read when the run is over. Times are the simulation's.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use taut_core::{Bytes, DropCause, Duration, PacketMeta, Seed, Time};
use taut_session::StopCause;

use super::channels::ChannelBooks;
use super::checker::{Checker, STREAMS};
use super::control::Control;
use super::own::SharedQueues;
use crate::metrics::{Summary, Watch, percent};
use crate::scenario::{Direction, Teleop};
use taut_report::result::{
    Distribution, EmergencyResult, Series, StreamResult, TeleopResult, WatchdogResult, WireResult,
};

/// One record for both ends of a session. Nodes live on one thread.
pub(super) type Shared = Rc<RefCell<Record>>;

/// Latencies in the order in which they were measured.
#[derive(Default)]
pub(super) struct Latencies {
    summary: Summary,
    jitter: Summary,
    before: Option<Duration>,
}

impl Latencies {
    pub(super) fn record(&mut self, latency: Duration) {
        self.summary.record(latency);
        if let Some(before) = self.before.replace(latency) {
            self.jitter.record(latency.abs_diff(before));
        }
    }

    pub(super) fn result(&self) -> Option<Distribution> {
        self.summary.to_result()
    }
}

/// The beginning of a session; times since the run began, in milliseconds, absent for what never came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    handshake_ms: Option<f64>,
    opened_ms: Option<f64>,
    first_state_ms: Option<f64>,
}

/// How a packet went through the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) took: Duration,
    /// Of it, behind other packets of the session.
    pub(super) queued: Duration,
}

/// While states were made, after the warm-up: bytes that an end sent, and of what was made then those that arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    sent: u64,
    payload: u64,
}

/// The stream of states that are not sent.
pub(super) const NORMAL: u8 = 2;
/// What becomes of states where there is no session.
pub(super) const UNMADE: DropCause = DropCause::Abandoned;
/// Presses and stops that are told one by one.
const MOST_TOLD: usize = 1000;
/// Feedback whose time of making is remembered.
const FEEDBACK: usize = 1 << 16;

pub(super) struct Record {
    watch: Watch,
    deadline: Option<Duration>,
    pub(super) checker: Checker,
    own_devices: Vec<String>,
    pub(super) control: Control,
    one_way: [Latencies; STREAMS],
    late: [u64; STREAMS],
    rtt: Latencies,
    pub(super) handshake: Option<Time>,
    pub(super) opened: Option<Time>,
    /// When a state first arrived.
    pub(super) first_state: Option<Time>,
    pub(super) moved: Option<Time>,
    pub(super) closed: Option<Time>,
    pub(super) resumed: u64,
    /// The device makes no more states.
    pub(super) finished: bool,
    period: Duration,
    /// When the device made its first state, and its last.
    making: Option<[Time; 2]>,
    /// When the robot was last given a state, or resumed.
    fed: Time,
    emergencies: Vec<EmergencyResult>,
    /// When the last of them were pressed, which are not acknowledged yet: one stop. And how its packet went to the robot.
    pressed: Vec<Time>,
    stop_transit: Option<Transit>,
    pub(super) queues: SharedQueues,
    watchdogs: Vec<WatchdogResult>,
    /// When feedback was made; `None` once it arrived. The first is number `first_feedback`.
    feedback: VecDeque<Option<Time>>,
    first_feedback: u64,
    /// The robot's estimate of the operator's clock: how far off, and how far it may be.
    pub(super) clock: Option<[Duration; 2]>,
    pub(super) allowed_hz: f64,
    /// Forward and backward.
    wire: [WireResult; 2],
    /// The bytes among these that rates are of.
    counted: [Counted; 2],
    pub(super) channels: ChannelBooks,
}

impl Record {
    pub(super) fn new(teleop: &Teleop, seed: Seed, watch: Watch) -> Self {
        let deadline = teleop.deadline.map_or(teleop.oldest(), |deadline| deadline.min(teleop.oldest()));
        Self {
            watch,
            deadline: teleop.deadline,
            checker: Checker::new(Some(deadline)),
            own_devices: Vec::new(),
            control: Control::new(teleop, seed, watch),
            one_way: Default::default(),
            late: [0; STREAMS],
            rtt: Latencies::default(),
            handshake: None,
            opened: None,
            first_state: None,
            moved: None,
            closed: None,
            resumed: 0,
            finished: false,
            period: teleop.period,
            making: None,
            fed: Time::ZERO,
            emergencies: Vec::new(),
            pressed: Vec::new(),
            stop_transit: None,
            queues: SharedQueues::default(),
            watchdogs: Vec::new(),
            feedback: VecDeque::new(),
            first_feedback: 1,
            clock: None,
            allowed_hz: f64::from(teleop.rate),
            wire: Default::default(),
            counted: Default::default(),
            channels: ChannelBooks::new(teleop, watch),
        }
    }

    /// These ends have devices of the caller's own.
    pub(super) fn own_devices(&mut self, ends: Vec<String>) {
        self.control.own(&ends);
        self.own_devices = ends;
    }

    /// How a packet of the session went that arrives now.
    pub(super) fn transit(&self, now: Time, meta: &PacketMeta) -> Transit {
        let queued = self.queues.borrow().wait(meta.id);
        Transit { took: now.saturating_since(meta.sent), queued }
    }

    /// The device made a state.
    pub(super) fn makes(&mut self, now: Time) {
        self.making.get_or_insert([now, now])[1] = now;
    }

    /// An end sent a packet, this way.
    pub(super) fn sent(&mut self, now: Time, way: Direction, size: Bytes) {
        let wire = &mut self.wire[way as usize];
        wire.packets += 1;
        wire.bytes += size.get();
        if self.making.is_some() && !self.finished && self.watch.counts(now) {
            self.counted[way as usize].sent += size.get();
        }
    }

    /// An end sent so many packets and bytes in all, this way, and so many bytes of them while the run counts.
    pub(super) fn carried(&mut self, way: Direction, [packets, bytes]: [u64; 2], counted: u64) {
        let wire = &mut self.wire[way as usize];
        (wire.packets, wire.bytes) = (packets, bytes);
        self.counted[way as usize].sent = counted;
    }

    /// So much of what is worth sending arrived, this way; it was `made` then.
    pub(super) fn brought(&mut self, way: Direction, bytes: usize, made: Time) {
        self.wire[way as usize].payload += bytes as u64;
        let while_made = |[first, last]: [Time; 2]| made >= first && made < last + self.period;
        if self.making.is_some_and(while_made) && self.watch.counts(made) {
            self.counted[way as usize].payload += bytes as u64;
        }
    }

    /// For how long states were made, after the warm-up, in seconds; `None` where none were.
    fn made_for(&self) -> Option<f64> {
        let [first, last] = self.making?;
        let end = (last + self.period).min(Time::ZERO + self.watch.duration);
        let made_for = end.saturating_since(first.max(Time::ZERO + self.watch.warmup));
        Some(made_for.as_secs_f64()).filter(|seconds| *seconds > 0.0)
    }

    /// The states that the device had still to make in a session that was given up or never opened count as made, and as dropped: what
    /// gave up is held against as many as what went on. `tell` is told when each was due.
    pub(super) fn unmade(&mut self, teleop: &Teleop, mut tell: impl FnMut(Time)) {
        /// Times of two clocks differ by their rounding.
        const ROUNDING: Duration = Duration::from_micros(1);
        let goes_on = self.opened.is_some() && self.closed.is_none();
        if self.finished || goes_on {
            return;
        }
        let next = self.making.map_or(Time::ZERO, |[_, last]| last + self.period);
        let left = (Time::ZERO + self.watch.duration).saturating_since(next + ROUNDING);
        let within = if left == Duration::ZERO { 0 } else { left / self.period + 1 };
        let most = teleop.messages.map_or(u64::MAX, |messages| messages.saturating_sub(self.checker.made));
        for n in 0..within.min(most) {
            let at = next + self.period.saturating_mul(n);
            self.makes(at);
            self.checker.not_taken(NORMAL, UNMADE);
            tell(at);
        }
    }

    /// A copy of a state arrived. When it was made, for the first.
    pub(super) fn arrived(&mut self, now: Time, sequence: u64, stream: u8) -> Option<Time> {
        if !self.checker.arrived(sequence) {
            return None;
        }
        self.first_state.get_or_insert(now);
        let made = self.checker.made_at(sequence)?;
        let (stream, latency) = (usize::from(stream) % STREAMS, now.saturating_since(made));
        if self.watch.counts(made) {
            self.one_way[stream].record(latency);
        }
        self.late[stream] += u64::from(self.deadline.is_some_and(|deadline| latency >= deadline));
        Some(made)
    }

    pub(super) fn applied(&mut self, now: Time, sequence: u64, slack: Option<Duration>) {
        self.fed = now;
        self.checker.applied(now, sequence, slack);
    }

    pub(super) fn acknowledged(&mut self, sequence: u64, rtt: Duration) {
        let counts = self.checker.made_at(sequence).is_some_and(|made| self.watch.counts(made));
        if counts {
            self.rtt.record(rtt);
        }
    }

    pub(super) fn enabled(&mut self, now: Time) {
        self.checker.enabled(now);
        self.control.moves(true);
        self.moved.get_or_insert(now);
        self.fed = now;
        self.resumed += 1;
    }

    /// The robot stands.
    pub(super) fn stopped(&mut self, now: Time, why: StopCause) {
        self.checker.stopped(now);
        self.control.moves(false);
        if why == StopCause::Watchdog && !self.finished && self.watchdogs.len() < MOST_TOLD {
            let silence_ms = now.saturating_since(self.fed).as_millis_f64();
            self.watchdogs.push(WatchdogResult { stopped_s: now.as_nanos() as f64 / 1e9, silence_ms });
        }
        if why.is_emergency() {
            for (pressed, emergency) in self.unacknowledged() {
                emergency.stopped_ms.get_or_insert(now.saturating_since(pressed).as_millis_f64());
            }
        }
    }

    /// Presses that are not acknowledged yet, from the first on.
    fn unacknowledged(&mut self) -> impl Iterator<Item = (Time, &mut EmergencyResult)> {
        let first = self.emergencies.len() - self.pressed.len();
        self.pressed.iter().copied().zip(&mut self.emergencies[first..])
    }

    pub(super) fn stop_pressed(&mut self, now: Time, waiting: usize) {
        if self.emergencies.len() < MOST_TOLD {
            let stands = self.unacknowledged().any(|(_, emergency)| emergency.stopped_ms.is_some());
            self.pressed.push(now);
            self.emergencies.push(EmergencyResult {
                pressed_s: now.as_nanos() as f64 / 1e9,
                stopped_ms: stands.then_some(0.0),
                acknowledged_ms: None,
                network_ms: None,
                own_queue_ms: None,
                waiting: waiting as u64,
            });
        }
    }

    /// A stop arrived in a packet that took so long.
    pub(super) fn stop_arrived(&mut self, transit: Option<Transit>) {
        if !self.pressed.is_empty() && self.stop_transit.is_none() {
            self.stop_transit = transit;
        }
    }

    /// Its acknowledgement arrived.
    pub(super) fn stop_acknowledged(&mut self, now: Time, transit: Option<Transit>) {
        // The packets are of the first press; those after it found them under way.
        let mut both = self.stop_transit.take().zip(transit);
        for (pressed, emergency) in self.unacknowledged() {
            let both = both.take();
            emergency.acknowledged_ms = Some(now.saturating_since(pressed).as_millis_f64());
            emergency.network_ms = both.map(|(there, back)| (there.took + back.took).as_millis_f64());
            emergency.own_queue_ms = both.map(|(there, back)| (there.queued + back.queued).as_millis_f64());
        }
        self.pressed.clear();
    }

    pub(super) fn feedback_made(&mut self, now: Time, sequence: u64) {
        if self.feedback.is_empty() {
            self.first_feedback = sequence;
        }
        self.feedback.push_back(Some(now));
        if self.feedback.len() > FEEDBACK {
            self.feedback.pop_front();
            self.first_feedback += 1;
        }
    }

    /// When feedback was made; only once for each.
    pub(super) fn take_feedback(&mut self, sequence: u64) -> Option<Time> {
        self.open_feedback(sequence)?.take()
    }

    /// When feedback was made that has not arrived.
    pub(super) fn open_feedback(&mut self, sequence: u64) -> Option<&mut Option<Time>> {
        let index = usize::try_from(sequence.checked_sub(self.first_feedback)?).ok()?;
        self.feedback.get_mut(index)
    }

    pub(super) fn to_result(&self, teleop: &Teleop, resumed: Option<Opening>) -> TeleopResult {
        let ms = |at: Option<Time>| at.map(|at| at.saturating_since(Time::ZERO).as_millis_f64());
        let (first, again) = (self.opening(), resumed.unwrap_or_default());
        let arrived: u64 = self.checker.tallies.iter().map(|tally| tally.arrived).sum();
        let made = self.checker.made;
        let seconds = self.made_for();
        let rate = |bytes: u64| seconds.map(|seconds| bytes as f64 * 8.0 / seconds);
        let wire = |way: usize| WireResult {
            efficiency_percent: percent(self.wire[way].payload, self.wire[way].bytes),
            sent_bps: rate(self.counted[way].sent),
            payload_bps: rate(self.counted[way].payload),
            ..self.wire[way]
        };
        TeleopResult {
            transport: teleop.transport.name().to_owned(),
            own_devices: self.own_devices.clone(),
            handshake_ms: first.handshake_ms,
            opened_ms: first.opened_ms,
            first_state_ms: first.first_state_ms,
            resumed_handshake_ms: again.handshake_ms,
            resumed_opened_ms: again.opened_ms,
            resumed_first_state_ms: again.first_state_ms,
            moved_ms: ms(self.moved),
            closed_s: self.closed.map(|at| at.as_nanos() as f64 / 1e9),
            made,
            arrived,
            delivered_percent: percent(arrived, made),
            streams: (0..STREAMS).filter_map(|stream| self.stream(stream)).collect(),
            rtt_ms: self.rtt.summary.to_result(),
            rtt_jitter_ms: self.rtt.jitter.to_result().map(|jitter| jitter.mean),
            wire: [wire(0), wire(1)],
            channels: self.channels.to_result(teleop, rate),
            emergencies: self.emergencies.clone(),
            watchdogs: self.watchdogs.clone(),
            resumed: self.resumed,
            allowed_hz: self.allowed_hz,
            clock_error_ms: self.clock.map(|[error, _]| error.as_millis_f64()),
            clock_uncertainty_ms: self.clock.map(|[_, said]| said.as_millis_f64()),
            control: self.control.beside_its_twin(teleop),
        }
    }

    pub(super) fn opening(&self) -> Opening {
        let ms = |at: Option<Time>| at.map(|at| at.saturating_since(Time::ZERO).as_millis_f64());
        Opening {
            handshake_ms: ms(self.handshake),
            opened_ms: ms(self.opened),
            first_state_ms: ms(self.first_state),
        }
    }

    fn stream(&self, stream: usize) -> Option<StreamResult> {
        let (tally, one_way) = (&self.checker.tallies[stream], &self.one_way[stream]);
        let name = ["emergency", "high", "normal, odd", "normal, even"][stream];
        (tally.sum() > 0).then(|| StreamResult {
            name: name.to_owned(),
            made: tally.sum(),
            arrived: tally.arrived,
            applied: tally.applied,
            lost: tally.lost,
            in_flight: tally.in_flight,
            dropped: by_name(&tally.dropped),
            refused: by_name(&tally.refused),
            late: self.late[stream],
            duplicates: tally.duplicates,
            reordered: tally.reordered,
            one_way_ms: one_way.summary.to_result(),
            jitter_ms: one_way.jitter.to_result().map(|jitter| jitter.mean),
        })
    }

    pub(super) fn series(&self) -> Vec<Series> {
        self.control.series()
    }
}

pub(super) fn by_name(counts: &[u64; DropCause::ALL.len()]) -> BTreeMap<String, u64> {
    let counted = DropCause::ALL.iter().zip(counts).filter(|(_, count)| **count > 0);
    counted.map(|(cause, count)| (cause.name().to_owned(), *count)).collect()
}
