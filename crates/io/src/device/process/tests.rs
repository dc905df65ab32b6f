//! Shell scripts as devices. What is timed holds at any speed of the machine.

use super::*;
use taut_core::Time;
use taut_session::State;

const HELLO_LINE: &str = r#"{"hello":{"name":"script","lease":true,"limits_force":true,"real":false}}"#;

fn start(script: &str) -> ProcessDevice {
    start_with(script, &Arc::from([]))
}

fn start_with(script: &str, channels: &LineChannels) -> ProcessDevice {
    let command = format!("echo '{HELLO_LINE}'; {script}");
    let limits = DeviceLimits { force: Some(20.0), ..DeviceLimits::default() };
    ProcessDevice::start(&command, limits, channels).unwrap()
}

fn point(x: f32, lease: Duration) -> SetPoint {
    SetPoint { state: State { position: [x, 0.0, 0.0], ..State::at(Time::ZERO) }, lease }
}

/// Asks until there is an answer; 30 s, or the machine is too slow for any test.
fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Clock::since_boot() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Clock::since_boot() < end, "nothing came");
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}

/// What a device wrote into a file, once it has ended.
struct Heard(std::path::PathBuf);

impl Heard {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("taut-device-{name}-{}", std::process::id())))
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_device_hears_its_limits_a_resume_set_points_and_the_stop_at_the_end() {
    let heard = Heard::new("hears");
    let mut device = start(&format!("cat > {}", heard.0.display()));
    assert!(device.lease() && device.limit_force(20.0) && !device.is_real());
    assert_eq!((device.name().as_str(), device.stiffness()), ("script", None));
    device.enable().unwrap();
    wait_for(|| (heard.lines().len() >= 2).then_some(()));
    device.apply(&point(0.5, Duration::from_secs(30)));
    wait_for(|| (heard.lines().len() >= 3).then_some(()));
    drop(device);
    let lines = heard.lines();
    assert_eq!(lines[0], r#"{"limits":{"force":20.0}}"#);
    assert_eq!(lines[1], r#"{"enable":{}}"#);
    assert!(lines[2].starts_with(r#"{"apply":{"position":[0.5,0.0,0.0],"#), "{lines:?}");
    assert_eq!(lines[3..], [r#"{"stop":"host"}"#.to_owned()]);
}

#[test]
fn what_it_measures_is_read_and_junk_is_counted_and_told() {
    let line = r#"{"position":[0.1,0,0],"velocity":[0,0,2],"controller_force":[3,0,0]}"#;
    let mut device = start(&format!("echo '{line}'; echo junk; echo '{{}}'; cat > /dev/null"));
    let measured = wait_for(|| device.measure());
    assert!((measured.state.velocity[2] - 2.0).abs() < 1e-6, "{measured:?}");
    assert_eq!(measured.controller_force, Some([3.0, 0.0, 0.0]));
    wait_for(|| (device.junk() == 2).then_some(()));
    assert!(matches!(device.failure(), Some(DeviceFailure::Junk { lines: 2, .. })));
    assert_eq!(device.failure(), None, "it is told once");
}

#[test]
fn a_device_that_ends_has_failed_for_ever() {
    let mut device = start("exit 3");
    let how = wait_for(|| match device.failure() {
        Some(DeviceFailure::Ended(how)) => Some(how),
        _ => None,
    });
    assert!(how.contains('3'), "{how}");
    assert!(device.failure().is_some() && device.enable().is_err());
    device.apply(&point(0.0, Duration::from_secs(1)));
}

#[test]
fn a_device_that_closes_its_input_has_failed_for_ever() {
    let mut device = start("exec 0<&-; sleep 30");
    let failure = wait_for(|| device.failure());
    assert_eq!(failure, DeviceFailure::Closed);
    assert_eq!(device.failure(), Some(DeviceFailure::Closed));
    // It would outlive the test: it is a group of its own.
    let pid = device.shared.lock().pid;
    let _ = Command::new("kill").args(["--", &format!("-{pid}")]).status();
}

#[test]
fn a_device_that_does_not_read_is_told_of_and_the_stop_waits_for_no_reader() {
    let heard = Heard::new("blocks");
    let mut device = start(&format!(
        "read limits; while [ ! -e {0}.go ]; do sleep 0.01; done; cat > {0}",
        heard.0.display()
    ));
    device.enable().unwrap();
    for x in 0..1_000u16 {
        device.apply(&point(f32::from(x), Duration::from_millis(20)));
    }
    // The resume is what it does not read; it has a second for that.
    assert_eq!(wait_for(|| device.failure()), DeviceFailure::NotTaken);
    device.stopper().stop(StopCause::Device);
    device.apply(&point(0.0, Duration::from_secs(30)));
    assert_eq!(
        device.dropped(),
        1_001,
        "one in the slot, the others made way for it, and none after the stop"
    );
    let go = format!("{}.go", heard.0.display());
    std::fs::write(&go, "").unwrap();
    drop(device);
    let _ = std::fs::remove_file(go);
    let lines = heard.lines();
    assert_eq!(lines[..2], [r#"{"enable":{}}"#.to_owned(), r#"{"stop":"device"}"#.to_owned()]);
}

#[test]
fn a_device_that_says_no_hello_does_not_start() {
    let limits = DeviceLimits::default();
    let error = ProcessDevice::start("exit 1", limits, &Arc::from([])).unwrap_err();
    assert!(matches!(error, ProcessError::Failed(_)), "{error}");
    let error = ProcessDevice::start("/nowhere/arm", limits, &Arc::from([])).unwrap_err().to_string();
    assert!(error.contains("127"), "{error}");
}

fn channels() -> LineChannels {
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
fn a_device_is_driven_by_channels_and_exchanges_messages_longer_than_a_line() {
    let heard = Heard::new("driven");
    let long = "9".repeat(15_000);
    let script = format!(
        r#"echo '{{"message":{{"channel":"battery","payload":[{long}]}}}}'
        echo '{{"measured":{{"channel":"arm","joints":{{"position_rad":[0.5]}}}}}}'; cat > {}"#,
        heard.0.display()
    );
    let mut device = start_with(&script, &channels());
    let mut given = Vec::new();
    wait_for(|| {
        given.extend(std::iter::from_fn(|| device.poll_message()));
        (given.len() == 2).then_some(())
    });
    assert!(given.iter().any(|message| {
        matches!(message, DeviceMessage::Payload { channel: ChannelId(2), payload } if payload.len() == 15_002)
    }));
    assert!(
        given.iter().any(|message| matches!(message, DeviceMessage::Motion { channel: ChannelId(0), .. }))
    );
    device.enable().unwrap();
    let motion = Motion::Joints(taut_session::motion::Joints::new(&[0.75]).unwrap());
    assert!(device.drive(ChannelId(0), &motion, Duration::from_secs(30)));
    let map: Vec<u8> = (0..10_000u32).map(|at| (at * 7) as u8).collect();
    device.receive(ChannelId(1), Some(Duration::ZERO), &map);
    wait_for(|| heard.lines().iter().any(|line| line.contains("drive")).then_some(()));
    wait_for(|| (heard.lines().iter().filter(|line| line.contains("base64")).count() == 5).then_some(()));
    let lines = heard.lines();
    assert!(lines.iter().any(|line| {
        line.starts_with(r#"{"drive":{"channel":"arm","joints":{"position_rad":[0.75]},"lease_ms":"#)
    }));
    let parts = lines.iter().filter_map(|line| match super::super::lines::order(line.as_bytes()) {
        Some(Order::Message(part)) => part.bytes().ok(),
        _ => None,
    });
    assert_eq!(parts.collect::<Vec<_>>().concat(), map);
    assert_eq!(device.message_drops().read(), Drops::default());
    drop(device);
}

#[test]
fn a_device_that_names_a_channel_that_is_not_there_is_told_of() {
    let script = r#"echo '{"message":{"channel":"batery","payload":1}}'; cat > /dev/null"#;
    let mut device = start_with(script, &channels());
    let Some(DeviceFailure::Junk { why, .. }) = wait_for(|| device.failure()).into() else { panic!("junk") };
    assert_eq!(why, "there is no channel `batery` to_operator; there are: battery");
}
