//! A file is written whole, or what was there stays.

use std::fs;
use std::path::{Path, PathBuf};

use taut_trace::{Problem, convert, read, write};

const TABLE: &str = "time_s,x\n0,1\n1,2\n";

/// An empty folder with a recording in it.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder of the test's own");
    fs::write(folder.join("in.csv"), TABLE).expect("a folder of the test's own");
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder of the test's own");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("a folder of the test's own")
                .file_name()
                .into_string()
                .expect("a folder of the test's own")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn converting_replaces_what_was_there_and_leaves_nothing_beside_it() {
    let folder = folder("convert");
    fs::write(folder.join("out.mcap"), "older").unwrap();
    convert(&folder.join("in.csv"), &folder.join("out.mcap")).unwrap();
    assert_eq!(read(&folder.join("out.mcap")).unwrap().data(), read(&folder.join("in.csv")).unwrap().data());
    assert_eq!(names(&folder), ["in.csv", "out.mcap"]);
}

#[test]
fn converting_a_file_into_itself_is_refused_and_leaves_it() {
    let folder = folder("itself");
    let input = folder.join("in.csv");
    let same = folder.join("../itself/in.csv");
    assert_eq!(convert(&input, &same).unwrap_err().problem(), &Problem::SameFile);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("in.csv", folder.join("link.csv")).unwrap();
        assert_eq!(convert(&input, &folder.join("link.csv")).unwrap_err().problem(), &Problem::SameFile);
    }
    assert_eq!(fs::read_to_string(&input).unwrap(), TABLE);
}

#[test]
fn a_file_that_cannot_be_put_in_its_place_leaves_nothing() {
    let folder = folder("in-the-way");
    let recording = read(&folder.join("in.csv")).unwrap();
    fs::create_dir(folder.join("out.csv")).unwrap();
    assert!(write(&folder.join("out.csv"), &recording).is_err());
    assert!(write(&folder.join("none/out.csv"), &recording).is_err());
    assert_eq!(names(&folder), ["in.csv", "out.csv"]);
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_stays_one_and_permissions_stay_as_they_were() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("link");
    let recording = read(&folder.join("in.csv")).unwrap();
    fs::write(folder.join("target.csv"), "older").unwrap();
    fs::set_permissions(folder.join("target.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("target.csv", folder.join("out.csv")).unwrap();
    write(&folder.join("out.csv"), &recording).unwrap();
    assert!(fs::symlink_metadata(folder.join("out.csv")).unwrap().is_symlink());
    let target = fs::metadata(folder.join("target.csv")).unwrap();
    assert_eq!(target.permissions().mode() & 0o777, 0o600);
    assert_eq!(read(&folder.join("target.csv")).unwrap().data(), recording.data());
}
