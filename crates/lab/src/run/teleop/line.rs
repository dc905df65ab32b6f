//! Hand and arm in step over two lines, and nothing else: no clocks, no transport, no session.

use std::collections::VecDeque;

use taut_agent::{Measured, OperatorDevice, RobotDevice, SetPoint};
use taut_core::{Duration, Probability, Rng, Seed, Time};
use taut_session::{MotionLimits, State};

use super::control::Control;
use crate::hand::SimulatedHand;
use crate::lever;
use crate::metrics::Watch;
use crate::pace::Pace;
use crate::robot::SimulatedArm;
use crate::run::settings;
use crate::scenario::Teleop;
use taut_report::result::ControlResult;

/// Between hand and arm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// Of the shortest round trip, what sampling and holding take at the two ends included: a period in all.
    pub(crate) periods: usize,
    /// By so many periods, all alike by chance, each message may be later than that, each way.
    pub(crate) spread: usize,
    /// Of each message, each way.
    pub(crate) loss: Probability,
}

impl Line {
    /// Is nothing lost, and everything as long under way?
    pub(crate) fn is_even(&self) -> bool {
        self.spread == 0 && self.loss == Probability::default()
    }

    /// Of the shortest way there, in periods; the rest is the way back.
    pub(crate) fn there(&self) -> usize {
        (self.periods / 2).min(1_000)
    }
}

/// What is under way, one way. What was overtaken is not delivered: it is old news.
pub(crate) struct UnderWay<T> {
    delay: u64,
    spread: usize,
    rng: Rng,
    made: u64,
    /// Each with how many have to be made until it is there.
    messages: VecDeque<(u64, T)>,
}

impl<T> UnderWay<T> {
    /// For so many periods, and up to `spread` more.
    pub(crate) fn new(delay: usize, spread: usize, rng: Rng) -> Self {
        Self { delay: delay as u64, spread, rng, made: 0, messages: VecDeque::new() }
    }

    /// One is made in each period; `None`: it is lost.
    pub(crate) fn push(&mut self, message: Option<T>) {
        self.made += 1;
        let later = if self.spread == 0 { 0.0 } else { self.rng.fraction() * (self.spread + 1) as f64 };
        let due = self.made + self.delay + later as u64;
        self.messages.extend(message.map(|message| (due, message)));
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let newest = self.messages.iter().rposition(|(due, _)| *due <= self.made)?;
        self.messages.drain(..=newest).next_back().map(|(_, message)| message)
    }
}

/// One way.
struct Way {
    loss: Probability,
    rng: Rng,
    under_way: UnderWay<State>,
}

impl Way {
    fn new(line: Line, delay: usize, name: &str, seed: Seed) -> Self {
        let late = seed.stream(&format!("{name}/late"));
        Self { loss: line.loss, rng: seed.stream(name), under_way: UnderWay::new(delay, line.spread, late) }
    }

    /// Once a period; `None`: nothing is due.
    fn offer(&mut self, state: Option<State>) {
        let is_lost = state.is_some() && self.loss.sample(&mut self.rng);
        self.under_way.push(state.filter(|_| !is_lost));
    }
}

fn devices(teleop: &Teleop, seed: Seed) -> (Box<dyn OperatorDevice>, Box<dyn RobotDevice>) {
    let hand = SimulatedHand::of_run(teleop, seed);
    let arm = SimulatedArm::of_run(teleop, seed, hand.position());
    match settings::coupling(teleop) {
        Some(coupling) => (
            Box::new(coupling.hand(hand, teleop.period, settings::most(teleop))),
            Box::new(coupling.arm(arm, MotionLimits::new(), teleop.watchdog)),
        ),
        None => (Box::new(hand), Box::new(arm)),
    }
}

/// Hand and arm for so long over this line, which carries as many states and forces a second as a session does. `None` where the arm does not move. A step
/// moves with what is known at its end, half a period early at each end, so that what comes back takes a period more.
pub(crate) fn touched(teleop: &Teleop, time: Duration, line: Line, seed: Seed) -> Option<ControlResult> {
    let watch = Watch::all_of(time);
    let mut control = Control::new(teleop, seed, watch);
    let (mut hand, mut arm) = devices(teleop, seed);
    arm.enable().ok()?;
    control.moves(true);
    let mut rate = Pace::per_second(teleop.rate);
    let mut there = Way::new(line, line.there(), "line/there", seed);
    let mut back = Way::new(line, line.periods - line.there(), "line/back", seed);
    for step in 1..=time / teleop.period {
        let now = Time::ZERO + teleop.period * step;
        if let Some(state) = back.under_way.pop() {
            hand.feel(now, &state);
        }
        let state = hand.sample(now)?.state;
        let [position, velocity, force] = lever::at_lever(&state);
        control.device(now, position, velocity, force);
        rate.pass(teleop.period);
        there.offer(rate.take().then_some(state));
        if let Some(state) = there.under_way.pop() {
            arm.apply(&SetPoint { state, lease: teleop.watchdog, fresh: teleop.oldest() });
        }
        let Measured { state, feedback, .. } = arm.measure()?;
        let [position, _, force] = lever::at_lever(&state);
        control.arm(now, position, force);
        let said = State { created: now, ..feedback.map_or(state, |law| law.state) };
        back.offer(arm.feeds_back().then_some(said));
    }
    control.to_result(teleop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is delivered when, of one number a period.
    fn delivered(spread: usize) -> Vec<(u64, u64)> {
        let mut under_way = UnderWay::new(10, spread, Seed::new(1).stream("late"));
        let pass = |number: u64| {
            under_way.push((!number.is_multiple_of(7)).then_some(number));
            under_way.pop().map(|delivered| (number, delivered))
        };
        (0..10_000).filter_map(pass).collect()
    }

    #[test]
    fn a_line_without_spread_delivers_all_that_is_not_lost_after_its_delay() {
        let delivered = delivered(0);
        assert!(delivered.iter().all(|(at, number)| at - number == 10 && !number.is_multiple_of(7)));
        assert_eq!(delivered.len(), (0..9_990u64).filter(|number| !number.is_multiple_of(7)).count());
    }

    #[test]
    fn a_line_with_spread_is_late_by_up_to_it_and_delivers_nothing_that_was_overtaken() {
        let delivered = delivered(4);
        assert!(delivered.is_sorted_by_key(|(_, number)| *number));
        let late = |periods: u64| delivered.iter().any(|(at, number)| at - number == 10 + periods);
        assert_eq!([0, 1, 2, 3, 4, 5].map(late), [true, true, true, true, true, false]);
        assert!((3_000..8_000).contains(&delivered.len()), "{}", delivered.len());
    }
}
