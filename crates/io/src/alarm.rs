//! The emergency stop that reaches machines ahead of every command.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

pub use taut_agent::Alarm;

/// An alarm that is rung on one thread and taken on another: never lost, never queued, and rung twice it is one.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// One bit for each kind that is rung and not taken.
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

impl Bell {
    pub(crate) fn ring(&self, alarm: Alarm) {
        // Counted first: whoever takes the alarm sees its number.
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.pending.fetch_or(bit(alarm), Ordering::SeqCst);
    }

    /// How often it was rung until now.
    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::SeqCst)
    }

    /// What was rung since the last call, and what [`Bell::rings`] has come to. Of both kinds it is the lost button, which
    /// may never be heard again.
    pub(crate) fn take(&self) -> Option<(Alarm, u64)> {
        // A turn of the driver asks some ten times: reading is cheaper than exchanging.
        if self.pending.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let pending = self.pending.swap(0, Ordering::SeqCst);
        let alarm = if pending & bit(Alarm::Lost) != 0 { Alarm::Lost } else { Alarm::Pressed };
        (pending != 0).then(|| (alarm, self.rings()))
    }
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
    fn a_lost_button_is_told_before_a_pressed_one() {
        let bell = Bell::default();
        bell.ring(Alarm::Lost);
        bell.ring(Alarm::Pressed);
        assert_eq!(bell.take(), Some((Alarm::Lost, 2)));
        assert_eq!(bell.take(), None);
    }
}
