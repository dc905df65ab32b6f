//! How a robot ends whose disk is slow.

use std::fs;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use taut_agent::{Alarm, RobotCommand, RobotNote};
use taut_core::{Duration, Time};
use taut_io::session::{
    Endpoint, Remote, RobotMachine, RobotRecord, ServeConfig, ServeError, StackSpec, Told, serve,
};
use taut_io::{Clock, Driver, DriverConfig};
use taut_session::{RobotConfig, Status, StopCause};
use taut_transport::udp::UdpConfig;

use crate::machines::Rock;

const PATIENCE: StdDuration = StdDuration::from_secs(30);

/// A folder of a robot's record. Once that is full it takes no more before somebody reads the pipe in its way.
struct SlowDisk(PathBuf);

impl SlowDisk {
    fn new(name: &str) -> (Self, RobotRecord) {
        let folder = std::env::temp_dir().join(format!("taut-ending-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let record = RobotRecord::open(&folder.join("robot")).unwrap();
        (Self(folder), record)
    }

    fn fills(&self) {
        mknodat(CWD, self.0.join("robot.new"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // Whoever waits for it goes on.
        let _ = fs::OpenOptions::new().read(true).write(true).open(self.0.join("robot.new"));
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Stops = Receiver<(Time, StopCause)>;
type Session = JoinHandle<Result<Status, ServeError>>;

fn start(
    record: RobotRecord,
    clock: Clock,
    mut tell: impl FnMut(RobotNote) + Send + 'static,
) -> (Remote<RobotMachine<Rock>>, Stops, Session) {
    let (stop_sender, stops) = channel();
    let (sender, remotes) = channel();
    let rock = Rock::telling(clock, Arc::new(Mutex::new(stop_sender)));
    let udp = StackSpec::Udp(UdpConfig::new());
    let endpoint = Endpoint::listen(udp, "127.0.0.1:0".parse().unwrap(), None, &clock).unwrap();
    let session = std::thread::spawn(move || {
        let driver = Driver::new(DriverConfig::new()).unwrap().with_clock(clock);
        let config = ServeConfig::new(RobotConfig::new()).record(record);
        serve(driver, &endpoint, config, rock, |remote| sender.send(remote).unwrap(), &mut |_, told| {
            if let Told::Note(note) = told {
                tell(note);
            }
        })
    });
    (remotes.recv_timeout(PATIENCE).unwrap(), stops, session)
}

#[test]
fn a_button_that_is_pressed_while_a_robot_ends_is_told_that_nobody_hears_it() {
    let (disk, record) = SlowDisk::new("pressed");
    let (robot, stops, session) = start(record, Clock::start(), |_| ());
    disk.fills();
    assert!(robot.send(RobotCommand::Close));
    // From now on it waits for the disk.
    while stops.recv_timeout(PATIENCE).unwrap().1 != StopCause::Host {}
    assert!(!robot.stop(Alarm::Pressed));
    assert!(matches!(session.join().unwrap(), Err(ServeError::NotKept(_))));
}

#[test]
fn a_device_whose_session_panics_is_stopped_before_anybody_waits_for_the_disk() {
    let (disk, record) = SlowDisk::new("panics");
    let (clock, (sender, panicked)) = (Clock::start(), channel());
    let (robot, stops, session) = start(record, clock, move |note| {
        if matches!(note, RobotNote::Stopped { .. }) {
            sender.send(clock.now()).unwrap();
            // Nothing is printed, which would take its time.
            resume_unwind(Box::new("on purpose"));
        }
    });
    disk.fills();
    assert!(robot.stop(Alarm::Pressed));
    let (panicked, stopped) = (
        panicked.recv_timeout(PATIENCE).unwrap(),
        loop {
            if let (at, StopCause::Host) = stops.recv_timeout(PATIENCE).unwrap() {
                break at;
            }
        },
    );
    let after = stopped - panicked;
    assert!(after < Duration::from_millis(900), "the disk is waited for for a second: {after}");
    assert!(session.join().is_err());
}
