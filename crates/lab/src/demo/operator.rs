//! What the operator means to do: a chain of reaching movements, and a tremor.

use std::collections::VecDeque;

use taut_core::Rng;

use super::Vector;

/// Where the hand means to be, and the tremor that it does not mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intent {
    /// m.
    pub(crate) position: Vector,
    /// m/s.
    pub(crate) velocity: Vector,
    /// N.
    pub(crate) tremor: Vector,
}

/// Moves by minimum jerk from goal to goal (Flash, Hogan, *The Coordination of Arm Movements*, J. Neuroscience 5(7), 1985).
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    rng: Rng,
    from: Vector,
    plan: VecDeque<Movement>,
    elapsed: f64,
    tremor: [Tremor; 3],
    trembles: bool,
    /// So much longer it holds still where it presses, s.
    rest: f64,
}

#[derive(Clone, Copy, Debug)]
struct Movement {
    to: Vector,
    seconds: f64,
    rests: bool,
}

impl Operator {
    pub(crate) fn new(rng: Rng) -> Self {
        let from = [-0.06, 0.0, 0.0];
        Self {
            rng,
            from,
            plan: VecDeque::new(),
            elapsed: 0.0,
            tremor: [Tremor::default(); 3],
            trembles: true,
            rest: 0.0,
        }
    }

    /// Does it tremble, and how many seconds longer does it hold still where it presses? Default: it does, 0.
    pub(crate) fn habits(mut self, trembles: bool, rest: f64) -> Self {
        (self.trembles, self.rest) = (trembles, rest);
        self
    }

    /// It presses and holds still: since when, and how long in all, s.
    pub(crate) fn rests(&self) -> Option<[f64; 2]> {
        let resting = self.plan.front().filter(|movement| movement.rests)?;
        Some([self.elapsed, resting.seconds])
    }

    /// Where the current movement began.
    pub(crate) const fn position(&self) -> Vector {
        self.from
    }

    pub(crate) fn step(&mut self, dt: f64) -> Intent {
        if self.plan.is_empty() {
            self.plan_cycle();
        }
        let Movement { to, seconds, .. } = self.plan[0];
        self.elapsed += dt;
        let tau = (self.elapsed / seconds).min(1.0);
        let way = tau * tau * tau * (10.0 + tau * (6.0 * tau - 15.0));
        let rest = 1.0 - tau;
        let speed = 30.0 * tau * tau * rest * rest / seconds;
        let axis = |i: usize| (self.from[i] + (to[i] - self.from[i]) * way, (to[i] - self.from[i]) * speed);
        let [x, y, z] = [axis(0), axis(1), axis(2)];
        if self.elapsed >= seconds {
            self.from = to;
            self.elapsed = 0.0;
            self.plan.pop_front();
        }
        let rng = &mut self.rng;
        let tremor = self.tremor.each_mut().map(|tremor| tremor.step(rng.fraction() - 0.5, dt));
        let tremor = if self.trembles { tremor } else { [0.0; 3] };
        Intent { position: [x.0, y.0, z.0], velocity: [x.1, y.1, z.1], tremor }
    }

    /// Free motion, contact, sliding, release.
    fn plan_cycle(&mut self) {
        let wanderings = 1 + self.rng.below(3);
        for _ in 0..wanderings {
            let to = [self.within(-0.09, -0.025), self.within(-0.07, 0.07), self.within(-0.05, 0.05)];
            self.go(to, 0.5, 1.1);
        }
        let (y, z) = (self.within(-0.06, 0.06), self.within(-0.04, 0.04));
        let depth = self.within(0.01, 0.022);
        self.go([-0.004, y, z], 0.4, 0.8);
        self.go([depth, y, z], 0.3, 0.6);
        let seconds = self.within(0.2, 0.8) + self.rest;
        self.plan.push_back(Movement { to: [depth, y, z], seconds, rests: true });
        let strokes = 1 + self.rng.below(3);
        for _ in 0..strokes {
            let to = [self.within(0.01, 0.022), self.within(-0.08, 0.08), self.within(-0.05, 0.05)];
            self.go(to, 0.6, 1.4);
        }
        let to = [self.within(-0.07, -0.03), self.within(-0.06, 0.06), self.within(-0.04, 0.04)];
        self.go(to, 0.35, 0.7);
    }

    fn go(&mut self, to: Vector, shortest: f64, longest: f64) {
        let seconds = self.within(shortest, longest);
        self.plan.push_back(Movement { to, seconds, rests: false });
    }

    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.rng.fraction()
    }
}

/// What an operator means, drawn once a millisecond and changing evenly in between: the same however often it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Intention {
    operator: Operator,
    /// Around the present.
    between: [Intent; 2],
    /// Since the first of these, s.
    since: f64,
}

impl Intention {
    /// s.
    const DRAWN: f64 = 0.001;

    pub(crate) fn new(mut operator: Operator) -> Self {
        let start = Intent { position: operator.position(), velocity: [0.0; 3], tremor: [0.0; 3] };
        let between = [start, operator.step(Self::DRAWN)];
        Self { operator, between, since: 0.0 }
    }

    /// Where it is before any time passes.
    pub(crate) const fn begins_at(&self) -> Vector {
        self.between[0].position
    }

    /// It presses and holds still: since when, and how long in all, s.
    pub(crate) fn rests(&self) -> Option<[f64; 2]> {
        self.operator.rests()
    }

    /// So many seconds pass; what is meant in the middle of them.
    pub(crate) fn pass(&mut self, seconds: f64) -> Intent {
        let share = ((self.since + seconds / 2.0) / Self::DRAWN).min(1.0);
        let [a, b] = &self.between;
        let at = |a: &Vector, b: &Vector| std::array::from_fn(|i| a[i] + (b[i] - a[i]) * share);
        let meant = Intent {
            position: at(&a.position, &b.position),
            velocity: at(&a.velocity, &b.velocity),
            tremor: at(&a.tremor, &b.tremor),
        };
        self.since += seconds;
        // A part in 10⁹ for the rounding of the sum.
        while self.since > Self::DRAWN * (1.0 - 1e-9) {
            self.since -= Self::DRAWN;
            self.between = [self.between[1], self.operator.step(Self::DRAWN)];
        }
        meant
    }
}

/// Physiological tremor: white noise through a resonance near 9 Hz, in newtons.
#[derive(Clone, Copy, Debug, Default)]
struct Tremor {
    value: f64,
    rate: f64,
}

impl Tremor {
    const OMEGA: f64 = 56.5;
    const DAMPING: f64 = 0.3;
    /// Scales uniform noise in ±0.5 so that the tremor is about 0.05 N.
    const GAIN: f64 = 4_000.0;

    fn step(&mut self, noise: f64, dt: f64) -> f64 {
        let pull = -Self::OMEGA * Self::OMEGA * self.value - 2.0 * Self::DAMPING * Self::OMEGA * self.rate;
        self.rate += dt * (pull + Self::GAIN * noise);
        self.value += dt * self.rate;
        self.value
    }
}
