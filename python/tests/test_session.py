import asyncio
import threading
import time

import pytest
import taut
from conftest import LIMITS, PATIENCE, Arm, until


def robot_states(operator):
    """What the operator was told of the robot since it was asked last."""
    states = []
    while event := operator.events.poll():
        if event.name == "robot":
            states.append((event.detail["state"], event.detail["cause"]))
    return states


def stopped_by(operator, cause):
    return lambda: any(told == cause for state, told in robot_states(operator) if state != "ENABLED")


def test_an_arm_goes_where_the_hand_is_and_the_hand_feels_it(ends):
    arm = Arm()
    robot, operator, _ = ends.moving(arm)
    until("it arrives", lambda: abs(arm.state.position[0] - 0.1) < 1e-3)
    felt = until("it is felt", operator.latest)
    assert felt.force == (0, 0, 1.5)
    assert all(0 < lease <= 2.0 for lease in arm.leases)
    until("counted", lambda: robot.status()["delivered"] > 0 and operator.status()["connected"])


def test_an_arm_that_is_asked_ten_times_a_second_goes_where_the_hand_is(ends):
    arm = Arm()
    _, operator, _ = ends.moving(arm, rate=10)
    until("it arrives", lambda: abs(arm.state.position[0] - 0.1) < 1e-3)
    until("it is felt", operator.latest)


def test_what_is_applied_is_within_the_limits_whatever_is_sent(ends):
    arm = Arm()
    _, operator, feeder = ends.moving(arm)
    feeder.state = taut.State((9.0, 0, 0.2))
    until("it arrives", lambda: abs(arm.state.position[0] - 0.3) < 1e-3)
    assert arm.state.position[0] <= 0.3 + 1e-6


def test_nothing_moves_before_the_operator_resumes(ends):
    arm = Arm()
    robot = ends.robot(arm)
    operator = ends.operator(robot.address)
    for _ in range(50):
        operator.send(taut.State((0.1, 0, 0.2)))
    assert arm.applied == 0


def test_a_resume_that_is_not_waited_for_is_answered_all_the_same(ends):
    robot = ends.robot(Arm())
    ends.operator(robot.address).resume(0.0)


def test_what_was_sent_long_before_the_robot_may_move_moves_it_never(ends):
    arm = Arm()
    robot = ends.robot(arm)
    operator = ends.operator(robot.address)
    operator.send(taut.State((0.2, 0, 0.2)))
    time.sleep(0.2)
    operator.resume(PATIENCE)
    until("stopped for want of anything new", lambda: arm.stops)
    assert arm.applied == 0


def test_a_hand_that_sends_nothing_is_a_stop_by_the_watchdog(ends):
    arm = Arm()
    _, operator, feeder = ends.moving(arm)
    feeder.stop()
    until("stopped", lambda: "watchdog" in arm.stops)
    until("told", stopped_by(operator, "watchdog"))


def test_an_emergency_stop_is_latched_until_it_is_reset(ends):
    arm = Arm()
    _, operator, _ = ends.moving(arm)
    operator.estop()
    until("stopped", lambda: arm.stops)
    with pytest.raises(taut.RefusedError, match="reset"):
        operator.resume(PATIENCE)
    operator.reset(PATIENCE)
    applied = arm.applied
    operator.resume(PATIENCE)
    until("it moves again", lambda: arm.applied > applied)


@pytest.mark.parametrize("method", ["apply", "measure"])
def test_an_exception_in_a_device_is_a_stop_with_its_cause(ends, method, capfd):
    arm = Arm()
    robot, operator, _ = ends.moving(arm)
    arm.fails = method
    until("stopped", lambda: "device" in arm.stops)
    until("the operator is told", stopped_by(operator, "device"))
    failed = until("said at the robot", lambda: [e for e in iter(robot.events.poll, None) if e.name == "device_failed"])
    assert f"`{method}` raised" in failed[0].detail["why"]
    arm.fails = None
    applied = arm.applied
    until("it moves again", lambda: resumes(operator) and arm.applied > applied)
    assert "Traceback" in capfd.readouterr().err


def test_a_device_whose_stop_raised_does_not_move_again(ends):
    arm = Arm()
    _, operator, feeder = ends.moving(arm)
    arm.fails = "stop"
    feeder.stop()
    until("stopped", lambda: "watchdog" in arm.stops)
    until("told", stopped_by(operator, "watchdog"))
    arm.fails, applied = None, arm.applied
    feeder = ends.feed(operator, taut.State((0.1, 0, 0.2)))
    for _ in range(3):
        resumes(operator)
        time.sleep(0.2)
    assert arm.applied == applied


def resumes(operator):
    try:
        operator.resume(PATIENCE)
        return True
    except taut.RefusedError:
        return False


def test_a_robot_that_is_closed_is_stopped_first_and_the_operator_is_told(ends):
    arm = Arm()
    robot, operator, _ = ends.moving(arm)
    with robot:
        pass
    assert "host" in arm.stops and robot.has_ended
    robot.close()
    until("told", lambda: operator.has_ended or not operator.status()["connected"])


def test_events_are_awaited_until_the_end(ends):
    arm = Arm()
    robot = ends.robot(arm)

    async def names():
        return [event.name async for event in robot.events]

    async def all_of_it():
        listens = asyncio.ensure_future(names())
        operator = await asyncio.to_thread(ends.operator, robot.address)
        await asyncio.to_thread(operator.close)
        await asyncio.to_thread(robot.close)
        return await asyncio.wait_for(listens, PATIENCE)

    told = asyncio.run(all_of_it())
    assert told[0] == "connected" and told[-1] == "ended"


def test_a_second_task_that_waits_for_the_same_is_told(ends):
    robot = ends.robot(Arm())

    async def both():
        first = asyncio.ensure_future(anext(robot.events))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task"):
            await anext(robot.events)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await asyncio.to_thread(ends.operator, robot.address)
        return await asyncio.wait_for(anext(robot.events), PATIENCE)

    assert asyncio.run(both()).name == "connected"


def test_a_stop_that_nobody_hears_any_more_says_so(ends):
    robot = ends.robot(Arm())
    operator = ends.operator(robot.address)
    operator.close()
    with pytest.raises(taut.EndedError):
        operator.estop()


def test_settings_that_cannot_be_say_what_to_do(ends):
    with pytest.raises(taut.SettingError, match="stiffness"):
        ends.robot(Arm(), limits=taut.Limits(position=[(0,) * 3, (1,) * 3], velocity=1, angular_velocity=1, force=1))
    with pytest.raises(taut.SettingError, match="StateLimits::acceleration"):
        ends.robot(Arm(), limits=taut.Limits(position=[(0,) * 3, (1,) * 3], velocity=1, angular_velocity=1, force=1, stiffness=1, acceleration=float("nan")))
    with pytest.raises(taut.SettingError, match="no bytes"):
        ends.robot(Arm(), brake=("udp:127.0.0.1:9", b""))
    with pytest.raises(taut.SettingError, match="watchdog"):
        ends.robot(Arm(), watchdog=60.0)
    with pytest.raises(TypeError, match="lacks `apply`"):
        ends.robot(object())
    with pytest.raises(taut.SettingError, match="trust"):
        taut.Robot("127.0.0.1:0", identity=ends.keys["robot"], trust=[], limits=LIMITS, device=Arm(), keeps_stops_in=None)
    with pytest.raises(taut.SettingError, match="no fingerprint"):
        taut.connect("127.0.0.1:1", identity=ends.keys["operator"], trust="somebody")


def test_nobody_there_is_an_error_that_says_so(ends):
    with pytest.raises(taut.NotConnectedError, match="127.0.0.1:9"):
        ends.operator("127.0.0.1:9")


def test_a_state_is_a_value():
    state = taut.State((1, 2, 3), force=[0.5, 0, 0], gripper=7)
    assert state == taut.State((1, 2, 3), force=(0.5, 0, 0), gripper=7)
    assert state.position == (1, 2, 3) and state.orientation_wxyz == (1, 0, 0, 0)
    assert not state.enabling and not state.locked
    with pytest.raises(AttributeError):
        state.gripper = 8


class Relative:
    """A hand that notes when it is to begin anew."""

    def __init__(self, operator=None):
        self.resumes, self.operator = 0, operator

    def sample(self):
        return taut.State((0.1, 0, 0.2))

    def feel(self, state):
        pass

    def lost(self):
        pass

    def resumed(self):
        self.resumes += 1


def test_a_hand_that_drives_is_told_of_every_resume(ends):
    arm, hand = Arm(), Relative()
    robot = ends.robot(arm)
    operator = ends.operator(robot.address)
    operator.resume(PATIENCE)
    assert hand.resumes == 0
    drives = threading.Thread(target=operator.drive, args=(hand,))
    drives.start()
    ends.open.append(drives.join)
    ends.open.append(operator.close)
    until("it was resumed before", lambda: hand.resumes)
    until("it moves", lambda: arm.applied > 10)
    robot.stop()
    until("stopped", lambda: arm.stops)
    robot.release()
    before = hand.resumes
    until("it moves again", lambda: resumes(operator))
    until("told again", lambda: hand.resumes > before)


def test_a_hand_is_told_when_a_lost_session_is_made_again(ends):
    """The robot ends and is there again at the same address, and its person resumes."""
    arm, hand = Arm(), Relative()
    robot = ends.robot(arm)
    operator = ends.operator(robot.address)
    operator.resume(PATIENCE)
    drives = threading.Thread(target=operator.drive, args=(hand,))
    drives.start()
    ends.open.append(drives.join)
    ends.open.append(operator.close)
    until("it moves", lambda: arm.applied > 10)
    address = robot.address
    robot.close()
    until("disconnected", lambda: not operator.status()["connected"])
    before, anew = hand.resumes, Arm()
    again = taut.Robot(address, identity=ends.keys["robot"], trust=ends.prints["operator"], limits=LIMITS, device=anew, keeps_stops_in=None, watchdog=2.0, rate=200)
    ends.open.append(again.close)
    until("connected again", lambda: operator.has_ended or operator.status()["connected"])
    assert not operator.has_ended, "it connects again by itself"
    until("it moves again", lambda: resumes(operator) and anew.applied)
    until("told again", lambda: hand.resumes > before)


def test_a_robot_that_ends_is_why_the_session_is_lost(ends):
    robot = ends.robot(Arm())
    operator = ends.operator(robot.address)
    robot.close()
    until("nobody comes back", lambda: operator.has_ended)
    with pytest.raises(taut.LostError, match="the robot ended the session"):
        operator.send(taut.State())
