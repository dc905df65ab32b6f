"""Each type with joints that moves a robot, from a peer's hand to a peer's robot, and a joint that nobody knows."""
import time

import pytest
from messages import (
    Duration,
    Float64MultiArray,
    JointJog,
    JointState,
    JointTrajectory,
    JointTrajectoryPoint,
    MultiArrayLayout,
    stamped,
)
from test_topics import stops_of, until

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


def array(joint="elbow"):
    return Float64MultiArray(MultiArrayLayout([], 0), [0.3] if joint == "elbow" else [0.3, 0.3])


NO_WRIST = ['unknown joint "wrist"', "elbow"]
TYPES = {
    "control_msgs/msg/JointJog": (jog, lambda message: message.velocities[0], 0.5, NO_WRIST),
    "sensor_msgs/msg/JointState": (state, lambda message: message.position[0], 0.3, NO_WRIST),
    "trajectory_msgs/msg/JointTrajectory": (trajectory, lambda message: message.points[0].positions[0], 0.3, NO_WRIST),
    'std_msgs/msg/Float64MultiArray"\ncommand = "position': (array, lambda message: message.data[0], 0.3, ["2 numbers for 1"]),
}


@pytest.mark.parametrize("kind", TYPES)
def test_joints_move_within_their_limits_until_a_joint_is_unknown(ros, bridges, kind):
    if not ros.has_quality and kind.startswith("control_msgs"):
        pytest.skip("the peer has no definition of it")
    message, number, reached, wrong = TYPES[kind]
    arm = ARM.replace(", acceleration = 100.0", "") if "JointJog" in kind else ARM
    robot, operator = bridges(arm.replace("TYPE", kind))
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
    assert all(part in refused for part in wrong), refused
    robot.until("stopped")


class Arm:
    """One whose elbow is told to be at 0.3, and says that it is at 0.0."""

    def __init__(self, ros, bridges):
        self.robot, self.operator = bridges(ARM.replace("TYPE", "sensor_msgs/msg/JointState"))
        self.told, self.hand = ros.reader(1, "/arm", JointState), ros.writer(2, "/arm", JointState)
        self.place = ros.writer(1, "/measured", JointState)
        until("topics match", lambda: self.hand.has_peer() and self.told.has_peer() and self.place.has_peer())
        self.numbers = []
        until("the arm moves", self.moves)
        stops_of(self.robot)

    def drives(self, says_where=True):
        for _ in range(20):
            if says_where:
                self.says_where()
            self.hand.write(state())
            time.sleep(0.005)
            self.numbers.extend(taken.position[0] for taken in self.told.take(64))

    def says_where(self):
        self.place.write(JointState(stamped(), ["elbow"], [0.0], [0.0], [0.0]))

    def moves(self):
        self.operator.tell("resume")
        self.drives()
        return self.numbers and abs(self.numbers[-1] - 0.3) < 0.01


def test_an_arm_that_tells_no_more_where_it_is_stops_and_does_not_go_back(ros, bridges):
    arm = Arm(ros, bridges)
    causes = []

    def stops():
        arm.drives(says_where=False)
        causes.extend(stops_of(arm.robot))
        # A busy machine may stop it for another cause before.
        if causes and "device" not in causes:
            causes.clear()
            until("the arm moves again", arm.moves)
        return causes

    until("nothing says where it is, and it stops", stops)
    time.sleep(0.3)
    held = arm.numbers[-3:] + [taken.position[0] for taken in arm.told.take(64)]
    assert min(held) > 0.29, "where it was told to be last, not where it was long ago"


def test_an_arm_that_tells_where_it_is_is_held_there(ros, bridges):
    arm = Arm(ros, bridges)
    arm.operator.tell("stop")

    def is_held():
        arm.drives()
        return arm.numbers[-3:] == [0.0] * 3

    until("it is held where it is", is_held)
