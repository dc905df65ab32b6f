//! This test's own program as devices, each with a fault of its own. What is timed holds at any speed of the machine.

use std::path::PathBuf;
use std::process::exit;

use taut_session::motion::Joints;

use super::*;
use crate::device::{DeviceSocket, Told};

/// Which device the program below is.
const TASK: &str = "TAUT_TEST_DEVICE";

/// How every device below says that it turns.
pub(in crate::device) const TURNING: motion::Turning =
    motion::Turning { velocity: [0.0, 0.5, 0.0], torque: [0.25, 0.0, 0.0] };

/// Starts the device of that name; what it hears goes into `log`.
fn start(task: &str, log: Option<&Log>) -> Result<ProcessDevice, ProcessError> {
    start_with(task, log, &Arc::from([]))
}

fn start_with(task: &str, log: Option<&Log>, channels: &LineChannels) -> Result<ProcessDevice, ProcessError> {
    let limits = DeviceLimits { force: Some(20.0), ..DeviceLimits::default() };
    ProcessDevice::start(&words(task, log), limits, channels)
}

pub(in crate::device) fn words(task: &str, log: Option<&Log>) -> Vec<String> {
    let log = log.map_or_else(String::new, |log| log.0.display().to_string());
    let program = std::env::current_exe().unwrap().display().to_string();
    let test = "device::process::tests::is_a_device_where_it_is_told_to";
    let words = ["env", &format!("{TASK}={task}:{log}"), &program, "--exact", test, "--nocapture"];
    words.map(str::to_owned).to_vec()
}

fn point(x: f32, lease: Duration) -> SetPoint {
    SetPoint {
        state: State { position: [x, 0.0, 0.0], ..State::at(Time::ZERO) },
        age: Duration::ZERO,
        lease,
        fresh: Duration::MAX,
    }
}

/// Asks until there is an answer; 30 s, or the machine is too slow for any test.
pub(in crate::device) fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Clock::since_boot() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Clock::since_boot() < end, "nothing came");
        pause(1);
    }
}

fn pause(ms: u64) {
    std::thread::park_timeout(std::time::Duration::from_millis(ms));
}

/// What a device wrote into a file.
pub(in crate::device) struct Log(PathBuf);

impl Log {
    pub(in crate::device) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("taut-device-{name}-{}", std::process::id())))
    }

    pub(in crate::device) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn has(&self, what: &str) -> bool {
        self.lines().iter().any(|line| line.contains(what))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Its end of the socket, and what it wrote down.
struct Played {
    socket: DeviceSocket,
    log: String,
    heard: String,
}

impl Played {
    fn note(&mut self, what: &str) {
        self.heard.push_str(&format!("{what}\n"));
        if !self.log.is_empty() {
            std::fs::write(&self.log, &self.heard).unwrap();
        }
    }

    /// The next frame; ends with its socket.
    fn next(&mut self) -> Frame {
        loop {
            match self.socket.recv() {
                Told::Frame(frame) => {
                    let frame = frame.unwrap();
                    self.note(&format!("{frame:?}"));
                    return frame;
                }
                Told::Nothing => pause(1),
                Told::Ended => {
                    self.note("ended");
                    exit(0);
                }
            }
        }
    }

    fn say(&self, frame: &Frame) {
        self.socket.send(frame);
    }

    fn measured(&self) {
        let state =
            motion::State { velocity: [0.0, 0.0, 2.0], turning: Some(TURNING), ..motion::State::default() };
        self.say(&Frame::Measured { state, controller_force: Some([3.0, 0.0, 0.0]) });
    }

    fn obey(&mut self) -> Frame {
        let frame = self.next();
        if let Frame::Stop { number, .. } = &frame {
            self.say(&Frame::Stopped { number: *number, why: "told".to_owned() });
        }
        frame
    }
}

/// Runs as a process of its own, for the tests below.
#[test]
fn is_a_device_where_it_is_told_to() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (task, log) = task.split_once(':').unwrap();
    let mut device =
        Played { socket: DeviceSocket::of_process().unwrap(), log: log.to_owned(), heard: String::new() };
    if task == "mute" {
        exit(1);
    }
    if task == "late" {
        // Longer than it may leave unread what it is told once it has said hello.
        pause(2_500);
    }
    if let Some(force) = match task {
        "limited" => Some(5.0),
        "unlimited" => Some(-1.0),
        _ => None,
    } {
        let own = DeviceLimits { velocity: Some(0.5), force: Some(force), ..DeviceLimits::default() };
        device.say(&Frame::Limits(own));
    }
    let (name, by_channels) = ("played".to_owned(), task == "driven");
    let info = DeviceInfo { lease: true, limits_force: true, name, by_channels, ..DeviceInfo::default() };
    device.say(&Frame::Device(info));
    match task {
        "obeys" => loop {
            device.obey();
            device.measured();
        },
        "ends" => exit(3),
        "garbage" => {
            device.measured();
            rustix::io::write(&device.socket, b"\x1b[2J").unwrap();
            device.say(&Frame::Lost);
            loop {
                device.obey();
            }
        }
        "silent" | "limited" | "unlimited" | "late" => loop {
            device.obey();
        },
        "deaf" => {
            device.next();
            wait_for(|| {
                device.measured();
                std::fs::exists(format!("{log}.go")).unwrap().then_some(())
            });
            loop {
                device.obey();
            }
        }
        // It ignores stops and the end of its socket.
        "ignores" => loop {
            if let Told::Frame(Ok(frame)) = device.socket.recv() {
                device.note(&format!("{frame:?}"));
            }
            device.measured();
            pause(1);
        },
        "driven" => {
            let payload = vec![9; 15_000];
            for (part, more) in payload.chunks(6_000).zip([true, true, false]) {
                device.say(&Frame::Message {
                    channel: ChannelId(2),
                    age: None,
                    more,
                    payload: part.to_vec(),
                });
            }
            let motion = Motion::Joints(Joints::new(&[0.5]).unwrap());
            device.say(&Frame::Motion { channel: ChannelId(0), motion });
            loop {
                device.obey();
            }
        }
        "input" => {
            device.say(&Frame::Sample(motion::State {
                position: [0.25, 0.0, 0.0],
                turning: Some(TURNING),
                ..motion::State::default()
            }));
            while !matches!(device.next(), Frame::Feel(_)) {}
            device.say(&Frame::Button(crate::device::frame::Button::Resume));
            rustix::io::write(&device.socket, b"junk").unwrap();
            while !matches!(device.next(), Frame::Lost) {}
            exit(0);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_device_has_limits_of_its_own_and_the_tighter_hold() {
    let device = start("limited", None).unwrap();
    let kept = DeviceLimits { velocity: Some(0.5), force: Some(5.0), ..DeviceLimits::default() };
    assert_eq!(device.limits(), kept);
    let error = start("unlimited", None).unwrap_err().to_string();
    assert!(error.contains("are not numbers from 0 on"), "{error}");
    let boxed = |low, high| DeviceLimits { position: Some([[low; 3], [high; 3]]), ..DeviceLimits::default() };
    assert_eq!(boxed(-1.0, 1.0).and(boxed(0.0, 2.0)), Some(boxed(0.0, 1.0)));
    assert_eq!(boxed(-1.0, 0.0).and(boxed(0.5, 2.0)), None);
}

#[test]
fn a_device_hears_what_there_is_its_limits_a_resume_set_points_and_the_stop_at_the_end() {
    let log = Log::new("hears");
    let mut device = start("obeys", Some(&log)).unwrap();
    assert!(device.lease() && device.limit_force(20.0) && !device.is_real());
    assert_eq!((device.name().as_str(), device.stiffness()), ("played", None));
    device.enable().unwrap();
    wait_for(|| log.has("Enable").then_some(()));
    device.apply(&point(0.5, Duration::from_secs(30)));
    wait_for(|| log.has("Apply").then_some(()));
    let measured = wait_for(|| device.measure());
    assert!((measured.state.velocity[2] - 2.0).abs() < 1e-6, "{measured:?}");
    assert_eq!(measured.controller_force, Some([3.0, 0.0, 0.0]));
    assert_eq!(measured.state.turning, Some(TURNING));
    drop(device);
    let lines = log.lines();
    let begins = [
        "Hello { role: Robot",
        "Limits(",
        "Enable",
        "Apply {",
        "Stop { number: 1, cause: \"host\" }",
        "ended",
    ];
    assert_eq!(lines.len(), begins.len(), "{lines:?}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{lines:?}");
    }
}

#[test]
fn a_device_that_takes_its_time_to_begin_has_not_failed() {
    let mut device = start_with("late", None, &channels()).unwrap();
    assert_eq!(device.failure(), None);
}

#[test]
fn what_is_no_frame_is_counted_and_told() {
    let mut device = start("garbage", None).unwrap();
    wait_for(|| device.measure());
    let Some(DeviceFailure::Junk { why, .. }) = wait_for(|| device.failure()).into() else { panic!("junk") };
    assert!(why.contains("bytes") || why.contains("does not write"), "{why}");
    wait_for(|| device.program.look(|talk| talk.junk == 2).then_some(()));
}

#[test]
fn a_device_that_ends_has_failed_for_ever() {
    let mut device = match start("ends", None) {
        Ok(device) => device,
        // On a busy machine it has ended before it is looked at.
        Err(ProcessError::Failed(DeviceFailure::Ended(how))) => return assert!(how.contains('3'), "{how}"),
        Err(error) => panic!("{error}"),
    };
    let how = wait_for(|| match device.failure() {
        Some(DeviceFailure::Ended(how)) => Some(how),
        _ => None,
    });
    assert!(how.contains('3'), "{how}");
    assert!(device.failure().is_some() && device.enable().is_err());
    device.apply(&point(0.0, Duration::from_secs(1)));
}

#[test]
fn a_device_that_does_not_say_where_it_is_is_told_of_within_the_longest_lease() {
    let mut device = start("silent", None).unwrap();
    assert_eq!(device.failure(), None, "one that stands may be silent");
    device.enable().unwrap();
    let began = Clock::since_boot();
    let lease = Duration::from_millis(150);
    device.apply(&point(0.0, lease));
    let failure = wait_for(|| {
        device.apply(&point(0.0, lease));
        device.failure()
    });
    let silence = Clock::since_boot() - began;
    println!("silence was told of {:.1} ms after the resume", silence.as_millis_f64());
    assert_eq!(failure, DeviceFailure::Silent(lease));
    assert!(silence >= Duration::from_millis(100), "{silence}");
}

#[test]
fn a_device_that_does_not_read_is_told_of_and_the_stop_waits_for_no_reader() {
    let log = Log::new("deaf");
    let mut device = start("deaf", Some(&log)).unwrap();
    wait_for(|| device.measure());
    device.enable().unwrap();
    for x in 0..1_000u16 {
        device.apply(&point(f32::from(x), Duration::from_millis(20)));
    }
    assert_eq!(wait_for(|| device.failure()), DeviceFailure::NotTaken);
    device.stopper().stop(StopCause::Device);
    device.apply(&point(0.0, Duration::from_secs(30)));
    let dropped = device.dropped();
    assert!(
        (1_000..=1_001).contains(&dropped),
        "at most one was written, and none after the stop: {dropped}"
    );
    let go = format!("{}.go", log.0.display());
    std::fs::write(&go, "").unwrap();
    wait_for(|| log.has("Stop {").then_some(()));
    drop(device);
    let _ = std::fs::remove_file(go);
    let lines = log.lines();
    let stop = lines.iter().position(|line| line.starts_with("Stop { number: 1, cause: \"device\" }"));
    assert!(stop.is_some_and(|stop| stop <= 4), "few frames are ahead of a stop: {lines:?}");
    assert!(!lines[stop.unwrap()..].iter().any(|line| line.starts_with("Apply")), "{lines:?}");
}

#[test]
fn a_device_that_ignores_a_stop_and_the_end_of_its_socket_is_ended() {
    let log = Log::new("ignores");
    let mut device = start("ignores", Some(&log)).unwrap();
    device.enable().unwrap();
    wait_for(|| log.has("Enable").then_some(()));
    let began = Clock::since_boot();
    device.stop(StopCause::Watchdog);
    assert_eq!(device.failure(), None, "it has a while to answer");
    wait_for(|| device.failure().filter(|failure| *failure == DeviceFailure::IgnoresStop));
    assert!(device.enable().is_err());
    drop(device);
    println!("ended {:.1} s after the stop that it ignored", (Clock::since_boot() - began).as_secs_f64());
}

#[test]
fn a_device_behind_a_wrapper_that_ends_before_it_is_ended_with_it() {
    let (log, pid) = (Log::new("wrapped"), Log::new("wrapped.pid"));
    // The wrapper ends when it is asked to; the device does not hear that.
    let script = r#"(trap "" TERM; exec sh -c 'echo $$ > "$0"; exec "$@"' "$0" "$@"); true"#;
    let mut wrapped: Vec<String> =
        ["sh", "-c", script, &pid.0.display().to_string()].map(str::to_owned).to_vec();
    wrapped.extend(words("ignores", Some(&log)));
    let device = ProcessDevice::start(&wrapped, DeviceLimits::default(), &Arc::from([])).unwrap();
    let number = pid.lines().concat();
    drop(device);
    wait_for(|| {
        let status = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        // Nobody may wait for it here: then it stays as a zombie.
        (status.is_empty() || status.contains(") Z ")).then_some(())
    });
}

#[test]
fn whom_a_wrapper_leaves_behind_has_a_second_to_end_and_another_once_it_was_asked_to() {
    let (log, other) = (Log::new("left-behind"), Log::new("brakes"));
    // It brakes by itself when it is asked to, 300 ms long.
    let script =
        r#"(trap 'sleep 0.3; echo stopped > "$0"; exit' TERM; while :; do sleep 0.05; done) & exec "$@""#;
    let mut wrapped: Vec<String> =
        ["sh", "-c", script, &other.0.display().to_string()].map(str::to_owned).to_vec();
    wrapped.extend(words("obeys", Some(&log)));
    let device = ProcessDevice::start(&wrapped, DeviceLimits::default(), &Arc::from([])).unwrap();
    let begin = Clock::since_boot();
    drop(device);
    let took = Clock::since_boot() - begin;
    assert!(log.has("ended") && other.has("stopped"), "{took}: {:?}", other.lines());
    assert!((1_300..1_900).contains(&(took.as_micros_u32() / 1_000)), "it is over when both are: {took}");
}

#[test]
fn what_cannot_be_a_device_does_not_start_and_says_why() {
    let none = DeviceLimits::default();
    let of = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        ProcessDevice::start(&words, none, &Arc::from([])).unwrap_err()
    };
    let error = of(&["/nowhere/arm"]);
    assert!(error.to_string().contains("`/nowhere/arm` cannot be started: No such file"), "{error}");
    let error = of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert!(error.to_string().contains("Permission denied"), "{error}");
    let error = of(&["false"]);
    assert!(
        matches!(&error, ProcessError::Failed(DeviceFailure::Ended(how)) if how.contains('1')),
        "{error}"
    );
    let error = start("mute", None).unwrap_err();
    assert!(matches!(error, ProcessError::Failed(DeviceFailure::Ended(_))), "{error}");
}

pub(in crate::device) fn channels() -> LineChannels {
    use crate::device::messages::{LineChannel, tests::channel};
    use taut_session::Delivery;
    use taut_session::motion::Schema;
    let arm = LineChannel { motion: Some(Schema::Joints), ..channel("arm", Delivery::Newest) };
    let map = LineChannel { largest: 100_000, ..channel("map", Delivery::Reliable) };
    let battery = LineChannel {
        is_json: true,
        direction: Direction::ToOperator,
        largest: 20_000,
        ..channel("battery", Delivery::Reliable)
    };
    Arc::from([arm, map, battery])
}

#[test]
fn a_device_is_driven_by_channels_and_exchanges_messages_longer_than_a_frame() {
    let log = Log::new("driven");
    let mut device = start_with("driven", Some(&log), &channels()).unwrap();
    let mut given = Vec::new();
    wait_for(|| {
        given.extend(std::iter::from_fn(|| device.poll_message()));
        (given.len() == 2).then_some(())
    });
    assert!(given.iter().any(|message| {
        matches!(message, DeviceMessage::Payload { channel: ChannelId(2), payload } if payload.len() == 15_000)
    }));
    assert!(
        given.iter().any(|message| matches!(message, DeviceMessage::Motion { channel: ChannelId(0), .. }))
    );
    device.enable().unwrap();
    let motion = Motion::Joints(Joints::new(&[0.75]).unwrap());
    assert!(device.drive(ChannelId(0), &motion, Duration::from_secs(30)));
    assert!(device.apply(&point(0.5, Duration::from_secs(30))), "states are nothing to it");
    device.receive(ChannelId(1), Some(Duration::ZERO), &[7; 10_000]);
    wait_for(|| log.has("Drive { channel: ChannelId(0)").then_some(()));
    let parts = || log.lines().iter().filter(|line| line.starts_with("Message {")).count();
    wait_for(|| (parts() == 8).then_some(()));
    assert_eq!(log.lines().iter().filter(|line| line.starts_with("Channel(")).count(), 3);
    assert!(!log.has("Apply"));
    assert_eq!(device.message_drops().read(), Drops::default());
}
