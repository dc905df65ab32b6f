//! A scenario's link by itself, for whoever drives it: the emulator in real time.

use taut_core::Seed;
use taut_link::Chain;

use super::commands::slot;
use super::inputs::{Inputs, RunError};
use super::links::{Direction, build_chain, directions};
use crate::scenario::Scenario;

/// Both directions of one link between two places.
#[derive(Debug)]
pub struct LinkPair {
    /// The link's name in the scenario.
    pub name: String,
    /// The place that `up` leads away from.
    pub a: String,
    /// The place that `up` leads to.
    pub b: String,
    /// From `a` to `b`.
    pub up: Chain,
    /// From `b` to `a`; nothing in it where the scenario has no way back.
    pub down: Chain,
}

/// The link called `name`, or the only one: the very chains that a run with this seed has, schedules and all, their time
/// zero being that of whoever drives them. A one-way link comes with the one that leads back, where there is one; of several paths
/// the second there with the second back.
///
/// # Errors
/// When there is no such link, or several and no name; when a file that it names cannot be used.
pub fn link_pair(
    scenario: &Scenario,
    name: Option<&str>,
    seed: Seed,
    inputs: &mut Inputs,
) -> Result<LinkPair, RunError> {
    let name = link_name(scenario, name)?;
    let mut build = |name: &str, way: &Direction<'_>| {
        build_chain(&scenario.links[name].chain, way, &format!("links.{name}"), seed, slot(scenario), inputs)
    };
    let ways = directions(name, &scenario.links[name]);
    let Some(way) = ways.first() else {
        return Err(RunError::scenario(format!("link `{name}` leads nowhere")));
    };
    let up = build(name, way)?;
    // Of several paths each has its own way back: as many lead to `a` before it as lead to `b` before this one.
    let between = |from: &str, to: &str| {
        let ways = scenario
            .links
            .iter()
            .flat_map(|(name, link)| directions(name, link).into_iter().map(move |way| (name, way)));
        ways.filter(|(_, way)| way.leads(from, to)).collect::<Vec<_>>()
    };
    let place = between(way.from, way.to).iter().position(|(other, _)| *other == name).unwrap_or(0);
    let backs = between(way.to, way.from);
    let down = match backs.get(place).or(backs.last()) {
        Some((other, way)) => build(other, way)?,
        None => Chain::new(Vec::new()),
    };
    Ok(LinkPair { name: name.to_owned(), a: way.from.to_owned(), b: way.to.to_owned(), up, down })
}

/// `name`, if there is such a link; without a name that of the only one, or, of two that lead there and back, the one from
/// the operator.
///
/// # Errors
/// When there is no such link, or several and no name.
pub fn link_name<'a>(scenario: &'a Scenario, name: Option<&str>) -> Result<&'a str, RunError> {
    let names = || scenario.links.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut all = scenario.links.keys();
    match (name, all.next(), all.next()) {
        (None, Some(only), None) => Ok(only),
        (None, Some(one), Some(other)) if all.next().is_none() && opposite(scenario, one, other) => {
            let from = |name: &str| scenario.links[name].from.as_deref();
            Ok(if from(other) == operator(scenario) { other } else { one })
        }
        (None, ..) => {
            Err(RunError::scenario(format!("which link? There are {}; name one by --link", names())))
        }
        (Some(name), ..) => match scenario.links.get_key_value(name) {
            Some((name, _)) => Ok(name),
            None => Err(RunError::scenario(format!("there is no link `{name}`; there are {}", names()))),
        },
    }
}

fn opposite(scenario: &Scenario, one: &str, other: &str) -> bool {
    match (&directions(one, &scenario.links[one])[..], &directions(other, &scenario.links[other])[..]) {
        ([there], [back]) => back.leads(there.to, there.from),
        _ => false,
    }
}

fn operator(scenario: &Scenario) -> Option<&str> {
    let session = scenario.session.as_ref().map(|session| session.operator.as_str());
    session.or(scenario.teleop.as_ref().map(|teleop| teleop.operator.as_str()))
}

/// Who stands at the two ends of a scenario's paths: those of its `[session]`, its `[teleop]` session, or of its `[commands]`; where it has
/// none, those of its first link.
#[derive(Clone, Copy, Debug)]
pub struct PathEnds<'a> {
    /// Whose they are: `"teleop"`, `"commands"`, `"session"` or `"links"`.
    pub of: &'static str,
    /// The operator's place, and the robot's.
    pub ends: [&'a str; 2],
    /// Paths between them.
    pub paths: u8,
}

impl<'a> PathEnds<'a> {
    /// Those of `scenario`.
    ///
    /// # Errors
    /// When it has a `[session]` alone.
    pub fn of(scenario: &'a Scenario) -> Result<Self, RunError> {
        if let Some(teleop) = &scenario.teleop {
            return Ok(Self { of: "teleop", ends: [&teleop.operator, &teleop.robot], paths: teleop.paths });
        }
        if let Some(commands) = &scenario.commands {
            return Ok(Self { of: "commands", ends: [&commands.from, &commands.to], paths: commands.paths });
        }
        if let Some(session) = &scenario.session {
            return Ok(Self { of: "session", ends: [&session.operator, &session.robot], paths: 1 });
        }
        // Cross traffic by itself: the first link's.
        let first = scenario.links.iter().flat_map(|(name, link)| directions(name, link)).next();
        let Direction { from, to, .. } = first.ok_or_else(|| {
            RunError::key(
                "session",
                "there is none; [session], [teleop] and [commands] run over real sockets",
            )
        })?;
        Ok(Self { of: "links", ends: [from, to], paths: 1 })
    }
}

/// The links of a scenario between the two ends of its session or its `[commands]`, a pair for each of their paths, there and
/// back: path i is the i-th link by name that leads there, with the i-th that leads back. Those beyond the paths are left out.
/// What is random in them is as in a simulated run with this seed.
///
/// # Errors
/// When there are no such ends, fewer links than paths, or links elsewhere: then the key is named.
pub fn path_links(scenario: &Scenario, seed: Seed, inputs: &mut Inputs) -> Result<Vec<[Chain; 2]>, RunError> {
    super::sends(scenario)?;
    let PathEnds { of, ends, paths } = PathEnds::of(scenario)?;
    let [mut there, mut back] = [Vec::new(), Vec::new()];
    for (name, link) in &scenario.links {
        for way in directions(name, link) {
            let ways = match [way.from, way.to] {
                way if way == ends => &mut there,
                [from, to] if [to, from] == ends => &mut back,
                [from, to] => return Err(elsewhere(name, from, to)),
            };
            let key = format!("links.{name}");
            ways.push(build_chain(&link.chain, &way, &key, seed, slot(scenario), inputs)?);
        }
    }
    // Cross traffic that nobody answers needs no way back.
    if of == "links" && back.is_empty() {
        back.push(Chain::new(Vec::new()));
    }
    let (count, pairs) = (usize::from(paths), there.len().min(back.len()));
    match pairs {
        0 => Err(RunError::key("links", "real sockets need a link there and one back")),
        _ if pairs < count => {
            let message =
                format!("is {count}; there are {} links there and {} back", there.len(), back.len());
            Err(RunError::key(format!("{of}.paths"), message))
        }
        _ => Ok(there.into_iter().zip(back).map(|(there, back)| [there, back]).take(count).collect()),
    }
}

fn elsewhere(name: &str, from: &str, to: &str) -> RunError {
    let message =
        format!("leads from {from} to {to}; over real sockets every link is one between the two ends");
    RunError::key(format!("links.{name}"), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Duration, Link, Packet, Time};

    const TWO: &str = r#"title = "t"
duration = "1s"

[links.there]
from = "a"
to = "b"
chain = [{ delay = "8ms" }]

[links.back]
from = "b"
to = "a"
chain = [{ delay = "3ms" }]

[session]
operator = "a"
robot = "b"

[session.backward]
haptic = { period = "1ms" }
"#;

    fn pair(text: &str, name: Option<&str>) -> Result<LinkPair, RunError> {
        let scenario = Scenario::parse("t.toml", text).unwrap();
        link_pair(&scenario, name, Seed::new(1), &mut Inputs::default())
    }

    fn delay_ns(link: &mut Chain) -> u64 {
        link.handle_input(Time::ZERO, Packet::default());
        link.poll_timeout().unwrap().at.as_nanos()
    }

    #[test]
    fn a_one_way_link_comes_with_the_one_that_leads_back() {
        let mut back = pair(TWO, Some("back")).unwrap();
        assert_eq!((back.a.as_str(), back.b.as_str()), ("b", "a"));
        assert_eq!((delay_ns(&mut back.up), delay_ns(&mut back.down)), (3_000_000, 8_000_000));
    }

    #[test]
    fn what_commands_send_within_a_millisecond_shares_its_luck_as_in_a_run() {
        let text = TWO.replace("{ delay = \"8ms\" }", "{ loss = { bernoulli = \"50%\" } }");
        let text = text
            .replace("[session]\noperator = \"a\"\nrobot = \"b\"", "[commands]\nfrom = \"a\"\nto = \"b\"");
        let text = &text[..text.find("[session.backward]").unwrap()];
        let mut up = pair(text, Some("there")).unwrap().up;
        let mut passed = |slot: u64| {
            let sent = Time::ZERO + Duration::from_millis(slot);
            let meta = taut_core::PacketMeta { sent, ..Default::default() };
            (0..8).for_each(|_| up.handle_input(sent, Packet { meta, ..Packet::default() }));
            std::iter::from_fn(|| up.poll_transmit(sent)).count()
        };
        let slots: Vec<usize> = (0..64).map(&mut passed).collect();
        assert!(slots.iter().all(|count| [0, 8].contains(count)), "{slots:?}");
        assert!(slots.contains(&0) && slots.contains(&8), "{slots:?}");
    }

    #[test]
    fn links_alone_are_played_and_not_run() {
        let alone = &TWO[..TWO.find("[session]").unwrap()];
        let mut there = pair(alone, Some("there")).unwrap();
        assert_eq!((delay_ns(&mut there.up), delay_ns(&mut there.down)), (8_000_000, 3_000_000));
        let scenario = Scenario::parse("t.toml", alone).unwrap();
        let told = "nothing would be sent";
        let error = crate::run::run(&scenario, Seed::new(1), &mut |_| ()).unwrap_err();
        assert!(error.to_string().ends_with(told), "{error}");
        let error = path_links(&scenario, Seed::new(1), &mut Inputs::default()).unwrap_err();
        assert!(error.to_string().ends_with(told), "{error}");
    }

    #[test]
    fn of_several_paths_each_comes_with_its_own_way_back() {
        let one_way = |name: &str, from: &str, to: &str, ms: u32| {
            format!(
                "[links.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\nchain = [{{ delay = \"{ms}ms\" }}]\n\n"
            )
        };
        let four = one_way("p-there", "a", "b", 1) + &one_way("q-there", "a", "b", 2);
        let four = four + &one_way("p-back", "b", "a", 4) + &one_way("q-back", "b", "a", 8);
        let (head, tail) = TWO.split_at(TWO.find("[links.there]").unwrap());
        let tail = &tail[tail.find("[session]").unwrap()..];
        let both = |name: &str, ms: u32| {
            format!("[links.{name}]\nbetween = [\"a\", \"b\"]\nchain = [{{ delay = \"{ms}ms\" }}]\n\n")
        };
        let two = both("p", 16) + &both("q", 32);
        for (links, name, up, down) in
            [(&four, "q-there", 2, 8), (&four, "p-back", 4, 1), (&two, "q", 32, 32)]
        {
            let mut found = pair(&format!("{head}{links}{tail}"), Some(name)).unwrap();
            let delays = [&mut found.up, &mut found.down].map(|link| delay_ns(link) / 1_000_000);
            assert_eq!(delays, [up, down], "{name}");
        }
    }

    #[test]
    fn of_two_that_lead_there_and_back_the_operator_s_needs_no_name() {
        let mut there = pair(TWO, None).unwrap();
        assert_eq!((there.a.as_str(), there.b.as_str()), ("a", "b"));
        assert_eq!((delay_ns(&mut there.up), delay_ns(&mut there.down)), (8_000_000, 3_000_000));
    }

    #[test]
    fn among_several_links_one_must_be_named() {
        let apart = TWO.replace(
            "[session]",
            "[links.aside]\nfrom = \"a\"\nto = \"c\"\nchain = [{ delay = \"1ms\" }]\n\n[session]",
        );
        let error = pair(&apart, None).unwrap_err().to_string();
        assert_eq!(error, "which link? There are aside, back, there; name one by --link");
        let error = pair(TWO, Some("wire")).unwrap_err().to_string();
        assert_eq!(error, "there is no link `wire`; there are back, there");
    }
}
