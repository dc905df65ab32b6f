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

    /// Does the value have this part?
    pub(super) fn has(&self, part: &[String]) -> bool {
        step_into(&self.value, part).is_some()
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
        if parsed.is_none() && value.starts_with(['{', '[']) {
            return Err(format!(
                "`{value}` is not TOML; text in it needs quotes, and the shell others around all: \
                 '{key}={{ loss = {{ bernoulli = \"1%\" }} }}'"
            ));
        }
        Ok(Self::new(key, parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
    }
}

/// A place in a scenario: the parts of its whole key.
pub(super) type Place = Vec<String>;

/// The scenario of a table with one key changed, and the place that the key means. What cannot be set is told with an example of what
/// can be.
pub(super) fn with(table: &Table, setting: &Setting) -> Result<(Scenario, Place), String> {
    let path = find(table, setting)?;
    let apply = |value: &Value| {
        let mut changed = Value::Table(table.clone());
        put(&mut changed, &path, value.clone())?;
        changed.try_into().map_err(|_| "this would replace the whole scenario".to_owned())
    };
    let scenario = explain::read_setting(&apply, &setting.value).map_err(|message| {
        match example(table, &path, &setting.key) {
            Some(example) if !message.contains("such as") => format!("{message}; {example}"),
            _ => message,
        }
    })?;
    Ok((scenario, path))
}

/// The one place that the key means.
fn find(table: &Table, setting: &Setting) -> Result<Place, String> {
    let wanted: Vec<&str> = setting.key.split('.').collect();
    let mut paths = Vec::new();
    list(table, &mut Vec::new(), &mut paths);
    let exact = paths.iter().any(|path| path.iter().eq(&wanted));
    let fitting: Vec<&Vec<String>> = paths.iter().filter(|path| fits(&wanted, path)).collect();
    match fitting.as_slice() {
        _ if exact => Ok(wanted.iter().map(|s| (*s).to_owned()).collect()),
        [one] => Ok((*one).clone()),
        [] => absent(table, &wanted, &paths),
        [first, ..] => {
            let all: Vec<String> = fitting.iter().take(6).map(|path| path.join(".")).collect();
            let example = Setting { key: abbreviated(first, &paths), value: setting.value.clone() };
            let all = all.join(", ");
            Err(format!("`{}` may be any of {all}; write more of the key, such as {example}", setting.key))
        }
    }
}

/// The shortest key that means this path and no other: one of its parts and its end, or else the whole path.
fn abbreviated(path: &[String], paths: &[Vec<String>]) -> String {
    let end = &path[path.len() - 1];
    let short = path[..path.len() - 1].iter().map(|part| [part.as_str(), end.as_str()]);
    let only = |key: &[&str; 2]| paths.iter().filter(|path| fits(key, path)).count() == 1;
    short.into_iter().find(only).map_or_else(|| path.join("."), |key| key.join("."))
}

/// What may be written for a key, by what is there now; where nothing is there, an element that a link may get.
fn example(table: &Table, path: &[String], key: &str) -> Option<String> {
    let whole = Value::Table(table.clone());
    let Some(mut now) = step_into(&whole, path).cloned() else { return new_element(table, path) };
    let mut key = key.to_owned();
    // `loss = { bernoulli = "1%" }` is shown as `loss.bernoulli=1%`.
    while let Value::Table(inner) = &now
        && let (1, Some((name, value))) = (inner.len(), inner.iter().next())
    {
        key = format!("{key}.{name}");
        now = value.clone();
    }
    let now = Setting { key, value: now }.to_string();
    let shown = if now.contains([' ', '"']) { format!("'{now}'") } else { now };
    (shown.len() <= LONGEST_EXAMPLE).then(|| format!("it is now {shown}"))
}

/// What is there, where anything is.
fn step_into<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |place, part| match place {
        Value::Table(table) => table.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Examples longer than this help nobody.
const LONGEST_EXAMPLE: usize = 160;

/// Elements of a link that many want to add, each with a value.
const ELEMENTS: [(&str, &str); 6] = [
    ("delay", "\"8ms\""),
    ("jitter", "{ distribution = \"normal\", spread = \"1ms\" }"),
    ("loss", "{ bernoulli = \"1%\" }"),
    ("duplicate", "\"0.1%\""),
    ("corrupt", "\"0.1%\""),
    ("cut", "{ at = \"10s\", until = \"12s\" }"),
];

/// `links.up.loss` where the chain of `up` has no loss: how to add one.
fn new_element(table: &Table, path: &[String]) -> Option<String> {
    let [kind @ ("links" | "lans"), name, element] = path.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let chain = table.get(kind)?.get(name)?.get("chain")?.as_array()?;
    let (_, value) = ELEMENTS.iter().find(|(name, _)| *name == element)?;
    let next = chain.len();
    Some(format!("to add one, write '{kind}.{name}.chain.{next}={{ {element} = {value} }}'"))
}

/// A key that is not there now may be one with no default (an optional one): what is before it must exist.
fn absent(table: &Table, wanted: &[&str], paths: &[Vec<String>]) -> Result<Vec<String>, String> {
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
                [] => nearest(table, wanted, paths),
                some => format!("there is {}", some.join(", ")),
            };
            Err(format!("no key `{}` in this scenario; {hint}", wanted.join(".")))
        }
    }
}

/// What there is of the beginning of a key that does not exist.
fn nearest(table: &Table, wanted: &[&str], paths: &[Vec<String>]) -> String {
    let known = (1..wanted.len()).rev().find_map(|parts| {
        let beginning = &wanted[..parts];
        let mut fitting = paths.iter().filter(|path| fits(beginning, path));
        let (one, None) = (fitting.next()?, fitting.next()) else { return None };
        example(table, one, &beginning.join("."))
    });
    known.unwrap_or_else(|| "`--print` shows all that there are".to_owned())
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
            let many = items.len();
            let index = first.parse::<usize>().ok().filter(|i| *i <= many).ok_or_else(|| {
                format!("`{first}` is not an index of the list: 0 is its first, {many} adds one at its end")
            })?;
            if index == many {
                items.push(Value::Table(Table::new()));
            }
            put(&mut items[index], rest, value)
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
        let path = |key: &str| find(&table(), &format!("{key}=1").parse().unwrap()).unwrap().join(".");
        assert_eq!(path("cross.rate"), "cross.a.traffic.cbr.rate");
        assert_eq!(path("links.delay"), "links.l.chain.0.delay");
        assert_eq!(path("a.count"), "cross.a.count");
    }

    #[test]
    fn an_index_one_past_the_end_of_a_list_adds_to_it() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let mut value = Value::Table(table());
        put(&mut value, &path("links.l.chain.1"), Value::Integer(7)).unwrap();
        assert_eq!(value["links"]["l"]["chain"][1], Value::Integer(7));
        assert!(put(&mut value, &path("links.l.chain.3"), Value::Integer(7)).unwrap_err().contains("2 adds"));
    }

    #[test]
    fn what_is_there_now_is_the_example() {
        let text =
            "[links.l]\nchain = [{ loss = { bernoulli = '1%' } }, { cut = { at = '1s', until = '2s' } }]";
        let table: Table = text.parse().unwrap();
        let shown = |key: &str| {
            let path = find(&table, &format!("{key}=1").parse().unwrap()).unwrap();
            example(&table, &path, key)
        };
        assert_eq!(shown("l.loss").unwrap(), "it is now l.loss.bernoulli=1%");
        assert_eq!(shown("cut").unwrap(), "it is now 'cut={ at = \"1s\", until = \"2s\" }'");
        assert_eq!(shown("l.delay").unwrap(), "to add one, write 'links.l.chain.2={ delay = \"8ms\" }'");
        assert_eq!(shown("l.latency"), None);
    }

    #[test]
    fn an_ambiguous_or_unknown_key_is_refused() {
        let mut table = table();
        table["cross"]
            .as_table_mut()
            .unwrap()
            .insert("b".into(), "rate = 1".parse::<Table>().unwrap().into());
        let refused = |text: &str| find(&table, &text.parse().unwrap()).unwrap_err();
        let told = refused("cross.rate=1Mbit");
        assert!(told.ends_with("write more of the key, such as a.rate=1Mbit"), "{told}");
        assert!(refused("nothing.like.it=1").contains("no key"));
        assert!("no value".parse::<Setting>().is_err());
        assert!("a={ b = 5% }".parse::<Setting>().unwrap_err().contains("needs quotes"));
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
