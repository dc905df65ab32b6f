//! Connecting, losing the link, connecting again: which transport is tried for how long, and when it is given up.

use taut_core::{Deadline, Duration, Time};

use crate::Trouble;

/// How long an operator tries to connect, or to come back.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Between the end of a transport and the next one.
const AGAIN: Duration = Duration::from_millis(200);
/// Two refusals that are further apart are not one that goes on. A session tells of one a second at most, of the next when that came a little early a second later, and one may be lost.
const APART: Duration = taut_session::INCOMPATIBLE_INTERVAL.saturating_mul(3);
/// For so long a robot may take somebody for its operator that has vanished.
const BUSY: Duration = Duration::from_millis(2_500);

/// Whether there is a session, and what is done about it.
#[derive(Debug)]
pub(super) struct Connecting {
    link: Link,
    was_connected: bool,
    /// What answered is such that no session with it can be, and the robot itself has said nothing since.
    refused: Option<Refusal>,
    /// The robot ended the last session, and it was not left for another transport.
    robot_left: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    why: Trouble,
    first: Time,
    last: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    /// There is none since then, and a transport tries.
    Trying {
        since: Time,
        closed: bool,
    },
    /// The last transport has ended; the next one is asked for at `until`.
    Resting {
        since: Time,
        until: Time,
    },
    /// It was asked for.
    Asked {
        since: Time,
    },
    /// Given up, or closed from here.
    Over,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new transport is needed.
    Reconnect,
    /// There is no session, and none is to be had.
    GiveUp { was_connected: bool },
}

impl Connecting {
    /// The first transport tries from `now` on.
    pub(super) fn new(now: Time) -> Self {
        Self {
            link: Link::Trying { since: now, closed: false },
            was_connected: false,
            refused: None,
            robot_left: false,
        }
    }

    /// There is a session.
    pub(super) fn connected(&mut self) {
        if self.link != Link::Over {
            (self.link, self.was_connected) = (Link::Up, true);
            self.robot_left = false;
        }
    }

    /// The robot said goodbye.
    pub(super) fn robot_left(&mut self) {
        self.robot_left = true;
    }

    /// The transport has ended.
    pub(super) fn closed(&mut self, now: Time) {
        self.link = match self.link {
            Link::Up => {
                self.refused = None;
                Link::Trying { since: now, closed: true }
            }
            Link::Trying { since, .. } => Link::Trying { since, closed: true },
            other => other,
        };
    }

    /// The transport was left for another one: whatever became of it, there is as much patience again.
    pub(super) fn left(&mut self, now: Time) {
        if self.link != Link::Over {
            self.refused = None;
            self.robot_left = false;
            self.link = Link::Resting { since: now, until: now + AGAIN };
        }
    }

    /// What answers is such that there will be no session, whatever is tried. Is that news? Where there is one, it may be somebody else who says so: it is final when that goes
    /// on for as long as anything is tried, without a gap, and the robot itself is not heard.
    pub(super) fn refused(&mut self, now: Time, why: Trouble) -> bool {
        let gap = |refusal: &mut Refusal| now.saturating_since(refusal.last) > APART;
        // Where there is no session, one word is enough.
        if self.link == Link::Up {
            self.refused.take_if(gap);
        }
        let is_news = self.refused.is_none();
        self.refused.get_or_insert(Refusal { why, first: now, last: now }).last = now;
        is_news
    }

    /// Did the robot answer so?
    pub(super) const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Why there is no session: what the robot said, or else this.
    pub(super) fn why(&self, trouble: Trouble) -> Trouble {
        match (&self.refused, trouble) {
            (Some(refusal), _) => refusal.why.clone(),
            (None, Trouble::NoAnswer | Trouble::Unreachable) if self.robot_left => {
                Trouble::Ended("the robot ended the session".to_owned())
            }
            (None, trouble) => trouble,
        }
    }

    /// A new transport tries.
    pub(super) fn reconnected(&mut self) {
        if let Link::Asked { since } | Link::Resting { since, .. } = self.link {
            self.link = Link::Trying { since, closed: false };
        }
    }

    /// Nothing more is done about it.
    pub(super) fn end(&mut self) {
        self.link = Link::Over;
    }

    /// What is to be done by `now`, with such a trouble, about a robot that was `heard` last then.
    pub(super) fn poll(
        &mut self,
        now: Time,
        heard: Option<Time>,
        trouble: impl FnOnce() -> Trouble,
    ) -> Option<Step> {
        self.refused.take_if(|refusal| heard.is_some_and(|heard| heard > refusal.first));
        let (since, gives_up) = match self.link {
            Link::Over => return None,
            Link::Up => {
                let Refusal { first, last, .. } = self.refused.as_ref()?;
                if *last < *first + PATIENCE {
                    return None;
                }
                (now, true)
            }
            Link::Trying { since, closed } => {
                let gives_up = self.refused.is_some() && !self.was_connected
                    || is_final(&trouble(), self.was_connected, now.saturating_since(since), closed);
                if closed {
                    self.link = Link::Resting { since, until: (now + AGAIN).min(since + PATIENCE) };
                }
                (since, gives_up)
            }
            Link::Resting { since, .. } | Link::Asked { since } => (since, false),
        };
        if gives_up || now >= since + PATIENCE {
            self.link = Link::Over;
            return Some(Step::GiveUp { was_connected: self.was_connected });
        }
        match self.link {
            Link::Resting { until, .. } if now >= until => {
                self.link = Link::Asked { since };
                Some(Step::Reconnect)
            }
            _ => None,
        }
    }

    /// When there is something to do, as of `now` at the latest.
    pub(super) fn poll_timeout(&self, now: Time) -> Option<Deadline> {
        match self.link {
            Link::Up | Link::Over => None,
            Link::Trying { since, .. } if now < since + BUSY => Some(Deadline::new(since + BUSY, "busy")),
            Link::Resting { until, .. } => Some(Deadline::new(until, "reconnect")),
            Link::Trying { since, .. } | Link::Asked { since } => {
                Some(Deadline::new(since + PATIENCE, "patience"))
            }
        }
    }
}

/// Will it not help to try again?
fn is_final(trouble: &Trouble, was_connected: bool, waited: Duration, closed: bool) -> bool {
    match trouble {
        Trouble::NoAnswer => false,
        Trouble::NotTrusted | Trouble::WrongPeer => closed,
        // A robot lets go of an operator that has vanished after a second or two.
        Trouble::Busy => waited >= if was_connected { PATIENCE } else { BUSY },
        // Strangers that crowd the robot may have been in the way.
        Trouble::SentAway => closed && !was_connected && waited >= BUSY,
        Trouble::Unreachable | Trouble::Ended(_) => closed && !was_connected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn poll(connecting: &mut Connecting, ms: u64, trouble: &Trouble) -> Option<Step> {
        connecting.poll(at(ms), None, || trouble.clone())
    }

    #[test]
    fn who_hears_nothing_gives_up_after_its_patience() {
        let mut connecting = Connecting::new(at(100));
        assert_eq!(poll(&mut connecting, 5_099, &Trouble::NoAnswer), None);
        let given_up = Some(Step::GiveUp { was_connected: false });
        assert_eq!(connecting.poll_timeout(at(5_099)).map(|due| due.at), Some(at(5_100)));
        assert_eq!(poll(&mut connecting, 5_100, &Trouble::NoAnswer), given_up);
        assert_eq!(
            (poll(&mut connecting, 6_000, &Trouble::NoAnswer), connecting.poll_timeout(at(6_000))),
            (None, None)
        );
    }

    #[test]
    fn a_lost_link_is_tried_again_and_again_until_the_patience_since_its_loss_is_over() {
        let (mut connecting, lost) = (Connecting::new(at(0)), Trouble::Ended("it ended".to_owned()));
        connecting.connected();
        let (mut tries, mut given_up) = (Vec::new(), None);
        connecting.closed(at(10_000));
        for ms in 10_000..20_000 {
            match poll(&mut connecting, ms, &lost) {
                Some(Step::Reconnect) => {
                    tries.push(ms);
                    connecting.reconnected();
                    // Each ends 800 ms later.
                    assert_eq!(poll(&mut connecting, ms, &lost), None);
                }
                Some(step) => given_up = Some((ms, step)),
                None => {}
            }
            if tries.last().is_some_and(|tried| tried + 800 == ms) {
                connecting.closed(at(ms));
            }
        }
        assert_eq!(tries, [10_200, 11_201, 12_202, 13_203, 14_204]);
        assert_eq!(given_up, Some((15_000, Step::GiveUp { was_connected: true })));
    }

    #[test]
    fn a_refusal_that_is_certain_is_final_and_a_busy_robot_is_given_time_to_forget() {
        let gives_up = |trouble: Trouble, was_connected: bool| {
            let mut connecting = Connecting::new(at(0));
            if was_connected {
                connecting.connected();
            }
            connecting.closed(at(0));
            (0..10_000).find(|ms| match poll(&mut connecting, *ms, &trouble) {
                Some(Step::GiveUp { .. }) => true,
                Some(Step::Reconnect) => {
                    connecting.reconnected();
                    connecting.closed(at(*ms));
                    false
                }
                None => false,
            })
        };
        assert_eq!(gives_up(Trouble::NotTrusted, false), Some(0));
        assert_eq!(gives_up(Trouble::WrongPeer, true), Some(0));
        assert_eq!(gives_up(Trouble::Unreachable, false), Some(0));
        assert!(gives_up(Trouble::Busy, false).is_some_and(|ms| (2_500..2_800).contains(&ms)));
        assert_eq!(gives_up(Trouble::Busy, true), Some(5_000));
        assert!(gives_up(Trouble::SentAway, false).is_some_and(|ms| (2_500..2_800).contains(&ms)));
        for lost in [Trouble::SentAway, Trouble::Unreachable, Trouble::NoAnswer] {
            assert_eq!(gives_up(lost, true), Some(5_000));
        }
    }

    #[test]
    fn a_robot_with_which_no_session_can_be_is_asked_no_more_but_what_a_stranger_says_ends_none() {
        let why = || Trouble::Ended("another version".to_owned());
        let mut connecting = Connecting::new(at(0));
        assert!(connecting.refused(at(0), why()));
        assert_eq!(
            poll(&mut connecting, 20, &Trouble::NoAnswer),
            Some(Step::GiveUp { was_connected: false })
        );
        assert_eq!(connecting.why(Trouble::NoAnswer), why());
        let mut connecting = Connecting::new(at(0));
        connecting.connected();
        connecting.refused(at(50), why());
        connecting.closed(at(100));
        assert_eq!(poll(&mut connecting, 100, &Trouble::Unreachable), None);
        assert_eq!(connecting.why(Trouble::Unreachable), Trouble::Unreachable);
    }

    #[test]
    fn a_session_ends_when_what_answers_cannot_have_one_for_as_long_as_anything_is_tried_and_the_robot_is_silent()
     {
        let why = || Trouble::Ended("another version".to_owned());
        // A stranger says so once a second; `heard`: the robot, every so often.
        let ends = |words: u64, heard: Option<u64>| {
            let mut connecting = Connecting::new(at(0));
            connecting.connected();
            (1..20_000).find(|ms| {
                if ms % 1_000 == 0 && ms / 1_000 <= words {
                    assert_eq!(
                        connecting.refused(at(*ms), why()),
                        *ms == 1_000 || heard.is_some(),
                        "told once"
                    );
                }
                let heard = heard.map(|every| at(ms / every * every));
                connecting.poll(at(*ms), heard, || Trouble::NoAnswer).is_some()
            })
        };
        assert_eq!(ends(100, None), Some(6_000));
        assert_eq!(
            ends(1, None),
            None,
            "one word of a stranger ends nothing, however long the robot is silent"
        );
        assert_eq!(ends(100, Some(900)), None, "the robot itself goes on");
    }

    #[test]
    fn why_nobody_answers_is_told_of_a_robot_that_left() {
        let mut connecting = Connecting::new(at(0));
        connecting.connected();
        connecting.robot_left();
        connecting.closed(at(10));
        assert!(
            matches!(connecting.why(Trouble::NoAnswer), Trouble::Ended(why) if why.contains("ended the session"))
        );
        assert_eq!(connecting.why(Trouble::Busy), Trouble::Busy);
        connecting.connected();
        assert_eq!(connecting.why(Trouble::NoAnswer), Trouble::NoAnswer);
    }

    #[test]
    fn words_that_are_far_apart_are_not_one_that_goes_on_and_each_is_told_once() {
        let why = || Trouble::Ended("another version".to_owned());
        let mut connecting = Connecting::new(at(0));
        connecting.connected();
        let hour = 3_600_000;
        for begins in [1_000, hour, 2 * hour] {
            assert!(connecting.refused(at(begins), why()));
            assert!(!connecting.refused(at(begins), why()), "two at once are told once");
            assert!(!connecting.refused(at(begins + 2_000), why()), "one between them was lost");
            assert_eq!(poll(&mut connecting, begins + 4_500, &Trouble::NoAnswer), None);
        }
        let last = 2 * hour + 2_000;
        assert!((1..=3).all(|more| !connecting.refused(at(last + more * 1_000), why())));
        assert!(poll(&mut connecting, last + 3_000, &Trouble::NoAnswer).is_some());
    }
}
