//! Recommendations, from evidence made up for the purpose.

use taut_advise::evidence::{Carrier, Condition, Evidence, EvidenceSet, Figures, Point, Way};
use taut_advise::recommend::{Need, Os, Recommendation, Security, recommend, recommendation_text};
use taut_lab::laws::LawAdvice;
use taut_qos::touch::Thing;

fn carrier(transport: &str, reliable: bool) -> Carrier {
    Carrier { transport: transport.to_owned(), reliable, ccid: None }
}

fn network(loss_percent: f64, one_way_ms: f64) -> Condition {
    Condition { loss_percent, burst: 1.0, one_way_ms, jitter_ms: 0.0, rate_mbit: 10.0, video: false }
}

/// UDP adds nothing and loses what the network loses; QUIC's streams lose nothing and add a round trip; TCP three.
fn point(carrier: Carrier, condition: Condition) -> Point {
    let (round_trips, lost) = match (carrier.transport.as_str(), carrier.reliable) {
        ("tcp", _) => (3.0, 0.0),
        (_, true) => (1.0, 0.0),
        _ => (0.0, condition.loss_percent),
    };
    let added = if condition.loss_percent > 0.0 { 2.0 * round_trips * condition.one_way_ms } else { 0.0 };
    let way = Way {
        p50_ms: Some(condition.one_way_ms),
        p99_ms: Some(condition.one_way_ms + added),
        jitter_ms: Some(condition.jitter_ms + added / 2.0),
        lost_percent: lost,
    };
    let wire_mbit = if carrier.transport == "udp" { 2.0 } else { 3.0 };
    let figures = Figures { there: way, back: way, wire_mbit, opened_ms: Some(4.0 * condition.one_way_ms) };
    let variant =
        format!("{}, loss {} %, {} ms", carrier.name(), condition.loss_percent, condition.one_way_ms);
    Point { variant, carrier, condition, figures, digest: "0123456789abcdef".into() }
}

fn evidence() -> Evidence {
    let mut points = Vec::new();
    for carrier in [carrier("udp", false), carrier("quic", true), carrier("tcp", true)] {
        for loss in [0.0, 1.0, 20.0] {
            for one_way in [5.0, 20.0] {
                points.push(point(carrier.clone(), network(loss, one_way)));
            }
        }
    }
    let set = EvidenceSet {
        scenario: "scenarios/made-up.toml".into(),
        sha256: String::new(),
        title: String::new(),
        seeds: vec![1, 2, 3],
        points,
    };
    Evidence { taut: "0".into(), sets: vec![set] }
}

fn need(loss: f64, one_way: f64) -> Need {
    Need::haptic(network(loss, one_way))
}

#[test]
fn between_two_measured_points_the_worse_stands_in() {
    let found = recommend(&evidence(), &need(0.5, 10.0));
    let choice = found.choice.expect("UDP loses little");
    assert_eq!((choice.name.as_str(), choice.lost_percent), ("UDP", 1.0));
    // Its own propagation, and the most that was added at a neighbour: nothing.
    assert_eq!(choice.delay_ms, Some(10.0));
    // QUIC repeats after a round trip of 40 ms at the farther neighbour.
    let quic = found.others.iter().find(|other| other.name == "QUIC streams").unwrap();
    assert_eq!((quic.delay_ms, quic.meets), (Some(50.0), false));
    assert!(found.outside.is_empty(), "{:?}", found.outside);
}

#[test]
fn which_neighbours_stand_in_is_said_and_nothing_where_none_do() {
    let found = recommend(&evidence(), &need(0.5, 10.0));
    let told: Vec<_> =
        found.between.iter().map(|b| (b.quantity.as_str(), b.asked, b.below, b.above)).collect();
    assert_eq!(told, [("loss", 0.5, Some(0.0), Some(1.0)), ("one way", 10.0, Some(5.0), Some(20.0))]);
    let text = recommendation_text(&found);
    assert!(text.contains("BETWEEN measured points") && text.contains("--measure"), "{text}");
    assert!(text.contains("loss 0.5 %: 0 and 1 % stand in  (scenarios/made-up.toml)"), "{text}");
    assert!(text.contains("on the wire at the worst neighbours."), "{text}");
    for citation in &found.citations {
        let network = citation.network.expect("it ran over one");
        assert!([0.0, 1.0].contains(&network.loss_percent), "{citation:?}");
    }
    let exact = recommend(&evidence(), &need(1.0, 20.0));
    assert!(exact.between.is_empty());
    let text = recommendation_text(&exact);
    assert!(text.contains("Measured over exactly this network.") && !text.contains("--measure"), "{text}");
    // Less way and more rate than was measured: what is worse stands in alone.
    let easy = Need::haptic(Condition { rate_mbit: 50.0, ..network(1.0, 1.0) });
    let told = recommendation_text(&recommend(&evidence(), &easy));
    assert!(told.contains("one way 1 ms: 5 ms stands in"), "{told}");
    assert!(told.contains("rate 50 Mbit/s: 10 Mbit/s stands in"), "{told}");
}

#[test]
fn evidence_of_exactly_this_network_meets_what_its_neighbours_do_not() {
    // QUIC's streams need 10 + 20 ms here; 20 + 40 at the farther neighbour, of which 40 are added.
    let mut asked = need(1.0, 10.0);
    (asked.lost_percent, asked.budget_ms, asked.jitter_ms) = (0.0, 31.0, 1e3);
    assert!(recommend(&evidence(), &asked).choice.is_none());
    let points = [carrier("udp", false), carrier("quic", true)].map(|c| point(c, asked.network)).to_vec();
    let mut here = evidence();
    here.sets[0] = EvidenceSet { scenario: String::new(), points, ..here.sets[0].clone() };
    let found = recommend(&here, &asked);
    assert_eq!(found.choice.as_ref().map(|choice| choice.delay_ms), Some(Some(30.0)));
    assert!(found.between.is_empty() && found.outside.is_empty());
    // Its scenario was not kept: there is no command, and it is said how to have one.
    assert!(found.citations.iter().all(|citation| citation.command.is_none()));
    let text = recommendation_text(&found);
    assert!(text.contains("--keep network.toml") && !text.contains("taut run"), "{text}");
}

#[test]
fn every_measured_branch_cites_a_run_and_the_command_that_makes_it_again() {
    let found = recommend(&evidence(), &need(1.0, 20.0));
    for step in &found.steps {
        for branch in step.passed.iter().chain(&step.failed) {
            let cited = branch.cites.unwrap_or_else(|| panic!("{}: {}", step.name, branch.name));
            let citation = &found.citations[cited - 1];
            assert!(citation.variant.starts_with(&branch.name), "{}: {citation:?}", branch.name);
        }
    }
    assert_eq!(
        found.citations[0].command.as_deref(),
        Some("taut run scenarios/made-up.toml --variant 'QUIC streams, loss 1 %, 20 ms' --seeds 1..3")
    );
}

#[test]
fn every_state_must_arrive_rules_out_what_repeats_nothing() {
    let mut need = need(1.0, 5.0);
    need.lost_percent = 0.0;
    let found = recommend(&evidence(), &need);
    assert_eq!(found.choice.as_ref().map(|choice| choice.name.as_str()), Some("QUIC streams"));
    let text = recommendation_text(&found);
    assert!(text.contains("--transport quic --reliable --deadline 1min\n"), "{text}");
    assert!(text.contains("UDP  does not: arrival: 1.0 % of states lost"), "{text}");
}

#[test]
fn what_promises_nothing_is_not_enough_where_every_state_must_arrive() {
    let mut need = need(0.0, 5.0);
    need.lost_percent = 0.0;
    let found = recommend(&evidence(), &need);
    assert!(found.choice.is_some_and(|choice| choice.carrier.reliable));
    let udp = found.others.iter().find(|other| other.name == "UDP").unwrap();
    assert_eq!(udp.failures[0].what, "0.0 % of states lost here, but what is lost is given up");
}

#[test]
fn what_may_be_lost_may_be_lost_of_feedback_too_and_no_more() {
    let mut made = evidence();
    for point in made.sets[0].points.iter_mut().filter(|point| point.carrier.reliable) {
        point.figures.back.lost_percent = 1.0;
    }
    let asked = |lost_percent| Need { lost_percent, ..need(1.0, 5.0) };
    let of_quic = |lost: f64| {
        let found = recommend(&made, &asked(lost));
        let mut all = found.choice.into_iter().chain(found.others);
        all.find(|candidate| candidate.name == "QUIC streams").unwrap()
    };
    assert_eq!(of_quic(0.5).failures[0].what, "1.0 % of feedback lost");
    // Where every state must arrive, feedback may be lost as haptics bear it: it is never repeated.
    assert!(of_quic(1.0).meets && of_quic(0.0).meets);
}

#[test]
fn where_nothing_meets_it_the_nearest_says_by_how_much() {
    let found = recommend(&evidence(), &need(20.0, 20.0));
    assert!(found.choice.is_none());
    let nearest = &found.others[0];
    assert_eq!(nearest.name, "UDP");
    assert_eq!(nearest.failures.len(), 1);
    assert_eq!((nearest.failures[0].requirement.as_str(), nearest.failures[0].times), ("arrival", Some(2.0)));
    let text = recommendation_text(&found);
    assert!(text.contains("arrival: 20.0 % of states lost, 2.0 times what is allowed  ["), "{text}");
}

#[test]
fn a_way_longer_than_the_budget_is_no_transports_fault() {
    let mut need = need(0.0, 20.0);
    need.budget_ms = 15.0;
    let text = recommendation_text(&recommend(&evidence(), &need));
    assert!(text.contains("No transport can: the way alone takes 20.0 ms of the 15.0 ms"), "{text}");
}

#[test]
fn beyond_what_was_measured_is_said_first() {
    for (wanted, name) in [(need(30.0, 20.0), "loss 30 %"), (need(1.0, 200.0), "one way 200 ms")] {
        let found = recommend(&evidence(), &wanted);
        assert!(found.outside.len() == 1 && found.outside[0].starts_with(name), "{:?}", found.outside);
    }
    let slow = Need::haptic(Condition { rate_mbit: 0.5, ..network(1.0, 5.0) });
    assert!(recommend(&evidence(), &slow).outside[0].starts_with("rate 0.5 Mbit/s"));
    // More rate than was measured is no worse.
    let fast = Need::haptic(Condition { rate_mbit: 1000.0, ..network(1.0, 5.0) });
    assert!(recommend(&evidence(), &fast).outside.is_empty());
    let jitter = Need::haptic(Condition { jitter_ms: 1.0, ..network(1.0, 5.0) });
    assert_eq!(recommend(&evidence(), &jitter).outside, ["nothing was measured with jitter"]);
}

#[test]
fn beyond_what_was_measured_there_is_no_figure_but_that_of_the_nearest_network_as_such() {
    let asked = Need::haptic(Condition { jitter_ms: 500.0, rate_mbit: 0.1, ..network(30.0, 20.0) });
    let found = recommend(&evidence(), &asked);
    assert!(!found.is_met() && found.steps.is_empty() && found.others.is_empty(), "{found:?}");
    let nearest = found.nearest.as_ref().expect("there is one");
    assert_eq!(nearest.need.network, network(20.0, 20.0));
    assert!(nearest.outside.is_empty() && !nearest.others.is_empty(), "{nearest:?}");
    let text = recommendation_text(&found);
    let (head, rest) = text.split_once("The nearest network that was measured, which is not yours:").unwrap();
    assert!(!head.contains("99 of 100") && head.contains("--measure"), "{head}");
    assert!(
        rest.contains("20.0 ms one way, 20.0 % lost, 10 Mbit/s") && !rest.contains("--measure"),
        "{rest}"
    );
    // That the way alone is too long needs no measurement.
    let far = recommendation_text(&recommend(&evidence(), &need(1.0, 200.0)));
    assert!(far.contains("No transport can: the way alone takes 200 ms"), "{far}");
}

#[test]
fn what_is_no_matter_of_figures_is_asked_first() {
    let names = |need: &Need| recommend(&evidence(), need).choice.map(|choice| choice.name);
    let plain = need(0.0, 5.0);
    assert_eq!(names(&plain).as_deref(), Some("UDP"));
    assert_eq!(names(&Need { security: Security::Tls, ..plain.clone() }).as_deref(), Some("QUIC streams"));
    assert_eq!(names(&Need { os: Os::Windows, ..plain.clone() }), None);
    assert_eq!(names(&Need { paths: 2, ..plain.clone() }), None);
    let nat = recommend(&evidence(), &Need { nat: true, ..plain });
    assert!(nat.others.iter().any(|other| other.name == "TCP" && !other.meets));
}

#[test]
fn what_is_touched_is_a_need_that_30_ms_do_not_answer() {
    let wall = recommend(&evidence(), &Need { touch: Some(Thing::Wall), ..need(0.0, 20.0) });
    let told = recommendation_text(&wall);
    assert!(told.contains("\n  wall: RATTLES; ") && told.contains("--law wave"), "{told}");
    let laws = wall.laws.as_ref().unwrap();
    assert!(
        wall.is_met() && laws.taken.as_deref() == Some("wave") && laws.laws[0].calm == Some(false),
        "{laws:?}"
    );
    let none = Recommendation { laws: Some(LawAdvice { taken: None, ..laws.clone() }), ..wall.clone() };
    let told = recommendation_text(&none);
    assert!(
        !none.is_met() && told.contains("Take none to touch with") && !told.contains("taut robot"),
        "{told}"
    );
}

/// Two carriers over one network, and what they do there: jitter in milliseconds, Mbit/s on the wire.
fn two(a: (&str, f64, f64), b: (&str, f64, f64)) -> Evidence {
    let here = network(0.0, 0.5);
    let points = [a, b].map(|(transport, jitter_ms, wire_mbit)| {
        let mut point = point(carrier(transport, false), here);
        point.figures.there.jitter_ms = Some(jitter_ms);
        point.figures.wire_mbit = wire_mbit;
        point
    });
    let mut made = evidence();
    made.sets[0].points = points.to_vec();
    made
}

fn chosen(evidence: &Evidence, need: &Need) -> Option<String> {
    recommend(evidence, need).choice.map(|choice| choice.name)
}

#[test]
fn jitter_counts_by_its_share_of_what_is_allowed() {
    // 0.7 ms more of 10 is more than a twentieth, of 100 it is not.
    let uneven = two(("etp", 0.8, 2.0), ("udp", 0.1, 2.3));
    let mut need = Need { haptic: false, ..need(0.0, 0.5) };
    assert_eq!(chosen(&uneven, &need).as_deref(), Some("UDP"));
    let told = recommendation_text(&recommend(&uneven, &need));
    assert!(told.contains("ETP  meets it as well: 0.7 ms more jitter"), "{told}");
    need.jitter_ms = 100.0;
    assert_eq!(chosen(&uneven, &need).as_deref(), Some("ETP"));
}

#[test]
fn a_few_bytes_fewer_are_no_reason_for_what_nobody_else_speaks() {
    let need = Need { haptic: false, ..need(0.0, 0.5) };
    let fewer = |etp: f64| chosen(&two(("etp", 0.1, etp), ("udp", 0.1, 2.0)), &need);
    assert_eq!(fewer(1.96).as_deref(), Some("UDP"));
    assert_eq!(fewer(1.5).as_deref(), Some("ETP"));
}

#[test]
fn what_takes_more_of_the_machine_than_there_is_does_not_meet_the_need() {
    let plain = need(0.0, 5.0);
    let with = |cpu_percent: f64, memory_kb: f64| {
        let limited = Need { cpu_percent: Some(cpu_percent), memory_kb: Some(memory_kb), ..plain.clone() };
        recommend(&evidence(), &limited)
    };
    let roomy = with(100.0, 1e6);
    assert_eq!(roomy.choice.as_ref().map(|choice| choice.name.as_str()), Some("UDP"));
    assert!(roomy.cautions.iter().any(|told| told.contains("--bin latency -- sessions --json")), "{roomy:?}");
    let quic = roomy.others.iter().find(|other| other.name == "QUIC streams").unwrap();
    let (cpu, memory) = (quic.cpu_percent.unwrap(), quic.memory_kb.unwrap());
    let udp = roomy.choice.and_then(|choice| choice.memory_kb).unwrap();
    assert!(udp < memory, "a session of QUIC takes more");
    let fails = |found: &taut_advise::recommend::Recommendation| {
        let quic = found.others.iter().find(|other| other.name == "QUIC streams").unwrap();
        quic.failures.first().map(|failure| (failure.requirement.clone(), failure.times))
    };
    assert_eq!(fails(&with(cpu, memory)), None);
    assert_eq!(fails(&with(cpu, memory / 2.0)), Some(("resources".into(), Some(2.0))));
    let none = with(cpu / 1e3, memory);
    assert!(none.choice.is_none() && recommendation_text(&none).contains("of a core and "), "{none:?}");
}

#[test]
fn what_nobody_measured_is_not_taken_where_resources_are_asked_for() {
    let unknown = two(("unheard of", 0.1, 1.0), ("udp", 0.1, 2.0));
    let need = Need { haptic: false, ..need(0.0, 0.5) };
    assert_eq!(chosen(&unknown, &need).as_deref(), Some("UNHEARD OF"));
    let limited = Need { memory_kb: Some(1e6), ..need };
    assert_eq!(chosen(&unknown, &limited).as_deref(), Some("UDP"));
}

fn over_two() -> Need {
    let network = Condition { rate_mbit: 60.0, ..network(0.0, 5.0) };
    Need { paths: 2, haptic: false, budget_ms: 15.0, ..Need::haptic(network) }
}

#[test]
fn what_several_networks_were_not_measured_with_is_outside_and_has_no_choice() {
    let plain = over_two();
    let with = |change: fn(&mut Need)| {
        let mut need = plain.clone();
        change(&mut need);
        let found = recommend(&evidence(), &need);
        let paths = found.paths.clone().expect("it was asked for");
        assert!(!found.is_met() && paths.choice.is_none() && paths.nearest.is_some(), "{paths:?}");
        let text = recommendation_text(&found);
        assert!(text.contains("OUTSIDE") && !text.contains("Take "), "{text}");
        (paths.outside.join("; "), text)
    };
    for (change, says) in [
        ((|need| need.network.loss_percent = 30.0) as fn(&mut Need), "30 % lost; measured were 0 to 4.2"),
        (|need| need.network.jitter_ms = 20.0, "20 ms of jitter; measured were 0.3 to 1.9"),
        (|need| need.network.rate_mbit = 0.1, "0.1 Mbit/s to spare; measured were 15 to 60"),
        (|need| need.network.one_way_ms = 9.0, "9 ms one way; measured were 4 to 7.3"),
        (|need| need.haptic = true, "force that comes back"),
        (|need| need.paths = 3, "3 networks; measured were 2"),
        (|need| need.touch = Some(Thing::Wall), "touch, CPU and memory; measured were commands in time"),
        (|need| need.memory_kb = Some(1e3), "touch, CPU and memory; measured were commands in time"),
        (|need| need.budget_ms = 10.0, "within 10.0 ms; measured was within 15.0 ms"),
    ] {
        assert_eq!(with(change).0.split("; measured").next(), says.split("; measured").next());
        assert!(with(change).0.contains(says), "{says}");
    }
    assert!(with(|need| need.paths = 3).1.contains("--path wwan0 --path wwan1 --path wwan2"));
    let (_, impossible) = with(|need| need.budget_ms = 3.0);
    assert!(
        impossible.contains("No transport can: the way alone takes 5.0 ms of the 3.0 ms"),
        "{impossible}"
    );
    assert!(!impossible.contains("% in time"), "{impossible}");
}

#[test]
fn over_several_networks_the_fewest_copies_that_are_in_time_in_every_condition_are_taken() {
    let plain = over_two();
    let found = recommend(&evidence(), &plain);
    let paths = found.paths.clone().expect("it was asked for");
    let choice = paths.choice.clone().expect("one is in time");
    assert_eq!((choice.name.as_str(), choice.flags.as_str()), ("deadline", "--transport mtip"));
    // Its worst is a measured link: in congestion nearly everything goes twice.
    assert!(choice.in_time_percent >= 99.0 && choice.copies < Some(1.9), "{choice:?}");
    assert!(paths.citations[choice.cites - 1].scenario.contains("two-measured"), "{:?}", paths.citations);
    let why_not = |name: &str| {
        paths.others.iter().find(|other| other.name == name).expect("it was measured").failure.clone()
    };
    for name in ["MTIP-A", "MTIP-B", "MPQUIC, fail-over", "MPQUIC, copies", "UDP, one path"] {
        assert!(why_not(name).is_some_and(|why| why.contains("% in time in ")), "{name}");
    }
    assert_eq!(paths.citations.len(), 1 + paths.others.len());
    assert!(found.is_met() && found.choice.is_none() && paths.outside.is_empty(), "{:?}", paths.outside);
    let text = recommendation_text(&found);
    assert!(
        text.contains("Take MTIP with the policy `deadline`: ")
            && text.contains("--path wwan0 --path wwan1 --deadline 15ms"),
        "{text}"
    );

    let tls = recommend(&evidence(), &Need { security: Security::Tls, ..plain.clone() });
    assert!(
        !tls.is_met() && recommendation_text(&tls).contains("Nothing that was measured"),
        "{:?}",
        tls.paths
    );
    let more = recommend(&evidence(), &Need { paths: 3, budget_ms: 5.0, ..plain });
    assert_eq!(more.paths.map(|paths| paths.outside.len()), Some(2));
}
