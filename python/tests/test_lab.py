import importlib.util
from pathlib import Path

import pytest
import taut

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "demo.toml"
SHORT = {"duration": "12s"}


def test_a_run_is_a_function_of_scenario_and_seed():
    first = taut.run(SCENARIO, seed=7, settings=SHORT)
    assert first["seed"] == 7 and first["conservation"]["holds"]
    assert taut.run(SCENARIO, seed=7, settings=SHORT) == first
    assert taut.run(SCENARIO, seed=8, settings=SHORT) != first


def test_what_cannot_be_run_says_why(tmp_path):
    with pytest.raises(taut.SettingError, match="nowhere.toml"):
        taut.run(tmp_path / "nowhere.toml")
    with pytest.raises(taut.SettingError, match="no_such_key"):
        taut.run(SCENARIO, settings={"no_such_key": 1})


def test_the_model_and_the_advice_are_dictionaries():
    plan = taut.plan("6Mbit", "8ms", "14kB", cross=["tcp"], packet="137B")
    assert plan["compliant"] in (True, False, None) and 0.02 < plan["d_max_s"] < 0.04
    advice = taut.recommend(rtt="20ms", loss="1%", haptic=True)
    assert advice["need"]["haptic"] and advice["choice"]["meets"] and advice["citations"]


@pytest.mark.parametrize(
    "ask, says",
    [
        (lambda: taut.plan("6Mbit", "8ms", "14"), "14kB"),
        (lambda: taut.plan("6Mbit", "8ms", "14kB", cross=["udp"]), "is not a flow"),
        (lambda: taut.plan("6Mbit", "8ms", "14kB", speed=3), "speed"),
        (lambda: taut.recommend(loss="1%"), "rtt is missing"),
        (lambda: taut.recommend(rtt="8ms", burst=0.5), "burst is 1"),
        (lambda: taut.recommend(rtt="8ms", paths=2, reliable=True), "reliable has no effect with paths"),
    ],
)
def test_what_cannot_be_asked_says_why(ask, says):
    with pytest.raises(taut.SettingError, match=says):
        ask()


def test_a_result_makes_tables():
    result = taut.run(SCENARIO, settings=SHORT)
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(ImportError, match="pip install pandas"):
            result.to_pandas()
        return
    series = result.to_pandas()
    assert {"plot", "name", "unit", "time_s", "mean"} <= set(series.columns) and series["time_s"].max() < 20
    assert len(result.to_pandas("media")) == len(result["media"])
    with pytest.raises(KeyError, match="flows"):
        result.to_pandas("nothing")
