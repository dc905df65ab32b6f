//! A session's recording, where one is asked for.

use serde_json::{Value, json};
use taut_agent::{OperatorNote, RobotNote, SessionObserver};
use taut_core::{Bytes, Duration, Time};
use taut_io::Clock;
use taut_io::lines::{self, Line};
use taut_io::recording::{Recording, RecordingConfig};
use taut_io::session::Told;
use taut_session::{Channel, ChannelEvent, OperatorEvent, RobotEvent};

use crate::common::{About, Common};
use crate::error::Error;

/// Of reports one in this time is written.
const REPORTS: Duration = Duration::from_secs(1);
/// Who ends a session waits so long for what is not written yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the session is run, as `taut robot` and `taut operator` tell it.
fn said(about: &About) -> Line {
    let law = about.law.map_or("position_force", |law| law.kind.name());
    let fields = [
        ("end", json!(about.end)),
        ("transport", json!(about.transport)),
        ("secure", json!(true)),
        ("law", json!(law)),
        ("turns", json!(about.turns)),
        ("taut", json!(env!("CARGO_PKG_VERSION"))),
        ("channels", about.channels.iter().map(declared).collect()),
    ];
    let numbers = about.numbers.iter().map(|(name, number)| (*name, json!(number)));
    Line::new("recording", fields.into_iter().chain(numbers))
}

/// As a file of channels has it, but for its definition, which goes with its messages.
fn declared(channel: &Channel) -> Value {
    let declaration = channel.declaration();
    let mut spec = json!({
        "name": declaration.name,
        "kind": declaration.kind.name(),
        "direction": declaration.direction.name(),
        "schema": declaration.schema,
        "encoding": declaration.encoding.name(),
        "delivery": declaration.delivery.name(),
        "deadline": Duration::from_micros(declaration.deadline_us.into()).to_string(),
        "priority": declaration.priority,
        "largest": Bytes::new(declaration.largest.into()).to_string(),
    });
    if declaration.rate_mhz > 0 {
        spec["rate"] = json!(f64::from(declaration.rate_mhz) / 1e3);
    }
    spec
}

/// What records, if anything does.
pub(crate) struct Recorded {
    recording: Option<Recording>,
    names: Vec<String>,
    clock: Clock,
    reported: Option<Time>,
}

impl Recorded {
    /// `failed` is told why, when the file takes no more.
    pub(crate) fn start(
        common: &Common,
        clock: Clock,
        about: About,
        failed: impl FnOnce(String) + Send + 'static,
    ) -> Result<Self, Error> {
        let names = about.channels.iter().map(|channel| channel.name().to_owned()).collect();
        let start = |path: &std::path::PathBuf| {
            let line = said(&about);
            let config = RecordingConfig::new().file(path).channels(about.channels);
            let recording = Recording::start(config, clock, move |error| failed(error.to_string()));
            let recording =
                recording.map_err(|error| Error::System(format!("record_to {}: {error}", path.display())))?;
            let now = clock.now();
            recording.event(now, &line.at(now));
            Ok(recording)
        };
        let recording = common.recording.as_ref().map(start).transpose()?;
        Ok(Self { recording, names, clock, reported: None })
    }

    pub(crate) fn observer(&self) -> Option<Box<dyn SessionObserver + Send>> {
        self.recording.as_ref().map(Recording::observer)
    }

    pub(crate) fn robot(&mut self, at: Time, told: &Told<RobotNote>) {
        self.tell(at, told, |this, note| match note {
            RobotNote::Event(RobotEvent::Channel(event)) => this.channel(event),
            RobotNote::Progress(_) if !this.is_due(at) => None,
            note => lines::of_robot(note),
        });
    }

    pub(crate) fn operator(&mut self, at: Time, told: &Told<OperatorNote>) {
        self.tell(at, told, |this, note| match note {
            OperatorNote::Event(OperatorEvent::Channel(event)) => this.channel(event),
            OperatorNote::Progress(_) if !this.is_due(at) => None,
            note => lines::of_operator(note),
        });
    }

    fn tell<N>(&mut self, at: Time, told: &Told<N>, line: impl FnOnce(&mut Self, &N) -> Option<Line>) {
        if self.recording.is_none() {
            return;
        }
        let line = match told {
            Told::Path(path) => Some(lines::of_path(path)),
            Told::Flood(flood) => Some(lines::of_flood(flood)),
            Told::Note(note) => line(self, note),
        };
        if let (Some(line), Some(recording)) = (line, &self.recording) {
            recording.event(at, &line.at(at));
        }
    }

    fn channel(&self, event: &ChannelEvent) -> Option<Line> {
        let (ChannelEvent::Opened { channel } | ChannelEvent::Refused { channel, .. }) = event else {
            return None;
        };
        lines::of_channel(self.names.get(usize::from(channel.0))?, event)
    }

    fn is_due(&mut self, now: Time) -> bool {
        let due = self.reported.is_none_or(|last| now.saturating_since(last) >= REPORTS);
        if due {
            self.reported = Some(now);
        }
        due
    }

    /// Writes what was counted in all, and finishes the file.
    pub(crate) fn finish(self, summary: Option<Line>) {
        let Some(recording) = self.recording else { return };
        if let Some(line) = summary {
            let at = self.clock.now();
            recording.event(at, &line.at(at));
        }
        recording.finish(PATIENCE);
    }
}
