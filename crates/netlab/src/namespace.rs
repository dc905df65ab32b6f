//! Network namespaces (network_namespaces(7)) that leave nothing behind.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns, unshare};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

/// A network namespace: interfaces, addresses, routes and ports of its own, and no way out but those that are made.
///
/// [`Namespace::new`] gives one without a name. It is a file descriptor: the kernel removes it with the process,
/// whatever ends that (a panic, Ctrl-C, `SIGKILL`), unless sockets or processes still live in it.
/// [`Namespace::named`] gives one that `ip netns` lists, for looking into it from outside; it is removed when the value
/// is dropped, and otherwise by the next call with the same prefix (or [`Namespace::remove_stale`]), once the process is gone.
///
/// A socket belongs for ever to the namespace in which it was opened, on whatever thread it is used:
///
/// ```
/// # use taut_netlab::{Namespace, NamespaceError};
/// use std::net::UdpSocket;
/// let namespace = match Namespace::new() {
///     Err(NamespaceError::NotPermitted) => return Ok(()), // Needs root.
///     made => made?,
/// };
/// let socket = namespace.run(|| UdpSocket::bind("127.0.0.1:4433"))??;
/// # drop(socket);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Namespace {
    handle: File,
    name: Option<String>,
    /// To be removed with this value.
    mounted: Option<PathBuf>,
}

/// A namespace that could not be made, entered or set up.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// Only root may.
    #[error(
        "network namespaces need CAP_SYS_ADMIN and CAP_NET_ADMIN: run the same command by `sudo`, or in a shell that \
         `unshare --user --map-root-user --net --mount` has opened"
    )]
    NotPermitted,
    /// There is none of that name.
    #[error("there is no network namespace {0}; `ip netns add {0}` makes it, `ip netns` lists them")]
    Unknown(String),
    /// The program `ip` or `tc` is missing.
    #[error("a program is missing, `ip` or `tc`: install iproute2")]
    NoIproute2,
    /// `ip` or `tc` refused.
    #[error("`{program} {arguments}`: {message}")]
    Command {
        /// Which of them.
        program: &'static str,
        /// What was asked for.
        arguments: String,
        /// What it said.
        message: String,
    },
    /// The system refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl NamespaceError {
    /// No namespace can be had here whatever its name: rights or programs are missing. What can do without skips it.
    pub fn lacks_means(&self) -> bool {
        matches!(self, Self::NotPermitted | Self::NoIproute2)
    }

    pub(crate) fn refused(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            _ => Self::Refused { what, error },
        }
    }
}

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// Distinguishes the namespaces of one process.
static COUNT: AtomicU32 = AtomicU32::new(0);

impl Namespace {
    /// A new one without a name, its loopback interface up.
    ///
    /// # Errors
    /// [`NamespaceError::NotPermitted`] without root; [`NamespaceError::NoIproute2`].
    pub fn new() -> Result<Self, NamespaceError> {
        let handle = on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open(OWN)
        })?
        .map_err(NamespaceError::refused("making a network namespace"))?;
        let namespace = Self { handle, name: None, mounted: None };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// A new one that `ip netns` lists as `PREFIX-PID-START-NUMBER`: a number may become another process's, but not one that
    /// started at that tick. Removes those with this prefix whose processes are gone.
    ///
    /// # Errors
    /// As [`Namespace::new`]; when the name cannot be made.
    pub fn named(prefix: &str) -> Result<Self, NamespaceError> {
        Self::remove_stale(prefix);
        let mut namespace = Self::new()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", owned(prefix));
        let path = Path::new(NAMES).join(&name);
        let made = std::fs::create_dir_all(NAMES).and_then(|()| File::create_new(&path).map(drop));
        made.map_err(NamespaceError::refused("naming a network namespace"))?;
        // From here on the name is removed, whatever happens.
        namespace.mounted = Some(path.clone());
        let bound = namespace.run(|| mount_bind(OWN, &path).map_err(io::Error::from))?;
        bound.map_err(NamespaceError::refused("naming a network namespace"))?;
        namespace.name = Some(name);
        Ok(namespace)
    }

    /// The one that `ip netns` lists as `name`. It is not removed.
    ///
    /// # Errors
    /// [`NamespaceError::Unknown`]; when it cannot be opened.
    pub fn open(name: &str) -> Result<Self, NamespaceError> {
        let unknown = || NamespaceError::Unknown(name.to_owned());
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(unknown());
        }
        let handle = File::open(Path::new(NAMES).join(name)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unknown(),
            _ => NamespaceError::refused("opening a network namespace")(error),
        })?;
        Ok(Self { handle, name: Some(name.to_owned()), mounted: None })
    }

    /// The same one once more. It is there until both values are dropped; what it is called goes with the first.
    ///
    /// # Errors
    /// When the process may open no more descriptors.
    pub fn share(&self) -> Result<Self, NamespaceError> {
        let handle =
            self.handle.try_clone().map_err(NamespaceError::refused("another descriptor of a namespace"))?;
        Ok(Self { handle, name: None, mounted: None })
    }

    /// Its name, when it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Runs `inside` in it, on a thread that enters it and ends there; waits for it. Sockets that are opened and programs
    /// that are started inside belong to it.
    ///
    /// # Errors
    /// When it may not be entered.
    ///
    /// # Panics
    /// When `inside` panics.
    pub fn run<R: Send>(&self, inside: impl FnOnce() -> R + Send) -> Result<R, NamespaceError> {
        on_a_thread(|| {
            setns(&self.handle, CloneFlags::CLONE_NEWNET).map(|()| inside()).map_err(io::Error::from)
        })?
        .map_err(NamespaceError::refused("entering a network namespace"))
    }

    /// Runs `ip` in it with these arguments, which contain no quotes.
    ///
    /// # Errors
    /// When `ip` is missing or refuses.
    pub fn ip(&self, arguments: &str) -> Result<String, NamespaceError> {
        self.command("ip", arguments)
    }

    /// Runs `tc` in it with these arguments, which contain no quotes.
    ///
    /// # Errors
    /// When `tc` is missing or refuses.
    pub fn tc(&self, arguments: &str) -> Result<String, NamespaceError> {
        self.command("tc", arguments)
    }

    fn command(&self, program: &'static str, arguments: &str) -> Result<String, NamespaceError> {
        let run = || Command::new(program).args(arguments.split_whitespace()).output();
        let Output { status, stdout, stderr } = self.run(run)?.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NamespaceError::NoIproute2,
            _ => NamespaceError::refused("starting a program")(error),
        })?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(NamespaceError::Command { program, arguments: arguments.to_owned(), message })
    }

    /// Sets a value of IPv4 in it, by its name below `/proc/sys/net/ipv4`: `ip_forward`.
    ///
    /// # Errors
    /// When there is none of that name, or it may not be set.
    pub fn set_ipv4(&self, name: &str, value: &str) -> Result<(), NamespaceError> {
        let set = self.run(|| std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value))?;
        set.map_err(NamespaceError::refused("a setting of a network namespace"))
    }

    /// Devices that are made in it from now on take packets also from addresses that another device leads to, as a host with
    /// several paths to one address has to (`rp_filter`, RFC 3704).
    ///
    /// # Errors
    /// When it may not be set.
    pub fn accepts_from_everywhere(&self) -> Result<(), NamespaceError> {
        ["all", "default"].into_iter().try_for_each(|of| self.set_ipv4(&format!("conf/{of}/rp_filter"), "0"))
    }

    /// Joins two namespaces by a pair of Ethernet devices (veth(4)), each of which gets an address with its prefix length,
    /// such as `10.0.0.1/24`. It goes when either namespace goes.
    ///
    /// # Errors
    /// When `ip` is missing or refuses: names are at most 15 characters and unused in their namespaces.
    pub fn join(a: (&Self, &str, &str), b: (&Self, &str, &str)) -> Result<(), NamespaceError> {
        use std::os::fd::AsRawFd;
        let (pid, fd) = (std::process::id(), b.0.handle.as_raw_fd());
        let (name, peer) = (a.1, b.1);
        a.0.ip(&format!("link add {name} type veth peer name {peer} netns /proc/{pid}/fd/{fd}"))?;
        for (namespace, device, address) in [a, b] {
            namespace.ip(&format!("addr add {address} dev {device}"))?;
            namespace.ip(&format!("link set dev {device} up"))?;
        }
        Ok(())
    }

    /// Removes the names `PREFIX-PID-START-NUMBER` whose processes are gone: those that a `SIGKILL` left behind. Gives how many.
    pub fn remove_stale(prefix: &str) -> usize {
        let Ok(names) = std::fs::read_dir(NAMES) else { return 0 };
        let stale = names.flatten().filter(|entry| is_stale(&entry.file_name(), prefix));
        stale.filter(|entry| remove(&entry.path()).is_ok()).count()
    }
}

/// `PREFIX-PID-START` of this process.
pub(crate) fn owned(prefix: &str) -> String {
    let own = std::process::id();
    format!("{prefix}-{own}-{}", start_of(own).unwrap_or(0))
}

/// Is this a `PREFIX-PID-START-NUMBER` whose process is gone?
pub(crate) fn is_stale(name: &OsStr, prefix: &str) -> bool {
    let owner = name.to_str().and_then(|name| owner_of(name, prefix));
    owner.is_some_and(|(pid, start)| start_of(pid).is_none_or(|started| started != start))
}

/// The process that made what has this name, by its number and when it started.
fn owner_of(name: &str, prefix: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.parse::<u32>().ok()?;
    parts.next().is_none().then_some(owner)
}

/// When a process started, in ticks since the kernel did; `None` when there is none of that number.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain anything; field 22 of proc(5), the twentieth after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(path) = &self.mounted {
            let _ = remove(path); // The next call with this prefix tries again.
        }
    }
}

/// The calling thread's namespace.
const OWN: &str = "/proc/thread-self/ns/net";

fn remove(path: &Path) -> io::Result<()> {
    let unmounted = unmount(path, UnmountFlags::DETACH);
    std::fs::remove_file(path)?;
    Ok(unmounted?)
}

/// A thread that changes its namespace must not go on to do anything else.
fn on_a_thread<R: Send>(
    inside: impl FnOnce() -> io::Result<R> + Send,
) -> Result<io::Result<R>, NamespaceError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, inside);
        let thread = thread.map_err(NamespaceError::refused("starting a thread"))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// `None`, with the reason printed, where namespaces cannot be made.
    fn namespace(made: Result<Namespace, NamespaceError>) -> Option<Namespace> {
        match made {
            Ok(namespace) => Some(namespace),
            Err(error) if error.lacks_means() => {
                println!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_socket_stays_in_the_namespace_where_it_was_opened() {
        let (Some(a), Some(b)) = (namespace(Namespace::new()), namespace(Namespace::new())) else { return };
        let in_a = a.run(|| UdpSocket::bind("127.0.0.1:4433")).unwrap().unwrap();
        let in_b = b.run(|| UdpSocket::bind("127.0.0.1:4433")).unwrap().unwrap();
        in_b.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        in_a.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        in_a.send_to(b"to myself", "127.0.0.1:4433").unwrap();
        assert_eq!(in_a.recv(&mut [0; 20]).unwrap(), 9);
        assert!(in_b.recv(&mut [0; 20]).is_err(), "nothing crosses");
    }

    #[test]
    fn two_namespaces_can_be_joined() {
        let (Some(a), Some(b)) = (namespace(Namespace::new()), namespace(Namespace::new())) else { return };
        Namespace::join((&a, "to-b", "10.97.0.1/24"), (&b, "to-a", "10.97.0.2/24")).unwrap();
        let in_a = a.run(|| UdpSocket::bind("10.97.0.1:7")).unwrap().unwrap();
        let in_b = b.run(|| UdpSocket::bind("10.97.0.2:7")).unwrap().unwrap();
        in_b.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        in_a.send_to(b"hello", "10.97.0.2:7").unwrap();
        // A host that stops and continues its processes interrupts those that wait.
        let received = std::iter::repeat_with(|| in_b.recv(&mut [0; 20]))
            .find(|received| !matches!(received, Err(error) if error.kind() == io::ErrorKind::Interrupted));
        assert_eq!(received.unwrap().unwrap(), 5);
    }

    #[test]
    fn a_name_is_there_until_the_value_is_dropped_also_by_a_panic() {
        let Some(named) = namespace(Namespace::named("taut-test")) else { return };
        let name = named.name().unwrap().to_owned();
        let path = Path::new(NAMES).join(&name);
        assert!(path.exists());
        assert!(Namespace::open(&name).unwrap().run(|| UdpSocket::bind("127.0.0.1:7")).unwrap().is_ok());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _named = named;
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(panicked.is_err());
        assert!(!path.exists());
        assert!(matches!(Namespace::open(&name), Err(NamespaceError::Unknown(_))));
    }

    #[test]
    fn what_a_killed_process_left_is_removed_though_its_number_is_another_ones() {
        let Some(named) = namespace(Namespace::named("taut-alive")) else { return };
        let own = std::process::id();
        let earlier = start_of(own).unwrap() - 1;
        for (pid, start) in [(u32::MAX, 1), (own, earlier)] {
            let stale = Path::new(NAMES).join(format!("taut-stale-{pid}-{start}-0"));
            File::create_new(&stale).unwrap();
            Namespace::remove_stale("taut-stale");
            assert!(!stale.exists(), "{}", stale.display());
        }
        Namespace::remove_stale("taut-alive");
        assert!(Namespace::open(named.name().unwrap()).is_ok(), "its process is here");
    }

    #[test]
    fn names_of_others_are_nobodys() {
        assert_eq!(owner_of("taut-emulate-7-99-0", "taut-emulate"), Some((7, 99)));
        for name in
            ["taut-emulate", "taut-emulate-7-0", "taut-emulate-7-99-0-1", "taut-emulate-own-9-0", "x-7-99-0"]
        {
            assert_eq!(owner_of(name, "taut-emulate"), None, "{name}");
        }
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = Namespace::open("no-such-namespace").unwrap_err().to_string();
        assert!(error.contains("`ip netns add no-such-namespace`"), "{error}");
        assert!(NamespaceError::NotPermitted.to_string().contains("sudo"));
        let Some(namespace) = namespace(Namespace::new()) else { return };
        let error = namespace.ip("link set nothing up").unwrap_err().to_string();
        assert!(error.starts_with("`ip link set nothing up`: "), "{error}");
    }
}
