//! What the gate remembers of one stream: its last frames, each with its verdict.

use taut_wire::rtp::FrameKind;

use super::VideoPacket;
use super::gate::{Level, Settings};
use super::turns::{Claim, Turns};

/// Which stream: an SSRC is unique only within its RTP session (RFC 3550 sections 3 and 8), which the filter stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// The place of the filter that took it, from 0.
    pub filter: u8,
    /// Its synchronisation source.
    pub ssrc: u32,
}

/// What the gate remembers of one stream, and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// F_drop: the frame that begins next will be discarded. Of the source's policies.
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
    /// Frames that began, ever.
    begun: u64,
    /// The last of them, in turn.
    frames: [Frame; Self::FRAMES],
    key: KeyFrame,
    /// What the next frame of each kind will hold, in bytes.
    predicted: [u64; 3],
    /// Where it stands among those that share the link: bytes of [`Turns`].
    tag: u64,
    /// The last claim that it stood back for.
    yielded: u64,
}

/// A frame, by its timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frame {
    timestamp: u32,
    dropped: bool,
    /// `None`: no packet of it has told yet.
    kind: Option<FrameKind>,
    bytes: u64,
    /// The sequence number of its last packet, once that was seen.
    end: Option<u16>,
}

/// The last key frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KeyFrame {
    timestamp: u32,
    dropped: bool,
    /// The highest sequence number of it.
    highest: u16,
    /// Packets of it that did not come, as far as the sequence numbers tell.
    missing: u64,
}

impl StreamKey {
    /// As the XDP program has it as a key of its map.
    pub const fn to_word(self) -> u64 {
        (self.filter as u64) << 32 | self.ssrc as u64
    }

    /// From the word of [`StreamKey::to_word`].
    pub const fn from_word(word: u64) -> Self {
        Self { filter: (word >> 32) as u8, ssrc: word as u32 }
    }
}

impl Stream {
    /// Frames that are remembered, so that a packet that was overtaken has the verdict of its frame.
    pub const FRAMES: usize = 8;

    /// The gate of the source, steps 2 and 3. What is discarded is a frame, not what comes until the next marker: the two
    /// differ where packets were overtaken.
    pub(super) fn by_limit(&mut self, rate_limit: u64, byte_count: &mut u64, packet: &VideoPacket) -> bool {
        let exceeds = byte_count.saturating_add(u64::from(packet.size)) > rate_limit;
        let place = self.place_of(packet).unwrap_or_else(|| self.begin(packet));
        let frame = &mut self.frames[place];
        frame.end = frame.end.or(packet.marker.then_some(packet.sequence));
        if frame.dropped {
            // It fits, and with it ends the frame that is being discarded: a fresh one comes next.
            if !exceeds && packet.marker {
                self.dropping = false;
            }
            return true;
        }
        // A frame that was begun is always finished.
        if exceeds && packet.marker {
            self.dropping = true;
        }
        *byte_count += u64::from(packet.size);
        false
    }

    /// Decides at the first packet of a frame, and once more where only a later one tells what the frame is.
    pub(super) fn by_deadline(
        &mut self,
        now_ns: u64,
        settings: &Settings,
        level: &mut Level,
        turns: &mut Turns,
        packet: &VideoPacket,
    ) -> bool {
        let known = self.place_of(packet);
        let place = known.unwrap_or_else(|| {
            self.end_key(packet);
            let place = self.begin(packet);
            self.frames[place].dropped = false;
            place
        });
        let told = self.frames[place].kind.is_none() && packet.kind.is_some();
        if known.is_none() || told {
            self.frames[place].kind = packet.kind;
            if !self.frames[place].dropped {
                *level = level.at(now_ns, settings.rate);
                self.frames[place].dropped = self.refuses(place, settings, level.bytes, turns, packet);
            }
            self.begin_kind(place, packet);
        }
        self.follow_key(place, packet);
        let size = u64::from(packet.size);
        let frame = &mut self.frames[place];
        frame.end = frame.end.or(packet.marker.then_some(packet.sequence));
        frame.bytes += size;
        if let Some(kind) = frame.kind {
            let predicted = &mut self.predicted[kind as usize];
            *predicted = frame.bytes.max(*predicted);
        }
        if !frame.dropped {
            level.bytes += size;
            // Before the rate is known no time passes.
            self.tag += if settings.rate > 0 { size } else { 0 };
        }
        frame.dropped
    }

    /// Where the frame of the packet is remembered. A frame is its timestamp, and ends with its marker: what comes behind
    /// that with the same timestamp is another one.
    fn place_of(&self, packet: &VideoPacket) -> Option<usize> {
        let newest = place(self.begun.checked_sub(1)?);
        let remembered = 0..Self::FRAMES.min(self.begun as usize);
        std::iter::once(newest).chain(remembered).find(|place| {
            let frame = &self.frames[*place];
            let behind = frame.end.is_some_and(|end| packet.sequence.wrapping_sub(end) as i16 > 0);
            frame.timestamp == packet.timestamp && !behind
        })
    }

    /// A frame begins in the place of the oldest one.
    fn begin(&mut self, packet: &VideoPacket) -> usize {
        let place = place(self.begun);
        self.begun += 1;
        self.frames[place] = Frame {
            timestamp: packet.timestamp,
            dropped: self.dropping,
            kind: packet.kind,
            bytes: 0,
            end: None,
        };
        place
    }

    /// The first packet of a frame tells its kind: what it held is remembered as the largest of its kind, which fades by an
    /// eighth.
    fn begin_kind(&mut self, place: usize, packet: &VideoPacket) {
        let Frame { timestamp, dropped, kind, .. } = self.frames[place];
        let Some(kind) = kind else { return };
        let predicted = &mut self.predicted[kind as usize];
        *predicted -= *predicted / 8;
        if kind == FrameKind::Key {
            self.key = KeyFrame { timestamp, dropped, highest: packet.sequence, missing: 0 };
        }
    }

    /// What lies between a key frame without an end and the frame after it did not come.
    fn end_key(&mut self, packet: &VideoPacket) {
        let Some(last) = self.begun.checked_sub(1) else { return };
        let frame = self.frames[place(last)];
        let is_key = frame.kind == Some(FrameKind::Key) && frame.timestamp == self.key.timestamp;
        let ahead = packet.sequence.wrapping_sub(self.key.highest) as i16;
        if is_key && frame.end.is_none() && ahead > 1 {
            self.key.missing += ahead as u64 - 1;
            self.key.highest = packet.sequence.wrapping_sub(1);
        }
    }

    /// Counts the holes in a key frame. A packet that was overtaken fills one.
    fn follow_key(&mut self, place: usize, packet: &VideoPacket) {
        let Frame { kind, timestamp, .. } = self.frames[place];
        if kind != Some(FrameKind::Key) || timestamp != self.key.timestamp {
            return;
        }
        let ahead = packet.sequence.wrapping_sub(self.key.highest) as i16;
        if ahead > 0 {
            self.key.missing += ahead as u64 - 1;
            self.key.highest = packet.sequence;
        } else if ahead < 0 {
            self.key.missing = self.key.missing.saturating_sub(1);
        }
    }

    /// Would the frame that begins with this packet come too late, or is it another stream's turn? One of which no packet has
    /// told yet is judged as what it may be at best.
    fn refuses(
        &mut self,
        place: usize,
        settings: &Settings,
        level: u64,
        turns: &mut Turns,
        packet: &VideoPacket,
    ) -> bool {
        if settings.rate == 0 {
            return false;
        }
        let Frame { kind, bytes, .. } = self.frames[place];
        // What of it has passed does not stand in its own way.
        let (level, size) = (level.saturating_sub(bytes), bytes + u64::from(packet.size));
        let Some(kind) = kind else {
            return !settings.rooms[FrameKind::Key as usize].holds(level, size);
        };
        // What depends on a lost key frame goes first.
        let orphan = kind == FrameKind::Delta && (self.key.dropped || self.key.missing > 0);
        let class = if orphan { FrameKind::Disposable } else { kind };
        let size = size.max(self.predicted[kind as usize]);
        let claim = Claim { key: packet.key(), start: turns.start(self.tag), class, size };
        let yields = kind != FrameKind::Key;
        turns.refuses(&claim, level, settings, yields.then_some(&mut self.yielded)) || {
            self.tag = claim.start;
            false
        }
    }

    /// Bytes that came.
    pub const fn offered(&self) -> u64 {
        self.passed_bytes + self.dropped_bytes
    }

    /// Frames whose last packet came.
    pub const fn frames(&self) -> u64 {
        self.passed_frames + self.dropped_frames
    }

    /// Has a frame of this kind come? Only by deadline are kinds remembered.
    pub const fn has_had(&self, kind: FrameKind) -> bool {
        // Fades by eighths, which never makes it 0.
        self.predicted[kind as usize] > 0
    }

    pub(super) fn count(&mut self, packet: &VideoPacket, dropped: bool) {
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
}

/// Where the frame is that began after so many others.
const fn place(begun: u64) -> usize {
    (begun % Stream::FRAMES as u64) as usize
}

/// As the XDP program has a stream in its map: `struct stream` of `frame_gate.bpf.c`.
impl Stream {
    /// Every field, a word each.
    pub const WORDS: usize = COUNTED + Frame::WORDS * Self::FRAMES + 9;

    /// From its words.
    pub fn from_words(words: &[u64; Self::WORDS]) -> Self {
        let (counted, rest) = words.split_at(COUNTED);
        let (frames, rest) = rest.split_at(Frame::WORDS * Self::FRAMES);
        let mut stream = Self {
            dropping: counted[0] != 0,
            passed_packets: counted[1],
            passed_bytes: counted[2],
            dropped_packets: counted[3],
            dropped_bytes: counted[4],
            passed_frames: counted[5],
            dropped_frames: counted[6],
            begun: counted[7],
            frames: [Frame::default(); Self::FRAMES],
            key: KeyFrame {
                timestamp: rest[0] as u32,
                dropped: rest[1] != 0,
                highest: rest[2] as u16,
                missing: rest[3],
            },
            predicted: [rest[4], rest[5], rest[6]],
            tag: rest[7],
            yielded: rest[8],
        };
        // Of places where no frame was yet the words say nothing.
        let frames = frames.chunks_exact(Frame::WORDS).take(counted[7] as usize);
        for (frame, words) in stream.frames.iter_mut().zip(frames) {
            *frame = Frame::from_words(words);
        }
        stream
    }
}

/// Words before the frames.
const COUNTED: usize = 8;

impl Frame {
    const WORDS: usize = 5;

    /// The kind is 3 when it is not told, the end one more than it is, and 0 when it was not seen.
    fn from_words(words: &[u64]) -> Self {
        let kinds = [FrameKind::Disposable, FrameKind::Delta, FrameKind::Key];
        Self {
            timestamp: words[0] as u32,
            dropped: words[1] != 0,
            kind: kinds.get(words[2] as usize).copied(),
            bytes: words[3],
            end: words[4].checked_sub(1).map(|end| end as u16),
        }
    }
}
