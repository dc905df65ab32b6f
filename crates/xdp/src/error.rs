//! What can go wrong with a gate, each in one line that says what to do.

use std::io;

use aya::maps::MapError;
use aya::programs::ProgramError;

/// A gate that could not be attached, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// This taut has no program in it.
    #[error(
        "this taut was built without clang and has no frame gate in it: install clang, then build it again"
    )]
    NotBuilt,
    /// Only root may.
    #[error("a frame gate needs CAP_BPF and CAP_NET_ADMIN: run the same command by `sudo`")]
    NotPermitted,
    /// There is none of that name.
    #[error("there is no network device {0}; `ip link` lists them")]
    NoDevice(String),
    /// It was removed while the gate was attached.
    #[error("the network device {0} is gone, and the gate with it")]
    DeviceGone(String),
    /// Someone else's program is there.
    #[error(
        "{0} has an XDP program already; `ip link show {0}` names it, `ip link set {0} xdp off` removes it"
    )]
    Busy(String),
    /// Its driver has no XDP.
    #[error("the driver of {0} has no native XDP; --mode generic works with every driver")]
    NoNativeXdp(String),
    /// A kernel without BPF, or an old one.
    #[error("this kernel has no XDP that ends with its process (Linux 5.9 or newer, CONFIG_BPF_SYSCALL)")]
    NoXdp,
    /// More filters than the program has places.
    #[error("{0} video filters; a gate has 1 to 4")]
    Filters(usize),
    /// The kernel did not take the program.
    #[error("the kernel refused the frame gate: {0}")]
    Refused(String),
    /// A map could not be read or written.
    #[error("a map of the frame gate: {0}")]
    Map(#[from] MapError),
    /// The queue could not be read.
    #[error(transparent)]
    Watch(#[from] super::WatchError),
    /// A socket failed.
    #[error("{what}: {error}")]
    Socket {
        /// What for.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Another gate is there, attached by taut.
    #[error("{0} has a gate already; `taut gate detach {0}` takes it off")]
    Attached(String),
    /// Whoever answers for this device is not to be believed.
    #[error(
        "what answers for {device} belongs to user {user}, who is neither root nor you: it is no gate of yours"
    )]
    Stranger {
        /// The device.
        device: String,
        /// Their user ID.
        user: u32,
    },
    /// Nobody answers for this device.
    #[error("{0} has no gate in this network namespace")]
    NotAttached(String),
}

impl GateError {
    /// What the kernel meant when the program was loaded.
    pub(crate) fn loading(error: ProgramError) -> Self {
        match os_error(&error) {
            Some(EPERM | EACCES) if !error.to_string().contains("R0") => Self::NotPermitted,
            Some(ENOSYS) => Self::NoXdp,
            _ => Self::Refused(last_line(&error.to_string())),
        }
    }

    /// What the kernel meant when the program was to be attached to `device`.
    pub(crate) fn attaching(error: &ProgramError, device: &str, native: bool) -> Self {
        match os_error(error) {
            Some(EPERM | EACCES) => Self::NotPermitted,
            Some(EBUSY | EEXIST) => Self::Busy(device.to_owned()),
            Some(ENODEV) => Self::NoDevice(device.to_owned()),
            Some(EOPNOTSUPP | EINVAL) if native => Self::NoNativeXdp(device.to_owned()),
            Some(ENOSYS | EOPNOTSUPP | EINVAL) => Self::NoXdp,
            _ if native && matches!(error, ProgramError::XdpError(_)) => Self::NoNativeXdp(device.to_owned()),
            _ => Self::Refused(error.to_string()),
        }
    }
}

const EPERM: i32 = rustix::io::Errno::PERM.raw_os_error();
const EACCES: i32 = rustix::io::Errno::ACCESS.raw_os_error();
const EBUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();
const EEXIST: i32 = rustix::io::Errno::EXIST.raw_os_error();
const ENODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();
const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();
const ENOSYS: i32 = rustix::io::Errno::NOSYS.raw_os_error();
const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();

fn os_error(error: &ProgramError) -> Option<i32> {
    match error {
        ProgramError::LoadError { io_error, .. } => io_error.raw_os_error(),
        ProgramError::SyscallError(error) => error.io_error.raw_os_error(),
        ProgramError::IOError(error) => error.raw_os_error(),
        _ => None,
    }
}

/// The verifier talks at length; what it ends with is what matters.
fn last_line(text: &str) -> String {
    let statistics = ["verification time", "stack depth", "processed"];
    let told = |line: &&str| {
        !line.trim().is_empty() && !statistics.iter().any(|beginning| line.starts_with(beginning))
    };
    text.lines().rfind(told).unwrap_or(text).trim().to_owned()
}
