//! Who connects to a listener.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// After one that could not be accepted: there is no descriptor left, and may be one later.
const AGAIN: Duration = Duration::from_millis(100);

/// Connections as they come, for ever. What cannot be accepted costs no more than a look now and then.
pub fn connections(listener: &TcpListener) -> impl Iterator<Item = TcpStream> {
    listener.incoming().filter_map(|stream| stream.inspect_err(|_| std::thread::park_timeout(AGAIN)).ok())
}
