//! What a process may still do once its gate is there.

use aya::util::KernelVersion;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use super::GateError;

/// Gives up the capabilities of the calling thread for good, and of what it will start: programs, maps, link and sockets are
/// file descriptors, with which a gate is steered, asked and taken off without any. Before Linux 5.19 `CAP_BPF` is kept: there a
/// map is only touched with it where `kernel.unprivileged_bpf_disabled` is set.
///
/// Other threads keep theirs: call it before there are any.
///
/// # Errors
/// [`GateError::Privileges`].
pub fn drop_privileges() -> Result<(), GateError> {
    let fresh = KernelVersion::current().is_ok_and(|kernel| kernel >= KernelVersion::new(5, 19, 0));
    let kept = if fresh { CapabilitySet::empty() } else { CapabilitySet::BPF };
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    // Otherwise another program of root would have them all again (capabilities(7)).
    set_no_new_privs(true).and_then(|()| set_capabilities(None, sets)).map_err(GateError::Privileges)
}
