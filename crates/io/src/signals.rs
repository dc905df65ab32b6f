//! Signals by which a process would end, or be halted in the middle of motion.

use std::io;

use nix::libc;

/// Ignores the signals of signal(7) that a read or a write can bring, for this process: the call fails instead, with an
/// error that can be handled.
///
/// | signal | the kernel sends it | instead |
/// | --- | --- | --- |
/// | `SIGPIPE` | to whoever writes to a pipe that nobody reads | `EPIPE` |
/// | `SIGXFSZ` | to whoever writes beyond `RLIMIT_FSIZE` | `EFBIG` |
/// | `SIGTTIN` | to a background process that reads from its terminal, and stops it | `EIO` |
/// | `SIGTTOU` | to one that writes there, where `stty tostop` is set, and stops it | it writes |
///
/// # Errors
/// None is known: these signals may be ignored.
pub fn ignore_signals_of_io() -> io::Result<()> {
    for signal in [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: SIG_IGN is no code of ours that would run in a handler, and nothing else is touched. No crate of this
        // workspace wraps it safely.
        #[allow(unsafe_code)]
        let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
        if before == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// How a process is asked to end, also by whoever started it in the background, where a shell has it ignore the first.
const ASKED: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
/// The others whose default is an end or, as of Ctrl-Z, a halt. Not among them: those that cannot be caught (`SIGKILL`, `SIGSTOP`), and faults of the
/// processor, after which nothing of the process is to be relied on (`SIGSEGV`, `SIGILL`, `SIGFPE`).
const OTHERS: [i32; 16] = [
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGSTKFLT,
    libc::SIGTSTP,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSYS,
];

/// The signals before which a device is to be stopped, but for those that whoever started this process has it ignore, as nohup(1) does with `SIGHUP`. Of
/// the real-time ones those that the C library leaves to a program (signal(7)).
pub fn signals_that_end() -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    let others = OTHERS.into_iter().chain(real_time).filter(move |signal| !ignores(&status, *signal));
    ASKED.into_iter().chain(others)
}

/// Does a process with this `/proc/PID/status` ignore it (proc_pid_status(5))?
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_of_the_process() {
        let status = "SigBlk:\t0000000000000002\nSigIgn:\t8000000000001001\nSigCgt:\t0000000180000440\n";
        let ignored: Vec<i32> = (1..=64).filter(|signal| ignores(status, *signal)).collect();
        assert_eq!(ignored, [libc::SIGHUP, libc::SIGPIPE, 64]);
        assert!(!ignores("", libc::SIGHUP));
    }
}
