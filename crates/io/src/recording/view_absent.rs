//! What is left of the live view where it was not built.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use taut_session::Channel;

use super::NotShown;
use super::messages::Topic;

/// There is none.
pub(super) enum View {}

impl View {
    pub(super) fn start(_: SocketAddr, _: Vec<String>, _: &[Channel]) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn wants(&self, _: Topic) -> bool {
        match *self {}
    }

    pub(super) fn show(&self, _: Topic, _: u64, _: &Arc<Vec<u8>>) -> NotShown {
        match *self {}
    }
}
