"""A teleoperator and a robot of LeRobot that need no hardware: ``--teleop.type=scripted``, ``--robot.type=scripted``."""

import json
from dataclasses import dataclass, field

from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot
from lerobot.teleoperators.config import TeleoperatorConfig
from lerobot.teleoperators.teleoperator import Teleoperator


class _Plain:
    """What both have, and do nothing by."""

    is_connected = False
    is_calibrated = True

    def calibrate(self):
        pass

    def configure(self):
        pass

    def connect(self, calibrate=True):
        self.is_connected = True

    def disconnect(self):
        self.is_connected = False


@TeleoperatorConfig.register_subclass("scripted")
@dataclass
class ScriptedConfig(TeleoperatorConfig):
    goal: dict[str, float] = field(default_factory=dict)
    #: After so many actions they have a joint that no robot has.
    strange_after: int = 1_000_000_000


class Scripted(_Plain, Teleoperator):
    config_class = ScriptedConfig
    name = "scripted"

    def __init__(self, config):
        super().__init__(config)
        self.config, self.count = config, 0

    @property
    def action_features(self):
        return {name: float for name in self.config.goal}

    feedback_features = {}

    def get_action(self):
        self.count += 1
        return {**self.config.goal, **({"tail.pos": 1.0} if self.count > self.config.strange_after else {})}

    def send_feedback(self, feedback):
        pass


@RobotConfig.register_subclass("scripted")
@dataclass
class ScriptedArmConfig(RobotConfig):
    #: Each action is written there, a line of JSON.
    log: str = ""


class ScriptedArm(_Plain, Robot):
    config_class = ScriptedArmConfig
    name = "scripted"

    def __init__(self, config):
        super().__init__(config)
        self.at = {"pan.pos": 0.0, "grip.pos": 0.0}
        self.log = open(config.log, "a", buffering=1)

    @property
    def observation_features(self):
        return {name: float for name in self.at}

    action_features = observation_features

    def get_observation(self):
        return dict(self.at)

    def send_action(self, action):
        self.at = dict(action)
        self.log.write(json.dumps(action) + "\n")
        return action
