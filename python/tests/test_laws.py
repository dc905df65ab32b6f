"""Hand and arm coupled by control laws, on sockets and in the simulator."""

import json
import threading

import pytest
import taut
from conftest import LIMITS, PATIENCE, until
from test_simulate import SCENARIO

LAWS = ["position_force", "position_position", "wave", "tdpa"]
WALL, STIFFNESS, REACH, MOST = 0.05, 500.0, 0.1, 3.0


def control(law, **settings):
    return taut.Control(law, **{"servo": (STIFFNESS, 20.0), **settings})


class Pressing:
    """It goes at once where it is told, up to a wall, against which its controller presses."""

    def __init__(self):
        self.told, self.all, self.stops, self.fails = taut.State((0, 0, 0)), [], [], False

    def apply(self, state, lease):
        if self.fails:
            raise RuntimeError("the drive is too hot")
        self.told = state
        self.all.append((taut.monotonic(), state.position, state.velocity))

    def measure(self):
        x, y, z = self.told.position
        pressed = max(0.0, x - WALL)
        velocity = (0, 0, 0) if pressed else self.told.velocity
        return taut.State((min(x, WALL), y, z), velocity=velocity, force=(-STIFFNESS * pressed, 0, 0))

    def stop(self, cause):
        self.stops.append(cause)
        x, y, z = self.told.position
        self.told = taut.State((min(x, WALL), y, z))


class Slide:
    """A hand that goes forward in a second from its first sample on, and stays, whatever pushes it."""

    def __init__(self):
        self.begin, self.felt, self.harder = None, None, 0.0

    def sample(self):
        self.begin = self.begin or taut.monotonic()
        x = REACH * (taut.monotonic() - self.begin)
        return taut.State((min(x, REACH), 0, 0), velocity=(REACH if x < REACH else 0.0, 0, 0))

    def feel(self, state):
        self.felt = state
        self.harder = max(self.harder, abs(state.force[0]))

    def lost(self):
        self.felt = None


def coupled(ends, law):
    arm, hand = Pressing(), Slide()
    robot = ends.robot(arm, control=control(law))
    operator = ends.operator(robot.address, control=control(law), force_limit=MOST)
    operator.resume(PATIENCE)
    drives = threading.Thread(target=operator.drive, args=(hand,))
    drives.start()
    ends.open.append(drives.join)
    ends.open.append(operator.close)
    return robot, operator, arm, hand


@pytest.mark.parametrize("law", LAWS)
def test_hand_and_arm_meet_a_wall_within_the_limits_of_both_and_a_stop_ends_the_force(ends, law):
    robot, operator, arm, hand = coupled(ends, law)
    until("it is pressed", lambda: (felt := hand.felt) and felt.force[0] < -0.5)
    until("the hand is told where the arm is", lambda: (felt := hand.felt) and WALL - 0.02 < felt.position[0] < WALL + 1e-4)
    assert hand.harder <= MOST * 1.001
    operator.stop()
    until("it stops", lambda: "emergency" in arm.stops)
    until("it is told", lambda: operator.status()["state"] == "FAULT")
    applied = len(arm.all)
    if law != "position_position":  # By that the hand is drawn to where the arm stands.
        until("nothing pushes", lambda: (felt := hand.felt) is None or abs(felt.force[0]) < 0.05)
    assert len(arm.all) == applied, "nothing is told after a stop"
    assert all(abs(velocity[0]) <= 0.5001 for _, _, velocity in arm.all)
    assert robot.status()["state"] == "FAULT"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("wave", control("tdpa")), ("tdpa", None), (None, control("position_position")), ("tdpa", control("tdpa", servo=(400.0, 20.0)))],
)
def test_ends_of_different_laws_or_servos_have_no_session_and_say_what_to_do(ends, ours, theirs):
    arm = Pressing()
    robot = ends.robot(arm, control=ours and control(ours))
    with pytest.raises(taut.NotConnectedError, match="give both the same control law and the same servo"):
        ends.operator(robot.address, control=theirs)
    until("the robot says it, too", lambda: "incompatible" in [event.name for event in iter(robot.events.poll, None)])
    assert not arm.all
    ends.operator(robot.address, control=ours and control(ours))


def test_a_device_under_a_law_that_fails_is_stopped_and_a_resume_moves_it_again(ends):
    _, operator, arm, hand = coupled(ends, "tdpa")
    until("it moves", lambda: len(arm.all) > 10)
    arm.fails = True
    until("it is stopped", lambda: "device" in arm.stops)
    until("the operator sees why", lambda: operator.status()["cause"] == "device")
    applied, arm.fails = len(arm.all), False

    def moves():
        try:
            operator.resume(PATIENCE)
        except taut.RefusedError:
            return False
        return len(arm.all) > applied + 5

    until("it moves again", moves)


def test_a_law_that_cannot_be_says_what_to_do(ends, tmp_path):
    for wrong, says in [
        ("springs", "`springs` is no control law"),
        ("tdpa", "by `servo`"),
        (control("tdpa", impedance=30.0), "tdpa has no `impedance`"),
        (control("wave", turning_servo=(30.0, 1.0)), "set `turns`"),
        (control("wave", filter=2.0), "which is not"),
        (control("tdpa", reserve=float("nan")), "which is not"),
    ]:
        with pytest.raises(taut.SettingError, match=says):
            ends.robot(Pressing(), control=wrong)
    path = tmp_path / "own.toml"
    path.write_text(SCENARIO)
    with pytest.raises(taut.SettingError, match="by `servo`"):
        taut.simulate(path, robot=Pressing(), operator=Slide(), control="tdpa")


@pytest.mark.parametrize("law", LAWS)
def test_the_same_control_couples_both_ends_in_the_simulator_and_alike_each_time(tmp_path, law):
    path = tmp_path / "own.toml"
    path.write_text(SCENARIO + 'environment = "free"\ndevice_force = 3.0\n')

    def once():
        arm, hand = Pressing(), Slide()
        result = taut.simulate(path, robot=arm, operator=hand, limits=LIMITS, control=control(law))
        return arm.all, hand.harder, json.dumps(result)

    told, harder, result = once()
    assert (told, harder, result) == once()
    assert 0.5 < harder <= MOST * 1.001 and max(position[0] for _, position, _ in told) > WALL
