//! The emergency stop that reaches machines ahead of every command.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

pub use taut_agent::Alarm;

/// An alarm that is rung on one thread and taken on another: never lost, never queued, and rung twice it is one.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// One bit for each kind that is rung and not taken; and [`CLOSED`].
    pending: AtomicU8,
    /// How often it was rung. What was sent before a ring knows a lower number.
    rings: AtomicU64,
}

const fn bit(alarm: Alarm) -> u8 {
    match alarm {
        Alarm::Pressed => 1,
        Alarm::Lost => 2,
    }
}

/// Nobody takes alarms any more.
const CLOSED: u8 = 4;

impl Bell {
    /// False when it is [closed](Self::close).
    pub(crate) fn ring(&self, alarm: Alarm) -> bool {
        // Counted first: whoever takes the alarm sees its number.
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.pending.fetch_or(bit(alarm), Ordering::SeqCst) & CLOSED == 0
    }

    /// No alarm is taken from here on. The last one, as of [`Bell::take`].
    pub(crate) fn close(&self) -> Option<Alarm> {
        rung(self.pending.fetch_or(CLOSED, Ordering::SeqCst))
    }

    /// How often it was rung until now.
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::SeqCst)
    }

    /// What was rung since the last call, and what [`Bell::rings`] has come to. Of both kinds it is the lost button, which
    /// may never be heard again.
    pub(crate) fn take(&self) -> Option<(Alarm, u64)> {
        // A turn of the driver asks some ten times: reading is cheaper than exchanging.
        if self.pending.load(Ordering::Relaxed) & !CLOSED == 0 {
            return None;
        }
        let alarm = rung(self.pending.fetch_and(CLOSED, Ordering::SeqCst))?;
        Some((alarm, self.rings()))
    }
}

fn rung(pending: u8) -> Option<Alarm> {
    [Alarm::Lost, Alarm::Pressed].into_iter().find(|alarm| pending & bit(*alarm) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_that_is_rung_twice_is_taken_once() {
        let bell = Bell::default();
        assert_eq!(bell.take(), None);
        bell.ring(Alarm::Pressed);
        bell.ring(Alarm::Pressed);
        assert_eq!(bell.take(), Some((Alarm::Pressed, 2)));
        assert_eq!(bell.take(), None);
    }

    #[test]
    fn what_is_rung_before_a_bell_is_closed_is_taken_and_whoever_rings_later_is_told_so() {
        let bell = Bell::default();
        assert!(bell.ring(Alarm::Pressed));
        assert_eq!(bell.close(), Some(Alarm::Pressed));
        assert_eq!(bell.take(), Some((Alarm::Pressed, 1)));
        assert!(!bell.ring(Alarm::Pressed));
    }

    #[test]
    fn a_lost_button_is_told_before_a_pressed_one() {
        let bell = Bell::default();
        bell.ring(Alarm::Lost);
        bell.ring(Alarm::Pressed);
        assert_eq!(bell.take(), Some((Alarm::Lost, 2)));
        assert_eq!(bell.take(), None);
    }
}
