/* What a BPF program needs of Linux' UAPI (linux/bpf.h, linux/if_ether.h, linux/in.h): so little that nothing but clang
 * is needed to build it. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* Nothing is known of the value from here on: keeps the compiler from what it would do with its knowledge. */
#define OPAQUE(value) asm volatile("" : "+r"(value))

/* The description of a map in BTF: numbers are the lengths of array types, types are pointed to. */
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, type) type *name

enum map_type { MAP_HASH = 1, MAP_ARRAY = 2 };
enum xdp_action { XDP_DROP = 1, XDP_PASS = 2 };
enum update_flag { BPF_ANY = 0, BPF_NOEXIST = 1 };

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

/* Helpers are called by their numbers (bpf-helpers(7)). */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOST16(x) __builtin_bswap16(x)
#define HOST32(x) __builtin_bswap32(x)
#define HOST64(x) __builtin_bswap64(x)
#else
#define HOST16(x) (x)
#define HOST32(x) (x)
#define HOST64(x) (x)
#endif
