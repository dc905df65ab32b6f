//! A session live, over a web socket that Foxglove and Lichtblick know (subprotocol `foxglove.sdk.v1`,
//! <https://github.com/foxglove/ws-protocol>): the topics of a recording. Clients look on: none can publish. What waits for one is bounded
//! in bytes; one that reads too slowly misses messages, which is counted and told to it, and holds nobody up.

mod client;
mod waiting;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use socket2::SockRef;
use taut_core::Duration;
use taut_session::{Channel, ChannelId};

use self::client::Client;
use self::waiting::Kind;
use super::NotShown;
use super::messages::Topic;
use crate::spawn_unprivileged;

/// Clients at most, and with them those that are not known to be any yet.
const CLIENTS: usize = 8;

/// How long a client may take for what.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For its request, all of it.
    request: Duration,
    /// It is asked so often whether it is there.
    ping: Duration,
    /// One that takes nothing for so long where something is to be sent, or answers nothing, has its place taken.
    silence: Duration,
}

impl Patience {
    const USUAL: Self = Self {
        request: Duration::from_secs(2),
        ping: Duration::from_secs(5),
        silence: Duration::from_secs(10),
    };
}

/// The server, and what it offers.
pub(super) struct View {
    topics: Vec<(Topic, Kind)>,
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    hello: [String; 2],
    channels: u32,
    /// Web pages of these may look on, beside those of this host.
    origins: Vec<String>,
    patience: Patience,
    /// As they are; whoever looks holds no lock while it waits for one of them.
    clients: Mutex<Arc<[Arc<Client>]>>,
    is_closed: AtomicBool,
}

impl View {
    /// Listens there. Its threads have no capabilities.
    pub(super) fn start(address: SocketAddr, origins: Vec<String>, declared: &[Channel]) -> io::Result<Self> {
        Self::with_patience(address, origins, declared, Patience::USUAL)
    }

    fn with_patience(
        address: SocketAddr,
        origins: Vec<String>,
        declared: &[Channel],
        patience: Patience,
    ) -> io::Result<Self> {
        let own = [Topic::OperatorState, Topic::RobotState, Topic::RoundTrip, Topic::Events];
        let own = own.into_iter().map(|topic| (topic, Kind::Each));
        let declared_topics = declared
            .iter()
            .enumerate()
            .map(|(number, channel)| (Topic::Channel(ChannelId(number as u8)), Kind::of(channel)));
        let topics: Vec<(Topic, Kind)> = own.chain(declared_topics).collect();
        let server = json!({ "op": "serverInfo", "name": "taut", "capabilities": [] });
        let shared = Arc::new(Shared {
            hello: [server, advertised(&topics, declared)].map(|text| text.to_string()),
            channels: topics.len() as u32,
            origins,
            patience,
            clients: Mutex::new(Arc::new([])),
            is_closed: AtomicBool::new(false),
        });
        let listener = TcpListener::bind(address)?;
        let (listening, offered) = (listener.try_clone()?, shared.clone());
        spawn_unprivileged("taut view", || (), move || accept(&listening, &offered))?;
        Ok(Self { topics, listener, shared })
    }

    #[cfg(test)]
    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn channel(&self, topic: Topic) -> Option<(u32, Kind)> {
        let place = self.topics.iter().position(|(known, _)| *known == topic)?;
        Some((place as u32, self.topics[place].1))
    }

    /// Does anybody look at this?
    pub(super) fn wants(&self, topic: Topic) -> bool {
        let Some((channel, _)) = self.channel(topic) else { return false };
        self.shared.clients().iter().any(|client| client.lock().wants(channel))
    }

    /// Gives what is left out for it, of all clients.
    pub(super) fn show(&self, topic: Topic, log_time: u64, payload: &Arc<Vec<u8>>) -> NotShown {
        let mut not_shown = NotShown::default();
        let Some(channel) = self.channel(topic) else { return not_shown };
        for client in self.shared.clients().iter() {
            not_shown.add(client.change(|waiting| waiting.message(channel, log_time, payload)));
        }
        not_shown
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        // Ends its thread (shutdown(2) of a listening socket on Linux).
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        self.shared.clients().iter().for_each(|client| client.change(|waiting| ((), waiting.close())));
    }
}

impl Shared {
    fn clients(&self) -> Arc<[Arc<Client>]> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One more, if there is a place.
    fn enter(&self, client: &Arc<Client>) -> bool {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let has_place = clients.len() < CLIENTS;
        if has_place {
            *clients = clients.iter().chain([client]).cloned().collect();
        }
        has_place
    }

    fn leave(&self, client: &Arc<Client>) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        *clients = clients.iter().filter(|other| !Arc::ptr_eq(other, client)).cloned().collect();
    }
}

/// What a client can subscribe to, by its place among the topics.
fn advertised(topics: &[(Topic, Kind)], declared: &[Channel]) -> serde_json::Value {
    let channels = topics.iter().enumerate().filter_map(|(place, (topic, _))| {
        let described = topic.described(declared)?;
        let mut channel = json!({
            "id": place,
            "topic": described.topic,
            "encoding": described.encoding,
            "schemaName": described.schema,
            // Texts all of them.
            "schema": String::from_utf8_lossy(&described.definition),
        });
        if !described.schema_encoding.is_empty() {
            channel["schemaEncoding"] = json!(described.schema_encoding);
        }
        if !described.metadata.is_empty() {
            channel["metadata"] = json!(described.metadata);
        }
        Some(channel)
    });
    json!({ "op": "advertise", "channels": channels.collect::<Vec<_>>() })
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_closed.load(Ordering::Relaxed) {
        let accepted = listener.accept().and_then(|(stream, _)| Ok((stream, Arc::new(Client::new()?))));
        let Ok((stream, client)) = accepted else {
            // Of files there are none left, for instance.
            std::thread::park_timeout(std::time::Duration::from_millis(100));
            continue;
        };
        if !shared.enter(&client) {
            continue;
        }
        let (known, left) = (shared.clone(), client.clone());
        let serving = move || {
            let _ = client::serve(stream, &known, &client);
            known.leave(&client);
            client.lock().clear();
        };
        if spawn_unprivileged("taut view", || (), serving).is_err() {
            shared.leave(&left);
        }
    }
}

#[cfg(test)]
mod tests;
