//! What a process must still be allowed once its gate is there.

use aya::util::KernelVersion;
use rustix::thread::CapabilitySet;

/// The capabilities that an [`AttachedGate`](crate::AttachedGate) still needs; all others can be given up, on the thread that runs
/// it: programs, maps, link and sockets are file descriptors, with which a gate is steered, asked and taken off without any.
/// Before Linux 5.19 `CAP_BPF` is kept: there a map is only touched with it where `kernel.unprivileged_bpf_disabled` is set.
pub fn needed_capabilities() -> CapabilitySet {
    let fresh = KernelVersion::current().is_ok_and(|kernel| kernel >= KernelVersion::new(5, 19, 0));
    if fresh { CapabilitySet::empty() } else { CapabilitySet::BPF }
}
