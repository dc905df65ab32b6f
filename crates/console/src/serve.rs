//! The threads of pages: one that reads and one that writes, each, and what pages are served; WebSockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};

use serde_json::json;
use taut_agent::Alarm;
use taut_core::{Duration, Time};
use taut_io::device::Pressed;
use taut_io::{Clock, connections, fall_back, outrank, spawn_unprivileged, stand_back};
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Message, Role, WebSocket, WebSocketConfig};

use crate::assets::asset;
use crate::frame::{self, FromPage};
use crate::gate::{Asked, PROTOCOL, REQUEST};
use crate::outbox::{Closed, Due, Mailbox};
use crate::page::{Carrier, Conversation, write_to};
use crate::seat::{ABSENT, PageId};
use crate::{Choice, Elsewhere, Offer, PAGES, STANDING, Shared, State, UNTOLD};

/// Whoever asks has so long for a request, and to read each part of an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Connections at most that fetch files, or are not known to be pages yet: pages have their own places.
pub(crate) const CONNECTIONS: usize = 16;
/// A reset or a resume that was pressed longer ago does not count.
const MEANT: Duration = Duration::from_secs(1);
/// A page or an aside that said nothing for longer keeps no other from its place: a page pings twice a second.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// Asides at most, each to stop the robot and for nothing else.
const ASIDES: usize = 8;

/// A connection that has shown the token, and what came behind its request.
struct Page {
    stream: TcpStream,
    rest: Vec<u8>,
    /// It stops the robot, where the way of its page is dead, and does nothing else.
    aside: bool,
}

/// Serves pages. What reads from those that know the token outranks the calling thread, which is the session's, for a stop may come from there: the thread that starts
/// these asks for that, while the session may, and they inherit it. Whoever else connects is any program of this host, and is served as any other is.
pub(crate) fn start(
    listener: TcpListener,
    elsewhere: Option<Elsewhere>,
    shared: Arc<Shared>,
) -> io::Result<()> {
    let site = Arc::new(Site::new(elsewhere.as_ref()));
    if let Some(Elsewhere { serve, .. }) = elsewhere {
        serve(shared.clone())?;
    }
    let (known, pages) = sync_channel::<Page>(PAGES);
    let at_pages = shared.clone();
    let begin = move || {
        for Page { stream, rest, aside } in pages {
            let shared = at_pages.clone();
            // Where there is no thread left, the page is closed.
            let converse = move || drop(converse(stream, rest, aside, &shared));
            let _ = spawn_unprivileged("taut console", || (), converse);
        }
    };
    spawn_unprivileged("taut console", outrank, begin)?;
    let accept = move || {
        let open = Arc::new(AtomicUsize::new(0));
        for stream in connections(&listener) {
            if open.load(Ordering::Relaxed) == CONNECTIONS {
                continue;
            }
            let (shared, site, known, one) = (shared.clone(), site.clone(), known.clone(), Open::new(&open));
            let serve = move || {
                if let Ok(Some(page)) = serve(stream, &shared, &site) {
                    let _ = known.try_send(page); // Of more than there may be at a time the last is closed.
                }
                drop(one);
            };
            let _ = spawn_unprivileged("taut strangers", || (), serve);
        }
    };
    spawn_unprivileged("taut strangers", stand_back, accept).map(drop)
}

/// Counts a connection while it is there.
pub(crate) struct Open(Arc<AtomicUsize>);

impl Open {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is served of a console besides its files.
struct Site {
    /// Where else a page may speak with it, JSON: `null` or [`Elsewhere::about`].
    elsewhere: String,
    /// A page can load and reach nothing but what is served here, and nobody can put it into a page of their own.
    policy: String,
}

impl Site {
    fn new(elsewhere: Option<&Elsewhere>) -> Self {
        let (about, origin) =
            elsewhere.map_or(("null", ""), |elsewhere| (&elsewhere.about, &elsewhere.origin));
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {origin}; worker-src 'self'; \
             img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self { elsewhere: about.to_owned(), policy }
    }

    fn answer(&self, stream: &mut TcpStream, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
        let (policy, length) = (&self.policy, body.len());
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nContent-Security-Policy: {policy}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n\
             Cross-Origin-Embedder-Policy: require-corp\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat())
    }
}

/// Answers what is asked. `Some`: a page asks, and is to be spoken with.
fn serve(mut stream: TcpStream, shared: &Shared, site: &Site) -> io::Result<Option<Page>> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE.into()))?;
    let (head, rest) = read_head(&mut stream)?;
    match shared.gate.check(&head) {
        Ok(Asked::Session { key, aside }) => {
            let key = derive_accept_key(key.as_bytes());
            write!(
                stream,
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {key}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
            )?;
            stream.set_read_timeout(None)?;
            return Ok(Some(Page { stream, rest, aside }));
        }
        Ok(Asked::File(path)) if path == "/elsewhere" => {
            site.answer(&mut stream, "200 OK", "application/json", site.elsewhere.as_bytes())?;
        }
        Ok(Asked::File(path)) => match asset(&path) {
            Some((kind, body)) => site.answer(&mut stream, "200 OK", kind, body)?,
            None => site.answer(&mut stream, "404 Not Found", "text/plain", b"there is no such file\n")?,
        },
        Err(refused) => {
            let (status, why) = refused.answer();
            site.answer(&mut stream, status, "text/plain", format!("{why}\n").as_bytes())?;
        }
    }
    Ok(None)
}

/// A request up to its empty line, and what came behind it.
fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let due = Clock::since_boot() + PATIENCE;
    loop {
        let left = due.saturating_since(Clock::since_boot());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.into()))?;
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).map_err(|_| io::ErrorKind::InvalidData)?;
            return Ok((head, bytes.split_off(end + 4)));
        }
        let mut more = [0; 1_024];
        match stream.read(&mut more)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if bytes.len() > REQUEST => return Err(io::ErrorKind::InvalidData.into()),
            count => bytes.extend_from_slice(&more[..count]),
        }
    }
}

/// What is read from a connection. Another thread writes to it, also what the protocol itself answers, whole frames at a time: a page that takes
/// nothing is heard all the same.
struct Reading {
    stream: TcpStream,
    mailbox: Mailbox,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Reading {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.mailbox.answer(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn converse(stream: TcpStream, rest: Vec<u8>, aside: bool, shared: &Arc<Shared>) -> io::Result<()> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(frame::LONGEST))
        .max_frame_size(Some(frame::LONGEST));
    let writing = WebSocket::from_raw_socket(stream.try_clone()?, Role::Server, None);
    let mailbox = Mailbox::default();
    let reading = Reading { stream: stream.try_clone()?, mailbox: mailbox.clone() };
    let mut reading = WebSocket::from_partially_read(reading, rest, Role::Server, Some(config));
    let sent = mailbox.clone();
    // Pictures go behind the session.
    spawn_unprivileged("taut to page", fall_back, move || write_to(writing, &sent))?;
    if let Some(page) = Conversation::enter(shared, &mailbox, aside) {
        // Whatever ends it, also a message that is none.
        while let Ok(message) = reading.read() {
            match message {
                Message::Binary(bytes) if page.says(&bytes).is_ok() => {}
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Binary(_) | Message::Close(_) | Message::Text(_) => break,
            }
        }
    }
    mailbox.close();
    stream.shutdown(Shutdown::Both)
}

impl Carrier for WebSocket<TcpStream> {
    fn carry(&mut self, Due { answers, message }: Due) -> Result<(), Closed> {
        // What was sent before is written: no frame is in between.
        self.get_mut().write_all(&answers).map_err(|_| Closed)?;
        message.map_or(Ok(()), |message| self.send(Message::binary(message.to_vec()))).map_err(|_| Closed)
    }
    fn close(&mut self) {
        // Its reader ends by that.
        let _ = self.get_ref().shutdown(Shutdown::Both);
    }
}

impl Shared {
    /// A page comes, or an aside of one, which never sits. `None`: there are too many.
    pub(crate) fn enter(&self, now: Time, mailbox: &Mailbox, aside: bool) -> Option<PageId> {
        let mut state = self.lock();
        if !state.make_room(now, aside) {
            return None;
        }
        let page = state.next_page;
        state.next_page.0 += 1;
        state.heard.insert(page, now);
        if aside {
            state.asides.insert(page, mailbox.clone());
            return Some(page);
        }
        let is_told = now.saturating_since(state.told) <= UNTOLD;
        let kept = state.kept.iter().filter(|(kind, _)| is_told || !STANDING.contains(kind));
        kept.for_each(|(_, message)| mailbox.event(message.clone()));
        // Where another one is there somebody takes control by its button.
        let is_alone = state.pages.keys().all(|other| state.silence(now, *other) > ABSENT);
        if is_alone {
            state.seat.take(now, page);
        }
        state.pages.insert(page, mailbox.clone());
        drop(state);
        self.tell_seat();
        Some(page)
    }

    pub(crate) fn leave(&self, page: PageId) {
        self.players().remove(&page);
        if self.lock().remove(page) {
            self.tell_seat();
        }
    }

    /// Tells each page whether it is in control, and whether anybody is.
    fn tell_seat(&self) {
        // Of two that tell the later one tells what is so.
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        let holder = state.seat.holder();
        let free = state.seat.is_free(Clock::since_boot());
        state.told_free = free;
        let pages = state.pages.clone();
        drop(state);
        for (page, mailbox) in &pages {
            let seat = json!({
                "event": "seat",
                "in_control": holder == Some(*page),
                "free": free,
                "pages": pages.len(),
            });
            mailbox.event(frame::event(&seat.to_string()));
        }
    }

    pub(crate) fn take(&self, page: PageId, mailbox: &Mailbox, said: FromPage) {
        if !matches!(said, FromPage::Stop(_)) {
            self.lock().hear(Clock::since_boot(), page);
        }
        match said {
            FromPage::Stop(bytes) => {
                // First of all.
                self.buttons.press(Pressed::Alarm(Alarm::Pressed));
                // Before anybody can tell that the robot acknowledged it.
                mailbox.event(frame::stop_taken(&bytes));
                let (now, mut state) = (Clock::since_boot(), self.lock());
                state.hear(now, page);
                state.seat.let_go();
                state.stopped = now;
            }
            FromPage::Input(made, held) => self.lock().seat.input(Clock::since_boot(), page, made, held),
            FromPage::Reset(made) => self.press(page, mailbox, made, Pressed::Reset),
            FromPage::Resume(made) => self.press(page, mailbox, made, Pressed::Resume),
            FromPage::TakeControl => {
                self.lock().seat.take(Clock::since_boot(), page);
                self.tell_seat();
            }
            FromPage::Taken(channel) => mailbox.taken(channel),
            FromPage::Way(pictures) => mailbox.way(pictures),
            FromPage::Play(plays) => {
                let mut players = self.players();
                if plays {
                    players.insert(page, mailbox.clone());
                } else {
                    players.remove(&page);
                }
            }
            FromPage::Ask(channel, ask) => self.ask(Clock::since_boot(), page, channel, ask),
            FromPage::Choose(offer, place) => self.choose(page, offer.into(), place.into()),
            FromPage::Ping(bytes) => {
                mailbox.event(frame::pong(&bytes, Clock::since_boot()));
                let state = self.lock();
                let lapses = state.seat.lapses();
                // Nothing else happens when whoever sits there is silent.
                let is_news = state.seat.is_free(Clock::since_boot()) != state.told_free;
                drop(state);
                let counts = json!({
                    "event": "gateway",
                    "pictures_dropped": mailbox.dropped(),
                    "sound_dropped": mailbox.sound_dropped(),
                    "states_dropped": mailbox.states_dropped(),
                    "lapses": lapses,
                });
                mailbox.event(frame::event(&counts.to_string()));
                if is_news {
                    self.tell_seat();
                }
            }
        }
    }

    fn ask(&self, now: Time, page: PageId, channel: u8, ask: Vec<u8>) {
        if usize::from(channel) >= self.pictures.len() {
            return;
        }
        let mut state = self.lock();
        let sits = state.seat.holder().is_none_or(|holder| holder == page);
        state.asks.ask(now, page, sits, channel, ask);
    }

    /// All pages are told: what is in between is the session's.
    fn choose(&self, page: PageId, offer: usize, place: usize) {
        let (Some(choose), Some(Offer { of, names })) = (&self.choose, self.offers.get(offer)) else {
            return;
        };
        let Some(name) = names.get(place) else { return };
        let message = frame::event(&json!({ "event": "chosen", "of": of, "name": name }).to_string());
        let mut state = self.lock();
        if state.seat.holder() != Some(page) || choose.try_send(Choice { of, place }).is_err() {
            return;
        }
        state.kept.insert(of, message.clone());
        state.pages.values().for_each(|page| page.event(message.clone()));
    }

    /// What was held up on its way, or overtaken by a stop that went another, is nobody's wish any more.
    fn press(&self, page: PageId, mailbox: &Mailbox, made: Time, pressed: Pressed) {
        let state = self.lock();
        if state.seat.holder() != Some(page) {
            return;
        }
        let is_late = made <= state.stopped || Clock::since_boot().saturating_since(made) > MEANT;
        drop(state);
        if is_late {
            mailbox.event(frame::event(&json!({ "event": "button_late" }).to_string()));
            return;
        }
        self.buttons.press(pressed);
    }
}

impl State {
    fn hear(&mut self, now: Time, page: PageId) {
        self.heard.entry(page).and_modify(|heard| *heard = now);
    }

    fn silence(&self, now: Time, page: PageId) -> Duration {
        self.heard.get(&page).map_or(Duration::MAX, |heard| now.saturating_since(*heard))
    }

    /// Is there a place for another page, or aside? Of too many the one that said nothing for longest is closed, where that is long: its connection may
    /// have died without a word.
    fn make_room(&mut self, now: Time, aside: bool) -> bool {
        let (there, most) = if aside { (&self.asides, ASIDES) } else { (&self.pages, PAGES) };
        if there.len() < most {
            return true;
        }
        let longest = there.iter().max_by_key(|(page, _)| self.silence(now, **page));
        let Some((page, mailbox)) = longest.filter(|(page, _)| self.silence(now, **page) > SILENCE) else {
            return false;
        };
        let page = *page;
        mailbox.close();
        self.remove(page);
        true
    }

    /// True: it was a page.
    fn remove(&mut self, page: PageId) -> bool {
        self.asides.remove(&page);
        self.heard.remove(&page);
        self.asks.leave(page);
        self.seat.leave(page);
        self.pages.remove(&page).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use serde_json::Value;
    use taut_io::device::Buttons;

    use super::*;
    use crate::{Console, ConsoleConfig};

    #[test]
    fn a_ping_of_the_protocol_is_answered_by_whoever_writes() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut page = TcpStream::connect(listener.local_addr()?)?;
        let (stream, mailbox) = (listener.accept()?.0, Mailbox::default());
        let reading = Reading { stream, mailbox: mailbox.clone() };
        let mut reading = WebSocket::from_raw_socket(reading, Role::Server, None);
        // Masked by zeros; an answer goes out when more is read.
        page.write_all(&[0x89, 0x82, 0, 0, 0, 0, b'h', b'i', 0x82, 0x80, 0, 0, 0, 0])?;
        assert!(matches!(reading.read(), Ok(Message::Ping(_))));
        assert!(matches!(reading.read(), Ok(Message::Binary(_))));
        assert_eq!(
            mailbox.wait(PATIENCE.into()),
            Ok(Due { answers: vec![0x8a, 2, b'h', b'i'], message: None })
        );
        Ok(())
    }

    /// A console, and whether something was pressed there.
    fn console() -> io::Result<(Arc<Shared>, Receiver<Pressed>)> {
        let (press, pressed) = channel();
        let buttons = Buttons::default();
        buttons.connect(move |button| {
            let _ = press.send(button);
        });
        let config = ConsoleConfig {
            port: 0,
            token: 1,
            input_lease: Duration::from_millis(120),
            title: String::new(),
            pictures: Vec::new(),
            sound: false,
            model: None,
            offers: Vec::new(),
            choose: None,
        };
        Ok((Console::listen(config, buttons)?.0.0, pressed))
    }

    #[test]
    fn of_too_many_pages_or_asides_one_that_says_nothing_makes_room_for_one_that_stops() -> io::Result<()> {
        let (shared, pressed) = console()?;
        let (came, ms) = (Clock::since_boot(), Duration::from_millis(1));
        for (aside, most) in [(false, PAGES), (true, ASIDES)] {
            let there: Vec<Mailbox> = (0..most).map(|_| Mailbox::default()).collect();
            for (mailbox, place) in there.iter().zip(0..) {
                assert!(shared.enter(came + ms * place, mailbox, aside).is_some());
            }
            let another = Mailbox::default();
            assert_eq!(shared.enter(came + SILENCE, &another, aside), None);
            let page = shared.enter(came + SILENCE + ms, &another, aside);
            let is_closed = |mailbox: &Mailbox| mailbox.wait(std::time::Duration::ZERO) == Err(Closed);
            assert!(is_closed(&there[0]) && !there[1..].iter().any(is_closed));
            shared.take(page.expect("there is room"), &another, FromPage::Stop([0; 8]));
            assert_eq!(pressed.try_recv(), Ok(Pressed::Alarm(Alarm::Pressed)));
        }
        Ok(())
    }

    #[test]
    fn a_page_that_comes_sits_down_where_no_other_one_is_there() -> io::Result<()> {
        let (shared, _) = console()?;
        let (came, mailbox) = (Clock::since_boot(), Mailbox::default());
        let enters = |at: Duration| shared.enter(came + at, &mailbox, false);
        let first = enters(Duration::ZERO);
        assert_eq!(shared.lock().seat.holder(), first);
        // It is hidden: it holds nothing, and pings.
        shared.lock().hear(came + ABSENT, PageId(0));
        enters(ABSENT * 2);
        assert_eq!(shared.lock().seat.holder(), first);
        // None is heard any more.
        let third = enters(ABSENT * 4);
        assert_eq!(shared.lock().seat.holder(), third);
        Ok(())
    }

    #[test]
    fn a_page_that_comes_is_told_how_the_robot_is_only_while_the_session_says_so() -> io::Result<()> {
        let (shared, _) = console()?;
        let console = Console(shared.clone());
        console.tell(r#"{"event":"robot","state":"ENABLED"}"#);
        console.tell(r#"{"event":"status"}"#);
        let told = Clock::since_boot();
        let all = ["console", "robot", "status", "seat"];
        for (at, kinds) in [(told, &all[..]), (told + UNTOLD * 2, &["console", "seat"][..])] {
            let mailbox = Mailbox::default();
            assert!(shared.enter(at, &mailbox, false).is_some());
            for kind in kinds {
                let message = mailbox.wait(PATIENCE.into()).unwrap().message.unwrap();
                assert_eq!(serde_json::from_slice::<Value>(&message[1..]).unwrap()["event"], *kind);
            }
        }
        Ok(())
    }
}
