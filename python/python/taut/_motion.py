"""What moves a robot, and its bytes in the frames of a device."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Sequence

STATE = struct.Struct("<BBH13f")
TURNING = struct.Struct("<6f")


@dataclass(frozen=True)
class State:
    """Pose, velocity and force: m, a unit quaternion, m/s, N; gripper from 0, open, to 65535. Where it is told how it turns, angular velocity and torque
    about the axes of the position, rad/s and N·m; of two of which one is given the other is 0."""

    position: Sequence[float] = (0.0, 0.0, 0.0)
    orientation_wxyz: Sequence[float] = (1.0, 0.0, 0.0, 0.0)
    velocity: Sequence[float] = (0.0, 0.0, 0.0)
    force: Sequence[float] = (0.0, 0.0, 0.0)
    gripper: int = 0
    locked: bool = False
    enabling: bool = False
    #: Of a robot that measures it: the force of its controller, N.
    controller_force: Sequence[float] | None = None
    angular_velocity: Sequence[float] | None = None
    torque: Sequence[float] | None = None

    def _pack(self) -> bytes:
        numbers = (*self.position, *self.orientation_wxyz, *self.velocity, *self.force)
        none, turning = (0.0, 0.0, 0.0), (self.angular_velocity, self.torque)
        turns = any(part is not None for part in turning)
        packed = STATE.pack(self.locked | self.enabling << 1 | turns << 2, 0, self.gripper, *numbers)
        return packed + TURNING.pack(*(number for part in turning for number in (none if part is None else part))) if turns else packed

    @staticmethod
    def _unpack(data: bytes) -> State:
        flags, _, gripper, *numbers = STATE.unpack_from(data)
        turning = TURNING.unpack_from(data, STATE.size) if flags & 4 else None
        return State(
            tuple(numbers[:3]),
            tuple(numbers[3:7]),
            tuple(numbers[7:10]),
            tuple(numbers[10:]),
            gripper,
            bool(flags & 1),
            bool(flags & 2),
            angular_velocity=turning and turning[:3],
            torque=turning and turning[3:],
        )


@dataclass(frozen=True)
class Joints:
    """Joints in the channel's order: rad, rad/s, N·m; of one that slides m, m/s, N. As many velocities and efforts, or none."""

    position: Sequence[float]
    velocity: Sequence[float] = ()
    effort: Sequence[float] = ()
    locked: bool = False
    enabling: bool = False

    def _pack(self) -> bytes:
        count = len(self.position)
        flags = self.locked | self.enabling << 1 | bool(len(self.velocity)) << 2 | bool(len(self.effort)) << 3
        numbers = (*self.position, *self.velocity, *self.effort)
        return struct.pack(f"<BBH{len(numbers)}f", flags, count, 0, *numbers)

    @staticmethod
    def _unpack(data: bytes) -> Joints:
        flags, count = data[0], data[1]
        numbers = struct.unpack(f"<{len(data) // 4 - 1}f", data[4:])
        parts = [numbers[at : at + count] for at in range(0, len(numbers), count)]
        velocity = parts.pop(1) if flags & 4 else ()
        return Joints(parts[0], velocity, parts[1] if flags & 8 else (), bool(flags & 1), bool(flags & 2))


@dataclass(frozen=True)
class Twist:
    """Velocities along and about x, y, z: m/s, rad/s."""

    linear: Sequence[float] = (0.0, 0.0, 0.0)
    angular: Sequence[float] = (0.0, 0.0, 0.0)
    locked: bool = False
    enabling: bool = False

    def _pack(self) -> bytes:
        return struct.pack("<I6f", self.locked | self.enabling << 1, *self.linear, *self.angular)

    @staticmethod
    def _unpack(data: bytes) -> Twist:
        flags, *numbers = struct.unpack("<I6f", data)
        return Twist(tuple(numbers[:3]), tuple(numbers[3:]), bool(flags & 1), bool(flags & 2))


@dataclass(frozen=True)
class Gripper:
    """From 0, open, to 1, closed, with at most that effort, N."""

    position: float = 0.0
    max_effort: float = 0.0
    locked: bool = False
    enabling: bool = False

    def _pack(self) -> bytes:
        return struct.pack("<I2f", self.locked | self.enabling << 1, self.position, self.max_effort)

    @staticmethod
    def _unpack(data: bytes) -> Gripper:
        flags, position, effort = struct.unpack("<I2f", data)
        return Gripper(position, effort, bool(flags & 1), bool(flags & 2))


SCHEMAS = (State, Joints, Twist, Gripper)
