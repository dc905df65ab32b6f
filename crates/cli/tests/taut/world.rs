//! A folder of its own for each test, and the command run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A session and cross traffic on one link. `drain` is short, so that runs are.
pub(crate) const SCENARIO: &str = r#"title = "t"
duration = "1s"
drain = "200ms"

[links.wire]
between = ["a", "b"]
chain = [
    { server = { rate = "6Mbit", queue = { bytes = "14kB" } } },
    { delay = "8ms" },
]

[session]
operator = "a"
robot = "b"

[session.backward]
haptic = { period = "1ms" }

[cross.noise]
from = "a"
to = "b"
traffic = { cbr = { rate = "1Mbit", packet = "150B" } }
"#;

/// A folder that a test has for itself, empty at first.
pub(crate) struct World(PathBuf);

/// How a command ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The command, to be run in this folder.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let taut = env!("CARGO_BIN_EXE_taut");
        let mut command = if computes(arguments) { behind(taut) } else { Command::new(taut) };
        command.current_dir(&self.0).env("XDG_STATE_HOME", self.path("state"));
        command.args(arguments.split_whitespace());
        command
    }

    pub(crate) fn taut(&self, arguments: &str) -> Ended {
        ended(self.command(arguments).output().unwrap())
    }

    /// Runs a command that must end well; returns what it said.
    pub(crate) fn good(&self, arguments: &str) -> String {
        let ended = self.taut(arguments);
        // On a slow machine it says how far it is.
        let is_progress =
            |line: &str| line.starts_with("taut: ") && line.contains(" % after ") && line.ends_with(" s");
        let err: Vec<&str> = ended.err.lines().filter(|line| !is_progress(line)).collect();
        assert_eq!((ended.status, &err[..]), (0, &[][..]), "taut {arguments}");
        ended.out
    }

    /// Every file below a folder by its name in it, with its SHA-256.
    pub(crate) fn hashes(&self, folder: &str) -> Vec<(String, String)> {
        let root = self.path(folder);
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                let hash = Sha256::digest(fs::read(&path).unwrap());
                found.push((name, hash.iter().map(|byte| format!("{byte:02x}")).collect()));
            }
        }
        found.sort();
        found
    }
}

/// What needs a processor for long and has no moments to keep.
fn computes(arguments: &str) -> bool {
    match arguments.split_whitespace().next() {
        Some("run") => !arguments.contains("--real") && !arguments.contains("--kernel"),
        command => ["map", "recommend"].map(Some).contains(&command),
    }
}

/// A program that makes way for the sessions of other tests.
fn behind(program: &str) -> Command {
    static MAY: LazyLock<bool> = LazyLock::new(|| {
        Command::new("chrt").args(["--idle", "0", "true"]).output().is_ok_and(|ended| ended.status.success())
    });
    if !*MAY {
        return Command::new(program);
    }
    let mut command = Command::new("chrt");
    command.args(["--idle", "0", program]);
    command
}

pub(crate) fn ended(output: Output) -> Ended {
    Ended {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Compares line by line, so that a failure shows the line.
#[track_caller]
pub(crate) fn assert_lines(told: &str, expected: &str) {
    for (told, expected) in told.lines().zip(expected.lines()) {
        assert_eq!(told, expected);
    }
    assert_eq!(told.lines().count(), expected.lines().count(), "told:\n{told}");
}
