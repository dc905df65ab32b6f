//! What the tests share: a scenario, a run of it, and the checks that every run must pass.

use std::path::{Path, PathBuf};

use taut_core::Seed;
use taut_lab::run::run;
use taut_lab::scenario::Scenario;
use taut_report::result::{MediumResult, RunResult};

/// A short session in both directions on one link; `{chain}`, `{session}` and `{backward}` are filled in.
const SHORT: &str = r#"title = "short"
duration = "1s"
drain = "500ms"

[links.wire]
between = ["a", "b"]
chain = [{chain}]

[session]
operator = "a"
robot = "b"
{session}

[session.forward]
haptic = { source = { simulated = { device = "leader" } } }

[session.backward]
{backward}
"#;

/// A scenario of this chain, this transport and this backward stream.
pub(crate) fn short(chain: &str, session: &str, backward: &str) -> Scenario {
    let text = SHORT.replace("{chain}", chain).replace("{session}", session).replace("{backward}", backward);
    Scenario::parse("short.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs it, and checks what holds of every run.
pub(crate) fn done(what: &str, scenario: &Scenario) -> RunResult {
    let result = run(scenario, Seed::new(1), &mut |_| ()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let books = &result.conservation;
    assert!(books.holds && books.violations.is_empty(), "{what}: {:?}", books.violations);
    let dropped: u64 = books.dropped.values().sum();
    assert_eq!(books.sent + books.duplicated, books.delivered + dropped + books.held, "{what}");
    let flows = |of: fn(&taut_report::result::FlowResult) -> u64| result.flows.iter().map(of).sum::<u64>();
    assert_eq!((flows(|f| f.sent), flows(|f| f.delivered)), (books.sent, books.delivered), "{what}");
    for medium in &result.media {
        check_medium(what, medium);
    }
    let json = result.to_json().unwrap();
    assert_eq!(RunResult::from_json(&json).unwrap_or_else(|e| panic!("{what}: {e}")), result, "{what}");
    result
}

fn check_medium(what: &str, medium: &MediumResult) {
    let what = format!("{what}: {}", medium.stream);
    assert_eq!(medium.made, medium.withheld + medium.delivered + medium.lost, "{what}: {medium:?}");
    let dropped: u64 = medium.dropped.values().sum();
    assert_eq!(medium.lost, medium.lost_in_network + dropped, "{what}: {medium:?}");
    let count = medium.delay_ms.as_ref().map(|delay| delay.count);
    assert_eq!(count, (medium.delivered > 0).then_some(medium.delivered), "{what}");
    assert!(medium.late <= medium.delivered && medium.reordered <= medium.delivered, "{what}");
    assert!(medium.loss_percent.is_none_or(|loss| (0.0..=100.0).contains(&loss)), "{what}: {medium:?}");
}

/// Of one stream, such as `backward haptic`.
pub(crate) fn medium<'a>(result: &'a RunResult, stream: &str) -> &'a MediumResult {
    let names: Vec<&str> = result.media.iter().map(|medium| medium.stream.as_str()).collect();
    result
        .media
        .iter()
        .find(|medium| medium.stream == stream)
        .unwrap_or_else(|| panic!("{stream}: {names:?}"))
}

/// The folder of recordings: `TAUT_DATA`, else beside the repository. `None`, said aloud, when it is not there.
pub(crate) fn recordings(folder: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("TAUT_DATA").map_or_else(beside, PathBuf::from).join(folder);
    if !path.is_dir() {
        println!("skipped: no recordings in {}; set TAUT_DATA to where they are", path.display());
        return None;
    }
    Some(path)
}
