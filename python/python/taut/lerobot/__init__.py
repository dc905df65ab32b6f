"""LeRobot's robots and teleoperators (https://github.com/huggingface/lerobot) at the ends of a session.

On the robot's host any LeRobot robot becomes a robot of taut, by :func:`serve` or by ``taut robot --robot "lerobot:--type=so101_follower --port=…"``.
On the operator's host the remote robot is one of LeRobot's again, ``lerobot-teleoperate --robot.type=taut``. Positions are LeRobot's own numbers, in
the units that the robot is set to, and so are limits. ``python -m taut.lerobot convert`` makes a LeRobot dataset of a recording.
"""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
import shlex
import threading
import time
from dataclasses import make_dataclass
from typing import Any, Iterable

from taut._motion import Joints

__all__ = ["Device", "Follower", "at_rest", "names_of", "serve"]

#: The channel of motion, and the one over which the robot says where it is: JSON, a number by each name.
MOTION, OBSERVATION = "joints", "observation"
#: What was seen of the joints longer ago, s, is not where they are.
FRESH = 0.2
#: A stop so long after another one, s, is the same: it holds where that one held, for an arm sags a little each time.
SAME_STOP = 1.0
#: LeRobot's option that names a module with more robots.
PLUGIN = "--discover_packages_path="


def names_of(features: dict[str, Any]) -> list[str]:
    """The joints among a LeRobot robot's ``action_features``, in their order.

    Raises ``ValueError`` for what is no number, or neither a position nor a velocity: nothing would be known of how to stop it.
    """
    strange = [name for name, kind in features.items() if kind is not float or not name.endswith((".pos", ".vel"))]
    if strange or not features:
        raise ValueError(f"actions that are neither NAME.pos nor NAME.vel, and numbers, cannot be stopped: {strange or 'it has none'}")
    return list(features)


def check_names(given: Iterable[str], known: Iterable[str], whose: str) -> None:
    """Raises ``ValueError`` unless both are the same joints."""
    given, known = list(given), list(known)
    unknown = [name for name in given if name not in known]
    missing = [name for name in known if name not in given]
    if unknown or missing:
        raise ValueError(f"{whose}: unknown {unknown}, missing {missing}; there are {known}")


def at_rest(names: Iterable[str], at: Iterable[float]) -> dict[str, float]:
    """What stops joints that are there: each position stays, each velocity is zero."""
    return {name: 0.0 if name.endswith(".vel") else here for name, here in zip(names, at)}


class Follower:
    """A LeRobot robot as a device for :class:`taut.Robot`. At a stop each position is held where it is, or was seen last, and each velocity
    is zero.

    LeRobot's robots are for one thread: what stops waits for what is being sent or read.
    """

    def __init__(self, robot: Any):
        self.robot, self.names = robot, names_of(robot.action_features)
        self.observation: dict[str, float] = {}
        #: Where the joints were seen last and when, s, and where they were told to go since.
        self._last: tuple[float, tuple[float, ...]] | None = None
        self._told: tuple[float, ...] | None = None
        #: When it was stopped, s, and where it holds since, as long as its bus answers: without power it may have fallen.
        self._held: tuple[float, tuple[float, ...]] | None = None
        self._one = threading.Lock()
        if not robot.is_connected:
            robot.connect()

    def apply(self, joints: Joints, lease: float) -> None:
        with self._one:
            self._told, self._held = tuple(joints.position), None
            self.robot.send_action(dict(zip(self.names, self._told)))

    def measure(self) -> Joints:
        with self._one:
            return self._measure()

    def _measure(self) -> Joints:
        held, self._held = self._held, None
        seen = self.robot.get_observation()
        self._held = held
        check_names([name for name in self.names if name in seen], self.names, "what the robot measures")
        self.observation = {name: float(seen[name]) for name, kind in self.robot.observation_features.items() if kind is float}
        at = tuple(float(seen[name]) for name in self.names)
        self._last = time.monotonic(), at
        return Joints(at)

    def stop(self, cause: str) -> None:
        with self._one:
            now, held = time.monotonic(), self._held
            # Where it is takes a while to read, in which a base would drive on.
            if self._told is not None and any(name.endswith(".vel") for name in self.names):
                self.robot.send_action(at_rest(self.names, self._told))
            # Later it may have been moved by hand, and be far from there.
            if held is None or now - held[0] > SAME_STOP:
                held = now, self._at()
            self._told = self._held = None
            self.robot.send_action(at_rest(self.names, held[1]))
            self._held = held

    def _at(self) -> tuple[float, ...]:
        try:
            return tuple(self._measure().position)
        except Exception:
            when, at = self._last or (0.0, None)
            # What is old would be a jump back: then where it was told to be is nearer.
            if at is None or self._told is not None and time.monotonic() - when > FRESH:
                at = self._told
            if at is None:
                raise
            return at


class Device:
    """``--robot "lerobot:--type=NAME --OPTION=…"``: the robot of LeRobot that ``lerobot-teleoperate`` has by ``--robot.type`` and ``--robot.OPTION``.

    Its channels are ``joints``, a motion of ``taut/Joints``, and ``observation``, JSON to the operator.
    """

    period = 0.02

    def __init__(self, options: str = ""):
        self.follower = Follower(made(shlex.split(options)))
        self.name = f"LeRobot's {self.follower.robot.name}"
        self._at: Joints | None = None

    def drive(self, channel: str, joints: Joints, lease: float) -> None:
        if len(joints.position) != len(self.follower.names):
            raise ValueError(f"{len(joints.position)} joints, and the robot has {self.follower.names}")
        self.follower.apply(joints, lease)

    def stop(self, cause: str) -> None:
        self.follower.stop(cause)

    def motions(self) -> Iterable[tuple[str, Joints]]:
        yield MOTION, self.follower.measure()

    def messages(self) -> Iterable[tuple[str, dict[str, float]]]:
        yield OBSERVATION, self.follower.observation


def made(options: list[str]) -> Any:
    """A robot of LeRobot, not connected yet."""
    try:
        import draccus
        from lerobot import robots
        from lerobot.utils.import_utils import register_third_party_plugins
    except ImportError as why:
        raise ImportError(f"{why}: install lerobot beside taut") from why
    missing = []
    for module in pkgutil.iter_modules(robots.__path__, "lerobot.robots."):
        try:
            importlib.import_module(module.name)
        except ImportError as why:  # Of hardware that is not installed here.
            missing.append(f"{module.name}: {why}")
    register_third_party_plugins()
    plugins = [option for option in options if option.startswith(PLUGIN)]
    for plugin in plugins:
        importlib.import_module(plugin[len(PLUGIN) :])
    options = [option for option in options if option not in plugins]
    if not any(option.startswith("--type") for option in options):
        raise ValueError(f"which robot? --type=NAME of {sorted(robots.RobotConfig.get_known_choices())}")
    try:
        parsed = draccus.parse(make_dataclass("Options", [("robot", robots.RobotConfig)]), args=[option.replace("--", "--robot.", 1) for option in options])
        return robots.make_robot_from_config(parsed.robot)
    except SystemExit as why:
        raise ValueError(f"LeRobot does not know these options: {options}; not imported: {missing}") from why


class _Observation:
    """Numbers by their names."""

    def _schema(self) -> tuple[str, str, str]:
        return "lerobot/Observation", "json", ""

    def _write(self, message: dict[str, float]) -> bytes:
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()

    def _read(self, payload: bytes) -> dict[str, float]:
        read = json.loads(payload)
        if not isinstance(read, dict) or not all(isinstance(number, (int, float)) for number in read.values()):
            raise TypeError("an observation is a number by each name")
        return read


def observation(end: type) -> Any:
    """The channel of observations: ``taut.Sender`` or ``taut.Receiver``."""
    made = end(OBSERVATION, _Observation(), kind="feedback")
    #: Why some could not be sent, as far as it was said.
    made.refusals = set()
    return made


def tell(sender: Any, numbers: dict[str, float]) -> None:
    """Sends an observation if anybody listens. One that cannot be sent stops nothing, and is said once."""
    from taut import Error

    try:
        if sender.is_open:
            sender.send(numbers)
    except Error as why:
        if str(why) not in sender.refusals:
            sender.refusals.add(str(why))
            logging.warning("taut: %s", why)


class _Served(Follower):
    def __init__(self, robot: Any, sender: Any):
        super().__init__(robot)
        self._sender = sender

    def measure(self) -> Joints:
        joints = super().measure()
        tell(self._sender, self.observation)
        return joints


def serve(
    robot: Any, listen: str, *, limits: dict[str, Any], watchdog: float = 0.25, rate: int = 50, channels: Iterable[Any] = (), **settings: Any
) -> Any:
    """A :class:`taut.Robot` that moves this robot of LeRobot, which is connected if it was not.

    ``limits`` has :class:`taut.JointLimits` for each of its ``action_features``, in the robot's own units. It is asked ``rate`` times a second where it is: leave its
    cameras out, which take longer than that. The other settings are those of :class:`taut.Robot`. Raises ``ValueError`` when a joint is
    unknown or has no limits.
    """
    import taut

    names = names_of(robot.action_features)
    check_names(limits, names, "limits")
    sender = observation(taut.Sender)
    limits = {name: limits[name] for name in names}
    channels = [sender, *channels]
    return taut.Robot(listen, limits=limits, device=_Served(robot, sender), watchdog=watchdog, rate=rate, motion=MOTION, channels=channels, **settings)
