//! The two ends of a probe, as devices that do not move and have messages for channels.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use taut_agent::{DeviceFailure, DeviceMessage, Measured, OperatorDevice, RobotDevice, Sample, SetPoint};
use taut_core::{Bitrate, Bytes, Duration, Time};
use taut_io::Clock;
use taut_io::device::{Stoppable, Stopper};
use taut_lab::probe::{Arrival, Seen, Trains};
use taut_session::motion::Motion;
use taut_session::{
    Channel, ChannelId, ChannelKind, Delivery, Direction, Encoding, Repair, Schema, State, StopCause,
};

use super::receipts::{self, Receipts};

/// Between two messages: a session's rate.
pub(super) const EVERY: Duration = Duration::from_millis(1);
/// The number of messages that are not measured. A session refuses what has a deadline until its clocks are compared: the measurement begins
/// when the first of these has come back.
const WARM_UP: u32 = u32::MAX;
/// Of messages that say that the measurement is over: trains follow, and then the receipts.
const OVER: u32 = u32::MAX - 1;
/// Of messages that answer nothing: the robot there has an operator.
const BUSY: u32 = u32::MAX - 2;
/// So long what is on its way is waited for; what is older counts as lost.
const LINGER: Duration = Duration::from_secs(2);
/// Between two messages when nothing is measured.
const IDLE: Duration = Duration::from_millis(20);
/// Messages of a train, one right behind the other, and how long each is.
const TRAIN: usize = 48;
const TRAIN_MESSAGE: usize = 1_000;
/// What a message has around it on the wire: the header of the session and that of UDP, that of IP, and what Noise adds where it is sealed.
const HEADERS: usize = 26;
const IPV4: usize = 20;
const IPV6: usize = 40;
const SEALED: usize = 28;
/// In the mean, what says what came: 13 B in a third of the messages, and now and then a datagram of its own.
const ACKNOWLEDGED: usize = 6;
/// Trains each way.
const TRAINS: usize = 10;
/// Between two trains the one way, and half of it to one the other way.
const TRAIN_EVERY: Duration = Duration::from_millis(400);
/// They have to be there so long after they were due.
const RECEIPTS_LATE: Duration = Duration::from_secs(10);
/// The other end has to be heard of within.
const UNHEARD: Duration = Duration::from_secs(5);
/// Who has said nothing for so long has left; a path may stand still for a while.
const LEFT: Duration = Duration::from_secs(30);
/// A host that was not at work for so long, though it is asked for messages every period, held up what came meanwhile.
const HELD: Duration = Duration::from_millis(2);
/// Its number is that of the messages' form: ends of different ones do not agree on their channels, and say so.
const SCHEMA: &str = "taut.Probe.2";
const THERE: ChannelId = ChannelId(0);
const BACK: ChannelId = ChannelId(1);
const RECEIVED: ChannelId = ChannelId(2);

/// The channels, at both ends: messages there and back, of which none is repeated, and the receipts of the end
/// that answers, which are, and go when nothing is measured any more.
pub(super) fn declared() -> [Channel; 3] {
    let schema = || Schema::new(SCHEMA, Encoding::Raw);
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
    pub(super) trains_there: Trains,
    pub(super) trains_back: Trains,
    /// The robot there has an operator, who comes first.
    pub(super) is_busy: bool,
    /// Nothing was heard of the other end for too long.
    pub(super) is_silent: bool,
    /// Of how many messages the other end has told what became of them.
    told: usize,
    messages: usize,
}

impl BothWays {
    /// Of so many messages.
    pub(super) fn new(messages: usize, wire: Wire) -> Self {
        let seen = || Seen::new(EVERY, messages);
        let trains = || Trains::new(TRAINS, TRAIN, wire.with(TRAIN_MESSAGE));
        Self {
            there: seen(),
            back: seen(),
            trains_there: trains(),
            trains_back: trains(),
            is_busy: false,
            is_silent: false,
            told: 0,
            messages,
        }
    }

    /// The other end has told what became of all messages.
    pub(super) fn is_told(&self) -> bool {
        self.told >= counted(self.messages)
    }
}

/// All messages that get a receipt.
const fn counted(messages: usize) -> usize {
    messages + TRAINS * TRAIN
}

/// What a probe takes beside its measurement of so many messages.
pub(super) fn around(messages: usize) -> Duration {
    LINGER + trains_take() + receipts::take(counted(messages)) + Duration::from_secs(1)
}

/// The trains, and what of them is still on its way.
fn trains_take() -> Duration {
    TRAIN_EVERY * TRAINS as u64 + LINGER
}

/// A message of a probe: which probe it is of, its number in that, when it was made by its sender's clock; where it is long enough how many messages are
/// measured, how many receipts it has, and zeros.
fn message(channel: ChannelId, head: Head, length: usize) -> DeviceMessage {
    let mut payload = Vec::with_capacity(length);
    payload.extend(head.probe.to_le_bytes());
    payload.extend(head.number.to_le_bytes());
    payload.extend(head.sent_ns.to_le_bytes());
    payload.extend(head.messages.to_le_bytes());
    payload.extend(head.told.to_le_bytes());
    payload.resize(length, 0);
    DeviceMessage::Payload { channel, payload }
}

/// A message that is measured: what it says at its head and no more. Sealed it is a little shorter than a session's sample of 24 B.
const MEASURED: usize = 16;
/// One that is not, and says all of it.
const LONG: usize = 24;

/// What a path's packets have around a message.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    around: usize,
}

impl Wire {
    /// Of packets to there, sealed or not.
    pub(super) fn to(there: Option<SocketAddr>, sealed: bool) -> Self {
        let is_v6 = there.is_some_and(|there| there.ip().to_canonical().is_ipv6());
        let ip = if is_v6 { IPV6 } else { IPV4 };
        Self { around: HEADERS + ip + if sealed { SEALED } else { 0 } }
    }

    /// What is measured, with all headers.
    pub(super) fn measured(self) -> Bytes {
        self.with(MEASURED + ACKNOWLEDGED)
    }

    fn with(self, length: usize) -> Bytes {
        Bytes::new((length + self.around) as u64)
    }
}

/// What a message of a probe says at its head.
#[derive(Clone, Copy)]
struct Head {
    probe: u32,
    number: u32,
    sent_ns: u64,
    messages: u32,
    told: u32,
}

impl Head {
    fn parse(payload: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(payload.get(at..at + 4)?.try_into().ok()?));
        let sent_ns = u64::from_le_bytes(payload.get(8..16)?.try_into().ok()?);
        let [messages, told] = [word(16), word(20)].map(Option::unwrap_or_default);
        Some(Self { probe: word(0)?, number: word(4)?, sent_ns, messages, told })
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
    fn next(&mut self, now: Time, every: Duration) -> Option<u32> {
        if now < self.due {
            return None;
        }
        self.due = (self.due + every).max(now - HELD);
        self.sent = self.sent.checked_add(1)?;
        Some(self.sent - 1)
    }
}

/// The trains of one end.
struct Sending {
    begun: Time,
    sent: usize,
}

impl Sending {
    fn new(begun: Time) -> Self {
        Self { begun, sent: 0 }
    }

    /// The number of the next message, counted over all trains, if it is due.
    fn next(&mut self, now: Time) -> Option<usize> {
        let is_due =
            self.sent < TRAINS * TRAIN && now >= self.begun + TRAIN_EVERY * (self.sent / TRAIN) as u64;
        is_due.then(|| {
            self.sent += 1;
            self.sent - 1
        })
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
        let transit_ns = now.as_nanos().wrapping_sub(sent_ns) as i64;
        Arrival { transit_ns, held: now < self.held_until, overtaken: false }
    }
}

/// The end that measures.
pub(super) struct Asking {
    probe: u32,
    messages: usize,
    seen: Arc<Mutex<BothWays>>,
    /// When the first message came back.
    measures_since: Option<Time>,
    /// When the other end was heard last; before, when it was first asked for a sample.
    heard: Option<Time>,
    pace: Pace,
    trains: Option<Sending>,
    /// When the messages of trains left.
    made_ns: Vec<i64>,
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
        let watch = Watch::new(clock);
        let pace = Pace::new(watch.last);
        Self {
            probe,
            messages,
            seen,
            measures_since: None,
            heard: None,
            pace,
            trains: None,
            made_ns: Vec::new(),
            watch,
            over,
        }
    }

    /// When what is measured has been sent, and what is on its way has come.
    fn measured_at(&self) -> Option<Time> {
        self.measures_since.map(|since| since + EVERY.saturating_mul(self.messages as u64) + LINGER)
    }

    /// Says when it is over, or when nothing was heard of the other end for too long.
    fn end(&mut self, now: Time) {
        let heard = *self.heard.get_or_insert(now);
        let (silence, end) = match self.measured_at() {
            None => (UNHEARD, Time::MAX),
            Some(measured) => {
                let told = measured + trains_take() + receipts::take(counted(self.messages));
                (LEFT, told + RECEIPTS_LATE)
            }
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.is_silent |= now.saturating_since(heard) > silence;
        if now > end || seen.is_silent || seen.is_busy || seen.is_told() {
            let _ = self.over.send(()); // It may have ended already.
        }
    }

    fn receipts(&self, seen: &mut BothWays, payload: &[u8]) {
        // What is not the next was sent again, or comes again.
        let Some((first, arrivals)) = receipts::parse(payload).filter(|(first, _)| *first == seen.told)
        else {
            return;
        };
        for (number, arrival) in (first..counted(self.messages)).zip(arrivals) {
            seen.told += 1;
            let Some(arrival) = arrival else { continue };
            match number.checked_sub(self.messages) {
                None => _ = seen.there.arrived(number, arrival),
                Some(number) => {
                    if let Some(made) = self.made_ns.get(number) {
                        let at_ns = made.saturating_add(arrival.transit_ns);
                        seen.trains_there.arrived(number, at_ns, arrival.held);
                    }
                }
            }
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
        self.heard = Some(self.watch.clock.now());
        let seen = Arc::clone(&self.seen);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if channel == RECEIVED {
            return self.receipts(&mut seen, payload);
        }
        if channel != BACK {
            return;
        }
        match head.number {
            BUSY => seen.is_busy = true,
            WARM_UP | OVER => {
                let now = self.watch.turn();
                if self.measures_since.is_none() {
                    (self.measures_since, self.pace) = (Some(now), Pace::new(now));
                }
            }
            number => {
                let arrival = self.watch.arrival(head.sent_ns);
                match (number as usize).checked_sub(self.messages) {
                    None => _ = seen.back.arrived(number as usize, arrival),
                    Some(number) => {
                        let at_ns = self.watch.last.as_nanos() as i64;
                        seen.trains_back.arrived(number, at_ns, arrival.held);
                    }
                }
            }
        }
    }
    fn limit_bitrate(&mut self, _: Bitrate) {}
    /// A message each period. Those beyond the measured ones carry the acknowledgements of what is still to come back: without them that would wait.
    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        let made = self.watch.turn();
        self.end(now);
        let measured = self.measured_at();
        let is_over = measured.is_some_and(|measured| made >= measured);
        let told = self.seen.lock().unwrap_or_else(PoisonError::into_inner).told as u32;
        let head = |number| Head {
            probe: self.probe,
            number,
            sent_ns: made.as_nanos(),
            messages: self.messages as u32,
            told,
        };
        if is_over && let Some(number) = self.trains.get_or_insert_with(|| Sending::new(made)).next(made) {
            self.made_ns.push(made.as_nanos() as i64);
            return Some(message(THERE, head((self.messages + number) as u32), TRAIN_MESSAGE));
        }
        let number = self.pace.next(made, if is_over { IDLE } else { EVERY })?;
        let (number, length) = match self.measures_since {
            _ if is_over => (OVER, LONG),
            Some(_) if (number as usize) < self.messages => (number, MEASURED),
            _ => (WARM_UP, LONG),
        };
        Some(message(THERE, head(number), length))
    }
}

/// The end that answers. It is no robot, and nothing moves.
pub(super) struct Answering {
    answered: Option<Answered>,
    /// The robot of this host has an operator: nothing is answered.
    is_busy: Arc<AtomicBool>,
    watch: Watch,
}

/// The probe that it answers.
struct Answered {
    probe: u32,
    /// How many messages are measured.
    messages: usize,
    measures: bool,
    pace: Pace,
    trains: Option<Sending>,
    receipts: Receipts,
    next_receipts: Time,
    heard: Time,
}

impl Answered {
    fn new(head: &Head, now: Time) -> Self {
        let messages = (head.messages as usize).min(Seen::MOST);
        Self {
            probe: head.probe,
            messages,
            measures: false,
            pace: Pace::new(now),
            trains: None,
            receipts: Receipts::new(head.probe, counted(messages), now),
            next_receipts: now,
            heard: now,
        }
    }
}

impl Answering {
    pub(super) fn new(clock: Clock, is_busy: Arc<AtomicBool>) -> Self {
        Self { answered: None, is_busy, watch: Watch::new(clock) }
    }
}

impl RobotDevice for Answering {
    fn period(&self) -> Duration {
        if self.answered.is_some() { EVERY } else { IDLE }
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
        let now = self.watch.last;
        if head.number == WARM_UP && self.answered.as_ref().is_none_or(|known| known.probe != head.probe) {
            self.answered = Some(Answered::new(&head, now));
        }
        // One that did not begin here is none.
        let Some(answered) = self.answered.as_mut().filter(|known| known.probe == head.probe) else { return };
        answered.heard = now;
        if head.number != WARM_UP && !answered.measures {
            (answered.measures, answered.pace) = (true, Pace::new(now));
        }
        match head.number {
            WARM_UP | BUSY => {}
            OVER => {
                answered.receipts.has(head.told as usize, now);
                if answered.trains.is_none() {
                    // Half a period after those of the other end.
                    answered.trains = Some(Sending::new(now + TRAIN_EVERY / 2));
                    answered.next_receipts = now + trains_take();
                }
            }
            number => answered.receipts.arrived(number as usize, arrival),
        }
    }
    fn limit_bitrate(&mut self, _: Bitrate) {}
    /// A message for each period since the probe began, then trains, then receipts.
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        let now = self.watch.turn();
        // Whoever asked has left: a robot's host has better things to do.
        self.answered.take_if(|answered| now.saturating_since(answered.heard) > LEFT);
        let answered = self.answered.as_mut()?;
        let messages = answered.messages;
        let head = |number| Head {
            probe: answered.probe,
            number,
            sent_ns: now.as_nanos(),
            messages: messages as u32,
            told: 0,
        };
        if self.is_busy.load(Ordering::Relaxed) {
            let busy = head(BUSY);
            return answered.pace.next(now, IDLE).map(|_| message(BACK, busy, LONG));
        }
        let Some(trains) = &mut answered.trains else {
            let number = answered.pace.next(now, EVERY)?;
            let is_measured = answered.measures && (number as usize) < messages;
            let (number, length) = if is_measured { (number, MEASURED) } else { (WARM_UP, LONG) };
            return Some(message(BACK, head(number), length));
        };
        if let Some(number) = trains.next(now) {
            return Some(message(BACK, head((messages + number) as u32), TRAIN_MESSAGE));
        }
        if now >= answered.next_receipts
            && let Some(payload) = answered.receipts.next(now)
        {
            answered.next_receipts = now + receipts::EVERY;
            return Some(DeviceMessage::Payload { channel: RECEIVED, payload });
        }
        answered.pace.next(now, IDLE).map(|_| message(BACK, head(OVER), LONG))
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
