//! Which flow a packet belongs to, as disciplines with flow queues see it.

use taut_core::{Address, PacketMeta, Protocol};

/// A hash of what tells flows apart: addresses, ports, protocol, and the flow of the simulation. `perturbation` keeps
/// anyone from choosing whom to collide with.
pub(super) fn flow_hash(meta: &PacketMeta, perturbation: u64) -> u32 {
    let addresses = u64::from(meta.source.0) << 16 | u64::from(meta.destination.0);
    let ports = u64::from(meta.source_port) << 16 | u64::from(meta.destination_port);
    let protocol = match meta.protocol {
        Protocol::Udp => 17,
        Protocol::Tcp => 6,
        Protocol::Dccp => 33,
    };
    let first = mix(perturbation ^ (addresses << 32 | ports));
    mix(first ^ (u64::from(meta.flow.0) << 8 | protocol)) as u32
}

/// A hash of one address.
pub(super) fn host_hash(address: Address, perturbation: u64) -> u32 {
    mix(perturbation ^ u64::from(address.0)) as u32
}

/// The finaliser of SplitMix64: every bit of the input changes half of the output.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What a packet takes of Linux's memory (`skb->truesize`), by which its queues count, when a socket of the same host sent it over
/// Ethernet: 31 bytes of room before it and behind it (`__ip_append_data`), up to a whole cache line; 320 bytes of bookkeeping behind
/// that (`skb_shared_info`); all of it in a buffer of a power of two; and 256 bytes of description (`sk_buff`).
pub(super) fn memory_of(meta: &PacketMeta) -> u64 {
    ((meta.size.get() + 31).next_multiple_of(64) + 320).next_power_of_two() + 256
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Bytes;

    /// `memory_used` of CAKE in Linux 6.1 after one UDP packet of each size: `oracle/kernel/boot` with a load of one packet.
    #[test]
    fn a_packet_takes_the_memory_that_linux_counts_for_it() {
        let memory = |size| memory_of(&PacketMeta { size: Bytes::new(size), ..PacketMeta::default() });
        for (size, linux) in [(44, 768), (161, 768), (162, 1_280), (673, 1_280), (674, 2_304), (1_500, 2_304)]
        {
            assert_eq!(memory(size), linux, "{size} bytes");
        }
    }
}
