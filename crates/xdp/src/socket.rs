//! How other processes ask a gate: one line there, one line back, over an abstract socket (unix(7)). Its name belongs to the
//! network namespace, as the device's does, and goes with the process.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

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
    let user = socket_peercred(&stream).ok()?.uid;
    if !user.is_root() && user != geteuid() {
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

/// Answers. Whoever asked may be gone.
pub(crate) fn answer(mut stream: &UnixStream, status: &Status) {
    if let Ok(mut line) = serde_json::to_string(status) {
        line.push('\n');
        let _ = stream.write_all(line.as_bytes());
    }
}

/// Asks the gate of a device in the network namespace of the calling thread. After [`Request::Detach`] it is off when the
/// answer is there.
///
/// # Errors
/// [`GateError::NotAttached`] when there is none.
pub fn ask(device: &str, request: Request) -> Result<Status, GateError> {
    let address = SocketAddr::from_abstract_name(format!("{PREFIX}{device}"));
    let stream = address.and_then(|address| UnixStream::connect_addr(&address));
    let mut stream = stream.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => GateError::NotAttached(device.to_owned()),
        _ => failed("asking the gate")(error),
    })?;
    let asked = || {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request.line().as_bytes())?;
        let mut line = String::new();
        BufReader::new((&stream).take(LONGEST)).read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "only root and its owner may ask a gate",
            ));
        }
        serde_json::from_str(&line).map_err(io::Error::from)
    };
    let mut asked = asked;
    asked().map_err(failed("asking the gate"))
}

/// Devices in this network namespace whose gates answer, sorted.
///
/// # Errors
/// When the system's list of sockets cannot be read.
pub fn attached_devices() -> Result<Vec<String>, GateError> {
    let text = std::fs::read_to_string("/proc/thread-self/net/unix");
    let text = text.map_err(failed("/proc/thread-self/net/unix"))?;
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(7));
    let mut devices: Vec<String> =
        names.filter_map(|name| name.strip_prefix('@')?.strip_prefix(PREFIX)).map(str::to_owned).collect();
    devices.sort_unstable();
    devices.dedup();
    Ok(devices)
}
