"""A bar on standard error for what takes longer than two seconds, where that is a terminal."""

from __future__ import annotations

import sys
import time


class Progress:
    """Told what share is done, from 0 to 1; ends its line when it is left."""

    def __init__(self, what: str, after: float = 2.0):
        self.what, self.begin, self.shown, self.after = what, time.monotonic(), -1, after

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown >= 0:
            print(file=sys.stderr)

    def __call__(self, share: float) -> None:
        percent = int(100 * min(1.0, max(0.0, share)))
        if percent != self.shown and sys.stderr.isatty() and time.monotonic() - self.begin >= self.after:
            self.shown = percent
            print(f"\r{self.what} [{'#' * (percent // 4):25}] {percent:3} %", end="", file=sys.stderr, flush=True)
