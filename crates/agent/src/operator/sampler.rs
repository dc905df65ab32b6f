//! When the device is asked, and what it made.

use taut_core::{Deadline, Duration, Time, earliest};

use super::{OperatorSettings, SampleFrom};
use crate::Sample;

/// How often it is looked whether everything is known.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Sampler {
    period: Duration,
    from: SampleFrom,
    /// Samples that are still to be sent; `None`: without end.
    left: Option<u64>,
    begun: bool,
    next: Option<Time>,
    /// The device's last reading.
    reading: Option<u64>,
    /// Since when all that is to be sent was sent, and when it is looked what became of it.
    drained: Option<Time>,
    next_look: Time,
    pub(super) made: u64,
    pub(super) missed: u64,
    pub(super) stale: u64,
    pub(super) sent: u64,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Wait,
    /// The device is asked, after so many periods in which it should have been and was not.
    Sample {
        late: u64,
    },
    /// So many were sent as were to be.
    End,
}

impl Sampler {
    pub(super) fn new(settings: &OperatorSettings) -> Self {
        Self {
            period: settings.period,
            from: settings.from,
            left: settings.limit,
            begun: false,
            next: None,
            reading: None,
            drained: None,
            next_look: Time::ZERO,
            made: 0,
            missed: 0,
            stale: 0,
            sent: 0,
        }
    }

    /// This happened, from which on the device may have to be asked. Does that begin now?
    pub(super) fn begin(&mut self, now: Time, happened: SampleFrom) -> bool {
        let begins = self.from == happened && !std::mem::replace(&mut self.begun, true);
        if begins {
            self.next = Some(now);
        }
        begins
    }

    /// It is not asked any more.
    pub(super) fn end(&mut self) {
        (self.begun, self.next, self.drained) = (true, None, None);
    }

    /// All that is to be sent was sent.
    pub(super) fn drain(&mut self, now: Time) {
        (self.next, self.drained) = (None, Some(now));
    }

    /// What is due by `now`. What the hand did while this host was too late to look is gone, in a recording as in a real one; one
    /// sample is made up for: the session's limit of the rate lets it pass.
    pub(super) fn poll(&mut self, now: Time) -> Turn {
        let Some(due) = self.next.filter(|due| now >= *due) else { return Turn::Wait };
        let late = ((now - due) / self.period).saturating_sub(1);
        self.next = Some(due + self.period * (late + 1));
        if self.left == Some(0) { Turn::End } else { Turn::Sample { late } }
    }

    /// So many samples of the device are gone.
    pub(super) fn missed(&mut self, samples: u64) {
        self.missed += samples;
    }

    /// Did the device read anything new?
    pub(super) fn is_new(&mut self, sample: &Sample) -> bool {
        let is_new = sample.reading != 0 && self.reading.replace(sample.reading) != Some(sample.reading);
        *(if is_new { &mut self.made } else { &mut self.stale }) += 1;
        is_new
    }

    /// A sample was offered, and taken or not.
    pub(super) fn sent(&mut self, taken: bool) {
        self.sent += u64::from(taken);
        self.left = self.left.map(|left| left - u64::from(taken));
    }

    /// Since when everything was sent, when it is time to look what became of it.
    pub(super) fn look(&mut self, now: Time) -> Option<Time> {
        let since = self.drained.filter(|_| now >= self.next_look)?;
        self.next_look = now + LOOK;
        Some(since)
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        let sample = self.next.map(|at| Deadline::new(at, "sample"));
        earliest(sample, self.drained.map(|_| Deadline::new(self.next_look, "look")))
    }
}
