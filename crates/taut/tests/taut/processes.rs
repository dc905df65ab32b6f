//! The two examples, each a process of its own, on loopback.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use taut::Identity;

use crate::world::PATIENCE;

/// A process that ends with its value, and the lines that it prints.
struct Example {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Example {
    fn start(name: &str, folder: &Path, arguments: [&str; 2]) -> Self {
        let mut command = Command::new(built(name));
        command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, input, lines }
    }

    /// Waits for a line that begins so; gives the rest of it.
    fn says(&self, begin: &str) -> String {
        let since = Instant::now();
        loop {
            let line = self.lines.recv_timeout(PATIENCE.saturating_sub(since.elapsed()));
            let line = line.unwrap_or_else(|_| panic!("`{begin}` does not come"));
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }

    /// Waits until the arm is to be seen. On a busy machine the watchdog may have stopped it: it is resumed.
    fn moves(&mut self) {
        let since = Instant::now();
        let sees = |line: &String| line.starts_with("the arm is at ");
        while !self.lines.recv_timeout(Duration::from_millis(500)).as_ref().is_ok_and(sees) {
            assert!(since.elapsed() < PATIENCE, "it does not move");
            self.tell("resume");
        }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `cargo test` builds the examples, unless it was asked for this test alone.
fn built(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    if !example.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status =
            Command::new(cargo).args(["build", "-q", "-p", "taut", "--example", name]).status().unwrap();
        assert!(status.success());
    }
    example
}

/// A folder of one's own, which nobody else can write in.
fn folder(name: &str) -> PathBuf {
    use std::os::unix::fs::DirBuilderExt;
    let folder = std::env::temp_dir().join(format!("taut-example-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
    folder
}

#[test]
fn the_examples_move_an_arm_and_a_lamp_and_killing_the_operator_stops_the_arm() {
    let (here, there) = (folder("robot"), folder("operator"));
    let fingerprint = Identity::open(there.join("operator.key")).unwrap().fingerprint().to_string();
    let robot = Example::start("robot", &here, ["127.0.0.1:0", &fingerprint]);
    let listening = robot.says("listening on ");
    let (address, fingerprint) = listening.split_once(", fingerprint ").unwrap();

    let mut operator = Example::start("operator", &there, [address, fingerprint]);
    assert_eq!(operator.says("battery: "), "87 %");
    assert_eq!(robot.says("lamp on: "), "true");
    operator.moves();

    // The emergency stop, and on again.
    operator.tell("stop");
    while robot.says("stopped: ") != "emergency" {}
    // A person presses again where the stop was not acknowledged yet. It moves when its place changes.
    operator.lines.try_iter().for_each(drop);
    let (begin, stood) = (Instant::now(), operator.says("the arm is at "));
    while operator.says("the arm is at ") == stood {
        assert!(begin.elapsed() < PATIENCE, "it does not move again");
        operator.tell("reset");
        operator.tell("resume");
        std::thread::park_timeout(Duration::from_millis(50));
        operator.lines.try_iter().for_each(drop);
    }

    operator.process.kill().unwrap();
    // A busy machine may let the watchdog act on its own before.
    let cause = robot.says("stopped: ");
    assert!(["watchdog", "operator_left", "link_closed"].contains(&&*cause), "{cause}");
    drop((operator, robot));
    std::fs::remove_dir_all(here).unwrap();
    std::fs::remove_dir_all(there).unwrap();
}
