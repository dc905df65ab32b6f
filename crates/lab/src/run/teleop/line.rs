//! Hand and arm in step over two lines of constant delay, and nothing else: no clocks, no transport, no session.

use std::collections::VecDeque;

use taut_agent::{CoupledArm, CoupledHand, Measured, OperatorDevice, RobotDevice, SetPoint};
use taut_core::{Duration, Probability, Rng, Seed, Time};
use taut_session::{MotionLimits, State};

use super::control::Control;
use crate::hand::SimulatedHand;
use crate::metrics::Watch;
use crate::robot::{SimulatedArm, SimulatedRobot};
use crate::scenario::Teleop;
use taut_report::result::ControlResult;

/// Between hand and arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Of the round trip, what sampling and holding take at the two ends included: a period in all.
    pub(crate) periods: usize,
    /// Of each message, each way.
    pub(crate) loss: Probability,
}

/// One way, and what is under way: nothing where it was lost.
struct Way {
    loss: Probability,
    rng: Rng,
    under_way: VecDeque<Option<State>>,
}

impl Way {
    fn new(loss: Probability, rng: Rng) -> Self {
        Self { loss, rng, under_way: VecDeque::new() }
    }

    fn send(&mut self, state: State) {
        let is_lost = self.loss.sample(&mut self.rng);
        self.under_way.push_back((!is_lost).then_some(state));
    }

    /// What was sent when there were so many behind it.
    fn arrived(&mut self, behind: usize) -> Option<State> {
        if self.under_way.len() > behind { self.under_way.pop_front().flatten() } else { None }
    }
}

fn devices(teleop: &Teleop, seed: Seed) -> (Box<dyn OperatorDevice>, Box<dyn RobotDevice>) {
    let hand = SimulatedHand::of_run(teleop, seed);
    let arm = SimulatedArm::of_run(teleop, seed, hand.position());
    let servo = SimulatedRobot::SERVO;
    match teleop.coupling() {
        Some(law) => (
            Box::new(CoupledHand::new(hand, law, servo, teleop.period, teleop.device_force)),
            Box::new(CoupledArm::new(arm, law, servo, MotionLimits::new(), teleop.watchdog)),
        ),
        None => (Box::new(hand), Box::new(arm)),
    }
}

/// Hand and arm for so long over this line. `None` where the arm does not move. A step moves with what is known at its end, half a period
/// early at each end, so that what comes back takes a period more.
pub(crate) fn touched(teleop: &Teleop, time: Duration, line: Line, seed: Seed) -> Option<ControlResult> {
    let behind = (line.periods / 2).min(1_000);
    let behind_back = line.periods - behind;
    let watch = Watch { warmup: Duration::ZERO, duration: time };
    let mut control = Control::new(teleop, seed, watch);
    let (mut hand, mut arm) = devices(teleop, seed);
    arm.enable().ok()?;
    control.moves(true);
    let wide = |vector: [f32; 3]| vector.map(f64::from);
    let way = |name| Way::new(line.loss, seed.stream(name));
    let (mut there, mut back) = (way("line/there"), way("line/back"));
    for step in 1..=time / teleop.period {
        let now = Time::ZERO + teleop.period * step;
        if let Some(state) = back.arrived(behind_back) {
            hand.feel(now, &state);
        }
        let state = hand.sample(now)?.state;
        control.device(now, wide(state.position), wide(state.velocity), wide(state.force));
        there.send(state);
        if let Some(state) = there.arrived(behind) {
            arm.apply(&SetPoint { state, lease: teleop.watchdog });
        }
        let Measured { state, feedback, .. } = arm.measure()?;
        control.arm(now, wide(state.position), wide(state.force));
        back.send(feedback.map_or(state, |law| law.state));
    }
    control.to_result(teleop)
}
