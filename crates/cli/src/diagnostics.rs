//! What a person who debugs a session can ask for: what happens inside, line by line, and traces of QUIC connections.

use std::fmt::{Debug, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};
use taut_core::{Duration, printable};
use taut_io::session::TransportConfig;
use taut_io::{Clock, QlogFolder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::host::json_line;
use crate::streams::{self, Form};

#[derive(Args, Clone, Debug)]
pub(crate) struct Log {
    /// Also tell what happens inside, for whoever debugs it: debug, or by part, such as info,taut_transport=debug,quinn_proto=trace
    /// (the directives of tracing's EnvFilter). To standard error; with --json to standard output, as events `log`
    #[arg(long, value_name = "FILTER", env = "TAUT_LOG", hide_env_values = true)]
    log: Option<String>,
}

impl Log {
    fn filter(&self) -> Option<&str> {
        self.log.as_deref().filter(|filter| !filter.is_empty())
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.filter().is_some()
    }

    /// From now on output waits for nobody, and tells what happens inside if that is asked for.
    pub(crate) fn start(&self, json: bool, clock: Clock) -> Result<(), String> {
        streams::start(if json { Form::Json(clock) } else { Form::Text })?;
        let Some(filter) = self.filter() else { return Ok(()) };
        let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log {filter}: {error}"))?;
        let all = Registry::default().with(Lines { json, clock, put: streams_put }).with(filter);
        tracing::subscriber::set_global_default(all).map_err(|error| format!("--log: {error}"))
    }
}

/// Neither of them waits.
fn streams_put(json: bool, line: &str) {
    if json { streams::print(line) } else { streams::say(line) }
}

/// Writes a line an event.
struct Lines {
    json: bool,
    clock: Clock,
    put: fn(bool, &str),
}

/// What an event or a span says.
#[derive(Default)]
struct Said {
    message: String,
    fields: Map<String, Value>,
}

impl Said {
    /// ` name=value …`
    fn in_words(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.fields {
            let _ = match value {
                Value::String(value) => write!(text, " {name}={value}"),
                value => write!(text, " {name}={value}"),
            };
        }
        text
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields.insert(field.name().to_owned(), value.into());
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut said = Said::default();
        attributes.record(&mut said);
        span.extensions_mut().insert(said);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(said) = span.extensions_mut().get_mut::<Said>() {
            values.record(said);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let (at, metadata, mut said) = (self.clock.now(), event.metadata(), Said::default());
        event.record(&mut said);
        let (mut named, mut listed) = (String::new(), Vec::new());
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let Some(of) = extensions.get::<Said>() else { continue };
            if self.json {
                listed.push(json!({ "name": span.name(), "fields": of.fields }));
            } else {
                let _ = write!(named, "{}{}: ", span.name(), of.in_words());
            }
        }
        let level = metadata.level().as_str();
        if self.json {
            let more = [
                ("level", json!(level.to_lowercase())),
                ("target", json!(metadata.target())),
                ("message", json!(said.message)),
                ("fields", Value::Object(said.fields)),
                ("spans", Value::Array(listed)),
            ];
            return (self.put)(true, &json_line("log", at, more));
        }
        let (seconds, target, fields) = (at.as_secs_f64(), metadata.target(), said.in_words());
        let line = format!("{seconds:>9.3} s  {level:<5} {target}: {named}{}{fields}", said.message);
        (self.put)(false, &printable(&line).at_most(crate::LONGEST_LINE).to_string());
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Traces {
    /// Write each connection's packets to this folder, as qlog that qvis opens: a file each, at most 1 GB (quic, mpquic)
    #[arg(long, value_name = "FOLDER")]
    qlog: Option<PathBuf>,
}

/// The end of it waits for what is not written yet, this long at most.
const PATIENCE: Duration = Duration::from_secs(1);

impl Traces {
    /// Gives the transport with it, and what is to be kept until the end of the command.
    pub(crate) fn of(
        &self,
        transport: TransportConfig,
        clock: &Clock,
    ) -> Result<(TransportConfig, Option<Folder>), String> {
        let Some(path) = &self.qlog else { return Ok((transport, None)) };
        if !transport.kind().is_always_encrypted() {
            return Err(format!("--qlog is for quic and mpquic; {} has no such packets", transport.kind()));
        }
        let folder = QlogFolder::start(path, clock);
        let folder = folder.map_err(|error| format!("--qlog {}: {error}", path.display()))?;
        Ok((transport.qlog(folder.qlog()), Some(Folder { files: folder, path: path.clone() })))
    }
}

/// Where traces are written for as long as this lives.
pub(crate) struct Folder {
    files: QlogFolder,
    path: PathBuf,
}

impl Drop for Folder {
    /// Is something missing?
    fn drop(&mut self) {
        let missing = self.files.finish(PATIENCE).dropped;
        if missing > 0 {
            let path = self.path.display();
            crate::say(&format!(
                "{missing} events are missing in {path}: they could not be written, or not in time"
            ));
        }
    }
}
