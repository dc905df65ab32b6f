//! What of hand, device, arm and surface is different, one thing at a time.

use taut_core::Duration;

use crate::scenario::{ArmSpec, DeviceSpec, Environment, Surface, Teleop};

const MS: Duration = Duration::from_millis(1);

/// What is different, and what makes it so.
pub(super) type Part = (Option<&'static str>, fn(&mut Teleop));

fn device(teleop: &mut Teleop, device: DeviceSpec) {
    teleop.device = device;
}

fn arm(teleop: &mut Teleop, arm: ArmSpec) {
    teleop.arm = arm;
}

/// As they are by themselves, and each with one thing that is different.
pub(super) const PARTS: [Part; 18] = [
    (None, |_| {}),
    (Some("device of 0.2 kg more"), |it| device(it, DeviceSpec { mass: 0.2, ..DeviceSpec::default() })),
    (Some("device damps with 5 N s/m"), |it| {
        device(it, DeviceSpec { damping: 5.0, ..DeviceSpec::default() })
    }),
    (Some("device rubs with 0.2 N"), |it| device(it, DeviceSpec { friction: 0.2, ..DeviceSpec::default() })),
    (Some("device rubs with 1 N"), |it| device(it, DeviceSpec { friction: 1.0, ..DeviceSpec::default() })),
    (Some("device's encoder 10 µm"), |it| device(it, DeviceSpec { encoder: 1e-5, ..DeviceSpec::default() })),
    (Some("device's encoder 100 µm"), |it| {
        device(it, DeviceSpec { encoder: 1e-4, ..DeviceSpec::default() })
    }),
    (Some("device's encoder 100 µm, velocity filter 5 ms"), |it| {
        device(it, DeviceSpec { encoder: 1e-4, velocity_filter: MS * 5, ..DeviceSpec::default() });
    }),
    (Some("device's encoder 100 µm, velocity filter 5 ms, rubs with 0.2 N"), |it| {
        let stepped = DeviceSpec { encoder: 1e-4, velocity_filter: MS * 5, ..DeviceSpec::default() };
        device(it, DeviceSpec { friction: 0.2, ..stepped });
    }),
    (Some("velocity filter 5 ms"), |it| {
        device(it, DeviceSpec { velocity_filter: MS * 5, ..DeviceSpec::default() });
    }),
    (Some("amplifier 2 ms"), |it| device(it, DeviceSpec { lag: MS * 2, ..DeviceSpec::default() })),
    (Some("amplifier 10 ms"), |it| device(it, DeviceSpec { lag: MS * 10, ..DeviceSpec::default() })),
    (Some("device pushes 5 N at most"), |it| it.device_force = 5.0),
    (Some("arm rubs with 1 N"), |it| arm(it, ArmSpec { friction: 1.0, ..ArmSpec::default() })),
    (Some("arm's encoder 100 µm"), |it| arm(it, ArmSpec { encoder: 1e-4, ..ArmSpec::default() })),
    (Some("arm's amplifier 2 ms"), |it| arm(it, ArmSpec { lag: MS * 2, ..ArmSpec::default() })),
    (Some("arm pushes 10 N at most"), |it| arm(it, ArmSpec { force: Some(10.0), ..ArmSpec::default() })),
    (Some("wall with hysteresis 0.3"), |it| {
        it.environment = Environment::Wall(Surface { hysteresis: Some(0.3), ..Surface::DEFAULT });
    }),
];
