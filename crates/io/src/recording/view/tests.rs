use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use taut_session::{ChannelKind, Direction, Encoding, Schema};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::Message;
use tungstenite::{ClientRequestBuilder, WebSocket};

use super::*;
use crate::Clock;

const PROTOCOL: &str = "foxglove.sdk.v1";
const PICTURE: usize = 1 << 20;
const CAMERA: Topic = Topic::Channel(ChannelId(0));
/// Shorter than usual, and longer than a busy machine takes to answer.
const SHORT: Patience = Patience {
    request: taut_core::Duration::from_millis(600),
    ping: taut_core::Duration::from_millis(300),
    silence: taut_core::Duration::from_millis(1_500),
};

fn start(patience: Patience) -> View {
    let origins = vec!["https://viewer.example".to_owned()];
    View::with_patience("127.0.0.1:0".parse().unwrap(), origins, &[camera()], patience).unwrap()
}

fn camera() -> Channel {
    Channel::new(
        "camera",
        Direction::ToOperator,
        ChannelKind::Telemetry,
        Schema::new("camera", Encoding::Raw),
    )
}

fn connect(view: &View, protocol: &str) -> Result<WebSocket<TcpStream>, String> {
    connect_from(view, protocol, None)
}

fn connect_from(view: &View, protocol: &str, origin: Option<&str>) -> Result<WebSocket<TcpStream>, String> {
    let address = view.address();
    let request = ClientRequestBuilder::new(format!("ws://{address}").parse().unwrap());
    let request = request.with_sub_protocol(protocol);
    let request = origin.into_iter().fold(request, |request, origin| request.with_header("origin", origin));
    let request = request.into_client_request().unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // Else the kernel keeps several pictures for it.
    SockRef::from(&stream).set_recv_buffer_size(64 << 10).unwrap();
    tungstenite::client(request, stream).map(|(client, _)| client).map_err(|error| error.to_string())
}

fn text(client: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = client.read().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

fn subscribe(view: &View, client: &mut WebSocket<TcpStream>) {
    assert_eq!(text(client)["op"], "serverInfo");
    let advertised = text(client);
    let channels = advertised["channels"].as_array().unwrap();
    let camera = channels.iter().find(|channel| channel["topic"] == "to_operator/camera").unwrap();
    let subscription =
        json!({ "op": "subscribe", "subscriptions": [{ "id": 7, "channelId": camera["id"] }] });
    client.send(Message::text(subscription.to_string())).unwrap();
    while !view.wants(CAMERA) {
        std::thread::yield_now();
    }
}

/// The next that is no ping.
fn next(client: &mut WebSocket<TcpStream>) -> Message {
    loop {
        let message = client.read().unwrap();
        if !matches!(message, Message::Ping(_)) {
            return message;
        }
    }
}

/// Waits until so many clients are there, for half a minute at most.
fn until(view: &View, count: usize) {
    let due = Clock::since_boot() + taut_core::Duration::from_secs(30);
    while view.shared.clients().len() != count {
        assert!(Clock::since_boot() < due, "{} and not {count}", view.shared.clients().len());
        std::thread::yield_now();
    }
}

/// Log times of pictures as they come, on a thread.
fn reads(mut client: WebSocket<TcpStream>) -> Receiver<u64> {
    let (sender, came) = channel();
    std::thread::spawn(move || {
        while let Ok(message) = client.read() {
            let Message::Binary(bytes) = message else { continue };
            assert_eq!(&bytes[..5], [1, 7, 0, 0, 0]);
            let _ = sender.send(u64::from_le_bytes(bytes[5..13].try_into().unwrap()));
        }
    });
    came
}

fn alive(pictures: &[Weak<Vec<u8>>]) -> usize {
    pictures.iter().filter(|picture| picture.strong_count() > 0).count()
}

#[test]
fn one_who_reads_nothing_costs_two_pictures_and_one_who_reads_gets_each() {
    let view = start(Patience::USUAL);
    let mut idle = connect(&view, PROTOCOL).unwrap();
    subscribe(&view, &mut idle);
    let mut reader = connect(&view, PROTOCOL).unwrap();
    subscribe(&view, &mut reader);
    while view.shared.clients().iter().any(|client| !client.lock().wants(4)) {
        std::thread::yield_now();
    }
    let (came, mut pictures, mut not_shown) = (reads(reader), Vec::new(), NotShown::default());
    for at in 0..60 {
        let picture = Arc::new(vec![0; PICTURE]);
        pictures.push(Arc::downgrade(&picture));
        not_shown.add(view.show(CAMERA, at, &picture));
        drop(picture);
        assert_eq!(came.recv_timeout(Duration::from_secs(30)), Ok(at));
        // One that is on its way to each, and one that waits; and what came before it was known that one reads nothing.
        assert!(alive(&pictures) <= 4, "{at}");
    }
    assert!(not_shown.superseded >= 50 && not_shown.behind == 0, "{not_shown:?}");
    // In the end it reads after all, and is told.
    let (mut seen, mut told) = (Vec::new(), String::new());
    while seen.last() != Some(&59) || told.is_empty() {
        match idle.read().unwrap() {
            Message::Text(text) => told = text.to_string(),
            Message::Binary(bytes) => seen.push(u64::from_le_bytes(bytes[5..13].try_into().unwrap())),
            _ => {}
        }
    }
    assert_eq!(60 - seen.len() as u64, not_shown.superseded);
    assert!(told.contains("reads too slowly"), "{told}");
    drop(view);
    assert!(matches!(next(&mut idle), Message::Close(_)));
    drop(came);
    assert_eq!(alive(&pictures), 0);
}

#[test]
fn there_are_so_many_places_and_who_goes_leaves_theirs() {
    let view = start(Patience::USUAL);
    assert!(connect(&view, "another.protocol").is_err());
    until(&view, 0);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(&view, PROTOCOL).unwrap()).collect();
    assert!(connect(&view, PROTOCOL).is_err());
    clients.pop();
    until(&view, CLIENTS - 1);
    let mut last = connect(&view, PROTOCOL).unwrap();
    subscribe(&view, &mut last);
    for said in [
        r#"{"op":"advertise","channels":[]}"#,
        "nonsense",
        r#"{"op":"subscribe","subscriptions":[{"id":1,"channelId":99}]}"#,
        &format!(r#"{{"op":"unsubscribe","subscriptionIds":[{}0]}}"#, "0,".repeat(9_000)),
    ] {
        last.send(Message::text(said)).unwrap();
        assert_eq!(text(&mut last)["level"], 2, "{said}");
    }
    last.send(Message::Ping(vec![1, 2].into())).unwrap();
    assert_eq!(next(&mut last), Message::Pong(vec![1, 2].into()));
    drop((last, clients));
    until(&view, 0);
    assert!(!view.wants(CAMERA));
}

#[test]
fn pages_of_strangers_are_refused_and_those_that_are_listed_are_not() {
    let view = start(Patience::USUAL);
    for (origin, may) in [
        ("https://evil.example", false),
        ("null", false),
        ("https://viewer.example", true),
        ("http://localhost:8080", true),
        ("file://", true),
    ] {
        let connected = connect_from(&view, PROTOCOL, Some(origin));
        assert_eq!(connected.is_ok(), may, "{origin}: {:?}", connected.err());
    }
}

/// Whoever says much, or nothing to the point, does not hold up who shows.
#[test]
fn who_unsubscribes_from_much_again_and_again_holds_nobody_up() {
    let view = start(SHORT);
    let mut hostile = connect(&view, PROTOCOL).unwrap();
    subscribe(&view, &mut hostile);
    let said = format!(r#"{{"op":"unsubscribe","subscriptionIds":[{}0]}}"#, "0,".repeat(14_000));
    let says = std::thread::spawn(move || {
        for _ in 0..400 {
            if hostile.send(Message::text(&*said)).is_err() {
                break;
            }
        }
    });
    let (mut longest, state) = (taut_core::Duration::ZERO, Arc::new(vec![0; 100]));
    let mut shown = 0;
    while !says.is_finished() || shown < 1_000 {
        let before = Clock::since_boot();
        view.show(CAMERA, shown, &state);
        longest = longest.max(Clock::since_boot().saturating_since(before));
        shown += 1;
        std::thread::park_timeout(Duration::from_micros(100));
    }
    // It waits for nobody; but a busy machine may take it off the processor.
    assert!(longest < taut_core::Duration::from_millis(100), "{longest:?} of {shown}");
    says.join().unwrap();
}

#[test]
fn a_reader_that_keeps_up_gets_each_however_fast_they_come() {
    let view = start(Patience::USUAL);
    let mut reader = connect(&view, PROTOCOL).unwrap();
    subscribe(&view, &mut reader);
    let (came, picture) = (reads(reader), Arc::new(vec![0; 64 << 10]));
    let (mut not_shown, begun) = (NotShown::default(), Clock::since_boot());
    for at in (0..400).step_by(2) {
        // Two at once, as of a camera whose messages come together.
        [at, at + 1].iter().for_each(|at| not_shown.add(view.show(CAMERA, *at, &picture)));
        [at, at + 1].iter().for_each(|at| assert_eq!(came.recv_timeout(Duration::from_secs(30)), Ok(*at)));
    }
    let took = Clock::since_boot().saturating_since(begun);
    assert_eq!(not_shown, NotShown::default());
    // With a pause of 10 ms behind each batch it would be 2 s at least.
    assert!(took < taut_core::Duration::from_millis(1_500), "{took:?}");
}

#[test]
fn a_request_has_its_time_however_often_a_byte_of_it_comes() {
    let view = start(SHORT);
    let slow: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(view.address()).unwrap()).collect();
    until(&view, CLIENTS);
    assert!(connect(&view, PROTOCOL).is_err());
    let drips = std::thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX: ".iter().chain([b'x'; 60].iter()) {
            slow.iter().for_each(|mut stream| _ = stream.write(&[*byte]));
            std::thread::park_timeout(Duration::from_millis(50));
        }
    });
    let begun = Clock::since_boot();
    until(&view, 0);
    let took = Clock::since_boot().saturating_since(begun);
    assert!(took < taut_core::Duration::from_millis(2_500), "{took:?}");
    assert!(connect(&view, PROTOCOL).is_ok());
    drips.join().unwrap();
}

#[test]
fn who_answers_no_ping_leaves_its_place_and_who_does_keeps_it() {
    let view = start(SHORT);
    // The handshake, and then nothing.
    let silent: Vec<_> = (1..CLIENTS).map(|_| connect(&view, PROTOCOL).unwrap()).collect();
    let mut there = connect(&view, PROTOCOL).unwrap();
    there.get_ref().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    until(&view, CLIENTS);
    let begun = Clock::since_boot();
    while Clock::since_boot().saturating_since(begun) < SHORT.silence + SHORT.silence {
        let _ = there.read();
    }
    until(&view, 1);
    drop(silent);
}

#[test]
fn who_closes_is_answered_once() {
    let view = start(Patience::USUAL);
    let mut client = connect(&view, PROTOCOL).unwrap();
    client.close(None).unwrap();
    let mut closes = 0;
    while let Ok(message) = client.read() {
        closes += usize::from(matches!(message, Message::Close(_)));
    }
    let mut more = Vec::new();
    assert_eq!((closes, client.get_mut().read_to_end(&mut more).unwrap_or_default()), (1, 0));
    until(&view, 0);
}
