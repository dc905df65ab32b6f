//! Arguments `--video`: pictures from a robot's camera to an operator's eyes.

mod camera;
mod frames;
mod pipeline;
mod screen;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use taut_media::picture;

use crate::channels::named;

pub(crate) use self::camera::{Camera, CameraWords};
pub(crate) use self::screen::{Screen, ScreenWords};

/// Argument `--video` of a robot: a channel, and where its pictures come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VideoSpec {
    pub(crate) name: String,
    pub(crate) source: Source,
}

/// Where pictures come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A test picture with its number in it.
    Test(Format),
    /// A drawing of where the robot says that its hand is.
    Drawn(Format),
    /// A file of VP8, again and again.
    Ivf(PathBuf),
    /// VP8 that another program sends there.
    Rtp(SocketAddr),
    /// A pipeline of GStreamer, without its end.
    Pipeline(String),
}

/// How pictures are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum VideoCodec {
    /// By libvpx
    #[default]
    Vp8,
    /// By OpenH264, where taut was built with it
    H264,
}

impl VideoCodec {
    fn of_channel(self) -> picture::Codec {
        match self {
            Self::Vp8 => picture::Codec::Vp8,
            Self::H264 => picture::Codec::H264,
        }
    }
}

/// Of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// A second.
    pub(crate) rate: u32,
}

const FORM: &str = "write NAME=SOURCE, such as front=test or front=test:640x480@30";

impl FromStr for VideoSpec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        // With `/ask` behind it, a name of a channel.
        let (name, source) = named(text, 60, FORM)?;
        Ok(Self { name, source: source.parse()? })
    }
}

impl FromStr for Source {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest))) {
            ("test", format) => format.map_or(Ok(Format::DEFAULT), str::parse).map(Self::Test),
            ("drawn", format) => format.map_or(Ok(Format::DEFAULT), str::parse).map(Self::Drawn),
            ("ivf", Some(file)) if !file.is_empty() => Ok(Self::Ivf(file.into())),
            ("rtp", Some(at)) => at
                .parse()
                .map(Self::Rtp)
                .map_err(|_| format!("`{at}` is no address: write rtp:127.0.0.1:5004")),
            ("gst", Some(text)) if !text.trim().is_empty() => Ok(Self::Pipeline(text.to_owned())),
            (other, _) => Err(format!(
                "`{other}` is not a source of pictures; there is test, drawn, ivf:FILE, rtp:ADDRESS:PORT and gst:PIPELINE"
            )),
        }
    }
}

impl Format {
    const DEFAULT: Self = Self { width: 640, height: 480, rate: 30 };
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size and a rate: write 640x480@30");
        let (size, rate) = text.split_once('@').map_or((text, None), |(size, rate)| (size, Some(rate)));
        let (width, height) = size.split_once('x').ok_or_else(wrong)?;
        let (width, height) = (width.parse().map_err(|_| wrong())?, height.parse().map_err(|_| wrong())?);
        let rate = rate.map_or(Ok(Self::DEFAULT.rate), str::parse).map_err(|_| wrong())?;
        match rate {
            1..=240 => Ok(Self { width, height, rate }),
            _ => Err(format!("{rate} is not 1 to 240 pictures a second")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camera_is_a_name_and_a_source() {
        let spec = |width, height, rate| {
            let source = Source::Test(Format { width, height, rate });
            Ok(VideoSpec { name: "front".to_owned(), source })
        };
        assert_eq!("front=test".parse(), spec(640, 480, 30));
        assert_eq!("front=test:1280x720".parse(), spec(1280, 720, 30));
        assert_eq!("front=test:1280x720@60".parse(), spec(1280, 720, 60));
        assert!(matches!("front=drawn:320x240".parse(), Ok(VideoSpec { source: Source::Drawn(_), .. })));
        let source = |text: &str| text.parse().map(|spec: VideoSpec| spec.source);
        assert_eq!(source("front=ivf:a:b.ivf"), Ok(Source::Ivf("a:b.ivf".into())));
        assert_eq!(source("front=rtp:127.0.0.1:5004"), Ok(Source::Rtp(([127, 0, 0, 1], 5004).into())));
        let text = "videotestsrc ! video/x-raw,width=64";
        assert_eq!(source(&format!("front=gst:{text}")), Ok(Source::Pipeline(text.to_owned())));
        for wrong in [
            "front=gst: ",
            "front=ivf",
            "front=ivf:",
            "front=rtp:5004",
            "front",
            "=test",
            "front=webcam",
            "front=test:640",
            "front=test:640x480@0",
        ] {
            assert!(wrong.parse::<VideoSpec>().is_err(), "{wrong}");
        }
    }
}
