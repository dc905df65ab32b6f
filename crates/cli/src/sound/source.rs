//! Where a microphone's sound comes from.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use taut_core::{Duration, Time};
use taut_io::Clock;
use taut_sound::{Clicks, FRAME, PERIOD, RATE, Samples, Tone};

use super::Source;

/// The longest file: half an hour.
const LONGEST: usize = RATE * 60 * 30;
/// Of a program that is read for the first time so much may wait: a pipe holds 64 KiB.
const IN_PIPE: Duration = Duration::from_millis(700);
/// A program may give so much at once, for it heard while nobody read: a pipe holds 0.7 s, and what records about as much. And it may be faster than
/// this host's clock by one part in so many: sound cards are off by less.
const AT_ONCE: Duration = Duration::from_secs(2);
const FASTER: u64 = 1_000;
/// So often its end is looked for, every 10 ms, when its output has ended.
const ENDS_WITHIN: u32 = 100;
/// A host that was late for longer leaves out what it missed.
const MOST_BEHIND: u64 = 10;

/// Sound, a frame after another.
pub(super) enum Frames {
    Clicks(Pace, Clicks),
    Tone(Pace, Tone),
    File { pace: Pace, samples: Vec<i16>, next: usize },
    Program { pace: Pace, child: Child, output: ChildStdout },
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
                let mut child = program.spawn(Stdio::null(), Stdio::piped())?;
                let output = child.stdout.take().ok_or("it has no output")?;
                Self::Program { pace: Pace::default(), child, output }
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
            Self::Program { pace, child, output } => {
                let mut bytes = [0; FRAME * 2];
                match output.read_exact(&mut bytes) {
                    Ok(()) => {
                        let sample = |at: usize| i16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
                        let began = pace.of_another(clock, ended, || waits_in(output));
                        Ok((began, std::array::from_fn(sample)))
                    }
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(end_of(child, ended)),
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

    /// A frame of another program was read: when it began, before what `waits` behind it. Holds up only a program that has no clock of its own, such
    /// as one that reads a file.
    fn of_another(&mut self, clock: Clock, ended: &Receiver<()>, waits: impl FnOnce() -> Duration) -> Time {
        let now = clock.now();
        let due = self.0.unwrap_or(now - IN_PIPE).max(now - AT_ONCE);
        self.0 = Some(due + (PERIOD - PERIOD / FASTER));
        if due > now {
            let _: Result<(), RecvTimeoutError> = ended.recv_timeout((due - now).into());
            return clock.now() - PERIOD;
        }
        now - PERIOD - waits()
    }
}

/// How long the sound is that a program has made, and nobody has read.
fn waits_in(output: &ChildStdout) -> Duration {
    let bytes = rustix::io::ioctl_fionread(output).unwrap_or(0);
    Duration::from_nanos(bytes / 2 * 1_000_000_000 / RATE as u64)
}

/// How a program has ended whose output has; it may go on without one.
fn end_of(child: &mut Child, ended: &Receiver<()>) -> String {
    for _ in 0..ENDS_WITHIN {
        match child.try_wait() {
            Ok(Some(status)) => return format!("the program ended: {status}"),
            Ok(None) => {}
            Err(error) => return format!("the program ended: {error}"),
        }
        let a_while = std::time::Duration::from_millis(10);
        if ended.recv_timeout(a_while) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    "the program has closed its output, and still runs".to_owned()
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::device::Program;

    /// What this program writes; it is killed with its test.
    struct Running(Frames);

    impl Running {
        fn start(command: &str) -> Self {
            let program = Program::of_command(&format!("exec:{command}")).unwrap().unwrap();
            Self(Frames::open(&Source::Program(program)).unwrap())
        }

        fn parts(&mut self) -> (&mut Child, &mut ChildStdout) {
            let Frames::Program { child, output, .. } = &mut self.0 else { panic!("a program") };
            (child, output)
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let (child, _) = self.parts();
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    #[test]
    fn what_waits_in_a_pipe_was_heard_before() {
        let (_here, ended) = sync_channel(1);
        let clock = Clock::start();
        let mut running = Running::start("sh -c 'head -c 9600 /dev/zero; exec sleep 60'");
        let period = std::time::Duration::from(PERIOD);
        while clock.now() < Time::ZERO + PERIOD * 30 || waits_in(running.parts().1) < PERIOD * 10 {
            std::thread::park_timeout(period);
        }
        for behind in (1..=10).rev() {
            let before = clock.now();
            let (began, _) = running.0.next_frame(clock, &ended).unwrap();
            let heard = PERIOD * behind;
            assert!((before - heard..=clock.now() - heard).contains(&began), "{behind} frames: {began}");
        }
    }

    #[test]
    fn a_program_without_a_clock_of_its_own_is_read_as_sound_is_heard() {
        let (_here, ended) = sync_channel(1);
        let mut running = Running::start("head -c 960000 /dev/zero");
        let clock = Clock::start();
        // A session that has gone on for long gives it no more at once than a pipe holds.
        while clock.now() < Time::ZERO + Duration::from_secs(1) {
            std::thread::park_timeout(PERIOD.into());
        }
        let began = clock.now();
        for _ in 0..120 {
            running.0.next_frame(clock, &ended).unwrap();
        }
        let took = clock.now() - began;
        assert!(took >= PERIOD * 48, "{took}");
    }

    #[test]
    fn a_program_that_closes_its_output_and_goes_on_is_told_from_one_that_ends() {
        let (_here, ended) = sync_channel(1);
        for (command, said) in [
            ("sh -c 'exec sleep 60 >&-'", "the program has closed its output, and still runs"),
            ("sh -c 'exit 3'", "the program ended: exit status: 3"),
        ] {
            let why = Running::start(command).0.next_frame(Clock::start(), &ended).unwrap_err();
            assert_eq!(why, said);
        }
    }
}
