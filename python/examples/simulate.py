"""The arm of taut.robots.mujoco, pressed against its wall: over LTE in the simulator, then by real sockets on this machine: simulate.py SCENARIO

SCENARIO is scenarios/teleop/mobile.toml of the repository, or another one with a [teleop]. The same two objects are at the ends of either session.
"""

import sys
import tempfile

import taut
from taut.robots.mujoco import HOME, LIMITS, Arm

VARIANT = "LTE, QUIC datagrams, window"
PUSH = 20.0  # N that the hand is pushed with at most
WATCHDOG = 5.0  # s, as in the scenario


class Press:
    """A hand that goes 17 cm forward in two seconds, 2 cm into the wall, and stays there."""

    def __init__(self):
        self.begin, self.x, self.felt = None, 0.0, None
        self.apart, self.pushes = [], []

    def sample(self):
        now = taut.monotonic()
        if self.begin is None:
            self.begin = now
        self.x = 0.17 * min(1.0, (now - self.begin) / 2)
        return taut.State((self.x, HOME[1], HOME[2]))

    def feel(self, state):
        if self.x < 0.1:  # Before the wall.
            self.apart.append(abs(self.x - state.position[0]))
        if self.x >= 0.17:
            self.pushes.append(-state.force[0])

    def lost(self):
        pass

    def told(self):
        return f"behind the hand by {1e3 * max(self.apart):5.1f} mm at most, pushes the wall with {self.pushes[-1]:5.2f} N"


def simulated(scenario, seed, seconds, variant=VARIANT, touches="wall"):
    hand, settings = Press(), {"duration": f"{seconds}s", "teleop.device_force": PUSH}
    return hand, taut.simulate(
        scenario, robot=Arm(touches), operator=hand, limits=taut.Limits(**LIMITS), seed=seed, settings=settings, variant=variant
    )


def real(seconds, touches="wall"):
    hand = Press()
    with tempfile.TemporaryDirectory() as folder:
        keys = [f"{folder}/{end}.key" for end in ("robot", "operator")]
        prints = [taut.fingerprint(key) for key in keys]
        robot = taut.Robot(
            "127.0.0.1:0", identity=keys[0], trust=prints[1], limits=taut.Limits(**LIMITS), device=Arm(touches), keeps_stops_in=None, watchdog=WATCHDOG
        )
        with robot, taut.connect(robot.address, identity=keys[1], trust=prints[0], force_limit=PUSH) as operator:
            operator.resume()
            operator.drive(hand, seconds)
    return hand


if __name__ == "__main__":
    for seed in (1, 2):
        hand, result = simulated(sys.argv[1], seed, 8)
        print(f"simulated, LTE, seed {seed}: {hand.told()}; round trip {result['teleop']['rtt_ms']['mean']:.0f} ms")
    print(f"real, this machine:     {real(8).told()}")
