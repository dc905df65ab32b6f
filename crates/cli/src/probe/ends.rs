//! The two ends of a probe, as devices that do not move and have messages for channels.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use taut_agent::{DeviceFailure, DeviceMessage, Measured, OperatorDevice, RobotDevice, Sample, SetPoint};
use taut_core::{Bitrate, Duration, Time};
use taut_io::Clock;
use taut_io::device::{Stoppable, Stopper};
use taut_lab::probe::{Arrival, Seen};
use taut_session::motion::Motion;
use taut_session::{
    Channel, ChannelId, ChannelKind, Delivery, Direction, Encoding, Repair, Schema, State, StopCause,
};

/// Between two messages: a session's rate.
pub(super) const EVERY: Duration = Duration::from_millis(1);
/// The number of messages that are not measured. A session refuses what has a deadline until its clocks are compared: the measurement begins
/// when the first of these has come back.
const WARM_UP: u32 = u32::MAX;
/// So long what is on its way is waited for; what is older counts as lost.
const LINGER: Duration = Duration::from_secs(2);
/// What a probe takes beside its measurement.
pub(super) const AROUND: Duration = Duration::from_secs(3);
/// The other end has to be heard of within.
const UNHEARD: Duration = Duration::from_secs(5);
/// A host that was not at work for so long, though it is asked for messages every period, held up what came meanwhile.
const HELD: Duration = Duration::from_millis(2);
/// Receipts in one message.
const BATCH: usize = 60;
/// A receipt: a number, a transit in ns, 1 if it was held.
const RECEIPT: usize = 13;
/// Receipts that wait at most.
const WAITING: usize = 10_000;

const THERE: ChannelId = ChannelId(0);
const BACK: ChannelId = ChannelId(1);
const RECEIVED: ChannelId = ChannelId(2);

/// The channels, at both ends: messages there and back, of which none is repeated, and the receipts of the end that answers, of which all are.
pub(super) fn declared() -> [Channel; 3] {
    let schema = || Schema::new("taut.Probe", Encoding::Raw);
    let message = |name, direction| {
        // Not the newest alone: what was overtaken arrived all the same.
        Channel::new(name, direction, ChannelKind::Feedback, schema())
            .delivery(Delivery::Deadline)
            .deadline(LINGER)
            .repair(Repair::None)
    };
    [
        message("probe.there", Direction::ToRobot),
        message("probe.back", Direction::ToOperator),
        Channel::new("probe.received", Direction::ToOperator, ChannelKind::Command, schema()),
    ]
}

/// What was seen of both directions.
pub(super) struct BothWays {
    pub(super) there: Seen,
    pub(super) back: Seen,
}

impl BothWays {
    pub(super) fn new(messages: usize) -> Self {
        Self { there: Seen::new(EVERY, messages), back: Seen::new(EVERY, messages) }
    }
}

/// A message of a probe, 24 bytes: which probe it is of, its number in that, when it was made by its sender's clock, and zeros.
fn message(channel: ChannelId, probe: u32, number: u32, now: Time) -> DeviceMessage {
    let mut payload = Vec::with_capacity(24);
    payload.extend(probe.to_le_bytes());
    payload.extend(number.to_le_bytes());
    payload.extend(now.as_nanos().to_le_bytes());
    payload.resize(24, 0);
    DeviceMessage::Payload { channel, payload }
}

/// What a message of a probe says at its head.
struct Head {
    probe: u32,
    number: u32,
    sent_ns: u64,
}

impl Head {
    fn parse(payload: &[u8]) -> Option<Self> {
        let probe = u32::from_le_bytes(payload.get(..4)?.try_into().ok()?);
        let number = u32::from_le_bytes(payload.get(4..8)?.try_into().ok()?);
        let sent_ns = u64::from_le_bytes(payload.get(8..16)?.try_into().ok()?);
        Some(Self { probe, number, sent_ns })
    }
}

/// One message each period. A host that was held up makes up for little: a burst would be another load than the one that is measured.
struct Pace {
    due: Time,
    sent: u32,
}

impl Pace {
    fn new(due: Time) -> Self {
        Self { due, sent: 0 }
    }

    /// The next message's number, if it is due.
    fn next(&mut self, now: Time) -> Option<u32> {
        if now < self.due {
            return None;
        }
        self.due = (self.due + EVERY).max(now - HELD);
        self.sent = self.sent.checked_add(1)?;
        Some(self.sent - 1)
    }
}

/// An end's clock, and whether its host is at work.
struct Watch {
    clock: Clock,
    last: Time,
    /// What comes until then may have waited for the host.
    held_until: Time,
}

impl Watch {
    fn new(clock: Clock) -> Self {
        let now = clock.now();
        Self { clock, last: now, held_until: now }
    }

    /// The host is at work.
    fn turn(&mut self) -> Time {
        let now = self.clock.now();
        if now.saturating_since(self.last) > HELD {
            self.held_until = now + EVERY;
        }
        self.last = now;
        now
    }

    fn arrival(&mut self, sent_ns: u64) -> Arrival {
        let now = self.turn();
        Arrival { transit_ns: now.as_nanos().wrapping_sub(sent_ns) as i64, held: now < self.held_until }
    }
}

fn receipt(number: u32, arrival: Arrival) -> [u8; RECEIPT] {
    let mut bytes = [0; RECEIPT];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..12].copy_from_slice(&arrival.transit_ns.to_le_bytes());
    bytes[12] = arrival.held.into();
    bytes
}

fn parse_receipt(bytes: &[u8]) -> Option<(usize, Arrival)> {
    let number = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let transit_ns = i64::from_le_bytes(bytes.get(4..12)?.try_into().ok()?);
    Some((number, Arrival { transit_ns, held: *bytes.get(12)? != 0 }))
}

/// The end that measures.
pub(super) struct Asking {
    probe: u32,
    messages: u64,
    seen: Arc<Mutex<BothWays>>,
    /// When the first message came back.
    measures_since: Option<Time>,
    /// When it was first asked where it is.
    begun: Option<Time>,
    pace: Pace,
    watch: Watch,
    over: Sender<()>,
}

impl Asking {
    /// `probe` tells it from earlier ones, of other hosts too; `over` is told when there is nothing more to wait for.
    pub(super) fn new(
        clock: Clock,
        probe: u32,
        messages: usize,
        seen: Arc<Mutex<BothWays>>,
        over: Sender<()>,
    ) -> Self {
        let (messages, watch) = (messages as u64, Watch::new(clock));
        let pace = Pace::new(watch.last);
        Self { probe, messages, seen, measures_since: None, begun: None, pace, watch, over }
    }

    /// Says when it is over, or when nothing was heard of the other end for too long.
    fn end(&mut self, now: Time) {
        let begun = *self.begun.get_or_insert(now);
        let end = match self.measures_since {
            Some(since) => since + EVERY.saturating_mul(self.messages) + LINGER,
            None => begun + UNHEARD,
        };
        if now > end {
            let _ = self.over.send(()); // It may have ended already.
        }
    }
}

impl OperatorDevice for Asking {
    /// No state is sent, for it has read none.
    fn sample(&mut self, now: Time) -> Option<Sample> {
        self.end(now);
        Some(Sample { state: State::at(now), reading: 0 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn resumed(&mut self) {}
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, channel: ChannelId, _: Option<Duration>, payload: &[u8]) {
        let Some(head) = Head::parse(payload).filter(|head| head.probe == self.probe) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if channel == BACK && head.number == WARM_UP {
            let now = self.watch.turn();
            if self.measures_since.is_none() {
                (self.measures_since, self.pace) = (Some(now), Pace::new(now));
            }
        } else if channel == BACK {
            seen.back.arrived(head.number as usize, self.watch.arrival(head.sent_ns));
        } else if channel == RECEIVED {
            for (number, arrival) in payload[4..].chunks(RECEIPT).map_while(parse_receipt) {
                seen.there.arrived(number, arrival);
            }
        }
    }
    fn limit_bitrate(&mut self, _: Bitrate) {}
    /// A message each period. Those beyond the measured ones carry the acknowledgements of what is still to come back: without them that would wait.
    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        let made = self.watch.turn();
        self.end(now);
        let number = self.pace.next(made)?;
        let number = if self.measures_since.is_some() { number } else { WARM_UP };
        Some(message(THERE, self.probe, number, made))
    }
}

/// The end that answers. It is no robot, and nothing moves.
pub(super) struct Answering {
    answered: Option<Answered>,
    watch: Watch,
}

/// The probe that it answers.
struct Answered {
    probe: u32,
    measures: bool,
    pace: Pace,
    receipts: VecDeque<[u8; RECEIPT]>,
    next_receipts: Time,
}

impl Answering {
    pub(super) fn new(clock: Clock) -> Self {
        Self { answered: None, watch: Watch::new(clock) }
    }
}

impl RobotDevice for Answering {
    fn period(&self) -> Duration {
        EVERY
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Err(DeviceFailure::Stopped("it answers a probe, and is no robot".to_owned()))
    }
    fn apply(&mut self, _: &SetPoint) -> bool {
        false
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, _: StopCause) {}
    fn measure(&mut self) -> Option<Measured> {
        None
    }
    fn receive(&mut self, channel: ChannelId, _: Option<Duration>, payload: &[u8]) {
        let Some(head) = Head::parse(payload).filter(|_| channel == THERE) else { return };
        let arrival = self.watch.arrival(head.sent_ns);
        let (now, measures) = (self.watch.last, head.number != WARM_UP);
        let is_same = |answered: &Answered| answered.probe == head.probe && answered.measures >= measures;
        let answered = match self.answered.take().filter(is_same) {
            Some(answered) => self.answered.insert(answered),
            None => self.answered.insert(Answered {
                probe: head.probe,
                measures,
                pace: Pace::new(now),
                receipts: VecDeque::new(),
                next_receipts: now,
            }),
        };
        if !measures {
            return;
        }
        // Of more than wait here the oldest are not told: the path back is too narrow for them, and they count as lost.
        if answered.receipts.len() == WAITING {
            answered.receipts.pop_front();
        }
        answered.receipts.push_back(receipt(head.number, arrival));
    }
    fn limit_bitrate(&mut self, _: Bitrate) {}
    /// A message for each period since the probe began, and receipts.
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        let now = self.watch.turn();
        let answered = self.answered.as_mut()?;
        if let Some(number) = answered.pace.next(now) {
            let number = if answered.measures { number } else { WARM_UP };
            return Some(message(BACK, answered.probe, number, now));
        }
        let is_time = now >= answered.next_receipts && !answered.receipts.is_empty();
        (is_time || answered.receipts.len() >= BATCH).then(|| {
            answered.next_receipts = now + EVERY * BATCH as u64;
            let count = answered.receipts.len().min(BATCH);
            let receipts = answered.receipts.drain(..count).flatten();
            let payload = answered.probe.to_le_bytes().into_iter().chain(receipts).collect();
            DeviceMessage::Payload { channel: RECEIVED, payload }
        })
    }
    fn feeds_back(&mut self) -> bool {
        false
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        None
    }
    fn lease(&self) -> bool {
        true
    }
    fn stiffness(&self) -> Option<f32> {
        None
    }
    fn limit_force(&mut self, _: f32) -> bool {
        true
    }
    fn is_real(&self) -> bool {
        false
    }
}

struct Still;

impl Stopper for Still {
    fn stop(&self, _: StopCause) {}
}

impl Stoppable for Answering {
    fn stopper(&self) -> Arc<dyn Stopper> {
        Arc::new(Still)
    }
}
