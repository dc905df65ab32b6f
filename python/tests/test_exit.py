"""How a program ends, and what becomes of its robot."""

import os
import select
import signal
import socket
import subprocess
import sys
import time

import pytest
import taut
from conftest import LIMITS, PATIENCE, Arm, until

PROGRAM = """
import os, sys, threading, time
import taut
from taut import _ends

class Arm:
    state, applying = taut.State((0, 0, 0.2)), threading.Event()
    def apply(self, state, lease):
        self.applying.set()
        time.sleep(float(os.environ.get("APPLY_SLEEPS", "0")))
        self.state = state
    def measure(self):
        return self.state
    def stop(self, cause):
        os.write(1, f"stop {cause} {id(self)}\\n".encode())

def robot():
    limits = taut.Limits(position=[(-0.3,) * 3, (0.3,) * 3], velocity=0.5, angular_velocity=0.5, force=20, stiffness=500)
    brake = (os.environ["BRAKE"], b"brake") if "BRAKE" in os.environ else None
    return taut.Robot("127.0.0.1:0", identity=sys.argv[1], trust=sys.argv[2], limits=limits, device=Arm(), keeps_stops_in=None, watchdog=2.0, brake=brake)

def main():
"""


def ends_by(ends, body, code=0, **environment):
    """What a program with this function `main` says until it ends, with this code."""
    program = PROGRAM + "".join(f"    {line}\n" for line in body.splitlines()) + "main()\n"
    command = [sys.executable, "-c", program, ends.keys["robot"], ends.prints["robot"]]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * PATIENCE, env={**os.environ, **environment}
    )
    assert done.returncode == code, done
    return done


def test_a_robot_that_a_function_leaves_behind_is_stopped_before_the_program_ends(ends):
    assert "stop host" in ends_by(ends, "left = robot()").stdout


def test_a_robot_of_which_only_the_events_are_kept_is_stopped(ends):
    assert "stop host" in ends_by(ends, "global kept\nkept = robot().events").stdout


def test_who_keeps_the_events_of_an_end_keeps_no_robot_moving(ends):
    arm = Arm()
    events = taut.Robot("127.0.0.1:0", identity=ends.keys["robot"], trust=ends.prints["operator"], limits=LIMITS, device=arm, keeps_stops_in=None).events
    until("it stops", lambda: "host" in arm.stops)
    until("its end is told", lambda: [event for event in waiting(events) if event.name == "ended"])
    assert select.select([events._fd], [], [], 0)[0] and events.missed == 0, "whoever waits for it hears of the end"


def waiting(events):
    try:
        yield from iter(events.poll, None)
    except taut.EndedError:
        pass


def test_a_reset_is_waited_for_no_longer_than_it_says(ends):
    program = PROGRAM + "    kept = robot()\n    print(kept.address, flush=True)\n    time.sleep(600)\nmain()\n"
    command = [sys.executable, "-c", program, ends.keys["robot"], ends.prints["operator"]]
    robot = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        operator = ends.operator(robot.stdout.readline().strip())
        robot.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(taut.RefusedError, match="within 0"):
            operator.reset(0.0)
        assert time.monotonic() - began < 1.0
    finally:
        robot.kill()
        robot.communicate()


@pytest.mark.parametrize("body", ["kept = robot()\nkept.close()", "robot()"], ids=["closed", "left"])
def test_a_brake_is_told_the_last_stop_more_than_once_before_the_program_ends(ends, body):
    brake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    brake.bind(("127.0.0.1", 0))
    brake.setblocking(False)
    ends_by(ends, body, BRAKE=f"udp:127.0.0.1:{brake.getsockname()[1]}")
    told = len(list(iter(lambda: drain(brake), None)))
    assert told > 3, told


def test_an_end_that_is_interrupted_at_exit_keeps_no_robot_from_being_stopped(ends):
    body = """
global kept, odd
class Odd:
    _inner = type("Inner", (), {"leave": lambda self: None})()
    def close(self):
        raise KeyboardInterrupt
kept = [robot(), robot()]
odd = Odd()
_ends._open.add(odd)
""".strip()
    done = ends_by(ends, body)
    assert len(set(done.stdout.splitlines())) == 2 and "KeyboardInterrupt" in done.stderr


def test_a_program_whose_device_does_not_return_ends_in_order(ends):
    body = """
global arm
arm = robot()
operator = taut.connect(arm.address, identity=sys.argv[1], trust=sys.argv[2], deadline=2.0)
def feed():
    try:
        while True:
            operator.send(taut.State((0.1, 0, 0.2)))
            time.sleep(0.002)
    except taut.Error:
        pass
threading.Thread(target=feed, daemon=True).start()
operator.resume(60)
assert Arm.applying.wait(60)
""".strip()
    assert "stop host" in ends_by(ends, body, APPLY_SLEEPS="8").stdout


EXECUTOR = "import concurrent.futures; concurrent.futures.ThreadPoolExecutor().submit(operator.drive, Hand())"


@pytest.mark.parametrize("start", ["threading.Thread(target=operator.drive, args=(Hand(),)).start()", EXECUTOR], ids=["thread", "executor"])
def test_a_program_whose_hand_drives_on_a_thread_ends_with_its_main_thread(ends, start):
    body = f"""
global arm, operator
class Hand:
    def sample(self):
        return taut.State((0.1, 0, 0.2))
    def feel(self, state):
        pass
    def lost(self):
        os.write(1, b"let go\\n")
arm = robot()
operator = taut.connect(arm.address, identity=sys.argv[1], trust=sys.argv[2], deadline=2.0)
{start}
operator.resume(60)
assert Arm.applying.wait(60)
raise RuntimeError("that is all")
""".strip()
    done = ends_by(ends, body, code=1)
    assert "stop host" in done.stdout and "let go" in done.stdout and "that is all" in done.stderr


def test_signals_that_a_program_handles_or_ignores_are_left_to_it(ends):
    body = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, print)
kept = robot()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN and signal.getsignal(signal.SIGHUP) is print
""".strip()
    ends_by(ends, body)


def test_a_process_that_was_forked_off_does_not_wait_for_a_device_of_its_parent(ends):
    body = """
def stop(self, cause):
    Arm.applying.set()
    time.sleep(2)
Arm.stop = stop
robot()
assert Arm.applying.wait(60)
child = os.fork()
if child == 0:
    begin = time.monotonic()
    _ends._close_all()
    os._exit(time.monotonic() - begin > 1)
assert os.waitpid(child, 0)[1] == 0
""".strip()
    ends_by(ends, body)


def test_a_process_that_was_forked_off_leaves_the_robot_alone(ends):
    brake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    brake.bind(("127.0.0.1", 0))
    brake.setblocking(False)
    arm = Arm()
    robot, operator, _ = ends.moving(arm, brake=(f"udp:127.0.0.1:{brake.getsockname()[1]}", b"brake"))
    while drain(brake):
        pass
    child = os.fork()
    if child == 0:
        wrong = 1
        try:
            for end in (robot, operator):
                assert end.has_ended
                with pytest.raises(taut.EndedError):
                    end.stop()
                end.close()
            with pytest.raises(taut.EndedError):
                operator.resume()
            wrong = 0
        finally:
            os._exit(wrong)
    assert os.waitpid(child, 0)[1] == 0
    applied = arm.applied
    until("it moves on", lambda: arm.applied > applied + 10)
    assert not drain(brake) and not arm.stops


def drain(brake):
    try:
        return brake.recv(64)
    except BlockingIOError:
        return None
