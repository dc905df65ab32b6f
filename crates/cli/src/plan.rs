//! `taut plan`: the closed-form model from the command line, and by which control law to touch.

use std::process::ExitCode;

use clap::Args;
use taut_core::{Bitrate, Bytes, Duration};
use taut_qos::limits::Profile;
use taut_qos::model::{CrossFlow, Plan};
use taut_qos::touch::Thing;

use crate::{Ended, print, print_json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Rate of the bottleneck, such as 6Mbit
    #[arg(long)]
    rate: Bitrate,
    /// Propagation one way, such as 8ms
    #[arg(long)]
    delay: Duration,
    /// Size of the drop-tail queue, such as 14kB
    #[arg(long)]
    buffer: Bytes,
    /// Traffic beside the stream, separated by commas: `tcp[:SEGMENT[:ACK_EVERY]]`, `cbr:RATE[:PACKET]`
    #[arg(long, value_delimiter = ',', value_name = "FLOW,…")]
    cross: Vec<CrossFlow>,
    /// One packet of the stream on the wire
    #[arg(long, default_value_t = Plan::PACKET)]
    packet: Bytes,
    /// Time between packets of the stream
    #[arg(long, default_value_t = Plan::PERIOD)]
    period: Duration,
    /// Bytes of audio or video in each packet; 0B for a stream without
    #[arg(long, default_value_t = Plan::FRAGMENT)]
    fragment: Bytes,
    /// Bytes of an audio frame
    #[arg(long, default_value_t = Plan::AUDIO_FRAME)]
    audio_frame: Bytes,
    /// Video frames a second
    #[arg(long, default_value_t = Plan::FPS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    fps: u32,
    /// The arm touches this, and a control law has to keep it calm in the operator's hand: foam, spring or wall. Says which, and how stiff
    /// it is felt; simulates for some seconds
    #[arg(long, value_name = "THING")]
    touch: Option<Thing>,
    /// Whose limits: telehaptic, tr22847_dynamic, tr22847_stationary, jnd_damper, jnd_spring or jnd_inertia
    #[arg(long, value_name = "PROFILE", default_value_t)]
    limits: Profile,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// End with exit status 1 when a limit is not met
    #[arg(long)]
    strict: bool,
}

pub(crate) fn plan(arguments: &Arguments) -> Ended {
    let plan = Plan {
        rate: arguments.rate,
        delay: arguments.delay,
        buffer: arguments.buffer,
        cross: arguments.cross.clone(),
        packet: arguments.packet,
        period: arguments.period,
        fragment: arguments.fragment,
        audio_frame: arguments.audio_frame,
        fps: arguments.fps,
        touch: arguments.touch,
        limits: arguments.limits,
    };
    let planned = taut_advise::plan::plan(&plan).map_err(|e| e.to_string())?;
    if arguments.json {
        print_json(&planned)?;
    } else {
        let laws = planned.laws.as_ref().map_or_else(String::new, |laws| format!("{laws}\n"));
        print(&format!("{laws}{}\n", planned.prediction))?;
    }
    let failed = planned.prediction.compliant != Some(true);
    Ok(if failed && arguments.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
