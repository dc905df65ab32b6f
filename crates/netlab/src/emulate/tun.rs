//! TUN devices: IP packets by read(2) and write(2).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::libc;
use rustix::fs::{OFlags, fcntl_setfl};

use super::{EmulatorError, Port};
use crate::Namespace;

/// One end of an emulated network: a network device inside a namespace whose other side is this file (tuntap, Linux
/// `Documentation/networking/tuntap.rst`). What the namespace sends is read here, what is written here the namespace
/// receives. It goes with this value.
///
/// The device has no offloads: packets are whole, at most 1500 B long, with all their checksums.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    address: IpAddr,
    /// The namespace's /proc/net/dev: open, it can be read from anywhere and without any right.
    counters: File,
}

/// Bytes of the longest packet, headers included.
const MTU: u16 = 1_500;
/// Packets that wait in the kernel for the emulator. What comes beyond that is dropped and counted as
/// [`DirectionStats::overrun`](super::DirectionStats::overrun).
const QUEUE: u32 = 10_000;

impl Tun {
    /// Makes the device `name`, 1 to 15 characters, with this address and prefix length, 0 to 32 bits for IPv4, 0 to 128 for IPv6, and takes
    /// it up.
    ///
    /// # Errors
    /// [`EmulatorError::NotPermitted`] without root, [`EmulatorError::NoTun`] where the kernel has no such devices; when
    /// the name is taken or the address is not one.
    pub fn new(
        namespace: &Namespace,
        name: &str,
        address: IpAddr,
        prefix: u8,
    ) -> Result<Self, EmulatorError> {
        let file = namespace.run(|| open(name))?.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => EmulatorError::NoTun,
            io::ErrorKind::PermissionDenied => EmulatorError::NotPermitted,
            _ => EmulatorError::Refused { what: "making a TUN device", error },
        })?;
        // Otherwise the kernel sends packets of its own: router solicitations, multicast reports.
        if address.is_ipv4() {
            let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
            // A kernel without IPv6 has no such file, and sends none.
            let _ = namespace.run(|| std::fs::write(path, "1"))?;
        }
        namespace.ip(&format!("addr add {address}/{prefix} dev {name}"))?;
        namespace.ip(&format!("link set {name} mtu {MTU} txqueuelen {QUEUE} up"))?;
        let counters = namespace.run(|| File::open("/proc/thread-self/net/dev"))?;
        let counters = counters
            .map_err(|error| EmulatorError::Refused { what: "opening a device's counters", error })?;
        Ok(Self { file, name: name.to_owned(), address, counters })
    }

    /// Its name in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

impl Port for Tun {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        self.file.write(packet).map(drop)
    }

    /// What the namespace sent and the device's queue dropped, from the column of /proc/net/dev.
    fn overruns(&self) -> u64 {
        let mut table = String::new();
        let read = (&self.counters).rewind().and_then(|()| (&self.counters).read_to_string(&mut table));
        read.ok().and_then(|_| transmit_drops(&table, &self.name)).unwrap_or(0)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The twelfth number after the name: dropped on transmission (proc(5)).
fn transmit_drops(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().nth(11)?.parse().ok()
}

fn open(name: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name has 1 to 15 characters"));
    }
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: TUNSETIFF reads an `ifreq` and writes the device's name into it; `request` is one, ends in a zero byte, and
    // lives until the call returns. No crate of this workspace wraps it.
    #[allow(unsafe_code)]
    let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    fcntl_setfl(&file, OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_the_twelfth_number() {
        let table = "Inter-|   Receive                         |  Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 \
                     8 9 10 11 12 13\n  t0:1 2 3 4 5 6 7 8 9 10 11 77 13 14 15 16\n";
        assert_eq!(transmit_drops(table, "t0"), Some(77));
        assert_eq!(transmit_drops(table, "t"), None);
    }
}
