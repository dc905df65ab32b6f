"""On the robot's host: the operator at the other end of a session is LeRobot's teleoperator ``taut``.

``lerobot-teleoperate --robot.type=… --teleop.type=taut --teleop.listen=0.0.0.0:4433 --teleop.trust="[taut:OPERATOR…]" --teleop.limits=… --teleop.start=…``
LeRobot's loop does not tell a teleoperator where the robot is: where it can be chosen, ``taut.lerobot.serve`` and ``taut robot --robot lerobot:…`` know more.
"""

import logging
import math
import threading
import time
from dataclasses import dataclass, field

from lerobot.teleoperators.config import TeleoperatorConfig
from lerobot.teleoperators.teleoperator import Teleoperator

import taut
from taut.lerobot import MOTION, at_rest, check_names, names_of, observation, tell


#: What the loop said where the robot is counts for so long, s.
SEEN_FOR = 0.2


@TeleoperatorConfig.register_subclass("taut")
@dataclass(kw_only=True)
class TautTeleoperatorConfig(TeleoperatorConfig):
    listen: str = "0.0.0.0:4433"
    #: Fingerprints of operators that may have the robot.
    trust: list[str] = field(default_factory=list)
    #: Of each joint the least and the largest position and the speed, in the robot's own units: {shoulder_pan.pos: [-90, 90, 45], …}
    limits: dict[str, list[float]] = field(default_factory=dict)
    #: Where the robot goes when the loop begins, and waits for the operator.
    start: dict[str, float] = field(default_factory=dict)
    #: The file with this robot's identity, made when there is none, and the one in which an emergency stop survives the process.
    identity: str = "robot.key"
    keeps_stops_in: str = "robot.stops"
    watchdog: float = 0.25
    transport: str = "quic"


class TautTeleoperator(Teleoperator):
    """Its action is what the session applied last, within its limits. A loop that takes none for the watchdog's time stops it. After a stop velocities
    are zero, and each position is where the loop says that it is, within its limits; where it does not say that, or nothing moved since the stop
    before, it stays as the loop took it last.
    """

    config_class = TautTeleoperatorConfig
    name = "taut"

    def __init__(self, config: TautTeleoperatorConfig):
        super().__init__(config)
        self.config, self._robot, self._lock = config, None, threading.Lock()
        if not config.limits:
            raise ValueError("nothing moves without limits: --teleop.limits=\"{shoulder_pan.pos: [-90, 90, 45], …}\"")
        self.names = names_of({name: float for name in config.limits})
        check_names(config.start, self.names, "--teleop.start")
        self._at = self._rest(float(config.start[name]) for name in self.names)
        for name, at in zip(self.names, self._at):
            least, most = config.limits[name][:2]
            if not least <= at <= most:
                raise ValueError(f"--teleop.start: {name} is {at}, and its limits are {least} and {most}")
        self._seen: dict[str, float] = {}
        self._seen_at = 0.0
        #: What the loop took last, and when.
        self._taken: tuple[float, ...] | None = None
        self._taken_at = -math.inf
        self._moves = True

    def _fresh(self) -> dict[str, float]:
        """What the loop says of the robot now."""
        return self._seen if time.monotonic() - self._seen_at < SEEN_FOR else {}

    def _where(self, told: tuple[float, ...]) -> tuple[float, ...]:
        """Where it is, as far as the loop says that now; else where it was told to be."""
        seen = self._fresh()
        return tuple(seen[name] for name in self.names) if all(name in seen for name in self.names) else told

    def _limited(self, at) -> tuple[float, ...]:
        limits = (self.config.limits[name] for name in self.names)
        return tuple(max(least, min(most, x)) for x, (least, most, *_) in zip(at, limits))

    def _rest(self, at) -> tuple[float, ...]:
        return tuple(at_rest(self.names, at).values())

    @property
    def action_features(self) -> dict:
        return {name: float for name in self.names}

    feedback_features = action_features

    @property
    def is_connected(self) -> bool:
        return self._robot is not None

    @property
    def is_calibrated(self) -> bool:
        return True

    def calibrate(self) -> None:
        pass

    def configure(self) -> None:
        pass

    def connect(self, calibrate: bool = True) -> None:
        config = self.config
        self._observations = observation(taut.Sender)
        limits = {name: taut.JointLimits(position=(least, most), velocity=speed) for name, (least, most, speed) in config.limits.items()}
        self._robot = taut.Robot(
            config.listen,
            identity=config.identity,
            trust=config.trust,
            limits=limits,
            device=self,
            keeps_stops_in=config.keeps_stops_in,
            channels=[self._observations],
            watchdog=config.watchdog,
            rate=100,
            transport=config.transport,
            motion=MOTION,
        )
        logging.info("taut: %s listens on %s", self._robot.fingerprint, self._robot.address)

    def apply(self, joints: taut.Joints, lease: float) -> None:
        with self._lock:
            # What nobody takes would run away from the robot, which would jump after it.
            if time.monotonic() - self._taken_at > self.config.watchdog:
                raise RuntimeError(f"LeRobot's loop has taken no action for {self.config.watchdog} s")
            self._at, self._moves = tuple(joints.position), True

    def measure(self) -> taut.Joints:
        with self._lock:
            at, seen = self._where(self._at), self._fresh()
        tell(self._observations, seen or dict(zip(self.names, at)))
        return taut.Joints(at)

    def stop(self, cause: str) -> None:
        with self._lock:
            # What it sags by under its load would lower it at every stop.
            if self._moves:
                self._at, self._moves = self._rest(self._limited(self._where(self._taken or self._at))), False
        logging.warning("taut: stopped: %s", cause)

    def get_action(self) -> dict[str, float]:
        if self._robot is None:
            raise RuntimeError("connect the teleoperator first")
        if self._robot.has_ended:
            # An error ends the loop, which disconnects its robot.
            raise RuntimeError("the session is over")
        with self._lock:
            self._taken, self._taken_at = self._at, time.monotonic()
            return dict(zip(self.names, self._at))

    def send_feedback(self, feedback: dict) -> None:
        """Where the robot is, for the operator. Before the first action that is where it stays."""
        with self._lock:
            numbers = {name: float(value) for name, value in feedback.items() if isinstance(value, (int, float))}
            self._seen = {name: value for name, value in numbers.items() if math.isfinite(value)}
            self._seen_at = time.monotonic()
            if self._taken is None and all(name in self._seen for name in self.names):
                self._at = self._rest(self._seen[name] for name in self.names)

    def disconnect(self) -> None:
        if self._robot is not None:
            robot, self._robot = self._robot, None
            robot.close()
