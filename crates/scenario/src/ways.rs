//! From where to where links and LANs lead.

use std::collections::{BTreeMap, BTreeSet};

use super::Scenario;
use super::schema::{ElementSpec, LinkSpec};

/// The ways that lead away from each vertex.
#[derive(Clone, Debug)]
pub struct Ways<'a>(BTreeMap<String, Vec<Way<'a>>>);

/// One direction of a link, or of a host's connection to its LAN.
#[derive(Clone, Debug, PartialEq)]
pub struct Way<'a> {
    /// The vertex that it leads to.
    pub to: String,
    /// The link's name; none of a LAN.
    pub link: Option<&'a str>,
    /// What packets pass.
    pub chain: &'a [ElementSpec],
}

impl<'a> Ways<'a> {
    /// Those of a scenario.
    pub fn of(scenario: &'a Scenario) -> Self {
        let mut ways: BTreeMap<String, Vec<Way<'a>>> = BTreeMap::new();
        for (name, link) in &scenario.links {
            for (from, to) in link.hops() {
                let way = Way { to: to.to_owned(), link: Some(name), chain: &link.chain };
                ways.entry(from.to_owned()).or_default().push(way);
            }
        }
        for (name, lan) in &scenario.lans {
            for host in (1..=lan.hosts).map(|host| format!("{name}/{host}")) {
                for (from, to) in [(name, &host), (&host, name)] {
                    let way = Way { to: to.clone(), link: None, chain: &lan.chain };
                    ways.entry(from.clone()).or_default().push(way);
                }
            }
        }
        Self(ways)
    }

    /// Those that lead away from this vertex.
    pub fn from(&self, vertex: &str) -> impl Iterator<Item = &Way<'a>> {
        self.0.get(vertex).into_iter().flatten()
    }

    /// Is there a way from one vertex to another by those that are `taken`, each told with where it begins? `NAME/*` stands for the hosts of a
    /// LAN, all alike.
    pub fn lead(&self, from: &str, to: &str, taken: impl Fn(&str, &Way<'a>) -> bool) -> bool {
        let (from, to) = (host(from), host(to));
        let (mut seen, mut frontier) = (BTreeSet::from([from.as_str()]), vec![from.as_str()]);
        while let Some(vertex) = frontier.pop() {
            let next = self.from(vertex).filter(|way| taken(vertex, way)).map(|way| way.to.as_str());
            frontier.extend(next.filter(|next| seen.insert(next)));
        }
        seen.contains(to.as_str())
    }
}

/// Of `NAME/*` the first host: all of a LAN are connected alike, those of two LANs are paired.
pub(super) fn host(end: &str) -> String {
    end.strip_suffix("/*").map_or_else(|| end.to_owned(), |lan| format!("{lan}/1"))
}

impl LinkSpec {
    /// Its directions, each from a vertex to a vertex.
    pub fn hops(&self) -> impl Iterator<Item = (&str, &str)> {
        let both = self.between.iter().flat_map(|[a, b]| [(a.as_str(), b.as_str()), (b, a)]);
        both.chain(self.from.as_deref().zip(self.to.as_deref()))
    }
}
