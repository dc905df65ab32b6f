//! What a robot and an operator leave behind for their next life, as text: a stop outlives the process that was told of it.

use taut_wire::session::StopCause;

use crate::safety::Latch;

/// A robot's record. Written while it lives whenever what is latched changes, and once more when it ends in order.
///
/// ```
/// use taut_session::{Latch, RobotLife, StopCause};
/// let life = RobotLife { ended: false, latch: None };
/// // It was killed: its next life begins with a latched stop.
/// let latch = RobotLife::next(Some(&life.to_string()));
/// assert_eq!(latch, Some(Latch { cause: StopCause::Restart, held_locally: false, held_remotely: true }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotLife {
    /// It ended in order, its device stopped.
    pub ended: bool,
    /// What was latched.
    pub latch: Option<Latch>,
}

const ROBOT: &str = "taut robot 1";
const OPERATOR: &str = "taut operator 1";

impl RobotLife {
    /// With what stop the next life begins, by the record of the last one; `None`: there is no record, for there was no life.
    /// Whatever is not certain to have ended in order begins with one.
    pub fn next(record: Option<&str>) -> Option<Latch> {
        let unclean = Some(Latch { cause: StopCause::Restart, held_locally: false, held_remotely: true });
        match Self::parse(record?) {
            Some(Self { ended: true, latch }) => latch,
            Some(Self { ended: false, latch }) => latch.or(unclean),
            None => unclean,
        }
    }

    fn parse(record: &str) -> Option<Self> {
        let mut lines = record.lines();
        if lines.next()? != ROBOT {
            return None;
        }
        let ended = match lines.next()? {
            "life running" => false,
            "life ended" => true,
            _ => return None,
        };
        let latch = match lines.next()?.strip_prefix("latch ")? {
            "none" => None,
            latch => {
                let mut words = latch.split(' ');
                let name = words.next()?;
                let (held_locally, held_remotely) = match (words.next(), words.next(), words.next()) {
                    (Some("here"), None, None) => (true, false),
                    (Some("there"), None, None) => (false, true),
                    (Some("here"), Some("there"), None) => (true, true),
                    _ => return None,
                };
                let cause = *StopCause::ALL.iter().find(|cause| cause.name() == name)?;
                Some(Latch { cause, held_locally, held_remotely })
            }
        };
        (lines.next()? == "end").then_some(Self { ended, latch })
    }
}

impl std::fmt::Display for RobotLife {
    /// Four lines; the last says that none is missing.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let life = if self.ended { "ended" } else { "running" };
        let name = self.latch.map_or("none", |latch| latch.cause.name());
        let here = if self.latch.is_some_and(|latch| latch.held_locally) { " here" } else { "" };
        let there = if self.latch.is_some_and(|latch| latch.held_remotely) { " there" } else { "" };
        write!(f, "{ROBOT}\nlife {life}\nlatch {name}{here}{there}\nend\n")
    }
}

/// An operator's record: was an emergency stop pressed that the robot has not acknowledged?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorLife {
    /// It was.
    pub unacknowledged: bool,
}

impl OperatorLife {
    /// Does the next life begin with an emergency stop, by the record of the last one? What cannot be read may be one.
    pub fn next(record: Option<&str>) -> bool {
        record.is_some_and(|record| record != Self { unacknowledged: false }.to_string())
    }
}

impl std::fmt::Display for OperatorLife {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stop = if self.unacknowledged { "unacknowledged" } else { "none" };
        write!(f, "{OPERATOR}\nstop {stop}\nend\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_reads_back() {
        for ended in [false, true] {
            for cause in StopCause::ALL {
                for (held_locally, held_remotely) in [(true, false), (false, true), (true, true)] {
                    let latch = Latch { cause: *cause, held_locally, held_remotely };
                    let life = RobotLife { ended, latch: Some(latch) };
                    assert_eq!(RobotLife::parse(&life.to_string()), Some(life));
                }
            }
            let life = RobotLife { ended, latch: None };
            assert_eq!(RobotLife::parse(&life.to_string()), Some(life));
        }
    }

    #[test]
    fn only_a_life_that_ended_in_order_leaves_nothing_behind() {
        let latch = Latch { cause: StopCause::LocalEmergency, held_locally: true, held_remotely: false };
        let restart = Latch { cause: StopCause::Restart, held_locally: false, held_remotely: true };
        let next = |ended, latch| RobotLife::next(Some(&RobotLife { ended, latch }.to_string()));
        assert_eq!(RobotLife::next(None), None);
        assert_eq!(next(true, None), None);
        assert_eq!(next(true, Some(latch)), Some(latch));
        assert_eq!(next(false, None), Some(restart));
        assert_eq!(next(false, Some(latch)), Some(latch));
        // A record that is cut off anywhere, or is something else, is no end in order.
        let whole = RobotLife { ended: true, latch: None }.to_string();
        for end in 0..whole.len() - 1 {
            assert_eq!(RobotLife::next(Some(&whole[..end])), Some(restart), "{end}");
        }
        assert_eq!(RobotLife::next(Some("\0\0\0\0")), Some(restart));
    }

    #[test]
    fn a_stop_that_nobody_acknowledged_is_pressed_again() {
        assert!(!OperatorLife::next(None));
        assert!(!OperatorLife::next(Some(&OperatorLife { unacknowledged: false }.to_string())));
        assert!(OperatorLife::next(Some(&OperatorLife { unacknowledged: true }.to_string())));
        assert!(OperatorLife::next(Some("")), "a record that was being written");
    }
}
