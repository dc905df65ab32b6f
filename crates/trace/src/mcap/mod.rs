//! MCAP (<https://mcap.dev/spec>): JSON messages in and out, everything else counted.

mod read;
mod records;
mod rows;
mod session;
mod write;

use serde::{Deserialize, Serialize};
use taut_core::Probability;

pub(crate) use mcap::MAGIC;
pub(crate) use read::read;
pub(crate) use session::read as read_session;
pub(crate) use write::write;
pub use write::write_mcap;

/// The topic of channels whose names tell no device.
const NO_DEVICE: &str = "signals";
/// Names of the schemas of what is not signals.
const PACKET: &str = "taut.Packet";
const OPPORTUNITY: &str = "taut.Opportunity";
const IMPAIRMENT: &str = "taut.Impairment";
/// What happened in a session: its numbers are no signals.
const EVENT: &str = "taut.Event";

/// One packet as a message.
#[derive(Debug, Serialize, Deserialize)]
struct PacketMessage {
    size_bytes: u32,
    flow: String,
}

/// One second of impairments as a message.
#[derive(Debug, Serialize, Deserialize)]
struct ImpairmentMessage {
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_loss: Option<Probability>,
}

/// What a schema of signals says of one number, beside JSON Schema's own words.
#[derive(Debug, Serialize, Deserialize)]
struct Property {
    #[serde(rename = "type")]
    kind: String,
    /// The column's name in a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    /// The column's place in a table, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    /// The unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}
