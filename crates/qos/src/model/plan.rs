//! What somebody asks the model, in the quantities that are known of a link.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use taut_core::{Bitrate, Bytes, Duration};

use super::{Cbr, FixedFragment, Prediction, SharedLink, SharedLinkError, Stream, TcpFlow, predict_within};
use crate::limits::Profile;
use crate::touch::Thing;

/// A link, the stream over it, and what goes beside that.
///
/// ```
/// use taut_qos::model::Plan;
/// let plan = Plan { cross: vec!["tcp".parse()?], ..Plan::new("6Mbit".parse()?, "8ms".parse()?, "14kB".parse()?) };
/// assert!(plan.predict()?.d_max_s < 0.030);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Of the bottleneck.
    pub rate: Bitrate,
    /// Propagation one way.
    pub delay: Duration,
    /// Of the drop-tail queue.
    pub buffer: Bytes,
    /// Beside the stream.
    #[serde(default)]
    pub cross: Vec<CrossFlow>,
    /// One packet of the stream on the wire.
    #[serde(default = "packet")]
    pub packet: Bytes,
    /// Between packets of the stream.
    #[serde(default = "period")]
    pub period: Duration,
    /// Audio or video in each packet; 0: a stream without.
    #[serde(default = "fragment")]
    pub fragment: Bytes,
    /// Of an audio frame.
    #[serde(default = "audio_frame")]
    pub audio_frame: Bytes,
    /// Video frames a second, 1 to 1000.
    #[serde(default = "fps")]
    pub fps: u32,
    /// The arm touches this, and it has to be calm in the operator's hand: for whoever knows control laws to
    /// [say](Prediction::require_calm).
    pub touch: Option<Thing>,
    /// Whose limits.
    #[serde(default)]
    pub limits: Profile,
}

const fn packet() -> Bytes {
    Plan::PACKET
}
const fn period() -> Duration {
    Plan::PERIOD
}
const fn fragment() -> Bytes {
    Plan::FRAGMENT
}
const fn audio_frame() -> Bytes {
    Plan::AUDIO_FRAME
}
const fn fps() -> u32 {
    Plan::FPS
}

impl Plan {
    /// Where nobody says otherwise: a haptic sample with its fragment and all headers.
    pub const PACKET: Bytes = Bytes::new(137);
    /// Where nobody says otherwise.
    pub const PERIOD: Duration = Duration::from_millis(1);
    /// Where nobody says otherwise.
    pub const FRAGMENT: Bytes = Bytes::new(58);
    /// Where nobody says otherwise.
    pub const AUDIO_FRAME: Bytes = Bytes::new(160);
    /// Where nobody says otherwise.
    pub const FPS: u32 = 25;

    /// Of the usual stream, with nothing beside it.
    pub const fn new(rate: Bitrate, delay: Duration, buffer: Bytes) -> Self {
        Self {
            rate,
            delay,
            buffer,
            cross: Vec::new(),
            packet: Self::PACKET,
            period: Self::PERIOD,
            fragment: Self::FRAGMENT,
            audio_frame: Self::AUDIO_FRAME,
            fps: Self::FPS,
            touch: None,
            limits: Profile::Telehaptic,
        }
    }

    /// What the model says.
    ///
    /// # Errors
    /// Where it would divide by zero.
    pub fn predict(&self) -> Result<Prediction, SharedLinkError> {
        let mut link = SharedLink {
            rate: self.rate,
            delay: self.delay,
            buffer: self.buffer,
            stream: Stream { packet: self.packet, period: self.period },
            tcp: Vec::new(),
            cbr: Vec::new(),
            multiplexer: (self.fragment > Bytes::ZERO).then_some(FixedFragment {
                fragment: self.fragment,
                audio_frame: Some(self.audio_frame),
                video_period: Some(Duration::from_nanos(1_000_000_000 / u64::from(self.fps.max(1)))),
            }),
        };
        for flow in &self.cross {
            match flow {
                CrossFlow::Tcp(tcp) => link.tcp.push(*tcp),
                CrossFlow::Cbr(cbr) => link.cbr.push(*cbr),
            }
        }
        let mut prediction = predict_within(&link, self.limits)?;
        if link.load() >= link.rate {
            // A delay that the few packets keep that such a link carries is no need that is met.
            prediction.compliance.retain(|need| !need.holds);
        }
        Ok(prediction)
    }
}

/// A flow beside the stream, written `tcp[:SEGMENT[:ACK_EVERY]]` or `cbr:RATE[:PACKET]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum CrossFlow {
    /// A bulk TCP flow.
    Tcp(TcpFlow),
    /// A flow at a constant rate.
    Cbr(Cbr),
}

impl FromStr for CrossFlow {
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

impl TryFrom<String> for CrossFlow {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

fn quantity<T: FromStr>(text: Option<&str>, default: &str) -> Result<T, String>
where
    T::Err: fmt::Display,
{
    text.unwrap_or(default).parse().map_err(|e: T::Err| e.to_string())
}
