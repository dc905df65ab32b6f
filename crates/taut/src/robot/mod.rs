//! The end that moves.

mod builder;
mod event;
mod machine;
#[cfg(feature = "sockets")]
mod running;

pub use self::builder::RobotBuilder;
pub use self::event::RobotEvent;
pub use self::machine::RobotMachine;
#[cfg(feature = "sockets")]
pub use self::running::Robot;
