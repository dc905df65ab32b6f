"""Types of ROS 2 that the peers write and read."""
from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, sequence, uint32


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


def stamped(number=0, frame="base"):
    return Header(Time(number // 10**9, number % 10**9), frame)


@dataclass
class TimeReference(IdlStruct, typename="sensor_msgs.msg.dds_.TimeReference_"):
    header: Header
    time_ref: Time
    source: str


@dataclass
class Duration(IdlStruct, typename="builtin_interfaces.msg.dds_.Duration_"):
    sec: int32
    nanosec: uint32


@dataclass
class JointJog(IdlStruct, typename="control_msgs.msg.dds_.JointJog_"):
    header: Header
    joint_names: sequence[str]
    displacements: sequence[float64]
    velocities: sequence[float64]
    duration: float64


@dataclass
class JointTrajectoryPoint(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectoryPoint_"):
    positions: sequence[float64]
    velocities: sequence[float64]
    accelerations: sequence[float64]
    effort: sequence[float64]
    time_from_start: Duration


@dataclass
class JointTrajectory(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectory_"):
    header: Header
    joint_names: sequence[str]
    points: sequence[JointTrajectoryPoint]


@dataclass
class CompressedImage(IdlStruct, typename="sensor_msgs.msg.dds_.CompressedImage_"):
    header: Header
    format: str
    # On the wire as uint8[]: Cyclone's Python writes a list of bytes one by one, and takes a quarter of a second for 1 MB.
    data: str


@dataclass
class MultiArrayDimension(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayDimension_"):
    label: str
    size: uint32
    stride: uint32


@dataclass
class MultiArrayLayout(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayLayout_"):
    dim: sequence[MultiArrayDimension]
    data_offset: uint32


@dataclass
class Float64MultiArray(IdlStruct, typename="std_msgs.msg.dds_.Float64MultiArray_"):
    layout: MultiArrayLayout
    data: sequence[float64]
