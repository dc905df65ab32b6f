//! Signals by which the kernel would end or stop a process for what it reads or writes.

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
