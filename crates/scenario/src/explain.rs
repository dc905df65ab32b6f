//! What a parser says, in the words of whoever wrote the scenario: what is there, and what is allowed there.

use std::borrow::Cow;
use std::ops::Range;

use toml::{Table, Value};

use super::{Scenario, ScenarioError, json_schema, place};

/// What the parser says where text names a kind that has settings.
const KIND_AS_TEXT: &str = "invalid type: unit variant, expected newtype variant";

/// Kinds written as text in one scenario, at most.
const MOST_KINDS: usize = 256;

/// Reads a scenario; a kind with all its settings left out may be just its name: `transport = "tcp"`. Also gives the
/// text as it was read, in which places can be found.
pub(super) fn read<'a>(origin: &str, text: &'a str) -> Result<(Scenario, Cow<'a, str>), ScenarioError> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MOST_KINDS {
        let error = match toml::from_str(&text) {
            Ok(scenario) => return Ok((scenario, text)),
            Err(error) => error,
        };
        let kind =
            error.span().filter(|_| error.message() == KIND_AS_TEXT).and_then(|span| named_kind(&text, span));
        match kind {
            Some((span, kind)) => text.to_mut().replace_range(span, &format!("{{ {kind} = {{}} }}")),
            None => return Err(explain(origin, &text, &error)),
        }
    }
    Err(ScenarioError {
        origin: origin.to_owned(),
        line: None,
        key: String::new(),
        message: format!("names more than {MOST_KINDS} kinds without settings; write them as `kind = {{}}`"),
    })
}

fn named_kind(text: &str, span: Range<usize>) -> Option<(Range<usize>, String)> {
    let kind = text.get(span.clone())?.trim_matches(['"', '\'']);
    let plain = !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    plain.then(|| (span, kind.to_owned()))
}

fn explain(origin: &str, text: &str, error: &toml::de::Error) -> ScenarioError {
    let span = error.span().unwrap_or(0..0);
    let line = place::line_of(text, span.start);
    let told = |line, key, message| ScenarioError { origin: origin.to_owned(), line, key, message };
    if !place::is_toml(text) {
        let shown = text.lines().nth(line - 1).map(shown).unwrap_or_default();
        return told(
            Some(line),
            String::new(),
            format!("this is not TOML: {}, in `{shown}`", one_line(error.message())),
        );
    }
    if let Some(name) = missing(error.message()) {
        let key = place::table_at(text, &span);
        let line = (!key.is_empty()).then_some(line);
        return told(line, key, format!("the key `{name}` is missing"));
    }
    let probe = |value: &Value| {
        let mut changed = text.to_owned();
        changed.replace_range(span.clone(), &value.to_string());
        toml::from_str::<Scenario>(&changed).err().map(|e| e.message().to_owned())
    };
    let value = text.get(span.clone()).unwrap_or_default();
    let mut message = reword(error.message(), value, &probe);
    if let Some((name, _)) = split(error.message(), "unknown field `") {
        message.push_str(&elsewhere(name));
    }
    let (line, key) = place::innermost(text, &span, quoted(&message));
    told(Some(line), key, message)
}

/// Where a key may stand that stands in a wrong place, or as another number of it does.
fn elsewhere(name: &str) -> String {
    const MOST: usize = 4;
    let other = name.strip_suffix('s').map_or_else(|| format!("{name}s"), str::to_owned);
    let places = [name, &other].map(|name| json_schema::places_of(name, MOST));
    match places.into_iter().find(|places| !places.is_empty()) {
        Some(places) => format!("; there is `{}`", places.join("`, `")),
        None => String::new(),
    }
}

/// Puts one setting into a table, as what the key needs: `rate=6` is the text `6` where text is needed, `transport=tcp`
/// is TCP with its defaults.
pub(super) fn read_setting(
    apply: &dyn Fn(&Value) -> Result<Table, String>,
    value: &Value,
) -> Result<Scenario, String> {
    let read = |value: &Value| apply(value).map(serde::Deserialize::deserialize);
    let first: Result<Scenario, toml::de::Error> = read(value)?;
    let Err(first) = first else { return first.map_err(|e| e.to_string()) };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let instead = match (value, first.message()) {
        (Value::String(kind), KIND_AS_TEXT) => {
            Some(Value::Table(Table::from_iter([(kind.clone(), Value::Table(Table::new()))])))
        }
        (Value::Table(_) | Value::Array(_), _) => None,
        (_, message) if needs_text(message) => Some(Value::String(text.clone())),
        _ => None,
    };
    let error = match instead.map(|instead| read(&instead)).transpose()? {
        Some(Ok(scenario)) => return Ok(scenario),
        Some(Err(second)) => second,
        None => first,
    };
    let probe = |value: &Value| read(value).ok()?.err().map(|e: toml::de::Error| e.message().to_owned());
    Err(match missing(error.message()) {
        Some(name) => format!("the key `{name}` is missing"),
        None => reword(error.message(), &text, &probe),
    })
}

/// A parser's message about `value`. `probe` tells what it would say of another value in its place.
pub(super) fn reword(message: &str, value: &str, probe: &dyn Fn(&Value) -> Option<String>) -> String {
    let shown = shown(value);
    if let Some((_, allowed)) = split(message, "unknown field `") {
        return format!("unknown key; allowed here: {allowed}");
    }
    if let Some((name, allowed)) = split(message, "unknown variant `") {
        return format!("`{name}` is not one of {allowed}");
    }
    if message.starts_with("wanted ")
        || message == KIND_AS_TEXT
        || message.ends_with(", expected string only")
    {
        // Text that is no kind makes the parser list the kinds.
        let list = probe(&Value::String("?".to_owned()));
        let kinds = list.as_deref().and_then(|list| split(list, "unknown variant `")).map(|(_, kinds)| kinds);
        return match kinds {
            Some(kinds) => format!("exactly one kind is needed, of {kinds}"),
            None => "exactly one kind is needed".to_owned(),
        };
    }
    if needs_text(message) {
        let quoted = Value::String(value.trim().to_owned());
        // A quantity then says what form it has.
        return match probe(&quoted)
            .filter(|message| message.starts_with(&format!("`{}` is not", value.trim())))
        {
            Some(message) => one_line(&message),
            None if value.starts_with(['{', '[']) => {
                "text in quotes is needed in it: \"6Mbit\", \"8ms\", \"1%\"".to_owned()
            }
            None => format!("`{shown}` is not text; write it in quotes"),
        };
    }
    match message.strip_prefix("invalid ").and_then(|rest| rest.split_once(", expected ")) {
        Some((_, wanted)) => format!("`{shown}` is not {}", in_words(wanted)),
        None => one_line(message),
    }
}

/// Name and allowed names of `unknown field` and `unknown variant`.
fn split<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let (name, allowed) = message.strip_prefix(prefix)?.split_once("`, expected ")?;
    Some((name, allowed.strip_prefix("one of ").unwrap_or(allowed)))
}

fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

fn needs_text(message: &str) -> bool {
    message.starts_with("invalid type: ") && message.ends_with(", expected a string")
}

/// What a message says first in backticks.
fn quoted(message: &str) -> Option<&str> {
    message.strip_prefix('`')?.split_once('`').map(|(text, _)| text)
}

fn in_words(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list, `[ … ]`",
        "a map" => "a table, `{ … }`",
        _ if wanted.starts_with("struct ") => "a table, `{ … }`",
        _ => wanted,
    }
}

/// The beginning of a value, in one line.
fn shown(value: &str) -> String {
    const LONGEST: usize = 60;
    let line = one_line(value);
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Messages of parsers may have several lines; an error here has one.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_wrong_place_is_led_to_where_it_may_stand() {
        for (table, key, places) in [
            (
                "[session]\nmultiplexer = \"separate\"",
                "session.multiplexer",
                "; there is `session.backward.multiplexer`, `session.forward.multiplexer`",
            ),
            (
                "[session.forward]\nhaptics = {}",
                "session.forward.haptics",
                "; there is `session.backward.haptic`, `session.forward.haptic`",
            ),
            ("[[channels]]\nname = \"log\"", "channels.0", "; there is `teleop.channels`"),
            (
                "[session]\ncongestion_control = \"gcc\"",
                "session.congestion_control",
                "; there is `teleop.congestion_control`",
            ),
            ("[commands]\nsize = \"150B\"\nretries = 1", "commands.retries", "`bare`"),
        ] {
            let text = format!("title = \"t\"\nduration = \"1s\"\n{table}\n");
            let error = read("old.toml", &text).unwrap_err();
            let unknown =
                error.message.starts_with("unknown key; allowed here: ") && error.message.ends_with(places);
            assert!(unknown && error.key == key, "{error}");
        }
    }
}
