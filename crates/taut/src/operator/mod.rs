//! The end with the hand.

mod builder;
mod event;
mod hand;
mod machine;
#[cfg(feature = "sockets")]
mod running;

pub use self::builder::OperatorBuilder;
pub use self::event::OperatorEvent;
pub(crate) use self::hand::Hand;
pub use self::machine::OperatorMachine;
#[cfg(feature = "sockets")]
pub use self::running::Operator;
