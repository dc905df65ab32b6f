//! What the program says, one line each. Whoever does not read holds nothing up: a thread writes, from a bounded queue.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Map, Value};
use taut_core::printable;

/// Lines that wait at most.
const WAITING: usize = 1_024;

pub(crate) struct Report {
    json: bool,
    lines: SyncSender<String>,
    /// Lines that found no place.
    dropped: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Report {
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(json: bool) -> std::io::Result<Self> {
        let (lines, queue) = sync_channel(WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let own = Arc::clone(&dropped);
        let write = move || write(&queue, json, &own);
        let thread = std::thread::Builder::new().name("report".to_owned()).spawn(write)?;
        Ok(Self { json, lines, dropped, thread })
    }

    /// An event, and what belongs to it.
    pub(crate) fn tell(&self, event: &str, fields: &[(&str, Value)]) {
        if self.lines.try_send(line(self.json, event, fields)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for what is left to be written, but not longer than a second.
    pub(crate) fn finish(self) {
        drop(self.lines);
        for _ in 0..200 {
            if self.thread.is_finished() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

fn line(json: bool, event: &str, fields: &[(&str, Value)]) -> String {
    if json {
        let mut object = Map::from_iter([("event".to_owned(), event.into())]);
        object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        return Value::Object(object).to_string();
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // Names of types are peers' texts.
    let add =
        |line: String, (name, value): &(&str, Value)| format!("{line}, {name}: {}", printable(&text(value)));
    fields.iter().fold(event.to_owned(), add)
}

/// Until the program ends. Whoever does not listen any more is told nothing.
fn write(queue: &Receiver<String>, json: bool, dropped: &AtomicU64) {
    while let Ok(next) = queue.recv() {
        let _ = writeln!(std::io::stdout().lock(), "{next}");
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let missing = line(json, "lines missing", &[("count", missing.into())]);
            let _ = writeln!(std::io::stdout().lock(), "{missing}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_text_steers_no_terminal() {
        let why = "a publisher has type \u{1b}[2Jx";
        let told = line(false, "wrong topic", &[("why", why.into()), ("stops", true.into())]);
        assert_eq!(told, r"wrong topic, why: a publisher has type \u{1b}[2Jx, stops: true");
    }
}
