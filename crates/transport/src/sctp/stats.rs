//! What an association counts.

/// What went through a [`Sctp`](super::Sctp), in messages unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctpStats {
    /// Taken by `send`.
    pub offered: u64,
    /// Given to SCTP.
    pub handed: u64,
    /// Dropped because newer ones needed the room.
    pub superseded: u64,
    /// Dropped because they were older than their deadline before they were sent whole.
    pub too_late: u64,
    /// Reliable ones given up after they were sent: their deadline passed or the association ended. Where only the
    /// acknowledgement was lost, the message did arrive. Each was told by [`Event::Dropped`](taut_core::Event::Dropped).
    pub abandoned: u64,
    /// Unreliable ones that are not repeated any more. Most of them arrived: SCTP gives up when the last repetition is
    /// on its way. Not told by events.
    pub let_go: u64,
    /// Received.
    pub received: u64,
    /// Packets that were of no use.
    pub refused: u64,
    /// Packets that held something sent before, or left ahead of the window for an emergency.
    pub retransmitted_packets: u64,
    /// Parts of messages that `dcsctp` wanted to send again while they, or their last repetition, were still on their way.
    pub held_back: u64,
}
