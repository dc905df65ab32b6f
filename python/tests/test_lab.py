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
