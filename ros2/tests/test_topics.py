"""Topics between two domains over a session, by DDS and by zenoh."""
import fcntl
import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import termios
import threading
import time

import pytest
from conftest import PROGRAM
from messages import JointState, Twist, TwistStamped, Vector3, stamped
from peers import CYCLONE

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
def test_joint_states_at_1_khz_there_and_back(ros, bridges, keep):
    robot, operator = bridges(BOTH_WAYS.replace("KEEP", keep))
    up, down = ros.writer(2, "/up", JointState), ros.reader(2, "/down", JointState)
    echo_in, echo_out = ros.reader(1, "/up", JointState), ros.writer(1, "/down", JointState)
    until("topics match", lambda: all(end.has_peer() for end in (up, down, echo_in, echo_out)))
    count = int(os.environ.get("MESSAGES", "3000"))
    trips, order, one_way = [], [], []

    def send(number):
        up.write(JointState(stamped(time.time_ns()), NAMES, [0.1] * 7, [0.0] * 7, [float(number)] * 7))

    def turn():
        for message in echo_in.take(64):
            stamp = message.header.stamp
            one_way.append(time.time_ns() - stamp.sec * 10**9 - stamp.nanosec)
            echo_out.write(message)
        for message in down.take(64):
            stamp = message.header.stamp
            trips.append(time.time_ns() - stamp.sec * 10**9 - stamp.nanosec)
            order.append(message.effort[0])

    def comes_back():
        send(-1)
        turn()
        return order

    until("the way is open", comes_back)
    due = time.perf_counter()
    for number in range(count):
        send(number)
        due += 0.001
        while time.perf_counter() < due:
            turn()
    end = time.monotonic() + (30 if keep == "reliable" else 5)
    while len([number for number in order if number >= 0]) < count and time.monotonic() < end:
        turn()
    order = [number for number in order if number >= 0]
    trips, one_way = sorted(trips[-len(order) :]), sorted(one_way[-len(order) :])
    figures = {
        "keep": keep,
        "sent": count,
        "came back": len(order),
        "there p50 ms": one_way[len(one_way) // 2] / 1e6,
        "there and back p50 ms": trips[len(trips) // 2] / 1e6,
        "there and back p99 ms": trips[len(trips) * 99 // 100] / 1e6,
    }
    fates = {}
    for who, bridge in (("operator", operator), ("robot", robot)):
        bridge.tell("status")
        for _ in range(2):
            route = bridge.until("route")
            fates[f"{route['name']} at the {who}"] = route["messages"]
    print(json.dumps(figures | fates))
    assert order == sorted(set(order)), "in order, each once"
    if keep == "reliable":
        assert len(order) == count


def moving(ros, bridges, routes=BASE):
    robot, operator = bridges(routes)
    told, hand = ros.reader(1, "/cmd_vel", TwistStamped), ros.writer(2, "/cmd_vel", TwistStamped)
    until("topics match", lambda: hand.has_peer() and told.has_peer())
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


def stops_of(robot):
    """What the robot's bridge has told of stops since it was asked last."""
    stops = []
    while not robot.lines.empty():
        line = json.loads(robot.lines.get())
        robot.said.append(line)
        stops.extend([line["cause"]] if line["event"] == "stopped" else [])
    return stops


def comes_to_rest(told, drive=None):
    speeds = []

    def rests():
        if drive:
            drive()
        speeds.extend(message.twist.linear.x for message in told.take(64))
        return len(speeds) >= 3 and speeds[-3:] == [0.0] * 3

    until("the base is told to rest", rests)


def test_a_killed_operator_stops_the_base(ros, bridges):
    robot, operator, told, _ = moving(ros, bridges)
    operator.kill()
    comes_to_rest(told)
    assert robot.until("stopped")["cause"] in ("watchdog", "operator_left", "link_closed")


def test_a_robots_bridge_that_is_ended_stops_the_base_first(ros, bridges):
    robot, _, told, _ = moving(ros, bridges)
    robot.tell("quit")
    comes_to_rest(told)


@pytest.mark.parametrize("ros", ["dds"], indirect=True)
@pytest.mark.parametrize("name", ["SIGHUP", "SIGQUIT", "SIGTSTP", "SIGUSR1", "SIGRTMIN"])
def test_a_robots_bridge_that_a_signal_ends_stops_the_base_first(ros, bridges, name):
    robot, _, told, _ = moving(ros, bridges)
    robot.process.send_signal(getattr(signal, name))
    comes_to_rest(told)
    assert robot.process.wait(30) == 0


@pytest.mark.parametrize("ros", ["dds"], indirect=True)
def test_a_signal_that_a_bridge_was_started_to_ignore_does_not_end_it(ros, bridges):
    robot, _ = bridges(BASE)
    robot.kill()
    again = robot.again("--ignore-signal=HUP")
    again.until("listening")
    again.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    again.tell("is it there?")
    again.until("error")
    assert again.process.poll() is None


def test_a_message_that_is_refused_stops_the_base_and_says_why(ros, bridges):
    robot, operator, told, drive = moving(ros, bridges)
    drive(speed=float("nan"))
    assert "not finite" in operator.until("refused")["why"]
    # Before it moved it may have been stopped for another cause.
    while robot.until("stopped")["cause"] != "emergency":
        pass
    # Whoever goes on driving moves nothing.
    comes_to_rest(told, drive)


def test_what_is_refused_for_another_reason_is_told_too(ros, bridges):
    _, operator, _, drive = moving(ros, bridges)
    for wrong, why in ({"speed": float("nan")}, "not finite"), ({"frame": "tool"}, "its frame"):
        drive(**wrong)
        assert why in operator.until("refused")["why"]


@pytest.mark.parametrize("ros", ["dds"], indirect=True)
def test_a_bridge_whose_output_nobody_reads_ends_when_it_is_told_to(ros, bridges):
    robot, _ = bridges(BASE)
    robot.kill()
    pipe = subprocess.PIPE
    unread = subprocess.Popen(["env", "--default-signal", PROGRAM, "--json", robot.file], stdin=pipe, stdout=pipe)
    try:
        assert b"listening" in unread.stdout.readline()
        # Each has an answer; all of them are longer than a pipe holds.
        unread.stdin.write(b"nonsense\n" * 5000)
        unread.stdin.flush()
        waiting = lambda: int.from_bytes(fcntl.ioctl(unread.stdout, termios.FIONREAD, bytes(4)), "little")  # noqa: E731
        until("the pipe is full", lambda: waiting() > 60_000)
        unread.send_signal(signal.SIGTERM)
        assert unread.wait(20) == 0
    finally:
        unread.kill()


@pytest.mark.parametrize("ros", ["dds"], indirect=True)
def test_a_line_that_is_no_text_ends_no_commands(ros, bridges):
    robot, _, told, _ = moving(ros, bridges)
    robot.process.stdin.buffer.write(b"\xe9\nstop\n")
    robot.process.stdin.flush()
    while robot.until("stopped")["cause"] != "local_emergency":
        pass
    comes_to_rest(told)


LISTENER = """
import time, messages, peers
reader = peers.Dds().reader(1, "/cmd_vel", messages.TwistStamped)
while not reader.has_peer():
    time.sleep(0.01)
print("ready", flush=True)
while True:
    for message in reader.take(64):
        print(message.twist.linear.x, flush=True)
    time.sleep(0.001)
"""


@pytest.fixture
def listener(ros):
    """Starts a subscriber in a process of its own, which tells the speeds that it hears. Its lease is so long that it is missed by nobody."""
    lease = CYCLONE.replace("<Discovery>", "<Discovery><LeaseDuration>120s</LeaseDuration>")
    environment = os.environ | {"CYCLONEDDS_URI": lease, "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    started = []

    def start():
        process = subprocess.Popen([sys.executable, "-c", LISTENER], stdout=subprocess.PIPE, env=environment, text=True)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def fills_the_window(robot, operator, told, drive):
    """Until its topic takes no more, by which the robot's bridge stops."""
    stops_of(robot)

    def is_full():
        for _ in range(50):
            drive()
            told.take(64)
            time.sleep(0.0005)
        causes = stops_of(robot)
        # A busy machine may stop it for itself before.
        if causes and "device" not in causes:
            operator.tell("resume")
        return "device" in causes

    until("the window is full", is_full, 120)


@pytest.mark.parametrize("ros", ["dds"], indirect=True)
def test_a_bystander_that_is_frozen_keeps_no_stop_from_the_base(ros, bridges, listener):
    robot, operator, told, drive = moving(ros, bridges)
    listener().send_signal(signal.SIGSTOP)
    fills_the_window(robot, operator, told, drive)
    speeds = []
    rests = lambda: speeds.extend(message.twist.linear.x for message in told.take(64)) or speeds[-3:] == [0.0] * 3  # noqa: E731
    until("the base is told to rest", rests, 2)


@pytest.mark.parametrize("ros", ["dds"], indirect=True)
def test_the_last_that_a_controller_hears_that_was_frozen_is_the_stop(ros, bridges, listener):
    robot, operator, told, drive = moving(ros, bridges)
    heard, controller = [], listener()
    threading.Thread(target=lambda: heard.extend(map(float, controller.stdout)), daemon=True).start()
    until("it is moved", lambda: (operator.tell("resume"), drive(), heard and heard[-1] > 0.29)[2])
    controller.send_signal(signal.SIGSTOP)
    fills_the_window(robot, operator, told, drive)
    # All that is told of the stop at once.
    time.sleep(1)
    before = len(heard)
    controller.send_signal(signal.SIGCONT)

    def is_silent():
        count = len(heard)
        time.sleep(2)
        return len(heard) == count > before + 4000

    until("it has heard all", is_silent, 60)
    assert heard[-5:] == [0.0] * 5


@pytest.mark.parametrize("ros", ["dds"], indirect=True)
def test_a_subscriber_of_another_type_is_no_controller(ros, bridges):
    robot, operator = bridges(BASE)
    _other = ros.reader(1, "/cmd_vel", JointState)
    assert "a subscriber" in robot.until("wrong topic")["why"]

    def is_refused():
        for end, line in (robot, "reset"), (operator, "reset"), (operator, "resume"):
            end.tell(line)
        time.sleep(0.05)
        while not robot.lines.empty():
            robot.said.append(json.loads(robot.lines.get()))
        return any("with its type" in str(line) for line in robot.said)

    until("nobody hears", is_refused)
    assert not any(line["event"] == "moving" for line in robot.said)


def test_a_publisher_of_another_type_is_told_and_stops(ros, bridges):
    _, operator = bridges(BASE)
    _other = ros.writer(2, "/cmd_vel", JointState)
    wrong = operator.until("wrong topic")
    assert wrong["stops"] and wrong["topic"] == "/cmd_vel" and "JointState" in wrong["why"] and "correct" in wrong["why"]


def test_ends_in_one_domain_are_told_and_stop(ros, bridges):
    """What the robot's publishes came back from the operator's as if a hand went on."""
    robot, operator = bridges(BASE, domains=(1, 1))
    told = lambda line: line["event"] == "wrong topic"  # noqa: E731
    wrong = next(filter(told, operator.said), None) or operator.until("wrong topic")  # It may be told before the session is there.
    assert wrong["stops"] and wrong["topic"] == "/cmd_vel" and "another bridge" in wrong["why"]
    stopped = lambda: robot.until("stopped")["cause"] == "emergency"  # noqa: E731
    until("the robot is stopped", stopped)


TWO = """
[[route]]
topic = "/joint_states"
type = "sensor_msgs/msg/JointState"
direction = "to_operator"
"""


def test_a_wrong_type_of_a_topic_that_moves_nothing_is_told_and_stops_nothing(ros, bridges):
    robot, _, told, drive = moving(ros, bridges, BASE.replace("\n[limits", TWO + "[limits"))
    _other = ros.writer(1, "/joint_states", TwistStamped)
    wrong = robot.until("wrong topic")
    assert (wrong["topic"], wrong["stops"]) == ("/joint_states", False) and "TwistStamped" in wrong["why"]
    still_moves(told, drive)


def test_a_quality_of_service_that_does_not_fit_is_told_by_its_topic(ros, bridges):
    if not ros.has_quality:
        pytest.skip("peers cannot disagree on it")
    two = TWO + 'qos = { reliability = "reliable" }\n'
    robot, _, told, drive = moving(ros, bridges, BASE.replace("\n[limits", two + "[limits"))
    _other = ros.writer(1, "/joint_states", JointState, reliable=False)
    wrong = robot.until("wrong topic")
    assert (wrong["topic"], wrong["stops"]) == ("/joint_states", False) and "`qos`" in wrong["why"]
    still_moves(told, drive)


def still_moves(told, drive):
    told.take(1000)
    speeds = []

    def moves():
        drive()
        speeds.extend(message.twist.linear.x for message in told.take(64))
        return len(speeds) >= 20

    until("the base still moves", moves)
    assert speeds[-1] > 0.29


def test_a_killed_robots_bridge_is_seen_by_the_operator_and_moves_nothing_when_it_is_back(ros, bridges):
    robot, operator, told, drive = moving(ros, bridges)
    robot.kill()
    operator.until("disconnected")
    again = robot.again()
    again.until("listening")
    operator.until("connected")
    told.take(1000)
    for _ in range(100):
        drive()
        time.sleep(0.005)
    assert not [message for message in told.take(1000) if message.twist.linear.x], "nothing moves unasked"
    assert not any(line["event"] == "moving" for line in again.said)


def test_no_thread_goes_behind_those_that_tell_a_stop(ros, bridges):
    """Threads of a camera share locks with the session's: one that does not come to run would hold up a stop."""
    camera = """
[[route]]
topic = "/camera"
type = "sensor_msgs/msg/CompressedImage"
direction = "to_operator"
largest = "1MB"
"""
    for bridge in bridges(camera):
        # After the name in brackets, nice(2) is the seventeenth (proc(5)).
        tasks = glob.glob(f"/proc/{bridge.process.pid}/task/*/stat")
        nice = {int(pathlib.Path(task).read_text().rpartition(")")[2].split()[16]) for task in tasks}
        assert nice == {os.getpriority(os.PRIO_PROCESS, os.getpid())}
