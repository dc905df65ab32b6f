//! `[[axis]]`: what is varied, and all combinations of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{Scenario, Variant};
use super::validate::{Checked, fault};

/// Something that is varied. The variants of a scenario are those that it lists, and then every combination of one value of
/// each axis; of the first axis, each value's combinations stand together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What is varied: `transport`.
    pub name: String,
    /// What it may be. At least one.
    #[serde(rename = "value")]
    pub values: Vec<AxisValue>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisValue {
    /// How reports call it. A variant is called by the names of its values, `QUIC, moderate`.
    pub name: String,
    /// Keys that it sets, as those of a variant. No key may be set by two axes.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
}

/// More combinations than this are a mistake.
const MOST_VARIANTS: usize = 10_000;

impl Scenario {
    /// Every variant: those that are listed, then the combinations of the axes.
    pub fn all_variants(&self) -> Vec<Variant> {
        let mut all = self.variants.clone();
        if self.axes.is_empty() {
            return all;
        }
        let mut combined =
            vec![Variant { name: String::new(), set: BTreeMap::new(), reported: BTreeMap::new() }];
        for axis in &self.axes {
            let with = |before: &Variant, value: &AxisValue| {
                let mut variant = before.clone();
                let separator = if variant.name.is_empty() { "" } else { ", " };
                variant.name.push_str(&format!("{separator}{}", value.name));
                variant.set.extend(value.set.clone());
                variant
            };
            combined = combined
                .iter()
                .flat_map(|before| axis.values.iter().map(move |value| with(before, value)))
                .collect();
        }
        all.extend(combined);
        all
    }
}

pub(super) fn check(scenario: &Scenario) -> Checked {
    let mut count = 1usize;
    for (i, axis) in scenario.axes.iter().enumerate() {
        let key = format!("axis.{i}");
        if axis.values.is_empty() {
            return fault(
                format!("{key}.value"),
                "has no values; write [[axis.value]] with a name and what it sets",
            );
        }
        count = count.saturating_mul(axis.values.len());
        let keys =
            |axis: &Axis| axis.values.iter().flat_map(|value| value.set.keys().cloned()).collect::<Vec<_>>();
        for before in &scenario.axes[..i] {
            let taken = keys(before);
            if let Some(twice) = keys(axis).iter().find(|set| taken.contains(set)) {
                return fault(key, format!("sets `{twice}`, which axis `{}` sets as well", before.name));
            }
        }
    }
    if count > MOST_VARIANTS {
        return fault("axis", format!("makes {count} combinations; {MOST_VARIANTS} are the most"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    const TEXT: &str = r#"
title = "axes"
duration = "1s"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "1ms" }]
[cross.one]
from = "a"
to = "b"
traffic = { cbr = { rate = "1Mbit", packet = "100B" } }
[[variant]]
name = "listed"
[[axis]]
name = "delay"
[[axis.value]]
name = "near"
set = { "links.delay" = "1ms" }
[[axis.value]]
name = "far"
set = { "links.delay" = "9ms" }
[[axis]]
name = "load"
[[axis.value]]
name = "low"
[[axis.value]]
name = "high"
set = { "cross.rate" = "9Mbit" }
"#;

    #[test]
    fn every_combination_is_a_variant_after_the_listed_ones() {
        let scenario = Scenario::parse("axes.toml", TEXT).unwrap();
        let variants = scenario.expand().unwrap();
        let names: Vec<&str> = variants.iter().map(|(variant, _)| variant.name.as_str()).collect();
        assert_eq!(names, ["listed", "near, low", "near, high", "far, low", "far, high"]);
        let text = variants[4].1.to_toml();
        assert!(text.contains("9ms") && text.contains("9Mbit") && !text.contains("axis"), "{text}");
    }

    #[test]
    fn two_axes_that_set_one_key_are_refused() {
        let text = TEXT.replace("cross.rate\" = \"9Mbit", "links.delay\" = \"2ms");
        let told = Scenario::parse("axes.toml", &text).unwrap_err().to_string();
        assert!(told.contains("axis.1") && told.contains("links.delay"), "{told}");
        let text =
            TEXT.split("[[axis]]").next().unwrap().to_owned() + "[[axis]]\nname = \"none\"\nvalue = []\n";
        let told = Scenario::parse("axes.toml", &text).unwrap_err().to_string();
        assert!(told.contains("has no values"), "{told}");
    }
}
