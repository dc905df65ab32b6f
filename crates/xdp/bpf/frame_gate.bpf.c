/* The frame gate as an XDP program. The twin of taut-link's frame_gate/{gate,stream,turns}.rs, which say what it does and
 * why: the two are compared packet by packet, so each change here is one there. */
#include "parse.h"

#define MAX_STREAMS 64
#define FRAMES 8 /* a power of two */
#define LONG_NS 8000000000ull
#define SECOND_NS 1000000000ull

/* What user space orders. */
struct room {
	u64 before;
	u64 with;
};
struct settings {
	u64 rate_limit;
	u64 by_deadline;
	u64 rate; /* bytes per second, at most 1e9; 0: not known */
	struct room rooms[3];
	struct filter filters[MAX_FILTERS];
};

/* A frame, by its timestamp. */
struct frame {
	u64 timestamp;
	u64 dropped;
	u64 kind;
	u64 bytes;
	u64 end; /* the sequence number of its last packet, plus one; 0: not seen */
};

/* What is remembered of a stream. All u64, so that user space reads it as words: Stream::to_words. */
struct stream {
	u64 dropping;
	u64 passed_packets;
	u64 passed_bytes;
	u64 dropped_packets;
	u64 dropped_bytes;
	u64 passed_frames;
	u64 dropped_frames;
	u64 begun;
	struct frame frames[FRAMES];
	u64 key_timestamp;
	u64 key_dropped;
	u64 key_highest;
	u64 key_missing;
	u64 predicted[3];
	u64 tag;
	u64 yielded;
};

/* Whose turn it is: Turns. */
struct turns {
	u64 virtual_time;
	u64 claimed;
	u64 key;
	u64 start;
	u64 class;
	u64 size;
	u64 claims;
};

/* Elements of `shared`: each is written by the gate and by user space. */
enum shared_index { BYTE_COUNT, UNTRACKED, SHARED_LEN };

/* What should be waiting: Level. User space corrects it. */
struct account {
	u64 level;
	u64 drained_at;
	u64 unused;
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct settings);
} settings SEC(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, SHARED_LEN);
	TYPE(key, u32);
	TYPE(value, u64);
} shared SEC(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct account);
} account SEC(".maps");

struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, MAX_STREAMS);
	TYPE(key, u64); /* filter << 32 | SSRC */
	TYPE(value, struct stream);
} streams SEC(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct turns);
} turns SEC(".maps");

/* Longer than a stack is. */
static const struct stream fresh_stream = {};

INLINE u64 *shared_at(u32 index)
{
	return bpf_map_lookup_elem(&shared, &index);
}

INLINE u64 key_of(const struct video *video)
{
	return (u64)video->filter << 32 | video->ssrc;
}

INLINE struct stream *stream_of(const struct video *video)
{
	u64 key = key_of(video);
	struct stream *stream = bpf_map_lookup_elem(&streams, &key);
	if (LIKELY(stream))
		return stream;
	bpf_map_update_elem(&streams, &key, &fresh_stream, BPF_NOEXIST);
	return bpf_map_lookup_elem(&streams, &key);
}

/* How far a sequence number is ahead of another one. */
INLINE int ahead_of(u16 sequence, u64 other)
{
	return (short)(u16)(sequence - (u16)other);
}

INLINE struct frame *frame_at(struct stream *stream, u64 begun)
{
	/* The verifier must see the bound where it is used. */
	OPAQUE(begun);
	return &stream->frames[begun & (FRAMES - 1)];
}

INLINE int holds_packet(const struct frame *frame, const struct video *video)
{
	if (frame->timestamp != video->timestamp)
		return 0;
	return !frame->end || ahead_of(video->sequence, frame->end - 1) <= 0;
}

/* The frame of this packet, if it is remembered: the newest, as a rule. */
INLINE struct frame *frame_of(struct stream *stream, const struct video *video)
{
	if (!stream->begun)
		return 0;
	struct frame *newest = frame_at(stream, stream->begun - 1);
	if (LIKELY(holds_packet(newest, video)))
		return newest;
#pragma unroll
	for (u64 place = 0; place < FRAMES; place++) {
		if (place >= stream->begun)
			break;
		if (holds_packet(&stream->frames[place], video))
			return frame_at(stream, place);
	}
	return 0;
}

/* A frame begins in the place of the oldest one. */
INLINE struct frame *begin(struct stream *stream, const struct video *video)
{
	struct frame *frame = frame_at(stream, stream->begun);
	stream->begun++;
	frame->timestamp = video->timestamp;
	frame->kind = video->kind;
	frame->bytes = 0;
	frame->end = 0;
	return frame;
}

INLINE void end(struct frame *frame, const struct video *video)
{
	if (!frame->end && video->marker)
		frame->end = (u64)video->sequence + 1;
}

INLINE int by_limit(const struct settings *orders, struct stream *stream, const struct video *video)
{
	u64 *count = shared_at(BYTE_COUNT);
	if (!count)
		return 0;
	int exceeds = *count + video->size > orders->rate_limit;
	struct frame *frame = frame_of(stream, video);
	if (!frame) {
		frame = begin(stream, video);
		frame->dropped = stream->dropping;
	}
	end(frame, video);
	if (frame->dropped) {
		if (!exceeds && video->marker)
			stream->dropping = 0;
		return 1;
	}
	if (exceeds && video->marker)
		stream->dropping = 1;
	__sync_fetch_and_add(count, video->size);
	return 0;
}

/* Takes off the level what was sent until now. */
INLINE void drain(const struct settings *orders, struct account *account)
{
	u64 now = bpf_ktime_get_ns(), then = account->drained_at;
	u64 elapsed = now > then ? now - then : 0;
	if (elapsed > LONG_NS)
		elapsed = LONG_NS;
	u64 sent = elapsed * orders->rate / SECOND_NS;
	if (sent > account->level) {
		account->unused += sent - account->level;
		account->level = 0;
	} else {
		account->level -= sent;
	}
	account->drained_at = now;
}

/* A copy of what is asked for, for an index is not known to the verifier. */
INLINE struct room room_of(const struct settings *orders, u64 kind)
{
	if (kind == KIND_DISPOSABLE)
		return orders->rooms[KIND_DISPOSABLE];
	return kind == KIND_DELTA ? orders->rooms[KIND_DELTA] : orders->rooms[KIND_KEY];
}

INLINE u64 *predicted_of(struct stream *stream, u64 kind)
{
	if (kind == KIND_DISPOSABLE)
		return &stream->predicted[KIND_DISPOSABLE];
	return kind == KIND_DELTA ? &stream->predicted[KIND_DELTA] : &stream->predicted[KIND_KEY];
}

INLINE int holds(struct room room, u64 level, u64 size)
{
	return level <= room.before && level + size <= room.with;
}

/* Is it the turn of another stream, whose frame would pass at this level? Each stands back once for each claim. */
INLINE int is_anothers(const struct settings *orders, struct turns *turn, struct stream *stream, u64 key, u64 start,
		       u64 level)
{
	if (!turn->claimed || turn->key == key || turn->start >= start)
		return 0;
	if (!holds(room_of(orders, turn->class), level, turn->size))
		return 0;
	if (stream->yielded == turn->claims) {
		turn->claimed = 0;
		return 0;
	}
	stream->yielded = turn->claims;
	return 1;
}

INLINE void file(struct turns *turn, u64 key, u64 start, u64 class, u64 size)
{
	if (turn->claimed && turn->key != key && start >= turn->start)
		return;
	turn->claimed = 1;
	turn->key = key;
	turn->start = start;
	turn->class = class;
	turn->size = size;
	turn->claims++;
}

/* Would the frame that begins with this packet come too late, or is it another stream's turn? */
INLINE int refuses(const struct settings *orders, struct stream *stream, const struct frame *frame,
		   const struct video *video, u64 level)
{
	u32 zero = 0;
	struct turns *turn = bpf_map_lookup_elem(&turns, &zero);
	if (!turn || !orders->rate)
		return 0;
	/* What of it has passed does not stand in its own way. */
	level -= level < frame->bytes ? level : frame->bytes;
	u64 size = frame->bytes + video->size, class = frame->kind;
	if (class == KIND_UNTOLD)
		return !holds(room_of(orders, KIND_KEY), level, size);
	u64 predicted = *predicted_of(stream, class);
	if (predicted > size)
		size = predicted;
	if (class == KIND_DELTA && (stream->key_dropped || stream->key_missing))
		class = KIND_DISPOSABLE;
	struct room room = room_of(orders, class);
	u64 start = turn->virtual_time > stream->tag ? turn->virtual_time : stream->tag, key = key_of(video);
	if (!holds(room, level, size)) {
		if (size <= room.with)
			file(turn, key, start, class, size);
		return 1;
	}
	if (frame->kind != KIND_KEY && is_anothers(orders, turn, stream, key, start, level))
		return 1;
	turn->virtual_time = start;
	stream->tag = start;
	if (turn->key == key)
		turn->claimed = 0;
	return 0;
}

/* Its kind is told: what such frames hold fades by an eighth. */
INLINE void begin_kind(struct stream *stream, const struct frame *frame, const struct video *video)
{
	if (frame->kind == KIND_UNTOLD)
		return;
	u64 *predicted = predicted_of(stream, frame->kind);
	*predicted -= *predicted / 8;
	if (frame->kind != KIND_KEY)
		return;
	stream->key_timestamp = frame->timestamp;
	stream->key_dropped = frame->dropped;
	stream->key_highest = video->sequence;
	stream->key_missing = 0;
}

/* What lies between a key frame without an end and the frame after it did not come. */
INLINE void end_key(struct stream *stream, const struct video *video)
{
	if (!stream->begun)
		return;
	struct frame *last = frame_at(stream, stream->begun - 1);
	if (last->kind != KIND_KEY || last->timestamp != stream->key_timestamp || last->end)
		return;
	int ahead = ahead_of(video->sequence, stream->key_highest);
	if (ahead <= 1)
		return;
	stream->key_missing += ahead - 1;
	stream->key_highest = (u16)(video->sequence - 1);
}

/* Counts the holes in a key frame. A packet that was overtaken fills one. */
INLINE void follow_key(struct stream *stream, const struct frame *frame, const struct video *video)
{
	if (frame->kind != KIND_KEY || frame->timestamp != stream->key_timestamp)
		return;
	int ahead = ahead_of(video->sequence, stream->key_highest);
	if (ahead > 0) {
		stream->key_missing += ahead - 1;
		stream->key_highest = video->sequence;
	} else if (ahead < 0 && stream->key_missing) {
		stream->key_missing--;
	}
}

INLINE int by_deadline(const struct settings *orders, struct stream *stream, const struct video *video)
{
	u32 zero = 0;
	struct account *waiting = bpf_map_lookup_elem(&account, &zero);
	if (!waiting)
		return 0;
	struct frame *frame = frame_of(stream, video);
	int judged = frame && !(frame->kind == KIND_UNTOLD && video->kind != KIND_UNTOLD);
	if (!frame) {
		end_key(stream, video);
		frame = begin(stream, video);
		frame->dropped = 0;
	}
	if (!judged) {
		frame->kind = video->kind;
		if (!frame->dropped) {
			drain(orders, waiting);
			frame->dropped = refuses(orders, stream, frame, video, waiting->level);
		}
		begin_kind(stream, frame, video);
	}
	follow_key(stream, frame, video);
	end(frame, video);
	frame->bytes += video->size;
	if (frame->kind != KIND_UNTOLD) {
		u64 *predicted = predicted_of(stream, frame->kind);
		if (frame->bytes > *predicted)
			*predicted = frame->bytes;
	}
	if (!frame->dropped) {
		__sync_fetch_and_add(&waiting->level, video->size);
		if (orders->rate)
			stream->tag += video->size;
	}
	return (int)frame->dropped;
}

INLINE int counted(struct stream *stream, const struct video *video, int dropped)
{
	if (dropped) {
		stream->dropped_packets++;
		stream->dropped_bytes += video->size;
		stream->dropped_frames += video->marker;
		return XDP_DROP;
	}
	stream->passed_packets++;
	stream->passed_bytes += video->size;
	stream->passed_frames += video->marker;
	return XDP_PASS;
}

INLINE int gate(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	u32 zero = 0;
	const struct settings *orders = bpf_map_lookup_elem(&settings, &zero);
	struct video video = {};
	if (!orders || !classify(data, end, orders->filters, &video))
		return XDP_PASS;
	struct stream *stream = stream_of(&video);
	if (!stream) {
		u64 *untracked = shared_at(UNTRACKED);
		if (untracked)
			__sync_fetch_and_add(untracked, 1);
		return XDP_PASS;
	}
	int dropped = orders->by_deadline ? by_deadline(orders, stream, &video) : by_limit(orders, stream, &video);
	return counted(stream, &video, dropped);
}

SEC("xdp")
int frame_gate(struct xdp_md *context)
{
	return gate(context);
}

/* For measuring: what a program costs that does nothing. */
SEC("xdp")
int empty(struct xdp_md *context)
{
	return XDP_PASS;
}

/* Makes the packet the first one of the next frame, if it is RTP in UDP in IPv4 without options. */
INLINE void advance(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct rtp *rtp = data + sizeof(struct ethernet) + sizeof(struct ipv4) + sizeof(struct udp);
	if ((void *)(rtp + 1) > end)
		return;
	rtp->sequence = HOST16((u16)(HOST16(rtp->sequence) + 1));
	rtp->timestamp = HOST32(HOST32(rtp->timestamp) + 1500);
}

/* For measuring: what the gate costs when every packet begins a frame, and what making it so costs. */
SEC("xdp")
int frame_gate_first(struct xdp_md *context)
{
	advance(context);
	return gate(context);
}

SEC("xdp")
int empty_first(struct xdp_md *context)
{
	advance(context);
	return XDP_PASS;
}

/* For measuring: the part of it that no program can make cheaper. */
SEC("xdp")
int clock(struct xdp_md *context)
{
	return bpf_ktime_get_ns() ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
