//! Which messages of a law are worth a packet, and how long the other end can do without.
//!
//! A message that is not sent is held at the other end: the port there goes on with the old force, or velocity. What that costs is the
//! work of the difference, and a law of [passivity](crate::Law::is_passive) has a budget for it: its reserve W. A message is sent where
//! its value left the deadband of Weber's law, |Δf| ≥ k |f| (Hinterseer, Hirche, Chaudhuri, Steinbach, Buss, *Perception-based data
//! reduction and transmission of haptic data in telepresence and teleaction systems*, IEEE Trans. Signal Processing 56(2), 2008), **or**
//! where the work of holding reached a share of the reserve, |∫ (f − f_held) v dt| ≥ η W. What is sent to the robot is a velocity; there f
//! and v change places.

use taut_core::Duration;

use crate::vector::{Vector, dot, plus, size};
use crate::{Message, Port};

/// What decides. All of it is what the *sender* knows: its own port and its own reserve.
///
/// ```
/// use taut_control::{Message, Port, Quantity, Worth};
/// use taut_core::Duration;
/// let mut worth = Worth::new(Quantity::Force, Duration::from_millis(1)).weber(0.1, 0.05).work(0.5);
/// let port = Port { force: [-1.0, 0.0, 0.0], velocity: [0.1, 0.0, 0.0] };
/// let of = |newtons| Message { force: [newtons, 0.0, 0.0], ..Message::default() };
/// assert!(worth.is_due(&of(-1.0), &port, 0.02), "nothing was sent before");
/// assert!(!worth.is_due(&of(-1.05), &port, 0.02));
/// assert!(worth.is_due(&of(-1.2), &port, 0.02));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    quantity: Quantity,
    /// s.
    period: f64,
    k: f64,
    floor: f64,
    eta: f64,
    keep_alive: u64,
    held: Option<Vector>,
    /// Of holding, since the last message, J; and periods since then.
    work: f64,
    silent: u64,
}

/// By what of a message the other end is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// What the robot's end says.
    Force,
    /// What the operator's end says.
    Velocity,
}

impl Worth {
    /// Asked every `period`. By itself everything that differs is due.
    pub fn new(quantity: Quantity, period: Duration) -> Self {
        Self {
            quantity,
            period: period.as_secs_f64(),
            k: 0.0,
            floor: 0.0,
            eta: f64::INFINITY,
            keep_alive: u64::MAX,
            held: None,
            work: 0.0,
            silent: 0,
        }
    }

    /// Weber's fraction of what was sent last, from 0; and the change, N or m/s, below which it never counts. Infinite: change alone is
    /// never worth a packet. Default: 0, 0.
    pub const fn weber(mut self, k: f64, floor: f64) -> Self {
        (self.k, self.floor) = (k, floor);
        self
    }

    /// The share of the reserve that holding may cost, above 0. Default: any.
    pub const fn work(mut self, eta: f64) -> Self {
        self.eta = eta;
        self
    }

    /// No silence is longer than so many periods, at least 1. Default: any.
    pub const fn keep_alive(mut self, periods: u64) -> Self {
        self.keep_alive = periods;
        self
    }

    /// Is this message to be sent? It is held from then on. `port`: of this end; `reserve`: what is left of it, J.
    pub fn is_due(&mut self, message: &Message, port: &Port, reserve: f64) -> bool {
        let (value, other) = match self.quantity {
            Quantity::Force => (message.force, port.velocity),
            Quantity::Velocity => (message.velocity, port.force),
        };
        self.silent += 1;
        let is_due = self.held.is_none_or(|held| {
            let apart = plus(&value, -1.0, &held);
            self.work += dot(&apart, &other) * self.period;
            let felt = (self.k * size(&held)).max(self.floor);
            let is_changed = self.k.is_finite() && size(&apart) > 0.0 && size(&apart) >= felt;
            is_changed || self.work.abs() >= self.eta * reserve.max(f64::MIN_POSITIVE)
        });
        if !is_due && self.silent < self.keep_alive {
            return false;
        }
        (self.held, self.work, self.silent) = (Some(value), 0.0, 0);
        true
    }
}

/// τ = W / max(P, ε): how long a port that gives power P may go on until its reserve W is spent; what comes later than that is of no use to it.
pub fn lasts(reserve: f64, port: &Port) -> Duration {
    /// W: a reserve of the default lasts longer than a minute.
    const LEAST: f64 = 1e-4;
    Duration::from_secs_f64(reserve.max(0.0) / dot(&port.force, &port.velocity).max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn of(newtons: f64) -> Message {
        Message { force: [newtons, 0.0, 0.0], ..Message::default() }
    }

    fn port(velocity: f64) -> Port {
        Port { force: [0.0; 3], velocity: [velocity, 0.0, 0.0] }
    }

    #[test]
    fn the_work_of_holding_makes_due_what_is_within_its_deadband() {
        let within = |velocity: f64, reserve: f64| {
            let mut worth = Worth::new(Quantity::Force, MS).weber(0.5, 0.0).work(0.1);
            worth.is_due(&of(1.0), &port(velocity), reserve);
            (1..=1_000).find(|_| worth.is_due(&of(1.2), &port(velocity), reserve))
        };
        // 0.2 N at 0.1 m/s are 20 µJ a period; a tenth of 1.9 mJ is spent after ten.
        assert_eq!(within(0.1, 0.0019), Some(10));
        assert_eq!(within(0.0, 0.0019), None);
        assert_eq!(within(0.1, 0.0), Some(1), "with nothing left everything is due");
    }

    #[test]
    fn by_an_infinite_fraction_no_change_is_due_whatever_is_held() {
        for held in [0.0, 1.0] {
            let mut worth = Worth::new(Quantity::Force, MS).weber(f64::INFINITY, 0.05);
            assert!(worth.is_due(&of(held), &port(0.1), 1.0), "nothing was sent before");
            assert!(!worth.is_due(&of(100.0), &port(0.1), 1.0), "{held} N held");
        }
    }

    #[test]
    fn a_silence_ends_with_the_keep_alive() {
        let mut worth = Worth::new(Quantity::Force, MS).weber(0.1, 0.01).keep_alive(5);
        let due: Vec<bool> = (0..12).map(|_| worth.is_due(&of(1.0), &port(0.0), 1.0)).collect();
        assert_eq!(due.iter().filter(|due| **due).count(), 3, "{due:?}");
    }

    #[test]
    fn a_reserve_lasts_until_its_port_has_given_it() {
        let port = Port { force: [2.0, 0.0, 0.0], velocity: [0.1, 0.0, 0.0] };
        assert_eq!(lasts(0.02, &port), MS * 100);
        assert_eq!(lasts(-1.0, &port), Duration::ZERO);
        assert!(lasts(0.02, &Port::default()) > Duration::from_secs(60));
    }
}
