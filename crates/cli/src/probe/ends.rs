//! The two ends of a probe, as devices that do not move and have messages for channels.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use taut_agent::{DeviceFailure, DeviceMessage, Measured, OperatorDevice, RobotDevice, Sample, SetPoint};
use taut_core::{Bitrate, Duration, Time};
use taut_io::device::{Stoppable, Stopper};
use taut_lab::probe::Seen;
use taut_session::motion::Motion;
use taut_session::{
    Channel, ChannelId, ChannelKind, Delivery, Direction, Encoding, Repair, Schema, State, StopCause,
};

/// Between two messages: a session's rate.
pub(super) const EVERY: Duration = Duration::from_millis(1);
/// So long clocks are compared first.
const COMPARED: Duration = Duration::from_secs(1);
/// So long what is on its way is waited for; what is older counts as lost.
const LINGER: Duration = Duration::from_secs(2);
/// What a probe takes beside its measurement.
pub(super) const AROUND: Duration = Duration::from_secs(3);
/// The other end has to be heard of within.
const UNHEARD: Duration = Duration::from_secs(5);
/// Receipts in one message.
const BATCH: usize = 100;
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

/// A message of a probe, 24 bytes: which probe it is of, its number in that, and zeros.
fn message(channel: ChannelId, probe: u32, number: u32) -> DeviceMessage {
    let mut payload = vec![0; 24];
    payload[..4].copy_from_slice(&probe.to_le_bytes());
    payload[4..8].copy_from_slice(&number.to_le_bytes());
    DeviceMessage::Payload { channel, payload }
}

/// The number at this place of a payload, in units of four bytes.
fn number(payload: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_le_bytes(payload.get(place * 4..place * 4 + 4)?.try_into().ok()?))
}

/// The end that measures.
pub(super) struct Asking {
    probe: u32,
    messages: u64,
    seen: Arc<Mutex<BothWays>>,
    /// When it was first asked for messages: the channels are open.
    open: Option<Time>,
    /// When it was first asked where it is.
    begun: Option<Time>,
    sent: u64,
    over: Sender<()>,
}

impl Asking {
    /// `probe` tells it from earlier ones, of other hosts too; `over` is told when there is nothing more to wait for.
    pub(super) fn new(probe: u32, messages: usize, seen: Arc<Mutex<BothWays>>, over: Sender<()>) -> Self {
        Self { probe, messages: messages as u64, seen, open: None, begun: None, sent: 0, over }
    }
}

impl Asking {
    /// Says when it is over, or when nothing was heard of the other end for too long.
    fn end(&mut self, now: Time) {
        let begun = *self.begun.get_or_insert(now);
        let end = match self.open {
            Some(open) => open + COMPARED + EVERY.saturating_mul(self.messages) + LINGER,
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
    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        if number(payload, 0) != Some(self.probe) {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let (BACK, Some(age), Some(number)) = (channel, age, number(payload, 1)) {
            seen.back.arrived(number as usize, age);
        }
        if channel == RECEIVED {
            let pairs = (1..).step_by(2).map(|place| number(payload, place).zip(number(payload, place + 1)));
            for (number, us) in pairs.map_while(|pair| pair) {
                seen.there.arrived(number as usize, Duration::from_micros(u64::from(us)));
            }
        }
    }
    fn limit_bitrate(&mut self, _: Bitrate) {}
    /// A message for each period since clocks were compared, several where it was asked too late. Those beyond the measured ones carry the
    /// acknowledgements of what is still to come back: without them that would wait.
    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        let since = now.saturating_since(*self.open.get_or_insert(now));
        self.end(now);
        let due = since.saturating_sub(COMPARED).as_nanos() / EVERY.as_nanos();
        if self.sent >= due {
            return None;
        }
        self.sent += 1;
        Some(message(THERE, self.probe, (self.sent - 1) as u32))
    }
}

/// The end that answers. It is no robot, and nothing moves.
#[derive(Default)]
pub(super) struct Answering {
    /// Which probe it answers.
    probe: Option<u32>,
    sent: u32,
    /// A period has passed since its last message.
    is_due: bool,
    periods: u64,
    receipts: VecDeque<[u32; 2]>,
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
        (self.is_due, self.periods) = (true, self.periods + 1);
        None
    }
    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        let numbers = number(payload, 0).zip(number(payload, 1));
        let (THERE, Some(age), Some((probe, number))) = (channel, age, numbers) else { return };
        if self.probe != Some(probe) {
            *self = Self { probe: Some(probe), ..Self::default() };
        }
        // Of more than wait here the oldest are not told: the path back is too narrow for them, and they count as lost.
        if self.receipts.len() == WAITING {
            self.receipts.pop_front();
        }
        self.receipts.push_back([number, age.as_micros_u32()]);
    }
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        let probe = self.probe?;
        if std::mem::take(&mut self.is_due) {
            self.sent = self.sent.saturating_add(1);
            return Some(message(BACK, probe, self.sent - 1));
        }
        let is_time = self.periods.is_multiple_of(BATCH as u64) && !self.receipts.is_empty();
        (is_time || self.receipts.len() >= BATCH).then(|| {
            let count = self.receipts.len().min(BATCH);
            let numbers = self.receipts.drain(..count).flatten();
            let payload = std::iter::once(probe).chain(numbers).flat_map(u32::to_le_bytes).collect();
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
