"""A class as the device of ``taut robot`` or ``taut operator``: what ``--robot python:my_robot:Arm`` and ``--input python:my_hand:Hand`` run, as
``python3 -m taut.device my_robot:Arm``. It needs nothing but Python's own library.

A robot's class has three methods:

``measure()``
    Where it is and what it feels, a :class:`State`; ``None`` while that is not known. Asked every ``period`` seconds.
``apply(state, lease)``
    Move there, for ``lease`` seconds and no longer without hearing more. It is fresh, and within the limits.
``stop(cause)``
    Stop, and stay. It comes from another thread when a lease is over, or a stop has waited for 0.1 s, while another method is at work.

An exception in any of them is a stop, and ends the program; so do SIGTERM, SIGHUP and SIGABRT. What else it may have: ``enable()``, ``limit(limits)``, ``drive(channel, motion, lease)``
for channels of motion, ``declared(channels)``, which is told all of them at the beginning, ``motions()`` and ``messages()`` that give what there is for channels, ``receive(channel, payload, age)``, and in its class
``name``, ``stiffness`` (N/m), ``period`` (0.001 s), ``real`` (``True``: it can hurt somebody) and ``limits_force``, which is to be ``True``: its
controller keeps the limit of force that ``limit`` is told. ``limits``, a :class:`Limits`, are its own: of these and of those that ``taut robot`` is given the tighter hold. One with ``drive`` and without ``apply`` is moved by channels alone, and needs none.

An input's class has ``sample()``, a :class:`State`, or ``None`` where it read nothing new; and it may have ``feel(state)``, ``lost()``, ``resumed()``, ``buttons()``
that gives ``"stop"``, ``"reset"`` and ``"resume"`` as they are pressed, ``motions()``, ``messages()`` and ``receive(channel, payload, age)``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Iterable, Sequence

from taut._motion import SCHEMAS, Gripper, Joints, State, Twist

__all__ = ["Channel", "Gripper", "Joints", "Limits", "State", "Twist", "main"]

VERSION = 1
LONGEST = 1536
PART = 60_000
HELLO, CHANNEL, LIMITS, ENABLE, APPLY, DRIVE, STOP, MESSAGE, TICK, FEEL, LOST, RESUMED = range(1, 13)
DEVICE, MEASURED, MOTION, STOPPED, SAMPLE, BUTTON = range(65, 71)
BUTTONS = ("stop", "reset", "resume")
#: Buttons are asked for so often, s: also before there are ticks, which begin with a resume.
LOOK = 0.01
#: A stop waits so long for the method that is at work, s.
PROMPT = 0.1
SIGNALS = ("SIGTERM", "SIGHUP", "SIGABRT")
ROLES = {1: "a robot", 2: "an input"}
HEADER = struct.Struct("<BBBBI")
#: Of socket(7): each look goes on behind the one before. Python has no name of it.
SO_PEEK_OFF = 42


@dataclass(frozen=True)
class Limits:
    """What a robot must not exceed, whatever it is told: a box in m, m/s, N; ``None`` where there is none."""

    position: tuple[Sequence[float], Sequence[float]] | None = None
    velocity: float | None = None
    force: float | None = None


@dataclass(frozen=True)
class Channel:
    """A channel of the session. Of each joint, at the robot: least and largest position, speed, effort."""

    name: str
    schema: type | None
    to_operator: bool
    is_json: bool
    largest: int
    joints: list[tuple[float, ...]] = field(default_factory=list)


class _Inbox(threading.Thread):
    """Looks at what comes, also while a method of the device is at work. It stays in the socket, for until it is read taut puts what is newer in the
    place of what would follow; but a stop comes ahead of it."""

    def __init__(self, link: socket.socket, urge: Any):
        super().__init__(daemon=True)
        self.link, self.urge = link, urge
        self.changed, self.ahead = threading.Condition(), []
        self.has_more = self.ended = False
        link.setsockopt(socket.SOL_SOCKET, SO_PEEK_OFF, 0)

    def run(self) -> None:
        while not self.ended:
            frame = self.read(socket.MSG_PEEK)
            with self.changed:
                if not frame:
                    self.ended = True
                    self.urge()
                elif frame[0] == STOP:
                    self.bring_stop()
                self.has_more = True
                self.changed.notify()

    def read(self, flags: int) -> bytes | None:
        """A frame; nothing in it is the end, ``None``: there is none now."""
        try:
            return self.link.recv(LONGEST, flags)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def bring_stop(self) -> None:
        """Unless it was taken meanwhile. What would move the device before it is dropped."""
        while frame := self.read(socket.MSG_DONTWAIT):
            self.ahead.append(frame)
            if frame[0] == STOP:
                stays = [old for old in self.ahead if old[0] not in (ENABLE, APPLY, DRIVE)]
                self.ahead = sorted(stays, key=lambda old: old[0] != STOP)
                self.urge()
                return

    def wait(self, timeout: float) -> None:
        """For a frame, or the end, at most so long."""
        with self.changed:
            self.changed.wait_for(lambda: self.has_more or self.ended, max(timeout, 0.0))

    def take(self) -> bytes | None:
        """The next frame. After the end there is none, whatever still waits."""
        with self.changed:
            frame = self.ahead.pop(0) if self.ahead else self.read(socket.MSG_DONTWAIT)
            self.ended |= frame == b""
            self.has_more = frame is not None
            return None if self.ended else frame


class _Device:
    """What both kinds have in common."""

    role: int

    def obey(self, kind: int, what: int, channel: int, flags: int, number: int, rest: bytes) -> None:
        raise NotImplementedError

    def __init__(self, link: socket.socket, made: Any):
        self.link, self.made = link, made
        self.channels: list[Channel] = []
        self.expected: int | None = None
        self.begun: dict[int, bytes] = {}
        self.ended = False
        self.inbox = _Inbox(link, self.urge)
        link.setblocking(True)

    def urge(self) -> None:
        """From the thread that reads: a stop came, or the end."""

    def say(self, kind: int, what: int = 0, channel: int = 0, flags: int = 0, number: int = 0, rest: bytes = b"", wait: bool = False) -> bool:
        """False where nobody makes room for it."""
        frame = HEADER.pack(kind, what, channel, flags, number) + rest
        while True:
            try:
                self.link.send(frame, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
                return True
            except BlockingIOError:
                if not wait:
                    return False
                select.select([], [self.link], [], 0.1)
            except OSError:
                self.ended = True
                return False

    def hello(self) -> None:
        """Says what it is, once it knows what there is."""
        self.inbox.start()
        while not self.ended and self.expected != len(self.channels):
            for frame in self.hear(1.0):
                self.obey(*frame)
        made = self.made
        if hasattr(made, "declared"):
            made.declared(self.channels)
        stiffness = getattr(made, "stiffness", None)
        flags = 1 | 2 * bool(getattr(made, "limits_force", False)) | 4 * bool(getattr(made, "real", True)) | 8 * (stiffness is not None)
        flags |= 16 * (hasattr(made, "drive") and not hasattr(made, "apply"))
        name = str(getattr(made, "name", type(made).__name__)).encode()
        own = getattr(made, "limits", None) if hasattr(made, "apply") else None
        if own is not None and not isinstance(own, Limits):
            raise SystemExit(f"`limits` of {type(made).__name__} is to be a taut.device.Limits, not {own!r}")
        if own is not None:
            none = float("nan")
            box = ((none,) * 3,) * 2 if own.position is None else own.position
            rest = (none if limit is None else limit for limit in (*box[0], *box[1], own.velocity, own.force))
            self.say(LIMITS, rest=struct.pack("<8f", *rest), wait=True)
        self.say(DEVICE, flags=flags, number=VERSION, rest=struct.pack("<f", stiffness or 0.0) + name, wait=True)

    def hear(self, timeout: float) -> Iterable[tuple[int, int, int, int, int, bytes]]:
        """What comes within that time. Then there are other things to do, after one frame at least."""
        until = _now() + timeout
        self.inbox.wait(timeout)
        while (frame := self.inbox.take()) is not None:
            yield (*HEADER.unpack_from(frame), frame[HEADER.size :])
            if _now() >= until:
                break
        self.ended |= self.inbox.ended

    def shared(self, kind: int, what: int, channel: int, flags: int, number: int, rest: bytes) -> None:
        """What robots and inputs are told alike."""
        if kind == HELLO and number != VERSION:
            raise SystemExit(f"taut speaks version {number} of the frames of devices; this is version {VERSION}")
        if kind == HELLO and what != self.role:
            raise SystemExit(f"{type(self.made).__name__} is the class of {ROLES[self.role]}, and {ROLES[what]} is asked for")
        if kind == HELLO:
            self.expected = channel
        elif kind == CHANNEL:
            (count,) = struct.unpack_from("<I", rest)
            joints = [struct.unpack_from("<4f", rest, 4 + 16 * at) for at in range(count)]
            name = rest[4 + 16 * count :].decode()
            schema = SCHEMAS[what - 1] if what else None
            self.channels.append(Channel(name, schema, bool(flags & 1), bool(flags & 2), number, joints))
        elif kind == MESSAGE:
            (age,) = struct.unpack_from("<Q", rest)
            whole = self.begun.pop(channel, b"") + rest[8:]
            if flags & 1:
                self.begun[channel] = whole
            elif hasattr(self.made, "receive"):
                known = self.channels[channel]
                payload = json.loads(whole) if known.is_json else whole
                self.made.receive(known.name, payload, None if age == 2**64 - 1 else age / 1e9)

    def number_of(self, name: str, to_operator: bool) -> int:
        for number, channel in enumerate(self.channels):
            if channel.name == name and channel.to_operator == to_operator:
                return number
        raise LookupError(f"there is no channel {name!r}; there are {[channel.name for channel in self.channels]}")

    def give(self, to_operator: bool) -> None:
        """What there is for channels. What nobody makes room for is left out, but for the rest of what has begun."""
        for name, motion in getattr(self.made, "motions", tuple)() or ():
            what = SCHEMAS.index(type(motion)) + 1
            self.say(MOTION, what, self.number_of(name, False), rest=motion._pack())
        for name, payload in getattr(self.made, "messages", tuple)() or ():
            number = self.number_of(name, to_operator)
            data = json.dumps(payload).encode() if self.channels[number].is_json else bytes(payload)
            head = struct.pack("<Q", 2**64 - 1)
            for at in range(0, max(len(data), 1), PART):
                more = at + PART < len(data)
                if not self.say(MESSAGE, 0, number, more, rest=head + data[at : at + PART], wait=at > 0):
                    break


class _Lease(threading.Thread):
    """Stops a robot when its lease is over, also while another method of it waits."""

    def __init__(self, stop: Any):
        super().__init__(daemon=True)
        self.stop, self.changed, self.until = stop, threading.Condition(), math.inf
        #: No lease goes on for longer: it is to stop.
        self.bound = math.inf

    def set(self, until: float = math.inf) -> None:
        with self.changed:
            until = min(until, self.bound)
            wakes = until < self.until
            self.until = until
            if wakes:
                self.changed.notify()

    def shorten(self, until: float) -> None:
        """Every lease, until this is over."""
        with self.changed:
            self.bound = min(self.bound, until)
            self.set(self.until)

    def over(self) -> None:
        """It is being stopped."""
        with self.changed:
            self.bound = self.until = math.inf

    def run(self) -> None:
        while True:
            with self.changed:
                left = self.until - _now()
                if left > 0:
                    self.changed.wait(min(left, threading.TIMEOUT_MAX))
                    continue
                self.until = math.inf
            self.stop()


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _Robot(_Device):
    role = 1

    def __init__(self, link: socket.socket, made: Any):
        super().__init__(link, made)
        self.enabled, self.stopping = False, threading.Lock()
        self.lease = _Lease(self.expire)
        self.lease.start()

    def urge(self) -> None:
        if not self.ended:
            self.lease.shorten(_now() + PROMPT)

    def stop(self, cause: str) -> None:
        with self.stopping:
            self.made.stop(cause)

    def expire(self) -> None:
        self.enabled = False
        if not self.stopping.acquire(blocking=False):
            return  # A stop is at work.
        try:
            self.made.stop("lease")
        except BaseException:  # Nothing else stops it: its socket's end does here.
            traceback.print_exc()
            os._exit(1)
        finally:
            self.stopping.release()
        self.say(STOPPED, rest=b"lease")

    def run(self) -> None:
        self.hello()
        period = getattr(self.made, "period", 0.001)
        due = _now()
        try:
            while not self.ended:
                for frame in self.hear(due - _now()):
                    self.obey(*frame)
                if _now() >= due:
                    due = max(due + period, _now())
                    self.report()
        finally:
            _ignore_signals()
            self.ended, self.enabled = True, False
            self.lease.over()
            self.stop("end")

    def obey(self, kind: int, what: int, channel: int, flags: int, number: int, rest: bytes) -> None:
        if kind == LIMITS:
            limits = struct.unpack("<8f", rest)
            known = [None if limit != limit else limit for limit in limits]
            box = None if None in known[:6] else (tuple(known[:3]), tuple(known[3:6]))
            getattr(self.made, "limit", bool)(Limits(box, known[6], known[7]))
        elif kind == ENABLE:
            self.lease.set()
            getattr(self.made, "enable", bool)()
            self.enabled = True
        elif kind in (APPLY, DRIVE) and self.enabled:
            (until,) = struct.unpack_from("<Q", rest)
            left = until / 1e9 - _now()
            if left <= 0:
                return
            self.lease.set(until / 1e9)
            if kind == APPLY:
                self.made.apply(State._unpack(rest[8:]), left)
            else:
                self.made.drive(self.channels[channel].name, SCHEMAS[what - 1]._unpack(rest[8:]), left)
            if not self.enabled:  # Its lease ended meanwhile: what was done last is not to last.
                self.stop("lease")
        elif kind == STOP:
            self.enabled = False
            self.lease.over()
            self.stop(rest.decode())
            self.say(STOPPED, number=number, rest=b"told", wait=True)
        else:
            self.shared(kind, what, channel, flags, number, rest)

    def report(self) -> None:
        state = self.made.measure() if hasattr(self.made, "measure") else None
        if state is not None:
            force = getattr(state, "controller_force", None)
            rest = struct.pack("<3f", *((0.0,) * 3 if force is None else force)) + _packed(state)
            self.say(MEASURED, flags=force is not None, rest=rest)
        self.give(True)


class _Input(_Device):
    role = 2

    def run(self) -> None:
        self.hello()
        due = _now()
        while not self.ended:
            for frame in self.hear(due - _now()):
                self.obey(*frame)
            if _now() >= due:
                due = _now() + LOOK
                for button in getattr(self.made, "buttons", tuple)() or ():
                    self.say(BUTTON, BUTTONS.index(button) + 1, wait=True)

    def obey(self, kind: int, what: int, channel: int, flags: int, number: int, rest: bytes) -> None:
        if kind == TICK:
            state = self.made.sample()
            if state is not None:
                self.say(SAMPLE, rest=_packed(state))
            self.give(False)
        elif kind == FEEL:
            getattr(self.made, "feel", bool)(State._unpack(rest))
        elif kind == LOST:
            getattr(self.made, "lost", bool)()
        elif kind == RESUMED:
            getattr(self.made, "resumed", bool)()
        else:
            self.shared(kind, what, channel, flags, number, rest)


def _packed(state: Any) -> bytes:
    """Of this module's states, and of any with the same fields, such as ``taut.State``."""
    if isinstance(state, State):
        return state._pack()
    fields = ("position", "orientation_wxyz", "velocity", "force", "gripper", "locked", "enabling")
    turning = {name: getattr(state, name, None) for name in ("angular_velocity", "torque")}
    return State(*(getattr(state, name) for name in fields), **turning)._pack()


#: Entry points of this package, which need not be installed.
BUILT_IN = {"taut.robots": {"lerobot": "taut.lerobot:Device", "mujoco": "taut.robots.mujoco:Arm"}, "taut.inputs": {}}


def _named(spec: str, group: str | None) -> tuple[str, list[str]]:
    """``module:Class`` of a device, and what it is made with: of ``NAME:ARGUMENT``, by a group of entry points."""
    if group is None:
        return spec, []
    name, _, argument = spec.partition(":")
    known = dict(BUILT_IN[group])
    known.update((point.name, point.value) for point in importlib.metadata.entry_points(group=group))
    if name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise SystemExit(f"no installed package has an entry point `{name}` of {group}; there are: {there}")
    return known[name], [argument] if argument else []


def _ignore_signals() -> None:
    """None cuts short the stop of a robot whose program ends."""
    for name in SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _end(number: int, _: Any) -> None:
    """A signal that ends the program stops the robot on the way."""
    _ignore_signals()
    raise SystemExit(128 + number)


def main(spec: str, group: str | None = None) -> None:
    """Runs ``module:Class`` until the session's end; with a ``group`` of entry points, ``NAME:ARGUMENT``."""
    number = os.environ.get("TAUT_DEVICE_FD")
    if number is None:
        raise SystemExit("TAUT_DEVICE_FD is not set: `taut robot --robot python:` starts this")
    # Of a service all processes may get it, before `taut robot` has said a word.
    for name in SIGNALS:
        signal.signal(getattr(signal, name), _end)
    link = socket.socket(fileno=os.dup(int(number)))
    sys.path.insert(0, "")
    spec, arguments = _named(spec, group)
    module, _, name = spec.partition(":")
    try:
        made = importlib.import_module(module)
        for part in name.split("."):
            made = getattr(made, part)
        made = made(*arguments)
    except (ImportError, ValueError) as why:
        if group is None:
            raise
        raise SystemExit(str(why)) from why
    (_Robot if hasattr(made, "apply") or hasattr(made, "drive") else _Input)(link, made).run()


if __name__ == "__main__":
    groups = {"--robot": "taut.robots", "--input": "taut.inputs"}
    of = groups.get(sys.argv[1]) if len(sys.argv) == 3 else None
    if of is None and (len(sys.argv) != 2 or ":" not in sys.argv[1]):
        raise SystemExit("usage: python3 -m taut.device MODULE:CLASS, or --robot NAME:ARGUMENT, or --input NAME:ARGUMENT")
    # A class that imports this module is to have the very same types.
    from taut.device import main as run

    run(sys.argv[-1], of)
