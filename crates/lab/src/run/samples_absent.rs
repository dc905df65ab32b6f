//! In the place of samples as Parquet where that was not built.

use std::fs::File;
use std::io::BufWriter;

use taut_sim::Observer;

use crate::metrics::StreamKey;

/// There is none.
pub(super) enum Samples {}

impl Samples {
    pub(super) fn new(_: BufWriter<File>, _: Vec<StreamKey>) -> Result<Self, &'static str> {
        Err("this taut was built without Parquet (its feature `parquet`)")
    }

    pub(super) fn finish(self) -> Result<(), &'static str> {
        match self {}
    }
}

impl Observer for Samples {}
