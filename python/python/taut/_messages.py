"""What channels carry, and how it is awaited."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import types as kinds
import typing
from typing import Any, Generic, TypeVar

from . import _taut
from ._motion import Joints

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened: its name, and what belongs to it."""

    name: str
    detail: dict[str, Any]


async def _readable(fd: int) -> None:
    """Waits until the file descriptor is readable."""
    loop = asyncio.get_running_loop()
    rung = loop.create_future()
    loop.add_reader(fd, lambda: rung.done() or rung.set_result(None))
    try:
        await rung
    finally:
        loop.remove_reader(fd)


class _Stream(Generic[T]):
    """An async iterator that ends with the session. One task at a time waits for it."""

    _fd: int
    _awaited = False

    def poll(self) -> T | None:
        """What waits next, or ``None``."""
        raise NotImplementedError

    def __aiter__(self):
        return self

    async def __anext__(self) -> T:
        while True:
            try:
                item = self.poll()
            except _taut.EndedError:
                raise StopAsyncIteration from None
            if item is not None:
                return item
            if self._awaited:
                raise RuntimeError("another task waits for it already: let one task iterate, and pass on what comes")
            self._awaited = True
            try:
                await _readable(self._fd)
            finally:
                self._awaited = False


class Events(_Stream[Event]):
    """What happens to one end: iterate asynchronously, or :meth:`poll`. 256 events wait; then the oldest makes way."""

    def __init__(self, inner):
        self._inner, self._fd = inner, inner.fileno()

    def poll(self) -> Event | None:
        polled = self._inner.poll()
        return None if polled is None else Event(*polled)

    @property
    def missed(self) -> int:
        """Events that were not read in time."""
        return self._inner.missed


# Messages


class Array:
    """Messages that are numpy arrays of one type; ``shape`` may be left out for any length of one dimension.

    What is received shares the memory of the message: it is not copied, and cannot be written.
    """

    def __init__(self, dtype: Any, shape: tuple[int, ...] | None = None):
        import numpy

        self._numpy, self.dtype, self.shape = numpy, numpy.dtype(dtype), shape
        if self.dtype.hasobject:
            raise _taut.SettingError(f"{self.dtype} holds Python objects, which have no bytes")

    def _schema(self) -> tuple[str, str, str]:
        # With the order of its bytes, and the names of its fields.
        described = self._numpy.lib.format.dtype_to_descr(self.dtype)
        return "numpy.ndarray", "raw", json.dumps([described, self.shape])

    def _write(self, message: Any) -> bytes:
        array = self._numpy.asarray(message)
        if array.dtype != self.dtype or (array.ndim != 1 if self.shape is None else array.shape != self.shape):
            raise _taut.MessageError(f"an array {array.dtype}{array.shape} is none of {self.dtype}{self.shape or ('n',)}")
        return array.tobytes()

    def _read(self, payload: bytes) -> Any:
        array = self._numpy.frombuffer(payload, self.dtype)
        return array if self.shape is None else array.reshape(self.shape)


class JointNames:
    """Messages that are :class:`Joints`, as many as there are names and in their order: what moves a robot whose limits have these names."""

    def __init__(self, *names: str):
        self.names = names

    def _schema(self) -> tuple[str, str, str]:
        return "taut/Joints", "taut", json.dumps(self.names, separators=(",", ":"), ensure_ascii=False)

    def _write(self, message: Any) -> bytes:
        if not isinstance(message, Joints) or len(message.position) != len(self.names):
            raise _taut.MessageError(f"{message!r} is not taut.Joints of {', '.join(self.names)}")
        return _taut.joints_payload(message)


class _Raw:
    def _schema(self):
        return "bytes", "raw", ""

    def _write(self, message):
        return memoryview(message).tobytes()  # `bytes(3)` would be three zeros.

    def _read(self, payload):
        return payload


class _Json:
    """A dataclass as JSON; its fields and their types are the schema."""

    def __init__(self, of: type):
        self._of = of

    def _schema(self):
        return self._of.__name__, "json", json.dumps(_described(self._of), separators=(",", ":"))

    def _write(self, message):
        if not isinstance(message, self._of):
            raise _taut.MessageError(f"{message!r} is no {self._of.__name__}")
        return json.dumps(dataclasses.asdict(message), separators=(",", ":"), allow_nan=False).encode()

    def _read(self, payload):
        return _built(self._of, json.loads(payload))


_PLAIN = {bool: "bool", int: "int", float: "float", str: "str"}


def _alternatives(kind: Any) -> list[Any] | None:
    """Of ``X | None``: X."""
    if typing.get_origin(kind) in (typing.Union, kinds.UnionType):
        some = [one for one in typing.get_args(kind) if one is not type(None)]
        return some if len(some) == 1 and len(typing.get_args(kind)) == 2 else None
    return None


def _described(kind: Any) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {field.name: _described(hints[field.name]) for field in dataclasses.fields(kind)}
    if typing.get_origin(kind) is list and typing.get_args(kind):
        return [_described(typing.get_args(kind)[0])]
    if some := _alternatives(kind):
        return ["?", _described(some[0])]
    raise _taut.SettingError(f"{kind} is no type of a message: take bool, int, float, str, list[…], … | None, or a dataclass of these")


def _built(kind: Any, value: Any) -> Any:
    """What JSON has, as the type that was declared: a peer may send anything."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is no {kind.__name__}")
        hints = typing.get_type_hints(kind)
        missing = [field.name for field in dataclasses.fields(kind) if field.name not in value]
        if missing or len(value) != len(dataclasses.fields(kind)):
            raise TypeError(f"{kind.__name__} has other fields: {sorted(value)}")
        return kind(**{name: _built(hints[name], part) for name, part in value.items()})
    if typing.get_origin(kind) is list:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is no list")
        return [_built(typing.get_args(kind)[0], part) for part in value]
    if some := _alternatives(kind):
        return None if value is None else _built(some[0], value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _codec(message: Any) -> Any:
    if message is bytes:
        return _Raw()
    if hasattr(message, "_schema"):
        return message
    if isinstance(message, type) and dataclasses.is_dataclass(message):
        return _Json(message)
    raise _taut.SettingError(f"a message is a dataclass, taut.Array(dtype, shape), taut.JointNames(…) or bytes, not {message!r}")


class _Channel:
    def __init__(
        self,
        name: str,
        message: Any = bytes,
        *,
        kind: str,
        deadline: float | None = None,
        rate: float | None = None,
        largest: int | None = None,
    ):
        if (kind == "motion") != (isinstance(message, JointNames) and self._end is _taut.Sender):
            raise _taut.SettingError(f"`{name}`: motion is sent as taut.JointNames(…), and taken by a robot's device alone; other messages are of another kind")
        self.name, self.kind, self._codec = name, kind, _codec(message)
        schema, encoding, definition = self._codec._schema()
        self._inner = self._end(
            kinds.SimpleNamespace(
                name=name,
                kind=kind,
                schema=schema,
                encoding=encoding,
                definition=definition,
                deadline=deadline,
                rate=rate,
                largest=largest,
            )
        )

    def __repr__(self) -> str:
        return f"taut.{type(self).__name__}({self.name!r}, kind={self.kind!r})"


class Sender(_Channel):
    """The end of a channel that sends. Made first, then given to a robot or an operator."""

    _end = _taut.Sender

    def send(self, message: Any) -> None:
        """Sends it, without waiting. Raises when it cannot be sent: there is no session, or the peer declares something else."""
        try:
            payload = self._codec._write(message)
        except (ValueError, TypeError, OverflowError, RecursionError) as why:
            raise _taut.MessageError(f"this {type(message).__name__} cannot be sent over `{self.name}`: {why}") from why
        self._inner.send(payload)

    @property
    def is_open(self) -> bool:
        """Would a message be sent now?"""
        return self._inner.is_open


class Receiver(_Channel, _Stream):
    """The end of a channel that receives: iterate asynchronously, :meth:`recv` or :meth:`poll`. 256 messages wait, and of
    what comes in order 1024 short ones."""

    _end = _taut.Receiver

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self._fd = self._inner.fileno()

    def poll(self) -> Any:
        """The next message, or ``None`` when none waits."""
        return self._read(self._inner.poll())

    def recv(self, timeout: float | None = None) -> Any:
        """The next message. Waits for it; ``None`` when the time is over."""
        return self._read(self._inner.recv(timeout))

    @property
    def missed(self) -> int:
        """Messages that were not read in time."""
        return self._inner.missed

    def _read(self, payload: bytes | None) -> Any:
        if payload is None:
            return None
        try:
            return self._codec._read(payload)
        except (ValueError, TypeError, OverflowError, RecursionError) as why:
            raise _taut.MessageError(f"what came over `{self.name}` is none of its messages: {why}") from why
