"""The two ends of a session."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
import time
import weakref
from types import SimpleNamespace
from typing import Any, Iterable

from . import _control, _taut
from ._control import Control
from ._messages import Events, Receiver, Sender

# What is open when the interpreter ends is closed in order: devices are stopped while they can still be called.
_open: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    ends, interrupted = list(_open), None
    for end in ends:  # All are told before any is waited for.
        end._inner.leave()
    for end in ends:
        try:
            end.close()
        except BaseException as error:
            interrupted = error
    _taut.wait_stopped()
    if interrupted:
        raise interrupted


# Before that CPython waits for threads, and one of them may be driving. What is registered last is called first there, and this module registers the
# executors' own wait.
with contextlib.suppress(AttributeError, ImportError, RuntimeError):
    import concurrent.futures.thread

    threading._register_atexit(_close_all)


def _end(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


def _end_in_order() -> None:
    """A signal that asks the program to end, and of which it says nothing itself, ends it as an exception does: what is open is closed."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)


def _split(channels: Iterable[Sender | Receiver]) -> dict[str, list]:
    channels = list(channels)
    return {
        "senders": [channel._inner for channel in channels if isinstance(channel, Sender)],
        "receivers": [channel._inner for channel in channels if isinstance(channel, Receiver)],
    }


def _path(path: Any) -> str | None:
    return None if path is None else os.fspath(path)


class _End:
    _inner: Any

    def _begin(self) -> None:
        self.events = Events(self._inner.events())
        _open.add(self)

    @property
    def fingerprint(self) -> str:
        """What the other end trusts this one by."""
        return self._inner.fingerprint

    @property
    def has_ended(self) -> bool:
        return self._inner.has_ended

    def status(self) -> dict[str, Any]:
        """How it goes, and what was counted; a tenth of a second old at most. A robot tells how long its targets waited for Python, in
        seconds: ``apply_wait_p50`` and ``apply_wait_p99``, a little more than 0.001 where it was longer than that."""
        return self._inner.status()

    def close(self) -> None:
        """Ends the session: the robot stops. It may be called again."""
        self._inner.leave()
        self._inner.wait_left()
        _open.discard(self)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Robot(_End):
    """A robot that listens. Its ``device`` is any object with three methods:

    ``apply(state, lease)``
        Move there, for ``lease`` seconds and no longer without hearing more: fresh, and within the limits.
    ``measure()``
        Where it is and what it feels, a :class:`State`; ``None`` while that is not known. Nothing moves before it is.
    ``stop(cause)``
        Stop, and stay. It may come from another thread, while another method waits.

    An exception in any of them is a stop. With ``keeps_lease = True`` in its class a device says that it stops by itself when a lease is over.
    ``limits`` say what moves it: :class:`Limits` a :class:`State`, and a dictionary of names and :class:`JointLimits` joints in that order. Then
    ``apply`` and ``measure`` have :class:`Joints`, and the operator sends them over the channel of motion ``motion``.
    ``turns=True``: angular velocity and torque of states go both ways; the operator's ``turns`` has to be the same.
    ``control`` is a :class:`Control`, by which the arm is led, or a law's name; the operator's has to be the same. Then ``apply`` comes once a period, with the law's
    reference, and ``measure`` has to say velocity and force.
    ``brake`` is what stops the hardware when Python is held up: where to, ``"udp:HOST:PORT"`` or a file, and the bytes that are written, until
    they are taken.
    A robot that is made on the main thread has ``SIGTERM`` and ``SIGHUP`` raise ``SystemExit`` there, unless the program handles or ignores them.
    ``record`` names a file, ``….mcap``, into which the session is recorded, as ``taut robot --record`` does.
    ``keeps_stops_in`` names the file in which an emergency stop survives the process; ``None`` is for simulations.
    """

    def __init__(
        self,
        listen: str,
        *,
        identity: str | os.PathLike,
        trust: str | Iterable[str],
        limits: _taut.Limits | dict[str, _taut.JointLimits],
        device: Any,
        keeps_stops_in: str | os.PathLike | None,
        channels: Iterable[Sender | Receiver] = (),
        watchdog: float = 0.1,
        rate: int = 1000,
        transport: str = "quic",
        hold_to_run: bool = False,
        paths: Iterable[str] = (),
        brake: tuple[str, bytes] | None = None,
        motion: str = "joints",
        record: str | os.PathLike | None = None,
        turns: bool = False,
        control: Control | str | None = None,
    ):
        _end_in_order()
        self._inner = _taut.Robot(
            SimpleNamespace(
                listen=listen,
                identity=_path(identity),
                trust=[trust] if isinstance(trust, str) else list(trust),
                limits=list(limits.items()) if isinstance(limits, dict) else limits,
                motion=motion,
                device=device,
                watchdog=watchdog,
                rate=rate,
                transport=transport,
                keeps_stops_in=_path(keeps_stops_in),
                record=_path(record),
                hold_to_run=hold_to_run,
                turns=turns,
                control=_control.of(control),
                paths=list(paths),
                brake=brake,
                **_split(channels),
            )
        )
        self._begin()

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._inner.address

    def stop(self) -> None:
        """The emergency stop beside the robot, latched until :meth:`release`."""
        self._inner.stop()

    def release(self) -> None:
        """Lets go of what :meth:`stop` latched. Nothing moves by that."""
        self._inner.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended; false when the time is over."""
        return self._inner.wait(timeout)


class Operator(_End):
    """A session with a robot, made by :func:`connect`."""

    def __init__(self, inner: Any, rate: int):
        self._inner, self._rate = inner, rate
        self._begin()

    def resume(self, timeout: float = 5.0) -> None:
        """Lets the robot move from now on; raises :class:`RefusedError` when it does not. An answer is waited for
        2 s at least, also where ``timeout`` is less: by then a robot that gave none is asked no more, and after the error it does not move."""
        self._inner.resume(timeout)

    def send(self, state: _taut.State) -> None:
        """Where the hand is now. It never waits, and only the newest counts. A robot that is sent nothing stops by its watchdog."""
        self._inner.send(state)

    def drive(self, device: Any, seconds: float | None = None) -> None:
        """Lets a ``device`` drive the robot, on this thread, at the session's rate, until the session ends or for so long. It is any object
        with three methods, which :func:`simulate` takes as well:

        ``sample()``
            Where the hand is, a :class:`State`; ``None`` when it has read nothing new: then nothing is sent.
        ``feel(state)``
            Where the robot is and what it feels, when that comes.
        ``lost()``
            Nothing fresh is known of the robot: let go.

        And it may have ``resumed()``: the robot was let move, at the start, after a stop or a lost connection; what moves it relative to where it is
        begins anew.
        """
        period, felt, begin = 1 / self._rate, None, time.monotonic()
        try:
            while not self._inner.has_ended and (seconds is None or time.monotonic() - begin < seconds):
                self._inner.ask_device(device)
                felt = self._inner.feel_device(device, felt, period)
        except (_taut.EndedError, _taut.LostError):
            pass  # Its events say why.
        finally:
            device.lost()

    def latest(self) -> _taut.State | None:
        """Where the robot is and what it feels; ``None`` when nothing fresh is known of it."""
        return self._inner.latest()

    def stop(self) -> None:
        """The emergency stop: ahead of everything, sent until it is acknowledged, and latched until :meth:`reset`. It never waits; after the
        session's end it raises :class:`EndedError`, for nobody hears it."""
        self._inner.stop()

    estop = stop

    def reset(self, timeout: float = 5.0) -> None:
        """Lets go of the stop that is latched at the robot. Nothing moves by it."""
        self._inner.reset(timeout)


def connect(
    address: str,
    *,
    identity: str | os.PathLike,
    trust: str,
    channels: Iterable[Sender | Receiver] = (),
    rate: int = 1000,
    deadline: float = 0.2,
    force_limit: float = 5.0,
    transport: str = "quic",
    keeps_stops_in: str | os.PathLike | None = None,
    paths: Iterable[str] = (),
    record: str | os.PathLike | None = None,
    turns: bool = False,
    torque_limit: float = 0.5,
    control: Control | str | None = None,
) -> Operator:
    """A session with the robot at ``address``, ``"host:port"``. Waits until there is one, or raises :class:`NotConnectedError`.
    The hand is given ``force_limit`` N at most and, with ``turns``, ``torque_limit`` N·m: angular velocity and torque of states go both ways then,
    and the robot's ``turns`` has to be the same. By ``control``, a :class:`Control` or a law's name, force and motion follow from each other; the robot's has to be the
    same, and what is sent has to say its velocity. ``record`` names the file, ``….mcap``, into which the session is recorded."""
    return Operator(
        _taut.Operator(
            SimpleNamespace(
                address=address,
                identity=_path(identity),
                trust=trust,
                rate=rate,
                deadline=deadline,
                force_limit=force_limit,
                torque_limit=torque_limit,
                turns=turns,
                control=_control.of(control),
                transport=transport,
                keeps_stops_in=_path(keeps_stops_in),
                record=_path(record),
                paths=list(paths),
                **_split(channels),
            )
        ),
        rate,
    )
