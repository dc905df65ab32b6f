//! Where a camera's pictures come from.

use std::io;
use std::net::UdpSocket;
use std::sync::mpsc::sync_channel;

use taut_core::{Duration, Time};
use taut_io::spawn_unprivileged;
use taut_video::{Drawing, Film, FrameDecoder, Image, RtpFrames, RtpTaken, Scene, Shown, VideoError};

use super::pipeline::{Came, Content, Pipeline};
use super::{Format, Source};
use crate::device::Seen;

/// The largest file.
const LARGEST: u64 = 1 << 30;
/// So long a packet, or a picture of a pipeline, is waited for: what the session says waits as long.
const PACKET: std::time::Duration = std::time::Duration::from_millis(5);
/// So long a pipeline may take to begin: to load what it is made of, to find what it plays, and its first picture.
const OPENS: std::time::Duration = std::time::Duration::from_secs(20);
/// The longest packet.
const LONGEST: usize = 65_536;

/// Pictures, when one is due.
pub(super) enum Frames {
    Test(Scene),
    Drawn(Box<Drawing>, Seen),
    File(Box<Film>),
    Rtp(Box<Rtp>),
    Pipeline(Box<Pipeline>),
}

/// What another program sends.
pub(super) struct Rtp {
    socket: UdpSocket,
    buffer: Vec<u8>,
    frames: RtpFrames,
    decoder: FrameDecoder,
}

impl Frames {
    /// Of this source, and the size and rate of its pictures, which may become others over RTP.
    ///
    /// # Errors
    /// One line.
    pub(super) fn open(source: &Source, seen: &Seen) -> Result<(Self, Format), String> {
        let wrong = |error: VideoError| error.to_string();
        match source {
            Source::Test(format) => {
                let scene = Scene::new(format.width, format.height).map_err(wrong)?;
                Ok((Self::Test(scene), *format))
            }
            Source::Drawn(format) => {
                let drawing = Drawing::new(format.width, format.height, seen.touches()).map_err(wrong)?;
                Ok((Self::Drawn(Box::new(drawing), seen.clone()), *format))
            }
            Source::Ivf(path) => {
                let of_file = |error: io::Error| format!("{}: {error}", path.display());
                if std::fs::metadata(path).map_err(of_file)?.len() > LARGEST {
                    return Err(format!("{}: longer than 1 GB", path.display()));
                }
                let film = Film::new(std::fs::read(path).map_err(of_file)?).map_err(wrong)?;
                let header = film.header();
                let (width, height) = (header.width.into(), header.height.into());
                let format = Format { width, height, rate: film.frames_a_second() };
                Ok((Self::File(Box::new(film)), format))
            }
            Source::Rtp(at) => {
                let of_socket = |error: io::Error| format!("{at}: {error}");
                let socket = UdpSocket::bind(at).map_err(of_socket)?;
                socket.set_read_timeout(Some(PACKET)).map_err(of_socket)?;
                let decoder = FrameDecoder::new().map_err(wrong)?;
                let (buffer, frames) = (vec![0; LONGEST], RtpFrames::new());
                Ok((Self::Rtp(Box::new(Rtp { socket, buffer, frames, decoder })), Format::DEFAULT))
            }
            Source::Pipeline(text) => {
                // Its elements have threads of their own, which have what the thread that starts them has: no privilege.
                let (text, (opened, opens)) = (text.clone(), sync_channel(1));
                let open = move || drop(opened.send(Pipeline::open(&text)));
                spawn_unprivileged("taut pipeline", || {}, open)
                    .map_err(|error| format!("a thread: {error}"))?;
                let hangs = |_| format!("the pipeline does not begin within {} s", OPENS.as_secs());
                let (pipeline, format) = opens.recv_timeout(OPENS).map_err(hangs)??;
                Ok((Self::Pipeline(Box::new(pipeline)), format))
            }
        }
    }

    /// The picture that is due, of this number; `None`: this one is left out.
    pub(super) fn due(&mut self, number: u32, now: Time) -> Option<Image> {
        match self {
            Self::Test(scene) => Some(scene.draw(number).clone()),
            Self::Drawn(drawing, seen) => {
                let (position, force) = seen.newest();
                let seconds = (now.saturating_since(Time::ZERO).as_nanos() % 60_000_000_000) as f32 / 1e9;
                Some(drawing.draw(&Shown { position, force, seconds }).clone())
            }
            Self::File(film) => film.next_image().ok(),
            Self::Rtp(_) | Self::Pipeline(_) => None,
        }
    }

    /// Waits for what a source with a clock of its own makes, not long; `None`: it has none.
    pub(super) fn receive(&mut self, now: impl Fn() -> Time) -> Option<Option<Came>> {
        match self {
            Self::Rtp(rtp) => {
                let came = rtp.receive(now);
                Some(came.map(|image| Came { content: Content::Image(image), age: Duration::ZERO }))
            }
            Self::Pipeline(pipeline) => Some(pipeline.receive(PACKET)),
            Self::Test(_) | Self::Drawn(..) | Self::File(_) => None,
        }
    }

    /// Has it a clock of its own?
    pub(super) fn comes(&self) -> bool {
        matches!(self, Self::Rtp(_) | Self::Pipeline(_))
    }

    /// How many come a second, as far as another program tells.
    pub(super) fn rate(&self) -> Option<u32> {
        match self {
            Self::Rtp(rtp) => rtp.frames.rate(),
            _ => None,
        }
    }

    /// Are they frames of an encoder already, as far as is known?
    pub(super) fn is_encoded(&self) -> bool {
        matches!(self, Self::Pipeline(pipeline) if pipeline.is_encoded())
    }

    /// The encoder of a pipeline, if there is one.
    pub(super) fn pipeline(&mut self) -> Option<&mut Pipeline> {
        match self {
            Self::Pipeline(pipeline) => Some(pipeline),
            _ => None,
        }
    }
}

impl Rtp {
    /// Waits for a packet, not long: the picture that it makes whole.
    fn receive(&mut self, now: impl Fn() -> Time) -> Option<Image> {
        // Nothing came, or what was refused by somebody else's socket.
        let length = self.socket.recv(&mut self.buffer).ok()?;
        match self.frames.take(now(), &self.buffer[..length]) {
            RtpTaken::Nothing => None,
            RtpTaken::Lost => {
                self.decoder.lost();
                None
            }
            // What cannot be decoded is followed by a key frame, sooner or later.
            RtpTaken::Frame(frame) => self.decoder.decode(&frame).ok().flatten(),
        }
    }
}
