"""What Python adds to a session at 1 kHz on this machine: ends.py [--seconds 20] [--rounds 5] [--json]

How long a target waits at the robot from when a device in Rust would have it until Python does; how many ticks of `Operator.drive` are late by more
than half a millisecond, beside those of a bare loop, in turns; and, beside a renderer that keeps the robot's interpreter busy, by how much a stop
of the watchdog is late, how old the robot's reading is at the operator, and how far a target is beyond the limits. The ends are two processes in
network namespaces of their own, joined by a veth pair, which needs root; else they are on loopback. Figures are medians of the rounds, of the
machine as busy as it is.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import taut
from taut._progress import Progress

PERIOD, LATE, WATCHDOG = 0.001, 0.0005, 0.2
SPEED, FARTHEST = 0.5, 0.3
ROBOT = """
import sys, threading, time, taut
class Arm:
    state, fastest, farthest = taut.State((0, 0, 0.2)), 0.0, 0.0
    def apply(self, state, lease):
        self.farthest = max(self.farthest, state.position[0])
        self.state = state
    def measure(self):
        # Its velocity is what the operator reads the time of the reading by.
        return taut.State(self.state.position, velocity=(time.monotonic() % 1000, 0, 0))
    def stop(self, cause):
        pass
def render():
    while True:
        sum(x * x for x in range(20_000))
limits = taut.Limits(position=[(-0.3,) * 3, (0.3,) * 3], velocity=0.5, angular_velocity=0.5, force=20, stiffness=500)
arm = Arm()
if sys.argv[4] == "render":
    threading.Thread(target=render, daemon=True).start()
sys.stdin.readline()
robot = taut.Robot(sys.argv[3], identity=sys.argv[1], trust=sys.argv[2], limits=limits, device=arm, watchdog=0.2, keeps_stops_in=None)
print(robot.address, flush=True)
sys.stdin.readline()
status = robot.status()
print(*(round(1e6 * (status[f"apply_wait_{share}"] or 0)) for share in ("p50", "p99")), arm.farthest, flush=True)
sys.stdin.readline()
robot.close()
"""


class Hand:
    """It moves there and back, and notes when it was asked and how old what it felt was."""

    def __init__(self, goal=0.1):
        self.ticks, self.ages, self.goal = [], [], goal

    def sample(self):
        self.ticks.append(time.monotonic())
        return taut.State((self.goal, 0, 0.2))

    def feel(self, state):
        age = (time.monotonic() % 1000 - state.velocity[0]) % 1000
        if age < 500:
            self.ages.append(age)

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
    """How many ticks came so long after the one before that a tick was late."""
    return sum(b - a > PERIOD + LATE for a, b in zip(ticks, ticks[1:]))


def stop_delay(operator):
    """How long after the watchdog's time the operator is told that the robot stopped, s: a round trip's half belongs to it."""
    begin = time.monotonic()
    while time.monotonic() - begin < 5.0:
        while event := operator.events.poll():
            if event.name == "robot" and event.detail["cause"] == "watchdog":
                return time.monotonic() - begin - WATCHDOG
        time.sleep(0.0005)
    return None


class Robot:
    """A robot in a process, and in a namespace where `veth` is set."""

    def __init__(self, keys, prints, veth, render):
        address = "10.77.0.2:0" if veth else "127.0.0.1:0"
        command = [sys.executable, "-c", ROBOT, keys[0], prints[1], address, "render" if render else "still"]
        self.process = subprocess.Popen(
            (["unshare", "-n"] if veth else []) + command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.veth = veth
        if veth:
            self._join()
        self._go()
        self.address = self.process.stdout.readline().strip()

    def _join(self):
        pid, own = self.process.pid, os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{pid}/ns/net") == own:
            time.sleep(0.005)
        here = lambda *words: subprocess.run(["ip", *words], check=True)
        there = lambda *words: subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *words], check=True)
        here("link", "add", "operator", "type", "veth", "peer", "name", "robot", "netns", str(pid))
        here("addr", "add", "10.77.0.1/24", "dev", "operator")
        here("link", "set", "operator", "up")
        there("addr", "add", "10.77.0.2/24", "dev", "robot")
        there("link", "set", "robot", "up")
        there("link", "set", "lo", "up")

    def _go(self):
        print(file=self.process.stdin, flush=True)

    def ask(self):
        self._go()
        return self.process.stdout.readline().split()

    def end(self):
        self._go()
        self.process.stdin.close()
        self.process.wait(30)
        if self.veth:
            subprocess.run(["ip", "link", "del", "operator"], stderr=subprocess.DEVNULL)  # It may have gone with the other end.


def round_of(keys, prints, veth, seconds, render):
    """One robot: what was measured of it."""
    robot, found = Robot(keys, prints, veth, render), {}
    try:
        with taut.connect(robot.address, identity=keys[1], trust=prints[0], deadline=1.0) as operator:
            ticks = {"drive": [0, 0], "bare": [0, 0]}
            for turn in range(4):
                hand, alone = Hand(1.0 if turn == 3 else 0.1), Hand()  # The last is beyond the limits.
                operator.resume()
                operator.drive(hand, seconds / 8)
                if render:
                    found["feedback_age_p50_ms"] = 1e3 * statistics.median(hand.ages)
                    found["feedback_age_p99_ms"] = 1e3 * sorted(hand.ages)[int(0.99 * len(hand.ages))]
                    found["stop_late_ms"] = max(found.get("stop_late_ms", 0.0), 1e3 * stop_delay(operator))
                bare(alone, seconds / 8)
                for name, ends in (("drive", hand), ("bare", alone)):
                    ticks[name][0] += late(ends.ticks)
                    ticks[name][1] += len(ends.ticks)
            p50, p99, farthest = robot.ask()
    finally:
        robot.end()
    found |= {"apply_wait_p50_us": int(p50), "apply_wait_p99_us": int(p99), "beyond_limit_m": max(0.0, float(farthest) - FARTHEST - 1e-6)}
    for name, (count, of) in ticks.items():
        found[f"late_{name}_percent"] = 100 * count / of
    return found


def main(asked):
    veth = os.geteuid() == 0 and subprocess.run(["unshare", "-n", "true"]).returncode == 0
    if veth and "TAUT_BENCH_NETNS" not in os.environ:
        os.environ["TAUT_BENCH_NETNS"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    rounds = {"alone": [], "beside_a_renderer": []}
    with tempfile.TemporaryDirectory() as folder, Progress("ends at 1 kHz") as progress:
        keys = [f"{folder}/{end}.key" for end in ("robot", "operator")]
        prints = [taut.fingerprint(key) for key in keys]
        for number in range(asked.rounds):
            for at, (name, found) in enumerate(rounds.items()):
                found.append(round_of(keys, prints, veth, asked.seconds, at == 1))
                progress((2 * number + at + 1) / (2 * asked.rounds))
    medians = {name: {what: statistics.median(one[what] for one in found) for what in found[0]} for name, found in rounds.items()}
    alone, busy = medians.values()
    late_drive, late_bare = (sum(one[f"late_{which}_percent"] for one in rounds["alone"]) for which in ("drive", "bare"))
    ratio = late_drive / late_bare if late_bare else None
    if asked.json:
        print(json.dumps({"veth": veth, "seconds": asked.seconds, "late_ratio": ratio, "medians": medians, "rounds": rounds}))
        return
    print(f"{'over veth' if veth else 'on loopback'}, medians of {asked.rounds} rounds")
    print(f"added by Python at the robot: p50 {alone['apply_wait_p50_us']} us at most, p99 {alone['apply_wait_p99_us']} us")
    shares = f"{alone['late_drive_percent']:.2f} % driving, {alone['late_bare_percent']:.2f} % of a bare loop"
    print(f"late ticks: {shares}; all rounds {'none of a bare loop' if ratio is None else f'{ratio:.2f} times'}")
    print(f"beside a renderer: p50 {busy['apply_wait_p50_us']} us, a stop late by {busy['stop_late_ms']:.1f} ms at most,")
    print(f"  a reading {busy['feedback_age_p50_ms']:.1f} ms old, p99 {busy['feedback_age_p99_ms']:.1f} ms, {busy['beyond_limit_m']:g} m beyond the limit")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="of one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    main(parser.parse_args())
