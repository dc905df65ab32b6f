//! What arrives.

use taut_core::{ClockEstimate, DropCause, Duration, Event, Exchange, PathId, PeerTime, StreamId, Time};
use taut_wire::mtip::{Echo, Verdict};

use super::Clocks;
use super::codec::{Acknowledged, Age, Answer, Arrived, Incoming, Outgoing, Times};
use super::path::{Path, PathState};
use super::{LINK_INTERVAL, MAX_PATHS, Mtip, State};
use crate::window::Window;

/// By so much age and deadline are rounded on the wire, in the sender's disfavour.
const ROUNDED: Duration = Duration::from_micros(2);

/// Which messages arrived, in all and on each path.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    seen: Window,
    /// The greatest number that arrived, whatever its verdict: short numbers are of those around it.
    newest: u64,
    on_path: Vec<OnPath>,
}

/// What arrived over one path.
#[derive(Debug)]
struct OnPath {
    id: PathId,
    arrived: Window,
    /// By how much the newest two numbers were above those before them: by two each where messages alternate between two paths.
    steps: [u64; 2],
}

impl OnPath {
    fn new(id: PathId) -> Self {
        Self { id, arrived: Window::new(), steps: [1, 1] }
    }

    /// A message arrived. Is it the next that this path was to bring, as far as is known? A step no longer than both before it leaves out
    /// what other paths are given, and one that is longer may be a loss.
    fn record(&mut self, number: u64) -> bool {
        let Some(step) = (number + 1).checked_sub(self.arrived.next()).filter(|step| *step > 0) else {
            if self.arrived.is_new(number) {
                self.arrived.record(number);
            }
            return false;
        };
        let follows = self.steps.iter().all(|earlier| step <= *earlier);
        self.steps = [self.steps[1], step];
        self.arrived.record(number);
        follows
    }
}

impl Receiver {
    /// Of the 64 messages before `number`, those that arrived over this path.
    pub(super) fn before(&mut self, id: PathId, number: u64) -> u64 {
        self.on_path(id).arrived.before(number)
    }

    fn on_path(&mut self, id: PathId) -> &mut OnPath {
        let at = match self.on_path.iter().position(|path| path.id == id) {
            Some(at) => at,
            None => {
                if self.on_path.len() == MAX_PATHS {
                    self.on_path.remove(0);
                }
                self.on_path.push(OnPath::new(id));
                self.on_path.len() - 1
            }
        };
        &mut self.on_path[at]
    }
}

impl Mtip {
    /// `clock_ns`: the peer's as it sent the packet.
    pub(super) fn receive(
        &mut self,
        now: Time,
        id: PathId,
        clock_ns: u64,
        packet: Incoming<'_>,
    ) -> Result<(), DropCause> {
        let echo = Echo { clock_ns, hold_ns: 0 };
        match packet {
            Incoming::Link { conversation } => return self.receive_link(now, id, conversation, echo),
            Incoming::Fin { conversation } if conversation == self.codec.conversation => {
                self.place_of(id).ok_or(DropCause::Unauthenticated)?;
                self.answer_held(now, true);
                self.post(id, Outgoing::FinAck);
                if self.state == State::Open {
                    // Long enough for the answer to be sent, and for the FINs of other paths.
                    self.state = State::Closing(now + super::GOODBYE);
                }
                return Ok(());
            }
            Incoming::Fin { .. } => return Err(DropCause::Unauthenticated),
            _ => {}
        }
        let place = self.place_of(id).ok_or(DropCause::Unauthenticated)?;
        if !self.client && packet.is_third() {
            self.linked_if_new(now, place);
        }
        match packet {
            Incoming::LinkAck { conversation, times } => {
                if !self.client || conversation != self.codec.conversation {
                    return Err(DropCause::Unauthenticated);
                }
                self.linked(now, place);
                if self.codec.is_published() {
                    self.post(id, Outgoing::Ack(Answer::control(now, 0, echo)));
                }
                times.into_iter().for_each(|times| self.exchange(now, place, times, false));
            }
            _ if !self.paths[place].is_linked() => return Err(DropCause::Unauthenticated),
            Incoming::KeepAlive { low } => {
                self.post(id, Outgoing::Ack(Answer::control(now, low.into(), echo)));
            }
            Incoming::Ack(ack) => self.receive_ack(now, place, ack)?,
            Incoming::Data(copy) => self.receive_data(now, place, echo, copy)?,
            Incoming::FinAck if matches!(self.state, State::Closing(_)) => self.state = State::Closing(now),
            Incoming::FinAck | Incoming::Link { .. } | Incoming::Fin { .. } => {
                return Err(DropCause::Unauthenticated);
            }
        }
        self.heard = now;
        Ok(())
    }

    /// A client wants a path, or asks again because the answer was lost.
    fn receive_link(
        &mut self,
        now: Time,
        id: PathId,
        conversation: u64,
        echo: Echo,
    ) -> Result<(), DropCause> {
        let same = self.state == State::Linking || conversation == self.codec.conversation;
        if self.client || !same || matches!(self.state, State::Closing(_)) {
            return Err(DropCause::Unauthenticated);
        }
        let place = match self.place_of(id) {
            Some(place) => place,
            None => self.make_room(now, id).ok_or(DropCause::Unauthenticated)?,
        };
        if self.codec.is_published() && self.paths[place].is_linked() {
            // The client began anew, and so do its numbers: nothing else says so there.
            self.receiver = Receiver::default();
        }
        self.codec.conversation = conversation;
        self.heard = now;
        if self.codec.is_published() && !self.paths[place].is_linked() {
            self.paths[place].next_probe = now + LINK_INTERVAL;
        } else {
            self.linked(now, place);
        }
        self.post(id, Outgoing::LinkAck(echo));
        Ok(())
    }

    /// A place for a new path, if need be that of one that was never proven, or else of one which is down.
    fn make_room(&mut self, now: Time, id: PathId) -> Option<usize> {
        if self.paths.len() == MAX_PATHS {
            let first = |state| self.paths.iter().position(|path: &Path| path.state == state);
            let free = first(PathState::Linking).or_else(|| first(PathState::Down))?;
            self.forget_path(now, free);
        }
        self.paths.push(Path::new(now, id));
        Some(self.paths.len() - 1)
    }

    /// In the published protocol the end that is linked begins to use a path on the third message: the answer to its LINKACK, or what can
    /// only come after that.
    fn linked_if_new(&mut self, now: Time, place: usize) {
        if self.codec.is_published() && !self.paths[place].is_linked() {
            self.linked(now, place);
        }
    }

    fn linked(&mut self, now: Time, place: usize) {
        let path = &mut self.paths[place];
        if !path.is_linked() {
            path.state = PathState::Up;
            // The first probe measures.
            path.next_probe = now;
            self.events.push_back(Event::PathUp(path.id));
        } else if path.state == PathState::Down {
            // Perhaps it is back: a probe tells.
            path.next_probe = now;
        }
        if self.state == State::Linking {
            (self.state, self.heard) = (State::Open, now);
            self.events.push_back(Event::Connected);
        }
    }

    fn receive_data(
        &mut self,
        now: Time,
        place: usize,
        echo: Echo,
        copy: Arrived<'_>,
    ) -> Result<(), DropCause> {
        let Arrived { low, stream, everywhere, hold, age, deadline, payload } = copy;
        if payload.len() as u64 > self.config.max_message.get() {
            return Err(DropCause::Malformed);
        }
        // Where numbers are short the peer may have sent many before this end was there.
        let first = self.codec.is_published().then_some(low.into());
        let number = self.codec.expand(self.receiver.newest, low).or(first).ok_or(DropCause::Replayed)?;
        self.receiver.newest = self.receiver.newest.max(number);
        let deadline = if self.codec.is_published() { Some(self.config.deadline) } else { deadline };
        let (age, one_way) = match age {
            Age::Known(age) => (age, age),
            Age::When(age, clock) => {
                let way = self.way(now, clock);
                (age + way, way)
            }
        };
        let is_late = deadline.is_some_and(|deadline| age > deadline);
        let verdict = if is_late && self.codec.is_published() {
            // The published receiver asks for the age first.
            Verdict::Late
        } else if !self.receiver.seen.is_new(number) {
            Verdict::Duplicate
        } else if is_late {
            Verdict::Late
        } else {
            self.receiver.seen.record(number);
            Verdict::OnTime
        };
        let id = self.paths[place].id;
        let on_path = self.receiver.on_path(id);
        let is_repeated = !on_path.arrived.is_new(number);
        let follows = on_path.record(number);
        let before = on_path.arrived.before(number);
        if is_repeated {
            // Each of two copies on one path has an answer of its own, which names when it left: to one for both the sender would count the
            // other as lost.
            self.answer_held_on(now, place, true);
        }
        let ack = Answer { verdict, number, elsewhere: false, before, echo, arrived: now, one_way };
        // What tells the sender of a loss or of another order is answered at once (RFC 9000 section 13.2.1), and so is everything once
        // nothing will wake this end to answer it later.
        let may_wait = verdict == Verdict::OnTime && follows && !everywhere && self.state == State::Open;
        self.answer(now, place, ack, hold.duration(), !may_wait);
        if everywhere {
            let others = self.paths.iter().filter(|path| path.id != id);
            let others = others.filter(|path| matches!(path.state, PathState::Up | PathState::Suspect));
            let others: Vec<PathId> = others.map(|path| path.id).collect();
            let ack = Answer { elsewhere: true, ..ack };
            others.into_iter().for_each(|other| self.post(other, Outgoing::Ack(ack)));
        }
        match verdict {
            Verdict::OnTime => {
                self.stats.received += 1;
                let (data, stream) = (payload.to_vec(), StreamId(stream));
                self.events.push_back(Event::Received { data, path: id, stream });
            }
            Verdict::Duplicate => {
                self.stats.duplicates += 1;
                self.events.push_back(Event::Refused(DropCause::Duplicate));
            }
            _ => {
                self.stats.late += 1;
                self.events.push_back(Event::Refused(DropCause::TooLate));
            }
        }
        Ok(())
    }

    /// How long a packet took that left when the peer's clock read `clock`: of all that is possible, what lateness is to be
    /// judged by.
    fn way(&self, now: Time, clock: u64) -> Duration {
        let left = |peer: ClockEstimate| peer.to_local(PeerTime(clock));
        match (self.config.clocks, self.clock.estimate(now)) {
            (Clocks::Synchronised, _) => now.saturating_since(Time::from_nanos(clock)),
            (Clocks::Estimated, Some(peer)) => now.saturating_since(left(peer) + peer.uncertainty + ROUNDED),
            (Clocks::Strict, Some(peer)) => (now + peer.uncertainty).saturating_since(left(peer)),
            // Nothing can be said of the way.
            (Clocks::Estimated, None) => Duration::ZERO,
            (Clocks::Strict, None) => Duration::MAX,
        }
    }

    fn receive_ack(&mut self, now: Time, place: usize, ack: Acknowledged) -> Result<(), DropCause> {
        let probe = ack.verdict == Verdict::Control;
        let near = if probe { self.paths[place].probes } else { self.next_number };
        let number = self.codec.expand(near, ack.low).ok_or(DropCause::Unauthenticated)?;
        let took = |path: &Path| path.waits_for(number, ack.times);
        let place = match ack.elsewhere {
            true => (0..self.paths.len()).find(|other| *other != place && took(&self.paths[*other])),
            false => Some(place),
        };
        // Otherwise it was answered on its own path already, or is forgotten.
        let Some(place) = place else {
            return if number >= near { Err(DropCause::Unauthenticated) } else { Ok(()) };
        };
        let path = &mut self.paths[place];
        let sent = path.answered(now, probe, number, ack.times);
        if sent.is_none() && number >= near + u64::from(probe) {
            // Nobody can have received it.
            return Err(DropCause::Unauthenticated);
        }
        for number in path.unanswered(number, ack.before) {
            if self.paths[place].has(number, sent) {
                self.settle(number);
            }
        }
        let lost = match sent {
            Some(sent) if !probe && !self.codec.is_published() => {
                self.paths[place].missing(number, sent, ack.before)
            }
            _ => Vec::new(),
        };
        lost.into_iter().for_each(|number| self.send_again(now, number));
        let path = &mut self.paths[place];
        if !probe {
            match ack.verdict {
                Verdict::Duplicate => path.stats.duplicates += 1,
                Verdict::Late => path.stats.late += 1,
                _ => {}
            }
            self.chooser.heard(number, ack.verdict == Verdict::OnTime, ack.verdict == Verdict::Duplicate);
            self.settle(number);
        }
        if let Some(one_way) = ack.one_way.filter(|_| !probe && sent.is_some()) {
            let path = &mut self.paths[place];
            path.one_way.record(one_way);
            path.published.took(one_way);
        }
        if sent.is_some() {
            self.heard_again(now);
        }
        if let (Some(_), Some(times)) = (sent, ack.times) {
            self.exchange(now, place, times, ack.elsewhere);
        }
        self.judge(now);
        Ok(())
    }

    /// Four timestamps: the peer's clock, unless there and back were two paths, and how long the way there took.
    fn exchange(&mut self, now: Time, place: usize, times: Times, elsewhere: bool) {
        let (asked, arrived) = (Time::from_nanos(times.asked), PeerTime(times.arrived));
        let answered = PeerTime(times.answered);
        if !elsewhere && self.clock.record(asked, arrived, answered, now) == Exchange::Impossible {
            return;
        }
        let Some(peer) = self.clock.estimate(now) else { return };
        let arrived = match self.config.clocks {
            Clocks::Synchronised => Time::from_nanos(times.arrived),
            Clocks::Estimated | Clocks::Strict => peer.to_local(arrived),
        };
        // However the clocks are estimated, a way takes some time, and less than the round trip.
        let round = now.saturating_since(asked);
        let there = arrived.saturating_since(asked).min(round);
        self.paths[place].one_way.record(there);
    }
}
