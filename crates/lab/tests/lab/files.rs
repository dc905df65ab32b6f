//! Files of a run, read back by other code than wrote them.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
use taut_core::Seed;
use taut_lab::job::single;
use taut_lab::run::{Extras, Output};

use crate::world::{medium, short};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn samples_read_back_as_they_were_delivered() {
    let folder = folder("samples");
    let chain = r#"{ server = { rate = "6Mbit" } }, { delay = "8ms" }, { loss = { bernoulli = "2%" } }"#;
    let scenario = short(chain, "", "haptic = {}\naudio = {}\nvideo = { source = \"vp8\" }");
    let extras = Extras { samples: true, ..Extras::default() };
    let (result, files) = single(&scenario, Seed::new(3), extras, Some(&folder), &mut |_| ()).unwrap();
    assert!(files.contains(&folder.join("samples.parquet")), "{files:?}");
    let reader = SerializedFileReader::new(File::open(folder.join("samples.parquet")).unwrap()).unwrap();
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let end = scenario.duration.as_nanos() as i64;
    for stream in ["forward haptic", "backward haptic", "backward audio", "backward video"] {
        let named =
            |row: &&Row| format!("{} {}", row.get_string(0).unwrap(), row.get_string(1).unwrap()) == stream;
        // Devices go on while the last samples that count are under way.
        let of: Vec<&Row> = rows.iter().filter(named).filter(|row| row.get_long(3).unwrap() < end).collect();
        let medium = medium(&result, stream);
        assert_eq!(of.len() as u64, medium.delivered, "{stream}");
        let delay = |row: &&Row| (row.get_long(4).unwrap() - row.get_long(3).unwrap()) as f64 / 1e6;
        let mean = of.iter().map(delay).sum::<f64>() / of.len() as f64;
        assert!((mean - medium.delay_ms.mean).abs() < 1e-6, "{stream}: {mean} {}", medium.delay_ms.mean);
        let mut sequences: Vec<i64> = of.iter().map(|row| row.get_long(2).unwrap()).collect();
        sequences.sort_unstable();
        sequences.dedup();
        assert_eq!(sequences.len(), of.len(), "{stream}: a sample is delivered once");
    }
}

#[test]
fn an_output_that_is_not_committed_leaves_nothing() {
    let folder = folder("uncommitted");
    let inner = folder.join("a/b");
    let mut output = Output::new(&inner).unwrap();
    output.write("one.txt", b"1").unwrap();
    output.write("figures/two.txt", b"2").unwrap();
    drop(output);
    assert!(!folder.exists());
}

#[test]
fn an_output_that_is_committed_replaces_what_was_there() {
    let folder = folder("committed");
    for text in ["older", "newer"] {
        let mut output = Output::new(&folder).unwrap();
        output.write("one.txt", text.as_bytes()).unwrap();
        if text == "newer" {
            assert_eq!(std::fs::read(folder.join("one.txt")).unwrap(), b"older");
        }
        assert_eq!(output.commit().unwrap(), [folder.join("one.txt")]);
    }
    assert_eq!(std::fs::read(folder.join("one.txt")).unwrap(), b"newer");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}
