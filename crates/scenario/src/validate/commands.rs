//! A flow of commands: every setting in its range.

use std::collections::BTreeSet;

use taut_core::{Bytes, Duration};

use super::{BETWEEN, Checked, MOST_PATHS, check_transport, fault, vertex, within};
use crate::schema::*;

/// Commands of a run, each of which takes some 50 bytes of memory.
const MOST_COMMANDS: u64 = 10_000_000;

/// Whether it names two vertices, and every setting is in its range.
pub(super) fn check(commands: &Commands, duration: Duration, vertices: &BTreeSet<String>) -> Checked {
    vertex("commands.from", &commands.from, vertices)?;
    vertex("commands.to", &commands.to, vertices)?;
    if commands.from == commands.to {
        return fault("commands.to", format!("is `{}`, as `from` is: {BETWEEN}", commands.to));
    }
    within("commands.size".into(), commands.size, Bytes::new(16), Bytes::new(1200))?;
    within("commands.period".into(), commands.period, Duration::from_micros(100), Duration::from_secs(10))?;
    within(
        "commands.deadline".into(),
        commands.deadline,
        Duration::from_micros(100),
        Duration::from_secs(60),
    )?;
    within("commands.paths".into(), commands.paths, 1, MOST_PATHS)?;
    let count = duration / commands.period;
    if count > MOST_COMMANDS {
        let most = format!("what became of each is kept, and {MOST_COMMANDS} are kept at most");
        return fault(
            "commands.period",
            format!("makes {count} commands in {duration}; {most}: shorten the run"),
        );
    }
    let transport = match commands.transport {
        TransportSpec::Mpquic(mpquic) if commands.bare => {
            TransportSpec::Mpquic(MpquicSpec { stream: false, ..mpquic })
        }
        other => other,
    };
    check_transport("commands.transport", &transport, commands.paths)
}

pub(super) fn check_mpquic(key: &str, mpquic: &MpquicSpec) -> Checked {
    if mpquic.stream {
        return fault(format!("{key}.stream"), "is for commands without a session only: `bare = true`");
    }
    let (ms, minute) = (Duration::from_millis(1), Duration::from_secs(60));
    within(format!("{key}.path_idle_timeout"), mpquic.path_idle_timeout, ms * 20, minute)?;
    within(format!("{key}.keep_alive"), mpquic.keep_alive, ms * 5, minute)
}

pub(super) fn check_mtip(key: &str, mtip: &MtipSpec, paths: u8) -> Checked {
    match mtip.policy {
        MtipPolicy::Fixed(path) => within(format!("{key}.policy.fixed"), path, 0, paths - 1)?,
        MtipPolicy::Best(count) => within(format!("{key}.policy.best"), count, 1, MOST_PATHS)?,
        MtipPolicy::Deadline | MtipPolicy::All | MtipPolicy::Adaptive => {}
    }
    if let Some(deadline) = mtip.deadline {
        within(format!("{key}.deadline"), deadline, Duration::from_micros(100), Duration::from_secs(60))?;
    }
    within(format!("{key}.window"), mtip.window, 1, 1000)?;
    within(format!("{key}.copies"), mtip.copies, 1, MOST_PATHS)?;
    let (least, most) = (Duration::from_millis(1), Duration::from_secs(60));
    within(format!("{key}.probe_interval"), mtip.probe_interval, least, most)
}
