//! CCID 3, TFRC (RFC 4342, RFC 5348): a rate from an equation.

mod equation;
mod loss;
mod receiver;
mod sender;

pub(super) use receiver::{Ccid3Receiver, DataPacket};
pub(super) use sender::{Ccid3, Feedback};
