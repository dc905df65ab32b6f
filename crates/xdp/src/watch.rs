//! Which queue the control loop reads, and how.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::str::FromStr;

use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with, sockopt,
};
use taut_link::frame_gate::QueueReading;

use super::netlink::{QdiscStats, ReplyError, parse_qdisc_reply, qdisc_request};

/// A queueing discipline of a device: `qdisc:eth0` is its root, `qdisc:eth0/1:2` the one at the class 1:2, `qdisc:eth0/30:`
/// the one with the handle 30: (hexadecimal, as in tc(8)).
///
/// ```
/// use taut_xdp::Watch;
/// let video: Watch = "qdisc:eth0/1:2".parse()?;
/// assert_eq!(video.to_string(), "qdisc:eth0/1:2");
/// # Ok::<(), taut_xdp::WatchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    device: String,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Root,
    Class(u16, u16),
    Handle(u16),
}

/// A queue that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Not the name of a queue.
    #[error(
        "`{0}` names no queue: qdisc:DEVICE is its root, qdisc:DEVICE/1:2 that of a class, qdisc:DEVICE/30: that handle"
    )]
    Name(String),
    /// There is no such device.
    #[error("there is no network device {0}; `ip link` lists them")]
    NoDevice(String),
    /// There is no such queue.
    #[error("there is no {0}; `tc qdisc` lists them")]
    NoQueue(Watch),
    /// The device hands packets on at once.
    #[error("{0} is `noqueue`, which never drops: put a queue there, such as `tc qdisc add dev {device} root pfifo`", device = .0.device)]
    NeverQueues(Watch),
    /// The system refused.
    #[error("reading {watch}: {error}")]
    Io {
        /// Which.
        watch: Watch,
        /// What it said.
        error: io::Error,
    },
}

impl Watch {
    /// The root queue of a device.
    pub fn root(device: &str) -> Self {
        Self { device: device.to_owned(), place: Place::Root }
    }

    fn parent_and_handle(&self) -> (u32, u32) {
        match self.place {
            Place::Root => (u32::MAX, 0),
            Place::Class(major, minor) => (u32::from(major) << 16 | u32::from(minor), 0),
            Place::Handle(major) => (0, u32::from(major) << 16),
        }
    }
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Root => write!(f, "qdisc:{}", self.device),
            Place::Class(major, minor) => write!(f, "qdisc:{}/{major:x}:{minor:x}", self.device),
            Place::Handle(major) => write!(f, "qdisc:{}/{major:x}:", self.device),
        }
    }
}

impl FromStr for Watch {
    type Err = WatchError;

    fn from_str(text: &str) -> Result<Self, WatchError> {
        parse(text).ok_or_else(|| WatchError::Name(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Watch> {
    let rest = text.strip_prefix("qdisc:")?;
    let (device, place) = match rest.split_once('/') {
        None => (rest, Place::Root),
        Some((device, id)) => {
            let (major, minor) = id.split_once(':')?;
            let hexadecimal = |digits| u16::from_str_radix(digits, 16).ok();
            let place = match minor {
                "" => Place::Handle(hexadecimal(major)?),
                minor => Place::Class(hexadecimal(major)?, hexadecimal(minor)?),
            };
            (device, place)
        }
    };
    let named = !device.is_empty() && device.len() < 16 && !device.contains(char::is_whitespace);
    named.then(|| Watch { device: device.to_owned(), place })
}

/// Reads the counters of a queue, over and over.
#[derive(Debug)]
pub struct QueueReader {
    watch: Watch,
    socket: OwnedFd,
    request: Vec<u8>,
    /// Drops and packets have 32 bits and are counted on; bytes tell when a new queue took the place of this one.
    last: Option<QdiscStats>,
    drops: u64,
    packets: u64,
    /// What the queue counts of a packet beyond IP.
    header: u64,
}

/// What Ethernet adds to a packet: the queue counts it, unless the root of its device is told otherwise (tc-stab(8)); the gate does
/// not.
const ETHERNET_HEADER: i32 = 14;

impl QueueReader {
    /// Finds the queue, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(watch: Watch) -> Result<Self, WatchError> {
        let refused = |errno: rustix::io::Errno| WatchError::Io { watch: watch.clone(), error: errno.into() };
        let kind = SocketType::RAW;
        // Protocol 0 is NETLINK_ROUTE.
        let socket =
            socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, None).map_err(refused)?;
        let patience = Some(std::time::Duration::from_secs(1));
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, patience).map_err(refused)?;
        let index =
            name_to_index(&socket, &watch.device).map_err(|_| WatchError::NoDevice(watch.device.clone()))?;
        let (parent, handle) = watch.parent_and_handle();
        let root = qdisc_request(index, u32::MAX, 0);
        let mut reader = Self { watch, socket, request: root, last: None, drops: 0, packets: 0, header: 0 };
        let overhead = reader.stats()?.overhead;
        reader.header = ETHERNET_HEADER.saturating_add(overhead).max(0) as u64;
        reader.request = qdisc_request(index, parent, handle);
        reader.read()?;
        Ok(reader)
    }

    /// What the queue has done since the reader was made (drops), and ever (bytes).
    ///
    /// # Errors
    /// When the queue or its device is gone.
    pub fn read(&mut self) -> Result<QueueReading, WatchError> {
        let stats = self.stats()?;
        if stats.kind == "noqueue" {
            return Err(WatchError::NeverQueues(self.watch.clone()));
        }
        match &self.last {
            Some(last) if last.bytes <= stats.bytes => {
                self.drops += u64::from(stats.drops.wrapping_sub(last.drops));
                self.packets += u64::from(stats.packets.wrapping_sub(last.packets));
            }
            _ => self.packets = u64::from(stats.packets),
        }
        let headers = self.header * self.packets;
        let waiting_headers = self.header * u64::from(stats.queue_length);
        let reading = QueueReading {
            drops: self.drops,
            sent: stats.bytes.saturating_sub(headers),
            backlog: u64::from(stats.backlog).saturating_sub(waiting_headers),
        };
        self.last = Some(stats);
        Ok(reading)
    }

    /// The kernel's answer to the request.
    fn stats(&self) -> Result<QdiscStats, WatchError> {
        let refused =
            |errno: rustix::io::Errno| WatchError::Io { watch: self.watch.clone(), error: errno.into() };
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &self.request, SendFlags::empty(), &kernel).map_err(refused)?;
        let mut reply = [0; 8192];
        let (length, _) = recv(&self.socket, &mut reply[..], RecvFlags::empty()).map_err(refused)?;
        parse_qdisc_reply(&reply[..length]).map_err(|error| match error {
            ReplyError::Refused(NO_DEVICE) => WatchError::NoDevice(self.watch.device.clone()),
            ReplyError::Refused(_) => WatchError::NoQueue(self.watch.clone()),
            ReplyError::Malformed => {
                WatchError::Io { watch: self.watch.clone(), error: io::ErrorKind::InvalidData.into() }
            }
        })
    }

    /// Which one.
    pub const fn watch(&self) -> &Watch {
        &self.watch
    }
}

const NO_DEVICE: i32 = rustix::io::Errno::NODEV.raw_os_error();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_named_as_tc_names_them() {
        for text in ["qdisc:eth0", "qdisc:eth0.7/1:2", "qdisc:eth0/8001:", "qdisc:eth0/a:ff"] {
            assert_eq!(text.parse::<Watch>().unwrap().to_string(), text);
        }
        assert_eq!("qdisc:eth0/1:a".parse::<Watch>().unwrap().parent_and_handle(), (0x1_000a, 0));
        assert_eq!("qdisc:eth0/30:".parse::<Watch>().unwrap().parent_and_handle(), (0, 0x30_0000));
        for text in
            ["eth0", "qdisc:", "qdisc:/1:", "qdisc:eth0/1", "qdisc:eth0/x:", "qdisc:a b", "qdisc:eth0/1:2:3"]
        {
            assert!(text.parse::<Watch>().unwrap_err().to_string().contains("names no queue"), "{text}");
        }
    }
}
