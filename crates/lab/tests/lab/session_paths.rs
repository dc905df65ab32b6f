//! Sessions of operator and robot over two paths.

use taut_core::Duration;
use taut_lab::scenario::{Scenario, Setting};

use crate::world::done;

const TWO_PATHS: &str = r#"title = "two paths, the first of which dies"
duration = "4s"
drain = "2s"

[links.a]
between = ["operator", "robot"]
chain = [{ server = { rate = "20Mbit" } }, { delay = "5ms" }, { cut = { at = "2s" } }]

[links.b]
between = ["operator", "robot"]
chain = [{ server = { rate = "20Mbit" } }, { delay = "8ms" }]

[teleop]
operator = "operator"
robot = "robot"
paths = 2
watchdog = "4s"
"#;

fn over(settings: &[&str]) -> Scenario {
    let scenario = Scenario::parse("two-paths.toml", TWO_PATHS).unwrap_or_else(|e| panic!("{e}"));
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    scenario.with(&settings).unwrap_or_else(|e| panic!("{settings:?}: {e}"))
}

#[test]
fn a_session_outlives_a_path_over_every_transport_that_has_several() {
    for transport in ["mtip", "every_path", "mpquic", "{ mpquic = { paths = \"duplicate\" } }", "mptcp"] {
        for secure in [true, false] {
            let what = format!("{transport} secure {secure}");
            let scenario =
                over(&[&format!("teleop.transport={transport}"), &format!("teleop.secure={secure}")]);
            let result = done(&what, &scenario);
            let teleop = result.teleop.as_ref().expect("there was a session");
            let applied: u64 = teleop.streams.iter().map(|stream| stream.applied).sum();
            // Half of them is what one path carried until it died.
            assert!(applied > 2_500, "{what}: {applied} applied, {teleop:?}");
            assert!(teleop.handshake_ms.is_some_and(|ms| ms < 200.0), "{what}: {:?}", teleop.handshake_ms);
        }
    }
}

#[test]
fn a_session_on_one_path_dies_with_it() {
    let result = done("udp", &over(&["teleop.transport=udp", "teleop.watchdog=100ms"]));
    let teleop = result.teleop.as_ref().expect("there was a session");
    let applied: u64 = teleop.streams.iter().map(|stream| stream.applied).sum();
    assert!((1_000..=2_000).contains(&applied), "{applied}");
}

#[test]
fn a_session_says_over_how_many_paths_it_goes_when_it_is_not_one() {
    let text = Scenario::to_toml;
    assert!(text(&over(&[])).contains("paths = 2"));
    assert!(!text(&over(&["teleop.paths=1"])).contains("paths ="));
    for (settings, key) in [
        (["teleop.paths=0", "teleop.transport=udp"], "teleop.paths"),
        (["teleop.paths=9", "teleop.transport=udp"], "teleop.paths"),
        (["teleop.paths=2", "teleop.transport.mtip.policy.fixed=2"], "teleop.transport.mtip.policy.fixed"),
    ] {
        let scenario = Scenario::parse("two-paths.toml", TWO_PATHS).unwrap();
        let settings = settings.map(|text| text.parse::<Setting>().unwrap());
        let error = scenario.with(&settings).expect_err(key);
        assert!(error.to_string().contains(key), "{error}");
    }
    assert_eq!(over(&[]).duration, Duration::from_secs(4));
}

#[test]
fn what_is_wanted_sooner_costs_copies() {
    // An answer takes 10 ms.
    let bytes = |wanted: &str| {
        let a = r#"links.a.chain=[{ delay = "5ms" }, { loss = { bernoulli = "10%" } }]"#;
        let b = r#"links.b.chain=[{ delay = "8ms" }, { loss = { bernoulli = "10%" } }]"#;
        let settings =
            [a, b, "teleop.transport=mtip", "teleop.law={ tdpa = {} }", "teleop.deadline=200ms", wanted];
        let result = done(wanted, &over(&settings));
        result.teleop.as_ref().expect("there was a session").wire.map(|wire| wire.bytes).iter().sum::<u64>()
    };
    let (late, soon) =
        (bytes(r#"teleop.wanted={ fixed = "200ms" }"#), bytes(r#"teleop.wanted={ fixed = "12ms" }"#));
    assert!(5 * soon > 6 * late, "{soon} {late}");
    // A reserve that is spent wants it as soon as that, one that is not does not.
    let reserve = bytes("teleop.wanted={ reserve = { of = \"receiver\", least = \"12ms\" } }");
    assert!(late < reserve && reserve < soon, "{late} {reserve} {soon}");
}

#[test]
fn a_law_without_a_reserve_cannot_have_messages_before_it_is_spent() {
    let scenario = Scenario::parse("two-paths.toml", TWO_PATHS).unwrap();
    for (wanted, why) in [
        (
            "teleop.wanted={ reserve = { of = \"sender\", least = \"12ms\" } }",
            "needs the law `wave` or `tdpa`",
        ),
        (r#"teleop.wanted={ fixed = "1us" }"#, "teleop.wanted.fixed: 1us is not within 100us"),
    ] {
        let error = scenario.clone().with(&[wanted.parse().unwrap()]).expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
    }
}
