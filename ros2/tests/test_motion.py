"""Each type with joints that moves a robot, from a peer's hand to a peer's robot, and a joint that nobody knows."""
import time

import pytest
from messages import Duration, JointJog, JointState, JointTrajectory, JointTrajectoryPoint, stamped
from test_topics import until

ARM = """
[[route]]
topic = "/arm"
type = "TYPE"
direction = "to_robot"
moves = true
joints = ["elbow"]
measured = "/measured"
[limits.arm]
elbow = { position = [-1.0, 1.0], velocity = 0.5, acceleration = 100.0 }
"""


def jog(joint="elbow"):
    return JointJog(stamped(), [joint], [], [9.0], 0.0)


def state(joint="elbow"):
    return JointState(stamped(), [joint], [0.3], [], [])


def trajectory(joint="elbow"):
    return JointTrajectory(stamped(), [joint], [JointTrajectoryPoint([0.3], [], [], [], Duration(0, 0))])


TYPES = {
    "control_msgs/msg/JointJog": (jog, lambda message: message.velocities[0], 0.5),
    "sensor_msgs/msg/JointState": (state, lambda message: message.position[0], 0.3),
    "trajectory_msgs/msg/JointTrajectory": (trajectory, lambda message: message.points[0].positions[0], 0.3),
}


@pytest.mark.parametrize("kind", TYPES)
def test_joints_move_within_their_limits_until_a_joint_is_unknown(ros, bridges, kind):
    if not ros.has_quality and kind.startswith("control_msgs"):
        pytest.skip("the peer has no definition of it")
    message, number, reached = TYPES[kind]
    robot, operator = bridges(ARM.replace("TYPE", kind))
    told, hand = ros.reader(1, "/arm", type(message())), ros.writer(2, "/arm", type(message()))
    place = ros.writer(1, "/measured", JointState)
    until("topics match", lambda: hand.has_peer() and told.has_peer() and place.has_peer())
    numbers = []

    def moves():
        operator.tell("resume")
        for _ in range(20):
            place.write(JointState(stamped(), ["elbow"], [0.0], [0.0], [0.0]))
            hand.write(message())
            time.sleep(0.005)
            numbers.extend(number(taken) for taken in told.take(64))
        return numbers and abs(numbers[-1] - reached) < 0.01

    until("the arm moves", moves)
    assert max(numbers) <= reached + 0.001, "within its limits"
    hand.write(message("wrist"))
    refused = operator.until("refused")["why"]
    assert 'unknown joint "wrist"' in refused and "elbow" in refused
    robot.until("stopped")


def test_an_arm_that_tells_no_more_where_it_is_stops_and_does_not_go_back(ros, bridges):
    robot, operator = bridges(ARM.replace("TYPE", "sensor_msgs/msg/JointState"))
    told, hand = ros.reader(1, "/arm", JointState), ros.writer(2, "/arm", JointState)
    place = ros.writer(1, "/measured", JointState)
    until("topics match", lambda: hand.has_peer() and told.has_peer() and place.has_peer())
    numbers = []

    def drives(says_where=True):
        for _ in range(20):
            if says_where:
                place.write(JointState(stamped(), ["elbow"], [0.0], [0.0], [0.0]))
            hand.write(state())
            time.sleep(0.005)
            numbers.extend(taken.position[0] for taken in told.take(64))

    def moves():
        operator.tell("resume")
        drives()
        return numbers and abs(numbers[-1] - 0.3) < 0.01

    until("the arm moves", moves)
    until("it stops", lambda: (drives(says_where=False), not robot.lines.empty())[1])
    robot.until("stopped")
    time.sleep(0.3)
    held = [taken.position[0] for taken in told.take(64)]
    assert held and min(held) > 0.29, "where it was told to be last, not where it was long ago"
