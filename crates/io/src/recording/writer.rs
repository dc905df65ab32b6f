//! The thread's end of a recording.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};

use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{Compression, McapError, WriteOptions};
use serde_json::json;
use taut_core::{Duration, Time};
use taut_session::Channel;

use super::messages::{Content, Topic};
use super::pieces::Pieces;
use super::repair::finish;
use super::view::View;
use super::{Item, NotShown, Recorded, Shared};
use crate::Clock;

/// What was put into the queue is in the file after this long, and the time that a chunk takes.
const PERIOD: Duration = Duration::from_millis(500);
/// What those who look on miss is said so often.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// What a message takes beside its own bytes: its record's header (MCAP specification, Message) and its entry in the chunk's index.
const MESSAGE_OVERHEAD: u64 = 9 + 22 + 16;
/// What a chunk takes in the end of its file: its index, of so many bytes and 10 for each topic.
const CHUNK_INDEX: u64 = 82;
const CHUNK_INDEX_TOPIC: u64 = 10;

/// What each file says: how the session is run, and with whom, until that is over.
const IN_EACH_FILE: [&str; 2] = [r#""event":"recording""#, r#""event":"connected""#];
const CLOSED: &str = r#""event":"closed""#;

/// Writes a recording, piece by piece, and shows it to whoever looks on.
pub(super) struct Writer {
    pub(super) pieces: Option<Pieces>,
    /// Where, and for pages of which origins.
    pub(super) view: Option<(SocketAddr, Vec<String>)>,
    pub(super) channels: Vec<Channel>,
    pub(super) epoch_ns: u64,
    pub(super) clock: Clock,
    pub(super) shared: Arc<Shared>,
}

/// Where it goes, as long as that is to be had.
struct Out {
    piece: Option<Piece>,
    /// The last of each of [`IN_EACH_FILE`]: when it happened, and its line.
    in_each_file: [Option<(Time, Vec<u8>)>; 2],
    view: Option<View>,
    /// What nobody was told yet, and since when.
    not_shown: NotShown,
    since: Time,
}

impl Writer {
    /// Until nobody records any more. `ready` is told when it has begun, or why not.
    pub(super) fn run(
        self,
        queue: &Receiver<Item>,
        ready: &SyncSender<io::Result<()>>,
        failed: impl FnOnce(io::Error),
    ) {
        let mut out = match self.begin() {
            Ok(out) => out,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(())); // Somebody waits for it.
        let mut failed = Some(failed);
        let wait = std::time::Duration::from(PERIOD / 4);
        loop {
            let item = queue.recv_timeout(wait);
            let ends = matches!(item, Ok(Item::Done(_)) | Err(RecvTimeoutError::Disconnected));
            let (put, done) = match item {
                Ok(Item::Message(message)) => {
                    self.shared.bytes.fetch_sub(message.content.len(), Ordering::Relaxed);
                    (self.put(&mut out, message), None)
                }
                Ok(Item::Done(done)) => (Ok(()), Some(done)),
                Err(_) => (Ok(()), None),
            };
            let told = put.and_then(|()| self.say_not_shown(&mut out, ends));
            if let Err(error) = told.and_then(|()| self.keep(&mut out, ends)) {
                let lost = out.piece.take().map_or(0, |piece| piece.count);
                self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
                if let (Some(failed), Some(pieces)) = (failed.take(), &self.pieces) {
                    let why = format!("{}: {error}", pieces.path().display());
                    failed(io::Error::new(error.kind(), why));
                }
            }
            if let Some(done) = done {
                let _ = done.try_send(()); // Nobody has to wait.
            }
            if ends {
                return;
            }
        }
    }

    fn begin(&self) -> io::Result<Out> {
        let view = self.view.as_ref().map(|(address, origins)| {
            let no_view = |error: io::Error| {
                io::Error::new(error.kind(), format!("no live view at {address}: {error}"))
            };
            View::start(*address, origins.clone(), &self.channels).map_err(no_view)
        });
        let view = view.transpose()?;
        let piece = self.pieces.as_ref().map(|pieces| Piece::begin(pieces.begin()?, self.epoch_ns));
        let (not_shown, since) = (NotShown::default(), Time::ZERO);
        Ok(Out { piece: piece.transpose()?, in_each_file: [None, None], view, not_shown, since })
    }

    fn put(&self, out: &mut Out, message: Recorded) -> io::Result<()> {
        let Recorded { seen, made, sequence, content } = message;
        let (topic, view) = (content.topic(), out.view.as_ref());
        let view = view.filter(|view| view.wants(topic));
        // The disk takes no more: that is counted.
        let is_lost = out.piece.is_none() && self.pieces.is_some();
        if is_lost {
            self.shared.drop_one();
        }
        if out.piece.is_none() && view.is_none() {
            return Ok(());
        }
        let log_time = self.epoch_ns + seen.as_nanos();
        let in_each_file = match &content {
            Content::Event(line) if line.contains(CLOSED) => {
                out.in_each_file[1] = None;
                None
            }
            Content::Event(line) => IN_EACH_FILE.iter().position(|event| line.contains(event)),
            _ => None,
        };
        let bytes = Arc::new(content.into_bytes(sequence));
        if let Some(which) = in_each_file {
            out.in_each_file[which] = Some((made, again(&bytes)));
        }
        if let Some(view) = view {
            let not_shown = view.show(topic, log_time, &bytes);
            self.shared.superseded.fetch_add(not_shown.superseded, Ordering::Relaxed);
            self.shared.behind.fetch_add(not_shown.behind, Ordering::Relaxed);
            self.shared.without_reference.fetch_add(not_shown.without_reference, Ordering::Relaxed);
            if not_shown.total() > 0 && out.not_shown.total() == 0 {
                out.since = self.clock.now();
            }
            out.not_shown.add(not_shown);
        }
        let Some(piece) = &mut out.piece else { return Ok(()) };
        self.say_gap(piece)?;
        piece.put(topic, seen, made, sequence, &bytes, &self.channels)
    }

    /// Says what those who look on miss, in the file and to them, once in a while and at the end.
    fn say_not_shown(&self, out: &mut Out, ends: bool) -> io::Result<()> {
        let now = self.clock.now();
        if out.not_shown.total() == 0 || !ends && now.saturating_since(out.since) < STATUS_INTERVAL {
            return Ok(());
        }
        let NotShown { superseded, behind, without_reference } = std::mem::take(&mut out.not_shown);
        let line = json!({
            "event": "not_shown",
            "t_s": now.as_secs_f64(),
            "superseded": superseded,
            "behind": behind,
            "without_reference": without_reference,
        });
        self.put(
            out,
            Recorded { seen: now, made: now, sequence: 0, content: Content::Event(line.to_string()) },
        )
    }

    /// Writes what has waited for long, ends the file when it `ends`, and begins the next when it is full.
    fn keep(&self, out: &mut Out, ends: bool) -> io::Result<()> {
        let (Some(piece), Some(pieces)) = (&mut out.piece, &self.pieces) else { return Ok(()) };
        if ends || piece.is_due(self.clock.now(), pieces.chunk()) {
            self.say_gap(piece)?;
            let count = piece.flush()?;
            self.shared.written.fetch_add(count, Ordering::Relaxed);
        }
        // Where definitions alone would fill a file, it is as long as there are messages worth them.
        let largest = pieces.largest().max(4 * piece.described);
        let is_full = piece.with_end() + 2 * pieces.chunk() >= largest;
        if (ends || is_full)
            && let Some(piece) = out.piece.take()
        {
            piece.end()?;
        }
        if is_full && !ends {
            let mut piece = Piece::begin(pieces.begin()?, self.epoch_ns)?;
            let now = self.clock.now();
            for (made, line) in out.in_each_file.iter().flatten() {
                piece.put(Topic::Events, now, *made, 0, line, &self.channels)?;
            }
            // They were counted in the first file.
            piece.count = 0;
            out.piece = Some(piece);
        }
        Ok(())
    }

    /// Says in the file how many messages are missing, before what follows them.
    fn say_gap(&self, piece: &mut Piece) -> io::Result<()> {
        let missing = self.shared.unsaid.swap(0, Ordering::Relaxed);
        if missing == 0 {
            return Ok(());
        }
        let now = self.clock.now();
        let line = json!({ "event": "not_recorded", "t_s": now.as_secs_f64(), "messages": missing });
        piece.put(Topic::Events, now, now, 0, line.to_string().as_bytes(), &self.channels)
    }
}

/// One file. Only whole chunks go into it.
struct Piece {
    mcap: mcap::Writer<NoSeek<BufWriter<Output>>>,
    /// Of the file, for its end where a disk is full.
    file: File,
    whole: Arc<AtomicU64>,
    topics: BTreeMap<Topic, u16>,
    epoch_ns: u64,
    /// Since the last flush: messages, and their bytes.
    count: u64,
    bytes: u64,
    flushed: Option<Time>,
    chunks: u64,
    /// What names and schemas of topics take in the end.
    described: u64,
}

impl Piece {
    fn begin(file: File, epoch_ns: u64) -> io::Result<Self> {
        let whole = Arc::new(AtomicU64::new(0));
        let output = Output { file: file.try_clone()?, written: 0, whole: whole.clone(), is_broken: false };
        // The library's defaults name its version, and compress on as many threads as the machine has.
        let options = WriteOptions::new()
            .library("taut")
            .compression(Some(Compression::Lz4))
            .chunk_size(None)
            .disable_seeking(true);
        let mcap = options.create(NoSeek::new(BufWriter::new(output))).map_err(io_error)?;
        let topics = BTreeMap::new();
        let mut piece = Self {
            mcap,
            file,
            whole,
            topics,
            epoch_ns,
            count: 0,
            bytes: 0,
            flushed: None,
            chunks: 0,
            described: 1_000,
        };
        piece.flush()?;
        Ok(piece)
    }

    fn put(
        &mut self,
        topic: Topic,
        seen: Time,
        made: Time,
        sequence: u64,
        bytes: &[u8],
        channels: &[Channel],
    ) -> io::Result<()> {
        let Some(channel_id) = self.channel(topic, channels)? else { return Ok(()) };
        let at = |time: Time| self.epoch_ns + time.as_nanos();
        let header = MessageHeader {
            channel_id,
            // Sequence numbers wrap (MCAP specification, Message).
            sequence: sequence as u32,
            log_time: at(seen),
            publish_time: at(made),
        };
        self.flushed.get_or_insert(seen);
        self.mcap.write_to_known_channel(&header, bytes).map_err(io_error)?;
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes.len() as u64 + MESSAGE_OVERHEAD);
        Ok(())
    }

    fn channel(&mut self, topic: Topic, channels: &[Channel]) -> io::Result<Option<u16>> {
        if let Some(known) = self.topics.get(&topic) {
            return Ok(Some(*known));
        }
        let Some(described) = topic.described(channels) else { return Ok(None) };
        let schema =
            self.mcap.add_schema(&described.schema, described.schema_encoding, &described.definition);
        let schema = schema.map_err(io_error)?;
        let channel =
            self.mcap.add_channel(schema, &described.topic, described.encoding, &described.metadata);
        let channel = channel.map_err(io_error)?;
        // Each stands twice: before its first message, and in the end.
        self.described += 2 * (described.definition.len() + described.topic.len() + 200) as u64;
        self.topics.insert(topic, channel);
        Ok(Some(channel))
    }

    /// Has something waited for long, or as much as a chunk takes?
    fn is_due(&self, now: Time, chunk: u64) -> bool {
        let long = self.flushed.is_some_and(|since| now.saturating_since(since) >= PERIOD);
        self.count > 0 && (long || self.bytes >= chunk)
    }

    /// Writes what waits, as a chunk; gives how many messages that were.
    fn flush(&mut self) -> io::Result<u64> {
        if let Err(error) = self.mcap.flush() {
            self.cut();
            return Err(io_error(error));
        }
        (self.bytes, self.flushed, self.chunks) = (0, None, self.chunks + 1);
        Ok(std::mem::take(&mut self.count))
    }

    /// So far, in the file.
    fn written(&self) -> u64 {
        self.whole.load(Ordering::Relaxed)
    }

    /// What it would take if it ended now.
    fn with_end(&self) -> u64 {
        self.written()
            + self.described
            + self.chunks * (CHUNK_INDEX + CHUNK_INDEX_TOPIC * self.topics.len() as u64)
    }

    /// Gives it its index and its end.
    fn end(mut self) -> io::Result<()> {
        let ended = self.mcap.finish().map(drop).map_err(io_error);
        if ended.is_err() {
            self.cut();
        }
        ended
    }

    /// Leaves whole chunks alone in it, and if there is room an end.
    fn cut(&mut self) {
        let whole = self.written();
        let done = self.file.set_len(whole).and_then(|()| self.file.seek(io::SeekFrom::Start(whole)));
        if done.and_then(|_| finish(&mut self.file)).is_err() {
            let _ = self.file.set_len(whole);
        }
    }
}

/// The file, as far as it takes anything: after the first failure nothing.
struct Output {
    file: File,
    written: u64,
    /// As of the last flush.
    whole: Arc<AtomicU64>,
    is_broken: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_broken {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = self.file.write(bytes);
        match &written {
            Ok(count) => self.written += *count as u64,
            Err(error) => self.is_broken = error.kind() != io::ErrorKind::Interrupted,
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.is_broken {
            self.whole.store(self.written, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// An event's line as the files say it that come after its own.
fn again(line: &[u8]) -> Vec<u8> {
    let fields = line.strip_suffix(b"}").unwrap_or(line);
    [fields, br#","again":true}"#].concat()
}

fn io_error(error: McapError) -> io::Error {
    match error {
        McapError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
