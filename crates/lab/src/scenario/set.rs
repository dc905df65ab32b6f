//! Changing one key: `cross.rate=3.9Mbit`.

use std::fmt;
use std::str::FromStr;

use toml::{Table, Value};

use super::{Scenario, explain};

/// A key and its new value. The key may leave out what goes without saying: `cross.rate` is
/// `cross.constant.traffic.cbr.rate` where no other key fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    key: String,
    value: Value,
}

impl Setting {
    /// Sets `key` to `value`.
    pub fn new(key: &str, value: Value) -> Self {
        Self { key: key.to_owned(), value }
    }

    /// The key as it was given.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value as text.
    pub fn value_text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value_text())
    }
}

impl FromStr for Setting {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as cross.rate=3.9Mbit")?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || key.split('.').any(str::is_empty) {
            return Err(format!("`{key}` is not a key; write KEY=VALUE, such as cross.rate=3.9Mbit"));
        }
        // TOML where it is TOML (a number, true, a table), else text: quantities need no quotes.
        let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
        Ok(Self::new(key, parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
    }
}

/// The scenario of a table with one key changed.
pub(super) fn with(table: &Table, setting: &Setting) -> Result<Scenario, String> {
    let apply = |value: &Value| {
        let mut changed = table.clone();
        apply(&mut changed, &Setting { key: setting.key.clone(), value: value.clone() }).map(|()| changed)
    };
    explain::read_setting(&apply, &setting.value)
}

/// Changes the one place that the key means.
fn apply(table: &mut Table, setting: &Setting) -> Result<(), String> {
    let wanted: Vec<&str> = setting.key.split('.').collect();
    let mut paths = Vec::new();
    list(table, &mut Vec::new(), &mut paths);
    let exact = paths.iter().any(|path| path.iter().eq(&wanted));
    let fitting: Vec<&Vec<String>> = paths.iter().filter(|path| fits(&wanted, path)).collect();
    let path: Vec<String> = match fitting.as_slice() {
        _ if exact => wanted.iter().map(|s| (*s).to_owned()).collect(),
        [one] => (*one).clone(),
        [] => absent(&wanted, &paths)?,
        many => {
            let all: Vec<String> = many.iter().take(6).map(|path| path.join(".")).collect();
            return Err(format!("`{}` may be any of {}; write more of the key", setting.key, all.join(", ")));
        }
    };
    let mut value = Value::Table(std::mem::take(table));
    put(&mut value, &path, setting.value.clone())?;
    *table = value.try_into().map_err(|_| "this would replace the whole scenario".to_owned())?;
    Ok(())
}

/// A key that is not there now may be one with no default (an optional one): what is before it must exist.
fn absent(wanted: &[&str], paths: &[Vec<String>]) -> Result<Vec<String>, String> {
    let last = wanted[wanted.len() - 1].to_owned();
    let before = &wanted[..wanted.len() - 1];
    let fitting: Vec<&Vec<String>> = paths.iter().filter(|path| fits(before, path)).collect();
    let exact = before.is_empty() || paths.iter().any(|path| path.iter().eq(before));
    match fitting.as_slice() {
        _ if exact => Ok(before.iter().map(|s| (*s).to_owned()).chain([last]).collect()),
        [one] => Ok(one.iter().cloned().chain([last]).collect()),
        _ => {
            let alike = paths.iter().filter(|path| *path.last().expect("a path has parts") == last).take(6);
            let alike: Vec<String> = alike.map(|path| path.join(".")).collect();
            let hint = match alike.as_slice() {
                [] => "`--print` shows all that there are".to_owned(),
                some => format!("there is {}", some.join(", ")),
            };
            Err(format!("no key `{}` in this scenario; {hint}", wanted.join(".")))
        }
    }
}

/// The last parts are equal and the others come in the same order.
fn fits(wanted: &[&str], path: &[String]) -> bool {
    let (Some(last), Some(end)) = (wanted.last(), path.last()) else { return false };
    let mut rest = path.iter();
    last == end && wanted.iter().all(|part| rest.any(|p| p == part))
}

fn list(table: &Table, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    fn inner(key: String, value: &Value, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
        path.push(key);
        paths.push(path.clone());
        match value {
            Value::Table(table) => list(table, path, paths),
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    inner(i.to_string(), item, path, paths);
                }
            }
            _ => {}
        }
        path.pop();
    }
    for (key, value) in table {
        inner(key.clone(), value, path, paths);
    }
}

fn put(place: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    let Some((first, rest)) = path.split_first() else {
        *place = value;
        return Ok(());
    };
    match place {
        Value::Array(items) => {
            let index = first.parse::<usize>().ok().filter(|i| *i < items.len());
            put(
                &mut items[index.ok_or_else(|| format!("`{first}` is not an index of the list"))?],
                rest,
                value,
            )
        }
        Value::Table(table) => {
            let inner = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
            put(inner, rest, value)
        }
        // A kind without settings (`"udp"`) becomes one with settings.
        _ => {
            *place = Value::Table(Table::new());
            put(place, path, value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        "[cross.a.traffic.cbr]\nrate = '1Mbit'\npacket = '150B'\n[links.l]\nchain = [{ delay = '8ms' }]"
            .parse()
            .unwrap()
    }

    #[test]
    fn an_abbreviated_key_means_the_only_one_that_fits() {
        let mut table = table();
        apply(&mut table, &"cross.rate=3.9Mbit".parse().unwrap()).unwrap();
        apply(&mut table, &"links.delay=15ms".parse().unwrap()).unwrap();
        assert_eq!(table["cross"]["a"]["traffic"]["cbr"]["rate"].as_str(), Some("3.9Mbit"));
        assert_eq!(table["links"]["l"]["chain"][0]["delay"].as_str(), Some("15ms"));
    }

    #[test]
    fn an_ambiguous_or_unknown_key_is_refused() {
        let mut table = table();
        table["cross"]
            .as_table_mut()
            .unwrap()
            .insert("b".into(), "rate = 1".parse::<Table>().unwrap().into());
        assert!(apply(&mut table, &"cross.rate=1Mbit".parse().unwrap()).unwrap_err().contains("write more"));
        assert!(apply(&mut table, &"nothing.like.it=1".parse().unwrap()).unwrap_err().contains("no key"));
        assert!("no value".parse::<Setting>().is_err());
        assert!("=1".parse::<Setting>().is_err());
    }

    #[test]
    fn values_are_toml_where_they_are_and_text_elsewhere() {
        let value = |text: &str| text.parse::<Setting>().unwrap().value;
        assert_eq!(value("a=2"), Value::Integer(2));
        assert_eq!(value("a=true"), Value::Boolean(true));
        assert_eq!(value("a=8ms"), Value::String("8ms".into()));
        assert_eq!(value("a={ b = 1 }")["b"], Value::Integer(1));
    }
}
