//! `--record`: the session of an end, as MCAP.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use taut_agent::SessionObserver;
use taut_core::{Bytes, Duration, Time};
use taut_io::Clock;
use taut_io::recording::{NotShown, Recording, RecordingConfig, RecordingCounts};

use crate::channels::Channels;
use crate::host::json_line;
use crate::streams::print;

#[derive(Args, Clone, Debug)]
pub(crate) struct Record {
    /// Record the session: states, forces, channels, and what happened as --json tells it (docs/recordings.md). What is there already
    /// becomes FILE.1.mcap, FILE.2.mcap, …
    #[arg(long, value_name = "FILE.mcap")]
    record: Option<PathBuf>,
    /// The most that all files of --record take together, from 1MB up; the oldest are removed for it
    #[arg(long, value_name = "SIZE", default_value = "4GB", value_parser = limit, requires = "record")]
    record_limit: Bytes,
    /// Show the session live to Foxglove or Lichtblick: ws://127.0.0.1:8765 (Open connection, Foxglove WebSocket). Whoever reaches the
    /// address sees all of it, and can send nothing
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::host::address)]
    view: Option<std::net::SocketAddr>,
    /// Let web pages of this origin look on at --view, such as https://viewer.example. Those of this host and of app.foxglove.dev may, and
    /// programs
    #[arg(long, value_name = "ORIGIN", value_parser = origin, requires = "view")]
    view_origin: Vec<String>,
    /// Let --view be another address than one of this host alone
    #[arg(long, requires = "view")]
    view_anywhere: bool,
}

fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_origin = host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']));
    if is_origin {
        Ok(text.to_owned())
    } else {
        Err("is an origin such as https://viewer.example:8080, without a path".to_owned())
    }
}

fn limit(text: &str) -> Result<Bytes, String> {
    let gigabytes = text.strip_suffix("GB").and_then(|number| number.trim().parse::<f64>().ok());
    let limit: Option<Bytes> = match gigabytes {
        Some(gigabytes) => Some(Bytes::new((gigabytes * 1e9) as u64)),
        None => text.parse().ok(),
    };
    let limit = limit.filter(|limit| *limit >= Bytes::new(1_000_000));
    limit.ok_or_else(|| "is a size from 1MB up, such as 500MB or 4GB".to_owned())
}

/// The end of a command waits for what is not written yet, this long at most.
const PATIENCE: Duration = Duration::from_secs(5);

impl Record {
    /// Where to, if anywhere.
    fn config(&self) -> Result<Option<RecordingConfig>, String> {
        let file = |path| RecordingConfig::new().file(path).limit(self.record_limit);
        let config = self.record.as_ref().map(file);
        if let Some(address) = self.view {
            if !(address.ip().is_loopback() || self.view_anywhere) {
                return Err(format!(
                    "--view {address}: whoever reaches it would see the session; write 127.0.0.1:{}, or add --view-anywhere",
                    address.port()
                ));
            }
            return Ok(Some(config.unwrap_or_default().view(address, self.view_origin.clone())));
        }
        Ok(config)
    }

    pub(crate) fn is_on(&self) -> bool {
        // What is wrong is said when it is started.
        !matches!(self.config(), Ok(None))
    }

    /// Starts it, if it is asked for.
    /// `about` is how the session is run, for whoever reads the file.
    pub(crate) fn start(
        &self,
        clock: Clock,
        channels: &Channels,
        json: bool,
        about: Vec<(&'static str, Value)>,
    ) -> Result<Recorded, String> {
        let Some(config) = self.config()? else { return Ok(Recorded(None)) };
        let config = config.channels(channels.declared());
        let failed = move |error: std::io::Error| {
            let why = format!("the recording ended, the session goes on: {error}");
            crate::say(&why);
            if json {
                print(&json_line("recording_ended", clock.now(), [("why", json!(error.to_string()))]));
            }
        };
        let recording = Recording::start(config, clock, failed);
        let recording = recording.map_err(|error| match &self.record {
            Some(path) => format!("--record {}: {error}", path.display()),
            None => format!("--view: {error}"),
        })?;
        let about = about
            .into_iter()
            .chain([("taut", json!(env!("CARGO_PKG_VERSION"))), ("channels", channels.as_json())]);
        recording.event(clock.now(), &json_line("recording", clock.now(), about));
        Ok(Recorded(Some(recording)))
    }
}

/// What records, if anything does.
#[derive(Clone, Debug)]
pub(crate) struct Recorded(Option<Recording>);

impl Recorded {
    pub(crate) fn observer(&self) -> Option<Box<dyn SessionObserver + Send>> {
        self.0.as_ref().map(Recording::observer)
    }

    /// A line of JSON, made where there is a recording.
    pub(crate) fn event(&self, at: Time, line: impl FnOnce() -> Option<String>) {
        if let Some(recording) = &self.0
            && let Some(line) = line()
        {
            recording.event(at, &line);
        }
    }

    /// For [`Metrics::tell`](crate::metrics::Metrics::tell).
    pub(crate) fn counts(&self) -> Option<Value> {
        let RecordingCounts { written, dropped, not_shown } = self.0.as_ref()?.counts();
        let NotShown { superseded, behind, without_reference } = not_shown;
        Some(json!({
            "written": written,
            "not_written": dropped,
            "view_dropped": { "superseded": superseded, "behind": behind, "without_reference": without_reference },
        }))
    }

    /// Finishes the file. Is something missing?
    pub(crate) fn finish(&self) {
        let Some(recording) = &self.0 else { return };
        let RecordingCounts { dropped, not_shown, .. } = recording.finish(PATIENCE);
        if not_shown.total() > 0 {
            let NotShown { superseded, behind, without_reference } = not_shown;
            crate::say(&format!(
                "who looked on by --view missed something: {superseded} messages were superseded by newer ones, {behind} fell behind, {without_reference} pictures refer to one that did"
            ));
        }
        if dropped > 0 {
            crate::say(&format!(
                "{dropped} messages are missing in the recording: the disk was full or too slow"
            ));
        }
    }
}
