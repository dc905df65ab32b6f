//! An operator's device with what comes over channels: a program, or lines.

use std::io;

use serde_json::{Value, json};
use taut_core::printable;
use taut_io::Clock;
use taut_io::device::lines::{MessageLine, Splitter};
use taut_io::device::{Buttons, DeviceDrops, InputLines, LineInput, ProcessInput, lines_of};
use taut_session::Priority;

use crate::channels::Channels;
use crate::host::json_line;
use crate::input::{Device, Input};
use crate::streams::{Complaints, print};

/// The operator's device, and what else there is of it.
pub(crate) struct Opened {
    pub(crate) device: Device,
    /// Where lines of standard input go.
    pub(crate) lines: Option<LineTaker>,
    pub(crate) drops: Option<DeviceDrops>,
    /// Asked at the end: did its program fail, and end the session by that?
    pub(crate) failed: Option<Box<dyn Fn() -> bool>>,
    /// What is pressed on it.
    pub(crate) buttons: Buttons,
}

/// How what comes is told, where no program is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown {
    Text(Clock),
    Json(Clock),
    /// The whole terminal is something else.
    Nowhere,
}

/// `device` makes states, unless the input is a program or lines, whose states are so urgent.
pub(crate) fn open(
    input: &Input,
    device: Option<Device>,
    priority: Priority,
    channels: &Channels,
    shown: Shown,
    buttons: Buttons,
) -> Result<Opened, String> {
    let known = channels.lines();
    let cannot = |error: io::Error| format!("the input: {error}");
    if let Input::Process(program) = input {
        let mut complaints = Complaints::default();
        let cannot = |error| format!("the input `{}` cannot be started: {error}", program.words().join(" "));
        let complain = move |why: &str| complain(&mut complaints, why);
        let device = ProcessInput::start(program.words(), &known, buttons.clone(), complain);
        let device = device.map_err(cannot)?.priority(priority);
        let (drops, failed) = (Some(device.message_drops()), Some(Box::new(device.failed()) as _));
        return Ok(Opened { device: Box::new(device), lines: None, drops, failed, buttons });
    }
    let device = match device {
        Some(device) if channels.is_empty() => {
            return Ok(Opened { device, lines: None, drops: None, failed: None, buttons });
        }
        device => LineInput::new(device, &known).priority(priority),
    };
    if !matches!(shown, Shown::Nowhere) {
        device.tells(move |message| tell(shown, message)).map_err(cannot)?;
    }
    let lines = input.reads_stdin().then(|| LineTaker {
        splitter: lines_of(&known),
        lines: device.lines(),
        complaints: Complaints::default(),
    });
    let drops = Some(device.message_drops());
    Ok(Opened { device: Box::new(device), lines, drops, failed: None, buttons })
}

/// Takes the JSON Lines of standard input.
pub(crate) struct LineTaker {
    splitter: Splitter,
    lines: InputLines,
    complaints: Complaints,
}

impl LineTaker {
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let Self { splitter, lines, complaints } = self;
        splitter.take(bytes, |line| {
            if let Err(why) = lines.take(line) {
                complain(complaints, &why);
            }
        });
    }
}

fn complain(complaints: &mut Complaints, why: &str) {
    complaints.say(&format!("the input: {}", printable(why)), false);
}

/// Prints a message that came. True: tell more.
fn tell(shown: Shown, message: MessageLine) -> bool {
    match shown {
        Shown::Json(clock) => print(&json_line("message", clock.now(), as_json(message))),
        Shown::Text(clock) => {
            let what = match (&message.payload, &message.base64) {
                (Some(json), _) => printable(json.text()).at_most(200).to_string(),
                (None, text) => format!("{} B of base64", text.as_ref().map_or(0, String::len)),
            };
            print(&format!(
                "{:>9.3} s  {}: {what}\n",
                clock.now().as_secs_f64(),
                printable(&message.channel)
            ));
        }
        Shown::Nowhere => {}
    }
    true
}

fn as_json(message: MessageLine) -> Vec<(&'static str, Value)> {
    let payload = message.payload.and_then(|json| serde_json::from_str(json.text()).ok());
    let payload = payload.map(|payload: Value| ("payload", payload));
    let bytes = message.base64.map(|text| ("base64", json!(text)));
    let mut more = vec![("channel", json!(message.channel)), ("age_ms", json!(message.age_ms))];
    more.extend(payload.into_iter().chain(bytes));
    more
}
