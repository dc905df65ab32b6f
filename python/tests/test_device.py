"""The adapter of `taut robot --robot python:` and `taut operator --input python:`, told what taut tells it. It needs nothing but Python."""

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from taut.device import Gripper, Joints, State, Twist

HEADER = struct.Struct("<BBBBI")
PATIENCE = 2.0  # s: taut waits so long for an answer to a stop.


class Told:
    """A device, and taut's end of its socket."""

    def __init__(self, folder: Path, source: str, *spec: str, role: int = 1, channels: int = 0):
        folder.joinpath("made.py").write_text(source)
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "taut.device", *spec],
            stdin=theirs,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "TAUT_DEVICE_FD": "0"},
        )
        theirs.close()
        self.link.settimeout(20)
        self.say(1, role, channels, number=1)

    def say(self, kind, what=0, channel=0, flags=0, number=0, rest=b""):
        self.link.send(HEADER.pack(kind, what, channel, flags, number) + rest)

    def until(self, kind):
        """The next frame of that kind."""
        while True:
            frame = self.link.recv(65536)
            assert frame, "it has ended"
            if frame[0] == kind:
                return (*HEADER.unpack_from(frame), frame[8:])

    def ends(self):
        _, error = self.process.communicate(timeout=20)
        return self.process.returncode, error.decode()


ARM = """
import time
from taut.device import State
class Arm:
    limits_force = True
    def __init__(self):
        self.here = State()
    def limit(self, limits):
        assert limits.velocity == 0.5 and limits.position is None, limits
    def measure(self):
        return self.here
    def apply(self, state, lease):
        assert 0 < lease <= 60
        if state.gripper == 13:
            raise RuntimeError("thirteen")
        if state.gripper == 14:
            time.sleep(1)
        if state.gripper == 15:
            time.sleep(0.002)
        if state.gripper == 16:
            open("at work", "w")
            time.sleep(5)
        self.here = State(state.position)
    def stop(self, cause):
        self.here = State((9, 9, 9))
        open("stops", "a").write(cause + "\\n")
"""


def apply(told, lease, gripper=0, there=(0.5, 0, 0)):
    until = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(lease * 1e9)
    told.say(5, rest=struct.pack("<Q", until) + State(there, gripper=gripper)._pack())


def is_there(path):
    began = time.monotonic()
    while not path.exists():
        assert time.monotonic() - began < 20, f"{path} is not there"
        time.sleep(0.005)


def position(frame):
    return State._unpack(frame[5][12:]).position


def test_a_robot_applies_measures_answers_stops_and_stops_with_its_socket(tmp_path):
    told = Told(tmp_path, ARM, "made:Arm")
    kind, _, _, flags, version, rest = told.until(65)
    assert (flags, version, rest[4:]) == (1 | 2 | 4, 1, b"Arm")
    told.say(3, rest=struct.pack("<8f", *[float("nan")] * 6, 0.5, float("nan")))
    apply(told, 60)
    assert position(told.until(66)) == (0, 0, 0), "nobody enabled it"
    told.say(4)
    apply(told, 60)
    while position(told.until(66)) != (0.5, 0, 0):
        pass
    told.say(7, number=7, rest=b"watchdog")
    assert told.until(68)[4:] == (7, b"told")
    told.link.close()
    assert told.ends() == (0, "")
    assert (tmp_path / "stops").read_text().split() == ["watchdog", "end"]


def test_a_lease_stops_it_also_while_it_is_held_up_and_what_it_does_then_does_not_last(tmp_path):
    told = Told(tmp_path, ARM, "made:Arm")
    told.until(65)
    told.say(4)
    apply(told, 0.2, gripper=14)
    began = time.monotonic()
    assert told.until(68)[4:] == (0, b"lease")
    assert time.monotonic() - began < 0.9, "apply still sleeps"
    time.sleep(1.2)
    told.say(7, number=1, rest=b"device")
    told.until(68)
    assert position(told.until(66)) == (9, 9, 9)
    told.link.close()
    assert told.ends()[0] == 0


@pytest.mark.parametrize("how", ["told", "closed"])
def test_a_stop_does_not_wait_for_the_method_that_is_at_work_nor_for_the_lease(tmp_path, how):
    told = Told(tmp_path, ARM, "made:Arm")
    told.until(65)
    told.say(4)
    apply(told, 60, gripper=16)
    is_there(tmp_path / "at work")
    began = time.monotonic()
    if how == "told":
        told.say(7, number=3, rest=b"emergency")
    else:
        told.link.close()
    is_there(tmp_path / "stops")
    assert time.monotonic() - began < PATIENCE, "apply still sleeps"
    if how == "told":
        assert [told.until(68)[4:] for _ in range(2)] == [(0, b"lease"), (3, b"told")]
        assert position(told.until(66)) == (9, 9, 9)
        told.link.close()
    assert told.ends()[0] == 0


@contextlib.contextmanager
def every_millisecond(say):
    over = threading.Event()

    def run():
        while not over.wait(0.001):
            say()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        time.sleep(0.5)
        yield
    finally:
        over.set()
        thread.join()


def says_all_the_time(told, kind):
    began = time.monotonic()
    while time.monotonic() - began < 1.0:
        asked = time.monotonic()
        told.until(kind)
        assert time.monotonic() - asked < PATIENCE


def test_a_robot_that_is_slower_than_its_operator_says_where_it_is(tmp_path):
    told = Told(tmp_path, ARM, "made:Arm")
    told.until(65)
    told.say(4)
    with every_millisecond(lambda: apply(told, 60, gripper=15)):
        says_all_the_time(told, 66)
    told.process.kill()
    told.ends()


RECEIVES = ARM + """
    def receive(self, channel, payload, age):
        time.sleep(0.05)
        open("stops", "a").write(payload.decode() + "\\n")
    def enable(self):
        time.sleep(0.5)
"""


def receives(folder):
    told = Told(folder, RECEIVES, "made:Arm", channels=1)
    # As taut writes: one more frame, or a stop, when nearly all is read.
    told.link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    told.say(2, flags=0, number=64, rest=struct.pack("<I", 0) + b"lamp")
    told.until(65)
    return told


def test_what_a_robot_has_not_read_stays_with_taut_and_a_stop_comes_ahead_of_what_waits(tmp_path):
    told = receives(tmp_path)
    written, measured = [], 0

    def write():
        written.append(f"message {len(written)}")
        told.say(8, rest=struct.pack("<Q", 0) + written[-1].encode())

    began = time.monotonic()
    while time.monotonic() - began < 1.0:
        can_read, can_write, _ = select.select([told.link], [told.link], [])
        if can_read:
            measured += told.link.recv(65536)[0] == 66
        if can_write:
            write()
    assert 3 < len(written) < 30, "it receives 20 in a second"
    assert measured > 3, "nor does it say where it is"
    write()
    write()
    asked = time.monotonic()
    told.say(7, number=1, rest=b"emergency")
    while told.until(68)[4] != 1:
        pass
    assert time.monotonic() - asked < PATIENCE
    while written[-1] not in (happened := (tmp_path / "stops").read_text().splitlines()):
        assert told.until(66)
    assert happened[-1] == written[-1], "the stop went behind what waited"
    assert [one for one in happened if "message" in one] == written
    told.link.close()
    assert told.ends() == (0, "")


def test_what_would_move_a_robot_and_waits_when_a_stop_comes_is_dropped(tmp_path):
    told = receives(tmp_path)
    told.say(4)
    time.sleep(0.1)  # It is being enabled now.
    told.say(4)
    apply(told, 60)
    told.say(7, number=1, rest=b"emergency")
    while told.until(68)[4] != 1:
        pass
    for _ in range(100):
        assert position(told.until(66)) == (9, 9, 9)
    told.link.close()
    assert told.ends() == (0, "")


def test_what_waits_at_the_end_is_not_obeyed(tmp_path):
    told = receives(tmp_path)
    told.say(4)
    time.sleep(0.1)
    told.say(8, rest=struct.pack("<Q", 0) + b"late")
    told.link.close()
    assert told.ends() == (0, "") and "late" not in (tmp_path / "stops").read_text()


SLOW_STOP = ARM.replace('        open("stops", "a").write(cause + "\\n")', """
        open("stops", "a").write("begins\\n")
        time.sleep(0.5)
        open("stops", "a").write(cause + "\\n")
""")


def test_no_two_stops_are_at_work_at_once(tmp_path):
    told = Told(tmp_path, SLOW_STOP, "made:Arm")
    told.until(65)
    told.say(4)
    for number in (1, 2):
        told.say(7, number=number, rest=b"watchdog")
        time.sleep(0.1)
    while told.until(68)[4] != 2:
        pass
    told.link.close()
    assert told.ends() == (0, "")
    stops = (tmp_path / "stops").read_text().split()
    assert set(stops[::2]) == {"begins"} and "begins" not in stops[1::2], stops


def test_the_first_signal_does_not_cut_the_stop_at_the_end_short(tmp_path):
    told = Told(tmp_path, SLOW_STOP, "made:Arm")
    told.until(65)
    told.link.close()
    is_there(tmp_path / "stops")
    told.process.send_signal(signal.SIGTERM)
    assert told.ends() == (0, "")
    assert (tmp_path / "stops").read_text().split() == ["begins", "end"]


def test_an_exception_is_a_stop_and_ends_it(tmp_path):
    told = Told(tmp_path, ARM, "made:Arm")
    told.until(65)
    told.say(4)
    apply(told, 60, gripper=13)
    status, error = told.ends()
    assert status == 1 and "thirteen" in error
    assert (tmp_path / "stops").read_text() == "end\n"


HAND = """
from taut.device import State
class Hand:
    felt = None
    asked = 0
    def sample(self):
        return None if self.felt is None else State(self.felt.force, enabling=True)
    def feel(self, state):
        self.felt = state
    def lost(self):
        self.felt = None
    def buttons(self):
        self.asked += 1
        if self.asked == 1:
            yield "resume"
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGABRT"])
def test_a_signal_that_ends_it_is_a_stop(tmp_path, name):
    told = Told(tmp_path, ARM, "made:Arm")
    told.until(65)
    told.say(4)
    apply(told, 20)
    while position(told.until(66)) != (0.5, 0, 0):
        pass
    told.process.send_signal(getattr(signal, name))
    code, error = told.ends()
    assert code == 128 + getattr(signal, name) and (tmp_path / "stops").read_text() == "end\n", error


def test_a_second_signal_does_not_cut_the_stop_short(tmp_path):
    told = Told(tmp_path, ARM.replace('        open("stops"', '        time.sleep(0.5)\n        open("stops"'), "made:Arm")
    told.until(65)
    told.process.send_signal(signal.SIGTERM)
    for _ in range(2):
        time.sleep(0.1)
        told.process.send_signal(signal.SIGTERM)
    code, error = told.ends()
    assert code == 143 and (tmp_path / "stops").read_text() == "end\n", error


def test_the_force_of_a_controller_may_be_an_array(tmp_path):
    pytest.importorskip("numpy")
    told = Told(tmp_path, "import numpy" + ARM.replace("State()", "State(controller_force=numpy.array((1.0, 2.0, 3.0)))"), "made:Arm")
    *_, flags, _, rest = told.until(66)
    assert flags == 1 and struct.unpack_from("<3f", rest) == (1, 2, 3)
    told.link.close()
    assert told.ends() == (0, "")


@pytest.mark.parametrize("kind", [9, 8], ids=["samples", "messages"])
def test_an_input_that_takes_its_time_is_asked_for_its_buttons(tmp_path, kind):
    slow = HAND.replace("    def sample(self):\n", "    def sample(self):\n        time.sleep(0.005)\n").replace("if self.asked == 1", "if self.asked")
    slow += "    def receive(self, channel, payload, age):\n        time.sleep(0.02)\n"
    told = Told(tmp_path, "import time" + slow, "made:Hand", role=2, channels=1)
    told.say(2, flags=1, number=64, rest=struct.pack("<I", 0) + b"lamp")
    told.until(65)
    with every_millisecond(lambda: told.say(kind, rest=struct.pack("<Q", 0))):
        says_all_the_time(told, 70)
    told.process.kill()
    told.ends()


def test_an_input_is_sampled_feels_and_presses(tmp_path):
    told = Told(tmp_path, HAND, "made:Hand", role=2)
    told.until(65)
    assert told.until(70)[1] == 3
    told.say(9, rest=struct.pack("<Q", 0))
    told.say(10, rest=State(force=(1, 2, 3))._pack())
    told.say(9, rest=struct.pack("<Q", 0))
    state = State._unpack(told.until(69)[5])
    assert state.position == (1, 2, 3) and state.enabling and not state.locked
    told.link.close()
    assert told.ends() == (0, "")


def test_what_is_no_robot_or_no_class_is_said(tmp_path):
    told = Told(tmp_path, HAND, "made:Hand")
    status, error = told.ends()
    assert status == 1 and "Hand is the class of an input, and a robot is asked for" in error
    status, error = Told(tmp_path, HAND, "made:Foot").ends()
    assert status == 1 and "Foot" in error


@pytest.mark.parametrize(
    "motion",
    [
        State((1, 2, 3), (0.5, 0.5, 0.5, 0.5), (4, 5, 6), (7, 8, 9), 65535, True, False),
        Joints((1.0, 2.0), (), (3.0, 4.0), enabling=True),
        Joints((1.0,), (2.0,), (3.0,)),
        Twist((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), locked=True),
        Gripper(0.5, 10.0, enabling=True),
    ],
)
def test_motion_is_unpacked_as_it_was_packed(motion):
    assert type(motion)._unpack(motion._pack()) == motion


def test_a_class_says_its_own_limits_before_what_it_is(tmp_path):
    own = "    limits = Limits(position=((-1, -1, 0), (1, 1, 0.5)), force=20)\n    limits_force"
    told = Told(tmp_path, ARM.replace("import State", "import Limits, State").replace("    limits_force", own), "made:Arm")
    first = told.link.recv(65536)
    box, (velocity, force) = struct.unpack_from("<6f", first, 8), struct.unpack_from("<2f", first, 32)
    assert first[0] == 3 and box == (-1, -1, 0, 1, 1, 0.5) and velocity != velocity and force == 20
    assert told.until(65)
    told.process.kill()
    told.ends()
    told = Told(tmp_path, ARM.replace("    limits_force", "    limits = {'pan': 1}\n    limits_force"), "made:Arm")
    status, error = told.ends()
    assert status == 1 and "`limits` of Arm is to be a taut.device.Limits, not {'pan': 1}" in error


def test_a_robot_is_found_by_its_entry_point(tmp_path):
    told = Told(tmp_path, "", "--robot", "nothing:of-this-name")
    status, error = told.ends()
    assert status == 1 and "no installed package has an entry point `nothing` of taut.robots; there are: lerobot, mujoco" in error
    told = Told(tmp_path, "", "--robot", "mujoco:glass")
    status, error = told.ends()
    assert status == 1 and ("pip install mujoco" in error or "there are free, wall, foam" in error), error


def test_the_mujoco_arm_goes_where_it_is_told_and_no_harder_than_its_limit(tmp_path):
    pytest.importorskip("mujoco")
    told = Told(tmp_path, "", "--robot", "mujoco:wall")
    *_, flags, _, name = told.until(65)
    assert flags & 3 == 3 and name[4:] == b"MuJoCo arm"
    nothing = float("nan")
    told.say(3, rest=struct.pack("<8f", *[nothing] * 7, 10.0))
    told.say(4)
    end, at = time.monotonic() + 20, State()
    while time.monotonic() < end and not (-12 < at.force[0] < -8 and abs(at.velocity[0]) < 0.001):  # It rests after the blow.
        apply(told, 1.0, there=(0.2, 0.0, 0.3))
        at = State._unpack(told.until(66)[-1][12:])
    assert 0.149 < at.position[0] < 0.16 and -12 < at.force[0] < -8, at
