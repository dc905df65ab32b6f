"""The programs of the README, each in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import taut
from conftest import PATIENCE, until

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def test_the_operator_of_the_readme_moves_its_robot(tmp_path):
    prints = {}
    for name in ("robot", "operator"):
        (tmp_path / name).mkdir()
        prints[name] = taut.fingerprint(str(tmp_path / name / f"{name}.key"))

    def start(name, program, *arguments):
        command = [sys.executable, "-u", EXAMPLES / program, *arguments]
        return subprocess.Popen(command, cwd=tmp_path / name, stdout=subprocess.PIPE, text=True)

    robot = start("robot", "robot.py", "127.0.0.1:0", prints["operator"])
    try:
        address = robot.stdout.readline().split()[-1]
        for _ in range(10):  # On a busy machine the watchdog's 100 ms are over now and then.
            operator = start("operator", "hand.py", address, prints["robot"])
            try:
                said, _ = operator.communicate(timeout=2 * PATIENCE)
            finally:
                operator.kill()
            assert operator.returncode == 0
            if "arrived" in said:
                break
        assert "arrived" in said, said
        assert "stop" in robot.stdout.readline()
    finally:
        robot.kill()
        robot.wait()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_the_robot_of_the_readme_stops_when_a_signal_ends_it(tmp_path, name):
    operator = taut.fingerprint(str(tmp_path / "operator.key"))
    # Whoever runs the tests in the background may have had some signals ignored.
    command = ["env", "--default-signal", sys.executable, "-u", EXAMPLES / "robot.py", "127.0.0.1:0", operator]
    robot = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert "listens on" in robot.stdout.readline()
        robot.send_signal(getattr(signal, name))
        said, _ = robot.communicate(timeout=PATIENCE)
        assert "stopped: host" in said and robot.returncode == 128 + getattr(signal, name)
    finally:
        robot.kill()
        robot.wait()


def test_the_mujoco_arm_is_simulated_over_lte_alike_each_time_and_meets_the_wall_as_on_sockets(monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import simulate

    scenario = EXAMPLES.parents[1] / "scenarios" / "teleop" / "mobile.toml"
    (hand, result), (_, again), (_, other) = (simulate.simulated(scenario, seed, 4) for seed in (1, 1, 2))
    assert result == again and result != other
    assert result["teleop"]["control"]["force_max_n"] > 10
    assert hand.pushes[-1] == pytest.approx(simulate.real(4).pushes[-1], abs=0.5)


def test_the_readme_shows_the_programs_as_they_are():
    readme = (EXAMPLES.parent / "README.md").read_text()
    for name in ("robot", "hand"):
        assert f"```python\n{(EXAMPLES / f'{name}.py').read_text()}```" in readme


MUJOCO_ROBOT = """
import sys
import taut
from taut.robots.mujoco import LIMITS, Arm

limits = taut.Limits(**LIMITS)
with taut.Robot(
    sys.argv[1], identity="robot.key", trust=sys.argv[2], limits=limits, device=Arm("wall"), keeps_stops_in="robot.stops"
) as robot:
    print("listens on", robot.address, flush=True)
    robot.wait()
"""


def test_who_pushes_the_mujoco_arm_into_its_wall_feels_it(ends):
    pytest.importorskip("mujoco")
    command = [sys.executable, "-uc", MUJOCO_ROBOT, "127.0.0.1:0", ends.prints["operator"]]
    robot = subprocess.Popen(command, cwd=ends.keys["robot"].parent, stdout=subprocess.PIPE, text=True)
    try:
        operator = ends.operator(robot.stdout.readline().split()[-1])
        ends.feed(operator, taut.State((0.17, 0, 0.3)))

        def felt():
            try:
                operator.resume()  # On a busy machine the watchdog's 100 ms are over now and then.
            except taut.RefusedError:
                pass
            arm = operator.latest()
            rests = arm and arm.position[0] > 0.1 and abs(arm.velocity[0]) < 0.001
            return arm if rests and arm.force[0] < -1 else None

        arm = until("the wall is felt", felt)
        assert 0.1 < arm.position[0] < 0.17, "it stands in the way"
        operator.close()
    finally:
        robot.kill()
        robot.wait()
