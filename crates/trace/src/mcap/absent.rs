//! What is left of MCAP where it was not built: its files are known, and said to be too much.

use std::io::{Read, Seek};

use crate::error::{Fault, Problem};
use crate::file::Wanted;
use crate::signals::RowSink;
use crate::{Data, Limits, Recording, SessionRecording};

/// What every file begins with (<https://mcap.dev/spec>).
pub(crate) const MAGIC: &[u8] = b"\x89MCAP0\r\n";

fn absent() -> Problem {
    Problem::Malformed("this taut was built without MCAP (its feature `mcap`)".to_owned())
}

pub(crate) fn read(
    _: &mut (impl Read + Seek),
    _: &Limits,
    _: Wanted<'_>,
    _: &mut dyn RowSink,
) -> Result<(Option<Data>, Vec<String>), Fault> {
    Err(Fault::file(absent()))
}

pub(crate) fn read_session(_: &mut impl Read, _: &Limits) -> Result<SessionRecording, Fault> {
    Err(Fault::file(absent()))
}

pub(crate) fn write(_: &Recording) -> Result<Vec<u8>, Problem> {
    Err(absent())
}
