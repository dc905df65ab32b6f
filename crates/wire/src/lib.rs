//! The bytes of taut's protocols: named field ranges, checked zero-copy views, and representations that parse and emit.
//!
//! Every format here refuses what it does not understand with an error that says what was wrong, and never panics on
//! any input.

pub mod dccp;
pub mod etp;
pub mod ivf;
pub mod mtip;
pub mod omni71;
pub mod proxy;
pub mod rtp;
pub mod session;
pub mod tcp;
