//! Where in a TOML text a key stands.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line, from 1, of a byte offset.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    text.as_bytes()[..end].iter().filter(|b| **b == b'\n').count() + 1
}

/// Whether it can be read at all.
pub(super) fn is_toml(text: &str) -> bool {
    DeTable::parse(text).is_ok()
}

/// The line of the value at a dotted key, or of the nearest table around it.
pub(super) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    descend(text, &mut |found| {
        let path = found.path;
        let inside = key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        if inside && best.is_none_or(|(length, _)| path.len() > length) {
            best = Some((path.len(), found.key.start));
        }
    });
    best.map(|(_, start)| line_of(text, start))
}

/// The dotted key of the table that stands at exactly this place; empty for the whole file.
pub(super) fn table_at(text: &str, span: &Range<usize>) -> String {
    let mut key = String::new();
    descend(text, &mut |found| {
        if found.value == *span && matches!(found.item, DeValue::Table(_)) {
            key = found.path.to_owned();
        }
    });
    key
}

/// Line and dotted key of the innermost value at the beginning of a place; or, when one inside it is the text `wanted`,
/// of that one.
pub(super) fn innermost(text: &str, span: &Range<usize>, wanted: Option<&str>) -> (usize, String) {
    let (mut at, mut holds) = ((span.start, String::new()), None);
    descend(text, &mut |found| {
        let whole = found.key.start..found.value.end.max(found.key.start + 1);
        if whole.contains(&span.start) && found.path.len() > at.1.len() {
            at = (span.start, found.path.to_owned());
        }
        let within = span.start <= found.value.start && found.value.end <= span.end;
        let is_wanted = matches!(found.item, DeValue::String(text) if Some(text.as_ref()) == wanted);
        if within && is_wanted && holds.is_none() {
            holds = Some((found.key.start, found.path.to_owned()));
        }
    });
    let (offset, key) = holds.unwrap_or(at);
    (line_of(text, offset), key)
}

/// One value of a text.
struct Found<'a> {
    /// Its dotted key.
    path: &'a str,
    /// Where the key's last part stands, or an element of a list itself.
    key: Range<usize>,
    /// Where the value stands; of a table with a header, the header.
    value: Range<usize>,
    item: &'a DeValue<'a>,
}

/// Tells every value, the outer ones first.
fn descend(text: &str, tell: &mut dyn FnMut(Found<'_>)) {
    fn value(path: &str, key: Range<usize>, item: &Spanned<DeValue<'_>>, tell: &mut dyn FnMut(Found<'_>)) {
        tell(Found { path, key, value: item.span(), item: item.get_ref() });
        match item.get_ref() {
            DeValue::Table(inner) => entries(path, inner, tell),
            DeValue::Array(items) => {
                for (i, inner) in items.iter().enumerate() {
                    value(&format!("{path}.{i}"), inner.span(), inner, tell);
                }
            }
            _ => {}
        }
    }
    fn entries(path: &str, table: &DeTable<'_>, tell: &mut dyn FnMut(Found<'_>)) {
        for (key, item) in table {
            let name = key.get_ref();
            let inner = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            value(&inner, key.span(), item, tell);
        }
    }
    if let Ok(table) = DeTable::parse(text) {
        entries("", table.get_ref(), tell);
    }
}
