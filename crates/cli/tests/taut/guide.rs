//! The pages about scenarios explain every key that one may have.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::world::World;

const GUIDE: [&str; 3] = [
    include_str!("../../../../docs/guide.md"),
    include_str!("../../../../docs/elements.md"),
    include_str!("../../../../docs/cross-traffic.md"),
];
/// Where these send those who want to know more of one key.
const PAGES: [&str; 3] = [
    include_str!("../../../../docs/queues.md"),
    include_str!("../../../../docs/frame-gate.md"),
    include_str!("../../../../docs/campaigns.md"),
];

fn schema() -> Value {
    let world = World::new("guide");
    serde_json::from_str(&world.good("schema")).unwrap()
}

/// Words within code, and in blocks of code.
fn code(page: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut words = BTreeSet::new();
    for (place, block) in page.split("```").enumerate() {
        let pieces: Vec<&str> =
            if place % 2 == 1 { vec![block] } else { block.split('`').skip(1).step_by(2).collect() };
        words.extend(pieces.into_iter().flat_map(|piece| piece.split(|c| !is_word(c))));
    }
    words
}

fn codes<'a>(pages: &[&'a str]) -> BTreeSet<&'a str> {
    pages.iter().flat_map(|page| code(page)).collect()
}

/// The keys of an object, and the names that may stand for one.
fn names(of: &Value) -> BTreeSet<String> {
    let mut found: BTreeSet<String> =
        of["properties"].as_object().into_iter().flat_map(|keys| keys.keys().cloned()).collect();
    let alone = |value: &Value| value.as_str().map(ToOwned::to_owned);
    found.extend(of["enum"].as_array().into_iter().flatten().filter_map(alone));
    found.extend(alone(&of["const"]));
    for either in ["oneOf", "anyOf"] {
        found.extend(of[either].as_array().into_iter().flatten().flat_map(names));
    }
    found
}

#[test]
fn the_guide_explains_every_section_and_every_element_of_a_chain() {
    let (schema, guide) = (schema(), codes(&GUIDE));
    let sections = names(&schema);
    let elements = names(&schema["$defs"]["ElementSpec"]);
    assert!(sections.contains("commands") && elements.contains("jitter_table"));
    let missing: Vec<_> = sections.union(&elements).filter(|name| !guide.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/guide.md, elements.md and cross-traffic.md do not explain {missing:?}");
}

#[test]
fn every_key_and_every_name_of_the_schema_is_explained_in_the_guide_or_where_it_leads() {
    let schema = schema();
    let known = codes(&[GUIDE, PAGES].concat());
    // Policies of a gate are numbered.
    let is_known = |name: &String| {
        known.contains(name.as_str())
            || ["dyna", "aimd"].iter().any(|kind| {
                let number = name.strip_prefix(kind).and_then(|number| number.parse::<u8>().ok());
                number.is_some_and(|number| (1..=5).contains(&number)) && known.contains(&*format!("{kind}1"))
            })
    };
    let mut missing = Vec::new();
    for (object, specification) in schema["$defs"].as_object().unwrap() {
        missing.extend(
            names(specification)
                .into_iter()
                .filter(|name| !is_known(name))
                .map(|name| format!("{object}.{name}")),
        );
    }
    assert!(missing.is_empty(), "explained nowhere: {missing:?}");
}
