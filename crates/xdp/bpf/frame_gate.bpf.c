/* The frame gate as an XDP program. The twin of taut-link's frame_gate/gate.rs, which says what it does and why: the two
 * are compared packet by packet, so each change here is one there. */
#include "parse.h"

#define MAX_STREAMS 64
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
	u64 timestamp;
	u64 has_previous;
	u64 previous_timestamp;
	u64 previous_dropped;
	u64 sequence;
	u64 marked;
	u64 kind;
	u64 frame_bytes;
	u64 key_lost;
	u64 predicted[3];
};

/* Elements of `shared`: each is written by the gate and by user space. */
enum shared_index { BYTE_COUNT, LEVEL, DRAINED_AT, UNUSED, UNTRACKED, SHARED_LEN };

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
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, MAX_STREAMS);
	TYPE(key, u32);
	TYPE(value, struct stream);
} streams SEC(".maps");

INLINE u64 *shared_at(u32 index)
{
	return bpf_map_lookup_elem(&shared, &index);
}

INLINE struct stream *stream_of(u32 ssrc)
{
	struct stream *stream = bpf_map_lookup_elem(&streams, &ssrc);
	if (LIKELY(stream))
		return stream;
	struct stream fresh = {.kind = KIND_DELTA};
	bpf_map_update_elem(&streams, &ssrc, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&streams, &ssrc);
}

INLINE int by_limit(const struct settings *orders, struct stream *stream, const struct video *video)
{
	u64 *count = shared_at(BYTE_COUNT);
	if (!count)
		return 0;
	int exceeds = *count + video->size > orders->rate_limit;
	if (stream->dropping) {
		if (!exceeds && video->marker)
			stream->dropping = 0;
		return 1;
	}
	if (exceeds && video->marker)
		stream->dropping = 1;
	__sync_fetch_and_add(count, video->size);
	return 0;
}

/* Would the frame that begins with this packet come too late? */
INLINE int refuses(const struct settings *orders, const struct stream *stream, const struct video *video, u64 *level)
{
	u64 *drained_at = shared_at(DRAINED_AT), *unused = shared_at(UNUSED);
	if (!drained_at || !unused)
		return 0;
	u64 now = bpf_ktime_get_ns(), then = *drained_at;
	u64 elapsed = now > then ? now - then : 0;
	if (elapsed > LONG_NS)
		elapsed = LONG_NS;
	u64 sent = elapsed * orders->rate / SECOND_NS;
	if (sent > *level) {
		*unused += sent - *level;
		*level = 0;
	} else {
		*level -= sent;
	}
	*drained_at = now;
	if (!orders->rate)
		return 0;
	const struct room *room = &orders->rooms[KIND_DISPOSABLE];
	u64 predicted = stream->predicted[KIND_DISPOSABLE];
	if (stream->kind == KIND_DELTA) {
		predicted = stream->predicted[KIND_DELTA];
		if (!stream->key_lost)
			room = &orders->rooms[KIND_DELTA];
	} else if (stream->kind == KIND_KEY) {
		predicted = stream->predicted[KIND_KEY];
		room = &orders->rooms[KIND_KEY];
	}
	u64 size = predicted > video->size ? predicted : video->size;
	return *level > room->before || *level + size > room->with;
}

INLINE u64 faded(u64 predicted, u64 bytes)
{
	predicted -= predicted / 8;
	return predicted > bytes ? predicted : bytes;
}

INLINE void begin(struct stream *stream, const struct video *video)
{
	if (stream->begun) {
		if (stream->kind == KIND_DISPOSABLE)
			stream->predicted[KIND_DISPOSABLE] = faded(stream->predicted[KIND_DISPOSABLE], stream->frame_bytes);
		else if (stream->kind == KIND_DELTA)
			stream->predicted[KIND_DELTA] = faded(stream->predicted[KIND_DELTA], stream->frame_bytes);
		else
			stream->predicted[KIND_KEY] = faded(stream->predicted[KIND_KEY], stream->frame_bytes);
		stream->has_previous = 1;
		stream->previous_timestamp = stream->timestamp;
		stream->previous_dropped = stream->dropping;
	}
	stream->begun = 1;
	stream->timestamp = video->timestamp;
	stream->kind = video->kind;
	stream->frame_bytes = 0;
	stream->marked = 0;
}

INLINE int by_deadline(const struct settings *orders, struct stream *stream, const struct video *video)
{
	u64 *level = shared_at(LEVEL);
	if (!level)
		return 0;
	int age = (int)(video->timestamp - (u32)stream->timestamp);
	if (stream->begun && age < 0) {
		int dropped = stream->has_previous && stream->previous_dropped &&
			      stream->previous_timestamp == video->timestamp;
		if (!dropped)
			__sync_fetch_and_add(level, video->size);
		return dropped;
	}
	int fresh = !stream->begun || age > 0;
	int gap = stream->begun && video->sequence != (u16)(stream->sequence + 1);
	if (gap && stream->kind == KIND_KEY && !(fresh && stream->marked))
		stream->key_lost = 1;
	if (fresh) {
		begin(stream, video);
		stream->dropping = refuses(orders, stream, video, level);
		if (stream->kind == KIND_KEY)
			stream->key_lost = stream->dropping;
	}
	stream->sequence = video->sequence;
	stream->marked |= video->marker;
	stream->frame_bytes += video->size;
	if (!stream->dropping)
		__sync_fetch_and_add(level, video->size);
	return (int)stream->dropping;
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

SEC("xdp")
int frame_gate(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	u32 zero = 0;
	const struct settings *orders = bpf_map_lookup_elem(&settings, &zero);
	struct video video = {};
	if (!orders || !classify(data, end, orders->filters, &video))
		return XDP_PASS;
	struct stream *stream = stream_of(video.ssrc);
	if (!stream) {
		u64 *untracked = shared_at(UNTRACKED);
		if (untracked)
			__sync_fetch_and_add(untracked, 1);
		return XDP_PASS;
	}
	int dropped = orders->by_deadline ? by_deadline(orders, stream, &video) : by_limit(orders, stream, &video);
	return counted(stream, &video, dropped);
}

/* For measuring: what a program costs that does nothing. */
SEC("xdp")
int empty(struct xdp_md *context)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
