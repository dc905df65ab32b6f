/* From an Ethernet frame to what the gate looks at. The twin of tests/xdp/classify.rs and of taut-link's packet.rs. */
#pragma once
#include "bpf.h"

#define MAX_FILTERS 4
#define MAX_VLAN_TAGS 2
#define MAX_IPV6_HEADERS 4
#define MAX_EXTENSION_WORDS 255
#define SCANNED_UNITS 4
#define SCANNED_BYTES 2047

enum codec { CODEC_VP8, CODEC_H264, CODEC_OPAQUE };
/* KIND_UNTOLD: another packet of the frame has to tell. */
enum kind { KIND_DISPOSABLE, KIND_DELTA, KIND_KEY, KIND_UNTOLD };

/* Which packets are video. All u64, so that user space writes it as words. */
struct filter {
	u64 port;         /* UDP destination port; 0: unused, and so are all after it */
	u64 payload_type; /* plus one; 0: any */
	u64 codec;
	u64 family;     /* 4 or 6; 0: any destination */
	u64 address_hi; /* of an IPv6 address, in host order */
	u64 address_lo; /* or an IPv4 address */
};

struct video {
	u32 filter;
	u32 ssrc;
	u32 timestamp;
	u16 sequence;
	u8 marker;
	u8 kind;
	u32 size;
};

/* What a packet is addressed to. */
struct target {
	u64 family;
	u64 address_hi;
	u64 address_lo;
	u64 port;
};

struct __attribute__((packed)) ethernet {
	u8 addresses[12];
	u16 type;
};
struct __attribute__((packed)) vlan {
	u16 tag;
	u16 type;
};
struct __attribute__((packed)) ipv4 {
	u8 version_length;
	u8 class;
	u16 length;
	u16 id;
	u16 fragment;
	u8 ttl;
	u8 protocol;
	u16 checksum;
	u32 source;
	u32 destination;
};
struct __attribute__((packed)) ipv6 {
	u8 version_class[4];
	u16 length;
	u8 next;
	u8 hops;
	u64 source[2];
	u64 destination[2];
};
struct __attribute__((packed)) udp {
	u16 source;
	u16 destination;
	u16 length;
	u16 checksum;
};
struct __attribute__((packed)) rtp {
	u8 flags;
	u8 marker_type;
	u16 sequence;
	u32 timestamp;
	u32 ssrc;
};

enum ethertype { TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, TYPE_VLAN = 0x8100, TYPE_VLAN_AD = 0x88a8 };
enum protocol { PROTO_HOP_BY_HOP = 0, PROTO_UDP = 17, PROTO_ROUTING = 43, PROTO_DESTINATION = 60 };

/* Gives where the UDP header is, or 0 when the packet is not UDP or a fragment. */
INLINE void *find_udp(void *data, void *end, struct target *target, u32 *size)
{
	struct ethernet *ethernet = data;
	if ((void *)(ethernet + 1) > end)
		return 0;
	u16 type = HOST16(ethernet->type);
	void *at = ethernet + 1;
#pragma unroll
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan *vlan = at;
		if (type != TYPE_VLAN && type != TYPE_VLAN_AD)
			break;
		if ((void *)(vlan + 1) > end)
			return 0;
		type = HOST16(vlan->type);
		at = vlan + 1;
	}
	if (LIKELY(type == TYPE_IPV4)) {
		struct ipv4 *ip = at;
		if ((void *)(ip + 1) > end)
			return 0;
		u32 words = ip->version_length & 0x0f;
		/* More fragments, or not the first one. */
		if (ip->version_length >> 4 != 4 || words < 5 || ip->protocol != PROTO_UDP || HOST16(ip->fragment) & 0x3fff)
			return 0;
		target->family = 4;
		target->address_hi = 0;
		target->address_lo = HOST32(ip->destination);
		*size = HOST16(ip->length);
		return at + words * 4;
	}
	if (type != TYPE_IPV6)
		return 0;
	struct ipv6 *ip = at;
	if ((void *)(ip + 1) > end || ip->version_class[0] >> 4 != 6)
		return 0;
	target->family = 6;
	target->address_hi = HOST64(ip->destination[0]);
	target->address_lo = HOST64(ip->destination[1]);
	*size = HOST16(ip->length) + sizeof(*ip);
	u8 next = ip->next;
	at = ip + 1;
#pragma unroll
	for (int i = 0; i < MAX_IPV6_HEADERS; i++) {
		u8 *header = at;
		if (next != PROTO_HOP_BY_HOP && next != PROTO_ROUTING && next != PROTO_DESTINATION)
			break;
		if ((void *)(header + 2) > end)
			return 0;
		next = header[0];
		at += 8 + 8 * (u32)header[1];
	}
	return next == PROTO_UDP ? at : 0;
}

/* RFC 7741: the payload descriptor, and the P bit behind it. */
INLINE u8 kind_vp8(u8 *at, void *end)
{
	if ((void *)(at + 1) > end)
		return KIND_DELTA;
	u8 first = *at++;
	if (first & 0x80) {
		if ((void *)(at + 1) > end)
			return KIND_DELTA;
		u8 extended = *at++;
		if (extended & 0x80) {
			if ((void *)(at + 1) > end)
				return KIND_DELTA;
			at += *at & 0x80 ? 2 : 1;
		}
		if (extended & 0x40) {
			if (!(extended & 0x20))
				return KIND_DELTA;
			at++;
		}
		if (extended & 0x30)
			at++;
	}
	/* At least one byte of VP8 follows. */
	if ((void *)(at + 1) > end)
		return KIND_DELTA;
	if ((first & 0x17) == 0x10 && !(*at & 1))
		return KIND_KEY;
	return first & 0x20 ? KIND_DISPOSABLE : KIND_DELTA;
}

enum nal_type { NAL_IDR = 5, NAL_SPS = 7, NAL_STAP_A = 24, NAL_FU_A = 28 };

/* By the header of a NAL unit: what is no slice, and no parameters that go before an IDR picture, tells nothing. */
INLINE u8 kind_unit(u8 indicator, u8 header)
{
	u8 type = header & 0x1f;
	if (type == NAL_IDR || type == NAL_SPS)
		return KIND_KEY;
	if (type < 1 || type > 4)
		return KIND_UNTOLD;
	return indicator & 0x60 ? KIND_DELTA : KIND_DISPOSABLE;
}

/* The first unit of a STAP-A that tells decides. */
INLINE u8 kind_units(u8 *at, void *end)
{
	for (int i = 0; i < SCANNED_UNITS; i++) {
		if ((void *)(at + 1) > end)
			return KIND_UNTOLD;
		if ((void *)(at + 3) > end)
			return KIND_DELTA;
		u8 kind = kind_unit(at[2], at[2]);
		u32 length = at[0] << 8 | at[1];
		if (kind != KIND_UNTOLD)
			return kind;
		if (length > SCANNED_BYTES)
			return KIND_DELTA;
		/* The verifier must see the bound where it is used. */
		OPAQUE(length);
		at += 2 + (length & SCANNED_BYTES);
	}
	return KIND_UNTOLD;
}

/* RFC 6184: by the first slice, or the parameters before an IDR picture. */
INLINE u8 kind_h264(u8 *at, void *end)
{
	if ((void *)(at + 1) > end)
		return KIND_DELTA;
	u8 type = *at & 0x1f;
	if (type == NAL_STAP_A)
		return kind_units(at + 1, end);
	if (type != NAL_FU_A)
		return kind_unit(*at, *at);
	return (void *)(at + 2) > end ? KIND_DELTA : kind_unit(at[0], at[1]);
}

/* Of what kind the frame is, as far as this packet tells. */
INLINE u8 kind_of(struct rtp *rtp, void *end, u64 codec)
{
	if (codec == CODEC_OPAQUE)
		return KIND_DELTA;
	u8 *at = (u8 *)(rtp + 1) + 4 * (rtp->flags & 0x0f);
	if (rtp->flags & 0x10) {
		if ((void *)(at + 4) > end)
			return KIND_DELTA;
		u32 words = at[2] << 8 | at[3];
		if (words > MAX_EXTENSION_WORDS)
			return KIND_DELTA;
		/* The verifier must see the bound where it is used. */
		OPAQUE(words);
		at += 4 + 4 * (words & MAX_EXTENSION_WORDS);
	}
	return codec == CODEC_VP8 ? kind_vp8(at, end) : kind_h264(at, end);
}

INLINE int matches(const struct filter *filter, const struct target *target, struct rtp *rtp)
{
	if (filter->port != target->port)
		return 0;
	if (filter->payload_type && filter->payload_type != (rtp->marker_type & 0x7f) + 1)
		return 0;
	return !filter->family || (filter->family == target->family && filter->address_hi == target->address_hi &&
				   filter->address_lo == target->address_lo);
}

/* Is it video? Then what it says. */
INLINE int classify(void *data, void *end, const struct filter *filters, struct video *video)
{
	struct target target = {};
	struct udp *udp = find_udp(data, end, &target, &video->size);
	if (!udp || (void *)(udp + 1) > end)
		return 0;
	target.port = HOST16(udp->destination);
	struct rtp *rtp = (void *)(udp + 1);
	/* The payload types 64 to 95 are RTCP's (RFC 5761 section 4). */
	if ((void *)(rtp + 1) > end || rtp->flags >> 6 != 2 || (rtp->marker_type & 0x60) == 0x40)
		return 0;
#pragma unroll
	for (int i = 0; i < MAX_FILTERS; i++) {
		const struct filter *filter = &filters[i];
		if (!filter->port)
			return 0;
		if (!matches(filter, &target, rtp))
			continue;
		video->filter = i;
		video->ssrc = HOST32(rtp->ssrc);
		video->timestamp = HOST32(rtp->timestamp);
		video->sequence = HOST16(rtp->sequence);
		video->marker = rtp->marker_type >> 7;
		video->kind = kind_of(rtp, end, filter->codec);
		return 1;
	}
	return 0;
}
