//! A session live, over a web socket that Foxglove and Lichtblick know (subprotocol `foxglove.sdk.v1`): the topics of a recording.
//! Clients look on: none can publish. One that reads too slowly misses messages, and holds nobody up.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use foxglove::{ChannelBuilder, Context, FoxgloveError, PartialMetadata, RawChannel, WebSocketServerHandle};
use taut_session::{Channel, ChannelId};

use super::messages::{Described, Topic};

/// Messages that wait for one client, at most: a quarter of a second's at 1 kHz.
const BACKLOG: usize = 1_024;

/// The server, and what it offers.
pub(super) struct View {
    server: Option<WebSocketServerHandle>,
    channels: BTreeMap<Topic, Arc<RawChannel>>,
    /// Without it channels lead nowhere.
    _context: Arc<Context>,
}

impl View {
    /// Listens there. Its threads have what capabilities the calling one has.
    pub(super) fn start(address: SocketAddr, declared: &[Channel]) -> io::Result<Self> {
        let context = Context::new();
        let own = [Topic::OperatorState, Topic::RobotState, Topic::RoundTrip, Topic::Events];
        let declared_topics = (0..declared.len()).map(|number| Topic::Channel(ChannelId(number as u8)));
        let mut channels = BTreeMap::new();
        for topic in own.into_iter().chain(declared_topics) {
            let Some(described) = topic.described(declared) else { continue };
            channels.insert(topic, channel(&context, described).map_err(io_error)?);
        }
        let server = context
            .websocket_server()
            .name("taut")
            .bind(address.ip().to_string(), address.port())
            .message_backlog_size(BACKLOG)
            .start_blocking()
            .map_err(io_error)?;
        Ok(Self { server: Some(server), channels, _context: context })
    }

    /// Does anybody look at this?
    pub(super) fn wants(&self, topic: Topic) -> bool {
        self.channels.get(&topic).is_some_and(|channel| channel.has_sinks())
    }

    pub(super) fn show(&self, topic: Topic, log_time: u64, bytes: &[u8]) {
        if let Some(channel) = self.channels.get(&topic) {
            channel.log_with_meta(bytes, PartialMetadata::with_log_time(log_time));
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            drop(server.stop());
        }
    }
}

fn channel(context: &Arc<Context>, described: Described) -> Result<Arc<RawChannel>, FoxgloveError> {
    let Described { topic, schema, schema_encoding, definition, encoding, metadata } = described;
    let schema = foxglove::Schema::new(schema, schema_encoding, definition);
    let channel = ChannelBuilder::new(topic).context(context).message_encoding(encoding);
    channel.schema(schema).metadata(metadata).build_raw()
}

fn io_error(error: FoxgloveError) -> io::Error {
    match error {
        FoxgloveError::Bind(error) | FoxgloveError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
