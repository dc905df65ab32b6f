"""Topics between two DDS domains over a session; the peer is Eclipse Cyclone DDS."""
import json
import os
import time

import pytest
from messages import JointState, Twist, TwistStamped, Vector3, participant, reader, stamped, writer

NAMES = [f"joint{number}" for number in range(7)]
BOTH_WAYS = """
[[route]]
topic = "/up"
type = "sensor_msgs/msg/JointState"
direction = "to_robot"
keep = "KEEP"
[[route]]
topic = "/down"
type = "sensor_msgs/msg/JointState"
direction = "to_operator"
keep = "KEEP"
"""
BASE = """
[[route]]
topic = "/cmd_vel"
type = "geometry_msgs/msg/TwistStamped"
direction = "to_robot"
moves = true
frame = "base"
[limits.cmd_vel]
linear_velocity = 0.3
angular_velocity = 0.5
linear_acceleration = 100.0
angular_acceleration = 100.0
"""


def until(what, is_so, seconds=30):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.005)


@pytest.mark.parametrize("keep", ["reliable", "newest"])
def test_joint_states_at_1_khz_there_and_back(bridges, keep):
    routes = BOTH_WAYS.replace("KEEP", keep)
    robot, operator = bridges(routes)
    there, here = participant(1), participant(2)
    up, down = writer(here, "/up", JointState), reader(here, "/down", JointState)
    echo_in, echo_out = reader(there, "/up", JointState), writer(there, "/down", JointState)
    until("topics match", lambda: up.get_matched_subscriptions() and echo_out.get_matched_subscriptions())
    until("topics match", lambda: down.get_matched_publications() and echo_in.get_matched_publications())
    count = int(os.environ.get("MESSAGES", "3000"))
    trips, order, one_way = [], [], []

    def turn():
        for message in echo_in.take(64):
            stamp = message.header.stamp
            one_way.append(time.time_ns() - stamp.sec * 10**9 - stamp.nanosec)
            echo_out.write(message)
        for message in down.take(64):
            stamp = message.header.stamp
            trips.append(time.time_ns() - stamp.sec * 10**9 - stamp.nanosec)
            order.append(message.effort[0])

    due = time.perf_counter()
    for number in range(count):
        up.write(JointState(stamped(time.time_ns()), NAMES, [0.1] * 7, [0.0] * 7, [float(number)] * 7))
        due += 0.001
        while time.perf_counter() < due:
            turn()
    end = time.monotonic() + 5
    while len(order) < count and time.monotonic() < end:
        turn()
    trips.sort()
    one_way.sort()
    figures = {
        "keep": keep,
        "sent": count,
        "came back": len(order),
        "there p50 ms": one_way[len(one_way) // 2] / 1e6,
        "there and back p50 ms": trips[len(trips) // 2] / 1e6,
        "there and back p99 ms": trips[len(trips) * 99 // 100] / 1e6,
    }
    print(json.dumps(figures))
    assert order == sorted(set(order)), "in order, each once"
    if keep == "reliable":
        assert len(order) == count


def moving(bridges):
    robot, operator = bridges(BASE)
    there, here = participant(1), participant(2)
    told, hand = reader(there, "/cmd_vel", TwistStamped), writer(here, "/cmd_vel", TwistStamped)
    until("topics match", lambda: hand.get_matched_subscriptions() and told.get_matched_publications())
    drive = lambda speed=1.0, frame="base": hand.write(  # noqa: E731
        TwistStamped(stamped(frame=frame), Twist(Vector3(speed, 0.0, 0.0), Vector3(0.0, 0.0, 0.0)))
    )
    speeds = []

    def moves():
        operator.tell("resume")
        for _ in range(20):
            drive()
            time.sleep(0.005)
            speeds.extend(message.twist.linear.x for message in told.take(64))
        return speeds and speeds[-1] > 0.29

    until("the base moves", moves)
    assert max(speeds) <= 0.3001, "within its limits"
    return robot, operator, told, drive


def comes_to_rest(told, drive=None):
    speeds = []

    def rests():
        if drive:
            drive()
        speeds.extend(message.twist.linear.x for message in told.take(64))
        return len(speeds) >= 3 and speeds[-3:] == [0.0] * 3

    until("the base is told to rest", rests)


def test_a_killed_operator_stops_the_base(bridges):
    robot, operator, told, _ = moving(bridges)
    operator.kill()
    comes_to_rest(told)
    assert robot.until("stopped")["cause"] in ("watchdog", "operator_left", "link_closed")


def test_a_robots_bridge_that_is_ended_stops_the_base_first(bridges):
    robot, _, told, _ = moving(bridges)
    robot.tell("quit")
    comes_to_rest(told)


def test_a_message_that_is_refused_stops_the_base_and_says_why(bridges):
    robot, operator, told, drive = moving(bridges)
    drive(speed=float("nan"))
    assert "not finite" in operator.until("refused")["why"]
    assert robot.until("stopped")["cause"] == "emergency"
    # Whoever goes on driving moves nothing.
    comes_to_rest(told, drive)


def test_a_publisher_of_another_type_is_told_and_stops(bridges):
    _, operator = bridges(BASE)
    here = participant(2)
    _other = writer(here, "/cmd_vel", JointState)
    wrong = operator.until("wrong topic")
    assert wrong["topic"] == "/cmd_vel" and "JointState" in wrong["why"] and "correct" in wrong["why"]
