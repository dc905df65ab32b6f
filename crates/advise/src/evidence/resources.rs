//! What a transport takes of a machine.

use serde::{Deserialize, Serialize};

use super::{Carrier, EvidenceError};

/// What taut was built with; `make evidence` writes it anew.
const SHIPPED: &str = include_str!("../../evidence/resources.json");

/// What one machine measured, of each transport with its driver and the kernel, without the session around it, which is the same
/// over all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceEvidence {
    /// The processor.
    pub machine: String,
    /// The command that measures it again.
    pub command: String,
    /// A line for each transport.
    pub transports: Vec<Resources>,
}

/// What a transport takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// `"quic"`.
    pub transport: String,
    /// As what it was measured: `"QUIC datagrams"`.
    pub name: String,
    /// CPU time of a message at both ends, which is what one end takes that sends one and receives one; at 1 kHz, in a session that has
    /// its thread to itself, in microseconds.
    pub cpu_us: f64,
    /// Memory of one end, in kilobytes.
    pub memory_kb: f64,
}

impl ResourceEvidence {
    /// What taut was built with.
    ///
    /// # Errors
    /// When the file that it was built with is not such.
    pub fn shipped() -> Result<Self, EvidenceError> {
        let wrong = |e| EvidenceError(format!("crates/advise/evidence/resources.json: {e}"));
        serde_json::from_str(SHIPPED).map_err(wrong)
    }

    /// Of a carrier's transport, whatever it repeats.
    pub fn of(&self, carrier: &Carrier) -> Option<&Resources> {
        self.transports.iter().find(|each| each.transport == carrier.transport)
    }
}

impl Resources {
    /// Of one core, at an end that sends and receives a thousand messages a second, per cent.
    pub fn cpu_percent(&self) -> f64 {
        // A microsecond of each millisecond is a thousandth.
        self.cpu_us / 10.0
    }
}
