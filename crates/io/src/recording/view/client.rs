//! One that looks on. Its thread alone reads and writes its socket, through the library (RFC 6455), and waits for both and for what is to
//! be shown at once.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};
use socket2::SockRef;
use taut_core::{Duration, Time};
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::{HeaderValue, StatusCode};
use tungstenite::protocol::{Message, WebSocketConfig};
use tungstenite::{Error, WebSocket};

use super::waiting::{self, Waiting};
use super::{Patience, Shared};
use crate::Clock;
use crate::clock::timespec;
use crate::recording::NotShown;
use crate::wakeup::Wakeup;

const PROTOCOL: &str = "foxglove.sdk.v1";
/// Foxglove where it is a web page.
const FOXGLOVE: &str = "https://app.foxglove.dev";
/// Bytes that a client can say in one message: subscriptions of all channels are a tenth of it.
const LONGEST: usize = 32 << 10;
/// Messages of a client that are read before what waits for it goes on.
const READ: usize = 16;
/// What the kernel keeps for a client, beside what waits here.
const SEND_BUFFER: usize = 256 << 10;
/// Short messages go out together, so often and so many bytes at a time: nobody's eyes are faster.
const TOGETHER: Duration = Duration::from_millis(10);
const BATCH: usize = 64 << 10;
/// Between two times that a client is told what it misses, at least.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Between the thread that records and the client's own.
pub(super) struct Client {
    /// Held to look and to move messages, never to parse or to write anything.
    waiting: Mutex<Waiting>,
    /// Wakes the client's thread.
    wakeup: Wakeup,
}

impl Client {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { waiting: Mutex::new(Waiting::new()), wakeup: Wakeup::new()? })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change after which its thread may have to wake.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Waiting) -> (R, bool)) -> R {
        let (changed, wakes) = change(&mut self.lock());
        if wakes {
            self.wakeup.wake();
        }
        changed
    }
}

/// The client's socket, and how much it took.
struct Socket {
    stream: TcpStream,
    taken: u64,
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.stream.write(bytes)?;
        self.taken += count as u64;
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves whoever speaks the protocol, and is no web page of strangers.
#[derive(Clone, Copy)]
struct Speaks<'a> {
    origins: &'a [String],
}

impl Callback for Speaks<'_> {
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let refused = |status, why| {
            let mut refused = ErrorResponse::new(Some(why));
            *refused.status_mut() = status;
            refused
        };
        for origin in request.headers().get_all("origin") {
            if !origin.to_str().is_ok_and(|origin| may_look(origin, self.origins)) {
                let why = "pages of this origin may not look on here: --view-origin lets them\n";
                return Err(refused(StatusCode::FORBIDDEN, why.to_owned()));
            }
        }
        let offered = request.headers().get_all("sec-websocket-protocol").iter();
        let mut offered = offered.filter_map(|header| header.to_str().ok()).flat_map(|list| list.split(','));
        if !offered.any(|name| name.trim() == PROTOCOL) {
            return Err(refused(StatusCode::BAD_REQUEST, format!("here is spoken {PROTOCOL}\n")));
        }
        response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(PROTOCOL));
        Ok(response)
    }
}

/// May a page of this origin (RFC 6454) look on? Programs send none, or one of a scheme of their own, such as `file://`. `null` is
/// any page's that hides where it is from.
fn may_look(origin: &str, listed: &[String]) -> bool {
    let listed = listed.iter().map(String::as_str);
    if listed.chain([FOXGLOVE]).any(|listed| origin.eq_ignore_ascii_case(listed)) {
        return true;
    }
    match origin.split_once("://") {
        Some(("http" | "https", host)) => {
            let name =
                host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
            matches!(name.map_or(host, |(name, _)| name), "localhost" | "127.0.0.1" | "[::1]")
        }
        Some((scheme, _)) => !scheme.is_empty(),
        None => false,
    }
}

/// Waits for the socket, or to be woken.
fn wait(stream: &TcpStream, flags: PollFlags, wakeup: Option<&Wakeup>, left: Duration) -> io::Result<()> {
    let mut fds = vec![PollFd::new(stream, flags)];
    fds.extend(wakeup.map(|wakeup| PollFd::new(&wakeup.0, PollFlags::IN)));
    match poll(&mut fds, Some(&timespec(left))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The request, and the answer to it.
fn shake(stream: TcpStream, shared: &Shared) -> io::Result<WebSocket<Socket>> {
    let due = Clock::since_boot() + shared.patience.request;
    let waits_on = stream.try_clone()?;
    // All that is written waits in one buffer, which nothing but a flush empties: what is put there is bounded here.
    let config = WebSocketConfig::default()
        .read_buffer_size(4 << 10)
        .write_buffer_size(usize::MAX - 1)
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST));
    let speaks = Speaks { origins: &shared.origins };
    let socket = Socket { stream, taken: 0 };
    let mut shaken = tungstenite::accept_hdr_with_config(socket, speaks, Some(config));
    loop {
        match shaken {
            Ok(web) => return Ok(web),
            Err(HandshakeError::Failure(_)) => return Err(io::ErrorKind::InvalidData.into()),
            Err(HandshakeError::Interrupted(begun)) => {
                let left = due.saturating_since(Clock::since_boot());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                // The answer is short: it finds a place at once.
                wait(&waits_on, PollFlags::IN, None, left)?;
                shaken = begun.handshake();
            }
        }
    }
}

/// Until the end, or until the client is gone or does nothing any more.
pub(super) fn serve(stream: TcpStream, shared: &Shared, client: &Client) -> Result<(), Error> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER)?;
    let waits_on = stream.try_clone()?;
    let mut web = shake(stream, shared)?;
    for text in &shared.hello {
        put(&mut web, Message::text(text.as_str()))?;
    }
    if shared.is_closed.load(Ordering::Relaxed) {
        client.lock().close();
    }
    let served = Serving::new(web, client, shared).run(&waits_on);
    let _ = waits_on.shutdown(Shutdown::Both);
    served
}

/// Puts it behind what waits to be written. What cannot be written now stays there.
fn put(web: &mut WebSocket<Socket>, message: Message) -> Result<(), Error> {
    unless_it_blocks(web.write(message))
}

fn unless_it_blocks(written: Result<(), Error>) -> Result<(), Error> {
    match written {
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        written => written,
    }
}

struct Serving<'a> {
    web: WebSocket<Socket>,
    client: &'a Client,
    channels: u32,
    patience: Patience,
    /// When it last said or took something, and whether it owes an answer since.
    alive: Time,
    owes: bool,
    next_ping: Time,
    next_batch: Time,
    /// What it takes nothing of at the moment.
    is_blocked: bool,
    /// It took nothing at some time since it was told what it misses.
    was_blocked: bool,
    told: NotShown,
    next_told: Time,
}

impl<'a> Serving<'a> {
    fn new(web: WebSocket<Socket>, client: &'a Client, shared: &Shared) -> Self {
        let now = Clock::since_boot();
        Self {
            web,
            client,
            channels: shared.channels,
            patience: shared.patience,
            alive: now,
            owes: false,
            next_ping: now + shared.patience.ping,
            next_batch: now,
            is_blocked: false,
            was_blocked: false,
            told: NotShown::default(),
            next_told: now,
        }
    }

    fn run(mut self, stream: &TcpStream) -> Result<(), Error> {
        loop {
            let has_more = self.read()?;
            let now = Clock::since_boot();
            self.ask(now)?;
            self.write(now)?;
            self.flush(now)?;
            if (self.owes || self.is_blocked) && now.saturating_since(self.alive) >= self.patience.silence {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            if !has_more {
                self.sleep(stream)?;
            }
        }
    }

    /// What the client says; is there perhaps more? One that takes nothing is not heard: it would be answered.
    fn read(&mut self) -> Result<bool, Error> {
        if self.is_blocked {
            return Ok(false);
        }
        for _ in 0..READ {
            let message = match self.web.read() {
                Ok(message) => message,
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            // At the end nothing counts but the end.
            if self.web.can_write() {
                (self.alive, self.owes) = (Clock::since_boot(), false);
            }
            let wrong = match message {
                Message::Text(text) => match Said::read(&text, self.channels) {
                    Ok(said) => said.apply(&mut self.client.lock()),
                    Err(why) => Some(why),
                },
                Message::Binary(_) => Some(LOOKS_ON.to_owned()),
                // Those the library answers, also the end.
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => None,
            };
            if let Some(why) = wrong.filter(|_| self.web.can_write()) {
                put(&mut self.web, status(2, &why))?;
            }
        }
        Ok(true)
    }

    /// Is it there?
    fn ask(&mut self, now: Time) -> Result<(), Error> {
        if now < self.next_ping || self.owes || self.is_blocked || !self.web.can_write() {
            return Ok(());
        }
        put(&mut self.web, Message::Ping(Default::default()))?;
        (self.owes, self.alive) = (true, now);
        self.next_ping = now + self.patience.ping;
        Ok(())
    }

    /// Puts what waits behind what went, if all of that went.
    fn write(&mut self, now: Time) -> Result<(), Error> {
        if self.is_blocked || !self.web.can_write() {
            return Ok(());
        }
        if now < self.next_batch && self.client.lock().sleep(BATCH) {
            return Ok(());
        }
        let (batch, is_over, not_shown) = {
            let mut waiting = self.client.lock();
            (waiting.take(BATCH), waiting.is_over(), waiting.not_shown())
        };
        let bytes: usize = batch.iter().map(waiting::Message::len).sum();
        if !batch.is_empty() && bytes < BATCH {
            self.next_batch = now + TOGETHER;
        }
        for message in &batch {
            put(&mut self.web, Message::binary(message.data()))?;
        }
        if not_shown != self.told && now >= self.next_told {
            put(&mut self.web, status(1, &misses(not_shown, self.was_blocked)))?;
            (self.told, self.next_told, self.was_blocked) = (not_shown, now + STATUS_INTERVAL, false);
        }
        if is_over {
            // Its answer is waited for as any other.
            (self.owes, self.alive) = (true, now);
            unless_it_blocks(self.web.close(None))?;
        }
        Ok(())
    }

    fn flush(&mut self, now: Time) -> Result<(), Error> {
        let before = self.web.get_ref().taken;
        let flushed = self.web.flush();
        if self.is_blocked && self.web.get_ref().taken > before {
            self.alive = now;
        }
        let is_blocked = match flushed {
            Ok(()) => false,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => return Err(error),
        };
        if is_blocked && !self.is_blocked {
            self.alive = now;
        }
        if is_blocked != self.is_blocked {
            self.client.lock().blocked(is_blocked);
        }
        (self.is_blocked, self.was_blocked) = (is_blocked, self.was_blocked || is_blocked);
        Ok(())
    }

    /// Waits until there is something to do.
    fn sleep(&mut self, stream: &TcpStream) -> Result<(), Error> {
        let now = Clock::since_boot();
        let mut until =
            if self.owes || self.is_blocked { self.alive + self.patience.silence } else { self.next_ping };
        let (mut flags, mut wakeup) = (PollFlags::IN, None);
        if self.is_blocked {
            flags = PollFlags::OUT;
        } else if self.web.can_write() {
            let pauses = now < self.next_batch;
            let mut waiting = self.client.lock();
            if !waiting.sleep(if pauses { BATCH } else { 0 }) {
                return Ok(());
            }
            if waiting.not_shown() != self.told {
                until = until.min(self.next_told.max(self.next_batch));
            }
            if pauses {
                until = until.min(self.next_batch);
            }
            wakeup = Some(&self.client.wakeup);
        }
        wait(stream, flags, wakeup, until.saturating_since(now))?;
        wakeup.inspect(|wakeup| wakeup.acknowledge());
        Ok(())
    }
}

const LOOKS_ON: &str = "clients look on here: they subscribe and unsubscribe, and nothing else";

/// What a client says.
enum Said {
    /// Channels and the client's numbers for them, and what is none.
    Subscribe(Vec<(u32, u32)>, Option<String>),
    Unsubscribe(BTreeSet<u32>),
}

impl Said {
    fn read(text: &str, channels: u32) -> Result<Self, String> {
        let said: Value = serde_json::from_str(text).unwrap_or_default();
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let list = |key: &str| {
            let list = said[key].as_array().map_or(&[][..], Vec::as_slice);
            let fits = list.len() <= channels as usize;
            if fits {
                Ok(list)
            } else {
                Err(format!("{key}: there are {channels} channels, and these are more"))
            }
        };
        match said["op"].as_str() {
            Some("subscribe") => {
                let (mut known, mut wrong) = (Vec::new(), None);
                for one in list("subscriptions")? {
                    match (number(&one["id"]), number(&one["channelId"])) {
                        (Some(id), Some(channel)) if channel < channels => known.push((channel, id)),
                        (_, channel) => wrong = Some(format!("there is no such channel: {channel:?}")),
                    }
                }
                Ok(Self::Subscribe(known, wrong))
            }
            Some("unsubscribe") => {
                Ok(Self::Unsubscribe(list("subscriptionIds")?.iter().filter_map(number).collect()))
            }
            _ => Err(LOOKS_ON.to_owned()),
        }
    }

    /// Gives what was wrong.
    fn apply(self, waiting: &mut Waiting) -> Option<String> {
        match self {
            Self::Subscribe(known, wrong) => {
                known.into_iter().for_each(|(channel, id)| waiting.subscribe(channel, id));
                wrong
            }
            Self::Unsubscribe(ids) => {
                waiting.unsubscribe(&ids);
                None
            }
        }
    }
}

/// Of level 1, a warning, or 2, an error.
fn status(level: u8, text: &str) -> Message {
    Message::text(json!({ "op": "status", "level": level, "message": text }).to_string())
}

/// What a client misses, and whose doing that is.
fn misses(not_shown: NotShown, was_blocked: bool) -> String {
    let NotShown { superseded, behind, without_reference } = not_shown;
    let why = if was_blocked { "this program reads too slowly" } else { "more came at once than may wait" };
    format!(
        "{why}: of what it subscribed to, {superseded} messages were superseded by newer ones, {behind} fell behind and \
         {without_reference} pictures refer to one that did"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_strangers_may_not_look_on() {
        let listed = ["https://viewer.example".to_owned()];
        for may in [
            "file://",
            "https://app.foxglove.dev",
            "http://localhost:8080",
            "http://127.0.0.1",
            "https://[::1]:8443",
            "http://[::1]",
            "https://viewer.example",
        ] {
            assert!(may_look(may, &listed), "{may}");
        }
        for may_not in [
            "null",
            "",
            "https://evil.example",
            "http://viewer.example",
            "https://viewer.example:444",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example:80",
            "http://[::1",
            "https://app.foxglove.dev.evil.example",
        ] {
            assert!(!may_look(may_not, &listed), "{may_not}");
        }
    }
}
