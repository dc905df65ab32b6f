//! The end of a probe that answers, as a device that is no robot: nothing moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taut_agent::{DeviceFailure, DeviceMessage, Measured, RobotDevice, SetPoint};
use taut_core::{Bitrate, Duration, Time};
use taut_io::Clock;
use taut_io::device::{Stoppable, Stopper};
use taut_lab::probe::Seen;
use taut_session::motion::Motion;
use taut_session::{ChannelId, StopCause};

use super::ends::{
    BACK, BUSY, EVERY, Head, IDLE, LEFT, LONG, MEASURED, OVER, Pace, RECEIVED, Sending, THERE, TRAIN_EVERY,
    TRAIN_MESSAGE, WARM_UP, Watch, counted, message, trains_take,
};
use super::receipts::{self, Receipts};

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
