//! How the robot is as far as an operator can tell: what it said last, and how long ago.

use taut_core::{Duration, Time};
use taut_session::RobotState;

taut_core::named! {
    /// How the robot is, as far as its operator can tell at this moment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Standing {
        /// There is no session (any more), or not yet.
        #[default]
        NoLink = "NO LINK",
        /// For longer than the robot's watchdog and a round trip it has said nothing. If it hears as little, it has stopped.
        NoAnswer = "NO ANSWER",
        /// It answers, and is not ready.
        Disabled = "DISABLED",
        /// It answers, and stands until it is resumed.
        Paused = "PAUSED",
        /// It answers, and moves as it is told.
        Moving = "MOVING",
        /// It answers, and stands after an emergency stop.
        Stopped = "STOPPED",
    }
}

/// How a robot is that answers, and says that it is in this state.
impl From<RobotState> for Standing {
    fn from(state: RobotState) -> Self {
        match state {
            RobotState::Disabled => Self::Disabled,
            RobotState::Paused => Self::Paused,
            RobotState::Enabled => Self::Moving,
            RobotState::Fault => Self::Stopped,
        }
    }
}

/// The watchdog of a robot that does not say how long it is.
const WATCHDOG: Duration = Duration::from_millis(100);

/// A host that was too late to read what came has read it after so long.
const GRACE: Duration = Duration::from_millis(10);

/// Watches how long the robot has said nothing.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// The robot's watchdog, while there is a session.
    watchdog: Option<Duration>,
    /// When it was first seen that it is overdue: since then what has come meanwhile, while this host was late, is read.
    noticed: Option<Time>,
    /// When it was heard last, once it was told that nothing has come since.
    told: Option<Time>,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing has come for so long.
    Silent(Duration),
    /// Something has come, after so long.
    Answered(Duration),
}

impl Silence {
    /// There is a session with a robot of this watchdog; zero: it does not say.
    pub(super) fn connected(&mut self, watchdog: Duration) {
        self.watchdog = Some(if watchdog.is_zero() { WATCHDOG } else { watchdog });
    }

    /// There is none any more.
    pub(super) fn closed(&mut self) {
        *self = Self::default();
    }

    /// From when on a robot that was heard last at `heard` counts as silent: a round trip later than it would stop itself.
    fn limit(&self, heard: Option<Time>, rtt: Option<Duration>) -> Option<Time> {
        Some(heard? + self.watchdog? + rtt.unwrap_or(Duration::ZERO))
    }

    pub(super) fn poll(&mut self, now: Time, heard: Option<Time>, rtt: Option<Duration>) -> Option<Change> {
        let (limit, heard) = (self.limit(heard, rtt)?, heard?);
        match self.told {
            Some(told) if heard > told => {
                (self.told, self.noticed) = (None, None);
                Some(Change::Answered(heard - told))
            }
            None if now >= limit && now >= *self.noticed.get_or_insert(now) + GRACE => {
                self.told = Some(heard);
                Some(Change::Silent(now - heard))
            }
            None if now < limit => {
                self.noticed = None;
                None
            }
            _ => None,
        }
    }

    /// When to ask next.
    pub(super) fn due(&self, heard: Option<Time>, rtt: Option<Duration>) -> Option<Time> {
        let limit = self.limit(heard, rtt).filter(|_| self.told.is_none())?;
        Some(self.noticed.map_or(limit, |noticed| limit.max(noticed + GRACE)))
    }

    /// How a robot is that said last that it is in `state`.
    pub(super) fn standing(&self, heard: Option<Time>, state: RobotState) -> Standing {
        match (self.watchdog.and(heard), state) {
            (None, _) => Standing::NoLink,
            (Some(heard), _) if self.told == Some(heard) => Standing::NoAnswer,
            (Some(_), state) => state.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_robot_counts_as_silent_after_its_watchdog_and_a_round_trip_until_it_is_heard_again() {
        let (mut silence, rtt) = (Silence::default(), Some(Duration::from_millis(20)));
        let standing = |silence: &Silence, heard| silence.standing(Some(ms(heard)), RobotState::Enabled);
        assert_eq!(standing(&silence, 1), Standing::NoLink);
        silence.connected(Duration::from_millis(150));
        let heard = Some(ms(1_000));
        assert_eq!(silence.due(heard, rtt), Some(ms(1_170)));
        assert_eq!(silence.poll(ms(1_169), heard, rtt), None);
        assert_eq!(silence.poll(ms(1_170), heard, rtt), None);
        assert_eq!(silence.due(heard, rtt), Some(ms(1_180)));
        assert_eq!(standing(&silence, 1_000), Standing::Moving);
        let told = silence.poll(ms(1_180), heard, rtt);
        assert_eq!(told, Some(Change::Silent(Duration::from_millis(180))));
        assert_eq!(standing(&silence, 1_000), Standing::NoAnswer);
        // It is told once, and nothing wakes up for it any more.
        assert_eq!((silence.poll(ms(1_500), heard, rtt), silence.due(heard, rtt)), (None, None));
        let told = silence.poll(ms(1_600), Some(ms(1_600)), rtt);
        assert_eq!(told, Some(Change::Answered(Duration::from_millis(600))));
        assert_eq!(standing(&silence, 1_600), Standing::Moving);
        silence.closed();
        assert_eq!(standing(&silence, 1_600), Standing::NoLink);
        assert_eq!(silence.due(Some(ms(1_600)), rtt), None);
    }

    #[test]
    fn a_host_that_was_late_itself_does_not_blame_the_robot() {
        let mut silence = Silence::default();
        silence.connected(Duration::from_millis(100));
        // It comes back after 300 ms, looks at the time first, and then reads what has come.
        assert_eq!(silence.poll(ms(300), Some(ms(0)), None), None);
        assert_eq!(silence.poll(ms(301), Some(ms(301)), None), None);
        assert_eq!(silence.standing(Some(ms(301)), RobotState::Enabled), Standing::Moving);
        // The next silence has its grace as well.
        assert_eq!(silence.poll(ms(402), Some(ms(301)), None), None);
        assert_eq!(silence.due(Some(ms(301)), None), Some(ms(412)));
    }

    #[test]
    fn a_robot_that_does_not_say_its_watchdog_is_given_100_ms() {
        let mut silence = Silence::default();
        silence.connected(Duration::ZERO);
        assert_eq!(silence.due(Some(ms(50)), None), Some(ms(150)));
    }
}
