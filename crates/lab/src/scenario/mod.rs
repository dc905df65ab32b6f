//! Experiments as data: the schema, reading it with errors that say where, and changing single keys.

mod place;
mod schema;
mod set;
mod validate;

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

pub use schema::*;
pub use set::Setting;

/// What is wrong with a scenario: one line with the file, the line, the key and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or `--set KEY=VALUE`.
    pub origin: String,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The key, dotted.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// The largest scenario file that is read.
const SIZE_LIMIT: usize = 1 << 20;

impl Scenario {
    /// Reads a scenario from text. `origin` is the name that errors give it.
    ///
    /// # Errors
    /// See [`ScenarioError`]: syntax, unknown keys, values out of range, ends that do not exist.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        let error = |line, key, message| ScenarioError { origin: origin.to_owned(), line, key, message };
        if text.trim().is_empty() {
            return Err(error(None, String::new(), "is empty; a scenario has at least title, duration and links".into()));
        }
        if text.len() > SIZE_LIMIT {
            return Err(error(None, String::new(), format!("is longer than {SIZE_LIMIT} bytes")));
        }
        let scenario: Self = toml::from_str(text).map_err(|e| {
            let offset = e.span().map(|span| span.start);
            let key = offset.map(|offset| place::key_at(text, offset)).unwrap_or_default();
            error(offset.map(|offset| place::line_of(text, offset)), key, one_line(e.message()))
        })?;
        validate::check(&scenario)
            .map_err(|fault| error(place::line_of_key(text, &fault.key), fault.key.clone(), fault.message))?;
        Ok(scenario)
    }

    /// Reads a scenario file. The files that it names are found relative to it, and named relative to where we are.
    ///
    /// # Errors
    /// See [`ScenarioError`]; also when the file cannot be read, or a variant of it is not valid.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let origin = path.display().to_string();
        let unreadable = |e: std::io::Error| ScenarioError {
            origin: origin.clone(),
            line: None,
            key: String::new(),
            message: format!("cannot be read: {e}"),
        };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let mut scenario = Self::parse(&origin, &text)?;
        scenario.expand().map_err(|error| ScenarioError {
            line: place::line_of_text(&text, &error.key.replace("variant ", "")),
            message: format!("{}: {}", error.origin.replace("--set ", ""), error.message),
            origin: origin.clone(),
            key: error.key,
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for name in scenario.files_mut() {
            *name = tidy(&folder.join(&*name));
        }
        Ok(scenario)
    }

    /// The same scenario with keys set, as `--set` and variants do.
    ///
    /// # Errors
    /// See [`ScenarioError`]: a key that does not exist or is ambiguous, a value that is not allowed.
    pub fn with(&self, settings: &[Setting]) -> Result<Self, ScenarioError> {
        if settings.is_empty() {
            return Ok(self.clone());
        }
        let mut table = toml::Table::try_from(self).expect("a scenario is a table");
        let mut origins = Vec::new();
        for setting in settings {
            let origin = format!("--set {setting}");
            let error = |message| ScenarioError {
                origin: origin.clone(),
                line: None,
                key: String::new(),
                message,
            };
            set::apply(&mut table, setting).map_err(error)?;
            // One after the other, so that an error is the fault of the setting that it names.
            let scenario = Self::deserialize(table.clone()).map_err(|e| error(one_line(e.message())))?;
            table = toml::Table::try_from(&scenario).expect("a scenario is a table");
            origins.push(origin);
        }
        let scenario = Self::deserialize(table).expect("it was one a moment ago");
        validate::check(&scenario).map_err(|fault| ScenarioError {
            origin: origins.join(" "),
            line: None,
            key: fault.key,
            message: fault.message,
        })?;
        Ok(scenario)
    }

    /// The whole scenario as TOML, every default written out.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a scenario is a table")
    }

    /// Each variant as a scenario of its own, with its name; the scenario itself when it has none.
    ///
    /// # Errors
    /// When a variant sets a key that does not exist or a value that is not allowed.
    pub fn expand(&self) -> Result<Vec<(Variant, Self)>, ScenarioError> {
        let mut base = self.clone();
        base.variants.clear();
        if self.variants.is_empty() {
            let itself = Variant { name: String::new(), set: Default::default(), reported: Default::default() };
            return Ok(vec![(itself, base)]);
        }
        let expanded = self.variants.iter().map(|variant| {
            let settings: Vec<Setting> =
                variant.set.iter().map(|(key, value)| Setting::new(key, value.clone())).collect();
            let scenario = base.with(&settings).map_err(|mut error| {
                error.key = format!("variant \"{}\"", variant.name);
                error
            })?;
            Ok((variant.clone(), scenario))
        });
        expanded.collect()
    }
}

/// Without `.` and without `name/..`: `scenarios/../data/x.csv` is `data/x.csv`.
fn tidy(path: &Path) -> String {
    let mut tidied = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(tidied.components().next_back(), Some(Component::Normal(_))) => {
                tidied.pop();
            }
            other => tidied.push(other),
        }
    }
    tidied.display().to_string()
}

/// Messages of parsers may have several lines; an error here has one.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
