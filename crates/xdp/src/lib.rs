//! The frame gate in the kernel: an XDP program at the device on which video enters a router, and the control loop that
//! reads the queue behind it.
//!
//! ```text
//! device → XDP: frame_gate.bpf.c → routing → qdisc: haptic first, then video → link
//!              ▲ maps                         │ drops, bytes, backlog (netlink)
//!              └──── Controller (taut-link) ◀─┘
//! ```
//!
//! What the gate does, and why, is told by [`taut_link::frame_gate`]: its [`Gate`](taut_link::frame_gate::Gate) is the same
//! state machine in Rust, against which the program here is tested packet by packet (`BPF_PROG_TEST_RUN`); its
//! [`Controller`](taut_link::frame_gate::Controller) is used as it is.
//!
//! | part | what it does | needs |
//! | --- | --- | --- |
//! | [`Program`] | the program in the kernel, with its maps; runs single packets for tests | `CAP_BPF`, `CAP_NET_ADMIN` |
//! | [`Watch`], [`QueueReader`] | the counters of a queue, by netlink (`RTM_GETQDISC`) | |
//! | [`AttachedGate`] | all of it at a device; answers [`ask`] with its [`Status`] | both, until it is attached ([`needed_capabilities`]) |
//!
//! # Nothing stays behind
//! The program hangs on a BPF link, which is a file descriptor of this process: whatever ends the process (an error, a panic,
//! Ctrl-C, `SIGKILL`) detaches it. Kernels that cannot do that (before 5.9) are refused. A gate whose control loop is gone
//! therefore never goes on dropping. The socket by which other processes ask is an abstract one, without a file.
//!
//! # Building
//! The program is compiled by clang when this crate is built. A taut that was built without clang says so when a gate is to be
//! attached.

mod attached;
mod classify;
mod doubts;
mod error;
mod maps;
mod netlink;
mod privileges;
mod program;
mod socket;
mod status;
mod watch;

pub use attached::{AttachedGate, GateConfig, Mode};
pub use classify::{MAX_FILTERS, VideoFilter};
pub use error::GateError;
pub use maps::Maps;
pub use netlink::{QdiscStats, ReplyError, parse_qdisc_reply};
pub use privileges::needed_capabilities;
pub use program::Program;
pub use socket::{Request, ask, attached_devices};
pub use status::{Status, StreamStatus};
pub use watch::{QueueReader, Watch, WatchError};
