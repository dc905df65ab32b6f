//! What a way of speaking ROS 2 gives to routes: topics to publish and to subscribe to, payloads opaque. Routes, guards and stamps are above it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::config::Qos;
use crate::{dds, rmw_zenoh};

/// Takes a message, its four bytes of encoding included; `None`: one came that cannot be read.
pub(crate) type Sink = Box<dyn FnMut(Option<&[u8]>) + Send>;

/// What is told of topics: the topic, and what is wrong with it.
pub(crate) type Tell = Arc<dyn Fn(&str, String) + Send + Sync>;

/// How ROS 2 is spoken.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    /// On the interfaces with these addresses.
    Dds(Vec<IpAddr>),
    /// As `rmw_zenoh`, by the router at this endpoint, such as `tcp/127.0.0.1:7447`.
    Zenoh { router: String, peers: Peers },
}

/// How programs are met by zenoh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Peers {
    /// All that is heard and said passes the router, and its access control.
    #[default]
    ByRouter,
    /// Those of this host may connect to the bridge, over loopback.
    Direct,
}

impl Backend {
    /// Whether what is published so waits for slow subscribers, and whatever the same participant publishes behind it.
    pub(crate) fn holds_up(&self, qos: Qos) -> bool {
        matches!(self, Self::Zenoh { .. }) && rmw_zenoh::waits(qos)
    }

    /// # Errors
    /// When the system refuses a socket, or no router answers.
    pub(crate) fn join(&self, domain: u16) -> Result<Box<dyn Participant>, String> {
        Ok(match self {
            Self::Dds(interfaces) => Box::new(dds::Participant::new(domain, interfaces)?),
            Self::Zenoh { router, peers } => Box::new(rmw_zenoh::Participant::new(domain, router, *peers)?),
        })
    }
}

/// Writes one topic.
pub(crate) trait Publish: Send {
    /// # Errors
    /// When it was not taken.
    fn publish(&self, message: &[u8]) -> Result<(), String>;

    /// A message that stops the robot, for which there is room where others find none.
    ///
    /// # Errors
    /// When it was not taken, or not behind all that was published before: it has to be told again.
    fn stop(&self, message: &[u8]) -> Result<(), String> {
        self.publish(message)
    }

    /// How many subscribers it has, kept up to date.
    fn subscribers(&self) -> Arc<AtomicUsize>;
}

/// One that takes part in a domain, with a thread of its own.
pub(crate) trait Participant {
    /// # Errors
    /// When it is refused.
    fn publish(&mut self, topic: &str, kind: &str, qos: Qos) -> Result<Box<dyn Publish>, String>;

    /// # Errors
    /// When it is refused.
    fn subscribe(&mut self, topic: &str, kind: &str, qos: Qos, sink: Sink) -> Result<(), String>;

    /// Tells of peers from here on, until the program ends.
    ///
    /// # Errors
    /// When the system refuses it.
    fn start(self: Box<Self>, tell: Tell) -> Result<(), String>;
}

/// As rmw has it: `sensor_msgs/msg/Joy` is `sensor_msgs::msg::dds_::Joy_`.
pub(crate) fn type_name(kind: &str) -> String {
    let (package, name) = kind.rsplit_once('/').unwrap_or(("", kind));
    format!("{}::dds_::{name}_", package.replace('/', "::"))
}

/// What is told of a peer's end that has another type than the route.
pub(crate) fn other_type(who: &str, found: &str, expected: &str) -> String {
    format!("{who} has type {found}, and the route {expected}: correct the route's `type`, or the program")
}

/// What is told of another bridge that publishes what this one hears of motion.
pub(crate) fn another_bridge() -> String {
    let why = "and what moves the robot comes back as if a hand went on: give the ends domains of their own";
    format!("another bridge publishes it, {why}")
}
