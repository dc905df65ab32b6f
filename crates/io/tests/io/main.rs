//! Real sockets on loopback, and in namespaces of their own where the system allows it.
#![expect(clippy::disallowed_methods, reason = "tests wait for real time")]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod addresses;
mod channels;
mod dccp;
mod devices;
mod driver;
mod ending;
mod flood;
mod hostile;
mod interop;
mod machines;
mod paths;
mod proxy;
mod reconnecting;
mod stale;
mod stale_sockets;
mod strangers;
mod switching;
mod tcp;
mod wireshark;
