//! The program in the kernel.

use std::time::Duration;

use aya::programs::links::FdLink;
use aya::programs::{ProgramError, TestRun, Xdp, XdpMode};
use aya::util::KernelVersion;
use aya::{Ebpf, TestRunOptions};
use rustix::process::{Resource, Rlimit, setrlimit};
use taut_link::frame_gate::Verdict;

use super::classify::{MAX_FILTERS, VideoFilter};
use super::{GateError, Maps};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/frame_gate.bpf.o"));

const XDP_DROP: u32 = 1;

/// The gate's program, loaded into the kernel and not attached to anything. It is unloaded when it is dropped.
pub struct Program {
    bpf: Ebpf,
    maps: Maps,
}

impl Program {
    /// Was this taut built with the program in it?
    pub const fn is_built() -> bool {
        !OBJECT.is_empty()
    }

    /// Loads the program, with a gate that lets everything pass.
    ///
    /// # Errors
    /// [`GateError::NotBuilt`], [`GateError::NotPermitted`], [`GateError::NoXdp`], [`GateError::Filters`].
    pub fn load(filters: &[VideoFilter]) -> Result<Self, GateError> {
        if !Self::is_built() {
            return Err(GateError::NotBuilt);
        }
        if filters.is_empty() || filters.len() > MAX_FILTERS {
            return Err(GateError::Filters(filters.len()));
        }
        // Before Linux 5.11 maps counted as locked memory. Where this is refused, loading will say why it fails.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
        let mut bpf = Ebpf::load(OBJECT).map_err(|error| match &error {
            aya::EbpfError::MapError(aya::maps::MapError::CreateError { io_error, .. }) => {
                match io_error.kind() {
                    std::io::ErrorKind::PermissionDenied => GateError::NotPermitted,
                    std::io::ErrorKind::Unsupported => GateError::NoXdp,
                    _ => GateError::Refused(error.to_string()),
                }
            }
            _ => GateError::Refused(error.to_string()),
        })?;
        xdp_mut(&mut bpf, "frame_gate").load().map_err(GateError::loading)?;
        let maps = Maps::new(&mut bpf, filters)?;
        Ok(Self { bpf, maps })
    }

    /// What it shares with user space.
    pub const fn maps(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// What becomes of one Ethernet frame, of at least 14 bytes (`BPF_PROG_TEST_RUN`): the program runs once, for real,
    /// with its maps.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn verdict(&self, frame: &[u8]) -> Result<Verdict, GateError> {
        let (action, _) = self.run("frame_gate", frame, 1)?;
        Ok(if action == XDP_DROP { Verdict::Drop } else { Verdict::Pass })
    }

    /// How long one Ethernet frame takes, in the mean of so many runs: through the gate, and through a program that does
    /// nothing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn time(&mut self, frame: &[u8], runs: u32) -> Result<[Duration; 2], GateError> {
        self.times(["frame_gate", "empty"], frame, runs)
    }

    /// As [`Program::time`], of a packet that each time begins another frame: timestamp and sequence number move on, for which
    /// it must be IPv4 without options or tags.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn time_of_first(&mut self, frame: &[u8], runs: u32) -> Result<[Duration; 2], GateError> {
        self.times(["frame_gate_first", "empty_first"], frame, runs)
    }

    /// As [`Program::time`], of a program that does nothing but read the clock.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn time_of_clock(&mut self, frame: &[u8], runs: u32) -> Result<[Duration; 2], GateError> {
        self.times(["clock", "empty"], frame, runs)
    }

    fn times(&mut self, names: [&str; 2], frame: &[u8], runs: u32) -> Result<[Duration; 2], GateError> {
        let mut taken = [Duration::ZERO; 2];
        for (name, taken) in names.into_iter().zip(&mut taken) {
            let program = xdp_mut(&mut self.bpf, name);
            if program.fd().is_err() {
                program.load().map_err(GateError::loading)?;
            }
            *taken = self.run(name, frame, runs)?.1;
        }
        Ok(taken)
    }

    fn run(&self, name: &str, frame: &[u8], repeat: u32) -> Result<(u32, Duration), GateError> {
        let program = self.bpf.program(name).expect("it has been loaded");
        let program: &Xdp = program.try_into().expect("it is an XDP program");
        let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::default() };
        let result = program.test_run(options).map_err(GateError::loading)?;
        Ok((result.return_value, result.duration))
    }

    /// Attaches it to a device, until the link is dropped or the process ends.
    pub(crate) fn attach(&mut self, device: &str, index: u32, native: bool) -> Result<FdLink, GateError> {
        // aya would attach it by netlink, without a link of its own: there it would outlive the process.
        if !KernelVersion::current().is_ok_and(has_xdp_links) {
            return Err(GateError::NoXdp);
        }
        let mode = if native { XdpMode::Driver } else { XdpMode::Skb };
        let program = xdp_mut(&mut self.bpf, "frame_gate");
        let refused = |error: &ProgramError| GateError::attaching(error, device, native);
        let id = program.attach_to_if_index(index, mode).map_err(|error| refused(&error))?;
        let link = program.take_link(id).map_err(|error| refused(&error))?;
        FdLink::try_from(link).map_err(|_| GateError::NoXdp)
    }
}

/// From Linux 5.9 a program can be attached by a link, a file descriptor whose end detaches it.
fn has_xdp_links(kernel: KernelVersion) -> bool {
    kernel >= KernelVersion::new(5, 9, 0)
}

fn xdp_mut<'a>(bpf: &'a mut Ebpf, name: &str) -> &'a mut Xdp {
    let program = bpf.program_mut(name).expect("the object has this program");
    program.try_into().expect("it is an XDP program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_whose_programs_outlive_their_process_is_refused() {
        let of = |major, minor, patch| has_xdp_links(KernelVersion::new(major, minor, patch));
        assert!(!of(4, 19, 300) && !of(5, 8, 18));
        assert!(of(5, 9, 0) && of(5, 10, 0) && of(6, 1, 0));
    }
}
