//! Experiments as data: the schema, reading it with errors that say where, and changing single keys.

mod axes;
mod channel;
mod explain;
mod json_schema;
mod law;
mod media;
mod place;
mod plant;
mod reach;
mod schema;
mod set;
mod shape;
mod teleop;
mod validate;
mod wanted;
mod ways;

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use taut_core::printable;

pub use axes::{Axis, AxisValue, Choice, Choices};
pub use channel::{
    ChannelSpec, EncoderSpec, MakesSpec, PlayoutBounds, PlayoutSpec, SizesSpec, TeleopChannel, UniformSizes,
};
pub use json_schema::json_schema;
pub use law::{LawSpec, Tdpa, Wave};
pub use plant::{ArmSpec, DeviceSpec};
pub use schema::*;
pub use set::Setting;
pub use shape::{Shaping, parse_gate};
pub use teleop::{ClockSpec, Environment, ProcessingSpec, Surface, Teleop};
pub use wanted::{ReserveOf, ReserveSpec, WantedSpec};
pub use ways::{Way, Ways};

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
        write!(f, "{}", printable(&self.origin))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", printable(&self.key))?;
        }
        write!(f, ": {}", printable(&self.message).at_most(LONGEST_MESSAGE))
    }
}

impl std::error::Error for ScenarioError {}

/// Lists of what is allowed are long.
const LONGEST_MESSAGE: usize = 4_000;

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
            return Err(error(
                None,
                String::new(),
                "is empty; a scenario has at least title, duration and links".into(),
            ));
        }
        if text.len() > SIZE_LIMIT {
            return Err(error(None, String::new(), format!("is longer than {SIZE_LIMIT} bytes")));
        }
        let (scenario, text) = explain::read(origin, text)?;
        validate::check(&scenario).map_err(|fault| {
            error(place::line_of_key(&text, &fault.key), fault.key.clone(), fault.message)
        })?;
        Ok(scenario)
    }

    /// Reads a scenario file. The files that it names are found relative to it, and named relative to where we are.
    ///
    /// # Errors
    /// See [`ScenarioError`]; also when the file cannot be read, or a variant of it is not valid.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let origin = path.display().to_string();
        let error =
            |line, message| ScenarioError { origin: origin.clone(), line, key: String::new(), message };
        let bytes = read_at_most(path, SIZE_LIMIT + 1).map_err(|e| error(None, unreadable(&e)))?;
        if let Some(what) = result_instead(&bytes, path) {
            return Err(error(None, what));
        }
        let text = std::str::from_utf8(&bytes).map_err(|e| {
            let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
            error(Some(line), "this is not UTF-8 text".to_owned())
        })?;
        let mut scenario = Self::parse(&origin, text)?;
        scenario.each_variant(&scenario.all_variants(), |_, _| ()).map_err(|(i, setting, fault)| {
            ScenarioError {
                line: place::line_of_key(text, &scenario.place_of_setting(i, &setting)),
                message: format!("{}: {}", fault.origin, fault.message),
                origin: origin.clone(),
                key: fault.key,
            }
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let found = |name: &mut String| *name = tidy(&folder.join(&*name));
        scenario.files_mut().into_iter().for_each(found);
        let of_axes = scenario.axes.iter_mut().flat_map(|axis| &mut axis.values).map(|value| &mut value.set);
        let sets = scenario.variants.iter_mut().map(|variant| &mut variant.set).chain(of_axes);
        for (key, value) in sets.flatten() {
            let key = key.rsplit('.').next().unwrap_or(key);
            files_of_setting(key, value).into_iter().for_each(found);
        }
        Ok(scenario)
    }

    /// The line of a key, or of the nearest table around it, in the file that a scenario was read from.
    pub fn line_in(path: &Path, key: &str) -> Option<usize> {
        let bytes = read_at_most(path, SIZE_LIMIT).ok()?;
        place::line_of_key(std::str::from_utf8(&bytes).ok()?, key)
    }

    /// The same scenario with keys set, as `--set` and variants do.
    ///
    /// # Errors
    /// See [`ScenarioError`]: a key that does not exist or is ambiguous, a value that is not allowed.
    pub fn with(&self, settings: &[Setting]) -> Result<Self, ScenarioError> {
        self.setting_each(settings, &mut Vec::new()).map_err(|(_, error)| error)
    }

    /// As [`with`](Self::with); an error comes with the place of the setting whose fault it is. What `steps` set before, and this begins with as
    /// well, is taken from there; after it they are those of this.
    fn setting_each(
        &self,
        settings: &[Setting],
        steps: &mut Vec<Step>,
    ) -> Result<Self, (usize, ScenarioError)> {
        let shared =
            steps.iter().zip(settings).take_while(|(step, setting)| step.setting == **setting).count();
        steps.truncate(shared);
        for (place, setting) in settings.iter().enumerate().skip(shared) {
            // One after the other, so that an error is the fault of the setting that it names.
            let before = steps.last().map_or(self, |step| &step.scenario);
            let (scenario, means) = set::with(&before.to_table(), setting).map_err(|message| {
                let origin = format!("--set {setting}");
                (place, ScenarioError { origin, line: None, key: String::new(), message })
            })?;
            steps.push(Step { setting: setting.clone(), scenario, means });
        }
        let scenario = steps.last().map_or(self, |step| &step.scenario);
        if !settings.is_empty() {
            validate::check(scenario).map_err(|fault| {
                let origins: Vec<String> =
                    settings.iter().map(|setting| format!("--set {setting}")).collect();
                let (origin, place) = (origins.join(" "), self.at_fault(settings));
                (place, ScenarioError { origin, line: None, key: fault.key, message: fault.message })
            })?;
        }
        Ok(scenario.clone())
    }

    /// Each setting has an effect: none is replaced by a later one.
    fn setting_each_once(
        &self,
        settings: &[Setting],
        steps: &mut Vec<Step>,
    ) -> Result<Self, (usize, ScenarioError)> {
        let scenario = self.setting_each(settings, steps)?;
        for (place, step) in steps.iter().enumerate() {
            let later = steps[place + 1..].iter().find(|later| step.means.starts_with(&later.means));
            if let Some(later) = later {
                let message = format!("has no effect, `{}` replaces it", later.setting.key());
                let origin = format!("--set {}", step.setting);
                return Err((place, ScenarioError { origin, line: None, key: String::new(), message }));
            }
        }
        Ok(scenario)
    }

    /// Which of several settings, each of which can be set, makes something that is not valid: the first without which the
    /// others do not, or the last where there is none.
    fn at_fault(&self, settings: &[Setting]) -> usize {
        /// Of more the last is as good a guess as any.
        const MOST: usize = 50;
        let sound_without = |place: &usize| {
            let others = settings.iter().enumerate().filter(|(other, _)| other != place);
            let others: Vec<Setting> = others.map(|(_, setting)| setting.clone()).collect();
            settings.len() == 1 || self.with(&others).is_ok()
        };
        (0..settings.len())
            .take_while(|_| settings.len() <= MOST)
            .find(sound_without)
            .unwrap_or(settings.len() - 1)
    }

    /// The whole scenario as a table, every default written out.
    pub fn to_table(&self) -> toml::Table {
        toml::Table::try_from(self).expect("a scenario is a table")
    }

    /// The same as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a scenario is a table")
    }

    /// Each variant as in [`expand`](Self::expand) that is `chosen`, by its number and what it is, changed by `settings`. These win over the
    /// variant's own, and where they change it the keys are `overridden` and nothing is `reported` of it.
    ///
    /// # Errors
    /// See [`ScenarioError`]: of the settings, or of a variant.
    pub fn expand_with(
        &self,
        settings: &[Setting],
        chosen: impl Fn(usize, &Variant) -> bool,
    ) -> Result<Vec<(Variant, Self)>, ScenarioError> {
        let set = self.with(settings)?;
        let all = set.all_variants();
        if all.is_empty() {
            let itself = Variant::default();
            return Ok(Vec::from_iter(chosen(0, &itself).then_some((itself, set))));
        }
        let all = all.into_iter().enumerate();
        let mut variants: Vec<Variant> =
            all.filter(|(number, variant)| chosen(*number, variant)).map(|(_, variant)| variant).collect();
        let mut made: Vec<Option<Self>> = vec![None; variants.len()];
        set.each_variant(&variants, |number, scenario| made[number] = Some(scenario))
            .map_err(|(.., error)| error)?;
        let mut made: Vec<Self> = made.into_iter().flatten().collect();
        for (variant, scenario) in variants.iter_mut().zip(&mut made).filter(|_| !settings.is_empty()) {
            *scenario = scenario.with(settings)?;
            variant.changed_by(settings, scenario);
        }
        Ok(variants.into_iter().zip(made).collect())
    }

    /// Each variant as a scenario of its own, with its name; the scenario itself when it has none.
    ///
    /// # Errors
    /// When a variant sets a key that does not exist or a value that is not allowed.
    pub fn expand(&self) -> Result<Vec<(Variant, Self)>, ScenarioError> {
        self.expand_with(&[], |_, _| true)
    }

    /// Gives each of [`all_variants`](Self::all_variants)' number and the scenario that it makes, in any order.
    ///
    /// # Errors
    /// Of the first variant that cannot be made: its number, and the key whose setting is wrong.
    fn each_variant(
        &self,
        variants: &[Variant],
        mut take: impl FnMut(usize, Self),
    ) -> Result<(), (usize, String, ScenarioError)> {
        let base = Self { variants: Vec::new(), axes: Vec::new(), ..self.clone() };
        let settings: Vec<Vec<Setting>> =
            variants.iter().map(|variant| variant.settings().collect()).collect();
        // Those that begin alike one after the other: what they begin with is set once.
        let mut order: Vec<usize> = (0..variants.len()).collect();
        order.sort_by_cached_key(|&number| {
            settings[number].iter().map(Setting::to_string).collect::<Vec<_>>()
        });
        let (mut steps, mut wrong): (_, Option<(usize, _, _)>) = (Vec::new(), None);
        for number in order {
            if wrong.as_ref().is_some_and(|(first, ..)| *first < number) {
                continue;
            }
            let (variant, settings) = (&variants[number], &settings[number]);
            match base.setting_each_once(settings, &mut steps) {
                Ok(scenario) => take(number, scenario),
                Err((place, fault)) => {
                    let key = format!("variant \"{}\"", variant.name);
                    let origin = fault.origin.replace("--set ", "");
                    let message = match fault.key.as_str() {
                        "" => fault.message,
                        key => format!("{key}: {}", fault.message),
                    };
                    let setting = settings[place].key().to_owned();
                    wrong = Some((number, setting, ScenarioError { origin, line: None, key, message }));
                }
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

impl Variant {
    fn settings(&self) -> impl Iterator<Item = Setting> {
        self.set.iter().map(|(key, value)| Setting::new(key, value.clone()))
    }

    /// Says which of `settings` set otherwise what it sets, and leaves out what it sets in vain. `scenario` is what both make.
    fn changed_by(&mut self, settings: &[Setting], scenario: &Scenario) {
        let all: Vec<Setting> = self.settings().chain(settings.iter().cloned()).collect();
        let mut steps = Vec::new();
        // Whether it is valid has been seen to: here it matters alone what the keys mean.
        let _ = scenario.setting_each(&all, &mut steps);
        let (own, _) = steps.split_at(self.set.len().min(steps.len()));
        let pairs = steps.windows(2).skip(own.len().saturating_sub(1));
        let changes = pairs.filter(|pair| pair[0].scenario != pair[1].scenario).map(|pair| &pair[1]);
        let later: Vec<&Step> =
            changes.filter(|later| own.iter().any(|own| own.is_changed_by(later))).collect();
        if later.is_empty() {
            return;
        }
        self.overridden = later.iter().map(|later| later.setting.key().to_owned()).collect();
        let replaced = |own: &&Step| later.iter().any(|later| own.means.starts_with(&later.means));
        for own in own.iter().filter(replaced) {
            self.set.remove(own.setting.key());
        }
        self.reported.clear();
    }
}

/// A key that was set, after those before it.
struct Step {
    setting: Setting,
    /// What it made.
    scenario: Scenario,
    /// The place that its key means.
    means: set::Place,
}

impl Step {
    /// Does a later one set all of it, or a part that it says?
    fn is_changed_by(&self, later: &Self) -> bool {
        let part = later.means.strip_prefix(&self.means[..]);
        self.means.starts_with(&later.means) || part.is_some_and(|part| self.setting.has(part))
    }
}

/// The names of files in what a variant sets: the keys that name files are `file` and `mahimahi`.
fn files_of_setting<'a>(key: &str, value: &'a mut toml::Value) -> Vec<&'a mut String> {
    match value {
        toml::Value::String(name) if matches!(key, "file" | "mahimahi") => vec![name],
        toml::Value::Table(table) => {
            table.iter_mut().flat_map(|(key, value)| files_of_setting(key, value)).collect()
        }
        toml::Value::Array(items) => items.iter_mut().flat_map(|value| files_of_setting("", value)).collect(),
        _ => Vec::new(),
    }
}

/// Says so when the file is not a scenario but what a run of one wrote.
fn result_instead(bytes: &[u8], path: &Path) -> Option<String> {
    /// The first keys of a result stand within so many bytes.
    const BEGINNING: usize = 4096;
    let beginning = &bytes[..bytes.len().min(BEGINNING)];
    let begins = |with: &[u8]| beginning.trim_ascii_start().starts_with(with);
    let has = |key: &[u8]| beginning.windows(key.len()).any(|window| window == key);
    if !begins(b"{") {
        return None;
    }
    Some(match (has(b"\"taut\""), has(b"\"seed\"")) {
        (true, true) => {
            format!("is the result of a run, not a scenario; `taut replay {}` runs it again", path.display())
        }
        (true, false) => "is the result of a campaign, not the scenario that was run".to_owned(),
        _ => "is JSON; a scenario is TOML".to_owned(),
    })
}

fn read_at_most(path: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why the operating system gave no file, without its number for it.
pub fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::IsADirectory => "this is a folder, a file is needed".to_owned(),
        ErrorKind::PermissionDenied => "may not be read".to_owned(),
        _ => format!("cannot be read: {error}"),
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
