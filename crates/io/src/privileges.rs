//! What a process may do, and what others may see of it, once everything that needs more is open.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

pub use rustix::thread::CapabilitySet;

/// Gives up the capabilities of the calling thread for good, but for those of `kept` that it has, and of the threads and programs
/// that it will start. Sockets and devices that are open stay usable: what is asked for at their opening is not asked for again.
///
/// Other threads keep theirs: call it before there are any, or on each. A user of root still owns root's files.
///
/// ```
/// use taut_io::{CapabilitySet, drop_privileges};
/// std::thread::spawn(|| drop_privileges(CapabilitySet::empty())).join().expect("no panic")?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Where a filter of system calls forbids even this.
pub fn drop_privileges(kept: CapabilitySet) -> io::Result<()> {
    let kept = capabilities(None)?.permitted & kept;
    // Otherwise another program of root would have them all again (capabilities(7)).
    set_no_new_privs(true)?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Starts a thread that gives up every capability after `first`, which may need one, and before `work`; this returns when it has.
/// Where a filter of system calls forbids to give them up, it goes on with them.
///
/// # Errors
/// When the system has no thread left.
pub fn spawn_unprivileged<R: Send + 'static>(
    name: &str,
    first: fn(),
    work: impl FnOnce() -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    let (has_begun, begun) = sync_channel::<()>(0);
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        first();
        let _ = drop_privileges(CapabilitySet::empty());
        drop(has_begun);
        work()
    })?;
    // Else whoever looks now sees the capabilities of a thread that has not run yet.
    let _ = begun.recv();
    Ok(thread)
}

/// Keeps the memory of this process from core dumps, also of those that are piped to a program (core(5)), and from other
/// processes of the same user (ptrace(2)): for whoever holds a secret.
///
/// # Errors
/// Where a filter of system calls forbids it.
pub fn hide_memory() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_does_not_come_back_and_what_is_kept_stays() {
        let on_a_thread = || {
            let had = capabilities(None).unwrap().permitted;
            drop_privileges(CapabilitySet::NET_RAW | CapabilitySet::NET_BIND_SERVICE).unwrap();
            drop_privileges(CapabilitySet::NET_RAW).unwrap();
            // Asked for once more, they are not had any more.
            drop_privileges(CapabilitySet::all()).unwrap();
            let has = capabilities(None).unwrap();
            assert_eq!(
                (has.effective, has.permitted),
                (had & CapabilitySet::NET_RAW, had & CapabilitySet::NET_RAW)
            );
            assert!(rustix::thread::no_new_privs().unwrap());
        };
        std::thread::spawn(on_a_thread).join().unwrap();
    }

    #[test]
    fn a_thread_that_needs_nothing_has_nothing_when_it_is_there() {
        let (end, ends) = sync_channel::<()>(0);
        let kept = move || {
            let _ = ends.recv();
            capabilities(None).unwrap().permitted
        };
        let thread = spawn_unprivileged("taut test", || (), kept).unwrap();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let mine = tasks.map(|task| task.unwrap().path()).find(|task| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "taut test")
        });
        let status = std::fs::read_to_string(mine.expect("it runs").join("status")).unwrap();
        drop(end);
        assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
        assert_eq!(thread.join().unwrap(), CapabilitySet::empty());
    }
}
