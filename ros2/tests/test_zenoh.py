"""What zenoh alone has: hashes of types, computed or learned."""
import json

import pytest
from messages import Time, TimeReference, stamped
from test_topics import comes_to_rest, moving, until

ROUTE = '[[route]]\ntopic = "/t{at}"\ntype = "{kind}"\ndirection = "{direction}"\n'
KNOWN = """
builtin_interfaces/msg/Time builtin_interfaces/msg/Duration std_msgs/msg/Header std_msgs/msg/String
geometry_msgs/msg/Vector3 geometry_msgs/msg/Pose geometry_msgs/msg/Twist geometry_msgs/msg/TwistStamped
geometry_msgs/msg/PoseStamped geometry_msgs/msg/WrenchStamped std_msgs/msg/Float64MultiArray sensor_msgs/msg/JointState
sensor_msgs/msg/Joy sensor_msgs/msg/CompressedImage trajectory_msgs/msg/JointTrajectory
""".split()


pytestmark = pytest.mark.parametrize("ros", ["zenoh"], indirect=True)


def test_hashes_of_types_are_those_that_others_compute(ros, bridges):
    from rosbags.typesys import Stores, get_typestore

    bridges("".join(ROUTE.format(at=at, kind=kind, direction="to_operator") for at, kind in enumerate(KNOWN)))
    store = get_typestore(Stores.ROS2_JAZZY)
    until("subscribers are there", lambda: len(ros.tokens(1)) == len(KNOWN))
    for part in ros.tokens(1):
        kind = KNOWN[int(part[9][2:])]
        assert part[11] == store.hash_rihs01(kind), kind


def test_the_hash_of_another_type_is_learned(ros, bridges):
    bridges(ROUTE.format(at=0, kind="sensor_msgs/msg/TimeReference", direction="to_operator"))
    told, robot = ros.reader(2, "/t0", TimeReference), ros.writer(1, "/t0", TimeReference)
    got = []

    def passes():
        robot.write(TimeReference(stamped(), Time(7, 8), "clock"))
        got.extend(told.take(1))
        return got

    until("it passes", passes)
    assert (got[0].time_ref.sec, got[0].source) == (7, "clock")
    hashes = {part[11] for domain in (1, 2) for part in ros.tokens(domain)}
    assert hashes == {robot.publisher.type_hash}


def test_a_subscriber_of_a_distribution_without_hashes_takes_the_topic_from_nobody(ros, bridges):
    robot, _, told, drive = moving(ros, bridges)
    heard, key = [], "1/cmd_vel/geometry_msgs::msg::dds_::TwistStamped_/TypeHashNotSupported"
    session, (topic, kind, hash_) = ros.router, ("%cmd_vel", *key.split("/")[2:])
    subscriber = session.declare_subscriber(key, heard.append)
    token = session.liveliness().declare_token(f"@ros2_lv/1/{session.zid()}/0/9/MS/%/%/echo/{topic}/{kind}/{hash_}/::,10:,:,:,,")

    def both_hear():
        drive()
        return heard and told.take(64)

    until("the one that came later hears", lambda: (drive(), heard)[1])
    heard.clear(), told.take(1024)
    until("both hear", both_hear)
    token.undeclare(), subscriber.undeclare()
    comes_to_rest(told)


def test_a_router_that_ends_stops_the_base(ros, bridges):
    robot, _, _, drive = moving(ros, bridges)
    ros.router.close()
    stopped = []

    def stops():
        drive()
        while not robot.lines.empty():
            line = json.loads(robot.lines.get())
            stopped.extend([line] if line["event"] == "stopped" else [])
        return stopped

    try:
        until("the robot's bridge stops", stops)
    finally:
        ros.router = ros.open_router()
