//! Recordings of sessions, as MCAP (<https://mcap.dev/spec>): what an end sent and received, and what it decided. A thread writes them,
//! from a bounded queue, so that no session waits for a disk: what finds no place there is left out and counted, and the file says where
//! and how much. A disk that takes no more ends the recording, never the session.
//!
//! | topic | schema | what |
//! | --- | --- | --- |
//! | `operator/state` | `taut.State` | states that the operator's device made (operator); that were applied (robot) |
//! | `robot/state` | `taut.State` | states with what the robot feels: fed back (robot), that came (operator) |
//! | `operator/round_trip` | `taut.RoundTrip` | acknowledged states (operator) |
//! | `to_robot/NAME`, `to_operator/NAME` | the channel's own | messages of channels, as they are |
//! | `taut/events` | `taut.Event` | everything else: stops, refusals, drops with their causes, reports |
//!
//! The log time is when it was seen at this end, by its wall clock when the recording began and its monotonic clock from there; the
//! publish time is when it was made, by the estimate of the peer's clock, so that their difference is its age. The sequence is the sender's.

mod messages;
mod observer;
mod pieces;
mod repair;
#[cfg(feature = "view")]
mod view;
#[cfg(not(feature = "view"))]
#[path = "view_absent.rs"]
mod view;
mod writer;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use taut_agent::SessionObserver;
use taut_core::{Bytes, Duration, Time};
use taut_session::Channel;

use self::messages::Content;
use self::observer::Recorder;
use self::pieces::Pieces;
pub use self::repair::{Repaired, repair};
use self::writer::Writer;
use crate::{Clock, flush, spawn_unprivileged};

/// Messages that wait at most, and their bytes.
const CAPACITY: usize = 16_384;
const CAPACITY_BYTES: usize = 16 << 20;

/// How a session is recorded.
#[derive(Clone, Debug)]
pub struct RecordingConfig {
    path: Option<PathBuf>,
    limit: Bytes,
    channels: Vec<Channel>,
    /// Where, and for pages of which origins.
    view: Option<(SocketAddr, Vec<String>)>,
}

impl Default for RecordingConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordingConfig {
    /// Nowhere yet.
    pub const fn new() -> Self {
        Self { path: None, limit: Bytes::new(4_000_000_000), channels: Vec::new(), view: None }
    }

    /// Into this file, which is `….mcap`. What is there already, or is full, becomes `….N.mcap`, N counting up.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Live, for whoever connects there with a program that speaks `foxglove.sdk.v1`. Nobody is asked who they are; of web pages, those of
    /// this host, of Foxglove and of `origins` (RFC 6454, as `https://viewer.example`) are let in.
    #[cfg(feature = "view")]
    pub fn view(mut self, address: SocketAddr, origins: Vec<String>) -> Self {
        self.view = Some((address, origins));
        self
    }

    /// The most that all files of this name take, at least 1 MB; the oldest is removed for it. A file is full at a quarter of it. Default:
    /// 4 GB, some four hours of states and forces at 1 kHz.
    pub fn limit(mut self, limit: Bytes) -> Self {
        self.limit = limit.max(Bytes::new(1_000_000));
        self
    }

    /// The channels that this end declares, in their order.
    pub fn channels(mut self, channels: Vec<Channel>) -> Self {
        self.channels = channels;
        self
    }
}

/// A recording that is being written. A copy is the same one; with the last of them, and of its observers, it ends.
#[derive(Clone, Debug)]
pub struct Recording {
    queue: Queue,
}

/// Messages of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCounts {
    /// In the file, as far as the system says.
    pub written: u64,
    /// Left out: the queue was full, or the disk.
    pub dropped: u64,
    /// Not sent to those who look on.
    pub not_shown: NotShown,
}

/// Messages that somebody who looks on was not sent, of those asked for, by cause; of all who look on together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotShown {
    /// Long messages of a channel of the newest, and coded pictures, that waited while a newer one came that makes them worthless: of pictures
    /// a key picture.
    pub superseded: u64,
    /// The oldest that waited, for want of place.
    pub behind: u64,
    /// Coded pictures that refer to one that was not shown either.
    pub without_reference: u64,
}

impl NotShown {
    /// Of any cause.
    pub const fn total(self) -> u64 {
        self.superseded + self.behind + self.without_reference
    }

    fn add(&mut self, other: Self) {
        self.superseded += other.superseded;
        self.behind += other.behind;
        self.without_reference += other.without_reference;
    }
}

impl Recording {
    /// Opens the file and starts the thread; `clock` is that of the session. `failed` is called once, on that thread, when the file
    /// takes no more before the session has ended: with why.
    ///
    /// # Errors
    /// When the system refuses either, or what stands in the file's place cannot be moved.
    pub fn start(
        config: RecordingConfig,
        clock: Clock,
        failed: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let RecordingConfig { path, limit, channels, view } = config;
        let pieces = path.map(|path| Pieces::new(path, limit.get())).transpose()?;
        let epoch_ns = clock.wall().as_nanos().saturating_sub((clock.now() - Time::ZERO).as_nanos());
        let shared = Arc::new(Shared::default());
        let (items, waiting) = sync_channel(CAPACITY);
        let (ready, is_ready) = sync_channel(1);
        let writer = Writer { pieces, view, channels, epoch_ns, clock, shared: shared.clone() };
        spawn_unprivileged("taut record", || (), move || writer.run(&waiting, &ready, failed))?;
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))?;
        Ok(Self { queue: Queue { items, shared } })
    }

    /// For [`observed`](crate::session::ServeConfig::observed) of the session.
    pub fn observer(&self) -> Box<dyn SessionObserver + Send> {
        Box::new(Recorder::new(self.queue.clone()))
    }

    /// A line of JSON about what happened, for the channel `taut/events`.
    pub fn event(&self, at: Time, line: &str) {
        self.queue.put(at, at, 0, Content::Event(line.trim_end().to_owned()));
    }

    /// Waits until everything is written and the file is finished, but not longer than this; gives what became of it. Nothing is
    /// recorded after that.
    pub fn finish(&self, patience: Duration) -> RecordingCounts {
        flush(&self.queue.items, Item::Done, patience);
        self.counts()
    }

    /// So far.
    pub fn counts(&self) -> RecordingCounts {
        let shared = &self.queue.shared;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RecordingCounts {
            written: count(&shared.written),
            dropped: count(&shared.dropped),
            not_shown: NotShown {
                superseded: count(&shared.superseded),
                behind: count(&shared.behind),
                without_reference: count(&shared.without_reference),
            },
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
    /// Of these, what the file does not say yet.
    unsaid: AtomicU64,
    /// Of [`NotShown`].
    superseded: AtomicU64,
    behind: AtomicU64,
    without_reference: AtomicU64,
}

impl Shared {
    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.unsaid.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Item {
    Message(Recorded),
    /// Everything before it was tried: the file is to be finished.
    Done(SyncSender<()>),
}

/// A message on its way to the file.
#[derive(Debug)]
struct Recorded {
    seen: Time,
    made: Time,
    sequence: u64,
    content: Content,
}

/// The session's end of it.
#[derive(Clone, Debug)]
struct Queue {
    items: SyncSender<Item>,
    shared: Arc<Shared>,
}

impl Queue {
    fn put(&self, seen: Time, made: Time, sequence: u64, content: Content) {
        let length = content.len();
        let fits = self.shared.bytes.fetch_add(length, Ordering::Relaxed) + length <= CAPACITY_BYTES;
        let item = || Item::Message(Recorded { seen, made, sequence, content });
        if !fits || self.items.try_send(item()).is_err() {
            self.shared.bytes.fetch_sub(length, Ordering::Relaxed);
            self.shared.drop_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_session::{ChannelId, ChannelKind, Direction, Encoding, Schema};

    use super::*;

    #[test]
    fn what_finds_no_place_is_counted_and_the_file_says_so() {
        let folder = std::env::temp_dir().join(format!("taut-recording-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.mcap");
        let (items, waiting) = sync_channel(4);
        let queue = Queue { items, shared: Arc::new(Shared::default()) };
        let event = |number: u64| Content::Event(format!("{{\"event\":\"test\",\"t_s\":{number}}}"));
        // Nobody takes anything yet: of what is too many and what is too much there is no end.
        queue.put(Time::ZERO, Time::ZERO, 0, Content::Event(" ".repeat(CAPACITY_BYTES + 1)));
        (1..=7).for_each(|number| queue.put(Time::ZERO, Time::ZERO, number, event(number)));
        let shared = queue.shared.clone();
        drop(queue);
        let (ready, _is_ready) = sync_channel(1);
        let pieces = Some(Pieces::new(path.clone(), 1_000_000).unwrap());
        let clock = Clock::start();
        let writer =
            Writer { pieces, view: None, channels: Vec::new(), epoch_ns: 0, clock, shared: shared.clone() };
        writer.run(&waiting, &ready, |error| panic!("{error}"));
        let bytes = std::fs::read(&path).unwrap();
        let messages = mcap::MessageStream::new(&bytes).unwrap();
        let texts: Vec<String> =
            messages.map(|message| String::from_utf8(message.unwrap().data.to_vec()).unwrap()).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        // In an order of keys that depends on who else is built.
        let first: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
        assert!(first["event"] == "not_recorded" && first["messages"] == 4, "{texts:?}");
        assert_eq!(
            texts[1..],
            (1..=4).map(|n| format!("{{\"event\":\"test\",\"t_s\":{n}}}")).collect::<Vec<_>>()
        );
        assert_eq!((shared.dropped.load(Ordering::Relaxed), shared.bytes.load(Ordering::Relaxed)), (4, 0));
        assert_eq!(repair(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// The events of each file of a session of which enough is recorded for several: their text, and when they were.
    fn events_of_files(is_closed: bool) -> Vec<Vec<(String, u64)>> {
        let name = format!("taut-each-file-{is_closed}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder of the test's own");
        let schema = Schema::new("a", Encoding::Raw);
        let channel = Channel::new("a", Direction::ToRobot, ChannelKind::Telemetry, schema);
        let (items, waiting) = sync_channel(1_000);
        let queue = Queue { items, shared: Arc::new(Shared::default()) };
        let event = |name: &str| Content::Event(format!("{{\"event\":\"{name}\",\"t_s\":0}}"));
        for name in ["recording", "path_there", "connected"] {
            queue.put(Time::ZERO, Time::ZERO, 0, event(name));
        }
        if is_closed {
            queue.put(Time::ZERO, Time::ZERO, 0, event("closed"));
        }
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for number in 0..120 {
            let payload = (0..4_000).map(|_| noise()).collect();
            queue.put(Time::ZERO, Time::ZERO, number, Content::Channel(ChannelId(0), payload));
        }
        let (shared, (ready, _is_ready)) = (queue.shared.clone(), sync_channel(1));
        drop(queue);
        let pieces = Some(Pieces::new(folder.join("a.mcap"), 1_000_000).expect("a folder of the test's own"));
        let (view, clock) = (None, Clock::start());
        let writer =
            Writer { pieces, view, channels: vec![channel], epoch_ns: 0, clock, shared: shared.clone() };
        writer.run(&waiting, &ready, |error| panic!("{error}"));
        assert_eq!(shared.written.load(Ordering::Relaxed), 123 + u64::from(is_closed));
        let texts = |path: PathBuf| {
            let bytes = std::fs::read(path).expect("a folder of the test's own");
            let messages = mcap::MessageStream::new(&bytes)
                .expect("a folder of the test's own")
                .map(|message| message.expect("it was written whole"));
            let events = messages.filter(|message| message.channel.topic == "taut/events");
            let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
            events.map(|message| (text(&message.data), message.publish_time)).collect::<Vec<_>>()
        };
        let all = std::fs::read_dir(&folder)
            .expect("a folder of the test's own")
            .map(|entry| texts(entry.expect("a folder of the test's own").path()))
            .collect();
        std::fs::remove_dir_all(&folder).expect("a folder of the test's own");
        all
    }

    #[test]
    fn each_file_says_how_the_session_is_run_and_with_whom() {
        let event = |name: &str, again: &str| (format!("{{\"event\":\"{name}\",\"t_s\":0{again}}}"), 0);
        let again = ",\"again\":true";
        for is_closed in [false, true] {
            let mut all = events_of_files(is_closed);
            all.sort_by_key(|events| std::cmp::Reverse(events.len()));
            let (first, later) = all.split_first().unwrap();
            let said = ["recording", "path_there", "connected", "closed"].map(|name| event(name, ""));
            assert_eq!(first[..], said[..3 + usize::from(is_closed)]);
            assert!(!later.is_empty());
            let said = ["recording", "connected"].map(|name| event(name, again));
            // Nobody is there any more.
            let said = &said[..2 - usize::from(is_closed)];
            assert!(later.iter().all(|events| events == said), "{later:?}");
        }
    }

    #[test]
    fn definitions_that_would_fill_a_file_do_not_make_one_of_each_message() {
        let folder = std::env::temp_dir().join(format!("taut-definitions-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        // Of letters by chance, so that it is no shorter in the file.
        let mut letter = 1_u32;
        let definition: String = std::iter::repeat_with(|| {
            letter = letter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + (letter >> 24) as u8 % 26)
        })
        .take(100_000)
        .collect();
        let schema = Schema::new("a/B", Encoding::Cdr).definition(definition);
        let channel = Channel::new("b", Direction::ToRobot, ChannelKind::Telemetry, schema);
        let (items, waiting) = sync_channel(100);
        let queue = Queue { items, shared: Arc::new(Shared::default()) };
        (0..100).for_each(|number| {
            queue.put(Time::ZERO, Time::ZERO, number, Content::Channel(ChannelId(0), vec![7; 4_000]));
        });
        let (shared, (ready, _is_ready)) = (queue.shared.clone(), sync_channel(1));
        drop(queue);
        let pieces = Some(Pieces::new(folder.join("a.mcap"), 1_000_000).unwrap());
        let (view, clock) = (None, Clock::start());
        let writer =
            Writer { pieces, view, channels: vec![channel], epoch_ns: 0, clock, shared: shared.clone() };
        writer.run(&waiting, &ready, |error| panic!("{error}"));
        assert_eq!(shared.written.load(Ordering::Relaxed), 100);
        let files = std::fs::read_dir(&folder).unwrap().count();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(files, 1);
    }
}
