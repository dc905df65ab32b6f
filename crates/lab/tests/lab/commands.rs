//! Commands over parallel paths.

use taut_lab::result::{CommandsResult, RunResult};
use taut_lab::scenario::{Scenario, Setting};

use crate::world::done;

/// Two links of 4 and 4.5 ms; the first one is dead from the tenth second on.
fn over(transport: &str, settings: &[&str]) -> CommandsResult {
    let link = |delay: &str, more: &str| {
        format!(r#"between = ["controller", "robot"]{}chain = [{{ delay = "{delay}" }}{more}]"#, '\n')
    };
    let text = format!(
        "title = \"two paths\"\nduration = \"20s\"\nwarmup = \"1s\"\n[links.a]\n{}\n[links.b]\n{}\n\
         [commands]\nfrom = \"controller\"\nto = \"robot\"\ntransport = {transport}\n",
        link("4ms", r#", { cut = { at = "10s" } }"#),
        link("4500us", ""),
    );
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    let scenario = Scenario::parse("two paths", &text).unwrap_or_else(|e| panic!("{e}"));
    let result: RunResult = done(transport, &scenario.with(&settings).unwrap_or_else(|e| panic!("{e}")));
    result.commands.expect("there are commands")
}

#[test]
fn one_path_loses_what_its_link_loses_and_the_bound_loses_nothing() {
    let single = over(r#""udp""#, &[]);
    // 9 of the 19 seconds that count.
    assert!((single.in_time_percent.unwrap() - 100.0 * 9.0 / 19.0).abs() < 0.5, "{single:?}");
    assert_eq!(single.there[1].packets, 0);
    let bound = over(r#""every_path""#, &[]);
    assert_eq!((bound.in_time, bound.copies), (bound.sent, Some(2.0)));
    assert!(bound.there[0].packets == bound.there[1].packets && bound.there[0].bytes > 150 * bound.sent);
}

#[test]
fn mtip_survives_a_dead_link_and_delivers_nothing_late() {
    for (transport, least, copies) in [
        (r#"{ mtip = { policy = "all" } }"#, 100.0, 2.001),
        (r#"{ mtip = { mode = "compatible", policy = "all" } }"#, 100.0, 2.001),
        (r#"{ mtip = { policy = "adaptive" } }"#, 99.5, 1.3),
        (r#"{ mtip = { policy = "deadline" } }"#, 99.9, 1.3),
    ] {
        let result = over(transport, &[]);
        assert_eq!(result.late, 0, "{transport}");
        assert!(result.in_time_percent.unwrap() >= least, "{transport}: {:?}", result.in_time_percent);
        assert!(result.copies.unwrap() <= copies, "{transport}: {:?}", result.copies);
    }
}

#[test]
fn the_longest_gap_is_that_of_the_application() {
    // A command every 30 ms; the link dies at 10 s, the last command of all is made at 19.98 s.
    let single = over(r#""udp""#, &[]);
    let gap = single.gap_ms.unwrap();
    assert!((9_950.0..=10_000.0).contains(&gap), "{gap}");
    let bound = over(r#""every_path""#, &[]);
    assert!(
        (bound.gap_ms.unwrap() - 30.5).abs() < 0.001,
        "from the last by one link to the first by the other: {bound:?}"
    );
}

#[test]
fn mptcp_delivers_everything_and_its_timeout_shows() {
    let result = over(r#"{ mptcp = { subflow = { min_rto = "200ms" } } }"#, &[]);
    assert_eq!(result.received, result.sent);
    assert!(result.late > 0 && result.latency_ms.unwrap().max > 100.0);
    let redundant = over(r#"{ mptcp = { scheduler = "redundant" } }"#, &[]);
    assert_eq!(redundant.in_time, redundant.sent);
}

#[test]
fn a_path_that_does_not_exist_is_refused() {
    let error = Scenario::parse(
        "paths",
        "title = \"x\"\nduration = \"1s\"\n[links.a]\nbetween = [\"a\", \"b\"]\n[commands]\nfrom = \"a\"\nto = \"b\"\n\
         transport = { mtip = { policy = { fixed = 2 } } }\n",
    );
    assert!(error.unwrap_err().to_string().contains("fixed"));
}
