//! A client's attempts to connect.

use taut_core::{Duration, Time};

use super::CloseReason;

/// After so many attempts that were ended by somebody it is the peer, as far as a client can know.
const MOST: u32 = 5;
/// Between the first two of them; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// What ended them. Until the peer has proven who it is, anybody who overhears the first packet can end an attempt: by a
/// CONNECTION_CLOSE in an Initial packet, whose keys are no secret (RFC 9001 section 5.2), by a Version Negotiation packet (RFC
/// 9000 section 6.2), by a handshake with a key of his own. So it is tried again, for three quarters of a second; then the last
/// reason is believed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts {
    ended: u32,
}

impl Attempts {
    /// One was ended: when to try again, unless that was the last.
    pub(super) fn again(&mut self, now: Time, reason: &CloseReason) -> Option<Time> {
        // Nobody has to forge that nothing came.
        if matches!(reason, CloseReason::TimedOut | CloseReason::Local) || self.ended + 1 >= MOST {
            return None;
        }
        self.ended += 1;
        Some(now + FIRST_WAIT * (1 << (self.ended - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_are_made_and_silence_is_the_last() {
        let (mut attempts, mut now, mut waits) = (Attempts::default(), Time::ZERO, Vec::new());
        while let Some(again) = attempts.again(now, &CloseReason::Busy) {
            waits.push((again - now).as_nanos() / 1_000_000);
            now = again;
        }
        assert_eq!(waits, [50, 100, 200, 400]);
        assert_eq!(Attempts::default().again(Time::ZERO, &CloseReason::TimedOut), None);
    }
}
