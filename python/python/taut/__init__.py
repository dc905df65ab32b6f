"""Teleoperate a robot: authenticated sessions with limits, a watchdog and an emergency stop.

A robot's program makes a :class:`Robot` around a device of its own; an operator's program calls :func:`connect`. What holds between them, the
limits, the watchdog, freshness and stops, is kept by threads that never wait for Python.
"""

from ._ends import Operator, Robot, connect
from ._lab import run
from ._messages import Array, Event, Receiver, Sender
from ._taut import (
    EndedError,
    Error,
    Limits,
    LostError,
    MessageError,
    NotConnectedError,
    RefusedError,
    SchemaError,
    SettingError,
    State,
    SystemError,
    fingerprint,
)

__all__ = [
    "Array",
    "EndedError",
    "Error",
    "Event",
    "Limits",
    "LostError",
    "MessageError",
    "NotConnectedError",
    "Operator",
    "Receiver",
    "RefusedError",
    "Robot",
    "SchemaError",
    "Sender",
    "SettingError",
    "State",
    "SystemError",
    "connect",
    "fingerprint",
    "run",
]
