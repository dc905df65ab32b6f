//! A gate at a device, and its control loop.

use std::os::unix::net::UnixListener;
use std::str::FromStr;

use aya::programs::links::FdLink;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netdevice::name_to_index;
use rustix::time::{ClockId, clock_gettime};
use taut_core::{Duration, Time};
use taut_link::frame_gate::{self, Controller, IdleStreams, QueueReading};

use super::doubts::Doubts;
use super::socket::{accept, answer, listen};
use super::{GateError, Program, QueueReader, Request, Status, StreamStatus, VideoFilter, Watch};

taut_core::named! {
    /// Where in the kernel the program runs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Mode {
        /// Native where the driver can, generic otherwise.
        #[default]
        Auto = "auto",
        /// In the driver, before a packet has a `sk_buff`.
        Native = "native",
        /// After the driver, with every device.
        Generic = "generic",
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("`{text}` is no mode of XDP: auto, native, generic"))
    }
}

/// A gate to be attached.
#[derive(Clone, Debug)]
pub struct GateConfig {
    device: String,
    filters: Vec<VideoFilter>,
    watch: Watch,
    control: frame_gate::GateConfig,
    mode: Mode,
}

impl GateConfig {
    /// At `device`, where video enters; `filters` say what is video (1 to 4), `watch` in which queue it waits afterwards.
    pub fn new(
        device: &str,
        filters: Vec<VideoFilter>,
        watch: Watch,
        control: frame_gate::GateConfig,
    ) -> Self {
        Self { device: device.to_owned(), filters, watch, control, mode: Mode::Auto }
    }

    /// Where the program runs. Default [`Mode::Auto`].
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// A gate that is attached until this value is dropped, or the process ends in whatever way.
pub struct AttachedGate {
    // Fields are dropped in this order: first nothing is dropped any more, then nobody answers.
    link: Option<FdLink>,
    program: Program,
    reader: QueueReader,
    controller: Controller,
    reading: QueueReading,
    idle: IdleStreams,
    /// What became of streams that are no longer in the program's map.
    forgotten: Vec<StreamStatus>,
    doubts: Doubts,
    device: String,
    index: u32,
    native: bool,
    config: frame_gate::GateConfig,
    listener: UnixListener,
}

/// At least so often a loop looks whether it shall end, and whether the device is still there.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl AttachedGate {
    /// Attaches a gate to a device in the network namespace of the calling thread. It must be run from that thread.
    ///
    /// # Errors
    /// See [`GateError`]. Then nothing is attached.
    pub fn attach(config: GateConfig) -> Result<Self, GateError> {
        let GateConfig { device, filters, watch, control, mode } = config;
        let mut reader = QueueReader::new(watch)?;
        let index = device_index(&device).ok_or_else(|| GateError::NoDevice(device.clone()))?;
        let listener = listen(&device)?;
        let mut program = Program::load(&filters)?;
        let reading = reader.read()?;
        let mut controller = Controller::new(control, now());
        controller.handle_timeout(now(), || reading, program.maps());
        program.maps().check()?;
        let (link, native) = match mode {
            Mode::Native => (program.attach(&device, index, true)?, true),
            Mode::Generic => (program.attach(&device, index, false)?, false),
            Mode::Auto => match program.attach(&device, index, true) {
                Err(GateError::NoNativeXdp(_)) => (program.attach(&device, index, false)?, false),
                attached => (attached?, true),
            },
        };
        Ok(Self {
            link: Some(link),
            program,
            reader,
            controller,
            reading,
            idle: IdleStreams::default(),
            forgotten: Vec::new(),
            doubts: Doubts::new(&device, now()),
            device,
            index,
            native,
            config: control,
            listener,
        })
    }

    /// Does what is due, answers who asks, and waits for at most 200 ms for either. `false` once it was asked to detach.
    ///
    /// # Errors
    /// When the queue or the device is gone, or a map fails. The gate is still attached then: drop it.
    pub fn turn(&mut self) -> Result<bool, GateError> {
        let due = self.controller.poll_timeout().min(now() + LOOK_EVERY);
        let wait = due.saturating_since(now()).as_nanos();
        let wait = Timespec { tv_sec: 0, tv_nsec: wait as i64 };
        // An interruption by a signal is as good as a timeout.
        let _ = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&wait));
        while let Some((request, stream)) = accept(&self.listener) {
            let status = self.status()?;
            if request == Request::Detach {
                self.link = None;
                answer(&stream, &status);
                return Ok(false);
            }
            answer(&stream, &status);
        }
        if device_index(&self.device) != Some(self.index) {
            return Err(GateError::DeviceGone(self.device.clone()));
        }
        let now = now();
        if self.controller.poll_timeout() <= now {
            self.reading = self.reader.read()?;
            self.controller.handle_timeout(now, || self.reading, self.program.maps());
            self.program.maps().check()?;
            let (streams, untracked) = (self.program.maps().streams(), self.program.maps().untracked() > 0);
            let by_deadline = self.controller.settings().by_deadline;
            self.doubts.look(now, self.program.maps().filters(), &streams, by_deadline, untracked);
            for key in self.idle.forgotten(now, streams.iter().map(|(key, stream)| (*key, stream))) {
                let maps = self.program.maps();
                for (_, stream) in streams.iter().filter(|(other, _)| *other == key) {
                    StreamStatus::new(key, maps.filters(), stream).forget(&mut self.forgotten);
                }
                maps.forget(key);
            }
        }
        Ok(true)
    }

    /// What seems to be wrong with what it was told is video, by what it has counted: a line each. From 5 s on; empty when all is well.
    pub fn notes(&self) -> &[String] {
        self.doubts.notes()
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// When a map fails.
    pub fn status(&mut self) -> Result<Status, GateError> {
        let settings = self.controller.settings();
        let maps = self.program.maps();
        let (streams, untracked_packets) = (maps.streams(), maps.untracked());
        let told = |(key, stream): &(_, _)| StreamStatus::new(*key, maps.filters(), stream);
        let told = streams.iter().map(told).chain(self.forgotten.iter().cloned()).collect();
        maps.check()?;
        let limited = !settings.by_deadline && settings.rate_limit != u64::MAX;
        Ok(Status {
            device: self.device.clone(),
            mode: if self.native { Mode::Native } else { Mode::Generic }.to_string(),
            policy: self.config.policy.to_string(),
            watch: self.reader.watch().to_string(),
            pid: std::process::id(),
            limiting: self.controller.limiting(),
            k: self.controller.k_ppm() as f64 / 1e6,
            bandwidth_bps: self.controller.bandwidth().as_bps(),
            rate_limit_bytes: limited.then_some(settings.rate_limit),
            queue_drops: self.reading.drops,
            queue_backlog_bytes: self.reading.backlog,
            untracked_packets,
            streams: told,
            notes: self.notes().to_vec(),
        })
    }
}

fn device_index(device: &str) -> Option<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    name_to_index(&socket, device).ok()
}

/// The clock that the program reads: `bpf_ktime_get_ns` is CLOCK_MONOTONIC.
fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
