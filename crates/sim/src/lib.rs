//! Virtual time: the driver that runs nodes and links from one seed.
//!
//! A [`Network`] is built from vertices, directed links between them, and nodes that sit on vertices. [`Network::build`]
//! finds the routes and gives a [`Simulation`], which advances from deadline to deadline and tells an [`Observer`]
//! everything that happens. Nothing in here measures or judges; observers do: [`Ledger`] checks that no packet is lost
//! unaccounted, [`Capture`] writes pcapng, [`EventLog`] JSON Lines.
//!
//! ```
//! use taut_core::{Address, Bitrate, Bytes, Duration, FlowId, Time};
//! use taut_link::{Bottleneck, Chain, Delay, DropTail, Element};
//! use taut_sim::traffic::{Cbr, Sink, Source};
//! use taut_sim::{Ledger, Network};
//!
//! let mut network = Network::new();
//! let (left, right) = (network.vertex("left"), network.vertex("right"));
//! let bottleneck = Bottleneck::new(Bitrate::from_bps(6_000_000), DropTail::default().limit_bytes(Bytes::new(14_000)));
//! let chain = Chain::new(vec![Element::from(bottleneck), Element::from(Delay::new(Duration::from_millis(8)))]);
//! network.link("bottleneck", left, right, chain);
//! let sink = network.node("sink", right, Box::new(Sink::default()));
//! let cbr = Cbr::new(Bitrate::from_bps(1_200_000), Bytes::new(150));
//! let source = Source::new(sink, FlowId(0), Box::new(cbr));
//! network.node("source", left, Box::new(source));
//! let mut simulation = network.build(Ledger::default())?;
//! simulation.run_until(Time::ZERO + Duration::from_secs(1));
//! let (ledger, held) = simulation.finish();
//! assert_eq!(ledger.close(&held).violations, Vec::<String>::new());
//! # Ok::<(), taut_sim::NetworkError>(())
//! ```

mod agenda;
mod any_link;
mod capture;
mod clock;
mod endpoint;
mod engine;
mod event_log;
mod ledger;
mod network;
mod observer;
pub mod traffic;

pub use any_link::AnyLink;
pub use capture::Capture;
pub use clock::NodeClock;
pub use endpoint::{Endpoint, Peer};
pub use engine::Simulation;
pub use event_log::EventLog;
pub use ledger::{Account, Ledger, LinkAccount};
pub use network::{Network, NetworkError, VertexId};
pub use observer::{LinkId, Observer};
