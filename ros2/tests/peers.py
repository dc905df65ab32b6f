"""Independent peers, alike for both ways of speaking ROS 2: Eclipse Cyclone DDS, and ROBOTIS' zenoh-ros2-sdk behind a zenoh router."""
import collections
import gc
import os

import messages
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

CYCLONE = (
    '<CycloneDDS><Domain id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces>'
    "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
    '<MaxAutoParticipantIndex>20</MaxAutoParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers></Discovery>'
    "</Domain></CycloneDDS>"
)
os.environ.setdefault("CYCLONEDDS_URI", CYCLONE)


def _qos(reliable):
    if reliable:
        return Qos(Policy.Reliability.Reliable(duration(milliseconds=100)), Policy.History.KeepLast(1000))
    return Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(1000))


class _DdsWriter(DataWriter):
    def has_peer(self):
        return bool(self.get_matched_subscriptions())


class _DdsReader(DataReader):
    def has_peer(self):
        return bool(self.get_matched_publications())


class Dds:
    keys = ""
    has_quality = True

    def __init__(self):
        self.participants = {}

    def _topic(self, domain, topic, kind):
        participant = self.participants.get(domain) or DomainParticipant(domain)
        self.participants[domain] = participant
        return participant, Topic(participant, "rt" + topic, kind)

    def writer(self, domain, topic, kind, reliable=True):
        return _DdsWriter(*self._topic(domain, topic, kind), qos=_qos(reliable))

    def reader(self, domain, topic, kind, reliable=True):
        return _DdsReader(*self._topic(domain, topic, kind), qos=_qos(reliable))

    def close(self):
        """Whatever still publishes would be met by the next test's bridges."""
        self.participants.clear()
        gc.collect()


def _ros_name(kind):
    """Of a class of ours: `sensor_msgs.msg.dds_.Joy_` is `sensor_msgs/msg/Joy`."""
    package, _, _, name = kind.__idl_typename__.split(".")
    return f"{package}/msg/{name[:-1]}"


class _ZenohWriter:
    def __init__(self, sdk, **where):
        self.sdk, self.publisher = sdk, sdk.ROS2Publisher(**where)

    def _is_ours(self, value):
        return type(value).__module__ == messages.__name__

    def _message(self, value):
        import numpy

        if self._is_ours(value):
            kind = self.sdk.get_message_class(_ros_name(type(value)))
            return kind(**{name: self._message(field) for name, field in vars(value).items()})
        if isinstance(value, list) and value and self._is_ours(value[0]):
            return [self._message(element) for element in value]
        if isinstance(value, list) and not (value and isinstance(value[0], str)):
            return numpy.array(value, dtype=numpy.float64)
        return value

    def write(self, message):
        fields = {name: value for name, value in vars(message).items() if name != "__msgtype__"}
        if self._is_ours(message):
            fields = {name: self._message(field) for name, field in fields.items()}
        self.publisher.publish(**fields)

    def has_peer(self):
        return self.publisher.pub.matching_status.matching


class _ZenohReader:
    def __init__(self, sdk, **where):
        self.messages = collections.deque()
        self.subscriber = sdk.ROS2Subscriber(callback=self.messages.append, **where)

    def take(self, count):
        return [self.messages.popleft() for _ in range(min(count, len(self.messages)))]

    def has_peer(self):
        return True


class Zenoh:
    keys = 'backend = "zenoh"\n'
    has_quality = False

    def __init__(self, folder):
        import zenoh
        import zenoh_ros2_sdk as sdk
        from rosbags.typesys import Stores, get_typestore
        from zenoh_ros2_sdk.message_registry import get_registry

        self.zenoh, self.sdk = zenoh, sdk
        store = get_typestore(Stores.ROS2_JAZZY)
        for name in store.types:
            package, _, kind = name.split("/")
            if package in ("builtin_interfaces", "std_msgs", "geometry_msgs", "sensor_msgs", "trajectory_msgs"):
                file = folder / package / "msg" / f"{kind}.msg"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(store.generate_msgdef(name, ros_version=2)[0].split("=" * 80)[0])
        self.router = self.open_router()
        get_registry(str(folder))
        self.ends = []

    def open_router(self):
        config = self.zenoh.Config()
        config.insert_json5("mode", '"router"')
        config.insert_json5("listen/endpoints", '["tcp/127.0.0.1:7447"]')
        config.insert_json5("scouting/multicast/enabled", "false")
        return self.zenoh.open(config)

    def writer(self, domain, topic, kind, reliable=True):
        self.ends.append(_ZenohWriter(self.sdk, domain_id=domain, topic=topic, msg_type=_ros_name(kind)))
        return self.ends[-1]

    def reader(self, domain, topic, kind, reliable=True):
        self.ends.append(_ZenohReader(self.sdk, domain_id=domain, topic=topic, msg_type=_ros_name(kind)))
        return self.ends[-1]

    def tokens(self, domain):
        """Of publishers and subscribers, split at their slashes."""
        replies = self.router.liveliness().get(f"@ros2_lv/{domain}/**")
        parts = [str(reply.ok.key_expr).split("/") for reply in replies if reply.ok]
        return [part for part in parts if len(part) == 13]

    def close(self):
        """The router and the SDK's session go on: it has one in a process."""
        for end in self.ends:
            (end.publisher if isinstance(end, _ZenohWriter) else end.subscriber).close()
        self.ends.clear()
