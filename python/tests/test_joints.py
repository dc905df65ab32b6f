"""A robot that joints move."""

import pytest
import taut
from conftest import WATCHDOG, until

LIMITS = {
    "pan": taut.JointLimits(position=(-1.0, 1.0), velocity=2.0),
    "lift": taut.JointLimits(position=(0.0, 0.5), velocity=2.0),
}


class Arm:
    def __init__(self):
        self.at, self.seen, self.stops = (0.0, 0.0), [], []

    def apply(self, joints, lease):
        self.at = joints.position
        self.seen.append(joints.position)

    def measure(self):
        return taut.Joints(self.at)

    def stop(self, cause):
        self.stops.append(cause)


@pytest.fixture
def pair(ends):
    def pair(arm, *names, limits=LIMITS):
        robot = ends.robot(arm, limits=limits)
        sender = taut.Sender("joints", taut.JointNames(*names), kind="motion")
        return robot, ends.operator(robot.address, channels=[sender]), sender

    return pair


def test_joints_go_where_they_are_sent_within_their_limits_and_no_faster(pair):
    arm = Arm()
    _, operator, sender = pair(arm, "pan", "lift")
    operator.resume()

    def arrived():
        sender.send(taut.Joints((0.4, 9.0)))
        return arm.at == pytest.approx((0.4, 0.5), abs=1e-3)

    until("it arrives", arrived)
    assert max(lift for _, lift in arm.seen) <= 0.5 + 1e-6
    first = arm.seen[0]
    assert first[1] < 0.5, "it does not jump"
    until("stopped for want of anything new", lambda: arm.stops)
    assert "watchdog" in arm.stops and WATCHDOG


@pytest.mark.parametrize("names", [("lift", "pan"), ("pan",), ("pan", "tail")])
def test_other_names_are_refused_and_move_nothing(pair, names):
    arm = Arm()
    _, operator, sender = pair(arm, *names)
    closed = until("told", lambda: [e for e in iter(operator.events.poll, None) if e.name == "channel_closed"])
    assert closed[0].detail["channel"] == "joints"
    operator.resume()
    with pytest.raises(taut.SchemaError):
        sender.send(taut.Joints((0.1,) * len(names)))
    assert arm.seen == []


def test_what_is_no_joints_of_these_names_is_not_sent(pair):
    _, _, sender = pair(Arm(), "pan", "lift")
    for wrong in (taut.Joints((1.0,)), taut.State(), (1.0, 2.0)):
        with pytest.raises(taut.MessageError, match="pan, lift"):
            sender.send(wrong)


def test_an_arm_that_measures_other_joints_is_stopped(pair):
    class Strange(Arm):
        def measure(self):
            return taut.State()

    arm = Strange()
    robot, operator, _ = pair(arm, "pan", "lift")
    until("stopped", lambda: "device" in arm.stops)
    try:
        operator.resume()
    except taut.RefusedError:
        pass  # It may be told before that it cannot move, or after.
    failed = until("said", lambda: [e for e in iter(robot.events.poll, None) if e.name == "device_failed"])
    assert "joints are taut.Joints" in failed[0].detail["why"]


def test_joints_without_limits_do_not_move(pair):
    with pytest.raises(taut.SettingError, match="velocity"):
        pair(Arm(), "pan", "lift", limits={"pan": LIMITS["pan"], "lift": taut.JointLimits(position=(0, 1), velocity=float("nan"))})
    with pytest.raises(taut.Error):
        pair(Arm(), limits={})


def test_motion_is_received_by_nobody_but_a_device():
    with pytest.raises(taut.SettingError):
        taut.Receiver("more", taut.JointNames("pan"), kind="motion")
