//! The thread's end of a recording.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{Compression, McapError, WriteOptions};
use serde_json::json;
use taut_core::{Duration, Time};
use taut_session::Channel;

use super::messages::{Content, Topic};
use super::pieces::Pieces;
use super::repair::finish;
use super::{Item, Recorded, Shared};
use crate::Clock;

/// What was put into the queue is in the file after this long, and the time that a chunk takes.
const PERIOD: Duration = Duration::from_millis(500);
/// The longest chunk, before it is compressed.
const CHUNK: usize = 1 << 20;

/// Writes a recording, piece by piece.
pub(super) struct Writer {
    pieces: Pieces,
    channels: Vec<Channel>,
    epoch_ns: u64,
    clock: Clock,
    shared: Arc<Shared>,
}

impl Writer {
    pub(super) const fn new(
        pieces: Pieces,
        channels: Vec<Channel>,
        epoch_ns: u64,
        clock: Clock,
        shared: Arc<Shared>,
    ) -> Self {
        Self { pieces, channels, epoch_ns, clock, shared }
    }

    /// Until nobody records any more.
    pub(super) fn run(&mut self, file: File, queue: &Receiver<Item>, failed: impl FnOnce(io::Error)) {
        if let Err(error) = self.write(file, queue) {
            let path = self.pieces.path().display();
            failed(io::Error::new(error.kind(), format!("{path}: {error}")));
            self.count(queue);
        }
    }

    fn write(&self, file: File, queue: &Receiver<Item>) -> io::Result<()> {
        let mut piece = Piece::begin(file, self.epoch_ns)?;
        loop {
            let wait = std::time::Duration::from_nanos((PERIOD / 4).as_nanos());
            let done = match queue.recv_timeout(wait) {
                Ok(Item::Message(message)) => {
                    self.shared.bytes.fetch_sub(message.content.len(), Ordering::Relaxed);
                    self.say_gap(&mut piece)?;
                    piece.put(message, &self.channels)?;
                    None
                }
                Ok(Item::Done(done)) => Some(Some(done)),
                Err(RecvTimeoutError::Disconnected) => Some(None),
                Err(RecvTimeoutError::Timeout) => None,
            };
            let now = self.clock.now();
            if done.is_some() || piece.is_due(now) {
                self.say_gap(&mut piece)?;
                let count = piece.flush()?;
                self.shared.written.fetch_add(count, Ordering::Relaxed);
            }
            if let Some(done) = done {
                piece.end()?;
                if let Some(done) = done {
                    let _ = done.try_send(()); // Nobody has to wait.
                }
                return Ok(());
            }
            if piece.written() >= self.pieces.largest() {
                piece.end()?;
                piece = Piece::begin(self.pieces.begin()?, self.epoch_ns)?;
            }
        }
    }

    /// Says in the file how many messages are missing, before what follows them.
    fn say_gap(&self, piece: &mut Piece) -> io::Result<()> {
        let missing = self.shared.unsaid.swap(0, Ordering::Relaxed);
        if missing == 0 {
            return Ok(());
        }
        let now = self.clock.now();
        let line = json!({ "event": "not_recorded", "t_s": now.as_secs_f64(), "messages": missing });
        let content = Content::Event(line.to_string());
        piece.put(Recorded { seen: now, made: now, sequence: 0, content }, &self.channels)
    }

    /// The disk takes no more: the rest is counted.
    fn count(&self, queue: &Receiver<Item>) {
        while let Ok(item) = queue.recv() {
            match item {
                Item::Message(message) => {
                    self.shared.bytes.fetch_sub(message.content.len(), Ordering::Relaxed);
                    self.shared.drop_one();
                }
                Item::Done(done) => {
                    let _ = done.try_send(());
                    return;
                }
            }
        }
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
    bytes: usize,
    flushed: Option<Time>,
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
        let mut piece = Self { mcap, file, whole, topics, epoch_ns, count: 0, bytes: 0, flushed: None };
        piece.flush()?;
        Ok(piece)
    }

    fn put(&mut self, message: Recorded, channels: &[Channel]) -> io::Result<()> {
        let topic = message.content.topic();
        let Some(channel_id) = self.channel(topic, channels)? else { return Ok(()) };
        let at = |time: Time| self.epoch_ns + time.as_nanos();
        let header = MessageHeader {
            channel_id,
            // Sequence numbers wrap (MCAP specification, Message).
            sequence: message.sequence as u32,
            log_time: at(message.seen),
            publish_time: at(message.made),
        };
        self.flushed.get_or_insert(message.seen);
        let bytes = message.content.into_bytes(message.sequence);
        self.mcap.write_to_known_channel(&header, &bytes).map_err(io_error)?;
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes.len());
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
        let channel = self.mcap.add_channel(schema, &described.topic, described.encoding, &BTreeMap::new());
        let channel = channel.map_err(io_error)?;
        self.topics.insert(topic, channel);
        Ok(Some(channel))
    }

    /// Has something waited for long, or much?
    fn is_due(&self, now: Time) -> bool {
        let long = self.flushed.is_some_and(|since| now.saturating_since(since) >= PERIOD);
        self.count > 0 && (long || self.bytes >= CHUNK)
    }

    /// Writes what waits, as a chunk; gives how many messages that were.
    fn flush(&mut self) -> io::Result<u64> {
        if let Err(error) = self.mcap.flush() {
            self.cut();
            return Err(io_error(error));
        }
        (self.bytes, self.flushed) = (0, None);
        Ok(std::mem::take(&mut self.count))
    }

    /// So far, in the file.
    fn written(&self) -> u64 {
        self.whole.load(Ordering::Relaxed)
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

fn io_error(error: McapError) -> io::Error {
    match error {
        McapError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
