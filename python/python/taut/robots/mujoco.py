"""``--robot mujoco:wall``, ``mujoco:foam`` or ``mujoco:free``: an arm of seven joints with a gripper, simulated by MuJoCo (``pip install mujoco``).

Its hand is where a state says, held by springs as of an impedance controller, and a sensor at the wrist says what it touches: a wall 0.15 m before
it, of foam or hard, or nothing. Two cameras, ``scene`` and ``hand``, look on. Positions are those of the hand's tip, m, from the foot of a column 0.45 m behind
the origin; it begins at :data:`HOME`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    import mujoco
    import numpy as np
except ImportError as why:
    raise ImportError("the arm needs MuJoCo: pip install mujoco") from why

from taut.device import Limits

try:
    from taut import State, monotonic
except ImportError:  # Without the compiled module, in a process of its own.
    from taut.device import State
    from time import monotonic

__all__ = ["HOME", "LIMITS", "MODEL", "Arm"]

#: Where the tip is at the beginning, m.
HOME = (0.0, 0.0, 0.3)
#: It as a URDF, for ``taut console --model``.
MODEL = Path(__file__).with_name("mujoco_arm.urdf")
#: The hand's springs: N/m and N·m/rad; their dampers nearly critical.
STIFFNESS, TURNING_STIFFNESS = 1000.0, 30.0
DAMPING, TURNING_DAMPING = 60.0, 1.5
#: What joints do that does not move the hand: N·m/rad towards where they began, N·m·s/rad.
POSTURE, POSTURE_DAMPING = 5.0, 1.0
#: Least singular values squared of what inverts the Jacobian.
LEAST = 1e-6
#: N, unless a limit says less.
MOST_FORCE = 50.0
#: After so long without being asked, s, it stands where it was: its program was held up.
HELD_UP = 0.1
#: For `taut.Limits`, by the model: its joints' ranges bound the box.
LIMITS = dict(
    position=[(-0.15, -0.3, 0.1), (0.25, 0.3, 0.5)], velocity=0.5, angular_velocity=1.0, force=30.0, stiffness=STIFFNESS
)
#: Where its joints are it tells so often, s.
TELLS = 0.02
#: What it can touch, and MuJoCo's stiffness and damping of it.
TOUCHES = {"free": None, "wall": "-30000 -300", "foam": "-25 -2"}


class Arm:
    """Its physics advance when it is measured, to what `taut.monotonic` reads: the machine's clock, or the simulator's."""

    keeps_lease = limits_force = True
    real, name, stiffness, period = False, "MuJoCo arm", STIFFNESS, 0.001
    limits = Limits(LIMITS["position"], LIMITS["velocity"], LIMITS["force"])

    def __init__(self, touches: str = "wall"):
        if touches not in TOUCHES:
            raise ValueError(f"{touches!r} is nothing that the arm touches; there are {', '.join(TOUCHES)}")
        spec = mujoco.MjSpec.from_string(Path(__file__).with_name("mujoco_arm.xml").read_text())
        if TOUCHES[touches]:
            spec.geom("wall").solref = [float(number) for number in TOUCHES[touches].split()]
        else:
            spec.delete(spec.geom("wall"))
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.tip, self.hand, self.wrist = self.model.site("tip").id, self.model.body("hand").id, self.model.site("wrist").id
        self.joints = slice(0, 7)
        self.weight = self.model.body_subtreemass[self.hand] * -self.model.opt.gravity
        self.most_force, self.time = MOST_FORCE, None
        self.channel, self.told = None, -TELLS
        self.target, self.until, self.gripper, self.turn = np.array(HOME), 0.0, 0.0, np.array([1.0, 0, 0, 0])
        self._jacobian = np.zeros((6, self.model.nv))
        mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        mujoco.mj_forward(self.model, self.data)
        self.posture = self.data.qpos[self.joints].copy()
        self.facing = np.zeros(4)
        mujoco.mju_mat2Quat(self.facing, self.data.site_xmat[self.tip])
        self.push = np.zeros(3)

    def limit(self, limits: Any) -> None:
        """The controller's force is kept below that of the limits, N."""
        if limits.force is not None:
            self.most_force = min(MOST_FORCE, limits.force)

    def declared(self, channels: Any) -> None:
        """Its joints are told over one to the operator, in JSON, whose name ends with ``measured_js``, in the order of mujoco_arm.urdf."""
        of_joints = (known.name for known in channels if known.to_operator and known.is_json and known.name.endswith("measured_js"))
        self.channel = next(of_joints, None)

    def messages(self) -> Any:
        if self.channel and self.time is not None and self.time >= self.told + TELLS:
            self.told = self.time
            # The right finger goes as the left one.
            yield self.channel, {"position_rad": [float(place) for place in self.data.qpos[:8]]}

    def apply(self, state: Any, lease: float) -> None:
        self.until = monotonic() + lease
        self.target, self.turn = np.array(state.position, float), np.array(state.orientation_wxyz, float)
        self.gripper = state.gripper / 65535

    def stop(self, cause: str) -> None:
        self.until = 0.0

    def measure(self) -> Any:
        now = monotonic()
        if self.time is None or now - self.time > HELD_UP:
            self.time = now
        while self.time + self.model.opt.timestep < now + 1e-9:
            self.step()
        return self.state()

    def step(self) -> None:
        """A millisecond: a hand that was stopped, or whose lease is over, stays where it is."""
        data, time_left = self.data, self.until - self.time
        mujoco.mj_jacSite(self.model, data, self._jacobian[:3], self._jacobian[3:], self.tip)
        jacobian = self._jacobian[:, self.joints]
        if time_left <= 0 and self.until >= 0:
            self.target, self.turn, self.gripper = data.site_xpos[self.tip].copy(), self._relative(), self._closed()
            self.until = -1.0
        speed, turning = jacobian[:3] @ data.qvel[self.joints], jacobian[3:] @ data.qvel[self.joints]
        self.push = STIFFNESS * (self.target - data.site_xpos[self.tip]) - DAMPING * speed
        size = np.linalg.norm(self.push)
        if size > self.most_force:
            self.push *= self.most_force / size
        torque = TURNING_STIFFNESS * self._turned() - TURNING_DAMPING * turning
        data.ctrl[self.joints] = (
            jacobian.T @ np.concatenate((self.push, torque)) + self._within(jacobian) + data.qfrc_bias[self.joints]
        )
        data.ctrl[7] = 0.04 * (1 - self.gripper)
        mujoco.mj_step(self.model, data)
        self.time += self.model.opt.timestep

    def _relative(self) -> np.ndarray:
        """How the hand is turned from how it began."""
        now, back, relative = np.zeros(4), np.zeros(4), np.zeros(4)
        mujoco.mju_mat2Quat(now, self.data.site_xmat[self.tip])
        mujoco.mju_negQuat(back, self.facing)
        mujoco.mju_mulQuat(relative, now, back)
        return relative

    def _closed(self) -> float:
        return min(1.0, max(0.0, 1 - self.data.qpos[7] / 0.04))

    def _turned(self) -> np.ndarray:
        """From how the hand is turned to how it shall be, rad about the world's axes."""
        goal, now, back, between, turned = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(3)
        mujoco.mju_mulQuat(goal, self.turn, self.facing)
        mujoco.mju_mat2Quat(now, self.data.site_xmat[self.tip])
        mujoco.mju_negQuat(back, now)
        mujoco.mju_mulQuat(between, goal, back)
        mujoco.mju_quat2Vel(turned, between, 1.0)
        return turned

    def _within(self, jacobian: np.ndarray) -> np.ndarray:
        """What keeps the elbow, as far as that does not move the hand."""
        data = self.data
        wanted = POSTURE * (self.posture - data.qpos[self.joints]) - POSTURE_DAMPING * data.qvel[self.joints]
        inverse = jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + LEAST * np.eye(6))
        return wanted - jacobian.T @ (inverse.T @ wanted)

    def state(self) -> Any:
        """Where the tip is, how it moves and turns, and what the environment does to it there: the wrist's sensors, less the hand's weight."""
        data = self.data
        moved = self._jacobian[:, self.joints] @ data.qvel[self.joints]
        wrist, at = data.site_xmat[self.wrist].reshape(3, 3), data.site_xpos[self.wrist]
        force = self.weight - wrist @ data.sensor("force").data
        # About the wrist, and from there about the tip.
        torque = np.cross(data.subtree_com[self.hand] - at, self.weight) - wrist @ data.sensor("torque").data
        torque += np.cross(at - data.site_xpos[self.tip], force)
        return State(
            tuple(map(float, data.site_xpos[self.tip])),
            orientation_wxyz=tuple(map(float, self._relative())),
            velocity=tuple(map(float, moved[:3])),
            force=tuple(map(float, force)),
            angular_velocity=tuple(map(float, moved[3:])),
            torque=tuple(map(float, torque)),
            gripper=int(65535 * self._closed()),
        )
