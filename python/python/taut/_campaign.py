"""Campaigns: many runs, on all cores of this machine or of a Ray cluster."""

from __future__ import annotations

import functools
import json
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any

from . import _taut
from ._lab import Result, _changed

#: Runs that a cluster is given at a time, for each of its cores: it never waits for the next one, and none holds all of them.
AHEAD = 4
#: So often a run is made again whose worker died.
AGAIN = 10


class CampaignResult(Result):
    """What a campaign gave: the fields of the command's ``campaign.json``."""

    #: The bytes of ``campaign.json``.
    json: bytes

    def to_pandas(self, table: str = "measures"):
        """``"measures"``: a row for each variant, seed and measure, with its value and unit. Other lists of the result as of :meth:`Result.to_pandas`."""
        if table != "measures":
            return super().to_pandas(table)
        rows = [
            {"variant": _name(variant), "seed": seed, "measure": measure["name"], "unit": measure["unit"], "value": value}
            for variant in self["variants"]
            for measure in variant["measures"]
            for seed, value in zip(variant["seeds"], measure["values"])
        ]
        return Result({"measures": rows}).to_pandas("measures")


def _name(variant) -> str:
    keys = variant.get("overridden")
    return f"{variant['name']} (but for {', '.join(keys)})" if keys else variant["name"]


class Campaign:
    """Every variant of a scenario with every seed; made by :func:`campaign`. ``len()`` of it is how many runs that is."""

    def __init__(self, asked: SimpleNamespace):
        self._asked = asked
        self._runs = _taut.CampaignRuns(asked)

    def __len__(self) -> int:
        return len(self._runs)

    def run(
        self,
        on: str | None = None,
        *,
        out: str | os.PathLike | None = None,
        progress: Callable[[int, int], Any] | None = None,
    ) -> CampaignResult:
        """Makes all runs and sums them up, to the same bytes wherever they are made.

        Without ``on`` they are made on all cores of this machine. ``on="ray"`` makes them on a Ray cluster: the one that ``ray.init`` of this
        program has joined, else one on this machine alone. Every machine of it needs this package, and, where the scenario plays recordings,
        those at the same path. What a worker had in hand when it died is made again elsewhere.

        ``out`` names a folder for ``campaign.json``, the report and every run. ``progress`` is called with how many runs are done, and of how
        many; without it a terminal shows a bar. The first error ends the campaign.
        """
        if on not in (None, "ray"):
            raise _taut.SettingError(f"on is None or 'ray', not {on!r}")
        if out is not None:
            self._runs.check_folder(os.fspath(out))
        made: list[bytes] = [b""] * len(self)
        tell = progress or _bar()
        for done, (number, run) in enumerate(self._made_here() if on is None else self._made_by_ray(), 1):
            made[number] = run
            tell(done, len(self))
        text = bytes(self._runs.finish(made, None if out is None else os.fspath(out)))
        result = CampaignResult(json.loads(text))
        result.json = text
        return result

    def _made_here(self) -> Iterator[tuple[int, bytes]]:
        pool = ThreadPoolExecutor(_cores(), "taut run")
        try:
            running = {pool.submit(self._runs.run, number): number for number in range(len(self))}
            while running:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _made_by_ray(self) -> Iterator[tuple[int, bytes]]:
        try:
            import ray
        except ImportError as why:
            raise ImportError("a cluster needs ray: pip install ray") from why
        if not ray.is_initialized():
            ray.init(num_cpus=_cores(), include_dashboard=False, log_to_driver=False)
        make = ray.remote(max_retries=AGAIN)(_made_by_worker)
        asked, ahead = ray.put(vars(self._asked)), AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        numbers, running, folder = iter(range(len(self))), {}, os.getcwd()
        try:
            while True:
                for _, number in zip(range(ahead - len(running)), numbers):
                    running[make.remote(asked, number, folder)] = number
                if not running:
                    return
                for done in ray.wait(list(running))[0]:
                    yield running.pop(done), _of_ray(ray, done)
        finally:
            for left in running:
                ray.cancel(left, force=True)


def _of_ray(ray: Any, done: Any) -> bytes:
    """Without the worker's own stack: the error is the scenario's."""
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as why:
        raise why.cause if isinstance(why.cause, Exception) else why from None


def _made_by_worker(asked: dict[str, Any], number: int, folder: str) -> bytes:
    """One run, in a process of its own."""
    try:
        os.chdir(folder)  # What the scenario plays is named from there.
    except OSError:
        pass  # It may play nothing. Else the run says what is missing.
    return _runs_of(json.dumps(asked, sort_keys=True)).run(number)


@functools.lru_cache(maxsize=2)
def _runs_of(asked: str) -> _taut.CampaignRuns:
    return _taut.CampaignRuns(SimpleNamespace(**json.loads(asked)))


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _bar() -> Callable[[int, int], None]:
    def show(done: int, of: int) -> None:
        end = "\n" if done == of else ""
        print(f"\r[{'#' * (40 * done // of):40}] {done} of {of} runs", end=end, file=sys.stderr, flush=True)

    return show if sys.stderr.isatty() else lambda done, of: None


def campaign(
    scenario: str | os.PathLike,
    *,
    seeds: Iterable[int] = (1,),
    settings: Mapping[str, Any] | None = None,
    variants: Sequence[str] | None = None,
) -> Campaign:
    """A campaign: every variant of the ``scenario``, or those that are named, with every seed. ``settings`` changes keys, as
    ``{"cross.rate": "3Mbit"}``, and wins over what a variant sets. :meth:`Campaign.run` makes its runs."""
    origin = os.fspath(scenario)
    asked = SimpleNamespace(
        origin=origin,
        text=_taut.scenario_text(origin),
        settings=_changed(settings),
        variants=None if variants is None else list(variants),
        seeds=[operator.index(seed) for seed in seeds],
    )
    return Campaign(asked)
