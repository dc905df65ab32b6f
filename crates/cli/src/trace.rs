//! `taut trace`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use taut_core::{Bytes, Duration, Seed};
use taut_lab::scenario;
use taut_lab::traces::{Samples, Video};
use taut_trace::{Datagram, Ivf};

use crate::quantity::{HOUR, MILLISECOND, between};
use crate::{Ended, print, print_json, say};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// What is in a recording: CSV, MCAP, pcap, pcapng, mahimahi
    Info {
        /// The recording
        file: PathBuf,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Convert a recording to CSV or MCAP, by the ending of OUT
    Convert {
        /// The recording
        input: PathBuf,
        /// Where to, ending in .csv or .mcap
        output: PathBuf,
    },
    /// Finish an MCAP file whose writer was killed, in place: what is whole stays, and other programs can open it
    #[cfg(feature = "sockets")]
    Repair {
        /// The recording
        file: PathBuf,
    },
    /// Make RTP packets of a VP8 encode, as a pcap with their times
    Video(VideoArguments),
    /// Make packets of what a simulated device finds worth sending, as a pcap with their times
    Device(DeviceArguments),
}

#[derive(Args)]
pub(crate) struct VideoArguments {
    /// The encode, an IVF file
    clip: PathBuf,
    /// Where to, a pcap file
    output: PathBuf,
    /// The largest packet on the wire, 100B to 65535B
    #[arg(long, default_value = "1228B", value_parser = packet)]
    packet: Bytes,
    /// Exactly so many packets instead: the largest that are enough of them
    #[arg(long, conflicts_with = "packet")]
    packets: Option<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(crate) struct DeviceArguments {
    /// Whose: the leader's positions and velocities, or the follower's force
    device: Device,
    /// Where to, a pcap file
    output: PathBuf,
    /// The Weber fraction of the deadband, 0 to 1
    #[arg(long, default_value_t = 0.1, value_parser = fraction)]
    deadband: f64,
    /// Exactly so many packets instead: the widest deadband that lets as many through
    #[arg(long, conflicts_with = "deadband")]
    packets: Option<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// How much of it
    #[arg(long, default_value = "241s", value_parser = between(MILLISECOND, HOUR))]
    duration: Duration,
    /// Where RTP's counters begin, what the operator does
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Device {
    Leader,
    Follower,
}

fn packet(text: &str) -> Result<Bytes, String> {
    let packet: Bytes = text.parse().map_err(|error: taut_core::ParseQuantityError| error.to_string())?;
    if (100..=65_535).contains(&packet.get()) {
        Ok(packet)
    } else {
        Err("a packet has 100B to 65535B".into())
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let k: f64 = text.parse().map_err(|_| "a number is needed".to_owned())?;
    if (0.0..=1.0).contains(&k) { Ok(k) } else { Err("a Weber fraction is from 0 to 1".into()) }
}

pub(crate) fn trace(command: &Command) -> Ended {
    match command {
        Command::Info { file, json } => {
            let info = taut_trace::info_of(file).map_err(|e| e.to_string())?;
            if *json {
                print_json(&info)?;
            } else {
                print(&format!("{info}\n"))?;
            }
        }
        Command::Convert { input, output } => {
            for note in taut_trace::convert(input, output).map_err(|e| e.to_string())? {
                say(&note);
            }
            print(&format!("{} written\n", output.display()))?;
        }
        #[cfg(feature = "sockets")]
        Command::Repair { file } => {
            use taut_io::recording::{Repaired, repair};
            let name = file.display();
            match repair(file).map_err(|error| format!("{name}: {error}"))? {
                Repaired::WasWhole => print(&format!("{name} is whole\n"))?,
                Repaired::Finished { lost } => print(&format!("{name} finished; {lost} bytes lost\n"))?,
            }
        }
        Command::Video(arguments) => video(arguments)?,
        Command::Device(arguments) => device(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn video(VideoArguments { clip, output, packet, packets, common }: &VideoArguments) -> Result<(), String> {
    taut_trace::refuse_same(clip, output).map_err(|error| error.to_string())?;
    let name = clip.display().to_string();
    let bytes = std::fs::read(clip).map_err(|error| format!("{name}: {error}"))?;
    let ivf = Ivf::parse(&name, &bytes).map_err(|error| error.to_string())?;
    let of_clip = |error| format!("{name}: {error}");
    let video = Video::new(&ivf, common.duration, Seed::new(common.seed)).map_err(of_clip)?;
    let frames = video.frames();
    let datagrams = match packets {
        Some(packets) => video.in_packets(*packets).map_err(of_clip)?,
        None => video.in_packets_of(*packet),
    };
    write(output, &datagrams, &format!(", {frames} frames"))
}

fn device(
    DeviceArguments { device, output, deadband, packets, common }: &DeviceArguments,
) -> Result<(), String> {
    let device = match device {
        Device::Leader => scenario::Device::Leader,
        Device::Follower => scenario::Device::Follower,
    };
    let samples = Samples::new(device, common.duration, Seed::new(common.seed));
    let (datagrams, k) = match packets {
        Some(packets) => samples.in_packets(*packets).map_err(|error| error.to_string())?,
        None => (samples.through(*deadband), *deadband),
    };
    write(output, &datagrams, &format!(", a deadband of {k:.6}"))
}

/// Says how many there are, how long they take, and how long the longest is on the wire.
fn write(output: &Path, datagrams: &[Datagram], more: &str) -> Result<(), String> {
    let name = output.display();
    taut_trace::write_bytes(output, &taut_trace::write_pcap(datagrams)).map_err(|error| error.to_string())?;
    let seconds = datagrams.last().map_or(0.0, |last| last.time.as_secs_f64());
    let longest = datagrams.iter().map(Datagram::size).max().unwrap_or_default();
    print(&format!("{name}: {} packets of up to {longest}{more}, in {seconds:.3} s\n", datagrams.len()))
}
