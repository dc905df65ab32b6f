//! What hand and arm are made of beyond masses and springs: bearings that rub, encoders that step, filters, and amplifiers that lag.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::Duration;

use super::teleop::{SECOND, Teleop};
use super::validate::{Checked, within};

/// The device in the hand, beyond its `device_force`. As it is by itself it has no mass of its own, rubs nowhere, and is exact and immediate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSpec {
    /// Beside that of the grip, kg. 0 to 10.
    pub mass: f64,
    /// Viscous, of its bearings, N s/m. 0 to 1000.
    pub damping: f64,
    /// Coulomb, of its bearings, N. 0 to 100.
    pub friction: f64,
    /// From one reading to the next, m; velocity is then the difference of two readings by the period. 0, exact, to 0.01.
    pub encoder: f64,
    /// Time constant of a low-pass on the velocity that it tells. 0 to 1s.
    pub velocity_filter: Duration,
    /// Time constant with which its force follows what is asked: amplifier and motor. 0 to 1s.
    pub lag: Duration,
}

/// The arm, beyond its mass of 0.3 kg and its controller of 3 kN/m and 45 N s/m, which knows exactly where it is. As it is by itself it rubs nowhere, tells exactly where
/// it is, and its controller is immediate and as strong as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArmSpec {
    /// Coulomb, of its bearings, N. 0 to 100.
    pub friction: f64,
    /// From one reading that it tells to the next, m; velocity is then the difference of two readings by the period. 0, exact, to 0.01.
    pub encoder: f64,
    /// Time constant of a low-pass on the velocity that it tells. 0 to 1s.
    pub velocity_filter: Duration,
    /// Time constant with which its controller's force follows what is asked: amplifier and motor. 0 to 100ms.
    pub lag: Duration,
    /// The most that its controller can push, N. 0.001 to 10000. Without it: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<f64>,
}

/// m.
const COARSEST: f64 = 0.01;
const MOST_LAG: Duration = Duration::from_millis(100);

pub(super) fn check(teleop: &Teleop) -> Checked {
    let key = |of: &str, name: &str| format!("teleop.{of}.{name}");
    let (device, arm) = (teleop.device, teleop.arm);
    for (of, friction, encoder, filter) in [
        ("device", device.friction, device.encoder, device.velocity_filter),
        ("arm", arm.friction, arm.encoder, arm.velocity_filter),
    ] {
        within(key(of, "friction"), friction, 0.0, 100.0)?;
        within(key(of, "encoder"), encoder, 0.0, COARSEST)?;
        within(key(of, "velocity_filter"), filter, Duration::ZERO, SECOND)?;
    }
    within(key("device", "mass"), device.mass, 0.0, 10.0)?;
    within(key("device", "damping"), device.damping, 0.0, 1000.0)?;
    within(key("device", "lag"), device.lag, Duration::ZERO, SECOND)?;
    within(key("arm", "lag"), arm.lag, Duration::ZERO, MOST_LAG)?;
    within(key("arm", "force"), arm.force.unwrap_or(1.0), 0.001, 10_000.0)
}
