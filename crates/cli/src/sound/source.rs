//! Where a microphone's sound comes from.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use taut_core::Time;
use taut_io::Clock;
use taut_sound::{Clicks, FRAME, PERIOD, RATE, Samples, Tone};

use super::Source;

/// The longest file: half an hour.
const LONGEST: usize = RATE * 60 * 30;
/// A host that was late for longer leaves out what it missed.
const MOST_BEHIND: u64 = 10;

/// Sound, a frame after another.
pub(super) enum Frames {
    Clicks(Pace, Clicks),
    Tone(Pace, Tone),
    File { pace: Pace, samples: Vec<i16>, next: usize },
    Program { child: Child, output: ChildStdout },
}

/// A source without a clock of its own has this host's.
#[derive(Default)]
pub(super) struct Pace(Option<Time>);

impl Frames {
    /// # Errors
    /// One line.
    pub(super) fn open(source: &Source) -> Result<Self, String> {
        Ok(match source {
            Source::Clicks => Self::Clicks(Pace::default(), Clicks::default()),
            Source::Tone(hertz) => Self::Tone(Pace::default(), Tone::new((*hertz).into())),
            Source::Wav(path) => {
                let samples = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                Self::File { pace: Pace::default(), samples, next: 0 }
            }
            Source::Program(program) => {
                let (name, arguments) =
                    program.words().split_first().ok_or("exec: is followed by a program")?;
                let mut child = Command::new(name)
                    .args(arguments)
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .spawn()
                    .map_err(|error| format!("{name}: {error}"))?;
                let output = child.stdout.take().ok_or("it has no output")?;
                Self::Program { child, output }
            }
        })
    }

    /// Waits for the next frame, or until nobody is left who holds the other end of `ended`; when its first sample was heard.
    ///
    /// # Errors
    /// One line, when there is no more.
    pub(super) fn next_frame(
        &mut self,
        clock: Clock,
        ended: &Receiver<()>,
    ) -> Result<(Time, Samples), String> {
        match self {
            Self::Clicks(pace, clicks) => Ok((pace.wait(clock, ended), clicks.next_frame())),
            Self::Tone(pace, tone) => Ok((pace.wait(clock, ended), tone.next_frame())),
            Self::File { pace, samples, next } => {
                let frame = std::array::from_fn(|at| samples[(*next + at) % samples.len()]);
                *next = (*next + FRAME) % samples.len();
                Ok((pace.wait(clock, ended), frame))
            }
            Self::Program { child, output } => {
                let mut bytes = [0; FRAME * 2];
                match output.read_exact(&mut bytes) {
                    Ok(()) => {
                        let sample = |at: usize| i16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
                        Ok((clock.now() - PERIOD, std::array::from_fn(sample)))
                    }
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                        let ended =
                            child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                        Err(format!("the program ended: {ended}"))
                    }
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }
}

impl Pace {
    /// Waits until a frame that began when the one before ended is over; when it began.
    fn wait(&mut self, clock: Clock, ended: &Receiver<()>) -> Time {
        let now = clock.now();
        let mut began = self.0.unwrap_or(now);
        if now > began + PERIOD * MOST_BEHIND {
            began = now - PERIOD;
        }
        let left = (began + PERIOD).saturating_since(clock.now());
        let _: Result<(), RecvTimeoutError> = ended.recv_timeout(std::time::Duration::from(left));
        self.0 = Some(began + PERIOD);
        began
    }
}

/// All of a file.
fn read(path: &Path) -> Result<Vec<i16>, String> {
    let mut file = hound::WavReader::open(path).map_err(|error| error.to_string())?;
    let spec = file.spec();
    let is_ours = spec.sample_rate == RATE as u32
        && spec.channels == 1
        && spec.bits_per_sample == 16
        && spec.sample_format == hound::SampleFormat::Int;
    if !is_ours {
        return Err(format!(
            "{} Hz, {} channels, {} bits; make it 48000 Hz, mono, 16 bits: ffmpeg -i {} -ar 48000 -ac 1 -sample_fmt s16 mono.wav",
            spec.sample_rate,
            spec.channels,
            spec.bits_per_sample,
            path.display()
        ));
    }
    let samples: Result<Vec<i16>, _> = file.samples().take(LONGEST + 1).collect();
    let samples = samples.map_err(|error| error.to_string())?;
    match samples.len() {
        0..FRAME => Err("it is shorter than 10 ms".to_owned()),
        FRAME..=LONGEST => Ok(samples),
        _ => Err("it is longer than 30 minutes".to_owned()),
    }
}
