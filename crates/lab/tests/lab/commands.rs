//! Commands over parallel paths.

use std::path::Path;
use std::sync::LazyLock;

use taut_core::Seed;
use taut_lab::job::single;
use taut_lab::run::{Extras, run};
use taut_lab::scenario::{Scenario, Setting};
use taut_report::result::{CommandsResult, RunResult};

use crate::world::{done, recordings};

/// Two links of 4 and 4.5 ms; the first one is dead from the tenth second on.
fn over(transport: &str, settings: &[&str]) -> CommandsResult {
    let link = |delay: &str, more: &str| {
        format!(r#"between = ["controller", "robot"]{}chain = [{{ delay = "{delay}" }}{more}]"#, '\n')
    };
    let text = format!(
        "title = \"two paths\"\nduration = \"20s\"\nwarmup = \"1s\"\n[links.a]\n{}\n[links.b]\n{}\n\
         [commands]\nfrom = \"controller\"\nto = \"robot\"\nbare = true\ntransport = {transport}\n",
        link("4ms", r#", { cut = { at = "10s" } }"#),
        link("4500us", ""),
    );
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    let scenario = Scenario::parse("two paths", &text).unwrap_or_else(|e| panic!("{e}"));
    let result: RunResult = done(transport, &scenario.with(&settings).unwrap_or_else(|e| panic!("{e}")));
    result.commands.expect("there are commands")
}

/// The same in a session with one channel.
fn in_a_session(transport: &str) -> CommandsResult {
    over(transport, &["commands.bare=false"])
}

#[test]
fn commands_are_a_session_with_one_channel_over_every_transport() {
    // 9 of the 19 seconds that count: the rest has no path.
    let single = |transport| in_a_session(transport).in_time_percent.unwrap();
    for transport in ["\"udp\"", "\"quic\"", "{ etp = {} }", "{ tcp = {} }", "\"sctp\"", "\"dccp\""] {
        let in_time = single(transport);
        assert!((in_time - 100.0 * 9.0 / 19.0).abs() < 1.0, "{transport}: {in_time} %");
    }
    for (transport, least, copies) in [
        (r#""every_path""#, 100.0, 2.0),
        (r#"{ mtip = { policy = "all" } }"#, 100.0, 2.0),
        (r#"{ mtip = { policy = "adaptive" } }"#, 99.5, 2.0),
        (r#"{ mtip = { policy = "deadline" } }"#, 99.8, 1.3),
        (r#"{ mpquic = { paths = "duplicate" } }"#, 100.0, 2.0),
        (r#"{ mpquic = {} }"#, 96.0, 1.0),
        (r#"{ mptcp = { subflow = { min_rto = "200ms" } } }"#, 98.0, 1.1),
    ] {
        let result = in_a_session(transport);
        assert!(result.in_time_percent.unwrap() >= least, "{transport}: {result:?}");
        assert!(result.copies.unwrap() <= copies, "{transport}: {:?}", result.copies);
        assert!((4.0..5.0).contains(&result.latency_ms.as_ref().unwrap().p50), "{transport}: {result:?}");
        // It acknowledges, and the clocks are compared.
        assert!(result.back.iter().any(|path| path.packets > 0), "{transport}");
        assert_eq!(result.refused, 0, "{transport}");
    }
}

#[test]
fn a_session_sends_nothing_that_cannot_arrive_in_time() {
    let result = over("\"udp\"", &["commands.bare=false", "commands.deadline=3ms"]);
    assert_eq!((result.received, result.bound_percent), (0, Some(0.0)), "{result:?}");
    assert!(result.there[0].packets < result.sent / 2, "{result:?}");
}

#[test]
fn one_path_loses_what_its_link_loses_and_every_path_loses_nothing() {
    let single = over(r#""udp""#, &[]);
    // 9 of the 19 seconds that count.
    assert!((single.in_time_percent.unwrap() - 100.0 * 9.0 / 19.0).abs() < 0.5, "{single:?}");
    assert_eq!(single.there[1].packets, 0);
    assert_eq!(single.bound_percent, Some(100.0));
    assert_eq!(single.below_bound_points, Some(100.0 - single.in_time_percent.unwrap()));
    let every = over(r#""every_path""#, &[]);
    assert_eq!((every.in_time, every.copies), (every.sent, Some(2.0)));
    assert!(every.there[0].packets == every.there[1].packets && every.there[0].bytes > 150 * every.sent);
}

/// Two links of 4 and 8 ms, each with these elements behind its delay, and a command every 10 ms for 10 s.
fn over_equal_links(transport: &str, more: &str, settings: &[&str]) -> CommandsResult {
    let link = |name: &str, delay: &str| {
        format!(
            "[links.{name}]\nbetween = [\"controller\", \"robot\"]\nchain = [{{ delay = \"{delay}\" }}, {more}]\n"
        )
    };
    let text = format!(
        "title = \"bound\"\nduration = \"10s\"\n{}{}[commands]\nfrom = \"controller\"\nto = \"robot\"\n\
         period = \"10ms\"\nbare = true\ntransport = {transport}\n",
        link("a", "4ms"),
        link("b", "8ms"),
    );
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    let scenario = Scenario::parse("bound", &text).unwrap_or_else(|e| panic!("{e}"));
    let result = done(transport, &scenario.with(&settings).unwrap_or_else(|e| panic!("{e}")));
    result.commands.expect("there are commands")
}

#[test]
fn the_bound_counts_what_a_later_moment_or_another_path_would_have_saved_and_nothing_else() {
    let cut = r#"{ cut = { at = "5s", until = "6s" } }"#;
    // Of link a all that is sent from 4.996 s until 5.996 s is lost. Commands made from 5.985 s on may still leave after that.
    let every = over_equal_links(r#""every_path""#, cut, &[]);
    assert_eq!((every.sent, every.in_time), (1_000, 900));
    assert_eq!((every.bound_percent, every.below_bound_points), (Some(90.1), Some(90.1 - 90.0)));
    let deadline = over_equal_links(r#"{ mtip = { policy = "deadline" } }"#, cut, &[]);
    assert_eq!(deadline.bound_percent, Some(90.1));
    // 8 ms there and 3 to spare: link b could still have saved those that a had not, until it is cut itself.
    let one = over_equal_links(r#""udp""#, cut, &["commands.paths=1"]);
    assert_eq!((one.in_time, one.bound_percent), (900, Some(90.1)));
    let hasty = over_equal_links(r#""udp""#, cut, &["commands.deadline=4ms"]);
    assert_eq!((hasty.in_time, hasty.bound_percent, hasty.below_bound_points), (900, Some(90.0), Some(0.0)));
}

#[test]
fn every_protocol_meets_the_same_luck_and_none_passes_the_bound() {
    let loss =
        r#"{ jitter = { spread = "1ms", distribution = "normal" } }, { loss = { bernoulli = "40%" } }"#;
    let chance = |transport: &str| over_equal_links(transport, loss, &["commands.deadline=15ms"]);
    let every = chance(r#""every_path""#);
    assert!((80.0..88.0).contains(&every.in_time_percent.unwrap()), "1 less 40 % of 40 %: {every:?}");
    for transport in [
        r#""udp""#,
        r#"{ mtip = { policy = "all" } }"#,
        r#"{ mtip = { policy = "adaptive" } }"#,
        r#"{ mtip = { policy = "deadline" } }"#,
        r#"{ mpquic = { paths = "duplicate" } }"#,
        r#"{ mptcp = {} }"#,
    ] {
        let result = chance(transport);
        assert_eq!(result.bound_percent, every.bound_percent, "{transport}");
        assert!(result.below_bound_points.unwrap() >= 0.0, "{transport}: {result:?}");
    }
    // When nothing can be sent later, one copy on each path is all that can be done, and what it gets is the bound itself.
    let hasty = |transport| {
        over_equal_links(transport, r#"{ loss = { bernoulli = "40%" } }"#, &["commands.deadline=8ms"])
    };
    let (every, udp) = (hasty(r#""every_path""#), hasty(r#""udp""#));
    assert!((80.0..88.0).contains(&every.in_time_percent.unwrap()), "{every:?}");
    assert_eq!(every.bound_percent, udp.bound_percent);
    assert!(every.below_bound_points.unwrap() > 0.0, "on link a a later moment would do");
    let only_now = |transport| {
        over_equal_links(
            transport,
            r#"{ loss = { bernoulli = "40%" } }"#,
            &["commands.deadline=8ms", "links.a.chain.0.delay=8ms"],
        )
    };
    let (every, udp) = (only_now(r#""every_path""#), only_now(r#""udp""#));
    assert_eq!((every.below_bound_points, every.bound_percent), (Some(0.0), udp.bound_percent));
    assert!((55.0..65.0).contains(&udp.in_time_percent.unwrap()) && every.in_time > udp.in_time + 150);
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
fn every_choice_of_paths_is_in_the_events_and_their_sums_are_in_the_result() {
    let text = "title = \"choices\"\nduration = \"5s\"\n\
                [links.a]\nbetween = [\"c\", \"r\"]\nchain = [{ delay = \"4ms\" }, { cut = { at = \"3s\" } }]\n\
                [links.b]\nbetween = [\"c\", \"r\"]\nchain = [{ delay = \"4500us\" }]\n\
                [commands]\nfrom = \"c\"\nto = \"r\"\nbare = true\ntransport = { mtip = { policy = \"deadline\" } }\n";
    let scenario = Scenario::parse("choices", text).unwrap_or_else(|e| panic!("{e}"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("choices");
    let _ = std::fs::remove_dir_all(&folder);
    let events = Extras { events: true, ..Extras::default() };
    let (result, _) = single(&scenario, Seed::new(1), events, Some(&folder), &mut |_| ()).unwrap();
    assert_eq!(result, run(&scenario, Seed::new(1), &mut |_| ()).unwrap(), "who looks on changes nothing");

    let log = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let chosen: Vec<_> = lines.filter(|line| line["event"] == "chosen").collect();
    let commands = result.commands.expect("there are commands");
    let choices = commands.choices.expect("MTIP counts them");
    for (reason, sums) in &choices.reasons {
        let these = || chosen.iter().filter(|line| line["reason"] == reason.as_str());
        let copies: usize = these().map(|line| line["paths"].as_array().unwrap().len()).sum();
        assert_eq!((these().count() as u64, copies as u64), (sums.choices, sums.copies), "{reason}");
    }
    let counted: u64 = choices.reasons.values().map(|sums| sums.choices).sum();
    assert_eq!((chosen.len() as u64, choices.at_once.iter().sum::<u64>()), (counted, commands.sent));
    let died = |line: &&serde_json::Value| line["at_ns"].as_u64() > Some(3_000_000_000);
    let overdue = chosen.iter().filter(died).find(|line| line["reason"] == "overdue").expect("link a dies");
    let number = |key: &str| overdue[key].as_f64().unwrap();
    // By link b, when the answer of link a is overdue: a round trip of 8 ms and a little after the command was made.
    assert_eq!(
        (&overdue["paths"], number("budget_ns"), number("margin_ns")),
        (&serde_json::json!([1]), 6e6, 0.0)
    );
    assert!(number("probability") > 0.9, "{overdue}");
    assert_eq!(overdue["target"], serde_json::json!(0.9985));
    let estimates = overdue["estimates"].as_array().unwrap();
    let one_way = |path: usize| estimates[path]["one_way_p99_ns"].as_f64().unwrap();
    assert!((one_way(0) - 4e6).abs() < 2e5 && (one_way(1) - 4.5e6).abs() < 2e5, "{overdue}");
}

#[test]
fn what_the_receiver_may_assume_of_clocks_decides_what_is_late() {
    // A way there and a way back of each path, a deadline of 15 ms: is all in time delivered, and all late?
    for (ways, in_time, clocks, delivered) in [
        ([13, 25], true, "estimated", true),
        ([13, 25], true, "synchronised", true),
        ([13, 25], true, "strict", false),
        ([17, 3], false, "estimated", true),
        ([17, 3], false, "synchronised", false),
        ([17, 3], false, "strict", false),
    ] {
        let [there, back] = ways;
        let links = ["a", "b"].map(|name| {
            format!(
                "[links.{name}0]\nfrom = \"c\"\nto = \"r\"\nchain = [{{ delay = \"{there}ms\" }}]\n\
                 [links.{name}1]\nfrom = \"r\"\nto = \"c\"\nchain = [{{ delay = \"{back}ms\" }}]\n"
            )
        });
        let text = format!(
            "title = \"asymmetry\"\nduration = \"5s\"\nwarmup = \"1s\"\n{}[commands]\nfrom = \"c\"\nto = \"r\"\nbare = true\n\
             transport = {{ mtip = {{ clocks = \"{clocks}\" }} }}\n",
            links.concat(),
        );
        let scenario = Scenario::parse("asymmetry", &text).unwrap_or_else(|e| panic!("{e}"));
        let result = done(clocks, &scenario).commands.expect("there are commands");
        let all = |those: bool| if those { result.sent } else { 0 };
        let expected = (all(delivered && in_time), all(delivered && !in_time));
        assert_eq!((result.in_time, result.late), expected, "{ways:?}, {clocks}");
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
fn mpquic_fails_over_after_its_idle_timeout_and_its_copies_lose_nothing() {
    let fail_over = over(r#"{ mpquic = {} }"#, &[]);
    let lost = fail_over.sent - fail_over.in_time;
    // 500 ms of a command each 30.
    assert!((10..=25).contains(&lost) && fail_over.copies == Some(1.0), "{fail_over:?}");
    let copies = over(r#"{ mpquic = { paths = "duplicate" } }"#, &[]);
    assert_eq!(copies.in_time, copies.sent);
    assert!(copies.copies.unwrap() <= 2.0);
}

/// The shipped scenario with a change: share in time in per cent, copies a message and late deliveries, means over some seeds.
fn under(
    protocol: &str,
    condition: &str,
    seeds: std::ops::RangeInclusive<u64>,
    change: fn(String) -> String,
) -> Option<(f64, f64, u64)> {
    recordings("multipath-5g")?;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = std::fs::read_to_string(directory.join("two-5g-links.toml")).unwrap();
    let data = directory.join("../../shared/data").display().to_string();
    let text = change(text).replace("../../shared/data", &data);
    let scenario = Scenario::parse("two-5g-links", &text).unwrap_or_else(|e| panic!("{e}"));
    let variants = scenario.expand().unwrap_or_else(|e| panic!("{e}"));
    let name = format!("{protocol}, {condition}");
    let scenario = &variants.iter().find(|(variant, _)| variant.name == name).expect("there is such a one").1;
    Some(mean(scenario, seeds))
}

fn mean(scenario: &Scenario, seeds: std::ops::RangeInclusive<u64>) -> (f64, f64, u64) {
    let (count, mut sums) = (seeds.clone().count() as f64, (0.0, 0.0, 0));
    for seed in seeds {
        let result = run(scenario, Seed::new(seed), &mut |_| ()).unwrap_or_else(|e| panic!("{e}"));
        let commands = result.commands.expect("it has commands");
        sums.0 += commands.in_time_percent.unwrap();
        sums.1 += commands.copies.unwrap();
        sums.2 += commands.late;
    }
    (sums.0 / count, sums.1 / count, sums.2)
}

/// What a protocol does under the four conditions of the shipped scenario: share in time in per cent, copies a message and
/// late deliveries, means over some seeds. `None` where its recordings are not.
fn under_each_condition(
    protocol: &str,
    seeds: std::ops::RangeInclusive<u64>,
) -> Option<Vec<(f64, f64, u64)>> {
    recordings("multipath-5g")?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/two-5g-links.toml");
    let scenario = Scenario::read(&path).unwrap_or_else(|e| panic!("{e}"));
    let variants = scenario.expand().unwrap_or_else(|e| panic!("{e}")).into_iter();
    let conditions = ["a stable", "b link failure", "c latency and jitter", "d congestion"];
    let names = conditions.map(|condition| format!("{protocol}, {condition}"));
    let of_protocol = variants.filter(|(variant, _)| names.contains(&variant.name));
    let means = of_protocol.map(|(_, scenario)| mean(&scenario, seeds.clone()));
    Some(means.collect())
}

/// What every path gives under each condition.
static EVERY_PATH: LazyLock<Option<Vec<(f64, f64, u64)>>> =
    LazyLock::new(|| under_each_condition("MTIP-A", 1..=5));

#[test]
fn over_two_5g_links_the_deadline_scheduler_meets_its_goal() {
    let Some(deadline) = under_each_condition("deadline", 1..=5) else { return };
    let all = EVERY_PATH.as_ref().expect("the recordings are there");
    let [a, b, c, d] = deadline[..] else { panic!("four conditions: {deadline:?}") };
    for (ours, theirs) in [a, b, c].iter().zip(all) {
        assert!(ours.0 >= theirs.0 - 0.05 && ours.1 <= 1.1, "{deadline:?}");
    }
    // Five seeds leave ± 0.05 points; over_two_5g_links_congestion_costs_no_more_than_mtip_b_at_length takes all of them.
    assert!(d.0 >= 99.85 && d.1 <= 1.13, "{deadline:?}");
}

/// 25 seeds: with as many of each, half a hundredth of a copy is more than chance.
#[test]
#[ignore = "make test-long"]
fn over_two_5g_links_congestion_costs_no_more_than_mtip_b_at_length() {
    let Some(deadline) = under("deadline", "d congestion", 1..=25, |text| text) else { return };
    let adaptive = under("MTIP-B", "d congestion", 1..=25, |text| text).expect("the recordings are there");
    println!("{deadline:?}, {adaptive:?}");
    // As many copies, within the half width of either mean.
    assert!(deadline.0 >= 99.9 && deadline.1 <= adaptive.1 + 0.006, "{deadline:?}, {adaptive:?}");
}

/// Two milliseconds more, which is nearest to its limits.
#[test]
fn whatever_the_delays_the_deadline_scheduler_is_about_as_good_as_every_path() {
    about_as_good_as_every_path(&[1]);
}

#[test]
#[ignore = "make test-long"]
fn whatever_the_delays_the_deadline_scheduler_is_about_as_good_as_every_path_at_length() {
    about_as_good_as_every_path(&[0, 1, 2, 3]);
}

/// The same with other delays, another spread, deadline or period: half a millisecond decides whether there is time for an answer.
fn about_as_good_as_every_path(which: &[usize]) {
    type Change = fn(String) -> String;
    let changes: [(&str, Change); 4] = [
        ("half a millisecond more", |text| {
            text.replace("\"4500us\"", "\"5ms\"").replace("\"4ms\"", "\"4500us\"")
        }),
        ("two milliseconds more", |text| {
            text.replace("\"4500us\"", "\"6500us\"").replace("\"4ms\"", "\"6ms\"")
        }),
        ("a spread of a millisecond", |text| text.replace("\"300us\"", "\"1ms\"")),
        ("a deadline of 12 ms", |text| text.replace("\"15ms\"", "\"12ms\"")),
    ];
    for (name, change) in which.iter().map(|&number| changes[number]) {
        let Some(ours) = under("deadline", "d congestion", 1..=4, change) else { return };
        let all = under("MTIP-A", "d congestion", 1..=4, change).expect("the recordings are there");
        println!("{name}: {ours:?}, {all:?}");
        // 0.05 points, and what four seeds of each leave open.
        assert!(ours.0 >= all.0 - 0.05 - 0.16 && ours.1 < 1.95, "{name}: {ours:?}, {all:?}");
    }
}

#[test]
fn over_two_5g_links_neither_mtip_a_nor_mtip_b_delivers_late() {
    let Some(all) = EVERY_PATH.as_ref() else { return };
    let adaptive = under_each_condition("MTIP-B", 1..=3).expect("the recordings are there");
    assert!(all.iter().chain(&adaptive).all(|(_, _, late)| *late == 0));
    assert!(all.iter().all(|(in_time, ..)| *in_time > 99.0), "{all:?}");
    // Where a path is dead for half of the time, half of the commands have one copy.
    let copies = [1.99, 1.5, 1.99, 1.99];
    assert!(all.iter().zip(copies).all(|((_, copies, _), least)| *copies > least), "{all:?}");
    assert!(
        adaptive[..3].iter().all(|(in_time, copies, _)| *in_time > 99.0 && *copies < 1.3),
        "{adaptive:?}"
    );
}

/// Loss in every second that counts, as a share; the way back loses as much.
fn losses() -> Option<Vec<f64>> {
    let table = recordings("multipath-5g")?.join("Path_losses_for_congestion.csv");
    let text = std::fs::read_to_string(table).unwrap();
    let percent = |line: &str| line.split(',').nth(2).unwrap().parse::<f64>().unwrap();
    Some(text.lines().skip(2).map(|line| percent(line) / 100.0).collect())
}

/// The greatest share in time, in per cent, with so many copies a message, of a scheduler that knows each second's loss but
/// not the future, in the fourth condition: `at_once` copies, and `later` ones if no answer has come by the last moment.
///
/// A round trip takes 8 ms, so that there is one such moment within 15. Losses are independent. What is kept of each second is the
/// pair that is best for a price of a copy, the price so high that the copies suffice (Lagrange).
fn best_without_the_future(losses: &[f64], copies: f64, answered_everywhere: bool) -> f64 {
    let mut best = 0.0_f64;
    for step in 0..4_000 {
        let price = 10.0_f64.powf(-f64::from(step) / 500.0);
        let (mut spent, mut lost) = (0.0, 0.0);
        for p in losses {
            let answer_lost = if answered_everywhere { p * p } else { *p };
            let pairs = (1..=2).flat_map(|at_once| (0..=4).map(move |later| (at_once, later)));
            let outcome = pairs.map(|(at_once, later)| {
                let silent = p.powi(at_once) + (1.0 - p.powi(at_once)) * answer_lost;
                (f64::from(at_once) + f64::from(later) * silent, p.powi(at_once + later))
            });
            let cost = |(copies, lost): &(f64, f64)| price * copies + lost;
            let (copies, fails) = outcome.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("ten pairs");
            (spent, lost) = (spent + copies, lost + fails);
        }
        if spent / losses.len() as f64 <= copies {
            best = best.max(100.0 * (1.0 - lost / losses.len() as f64));
        }
    }
    best
}

#[test]
fn in_the_fourth_condition_the_goal_needs_answers_on_both_paths() {
    let Some(losses) = losses() else { return };
    for copies in [1.0, 1.05, 1.075, 1.09, 1.105, 1.15, 2.0] {
        let [alone, everywhere] = [false, true].map(|all| best_without_the_future(&losses, copies, all));
        println!("{copies:.3} copies: {alone:.3} % answered on one path, {everywhere:.3} % on both");
    }
    // As many copies as MTIP-B takes.
    assert!(best_without_the_future(&losses, 1.105, false) < 99.9);
    assert!(best_without_the_future(&losses, 1.105, true) > 99.98);
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

/// Commands over one link of this chain.
fn over_one(chain: &str, more: &str) -> RunResult {
    let text = format!(
        "title = \"one\"\nduration = \"20s\"\n[links.a]\nbetween = [\"a\", \"b\"]\nchain = [{chain}]\n\
         [commands]\nfrom = \"a\"\nto = \"b\"\npaths = 1\n{more}"
    );
    done(more, &Scenario::parse("one", &text).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn the_time_until_the_first_command_is_a_gap_too() {
    let udp = "transport = \"udp\"\nbare = true\n";
    let gap = |chain| over_one(chain, udp).commands.unwrap().gap_ms.unwrap();
    let late = gap(r#"{ delay = "5ms" }, { cut = { at = "0s", until = "10s" } }"#);
    assert!((9_900.0..10_100.0).contains(&late), "{late} ms");
    let whole = gap(r#"{ delay = "500ms" }"#);
    assert!(whole < 100.0, "what is on its way is no gap: {whole} ms");
}

#[test]
fn commands_whose_session_never_opened_or_gave_up_are_counted_as_if_it_had_gone_on() {
    let quic = "transport = \"quic\"\n";
    let never = over_one(r#"{ cut = { at = "0s" } }"#, quic);
    let commands = never.commands.as_ref().unwrap();
    assert_eq!((commands.in_time_percent, commands.received_percent), (Some(0.0), Some(0.0)));
    assert!(!never.verdict.met, "{:?}", never.verdict);
    let [udp, quic] = ["transport = \"udp\"\n", quic].map(|transport| {
        let run = over_one(r#"{ delay = "5ms" }, { cut = { at = "4s" } }"#, transport);
        assert!(run.verdict.met);
        run.commands.unwrap()
    });
    assert!(udp.sent.abs_diff(quic.sent) <= 5, "{} and {}", udp.sent, quic.sent);
    assert!(quic.sent * 100 > commands.sent * 99, "{} of {}", quic.sent, commands.sent);
}

#[test]
fn more_commands_than_can_be_kept_are_refused() {
    let text = "title = \"t\"\nduration = \"30min\"\n[links.a]\nbetween = [\"a\", \"b\"]\nchain = [{ delay = \"1ms\" }]\n\
                [commands]\nfrom = \"a\"\nto = \"b\"\npaths = 1\nperiod = \"100us\"\n";
    let error = Scenario::parse("t", text).unwrap_err().to_string();
    assert!(error.contains("commands.period") && error.contains("18000000 commands"), "{error}");
}
