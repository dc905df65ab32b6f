//! The TCP model between two endpoints in virtual time. Each test names the rule that it holds the model to.

mod congestion;
mod connection;
mod harness;
mod hostile;
mod messages;
mod rack;
mod recovery;
mod speed;
