"""Python is held up, and the robot stops all the same."""

import socket
import subprocess
import sys
import time

import pytest
import taut
from conftest import PATIENCE, WATCHDOG, Arm, until

HELD = 6.0  # s: so much longer than the watchdog that a busy machine does not blur the two.
ROBOT = """
import ctypes, os, sys, time
import taut

def say(*words):  # In one piece: two threads say something.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

class Arm:
    state, held = taut.State((0, 0, 0.2)), False
    def hold(self):
        Arm.held = True
        say("held", time.monotonic())
        if sys.argv[5] == "interpreter":
            ctypes.PyDLL(None).usleep(int({HELD} * 1e6))  # Nothing else of Python runs meanwhile.
        else:
            time.sleep({HELD})
        say("free", time.monotonic())
    def apply(self, state, lease):
        self.state = state
        if state.position[0] > 0.05 and not Arm.held:
            self.hold()
    def measure(self):
        return self.state
    def stop(self, cause):
        say("stop", time.monotonic(), cause)

limits = taut.Limits(position=[(-0.3,) * 3, (0.3,) * 3], velocity=0.5, angular_velocity=0.5, force=20, stiffness=500)
robot = taut.Robot("127.0.0.1:0", identity=sys.argv[1], trust=sys.argv[2], limits=limits, device=Arm(), watchdog=float(sys.argv[4]),
                   keeps_stops_in=None, brake=(sys.argv[3], b"brake"))
say("listens", robot.address)
robot.wait()
""".replace("{HELD}", str(HELD))


@pytest.mark.parametrize("by", ["interpreter", "device"])
def test_an_apply_that_holds_is_stopped_before_it_returns(ends, by):
    brake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    brake.bind(("127.0.0.1", 0))
    brake.settimeout(PATIENCE)
    to = f"udp:127.0.0.1:{brake.getsockname()[1]}"
    command = [sys.executable, "-c", ROBOT, ends.keys["robot"], ends.prints["operator"], to, str(WATCHDOG), by]
    robot = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = robot.stdout.readline().split()[1]
        operator = ends.operator(address)
        feeder = ends.feed(operator, taut.State((0.0, 0, 0.2)))
        operator.resume(PATIENCE)
        feeder.state = taut.State((0.2, 0, 0.2))
        held = float(robot.stdout.readline().split()[1])
        cause = until("the operator sees it stop", lambda: stop_of(operator))
        seen = time.monotonic()
        while brake.recv(64) != b"brake":
            pass
        braked = time.monotonic()
        said = {}
        while not {"free", "stop"} <= said.keys():
            line = robot.stdout.readline().split()
            said.setdefault(line[0], float(line[1]))
        stopped, free = said["stop"], held + HELD
        print(f"{by} held for {HELD} s: operator saw `{cause}` after {seen - held:.3f} s, brake {braked - held:.3f} s, stop {stopped - held:.3f} s")
        assert cause == "device"
        assert seen < free and braked < free, "before Python was free"
        assert (stopped < free) == (by == "device"), "`stop` comes as soon as Python can be called"
        feeder.stop()
        operator.close()
    finally:
        robot.kill()
        robot.wait()


def test_a_brake_that_does_not_take_its_bytes_is_told(ends, capsys):
    ends.robot(Arm(), brake=("/dev/full", b"brake")).stop()
    until("it is told", lambda: "the brake /dev/full: No space left" in capsys.readouterr().err)


def stop_of(operator):
    while event := operator.events.poll():
        if event.name == "robot" and event.detail["state"] != "ENABLED" and event.detail["cause"] != "start":
            return event.detail["cause"]
    return None
