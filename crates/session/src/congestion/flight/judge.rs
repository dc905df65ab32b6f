//! What a round that is over tells the window.

use taut_core::{Duration, Time};

use super::round::{Measured, Standing};
use super::window::{HeldWindow, Stage, Window};
use super::{
    COSTLY, FAR, FULL, Flight, LEAST_FRAMES, PATIENCE, PATIENT, PROVEN, RESIDUE, SUSPICIOUS, TARGET, UNUSED,
};

impl Flight {
    /// A round is over.
    pub(super) fn judge(&mut self, now: Time, measured: &Measured) {
        let Some(window) = &mut self.window else { return self.judge_free(now, measured) };
        // With more than the window under way, what arrives is what the path carries.
        let smoothed = (window.rate * 3.0 + measured.rate()) / 4.0;
        window.rate = if measured.full() { smoothed.min(measured.rate()) } else { smoothed };
        window.stretch = measured.stretch;
        if let Stage::Held(_) = window.stage {
            window.judged_by = now + PATIENCE.0.max(measured.length.saturating_mul(8));
        }
        let settling = std::mem::take(&mut window.settling);
        // So much, and of several frames, is no search any more, whatever the last round was sent under.
        let most =
            PATIENT.max(Duration::from_secs_f64(LEAST_FRAMES as f64 * measured.frame / window.rate.max(1.0)));
        let hurries = matches!(window.stage, Stage::Held(_)) && measured.standing > most;
        let settling = settling && !hurries;
        match window.stage {
            // What a repetition had held up came at once: the path carries all.
            Stage::Trial { .. } if measured.standing < SUSPICIOUS && self.standing.is_outdone(measured) => {
                self.release(now)
            }
            // It never empties: the path has become slower, or longer, or somebody else's.
            Stage::Held(_) if measured.full() && (self.standing.goes_on(measured) || hurries) => {
                *window = Window::trial(now, &self.standing, measured, self.sent - self.arrived);
            }
            Stage::Held(held) if measured.full() => {
                let costs = measured.filled > FAR || measured.rate() < held.full * FULL;
                let late = if costs && measured.standing <= SUSPICIOUS { held.late + 1 } else { 0 };
                window.stage = Stage::Held(HeldWindow { late, ..held });
                if late >= UNUSED {
                    self.release(now);
                }
            }
            _ if settling || measured.full() => window.learn(measured),
            // The queue went by itself, or there is nothing more to send.
            Stage::Trial { .. } if !measured.limited => self.release(now),
            Stage::Trial { standing, .. } if measured.standing > SUSPICIOUS.max(standing / 2) => {
                self.give_way(now);
            }
            Stage::Trial { standing, carried, .. } => {
                let mut base = measured.base;
                // What is left where nearly all went is the path's own, which became longer or slower.
                if measured.above > TARGET && measured.standing <= standing / RESIDUE {
                    base += measured.above;
                    self.frames.iter_mut().for_each(|least| least.rise(now, measured.above));
                    self.packets.rise(now, measured.above);
                    self.there.rise(now, measured.above.as_nanos() as i64);
                }
                self.standing = Standing::default();
                self.doubled = false;
                window.hold(now, carried, base, measured.frame);
            }
            Stage::Held(HeldWindow { rounds, costly, .. }) => {
                if self.standing.goes_on(measured) || hurries {
                    *window = Window::trial(now, &self.standing, measured, self.sent - self.arrived);
                } else if costly >= COSTLY {
                    self.give_way(now);
                } else if !window.follow(measured) {
                    self.release(now);
                } else if rounds >= PROVEN {
                    self.patience = PATIENCE.0;
                }
            }
        }
    }

    /// No window holds: is there a queue, and is it asked whose?
    fn judge_free(&mut self, now: Time, measured: &Measured) {
        // Somebody else's queue, as far as is known: what can wait competes there.
        let stands = measured.standing > SUSPICIOUS;
        let competes = now < self.retry;
        // It costs what can wait for ten seconds, so it takes more.
        let is_ours = measured.standing + measured.by_chance
            > self.jitter.for_a_moment(measured.by_chance) + SUSPICIOUS;
        if is_ours && !competes && self.room.is_full(now, measured) {
            self.room.finds(now, measured.rate());
        }
        let was_limited = self.room.judge(now, stands, measured.base, competes);
        if !self.enabled {
            return;
        }
        if measured.standing < SUSPICIOUS {
            self.others = Duration::ZERO;
        }
        let is_long = self.is_long(measured.standing);
        if measured.catches_up() {
            self.standing = Standing::default();
            return;
        }
        let grows = self.standing.grows_steadily() || self.standing.has_grown(measured);
        let asks = was_limited || is_long && grows || self.standing.is_behind();
        // A burst into a path that has become slower is a long queue at once.
        let hurries = was_limited && is_long && self.standing.rounds > 0;
        if (self.standing.goes_on(measured) || hurries) && asks && self.is_news(now) {
            self.window = Some(Window::trial(now, &self.standing, measured, self.sent - self.arrived));
            self.doubled = now < self.retry;
        }
    }

    /// Is a delay so long that it is asked whose it is, whatever arrives? It is longer after each failed trial, and longer than what is
    /// known to be others'.
    fn is_long(&self, standing: Duration) -> bool {
        let least = Duration::from_secs_f64(PATIENT.as_secs_f64() * self.patience.as_secs_f64());
        standing >= least.max(self.others.saturating_mul(2))
    }

    /// A trial that failed is not repeated soon, but where the delay has doubled since.
    fn is_news(&self, now: Time) -> bool {
        now >= self.retry || (!self.doubled && self.standing.most > self.failed.saturating_mul(2))
    }

    /// The queue is somebody else's.
    pub(super) fn give_way(&mut self, now: Time) {
        self.failed = match self.window {
            Some(Window { stage: Stage::Trial { standing, .. }, .. }) => standing,
            _ => self.base().unwrap_or_default() / 2,
        };
        self.others = self.failed;
        self.release(now);
        self.retry = now + self.patience;
        self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
    }

    pub(super) fn release(&mut self, now: Time) {
        if let Some((window, base)) = self.window.take().zip(self.base()) {
            self.room.goes_on(now, window.size / base.as_secs_f64().max(1e-6));
        }
        self.standing = Standing::default();
        self.stale = self.sent;
    }
}
