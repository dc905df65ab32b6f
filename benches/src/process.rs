//! CPU time and memory of a process, as Linux counts them.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// What one process found out about itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// CPU time, user and system together, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// How many packets, or other things, it was for.
    pub(crate) count: u64,
    /// Of these, data packets through the bottleneck.
    pub(crate) data: u64,
    /// The largest resident memory so far, in bytes.
    pub(crate) memory: u64,
}

impl Measurement {
    /// Everything that this process has used so far went into `count` things.
    pub(crate) fn since_the_beginning(count: u64, data: u64) -> Result<Self, String> {
        Ok(Self { cpu_ns: cpu_ns()?, count, data, memory: peak_memory()? })
    }

    /// What `work` uses, which says how many things it did.
    pub(crate) fn of(work: impl FnOnce() -> u64) -> Result<Self, String> {
        let before = cpu_ns()?;
        let count = work();
        Ok(Self { cpu_ns: cpu_ns()? - before, count, data: 0, memory: peak_memory()? })
    }

    /// CPU time for each.
    pub(crate) fn ns_each(&self) -> f64 {
        self.cpu_ns as f64 / self.count.max(1) as f64
    }

    /// For [`in_a_child`].
    pub(crate) fn print(&self) -> Result<(), String> {
        println!("{}", serde_json::to_string(self).map_err(|e| e.to_string())?);
        Ok(())
    }
}

/// Runs this program again with other arguments and reads what it prints.
pub(crate) fn in_a_child(arguments: &[String]) -> Result<Measurement, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    let output =
        Command::new(program).args(arguments).output().map_err(|e| format!("cannot measure: {e}"))?;
    if !output.status.success() {
        return Err(format!("{}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{}: {e}", arguments.join(" ")))
}

/// proc(5), /proc/pid/schedstat: nanoseconds on a CPU. It is of the first thread: nothing that is measured has another.
fn cpu_ns() -> Result<u64, String> {
    let text = read("/proc/self/schedstat")?;
    let nanos = text.split_whitespace().next().and_then(|word| word.parse().ok());
    nanos.ok_or_else(|| "/proc/self/schedstat does not begin with a number".to_owned())
}

/// proc(5), /proc/pid/status: VmHWM, the largest resident set.
fn peak_memory() -> Result<u64, String> {
    let text = read("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix("kB")).and_then(|n| n.trim().parse::<u64>().ok());
    kibibytes.map(|n| n * 1024).ok_or_else(|| "/proc/self/status has no VmHWM".to_owned())
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}; CPU time is measured on Linux only"))
}
