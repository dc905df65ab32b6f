//! What was read: from which format, which data, and what is worth saying about it.

use crate::{Impairments, Opportunities, Packets, Signals};

/// A recording in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    format: Format,
    data: Data,
    notes: Vec<String>,
}

impl Recording {
    /// A recording that was not read from a file. `format` is the one it comes from.
    pub fn new(format: Format, data: Data) -> Self {
        Self { format, data, notes: Vec::new() }
    }

    pub(crate) fn with_notes(mut self, notes: Vec<String>) -> Self {
        self.notes = notes;
        self
    }

    /// The format it was read from.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What was recorded.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// What was recorded, by value.
    pub fn into_data(self) -> Data {
        self.data
    }

    /// What a person should know: what was left out, what was put in order. One sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// The kind of tables of numbers.
pub(crate) const SIGNALS: &str = "signals";

/// The kinds of recordings.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Numbers of devices over time.
    Signals(Signals),
    /// Packets or messages over time.
    Packets(Packets),
    /// When a link could deliver.
    Opportunities(Opportunities),
    /// What a path did to packets, second by second.
    Impairments(Impairments),
}

impl Data {
    /// Its name in output.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Signals(_) => SIGNALS,
            Self::Packets(_) => "packets",
            Self::Opportunities(_) => "opportunities",
            Self::Impairments(_) => "impairments",
        }
    }
}

taut_core::named! {
    /// File formats that are read.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Format {
        /// Comma-separated values (RFC 4180) with a header.
        Csv = "csv",
        /// <https://mcap.dev/spec>
        Mcap = "mcap",
        /// The capture format of libpcap (draft-ietf-opsawg-pcap).
        Pcap = "pcap",
        /// Its successor (draft-ietf-opsawg-pcapng).
        Pcapng = "pcapng",
        /// Packet-delivery traces (Netravali et al., *Mahimahi*, USENIX ATC 2015).
        Mahimahi = "mahimahi",
    }
}
