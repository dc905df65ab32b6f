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
#: Frames that wait for the device; then they wait in the socket.
KEPT = 1024
SIGNALS = ("SIGTERM", "SIGHUP", "SIGABRT")
ROLES = {1: "a robot", 2: "an input"}
HEADER = struct.Struct("<BBBBI")


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
    """Reads what comes, also while a method of the device is at work; of what moves it, ticks and forces the newest waits."""

    def __init__(self, link: socket.socket, urge: Any):
        super().__init__(daemon=True)
        self.link, self.urge = link, urge
        self.changed, self.waiting, self.ended = threading.Condition(), [], False

    def run(self) -> None:
        while not self.ended:
            with self.changed:
                self.changed.wait_for(lambda: len(self.waiting) < KEPT)
            select.select([self.link], [], [])
            try:
                frame = self.link.recv(LONGEST)
            except BlockingIOError:
                continue
            except OSError:
                frame = b""
            if not frame or frame[0] == STOP:
                self.urge()
            with self.changed:
                self.put(frame)
                self.changed.notify_all()

    def put(self, frame: bytes) -> None:
        if not frame or frame[0] == STOP:
            self.waiting = [old for old in self.waiting if old[0] not in (ENABLE, APPLY, DRIVE)]
        elif frame[0] in (APPLY, DRIVE, TICK, FEEL):
            self.waiting = [old for old in self.waiting if old[:3] != frame[:3]]
        if frame:
            self.waiting.append(frame)
        else:
            self.ended = True

    def wait(self, timeout: float) -> int:
        """How many wait; waits for one at most so long."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.ended, max(timeout, 0.0))
            return len(self.waiting)

    def take(self) -> bytes | None:
        with self.changed:
            self.changed.notify_all()
            return self.waiting.pop(0) if self.waiting else None


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
        link.setblocking(False)

    def urge(self) -> None:
        """From the thread that reads: a stop came, or the end."""

    def say(self, kind: int, what: int = 0, channel: int = 0, flags: int = 0, number: int = 0, rest: bytes = b"", wait: bool = False) -> bool:
        """False where nobody makes room for it."""
        frame = HEADER.pack(kind, what, channel, flags, number) + rest
        while True:
            try:
                self.link.send(frame, socket.MSG_NOSIGNAL)
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
        """What waits; waits for it at most so long. What comes meanwhile is for the next time, for there are other things to do."""
        for _ in range(self.inbox.wait(timeout)):
            frame = self.inbox.take()
            if frame is not None:
                yield (*HEADER.unpack_from(frame), frame[HEADER.size :])
        self.ended |= self.inbox.ended and not self.inbox.waiting

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
        self.stop, self.changed, self.until = stop, threading.Condition(), None
        #: No lease goes on for longer: it is to stop.
        self.bound = math.inf

    def set(self, until: float | None) -> None:
        with self.changed:
            if until is None:
                self.bound = math.inf
            else:
                until = min(until, self.bound)
            wakes = self.until is None or until is None or until < self.until
            self.until = until
            if wakes:
                self.changed.notify()

    def shorten(self, until: float) -> None:
        """Until somebody has stopped it."""
        with self.changed:
            self.bound = min(self.bound, until)
            self.until = self.bound if self.until is None else min(self.until, self.bound)
            self.changed.notify()

    def run(self) -> None:
        while True:
            with self.changed:
                left = None if self.until is None else self.until - _now()
                if left is None or left > 0:
                    self.changed.wait(left)
                    continue
                self.until = None
            self.stop()


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _Robot(_Device):
    role = 1

    def __init__(self, link: socket.socket, made: Any):
        super().__init__(link, made)
        self.enabled = False
        self.lease = _Lease(self.expire)
        self.lease.start()

    def urge(self) -> None:
        if not self.ended:
            self.lease.shorten(_now() + PROMPT)

    def expire(self) -> None:
        self.enabled = False
        try:
            self.made.stop("lease")
        except BaseException:  # Nothing else stops it: its socket's end does here.
            traceback.print_exc()
            os._exit(1)
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
            self.ended, self.enabled = True, False
            self.lease.set(None)
            self.made.stop("end")

    def obey(self, kind: int, what: int, channel: int, flags: int, number: int, rest: bytes) -> None:
        if kind == LIMITS:
            limits = struct.unpack("<8f", rest)
            known = [None if limit != limit else limit for limit in limits]
            box = None if None in known[:6] else (tuple(known[:3]), tuple(known[3:6]))
            getattr(self.made, "limit", bool)(Limits(box, known[6], known[7]))
        elif kind == ENABLE:
            self.lease.set(None)
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
                self.made.stop("lease")
        elif kind == STOP:
            self.enabled = False
            self.lease.set(None)
            self.made.stop(rest.decode())
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


def _end(number: int, _: Any) -> None:
    """A signal that ends the program stops the robot on the way, which no further signal cuts short."""
    for name in SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
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
