//! taut on a real machine: the only part of it that opens a socket or reads a clock.
//!
//! Everything else in taut is a state machine that is told the time. Here are those who tell it, and who carry its
//! datagrams:
//!
//! | part | what it does | needs |
//! | --- | --- | --- |
//! | [`Clock`] | the monotonic clock as [`Time`](taut_core::Time), and stamps of the wall clock | |
//! | [`Driver`] | one thread, many [`Machine`]s: waits for datagrams and deadlines, and calls the five verbs | |
//! | [`UdpPort`] | the UDP sockets of a machine: addresses as paths, ECN, DSCP, GSO, GRO, kernel receive stamps | |
//! | [`DccpPort`] | the same over raw IP, protocol 33 | `CAP_NET_RAW` |
//! | [`tcp::KernelTcp`] | the kernel's TCP as a [`Transport`](taut_core::Transport) that owns its socket | |
//! | [`device`] | what stops a robot's device when nobody tells it to go on | |
//! | [`session`] | the [agents](taut_agent) of both ends over any of the transports | |
//! | [`identity`] | the file of a secret: its owner's alone, whole or not there | |
//! | [`proxy`] | datagrams of applications that know nothing, over one session | |
//!
//! It needs Linux 5.11 or newer. No async runtime stands between a socket and a protocol: a turn of the driver is one `epoll_pwait2`, one `recvmmsg`,
//! the machine, one `sendto`.
//!
//! Two UDP transports on loopback, driven by one thread:
//!
//! ```
//! use std::net::UdpSocket;
//! use taut_core::{Duration, Event, Message};
//! use taut_io::{Driver, DriverConfig, Plain, UdpPort, UdpPortConfig};
//! use taut_transport::udp::{Udp, UdpConfig};
//!
//! let (operator, robot) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! let robot_address = robot.local_addr()?;
//! let mut driver = Driver::new(DriverConfig::new())?;
//! let port = UdpPort::new(operator, UdpPortConfig::new())?.to(robot_address);
//! let operator = driver.add(Plain::new(Udp::new(UdpConfig::new())), port)?;
//! let port = UdpPort::new(robot, UdpPortConfig::new())?;
//! let robot = driver.add(Plain::new(Udp::new(UdpConfig::new())), port)?;
//!
//! driver.command(operator, Message { data: b"pose".to_vec(), ..Message::default() });
//! let (mut got, end) = (None, driver.clock().now() + Duration::from_secs(1));
//! while got.is_none() && driver.clock().now() < end {
//!     driver.turn(end, &mut |id, event| {
//!         if let (true, Event::Received { data, .. }) = (id == robot, event) {
//!             got = Some(data);
//!         }
//!     })?;
//! }
//! assert_eq!(got.as_deref(), Some(&b"pose"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is measured where
//! A late wake-up is lateness of the host, not of the network. [`DriverStats`] counts it, and `benches/` holds a driver against bare sockets in the same run.

mod alarm;
mod clock;
mod connections;
pub mod device;
mod driver;
mod flush;
pub mod identity;
pub mod lines;
mod machine;
mod mailbox;
mod port;
mod privileges;
pub mod proxy;
#[cfg(feature = "qlog")]
mod qlog;
#[cfg(feature = "recording")]
pub mod recording;
pub mod session;
mod signals;
mod state_file;
pub mod tcp;
mod thread;
mod wakeup;

pub use alarm::Alarm;
pub use clock::{Clock, WallTime};
pub use connections::connections;
pub use driver::{Driver, DriverConfig, DriverError, DriverStats, MachineId};
pub use flush::flush;
pub use machine::{Machine, Plain};
pub use mailbox::{Mailbox, MailboxError, Running};
pub use port::{
    DccpPort, FloodChange, FloodNote, Port, PortError, PortStats, UdpPort, UdpPortConfig, kernel_drops,
};
pub use privileges::{CapabilitySet, drop_privileges, hide_memory, spawn_unprivileged};
#[cfg(feature = "qlog")]
pub use qlog::{QlogCounts, QlogFolder};
pub use signals::{ignore_signals_of_io, signals_that_end};
pub use state_file::{StateFile, StateFileError, StateWriter};
pub use thread::{Slice, ThreadOptions, Warning, fall_back, outrank, set_slice, stand_back};
