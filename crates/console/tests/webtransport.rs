//! Clients of WebTransport at a console's gateway.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use taut_agent::{Alarm, OperatorDevice};
use taut_console::{Console, ConsoleConfig, ConsoleDevice, Model, PAGES, PictureChannel};
use taut_io::Clock;
use taut_io::device::{Buttons, Pressed};
use taut_media::picture::{Codec, Picture};
use taut_session::{ChannelId, Priority, State};
use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Runtime};
use wtransport::endpoint::ConnectOptions;
use wtransport::quinn::TransportConfig;
use wtransport::tls::Sha256Digest;
use wtransport::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};

const FRONT: ChannelId = ChannelId(20);
const JOINTS: ChannelId = ChannelId(21);
/// Ago.
const NOW: taut_core::Duration = taut_core::Duration::ZERO;
const MS: taut_core::Duration = taut_core::Duration::from_millis(1);
const TOKEN: u128 = 0xabc;
const SOON: Duration = Duration::from_secs(5);
/// Of a page that does not know the gateway's clock.
const STOP: &[u8] = &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A button of a page that knows it, pressed so long ago.
fn pressed(button: u8, ago: taut_core::Duration) -> Vec<u8> {
    let made = (Clock::since_boot().saturating_since(taut_core::Time::ZERO + ago)).as_millis_f64();
    [&[2, button][..], &made.to_be_bytes()].concat()
}

/// A gateway, and what is pressed on its pages.
struct Gateway {
    console: Console,
    pressed: Receiver<Pressed>,
    url: String,
    certificate: [u8; 32],
    origin: String,
}

impl Gateway {
    fn start() -> Self {
        let (press, pressed) = channel();
        let buttons = Buttons::default();
        buttons.connect(move |button| {
            let _ = press.send(button);
        });
        let model = Model { urdf: String::new(), joints: Vec::new(), told: JOINTS };
        let pictures = PictureChannel { name: "front".to_owned(), pictures: FRONT, asks: None };
        let config = ConsoleConfig {
            port: 0,
            token: TOKEN,
            input_lease: MS * 120,
            title: "a test".to_owned(),
            pictures: vec![pictures],
            sound: true,
            offers: Vec::new(),
            model: Some(model),
            choose: None,
        };
        let (console, pages) = Console::listen(config, buttons).unwrap();
        pages.with_webtransport("127.0.0.1:0".parse().unwrap()).unwrap().serve().unwrap();
        let page = console.url();
        let origin = page.split_once("/#").unwrap().0.to_owned();
        let host = origin.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET /elsewhere HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let elsewhere: Value = serde_json::from_str(body).unwrap();
        let url = elsewhere["url"].as_str().unwrap().to_owned();
        assert!(
            head.contains(&format!("connect-src 'self' {};", url.strip_suffix("/session/").unwrap())),
            "{head}"
        );
        let certificate = serde_json::from_value(elsewhere["certificate_sha256"].clone()).unwrap();
        Self { console, pressed, url, certificate, origin }
    }

    /// A browser's page, of this origin, that knows this token, and takes so much of a stream before it reads it.
    async fn connect(&self, origin: Option<&str>, token: u128, room: u32) -> Option<Connection> {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(room.into());
        let mut config = ClientConfig::builder()
            .with_bind_default()
            .with_server_certificate_hashes([Sha256Digest::new(self.certificate)])
            .build();
        config.quic_config_mut().transport_config(transport.into());
        let request = ConnectOptions::builder(format!("{}{token:032x}", self.url));
        let request =
            origin.into_iter().fold(request, |request, origin| request.add_header("origin", origin));
        Endpoint::client(config).unwrap().connect(request.build()).await.ok()
    }

    async fn page(&self, room: u32) -> Page {
        let connection = self.connect(Some(&self.origin), TOKEN, room).await.unwrap();
        let (say, hear) = connection.open_bi().await.unwrap().await.unwrap();
        let mut page = Page { connection, say, hear, number: 0 };
        page.say(&[5; 9]).await;
        page
    }

    fn device(&self) -> ConsoleDevice {
        let mut device = self.console.device(Priority::Normal);
        let now = Clock::since_boot();
        device.feel(now, &State::at(now));
        device
    }

    /// What is pressed next; a page's connection goes on meanwhile.
    async fn pressed(&self) -> Pressed {
        loop {
            match self.pressed.try_recv() {
                Ok(pressed) => return pressed,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

struct Page {
    connection: Connection,
    say: SendStream,
    hear: RecvStream,
    number: u32,
}

impl Page {
    async fn say(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        self.say.write_all(&[&length, message].concat()).await.unwrap();
    }

    /// Says what is held now, or that nothing is.
    fn hold(&mut self, is_held: bool) {
        self.number += 1;
        self.hold_at(self.number, is_held);
    }

    fn hold_at(&self, number: u32, is_held: bool) {
        let mut message = [&number.to_be_bytes(), &[1, u8::from(is_held), 0, 0][..], &[0; 28]].concat();
        message.extend((Clock::since_boot().as_secs_f64() * 1e3).to_be_bytes());
        self.connection.send_datagram(message).unwrap();
    }

    /// The gateway knows that it plays sound.
    async fn plays(&mut self) {
        self.say(&[8, 1]).await;
        self.counts().await;
    }

    /// What the gateway counts by now.
    async fn counts(&mut self) -> Value {
        self.say(&[5, 0, 0, 0, 0, 0, 0, 0, 1]).await;
        while message(&mut self.hear).await.unwrap()[..9] != [5, 0, 0, 0, 0, 0, 0, 0, 1] {}
        self.event("gateway").await.unwrap()
    }

    /// The next event of a kind; `None`: the gateway has closed.
    async fn event(&mut self, kind: &str) -> Option<Value> {
        loop {
            let message = message(&mut self.hear).await?;
            let event = message.strip_prefix(&[1]).map(|line| serde_json::from_slice::<Value>(line).unwrap());
            if let Some(event) = event.filter(|event| event["event"] == kind) {
                return Some(event);
            }
        }
    }
}

async fn message(stream: &mut RecvStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.ok()?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut message).await.ok().map(|()| message)
}

fn picture(number: u32, key: bool, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    let reference = if key { number } else { number - 1 };
    Picture { codec: Codec::Vp8, key, recovers: false, width: 64, height: 48, number, reference }
        .emit(&mut payload);
    payload.resize(payload.len() + bytes, 0);
    payload
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// What a page does, which takes no longer than that.
fn within(patience: Duration, work: impl Future<Output = ()>) {
    runtime().block_on(async { tokio::time::timeout(patience, work).await }).expect("it takes too long");
}

#[test]
fn whoever_is_of_another_origin_or_does_not_know_the_token_is_told_nothing() {
    let gateway = Gateway::start();
    within(SOON, async {
        let own = Some(&*gateway.origin);
        assert!(gateway.connect(own, TOKEN + 1, 1 << 16).await.is_none());
        for origin in [None, Some("null"), Some("https://evil.example"), Some("http://127.0.0.1:1")] {
            assert!(gateway.connect(origin, TOKEN, 1 << 16).await.is_none(), "{origin:?}");
        }
        let mut page = gateway.page(1 << 16).await;
        assert_eq!(page.event("console").await.unwrap()["title"], "a test");
    });
}

#[test]
fn one_page_is_in_control_more_look_on_and_too_many_are_closed() {
    let gateway = Gateway::start();
    within(SOON, async {
        let mut first = gateway.page(1 << 16).await;
        assert_eq!(first.event("seat").await.unwrap()["in_control"], true);
        let mut others = Vec::new();
        for _ in 1..PAGES {
            first.hold(false);
            let mut page = gateway.page(1 << 16).await;
            assert_eq!(page.event("seat").await.unwrap()["in_control"], false);
            others.push(page);
        }
        assert!(gateway.page(1 << 16).await.event("console").await.is_none());
        // Who looks on moves nothing and stops all the same.
        others[0].say(&pressed(2, NOW)).await;
        others[0].say(STOP).await;
        assert_eq!(gateway.pressed().await, Pressed::Alarm(Alarm::Pressed));
        drop(first);
        while others[0].event("seat").await.unwrap()["free"] != true {}
        others[0].say(&pressed(3, NOW)).await;
        while others[0].event("seat").await.unwrap()["in_control"] != true {}
    });
}

#[test]
fn a_message_that_is_too_long_or_none_at_all_ends_it() {
    let gateway = Gateway::start();
    within(SOON, async {
        for wrong in [&[4; 65][..], &[9], &[]] {
            let mut page = gateway.page(1 << 16).await;
            page.say(wrong).await;
            page.connection.closed().await;
        }
        let page = gateway.page(1 << 16).await;
        page.connection.send_datagram([0, 0, 0, 1, 9]).unwrap();
        page.connection.closed().await;
        assert!(gateway.pressed.try_recv().is_err());
    });
}

#[test]
fn whoever_connects_and_says_nothing_is_closed() {
    let gateway = Gateway::start();
    within(2 * SOON, async {
        let silent = gateway.connect(Some(&gateway.origin), TOKEN, 1 << 16).await.unwrap();
        silent.closed().await;
    });
}

#[test]
fn a_stop_and_what_is_told_of_it_do_not_wait_for_pictures_that_nobody_takes() {
    let gateway = Gateway::start();
    let mut device = gateway.device();
    within(SOON, async {
        let mut page = gateway.page(4_096).await;
        page.event("seat").await.unwrap();
        device.receive(FRONT, None, &picture(0, true, 60_000));
        device.receive(FRONT, None, &picture(1, false, 60_000));
        let mut blocked =
            [page.connection.accept_uni().await.unwrap(), page.connection.accept_uni().await.unwrap()];
        page.say(STOP).await;
        assert_eq!(gateway.pressed().await, Pressed::Alarm(Alarm::Pressed));
        while message(&mut page.hear).await.unwrap() != [&[7], &STOP[2..]].concat() {}
        gateway.console.tell(r#"{"event":"emergency_stopped","after_ms":1.0}"#);
        page.event("emergency_stopped").await.unwrap();
        // They are taken back when they are worth nothing any more, and leave their room to the next.
        device.receive(FRONT, None, &picture(2, true, 1_000));
        let mut next = page.connection.accept_uni().await.unwrap();
        assert_eq!(message(&mut next).await.unwrap().len(), 12 + 16 + 1_000);
        for stream in &mut blocked {
            while stream
                .read(&mut [0; 1_024])
                .await
                .is_ok_and(|count| count.expect("reset before its end") > 0)
            {}
        }
        page.say(&[5; 9]).await;
        while page.event("gateway").await.unwrap()["pictures_dropped"] != 2 {}
    });
}

/// Takes datagrams there and back between whoever speaks here and a gateway, each for so long.
async fn far(gateway: SocketAddr, way: Duration) -> SocketAddr {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let here = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut page, mut room) = (None, [0; 2_048]);
        loop {
            let (length, from) = socket.recv_from(&mut room).await.unwrap();
            let to = if from == gateway { page.unwrap() } else { gateway };
            page = page.or(Some(from));
            let (socket, datagram) = (socket.clone(), room[..length].to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(way).await;
                socket.send_to(&datagram, to).await
            });
        }
    });
    here
}

#[test]
fn a_page_that_is_far_away_has_its_pictures_and_they_are_not_said_to_be_dropped() {
    let mut gateway = Gateway::start();
    let mut device = gateway.device();
    within(2 * SOON, async {
        let straight = gateway.url.split('/').nth(2).unwrap().to_owned();
        let relay = far(straight.parse().unwrap(), Duration::from_millis(160)).await;
        gateway.url = gateway.url.replace(&straight, &relay.to_string());
        let mut page = gateway.page(1 << 16).await;
        page.event("seat").await.unwrap();
        for number in 0..2 {
            device.receive(FRONT, None, &picture(number, true, 1_000));
            let mut stream = page.connection.accept_uni().await.unwrap();
            assert_eq!(message(&mut stream).await.unwrap().len(), 12 + 16 + 1_000);
        }
        page.say(&[5; 9]).await;
        page.event("gateway").await.unwrap();
        assert_eq!(page.event("gateway").await.unwrap()["pictures_dropped"], 0);
    });
}

#[test]
fn what_is_held_counts_by_the_newest_that_came_and_states_and_sound_get_there() {
    let gateway = Gateway::start();
    let mut device = gateway.device();
    within(SOON, async {
        let mut page = gateway.page(1 << 16).await;
        page.event("seat").await.unwrap();
        let mut is_enabling = || device.sample(Clock::since_boot()).unwrap().state.enabling;
        while !is_enabling() {
            page.hold(false);
            page.hold(true);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        page.hold(false);
        // It was on the way for longer.
        page.hold_at(1, true);
        while is_enabling() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!is_enabling());
        // Sound comes to a page that plays it.
        gateway.console.hear(None, &[6; 480]);
        page.plays().await;
        gateway.console.hear(None, &[7; 480]);
        let sound = page.connection.receive_datagram().await.unwrap();
        assert_eq!((sound[0], sound[13], sound.len()), (4, 7, 12 + 960));
        let mut feel = |force: f32| {
            let now = Clock::since_boot();
            device.feel(now, &State { force: [force, 0.0, 0.0], ..State::at(now) });
        };
        feel(0.0);
        let mut states = page.connection.accept_uni().await.unwrap();
        for force in [0.0_f32, 1.0, 2.0] {
            let message = message(&mut states).await.unwrap();
            assert_eq!(message[message.len() - 12..][..4], force.to_be_bytes());
            feel(force + 1.0);
        }
    });
}

#[test]
fn states_and_sound_that_a_page_does_not_take_are_counted() {
    let gateway = Gateway::start();
    let mut device = gateway.device();
    within(2 * SOON, async {
        let mut page = gateway.page(1_024).await;
        page.plays().await;
        let joints = format!(r#"{{"position_rad":{:?}}}"#, [0.5; 12]).into_bytes();
        // Nobody drives its connection meanwhile: it acknowledges nothing.
        const HEARD: u64 = 60;
        for _ in 0..HEARD {
            gateway.console.hear(None, &[7; 480]);
            device.receive(JOINTS, None, &joints);
            let from = Clock::since_boot();
            while Clock::since_boot() - from < MS * 5 {
                std::thread::yield_now();
            }
        }
        let mut came = 0;
        let patience = Duration::from_millis(500);
        while let Ok(datagram) = tokio::time::timeout(patience, page.connection.receive_datagram()).await {
            came += u64::from(datagram.unwrap()[0] == 4);
        }
        assert_eq!(page.counts().await["sound_dropped"], HEARD - came);
        assert!(came < HEARD, "all came");
        // Nor takes states.
        while page.counts().await["states_dropped"].as_u64().unwrap() == 0 {
            let now = Clock::since_boot();
            device.feel(now, &State::at(now));
        }
    });
}

#[test]
fn a_page_that_vanishes_lets_go_within_the_lease_and_counts_as_gone_after_another() {
    let gateway = Gateway::start();
    let mut device = gateway.device();
    let vanished = runtime();
    let _page = vanished.block_on(async {
        let mut page = gateway.page(1 << 16).await;
        page.event("seat").await.unwrap();
        while !device.sample(Clock::since_boot()).unwrap().state.enabling {
            page.hold(false);
            page.hold(true);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        page
    });
    // From here on nobody drives its connection: not even its end is told.
    let from = Clock::since_boot();
    let lasts = |is: &mut dyn FnMut() -> bool| {
        while is() {
            std::thread::yield_now();
        }
        Clock::since_boot() - from
    };
    let held = lasts(&mut || device.sample(Clock::since_boot()).unwrap().state.enabling);
    let mut readings = 0;
    let there = lasts(&mut || {
        let before = std::mem::replace(&mut readings, device.sample(Clock::since_boot()).unwrap().reading);
        readings > before
    });
    // Of a lease of 120 ms, and one more, on a machine that may be busy.
    assert!(held < MS * 200 && there < MS * 320, "{held}, {there}");
}

#[test]
fn what_was_pressed_before_a_stop_or_long_ago_does_not_let_go_of_it_however_late_it_comes() {
    let gateway = Gateway::start();
    within(SOON, async {
        let mut page = gateway.page(1 << 16).await;
        page.say(&pressed(1, NOW)).await;
        assert_eq!(gateway.pressed().await, Pressed::Reset);
        // By a page that did not know yet of a stop, which was pressed sooner still and was on its way.
        let unaware = pressed(1, NOW);
        // A stop that went another way, and was there sooner.
        page.say(&pressed(0, MS * 50)).await;
        assert_eq!(gateway.pressed().await, Pressed::Alarm(Alarm::Pressed));
        for late in [unaware, pressed(1, MS * 100), pressed(2, MS * 90), pressed(2, MS * 1_100)] {
            page.say(&late).await;
            page.event("button_late").await.unwrap();
        }
        page.say(&pressed(2, NOW)).await;
        assert_eq!(gateway.pressed().await, Pressed::Resume);
    });
}

#[test]
fn an_aside_stops_the_robot_whoever_else_is_there_and_does_nothing_else() {
    let gateway = Gateway::start();
    let aside = |message: &[u8]| {
        let host = gateway.origin.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "GET /stop HTTP/1.1\r\nHost: {host}\r\nOrigin: {}\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol: taut.console.1, {TOKEN:032x}\r\n\r\n",
            gateway.origin
        )
        .unwrap();
        // A binary message, masked by zeros (RFC 6455 section 5.2).
        let head = [0x82, 0x80 | message.len() as u8, 0, 0, 0, 0];
        stream.write_all(&[&head[..], message].concat()).unwrap();
        stream
    };
    within(SOON, async {
        // Nobody sits by it.
        let first = aside(STOP);
        assert_eq!(gateway.pressed().await, Pressed::Alarm(Alarm::Pressed));
        let mut pages = Vec::new();
        for place in 0..PAGES {
            let mut page = gateway.page(1 << 16).await;
            assert_eq!(page.event("seat").await.unwrap()["in_control"], place == 0);
            pages.push(page);
            pages[0].hold(false);
        }
        let second = aside(STOP);
        assert_eq!(gateway.pressed().await, Pressed::Alarm(Alarm::Pressed));
        let mut third = aside(&pressed(2, NOW));
        // It is closed: what is there to read ends.
        tokio::task::spawn_blocking(move || third.read_to_end(&mut Vec::new())).await.unwrap().unwrap();
        assert!(gateway.pressed.try_recv().is_err());
        drop((first, second));
    });
}
