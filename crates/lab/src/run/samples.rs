//! Every delivered sample as one row of a Parquet file.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use taut_core::{Address, NodeEvent, Time};
use taut_sim::Observer;

use crate::metrics::StreamKey;

const SCHEMA: &str = "message sample {
    required binary direction (STRING);
    required binary medium (STRING);
    required int64 sequence;
    required int64 created_ns;
    required int64 delivered_ns;
    required int64 bytes;
}";

/// Rows that are kept before they are written.
const GROUP: usize = 65_536;

/// Writes samples as they are delivered.
pub(super) struct Samples {
    writer: SerializedFileWriter<BufWriter<File>>,
    streams: Vec<StreamKey>,
    direction: Vec<ByteArray>,
    medium: Vec<ByteArray>,
    numbers: [Vec<i64>; 4],
    error: Option<ParquetError>,
}

impl Samples {
    pub(super) fn new(out: BufWriter<File>, streams: Vec<StreamKey>) -> Result<Self, ParquetError> {
        let properties = WriterProperties::builder().set_created_by("taut".to_owned()).build();
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        let (direction, medium, numbers) = Default::default();
        Ok(Self { writer, streams, direction, medium, numbers, error: None })
    }

    pub(super) fn finish(mut self) -> Result<(), ParquetError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.write_group()?;
        self.writer.close().map(|_| ())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.direction.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for texts in [&mut self.direction, &mut self.medium] {
            if let Some(mut column) = group.next_column()? {
                column.typed::<ByteArrayType>().write_batch(texts, None, None)?;
                column.close()?;
            }
            texts.clear();
        }
        for numbers in &mut self.numbers {
            if let Some(mut column) = group.next_column()? {
                column.typed::<Int64Type>().write_batch(numbers, None, None)?;
                column.close()?;
            }
            numbers.clear();
        }
        group.close().map(|_| ())
    }
}

impl Observer for Samples {
    fn node_event(&mut self, now: Time, node: Address, event: &NodeEvent) {
        let NodeEvent::Delivered(sample) = event else { return };
        let Some(stream) = self.streams.iter().find(|stream| stream.to == node) else { return };
        self.direction.push(stream.direction.name().into());
        self.medium.push(sample.medium.name().into());
        let row = [sample.sequence, sample.created.as_nanos(), now.as_nanos(), sample.size.get()];
        self.numbers.iter_mut().zip(row).for_each(|(column, value)| column.push(value as i64));
        if self.direction.len() == GROUP && self.error.is_none() {
            self.error = self.write_group().err();
        }
    }
}
