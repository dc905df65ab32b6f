//! `[[axis]]`: what is varied, and all combinations of it.

use std::collections::BTreeMap;
use std::str::FromStr;

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
    /// Keys that it sets, as those of a variant. No key may be set by two axes, nor replaced by one that another sets.
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
        let mut combined = vec![Variant::default()];
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

/// A value of an axis that is chosen, `transport=UDP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The axis.
    pub axis: String,
    /// The name of one of its values.
    pub value: String,
}

impl FromStr for Choice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').map(|(axis, value)| (axis.trim(), value.trim()));
        match parts {
            Some((axis, value)) if !axis.is_empty() && !value.is_empty() => {
                Ok(Self { axis: axis.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{text}` names no value of an axis; write transport=UDP")),
        }
    }
}

/// Several in one line, `transport=UDP,condition=baseline`. A comma is between two of them only where another `AXIS=` follows:
/// values have commas in their names, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices(pub Vec<Choice>);

impl FromStr for Choices {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            match parts.last_mut() {
                Some(last) if !part.contains('=') => *last = format!("{last},{part}"),
                _ => parts.push(part.to_owned()),
            }
        }
        parts.iter().map(|part| part.parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl Scenario {
    /// Which of [`Scenario::all_variants`] are chosen: of each axis that `choices` name, those with one of the values that
    /// they name of it. Variants that are listed lie on no axis, and are chosen only where nothing is named.
    ///
    /// # Errors
    /// One line: an axis or a value that there is none of, and what there is.
    pub fn choose(&self, choices: &[Choice]) -> Result<Vec<bool>, String> {
        for choice in choices {
            self.check_choice(choice)?;
        }
        let chosen = |axis: &Axis, value: &AxisValue| {
            let mut named = choices.iter().filter(|choice| choice.axis == axis.name).peekable();
            named.peek().is_none() || named.any(|choice| choice.value == value.name)
        };
        let mut all = vec![choices.is_empty(); self.variants.len()];
        if !self.axes.is_empty() {
            let mut combined = vec![true];
            for axis in &self.axes {
                let with = |before: &bool| {
                    let before = *before;
                    axis.values.iter().map(move |value| before && chosen(axis, value)).collect::<Vec<_>>()
                };
                combined = combined.iter().flat_map(with).collect();
            }
            all.extend(combined);
        }
        Ok(all)
    }

    /// Where in the file the setting `key` of the variant with this number stands, as a dotted key. No two axes set one.
    pub(super) fn place_of_setting(&self, variant: usize, key: &str) -> String {
        let Some(mut combination) = variant.checked_sub(self.variants.len()) else {
            return format!("variant.{variant}.set.{key}");
        };
        // The values of the last axis follow each other.
        for (i, axis) in self.axes.iter().enumerate().rev() {
            let value = combination % axis.values.len();
            combination /= axis.values.len();
            if axis.values[value].set.contains_key(key) {
                return format!("axis.{i}.value.{value}.set.{key}");
            }
        }
        "axis".to_owned()
    }

    fn check_choice(&self, choice: &Choice) -> Result<(), String> {
        let list = |names: Vec<&str>| names.join(", ");
        let Some(axis) = self.axes.iter().find(|axis| axis.name == choice.axis) else {
            let there = match self.axes.as_slice() {
                [] => "this scenario has none".to_owned(),
                axes => format!("there are {}", list(axes.iter().map(|axis| axis.name.as_str()).collect())),
            };
            return Err(format!("there is no axis `{}`; {there}", choice.axis));
        };
        if !axis.values.iter().any(|value| value.name == choice.value) {
            let there = list(axis.values.iter().map(|value| value.name.as_str()).collect());
            return Err(format!("axis `{}` has no value `{}`; there are {there}", axis.name, choice.value));
        }
        Ok(())
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
    use super::{Choice, Choices};
    use crate::Scenario;

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

    #[test]
    fn a_key_that_another_one_of_its_variant_replaces_is_refused_however_both_are_written() {
        let of_axes = TEXT.replace("cross.rate\" = \"9Mbit", "links.wire.chain.0.delay\" = \"2ms");
        let listed =
            |set: &str| TEXT.replace("name = \"listed\"", &format!("name = \"listed\"\nset = {{ {set} }}"));
        // Spelled so, that of the whole comes later.
        let whole = listed("\"cross.one.traffic.cbr.rate\" = \"2Mbit\", \"one.traffic\" = \"voice\"");
        for (text, refused, by) in [
            (&of_axes, "links.delay=1ms", "links.wire.chain.0.delay"),
            (&whole, "cross.one.traffic.cbr.rate=2Mbit", "one.traffic"),
        ] {
            let told = Scenario::parse("axes.toml", text).unwrap().expand().unwrap_err().to_string();
            assert!(
                told.contains(refused) && told.ends_with(&format!("no effect, `{by}` replaces it")),
                "{told}"
            );
        }
        // A part of what was set before has an effect.
        let part = listed(
            "\"cross.one.traffic\" = { cbr = { rate = \"1Mbit\", packet = \"90B\" } }, \"one.rate\" = \"2Mbit\"",
        );
        Scenario::parse("axes.toml", &part).unwrap().expand().unwrap();
    }

    #[test]
    fn a_comma_in_the_name_of_a_value_belongs_to_it() {
        let chosen = |text: &str| {
            let choices: Choices = text.parse().unwrap();
            choices.0.into_iter().map(|choice| (choice.axis, choice.value)).collect::<Vec<_>>()
        };
        let pair = |axis: &str, value: &str| (axis.to_owned(), value.to_owned());
        let published = pair("protocol", "MTIP-B, published");
        assert_eq!(chosen("protocol=MTIP-B, published"), std::slice::from_ref(&published));
        assert_eq!(
            chosen("protocol=MTIP-B, published,condition=a, b, protocol=UDP"),
            [published, pair("condition", "a, b"), pair("protocol", "UDP")]
        );
        for wrong in ["UDP", "UDP,protocol=UDP", "protocol=", ""] {
            assert!(wrong.parse::<Choices>().unwrap_err().contains("write transport=UDP"), "{wrong}");
        }
    }

    #[test]
    fn choices_of_one_axis_add_up_and_those_of_several_must_all_hold() {
        let scenario = Scenario::parse("axes.toml", TEXT).unwrap();
        let names = |choices: &[&str]| {
            let choices: Vec<Choice> = choices.iter().map(|choice| choice.parse().unwrap()).collect();
            let chosen = scenario.choose(&choices)?;
            let all = scenario.all_variants().into_iter().zip(chosen);
            Ok::<_, String>(all.filter(|(_, is)| *is).map(|(variant, _)| variant.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), 5);
        assert_eq!(names(&["delay=far"]).unwrap(), ["far, low", "far, high"]);
        assert_eq!(names(&["load=high", "delay=near", "delay=far"]).unwrap(), ["near, high", "far, high"]);
        assert_eq!(
            names(&["load=none"]).unwrap_err(),
            "axis `load` has no value `none`; there are low, high"
        );
        assert_eq!(names(&["size=none"]).unwrap_err(), "there is no axis `size`; there are delay, load");
        assert!("delay".parse::<Choice>().unwrap_err().contains("write transport=UDP"));
    }
}
