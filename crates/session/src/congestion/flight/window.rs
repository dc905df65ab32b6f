//! The window and its stages.

use taut_core::{Duration, Time};

use super::round::{Measured, Standing};
use super::{
    CALM, DOUBLINGS, EXCESS, FULL, GROWTH, LEAST_WINDOW, PATIENCE, ROUNDS, SILENCE, SLACK, STEADY, TARGET,
    TRIAL, UNUSED,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Bytes: it is the rate as well, times the least round trip.
    pub(super) size: f64,
    /// By how much the round trip is longer than the least, for what waits on the way back: so many more are under way.
    pub(super) stretch: f64,
    /// Bytes per second that arrive, smoothed.
    pub(super) rate: f64,
    /// It changed when the present round began, which tells of what was sent before.
    pub(super) settling: bool,
    /// Until then a trial has to have ended, or a round.
    pub(super) judged_by: Time,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The standing delay that it is to take away.
    Trial {
        standing: Duration,
        /// Bytes per second that the path carries, as far as is known.
        carried: f64,
        /// It was begun after few rounds, and learns.
        hurried: bool,
    },
    Held(HeldWindow),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldWindow {
    pub(super) rounds: u32,
    /// Rounds in a row in which it grew; rounds in which it was not the limit; rounds in which it cost states.
    pub(super) growing: u32,
    pub(super) unused: u32,
    pub(super) costly: u32,
    /// Rounds in a row with much more than it under way although nothing waited: acknowledgements come late, not states.
    pub(super) late: u32,
    /// Rounds until it may grow again, and the size from which on that is news.
    pub(super) calm: u32,
    pub(super) ceiling: f64,
    /// Bytes per second that arrived while nothing waited, smoothed.
    pub(super) full: f64,
}

impl Window {
    pub(super) fn trial(now: Time, standing: &Standing, measured: &Measured, under_way: u64) -> Self {
        let rate = standing.rate();
        let size = (rate * measured.base.as_secs_f64() * TRIAL).max(LEAST_WINDOW * measured.frame);
        // What is too much goes at half the rate.
        let drained = Duration::from_secs_f64(under_way as f64 * EXCESS / rate);
        let longest = drained.saturating_mul(2) + (measured.base + measured.standing).saturating_mul(4);
        let judged_by = now + longest;
        Self {
            size,
            stretch: measured.stretch,
            rate,
            settling: true,
            judged_by,
            stage: Stage::Trial { standing: standing.most, carried: rate, hurried: standing.rounds < ROUNDS },
        }
    }

    /// So long nothing is acknowledged only in an outage.
    pub(super) fn silence(&self, frame: f64) -> Duration {
        SILENCE.max(Duration::from_secs_f64(4.0 * frame / self.rate))
    }

    /// Something waited in this round of a trial: so much is what the path carries. Of a path that has just become slower less comes at first,
    /// while what is long is still on it.
    pub(super) fn learn(&mut self, measured: &Measured) {
        if let Stage::Trial { carried, hurried: true, .. } = &mut self.stage
            && measured.rate() > *carried
        {
            *carried = measured.rate();
            self.size = self.size.max(measured.rate() * measured.base.as_secs_f64() * TRIAL);
        }
    }

    /// A round in which so many arrive per second goes on. Of what is too much half of the rate goes; where only two thirds of
    /// that arrive, the path has become slower, and the round that would tell so is as long as the queue.
    pub(super) fn slow_down(&mut self, rate: f64) {
        if rate < self.rate / 3.0 {
            self.rate = rate;
        }
    }

    /// The trial went well.
    pub(super) fn hold(&mut self, now: Time, rate: f64, base: Duration, frame: f64) {
        self.judged_by = now + PATIENCE.0.max(base.saturating_mul(8));
        self.size = (rate * base.as_secs_f64()).max(LEAST_WINDOW * frame);
        self.settling = true;
        self.stage = Stage::Held(HeldWindow { full: rate * TRIAL, ..HeldWindow::default() });
    }

    /// What a round told of it. False when it is not needed.
    pub(super) fn follow(&mut self, measured: &Measured) -> bool {
        let Stage::Held(held) = &mut self.stage else { return true };
        held.rounds += 1;
        // A path that carries the states has its moments; one that does not, never is without limit.
        held.unused = if measured.limited { held.unused.saturating_sub(2) } else { held.unused + 1 };
        if measured.standing > TARGET {
            // A queue of the session's own is what it has too much: as many arrive without it.
            let costs = measured.rate_at_most() < held.full * FULL;
            held.costly = if costs { held.costly + 1 } else { held.costly.saturating_sub(1) };
            // What waits goes, and a little more: a link that is full to the last bit never works off what comes between. Where
            // chance alone is more than may wait, that would only waste the path.
            let fine = measured.by_chance.is_zero();
            let slack = if fine { self.size * SLACK } else { 0.0 };
            let excess = measured.rate() * measured.standing.as_secs_f64() + slack;
            held.ceiling = self.size;
            self.size = (self.size - excess.min(self.size / 4.0)).max(LEAST_WINDOW * measured.frame);
            self.settling = true;
            (held.growing, held.calm) = (0, if fine { CALM } else { 0 });
        } else {
            // Quick to learn what the path carries, slow to forget it.
            let more = measured.rate() - held.full;
            held.full += more / if more > 0.0 { 4.0 } else { 32.0 };
            held.calm = held.calm.saturating_sub(1);
            // No more than what is used shows to be there.
            let is_used = measured.rate() * measured.base.as_secs_f64() > self.size / 2.0;
            let grows = measured.limited && is_used && measured.standing < TARGET / 2 && held.calm == 0;
            held.growing = if grows && self.size >= held.ceiling { held.growing + 1 } else { 0 };
            if grows {
                let doublings = (held.growing / STEADY).min(DOUBLINGS);
                // At first slowly beyond where it was last cut, for what comes of it is seen two rounds later.
                let slowly =
                    doublings == 0 && held.growing > 0 && held.ceiling > 0.0 && measured.by_chance.is_zero();
                let growth = if slowly { GROWTH / 2.0 } else { GROWTH * f64::from(1 << doublings) };
                self.size += self.size * growth;
            }
            self.settling = grows;
        }
        held.unused < UNUSED
    }
}
