//! Recordings in and out: what devices and networks did, as files that people already have.
//!
//! | format | read as | written from |
//! | --- | --- | --- |
//! | CSV, first column `time_s`, `time_ms`, `time_us` or `time_ns` | [`Signals`], [`Packets`] or [`Opportunities`] | all |
//! | CSV, columns `start_time,stop_time` then `delay`, `jitter` (ns), `packet_loss` (%) | [`Impairments`] | [`Impairments`] |
//! | MCAP, JSON messages with numbers in them | [`Signals`] | all |
//! | MCAP, anything else | [`Packets`], a flow per topic | |
//! | pcap, pcapng | [`Packets`], a flow per five-tuple | |
//! | mahimahi | [`Opportunities`] | |
//!
//! Beside these, [`Ivf`] reads encoded video, [`datagrams`] finds what UDP carried in a capture, and [`write_pcap`] writes one.
//!
//! [`read`] looks at the content first and at the file's extension only when the content could be either. Times become
//! [`Time`](taut_core::Time) since the first row; the recorder's own clock at that row is kept beside them, so that
//! what is written carries the recorded times again. Values are `f64` and survive CSV and MCAP bit by bit. The same
//! recording is always written as the same bytes.
//!
//! Whatever the bytes are, reading ends with a [`Recording`] or a [`TraceError`] of one line that names the file, the
//! place and the problem; memory is bounded by [`Limits`].
//!
//! ```
//! use taut_core::Duration;
//! use taut_trace::{Data, read_bytes};
//!
//! let text = "time_s,leader_position_rad\n0.0000,0.5\n0.0005,0.75\n0.0010,1\n";
//! let recording = read_bytes("grasp.csv", text.as_bytes())?;
//! let Data::Signals(signals) = recording.data() else { panic!("a table of signals") };
//! let leader = signals.channel("leader_position").expect("its name, with or without the unit");
//! assert_eq!((leader.unit(), leader.values()), (Some("rad"), &[0.5, 0.75, 1.0][..]));
//!
//! let kilohertz = signals.resample(Duration::from_millis(1))?;
//! assert_eq!(kilohertz.len(), 2);
//!
//! let error = read_bytes("bad.csv", b"time_s,x\n0.004,1\n0.0035,2\n").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "bad.csv:3: time_s: 0.0035 is before 0.004 of the line before; times must not go back"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod csv;
mod datagrams;
mod error;
mod file;
mod info;
mod ivf;
mod mahimahi;
#[cfg(feature = "mcap")]
mod mcap;
#[cfg(not(feature = "mcap"))]
#[path = "mcap/absent.rs"]
mod mcap;
mod packets;
mod pcap;
mod playback;
mod recording;
mod session;
mod signals;

pub use csv::write_csv;
pub use datagrams::{CapturedDatagram, Datagram, datagrams, write_pcap};
pub use error::{Place, Problem, TraceError};
pub use file::{
    Limits, convert, info_of, read, read_bytes, read_bytes_within, read_columns, refuse_same, write,
    write_bytes,
};
pub use info::{ChannelInfo, FlowInfo, GapInfo, Info, IntervalInfo, PacketInfo, info};
pub use ivf::Ivf;
#[cfg(feature = "mcap")]
pub use mcap::write_mcap;
pub use packets::{FiveTuple, Flow, PacketRow, Packets};
pub use playback::{Impairment, Impairments, Opportunities};
pub use recording::{Data, Format, Recording};
pub use session::{RecordedState, SessionRecording, read_session};
pub use signals::{Channel, ResampleError, Row, Signals};
