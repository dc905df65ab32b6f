//! A virtual mass between the channel and the hand, which a spring and a damper couple to it (Ryu, Artigas, Preusche 2010, section 5).
//!
//! The passivity controller acts on the mass, not on the hand. Of the mass it is known how fast it will be under a force, so that no more
//! is given than is left at the *end* of a period: at rest, with nothing left, the force is what keeps the mass where it is. On the hand,
//! of whose mass nothing is known, it would be all and nothing in turn: at the first motion along the force it is all taken away, and the
//! hand is thrown back by the next period. What the hand was given while a force was held is known when that is over, and is
//! [counted](Buffer::made).
//!
//! **Where the hand is pushed with L at most** the mass is pulled with no more: f = sat(k x + d ẋ) acts on both, of the way x from the hand to the mass, sat being what
//! shortens a vector to L in its own direction. That is the gradient of a convex function, so that (sat a − sat b)·(a − b) ≥ 0, and with a = k x + d ẋ, b = k x
//!
//! f·ẋ ≥ sat(k x)·ẋ = dH/dt,  H = ½ k x² as far as k |x| ≤ L, and L |x| − L²/(2k) beyond:
//!
//! what pulls with L at most is a spring that [stores](Buffer::stored) H, and a damper. If only the hand were spared, the mass would be given (|k x + d ẋ| − L) times the velocity of the
//! hand by nobody, and the robot would be told of it as put in. While the spring pulls with L it neither follows the hand nor comes to rest, so that the mass is
//! [pushed](Response::share) with no more of a force than what leaves it just below, if any does; else it saturates, for as long as that lasts.

use crate::Motion;
use crate::operator::Port;
use crate::place::Place;
use crate::vector::{Vector, dot, plus, shortened, size, times};

/// kg; N/m and N·s/m to the hand. Of what is turned it is as much at the end of its [lever](Place::LEVER_SQUARED).
const MASS: f64 = 0.02;
const STIFFNESS: f64 = 4_000.0;
const DAMPING: f64 = 20.0;

/// The mass, and what it did to the hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer<P> {
    mass: Motion<P>,
    /// What was stored when the last period began and was given in it, J.
    energy: f64,
    /// The hand when it was last measured, m, and the force on it since, N.
    hand: P,
    force: Vector,
    /// On the hand and on the mass, at the most, N.
    limit: f64,
}

impl<P: Place> Buffer<P> {
    const MASS: f64 = MASS * P::LEVER_SQUARED;
    const STIFFNESS: f64 = STIFFNESS * P::LEVER_SQUARED;
    const DAMPING: f64 = DAMPING * P::LEVER_SQUARED;

    /// At rest relative to the hand, which is pushed with `limit` N at most. What it stores to begin with came from nowhere.
    pub(crate) const fn at(hand: &Motion<P>, limit: f64) -> Self {
        Self { mass: *hand, energy: 0.0, hand: hand.position, force: [0.0; 3], limit }
    }

    /// The hand is measured here. Joules that came from nowhere since it was the last time: what it was given and what is stored, beyond what was stored and given. Below 0: they were
    /// lost.
    pub(crate) fn made(&mut self, hand: &Motion<P>) -> f64 {
        let moved = hand.position.way_from(&self.hand);
        self.hand = hand.position;
        dot(&self.force, &moved) + self.stored() - self.energy
    }

    /// From now on hand and mass are pushed with `limit` N at most. What is stored more for that, J: never more than 0, for a spring that pulled with all that it was allowed is let go of
    /// as far as it was stretched beyond that.
    pub(crate) fn limit(&mut self, limit: f64) -> f64 {
        let before = self.stored();
        let apart = self.mass.position.way_from(&self.hand);
        let pull = Self::STIFFNESS * size(&apart);
        if limit > self.limit && pull > self.limit {
            self.mass.position = self.hand.after(self.limit / pull, &apart);
        }
        self.limit = limit;
        self.stored() - before
    }

    /// The mass is pushed for a period with as much of `force` as costs no more than `left`, J, and leaves what the hand is pushed with within the limit.
    pub(crate) fn push(&mut self, hand: &Motion<P>, force: &Vector, left: f64, period: f64) -> Port {
        let response = self.response(hand, period);
        let force = times(response.share(force, left), force);
        let velocity = response.velocity(&force);
        self.energy = self.stored() + dot(&force, &velocity) * period;
        self.mass = Motion { position: self.mass.position.after(period, &velocity), velocity };
        Port { force, velocity }
    }

    fn response(&self, hand: &Motion<P>, period: f64) -> Response {
        let at_rest = self.coupling(hand, &[0.0; 3]);
        let mass = Self::MASS / period;
        Response {
            free: plus(&times(mass, &self.mass.velocity), -1.0, &at_rest),
            at_rest,
            mass,
            sum: mass + Self::DAMPING + Self::STIFFNESS * period,
            limit: self.limit,
            period,
        }
    }

    /// On the hand, N.
    pub(crate) fn force(&self, hand: &Motion<P>) -> Vector {
        shortened(&self.coupling(hand, &self.mass.velocity), self.limit)
    }

    /// This is what pushes the hand until the next period.
    pub(crate) const fn hold(&mut self, hand: &Motion<P>, force: &Vector) {
        (self.hand, self.force) = (hand.position, *force);
    }

    /// At this velocity of the mass, if nothing limited it.
    fn coupling(&self, hand: &Motion<P>, velocity: &Vector) -> Vector {
        let apart = self.mass.position.way_from(&hand.position);
        plus(&times(Self::STIFFNESS, &apart), Self::DAMPING, &plus(velocity, -1.0, &hand.velocity))
    }

    /// By the mass and by the spring, J, with the hand where it was measured last.
    pub(crate) fn stored(&self) -> f64 {
        let apart = self.mass.position.way_from(&self.hand);
        let speed = &self.mass.velocity;
        let square = dot(&apart, &apart);
        let (pull, limit) = (Self::STIFFNESS * square.sqrt(), self.limit);
        let spring = if pull > limit {
            limit * (2.0 * pull - limit) / Self::STIFFNESS
        } else {
            Self::STIFFNESS * square
        };
        (spring + Self::MASS * dot(speed, speed)) / 2.0
    }
}

/// The mass under a force over a period, at the end of which it is as fast as it was all the way.
struct Response {
    /// Of the mass as it was and of spring and damper, if it stood, N; and of these two alone.
    free: Vector,
    at_rest: Vector,
    /// N·s/m that its velocity takes: of the mass alone, and with spring and damper.
    mass: f64,
    sum: f64,
    /// Of spring and damper, N.
    limit: f64,
    /// s.
    period: f64,
}

impl Response {
    /// Halvings of a share that no closed form gives.
    const HALVINGS: u32 = 50;

    /// m/s.
    fn velocity(&self, force: &Vector) -> Vector {
        let pushed = plus(&self.free, 1.0, force);
        let pull = self.pull(force);
        if size(&pull) > self.limit {
            // What the hand is not pushed with does not pull at the mass either.
            let pushed = plus(&pushed, 1.0, &self.at_rest);
            return times(self.mass.recip(), &plus(&pushed, -1.0, &shortened(&pull, self.limit)));
        }
        times(self.sum.recip(), &pushed)
    }

    /// Of spring and damper at the end of the period, if nothing limited them.
    fn pull(&self, force: &Vector) -> Vector {
        plus(&self.at_rest, self.slope(), &plus(&self.free, 1.0, force))
    }

    /// Of what pushes at all, what pulls.
    fn slope(&self) -> f64 {
        (self.sum - self.mass) / self.sum
    }

    /// Of this force, 0 to 1: as much as costs no more than `left`, J, and lets spring and damper pull with no more than the limit, or as little more as can be.
    fn share(&self, force: &Vector, left: f64) -> f64 {
        // At the end of the period a force F gives the mass the velocity (p + F) / m, and costs F · (p + F) period / m.
        let (lean, square, most) = (dot(force, &self.free), dot(force, force), self.sum * left / self.period);
        let share = if lean + square <= most {
            1.0
        } else {
            (((lean * lean + 4.0 * square * most).sqrt() - lean) / (2.0 * square)).clamp(0.0, 1.0)
        };
        if size(&self.pull(&times(share, force))) <= self.limit {
            return share;
        }
        let costs = |share: f64| {
            let force = times(share, force);
            dot(&force, &self.velocity(&force)) * self.period
        };
        let most = self.share_within(force);
        if costs(most) <= left {
            return most;
        }
        // Where it costs anything it costs the more the larger it is, for the velocity is the gradient of a convex function of the force.
        let (mut enough, mut too_much) = (0.0, most);
        for _ in 0..Self::HALVINGS {
            let share = f64::midpoint(enough, too_much);
            *(if costs(share) <= left { &mut enough } else { &mut too_much }) = share;
        }
        enough
    }

    /// The largest share of this force with which spring and damper stay within the limit, or with which they are nearest to it.
    fn share_within(&self, force: &Vector) -> f64 {
        // Of the share s the pull is a + s g.
        let (a, g) = (self.pull(&[0.0; 3]), times(self.slope(), force));
        let (lean, square) = (dot(&a, &g), dot(&g, &g));
        let root = (lean * lean + square * (self.limit * self.limit - dot(&a, &a))).max(0.0).sqrt();
        if square > 0.0 { ((root - lean) / square).clamp(0.0, 1.0) } else { 1.0 }
    }
}
