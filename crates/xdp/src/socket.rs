//! How other processes ask a gate: one line there, one line back, over an abstract socket (unix(7)). Its name belongs to the
//! network namespace, as the device's does, and goes with the process.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Uid, geteuid};

use super::{GateError, Status};

/// What to ask of an attached gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// How is it?
    Status,
    /// Off with it.
    Detach,
}

impl Request {
    const fn line(self) -> &'static str {
        match self {
            Self::Status => "status\n",
            Self::Detach => "detach\n",
        }
    }
}

const PREFIX: &str = "taut-gate/";
/// Longer than any answer.
const LONGEST: u64 = 1 << 20;

fn failed(what: &'static str) -> impl Fn(io::Error) -> GateError {
    move |error| GateError::Socket { what, error }
}

/// The socket by which the gate of a device is asked.
pub(crate) fn listen(device: &str) -> Result<UnixListener, GateError> {
    let address = SocketAddr::from_abstract_name(format!("{PREFIX}{device}"));
    let listener = address.and_then(|address| UnixListener::bind_addr(&address));
    let listener = listener.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => GateError::Attached(device.to_owned()),
        _ => failed("the gate's socket")(error),
    })?;
    listener.set_nonblocking(true).map_err(failed("the gate's socket"))?;
    Ok(listener)
}

/// The next question, if somebody asks who may: root, or the user whose gate it is. Whoever is slow is not waited for.
pub(crate) fn accept(listener: &UnixListener) -> Option<(Request, UnixStream)> {
    let (stream, _) = listener.accept().ok()?;
    if !is_trusted(socket_peercred(&stream).ok()?.uid) {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    let patience = Some(Duration::from_millis(50));
    stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience)).ok()?;
    let mut line = String::new();
    BufReader::new((&stream).take(16)).read_line(&mut line).ok()?;
    let request = [Request::Status, Request::Detach].into_iter().find(|known| known.line() == line)?;
    Some((request, stream))
}

/// Anybody can bind an abstract name: of either side only root and the same user are believed.
fn is_trusted(user: Uid) -> bool {
    user.is_root() || user == geteuid()
}

/// Answers. Whoever asked may be gone.
pub(crate) fn answer(mut stream: &UnixStream, status: &Status) {
    if let Ok(mut line) = serde_json::to_string(status) {
        line.push('\n');
        let _ = stream.write_all(line.as_bytes());
    }
}

/// So often a gate is asked that hangs up: it waits 50 ms for the question, and an asker that lost its CPU in between was too
/// late.
const ATTEMPTS: u32 = 5;

/// Asks the gate of a device in the network namespace of the calling thread. After [`Request::Detach`] it is off when the
/// answer is there.
///
/// # Errors
/// [`GateError::NotAttached`] when there is none, [`GateError::Stranger`] when another user has taken its name.
pub fn ask(device: &str, request: Request) -> Result<Status, GateError> {
    for _ in 1..ATTEMPTS {
        if let Some(status) = ask_once(device, request)? {
            return Ok(status);
        }
    }
    let why = "only root and its owner may ask a gate: run the same command by `sudo`";
    let refused = || failed("asking the gate")(io::Error::new(ErrorKind::PermissionDenied, why));
    ask_once(device, request)?.ok_or_else(refused)
}

/// `None`: it hung up, before or after the question, as it does on whom it does not trust.
fn ask_once(device: &str, request: Request) -> Result<Option<Status>, GateError> {
    let mut stream = connect(device).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => GateError::NotAttached(device.to_owned()),
        _ => failed("asking the gate")(error),
    })?;
    let user = socket_peercred(&stream).map_err(|error| failed("asking the gate")(error.into()))?.uid;
    if !is_trusted(user) {
        return Err(GateError::Stranger { device: device.to_owned(), user: user.as_raw() });
    }
    let mut asked = || {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut line = String::new();
        let answered = stream
            .write_all(request.line().as_bytes())
            .and_then(|()| BufReader::new((&stream).take(LONGEST)).read_line(&mut line));
        let hung_up = match &answered {
            Ok(_) => line.is_empty(),
            Err(error) => matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
        };
        if hung_up {
            return Ok(None);
        }
        answered?;
        serde_json::from_str(&line).map(Status::printable).map(Some).map_err(io::Error::from)
    };
    asked().map_err(failed("asking the gate"))
}

/// At once: whoever never accepts, with as many waiting as may, would hold up a caller for ever.
fn connect(device: &str) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new_abstract_name(format!("{PREFIX}{device}").as_bytes())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Devices in this network namespace whose gates answer, sorted.
///
/// # Errors
/// When the system's list of sockets cannot be read.
pub fn attached_devices() -> Result<Vec<String>, GateError> {
    let table = std::fs::read("/proc/thread-self/net/unix");
    Ok(devices_in(&table.map_err(failed("/proc/thread-self/net/unix"))?))
}

/// From the system's list, in which anybody may have put any bytes.
fn devices_in(table: &[u8]) -> Vec<String> {
    let lines = table.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    let names = lines
        .filter_map(|line| line.split_ascii_whitespace().nth(7)?.strip_prefix('@')?.strip_prefix(PREFIX));
    let mut devices: Vec<String> = names.filter(|name| may_name_a_device(name)).map(str::to_owned).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// Linux has more to say about it; here it must not disturb a terminal.
fn may_name_a_device(name: &str) -> bool {
    (1..16).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c.is_whitespace() || c == '/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env::{current_exe, var_os};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_list_of_sockets_with_anything_in_it_names_the_gates() {
        let head = b"Num       RefCount Protocol Flags    Type St Inode Path\n";
        let line = |path: &[u8]| [b"0: 2 0 10000 1 1 5 ", path, b"\n"].concat();
        let names: [&[u8]; 9] = [
            b"@taut-gate/eth1",
            b"@taut-gate/eth0",
            b"@taut-gate/eth1",
            b"@taut-gate/",
            b"@taut-gate/\x1b[2Jeth7",
            b"@taut-gate/\xff",
            b"@taut-gate/a-name-of-16-by",
            b"@taut-gate/a-name-of-16-byt",
            b"/run/taut-gate/eth9",
        ];
        let table = [head.to_vec(), names.map(line).concat()].concat();
        assert_eq!(devices_in(&table), ["a-name-of-16-by", "eth0", "eth1"]);
    }

    #[test]
    fn whoever_never_accepts_holds_up_nobody() {
        let device = format!("full-{}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(format!("{PREFIX}{device}").as_bytes()).unwrap();
        let listener =
            net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        net::bind(&listener, &address).unwrap();
        net::listen(&listener, 0).unwrap();
        let waiting: Vec<_> = (0..4).map(|_| connect(&device)).collect();
        assert!(waiting[0].is_ok() && waiting[3].is_err(), "{waiting:?}");
        let answer = ask(&device, Request::Status);
        assert!(matches!(&answer, Err(GateError::Socket { .. })), "{answer:?}");
    }

    /// Takes the place of a gate, as another user, until its standard input ends.
    fn strange_gate(device: &str) {
        let listener = listen(device).unwrap();
        println!("listening");
        let _ = io::stdin().read_line(&mut String::new());
        drop(listener);
    }

    #[test]
    fn what_another_user_says_is_not_believed() {
        const ROLE: &str = "TAUT_GATE_TEST_STRANGER";
        let device = format!("taut-{}", std::process::id());
        if let Some(device) = var_os(ROLE) {
            return strange_gate(&device.to_string_lossy());
        }
        if !geteuid().is_root() {
            println!("skipped: only root can be another user");
            return;
        }
        let test = ["--exact", "--nocapture", "socket::tests::what_another_user_says_is_not_believed"];
        let mut other = Command::new(current_exe().unwrap());
        other.args(test).env(ROLE, &device).uid(65_534).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = match other.spawn() {
            Ok(other) => other,
            Err(error) => return println!("skipped: another user cannot run this: {error}"),
        };
        let mut said = BufReader::new(other.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("listening")), "it does not listen");
        let answer = ask(&device, Request::Status);
        assert!(matches!(&answer, Err(GateError::Stranger { user: 65_534, .. })), "{answer:?}");
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
        let answer = ask(&device, Request::Status);
        assert!(matches!(&answer, Err(GateError::NotAttached(_))), "{answer:?}");
    }
}
