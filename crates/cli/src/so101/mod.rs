//! `so101:PORT`: the arm SO-101 by the packets of its servos, as a device in a process of its own: a robot that holds and moves, or, in the operator's hand, a
//! leader arm without torque.

mod packet;
mod port;

use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use serde_json::json;
use taut_core::{Duration, Time};
use taut_io::Clock;
use taut_io::device::frame::{ChannelInfo, DeviceInfo, Frame, Role};
use taut_io::device::{DeviceSocket, Told};
use taut_session::ChannelId;
use taut_session::motion::{Joints, Motion, Schema};

use self::packet::{CONTROL_BYTES, PRESENT_BYTES, errors, register, signed, sync_read, sync_write};
use self::port::{Port, after, readable};

/// Its servos, from the base.
const SERVOS: [u8; 6] = [1, 2, 3, 4, 5, 6];
/// What each of them moves, as the arm's own URDF has it.
pub(crate) const JOINTS: [&str; 6] =
    ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"];
/// What is 0 rad: the middle of a turn, where calibration puts the middle of each joint's range.
const MIDDLE: f32 = 2_048.0;
const STEPS_PER_RADIAN: f32 = 4_096.0 / std::f32::consts::TAU;
/// Of an STS3215 at 7.4 V, N·m: 19.5 kg·cm (Feetech's data sheet). The arm's 12 V version has 30 kg·cm, and its efforts are as much larger.
const STALL_TORQUE: f32 = 1.91;
/// It is asked so often where it is; six answers take 1 to 2 ms.
const PERIOD: Duration = Duration::from_millis(4);
/// All servos answer within that.
const PATIENCE: Duration = Duration::from_millis(3);
/// A servo that did not answer so often is gone.
const SILENT: u32 = 5;
/// Periods between reports to the operator: 50 a second.
const REPORT: u32 = 5;
/// Between two words on what is wrong with a leader.
const WORDS: Duration = Duration::from_secs(1);
/// Until a bus that is gone is opened again.
const AGAIN: Duration = Duration::from_millis(500);
/// Until all are there and have their limits: at the start, and when it is to move.
const FIRST: Duration = Duration::from_secs(1);
const AT_ONCE: Duration = Duration::from_millis(20);

/// Until a bus that another program has is tried again, at the start.
const TAKEN: std::time::Duration = std::time::Duration::from_millis(20);

fn is_taken(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ResourceBusy
}

/// Where the joints are, how fast they move, and how hard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Present {
    position: [f32; 6],
    velocity: [f32; 6],
    effort: [f32; 6],
}

/// Runs as a device until whoever started it is gone.
///
/// # Errors
/// One line: the bus cannot be opened or was pulled out, or servos do not answer.
pub(crate) fn run(path: &Path) -> Result<(), String> {
    let socket = DeviceSocket::of_process().map_err(|error| error.to_string())?;
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let said = |wrong: String| format!("{}: {wrong}", path.display());
    // Of a robot that was killed it may be open for a moment longer.
    let until = after(FIRST);
    let mut bus = loop {
        match Bus::open(path) {
            Err(error) if is_taken(&error) && Clock::since_boot() < until => std::thread::park_timeout(TAKEN),
            opened => break opened.map_err(at)?,
        }
    };
    bus.all(after(FIRST)).map_err(at)?.map_err(said)?;
    let (role, channels) = hello(&socket)?;
    let info = DeviceInfo {
        lease: true,
        real: true,
        by_channels: true,
        name: format!("SO-101 at {}", path.display()),
        ..DeviceInfo::default()
    };
    let mut arm = match role {
        Role::Robot => Arm::robot(bus, &channels)?,
        Role::Input => Arm::leader(bus, &channels)?,
    };
    arm.prepare(after(FIRST)).map_err(at)?.map_err(said)?;
    socket.send(&Frame::Device(info));
    while arm.turn(&socket).or_else(|error| arm.reopen(&socket, path, &error)).map_err(at)? {}
    arm.stop(0, "end_of_file");
    Ok(())
}

/// What this is to be, and the channels of the session.
fn hello(socket: &DeviceSocket) -> Result<(Role, Vec<ChannelInfo>), String> {
    let until = after(Duration::from_secs(10));
    let (mut role, mut count, mut channels) = (None, 0, Vec::new());
    while role.is_none() || channels.len() < count {
        match socket.recv() {
            Told::Frame(Ok(Frame::Hello { role: told, channels })) => {
                (role, count) = (Some(told), usize::from(channels))
            }
            Told::Frame(Ok(Frame::Channel(channel))) => channels.push(channel),
            Told::Frame(_) => {}
            Told::Nothing => {
                let left = until.saturating_since(Clock::since_boot());
                if left.is_zero() {
                    return Err("nobody said hello".to_owned());
                }
                readable(socket, PollFlags::IN, left).map_err(|error| error.to_string())?;
            }
            Told::Ended => return Err("nobody said hello".to_owned()),
        }
    }
    role.map(|role| (role, channels)).ok_or_else(|| "nobody said hello".to_owned())
}

/// The servos, of which some may be gone.
struct Bus {
    /// `None`: it was pulled out. While anybody has it open, the kernel gives its name to nobody else.
    port: Option<Port>,
    /// How often each did not answer, without a break.
    missed: [u32; 6],
}

impl Bus {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { port: Some(Port::open(path)?), missed: [0; 6] })
    }

    fn port(&mut self) -> std::io::Result<&mut Port> {
        self.port.as_mut().ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }

    /// Where all of them are, once all have answered one question; or what is wrong.
    fn all(&mut self, until: Time) -> std::io::Result<Result<Present, String>> {
        let mut present = Present::default();
        loop {
            let wrong = self.read(&mut present)?;
            if self.missed == [0; 6] {
                return Ok(wrong.map_or(Ok(present), Err));
            }
            if Clock::since_boot() >= until {
                let missing = SERVOS.iter().zip(self.missed).filter(|(_, missed)| *missed > 0);
                let missing: Vec<String> = missing.map(|(servo, _)| servo.to_string()).collect();
                return Ok(Err(format!(
                    "no answer of servo {} at 1 Mbit/s; is the arm's own power on, and are its servos numbered 1 to 6?",
                    missing.join(", ")
                )));
            }
        }
    }

    /// Where it is; what is wrong with a servo.
    fn read(&mut self, present: &mut Present) -> std::io::Result<Option<String>> {
        let answers = self.port()?.ask(
            &sync_read(register::PRESENT, PRESENT_BYTES, &SERVOS),
            SERVOS.len(),
            PATIENCE,
        )?;
        self.missed.iter_mut().for_each(|missed| *missed += 1);
        let mut wrong = None;
        for answer in answers {
            let Some(joint) = SERVOS.iter().position(|servo| *servo == answer.servo) else { continue };
            let Ok([p, q, v, w, l, m]) = <[u8; PRESENT_BYTES]>::try_from(answer.data) else { continue };
            self.missed[joint] = 0;
            present.position[joint] = (signed([p, q], 15) as f32 - MIDDLE) / STEPS_PER_RADIAN;
            present.velocity[joint] = signed([v, w], 15) as f32 / STEPS_PER_RADIAN;
            present.effort[joint] = signed([l, m], 10) as f32 / 1_000.0 * STALL_TORQUE;
            if answer.errors != 0 {
                wrong.get_or_insert_with(|| format!("servo {}: {}", answer.servo, errors(answer.errors)));
            }
        }
        let silent = self.missed.iter().position(|missed| *missed >= SILENT);
        Ok(silent.map(|joint| format!("servo {} does not answer", SERVOS[joint])).or(wrong))
    }

    fn write(&mut self, register: u8, values: [u16; 6]) -> std::io::Result<()> {
        let each: Vec<(u8, [u8; 2])> = SERVOS.into_iter().zip(values.map(u16::to_le_bytes)).collect();
        self.port()?.tell(&sync_write(register, &each))
    }

    fn torque(&mut self, on: bool) -> std::io::Result<()> {
        self.port()?.tell(&sync_write(register::TORQUE_ENABLE, &SERVOS.map(|servo| (servo, [u8::from(on)]))))
    }

    /// The first servo that does not hold, or not with this limit: nobody answers what is written.
    fn lacks(&mut self, torque_limit: [u16; 6]) -> std::io::Result<Option<u8>> {
        let request = sync_read(register::TORQUE_ENABLE, CONTROL_BYTES, &SERVOS);
        let answers = self.port()?.ask(&request, SERVOS.len(), PATIENCE)?;
        let holds = |(servo, limit): &(u8, u16)| {
            let answer = answers.iter().find(|answer| answer.servo == *servo);
            let data = answer.and_then(|answer| <[u8; CONTROL_BYTES]>::try_from(&answer.data[..]).ok());
            data.is_some_and(|[on, .., low, high]| on == 1 && u16::from_le_bytes([low, high]) == *limit)
        };
        let lacking = SERVOS.into_iter().zip(torque_limit).find(|servo| !holds(servo));
        Ok(lacking.map(|(servo, _)| servo))
    }

    fn go(&mut self, position: [f32; 6]) -> std::io::Result<()> {
        self.write(
            register::GOAL_POSITION,
            position.map(|radians| (MIDDLE + radians * STEPS_PER_RADIAN).round().clamp(0.0, 4_095.0) as u16),
        )
    }
}

struct Arm {
    bus: Bus,
    role: Role,
    /// That it is moved by, as a robot; that it says its motion by, as an input.
    channel: ChannelId,
    /// That it says in JSON where it is, to the operator.
    reports: Option<ChannelId>,
    /// Until the next of these, in periods.
    report_in: u32,
    /// In thousandths of the stall torque.
    torque_limit: [u16; 6],
    present: Present,
    /// Where to go, and until when, once it is enabled.
    goal: Option<([f32; 6], Time)>,
    enabled: bool,
    /// What is wrong with the bus.
    wrong: Option<String>,
    /// Nothing is said of that until then.
    next_word: Time,
    /// That it stopped, until somebody reads that: the number of the stop, or 0, and why.
    unsaid: Option<(u32, String)>,
}

impl Arm {
    fn new(bus: Bus, role: Role, channel: ChannelId) -> Self {
        Self {
            bus,
            role,
            channel,
            reports: None,
            report_in: 0,
            torque_limit: [1_000; 6],
            present: Present::default(),
            goal: None,
            enabled: false,
            wrong: None,
            next_word: Time::ZERO,
            unsaid: None,
        }
    }

    fn robot(bus: Bus, channels: &[ChannelInfo]) -> Result<Self, String> {
        let moves = of_joints(channels).filter(|channel| channel.joints.len() == SERVOS.len());
        let moves = moves.ok_or_else(|| {
            "the arm is moved by a channel of taut/Joints with 6 joints and their limits, and --channels has none".to_owned()
        })?;
        let mut arm = Self::new(bus, Role::Robot, moves.channel);
        for (limit, [.., effort]) in arm.torque_limit.iter_mut().zip(&moves.joints) {
            *limit = (effort / STALL_TORQUE * 1_000.0).clamp(0.0, 1_000.0) as u16;
        }
        let reports = |channel: &&ChannelInfo| {
            channel.to_operator && channel.is_json && channel.name.ends_with("measured_js")
        };
        arm.reports = channels.iter().find(reports).map(|channel| channel.channel);
        Ok(arm)
    }

    fn leader(bus: Bus, channels: &[ChannelInfo]) -> Result<Self, String> {
        let moves = of_joints(channels).ok_or_else(|| {
            "a leader arm moves a channel of taut/Joints, and --channels has none".to_owned()
        })?;
        Ok(Self::new(bus, Role::Input, moves.channel))
    }

    /// A robot holds where it is, with its limits, which a servo that was without power has forgotten; a leader turns freely. What is wrong, when
    /// that is not so until then.
    fn prepare(&mut self, until: Time) -> std::io::Result<Result<(), String>> {
        loop {
            self.present = match self.bus.all(until)? {
                Ok(present) => present,
                Err(wrong) => return Ok(Err(wrong)),
            };
            if self.role == Role::Input {
                return self.bus.torque(false).map(Ok);
            }
            self.bus.write(register::TORQUE_LIMIT, self.torque_limit)?;
            self.hold()?;
            self.bus.torque(true)?;
            let Some(servo) = self.bus.lacks(self.torque_limit)? else { return Ok(Ok(())) };
            if Clock::since_boot() >= until {
                return Ok(Err(format!("servo {servo} does not say that it holds within its torque limit")));
            }
        }
    }

    fn hold(&mut self) -> std::io::Result<()> {
        self.goal = None;
        self.bus.go(self.present.position)
    }

    /// Asks where it is, hears what to do, and does it. False: nobody is there any more.
    ///
    /// # Errors
    /// The bus is gone.
    fn turn(&mut self, socket: &DeviceSocket) -> std::io::Result<bool> {
        let due = after(PERIOD);
        let wrong = self.bus.read(&mut self.present)?;
        self.find(wrong);
        if let Some(wrong) = self.wrong.clone().filter(|_| self.enabled) {
            self.stop(0, &wrong);
        }
        if self.bus.missed == [0; 6] {
            let motion = Motion::Joints(self.joints());
            socket.send(&Frame::Motion { channel: self.channel, motion });
            self.report(socket);
        }
        if !self.obey_until(socket, due)? {
            return Ok(false);
        }
        match self.goal.filter(|_| self.enabled) {
            Some((_, until)) if until <= Clock::since_boot() => self.stop(0, "lease"),
            Some((goal, _)) => self.bus.go(goal)?,
            None => {}
        }
        self.answer(socket);
        Ok(true)
    }

    /// The bus is gone: it stopped, and moves again when the bus is back and it is enabled. False: nobody is there any more.
    fn reopen(
        &mut self,
        socket: &DeviceSocket,
        path: &Path,
        error: &std::io::Error,
    ) -> std::io::Result<bool> {
        let wrong = format!("bus: {error}");
        self.stop(0, &wrong);
        self.find(Some(wrong));
        loop {
            self.bus.port = None;
            self.answer(socket);
            if !self.obey_until(socket, after(AGAIN))? {
                return Ok(false);
            }
            match Bus::open(path) {
                Ok(bus) => self.bus = bus,
                Err(error) => {
                    if is_taken(&error) {
                        self.find(Some(format!("bus: {error}")));
                    }
                    continue;
                }
            }
            if self.prepare(after(AT_ONCE)).is_ok_and(|prepared| prepared.is_ok()) {
                self.find(None);
                return Ok(true);
            }
        }
    }

    /// What is wrong with the bus now. A leader has nobody else whom it could tell.
    fn find(&mut self, wrong: Option<String>) {
        let now = Clock::since_boot();
        if self.role == Role::Input && wrong != self.wrong && now >= self.next_word {
            self.next_word = now + WORDS;
            let says = wrong.as_deref().unwrap_or("it answers again");
            crate::say(&format!("the leader arm: {says}"));
        }
        self.wrong = wrong;
    }

    fn answer(&mut self, socket: &DeviceSocket) {
        if let Some((number, why)) = &self.unsaid
            && socket.send(&Frame::Stopped { number: *number, why: why.clone() })
        {
            self.unsaid = None;
        }
    }

    /// False: nobody is there any more.
    fn obey_until(&mut self, socket: &DeviceSocket, due: Time) -> std::io::Result<bool> {
        loop {
            match socket.recv() {
                Told::Frame(frame) => {
                    self.obey(frame.ok());
                    self.answer(socket);
                }
                Told::Ended => return Ok(false),
                Told::Nothing => {
                    let left = due.saturating_since(Clock::since_boot());
                    if left.is_zero() {
                        return Ok(true);
                    }
                    readable(socket, PollFlags::IN, left)?;
                }
            }
        }
    }

    fn obey(&mut self, frame: Option<Frame>) {
        match (self.role, frame) {
            (Role::Input, _) | (_, Some(Frame::Limits(_) | Frame::Message { .. })) => {}
            (_, Some(Frame::Enable)) if self.enabled => self.goal = None,
            (_, Some(Frame::Enable)) => match self.ready() {
                Some(wrong) => self.stop(0, &wrong),
                None => (self.enabled, self.goal) = (true, None),
            },
            (_, Some(Frame::Drive { channel, until, motion: Motion::Joints(joints) }))
                if channel == self.channel =>
            {
                if let (true, Ok(goal)) = (self.enabled, <[f32; 6]>::try_from(joints.position())) {
                    self.goal = Some((goal, until));
                }
            }
            (_, Some(Frame::Stop { number, .. })) => self.stop(number, "told"),
            // Whoever says what nobody understands may have meant a stop.
            _ => self.stop(0, "junk"),
        }
    }

    /// Is it ready to move? What is wrong, when it is not. Its power may have been away since it stopped.
    fn ready(&mut self) -> Option<String> {
        self.wrong.clone().or_else(|| match self.prepare(after(AT_ONCE)) {
            Ok(prepared) => prepared.err(),
            Err(error) => Some(format!("bus: {error}")),
        })
    }

    /// It holds where it is. That the bus does not take that is seen when it is asked next. A leader has nothing to stop.
    fn stop(&mut self, number: u32, why: &str) {
        if self.role == Role::Input {
            return;
        }
        self.enabled = false;
        // An order that waits for its answer gets it.
        let waits = self.unsaid.as_ref().map_or(0, |(number, _)| *number);
        self.unsaid = Some((if number == 0 { waits } else { number }, why.to_owned()));
        let _ = self.hold();
    }

    fn report(&mut self, socket: &DeviceSocket) {
        let Some(channel) = self.reports else { return };
        self.report_in = self.report_in.checked_sub(1).unwrap_or(REPORT - 1);
        if self.report_in == 0 {
            let Present { position, velocity, effort } = self.present;
            let said = json!({ "position_rad": position, "velocity_radps": velocity, "effort_nm": effort });
            let payload = said.to_string().into_bytes();
            socket.send(&Frame::Message { channel, age: None, more: false, payload });
        }
    }

    fn joints(&self) -> Joints {
        let Present { position, velocity, effort } = &self.present;
        let joints = Joints::new(position)
            .and_then(|joints| joints.with_velocity(velocity))
            .and_then(|joints| joints.with_effort(effort));
        let mut joints = joints.expect("six of each");
        // Nobody knows whether somebody holds a leader: it has no enabling input.
        joints.enabling = false;
        joints
    }
}

fn of_joints(channels: &[ChannelInfo]) -> Option<&ChannelInfo> {
    channels.iter().find(|channel| channel.motion == Some(Schema::Joints) && !channel.to_operator)
}

/// The words that start it, from `so101:PORT`.
///
/// # Errors
/// Says how it is written.
pub(crate) fn words(port: &str) -> Result<Vec<String>, String> {
    if port.is_empty() {
        return Err("so101: is followed by the arm's serial port, such as so101:/dev/ttyACM0".to_owned());
    }
    let taut = std::env::current_exe().map_err(|error| format!("so101: {error}"))?;
    Ok(vec![taut.display().to_string(), "device".to_owned(), format!("so101:{port}")])
}

/// Its serial port.
pub(crate) fn port(text: &str) -> Option<PathBuf> {
    text.strip_prefix("so101:").filter(|port| !port.is_empty()).map(PathBuf::from)
}
