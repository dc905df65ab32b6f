//! Round trips, in blocks, every way in turn.

use hdrhistogram::Histogram;
use taut_core::Duration;

use crate::blocks::{Blocks, Medians};
use crate::site::Site;
use crate::way::Way;
use crate::{Outcome, SIZE, agents, bare, driven};

/// When the next message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// When the last one is back.
    Closed,
    /// Every millisecond, when the last one is back.
    Open,
}

/// What a block is.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub(crate) period: Option<Duration>,
    pub(crate) spin: bool,
    pub(crate) rounds: u64,
    /// Of these, not counted.
    pub(crate) warm: u64,
}

impl Load {
    const fn course(self, spin: bool) -> Course {
        match self {
            Self::Closed => Course { period: None, spin, rounds: 1_500, warm: 300 },
            Self::Open => Course { period: Some(Duration::from_millis(1)), spin, rounds: 500, warm: 50 },
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed loop",
            Self::Open => "at 1 kHz",
        }
    }
}

/// Prints percentiles of the round trip, and the ratios to bare sockets.
pub(crate) fn measure(load: Load, ways: &[Way], blocks: u32) -> Outcome<()> {
    let ways: Vec<Way> = std::iter::once(Way::Bare).chain(ways.iter().copied()).collect();
    run(load, &Site::Loopback, &ways, blocks)?;
    match Site::veth() {
        Ok(site) => run(load, &site, &ways, blocks),
        Err(error) if error.lacks_means() => {
            println!("skipped: two namespaces: {error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Prints what session, agents and devices add to the round trip of their transport.
pub(crate) fn measure_agents(ways: &[Way], blocks: u32) -> Outcome<()> {
    agents(&Site::Loopback, ways, blocks)?;
    match Site::veth() {
        Ok(site) => agents(&site, ways, blocks),
        Err(error) if error.lacks_means() => {
            println!("skipped: two namespaces: {error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn agents(site: &Site, ways: &[Way], blocks: u32) -> Outcome<()> {
    for (waits, spin) in [("sleeping", false), ("spinning", true)] {
        let course = Load::Open.course(spin);
        println!(
            "\n{}, {}, {waits}: p50 of the round trip in µs, medians of {blocks} blocks",
            Load::Open.name(),
            site.name()
        );
        println!("{:24} {:>10} {:>10} {:>10}", "", "transport", "session", "more");
        for (way, kind) in ways.iter().filter_map(|way| Some((way, way.of_session()?))) {
            let (mut alone, mut sessions) = (Blocks::default(), Vec::new());
            for _ in 0..blocks {
                alone.add(&block(*way, site, course)?);
                sessions.push(agents::block(kind, site, course)?);
            }
            sessions.sort_unstable();
            let (alone, session) = (alone.all().p50 as f64 / 1e3, sessions[sessions.len() / 2] as f64 / 1e3);
            println!("{way:24} {alone:10.2} {session:10.2} {:10.2}", session - alone);
        }
    }
    Ok(())
}

fn run(load: Load, site: &Site, ways: &[Way], blocks: u32) -> Outcome<()> {
    for (waits, spin) in [("sleeping", false), ("spinning", true)] {
        let mut all: Vec<Blocks> = ways.iter().map(|_| Blocks::default()).collect();
        for _ in 0..blocks {
            for (way, blocks) in ways.iter().zip(&mut all) {
                blocks.add(&block(*way, site, load.course(spin))?);
            }
        }
        println!("\n{}, {SIZE} bytes, {}, {waits}: round trip in µs", load.name(), site.name());
        println!("{:24} {:^40}   {:^40}", "", format!("all {blocks} blocks"), "the quietest quarter");
        let head = "     p50      p90      p99  ×p50  ×p99";
        println!("{:24} {head:40}   {head:40}", "");
        let (bare, bare_quiet) = (all[0].all(), all[0].quietest());
        for (way, blocks) in ways.iter().zip(&all) {
            let (all, quiet) = (columns(blocks.all(), bare), columns(blocks.quietest(), bare_quiet));
            println!("{way:24} {all:40}   {quiet:40}");
        }
    }
    Ok(())
}

fn block(way: Way, site: &Site, course: Course) -> Outcome<Histogram<u64>> {
    match way {
        Way::Bare => bare::block(site, course),
        other => driven::block(other, site, course),
    }
}

fn columns(of: Medians, bare: Medians) -> String {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    format!(
        "{:8.2} {:8.2} {:8.2} {:5.2} {:5.2}",
        micros(of.p50),
        micros(of.p90),
        micros(of.p99),
        ratio(of.p50, bare.p50),
        ratio(of.p99, bare.p99)
    )
}
