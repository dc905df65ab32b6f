//! A state as devices make it and robots take it.

use taut_core::{Duration, PeerTime, Time};
use taut_wire::session as wire;
pub use taut_wire::session::{Priority, Turning};

/// Pose, velocity and force of a device, or of a robot, at one time.
///
/// ```
/// use taut_core::Time;
/// use taut_session::{Priority, State};
/// let state = State { position: [0.1, 0.0, -0.05], priority: Priority::High, ..State::at(Time::ZERO) };
/// assert!(state.is_finite());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// When it was made, on this end's clock; age counts from here.
    pub created: Time,
    /// How urgent.
    pub priority: Priority,
    /// x, y, z in m.
    pub position: [f32; 3],
    /// A unit quaternion: w, x, y, z.
    pub orientation_wxyz: [f32; 4],
    /// x, y, z in m/s.
    pub velocity: [f32; 3],
    /// x, y, z in N.
    pub force: [f32; 3],
    /// What a control law has put into the channel so far, J; it travels with the native codec alone.
    pub energy: Option<f64>,
    /// How it turns, where it is told; it travels where [both ends tell it](crate::OperatorConfig::turns).
    pub turning: Option<Turning>,
    /// What a control law has put into the channel of turns so far, J; it travels where both `energy` and `turning` do.
    pub turning_energy: f64,
    /// The device is locked: it may move, and the robot does not.
    pub locked: bool,
    /// The enabling input of the device is held (hold to run).
    pub enabling: bool,
    /// 0 open … 65535 closed.
    pub gripper: u16,
}

impl State {
    /// At rest in the origin, upright, without force, not urgent, made at `created`.
    pub const fn at(created: Time) -> Self {
        Self {
            created,
            priority: Priority::Normal,
            position: [0.0; 3],
            orientation_wxyz: [1.0, 0.0, 0.0, 0.0],
            velocity: [0.0; 3],
            force: [0.0; 3],
            energy: None,
            turning: None,
            turning_energy: 0.0,
            locked: false,
            enabling: false,
            gripper: 0,
        }
    }

    /// Is every number finite?
    #[inline]
    pub fn is_finite(&self) -> bool {
        let numbers =
            self.position.iter().chain(&self.orientation_wxyz).chain(&self.velocity).chain(&self.force);
        let Turning { velocity, torque } = self.turning.unwrap_or_default();
        let energies = [self.energy.unwrap_or_default(), self.turning_energy];
        numbers.chain(&velocity).chain(&torque).copied().all(f32::is_finite)
            && energies.into_iter().all(f64::is_finite)
    }

    /// As it is sent and taken where states say how they turn, or do not.
    pub(crate) fn as_sent(self, turns: bool) -> Self {
        Self { turning: self.turning.filter(|_| turns), ..self }
    }

    /// When it was sent, by the clock of whoever made it.
    pub(crate) fn sent_on(wire: &wire::State) -> PeerTime {
        PeerTime(wire.created_ns.saturating_add(u64::from(wire.waited_us) * 1_000))
    }

    /// Read from the wire; `created` is when it was made on this end's clock.
    pub(crate) const fn from_wire(wire: &wire::State, created: Time) -> Self {
        Self {
            created,
            priority: wire.priority,
            position: wire.position,
            orientation_wxyz: wire.orientation_wxyz,
            velocity: wire.velocity,
            force: wire.force,
            energy: wire.energy,
            turning: wire.turning,
            turning_energy: wire.turning_energy,
            locked: wire.locked,
            enabling: wire.enabling,
            gripper: wire.gripper,
        }
    }

    /// As it is sent at `now`.
    #[inline]
    pub(crate) fn to_wire(
        self,
        now: Time,
        sequence: u64,
        stream: u8,
        deadline: Option<Duration>,
    ) -> wire::State {
        wire::State {
            sequence,
            created_ns: self.created.as_nanos(),
            waited_us: now.saturating_since(self.created).as_micros_u32(),
            // 0 would mean never.
            deadline_us: deadline.map_or(0, |deadline| deadline.as_micros_u32().max(1)),
            priority: self.priority,
            stream,
            locked: self.locked,
            enabling: self.enabling,
            gripper: self.gripper,
            position: self.position,
            orientation_wxyz: self.orientation_wxyz,
            velocity: self.velocity,
            force: self.force,
            energy: self.energy,
            turning: self.turning,
            turning_energy: self.turning_energy,
        }
    }
}
