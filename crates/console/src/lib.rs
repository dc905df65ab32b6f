//! The operator's console in a browser.
//!
//! A gateway beside the operator's session serves a page on loopback and speaks with it over a WebSocket, or by WebTransport where the browser is
//! elsewhere (feature `webtransport`). The page says how fast to move while
//! something is held; [`Console::device`] makes that into states at the session's rate. The page shows what the session tells, what the robot
//! feels and its pictures.
//!
//! | rule | where |
//! | --- | --- |
//! | one page is in control, the others look on; a stop is anyone's | [`seat`] |
//! | what a page holds counts for the input lease after it said so last, and never again before it was let go | [`seat`] |
//! | who is served: requests for this host by its own page, with the token of this start | [`gate`] |
//! | the bytes between page and gateway | [`frame`] |
//! | what a page is, whatever carries its messages | `page` |
//! | at most six pictures wait for a page, sound at most 80 ms, states at most a second's, and all are counted when they do not get there | [`outbox`] |
//!
//! When the page in control is gone, hidden or hung, its device gives no more samples: the robot's watchdog stops the robot, and only a person
//! resumes it.

mod asks;
mod assets;
mod device;
pub mod frame;
pub mod gate;
pub mod outbox;
mod page;
pub mod seat;
mod serve;
#[cfg(feature = "webtransport")]
mod webtransport;

use std::collections::BTreeMap;
use std::io;
#[cfg(feature = "webtransport")]
use std::net::SocketAddrV4;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use taut_core::{Duration, Time};
use taut_io::Clock;
use taut_io::device::Buttons;
use taut_session::{ChannelId, Priority};

use self::asks::Asks;
pub use self::device::ConsoleDevice;
use self::gate::Gate;
use self::outbox::Mailbox;
use self::seat::{PageId, Seat};

/// The shortest and the longest input lease.
pub const INPUT_LEASE: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(150)];
/// Pages at most, at a time.
pub const PAGES: usize = 8;
/// Kinds of events of which the last one is kept for pages that come later.
const KEPT: [&str; 4] = ["console", "connected", "robot", "status"];
/// Of these not where the session has said nothing for [`UNTOLD`]: how the robot is nobody knows then.
const STANDING: [&str; 2] = ["robot", "status"];
/// It reports several times a second.
const UNTOLD: Duration = Duration::from_secs(1);

/// A channel of pictures to the operator.
#[derive(Clone, Debug)]
pub struct PictureChannel {
    /// Its name.
    pub name: String,
    /// That channel.
    pub pictures: ChannelId,
    /// Where its receiver asks for what it lacks, if it can.
    pub asks: Option<ChannelId>,
}

/// A model of the robot, which a page shows as its joints are.
#[derive(Clone, Debug)]
pub struct Model {
    /// A URDF of primitives.
    pub urdf: String,
    /// The joints that the robot tells, by their names in it.
    pub joints: Vec<String>,
    /// On which it tells them: in JSON, `position_rad`.
    pub told: ChannelId,
}

/// What the page in control may have one of, where whoever started this sees to it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What these are.
    pub of: &'static str,
    /// At most 256. The first one is in use.
    pub names: Vec<String>,
}

/// What a page chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Of which [`Offer`].
    pub of: &'static str,
    /// Its place there.
    pub place: usize,
}

/// What a console is started with.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    /// Port of 127.0.0.1; 0: one that is free.
    pub port: u16,
    /// Secret of this start, 128 random bits: only a page that knows it is spoken with.
    pub token: u128,
    /// What a page holds counts for so long after it said so last, from 100 to 150 ms.
    pub input_lease: Duration,
    /// What the page shows of the session: its robot.
    pub title: String,
    /// At most 256.
    pub pictures: Vec<PictureChannel>,
    /// Somebody gives it [sound](Console::hear).
    pub sound: bool,
    /// What it shows of the robot's joints.
    pub model: Option<Model>,
    /// What the page in control may choose from, at most 256.
    pub offers: Vec<Offer>,
    /// Where it is told what it chose.
    pub choose: Option<SyncSender<Choice>>,
}

/// A gateway. It can be copied; its threads end with the process.
#[derive(Clone)]
pub struct Console(Arc<Shared>);

/// Where pages knock: [served](Listening::serve) once the session is there.
pub struct Listening {
    listener: TcpListener,
    elsewhere: Option<Elsewhere>,
    console: Console,
}

/// Another place than the page's own where it may speak with the session.
struct Elsewhere {
    /// What the page is told of it, JSON.
    about: String,
    /// What its policy has to let it connect to.
    origin: String,
    serve: Box<dyn FnOnce(Arc<Shared>) -> io::Result<()> + Send>,
}

impl Listening {
    /// Pages may speak with the session at this address, too, by WebTransport: those whose browser is elsewhere, and which are served through a
    /// tunnel. They are told the address, and the hash of a certificate of this start. Port 0: one that is free.
    ///
    /// # Errors
    /// When it is no address that a browser could connect to, or is taken.
    #[cfg(feature = "webtransport")]
    pub fn with_webtransport(mut self, address: SocketAddrV4) -> io::Result<Self> {
        self.elsewhere = Some(webtransport::listen(address)?);
        Ok(self)
    }

    /// Serves pages, on threads of its own. Those that read from pages which know the token outrank the calling one, which is to be the session's: a stop does not
    /// wait for it. Those that serve anybody else have no priority.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn serve(self) -> io::Result<()> {
        serve::start(self.listener, self.elsewhere, self.console.0)
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// What the threads of pages, the session and the device share.
struct Shared {
    gate: Gate,
    buttons: Buttons,
    pictures: Vec<PictureChannel>,
    joints: Option<ChannelId>,
    offers: Vec<Offer>,
    choose: Option<SyncSender<Choice>>,
    /// The session's thread waits for this: it is held for no longer than it takes to read or write it.
    state: Mutex<State>,
    /// Whoever tells pages who sits there.
    telling: Mutex<()>,
    /// Pages that play sound.
    players: Mutex<BTreeMap<PageId, Mailbox>>,
}

struct State {
    seat: Seat,
    /// Pages know that they may sit down there.
    told_free: bool,
    next_page: PageId,
    pages: BTreeMap<PageId, Mailbox>,
    /// Those that are there to stop the robot alone: they are told what happens, and are shown nothing.
    asides: BTreeMap<PageId, Mailbox>,
    /// When each of both said something last, or came.
    heard: BTreeMap<PageId, Time>,
    /// When the last stop came, by this host's clock.
    stopped: Time,
    /// Newest line of each kind of [`KEPT`], and of what was chosen of each offer.
    kept: BTreeMap<&'static str, Arc<[u8]>>,
    /// When the session reported last.
    told: Time,
    asks: Asks,
}

impl Console {
    /// Listens on loopback. What is pressed on a page goes to `buttons`.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn listen(config: ConsoleConfig, buttons: Buttons) -> io::Result<(Self, Listening)> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, config.port)))?;
        let lease = config.input_lease.clamp(INPUT_LEASE[0], INPUT_LEASE[1]);
        let names: Vec<&str> = config.pictures.iter().map(|channel| &*channel.name).collect();
        let offer = |offer: &Offer| json!({ "of": offer.of, "names": offer.names });
        let offers: Vec<Value> = config.offers.iter().map(offer).collect();
        let about = json!({
            "event": "console",
            "title": config.title,
            "input_lease_ms": lease.as_millis_f64(),
            "pictures": names,
            "sound": config.sound,
            "offers": offers,
            "model": config.model.as_ref().map(|model| json!({ "urdf": model.urdf, "joints": model.joints })),
        });
        let state = State {
            seat: Seat::new(lease),
            told_free: true,
            next_page: PageId::default(),
            pages: BTreeMap::new(),
            asides: BTreeMap::new(),
            heard: BTreeMap::new(),
            stopped: Time::ZERO,
            kept: BTreeMap::from([("console", frame::event(&about.to_string()))]),
            told: Time::ZERO,
            asks: Asks::new(),
        };
        let shared = Arc::new(Shared {
            gate: Gate::new(listener.local_addr()?.port(), config.token),
            buttons,
            pictures: config.pictures,
            joints: config.model.map(|model| model.told),
            offers: config.offers,
            choose: config.choose,
            state: Mutex::new(state),
            telling: Mutex::default(),
            players: Mutex::default(),
        });
        let console = Self(shared);
        Ok((console.clone(), Listening { listener, elsewhere: None, console }))
    }

    /// Where the page is, with its token.
    pub fn url(&self) -> String {
        self.0.gate.url()
    }

    /// What the page in control does, as the session's device; its states are that urgent.
    pub fn device(&self, priority: Priority) -> ConsoleDevice {
        ConsoleDevice::new(self.0.clone(), priority)
    }

    /// Plays 10 ms of sound to all pages that play any, of which the first sample was heard so long ago; `None`: made up.
    pub fn hear(&self, age: Option<Duration>, samples: &[i16]) {
        let message = frame::sound(age.map(|age| Clock::since_boot() - age), samples);
        self.0.players().values().for_each(|page| page.sound(message.clone()));
    }

    /// Shows an event of the session to all pages: a line of JSON with a key `event`.
    pub fn tell(&self, line: &str) {
        let Ok(value) = serde_json::from_str::<Value>(line) else { return };
        let kind = value["event"].as_str().unwrap_or_default();
        let message = frame::event(line.trim_end());
        let mut state = self.0.lock();
        if let Some(kind) = KEPT.iter().find(|known| **known == kind) {
            state.kept.insert(kind, message.clone());
        }
        if kind == "status" {
            state.told = Clock::since_boot();
        }
        if let ("connected", Some(max_age)) = (kind, value["max_age_ms"].as_f64()) {
            state.seat.limit_lease(Duration::from_nanos((max_age * 1e6) as u64));
            state.seat.holds_to_run(value["hold_to_run"] == true);
        }
        if matches!((kind, value["state"].as_str()), ("robot", Some(robot)) if robot != "ENABLED") {
            state.seat.let_go();
        }
        state.pages.values().chain(state.asides.values()).for_each(|page| page.event(message.clone()));
    }
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn players(&self) -> MutexGuard<'_, BTreeMap<PageId, Mailbox>> {
        self.players.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
