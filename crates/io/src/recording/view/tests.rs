use std::sync::Weak;
use std::sync::mpsc::{Receiver, channel};

use taut_session::{ChannelKind, Direction, Encoding, Schema};
use tungstenite::client::IntoClientRequest;
use tungstenite::{ClientRequestBuilder, WebSocket};

use super::*;

const PICTURE: usize = 1 << 20;

fn camera() -> Channel {
    Channel::new(
        "camera",
        Direction::ToOperator,
        ChannelKind::Telemetry,
        Schema::new("camera", Encoding::Raw),
    )
}

fn connect(view: &View, protocol: &str) -> Result<WebSocket<TcpStream>, String> {
    let address = view.address();
    let request = ClientRequestBuilder::new(format!("ws://{address}").parse().unwrap());
    let request = request.with_sub_protocol(protocol).into_client_request().unwrap();
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
    while !view.wants(Topic::Channel(ChannelId(0))) {
        std::thread::yield_now();
    }
}

/// Log times of pictures as they come, on a thread.
fn reads(mut client: WebSocket<TcpStream>) -> Receiver<u64> {
    let (sender, came) = channel();
    std::thread::spawn(move || {
        while let Ok(message) = client.read() {
            let Message::Binary(bytes) = message else { continue };
            assert_eq!((&bytes[..5], bytes.len()), (&[1, 7, 0, 0, 0][..], 13 + PICTURE));
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
    let view = View::start("127.0.0.1:0".parse().unwrap(), &[camera()]).unwrap();
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
        not_shown.add(view.show(Topic::Channel(ChannelId(0)), at, &picture));
        drop(picture);
        assert_eq!(came.recv_timeout(Duration::from_secs(30)), Ok(at));
        // One that is on its way to each, and one that waits.
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
    assert!(matches!(idle.read(), Ok(Message::Close(_))));
    drop(came);
    assert_eq!(alive(&pictures), 0);
}

#[test]
fn there_are_so_many_places_and_who_goes_leaves_theirs() {
    let view = View::start("127.0.0.1:0".parse().unwrap(), &[camera()]).unwrap();
    assert!(connect(&view, "another.protocol").is_err());
    let until = |count| {
        while view.shared.clients().len() != count {
            std::thread::yield_now();
        }
    };
    until(0);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect(&view, PROTOCOL).unwrap()).collect();
    assert!(connect(&view, PROTOCOL).is_err());
    clients.pop();
    until(CLIENTS - 1);
    let mut last = connect(&view, PROTOCOL).unwrap();
    subscribe(&view, &mut last);
    for said in [
        r#"{"op":"advertise","channels":[]}"#,
        "nonsense",
        r#"{"op":"subscribe","subscriptions":[{"id":1,"channelId":99}]}"#,
    ] {
        last.send(Message::text(said)).unwrap();
        assert_eq!(text(&mut last)["level"], 2, "{said}");
    }
    last.send(Message::Ping(vec![1, 2].into())).unwrap();
    assert_eq!(last.read().unwrap(), Message::Pong(vec![1, 2].into()));
    drop((last, clients));
    until(0);
    assert!(!view.wants(Topic::Channel(ChannelId(0))));
}
