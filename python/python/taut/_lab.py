"""The lab."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import _taut


def run(
    scenario: str | os.PathLike, *, seed: int = 1, settings: Mapping[str, Any] | None = None, variant: str | None = None
) -> dict[str, Any]:
    """Simulates a scenario with a seed, in virtual time, and gives its result: the fields of the command's ``run.json``.

    ``settings`` changes keys, as ``{"cross.rate": "3Mbit"}``. Of a scenario with variants one has to be named. The same arguments give the same
    result, to the byte; other threads of Python run meanwhile.
    """
    changed = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in (settings or {}).items()]
    return json.loads(_taut.run(os.fspath(scenario), seed, changed, variant))
