//! Where in a TOML text a key stands.

use toml::de::{DeTable, DeValue};

/// The line, from 1, of a byte offset.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    text.as_bytes()[..end].iter().filter(|b| **b == b'\n').count() + 1
}

/// The line of the first occurrence of a piece of text.
pub(super) fn line_of_text(text: &str, piece: &str) -> Option<usize> {
    text.find(piece).map(|offset| line_of(text, offset))
}

/// The line of the value at a dotted key, or of the nearest table around it.
pub(super) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut best = None;
    descend(table.get_ref(), &mut |path, start, _| {
        let inside = key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        if inside && best.as_ref().is_none_or(|(length, _)| path.len() > *length) {
            best = Some((path.len(), start));
        }
    });
    best.map(|(_, start)| line_of(text, start))
}

/// The dotted key of the innermost value that covers a byte offset.
pub(super) fn key_at(text: &str, offset: usize) -> String {
    let mut best = String::new();
    if let Ok(table) = DeTable::parse(text) {
        descend(table.get_ref(), &mut |path, start, end| {
            if (start..end.max(start + 1)).contains(&offset) && path.len() > best.len() {
                best = path.to_owned();
            }
        });
    }
    best
}

/// Tells every key's dotted path and where it (from its name to its value's end) stands.
fn descend(table: &DeTable<'_>, tell: &mut dyn FnMut(&str, usize, usize)) {
    fn value(path: &str, start: usize, item: &toml::Spanned<DeValue<'_>>, tell: &mut dyn FnMut(&str, usize, usize)) {
        tell(path, start, item.span().end);
        match item.get_ref() {
            DeValue::Table(inner) => entries(path, inner, tell),
            DeValue::Array(items) => {
                for (i, inner) in items.iter().enumerate() {
                    value(&format!("{path}.{i}"), inner.span().start, inner, tell);
                }
            }
            _ => {}
        }
    }
    fn entries(path: &str, table: &DeTable<'_>, tell: &mut dyn FnMut(&str, usize, usize)) {
        for (key, item) in table {
            let name = key.get_ref();
            let inner = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            value(&inner, key.span().start, item, tell);
        }
    }
    entries("", table, tell);
}
