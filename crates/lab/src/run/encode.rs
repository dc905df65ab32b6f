//! A video encoder that is a table: the frames of a real VP8 encode, scaled to a rate, in RTP packets.

use std::collections::VecDeque;

use taut_core::{Bitrate, Bytes, Duration, IPV4_HEADER, Packet, Rng, Time, Transmit, UDP_HEADER};
use taut_media::{Packetizer, TableFrame, VideoTable};
use taut_sim::Peer;
use taut_wire::rtp::vp8::FrameHeader;

use crate::scenario::RtpTraffic;

/// Makes the frames of the encode over and over. Of any rate its frames have the sizes of the table, times a factor; and the
/// quantiser that makes the table's scene so long (`VideoTable::quantizer_index`). Nothing else of an encoder is there: its rate
/// is met by every frame, at once.
pub(super) struct Encode {
    packetizer: Packetizer,
    table: VideoTable,
    /// Rate of the table at this pace.
    natural: Bitrate,
    /// Which is next, and when.
    next: usize,
    at: Time,
    interval: Duration,
    /// Packets that are not sent yet: what is stored of them, and their length with the zeros behind.
    ready: VecDeque<(Vec<u8>, u32)>,
    frame: Vec<u8>,
}

/// What gates and receivers read of a packet: the RTP header, the payload descriptor (RFC 7741), the frame header's beginning.
const STORED: usize = 64;
/// The size of the encode's picture.
const PICTURE: (u16, u16) = (480, 360);

impl Encode {
    /// Begins with any frame of the encode.
    pub(super) fn new(spec: &RtpTraffic, start: Time, rng: &mut Rng) -> Self {
        let interval = Duration::from_nanos(1_000_000_000 / u64::from(spec.fps));
        let table = VideoTable::vp8_25fps_400k();
        let room = spec.packet.get() - IPV4_HEADER - UDP_HEADER;
        Self {
            next: rng.below(table.frames().len() as u64) as usize,
            packetizer: Packetizer::new(spec.codec, rng.next_u64() as u32, rng).max_packet(room as usize),
            natural: table.mean_rate(interval),
            table,
            at: start,
            interval,
            ready: VecDeque::new(),
            frame: Vec::new(),
        }
    }

    /// As encoded, at this frame rate.
    pub(super) const fn natural_rate(&self) -> Bitrate {
        self.natural
    }

    /// When the next frame is made.
    pub(super) const fn next_frame(&self) -> Time {
        self.at
    }

    /// Makes the next frame, of a video of this rate.
    pub(super) fn make_frame(&mut self, rate: Bitrate) {
        let scale = rate.as_bps() as f64 / self.natural.as_bps() as f64;
        let TableFrame { size, key } = self.table.frames()[self.next];
        let size = ((size.get() as f64 * scale).round() as u64).max(1);
        let quantizer_index = VideoTable::quantizer_index(rate * self.interval);
        self.frame.clear();
        FrameHeader { key, quantizer_index }.emit(PICTURE, &mut self.frame);
        self.frame.resize(size as usize, 0);
        let ready = &mut self.ready;
        self.packetizer.packetize(self.at, &self.frame, |packet| {
            ready.push_back((packet[..packet.len().min(STORED)].to_vec(), packet.len() as u32));
        });
        self.skip_frame();
    }

    /// Makes nothing of the next frame.
    pub(super) fn skip_frame(&mut self) {
        self.next = (self.next + 1) % self.table.frames().len();
        self.at += self.interval;
    }

    /// How many packets were made and not taken.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The next packet of the frames that were made.
    pub(super) fn take_packet(&mut self, peer: &Peer) -> Option<Packet> {
        let (stored, len) = self.ready.pop_front()?;
        let padding = len - stored.len() as u32;
        Some(peer.packet(stored, Transmit { padding, ..Transmit::default() }))
    }

    /// Of what is sent, the share that is video, in packets of this length.
    pub(super) fn share(packet: Bytes) -> f64 {
        let overhead = (IPV4_HEADER + UDP_HEADER) as f64 + Packetizer::OVERHEAD as f64;
        1.0 - overhead / packet.get() as f64
    }
}
