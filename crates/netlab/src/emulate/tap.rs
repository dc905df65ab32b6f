//! Who watches what an emulator carries.

use taut_core::{DropCause, Packet, PacketMeta, Time};

/// Sees every packet of one direction, on the emulator's thread: for as long as it takes, packets wait.
///
/// A packet's payload begins with the [headers](PacketMeta::headers) of its IP packet, and its flow is a hash: ports and protocol tell
/// whose it is.
pub trait Tap: Send {
    /// A packet enters the link, at its [`sent`](PacketMeta::sent).
    fn entered(&mut self, packet: &Packet);
    /// It has been written into the other namespace's device.
    fn left(&mut self, now: Time, packet: &Packet);
    /// The link has dropped it.
    fn dropped(&mut self, meta: &PacketMeta, cause: DropCause);
    /// The link has made a copy of it.
    fn duplicated(&mut self, meta: &PacketMeta);
}
