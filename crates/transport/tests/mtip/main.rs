//! MTIP between two endpoints with several paths, in virtual time.

mod flow;
mod harness;
mod hostile;
mod lateness;
mod measured;
mod paths;
mod recording;
mod reliable;
