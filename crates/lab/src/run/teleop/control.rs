//! What the network does to the loop through hand and arm.
//!
//! The session is a two-port network between hand and arm. Power flows into it where the hand moves against the force that
//! the device pushes back with, and out of it where the arm is told to move against the environment:
//!
//! ```text
//! E(t) = ∫ (f_m · v_m + f_s · v_s) dτ,   f_m = −(force on the hand), v_m = velocity of the device,
//!                                        f_s = force of the environment on the arm, v_s = velocity that the arm is told
//! ```
//!
//! A session without delay has `f_m = −f_s` and `v_m = v_s`, and E stays 0. Where E is negative, the network gave more than
//! it took: it was active, and what it gave, −min E, is what damping has to take out again. This is the passivity observer
//! of Hannaford and Ryu, *Time-Domain Passivity Control of Haptic Interfaces*, IEEE Transactions on Robotics and
//! Automation 18(1), 2002, eq. (5), at the two ports of the network.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use crate::demo::Vector;
use crate::hand::{dot, norm};
use crate::metrics::{Buckets, Moments, Watch};
use taut_report::result::{ControlResult, Series};

/// A hand does not move a device faster than this by itself, m/s.
const RUNAWAY: f64 = 1.5;
/// A hand does not begin more contacts a second than this by itself.
const RATTLE: usize = 3;
/// Newtons at which arm and environment touch.
const TOUCH: f64 = 0.05;

/// Watches hand and arm.
pub(super) struct Control {
    dt: f64,
    /// The hand: position, velocity, and the force that it is given.
    device: [Vector; 3],
    moving: bool,
    master_j: f64,
    slave_j: f64,
    least_j: f64,
    tracking: Moments,
    tracking_squares: f64,
    force: Moments,
    force_squares: f64,
    largest_force: f64,
    fastest: f64,
    touching: bool,
    contacts: u64,
    contact_steps: u64,
    steps: u64,
    /// When the contacts of the last second began, and the most that were in one.
    recent: VecDeque<Time>,
    rattle: usize,
    series: [Buckets; 4],
}

impl Control {
    pub(super) fn new(period: Duration, watch: Watch) -> Self {
        Self {
            dt: period.as_secs_f64(),
            device: [[0.0; 3]; 3],
            moving: false,
            master_j: 0.0,
            slave_j: 0.0,
            least_j: 0.0,
            tracking: Moments::default(),
            tracking_squares: 0.0,
            force: Moments::default(),
            force_squares: 0.0,
            largest_force: 0.0,
            fastest: 0.0,
            touching: false,
            contacts: 0,
            contact_steps: 0,
            steps: 0,
            recent: VecDeque::new(),
            rattle: 0,
            series: std::array::from_fn(|_| watch.whole()),
        }
    }

    /// The robot moves, or stands.
    pub(super) fn moves(&mut self, moves: bool) {
        self.moving = moves;
    }

    /// The device made a step.
    pub(super) fn device(&mut self, position: Vector, velocity: Vector, force: Vector) {
        self.device = [position, velocity, force];
        if self.moving {
            self.master_j -= dot(&force, &velocity) * self.dt;
            self.fastest = self.fastest.max(norm(&velocity));
        }
    }

    /// The arm made a step. `told` is the velocity that it was told last, `force` that of the environment on it.
    pub(super) fn arm(&mut self, now: Time, position: Vector, told: Vector, force: Vector) {
        self.touch(now, norm(&force) > TOUCH);
        let [x, y] = [norm(&self.device[2]), norm(&force)];
        self.series[2].record(now, x);
        self.series[3].record(now, y);
        if !self.moving {
            return;
        }
        self.steps += 1;
        self.slave_j += dot(&force, &told) * self.dt;
        let energy = self.master_j + self.slave_j;
        self.least_j = self.least_j.min(energy);
        let apart = |a: &Vector, b: &Vector| norm(&std::array::from_fn(|i| a[i] - b[i]));
        let (tracking, error) = (apart(&self.device[0], &position), apart(&self.device[2], &force));
        self.tracking.record(tracking);
        self.tracking_squares += tracking * tracking;
        self.force.record(error);
        self.force_squares += error * error;
        self.largest_force = self.largest_force.max(norm(&force));
        self.series[0].record(now, tracking * 1e3);
        self.series[1].record(now, energy * 1e3);
    }

    fn touch(&mut self, now: Time, touches: bool) {
        self.contact_steps += u64::from(touches && self.moving);
        if touches && !self.touching {
            self.contacts += 1;
            self.recent.push_back(now);
            while self.recent.front().is_some_and(|at| now.saturating_since(*at) > Duration::from_secs(1)) {
                self.recent.pop_front();
            }
            self.rattle = self.rattle.max(self.recent.len());
        }
        self.touching = touches;
    }

    /// `None` when the robot never moved. `feels` tells whether force comes back to the hand.
    pub(super) fn to_result(&self, environment: &str, feels: bool) -> Option<ControlResult> {
        let rms = |squares: f64| (squares / self.steps as f64).sqrt();
        (self.steps > 0).then(|| ControlResult {
            environment: environment.to_owned(),
            moved_s: self.steps as f64 * self.dt,
            tracking_rms_mm: rms(self.tracking_squares) * 1e3,
            tracking_max_mm: self.tracking.max * 1e3,
            force_error_rms_n: feels.then(|| rms(self.force_squares)),
            force_error_max_n: feels.then_some(self.force.max),
            force_max_n: self.largest_force,
            energy_mj: feels.then_some((self.master_j + self.slave_j) * 1e3),
            // Adding zero turns a negative zero into zero.
            injected_mj: feels.then_some(-self.least_j * 1e3 + 0.0),
            contacts: self.contacts,
            contact_s: self.contact_steps as f64 * self.dt,
            contacts_per_s_max: self.rattle as u64,
            speed_max_m_s: self.fastest,
            stable: self.fastest <= RUNAWAY && self.rattle <= RATTLE,
        })
    }

    pub(super) fn series(&self) -> Vec<Series> {
        let [tracking, energy, felt, met] = &self.series;
        let all = [
            tracking.to_result("tracking error", "arm", "mm"),
            energy.to_result("network energy", "session", "mJ"),
            felt.to_result("force", "on the hand", "N"),
            met.to_result("force", "on the arm", "N"),
        ];
        all.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A hand that moves to and fro at 1 Hz or so against a spring of 500 N/m, `late` steps behind.
    fn run(late: usize) -> ControlResult {
        let watch = Watch { warmup: Duration::ZERO, duration: Duration::from_secs(10) };
        let mut control = Control::new(MS, watch);
        control.moves(true);
        let (mut x, mut v) = (0.01, 0.0);
        let mut past = VecDeque::from(vec![[x, v]; late + 1]);
        for step in 0..10_000u64 {
            v -= 40.0 * x * 0.001;
            x += v * 0.001;
            past.push_front([x, v]);
            let [arm_x, arm_v] = past[late];
            past.truncate(late + 1);
            let force = -500.0 * arm_x;
            control.device([x, 0.0, 0.0], [v, 0.0, 0.0], [force, 0.0, 0.0]);
            control.arm(Time::ZERO + MS * step, [arm_x, 0.0, 0.0], [arm_v, 0.0, 0.0], [force, 0.0, 0.0]);
        }
        control.to_result("spring", true).unwrap()
    }

    #[test]
    fn a_network_without_delay_neither_gives_nor_takes_and_delay_gives() {
        let ideal = run(0);
        let injected = |result: &ControlResult| result.injected_mj.unwrap();
        assert!(injected(&ideal).abs() < 1e-9 && ideal.tracking_max_mm < 1e-9, "{ideal:?}");
        let late = run(50);
        assert!(injected(&late) > 1.0 && late.tracking_rms_mm > 1.0, "{late:?}");
        assert!(injected(&run(100)) > injected(&late));
        assert!(ideal.stable);
    }

    #[test]
    fn rattling_and_running_away_are_no_stability() {
        let watch = Watch { warmup: Duration::ZERO, duration: Duration::from_secs(10) };
        let mut control = Control::new(MS, watch);
        control.moves(true);
        for step in 0..1000u64 {
            let force = if step / 50 % 2 == 0 { -1.0 } else { 0.0 };
            control.arm(Time::ZERO + MS * step, [0.0; 3], [0.0; 3], [force, 0.0, 0.0]);
        }
        let result = control.to_result("wall", true).unwrap();
        assert_eq!((result.contacts, result.contacts_per_s_max, result.stable), (10, 10, false));
        let mut control = Control::new(MS, watch);
        control.moves(true);
        control.device([0.0; 3], [2.0, 0.0, 0.0], [0.0; 3]);
        control.arm(Time::ZERO, [0.0; 3], [0.0; 3], [0.0; 3]);
        assert!(!control.to_result("free", true).unwrap().stable);
    }
}
