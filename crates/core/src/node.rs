//! The contract of what sits at the ends of a network: senders, receivers, sessions.

use crate::{Bytes, Choice, Deadline, DropCause, Packet, Time};

/// A host's application: makes packets and takes them.
pub trait Node {
    /// A packet for this node arrived.
    fn handle_input(&mut self, now: Time, packet: Packet);
    /// The deadline has come. Also called once when the run begins.
    fn handle_timeout(&mut self, now: Time);
    /// The next packet to send. The driver fills `id`, `sent` and `source`.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet>;
    /// What happened, for whoever measures.
    fn poll_event(&mut self) -> Option<NodeEvent>;
    /// When `handle_timeout` has something to do, and what.
    fn poll_timeout(&self) -> Option<Deadline>;
}

crate::named! {
    /// What a piece of data means to the person at the other end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Medium {
        /// Position, velocity, force: one sample.
        Haptic = "haptic",
        /// One audio frame.
        Audio = "audio",
        /// One video frame.
        Video = "video",
        /// A command or other data that is none of these.
        Data = "data",
    }
}

impl Medium {
    /// From the code on the wire.
    pub const fn from_code(code: u8) -> Option<Self> {
        if (code as usize) < Self::ALL.len() { Some(Self::ALL[code as usize]) } else { None }
    }
}

/// One haptic sample, one audio frame, one video frame: the unit in which delay and loss are felt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What it is.
    pub medium: Medium,
    /// Counts up by one for every sample of this medium from this sender.
    pub sequence: u64,
    /// When it was made (a frame: when its first byte existed).
    pub created: Time,
    /// Its length without any header.
    pub size: Bytes,
}

/// What a node tells whoever measures.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// The device made a sample that is meant to be delivered.
    Made(Sample),
    /// A sample was not worth sending (deadband); the receiver holds the last one. It is not a loss.
    Withheld(Sample),
    /// A whole sample was given to the application here, for the first time.
    Delivered(Sample),
    /// A sample was dropped at this node.
    Dropped(Sample, DropCause),
    /// A packet, or a part of a sample in it, that arrived here was of no use. The medium is told where it is known.
    Refused(Option<Medium>, DropCause),
    /// A number that moves, for plots: congestion window, gap, buffer.
    Gauge {
        /// Which, with its unit: `"cwnd_segments"`, `"gap_ms"`.
        name: &'static str,
        /// Its new value.
        value: f64,
    },
    /// The transport here chose paths for a message.
    Chosen(Box<Choice>),
}
