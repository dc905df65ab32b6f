//! What a person needs of a telehaptic stream, and whether a shared link can give it. Pure mathematics: nothing here
//! knows a simulator, so that agreement between the two is evidence.
//!
//! - [`limits`]: the largest delay, jitter and loss of a smooth session, and the check of a measurement against them;
//! - [`model`]: closed-form bounds on the delay and jitter of a stream that shares one bottleneck with TCP and CBR;
//! - [`rendering`]: critical numbers of a device that renders a wall, and of two over a delay;
//! - [`touch`]: the round trip from which on an arm that touches something rattles in the operator's hand.
//!
//! ```
//! use taut_core::{Bitrate, Bytes, Duration};
//! use taut_qos::model::{Cbr, SharedLink, Stream, TcpFlow, predict};
//!
//! let link = SharedLink {
//!     rate: Bitrate::from_bps(6_000_000),
//!     delay: Duration::from_millis(8),
//!     buffer: Bytes::new(14_000),
//!     stream: Stream { packet: Bytes::new(137), period: Duration::from_millis(1) },
//!     tcp: vec![TcpFlow { segment: Bytes::new(578), ack_every: 2 }],
//!     cbr: vec![Cbr { rate: Bitrate::from_bps(1_904_000), packet: Bytes::new(150) }],
//!     multiplexer: None,
//! };
//! let prediction = predict(&link)?;
//! assert_eq!(prediction.compliant, Some(true));
//! println!("{prediction}");
//! # Ok::<(), taut_qos::model::SharedLinkError>(())
//! ```
//!
//! Source of the first two: Gokhale, Nair, Chaudhuri, Fesl, *On QoS-Compliant Telehaptic Communication over Shared Networks*;
//! equation numbers are that paper's.

pub mod limits;
pub mod model;
pub mod rendering;
pub mod touch;
