//! A session live, over a web socket that Foxglove and Lichtblick know (subprotocol `foxglove.sdk.v1`,
//! <https://github.com/foxglove/ws-protocol>): the topics of a recording. Clients look on: none can publish. What waits for one is bounded
//! in bytes; one that reads too slowly misses messages, which is counted and told to it, and holds nobody up.

mod waiting;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::SockRef;
use taut_session::{Channel, ChannelId};
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::{HeaderValue, StatusCode};
use tungstenite::protocol::{Message, WebSocketConfig};

use self::waiting::{Out, Waiting};
use super::NotShown;
use super::messages::Topic;
use crate::{Clock, spawn_unprivileged};

const PROTOCOL: &str = "foxglove.sdk.v1";
/// Clients at most, and with them those that are not known to be any yet.
const CLIENTS: usize = 8;
/// A client has so long for its request.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// One that takes nothing for so long has its place taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that a client can say in one message: subscriptions of all channels are a tenth of it.
const LONGEST: usize = 256 << 10;
/// What the kernel keeps for a client, beside what waits here.
const KERNEL: usize = 256 << 10;
/// Short messages go out together, so often and so many bytes at a time: nobody's eyes are faster.
const TOGETHER: Duration = Duration::from_millis(10);
const BATCH: usize = 64 << 10;
/// A client is told so seldom what it misses.
const TOLD: taut_core::Duration = taut_core::Duration::from_secs(1);

/// The server, and what it offers.
pub(super) struct View {
    topics: Vec<Topic>,
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    hello: [Arc<str>; 2],
    channels: u32,
    clients: Mutex<Vec<Arc<Client>>>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Client {
    waiting: Mutex<Waiting>,
    something: Condvar,
}

impl View {
    /// Listens there. Its threads have no capabilities.
    pub(super) fn start(address: SocketAddr, declared: &[Channel]) -> io::Result<Self> {
        let own = [Topic::OperatorState, Topic::RobotState, Topic::RoundTrip, Topic::Events];
        let declared_topics = (0..declared.len()).map(|number| Topic::Channel(ChannelId(number as u8)));
        let topics: Vec<Topic> = own.into_iter().chain(declared_topics).collect();
        let channels = topics.iter().enumerate().filter_map(|(place, topic)| {
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
        let advertised = json!({ "op": "advertise", "channels": channels.collect::<Vec<_>>() });
        let server = json!({ "op": "serverInfo", "name": "taut", "capabilities": [] });
        let shared = Arc::new(Shared {
            hello: [server, advertised].map(|text| text.to_string().into()),
            channels: topics.len() as u32,
            clients: Mutex::default(),
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

    fn channel(&self, topic: Topic) -> Option<u32> {
        self.topics.iter().position(|known| *known == topic).map(|place| place as u32)
    }

    /// Does anybody look at this?
    pub(super) fn wants(&self, topic: Topic) -> bool {
        let Some(channel) = self.channel(topic) else { return false };
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
        self.shared.clients().iter().for_each(|client| client.change(Waiting::close));
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut Waiting) -> R) -> R {
        let changed = change(&mut self.lock());
        self.something.notify_one();
        changed
    }

    /// Waits for something to send; gives as much as goes out together.
    fn take(&self) -> Vec<Out> {
        let waiting = self.lock();
        let (mut out, mut bytes) = (Vec::new(), 0);
        let mut first = None;
        let mut waiting = self
            .something
            .wait_while(waiting, |waiting| {
                first = waiting.take();
                first.is_none()
            })
            .unwrap_or_else(PoisonError::into_inner);
        let mut next = first;
        while let Some(one) = next {
            bytes += one.payload().len();
            let is_last = one == Out::Close || bytes >= BATCH;
            out.push(one);
            next = if is_last { None } else { waiting.take() };
        }
        out
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_closed.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            // Of files there are none left, for instance.
            std::thread::park_timeout(Duration::from_millis(100));
            continue;
        };
        let client = Arc::new(Client::default());
        let mut clients = shared.clients();
        if clients.len() == CLIENTS {
            continue;
        }
        clients.push(client.clone());
        drop(clients);
        let (known, left) = (shared.clone(), client.clone());
        let serving = move || {
            let _ = converse(stream, &known, &client);
            known.clients().retain(|other| !Arc::ptr_eq(other, &client));
            client.change(Waiting::clear);
        };
        if spawn_unprivileged("taut view", || (), serving).is_err() {
            shared.clients().retain(|other| !Arc::ptr_eq(other, &left));
        }
    }
}

/// What is read from a client. After the handshake another thread writes to it, and no answer of the library's comes in between.
struct Reading {
    stream: TcpStream,
    is_silent: bool,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Reading {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_silent { Ok(bytes.len()) } else { self.stream.write(bytes) }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves whoever speaks the protocol.
struct Speaks;

impl Callback for Speaks {
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let offered = request.headers().get_all("sec-websocket-protocol").iter();
        let mut offered = offered.filter_map(|header| header.to_str().ok()).flat_map(|list| list.split(','));
        if offered.any(|name| name.trim() == PROTOCOL) {
            response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(PROTOCOL));
            return Ok(response);
        }
        let mut refused = ErrorResponse::new(Some(format!("here is spoken {PROTOCOL}\n")));
        *refused.status_mut() = StatusCode::BAD_REQUEST;
        Err(refused)
    }
}

fn converse(stream: TcpStream, shared: &Shared, client: &Arc<Client>) -> io::Result<()> {
    stream.set_read_timeout(Some(HANDSHAKE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_send_buffer_size(KERNEL)?;
    let config = WebSocketConfig::default().max_message_size(Some(LONGEST)).max_frame_size(Some(LONGEST));
    let reading = Reading { stream: stream.try_clone()?, is_silent: false };
    let mut reading = tungstenite::accept_hdr_with_config(reading, Speaks, Some(config))
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    reading.get_mut().is_silent = true;
    stream.set_read_timeout(None)?;
    *client.lock() = Waiting::new(shared.hello.clone());
    if shared.is_closed.load(Ordering::Relaxed) {
        client.lock().close();
    }
    let (writing, sent) = (stream.try_clone()?, client.clone());
    spawn_unprivileged(
        "taut view",
        || (),
        move || {
            let _ = write_to(&writing, &sent);
            // Its reader ends by that.
            let _ = writing.shutdown(Shutdown::Both);
        },
    )?;
    while let Ok(message) = reading.read() {
        match message {
            Message::Text(text) => client.change(|waiting| take(waiting, shared.channels, &text)),
            Message::Binary(_) => client.change(|waiting| waiting.status(status(2, LOOKS_ON))),
            Message::Ping(bytes) => client.change(|waiting| waiting.pong(bytes.to_vec())),
            Message::Close(_) => break,
            Message::Pong(_) | Message::Frame(_) => {}
        }
    }
    stream.shutdown(Shutdown::Both)
}

const LOOKS_ON: &str = "clients look on here: they subscribe and unsubscribe, and nothing else";

/// Of level 1, a warning, or 2, an error.
fn status(level: u8, text: &str) -> Arc<str> {
    json!({ "op": "status", "level": level, "message": text }).to_string().into()
}

/// What a client says.
fn take(waiting: &mut Waiting, channels: u32, text: &str) {
    let said: Value = serde_json::from_str(text).unwrap_or_default();
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let list = |key: &str| said[key].as_array().map_or(&[][..], Vec::as_slice);
    match said["op"].as_str() {
        Some("subscribe") => {
            for one in list("subscriptions") {
                match (number(&one["id"]), number(&one["channelId"])) {
                    (Some(id), Some(channel)) if channel < channels => waiting.subscribe(channel, id),
                    _ => waiting.status(status(2, &format!("there is no such channel: {one}"))),
                }
            }
        }
        Some("unsubscribe") => {
            list("subscriptionIds").iter().filter_map(number).for_each(|id| waiting.unsubscribe(id));
        }
        _ => waiting.status(status(2, LOOKS_ON)),
    }
}

/// Until the end, or until the client takes nothing any more.
fn write_to(mut stream: &TcpStream, client: &Client) -> io::Result<()> {
    let (mut told, mut next_told) = (NotShown::default(), Clock::since_boot());
    loop {
        let batch = client.take();
        let mut bytes = Vec::new();
        for out in &batch {
            bytes.extend(out.head());
            if out.payload().len() >= BATCH {
                stream.write_all(&bytes)?;
                bytes.clear();
                stream.write_all(out.payload())?;
            } else {
                bytes.extend_from_slice(out.payload());
            }
        }
        stream.write_all(&bytes)?;
        if batch.last() == Some(&Out::Close) {
            return Ok(());
        }
        drop(batch);
        let (not_shown, now) = (client.lock().not_shown(), Clock::since_boot());
        if not_shown != told && now >= next_told {
            let NotShown { superseded, behind } = not_shown;
            let text = format!(
                "this program reads too slowly: of what it subscribed to, {superseded} pictures were superseded by newer ones and \
                 {behind} messages fell behind"
            );
            client.lock().status(status(1, &text));
            (told, next_told) = (not_shown, now + TOLD);
        }
        std::thread::park_timeout(TOGETHER);
    }
}

#[cfg(test)]
mod tests;
