//! What turns about x, at the end of a lever: metres and newtons there are as many times the lever in radians and newton metres.
//!
//! The simulated hand, the arm and what it touches are masses, springs and dampers along x. Where they [turn](crate::scenario::Teleop::turns), their states say the same as a turn about
//! x, and what is measured of these is what happens at the lever's end again.

use taut_agent::control::{Orientation, Place, Vector};
use taut_session::{State, Turning};

/// m.
pub(crate) const LEVER: f64 = 0.1;

/// Says of what is along x that it turns about x.
pub(crate) fn turned(state: State, position: &Vector, velocity: &Vector) -> State {
    let about = |along: f64| [along as f32, 0.0, 0.0];
    let Orientation(orientation) = Orientation::ORIGIN.after(position[0] / LEVER, &[1.0, 0.0, 0.0]);
    let [mut at, mut moves, mut force] = [state.position, state.velocity, state.force];
    let torque = about(f64::from(force[0]) * LEVER);
    [at[0], moves[0], force[0]] = [0.0; 3];
    State {
        position: at,
        velocity: moves,
        force,
        orientation_wxyz: orientation.map(|part| part as f32),
        turning: Some(Turning { velocity: about(velocity[0] / LEVER), torque }),
        ..state
    }
}

/// Of a state that turns, what happens at the lever's end, m, m/s and N; of any other the state.
pub(crate) fn at_lever(state: &State) -> [Vector; 3] {
    let [mut position, mut velocity, mut force] =
        [state.position, state.velocity, state.force].map(|vector| vector.map(f64::from));
    if let Some(turning) = state.turning {
        let orientation = Orientation(state.orientation_wxyz.map(f64::from));
        position[0] = orientation.way_from(&Orientation::ORIGIN)[0] * LEVER;
        velocity[0] = f64::from(turning.velocity[0]) * LEVER;
        force[0] = f64::from(turning.torque[0]) / LEVER;
    }
    [position, velocity, force]
}

#[cfg(test)]
mod tests {
    use taut_core::Time;

    use super::*;

    #[test]
    fn what_turned_is_the_same_at_the_levers_end_and_what_does_not_is_untouched() {
        assert!((LEVER * LEVER - Orientation::LEVER_SQUARED).abs() < 1e-15);
        let state = State {
            position: [-0.09, 0.02, 0.03],
            velocity: [0.4, -0.1, 0.0],
            force: [-3.0, 0.5, 0.25],
            ..State::at(Time::ZERO)
        };
        let wide = |vector: [f32; 3]| vector.map(f64::from);
        let plain = [state.position, state.velocity, state.force].map(wide);
        assert_eq!(at_lever(&state), plain);
        let turns = turned(state, &plain[0], &plain[1]);
        assert!(turns.position[0] == 0.0 && turns.force[0] == 0.0 && turns.is_finite());
        let torque = turns.turning.unwrap().torque[0];
        assert!((torque + 0.3).abs() < 1e-7, "{torque} N·m");
        for (found, expected) in at_lever(&turns).as_flattened().iter().zip(plain.as_flattened()) {
            assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
        }
    }
}
