//! `taut gate`: the frame gate at a network device.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use taut_core::Duration;
use taut_io::drop_privileges;
use taut_link::frame_gate::{self, Filter, Policy};
use taut_wire::rtp::Codec;
use taut_xdp::{
    AttachedGate, GateConfig, GateError, Mode, Request, Status, VideoFilter, Watch, ask, attached_devices,
    needed_capabilities,
};

use crate::host::{OnSignal, privileges};
use crate::quantity::{HOUR, MILLISECOND, between};
use crate::{Ended, print, print_json};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Put a gate at the device on which video enters; it is off when this command ends (needs root)
    Attach(Box<Attach>),
    /// What the gates of this host have done
    Status(Show),
    /// Take a gate off, whose command then ends
    Detach {
        /// The device
        device: String,
    },
}

#[derive(Args)]
pub(crate) struct Attach {
    /// The device on which video enters
    device: String,
    /// What is video: udp:PORT, udp:ADDRESS:PORT or, with IPv6, `udp:[ADDRESS]:PORT` of its destination, and behind it, if need
    /// be, what it alone has: `,codec=h264,payload-type=97`. Repeatable, up to 4
    #[arg(long, value_name = "udp:PORT", required = true)]
    video: Vec<Video>,
    /// Only packets of this RTP payload type, 0 to 127 but for 64 to 95, which are RTCP's
    #[arg(long, value_name = "TYPE", value_parser = payload_type)]
    payload_type: Option<u8>,
    /// How key frames are told: vp8, h264, opaque (not at all)
    #[arg(long, default_value = "vp8", value_parser = codec)]
    codec: Codec,
    /// How strictly it is steered: step, dyna1 to dyna5, aimd1 to aimd5, deadline
    #[arg(long, default_value = "deadline")]
    policy: Policy,
    /// The queue that video waits in: qdisc:DEVICE, qdisc:DEVICE/1:2 (at a class), qdisc:DEVICE/30: (by its handle)
    #[arg(long, value_name = "qdisc:DEVICE")]
    watch: Watch,
    /// Where the program runs: native (in the driver), generic, auto
    #[arg(long, default_value = "auto")]
    mode: Mode,
    /// How far back the largest bandwidth is looked for
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    bandwidth_over: Duration,
    /// The source's policies: find it once, in the first such time in which the queue drops, and keep it
    #[arg(long)]
    bandwidth_once: bool,
    /// The source's policies: as many packets may be dropped between two readings as if there were none [default: 0]
    #[arg(long, value_name = "PACKETS")]
    loss_threshold: Option<u64>,
    /// How often the queue is read and the limit changed
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = between(MILLISECOND, HOUR))]
    update_interval: Duration,
    /// The source's policies: how often the count of bytes begins anew [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = between(MILLISECOND, HOUR))]
    reset_interval: Option<Duration>,
    /// Policy deadline: how long a frame may wait before its first packet is sent, at most [default: 200ms]
    #[arg(long, value_name = "DURATION")]
    wait: Option<Duration>,
    /// Policy deadline: when all of a frame must have been sent [default: 150ms]
    #[arg(long, value_name = "DURATION")]
    deadline: Option<Duration>,
    /// Policy deadline: when all of a key frame must have been sent [default: 400ms]
    #[arg(long, value_name = "DURATION")]
    key_deadline: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct Show {
    /// Only of this device
    device: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Print as metrics for Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

pub(crate) fn gate(command: Command) -> Ended {
    match command {
        Command::Attach(arguments) => attach(&arguments),
        Command::Status(arguments) => status(&arguments),
        Command::Detach { device } => {
            ask(&device, Request::Detach).map_err(|error| error.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Told by one command: enough for a stream that begins anew every day.
const MOST_NOTES: usize = 1_000;

impl Attach {
    /// # Errors
    /// One line: what is of another policy would do nothing.
    fn control(&self) -> Result<frame_gate::GateConfig, String> {
        let by_deadline = self.policy == Policy::Deadline;
        let source = "step, dyna1 to dyna5 and aimd1 to aimd5";
        let options = [
            ("--reset-interval", self.reset_interval.is_some(), !by_deadline, source),
            ("--bandwidth-once", self.bandwidth_once, !by_deadline, source),
            ("--loss-threshold", self.loss_threshold.is_some(), !by_deadline, source),
            ("--wait", self.wait.is_some(), by_deadline, "deadline"),
            ("--deadline", self.deadline.is_some(), by_deadline, "deadline"),
            ("--key-deadline", self.key_deadline.is_some(), by_deadline, "deadline"),
        ];
        if let Some((option, .., of)) = options.iter().find(|(_, is_given, is_used, _)| *is_given && !is_used)
        {
            return Err(format!("{option} does nothing here: it is for --policy {of}"));
        }
        let usual = frame_gate::GateConfig::new(self.policy);
        Ok(frame_gate::GateConfig {
            bandwidth_over: self.bandwidth_over,
            bandwidth_once: self.bandwidth_once,
            loss_threshold: self.loss_threshold.unwrap_or(usual.loss_threshold),
            update_interval: self.update_interval,
            reset_interval: self.reset_interval.unwrap_or(usual.reset_interval),
            wait: self.wait.unwrap_or(usual.wait),
            deadline: self.deadline.unwrap_or(usual.deadline),
            key_deadline: self.key_deadline.unwrap_or(usual.key_deadline),
            ..usual
        })
    }
}

fn attach(arguments: &Attach) -> Ended {
    let control = arguments.control()?;
    let filters = arguments.video.iter().map(|video| video.filter(arguments)).collect();
    let config = GateConfig::new(&arguments.device, filters, arguments.watch.clone(), control);
    let mut gate = AttachedGate::attach(config.mode(arguments.mode)).map_err(|error| error.to_string())?;
    // Before there is a second thread, which would keep them. Until then a signal ends all at once, the gate too.
    drop_privileges(needed_capabilities()).map_err(privileges)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let _signals = OnSignal::new(move || stopped.store(true, Ordering::Relaxed))?;
    let at = gate.status().map_err(|error| error.to_string())?;
    print(&format!("{} ({}): {}, reading {}\n", at.device, at.mode, at.policy, at.watch))?;
    let mut told = BTreeSet::new();
    while !stop.load(Ordering::Relaxed) && gate.turn().map_err(|error| error.to_string())? {
        for note in gate.notes() {
            if told.len() < MOST_NOTES && told.insert(note.clone()) {
                crate::say(&note.to_string());
            }
        }
    }
    let status = gate.status().map_err(|error| error.to_string())?;
    drop(gate);
    print(&summary(&status))?;
    Ok(ExitCode::SUCCESS)
}

fn status(arguments: &Show) -> Ended {
    let devices = match &arguments.device {
        Some(device) => vec![device.clone()],
        None => attached_devices().map_err(|error| error.to_string())?,
    };
    let (mut statuses, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for device in &devices {
        match ask(device, Request::Status) {
            Ok(status) => statuses.push(status),
            Err(error) if arguments.device.is_some() => return Err(error.to_string()),
            // One that does not answer hides nothing of the others.
            Err(error) => {
                crate::say(&format!("{device}: {error}"));
                // A name that somebody has taken is nobody's gate.
                if !matches!(error, GateError::Stranger { .. }) {
                    ended = ExitCode::FAILURE;
                }
            }
        }
    }
    if arguments.json {
        print_json(&statuses)?;
    } else if arguments.prometheus {
        print(&Status::prometheus(&statuses))?;
    } else if devices.is_empty() {
        print("no gate in this network namespace\n")?;
    } else {
        print(&statuses.iter().map(summary).collect::<String>())?;
    }
    Ok(ended)
}

fn summary(status: &Status) -> String {
    let Status { device, mode, policy, watch, queue_drops, .. } = status;
    let rate = status.bandwidth_bps as f64 / 1e6;
    // `deadline` has no k.
    let k = if policy == "deadline" { String::new() } else { format!(", k = {:.2}", status.k) };
    let limits = if status.limiting { "limits" } else { "does not limit yet" };
    let mut text = format!(
        "{device} ({mode}): {policy}{k}, {limits}; {watch} sends {rate:.3} Mbit/s, dropped {queue_drops} packets\n"
    );
    for stream in &status.streams {
        let which =
            stream.ssrc.map_or_else(|| "streams of before".to_owned(), |ssrc| format!("SSRC {ssrc:#010x}"));
        text += &format!(
            "  {}, {which}: {} frames passed, {} dropped; {} packets passed, {} dropped\n",
            stream.video,
            stream.passed_frames,
            stream.dropped_frames,
            stream.passed_packets,
            stream.dropped_packets
        );
    }
    for note in &status.notes {
        text += &format!("  {note}\n");
    }
    text
}

fn codec(text: &str) -> Result<Codec, String> {
    let found = Codec::ALL.into_iter().find(|codec| codec.name() == text);
    found.ok_or_else(|| format!("`{text}` is no codec of the gate: vp8, h264, opaque"))
}

fn payload_type(text: &str) -> Result<u8, String> {
    let parsed = text.parse().ok().filter(|only| matches!(only, 0..64 | 96..128));
    parsed.ok_or_else(|| format!("`{text}` is no payload type of video: 0 to 63, 96 to 127"))
}

/// Where video goes, and what it is where that is not what all are.
#[derive(Clone, Copy, Debug)]
struct Video {
    address: Option<IpAddr>,
    port: u16,
    codec: Option<Codec>,
    payload_type: Option<u8>,
}

impl Video {
    fn filter(self, arguments: &Attach) -> VideoFilter {
        let filter = Filter::port(self.port).codec(self.codec.unwrap_or(arguments.codec));
        let only = self.payload_type.or(arguments.payload_type);
        let filter = VideoFilter::new(only.map_or(filter, |only| filter.payload_type(only)));
        self.address.map_or(filter, |address| filter.to(address))
    }

    fn at(place: &str) -> Option<Self> {
        let rest = place.strip_prefix("udp:")?;
        let (address, port) = match rest.rsplit_once(':') {
            None => (None, rest),
            Some((address, port)) => {
                let bare = address.strip_prefix('[').and_then(|inside| inside.strip_suffix(']'));
                (Some(bare.unwrap_or(address).parse().ok()?), port)
            }
        };
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(Self { address, port, codec: None, payload_type: None })
    }
}

impl FromStr for Video {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let video = parts.next().and_then(Self::at);
        let mut video = video.ok_or_else(|| {
            format!("`{text}` names no video: udp:5004, udp:10.0.0.2:5004 or udp:[fd00::2]:5004")
        })?;
        for part in parts {
            match part.split_once('=') {
                Some(("codec", name)) => video.codec = Some(codec(name)?),
                Some(("payload-type", only)) => video.payload_type = Some(payload_type(only)?),
                _ => return Err(format!("`{part}` is nothing that video has: codec=h264, payload-type=97")),
            }
        }
        Ok(video)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        attach: Attach,
    }

    fn filters(arguments: &str) -> Vec<String> {
        let line = format!("attach eth1 --watch qdisc:eth0 {arguments}");
        let Line { attach } = Line::try_parse_from(line.split(' ')).unwrap();
        attach.video.iter().map(|video| video.filter(&attach).to_string()).collect()
    }

    #[test]
    fn cameras_of_two_codecs_are_gated_together() {
        let two = "--video udp:5004 --video udp:[fd00::2]:5006,codec=h264,payload-type=97";
        assert_eq!(filters(two), ["udp:5004", "udp:[fd00::2]:5006,codec=h264,payload-type=97"]);
        // What is said of all holds for those that say nothing themselves.
        let of_all = "--codec h264 --payload-type 98 --video udp:5004 --video udp:10.0.0.2:5006,codec=vp8";
        let expected = ["udp:5004,codec=h264,payload-type=98", "udp:10.0.0.2:5006,payload-type=98"];
        assert_eq!(filters(of_all), expected);
    }

    #[test]
    fn what_video_does_not_have_is_refused_by_name() {
        let refused = |text: &str| text.parse::<Video>().unwrap_err();
        assert_eq!(refused("udp:5004,codec=av1"), "`av1` is no codec of the gate: vp8, h264, opaque");
        assert_eq!(
            refused("udp:5004,fps=60"),
            "`fps=60` is nothing that video has: codec=h264, payload-type=97"
        );
        for only in ["64", "95", "128", "x"] {
            let expected = format!("`{only}` is no payload type of video: 0 to 63, 96 to 127");
            assert_eq!(refused(&format!("udp:5004,payload-type={only}")), expected);
        }
    }
}
