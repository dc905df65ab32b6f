"""What the benches measure, in a slice: that they run, and that both worlds are told of."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

TAUT = os.environ.get("TAUT")
BENCHES = pathlib.Path(__file__).parents[1] / "benches"


def bench(name, *arguments):
    ran = subprocess.run([sys.executable, BENCHES / name, "--json", *arguments], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.skipif(not TAUT, reason="no command `taut` was built (TAUT)")
@pytest.mark.parametrize(("case", "law"), [("Wi-Fi,foam,quic", ""), ("two 5G links,wall,mtip", ""), ("Wi-Fi,foam,udp", "tdpa")])
def test_the_same_objects_press_in_the_simulator_and_over_the_emulator(case, law):
    pytest.importorskip("mujoco")
    (told,) = bench("pressed.py", "--taut", TAUT, "--seeds", "1", "--real", "1", "--law", law, "--only", case)["cases"]
    assert [told[part] for part in ("network", "touches", "transport")] == case.split(",")
    (simulated,), measured = told["simulated"], told["real"]
    assert 0 < simulated["tracking_mm"] < 50
    if not measured:
        pytest.skip("several paths over relays need root")
    assert 0 < measured[0]["tracking_mm"] < 50 + simulated["tracking_mm"], "it followed the hand over sockets, too"
    # On a busy machine a stop is possible, a wrong force is not: it is pushed with the wall's own.
    assert measured[0]["force_n"] < 20


def test_python_at_a_kilohertz_is_measured_alone_and_beside_a_renderer():
    told = bench("ends.py", "--seconds", "2", "--rounds", "1")
    alone, busy = told["medians"]["alone"], told["medians"]["beside_a_renderer"]
    assert 0 < alone["apply_wait_p50_us"] <= 1_010
    assert alone["beyond_limit_m"] == busy["beyond_limit_m"] == 0
    assert busy["stop_late_ms"] < 2_000 and busy["feedback_age_p50_ms"] < 50
