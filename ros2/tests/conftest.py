"""Two bridges and independent peers, in a network namespace of their own: nothing leaves it."""
import json
import os
import queue
import subprocess
import threading
import time

import pytest
from peers import Dds, Zenoh

PROGRAM = os.environ.get("TAUT_ROS2", "taut-ros2")
PATIENCE = 30
class Bridge:
    """A process that tells what happens as lines of JSON."""

    def __init__(self, file, started, signals="--default-signal"):
        self.file, self.started = file, started
        started.append(self)
        # Whoever runs the tests in the background may have had some signals ignored.
        self.process = subprocess.Popen(
            ["env", signals, PROGRAM, "--json", file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = queue.Queue()
        self.said = []
        self.reader = threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stdout], daemon=True)
        self.reader.start()

    def until(self, event):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                line = json.loads(self.lines.get(timeout=max(0.0, end - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"`{event}` does not come; said: {self.said}") from None
            self.said.append(line)
            if line["event"] == event:
                return line

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def again(self, *signals):
        """After it was killed: on the port where it was."""
        self.file.write_text(self.file.read_text().replace("127.0.0.1:0", self.address))
        return Bridge(self.file, self.started, *signals)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def zenoh(tmp_path_factory):
    return Zenoh(tmp_path_factory.mktemp("messages"))


@pytest.fixture(params=["dds", "zenoh"])
def ros(request):
    """How ROS 2 is spoken, and a peer that speaks so."""
    peer = Dds() if request.param == "dds" else request.getfixturevalue("zenoh")
    yield peer
    peer.close()


@pytest.fixture
def bridges(tmp_path, ros):
    """Starts a robot's bridge and an operator's in these domains, with these routes; keys are of the file's head."""
    running = []

    def start(routes, operator_routes=None, robot_keys="", operator_keys="", watchdog="500ms", domains=(1, 2)):
        keys, speaks = {}, ros.keys
        for end in ("robot", "operator"):
            folder = tmp_path / end
            folder.mkdir(mode=0o700)
            identity = [os.environ["TAUT"], "identity", "--identity", str(folder / "key"), "--json"]
            said = json.loads(subprocess.run(identity, check=True, capture_output=True, text=True).stdout)
            keys[end] = said["fingerprint"]
        robot = tmp_path / "robot" / "bridge.toml"
        robot.write_text(
            f'{speaks}{robot_keys}domain = {domains[0]}\n[robot]\nlisten = "127.0.0.1:0"\nidentity = "key"\nstops = "stops"\n'
            f'watchdog = "{watchdog}"\ntrust = "{keys["operator"]}"\n{routes}'
        )
        robot = Bridge(robot, running)
        address = robot.address = robot.until("listening")["address"]
        operator = tmp_path / "operator" / "bridge.toml"
        operator.write_text(
            f'{speaks}{operator_keys}domain = {domains[1]}\n[operator]\nconnect = "{address}"\nidentity = "key"\n'
            f'trust = "{keys["robot"]}"\n{operator_routes or routes}'
        )
        operator = Bridge(operator, running)
        operator.until("connected")
        return robot, operator

    yield start
    for bridge in running:
        bridge.kill()
