//! The lab's scenarios over real sockets: the network in the middle is real, and so is the time.
//!
//! [`run`] takes the same [`Scenario`](taut_lab::scenario::Scenario) and seed as the simulator and gives the same
//! [`RunResult`](taut_report::result::RunResult). What is simulated there is real here:
//!
//! | | simulated | real |
//! | --- | --- | --- |
//! | hosts | nodes | two network namespaces, made and removed by the run |
//! | time | virtual | one monotonic clock for both ends, so that one-way latency is exact |
//! | session, transports, security | the state machines | the same ones, on sockets |
//! | TCP | a model | the kernel's |
//! | links | the link chain | the same chain in real time, or whatever stands [`Between`] |
//! | paths | links | a pair of devices for each, and what stands between those |
//! | Multipath TCP | a model | the kernel's |
//! | cross traffic | state machines | the same ones, on sockets of their own; TCP is the kernel's |
//! | hand, robot | models, stepped in virtual time | the same models, stepped in real time |
//!
//! What this cannot do, such as clocks that are set wrong, is refused with the key's name:
//! [`possible`] tells without running anything.
//!
//! What it is made of is of use by itself:
//!
//! | part | what it does | needs |
//! | --- | --- | --- |
//! | [`Namespace`] | network namespaces that never outlive the process | `CAP_SYS_ADMIN` |
//! | [`emulate`] | any [`Link`](taut_core::Link) between two namespaces, in real time | `CAP_NET_ADMIN` |
//! | [`Dumbbell`] | two hosts and two routers between them, for the kernel's own qdiscs | `CAP_SYS_ADMIN` |
//! | [`Guest`] | a kernel of one's own in virtual time, as a child process | what `make oracle` builds |

mod beginning;
mod between;
mod cross;
mod dumbbell;
pub mod emulate;
mod gate;
mod guest;
mod namespace;
mod netem;
mod possible;
mod runner;
mod window;

pub use between::Between;
pub use dumbbell::{Dumbbell, Toward};
pub use guest::{Guest, GuestError, Scratch};
pub use namespace::{Namespace, NamespaceError};
pub use possible::possible;
pub use runner::{Cancel, Options, run};

use taut_io::DriverError;
use taut_io::session::{EndpointError, OperateError, ServeError};
use taut_lab::run::RunError;

use emulate::EmulatorError;

/// Why a scenario could not be run over real sockets.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The scenario asks for what real sockets cannot do; names the key. Or a file that it names cannot be used.
    #[error(transparent)]
    Scenario(#[from] RunError),
    /// A namespace refused.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel lacks a queueing discipline of the scenario, or refuses its settings: another scenario may do.
    #[error(transparent)]
    Qdisc(NamespaceError),
    /// The emulator refused.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// A frame gate was refused.
    #[error(transparent)]
    Gate(#[from] taut_xdp::GateError),
    /// A port refused.
    #[error(transparent)]
    Port(#[from] taut_io::PortError),
    /// A socket refused.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A driver cannot go on.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The operator had no session, or lost it.
    #[error("the operator: {0}")]
    Operator(#[from] OperateError),
    /// The robot's end could not go on.
    #[error("the robot: {0}")]
    Robot(#[from] ServeError),
    /// A socket of cross traffic refused.
    #[error("{key}: {error}")]
    Cross {
        /// The key of what it was for.
        key: String,
        /// What was said.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Somebody asked for its end.
    #[error("interrupted")]
    Interrupted,
}
