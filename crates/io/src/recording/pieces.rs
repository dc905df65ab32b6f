//! The files of one recording: the one that is written, and those before it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::repair::{lock, repair_and_keep};

/// Files before the one that is written, at most.
const MOST: usize = 1_000;
/// The longest chunk, before it is compressed.
const LARGEST_CHUNK: u64 = 1 << 20;

/// The files of one name.
#[derive(Debug)]
pub(super) struct Pieces {
    path: PathBuf,
    limit: u64,
}

/// One of the files before.
struct Old {
    number: u64,
    path: PathBuf,
    bytes: u64,
}

impl Pieces {
    /// # Errors
    /// When the name does not end in `.mcap`.
    pub(super) fn new(path: PathBuf, limit: u64) -> io::Result<Self> {
        if path.extension().is_none_or(|ending| ending != "mcap") {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "name it .mcap"));
        }
        Ok(Self { path, limit })
    }

    /// The most bytes of one file, its end included.
    pub(super) const fn largest(&self) -> u64 {
        self.limit / 4
    }

    /// The most bytes of a chunk before it is compressed, where no message is longer.
    pub(super) const fn chunk(&self) -> u64 {
        let share = self.largest() / 8;
        if share < LARGEST_CHUNK { share } else { LARGEST_CHUNK }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves what is there out of the way, finished where a crash cut it off, and the rest in a file of its own; makes room; and begins the next file, which nobody else may record into.
    pub(super) fn begin(&self) -> io::Result<File> {
        let mut old = self.old()?;
        // What is no regular file, such as a pipe, is nobody's recording.
        if let Ok(there) = fs::symlink_metadata(&self.path) {
            if !there.is_file() {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this is there, and is no file"));
            }
            // One that is none of ours stays as it is, under its new name.
            if let Err(busy) = repair_and_keep(&self.path, Some(&self.path.with_extension("damaged")))
                && busy.kind() == io::ErrorKind::ResourceBusy
            {
                return Err(busy);
            }
            let number = old.last().map_or(1, |last| last.number + 1);
            let path = self.numbered(number);
            fs::rename(&self.path, &path)?;
            old.push(Old { number, path, bytes: there.len() });
        }
        let mut bytes: u64 = old.iter().map(|old| old.bytes).sum();
        let mut count = old.len();
        for old in &old {
            if bytes + self.largest() <= self.limit && count <= MOST {
                break;
            }
            fs::remove_file(&old.path)?;
            (bytes, count) = (bytes - old.bytes, count - 1);
        }
        // What moves a robot, and where it stands, is its owner's to read.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        lock(&file)?;
        Ok(file)
    }

    fn numbered(&self, number: u64) -> PathBuf {
        self.path.with_extension(format!("{number}.mcap"))
    }

    /// The oldest first.
    fn old(&self) -> io::Result<Vec<Old>> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let name = self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let mut old = Vec::new();
        for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(|other| {
                other.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".mcap")?.parse().ok()
            });
            if let Some(number) = number {
                old.push(Old { number, path: entry.path(), bytes: entry.metadata()?.len() });
            }
        }
        old.sort_by_key(|old| old.number);
        Ok(old)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use mcap::MAGIC;
    use mcap::records::op;

    use super::super::repair::{Repaired, finish, repair};
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("taut-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_another_one_records_into_is_left_to_it() {
        let folder = folder("pieces");
        let pieces = || Pieces::new(folder.join("a.mcap"), 1_000_000).unwrap();
        let mut first = pieces().begin().unwrap();
        first.write_all(MAGIC).unwrap();
        let refused = pieces().begin().unwrap_err();
        assert_eq!(refused.to_string(), "another process records into it");
        assert!(repair(&folder.join("a.mcap")).is_err());
        assert_eq!(fs::read(folder.join("a.mcap")).unwrap(), MAGIC);
        drop(first);
        pieces().begin().unwrap();
        assert!(folder.join("a.1.mcap").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn zeros_behind_the_last_record_are_none() {
        let folder = folder("zeros");
        let path = folder.join("a.mcap");
        // A record of three bytes.
        let record = [&[op::METADATA][..], &3u64.to_le_bytes(), &[7; 3]].concat();
        let whole = [MAGIC, &record].concat();
        fs::write(&path, [&whole[..], &[0; 1_000]].concat()).unwrap();
        assert_eq!(repair(&path).unwrap(), Repaired::Finished { lost: 1_000 });
        let mut finished = whole;
        finish(&mut finished).unwrap();
        assert_eq!(fs::read(&path).unwrap(), finished);
        // The next start keeps what it cuts off, of the last time.
        for end in [1_000, 500] {
            fs::write(&path, [&finished[..MAGIC.len() + 12], &vec![0; end]].concat()).unwrap();
            let pieces = Pieces::new(path.clone(), 1_000_000).unwrap();
            pieces.begin().unwrap();
            assert_eq!(fs::read(folder.join("a.1.mcap")).unwrap(), finished);
            assert_eq!(fs::read(folder.join("a.damaged")).unwrap(), vec![0; end]);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    /// Writes a file of so many chunks; where each ends.
    fn chunks(path: &Path, count: usize) -> Vec<usize> {
        let file = fs::File::create(path).expect("a folder of the test's own");
        let mut out = mcap::Writer::new(file).expect("it can be written");
        let channel_id = out.add_channel(0, "a", "json", &Default::default()).expect("it is the first");
        let header = mcap::records::MessageHeader { channel_id, sequence: 0, log_time: 0, publish_time: 0 };
        let mut end = || {
            out.write_to_known_channel(&header, &[b'7'; 1_000]).expect("the channel is known");
            out.flush().expect("it can be written");
            fs::metadata(path).expect("it is there").len() as usize
        };
        (0..count).map(|_| end()).collect()
    }

    #[test]
    fn a_last_chunk_that_only_others_can_read_stays() {
        let folder = folder("others");
        let path = folder.join("a.mcap");
        let ends = chunks(&path, 1);
        let mut bytes = fs::read(&path).unwrap()[..ends[0]].to_vec();
        let name = bytes.windows(4).position(|name| name == b"zstd").unwrap();
        bytes[name..name + 4].copy_from_slice(b"xzxz");
        fs::write(&path, &bytes).unwrap();
        assert_eq!(repair(&path).unwrap(), Repaired::Finished { lost: 0 });
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_last_chunk_that_is_damaged_is_none_and_what_is_before_it_stays() {
        let folder = folder("damaged");
        let path = folder.join("a.mcap");
        let ends = chunks(&path, 2);
        let whole = fs::read(&path).unwrap();
        for (end, damaged_at, kept) in [
            (ends[1], None, ends[1]),
            (ends[0], None, ends[0]),
            // Inside the second chunk's records.
            (ends[1], Some(ends[0] + 60), ends[0]),
            // Inside the first one's: it is not the last.
            (ends[1], Some(ends[0] - 100), ends[1]),
        ] {
            let mut bytes = whole[..end].to_vec();
            damaged_at.into_iter().for_each(|at| bytes[at] ^= 1);
            fs::write(&path, &bytes).unwrap();
            assert_eq!(repair(&path).unwrap(), Repaired::Finished { lost: (end - kept) as u64 });
            let mut finished = bytes[..kept].to_vec();
            finish(&mut finished).unwrap();
            assert_eq!(fs::read(&path).unwrap(), finished);
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
