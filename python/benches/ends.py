"""What Python adds to a session at 1 kHz on this machine: ends.py [SECONDS]

How long a target waits at the robot from when a device in Rust would have it until Python does; and how many ticks of `Operator.drive` are late by
more than half a millisecond, beside those of a bare loop, in turns. The ends are two processes. Figures are of the machine as busy as it is.
"""

import subprocess
import sys
import tempfile
import time

import taut

PERIOD, LATE, ROUNDS = 0.001, 0.0005, 4
ROBOT = """
import sys, taut
class Arm:
    state = taut.State((0, 0, 0.2))
    def apply(self, state, lease):
        self.state = state
    def measure(self):
        return self.state
    def stop(self, cause):
        pass
limits = taut.Limits(position=[(-0.3,) * 3, (0.3,) * 3], velocity=0.5, angular_velocity=0.5, force=20, stiffness=500)
robot = taut.Robot("127.0.0.1:0", identity=sys.argv[1], trust=sys.argv[2], limits=limits, device=Arm(), watchdog=5.0, keeps_stops_in=None)
print(robot.address, flush=True)
sys.stdin.readline()
status = robot.status()
print(*(round(1e6 * status[f"apply_wait_{share}"]) for share in ("p50", "p99")), flush=True)
robot.close()
"""


class Hand:
    def __init__(self):
        self.ticks = []

    def sample(self):
        self.ticks.append(time.monotonic())
        return taut.State((0.1, 0, 0.2))

    def feel(self, state):
        pass

    def lost(self):
        pass


def bare(hand, seconds):
    """The same loop without a session."""
    begin = due = time.monotonic()
    while due - begin < seconds:
        hand.sample()
        due = max(due + PERIOD, time.monotonic() - PERIOD)
        time.sleep(max(0.0, due - time.monotonic()))


def late(ticks):
    """The share of ticks that came so long after the one before that a tick was late."""
    return sum(b - a > PERIOD + LATE for a, b in zip(ticks, ticks[1:])) / max(1, len(ticks) - 1)


def main(seconds):
    with tempfile.TemporaryDirectory() as folder:
        keys = [f"{folder}/{end}.key" for end in ("robot", "operator")]
        prints = [taut.fingerprint(key) for key in keys]
        command = [sys.executable, "-c", ROBOT, keys[0], prints[1]]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as robot:
            with taut.connect(robot.stdout.readline().strip(), identity=keys[1], trust=prints[0], deadline=1.0) as operator:
                shares = {"drive": [], "bare": []}
                for _ in range(ROUNDS):
                    hand, alone = Hand(), Hand()
                    operator.resume()
                    operator.drive(hand, seconds / ROUNDS)
                    bare(alone, seconds / ROUNDS)
                    shares["drive"].append(late(hand.ticks))
                    shares["bare"].append(late(alone.ticks))
                print("done", file=robot.stdin, flush=True)
                p50, p99 = robot.stdout.readline().split()
    drive, alone = (sum(shares[name]) / ROUNDS for name in ("drive", "bare"))
    print(f"added by Python at the robot: p50 {p50} us at most, p99 {p99} us")
    print(f"late ticks: {100 * drive:.2f} % driving, {100 * alone:.2f} % of a bare loop: {drive / max(alone, 1e-9):.2f} times")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
