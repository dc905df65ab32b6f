//! What happens to a packet: the pure state machine, integers only, that the XDP program repeats step by step.

use std::collections::BTreeMap;

use taut_wire::rtp::FrameKind;

use super::VideoPacket;

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
    /// For frames by their kind ([`FrameKind`] as a number).
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
    /// Bytes that should be waiting, and those that the shaper's burst lacks, by what passed and the rate.
    level: u64,
    /// As of when, in nanoseconds.
    drained_at: u64,
    /// Bytes that could have been sent besides while the level was 0, ever.
    unused: u64,
    streams: BTreeMap<u32, Stream>,
    untracked: u64,
}

/// What the gate remembers of one stream (SSRC), and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// F_drop: a frame is being discarded.
    pub dropping: bool,
    /// Packets that passed.
    pub passed_packets: u64,
    /// Bytes that passed.
    pub passed_bytes: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Bytes that were dropped.
    pub dropped_bytes: u64,
    /// Frames whose last packet passed.
    pub passed_frames: u64,
    /// Frames whose last packet was dropped.
    pub dropped_frames: u64,
    /// Anything seen yet?
    begun: bool,
    timestamp: u32,
    /// Timestamp and verdict of the frame before, for packets that were overtaken.
    previous: Option<(u32, bool)>,
    sequence: u16,
    /// The current frame's last packet was seen.
    marked: bool,
    kind: FrameKind,
    frame_bytes: u64,
    /// The last key frame was dropped, or came with holes.
    key_lost: bool,
    /// What the next frame of each kind will hold, in bytes.
    predicted: [u64; 3],
}

impl Gate {
    /// Streams at most. Packets of further ones pass, and are counted as untracked.
    pub const MAX_STREAMS: usize = 64;
    /// Nanoseconds in which any backlog has been sent.
    const LONG_NS: u64 = 8_000_000_000;

    /// An open one.
    pub fn new() -> Self {
        Self::default()
    }

    /// What becomes of a packet that arrives at `now_ns`.
    pub fn handle_packet(&mut self, now_ns: u64, packet: &VideoPacket) -> Verdict {
        if self.streams.len() >= Self::MAX_STREAMS && !self.streams.contains_key(&packet.ssrc) {
            self.untracked += 1;
            return Verdict::Pass;
        }
        let mut stream = self.streams.get(&packet.ssrc).copied().unwrap_or_default();
        let dropped = if self.settings.by_deadline {
            self.by_deadline(now_ns, &mut stream, packet)
        } else {
            self.by_limit(&mut stream, packet)
        };
        stream.count(packet, dropped);
        self.streams.insert(packet.ssrc, stream);
        if dropped { Verdict::Drop } else { Verdict::Pass }
    }

    /// The gate of the source, steps 2 and 3.
    fn by_limit(&mut self, stream: &mut Stream, packet: &VideoPacket) -> bool {
        let exceeds = self.byte_count.saturating_add(u64::from(packet.size)) > self.settings.rate_limit;
        if stream.dropping {
            // It fits, and with it ends the frame that is being discarded: a fresh one comes next.
            if !exceeds && packet.marker {
                stream.dropping = false;
            }
            return true;
        }
        // A frame that was begun is always finished.
        if exceeds && packet.marker {
            stream.dropping = true;
        }
        self.byte_count += u64::from(packet.size);
        false
    }

    /// Decides at the first packet of a frame.
    fn by_deadline(&mut self, now_ns: u64, stream: &mut Stream, packet: &VideoPacket) -> bool {
        let age = packet.timestamp.wrapping_sub(stream.timestamp) as i32;
        if stream.begun && age < 0 {
            // Overtaken. Of frames older still nobody knows the verdict: what can make one whole passes.
            let dropped =
                stream.previous.is_some_and(|(timestamp, dropped)| dropped && timestamp == packet.timestamp);
            if !dropped {
                self.level += u64::from(packet.size);
            }
            return dropped;
        }
        let fresh = !stream.begun || age > 0;
        let gap = stream.begun && packet.sequence != stream.sequence.wrapping_add(1);
        if gap && stream.kind == FrameKind::Key && !(fresh && stream.marked) {
            stream.key_lost = true;
        }
        if fresh {
            stream.begin(packet);
            stream.dropping = self.refuses(now_ns, stream, packet);
            if stream.kind == FrameKind::Key {
                stream.key_lost = stream.dropping;
            }
        }
        stream.sequence = packet.sequence;
        stream.marked |= packet.marker;
        stream.frame_bytes += u64::from(packet.size);
        if !stream.dropping {
            self.level += u64::from(packet.size);
        }
        stream.dropping
    }

    /// Would the frame that begins with this packet come too late?
    fn refuses(&mut self, now_ns: u64, stream: &Stream, packet: &VideoPacket) -> bool {
        self.drain(now_ns);
        if self.settings.rate == 0 {
            return false;
        }
        // What depends on a lost key frame goes first.
        let orphan = stream.key_lost && stream.kind == FrameKind::Delta;
        let class = if orphan { FrameKind::Disposable } else { stream.kind };
        let room = self.settings.rooms[class as usize];
        let size = stream.predicted[stream.kind as usize].max(u64::from(packet.size));
        self.level > room.before || self.level + size > room.with
    }

    /// Takes off the level what was sent until now.
    fn drain(&mut self, now_ns: u64) {
        Account { level: self.level, unused: self.unused } = self.account_at(now_ns);
        self.drained_at = now_ns;
    }

    fn account_at(&self, now_ns: u64) -> Account {
        let elapsed = now_ns.saturating_sub(self.drained_at).min(Self::LONG_NS);
        let sent = elapsed * self.settings.rate / 1_000_000_000;
        Account {
            level: self.level.saturating_sub(sent),
            unused: self.unused + sent.saturating_sub(self.level),
        }
    }

    /// Every stream, by SSRC.
    pub const fn streams(&self) -> &BTreeMap<u32, Stream> {
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
    pub fn forget(&mut self, ssrc: u32) {
        self.streams.remove(&ssrc);
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
        self.account_at(now_ns)
    }

    fn set_level(&mut self, now_ns: u64, bytes: u64) {
        self.drain(now_ns);
        self.level = bytes;
    }
}

impl Stream {
    /// Words of [`Stream::to_words`].
    pub const WORDS: usize = 20;

    /// A frame begins; what the one before it held is remembered as the largest of its kind, which fades by an eighth.
    fn begin(&mut self, packet: &VideoPacket) {
        if self.begun {
            let predicted = &mut self.predicted[self.kind as usize];
            *predicted = (*predicted - *predicted / 8).max(self.frame_bytes);
            self.previous = Some((self.timestamp, self.dropping));
        }
        self.begun = true;
        self.timestamp = packet.timestamp;
        self.kind = packet.kind;
        self.frame_bytes = 0;
        self.marked = false;
    }

    fn count(&mut self, packet: &VideoPacket, dropped: bool) {
        let (size, frames) = (u64::from(packet.size), u64::from(packet.marker));
        if dropped {
            self.dropped_packets += 1;
            self.dropped_bytes += size;
            self.dropped_frames += frames;
        } else {
            self.passed_packets += 1;
            self.passed_bytes += size;
            self.passed_frames += frames;
        }
    }

    /// As the XDP program has it in its map: `struct stream` of `frame_gate.bpf.c`.
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let (timestamp, dropped) = self.previous.unwrap_or_default();
        [
            self.dropping.into(),
            self.passed_packets,
            self.passed_bytes,
            self.dropped_packets,
            self.dropped_bytes,
            self.passed_frames,
            self.dropped_frames,
            self.begun.into(),
            self.timestamp.into(),
            self.previous.is_some().into(),
            timestamp.into(),
            dropped.into(),
            self.sequence.into(),
            self.marked.into(),
            self.kind as u64,
            self.frame_bytes,
            self.key_lost.into(),
            self.predicted[0],
            self.predicted[1],
            self.predicted[2],
        ]
    }

    /// From the words of [`Stream::to_words`].
    pub fn from_words(words: &[u64; Self::WORDS]) -> Self {
        Self {
            dropping: words[0] != 0,
            passed_packets: words[1],
            passed_bytes: words[2],
            dropped_packets: words[3],
            dropped_bytes: words[4],
            passed_frames: words[5],
            dropped_frames: words[6],
            begun: words[7] != 0,
            timestamp: words[8] as u32,
            previous: (words[9] != 0).then_some((words[10] as u32, words[11] != 0)),
            sequence: words[12] as u16,
            marked: words[13] != 0,
            kind: match words[14] {
                0 => FrameKind::Disposable,
                1 => FrameKind::Delta,
                _ => FrameKind::Key,
            },
            frame_bytes: words[15],
            key_lost: words[16] != 0,
            predicted: [words[17], words[18], words[19]],
        }
    }
}
