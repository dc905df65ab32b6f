//! The end of a probe that measures, as an operator's device that reads nothing.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use taut_agent::{DeviceMessage, OperatorDevice, Resume, Sample};
use taut_core::{Bitrate, Duration, Time};
use taut_io::Clock;
use taut_session::{ChannelId, State};

use super::ends::{
    BACK, BUSY, BothWays, EVERY, Head, IDLE, LEFT, LINGER, LONG, MEASURED, OVER, Pace, RECEIVED, Sending,
    THERE, TRAIN_MESSAGE, WARM_UP, Watch, counted, message, trains_take,
};
use super::receipts;
use crate::host::lock;

/// They have to be there so long after they were due.
const RECEIPTS_LATE: Duration = Duration::from_secs(10);
/// The other end has to be heard of within.
const UNHEARD: Duration = Duration::from_secs(5);

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
        let mut seen = lock(&self.seen);
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
    fn resumed(&mut self, _: Resume) {}
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, channel: ChannelId, _: Option<Duration>, payload: &[u8]) {
        let Some(head) = Head::parse(payload).filter(|head| head.probe == self.probe) else { return };
        self.heard = Some(self.watch.clock.now());
        let seen = Arc::clone(&self.seen);
        let mut seen = lock(&seen);
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
        let told = lock(&self.seen).told as u32;
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
