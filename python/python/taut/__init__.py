"""Teleoperate a robot: authenticated sessions with limits, a watchdog and an emergency stop.

A robot's program makes a :class:`Robot` around a device of its own; an operator's program calls :func:`connect`. What holds between them, the
limits, the watchdog, freshness and stops, is kept by threads that never wait for Python.
"""

try:
    from . import _taut
except ImportError as _error:  # `taut.device` does without the compiled module, wherever this folder is.
    _missing = _error

    def __getattr__(name):
        if name in __all__:
            raise ImportError(f"taut.{name} needs the compiled module of the package: {_missing}") from _missing
        raise AttributeError(name)

else:
    from ._campaign import Campaign, CampaignResult, campaign
    from ._control import Control
    from ._ends import Operator, Robot, connect
    from ._lab import Result, plan, recommend, run, simulate
    from ._messages import Array, Event, JointNames, Receiver, Sender
    from ._taut import (
        EndedError,
        Error,
        JointLimits,
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
        monotonic,
    )
    from ._motion import Joints

__all__ = [
    "Array",
    "Campaign",
    "CampaignResult",
    "Control",
    "EndedError",
    "Error",
    "Event",
    "JointLimits",
    "JointNames",
    "Joints",
    "Limits",
    "LostError",
    "MessageError",
    "NotConnectedError",
    "Operator",
    "Receiver",
    "RefusedError",
    "Result",
    "Robot",
    "SchemaError",
    "Sender",
    "SettingError",
    "State",
    "SystemError",
    "campaign",
    "connect",
    "fingerprint",
    "monotonic",
    "plan",
    "recommend",
    "run",
    "simulate",
]
