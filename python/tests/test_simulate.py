"""Python objects at the ends of a simulated session."""

import json
import os
import signal
import threading
import time

import pytest
import taut
from conftest import LIMITS

SCENARIO = """
title = "devices of Python"
duration = "2s"
drain = "1s"
[links.there]
from = "operator"
to = "robot"
chain = [{ delay = "15ms" }, { jitter = { distribution = "uniform", mean = "5ms", spread = "5ms" } }, { loss = { bernoulli = "1%" } }]
[links.back]
from = "robot"
to = "operator"
chain = [{ delay = "15ms" }, { loss = { bernoulli = "1%" } }]
[teleop]
operator = "operator"
robot = "robot"
watchdog = "200ms"
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(SCENARIO)
    return path


class Calls:
    """Both ends, and what they were called with."""

    def __init__(self, fails=None, at=0.5):
        self.calls, self.state, self.fails, self.at = [], taut.State((0, 0, 0.2), force=(0, 0, 1.5)), fails, at

    def note(self, what, *details):
        now = taut.monotonic()
        self.calls.append((now, what, *details))
        if what == self.fails and now >= self.at:
            raise RuntimeError("the drive is too hot")

    def apply(self, state, lease):
        self.note("apply", state.position, lease)
        self.state = taut.State(state.position, force=(0, 0, 1.5))

    def measure(self):
        self.note("measure")
        return self.state

    def stop(self, cause):
        self.note("stop", cause)

    def sample(self):
        self.note("sample")
        return taut.State((0.1 * taut.monotonic(), 0, 0.2))

    def feel(self, state):
        self.note("feel", state.force)

    def lost(self):
        self.note("lost")

    def count(self, what):
        return sum(call[1] == what for call in self.calls)


def simulate(scenario, seed=7, **settings):
    calls = Calls()
    settings = {"robot": calls, "operator": calls, "limits": LIMITS, **settings}
    return calls, taut.simulate(scenario, seed=seed, **settings)


def test_the_same_seed_gives_the_same_bytes_and_the_same_calls(scenario):
    (first, result), (again, same), (other, different) = (simulate(scenario, seed) for seed in (7, 7, 8))
    assert json.dumps(result) == json.dumps(same) and first.calls == again.calls
    assert json.dumps(result) != json.dumps(different) and first.calls != other.calls
    assert result["conservation"]["holds"] and result["teleop"]["own_devices"] == ["operator", "robot"]
    assert result["teleop"]["control"].get("touch") is None


def test_devices_live_in_virtual_time(scenario):
    began = time.monotonic()
    calls, _ = simulate(scenario)
    times = [call[0] for call in calls.calls]
    assert times == sorted(times) and times[0] < 0.2 and 1.9 < times[-1] <= 3.0
    applied = [call for call in calls.calls if call[1] == "apply"]
    assert 1_500 < len(applied) <= 2_000 and all(0 < lease <= 0.2 for *_, lease in applied)
    assert calls.count("feel") > 1_500 and (0, 0, 1.5) in [call[2] for call in calls.calls if call[1] == "feel"]
    assert taut.monotonic() >= began, "outside it is the machine's"


def test_limits_are_those_of_the_robot(scenario):
    calls, _ = simulate(scenario, limits=taut.Limits(position=[(-0.05,) * 3, (0.05, 0.05, 0.3)], velocity=1, angular_velocity=0, force=20, stiffness=500))
    assert max(call[2][0] for call in calls.calls if call[1] == "apply") == pytest.approx(0.05)


def test_a_hand_that_reads_nothing_new_is_a_stop_by_the_watchdog_and_a_robot_answers_it(scenario):
    class Pauses(Calls):
        def sample(self):
            state = super().sample()
            return None if 1.0 < taut.monotonic() < 1.5 else state

    calls, result = simulate(scenario, operator=Pauses())
    assert [call[2] for call in calls.calls if call[1] == "stop"][0] == "watchdog"
    stopped = next(call[0] for call in calls.calls if call[1] == "stop")
    assert 1.15 < stopped < 1.3
    assert result["teleop"]["watchdogs"]


@pytest.mark.parametrize("method", ["apply", "measure", "stop", "sample", "feel", "lost"])
def test_what_a_method_raises_ends_the_run_and_is_raised(scenario, method):
    calls = Calls(fails=method, at=0.0)
    with pytest.raises(RuntimeError, match="too hot") as raised:
        taut.simulate(scenario, robot=calls, operator=calls)
    assert raised.traceback[-1].name == "note" and raised.traceback[-2].name == method
    assert calls.count(method) == 1 and calls.calls[-1][1] == method, "nothing is called any more"


def test_either_end_may_be_the_simulated_one(scenario):
    arm, hand = Calls(), Calls()
    assert taut.simulate(scenario, robot=arm)["teleop"]["own_devices"] == ["robot"]
    assert taut.simulate(scenario, operator=hand)["teleop"]["own_devices"] == ["operator"]
    assert arm.count("apply") and hand.count("feel") and not arm.count("feel") and not hand.count("apply")
    assert "own_devices" not in taut.simulate(scenario)["teleop"]


def test_what_cannot_be_simulated_says_why(scenario):
    with pytest.raises(TypeError, match="lacks `apply`"):
        taut.simulate(scenario, robot=object())
    with pytest.raises(TypeError, match="lacks `feel`"):
        taut.simulate(scenario, operator=type("Hand", (), {"sample": lambda self: None})())
    with pytest.raises(taut.SettingError, match="limits"):
        simulate(scenario, limits=taut.Limits(position=[(0,) * 3, (1,) * 3], velocity=float("nan"), angular_velocity=1, force=1))
    with pytest.raises(taut.SettingError, match="stiffness"):
        simulate(scenario, limits=taut.Limits(position=[(0,) * 3, (1,) * 3], velocity=1, angular_velocity=1, force=1))
    scenario.write_text(SCENARIO.split("[teleop]")[0])
    with pytest.raises(taut.Error):
        simulate(scenario)
    demo = os.path.join(os.path.dirname(__file__), "..", "..", "scenarios", "demo.toml")
    with pytest.raises(taut.Error, match=r"\[teleop\]"):
        simulate(demo)


def test_ctrl_c_ends_a_run(scenario):
    def interrupt():
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Whoever started this in the background had it ignored.
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            taut.run(scenario, settings={"duration": "60min"})
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_device_that_both_ends_drive_is_driven_over_real_sockets(ends):
    arm, hand = Calls(), Calls()
    robot = ends.robot(arm)
    operator = ends.operator(robot.address)
    operator.resume()
    operator.drive(hand, 0.5)
    assert hand.count("sample") > 5 and hand.count("lost") >= 1
    robot.close()
    operator.close()
    operator.drive(hand)  # It has ended.
