#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod body;
mod channel;
mod common;
mod coupled;
mod device;
mod error;
mod handle;
mod host;
mod identity;
mod limits;
mod message;
mod motion;
mod operator;
mod port;
mod queue;
#[cfg(all(feature = "sockets", feature = "recording"))]
mod recorded;
#[cfg(all(feature = "sockets", not(feature = "recording")))]
#[path = "recorded_absent.rs"]
mod recorded;
mod robot;
#[cfg(feature = "sockets")]
mod running;
mod sampling;
mod status;
mod time;

pub use channel::{Channel, Delivery, Playout, Repair};
pub use device::{FnDevice, OperatorDevice, RobotDevice, robot_device};
pub use error::{Error, RecvError, SendError};
pub use handle::{Events, Receiver, Sender};
pub use identity::{Fingerprint, Identity};
pub use limits::{GripperLimits, JointLimits, StateLimits, TwistLimits};
#[cfg(feature = "json")]
pub use message::Json;
pub use message::{Encoding, Failure, Message, Schema};
pub use motion::{Gripper, Joints, Motion, State, Turning, Twist};
#[cfg(feature = "sockets")]
pub use operator::Operator;
pub use operator::{OperatorBuilder, OperatorEvent, OperatorMachine};
#[cfg(feature = "sockets")]
pub use robot::Robot;
pub use robot::{RobotBuilder, RobotEvent, RobotMachine};
pub use sampling::{Deadband, Quantity, Sampling};
pub use status::{ChannelStatus, RobotState, Status, StopCause};
pub use taut_agent::{Control, ControlError};
