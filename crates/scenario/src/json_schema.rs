//! The JSON Schema of scenario files: what the types say, and what the reader accepts beyond them.

use serde_json::{Value, json};

use super::{QueueSpec, Scenario};

/// The JSON Schema (draft 2020-12) of scenario files, for editors and other programs.
///
/// A file that the reader accepts is valid. The reader refuses more: quantities that are none, values out of range, and
/// names that do not exist.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Scenario).to_value();
    let definitions = &mut schema["$defs"];
    definitions["ServerSpec"]["oneOf"] =
        json!([{ "required": ["rate"] }, { "required": ["mahimahi"] }, { "required": ["rate_table"] }]);
    let named = json!({ "description": "With its defaults.", "type": "string", "enum": QueueSpec::NAMES });
    definitions["QueueSpec"] = json!({ "anyOf": [named, definitions["QueueSpec"].take()] });
    let all = definitions.clone();
    for definition in definitions.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        let bare = bare_kinds(definition, &all);
        if let Some(kinds) = definition.get_mut("oneOf").and_then(Value::as_array_mut) {
            kinds.extend(bare);
        }
    }
    schema
}

/// Where a scenario may have keys of this name, dotted: `links.NAME.chain.0.loss`. Those that are not deeper inside than the
/// first of them, `most` at most.
pub(super) fn places_of(name: &str, most: usize) -> Vec<String> {
    let schema = json_schema();
    let mut found = Vec::new();
    search(&schema, &schema["$defs"], (name, ""), &mut Vec::new(), &mut found);
    let depth = |place: &String| place.matches('.').count();
    found.sort_by_key(|place| (depth(place), place.clone()));
    found.dedup();
    let least = found.first().map(depth);
    found.retain(|place| Some(depth(place)) == least);
    found.truncate(most);
    found
}

/// Looks for `name` in what is allowed `at` a place. `inside`: the definitions around it; none is entered twice.
fn search<'a>(
    schema: &'a Value,
    definitions: &'a Value,
    (name, at): (&str, &str),
    inside: &mut Vec<&'a str>,
    found: &mut Vec<String>,
) {
    if let Some(definition) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"))
        && !inside.contains(&definition)
    {
        inside.push(definition);
        search(&definitions[definition], definitions, (name, at), inside, found);
        inside.pop();
    }
    let below = |part: &str| if at.is_empty() { part.to_owned() } else { format!("{at}.{part}") };
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = below(key);
        search(value, definitions, (name, &path), inside, found);
        found.extend((key == name).then_some(path));
    }
    for (part, keyword) in [("NAME", "additionalProperties"), ("0", "items")] {
        if let Some(value) = schema.get(keyword) {
            search(value, definitions, (name, &below(part)), inside, found);
        }
    }
    for choice in ["oneOf", "anyOf"].iter().flat_map(|choices| schema[choices].as_array()).flatten() {
        search(choice, definitions, (name, at), inside, found);
    }
}

/// Of a choice, the kinds that may be written as just their name: all of their settings have defaults.
fn bare_kinds(choice: &Value, definitions: &Value) -> Vec<Value> {
    let kinds = choice["oneOf"].as_array().into_iter().flatten();
    let bare = kinds.filter_map(|kind| {
        let (name, settings) = kind["properties"].as_object()?.iter().next()?;
        let settings = &definitions[settings["$ref"].as_str()?.strip_prefix("#/$defs/")?];
        let needed = settings.get("required").or(settings.get("oneOf"));
        let all_defaults = settings["type"] == "object" && needed.is_none();
        let what = kind["description"].as_str().unwrap_or_default();
        let description = format!("{what} Every setting has its default.");
        all_defaults.then(|| json!({ "description": description, "type": "string", "const": name }))
    });
    bare.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(schema: &Value, choice: &str) -> Vec<String> {
        let kinds = schema["$defs"][choice]["oneOf"].as_array().unwrap();
        let mut names: Vec<_> = kinds.iter().filter_map(|kind| kind["const"].as_str()).collect();
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_key_is_found_wherever_it_may_stand() {
        let session = ["session.backward.multiplexer", "session.forward.multiplexer"];
        assert_eq!(places_of("multiplexer", 9), session);
        assert_eq!(places_of("congestion_control", 1), ["teleop.congestion_control"]);
        assert_eq!(places_of("between", 9), ["links.NAME.between"]);
        assert_eq!(places_of("bernoulli", 1), ["lans.NAME.chain.0.loss.bernoulli"]);
        assert_eq!(places_of("colour", 9), [""; 0]);
    }

    #[test]
    fn a_kind_whose_settings_all_have_defaults_may_be_just_its_name() {
        let schema = json_schema();
        assert_eq!(
            names(&schema, "TransportSpec"),
            ["dccp", "etp", "every_path", "mpquic", "mptcp", "mtip", "quic", "sctp", "tcp", "udp"]
        );
        assert_eq!(names(&schema, "SamplerSpec"), ["deadband", "every"]);
        assert_eq!(names(&schema, "Traffic"), ["haptic", "rtp", "tcp", "video", "voice"]);
        assert_eq!(names(&schema, "ElementSpec"), [""; 0]);
    }
}
