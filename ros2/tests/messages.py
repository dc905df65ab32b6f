"""Types of ROS 2 as an independent DDS has them."""
from dataclasses import dataclass

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, sequence, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration


@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Time
    frame_id: str


@dataclass
class JointState(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):
    header: Header
    name: sequence[str]
    position: sequence[float64]
    velocity: sequence[float64]
    effort: sequence[float64]


@dataclass
class Vector3(IdlStruct, typename="geometry_msgs.msg.dds_.Vector3_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Twist(IdlStruct, typename="geometry_msgs.msg.dds_.Twist_"):
    linear: Vector3
    angular: Vector3


@dataclass
class TwistStamped(IdlStruct, typename="geometry_msgs.msg.dds_.TwistStamped_"):
    header: Header
    twist: Twist


def qos(reliable):
    if reliable:
        return Qos(Policy.Reliability.Reliable(duration(milliseconds=100)), Policy.History.KeepLast(1000))
    return Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(1000))


def writer(domain, topic, kind, reliable=True):
    return DataWriter(domain, Topic(domain, "rt" + topic, kind), qos=qos(reliable))


def reader(domain, topic, kind, reliable=True):
    return DataReader(domain, Topic(domain, "rt" + topic, kind), qos=qos(reliable))


def stamped(number=0, frame="base"):
    return Header(Time(number // 10**9, number % 10**9), frame)


def participant(domain):
    return DomainParticipant(domain)
