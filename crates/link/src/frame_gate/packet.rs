//! What the gate looks at in a packet.

use taut_core::{Packet, PacketMeta, Protocol};
use taut_wire::rtp::{Codec, FrameKind, HEADER_LEN, VERSION};

use super::StreamKey;

/// Which packets are video (the source's filter). All others pass untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    port: u16,
    payload_type: Option<u8>,
    codec: Codec,
}

/// What the gate decides by: an RTP packet of a video stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoPacket {
    /// The place of the filter that took it, from 0.
    pub filter: u8,
    /// Which stream.
    pub ssrc: u32,
    /// Its RTP sequence number.
    pub sequence: u16,
    /// When its frame was captured: the same for all packets of a frame.
    pub timestamp: u32,
    /// The last packet of a frame.
    pub marker: bool,
    /// What the loss of its frame would mean, as far as this packet tells: that of a frame's first one that does, decides.
    pub kind: Option<FrameKind>,
    /// Length of the IP packet, headers included.
    pub size: u32,
}

impl VideoPacket {
    /// Its stream.
    pub const fn key(&self) -> StreamKey {
        StreamKey { filter: self.filter, ssrc: self.ssrc }
    }
}

impl Filter {
    /// RTP in UDP datagrams to this port. Any payload type; the codec is VP8.
    pub const fn port(port: u16) -> Self {
        Self { port, payload_type: None, codec: Codec::Vp8 }
    }

    /// Only packets of this payload type, 0 to 127. Default: any. 64 to 95 never are video, see [`Filter::read`].
    pub const fn payload_type(mut self, payload_type: u8) -> Self {
        self.payload_type = Some(payload_type);
        self
    }

    /// How to tell key frames. Default VP8.
    pub const fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// The UDP port that packets go to.
    pub const fn udp_port(&self) -> u16 {
        self.port
    }

    /// The payload type, if only one will do.
    pub const fn only_type(&self) -> Option<u8> {
        self.payload_type
    }

    /// How key frames are told.
    pub const fn video_codec(&self) -> Codec {
        self.codec
    }

    /// Goes it to the port?
    pub(crate) fn addresses(&self, meta: &PacketMeta) -> bool {
        meta.protocol == Protocol::Udp && meta.destination_port == self.port
    }

    /// The packet, if it is video. Its stream is taken for one of filter 0.
    pub fn video(&self, packet: &Packet) -> Option<VideoPacket> {
        if !self.addresses(&packet.meta) {
            return None;
        }
        self.read(packet.body(), u32::try_from(packet.meta.size.get()).unwrap_or(u32::MAX))
    }

    /// What a UDP payload to the port says, if it is RTP of the right type; `size` is that of the whole IP packet. Looks
    /// at no more than it needs: `taut_wire::rtp` is the strict reader. The payload types 64 to 95 are left to RTCP, which may
    /// come to the same port (RFC 5761 section 4).
    pub fn read(&self, payload: &[u8], size: u32) -> Option<VideoPacket> {
        let header: &[u8; HEADER_LEN] = payload.first_chunk()?;
        let [flags, marker_type, s0, s1, t0, t1, t2, t3, i0, i1, i2, i3] = *header;
        let payload_type = marker_type & 0x7f;
        let rtcp = matches!(payload_type, 64..=95);
        if flags >> 6 != VERSION || rtcp || self.payload_type.is_some_and(|only| only != payload_type) {
            return None;
        }
        Some(VideoPacket {
            filter: 0,
            ssrc: u32::from_be_bytes([i0, i1, i2, i3]),
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            marker: marker_type & 0x80 != 0,
            kind: carried(payload).map_or(Some(FrameKind::Delta), |carried| self.codec.told(carried)),
            size,
        })
    }
}

/// Words of a header extension behind which the gate looks no more.
const MAX_EXTENSION_WORDS: usize = 255;

/// What is behind the RTP header. Padding, if any, is not taken off.
fn carried(payload: &[u8]) -> Option<&[u8]> {
    let flags = payload[0];
    let mut at = HEADER_LEN + 4 * usize::from(flags & 0x0f);
    if flags & 0x10 != 0 {
        let length = payload.get(at + 2..at + 4)?;
        let words = usize::from(u16::from_be_bytes([length[0], length[1]]));
        if words > MAX_EXTENSION_WORDS {
            return None;
        }
        at += 4 + 4 * words;
    }
    payload.get(at..)
}
