//! How a connection ends (RFC 4340 section 8.3).

use taut_core::{DropCause, Duration, Event, Time};
use taut_wire::dccp::ResetCode;

use super::{Acks, Dccp, Features, Reply, Sequence, State, Timers};
use crate::dccp::sent::SentLog;
use taut_wire::dccp::Seq;

/// The first time between two attempts to say goodbye, when the round trip is not known.
const FIRST_GOODBYE: Duration = Duration::from_millis(400);

impl Dccp {
    /// The application wants the end.
    pub(super) fn begin_close(&mut self, now: Time) {
        match self.state {
            State::Listen | State::Request => self.tear_down(now, State::Closed),
            State::Respond => self.reset(now, ResetCode::Aborted, 0),
            State::PartOpen | State::Open => {
                let asks = self.server && !self.config.server_keeps_time_wait;
                self.say_goodbye(now, if asks { State::CloseReq } else { State::Closing });
            }
            State::CloseReq | State::Closing | State::TimeWait | State::Closed => {}
        }
    }

    /// Close or CloseReq, until it is answered.
    pub(super) fn say_goodbye(&mut self, now: Time, state: State) {
        self.abandon_waiting();
        self.state = state;
        let interval = self.rtt().map_or(FIRST_GOODBYE, |rtt| (rtt * 2).max(Duration::from_millis(10)));
        self.timers.retry = Some((now, interval));
        self.timers.give_up.get_or_insert(now + self.config.connect_timeout);
    }

    /// Ends the connection from here, with a reason.
    pub(super) fn reset(&mut self, now: Time, code: ResetCode, data: u8) {
        self.replies.clear();
        self.tear_down(now, State::Closed);
        self.owe(Reply::Reset(code, data));
    }

    /// There will be no connection with this peer. Who did not complete the handshake has not ended it for others.
    pub(super) fn refuse_peer(&mut self, now: Time, code: ResetCode, data: u8) {
        if self.state != State::Respond {
            return self.reset(now, code, data);
        }
        let (seq, ack) = (self.seq.gss.next(), self.seq.gsr);
        let reset = Reply::Stray { code, data, seq, ack, port: self.remote_port, path: self.path };
        self.listen_again();
        self.owe(reset);
    }

    /// There is no connection any more.
    pub(super) fn tear_down(&mut self, now: Time, state: State) {
        self.abandon_waiting();
        self.state = state;
        let time_wait = (state == State::TimeWait).then(|| now + self.config.time_wait);
        self.timers = Timers { time_wait, last_sync: self.timers.last_sync, ..Timers::default() };
        self.events.push_back(Event::Closed);
    }

    pub(super) fn abandon_waiting(&mut self) {
        let tags: Vec<u64> = self.queue.drain().map(|message| message.tag).collect();
        tags.into_iter().for_each(|tag| self.drop_message(tag, DropCause::Abandoned));
    }

    /// Nobody answered for as long as was agreed.
    pub(super) fn give_up(&mut self, now: Time) {
        match self.state {
            // The client that asked never came back: wait for another one.
            State::Respond => self.listen_again(),
            State::Request => self.tear_down(now, State::Closed),
            _ => self.reset(now, ResetCode::Aborted, 0),
        }
    }

    /// Forgets a client whose handshake did not complete, or that is gone.
    pub(super) fn listen_again(&mut self) {
        let iss = Seq::new(self.rng.next_u64());
        self.state = State::Listen;
        self.seq = Sequence::new(iss);
        self.sent = SentLog::new(iss);
        self.features = Features::new(&self.config, self.server);
        self.received = None;
        (self.sender, self.receiver) = (None, None);
        (self.acks, self.ndp) = (Acks::default(), 0);
        self.timers = Timers { last_sync: self.timers.last_sync, ..Timers::default() };
        self.replies.clear();
        self.express_wishes();
    }
}
