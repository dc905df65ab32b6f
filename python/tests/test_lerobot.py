"""LeRobot's own loop at the ends of a session, as its release has it; what it imports and does not use is stood in for."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import taut
from conftest import PATIENCE, until
from taut.lerobot import observation, serve, tell

LEROBOT = os.environ.get("LEROBOT")
TAUT = os.environ.get("TAUT")
STAND_IN = pathlib.Path(__file__).with_name("lerobot_standin")
with_lerobot = pytest.mark.skipif(not LEROBOT, reason="no lerobot was installed (LEROBOT, the folder of its commands)")

LIMITS = {
    "pan.pos": taut.JointLimits(position=(-50, 50), velocity=200),
    "grip.pos": taut.JointLimits(position=(0, 100), velocity=200),
}
WATCHDOG = 1.0
IMPORTS = 300  # s: longer than a busy machine takes for LeRobot's modules.


class Arm:
    """As a robot of LeRobot's: it is at once where it is told to be."""

    name = "arm"
    action_features = {"pan.pos": float, "grip.pos": float}
    observation_features = {**action_features, "pan.current": float, "front": (480, 640, 3)}

    def __init__(self):
        self.is_connected, self.at, self.sent, self.fails = False, {"pan.pos": 5.0, "grip.pos": 10.0}, [], None

    def connect(self):
        self.is_connected = True

    def get_observation(self):
        if self.fails == "get_observation":
            raise ConnectionError("the bus is unplugged")
        return {**self.at, "pan.current": 0.5, "front": None}

    def send_action(self, action):
        if self.fails == "send_action":
            raise ConnectionError("the bus is unplugged")
        assert set(action) == set(self.at)
        self.sent.append((time.monotonic(), action))
        self.at = dict(action)
        return action

    def went(self):
        """Has it been moved, and where is its first joint?"""
        return self.at["pan.pos"] if self.sent else 5.0


class Site:
    def __init__(self, ends, folder):
        self.ends, self.folder = ends, folder

    def serve(self, arm, **settings):
        settings = {"limits": LIMITS, "watchdog": WATCHDOG, "keeps_stops_in": None, **settings}
        robot = serve(arm, "127.0.0.1:0", identity=self.ends.keys["robot"], trust=self.ends.prints["operator"], **settings)
        self.ends.open.append(robot.close)
        return robot

    def loop(self, *arguments):
        """The unmodified command of LeRobot."""
        process = subprocess.Popen(
            [f"{LEROBOT}/lerobot-teleoperate", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(STAND_IN), "HF_HOME": str(self.folder), "HF_LEROBOT_HOME": str(self.folder)},
            stdout=subprocess.DEVNULL,
            stderr=open(self.folder / "loop.log", "w"),
        )
        self.ends.open.append(lambda: (process.kill(), process.wait()))
        end = time.monotonic() + IMPORTS
        while process.poll() is None and not self.said():  # It says its settings first.
            assert time.monotonic() < end, "LeRobot does not begin"
            time.sleep(0.05)
        return process

    def said(self):
        return (self.folder / "loop.log").read_text()

    def operator(self, robot, *more, joints="[pan.pos, grip.pos]", goal="{pan.pos: 30, grip.pos: 60}"):
        """The loop drives this robot."""
        return self.loop(
            "--robot.type=taut", f"--robot.connect={robot.address}", f"--robot.trust={robot.fingerprint}",
            f"--robot.identity={self.ends.keys['operator']}", f"--robot.joints={joints}",
            "--teleop.discover_packages_path=scripted", "--teleop.type=scripted", f"--teleop.goal={goal}", *more,
        )


@pytest.fixture
def site(ends, tmp_path):
    return Site(ends, tmp_path)


def events(end, name):
    return lambda: [event for event in iter(end.events.poll, None) if event.name == name]


@with_lerobot
def test_the_arm_goes_where_the_loop_says_within_its_limits_and_stops_when_the_loop_is_killed(site):
    arm = Arm()
    robot = site.serve(arm)
    loop = site.operator(robot, goal="{pan.pos: 30, grip.pos: 400}")
    until("it arrives", lambda: loop.poll() is not None or arm.at == pytest.approx({"pan.pos": 30, "grip.pos": 100}, abs=1e-3))
    assert loop.poll() is None, site.said()
    assert max(action["grip.pos"] for _, action in arm.sent) <= 100
    (_, before), *rest = arm.sent
    assert before["pan.pos"] < 20, "it does not jump"
    killed = time.monotonic()
    loop.send_signal(signal.SIGKILL)
    stopped = until("stopped", events(robot, "stopped"))
    took = time.monotonic() - killed
    assert stopped[0].detail["cause"] == "watchdog" and took < 2 * WATCHDOG, took
    assert rest and arm.at == pytest.approx({"pan.pos": 30, "grip.pos": 100}, abs=1e-3), "it holds"


@with_lerobot
@pytest.mark.parametrize(
    "joints, why",
    [("[pan.pos, tail.pos]", "no joints ['tail.pos']"), ("[grip.pos, pan.pos]", "another order"), ("[pan.pos]", "another order or number")],
)
def test_other_joints_than_the_robot_has_are_an_error_that_names_them_and_nothing_moves(site, joints, why):
    arm = Arm()
    loop = site.operator(site.serve(arm), joints=joints)
    assert loop.wait(PATIENCE) != 0
    assert why in site.said() and arm.went() == 5.0


@with_lerobot
def test_an_action_with_a_joint_that_the_robot_does_not_have_ends_the_loop_and_stops_the_robot(site):
    arm = Arm()
    robot = site.serve(arm)
    loop = site.operator(robot, "--teleop.strange_after=100")
    stopped = until("stopped", events(robot, "stopped"))
    assert loop.wait(PATIENCE) != 0
    assert "unknown ['tail.pos']" in site.said()
    assert stopped[0].detail["cause"] in ("operator_left", "operator left", "link_closed"), stopped
    assert arm.sent


@with_lerobot
def test_a_robot_that_stops_ends_the_loop_with_the_cause(site):
    arm = Arm()
    robot = site.serve(arm)
    loop = site.operator(robot)
    until("it moves", lambda: loop.poll() is not None or arm.went() == pytest.approx(30, abs=1e-3))
    robot.stop()
    assert loop.wait(PATIENCE) != 0
    assert "the robot stopped" in site.said() and "start the loop again" in site.said()


@with_lerobot
def test_an_operator_elsewhere_is_the_teleoperator_of_a_loop_beside_the_robot(site):
    log, stops = site.folder / "actions.jsonl", site.folder / "stops"
    log.touch()
    loop = site.loop(
        "--robot.discover_packages_path=scripted", "--robot.type=scripted", f"--robot.log={log}",
        "--teleop.type=taut", "--teleop.listen=127.0.0.1:0", f"--teleop.trust=[{site.ends.prints['operator']}]",
        f"--teleop.identity={site.ends.keys['robot']}", f"--teleop.keeps_stops_in={stops}", f"--teleop.watchdog={WATCHDOG}",
        "--teleop.limits={pan.pos: [-50, 50, 200], grip.pos: [0, 100, 200]}", "--teleop.start={pan.pos: 0, grip.pos: 0}",
    )  # fmt: skip
    line = until("it listens", lambda: loop.poll() is not None or [line for line in site.said().splitlines() if "listens on" in line])
    assert loop.poll() is None, site.said()
    sender, seen = taut.Sender("joints", taut.JointNames("pan.pos", "grip.pos"), kind="motion"), observation(taut.Receiver)
    operator = site.ends.operator(line[0].split()[-1], channels=[sender, seen])
    until("the loop takes actions", log.read_text)
    operator.resume(PATIENCE)
    last = lambda: json.loads(log.read_text().splitlines()[-1])

    def arrived():
        sender.send(taut.Joints((30.0, 400.0)))
        return last() == pytest.approx({"pan.pos": 30, "grip.pos": 100}, abs=1e-3)

    until("it arrives", arrived)
    until("it is seen", lambda: (told := seen.poll()) and told == pytest.approx({"pan.pos": 30, "grip.pos": 100}, abs=1e-3))
    until("nothing is sent, and it stops", lambda: any(e.detail["cause"] == "watchdog" for e in events(operator, "robot")()))
    assert last() == pytest.approx({"pan.pos": 30, "grip.pos": 100}, abs=1e-3), "it holds"


with_command = pytest.mark.skipif(not (LEROBOT and TAUT), reason="no lerobot (LEROBOT) or no command `taut` was built (TAUT)")


TELEOPERATOR = """
import time

import taut
from lerobot_teleoperator_taut import TautTeleoperator, TautTeleoperatorConfig

class Robot:
    has_ended = False

def made(name, pan=0):
    limits = {name: [-1, 1, 9], "pan.pos": [-9, 9, 9]}
    return TautTeleoperator(TautTeleoperatorConfig(limits=limits, start={name: 0, "pan.pos": pan}))

for wrong in [("x",), ("x.vel", 90), ("x.vel", float("nan"))]:
    try:
        made(*wrong)
    except ValueError as why:
        print(why)
teleoperator = made("x.vel")
teleoperator._robot = robot = Robot()
teleoperator.send_feedback({"x.vel": 0.2, "pan.pos": 3})
print(teleoperator.get_action())
teleoperator.apply(taut.Joints((0.3, 5)), 0.1)
print(teleoperator.get_action())
teleoperator.stop("watchdog")
print(teleoperator.get_action())
teleoperator.send_feedback({"x.vel": 0, "pan.pos": 2.9})
teleoperator.stop("operator")
print(teleoperator.get_action())
teleoperator.apply(taut.Joints((0.3, 5)), 0.1)
teleoperator.send_feedback({"x.vel": 0, "pan.pos": 9.4})
teleoperator.stop("operator")
print(teleoperator.get_action())
teleoperator.apply(taut.Joints((0.3, 6)), 0.1)
teleoperator.get_action()
time.sleep(0.3)
teleoperator.stop("watchdog")
print(teleoperator.get_action())
said = []
teleoperator._observations = type("Sender", (), {"is_open": True, "send": said.append})
teleoperator.measure()
teleoperator.send_feedback({"x.vel": 0, "pan.pos": 5})
teleoperator.measure()
print(said)
time.sleep(0.3)
teleoperator.get_action()
teleoperator.apply(taut.Joints((0.3, 7)), 0.1)
teleoperator.get_action()
teleoperator.apply(taut.Joints((0.3, 8)), 0.1)
time.sleep(0.3)
for late in (teleoperator, made("x.vel")):
    try:
        late.apply(taut.Joints((0.3, 9)), 0.1)
    except RuntimeError as why:
        print(why)
    late.stop("device")
    late._robot = robot
    print(late.get_action())
robot.has_ended = True
try:
    teleoperator.get_action()
except RuntimeError as why:
    print(why)
"""


@with_lerobot
def test_a_stop_of_the_teleoperator_is_where_the_robot_was_seen_and_the_sessions_end_ends_the_loop():
    told = subprocess.run(
        [f"{LEROBOT}/python", "-c", TELEOPERATOR], env={**os.environ, "PYTHONPATH": os.pathsep.join([str(STAND_IN), os.environ.get("PYTHONPATH", "")])}, capture_output=True, text=True
    )
    refused, far, nowhere, began, moved, stopped, again, beyond, unseen, said, *late, ended = told.stdout.splitlines()
    assert "pan.pos is 90, and its limits are -9 and 9" in far.replace(".0", "") and "nan" in nowhere
    assert "cannot be stopped: ['x']" in refused and ended == "the session is over", told.stderr
    assert began == "{'x.vel': 0.0, 'pan.pos': 3.0}", "it stays where it is"
    assert moved == "{'x.vel': 0.3, 'pan.pos': 5}"
    assert stopped == "{'x.vel': 0.0, 'pan.pos': 3.0}", "it is held up at 3"
    assert again == stopped, "it sags no further"
    assert beyond == "{'x.vel': 0.0, 'pan.pos': 9}", "it is bent beyond its limits"
    assert unseen == "{'x.vel': 0.0, 'pan.pos': 6}", "what was seen long ago says nothing"
    assert said == "[{'x.vel': 0.0, 'pan.pos': 6}, {'x.vel': 0.0, 'pan.pos': 5.0}]", "nor is it told as new"
    none = "LeRobot's loop has taken no action for 0.25 s"
    assert late == [none, "{'x.vel': 0.0, 'pan.pos': 7}", none, "{'x.vel': 0.0, 'pan.pos': 0.0}"], "a loop that was away finds nothing that ran ahead"


def command(site, *more):
    """`taut robot` with a robot of LeRobot's, and an operator of it."""
    log = site.folder / "actions.jsonl"
    (site.folder / "channels.toml").write_text(CHANNELS)
    robot = subprocess.Popen(
        [TAUT, "robot", "--json", "--listen", "127.0.0.1:0", "--identity", str(site.ends.keys["robot"]), "--trust", site.ends.prints["operator"],
         "--state", "kept", "--watchdog", "1s", "--channels", "channels.toml",
         "--robot", f"lerobot:--discover_packages_path=scripted --type=scripted --log={log}", *more],
        cwd=site.folder,
        env={**os.environ, "PATH": f"{LEROBOT}:{os.environ['PATH']}", "PYTHONPATH": str(STAND_IN), "HF_HOME": str(site.folder)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    site.ends.open.append(lambda: (robot.kill(), robot.wait()))
    address = next(line["address"] for line in map(json.loads, robot.stdout) if line["event"] == "listening")
    sender, seen = taut.Sender("joints", taut.JointNames("pan.pos", "grip.pos"), kind="motion"), observation(taut.Receiver)
    return robot, site.ends.operator(address, channels=[sender, seen]), sender, seen


@with_command
def test_the_command_has_robots_of_lerobot(site):
    _, operator, sender, seen = command(site)
    operator.resume(PATIENCE)

    def arrived():
        sender.send(taut.Joints((30.0, 400.0)))
        return (told := seen.poll()) and told == pytest.approx({"pan.pos": 30, "grip.pos": 100}, abs=1e-3)

    until("it arrives", arrived)
    until("it stops", lambda: any(e.detail["cause"] == "watchdog" for e in events(operator, "robot")()))


CHANNELS = """
[[channel]]
name = "joints"
kind = "motion"
schema = "taut/Joints"
definition = '["pan.pos","grip.pos"]'

[[channel]]
name = "observation"
kind = "feedback"
schema = "lerobot/Observation"
encoding = "json"

[limits.joints]
joints = 2
position = [[-50, 50], [0, 100]]
velocity = 200
effort = 0
"""


@pytest.mark.parametrize("method", ["get_observation", "send_action"])
def test_a_robot_that_fails_is_stopped_and_the_operator_is_told(site, method):
    arm = Arm()
    robot = site.serve(arm)
    sender = taut.Sender("joints", taut.JointNames(*LIMITS), kind="motion")
    operator = site.ends.operator(robot.address, channels=[sender, observation(taut.Receiver)])
    operator.resume(PATIENCE)

    def moved():
        sender.send(taut.Joints((30.0, 60.0)))
        return arm.went() > 5.0

    until("it moves", moved)
    arm.fails = method

    def told():
        sender.send(taut.Joints((30.0, 60.0)))
        return any(e.detail["cause"] == "device" for e in events(operator, "robot")())

    until("told", told)


def test_joints_without_limits_and_joints_that_cannot_be_stopped_are_refused_by_name(site):
    with pytest.raises(ValueError, match=r"unknown \['tail.pos'\], missing \['grip.pos'\]"):
        site.serve(Arm(), limits={"pan.pos": LIMITS["pan.pos"], "tail.pos": LIMITS["pan.pos"]})
    arm = Arm()
    arm.action_features = {"pan.pos": float, "torque": float}
    with pytest.raises(ValueError, match="torque"):
        site.serve(arm)


def test_a_velocity_is_stopped_by_zero(site):
    arm = Arm()
    arm.action_features = arm.observation_features = {"x.vel": float, "lift.pos": float}
    arm.at = {"x.vel": 0.3, "lift.pos": 7.0}
    taut.lerobot.Follower(arm).stop("watchdog")
    assert arm.sent[-1][1] == {"x.vel": 0.0, "lift.pos": 7.0}


def test_velocities_are_zero_before_it_is_read_where_the_robot_is():
    arm = Arm()
    arm.action_features = arm.observation_features = {"x.vel": float, "lift.pos": float}
    arm.at, seen = {"x.vel": 0.3, "lift.pos": 7.0}, []
    follower = taut.lerobot.Follower(arm)
    follower.apply(taut.Joints((0.3, 8.0)), 0.1)
    reads = arm.get_observation
    arm.get_observation = lambda: seen.append(arm.sent[-1][1]) or reads()
    follower.stop("emergency")
    assert seen == [{"x.vel": 0.0, "lift.pos": 8.0}] and arm.sent[-1][1] == seen[0]


def test_each_sender_says_what_it_cannot_send(monkeypatch, caplog):
    monkeypatch.setattr(taut.Sender, "is_open", True)
    for _ in range(2):
        sender = observation(taut.Sender)
        for _ in range(3):
            tell(sender, {"pan.pos": float("nan")})
    assert len([record for record in caplog.records if "cannot be sent" in record.message]) == 2


def test_an_observation_that_cannot_be_sent_stops_nothing_and_is_said_once(site, caplog):
    arm = Arm()
    lamp = taut.Sender("lamp", bytes, kind="telemetry")
    robot = site.serve(arm, channels=[lamp])
    sender = taut.Sender("joints", taut.JointNames(*LIMITS), kind="motion")
    operator = site.ends.operator(robot.address, channels=[sender, observation(taut.Receiver), taut.Receiver("lamp", bytes, kind="telemetry")])
    until("open", lambda: lamp.is_open)
    operator.resume(PATIENCE)
    reads = arm.get_observation
    arm.get_observation = lambda: {**reads(), "pan.current": float("nan")}

    def moved():
        sender.send(taut.Joints((30.0, 60.0)))
        return arm.at == pytest.approx({"pan.pos": 30, "grip.pos": 60}, abs=1e-3)

    until("it arrives", moved)
    assert not events(robot, "stopped")()
    assert len([record for record in caplog.records if "cannot be sent" in record.message]) == 1


def test_what_is_stopped_again_at_once_sags_no_further_and_later_it_holds_where_it_is_then(monkeypatch):
    arm, held = Arm(), []
    follower = taut.lerobot.Follower(arm)

    def sags(cause):
        arm.at = {**arm.at, "pan.pos": arm.at["pan.pos"] - 1}
        follower.stop(cause)
        held.append(arm.sent[-1][1]["pan.pos"])

    sags("watchdog")
    sags("emergency")
    arm.fails = "get_observation"
    with pytest.raises(ConnectionError):
        follower.measure()
    arm.fails = None
    sags("device")
    follower.apply(taut.Joints((3.0, 10.0)), 0.1)
    sags("watchdog")
    monkeypatch.setattr(taut.lerobot, "SAME_STOP", 0.0)
    sags("operator")
    assert held == [4, 4, 3, 2, 1]


def drive(sender, seconds):
    """Sends for so long, as an operator's loop at 60 Hz."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sender.send(taut.Joints((30.0, 60.0)))
        time.sleep(1 / 60)


@with_command
def test_a_recording_becomes_a_dataset_that_is_read_back(site, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("mcap")
    robot, operator, sender, seen = command(site, "--record", "session.mcap")
    for _ in range(2):  # Two episodes, between which it stops.
        operator.resume(PATIENCE)
        drive(sender, 2.0)
        until("it stops", lambda: any(e.detail["cause"] == "watchdog" for e in events(operator, "robot")()))
    operator.close()
    robot.send_signal(signal.SIGTERM)
    assert robot.wait(PATIENCE) == 0
    made = subprocess.run(
        [sys.executable, "-m", "taut.lerobot", "convert", "session.mcap", "dataset/", "--fps", "20", "--task", "pan", "--json"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    info = json.loads(made.stdout)
    assert info["total_episodes"] == 2 and info["features"]["action"]["names"] == ["pan.pos", "grip.pos"]
    root = tmp_path / "dataset"
    assert json.loads((root / "meta/info.json").read_text()) == info
    data = pq.read_table(root / "data/chunk-000/file-000.parquet").to_pydict()
    assert len(data["index"]) == info["total_frames"] and data["index"] == list(range(info["total_frames"]))
    # Two seconds each, without what was told before it stopped and lasted until the recording showed that.
    assert 2 * 20 <= info["total_frames"] <= 2 * (2 * 20 + 3)
    for number in (0, 1):
        rows = [row for row, episode in enumerate(data["episode_index"]) if episode == number]
        assert [data["frame_index"][row] for row in rows] == list(range(len(rows)))
        assert data["timestamp"][rows[1]] == pytest.approx(1 / 20)
    assert data["action"][-1] == pytest.approx([30, 60], abs=1e-3) and data["observation.state"][-1] == pytest.approx([30, 60], abs=1e-3)
    assert data["action"][0][0] < 30, "the limits' way there is what was applied"
    episodes = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [(e["dataset_from_index"], e["dataset_to_index"]) for e in episodes][1][1] == info["total_frames"]
    assert episodes[1]["tasks"] == ["pan"] and episodes[1]["stats/action/count"] == [episodes[1]["length"]]
    pandas = pytest.importorskip("pandas")
    tasks = pandas.read_parquet(root / "meta/tasks.parquet")
    assert tasks.index.tolist() == ["pan"] and tasks["task_index"].tolist() == [0]
    again = subprocess.run([sys.executable, "-m", "taut.lerobot", "convert", "session.mcap", "dataset"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode != 0 and "name a new folder" in again.stderr
