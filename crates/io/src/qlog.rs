//! Traces of QUIC connections as files, which a session neither waits for nor ends with: a thread writes them, from a bounded queue.
//! What finds no place in it or on the disk is left out and counted, and the trace says where and how much.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};

use taut_core::{Duration, Time};
use taut_transport::quic::qlog::{Qlog, QlogSink};

use crate::{Clock, flush, spawn_unprivileged};

/// Records that wait at most, and their bytes.
const CAPACITY: usize = 8_192;
const CAPACITY_BYTES: usize = 8 << 20;
/// Files that a process begins at most: strangers make connections too.
const MOST_FILES: u64 = 1_000;
/// Bytes of a file at most: states and forces at 1 kHz make 0.7 MB a second.
const LONGEST: u64 = 1 << 30;

/// A folder into which each QUIC connection writes its trace.
#[derive(Debug)]
pub struct QlogFolder {
    sink: Arc<Sink>,
    epoch_ns: u64,
}

/// Records of all traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QlogCounts {
    /// On the disk, as far as the system says.
    pub written: u64,
    /// Left out: the queue was full, the disk, or the file as long as it may be; and connections that got no file.
    pub dropped: u64,
}

impl QlogFolder {
    /// Makes the folder if there is none, and starts the thread; `clock` is that of the session.
    ///
    /// # Errors
    /// When the system refuses either.
    pub fn start(folder: &Path, clock: &Clock) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let (items, queue) = sync_channel(CAPACITY);
        let shared = Arc::new(Shared::default());
        let mut files = Files { folder: folder.to_owned(), open: BTreeMap::new(), shared: shared.clone() };
        spawn_unprivileged("taut qlog", || (), move || files.run(&queue))?;
        let epoch_ns = clock.wall().as_nanos().saturating_sub((clock.now() - Time::ZERO).as_nanos());
        Ok(Self { sink: Arc::new(Sink { items, shared }), epoch_ns })
    }

    /// For [`QuicConfig::qlog`](taut_transport::quic::QuicConfig::qlog).
    pub fn qlog(&self) -> Qlog {
        Qlog::new(self.sink.clone(), self.epoch_ns)
    }

    /// Waits until everything is written, but not longer than this; gives what became of it.
    pub fn finish(&self, patience: Duration) -> QlogCounts {
        flush(&self.sink.items, Item::Done, patience);
        let shared = &self.sink.shared;
        QlogCounts {
            written: shared.written.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    begun: AtomicU64,
    bytes: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Item {
    /// `missing` of its trace were left out before it.
    Record { trace: Arc<str>, missing: u64, bytes: Vec<u8> },
    /// Everything before it was tried.
    Done(SyncSender<()>),
}

#[derive(Debug)]
struct Sink {
    items: SyncSender<Item>,
    shared: Arc<Shared>,
}

impl QlogSink for Sink {
    fn open(&self, name: &str) -> Option<Box<dyn Write + Send + Sync>> {
        let shared = self.shared.clone();
        if shared.begun.fetch_add(1, Ordering::Relaxed) >= MOST_FILES {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Box::new(Trace { name: name.into(), missing: 0, items: self.items.clone(), shared }))
    }
}

/// The session's end of a trace.
struct Trace {
    name: Arc<str>,
    /// Since the last record that found a place.
    missing: u64,
    items: SyncSender<Item>,
    shared: Arc<Shared>,
}

impl Write for Trace {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let (shared, length) = (&self.shared, record.len());
        let fits = shared.bytes.fetch_add(length, Ordering::Relaxed) + length <= CAPACITY_BYTES;
        let item =
            || Item::Record { trace: self.name.clone(), missing: self.missing, bytes: record.to_vec() };
        if fits && self.items.try_send(item()).is_ok() {
            self.missing = 0;
        } else {
            shared.bytes.fetch_sub(length, Ordering::Relaxed);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            self.missing += 1;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread's end of all traces.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    open: BTreeMap<String, Page>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Page {
    /// `None` where it cannot be had.
    file: Option<File>,
    /// Whole records in it.
    bytes: u64,
    /// Records left out since the last one in it.
    missing: u64,
    /// Is the connection still there, or one of its records on the way here?
    alive: Weak<str>,
}

impl Files {
    /// Until nobody writes any more.
    fn run(&mut self, queue: &Receiver<Item>) {
        while let Ok(item) = queue.recv() {
            match item {
                Item::Record { trace, missing, bytes } => {
                    self.shared.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
                    let page = self.page(&trace);
                    page.missing += missing;
                    let count = match page.put(&bytes) {
                        true => &self.shared.written,
                        false => &self.shared.dropped,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Item::Done(done) => drop(done.try_send(())), // Nobody has to wait.
            }
        }
    }

    fn page(&mut self, trace: &Arc<str>) -> &mut Page {
        if !self.open.contains_key(&**trace) {
            self.open.retain(|_, page| page.alive.strong_count() > 0);
            let path = self.folder.join(format!("{trace}.sqlog"));
            let file = OpenOptions::new().create(true).append(true).open(path);
            let page = Page { file: file.ok(), bytes: 0, missing: 0, alive: Arc::downgrade(trace) };
            self.open.insert(trace.to_string(), page);
        }
        self.open.get_mut(&**trace).expect("it was put in")
    }
}

impl Page {
    /// Writes a record, after one that says how many are missing before it. Whole or not: false.
    fn put(&mut self, record: &[u8]) -> bool {
        let said = match self.missing {
            0 => Vec::new(),
            missing => warning(record, missing),
        };
        let all = [said.as_slice(), record].concat();
        let fits = self.bytes + all.len() as u64 <= LONGEST;
        let written = fits
            && self.file.as_mut().is_some_and(|file| {
                let written = file.write_all(&all).is_ok();
                if !written {
                    // What found room of it.
                    let _ = file.set_len(self.bytes);
                }
                written
            });
        if written {
            (self.bytes, self.missing) = (self.bytes + all.len() as u64, 0);
        } else {
            self.missing += 1;
        }
        written
    }
}

/// An event of the time of this record (draft-ietf-quic-qlog-main-schema-03 section 5.2).
fn warning(record: &[u8], missing: u64) -> Vec<u8> {
    let time = std::str::from_utf8(record).ok().and_then(|text| {
        let rest = text.split_once("\"time\":")?.1;
        rest.split([',', '}']).next()
    });
    let time = time.unwrap_or("0");
    let message = format!("{missing} events are missing here: they could not be written");
    format!(
        "\u{1e}{{\"time\":{time},\"name\":\"loglevel:warning\",\"data\":{{\"message\":\"{message}\"}}}}\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, removed with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("taut-qlog-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(&place).unwrap();
            Self(place)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn event(number: u64) -> String {
        format!("\u{1e}{{\"time\":{number}.5,\"name\":\"transport:packet_sent\",\"data\":{{}}}}\n")
    }

    #[test]
    fn each_connection_has_a_file_of_its_own() {
        let place = Place::new("files");
        let folder = QlogFolder::start(&place.0.join("new"), &Clock::start()).unwrap();
        for name in ["a_client", "b_client"] {
            let mut trace = folder.sink.open(name).unwrap();
            (0..3).for_each(|number| assert!(trace.write(event(number).as_bytes()).is_ok()));
        }
        assert_eq!(folder.finish(Duration::from_secs(60)), QlogCounts { written: 6, dropped: 0 });
        for name in ["a_client", "b_client"] {
            let text = fs::read_to_string(place.0.join(format!("new/{name}.sqlog"))).unwrap();
            assert_eq!(text, (0..3).map(event).collect::<String>());
        }
    }

    #[test]
    fn a_full_disk_holds_nobody_up_and_what_it_does_not_take_is_counted() {
        let place = Place::new("full");
        std::os::unix::fs::symlink("/dev/full", place.0.join("a_client.sqlog")).unwrap();
        let folder = QlogFolder::start(&place.0, &Clock::start()).unwrap();
        let mut trace = folder.sink.open("a_client").unwrap();
        (0..3).for_each(|number| assert!(trace.write(event(number).as_bytes()).is_ok()));
        assert_eq!(folder.finish(Duration::from_secs(60)), QlogCounts { written: 0, dropped: 3 });
    }

    #[test]
    fn a_trace_says_where_events_are_missing() {
        let place = Place::new("missing");
        let (items, queue) = sync_channel(2);
        let shared = Arc::new(Shared::default());
        let mut files = Files { folder: place.0.clone(), open: BTreeMap::new(), shared: shared.clone() };
        let mut trace = Trace { name: "a_client".into(), missing: 0, items, shared: shared.clone() };
        (0..5).for_each(|number| assert!(trace.write(event(number).as_bytes()).is_ok()));
        // Two found a place. There is room again, and the session goes on.
        let first: Vec<Item> = queue.try_iter().collect();
        assert!(trace.write(event(5).as_bytes()).is_ok());
        drop(trace);
        let (all, again) = sync_channel(8);
        first.into_iter().chain(queue.try_iter()).for_each(|item| all.send(item).unwrap());
        drop(all);
        files.run(&again);
        let text = fs::read_to_string(place.0.join("a_client.sqlog")).unwrap();
        let said = "\u{1e}{\"time\":5.5,\"name\":\"loglevel:warning\",\"data\":{\"message\":\"3 events are missing here: they \
                    could not be written\"}}\n";
        assert_eq!(text, [event(0), event(1), said.to_owned(), event(5)].concat());
        assert_eq!((shared.written.load(Ordering::Relaxed), shared.dropped.load(Ordering::Relaxed)), (3, 3));
        assert_eq!(shared.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn strangers_do_not_fill_a_folder_with_files() {
        let place = Place::new("strangers");
        let folder = QlogFolder::start(&place.0, &Clock::start()).unwrap();
        let given = (0..MOST_FILES + 10).filter(|number| folder.sink.open(&number.to_string()).is_some());
        assert_eq!(given.count() as u64, MOST_FILES);
        assert_eq!(folder.finish(Duration::from_secs(60)).dropped, 10);
    }
}
