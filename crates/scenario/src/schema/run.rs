//! The scenario as a whole: what is run, for how long, and in which variants.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::Duration;
use taut_qos::limits::Profile;

use super::commands::Commands;
use super::defaults::{is_default, ms};
use super::links::{Lan, LinkSpec};
use super::session::{Direction, Session};
use super::traffic::Cross;
use crate::axes::Axis;
use crate::teleop::Teleop;

/// An experiment: a network, a session on it, cross traffic beside it, and the variants to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A heading for reports.
    pub title: String,
    /// What the experiment is for, in a sentence or two.
    #[serde(default)]
    pub description: String,
    /// Samples made before this time are counted. More than 0.
    pub duration: Duration,
    /// Samples made before this time are not counted. Less than `duration`.
    #[serde(default)]
    pub warmup: Duration,
    /// Whose limits the media are held against: `telehaptic`, `tr22847_dynamic`, `tr22847_stationary`, `jnd_damper`, `jnd_spring` or
    /// `jnd_inertia`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "String", extend("enum" = Profile::NAMES))]
    pub limits: Profile,
    /// How long the run goes on after `duration`, so that the last samples can arrive.
    #[serde(default = "ms::<2000>")]
    pub drain: Duration,
    /// Star networks: each makes a vertex of its own name and one for every host, `NAME/1`, `NAME/2`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lans: BTreeMap<String, Lan>,
    /// Links by name. Vertices are whatever links (and LANs) connect.
    pub links: BTreeMap<String, LinkSpec>,
    /// The session under test.
    pub session: Option<Session>,
    /// A whole teleoperation session under test, instead of `session`.
    pub teleop: Option<Teleop>,
    /// A flow of commands over one path or several.
    pub commands: Option<Commands>,
    /// Other traffic, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cross: BTreeMap<String, Cross>,
    /// Compare the run with the closed-form model of a shared link.
    pub model: Option<Model>,
    /// Points of a sweep; without any, the scenario itself is the only one.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// What is varied in all combinations, after the variants that are listed.
    #[serde(default, rename = "axis", skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
}

/// What the closed-form model is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The shared link: its chain must have a server with a constant rate and a queue limited in bytes, and a delay.
    pub link: String,
    /// `forward` or `backward`.
    pub direction: Direction,
    /// The cross traffic that shares it, by name.
    pub cross: Vec<String>,
}

/// One point of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// How reports call it.
    pub name: String,
    /// Keys that it sets, as `--set` does: `{ "cross.constant.rate" = "1.904Mbit" }`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
    /// What the source reports for it, by the name of the measure: `{ "backward haptic d_min" = 9.21 }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<String, f64>,
    /// Keys that somebody set otherwise than it does: it is not what its name says.
    #[serde(skip)]
    pub overridden: Vec<String>,
}
