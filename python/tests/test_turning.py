"""A hand that turns an arm against a stop, and feels the torque: on sockets and in the simulator."""

import json
import math

import numpy as np
import pytest
import taut
from conftest import LIMITS, until
from taut import device
from test_simulate import SCENARIO

STOP = 0.3  # rad.


def turned(angle, speed=0.0, torque=0.0):
    """About z."""
    about_z = np.array([0.0, 0.0, 1.0])
    turn = np.array([math.cos(angle / 2), 0, 0, math.sin(angle / 2)])
    return taut.State((0, 0, 0.2), orientation_wxyz=turn, angular_velocity=speed * about_z, torque=torque * about_z)


def angle(state):
    w, _, _, z = state.orientation_wxyz
    return 2 * math.atan2(z, w)


class Wrist:
    """It turns as it is told, up to a stop of 10 N·m/rad, against which its controller presses with as many."""

    def __init__(self):
        self.told, self.stops, self.applied = 0.0, [], []

    def apply(self, state, lease):
        self.told = angle(state)
        self.applied.append((state.orientation_wxyz, state.angular_velocity, state.torque))

    def measure(self):
        pressed = max(0.0, self.told - STOP) / 2
        return turned(min(self.told, STOP) + pressed, torque=-10 * pressed)

    def stop(self, cause):
        self.stops.append(cause)


def test_a_state_says_how_it_turns_or_does_not():
    still, turns = taut.State((1, 2, 3)), turned(0.5, speed=2, torque=np.float32(0.5))
    assert still.angular_velocity is None and still.torque is None and "torque" not in repr(still)
    assert turns.angular_velocity == (0, 0, 2) and turns.torque == (0, 0, 0.5) and "torque=[0.0, 0.0, 0.5]" in repr(turns)
    assert taut.State(torque=(1, 0, 0)).angular_velocity == (0, 0, 0) and turns != turned(0.5, speed=2)
    for state in (device.State((1, 2, 3)), device.State(torque=(0.5, 0, 0)), device.State(angular_velocity=(0, 0, 2), torque=(0, 0.25, 0))):
        read = device.State._unpack(state._pack())
        assert (read.torque is None) == (state.torque is None) and read._pack() == state._pack()
    assert device._packed(turns) == device.State((0, 0, float(np.float32(0.2))), turns.orientation_wxyz, angular_velocity=(0, 0, 2), torque=(0, 0, 0.5))._pack()


def test_who_turns_an_arm_against_a_stop_feels_its_torque_within_the_limit_of_the_hand(ends):
    wrist = Wrist()
    robot = ends.robot(wrist, turns=True)
    operator = ends.operator(robot.address, turns=True, torque_limit=0.4)
    feeder = ends.feed(operator, turned(0.36, torque=1.0))
    operator.resume()
    felt = until("it presses", lambda: (arm := operator.latest()) and abs(arm.torque[2] + 0.3) < 1e-3 and arm)
    assert angle(felt) == pytest.approx(0.33, abs=1e-3)
    feeder.state = turned(0.6)
    until("it presses harder", lambda: angle(operator.latest() or felt) > 0.44)
    assert operator.latest().torque[2] == pytest.approx(-0.4), "1.5 N·m, and the hand bears 0.4"
    assert not wrist.stops and all(torque == (0, 0, 0) for *_, torque in wrist.applied), "nobody may command a torque"
    feeder.state = turned(0.45 + math.pi / 2 + 0.1)
    until("it stops", lambda: wrist.stops == ["turned_apart"])


@pytest.mark.parametrize("turns", [True, False])
def test_ends_of_which_one_turns_have_no_session_and_say_what_to_do(ends, turns):
    robot = ends.robot(Wrist(), turns=turns)
    with pytest.raises(taut.NotConnectedError, match="have both ends do so"):
        ends.operator(robot.address, turns=not turns)
    until("the robot says it, too", lambda: "incompatible" in [event.name for event in iter(robot.events.poll, None)])
    ends.operator(robot.address, turns=turns)


INERTIA = 0.003  # kg·m²: of 0.3 kg at the end of 10 cm.


class Mass:
    def __init__(self):
        self.angle = self.speed = 0.0

    def pass_(self, torque):
        self.speed += 0.001 * torque / INERTIA
        self.angle += 0.001 * self.speed


class Arm(Mass):
    """A mass that turns, led by the controller that the scenario's law takes it for, against the same stop."""

    def __init__(self):
        super().__init__()
        self.reference, self.told = (0.0, 0.0), []

    def apply(self, state, lease):
        self.reference = angle(state), state.angular_velocity[2]
        self.told.append((state.orientation_wxyz, state.angular_velocity, state.torque))

    def measure(self):
        (to, speed), stop = self.reference, 0.0
        if self.angle > STOP:
            stop = min(0.0, -10 * (self.angle - STOP) - 0.1 * self.speed)
        self.pass_(30 * (to - self.angle) + 0.45 * (speed - self.speed) + stop)
        return turned(self.angle, self.speed, stop)

    def stop(self, cause):
        self.reference = self.angle, 0.0


class Hand(Mass):
    """A mass that a person turns to 0.5 rad, at 0.8 rad/s, with 10 N·m/rad."""

    def __init__(self):
        super().__init__()
        self.torque, self.felt = 0.0, []

    def sample(self):
        self.pass_(10 * (min(0.5, 0.8 * taut.monotonic()) - self.angle) - 0.3 * self.speed + self.torque)
        return turned(self.angle, self.speed)

    def feel(self, state):
        self.torque = state.torque[2]
        self.felt.append(self.torque)

    def lost(self):
        self.torque = 0.0


@pytest.mark.parametrize("law", ["position_force", "{ wave = {} }", "{ tdpa = {} }"])
def test_own_devices_turn_in_the_simulator_by_every_law_and_alike_each_time(tmp_path, law):
    path = tmp_path / "turns.toml"
    path.write_text(SCENARIO + 'turns = true\nenvironment = "free"\ndevice_force = 20.0\n')

    def once():
        arm, hand = Arm(), Hand()
        result = taut.simulate(path, robot=arm, operator=hand, limits=LIMITS, settings={"teleop.law": law})
        return arm, hand, json.dumps(result)

    (arm, hand, result), (again, _, same) = once(), once()
    assert result == same and arm.told == again.told
    assert min(hand.felt) < -0.05, "the stop is felt"
    assert max(angle(taut.State(orientation_wxyz=turn)) for turn, *_ in arm.told) > STOP
    assert all(abs(velocity[2]) <= 0.501 and torque == (0, 0, 0) for _, velocity, torque in arm.told)


def test_the_mujoco_arm_neither_turns_nor_grips_on_after_a_stop():
    arm = pytest.importorskip("taut.robots.mujoco").Arm("free")
    arm.time = 0.0
    arm.apply(taut.State((0, 0, 0.3), orientation_wxyz=(math.cos(0.5), math.sin(0.5), 0, 0), gripper=65535), 10.0)
    arm.until = 10.0
    for _ in range(50):
        arm.step()
    at = arm.state()
    arm.stop("operator")
    for _ in range(1_000):
        arm.step()
    now, about_x = arm.state(), lambda state: 2 * math.atan2(state.orientation_wxyz[1], state.orientation_wxyz[0])
    assert about_x(now) < about_x(at) + 0.1, "it was on its way to 1 rad"
    assert now.gripper < at.gripper + 20_000 < 65_535, "and to be closed"


def test_the_mujoco_arm_turns_as_it_is_told_and_says_what_turns_it():
    arm = pytest.importorskip("taut.robots.mujoco").Arm("free")
    arm.apply(taut.State((0, 0, 0.3), orientation_wxyz=(math.cos(0.1), math.sin(0.1), 0, 0)), 10.0)
    arm.time, speeds = 0.0, []
    arm.until = 10.0
    for _ in range(2_000):
        arm.step()
        speeds.append(arm.state().angular_velocity[0])
    state = arm.state()
    assert 2 * math.atan2(state.orientation_wxyz[1], state.orientation_wxyz[0]) == pytest.approx(0.2, abs=0.01)
    assert sum(speeds) * 0.001 == pytest.approx(0.2, abs=0.02)
    assert np.linalg.norm(state.torque) < 0.02 and np.linalg.norm(state.force) < 0.1, "it touches nothing"
    arm.data.xfrc_applied[arm.hand] = [0, 0, 0, 0.2, 0, 0]
    for _ in range(2_000):
        arm.step()
    assert arm.state().torque[0] == pytest.approx(0.2, abs=0.02), "somebody twists the hand"
