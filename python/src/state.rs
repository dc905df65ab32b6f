//! States and limits, as Python has them.

use pyo3::prelude::*;
use taut::StateLimits;
use taut_core::Time;
use taut_session::{LimitPolicy, MotionLimits};

use crate::error::SettingError;

/// Pose, velocity and force of a hand or an arm. Frozen.
#[pyclass(frozen, eq, name = "State", module = "taut", from_py_object)]
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct PyState(pub(crate) taut::State);

impl PyState {
    pub(crate) fn of_session(state: &taut_session::State) -> Self {
        let own = taut::State::at(state.position).with_orientation_wxyz(state.orientation_wxyz);
        let mut own = own.with_velocity(state.velocity).with_force(state.force);
        (own.gripper, own.locked, own.enabling) = (state.gripper, state.locked, state.enabling);
        own.turning = state.turning;
        Self(own)
    }

    /// Made at this time.
    pub(crate) fn to_session(self, created: Time) -> taut_session::State {
        let taut::State {
            position,
            orientation_wxyz,
            velocity,
            force,
            turning,
            gripper,
            locked,
            enabling,
            ..
        } = self.0;
        taut_session::State {
            position,
            orientation_wxyz,
            velocity,
            force,
            turning,
            gripper,
            locked,
            enabling,
            ..taut_session::State::at(created)
        }
    }
}

type Vector = (f32, f32, f32);

const fn vector([x, y, z]: [f32; 3]) -> Vector {
    (x, y, z)
}

#[pymethods]
impl PyState {
    #[new]
    #[pyo3(signature = (
        position = [0.0; 3], *, orientation_wxyz = [1.0, 0.0, 0.0, 0.0], velocity = [0.0; 3], force = [0.0; 3], angular_velocity = None,
        torque = None, gripper = 0, locked = false, enabling = false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        position: [f32; 3],
        orientation_wxyz: [f32; 4],
        velocity: [f32; 3],
        force: [f32; 3],
        angular_velocity: Option<[f32; 3]>,
        torque: Option<[f32; 3]>,
        gripper: u16,
        locked: bool,
        enabling: bool,
    ) -> Self {
        let state = taut::State::at(position).with_orientation_wxyz(orientation_wxyz);
        let mut state = state.with_velocity(velocity).with_force(force);
        state = angular_velocity.map_or(state, |velocity| state.with_angular_velocity(velocity));
        state = torque.map_or(state, |torque| state.with_torque(torque));
        (state.gripper, state.locked, state.enabling) = (gripper, locked, enabling);
        Self(state)
    }
    #[getter]
    fn position(&self) -> Vector {
        vector(self.0.position)
    }
    #[getter]
    fn orientation_wxyz(&self) -> (f32, f32, f32, f32) {
        let [w, x, y, z] = self.0.orientation_wxyz;
        (w, x, y, z)
    }
    #[getter]
    fn velocity(&self) -> Vector {
        vector(self.0.velocity)
    }
    #[getter]
    fn force(&self) -> Vector {
        vector(self.0.force)
    }
    #[getter]
    fn angular_velocity(&self) -> Option<Vector> {
        self.0.turning.map(|turning| vector(turning.velocity))
    }
    #[getter]
    fn torque(&self) -> Option<Vector> {
        self.0.turning.map(|turning| vector(turning.torque))
    }
    #[getter]
    fn gripper(&self) -> u16 {
        self.0.gripper
    }
    #[getter]
    fn locked(&self) -> bool {
        self.0.locked
    }
    #[getter]
    fn enabling(&self) -> bool {
        self.0.enabling
    }
    fn __repr__(&self) -> String {
        let taut::State { position, orientation_wxyz, velocity, force, turning, gripper, .. } = self.0;
        let turning = turning.map_or_else(String::new, |taut::Turning { velocity, torque }| {
            format!("angular_velocity={velocity:?}, torque={torque:?}, ")
        });
        format!(
            "State({position:?}, orientation_wxyz={orientation_wxyz:?}, velocity={velocity:?}, force={force:?}, {turning}gripper={gripper})"
        )
    }
}

/// What a robot lets itself be told; nothing moves without.
#[pyclass(frozen, name = "Limits", module = "taut")]
pub(crate) struct PyLimits {
    position: [[f32; 3]; 2],
    velocity: f32,
    angular_velocity: f32,
    force: f32,
    torque: f32,
    stiffness: Option<f32>,
    acceleration: Option<f32>,
    refuse: bool,
}

impl PyLimits {
    /// Of a robot.
    pub(crate) fn of_robot(&self) -> StateLimits {
        let [least, largest] = self.position;
        let mut limits = StateLimits::new().position(least, largest).velocity(self.velocity);
        limits = limits.angular_velocity(self.angular_velocity).force(self.force).torque(self.torque);
        limits = self.stiffness.map_or(limits, |stiffness| limits.stiffness(stiffness));
        limits = self.acceleration.map_or(limits, |acceleration| limits.acceleration(acceleration));
        if self.refuse { limits.refuse() } else { limits }
    }

    /// Of a simulated session.
    ///
    /// # Errors
    /// Those that a robot would be refused with.
    pub(crate) fn of_session(&self) -> PyResult<MotionLimits> {
        let place = self.position.iter().flatten().all(|part| part.is_finite());
        let others = [self.velocity, self.angular_velocity, self.force, self.torque].into_iter();
        let mut others = others.chain(self.stiffness).chain(self.acceleration);
        if !place || !others.all(|limit| limit.is_finite() && limit >= 0.0) {
            return Err(SettingError::new_err("limits are finite numbers, from 0 up but for positions"));
        }
        if !self.stiffness.is_some_and(|known| known > 0.0) {
            let force = self.force;
            return Err(SettingError::new_err(format!(
                "nothing keeps its controller to {force} N when a position is out of reach: set stiffness"
            )));
        }
        let [least, largest] = self.position;
        let mut limits = MotionLimits::new().position(least, largest).velocity(self.velocity);
        limits = limits.angular_velocity(self.angular_velocity).force(self.force).torque(self.torque);
        limits = self.stiffness.map_or(limits, |stiffness| limits.stiffness(stiffness));
        limits = self.acceleration.map_or(limits, |acceleration| limits.acceleration(acceleration));
        Ok(if self.refuse { limits.policy(LimitPolicy::Refuse) } else { limits })
    }
}

#[pymethods]
impl PyLimits {
    #[new]
    #[pyo3(signature = (*, position, velocity, angular_velocity, force, stiffness = None, acceleration = None, refuse = false, torque = 0.0))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    const fn new(
        position: [[f32; 3]; 2],
        velocity: f32,
        angular_velocity: f32,
        force: f32,
        stiffness: Option<f32>,
        acceleration: Option<f32>,
        refuse: bool,
        torque: f32,
    ) -> Self {
        Self { position, velocity, angular_velocity, force, torque, stiffness, acceleration, refuse }
    }
}
