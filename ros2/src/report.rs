//! What the program says, one line each.

use std::io::Write;

use serde_json::{Map, Value};

pub(crate) struct Report {
    json: bool,
}

impl Report {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// An event, and what belongs to it.
    pub(crate) fn tell(&self, event: &str, fields: &[(&str, Value)]) {
        let line = if self.json {
            let mut object = Map::from_iter([("event".to_owned(), event.into())]);
            object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            Value::Object(object).to_string()
        } else {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            fields
                .iter()
                .fold(event.to_owned(), |line, (name, value)| format!("{line}, {name}: {}", text(value)))
        };
        // Whoever does not listen any more is told nothing.
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }
}
