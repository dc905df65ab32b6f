"""What zenoh alone has: hashes of types, computed or learned."""
import json
import time

import pytest
from messages import Time, TimeReference, Twist, TwistStamped, Vector3, stamped
from test_topics import BASE, comes_to_rest, moving, until

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


def listens_at_the_router(ros, hash_, heard):
    """A subscriber that is the router's own program: nobody meets it but by the router."""
    topic, kind = "%cmd_vel", "geometry_msgs::msg::dds_::TwistStamped_"
    subscriber = ros.router.declare_subscriber(f"1/cmd_vel/{kind}/{hash_}", heard.append)
    token = f"@ros2_lv/1/{ros.router.zid()}/0/9/MS/%/%/echo/{topic}/{kind}/{hash_}/::,10:,:,:,,"
    return ros.router.liveliness().declare_token(token), subscriber


def test_a_subscriber_of_a_distribution_without_hashes_takes_the_topic_from_nobody(ros, bridges):
    robot, _, told, drive = moving(ros, bridges)
    heard = []
    token, subscriber = listens_at_the_router(ros, "TypeHashNotSupported", heard)

    def both_hear():
        drive()
        return heard and told.take(64)

    until("the one that came later hears", lambda: (drive(), heard)[1])
    heard.clear(), told.take(1024)
    until("both hear", both_hear)
    token.undeclare(), subscriber.undeclare()
    comes_to_rest(told)


def test_a_router_that_ends_stops_a_base_that_was_met_by_it(ros, bridges):
    from rosbags.typesys import Stores, get_typestore

    robot, operator = bridges(BASE)
    heard, hand = [], ros.writer(2, "/cmd_vel", TwistStamped)
    hash_ = get_typestore(Stores.ROS2_JAZZY).hash_rihs01("geometry_msgs/msg/TwistStamped")
    _ends = listens_at_the_router(ros, hash_, heard)
    until("topics match", hand.has_peer)
    speed = TwistStamped(stamped(frame="base"), Twist(Vector3(1.0, 0.0, 0.0), Vector3(0.0, 0.0, 0.0)))
    until("the base is driven", lambda: (operator.tell("resume"), hand.write(speed), heard)[2])
    ros.router.close()
    stopped = []

    def stops():
        hand.write(speed)
        while not robot.lines.empty():
            line = json.loads(robot.lines.get())
            stopped.extend([line] if line["event"] == "stopped" else [])
        return stopped

    try:
        until("the robot's bridge stops", stops)
    finally:
        ros.router = ros.open_router()


def test_a_base_that_was_met_directly_is_driven_without_the_router(ros, bridges):
    _, operator, told, drive = moving(ros, bridges)
    ros.router.close()
    told.take(1024)
    speeds = []

    def goes_on():
        # A host that is busy for as long as the watchdog waits stops it as ever.
        operator.tell("resume")
        for _ in range(20):
            drive()
            time.sleep(0.005)
        speeds.extend(message.twist.linear.x for message in told.take(1024))
        return sum(speed > 0.0 for speed in speeds) >= 200

    try:
        until("the base is driven", goes_on)
    finally:
        ros.router = ros.open_router()
