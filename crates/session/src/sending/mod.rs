//! What an end sends: states or feedback, then channels, no more under way than the path carries.

mod queue;
mod tracker;

use taut_core::{
    Bitrate, Bytes, Deadline, DropCause, Duration, Priority as Urgency, Reliability, RttEstimator, Time,
    Transport, Waiting, earliest,
};
use taut_core::{PathId, PeerTime};
use taut_wire::session::{Body, DataHeader, State as Wire};

pub use self::queue::Order;
use self::queue::Outbox;
pub(crate) use self::queue::{Dropped, QueuedState, StateQueue};
use self::tracker::{Outcome, Tracker};
use crate::channel::{Channels, Outlook, Ready};
use crate::congestion::{Arrived, Claim, Congestion, Controller};
use crate::port::{CHANNEL_PRIORITY, CHANNEL_STREAM, Parcel, Port, channel_tag};
use crate::state::{Priority, State};
use crate::sync::ClockSync;

/// Everything that an end sends and that may have to wait, in the order in which it goes. Commands, hellos and clocks are outside, and
/// ahead of it.
///
/// Both ends have one: the operator's carries states, the robot's feedback, which are [`State`]s alike. It takes what is to go, decides
/// what goes when, remembers what is under way, takes the acknowledgements of all of it, and tells one controller.
#[derive(Debug)]
pub(crate) struct Sending {
    settings: Settings,
    /// Those that the transport can use, a bit each.
    paths: u64,
    /// What a round trip took before the transport was replaced, as long as none says whether the path is another one.
    known: Option<Duration>,
    outbox: Outbox,
    pub(crate) channels: Channels,
    tracker: Tracker,
    controller: Controller,
    next_sequence: u64,
    /// When a cap on channels lets the next frame go, and when what the transport holds messages to does.
    next_capped: Time,
    next_carried: Time,
    /// What is live of the bytes per second that the transport holds messages to.
    live: Claim,
    dropped: Vec<Dropped>,
    outcomes: Vec<Outcome>,
}

/// How an end sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// States of each priority that wait, at most, and which goes next.
    pub(crate) queue: usize,
    pub(crate) order: Order,
    /// Between two of them.
    pub(crate) interval: Duration,
    /// The age at which they are worthless.
    pub(crate) deadline: Option<Duration>,
    /// The transport repeats all that are lost.
    pub(crate) reliable: bool,
    /// The peer acknowledges them.
    pub(crate) acknowledged: bool,
    /// No more goes than the path carries, by this law.
    pub(crate) window: bool,
    pub(crate) congestion: Congestion,
    pub(crate) channel_rate: Option<Bitrate>,
    /// What the driver adds to each.
    pub(crate) headers: Bytes,
}

/// What the session knows of its round trip: what it takes at best, and how long an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) rtt: Option<Duration>,
    pub(crate) timeout: Duration,
}

/// The peer tells of states that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) sequence: u64,
    /// When it was made, where the peer says that.
    pub(crate) echo_ns: Option<u64>,
    /// When it arrived, by the peer's clock.
    pub(crate) arrived: Option<PeerTime>,
    /// How long the report waited there.
    pub(crate) held: Duration,
    /// Bit *i*: the state `sequence` − 1 − *i* arrived, too.
    pub(crate) seen: u32,
}

/// A state that was not known to have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) sent: Time,
    pub(crate) rtt: Duration,
}

/// Bytes of a state with its headers, as far as the share of the path is concerned that is theirs.
const STATE: u64 = 100;
/// So much of what channels may send is an encoder's: a picture is gone before the next one comes, and a longer one soon after.
const ENCODER: f64 = 0.8;
/// Bytes that go at once to a transport that holds messages to a rate: they fit into its queue, and into what it lets through at once.
const AT_ONCE: f64 = 12_000.0;

impl Settings {
    fn controller(&self) -> Controller {
        Controller::new(self.congestion, self.window && self.acknowledged, self.reliable)
    }
}

impl Sending {
    pub(crate) fn new(settings: Settings, channels: Channels) -> Self {
        Self {
            paths: 0,
            known: None,
            outbox: Outbox::new(settings.queue, settings.order, settings.interval),
            channels,
            tracker: Tracker::new(),
            controller: settings.controller(),
            next_sequence: 1,
            next_capped: Time::ZERO,
            next_carried: Time::ZERO,
            live: Claim::default(),
            dropped: Vec::new(),
            outcomes: Vec::new(),
            settings,
        }
    }

    /// There is another peer, over another path.
    pub(crate) fn restart(&mut self) {
        self.known = None;
        self.controller.restart(self.settings.controller());
    }

    /// There is another transport, perhaps over another path. Before a round trip took so long, if anybody knows.
    pub(crate) fn reconnected(&mut self, known: Option<Duration>) {
        (self.paths, self.next_carried, self.known) = (0, Time::ZERO, known);
        if known.is_none() {
            self.restart();
        }
    }

    /// A round trip took so long. Where the transport was replaced, one unlike those before is that of another path.
    pub(crate) fn round_trip(&mut self, rtt: Duration) {
        if self.known.take().is_some_and(|known| rtt.abs_diff(known) > known / 2) {
            self.restart();
        }
    }

    /// The transport can use a path, or not any more. Where another one is left, what goes takes that.
    pub(crate) fn path(&mut self, now: Time, path: PathId, is_up: bool) {
        let bit = 1_u64 << (path.0 % 64);
        self.paths = if is_up { self.paths | bit } else { self.paths & !bit };
        if !is_up && self.paths != 0 {
            self.controller.lost_path(now);
        }
    }

    /// The next state, with its number and until when it is of use.
    pub(crate) fn item(&self, state: State) -> QueuedState {
        let expires = self.settings.deadline.map(|deadline| state.created + deadline);
        QueuedState { sequence: self.next_sequence, state, expires }
    }

    /// Takes it. One of priority emergency is given back, to go at once.
    pub(crate) fn take(&mut self, now: Time, item: QueuedState) -> Option<QueuedState> {
        self.next_sequence += 1;
        self.controller.made(now, STATE);
        if item.state.priority == Priority::Emergency {
            return Some(item);
        }
        self.outbox.push(item, &mut self.dropped);
        None
    }

    /// The number that the next state gets.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Does the default law hold states back by a window?
    pub(crate) fn has_window(&self) -> bool {
        self.controller.has_window()
    }

    /// States that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.outbox.len()
    }

    pub(crate) fn set_interval(&mut self, interval: Duration, thinned: bool) {
        self.outbox.set_interval(interval, thinned);
    }

    /// States that wait are not sent any more.
    pub(crate) fn flush(&mut self, cause: DropCause) {
        self.outbox.flush(cause, &mut self.dropped);
    }

    /// Sends what may go. `body` makes a frame of a state; `sent` hears of each that the transport took, by its stream.
    pub(crate) fn pump<T: Transport>(
        &mut self,
        now: Time,
        port: &mut Port<T>,
        pace: impl FnOnce() -> Pace,
        mut body: impl FnMut(Wire) -> Body,
        mut sent: impl FnMut(u8),
    ) {
        if self.settings.reliable {
            self.controller.delivered(now, port.transport.delivered());
        }
        self.controller.transport_holds(port.waiting() == Waiting::Samples);
        while self.outbox.len() > 0
            && !self.is_held(port.is_blocked())
            && self.controller.admits(now)
            && let Some((item, stream)) = self.outbox.pop(now, &mut self.dropped)
        {
            if self.transmit(now, port, &item, stream, &mut body) {
                sent(stream);
            }
        }
        if self.channels.is_empty() {
            return;
        }
        self.channels.play(now);
        if self.channels.sends() {
            self.pump_channels(now, port, pace());
        }
        if let Some(ack) = self.channels.poll_ack(now, port.session) {
            let mut data = port.buffer();
            ack.emit(&mut data);
            // One that cannot go now is made up for by the next.
            let _ = port.send_bytes(now, data, Urgency(1), Parcel::passing(now, 1));
        }
    }

    /// Do states wait here, where the newest wins, as long as the transport is blocked? Where all are to go in their order, they may as well wait there.
    fn is_held(&self, blocked: bool) -> bool {
        blocked && self.settings.window && self.settings.order == Order::Newest
    }

    /// Gives a state to the transport. True: it took it.
    pub(crate) fn transmit<T: Transport>(
        &mut self,
        now: Time,
        port: &mut Port<T>,
        item: &QueuedState,
        stream: u8,
        body: impl FnOnce(Wire) -> Body,
    ) -> bool {
        let QueuedState { sequence, state, .. } = *item;
        let deadline = self.settings.deadline;
        let wire = state.to_wire(now, sequence, stream, deadline);
        let repeated = self.settings.reliable || state.priority == Priority::Emergency;
        let reliability = if repeated { Reliability::Reliable } else { Reliability::Unreliable };
        let created = state.created;
        let parcel = Parcel { stream, reliability, created, deadline, tag: sequence, series: None };
        match port.send(now, &body(wire), parcel) {
            Ok(bytes) => {
                // What is urgent waits for no window, but is under way like the rest.
                self.went(now, bytes as u64 + self.settings.headers.get(), false, Some(&wire));
                true
            }
            Err(error) => {
                self.controller.refused(STATE);
                self.dropped.push(item.dropped(error.cause()));
                false
            }
        }
    }

    /// The transport took a frame of so many bytes, which could wait or not: a state, or one of channels. Gives its place: all bytes
    /// sent with it.
    fn went(&mut self, now: Time, bytes: u64, can_wait: bool, state: Option<&Wire>) -> u64 {
        let place = self.controller.sent(now, bytes, can_wait);
        if !can_wait {
            self.live.record(now, bytes);
        }
        if let Some(state) = state.filter(|_| self.settings.acknowledged) {
            let sent = (place, bytes as u32);
            let pushed_out = self.tracker.sent(now, state.sequence, sent, state.created_ns, state.stream);
            self.outcomes.extend(pushed_out);
        }
        place
    }

    /// Sends what channels have ready, most urgent first.
    fn pump_channels<T: Transport>(&mut self, now: Time, port: &mut Port<T>, pace: Pace) {
        while let Some(lost) = self.channels.poll_lost(now, pace.timeout) {
            self.controller.loses(self.channels.loss());
            self.controller.lost(lost.place);
        }
        self.channels.forget_late(now);
        if !self.channels.has_more() {
            self.controller.ran_dry(now);
        }
        let way = pace.rtt.unwrap_or(Duration::ZERO) / 2;
        while self.controller.admits(now) {
            let more = self.channels.has_more()
                && now >= self.next_capped.max(self.next_carried)
                && self.controller.admits_more(now, self.channels.untold());
            if !self.channels.may_go(now, more) {
                return;
            }
            let mut data = port.buffer();
            let rate = self.capped(self.controller.rate_found(now));
            let outlook = Outlook { rate, way, timeout: pace.timeout };
            let Some(ready) = self.channels.poll(now, port.session, more, outlook, &mut data) else {
                return port.give_back(data);
            };
            self.transmit_data(now, port, &ready, data);
        }
    }

    fn transmit_data<T: Transport>(&mut self, now: Time, port: &mut Port<T>, ready: &Ready, data: Vec<u8>) {
        let parcel = Parcel {
            stream: CHANNEL_STREAM,
            reliability: Reliability::Unreliable,
            created: ready.created,
            deadline: ready.deadline,
            tag: channel_tag(ready.number),
            series: ready.series,
        };
        match port.send_bytes(now, data, Urgency(CHANNEL_PRIORITY + ready.priority), parcel) {
            Ok(length) => {
                let bytes = length as u64 + self.settings.headers.get();
                if ready.live {
                    self.controller.made(now, bytes);
                } else if let Some(rate) = self.carried(port.transport.send_rate()) {
                    let at_once = Duration::from_secs_f64(AT_ONCE / rate);
                    let takes = Duration::from_secs_f64(bytes as f64 / rate);
                    self.next_carried = self.next_carried.max(now - at_once) + takes;
                }
                let place = self.went(now, bytes, !ready.live, None);
                if let Some(rate) = self.settings.channel_rate.filter(|_| ready.media > 0 || !ready.live) {
                    let capped = if ready.live { ready.media } else { bytes };
                    self.next_capped = self.next_capped.max(now) + rate.time_for(Bytes::new(capped));
                }
                self.channels.sent(now, ready, (place, bytes));
            }
            Err(error) => self.channels.refused(now, error.cause()),
        }
    }

    /// So many bytes per second, or what channels may send at all.
    fn capped(&self, rate: Option<f64>) -> Option<f64> {
        let cap = self.settings.channel_rate.map(|rate| rate.as_bps() as f64 / 8.0);
        rate.into_iter().chain(cap).min_by(f64::total_cmp)
    }

    /// Bytes per second that a transport leaves for what can wait, which holds messages to this.
    fn carried(&self, rate: Option<Bitrate>) -> Option<f64> {
        rate.map(|rate| self.live.leaves_of(rate.as_bps() as f64 / 8.0))
    }

    /// What channels may send, once it was found, less what goes beside messages to mend losses: an encoder's rate. The transport holds
    /// messages to `carried`.
    pub(crate) fn channel_bitrate(&self, carried: Option<Bitrate>) -> Option<Bitrate> {
        let carried = self.carried(carried);
        let left = self.controller.rate_left().into_iter().chain(carried).min_by(f64::total_cmp);
        let (rate, share) = (self.capped(left), self.channels.share());
        rate.map(|rate| Bitrate::from_bps((rate * share * 8.0 * ENCODER) as u64))
    }

    /// Something came that the peer sent then, by its clock.
    #[inline]
    pub(crate) fn came(&mut self, now: Time, sent: PeerTime) {
        self.controller.reverse_delay(now, now.as_nanos().wrapping_sub(sent.0) as i64);
    }

    /// The peer tells of states. What is new of the one that it names; what became of all is in [`outcomes`](Self::outcomes).
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        report: &Report,
        packet: impl FnOnce() -> Option<Duration>,
    ) -> Option<News> {
        let sequence = report.sequence;
        let outcome = match report.echo_ns {
            Some(echo_ns) => self.tracker.acknowledged(sequence, echo_ns)?.1,
            None => self.tracker.seen(sequence),
        };
        let news = outcome.map(|outcome| {
            let rtt = RttEstimator::without_hold(now.saturating_since(outcome.sent), report.held);
            let (place, bytes) = (outcome.place, outcome.bytes.into());
            let (sent, there) = (outcome.sent, way(report.arrived, outcome.sent));
            self.controller.acknowledged(now, &Arrived { place, bytes, sent, rtt, there }, packet);
            self.outcomes.push(outcome);
            News { sent: outcome.sent, rtt }
        });
        for i in (0..32).filter(|i| report.seen >> i & 1 != 0) {
            if let Some(outcome) = sequence.checked_sub(1 + i).and_then(|before| self.tracker.seen(before)) {
                self.controller.seen(outcome.place, outcome.bytes.into());
                self.outcomes.push(outcome);
            }
        }
        news
    }

    /// A frame of channels came: what the peer tells in it of frames that arrived, and messages.
    pub(crate) fn handle_data(
        &mut self,
        now: Time,
        header: &DataHeader,
        frame: &[u8],
        sync: &mut ClockSync,
        packet: impl Fn() -> Option<Duration>,
    ) -> Result<(), DropCause> {
        if let Some(sent) = sync.peer_time(now, header.sent_us) {
            self.came(now, sent);
        }
        let controller = &mut self.controller;
        if let Some(ack) = header.ack {
            let arrived = ack.held().map(|held| header.sent_us.wrapping_sub(held.into()));
            let arrived = arrived.and_then(|arrived_us| sync.peer_time(now, arrived_us));
            self.channels.acknowledged(now, ack, arrived, |sent, rtt| {
                if let Some(rtt) = rtt {
                    let there = way(arrived, sent.at);
                    let arrived = Arrived { place: sent.place, bytes: sent.bytes, sent: sent.at, rtt, there };
                    controller.acknowledged(now, &arrived, &packet);
                } else {
                    controller.seen(sent.place, sent.bytes);
                }
            });
            controller.loses(self.channels.loss());
        }
        let stamp = |sent_us, waited| sync.stamp_of_micros(now, sent_us, waited);
        self.channels.handle(now, header, header.pieces(frame), stamp)
    }

    /// Was a state sent so long ago, of which nothing was heard yet?
    pub(crate) fn is_overdue(&self, now: Time, patience: Duration) -> bool {
        self.tracker.is_overdue(now, patience)
    }

    /// What is overdue by so much is lost.
    pub(crate) fn give_up(&mut self, now: Time, patience: Duration) {
        self.outcomes.extend(std::iter::from_fn(|| self.tracker.give_up(now, patience)));
    }

    /// What became of states that were sent.
    pub(crate) fn outcomes(&mut self) -> std::vec::Drain<'_, Outcome> {
        self.outcomes.drain(..)
    }

    /// Is anything known of that?
    pub(crate) fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// States that will not go.
    pub(crate) fn dropped(&mut self) -> std::vec::Drain<'_, Dropped> {
        self.dropped.drain(..)
    }

    /// Are there any?
    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// The transport dropped a state that it had taken; the stream on which it was to go.
    pub(crate) fn dropped_by_transport(&mut self, sequence: u64) -> Option<u8> {
        self.tracker.dropped(sequence)
    }

    /// The transport dropped a frame of a channel that it had taken.
    pub(crate) fn data_dropped_by_transport(&mut self, now: Time, number: u64, cause: DropCause) {
        if let Some(dropped) = self.channels.dropped(now, number, cause) {
            self.controller.lost(dropped.place);
        }
    }

    /// Reports that named nothing that was sent.
    pub(crate) fn unmatched(&self) -> u64 {
        self.tracker.unmatched()
    }

    /// When a state may go.
    pub(crate) fn poll_states(&self, blocked: bool) -> Option<Deadline> {
        self.outbox.poll_timeout().filter(|_| !self.is_held(blocked)).map(|turn| {
            let opens = self.controller.poll_timeout();
            opens.filter(|opens| opens.at > turn.at).unwrap_or(turn)
        })
    }

    /// When channels have something to do.
    pub(crate) fn poll_channels(&self, timeout: Duration) -> Option<Deadline> {
        let for_more = || {
            let opens = self.controller.opens_for_more(self.channels.untold())?;
            Some(opens.max(self.next_capped).max(self.next_carried))
        };
        self.channels.poll_timeout(timeout, self.controller.poll_timeout(), for_more)
    }

    /// When either has.
    pub(crate) fn poll_timeout(&self, timeout: Duration, blocked: bool) -> Option<Deadline> {
        earliest(self.poll_states(blocked), self.poll_channels(timeout))
    }
}

/// How long something took to the peer, ns, by two clocks that nobody set.
fn way(arrived: Option<PeerTime>, sent: Time) -> Option<i64> {
    arrived.map(|arrived| arrived.0.wrapping_sub(sent.as_nanos()) as i64)
}
