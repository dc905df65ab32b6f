"""The lab."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from . import _control, _taut
from ._control import Control


def _changed(settings: Mapping[str, Any] | None) -> list[str]:
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in (settings or {}).items()]


class Result(dict):
    """What a run gave: a dictionary, of which :meth:`to_pandas` makes tables."""

    def to_pandas(self, table: str = "series"):
        """A table as a ``pandas.DataFrame``: ``"series"``, with a row for each point, or another list of the result, such as ``"media"``,
        ``"flows"`` or ``"links"``, with a row for each entry and columns such as ``delay_ms.p99``."""
        try:
            import pandas
        except ImportError as why:
            raise ImportError("tables need pandas: pip install pandas") from why
        rows = self.get(table)
        if not isinstance(rows, list):
            tables = sorted(key for key, value in self.items() if isinstance(value, list))
            raise KeyError(f"{table!r} is no table of this result: {', '.join(tables)}")
        return pandas.json_normalize(_points(rows) if table == "series" else rows)


def _points(series: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each bucket in which something happened, at the time when it begins."""
    return [
        {"plot": one["plot"], "name": one["name"], "unit": one["unit"], "time_s": one["start_s"] + i * one["bucket_s"], "min": low, "mean": mean, "max": high}
        for one in series
        for i, (low, mean, high) in enumerate(zip(one["min"], one["mean"], one["max"]))
        if mean is not None
    ]


def run(
    scenario: str | os.PathLike, *, seed: int = 1, settings: Mapping[str, Any] | None = None, variant: str | None = None
) -> Result:
    """Simulates a scenario with a seed, in virtual time, and gives its result: the fields of the command's ``run.json``.

    ``settings`` changes keys, as ``{"cross.rate": "3Mbit"}``. Of a scenario with variants one has to be named. The same arguments give the same
    result, to the byte; other threads of Python run meanwhile.
    """
    return simulate(scenario, seed=seed, settings=settings, variant=variant)


def simulate(
    scenario: str | os.PathLike,
    *,
    robot: Any = None,
    operator: Any = None,
    limits: _taut.Limits | None = None,
    control: Control | str | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    variant: str | None = None,
) -> Result:
    """The same, with devices of your own at the ends of the scenario's ``[teleop]`` session, in place of its simulated arm and hand.

    ``robot`` is what a :class:`Robot` takes, with ``apply``, ``measure`` and ``stop``, and ``limits`` are those of that robot; without them it is
    told whatever comes. ``operator`` is what :meth:`Operator.drive` takes, with ``sample``, ``feel`` and ``lost``, and perhaps ``resumed``. Both
    are called once in each of the scenario's periods, on the thread that calls this, in virtual time: :func:`monotonic` tells it. What they
    raise ends the run and is raised here. By ``control``, as of :class:`Robot` and :func:`connect`, both ends are coupled in place of the scenario's law, which goes by the
    simulated arm's controller. The same arguments and devices that do the same give the same result, to the byte.
    """
    asked = SimpleNamespace(
        scenario=os.fspath(scenario),
        seed=seed,
        settings=_changed(settings),
        variant=variant,
        robot=robot,
        operator=operator,
        limits=limits,
        control=_control.of(control),
    )
    return Result(json.loads(_taut.run(asked)))


def plan(rate: str, delay: str, buffer: str, **options: Any) -> dict[str, Any]:
    """The closed-form model of a stream on a shared link: what ``taut plan --json`` prints. ``options`` are the command's: ``cross`` (a list, as
    ``["tcp", "cbr:1Mbit"]``), ``packet``, ``period``, ``fragment``, ``audio_frame``, ``fps``, ``touch``."""
    return _asked(_taut.plan, rate=rate, delay=delay, buffer=buffer, **options)


def recommend(**options: Any) -> dict[str, Any]:
    """Which transport over a network: what ``taut recommend --json`` prints, from the evidence that taut is built with. ``options`` are the
    command's, as ``recommend(rtt="40ms", loss="1%", haptic=True)``, but for ``measure`` and ``evidence``."""
    return _asked(_taut.recommend, **options)


def _asked(of: Any, **options: Any) -> dict[str, Any]:
    return json.loads(of(json.dumps({key: value for key, value in options.items() if value is not None})))
