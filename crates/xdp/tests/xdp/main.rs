//! The program against its twin, and on devices in network namespaces. What needs root says `skipped: why` without it.
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "real packets take real time"))]

#[cfg(test)]
mod classify;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod twin;
#[cfg(test)]
mod veth;

#[cfg(test)]
use taut_xdp::{GateError, Program, VideoFilter};

/// `None`, with the reason printed, where no program can be loaded.
#[cfg(test)]
fn loaded(filters: &[VideoFilter]) -> Option<Program> {
    match Program::load(filters) {
        Ok(program) => Some(program),
        Err(error @ (GateError::NotBuilt | GateError::NotPermitted | GateError::NoXdp)) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
