"""Two ends on loopback, and a device that remembers."""

import threading
import time

import pytest
import taut

PATIENCE = 60  # s: longer than a busy machine takes for anything here.
WATCHDOG = 2.0  # s: longer than a busy machine lets a thread wait.
LIMITS = taut.Limits(position=[(-0.3,) * 3, (0.3,) * 3], velocity=0.5, angular_velocity=0.5, force=20.0, stiffness=500.0)


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return found


class Arm:
    """It is at once where it is told to be."""

    def __init__(self):
        self.state, self.applied, self.leases, self.stops = taut.State((0, 0, 0.2), force=(0, 0, 1.5)), 0, [], []
        self.fails = None

    def apply(self, state, lease):
        if self.fails == "apply":
            raise RuntimeError("the drive is too hot")
        self.state = taut.State(state.position, force=(0, 0, 1.5))
        self.applied += 1
        self.leases.append(lease)

    def measure(self):
        if self.fails == "measure":
            raise OSError("the bus is unplugged")
        return self.state

    def stop(self, cause):
        self.stops.append(cause)
        if self.fails == "stop":
            raise SystemExit("the relay sticks")


class Feeder:
    """Sends one state again and again, on a thread, as a hand that is held still."""

    def __init__(self, operator, state):
        self.state, self._over = state, threading.Event()
        self._thread = threading.Thread(target=self._run, args=(operator,))
        self._thread.start()

    def _run(self, operator):
        while not self._over.wait(0.005):
            try:
                operator.send(self.state)
            except taut.Error:
                return

    def stop(self):
        self._over.set()
        self._thread.join()


class Ends:
    def __init__(self, folder):
        self.keys = {name: folder / f"{name}.key" for name in ("robot", "operator")}
        self.prints = {name: taut.fingerprint(str(key)) for name, key in self.keys.items()}
        self.open = []

    def robot(self, device, **settings):
        settings = {"watchdog": WATCHDOG, "limits": LIMITS, "keeps_stops_in": None, "rate": 200, **settings}
        robot = taut.Robot("127.0.0.1:0", identity=self.keys["robot"], trust=self.prints["operator"], device=device, **settings)
        self.open.append(robot.close)
        return robot

    def operator(self, address, **settings):
        settings = {"deadline": WATCHDOG, "rate": 200, **settings}
        operator = taut.connect(address, identity=self.keys["operator"], trust=self.prints["robot"], **settings)
        self.open.append(operator.close)
        return operator

    def feed(self, operator, state):
        feeder = Feeder(operator, state)
        self.open.append(feeder.stop)
        return feeder

    def moving(self, device, **settings):
        """An arm that a hand moves."""
        robot = self.robot(device, **settings)
        operator = self.operator(robot.address)
        feeder = self.feed(operator, taut.State((0.1, 0, 0.2)))
        operator.resume(PATIENCE)
        until("the arm moves", lambda: device.applied > 10)
        return robot, operator, feeder


@pytest.fixture
def ends(tmp_path):
    ends = Ends(tmp_path)
    yield ends
    for close in reversed(ends.open):
        close()
