//! ROS 2 as `rmw_zenoh` speaks it, found by a zenoh router: key expressions, attachments and liveliness tokens (its `docs/design.md`), payloads
//! opaque. There is no quality of service that peers could disagree on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zenoh::handlers::{FifoChannel, FifoChannelHandler};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

use crate::backend::{self, Peers, Publish, Sink, Tell, another_bridge, other_type, type_name};
use crate::cdr::HEADER;
use crate::clock;
use crate::config::Qos;
use crate::type_hash::{self, UNSUPPORTED};

/// Of the node that a bridge is.
const NODE: &str = "taut";
/// Peers' ends on our topics that are kept in mind at most.
const MAX_PEERS: usize = 4_096;
/// Publishers and subscribers have numbers below this; another hash's is so much above.
const ENTITIES: u32 = 4_096;
/// Changes of the graph that wait for our thread.
const CHANGES: usize = 1_024;

fn failed(error: impl std::fmt::Display) -> String {
    format!("zenoh: {error}")
}

/// What of a publisher changes while others use it.
struct Declared {
    publisher: zenoh::pubsub::Publisher<'static>,
    number: i64,
    gid: [u8; 16],
}

#[derive(Default)]
struct Outlet {
    /// One for each hash that subscribers have, for each hears its own alone; until the hash of its type is known there is none.
    declared: Mutex<Vec<Declared>>,
    subscribers: Arc<AtomicUsize>,
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Vec<Declared>> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Publish for Arc<Outlet> {
    fn publish(&self, message: &[u8]) -> Result<(), String> {
        let mut all = self.lock();
        if all.is_empty() {
            return Err("nobody has told the hash of its type yet: start a subscriber".into());
        }
        let time = i64::try_from(clock::since_1970().as_nanos()).unwrap_or(i64::MAX);
        let mut written = Ok(());
        for declared in all.iter_mut() {
            declared.number += 1;
            let mut attachment = [0; 33];
            attachment[..8].copy_from_slice(&declared.number.to_le_bytes());
            attachment[8..16].copy_from_slice(&time.to_le_bytes());
            attachment[16] = 16;
            attachment[17..].copy_from_slice(&declared.gid);
            // One that fails holds no other up.
            let put = declared.publisher.put(message).attachment(&attachment[..]).wait();
            written = written.and(put.map_err(failed));
        }
        written
    }

    fn subscribers(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.subscribers)
    }
}

/// A publisher or a subscriber of ours.
struct End {
    topic: String,
    /// As on the wire.
    kind: String,
    qos: Qos,
    entity: u32,
    /// Computed, or learned from the first peer; peers with another one have another definition.
    hash: Arc<OnceLock<String>>,
    /// What it was declared with: the hash of its type, and that of a distribution without hashes.
    spoken: Vec<String>,
    tokens: Vec<LivelinessToken>,
    outlet: Option<Arc<Outlet>>,
}

/// A publisher or a subscriber of a peer, as its token tells.
#[derive(Clone, Debug, PartialEq)]
struct Peer {
    session: String,
    is_publisher: bool,
    node: String,
    topic: String,
    kind: String,
    hash: String,
}

impl Peer {
    /// `@ros2_lv/DOMAIN/SESSION/NODE/ENTITY/MP|MS/ENCLAVE/NAMESPACE/NODE_NAME/TOPIC/TYPE/HASH/QOS`
    fn read(token: &str) -> Option<Self> {
        let parts: Vec<&str> = token.split('/').collect();
        let [_, _, session, _, _, what @ ("MP" | "MS"), _, _, node, topic, kind, hash, _] = parts[..] else {
            return None;
        };
        Some(Self {
            session: session.to_owned(),
            is_publisher: what == "MP",
            node: node.to_owned(),
            topic: topic.replace('%', "/"),
            kind: kind.to_owned(),
            hash: hash.to_owned(),
        })
    }

    const fn who(&self) -> &'static str {
        if self.is_publisher { "a publisher" } else { "a subscriber" }
    }
}

impl End {
    /// Its token's quality of service: what is rmw's default is left out.
    fn quality(&self) -> String {
        let default = self.outlet.is_some();
        let reliability = if self.qos.reliable.unwrap_or(default) { "" } else { "2" };
        format!("{reliability}::,{}:,:,:,,", self.qos.depth)
    }

    fn declare(&mut self, session: &Session, domain: u16, hash: &str) -> Result<(), String> {
        let zid = session.zid();
        let entity = self.entity + ENTITIES * self.spoken.len() as u32;
        let (kind, topic) = (&self.kind, self.topic.replace('/', "%"));
        if let Some(outlet) = &self.outlet {
            let key = format!("{domain}/{}/{kind}/{hash}", self.topic.trim_start_matches('/'));
            let publisher = session.declare_publisher(key).congestion_control(congestion(self.qos));
            let publisher = publisher.priority(Priority::RealTime).express(true).wait().map_err(failed)?;
            let mut gid = zid.to_le_bytes();
            gid.iter_mut().zip(entity.to_le_bytes()).for_each(|(byte, own)| *byte ^= own);
            outlet.lock().push(Declared { publisher, number: 0, gid });
        }
        let what = if self.outlet.is_some() { "MP" } else { "MS" };
        let quality = self.quality();
        let token =
            format!("@ros2_lv/{domain}/{zid}/0/{entity}/{what}/%/%/{NODE}/{topic}/{kind}/{hash}/{quality}");
        self.tokens.push(session.liveliness().declare_token(token).wait().map_err(failed)?);
        self.spoken.push(hash.to_owned());
        Ok(())
    }

    fn is_of(&self, peer: &Peer) -> bool {
        self.topic == peer.topic
    }

    /// What is wrong with a peer on this topic.
    fn compare(&self, peer: &Peer) -> Option<String> {
        if self.outlet.is_none() && self.qos.moves && peer.is_publisher && peer.node == NODE {
            return Some(another_bridge());
        }
        if peer.kind != self.kind {
            return Some(other_type(peer.who(), &peer.kind, &self.kind));
        }
        let expected = self.hash.get().filter(|expected| !fits(expected, &peer.hash))?;
        let why = "update the package of its messages";
        Some(format!(
            "{} has another definition of {} ({}, expected {expected}): {why}",
            peer.who(),
            self.kind,
            peer.hash
        ))
    }
}

/// What is kept whole waits for a slow peer; of the rest the next one matters more, and a stop waits for nobody.
pub(crate) fn waits(qos: Qos) -> bool {
    qos.reliable == Some(true) && qos.depth > 1 && !qos.moves
}

fn congestion(qos: Qos) -> CongestionControl {
    if waits(qos) { CongestionControl::Block } else { CongestionControl::Drop }
}

fn fits(expected: &str, found: &str) -> bool {
    found == expected || found == UNSUPPORTED
}

/// A session with the router, and with those of this host's peers that connect to it.
pub(crate) struct Participant {
    session: Session,
    domain: u16,
    ends: Vec<End>,
    /// Dropped, they would end.
    subscribers: Vec<Subscriber<()>>,
    node: LivelinessToken,
}

/// Does this endpoint, such as `tcp/127.0.0.1:7447`, lead to this host?
pub(crate) fn is_local(endpoint: &str) -> bool {
    let address = endpoint.split_once('/').map_or(endpoint, |(_, address)| address);
    let host = address.split(['#', '?']).next().and_then(|address| address.rsplit_once(':'));
    let host = host.map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback())
}

/// A session's name with which peers begin, for it begins with nobody: of two peers of `rmw_zenoh` the one with the greater name connects to the
/// other. Zenoh compares names from their first byte on, or from their last: it begins and ends with zeros.
fn least_name() -> String {
    let random = u128::from_le_bytes(zenoh::session::ZenohId::default().to_le_bytes());
    format!("{:x}", u128::from(random as u64 | 1) << 32)
}

/// The router alone is dialled. The addresses that gossip tells are never: whoever reaches the router chooses them, and behind them nothing passes
/// its access control. Who is met directly connects itself, to loopback, where the kernel lets nobody in from outside.
fn settings(router: &str, peers: Peers) -> Vec<(&'static str, String)> {
    let is_direct = peers == Peers::Direct;
    let listens: &[&str] = if is_direct { &["tcp/127.0.0.1:0"] } else { &[] };
    let mut settings = vec![
        ("mode", serde_json::json!(if is_direct { "peer" } else { "client" })),
        ("connect/endpoints", serde_json::json!([router])),
        ("connect/timeout_ms", serde_json::json!(0)),
        ("connect/exit_on_failure", serde_json::json!(true)),
        ("listen/endpoints", serde_json::json!(listens)),
        ("scouting/multicast/enabled", serde_json::json!(false)),
        ("scouting/gossip/enabled", serde_json::json!(is_direct)),
        ("scouting/gossip/autoconnect", serde_json::json!([])),
    ];
    if is_direct {
        settings.push(("id", serde_json::json!(least_name())));
    }
    settings.into_iter().map(|(key, value)| (key, value.to_string())).collect()
}

impl Participant {
    /// # Errors
    /// When no router answers.
    pub(crate) fn new(domain: u16, router: &str, peers: Peers) -> Result<Self, String> {
        let mut config = zenoh::Config::default();
        for (key, value) in settings(router, peers) {
            config.insert_json5(key, &value).map_err(failed)?;
        }
        let session = zenoh::open(config).wait().map_err(|error| {
            let what = "start one (`ros2 run rmw_zenoh_cpp rmw_zenohd`), or correct `router`";
            format!("no zenoh router answers at {router}: {what} ({error})")
        })?;
        let node = format!("@ros2_lv/{domain}/{}/0/0/NN/%/%/{NODE}", session.zid());
        let node = session.liveliness().declare_token(node).wait().map_err(failed)?;
        Ok(Self { session, domain, ends: Vec::new(), subscribers: Vec::new(), node })
    }

    fn add(
        &mut self,
        topic: &str,
        kind: &str,
        qos: Qos,
        outlet: Option<Arc<Outlet>>,
    ) -> Result<&End, String> {
        let hash = type_hash::of(kind);
        let known = hash.clone().map_or_else(OnceLock::new, OnceLock::from);
        let entity = self.ends.len() as u32 + 1;
        let (topic, kind) = (topic.to_owned(), type_name(kind));
        let mut end = End {
            topic,
            kind,
            qos,
            entity,
            hash: Arc::new(known),
            spoken: Vec::new(),
            tokens: Vec::new(),
            outlet,
        };
        if let Some(hash) = hash {
            end.declare(&self.session, self.domain, &hash)?;
        }
        Ok(self.ends.push_mut(end))
    }

    fn watch(mut self, graph: &Subscriber<FifoChannelHandler<Sample>>, tell: &Tell) {
        let own = self.session.zid().to_string();
        let mut peers = BTreeMap::new();
        while let Ok(change) = graph.recv() {
            let token = change.key_expr().as_str();
            let Some(peer) = Peer::read(token).filter(|peer| peer.session != own) else { continue };
            if !self.ends.iter().any(|end| end.is_of(&peer)) {
                continue;
            }
            if change.kind() == SampleKind::Delete {
                peers.remove(token);
            } else if !peers.contains_key(token) {
                if peers.len() == MAX_PEERS {
                    tell(&peer.topic, format!("more than {MAX_PEERS} publishers and subscribers: end some"));
                    continue;
                }
                self.meet(&peer, tell);
                peers.insert(token.to_owned(), peer);
            }
            for end in &self.ends {
                let Some(outlet) = &end.outlet else { continue };
                let is_heard = |peer: &&Peer| {
                    !peer.is_publisher
                        && end.is_of(peer)
                        && peer.kind == end.kind
                        && end.spoken.contains(&peer.hash)
                };
                outlet.subscribers.store(peers.values().filter(is_heard).count(), Ordering::Release);
            }
        }
        drop((self.node, self.subscribers));
    }

    /// A new one: is it of our type? From it the hash is learned.
    fn meet(&mut self, peer: &Peer, tell: &Tell) {
        for end in self.ends.iter_mut().filter(|end| end.is_of(peer)) {
            if let Some(why) = end.compare(peer) {
                tell(&peer.topic, why);
                continue;
            }
            if peer.hash != UNSUPPORTED {
                end.hash.get_or_init(|| peer.hash.clone());
            }
            let is_subscriber = end.outlet.is_some() && !peer.is_publisher;
            // Subscribers hear only what is spoken with their hash.
            let is_unheard = end.spoken.is_empty() || is_subscriber && !end.spoken.contains(&peer.hash);
            if is_unheard && let Err(why) = end.declare(&self.session, self.domain, &peer.hash) {
                tell(&peer.topic, why);
            }
        }
    }
}

impl backend::Participant for Participant {
    fn publish(&mut self, topic: &str, kind: &str, qos: Qos) -> Result<Box<dyn Publish>, String> {
        let outlet = Arc::new(Outlet::default());
        self.add(topic, kind, qos, Some(Arc::clone(&outlet)))?;
        Ok(Box::new(outlet))
    }

    fn subscribe(&mut self, topic: &str, kind: &str, qos: Qos, sink: Sink) -> Result<(), String> {
        let end = self.add(topic, kind, qos, None)?;
        let expected = Arc::clone(&end.hash);
        let key = format!("{}/{}/{}/*", self.domain, topic.trim_start_matches('/'), type_name(kind));
        let sink = Mutex::new(sink);
        let take = move |sample: Sample| {
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            let hash = sample.key_expr().as_str().rsplit('/').next().unwrap_or_default();
            if expected.get().is_some_and(|expected| !fits(expected, hash)) {
                return sink(None);
            }
            match &*sample.payload().to_bytes() {
                message if message.starts_with(&HEADER) => sink(Some(message)),
                // The last two bytes are options of the encoding.
                [0, 1, _, _, body @ ..] => sink(Some(&[&HEADER, body].concat())),
                _ => sink(None),
            }
        };
        self.subscribers.push(self.session.declare_subscriber(key).callback(take).wait().map_err(failed)?);
        Ok(())
    }

    fn start(self: Box<Self>, tell: Tell) -> Result<(), String> {
        let all = format!("@ros2_lv/{}/**", self.domain);
        let graph = self.session.liveliness().declare_subscriber(all).history(true);
        let graph = graph.with(FifoChannel::new(CHANGES)).wait().map_err(failed)?;
        let watch = move || self.watch(&graph, &tell);
        std::thread::Builder::new().name("zenoh".to_owned()).spawn(watch).map_err(failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_topic_type_and_hash() {
        let token = "@ros2_lv/2/aac3/0/10/MS/%/%/listener/%arm%state/std_msgs::msg::dds_::String_/RIHS01_df/::,10:,:,:,,";
        let peer = Peer::read(token).unwrap();
        assert_eq!((peer.is_publisher, &*peer.node, &*peer.topic), (false, "listener", "/arm/state"));
        assert_eq!((&*peer.kind, &*peer.hash), ("std_msgs::msg::dds_::String_", "RIHS01_df"));
        assert_eq!(Peer::read("@ros2_lv/2/aac3/0/0/NN/%/%/listener"), None);
        assert_eq!(Peer::read(&token.replace("MS", "SS")), None);
    }

    #[test]
    fn a_loopback_address_is_of_this_host_and_no_other() {
        for local in
            ["tcp/127.0.0.1:7447", "tcp/localhost:7447", "tcp/[::1]:7447", "tcp/127.0.0.2:7447#iface=lo"]
        {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "tcp/10.0.0.2:7447",
            "tcp/robot.local:7447",
            "tcp/[fe80::1]:7447",
            "tcp/localhost.example:7447",
            "tcp/0.0.0.0:7447",
            "tcp/[::]:7447",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }

    #[test]
    fn nobody_but_the_router_is_dialled_and_nothing_but_loopback_listened_on() {
        for (peers, mode, listens) in
            [(Peers::ByRouter, "\"client\"", "[]"), (Peers::Direct, "\"peer\"", "[\"tcp/127.0.0.1:0\"]")]
        {
            let settings = settings("tcp/127.0.0.1:7447", peers);
            for (key, value) in [
                ("mode", mode),
                ("connect/endpoints", "[\"tcp/127.0.0.1:7447\"]"),
                ("listen/endpoints", listens),
                ("scouting/gossip/autoconnect", "[]"),
                ("scouting/multicast/enabled", "false"),
            ] {
                assert!(settings.contains(&(key, value.to_owned())), "{peers:?}: {key} is {value}");
            }
        }
    }

    #[test]
    fn a_name_with_which_peers_begin_is_less_than_others_from_either_end_and_unique() {
        let name: zenoh::session::ZenohId = least_name().parse().unwrap();
        let bytes = name.to_le_bytes();
        assert_eq!((&bytes[..4], &bytes[12..]), (&[0; 4][..], &[0; 4][..]));
        assert_ne!(least_name(), least_name());
    }

    #[test]
    fn what_moves_the_robot_waits_for_no_slow_subscriber_however_deep_it_is_kept() {
        let kept = |moves| Qos { reliable: Some(true), transient_local: false, depth: 10, moves };
        assert_eq!(congestion(kept(false)), CongestionControl::Block);
        assert_eq!(congestion(kept(true)), CongestionControl::Drop);
    }

    #[test]
    fn a_distribution_without_hashes_fits_every_type() {
        assert!(fits("RIHS01_a", "RIHS01_a") && fits("RIHS01_a", UNSUPPORTED));
        assert!(!fits("RIHS01_a", "RIHS01_b"));
    }
}
