//! What a command that runs beside a robot prints. A session never waits for its output and never ends with it: each stream
//! has a thread that writes, and a bounded queue. Lines that cannot be written, or not soon enough, are left out, and the
//! stream says how many as soon as it can again.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::json;
use taut_core::{Duration, Time};
use taut_io::{Clock, flush, spawn_unprivileged};

use crate::host::json_line;

/// How a stream says that lines are missing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Text,
    /// JSON Lines, with the time of this clock.
    Json(Clock),
}

/// Pieces of text that wait at most, of a line or a few each; and their bytes: a message of a channel may be long.
const CAPACITY: usize = 1_024;
const CAPACITY_BYTES: usize = 32 << 20;
/// What is missing is said after so long, also when nothing new is to be written.
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);
/// At its end a command waits so long for what is left.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

static STREAMS: OnceLock<Streams> = OnceLock::new();

struct Streams {
    out: Queue,
    err: Queue,
}

/// From now on [`print()`] and [`say`] wait for nobody. Lines of JSON go to standard output only.
pub(crate) fn start(form: Form) -> Result<(), String> {
    let streams = Streams {
        out: Queue::start("taut stdout", form, io::stdout)?,
        err: Queue::start("taut stderr", Form::Text, io::stderr)?,
    };
    STREAMS.set(streams).map_err(|_| "the output was started twice".to_owned())
}

/// Writes lines to standard output.
pub(crate) fn print(text: &str) {
    let text = crate::lines_without_harm(text);
    match STREAMS.get() {
        Some(streams) => streams.out.push(text.into_owned()),
        None => drop(io::stdout().write_all(text.as_bytes())),
    }
}

/// Writes a line to standard error. Unlike `eprintln!` it does not panic where that is closed.
pub(crate) fn say(line: &str) {
    let line = format!("{line}\n");
    match STREAMS.get() {
        Some(streams) => streams.err.push(line),
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Says what goes wrong again and again, once a second: whoever causes it fills no disk.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    next: Time,
    unsaid: u64,
}

impl Complaints {
    /// Says it, or counts it for the next; `is_last`: says it in any case.
    pub(crate) fn say(&mut self, what: &str, is_last: bool) {
        if let Some(line) = self.line(Clock::since_boot(), what, is_last) {
            crate::say(&line);
        }
    }

    fn line(&mut self, now: Time, what: &str, is_last: bool) -> Option<String> {
        if now < self.next && !is_last {
            self.unsaid += 1;
            return None;
        }
        self.next = now + Duration::from_secs(1);
        Some(match std::mem::take(&mut self.unsaid) {
            0 => what.to_owned(),
            count => format!("{what} (and {count} times before, for this or another reason)"),
        })
    }
}

/// Waits until everything is written, but not longer than this.
pub(crate) fn finish(patience: Duration) {
    let Some(streams) = STREAMS.get() else { return };
    let clock = Clock::start();
    for queue in [&streams.out, &streams.err] {
        flush(&queue.items, Item::Done, patience.saturating_sub(clock.now() - Time::ZERO));
    }
}

enum Item {
    Text(String),
    /// Everything before it was tried.
    Done(SyncSender<()>),
}

struct Queue {
    items: SyncSender<Item>,
    /// Lines that found no place.
    dropped: &'static AtomicU64,
    /// Bytes that wait.
    bytes: &'static AtomicUsize,
}

impl Queue {
    fn start<S: Write + AsFd + 'static>(name: &str, form: Form, stream: fn() -> S) -> Result<Self, String> {
        let (items, queue) = sync_channel(CAPACITY);
        // Both live as long as the process.
        let dropped: &'static AtomicU64 = Box::leak(Box::default());
        let bytes: &'static AtomicUsize = Box::leak(Box::default());
        let work = move || {
            let mut sink = |bytes: &[u8]| write_some(&stream(), bytes);
            run(&queue, dropped, bytes, &mut Lines::new(form), &mut sink);
        };
        spawn_unprivileged(name, || (), work).map_err(|error| format!("a thread: {error}"))?;
        Ok(Self { items, dropped, bytes })
    }

    fn push(&self, text: String) {
        let length = text.len();
        if self.bytes.fetch_add(length, Ordering::Relaxed) + length > CAPACITY_BYTES {
            self.bytes.fetch_sub(length, Ordering::Relaxed);
            self.dropped.fetch_add(count(&text), Ordering::Relaxed);
        } else if let Err(
            TrySendError::Full(Item::Text(text)) | TrySendError::Disconnected(Item::Text(text)),
        ) = self.items.try_send(Item::Text(text))
        {
            self.bytes.fetch_sub(length, Ordering::Relaxed);
            self.dropped.fetch_add(count(&text), Ordering::Relaxed);
        }
    }
}

/// Until the process ends.
fn run(
    queue: &Receiver<Item>,
    dropped: &AtomicU64,
    bytes: &AtomicUsize,
    lines: &mut Lines,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<usize>,
) {
    loop {
        let item = match lines.missing {
            0 => queue.recv().map_err(RecvTimeoutError::from),
            _ => queue.recv_timeout(RETRY),
        };
        lines.missing += dropped.swap(0, Ordering::Relaxed);
        match item {
            Ok(Item::Text(text)) => {
                bytes.fetch_sub(text.len(), Ordering::Relaxed);
                lines.put(&text, sink);
            }
            Ok(Item::Done(done)) => {
                lines.confess(sink);
                let _ = done.try_send(()); // Nobody has to wait.
            }
            Err(RecvTimeoutError::Timeout) => lines.confess(sink),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Writes what a stream takes; where that is nothing now, waits for it.
fn write_some(stream: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::io::write(stream, bytes) {
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(stream, PollFlags::OUT)], None);
            }
            Err(Errno::INTR) => {}
            written => return Ok(written?),
        }
    }
}

/// What is missing on a stream, without output of its own.
#[derive(Debug)]
struct Lines {
    form: Form,
    /// Lines since this was said last.
    missing: u64,
    /// The last line was written in part.
    torn: bool,
}

impl Lines {
    const fn new(form: Form) -> Self {
        Self { form, missing: 0, torn: false }
    }

    /// Writes lines; first what is missing before them.
    fn put(&mut self, text: &str, sink: &mut dyn FnMut(&[u8]) -> io::Result<usize>) {
        self.confess(sink);
        if self.missing > 0 || !self.write(text, sink) {
            self.missing += count(text);
        }
    }

    /// Says what is missing, if anything is and the stream takes it.
    fn confess(&mut self, sink: &mut dyn FnMut(&[u8]) -> io::Result<usize>) {
        if self.missing == 0 {
            return;
        }
        let (end_of_line, lines) = (if self.torn { "\n" } else { "" }, self.missing);
        let said = match self.form {
            Form::Text => format!("taut: {lines} lines are missing here: they could not be written\n"),
            Form::Json(clock) => json_line("output_dropped", clock.now(), [("lines", json!(lines))]),
        };
        if self.write(&format!("{end_of_line}{said}"), sink) {
            self.missing = 0;
        }
    }

    /// Whole or not: false where the stream took no more.
    fn write(&mut self, text: &str, sink: &mut dyn FnMut(&[u8]) -> io::Result<usize>) -> bool {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match sink(rest) {
                Ok(written @ 1..) => {
                    rest = &rest[written..];
                    self.torn = !rest.is_empty();
                }
                Ok(0) | Err(_) => return false,
            }
        }
        true
    }
}

fn count(text: &str) -> u64 {
    text.lines().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that takes so many bytes and then fails.
    #[derive(Default)]
    struct Disk {
        room: usize,
        written: Vec<u8>,
    }

    impl Disk {
        fn sink(&mut self) -> impl FnMut(&[u8]) -> io::Result<usize> {
            |bytes| match bytes.len().min(self.room) {
                0 => Err(io::ErrorKind::StorageFull.into()),
                count => {
                    self.room -= count;
                    self.written.extend_from_slice(&bytes[..count]);
                    Ok(count)
                }
            }
        }

        fn text(&self) -> &str {
            std::str::from_utf8(&self.written).unwrap()
        }
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_counted_and_said_when_there_is_room_again() {
        let (mut lines, mut disk) = (Lines::new(Form::Text), Disk { room: 6, ..Disk::default() });
        lines.put("one\n", &mut disk.sink());
        lines.put("two\n", &mut disk.sink()); // Two bytes of it find room.
        lines.put("three\nfour\n", &mut disk.sink());
        disk.room = 1_000;
        lines.put("five\n", &mut disk.sink());
        let told = "one\ntw\ntaut: 3 lines are missing here: they could not be written\nfive\n";
        assert_eq!((disk.text(), lines.missing), (told, 0));
    }

    #[test]
    fn what_is_missing_is_said_as_json_where_lines_are_json() {
        let (mut lines, mut disk) = (Lines::new(Form::Json(Clock::start())), Disk::default());
        lines.put("{}\n", &mut disk.sink());
        disk.room = 1_000;
        lines.confess(&mut disk.sink());
        let line: serde_json::Value = serde_json::from_str(disk.text()).unwrap();
        assert_eq!((line["event"].as_str(), line["lines"].as_u64()), (Some("output_dropped"), Some(1)));
    }

    #[test]
    fn what_goes_wrong_again_and_again_is_said_once_a_second_and_the_last_in_any_case() {
        let mut complaints = Complaints::default();
        let mut at = |ms, is_last| complaints.line(Time::ZERO + Duration::from_millis(ms), "noise", is_last);
        assert_eq!(at(0, false).as_deref(), Some("noise"));
        assert_eq!((at(1, false), at(999, false)), (None, None));
        let counted = "noise (and 2 times before, for this or another reason)";
        assert_eq!(at(1_000, false).as_deref(), Some(counted));
        assert_eq!(at(1_001, true).as_deref(), Some("noise"));
    }

    #[test]
    fn a_stream_that_takes_nothing_holds_nobody_up_and_what_found_no_place_is_said_later() {
        let (reader, writer) = io::pipe().unwrap();
        let (reader, writer): (_, &'static io::PipeWriter) = (reader, Box::leak(Box::new(writer)));
        let (items, queue) = sync_channel(CAPACITY);
        let dropped: &'static AtomicU64 = Box::leak(Box::default());
        let bytes: &'static AtomicUsize = Box::leak(Box::default());
        let output = Queue { items, dropped, bytes };
        std::thread::spawn(move || {
            let mut sink = |bytes: &[u8]| write_some(writer, bytes);
            run(&queue, dropped, bytes, &mut Lines::new(Form::Text), &mut sink);
        });
        // More than the pipe and the queue hold; nobody reads.
        let line = format!("{}\n", "x".repeat(1_000));
        let sent = 3_000;
        (0..sent).for_each(|_| output.push(line.clone()));
        flush(&output.items, Item::Done, Duration::ZERO);
        // Somebody reads again.
        let mut text = String::new();
        let mut reader = io::BufReader::new(reader);
        while !text.contains("missing") {
            assert_ne!(io::BufRead::read_line(&mut reader, &mut text).unwrap(), 0);
        }
        let said = text.lines().last().unwrap().split(' ').nth(1).unwrap().parse::<usize>().unwrap();
        let written = text.lines().count() - 1;
        assert!(said > 0 && written + said <= sent, "{written} written, {said} missing");
    }
}
