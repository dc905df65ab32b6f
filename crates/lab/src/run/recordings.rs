//! Recordings that scenarios of ours read and that are not part of the project.

use std::path::Path;

/// The folder of a set of recordings, and what is in it.
const SETS: [(&str, &str); 3] = [
    ("multipath-5g", "delay, jitter and loss of two 5G links, from github.com/deliarico/MTIP"),
    ("multipath-5g-measured", "what became of each command on two 5G links, from github.com/deliarico/MTIP"),
    (
        "haptics-1dof",
        "positions and torques of teleoperation with 1 degree of freedom, from Ohara's \
         Haptics-Bilateral_Teleoperation-1DOF_Experiments, as CSV",
    ),
];

/// The scenarios of ours that read them.
const READERS: [&str; 7] = [
    "two-5g-links.toml",
    "two-5g-links-perturbed.toml",
    "two-measured-5g-links.toml",
    "link-failure.toml",
    "telehaptic-qos/adaptive-sampling.toml",
    "telehaptic-qos/recordings.toml",
    "telehaptic-qos/reductions.toml",
];

/// What to say of such a file when it is not there; `None` of any other.
pub(super) fn what_is_absent(name: &str) -> Option<String> {
    let folder = Path::new(name).parent()?;
    let (_, what) = SETS.iter().find(|(set, _)| folder.ends_with(Path::new("shared/data").join(set)))?;
    let [readers @ .., last] = READERS;
    let readers = readers.join(", ");
    Some(format!(
        "is a recording that is not part of this project ({what}), and it is not there; all scenarios but {readers} and {last} \
         run without recordings, and so do --variant \"a stable\" and \"b link failure\" of the first"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn scenarios(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                scenarios(&entry, found);
            } else if entry.extension().is_some_and(|extension| extension == "toml") {
                found.push(entry);
            }
        }
    }

    #[test]
    fn every_recording_that_a_scenario_of_ours_reads_is_known_and_so_is_the_scenario() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut files = Vec::new();
        scenarios(&root, &mut files);
        let mut readers = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let names = text.split('"').filter(|word| word.contains("shared/data/"));
            let mut reads = false;
            for name in names {
                assert!(what_is_absent(name).is_some(), "{}: {name}", file.display());
                reads = true;
            }
            if reads {
                readers.push(file.strip_prefix(&root).unwrap().display().to_string());
            }
        }
        readers.sort();
        let mut known = READERS.to_vec();
        known.sort_unstable();
        assert_eq!(readers, known);
    }

    #[test]
    fn a_file_of_anybody_else_is_only_absent() {
        for name in ["none.csv", "data/none.csv", "shared/data/other/none.csv", "multipath-5g/none.csv", ""] {
            assert_eq!(what_is_absent(name), None, "{name}");
        }
    }
}
