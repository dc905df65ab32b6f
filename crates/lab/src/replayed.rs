//! A session that was recorded, over another network: the operator's motion as it was, by the same transport and channels, simulated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use taut_agent::{DeviceMessage, OperatorDevice, Resume, Sample};
use taut_core::{Bitrate, Bytes, Duration, Seed, Time};
use taut_report::result::{Distribution, RunResult};
use taut_session::{ChannelId, ChannelKind, State};
use taut_trace::{RecordedState, SessionRecording};
use toml::Table;

use crate::run::{Devices, RunError, run_devices};
use crate::scenario::{
    ChannelSpec, Direction, MakesSpec, MtipPolicy, MtipSpec, Scenario, SizesSpec, TeleopChannel,
    TransportSpec,
};

/// A recorded session, and the same over another network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// As it was.
    pub recorded: Figures,
    /// As it would have been.
    pub simulated: Figures,
    /// What of the recording could not be had in the simulation.
    pub left_out: Vec<String>,
    /// The simulated run.
    pub run: RunResult,
}

/// How a session felt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// States sent; of a robot's recording, those that came.
    pub states: u64,
    /// Of these, known to have arrived; of a robot's recording, applied. Simulated: that arrived.
    pub delivered: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Dropped at the recording end, by cause; simulated: at either.
    pub dropped: BTreeMap<String, u64>,
    /// From operator to robot, ms: recorded by the estimate of the clocks.
    pub age_ms: Option<Spread>,
    /// Of acknowledged states; of a robot's recording, of comparisons of clocks.
    pub round_trip_ms: Option<Spread>,
    /// Stops that nobody pressed: by the watchdog.
    pub watchdog_stops: u64,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half are less.
    pub p50: f64,
    /// Of a hundred, 95 are less.
    pub p95: f64,
    /// Of a hundred, 99 are less.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// So long after the watchdog stopped it, the simulated robot is resumed.
const RESUMED_AFTER: &str = "1s";
/// Sizes of a channel's messages that are kept, at most.
const MOST_SIZES: usize = 1_000;

/// Runs the operator of a recording over the links and cross traffic of `network`, between the ends of its `session` or `teleop`. After a
/// stop by the watchdog the robot is resumed within a second; other stops are not pressed again.
///
/// # Errors
/// When the recording does not say how its session was run, the network has no such ends, or see [`RunError`].
pub fn replayed(
    recording: &SessionRecording,
    network: &Scenario,
    seed: Seed,
    progress: &mut dyn FnMut(f64),
) -> Result<Replayed, RunError> {
    let begin = recording.states.first().map_or(Time::ZERO, |state| state.made);
    let end = recording.states.last().map_or(Time::ZERO, |state| state.made);
    let length = end - begin;
    let mut left_out = recording.notes.clone();
    let scenario = scenario(recording, network, length, &mut left_out)?;
    let hand = Recorded { states: recording.states.clone(), begin, began: None, resumed: false, next: 0 };
    let devices = Devices { operator: Some(Box::new(hand)), ..Devices::default() };
    let mut goes_on = |fraction| {
        progress(fraction);
        std::ops::ControlFlow::Continue(())
    };
    let run = run_devices(&scenario, seed, devices, &mut goes_on)?.expect("nothing breaks it off");
    Ok(Replayed { recorded: recorded(&recording.events), simulated: simulated(&run), left_out, run })
}

/// The last event of that name.
fn last<'a>(events: &'a [Value], names: &[&str]) -> Option<&'a Value> {
    events.iter().rev().find(|event| names.iter().any(|name| event["event"] == *name))
}

fn scenario(
    recording: &SessionRecording,
    network: &Scenario,
    length: Duration,
    left_out: &mut Vec<String>,
) -> Result<Scenario, RunError> {
    let wrong = |message: String| RunError::Scenario(message);
    let events = &recording.events;
    let begun = last(events, &["recording"]);
    let begun = begun.ok_or_else(|| wrong("does not say how its session was run".to_owned()))?;
    let (operator, robot, paths) = match (&network.session, &network.teleop) {
        (Some(session), _) => (&session.operator, &session.robot, 1),
        (_, Some(teleop)) => (&teleop.operator, &teleop.robot, teleop.paths),
        (None, None) => {
            return Err(wrong(
                "the network has neither [session] nor [teleop], whose ends would be the session's"
                    .to_owned(),
            ));
        }
    };
    let mut table = Table::new();
    let mut set = |key: &str, value: toml::Value| _ = table.insert(key.to_owned(), value);
    set("operator", operator.clone().into());
    set("robot", robot.clone().into());
    set("paths", i64::from(paths).into());
    let mut transport = transport(begun).map_err(&wrong)?;
    if let TransportSpec::Mtip(MtipSpec { policy: MtipPolicy::Fixed(path), .. }) = transport
        && path >= paths
    {
        left_out.push(format!(
            "mtip's policy fixed:{path}: the network has no such path, mtip is as it is shipped"
        ));
        transport = TransportSpec::Mtip(MtipSpec::default());
    }
    set("transport", toml::Value::try_from(transport).map_err(|error| wrong(error.to_string()))?);
    set("secure", begun["secure"].as_bool().unwrap_or(true).into());
    set("resume_after", RESUMED_AFTER.into());
    let period = begun["period_ms"].as_f64().unwrap_or_else(|| typical_interval(&recording.states));
    set("period", milliseconds(period).into());
    set("rate", (begun["rate_hz"].as_f64().unwrap_or(1e3) as i64).into());
    if begun["reliable"].as_bool().unwrap_or(false) {
        set("reliable", true.into());
        // What is to arrive does not make way for what is newer.
        set("order", "fifo".into());
    }
    for key in ["codec", "sample_length", "congestion_control"] {
        if let Some(said) = begun.get(key).filter(|said| !said.is_null()) {
            set(key, toml::Value::try_from(said).map_err(|error| wrong(error.to_string()))?);
        }
    }
    left_out.extend(not_simulated(begun));
    let fed_back = recording.sizes.get("robot/state").map_or(0, Vec::len) as f64;
    set("feedback", ((fed_back / length.as_secs_f64().max(1e-3)).round() as i64).into());
    // An operator learns the robot's when it is connected.
    let connected = last(events, &["connected"]);
    for (key, name) in [("deadline", "deadline_ms"), ("watchdog", "watchdog_ms"), ("max_age", "max_age_ms")] {
        let found = [Some(begun), connected].into_iter().flatten().find_map(|event| event[name].as_f64());
        if let Some(found) = found.filter(|found| *found > 0.0) {
            set(key, milliseconds(found).into());
        }
    }
    let declared = Option::<Vec<ChannelSpec>>::deserialize(&begun["channels"]);
    let declared = declared.map_err(|error| wrong(format!("its channels: {error}")))?;
    let channels: Vec<TeleopChannel> = declared
        .into_iter()
        .flatten()
        .filter_map(|spec| channel(recording, spec, length, left_out))
        .collect();
    if !channels.is_empty() {
        let channels = toml::Value::try_from(channels);
        set("channels", channels.map_err(|error| wrong(error.to_string()))?);
    }
    let scenario = Scenario {
        title: format!("A recorded session over {}", network.title),
        duration: length + Duration::from_secs(3),
        warmup: Duration::ZERO,
        session: None,
        teleop: None,
        commands: None,
        model: None,
        variants: Vec::new(),
        axes: Vec::new(),
        ..network.clone()
    };
    // Ranges, and what does not go together, are said as of any scenario.
    let mut whole = scenario.to_table();
    whole.insert("teleop".to_owned(), table.into());
    Scenario::parse("the recorded session", &whole.to_string()).map_err(|error| wrong(error.to_string()))
}

/// With its settings, where they are recorded; else as it is shipped.
fn transport(begun: &Value) -> Result<TransportSpec, String> {
    if let Some(settings) = begun.get("settings") {
        return TransportSpec::deserialize(settings).map_err(|error| error.to_string());
    }
    let name = begun["transport"].as_str().unwrap_or("quic");
    TransportSpec::shipped(name).ok_or_else(|| format!("was carried by `{name}`, of which nothing is known"))
}

/// What of a session a recorded motion does not have: it is as it was, whatever comes back.
fn not_simulated(begun: &Value) -> Vec<String> {
    let law = begun["law"].as_str().filter(|law| *law != "position_force");
    let law = law
        .map(|law| format!("the control law {law}: states are sent as they were, and the arm follows them"));
    let turns = begun["turns"].as_bool().unwrap_or(false);
    let turns = turns.then(|| "angular velocity and torque, with which states are longer".to_owned());
    law.into_iter().chain(turns).collect()
}

/// The median, ms.
fn typical_interval(states: &[RecordedState]) -> f64 {
    let mut intervals: Vec<Duration> = states.windows(2).map(|pair| pair[1].made - pair[0].made).collect();
    intervals.sort_unstable();
    let median = intervals.get(intervals.len() / 2).copied().unwrap_or(Duration::from_millis(1));
    median.as_millis_f64().clamp(0.01, 1e3)
}

fn milliseconds(ms: f64) -> String {
    Duration::from_nanos((ms * 1e6).round() as u64).to_string()
}

/// The same channel with messages as many and as long.
fn channel(
    recording: &SessionRecording,
    spec: ChannelSpec,
    length: Duration,
    left_out: &mut Vec<String>,
) -> Option<TeleopChannel> {
    let sizes = ["to_robot", "to_operator"]
        .iter()
        .find_map(|way| recording.sizes.get(&format!("{way}/{}", spec.name)));
    let sizes = sizes.filter(|sizes| !sizes.is_empty())?;
    if spec.kind == ChannelKind::Motion {
        left_out.push(format!(
            "{} messages of {:?}: a simulated arm is moved by states",
            sizes.len(),
            spec.name
        ));
        return None;
    }
    let rate = (sizes.len() as f64 / length.as_secs_f64().max(1e-3)).clamp(0.001, 100_000.0);
    let sizes = sizes.iter().take(MOST_SIZES).map(|size| Bytes::new(*size)).collect();
    Some(TeleopChannel { channel: spec, makes: MakesSpec { rate, sizes: SizesSpec::Listed(sizes) } })
}

/// As the session itself said it last.
fn recorded(events: &[Value]) -> Figures {
    let Some(said) = last(events, &["summary", "status"]) else { return Figures::default() };
    let status = &said["status"];
    let count = |name: &str| status[name].as_u64().unwrap_or(0);
    let spread = |latency: &Value| {
        let part = |name: &str| latency[name].as_f64().unwrap_or(0.0);
        let spread =
            Spread { p50: part("p50_ms"), p95: part("p95_ms"), p99: part("p99_ms"), max: part("max_ms") };
        latency["count"].as_u64().is_some_and(|count| count > 0).then_some(spread)
    };
    // A robot tells of each stop; an operator is told why the robot stopped last.
    let is_stop = |event: &&Value| {
        event["event"] == "stopped" && event["why"] == "watchdog"
            || event["event"] == "robot" && event["state"] == "PAUSED" && event["cause"] == "watchdog"
    };
    Figures {
        states: count("messages"),
        delivered: count("delivered"),
        lost: count("lost"),
        dropped: serde_json::from_value(status["dropped"].clone()).unwrap_or_default(),
        age_ms: spread(&status["one_way"]),
        round_trip_ms: spread(&status["rtt"]),
        watchdog_stops: events.iter().filter(is_stop).count() as u64,
    }
}

fn simulated(run: &RunResult) -> Figures {
    let Some(teleop) = &run.teleop else { return Figures::default() };
    let spread = |of: &Distribution| Spread { p50: of.p50, p95: of.p95, p99: of.p99, max: of.max };
    let mut figures = Figures {
        round_trip_ms: teleop.rtt_ms.as_ref().map(spread),
        watchdog_stops: teleop.watchdogs.len() as u64,
        ..Figures::default()
    };
    // Of all states: a stream has every other.
    let forward = run.media.iter().find(|medium| medium.direction == Direction::Forward);
    figures.age_ms = forward.and_then(|medium| medium.delay_ms.as_ref()).map(spread);
    for stream in &teleop.streams {
        figures.states += stream.made;
        figures.delivered += stream.arrived;
        figures.lost += stream.lost;
        for (cause, count) in stream.dropped.iter().chain(&stream.refused) {
            *figures.dropped.entry(cause.clone()).or_default() += count;
        }
    }
    figures
}

/// The operator's device of a recording: from when the robot may move, each state so long after the first as it was made. What it does
/// not make it did not make then.
#[derive(Debug)]
struct Recorded {
    states: Vec<RecordedState>,
    begin: Time,
    began: Option<Time>,
    resumed: bool,
    /// The first that is still to come.
    next: usize,
}

impl OperatorDevice for Recorded {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        if !self.resumed {
            return Some(Sample { state: State::at(now), reading: 0 });
        }
        let elapsed = now - *self.began.get_or_insert(now);
        let due = |state: &RecordedState| state.made - self.begin <= elapsed;
        if self.next == self.states.len() {
            return None;
        }
        self.next += self.states[self.next..].iter().take_while(|state| due(state)).count();
        let state = self.next.checked_sub(1).map_or_else(RecordedState::default, |last| self.states[last]);
        let state = State {
            position: [state.x, state.y, state.z],
            orientation_wxyz: [
                state.orientation_w,
                state.orientation_x,
                state.orientation_y,
                state.orientation_z,
            ],
            velocity: [state.velocity_x_m_s, state.velocity_y_m_s, state.velocity_z_m_s],
            gripper: state.gripper,
            enabling: state.enabling,
            ..State::at(now)
        };
        Some(Sample { state, reading: self.next as u64 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn resumed(&mut self, resume: Resume) {
        self.resumed |= resume == Resume::Done;
    }
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NETWORK: &str = r#"title = "far"
duration = "1s"

[links.there]
from = "a"
to = "b"
chain = [{ server = { rate = "10Mbit", queue = { bytes = "60kB" } } }, { delay = "20ms" }]

[links.back]
from = "b"
to = "a"
chain = [{ server = { rate = "10Mbit", queue = { bytes = "60kB" } } }, { delay = "30ms" }]

[teleop]
operator = "a"
robot = "b"
"#;

    /// A second of motion, of which 200 ms are missing in the middle, and a message a tenth of a second.
    fn recording() -> SessionRecording {
        let at = |ms: u64| Time::from_nanos(1_700_000_000_000_000_000) + Duration::from_millis(ms);
        let states = (0..400).chain(600..1_000).map(|ms| RecordedState {
            made: at(ms),
            x: ms as f32 * 1e-4,
            orientation_w: 1.0,
            ..RecordedState::default()
        });
        let channels = json!([
            {
                "name": "battery", "kind": "telemetry", "direction": "to_operator", "schema": "battery", "encoding": "json",
                "delivery": "newest", "deadline": "0ns", "priority": 5, "largest": "64000B",
            },
            { "name": "arm", "kind": "motion", "schema": "taut/Joints" },
        ]);
        let begun =
            json!({ "event": "recording", "transport": "quic", "deadline_ms": 150.0, "channels": channels });
        let rtt = json!({ "count": 9, "p50_ms": 1.5, "p95_ms": 2.0, "p99_ms": 3.0, "max_ms": 4.0 });
        let status = json!({ "messages": 800, "delivered": 790, "lost": 10, "dropped": { "too_late": 3 }, "rtt": rtt });
        SessionRecording {
            states: states.collect(),
            events: vec![
                begun,
                json!({ "event": "connected", "watchdog_ms": 500.0 }),
                json!({ "event": "robot", "state": "PAUSED", "cause": "watchdog" }),
                json!({ "event": "summary", "status": status }),
            ],
            sizes: [
                ("to_operator/battery".to_owned(), vec![60; 10]),
                ("to_robot/arm".to_owned(), vec![40; 5]),
            ]
            .into(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_recorded_session_runs_over_another_network() {
        let network = Scenario::parse("far", NETWORK).unwrap();
        let run = || replayed(&recording(), &network, Seed::new(1), &mut |_| {}).unwrap();
        let done = run();
        let was = Figures {
            states: 800,
            delivered: 790,
            lost: 10,
            dropped: [("too_late".to_owned(), 3)].into(),
            age_ms: None,
            round_trip_ms: Some(Spread { p50: 1.5, p95: 2.0, p99: 3.0, max: 4.0 }),
            watchdog_stops: 1,
        };
        assert_eq!(done.recorded, was);
        let (would, teleop) = (&done.simulated, done.run.teleop.as_ref().unwrap());
        // What was not made then is not made now.
        assert!((780..=801).contains(&would.states), "{would:?}");
        assert_eq!(would.watchdog_stops, 0, "{would:?}");
        let (age, round_trip) = (would.age_ms.unwrap(), would.round_trip_ms.unwrap());
        assert!((20.0..25.0).contains(&age.p50) && (50.0..60.0).contains(&round_trip.p50), "{would:?}");
        assert_eq!(teleop.transport, "quic");
        let battery = &teleop.channels[0];
        assert_eq!((battery.name.as_str(), battery.bytes / battery.delivered), ("battery", 60));
        assert!((9..=45).contains(&battery.made), "{battery:?}");
        assert_eq!(done.left_out, [r#"5 messages of "arm": a simulated arm is moved by states"#]);
        assert_eq!(run(), done, "the same from the same seed");
    }

    #[test]
    fn a_session_is_replayed_by_the_transport_and_the_settings_that_it_had() {
        use crate::scenario::{EtpSpec, TcpSpec};
        let network = Scenario::parse("far", NETWORK).unwrap();
        let of = |said: Value| {
            let (mut recording, mut left_out) = (recording(), Vec::new());
            let begun = recording.events[0].as_object_mut().unwrap();
            begun.extend(said.as_object().unwrap().clone());
            let made = scenario(&recording, &network, Duration::from_secs(1), &mut left_out).unwrap();
            (made.teleop.unwrap(), left_out.len() - 1)
        };
        let etp = EtpSpec { pack: true, ..EtpSpec::default() };
        let spaced = EtpSpec { gap: Some(Duration::from_millis(4)), ..etp };
        let settings = json!(TransportSpec::Etp(spaced));
        for (said, carried) in [
            (json!({ "transport": "tcp" }), TransportSpec::Tcp(TcpSpec::linux())),
            (json!({ "transport": "etp" }), TransportSpec::Etp(etp)),
            (json!({ "transport": "etp", "settings": settings }), TransportSpec::Etp(spaced)),
        ] {
            assert_eq!(of(said).0.transport, carried);
        }
        let (teleop, left_out) = of(json!({ "reliable": true, "congestion_control": "gcc", "law": "wave" }));
        assert_eq!((teleop.order, left_out), (taut_session::Order::Fifo, 1));
        assert_eq!(teleop.congestion_control, taut_session::Congestion::Gcc);
        assert_eq!(of(json!({ "law": "position_force" })), of(json!({})));
        let mtip = |policy| TransportSpec::Mtip(MtipSpec { policy, window: 9, ..MtipSpec::default() });
        for (policy, carried, left_out) in [
            (MtipPolicy::Fixed(0), mtip(MtipPolicy::Fixed(0)), 0),
            (MtipPolicy::Fixed(1), TransportSpec::Mtip(MtipSpec::default()), 1),
        ] {
            let (teleop, of_it) = of(json!({ "transport": "mtip", "settings": mtip(policy) }));
            assert_eq!((teleop.transport, of_it), (carried, left_out), "over one path");
        }
    }

    #[test]
    fn ages_of_a_replayed_session_are_those_of_all_its_states() {
        let jitter =
            "{ jitter = { distribution = \"normal\", mean = \"15ms\", spread = \"5ms\", reorder = true } }";
        let network = NETWORK.replacen("{ delay = \"20ms\" }", jitter, 1);
        let network = Scenario::parse("jitter", &network).unwrap();
        // Whatever is drawn: of a few seeds one at least has its oldest state in either stream.
        for seed in 1..=4 {
            let done = replayed(&recording(), &network, Seed::new(seed), &mut |_| {}).unwrap();
            let age = done.simulated.age_ms.unwrap();
            let states = done.run.media.iter().find(|medium| medium.direction == Direction::Forward).unwrap();
            let max = states.delay_ms.as_ref().unwrap().max;
            assert!((age.max - max).abs() < 1e-9, "seed {seed}: {} and {max}", age.max);
        }
    }

    #[test]
    fn what_cannot_be_replayed_is_said() {
        let network = Scenario::parse("far", NETWORK).unwrap();
        let unsaid = SessionRecording { events: Vec::new(), ..recording() };
        let error = replayed(&unsaid, &network, Seed::new(1), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("does not say how its session was run"), "{error}");
    }
}
