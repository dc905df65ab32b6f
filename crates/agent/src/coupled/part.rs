//! What a law couples of a state: where it is, or how it is turned.

use taut_control::{
    Message, Motion as Moved, OperatorEnd, OperatorOutput, Orientation, Place, RobotEnd, RobotOutput,
    Surroundings, Vector, lasts,
};
use taut_core::{Duration, Time};
use taut_session::motion::{self, Guard, Motion};
use taut_session::{MotionLimits, State, Turning};

use crate::DeviceFailure;

/// Of a state: of points or of turns.
pub(super) trait Part: Place {
    /// Of places as single numbers tell them.
    const ROUNDING: f64;
    /// Those of them that are its.
    fn limits(limits: &MotionLimits) -> MotionLimits;
    /// What the state says of it: its motion, what pushes it, and its energy. `None`: nothing.
    fn of(state: &State) -> Option<(Moved<Self>, Vector, f64)>;
    /// The motion of it in a state within limits.
    fn read(state: &motion::State) -> Moved<Self>;
    /// The state says so of its motion.
    fn tell(state: &mut State, moved: &Moved<Self>);
    /// The state says so of what pushes it.
    fn push(state: &mut State, force: &Vector);

    fn message(state: &State) -> Option<Message<Self>> {
        let (Moved { position, velocity }, force, energy) = Self::of(state)?;
        Some(Message { position, velocity, force, energy })
    }
}

impl Part for Vector {
    const ROUNDING: f64 = 0.0;
    fn limits(limits: &MotionLimits) -> MotionLimits {
        *limits
    }
    fn of(state: &State) -> Option<(Moved, Vector, f64)> {
        let State { position, velocity, force, energy, .. } = state;
        let moved = Moved { position: wide(position), velocity: wide(velocity) };
        Some((moved, wide(force), energy.unwrap_or_default()))
    }
    fn read(state: &motion::State) -> Moved {
        Moved { position: wide(&state.position), velocity: wide(&state.velocity) }
    }
    fn tell(state: &mut State, Moved { position, velocity }: &Moved) {
        (state.position, state.velocity) = (single(position), single(velocity));
    }
    fn push(state: &mut State, force: &Vector) {
        state.force = single(force);
    }
}

impl Part for Orientation {
    const ROUNDING: f64 = 1e-6;
    fn limits(limits: &MotionLimits) -> MotionLimits {
        limits.of_turns()
    }
    fn of(state: &State) -> Option<(Moved<Self>, Vector, f64)> {
        let Turning { velocity, torque } = state.turning?;
        let position = Self(state.orientation_wxyz.map(f64::from));
        Some((Moved { position, velocity: wide(&velocity) }, wide(&torque), state.turning_energy))
    }
    fn read(state: &motion::State) -> Moved<Self> {
        let position = Self(state.orientation_wxyz.map(f64::from));
        Moved { position, velocity: wide(&state.turning.unwrap_or_default().velocity) }
    }
    fn tell(state: &mut State, Moved { position, velocity }: &Moved<Self>) {
        state.orientation_wxyz = position.0.map(|part| part as f32);
        state.turning.get_or_insert_default().velocity = single(velocity);
    }
    fn push(state: &mut State, force: &Vector) {
        state.turning.get_or_insert_default().torque = single(force);
    }
}

/// What goes back in place of what was measured, but for the place.
pub(super) fn say<P: Part>(state: &mut State, message: &Message<P>) {
    let Some((Moved { position, .. }, ..)) = P::of(state) else { return };
    P::tell(state, &Moved { position, velocity: message.velocity });
    P::push(state, &message.force);
}

/// So many periods were missed, and one passes after which the hand's state is this. `None`: it says nothing of it; an error: a number is not finite.
pub(super) fn push<P: Part>(
    end: &mut OperatorEnd<P>,
    missed: u64,
    state: &State,
) -> Option<Result<OperatorOutput<P>, ()>> {
    let (hand, ..) = P::of(state)?;
    end.missed(missed, &hand);
    Some(end.step(&hand).ok_or(()))
}

/// The robot's end of a law, and the limits of its reference.
#[derive(Debug)]
pub(super) struct Led<P> {
    pub(super) end: RobotEnd<P>,
    /// Of the reference.
    guard: Guard,
    measured: Option<Surroundings<P>>,
    /// It was led by a locked hand last: the guard's set point is at rest.
    is_held: bool,
    /// How long it may go on until its reserve is spent.
    pub(super) lasts: Option<Duration>,
}

impl<P: Part> Led<P> {
    /// What is measured counts for the watchdog's time.
    pub(super) fn new(end: RobotEnd<P>, limits: &MotionLimits, watchdog: Duration) -> Self {
        Self {
            end,
            guard: Guard::new(P::limits(limits), watchdog),
            measured: None,
            is_held: false,
            lasts: None,
        }
    }

    pub(super) fn begin_again(&mut self) {
        self.end.begin_again();
        self.lasts = None;
    }

    pub(super) fn measure(&mut self, state: &State) {
        self.measured = P::of(state).map(|(arm, force, _)| Surroundings { arm, force });
    }

    pub(super) const fn is_measured(&self) -> bool {
        self.measured.is_some()
    }

    /// False: a number is not finite.
    pub(super) fn tell(&mut self, state: &State) -> bool {
        P::message(state).is_none_or(|message| self.end.tell(&message))
    }

    /// It is so old.
    pub(super) fn receive(&mut self, state: &State, age: Duration) {
        P::message(state).iter().for_each(|message| self.end.receive(message, age));
    }

    /// One period passes, in which the reference of a passive law stays where it is if the hand is locked, but for the workspace and the reach of its force. `None`: nothing is measured; an error: why the arm is to stop.
    pub(super) fn lead(
        &mut self,
        now: Time,
        is_locked: bool,
    ) -> Option<Result<RobotOutput<P>, DeviceFailure>> {
        let measured = self.measured?;
        if !self.end.is_near(&measured.arm.position) {
            return Some(Err(DeviceFailure::TurnedApart));
        }
        let was_held = std::mem::replace(&mut self.is_held, is_locked);
        let begins_to_stay = is_locked && !was_held;
        let Self { end, guard, .. } = self;
        guard.measure(now, &told(&measured.arm));
        let mut allowed = None;
        let limits = |asked| {
            allowed = if begins_to_stay { None } else { bound(guard, now, asked) };
            allowed
        };
        let output =
            if is_locked { end.hold_within(&measured, limits) } else { end.step_within(&measured, limits) };
        let Some(output) = output else {
            return Some(Err(DeviceFailure::Stopped("what it measures is no finite number".to_owned())));
        };
        let is_counted = end.leads() && end.law().is_passive();
        self.lasts = is_counted.then(|| lasts(output.reserve, &output.port()));
        if !end.leads() {
            guard.enable(now);
        } else if is_locked || allowed.is_some_and(|allowed| allowed != output.reference) {
            // It was held where it is, or held back by energy as well: the set point is where it came to.
            guard.measure(now, &told(&output.reference));
            guard.enable(now);
        }
        Some(Ok(output))
    }
}

/// Where the reference may be at `now`; `None`: where it is.
fn bound<P: Part>(guard: &mut Guard, now: Time, asked: Moved<P>) -> Option<Moved<P>> {
    let wanted = told(&asked);
    let (Motion::State(bounded), Motion::State(wanted)) = (guard.bound(now, &wanted).ok()?, &wanted) else {
        return None;
    };
    let [mut bounded, wanted] = [&bounded, wanted].map(P::read);
    if bounded.position.way_from(&wanted.position).iter().all(|part| part.abs() <= P::ROUNDING) {
        bounded.position = wanted.position;
    }
    Some(if bounded == wanted { asked } else { bounded })
}

fn told<P: Part>(moved: &Moved<P>) -> Motion {
    let mut state = State::at(Time::ZERO);
    P::tell(&mut state, moved);
    Motion::State((&state).into())
}

fn wide(vector: &[f32; 3]) -> Vector {
    vector.map(f64::from)
}

fn single(vector: &Vector) -> [f32; 3] {
    vector.map(|part| part as f32)
}
