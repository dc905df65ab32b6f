//! The gap over another transport.

use taut_core::{
    Deadline, Duration, Event, Message, Priority, SendError, Time, Transport, Waiting, earliest, passes_on,
};

use super::config::{ConfigError, MAX_GAP};
use super::gate::{Gate, GateConfig, Sampling};

/// Keeps a fixed gap between successive messages into the transport below, and supersedes what waits as
/// [`Etp`](super::Etp) does. It adds nothing to the bytes, so the peer needs no counterpart.
///
/// The gap is between *messages*: what a TCP below makes of them, and how long they wait in its buffer, it does not see.
///
/// ```
/// use taut_core::{Duration, Message, Time, Transport};
/// use taut_transport::{etp::Gap, udp::{Udp, UdpConfig}};
/// let mut spaced = Gap::new(Udp::new(UdpConfig::new()), Duration::from_millis(4))?;
/// spaced.send(Time::ZERO, Message { data: vec![1], ..Message::default() })?;
/// spaced.send(Time::ZERO, Message { data: vec![2], ..Message::default() })?;
/// assert_eq!(spaced.poll_timeout().expect("one waits").at, Time::ZERO + Duration::from_millis(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gap<T> {
    inner: T,
    gap: Duration,
    gate: Gate,
}

/// Messages that wait at most, of all priorities.
const QUEUE: usize = 64;

impl<T: Transport> Gap<T> {
    /// Keeps `gap`, 0 to [`MAX_GAP`], between successive messages into `inner`.
    ///
    /// # Errors
    /// When the gap is longer than that.
    pub fn new(inner: T, gap: Duration) -> Result<Self, ConfigError> {
        if gap > MAX_GAP {
            return Err(ConfigError::Gap(gap));
        }
        let config =
            GateConfig { limit: QUEUE, pack: None, overhead: 0, urgent: None, tolerance: Duration::ZERO };
        Ok(Self { inner, gap, gate: Gate::new(config) })
    }

    /// Messages at least this urgent do not wait for the gap. Default none. For what is rare, such as a stop.
    pub fn urgent(mut self, priority: Option<Priority>) -> Self {
        self.gate.set_urgent(priority);
        self
    }

    /// The transport below.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// What the gap cost.
    pub fn sampling(&self) -> Sampling {
        self.gate.sampling()
    }

    /// With gap 0 everything that waits goes at once.
    fn release(&mut self, now: Time) {
        while self.gate.pass(now, self.gap) {
            let Some(message) = self.gate.next(usize::MAX) else { return };
            self.hand_on(now, message);
        }
    }

    /// The message was taken already, so what the transport below would not take becomes a drop.
    fn hand_on(&mut self, now: Time, message: Message) {
        let tag = message.tag;
        if let Err(error) = self.inner.send(now, message) {
            self.gate.refused(tag, error.cause());
        }
    }
}

impl<T: Transport> Transport for Gap<T> {
    /// A message that the transport below then refuses is reported as dropped.
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        self.gate.offer(now, self.gap, message)?;
        self.release(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.release(now);
        self.inner.handle_timeout(now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.gate.poll_event().or_else(|| self.inner.poll_event())
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        earliest(self.gate.poll_timeout(self.gap), self.inner.poll_timeout())
    }

    /// What waits for the gap does not wait any longer: the transport below says goodbye after it.
    fn close(&mut self, now: Time) {
        while let Some(message) = self.gate.next(usize::MAX) {
            self.hand_on(now, message);
        }
        self.inner.close(now);
    }

    fn abandon(&mut self) {
        self.gate.abandon();
        self.inner.abandon();
    }

    // The round trip, too: what waits for the gap waits at this end, not in the network.
    passes_on!(self, self.inner => handle_input poll_transmit add_path remove_path set_origin uses_path round_trip send_rate delivered);

    fn waiting(&self) -> Waiting {
        self.gate.waiting().max(self.inner.waiting())
    }
}
