//! `taut run --kernel`: the same command in a kernel of its own, in virtual time.

use std::fs;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use taut_core::Duration;
use taut_lab::job;
use taut_lab::scenario::{Scenario, Variant};
use taut_netlab::{Between, Guest, Scratch};
use taut_report::{Written, written_text};

use crate::host::{OnSignal, quoted};
use crate::real::can_run;
use crate::run::Arguments;
use crate::{Ended, print};

/// Of the host's time, for all runs together.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Where the guest writes what goes to the folder of `--out`.
const REPORT: &str = "/run/out/report";

pub(crate) fn run(arguments: &Arguments, variants: &[(Variant, Scenario)]) -> Ended {
    // The guest says which others it leaves out.
    let mut refused = variants.iter().map(|(_, scenario)| can_run(scenario, Between::Netem));
    if let (Some(Err(error)), true) = (refused.next(), refused.all(|one| one.is_err())) {
        return Err(error.within(&arguments.scenario).to_string());
    }
    let guest = Guest::find(None).map_err(|error| error.to_string())?;
    // The guest writes to it.
    let shared = Scratch::new(&std::env::temp_dir(), "taut-kernel").map_err(|error| error.to_string())?;
    let shared = shared.path();
    let (told, stop) = UnixStream::pair().map_err(|error| error.to_string())?;
    let _signals = OnSignal::new(move || drop(told.shutdown(Shutdown::Both)))?;
    guest.run_until(&script()?, shared, PATIENCE, stop.as_fd()).map_err(|error| error.to_string())?;
    let read = |name: &str| fs::read_to_string(shared.join(name)).unwrap_or_default();
    eprint!("{}", read("error"));
    let said = read("said");
    print(&match &arguments.out {
        Some(out) => said.replace(REPORT, &out.display().to_string()),
        None => said.lines().filter(|line| !line.contains(REPORT)).map(|line| format!("{line}\n")).collect(),
    })?;
    if let Some(out) = arguments.out.as_ref().filter(|_| shared.join("report").exists()) {
        let written = job::lay(&shared.join("report"), out).map_err(|error| error.to_string())?;
        if !arguments.json {
            // Where the report is has been said.
            print(&written_text(&Written { files: Vec::new(), ..written }))?;
        }
    }
    Ok(ExitCode::from(read("ended").trim().parse().unwrap_or(u8::MAX)))
}

/// This very command, but for where it runs. Nothing spins, which would stop the guest's clock; a thread under SCHED_FIFO is
/// woken up to the nanosecond, where others are within 50 µs (PR_SET_TIMERSLACK).
fn script() -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let own = std::env::current_exe().map_err(told)?;
    let here = std::env::current_dir().map_err(told)?;
    let mut words = vec![quoted(own)];
    let mut given = std::env::args_os().skip(1);
    while let Some(word) = given.next() {
        match word.to_str() {
            Some("--kernel") => {
                words.push(format!("--real --between netem --no-spin --fifo 1 --quiet --out {REPORT}"));
            }
            Some("--quiet" | "-q") => {}
            Some("--out") => drop(given.next()),
            Some(word) if word.starts_with("--out=") => {}
            _ => words.push(quoted(word)),
        }
    }
    let (words, here) = (words.join(" "), quoted(here));
    Ok(format!(
        "cd {here}\nstatus=0\n{words} > /run/out/said 2> \
         /run/out/error || status=$?\necho $status > /run/out/ended\n"
    ))
}
