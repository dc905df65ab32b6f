//! `taut plan`: the closed-form model from the command line.

use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use taut_core::{Bitrate, Bytes, Duration};
use taut_qos::model::{Cbr, FixedFragment, SharedLink, Stream, TcpFlow, predict};
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
    cross: Vec<Flow>,
    /// One packet of the stream on the wire
    #[arg(long, default_value = "137B")]
    packet: Bytes,
    /// Time between packets of the stream
    #[arg(long, default_value = "1ms")]
    period: Duration,
    /// Bytes of audio or video in each packet; 0B for a stream without
    #[arg(long, default_value = "58B")]
    fragment: Bytes,
    /// Bytes of an audio frame
    #[arg(long, default_value = "160B")]
    audio_frame: Bytes,
    /// Video frames a second
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    fps: u32,
    /// The arm touches this, and it has to be calm in the operator's hand: foam, spring or wall
    #[arg(long, value_name = "THING")]
    touch: Option<Thing>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// End with exit status 1 when a limit is not met
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy)]
enum Flow {
    Tcp(TcpFlow),
    Cbr(Cbr),
}

impl FromStr for Flow {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let (first, second) = (parts.next(), parts.next());
        if parts.next().is_some() {
            return Err(format!("`{text}` has too many parts; write tcp:578B:2 or cbr:1.904Mbit:150B"));
        }
        match (kind, first) {
            ("tcp", segment) => Ok(Self::Tcp(TcpFlow {
                segment: quantity(segment, "578B")?,
                ack_every: second.unwrap_or("2").parse().map_err(|_| "ACK_EVERY is a whole number")?,
            })),
            ("cbr", Some(rate)) => {
                Ok(Self::Cbr(Cbr { rate: quantity(Some(rate), "")?, packet: quantity(second, "150B")? }))
            }
            _ => Err(format!("`{text}` is not a flow; write tcp[:SEGMENT[:ACK_EVERY]] or cbr:RATE[:PACKET]")),
        }
    }
}

fn quantity<T: FromStr>(text: Option<&str>, default: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.unwrap_or(default).parse().map_err(|e: T::Err| e.to_string())
}

pub(crate) fn plan(arguments: &Arguments) -> Ended {
    let mut link = SharedLink {
        rate: arguments.rate,
        delay: arguments.delay,
        buffer: arguments.buffer,
        stream: Stream { packet: arguments.packet, period: arguments.period },
        tcp: Vec::new(),
        cbr: Vec::new(),
        multiplexer: (arguments.fragment > Bytes::ZERO).then_some(FixedFragment {
            fragment: arguments.fragment,
            audio_frame: Some(arguments.audio_frame),
            video_period: Some(Duration::from_nanos(1_000_000_000 / u64::from(arguments.fps))),
        }),
    };
    for flow in &arguments.cross {
        match flow {
            Flow::Tcp(tcp) => link.tcp.push(*tcp),
            Flow::Cbr(cbr) => link.cbr.push(*cbr),
        }
    }
    let mut prediction = predict(&link).map_err(|e| e.to_string())?;
    if link.load() >= link.rate {
        // A delay that the few packets keep that such a link carries is no need that is met.
        prediction.compliance.retain(|need| !need.holds);
    }
    if let Some(thing) = arguments.touch {
        prediction.require_calm(thing);
    }
    if arguments.json {
        print_json(&prediction)?;
    } else {
        print(&format!("{prediction}\n"))?;
    }
    let failed = prediction.compliant != Some(true);
    Ok(if failed && arguments.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
