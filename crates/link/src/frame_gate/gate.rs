//! What happens to a packet: the pure state machine, integers only, that the XDP program repeats step by step.

use std::collections::BTreeMap;

use super::VideoPacket;
use super::stream::{Stream, StreamKey};
use super::turns::Turns;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On to the queue.
    Pass,
    /// Gone, and with it all of its frame.
    Drop,
}

/// What the control loop tells the gate. It alone writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// R_limit: bytes that may pass between two resets. `u64::MAX`: no limit.
    pub rate_limit: u64,
    /// Decide by [`Settings::rooms`] at the first packet of a frame, instead of by `rate_limit`.
    pub by_deadline: bool,
    /// What the queue is emptied at, bytes per second, at most [`Settings::RATE_MAX`]; 0 while nobody knows: then all pass.
    pub rate: u64,
    /// For frames by their kind ([`FrameKind`](taut_wire::rtp::FrameKind) as a number).
    pub rooms: [Room; 3],
}

/// When a frame may begin: at which level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The highest before it, bytes.
    pub before: u64,
    /// The highest with it, bytes.
    pub with: u64,
}

/// How the gate stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes that should be waiting, and those that the shaper's burst lacks: what was admitted, less what left since at
    /// [`Settings::rate`], never below 0.
    pub level: u64,
    /// Bytes that could have been sent besides while the level was 0, ever.
    pub unused: u64,
    /// Bytes that came, whatever became of them, of all streams that are not forgotten.
    pub offered: u64,
}

impl Room {
    /// Is there room for a frame of `size` bytes at this level?
    pub(super) const fn holds(self, level: u64, size: u64) -> bool {
        level <= self.before && level.saturating_add(size) <= self.with
    }
}

impl Settings {
    /// The highest rate, bytes per second: products with it fit in 64 bits.
    pub const RATE_MAX: u64 = 1_000_000_000;
}

impl Default for Settings {
    fn default() -> Self {
        Self { rate_limit: u64::MAX, by_deadline: false, rate: 0, rooms: [Room::default(); 3] }
    }
}

/// The gate's memory, and its decisions.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    settings: Settings,
    /// C_byte: bytes that passed since the last reset, of all streams: the limit is the channel's.
    byte_count: u64,
    level: Level,
    turns: Turns,
    streams: BTreeMap<StreamKey, Stream>,
    untracked: u64,
}

/// The account of what should be waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    /// Bytes that should be waiting, and those that the shaper's burst lacks, by what passed and the rate.
    pub(super) bytes: u64,
    /// As of when, in nanoseconds.
    drained_at: u64,
    /// Bytes that could have been sent besides while the level was 0, ever.
    unused: u64,
}

impl Gate {
    /// Streams at most. Packets of further ones pass, and are counted as untracked.
    pub const MAX_STREAMS: usize = 64;

    /// An open one.
    pub fn new() -> Self {
        Self::default()
    }

    /// What becomes of a packet that arrives at `now_ns`.
    pub fn handle_packet(&mut self, now_ns: u64, packet: &VideoPacket) -> Verdict {
        let key = packet.key();
        if self.streams.len() >= Self::MAX_STREAMS && !self.streams.contains_key(&key) {
            self.untracked += 1;
            return Verdict::Pass;
        }
        let stream = self.streams.entry(key).or_default();
        let dropped = if self.settings.by_deadline {
            stream.by_deadline(now_ns, &self.settings, &mut self.level, &mut self.turns, packet)
        } else {
            stream.by_limit(self.settings.rate_limit, &mut self.byte_count, packet)
        };
        stream.count(packet, dropped);
        if dropped { Verdict::Drop } else { Verdict::Pass }
    }

    /// Every stream.
    pub const fn streams(&self) -> &BTreeMap<StreamKey, Stream> {
        &self.streams
    }

    /// Packets that passed because there were too many streams.
    pub const fn untracked(&self) -> u64 {
        self.untracked
    }

    /// C_byte: bytes since the last reset.
    pub const fn byte_count(&self) -> u64 {
        self.byte_count
    }

    /// Forgets a stream.
    pub fn forget(&mut self, key: StreamKey) {
        self.streams.remove(&key);
    }
}

impl Level {
    /// Nanoseconds in which any backlog has been sent.
    const LONG_NS: u64 = 8_000_000_000;

    /// Less what was sent until now.
    pub(super) fn at(self, now_ns: u64, rate: u64) -> Self {
        let elapsed = now_ns.saturating_sub(self.drained_at).min(Self::LONG_NS);
        let sent = elapsed * rate / 1_000_000_000;
        Self {
            bytes: self.bytes.saturating_sub(sent),
            drained_at: now_ns,
            unused: self.unused + sent.saturating_sub(self.bytes),
        }
    }
}

/// What the control loop may touch. The model's gate and the XDP program's maps are steered alike.
pub trait Knobs {
    /// Gives the gate its orders. A rate above [`Settings::RATE_MAX`] is taken for that.
    fn set(&mut self, settings: Settings);
    /// Sets C_byte to 0.
    fn reset_count(&mut self);
    /// How the gate stands now.
    fn account(&mut self, now_ns: u64) -> Account;
    /// Corrects the level.
    fn set_level(&mut self, now_ns: u64, bytes: u64);
}

impl Knobs for Gate {
    fn set(&mut self, settings: Settings) {
        self.settings = Settings { rate: settings.rate.min(Settings::RATE_MAX), ..settings };
    }

    fn reset_count(&mut self) {
        self.byte_count = 0;
    }

    fn account(&mut self, now_ns: u64) -> Account {
        let Level { bytes, unused, .. } = self.level.at(now_ns, self.settings.rate);
        Account { level: bytes, unused, offered: self.streams.values().map(Stream::offered).sum() }
    }

    fn set_level(&mut self, now_ns: u64, bytes: u64) {
        self.level = Level { bytes, ..self.level.at(now_ns, self.settings.rate) };
    }
}
