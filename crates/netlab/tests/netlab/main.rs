//! Scenarios and links over real sockets, in namespaces of their own.
#![expect(clippy::disallowed_methods, reason = "tests wait for real time")]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod cross;
mod emulator;
