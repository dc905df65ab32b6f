//! Both agents in virtual time, over a network that can be cut.

mod channels;
mod devices;
mod leaving;
mod links;
mod resuming;
mod world;
