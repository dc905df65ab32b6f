import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import taut

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
LOAD = SCENARIOS / "telehaptic-qos" / "load.toml"
SHORT = {"duration": "1s", "warmup": "0s"}


def test_a_campaign_is_every_variant_with_every_seed(tmp_path):
    campaign = taut.campaign(LOAD, seeds=[3, 1], settings=SHORT)
    told = []
    result = campaign.run(out=tmp_path / "out", progress=lambda done, of: told.append((done, of)))
    assert len(campaign) == 2 * len(result["variants"]) > 2
    assert told == [(done, len(campaign)) for done in range(1, len(campaign) + 1)]
    assert (tmp_path / "out" / "campaign.json").read_bytes() == result.json
    assert json.loads(result.json) == result and (tmp_path / "out" / "report.html").exists()
    name = result["variants"][1]["name"]
    one = taut.campaign(LOAD, seeds=[3, 1], settings=SHORT, variants=[name]).run()
    assert one["variants"] == [result["variants"][1]]


@pytest.mark.parametrize(
    "ask, says",
    [
        (lambda: taut.campaign(LOAD, seeds=[1, 1]), "seed 1 is given twice"),
        (lambda: taut.campaign(LOAD, seeds=[]), "at least one variant and one seed"),
        (lambda: taut.campaign(LOAD, variants=["none of them"]), "no variant is named"),
        (lambda: taut.campaign(LOAD, settings={"no_such_key": 1}), "no_such_key"),
        (lambda: taut.campaign(LOAD).run(on="slurm"), "on is None or 'ray'"),
    ],
)
def test_what_is_no_campaign_says_why(ask, says):
    with pytest.raises(taut.SettingError, match=says):
        ask()


def test_a_folder_that_cannot_be_is_said_before_the_first_run_and_nothing_remains_of_one_that_can(tmp_path):
    (tmp_path / "file").touch()
    campaign, made = taut.campaign(LOAD, settings=SHORT), []
    with pytest.raises(taut.Error, match="cannot be made"):
        campaign.run(out=tmp_path / "file" / "out", progress=lambda done, of: made.append(done))
    assert not made

    def stop(done, of):
        assert not (tmp_path / "out").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.run(out=tmp_path / "out", progress=stop)


def test_measures_make_a_table():
    pandas = pytest.importorskip("pandas")
    table = taut.campaign(LOAD, seeds=[1, 2], settings=SHORT).run().to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == ["variant", "seed", "measure", "unit", "value"] and set(table["seed"]) == {1, 2}


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_two_workers_of_a_cluster_give_the_bytes_of_this_machine(ray):
    numpy = pytest.importorskip("numpy")
    campaign = taut.campaign(LOAD, seeds=numpy.arange(1, 5), settings=SHORT)
    assert campaign.run(on="ray").json == campaign.run().json


ONE_SESSION = """
title = "One session"
duration = "1s"
[links.there]
from = "operator"
to = "robot"
chain = [{ delay = "1ms" }, { loss_table = { file = "losses.csv" } }]
[links.back]
from = "robot"
to = "operator"
chain = [{ delay = "1ms" }]
[teleop]
operator = "operator"
robot = "robot"
transport = "udp"
"""


def test_an_error_of_a_worker_is_that_of_the_scenario(ray, tmp_path):
    (tmp_path / "session.toml").write_text(ONE_SESSION)
    campaign = taut.campaign(tmp_path / "session.toml", seeds=[1, 2])
    with pytest.raises(taut.Error, match="losses.csv") as here:
        campaign.run()
    with pytest.raises(taut.Error) as there:
        campaign.run(on="ray")
    assert str(there.value) == str(here.value)


def test_a_worker_that_is_killed_loses_nothing(ray):
    campaign = taut.campaign(LOAD, seeds=range(1, 9), settings={**SHORT, "duration": "20s"})
    killed = []

    def kill():
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    words = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                if words.startswith(b"ray::_made_by_worker"):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed.append(process.name)
                    break
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    there = campaign.run(on="ray").json
    thread.join()
    assert killed and there == campaign.run().json
