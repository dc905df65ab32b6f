//! DCCP between two endpoints in virtual time.

mod connection;
mod flow;
mod harness;
mod hostile;
mod tshark;
