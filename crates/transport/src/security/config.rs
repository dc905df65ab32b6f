//! How patient the security layer is.

use taut_core::Duration;

use crate::service::Service;

/// Settings of [`Secured`](super::Secured) and [`Sealed`](super::Sealed). Both ends should agree on `silence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecurityConfig {
    pub(crate) retransmit: Duration,
    pub(crate) give_up: Duration,
    pub(crate) silence: Duration,
    pub(crate) rekey_after: Duration,
    pub(crate) rekey_messages: u64,
    pub(crate) handshakes_per_second: u32,
    pub(crate) epoch: u64,
    pub(crate) multipath: bool,
    pub(crate) service: Service,
}

impl Default for SecurityConfig {
    fn default() -> Self {
        Self {
            retransmit: Duration::from_millis(100),
            give_up: Duration::from_secs(30),
            silence: Duration::from_secs(1),
            rekey_after: Duration::from_secs(120),
            rekey_messages: 1 << 32,
            handshakes_per_second: 20,
            epoch: 0,
            multipath: false,
            service: Service::Session,
        }
    }
}

impl SecurityConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the operator waits before it repeats an initiation for the first time; the wait doubles each time, up to
    /// 2 s. Default 100 ms; from 1 ms to 2 s. Shorter than a round trip costs bytes, not time: the robot answers
    /// repeated bytes with repeated bytes.
    pub fn retransmit(mut self, wait: Duration) -> Self {
        self.retransmit = wait.clamp(Duration::from_millis(1), Duration::from_secs(2));
        self
    }

    /// After how long without an answer to a handshake, and without an authentic datagram, an operator closes. Default 30 s;
    /// from 100 ms to 1 h.
    pub fn give_up(mut self, after: Duration) -> Self {
        self.give_up = after.clamp(Duration::from_millis(100), HOUR);
        self
    }

    /// After how long without an authentic datagram the robot lets another operator in, and the operator asks for new
    /// keys. Default 1 s; from 10 ms to 1 h. An operator that has nothing to say pings every quarter of it, so that
    /// silence means that it is gone; around a stream nothing pings, and its program has to say something.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence.clamp(Duration::from_millis(10), HOUR);
        self
    }

    /// After how long without an authentic datagram the robot takes the same operator's next life for that, and not for a second
    /// one started by mistake: half of [`silence`](Self::silence).
    pub fn returns_after(&self) -> Duration {
        self.silence / 2
    }

    /// After how long the operator asks for new keys. Default 120 s; from 100 ms to 1 h. Keys that are thirty times as old end
    /// the conversation.
    pub fn rekey_after(mut self, age: Duration) -> Self {
        self.rekey_after = age.clamp(Duration::from_millis(100), HOUR);
        self
    }

    /// After how many datagrams sent under one key the operator asks for new keys. Default 2³²; from 1 to 2⁶⁰.
    pub fn rekey_messages(mut self, datagrams: u64) -> Self {
        self.rekey_messages = datagrams.clamp(1, 1 << 60);
        self
    }

    /// How many initiations a robot looks into per second, after a burst of ten, before it asks their senders to show first that
    /// they are where they say. Each costs it about a third of a millisecond. Of those that show it, as many again of each host,
    /// and ten times as many of all hosts together. Default 20; from 1 to 1000.
    pub fn handshakes_per_second(mut self, rate: u32) -> Self {
        self.handshakes_per_second = rate.clamp(1, 1000);
        self
    }

    /// Nanoseconds since 1970 at the driver's `Time::ZERO`. Default 0, right for a simulation. An operator's
    /// initiations must carry greater times than those of its earlier lives, or a robot that remembers them refuses.
    pub fn epoch(mut self, unix_nanos: u64) -> Self {
        self.epoch = unix_nanos;
        self
    }

    /// For a transport that uses several paths at once, such as [`Mtip`](crate::mtip::Mtip): each datagram goes where the
    /// transport inside says, under one set of keys. The operator's paths are those of
    /// [`add_path`](taut_core::Transport::add_path); the robot takes one when the operator has answered a challenge there.
    /// Default off: there is one path, and each end follows its peer. Both ends must agree.
    pub fn multipath(mut self, on: bool) -> Self {
        self.multipath = on;
        self
    }

    /// What it is for. Default [`Service::Session`]. With a peer that has another nothing comes about.
    pub fn service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    /// How often an idle operator pings.
    pub(crate) fn keepalive(&self) -> Duration {
        self.silence / 4
    }

    pub(crate) fn next_wait(wait: Duration) -> Duration {
        wait.saturating_mul(2).min(Duration::from_secs(2))
    }
}

const HOUR: Duration = Duration::from_secs(3600);
