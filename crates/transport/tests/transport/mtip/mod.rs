//! MTIP between two endpoints with several paths, in virtual time.

mod answers;
mod flow;
mod harness;
mod hostile;
mod lateness;
mod measured;
mod paths;
mod published;
mod recording;
mod reliable;
mod unseen;
