"""On the operator's host: the robot at the other end of a session is LeRobot's robot ``taut``.

``lerobot-teleoperate --robot.type=taut --robot.connect=HOST:4433 --robot.trust=taut:ROBOT… --robot.joints="[shoulder_pan.pos, …]" --teleop.type=…``
"""

import logging
import time
from dataclasses import dataclass, field

from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot

import taut
from taut.lerobot import MOTION, check_names, observation

#: Seconds after which what was heard of the robot is not shown any more.
SILENCE = 1.0


@RobotConfig.register_subclass("taut")
@dataclass(kw_only=True)
class TautRobotConfig(RobotConfig):
    #: Where the robot listens, "host:port".
    connect: str
    #: The robot's fingerprint.
    trust: str
    #: The robot's action features in its order, such as "shoulder_pan.pos".
    joints: list[str] = field(default_factory=list)
    #: The file with this operator's identity, which is made when there is none.
    identity: str = "operator.key"
    transport: str = "quic"


class TautRobot(Robot):
    """Moves from the first action on. When the robot stops, whatever the cause, the next call raises: start the loop again to resume."""

    config_class = TautRobotConfig
    name = "taut"

    def __init__(self, config: TautRobotConfig):
        super().__init__(config)
        if not config.joints:
            raise ValueError("name the robot's joints in their order: --robot.joints=\"[shoulder_pan.pos, …]\"")
        self.config, self._operator = config, None
        self._seen: dict[str, float] = {}
        self._seen_at = 0.0
        logging.info("taut: the robot's host trusts this operator by %s", taut.fingerprint(config.identity))

    @property
    def observation_features(self) -> dict:
        return {name: float for name in self.config.joints}

    action_features = observation_features

    @property
    def is_connected(self) -> bool:
        return self._operator is not None

    @property
    def is_calibrated(self) -> bool:
        return True

    def calibrate(self) -> None:
        pass

    def configure(self) -> None:
        pass

    def connect(self, calibrate: bool = True) -> None:
        config = self.config
        self._joints = taut.Sender(MOTION, taut.JointNames(*config.joints), kind="motion")
        self._observations = observation(taut.Receiver)
        self._operator = taut.connect(
            config.connect,
            identity=config.identity,
            trust=config.trust,
            transport=config.transport,
            channels=[self._joints, self._observations],
        )
        self._resumed = self._moves = False
        try:
            first = self._observations.recv(5.0)
            if first is None:
                raise RuntimeError("the robot did not say where it is within 5 s")
            missing = [name for name in config.joints if name not in first]
            if missing:
                raise ValueError(f"the robot has no joints {missing}; it has {list(first)}")
            self._see(first)
            self._check()
        except BaseException:
            self.disconnect()
            raise

    def get_observation(self) -> dict[str, float]:
        self._check()
        while (seen := self._observations.poll()) is not None:
            self._see(seen)
        if time.monotonic() - self._seen_at > SILENCE:
            self._fail(f"nothing was heard of the robot for {SILENCE} s")
        return dict(self._seen)

    def send_action(self, action: dict[str, float]) -> dict[str, float]:
        self._check()
        try:
            check_names(action, self.config.joints, "the action")
            joints = taut.Joints([float(action[name]) for name in self.config.joints])
            if not self._resumed:
                self._operator.resume()
                self._resumed = True
            self._joints.send(joints)
        except Exception:
            self.disconnect()
            raise
        return action

    def disconnect(self) -> None:
        """The robot stops."""
        if self._operator is not None:
            operator, self._operator = self._operator, None
            operator.close()

    def _see(self, seen: dict[str, float]) -> None:
        self._seen, self._seen_at = {name: float(seen[name]) for name in self.config.joints}, time.monotonic()

    def _check(self) -> None:
        """Raises when the robot does not move any more, or never will."""
        if self._operator is None:
            raise RuntimeError("connect the robot first; after a stop, start the loop again")
        while event := self._operator.events.poll():
            detail = event.detail
            if event.name == "channel_closed":
                self._fail(f"channel {detail['channel']}: {detail['why']}; --robot.joints has the robot's joints in another order or number")
            elif event.name in ("disconnected", "ended"):
                self._fail(f"the session is over: {detail.get('why') or event.name}")
            elif event.name == "resume_refused":
                self._fail(f"the robot does not move: {detail['why']}")
            elif event.name == "moving":
                self._moves = True
            elif event.name == "robot" and self._moves and detail["state"] != "ENABLED":
                self._fail(f"the robot stopped: {detail['cause']}; start the loop again to resume")

    def _fail(self, why: str) -> None:
        self.disconnect()
        raise RuntimeError(why)
