//! How many bytes may be under way: a law is told what was sent and what arrived, and says what may go.

mod flight;
mod gcc;
mod scream;
#[cfg(test)]
mod tests;

use taut_core::{Deadline, Duration, Time};

pub(crate) use flight::Claim;
use flight::Flight;
use gcc::Gcc;
use scream::Scream;

/// By which law an end judges how much its path carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Congestion {
    /// No window until a queue is found to be the session's own; then as much as leaves none.
    #[default]
    OwnQueue,
    /// SCReAM v2 (draft-johansson-ccwg-rfc8298bis-screamv2). Without marks of ECN, which no transport tells of.
    Scream {
        /// Its queue's longest delay, 1ms to 1s; the draft's own is 60 ms.
        target: Duration,
    },
    /// Google Congestion Control (draft-ietf-rmcat-gcc-02), made for video.
    Gcc,
}

/// Bytes of frames that can wait of which is not known whether they arrived, and when the peer tells it of one that did: after so long, or after
/// so many bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Untold {
    pub(crate) bytes: u64,
    pub(crate) told_after: Duration,
    pub(crate) told_bytes: u64,
}

/// A frame that arrived, by its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// All bytes sent with it, and its own.
    pub(crate) place: u64,
    pub(crate) bytes: u64,
    pub(crate) sent: Time,
    /// From its sending to its acknowledgement, less what that waited.
    pub(crate) rtt: Duration,
    /// How long it took to the peer, ns, give or take the same for all, for it is the difference of two clocks that nobody set.
    pub(crate) there: Option<i64>,
}

/// A law. What cannot wait, states and feedback, it admits apart from what can.
#[derive(Debug)]
pub(crate) struct Controller {
    law: Law,
    /// All bytes sent.
    sent: u64,
    /// Those of them that went [before](Self::restart): the law knows nothing of them.
    before: u64,
}

#[derive(Debug)]
enum Law {
    OwnQueue(Box<Flight>),
    Scream(Box<Scream>),
    Gcc(Box<Gcc>),
}

macro_rules! law {
    (ref $self:ident, $law:ident => $call:expr) => {
        match &$self.law {
            Law::OwnQueue($law) => $call,
            Law::Scream($law) => $call,
            Law::Gcc($law) => $call,
        }
    };
    ($self:ident, $law:ident => $call:expr) => {
        match &mut $self.law {
            Law::OwnQueue($law) => $call,
            Law::Scream($law) => $call,
            Law::Gcc($law) => $call,
        }
    };
}

impl Controller {
    /// Of this law; one that is not `enabled` holds no state back. Where the transport repeats what is lost, silence may be that, unless it
    /// tells by itself what was [delivered](Self::delivered).
    pub(crate) fn new(law: Congestion, enabled: bool, repeats: bool) -> Self {
        let law = match law {
            Congestion::Scream { target } if enabled => Law::Scream(Box::new(Scream::new(target))),
            Congestion::Gcc if enabled => Law::Gcc(Box::new(Gcc::new())),
            _ => Law::OwnQueue(Box::new(Flight::new(enabled, repeats))),
        };
        Self { law, sent: 0, before: 0 }
    }

    /// There is another peer, over another path, and for it one that is new: what is told from now on of frames that went before says nothing of that path.
    pub(crate) fn restart(&mut self, new: Self) {
        (self.law, self.before) = (new.law, self.sent);
    }

    /// A frame of so many bytes goes, which could wait or not. Gives its place: all bytes sent with it.
    pub(crate) fn sent(&mut self, now: Time, bytes: u64, can_wait: bool) -> u64 {
        self.sent = self.before + law!(self, law => law.sent(now, bytes, can_wait));
        self.sent
    }

    /// A frame's place as the law counts; `None`: it went before.
    fn own(&self, place: u64) -> Option<u64> {
        place.checked_sub(self.before).filter(|place| *place > 0)
    }

    /// A state was made, whatever becomes of it: so much of the path is theirs.
    pub(crate) fn made(&mut self, now: Time, bytes: u64) {
        law!(self, law => law.made(now, bytes));
    }

    /// The transport did not take a frame that was to go.
    pub(crate) fn refused(&mut self, bytes: u64) {
        if let Law::OwnQueue(law) = &mut self.law {
            law.refused(bytes);
        }
    }

    /// What the [transport](taut_core::Transport::delivered) says that arrived, where it repeats what is lost.
    pub(crate) fn delivered(&mut self, now: Time, delivered: Option<u64>) {
        if let Law::OwnQueue(law) = &mut self.law {
            law.delivered(now, delivered);
        }
    }

    /// Do samples wait in the transport, for a rate of its own, or did they when it had last sent what it could?
    #[inline]
    pub(crate) fn transport_holds(&mut self, holds: bool) {
        if let Law::OwnQueue(law) = &mut self.law {
            law.transport_holds(holds);
        }
    }

    /// May another state go?
    #[inline]
    pub(crate) fn admits(&mut self, now: Time) -> bool {
        law!(self, law => law.admits(now))
    }

    /// Does the default law hold states back by a window? The others always have one.
    pub(crate) fn has_window(&self) -> bool {
        matches!(&self.law, Law::OwnQueue(law) if law.has_window())
    }

    /// May a frame go that can wait, while so many bytes of those are under way?
    pub(crate) fn admits_more(&mut self, now: Time, untold: Untold) -> bool {
        match &mut self.law {
            Law::OwnQueue(law) => law.admits_more(now, untold),
            Law::Scream(law) => law.admits_more(now),
            Law::Gcc(law) => law.admits_more(now),
        }
    }

    /// Nothing waits that can.
    pub(crate) fn ran_dry(&mut self, now: Time) {
        if let Law::OwnQueue(law) = &mut self.law {
            law.ran_dry(now);
        }
    }

    /// When the next state may go.
    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        law!(ref self, law => law.poll_timeout())
    }

    /// When a frame that can wait may go; `None`: an acknowledgement has to come first.
    pub(crate) fn opens_for_more(&self, untold: Untold) -> Option<Time> {
        match &self.law {
            Law::OwnQueue(law) => law.opens_for_more(untold),
            Law::Scream(law) => law.opens_for_more(),
            Law::Gcc(law) => law.opens_for_more(),
        }
    }

    /// Bytes per second that are left for what can wait; `None`: as many as come, as far as is known.
    pub(crate) fn rate_left(&self) -> Option<f64> {
        law!(ref self, law => law.rate_left())
    }

    /// The same where that is certain: what cannot arrive in time at it need not begin.
    pub(crate) fn rate_found(&self, now: Time) -> Option<f64> {
        match &self.law {
            Law::OwnQueue(law) => law.rate_found(now),
            Law::Scream(law) => law.rate_left(),
            Law::Gcc(law) => law.rate_left(),
        }
    }

    /// Something of the peer's came that took so long over the reverse path, ns, give or take the same for all.
    #[inline]
    pub(crate) fn reverse_delay(&mut self, now: Time, delay: i64) {
        if let Law::OwnQueue(law) = &mut self.law {
            law.reverse_delay(now, delay);
        }
    }

    /// A frame arrived. `packet` tells what one of the transport's took lately, if it knows.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        frame: &Arrived,
        packet: impl FnOnce() -> Option<Duration>,
    ) {
        let Some(place) = self.own(frame.place) else { return };
        let frame = &Arrived { place, ..*frame };
        match &mut self.law {
            Law::OwnQueue(law) => law.acknowledged(now, frame, packet),
            Law::Scream(law) => law.acknowledged(now, frame),
            Law::Gcc(law) => law.acknowledged(now, frame),
        }
    }

    /// A frame arrived, and nobody knows when.
    pub(crate) fn seen(&mut self, place: u64, bytes: u64) {
        if let Some(place) = self.own(place) {
            law!(self, law => law.seen(place, bytes));
        }
    }

    /// Of the frames of channels this share is lost, 0 to 1.
    pub(crate) fn loses(&mut self, share: f64) {
        if let Law::OwnQueue(law) = &mut self.law {
            law.loses(share);
        }
    }

    /// A path is no more, and what goes takes another one. The other laws forget by themselves.
    pub(crate) fn lost_path(&mut self, now: Time) {
        if let Law::OwnQueue(law) = &mut self.law {
            law.lost_path(now);
        }
    }

    /// A frame that can wait is lost, and nobody will hear of it.
    pub(crate) fn lost(&mut self, place: u64) {
        if let Some(place) = self.own(place) {
            law!(self, law => law.lost(place));
        }
    }
}
