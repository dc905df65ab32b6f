//! Another queue and a frame gate at a link, whatever its scenario says.

use serde::Deserialize;
use toml::{Table, Value};

use super::schema::{ElementSpec, GateConfig, QueueSpec};
use super::{Scenario, ScenarioError, explain, validate};

/// What is put at every server of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shaping {
    /// This queue instead of its own.
    pub queue: Option<QueueSpec>,
    /// This frame gate before it, instead of those that are there.
    pub gate: Option<GateConfig>,
}

impl Scenario {
    /// The same scenario with `shaping` at every server of the link called `name`.
    ///
    /// # Errors
    /// When that link is not there or has no server; see also [`Scenario::with`].
    pub fn shaped(&self, name: &str, shaping: &Shaping) -> Result<Self, ScenarioError> {
        let error = |key: String, message| ScenarioError {
            origin: "--queue, --gate".into(),
            line: None,
            key,
            message,
        };
        let mut scenario = self.clone();
        let link = scenario
            .links
            .get_mut(name)
            .ok_or_else(|| error("links".into(), format!("there is no link `{name}`")))?;
        let mut chain = Vec::new();
        for element in link.chain.drain(..) {
            match element {
                ElementSpec::Gate(_) if shaping.gate.is_some() => {}
                ElementSpec::Server(mut server) => {
                    chain.extend(shaping.gate.map(ElementSpec::Gate));
                    server.queue = shaping.queue.clone().unwrap_or(server.queue);
                    chain.push(ElementSpec::Server(server));
                }
                other => chain.push(other),
            }
        }
        if !chain.iter().any(|element| matches!(element, ElementSpec::Server(_))) {
            let message = "has no server, whose queue it would be: add { server = { rate = \"1Mbit\" } }";
            return Err(error(format!("links.{name}.chain"), message.into()));
        }
        link.chain = chain;
        validate::check(&scenario).map_err(|fault| error(fault.key, fault.message))?;
        Ok(scenario)
    }
}

impl QueueSpec {
    /// A discipline by its name, one of [`QueueSpec::NAMES`], or as a scenario has it: `{ cake = { rtt = "50ms" } }`.
    ///
    /// # Errors
    /// Says what is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        parsed(text, &Value::String(text.to_owned()).to_string())
    }
}

/// A gate by the name of its policy (`aimd3`), with the defaults, or as a scenario has it: `{ policy = "aimd3", port = 5006 }`.
///
/// # Errors
/// Says what is wrong with it, in words.
pub fn parse_gate(text: &str) -> Result<GateConfig, String> {
    parsed(text, &format!("{{ policy = {} }}", Value::String(text.to_owned())))
}

/// A table in TOML, which is `text` itself or what its name stands for.
fn parsed<'de, T: Deserialize<'de>>(text: &str, named: &str) -> Result<T, String> {
    let is_table = text.trim_start().starts_with('{');
    let document = format!("it = {}", if is_table { text } else { named });
    let first_line = |error: toml::de::Error| {
        explain::reword(error.message().lines().next().unwrap_or_default(), text, &|_| None)
    };
    let mut table: Table = document.parse().map_err(first_line)?;
    let value: Value = table.remove("it").expect("it is the only key");
    value.try_into().map_err(first_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: &str = r#"title = "narrow"
duration = "1s"
[links.wire]
between = ["a", "b"]
chain = [{ gate = { policy = "dyna3" } }, { server = { rate = "1Mbit", queue = { packets = 10 } } }, { delay = "5ms" }]
[links.air]
between = ["b", "c"]
chain = [{ delay = "5ms" }]
[cross.noise]
from = "a"
to = "c"
traffic = { cbr = { rate = "1Mbit", packet = "150B" } }
"#;

    fn shaped(link: &str, queue: &str, gate: Option<&str>) -> Result<String, String> {
        let scenario = Scenario::parse("narrow.toml", NARROW).unwrap();
        let gate = gate.map(parse_gate).transpose()?;
        let shaping = Shaping { queue: Some(QueueSpec::parse(queue)?), gate };
        let shaped = scenario.shaped(link, &shaping).map_err(|error| error.to_string())?;
        let chain = toml::Table::try_from(&shaped).unwrap()["links"][link]["chain"].to_string();
        Ok(chain)
    }

    #[test]
    fn a_queue_by_its_name_takes_the_place_of_the_one_that_was_there() {
        let chain = shaped("wire", "cake", None).unwrap();
        assert!(
            chain.contains("cake") && !chain.contains("packets = 10") && chain.contains("dyna3"),
            "{chain}"
        );
        let chain = shaped("wire", r#"{ codel = { target = "3ms" } }"#, None).unwrap();
        assert!(chain.contains(r#"target = "3ms""#), "{chain}");
    }

    #[test]
    fn a_queue_that_needs_no_settings_is_its_name_in_a_scenario_too() {
        for name in QueueSpec::NAMES {
            let text = NARROW.replace("{ packets = 10 }", &format!("\"{name}\""));
            let scenario = Scenario::parse("narrow.toml", &text).unwrap();
            let ElementSpec::Server(server) = &scenario.links["wire"].chain[1] else {
                panic!("{scenario:?}")
            };
            assert_eq!(server.queue, QueueSpec::parse(name).unwrap(), "{name}");
            assert_eq!(server.queue == QueueSpec::default(), name == "pfifo", "{name}");
            assert_eq!(Scenario::parse("again.toml", &scenario.to_toml()).unwrap(), scenario, "{name}");
        }
        let text = NARROW.replace("{ packets = 10 }", "\"fifo\"");
        let told = Scenario::parse("narrow.toml", &text).unwrap_err().to_string();
        let expected =
            "narrow.toml:5: links.wire.chain.1.server.queue: `fifo` is not one of `pfifo`, `codel`,";
        assert!(told.starts_with(expected), "{told}");
    }

    #[test]
    fn there_is_one_gate_before_the_server() {
        let chain = shaped("wire", "pfifo", Some("aimd3")).unwrap();
        assert!(chain.contains("aimd3") && !chain.contains("dyna3"), "{chain}");
        assert!(chain.find("aimd3") < chain.find("server"), "{chain}");
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (link, queue, gate, words) in [
            ("sea", "cake", None, "there is no link `sea`"),
            ("air", "cake", None, "has no server"),
            ("wire", "cak", None, "`cak` is not one of `pfifo`, `codel`, `fq_codel`, `pie`, `red`, `cake`"),
            ("wire", "{ cakes = {} }", None, "unknown key; allowed here: `bytes`, `packets`"),
            ("wire", "{ cake", None, "unclosed"),
            ("wire", "cake", Some("aimd9"), "`aimd9` is not one of `step`"),
            ("wire", r#"{ codel = { limit = 0 } }"#, None, "limit"),
        ] {
            let error = shaped(link, queue, gate).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
