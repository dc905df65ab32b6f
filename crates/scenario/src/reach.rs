//! Whether those who speak to each other are connected.

use std::collections::{BTreeMap, BTreeSet};

use super::schema::*;
use super::validate::{Checked, fault};

/// Every sender needs links to its receiver. A session, TCP and video that adapts need them both ways.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let onward = Onward::of(scenario);
    if let Some(session) = &scenario.session {
        onward.both_ways("session", &session.operator, &session.robot)?;
    }
    if let Some(teleop) = &scenario.teleop {
        onward.both_ways("teleop", &teleop.operator, &teleop.robot)?;
    }
    if let Some(commands) = &scenario.commands {
        onward.both_ways("commands", &commands.from, &commands.to)?;
    }
    for (name, cross) in &scenario.cross {
        let key = format!("cross.{name}");
        // All hosts of a LAN are connected alike.
        let host =
            |end: &str| end.strip_suffix("/*").map_or_else(|| end.to_owned(), |lan| format!("{lan}/1"));
        let (from, to) = (host(&cross.from), host(&cross.to));
        match &cross.traffic {
            Traffic::Tcp(_) | Traffic::Rtp(RtpTraffic { sender: RtpSender::Gcc, .. }) => {
                onward.both_ways(&key, &from, &to)?;
            }
            _ => onward.one_way(&key, &from, &to)?,
        }
    }
    Ok(())
}

/// From each vertex, those one link away.
struct Onward(BTreeMap<String, Vec<String>>);

impl Onward {
    fn of(scenario: &Scenario) -> Self {
        let mut onward: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut link = |from: &str, to: &str| onward.entry(from.to_owned()).or_default().push(to.to_owned());
        for spec in scenario.links.values() {
            if let Some([a, b]) = &spec.between {
                link(a, b);
                link(b, a);
            }
            if let (Some(from), Some(to)) = (&spec.from, &spec.to) {
                link(from, to);
            }
        }
        for (name, lan) in &scenario.lans {
            for host in (1..=lan.hosts).map(|host| format!("{name}/{host}")) {
                link(name, &host);
                link(&host, name);
            }
        }
        Self(onward)
    }

    fn both_ways(&self, key: &str, a: &str, b: &str) -> Checked {
        self.one_way(key, a, b)?;
        self.one_way(key, b, a)
    }

    fn one_way(&self, key: &str, from: &str, to: &str) -> Checked {
        let mut seen = BTreeSet::from([from]);
        let mut frontier = vec![from];
        while let Some(vertex) = frontier.pop() {
            if vertex == to {
                return Ok(());
            }
            let next = self.0.get(vertex).into_iter().flatten().map(String::as_str);
            frontier.extend(next.filter(|next| seen.insert(next)));
        }
        fault(key, format!("no links lead from `{from}` to `{to}`"))
    }
}
